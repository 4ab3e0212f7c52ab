"""Bodies and joints eliminated together: solvers for steps where elements couple bodies.

See `tangent.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier

from ..linalg import BlockLU, lu, lu_solve
from .base import Array
from .blocks import BlockPlan
from .dense import DenseBlocks
from .elements import Group, Indices, Scatter, take
from .step import Level
from .tangent_blocks import Blocks, Coupling, own_blocks, turned, whole
from .tangent_solvers import Rows, ends, lam_rows

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from .assembly import BodySet


def whole_elimination(
    joints: Sequence[Group],
    forces: Sequence[Group],
    couplings: Sequence[Coupling],
    plan: BlockPlan,
    frame: type,
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
    solver = BlockLU.plan(n + plan.joints, edges, max(frame.dof, plan.size), after)
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
    """Bodies and joints eliminated on one graph, augmented; at both levels y and s of a body, and
    l and m of a joint, are one block."""

    def __init__(self, bodies: Any, level: Level, augment: float):
        self._bodies, self._augment = bodies, augment
        self._level: Level = level
        self._rows = Rows.of(bodies, level)
        dof = bodies.dof * (2 if level == "both" else 1)
        size = max(dof, len(self._rows.filler))
        self._dof, self._solver = dof, replace(bodies.tangent.together, size=size)

    @property
    def elimination(self) -> BlockLU:
        """What is planned for many blocks."""
        return self._solver

    def _scales(self) -> Array:
        """Factors of the rows of constraints, (rows, 1): a mass where forces answer them."""
        mass = jnp.mean(self._bodies.mass)
        below = len(self._rows.filler) - self._rows.of_lam
        return jnp.concatenate([jnp.full((self._rows.of_lam,), mass), jnp.ones((below,))])[:, None]

    def _body_blocks(self, blocks: Blocks) -> tuple[Array, list[Array]]:
        """Those of the bodies themselves, and of couplings."""
        bodies, dof = self._bodies, self._bodies.dof
        groups = [*bodies.joints, *bodies.forces]
        if self._level != "both":
            couplings = []
            for (k, _, j), (damping, stiffness) in zip(
                bodies.tangent.couplings, blocks.couplings, strict=True
            ):
                block = jnp.zeros((dof, dof, groups[k].n)) if stiffness is None else stiffness
                if damping is not None:
                    block = block + turned(damping, take(blocks.spin, groups[k].nodes[j]))
                couplings.append(block)
            return whole(bodies, own_blocks(blocks)), couplings
        spin = whole(bodies, blocks.spin[..., 1:], 1.0) if blocks.spin.size else _units(bodies)
        inertia = whole(bodies, blocks.inertia)
        stiffness = jnp.zeros_like(inertia)
        if blocks.stiffness is not None:
            stiffness = whole(bodies, blocks.stiffness, 0.0)
        own = _square([[spin, -_units(bodies)], [stiffness, inertia]])
        couplings = []
        for (k, _, _), pair in zip(bodies.tangent.couplings, blocks.couplings, strict=True):
            zero = jnp.zeros((dof, dof, groups[k].n))
            damping, stiffness = (zero if x is None else x for x in pair)
            couplings.append(_square([[zero, zero], [stiffness, damping]]))
        return own, couplings

    def _joint_blocks(self, blocks: Blocks) -> tuple[list[Array], list[Array]]:
        """Of each end of the joints: the transposed columns of the multipliers, and the rows."""
        bodies = self._bodies
        B = ends(bodies, blocks.pulls)
        if self._level != "both":
            return B, ends(bodies, lam_rows(bodies, blocks, self._level))
        G = B if blocks.pulls is blocks.gradients else ends(bodies, blocks.gradients)
        place, speed, held = (
            ends(bodies, x) for x in (blocks.by_position, blocks.by_velocity, blocks.positions)
        )
        columns = [_square([[0 * b, b], [g, 0 * g]]) for b, g in zip(B, G, strict=True)]
        rows = [_square([[y, s], [x, 0 * x]]) for y, s, x in zip(place, speed, held, strict=True)]
        return columns, rows

    def prepare(self, blocks: Blocks) -> PyTree:
        bodies, solver, tangent = self._bodies, self._solver, self._bodies.tangent
        plan: BlockPlan = bodies.plans["all"]
        n, size, E = bodies.n, solver.size, solver.edge_count
        pad = lambda x: jnp.pad(x, ((0, size - x.shape[0]), (0, size - x.shape[1]), (0, 0)))  # noqa: E731
        own, couplings = self._body_blocks(blocks)
        unit = np.eye(size)[:, :, None]
        filled = unit * (np.arange(size) >= self._dof)[:, None, None]
        both = jnp.zeros((size, size, 2 * E))  # interleaved: forward, backward
        for table, block in zip(tangent.crossings, couplings, strict=True):
            both = both + _spread(pad(block), table, 2 * E)
        diagonal, forward, backward = pad(own) + filled, both[..., 0::2], both[..., 1::2]
        columns = None
        if plan.joints:
            G, C = self._joint_blocks(blocks)
            columns, s = (G, C), self._scales()
            heavy = [s[:, None] * c for c in C]
            tables, pairs = tangent.ends
            for table, g, c in zip(tables, G, heavy, strict=True):
                g = s[:, None] * g
                forward = forward + _spread(pad(c), table, E)
                backward = backward + _spread(pad(jnp.swapaxes(g, 0, 1)), table, E)
            outer = lambda g, c: jnp.asarray(  # noqa: E731
                sum(g[r][:, None] * c[r][None] for r in range(len(g)))
            )
            for table, g, c in zip(plan.nodes, G, heavy, strict=True):
                add = Scatter.plan(table, n + 1, ground=True)(outer(g, c))[..., 1:]
                diagonal = diagonal + self._augment * pad(add)
            for (a, b), table in pairs:
                both = _spread(pad(outer(G[a], heavy[b])), table, 2 * E)
                there = Indices.of(x ^ 1 if x >= 0 else x for x in table)
                both = both + _spread(pad(outer(G[b], heavy[a])), there, 2 * E)
                forward = forward + self._augment * both[..., 0::2]
                backward = backward + self._augment * both[..., 1::2]
            filler = self._rows.filler
            tail = jnp.asarray(filler)
            tail = jnp.pad(tail, ((0, size - len(filler)), (0, 0)), constant_values=1.0)
            diagonal = jnp.concatenate([diagonal, jnp.eye(size)[:, :, None] * tail], axis=-1)
        kind = jnp.result_type(diagonal, forward, backward)
        matrix = optimization_barrier(tuple(x.astype(kind) for x in (diagonal, forward, backward)))
        return blocks, columns, solver.factor(*matrix)

    def solve(
        self, factor: PyTree, motion: Array, constraints: Array, positions: Array | None
    ) -> Any:
        bodies, size = self._bodies, self._solver.size
        _, columns, whole_factor = factor
        upper = motion.reshape(bodies.dof, bodies.n)
        if self._level == "both":
            upper = jnp.concatenate([jnp.zeros_like(upper), upper])
        if columns is None:
            upper = jnp.pad(upper, ((0, size - self._dof), (0, 0)))
            x = self._solver.solve(whole_factor, upper)
            return x[: bodies.dof].ravel(), constraints, positions
        s = self._scales()
        lower = s * self._rows.wide(bodies, constraints, positions)
        plan: BlockPlan = bodies.plans["all"]
        for table, g in zip(plan.nodes, columns[0], strict=True):
            pull = sum(g[r] * lower[r] for r in range(len(g)))
            pull = Scatter.plan(table, bodies.n + 1, ground=True)(pull)[..., 1:]
            upper = upper + self._augment * pull
        upper = jnp.pad(upper, ((0, size - self._dof), (0, 0)))
        lower = jnp.pad(lower, ((0, size - len(lower)), (0, 0)))
        x = self._solver.solve(whole_factor, jnp.concatenate([upper, lower], axis=1))
        l, m = self._rows.narrow(bodies, s * x[: len(s), bodies.n :])
        return x[: bodies.dof, : bodies.n].ravel(), l, m


def _units(bodies: BodySet) -> Array:
    return jnp.broadcast_to(jnp.eye(bodies.dof)[:, :, None], (bodies.dof, bodies.dof, bodies.n))


def _square(parts: Sequence[Sequence[Array]]) -> Array:
    """One block of blocks (rows, columns, elements)."""
    return jnp.concatenate([jnp.concatenate(list(row), axis=1) for row in parts])


# -- small systems whose bodies are coupled, as one matrix ---------------------------------------


class Gathered:
    """The blocks gathered into one dense matrix with y, l and m for unknowns, which is factored
    with row exchanges."""

    elimination = None

    def __init__(self, bodies: Any, level: Level):
        self._bodies = bodies
        self._level: Level = level

    def prepare(self, blocks: Blocks) -> PyTree:
        bodies, level = self._bodies, self._level
        dense = lambda x: self._constraints(x)  # noqa: E731
        stiffness = blocks.stiffness
        spin = None
        if blocks.spin.size:
            spin = self._matrix(whole(bodies, blocks.spin[..., 1:], 1.0), ())
        zero = jnp.zeros((bodies.dof, bodies.dof, bodies.n))
        parts = DenseBlocks(
            inertia=self._matrix(whole(bodies, blocks.inertia), [x for x, _ in blocks.couplings]),
            stiffness=self._matrix(
                zero if stiffness is None else whole(bodies, stiffness, 0.0),
                [x for _, x in blocks.couplings],
            ),
            spin=spin,
            pulls=dense(blocks.pulls),
            gradients=dense(blocks.gradients),
            rows=dense(lam_rows(bodies, blocks, level)),
        )
        if level == "both":
            held = sum(g.rows * g.n for g in bodies.groups("holonomic"))
            parts = parts._replace(
                positions=dense(blocks.positions)[:held], by_velocity=dense(blocks.by_velocity)
            )
        return blocks, lu(optimization_barrier(parts.matrix()))

    def _constraints(self, local: Sequence[list[Array] | None]) -> Array:
        bodies = self._bodies
        full = [
            [jnp.zeros((g.rows, bodies.dof, g.n))] * len(g.nodes) if x is None else x
            for g, x in zip(bodies.joints, local, strict=True)
        ]
        return bodies.dense(full, "all")

    def _matrix(self, own: Array, couplings: Sequence[Array | None]) -> Array:
        """(nv, nv) from blocks of bodies and of couplings."""
        bodies = self._bodies
        n, dof = bodies.n, bodies.dof
        total = own[:, :, :, None] * np.eye(n)  # (dof, dof, body, body)
        groups = [*bodies.joints, *bodies.forces]
        for (k, i, j), block in zip(bodies.tangent.couplings, couplings, strict=False):
            if block is None:
                continue
            rows, columns = (groups[k].nodes[x].array() for x in (i, j))
            for e, (a, b) in enumerate(zip(rows, columns, strict=True)):
                if a and b:
                    place = np.zeros((n, n))
                    place[a - 1, b - 1] = 1.0
                    total = total + block[:, :, e, None, None] * place
        return jnp.swapaxes(total, 1, 2).reshape(dof * n, dof * n)

    def solve(
        self, factor: PyTree, motion: Array, constraints: Array, positions: Array | None
    ) -> Any:
        _, matrix = factor
        parts = [motion, constraints] + ([] if positions is None else [positions])
        x = lu_solve(matrix, jnp.concatenate(parts))
        n, m = motion.shape[0], motion.shape[0] + constraints.shape[0]
        return x[:n], x[n:m], None if positions is None else x[m:]
