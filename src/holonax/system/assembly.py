"""From local blocks to global operators: one `BodySet` holds the bodies of one kind (planar or
spatial), the groups of elements between them, and the static tables that join the two.

State vectors are rows of components over bodies: q is (nq, n) and v is (dof, n), flattened.
Multipliers are, group by group, rows of components over the group's elements. The mass matrix is
constant: mass and, in body axes, inertia about the centre of mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier

from .._modules import Module
from ..rotation import Vec3
from .base import Array, ConstraintFactor, Metric, Rows
from .blocks import BlockConstraintFactor, BlockPlan
from .elements import Group, Indices, Scatter, take
from .frames import PlanarFrame
from .reaction_forces import SeeingGroup
from .step import Level
from .tangent import MechanismSolver, TangentPlan
from .tangent_blocks import force_diagonals


class BodySet(Module):
    """The bodies of one kind with the element groups between them.

    `mass` is (n,); `inertia` is (n,) for planar bodies and (6, n) for spatial ones, in the order
    xx, yy, zz, xy, xz, yz, or (3, n) where no body has products of inertia. `gravity` is the
    acceleration of free fall. `com` (n, 2 or 3) is where the centres of mass lie in coordinates
    that begin elsewhere, for those who ask in these; q, v and the elements know the centres of
    mass only. The last of the bodies are carriers of the `states` (see `first_order.py`).
    """

    mass: Array
    inertia: Array
    gravity: Any
    joints: tuple[Group, ...]
    forces: tuple[Group, ...]
    names: tuple[str, ...] = eqx.field(static=True)
    frame: type = eqx.field(static=True)
    plans: dict[str, BlockPlan]
    tangent: TangentPlan | None
    com: Array | None = None
    seeing: tuple[SeeingGroup, ...] = ()
    states: tuple[str, ...] = eqx.field(static=True, default=())

    @staticmethod
    def of(
        *,
        mass: Array,
        inertia: Array,
        gravity: tuple[float | Array, ...],
        joints: Sequence[Group],
        forces: Sequence[Group],
        names: Sequence[str],
        frame: type,
        solver: str = "auto",
        com: Array | None = None,
        seeing: Sequence[SeeingGroup] = (),
        states: Sequence[str] = (),
    ) -> BodySet:
        """Bodies with their elements; `solver` is "auto", "dense" or "block", or "none" for a set
        that is evaluated only."""
        plans, tangent = {}, None
        if solver != "none":
            parts = {"all": joints, "holonomic": [g for g in joints if g.is_holonomic]}
            plans = {rows: BlockPlan.of(groups, solver) for rows, groups in parts.items()}
        if solver in ("auto", "block"):
            tangent = TangentPlan.of(joints, forces, plans["all"], frame, mass)
            tangent = replace(tangent, quick=solver == "auto")
        return BodySet(
            mass,
            inertia,
            gravity,
            tuple(joints),
            tuple(forces),
            tuple(names),
            frame,
            plans,
            tangent,
            com,
            tuple(seeing),
            tuple(states),
        )

    @property
    def n(self) -> int:
        """Number of bodies, carriers of states among them."""
        return len(self.names)

    @property
    def count(self) -> int:
        """How many of them have coordinates of their own: all (see `modal.py` for others)."""
        return self.n

    @property
    def rigid(self) -> tuple[str, ...]:
        """The names of the bodies that are no carriers of states."""
        return self.names[: self.n - len(self.states)]

    @property
    def moving(self) -> tuple[str, ...]:
        """Of these the ones that have coordinates of their own: all."""
        return self.rigid

    @property
    def heavy(self) -> Array:
        """The masses that gravity pulls: those of carriers are none."""
        if not self.states:
            return self.mass
        return self.mass * (np.arange(self.n) < self.n - len(self.states))

    @property
    def dof(self) -> int:
        """Velocity coordinates of a body."""
        return self.frame.dof

    @property
    def position_size(self) -> int:
        """The length of q."""
        return self.n * self.frame.nq

    @property
    def velocity_size(self) -> int:
        """The length of v."""
        return self.n * self.dof

    @property
    def own_names(self) -> tuple[str, ...]:
        """The bodies that have coordinates of their own."""
        return self.names

    @property
    def mode_names(self) -> tuple[str, ...]:
        """What the amplitudes of modes are called, of which there are none."""
        return ()

    def radii(self) -> np.ndarray:
        """The largest radius of gyration of each body [m]."""
        real = len(self.rigid)
        rows = 1 if self.frame is PlanarFrame else 3
        inertia = np.atleast_2d(np.asarray(self.inertia))[:rows, :real]
        return np.sqrt(np.max(inertia / np.asarray(self.mass)[:real], axis=0))

    def mode_sizes(self) -> np.ndarray:
        """By how much points move with each mode."""
        return np.zeros(0)

    @property
    def translations(self) -> int:
        """How many of them are translations: 2 or 3."""
        return 2 if self.frame is PlanarFrame else 3

    def groups(self, rows: Rows) -> list[Group]:
        """Constraint groups, holonomic ones first."""
        return [g for g in self.joints if rows == "all" or g.is_holonomic]

    def without(self, names: Sequence[str]) -> BodySet:
        """The same bodies without the joints of these names."""
        joints = [part for g in self.joints if (part := g.without(names)) is not None]
        return BodySet.of(
            mass=self.mass,
            inertia=self.inertia,
            gravity=self.gravity,
            joints=joints,
            forces=self.forces,
            names=self.names,
            frame=self.frame,
            solver=self._solver,
            com=self.com,
            seeing=self.seeing,
            states=self.states,
        )

    @property
    def _solver(self) -> str:
        if not self.plans:
            return "none"
        return "dense" if self.tangent is None else "auto" if self.tangent.quick else "block"

    def sturdier(self) -> BodySet | None:
        """With a slower and safer solver of steps; None if there is none."""
        tangent = self.tangent
        if tangent is None or not (tangent.alone or tangent.welded):
            return None
        return replace(self, tangent=tangent.sturdier(self))

    def step_solver(self, level: Level, augment: float | None) -> MechanismSolver | None:
        """The solver of the linear equations of steps; None for one dense matrix."""
        return None if self.tangent is None else MechanismSolver(self, level, augment)

    def force_diagonals(self, q: Array, v: Array, t: Array) -> tuple[Array, Array, Array]:
        """The diagonals of M, df/dv and df/dq."""
        return force_diagonals(self, q, v, t)

    def having(self, **parts: tuple[Any, ...]) -> BodySet:
        """The same bodies with other `joints`, `forces` or `gravity`; for evaluation only."""
        return replace(self, **parts)

    # -- state -------------------------------------------------------------------------------

    def frames(self, q: Array, v: Array) -> Any:
        """Frames of the ground (entry 0) and all bodies, as component vectors of length n + 1."""
        bodies = self.frame.from_state(q.reshape(-1, self.n), v.reshape(-1, self.n))
        joined = jax.tree.map(lambda g, x: jnp.concatenate([g, x]), self.frame.ground(), bodies)
        return optimization_barrier(joined)

    def with_ground(self, x: Array) -> Array:
        """Rows over bodies with a zero for the ground in front."""
        return jnp.concatenate([jnp.zeros((*x.shape[:-1], 1), x.dtype), x], axis=-1)

    def qdot(self, q: Array, v: Array) -> Array:
        """q' = N(q) v."""
        return self.frame.qdot(q.reshape(-1, self.n), v.reshape(-1, self.n)).ravel()

    def retract(self, q: Array, step: Array) -> Array:
        """q moved by an increment."""
        return _retract(self.frame, self.n, q, step)

    def difference(self, start: Array, end: Array) -> Array:
        """The increment from start to end."""
        return self.frame.difference(start.reshape(-1, self.n), end.reshape(-1, self.n)).ravel()

    def increment_rate(self, step: Array, rate: Array) -> Array:
        """The velocity of q ⊞ step when the increment changes at `rate`."""
        return self.frame.increment_rate(step.reshape(-1, self.n), rate.reshape(-1, self.n)).ravel()

    def extent(self, q: Array) -> Array:
        """The size of each translation; one for rotations."""
        d = self.translations
        size = jnp.abs(q.reshape(-1, self.n)[:d])
        turns = np.ones((self.dof - d, self.n))
        if self.states:  # where a carrier is means nothing
            real = np.arange(self.n) < self.n - len(self.states)
            size, turns = size * real, turns * real
        return jnp.concatenate([size, turns]).ravel()

    def normalize(self, q: Array) -> Array:
        """Unit quaternions."""
        return self.frame.normalize(q.reshape(-1, self.n)).ravel()

    # -- inertia -----------------------------------------------------------------------------

    def inverse_inertia(self) -> Array:
        """J^-1, in the same order of components as `inertia`."""
        if self.frame is PlanarFrame or self.inertia.shape[0] == 3:
            return 1.0 / self.inertia
        xx, yy, zz, xy, xz, yz = self.inertia
        a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
        r = 1.0 / (xx * a + xy * b + xz * c)
        return jnp.stack([a, xx * zz - xz * xz, xx * yy - xy * xy, b, c, xy * xz - xx * yz]) * r

    def apply_inertia(self, inertia: Array, w: Sequence[Array]) -> Any:
        """`inertia` times the angular components `w`, a list of one or three rows."""
        if self.frame is PlanarFrame:
            return [inertia * w[0]]
        if inertia.shape[0] == 3:
            return [own * x for own, x in zip(inertia, w, strict=True)]
        xx, yy, zz, xy, xz, yz = inertia
        x, y, z = w
        return [xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z]

    def momentum(self, q: Array, v: Array) -> Array:
        """M v, the same at every q."""
        rows = v.reshape(-1, self.n)
        d = self.translations
        return jnp.concatenate(
            [rows[:d] * self.mass, jnp.stack(self.apply_inertia(self.inertia, list(rows[d:])))]
        ).ravel()

    def mass_matrix(self, q: Array) -> Array:
        """M, dense, the same at every q."""
        size = self.dof * self.n
        return jax.vmap(lambda v: self.momentum(q, v))(jnp.eye(size)).T

    # -- forces ------------------------------------------------------------------------------

    def force(self, q: Array, v: Array, t: Array) -> Array:
        """Gravity, gyroscopic torque and all force elements."""
        return _force(self, q, v, t)

    def _force(self, q: Array, v: Array, t: Array) -> Array:
        frames = self.frames(q, v)
        rows = v.reshape(-1, self.n)
        weight = [self.heavy * g for g in self.gravity]
        if self.frame is PlanarFrame:
            own = [*weight, jnp.zeros_like(self.mass)]
        else:
            w = Vec3(rows[3], rows[4], rows[5])
            spin = Vec3(*self.apply_inertia(self.inertia, list(w)))
            own = [*weight, *(-w.cross(spin))]
        total = jnp.stack(own)
        for group in self.forces:
            local = group.wrenches(group.frames(frames), t)
            total = total + self.scatter(group.nodes, [jnp.stack(parts) for parts in local])
        return total.ravel()

    def reaction_force(self, q: Array, v: Array, t: Array, lam: Array) -> Array:
        """Forces that depend on the reactions of joints."""
        return _reaction_force(self, q, v, t, lam)

    def _reaction_force(self, q: Array, v: Array, t: Array, lam: Array) -> Array:
        frames, parts = self.frames(q, v), self.split(lam, "all")
        total = jnp.zeros((self.dof, self.n))
        for group in self.seeing:
            local = group.wrenches(frames, t, self.joints, parts)
            total = total + self.scatter(group.nodes, local)
        return total.ravel()

    def potential_energy(self, q: Array) -> Array:
        """Energy of gravity and of all force elements that store some."""
        rows = q.reshape(-1, self.n)
        weight = sum(g * row for g, row in zip(self.gravity, rows, strict=False))
        energy = -jnp.sum(self.heavy * weight)
        if self.forces:
            frames = self.frames(q, jnp.zeros((self.dof * self.n,)))
            for group in self.forces:
                energy = energy + group.potential(group.frames(frames))
        return energy

    def scatter(self, nodes: Sequence[Indices], local: Sequence[Any]) -> Array:
        """Sum local components, for each node (dof, elements), onto the bodies; (dof, n)."""
        total = jnp.zeros((self.dof, self.n + 1))
        for table, parts in zip(nodes, local, strict=True):
            if any(table):  # else everything acts on the ground
                total = total + Scatter.plan(table, self.n + 1, ground=True)(parts)
        return total[:, 1:]

    # -- constraints -------------------------------------------------------------------------

    def stacked(self, name: str, q: Array, v: Array, t: Array, rows: Rows) -> Array:
        """`residual`, `rate` or `gamma` of all groups, flattened."""
        return _stacked(name, rows, self, q, v, t)

    def _stacked(self, name: str, rows: Rows, q: Array, v: Array, t: Array) -> Array:
        groups = self.groups(rows)
        if not groups:
            return jnp.zeros((0,))
        frames = self.frames(q, v)
        parts = [x for g in groups for x in getattr(g, name)(g.frames(frames), t)]
        return jnp.concatenate(parts)

    def blocks(self, q: Array, t: Array, rows: Rows) -> list[list[Array]]:
        """Local Jacobian blocks [group][node], each (rows, dof, elements)."""
        return _blocks(rows, self, q, t)

    def _blocks(self, rows: Rows, q: Array, t: Array) -> list[list[Array]]:
        frames = self.frames(q, jnp.zeros((self.dof * self.n,)))
        out = [g.jacobian(g.frames(frames), t) for g in self.groups(rows)]
        return optimization_barrier(out)

    def split(self, lam: Array, rows: Rows) -> list[Array]:
        """Multipliers group by group, each (rows, elements)."""
        out, at = [], 0
        for group in self.groups(rows):
            size = group.rows * group.n
            out.append(lam[at : at + size].reshape(group.rows, group.n))
            at += size
        return out

    def apply(self, blocks: Any, v: Array, rows: Rows) -> Array:
        """G v from local blocks."""
        padded = self.with_ground(v.reshape(-1, self.n))
        out = [jnp.zeros((0,))]
        for group, block in zip(self.groups(rows), blocks, strict=True):
            total = jnp.zeros((group.rows, group.n))
            for local, table in zip(block, group.nodes, strict=True):
                if any(table):
                    at = take(padded, table)
                    total = total + sum(local[:, c] * at[c] for c in range(self.dof))
            out.append(total.ravel())
        return jnp.concatenate(out)

    def apply_transpose(self, blocks: Sequence[Sequence[Array]], lam: Array, rows: Rows) -> Array:
        """G^T lam from local blocks."""
        total = jnp.zeros((self.dof, self.n))
        groups = self.groups(rows)
        for group, block, part in zip(groups, blocks, self.split(lam, rows), strict=True):
            local = [sum(node[r] * part[r] for r in range(group.rows)) for node in block]
            total = total + self.scatter(group.nodes, local)
        return total.ravel()

    def jacobian(self, q: Array, t: Array, rows: Rows) -> Array:
        """G, dense."""
        return self.dense(self.blocks(q, t, rows), rows)

    def constraint_force(self, q: Array, t: Array, lam: Array) -> Array:
        """[G; A]^T lam."""
        return self.apply_transpose(self.blocks(q, t, "all"), lam, "all")

    def dense(self, blocks: Sequence[Sequence[Array]], rows: Rows) -> Array:
        """G, dense: local blocks times the static incidence of elements and bodies."""
        parts = [jnp.zeros((0, self.dof * self.n))]
        for group, block in zip(self.groups(rows), blocks, strict=True):
            total = jnp.zeros((group.rows, group.n, self.dof, self.n))
            for node, table in zip(block, group.nodes, strict=True):
                incidence = np.eye(self.n + 1)[table.array(), 1:]
                local = jnp.moveaxis(node, 1, 2)[..., None]
                total = total + local * incidence[:, None, :]
            parts.append(total.reshape(group.rows * group.n, self.dof * self.n))
        return jnp.concatenate(parts)

    def row_names(self, rows: Rows) -> list[str]:
        """The element each constraint row belongs to."""
        return [name for g in self.groups(rows) for _ in range(g.rows) for name in g.names]

    # -- saddle point ------------------------------------------------------------------------

    def factor(
        self,
        q: Array,
        t: Array,
        metric: Metric,
        rows: Rows,
        shift: Array | float,
        redundant: bool,
    ) -> ConstraintFactor:
        """Prepare the saddle-point solver for these bodies."""
        weights = Weights.of(self, metric)
        blocks = self.blocks(q, t, rows)
        return BlockConstraintFactor(
            self.plans[rows], self, blocks, weights, rows, shift, redundant
        )


# A program asks for these several times; inside a jit they are traced once.


@partial(jax.jit, static_argnums=(0, 1))
def _retract(frame: Any, n: int, q: Array, step: Array) -> Array:
    return frame.retract(q.reshape(-1, n), step.reshape(-1, n)).ravel()


@jax.jit
def _force(bodies: BodySet, q: Array, v: Array, t: Array) -> Array:
    return bodies._force(q, v, t)


@jax.jit
def _reaction_force(bodies: BodySet, q: Array, v: Array, t: Array, lam: Array) -> Array:
    return bodies._reaction_force(q, v, t, lam)


@partial(jax.jit, static_argnums=(0, 1))
def _stacked(name: str, rows: Rows, bodies: BodySet, q: Array, v: Array, t: Array) -> Array:
    return bodies._stacked(name, rows, q, v, t)


@partial(jax.jit, static_argnums=0)
def _blocks(rows: Rows, bodies: BodySet, q: Array, t: Array) -> list[list[Array]]:
    return bodies._blocks(rows, q, t)


class Weights(Module):
    """The metric W: inverse masses and inertias with a zero for the ground, or ones."""

    mass: Array
    inertia: Array

    @staticmethod
    def of(bodies: BodySet, metric: Metric) -> Weights:
        if metric == "mass":
            return Weights(1.0 / bodies.mass, bodies.inverse_inertia())
        one = jnp.ones_like(bodies.mass)
        if bodies.frame is PlanarFrame:
            return Weights(one, one)
        return Weights(one, jnp.stack([one, one, one]))

    def apply(self, bodies: BodySet, x: Array) -> Array:
        """W x for a vector x."""
        rows = x.reshape(-1, bodies.n)
        d = bodies.translations
        turned = bodies.apply_inertia(self.inertia, list(rows[d:]))
        return jnp.concatenate([rows[:d] * self.mass, jnp.stack(turned)]).ravel()
