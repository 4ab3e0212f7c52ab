"""Dense output: the solution between the steps, of the method's order, with constraints holding.

Through the positions, velocities and accelerations at the ends of neighbouring steps goes one
polynomial: of degree 5 through two of them, for methods of order up to 5, of degree 11 through
four, for higher ones. It is made of increments from one of the configurations, so rotations need
no special care; afterwards the state is projected onto the constraints that the formulation holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compiler import native
from ..formulation import CoordinateProjection
from ..problem import StepContext
from ..start.diagnosis import DENSE_LIMIT
from ..system.base import Array, System
from ..system.clock import PLAIN, Clock
from ..system.dense import smallest_multipliers
from ..system.evaluation import DENSE, Evaluation, evaluated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from ..formulation.base import Formulation
    from .states import Leg

_CHUNK = 128
_PASSES = 6  # Newton steps onto the constraints
_ROUNDING = 1e-14  # [m or rad]
_DEPENDENT = 1e-10  # constraints whose part of the largest eigenvalue of G W Gᵀ is smaller


def _chart(system: System, origin: Array, q: Array, v: Array, a: Array) -> list[Array]:
    """The increment from `origin` to q and its first two derivatives along the motion."""

    def rate(q: Array, v: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda x: system.difference(origin, x), (q,), (system.qdot(q, v),))

    (d, d1), (_, d2) = jax.jvp(rate, (q, v), (system.qdot(q, v), a))
    return [d, d1, d2]


def _hermite(nodes: Array, data: list[list[Array]], t: Array) -> tuple[Array, Array]:
    """The value and derivative at `t` of the polynomial with given values, first and second
    derivatives at each node; Newton's divided differences of nodes that each count three times."""
    m, scale = len(data), nodes[-1] - nodes[0]
    x = [(nodes[i // 3] - nodes[0]) / scale for i in range(3 * m)]
    column = [data[i // 3][0] for i in range(3 * m)]
    coefficients = [column[0]]
    for order in range(1, 3 * m):
        new = []
        for i in range(3 * m - order):
            if i // 3 == (i + order) // 3:  # one node: a derivative by a factorial
                new.append(data[i // 3][order] * scale**order / (1.0 if order == 1 else 2.0))
            else:
                new.append((column[i + 1] - column[i]) / (x[i + order] - x[i]))
        column = new
        coefficients.append(column[0])
    s = (t - nodes[0]) / scale
    value, slope = coefficients[-1], jnp.zeros_like(coefficients[-1])
    for k in range(3 * m - 2, -1, -1):
        slope = slope * (s - x[k]) + value
        value = value * (s - x[k]) + coefficients[k]
    return value, slope / scale


def between(system: System, ts: Array, q: Array, v: Array, a: Array) -> Any:
    """The states between nodes (ts, q, v) with accelerations a, as a function of time; not yet
    projected onto the constraints."""
    m = ts.shape[0]
    origin = m // 2 - 1
    data = [_chart(system, q[origin], q[i], v[i], a[i]) for i in range(m)]

    def at(t: Array) -> tuple[Array, Array]:
        d, rate = _hermite(ts, data, t)
        return system.normalize(system.retract(q[origin], d)), system.increment_rate(d, rate)

    return at


@native(once=True)
def _between(
    system: System, ts: Array, q: Array, v: Array, a: Array, times: Array
) -> tuple[Array, Array]:
    """States at `times`, one for each row of nodes (ts, q, v) with accelerations a."""

    def one(row: tuple[Array, ...]) -> tuple[Array, Array]:
        return between(system, *row[:4])(row[4])

    return jax.lax.map(one, (ts, q, v, a, times))


@native(once=True, static=(1,))
def _projected(
    system: System, levels: tuple[str, ...], t: Array, q: Array, v: Array
) -> tuple[Array, Array]:
    """States brought onto the constraints of some levels, for systems with a block factor."""
    context = StepContext(system, jnp.ones(()))

    def one(x: Any) -> tuple[Array, Array]:
        t, *state = x
        for level in levels:
            state = CoordinateProjection(level=level).after_step(context, t, tuple(state))  # pyright: ignore
        return tuple(state)  # pyright: ignore

    return jax.lax.map(one, (t, q, v))


def _solved(matrices: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """x of A x = b for each of many A, symmetric and not negative: the smallest x where rows of A
    depend on one another. Eigenvalues, which tell it for certain, take a hundred times as long as
    Cholesky's pivots, so they are asked for only where a pivot vanishes."""
    found = np.empty_like(sides)
    for i, (A, b) in enumerate(zip(matrices, sides, strict=True)):
        try:
            pivots = np.diagonal(np.linalg.cholesky(A)) ** 2
            independent = pivots.min(initial=np.inf) > _DEPENDENT * pivots.max(initial=0.0)
        except np.linalg.LinAlgError:
            independent = False
        if independent:
            found[i] = np.linalg.solve(A, b)
        else:
            found[i] = np.linalg.pinv(A, rcond=_DEPENDENT, hermitian=True) @ b
    return found


def on_constraints(
    system: System, levels: tuple[bool, bool], t: np.ndarray, q: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """States brought onto the constraints of position and velocity, moving as little as possible
    in the mass metric."""
    if not any(levels):
        return q, v
    if v.shape[1] > DENSE:
        names = tuple(x for x, held in zip(("position", "velocity"), levels, strict=True) if held)
        parts = [_projected(system, names, *chunk) for chunk in chunks(t, q, v)]
        return in_one(parts, t.size)
    # each state by itself, whatever others come with it: results do not depend on their number
    here = Evaluation(*map(np.array, evaluated(system, t, q, v)))

    def defined(here: Evaluation) -> np.ndarray:
        return np.all(np.isfinite(here.jacobian), axis=(1, 2)) & np.all(np.isfinite(here.rate), 1)

    def pick(here: Evaluation, which: np.ndarray) -> Evaluation:
        return Evaluation(*(x[which] for x in here))

    def increment(here: Evaluation, rows: slice, residual: np.ndarray) -> np.ndarray:
        G = here.jacobian[:, rows]
        spread = np.linalg.solve(here.mass, np.swapaxes(G, 1, 2))
        return -(spread @ _solved(G @ spread, residual)[..., None])[..., 0]

    rows = here.g.shape[1]
    if levels[0] and rows:
        for _ in range(_PASSES):
            far = (np.max(np.abs(here.g), axis=1) > _ROUNDING) & defined(here)
            if not np.any(far):
                break
            step = increment(pick(here, far), slice(rows), here.g[far])
            moved = evaluated(system, t[far], here.q[far], v[far], step=step)
            for old, new in zip(here, moved, strict=True):
                old[far] = new
    if levels[1] and here.rate.shape[1]:
        good, v = defined(here), np.array(v)
        v[good] += increment(pick(here, good), slice(None), here.rate[good])
    return here.q, v


@native(once=True)
def _own_accelerations(
    system: System, formulation: Formulation, dt: Array, t: Array, q: Array, v: Array
) -> tuple[Array, Array]:
    """(a, lam) of a formulation that adds to the equations of motion, at many states."""

    def at(x: tuple[Array, Array, Array]) -> tuple[Any, Any]:
        t, q, v = x
        return formulation.accelerations(StepContext(system, dt), t, (q, v))

    return jax.lax.map(at, (t, q, v))


def accelerations(
    leg: Leg, t: np.ndarray, q: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(a, lam) at the given states."""
    system, dense = leg.system, v.shape[1] <= DENSE_LIMIT
    redundant = system.has_redundant_constraints and dense
    here, a, lam = None, v, v
    if redundant or leg.formulation.plain_accelerations:
        here = evaluated(system, t, q, v, dense=redundant)
        a, lam = here.a, here.lam
    if not leg.formulation.plain_accelerations:
        parts = [
            _own_accelerations(system, leg.formulation, np.float64(leg.dt), *chunk)
            for chunk in chunks(t, q, v)
        ]
        a, lam = in_one(parts, t.size)
    if redundant and here is not None:
        lam = smallest_multipliers(here.jacobian, lam)
    return a, lam


def smallest(leg: Any, t: ArrayLike, q: ArrayLike, v: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Multipliers that a method has solved for at these states; of dependent constraints those of
    least norm that exert the same forces."""
    known = v.shape[1] <= DENSE_LIMIT and not leg.integrator.multiplier_lag
    if not (leg.system.has_redundant_constraints and known):
        return lam
    return smallest_multipliers(evaluated(leg.system, t, q, v, dense=True).jacobian, lam)


def chunks(*arrays: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Rows in parts of equal size, for which one program is enough; the last one is filled up."""
    n = len(arrays[0])
    at = np.minimum(np.arange(n + -n % _CHUNK), n - 1).reshape(-1, _CHUNK)
    return ([x[k] for x in arrays] for k in at)


def in_one(parts: list[Any], n: int) -> Any:
    """Arrays over `n` rows from those that `chunks` were made into."""
    return tuple(np.concatenate(x)[:n] for x in zip(*parts, strict=True))


def levels_held(formulation: Formulation, integrator: Any) -> tuple[bool, bool]:
    """Whether the method holds positions and velocities better than it solves for them."""
    drift, orders = formulation.drift_orders(integrator), formulation.orders(integrator)
    return drift[0] > orders[0], drift[1] > orders[1]


def states_used(leg: Leg) -> int:
    """How many states a polynomial between them goes through, with their rates: as exact as the
    steps are, also where the formulation decides the order, which is then low."""
    return 4 if (leg.integrator.order(None) or 2) > 5 else 2


def interpolate(
    leg: Leg,
    ts: np.ndarray,
    q: np.ndarray,
    v: np.ndarray,
    times: np.ndarray,
    first: np.ndarray,
    clock: Clock = PLAIN,
) -> tuple[np.ndarray, np.ndarray]:
    """States at `times` from steps (ts, q, v); `first[k]` is the step before times[k].

    All steps belong to one smooth stretch of the motion. Times are ticks of the `clock`.
    """
    seen = lambda ticks: clock.times_in_piece(ts[0], ticks)  # noqa: E731
    m = min(states_used(leg), len(ts))
    begin = np.clip(np.asarray(first) - (m // 2 - 1), 0, len(ts) - m)
    rows = begin[:, None] + np.arange(m)
    held = levels_held(leg.formulation, leg.integrator)
    needed = np.unique(rows)
    a = np.zeros_like(v)
    a[needed] = accelerations(leg, seen(ts[needed]), q[needed], v[needed])[0]
    out = []
    for k in range(0, len(times), _CHUNK):
        part = rows[k : k + _CHUNK]
        pad = np.concatenate([part, np.repeat(part[-1:], _CHUNK - len(part), axis=0)])
        at = np.concatenate([times[k : k + _CHUNK], np.full(_CHUNK - len(part), times[-1])])
        states = _between(leg.system, *(x[pad] for x in (ts, q, v, a)), at)
        states = [x[: len(part)] for x in states]
        out.append(on_constraints(leg.system, held, seen(at[: len(part)]), *states))
    positions, velocities = zip(*out, strict=True)
    return np.concatenate(positions), np.concatenate(velocities)
