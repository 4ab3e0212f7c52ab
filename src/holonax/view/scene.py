"""A skeleton drawn into matplotlib axes, and moved from one saved state to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._optional import require
from .skeleton import Skeleton

# Dark enough for paper, and of different lightness, so that they differ in grey as well.
COLOURS = ("#1f4e79", "#c8553d", "#3c8d7d", "#e0a030", "#6b4c8a", "#7a9a3c")
TRACES = ("#b3005e", "#0077b6", "#5c8001")
INK = "#222222"

Update = Callable[[int], None]


def colour(i: int) -> str:
    """The colour of the i-th body or curve."""
    return COLOURS[i % len(COLOURS)]


def trace_colour(i: int) -> str:
    """The colour of the i-th path."""
    return TRACES[i % len(TRACES)]


def draw(axes: Any, skeleton: Skeleton) -> Update:
    """Draw the mechanism; the returned function moves it to the k-th state of its `index`."""
    draw_in = _draw_planar if skeleton.dimension == 2 else _draw_spatial
    update = draw_in(axes, skeleton, [trace_colour(i) for i in range(len(skeleton.traces))])
    update(0)
    return update


def _ground_marker() -> Any:
    """A pivot on hatched ground, its tip at the origin."""
    path = require("matplotlib.path")
    strokes = [[(0, 0), (-0.6, -1), (0.6, -1), (0, 0)], [(-0.9, -1), (0.9, -1)]]
    strokes += [[(x, -1), (x - 0.25, -1.35)] for x in np.linspace(-0.65, 0.9, 6)]
    codes = [[path.Path.MOVETO] + [path.Path.LINETO] * (len(s) - 1) for s in strokes]
    return path.Path(np.concatenate(strokes), np.concatenate(codes))


def _draw_planar(axes: Any, skeleton: Skeleton, trace_colours: Sequence[str]) -> Update:
    collections = require("matplotlib.collections")
    low, high = skeleton.span()
    axes.set_aspect("equal", adjustable="box")
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_xlabel("x [m]")
    axes.set_ylabel("y [m]")
    colours = [colour(i) for i in range(len(skeleton.strokes))]
    width = 4.0 if len(skeleton.strokes) < 20 else 1.5
    closed = [(s, c) for s, c in zip(skeleton.strokes, colours) if s.closed]
    bars = [(s, c) for s, c in zip(skeleton.strokes, colours) if not s.closed]
    axes.plot(
        *skeleton.fixed.T,
        linestyle="none",
        marker=_ground_marker(),
        markersize=17,
        markerfacecolor="white",
        markeredgecolor=INK,
        markeredgewidth=0.8,
        clip_on=False,
        zorder=3.5,
    )
    plates = collections.PolyCollection(
        [],
        facecolors=[f"{c}66" for _, c in closed],
        edgecolors=[c for _, c in closed],
        linewidths=0.5 * width,
        joinstyle="round",
        zorder=2,
    )
    rods = collections.LineCollection([], colors=INK, linewidths=1.0, zorder=2.5)
    lines = collections.LineCollection(
        [], colors=[c for _, c in bars], linewidths=width, capstyle="round", zorder=3
    )
    for artist in (plates, rods, lines):
        axes.add_collection(artist, autolim=False)
    pins = _dots(axes, 4.0 if width > 2 else 1.5)
    trails = [axes.plot([], [], color=c, linewidth=1.3, zorder=2.2)[0] for c in trace_colours]
    heads = [axes.plot([], [], "o", color=c, markersize=5, zorder=5)[0] for c in trace_colours]

    def update(k: int) -> None:
        plates.set_verts([s.points[k] for s, _ in closed])
        lines.set_segments([s.points[k] for s, _ in bars])
        rods.set_segments(list(skeleton.rods[k]))
        pins.set_data(*skeleton.pins[k].T)
        now = skeleton.index[k]
        for path, trail, head in zip(skeleton.traces.values(), trails, heads, strict=True):
            trail.set_data(*path[: now + 1].T)
            head.set_data(*path[now : now + 1].T)

    return update


def _dots(axes: Any, size: float, **options: Any) -> Any:
    empty = [[], [], []] if options.pop("spatial", False) else [[], []]
    return axes.plot(
        *empty,
        "o",
        markersize=size,
        markerfacecolor="white",
        markeredgecolor=INK,
        markeredgewidth=1.0,
        zorder=4,
        **options,
    )[0]


def _draw_spatial(axes: Any, skeleton: Skeleton, trace_colours: Sequence[str]) -> Update:
    require("mpl_toolkits.mplot3d")
    low, high = skeleton.span()
    for name, a, b in zip("xyz", low, high, strict=True):
        getattr(axes, f"set_{name}lim")(a, b)
        getattr(axes, f"set_{name}label")(f"{name} [m]")
        getattr(axes, f"{name}axis").set_major_locator(require("matplotlib.ticker").MaxNLocator(4))
        getattr(axes, f"{name}axis").set_pane_color("#f6f6f6")
    axes.set_box_aspect(high - low, zoom=0.9)
    width = 3.5 if len(skeleton.strokes) < 20 else 1.5
    axes.plot(*skeleton.fixed.T, "s", color=INK, markersize=6)
    lines = [
        axes.plot([], [], [], color=colour(i), linewidth=width, solid_capstyle="round")[0]
        for i in range(len(skeleton.strokes))
    ]
    rods = [axes.plot([], [], [], color=INK, linewidth=1.0)[0] for _ in skeleton.rods[0]]
    pins = _dots(axes, 4.0 if width > 2 else 1.5, spatial=True)
    trails = [axes.plot([], [], [], color=c, linewidth=1.3)[0] for c in trace_colours]

    def update(k: int) -> None:
        for line, stroke in zip(lines, skeleton.strokes, strict=True):
            closing = stroke.points[k, :1] if stroke.closed else stroke.points[k, :0]
            line.set_data_3d(*np.concatenate([stroke.points[k], closing]).T)
        for line, rod in zip(rods, skeleton.rods[k], strict=True):
            line.set_data_3d(*rod.T)
        pins.set_data_3d(*skeleton.pins[k].T)
        for path, trail in zip(skeleton.traces.values(), trails, strict=True):
            trail.set_data_3d(*path[: skeleton.index[k] + 1].T)

    return update
