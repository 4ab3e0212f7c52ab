"""Joints of two bodies: each is one record of what was said, its residual, and what it leaves free.

Every joint has a name and connects body `a` to body `b` (handles, names, or the ground). Its point
is given as `at`, a world point of the initial configuration, or as `at_a` and `at_b` in the
coordinates of each body [m]; its axis as `axis`, a world direction, or as `axis_a`, `axis_b`. One
that is given for one body only is carried over to the other in the initial configuration. See
`joint.py` for the numbers that residuals name.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._messages import shown
from .._numbers import is_traced, namespace
from .attachment import Attachment
from .items import ModelError, record
from .joint import (
    TURN,
    AxisJoint,
    LineJoint,
    Place,
    PointJoint,
    aligned,
    nonzero,
    off_axis,
    off_line,
    parallel,
    stretch,
    turn_between,
    wrapped,
)

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree

    from ..rotation.vectors import Scalar, Vec2, Vec3, Vector
    from ..system.frames import Frame, PlanarFrame


@record("spherical", "spherical joint")
class Spherical(PointJoint):
    """Ball joint between `a` and `b` (spatial): 3 rows.

    Its point is given as `at` (world, initial configuration) or in body coordinates.
    """

    kinds = ("spatial",)
    free = ("ball",)

    @staticmethod
    def residual(a: Frame, b: Frame, *, p: Vec3, q: Vec3) -> PyTree:
        return b.point(q) - a.point(p)


@record("revolute", "revolute joint")
class Revolute(AxisJoint):
    """Hinge between `a` and `b`: 5 rows in space (with an axis), 2 in the plane (a pin)."""

    free = ("turn",)

    def place(self, there: Attachment) -> Place:
        if not there.is_planar:
            return super().place(there)
        there.refuse(axis=self.axis, axis_a=self.axis_a, axis_b=self.axis_b)
        return PointJoint.place(self, there)

    @staticmethod
    def residual(a: Frame, b: Frame, *, p: Vec3, q: Vec3, e1: Vec3, e2: Vec3, m: Vec3) -> PyTree:
        return b.point(q) - a.point(p), *parallel(a, b, e1, e2, m)

    @staticmethod
    def planar_residual(a: PlanarFrame, b: PlanarFrame, *, p: Vec2, q: Vec2) -> Vec2:
        """The points coincide."""
        return b.point(q) - a.point(p)


@record("prismatic", "prismatic joint")
class Prismatic(AxisJoint):
    """Slider: `b` moves along the axis in `a` without turning; 5 rows in space, 2 in the plane.

    The relative orientation kept is the one of the initial configuration. In the plane the axis
    has two components.
    """

    free = ("slide",)

    def place(self, there: Attachment) -> Place:
        place = super().place(there)
        if there.is_planar:
            first, second = there.bodies
            x, y = first.rotation @ place.axes[:, 0], second.rotation @ place.axes_b[:, 0]
            off = namespace(x, y).arctan2(y[0] * x[1] - y[1] * x[0], x @ y)
            place.more["angle"] = second.angle - first.angle + off
        return place

    @staticmethod
    def residual(
        a: Frame, b: Frame, *, p: Vec3, q: Vec3, e1: Vec3, e2: Vec3, m: Vec3, f2: Vec3
    ) -> PyTree:
        return *off_axis(a, b, p, q, e1, e2), *aligned(a, b, e1, e2, m, f2)

    @staticmethod
    def planar_residual(
        a: PlanarFrame, b: PlanarFrame, *, p: Vec2, q: Vec2, u: Vec2, angle: Array
    ) -> tuple[Scalar, Scalar]:
        """Point q stays on the line p + s u, at a fixed angle of b seen from a."""
        return off_line(a, b, p, q, u), b.angle - a.angle - angle


@record("cylindrical", "cylindrical joint")
class Cylindrical(AxisJoint):
    """Sleeve (spatial): `b` slides along the axis in `a` and turns about it; 4 rows."""

    kinds = ("spatial",)
    free = ("slide", "turn")

    @staticmethod
    def residual(a: Frame, b: Frame, *, p: Vec3, q: Vec3, e1: Vec3, e2: Vec3, m: Vec3) -> PyTree:
        return *off_axis(a, b, p, q, e1, e2), *parallel(a, b, e1, e2, m)


@record("screw", "screw joint")
class Screw(AxisJoint):
    """Screw (spatial): `b` moves along the axis by `pitch` [m] for each turn about it; 5 rows.

    A positive pitch is a right-handed thread; the initial configuration is on the thread.
    """

    kinds = ("spatial",)
    free = ("slide", "turn")

    _: KW_ONLY
    pitch: float

    def place(self, there: Attachment) -> Place:
        pitch = nonzero(there, "pitch", self.pitch)
        here = super().place(there)
        n = here.axes[:, 2]
        p = here.p + n * (n @ (there.seen_from_first(here.q) - here.p))
        return Place(there, p, here.q, here.axes, here.axes_b, more={"pitch": pitch})

    @staticmethod
    def residual(
        a: Frame, b: Frame, *, p: Vec3, q: Vec3, e1: Vec3, e2: Vec3, m: Vec3, f1: Vec3, pitch: Array
    ) -> PyTree:
        d = b.point(q) - a.point(p)
        x, y = a.A @ e1, a.A @ e2
        lead = pitch / TURN
        angle = turn_between(a, b, e1, e2, f1)
        along = lead * wrapped(x.cross(y).dot(d) / lead - angle)
        return x.dot(d), y.dot(d), *parallel(a, b, e1, e2, m), along


@record("universal", "universal joint")
class Universal(PointJoint):
    """Cardan joint (spatial): the arms of its cross, one in each body, stay normal; 4 rows.

    The arms are two world directions of the initial configuration, `axes` = (the one fixed in
    `a`, the one fixed in `b`), or `axis_a` in the axes of `a` and `axis_b` in those of `b`.
    """

    kinds = ("spatial",)

    _: KW_ONLY
    axes: Any = None
    axis_a: Any = None
    axis_b: Any = None

    def place(self, there: Attachment) -> Place:
        here = super().place(there)
        n, m = self._arms(there)
        first, second = there.bodies
        xp = namespace(n, m, first.rotation, second.rotation)
        e1 = first.to_local_direction(second.rotation @ m)
        e1 = e1 - n * (n @ e1)
        length = xp.linalg.norm(e1)
        if not is_traced(length) and length < 1e-6:
            raise ModelError(
                f"{self.owner}: its two axes are parallel. They are the arms of the joint's cross; "
                "give directions normal to each other."
            )
        e1 = e1 / length
        triad = xp.column_stack([e1, xp.cross(n, e1), n])
        return Place(there, here.p, here.q, triad, more={"m": m})

    def _arms(self, there: Attachment) -> list[np.ndarray]:
        """The arms in the axes of each body."""
        if self.axes is None:
            if self.axis_a is None or self.axis_b is None:
                raise ModelError(
                    f"{self.owner}: its axes are missing. Give axes=(world direction fixed in the "
                    "first body, world direction fixed in the second), or axis_a= and axis_b= "
                    "(body axes)."
                )
            given = (("axis_a", self.axis_a), ("axis_b", self.axis_b))
            return [there.direction(what, x) for what, x in given]
        if self.axis_a is not None or self.axis_b is not None:
            raise ModelError(
                f"{self.owner}: its axes are given twice. Use either axes= (world) or axis_a= and "
                "axis_b= (body axes)."
            )
        try:
            first, second = self.axes
        except (TypeError, ValueError):
            raise ModelError(
                f"{self.owner}: axes={shown(self.axes)} must be two world directions."
            ) from None
        worlds = [there.direction(f"axes[{i}]", x) for i, x in enumerate((first, second))]
        if not is_traced(worlds) and abs(worlds[0] @ worlds[1]) > 1e-6:
            raise ModelError(
                f"{self.owner}: axes={shown(self.axes)} are not normal to each other. They are the "
                "arms of the joint's cross in the initial configuration."
            )
        pairs = zip(there.bodies, worlds, strict=True)
        return [body.to_local_direction(x) for body, x in pairs]

    @staticmethod
    def residual(a: Frame, b: Frame, *, p: Vec3, q: Vec3, n: Vec3, m: Vec3) -> PyTree:
        return b.point(q) - a.point(p), (a.A @ n).dot(b.A @ m)


@record("planar_joint", "planar joint")
class PlaneOnPlane(AxisJoint):
    """Plane on plane (spatial): `b` slides on a plane of `a`, turns about its normal; 3 rows.

    `axis` is the normal; the point lies in the plane.
    """

    kinds = ("spatial",)
    free = ("glide",)

    @staticmethod
    def residual(
        a: Frame, b: Frame, *, p: Vec3, q: Vec3, e1: Vec3, e2: Vec3, n: Vec3, m: Vec3
    ) -> PyTree:
        d = b.point(q) - a.point(p)
        return (a.A @ n).dot(d), *parallel(a, b, e1, e2, m)


@record("fixed", "fixed joint")
class Fixed(PointJoint):
    """Weld: `b` keeps its place and orientation in `a`; 6 rows in space, 3 in the plane.

    The relative orientation is the one of the initial configuration. The point, where the
    reaction is reported, may be left out and is the origin of `b` then (of `a` when `b` is the
    ground).
    """

    def place(self, there: Attachment) -> Place:
        first, second = there.bodies
        at = self.at
        if at is None and self.at_a is None and self.at_b is None:
            at = first.position if second.is_ground else second.position
        p, q = there.points(at, self.at_a, self.at_b)
        if there.is_planar:
            return Place(there, p, q, more={"angle": second.angle - first.angle})
        return Place(there, p, q, np.eye(3), second.rotation.T @ first.rotation)

    @staticmethod
    def residual(
        a: Frame, b: Frame, *, p: Vec3, q: Vec3, e1: Vec3, e2: Vec3, m: Vec3, f2: Vec3
    ) -> PyTree:
        return b.point(q) - a.point(p), *aligned(a, b, e1, e2, m, f2)

    @staticmethod
    def planar_residual(
        a: PlanarFrame, b: PlanarFrame, *, p: Vec2, q: Vec2, angle: Array
    ) -> tuple[Vec2, Scalar]:
        """The points coincide and the relative angle is kept."""
        return b.point(q) - a.point(p), b.angle - a.angle - angle


@record("distance", "distance joint")
class Distance(PointJoint):
    """Massless rod between a point of `a` and a point of `b`, planar or spatial: 1 row.

    The points are `at` = (world point on `a`, world point on `b`) in the initial configuration, or
    `at_a`, `at_b` in body coordinates (the origin where left out). `length` [m] is the initial
    distance unless given.
    """

    measures = ("length",)

    _: KW_ONLY
    length: float | None = None

    def place(self, there: Attachment) -> Place:
        p, q = there.ends(self.at, self.at_a, self.at_b)
        length = self.length
        if length is None:
            d = there.seen_from_first(q) - p
            length = namespace(d).linalg.norm(d)
        length = there.number("length", length)
        if not is_traced(length) and length < 1e-12:
            raise ModelError(
                f"{self.owner}: length={length:g} must be positive. For points that coincide use "
                f"{'a revolute' if there.is_planar else 'a spherical'} joint."
            )
        return Place(there, p, q, more={"length": length})

    @staticmethod
    def residual(
        a: Frame | PlanarFrame, b: Frame | PlanarFrame, *, p: Vector, q: Vector, length: Array
    ) -> PyTree:
        return (stretch(a, b, p, q, length),)


@record("point_on_line", "point-on-line joint")
class PointOnLine(LineJoint):
    """A point of `b` stays on a line of `a` (spatial): 2 rows.

    The line passes through `at_a` along `axis`; `at_b` is the point.
    """

    kinds = ("spatial",)
    free = ("slide",)

    @staticmethod
    def residual(a: Frame, b: Frame, *, p: Vec3, q: Vec3, e1: Vec3, e2: Vec3) -> PyTree:
        return off_axis(a, b, p, q, e1, e2)


@record("point_on_plane", "point-on-plane joint")
class PointOnPlane(LineJoint):
    """A point of `b` stays in a plane of `a` (spatial): 1 row.

    The plane passes through `at_a` with the normal `axis`; `at_b` is the point.
    """

    kinds = ("spatial",)
    free = ("glide",)

    @staticmethod
    def residual(a: Frame, b: Frame, *, p: Vec3, q: Vec3, n: Vec3) -> PyTree:
        return ((a.A @ n).dot(b.point(q) - a.point(p)),)


@dataclass(frozen=True, repr=False)
class Kept(PointJoint):
    """`b` keeps its orientation in `a`: 3 rows in space, 1 in the plane. Point masses have it."""

    type: ClassVar[str] = "kept"
    noun: ClassVar[str] = "orientation of"

    def place(self, there: Attachment) -> Place:
        return Fixed.place(self, there)  # pyright: ignore[reportArgumentType]

    @staticmethod
    def residual(a: Frame, b: Frame, *, e1: Vec3, e2: Vec3, m: Vec3, f2: Vec3) -> PyTree:
        return aligned(a, b, e1, e2, m, f2)

    @staticmethod
    def planar_residual(a: PlanarFrame, b: PlanarFrame, *, angle: Array) -> tuple[Scalar]:
        """The relative angle is kept."""
        return (b.angle - a.angle - angle,)
