"""Rolling and sliding contacts: conditions on velocities that no position integrates.

`a` carries the plane and is usually the ground; `b` rolls or slides on it. What vanishes is a
component of the slip, the velocity of b's material point at the contact less that of a's.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._numbers import is_traced, namespace
from ..rotation import Vec2, Vec3
from ..rotation.vectors import Scalar
from ..system.elements import Constraint, RateConstraint
from ..system.frames import Frame, PlanarFrame
from .attachment import Attached, Attachment, triad
from .items import ModelError, record
from .joint import Joint

if TYPE_CHECKING:
    from jax import Array

    from ..rotation.vectors import Vector
    from ..system.frames import AnyFrame


def slip(a: AnyFrame, b: AnyFrame, at: Vector) -> Vector:
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

    def residual(self, a: Frame, b: Frame, *, t: Array) -> Any:
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

    def rate(self, a: Frame, b: Frame, *, t: Array) -> Any:
        rim = b.point(self.q) + _to_rim(a, b, self.n, self.m, self.radius)
        velocity = slip(a, b, rim)
        return (a.A @ self.e1).dot(velocity), (a.A @ self.e2).dot(velocity)


class BladeInSpace(RateConstraint):
    """Point q of b does not slip across its edge u in the plane of a with normal n (1 row)."""

    q: Vec3
    u: Vec3
    n: Vec3

    def rate(self, a: Frame, b: Frame, *, t: Array) -> Any:
        across = (a.A @ self.n).cross(b.A @ self.u)
        return (across.dot(slip(a, b, b.point(self.q))),)


class BladeInPlane(RateConstraint):
    """Point q of b does not slip across its edge u (1 row)."""

    q: Vec2
    u: Vec2

    def rate(self, a: PlanarFrame, b: PlanarFrame, *, t: Array) -> Any:
        return ((b.A @ self.u).turned().dot(slip(a, b, b.point(self.q))),)


@dataclass(frozen=True, repr=False)
class Contact(Joint):
    """A joint of a body with a plane, which the ground carries unless another body does."""

    _: KW_ONLY
    at: Any = None
    at_b: Any = None
    on: Any = "ground"

    def __post_init__(self) -> None:
        if self.on is None:
            object.__setattr__(self, "on", "ground")
        super().__post_init__()

    def _point(self, there: Attachment) -> np.ndarray:
        """Its point in the second body."""
        there.one_of("its point", "at", self.at, "at_b", self.at_b)
        if self.at_b is not None:
            return there.vector("at_b", self.at_b)
        return there.bodies[1].to_local_point(there.vector("at", self.at))


def _along(x: np.ndarray | Array, y: np.ndarray | Array) -> bool:
    """Whether two directions are parallel, as far as is known."""
    cross = namespace(x, y).cross(x, y)
    return not is_traced(cross) and bool(np.linalg.norm(cross) < 1e-6)


@record("rolling_disc", "rolling disc")
class RollingDisc(Contact):
    """A thin disc or wheel rolls on a plane without slipping (spatial): 1 + 2 rows.

    One holonomic row keeps the rim on the plane, two non-holonomic ones stop its material contact
    point.

    **Arguments:**

    - `disc`: the body whose rim rolls; `radius` [m].
    - `axis`: its axle, a world direction of the initial configuration, or `axis_b` in the axes of
      the disc; `at`, `at_b`: its centre, the body's origin unless given.
    - `normal`, `point`: the plane, in the world in the initial configuration; the disc is on the
      side of the normal. `on`: the body that carries the plane (default: the ground).

    The disc may lean but not lie flat, where its lowest point is not defined.
    """

    touches: ClassVar[tuple[str, ...]] = ("on", "disc")
    kinds = ("spatial",)

    disc: Any
    _: KW_ONLY
    radius: float
    axis: Any = None
    axis_b: Any = None
    normal: Any = (0.0, 0.0, 1.0)
    point: Any = (0.0, 0.0, 0.0)

    def attach(self, there: Attachment) -> Attached:
        radius = there.number("radius", self.radius)
        if not is_traced(radius) and radius <= 0:
            raise ModelError(f"{self.owner}: radius={radius:g} must be positive [m].")
        base, body = there.bodies
        world = triad(there.direction("normal", self.normal))
        axle = there.one_direction(1, "axis", self.axis, self.axis_b)
        if _along(body.rotation @ axle, world[:, 2]):
            raise ModelError(
                f"{self.owner}: its axle is along the plane's normal, so the disc lies flat. Tilt "
                "it, or use planar_joint."
            )
        centred = self.at is None and self.at_b is None
        point = np.zeros(3) if centred else self._point(there)
        axes = base.rotation.T @ world
        p = there.arm(0, base.to_local_point(there.vector("point", self.point)))
        q, m = there.arm(1, point), there.components(axle)
        e1, e2, n = (there.components(x) for x in axes.T)
        made = [DiscOnPlane(p, q, n, m, radius), DiscRolls(q, e1, e2, n, m, radius)]
        return there.attached(made, point=point, axes=axes, axes_b=triad(axle))


@record("knife_edge", "knife edge")
class KnifeEdge(Contact):
    """A skate or blade: its point moves along the edge only, not across it; 1 row.

    **Arguments:**

    - `at`, `at_b`: the point, in the world in the initial configuration or in the body.
    - `direction`, `direction_b`: of the edge, likewise.
    - `normal`: of the plane it moves on, in the world (spatial only, default z). It gives the
      direction across the edge; that the body stays in the plane is for another joint to say.
    - `on`: the body that carries the plane (default: the ground).
    """

    touches: ClassVar[tuple[str, ...]] = ("on", "body")

    body: Any
    _: KW_ONLY
    direction: Any = None
    direction_b: Any = None
    normal: Any = None

    def attach(self, there: Attachment) -> Attached:
        point = self._point(there)
        edge = there.one_direction(1, "direction", self.direction, self.direction_b)
        q, u = there.arm(1, point), there.components(edge)
        if there.is_planar:
            there.refuse(normal=self.normal)
            return there.attached([BladeInPlane(q, u)], point=point)
        normal = (0.0, 0.0, 1.0) if self.normal is None else self.normal
        n = there.direction("normal", normal)
        base, blade = there.bodies
        if _along(blade.rotation @ edge, n):
            raise ModelError(
                f"{self.owner}: its edge is along the plane's normal. Give a direction in the "
                "plane, or another normal."
            )
        across = there.components(base.to_local_direction(n))
        return there.attached([BladeInSpace(q, u, across)], point=point)
