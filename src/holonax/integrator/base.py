"""What every integrator says about itself, and the guard around each step.

An integrator is a diffrax solver with two more class variables: `accepts`, the kinds of problem it
takes (see `formulation/base.py`), and `reference`, where it comes from.
"""

from __future__ import annotations

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from ..formulation.base import OdeFormulation, StepContext, stabilized

# A component larger than this (SI units) is a blow-up, not a mechanism.
BLOW_UP = 1e15


class Integrator(eqx.Module):
    """Mixin: what an integrator accepts and where it comes from."""

    accepts: ClassVar[tuple[str, ...]]
    reference: ClassVar[str]


class StabilizedSolver(diffrax.AbstractSolver):
    """`solver` on the ODE of `formulation`, with the formulation's map after each step.

    Stops the loop as soon as the state is not finite (code 1 in the solver state) or has blown up
    (code 2), keeping the last good state and its time. Can be handed to
    `diffrax.diffeqsolve` with the term `diffrax.ODETerm(formulation.vector_field)` and
    `args=StepContext(system, dt)`.
    """

    solver: diffrax.AbstractSolver
    formulation: OdeFormulation

    @property
    def term_structure(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.solver.term_structure

    @property
    def interpolation_cls(self) -> Any:  # pyright: ignore
        return self.solver.interpolation_cls

    def order(self, terms: Any) -> int | None:
        return self.solver.order(terms)

    def error_order(self, terms: Any) -> Any:
        return self.solver.error_order(terms)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: StepContext) -> Any:
        context = StepContext(args.system, t1 - t0)
        return self.solver.init(terms, t0, t1, y0, context), jnp.asarray(0), t0

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        args: StepContext,
        solver_state: Any,
        made_jump: Any,
    ) -> Any:
        context = StepContext(args.system, t1 - t0)
        # The state is moved after each step, so a derivative kept from the step is stale.
        y1, error, dense, state, result = self.solver.step(
            terms, t0, t1, y0, context, solver_state[0], True
        )
        y1 = stabilized(self.formulation, t1, y1, context)
        size = jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in jax.tree.leaves(y1)]))
        good = size < BLOW_UP  # false for NaN as well
        code = jnp.where(good, 0, jnp.where(jnp.isfinite(size), 2, 1))
        y1 = jax.tree.map(lambda new, old: jnp.where(good, new, old), y1, y0)
        if "y1" in dense:
            dense = {**dense, "y1": y1}
        result = diffrax.RESULTS.where(good, result, diffrax.RESULTS.internal_error)
        return y1, error, dense, (state, code, jnp.where(good, t1, t0)), result

    def func(self, terms: Any, t0: Any, y0: Any, args: StepContext) -> Any:
        return self.solver.func(terms, t0, y0, args)
