"""`ensemble`: many runs of one system, each with a start and parameters of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache, partial
from typing import Any, Literal

import jax
import numpy as np
from jax.core import Tracer

from .._arguments import checked_call, choice
from .._config import check_precision
from .._messages import explained, listed, shown
from .._numbers import as_array, count, finite_number
from .._parts import Parts
from ..compiler import counts
from ..compiler.batched import Lanes
from ..compiler.operations import Unsupported
from ..formulation import Formulation, PostStabilized
from ..run.control import StepControl
from ..run.loop import Setup
from ..run.pairs import check_pair, default_integrator, is_legal
from ..run.scale import absolute
from ..run.simulate import simulate
from ..start.consistent import ConstraintError, Start, check_start, consistent
from ..system.base import System, check_system
from ..system.clock import Clock
from .batch import OWNER, Batch, checked_batch
from .one_run import Plan, Shared, one_run
from .outcomes import Collected, Ensemble
from .reductions import Bands, Coordinate, Reduction
from .roads import Progress, Road, UnderXLA, compiled, cores, follow

Save = Literal["times", "end", "none"]
_LONGEST = 100  # steps that a run has at least, where something depends on the time explicitly


@checked_call
def ensemble(
    system: System,
    starts: Any,
    *,
    parameters: Mapping[str, Any] | Callable[[np.ndarray], Any] | None = None,
    runs: int | None = None,
    t_end: float | None = None,
    times: Any = None,
    save: Save | None = None,
    dt: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    formulation: Formulation | None = None,
    integrator: Any = None,
    reduce: Mapping[str, Reduction] | None = None,
    max_steps: int = 1_000_000,
    device: Literal["auto", "cpu", "gpu"] = "auto",
    threads: int | None = None,
    progress: bool | Callable[[Progress], None] = False,
) -> Ensemble:
    """Many runs of `system`, each with a start and parameters of its own.

    Each run takes the steps that `simulate` takes, and ends as it does: one that fails stops alone.
    Small mechanisms are computed in the lanes of the processor's vectors, on all cores.

    **Arguments:**

    - `starts`: one start for all, from `consistent` or `model.build()`; a list of such; a pair
      (q, v) of arrays with a row for each run; or a function that is given an array of runs'
      numbers and returns such a pair. Each is moved onto the constraints, which other lengths
      change, by the shortest way.
    - `parameters`: by the names of ``system.parameters()``, arrays with a row for each run; or a
      function that is given an array of runs' numbers and returns such a dictionary.
    - `runs`: how many there are, needed where that cannot be told from arrays.
    - `t_end`: the end [s]; or `times` [s], increasing and hit exactly, the first of which is that
      of the start.
    - `save`: ``"times"`` or ``"end"``, the states at these; ``"none"`` for what `reduce` asks only.
    - `dt`: the longest of equal steps [s]; or `rtol` (and `atol`) for steps chosen by their error,
      by each run for itself.
    - `formulation`, `integrator`: as those of `simulate`.
    - `reduce`: what to observe of each run, by names of your own: `Largest`, `Smallest`, `Mean`,
      `FirstPassage`, `Fold` of `hx.many`; and of all runs at the times: `Bands`.
    - `max_steps`: a run that needs more fails.
    - `device`: ``"gpu"`` for one of NVIDIA's; ``"auto"`` and ``"cpu"`` for this processor.
    - `threads`: by default as many as there are cores.
    - `progress`: True prints a line twice a second at most; a function is given a `Progress`.

    Ctrl-C returns the runs that are finished; the others have `success` False.

    ```python
    masses = np.random.default_rng(0).normal(2.0, 0.1, 10_000)
    result = hx.ensemble(system, start, parameters={"crank.mass": masses}, t_end=1.0, dt=1e-3)
    result.q[result.success].std(axis=0)
    ```
    """
    began = time.perf_counter()
    check_system(OWNER, system)
    check_precision(OWNER)
    if any(isinstance(x, Tracer) for x in jax.tree.leaves(system)):
        raise TypeError(
            f"{OWNER} drives runs from the host and takes no traced values. Inside of jit, grad or "
            "vmap use jax.vmap of a function of hx.trajectory."
        )
    batch, typical, start = checked_batch(system, starts, parameters, runs)
    start = _known_start(system, typical, start)
    t0 = 0.0 if start is None else start.t
    grid, save = _grid(t0, t_end, times, save)
    formulation, integrator = _pair(formulation, integrator, dt, rtol)
    if start is not None and start.redundant:
        if formulation.kind in ("dae", "index3"):
            raise ValueError(
                f"{OWNER}: {type(formulation).__name__} solves for the multipliers of all "
                "constraints, which redundant ones leave undetermined. Remove those, or use "
                'PostStabilized("both").'
            )
        system = system.with_redundant_constraints()
    numbers, tolerance, control = _steps(system, start, typical, grid, dt, rtol, atol)
    reductions = _checked_reductions(system, typical, reduce, grid[0])
    setup = Setup(system, formulation, integrator, control, ())
    parts = Parts.of(setup)
    clock, ticks, picked, windows, fresh = _pieces(system, grid, numbers, tolerance)
    shared = Shared(
        *(tuple(np.asarray(x) for x in parts.arrays), ticks, windows, fresh, numbers, tolerance),
        *(np.asarray(count(OWNER, "max_steps", max_steps)), *typical),
    )
    over_runs = {k: r for k, r in reductions.items() if isinstance(r, Bands)}
    over_time = {k: r for k, r in reductions.items() if k not in over_runs}
    observers = tuple(r.observer for r in over_runs.values())
    plan = Plan(parts.rest, tuple(over_time.values()), observers, save)
    threads = cores() if threads is None else count(OWNER, "threads", threads)
    road, threads = _road(choice(OWNER, "device", device, _DEVICES), plan, shared, batch, threads)
    ready = time.perf_counter()
    found = Collected(batch.runs, picked, len(over_runs))
    interrupted = follow(batch, road, threads, found.add, _reporter(progress))
    spent = time.perf_counter() - ready
    if "code" not in found.arrays:
        raise KeyboardInterrupt(f"{OWNER} was interrupted before any run was finished.")
    reduced = {name: found.value(("observed", k)) for k, name in enumerate(over_time)}
    reduced |= {name: band.finish() for name, band in zip(over_runs, found.bands, strict=True)}
    arrays = found.arrays
    ended = clock.time(arrays["t"])
    method = f"{type(integrator).__name__} with {type(formulation).__name__}"
    step = f"dt = {dt:g} s" if rtol is None else f"rtol = {rtol:g}"
    return Ensemble(
        t=ended if save != "times" else grid,
        q=arrays.get("q"),
        v=arrays.get("v"),
        code=arrays["code"],
        ended=ended,
        steps=arrays["steps"],
        rejected=arrays["rejected"],
        drift=arrays["drift"],
        reduced={name: reduced[name] for name in reductions},
        road=road.description + (f", {threads} threads" if threads > 1 else ""),
        stats={
            "steps": int(arrays["steps"].sum()),
            "run_time": spent,
            "compile_time": ready - began,
            "method": f"{method}, {step}",
            "interrupted": interrupted,
            "threads": threads,
        },
        t_end=float(grid[-1]),
        rows=_row_names(system, typical),
        misfit=arrays["misfit"],
        again=partial(_again, system, batch, typical, t0, grid, dt, rtol, atol, setup),
    )


_DEVICES = ("auto", "cpu", "gpu")


@lru_cache(maxsize=64)
def _known_lanes(plan: Hashable) -> Lanes:
    """The function of one run, compiled once for each structure."""

    def run(shared: Any, own: Any) -> Any:
        return one_run(plan, shared, own)  # pyright: ignore[reportArgumentType]

    return Lanes(run)


def _road(
    device: str, plan: Plan, shared: Shared, batch: Batch, threads: int
) -> tuple[Road, int]:
    if device == "gpu":
        from .gpu import OnGPU

        return OnGPU(_known_lanes(plan), shared, batch), 1
    try:
        return compiled(plan, _known_lanes(plan), shared, batch), threads
    except Unsupported as reason:
        counts.left_to_xla.append((OWNER, str(reason)))
        return UnderXLA(plan, shared, str(reason)), 1


def _known_start(system: System, typical: Any, start: Start | None) -> Start | None:
    """A consistent start that tells of redundant constraints and of the mechanism's size; None
    where that of the first run cannot be found: then each run says so itself."""
    if start is not None:
        check_start(OWNER, system, start)
        return start
    try:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return consistent(system, *typical)
    except ConstraintError:
        return None


def _grid(t0: float, t_end: Any, times: Any, save: Any) -> tuple[np.ndarray, Save]:
    """The times to keep, from the start on, and which states."""
    if (t_end is None) == (times is None):
        raise ValueError(f"{OWNER}: give t_end [s], or the times [s] at which to keep states.")
    if times is None:
        end = finite_number(OWNER, "t_end", t_end)
        if end <= t0:
            raise ValueError(
                f"{OWNER}: t_end={end} s is not after the start, t={t0} s. Give a later end."
            )
        grid = np.array([t0, end])
    else:
        from .._numbers import array

        grid = array(OWNER, "times", times, (None,))
        if grid.size < 2 or not np.all(np.diff(grid) > 0) or grid[0] != t0:
            raise ValueError(
                f"{OWNER}: times={shown(times)} must be two or more increasing times [s], the "
                f"first of which is that of the start, {t0} s."
            )
    chosen = ("end" if times is None else "times") if save is None else save
    return grid, choice(OWNER, "save", chosen, ("times", "end", "none"))


def _pair(formulation: Any, integrator: Any, dt: Any, rtol: Any) -> tuple[Formulation, Any]:
    """The methods, chosen as `simulate` does where they are not given."""
    from ..integrator import Dopri5

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


def _steps(
    system: System, start: Start | None, typical: Any, grid: np.ndarray, dt: Any, rtol: Any, atol: Any
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


def _pieces(system: System, grid: np.ndarray, numbers: np.ndarray, tolerance: Any) -> Any:
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


def _checked_reductions(
    system: System, typical: Any, reduce: Any, t: float
) -> dict[str, Reduction]:
    if reduce is None:
        return {}
    if not isinstance(reduce, Mapping) or not all(isinstance(k, str) for k in reduce):
        raise TypeError(
            f"{OWNER}: reduce={shown(reduce)} is not a dictionary of names and reductions such as "
            "{'top speed': hx.many.Largest(lambda t, q, v: v[0])}."
        )
    names = system.coordinate_names(typical[0].size)

    def index(name: str) -> int:
        if name not in names:
            raise KeyError(
                f"{OWNER}: there is no coordinate {name!r} to observe; there are {listed(names)}."
            )
        return names.index(name)

    out: dict[str, Reduction] = {}
    for name, reduction in reduce.items():
        if not isinstance(reduction, Reduction):
            raise TypeError(
                f"{OWNER}: reduce[{name!r}]={shown(reduction)} is not a reduction. Give one such "
                "as hx.many.Largest(...), hx.many.FirstPassage(...) or hx.many.Bands(...)."
            )
        made = reduction.named(index)
        try:
            seen = jax.eval_shape(made.first, np.asarray(t), *typical)
            jax.eval_shape(
                lambda seen, q, v: made.result(made.after(seen, True, t, t, q, v), t), seen, *typical
            )
        except Exception as error:
            raise ValueError(
                f"{OWNER}: reduce[{name!r}] cannot be computed: {explained(error)} Its functions "
                "are given (t, q, v) and return numbers, by jax.numpy."
            ) from None
        out[name] = made
    return out


def _reporter(progress: Any) -> Any:
    if progress is True:
        return lambda now: print(now, flush=True)
    if progress is False or progress is None:
        return None
    if not callable(progress):
        raise TypeError(f"{OWNER}: progress={shown(progress)} must be True, False or a function.")
    return progress


def _row_names(system: System, typical: Any) -> tuple[str, ...]:
    q, v = typical
    shape = jax.eval_shape(system.constraint_rate, q, v, np.zeros(()))
    return tuple(system.constraint_names(int(shape.shape[0])))


def _again(
    system: System,
    batch: Batch,
    typical: Any,
    t0: float,
    grid: np.ndarray,
    dt: Any,
    rtol: Any,
    atol: Any,
    setup: Setup,
    number: int,
    options: dict[str, Any],
) -> Any:
    """One run by `simulate`."""
    own = jax.tree.map(lambda x: x[0], batch.own(number, number + 1))
    changed = system.with_parameters(own.parameters) if own.parameters else system
    q, v = (typical[0], typical[1]) if own.q is None else (own.q, own.v)
    start = consistent(changed, q, v, t=t0)
    given = {"dt": dt, "rtol": rtol, "atol": atol, "formulation": setup.formulation}
    given |= {"integrator": setup.integrator, **options}
    return simulate(changed, start, float(grid[-1]), **given)
