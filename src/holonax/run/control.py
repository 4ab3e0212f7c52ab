"""How long the steps are: equal ones that hit given times, or as long as the error allows.

A rule (`EqualSteps`, `ErrorControl`) judges a step and says where the next one ends. `Steps` of
`loop_parts.py` puts it into diffrax's loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._messages import shown
from .._modules import Module, changed
from .._numbers import as_array, namespace, real
from ..linalg.indexing import last_not_after
from ..system.base import Array, System

if TYPE_CHECKING:
    from jaxtyping import PyTree

ANYWHERE = 1e100  # beyond this an absolute tolerance asks nothing


class Absolute(NamedTuple):
    """The absolute part of a tolerance: for each increment of position and each velocity, and one
    number for algebraic variables."""

    position: Any
    velocity: Any
    algebraic: Any

    def longest(self, system: System) -> Any:
        """The largest of positions that mean something."""
        places, n = self.position, np.size(self.velocity)
        if np.ndim(places) and system.states(n).size:
            places = places[np.delete(np.arange(n), [*system.states(n), *system.idle(n)])]
        return namespace(places).max(places)


class Tolerance(NamedTuple):
    """What is asked of each step's error: at most atol + rtol |y|, in the root mean square.

    `atol` is one number for all, or an `Absolute`.
    """

    rtol: Array
    atol: Any

    @property
    def absolute(self) -> Absolute:
        """The absolute part of each kind of variable."""
        return self.atol if isinstance(self.atol, Absolute) else Absolute(*[self.atol] * 3)

    def loosened(self, rtol: Array) -> Tolerance:
        """The same tolerance with another relative part, the absolute one in proportion."""
        return Tolerance(rtol, jax.tree.map(lambda x: x * (rtol / self.rtol), self.atol))

    def size(
        self,
        system: System,
        y0: tuple[Array, Array],
        y1: tuple[Array, Array],
        error: tuple[Array, Array],
    ) -> Array:
        """The size of an error in units of the tolerance: accepted up to 1.

        `error` are increments of position (of the size of v; rotations as rotation vectors),
        velocities and, where there is a third entry, algebraic variables, the last to be given
        multiplied by h^(index - 1) of their own index.
        """
        scales = [jnp.maximum(system.extent(y0[0]), system.extent(y1[0]))]
        if len(error) > 1:
            scales.append(jnp.maximum(jnp.abs(y0[1]), jnp.abs(y1[1])))
        if len(error) > 2:
            scales.append(jnp.maximum(jnp.abs(y0[3]), jnp.abs(y1[3])))
        parts = zip(error, self.absolute, scales, strict=False)
        ratios = [e / (atol + self.rtol * s) for e, atol, s in parts]
        return jnp.sqrt(jnp.mean(jnp.concatenate(ratios) ** 2))

    def first_step(
        self, system: System, rates: Any, t: Array, y: tuple[Array, Array], order: Any
    ) -> Array:
        """A first step after Hairer, Nørsett & Wanner (1993), II.4.

        `rates(t, (q, v))` gives the velocity that moves q and the acceleration; `order` is that of
        the error of a step.
        """
        size = lambda x: self.size(system, y, y, x)  # noqa: E731
        q, v = y[0], y[1]
        d0 = size((system.extent(q), v))

        def look(at: tuple[Array, Array, Array], _: object) -> PyTree:
            """The rates at a state, and the state a short step on; done twice by one program."""
            t, q, v = at
            slope = rates(t, (q, v))
            d1 = size(slope)
            small = jnp.logical_or(d0 < 1e-5, d1 < 1e-5)
            h0 = jnp.where(small, 1e-6, 0.01 * d0 / jnp.where(small, 1.0, d1))
            ahead = t + h0, system.retract(q, h0 * slope[0]), v + h0 * slope[1]
            return ahead, (slope, h0, d1)

        start = jnp.asarray(t, dtype=float), q, v
        _, (slopes, steps, sizes) = jax.lax.scan(look, start, None, length=2)
        slope, ahead = ([x[k] for x in slopes] for k in (0, 1))
        h0, d1 = steps[0], sizes[0]
        d2 = size(tuple(a - b for a, b in zip(ahead, slope, strict=True))) / h0
        steep = jnp.maximum(d1, d2)
        h1 = jnp.where(steep <= 1e-15, jnp.maximum(1e-6, h0 * 1e-3), (0.01 / steep) ** (1 / order))
        h = jnp.minimum(100 * h0, h1)
        return jnp.where(jnp.isfinite(h), h, 1e-6)


def interval(knots: Array, t: Array) -> tuple[Array, Array]:
    """(start, end) of the interval between knots that begins at or contains `t`."""
    if knots.shape[0] == 2:
        return knots[0], knots[1]
    i = jnp.minimum(last_not_after(knots, t), knots.shape[0] - 2)
    return knots[i], knots[i + 1]


class Judgement(NamedTuple):
    """Whether a step is kept, where the next one ends, and whether it would be too small."""

    keep: Any
    end: Array
    state: Any
    stuck: Any


class EqualSteps(Module):
    """Equal steps of at most `dt` between consecutive `knots`, each knot hit exactly.

    Grid times are computed, not accumulated, so rounding does not build up.
    """

    knots: Array
    dt: Array

    def first(self, t: Array, h: Any = None) -> tuple[Array, None]:
        """Where the first step from `t` ends."""
        return self._next(t), None

    def onwards(self, t: Array, state: None) -> Array:
        """Where the next step from `t` ends, for knots other than those it was judged by."""
        return self._next(t)

    def _next(self, t: Array) -> Array:
        start, end = interval(self.knots, t)
        n = jnp.maximum(jnp.ceil((end - start) / self.dt * (1 - 1e-9)), 1.0)
        step = (end - start) / n
        # An event may have ended the step before between two times of the grid. The times of a
        # long run are rounded to more than a millionth of a step.
        done = (t - start) / jnp.where(step > 0, step, 1.0)
        k = jnp.floor(done + jnp.maximum(1e-6, 4 * jnp.finfo(t.dtype).eps * done)) + 1
        # The knot itself: rounded to just before it, the next step would end there again.
        return jnp.where(k >= n, end, start + k * step)

    def judge(self, t0: Array, t1: Array, error: Any, order: int | None, state: None) -> Judgement:
        """Every step is kept."""
        return Judgement(True, self._next(t1), None, False)


class StepControl(Module):
    """How error-controlled steps are chosen, after Hairer, Nørsett & Wanner (1993), II.4.

    With err the error of a step in units of the tolerance (accepted below 1), of order k in the
    step size, the next step is longer by

        safety * err^-(1/k - 0.75 beta) * (last err)^beta,    between shrink and grow,

    but not longer than a step that follows a rejected one.

    **Arguments:**

    - `safety`: the part of the step that the error allows which is taken.
    - `beta`: the share of the error before; 0 is the plain controller, 0.04 that of DOPRI5.
    - `shrink`, `grow`: limits of the change from one step to the next.
    - `dt_min`: the shortest step [s]. A run that needs a shorter one stops; by default that is
      where rounding of the time hides the step.
    - `dt_max`: the longest step [s]. By default a hundredth of the run where forces or constraints
      depend on the time explicitly, by functions that do not say where they have breaks, and else
      none; ``float("inf")`` for none in any case.
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
        dt_max: float | None = None,
    ):
        def checked(name: str, value: object, good: Any, wanted: str) -> Any:
            found = real(value)
            if found is None or found.ndim or not good(float(found)):
                raise ValueError(
                    f"StepControl: {name}={shown(value)} is not {wanted}. Give such a number."
                )
            return found

        self.safety = checked("safety", safety, lambda x: 0 < x < 1, "between 0 and 1")
        self.beta = checked("beta", beta, lambda x: 0 <= x < 0.2, "in [0, 0.2)")
        self.shrink = checked("shrink", shrink, lambda x: 0 < x < 1, "between 0 and 1")
        self.grow = checked("grow", grow, lambda x: 1 < x < float("inf"), "a number above 1")
        self.dt_min = checked("dt_min", dt_min, lambda x: 0 <= x < float("inf"), "zero or more [s]")
        # not a number until `limited` says what it is
        self.dt_max = as_array(np.nan)
        if dt_max is not None:
            self.dt_max = checked("dt_max", dt_max, lambda x: x > 0, "a positive time [s]")

    def limited(self, longest: float) -> StepControl:
        """This control with `longest` for its longest step [s], unless one was given."""
        return changed(self, dt_max=as_array(longest)) if np.isnan(self.dt_max) else self


class ControlState(NamedTuple):
    """What error control remembers: the last error, the step that would have been taken if no knot
    had to be hit, and whether the last one was rejected."""

    error: Array
    free: Array
    rejected: Array


class ErrorControl(Module):
    """Steps whose error, in units of the tolerance, stays below 1, each knot hit exactly."""

    knots: Array
    control: StepControl

    def first(self, t: Array, h: Array) -> tuple[Array, ControlState]:
        """Where the first step from `t`, of about `h`, ends."""
        h = jnp.clip(h, self.control.dt_min, self.control.dt_max)
        state = ControlState(jnp.asarray(1e-4, dtype=float), h, jnp.asarray(False))
        return self._end(t, h), state

    def onwards(self, t: Array, state: ControlState) -> Array:
        """Where the next step from `t` ends, for knots other than those it was judged by."""
        return self._end(t, state.free)

    def _end(self, t: Array, step: Array) -> Array:
        """When a step from `t` ends: at the next knot, or halfway if little would remain."""
        knot = interval(self.knots, t)[1]
        left = knot - t
        shared = jnp.where(2 * step > left, t + left / 2, t + step)
        return jnp.where(step * (1 + 1e-9) >= left, knot, shared)

    def judge(
        self, t0: Array, t1: Array, error: Array, order: Any, state: ControlState
    ) -> Judgement:
        """Keep a step whose error is at most 1; the next one is as long as the error allows."""
        control = self.control
        error = jnp.where(jnp.isfinite(error), jnp.maximum(error, 1e-10), jnp.inf)
        keep = error <= 1
        factor = control.safety * error ** -(1 / order - 0.75 * control.beta)
        factor = jnp.where(keep, factor * state.error**control.beta, factor)
        longest = jnp.where(keep, jnp.where(state.rejected, 1.0, control.grow), control.safety)
        factor = jnp.clip(factor, control.shrink, longest)
        free = jnp.minimum(factor * (t1 - t0), control.dt_max)
        # A step cut short at a knot says nothing against the longer one that was allowed.
        cut = jnp.logical_and(keep, t1 - t0 < 0.99 * state.free)
        free = jnp.where(cut, jnp.maximum(free, state.free), free)
        t = jnp.where(keep, t1, t0)
        # at t = 0 any step can be told from none, but numbers end
        floor = jnp.maximum(4 * jnp.finfo(t.dtype).eps * jnp.abs(t), jnp.finfo(t.dtype).tiny)
        smallest = jnp.maximum(control.dt_min, floor)
        remembered = jnp.where(keep, jnp.maximum(error, 1e-4), state.error)
        return Judgement(
            keep,
            self._end(t, free),
            ControlState(remembered, free, ~keep),
            jnp.logical_and(~keep, free <= smallest),
        )


class Saved(NamedTuple):
    """States saved so far: `filled` rows (t, y...), y being all of its entries one after the other.

    Each step writes its row, where the next one overwrites it unless it is to stay. So the table is
    changed in place, which a choice between two tables is not.
    """

    rows: Array
    filled: Array

    @staticmethod
    def room(size: int, y: tuple[Array, Array]) -> Saved:
        """None yet, and room for `size` states like `y`."""
        width = 1 + sum(leaf.size for leaf in jax.tree.leaves(y))
        return Saved(jnp.zeros((size, width)), jnp.asarray(0))

    def add(self, t: Array, y: tuple[Array, Array], wanted: Array) -> Saved:
        """With the state (t, y) if it is wanted."""
        row = jnp.concatenate([jnp.ravel(x) for x in (t, *jax.tree.leaves(y))])
        rows = jax.lax.dynamic_update_index_in_dim(self.rows, row, self.filled, 0)
        return Saved(rows, self.filled + wanted)

    @staticmethod
    def states(rows: np.ndarray, y: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, Any]:
        """(ts, ys) of rows on the host, for states like `y`."""
        leaves, structure = jax.tree.flatten(y)
        ends = np.cumsum([1, *(leaf.size for leaf in leaves)])
        parts = [
            rows[:, a:b].reshape(len(rows), *leaf.shape)
            for a, b, leaf in zip(ends[:-1], ends[1:], leaves, strict=True)
        ]
        return rows[:, 0], structure.unflatten(parts)


class StepsState(NamedTuple):
    """Where the next step ends, the steps kept since the loop was entered, the states of the rule
    and of the events, and what has been saved."""

    end: Array
    taken: Array
    rule: Any
    watch: Any
    saved: Saved | None
