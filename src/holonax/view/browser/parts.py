"""What a body is made of on a page: its shapes, or bars through the points where joints attach."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...system.mechanism import Mechanism
from ..meshes import read_mesh
from .sampling import encoded

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Part = dict[str, Any]
_THIN = 0.010  # of the mechanism's size: half the width of a bar, and how thick planar bodies are
_AXES = {"x": 0, "y": 1, "z": 2}


def spatial(point: ArrayLike) -> np.ndarray:
    """A point of the plane or of space, as three numbers."""
    point = np.asarray(point, dtype=float).ravel()
    return np.pad(point, (0, 3 - point.size))


def body_parts(system: Mechanism, i: int, size: float) -> tuple[list[Part], list[np.ndarray]]:
    """The parts of a body and points that bound it, in its coordinates."""
    planar = system.is_planar
    centre = np.zeros(3) if system.bodies.com is None else spatial(system.bodies.com[i])
    points = attached_points(system, i + 1)
    parts: list[Part] = []
    corners: list[np.ndarray] = []
    for shape in shapes_of(system, i):
        found, bounds = _of_shape(shape, size, planar)
        parts += found
        corners += bounds
    radius = _THIN * size
    if parts:
        # joints beside the solid hang on it by thin bars
        low, high = np.min(corners, axis=0), np.max(corners, axis=0)
        margin = 1e-3 * size + 0.02 * (high - low)
        if planar:
            margin[2] = np.inf
        outside = [p for p in points if np.any((p < low - margin) | (p > high + margin))]
        near = (low + high) / 2
        parts += [bar(near, p, 0.6 * radius, planar) for p in outside]
    else:
        parts = _through(points, centre, radius, planar)
    return parts, [centre, *points, *corners]


def shapes_of(system: Mechanism, i: int) -> tuple[Any, ...]:
    """The shapes that a body was given, in its coordinates."""
    name = system.bodies.names[i]
    items = () if system.origin is None else system.origin.items
    return next((x.shape or () for x in items if x.name == name and hasattr(x, "shape")), ())


def attached_points(system: Mechanism, frame: int) -> list[np.ndarray]:
    """The points of a body, by its frame's number, where joints attach."""
    found: list[np.ndarray] = []
    for joint, ends in system.markers:
        for end, point in zip(ends, system.place(joint)[:2], strict=True):
            here = spatial(point)
            if end == frame and not any(np.allclose(here, other) for other in found):
                found.append(here)
    return found


def part(kind: str, size: Any, at: ArrayLike, turn: ArrayLike = (1, 0, 0, 0), **more: Any) -> Part:
    """A mesh of unit size, scaled and placed."""
    numbers = lambda x: [float(y) for y in x]  # noqa: E731
    return {"kind": kind, "size": numbers(size), "at": numbers(at), "turn": numbers(turn), **more}


def bar(a: np.ndarray, b: np.ndarray, radius: float, planar: bool) -> Part:
    """From a point to another: round in space, flat in the plane."""
    length = float(np.linalg.norm(b - a))
    axis = (b - a) / length if length > 0 else np.array([1.0, 0.0, 0.0])
    if planar:
        size = (length, 2 * radius, 1.2 * radius)
        return part("box", size, (a + b) / 2, shortest_turn(np.array([1.0, 0.0, 0.0]), axis))
    size = (radius, radius, length)
    return part("cylinder", size, (a + b) / 2, shortest_turn(np.array([0.0, 0.0, 1.0]), axis))


def _through(points: list[np.ndarray], centre: np.ndarray, radius: float, planar: bool) -> Any:
    """Bars from the centre of mass to where joints attach; a ball where there is nothing."""
    if len(points) == 2:
        ends, begin = [points[1]], points[0]
    else:
        ends, begin = [p for p in points if np.linalg.norm(p - centre) > 1e-9], centre
    if not ends:
        return [part("sphere", (2.5 * radius,) * 3, centre)]
    return [
        *(bar(begin, p, radius, planar) for p in ends),
        *(_end(p, radius, planar) for p in [begin, *ends]),
    ]


def _end(at: np.ndarray, radius: float, planar: bool) -> Part:
    """The round end of a bar."""
    if planar:
        return part("cylinder", (radius, radius, 1.2 * radius), at)
    return part("sphere", (radius,) * 3, at)


def _of_shape(shape: Any, size: float, planar: bool) -> tuple[list[Part], list[np.ndarray]]:
    R, at = shape.pose
    radius = _THIN * size
    if shape.kind == "mesh":
        return _of_mesh(shape, R, at)
    if shape.kind == "point":
        return [part("sphere", (2.5 * radius,) * 3, at)], [np.asarray(at)]
    if shape.kind == "rod":
        half = 0.5 * shape.length * np.eye(3)[_AXES[shape.axis]]
        a, b = at - R @ half, at + R @ half
        return [bar(a, b, radius, planar), *(_end(p, radius, planar) for p in (a, b))], [a, b]
    edges, kind, more, turned = _solid(shape)
    turn = R @ turned
    if planar:  # bodies lie in the plane: only what is seen of them from above counts
        across = np.abs(turn[2]) > 0.9
        flat = 1.2 * radius * (1 if kind in ("box", "cylinder", "tube") else 0.5)
        edges = np.where(across, np.minimum(edges, flat), edges)
    half = edges * (
        0.5 if kind == "box" else np.array([1.0, 1.0, 1.0 if kind == "sphere" else 0.5])
    )
    signs = np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T
    corners = [at + turn @ (s * half) for s in signs]
    return [part(kind, edges, at, quaternion(turn), **more)], corners


def _solid(shape: Any) -> tuple[np.ndarray, str, dict[str, Any], np.ndarray]:
    """The scale of a unit mesh, its kind, what else it needs, and how it is turned."""
    if shape.kind == "box":
        return np.array(shape.size, dtype=float), "box", {}, np.eye(3)
    if shape.kind == "sphere":
        return np.full(3, float(shape.radius)), "sphere", {}, np.eye(3)
    # meshes of revolution lie along z: the axes are exchanged in a circle
    turned = np.roll(np.eye(3), _AXES[shape.axis] - 2, axis=0)
    edges = np.array([shape.radius, shape.radius, shape.length], dtype=float)
    if shape.kind == "tube":
        return (
            edges,
            "tube",
            {"inner": float(shape.inner_radius / max(shape.radius, 1e-300))},
            turned,
        )
    return edges, "cylinder", {}, turned


def _of_mesh(shape: Any, R: np.ndarray, at: np.ndarray) -> tuple[list[Part], list[np.ndarray]]:
    vertices, faces = read_mesh(Path(shape.path))
    vertices = vertices * (1.0 if shape.scale is None else shape.scale)
    more = {"vertices": encoded(vertices), "faces": encoded(faces, "<u4")}
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    signs = np.array(np.meshgrid(*[(0, 1)] * 3)).reshape(3, -1).T
    corners = [at + R @ (low + s * (high - low)) for s in signs]
    return [part("mesh", (1, 1, 1), at, quaternion(R), **more)], corners


def shortest_turn(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quaternion of the shortest turn that takes the direction a to b."""
    w = 1.0 + a @ b
    if w < 1e-12:  # opposite: half a turn about any direction across
        across = np.cross(a, [0.0, 0.0, 1.0] if abs(a[2]) < 0.9 else [1.0, 0.0, 0.0])
        return np.array([0.0, *(across / np.linalg.norm(across))])
    turn = np.array([w, *np.cross(a, b)])
    return turn / np.linalg.norm(turn)


def quaternion(R: np.ndarray) -> np.ndarray:
    """The unit quaternion of a rotation matrix."""
    squares = np.array(
        [
            1 + R[0, 0] + R[1, 1] + R[2, 2],
            1 + R[0, 0] - R[1, 1] - R[2, 2],
            1 - R[0, 0] + R[1, 1] - R[2, 2],
            1 - R[0, 0] - R[1, 1] + R[2, 2],
        ]
    )
    k = int(np.argmax(squares))  # the largest, to divide by
    u = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    if k == 0:
        out = np.array([squares[0], *u])
    else:
        out = np.array([u[k - 1], *(R[k - 1] + R[:, k - 1])])
        out[k] = squares[k]
    return out / np.linalg.norm(out)
