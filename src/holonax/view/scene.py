"""A mechanism drawn into matplotlib axes, and moved from one saved state to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._optional import require
from .skeleton import Skeleton
from .tubes import BENT

# Dark enough for paper, and of different lightness, so that they differ in grey as well.
COLOURS = ("#1f4e79", "#c8553d", "#3c8d7d", "#e0a030", "#6b4c8a", "#7a9a3c")
TRACES = ("#b3005e", "#0077b6", "#5c8001")
INK = "#222222"
_WIDTHS = {"spring": 1.1, "damper": 1.1, "rail": 1.0, "axis": 0.8, "outline": 1.1, "fill": 1.2}
_LIGHT = np.array([0.35, -0.5, 0.8]) / np.linalg.norm([0.35, -0.5, 0.8])
_MANY = 20  # bodies from which on they are drawn thin

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


def _colours(skeleton: Skeleton) -> dict[str | None, str]:
    return {None: INK, "ground": INK, **{s.name: colour(i) for i, s in enumerate(skeleton.strokes)}}


def _ground_marker() -> Any:
    """A pivot on hatched ground, its tip at the origin."""
    path = require("matplotlib.path")
    strokes = [[(0, 0), (-0.6, -1), (0.6, -1), (0, 0)], [(-0.9, -1), (0.9, -1)]]
    strokes += [[(x, -1), (x - 0.25, -1.35)] for x in np.linspace(-0.65, 0.9, 6)]
    codes = [[path.Path.MOVETO] + [path.Path.LINETO] * (len(s) - 1) for s in strokes]
    return path.Path(np.concatenate(strokes), np.concatenate(codes))


# -- in the plane ----------------------------------------------------------------------------


def _draw_planar(axes: Any, skeleton: Skeleton, trace_colours: Sequence[str]) -> Update:
    collections = require("matplotlib.collections")
    low, high = skeleton.span()
    axes.set_aspect("equal", adjustable="box")
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_xlabel("x [m]")
    axes.set_ylabel("y [m]")
    colours = _colours(skeleton)
    width = 4.0 if len(skeleton.strokes) < _MANY else 1.5
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
    shown = [s for s in skeleton.strokes if s.shown]
    closed = [s for s in shown if s.closed]
    bars = [s for s in shown if not s.closed]
    filled = [(x, local) for x in skeleton.solids for local in x.fills]
    ruled = [(x, local) for x in skeleton.solids for local in x.lines]
    blocks = [m for m in skeleton.marks if m.style == "fill"]
    marks = [m for m in skeleton.marks if m.style != "fill"]

    def polygons(names: list[Any], zorder: float, edge: float, shade: str) -> Any:
        artist = collections.PolyCollection(
            [],
            facecolors=[f"{colours[x]}{shade}" for x in names],
            edgecolors=[colours[x] for x in names],
            linewidths=edge,
            joinstyle="round",
            zorder=zorder,
        )
        axes.add_collection(artist, autolim=False)
        return artist

    def lines(names: list[str | None], widths: float | Sequence[float], zorder: float) -> Any:
        artist = collections.LineCollection(
            [],
            colors=[colours[x] for x in names],
            linewidths=widths,
            capstyle="round",
            joinstyle="round",
            zorder=zorder,
        )
        axes.add_collection(artist, autolim=False)
        return artist

    plates = polygons([s.name for s in closed], 2, 0.5 * width, "66")
    solids = polygons([x.name for x, _ in filled], 2.1, 0.3 * width, "70")
    sliders = polygons([m.body for m in blocks], 2.1, 0.3 * width, "70")
    spokes = lines([x.name for x, _ in ruled], 0.8, 2.2)
    symbols = lines([m.body for m in marks], [_WIDTHS[m.style] for m in marks], 2.4)
    rods = lines([None] * skeleton.rods.shape[1], 1.0, 2.5)
    bodies = lines([s.name for s in bars], width, 3)
    pins = _dots(axes, 4.0 if width > 2 else 1.5)
    trails = [axes.plot([], [], color=c, linewidth=1.3, zorder=2.3)[0] for c in trace_colours]
    heads = [axes.plot([], [], "o", color=c, markersize=5, zorder=5)[0] for c in trace_colours]

    def update(k: int) -> None:
        plates.set_verts([s.points[k] for s in closed])
        solids.set_verts([x.at(k, local) for x, local in filled])
        sliders.set_verts([m.points[k] for m in blocks])
        spokes.set_segments([x.at(k, local) for x, local in ruled])
        symbols.set_segments([_looped(m.points[k], m.closed) for m in marks])
        bodies.set_segments([s.points[k] for s in bars])
        rods.set_segments(list(skeleton.rods[k]))
        pins.set_data(*skeleton.pins[k].T)
        now = skeleton.index[k]
        for path, trail, head in zip(skeleton.traces.values(), trails, heads, strict=True):
            trail.set_data(*path[: now + 1].T)
            head.set_data(*path[now : now + 1].T)

    return update


def _looped(points: np.ndarray, closed: bool) -> np.ndarray:
    return np.concatenate([points, points[:1]]) if closed else points


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


# -- in space --------------------------------------------------------------------------------


def _draw_spatial(axes: Any, skeleton: Skeleton, trace_colours: Sequence[str]) -> Update:
    require("mpl_toolkits.mplot3d")
    art3d = require("mpl_toolkits.mplot3d.art3d")
    low, high = skeleton.span()
    for name, a, b in zip("xyz", low, high, strict=True):
        getattr(axes, f"set_{name}lim")(a, b)
        getattr(axes, f"set_{name}label")(f"{name} [m]")
        getattr(axes, f"{name}axis").set_major_locator(require("matplotlib.ticker").MaxNLocator(4))
        getattr(axes, f"{name}axis").set_pane_color("#f6f6f6")
    axes.set_box_aspect(high - low, zoom=0.75)
    colours = _colours(skeleton)
    width = 3.5 if len(skeleton.strokes) < _MANY else 1.5
    axes.plot(*skeleton.fixed.T, "s", color=INK, markersize=6)
    shown = [s for s in skeleton.strokes if s.shown]
    solids = [(x, local) for x in skeleton.solids for local in x.faces]
    scale = _strain_scale(skeleton)
    shaded = art3d.Poly3DCollection([], linewidths=0.15)
    axes.add_collection3d(shaded, autolim=False)
    lines = [
        axes.plot([], [], [], color=colours[s.name], linewidth=width, solid_capstyle="round")[0]
        for s in shown
    ]
    marks = [
        axes.plot([], [], [], color=colours[m.body], linewidth=1.4 * _WIDTHS[m.style])[0]
        for m in skeleton.marks
    ]
    rods = [axes.plot([], [], [], color=INK, linewidth=1.0)[0] for _ in skeleton.rods[0]]
    pins = _dots(axes, 4.0 if width > 2 else 1.5, spatial=True)
    trails = [axes.plot([], [], [], color=c, linewidth=1.3)[0] for c in trace_colours]

    def update(k: int) -> None:
        if solids or skeleton.tubes:
            placed = [(x.at(k, local), _rgb(colours[x.name])) for x, local in solids]
            for tube in skeleton.tubes:
                faces = tube.faces(k)
                tint = np.repeat(scale.to_rgba(tube.bent[k])[:, :3], faces.shape[1], axis=0)
                placed.append((faces.reshape(-1, 4, 3), tint))
            shaded.set_verts([face for faces, _ in placed for face in faces])
            tints = [_shaded(*part) for part in placed]
            shaded.set_facecolor(np.concatenate(tints))
            shaded.set_edgecolor(np.concatenate(tints) * (0.85, 0.85, 0.85, 1.0))
        for line, stroke in zip(lines, shown, strict=True):
            line.set_data_3d(*_looped(stroke.points[k], stroke.closed).T)
        for line, mark in zip(marks, skeleton.marks, strict=True):
            line.set_data_3d(*_looped(mark.points[k], mark.closed).T)
        for line, rod in zip(rods, skeleton.rods[k], strict=True):
            line.set_data_3d(*rod.T)
        pins.set_data_3d(*skeleton.pins[k].T)
        for path, trail in zip(skeleton.traces.values(), trails, strict=True):
            trail.set_data_3d(*path[: skeleton.index[k] + 1].T)

    return update


def _strain_scale(skeleton: Skeleton) -> Any:
    """The colours of curvatures of beams, from none to the largest that is drawn."""
    largest = max((float(np.max(x.bent, initial=0.0)) for x in skeleton.tubes), default=0.0)
    norm = require("matplotlib.colors").Normalize(0.0, largest if largest > 0 else 1.0)
    return require("matplotlib.cm").ScalarMappable(norm, "viridis")


def draw_scale(axes: Any, skeleton: Skeleton) -> None:
    """What the colours of beams mean, beside the picture; nothing where none is bent."""
    if any(np.any(x.bent) for x in skeleton.tubes):
        bar = axes.figure.colorbar(_strain_scale(skeleton), ax=axes, shrink=0.45, pad=0.12)
        bar.set_label(BENT)
        bar.outline.set_visible(False)


def _rgb(tint: str) -> np.ndarray:
    return np.array(require("matplotlib.colors").to_rgb(tint))


def _shaded(faces: np.ndarray, base: np.ndarray) -> np.ndarray:
    """The colours (n, 4) of faces of one colour (3,), or of one each (n, 3), in the light, the
    same from both sides."""
    normal = np.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
    if faces.shape[1] == 4:  # where two corners are one
        other = np.cross(faces[:, 2] - faces[:, 0], faces[:, 3] - faces[:, 0])
        small = np.linalg.norm(normal, axis=1) < np.linalg.norm(other, axis=1)
        normal = np.where(small[:, None], other, normal)
    size = np.maximum(np.linalg.norm(normal, axis=1), 1e-300)
    bright = 0.62 + 0.38 * (normal @ _LIGHT) / size
    light = np.clip(bright, 0.0, 1.0)[:, None]
    tones = base * light + 0.25 * (1 - base) * light
    return np.concatenate([tones, np.full((len(faces), 1), 0.95)], axis=1)
