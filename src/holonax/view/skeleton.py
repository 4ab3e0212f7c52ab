"""What is drawn of a mechanism: its bodies by their shapes, its joints and forces by symbols.

A body without a shape is drawn through the points where joints attach to it; one with a single
point through that and its centre of mass; a free one as the circle of its radius of gyration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._arguments import several
from .._messages import shown
from .._numbers import array
from ..result.motion import BodyMotion
from ..system.inventory import Connection, Inventory
from ..system.mechanism import Mechanism
from . import symbols
from .solids import circle, faces, outlines
from .symbols import Mark
from .tubes import Tube, tubes

Trace = tuple[str, Any]  # the name of a body and a point in its coordinates
Traces = Mapping[str, Trace] | Sequence[Trace]
_SAME = 1e-6  # relative distance below which two points are drawn as one
# Joints that hold a point of the ground, which is drawn as a bearing.
_HELD = ("revolute", "spherical", "universal", "fixed", "distance", "spring_damper", "bushing")


@dataclass(frozen=True)
class Stroke:
    """A body as a line through `points` (times, n, dimension), closed to a plate or not; not
    `shown` where its shape says enough."""

    name: str
    points: np.ndarray
    closed: bool
    shown: bool = True


@dataclass(frozen=True)
class Solid:
    """A body by its shapes: geometry in its coordinates, and where it is over time.

    In the plane `fills` are polygons and `lines` what is drawn on them; in space `faces` (n, 3 or
    4, 3).
    """

    name: str
    position: np.ndarray
    rotation: np.ndarray
    fills: tuple[np.ndarray, ...] = ()
    lines: tuple[np.ndarray, ...] = ()
    faces: tuple[np.ndarray, ...] = ()

    def at(self, k: int, local: np.ndarray) -> np.ndarray:
        """Points of the body in the world at the k-th state."""
        return local @ self.rotation[k].T + self.position[k]

    def corners(self) -> np.ndarray:
        """The box around the body, in its coordinates."""
        parts = [x.reshape(-1, x.shape[-1]) for x in (*self.fills, *self.lines, *self.faces)]
        points = np.concatenate(parts)
        low, high = points.min(axis=0), points.max(axis=0)
        sides = np.stack(np.meshgrid(*zip(low, high, strict=True)), axis=-1)
        return sides.reshape(-1, low.size)


@dataclass(frozen=True)
class Skeleton:
    """A mechanism at the saved states `index`, in the plane (dimension 2) or in space (3).

    `rods` (times, n, 2, dimension) join the two points of a joint that keeps them apart; `pins`
    (times, n, dimension) are the joints' points and `fixed` (n, dimension) those on the ground.
    `marks` are springs, rails, wheels and the like, `tubes` beams. `traces` are the paths (all
    saved states, dimension) of chosen points.
    """

    index: np.ndarray
    dimension: int
    strokes: tuple[Stroke, ...]
    solids: tuple[Solid, ...]
    marks: tuple[Mark, ...]
    rods: np.ndarray
    pins: np.ndarray
    fixed: np.ndarray
    traces: dict[str, np.ndarray]
    tubes: tuple[Tube, ...] = ()

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest coordinates of all that is drawn, with a margin."""
        parts = [*(s.points for s in self.strokes if s.shown), self.pins, self.fixed]
        parts += [*self.traces.values(), *(x.points for x in (*self.marks, *self.tubes))]
        for solid in self.solids:
            corners = solid.corners()
            parts += [solid.at(k, corners) for k in range(len(solid.position))]
        points = np.concatenate([p.reshape(-1, self.dimension) for p in parts])
        points = points[np.all(np.isfinite(points), axis=1)]
        points = points if points.size else np.zeros((1, self.dimension))
        low, high = points.min(axis=0), points.max(axis=0)
        largest = max(float(np.max(high - low)), 1e-9)
        half = np.maximum((high - low) / 2 + 0.07 * largest, 0.2 * largest)
        return (low + high) / 2 - half, (low + high) / 2 + half


@dataclass(frozen=True)
class Bodies:
    """The bodies' motions, the points that have been found on each, and their shapes."""

    motions: dict[str, BodyMotion]
    parts: Inventory
    system: Mechanism
    attached: dict[str, list[np.ndarray]] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)  # bodies that symbols show

    @property
    def dimension(self) -> int:
        return self.system.bodies.translations

    @property
    def count(self) -> int:
        """How many states there are."""
        return next(iter(self.motions.values())).position.shape[0]

    @cached_property
    def size(self) -> float:
        """The size of the mechanism [m], by which symbols are scaled."""
        points = [self.path(x.bodies[k], p)[0] for x in self.parts.connections for k, p in _ends(x)]
        points += [motion.position[0] for motion in self.motions.values()]
        for name, shapes in self.parts.shapes.items():
            points += [self.path(name, p)[0] for s in shapes for p in _reach(s, self.dimension)]
        found = np.array(points)
        size = float(np.max(np.ptp(found, axis=0)))
        if size == 0:  # a mass without a shape: it has the size of its way
            ways = [
                x.position[np.all(np.isfinite(x.position), axis=1)] for x in self.motions.values()
            ]
            size = max((float(np.max(np.ptp(x, axis=0))) for x in ways if x.size), default=0.0)
        return max(size, 1e-6)

    def path(self, name: str, local: np.ndarray) -> np.ndarray:
        """World positions (states, dimension) of a point of a body or of the ground."""
        point = np.asarray(local, dtype=float)
        if name == "ground":
            return np.tile(point, (self.count, 1))
        return self.motions[name].point(point)

    def turned(self, name: str, local: np.ndarray) -> np.ndarray:
        """World directions (states, dimension) of a vector of a body or of the ground."""
        return self.path(name, local) - self.path(name, np.zeros(self.dimension))

    def attach(self, name: str, local: np.ndarray) -> np.ndarray:
        """`path`, of a point that the body's picture will pass through."""
        if name != "ground":
            found, point = self.attached.setdefault(name, []), np.asarray(local, dtype=float)
            if not any(_coincide(point, other) for other in found):
                found.append(point)
        return self.path(name, local)

    def is_shaped(self, name: str) -> bool:
        """Whether a body has a shape of its own."""
        return bool(self.parts.shapes.get(name))

    # -- pictures of bodies ------------------------------------------------------------------

    def stroke(self, name: str, index: np.ndarray) -> Stroke:
        """The body's picture through its attached points and the ends of its rods."""
        shapes = self.parts.shapes.get(name, ())
        points = list(self.attached.get(name, []))
        for shape in shapes:
            for end in _reach(shape, self.dimension) if shape.kind == "rod" else ():
                if not any(_coincide(end, other) for other in points):
                    points.append(end)
        planar = self.dimension == 2
        centre = np.asarray(self.motions[name].com)
        solid = bool(shapes) and all(x.kind != "rod" for x in shapes)
        if solid:  # arms to what the shape does not reach
            points = [p for p in points if self._is_outside(shapes, p)]
        shown = bool(points)
        if (len(points) < 2 or solid) and not any(_coincide(p, centre) for p in points):
            points = [*points, centre]
        closed = planar and not solid and len(points) > 2 and not _in_a_row(points)
        if closed:
            middle = np.mean(points, axis=0)
            points = sorted(points, key=lambda p: float(np.arctan2(*(p - middle)[::-1])))
        elif len(points) > 2 and planar and not solid:
            points = sorted(points, key=lambda p: (float(p[0]), float(p[1])))
        elif len(points) > 2:  # in space, or from a solid: a star from the centre of mass
            points = [p for point in points for p in (centre, point)]
        lines = np.stack([self.path(name, p)[index] for p in points], axis=1)
        return Stroke(name, lines, closed, shown and len(points) > 1)

    def _is_outside(self, shapes: Any, point: np.ndarray) -> bool:
        """Whether no shape reaches as far as a point; a rod is a line, and drawn as one."""
        reach = 0.03 * self.size
        for shape in shapes:
            corners = _reach(shape, self.dimension)
            low, high = corners.min(axis=0) - reach, corners.max(axis=0) + reach
            if shape.kind != "rod" and np.all(point >= low) and np.all(point <= high):
                return False
        return True

    def solid(self, name: str, index: np.ndarray) -> Solid | None:
        """The body's shapes; the circle of its radius of gyration where nothing else shows it."""
        motion, shapes = self.motions[name], self.parts.shapes.get(name, ())
        position = motion.position[index]
        if motion.rotation is not None:
            thin = 0.012 * self.size
            found = [faces(x, thin) for x in shapes]
            if not found and not self._is_seen(name):
                found = [faces(_Ball(self._gyration(name), motion.com), thin)]
            turned = motion.rotation[index]
            return Solid(name, position, turned, faces=tuple(found)) if found else None
        assert motion.angle is not None
        c, s = np.cos(motion.angle[index]), np.sin(motion.angle[index])
        turned = np.moveaxis(np.array([[c, -s], [s, c]]), -1, 0)
        pairs = [outlines(x) for x in shapes if x.kind not in ("rod", "point")]
        fills, lines = ([x for pair in pairs for x in pair[k]] for k in (0, 1))
        if any(x.kind == "point" for x in shapes):
            dot = circle(0.02 * self.size, 24)
            fills += [dot + x.pose[1][:2] for x in shapes if x.kind == "point"]
        if not shapes and not self._is_seen(name):
            radius, com = self._gyration(name), np.asarray(motion.com)
            fills.append(com + circle(radius))
            lines += [com + radius * np.array(x) for x in ([[-1, 0], [1, 0]], [[0, -1], [0, 1]])]
        return Solid(name, position, turned, tuple(fills), tuple(lines)) if fills else None

    def _is_seen(self, name: str) -> bool:
        """Whether joints show a body that has no shape: by points off its centre, or symbols; a
        node is shown by the line of its beam."""
        i = self.system.bodies.names.index(name)
        if any(i in frames for frames in self.system.drawn_through().values()):
            return True
        centre = np.asarray(self.motions[name].com)
        off = [x for x in self.attached.get(name, []) if not _coincide(x, centre)]
        return bool(off) or name in self.marked

    def _gyration(self, name: str) -> float:
        i, s = self.system.number_of(name), self.system.bodies
        inertia = np.asarray(s.inertia)
        moment = inertia[i] if self.dimension == 2 else np.max(inertia[:3, i])
        mass = np.asarray(s.mass)[i]
        # the floating frame of a body with modes is a dot
        return float(np.sqrt(moment / mass)) if mass else 0.01 * self.size


class _Ball:
    """A sphere about the centre of mass, for a body of which no more is known."""

    kind = "sphere"

    def __init__(self, radius: float, centre: Any):
        self.radius, self.pose = radius, (np.eye(3), np.asarray(centre))


def _reach(shape: Any, dimension: int) -> np.ndarray:
    """Points (n, dimension) that a shape extends to."""
    R, p = shape.pose
    if shape.kind == "rod":
        end = 0.5 * shape.length * np.eye(3)["xyz".index(shape.axis)]
        return np.stack([p - R @ end, p + R @ end])[:, :dimension]
    points = faces(shape, 0.0).reshape(-1, 3)
    return np.stack([points.min(axis=0), points.max(axis=0)])[:, :dimension]


def _ends(part: Connection) -> list[tuple[int, np.ndarray]]:
    """(which body, its point) of both ends of a joint or force."""
    return [(0, part.point_a), (min(1, len(part.bodies) - 1), part.point)]


def skeleton(result: Any, index: np.ndarray, traces: Traces = ()) -> Skeleton:
    """What to draw at the saved states `index`; `traces` are pairs (body, body-fixed point)."""
    system = result.system
    if not isinstance(system, Mechanism):
        raise TypeError(
            f"Drawing a mechanism needs one made with hx.Model; this result belongs to a "
            f"{type(system).__name__}, which knows coordinates only. hx.plot shows those."
        )
    names = system.bodies.rigid
    parts = system.complete().parts()
    bodies = Bodies({x: result[x] for x in names}, parts, system)
    rods, pins, fixed = _joints(system, parts, bodies)
    if not isinstance(traces, Mapping):
        wanted = "pairs (name of a body, point in the body's coordinates)"
        pairs = several("traces", "traces", traces, wanted)
        traces = {f"point {i + 1}": trace for i, trace in enumerate(pairs)}
    paths = {label: _traced(bodies, trace) for label, trace in traces.items()}
    acting = [x for x in parts.connections if not x.is_joint or x.name in dict(system.markers)]
    marks = [mark.at(index) for part in acting for mark in symbols.of(part, bodies)]
    bodies.marked.update(mark.body for mark in marks if mark.body is not None)
    solids = [solid for x in names if (solid := bodies.solid(x, index)) is not None]
    return Skeleton(
        index,
        bodies.dimension,
        tuple(bodies.stroke(name, index) for name in names),
        tuple(solids),
        tuple(marks),
        rods[index],
        pins[index],
        fixed,
        paths,
        tuple(tubes(system, result.q[index], result.v[index], bodies.size)),
    )


def _joints(
    system: Mechanism, parts: Inventory, bodies: Bodies
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rods, pins and fixed points of a `Skeleton`, at all saved states."""
    n, d = bodies.count, bodies.dimension
    rods, pins, fixed = [np.zeros((n, 0, 2, d))], [np.zeros((n, 0, d))], [np.zeros((0, d))]
    acting = dict(system.markers)
    for part in parts.connections:
        if part.type not in symbols.AT_POINTS or (part.is_joint and part.name not in acting):
            continue
        (_, p), (k, q) = _ends(part)
        first, second = part.bodies[0], part.bodies[k]
        # a rail, slot or curve shows itself where the point of the second body is
        a = bodies.path(first, p) if part.type in symbols.ALONG else bodies.attach(first, p)
        b = bodies.attach(second, q)
        if part.type in symbols.PINNED:
            pins.append(b[:, None])
        if not _coincide(a, b) and part.type in symbols.APART:
            pins.append(a[:, None])
            if part.type == "distance":
                rods.append(np.stack([a, b], axis=1)[:, None])
        if part.type in _HELD:
            fixed += [path[:1] for name, path in ((first, a), (second, b)) if name == "ground"]
    beams = {beam.name for beam in system.beams}
    for flexible, frames in system.drawn_through().items():
        if not frames or flexible in beams:
            continue
        nodes = [system.bodies.names[i] for i in frames]
        path = np.stack([bodies.path(name, np.zeros(d)) for name in nodes], axis=1)
        rods.append(np.stack([path[:, :-1], path[:, 1:]], axis=2))
    return np.concatenate(rods, axis=1), np.concatenate(pins, axis=1), np.concatenate(fixed)


def _traced(bodies: Bodies, trace: tuple[str, tuple[float, float]]) -> np.ndarray:
    try:
        name, local = trace
    except Exception:
        raise ValueError(
            f"traces: {shown(trace)} must be a pair (name of a body, point in the body's "
            "coordinates)."
        ) from None
    point = array("traces", "point", local)
    try:  # nodes of beams have several names
        name = bodies.system.bodies.names[bodies.system.number_of(name)]
    except KeyError:
        raise ValueError(
            f"traces: there is no body {shown(name)}; the bodies are {', '.join(bodies.motions)}."
        ) from None
    if point.shape != (bodies.dimension,):
        raise ValueError(
            f"traces: a point on {name!r} must have {bodies.dimension} coordinates, got "
            f"{point.tolist()}."
        )
    return bodies.path(name, point) if bodies.is_shaped(name) else bodies.attach(name, point)


def _coincide(a: np.ndarray, b: np.ndarray) -> bool:
    size = max(1e-3, float(np.max(np.abs(a))), float(np.max(np.abs(b))))
    return bool(np.max(np.abs(a - b)) <= _SAME * size)


def _in_a_row(points: Sequence[np.ndarray]) -> bool:
    offsets = np.stack(points[1:]) - points[0]
    sizes = np.linalg.svd(offsets, compute_uv=False)
    return bool(sizes[-1] <= _SAME * sizes[0])
