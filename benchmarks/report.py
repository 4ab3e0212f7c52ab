"""From measured rows to ratios, tables, a JSON file and plots."""

from __future__ import annotations

import itertools
import json
import math
import platform
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .works import BY_HAND, ERRORS, FIRST_ANSWERS, OURS, Target, jobs, short, targets

RESULTS = Path(__file__).parent / "results"
LATEST = RESULTS / "latest.json"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

Row = dict[str, Any]

_DERIVED = re.compile(r"s(_sampled)?_to_error_|growth_per_decade")


def load() -> list[Row]:
    """The rows measured before, without those derived from others or of jobs that are gone."""
    if not LATEST.exists():
        return []
    known = {(job.tool, job.key) for job in jobs()}
    return [
        row
        for row in json.loads(LATEST.read_text())
        if not _DERIVED.match(row["metric"]) and (row["tool"], row["job"]) in known
    ]


# -- derived numbers ----------------------------------------------------------------------------


def time_to_error(points: list[tuple[float, float]], error: float) -> float | None:
    """The least time of a curve's points (time, error) at which `error` is reached.

    Between two points of a curve, on either side of the error, the logarithm of time is linear
    in that of the error. None where no point reaches it.
    """
    best = min((t for t, e in points if e <= error), default=math.inf)
    for (t0, e0), (t1, e1) in itertools.pairwise(points):
        if e0 > error >= e1 > 0:
            share = math.log(e0 / error) / math.log(e0 / e1)
            best = min(best, t0 * (t1 / t0) ** share)
    return best if math.isfinite(best) else None


def reached(rows: list[Row]) -> list[Row]:
    """Rows "s_to_error_E" for every curve of every tool."""
    curves: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        curve = row["work"] in ERRORS and row["metric"] in ("s", "s_sampled")
        if curve and row["value"] and row["error"] is not None:
            key = ("work", "tool", "variant", "metric", "version")
            curves[tuple(row[k] for k in key)].append(row)
    out = []
    for (work, tool, variant, metric, version), points in curves.items():
        for error in ERRORS[work]:
            value = time_to_error([(p["value"], p["error"]) for p in points], error)
            note = "" if value else f"least error {min(p['error'] for p in points):.1e}"
            out.append(
                {
                    "work": work,
                    "tool": tool,
                    "variant": variant,
                    "metric": f"{metric}_to_error_{short(error)}",
                    "value": value,
                    "error": error,
                    "setting": "",
                    "note": note,
                    "version": version,
                }
            )
    return out


def growth(rows: list[Row]) -> list[Row]:
    """How much more time and memory a chain or a cable of ten times as many bodies takes."""
    out = []
    longer = [("chain", 100), ("chain", 1000), ("chain", 10000)]
    longer += [("chain", 100_000), ("cable", 1000)]
    for kind, metric in (("time", "us_per_step"), ("memory", "model_MiB")):
        for name, n in longer:
            for row in _of(rows, f"{name} N={n}", metric, OURS):
                small = _of(rows, f"{name} N={n // 10}", metric, OURS, row["variant"])
                if row["value"] and small and small[0]["value"]:
                    value = row["value"] / small[0]["value"]
                    more = {"metric": "growth_per_decade", "value": value, "error": None}
                    note = f"{metric} against N={n // 10}"
                    variant = f"{kind}, {row['variant']}"
                    out.append({**row, **more, "variant": variant, "note": note})
    return out


def _of(
    rows: Iterable[Row], work: str, metric: str, tool: str = "", variant: str = ""
) -> list[Row]:
    return [
        row
        for row in rows
        if row["work"] == work
        and row["metric"] == metric
        and row["tool"].startswith(tool)
        and row["variant"].startswith(variant)
    ]


def _comparable(row: Row, rows: list[Row]) -> list[Row]:
    """Rows of others with a value for the same: per step, those of the same method."""
    method = row["variant"].split()[0] if row["metric"] == "us_per_step" else ""
    found = _of(rows, row["work"], row["metric"], variant=method)
    return [other for other in found if other["value"] and other["tool"] != OURS]


def best_peer(row: Row, rows: list[Row], against: Iterable[str] = ()) -> Row | None:
    """The fastest peer (of those named) at what a row of ours measures."""
    peers = [other for other in _comparable(row, rows) if other["tool"] != BY_HAND]
    peers = [other for other in peers if not against or other["tool"] in against]
    return min(peers, key=lambda other: other["value"], default=None)


def with_ratios(rows: list[Row]) -> list[Row]:
    """Our rows of times with their ratios.

    `ratio_to_best_peer` is the best peer's time by ours: above one, we are faster.
    `ratio_to_by_hand` is our time by that of the program written by hand.
    """
    out = []
    for row in rows:
        row = {k: v for k, v in row.items() if not k.startswith("ratio_to_")}
        timed = row["metric"] == "us_per_step" or "_to_error_" in row["metric"]
        if row["tool"] == OURS and timed:
            peer = best_peer(row, rows) if row["value"] else None
            row["ratio_to_best_peer"] = peer["value"] / row["value"] if peer else None
            limit = [other for other in _comparable(row, rows) if other["tool"] == BY_HAND]
            if limit and row["value"]:
                row["ratio_to_by_hand"] = row["value"] / limit[0]["value"]
        out.append(row)
    return out


def complete(measured: list[Row]) -> list[Row]:
    """All rows: the measured ones, those derived from them, and the ratios of ours."""
    return with_ratios(measured + reached(measured) + growth(measured))


# -- tables -------------------------------------------------------------------------------------


def _number(x: float | None) -> str:
    return "-" if x is None else f"{x:.3g}"


def _table(head: list[str], lines: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    text = lambda line: "  ".join(x.ljust(w) for x, w in zip(line, widths)).rstrip()  # noqa: E731
    return "\n".join([text(head), text(["-" * w for w in widths]), *map(text, lines)])


def ratios(rows: list[Row]) -> str:
    """For each work and metric our best, the best peer and the program written by hand."""
    head = ["work", "metric", "holonax", "error", "best peer", "peer/ours"]
    head += ["by hand", "ours/by hand", "variants"]
    lines = []
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["tool"] == OURS and "ratio_to_best_peer" in row and "sampled" not in row["metric"]:
            method = row["variant"].split()[0] if row["metric"] == "us_per_step" else ""
            groups.setdefault((row["work"], row["metric"], method), []).append(row)
    for (work, metric, _), ours in groups.items():
        row = min(ours, key=lambda row: row["value"] or math.inf)
        peer = best_peer(row, rows)
        limit = [other for other in _comparable(row, rows) if other["tool"] == BY_HAND]
        against = f" | {peer['tool']}: {peer['variant']}" if peer else ""
        lines.append(
            [
                work,
                metric,
                _number(row["value"]),
                "" if row["error"] is None else f"{row['error']:.1e}",
                f"{_number(peer['value'])} {peer['tool']}" if peer else "-",
                _number(row["ratio_to_best_peer"]),
                _number(limit[0]["value"]) if limit else "",
                _number(row.get("ratio_to_by_hand")) if limit else "",
                row["variant"] + against,
            ]
        )
    return _table(head, lines)


def others(rows: list[Row]) -> str:
    """What is ours alone: compile times, memory, growth, fill."""
    metrics = ("build_s", "compile_s", "peak_MiB", "model_MiB", "growth_per_decade", "fill")
    lines = [
        [row["work"], row["metric"], _number(row["value"]), row["variant"], row["note"]]
        for row in rows
        if row["tool"] == OURS and row["metric"] in metrics
    ]
    return _table(["work", "metric", "value", "variant", ""], lines)


def _first_answer(
    rows: list[Row], variant: str, tool: str, goals: Iterable[float | None] = (None, None)
) -> list[str] | None:
    """Measured, wanted and ratio of the first process and of the second, and a note."""
    cells, notes, known = [], [], False
    for metric, goal in zip(("cold_s", "second_s"), goals):
        found = [row for row in _of(rows, "first-answer", metric, tool) if row["value"]]
        found = [row for row in found if row["variant"] == variant and row["tool"] == tool]
        value = found[0]["value"] if found else None
        known |= bool(found)
        ratio = None if value is None or goal is None else value / goal
        cells += [_number(value), _number(goal), _number(ratio)]
        notes += [row["note"] or row["setting"] for row in found]
    unlike = list(dict.fromkeys(filter(None, notes)))
    return [*cells, " / ".join(unlike)] if known else None


def first_answers(rows: list[Row]) -> list[list[str]]:
    """Lines of what a user waits for, ours first; those with nothing measured are left out."""
    out = []
    for first in FIRST_ANSWERS:
        tools = {row["tool"] for row in rows if row["work"] == "first-answer"} - {OURS}
        for tool in (OURS, *sorted(tools)):
            goals = (first.cold, first.second) if tool == OURS else (None, None)
            line = _first_answer(rows, first.variant, tool, goals)
            if line is not None:
                out.append([first.text if tool == OURS else f"{first.text}: {tool}", *line])
    return out


_FIRST = ["cold [s]", "wanted", "ratio", "second [s]", "wanted", "ratio"]


def waiting(rows: list[Row]) -> str:
    """The first answers, then each run from a shell, medians, and pairs above what is wanted."""
    own = {first.variant for first in FIRST_ANSWERS}
    more = [row["variant"] for row in rows if row["metric"] in ("cold_s", "second_s")]
    lines = first_answers(rows)
    for variant in dict.fromkeys(more):
        line = None if variant in own else _first_answer(rows, variant, OURS)
        lines += [] if line is None else [[variant, *line]]
    return _table(["first answer", *_FIRST, ""], lines) if lines else ""


def missing(rows: list[Row]) -> str:
    """What could not be measured, and why."""
    reasons: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in rows:
        if row["value"] is None and not _DERIVED.match(row["metric"]):
            reasons[row["work"], row["tool"], row["variant"]].append(row["note"])
    more = lambda notes: f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""  # noqa: E731
    lines = [[*key, notes[0][:120] + more(notes)] for key, notes in reasons.items()]
    return _table(["work", "tool", "variant", "why it is missing"], lines) if lines else ""


def _measured(target: Target, rows: list[Row]) -> float | None:
    """The best number of our rows that a target speaks of."""
    found = _of(rows, target.work, target.metric, OURS, target.variant)
    found = [row for row in found if row["value"]]
    if target.against:
        numbers = []
        for row in found:
            peer = best_peer(row, rows, target.against)
            numbers.append(peer["value"] / row["value"] if peer else None)
    else:
        numbers = [row.get(target.field) for row in found]
    known = [number for number in numbers if number is not None]
    return (max if target.at_least else min)(known, default=None)


def hopes(rows: list[Row]) -> str:
    """Each target beside what was measured."""
    lines = []
    for target in targets():
        measured = _measured(target, rows)
        met = "not measured" if measured is None else "yes" if target.met(measured) else "no"
        sign = ">=" if target.at_least else "<="
        ratio = _number(None if measured is None else measured / target.bound)
        lines.append([target.text, f"{sign} {target.bound:g}", _number(measured), ratio, met])
    return _table(["target", "wanted", "measured", "ratio", "met?"], lines)


# -- files --------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        name = found.group(1) if found else name
    return {"processor": name, "system": platform.platform(), "python": platform.python_version()}


def write(rows: list[Row]) -> None:
    """`latest.json`, `machine.json` and `summary.txt`."""
    RESULTS.mkdir(exist_ok=True)
    LATEST.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    (RESULTS / "machine.json").write_text(json.dumps(machine(), indent=2) + "\n")
    (RESULTS / "summary.txt").write_text(summary(rows) + "\n")


def summary(rows: list[Row]) -> str:
    """All tables."""
    tables = (ratios(rows), others(rows), waiting(rows), missing(rows), hopes(rows))
    return "\n\n".join(filter(None, tables))


def write_page(rows: list[Row]) -> None:
    """Put the table of first answers between its marks in docs/benchmarks.md."""
    head = ["what", *_FIRST]
    lines = [line[: len(head)] for line in first_answers(rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])
    mark = re.compile(r"(<!-- first answers -->\n).*(<!-- end -->)", re.DOTALL)
    text = mark.sub(lambda m: f"{m[1]}\n{table}\n\n{m[2]}", PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")


def plots(rows: list[Row]) -> list[Path]:
    """A work-precision plot for each work with errors to reach, and the cost of chains over N."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    RESULTS.mkdir(exist_ok=True)
    written = []
    for work in ERRORS:
        curves = _curves(rows, work)
        if not curves:
            continue
        figure, axes = plt.subplots(figsize=(9, 7), layout="constrained")
        tools = sorted({tool for tool, _ in curves}, key=lambda tool: (tool != OURS, tool))
        colours = {tool: f"C{i}" for i, tool in enumerate(tools)}
        for i, ((tool, variant), points) in enumerate(sorted(curves.items())):
            times, errors = zip(*points)
            axes.loglog(
                errors,
                times,
                marker="osv^D*"[i % 6],
                color=colours[tool],
                linewidth=2.0 if tool == OURS else 1.0,
                label=f"{tool}: {variant}",
            )
        axes.invert_xaxis()
        axes.set(xlabel="error", ylabel="CPU time [s]", title=work.removesuffix(" accuracy"))
        axes.grid(alpha=0.3)
        figure.legend(fontsize=7, loc="outside lower center", ncols=2)
        name = work.removesuffix(" accuracy").replace(" ", "-").replace("=", "")
        written.append(RESULTS / f"work-precision-{name}.png")
        figure.savefig(written[-1], dpi=130)
        plt.close(figure)
    written += _chain_plot(rows, plt)
    return written


def _curves(rows: list[Row], work: str) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """(time, error) of the variants of each tool that are its fastest at some error.

    A tool that reaches none of them shows the variant with its least error.
    """
    points: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in _of(rows, work, "s"):
        if row["value"] and row["error"]:
            points[row["tool"], row["variant"]].append((row["value"], row["error"]))
    chosen = set()
    for tool in {tool for tool, _ in points}:
        own = [key for key in points if key[0] == tool]
        best = []
        for error in ERRORS[work]:
            timed = [(time_to_error(points[key], error) or math.inf, key) for key in own]
            best += [key for seconds, key in [min(timed)] if math.isfinite(seconds)]
        chosen.update(best or [min(own, key=lambda key: min(e for _, e in points[key]))])
    return {key: points[key] for key in chosen}


def _chain_plot(rows: list[Row], plt: Any) -> list[Path]:
    lines: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        found = re.fullmatch(r"chain N=(\d+)", row["work"])
        if found and row["metric"] == "us_per_step" and row["value"]:
            lines[row["tool"], row["variant"]].append((int(found.group(1)), row["value"]))
    if not lines:
        return []
    figure, axes = plt.subplots(figsize=(8, 7), layout="constrained")
    for (tool, variant), points in sorted(lines.items()):
        axes.loglog(*zip(*sorted(points)), marker="o", label=f"{tool}: {variant}")
    axes.set(xlabel="bodies", ylabel="CPU time per step [µs]", title="chain on spherical joints")
    axes.grid(alpha=0.3)
    figure.legend(fontsize=7, loc="outside lower center")
    path = RESULTS / "chain-per-step.png"
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return [path]
