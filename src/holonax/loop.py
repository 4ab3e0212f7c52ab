"""The compiled time loop, diffrax's, and the segments in which the host drives it.

One call of the compiled program takes a limited number of steps; what is saved, progress, events
that change the state, checkpoints and a change of method all happen between calls. Step size, end
time, tolerances and parameters are traced values: changing them does not recompile. Where a
segment ends does not change a single bit of the solution.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from .formulation import StepContext
from .integrator import StabilizedSolver
from .integrator.base import problem_term
from .steps import EqualSteps, ErrorControl, Steps, StepsState, Tolerance
from .system.base import Array, System

traces = {"segment": 0}
_TRIES = 4  # steps tried for each one that is kept, at most, before a segment ends


class Loop(eqx.Module):
    """What a segment of the loop is made of, apart from the state it starts from.

    `first` is the length of the first step [s], chosen by the error where it is not positive; it
    has no meaning for equal steps.
    """

    system: System
    solver: StabilizedSolver
    rule: EqualSteps | ErrorControl
    tolerance: Tolerance | None
    first: Array
    watch: Any

    @property
    def context(self) -> StepContext:
        """What is handed to diffrax as `args`."""
        return StepContext(self.system, jnp.ones(()), tolerance=self.tolerance)


class LoopState(NamedTuple):
    """Everything the loop goes on from."""

    t: Array
    y: Any
    solver: Any
    steps: StepsState


class Segment(NamedTuple):
    """What one call of the compiled program returns: saved states, the state it ended with, counts
    of steps, and how it ended."""

    ts: Any
    ys: Any
    state: LoopState
    taken: Array
    rejected: Array
    finished: Array
    event: Array
    failed: Array


@eqx.filter_jit
def begin(loop: Loop, t: Array, q: Array, v: Array) -> LoopState:
    """The first state of the method, of its solver and of the control of its steps."""
    solver, rule = loop.solver, loop.rule
    terms = problem_term(solver.formulation)
    context = loop.context._replace(formulation=solver.formulation)
    if isinstance(rule, EqualSteps):
        context = context._replace(dt=rule.dt)
    y = solver.solver.first_state(context, t, q, v)
    if isinstance(rule, EqualSteps):
        end, control = rule.first(t)
    else:
        chosen = solver.first_step(t, y, loop.context, solver.solver.first_order(terms))
        end, control = rule.first(t, jnp.where(loop.first > 0, loop.first, chosen))
    watched = None if loop.watch is None else loop.watch.first(loop.context, t, y)
    state = solver.init(terms, t, end, y, loop.context)
    return LoopState(t, y, state, StepsState(end, jnp.asarray(0), control, watched))


@eqx.filter_jit
def advance(loop: Loop, state: LoopState, limit: Array, every: int, size: int) -> Segment:
    """At most `limit` steps that are kept, and at most to the last knot.

    Saves each `every`-th step, at most `size` of them; with every=0 the states at the knots after
    the first one, or none at all for size=0.
    """
    traces["segment"] += 1
    knots = loop.rule.knots
    if every:
        subs = diffrax.SubSaveAt(steps=every)
    elif size:
        subs = diffrax.SubSaveAt(ts=knots[1:])
    else:
        subs = None
    end = diffrax.SubSaveAt(t1=True)
    entered = state.steps._replace(taken=jnp.asarray(0))
    solution = diffrax.diffeqsolve(
        problem_term(loop.solver.formulation),
        loop.solver,
        state.t,
        knots[-1],
        None,
        state.y,
        loop.context,
        saveat=diffrax.SaveAt(subs=(subs, end), solver_state=True, controller_state=True),
        stepsize_controller=Steps(loop.rule, limit, state.steps.end, loop.watch),
        adjoint=diffrax.ForwardMode(),
        max_steps=_TRIES * every * size if every else None,
        throw=False,
        solver_state=state.solver,
        controller_state=entered,
    )
    saved_t: Any = solution.ts
    saved_y: Any = solution.ys
    results, how = diffrax.RESULTS, solution.result
    finished, event = how == results.successful, how == results.event_occurred
    more = how == results.max_steps_reached
    arrived: Any = saved_t[1][0]
    return Segment(
        ts=saved_t[0],
        ys=saved_y[0],
        state=LoopState(
            arrived,
            jax.tree.map(lambda x: x[0], saved_y[1]),
            solution.solver_state,
            solution.controller_state,  # pyright: ignore[reportArgumentType]
        ),
        taken=solution.stats["num_steps"],
        rejected=solution.stats["num_rejected_steps"],
        # a limit reached in the last step of all is no reason to go on
        finished=finished | (more & (arrived >= knots[-1])),
        event=event,
        failed=~(finished | event | more),
    )
