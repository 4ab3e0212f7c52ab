"""Small systems: everything at one configuration as expressions of scalars, algebra included.

The Schur complement S = G W G^T, its factors L D L^T and all solutions are written out entry by
entry, so that what is known of G and M (zeros, ones, constant masses) spares the work that it
would in a program written by hand for this one mechanism.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .base import Array, Configuration, ConstraintFactor, Metric, Rows, System
from .dense import is_zero
from .expressions import Expression, Graph, NotScalar, Scalar, known

# Larger systems are better off with arrays: programs of scalars grow with the cube of the size.
LARGEST = 24


def configuration(system: System, q: Array, t: Array) -> Configuration:
    """A system at (q, t), written out in scalars if it is small enough."""
    nv = system.velocity_size(q.shape[0])
    if system.has_redundant_constraints or nv > LARGEST or q.dtype != float:
        return Configuration(system, q, t)
    return SmallConfiguration(system, q, t)


class SmallConfiguration(Configuration):
    """A small system at one configuration; what is evaluated there shares its common parts.

    To be used in one trace: not within and without a loop.
    """

    in_scalars: ClassVar[bool] = True

    def __init__(self, system: System, q: Array, t: Array):
        super().__init__(system, q, jnp.asarray(t, dtype=float))
        self._nv = system.velocity_size(q.shape[0])
        self._graph = Graph()
        self._given = jax.tree.map(self._graph.inputs, (system, self.q, self.t))

    def _express(self, function: Any, *more: Any) -> Any:
        """function(system, q, t, *more) as expressions; `more` are arrays of expressions."""
        return self._graph.call(function, *self._given, *more)

    def _columns(self, function: Any) -> np.ndarray:
        """The matrix of a function(system, q, t, v) that is linear in v, apart from a constant."""

        def along(system: System, q: Array, t: Array, seed: Array) -> Array:
            return jax.jvp(lambda v: function(system, q, t, v), (jnp.zeros_like(seed),), (seed,))[1]

        seeds = np.eye(self._nv).astype(object)
        column = self._graph.traced(along, *self._given, seeds[0])
        return np.stack([column(*self._given, seed) for seed in seeds], axis=1)

    def _rows_of(self, rows: Rows) -> np.ndarray:
        """G, or [G; A]."""
        matrix = self._columns(lambda system, q, t, v: system.constraint_rate(q, v, t))
        if rows == "holonomic" and self.system.has_nonholonomic_constraints:
            return matrix[: self._position().shape[0]]
        return matrix

    def _position(self) -> np.ndarray:
        return self._express(lambda system, q, t: system.constraint(q, t))

    def constraint(self) -> Array:
        try:
            return self._graph.arrays(self._position())[0]
        except NotScalar:
            return super().constraint()

    def rate(self, v: Array) -> Array:
        try:
            rate = self._express(
                lambda system, q, t, v: system.constraint_rate(q, v, t), self._graph.inputs(v)
            )
            return self._graph.arrays(rate)[0]
        except NotScalar:
            return super().rate(v)

    def _saddle(self, metric: Metric, rows: Rows) -> tuple[np.ndarray, np.ndarray, Ldl | None]:
        """(G, W G^T, the factor of W^-1) as expressions; None for W = 1."""
        G = self._rows_of(rows)
        mass = self._mass() if metric == "mass" else None
        spreader = np.empty((self._nv, G.shape[0]), object)
        for r, row in enumerate(G):
            spreader[:, r] = row if mass is None else mass.solve(row)
        return G, spreader, mass

    def _mass(self) -> Ldl:
        return Ldl(self._columns(lambda system, q, t, v: system.momentum(q, v)))

    def factor(
        self, *, metric: Metric = "mass", rows: Rows = "all", shift: Array | float = 0.0
    ) -> ConstraintFactor:
        try:
            G, spreader, mass = self._saddle(metric, rows)
        except NotScalar:
            return super().factor(metric=metric, rows=rows, shift=shift)
        schur = product(G, spreader)
        if not is_zero(shift):
            added = self._graph.inputs(jnp.asarray(shift))[()]
            for i in range(len(schur)):
                schur[i, i] = schur[i, i] + added
        # Three times, so that what is not used of it is not computed either.
        values = self._graph.values
        G, spreader, mass = values(G), values(spreader), mass and mass.map(values)
        return SmallFactor(G, spreader, mass, Ldl(schur).map(values))

    def accelerations(self, v: Array) -> tuple[Array, Array]:
        at_v = self._graph.inputs(v)
        try:
            G, spreader, mass = self._saddle("mass", "all")
        except NotScalar:
            return super().accelerations(v)
        force, gamma = (self._vector(name, v, at_v) for name in ("force", "gamma"))
        assert mass is not None
        a, lam = solution(G, spreader, mass.solve(force), Ldl(product(G, spreader)), gamma)
        a, lam = self._graph.arrays(a, lam)
        return a, lam

    def _vector(self, name: str, v: Array, at_v: np.ndarray) -> np.ndarray:
        try:
            return self._express(lambda s, q, t, v: getattr(s, name)(q, v, t), at_v)
        except NotScalar:
            return self._graph.inputs(getattr(self.system, name)(self.q, v, self.t))


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b for arrays of scalars."""
    out = np.full(a.shape[:1] + b.shape[1:], 0.0, dtype=object)
    for i, row in enumerate(a):
        for j in np.ndindex(b.shape[1:]):
            column = b[(slice(None), *j)]
            for x, y in zip(row, column, strict=True):
                if not (known(x, 0) or known(y, 0)):
                    out[(i, *j)] = out[(i, *j)] + x * y
    return out


def solution(
    G: np.ndarray, spreader: np.ndarray, free: np.ndarray, schur: Ldl, gamma: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(a, lam) with a = free - W G^T lam and G a = gamma."""
    lam = schur.solve(product(G, free) - gamma)
    return free - product(spreader, lam), lam


def _reciprocal(pivot: Scalar) -> Scalar:
    """1 / pivot; NaN if that is not positive."""
    if not isinstance(pivot, Expression):
        return 1.0 / pivot if pivot > 0 else np.nan
    graph, reciprocal = pivot.graph, 1.0 / pivot
    positive = graph.apply("gt", jax.lax.gt, reciprocal, 0.0)
    return graph.select_n(positive, np.nan, reciprocal)


class Ldl:
    """S = P^T L D L^T P of a symmetric matrix of scalars, in an order that keeps zeros."""

    def __init__(self, matrix: np.ndarray):
        self.order = elimination_order(matrix)
        a = np.array(matrix[np.ix_(self.order, self.order)], dtype=object)
        n = len(a)
        for j in range(n):
            a[j, j] = _reciprocal(a[j, j])
            below = [i for i in range(j + 1, n) if not known(a[i, j], 0)]
            column = {i: a[i, j] for i in below}
            for i in below:
                a[i, j] = column[i] * a[j, j]
                for k in below:
                    if k <= i:
                        a[i, k] = a[i, k] - a[i, j] * column[k]
        for j in range(n):
            a[:j, j] = 0.0
        self.packed = a

    def map(self, function: Any) -> Ldl:
        """The same with its entries mapped."""
        new = object.__new__(Ldl)
        new.order, new.packed = self.order, function(self.packed)
        return new

    def solve(self, b: np.ndarray) -> np.ndarray:
        """x with S x = b."""
        a, n = self.packed, len(self.packed)
        x = np.array(b[self.order], dtype=object)
        for j in range(n):
            for i in range(j + 1, n):
                if not known(a[i, j], 0):
                    x[i] = x[i] - a[i, j] * x[j]
        for j in reversed(range(n)):
            x[j] = x[j] * a[j, j]
            for i in range(j + 1, n):
                if not known(a[i, j], 0):
                    x[j] = x[j] - a[i, j] * x[i]
        out = np.empty_like(x)
        out[self.order] = x
        return out


def elimination_order(matrix: np.ndarray) -> np.ndarray:
    """An order of elimination with little fill: the row with the fewest neighbours comes next."""
    n = len(matrix)
    near = [{j for j in range(n) if j != i and not known(matrix[i, j], 0)} for i in range(n)]
    left, order = set(range(n)), []
    while left:
        chosen = min(left, key=lambda i: (len(near[i]), i))
        order.append(chosen)
        left.remove(chosen)
        for i in near[chosen]:
            near[i] = (near[i] | near[chosen]) - {i, chosen}
    return np.array(order, dtype=int)


class SmallFactor(ConstraintFactor):
    """The saddle-point matrix of a small system, entry by entry; see `ConstraintFactor`."""

    def __init__(self, jacobian: np.ndarray, spreader: np.ndarray, mass: Ldl | None, schur: Ldl):
        self._jacobian, self._spreader = jacobian, spreader
        self._mass, self._schur = mass, schur

    def solve(self, force: Array, gamma: Array) -> tuple[Array, Array]:
        graph = Graph()
        free, below = graph.inputs(self.weigh(force)), graph.inputs(gamma)
        G, spreader = graph.inputs(self._jacobian), graph.inputs(self._spreader)
        a, lam = solution(G, spreader, free, self._schur.map(graph.inputs), below)
        a, lam = graph.arrays(a, lam)
        return a, lam

    def weigh(self, force: Array) -> Array:
        if self._mass is None:
            return force
        graph = Graph()
        return graph.arrays(self._mass.map(graph.inputs).solve(graph.inputs(force)))[0]

    def apply(self, v: Array) -> Array:
        graph = Graph()
        return graph.arrays(product(graph.inputs(self._jacobian), graph.inputs(v)))[0]

    def multipliers(self, residual: Array) -> Array:
        graph = Graph()
        return graph.arrays(self._schur.map(graph.inputs).solve(graph.inputs(residual)))[0]

    def spread(self, lam: Array) -> Array:
        graph = Graph()
        return graph.arrays(product(graph.inputs(self._spreader), graph.inputs(lam)))[0]

    def correct(self, residual: Array) -> Array:
        graph = Graph()
        lam = self._schur.map(graph.inputs).solve(graph.inputs(residual))
        return graph.arrays(product(graph.inputs(self._spreader), lam))[0]
