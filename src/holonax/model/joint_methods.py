"""The joints a `Model` offers: validation, attachment, and the element each one becomes.

Every joint has a name and connects body `a` to body `b` (handles, names, or the ground). Its point
is given as `at`, a world point of the initial configuration, or as `at_a` and `at_b` in the
coordinates of each body [m]; its axis as `axis`, a world direction, or as `axis_a`, `axis_b`. One
that is given for one body only is carried over to the other in the initial configuration.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from .._arguments import flag
from .._messages import shown
from ..rotation import Vec2, Vec3
from . import joints as spatial
from . import planar_joints as planar
from .bodies import Body, Ground, ModelError, direction, number
from .description import Attachment, Description


class JointMethods(Description):
    """Mixin with one method for each joint."""

    def spherical(
        self, name: str, a: Any, b: Any, *, at: Any = None, at_a: Any = None, at_b: Any = None
    ) -> str:
        """Ball joint between `a` and `b` (spatial): 3 rows.

        Its point is given as `at` (world, initial configuration) or in body coordinates.
        """
        pair = self._pair("spherical joint", name, a, b, "spatial")
        p, q = pair.points(at, at_a, at_b)
        return self._joint(pair, [spatial.Spherical(Vec3.of(p), Vec3.of(q))], point_a=p, point=q)

    def revolute(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axis: Any = None,
        axis_a: Any = None,
        axis_b: Any = None,
    ) -> str:
        """Hinge between `a` and `b`: 5 rows in space (with an axis), 2 in the plane (a pin)."""
        pair = self._pair("revolute joint", name, a, b)
        p, q = pair.points(at, at_a, at_b)
        if pair.kind == "planar":
            pair.refuse(axis=axis, axis_a=axis_a, axis_b=axis_b)
            element = planar.PlanarRevolute(Vec2.of(p), Vec2.of(q))
            return self._joint(pair, [element], point_a=p, point=q)
        ta, tb = pair.axes(axis, axis_a, axis_b)
        element = spatial.Revolute(*map(Vec3.of, (p, q, ta[:, 0], ta[:, 1], tb[:, 2])))
        return self._joint(pair, [element], point_a=p, point=q, axes=ta)

    def prismatic(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axis: Any = None,
        axis_a: Any = None,
        axis_b: Any = None,
    ) -> str:
        """Slider: `b` moves along the axis in `a` without turning; 5 rows in space, 2 in the plane.

        The relative orientation kept is the one of the initial configuration. In the plane the
        axis has two components.
        """
        pair = self._pair("prismatic joint", name, a, b)
        p, q = pair.points(at, at_a, at_b)
        ta, tb = pair.axes(axis, axis_a, axis_b)
        if pair.kind == "planar":
            turn = _relative_angle(pair, ta, tb)
            element = planar.PlanarPrismatic(Vec2.of(p), Vec2.of(q), Vec2.of(ta[:, 0]), turn)
        else:
            vectors = (p, q, ta[:, 0], ta[:, 1], tb[:, 2], tb[:, 1])
            element = spatial.Prismatic(*map(Vec3.of, vectors))
        return self._joint(pair, [element], point_a=p, point=q, axes=ta)

    def cylindrical(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axis: Any = None,
        axis_a: Any = None,
        axis_b: Any = None,
    ) -> str:
        """Sleeve (spatial): `b` slides along the axis in `a` and turns about it; 4 rows."""
        pair = self._pair("cylindrical joint", name, a, b, "spatial")
        p, q = pair.points(at, at_a, at_b)
        ta, tb = pair.axes(axis, axis_a, axis_b)
        element = spatial.Cylindrical(*map(Vec3.of, (p, q, ta[:, 0], ta[:, 1], tb[:, 2])))
        return self._joint(pair, [element], point_a=p, point=q, axes=ta)

    def screw(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        pitch: float,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axis: Any = None,
        axis_a: Any = None,
        axis_b: Any = None,
    ) -> str:
        """Screw (spatial): `b` moves along the axis by `pitch` [m] for each turn about it; 5 rows.

        A positive pitch is a right-handed thread; the initial configuration is on the thread.
        """
        pair = self._pair("screw joint", name, a, b, "spatial")
        pitch = _nonzero(pair, "pitch", pitch)
        p, q = pair.points(at, at_a, at_b)
        ta, tb = pair.axes(axis, axis_a, axis_b)
        p = p + ta[:, 2] * (ta[:, 2] @ (pair.seen_from_first(q) - p))
        vectors = (p, q, ta[:, 0], ta[:, 1], tb[:, 2], tb[:, 0])
        element = spatial.Screw(*map(Vec3.of, vectors), pitch=pitch)
        return self._joint(pair, [element], point_a=p, point=q, axes=ta)

    def universal(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axes: Any = None,
        axis_a: Any = None,
        axis_b: Any = None,
    ) -> str:
        """Cardan joint (spatial): the arms of its cross, one in each body, stay normal; 4 rows.

        The arms are two world directions of the initial configuration, `axes` = (the one fixed in
        `a`, the one fixed in `b`), or `axis_a` in the axes of `a` and `axis_b` in those of `b`.
        """
        pair = self._pair("universal joint", name, a, b, "spatial")
        p, q = pair.points(at, at_a, at_b)
        n, m = _cross_arms(pair, axes, axis_a, axis_b)
        element = spatial.Universal(*map(Vec3.of, (p, q, n, m)))
        first, second = pair.bodies
        e1 = first.to_local_direction(second.rotation @ m)
        e1 = e1 - n * (n @ e1)
        if np.linalg.norm(e1) < 1e-6:
            raise ModelError(
                f"{pair.owner}: its two axes are parallel. They are the arms of the joint's cross; "
                "give directions normal to each other."
            )
        e1 = e1 / np.linalg.norm(e1)
        triad = np.column_stack([e1, np.cross(n, e1), n])
        return self._joint(pair, [element], point_a=p, point=q, axes=triad)

    def planar_joint(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axis: Any = None,
        axis_a: Any = None,
        axis_b: Any = None,
    ) -> str:
        """Plane on plane (spatial): `b` slides on a plane of `a`, turns about its normal; 3 rows.

        `axis` is the normal; the point lies in the plane.
        """
        pair = self._pair("planar joint", name, a, b, "spatial")
        p, q = pair.points(at, at_a, at_b)
        ta, tb = pair.axes(axis, axis_a, axis_b)
        element = spatial.PlaneOnPlane(*map(Vec3.of, (p, q, *ta.T, tb[:, 2])))
        return self._joint(pair, [element], point_a=p, point=q, axes=ta)

    def fixed(
        self, name: str, a: Any, b: Any, *, at: Any = None, at_a: Any = None, at_b: Any = None
    ) -> str:
        """Weld: `b` keeps its place and orientation in `a`; 6 rows in space, 3 in the plane.

        The relative orientation is the one of the initial configuration. The point, where the
        reaction is reported, may be left out and is the origin of `b` then (of `a` when `b` is
        the ground).
        """
        pair = self._pair("fixed joint", name, a, b)
        first, second = pair.bodies
        if at is None and at_a is None and at_b is None:
            at = first.position if second.is_ground else second.position
        p, q = pair.points(at, at_a, at_b)
        if pair.kind == "planar":
            turn = _angle(second) - _angle(first)
            element = planar.PlanarFixed(Vec2.of(p), Vec2.of(q), turn)
            return self._joint(pair, [element], point_a=p, point=q)
        ta, tb = np.eye(3), second.rotation.T @ first.rotation
        vectors = (p, q, ta[:, 0], ta[:, 1], tb[:, 2], tb[:, 1])
        return self._joint(pair, [spatial.Fixed(*map(Vec3.of, vectors))], point_a=p, point=q)

    def distance(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        length: float | None = None,
    ) -> str:
        """Massless rod between a point of `a` and a point of `b`, planar or spatial: 1 row.

        The points are `at` = (world point on `a`, world point on `b`) in the initial
        configuration, or `at_a`, `at_b` in body coordinates (the origin where left out). `length`
        [m] is the initial distance unless given.
        """
        pair = self._pair("distance joint", name, a, b)
        p, q = pair.ends(at, at_a, at_b)
        if length is None:
            length = float(np.linalg.norm(pair.seen_from_first(q) - p))
        length = number(pair.owner, "length", length)
        if length < 1e-12:
            raise ModelError(
                f"{pair.owner}: length={length:g} must be positive. For points that coincide use "
                f"{'a revolute' if pair.kind == 'planar' else 'a spherical'} joint."
            )
        vec = Vec2 if pair.kind == "planar" else Vec3
        element = spatial.Distance(vec.of(p), vec.of(q), length)
        return self._joint(pair, [element], point_a=p, point=q)

    def point_on_line(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axis: Any = None,
        axis_a: Any = None,
    ) -> str:
        """A point of `b` stays on a line of `a` (spatial): 2 rows.

        The line passes through `at_a` along `axis`; `at_b` is the point.
        """
        pair = self._pair("point-on-line joint", name, a, b, "spatial")
        p, q = pair.points(at, at_a, at_b)
        (ta,) = pair.axes(axis, axis_a)
        element = spatial.PointOnLine(*map(Vec3.of, (p, q, ta[:, 0], ta[:, 1])))
        return self._joint(pair, [element], point_a=p, point=q, axes=ta)

    def point_on_plane(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axis: Any = None,
        axis_a: Any = None,
    ) -> str:
        """A point of `b` stays in a plane of `a` (spatial): 1 row.

        The plane passes through `at_a` with the normal `axis`; `at_b` is the point.
        """
        pair = self._pair("point-on-plane joint", name, a, b, "spatial")
        p, q = pair.points(at, at_a, at_b)
        (ta,) = pair.axes(axis, axis_a)
        element = spatial.PointOnPlane(*map(Vec3.of, (p, q, ta[:, 2])))
        return self._joint(pair, [element], point_a=p, point=q, axes=ta)

    def gear(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        teeth: tuple[int, int] | None = None,
        ratio: float | None = None,
        internal: bool = False,
        carrier: Any = None,
        axis: Any = None,
        axis_a: Any = None,
        axis_b: Any = None,
    ) -> str:
        """Gear pair of the wheels `a` and `b` on a carrier (default: the ground): 1 row.

        Ties the angles of both wheels, seen from the carrier and over any number of turns; the
        wheels' bearings are joints of their own, and carry no tooth forces.

        **Arguments:**

        - `teeth`: numbers of teeth of `a` and `b`; or `ratio`, the turns of `b` for one of `a`
          (positive; in space a fraction of whole numbers).
        - `internal`: whether one wheel is a ring around the other, so that both turn alike.
        - `axis`: world direction of both axes; for axes that differ (bevel gears) `axis_a` in the
          axes of `a` and `axis_b` in those of `b`. None in the plane.
        """
        carrier = Ground() if carrier is None else carrier
        trio = self._attach("gear", name, (a, b, carrier))
        sign = 1 if flag(trio.owner, "internal", internal, error=ModelError) else -1
        if trio.kind == "planar":
            trio.refuse(axis=axis, axis_a=axis_a, axis_b=axis_b)
            turns = sign * float(_gear_ratio(trio, teeth, ratio, whole=False))
            x, y, z = (_angle(body) for body in trio.bodies)
            return self._joint(trio, [planar.PlanarGear(turns, (y - z) - turns * (x - z))])
        turns = sign * _gear_ratio(trio, teeth, ratio, whole=True)
        triads = trio.axes(axis, axis_a, axis_b)
        vectors = []
        for body, triad in zip(trio.bodies, triads, strict=False):
            seen = trio.bodies[2].to_local_direction(body.rotation @ triad)
            vectors += [seen[:, 0], seen[:, 1], triad[:, 0]]
        n1, n2 = -float(turns.numerator), float(turns.denominator)
        element = spatial.Gear(*map(Vec3.of, vectors), n1=n1, n2=n2)
        return self._joint(trio, [element], axes=triads[0])

    def rack_and_pinion(
        self,
        name: str,
        pinion: Any,
        rack: Any,
        *,
        radius: float,
        direction: Any,
        axis: Any = None,
        axis_a: Any = None,
        carrier: Any = None,
    ) -> str:
        """Rack and pinion on a carrier (default: the ground; spatial): 1 row.

        The rack moves along `direction` (world, initial configuration; fixed in the carrier) by
        `radius` [m] times the pinion's angle about `axis` (world, or `axis_a` in the pinion). A
        negative radius reverses the sense. The pinion's bearing and the rack's guide are joints of
        their own, and carry no tooth forces.
        """
        carrier = Ground() if carrier is None else carrier
        trio = self._attach("rack and pinion", name, (pinion, rack, carrier), "spatial")
        radius = _nonzero(trio, "radius", radius)
        (triad,) = trio.axes(axis, axis_a)
        wheel, bar, base = trio.bodies
        seen = base.to_local_direction(wheel.rotation @ triad)
        p = base.to_local_point(bar.position)
        u = base.to_local_direction(_direction(trio, direction))
        vectors = (seen[:, 0], seen[:, 1], triad[:, 0], p, np.zeros(3), u)
        element = spatial.RackAndPinion(*map(Vec3.of, vectors), radius=radius)
        return self._joint(trio, [element], point=np.zeros(3), axes=triad)


def _angle(body: Body) -> float:
    """Initial angle of a planar body."""
    return 0.0 if body.is_ground else float(body.start[2])


def _relative_angle(pair: Attachment, ta: np.ndarray, tb: np.ndarray) -> float:
    """The relative angle of planar bodies that makes their axes agree, nearest to the initial."""
    first, second = pair.bodies
    x, y = first.rotation @ ta[:, 0], second.rotation @ tb[:, 0]
    off = float(np.arctan2(y[0] * x[1] - y[1] * x[0], x @ y))
    return _angle(second) - _angle(first) + off


def _direction(attachment: Attachment, value: Any) -> np.ndarray:
    return direction(attachment.owner, "direction", value, attachment.size)


def _nonzero(attachment: Attachment, what: str, value: Any) -> float:
    x = number(attachment.owner, what, value)
    if x == 0.0:
        raise ModelError(f"{attachment.owner}: {what} is zero. Give a length in metres.")
    return x


def _cross_arms(pair: Attachment, axes: Any, axis_a: Any, axis_b: Any) -> list[np.ndarray]:
    """The arms of a universal joint in the axes of each body."""
    if axes is None:
        if axis_a is None or axis_b is None:
            raise ModelError(
                f"{pair.owner}: its axes are missing. Give axes=(world direction fixed in the "
                "first body, world direction fixed in the second), or axis_a= and axis_b= (body "
                "axes)."
            )
        given = (("axis_a", axis_a), ("axis_b", axis_b))
        return [direction(pair.owner, what, x) for what, x in given]
    if axis_a is not None or axis_b is not None:
        raise ModelError(
            f"{pair.owner}: its axes are given twice. Use either axes= (world) or axis_a= and "
            "axis_b= (body axes)."
        )
    try:
        first, second = axes
    except (TypeError, ValueError):
        raise ModelError(
            f"{pair.owner}: axes={shown(axes)} must be two world directions."
        ) from None
    worlds = [direction(pair.owner, f"axes[{i}]", x) for i, x in enumerate((first, second))]
    if abs(worlds[0] @ worlds[1]) > 1e-6:
        raise ModelError(
            f"{pair.owner}: axes={shown(axes)} are not normal to each other. They are the arms "
            "of the joint's cross in the initial configuration."
        )
    return [body.to_local_direction(x) for body, x in zip(pair.bodies, worlds, strict=True)]


def _gear_ratio(trio: Attachment, teeth: Any, ratio: Any, *, whole: bool) -> Any:
    """Turns of the second wheel for one of the first; a fraction where it must be `whole`."""
    if (teeth is None) == (ratio is None):
        raise ModelError(
            f"{trio.owner}: give either teeth=(number on a, number on b) or ratio= (turns of b for "
            "one turn of a)."
        )
    if teeth is not None:
        try:
            first, second = (Fraction(n) for n in teeth)
        except (TypeError, ValueError, OverflowError):
            first = second = Fraction(0)
        if any(n < 1 or n.denominator != 1 for n in (first, second)):
            raise ModelError(
                f"{trio.owner}: teeth={shown(teeth)} must be two positive whole numbers."
            )
        return first / second
    value = number(trio.owner, "ratio", ratio)
    if value <= 0:
        raise ModelError(
            f"{trio.owner}: ratio={value:g} must be positive. For wheels that turn alike use "
            "internal=True."
        )
    if not whole:
        return value
    fraction = Fraction(value).limit_denominator(1000)
    if fraction <= 0 or abs(float(fraction) - value) > 1e-9 * value:
        raise ModelError(
            f"{trio.owner}: ratio={value!r} is not a fraction of whole numbers up to 1000, so "
            "spatial wheels would slip after a turn. Give teeth=(number on a, number on b)."
        )
    return fraction
