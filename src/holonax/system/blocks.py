"""Saddle-point solver of mechanisms: the Schur complement over the joints, by blocks.

Block (k, l) of S = G W G^T is non-zero when joints k and l share a body. The order of elimination
and all tables are computed once on the host; the numeric phase is a compiled loop, so neither the
program nor its compile time grows with the number of bodies. Small Schur complements are gathered
into a dense matrix instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import custom_linear_solve, optimization_barrier, stop_gradient

from .._modules import Module
from ..linalg import (
    BlockCholesky,
    cholesky,
    cholesky_substitute,
    minimum_degree,
)
from ..linalg.limits import JOINT_ROWS
from .array_types import Force, Multipliers, PerRow, Velocity
from .base import Array, ConstraintFactor, Rows
from .dense import PROXIMAL, dependent_multipliers, is_zero, proximal_scale
from .elements import Group, Indices, Scatter, take

if TYPE_CHECKING:
    from .assembly import BodySet, Weights


class DenseSchur(Module):
    """A small Schur complement gathered from its blocks into a dense matrix, in an order of
    elimination with little fill."""

    joints: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    entries: Indices = eqx.field(static=True)  # flat index of each matrix entry among the blocks
    rows: Indices = eqx.field(static=True)  # flat index of each row in (size, joints)

    @staticmethod
    def plan(groups: Sequence[Group], edges: np.ndarray, size: int) -> DenseSchur:
        """For joints with the rows of `groups` and off-diagonal blocks at `edges`."""
        counts = _rows_of(groups)
        joints, count = len(counts), len(edges)
        order = minimum_degree(joints, edges, side_by_side=True)[0].tolist()
        rows = [(r, j) for j in order for r in range(counts[j])]
        at = {(int(i), int(j)): e for e, (i, j) in enumerate(edges)}
        offset, missing = size * size * joints, size * size * (joints + count)

        def index(a: tuple[int, int], b: tuple[int, int]) -> int:
            (r, i), (s, j) = a, b
            if i == j:
                return (r * size + s) * joints + i
            if (i, j) in at:
                return offset + (r * size + s) * count + at[i, j]
            if (j, i) in at:
                return offset + (s * size + r) * count + at[j, i]
            return missing

        return DenseSchur(
            joints,
            size,
            Indices.of(index(a, b) for a in rows for b in rows),
            Indices.of(r * joints + j for r, j in rows),
        )

    def factor(self, diagonal: Array, off: Array) -> Any:
        """Cholesky factor of the assembled matrix."""
        flat = jnp.concatenate([diagonal.ravel(), off.ravel(), jnp.zeros((1,))])
        m = len(self.rows)
        return cholesky(optimization_barrier(take(flat, self.entries).reshape(m, m)))

    def substitute(self, factor: Any, rhs: Array) -> Array:
        """Solution as (size, joints), zero in padded rows; not for derivatives."""
        x = cholesky_substitute(factor, take(rhs.ravel(), self.rows))
        wide = Scatter.plan(self.rows, self.size * self.joints)(x)
        return wide.reshape(self.size, self.joints)


def _rows_of(groups: Sequence[Group]) -> list[int]:
    """Number of rows of each joint."""
    return [g.rows for g in groups for _ in range(g.n)]


class BlockPlan(Module):
    """Which joints share which bodies, and the planned factorisation of their Schur complement.

    Every joint is one block; joints with fewer rows than the largest are padded with unit
    rows. `nodes[k]` is the body at node k of each joint (0 the ground). Pair p of joint ends at the
    same body, `left[p]` and `right[p]` as node * joints + joint, adds to off-diagonal block
    `edge[p]`.
    """

    solver: BlockCholesky | DenseSchur
    size: int = eqx.field(static=True)
    joints: int = eqx.field(static=True)
    edges: int = eqx.field(static=True)
    nodes: tuple[Indices, ...] = eqx.field(static=True)
    left: Indices = eqx.field(static=True)
    right: Indices = eqx.field(static=True)
    edge: Indices = eqx.field(static=True)

    @staticmethod
    def of(groups: Sequence[Group], solver: str = "auto") -> BlockPlan:
        """Plan for the given constraint groups; `solver` is "auto", "dense" or "block"."""
        if not groups:
            return BlockPlan(DenseSchur(0, 0, Indices(), Indices()), 0, 0, 0, (), *[Indices()] * 3)
        depth = max(len(g.nodes) for g in groups)
        joints = sum(g.n for g in groups)
        nodes = [
            [i for g in groups for i in (g.nodes[k] if k < len(g.nodes) else [0] * g.n)]
            for k in range(depth)
        ]
        at_body: dict[int, list[tuple[int, int]]] = {}
        for k, bodies in enumerate(nodes):
            for joint, body in enumerate(bodies):
                if body:
                    at_body.setdefault(body, []).append((joint, k))
        edge_of: dict[tuple[int, int], int] = {}
        pairs = []
        for ends in at_body.values():
            for (j, kj), (i, ki) in combinations(sorted(ends), 2):
                if i != j:
                    edge = edge_of.setdefault((i, j), len(edge_of))
                    pairs.append((edge, ki * joints + i, kj * joints + j))
        pairs.sort()
        size = max(g.rows for g in groups)
        edges = np.array(list(edge_of), dtype=np.int64).reshape(-1, 2)
        dense = solver == "dense" or (solver == "auto" and sum(_rows_of(groups)) <= JOINT_ROWS)
        return BlockPlan(
            solver=DenseSchur.plan(groups, edges, size)
            if dense
            else BlockCholesky.plan(joints, edges, size),
            size=size,
            joints=joints,
            edges=len(edge_of),
            nodes=tuple(Indices.of(x) for x in nodes),
            left=Indices.of(p[1] for p in pairs),
            right=Indices.of(p[2] for p in pairs),
            edge=Indices.of(p[0] for p in pairs),
        )

    def padded(self, groups: Sequence[Group], parts: Sequence[Array]) -> Array:
        """Rows of multipliers or residuals, group by group, as (size, joints)."""
        wide = [
            jnp.pad(part, ((0, self.size - g.rows), (0, 0))) if g.rows < self.size else part
            for g, part in zip(groups, parts, strict=True)
        ]
        return wide[0] if len(wide) == 1 else jnp.concatenate(wide, axis=1)

    def unpadded(self, groups: Sequence[Group], wide: Array) -> Array:
        """The inverse of `padded`, flattened."""
        out, at = [], 0
        for g in groups:
            out.append(wide[: g.rows, at : at + g.n].ravel())
            at += g.n
        return out[0] if len(out) == 1 else jnp.concatenate(out)

    def ends(
        self, groups: Sequence[Group], blocks: Sequence[Sequence[Array]], k: int, dof: int
    ) -> Array:
        """Blocks of all joints at node k, (size, dof, joints); zero where there is none."""
        size = self.size
        parts = [
            jnp.pad(block[k], ((0, size - g.rows), (0, 0), (0, 0)))
            if k < len(g.nodes)
            else jnp.zeros((size, dof, g.n))
            for g, block in zip(groups, blocks, strict=True)
        ]
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)

    def schur(
        self, groups: Sequence[Group], blocks: Any, weights: Weights, bodies: BodySet
    ) -> tuple[Array, Array]:
        """Diagonal (size, size, joints) and off-diagonal (size, size, edges) blocks of S."""
        dof, size = bodies.dof, self.size
        ends = [self.ends(groups, blocks, k, dof) for k in range(len(self.nodes))]
        mass = bodies.with_ground(weights.mass)
        inertia = bodies.with_ground(weights.inertia)
        d = bodies.translations
        weighed = []
        for block, table in zip(ends, self.nodes, strict=True):
            turned = bodies.apply_inertia(
                take(inertia, table), [block[:, c] for c in range(d, dof)]
            )
            moved = [block[:, c] * take(mass, table) for c in range(d)]
            weighed.append(jnp.stack([*moved, *turned], axis=1))
        ends, weighed = optimization_barrier((ends, weighed))

        def product(a: Array, b: Array) -> Array:
            """a b^T over all columns, written out so that it stays one vectorised loop."""
            return sum(a[:, None, c] * b[None, :, c] for c in range(dof))  # pyright: ignore

        diagonal = sum(product(a, b) for a, b in zip(ends, weighed, strict=True))
        filler = self.filler(groups)
        if filler is not None:
            diagonal = diagonal + np.eye(size)[:, :, None] * filler
        if not self.edges:
            return jnp.asarray(diagonal), jnp.zeros((size, size, 0))
        left = take(jnp.concatenate(ends, axis=-1), self.left)
        right = take(jnp.concatenate(weighed, axis=-1), self.right)
        off = product(left, right)
        if len(self.edge) > self.edges:
            off = Scatter.plan(self.edge, self.edges)(off)
        return optimization_barrier((jnp.asarray(diagonal), off))

    def filler(self, groups: Sequence[Group]) -> np.ndarray | None:
        """Ones on the diagonal of padded rows."""
        if all(g.rows == self.size for g in groups):
            return None
        return np.concatenate(
            [np.tile((np.arange(self.size) >= g.rows)[:, None], (1, g.n)) for g in groups], axis=1
        ).astype(float)


class BlockConstraintFactor(ConstraintFactor):
    """Range-space solution with the block-sparse Schur complement G W G^T + shift."""

    def __init__(
        self,
        plan: BlockPlan,
        bodies: Any,
        blocks: Sequence[Sequence[Array]],
        weights: Weights,
        rows: Rows,
        shift: Array | float,
        redundant: bool,
    ):
        self._plan, self._bodies, self._blocks = plan, bodies, blocks
        self._weights, self._rows = weights, rows
        self._shift, self._redundant = shift, redundant
        self._groups = bodies.groups(rows)
        if not self._groups:
            return
        diagonal, off = plan.schur(self._groups, blocks, weights, bodies)
        unit = jnp.eye(plan.size)[:, :, None]
        if not is_zero(shift):
            diagonal = diagonal + shift * unit
        if redundant:
            scale = proximal_scale(jnp.stack([diagonal[r, r] for r in range(plan.size)]))
            self._scale = plan.unpadded(self._groups, scale)
            diagonal = diagonal + PROXIMAL * scale * unit
        self._factor = plan.solver.factor(*stop_gradient((diagonal, off)))

    def weigh(self, force: Force) -> Velocity:
        return self._weights.apply(self._bodies, force)

    def apply(self, v: Velocity) -> PerRow:
        return self._bodies.apply(self._blocks, v, self._rows)

    def solve(self, force: Force, gamma: PerRow) -> tuple[Velocity, Multipliers]:
        free = self.weigh(force)
        if not self._groups:
            return free, jnp.zeros((0,))
        lam = self.multipliers(self.apply(free) - gamma)
        return free - self.spread(lam), lam

    def _product(self, lam: Multipliers) -> PerRow:
        """(G W G^T + shift) lam."""
        found = self.apply(self.spread(lam))
        return found if is_zero(self._shift) else found + self._shift * lam

    def _solve(self, product: Callable[[Multipliers], PerRow], residual: PerRow) -> Multipliers:
        """The solution by the factor of S, whose `product` with multipliers is given.

        What is differentiated is that product, joint by joint: less than the blocks of S.
        """
        plan = self._plan

        def substitute(_: Any, residual: PerRow) -> Multipliers:
            wide = plan.padded(self._groups, self._bodies.split(residual, self._rows))
            return plan.unpadded(self._groups, plan.solver.substitute(self._factor, wide))

        return custom_linear_solve(product, residual, substitute, symmetric=True)

    def multipliers(self, residual: PerRow) -> Multipliers:
        if not self._groups:
            return residual
        if self._redundant:
            regular = lambda x: self._product(x) + PROXIMAL * self._scale * x  # noqa: E731
            solve = lambda r: self._solve(regular, r)  # noqa: E731
            return dependent_multipliers(residual, self._product, solve, self._scale)
        return self._solve(self._product, residual)

    def several_multipliers(self, residuals: Sequence[PerRow]) -> list[Multipliers]:
        by_blocks = bool(self._groups) and isinstance(self._plan.solver, BlockCholesky)
        if self._redundant or not by_blocks:
            return super().several_multipliers(residuals)
        # the factor is read once, and what one residual waits for leaves time for the others
        return list(jax.vmap(self.multipliers)(jnp.stack(residuals)))

    def spread(self, lam: Multipliers) -> Velocity:
        total = self._bodies.apply_transpose(self._blocks, lam, self._rows)
        return self._weights.apply(self._bodies, total)
