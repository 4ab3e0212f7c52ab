"""Bodies and joints eliminated together: solvers for steps where elements couple bodies.

See `tangent.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier

from .._modules import Module
from ..linalg import BlockLU, lu, lu_solve
from .base import Array
from .blocks import BlockPlan
from .dense import DenseBlocks
from .elements import Group, Indices, Scatter, take
from .step import Level
from .tangent_blocks import Blocks, Coupling, own_blocks, turned, whole
from .tangent_solvers import Rows, ends, lam_rows
from .tangent_welds import Welded, Welds

# Bodies are welded where the elimination then makes at most this part of the products.
_WELDED = 0.5

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from .assembly import BodySet


class WholePlan(Module):
    """The elimination of bodies and joints on one graph, and where their blocks go.

    Blocks 0 ... n - 1 are the bodies, the joints follow; those of `welds` are not among them. Edge
    (i, j) has i > j: of a joint and its body, of two coupled bodies, and of two bodies of one
    joint, which rho G^T C couples. A place counts edges twice, and one more if the block at (i, j)
    is the backward one; -1 is nowhere.
    """

    solver: BlockLU
    welds: Welds | None
    n: int = eqx.field(static=True)
    nodes: tuple[Indices, ...] = eqx.field(static=True)  # bodies of the joints, the ground 0
    ends: tuple[Indices, ...] = eqx.field(static=True)  # edges of the ends of joints
    pairs: Any = eqx.field(static=True)  # of two nodes, the places of their bodies
    crossings: tuple[Indices, ...] = eqx.field(static=True)  # places of couplings
    inner: tuple[Indices, ...] = eqx.field(static=True)  # bodies that couplings are within

    @staticmethod
    def of(
        joints: Sequence[Group],
        forces: Sequence[Group],
        couplings: Sequence[Coupling],
        plan: BlockPlan,
        dof: int,
        n: int,
        *,
        weld: bool = True,
    ) -> WholePlan:
        """Plan for `n` bodies; with `weld`, bodies that joints hold entirely may be taken as one
        where that makes much less work."""
        groups = [*joints, *forces]
        size = max(dof, plan.size)
        plain = WholePlan._graph(groups, couplings, plan.nodes, n, plan.joints, size, None)
        welds = Welds.of(joints, plan, dof, n) if weld else None
        if welds is None:
            return plain
        nodes, count = welds.nodes(plan), len(welds.kept_joints)
        welded = WholePlan._graph(groups, couplings, nodes, welds.n, count, size, welds)
        return welded if welded.solver.work < _WELDED * plain.solver.work else plain

    @staticmethod
    def _graph(
        groups: Sequence[Group],
        couplings: Sequence[Coupling],
        nodes: tuple[Indices, ...],
        n: int,
        count: int,
        size: int,
        welds: Welds | None,
    ) -> WholePlan:
        edge_of: dict[tuple[int, int], int] = {}

        def edge(i: int, j: int) -> int:
            e = edge_of.setdefault((max(i, j), min(i, j)), len(edge_of))
            return 2 * e + (i < j)

        ends = []  # for each node of joints: edge of (joint, body), or -1
        for bodies in nodes:
            ends.append([edge(n + k, b - 1) // 2 if b else -1 for k, b in enumerate(bodies)])
        after: dict[int, set[int]] = {}
        for bodies in nodes:
            for k, b in enumerate(bodies):
                if b:
                    after.setdefault(n + k, set()).add(b - 1)
        pairs = []  # of nodes of one joint, for rho G^T C
        place = lambda i, j: edge(i - 1, j - 1) if i and j and i != j else -1  # noqa: E731
        for a, b in combinations(range(len(nodes)), 2):
            both = zip(nodes[a], nodes[b], strict=True)
            pairs.append(((a, b), Indices.of(place(i, j) for i, j in both)))
        crossings, inner = [], []
        for k, i, j in couplings:
            tables = [groups[k].nodes[x] for x in (i, j)]
            if welds is not None:
                tables = [welds.moved(x) for x in tables]
            both = list(zip(*tables, strict=True))
            crossings.append(Indices.of(place(a, b) for a, b in both))
            inner.append(Indices.of(a - 1 if a and a == b else -1 for a, b in both))
        edges = np.array(list(edge_of), dtype=np.int64).reshape(-1, 2)
        solver = BlockLU.plan(n + count, edges, size, after, _crossings(after))
        parts = tuple(Indices.of(x) for x in ends), tuple(pairs), tuple(crossings), tuple(inner)
        return WholePlan(solver, welds, n, nodes, *parts)


def _crossings(after: dict[int, set[int]]) -> list[list[int]]:
    """Joints with all of their bodies, where these are not of another joint before: in a net of
    beams the crossings, which are the nodes of a plane graph."""
    taken: set[int] = set()
    out = []
    for joint, bodies in after.items():
        if len(bodies) > 1 and not bodies & taken:
            taken |= bodies
            out.append([*sorted(bodies), joint])
    return out


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
        self._plan: WholePlan = bodies.tangent.together
        self._dof, self._solver = dof, replace(self._plan.solver, size=size)

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

    def _welded(self, own: Array, couplings: list[Array], G: Any, C: Any) -> Welded:
        """The equations of all, with those of welded bodies to be taken away."""
        bodies, welds = self._bodies, self._plan.welds
        assert welds is not None
        plan, groups = bodies.plans["all"], [*bodies.joints, *bodies.forces]
        places = tuple(
            (groups[k].nodes[i], groups[k].nodes[j]) for k, i, j in bodies.tangent.couplings
        )
        at = [*range(bodies.dof)]
        if self._level == "both":
            at += [self._rows.of_lam + r for r in at]
        return Welded.of(welds, plan.nodes, places, Indices.of(at), own, couplings, G, C)

    def _kept(self, x: Any) -> Any:
        """Of the joints, those that are eliminated."""
        welds = self._plan.welds
        return x if welds is None else take(x, welds.kept_joints)

    def prepare(self, blocks: Blocks) -> PyTree:
        solver, plan = self._solver, self._plan
        n, size, E = plan.n, solver.size, solver.edge_count
        pad = lambda x: jnp.pad(x, ((0, size - x.shape[0]), (0, size - x.shape[1]), (0, 0)))  # noqa: E731
        own, couplings = self._body_blocks(blocks)
        columns = welded = None
        if self._bodies.plans["all"].joints:
            columns = self._joint_blocks(blocks)
        if plan.welds is not None:
            assert columns is not None
            welded = self._welded(own, couplings, *columns)
            (own, couplings), columns = welded.bodies(), welded.joints()
            for table, block in zip(plan.inner, couplings, strict=True):
                if max(table, default=-1) >= 0:
                    own = own + _spread(block, table, n)
        unit = np.eye(size)[:, :, None]
        filled = unit * (np.arange(size) >= self._dof)[:, None, None]
        both = jnp.zeros((size, size, 2 * E))  # interleaved: forward, backward
        for table, block in zip(plan.crossings, couplings, strict=True):
            both = both + _spread(pad(block), table, 2 * E)
        diagonal, forward, backward = pad(own) + filled, both[..., 0::2], both[..., 1::2]
        if columns is not None and solver.n > n:
            G, C = columns
            s = self._scales()
            heavy = [s[:, None] * c for c in C]
            for table, g, c in zip(plan.ends, G, heavy, strict=True):
                g = s[:, None] * g
                forward = forward + _spread(pad(c), table, E)
                backward = backward + _spread(pad(jnp.swapaxes(g, 0, 1)), table, E)
            outer = lambda g, c: jnp.asarray(  # noqa: E731
                sum(g[r][:, None] * c[r][None] for r in range(len(g)))
            )
            for table, g, c in zip(plan.nodes, G, heavy, strict=True):
                add = Scatter.plan(table, n + 1, ground=True)(outer(g, c))[..., 1:]
                diagonal = diagonal + self._augment * pad(add)
            for (a, b), table in plan.pairs:
                both = _spread(pad(outer(G[a], heavy[b])), table, 2 * E)
                there = Indices.of(x ^ 1 if x >= 0 else x for x in table)
                both = both + _spread(pad(outer(G[b], heavy[a])), there, 2 * E)
                forward = forward + self._augment * both[..., 0::2]
                backward = backward + self._augment * both[..., 1::2]
            filler = self._kept(self._rows.filler)
            tail = jnp.asarray(filler)
            tail = jnp.pad(tail, ((0, size - len(filler)), (0, 0)), constant_values=1.0)
            diagonal = jnp.concatenate([diagonal, jnp.eye(size)[:, :, None] * tail], axis=-1)
        kind = jnp.result_type(diagonal, forward, backward)
        matrix = optimization_barrier(tuple(x.astype(kind) for x in (diagonal, forward, backward)))
        return blocks, columns, solver.factor(*matrix), welded

    def light(self, factor: PyTree) -> PyTree:
        """The factor without the matrix that it was made of, but how increments turn back."""
        blocks, columns, whole_factor, welded = factor
        none = dict.fromkeys(Blocks._fields)
        return Blocks(**{**none, "back": blocks.back}), columns, whole_factor.light(), welded

    def solve(
        self, factor: PyTree, motion: Array, constraints: Array, positions: Array | None
    ) -> Any:
        bodies = self._bodies
        _, columns, whole_factor, welded = factor
        upper = motion.reshape(bodies.dof, bodies.n)
        if self._level == "both":
            upper = jnp.concatenate([jnp.zeros_like(upper), upper])
        if columns is None:
            x, _ = self._eliminated(whole_factor, None, upper, None)
            return x[: bodies.dof].ravel(), constraints, positions
        lower = self._rows.wide(bodies, constraints, positions)
        if welded is None:
            x, l = self._eliminated(whole_factor, columns, upper, lower)
        else:
            kept, rest, offset = welded.reduced(upper, lower)
            x, l = self._eliminated(whole_factor, columns, kept, rest)
            x, l = welded.expanded(x, l, upper, offset)
        l, m = self._rows.narrow(bodies, l)
        return x[: bodies.dof].ravel(), l, m

    def _eliminated(
        self, factor: Any, columns: Any, upper: Array, lower: Any
    ) -> tuple[Array, Array]:
        """Motions and multipliers on the graph, (rows, bodies) and (rows, joints)."""
        plan, size, n = self._plan, self._solver.size, self._plan.n
        widened = lambda x: jnp.pad(x, ((0, size - len(x)), (0, 0)))  # noqa: E731
        if columns is None or self._solver.n == n:
            x = self._solver.solve(factor, widened(upper))
            return x[: self._dof], lower
        s = self._scales()
        lower = s * lower
        for table, g in zip(plan.nodes, columns[0], strict=True):
            pull = sum(g[r] * lower[r] for r in range(len(g)))
            pull = Scatter.plan(table, n + 1, ground=True)(pull)[..., 1:]
            upper = upper + self._augment * pull
        both = jnp.concatenate([widened(upper), widened(lower)], axis=1)
        x = self._solver.solve(factor, both)
        return x[: self._dof, :n], s * x[: len(s), n:]


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
