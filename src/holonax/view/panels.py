"""Curves over time, or over each other, in panels by their unit."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._arguments import checked_call
from .._arguments import names as names_given
from .._messages import shown
from .._numbers import array
from .._optional import require
from ..result.named import expanded
from ..result.resampling import refined
from ..result.result import Result
from .drawable import check_drawn
from .scene import colour

Signals = Sequence[str] | Mapping[str, Any]

FINE = 600  # states over a run, for paths and curves that look smooth
_INTERVALS = 300  # of which the largest drift is shown
_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
STYLE = {
    "font.size": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
}
_WORDS = {
    "m": "position",
    "rad": "angle",
    "m/s": "velocity",
    "rad/s": "angular velocity",
    "m/s^2": "acceleration",
    "rad/s^2": "angular acceleration",
    "N": "force",
    "N m": "torque",
    "W": "power",
    "J": "energy",
}


@dataclass
class Panel:
    """Curves of one unit over the times `t`."""

    label: str
    t: np.ndarray
    curves: dict[str, np.ndarray] = field(default_factory=dict)
    logarithmic: bool = False


def named_panels(
    owner: str, result: Result, names: tuple[str, str, str, str] | Sequence[str]
) -> list[Panel]:
    """The named quantities, a panel for each unit."""
    names = names_given(owner, "signals", names)
    if not names:
        raise ValueError(f"{owner}: signals is empty. Name a signal, or leave it out.")
    wanted = expanded(owner, result, names)
    result = refined(result, FINE)
    registry = result._named
    panels: dict[str, Panel] = {}
    for name in wanted:
        unit = registry.entry(owner, name)[1].unit
        drifts = name.startswith("drift.")
        word = "drift" if drifts else _WORDS.get(unit, "coordinates" if not unit else "")
        label = (f"{word} [{unit}]" if unit else word).strip()
        panel = panels.setdefault(label, Panel(label, result.t, logarithmic=drifts))
        panel.curves[name.replace(".", " ")] = registry.values(owner, name)
    for panel in panels.values():
        if len(panel.curves) == 1:
            unit = re.search(r"\[.*\]", panel.label)
            panel.label = f"{next(iter(panel.curves))} {unit.group() if unit else ''}".strip()
    return list(panels.values())


def given_panels(result: Result, signals: Mapping[str, Any]) -> list[Panel]:
    """Curves given with labels, a panel for each unit in them."""
    panels: dict[str, Panel] = {}
    for label, values in signals.items():
        curve = array("plot", f"the signal {shown(label)}", values)
        if curve.shape != result.t.shape:
            raise ValueError(
                f"plot: signal {shown(label)} has shape {curve.shape}; the result has "
                f"{result.t.size} saved states, so give one number for each."
            )
        match = re.fullmatch(r"(.*?)\s*\[(.*)\]", label)
        name, unit = match.groups() if match else (label, "")
        panel = panels.setdefault(unit, Panel(label, result.t))
        panel.curves[name] = curve
        if len(panel.curves) > 1:
            common = os.path.commonprefix(list(panel.curves)).rstrip(" ,.:-")  # noqa: RUF071
            panel.label = f"{common} [{unit}]".strip()
    return list(panels.values())


def _envelope(t: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest value in each interval of time; zero has no logarithm and leaves a gap."""
    begins = np.unique(np.linspace(0, t.size, _INTERVALS, endpoint=False).astype(int))
    largest = np.maximum.reduceat(values, begins)
    return t[begins], np.where(largest > 0, largest, np.nan)


def draw_panel(axes: Any, panel: Panel, *, labelled: bool) -> None:
    """The curves of a panel, with a legend where there are several."""
    for i, values in enumerate(panel.curves.values()):
        curve = _envelope(panel.t, values) if panel.logarithmic else (panel.t, values)
        style = _STYLES[(i + i // len(_STYLES)) % len(_STYLES)]
        axes.plot(*curve, color=colour(i), linestyle=style, linewidth=1.1)
    if panel.logarithmic and any(np.any(x > 0) for x in panel.curves.values()):
        axes.set_yscale("log")
    else:
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useMathText=True)
    axes.set_ylabel(panel.label)
    axes.margins(x=0)
    if labelled:
        axes.set_xlabel("time [s]")
    else:
        axes.tick_params(labelbottom=False)
    if len(panel.curves) == 1:
        return
    axes.legend(
        axes.lines,
        list(panel.curves),
        loc="lower right",
        bbox_to_anchor=(1.0, 0.98),
        ncols=min(len(panel.curves), 3),
        frameon=False,
        borderpad=0,
        borderaxespad=0.2,
        columnspacing=1.0,
        handlelength=2.2,
        handletextpad=0.4,
    )


@checked_call
def curves(
    result: Result, names: Sequence[str], *, x: str | None = None, y: Any = None, title: str = ""
) -> Any:
    """A figure of named quantities: over time in panels by their unit, or `y` over `x`."""
    check_drawn("plot", result, title)
    pyplot = require("matplotlib.pyplot")
    if x is not None or y is not None:
        return _portrait(result, names, x, y, title)
    panels = named_panels("plot", result, names)
    with pyplot.rc_context(STYLE):
        size = (6.4, 0.6 + 2.0 * len(panels))
        figure = pyplot.figure(figsize=size, layout="constrained", dpi=150)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for i, (axes, panel) in enumerate(zip(grid, panels, strict=True)):
            draw_panel(axes, panel, labelled=i == len(panels) - 1)
        figure.suptitle(title, fontsize=9) if title else None
    return figure


def _portrait(result: Result, names: Any, x: Any, y: Any, title: str) -> Any:
    """One quantity over another, with its beginning marked."""
    if x is None or y is None or names_given("plot", "names", names):
        raise TypeError(
            "plot: for one quantity over another give x= and y= alone, as x='A.angle', y='A.rate'."
        )
    several = names_given("plot", "y", y)
    (across,) = _single(result, "x", names_given("plot", "x", x))
    wanted = expanded("plot", result, several)
    fine = refined(result, FINE)
    registry, pyplot = fine._named, require("matplotlib.pyplot")
    with pyplot.rc_context(STYLE):
        figure = pyplot.figure(figsize=(4.8, 4.2), layout="constrained", dpi=150)
        axes = figure.add_subplot()
        base = registry.values("plot", across)
        for i, name in enumerate(wanted):
            values = registry.values("plot", name)
            label = name.replace(".", " ")
            axes.plot(base, values, color=colour(i), linewidth=1.1, label=label)
            axes.plot(base[:1], values[:1], "o", color=colour(i), markersize=4)
        units = [registry.entry("plot", name)[1].unit for name in (across, wanted[0])]
        shown_names = across, wanted[0] if len(wanted) == 1 else ""
        labels = [
            f"{name.replace('.', ' ')} [{unit}]" if unit else name.replace(".", " ")
            for name, unit in zip(shown_names, units, strict=True)
        ]
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1].strip())
        if len(wanted) > 1:
            axes.legend(frameon=False)
        if set(units) == {"m"}:
            axes.set_aspect("equal", adjustable="datalim")
        if title:
            figure.suptitle(title, fontsize=9)
    return figure


def _single(result: Result, what: str, names: Any) -> list[str]:
    found = expanded("plot", result, names)
    if len(found) != 1:
        raise ValueError(
            f"plot: {what}={names[0]!r} is {len(found)} numbers: {', '.join(found[:4])}. Name one."
        )
    return found
