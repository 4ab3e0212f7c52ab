"""The five papers this library grew from, each recomputed by its own module.

`reproduce("welch2007")` runs every table and figure of a paper and returns a `Report`; on the
command line it is ``holonax papers welch2007``. The modules use the public interface only and
read like the paper: mechanism, method, table.
"""

from __future__ import annotations

import importlib
import time
from pathlib import Path

from .._arguments import checked_call, choice, flag, folder, several
from .._messages import shown
from .report import Figure, Report, Row, Table, Text

__all__ = ["PAPERS", "Figure", "Report", "Row", "Table", "Text", "reproduce", "write_index"]

PAPERS = {
    "welch2007": "Welch, Hong, Trapp, Choi 2007: parameter-free constraint enforcement",
    "haug1997": "Haug, Negrut, Iancu 1997: implicit integration of the state-space equations",
    "ascher1995": "Ascher, Chin, Petzold, Reich 1995: stabilization and invariant manifolds",
    "wu2000": "Wu, Chiou, Lin 2000: modified Adams-Moulton predictor-corrector",
    "bauchau2009": "Bauchau, Epple, Bottasso 2009: scaling and augmented Lagrangian",
}


@checked_call
def reproduce(name: str, *, out: str | Path | None = None, quick: bool = False) -> Report:
    """Recompute a paper's tables and figures.

    **Arguments:**

    - `name`: one of `PAPERS`.
    - `out`: a folder for the report (HTML, Markdown, JSON, pictures); nothing is written without.
    - `quick`: only the tables that take seconds, and no figures.
    """
    choice("papers", "name", name, tuple(PAPERS))
    flag("papers", "quick", quick)
    out = None if out is None else folder("papers", "out", out)
    module = importlib.import_module(f".{name}", __name__)
    began = time.perf_counter()
    report = Report(name, module.CITATION, quick=quick)
    module.reproduce(report, quick)
    report.seconds = time.perf_counter() - began
    if out is not None:
        report.write(out / name)
    return report


@checked_call
def write_index(reports: list[Report], out: str | Path) -> Path:
    """An index.html over several reports in the folder `out`."""
    for report in several("write_index", "reports", reports, "reports"):
        if not isinstance(report, Report):
            raise TypeError(
                f"write_index: {shown(report)} is not a report. Give those that reproduce returns."
            )
    out = folder("write_index", "out", out)
    out.mkdir(parents=True, exist_ok=True)
    rows = "".join(
        f'<li><a href="{r.paper}/index.html">{PAPERS[r.paper]}</a>: '
        + f"{r.verdicts()} ({r.seconds:.0f} s)</li>"
        for r in reports
    )
    path = out / "index.html"
    page = "<!doctype html><html lang=en><meta charset=utf-8><title>holonax: papers</title>"
    style = "font:16px/1.6 system-ui,sans-serif;max-width:50rem;margin:2rem auto"
    body = f'<body style="{style}"><h1>Five papers, recomputed</h1><ul>{rows}</ul>'
    path.write_text(f"{page}{body}</html>\n", encoding="utf-8")
    return path
