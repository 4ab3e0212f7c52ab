"""The blocks of Newton's matrix of an implicit step; see `tangent.py`."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier

from ..rotation import Vec3
from ..rotation.quaternion import rotation_vector_rate_inverse
from .base import Array
from .elements import Group, Scatter, take
from .frames import PlanarFrame


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


def moving_nodes(group: Group) -> list[int]:
    """The nodes of a group that are not all on the ground."""
    return [k for k, table in enumerate(group.nodes) if any(table)]


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
        for i in moving_nodes(group):
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
        for k in moving_nodes(group):
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


def whole(bodies: Any, diagonal: Array) -> Array:
    """The bodies' blocks with all rows and columns."""
    first = bodies.dof - len(diagonal)
    mass = np.eye(first)[:, :, None] * bodies.mass
    lower = jnp.pad(diagonal, ((0, 0), (first, 0), (0, 0)))
    return jnp.concatenate([jnp.pad(mass, ((0, 0), (0, len(diagonal)), (0, 0))), lower])


def by_body(bodies: Any, mass: Array, block: Array, x: Array) -> Array:
    """Blocks of bodies, or masses and blocks of rotations, times x of shape (dof, n)."""
    first = bodies.dof - len(block)
    return jnp.concatenate([mass * x[:first], times(block, x[first:])])


def product(bodies: Any, blocks: Blocks, dx: Array, dl: Array) -> tuple[Array, Array]:
    """The matrix times (dx, dl), both flattened."""
    dof, n, plan = bodies.dof, bodies.n, bodies.tangent
    x = dx.reshape(dof, n)
    y = by_body(bodies, bodies.mass, blocks.diagonal, x)
    wide = bodies.with_ground(x)
    groups = [*bodies.joints, *bodies.forces]
    for (k, i, j), block in zip(plan.couplings, blocks.couplings, strict=True):
        table = groups[k].nodes
        local = times(block, take(wide, table[j]))
        y = y + Scatter.plan(table[i], n + 1, ground=True)(local)[:, 1:]
    y = y.ravel() + bodies.apply_transpose(blocks.gradients, dl, "all")
    return y, bodies.apply(blocks.constraints, dx, "all")


def times(block: Array, x: Array) -> Array:
    """Blocks (rows, dof, n) times vectors (dof, n)."""
    return jnp.stack([sum(row[c] * x[c] for c in range(len(x))) for row in block])  # pyright: ignore
