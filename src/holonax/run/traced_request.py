"""What is asked of a traced run, as far as the host can tell: checks, times to hit, tolerances."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from .._messages import shown
from .._numbers import LARGEST_COUNT, array, count, is_traced, parameter, real
from ..start.consistent import Start
from ..system.base import System
from ..system.evaluation import evaluated
from ..system.signals import check_breaks
from .scale import absolute

# Steps that there is room for where they are chosen by their error.
_ROOM = 4096


def checked_steps(dt: Any, rtol: Any, atol: Any) -> tuple[Any, Any, Any]:
    """The step and the tolerances as positive numbers, as far as they are known."""
    given = {"dt": dt, "rtol": rtol, "atol": atol}
    wanted = "a finite and positive number"
    return tuple(
        None if x is None else parameter("trajectory", name, x, good=lambda x: x > 0, wanted=wanted)
        for name, x in given.items()
    )  # pyright: ignore[reportReturnType]


def checked_start(owner: str, system: System, start: Any) -> Any:
    """A start, or a pair (q, v) of vectors that fit the system."""
    if isinstance(start, Start):
        pair = start.q, start.v
    elif isinstance(start, tuple | list) and len(start) == 2:
        pair = tuple(array(owner, f"start[{i}]", x, (None,)) for i, x in enumerate(start))
    else:
        raise TypeError(
            f"{owner}: start={shown(start)} is not a start. Give what hx.consistent(...) or "
            "model.build() returns, or a pair (q, v)."
        )
    q, v = (int(np.shape(x)[0]) for x in pair)
    if system.velocity_size(q) != v:
        raise ValueError(
            f"{owner}: the start has {q} coordinates and {v} velocities, which do not fit. Make "
            "one with hx.consistent(system, q, v)."
        )
    return start if isinstance(start, Start) else pair


def increasing_times(times: Any) -> Array:
    """The times as an array; refused if they do not increase."""
    try:
        traced = any(isinstance(t, Tracer) for t in jax.tree.leaves(times))
        found = jnp.asarray(times, dtype=float) if traced else real(times)
        knots: Any = np.zeros(()) if found is None else found
    except (TypeError, ValueError):
        knots = np.zeros(())
    if knots.ndim != 1 or knots.shape[0] < 2:
        raise ValueError(
            f"trajectory: times={shown(times)} must be a vector of two or more times [s], the "
            "first of which is that of the start."
        )
    if not isinstance(knots, Tracer) and not np.all(np.diff(knots) > 0):
        raise ValueError("trajectory: the times must be finite and increase. Sort them.")
    return knots


def with_breaks(system: System, times: Array, breaks: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """The times to hit, and among the numbers of a run, where there are any, the breaks and which
    of these times were asked for."""
    given = check_breaks("trajectory", breaks)
    if isinstance(times, Tracer):
        if given.size:
            raise ValueError(
                "trajectory: breaks cannot be put among times that are traced. Give them among the "
                "times instead."
            )
        return times, {}
    with suppress(jax.errors.TracerArrayConversionError):  # times of breaks that are traced
        given = np.union1d(given, system.time_breaks())
    inside = given[(given >= times[0]) & (given <= times[-1])]
    if not inside.size:
        return times, {}
    knots = np.union1d(times, inside)
    return knots, {"breaks": inside, "wanted": np.searchsorted(knots, times)}


def usual_tolerance(system: System, start: Any, knots: Any, rtol: Any) -> Any:
    """The absolute tolerance that `simulate` would take, of positions, velocities and algebraic
    variables; None where it is not known."""
    state = (start.q, start.v) if isinstance(start, Start) else start
    if is_traced(*jax.tree.leaves((system, state, knots, rtol))):
        return None
    if not isinstance(start, Start):
        q, v = (np.asarray(x, dtype=float) for x in state)
        a = evaluated(system, float(knots[0]), q, v).a
        start = SimpleNamespace(q=q, v=v, a=a, t=float(knots[0]))
    return np.hstack(absolute(system, start, float(rtol), None))


def step_numbers(dt: Any, rtol: Any, atol: Any, nv: int) -> tuple[Array, Array | None]:
    """The numbers of `Settings`, and the absolute tolerance."""
    stacked = lambda *x: jnp.stack([jnp.asarray(y, dtype=float) for y in x])  # noqa: E731
    if rtol is None:
        return stacked(dt, dt, 0.0), None
    atol = jnp.asarray(rtol / 100 if atol is None else atol, dtype=float)
    return stacked(1.0, 0.0, rtol), jnp.broadcast_to(atol, (2 * nv + 1,))


def most_steps(max_steps: Any, knots: Array, dt: Any, rtol: Any) -> int:
    """The most steps."""
    if max_steps is not None:
        return count("trajectory", "max_steps", max_steps)
    if rtol is not None:
        return _ROOM
    if isinstance(dt, Tracer) or isinstance(knots, Tracer):
        raise ValueError(
            "trajectory: how many steps there are cannot be told where times or dt are traced. "
            "Give max_steps, the most there is room for."
        )
    steps = np.sum(np.maximum(np.ceil(np.diff(np.asarray(knots)) / float(dt) * (1 - 1e-9)), 1.0))
    if not steps <= LARGEST_COUNT:
        raise ValueError(
            f"trajectory: dt={float(dt):g} s makes {steps:g} steps, more than can be kept. Give a "
            "longer step."
        )
    return int(steps)


def smooth_piece(breaks: Any, t: Array) -> Any:
    """(origin, first, last time) of the smooth piece that begins at t, or contains it."""
    if breaks is None:
        return None
    breaks, t = lax.stop_gradient((jnp.asarray(breaks), t))
    past = breaks <= t
    first = jnp.nextafter(jnp.max(jnp.where(past, breaks, -jnp.inf)), jnp.inf)
    last = jnp.nextafter(jnp.min(jnp.where(past, jnp.inf, breaks)), -jnp.inf)
    # the neighbour of infinity is a number, larger than all times
    return jnp.stack([jnp.zeros(()), first, last])
