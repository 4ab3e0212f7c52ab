"""Dry friction by the load that a joint carries, and forces of the user's that see reactions.

Coulomb's law, regularised near rest: a surface that carries the normal force N and slips at the
speed s resists by mu N tanh(s / s_0), against the slip. N is that of the joint's own reaction at
the same instant, which friction may change in turn; the two are solved for together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._modules import Module
from .._numbers import as_array, is_traced
from ..rotation import Vec2, Vec3
from ..rotation.vectors import Scalar
from ..system.elements import Force
from ..system.frames import Frame, PlanarFrame, as_plain, at_origins
from ..system.reaction_forces import JointLoad, ReactionForce
from . import force_checks as checks
from .attachment import Attachment
from .forces import Resistance, length_of, world_wrench
from .items import ModelError

if TYPE_CHECKING:
    from ..rotation.vectors import Vector
    from ..system.frames import AnyFrame, Wrench
    from .attachment import Attached


class Coulomb(Module):
    """mu N tanh(slip / transition)."""

    coefficient: Scalar
    transition: Scalar

    def under(self, normal: Scalar) -> Resistance:
        """The law of a surface that carries a normal force."""
        return Resistance(jnp.zeros_like(normal), self.coefficient * normal, self.transition)


class BearingFriction(ReactionForce):
    """Friction in a guide, sleeve or hinge about the axis `n` of the first body.

    The joint's force across the axis F and its bending moment M are carried at the two ends of the
    bearing, by F/2 +- M x n / length; what acts along the axis, by a collar. All of these surfaces
    slip at the speed of the axial motion and that of the turn at `radius` together. `shortness` is
    1/length, zero for a bearing so long that M does not matter.
    """

    points: tuple[Vec3]
    n: Vec3
    radius: Scalar
    shortness: Scalar
    law: Coulomb

    def wrenches(self, a: Frame, b: Frame, *, t: Any, loads: Sequence[JointLoad]) -> list[Wrench]:
        (force, moment), (q,) = loads[0], self.points
        axis = a.A @ self.n
        thrust = axis.dot(force)
        across = (force - axis * thrust) * 0.5
        pair = moment.cross(axis) * self.shortness
        normal = length_of(across + pair) + length_of(across - pair) + jnp.abs(thrust)
        under = a.A.T @ (b.point(q) - a.r)  # the point of a where q is now
        sliding = axis.dot(b.velocity(q) - a.velocity(under))
        turning = axis.dot(b.spin - a.spin)
        drag = self.law.under(normal).against_vector(Vec2(sliding, turning * self.radius))
        push, torque = axis * drag.x, axis * (drag.y * self.radius)
        return [
            _sum(a.load(push, under), a.couple(torque)),
            _sum(b.load(-push, q), b.couple(-torque)),
        ]


class PlanarGuideFriction(ReactionForce):
    """Friction in a guide along `n` of the first body, as in `BearingFriction`."""

    points: tuple[Vec2]
    n: Vec2
    shortness: Scalar
    law: Coulomb

    def wrenches(
        self, a: PlanarFrame, b: PlanarFrame, *, t: Any, loads: Sequence[JointLoad]
    ) -> list[Wrench]:
        (force, moment), (q,) = loads[0], self.points
        axis = a.A @ self.n
        across, pair = axis.cross(force) * 0.5, moment * self.shortness
        normal = jnp.abs(across + pair) + jnp.abs(across - pair)
        under = a.A.T @ (b.point(q) - a.r)
        sliding = axis.dot(b.velocity(q) - a.velocity(under))
        push = axis * self.law.under(normal).against(sliding)
        return [a.load(push, under), b.load(-push, q)]


class PinFriction(ReactionForce):
    """Friction in a pin of the plane with some `radius`."""

    points: tuple[Vec2]
    radius: Scalar
    law: Coulomb

    def wrenches(
        self, a: PlanarFrame, b: PlanarFrame, *, t: Any, loads: Sequence[JointLoad]
    ) -> list[Wrench]:
        slip = (b.w - a.w) * self.radius
        torque = self.law.under(length_of(loads[0].force)).against(slip) * self.radius
        return [a.couple(torque), b.couple(-torque)]


class BallFriction(ReactionForce):
    """Friction in a ball joint with some `radius`."""

    points: tuple[Vec3]
    radius: Scalar
    law: Coulomb

    def wrenches(self, a: Frame, b: Frame, *, t: Any, loads: Sequence[JointLoad]) -> list[Wrench]:
        slip = (b.spin - a.spin) * self.radius
        resistance = self.law.under(length_of(loads[0].force))
        torque = resistance.against_vector(slip) * self.radius
        return [a.couple(torque), b.couple(-torque)]


def _gliding(a: Frame, b: Frame, q: Vec3, n: Vec3) -> tuple[Vec3, Vec3, Vec3]:
    """The normal of a plane of a, the point of a where q of b is now, and how fast q glides."""
    normal = a.A @ n
    under = a.A.T @ (b.point(q) - a.r)
    speed = b.velocity(q) - a.velocity(under)
    return normal, under, speed - normal * normal.dot(speed)


class PlaneFriction(ReactionForce):
    """Friction between the point q of the second body and a plane of the first, of normal `n`."""

    points: tuple[Vec3]
    n: Vec3
    law: Coulomb

    def wrenches(self, a: Frame, b: Frame, *, t: Any, loads: Sequence[JointLoad]) -> list[Wrench]:
        (q,) = self.points
        normal, under, speed = _gliding(a, b, q, self.n)
        load = jnp.abs(normal.dot(loads[0].force))
        push = self.law.under(load).against_vector(speed)
        return [a.load(push, under), b.load(-push, q)]


class GlideResistance(Force):
    """Resistance against the point q of the second body gliding on a plane of the first."""

    q: Vec3
    n: Vec3
    law: Resistance

    def wrenches(self, a: Frame, b: Frame, *, t: Any) -> list[Wrench]:
        _, under, speed = _gliding(a, b, self.q, self.n)
        push = self.law.against_vector(speed)
        return [a.load(push, under), b.load(-push, self.q)]


def _sum(first: Wrench, second: Wrench) -> Wrench:
    return first[0] + second[0], first[1] + second[1]


def friction_of(
    there: Attachment, joint: Attached, coefficient: Any, radius: Any, length: Any, speed: Any
) -> ReactionForce:
    """The friction of a joint by its own load, from what the user gave for it."""
    owner, item = there.owner, joint.item
    free = item.free
    if item.type == "screw":
        raise ModelError(
            f"{owner}: {item.name!r} is a screw, whose thread carries more than its reaction "
            "shows. Give friction= instead of coefficient=."
        )
    mu = checks.not_negative(owner, "coefficient", coefficient)
    transition = checks.not_negative(owner, "transition_speed", speed)
    if not is_traced(transition) and transition == 0:
        raise ModelError(
            f"{owner}: transition_speed must be positive. Give a slip speed that counts as slow."
        )
    round_ = bool({"turn", "ball"} & set(free))
    if round_ and radius is None:
        raise ModelError(
            f"{owner}: its radius is missing. Give radius=, at which the surfaces of the "
            f"{item.noun} {item.name!r} rub [m]."
        )
    bends = not ({"ball", "glide"} & set(free)) and not (there.is_planar and "turn" in free)
    for what, value, known in (("radius", radius, round_), ("length", length, bends)):
        if value is not None and not known:
            raise ModelError(
                f"{owner}: {what} means nothing for a {item.noun} like {item.name!r}. Leave it out."
            )
    r = as_array(0.0 if radius is None else checks.not_negative(owner, "radius", radius))
    short = 0.0 if length is None else _inverse(owner, length)
    law = Coulomb(as_array(mu), as_array(transition))
    points = (joint.arm,)
    axis = there.components(joint.axes[:, 0 if there.is_planar else 2])
    if "ball" in free:
        return BallFriction(points, r, law)
    if "glide" in free:
        return PlaneFriction(points, axis, law)
    if not there.is_planar:
        return BearingFriction(points, axis, r, as_array(short), law)
    if "turn" in free:
        return PinFriction(points, r, law)
    return PlanarGuideFriction(points, axis, as_array(short), law)


def _inverse(owner: str, length: Any) -> Any:
    x = checks.not_negative(owner, "length", length)
    if not is_traced(x) and x == 0:
        raise ModelError(f"{owner}: length is zero. Give the length of the bearing in metres.")
    return 1.0 / x


class CustomReactionForce(ReactionForce):
    """A user's function(*frames, t, reactions[, parameters]) that returns (force, torque) for each
    body; `reactions` has a `JointLoad` for each joint it names."""

    points: tuple[Vector, ...]
    parameters: Any
    origins: Any  # of the bodies' coordinates; None where these are the centres of mass
    function: Callable[..., Any] = eqx.field(static=True)

    def wrenches(self, *frames: AnyFrame, t: Any, loads: Sequence[JointLoad]) -> list[Wrench]:
        extra = () if self.parameters is None else (self.parameters,)

        def one(frames: Any, loads: Any, extra: Any) -> list[tuple[Any, Any]]:
            seen = [JointLoad(x.force.array(), as_plain(x.torque)) for x in loads]
            pairs = self.function(*frames, t, seen, *extra)
            return [(as_plain(force), as_plain(torque)) for force, torque in pairs]

        out = jax.vmap(one)(at_origins(frames, self.origins), list(loads), extra)
        points = [None] * len(frames) if self.origins is None else self.origins
        parts = zip(frames, out, points, strict=True)
        return [world_wrench(frame, at, *pair) for frame, pair, at in parts]
