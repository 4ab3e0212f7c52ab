"""What was asked of an ensemble, checked, with one sentence for each mistake."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np

from .._arguments import choice
from .._messages import explained, listed, shown
from .._numbers import array, finite_number
from ..formulation import Formulation, PostStabilized
from ..integrator import Dopri5
from ..run.control import StepControl
from ..run.events import Event
from ..run.events.check import as_events, check_events
from ..run.pairs import check_pair, default_integrator, is_legal
from ..run.scale import absolute
from ..start.consistent import ConstraintError, Start, check_start, consistent
from ..system.base import System
from ..system.clock import Clock
from ..system.mechanism import Mechanism
from .batch import OWNER
from .reductions import Coordinate, Moving, Named, Reduction, StepTimes

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import ArrayLike

    from ..integrator.base import Integrator

Save = Literal["times", "end", "none"]
_LONGEST = 100  # steps that a run has at least, where something depends on the time explicitly


def known_start(
    system: System, typical: tuple[np.ndarray, np.ndarray], start: Start | None, t: float
) -> Start | None:
    """A consistent start that tells of redundant constraints and of the mechanism's size; None
    where that of the first run cannot be found: then each run says so itself."""
    if start is not None:
        check_start(OWNER, system, start)
        return start
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return consistent(system, *typical, t=float(t))
    except ConstraintError:
        return None


def grid_of(
    start: Start | None, t_end: object, times: ArrayLike | None, save: object
) -> tuple[np.ndarray, Save]:
    """The times to keep, from the start on, and which states."""
    if (t_end is None) == (times is None):
        raise ValueError(f"{OWNER}: give t_end [s], or the times [s] at which to keep states.")
    if times is None:
        t0, end = 0.0 if start is None else start.t, finite_number(OWNER, "t_end", t_end)
        if end <= t0:
            raise ValueError(
                f"{OWNER}: t_end={end} s is not after the start, t={t0} s. Give a later end."
            )
        grid = np.array([t0, end])
    else:
        grid = array(OWNER, "times", times, (None,))
        elsewhere = start is not None and grid.size > 0 and grid[0] != start.t
        if grid.size < 2 or not np.all(np.diff(grid) > 0) or elsewhere:
            when = "" if start is None else f", {start.t} s"
            raise ValueError(
                f"{OWNER}: times={shown(times)} must be two or more increasing times [s], the "
                f"first of which is that of the start{when}."
            )
    chosen = ("end" if times is None else "times") if save is None else save
    return grid, choice(OWNER, "save", chosen, ("times", "end", "none"))


def pair_of(
    formulation: Formulation, integrator: Integrator, dt: Any, rtol: object
) -> tuple[Formulation, Any]:
    """The methods, chosen as `simulate` does where they are not given."""
    if (dt is None) == (rtol is None):
        raise ValueError(
            f"{OWNER}: give dt [s] for equal steps, or rtol for steps chosen by their error."
        )
    formulation = PostStabilized("both", passes=2) if formulation is None else formulation
    if integrator is None and isinstance(formulation, Formulation):
        explicit = rtol is not None and is_legal(formulation, Dopri5())
        integrator = Dopri5() if explicit else default_integrator(formulation)
    check_pair(formulation, integrator)
    method: Any = type(integrator)
    if rtol is None and method.needs_tolerance:
        raise ValueError(f"{OWNER}: {method.__name__} chooses its steps by their error. Give rtol.")
    if rtol is not None and not method.estimates_error:
        raise ValueError(
            f"{OWNER}: {method.__name__} has no error estimate for rtol. Give dt, or use "
            "hx.Dopri5()."
        )
    return formulation, integrator


def steps_of(
    system: System,
    start: Start | None,
    typical: tuple[np.ndarray, np.ndarray],
    grid: np.ndarray,
    dt: Any,
    rtol: object,
    atol: object,
) -> tuple[np.ndarray, Any, StepControl | None]:
    """The numbers of `Settings`, the absolute tolerance and the control of steps."""
    span = grid[-1] - grid[0]
    if rtol is None:
        if atol is not None:
            raise ValueError(f"{OWNER}: atol means nothing without rtol. Give rtol as well.")
        dt = finite_number(OWNER, "dt", dt, positive=True)
        return np.array([dt, dt, 0.0]), None, None
    rtol = finite_number(OWNER, "rtol", rtol, positive=True)
    if not rtol < 1:
        raise ValueError(f"{OWNER}: rtol={rtol:g} must be below 1, such as 1e-6.")
    nv = typical[1].size
    if atol is not None:
        atol = finite_number(OWNER, "atol", atol, positive=True)
    if atol is None and start is not None:
        tolerance = np.hstack(absolute(system, start, rtol, None))
    else:
        tolerance = np.full(2 * nv + 1, rtol / 100 if atol is None else atol)
    hidden = system.has_unannounced_times(typical[0].size)
    control = StepControl().limited(span / _LONGEST if hidden else np.inf)
    return np.array([1.0, 0.0, rtol]), tolerance, control


def pieces_of(
    system: System, grid: np.ndarray, numbers: np.ndarray, tolerance: ArrayLike | None
) -> Any:
    """The run in pieces from each time or break to the next: (clock, their ticks, which of them are
    the times asked for, where functions of time are smooth, whether a piece begins at a break).

    There are a power of two of them, the last ones empty, so that other times seldom need another
    program.
    """
    step = numbers[0] if tolerance is None else None
    clock = Clock.of(grid[0], grid[-1], step, np.unique(system.time_breaks()))
    whole = np.union1d(grid, clock.breaks)
    picked = np.searchsorted(whole, grid)
    size = 1 << (len(whole) - 2).bit_length() if len(whole) > 2 else 1
    times = np.concatenate([whole, np.full(size + 1 - len(whole), whole[-1])])
    ticks = clock.ticks(times)
    if clock.window(ticks[0]) is None:
        return clock, ticks, picked, None, None
    windows = np.stack([clock.window(x) for x in ticks[:-1]])  # pyright: ignore
    fresh = np.isin(times[:-1], clock.breaks)
    fresh[0] = False
    return clock, ticks, picked, windows, fresh if np.any(fresh) else None


def checked_reductions(
    system: System, typical: Any, reduce: object, t: float
) -> dict[str, Reduction]:
    """The reductions by name, with coordinates by their numbers."""
    if reduce is None:
        return {}
    if not isinstance(reduce, Mapping) or not all(isinstance(k, str) for k in reduce):
        raise TypeError(
            f"{OWNER}: reduce={shown(reduce)} is not a dictionary of names and reductions. Give "
            "some, such as {'top speed': hx.many.Largest(lambda t, q, v: v[0])}."
        )
    names = system.coordinate_names(typical[0].size)

    def resolved(name: str) -> Any:
        if name in names:
            return Coordinate(names.index(name))
        if isinstance(system, Mechanism):
            system.named_quantity(OWNER, name)  # refuses what there is not
            return Named(name)
        raise KeyError(
            f"{OWNER}: there is no coordinate {name!r} to observe; there are {listed(names)}."
        )

    out: dict[str, Reduction] = {}
    for name, reduction in reduce.items():
        if not isinstance(reduction, Reduction):
            raise TypeError(
                f"{OWNER}: reduce[{name!r}]={shown(reduction)} is not a reduction. Give one such "
                "as hx.many.Largest(...), hx.many.FirstPassage(...) or hx.many.Bands(...)."
            )
        made = reduction.named(resolved)
        try:
            jax.eval_shape(partial(_tried, made, system, t), *typical)
        except Exception as error:
            raise ValueError(
                f"{OWNER}: reduce[{name!r}] cannot be computed: {explained(error)} Its functions "
                "are given (t, q, v) and return numbers, by jax.numpy."
            ) from None
        out[name] = made
    return out


def checked_events(system: System, typical: Any, events: Any, t: float) -> tuple[Event, ...]:
    """Events that end a run; others are refused."""
    given = check_events(system, float(t), typical[0], typical[1], as_events(OWNER, events))
    for event in given:
        owner = f"{OWNER}: the event {event.name!r}"
        if event.change is not None or event.engage or event.release:
            raise ValueError(
                f"{owner} changes the state or the joints, for which there is hx.simulate. Leave "
                "it out, or let it end the run: terminal=True."
            )
        if not event.terminal:
            raise ValueError(
                f"{owner} does not end the run. Give it terminal=True; to observe a time without "
                "ending there use reduce={...: hx.many.FirstPassage(...)}."
            )
        if event.quantity is not None and event.quantity.circular:
            raise ValueError(
                f"{owner} is on an angle in space, which is known up to whole turns. Give a "
                "function of (t, q, v)."
            )
    return given


def reporter(progress: object) -> Any:
    """The function to report progress to, if any."""
    if progress is True:
        return lambda now: print(now, flush=True)
    if progress is False or progress is None:
        return None
    if not callable(progress):
        raise TypeError(f"{OWNER}: progress={shown(progress)} must be True, False or a function.")
    return progress


def _tried(reduction: Reduction, system: System, t: float, q: Array, v: Array) -> Any:
    """A reduction over one step, to see whether it can be computed."""
    moving = Moving(system, lambda t, q, v: (v, v))
    seen = reduction.first(moving, t, q, v)
    return reduction.result(reduction.after(moving, seen, True, StepTimes(t, t), q, v), t)
