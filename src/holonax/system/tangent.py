"""Newton's matrix of an implicit step on the equations of motion, by blocks of bodies and joints.

With a displacement dx of the bodies (translation; rotation in body axes) and multipliers dl of the
joints, both scaled by the step as the integrator says (`StepWeights`), it is

    [ K  G^T ] [dx]        K = M T^-1 + reach (dF/dx + ratio dF/dv T^-1)
    [ C   0  ] [dl]        F = G^T lam - f,  C = derivative of the constraints

with T the tangent map of the step's rotation vectors. K is made of one block for each body and one
for each pair of bodies that an element couples: a spring does, a revolute joint by its geometric
stiffness; a spherical joint and the hinges of the plane do not. Where these are all, a body's block
has its mass for the translations and a block of its own for the rotations.

There are two ways to solve with it. Where nothing couples bodies, each body is eliminated by
itself, all at once, and what remains is a Schur complement over the joints. Else, and once the
first way has failed its check, bodies and joints are eliminated together, a joint only after all of
its bodies, with rho s G^T C added to K and s times the constraints, after Bauchau, Epple and
Bottasso (2009), so that light bodies do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.lax import optimization_barrier

from ..linalg import BlockCholesky, BlockLU, lu, lu_solve
from ..rotation import Vec3
from ..rotation.quaternion import rotation_vector_rate_inverse
from .base import Array
from .blocks import BlockPlan
from .elements import Group, Scatter, Table, take
from .frames import PlanarFrame

# A solution whose residual is larger than this, relative to its terms, is refused.
REJECTED = 1e-7
# Masses that differ more than this are not trusted to the elimination of each body by itself.
_LIGHT = 1e-8


class StepWeights(NamedTuple):
    """How an implicit step moves: a change da of the accelerations changes the increment of
    position by reach * da and the velocity by ratio * reach * da; rows of velocity level are
    multiplied by `dt`. `turn` is the increment of position (size of v) of the step."""

    reach: Array
    ratio: Array
    dt: Array
    turn: Array


class Blocks(NamedTuple):
    """The matrix: K of each body (dof, dof, n), or its rotations alone where translations have
    nothing but their mass; coupling blocks of each pair of nodes of a group that has them (dof,
    dof, elements); G and C of each group and node (rows, dof, elements)."""

    diagonal: Array
    couplings: list[Array]
    gradients: list[list[Array]]
    constraints: list[list[Array]]


class Coupling(NamedTuple):
    """Group `group` (joints, then forces) couples its nodes `row` and `column`."""

    group: int
    row: int
    column: int


class TangentPlan(eqx.Module):
    """Which bodies are coupled, and the planned eliminations; made by `TangentPlan.of`."""

    schur: Any
    together: Any
    couplings: tuple[Coupling, ...] = eqx.field(static=True)
    ends: Any = eqx.field(static=True)  # edges of the ends of joints, and which way they point
    crossings: Any = eqx.field(static=True)  # those of couplings
    alone: bool = eqx.field(static=True)  # whether bodies may be eliminated each by itself
    split: bool = eqx.field(static=True)  # whether translations have nothing but their mass
    quick: bool = eqx.field(static=True, default=True)  # whether faster ways may be tried

    @staticmethod
    def of(
        joints: Sequence[Group], forces: Sequence[Group], plan: BlockPlan, frame: Any, mass: Any
    ) -> TangentPlan:
        """Plan for the bodies of one kind with all of their joints and forces."""
        couplings = tuple(
            Coupling(k, i, j)
            for k, group in enumerate([*joints, *forces])
            for i, j in _coupled_nodes(group, frame)
        )
        known = not isinstance(mass, Tracer)
        light = known and bool(np.min(mass) <= _LIGHT * np.max(mass))
        n = mass.shape[0]
        together, ends, crossings = _together(joints, forces, couplings, plan, frame, n)
        alone = not couplings and not light
        groups = [*joints, *forces]
        return TangentPlan(
            _schur_plan(plan, joints),
            together,
            couplings,
            ends,
            crossings,
            alone,
            split=alone and all(_is_split(group, frame) for group in groups),
        )


# What depends on what is found by asking: forces are evaluated with some numbers lost.


def _finite_forces(group: Group, frame: Any, node: int, lost: Any) -> list[list[bool]]:
    """Which components of the forces at each node of a group's first element are finite when
    `lost` takes from the frame of one node."""
    one = jax.tree.map(lambda x: jnp.asarray(x)[:1], group.element)
    single = Group(one, tuple(Table.of([t[0]]) for t in group.nodes), group.names[:1], group.rows)
    frames = [frame.ground() for _ in group.nodes]
    frames[node] = lost(frames[node])
    local = single.forces(frames, jnp.asarray(0.0), [jnp.ones((1,))] * group.rows)
    return [[bool(np.isfinite(x).all()) for x in part] for part in local]


def _lost(x: Any) -> Any:
    return jax.tree.map(lambda y: np.full_like(y, np.nan), x)


def _moving_nodes(group: Group) -> list[int]:
    return [k for k, table in enumerate(group.nodes) if any(table)]


def _coupled_nodes(group: Group, frame: Any) -> list[tuple[int, int]]:
    """Pairs of different nodes of a group where one's force depends on the other's motion."""
    nodes = _moving_nodes(group)
    if len(nodes) < 2:
        return []
    found = []
    for j in nodes:
        finite = _finite_forces(group, frame, j, _lost)
        found += [(i, j) for i in nodes if i != j and not all(finite[i])]
    return found


def _is_split(group: Group, frame: Any) -> bool:
    """Whether forces do not depend on where a body is and how fast, and torques alone on how it is
    turned."""
    d = 2 if frame is PlanarFrame else 3
    for k in _moving_nodes(group):
        moved = _finite_forces(group, frame, k, lambda x: replace(x, r=_lost(x.r), v=_lost(x.v)))
        turned = _finite_forces(group, frame, k, lambda x: replace(_lost(x), r=x.r, v=x.v))
        if not (all(moved[k]) and all(turned[k][:d])):
            return False
    return True


# -- the blocks ------------------------------------------------------------------------------


def tangent_blocks(
    bodies: Any, q: Array, v: Array, t: Array, lam: Array, weights: StepWeights
) -> Blocks:
    """All blocks of the matrix at (q, v, t, lam)."""
    n, dof, plan = bodies.n, bodies.dof, bodies.tangent
    frames = bodies.frames(q, v)
    groups = [*bodies.joints, *bodies.forces]
    parts = [*bodies.split(lam, "all"), *([()] * len(bodies.forces))]
    inverse = inverse_turn(bodies, weights.turn)
    first = bodies.translations if plan.split else 0
    size = dof - first
    by_pose, by_velocity = jnp.zeros((size * size, n + 1)), None
    couplings = []
    for k, (group, part) in enumerate(zip(groups, parts, strict=True)):
        wanted = [(i, j) for g, i, j in plan.couplings if g == k]
        local = group.frames(frames)
        pose, velocity = group.force_derivatives(local, t, list(part), wanted, first)
        for i in _moving_nodes(group):
            scatter = Scatter.plan(group.nodes[i], n + 1, ground=True)
            by_pose = by_pose + scatter(pose[i, i].reshape(size * size, group.n))
            if velocity is not None:
                change = scatter(velocity[i, i].reshape(size * size, group.n))
                by_velocity = change if by_velocity is None else by_velocity + change
        for i, j in wanted:
            block = pose[i, j]
            if velocity is not None:
                turned = _turned(velocity[i, j], take(inverse, group.nodes[j]))
                block = block + weights.ratio * turned
            couplings.append(weights.reach * block)
    own = _inertia_blocks(bodies, v, weights)[first:, first:]
    if by_velocity is not None:
        change = by_velocity[:, 1:].reshape(size, size, n)
        own = own + weights.reach * weights.ratio * change
    own = _turned(own, inverse[..., 1:]) + weights.reach * by_pose[:, 1:].reshape(size, size, n)
    gradients = [g.jacobian(g.frames(frames), t) for g in bodies.joints]
    own, couplings, gradients = optimization_barrier((own, couplings, gradients))
    constraints = [
        G if g.is_holonomic else _rate_blocks(g, frames, t, G, inverse, weights)
        for g, G in zip(bodies.joints, gradients, strict=True)
    ]
    return Blocks(own, couplings, gradients, constraints)


def force_diagonals(bodies: Any, q: Array, v: Array, t: Array) -> tuple[Array, Array, Array]:
    """The diagonals of M, df/dv and df/dq, each (dof, n)."""
    n, dof = bodies.n, bodies.dof
    unit = StepWeights(jnp.ones(()), jnp.ones(()), jnp.ones(()), jnp.zeros_like(v))
    inertia = _inertia_blocks(bodies, jnp.zeros_like(v), unit)
    gyroscopic = _inertia_blocks(bodies, v, unit) - inertia
    diagonal = lambda block: jnp.stack([block[k, k] for k in range(dof)])  # noqa: E731
    by_velocity, by_pose = diagonal(gyroscopic), jnp.zeros((dof, n))
    frames = bodies.frames(q, v)
    for group in bodies.forces:
        pose, velocity = group.force_derivatives(group.frames(frames), t, (), ())
        for k in _moving_nodes(group):
            scatter = Scatter.plan(group.nodes[k], n + 1, ground=True)
            by_pose = by_pose + scatter(diagonal(pose[k, k]))[:, 1:]
            if velocity is not None:
                by_velocity = by_velocity + scatter(diagonal(velocity[k, k]))[:, 1:]
    return diagonal(inertia), by_velocity, by_pose


def _inertia_blocks(bodies: Any, v: Array, weights: StepWeights) -> Array:
    """M, and the derivative of the gyroscopic torque to the velocity times reach * ratio."""
    n, dof, d = bodies.n, bodies.dof, bodies.translations
    zero = jnp.zeros((n,))
    rows = [[zero] * dof for _ in range(dof)]
    for i in range(d):
        rows[i][i] = jnp.broadcast_to(bodies.mass, (n,))
    if bodies.frame is PlanarFrame:
        rows[2][2] = jnp.broadcast_to(bodies.inertia, (n,))
        return jnp.stack([jnp.stack(row) for row in rows])
    w = v.reshape(-1, n)[3:]
    one = jnp.ones((n,))
    units = [[one if i == k else zero for i in range(3)] for k in range(3)]
    J = [bodies.apply_inertia(bodies.inertia, u) for u in units]  # columns
    spin = bodies.apply_inertia(bodies.inertia, list(w))
    scale = weights.reach * weights.ratio
    for c in range(3):
        # d(w x J w) / dw_c = e_c x J w + w x J e_c
        e = units[c]
        for r in range(3):
            a, b = (r + 1) % 3, (r + 2) % 3
            change = (e[a] * spin[b] - e[b] * spin[a]) + (w[a] * J[c][b] - w[b] * J[c][a])
            rows[3 + r][3 + c] = J[c][r] + scale * change
    return jnp.stack([jnp.stack(row) for row in rows])


def _rate_blocks(
    group: Group, frames: Any, t: Array, gradient: Any, inverse: Any, weights: StepWeights
) -> list[Array]:
    """C of constraints of velocity level, for each node."""
    by_pose = group.rate_by_pose(group.frames(frames), t)
    out = []
    for block, change, table in zip(gradient, by_pose, group.nodes, strict=True):
        turned = _turned(block, take(inverse, table))
        out.append(weights.dt * (change + weights.ratio * turned))
    return out


def inverse_turn(bodies: Any, turn: Array) -> Array:
    """T^-1 of each body's rotation vector, (3, 3, n + 1) with the ground first; nothing in the
    plane."""
    if bodies.frame is PlanarFrame:
        return jnp.zeros((0, 0, bodies.n + 1))
    turns = bodies.with_ground(turn.reshape(-1, bodies.n)[3:])
    rows = rotation_vector_rate_inverse(Vec3(*turns))
    return jnp.stack([jnp.stack(row) for row in rows])


def _turned(block: Array, inverse: Array) -> Array:
    """A block (rows, columns, elements) times T^-1 in its last three columns, the rotations."""
    if not inverse.size:
        return block
    at = block.shape[1] - 3
    turned = [sum(block[:, at + k] * inverse[k, c] for k in range(3)) for c in range(3)]
    return jnp.concatenate([block[:, :at], jnp.stack(turned, axis=1)], axis=1)


def _whole(bodies: Any, diagonal: Array) -> Array:
    """The bodies' blocks with all rows and columns."""
    first = bodies.dof - len(diagonal)
    mass = np.eye(first)[:, :, None] * bodies.mass
    lower = jnp.pad(diagonal, ((0, 0), (first, 0), (0, 0)))
    return jnp.concatenate([jnp.pad(mass, ((0, 0), (0, len(diagonal)), (0, 0))), lower])


def _by_body(bodies: Any, mass: Array, block: Array, x: Array) -> Array:
    """Blocks of bodies, or masses and blocks of rotations, times x of shape (dof, n)."""
    first = bodies.dof - len(block)
    return jnp.concatenate([mass * x[:first], _times(block, x[first:])])


# -- products ----------------------------------------------------------------------------------


def _product(bodies: Any, blocks: Blocks, dx: Array, dl: Array) -> tuple[Array, Array]:
    """The matrix times (dx, dl), both flattened."""
    dof, n, plan = bodies.dof, bodies.n, bodies.tangent
    x = dx.reshape(dof, n)
    y = _by_body(bodies, bodies.mass, blocks.diagonal, x)
    wide = bodies.with_ground(x)
    groups = [*bodies.joints, *bodies.forces]
    for (k, i, j), block in zip(plan.couplings, blocks.couplings, strict=True):
        table = groups[k].nodes
        local = _times(block, take(wide, table[j]))
        y = y + Scatter.plan(table[i], n + 1, ground=True)(local)[:, 1:]
    y = y.ravel() + bodies.apply_transpose(blocks.gradients, dl, "all")
    return y, bodies.apply(blocks.constraints, dx, "all")


def _times(block: Array, x: Array) -> Array:
    """Blocks (rows, dof, n) times vectors (dof, n)."""
    return jnp.stack([sum(row[c] * x[c] for c in range(len(x))) for row in block])  # pyright: ignore


# -- solving -----------------------------------------------------------------------------------


class TangentFactor:
    """Newton's matrix of one set of bodies, factored."""

    def __init__(self, bodies: Any, blocks: Blocks, inverse: Any, augment: Any, shift: bool):
        self._bodies, self._blocks, self._inverse = bodies, blocks, inverse
        maker = _EachBody if bodies.tangent.alone and augment is None else _Together
        self._factor = maker(bodies, blocks, 1.0 if augment is None else augment, shift)

    def solve(self, motion: Array, constraints: Array) -> tuple[Array, Array]:
        """(T^-1 dx, dl) for right-hand sides of the equations of motion and the constraints.

        Not a number where the solution fails its check. A smaller error needs no refinement here:
        the next iteration of Newton's method, whose right-hand side is exact, is one.
        """
        dx, dl = self._factor.solve(motion, constraints)
        dx = jnp.where(self._solves(motion, constraints, dx, dl), dx, jnp.nan)
        return self._unturned(dx), dl

    def _solves(self, motion: Array, constraints: Array, dx: Array, dl: Array) -> Array:
        """Whether little is left of the right-hand sides, relative to the largest terms."""
        y, z = _product(self._bodies, self._blocks, dx, dl)
        pull = self._bodies.apply_transpose(self._blocks.gradients, dl, "all")
        big = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731
        first = big(motion - y) <= REJECTED * jnp.maximum(big(motion), big(pull))
        second = big(constraints - z) <= REJECTED * jnp.maximum(big(constraints), big(dx))
        return first & second

    def _unturned(self, dx: Array) -> Array:
        if not self._inverse.size:
            return dx
        x = dx.reshape(self._bodies.dof, self._bodies.n)
        return jnp.concatenate([x[:3], _times(self._inverse[..., 1:], x[3:])]).ravel()


class _EachBody:
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
        return _by_body(self._bodies, self._mass, self._inverse, x).ravel()

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
    entries: Table = eqx.field(static=True)
    rows: Table = eqx.field(static=True)

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


_PROXIMAL = 1e-10  # relative size of what is added for dependent constraints


def _schur_plan(plan: BlockPlan, joints: Sequence[Group]) -> _SchurPlan | None:
    if not plan.joints:
        return None
    J, E, size = plan.joints, plan.edges, plan.size
    pair = {e: (a % J, b % J) for e, a, b in zip(plan.edge, plan.left, plan.right, strict=True)}
    edges = np.array([pair[e] for e in range(E)], dtype=np.int64).reshape(-1, 2)
    counts = [g.rows for g in joints for _ in range(g.n)]
    rows = [(r, j) for j, m in enumerate(counts) for r in range(m)]
    if isinstance(plan.solver, BlockCholesky):
        return _SchurPlan(BlockLU.plan(J, edges, size), plan, Table(), Table())
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

    entries = Table.of(index(a, b) for a in rows for b in rows)
    return _SchurPlan(None, plan, entries, Table.of(r * J + j for r, j in rows))


# -- bodies and joints together ----------------------------------------------------------------


def _together(
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
    solver = BlockLU.plan(n + plan.joints, edges, size, after)
    return (
        solver,
        (tuple(Table.of(x) for x in ends), tuple((p, Table.of(x)) for p, x in pairs)),
        tuple(Table.of(x) for x in crossings),
    )


def _spread(values: Array, targets: Table, count: int) -> Array:
    """Sum values onto targets, those at -1 nowhere."""
    shifted = Table.of(x + 1 for x in targets)
    return Scatter.plan(shifted, count + 1, ground=True)(values)[..., 1:]


class _Together:
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
        own = _whole(bodies, blocks.diagonal)
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
                there = Table.of(x ^ 1 if x >= 0 else x for x in table)
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
