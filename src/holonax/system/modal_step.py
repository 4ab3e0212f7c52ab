"""Implicit steps of mechanisms with bodies that have modes: a border around those of ordinary ones.

The equations are those of `step.py`. A frame of a body with modes moves with its coordinates z,

    Y = T y,     S = T s + (T v)_q y / ratio,

and what elements do to the frames, as if each were free, is brought back by T^T. So the blocks of
all frames, with T and the derivatives of the body's own equations, are the whole matrix. It is
bordered: y, l and m of ordinary bodies and of the joints among them are solved for as they are
without bodies that have modes, and what is left is dense (`modal_graph.py`, `linalg/bordered.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.bordered import BorderFactor, factor_border, solve_border
from .base import Array
from .dense import REJECTED
from .elements import Indices, take
from .modal_graph import inverse
from .step import Level, StepPoint, StepSolver, StepWeights
from .tangent import MechanismSolver
from .tangent_blocks import (
    Blocks,
    Slopes,
    force_diagonals,
    onward_turns,
    spun,
    step_blocks,
    step_slopes,
)
from .tangent_solvers import applied, motion_times, padded_mu, rows_times

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from .modal import ModalBodySet
    from .modal_body import ModalBody


class BodySlopes(NamedTuple):
    """Derivatives of one body with modes by its k coordinates.

    Of its own equations, with what the elements at its frames do while these stay: M, F_v and F_x,
    (k, k). Of its frames, (dof frames, k): `carried` is T, `turning` (T v)_q; both once more where
    constraints are taken, by y and by s; and, at acceleration level, those of the frames'
    accelerations by the body's velocity and place, else None.
    """

    inertia: Array
    damping: Array
    stiffness: Array
    carried: Array
    turning: Array
    row_place: Array
    row_speed: Array
    row_turning: Array
    by_velocity: Any
    by_place: Any


class ModalSlopes(NamedTuple):
    """Those of all frames, and of each body with modes."""

    frames: Slopes
    bodies: list[BodySlopes]


class ModalMatrix(NamedTuple):
    """The matrix of a step: its blocks of all frames, those of bodies with modes, the reach and
    ratio of the step."""

    blocks: Blocks
    bodies: list[BodySlopes]
    reach: Any
    ratio: Any


class ModalFactor(NamedTuple):
    """The matrix, the factor of ordinary bodies, and that of the border."""

    matrix: ModalMatrix
    rigid: PyTree
    border: BorderFactor


class ModalSolver(StepSolver):
    """Solves the linear equations of steps by the structure of the ordinary bodies."""

    def __init__(self, bodies: ModalBodySet, level: Level, augment: float | None):
        graph = bodies.graph
        assert graph is not None
        self._bodies, self._graph, self._augment = bodies, graph, augment
        if level == "both" and not bodies.joints:
            level = "velocity"
        self._level: Level = level
        self._inner = MechanismSolver(graph.rigid, level, augment)
        held = level == "both"
        none = Indices()
        self._far_held = graph.holonomic(graph.far) if held else none
        self._near_held = graph.holonomic(graph.near) if held else none
        own = bodies.velocity_size - graph.rigid.velocity_size
        self._sizes = (
            (graph.rigid.velocity_size, len(graph.far), len(self._far_held)),
            (own, len(graph.near), len(self._near_held)),
        )
        first = 0 if graph.coupled else own
        self._reaching = np.arange(first, sum(self._sizes[1]))

    @property
    def doubled(self) -> bool:
        return self._inner.doubled

    @property
    def products(self) -> float:
        return self._inner.products

    @property
    def dear(self) -> bool:
        return True

    # -- the matrix --------------------------------------------------------------------------

    def slopes(self, at: StepPoint, weights: StepWeights) -> ModalSlopes:
        bodies, every, end = self._bodies, self._bodies.every, weights.end
        Q, V = bodies.spread(at.q, at.v)
        A = bodies.spread(at.q, at.a)[1] + bodies.drift(at.q, at.v)
        wide = weights._replace(turn=bodies.framed(weights.turn))
        if weights.rate is not None:
            wide = wide._replace(rate=bodies.framed(weights.rate))
        if end is not None:
            q, v = bodies.spread(end.q, end.v)
            wide = wide._replace(end=end._replace(q=q, v=v, turn=bodies.framed(end.turn)))
        frames = step_slopes(every, self._level, StepPoint(Q, V, at.t, A, at.lam), wide)
        pulls = every.apply_transpose(frames.gradients, at.lam, "all") - every.force(Q, V, at.t)
        pulls = pulls.reshape(every.dof, every.n)
        turns = None if wide.end is None else onward_turns(every, wide.end, frames.back)
        parts = []
        for k, body in enumerate(bodies.flexible):
            table = bodies.frames_of(body)
            turn = None if turns is None or not turns.size else turns[:, :, table[0] + 1]
            pull = take(pulls, table)
            parts.append(self._body_slopes(k, body, at, weights, pull, turn))
        return ModalSlopes(frames, parts)

    def _body_slopes(
        self,
        k: int,
        body: ModalBody,
        at: StepPoint,
        weights: StepWeights,
        pull: Array,
        turn: Array | None,
    ) -> BodySlopes:
        bodies, end = self._bodies, weights.end
        size, dof = bodies.dof + body.modes, bodies.dof
        still, z, a = jnp.zeros((size,)), bodies.coordinates(k, at.v), bodies.coordinates(k, at.a)
        here = bodies.place(k, at.q)
        moved = lambda y, u: body.velocities(body.moved(here, y), u)  # noqa: E731
        carried = jax.jacfwd(lambda u: moved(still, u))(still)
        turning = jax.jacfwd(lambda y: moved(y, z))(still)

        def own(y: Array, u: Array) -> Array:
            place = body.moved(here, y)
            # the frames are pulled at wherever they are, by the same forces
            power = jax.grad(lambda w: jnp.vdot(pull.ravel(), moved(y, w)))(still)
            force = body.force(bodies.gravity, place[0], u[:dof], place[1], u[dof:])
            return body.block(*place) @ a - force + power

        inertia = body.block(*here)
        damping = jax.jacfwd(lambda u: own(still, u))(z)
        if weights.still:
            stiffness, turning = jnp.zeros((size, size)), jnp.zeros_like(turning)
        else:
            stiffness = jax.jacfwd(lambda y: own(y, z))(still)
        rows = carried, carried, turning
        if end is not None:
            rows = self._end_rows(k, weights, turn)
        swung = None, None
        if self._level == "acceleration":
            swing = lambda y, u: body.accelerations(body.moved(here, y), u, a)  # noqa: E731
            swung = (
                jax.jacfwd(lambda u: swing(still, u))(z),
                jax.jacfwd(lambda y: swing(y, z))(still),
            )
        return BodySlopes(inertia, damping, stiffness, carried, turning, *rows, *swung)

    def _end_rows(
        self, k: int, weights: StepWeights, turn: Array | None
    ) -> tuple[Array, Array, Array]:
        """The frames where constraints are taken, by y, by s, and their velocity by y. What `turn`
        and the shares of the end do to a body's own frame is in the blocks already."""
        bodies, end = self._bodies, weights.end
        assert end is not None
        body, dof = bodies.flexible[k], bodies.dof
        here, z = bodies.place(k, end.q), bodies.coordinates(k, end.v)
        still, onward = jnp.zeros_like(z), jnp.eye(len(z))
        if turn is not None:
            onward = onward.at[3:6, 3:6].set(turn)
        carried = jax.jacfwd(lambda u: body.velocities(here, u))(still)
        turning = jax.jacfwd(lambda y: body.velocities(body.moved(here, y), z))(still)
        frames = len(carried) // dof
        itself = (np.arange(len(carried)) % frames == 0)[:, None]
        place = jnp.where(itself, carried, carried @ onward)
        return place, carried, (end.share / end.speed) * turning @ onward

    def factor(self, slopes: ModalSlopes, weights: StepWeights) -> ModalFactor:
        graph, plan = self._graph, self._bodies.every.tangent
        assert plan is not None
        blocks = step_blocks(slopes.frames, weights)
        matrix = ModalMatrix(blocks, slopes.bodies, weights.reach, weights.ratio)
        rigid = self._inner.way.prepare(graph.restricted(blocks, plan.couplings))
        sizes = sum(self._sizes[0]), sum(self._sizes[1])
        product, solve = partial(self._times, matrix), partial(self._ordinary, rigid)
        return ModalFactor(matrix, rigid, factor_border(product, solve, sizes, self._reaching))

    def _times(self, matrix: ModalMatrix, x: Array, w: Array) -> tuple[Array, Array]:
        """The matrix times (y, l, m), each taken apart into ordinary bodies and the border."""
        bodies, graph, every = self._bodies, self._graph, self._bodies.every
        blocks, reach, ratio = matrix.blocks, matrix.reach, matrix.ratio
        (y, l, m), (z, l_near, m_near) = (
            _split(a, size) for a, size in zip((x, w), self._sizes, strict=True)
        )
        l = _merged(graph.far, graph.near, l, l_near)
        zs = bodies.by_body(z)
        tables = [bodies.frames_of(body) for body in bodies.flexible]
        turns = [take(blocks.spin, Indices((table[0] + 1,))) for table in tables]
        spin = take(blocks.spin, Indices.of([0, *(i + 1 for i in graph.ordinary)]))
        s = spun(graph.rigid, spin, y)
        rates = [_turned(turn, part) for turn, part in zip(turns, zs, strict=True)]
        if len(self._far_held) + len(self._near_held):
            m = _merged(self._far_held, self._near_held, m, m_near)
            pushed = every.apply_transpose(blocks.gradients, padded_mu(m, l), "all")
            pushed = pushed.reshape(every.dof, every.n)
            s = s + take(pushed, graph.ordinary).ravel()
            for k, (b, table) in enumerate(zip(matrix.bodies, tables, strict=True)):
                rates[k] = rates[k] + b.carried.T @ take(pushed, table).ravel()
        # the motion
        both = list(zip(matrix.bodies, zs, rates, strict=True))
        Y = self._wide(y, [b.carried @ e for b, e, _ in both])
        S = self._wide(s, [b.carried @ r + b.turning @ e / ratio for b, e, r in both])
        motion = motion_times(every, blocks, S, Y, l).reshape(every.dof, every.n)
        own = []
        for (b, e, r), table in zip(both, tables, strict=True):
            pulled = b.carried.T @ take(motion, table).ravel()
            inertia = b.inertia @ r + reach * ratio * (b.damping @ r)
            own.append(pulled + inertia + reach * (b.stiffness @ e))
        # the constraints
        Y = self._wide(y, [b.row_place @ e for b, e, _ in both])
        S = self._wide(s, [b.row_speed @ r + b.row_turning @ e / ratio for b, e, r in both])
        rows, places = rows_times(every, blocks, S, Y)
        if self._level == "acceleration":
            swung = self._wide(
                jnp.zeros_like(s),
                [
                    reach * (ratio * (b.by_velocity @ r) + b.by_place @ e) - b.turning @ e / ratio
                    for b, e, r in both
                ],
            )
            rows = rows + applied(every, blocks.gradients, swung)
        if self._level != "both":
            rows = rows + places
        upper = take(motion, graph.ordinary).ravel()
        first = [upper, take(rows, graph.far), take(places, self._far_held)]
        rest = [*own, take(rows, graph.near), take(places, self._near_held)]
        return jnp.concatenate(first), jnp.concatenate(rest)

    def _wide(self, ordinary: Array, parts: Sequence[Array]) -> Array:
        """A vector of all frames, of those of ordinary bodies and of each body with modes."""
        dof, graph = self._bodies.dof, self._graph
        tables = [self._bodies.frames_of(body) for body in self._bodies.flexible]
        rows = [x.reshape(dof, -1) for x in (ordinary, *parts)]
        where = Indices.of([*graph.ordinary, *(i for table in tables for i in table)])
        return take(jnp.concatenate(rows, axis=1), inverse(where)).ravel()

    # -- its solution ------------------------------------------------------------------------

    def _ordinary(self, factor: PyTree, sides: Array) -> Array:
        """(y, l, m) of ordinary bodies alone."""
        motion, constraints, positions = _split(sides, self._sizes[0])
        held = positions if len(self._far_held) else None
        y, l, m = self._inner.way.solve(factor, motion, constraints, held)
        return jnp.concatenate([y, l, positions if m is None else m])

    def solve(
        self,
        factor: ModalFactor,
        motion: Array,
        constraints: Array,
        positions: Array | None,
        *,
        checked: bool = True,
    ) -> tuple[Array, Array, Array | None, Array]:
        bodies, graph = self._bodies, self._graph
        product = partial(self._times, factor.matrix)
        held = constraints[:0] if positions is None else positions
        ordinary, own = bodies.entries()
        sides = (
            _joined(motion, constraints, held, (ordinary, graph.far, self._far_held)),
            _joined(motion, constraints, held, (own, graph.near, self._near_held)),
        )
        solve = partial(self._ordinary, factor.rigid)
        x, w = solve_border(factor.border, product, solve, self._reaching, sides)
        fine = jnp.asarray(True)
        if checked and not jnp.iscomplexobj(x):
            fine = self._solves(product, sides, (x, w))
        (y, l, m), (z, l_near, m_near) = (
            _split(a, size) for a, size in zip((x, w), self._sizes, strict=True)
        )
        found = bodies.turned(factor.matrix.blocks.back, _merged(ordinary, own, y, z))
        l = _merged(graph.far, graph.near, l, l_near)
        if positions is None:
            return found, l, None, fine
        return found, l, _merged(self._far_held, self._near_held, m, m_near), fine

    def _solves(
        self, product: Any, sides: tuple[Array, Array], found: tuple[Array, Array]
    ) -> Array:
        """Whether little is left of the right-hand sides, relative to the largest terms."""
        big = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731
        both = lambda pair, k: jnp.concatenate(  # noqa: E731
            [_split(x, size)[k] for x, size in zip(pair, self._sizes, strict=True)]
        )
        alone = [
            x.at[: size[0]].set(0.0).at[size[0] + size[1] :].set(0.0)
            for x, size in zip(found, self._sizes, strict=True)
        ]
        pull, y = big(both(product(*alone), 0)), big(both(found, 0))
        got = product(*found)
        fine = jnp.array(True)
        for k, other in enumerate((pull, y, y)):
            side = both(sides, k)
            fine &= big(side - both(got, k)) <= REJECTED * jnp.maximum(big(side), other)
        return fine


def modal_diagonals(
    bodies: ModalBodySet, q: Array, v: Array, t: Array
) -> tuple[Array, Array, Array]:
    """The diagonals of M, df/dv and df/dq, those of bodies with modes behind the others."""
    graph, _, own = bodies.graph, *bodies.entries()
    assert graph is not None
    columns = np.eye(bodies.velocity_size)[own.array()]
    moved = lambda y: bodies.force(bodies.retract(q, y), v, t)  # noqa: E731
    slope = lambda f, x: jax.lax.map(  # noqa: E731
        lambda e: jnp.vdot(e, jax.jvp(f, (x,), (e,))[1]), jnp.asarray(columns)
    )
    mass = jax.lax.map(lambda e: jnp.vdot(e, bodies.momentum(q, e)), jnp.asarray(columns))
    rest = mass, slope(lambda x: bodies.force(q, x, t), v), slope(moved, jnp.zeros_like(v))
    ordinary = force_diagonals(bodies.every, *bodies.spread(q, v), t)
    pairs = zip(ordinary, rest, strict=True)
    mass, damping, stiffness = (
        jnp.concatenate([take(x, graph.ordinary).ravel(), y]) for x, y in pairs
    )
    return mass, damping, stiffness


def _split(x: Array, sizes: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    a, b, _ = sizes
    return x[:a], x[a : a + b], x[a + b :]


def _joined(motion: Array, rows: Array, held: Array, tables: tuple[Indices, ...]) -> Array:
    return jnp.concatenate(
        [take(x, table) for x, table in zip((motion, rows, held), tables, strict=True)]
    )


def _merged(first: Indices, second: Indices, x: Array, y: Array) -> Array:
    """One vector of the entries `first`, x, and `second`, y."""
    return take(jnp.concatenate([x, y]), inverse(Indices.of([*first, *second])))


def _turned(spin: Array, z: Array) -> Array:
    """R z of one body with modes."""
    if not spin.size:
        return z
    return jnp.concatenate([z[:3], spin[..., 0] @ z[3:6], z[6:]])
