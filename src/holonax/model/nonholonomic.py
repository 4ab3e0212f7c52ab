"""Rolling and sliding contacts: conditions on velocities that no position integrates.

`a` carries the plane and is usually the ground; `b` rolls or slides on it. What vanishes is a
component of the slip, the velocity of b's material point at the contact less that of a's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..rotation import Vec2, Vec3, perpendicular_axes
from ..rotation.vectors import Scalar
from ..system.elements import Constraint, RateConstraint
from ..system.frames import Frame, PlanarFrame
from .bodies import Ground, ModelError, direction, number
from .description import Attachment, Description


def slip(a: Any, b: Any, at: Any) -> Any:
    """Velocity of b's material point at the world point `at` less that of a's."""
    return b.velocity(b.A.T @ (at - b.r)) - a.velocity(a.A.T @ (at - a.r))


def _to_rim(a: Frame, b: Frame, n: Vec3, m: Vec3, radius: Scalar) -> Vec3:
    """From a disc's centre to its lowest point over the plane, in the world."""
    axle = b.A @ m
    up = a.A @ n
    up = up - axle * up.dot(axle)
    return up * (-radius / up.norm())


class DiscOnPlane(Constraint):
    """A disc of b, centre q and axle m, touches the plane through p with normal n of a (1 row)."""

    p: Vec3
    q: Vec3
    n: Vec3
    m: Vec3
    radius: Scalar

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        rim = b.point(self.q) + _to_rim(a, b, self.n, self.m, self.radius)
        return ((a.A @ self.n).dot(rim - a.point(self.p)),)


class DiscRolls(RateConstraint):
    """The disc's lowest point does not slip along e1 and e2 of the plane (2 rows)."""

    q: Vec3
    e1: Vec3
    e2: Vec3
    n: Vec3
    m: Vec3
    radius: Scalar

    def rate(self, a: Frame, b: Frame, *, t: Any) -> Any:
        rim = b.point(self.q) + _to_rim(a, b, self.n, self.m, self.radius)
        velocity = slip(a, b, rim)
        return (a.A @ self.e1).dot(velocity), (a.A @ self.e2).dot(velocity)


class KnifeEdge(RateConstraint):
    """Point q of b does not slip across its edge u in the plane of a with normal n (1 row)."""

    q: Vec3
    u: Vec3
    n: Vec3

    def rate(self, a: Frame, b: Frame, *, t: Any) -> Any:
        across = (a.A @ self.n).cross(b.A @ self.u)
        return (across.dot(slip(a, b, b.point(self.q))),)


class PlanarKnifeEdge(RateConstraint):
    """Point q of b does not slip across its edge u (1 row)."""

    q: Vec2
    u: Vec2

    def rate(self, a: PlanarFrame, b: PlanarFrame, *, t: Any) -> Any:
        return ((b.A @ self.u).turned().dot(slip(a, b, b.point(self.q))),)


class NonholonomicMethods(Description):
    """Mixin with one method for each non-holonomic constraint."""

    def rolling_disc(
        self,
        name: str,
        disc: Any,
        *,
        radius: float,
        axis: Any = None,
        axis_b: Any = None,
        at: Any = None,
        at_b: Any = None,
        on: Any = None,
        normal: Any = (0.0, 0.0, 1.0),
        point: Any = (0.0, 0.0, 0.0),
    ) -> str:
        """A thin disc or wheel rolls on a plane without slipping (spatial): 1 + 2 rows.

        One holonomic row keeps the rim on the plane, two non-holonomic ones stop its material
        contact point.

        **Arguments:**

        - `disc`: the body whose rim rolls; `radius` [m].
        - `axis`: its axle, a world direction of the initial configuration, or `axis_b` in the
          axes of the disc; `at`, `at_b`: its centre, the body's origin unless given.
        - `normal`, `point`: the plane, in the world in the initial configuration; the disc is on
          the side of the normal. `on`: the body that carries the plane (default: the ground).

        The disc may lean but not lie flat, where its lowest point is not defined.
        """
        pair = self._pair("rolling disc", name, Ground() if on is None else on, disc, "spatial")
        radius = number(pair.owner, "radius", radius)
        if radius <= 0:
            raise ModelError(f"{pair.owner}: radius={radius:g} must be positive [m].")
        base, body = pair.bodies
        e1, e2, n = perpendicular_axes(_normal(pair, normal))
        m = _on_body(pair, axis, axis_b, "axis")
        if np.linalg.norm(np.cross(body.rotation @ m, n)) < 1e-6:
            raise ModelError(
                f"{pair.owner}: its axle is along the plane's normal, so the disc lies flat. Tilt "
                "it, or use planar_joint."
            )
        q = np.zeros(3) if at is None and at_b is None else _point(pair, at, at_b)
        p = base.to_local_point(pair.vector("point", point))
        e1, e2, n = axes = [base.to_local_direction(x) for x in (e1, e2, n)]
        elements = [
            DiscOnPlane(*map(Vec3.of, (p, q, n, m)), radius=radius),
            DiscRolls(*map(Vec3.of, (q, e1, e2, n, m)), radius=radius),
        ]
        return self._joint(pair, elements, point=q, axes=np.column_stack(axes))

    def knife_edge(
        self,
        name: str,
        body: Any,
        *,
        at: Any = None,
        at_b: Any = None,
        direction: Any = None,
        direction_b: Any = None,
        on: Any = None,
        normal: Any = None,
    ) -> str:
        """A skate or blade: its point moves along the edge only, not across it; 1 row.

        **Arguments:**

        - `at`, `at_b`: the point, in the world in the initial configuration or in the body.
        - `direction`, `direction_b`: of the edge, likewise.
        - `normal`: of the plane it moves on, in the world (spatial only, default z). It gives the
          direction across the edge; that the body stays in the plane is for another joint to say.
        - `on`: the body that carries the plane (default: the ground).
        """
        pair = self._pair("knife edge", name, Ground() if on is None else on, body)
        q = _point(pair, at, at_b)
        u = _on_body(pair, direction, direction_b, "direction")
        if pair.kind == "planar":
            pair.refuse(normal=normal)
            return self._joint(pair, [PlanarKnifeEdge(Vec2.of(q), Vec2.of(u))], point=q)
        n = _normal(pair, (0.0, 0.0, 1.0) if normal is None else normal)
        base, blade = pair.bodies
        if np.linalg.norm(np.cross(blade.rotation @ u, n)) < 1e-6:
            raise ModelError(
                f"{pair.owner}: its edge is along the plane's normal. Give a direction in the "
                "plane, or another normal."
            )
        element = KnifeEdge(*map(Vec3.of, (q, u, base.to_local_direction(n))))
        return self._joint(pair, [element], point=q)


def _normal(pair: Attachment, value: Any) -> np.ndarray:
    return direction(pair.owner, "normal", value)


def _on_body(pair: Attachment, world: Any, local: Any, what: str) -> np.ndarray:
    """A direction of the second body from a world one or its own."""
    if (world is None) == (local is None):
        state = "missing" if world is None else "given twice"
        raise ModelError(
            f"{pair.owner}: its {what} is {state}. Give either {what}= (a world direction of the "
            f"initial configuration) or {what}_b= (body axes)."
        )
    if local is not None:
        return direction(pair.owner, f"{what}_b", local, pair.size)
    return pair.bodies[1].to_local_direction(direction(pair.owner, what, world, pair.size))


def _point(pair: Attachment, at: Any, at_b: Any) -> np.ndarray:
    """A point of the second body from a world one or its own coordinates."""
    if (at is None) == (at_b is None):
        state = "missing" if at is None else "given twice"
        raise ModelError(
            f"{pair.owner}: its point is {state}. Give either at= (a world point of the initial "
            "configuration) or at_b= (body coordinates)."
        )
    if at_b is not None:
        return pair.vector("at_b", at_b)
    return pair.bodies[1].to_local_point(pair.vector("at", at))
