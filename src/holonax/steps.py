"""How long the steps are: equal ones that hit given times, or as long as the error allows."""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from ._messages import shown
from .system.base import Array


class UniformSteps(diffrax.AbstractStepSizeController[None, Any]):
    """Equal steps of at most `dt` between consecutive `knots`, each knot hit exactly.

    Grid times are computed, not accumulated, so rounding does not build up.
    """

    knots: Array
    dt: Array

    def wrap(self, direction: Any) -> UniformSteps:
        return self

    def _interval(self, t: Array) -> tuple[Array, Array, Array]:
        """(start, end, number of steps) of the interval that begins at or contains `t`."""
        start, end = interval(self.knots, t)
        n = jnp.maximum(jnp.ceil((end - start) / self.dt * (1 - 1e-9)), 1.0)
        return start, end, n

    def _next(self, t: Array) -> Array:
        start, end, n = self._interval(t)
        step = (end - start) / n
        k = jnp.round((t - start) / jnp.where(step > 0, step, 1.0)) + 1
        # The knot itself: rounded to just before it, the next step would end there again.
        return jnp.where(k >= n, end, start + k * step)

    def init(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        dt0: Any,
        args: Any,
        func: Any,
        error_order: Any,
    ) -> tuple[Any, None]:
        return self._next(t0), None

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: None,
    ) -> Any:
        return True, t1, self._next(t1), False, None, diffrax.RESULTS.successful


def interval(knots: Array, t: Array) -> tuple[Array, Array]:
    """(start, end) of the interval between knots that begins at or contains `t`."""
    if knots.shape[0] == 2:
        return knots[0], knots[1]
    i = jnp.clip(jnp.searchsorted(knots, t, side="right") - 1, 0, knots.shape[0] - 2)
    return knots[i], knots[i + 1]


class StepControl(eqx.Module):
    """How error-controlled steps are chosen, after Hairer, Nørsett & Wanner (1993), II.4.

    With err the error of a step in units of the tolerance (accepted below 1), of order k in the
    step size, the next step is longer by

        safety * err^-(1/k - 0.75 beta) * (last err)^beta,    between shrink and grow,

    but not longer than a step that follows a rejected one.

    **Arguments:**

    - `safety`: the part of the step that the error allows which is taken.
    - `beta`: the share of the error before; 0 is the plain controller, 0.04 that of DOPRI5.
    - `shrink`, `grow`: limits of the change from one step to the next.
    - `dt_min`, `dt_max`: limits of the step [s]. A run that needs a step below `dt_min` stops; by
      default that is where rounding of the time hides the step.
    """

    safety: Array
    beta: Array
    shrink: Array
    grow: Array
    dt_min: Array
    dt_max: Array

    def __init__(
        self,
        *,
        safety: float = 0.9,
        beta: float = 0.04,
        shrink: float = 0.2,
        grow: float = 10.0,
        dt_min: float = 0.0,
        dt_max: float = float("inf"),
    ):
        def checked(name: str, value: Any, good: Any, wanted: str) -> Array:
            try:
                fine = good(float(value))
            except (TypeError, ValueError):
                fine = False
            if not fine:
                raise ValueError(f"StepControl: {name}={shown(value)} is not {wanted}.")
            return jnp.asarray(value, dtype=float)

        self.safety = checked("safety", safety, lambda x: 0 < x < 1, "between 0 and 1")
        self.beta = checked("beta", beta, lambda x: 0 <= x < 0.2, "in [0, 0.2)")
        self.shrink = checked("shrink", shrink, lambda x: 0 < x < 1, "between 0 and 1")
        self.grow = checked("grow", grow, lambda x: 1 < x < float("inf"), "a number above 1")
        self.dt_min = checked("dt_min", dt_min, lambda x: 0 <= x < float("inf"), "zero or more [s]")
        self.dt_max = checked("dt_max", dt_max, lambda x: x > 0, "a positive time [s]")


class ControlState(NamedTuple):
    """What error control remembers: the next step, the last error, the step that would have been
    taken if no knot had to be hit, and whether the last one was rejected."""

    step: Array
    error: Array
    free: Array
    rejected: Array


class ErrorControl(diffrax.AbstractStepSizeController[ControlState, Any]):
    """Steps whose error stays below atol + rtol |y| (root mean square), each knot hit exactly."""

    knots: Array
    rtol: Array
    atol: Array
    first: Array  # [s]; not positive: chosen from the derivatives
    control: StepControl

    def wrap(self, direction: Any) -> ErrorControl:
        return self

    def _size(self, x: Any, scale: Any) -> Array:
        ratios = jax.tree.map(lambda e, s: (e / s).ravel(), x, scale)
        return jnp.sqrt(jnp.mean(jnp.concatenate(jax.tree.leaves(ratios)) ** 2))

    def _scale(self, *states: Any) -> Any:
        weigh = lambda *x: self.atol + self.rtol * jnp.max(jnp.abs(jnp.stack(x)), 0)  # noqa: E731
        return jax.tree.map(weigh, *states)

    def _end(self, t: Array, step: Array) -> Array:
        """When a step from `t` ends: at the next knot, or halfway if little would remain."""
        knot = interval(self.knots, t)[1]
        left = knot - t
        shared = jnp.where(2 * step > left, t + left / 2, t + step)
        return jnp.where(step * (1 + 1e-9) >= left, knot, shared)

    def first_step(self, f: Any, t: Array, y: Any, order: Array) -> Array:
        """A first step after Hairer, Nørsett & Wanner (1993), II.4; `f` gives y'(t, y)."""
        scale = self._scale(y)
        slope = f(t, y)
        d0, d1 = self._size(y, scale), self._size(slope, scale)
        small = jnp.logical_or(d0 < 1e-5, d1 < 1e-5)
        h0 = jnp.where(small, 1e-6, 0.01 * d0 / jnp.where(small, 1.0, d1))
        ahead = f(t + h0, jax.tree.map(lambda a, b: a + h0 * b, y, slope))
        d2 = self._size(jax.tree.map(jnp.subtract, ahead, slope), scale) / h0
        steep = jnp.maximum(d1, d2)
        h1 = jnp.where(steep <= 1e-15, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / steep) ** (1 / order))
        h = jnp.minimum(100 * h0, h1)
        h = jnp.where(self.first > 0, self.first, jnp.where(jnp.isfinite(h), h, 1e-6))
        return jnp.clip(h, self.control.dt_min, self.control.dt_max)

    def init(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        dt0: Any,
        args: Any,
        func: Any,
        error_order: Any,
    ) -> tuple[Any, ControlState]:
        h = self.first_step(lambda t, y: func(terms, t, y, args), t0, y0, error_order)
        end = self._end(t0, h)
        return end, ControlState(end - t0, jnp.asarray(1e-4, dtype=float), h, jnp.asarray(False))

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: ControlState,
    ) -> Any:
        control, state = self.control, controller_state
        error = self._size(y_error, self._scale(y0, y1_candidate))
        error = jnp.where(jnp.isfinite(error), jnp.maximum(error, 1e-10), jnp.inf)
        keep = error <= 1
        factor = control.safety * error ** -(1 / error_order - 0.75 * control.beta)
        factor = jnp.where(keep, factor * state.error**control.beta, factor)
        longest = jnp.where(keep, jnp.where(state.rejected, 1.0, control.grow), control.safety)
        factor = jnp.clip(factor, control.shrink, longest)
        free = jnp.minimum(factor * (t1 - t0), control.dt_max)
        # A step cut short at a knot says nothing against the longer one that was allowed.
        cut = jnp.logical_and(keep, t1 - t0 < 0.99 * state.free)
        free = jnp.where(cut, jnp.maximum(free, state.free), free)
        t = jnp.where(keep, t1, t0)
        smallest = jnp.maximum(control.dt_min, 4 * jnp.finfo(t.dtype).eps * jnp.abs(t))
        result = diffrax.RESULTS.where(
            jnp.logical_and(~keep, free <= smallest),
            diffrax.RESULTS.dt_min_reached,
            diffrax.RESULTS.successful,
        )
        end = self._end(t, free)
        remembered = jnp.where(keep, jnp.maximum(error, 1e-4), state.error)
        return keep, t, end, False, ControlState(end - t, remembered, free, ~keep), result
