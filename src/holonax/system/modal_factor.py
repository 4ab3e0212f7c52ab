"""Accelerations and projections of mechanisms with bodies that have modes, linear in the others.

Of S = G W G^T + shift the rows of joints among ordinary bodies are a matrix that blocks solve (see
`blocks.py`); those of joints at bodies with modes are its border (`linalg/bordered.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from ..linalg import cholesky, cholesky_solve
from ..linalg.bordered import factor_border, solve_border
from .array_types import Force, Multipliers, PerRow, Velocity
from .assembly import Weights
from .base import Array, ConstraintFactor, Metric, Rows
from .blocks import BlockConstraintFactor
from .elements import Indices, take
from .modal_graph import inverse

if TYPE_CHECKING:
    from .modal import ModalBodySet


class ModalConstraintFactor(ConstraintFactor):
    """Range-space solution with the Schur complement over the joints, near ones at its border."""

    def __init__(
        self,
        bodies: ModalBodySet,
        q: Array,
        t: Array,
        metric: Metric,
        rows: Rows,
        shift: Array | float,
    ):
        graph = bodies.graph
        assert graph is not None
        self._bodies, self._graph, self._q, self._shift = bodies, graph, q, shift
        self._rows: Rows = rows
        own = [bodies.place(k, q) for k in range(len(bodies.flexible))]
        self._masses = None
        if metric == "mass":
            pairs = zip(bodies.flexible, own, strict=True)
            self._masses = [cholesky(body.block(*place)) for body, place in pairs]
        self._weights = Weights.of(graph.rigid, metric)
        self._blocks = bodies.blocks(q, t, rows)
        far = graph.joint_blocks(self._blocks)[: len(graph.rigid.groups(rows))]
        plan = graph.rigid.plans[rows]
        self._far = BlockConstraintFactor(plan, graph.rigid, far, self._weights, rows, shift, False)
        all_rows = rows == "all"
        self._parts = (
            graph.far if all_rows else graph.holonomic(graph.far),
            graph.near if all_rows else graph.holonomic(graph.near),
        )
        sizes = len(self._parts[0]), len(self._parts[1])
        self._reaching = np.arange(sizes[1])
        solve = self._far.multipliers
        self._border = factor_border(self._schur, solve, sizes, self._reaching)

    def _schur(self, far: Array, near: Array) -> tuple[Array, Array]:
        lam = self._merged(far, near)
        out = self.apply(self.spread(lam)) + self._shift * lam
        return take(out, self._parts[0]), take(out, self._parts[1])

    def _merged(self, far: Array, near: Array) -> Array:
        order = Indices.of([*self._parts[0], *self._parts[1]])
        return take(jnp.concatenate([far, near]), inverse(order))

    def weigh(self, force: Force) -> Velocity:
        bodies = self._bodies
        ordinary, own = bodies.entries()
        light = self._weights.apply(self._graph.rigid, take(force, ordinary))
        rest = bodies.by_body(take(force, own))
        if self._masses is not None:
            pairs = zip(self._masses, rest, strict=True)
            rest = [cholesky_solve(factor, x) for factor, x in pairs]
        merged = inverse(Indices.of([*ordinary, *own]))
        return take(jnp.concatenate([light, *rest]), merged)

    def apply(self, v: Velocity) -> PerRow:
        bodies = self._bodies
        return bodies.every.apply(self._blocks, bodies.spread(self._q, v)[1], self._rows)

    def spread(self, lam: Multipliers) -> Velocity:
        bodies = self._bodies
        pull = bodies.every.apply_transpose(self._blocks, lam, self._rows)
        return self.weigh(bodies.pulled(self._q, pull))

    def solve(self, force: Force, gamma: PerRow) -> tuple[Velocity, Multipliers]:
        free = self.weigh(force)
        if not sum(map(len, self._parts)):
            return free, jnp.zeros((0,))
        lam = self.multipliers(self.apply(free) - gamma)
        return free - self.spread(lam), lam

    def multipliers(self, residual: PerRow) -> Multipliers:
        far, near = self._parts
        sides = take(residual, far), take(residual, near)
        solve = self._far.multipliers
        return self._merged(*solve_border(self._border, self._schur, solve, self._reaching, sides))
