"""Spatial joints: each is its fields and one residual of the frames it connects.

`p`, `q` are the joint's point in its first and second body; `e1, e2, n` its triad in the first
body and `f1, f2, m` in the second, n and m along the joint's axis. The distance between the
points is d = b.point(q) - a.point(p). Residuals are in metres, in radians, or dimensionless for
directions.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..rotation import Vec2, Vec3
from ..rotation.vectors import Scalar
from ..system.elements import Constraint
from ..system.frames import Frame

TURN = 2 * np.pi


def wrapped(angle: Scalar) -> Scalar:
    """`angle` less whole turns, between -pi and pi; its derivative is one."""
    return angle - TURN * jnp.round(angle / TURN)


def turn_between(a: Frame, b: Frame, e1: Vec3, e2: Vec3, f1: Vec3) -> Scalar:
    """The angle about e1 x e2 of body a that takes e1 to f1 of body b, between -pi and pi."""
    f = b.A @ f1
    return jnp.arctan2((a.A @ e2).dot(f), (a.A @ e1).dot(f))


def _parallel(a: Frame, b: Frame, e1: Vec3, e2: Vec3, m: Vec3) -> tuple[Scalar, Scalar]:
    """Two rows that keep m of b along e1 x e2 of a."""
    axis = b.A @ m
    return (a.A @ e1).dot(axis), (a.A @ e2).dot(axis)


def _aligned(a: Frame, b: Frame, e1: Vec3, e2: Vec3, m: Vec3, f2: Vec3) -> tuple[Scalar, ...]:
    """Three rows that keep the two triads equal."""
    return *_parallel(a, b, e1, e2, m), (a.A @ e1).dot(b.A @ f2)


class Spherical(Constraint):
    """Ball joint: the two points coincide (3 rows)."""

    p: Vec3
    q: Vec3

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        return b.point(self.q) - a.point(self.p)


class Revolute(Constraint):
    """Hinge: the points coincide and the axes stay parallel (5 rows)."""

    p: Vec3
    q: Vec3
    e1: Vec3
    e2: Vec3
    m: Vec3

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        return (
            b.point(self.q) - a.point(self.p),
            *_parallel(a, b, self.e1, self.e2, self.m),
        )


class Universal(Constraint):
    """Cardan joint: the points coincide and the arms n of a and m of b stay normal (4 rows)."""

    p: Vec3
    q: Vec3
    n: Vec3
    m: Vec3

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        return b.point(self.q) - a.point(self.p), (a.A @ self.n).dot(b.A @ self.m)


class Fixed(Constraint):
    """Weld: the points and the triads coincide (6 rows)."""

    p: Vec3
    q: Vec3
    e1: Vec3
    e2: Vec3
    m: Vec3
    f2: Vec3

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        return (
            b.point(self.q) - a.point(self.p),
            *_aligned(a, b, self.e1, self.e2, self.m, self.f2),
        )


class PointOnLine(Constraint):
    """Point q of b stays on the line through p along e1 x e2 of a (2 rows)."""

    p: Vec3
    q: Vec3
    e1: Vec3
    e2: Vec3

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        d = b.point(self.q) - a.point(self.p)
        return (a.A @ self.e1).dot(d), (a.A @ self.e2).dot(d)


class Cylindrical(Constraint):
    """Sleeve: the two axes are one line, free to slide and turn (4 rows)."""

    p: Vec3
    q: Vec3
    e1: Vec3
    e2: Vec3
    m: Vec3

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        d = b.point(self.q) - a.point(self.p)
        return (
            (a.A @ self.e1).dot(d),
            (a.A @ self.e2).dot(d),
            *_parallel(a, b, self.e1, self.e2, self.m),
        )


class Prismatic(Constraint):
    """Slider: the triads coincide and the points differ along the axis only (5 rows)."""

    p: Vec3
    q: Vec3
    e1: Vec3
    e2: Vec3
    m: Vec3
    f2: Vec3

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        d = b.point(self.q) - a.point(self.p)
        return (
            (a.A @ self.e1).dot(d),
            (a.A @ self.e2).dot(d),
            *_aligned(a, b, self.e1, self.e2, self.m, self.f2),
        )


class Screw(Constraint):
    """Screw: a cylindrical joint that slides by `pitch` for each turn of b in a (5 rows)."""

    p: Vec3
    q: Vec3
    e1: Vec3
    e2: Vec3
    m: Vec3
    f1: Vec3
    pitch: Scalar

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        d = b.point(self.q) - a.point(self.p)
        e1, e2 = a.A @ self.e1, a.A @ self.e2
        lead = self.pitch / TURN
        angle = turn_between(a, b, self.e1, self.e2, self.f1)
        return (
            e1.dot(d),
            e2.dot(d),
            *_parallel(a, b, self.e1, self.e2, self.m),
            lead * wrapped(e1.cross(e2).dot(d) / lead - angle),
        )


class PlaneOnPlane(Constraint):
    """Planar joint: a plane of b, normal m, slides on the plane e1, e2 of a (3 rows)."""

    p: Vec3
    q: Vec3
    e1: Vec3
    e2: Vec3
    n: Vec3
    m: Vec3

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        d = b.point(self.q) - a.point(self.p)
        return (a.A @ self.n).dot(d), *_parallel(a, b, self.e1, self.e2, self.m)


class PointOnPlane(Constraint):
    """Point q of b stays in the plane through p with normal n of a (1 row)."""

    p: Vec3
    q: Vec3
    n: Vec3

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        return ((a.A @ self.n).dot(b.point(self.q) - a.point(self.p)),)


class Distance(Constraint):
    """Massless rod between two points, planar or spatial (1 row).

    (d.d - L^2) / 2L is the elongation to first order, so that its multiplier is the rod's force.
    """

    p: Vec2 | Vec3
    q: Vec2 | Vec3
    length: Scalar

    def residual(self, a: Any, b: Any, *, t: Any) -> Any:
        d = b.point(self.q) - a.point(self.p)
        return ((d.dot(d) - self.length * self.length) / (2 * self.length),)


class Gear(Constraint):
    """Gear pair on a carrier c: n1 angle_a + n2 angle_b keeps its value (1 row).

    The angles are those of the wheels' `f` in the carrier's `(e1, e2)`. With whole numbers n1, n2
    the sum changes by whole turns when a wheel turns once, so it is taken less whole turns; the
    residual is in radians of wheel b.
    """

    e1_a: Vec3
    e2_a: Vec3
    f_a: Vec3
    e1_b: Vec3
    e2_b: Vec3
    f_b: Vec3
    n1: Scalar
    n2: Scalar

    def residual(self, a: Frame, b: Frame, c: Frame, *, t: Any) -> Any:
        angle_a = turn_between(c, a, self.e1_a, self.e2_a, self.f_a)
        angle_b = turn_between(c, b, self.e1_b, self.e2_b, self.f_b)
        return (wrapped(self.n1 * angle_a + self.n2 * angle_b) / self.n2,)


class RackAndPinion(Constraint):
    """A rack moves by `radius` times the pinion's angle, both seen from a carrier c (1 row).

    The pinion's angle is that of its `f` in the carrier's `(e1, e2)`; the rack's displacement is
    that of its point q from the carrier's p along u.
    """

    e1: Vec3
    e2: Vec3
    f: Vec3
    p: Vec3
    q: Vec3
    u: Vec3
    radius: Scalar

    def residual(self, pinion: Frame, rack: Frame, c: Frame, *, t: Any) -> Any:
        angle = turn_between(c, pinion, self.e1, self.e2, self.f)
        moved = (c.A @ self.u).dot(rack.point(self.q) - c.point(self.p))
        return (self.radius * wrapped(moved / self.radius - angle),)
