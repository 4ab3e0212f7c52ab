"""How the figures of all papers look: one style, lines that can be told apart in grey."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._optional import require

STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 2)))
COLOURS = ("#1b3a5c", "#c8553d", "#4c8c4a", "#8a6fb0", "#b58900", "#5b5b5b", "#2a9d8f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_LOOK = {
    "font.size": 9,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
}


def canvas(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] = (6.4, 3.6), **options: Any
) -> tuple[Any, Any]:
    """(figure, axes) in the common style, not tied to any window."""
    matplotlib = require("matplotlib")
    backend = require("matplotlib.backends.backend_agg")
    with matplotlib.rc_context(_LOOK):
        figure = require("matplotlib.figure").Figure(figsize=size, layout="constrained")
        backend.FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, **options)


def lines(axes: Any, x: Any, curves: dict[str, Any], *, log: bool = False, **options: Any) -> None:
    """Curves over a common x, each with its own colour and dash."""
    for k, (name, y) in enumerate(curves.items()):
        style = {"color": COLOURS[k % len(COLOURS)], "linestyle": STYLES[k % len(STYLES)]}
        (axes.semilogy if log else axes.plot)(x, y, label=name, **style, **options)


def finish(axes: Any, x: str, y: str, *, legend: bool | str = True) -> None:
    """Labels with units, and a legend where it covers least."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if legend:
        axes.legend(loc=legend if isinstance(legend, str) else "best", fontsize=8)


def look(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dash and marker for each name, the same in every panel of a figure."""
    return {
        name: {
            "color": COLOURS[k % len(COLOURS)],
            "linestyle": STYLES[k % len(STYLES)],
            "marker": MARKERS[k % len(MARKERS)],
        }
        for k, name in enumerate(names)
    }
