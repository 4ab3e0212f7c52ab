"""A figure of a result: the mechanism, chosen signals, energy and its balance, and drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._arguments import checked_call
from .._optional import require
from ..result.resampling import refined
from ..result.result import Result
from ..system.mechanism import Mechanism
from .drawable import check_drawn
from .panels import FINE, STYLE, Panel, Signals, draw_panel, given_panels, named_panels
from .scene import draw, draw_scale, trace_colour
from .skeleton import Skeleton, Traces, skeleton

_MOST_CURVES = 6  # in one panel, unless asked for


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

    - `signals`: names of quantities (``"A.angle"``, ``"spring.force"``; `Result.quantities` lists
      them), of bodies (``"coupler"``: its position), joints and forces; or a dictionary from labels
      with a unit (``"crank speed [rad/s]"``) to values at the saved states. Signals of one unit
      share a panel. Default: positions and angles of the first bodies.
    - `traces`: points whose paths are drawn, as pairs (body name, point in body coordinates [m]),
      or a dictionary from labels to such pairs.
    - `title`: a line above all panels.

    Curves of a run that saved its steps are drawn from its dense output. `Result.plot` draws
    curves alone.
    """
    check_drawn("plot", result, title)
    pyplot = require("matplotlib.pyplot")
    fine = refined(result, FINE)
    panels, quality = _signal_panels(result, fine, signals), _quality_panels(result)
    picture = None
    if isinstance(result.system, Mechanism):
        picture = skeleton(fine, np.array([0]), traces)
    with pyplot.rc_context(STYLE):
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
            draw_panel(axes, panel, labelled=i == len(panels) - 1)
        for axes, panel in zip(lower.subplots(1, len(quality)), quality, strict=True):
            draw_panel(axes, panel, labelled=True)
        if title:
            figure.suptitle(title, fontsize=9)
    return figure


def _signal_panels(result: Result, fine: Result, signals: Signals | None) -> list[Panel]:
    """Of the result's own states those given as arrays, of its `fine` ones those given by name."""
    if isinstance(signals, str):
        raise TypeError(f"plot: signals={signals!r} must be a list of names: [{signals!r}].")
    if isinstance(signals, Mapping):
        if not signals:
            raise ValueError("plot: signals is empty. Name a signal, or leave it out.")
        return given_panels(result, signals)
    if signals is not None:
        return named_panels("plot", fine, signals)
    names, note = _first_names(result)
    panels = named_panels("plot", fine, names)
    for panel in panels:
        panel.label += note
    return panels


def _first_names(result: Result) -> tuple[list[str], str]:
    """What is shown when nothing is asked for, and a note when there is more."""
    if not isinstance(result.system, Mechanism):
        names = result.system.coordinate_names(result.q.shape[1])
        note = f"\n(first {_MOST_CURVES} of {len(names)})" if len(names) > _MOST_CURVES else ""
        return names[:_MOST_CURVES], note
    bodies = result.system.bodies
    names = bodies.moving
    shown = names[: _MOST_CURVES // bodies.translations]
    note = f"\n(first {len(shown)} of {len(names)} bodies)" if len(names) > len(shown) else ""
    turning = [f"{x}.angle" for x in shown] if result.system.is_planar else []
    return [*(f"{x}.{k}" for x in shown for k in "xyz"[: bodies.translations]), *turning], note


def _quality_panels(result: Result) -> list[Panel]:
    """Energies, their balance, and drift."""
    energy = result.energy
    energies = {"kinetic": energy.kinetic, "potential": energy.potential, "total": energy.total}
    largest = max(float(np.max(np.abs(x))) for x in energies.values())
    if np.max(np.abs(energy.work)) > 1e-6 * largest:
        energies["work"] = energy.work
    position, velocity = result.drift()
    drift = {"position |g|": position, "velocity |ġ|": velocity}
    return [
        Panel("energy [J]", result.t, energies),
        Panel("total − start − work [J]", result.t, {"balance": energy.balance}),
        Panel("drift [SI units]", result.t, drift, logarithmic=True),
    ]


def _draw_picture(axes: Any, picture: Skeleton) -> None:
    draw(axes, picture)
    draw_scale(axes, picture)
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
