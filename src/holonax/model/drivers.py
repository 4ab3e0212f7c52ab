"""Drivers: an angle, a distance, a displacement or a coordinate prescribed as a function of time.

Each is one constraint row g(q, t) = measured - target(t); its multiplier is the torque or force
the drive needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._messages import explained, listed, shown
from ..rotation import Vec2, Vec3
from ..rotation.vectors import Scalar
from ..system.elements import Constraint, Element
from ..system.frames import Frame, PlanarFrame
from .bodies import ModelError, number, triad_near
from .description import Attachment, Description, Item
from .joints import Cylindrical, Prismatic, Revolute, Screw, turn_between, wrapped
from .planar_joints import PlanarPrismatic, PlanarRevolute
from .units import check_angle

Motion = Callable[[Any], Any] | float


class Target(eqx.Module):
    """offset + function(t); the offset alone where there is no function."""

    offset: Scalar
    function: Callable[[Any], Any] | None = eqx.field(static=True)

    def __call__(self, t: Any) -> Scalar:
        return self.offset if self.function is None else self.offset + self.function(t)

    @staticmethod
    def of(owner: str, what: str, motion: Any, start: float = 0.0) -> Target:
        """From a function of time or a number, both counted from the value `start`."""
        if not callable(motion):
            constant = number(owner, what, motion)
            if what == "angle":
                check_angle(owner, what, constant)
            return Target(start + constant, None)
        remedy = "Give a function of time alone, t [s], written with jax.numpy."
        try:
            hash(motion)
            jax.eval_shape(motion, jnp.zeros(()))
            returned = motion(jnp.zeros(()))
            value = np.asarray(returned, dtype=float)
        except Exception as error:
            message = f"{owner}: {what} cannot be used: {explained(error)} {remedy}"
            raise ModelError(message) from None
        if returned is None:
            raise ModelError(f"{owner}: {what} returns nothing. {remedy}")
        if value.shape != ():
            raise ModelError(f"{owner}: {what} returns an array of shape {value.shape}. {remedy}")
        if not np.isfinite(value):
            raise ModelError(f"{owner}: {what} is {value} at t=0. {remedy}")
        return Target(start, motion)


class DriveAngle(Constraint):
    """The angle that takes e1 of a to f1 of b about e1 x e2, less whole turns (1 row)."""

    e1: Vec3
    e2: Vec3
    f1: Vec3
    target: Target

    def residual(self, a: Frame, b: Frame, *, t: Any) -> Any:
        return (wrapped(turn_between(a, b, self.e1, self.e2, self.f1) - self.target(t)),)

    @property
    def drive_unit(self) -> str:
        return "N m"


class PlanarDriveAngle(Constraint):
    """The angle of b seen from a (1 row)."""

    target: Target

    def residual(self, a: PlanarFrame, b: PlanarFrame, *, t: Any) -> Any:
        return (b.angle - a.angle - self.target(t),)

    @property
    def drive_unit(self) -> str:
        return "N m"


class DriveDistance(Constraint):
    """The distance between two points, planar or spatial (1 row); see `Distance`."""

    p: Vec2 | Vec3
    q: Vec2 | Vec3
    target: Target

    def residual(self, a: Any, b: Any, *, t: Any) -> Any:
        d = b.point(self.q) - a.point(self.p)
        length = self.target(t)
        return ((d.dot(d) - length * length) / (2 * length),)

    @property
    def drive_unit(self) -> str:
        return "N"


class DriveTranslation(Constraint):
    """The displacement of b's point q from a's point p along u of a, planar or spatial (1 row)."""

    p: Vec2 | Vec3
    q: Vec2 | Vec3
    u: Vec2 | Vec3
    target: Target

    def residual(self, a: Any, b: Any, *, t: Any) -> Any:
        return ((a.A @ self.u).dot(b.point(self.q) - a.point(self.p)) - self.target(t),)

    @property
    def drive_unit(self) -> str:
        return "N"


class DriveCoordinate(Constraint):
    """One coordinate of a body: x, y, z of its origin, or a planar body's angle (1 row)."""

    target: Target
    coordinate: str = eqx.field(static=True)

    def residual(self, body: Any, *, t: Any) -> Any:
        value = body.angle if self.coordinate == "angle" else getattr(body.r, self.coordinate)
        return (value - self.target(t),)

    @property
    def drive_unit(self) -> str:
        return "N m" if self.coordinate == "angle" else "N"


class DriverMethods(Description):
    """Mixin with one method for each driver.

    A prescribed motion is a function of the time t [s], written with `jax.numpy` and twice
    differentiable, or a number for a constant. Drivers that share one function object are compiled
    as one group.
    """

    def drive_angle(
        self,
        name: str,
        a: Any = None,
        b: Any = None,
        *,
        angle: Motion,
        joint: str | None = None,
        axis: Any = None,
        axis_a: Any = None,
        axis_b: Any = None,
    ) -> str:
        """Prescribe the angle [rad] of `b` in `a` about an axis, or that of a joint: 1 row.

        The angle is measured from the initial configuration, over any number of turns. Give
        `joint`, the name of a revolute, cylindrical or screw joint whose bodies and axis are
        meant; or two bodies and, in space, an axis they keep (`axis` in the world, or `axis_a`,
        `axis_b` in body axes).
        """
        item = self._driven("angle driver", name, joint, (a, b), (axis, axis_a, axis_b), _TURNING)
        if item is not None:
            a, b = item.bodies
        pair = self._pair("angle driver", name, a, b)
        first, second = pair.bodies
        if pair.kind == "planar":
            pair.refuse(axis=axis, axis_a=axis_a, axis_b=axis_b)
            start = 0.0 if second.is_ground else float(second.start[2])
            start -= 0.0 if first.is_ground else float(first.start[2])
            element = PlanarDriveAngle(Target.of(pair.owner, "angle", angle, start))
            return self._drive(pair, element, item)
        if item is None:
            ta, tb = pair.axes(axis, axis_a, axis_b)
        else:
            ta = item.axes
            m = np.array(list(item.parts[0][1].m))  # pyright: ignore[reportAttributeAccessIssue]
            tb = triad_near(m, second.to_local_direction(first.rotation @ ta))
        target = Target.of(pair.owner, "angle", angle)
        element = DriveAngle(*map(Vec3.of, (ta[:, 0], ta[:, 1], tb[:, 0])), target=target)
        return self._drive(pair, element, item, axes=ta)

    def drive_distance(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        distance: Motion,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
    ) -> str:
        """Prescribe the distance [m] between a point of `a` and a point of `b`: 1 row.

        The points are given as those of `distance`; the distance must stay positive.
        """
        pair = self._pair("distance driver", name, a, b)
        p, q = pair.ends(at, at_a, at_b)
        target = Target.of(pair.owner, "distance", distance)
        start = float(target(jnp.zeros(())))
        if start <= 0:
            raise ModelError(f"{pair.owner}: distance is {start:g} at t=0, it must be positive.")
        vec = Vec2 if pair.kind == "planar" else Vec3
        element = DriveDistance(vec.of(p), vec.of(q), target)
        return self._joint(pair, [element], point_a=p, point=q)

    def drive_translation(
        self,
        name: str,
        a: Any = None,
        b: Any = None,
        *,
        displacement: Motion,
        joint: str | None = None,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axis: Any = None,
        axis_a: Any = None,
    ) -> str:
        """Prescribe how far [m] `b` slides along an axis of `a`, or how far a joint does: 1 row.

        The displacement is measured from the initial configuration. Give `joint`, the name of a
        prismatic, cylindrical or screw joint; or two bodies, an axis of `a` (`axis` in the world,
        or `axis_a`) and the point of `b` that is moved along it.
        """
        given = (at, at_a, at_b, axis, axis_a)
        item = self._driven("translation driver", name, joint, (a, b), given, _SLIDING)
        if item is not None:
            a, b = item.bodies
        pair = self._pair("translation driver", name, a, b)
        if item is None:
            p, q = pair.points(at, at_a, at_b)
            (ta,) = pair.axes(axis, axis_a)
        else:
            p, q, ta = item.point_a, item.point, item.axes
        u = ta[:, 0] if pair.kind == "planar" else ta[:, 2]
        start = float(u @ (pair.seen_from_first(q) - p))
        target = Target.of(pair.owner, "displacement", displacement, start)
        vec = Vec2 if pair.kind == "planar" else Vec3
        element = DriveTranslation(vec.of(p), vec.of(q), vec.of(u), target)
        return self._joint(pair, [element], point_a=p, point=q, axes=ta)

    def drive_coordinate(self, name: str, body: Any, coordinate: str, *, value: Motion) -> str:
        """Prescribe a coordinate of `body` in the world: 1 row.

        `coordinate` is ``"x"``, ``"y"`` or ``"z"`` of the centre of mass [m], or ``"angle"`` [rad]
        of a planar body; `value` is the coordinate itself, not its change.
        """
        one = self._attach("coordinate driver", name, (body,))
        known = ("x", "y", "angle") if one.kind == "planar" else ("x", "y", "z")
        if not isinstance(coordinate, str) or coordinate not in known:
            angle = isinstance(coordinate, str) and coordinate == "angle"
            hint = " Turn a spatial body with drive_angle." if angle else ""
            raise ModelError(
                f"{one.owner}: coordinate={shown(coordinate)} is not one of a {one.kind} body. Use "
                f"{', '.join(map(repr, known))}.{hint}"
            )
        target = Target.of(one.owner, "value", value)
        return self._joint(one, [DriveCoordinate(target, coordinate)], point=np.zeros(one.size))

    def _driven(
        self, what: str, name: str, joint: Any, bodies: Any, places: Any, types: tuple[type, ...]
    ) -> Item | None:
        """The joint a driver names, or None when it is given by bodies."""
        owner = f"{what} {shown(name)}"
        if joint is None:
            if any(body is None for body in bodies):
                raise ModelError(
                    f"{owner}: what it drives is missing. Give joint= (a joint's name) or two "
                    "bodies."
                )
            return None
        if any(x is not None for x in (*bodies, *places)):
            raise ModelError(
                f"{owner}: the joint {shown(joint)} brings its bodies, point and axis. "
                "Leave them out."
            )
        item = self._joints.get(joint) if isinstance(joint, str) else None
        if item is None:
            known = listed(self._joints) or "none yet"
            raise ModelError(f"{owner}: there is no joint {shown(joint)}. The joints are {known}.")
        if not isinstance(item.parts[0][1], types):
            raise ModelError(
                f"{owner}: {joint!r} is a {item.type}, which it cannot drive. Name a "
                f"{_TYPE_NAMES[types]} joint, or give two bodies."
            )
        return item

    def _drive(
        self, pair: Attachment, element: Element, item: Item | None, axes: Any = None
    ) -> str:
        """Record a driver at the place of the joint it drives, if any."""
        if item is None:
            return self._joint(pair, [element], axes=axes)
        return self._joint(pair, [element], point_a=item.point_a, point=item.point, axes=axes)


_TURNING = (Revolute, Cylindrical, Screw, PlanarRevolute)
_SLIDING = (Prismatic, Cylindrical, Screw, PlanarPrismatic)
_TYPE_NAMES = {
    _TURNING: "revolute, cylindrical or screw",
    _SLIDING: "prismatic, cylindrical or screw",
}
