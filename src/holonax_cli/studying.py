"""One model by many methods, and one method for many values of a model's numbers."""

from __future__ import annotations

import csv
import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import holonax as hx
from holonax.io.columns import csv_lines, table_columns, write_columns

from .running import Opened, method_options, outputs_of, running_seconds

_SHORT, _REPEATS = 0.1, 5  # runs below so many seconds are timed several times
_REFERENCE = 1e-11  # tolerance of the solution that errors are measured against


@dataclass(frozen=True)
class Levels:
    """Steps [s] and tolerances that are tried, from the largest on, and how many of each."""

    dt: float
    rtol: float
    count: int

    def __post_init__(self) -> None:
        if not (self.dt > 0 and 0 < self.rtol < 1 and 1 <= self.count <= 12):
            raise ValueError("compare: --dt and --rtol must be positive, --levels from 1 to 12.")

    def options(self, method: str) -> Iterator[dict[str, Any]]:
        """The options of a method's runs: tolerances if it estimates its error, else steps."""
        first = method_options(method, None, None, None, None)
        for k in range(self.count):
            if first.get("dt") is None:
                yield method_options(method, None, None, None, self.rtol * 100.0**-k)
            else:
                yield method_options(method, None, None, self.dt / 2**k, None)


@dataclass(frozen=True)
class Row:
    """One run of a comparison."""

    method: str
    dt: float | None
    rtol: float | None
    steps: int
    seconds: float
    error: float
    drift: float
    status: str


def compared(
    opened: Opened,
    methods: str,
    t_end: float | None,
    levels: Levels,
    plot: Path | None,
    out: Path | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run by each method with finer and finer steps; errors are those of q at the end, relative to
    a run with a tolerance of 1e-11."""
    names = [x.strip() for x in methods.split(",") if x.strip()]
    if not names:
        raise ValueError("compare: no method is given. Write --methods RK4,GeneralizedAlpha.")
    plans = {name: list(levels.options(name)) for name in names}  # refuses before anything runs
    system, start = opened.built()
    end = opened.end(t_end)
    events = [] if opened.file is None else opened.file.events
    exact = hx.simulate(
        system, start, end, method="auto", rtol=_REFERENCE, save="end", events=events
    )
    if not exact.success:
        raise ValueError(f"compare: no reference, the run failed: {exact.message}")
    rows = []
    for name, plan in plans.items():
        for options in plan:
            rows.append(_row(name, system, start, end, options, exact, events))
            if not quiet and sys.stderr.isatty():
                print(f"{name}: {rows[-1].steps} steps", file=sys.stderr)
    if out is not None:
        with out.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(asdict(rows[0]))
            lines.writerows(asdict(row).values() for row in rows)
    if plot is not None:
        _draw(rows, plot, opened.name)
    if as_json:
        print(json.dumps([{k: _finite(x) for k, x in asdict(row).items()} for row in rows]))
    elif not quiet:
        _print(rows)
        for path in (x for x in (out, plot) if x is not None):
            print(path)
    return 0 if all(row.status == "end" for row in rows) else 1


def _row(
    name: str, system: Any, start: Any, end: float, options: dict[str, Any], exact: Any, events: Any
) -> Row:
    try:
        hx.simulate(system, start, end, **options, save="end", events=events)  # compiles
        result = hx.simulate(system, start, end, **options, save="end", events=events)
        seconds = [running_seconds(result)]
        while sum(seconds) < _SHORT and len(seconds) < _REPEATS:  # the clock is as rough as they
            again = hx.simulate(system, start, end, **options, save="end", events=events)
            seconds.append(running_seconds(again))
    except ValueError as error:  # a method that does not go with this system
        dt, rtol = options.get("dt"), options.get("rtol")
        return Row(name, dt, rtol, 0, math.nan, math.nan, math.nan, str(error))
    error = math.nan
    if result.success:
        scale = np.sqrt(np.mean(exact.q[-1] ** 2))
        error = float(np.sqrt(np.mean((result.q[-1] - exact.q[-1]) ** 2)) / (scale or 1.0))
    return Row(
        name,
        options.get("dt"),
        options.get("rtol"),
        int(result.stats["steps"]),
        min(seconds),
        error,
        float(np.max(result.drift()[0])),
        result.status,
    )


def _finite(x: Any) -> Any:
    return None if isinstance(x, float) and not math.isfinite(x) else x


def _print(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("method", "dt [s]", "rtol", "steps", "seconds", "error", "drift", "status"):
        table.add_column(Text(title), justify="left" if title in ("method", "status") else "right")
    for row in rows:
        number = lambda x: "" if x is None else f"{x:.3g}"  # noqa: E731
        texts = map(number, (row.dt, row.rtol, row.seconds, row.error, row.drift))
        dt, rtol, *others = texts
        table.add_row(row.method, dt, rtol, str(row.steps), *others, Text(row.status[:60]))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160).print(table)


def _draw(rows: list[Row], path: Path, title: str) -> None:
    """Work against precision: seconds over errors."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 5))
    for name in dict.fromkeys(row.method for row in rows):
        good = [(x.error, x.seconds) for x in rows if x.method == name and x.error > 0]
        if good:
            axes.loglog(*zip(*good, strict=True), "o-", label=name)
    axes.set(xlabel="relative error of q at the end", ylabel="seconds of running", title=title)
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path)
    pyplot.close(figure)


def values_of(text: str) -> tuple[str, list[float]]:
    """A name and its values from NAME=FIRST:LAST:COUNT, or NAME=A,B,C."""
    name, sign, said = text.partition("=")
    try:
        if not sign or not name.strip():
            raise ValueError
        if ":" in said:
            first, last, count = said.split(":")
            if not 1 <= int(count) <= 1_000_000:
                raise ValueError
            found = np.linspace(float(first), float(last), int(count)).tolist()
        else:
            found = [float(x) for x in said.split(",")]
        if not all(math.isfinite(x) for x in found):
            raise ValueError
    except ValueError:
        raise ValueError(
            f"--vary {text!r} is not understood. Write NAME=FIRST:LAST:COUNT, crank.mass=1:3:50, "
            "or NAME=A,B,C."
        ) from None
    return name.strip(), found


def swept(
    opened: Opened,
    vary: list[str],
    quantities: list[str],
    t_end: float | None,
    options: dict[str, Any],
    out: Path | None,
    quiet: bool,
) -> int:
    """A run for each value, or for each combination of values; one line of a table for each."""
    varied = dict(values_of(text) for text in vary)
    combinations = list(itertools.product(*varied.values()))
    rows: list[dict[str, Any]] = []
    for i, values in enumerate(_watched(combinations, quiet)):
        given = dict(zip(varied, values, strict=True))
        result = opened.changed(given).simulate(t_end, options)
        rows.append({**given, **_outcome(result, outputs_of(quantities) or opened.outputs)})
        if i == 0 and not result.success:
            print(f"holonax: the first run failed: {result.message}", file=sys.stderr)
    table = {name: [row[name] for row in rows] for name in rows[0]}
    if out is not None:
        write_columns(out, table)
        if not quiet:
            print(out)
    else:
        csv_lines(sys.stdout, table)
    return 0 if all(table["success"]) else 1


def _outcome(result: Any, outputs: dict[str, str]) -> dict[str, Any]:
    out: dict[str, Any] = {"success": int(result.success), "steps": int(result.stats["steps"])}
    for name, values in table_columns(result, outputs).items():
        if name == "t":
            out["t"] = float(values[-1])
        else:
            out |= {name: float(values[-1])}
            out |= {f"min {name}": float(np.min(values)), f"max {name}": float(np.max(values))}
    return out


def _watched(values: list[Any], quiet: bool) -> Iterable[Any]:
    if quiet or not sys.stderr.isatty():
        return values
    from rich.console import Console
    from rich.progress import track

    return track(values, "runs", console=Console(stderr=True), transient=True)
