"""How things are measured: CPU time of one pinned core, the best of several repeats.

Each tool runs each work in a process of its own, so that a crash or a missing package costs one
row. Such a process writes its rows, one JSON object a line, to the file it is given; `tool_main`
is its entry.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from .works import OURS, wanted

T = TypeVar("T")

BUILD = Path(__file__).parent / "build"  # compiled programs and references; not under git


@dataclass
class Row:
    """One measured number.

    `error` is that of the solution, as the work defines it; `setting` is the step or tolerance of
    a point on a work-precision curve; `note` says why a value is missing, or what it counts.
    """

    work: str
    tool: str
    variant: str
    metric: str
    value: float | None
    error: float | None = None
    setting: str = ""
    note: str = ""
    version: str = ""


class Recorder:
    """Writes rows of one tool and one work as they are measured."""

    def __init__(
        self,
        tool: str,
        version: str,
        work: str,
        path: Path,
        repeats: int,
        budget: float,
        pairs: int | None = None,
    ):
        self.tool, self.version, self.work = tool, version, work
        self.path, self.repeats, self.pairs = path, repeats, pairs
        self._end = time.monotonic() + budget

    @property
    def seconds_left(self) -> float:
        """What is left of the time given to this work."""
        return self._end - time.monotonic()

    def row(
        self,
        variant: str,
        metric: str,
        value: float | None,
        error: float | None = None,
        **more: str,
    ) -> None:
        """Write one row and show it; a number that is not finite counts as missing."""
        finite = lambda x: None if x is None or not math.isfinite(x) else float(x)  # noqa: E731
        value, error = finite(value), finite(error)
        row = Row(self.work, self.tool, variant, metric, value, error, version=self.version, **more)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")
        print(shown(asdict(row)), flush=True)

    def missing(self, variant: str, metric: str, reason: object) -> None:
        """Write that a number could not be measured, and why."""
        text = " ".join(str(reason).split()) or type(reason).__name__
        self.row(variant, metric, None, note=text[:300])

    def best(
        self, run: Callable[..., T], prepare: Callable[[], Any] | None = None
    ) -> tuple[float, T]:
        """`best_time` with this work's repeats, within a third of the time that is left."""
        return best_time(run, self.repeats, self.seconds_left / 3, prepare)

    def per_step(
        self,
        variant: str,
        steps: int,
        run: Callable[..., T],
        error: Callable[[T], float | None],
        *,
        prepare: Callable[[], Any] | None = None,
        note: Callable[[T], str] = lambda result: "",
    ) -> None:
        """Microseconds for each of the `steps` steps of `run`; see `best_time`."""
        try:
            seconds, result = self.best(run, prepare)
            wrong = error(result)
        except Exception as problem:
            self.missing(variant, "us_per_step", problem)
        else:
            self.row(variant, "us_per_step", seconds / steps * 1e6, wrong, note=note(result))

    def curve(
        self,
        variant: str,
        label: str,
        settings: Iterable[float],
        run: Callable[..., Any],
        error: Callable[[Any], float],
        *,
        sampled: Callable[..., Any] | None = None,
        prepare: Callable[[float], Any] | None = None,
    ) -> None:
        """Seconds and error for each setting, from coarse to fine: one work-precision curve.

        `run` delivers the state at the end, which is metric "s"; `sampled` delivers the states at
        the work's sample times, where its error is defined there, which is metric "s_sampled".
        `error` is given the result of the latter and is not timed, nor is `prepare`, which is given
        the setting too and whose result both others get after it. The rest of a curve is left out
        when the work's time is nearly spent.
        """
        for setting in settings:
            name = f"{label}={setting:g}"
            if self.seconds_left < 5:
                self.missing(variant, "s", f"from {name} on: no time left")
                return
            at = lambda f, x=setting: None if f is None else functools.partial(f, x)  # noqa: E731
            try:
                seconds, result = self.best(at(run), at(prepare))
                if sampled is not None:
                    seconds_sampled, result = self.best(at(sampled), at(prepare))
                wrong = error(result)
            except Exception as problem:
                self.missing(variant, "s", f"{name}: {problem}")
                continue
            self.row(variant, "s", seconds, wrong, setting=name)
            if sampled is not None:
                self.row(variant, "s_sampled", seconds_sampled, wrong, setting=name)


def best_time(
    run: Callable[..., T], repeats: int, budget: float, prepare: Callable[[], Any] | None = None
) -> tuple[float, T]:
    """The least CPU time [s] of `run`, called `repeats` times or until `budget` [s] is spent.

    What `prepare` returns, anew for each call and outside the measured time, is given to `run`.
    """
    begin, best = time.monotonic(), math.inf
    for _ in range(repeats):
        given = () if prepare is None else (prepare(),)
        start = time.process_time()
        result = run(*given)
        best = min(best, time.process_time() - start)
        if time.monotonic() - begin > budget:
            break
    return best, result


def pin() -> None:
    """Keep this process, and those it starts, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")


@contextmanager
def all_cores() -> Iterator[int]:
    """Let this process work on all cores of the machine for a while: so many."""
    if not hasattr(os, "sched_setaffinity"):
        yield os.cpu_count() or 1
        return
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield len(os.sched_getaffinity(0))
    finally:
        os.sched_setaffinity(0, pinned)


def peak_memory() -> float:
    """The most memory [MiB] this process has held so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def version_of(package: str) -> str:
    """The installed version of a package, or nothing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def shown(row: dict[str, Any]) -> str:
    """A row as one line of text; for ours with what is wanted and the ratio to that."""
    value = "-" if row["value"] is None else f"{row['value']:.4g}"
    error = "" if row["error"] is None else f"  error {row['error']:.1e}"
    more = "  ".join(row[key] for key in ("setting", "note") if row[key])
    goal = wanted(row["work"], row["metric"], row["variant"]) if row["tool"] == OURS else None
    if goal is not None and row["value"] is not None:
        error += f"  wanted {goal:g}, ratio {row['value'] / goal:.2f}"
    what = f"{row['work']:22} {row['tool']:12} {row['variant']:44} {row['metric']:>14} {value:>10}"
    return f"{what}{error}  {more}".rstrip()


def tool_main(tool: str, version: str, works: dict[str, Callable[[Recorder], None]]) -> None:
    """Run the works named on the command line: ``python -m benchmarks.ours --rows FILE WORK``.

    A work may be split into parts, "WORK/PART", for which processes of their own are needed.
    """
    parser = argparse.ArgumentParser(description=f"Measure {tool}.")
    parser.add_argument("work", nargs="+", choices=sorted(works), metavar="WORK")
    parser.add_argument("--rows", type=Path, default=Path(os.devnull), help="file to append to")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for each work")
    parser.add_argument("--pairs", type=int, help="of methods to try; all unless given")
    arguments = parser.parse_args()
    pin()
    for work in arguments.work:
        works[work](
            Recorder(
                tool,
                version,
                work.partition("/")[0],
                arguments.rows,
                arguments.repeats,
                arguments.budget,
                arguments.pairs,
            )
        )
