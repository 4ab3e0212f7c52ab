"""Constraints that jump: a driver asked to be elsewhere at once.

Between two times h apart a function s with the rate r, whose rate rises or falls all the way,
changes by something between h r0 and h r1; and a curved one by h^2 / 2 times its curvature more.
A constraint that changes, where nothing moves, by more than that,

    |s1 - s0 - h (r0 + r1) / 2|  >  h |r1 - r0| / 2  +  h^2 max(|r'0|, |r'1|) / 2,

does something within the step that the step has not seen: it jumps, or it moves and is at rest
again. The latter a shorter step may see; a jump is there however short the step. Nothing of this
depends on the method, or on how accurately it follows the motion. A sine passes with three radians
in a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..problem import StepContext
from ..system.base import Array, System
from ..system.evaluation import evaluated

if TYPE_CHECKING:
    from collections.abc import Sequence

_BESIDE = 0.5  # the part of a step's change by its rate that may hide a jump of a rate
_ROUNDING, _OF_TIME = 1e-13, 1e-14
_ALLOWED = 100  # times the tolerance: what a step's error may leave of a constraint


def has_jumped(
    values: Sequence[Array],
    rates: Sequence[Array],
    slopes: list[Array] | np.ndarray | None,
    times: Sequence[Array],
    size: Array,
) -> Array:
    """For each row whether it changes between two times by more than its rate explains.

    `rates` and `slopes` are its first and second derivatives, `size` numbers that it is computed
    from, whose rounding it has. Without slopes (None) half of what its rate makes of it is allowed.
    """
    (s0, s1), (r0, r1), h = values, rates, times[1] - times[0]
    change = jnp.abs(s1 - s0 - 0.5 * h * (r0 + r1))
    rate = jnp.maximum(jnp.abs(r0), jnp.abs(r1))
    bound = 0.5 * h * jnp.abs(r1 - r0)
    if slopes is None:
        bound = bound + _BESIDE * h * rate
    else:
        bound = bound + 0.5 * h * h * jnp.maximum(*map(jnp.abs, slopes))
    size = 1 + jnp.max(jnp.abs(jnp.asarray(size)), initial=0.0)
    rounding = _ROUNDING * (size + jnp.abs(s0) + jnp.abs(s1))
    return change > bound + rounding + _OF_TIME * jnp.abs(times[1]) * rate


def jumps_between(system: System, times: Any, q: Any) -> tuple[np.ndarray, np.ndarray]:
    """For each constraint row whether its value, and whether its rate, jumps between two times at a
    configuration; non-holonomic rows have a rate only."""
    still = np.zeros((2, system.velocity_size(int(np.size(q)))))
    here = evaluated(system, times, np.tile(q, (2, 1)), still)
    rows, slopes = here.g.shape[1], -here.gamma
    jumped = np.zeros(here.rate.shape[1], bool)
    jumped[:rows] = has_jumped(here.g, here.rate[:, :rows], slopes[:, :rows], times, q)
    return jumped, np.asarray(has_jumped(here.rate, slopes, None, times, q))


def constraint_jumps(
    context: StepContext, t0: Array, t1: Array, q: Array, held: tuple[bool, bool]
) -> Array:
    """Whether a constraint jumps in a step from (t0, q) to t1, though nothing moves.

    Where the method holds neither positions nor velocities (`held`), a jump of the rate is one as
    well: it would never be made good.
    """
    system = context.system.moving_constraints(q.shape[0])
    assert system is not None
    still = jnp.zeros((system.velocity_size(q.shape[0]),))
    values = [system.constraint(q, t) for t in (t0, t1)]
    rates = [system.constraint_rate(q, still, t) for t in (t0, t1)]
    slopes = [-system.gamma(q, still, t) for t in (t0, t1)]
    times, rows = [system.time(t0), system.time(t1)], values[0].shape[0]
    # the difference of the times themselves: they may be large
    times = [times[1] - (t1 - t0), times[1]]
    first = lambda parts: [x[:rows] for x in parts]  # noqa: E731
    jumped = jnp.any(has_jumped(values, first(rates), first(slopes), times, q))
    if any(held):
        return jumped
    return jumped | jnp.any(has_jumped(rates, slopes, None, times, q))


def unexplained_change(context: StepContext, t0: Array, t1: Array, y0: Any, y1: Any) -> Array:
    """By how much constraints have changed in a step more than their rates explain, in units of
    what its error allows, for methods that do not hold them: a small jump of a fast driver."""
    system, h = context.system.moving_constraints(y0[0].shape[0]), t1 - t0
    assert system is not None
    before, after = (system.constraint(y[0], t) for t, y in ((t0, y0), (t1, y1)))
    rows = before.shape[0]
    rates = [system.constraint_rate(y[0], y[1], t)[:rows] for t, y in ((t0, y0), (t1, y1))]
    change = after - before - 0.5 * h * (rates[0] + rates[1])
    tolerance, extent = context.tolerance, context.system.extent(y0[0])
    allowed = tolerance.absolute.longest(context.system) + tolerance.rtol * jnp.max(extent)
    return jnp.max(jnp.abs(change), initial=0.0) / (_ALLOWED * allowed)
