"""Forces: each is its fields and the wrenches it applies to the bodies it touches.

A wrench is (force in world axes, torque in body axes). `p`, `q` are points of the first and second
body; vectors are of the plane or of space, whichever the bodies are. A spring's energy and its
wrenches agree exactly, so that energy can be accounted for to round-off.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from ..rotation import Vec2, Vec3
from ..rotation.vectors import Axes3, Scalar
from ..system.elements import Force
from ..system.frames import Frame, PlanarFrame

Vector = Any  # a Vec2 between planar bodies, a Vec3 between spatial ones
AnyFrame = Any  # a PlanarFrame or a Frame
Wrench = tuple[Any, Any]


def _length(d: Vector) -> Scalar:
    """The length of `d`, with a derivative of zero instead of NaN where it vanishes."""
    square = d.dot(d)
    none = square == 0
    return jnp.where(none, 0.0, jnp.sqrt(jnp.where(none, 1.0, square)))


# -- springs, dampers and actuators ----------------------------------------------------------


class SpringLaw(eqx.Module):
    """-k (x - rest) - c x' + load + actuator(t, x, x'): the force that makes x grow.

    x is a length [m] or an angle [rad]; `load` is the constant part of the actuator.
    """

    stiffness: Scalar
    damping: Scalar
    rest: Scalar
    load: Scalar
    actuator: Callable[[Any, Any, Any], Any] | None = eqx.field(static=True)

    def force(self, t: Any, x: Scalar, speed: Scalar) -> Scalar:
        """The whole force [N] or torque [N m]."""
        return self.force_at_zero(t, x, speed) - self.stiffness * x

    def force_at_zero(self, t: Any, x: Scalar, speed: Scalar) -> Scalar:
        """The force less its part -k x."""
        total = self.stiffness * self.rest - self.damping * speed + self.load
        if self.actuator is not None:
            total = total + jax.vmap(self.actuator, (None, 0, 0))(t, x, speed)
        return total

    def energy(self, x: Scalar) -> Scalar:
        """k (x - rest)^2 / 2 [J]."""
        return 0.5 * self.stiffness * (x - self.rest) ** 2


class SpringDamper(Force):
    """Translational spring-damper-actuator along the line from p to q (TSDA)."""

    p: Vector
    q: Vector
    law: SpringLaw

    def wrenches(self, a: AnyFrame, b: AnyFrame, *, t: Any) -> list[Wrench]:
        d = b.point(self.q) - a.point(self.p)
        length = _length(d)
        unit = d / jnp.where(length == 0, 1.0, length)
        speed = unit.dot(b.velocity(self.q) - a.velocity(self.p))
        # -k d apart from the rest: a spring of no free length is smooth where its ends meet
        push = unit * self.law.force_at_zero(t, length, speed) - d * self.law.stiffness
        return [a.load(-push, self.p), b.load(push, self.q)]

    def potential(self, a: AnyFrame, b: AnyFrame) -> Any:
        return self.law.energy(_length(b.point(self.q) - a.point(self.p)))


class PlanarTorsionSpring(Force):
    """Rotational spring-damper-actuator between two planar bodies (RSDA)."""

    law: SpringLaw

    def wrenches(self, a: PlanarFrame, b: PlanarFrame, *, t: Any) -> list[Wrench]:
        torque = self.law.force(t, b.angle - a.angle, b.w - a.w)
        return [a.couple(-torque), b.couple(torque)]

    def potential(self, a: PlanarFrame, b: PlanarFrame) -> Any:
        return self.law.energy(b.angle - a.angle)


class TorsionSpring(Force):
    """Rotational spring-damper-actuator about an axis of the first body (RSDA).

    `e1, e2, n` is a triad of the first body, n along the axis; `f1` a direction of the second that
    is e1 at the angle zero. The angle is that of f1 seen along the axis, between -pi and pi.
    """

    e1: Vec3
    e2: Vec3
    n: Vec3
    f1: Vec3
    law: SpringLaw

    def _components(self, a: Frame, b: Frame) -> tuple[Scalar, Scalar, Scalar]:
        f = a.A.T @ (b.A @ self.f1)
        return self.e1.dot(f), self.e2.dot(f), self.n.dot(f)

    def wrenches(self, a: Frame, b: Frame, *, t: Any) -> list[Wrench]:
        x, y, z = self._components(a, b)
        # so that angle' = axis . (relative spin) also where the hinge is not quite kept, z != 0
        axis = a.A @ (self.n - (self.e1 * x + self.e2 * y) * (z / (x * x + y * y)))
        speed = axis.dot(b.spin - a.spin)
        torque = axis * self.law.force(t, jnp.arctan2(y, x), speed)
        return [a.couple(-torque), b.couple(torque)]

    def potential(self, a: Frame, b: Frame) -> Any:
        x, y, _ = self._components(a, b)
        return self.law.energy(jnp.arctan2(y, x))


# -- bushings --------------------------------------------------------------------------------


class _Elastic(Force):
    """Load -K x - C x' on a deformation x of the place of one marker seen from another."""

    p: Vector
    q: Vector
    stiffness: Scalar  # a square matrix for each element
    damping: Scalar

    @abc.abstractmethod
    def deformation(self, a: AnyFrame, b: AnyFrame) -> list[Scalar]:
        """x: displacement [m] and rotation [rad] of the second marker seen from the first."""

    def wrenches(self, a: AnyFrame, b: AnyFrame, *, t: Any) -> list[Wrench]:
        def at(poses: Any) -> list[Scalar]:
            return self.deformation(a.with_pose(poses[0]), b.with_pose(poses[1]))

        poses, rates = (a.pose, b.pose), (a.pose_rate, b.pose_rate)
        speed = jax.jvp(at, (poses,), (rates,))[1]
        x, pull_back = jax.vjp(at, poses)
        elastic, viscous = _times(self.stiffness, x), _times(self.damping, speed)
        (first, second) = pull_back([-k - c for k, c in zip(elastic, viscous, strict=True)])[0]
        return [_wrench_along(a, first), _wrench_along(b, second)]

    def potential(self, a: AnyFrame, b: AnyFrame) -> Any:
        x = self.deformation(a, b)
        return 0.5 * sum(u * w for u, w in zip(x, _times(self.stiffness, x), strict=True))


class Bushing(_Elastic):
    """Bushing in space: x is the displacement of the second marker in the axes of the first, and
    the rotation vector that turns the first marker into the second.

    `Ta` and `Tb` are the markers' axes in their bodies.
    """

    Ta: Axes3
    Tb: Axes3

    def deformation(self, a: Frame, b: Frame) -> list[Scalar]:
        d = a.A.T @ (b.point(self.q) - a.point(self.p))
        T = self.Ta.T
        turn = Axes3(*(T @ (a.A.T @ (b.A @ c)) for c in (self.Tb.x, self.Tb.y, self.Tb.z)))
        return [*(T @ d), *_rotation_vector(turn)]


class PlanarBushing(_Elastic):
    """Bushing in the plane: x is the displacement along u and across it, and the angle beyond
    `angle`, all of the second body seen from the first."""

    u: Vec2
    angle: Scalar

    def deformation(self, a: PlanarFrame, b: PlanarFrame) -> list[Scalar]:
        d = a.A.T @ (b.point(self.q) - a.point(self.p))
        return [self.u.dot(d), self.u.cross(d), b.angle - a.angle - self.angle]


def _times(matrix: Any, x: list[Scalar]) -> list[Scalar]:
    """matrix x on components; the matrix may be one for each element."""
    n = range(len(x))
    return [sum(matrix[..., i, j] * x[j] for j in n) for i in n]


def _wrench_along(frame: AnyFrame, cotangent: Any) -> Wrench:
    """The wrench whose power is that of a cotangent of the frame's pose: dr = v, dA = A w~."""
    if isinstance(frame, PlanarFrame):
        force, torque, axes = cotangent
        return force, torque + frame.A.c * axes.s - frame.A.s * axes.c
    force, axes = cotangent
    A = frame.A
    return force, Vec3(
        axes.y.dot(A.z) - axes.z.dot(A.y),
        axes.z.dot(A.x) - axes.x.dot(A.z),
        axes.x.dot(A.y) - axes.y.dot(A.x),
    )


def _rotation_vector(R: Axes3) -> Vec3:
    """The rotation vector of a matrix, for turns below pi; smooth at zero."""
    s = Vec3(R.y.z - R.z.y, R.z.x - R.x.z, R.x.y - R.y.x) * 0.5  # sin(angle) times the axis
    c = 0.5 * (R.x.x + R.y.y + R.z.z - 1)
    s2 = s.dot(s)
    small = (s2 < 1e-4) & (c > 0)
    root = jnp.sqrt(jnp.where(small, 1.0, s2))
    # angle / sin(angle): the series of asin(s)/s, to 1e-21 where it is used
    series = 1 + s2 * (1 / 6 + s2 * (3 / 40 + s2 * (15 / 336 + s2 * (105 / 3456))))
    return s * jnp.where(small, series, jnp.arctan2(root, jnp.where(small, 0.0, c)) / root)


# -- resistance in joints --------------------------------------------------------------------


class Resistance(eqx.Module):
    """damping * speed + friction * tanh(speed / transition): viscous and regularised Coulomb."""

    damping: Scalar
    friction: Scalar
    transition: Scalar

    def against(self, speed: Scalar) -> Scalar:
        """The force or torque that opposes `speed`."""
        return self.damping * speed + self.friction * jnp.tanh(speed / self.transition)

    def against_vector(self, speed: Vec3) -> Vec3:
        """The same for a velocity vector, along it."""
        x2 = speed.dot(speed) / self.transition**2
        small = x2 < 1e-4
        x = jnp.sqrt(jnp.where(small, 1.0, x2))
        # tanh(x)/x by its series near rest, where the root has no derivative
        series = 1 - x2 * (1 / 3 - x2 * (2 / 15 - x2 * (17 / 315)))
        slope = jnp.where(small, series, jnp.tanh(x) / x) / self.transition
        return speed * (self.damping + self.friction * slope)


class HingeResistance(Force):
    """Resistance against turning about the axis `n` of the first body; None in the plane."""

    n: Vec3 | None
    law: Resistance

    def wrenches(self, a: AnyFrame, b: AnyFrame, *, t: Any) -> list[Wrench]:
        turning = b.spin - a.spin
        if self.n is None:
            torque = self.law.against(turning)
        else:
            axis = a.A @ self.n
            torque = axis * self.law.against(axis.dot(turning))
        return [a.couple(torque), b.couple(-torque)]


class SlideResistance(Force):
    """Resistance against the point q of the second body sliding along `n` of the first."""

    q: Vector
    n: Vector
    law: Resistance

    def wrenches(self, a: AnyFrame, b: AnyFrame, *, t: Any) -> list[Wrench]:
        axis = a.A @ self.n
        under = a.A.T @ (b.point(self.q) - a.r)  # the point of a where q is now
        speed = axis.dot(b.velocity(self.q) - a.velocity(under))
        force = axis * self.law.against(speed)
        return [a.load(force, under), b.load(-force, self.q)]


class BallResistance(Force):
    """Resistance against turning about any axis."""

    law: Resistance

    def wrenches(self, a: Frame, b: Frame, *, t: Any) -> list[Wrench]:
        torque = self.law.against_vector(b.spin - a.spin)
        return [a.couple(torque), b.couple(-torque)]


# -- applied and user-defined forces ---------------------------------------------------------

Axes = Literal["world", "body"]


class Applied(Force):
    """A force at the point `p` of a body, or without a point a torque.

    It is the constant `value`, or `function` of t, or of (t, frame) where `of_state`.
    """

    p: Vector | None
    value: Any
    function: Callable[..., Any] | None = eqx.field(static=True)
    of_state: bool = eqx.field(static=True)
    axes: Axes = eqx.field(static=True)

    def wrenches(self, a: AnyFrame, *, t: Any) -> list[Wrench]:
        value = self.value if self.function is None else self._called(a, t)
        if self.axes == "body" and not self._is_planar_torque(a):
            value = a.A @ value
        return [a.couple(value) if self.p is None else a.load(value, self.p)]

    def _is_planar_torque(self, a: AnyFrame) -> bool:
        return self.p is None and isinstance(a, PlanarFrame)

    def _called(self, a: AnyFrame, t: Any) -> Any:
        function: Any = self.function
        if self.of_state:
            value = jax.vmap(lambda frame: plain(function(t, frame)))(a)
        else:
            value = plain(function(t))
        if self._is_planar_torque(a):
            return value
        return Vec2.of(value) if isinstance(a, PlanarFrame) else Vec3.of(value)


def plain(value: Any) -> jax.Array:
    """What a user's function returned, a number or a vector of any sort, as an array."""
    if isinstance(value, Vec2 | Vec3):
        return value.array()
    if isinstance(value, list | tuple):
        return jnp.stack([jnp.asarray(x, dtype=float) for x in value])
    return jnp.asarray(value, dtype=float)


class Custom(Force):
    """A user's function(*frames, t[, parameters]) that returns (force, torque) for each body."""

    parameters: Any
    function: Callable[..., Any] = eqx.field(static=True)
    energy: Callable[..., Any] | None = eqx.field(static=True)

    def _extra(self) -> tuple[Any, ...]:
        return () if self.parameters is None else (self.parameters,)

    def wrenches(self, *frames: AnyFrame, t: Any) -> list[Wrench]:
        def one(frames: Any, extra: Any) -> list[tuple[Any, Any]]:
            pairs = self.function(*frames, t, *extra)
            return [(plain(force), plain(torque)) for force, torque in pairs]

        out = jax.vmap(one)(frames, self._extra())
        return [_world_wrench(f, *pair) for f, pair in zip(frames, out, strict=True)]

    def potential(self, *frames: AnyFrame) -> Any:
        if self.energy is None:
            return 0.0
        energy = self.energy
        return jax.vmap(lambda fs, extra: energy(*fs, *extra))(frames, self._extra())


def _world_wrench(frame: AnyFrame, force: Any, torque: Any) -> Wrench:
    """The wrench of a force at the centre of mass and a torque, both in world axes."""
    if isinstance(frame, PlanarFrame):
        return Vec2.of(force), torque
    return Vec3.of(force), frame.A.T @ Vec3.of(torque)
