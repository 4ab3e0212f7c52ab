"""One increment along a path of equilibria, where the load factor is an unknown as well.

    f(q, 0, t; factor) - G^T lam = 0,   g(q, t) = 0

A path is a curve in (q, factor) with the unit tangent (d, s). From a point of it the predictor goes
by `length` along the tangent, and Newton's method returns to the path in the plane across it (Riks
1979, Keller 1977): with p = df/dfactor, and the metric W, m of lengths,

    [ K    G^T  -p  ] [ dq      ]   [ f  ]
    [ G     0    0  ] [ lam     ] = [ -g ]
    [ d^T W 0   s m ] [ dfactor ]   [ 0  ]

That matrix is regular where K is singular because the load is at a limit. With the right side
(0, 0, 1) its solution is the next tangent, in the same sense along the path. For a given factor the
last row is replaced by dfactor = factor - what it is. Beams iterate with section forces of their
own (`load_steps.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.lax import while_loop

from ..compiler import native
from ..system.base import Array
from ..system.mechanism import Mechanism
from ..system.scaled_loads import scaled
from .load_steps import State, mixed_stiffness, settled
from .statics import largest, span

_STEPS = 25  # of Newton's method in one increment
_FAR = 1e3  # a step of so many times the size of the mechanism leads nowhere
_NOTHING = 1e-12  # singular values that count as zero, relative to the largest


class PathPoint(NamedTuple):
    """A point of a path, or what was found in its place.

    `direction` (nv,) and `slope` are the tangent, `stiffness` K and `jacobian` G belong to the last
    step of Newton's method, `size` is the largest component of it. `turned` [rad] is the angle
    between this tangent and that of the point before, `chord` the distance from that.
    """

    state: State
    factor: Array
    direction: Array
    slope: Array
    stiffness: Array
    jacobian: Array
    size: Array
    steps: Array
    done: Array
    turned: Array
    chord: Array


class Wanted(NamedTuple):
    """Where to: `length` along the tangent, and then, if `fixed`, to the load factor `factor`."""

    length: Array
    fixed: Array
    factor: Array


class PathMetric(NamedTuple):
    """The weights of displacements (nv,) and of the load factor in lengths squared."""

    displacement: Array
    factor: Array


def _inner(metric: PathMetric, a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
    return jnp.sum(metric.displacement * a[0] * b[0]) + metric.factor * a[1] * b[1]


@native(static=(1,))
def increment(
    system: Mechanism,
    loads: tuple[str, ...],
    t: Array,
    metric: PathMetric,
    last: PathPoint,
    wanted: Wanted,
) -> PathPoint:
    """The next point of a path after `last`; `done` says whether it was found."""
    q, factor = last.state.q, last.factor
    nothing = jnp.zeros_like(last.direction)
    before = last.direction, last.slope
    row = jnp.where(wanted.fixed, nothing, metric.displacement * last.direction)
    corner = jnp.where(wanted.fixed, 1.0, metric.factor * last.slope)

    def step(now: PathPoint) -> PathPoint:
        q, factor = now.state.q, now.factor
        loaded = scaled(system, loads, factor)
        K, following = mixed_stiffness(loaded, t, now.state)
        force, p = jax.jvp(
            lambda x: scaled(system, loads, x).force(q, nothing, t), (factor,), (jnp.ones(()),)
        )
        g, G = system.constraint(q, t), system.jacobian(q, t)
        rates = jnp.zeros((G.shape[0] - g.shape[0],))  # non-holonomic rows allow no motion
        left = jnp.where(wanted.fixed, wanted.factor - factor, 0.0)
        right = jnp.concatenate([force, -g, rates, left[None]])
        ahead = jnp.zeros_like(right).at[-1].set(1.0)
        borders = G, p, row, corner
        singular = "any" if not system.section_shapes() else "rows" if system.redundant else "no"
        found = _solved(K, borders, jnp.stack([right, ahead], axis=1), singular)
        n = nothing.size
        move, change = found[:n, 0], found[-1, 0]
        tangent = found[:n, 1], found[-1, 1]
        length = jnp.sqrt(_inner(metric, tangent, tangent))
        # of two senses that which goes on as before
        length = jnp.where(_inner(metric, tangent, before) < 0, -length, length)
        size = jnp.maximum(largest(move), jnp.abs(change) * jnp.sqrt(metric.factor) * span(q))
        return PathPoint(
            State(system.normalize(system.retract(q, move)), found[n:-1, 0], following(move)),
            factor + change,
            tangent[0] / length,
            tangent[1] / length,
            K,
            G,
            size,
            now.steps + 1,
            settled(size, now.size, span(q)),
            now.turned,
            now.chord,
        )

    def unfinished(now: PathPoint) -> Array:
        near = now.size <= _FAR * span(now.state.q)  # false also where it is not a number
        return ~now.done & ((now.steps == 0) | near) & (now.steps < _STEPS)

    start = system.normalize(system.retract(q, wanted.length * last.direction))
    first = last._replace(
        state=last.state._replace(q=start),
        factor=factor + wanted.length * last.slope,
        size=jnp.asarray(jnp.inf),
        steps=jnp.asarray(0),
        done=jnp.asarray(False),
    )
    new = while_loop(unfinished, step, first)
    along = _inner(metric, before, (new.direction, new.slope))
    apart = system.difference(q, new.state.q), new.factor - factor
    return new._replace(
        turned=jnp.arccos(jnp.clip(along, -1.0, 1.0)),
        chord=jnp.sqrt(_inner(metric, apart, apart)),
    )


def _solved(
    K: Array, borders: tuple[Array, Array, Array, Array], right: Array, singular: str
) -> Array:
    """The solution of the module's equations, rows and columns scaled.

    `singular` says what may be: "any" part of K may meet no resistance, the "rows" of G may be
    dependent, or neither, "no"."""
    G, p, row, corner = borders
    m = G.shape[0]
    size = jnp.max(jnp.abs(K), axis=1)
    scale = 1 / jnp.sqrt(jnp.where(size > 0, size, 1.0))
    scale = jnp.where(size > 0, scale, jnp.min(scale))
    rows = G * scale
    weight = _one_over(jnp.linalg.norm(rows, axis=1))
    rows = rows * weight[:, None]
    column = p * scale
    of_load = _one_over(jnp.linalg.norm(column))
    last = row * scale
    of_row = _one_over(jnp.sqrt(jnp.sum(last**2) + (corner * of_load) ** 2))
    zero = jnp.zeros((m, m)) if singular != "rows" else -1e-13 * jnp.eye(m)
    matrix = jnp.block(
        [
            [K * scale[:, None] * scale, rows.T, -of_load * column[:, None]],
            [rows, zero, jnp.zeros((m, 1))],
            [of_row * last[None], jnp.zeros((1, m)), (of_row * corner * of_load)[None, None]],
        ]
    )
    by_row = jnp.concatenate([scale, weight, of_row[None]])
    by_column = jnp.concatenate([scale, weight, of_load[None]])
    right = right * by_row[:, None]
    if singular == "any":
        u, s, vt = jnp.linalg.svd(matrix)
        inverse = 1 / jnp.where(s > _NOTHING * s[0], s, jnp.inf)
        solve = lambda x: vt.T @ (inverse[:, None] * (u.T @ x))  # noqa: E731
    else:
        factor = jax.scipy.linalg.lu_factor(matrix)
        solve = lambda x: jax.scipy.linalg.lu_solve(factor, x)  # noqa: E731
    solution = solve(right)
    solution = solution + solve(right - matrix @ solution)
    return solution * by_column[:, None]


def _one_over(x: Array) -> Array:
    return 1 / jnp.where(x > 0, x, 1.0)
