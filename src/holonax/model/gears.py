"""Gears and racks: joints of two bodies whose motion is seen from a third, the carrier."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._arguments import flag
from .._messages import shown
from .._numbers import is_traced
from .attachment import Attached, Attachment
from .items import ModelError, record
from .joint import Joint, Residual, nonzero, turn_between, wrapped

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree

    from ..rotation.vectors import Vec3
    from ..system.frames import Frame, PlanarFrame


@dataclass(frozen=True, repr=False)
class CarriedJoint(Joint):
    """A joint of two bodies on a third, the ground unless given."""

    _: KW_ONLY
    carrier: Any = "ground"

    def __post_init__(self) -> None:
        if self.carrier is None:
            object.__setattr__(self, "carrier", "ground")
        super().__post_init__()


@record("gear", "gear")
class Gear(CarriedJoint):
    """Gear pair of the wheels `a` and `b` on a carrier (default: the ground): 1 row.

    Ties the angles of both wheels, seen from the carrier and over any number of turns; the wheels'
    bearings are joints of their own, and carry no tooth forces.

    **Arguments:**

    - `teeth`: numbers of teeth of `a` and `b`; or `ratio`, the turns of `b` for one of `a`
      (positive; in space a fraction of whole numbers).
    - `internal`: whether one wheel is a ring around the other, so that both turn alike.
    - `axis`: world direction of both axes; for axes that differ (bevel gears) `axis_a` in the axes
      of `a` and `axis_b` in those of `b`. None in the plane.
    """

    touches: ClassVar[tuple[str, ...]] = ("a", "b", "carrier")
    discrete: ClassVar[tuple[str, ...]] = ("teeth",)

    a: Any
    b: Any
    _: KW_ONLY
    teeth: tuple[int, int] | None = None
    ratio: float | None = None
    internal: bool = False
    axis: Any = None
    axis_a: Any = None
    axis_b: Any = None

    def attach(self, there: Attachment) -> Attached:
        sign = 1 if flag(self.owner, "internal", self.internal, error=ModelError) else -1
        turns = sign * self._ratio(there, whole=not there.is_planar)
        if there.is_planar:
            there.refuse(axis=self.axis, axis_a=self.axis_a, axis_b=self.axis_b)
            x, y, z = (body.angle for body in there.bodies)
            turns = float(turns) if isinstance(turns, Fraction) else turns
            known = {"ratio": turns, "offset": (y - z) - turns * (x - z)}
            return there.attached([Residual.of(self.planar_residual, known)])
        triads = there.axes(self.axis, self.axis_a, self.axis_b)
        known = {"n1": -float(turns.numerator), "n2": float(turns.denominator)}
        carrier = there.bodies[2]
        for body, own, which in zip(there.bodies, triads, "ab", strict=False):
            seen = carrier.to_local_direction(body.rotation @ own)
            vectors = {"e1": seen[:, 0], "e2": seen[:, 1], "f": own[:, 0]}
            known |= {f"{x}_{which}": there.components(v) for x, v in vectors.items()}
        return there.attached([Residual.of(self.residual, known)], axes=triads[0])

    @staticmethod
    def residual(
        a: Frame, b: Frame, c: Frame, *, e1_a: Vec3, e2_a: Vec3, f_a: Vec3,
        e1_b: Vec3, e2_b: Vec3, f_b: Vec3, n1: Array, n2: Array,
    ) -> PyTree:  # fmt: skip
        """n1 angle_a + n2 angle_b keeps its value, the angles of the wheels' `f` in the carrier's
        `(e1, e2)`. With whole numbers n1, n2 the sum changes by whole turns when a wheel turns
        once, so it is taken less whole turns; the residual is in radians of wheel b."""
        angle_a = turn_between(c, a, e1_a, e2_a, f_a)
        angle_b = turn_between(c, b, e1_b, e2_b, f_b)
        return (wrapped(n1 * angle_a + n2 * angle_b) / n2,)

    @staticmethod
    def planar_residual(
        a: PlanarFrame, b: PlanarFrame, c: PlanarFrame, *, ratio: Array, offset: Array
    ) -> tuple[Array]:
        """(b - c) = ratio (a - c) + offset, for the three angles. Planar angles are unbounded, so
        the ratio may be any number and the teeth never slip."""
        return ((b.angle - c.angle) - ratio * (a.angle - c.angle) - offset,)

    def _ratio(self, there: Attachment, *, whole: bool) -> PyTree:
        """Turns of the second wheel for one of the first; a fraction where it must be `whole`."""
        if (self.teeth is None) == (self.ratio is None):
            raise ModelError(
                f"{self.owner}: give either teeth=(number on a, number on b) or ratio= (turns of b "
                "for one turn of a)."
            )
        if self.teeth is not None:
            try:
                first, second = (Fraction(n) for n in self.teeth)
            except (TypeError, ValueError, OverflowError):
                first = second = Fraction(0)
            if any(not 1 <= n <= 10**9 or n.denominator != 1 for n in (first, second)):
                raise ModelError(
                    f"{self.owner}: teeth={shown(self.teeth)} must be two positive whole numbers, "
                    "10^9 at most."
                )
            return first / second
        value = there.number("ratio", self.ratio)
        if is_traced(value):
            if not whole:
                return value
            value = -1.0
        if value <= 0:
            raise ModelError(
                f"{self.owner}: ratio={value:g} must be positive. For wheels that turn alike use "
                "internal=True."
            )
        if not whole:
            return value
        fraction = Fraction(value).limit_denominator(1000)
        if fraction <= 0 or abs(float(fraction) - value) > 1e-9 * value:
            raise ModelError(
                f"{self.owner}: ratio={value!r} is not a fraction of whole numbers up to 1000, so "
                "spatial wheels would slip after a turn. Give teeth=(number on a, number on b)."
            )
        return fraction


@record("rack_and_pinion", "rack and pinion")
class RackAndPinion(CarriedJoint):
    """Rack and pinion on a carrier (default: the ground; spatial): 1 row.

    The rack moves along `direction` (world, initial configuration; fixed in the carrier) by
    `radius` [m] times the pinion's angle about `axis` (world, or `axis_a` in the pinion). A
    negative radius reverses the sense. The pinion's bearing and the rack's guide are joints of
    their own, and carry no tooth forces.
    """

    touches: ClassVar[tuple[str, ...]] = ("pinion", "rack", "carrier")
    kinds = ("spatial",)

    pinion: Any
    rack: Any
    _: KW_ONLY
    radius: float
    direction: Any
    axis: Any = None
    axis_a: Any = None

    def attach(self, there: Attachment) -> Attached:
        radius = nonzero(there, "radius", self.radius)
        (triad,) = there.axes(self.axis, self.axis_a)
        wheel, bar, base = there.bodies
        seen = base.to_local_direction(wheel.rotation @ triad)
        u = base.to_local_direction(there.direction("direction", self.direction))
        vectors = {"e1": seen[:, 0], "e2": seen[:, 1], "f": triad[:, 0], "u": u}
        known = {name: there.components(x) for name, x in vectors.items()}
        known["p"] = there.arm(2, base.to_local_point(bar.position))
        known["q"] = there.arm(1, np.zeros(3))
        element = Residual.of(self.residual, {**known, "radius": radius})
        return there.attached([element], point=np.zeros(3), axes=triad)

    @staticmethod
    def residual(
        pinion: Frame, rack: Frame, c: Frame, *, e1: Vec3, e2: Vec3, f: Vec3,
        p: Vec3, q: Vec3, u: Vec3, radius: Array,
    ) -> PyTree:  # fmt: skip
        """The rack's point q moves from the carrier's p along u by `radius` times the pinion's
        angle, that of its `f` in the carrier's `(e1, e2)`."""
        angle = turn_between(c, pinion, e1, e2, f)
        moved = (c.A @ u).dot(rack.point(q) - c.point(p))
        return (radius * wrapped(moved / radius - angle),)
