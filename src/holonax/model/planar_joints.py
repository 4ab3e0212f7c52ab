"""Planar joints: each is its fields and one residual of the frames it connects.

`p`, `q` are the joint's point in its first and second body, `u` its unit direction in the first
body. Residuals are in metres, or radians for angles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..rotation import Vec2
from ..rotation.vectors import Scalar
from ..system.elements import Constraint
from ..system.frames import PlanarFrame


class PlanarRevolute(Constraint):
    """Pin: the two points coincide (2 rows)."""

    p: Vec2
    q: Vec2

    def residual(self, a: PlanarFrame, b: PlanarFrame, *, t: Any) -> Any:
        return b.point(self.q) - a.point(self.p)


class PlanarPrismatic(Constraint):
    """Slider: point q stays on the line p + s u of the first body, at a fixed angle (2 rows).

    `angle` is the angle of the second body seen from the first [rad].
    """

    p: Vec2
    q: Vec2
    u: Vec2
    angle: Scalar

    def residual(self, a: PlanarFrame, b: PlanarFrame, *, t: Any) -> Any:
        return (
            _off_line(a, b, self.p, self.q, self.u),
            b.angle - a.angle - self.angle,
        )


class PlanarFixed(Constraint):
    """Weld: the points coincide and the relative angle is kept (3 rows)."""

    p: Vec2
    q: Vec2
    angle: Scalar

    def residual(self, a: PlanarFrame, b: PlanarFrame, *, t: Any) -> Any:
        return (b.point(self.q) - a.point(self.p), b.angle - a.angle - self.angle)


class PlanarGear(Constraint):
    """Gear pair on a carrier: (b - c) = ratio (a - c) + offset, for the three angles (1 row).

    `ratio` is any real number: the turn of b for one turn of a, both seen from the carrier c, so
    -Ra/Rb for wheels that mesh outside each other and Ra/Rb for an internal mesh. Planar angles
    are unbounded, so the teeth never slip.
    """

    ratio: Scalar
    offset: Scalar

    def residual(self, a: PlanarFrame, b: PlanarFrame, c: PlanarFrame, *, t: Any) -> Any:
        return ((b.angle - c.angle) - self.ratio * (a.angle - c.angle) - self.offset,)


class PinInSlot(Constraint):
    """A pin, the point q of the second body, stays on the line p + s u of the first (1 row)."""

    p: Vec2
    q: Vec2
    u: Vec2

    def residual(self, a: PlanarFrame, b: PlanarFrame, *, t: Any) -> Any:
        return (_off_line(a, b, self.p, self.q, self.u),)


class PointOnCurve(Constraint):
    """The point q of the second body stays on a curve F(x, y) = 0 drawn on the first (1 row).

    The residual F / |grad F| is the distance from the curve [m] to first order.
    """

    q: Vec2
    curve: Callable[[Any, Any], Any] = eqx.field(static=True)

    def residual(self, a: PlanarFrame, b: PlanarFrame, *, t: Any) -> Any:
        local = a.A.T @ (b.point(self.q) - a.r)
        value, gradient = curve_gradient(self.curve, local)
        return (value / gradient.norm(),)


def curve_gradient(curve: Callable[[Any, Any], Any], at: Vec2) -> tuple[Any, Vec2]:
    """F and its gradient at a point, or at each of many points."""
    one, zero = jnp.ones_like(at.x), jnp.zeros_like(at.x)
    value, dx = jax.jvp(curve, (at.x, at.y), (one, zero))
    dy = jax.jvp(curve, (at.x, at.y), (zero, one))[1]
    return value, Vec2(dx, dy)


def _off_line(a: PlanarFrame, b: PlanarFrame, p: Vec2, q: Vec2, u: Vec2) -> Any:
    """Distance of b's point q from a's line p + s u, positive to the left of u."""
    return (a.A @ u.turned()).dot(b.point(q) - a.point(p))
