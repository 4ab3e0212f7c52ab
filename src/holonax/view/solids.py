"""The geometry of shapes: outlines in the plane, faces in space, in the coordinates of the body."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .meshes import read_mesh

_ROUND = 40  # corners of a circle in the plane
_SIDES = 20  # of a cylinder in space
_AXES = {"x": (1, 2, 0), "y": (2, 0, 1), "z": (0, 1, 2)}  # two across, one along


def circle(radius: float, corners: int = _ROUND) -> np.ndarray:
    """The corners (n, 2) of a polygon that looks round."""
    angle = np.linspace(0.0, 2 * np.pi, corners, endpoint=False)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def rectangle(width: float, height: float) -> np.ndarray:
    """Its corners (4, 2) about the origin."""
    return 0.5 * np.array([[-width, -height], [width, -height], [width, height], [-width, height]])


def outlines(shape: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(polygons to fill, lines to draw) of a shape seen along z, each (n, 2)."""
    fills, lines = _outlines(shape)
    R, p = shape.pose

    def placed(x: np.ndarray) -> np.ndarray:
        return x @ R[:2, :2].T + p[:2]

    if abs(R[2, 2]) < 0.999 and shape.kind not in ("sphere", "point"):  # seen from the side
        return [_hull(face[:, :2]) for face in faces(shape, 1.0)], []
    return [placed(x) for x in fills], [placed(x) for x in lines]


def _outlines(shape: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    if shape.kind == "box":
        return [rectangle(*shape.size[:2])], []
    if shape.kind == "sphere":
        return [circle(shape.radius)], [_spoke(shape.radius, 0.0)]
    if shape.kind in ("cylinder", "tube") and shape.axis == "z":
        inner = shape.inner_radius or 0.0
        spokes = [_spoke(shape.radius, inner)]
        if inner:
            return [_ring(shape.radius, inner)], [_closed(circle(inner)), *spokes]
        return [circle(shape.radius)], spokes
    if shape.kind in ("cylinder", "tube"):
        along, across = shape.length, 2 * shape.radius
        return [rectangle(along, across) if shape.axis == "x" else rectangle(across, along)], []
    if shape.kind == "mesh":
        return list(_faces(shape, 1.0)[:, :, :2]), []
    return [], []


def _spoke(radius: float, inner: float) -> np.ndarray:
    """A mark that shows how a round thing turns."""
    return np.array([[inner, 0.0], [radius, 0.0]])


def _ring(outer: float, inner: float) -> np.ndarray:
    """A ring as one polygon, cut open where it begins."""
    a, b = _closed(circle(outer)), _closed(circle(inner))
    return np.concatenate([a, b[::-1]])


def _closed(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, x[:1]])


def _hull(points: np.ndarray) -> np.ndarray:
    """The convex hull (m, 2) of some points, by Andrew's monotone chain."""
    order = sorted(map(tuple, points))

    def chain(points: Any) -> list[Any]:
        out: list[Any] = []
        for p in points:
            while len(out) > 1 and _turn(out[-2], out[-1], p) <= 0:
                out.pop()
            out.append(p)
        return out[:-1]

    return np.array([*chain(order), *chain(order[::-1])] or order)


def _turn(a: Any, b: Any, c: Any) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def faces(shape: Any, thickness: float) -> np.ndarray:
    """Faces (n, corners, 3) of a shape in space; `thickness` [m] is that of what has none."""
    R, p = shape.pose
    return _faces(shape, thickness) @ R.T + p


def _faces(shape: Any, thickness: float) -> np.ndarray:
    if shape.kind == "box":
        return _box(np.maximum(shape.size, 0.2 * thickness))
    if shape.kind == "sphere":
        return _ball(shape.radius)
    if shape.kind == "point":
        return _ball(2.5 * thickness)
    if shape.kind == "mesh":
        vertices, corners = read_mesh(shape.path)
        return vertices[corners] * (1.0 if shape.scale is None else shape.scale)
    if shape.kind == "rod":
        parts = _cylinder(thickness, shape.length)
    else:
        length = max(shape.length, 0.4 * thickness)
        inner = shape.inner_radius or 0.0
        parts = _tube(shape.radius, inner, length) if inner else _cylinder(shape.radius, length)
    back = np.argsort(_AXES[shape.axis])
    return parts[:, :, back]


def _box(size: np.ndarray) -> np.ndarray:
    a, b, c = 0.5 * np.asarray(size, dtype=float)
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)
    out = []
    for k, (u, v) in enumerate(((1, 2), (2, 0), (0, 1))):
        for side in (-1.0, 1.0):
            corners = np.zeros((4, 3))
            corners[:, [u, v]] = square if side > 0 else square[::-1]
            corners[:, k] = side
            out.append(corners)
    return np.array(out) * (a, b, c)


def _cylinder(radius: float, length: float, sides: int = _SIDES) -> np.ndarray:
    return _tube(radius, 0.0, length, sides)


def _tube(radius: float, inner: float, length: float, sides: int = _SIDES) -> np.ndarray:
    """Along z; with triangles for caps given as quadrangles of two equal corners."""
    ring = circle(1.0, sides)
    after = np.roll(ring, -1, axis=0)
    h = length / 2

    def band(r1: float, z1: float, r2: float, z2: float) -> np.ndarray:
        out = np.zeros((sides, 4, 3))
        for k, (r, z, edge) in enumerate(
            ((r1, z1, ring), (r1, z1, after), (r2, z2, after), (r2, z2, ring))
        ):
            out[:, k, :2], out[:, k, 2] = r * edge, z
        return out

    parts = [band(radius, -h, radius, h), band(inner, -h, radius, -h), band(radius, h, inner, h)]
    if inner:
        parts.append(band(inner, h, inner, -h))
    return np.concatenate(parts)


def _ball(radius: float, sides: int = 16, rows: int = 10) -> np.ndarray:
    angle = np.linspace(-np.pi / 2, np.pi / 2, rows + 1)
    ring = circle(1.0, sides)
    after = np.roll(ring, -1, axis=0)
    out = []
    for low, high in itertools.pairwise(angle):
        strip = np.zeros((sides, 4, 3))
        for k, (a, edge) in enumerate(((low, ring), (low, after), (high, after), (high, ring))):
            strip[:, k, :2], strip[:, k, 2] = np.cos(a) * edge, np.sin(a)
        out.append(strip)
    return radius * np.concatenate(out)
