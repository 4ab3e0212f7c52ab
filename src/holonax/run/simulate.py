"""The only way in: any legal pair of methods, with equal steps or steps chosen by their error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
from jax.core import Tracer

from .. import integrator as integrators
from .._arguments import checked_call
from .._config import check_precision
from .._messages import shown
from .._numbers import as_array, count, finite_number, number, real
from ..formulation import Formulation, PostStabilized
from ..integrator import Dopri5
from ..result.result import Result
from ..start.consistent import Start, check_start, consistent
from ..system.base import System, check_system
from ..system.clock import Clock
from ..system.signals import check_breaks
from .auto import RTOL, drive, new_auto
from .control import StepControl, Tolerance
from .driver import Outcome, Run, follow, new_run
from .events import Event, as_events, check_events
from .failure import broken, explain, explain_event, torn
from .pairs import (
    check_pair,
    check_reaction_forces,
    check_undetermined,
    check_varying_mass,
    default_integrator,
    is_legal,
)
from .request import Progress, Request
from .scale import absolute, described
from .storage import Folder, Storage, checked_path, load

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..integrator.base import Integrator
    from .loop import LoopState

Save = Literal["steps", "end"] | int | Any
_FEW = 16  # steps of the first segment of a run with checkpoints, which may be slow

_LONGEST = 100  # steps that a run has at least, where something depends on the time explicitly
_SHORTEST, _MOST_STEPS = 1e-200, 2.0**50  # the length of a run [s], and its number of equal steps


def _save_plan(save: Save, t0: float, t_end: float) -> tuple[int, np.ndarray | None]:
    """(every, times): each n-th step, or given times; (0, None) for the end only."""
    if isinstance(save, str):
        if save == "steps":
            return 1, None
        if save == "end":
            return 0, None
        raise ValueError(
            f'simulate: save={shown(save)} is not known. Use "steps", "end", a whole number n for '
            "every n-th step, or an array of times."
        )
    if isinstance(save, (int, np.integer)) and not isinstance(save, bool):
        return count("simulate", "save", save), None
    given = real(save)
    times = np.zeros(0) if given is None else np.atleast_1d(given)
    if times.ndim != 1 or times.size == 0 or not np.all(np.isfinite(times)):
        raise ValueError(
            f"simulate: save={shown(save)} must be a vector of finite times [s], a whole number n "
            'for every n-th step, "steps" or "end".'
        )
    if np.any(np.diff(times) <= 0):
        raise ValueError("simulate: the times given as save must increase. Sort them.")
    if times[0] < t0 or times[-1] > t_end * (1 + 1e-12):
        raise ValueError(
            f"simulate: times to save at lie outside the run, {t0} s to {t_end} s: "
            f"{times[0]} ... {times[-1]}. Leave those out, or change t_end."
        )
    return 0, times


@checked_call
def simulate(
    system: System,
    start: Start | tuple[Any, Any],
    t_end: float,
    *,
    dt: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    method: Literal["auto"] | None = None,
    formulation: Formulation | None = None,
    integrator: Any = None,
    save: Save = "steps",
    control: StepControl | None = None,
    events: Event | Sequence[Event] = (),
    breaks: Any = (),
    progress: bool | Callable[[Progress], None] = False,
    checkpoint: Any = None,
    checkpoint_every: float = 10.0,
    store: Any = None,
) -> Result:
    """Simulate `system` from a consistent `start` to `t_end` [s].

    Either with equal steps of at most `dt` [s], or with steps whose error stays below
    atol + rtol |y| (root mean square over all components of q and v), which `rtol` asks for.

    **Arguments:**

    - `start`: from `consistent` or `model.build()`; a pair (q, v) is made consistent first.
    - `method`: ``"auto"`` leaves the choice of both methods to the motion: explicit with projection
      until it proves stiff, implicit while it is; `result.choices` says what was chosen, when and
      why. A trial of the implicit method that does not pay is taken back, its steps counted in
      ``stats["trial_steps"]`` only. `rtol` is then 1e-6 unless given.
    - `formulation`: how the constraints are enforced; default ``PostStabilized("both", passes=2)``.
    - `integrator`: the time stepping method; default: the formulation's own choice.
    - `save`: ``"steps"`` (every step), a whole number n (every n-th), ``"end"``, or an array of
      times: equal steps are made to hit them exactly, steps chosen by their error are not touched
      and the solution between them is interpolated to the method's order, constraints holding.
    - `rtol`, `atol`: relative and absolute tolerance of a step's error; `atol` is `rtol` / 100 of
      what is usual for the mechanism, its size and speeds, unless given; `print(result)` says what
      it was. Positions are measured by their size, rotations in radians, velocities by
      theirs, multipliers by theirs at the power of the step that belongs to their index. `dt` is
      then the first step, which is chosen if it is left out. Takes an integrator with an error
      estimate, by default `Dopri5`.
    - `control`: how the length of error-controlled steps is chosen.
    - `events`: what to look for on the way, and what happens then; see `Event`.
    - `breaks`: times [s] at which forces or drivers are not smooth. They are hit exactly and the
      method begins anew there, beside those that the model and `Step`, `Pulse`, `Table` announce.
    - `progress`: True prints a line twice a second at most; a function is given a `Progress`.
    - `checkpoint`: a directory to which the run is written every `checkpoint_every` seconds, so
      that `resume` can go on from there, to the last bit as if nothing had happened. A new or
      empty one, or that of an earlier run, which is replaced.
    - `store`: a directory to which saved states are written as the run goes, so that memory does
      not grow with it; `result.t`, `q` and `v` are then arrays on disk. May be the same one.

    Equal steps: `dt` is reduced so that a whole number of steps reaches `t_end` (or the next
    saved time). A run that fails in the middle, or is interrupted (Ctrl-C), returns all it has
    computed, with `success=False`, a `status` and the reason in `message`.
    """
    check_system("simulate", system)
    check_precision("simulate")
    _check_untraced(system, start)
    if method is not None:
        rtol = _check_auto(method, dt, rtol, formulation, integrator)
    formulation = _usual()[0] if formulation is None else formulation
    if integrator is None and isinstance(formulation, Formulation):
        explicit = rtol is not None and is_legal(formulation, _usual()[1])
        integrator = _usual()[1] if explicit else default_integrator(formulation)
    check_pair(formulation, integrator)
    check_reaction_forces("simulate", system, formulation, integrator)
    check_varying_mass("simulate", system, integrator)
    t_end = finite_number("simulate", "t_end", t_end)
    rtol = _tolerance(integrator, dt, rtol, atol, control)
    step = finite_number("simulate", "dt", 1.0 if dt is None else dt, positive=True)
    start = _consistent_start(system, start)
    if t_end <= start.t:
        raise ValueError(
            f"simulate: t_end={t_end} s is not after the start, t={start.t} s. Give a later end."
        )
    every, times = _save_plan(save, start.t, t_end)
    given = {"system": system, "formulation": formulation, "integrator": integrator}
    span = t_end - start.t
    _check_steps(span, None if rtol is not None else step)
    tolerance = None
    if rtol is not None:
        tolerance = Tolerance(as_array(rtol), absolute(system, start, rtol, atol))
    breaks = np.union1d(check_breaks("simulate", breaks), system.time_breaks())
    control = _usual()[2] if control is None else control
    if tolerance is not None:
        hidden = system.has_unannounced_times(int(np.size(start.q)))
        control = control.limited(span / _LONGEST if hidden else np.inf)
    if start.redundant:
        check_undetermined("simulate", system, start)
        system = system.with_redundant_constraints()
    if times is None and tolerance is None:
        step = span / max(np.ceil(span / step * (1 - 1e-9)), 1.0)
    request = Request(
        t_end=t_end,
        dt=step,
        tolerance=tolerance,
        control=control,
        first=0.0 if dt is None else step,
        every=every,
        times=times,
        events=check_events(system, start.t, start.q, start.v, events),
        clock=Clock.of(start.t, t_end, None if tolerance is not None else step, breaks),
        progress=_reporter(progress),
    )
    storage = _storage(checkpoint, checkpoint_every, store)
    run = new_run(request, system, start)
    if method is not None and rtol is not None:
        run.auto = new_auto(run, rtol)
    if storage is not None:
        run.limit, run.brief = _FEW, True
        given["events"] = as_events("simulate", events)
        storage.begin(run, (formulation, integrator), given)
    return _completed(run, formulation, integrator, storage)


def _check_untraced(system: System, start: Start | tuple[ArrayLike, ArrayLike]) -> None:
    of_start = jax.tree.leaves(start) if isinstance(start, Start) else start
    of_start = of_start if isinstance(of_start, (tuple, list)) else ()
    if any(isinstance(x, Tracer) for x in (*jax.tree.leaves(system), *of_start)):
        raise TypeError(
            "simulate drives a run from the host and takes no traced values. Inside of jit, grad "
            "or vmap use hx.trajectory(system, start, times, ...)."
        )


@cache
def _usual() -> tuple[Formulation, Integrator, StepControl]:
    """The formulation, the integrator for a tolerance and the control, where none are given."""
    return PostStabilized("both", passes=2), Dopri5(), StepControl()


def _check_auto(
    method: object, dt: Any, rtol: object, formulation: Any, integrator: Integrator
) -> float:
    """The tolerance of an automatic choice of the method; refuses what contradicts it."""
    if not isinstance(method, str) or method != "auto":
        raise ValueError(
            f'simulate: method={shown(method)} is not known. Use "auto", or give a formulation and '
            "an integrator."
        )
    if formulation is not None or integrator is not None:
        raise ValueError(
            'simulate: method="auto" chooses formulation and integrator. Leave them out, or leave '
            "method out."
        )
    if dt is not None and rtol is None:
        raise ValueError(
            'simulate: method="auto" chooses its steps by their error. Give rtol, or leave method '
            "out for equal steps of dt."
        )
    return RTOL if rtol is None else rtol


def _storage(checkpoint: Any, every: Any, store: Any) -> Storage | None:
    """Where the run is written, if anywhere."""
    if checkpoint is None and store is None:
        return None
    paths = {"checkpoint": checkpoint, "store": store}
    found = {checked_path("simulate", name, x) for name, x in paths.items() if x is not None}
    if len(found) > 1:
        raise ValueError(
            "simulate: checkpoint and store name two directories. A run is kept in one: give the "
            "same path for both."
        )
    every = finite_number("simulate", "checkpoint_every", every, positive=True)
    folder = Folder(found.pop())
    return Storage(folder, every=None if checkpoint is None else every, forget=store is not None)


def _completed(
    run: Run,
    formulation: Formulation,
    integrator: Any,
    storage: Storage | None,
    state: LoopState | None = None,
) -> Result:
    """Follow a run to its end, from its start or from where it was interrupted."""
    try:
        if run.auto is None:
            outcome = follow(run, formulation, integrator, resumed=state, storage=storage)
        else:
            outcome = drive(run, storage, state)
        if storage is not None and outcome.kind != "interrupt":
            storage.checkpoint(run, (formulation, integrator), None, outcome)
        return _result(run, outcome, storage)
    finally:
        if storage is not None:
            storage.close()


@checked_call
def resume(
    path: object,
    *,
    system: System | None = None,
    events: Event | Sequence[Event] = (),
    formulation: Formulation | None = None,
    integrator: Any = None,
    progress: bool | Callable[[Progress], None] = False,
) -> Result:
    """Go on with the run whose checkpoints are in the directory `path`.

    The end is the same, to the last bit, as if the run had not been stopped; further checkpoints
    are written to the same place. A run that had come to its end is returned as it was.

    `system` and `events` are needed where they contain functions, or classes of your own: a file
    holds numbers and what this package consists of, and nothing in it is executed. The same holds
    for a `formulation` or `integrator` of your own. Give what was given to `simulate`; what differs
    from it, in a number or in what a function computes, is refused with a `StorageError`.
    """
    events = as_events("resume", events)
    parts = {
        "system": system,
        "events": events or None,
        "formulation": formulation,
        "integrator": integrator,
    }
    report = _reporter(progress)
    given = {name: x for name, x in parts.items() if x is not None}
    loaded = load(Folder(checked_path("resume", "path", path)), given)
    storage, run = loaded.storage, loaded.run
    run.request = replace(run.request, progress=report)
    if loaded.outcome is not None:
        try:
            return _result(run, loaded.outcome, storage)
        finally:
            storage.close()
    chosen, stepper = loaded.method
    return _completed(run, chosen, stepper, storage, loaded.state)


def _reporter(progress: object) -> Any:
    """The function to report progress to, if any."""
    if progress is True:
        return lambda now: print(now, flush=True)
    if progress is False or progress is None:
        return None
    if not callable(progress):
        raise TypeError(f"simulate: progress={shown(progress)} must be True, False or a function.")
    return progress


def _result(run: Run, outcome: Outcome, storage: Storage | None) -> Result:
    """What a run has computed, whichever way it ended."""
    request, steps, start = run.request, run.steps, run.start
    if run.states.latest == -np.inf:  # ended before the first time that was asked for
        run.states.last(run.ticks, (run.q, run.v))
    arrays = run.states.arrays() if storage is None else storage.arrays(run.states)
    trouble = "" if storage is None else storage.trouble
    ticks = None
    if request.clock.origin != 0.0:
        ticks = np.array(arrays["t"])
        arrays["t"] = request.clock.time(ticks)
    status = outcome.kind
    message = {
        "end": f"reached t = {request.t_end:g} s in {steps} steps",
        "event": f"ended by event {outcome.name!r} at t = {outcome.t:.10g} s after {steps} steps",
        "rest": f"ended at t = {outcome.t:.10g} s after {steps} steps, where {outcome.name!r} has "
        "come to rest",
        "interrupt": f"interrupted at t = {outcome.t:g} s after {steps} steps; all states before "
        "it are returned",
    }.get(outcome.kind, "")
    success = outcome.kind in ("end", "event", "rest")
    if outcome.kind == "failure":
        status, message = _failure(run, outcome)
    elif success and run.states.legs:
        wrong = broken(run.system, run.states.legs[-1], run.t, run.q, run.v)
        if not wrong and request.every == 1 and request.times is None and storage is None:
            at = arrays["t"] if ticks is None else ticks
            wrong = torn(arrays["legs"], arrays["leg"], at, arrays["q"], arrays["v"])
        if wrong:
            status, success, message = "drift", False, f"{message}, {wrong}"
    if storage is not None and storage.full and outcome.kind == "interrupt":
        status = "storage"
        message = (
            f"stopped at t = {outcome.t:g} s after {steps} steps, since {trouble} All states "
            "before it are returned"
        )
    elif trouble:
        message += f"; {trouble.rstrip('.')}"
    dt = request.dt
    if request.tolerance is not None:
        message += f" ({run.rejected} rejected)"
        dt = (outcome.t - start.t) / max(steps - run.rejected, 1)
    if start.redundant:
        message += "; constraints are redundant, multipliers are the minimum-norm ones"
    saved = {0: "end", 1: "steps"}.get(request.every, f"every {request.every} steps")
    return Result(
        system=type(run.system).complete(run.system),
        start=start,
        success=success,
        status=status,
        message=message,
        events=run.occurrences,
        choices=[] if run.auto is None else run.auto.choices,
        clock=request.clock,
        ticks=ticks,
        stats={
            "steps": steps,
            "rejected": run.rejected,
            **({} if run.auto is None else {"trial_steps": run.auto.trial_steps}),
            "wall_time": run.spent + time.perf_counter() - run.began,
            "compiled": run.compiling[0] > 0,
            "compile_time": run.compiling[1],
            "build_time": start.seconds,
            "dt": dt,
            "saved": saved if request.times is None else "times",
            **_tolerances(run),
            **run.counts,
        },
        **arrays,
    )


def _tolerances(run: Run) -> dict[str, float | str]:
    """What was asked of the steps' error, and their longest length."""
    tolerance, control = run.request.tolerance, run.request.control
    if tolerance is None:
        return {}
    return {
        "rtol": float(tolerance.rtol),
        "atol": described(run.system, tolerance.absolute),
        "dt_max": float(control.dt_max),
    }


def _check_steps(span: float, step: float | None) -> None:
    """Refuse a run that is too short for numbers, or has more steps than can be counted."""
    if span < _SHORTEST:
        raise ValueError(
            f"simulate: the run is {span:g} s long, too short to be divided into steps. Give a "
            "later t_end."
        )
    if step is not None and span / step > _MOST_STEPS:
        raise ValueError(
            f"simulate: dt={step:g} s makes {span / step:.1e} steps of {span:g} s, more than can "
            "be counted. Give a longer dt."
        )


def _tolerance(
    integrator: Any, dt: Any, rtol: object, atol: object, control: StepControl | None
) -> float | None:
    """The relative tolerance of each step's error; None for equal steps."""
    if rtol is None:
        for name, value in (("atol", atol), ("control", control)):
            if value is not None:
                raise ValueError(f"simulate: {name} means nothing without rtol. Give rtol as well.")
        if dt is None:
            raise ValueError(
                "simulate: give dt [s] for equal steps, or rtol for steps chosen by their error."
            )
        if integrator.needs_tolerance:
            name = type(integrator).__name__
            raise ValueError(
                f"simulate: {name} chooses its order and steps by their error. Give rtol; dt is "
                "then the first step, and may be left out."
            )
        return None
    if not integrator.estimates_error:
        able = [
            name
            for name in integrators.__all__
            if getattr(getattr(integrators, name), "estimates_error", False)
        ]
        raise ValueError(
            f"simulate: {type(integrator).__name__} has no error estimate for rtol={shown(rtol)}. "
            f"Leave rtol out and give dt, or use one of: {', '.join(able)}."
        )
    wanted = "a number above 0 and below 1, such as 1e-6"
    rtol = number(
        "simulate", "rtol", rtol, good=lambda x: 0 < x < 1, wanted=wanted, wrong_type=TypeError
    )
    if atol is not None:
        finite_number("simulate", "atol", atol, positive=True)
    if control is not None and not isinstance(control, StepControl):
        raise TypeError(
            f"simulate: control={shown(control)} is not an hx.StepControl(...). Give one, or leave "
            "it out."
        )
    return rtol


def _consistent_start(system: System, start: Start | tuple[ArrayLike, ArrayLike]) -> Start:
    """The start, made consistent if it is a pair (q, v); refused if of another system."""
    if not isinstance(start, Start):
        if not (isinstance(start, (tuple, list)) and len(start) == 2):
            raise TypeError(
                f"simulate: start={shown(start)} is not a start. Give what hx.consistent(...) or "
                "model.build() returns, or a pair (q, v)."
            )
        return consistent(system, *start)
    check_start("simulate", system, start)
    return start


def _failure(run: Run, outcome: Outcome) -> tuple[str, str]:
    """The status and message of a run that stopped in the middle."""
    if outcome.name:
        what, advice = explain_event(outcome.code, outcome.number)
        return "event", (
            f"stopped at t = {outcome.t:g} s after {run.steps} steps: event {outcome.name!r} "
            f"{what}. All states before it are returned. {advice}."
        )
    # steps that were too small have come to within rounding of what stopped them
    step = max(outcome.t_tried - outcome.t, 1e-6 * max(1.0, abs(outcome.t)))
    integrator = run.states.legs[-1].integrator if run.states.legs else None
    reason = explain(run.system, run.start, outcome.t, run.q, run.v, step, outcome.code, integrator)
    return reason.status, (
        f"stopped at t = {outcome.t:g} s after {run.steps} steps: in the step to "
        f"t = {outcome.t_tried:g} s {reason.cause}. All states before it are returned. "
        f"{reason.advice}."
    )
