"""Newton's change in an implicit step of a small system, written out in scalars.

The matrix is that of `tangent.py`, for systems with q' = v and holonomic constraints:

    [ K  C^T ] [dd]   [ reach r ]        K = M + reach (dF/dq + ratio dF/dv)
    [ C   0  ] [dl] = [    g    ]        F = G^T lam - f

Coordinates are eliminated first, then multipliers, without row exchanges, and entries that are
known to be zero are left out, as in a program written by hand for this one mechanism.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .base import Array, System
from .expressions import Graph, NotScalar, known
from .small import LARGEST, elimination_order, product
from .tangent import REJECTED
from .tangent_blocks import StepWeights


def is_small(system: System, nv: int) -> bool:
    """Whether `newton_change` is worth trying."""
    plain = not (system.has_redundant_constraints or system.has_nonholonomic_constraints)
    return system.is_flat and plain and nv <= LARGEST


def newton_change(
    system: System, t: Array, q: Array, v: Array, a: Array, lam: Array, weights: StepWeights
) -> tuple[Array, Array] | None:
    """The changes of acceleration and multipliers to be taken away; None where the system cannot be
    written out. Not a number where the solution fails its check."""
    graph = Graph()
    try:
        K, C, motion, g = _equations(graph, system, t, q, v, a, lam, weights)
    except NotScalar:
        return None
    factor = Lu(K)
    free = factor.solve(motion)
    spread = np.empty((len(K), len(C)), object)
    for r, row in enumerate(C):
        spread[:, r] = factor.solve(row)
    dl = Lu(product(C, spread)).solve(product(C, free) - g) if len(C) else np.zeros(0, object)
    dd = free - product(spread, dl)
    rest = motion - product(K, dd) - product(C.T, dl)
    # scaled by the constraints' forces, as in `TangentFactor`
    dd, dl, rest, pull, motion = graph.arrays(dd, dl, rest, product(C.T, dl), motion)
    big = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731
    fails = ~(big(rest) <= REJECTED * jnp.maximum(big(pull), big(motion)))
    return jnp.where(fails, jnp.nan, dd / weights.reach), dl / weights.reach


def _equations(
    graph: Graph,
    system: System,
    t: Array,
    q: Array,
    v: Array,
    a: Array,
    lam: Array,
    weights: StepWeights,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """K, C and the right-hand sides as expressions."""
    given = jax.tree.map(graph.inputs, (system, jnp.asarray(t, dtype=float), q, v, a, lam))
    reach, ratio = (graph.inputs(jnp.asarray(x))[()] for x in (weights.reach, weights.ratio))

    def equations(system: System, t: Array, q: Array, v: Array, a: Array, lam: Array) -> Any:
        motion = system.momentum(q, a) - system.force(q, v, t)
        return motion + system.constraint_force(q, t, lam), system.constraint(q, t)

    def moved(what: str) -> Any:
        """The derivative along a change of positions, velocities or accelerations."""

        def along(system: Any, t: Any, q: Any, v: Any, a: Any, lam: Any, seed: Any) -> Any:
            at = {"q": q, "v": v, "a": a}
            fun = lambda x: equations(system, t, lam=lam, **{**at, what: x})  # noqa: E731
            return jax.jvp(fun, (at[what],), (seed,))[1]

        return along

    n = len(q)
    seeds = np.eye(n).astype(object)
    calls = {what: graph.traced(moved(what), *given, seeds[0]) for what in "qva"}
    K, C = np.empty((n, n), object), np.empty((len(lam), n), object)
    for k, seed in enumerate(seeds):
        by_position, constraint = calls["q"](*given, seed)
        by_velocity, _ = calls["v"](*given, seed)
        by_acceleration, _ = calls["a"](*given, seed)
        K[:, k] = by_acceleration + (by_position + by_velocity * ratio) * reach
        C[:, k] = constraint
    motion, g = graph.call(equations, *given)
    return K, C, motion * reach, g


class Lu:
    """A = L U of a matrix of scalars in an order that keeps zeros, without row exchanges."""

    def __init__(self, matrix: np.ndarray):
        n = len(matrix)
        pattern = np.array([[not known(x, 0) for x in row] for row in matrix]).reshape(n, n)
        either = np.where(pattern | pattern.T, 1.0, 0.0)
        self.order = elimination_order(either)
        a = np.array(matrix[np.ix_(self.order, self.order)], dtype=object)
        for j in range(n):
            a[j, j] = 1.0 / a[j, j]
            right = [k for k in range(j + 1, n) if not known(a[j, k], 0)]
            for i in range(j + 1, n):
                if known(a[i, j], 0):
                    continue
                a[i, j] = a[i, j] * a[j, j]
                for k in right:
                    a[i, k] = a[i, k] - a[i, j] * a[j, k]
        self.packed = a

    def solve(self, b: np.ndarray) -> np.ndarray:
        """x with A x = b."""
        a, n = self.packed, len(self.packed)
        x = np.array(b[self.order], dtype=object)
        for i in range(n):
            for j in range(i):
                if not (known(a[i, j], 0) or known(x[j], 0)):
                    x[i] = x[i] - a[i, j] * x[j]
        for i in reversed(range(n)):
            for j in range(i + 1, n):
                if not (known(a[i, j], 0) or known(x[j], 0)):
                    x[i] = x[i] - a[i, j] * x[j]
            x[i] = x[i] * a[i, i]
        out = np.empty_like(x)
        out[self.order] = x
        return out
