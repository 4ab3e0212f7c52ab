"""Bodies that a joint holds to one another entirely, as one in the elimination of a step.

A joint with as many rows as a body has motions, a fixed joint, leaves nothing of the body b at one
of its ends: with the rows C_a y_a + C_b y_b = c and the pulls G_a^T l, G_b^T l of the joint

    y_b = T y_a + C_b^-1 c,            T = -C_b^-1 C_a
    l   = G_b^-T (r_b - what all motions do to b),

and the equations of b, times S^T with S = -G_b^-1 G_a, are added to those of a. What is eliminated
are the bodies and joints that are left. The crossings of a net of beams, of two nodes and a joint
each, become the nodes of a plane graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._modules import Module
from ..linalg import solve_many
from .base import Array
from .blocks import BlockPlan
from .elements import Group, Indices, Scatter, take
from .tangent_blocks import times


class Welds(Module):
    """Which joints hold which bodies. Frames count from 1, with the ground 0, as in `Group`."""

    # the joints that are taken away, the node at which each holds a body, and that body
    joints: Indices = eqx.field(static=True)
    node: Indices = eqx.field(static=True)
    held: Indices = eqx.field(static=True)
    # the frames of other bodies, and the other joints
    kept_bodies: Indices = eqx.field(static=True)
    kept_joints: Indices = eqx.field(static=True)
    # of each frame: the body that it moves with, among those that are kept; and the weld that it is
    # held by, or how many there are where it is kept
    number: Indices = eqx.field(static=True)
    which: Indices = eqx.field(static=True)

    @property
    def n(self) -> int:
        """Number of bodies that are kept."""
        return len(self.kept_bodies)

    @staticmethod
    def of(groups: Sequence[Group], plan: BlockPlan, dof: int, n: int) -> Welds | None:
        """Of the joints of `n` bodies; None where there are none. A body that others are held to is
        itself held to nothing, and no other joint is between bodies of one weld."""
        if len(plan.nodes) < 2:
            return None
        ends = [[table[k] for table in plan.nodes] for k in range(plan.joints)]
        whole = [g.rows == dof and g.is_holonomic for g in groups for _ in range(g.n)]
        joined: dict[frozenset[int], int] = {}
        for k, (bodies, full) in enumerate(zip(ends, whole, strict=True)):
            moving = frozenset(b for b in bodies if b)
            if full and len(moving) == 2 and len([b for b in bodies if b]) == 2:
                joined.setdefault(moving, k)
        if not joined:
            return None
        beside: dict[int, list[tuple[int, set[int]]]] = {}
        for k, bodies in enumerate(ends):
            for b in bodies:
                if b:
                    beside.setdefault(b, []).append((k, set(bodies)))
        root = list(range(n + 1))
        members: dict[int, set[int]] = {}
        found: dict[int, tuple[int, int]] = {}  # held body: joint and node
        for k in joined.values():
            first, second = (b for b in ends[k] if b)
            for a, b in ((first, second), (second, first)):
                if root[a] != a or root[b] != b or b in members:
                    continue
                cluster = members.get(a, {a})
                if any(x & cluster for j, x in beside[b] if j != k):
                    continue
                members[a] = cluster | {b}
                root[b], found[b] = a, (k, ends[k].index(b))
                break
        held = sorted(found)
        kept = [i for i in range(1, n + 1) if root[i] == i]
        place = {0: 0, **{i: at + 1 for at, i in enumerate(kept)}}
        gone = {found[b][0] for b in held}
        which = {b: w for w, b in enumerate(held)}
        return Welds(
            Indices.of(found[b][0] for b in held),
            Indices.of(found[b][1] for b in held),
            Indices.of(held),
            Indices.of(kept),
            Indices.of(k for k in range(plan.joints) if k not in gone),
            Indices.of(place[root[i]] for i in range(n + 1)),
            Indices.of(which.get(i, len(held)) for i in range(n + 1)),
        )

    def moved(self, table: Sequence[int]) -> Indices:
        """Frames of bodies, among those that are kept."""
        return Indices.of(self.number[i] for i in table)

    def nodes(self, plan: BlockPlan) -> tuple[Indices, ...]:
        """The bodies at the nodes of the joints that are kept, among those that are kept."""
        return tuple(self.moved([table[k] for k in self.kept_joints]) for table in plan.nodes)

    def of_each(self, table: Sequence[int]) -> Indices | None:
        """The welds that frames are held by; None where all of them are kept."""
        out = Indices.of(self.which[i] for i in table)
        return None if min(out, default=len(self.held)) == len(self.held) else out

    @property
    def _others(self) -> Indices:
        """Of each weld, the body that the held one moves with, among those that are kept."""
        return self.moved(self.held)

    def _of_kept(self, x: Array) -> Array:
        return take(x, Indices.of(i - 1 for i in self.kept_bodies))

    def _of_held(self, x: Array) -> Array:
        return take(x, Indices.of(i - 1 for i in self.held))

    def onto(self, kept: Array, held: Array) -> Array:
        """What is of kept bodies, with what is of held ones added to the bodies they move with."""
        return kept + Scatter.plan(self._others, self.n + 1, ground=True)(held)[..., 1:]

    def all_bodies(self, kept: Array, held: Array) -> Array:
        """Values of all bodies from those of kept and of held ones."""
        frames = [*self.kept_bodies, *self.held]
        return take(jnp.concatenate([kept, held], axis=-1), Indices.of(np.argsort(frames)))

    def all_joints(self, kept: Array, gone: Array) -> Array:
        """Values of all joints from those that are kept and those that are not."""
        joints = [*self.kept_joints, *self.joints]
        return take(jnp.concatenate([kept, gone], axis=-1), Indices.of(np.argsort(joints)))


class Welded(Module):
    """The equations of all bodies and joints, and what makes them those of the kept ones.

    `own` (d, d, bodies), `couplings` with the bodies of their rows and columns in `places`,
    `columns` and `rows` of each node of the joints (rows, d, joints); `T`, `S` and the inverses of
    C_b and G_b of each weld, (d, d, welds); `at` are the rows of a joint that hold a body.
    """

    welds: Welds
    tables: tuple[Indices, ...] = eqx.field(static=True)  # the bodies at the nodes of all joints
    places: tuple[tuple[Indices, Indices], ...] = eqx.field(static=True)
    at: Indices = eqx.field(static=True)
    own: Array
    couplings: list[Array]
    columns: list[Array]
    rows: list[Array]
    T: Array
    S: Array
    by_row: Array
    by_pull: Array

    @staticmethod
    def of(
        welds: Welds,
        tables: tuple[Indices, ...],
        places: tuple[tuple[Indices, Indices], ...],
        at: Indices,
        own: Array,
        couplings: list[Array],
        columns: list[Array],
        rows: list[Array],
    ) -> Welded:
        """With T and S found."""
        second = np.array(welds.node, dtype=bool)

        def ends(blocks: list[Array]) -> tuple[Array, Array]:
            """At the other body, and at the one that is held."""
            first, last = (take(x[at.array()], welds.joints) for x in blocks[:2])
            return jnp.where(second, first, last), jnp.where(second, last, first)

        unit = jnp.broadcast_to(jnp.eye(len(at))[:, :, None], (len(at), len(at), len(second)))
        inverses, maps = [], []
        for other, here in (ends(rows), ends(columns)):
            inverses.append(solve_many(here, unit.astype(here.dtype)))
            maps.append(-product(inverses[-1], other))
        return Welded(welds, tables, places, at, own, couplings, columns, rows, *maps, *inverses)

    # -- the matrix ------------------------------------------------------------------------------

    def _after(self, block: Array, table: Sequence[int], maps: Array) -> Array:
        """Blocks times T or S of the bodies of their columns."""
        which = self.welds.of_each(table)
        if which is None:
            return block
        unit = jnp.eye(len(maps), dtype=maps.dtype)[:, :, None]
        return product(block, take(jnp.concatenate([maps, unit], axis=-1), which))

    def joints(self) -> tuple[list[Array], list[Array]]:
        """Columns and rows of the joints that are kept, by the motions of bodies that are."""
        out = []
        for blocks, maps in ((self.columns, self.S), (self.rows, self.T)):
            kept = [take(x, self.welds.kept_joints) for x in blocks]
            tables = ([table[k] for k in self.welds.kept_joints] for table in self.tables)
            out.append([self._after(x, t, maps) for x, t in zip(kept, tables, strict=True)])
        return out[0], out[1]

    def bodies(self) -> tuple[Array, list[Array]]:
        """Blocks of the bodies that are kept, and those of couplings."""
        welds = self.welds
        inner = product(across(self.S), product(welds._of_held(self.own), self.T))
        couplings = []
        for (rows, columns), block in zip(self.places, self.couplings, strict=True):
            right = self._after(block, columns, self.T)
            couplings.append(across(self._after(across(right), rows, self.S)))
        return welds.onto(welds._of_kept(self.own), inner), couplings

    # -- right-hand sides and solutions ------------------------------------------------------------

    def _motion(self, x: Array) -> Array:
        """What the motions x of all bodies (d, n) do to their equations."""
        n = x.shape[1]
        total, wide = times(self.own, x), jnp.pad(x, ((0, 0), (1, 0)))
        for (rows, columns), block in zip(self.places, self.couplings, strict=True):
            pull = times(block, take(wide, columns))
            total = total + Scatter.plan(rows, n + 1, ground=True)(pull)[:, 1:]
        return total

    def reduced(self, upper: Array, lower: Array) -> tuple[Array, Array, Array]:
        """Right-hand sides of what is kept, and how far held bodies move while others do not."""
        welds = self.welds
        offset = times(self.by_row, take(lower, welds.joints)[self.at.array()])
        still = jnp.zeros((len(upper), welds.n), offset.dtype)
        x = welds.all_bodies(still, offset)
        rest = upper - self._motion(x)
        wide = jnp.pad(x, ((0, 0), (1, 0)))
        rows = zip(self.rows, self.tables, strict=True)
        lower = lower - sum(times(block, take(wide, table)) for block, table in rows)
        held = times(across(self.S), welds._of_held(rest))
        return welds.onto(welds._of_kept(rest), held), take(lower, welds.kept_joints), offset

    def expanded(self, x: Array, l: Array, upper: Array, offset: Array) -> tuple[Array, Array]:
        """The motions of all bodies and the multipliers of all joints."""
        welds, n = self.welds, upper.shape[1]
        wide = jnp.pad(x, ((0, 0), (1, 0)))
        held = times(self.T, take(wide, welds._others)) + offset
        y = welds.all_bodies(x, held)
        gone = jnp.zeros((len(l), len(welds.joints)), l.dtype)
        wide_l = welds.all_joints(l, gone)
        rest = upper - self._motion(y)
        for block, table in zip(self.columns, self.tables, strict=True):
            pull = sum(block[r] * wide_l[r] for r in range(len(wide_l)))
            rest = rest - Scatter.plan(table, n + 1, ground=True)(pull)[:, 1:]
        found = times(across(self.by_pull), welds._of_held(rest))
        row = {r: k for k, r in enumerate(self.at)}
        gone = jnp.stack([found[row[r]] if r in row else 0 * found[0] for r in range(len(l))])
        return y, welds.all_joints(l, gone)


def across(block: Array) -> Array:
    """Blocks transposed."""
    return jnp.swapaxes(block, 0, 1)


def product(a: Array, b: Array) -> Array:
    """Products of blocks (rows, d, elements) and (d, columns, elements)."""
    return jnp.asarray(sum(a[:, c, None] * b[c][None] for c in range(len(b))))
