"""What is drawn of a mechanism: the points where joints attach to its bodies, over time.

A body is drawn through those points; one with a single point through that and its centre of mass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arguments import several
from .._messages import shown
from .._numbers import array
from ..result.motion import BodyMotion
from ..result.result import Result
from ..system.mechanism import Mechanism

Trace = tuple[str, Any]  # the name of a body and a point in its coordinates
Traces = Mapping[str, Trace] | Sequence[Trace]
_SAME = 1e-6  # relative distance below which two points are drawn as one


@dataclass(frozen=True)
class Stroke:
    """A body as a line through `points` (times, n, dimension), closed to a plate or not."""

    name: str
    points: np.ndarray
    closed: bool


@dataclass(frozen=True)
class Skeleton:
    """A mechanism at the saved states `index`, in the plane (dimension 2) or in space (3).

    `rods` (times, n, 2, dimension) join the two points of a joint that keeps them apart; `pins`
    (times, n, dimension) are the joints' points and `fixed` (n, dimension) those on the ground.
    `traces` are the paths (all saved states, dimension) of chosen points.
    """

    index: np.ndarray
    dimension: int
    strokes: tuple[Stroke, ...]
    rods: np.ndarray
    pins: np.ndarray
    fixed: np.ndarray
    traces: dict[str, np.ndarray]

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest coordinates of all that is drawn, with a margin."""
        parts = [*(s.points for s in self.strokes), self.pins, self.fixed]
        parts += self.traces.values()
        points = np.concatenate([p.reshape(-1, self.dimension) for p in parts])
        points = points[np.all(np.isfinite(points), axis=1)]
        low, high = points.min(axis=0), points.max(axis=0)
        largest = max(float(np.max(high - low)), 1e-9)
        half = np.maximum((high - low) / 2 + 0.07 * largest, 0.2 * largest)
        return (low + high) / 2 - half, (low + high) / 2 + half


@dataclass(frozen=True)
class _Bodies:
    """The bodies' motions and the points that have been found on each."""

    motions: dict[str, BodyMotion]
    attached: dict[str, list[np.ndarray]]
    dimension: int

    def path(self, name: str, local: Any) -> np.ndarray:
        """World positions (saved states, dimension) of a point of a body or of the ground."""
        point = np.asarray(local, dtype=float)
        if name == "ground":
            n = next(iter(self.motions.values())).position.shape[0]
            path = np.tile(point, (n, 1))
        else:
            path = self.motions[name].point(point)
        return np.pad(path, ((0, 0), (0, self.dimension - path.shape[1])))

    def attach(self, name: str, local: Any) -> np.ndarray:
        """`path`, of a point that the body's picture will pass through."""
        if name != "ground":
            found, point = self.attached[name], np.asarray(local, dtype=float)
            if not any(_coincide(point, other) for other in found):
                found.append(point)
        return self.path(name, local)

    def stroke(self, name: str, index: np.ndarray) -> Stroke:
        """The body's picture through its attached points."""
        points = self.attached[name]
        planar = self.motions[name].angle is not None
        centre = np.asarray(self.motions[name].com)
        if len(points) < 2 and not any(_coincide(p, centre) for p in points):
            points = [*points, centre]
        closed = planar and len(points) > 2 and not _in_a_row(points)
        if closed:
            middle = np.mean(points, axis=0)
            points = sorted(points, key=lambda p: float(np.arctan2(*(p - middle)[::-1])))
        elif len(points) > 2 and planar:
            points = sorted(points, key=lambda p: (float(p[0]), float(p[1])))
        elif len(points) > 2:  # in space: a star from the centre of mass
            points = [p for point in points for p in (centre, point)]
        return Stroke(name, np.stack([self.path(name, p)[index] for p in points], axis=1), closed)


def skeleton(result: Result, index: np.ndarray, traces: Traces = ()) -> Skeleton:
    """What to draw at the saved states `index`; `traces` are pairs (body, body-fixed point)."""
    system = result.system
    if not isinstance(system, Mechanism):
        raise TypeError(
            f"Drawing a mechanism needs one made with hx.Model; this result belongs to a "
            f"{type(system).__name__}, which knows coordinates only. hx.plot shows those."
        )
    names, dimension = system.bodies.names, system.bodies.translations
    bodies = _Bodies({x: result[x] for x in names}, {x: [] for x in names}, dimension)
    rods, pins, fixed = _joints(system, bodies)
    if not isinstance(traces, Mapping):
        wanted = "pairs (name of a body, point in the body's coordinates)"
        pairs = several("traces", "traces", traces, wanted)
        traces = {f"point {i + 1}": trace for i, trace in enumerate(pairs)}
    paths = {label: _traced(bodies, trace) for label, trace in traces.items()}
    return Skeleton(
        index,
        dimension,
        tuple(bodies.stroke(name, index) for name in names),
        rods[index],
        pins[index],
        fixed,
        paths,
    )


def _joints(system: Mechanism, bodies: _Bodies) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rods, pins and fixed points of a `Skeleton`, at all saved states."""
    n, d = next(iter(bodies.motions.values())).position.shape[0], bodies.dimension
    rods, pins, fixed = [np.zeros((n, 0, 2, d))], [np.zeros((n, 0, d))], [np.zeros((0, d))]
    names = ("ground", *system.bodies.names)
    for joint, ends in system.markers:
        point_a, point, _ = system.place(joint)
        first, second = (names[i] for i in ends)
        a, b = bodies.attach(first, point_a), bodies.attach(second, point)
        pins.append(b[:, None])
        if not _coincide(a, b):
            pins.append(a[:, None])
            rods.append(np.stack([a, b], axis=1)[:, None])
        fixed += [path[:1] for name, path in ((first, a), (second, b)) if name == "ground"]
    return np.concatenate(rods, axis=1), np.concatenate(pins, axis=1), np.concatenate(fixed)


def _traced(bodies: _Bodies, trace: Any) -> np.ndarray:
    try:
        name, local = trace
    except Exception:
        raise ValueError(
            f"traces: {shown(trace)} must be a pair (name of a body, point in the body's "
            "coordinates)."
        ) from None
    point = array("traces", "point", local)
    if not isinstance(name, str) or name not in bodies.motions:
        raise ValueError(
            f"traces: there is no body {shown(name)}; the bodies are {', '.join(bodies.motions)}."
        )
    size = 2 if bodies.motions[name].angle is not None else 3
    if point.shape != (size,):
        raise ValueError(
            f"traces: a point on {name!r} must have {size} coordinates, got {point.tolist()}."
        )
    return bodies.attach(name, point)


def _coincide(a: np.ndarray, b: np.ndarray) -> bool:
    size = max(1e-3, float(np.max(np.abs(a))), float(np.max(np.abs(b))))
    return bool(np.max(np.abs(a - b)) <= _SAME * size)


def _in_a_row(points: Sequence[np.ndarray]) -> bool:
    offsets = np.stack(points[1:]) - points[0]
    sizes = np.linalg.svd(offsets, compute_uv=False)
    return bool(sizes[-1] <= _SAME * sizes[0])
