"""The joints that exist in the plane only: a pin in a slot and a point on a curve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._messages import explained, shown
from ..rotation import Vec2
from . import planar_joints as planar
from .bodies import ModelError, direction, vector
from .description import Attachment, Description


class PlanarJointMethods(Description):
    """Mixin with the joints that only planar bodies have."""

    def pin_in_slot(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        direction: Any = None,
        direction_a: Any = None,
    ) -> str:
        """A pin of `b` slides in a straight slot of `a` and turns freely in it: 1 row.

        **Arguments:**

        - `at`: where the pin is in the initial configuration [m, world], on the slot; or `at_a`, a
          point of the slot in the coordinates of `a`, and `at_b`, the pin in those of `b`.
        - `direction`: of the slot, in world axes in the initial configuration; or `direction_a` in
          the axes of `a`.
        """
        pair = self._pair("pin-in-slot joint", name, a, b, "planar")
        p, q = pair.points(at, at_a, at_b)
        u = _slot_direction(pair, direction, direction_a)
        element = planar.PinInSlot(Vec2.of(p), Vec2.of(q), Vec2.of(u))
        axes = np.array([[u[0], -u[1]], [u[1], u[0]]])
        return self._joint(pair, [element], point=q, point_a=p, axes=axes)

    def point_on_curve(
        self, name: str, a: Any, b: Any, *, curve: Callable[[Any, Any], Any], at_b: Any
    ) -> str:
        """A point of `b` stays on a curve drawn on `a`: 1 row.

        **Arguments:**

        - `curve`: a function F(x, y) of the coordinates of `a` [m] that vanishes on the curve,
          smooth and written with `jax.numpy`; its scale does not matter.
        - `at_b`: the point, in the coordinates of `b` [m].

        The residual is F / |grad F|, the distance from the curve to first order.
        """
        pair = self._pair("point-on-curve joint", name, a, b, "planar")
        q = vector(pair.owner, "at_b", at_b, 2)
        _check_curve(pair, curve, q)
        return self._joint(pair, [planar.PointOnCurve(Vec2.of(q), curve)], point=q)


def _slot_direction(pair: Attachment, world: Any, local: Any) -> np.ndarray:
    """The unit direction of the slot in the first body."""
    if (world is None) == (local is None):
        said = "missing" if world is None else "given twice"
        raise ModelError(
            f"{pair.owner}: the direction of its slot is {said}. Give either direction= (world, "
            "initial configuration) or direction_a= (axes of the first body)."
        )
    if local is not None:
        return direction(pair.owner, "direction_a", local, 2)
    u = direction(pair.owner, "direction", world, 2)
    return pair.bodies[0].to_local_direction(u)


def _check_curve(pair: Attachment, curve: Any, q: np.ndarray) -> None:
    """Evaluate the curve and its gradient where the point starts."""
    if not callable(curve):
        raise ModelError(
            f"{pair.owner}: curve={shown(curve)} is not a function. Give one of (x, y)."
        )
    first, second = pair.bodies
    start = first.to_local_point(second.position + second.rotation @ q)
    try:
        value, gradient = planar.curve_gradient(curve, Vec2(*(jnp.asarray(x) for x in start)))
        shape = np.shape(value)
    except Exception as error:
        raise ModelError(
            f"{pair.owner}: curve(x, y) could not be differentiated at {start.tolist()}: "
            f"{explained(error)} Write it with jax.numpy, as a function of two numbers."
        ) from None
    if shape != ():
        raise ModelError(
            f"{pair.owner}: curve(x, y) must return one number, got an array of shape {shape}."
        )
    slope = np.asarray(gradient.array())
    if not np.isfinite(value) or not np.all(np.isfinite(slope)) or np.all(slope == 0):
        raise ModelError(
            f"{pair.owner}: at its start {start.tolist()} (in the first body) the curve has the "
            f"value {float(value):g} and the gradient {slope.tolist()}, which must not vanish. "
            "Start elsewhere, or give a curve that has no singular point there."
        )
