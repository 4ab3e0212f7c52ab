"""What a reproduction consists of, and how it is written: published numbers beside ours.

A report is a list of tables and figures. Each number carries what was printed, what is computed
here, and from the two a verdict that nobody writes by hand.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import __version__

SAME = 1e-7  # relative difference that no printed number shows but those of all digits
CLOSE = 0.05  # relative difference up to which a number matches "within" it
SAME_MAGNITUDE = 5.0  # factor up to which two numbers are of one order of magnitude

MATCHES = "matches"
WITHIN = "matches within"  # ... so many per cent
MAGNITUDE = "matches in order of magnitude"
NOT = "not reproducible"
OURS = "ours only"


def last_digit(printed: str) -> float:
    """One unit in the last place of a printed number: 0.01 for "1.25", 1e-6 for "3.2e-5"."""
    mantissa, _, exponent = printed.lower().lstrip("+-").partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


@dataclass(frozen=True)
class Row:
    """One number: what was printed (None if nothing was, "*" for a blow-up), ours (NaN for
    a blow-up, infinity for no limit), and why they differ, where that is known."""

    name: str
    published: str | None
    ours: float
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours by the published number."""
        if self.published is None or self.published == "*" or float(self.published) == 0:
            return None
        return self.ours / float(self.published)

    @property
    def verdict(self) -> str:
        """From the two numbers alone; the reason is added where they do not match."""
        if self.published is None:
            return OURS
        if self.published == "*":  # a run that blew up
            return MATCHES if not math.isfinite(self.ours) else self._not()
        if not math.isfinite(self.ours):
            return self._not()
        difference = abs(self.ours - float(self.published))
        shown = max(1.0000001 * last_digit(self.published), SAME * abs(float(self.published)))
        if difference <= shown:
            return MATCHES
        ratio = self.ratio
        if ratio is None or ratio <= 0:
            return self._not()
        if abs(ratio - 1) <= CLOSE:
            return f"{WITHIN} {abs(ratio - 1):.1%}"
        if 1 / SAME_MAGNITUDE <= ratio <= SAME_MAGNITUDE:
            return MAGNITUDE + (f": {self.why}" if self.why else "")
        return self._not()

    def _not(self) -> str:
        return f"{NOT}: {self.why or 'the settings as printed do not give it'}"


@dataclass(frozen=True)
class Table:
    """Numbers that belong together, with the settings that give them and what they show."""

    title: str
    rows: Sequence[Row]
    settings: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True)
class Figure:
    """A drawing (a matplotlib figure), with the settings that give it and what it shows."""

    title: str
    figure: Any
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True)
class Text:
    """A finding in words."""

    title: str
    text: str


@dataclass
class Report:
    """A paper's reproduction."""

    paper: str
    citation: str
    parts: list[Table | Figure | Text] = field(default_factory=list)
    seconds: float = 0.0
    quick: bool = False

    def add(self, *parts: Table | Figure | Text) -> None:
        """Append parts in the order of the paper."""
        self.parts.extend(parts)

    @property
    def rows(self) -> list[Row]:
        """All numbers of all tables."""
        return [row for part in self.parts if isinstance(part, Table) for row in part.rows]

    def table(self, start: str) -> dict[str, Row]:
        """The rows, by name, of the table whose title begins with `start`."""
        (found,) = (p for p in self.parts if isinstance(p, Table) and p.title.startswith(start))
        return {row.name: row for row in found.rows}

    def summary(self) -> dict[str, int]:
        """How many numbers have which verdict."""
        kinds = (MATCHES, WITHIN, MAGNITUDE, NOT, OURS)
        out: dict[str, int] = dict.fromkeys(kinds, 0)
        for row in self.rows:
            exactly = [k for k in kinds if row.verdict == k]
            begins = [k for k in kinds[1:] if row.verdict.startswith(k)]
            out[(exactly or begins)[0]] += 1
        return {kind: n for kind, n in out.items() if n}

    def verdicts(self) -> str:
        """The summary in words."""
        words = {WITHIN: f"match within {CLOSE:.0%}", MATCHES: "match to the printed digits"}
        words |= {MAGNITUDE: "match in order of magnitude", OURS: "are ours only"}
        words |= {NOT: "are not reproducible"}
        return ", ".join(f"{n} {words[kind]}" for kind, n in self.summary().items())

    def write(self, folder: Path) -> None:
        """report.md, index.html, results.json and the pictures, all in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        for part in self.parts:
            if isinstance(part, Figure):
                part.figure.savefig(folder / f"{part.name}.png", dpi=160)
        (folder / "report.md").write_text(_markdown(self), encoding="utf-8")
        (folder / "index.html").write_text(_html(self), encoding="utf-8")
        numbers = [
            {"table": p.title, "name": r.name, "published": r.published, "ours": _json(r.ours)}
            | {"ratio": r.ratio, "verdict": r.verdict}
            for p in self.parts
            if isinstance(p, Table)
            for r in p.rows
        ]
        head = {"paper": self.paper, "version": __version__, "seconds": round(self.seconds, 1)}
        (folder / "results.json").write_text(json.dumps(head | {"numbers": numbers}, indent=1))


def _json(x: float) -> float | str:
    return float(x) if math.isfinite(x) else str(x)


def number(x: float, printed: str | None = None) -> str:
    """A number as tables show it: with a digit more than `printed` has, and at least four."""
    if not math.isfinite(x):
        return "blow-up" if math.isnan(x) else "no limit"
    if x == int(x) and abs(x) < 1e7:
        return str(int(x))
    mantissa = (printed or "").lower().partition("e")[0]
    digits = len(re.sub(r"\D", "", mantissa).lstrip("0"))
    return f"{x:.{min(max(digits + 1, 4), 16)}g}"


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    ratio = "" if row.ratio is None else f"{row.ratio:.4g}"
    return row.name, row.published or "–", number(row.ours, row.published), ratio, row.verdict


def _settings(settings: Mapping[str, Any]) -> str:
    return "; ".join(f"{key}: {value}" for key, value in settings.items())


def _headline(report: Report) -> Iterable[str]:
    yield f"holonax {__version__}, {report.seconds:.0f} s" + (", quick" if report.quick else "")
    yield f"{len(report.rows)} numbers: {report.verdicts()}" if report.rows else "figures only"


_HEAD = ("quantity", "published", "ours", "ratio", "verdict")


def _markdown(report: Report) -> str:
    lines = [f"# {report.paper}", "", report.citation, ""]
    lines += [f"- {line}" for line in _headline(report)] + [""]
    for part in report.parts:
        lines += [f"## {part.title}", ""]
        if isinstance(part, Figure):
            lines += [f"![{part.title}]({part.name}.png)", ""]
        if part.text:
            lines += [part.text, ""]
        if isinstance(part, Table):
            lines += ["| " + " | ".join(_HEAD) + " |", "|" + "---|" * len(_HEAD)]
            escaped = (tuple(c.replace("|", "\\|") for c in _cells(row)) for row in part.rows)
            lines += ["| " + " | ".join(cells) + " |" for cells in escaped] + [""]
        if not isinstance(part, Text) and part.settings:
            lines += [f"Settings. {_settings(part.settings)}", ""]
    return "\n".join(lines)


_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.6rem} h2{font-size:1.15rem;margin-top:2.5rem;border-top:1px solid #ddd;
padding-top:1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{text-align:left;padding:.15rem .9rem .15rem 0;border-bottom:1px solid #eee}
td.n{font-family:ui-monospace,monospace} img{max-width:100%;height:auto}
.note{color:#555;font-size:.9rem} .good{color:#1a6b2f} .fair{color:#8a5a00} .poor{color:#a11}
"""


def _class(verdict: str) -> str:
    if verdict.startswith(MAGNITUDE):
        return "fair"
    return "poor" if verdict.startswith(NOT) else "good" if verdict.startswith(MATCHES) else ""


def _inline(text: str) -> str:
    """Paragraphs, with `code` set as such."""
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
    return "".join(f"<p>{paragraph}</p>" for paragraph in safe.split("\n\n"))


def _html(report: Report) -> str:
    body = [f"<h1>{html.escape(report.paper)}</h1>", _inline(report.citation)]
    body.append(f'<p class="note">{"<br>".join(map(html.escape, _headline(report)))}</p>')
    for part in report.parts:
        body.append(f"<h2>{html.escape(part.title)}</h2>")
        if isinstance(part, Figure):
            body.append(f'<img src="{part.name}.png" alt="{html.escape(part.title)}">')
        if part.text:
            body.append(_inline(part.text))
        if isinstance(part, Table):
            body.append("<table><tr>" + "".join(f"<th>{h}</th>" for h in _HEAD) + "</tr>")
            for row in part.rows:
                name, *numbers, verdict = map(html.escape, _cells(row))
                cells = f"<td>{name}</td>" + "".join(f'<td class="n">{x}</td>' for x in numbers)
                cells += f'<td class="{_class(row.verdict)}">{verdict}</td>'
                body.append(f"<tr>{cells}</tr>")
            body.append("</table>")
        if not isinstance(part, Text) and part.settings:
            body.append(f'<p class="note">Settings. {html.escape(_settings(part.settings))}</p>')
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{report.paper}</title>'
        f"<style>{_STYLE}</style><body>{''.join(body)}</body></html>\n"
    )
