"""The joints a `Model` offers: validation, attachment, and the element each one becomes."""

from __future__ import annotations

from typing import Any

from ..rotation import Vec2, Vec3
from . import joints as spatial
from . import planar_joints as planar
from .description import Description


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
        element = spatial.Revolute(
            Vec3.of(p), Vec3.of(q), Vec3.of(ta[:, 0]), Vec3.of(ta[:, 1]), Vec3.of(tb[:, 2])
        )
        return self._joint(pair, [element], point_a=p, point=q, axes=ta)
