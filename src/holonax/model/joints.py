"""Spatial joints: each is its fields and one residual of the frames it connects.

`p`, `q` are the joint's point in its first and second body; `e1, e2, n` its triad in the first
body and `f1, f2, m` in the second, n and m along the joint's axis. The distance between the
points is d = b.point(q) - a.point(p). Residuals are in metres, or dimensionless for directions.
"""

from __future__ import annotations

from typing import Any

from ..rotation import Vec3
from ..system.elements import Constraint
from ..system.frames import Frame


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
        axis = b.A @ self.m
        return (
            b.point(self.q) - a.point(self.p),
            (a.A @ self.e1).dot(axis),
            (a.A @ self.e2).dot(axis),
        )
