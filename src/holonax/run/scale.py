"""The size of a mechanism and of its motion, from which the absolute tolerance follows.

A tolerance of 1e-8 m says nothing about a mechanism of 1e-7 m. Without `atol` the absolute part of
a tolerance is rtol / 100 of what is usual for each coordinate: for positions the size of the
mechanism (its joints' places, the distances of its bodies, their radii of gyration) and one radian;
for velocities that size times the fastest rate sqrt(a / size) of its accelerations at the start.
Powers of ten, rounded towards one, so that whatever is within a decade of one metre and one second
has rtol / 100 in SI units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..system.base import System
from ..system.evaluation import DENSE, evaluated
from .control import ANYWHERE, Absolute

if TYPE_CHECKING:
    from ..start.consistent import Start

PART = 1e-2  # of the relative tolerance
_ANYWHERE = 1e150  # the size of a coordinate whose error does not count
_SPEED = 1e-2  # the part of the fastest speed at the start that is usual at least


def _power_of_ten(x: float | np.ndarray) -> np.ndarray:
    """The power of ten next to x in the direction of one."""
    x = np.clip(x, 1e-150, 1e150)
    # a millionth, so that the powers themselves are not rounded to the next one
    return 10.0 ** np.trunc(np.log10(x) + np.copysign(1e-6, np.log10(x)))


def usual(system: System, start: Start) -> Absolute:
    """What is usual for increments of position, velocities and multipliers."""
    q, v, a = (np.asarray(x, dtype=float) for x in (start.q, start.v, start.a))
    sizes = system.typical_sizes(q)
    most = np.inf if sizes is not None else 1.0  # where units are not known, never a looser one
    masses, free = np.zeros(v.size), a
    if v.size <= DENSE:
        here = evaluated(system, start.t, q, v)
        masses = np.diag(here.mass)
        free = here.force / masses
        if sizes is None:
            # of equal energy: what a coordinate is of is not known, but its inertia is
            root = np.sqrt(masses)
            far = np.max(np.abs(q) * root) if q.size == v.size else 0.0
            sizes = far / root if far > 0 else None
    sizes = np.ones(v.size) if sizes is None else sizes
    moving = np.delete(np.arange(v.size), system.states(v.size))
    speed = _SPEED * np.max(np.abs(v / sizes)[moving])
    rate = max(np.max(np.sqrt(np.abs([a, free]) / sizes)[:, moving]), speed) or 1.0
    load = np.max((masses * sizes)[moving]) * rate**2 or 1.0
    position, velocity = (_power_of_ten(np.minimum(x, most)) for x in (sizes, sizes * rate))
    position, velocity = _with_states(system, position, velocity, v, a, rate)
    return Absolute(position, velocity, np.minimum(_power_of_ten(load), 1.0))


def _with_states(
    system: System,
    position: np.ndarray,
    velocity: np.ndarray,
    v: np.ndarray,
    a: np.ndarray,
    rate: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The same with states of first order: what they are, or how far their rates take them, and
    one at most, for their units are not known; where their carriers are means nothing."""
    states = system.states(v.size)
    if states.size:
        size = np.maximum(np.abs(v[states]), np.abs(a[states]) / rate)
        velocity[states] = _power_of_ten(np.where(size > 0, np.minimum(size, 1.0), 1.0))
        position[np.concatenate([states, system.idle(v.size)])] = _ANYWHERE
    return position, velocity


def absolute(system: System, start: Start, rtol: float, atol: float | None) -> Absolute:
    """The absolute part of a tolerance: `atol` for everything, or what the mechanism asks for."""
    n = np.size(start.v)
    if atol is not None:
        position = np.full(n, atol)
        position[np.concatenate([system.states(n), system.idle(n)])] = _ANYWHERE
        return Absolute(position, np.full(n, atol), np.asarray(atol))
    position, velocity, algebraic = usual(system, start)
    part = rtol * PART
    return Absolute(part * position, part * velocity, part * np.asarray(algebraic))


def described(system: System, atol: Absolute) -> str:
    """An absolute tolerance in words: a number for each unit."""
    n = np.size(atol.velocity)
    units = np.array(system.increment_units(n), dtype="<U12")
    units[system.states(n)] = "of states"
    counts = np.ones(n, dtype=bool)
    counts[system.idle(n)] = False
    out: dict[str, np.ndarray] = {}
    for rate, given in (("", atol.position), ("/s", atol.velocity)):
        values = np.broadcast_to(given, n)
        known = counts & (values < ANYWHERE)
        for unit in dict.fromkeys(units[known].tolist()):
            called = unit if unit == "of states" else f"{unit}{rate}"
            out[called] = values[known & (units == unit)]
    parts = []
    for unit, values in out.items():
        least, most = np.min(values), np.max(values)
        number = f"{least:g}" if least == most else f"{least:g} ... {most:g}"
        parts.append(f"{number} {unit}".rstrip())
    return ", ".join(parts)
