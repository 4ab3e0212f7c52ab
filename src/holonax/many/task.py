"""What an ensemble has to do: the program of one run, the numbers that all share and each has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._numbers import count
from .._parts import Parts
from ..run.loop import Setup
from ..system.base import System
from ..system.clock import Clock
from .asked import (
    checked_events,
    checked_reductions,
    grid_of,
    known_start,
    pair_of,
    pieces_of,
    steps_of,
)
from .batch import OWNER, Batch, checked_batch
from .one_run import RunPlan, Shared
from .reductions import Bands, Reduction

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..integrator.base import Integrator


@dataclass(frozen=True)
class Task:
    """All that was asked of an ensemble, checked.

    `grid` are the times asked for, and `picked` their places among those that runs go through;
    `typical` is a start like those of the runs; `steps` are dt, rtol and atol as they were given.
    """

    setup: Setup
    plan: RunPlan
    shared: Shared
    batch: Batch
    clock: Clock
    grid: np.ndarray
    picked: np.ndarray
    typical: tuple[np.ndarray, np.ndarray]
    reductions: dict[str, Reduction]
    steps: dict[str, Any]

    @property
    def over_runs(self) -> dict[str, Reduction]:
        """Those of all runs at each time."""
        return {k: r for k, r in self.reductions.items() if isinstance(r, Bands)}

    @property
    def over_time(self) -> dict[str, Reduction]:
        """Those of each run."""
        return {k: r for k, r in self.reductions.items() if not isinstance(r, Bands)}

    def described(self) -> str:
        """The methods and their steps, in words."""
        pair = (
            f"{type(self.setup.integrator).__name__} with {type(self.setup.formulation).__name__}"
        )
        dt, rtol = self.steps["dt"], self.steps["rtol"]
        return f"{pair}, dt = {dt:g} s" if rtol is None else f"{pair}, rtol = {rtol:g}"


def task_of(
    system: System,
    starts: Any,
    parameters: Any,
    runs: int | None,
    t_end: object,
    times: ArrayLike | None,
    save: object,
    dt: Any,
    rtol: object,
    atol: object,
    formulation: Any,
    integrator: Integrator,
    reduce: object,
    max_steps: object,
    events: object = (),
) -> Task:
    """What was asked of `ensemble`, with one sentence for each mistake."""
    batch, typical, given = checked_batch(system, starts, parameters, runs)
    grid, keeps = grid_of(given, t_end, times, save)
    start = known_start(system, typical, given, grid[0])
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
    watched = checked_events(system, typical, events, grid[0])
    setup = Setup(system, formulation, integrator, control, watched)
    parts = Parts.of(setup)
    clock, ticks, picked, windows, fresh = pieces_of(system, grid, numbers, tolerance)
    shared = Shared(
        arrays=tuple(np.asarray(x) for x in parts.arrays),
        times=ticks,
        windows=windows,
        fresh=fresh,
        numbers=numbers,
        atol=tolerance,
        most=np.asarray(count(OWNER, "max_steps", max_steps)),
        q=typical[0],
        v=typical[1],
    )
    observers = tuple(r.observer for r in reductions.values() if isinstance(r, Bands))
    over_time = tuple(r for r in reductions.values() if not isinstance(r, Bands))
    plan = RunPlan(parts.rest, over_time, observers, keeps)
    steps = {"dt": dt, "rtol": rtol, "atol": atol}
    return Task(setup, plan, shared, batch, clock, grid, picked, typical, reductions, steps)
