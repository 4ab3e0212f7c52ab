"""`ensemble`: many runs of one system, each with a start and parameters of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
from jax.core import Tracer

from .._arguments import checked_call, choice
from .._config import check_precision
from .._numbers import count
from ..compiler import counts
from ..compiler.batched import Lanes
from ..compiler.operations import Unsupported
from ..formulation import Formulation
from ..run.simulate import simulate
from ..start.consistent import consistent
from ..system.base import System, check_system
from .asked import Save, reporter
from .batch import OWNER
from .one_run import one_run
from .outcomes import Collected, Ensemble
from .reductions import Reduction
from .roads import Road, RunsDone, UnderXLA, compiled, cores, follow
from .task import Task, task_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@checked_call
def ensemble(
    system: System,
    starts: Any,
    *,
    parameters: Mapping[str, Any] | Callable[[np.ndarray], Any] | None = None,
    runs: int | None = None,
    t_end: float | None = None,
    times: ArrayLike | None = None,
    save: Save | None = None,
    dt: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    formulation: Formulation | None = None,
    integrator: Any = None,
    reduce: Mapping[str, Reduction] | None = None,
    events: object = (),
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
    - `events`: one or several `Event` with ``terminal=True``: each run ends at the first of its
      own, located as in `simulate`; `ended` is its time and `event` its name.
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
    task = task_of(
        *(system, starts, parameters, runs, t_end, times, save, dt, rtol, atol),
        *(formulation, integrator, reduce, max_steps, events),
    )
    threads = cores() if threads is None else count(OWNER, "threads", threads)
    report = reporter(progress)
    road, threads = _road(choice(OWNER, "device", device, _DEVICES), task, threads)
    ready = time.perf_counter()
    found = Collected(task.batch.runs, task.picked, len(task.over_runs))
    interrupted = follow(task.batch, road, threads, found.add, report)
    if "code" not in found.arrays:
        raise KeyboardInterrupt(f"{OWNER} was interrupted before any run was finished.")
    stats = {
        "steps": int(found.arrays["steps"].sum()),
        "run_time": time.perf_counter() - ready,
        "compile_time": ready - began,
        "method": task.described(),
        "interrupted": interrupted,
        "threads": threads,
    }
    said = road.description + (f", {threads} threads" if threads > 1 else "")
    return _result(task, found, said, stats)


def _result(task: Task, found: Collected, road: str, stats: dict[str, float | str]) -> Ensemble:
    """What the runs have computed."""
    arrays = found.arrays
    reduced = {name: found.value(("observed", k)) for k, name in enumerate(task.over_time)}
    bands = zip(task.over_runs, found.bands, strict=True)
    reduced |= {name: band.finish() for name, band in bands}
    ended = task.clock.time(arrays["t"])
    return Ensemble(
        t=ended if task.plan.keeps != "times" else task.grid,
        q=arrays.get("q"),
        v=arrays.get("v"),
        code=arrays["code"],
        ended=ended,
        steps=arrays["steps"],
        rejected=arrays["rejected"],
        drift=arrays["drift"],
        reduced={name: reduced[name] for name in task.reductions},
        road=road,
        stats=stats,
        t_end=float(task.grid[-1]),
        rows=_row_names(task.setup.system, task.typical),
        misfit=arrays["misfit"],
        again=partial(_again, task),
        events=tuple(event.name for event in task.setup.events),
        stopped=arrays["event"],
        names=tuple(task.setup.system.coordinate_names(task.typical[0].size)),
        grid=task.grid,
    )


_DEVICES = ("auto", "cpu", "gpu")


@lru_cache(maxsize=64)
def known_lanes(plan: Hashable) -> Lanes:
    """The function of one run, compiled once for each structure."""

    def run(shared: Any, own: Any) -> Any:
        return one_run(plan, shared, own)  # pyright: ignore[reportArgumentType]

    return Lanes(run)


def _road(device: str, task: Task, threads: int) -> tuple[Road, int]:
    """How the runs are computed, and by how many threads."""
    plan, shared, known = task.plan, task.shared, known_lanes(task.plan)
    if device == "gpu":
        from .gpu import OnGPU

        return OnGPU(known, shared, task.batch), 1
    try:
        return compiled(known, shared, task.batch), threads
    except Unsupported as reason:
        counts.left_to_xla.append((OWNER, str(reason)))
        return UnderXLA(plan, shared, str(reason)), 1


def _row_names(system: System, typical: tuple[np.ndarray, np.ndarray]) -> tuple[str, ...]:
    q, v = typical
    shape = jax.eval_shape(system.constraint_rate, q, v, np.zeros(()))
    return tuple(system.constraint_names(int(shape.shape[0])))


def _again(task: Task, number: int, options: dict[str, Any]) -> Any:
    """One run by `simulate`."""
    own = jax.tree.map(lambda x: x[0], task.batch.own(number, number + 1))
    system, formulation, integrator = task.setup[:3]
    changed = system.with_parameters(own.parameters) if own.parameters else system
    q, v = task.typical if own.q is None else (own.q, own.v)
    start = consistent(changed, q, v, t=float(task.grid[0]))
    given = {**task.steps, "formulation": formulation, "integrator": integrator}
    if task.setup.events:
        given["events"] = task.setup.events
    given |= options
    return simulate(changed, start, float(task.grid[-1]), **given)
