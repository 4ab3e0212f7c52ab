"""What joints are made of: the record with a residual, its place, and parts that residuals share.

A residual names the numbers it needs: `p`, `q` are the joint's point in its first and second body;
`e1, e2, n` its triad in the first body and `f1, f2, m` in the second, n and m along the joint's
axis; `u` its direction in the plane. The distance between the points is
d = b.point(q) - a.point(p). Residuals are in metres, in radians, or dimensionless for directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._numbers import is_traced
from ..rotation.vectors import Scalar
from ..system.elements import Constraint
from ..system.quantities import turned
from .attachment import Attached, Attachment
from .items import JointItem, ModelError, PointPair

if TYPE_CHECKING:
    from jax import Array

    from ..rotation.vectors import Vec2, Vec3, Vector
    from ..system.frames import AnyFrame, Frame, PlanarFrame

TURN = 2 * np.pi


class Residual(Constraint):
    """The element of a joint: its residual and the numbers that it names.

    Functions of the user's among them are static; `unit` is that of what a driver gives.
    """

    numbers: dict[str, Any]
    functions: tuple[tuple[str, Callable[..., Any]], ...] = eqx.field(static=True)
    rule: Callable[..., Any] = eqx.field(static=True)
    timed: bool = eqx.field(static=True)
    unit: str = eqx.field(static=True)

    @staticmethod
    def of(rule: Callable[..., Any], known: Mapping[str, Any], unit: str = "") -> Residual:
        """With what `rule` asks for by keyword, out of what is `known`."""
        asked = _asked(rule)
        found = {name: known[name] for name in asked if name != "t"}
        functions = tuple((name, x) for name, x in found.items() if _is_function(x))
        numbers = {name: x for name, x in found.items() if not _is_function(x)}
        return Residual(numbers, functions, rule, "t" in asked, unit)

    def residual(self, *frames: Any, t: Array) -> Any:
        time = {"t": t} if self.timed else {}
        return self.rule(*frames, **self.numbers, **dict(self.functions), **time)

    @property
    def drive_unit(self) -> str:
        return self.unit


@cache
def _asked(rule: Callable[..., Any]) -> list[str]:
    """The numbers that a residual asks for by keyword."""
    return [x.name for x in signature(rule).parameters.values() if x.kind is x.KEYWORD_ONLY]


def _is_function(x: object) -> bool:
    return callable(x) and not isinstance(x, eqx.Module)


@dataclass(frozen=True)
class Place(Mapping[str, Any]):
    """Where a joint of two bodies sits, and the numbers of its residual by name."""

    there: Attachment
    p: Any
    q: Any
    axes: Any = None
    axes_b: Any = None
    _: KW_ONLY
    more: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name in self.more:
            value = self.more[name]
            return self.there.components(value) if np.ndim(value) == 1 else value
        if name in _COLUMNS:
            axes, column = _COLUMNS[name]
            return self.there.components(getattr(self, axes)[:, column])
        return self.there.arm("pq".index(name), getattr(self, name))

    def __iter__(self) -> Any:
        return iter((*_COLUMNS, "p", "q", *self.more))

    def __len__(self) -> int:
        return len(_COLUMNS) + 2 + len(self.more)

    def attached(self, *made: Residual) -> Attached:
        """The joint at this place with its elements."""
        places = {"point_a": self.p, "point": self.q, "axes": self.axes, "axes_b": self.axes_b}
        return self.there.attached(made, **places)


_COLUMNS = {
    "e1": ("axes", 0),
    "e2": ("axes", 1),
    "n": ("axes", 2),
    "u": ("axes", 0),
    "f1": ("axes_b", 0),
    "f2": ("axes_b", 1),
    "m": ("axes_b", 2),
}


@dataclass(frozen=True, repr=False)
class Joint(JointItem):
    """A record with a residual: what vanishes, of the frames it connects.

    `free` says what it leaves free at its point: to turn about its axis, to slide along it, to turn
    as a ball does, or to glide in a plane. Drivers, damping and friction go by it.
    """

    residual: ClassVar[Callable[..., Any]]  # of spatial frames, or of both kinds

    @classmethod
    def rule(cls, planar: bool) -> Callable[..., Any]:
        """The residual in the plane or in space."""
        own = getattr(cls, "planar_residual", None)
        return own if planar and own is not None else cls.residual


@dataclass(frozen=True, repr=False)
class PointJoint(PointPair, Joint):
    """A joint at a point of two bodies."""

    def place(self, there: Attachment) -> Place:
        return Place(there, *there.points(self.at, self.at_a, self.at_b))

    def attach(self, there: Attachment) -> Attached:
        place = self.place(there)
        return place.attached(Residual.of(self.rule(there.is_planar), place))


@dataclass(frozen=True, repr=False)
class AxisJoint(PointJoint):
    """A joint at a point and along an axis of two bodies."""

    _: KW_ONLY
    axis: Any = None
    axis_a: Any = None
    axis_b: Any = None

    def place(self, there: Attachment) -> Place:
        points = there.points(self.at, self.at_a, self.at_b)
        return Place(there, *points, *there.axes(self.axis, self.axis_a, self.axis_b))


@dataclass(frozen=True, repr=False)
class LineJoint(PointJoint):
    """A joint of a point of `b` with an axis of `a`."""

    _: KW_ONLY
    axis: Any = None
    axis_a: Any = None

    def place(self, there: Attachment) -> Place:
        points = there.points(self.at, self.at_a, self.at_b)
        return Place(there, *points, *there.axes(self.axis, self.axis_a))


# -- angles and parts of residuals -------------------------------------------------------------


def wrapped(angle: Scalar) -> Scalar:
    """`angle` less whole turns, between -pi and pi; its derivative is one."""
    return angle - TURN * jnp.round(angle / TURN)


def turn_between(a: Frame, b: Frame, e1: Vec3, e2: Vec3, f1: Vec3) -> Scalar:
    """The angle about e1 x e2 of body a that takes e1 to f1 of body b, between -pi and pi."""
    return turned(a, b, e1=e1, e2=e2, f1=f1)


def parallel(a: Frame, b: Frame, e1: Vec3, e2: Vec3, m: Vec3) -> tuple[Scalar, Scalar]:
    """Two rows that keep m of b along e1 x e2 of a."""
    axis = b.A @ m
    return (a.A @ e1).dot(axis), (a.A @ e2).dot(axis)


def aligned(a: Frame, b: Frame, e1: Vec3, e2: Vec3, m: Vec3, f2: Vec3) -> tuple[Scalar, ...]:
    """Three rows that keep the two triads equal."""
    return *parallel(a, b, e1, e2, m), (a.A @ e1).dot(b.A @ f2)


def off_axis(a: Frame, b: Frame, p: Vec3, q: Vec3, e1: Vec3, e2: Vec3) -> tuple[Scalar, Scalar]:
    """Two rows that keep q of b on the line through p along e1 x e2 of a."""
    d = b.point(q) - a.point(p)
    return (a.A @ e1).dot(d), (a.A @ e2).dot(d)


def off_line(a: PlanarFrame, b: PlanarFrame, p: Vec2, q: Vec2, u: Vec2) -> Scalar:
    """Distance of b's point q from a's line p + s u of the plane, positive to the left of u."""
    return (a.A @ u.turned()).dot(b.point(q) - a.point(p))


def stretch(a: AnyFrame, b: AnyFrame, p: Vector, q: Vector, length: Scalar) -> Scalar:
    """(d.d - L^2) / 2L, the elongation to first order, so that its multiplier is a rod's force."""
    d = b.point(q) - a.point(p)
    return (d.dot(d) - length * length) / (2 * length)


def nonzero(there: Attachment, what: str, value: float | Array) -> float | Array:
    """A length that is not zero."""
    x = there.number(what, value)
    if not is_traced(x) and x == 0.0:
        raise ModelError(f"{there.owner}: {what} is zero. Give a length in metres.")
    return x
