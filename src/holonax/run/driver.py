"""The host's side of a run: segments of the compiled loop, and what happens between them."""

from __future__ import annotations

import math
import signal
import threading
import time
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..compiler import CompilationInterrupted, compiling, counts
from ..result.interpolation import on_constraints
from ..result.states import Leg, Occurrence, States
from ..start.consistent import Start
from ..system.base import System
from . import loop
from .control import Saved
from .dense_output import DenseOutput
from .events import Wrong, happen, wrong_side
from .jumps import jumps_between
from .request import Progress, Request
from .status import Failure
from .storage import Storage

if TYPE_CHECKING:
    from ..formulation.base import Formulation
    from ..integrator.base import Integrator
    from .auto import Auto
    from .loop import LoopState

_BUFFER = 2**21  # entries of the buffer of saved states in one segment
_SECONDS = 0.1  # how long a segment should take
_REPORT = 0.5  # seconds between reports of progress
_FAST = 50  # times at which events may follow upon each other within a millionth of a second
_UNSOLVED = (Failure.NONE, Failure.NOT_FINITE, Failure.NOT_CONVERGED)  # by a quick solver
_SAME_TIME = 100  # events at one and the same time before that is called endless


@dataclass
class Outcome:
    """How a run ended: `kind` is "end", "event", "rest", "failure" (`code` is the number of a
    `Failure`), "interrupt", or "pause", with the state of the loop to go on from."""

    kind: str
    t: float
    t_tried: float = 0.0
    code: int = 0
    name: str = ""
    state: Any = None
    number: float = 0.0


@dataclass
class Run:
    """A run in progress: where it is, in ticks of its clock, and what it has saved."""

    request: Request
    start: Start
    system: System
    ticks: float
    q: Any
    v: Any
    steps: int = 0
    rejected: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    states: States = field(default_factory=States)
    occurrences: list[Occurrence] = field(default_factory=list)
    signs: np.ndarray | None = None  # of the event functions, and their allowances beyond zero
    settled: bool = False  # whether all events at the present state have happened
    systems: dict[Any, Any] = field(default_factory=dict)  # by joints released and contacts closed
    began: float = field(default_factory=time.perf_counter)
    spent: float = 0.0  # seconds before a resumption
    compiled_before: tuple[int, float] = field(default_factory=lambda: counts.so_far)
    limit: int = 256  # steps in a segment
    brief: bool = False  # whether segments are short even where few states are saved
    since: float = 0.0  # when the present stretch of the motion began, in ticks
    kept: int = 0  # steps kept since then
    auto: Any = None  # the choice of the method, where that is automatic
    reported: float = 0.0

    @property
    def t(self) -> float:
        """The time [s]."""
        return self.request.clock.time(self.ticks)

    @property
    def compiling(self) -> tuple[int, float]:
        """How many programs were compiled since the run began, and for how many seconds."""
        (n, seconds), (before, earlier) = counts.so_far, self.compiled_before
        return n - before, seconds - earlier


def _number(x: object) -> np.ndarray:
    """A traced number; numpy's, which costs less to make than one of JAX."""
    return np.asarray(x, dtype=float)


def follow(
    run: Run,
    formulation: Formulation,
    integrator: Integrator,
    *,
    resumed: LoopState | None = None,
    storage: Storage | None = None,
    pause: Any = None,
) -> Outcome:
    """Go on with one method to the end, a terminal event, or a failure; or until `pause.left`
    more steps have been taken, which are counted there."""
    stop = _Interrupt()
    with stop:
        state = resumed
        if state is None and run.steps == 0 and run.request.clock.at_break(run.ticks):
            failed = _pass_break(run, run.t)
            if failed is not None:
                run.states.start(_leg(run, formulation, integrator), run.ticks, (run.q, run.v))
                return failed
        while True:
            if state is None and not run.settled:
                ended = _happen(run, None)
                if ended is not None:
                    return _last(run, formulation, integrator, ended)
            outcome, event = _until_event(run, formulation, integrator, state, stop, storage, pause)
            state = None
            if event is None:
                return outcome
            # nothing may have been found: the method only begins anew
            ended = _happen(run, event) or _endless(run) if np.any(event) else None
            if ended is not None:
                return _last(run, formulation, integrator, ended)
            run.settled = True
            if storage is not None:
                storage.maybe(run, (formulation, integrator), None)
                if storage.full:
                    run.states.last(run.ticks, (run.q, run.v))
                    return Outcome("interrupt", run.t)


def leave(run: Run, formulation: Formulation, integrator: Integrator, state: Any) -> None:
    """End a stretch that was paused, for another method to go on from there."""
    _Stretch(run, formulation, integrator, state).close()


def stop_at(
    run: Run, formulation: Formulation, integrator: Integrator, state: Any, storage: Storage | None
) -> Outcome:
    """Stop a run that was paused as Ctrl-C does; a checkpoint goes on from there."""
    stretch = _Stretch(run, formulation, integrator, state)
    if storage is not None:
        storage.checkpoint(run, stretch.method, state)
    return stretch.finish(interrupted=True)[0]


def mark(run: Run) -> Run:
    """What `take_back` needs to bring a run back to where it is now.

    States are not to be written to files until then.
    """
    kept, kept.states = copy(run), copy(run.states)
    kept.states.legs, kept.states.parts = list(run.states.legs), list(run.states.parts)
    kept.occurrences = list(run.occurrences)
    return kept


def take_back(run: Run, kept: Run) -> None:
    """Undo all that has happened since `mark`: states saved, steps counted, events."""
    vars(run).update(vars(kept))


def _happen(run: Run, found: np.ndarray | None) -> Outcome | None:
    """Let events happen at the run's present state: those found there, and what follows at once."""
    request = run.request
    events = request.events
    if not events:
        return None
    which = np.zeros(len(events), bool) if found is None else found
    for _ in range(_SAME_TIME):
        done = happen(
            events,
            which,
            run.system,
            run.t,
            run.q,
            run.v,
            run.signs,
            run.systems,
            request.slack,
        )
        run.system, run.q, run.v, run.signs = done.system, done.q, done.v, done.sides
        run.occurrences += done.occurrences
        run.states.jump |= bool(done.occurrences)
        if done.wrong is not None:
            return _stopped(run, *done.wrong)
        if done.terminal or done.rest:
            kind, name = ("event", done.terminal) if done.terminal else ("rest", done.rest)
            return Outcome(kind, run.t, name=name)
        which = done.due
        if not np.any(which):
            run.settled = True
            return None
    return _stopped(run, Failure.EVENT_ENDLESS, events[int(np.argmax(which))].name)


def _stopped(run: Run, failure: int, name: str = "", number: float = 0.0) -> Outcome:
    """A failure at the run's present state, of the event `name` if any."""
    return Outcome("failure", run.t, run.t, int(failure), name, number=number)


def _endless(run: Run) -> Outcome | None:
    """Stop where events follow upon each other faster and faster."""
    last = run.occurrences[-_FAST:]
    near = 1e-6 * (1 + abs(run.t))
    if len(last) < _FAST or run.t - last[0].t > near or len({e.t for e in last}) < _FAST:
        return None
    return _stopped(run, Failure.EVENT_ENDLESS, last[-1].name)


def _last(run: Run, formulation: Formulation, integrator: Integrator, ended: Outcome) -> Outcome:
    """With the state saved that events have ended a run with."""
    states, at_times = run.states, run.request.times is not None
    if not states.legs:
        states.leg(Leg(run.system, formulation, integrator, run.request.dt))
    if ended.kind == "rest" and not at_times:
        states.last(run.ticks, (run.q, run.v), changed=True)
    elif ended.kind == "failure" or states.latest == -math.inf:
        states.last(run.ticks, (run.q, run.v))
    return ended


def _leg(run: Run, formulation: Formulation, integrator: Integrator) -> Leg:
    return Leg(run.system, formulation, integrator, run.request.dt)


class _Stretch:
    """One method on one smooth part of the motion: from its start to an event or the end."""

    def __init__(
        self, run: Run, formulation: Formulation, integrator: Any, state: LoopState | None
    ):
        request = run.request
        self.run, self.request, self.method = run, request, (formulation, integrator)
        self.leg = _leg(run, formulation, integrator)
        control = None if request.tolerance is None else request.control
        self.program = loop.CompiledLoop(
            loop.Setup(run.system, formulation, integrator, control, request.events)
        )
        run.limit = max(run.limit, _steps_in_a_segment(self.program.speed))
        self.size = _segment_size(run)
        dense = request.times is not None and request.tolerance is not None
        # times that steps are made to hit
        none = dense or request.times is None
        self.hit = None if none else request.clock.ticks(request.times)
        self.end = self._next_end(run.ticks)
        self.every = 1 if dense else request.every
        self.output = None
        if dense and request.times is not None:
            times = request.clock.ticks(request.times)
            self.output = DenseOutput(self.leg, times, run.states, request.clock)
        if state is None:
            self.state = self._begun()
        else:
            self.state = state
            run.states.leg(self.leg)
            if self.output is not None:
                self.output.load(run.states.pending)
        self.failed = self.event = False
        self.wrong: Wrong | None = None
        self.tried = run.ticks
        self._seen = len(run.states.parts)  # those whose contacts have been looked at

    def _next_end(self, ticks: float) -> float:
        """Where the stretch ends: at the next break, or with the run."""
        clock = self.request.clock
        return min(clock.next_break(ticks), clock.ticks(self.request.t_end))

    def _begun(self) -> LoopState:
        run = self.run
        run.since, run.kept, ticks = run.ticks, 0, run.ticks
        state = self.program.begin(self._settings(ticks), _number(ticks), run.q, run.v)
        run.states.start(self.leg, ticks, state.y, wanted=_wanted(self.request, run))
        if self.output is not None:
            self.output.begin(ticks, state.y)
        return state

    def _settings(self, ticks: float) -> loop.Settings:
        request, run = self.request, self.run
        whole = np.array([run.since, self.end])
        tolerance = request.tolerance
        rtol = 0.0 if tolerance is None else tolerance.rtol
        return loop.Settings(
            knots=_knots(whole, self.hit, ticks, self.size),
            numbers=np.array([request.dt, request.first, rtol]),
            atol=None if tolerance is None else np.hstack(tolerance.absolute),
            signs=_number(run.signs) if request.events else None,
            window=request.clock.window(run.since),
        )

    @property
    def over(self) -> bool:
        """Whether there is nothing to go on with."""
        stopped = self.wrong is not None or self.failed or self.event
        return stopped or self.run.ticks >= self.end

    @property
    def at_break(self) -> bool:
        """Whether the stretch has come to a break, where another one begins."""
        stopped = self.wrong is not None or self.failed or self.event
        ended = self.end >= self.request.clock.ticks(self.request.t_end)
        return self.run.ticks >= self.end and not (stopped or ended)

    def advance(self, most: int) -> int:
        """One segment of at most `most` steps; returns how many were kept."""
        run, every = self.run, max(self.every, 1)
        run.settled = False
        before = time.perf_counter()
        between = run.kept % every  # steps since the last one that was to be saved
        saving = self.size if (self.every or self.hit is not None) else 0
        apart = between > 0 or (run.brief and run.limit < every)
        if apart:
            longest = run.limit if run.brief else every
            limit, program = min(every - between, longest, most), (0, 0)
        else:
            limit = min(run.limit, every * self.size if saving else 2**30)
            limit = min(max(limit - limit % every, every), most)
            program = (self.every, saving)
        segment, counts = self.program.advance(
            self._settings(run.ticks), self.state, _number(limit), *program
        )
        self.state, self.failed = segment.state, bool(counts.failed)
        self.event, self.tried = bool(counts.event), counts.t
        taken, rejected = int(counts.taken), int(counts.rejected)
        kept = taken - rejected
        run.steps, run.rejected, run.kept = (
            run.steps + taken,
            run.rejected + rejected,
            run.kept + kept,
        )
        # a segment ends with a state that is saved, so that it may be shorter than it could be
        full = kept >= run.limit or (not apart and kept >= limit > run.limit - every)
        self._pace(kept, full, time.perf_counter() - before)
        if apart and kept and run.kept % every == 0:
            run.states.last(self.tried, self.state.y)
        elif saving and not apart:
            self._save(np.asarray(segment.rows)[: int(counts.saved)])
        run.ticks, run.q, run.v = self.tried, self.state.y[0], self.state.y[1]
        self._check_contacts()
        if self.failed:
            run.ticks = float(self.state.solver.t)
            run.steps -= self.request.tolerance is None
        return kept

    def _pace(self, kept: int, full: bool, seconds: float) -> None:
        """Choose the length of the next segment, of this run and of later ones."""
        run = self.run
        if full:  # a longer segment, unless this one took its time
            change = min(max(_SECONDS / seconds, 0.25), 64.0)
            run.limit = min(max(int(run.limit * change), 16), 2**24)
        # one that was compiled first, or interrupted by the machine, says little
        self.program.speed = max(kept / seconds, 0.5 * self.program.speed)

    def _save(self, rows: np.ndarray) -> None:
        states = self.run.states
        ts, ys = Saved.states(rows, self.state.y)
        latest = states.latest if self.output is None else self.output.latest
        before = np.concatenate([[latest], ts[:-1]])
        good = ts > before  # drops a state that was there before
        if self.hit is not None:
            good &= np.isin(ts, self.hit) & (ts <= self.tried)
        if self.failed:
            good &= ts < self.tried
        kept = jax.tree.map(lambda x: x[good], ys)
        (states if self.output is None else self.output).add(ts[good], kept)

    def _check_contacts(self) -> None:
        """Look at the contacts of all states saved since the last time."""
        states, request = self.run.states, self.request
        if not any(event.is_contact for event in request.events):
            return
        new = states.parts[self._seen if self._seen <= len(states.parts) else 0 :]
        self._seen = len(states.parts)
        tolerance = (0.0, request.slack)
        if request.tolerance is not None:
            tolerance = float(request.tolerance.rtol), request.allowed
        for leg, ts, ys in new:
            system = states.legs[leg].system
            times = request.clock.time(ts)
            found = wrong_side(request.events, system, times, ys[0], ys[1], tolerance)
            self.wrong = self.wrong or found

    def hold(self) -> None:
        """Keep what is needed to go on from here later."""
        self.run.states.pending = () if self.output is None else self.output.pending()

    def sturdier(self) -> System | None:
        """Where the equations of a step could not be solved: the system with a slower and safer
        solver for them, if there is one."""
        formulation, integrator = self.method
        implicit = formulation.step_level is not None and integrator.solves_equations
        if not implicit or int(self.state.solver.code) not in _UNSOLVED:
            return None
        return self.run.system.sturdier()

    def close(self) -> None:
        """Hand on what dense output still holds, and add the method's counts to those of the run:
        the stretch ends here."""
        run, state = self.run, self.state
        if self.output is not None:
            self.output.finish()
        formulation, integrator = self.method
        for part, own in ((integrator, state.solver.method), (formulation, state.solver.carry)):
            counts = type(part).statistics(part, own)  # as in `is_legal`, it is faster so
            run.counts = _added(run.counts, counts) if counts else run.counts

    def finish(self, interrupted: bool) -> tuple[Outcome, np.ndarray | None]:
        """How the stretch ended, and which events have happened there."""
        run, state, request = self.run, self.state, self.request
        self.close()
        self._check_contacts()
        if self.wrong is not None:
            run.states.last(run.ticks, state.y)
            return _stopped(run, *self.wrong), None
        happened = self.event and not self.failed
        found = np.asarray(state.steps.watch.found) if happened else np.zeros(0, bool)
        terminal = any(e.terminal for e, here in zip(request.events, found) if here)
        ended = not self.failed and not happened and run.t >= request.t_end
        if self.failed or interrupted or (request.times is None and (ended or terminal)):
            run.states.last(run.ticks, state.y)
        if self.failed:
            tried = request.clock.time(self.tried)
            failure = Failure(int(state.solver.code)) or Failure.TOO_SMALL
            return replace(_stopped(run, failure), t_tried=tried), None
        if happened:
            watch = state.steps.watch
            run.signs = np.stack([np.asarray(watch.signs), np.asarray(watch.bands)])
            if np.any(watch.bad):
                name = request.events[int(np.argmax(watch.bad))].name
                return _stopped(run, Failure.EVENT_NOT_FINITE, name), None
            return Outcome("event", run.t), found
        return Outcome("end" if ended else "interrupt", run.t), None


def _until_event(
    run: Run,
    formulation: Formulation,
    integrator: Integrator,
    state: LoopState | None,
    stop: _Interrupt,
    storage: Storage | None,
    pause: Auto | None,
) -> tuple[Outcome, np.ndarray | None]:
    """Segments up to the next event, or the end; which events happen there, if any."""
    stretch = _Stretch(run, formulation, integrator, state)
    while True:
        try:
            kept = stretch.advance(2**30 if pause is None else pause.left)
        except CompilationInterrupted:  # at the state that the segment was to begin from
            stretch.hold()
            if storage is not None:
                storage.checkpoint(run, stretch.method, stretch.state)
            return stretch.finish(interrupted=True)
        if pause is not None:
            pause.left -= kept
        if stretch.at_break:
            stretch.close()
            failed = _pass_break(run, np.nextafter(run.t, -np.inf))
            if failed is not None:
                run.states.last(run.ticks, (run.q, run.v))
                return failed, None
            stretch = _Stretch(run, formulation, integrator, None)
        elif stretch.over:
            sturdier = stretch.sturdier() if stretch.failed else None
            if sturdier is None:
                return stretch.finish(interrupted=False)
            stretch.finish(interrupted=False)
            run.system = sturdier
            run.counts = _added(run.counts, {"solver_changes": 1})
            stretch = _Stretch(run, formulation, integrator, None)
            continue
        paused = pause is not None and pause.left <= 0
        if paused or storage is not None:
            stretch.hold()
        if storage is not None:
            write = storage.checkpoint if stop.asked else storage.maybe
            write(run, stretch.method, stretch.state)
        _report(run)
        if stop.asked or (storage is not None and storage.full):
            return stretch.finish(interrupted=True)
        if paused:
            return Outcome("pause", run.t, state=stretch.state), None


def _pass_break(run: Run, before: float) -> Outcome | None:
    """Begin a new smooth piece: velocities that constraints ask for from here on, and not yet at
    the time `before`, are taken up by an impulse; a jump of positions ends the run."""
    run.states.jump = run.steps > 0
    moving = run.system.moving_constraints(int(np.size(run.q)))
    if moving is None:
        return None
    beside = np.array([before, np.nextafter(run.t, np.inf)])
    jumped, kinked = jumps_between(run.system, beside, run.q)
    if jumped.any():
        return _stopped(run, Failure.JUMPED)
    if kinked.any():
        q, v = (np.asarray(x)[None] for x in (run.q, run.v))
        run.v = on_constraints(run.system, (False, True), beside[1:], q, v)[1][0]
    return None


def _added(counts: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}


def _wanted(request: Request, run: Run) -> bool:
    """Whether the first state of a stretch is to be saved."""
    if request.times is not None:
        first = not run.states.parts
        return first and bool(np.any(request.clock.ticks(request.times) == run.ticks))
    return not run.states.parts or request.every == 1


def _segment_size(run: Run) -> int:
    """How many states a segment can save; a power of two, so that few programs are compiled."""
    per_state = max(int(run.q.size + 4 * run.v.size), 1)
    return min(max(2 ** int(math.log2(max(_BUFFER // per_state, 1))), 8), 4096)


def _steps_in_a_segment(speed: float) -> int:
    """How many steps a segment should have at a number of steps per second."""
    return min(int(_SECONDS * speed), 2**24)


def _knots(whole: np.ndarray, hit: np.ndarray | None, t: float, size: int) -> np.ndarray:
    """The times that steps have to hit from `t` on, after the one before it; of equal length."""
    if hit is None:
        return whole
    every = np.unique(np.concatenate([whole, hit[(hit > whole[0]) & (hit < whole[1])]]))
    after = every[every > t][:size]
    before = every[every <= t][-1]
    return np.concatenate([[before], after, np.full(size - after.size, after[-1])])


def _report(run: Run) -> None:
    report, now = run.request.progress, time.perf_counter()
    if report is None or now - run.reported < _REPORT:
        return
    run.reported = now
    elapsed = run.spent + now - run.began
    done = (run.t - run.start.t) / (run.request.t_end - run.start.t)
    running = elapsed - run.compiling[1]  # nothing is compiled a second time
    remaining = running * (1 - done) / done if done > 0 else float("inf")
    report(Progress(run.t, run.request.t_end, run.steps, elapsed, remaining))


class _Interrupt:
    """Turns Ctrl-C into a request to stop after the present segment. A second one stops at once,
    and so does the first where a program is being compiled: there is nothing yet to wait for."""

    def __init__(self) -> None:
        self.asked = False
        self._old: Any = None

    def _ask(self, *_: object) -> None:
        if self.asked or compiling:
            raise KeyboardInterrupt
        self.asked = True

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._ask)

    def __exit__(self, *_: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)


def new_run(request: Request, system: System, start: Start) -> Run:
    """A run at its start."""
    return Run(request, start, system, request.clock.ticks(start.t), start.q, start.v)
