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
from .._numbers import count
from .._parts import Parts
from ..compiler import counts
from ..compiler.batched import Lanes
from ..compiler.operations import Unsupported
from ..formulation import Formulation
from ..run.loop import Setup
from ..run.simulate import simulate
from ..start.consistent import consistent
from ..system.base import System, check_system
from .asked import (
    Save,
    checked_reductions,
    grid_of,
    known_start,
    pair_of,
    pieces_of,
    reporter,
    steps_of,
)
from .batch import OWNER, Batch, checked_batch
from .one_run import RunPlan, Shared, one_run
from .outcomes import Collected, Ensemble
from .reductions import Bands, Reduction
from .roads import Road, RunsDone, UnderXLA, compiled, cores, follow


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
    progress: bool | Callable[[RunsDone], None] = False,
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
    - `progress`: True prints a line twice a second at most; a function is given a `RunsDone`.

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
    start = known_start(system, typical, start)
    t0 = 0.0 if start is None else start.t
    grid, save = grid_of(t0, t_end, times, save)
    formulation, integrator = pair_of(formulation, integrator, dt, rtol)
    if start is not None and start.redundant:
        if formulation.kind in ("dae", "index3"):
            raise ValueError(
                f"{OWNER}: {type(formulation).__name__} solves for the multipliers of all "
                "constraints, which redundant ones leave undetermined. Remove those, or use "
                'PostStabilized("both").'
            )
        system = system.with_redundant_constraints()
    numbers, tolerance, control = steps_of(system, start, typical, grid, dt, rtol, atol)
    reductions = checked_reductions(system, typical, reduce, grid[0])
    setup = Setup(system, formulation, integrator, control, ())
    parts = Parts.of(setup)
    clock, ticks, picked, windows, fresh = pieces_of(system, grid, numbers, tolerance)
    shared = Shared(
        *(tuple(np.asarray(x) for x in parts.arrays), ticks, windows, fresh, numbers, tolerance),
        *(np.asarray(count(OWNER, "max_steps", max_steps)), *typical),
    )
    over_runs = {k: r for k, r in reductions.items() if isinstance(r, Bands)}
    over_time = {k: r for k, r in reductions.items() if k not in over_runs}
    observers = tuple(r.observer for r in over_runs.values())
    plan = RunPlan(parts.rest, tuple(over_time.values()), observers, save)
    threads = cores() if threads is None else count(OWNER, "threads", threads)
    road, threads = _road(choice(OWNER, "device", device, _DEVICES), plan, shared, batch, threads)
    ready = time.perf_counter()
    found = Collected(batch.runs, picked, len(over_runs))
    interrupted = follow(batch, road, threads, found.add, reporter(progress))
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
    device: str, plan: RunPlan, shared: Shared, batch: Batch, threads: int
) -> tuple[Road, int]:
    if device == "gpu":
        from .gpu import OnGPU

        return OnGPU(_known_lanes(plan), shared, batch), 1
    try:
        return compiled(plan, _known_lanes(plan), shared, batch), threads
    except Unsupported as reason:
        counts.left_to_xla.append((OWNER, str(reason)))
        return UnderXLA(plan, shared, str(reason)), 1


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
