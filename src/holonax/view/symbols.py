"""Joints and forces as what they are: springs, dampers, rails, slots, gears, wheels, curves.

A symbol is made of lines over time, (states, points, dimension). Sizes go by that of the mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._optional import require
from ..system.inventory import Connection
from .solids import circle

if TYPE_CHECKING:
    from .skeleton import Bodies

Style = Literal["spring", "damper", "rail", "axis", "outline", "fill"]

# Joints and forces that sit at a point of each of their bodies, and how.
AT_POINTS = {
    *("revolute", "spherical", "universal", "fixed", "distance", "drive_distance", "cylindrical"),
    *("prismatic", "screw", "pin_in_slot", "planar_joint", "point_on_line", "point_on_plane"),
    *("point_on_curve", "spring_damper", "bushing", "knife_edge"),
}
PINNED = {
    *("revolute", "spherical", "universal", "distance", "drive_distance", "pin_in_slot"),
    *("point_on_line", "point_on_plane", "point_on_curve", "spring_damper"),
}
ALONG = {
    *("prismatic", "cylindrical", "screw", "pin_in_slot", "point_on_line", "point_on_plane"),
    *("point_on_curve", "planar_joint", "knife_edge"),
}
APART = {"distance", "drive_distance", "spring_damper"}

_COILS = 7
_TEETH = 60  # at most, of a gear
_GRID = 160  # points along each side of the square in which a curve is looked for


@dataclass(frozen=True)
class Mark:
    """A line of a symbol over time; of `body`'s colour, if it is part of one."""

    points: np.ndarray
    style: Style
    body: str | None = None
    closed: bool = False

    def at(self, index: np.ndarray) -> Mark:
        """At some of the states."""
        return replace(self, points=self.points[index])


def of(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    """The symbol of a joint or force."""
    draw = _SYMBOLS.get(part.type)
    if draw is not None:
        yield from draw(part, bodies)


# -- between two points ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """From one point to another over time: where things are along it and across."""

    start: np.ndarray  # (states, dimension)
    length: np.ndarray  # (states,)
    along: np.ndarray
    across: np.ndarray
    beyond: np.ndarray | None  # the third direction, in space

    @staticmethod
    def between(a: np.ndarray, b: np.ndarray) -> _Line:
        d = b - a
        length = np.linalg.norm(d, axis=1)
        first = np.eye(d.shape[1])[0]
        along = np.where(length[:, None] > 1e-12, d / np.maximum(length, 1e-12)[:, None], first)
        if d.shape[1] == 2:
            return _Line(a, length, along, np.stack([-along[:, 1], along[:, 0]], axis=1), None)
        seed = np.eye(3)[int(np.argmin(np.max(np.abs(along), axis=0)))]
        across = np.cross(along, seed)
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        return _Line(a, length, along, across, np.cross(along, across))

    def points(self, x: Any, y: Any, z: Any = 0.0) -> np.ndarray:
        """Points x [m] along, y across and z beyond: each (n,) or (states, n)."""
        x, y, z = np.broadcast_arrays(*(np.atleast_2d(value) for value in (x, y, z)))
        out = self.start[:, None] + x[..., None] * self.along[:, None]
        out = out + y[..., None] * self.across[:, None]
        return out if self.beyond is None else out + z[..., None] * self.beyond[:, None]


def _spring_damper(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    a, b = bodies.path(part.bodies[0], part.point_a), bodies.path(part.bodies[1], part.point)
    line, said = _Line.between(a, b), part.said
    width = 0.022 * bodies.size
    spring, damper = _has(said.stiffness), _has(said.damping)
    if not spring and not damper:
        yield from _dashpot(line, width, 0.0)  # an actuator
        return
    off = 1.5 * width if spring and damper else 0.0
    if spring:
        yield Mark(_coil(line, width, off), "spring")
    if damper:
        yield from _dashpot(line, width, -off)
    if off:
        for share in (0.12, 0.88):
            x = share * line.length[:, None]
            yield Mark(line.points(np.hstack([x, x]), np.array([-off, off])), "damper")
            end = (0.0 if share < 0.5 else 1.0) * line.length[:, None]
            yield Mark(line.points(np.hstack([end, x]), 0.0), "damper")


def _has(number: Any) -> bool:
    return bool(np.any(np.asarray(number, dtype=float) != 0.0))


def _coil(line: _Line, width: float, off: float) -> np.ndarray:
    """A zig-zag in the plane, a helix in space."""
    lead = 0.12
    if line.beyond is None:
        n = 4 * _COILS + 1
        share = np.linspace(0.0, 1.0, n)
        y = width * np.array([0.0, 1.0, 0.0, -1.0])[np.arange(n) % 4]
        z = np.zeros(n)
    else:
        n = 14 * _COILS + 1
        share = np.linspace(0.0, 1.0, n)
        y, z = (
            width * np.sin(2 * np.pi * _COILS * share),
            width * np.cos(2 * np.pi * _COILS * share),
        )
    inner = lead + (1 - 2 * lead) * share
    ends = [] if off else [0.0], [] if off else [1.0]
    x = line.length[:, None] * np.concatenate([ends[0], inner, ends[1]])
    pad = (0, 0) if off else (1, 1)
    return line.points(x, np.pad(y, pad) + off, np.pad(z, pad))


def _dashpot(line: _Line, width: float, off: float) -> Iterator[Mark]:
    """A cup that is part of one end, and a piston that is part of the other."""
    usual = float(np.mean(line.length))
    length = line.length[:, None]
    first, last = (0.12, 0.88) if off else (0.0, 1.0)
    cup, mouth = np.minimum(0.3 * usual, 0.45 * length), np.minimum(0.75 * usual, 0.9 * length)
    plate = np.clip(length - 0.45 * usual, cup, mouth)
    start, end = first * length, last * length
    yield Mark(line.points(np.hstack([start, cup]), off), "damper")
    y = off + width * np.array([1.0, 1.0, -1.0, -1.0])
    yield Mark(line.points(np.hstack([mouth, cup, cup, mouth]), y), "damper")
    yield Mark(line.points(np.hstack([end, plate]), off), "damper")
    y = off + 0.8 * width * np.array([-1.0, 1.0])
    yield Mark(line.points(np.hstack([plate, plate]), y), "damper")


def _telescope(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    a, b = bodies.path(part.bodies[0], part.point_a), bodies.path(part.bodies[1], part.point)
    yield from _dashpot(_Line.between(a, b), 0.018 * bodies.size, 0.0)


# -- along an axis of the first body ---------------------------------------------------------


def _rail(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    """The line that the second body slides along, as far as it does, and a block for a body that
    has no shape."""
    planar = bodies.dimension == 2
    first, second = part.bodies
    u = part.axes[:, 0 if planar else 2]
    along = bodies.turned(first, u)
    moved = bodies.path(second, part.point) - bodies.path(first, part.point_a)
    slide = np.einsum("nd,nd->n", along, moved)
    slide = slide[np.isfinite(slide)] if np.any(np.isfinite(slide)) else np.zeros(1)
    reach = 0.08 * bodies.size
    low, high = float(slide.min()) - reach, float(slide.max()) + reach
    ends = [part.point_a + x * u for x in (low, high)]
    line = np.stack([bodies.path(first, x) for x in ends], axis=1)
    body = None if first == "ground" else first
    yield Mark(line, "rail", body)
    if planar and first == "ground":
        yield from _hatching(line, 0.018 * bodies.size)
    if planar and not bodies.is_shaped(second) and part.type == "prismatic":
        yield _block(part, bodies)


_MOST_STROKES = 400  # below one line


def _hatching(line: np.ndarray, size: float) -> Iterator[Mark]:
    """Strokes below a line of the ground."""
    a, b = line[0]
    along = (b - a) / max(float(np.linalg.norm(b - a)), 1e-12)
    below = np.array([along[1], -along[0]])
    below = below if below[1] < 0 or (below[1] == 0 and below[0] > 0) else -below
    length = float(np.linalg.norm(b - a))
    for x in np.arange(0.5 * size, length, max(1.6 * size, length / _MOST_STROKES)):
        foot = a + x * along
        stroke = np.stack([foot, foot + size * (below - 0.7 * along)])
        yield Mark(np.tile(stroke, (len(line), 1, 1)), "axis")


def _block(part: Connection, bodies: Bodies) -> Mark:
    """A slider as a block on its rail."""
    second = part.bodies[1]
    x, y = 0.06 * bodies.size, 0.035 * bodies.size
    u = part.axes_b[:, 0]
    v = np.array([-u[1], u[0]])
    corners = [part.point + a * x * u + b * y * v for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    points = np.stack([bodies.path(second, c) for c in corners], axis=1)
    return Mark(points, "fill", second, closed=True)


def _slot(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    """A slot of the first body around the pin's way."""
    (rail,) = (x for x in _rail(part, bodies) if x.style == "rail")
    line = _Line.between(rail.points[:, 0], rail.points[:, 1])
    r = 0.022 * bodies.size
    angle = np.linspace(-np.pi / 2, np.pi / 2, 9)
    x = np.concatenate([r * np.cos(angle), -r * np.cos(angle)])
    far = np.repeat([1.0, 0.0], 9)
    y = np.concatenate([r * np.sin(angle), -r * np.sin(angle)])
    yield Mark(line.points(line.length[:, None] * far + x, y), "outline", rail.body, closed=True)


def _axle(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    """The axis of a hinge in space."""
    if bodies.dimension == 2:
        return
    n = 0.05 * bodies.size * part.axes[:, 2]
    ends = [part.point_a - n, part.point_a + n]
    yield Mark(np.stack([bodies.path(part.bodies[0], x) for x in ends], axis=1), "axis")


def _sleeve(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    yield from _rail(part, bodies)


# -- wheels ----------------------------------------------------------------------------------


def _gear(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    """Two wheels whose pitch circles touch, with as many teeth as they have."""
    said, (first, second) = part.said, part.bodies[:2]
    ratio = said.ratio if said.teeth is None else said.teeth[0] / said.teeth[1]
    if bodies.dimension == 3 and said.axis is None:
        return  # bevel gears: where their cones touch is not known
    centres = [_centre(x, part, bodies) for x in (first, second)]
    paths = [bodies.path(x, c)[0] for x, c in zip((first, second), centres, strict=True)]
    between = paths[1] - paths[0]
    if bodies.dimension == 3:
        n = bodies.turned(first, part.axes[:, 2])[0]
        between = between - n * (n @ between)
    d = float(np.linalg.norm(between))
    share = abs(ratio - 1.0) if said.internal else ratio + 1.0
    if d < 1e-9 * bodies.size or share == 0.0:
        return  # wheels of one axis
    b = d / share
    counts = said.teeth or (24 * max(ratio, 1.0), 24 * max(1 / ratio, 1.0))
    wheels = zip((first, second), centres, (ratio * b, b), counts, strict=True)
    for name, centre, radius, teeth in wheels:
        yield Mark(_wheel(part, bodies, name, centre, radius, int(teeth)), "outline", name, True)


def _centre(wheel: str, part: Connection, bodies: Bodies) -> np.ndarray:
    """Where a wheel turns: its bearing on the carrier, else its centre of mass."""
    carrier = part.bodies[2]
    for other in bodies.parts.connections:
        if other.type == "revolute" and set(other.bodies) == {wheel, carrier}:
            return other.point if other.bodies[1] == wheel else other.point_a
    if wheel == "ground":
        return np.zeros(bodies.dimension)
    return np.asarray(bodies.motions[wheel].com)


def _wheel(
    part: Connection, bodies: Bodies, name: str, centre: np.ndarray, radius: float, teeth: int
) -> np.ndarray:
    """A wheel with teeth, over time."""
    teeth = max(min(teeth, _TEETH), 6)
    step = 2 * np.pi / teeth
    places = np.arange(teeth)[:, None] + np.array([-0.3, -0.15, 0.15, 0.3])
    depth = min(0.6 * radius * step, 0.08 * radius)
    r = radius + depth * np.array([-0.5, 0.5, 0.5, -0.5])
    angle = step * places
    profile = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=-1).reshape(-1, 2)
    return _in_plane(part, bodies, name, centre, profile)


def _in_plane(
    part: Connection, bodies: Bodies, name: str, centre: np.ndarray, profile: np.ndarray
) -> np.ndarray:
    """Points of a body, in the plane normal to the joint's axis where there is space."""
    if bodies.dimension == 3:
        if name == part.bodies[0]:
            e1, e2 = part.axes[:, 0], part.axes[:, 1]
        else:  # the axis of the first body, as it is at the first state
            n = bodies.turned(part.bodies[0], part.axes[:, 2])[0]
            own = np.stack([bodies.turned(name, x)[0] for x in np.eye(3)], axis=1).T @ n
            e1, e2 = _across(own)
        profile = profile[:, :1] * e1 + profile[:, 1:] * e2
    return np.stack([bodies.path(name, centre + x) for x in profile], axis=1)


def _across(n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    e1 = np.cross(n, np.eye(3)[int(np.argmin(np.abs(n)))])
    e1 = e1 / np.linalg.norm(e1)
    return e1, np.cross(n, e1)


def _pinion(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    name, radius = part.bodies[0], abs(float(part.said.radius))
    teeth = 24
    profile = _wheel(part, bodies, name, np.zeros(3), radius, teeth)
    yield Mark(profile, "outline", name, True)


def _rolling(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    """The rim of a disc that has no shape, and a spoke that shows how it turns."""
    disc = part.bodies[1]
    if bodies.is_shaped(disc):
        return
    e1, e2 = part.axes_b[:, 0], part.axes_b[:, 1]
    rim = float(part.said.radius) * circle(1.0)
    points = part.point + rim[:, :1] * e1 + rim[:, 1:] * e2
    yield Mark(np.stack([bodies.path(disc, x) for x in points], axis=1), "outline", disc, True)
    spoke = np.stack([bodies.path(disc, x) for x in (part.point, points[0])], axis=1)
    yield Mark(spoke, "outline", disc)


# -- curves ----------------------------------------------------------------------------------


def _curve(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    """The zeros of a curve's function, as far as the point that follows it goes."""
    first, second = part.bodies
    seen = bodies.path(second, part.point) - bodies.path(first, np.zeros(2))
    axes = np.stack([bodies.turned(first, x) for x in np.eye(2)], axis=1)
    local = np.einsum("nij,nj->ni", axes, seen)
    local = local[np.all(np.isfinite(local), axis=1)]
    if not local.size:
        return
    half = max(1.4 * float(np.max(np.abs(local))), 1e-9)
    if np.max(np.ptp(local, axis=0)) < 0.1 * half:  # a cam that turns below a follower
        half = max(half, 0.6 * bodies.size)
    x = np.linspace(-half, half, _GRID)
    X, Y = np.meshgrid(x, x)
    try:
        values = np.broadcast_to(np.asarray(part.said.curve(X, Y), dtype=float), X.shape)
        contours = require("contourpy").contour_generator(X, Y, values).lines(0.0)
    except Exception:  # a function of two numbers that does not take arrays of them
        return
    body = None if first == "ground" else first
    for line in contours:
        line = np.asarray(line)
        loop = body is not None and bool(np.allclose(line[0], line[-1]))
        points = np.stack([bodies.path(first, p) for p in line], axis=1)
        yield Mark(points, "fill" if loop else "outline", body, loop)


def _spiral(part: Connection, bodies: Bodies) -> Iterator[Mark]:
    """A torsion spring at the joint that it works about."""
    joint = next((x for x in bodies.parts.connections if x.name == part.said.joint), None)
    if joint is None or bodies.dimension == 3:
        return
    angle = np.linspace(0.0, 5 * np.pi, 60)
    r = 0.035 * bodies.size * (0.25 + 0.75 * angle / angle[-1])
    points = joint.point + np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
    yield Mark(np.stack([bodies.path(joint.bodies[1], x) for x in points], axis=1), "spring")


_SYMBOLS: dict[str, Callable[[Connection, Any], Iterator[Mark]]] = {
    "spring_damper": _spring_damper,
    "drive_distance": _telescope,
    "prismatic": _rail,
    "cylindrical": _sleeve,
    "screw": _sleeve,
    "point_on_line": _rail,
    "pin_in_slot": _slot,
    "revolute": _axle,
    "gear": _gear,
    "rack_and_pinion": _pinion,
    "rolling_disc": _rolling,
    "point_on_curve": _curve,
    "torsion_spring": _spiral,
}
