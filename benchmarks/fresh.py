"""How long a user waits for a first answer: CPU time of fresh processes.

Cold is with an empty folder for what is kept between processes; second is the next process with the
same folder. What is run lies in `first_answer.py`.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .measure import Recorder
from .works import wanted

ROOT = Path(__file__).parent.parent
COLD, SECOND = "cold_s", "second_s"


class Done(NamedTuple):
    """CPU time [s] of a process and those it started, what it printed, and why it was stopped."""

    seconds: float
    output: str
    problem: str = ""


def process(arguments: Sequence[str], cache: str, limit: float, ends: Sequence[int] = (0,)) -> Done:
    """Run ``python -m ARGUMENTS`` from the start of its interpreter to its exit.

    `cache` is the folder for what is kept between processes, or "off"; `ends` are the statuses with
    which it may end.
    """
    import resource

    if limit < 1:
        return Done(0.0, "", "no time left")
    environment = {**os.environ, "HOLONAX_CACHE": cache}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    if cache != "off":
        environment["XDG_CACHE_HOME"] = cache

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before, problem = spent(), ""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
        try:
            status = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", *arguments],
                cwd=ROOT,
                env=environment,
                stdout=out,
                stderr=said,
                check=False,
                timeout=limit,
            ).returncode
        except subprocess.TimeoutExpired:
            status, problem = ends[0], f"stopped after {limit:.0f} s"
        out.seek(0)
        said.seek(0)
        output, errors = out.read(), said.read().strip()
    if status not in ends or "Traceback" in errors:
        problem = errors.splitlines()[-1] if errors else f"ended with status {status}"
    return Done(spent() - before, output, problem)


def with_bytecode() -> None:
    """Compile holonax to bytecode, as installing it does, so that no first process has to."""
    found = importlib.util.find_spec("holonax")
    for folder in found.submodule_search_locations or () if found else ():
        compileall.compile_dir(folder, quiet=2)


def last_line(output: str) -> str:
    """Of what a process printed."""
    lines = output.strip().splitlines()
    return lines[-1].strip() if lines else ""


def answer(
    recorder: Recorder,
    name: str,
    script: str = "",
    error: Callable[[Any], float] | None = None,
    setting: str = "",
) -> None:
    """The rows of one of `first_answer.ANSWERS`, the best of up to three pairs of processes.

    `error` is given the numbers in the last line that the process prints.
    """
    with_bytecode()
    times: dict[str, list[float]] = {COLD: [], SECOND: []}
    wrong, problem, begin = None, "", time.monotonic()
    for _ in range(min(recorder.repeats, 3)):
        with tempfile.TemporaryDirectory() as cache:
            for metric in times:
                arguments = ["benchmarks.first_answer", script or name]
                done = process(arguments, cache, recorder.seconds_left)
                problem = problem or done.problem
                if problem:
                    break
                times[metric].append(done.seconds)
                if error is not None:
                    wrong = error([float(x) for x in last_line(done.output).split()])
        if problem or time.monotonic() - begin > recorder.seconds_left / 2:
            break
    for metric, seconds in times.items():
        if seconds:
            recorder.row(name, metric, min(seconds), wrong, setting=setting)
        else:
            recorder.missing(name, metric, problem)


def command_lines(recorder: Recorder, names: Sequence[str]) -> None:
    """``holonax simulate NAME`` for each ready mechanism, and the worst of them.

    A run that stops on its way counts: its user has waited for the reason.
    """
    with_bytecode()
    times: dict[str, dict[str, float]] = {COLD: {}, SECOND: {}}
    for name in names:
        variant = f"holonax simulate {name}"
        with tempfile.TemporaryDirectory() as cache:
            for metric, known in times.items():
                arguments = ["holonax.cli", "simulate", name]
                done = process(arguments, cache, recorder.seconds_left, ends=(0, 1))
                if done.problem:
                    recorder.missing(variant, metric, done.problem)
                    break
                known[name] = done.seconds
                stopped = "" if "success" in done.output else done.output.strip()
                note = stopped.splitlines()[0][:200] if stopped else ""
                recorder.row(variant, metric, done.seconds, note=note)
    for metric, known in times.items():
        worst_row(recorder, "holonax simulate, worst", metric, known, len(names))


def worst_row(
    recorder: Recorder,
    variant: str,
    metric: str,
    known: dict[str, float],
    asked: int,
    note: str = "",
) -> None:
    """The largest of `known`. What is not among them for want of time might have been worse, so
    that there is no worst unless there are as many as were `asked` for."""
    worst = max(known, key=lambda name: known[name], default="")
    if len(known) >= asked:
        recorder.row(variant, metric, known[worst], note="; ".join(filter(None, (worst, note))))
    else:
        seen = f", worst {known[worst]:.3g} s for {worst}" if known else ""
        recorder.missing(variant, metric, f"{len(known)} of {asked} came to their end{seen}")


# -- every legal pair of methods ----------------------------------------------------------------


class Tried(NamedTuple):
    """First answers [s] by pair, how many of these runs stopped on their way, pairs that were
    refused with the reason, and why the process was stopped."""

    seconds: dict[str, float]
    stopped: int
    refused: dict[str, str]
    problem: str

    @staticmethod
    def of(done: Done) -> Tried:
        """From what `first_answer.pairs` printed."""
        lines = [line.split("\t") for line in done.output.splitlines() if "\t" in line]
        if not lines:
            return Tried({}, 0, {}, done.problem or "printed nothing")
        built, seconds, stopped, refused = float(lines[0][0]), {}, 0, {}
        for spent, pair, *how in lines[1:]:
            if how and how[0].startswith("refused: "):
                refused[pair] = how[0].removeprefix("refused: ")
            else:
                seconds[pair] = built + float(spent)
                stopped += bool(how)
        return Tried(seconds, stopped, refused, done.problem)


def pairs(recorder: Recorder, mechanism: str, total: int) -> None:
    """The worst and the median pair on a mechanism, and all above what is wanted of the worst.

    All pairs share a process: its time until the mechanism is built is added to that of each pair's
    first run. Cold nothing is kept on disk; the second process of a pair finds what another one,
    which is not counted, has left there.
    """
    with_bytecode()
    most = total if recorder.pairs is None else min(recorder.pairs, total)

    def tried(cache: str, share: float) -> Tried:
        left = recorder.seconds_left
        arguments = ["benchmarks.first_answer", "pairs", mechanism]
        arguments += ["--pairs", str(most), "--seconds", f"{share * left:.0f}"]
        return Tried.of(process(arguments, cache, left))

    cold = tried("off", 0.4)
    pair_rows(recorder, mechanism, COLD, cold, most, total)
    with tempfile.TemporaryDirectory() as cache:
        filled = tried(cache, 0.6)
        second = tried(cache, 0.9)
    known = {pair: spent for pair, spent in second.seconds.items() if pair in filled.seconds}
    pair_rows(recorder, mechanism, SECOND, second._replace(seconds=known), most, total)


def pair_rows(
    recorder: Recorder, mechanism: str, metric: str, found: Tried, asked: int, total: int
) -> None:
    """What one process has found of the pairs `asked` for. Of a few there is no worst of all."""
    name = f"pairs on {mechanism}"
    goal = wanted(recorder.work, metric, f"{name}, worst")
    if asked < total:
        name += f", {asked} of {total}"
    for pair, reason in found.refused.items():
        recorder.missing(f"{name}: {pair}", metric, reason)
    if not found.seconds:
        recorder.missing(f"{name}, worst", metric, found.problem or "no pair came to its end")
        return
    ordered = sorted(found.seconds, key=lambda pair: -found.seconds[pair])
    count = f"{len(ordered)} of {total} pairs"
    if found.stopped:
        count += f", {found.stopped} of them stopped on their way"
    note = count
    if asked < total and goal is not None:
        note += f"; of all is wanted {goal:g}, ratio {max(found.seconds.values()) / goal:.2f}"
    asked -= len(found.refused)
    worst_row(recorder, f"{name}, worst", metric, found.seconds, asked, note)
    recorder.row(f"{name}, median", metric, statistics.median(found.seconds.values()), note=count)
    for pair in ordered:
        if goal is not None and found.seconds[pair] > goal:
            recorder.row(f"{name}: {pair}", metric, found.seconds[pair], note=f"above {goal:g}")
