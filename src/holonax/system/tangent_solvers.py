"""Two ways to solve with Newton's matrix of an implicit step; see `tangent.py`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier

from ..linalg import BlockCholesky, BlockLU, DenseBlockLU, lu, lu_solve, minimum_degree
from .base import Array
from .blocks import BlockPlan
from .elements import Group, Indices, Scatter, take
from .tangent_blocks import Blocks, Coupling, by_body, whole

# Up to this many rows of bodies and joints together are gathered into one dense matrix.
DENSE_BLOCKS = 72
_PROXIMAL = 1e-10  # relative size of what is added for dependent constraints


class EachBody:
    """Each body eliminated by itself, then the joints: S = C K^-1 G^T."""

    def __init__(self, bodies: Any, blocks: Blocks, augment: Any, shift: bool):
        self._bodies, self._blocks = bodies, blocks
        self._mass = 1 / bodies.mass
        self._inverse = _inverses(blocks.diagonal)
        self._plan = bodies.tangent.schur
        if self._plan is not None:
            self._factor = self._plan.factor(bodies, blocks, self._mass, self._inverse, shift)

    def _weigh(self, force: Array) -> Array:
        x = force.reshape(self._bodies.dof, self._bodies.n)
        return by_body(self._bodies, self._mass, self._inverse, x).ravel()

    def solve(self, motion: Array, constraints: Array) -> tuple[Array, Array]:
        bodies, blocks = self._bodies, self._blocks
        free = self._weigh(motion)
        if self._plan is None:
            return free, constraints
        residual = bodies.apply(blocks.constraints, free, "all") - constraints
        dl = self._plan.solve(self._factor, bodies, residual)
        return free - self._weigh(bodies.apply_transpose(blocks.gradients, dl, "all")), dl


def _inverses(A: Array) -> Array:
    """The inverses of many matrices (b, b, n), by Gauss and Jordan without row exchanges."""
    b = len(A)
    for j in range(b):
        pivot = 1 / A[j, j]
        row, column = A[j] * pivot, A[:, j]
        pivot, row, column = optimization_barrier((pivot, row, column))
        here = np.arange(b) == j
        rest = A - column[:, None] * row[None]
        rest = jnp.where(here[:, None, None], row[None], rest)
        edge = jnp.where(here[:, None], pivot[None], -column * pivot)
        A = optimization_barrier(jnp.where(here[None, :, None], edge[:, None], rest))
    return A


class _SchurPlan(eqx.Module):
    """The elimination of the joints after the bodies."""

    solver: Any  # BlockLU, or None where the matrix is gathered and factored dense
    plan: BlockPlan
    entries: Indices = eqx.field(static=True)
    rows: Indices = eqx.field(static=True)

    def factor(self, bodies: Any, blocks: Blocks, mass: Array, inverse: Array, shift: bool) -> Any:
        """Factor C K^-1 G^T for the inverses of the bodies' masses and blocks."""
        plan, dof, groups = self.plan, bodies.dof, bodies.groups("all")
        wide, light = bodies.with_ground(inverse), bodies.with_ground(mass)
        first, size = dof - len(inverse), len(inverse)
        gradients = [plan.ends(groups, blocks.gradients, k, dof) for k in range(len(plan.nodes))]
        if all(c is g for c, g in zip(blocks.constraints, blocks.gradients, strict=True)):
            constraints = gradients
        else:
            constraints = [
                plan.ends(groups, blocks.constraints, k, dof) for k in range(len(plan.nodes))
            ]
        weighed = []
        for block, table in zip(gradients, plan.nodes, strict=True):
            W, m = take(wide, table), take(light, table)
            moved = [m * block[:, c] for c in range(first)]
            turned = [sum(W[c, d] * block[:, first + d] for d in range(size)) for c in range(size)]
            weighed.append(jnp.stack([*moved, *turned], axis=1))
        constraints, weighed = optimization_barrier((constraints, weighed))

        def product(a: Array, b: Array) -> Array:
            return sum(a[:, None, c] * b[None, :, c] for c in range(dof))  # pyright: ignore

        diagonal: Any = sum(product(a, b) for a, b in zip(constraints, weighed, strict=True))
        filler = plan.filler(groups)
        unit = np.eye(plan.size)[:, :, None]
        if filler is not None:
            diagonal = diagonal + unit * filler
        if shift:
            diagonal = diagonal + _PROXIMAL * jnp.abs(diagonal) * unit
        off = []
        if plan.edges:
            C, W = jnp.concatenate(constraints, axis=-1), jnp.concatenate(weighed, axis=-1)
            for left, right in ((plan.left, plan.right), (plan.right, plan.left)):
                block = product(take(C, left), take(W, right))
                if len(plan.edge) > plan.edges:
                    block = Scatter.plan(plan.edge, plan.edges)(block)
                off.append(block)
        else:
            off = [jnp.zeros((plan.size, plan.size, 0))] * 2
        diagonal, off = optimization_barrier((diagonal, off))
        if self.solver is not None:
            return self.solver.factor(diagonal, *off)
        flat = jnp.concatenate([diagonal.ravel(), *(x.ravel() for x in off), jnp.zeros((1,))])
        m = len(self.rows)
        return lu(optimization_barrier(take(flat, self.entries).reshape(m, m)), pivot=False)

    def solve(self, factor: Any, bodies: Any, residual: Array) -> Array:
        """Multipliers for a residual of the constraints."""
        plan, groups = self.plan, bodies.groups("all")
        wide = plan.padded(groups, bodies.split(residual, "all"))
        if self.solver is not None:
            return plan.unpadded(groups, self.solver.solve(factor, wide))
        x = lu_solve(factor, take(wide.ravel(), self.rows))
        spread = Scatter.plan(self.rows, plan.size * plan.joints)(x)
        return plan.unpadded(groups, spread.reshape(plan.size, plan.joints))


def joint_elimination(plan: BlockPlan, joints: Sequence[Group]) -> _SchurPlan | None:
    """The elimination of the joints after their bodies; None without joints."""
    if not plan.joints:
        return None
    J, E, size = plan.joints, plan.edges, plan.size
    pair = {e: (a % J, b % J) for e, a, b in zip(plan.edge, plan.left, plan.right, strict=True)}
    edges = np.array([pair[e] for e in range(E)], dtype=np.int64).reshape(-1, 2)
    counts = [g.rows for g in joints for _ in range(g.n)]
    order = minimum_degree(J, edges)[0].tolist()
    rows = [(r, j) for j in order for r in range(counts[j])]
    if isinstance(plan.solver, BlockCholesky):
        return _SchurPlan(BlockLU.plan(J, edges, size), plan, Indices(), Indices())
    where = {(int(i), int(j)): e for e, (i, j) in enumerate(edges)}
    end = size * size * (J + 2 * E)

    def index(a: tuple[int, int], b: tuple[int, int]) -> int:
        (r, i), (s, j) = a, b
        if i == j:
            return (r * size + s) * J + i
        if (i, j) in where:
            return size * size * J + (r * size + s) * E + where[i, j]
        if (j, i) in where:
            return size * size * (J + E) + (r * size + s) * E + where[j, i]
        return end

    entries = Indices.of(index(a, b) for a in rows for b in rows)
    return _SchurPlan(None, plan, entries, Indices.of(r * J + j for r, j in rows))


# -- bodies and joints together ----------------------------------------------------------------


def whole_elimination(
    joints: Sequence[Group],
    forces: Sequence[Group],
    couplings: Sequence[Coupling],
    plan: BlockPlan,
    frame: Any,
    n: int,
) -> tuple[Any, Any, Any]:
    """The elimination of bodies and joints on one graph, and where their blocks go.

    Blocks 0 ... n - 1 are the bodies, the joints follow. Edge (i, j) has i > j: of a joint and
    its body, of two coupled bodies, and of two bodies of one joint, which rho G^T C couples.
    """
    edge_of: dict[tuple[int, int], int] = {}

    def edge(i: int, j: int) -> int:
        """Twice the number of the edge, and one if the block at (i, j) is the backward one."""
        e = edge_of.setdefault((max(i, j), min(i, j)), len(edge_of))
        return 2 * e + (i < j)

    ends = []  # for each node of joints: edge of (joint, body), or -1
    for bodies in plan.nodes:
        ends.append([edge(n + k, b - 1) // 2 if b else -1 for k, b in enumerate(bodies)])
    after: dict[int, set[int]] = {}
    for bodies in plan.nodes:
        for k, b in enumerate(bodies):
            if b:
                after.setdefault(n + k, set()).add(b - 1)
    pairs = []  # of nodes of one joint, for rho G^T C
    for a, b in combinations(range(len(plan.nodes)), 2):
        both = zip(plan.nodes[a], plan.nodes[b], strict=True)
        pairs.append(((a, b), [edge(i - 1, j - 1) if i and j and i != j else -1 for i, j in both]))
    groups = [*joints, *forces]
    crossings = []
    for k, i, j in couplings:
        tables = groups[k].nodes
        both = zip(tables[i], tables[j], strict=True)
        crossings.append([edge(a - 1, b - 1) if a and b and a != b else -1 for a, b in both])
    edges = np.array(list(edge_of), dtype=np.int64).reshape(-1, 2)
    size = max(frame.dof, plan.size)
    small = (n + plan.joints) * size <= DENSE_BLOCKS and not isinstance(plan.solver, BlockCholesky)
    solver = (DenseBlockLU if small else BlockLU).plan(n + plan.joints, edges, size, after)
    return (
        solver,
        (tuple(Indices.of(x) for x in ends), tuple((p, Indices.of(x)) for p, x in pairs)),
        tuple(Indices.of(x) for x in crossings),
    )


def _spread(values: Array, targets: Indices, count: int) -> Array:
    """Sum values onto targets, those at -1 nowhere."""
    shifted = Indices.of(x + 1 for x in targets)
    return Scatter.plan(shifted, count + 1, ground=True)(values)[..., 1:]


class Together:
    """Bodies and joints eliminated on one graph, augmented."""

    def __init__(self, bodies: Any, blocks: Blocks, augment: Any, shift: bool):
        self._bodies, self._blocks = bodies, blocks
        tangent = bodies.tangent
        self._solver = solver = tangent.together
        n, dof, size, E = bodies.n, bodies.dof, solver.size, solver.edge_count
        plan: BlockPlan = bodies.plans["all"]
        groups = bodies.groups("all")
        self._scale = s = jnp.mean(bodies.mass)
        self._augment = augment
        pad = lambda x: jnp.pad(x, ((0, size - x.shape[0]), (0, size - x.shape[1]), (0, 0)))  # noqa: E731
        own = whole(bodies, blocks.diagonal)
        unit = np.eye(size)[:, :, None]
        filled = unit * (np.arange(size) >= dof)[:, None, None]
        both = jnp.zeros((size, size, 2 * E))  # interleaved: forward, backward
        for table, block in zip(tangent.crossings, blocks.couplings, strict=True):
            both = both + _spread(pad(block), table, 2 * E)
        forward, backward = both[..., 0::2], both[..., 1::2]
        if plan.joints:
            G = [plan.ends(groups, blocks.gradients, k, dof) for k in range(len(plan.nodes))]
            C = [plan.ends(groups, blocks.constraints, k, dof) for k in range(len(plan.nodes))]
            ends, pairs = tangent.ends
            for table, g, c in zip(ends, G, C, strict=True):
                forward = forward + s * _spread(pad(c), table, E)
                backward = backward + s * _spread(pad(jnp.swapaxes(g, 0, 1)), table, E)
            outer = lambda g, c: sum(  # noqa: E731
                g[r][:, None] * c[r][None] for r in range(plan.size)
            )
            for table, g, c in zip(plan.nodes, G, C, strict=True):
                add = Scatter.plan(table, n + 1, ground=True)(jnp.asarray(outer(g, c)))[..., 1:]
                own = own + augment * s * add
            for (a, b), table in pairs:
                both = _spread(pad(jnp.asarray(outer(G[a], C[b]))), table, 2 * E)
                there = Indices.of(x ^ 1 if x >= 0 else x for x in table)
                both = both + _spread(pad(jnp.asarray(outer(G[b], C[a]))), there, 2 * E)
                forward = forward + augment * s * both[..., 0::2]
                backward = backward + augment * s * both[..., 1::2]
            filler = plan.filler(groups)
            tail = jnp.zeros((plan.size, plan.joints)) if filler is None else filler
            tail = jnp.pad(tail, ((0, size - len(tail)), (0, 0)), constant_values=1.0)
            if shift:
                tail = tail - (tail == 0) * _PROXIMAL * s
            corner = jnp.eye(size)[:, :, None] * tail
            filled = jnp.eye(size)[:, :, None] * (np.arange(size) >= dof)[:, None, None]
            diagonal = jnp.concatenate([pad(own) + filled, corner], axis=-1)
        else:
            diagonal = (
                pad(own) + jnp.eye(size)[:, :, None] * (np.arange(size) >= dof)[:, None, None]
            )
        blocks_of = optimization_barrier((diagonal, forward, backward))
        self._factor = solver.factor(*blocks_of)

    def solve(self, motion: Array, constraints: Array) -> tuple[Array, Array]:
        bodies, blocks, s = self._bodies, self._blocks, self._scale
        plan: BlockPlan = bodies.plans["all"]
        groups, size = bodies.groups("all"), self._solver.size
        pull = bodies.apply_transpose(blocks.gradients, constraints, "all")
        upper = (motion + self._augment * s * pull).reshape(bodies.dof, bodies.n)
        upper = jnp.pad(upper, ((0, size - bodies.dof), (0, 0)))
        if not plan.joints:
            x = self._solver.solve(self._factor, upper)
            return x[: bodies.dof].ravel(), constraints
        lower = plan.padded(groups, bodies.split(s * constraints, "all"))
        lower = jnp.pad(lower, ((0, size - plan.size), (0, 0)))
        x = self._solver.solve(self._factor, jnp.concatenate([upper, lower], axis=1))
        dl = plan.unpadded(groups, x[: plan.size, bodies.n :])
        return x[: bodies.dof, : bodies.n].ravel(), s * dl
