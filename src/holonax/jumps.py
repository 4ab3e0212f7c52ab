"""Constraints that jump: a driver asked to be elsewhere at once.

A function s(t) with the rate r whose rate rises or falls all the way over a step of length h
changes by something between h r0 and h r1, so that

    |s1 - s0 - h (r0 + r1) / 2|  <=  h |r1 - r0| / 2.

A step over which a constraint changes by more than that, and by half of what it moves at its
fastest beside, has passed over something that it has not seen: a jump, or a rise between two times
of rest. The latter a shorter step may see; a jump is there however short the step.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .formulation.base import StepContext
from .system.base import Array, System
from .system.evaluation import evaluated

_BESIDE = 0.5  # of the motion in a step; a sine has 0.08 with a radian in each step, 0.33 with two
_ROUNDING = 1e-13


def has_jumped(s0: Any, s1: Any, r0: Any, r1: Any, h: Any, size: Any) -> Any:
    """For each row whether it changes by more than its rate explains; `size` are numbers whose
    rounding it has, beside its own."""
    change = jnp.abs(s1 - s0 - 0.5 * h * (r0 + r1))
    rate = jnp.maximum(jnp.abs(r0), jnp.abs(r1))
    size = 1 + jnp.max(jnp.abs(jnp.asarray(size)), initial=0.0)
    rounding = _ROUNDING * (size + jnp.abs(s0) + jnp.abs(s1))
    return change > 0.5 * h * jnp.abs(r1 - r0) + _BESIDE * h * rate + rounding


def jumps_between(system: System, times: Any, q: Any) -> tuple[np.ndarray, np.ndarray]:
    """For each constraint row whether its value, and whether its rate, jumps between two times at a
    configuration; non-holonomic rows have a rate only."""
    still = np.zeros((2, system.velocity_size(int(np.size(q)))))
    here = evaluated(system, times, np.tile(q, (2, 1)), still)
    rows, h = here.g.shape[1], times[1] - times[0]
    jumped = np.zeros(here.rate.shape[1], bool)
    jumped[:rows] = has_jumped(*here.g, *here.rate[:, :rows], h, q)
    return jumped, np.asarray(has_jumped(*here.rate, *-here.gamma, h, q))


def constraint_jumps(context: StepContext, t0: Array, t1: Array, q: Array, held: Any) -> Array:
    """Whether a constraint jumps in a step from (t0, q) to t1, though nothing moves.

    Where the method holds neither positions nor velocities (`held`), a jump of the rate is one as
    well: it would never be made good.
    """
    system, h = context.system.moving_constraints(q.shape[0]), t1 - t0
    if system is None:
        return jnp.asarray(False)
    still = jnp.zeros((system.velocity_size(q.shape[0]),))
    rates = [system.constraint_rate(q, still, t) for t in (t0, t1)]
    values = [system.constraint(q, t) for t in (t0, t1)]
    rows = values[0].shape[0]
    jumped = jnp.any(has_jumped(*values, rates[0][:rows], rates[1][:rows], h, q))
    if any(held):
        return jumped
    slopes = [-system.gamma(q, still, t) for t in (t0, t1)]
    return jumped | jnp.any(has_jumped(*rates, *slopes, h, q))
