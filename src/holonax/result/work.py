"""The work done along a motion, integrated so finely that the energy balance shows the solution.

Between saved states the power is known from the polynomial through their positions, velocities and
accelerations: it is taken at Gauss points, in those steps in which Simpson's rule over the saved
states may be off by more than the balance shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..system.evaluation import evaluated
from ..system.mechanism import Mechanism
from ..system.places import conjugate, others, product, pure, quaternions, rotations
from .interpolation import states_used
from .quadrature import simpson_parts

if TYPE_CHECKING:
    from ..system.base import System
    from ..system.clock import Clock
    from .states import Leg

_ROUNDS = 4
_FEW = 1000  # steps that are integrated finely all together
_MOST = 5000  # steps that are integrated finely
_NUMBERS = 200_000  # and velocities in them all
_ROUNDING = 1e-15  # of the energy, for each step


def work(
    leg: Leg,
    clock: Clock,
    t: np.ndarray,
    q: np.ndarray,
    v: np.ndarray,
    power: np.ndarray,
    total: np.ndarray,
) -> np.ndarray:
    """The work up to each of the states of one smooth stretch; `total` is their energy, and t are
    the ticks of `clock`."""
    parts, doubt = simpson_parts(power, t)
    doubt = _of_neighbours(doubt)
    known = isinstance(leg.system, Mechanism) or q.shape[1] == v.shape[1]
    room = min(_MOST, _NUMBERS // max(v.shape[1], 1)) if known else 0
    floor = _ROUNDING * float(np.max(np.abs(total), initial=0.0)) * parts.size
    for _ in range(_ROUNDS):
        done = np.concatenate([[0.0], np.cumsum(parts)])
        off = float(np.max(np.abs(total - total[0] - done)))
        order = np.argsort(-doubt, kind="stable")
        left = np.cumsum(doubt[order][::-1])[::-1]  # with all before left out
        steps = order[left > max(0.02 * off, floor)][:room]
        if not steps.size:
            return done
        steps = np.sort(steps) if parts.size > _FEW else np.arange(parts.size)
        parts[steps], doubt[steps], room = (
            _finely(leg, clock, t, q, v, steps),
            0.0,
            room - steps.size,
        )
    return np.concatenate([[0.0], np.cumsum(parts)])


def _of_neighbours(doubt: np.ndarray) -> np.ndarray:
    """The largest among each and the two on either side: one alone may be small by chance."""
    padded = np.pad(doubt, 2, mode="edge")
    return np.max(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)


def _finely(
    leg: Leg, clock: Clock, t: np.ndarray, q: np.ndarray, v: np.ndarray, steps: np.ndarray
) -> np.ndarray:
    """The work in some of the steps, by Gauss's rule."""
    nodes = min(states_used(leg), t.size)
    places, weights = np.polynomial.legendre.leggauss(2 * nodes)
    first = np.clip(steps - (nodes // 2 - 1), 0, t.size - nodes)
    rows = first[:, None] + np.arange(nodes)
    needed = np.unique(rows)
    a = np.zeros_like(v)
    a[needed] = evaluated(leg.system, clock.time(t[needed]), q[needed], v[needed]).a
    h = t[steps + 1] - t[steps]
    out = np.zeros(steps.size)
    for place, weight in zip(places, weights, strict=True):
        at = t[steps] + h * (1 + place) / 2
        there, rates = _between(leg.system, t[rows], q[rows], v[rows], a[rows], at)
        out += h * weight / 2 * evaluated(leg.system, clock.time(at), there, rates).power
    return out


def _between(
    system: System, t: np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """States at the times `at` (n,) from nodes t (n, m), q (n, m, nq), v and a (n, m, nv)."""
    first, second = _rates(system, q, v, a)
    q, rate = _hermite(t, [q, first, second], at)
    places = quaternions(system)
    out = np.zeros((at.size, v.shape[2]))
    out[:, others(rotations(system), v.shape[2])] = rate[:, others(places, q.shape[1])]
    for e, turn in zip(places, rotations(system), strict=True):
        size = np.linalg.norm(q[:, e], axis=1, keepdims=True)
        out[:, turn] = 2 * product(conjugate(q[:, e]), rate[:, e])[:, 1:] / size**2
        q[:, e] /= size
    return q, out


def _rates(
    system: System, q: np.ndarray, v: np.ndarray, a: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """q' and q'': the same numbers as v and v' but for quaternions, e' = e w / 2."""
    first, second, places = np.zeros_like(q), np.zeros_like(q), quaternions(system)
    plain = others(rotations(system), v.shape[-1])
    at = others(places, q.shape[-1])
    first[..., at], second[..., at] = v[..., plain], a[..., plain]
    for e, turn in zip(places, rotations(system), strict=True):
        w, rate = pure(v[..., turn]), pure(a[..., turn])
        first[..., e] = product(q[..., e], w) / 2
        second[..., e] = (product(first[..., e], w) + product(q[..., e], rate)) / 2
    return first, second


def _hermite(
    nodes: np.ndarray, data: list[np.ndarray], at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values and slopes at `at` (n,) of the polynomials with given values, first and second
    derivatives (n, m, k) at the nodes (n, m), by divided differences; see `interpolation.py`."""
    m, origin = nodes.shape[1], nodes[:, :1]
    scale = nodes[:, -1:] - origin
    x = [((nodes[:, i // 3] - origin[:, 0]) / scale[:, 0])[:, None] for i in range(3 * m)]
    column = [data[0][:, i // 3] for i in range(3 * m)]
    coefficients = [column[0]]
    for order in range(1, 3 * m):
        column = [
            data[order][:, i // 3] * scale**order / (1.0 if order == 1 else 2.0)
            if i // 3 == (i + order) // 3
            else (column[i + 1] - column[i]) / (x[i + order] - x[i])
            for i in range(3 * m - order)
        ]
        coefficients.append(column[0])
    s = ((at - origin[:, 0]) / scale[:, 0])[:, None]
    value, slope = coefficients[-1], np.zeros_like(coefficients[-1])
    for k in range(3 * m - 2, -1, -1):
        slope = slope * (s - x[k]) + value
        value = value * (s - x[k]) + coefficients[k]
    return value, slope / scale
