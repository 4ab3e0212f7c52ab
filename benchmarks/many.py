"""Many runs at once, in steps a second: `make bench WORKS=ensemble`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import holonax as hx

from .measure import Recorder, all_cores
from .problems import MANY_MASSES, STEP, SliderCrank

DT, STEPS = 1e-3, 1000
RUNS = 4096  # of one measurement
SPREAD = 0.1  # of the parameter over the runs


def ensembles(
    recorder: Recorder,
    build: Callable[[], tuple[Any, Any]],
    parameter: str,
    options: dict[str, Any],
    label: str,
    runs: int = RUNS,
) -> None:
    """Steps a second by CPU time of one core, against one run; the first answer; both cores."""
    system, start = build()
    base = np.asarray(system.parameters()[parameter], dtype=float)
    values = base * (1 + SPREAD * np.linspace(0, 1, runs))
    end = STEPS * DT

    def many(threads: int) -> Any:
        given = {"parameters": {parameter: values}, "t_end": end, "threads": threads}
        return hx.ensemble(system, start, **given, **options)

    begin = time.process_time()
    result = many(1)
    first = time.process_time() - begin
    spent = []
    for _ in range(recorder.repeats):
        begin = time.process_time()
        result = many(1)
        spent.append(time.process_time() - begin)
    steps = int(result.steps.sum())
    drift = float(np.max(result.drift[:, 0]))
    note = f"{runs} runs, {result.road}, drift {drift:.1e}"
    recorder.row(label, "steps_per_s", steps / min(spent), drift, note=note)
    recorder.row(label, "first_s", first - min(spent), note="compiling, of an empty cache or not")
    changed = system.with_parameters({parameter: values[-1]})
    one = lambda: hx.simulate(changed, start, end, save="end", **options)  # noqa: E731
    single = one()
    alone = []
    for _ in range(recorder.repeats):
        begin = time.process_time()
        single = one()
        alone.append(time.process_time() - begin)
    off = float(np.max(np.abs(single.q[-1] - result.q[-1])))
    rate = single.stats["steps"] / min(alone)
    note = f"one run is {rate:.3g} steps/s; they differ by {off:.1e}"
    recorder.row(label, "times_one_run", steps / min(spent) / rate, off, note=note)
    with all_cores() as cores:
        if cores == 1:
            recorder.missing(label, "times_one_core", "there is one core")
            return
        walls = [[many(n).stats["run_time"] for _ in range(recorder.repeats)] for n in (1, cores)]
        gain = min(walls[0]) / min(walls[1])
        recorder.row(label, "times_one_core", gain, note=f"{cores} cores, elapsed time")


def many_slider_cranks(recorder: Recorder, methods: dict[str, dict[str, Any]]) -> None:
    """What the peers' rollouts and parameter variations do as well: rods of many masses."""
    system, start = hx.examples.slider_crank()
    p, steps = SliderCrank, round(SliderCrank.t_end / STEP)

    for name, options in methods.items():

        def run(options: dict[str, Any] = options) -> Any:
            given = {"parameters": {"m": MANY_MASSES}, "t_end": p.t_end, "dt": STEP}
            return hx.ensemble(system, start, **given, **options, threads=1)

        def note(result: Any) -> str:
            drift = float(np.max(result.drift[:, 0]))
            return f"{MANY_MASSES.size} runs, {result.road}, drift {drift:.1e} m"

        error = lambda result: p.end_error(result.q[0, 0])  # noqa: E731
        recorder.per_step(name, steps * MANY_MASSES.size, run, error, note=note)
