"""Where bodies are and how they move, as every element sees them.

A frame holds components, each a scalar or a vector over many bodies: position r, axes A, and the
velocities v (of the centre of mass, world axes) and w (angular, body axes; a scalar in the plane).
The tangents of a frame are known in closed form, dr = e_k and dA = A e~_k, so nobody
differentiates the rotation map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .._numbers import namespace
from ..rotation import Axes2, Axes3, Vec2, Vec3, quaternion_rate, quaternion_rotated
from ..rotation.quaternion import (
    quaternion_axes,
    quaternion_normalized,
    rotation_vector_between,
    rotation_vector_rate,
)
from ..rotation.vectors import Scalar, Vector

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree

Active = tuple[Any, Any, Callable[[Any], Any]]  # components that move, their rates, rebuild


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Frame:
    """A spatial body: position, axes, velocity [m/s, world] and angular velocity [rad/s, body]."""

    r: Vec3
    A: Axes3
    v: Vec3
    w: Vec3

    dof: ClassVar[int] = 6
    nq: ClassVar[int] = 7
    coordinate_labels: ClassVar[tuple[str, ...]] = ("x", "y", "z", "e0", "e1", "e2", "e3")
    velocity_labels: ClassVar[tuple[str, ...]] = ("x", "y", "z", "rx", "ry", "rz")

    def point(self, s: Any) -> Vec3:
        """World position of the body-fixed point `s`."""
        return self.r + self.A @ s

    def velocity(self, s: Any) -> Vec3:
        """World velocity of the body-fixed point `s`."""
        return self.v + self.A @ self.w.cross(s)

    def at(self, s: Vec3) -> Frame:
        """The frame with the same axes whose origin is the body-fixed point `s`."""
        return replace(self, r=self.point(s), v=self.velocity(s))

    @property
    def spin(self) -> Vec3:
        """Angular velocity in world axes."""
        return self.A @ self.w

    def load(self, force: Vec3, at: Vec3) -> tuple[Vec3, Vec3]:
        """The wrench (force in world axes, torque in body axes) of a world force at point `at`."""
        return Vec3.of(force), Vec3.of(at).cross(self.A.T @ force)

    def couple(self, torque: Vec3) -> tuple[Vec3, Vec3]:
        """The wrench of a torque given in world axes."""
        zero = jnp.zeros_like(torque.x)
        return Vec3(zero, zero, zero), self.A.T @ torque

    def moving(self, velocity: Array) -> Frame:
        """This frame with the six velocity components given, the same for all bodies."""
        x, y, z, a, b, c = (jnp.broadcast_to(velocity[k], self.r.x.shape) for k in range(6))
        return replace(self, v=Vec3(x, y, z), w=Vec3(a, b, c))

    @property
    def rates(self) -> Any:
        """(v, w)."""
        return self.v, self.w

    def with_velocity(self, rates: tuple[Vec3, Vec3]) -> Frame:
        """This frame with another (v, w)."""
        return replace(self, v=rates[0], w=rates[1])

    def with_pose(self, pose: tuple[Vec3, Axes3]) -> Frame:
        """This frame at another (r, A)."""
        return replace(self, r=pose[0], A=pose[1])

    @property
    def pose(self) -> Any:
        """(r, A), what a configuration determines."""
        return self.r, self.A

    @property
    def pose_rate(self) -> tuple[Vec3, Axes3]:
        """The time derivative of `pose`."""
        return self.v, self.A.spun(self.w)

    def pulled(self, slope: tuple[Vec3, Axes3]) -> list[Array]:
        """The derivatives along the six increments of what has the derivative `slope` to `pose`."""
        r, A = slope
        turns = ((A.y, self.A.z, A.z, self.A.y), (A.z, self.A.x, A.x, self.A.z))
        turns = (*turns, (A.x, self.A.y, A.y, self.A.x))
        return [*r, *(a.dot(b) - c.dot(d) for a, b, c, d in turns)]

    def increments(self) -> list[Active]:
        """The six unit increments of the pose: what moves, at which rate, how to put it back."""
        out: list[Active] = []
        for name in ("x", "y", "z"):
            component = getattr(self.r, name)

            def rebuild(c: PyTree, name: str = name) -> Frame:
                return replace(self, r=replace(self.r, **{name: c}))

            out.append((component, jnp.ones_like(component), rebuild))
        for first, second in (("y", "z"), ("z", "x"), ("x", "y")):
            a, b = getattr(self.A, first), getattr(self.A, second)

            def turn(c: PyTree, first: str = first, second: str = second) -> Frame:
                return replace(self, A=replace(self.A, **{first: c[0], second: c[1]}))

            out.append(((a, b), (b, -a), turn))
        return out

    def velocity_increments(self) -> list[Active]:
        """The six unit increments of the velocity."""
        out: list[Active] = []
        for field in ("v", "w"):
            vector = getattr(self, field)
            for name in ("x", "y", "z"):
                component = getattr(vector, name)

                def rebuild(c: Array, field: str = field, name: str = name) -> Frame:
                    return replace(self, **{field: replace(getattr(self, field), **{name: c})})

                out.append((component, jnp.ones_like(component), rebuild))
        return out

    # -- state vectors: q = (x..., y..., z..., e0..., e1..., e2..., e3...), one row a component --

    @staticmethod
    def from_state(q: Array, v: Array) -> Frame:
        """From q (7, n) and v (6, n), rows of components over bodies."""
        return Frame(
            Vec3(q[0], q[1], q[2]),
            quaternion_axes((q[3], q[4], q[5], q[6])),
            Vec3(v[0], v[1], v[2]),
            Vec3(v[3], v[4], v[5]),
        )

    @staticmethod
    def ground() -> Frame:
        """The frame that never moves, as arrays of one."""
        o, i = np.zeros(1), np.ones(1)
        axes = Axes3(Vec3(i, o, o), Vec3(o, i, o), Vec3(o, o, i))
        return Frame(Vec3(o, o, o), axes, Vec3(o, o, o), Vec3(o, o, o))

    @staticmethod
    def qdot(q: Any, v: Array) -> Any:
        """Rows of q' for rows of v."""
        e = quaternion_rate((q[3], q[4], q[5], q[6]), Vec3(v[3], v[4], v[5]))
        return jnp.stack([v[0], v[1], v[2], *e])

    @staticmethod
    def retract(q: np.ndarray | Array, d: np.ndarray | Array) -> Any:
        """Rows of q moved by an increment: translation added, rotation vector in body axes."""
        e = quaternion_rotated((q[3], q[4], q[5], q[6]), Vec3(d[3], d[4], d[5]))
        return jnp.stack([q[0] + d[0], q[1] + d[1], q[2] + d[2], *e])

    @staticmethod
    def difference(p: np.ndarray | Array, q: np.ndarray | Array) -> Array:
        """Rows of the increment from p to q."""
        turn = rotation_vector_between((p[3], p[4], p[5], p[6]), (q[3], q[4], q[5], q[6]))
        return jnp.stack([q[0] - p[0], q[1] - p[1], q[2] - p[2], *turn])

    @staticmethod
    def increment_rate(d: np.ndarray | Array, rate: Array) -> Any:
        """Rows of the velocity of q ⊞ d when d changes at `rate`: tangent map of the rotations."""
        w = rotation_vector_rate(Vec3(d[3], d[4], d[5]), Vec3(rate[3], rate[4], rate[5]))
        return jnp.stack([rate[0], rate[1], rate[2], *w])

    @staticmethod
    def normalize(q: Array) -> Array:
        """Rows of q with unit quaternions."""
        return jnp.stack([q[0], q[1], q[2], *quaternion_normalized((q[3], q[4], q[5], q[6]))])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PlanarFrame:
    """A planar body: position, angle and its cosine and sine, velocity and angular velocity."""

    r: Vec2
    angle: Scalar
    A: Axes2
    v: Vec2
    w: Scalar

    dof: ClassVar[int] = 3
    nq: ClassVar[int] = 3
    coordinate_labels: ClassVar[tuple[str, ...]] = ("x", "y", "angle")
    velocity_labels: ClassVar[tuple[str, ...]] = ("x", "y", "angle")

    def point(self, s: Any) -> Vec2:
        """World position of the body-fixed point `s`."""
        return self.r + self.A @ s

    def velocity(self, s: Any) -> Vec2:
        """World velocity of the body-fixed point `s`."""
        return self.v + (self.A @ s).turned() * self.w

    def at(self, s: Vec2) -> PlanarFrame:
        """The frame with the same axes whose origin is the body-fixed point `s`."""
        return replace(self, r=self.point(s), v=self.velocity(s))

    @property
    def spin(self) -> Scalar:
        """Angular velocity."""
        return self.w

    def load(self, force: Vec2, at: Vec2) -> tuple[Vec2, Scalar]:
        """The wrench (force, torque) of a world force at the body-fixed point `at`."""
        return Vec2.of(force), (self.A @ at).cross(force)

    def couple(self, torque: Scalar) -> tuple[Vec2, Scalar]:
        """The wrench of a torque."""
        zero = jnp.zeros_like(torque)
        return Vec2(zero, zero), torque

    def moving(self, velocity: Array) -> PlanarFrame:
        """This frame with the three velocity components given, the same for all bodies."""
        x, y, w = (jnp.broadcast_to(velocity[k], self.angle.shape) for k in range(3))
        return replace(self, v=Vec2(x, y), w=w)

    @property
    def rates(self) -> Any:
        """(v, w)."""
        return self.v, self.w

    def with_velocity(self, rates: tuple[Vec2, Scalar]) -> PlanarFrame:
        """This frame with another (v, w)."""
        return replace(self, v=rates[0], w=rates[1])

    def with_pose(self, pose: tuple[Vec2, Scalar, Axes2]) -> PlanarFrame:
        """This frame at another (r, angle, A)."""
        return replace(self, r=pose[0], angle=pose[1], A=pose[2])

    @property
    def pose(self) -> Any:
        """(r, angle, A), what a configuration determines."""
        return self.r, self.angle, self.A

    @property
    def pose_rate(self) -> tuple[Vec2, Scalar, Axes2]:
        """The time derivative of `pose`."""
        return self.v, self.w, self.A.spun(self.w)

    def pulled(self, slope: tuple[Vec2, Scalar, Axes2]) -> list[Array]:
        """The derivatives along the three increments of what has the derivative `slope` to
        `pose`."""
        r, angle, A = slope
        return [*r, angle - A.c * self.A.s + A.s * self.A.c]

    def increments(self) -> list[Active]:
        """The three unit increments of the pose."""
        out: list[Active] = []
        for name in ("x", "y"):
            component = getattr(self.r, name)

            def rebuild(c: PyTree, name: str = name) -> PlanarFrame:
                return replace(self, r=replace(self.r, **{name: c}))

            out.append((component, jnp.ones_like(component), rebuild))
        one = jnp.ones_like(self.angle)
        out.append(
            (
                (self.angle, self.A),
                (one, Axes2(-self.A.s, self.A.c)),
                lambda c: replace(self, angle=c[0], A=c[1]),
            )
        )
        return out

    def velocity_increments(self) -> list[Active]:
        """The three unit increments of the velocity."""
        out: list[Active] = []
        for name in ("x", "y"):
            component = getattr(self.v, name)

            def rebuild(c: Array, name: str = name) -> PlanarFrame:
                return replace(self, v=replace(self.v, **{name: c}))

            out.append((component, jnp.ones_like(component), rebuild))
        out.append((self.w, jnp.ones_like(self.w), lambda c: replace(self, w=c)))
        return out

    @staticmethod
    def from_state(q: np.ndarray | Array, v: np.ndarray | Array) -> PlanarFrame:
        """From q (3, n) and v (3, n), rows of components over bodies."""
        xp = namespace(q)
        axes = Axes2(xp.cos(q[2]), xp.sin(q[2]))
        return PlanarFrame(Vec2(q[0], q[1]), q[2], axes, Vec2(v[0], v[1]), v[2])

    @staticmethod
    def ground() -> PlanarFrame:
        """The frame that never moves, as arrays of one."""
        o = np.zeros(1)
        return PlanarFrame(Vec2(o, o), o, Axes2(np.ones(1), o), Vec2(o, o), o)

    @staticmethod
    def qdot(q: Any, v: Array) -> Any:
        """Rows of q' for rows of v."""
        return v

    @staticmethod
    def retract(q: np.ndarray | Array, d: np.ndarray | Array) -> Any:
        """Rows of q moved by an increment."""
        return q + d

    @staticmethod
    def difference(p: Array, q: Array) -> Array:
        """Rows of the increment from p to q."""
        return q - p

    @staticmethod
    def increment_rate(d: Array, rate: Array) -> Array:
        """Rows of the velocity of q + d when d changes at `rate`."""
        return rate

    @staticmethod
    def normalize(q: Array) -> Array:
        """Rows of q as they are."""
        return q


# What is written once for the plane and for space, where the checker of types cannot know which.
AnyFrame = Any  # a PlanarFrame or a Frame
Wrench = tuple[Vector, Any]  # on a body: force in world axes, torque in body axes (or a number)


def at_origins(
    frames: Sequence[Frame | PlanarFrame], origins: Sequence[Vector] | None
) -> list[AnyFrame]:
    """Frames at the origins of the bodies' coordinates, given from their centres of mass."""
    if origins is None:
        return list(frames)
    return [frame.at(origin) for frame, origin in zip(frames, origins, strict=True)]


def as_plain(value: object) -> Array:
    """What a user's function returned, a number or a vector of any sort, as an array."""
    if isinstance(value, Vec2 | Vec3):
        return value.array()
    if isinstance(value, list | tuple):
        return jnp.stack([jnp.asarray(x, dtype=float) for x in value])
    return jnp.asarray(value, dtype=float)
