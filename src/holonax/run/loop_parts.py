"""A method as diffrax's time loop takes it: the term, the solver and the controller of its steps.

diffrax takes longer to import than the rest of holonax. It is needed to trace the loop, not to run
a program that is on disk: import this module inside the functions that trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from .._modules import Module
from ..formulation.base import Formulation
from ..problem import StepContext, stabilized
from ..result.interpolation import levels_held
from ..system.base import Array
from .control import EqualSteps, ErrorControl, StepsState, interval
from .jumps import constraint_jumps, unexplained_change
from .status import BLOW_UP, Failure, SolverStatus

if TYPE_CHECKING:
    from jaxtyping import PyTree


# Velocities below this (SI units) may be turned around by rounding.
_SLOW = 1e-8


class _Rates(Module):
    """The rates of a formulation, for (q, v) and for the full state alike. Equal ones are equal, so
    that what is traced with one serves for the other."""

    formulation: Formulation

    def __call__(self, t: Any, y: Any, context: StepContext) -> Any:
        rates = self.formulation.vector_field(t, (y[0], y[1]), context)
        if len(y) == 2:
            return rates
        return jax.tree.map(jnp.zeros_like, y)._replace(q=rates[0], v=rates[1])


def problem_term(formulation: Formulation) -> diffrax.ODETerm:
    """The diffrax term of a formulation."""
    return diffrax.ODETerm(_Rates(formulation))


class StabilizedSolver(diffrax.AbstractSolver):
    """`solver` on the problem of `formulation`, with the formulation's map after each step.

    Stops the loop as soon as the state is not finite, has blown up, or could not be solved for,
    keeping the last good state and its time. Can be handed to `diffrax.diffeqsolve` with the
    term `problem_term(formulation)` and `args=StepContext(system, dt)`. With `retry`, for steps
    chosen by their error, such a step is given an infinite error instead, so that a shorter one is
    tried; errors are then returned as one number, in units of the tolerance. What is not
    `differentiable` is traced in less time. A step that is taken again may have its correction
    followed back `by_equations` that this solves. What `keeps` the solutions of its steps hands
    them out by `solved_step`.
    """

    solver: Any
    formulation: Formulation
    retry: bool = eqx.field(static=True, default=False)
    differentiable: bool = eqx.field(static=True, default=True)
    by_equations: bool = eqx.field(static=True, default=False)
    keeps: bool = eqx.field(static=True, default=False)

    term_structure: ClassVar[Any] = diffrax.AbstractTerm

    @property
    def interpolation_cls(self) -> PyTree:  # pyright: ignore
        if self.solver.interpolation == "hermite":
            return diffrax.ThirdOrderHermitePolynomialInterpolation.from_k
        return diffrax.LocalLinearInterpolation

    def order(self, terms: PyTree) -> int | None:
        return self.solver.order(terms)

    def error_order(self, terms: PyTree) -> PyTree:
        return self.solver.error_order(terms)

    def _context(
        self, args: StepContext, t0: Array, t1: Array, y0: tuple[Array, Array], old: Any
    ) -> StepContext:
        context = StepContext(
            *(args.system, t1 - t0, self.formulation, None, args.tolerance),
            differentiable=self.differentiable,
            known=args.known,
            keeps=self.keeps,
            start=args.start,
        )
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
        y0: PyTree,
        args: StepContext,
        solver_state: SolverStatus,
        made_jump: Any,
    ) -> Any:
        y1, error, dense, status, result = _step(self, terms, t0, t1, y0, args, solver_state)
        dense = {name: x for name, x in dense.items() if name != "solution"}
        return y1, error, dense, status, result

    def solved_step(
        self,
        terms: PyTree,
        t0: Array,
        t1: Array,
        y0: tuple[Array, Array],
        args: StepContext,
        solver_state: SolverStatus,
    ) -> PyTree:
        """(state, error, status, solution): the solution of the step's equations for those that
        take the step again; None where it is not handed out."""
        y1, error, dense, status, _ = _step(self, terms, t0, t1, y0, args, solver_state)
        return y1, error, status, dense.get("solution")

    def _step(
        self,
        terms: PyTree,
        t0: Array,
        t1: Array,
        y0: tuple[Array, Array],
        args: StepContext,
        solver_state: SolverStatus,
    ) -> Any:
        context = self._context(args, t0, t1, y0, solver_state.carry)
        # The state is moved after each step, so a derivative kept from the step is stale.
        y1, error, dense, method, solved = self.solver.step(
            terms, t0, t1, y0, context, solver_state.method, True
        )
        moved = y1
        # of the step's solution it knows nothing, so that it is traced once
        plain = context._replace(known=() if self.by_equations else None)
        q, v = stabilized(self.formulation, t1, (y1[0], y1[1]), plain)
        y1 = (q, v) if len(y1) == 2 else y1._replace(q=q, v=v)
        solution = y1[:4]  # a large condition number is no blow-up
        size = jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=0) for x in solution]))
        good = jnp.logical_and(size < BLOW_UP, solved)  # false for NaN as well
        unsolved = jnp.where(solved, int(Failure.BLOWN_UP), int(Failure.NOT_CONVERGED))
        code = jnp.where(jnp.isfinite(size), unsolved, int(Failure.NOT_FINITE))
        # A projection that turns the velocities around has lost the branch the motion was on.
        states = context.system.states(v.shape[0])
        before, after = (x.at[states].set(0.0) if states.size else x for x in (y0[1], moved[1]))
        speed = jnp.maximum(jnp.max(jnp.abs(before)), jnp.max(jnp.abs(after)))
        lost = jnp.max(jnp.abs(v - moved[1])) > 0.5 * speed + _SLOW
        code = jnp.where(good & lost, int(Failure.LOST_BRANCH), jnp.where(good, 0, code))
        good = good & ~lost
        moving = context.system.moving_constraints(q.shape[0]) is not None
        held = levels_held(self.formulation, self.solver) if moving else (True, True)
        if moving:
            jumped = constraint_jumps(context, t0, t1, y0[0], held)
            code, good = jnp.where(jumped, int(Failure.JUMPED), code), good & ~jumped
        y1 = jax.tree.map(lambda new, old: jnp.where(good, new, old), y1, y0)
        if "y1" in dense:
            dense = {**dense, "y1": y1}
        if self.retry:
            error = self._error_size(context, y0, moved, error)
            if self.formulation.kind == "ode":
                error = jnp.maximum(error, self._correction_size(context, y0, moved, y1))
            if moving and not held[0]:
                error = jnp.maximum(error, unexplained_change(context, t0, t1, y0, y1))
            error = jnp.where(good, error, jnp.inf)
            result = diffrax.RESULTS.successful
        else:
            error = None
            result = diffrax.RESULTS.where(
                good, diffrax.RESULTS.successful, diffrax.RESULTS.internal_error
            )
        status = SolverStatus(method, code, jnp.where(good, t1, t0), context.carry)
        return y1, error, dense, status, result

    @staticmethod
    def _error_size(
        context: StepContext,
        y0: tuple[Array, Array],
        y1: tuple[Array, Array],
        error: tuple[Array, Array],
    ) -> Array:
        """The error of a step in units of the tolerance; some methods give it so themselves."""
        if isinstance(error, jax.Array):
            return error
        system = context.system
        position, *others = error
        if position.shape != others[0].shape:  # of quaternions
            position = system.difference(y1[0], y1[0] + position)
        return context.tolerance.size(system, y0, y1, (position, *others))

    @staticmethod
    def _correction_size(
        context: StepContext,
        y0: tuple[Array, Array],
        moved: tuple[Array, Array],
        y1: tuple[Array, Array],
    ) -> Array:
        """How far the formulation's map has moved the state, in units of the tolerance.

        Of the order of the error in a regular configuration; where constraints become dependent it
        tells of errors that estimates do not see.
        """
        system = context.system
        correction = system.difference(system.normalize(moved[0]), y1[0]), y1[1] - moved[1]
        return context.tolerance.size(system, y0, y1, correction)

    def first_step(self, t: Array, y: tuple[Array, Array], args: StepContext, order: Any) -> Array:
        """A length for the first step, for steps chosen by their error."""
        context = self._context(args, t, t + args.dt, y, None)
        rates = lambda t, y: self.formulation.rates(context, t, y)  # noqa: E731
        return context.tolerance.first_step(context.system, rates, t, y, order)

    def func(self, terms: Any, t0: Any, y0: Any, args: StepContext) -> Any:
        context = self._context(args, t0, t0 + args.dt, y0, None)
        return terms.vf(t0, (y0[0], y0[1]), context)


# The time loop traces its step several times; inside a jit the work of tracing is done once.
_step = eqx.filter_jit(StabilizedSolver._step)


class Steps(diffrax.AbstractStepSizeController[StepsState, Any]):
    """The controller of diffrax's loop: a rule for the steps, a limit of their number, events.

    The loop ends with the result `max_steps_reached` after `limit` kept steps, and with
    `event_occurred` at the end of a step after which `watch` says so, at an event most of all.
    `end` is where the first step ends; it is taken from the state, so that where the loop is
    interrupted changes nothing. If the state has room for them, every `every`-th kept step is
    saved; for every=0 those that end at a knot.
    """

    rule: EqualSteps | ErrorControl
    limit: Array
    end: Array
    watch: Any = None
    every: int = eqx.field(static=True, default=1)

    def wrap(self, direction: Any) -> Steps:
        return self

    def init(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        dt0: Any,
        args: Any,
        func: Any,
        error_order: Any,
    ) -> tuple[Any, StepsState]:
        # The loop is always entered with a state; this is asked for the first step's end only.
        return self.end, StepsState(self.end, jnp.asarray(0), None, None, None)

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: PyTree,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: StepsState,
    ) -> Any:
        state = controller_state
        keep, end, rule, stuck = self.rule.judge(t0, t1, y_error, error_order, state.rule)
        watched, results = state.watch, diffrax.RESULTS
        result = results.successful
        if self.watch is not None:
            seen = self.watch.judge(args, t0, y0, t1, y1_candidate, keep, state.watch)
            rule = jax.tree.map(lambda a, b: jnp.where(seen.again, a, b), state.rule, rule)
            end = jnp.where(seen.again, seen.end, end)
            keep, watched = jnp.logical_and(keep, ~seen.again), seen.state
            result = results.where(seen.stop, results.event_occurred, result)
        taken = state.taken + keep
        enough = jnp.logical_and(taken >= self.limit, result == results.successful)
        result = results.where(enough, results.max_steps_reached, result)
        if stuck is not False:
            result = results.where(stuck, results.dt_min_reached, result)
        t = t1 if keep is True else jnp.where(keep, t1, t0)
        saved = state.saved
        if saved is not None:
            before, after = interval(self.rule.knots, t1)
            at_knot = jnp.logical_or(t1 == before, t1 == after)
            due = taken % self.every == 0 if self.every else at_knot
            saved = saved.add(t1, y1_candidate, jnp.logical_and(keep, due))
        return keep, t, end, False, StepsState(end, taken, rule, watched, saved), result
