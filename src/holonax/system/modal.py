"""Bodies with modes among others: see `modal_body.py` for the equations of one of them.

Places of such a body that joints and forces attach to are *markers*: frames that have no
coordinates of their own, but follow from those of the body. Elements see them as any other frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier

from .._modules import Module
from ..compiler import native
from ..linalg.limits import MODAL_ROWS
from .assembly import BodySet
from .base import Array, ConstraintFactor, Metric, Rows
from .dense import DenseFactor, inverse_mass
from .elements import Group, Indices, take
from .modal_body import ModalBody
from .modal_factor import ModalConstraintFactor
from .modal_graph import ModalGraph
from .modal_step import ModalSolver, modal_diagonals
from .step import Level
from .tangent_blocks import times

if TYPE_CHECKING:
    from .reaction_forces import SeeingGroup

_MANY = 64  # states in one call


class ModalBodySet(Module):
    """Bodies some of which have modes, with the element groups between them and their markers.

    q is (components, bodies) of those that have coordinates, flattened, and behind it the
    amplitudes of all modes; v likewise. `every` is the set of all frames, markers among them, as if
    each had coordinates of its own; those of bodies with modes and of markers have no mass there.
    What elements do is asked of it, and brought back by the way in which markers move.
    """

    every: BodySet
    flexible: tuple[ModalBody, ...]
    own: Indices = eqx.field(static=True)  # the frames that have coordinates
    order: Indices = eqx.field(static=True)  # of all frames in (own, markers of each body)
    graph: ModalGraph | None  # None where everything is one dense matrix
    solver: str = eqx.field(static=True)

    @staticmethod
    def of(every: BodySet, flexible: Sequence[ModalBody], solver: str) -> ModalBodySet:
        """With the markers told from the bodies; `solver` is "auto", "dense" or "block"."""
        followed = [i for body in flexible for i in body.markers]
        own = [i for i in range(every.n) if i not in set(followed)]
        place = {i: k for k, i in enumerate([*own, *followed])}
        order = Indices.of(place[i] for i in range(every.n))
        frames = {*followed, *(own[body.frame] for body in flexible)}
        rows = sum(g.rows * g.n for g in every.joints) + every.dof * len(own)
        structured = solver == "block" or (solver == "auto" and rows > MODAL_ROWS)
        graph = None
        if structured and len(frames) < every.n:
            every, graph = ModalGraph.of(every, frames, solver)
        return ModalBodySet(every, tuple(flexible), Indices.of(own), order, graph, solver)

    # -- what it is made of: that of all frames ------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return self.every.names

    @property
    def n(self) -> int:
        """Number of frames, markers among them."""
        return self.every.n

    @property
    def frame(self) -> type:
        return self.every.frame

    @property
    def dof(self) -> int:
        return self.every.dof

    @property
    def translations(self) -> int:
        return self.every.translations

    @property
    def mass(self) -> Array:
        return self.every.mass

    @property
    def inertia(self) -> Array:
        return self.every.inertia

    @property
    def gravity(self) -> Any:
        return self.every.gravity

    @property
    def com(self) -> Array | None:
        return self.every.com

    @property
    def joints(self) -> tuple[Group, ...]:
        return self.every.joints

    @property
    def forces(self) -> tuple[Group, ...]:
        return self.every.forces

    @property
    def seeing(self) -> tuple[SeeingGroup, ...]:
        return self.every.seeing

    @property
    def tangent(self) -> None:
        """Steps are solved with a border, see `modal_step.py`, or as one dense matrix."""
        return None

    def step_solver(self, level: Level, augment: float | None) -> ModalSolver | None:
        """The solver of the linear equations of steps; None for one dense matrix."""
        return None if self.graph is None else ModalSolver(self, level, augment)

    def force_diagonals(self, q: Array, v: Array, t: Array) -> tuple[Array, Array, Array]:
        """The diagonals of M, df/dv and df/dq."""
        return modal_diagonals(self, q, v, t)

    def sturdier(self) -> ModalBodySet | None:
        """With a slower and safer solver of steps; None if there is none."""
        graph = None if self.graph is None else self.graph.sturdier()
        return None if graph is None else replace(self, graph=graph)

    def groups(self, rows: Rows) -> list[Group]:
        return self.every.groups(rows)

    def split(self, lam: Array, rows: Rows) -> list[Array]:
        return self.every.split(lam, rows)

    def row_names(self, rows: Rows) -> list[str]:
        return self.every.row_names(rows)

    def without(self, names: Sequence[str]) -> ModalBodySet:
        """The same bodies without the joints of these names."""
        return ModalBodySet.of(self.every.without(names), self.flexible, self.solver)

    def having(self, **parts: tuple[Any, ...]) -> ModalBodySet:
        """The same bodies with other `joints`, `forces` or `gravity`; for evaluation only."""
        return replace(self, every=self.every.having(**parts))

    # -- sizes and names -----------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many frames have coordinates of their own."""
        return len(self.own)

    @property
    def modes(self) -> int:
        """How many modes there are in all."""
        return sum(body.modes for body in self.flexible)

    @property
    def position_size(self) -> int:
        return self.count * self.frame.nq + self.modes

    @property
    def velocity_size(self) -> int:
        return self.count * self.dof + self.modes

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(self.names[i] for i in self.own)

    @property
    def states(self) -> tuple[str, ...]:
        """States of first order; see `first_order.py`."""
        return self.every.states

    @property
    def rigid(self) -> tuple[str, ...]:
        """The names of bodies and markers, without carriers of states."""
        return self.every.rigid

    @property
    def moving(self) -> tuple[str, ...]:
        """Of these the bodies, which have coordinates of their own."""
        return self.own_names[: self.count - len(self.states)]

    @property
    def mode_names(self) -> tuple[str, ...]:
        return tuple(f"{body.name}.modes[{k}]" for body in self.flexible for k in range(body.modes))

    def radii(self) -> np.ndarray:
        """Radii of gyration about frames' origins [m]."""
        heavy = np.asarray(self.every.heavy) > 0
        moments = np.atleast_2d(np.asarray(self.inertia))[:3, heavy]
        rigid = np.sqrt(np.max(moments / np.asarray(self.mass)[heavy], axis=0))
        own = [np.sqrt(np.max(np.abs(x.inertia)) / x.mass) for x in self.flexible]
        return np.concatenate([rigid, own])

    def mode_sizes(self) -> np.ndarray:
        """By how much the points of a body move with each of its modes, in the mean."""
        parts = [
            np.sqrt(np.maximum(np.diagonal(np.asarray(x.modal_mass)) / np.asarray(x.mass), 1e-300))
            for x in self.flexible
        ]
        return np.concatenate([np.zeros(0), *parts])

    # -- state ---------------------------------------------------------------------------------

    def _parts(self, x: Array, rows: int) -> tuple[Array, list[Array]]:
        """Rows over the bodies with coordinates, and amplitudes of each flexible body."""
        at = rows * self.count
        out, start = [], at
        for body in self.flexible:
            out.append(x[start : start + body.modes])
            start += body.modes
        return x[:at].reshape(rows, self.count), out

    def positions(self, q: Array) -> tuple[Array, list[Array]]:
        """(components, bodies) and the amplitudes of each flexible body."""
        return self._parts(q, self.frame.nq)

    def velocities(self, v: Array) -> tuple[Array, list[Array]]:
        """(components, bodies) and the rates of the amplitudes."""
        return self._parts(v, self.dof)

    def spread(self, q: Array, v: Array) -> tuple[Array, Array]:
        """q and v of all frames."""
        return _spread(self, q, v)

    def _spread(self, q: Array, v: Array) -> tuple[Array, Array]:
        (at, etas), (moving, rates) = self.positions(q), self.velocities(v)
        all_q, all_v = [at], [moving]
        for body, eta, rate in zip(self.flexible, etas, rates, strict=True):
            if body.markers:
                x, y = body.placed(at[:, body.frame], moving[:, body.frame], eta, rate)
                all_q.append(x)
                all_v.append(y)
        Q, V = jnp.concatenate(all_q, axis=1), jnp.concatenate(all_v, axis=1)
        return take(Q, self.order).ravel(), take(V, self.order).ravel()

    def drift(self, q: Array, v: Array) -> Array:
        """v' of all frames while v stays as it is."""
        along = lambda x: self.spread(x, v)[1]  # noqa: E731
        return jax.jvp(along, (q,), (self.qdot(q, v),))[1]

    def pulled(self, q: Array, force: Array) -> Array:
        """Forces on all frames as those of the coordinates."""
        return _pulled(self, q, force)

    def _pulled(self, q: Array, force: Array) -> Array:
        still = jnp.zeros((self.velocity_size,))
        return jax.vjp(lambda v: self.spread(q, v)[1], still)[1](force)[0]

    def carried(self, q: Array) -> Array:
        """The matrix that takes v to that of all frames."""
        return jax.vmap(lambda v: self.spread(q, v)[1], out_axes=1)(jnp.eye(self.velocity_size))

    def frames(self, q: Array, v: Array) -> Any:
        """Frames of the ground (entry 0) and all others, as component vectors."""
        return self.every.frames(*self.spread(q, v))

    def _joined(self, rows: Array, *amplitudes: Array) -> Array:
        return jnp.concatenate([rows.ravel(), *amplitudes])

    def _rest(self, x: Array, rows: int) -> Array:
        return x[rows * self.count :]

    def qdot(self, q: Array, v: Array) -> Array:
        at, moving = self.positions(q)[0], self.velocities(v)[0]
        return self._joined(self.frame.qdot(at, moving), self._rest(v, self.dof))

    def retract(self, q: Array, step: Array) -> Array:
        at, moved = self.positions(q)[0], self.velocities(step)[0]
        rest = self._rest(q, self.frame.nq) + self._rest(step, self.dof)
        return self._joined(self.frame.retract(at, moved), rest)

    def difference(self, start: Array, end: Array) -> Array:
        a, b = self.positions(start)[0], self.positions(end)[0]
        rest = self._rest(end, self.frame.nq) - self._rest(start, self.frame.nq)
        return self._joined(self.frame.difference(a, b), rest)

    def increment_rate(self, step: Array, rate: Array) -> Array:
        a, b = self.velocities(step)[0], self.velocities(rate)[0]
        return self._joined(self.frame.increment_rate(a, b), self._rest(rate, self.dof))

    def extent(self, q: Array) -> Array:
        d = self.translations
        size = jnp.abs(self.positions(q)[0][:d])
        turns = jnp.ones((self.dof - d, self.count))
        return self._joined(jnp.concatenate([size, turns]), jnp.abs(self._rest(q, self.frame.nq)))

    def normalize(self, q: Array) -> Array:
        return self._joined(
            self.frame.normalize(self.positions(q)[0]), self._rest(q, self.frame.nq)
        )

    # -- inertia and forces --------------------------------------------------------------------

    def entries(self) -> tuple[Indices, Indices]:
        """Where the coordinates of bodies without modes are in v, and those of bodies with modes,
        one after the other."""
        flexible = {body.frame for body in self.flexible}
        places = [k for k in range(self.count) if k not in flexible]
        rest = [i for body in self.flexible for i in self._columns(body)]
        return Indices.of(c * self.count + k for c in range(self.dof) for k in places), Indices.of(
            rest
        )

    def by_body(self, z: Array) -> list[Array]:
        """Coordinates of bodies with modes, one after the other, taken apart."""
        ends = np.cumsum([0, *(self.dof + body.modes for body in self.flexible)])
        return [z[a:b] for a, b in pairwise(ends)]

    def frames_of(self, body: ModalBody) -> Indices:
        """The frames of a body with modes: its own and those of its markers."""
        return Indices.of([self.own[body.frame], *body.markers])

    def place(self, k: int, q: Array) -> tuple[Array, Array]:
        """Frame and amplitudes of the k-th body with modes."""
        at, etas = self.positions(q)
        return at[:, self.flexible[k].frame], etas[k]

    def coordinates(self, k: int, v: Array) -> Array:
        """Of the k-th body with modes those in v."""
        moving, rates = self.velocities(v)
        return jnp.concatenate([moving[:, self.flexible[k].frame], rates[k]])

    def framed(self, v: Array) -> Array:
        """v of the frames with coordinates, and zero of the markers, as a vector of all frames."""
        rows = jnp.pad(self.velocities(v)[0], ((0, 0), (0, self.n - self.count)))
        return take(rows, self.order).ravel()

    def turned(self, turn: Array, v: Array) -> Array:
        """v with its rotations times `turn` (3, 3, frames + 1); nothing in the plane."""
        if not turn.size:
            return v
        rows = self.velocities(v)[0]
        own = take(turn, Indices.of(i + 1 for i in self.own))
        rows = jnp.concatenate([rows[:3], times(own, rows[3:])])
        return self._joined(rows, self._rest(v, self.dof))

    def _columns(self, body: ModalBody) -> np.ndarray:
        """Where the coordinates of a flexible body are in v."""
        before = self.dof * self.count
        for other in self.flexible:
            if other is body:
                break
            before += other.modes
        frame = np.arange(self.dof) * self.count + body.frame
        return np.concatenate([frame, before + np.arange(body.modes)])

    def _into(self, body: ModalBody) -> np.ndarray:
        """The matrix that puts what belongs to a flexible body where it is in v."""
        return np.eye(self.velocity_size)[:, self._columns(body)]

    def _rigid(self, rows: Array) -> Array:
        """M v of the bodies without modes, (components, bodies)."""
        every, d = self.every, self.translations
        mass, inertia = take(every.mass, self.own), take(every.inertia, self.own)
        turned = every.apply_inertia(inertia, list(rows[d:]))
        return jnp.concatenate([rows[:d] * mass, jnp.stack(turned)])

    def mass_matrix(self, q: Array) -> Array:
        """M, dense."""
        return _mass_matrix(self, q)

    def _mass_matrix(self, q: Array) -> Array:
        at, etas = self.positions(q)
        shape, rest = (self.dof, self.count), self.modes
        size = self.dof * self.count
        rigid = jax.vmap(lambda x: self._rigid(x.reshape(shape)).ravel())(jnp.eye(size))
        total = jnp.pad(rigid, ((0, rest), (0, rest)))
        for body, eta in zip(self.flexible, etas, strict=True):
            into = self._into(body)
            total = total + into @ body.block(at[:, body.frame], eta) @ into.T
        return optimization_barrier(total)

    def momentum(self, q: Array, v: Array) -> Array:
        """M v."""
        at, etas = self.positions(q)
        moving, rates = self.velocities(v)
        total = self._joined(self._rigid(moving), jnp.zeros((self.modes,)))
        for body, eta, rate in zip(self.flexible, etas, rates, strict=True):
            own = jnp.concatenate([moving[:, body.frame], rate])
            total = total + self._into(body) @ (body.block(at[:, body.frame], eta) @ own)
        return total

    def force(self, q: Array, v: Array, t: Array) -> Array:
        """Gravity, inertia forces, elastic ones, and all force elements."""
        return _force(self, q, v, t)

    def _force(self, q: Array, v: Array, t: Array) -> Array:
        (at, etas), (moving, rates) = self.positions(q), self.velocities(v)
        total = self.pulled(q, self.every._force(*self.spread(q, v), t))
        for body, eta, rate in zip(self.flexible, etas, rates, strict=True):
            place = at[:, body.frame], moving[:, body.frame]
            own = body.force(self.gravity, *place, eta, rate)
            total = total + self._into(body) @ own
        return total

    def reaction_force(self, q: Array, v: Array, t: Array, lam: Array) -> Array:
        """Forces that depend on the reactions of joints."""
        return self.pulled(q, self.every.reaction_force(*self.spread(q, v), t, lam))

    def potential_energy(self, q: Array) -> Array:
        """Energy of gravity, of deformations, and of all force elements that store some."""
        still = jnp.zeros((self.velocity_size,))
        energy = self.every.potential_energy(self.spread(q, still)[0])
        at, etas = self.positions(q)
        for body, eta in zip(self.flexible, etas, strict=True):
            energy = energy + body.potential(self.gravity, at[:, body.frame], eta)
        return energy

    # -- constraints ---------------------------------------------------------------------------

    def stacked(self, name: str, q: Array, v: Array, t: Array, rows: Rows) -> Array:
        """`residual`, `rate` or `gamma` of all groups, flattened."""
        return _stacked(name, rows, self, q, v, t)

    def _stacked(self, name: str, rows: Rows, q: Array, v: Array, t: Array) -> Array:
        if name != "gamma":
            return self.every.stacked(name, *self.spread(q, v), t, rows)
        # markers are accelerated while v stays as it is, so that the motion is followed from q on
        t = jnp.asarray(t, float)
        rate = lambda q, t: self.every.stacked("rate", *self.spread(q, v), t, rows)  # noqa: E731
        return -jax.jvp(rate, (q, t), (self.qdot(q, v), jnp.ones_like(t)))[1]

    def blocks(self, q: Array, t: Array, rows: Rows) -> list[list[Array]]:
        """Local Jacobian blocks of the frames, [group][node], each (rows, dof, elements)."""
        return self.every.blocks(self.spread(q, jnp.zeros((self.velocity_size,)))[0], t, rows)

    def jacobian(self, q: Array, t: Array, rows: Rows) -> Array:
        """G, dense."""
        return _jacobian(rows, self, q, t)

    def _jacobian(self, rows: Rows, q: Array, t: Array) -> Array:
        return self.every.dense(self.blocks(q, t, rows), rows) @ self.carried(q)

    def constraint_force(self, q: Array, t: Array, lam: Array) -> Array:
        """[G; A]^T lam."""
        return self.pulled(q, self.every.apply_transpose(self.blocks(q, t, "all"), lam, "all"))

    def factor(
        self,
        q: Array,
        t: Array,
        metric: Metric,
        rows: Rows,
        shift: Array | float,
        redundant: bool,
    ) -> ConstraintFactor:
        """Prepare the saddle-point solver."""
        if self.graph is not None and not redundant:
            return ModalConstraintFactor(self, q, t, metric, rows, shift)
        G = self.jacobian(q, t, rows)
        mass = self.mass_matrix(q) if metric == "mass" else None
        G, mass = optimization_barrier((G, mass))
        return DenseFactor(G, inverse_mass(mass), shift, redundant=redundant)


AnyBodies = BodySet | ModalBodySet


# A program asks for these several times; inside a jit they are traced once.


@jax.jit
def _spread(bodies: ModalBodySet, q: Array, v: Array) -> tuple[Array, Array]:
    return bodies._spread(q, v)


@jax.jit
def _pulled(bodies: ModalBodySet, q: Array, force: Array) -> Array:
    return bodies._pulled(q, force)


@partial(jax.jit, static_argnums=(0, 1))
def _stacked(name: str, rows: Rows, bodies: ModalBodySet, q: Array, v: Array, t: Array) -> Array:
    return bodies._stacked(name, rows, q, v, t)


@partial(jax.jit, static_argnums=0)
def _jacobian(rows: Rows, bodies: ModalBodySet, q: Array, t: Array) -> Array:
    return bodies._jacobian(rows, q, t)


@jax.jit
def _force(bodies: ModalBodySet, q: Array, v: Array, t: Array) -> Array:
    return bodies._force(q, v, t)


@jax.jit
def _mass_matrix(bodies: ModalBodySet, q: Array) -> Array:
    return bodies._mass_matrix(q)


# -- states of all frames on the host ----------------------------------------------------------


@native(once=True)
def _spread_states(bodies: ModalBodySet, q: Array, v: Array, a: Any) -> Any:
    def at(x: Any) -> Any:
        q, v, a = x
        Q, V = bodies.spread(q, v)
        return Q, V, bodies.spread(q, a)[1] + bodies.drift(q, v)

    return jax.lax.map(at, (q, v, a))


def spread_states(
    bodies: AnyBodies, q: np.ndarray, v: np.ndarray, a: np.ndarray | None = None
) -> tuple[Any, Any, Any]:
    """q, v and v' (times, ...) of all frames of a set of bodies, markers among them."""
    if not isinstance(bodies, ModalBodySet):
        return q, v, a
    given = [np.asarray(x, float) for x in (q, v, np.zeros_like(v) if a is None else a)]
    parts = []
    for k in range(0, len(given[0]), _MANY):
        states = [x[k : k + _MANY] for x in given]
        n = len(states[0])
        padded = [np.concatenate([x, np.repeat(x[-1:], _MANY - n, axis=0)]) for x in states]
        parts.append([np.asarray(x)[:n] for x in _spread_states(bodies, *padded)])
    Q, V, A = (np.concatenate(x) for x in zip(*parts, strict=True))
    return Q, V, A


def amplitudes(bodies: AnyBodies, name: str, q: np.ndarray, rows: int) -> np.ndarray | None:
    """The amplitudes (times, modes) of the body of that name, or their rates; None if it has no
    modes. `rows` are the components of a frame in q (or v)."""
    if not isinstance(bodies, ModalBodySet):
        return None
    start = rows * bodies.count
    for body in bodies.flexible:
        if body.name == name:
            return q[..., start : start + body.modes]
        start += body.modes
    return None


def mode_count(bodies: AnyBodies, name: str) -> int:
    """How many modes the body of that name has."""
    flexible = bodies.flexible if isinstance(bodies, ModalBodySet) else ()
    return next((body.modes for body in flexible if body.name == name), 0)
