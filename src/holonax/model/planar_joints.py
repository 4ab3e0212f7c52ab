"""The joints that exist in the plane only: a pin in a slot and a point on a curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .._messages import explained, shown
from .._numbers import is_traced
from ..rotation import Vec2
from .attachment import Attached, Attachment, triad
from .expressions import function_of
from .items import ModelError, record
from .joint import Joint, Place, PointJoint, Residual, off_line

if TYPE_CHECKING:
    from jax import Array

    from ..system.frames import PlanarFrame


@record("pin_in_slot", "pin-in-slot joint")
class PinInSlot(PointJoint):
    """A pin of `b` slides in a straight slot of `a` and turns freely in it: 1 row.

    **Arguments:**

    - `at`: where the pin is in the initial configuration [m, world], on the slot; or `at_a`, a
      point of the slot in the coordinates of `a`, and `at_b`, the pin in those of `b`.
    - `direction`: of the slot, in world axes in the initial configuration; or `direction_a` in the
      axes of `a`.
    """

    kinds = ("planar",)
    free = ("slide",)
    measures = ("slide", "turn")

    _: KW_ONLY
    direction: Any = None
    direction_a: Any = None

    def place(self, there: Attachment) -> Place:
        here = super().place(there)
        slot = "the direction of its slot"
        u = there.one_direction(0, "direction", self.direction, self.direction_a, of=slot)
        return Place(there, here.p, here.q, triad(u))

    @staticmethod
    def residual(a: PlanarFrame, b: PlanarFrame, *, p: Vec2, q: Vec2, u: Vec2) -> Any:
        return (off_line(a, b, p, q, u),)


@record("point_on_curve", "point-on-curve joint")
class PointOnCurve(Joint):
    """A point of `b` stays on a curve drawn on `a`: 1 row.

    **Arguments:**

    - `curve`: a function F(x, y) of the coordinates of `a` [m] that vanishes on the curve, smooth
      and written with `jax.numpy`, or an expression of x and y; its scale does not matter.
    - `at_b`: the point, in the coordinates of `b` [m].

    The residual is F / |grad F|, the distance from the curve to first order.
    """

    touches: ClassVar[tuple[str, ...]] = ("a", "b")
    kinds = ("planar",)
    functions: ClassVar[tuple[str, ...]] = ("curve",)

    a: Any
    b: Any
    _: KW_ONLY
    curve: Callable[[Any, Any], Any] | str
    at_b: Any

    def attach(self, there: Attachment) -> Attached:
        q = there.vector("at_b", self.at_b)
        start = there.seen_from_first(q)
        curve = function_of(self.owner, "curve", self.curve, ("x", "y"), None)
        if not callable(curve) or not is_traced(start):
            self._check(curve, start)
        known = {"q": there.arm(1, q), "curve": curve, "origin": None}
        if there.bodies[0].com is not None:
            known["origin"] = there.arm(0, np.zeros(2))
        return there.attached([Residual.of(self.residual, known)], point=q)

    @staticmethod
    def residual(a: PlanarFrame, b: PlanarFrame, *, q: Vec2, curve: Any, origin: Any) -> Any:
        local = a.A.T @ (b.point(q) - (a.r if origin is None else a.point(origin)))
        value, gradient = curve_gradient(curve, local)
        return (value / gradient.norm(),)

    def _check(self, curve: Any, start: np.ndarray) -> None:
        """Evaluate the curve and its gradient where the point starts."""
        if not callable(curve):
            raise ModelError(
                f"{self.owner}: curve={shown(curve)} is not a function. Give one of (x, y)."
            )
        try:
            at = Vec2(*(jnp.asarray(x) for x in start))
            value, gradient = curve_gradient(curve, at)
            shape = np.shape(value)
        except Exception as error:
            raise ModelError(
                f"{self.owner}: curve(x, y) could not be differentiated at {start.tolist()}: "
                f"{explained(error)} Write it with jax.numpy, as a function of two numbers."
            ) from None
        if shape != ():
            raise ModelError(
                f"{self.owner}: curve(x, y) must return one number, got an array of shape {shape}."
            )
        slope = np.asarray(gradient.array())
        if not np.isfinite(value) or not np.all(np.isfinite(slope)) or np.all(slope == 0):
            raise ModelError(
                f"{self.owner}: at its start {start.tolist()} (in the first body) the curve has "
                f"the value {float(value):g} and the gradient {slope.tolist()}, which must not "
                "vanish. Start elsewhere, or give a curve that has no singular point there."
            )


def curve_gradient(curve: Callable[[Any, Any], Any], at: Vec2) -> tuple[Array, Vec2]:
    """F and its gradient at a point, or at each of many points."""
    one, zero = jnp.ones_like(at.x), jnp.zeros_like(at.x)
    value, dx = jax.jvp(curve, (at.x, at.y), (one, zero))
    dy = jax.jvp(curve, (at.x, at.y), (zero, one))[1]
    return value, Vec2(dx, dy)
