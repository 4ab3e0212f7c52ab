"""The blocks of the matrix of an implicit step; see `step.py` for its equations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier

from ..rotation import Vec3
from ..rotation.quaternion import rotation_vector_rate, rotation_vector_rate_inverse
from .base import Array
from .elements import Group, Scatter, take
from .frames import PlanarFrame
from .step import Level, StepEnd, StepPoint, StepWeights

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from .assembly import BodySet


class Blocks(NamedTuple):
    """The matrix by blocks.

    Of each body, or of its rotations alone where translations have nothing but their mass:
    `inertia`, M + reach ratio F_v, and `stiffness`, reach F_x, (dof, dof, n). The same of each pair
    of nodes of a group that couples them, (dof, dof, elements), None where there is nothing. Of
    each group and node (rows, dof, elements): `pulls` B^T, `gradients` G, the rows of position
    level, and those of velocity level by s and by y. `spin` is R, `back` takes y to an increment,
    both (3, 3, n + 1) with the ground first; nothing in the plane.
    """

    inertia: Array
    stiffness: Array | None
    couplings: list[tuple[Array | None, Array | None]]
    spin: Array
    back: Array
    pulls: list[list[Array]]
    gradients: list[list[Array]]
    positions: list[list[Array] | None]
    by_velocity: list[list[Array] | None]
    by_position: list[list[Array] | None]


class Coupling(NamedTuple):
    """Group `group` (joints, then forces) couples its nodes `row` and `column`."""

    group: int
    row: int
    column: int


def moving_nodes(group: Group) -> list[int]:
    """The nodes of a group that are not all on the ground."""
    return [k for k, table in enumerate(group.nodes) if any(table)]


class JointRows(NamedTuple):
    """The rows of one group of joints, for each node (rows, dof, elements): `place` by y, of
    position level; `speed` by s and `drift` by y, of velocity or of acceleration level. What is
    of acceleration level has a part `pull` by s that grows with the step."""

    place: list[Array] | None = None
    speed: list[Array] | None = None
    drift: list[Array] | None = None
    pull: list[Array] | None = None


class Slopes(NamedTuple):
    """What the blocks are made of before they are weighted by the step: M, F_v and F_x of bodies
    and of coupled nodes, `twist` the derivative of the tangent map of rotations (None where it is
    not wanted), and the others as in `Blocks`."""

    inertia: Array
    damping: Array | None
    stiffness: Array | None
    couplings: list[tuple[Array | None, Array | None]]
    back: Array
    twist: Array | None
    gradients: list[list[Array]]
    rows: list[JointRows]


def step_slopes(bodies: Any, level: Level, at: StepPoint, weights: StepWeights) -> Slopes:
    """All derivatives at a point."""
    q, v, t, _, lam = at
    n, dof, plan = bodies.n, bodies.dof, bodies.tangent
    frames = bodies.frames(q, v)
    groups = [*bodies.joints, *bodies.forces]
    parts = [*bodies.split(lam, "all"), *([()] * len(bodies.forces))]
    first = bodies.translations if plan.split else 0
    size = dof - first
    by_pose, by_velocity = jnp.zeros((size * size, n + 1)), None
    couplings = []
    for k, (group, part) in enumerate(zip(groups, parts, strict=True)):
        wanted = [(i, j) for g, i, j in plan.couplings if g == k]
        if weights.still and group.rows:
            couplings += [(None, None)] * len(wanted)
            continue  # G^T lam does not move
        local = group.frames(frames)
        pose, velocity = group.force_derivatives(local, t, list(part), wanted, first)
        for i in moving_nodes(group):
            scatter = Scatter.plan(group.nodes[i], n + 1, ground=True)
            by_pose = by_pose + scatter(pose[i, i].reshape(size * size, group.n))
            if velocity is not None:
                change = scatter(velocity[i, i].reshape(size * size, group.n))
                by_velocity = change if by_velocity is None else by_velocity + change
        for i, j in wanted:
            damping = None if velocity is None else velocity[i, j]
            couplings.append((damping, None if weights.still else pose[i, j]))
    inertia, damping = (
        None if x is None else x[first:, first:] for x in _inertia_blocks(bodies, v)
    )
    if by_velocity is not None:
        change = by_velocity[:, 1:].reshape(size, size, n)
        damping = change if damping is None else damping + change
    stiffness = None if weights.still else by_pose[:, 1:].reshape(size, size, n)
    back, twist = _turns(bodies, weights)
    gradients = [g.jacobian(g.frames(frames), t) for g in bodies.joints]
    inertia, damping, stiffness, couplings, gradients = optimization_barrier(
        (inertia, damping, stiffness, couplings, gradients)
    )
    rows = _rows(bodies, level, at, weights, gradients, back)
    return Slopes(inertia, damping, stiffness, couplings, back, twist, gradients, rows)


def step_blocks(slopes: Slopes, weights: StepWeights) -> Blocks:
    """The blocks of the matrix of a step of this reach and ratio."""
    reach, ratio = weights.reach, weights.ratio
    scaled = lambda factor, x: None if x is None else factor * x  # noqa: E731
    inertia = slopes.inertia
    if slopes.damping is not None:
        inertia = inertia + reach * ratio * slopes.damping
    couplings = [(scaled(reach * ratio, v), scaled(reach, x)) for v, x in slopes.couplings]
    spin = slopes.back
    if slopes.twist is not None:
        spin = jnp.eye(3)[:, :, None] + slopes.twist / ratio
    by_velocity, by_position = [], []
    for row in slopes.rows:
        speed, drift = row.speed, row.drift
        if speed is not None and row.pull is not None:
            pairs = zip(speed, row.pull, strict=True)
            speed = [x + reach * ratio * y for x, y in pairs]
        if drift is not None:
            drift = [x / ratio if row.pull is None else reach * x for x in drift]
        by_velocity.append(speed)
        by_position.append(drift)
    places = [row.place for row in slopes.rows]
    return Blocks(
        inertia,
        scaled(reach, slopes.stiffness),
        couplings,
        spin,
        slopes.back,
        slopes.gradients,
        slopes.gradients,
        places,
        by_velocity,
        by_position,
    )


def _rows(
    bodies: Any, level: Level, at: StepPoint, weights: StepWeights, gradients: Any, back: Array
) -> list[JointRows]:
    """The rows of all joints."""
    if level == "acceleration":
        return _acceleration_rows(bodies, at, gradients)
    end = weights.end
    share, onward, speed = 1.0, None, 1.0
    if end is None:
        frames, t = bodies.frames(at.q, at.v), at.t
    else:
        frames, t, share, speed = bodies.frames(end.q, end.v), end.t, end.share, end.speed
        gradients = [g.jacobian(g.frames(frames), t) for g in bodies.joints]
        onward = onward_turns(bodies, end, back)
    rows = []
    for group, G in zip(bodies.joints, gradients, strict=True):

        def moved(blocks: list[Array], group: Group = group) -> list[Array]:
            """Blocks for changes of the end, for those of y."""
            if end is None:
                return blocks
            pairs = zip(blocks, group.nodes, strict=True)
            return [share * turned(x, take(onward, table)) for x, table in pairs]

        place = moved(G) if group.is_holonomic and level != "velocity" else None
        if level == "position" and group.is_holonomic:
            rows.append(JointRows(place))
            continue
        rates = G if end is None else [speed * x for x in G]
        rows.append(JointRows(place, rates, moved(group.rate_by_pose(group.frames(frames), t))))
    return rows


def _acceleration_rows(bodies: BodySet, at: StepPoint, gradients: PyTree) -> list[JointRows]:
    """The rows of all joints, of acceleration level."""
    frames, moving = bodies.frames(at.q, at.v), bodies.frames(at.q, at.a)
    rows = []
    for group, G in zip(bodies.joints, gradients, strict=True):
        accelerations = [frame.rates for frame in group.frames(moving)]
        pose, speed = group.acceleration_by_motion(group.frames(frames), accelerations, at.t)
        rows.append(JointRows(None, G, pose, speed))
    return rows


def force_diagonals(bodies: Any, q: Array, v: Array, t: Array) -> tuple[Array, Array, Array]:
    """The diagonals of M, df/dv and df/dq, each (dof, n)."""
    n, dof = bodies.n, bodies.dof
    inertia, gyroscopic = _inertia_blocks(bodies, v)
    diagonal = lambda block: jnp.stack([block[k, k] for k in range(dof)])  # noqa: E731
    by_velocity = jnp.zeros((dof, n)) if gyroscopic is None else diagonal(gyroscopic)
    by_pose = jnp.zeros((dof, n))
    frames = bodies.frames(q, v)
    for group in bodies.forces:
        pose, velocity = group.force_derivatives(group.frames(frames), t, (), ())
        for k in moving_nodes(group):
            scatter = Scatter.plan(group.nodes[k], n + 1, ground=True)
            by_pose = by_pose + scatter(diagonal(pose[k, k]))[:, 1:]
            if velocity is not None:
                by_velocity = by_velocity + scatter(diagonal(velocity[k, k]))[:, 1:]
    return diagonal(inertia), by_velocity, by_pose


def _inertia_blocks(bodies: BodySet, v: Array) -> tuple[Array, Array | None]:
    """M, and the derivative of the gyroscopic torque to the velocity, None in the plane."""
    n, dof, d = bodies.n, bodies.dof, bodies.translations
    zero, one = jnp.zeros((n,)), jnp.ones((n,))
    rows = [[zero] * dof for _ in range(dof)]
    for i in range(d):
        rows[i][i] = jnp.broadcast_to(bodies.mass, (n,))
    stacked = lambda rows: jnp.stack([jnp.stack(row) for row in rows])  # noqa: E731
    if bodies.frame is PlanarFrame:
        rows[2][2] = jnp.broadcast_to(bodies.inertia, (n,))
        return stacked(rows), None
    w = v.reshape(-1, n)[3:]
    units = [[one if i == k else zero for i in range(3)] for k in range(3)]
    J = [bodies.apply_inertia(bodies.inertia, u) for u in units]  # columns
    spin = bodies.apply_inertia(bodies.inertia, list(w))
    turning = [[zero] * dof for _ in range(dof)]
    for c in range(3):
        # d(w x J w) / dw_c = e_c x J w + w x J e_c
        e = units[c]
        for r in range(3):
            a, b = (r + 1) % 3, (r + 2) % 3
            rows[3 + r][3 + c] = J[c][r]
            turning[3 + r][3 + c] = (e[a] * spin[b] - e[b] * spin[a]) + (
                w[a] * J[c][b] - w[b] * J[c][a]
            )
    return stacked(rows), stacked(turning)


def _turns(bodies: BodySet, weights: StepWeights) -> tuple[Array, Array | None]:
    """T^-1 of each body's rotation vector, T being the tangent map of rotation vectors, and the
    derivative of T times the rate by y; nothing for what does not depend on the rate."""
    if bodies.frame is PlanarFrame:
        return jnp.zeros((0, 0, bodies.n + 1)), None
    rotations = lambda x: bodies.with_ground(x.reshape(-1, bodies.n)[3:])  # noqa: E731
    turn = rotations(weights.turn)
    if weights.still:  # y is the increment itself
        return jnp.broadcast_to(jnp.eye(3)[:, :, None], (3, 3, bodies.n + 1)), None
    rows = rotation_vector_rate_inverse(Vec3(*turn))
    back = jnp.stack([jnp.stack(row) for row in rows])
    if weights.rate is None:
        return back, None
    rate = Vec3(*rotations(weights.rate))

    def change(along: Array) -> Array:
        along = jnp.broadcast_to(along[:, None], turn.shape)
        spun = lambda x: jnp.stack(list(rotation_vector_rate(Vec3(*x), rate)))  # noqa: E731
        return jax.jvp(spun, (turn,), (along,))[1]

    slope = jax.vmap(change, out_axes=1)(jnp.eye(3))  # of T rate to the rotation vector
    return back, turned(slope, back)


def onward_turns(bodies: BodySet, end: StepEnd, back: Array) -> Array:
    """What takes y to a turn of the bodies at the end, (3, 3, n + 1)."""
    if not back.size:
        return back
    turn = Vec3(*bodies.with_ground(end.turn.reshape(-1, bodies.n)[3:]))
    one = jnp.ones((bodies.n + 1,))
    unit = lambda c: Vec3(*(one if i == c else 0 * one for i in range(3)))  # noqa: E731
    columns = [jnp.stack(list(rotation_vector_rate(turn, unit(c)))) for c in range(3)]
    return turned(jnp.stack(columns, axis=1), back)


def turned(block: Array, turn: Array) -> Array:
    """A block (rows, columns, elements) times `turn` in its last three columns, the rotations."""
    if not turn.size:
        return block
    at = block.shape[1] - 3
    last = [sum(block[:, at + k] * turn[k, c] for k in range(3)) for c in range(3)]
    return jnp.concatenate([block[:, :at], jnp.stack(last, axis=1)], axis=1)


def spun(bodies: BodySet, spin: Array, x: Array) -> Array:
    """R x, or T^-1 x, of a vector of all bodies, flattened."""
    if not spin.size:
        return x
    rows = x.reshape(bodies.dof, bodies.n)
    return jnp.concatenate([rows[:3], times(spin[..., 1:], rows[3:])]).ravel()


def own_blocks(blocks: Blocks) -> Array:
    """What y does to the equations of motion of its body."""
    own = turned(blocks.inertia, blocks.spin[..., 1:])
    return own if blocks.stiffness is None else own + blocks.stiffness


def rate_rows(bodies: BodySet, blocks: Blocks) -> list[list[Array] | None]:
    """The rows of velocity level by y, s being R y."""
    out: list[list[Array] | None] = []
    for group, speed, place in zip(
        bodies.joints, blocks.by_velocity, blocks.by_position, strict=True
    ):
        if speed is None or place is None:
            out.append(None)
            continue
        triples = zip(speed, place, group.nodes, strict=True)
        out.append([turned(x, take(blocks.spin, table)) + y for x, y, table in triples])
    return out


def whole(bodies: BodySet, block: Array, translation: Any = None) -> Array:
    """Blocks of bodies with all rows and columns: where they are those of rotations alone, with the
    mass for translations, or another number."""
    first = bodies.dof - len(block)
    own = bodies.mass if translation is None else jnp.full((bodies.n,), translation)
    lower = jnp.pad(block, ((0, 0), (first, 0), (0, 0)))
    upper = np.eye(first)[:, :, None] * own
    return jnp.concatenate([jnp.pad(upper, ((0, 0), (0, len(block)), (0, 0))), lower])


def by_body(bodies: BodySet, mass: Array, block: Array, x: Array) -> Array:
    """Blocks of bodies, or masses and blocks of rotations, times x of shape (dof, n)."""
    first = bodies.dof - len(block)
    return jnp.concatenate([mass * x[:first], times(block, x[first:])])


def times(block: Array, x: Array) -> Array:
    """Blocks (rows, dof, n) times vectors (dof, n)."""
    return jnp.stack([sum(row[c] * x[c] for c in range(len(x))) for row in block])  # pyright: ignore
