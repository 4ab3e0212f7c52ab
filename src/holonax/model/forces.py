"""Forces: each is its fields and the wrenches it applies to the bodies it touches.

A wrench is (force in world axes, torque in body axes). `p`, `q` are points of the first and second
body; vectors are of the plane or of space, whichever the bodies are. A spring's energy and its
wrenches agree exactly, so that energy can be accounted for to round-off.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import optimization_barrier

from .._modules import Module
from ..rotation import Vec2, Vec3
from ..rotation.screw import rotation_vector
from ..rotation.vectors import Axes3, Scalar
from ..system.elements import Force
from ..system.first_order import rate_wrench
from ..system.frames import Frame, PlanarFrame, as_plain, at_origins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array

    from ..rotation.vectors import Vector
    from ..system.frames import AnyFrame, Wrench


def length_of(d: Vector) -> Scalar:
    """The length of `d`, with a derivative of zero instead of NaN where it vanishes."""
    square = d.dot(d)
    none = square == 0
    return jnp.where(none, 0.0, jnp.sqrt(jnp.where(none, 1.0, square)))


# -- springs, dampers and actuators ----------------------------------------------------------


class SpringLaw(Module):
    """-k (x - rest) - c x' + load + actuator(t, x, x'): the force that makes x grow.

    x is a length [m] or an angle [rad]; `load` is the constant part of the actuator, which is given
    its `parameters` last, if it has any.
    """

    stiffness: Scalar
    damping: Scalar
    rest: Scalar
    load: Scalar
    actuator: Callable[..., Any] | None = eqx.field(static=True)
    parameters: Any = None

    def force(self, t: Array, x: Scalar, speed: Scalar) -> Scalar:
        """The whole force [N] or torque [N m]."""
        return self.force_at_zero(t, x, speed) - self.stiffness * x

    def force_at_zero(self, t: Array, x: Scalar, speed: Scalar) -> Scalar:
        """The force less its part -k x."""
        total = self.stiffness * self.rest - self.damping * speed + self.load
        if self.actuator is not None:
            own = () if self.parameters is None else (self.parameters,)
            mapped = (None, *(0 for _ in (x, speed, *own)))
            total = total + jax.vmap(self.actuator, mapped)(t, x, speed, *own)
        return total

    def loaded(self, more: Scalar) -> SpringLaw:
        """The law with a constant added to its force."""
        return replace(self, load=self.load + more)

    def energy(self, x: Scalar) -> Scalar:
        """k (x - rest)^2 / 2 [J]."""
        return 0.5 * self.stiffness * (x - self.rest) ** 2


class SpringForce(Force):
    """What a law says of one length or angle."""

    law: SpringLaw

    @abc.abstractmethod
    def stretch(self, a: AnyFrame, b: AnyFrame) -> Scalar:
        """The length or angle of the law."""

    def inner_loads(self, a: AnyFrame, b: AnyFrame, *, t: Scalar) -> list[Scalar]:
        x = self.stretch(a, b)
        return [self.law.force(t, x, 0.0 * x)]

    def preloaded(self, loads: list[Scalar]) -> Force:
        return replace(self, law=self.law.loaded(loads[0]))

    def potential(self, a: AnyFrame, b: AnyFrame) -> Any:
        return self.law.energy(self.stretch(a, b))


class SpringDamperForce(SpringForce):
    """Translational spring-damper-actuator along the line from p to q (TSDA)."""

    p: Vector
    q: Vector

    def wrenches(self, a: AnyFrame, b: AnyFrame, *, t: Array) -> list[Wrench]:
        d = b.point(self.q) - a.point(self.p)
        length = length_of(d)
        unit = d / jnp.where(length == 0, 1.0, length)
        speed = unit.dot(b.velocity(self.q) - a.velocity(self.p))
        # -k d apart from the rest: a spring of no free length is smooth where its ends meet
        push = unit * self.law.force_at_zero(t, length, speed) - d * self.law.stiffness
        return [a.load(-push, self.p), b.load(push, self.q)]

    def stretch(self, a: AnyFrame, b: AnyFrame) -> Scalar:
        return length_of(b.point(self.q) - a.point(self.p))


class PlanarTorsionSpring(SpringForce):
    """Rotational spring-damper-actuator between two planar bodies (RSDA)."""

    def wrenches(self, a: PlanarFrame, b: PlanarFrame, *, t: Array) -> list[Wrench]:
        torque = self.law.force(t, b.angle - a.angle, b.w - a.w)
        return [a.couple(-torque), b.couple(torque)]

    def stretch(self, a: PlanarFrame, b: PlanarFrame) -> Scalar:
        return b.angle - a.angle


class TorsionSpringForce(SpringForce):
    """Rotational spring-damper-actuator about an axis of the first body (RSDA).

    `e1, e2, n` is a triad of the first body, n along the axis; `f1` a direction of the second that
    is e1 at the angle zero. The angle is that of f1 seen along the axis, between -pi and pi.
    """

    e1: Vec3
    e2: Vec3
    n: Vec3
    f1: Vec3

    def _components(self, a: Frame, b: Frame) -> tuple[Scalar, Scalar, Scalar]:
        f = a.A.T @ (b.A @ self.f1)
        return self.e1.dot(f), self.e2.dot(f), self.n.dot(f)

    def wrenches(self, a: Frame, b: Frame, *, t: Array) -> list[Wrench]:
        x, y, z = self._components(a, b)
        # so that angle' = axis . (relative spin) also where the hinge is not quite kept, z != 0
        axis = a.A @ (self.n - (self.e1 * x + self.e2 * y) * (z / (x * x + y * y)))
        speed = axis.dot(b.spin - a.spin)
        torque = axis * self.law.force(t, jnp.arctan2(y, x), speed)
        return [a.couple(-torque), b.couple(torque)]

    def stretch(self, a: Frame, b: Frame) -> Scalar:
        x, y, _ = self._components(a, b)
        return jnp.arctan2(y, x)


# -- bushings --------------------------------------------------------------------------------


class BushingForce(Force):
    """Bushing in space: load -K x - C x' on the place of one marker seen from another.

    x is the displacement d of the second marker in the axes of the first, and the rotation vector
    phi that turns the first marker into the second. `Ta` and `Tb` are the markers' axes in their
    bodies. With w the angular velocity of the second seen from the first, phi' = D(phi) w, and the
    torque of a load m on phi is D(phi)^T m.
    """

    p: Vec3
    q: Vec3
    Ta: Axes3
    Tb: Axes3
    stiffness: Scalar  # (..., 6, 6)
    damping: Scalar

    def _deformation(self, a: Frame, b: Frame) -> tuple[Vec3, Vec3]:
        d = self.Ta.T @ (a.A.T @ (b.point(self.q) - a.point(self.p)))
        columns = (self.Tb.x, self.Tb.y, self.Tb.z)
        turn = Axes3(*(self.Ta.T @ (a.A.T @ (b.A @ column)) for column in columns))
        return d, rotation_vector(turn)

    def wrenches(self, a: Frame, b: Frame, *, t: Array) -> list[Wrench]:
        d, phi = optimization_barrier(self._deformation(a, b))
        under = a.A.T @ (b.point(self.q) - a.r)  # the point of a where q is now
        to_marker = lambda x: self.Ta.T @ (a.A.T @ x)  # noqa: E731
        sliding = to_marker(b.velocity(self.q) - a.velocity(under))
        turning = _rotation_rate(phi, to_marker(b.spin - a.spin), -0.5)
        x, speed = [*d, *phi], [*sliding, *turning]
        pairs = zip(_times(self.stiffness, x), _times(self.damping, speed), strict=True)
        load = [-k - c for k, c in pairs]
        force = a.A @ (self.Ta @ Vec3(*load[:3]))
        torque = a.A @ (self.Ta @ _rotation_rate(phi, Vec3(*load[3:]), 0.5))
        return [
            _sum(a.load(-force, under), a.couple(-torque)),
            _sum(b.load(force, self.q), b.couple(torque)),
        ]

    def potential(self, a: Frame, b: Frame) -> Any:
        d, phi = self._deformation(a, b)
        return _quadratic(self.stiffness, [*d, *phi])


class PlanarBushing(Force):
    """Bushing in the plane: x is the displacement along `u` of the first body and across it, and
    the angle beyond `angle`, all of the second body seen from the first."""

    p: Vec2
    q: Vec2
    u: Vec2
    angle: Scalar
    stiffness: Scalar  # (..., 3, 3)
    damping: Scalar

    def _deformation(self, a: PlanarFrame, b: PlanarFrame) -> list[Scalar]:
        d = a.A.T @ (b.point(self.q) - a.point(self.p))
        return [self.u.dot(d), self.u.cross(d), b.angle - a.angle - self.angle]

    def wrenches(self, a: PlanarFrame, b: PlanarFrame, *, t: Array) -> list[Wrench]:
        under = a.A.T @ (b.point(self.q) - a.r)  # the point of a where q is now
        sliding = a.A.T @ (b.velocity(self.q) - a.velocity(under))
        speed = [self.u.dot(sliding), self.u.cross(sliding), b.w - a.w]
        elastic, viscous = (
            _times(self.stiffness, self._deformation(a, b)),
            _times(self.damping, speed),
        )
        along, across, torque = (-k - c for k, c in zip(elastic, viscous, strict=True))
        force = a.A @ (self.u * along + self.u.turned() * across)
        return [
            _sum(a.load(-force, under), a.couple(-torque)),
            _sum(b.load(force, self.q), b.couple(torque)),
        ]

    def potential(self, a: PlanarFrame, b: PlanarFrame) -> Any:
        return _quadratic(self.stiffness, self._deformation(a, b))


def _times(matrix: Array, x: list[Scalar]) -> list[Scalar]:
    """matrix x on components; the matrix may be one for each element."""
    n = range(len(x))
    return [sum(matrix[..., i, j] * x[j] for j in n) for i in n]


def _quadratic(matrix: Scalar, x: list[Scalar]) -> Scalar:
    """x^T matrix x / 2."""
    return 0.5 * sum(u * w for u, w in zip(x, _times(matrix, x), strict=True))


def _sum(first: Wrench, second: Wrench) -> Wrench:
    return first[0] + second[0], first[1] + second[1]


def _rotation_rate(phi: Vec3, w: Vec3, half: float) -> Vec3:
    """w + half phi x w + c phi x (phi x w): D(phi) w for half = -1/2, D(phi)^T w for 1/2.

    c = (1 - (f/2) cot(f/2)) / f^2 with f = |phi|.
    """
    f2 = phi.dot(phi)
    small = f2 < 1e-2
    safe = jnp.where(small, 1.0, f2)
    f = 0.5 * jnp.sqrt(safe)
    # the series of c, to 1e-19 where it is used
    series = 1 / 12 + f2 * (1 / 720 + f2 * (1 / 30240 + f2 * (1 / 1209600 + f2 * (1 / 47900160))))
    c = jnp.where(small, series, (1 - f * jnp.cos(f) / jnp.sin(f)) / safe)
    turned = phi.cross(w)
    return w + turned * half + phi.cross(turned) * c


# -- resistance in joints --------------------------------------------------------------------


class Resistance(Module):
    """damping * speed + friction * tanh(speed / transition): viscous and regularised Coulomb."""

    damping: Scalar
    friction: Scalar
    transition: Scalar

    def against(self, speed: Scalar) -> Scalar:
        """The force or torque that opposes `speed`."""
        return self.damping * speed + self.friction * jnp.tanh(speed / self.transition)

    def against_vector(self, speed: Any) -> Vec3:
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

    def wrenches(self, a: AnyFrame, b: AnyFrame, *, t: Scalar) -> list[Wrench]:
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

    def wrenches(self, a: AnyFrame, b: AnyFrame, *, t: Array) -> list[Wrench]:
        axis = a.A @ self.n
        under = a.A.T @ (b.point(self.q) - a.r)  # the point of a where q is now
        speed = axis.dot(b.velocity(self.q) - a.velocity(under))
        force = axis * self.law.against(speed)
        return [a.load(force, under), b.load(-force, self.q)]


class BallResistance(Force):
    """Resistance against turning about any axis."""

    law: Resistance

    def wrenches(self, a: Frame, b: Frame, *, t: Scalar) -> list[Wrench]:
        torque = self.law.against_vector(b.spin - a.spin)
        return [a.couple(torque), b.couple(-torque)]


# -- applied and user-defined forces ---------------------------------------------------------

Axes = Literal["world", "body"]


class Applied(Force):
    """A force at the point `p` of a body, or without a point a torque.

    It is the constant `value`, or `function` of t, or of (t, frame) where `of_state`; with
    `parameters` of these as well.
    """

    p: Vector | None
    value: Any
    parameters: Any
    origin: Vector | None  # of the body's coordinates, where that is not the centre of mass
    function: Callable[..., Any] | None = eqx.field(static=True)
    of_state: bool = eqx.field(static=True)
    axes: Axes = eqx.field(static=True)

    def wrenches(self, a: AnyFrame, *, t: Array) -> list[Wrench]:
        value = self.value if self.function is None else self._called(a, t)
        if self.axes == "body" and not self._is_planar_torque(a):
            value = a.A @ value
        return [a.couple(value) if self.p is None else a.load(value, self.p)]

    def _is_planar_torque(self, a: AnyFrame) -> bool:
        return self.p is None and isinstance(a, PlanarFrame)

    def _called(self, a: AnyFrame, t: Array) -> Any:
        function: Any = self.function
        mapped = () if self.parameters is None else (self.parameters,)
        if self.of_state:
            mapped = (a if self.origin is None else a.at(self.origin), *mapped)
        if mapped:
            value = jax.vmap(lambda *own: as_plain(function(t, *own)))(*mapped)
        else:
            value = as_plain(function(t))
        if self._is_planar_torque(a):
            return value
        return Vec2.of(value) if isinstance(a, PlanarFrame) else Vec3.of(value)


class Custom(Force):
    """A user's function(*frames, t[, parameters]) that returns (force, torque) for each body."""

    parameters: Any
    origins: Any  # of the bodies' coordinates; None where these are the centres of mass
    function: Callable[..., Any] = eqx.field(static=True)
    energy: Callable[..., Any] | None = eqx.field(static=True)

    def _extra(self) -> tuple[Any, ...]:
        return () if self.parameters is None else (self.parameters,)

    def wrenches(self, *frames: AnyFrame, t: Array) -> list[Wrench]:
        def one(frames: Sequence[Frame | PlanarFrame], extra: Any) -> list[tuple[Any, Any]]:
            pairs = self.function(*frames, t, *extra)
            return [(as_plain(force), as_plain(torque)) for force, torque in pairs]

        out = jax.vmap(one)(at_origins(frames, self.origins), self._extra())
        points = [None] * len(frames) if self.origins is None else self.origins
        parts = zip(frames, out, points, strict=False)
        carriers = frames[len(out) :]  # of states that it depends on
        loads = [world_wrench(frame, at, *pair) for frame, pair, at in parts]
        return [*loads, *(rate_wrench(frame, 0.0) for frame in carriers)]

    def potential(self, *frames: AnyFrame) -> float:
        if self.energy is None:
            return 0.0
        energy = self.energy
        own = at_origins(frames, self.origins)
        return jax.vmap(lambda fs, extra: energy(*fs, *extra))(own, self._extra())


def world_wrench(frame: AnyFrame, at: Vector | None, force: Array, torque: Array) -> Wrench:
    """The wrench of a force at the point `at`, or the centre of mass, and a torque; world axes."""
    planar = isinstance(frame, PlanarFrame)
    vec = Vec2 if planar else Vec3
    about = torque if planar else frame.A.T @ vec.of(torque)
    if at is None:
        return vec.of(force), about
    push, turn = frame.load(vec.of(force), at)
    return push, turn + about
