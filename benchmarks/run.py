"""Mechanism x method x tool in one run: ``make bench``.

Each tool runs each work in a process of its own, one at a time, on one core. Results of works that
are not run are kept from the last time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import report
from .measure import pin
from .works import TOOLS, Job, jobs

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]


def run_job(job: Job, repeats: int, pairs: int | None = None) -> list[Row]:
    """The rows of one process; what went wrong with it is a row too."""
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        command = [sys.executable, "-W", "ignore", "-m", TOOLS[job.tool], job.key]
        command += ["--rows", str(rows), "--repeats", str(repeats), "--budget", str(job.seconds)]
        command += [] if pairs is None else ["--pairs", str(pairs)]
        problem = ""
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=1.5 * job.seconds + 30,
            )
            if done.returncode:
                said = done.stderr.strip().splitlines()
                problem = said[-1] if said else f"ended with status {done.returncode}"
        except subprocess.TimeoutExpired:
            problem = f"stopped after {1.5 * job.seconds + 30:.0f} s"
        found = [json.loads(line) for line in rows.read_text().splitlines()]
    if problem:
        print(f"{job.key}: {job.tool}: {problem}", flush=True)
        found.append(failure(job, problem))
    return found


def failure(job: Job, problem: str) -> Row:
    """A row that says why a process measured nothing (more)."""
    absent = {"value": None, "error": None, "setting": "", "version": ""}
    what = {"work": job.work, "tool": job.tool, "variant": job.key.partition("/")[2]}
    return {**what, "metric": "process", **absent, "note": problem[:300]}


def chosen(only: list[str], tools: list[str]) -> list[Job]:
    """The jobs whose work begins with one of `only` and whose tool is one of `tools`."""
    return [
        job
        for job in jobs()
        if (not only or any(job.key.startswith(word) for word in only))
        and (not tools or job.tool in tools)
    ]


def main() -> None:
    """Measure, then write and print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORK", help="names or beginnings")
    parser.add_argument("--tools", nargs="+", default=[], choices=list(TOOLS), metavar="TOOL")
    parser.add_argument("--repeats", type=int, default=5, help="best of how many (%(default)s)")
    parser.add_argument(
        "--pairs", type=int, metavar="N", help="of methods to try; all if not given"
    )
    parser.add_argument("--list", action="store_true", help="show works and tools, measure nothing")
    parser.add_argument("--report", action="store_true", help="only report what was measured last")
    parser.add_argument(
        "--docs", action="store_true", help="write tables to docs/benchmarks.md too"
    )
    arguments = parser.parse_args()
    todo = [] if arguments.report else chosen(arguments.only, arguments.tools)
    if arguments.list:
        for job in todo:
            print(f"{job.key:32} {job.tool}")
        return
    pin()
    begin = time.monotonic()
    for job in todo:
        new = run_job(job, arguments.repeats, arguments.pairs)
        # A part that is run replaces only what that part measured; others may be measured beside.
        rows = [row for row in report.load() if not replaced(row, job)]
        rows += [{**row, "job": job.key} for row in new]
        report.write(report.complete(rows))
    rows = report.complete(report.load())
    report.write(rows)
    print("\n" + report.summary(rows))
    if arguments.docs:
        report.write_page(rows)
    for path in report.plots(rows):
        print(path.relative_to(ROOT))
    print(f"{report.LATEST.relative_to(ROOT)}: {len(rows)} rows")
    print(f"{(time.monotonic() - begin) / 60:.1f} minutes")


def replaced(row: Row, job: Job) -> bool:
    """Whether a job measures again what made this row."""
    return row["tool"] == job.tool and row["job"] == job.key


if __name__ == "__main__":
    main()
