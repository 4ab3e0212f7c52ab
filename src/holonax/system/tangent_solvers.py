"""Each body eliminated by itself, then the joints: a solver for steps where nothing couples bodies.

See `tangent.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier

from .._modules import Module
from ..linalg import BlockCholesky, BlockLU, lu, lu_solve, minimum_degree
from ..linalg.limits import UNROLLED_ROWS
from .base import Array
from .blocks import BlockPlan
from .elements import Indices, Scatter, take
from .step import Level
from .tangent_blocks import (
    Blocks,
    by_body,
    own_blocks,
    rate_rows,
    spun,
    times,
)

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from .assembly import BodySet


class Rows(NamedTuple):
    """The constraint rows of all joints, those of lam and, at both levels, those of mu below them.

    `filler` (rows, joints) is one for rows of the padding.
    """

    level: Level
    of_lam: int  # rows of lam of a joint
    filler: np.ndarray

    @staticmethod
    def of(bodies: BodySet, level: Level) -> Rows:
        """Of the joints of these bodies."""
        plan, groups = bodies.plans["all"], bodies.groups("all")
        filler = plan.filler(groups)
        filler = np.zeros((plan.size, plan.joints)) if filler is None else filler
        if level == "both":
            held = np.concatenate([np.full(g.n, g.is_holonomic) for g in groups] or [[]])
            filler = np.concatenate([filler, np.where(held, filler, 1.0)])
        return Rows(level, plan.size, filler)

    def wide(self, bodies: BodySet, constraints: Array, positions: Array | None) -> Array:
        """Right-hand sides as (rows, joints)."""
        plan, groups = bodies.plans["all"], bodies.groups("all")
        upper = plan.padded(groups, bodies.split(constraints, "all"))
        if self.level != "both":
            return upper
        assert positions is not None
        rest = constraints.shape[0] - positions.shape[0]
        held = jnp.concatenate([positions, jnp.zeros((rest,), positions.dtype)])
        return jnp.concatenate([upper, plan.padded(groups, bodies.split(held, "all"))])

    def narrow(self, bodies: BodySet, x: Array) -> tuple[Array, Array | None]:
        """(l, m) from (rows, joints)."""
        plan, groups = bodies.plans["all"], bodies.groups("all")
        lam = plan.unpadded(groups, x[: self.of_lam])
        if self.level != "both":
            return lam, None
        held = [g for g in groups if g.is_holonomic]
        return lam, plan.unpadded(held, x[self.of_lam :]) if held else lam[:0]


def ends(bodies: BodySet, local: Sequence[list[Array] | None]) -> list[Array]:
    """Blocks of all joints at each node, (rows, dof, joints); zero where there are none."""
    plan, groups, dof = bodies.plans["all"], bodies.groups("all"), bodies.dof
    full = [
        [jnp.zeros((g.rows, dof, g.n))] * len(g.nodes) if x is None else x
        for g, x in zip(groups, local, strict=True)
    ]
    return [plan.ends(groups, full, k, dof) for k in range(len(plan.nodes))]


def lam_rows(bodies: BodySet, blocks: Blocks, level: Level) -> list[list[Array] | None]:
    """The constraint rows that go with lam, by y."""
    rates = rate_rows(bodies, blocks)
    if level != "position":
        return rates
    return [x if y is None else y for x, y in zip(blocks.positions, rates, strict=True)]


def applied(bodies: BodySet, local: Sequence[list[Array] | None], x: Array) -> Array:
    """Rows of all groups times a vector, those that are missing zero."""
    full = [
        [jnp.zeros((g.rows, bodies.dof, g.n))] * len(g.nodes) if y is None else y
        for g, y in zip(bodies.joints, local, strict=True)
    ]
    return bodies.apply(full, x, "all")


def padded_mu(m: Array, like: Array) -> Array:
    """Multipliers of the position as ones of all rows."""
    return jnp.concatenate([m, jnp.zeros((like.shape[0] - m.shape[0],), m.dtype)])


class EachBody:
    """Each body eliminated by itself, then the joints.

    With W = (N R + Q)^-1 of the bodies, what is left for the multipliers is

        [ C1 W B   C1 W N G^T - G s-rows ] [l]
        [ C2 W B   C2 W N G^T            ] [m]

    C1 and C2 being the rows of lam and of mu by y.
    """

    def __init__(self, bodies: Any, level: Level):
        self._bodies = bodies
        self._level: Level = level
        self._plan = bodies.tangent.schur
        self._rows = Rows.of(bodies, level) if self._plan is not None else None

    @property
    def elimination(self) -> BlockLU | None:
        """What is planned for many blocks."""
        return None if self._plan is None else self._plan.solver

    def prepare(self, blocks: Blocks) -> PyTree:
        bodies, level = self._bodies, self._level
        own = own_blocks(blocks)
        inverse = _inverses(own)
        error = _inversion_error(own, inverse)
        if self._plan is None:
            return blocks, inverse, None, None, error
        first = lam_rows(bodies, blocks, level)
        C, B = ends(bodies, first), ends(bodies, blocks.pulls)
        less = None
        if level == "both":
            G = B if blocks.pulls is blocks.gradients else ends(bodies, blocks.gradients)
            second = ends(bodies, blocks.positions)
            C = [jnp.concatenate(pair) for pair in zip(C, second, strict=True)]
            heavy = self._weighed(G, bodies.mass, blocks.inertia)
            B = [jnp.concatenate(pair) for pair in zip(B, heavy, strict=True)]
            # the ground does not move
            moving = [(table.array() > 0).astype(float) for table in bodies.plans["all"].nodes]
            free = [x * g for x, g in zip(moving, G, strict=True)]
            less = ends(bodies, blocks.by_velocity), free
        C, W = optimization_barrier((C, self._weighed(B, 1 / bodies.mass, inverse)))
        factor = self._plan.factor(self._rows, C, W, less)
        return blocks, inverse, first, factor, error

    def _weighed(self, blocks: list[Array], mass: Array, block: Array) -> list[Array]:
        """Blocks of bodies times those of the ends of joints, transposed as these."""
        bodies, plan = self._bodies, self._bodies.plans["all"]
        wide, light = bodies.with_ground(block), bodies.with_ground(mass)
        first, size = bodies.dof - len(block), len(block)
        out = []
        for end, table in zip(blocks, plan.nodes, strict=True):
            W, m = take(wide, table), take(light, table)
            moved = [m * end[:, c] for c in range(first)]
            turned = [sum(W[c, d] * end[:, first + d] for d in range(size)) for c in range(size)]
            out.append(jnp.stack([*moved, *turned], axis=1))
        return out

    def _times(self, mass: Array, block: Array, x: Array) -> Array:
        shape = self._bodies.dof, self._bodies.n
        return by_body(self._bodies, mass, block, x.reshape(shape)).ravel()

    def solve(
        self, factor: PyTree, motion: Array, constraints: Array, positions: Array | None
    ) -> Any:
        bodies = self._bodies
        blocks, inverse, first, joints, _ = factor
        light = 1 / bodies.mass
        free = self._times(light, inverse, motion)
        if self._plan is None:
            return free, constraints, positions
        missing = applied(bodies, first, free) - constraints
        below = None
        if positions is not None:
            below = applied(bodies, blocks.positions, free)[: positions.shape[0]] - positions
        l, m = self._plan.solve(joints, bodies, self._rows, missing, below)
        pull = bodies.apply_transpose(blocks.pulls, l, "all")
        if m is not None:
            spread = bodies.apply_transpose(blocks.gradients, padded_mu(m, l), "all")
            pull = pull + self._times(bodies.mass, blocks.inertia, spread)
        return free - self._times(light, inverse, pull), l, m


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


def _inversion_error(A: Array, W: Array) -> Array:
    """The largest entry of A W - 1 in units in which the diagonal of A is one, squared. What is
    solved with complex blocks is not checked."""
    if jnp.iscomplexobj(A):
        return jnp.zeros(())
    b = len(A)
    size = [jnp.abs(A[i, i]) for i in range(b)]
    worst = jnp.zeros(A.shape[2:], A.dtype)
    for i in range(b):
        for j in range(b):
            left = sum((A[i, k] * W[k, j] for k in range(1, b)), A[i, 0] * W[0, j]) - (i == j)
            worst = jnp.maximum(worst, jnp.abs(left) ** 2 * size[j] / size[i])
    return jnp.max(worst, initial=0.0)


class _SchurPlan(Module):
    """The elimination of the joints after the bodies."""

    solver: Any  # BlockLU, or None where the matrix is gathered and factored dense
    plan: BlockPlan
    order: Indices = eqx.field(static=True)

    def factor(self, rows: Rows, C: list[Array], W: list[Array], less: Any) -> Any:
        """Factor the sum of C W over the ends of joints at the same body, `less` a second sum in
        the rows of lam and columns of mu."""
        plan, size, count = self.plan, len(rows.filler), rows.of_lam

        def product(a: Array, b: Array) -> Any:
            return sum(a[:, None, c] * b[None, :, c] for c in range(a.shape[1]))

        def corner(block: Any) -> Array:
            return jnp.pad(block, ((0, size - count), (count, 0), (0, 0)))

        unit = np.eye(size)[:, :, None]
        diagonal: Any = sum(product(a, b) for a, b in zip(C, W, strict=True))
        if less is not None:
            diagonal = diagonal - corner(sum(product(a, b) for a, b in zip(*less, strict=True)))
        if rows.filler.any():
            diagonal = diagonal + unit * rows.filler
        off = [jnp.zeros((size, size, 0), diagonal.dtype)] * 2
        if plan.edges:
            off = []
            joined = [jnp.concatenate(x, axis=-1) for x in (C, W, *(less or ()))]
            for left, right in ((plan.left, plan.right), (plan.right, plan.left)):
                block = product(take(joined[0], left), take(joined[1], right))
                if less is not None:
                    block = block - corner(product(take(joined[2], left), take(joined[3], right)))
                if len(plan.edge) > plan.edges:
                    block = Scatter.plan(plan.edge, plan.edges)(block)
                off.append(block)
        diagonal, off = optimization_barrier((diagonal, off))
        if self.solver is not None:
            return replace(self.solver, size=size).factor(diagonal, *off)
        flat = jnp.concatenate([diagonal.ravel(), *(x.ravel() for x in off), jnp.zeros((1,))])
        entries, at = self._tables(rows)
        m = len(at)
        matrix = optimization_barrier(take(flat, entries).reshape(m, m))
        return lu(matrix, pivot=m > UNROLLED_ROWS)

    def solve(
        self, factor: PyTree, bodies: Any, rows: Rows, residual: Array, below: Array | None
    ) -> tuple[Array, Array | None]:
        """Multipliers for residuals of the constraints."""
        wide = rows.wide(bodies, residual, below)
        size, joints = rows.filler.shape
        if self.solver is not None:
            return rows.narrow(bodies, replace(self.solver, size=size).solve(factor, wide))
        _, at = self._tables(rows)
        x = lu_solve(factor, take(wide.ravel(), at))
        spread = Scatter.plan(at, size * joints)(x)
        return rows.narrow(bodies, spread.reshape(size, joints))

    def _tables(self, rows: Rows) -> tuple[Indices, Indices]:
        """Where each entry of the dense matrix is among those of the blocks, and where each of its
        rows is in (rows, joints)."""
        plan, size = self.plan, len(rows.filler)
        J, E = plan.joints, plan.edges
        pair = {e: (a % J, b % J) for e, a, b in zip(plan.edge, plan.left, plan.right, strict=True)}
        where = {pair[e]: e for e in range(E)}
        kept = [(r, j) for j in self.order for r in range(size) if not rows.filler[r, j]]
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

        entries = Indices.of(index(a, b) for a in kept for b in kept)
        return entries, Indices.of(r * J + j for r, j in kept)


def joint_elimination(plan: BlockPlan) -> _SchurPlan | None:
    """The elimination of the joints after their bodies; None without joints."""
    if not plan.joints:
        return None
    J, E, size = plan.joints, plan.edges, plan.size
    pair = {e: (a % J, b % J) for e, a, b in zip(plan.edge, plan.left, plan.right, strict=True)}
    edges = np.array([pair[e] for e in range(E)], dtype=np.int64).reshape(-1, 2)
    if isinstance(plan.solver, BlockCholesky):
        return _SchurPlan(BlockLU.plan(J, edges, size), plan, Indices())
    return _SchurPlan(None, plan, Indices.of(minimum_degree(J, edges)[0]))


def matrix_times(
    bodies: Any, blocks: Blocks, y: Array, l: Array, m: Array | None
) -> tuple[Array, Array, Array | None]:
    """The matrix times (y, l, m): motion, constraints of lam, positions of mu."""
    s, rates, held = constraints_times(bodies, blocks, y, l, m)
    return motion_times(bodies, blocks, s, y, l), rates, held


def constraints_times(
    bodies: Any, blocks: Blocks, y: Array, l: Array, m: Array | None
) -> tuple[Array, Array, Array | None]:
    """The velocity s that goes with (y, m), and what they do to the constraints."""
    s = spun(bodies, blocks.spin, y)
    if m is not None:
        s = s + bodies.apply_transpose(blocks.gradients, padded_mu(m, l), "all")
    rates, held = rows_times(bodies, blocks, s, y)
    return (s, rates + held, None) if m is None else (s, rates, held[: m.shape[0]])


def motion_times(bodies: Any, blocks: Blocks, s: Array, y: Array, l: Array) -> Array:
    """What s, y and l do to the equations of motion."""
    dof, n = bodies.dof, bodies.n
    motion = by_body(bodies, bodies.mass, blocks.inertia, s.reshape(dof, n))
    if blocks.stiffness is not None:
        motion = motion + by_body(bodies, 0.0 * bodies.mass, blocks.stiffness, y.reshape(dof, n))
    wide_s, wide_y = (bodies.with_ground(x.reshape(dof, n)) for x in (s, y))
    groups = [*bodies.joints, *bodies.forces]
    for (k, i, j), pair in zip(bodies.tangent.couplings, blocks.couplings, strict=True):
        table = groups[k].nodes
        scatter = Scatter.plan(table[i], n + 1, ground=True)
        for block, wide in zip(pair, (wide_s, wide_y), strict=True):
            if block is not None:
                motion = motion + scatter(times(block, take(wide, table[j])))[:, 1:]
    return motion.ravel() + bodies.apply_transpose(blocks.pulls, l, "all")


def rows_times(bodies: Any, blocks: Blocks, s: Array, y: Array) -> tuple[Array, Array]:
    """What s and y do to the constraints of velocity level, and y to those of position level."""
    rates = applied(bodies, blocks.by_velocity, s) + applied(bodies, blocks.by_position, y)
    return rates, applied(bodies, blocks.positions, y)
