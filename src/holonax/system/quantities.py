"""Named quantities of a mechanism: numbers and vectors that follow from a state.

A quantity is a rule and the numbers it needs, as a joint is; it is written once, on components, and
serves a compiled program (an event, an objective) at one state as well as NumPy at many. What the
rule is given is a `Situation`: frames of bodies, and what forces apply.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from .._modules import Module
from .._numbers import namespace
from ..rotation import Vec2, Vec3
from .base import Array
from .frames import PlanarFrame, as_plain, at_origins
from .modal import AnyBodies
from .situation import Loads, Present, Recorded, Situation

if TYPE_CHECKING:
    from ..rotation.vectors import Scalar, Vector
    from .frames import AnyFrame, Frame


class Quantity(Module):
    """A number or vector of the state, with its unit and the names of its components, if any."""

    unit: str = eqx.field(static=True)
    labels: tuple[str, ...] = eqx.field(static=True)

    @abc.abstractmethod
    def value(self, at: Situation) -> Vector | Scalar:
        """A number, a `Vec2` or a `Vec3`."""

    @property
    def circular(self) -> bool:
        """Whether it is known up to whole turns only, as an angle between spatial bodies."""
        return False

    def at(self, bodies: AnyBodies, t: float | Array, q: Array, v: Array) -> Array:
        """The number or array at one state; may be traced and differentiated."""
        found = self.value(Present(bodies, t, q, v))
        return found.array() if isinstance(found, Vec2 | Vec3) else found

    def over(self, history: Recorded) -> np.ndarray:
        """At many states, shape (n,) or (n, components)."""
        found = self.value(history)
        return np.array(np.broadcast_to(np.asarray(found), (history.t.size, *self._shape)))

    @property
    def _shape(self) -> tuple[int, ...]:
        return (len(self.labels),) if self.labels else ()

    def component(self, label: str) -> Quantity | None:
        """One component of a vector by its name."""
        k = self.labels.index(label) if label in self.labels else None
        return None if k is None else Component(self.unit, (), self, k)


class Measured(Quantity):
    """A rule of frames by its name, and its numbers."""

    rule: str = eqx.field(static=True)
    nodes: tuple[int, ...] = eqx.field(static=True)
    numbers: dict[str, Any]

    @property
    def circular(self) -> bool:
        return self.rule == "turned"

    def value(self, at: Situation) -> Vector | Scalar:
        return RULES[self.rule](*(at.frame(i) for i in self.nodes), **self.numbers)


class OfForce(Quantity):
    """A rule of frames and of what a force applies to them, and its numbers."""

    rule: str = eqx.field(static=True)
    nodes: tuple[int, ...] = eqx.field(static=True)
    force: str = eqx.field(static=True)
    numbers: dict[str, Any]

    def value(self, at: Situation) -> Vector | Scalar:
        frames = [at.frame(i) for i in self.nodes]
        loads = at.loads(self.force)[: len(frames)]  # without those on carriers of states
        return RULES[self.rule](frames, loads, **self.numbers)


class Output(Quantity):
    """A user's ``function(*frames, t)``, or with parameters as the last argument."""

    function: Callable[..., Any] = eqx.field(static=True)
    nodes: tuple[int, ...] = eqx.field(static=True)
    parameters: Any
    origins: Any  # of the bodies' coordinates; None where these are the centres of mass

    def called(self, frames: Sequence[PlanarFrame], t: Array) -> Array:
        """What the function returns at one state."""
        own = () if self.parameters is None else (self.parameters,)
        found = self.function(*at_origins(frames, self.origins), t, *own)
        return as_plain(found)

    def value(self, at: Situation) -> Vector | Scalar:
        return at.called(self)


class Component(Quantity):
    """One component of a vector."""

    whole: Quantity
    k: int = eqx.field(static=True)

    def value(self, at: Situation) -> Vector | Scalar:
        found = self.whole.value(at)
        return list(found)[self.k] if isinstance(found, Vec2 | Vec3) else found[..., self.k]


# -- rules: of bodies ------------------------------------------------------------------------


def place(a: Frame | PlanarFrame, *, origin: Vector | None) -> Vector:
    """Where the origin of the body's coordinates is [m, world]."""
    return a.r if origin is None else a.point(origin)


def speed(a: Frame | PlanarFrame, *, origin: Vector | None) -> Vector:
    """The velocity of that point [m/s, world]."""
    return a.v if origin is None else a.velocity(origin)


def heading(a: PlanarFrame) -> Scalar:
    """The angle of a planar body [rad]."""
    return a.angle


def spin(a: Frame | PlanarFrame) -> Vec3 | Scalar:
    """The angular velocity [rad/s, world axes]."""
    return a.spin


# -- rules: between two bodies ---------------------------------------------------------------


def planar_turn(a: PlanarFrame, b: PlanarFrame, *, start: Scalar) -> Scalar:
    """The angle of b seen from a, from `start` on."""
    return b.angle - a.angle - start


def turned(a: AnyFrame, b: AnyFrame, *, e1: Vec3, e2: Vec3, f1: Vec3) -> Scalar:
    """The angle about e1 x e2 of body a that takes e1 to f1 of body b, between -pi and pi."""
    f = b.A @ f1
    y, x = (a.A @ e2).dot(f), (a.A @ e1).dot(f)
    return namespace(x, y).arctan2(y, x)


def turn_rate(a: Frame | PlanarFrame, b: Frame | PlanarFrame, *, n: Vector | None) -> Scalar:
    """How fast b turns about the axis n of a; in the plane without an axis."""
    turning = b.spin - a.spin
    return turning if n is None else (a.A @ n).dot(turning)


def slid(a: AnyFrame, b: AnyFrame, *, p: Vector, q: Vector, u: Vector, start: Scalar) -> Scalar:
    """How far the point q of b is from the point p of a along u of a, from `start` on."""
    return (a.A @ u).dot(b.point(q) - a.point(p)) - start


def slide_rate(a: AnyFrame, b: AnyFrame, *, q: Vector, u: Vector) -> Scalar:
    """How fast the point q of b moves along u of a."""
    under = a.A.T @ (b.point(q) - a.r)  # the point of a where q is now
    return (a.A @ u).dot(b.velocity(q) - a.velocity(under))


def length(a: Frame | PlanarFrame, b: Frame | PlanarFrame, *, p: Vec2, q: Vec2) -> Scalar:
    """The distance of the point q of b from the point p of a."""
    d = b.point(q) - a.point(p)
    square = d.dot(d)
    xp, none = namespace(square), square == 0
    return xp.where(none, 0.0, xp.sqrt(xp.where(none, 1.0, square)))


def length_rate(a: Frame | PlanarFrame, b: Frame | PlanarFrame, *, p: Vec2, q: Vec2) -> np.ndarray:
    """How fast that distance grows."""
    return _along(a, b, p, q).dot(b.velocity(q) - a.velocity(p))


def _along(a: Frame | PlanarFrame, b: Frame | PlanarFrame, p: Vec2, q: Vec2) -> Vec2:
    """The direction from p to q; zero where they meet."""
    size = length(a, b, p=p, q=q)
    return (b.point(q) - a.point(p)) / namespace(size).where(size == 0, 1.0, size)


# -- rules: of forces ------------------------------------------------------------------------


def push(frames: Sequence[PlanarFrame], loads: Loads, *, p: Vec2, q: Vec2) -> np.ndarray | Array:
    """The force along the line from p of the first to q of the second body, which it pushes
    apart where positive."""
    a, b = frames
    return _along(a, b, p, q).dot(loads[1][0])


def twist(frames: Sequence[PlanarFrame], loads: Loads, *, n: Vector | None) -> np.ndarray:
    """The torque about the axis n of the first body on the second; in the plane without axis."""
    a, b = frames
    torque = loads[1][1]
    return torque if n is None else (a.A @ n).dot(b.A @ torque)


def pull(frames: Sequence[AnyFrame], loads: Loads, *, u: Vector) -> Scalar:
    """The force along the direction u of the first body on the second."""
    return (frames[0].A @ u).dot(loads[1][0])


def force_on(frames: Sequence[AnyFrame], loads: Loads) -> Vector:
    """The force on the last body [world axes]."""
    return loads[-1][0]


def torque_on(frames: Sequence[AnyFrame], loads: Loads, *, q: Array) -> Vec3 | Scalar:
    """The torque on the last body about its point q [world axes]."""
    frame, (force, torque) = frames[-1], loads[-1]
    arm = frame.A @ q
    if isinstance(frame, PlanarFrame):
        return torque - arm.cross(force)
    return frame.A @ torque - arm.cross(force)


def power(frames: Sequence[PlanarFrame], loads: Loads) -> Scalar:
    """What the force gives to all its bodies each second [W]."""
    total = 0.0
    for frame, (force, torque) in zip(frames, loads, strict=True):
        turning = torque * frame.w if isinstance(frame, PlanarFrame) else torque.dot(frame.w)
        total = total + force.dot(frame.v) + turning
    return total


RULES: dict[str, Callable[..., Any]] = {
    rule.__name__: rule
    for rule in (
        *(place, speed, heading, spin),
        *(planar_turn, turned, turn_rate, slid, slide_rate, length, length_rate),
        *(push, twist, pull, force_on, torque_on, power),
    )
}


def find(known: Mapping[str, Quantity], name: str) -> Quantity | None:
    """The quantity of that name, or the component ``"crank.velocity.x"`` of one."""
    if name in known:
        return known[name]
    whole, _, label = name.rpartition(".")
    return known[whole].component(label) if whole in known else None


def names_of(known: Mapping[str, Quantity]) -> list[str]:
    """The names of all, those of components in place of vectors."""
    return [
        full
        for name, x in known.items()
        for full in ([f"{name}.{label}" for label in x.labels] or [name])
    ]
