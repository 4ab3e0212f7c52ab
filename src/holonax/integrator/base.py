"""What every integrator says about itself, and the guard around each step.

An integrator is a diffrax solver with two more class variables: `accepts`, the kinds of problem it
takes (see `formulation/base.py`), and `reference`, where it comes from.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from ..formulation.base import Formulation, StepContext, stabilized
from ..system.base import Array

# A component larger than this (SI units) is a blow-up, not a mechanism.
BLOW_UP = 1e15
# Velocities below this (SI units) may be turned around by rounding.
_SLOW = 1e-8


class FullState(NamedTuple):
    """The state of methods that solve for more than (q, v): accelerations, algebraic variables,
    and the condition number of the step's Newton matrix (zero unless asked for)."""

    q: Array
    v: Array
    a: Array
    z: Array
    condition: Array


class Integrator(eqx.Module):
    """Mixin: what an integrator accepts, where it comes from, and how its state begins."""

    accepts: ClassVar[tuple[str, ...]]
    reference: ClassVar[str]
    # Multipliers in the state belong to this part of a step before its end (0: the end itself).
    multiplier_lag: ClassVar[float] = 0.0
    # Whether a step comes with an estimate of its error, for steps chosen by it: increments of
    # position, of velocity and of algebraic variables, or one number in units of the tolerance.
    estimates_error: ClassVar[bool] = False
    # Whether the method cannot go without one: it chooses its order by the error as well.
    needs_tolerance: ClassVar[bool] = False

    def first_state(self, context: StepContext, t: Array, q: Array, v: Array) -> Any:
        """y at the start; explicit methods need (q, v) only."""
        return q, v

    def first_order(self, terms: Any) -> Any:
        """The order of the error of a run's first step, from which its length is chosen."""
        return self.error_order(terms)  # pyright: ignore[reportAttributeAccessIssue]

    def refusal(self, formulation: Formulation) -> str:
        """Why these options do not go with a formulation whose kind is accepted; "" if they do."""
        return ""

    def statistics(self, solver_state: Any) -> dict[str, int]:
        """Counts kept in the solver state, by name."""
        return {}


class SolverStatus(NamedTuple):
    """The state of `StabilizedSolver`: the method's own, why the loop stopped, and when.

    `code` is 0 while all is well, 1 for a state that is not finite, 2 for a blow-up, 3 for a step
    whose equations could not be solved, 6 for one whose projection turned velocities around; `t` is
    the time of the last good state.
    """

    method: Any
    code: Array
    t: Array
    carry: Any


def problem_term(formulation: Formulation) -> diffrax.ODETerm:
    """The diffrax term of a formulation, for (q, v) and for the full state alike."""

    def field(t: Any, y: Any, context: StepContext) -> Any:
        rates = formulation.vector_field(t, (y[0], y[1]), context)
        if len(y) == 2:
            return rates
        return jax.tree.map(jnp.zeros_like, y)._replace(q=rates[0], v=rates[1])

    return diffrax.ODETerm(field)


class StabilizedSolver(diffrax.AbstractSolver):
    """`solver` on the problem of `formulation`, with the formulation's map after each step.

    Stops the loop as soon as the state is not finite, has blown up, or could not be solved for,
    keeping the last good state and its time. Can be handed to `diffrax.diffeqsolve` with the
    term `problem_term(formulation)` and `args=StepContext(system, dt)`. With `retry`, for steps
    chosen by their error, such a step is given an infinite error instead, so that a shorter one is
    tried; errors are then returned as one number, in units of the tolerance.
    """

    solver: Any
    formulation: Formulation
    retry: bool = eqx.field(static=True, default=False)

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

    def _context(self, args: StepContext, t0: Any, t1: Any, y0: Any, old: Any) -> StepContext:
        context = StepContext(args.system, t1 - t0, self.formulation, None, args.tolerance)
        carry = self.formulation.carry(context, t0, (y0[0], y0[1]), old)
        return context._replace(carry=carry)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: StepContext) -> Any:
        context = self._context(args, t0, t1, y0, None)
        method = self.solver.init(terms, t0, t1, y0, context)
        return SolverStatus(method, jnp.asarray(0), jnp.asarray(t0), context.carry)

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        args: StepContext,
        solver_state: SolverStatus,
        made_jump: Any,
    ) -> Any:
        return _step(self, terms, t0, t1, y0, args, solver_state)

    def _step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: StepContext, solver_state: SolverStatus
    ) -> Any:
        context = self._context(args, t0, t1, y0, solver_state.carry)
        # The state is moved after each step, so a derivative kept from the step is stale.
        y1, error, dense, method, result = self.solver.step(
            terms, t0, t1, y0, context, solver_state.method, True
        )
        moved = y1
        q, v = stabilized(self.formulation, t1, (y1[0], y1[1]), context)
        y1 = (q, v) if len(y1) == 2 else y1._replace(q=q, v=v)
        solution = y1[:4]  # a large condition number is no blow-up
        size = jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=0) for x in solution]))
        solved = result == diffrax.RESULTS.successful
        good = jnp.logical_and(size < BLOW_UP, solved)  # false for NaN as well
        code = jnp.where(jnp.isfinite(size), jnp.where(solved, 2, 3), 1)
        # A projection that turns the velocities around has lost the branch the motion was on.
        speed = jnp.maximum(jnp.max(jnp.abs(y0[1])), jnp.max(jnp.abs(moved[1])))
        lost = jnp.max(jnp.abs(v - moved[1])) > 0.5 * speed + _SLOW
        code = jnp.where(good & lost, 6, jnp.where(good, 0, code))
        good = good & ~lost
        y1 = jax.tree.map(lambda new, old: jnp.where(good, new, old), y1, y0)
        if "y1" in dense:
            dense = {**dense, "y1": y1}
        if self.retry:
            error = self._error_size(context, y0, moved, error)
            if self.formulation.kind == "ode":
                error = jnp.maximum(error, self._correction_size(context, y0, moved, y1))
            error = jnp.where(good, error, jnp.inf)
            result = diffrax.RESULTS.successful
        else:
            error = None
            result = diffrax.RESULTS.where(good, result, diffrax.RESULTS.internal_error)
        status = SolverStatus(method, code, jnp.where(good, t1, t0), context.carry)
        return y1, error, dense, status, result

    @staticmethod
    def _error_size(context: StepContext, y0: Any, y1: Any, error: Any) -> Array:
        """The error of a step in units of the tolerance; some methods give it so themselves."""
        if isinstance(error, jax.Array):
            return error
        system = context.system
        position, *others = error
        if position.shape != others[0].shape:  # of quaternions
            position = system.difference(y1[0], y1[0] + position)
        return context.tolerance.size(system, y0, y1, (position, *others))

    @staticmethod
    def _correction_size(context: StepContext, y0: Any, moved: Any, y1: Any) -> Array:
        """How far the formulation's map has moved the state, in units of the tolerance.

        Of the order of the error in a regular configuration; where constraints become dependent it
        tells of errors that estimates do not see.
        """
        system = context.system
        correction = system.difference(system.normalize(moved[0]), y1[0]), y1[1] - moved[1]
        return context.tolerance.size(system, y0, y1, correction)

    def first_step(self, t: Array, y: Any, args: StepContext, order: Any) -> Array:
        """A length for the first step, for steps chosen by their error."""
        context = self._context(args, t, t + args.dt, y, None)
        rates = lambda t, y: self.formulation.rates(context, t, y)  # noqa: E731
        return context.tolerance.first_step(context.system, rates, t, y, order)

    def func(self, terms: Any, t0: Any, y0: Any, args: StepContext) -> Any:
        return self.solver.func(terms, t0, y0, self._context(args, t0, t0 + args.dt, y0, None))


# The time loop traces its step several times; inside a jit the work of tracing is done once.
_step = eqx.filter_jit(StabilizedSolver._step)


class OwnStep(Integrator, diffrax.AbstractSolver):
    """Base of integrators written here: one `step` over [t0, t1], no error estimate.

    Between steps the solution is interpolated linearly; output times are hit by steps.
    """

    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = diffrax.LocalLinearInterpolation

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, (y0[0], y0[1]), args)
