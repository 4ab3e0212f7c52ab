"""Drivers: an angle, a distance, a displacement or a coordinate prescribed as a function of time.

Each is one constraint row g(q, t) = measured - target(t); its multiplier is the torque or force
the drive needs. A prescribed motion is a function of the time t [s], written with `jax.numpy` and
twice differentiable; an expression such as ``"0.1 * sin(omega * t)"``; or a number for a constant.
With `parameters` a function is given them after t, and an expression names them; they may change
without compiling again. Drivers that share one function object are compiled as one group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._messages import explained, shown
from .._modules import Module
from .._numbers import is_traced
from ..rotation.vectors import Scalar
from .attachment import Attached, Attachment
from .expressions import checked_parameters, extra, function_of
from .items import ModelError, OnJoint, record
from .joint import Joint, Place, PointJoint, Residual, stretch, turn_between, wrapped
from .units import check_angle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jax import Array
    from jaxtyping import PyTree

    from ..rotation.vectors import Vec2, Vec3, Vector
    from ..system.frames import AnyFrame, Frame, PlanarFrame

Motion = Callable[..., Any] | float | str


class Target(Module):
    """offset + function(t), or function(t, parameters); the offset alone without a function."""

    offset: Scalar
    parameters: Any
    function: Callable[..., Any] | None = eqx.field(static=True)

    def __call__(self, t: Array) -> Scalar:
        function = self.function
        if function is None:
            return self.offset
        if self.parameters is None:
            return self.offset + function(t)
        if np.ndim(self.offset) == 0:  # one driver alone
            return self.offset + function(t, self.parameters)
        return self.offset + jax.vmap(lambda own: function(t, own))(self.parameters)

    @staticmethod
    def of(
        there: Attachment,
        what: str,
        motion: Any,
        start: float | Array = 0.0,
        *,
        parameters: Mapping[str, float] | None = None,
    ) -> Target:
        """From a function of time or a number, both counted from the value `start`."""
        owner = there.owner
        motion = function_of(owner, what, motion, ("t",), parameters)
        own = extra(checked_parameters(owner, parameters))
        if own and not callable(motion):
            raise ModelError(f"{owner}: {what} is a number, which has no parameters. Leave them.")
        if not callable(motion):
            constant = there.number(what, motion)
            if what == "angle":
                check_angle(owner, what, constant)
            return Target(start + constant, None, None)
        remedy = "Give a function of time alone, t [s], written with jax.numpy."
        try:
            hash(motion)
            jax.eval_shape(motion, jnp.zeros(()), *own)
            returned = motion(jnp.zeros(()), *own)
            value = np.zeros(()) if is_traced(returned) else np.asarray(returned, dtype=float)
        except Exception as error:
            message = f"{owner}: {what} cannot be used: {explained(error)} {remedy}"
            raise ModelError(message) from None
        if returned is None:
            raise ModelError(f"{owner}: {what} returns nothing. {remedy}")
        if value.shape != ():
            raise ModelError(f"{owner}: {what} returns an array of shape {value.shape}. {remedy}")
        if not np.isfinite(value):
            raise ModelError(f"{owner}: {what} is {value} at t=0. {remedy}")
        return Target(start, own[0] if own else None, motion)


@dataclass(frozen=True, repr=False)
class JointDriver(OnJoint, Joint):
    """A driver of a joint, or of two bodies."""

    touches: ClassVar[tuple[str, ...]] = ("a", "b")
    verb: ClassVar[str] = "drive"

    a: Any = None
    b: Any = None
    _: KW_ONLY
    parameters: Any = None

    def _target(self, there: Attachment, what: str, start: Any = 0.0) -> Target:
        return Target.of(there, what, getattr(self, what), start, parameters=self.parameters)


@record("drive_angle", "angle driver")
class DriveAngle(JointDriver):
    """Prescribe the angle [rad] of `b` in `a` about an axis, or that of a joint: 1 row.

    The angle is measured from the initial configuration, over any number of turns. Give `joint`,
    the name of a joint that leaves an axis to turn about (revolute, cylindrical, screw), whose
    bodies and axis are meant; or two bodies and, in space, an axis they keep (`axis` in the world,
    or `axis_a`, `axis_b` in body axes).
    """

    needs = ("turn",)
    functions = ("angle",)
    measures = ("turn",)

    _: KW_ONLY
    angle: Motion
    joint: str | None = None
    axis: Any = None
    axis_a: Any = None
    axis_b: Any = None

    def attach(self, there: Attachment) -> Attached:
        joint = self.on(there.joints)
        place = {} if joint is None else {"point_a": joint.point_a, "point": joint.point}
        if there.is_planar:
            there.refuse(axis=self.axis, axis_a=self.axis_a, axis_b=self.axis_b)
            start = there.bodies[1].angle - there.bodies[0].angle
            known = {"target": self._target(there, "angle", start)}
            return there.attached([Residual.of(self.planar_residual, known, "N m")], **place)
        if joint is None:
            ta, tb = there.axes(self.axis, self.axis_a, self.axis_b)
        else:
            ta, tb = joint.axes, joint.axes_b
        vectors = {"e1": ta[:, 0], "e2": ta[:, 1], "f1": tb[:, 0]}
        known = {name: there.components(x) for name, x in vectors.items()}
        known["target"] = self._target(there, "angle")
        element = Residual.of(self.residual, known, "N m")
        return there.attached([element], axes=ta, axes_b=tb, **place)

    @staticmethod
    def residual(
        a: Frame, b: Frame, *, e1: Vec3, e2: Vec3, f1: Vec3, target: Target, t: Array
    ) -> PyTree:
        """The angle that takes e1 of a to f1 of b about e1 x e2, less whole turns."""
        return (wrapped(turn_between(a, b, e1, e2, f1) - target(t)),)

    @staticmethod
    def planar_residual(
        a: PlanarFrame, b: PlanarFrame, *, target: Target, t: Array
    ) -> tuple[Array]:
        """The angle of b seen from a."""
        return (b.angle - a.angle - target(t),)


@record("drive_distance", "distance driver")
class DriveDistance(PointJoint):
    """Prescribe the distance [m] between a point of `a` and a point of `b`: 1 row.

    The points are given as those of `distance`; the distance must stay positive.
    """

    functions: ClassVar[tuple[str, ...]] = ("distance",)
    measures = ("length",)

    _: KW_ONLY
    distance: Motion
    parameters: Any = None

    def attach(self, there: Attachment) -> Attached:
        p, q = there.ends(self.at, self.at_a, self.at_b)
        target = Target.of(there, "distance", self.distance, parameters=self.parameters)
        start = target(jnp.zeros(())) if target.function is not None else target.offset
        if not is_traced(start) and start <= 0:
            raise ModelError(f"{self.owner}: distance is {start:g} at t=0, it must be positive.")
        place = Place(there, p, q, more={"target": target})
        return place.attached(Residual.of(self.residual, place, "N"))

    @staticmethod
    def residual(a: Frame, b: Frame, *, p: Vec3, q: Vec3, target: Target, t: Array) -> PyTree:
        return (stretch(a, b, p, q, target(t)),)


@record("drive_translation", "translation driver")
class DriveTranslation(JointDriver):
    """Prescribe how far [m] `b` slides along an axis of `a`, or how far a joint does: 1 row.

    The displacement is measured from the initial configuration. Give `joint`, the name of a joint
    that leaves an axis to slide along (prismatic, cylindrical, screw, pin in a slot); or two
    bodies, an axis of `a` (`axis` in the world, or `axis_a`) and the point of `b` that is moved
    along it.
    """

    needs = ("slide",)
    functions = ("displacement",)
    measures = ("slide",)

    _: KW_ONLY
    displacement: Motion
    joint: str | None = None
    at: Any = None
    at_a: Any = None
    at_b: Any = None
    axis: Any = None
    axis_a: Any = None

    def attach(self, there: Attachment) -> Attached:
        joint = self.on(there.joints)
        if joint is None:
            p, q = there.points(self.at, self.at_a, self.at_b)
            (ta,) = there.axes(self.axis, self.axis_a)
        else:
            p, q, ta = joint.point_a, joint.point, joint.axes
        u = ta[:, 0] if there.is_planar else ta[:, 2]
        start = u @ (there.seen_from_first(q) - p)
        target = self._target(there, "displacement", start)
        place = Place(there, p, q, ta, more={"u": u, "target": target})
        return place.attached(Residual.of(self.residual, place, "N"))

    @staticmethod
    def residual(
        a: AnyFrame, b: AnyFrame, *, p: Vector, q: Vector, u: Vector, target: Any, t: Scalar
    ) -> PyTree:
        """The displacement of b's point q from a's point p along u of a."""
        return ((a.A @ u).dot(b.point(q) - a.point(p)) - target(t),)


@record("drive_coordinate", "coordinate driver")
class DriveCoordinate(Joint):
    """Prescribe a coordinate of `body` in the world: 1 row.

    `coordinate` is ``"x"``, ``"y"`` or ``"z"`` of its origin [m], or ``"angle"`` [rad] of a planar
    body; `value` is the coordinate itself, not its change.
    """

    touches: ClassVar[tuple[str, ...]] = ("body",)
    words: ClassVar[tuple[str, ...]] = ("coordinate",)
    functions: ClassVar[tuple[str, ...]] = ("value",)

    body: Any
    coordinate: str
    _: KW_ONLY
    value: Motion
    parameters: Any = None

    def attach(self, there: Attachment) -> Attached:
        known = ("x", "y", "angle") if there.is_planar else ("x", "y", "z")
        if not isinstance(self.coordinate, str) or self.coordinate not in known:
            angle = isinstance(self.coordinate, str) and self.coordinate == "angle"
            hint = " Turn a spatial body with drive_angle." if angle else ""
            raise ModelError(
                f"{self.owner}: coordinate={shown(self.coordinate)} is not one of a {there.kind} "
                f"body. Use {', '.join(map(repr, known))}.{hint}"
            )
        rule, unit = _COORDINATES[self.coordinate]
        origins = there.origins()
        numbers = {
            "target": Target.of(there, "value", self.value, parameters=self.parameters),
            "origin": None if origins is None else origins[0],
        }
        element = Residual.of(rule, numbers, unit)
        return there.attached([element], point=np.zeros(there.size))


def _x(body: PlanarFrame, *, target: Target, origin: Vec2, t: Array) -> tuple[Array]:
    return (_origin(body, origin).x - target(t),)


def _y(body: PlanarFrame, *, target: Target, origin: Vec2, t: Array) -> tuple[Array]:
    return (_origin(body, origin).y - target(t),)


def _z(body: AnyFrame, *, target: Any, origin: Any, t: Scalar) -> tuple[Array]:
    return (_origin(body, origin).z - target(t),)


def _angle(body: PlanarFrame, *, target: Target, t: Scalar) -> tuple[Array]:
    return (body.angle - target(t),)


def _origin(body: Frame | PlanarFrame, origin: Any) -> Any:
    return body.r if origin is None else body.point(origin)


_COORDINATES = {"x": (_x, "N"), "y": (_y, "N"), "z": (_z, "N"), "angle": (_angle, "N m")}
