"""Implicit integrators on the residual of any formulation: what they share, and one-stage methods.

The equations of a stage and its unknowns are those of `stage.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .._arguments import flag
from .._numbers import count, finite_number
from ..problem import FullState, StepContext
from ..system.base import Array
from .base import Integrator
from .kept import KeptFactor
from .known import KnownStart, Solution
from .newton import Linear, NewtonCounts, Scaling, Solved, newton
from .stage import Stage

if TYPE_CHECKING:
    from diffrax import ODETerm
    from jaxtyping import PyTree


class ImplicitStep(Integrator):
    """Base of implicit integrators: the full state, Newton options and counts.

    **Arguments:** `tolerance` and `max_iterations` of Newton's method; `modified=True` keeps a
    Newton matrix within a step as long as changes shrink well, as is done without it where bodies
    and joints are eliminated together: beams, nets, bodies on springs. The Newmark family keeps
    that of a net from step to step.
    """

    accepts: ClassVar[tuple[str, ...]] = ("ode", "dae", "index3")
    solves_equations: ClassVar[bool] = True

    tolerance: float = eqx.field(static=True, default=1e-10, kw_only=True)
    max_iterations: int = eqx.field(static=True, default=12, kw_only=True)
    modified: bool = eqx.field(static=True, default=False, kw_only=True)

    def __check_init__(self) -> None:
        owner = type(self).__name__
        finite_number(owner, "tolerance", self.tolerance, positive=True)
        count(owner, "max_iterations", self.max_iterations)
        flag(owner, "modified", self.modified)

    def first_state(self, context: StepContext, t: Array, q: Array, v: Array) -> FullState:
        if context.formulation.kind != "ode":  # whose accelerations depend on the state alone
            carry = context.formulation.carry(context, t, (q, v), None)
            context = context._replace(carry=carry)
        known = KnownStart.of(context, t, q, v)
        if known is None:
            plain = context._replace(start=None)
            a, lam = context.formulation.accelerations(plain, t, (q, v))
        else:
            a, lam = known.accelerations(context, t, q, v)
        z = context.formulation.algebraic_start(context, t, q, lam)
        return FullState(q, v, a, z, jnp.zeros(()))

    def init(self, terms: ODETerm, t0: Array, t1: Array, y0: PyTree, args: StepContext) -> Any:
        return NewtonCounts.zero()

    def statistics(self, solver_state: NewtonCounts) -> dict[str, int]:
        return solver_state.statistics()

    @staticmethod
    def _dependent(context: StepContext) -> bool:
        """Whether the multipliers of the step's equations are not determined."""
        return context.formulation.kind != "ode" and context.system.has_redundant_constraints

    def _solve(self, *given: Any) -> tuple[Any, Array, NewtonCounts, Array]:
        """The solution by `_newton`: the unknowns, whether they solve the equations, the counts and
        the condition number."""
        return self._newton(*given)[:4]

    def _newton(
        self,
        residual: Any,
        start: PyTree,
        context: StepContext,
        scaling: Scaling | None = None,
        linear: Linear | None = None,
        q: Array | None = None,
        kept: KeptFactor | None = None,
    ) -> Solved:
        """Newton on the unknowns of a step, the algebraic variables being the last of them; the
        step begins at q."""
        tolerance: Any = self.tolerance
        if context.tolerance is not None:  # what is left of the equations is no part of the error
            tolerance = jnp.minimum(tolerance, 1e-2 * context.tolerance.rtol)
        return newton(
            residual,
            start,
            tolerance=tolerance,
            max_iterations=self.max_iterations,
            modified=self.modified,
            scaling=scaling,
            linear=linear,
            dependent=self._dependent(context),
            plain=not context.system.has_reaction_forces,
            auxiliary=context.formulation.kind == "ode",
            differentiable=context.differentiable,
            known=context.known,
            size=None if q is None else jnp.max(jnp.abs(jax.lax.stop_gradient(q)), initial=0.0),
            kept=kept,
        )

    def _solve_stage(self, stage: Stage, start: PyTree) -> tuple[Any, Array, NewtonCounts, Array]:
        """Newton on the unknowns of a stage."""
        scaling, linear = stage.scaling, stage.linear
        return self._solve(stage.residual, start, stage.context, scaling, linear, stage.y0.q)


def error_by_index(
    context: StepContext, t1: Array, y0: FullState, y1: FullState, error: tuple[Array, Array, Array]
) -> Array:
    """The size, in units of the tolerance, of an error of position, velocity and z.

    Errors of variables of index 2 count times h, of index 3 times h^2 (Hairer, Wanner 1996, Section
    VII.7): with constraints of position level velocities and multipliers, else the multipliers.
    Multipliers that only keep the position in place are zero in the exact solution, and none is an
    unknown of its own where it follows from the state; neither is measured.
    """
    formulation, h = context.formulation, context.dt
    rows = context.system.constraint_rate(y1.q, y1.v, t1).shape[0]
    position, velocity, z = error
    if formulation.index == 3:
        velocity = h * velocity
    lam = formulation.multipliers(z, rows)
    if lam is None or not rows:
        return context.tolerance.size(context.system, y0, y1, (position, velocity))
    y0, y1 = (y._replace(z=formulation.multipliers(y.z, rows)) for y in (y0, y1))
    lam = h ** (formulation.index - 1) * lam
    return context.tolerance.size(context.system, y0, y1, (position, velocity, lam))


class ImplicitMidpoint(ImplicitStep):
    """The implicit midpoint rule, order 2: dynamics at the middle, constraints at the end.

    Multipliers belong to the middle of the step.
    """

    reference: ClassVar[str] = "Bauchau, Epple, Bottasso 2009, Section 2"
    multiplier_lag: ClassVar[float] = 0.5

    def order(self, terms: ODETerm | None) -> int:
        return 2

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: FullState,
        args: StepContext,
        solver_state: NewtonCounts,
        made_jump: bool,
    ) -> Any:
        h = t1 - t0
        system, still = args.system, jnp.zeros_like(y0.v)
        end = (t1, 2.0) if args.formulation.index > 1 else None
        stage = Stage(args, t0 + 0.5 * h, y0, still, y0.v, 0.5 * h, end)
        start = stage.start(y0.v, y0.a, y0.z)
        x, solved, counts, condition = self._solve_stage(stage, start)
        _, d, _, a, z = stage.state(x)
        q = system.normalize(system.retract(y0.q, 2 * d))
        y1 = FullState(q, y0.v + h * a, a, z, condition)
        dense = {"y0": y0, "y1": y1, "solution": Solution(x, solved)}
        return y1, None, dense, solver_state + counts, solved


class Trapezoidal(ImplicitStep):
    """The trapezoidal rule, order 2.

    It does not damp the multipliers, so it is not offered for constraints of position level.
    """

    accepts: ClassVar[tuple[str, ...]] = ("ode", "dae")
    reference: ClassVar[str] = "Hairer, Wanner 1996, Section IV.3"

    def order(self, terms: ODETerm | None) -> int:
        return 2

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: FullState,
        args: StepContext,
        solver_state: NewtonCounts,
        made_jump: bool,
    ) -> Any:
        p = 0.5 * (t1 - t0)
        stage = Stage(args, t1, y0, p * y0.v, y0.v + p * y0.a, p)
        start = stage.start(y0.v, y0.a, y0.z)
        x, solved, counts, condition = self._solve_stage(stage, start)
        q, _, v, a, z = stage.state(x)
        y1 = FullState(args.system.normalize(q), v, a, z, condition)
        dense = {"y0": y0, "y1": y1, "solution": Solution(x, solved)}
        return y1, None, dense, solver_state + counts, solved
