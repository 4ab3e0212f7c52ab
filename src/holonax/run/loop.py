"""The compiled time loop, diffrax's, and the segments in which the host drives it.

One call of the compiled program takes a limited number of steps; what is saved, progress, events
that change the state, checkpoints and a change of method all happen between calls. Step size, end
time, tolerances and parameters are traced values: changing them does not recompile. Where a
segment ends does not change a single bit of the solution.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._memory import Memory
from .._parts import Parts
from ..compiler import native
from ..integrator.known import KnownStart
from ..problem import StepContext
from ..system.base import Array, System
from ..system.timed import TimedSystem
from .control import Absolute, EqualSteps, ErrorControl, Saved, StepControl, StepsState, Tolerance
from .events import Event, Watch

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..compiler.native import Native

traces = {"segment": 0}


class Setup(NamedTuple):
    """What the loop is made of and stays the same over a run; `control` is None for equal steps."""

    system: System
    formulation: Any
    integrator: Any
    control: StepControl | None
    events: tuple[Event, ...]


class Settings(NamedTuple):
    """The numbers of a run.

    Steps hit the times `knots` and end at the last of them. `numbers` are the length of equal steps
    [s]; that of the first of those chosen by their error, which is chosen as well where it is not
    positive; and the relative tolerance. `atol` is the absolute one of positions, velocities and
    algebraic variables, one after the other; None for equal steps. `signs` are those of the event
    functions. `window` is from when the loop counts the time, and between which times its functions
    are smooth (see `TimedSystem`); None where it counts the time itself and there are no breaks.
    """

    knots: Any
    numbers: Any
    atol: Any
    signs: Any
    window: Any


class LoopState(NamedTuple):
    """Everything the loop goes on from."""

    t: Array
    y: Any
    solver: Any
    steps: StepsState


class SegmentCounts(NamedTuple):
    """How a segment went: where it ended, the steps tried, rejected and saved, and how it ended."""

    t: Any
    taken: Any
    rejected: Any
    saved: Any
    finished: Any
    event: Any
    failed: Any


class Segment(NamedTuple):
    """What one call of the compiled program returns: rows (t, y...) of saved states, the state it
    ended with, and its `SegmentCounts` as a vector."""

    rows: Any
    state: LoopState
    counts: Array


def _parts():
    """`loop_parts`, imported when a loop is first traced, though not as a part of the trace."""
    with jax.ensure_compile_time_eval():
        from . import loop_parts
    return loop_parts


class Loop:
    """A method with the numbers of a run, as diffrax takes it."""

    def __init__(
        self,
        method: Setup,
        settings: Settings,
        *,
        differentiable: bool = False,
        by_equations: bool = False,
        keeps: bool = False,
    ):
        parts = _parts()
        dt, self.first, rtol = settings.numbers
        adaptive = method.control is not None
        self.solver = parts.StabilizedSolver(
            method.integrator,
            method.formulation,
            retry=adaptive,
            differentiable=differentiable,
            by_equations=by_equations,
            keeps=keeps,
        )
        self.terms = parts.problem_term(method.formulation)
        tolerance = None
        if adaptive:
            n = settings.atol.shape[0] // 2
            atol = Absolute(settings.atol[:n], settings.atol[n : 2 * n], settings.atol[2 * n])
            tolerance = Tolerance(rtol, atol)
        system = method.system
        if settings.window is not None:
            system = TimedSystem(system, *settings.window)
        self.context = StepContext(system, jnp.ones(()), tolerance=tolerance)
        self.rule: EqualSteps | ErrorControl = EqualSteps(settings.knots, dt)
        if method.control is not None:
            self.rule = ErrorControl(settings.knots, method.control)
        self.watch = Watch(method.events, settings.signs) if method.events else None


def begun(loop: Loop, method: Setup, t: Array, q: Array, v: Array, known: Any = None) -> LoopState:
    """The first state of the method, of its solver and of the control of its steps; `known` is that
    of the method, where it was found before and is only followed back."""
    solver, rule, terms = loop.solver, loop.rule, loop.terms
    start = None
    if known is not None and method.integrator.begins_again:
        start = KnownStart(known)
    context = loop.context._replace(formulation=method.formulation, start=start)
    if isinstance(rule, EqualSteps):
        context = context._replace(dt=rule.dt)
    y = solver.solver.first_state(context, t, q, v)
    if isinstance(rule, EqualSteps):
        end, control = rule.first(t)
    else:
        chosen = solver.first_step(t, y, loop.context, solver.solver.first_order(terms))
        end, control = rule.first(t, jnp.where(loop.first > 0, loop.first, chosen))
    watched = None if loop.watch is None else loop.watch.first(loop.context, t, y)
    state = solver.init(terms, t, end, y, loop.context._replace(start=start))
    return LoopState(t, y, state, StepsState(end, jnp.asarray(0), control, watched, None))


def _advance(
    method: Setup, settings: Settings, state: LoopState, limit: Array, every: int, size: int
) -> Segment:
    """At most `limit` steps that are kept, and at most to the last knot.

    Saves each `every`-th step, or with every=0 those that end at a knot; at most `size` of them,
    none at all for size=0.
    """
    traces["segment"] += 1
    parts = _parts()
    diffrax = parts.diffrax
    loop = Loop(method, settings)
    saved = Saved.room(size, state.y) if size else None
    solution = diffrax.diffeqsolve(
        loop.terms,
        loop.solver,
        state.t,
        settings.knots[-1],
        None,
        state.y,
        loop.context,
        saveat=diffrax.SaveAt(t1=True, solver_state=True, controller_state=True),
        stepsize_controller=parts.Steps(loop.rule, limit, state.steps.end, loop.watch, every),
        adjoint=diffrax.ForwardMode(),
        max_steps=None,
        throw=False,
        solver_state=state.solver,
        controller_state=state.steps._replace(taken=jnp.asarray(0), saved=saved),
    )
    times: Any = solution.ts
    steps: Any = solution.controller_state
    results, how = diffrax.RESULTS, solution.result
    finished, event = how == results.successful, how == results.event_occurred
    more = how == results.max_steps_reached
    counts = SegmentCounts(
        t=times[0],
        taken=solution.stats["num_steps"],
        rejected=solution.stats["num_rejected_steps"],
        saved=steps.saved.filled if size else 0,
        # a limit reached in the last step of all is no reason to go on
        finished=finished | (more & (times[0] >= settings.knots[-1])),
        event=event,
        failed=~(finished | event | more),
    )
    return Segment(
        rows=steps.saved.rows if size else None,
        state=LoopState(
            times[0],
            jax.tree.map(lambda x: x[0], solution.ys),
            solution.solver_state,
            steps._replace(saved=None),
        ),
        counts=jnp.stack([jnp.asarray(x, dtype=float) for x in counts]),
    )


@lru_cache(maxsize=256)
def _compiled(system: Hashable, rest: Hashable) -> tuple[Native, Native]:
    """`begun` and `_advance` for methods of one structure, as functions of their arrays."""

    def method(arrays: PyTree) -> Setup:
        return Setup(Parts.joined(arrays[0], system), *Parts.joined(arrays[1], rest))

    def begin(arrays: tuple[tuple[Array, ...], tuple[Array, ...]], *given: Any) -> LoopState:
        settings, *start = given
        return begun(Loop(method(arrays), settings), method(arrays), *start)

    def advance(arrays: tuple[tuple[Array, ...], tuple[Array, ...]], *given: Any) -> Segment:
        return _advance(method(arrays), *given)

    return native(begin, once=True), native(advance, static=(4, 5))


@dataclass
class _Prepared:
    """The arrays of a system, with the compiled loop of the methods of one structure on it."""

    arrays: tuple[Any, ...]
    begin: Any
    advance: Any
    speed: float = 0.0


_prepared: Memory[_Prepared] = Memory(16)


class CompiledLoop:
    """The compiled loop of a method; a system is taken apart for it once, not in each run."""

    def __init__(self, method: Setup):
        others = Parts.of(method[1:])

        def prepared() -> _Prepared:
            system = Parts.of(method.system)
            arrays = tuple(np.asarray(x) for x in system.arrays)
            return _Prepared(arrays, *_compiled(system.rest, others.rest))

        self._parts = _prepared.of(method.system, others.rest, prepared)
        self._arrays = self._parts.arrays, others.arrays

    @property
    def speed(self) -> float:
        """How many steps it took in a second when last seen; zero if that is not known."""
        return self._parts.speed

    @speed.setter
    def speed(self, value: float) -> None:
        self._parts.speed = value

    def begin(self, settings: Settings, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> LoopState:
        """The first state of the method, of its solver and of the control of its steps."""
        return self._parts.begin(self._arrays, settings, t, q, v)

    def advance(
        self, settings: Settings, state: LoopState, limit: np.ndarray, every: int, size: int
    ) -> tuple[Segment, SegmentCounts]:
        """At most `limit` steps that are kept; see `_advance`."""
        segment = self._parts.advance(self._arrays, settings, state, limit, every, size)
        return segment, SegmentCounts(*np.asarray(segment.counts).tolist())
