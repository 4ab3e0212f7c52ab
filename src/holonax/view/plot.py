"""A figure of a result: the mechanism, chosen signals, energy and its balance, and drift."""

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
from ..result.result import Result
from ..system.mechanism import Mechanism
from .drawable import check_drawn
from .scene import colour, draw, trace_colour
from .skeleton import Skeleton, Traces, skeleton

Signals = Sequence[str] | Mapping[str, Any]

_MOST_CURVES = 6  # in one panel, unless asked for
_INTERVALS = 300  # of which the largest drift is shown
_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
_QUANTITIES = {"m": "position", "rad": "angle", "1": "quaternion"}
_FONT = {
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


@dataclass
class _Panel:
    label: str
    curves: dict[str, np.ndarray] = field(default_factory=dict)
    logarithmic: bool = False


@checked_call
def plot(
    result: Result,
    signals: Signals | None = None,
    *,
    traces: Traces = (),
    title: str = "",
) -> Any:
    """A matplotlib figure of the result; save it with `figure.savefig(path)`.

    Panels: the mechanism in its first state with the paths of chosen points, the signals, energies,
    the energy's balance (total minus start minus work, zero for an exact solution), and drift (the
    largest in each three-hundredth of the run).

    **Arguments:**

    - `signals`: names of bodies (``"coupler"``: its position) or of coordinates
      (``"crank.angle"``, ``"q[0]"``), or a dictionary from labels with a unit
      (``"crank speed [rad/s]"``) to values at the saved states. Signals of one unit share a panel.
      Default: positions and angles of the first bodies.
    - `traces`: points whose paths are drawn, as pairs (body name, point in body coordinates [m]),
      or a dictionary from labels to such pairs.
    - `title`: a line above all panels.
    """
    check_drawn("plot", result, title)
    pyplot = require("matplotlib.pyplot")
    panels, quality = _signal_panels(result, signals), _quality_panels(result)
    picture = None
    if isinstance(result.system, Mechanism):
        picture = skeleton(result, np.array([0]), traces)
    with pyplot.rc_context(_FONT):
        rows = max(len(panels), 2)
        figure = pyplot.figure(figsize=(7.2, 1.7 * rows + 2.0), layout="constrained", dpi=150)
        upper, lower = figure.subfigures(2, 1, height_ratios=[1.7 * rows, 2.0])
        columns = 1 if picture is None else 2
        grid = upper.add_gridspec(len(panels), columns)
        if picture is not None:
            kind = None if picture.dimension == 2 else "3d"
            _draw_picture(upper.add_subplot(grid[:, 0], projection=kind), picture)
        for i, panel in enumerate(panels):
            axes = upper.add_subplot(grid[i, -1])
            _draw_panel(axes, panel, result.t, labelled=i == len(panels) - 1)
        for axes, panel in zip(lower.subplots(1, len(quality)), quality, strict=True):
            _draw_panel(axes, panel, result.t, labelled=True)
        if title:
            figure.suptitle(title, fontsize=9)
    return figure


def _signal_panels(result: Result, signals: Signals | None) -> list[_Panel]:
    if isinstance(signals, str):
        raise TypeError(f"plot: signals={signals!r} must be a list of names: [{signals!r}].")
    if isinstance(signals, Mapping):
        if not signals:
            raise ValueError("plot: signals is empty. Name a signal, or leave it out.")
        return _given_panels(result, signals)
    names = result.system.coordinate_names(result.q.shape[1])
    note = ""
    if signals is not None:
        signals = names_given("plot", "signals", signals)
        if not signals:
            raise ValueError("plot: signals is empty. Name a signal, or leave it out.")
    else:
        signals, note = _first_names(result, names)
    panels: dict[str, _Panel] = {}
    for name in signals:
        found = [i for i, x in enumerate(names) if x == name]
        found = found or [i for i, x in enumerate(names) if _is_position(x, name)]
        if not found:
            raise ValueError(
                f"plot: there is no coordinate or body {name!r}. The coordinates are "
                f"{', '.join(names[:12])}{', ...' if len(names) > 12 else ''}."
            )
        for i in found:
            unit = _unit(names[i]) if isinstance(result.system, Mechanism) else ""
            quantity = _QUANTITIES.get(unit, "coordinates")
            label = f"{quantity} [{unit}]" if unit else quantity
            panel = panels.setdefault(unit, _Panel(label + note))
            panel.curves[names[i].replace(".", " ")] = result.q[:, i]
    return list(panels.values())


def _given_panels(result: Result, signals: Mapping[str, Any]) -> list[_Panel]:
    panels: dict[str, _Panel] = {}
    for label, values in signals.items():
        curve = array("plot", f"the signal {shown(label)}", values)
        if curve.shape != result.t.shape:
            raise ValueError(
                f"plot: signal {shown(label)} has shape {curve.shape}; the result has "
                f"{result.t.size} saved states, so give one number for each."
            )
        match = re.fullmatch(r"(.*?)\s*\[(.*)\]", label)
        name, unit = match.groups() if match else (label, "")
        panel = panels.setdefault(unit, _Panel(label))
        panel.curves[name] = curve
        if len(panel.curves) > 1:
            common = os.path.commonprefix(list(panel.curves)).rstrip(" ,.:-")  # noqa: RUF071
            panel.label = f"{common} [{unit}]".strip()
    return list(panels.values())


def _first_names(result: Result, names: list[str]) -> tuple[list[str], str]:
    """The coordinates shown when none are asked for, and a note when there are more."""
    if not isinstance(result.system, Mechanism):
        note = f"\n(first {_MOST_CURVES} of {len(names)})" if len(names) > _MOST_CURVES else ""
        return names[:_MOST_CURVES], note
    bodies = list(dict.fromkeys(name.split(".")[0] for name in names))
    per_body = sum(_unit(x) == "m" for x in names if x.split(".")[0] == bodies[0])
    shown = bodies[: _MOST_CURVES // per_body]
    note = f"\n(first {len(shown)} of {len(bodies)} bodies)" if len(bodies) > len(shown) else ""
    return [x for body in shown for x in names if _is_shown(x, body)], note


def _unit(coordinate: str) -> str:
    component = coordinate.rsplit(".", 1)[-1]
    return "rad" if component == "angle" else "m" if component in ("x", "y", "z") else "1"


def _is_shown(coordinate: str, body: str) -> bool:
    """Positions and angles; quaternions say little to the eye."""
    return coordinate.rsplit(".", 1)[0] == body and _unit(coordinate) != "1"


def _is_position(coordinate: str, body: str) -> bool:
    return coordinate.rsplit(".", 1)[0] == body and _unit(coordinate) == "m"


def _quality_panels(result: Result) -> list[_Panel]:
    """Energies, their balance, and drift."""
    energy = result.energy
    energies = {"kinetic": energy.kinetic, "potential": energy.potential, "total": energy.total}
    largest = max(float(np.max(np.abs(x))) for x in energies.values())
    if np.max(np.abs(energy.work)) > 1e-6 * largest:
        energies["work"] = energy.work
    position, velocity = result.drift()
    drift = {"position |g|": position, "velocity |ġ|": velocity}
    return [
        _Panel("energy [J]", energies),
        _Panel("total − start − work [J]", {"balance": energy.balance}),
        _Panel("drift [SI units]", drift, logarithmic=True),
    ]


def _envelope(t: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest value in each interval of time; zero has no logarithm and leaves a gap."""
    begins = np.unique(np.linspace(0, t.size, _INTERVALS, endpoint=False).astype(int))
    largest = np.maximum.reduceat(values, begins)
    return t[begins], np.where(largest > 0, largest, np.nan)


def _draw_panel(axes: Any, panel: _Panel, t: np.ndarray, *, labelled: bool) -> None:
    for i, values in enumerate(panel.curves.values()):
        curve = _envelope(t, values) if panel.logarithmic else (t, values)
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


def _draw_picture(axes: Any, picture: Skeleton) -> None:
    draw(axes, picture)
    for i, (name, path) in enumerate(picture.traces.items()):
        axes.plot(*path.T, color=trace_colour(i), linewidth=1.2, label=f"path of {name}")
    if picture.traces:
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=2,
            frameon=False,
            borderpad=0,
            borderaxespad=0.2,
        )
