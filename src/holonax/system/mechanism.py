"""The system of a mechanism: planar and spatial bodies with the elements between them.

Everything is the direct sum of at most two `BodySet`s, planar bodies first; this module stacks
their vectors and answers by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import choice
from .._messages import listed, shown
from .._numbers import array
from .assembly import BodySet
from .base import Array, ConstraintFactor, Metric, Rows, System
from .elements import Group
from .evaluation import DENSE, evaluated
from .frames import PlanarFrame
from .tangent_blocks import StepWeights, force_diagonals


@dataclass(frozen=True)
class BodyMotion:
    """The motion of one body over time.

    Spatial: `position` (n, 3), `rotation` (n, 3, 3) and `quaternion` (n, 4), `velocity` (n, 3),
    `angular_velocity` (n, 3) in world axes, and the accelerations of both. Planar: `position`
    (n, 2), `angle` (n,), `velocity` (n, 2), `angular_velocity` (n,).
    """

    position: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray
    rates: Callable[[], np.ndarray] = field(repr=False)  # v' of the body, (components, times)
    angle: np.ndarray | None = None
    quaternion: np.ndarray | None = None
    rotation: np.ndarray | None = None

    @cached_property
    def acceleration(self) -> np.ndarray:
        """Of the centre of mass, as `velocity`."""
        return self.rates()[: self.position.shape[1]].T

    @cached_property
    def angular_acceleration(self) -> np.ndarray:
        """As `angular_velocity`."""
        turning = self.rates()[self.position.shape[1] :]
        # d/dt (A w) = A w' since A w~ w = 0
        return turning[0] if self.rotation is None else _turned(self.rotation, turning)

    def point(self, local: Any) -> np.ndarray:
        """World position over time of a body-fixed point given from the centre of mass."""
        local = np.asarray(local, dtype=float)
        if local.shape != self.position.shape[1:]:
            raise ValueError(
                f"point: {shown(local.tolist())} must be a point of {self.position.shape[1]} "
                "numbers in the body's coordinates [m]."
            )
        if self.rotation is not None:
            return self.position + self.rotation @ local
        assert self.angle is not None
        c, s = np.cos(self.angle), np.sin(self.angle)
        turned = np.stack([c * local[0] - s * local[1], s * local[0] + c * local[1]], axis=-1)
        return self.position + turned


@dataclass(frozen=True)
class Reaction:
    """What a joint applies to its second body: `force` [N] and `torque` [N m] over time."""

    force: np.ndarray
    torque: np.ndarray


@dataclass(frozen=True)
class JointMarker:
    """Which bodies a joint connects, frames of the set `set_index`, and the elements it is of."""

    set_index: int
    bodies: tuple[int, int]
    elements: tuple[str, ...]


class JointPlaces(eqx.Module):
    """Where the joints sit: `point_a` and `axes` in their first bodies, `point` in their second.

    Arrays over the joints with vectors of space, so that mechanisms that differ only in their
    dimensions share compiled programs; in the plane the third components are zero.
    """

    point_a: Array  # (n, 3)
    point: Array  # (n, 3)
    axes: Array  # (n, 3, 3)

    @staticmethod
    def of(places: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> JointPlaces:
        """From (point_a, point, axes) of each joint, of the plane or of space."""

        def stacked(k: int, shape: tuple[int, ...]) -> Any:
            out = np.zeros((len(places), *shape))
            for row, place in zip(out, places, strict=True):
                row[tuple(slice(size) for size in np.shape(place[k]))] = place[k]
            return out

        return JointPlaces(stacked(0, (3,)), stacked(1, (3,)), stacked(2, (3, 3)))


class Mechanism(System):
    """Bodies and elements as a `System`; made by `Model.build`.

    `released` are the joints that do not act for the time being, `whole` the mechanism with them.
    """

    sets: tuple[BodySet, ...]
    places: JointPlaces
    markers: tuple[tuple[str, JointMarker], ...] = eqx.field(static=True)
    redundant: bool = eqx.field(static=True)
    released: tuple[str, ...] = eqx.field(static=True, default=())
    whole: Mechanism | None = None

    # -- joints that come and go -----------------------------------------------------------

    def complete(self) -> Mechanism:
        return self if self.whole is None else self.whole

    def rows_of_all(self) -> Any:
        if not self.released:
            return slice(None)
        everything = self.complete()
        rows = sum(g.rows * g.n for s in everything.sets for g in s.joints)
        names = everything.constraint_names(rows)
        return np.array([i for i, name in enumerate(names) if name not in self.released], int)

    def with_joints(self, *, engage: Sequence[str] = (), release: Sequence[str] = ()) -> Mechanism:
        """This mechanism with some of its joints engaged, and others released."""
        everything = self.complete()
        known = dict(everything.markers)
        for name in (*engage, *release):
            if name not in known:
                raise KeyError(f"There is no joint {shown(name)}; the joints are {listed(known)}.")
        out = tuple(n for n in known if n in {*self.released, *release} - set(engage))
        if not out:
            return everything
        kept = np.array([i for i, name in enumerate(known) if name not in out], int)
        markers = tuple(everything.markers[i] for i in kept)
        places = jax.tree.map(lambda x: x[kept], everything.places)
        sets = tuple(s.without(out) for s in everything.sets)
        return Mechanism(sets, places, markers, everything.redundant, out, everything)

    # -- splitting -----------------------------------------------------------------------

    def _split_q(self, q: Array) -> list[Array]:
        return self._split(q, [s.n * s.frame.nq for s in self.sets])

    def _split_v(self, v: Array) -> list[Array]:
        return self._split(v, [s.n * s.dof for s in self.sets])

    @staticmethod
    def _split(x: Array, sizes: list[int]) -> list[Array]:
        if len(sizes) == 1:
            return [x]
        ends = np.cumsum([0, *sizes])
        return [x[ends[i] : ends[i + 1]] for i in range(len(sizes))]

    @staticmethod
    def _join(parts: list[Array]) -> Array:
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)

    @property
    def has_nonholonomic_constraints(self) -> bool:
        return any(not g.is_holonomic for s in self.sets for g in s.joints)

    # -- System: configuration -----------------------------------------------------------

    def with_redundant_constraints(self) -> Mechanism:
        return Mechanism(self.sets, self.places, self.markers, True, self.released, self.whole)

    @property
    def has_redundant_constraints(self) -> bool:
        return self.redundant

    def velocity_size(self, nq: int) -> int:
        expected = sum(s.n * s.frame.nq for s in self.sets)
        if nq != expected:
            raise ValueError(
                f"q has {nq} entries; this mechanism has {expected} coordinates. Give all of them, "
                "in the order of system.coordinate_names."
            )
        return sum(s.n * s.dof for s in self.sets)

    def _each(self, name: str, q: Array, v: Array) -> Array:
        parts = zip(self.sets, self._split_q(q), self._split_v(v), strict=True)
        return self._join([getattr(s, name)(x, y) for s, x, y in parts])

    def qdot(self, q: Array, v: Array) -> Array:
        return self._each("qdot", q, v)

    def retract(self, q: Array, step: Array) -> Array:
        return self._each("retract", q, step)

    def difference(self, start: Array, end: Array) -> Array:
        parts = zip(self.sets, self._split_q(start), self._split_q(end), strict=True)
        return self._join([s.difference(x, y) for s, x, y in parts])

    def increment_rate(self, step: Array, rate: Array) -> Array:
        parts = zip(self.sets, self._split_v(step), self._split_v(rate), strict=True)
        return self._join([s.increment_rate(x, y) for s, x, y in parts])

    def normalize(self, q: Array) -> Array:
        return self._join(
            [s.normalize(x) for s, x in zip(self.sets, self._split_q(q), strict=True)]
        )

    def extent(self, q: Array) -> Array:
        return self._join([s.extent(x) for s, x in zip(self.sets, self._split_q(q), strict=True)])

    # -- System: dynamics ----------------------------------------------------------------

    def mass_matrix(self, q: Array) -> Array:
        return jax.scipy.linalg.block_diag(*(s.mass_matrix() for s in self.sets))

    def momentum(self, q: Array, v: Array) -> Array:
        return self._join([s.momentum(x) for s, x in zip(self.sets, self._split_v(v), strict=True)])

    def force(self, q: Array, v: Array, t: Array) -> Array:
        parts = zip(self.sets, self._split_q(q), self._split_v(v), strict=True)
        return self._join([s.force(x, y, t) for s, x, y in parts])

    def potential_energy(self, q: Array) -> Array:
        parts = zip(self.sets, self._split_q(q), strict=True)
        return sum((s.potential_energy(x) for s, x in parts), jnp.zeros(()))

    # -- System: constraints; rows are the holonomic ones of all sets, then the others ---

    def _stack_rows(self, parts: list[Array]) -> Array:
        """Rows of each set (holonomic first) reordered to holonomic of all sets first."""
        if len(parts) == 1:
            return parts[0]
        counts = [self._holonomic_rows(s) for s in self.sets]
        upper = [p[:m] for p, m in zip(parts, counts, strict=True)]
        lower = [p[m:] for p, m in zip(parts, counts, strict=True)]
        return jnp.concatenate([*upper, *lower])

    def _unstack_rows(self, lam: Array) -> list[Array]:
        """The inverse of `_stack_rows`, for vectors with all rows or the holonomic ones only."""
        if len(self.sets) == 1:
            return [lam]
        counts = [self._holonomic_rows(s) for s in self.sets]
        upper = self._split(lam[: sum(counts)], counts)
        others = [sum(g.rows * g.n for g in s.joints) - m for s, m in zip(self.sets, counts)]
        if lam.shape[0] == sum(counts):
            return upper
        lower = self._split(lam[sum(counts) :], others)
        return [jnp.concatenate(pair) for pair in zip(upper, lower, strict=True)]

    @staticmethod
    def _holonomic_rows(s: BodySet) -> int:
        return sum(g.rows * g.n for g in s.groups("holonomic"))

    def _constraint_rows(self, name: str, q: Array, v: Array, t: Array, rows: Rows) -> Array:
        parts = zip(self.sets, self._split_q(q), self._split_v(v), strict=True)
        return self._stack_rows([s.stacked(name, x, y, t, rows) for s, x, y in parts])

    def constraint(self, q: Array, t: Array) -> Array:
        rest = jnp.zeros((sum(s.n * s.dof for s in self.sets),))
        return self._constraint_rows("residual", q, rest, t, "holonomic")

    def constraint_rate(self, q: Array, v: Array, t: Array) -> Array:
        return self._constraint_rows("rate", q, v, t, "all")

    def gamma(self, q: Array, v: Array, t: Array) -> Array:
        return self._constraint_rows("gamma", q, v, t, "all")

    def jacobian(self, q: Array, t: Array) -> Array:
        parts = zip(self.sets, self._split_q(q), strict=True)
        each = [s.jacobian(s.blocks(x, t, "all"), "all") for s, x in parts]
        if len(each) == 1:
            return each[0]
        width = [s.n * s.dof for s in self.sets]
        padded = [
            jnp.pad(G, ((0, 0), (sum(width[:k]), sum(width[k + 1 :])))) for k, G in enumerate(each)
        ]
        return self._stack_rows(padded)

    def constraint_force(self, q: Array, t: Array, lam: Array) -> Array:
        parts = zip(self.sets, self._split_q(q), self._unstack_rows(lam), strict=True)
        return self._join([s.apply_transpose(s.blocks(x, t, "all"), y, "all") for s, x, y in parts])

    def factor(
        self,
        q: Array,
        t: Array,
        *,
        metric: Metric = "mass",
        rows: Rows = "all",
        shift: Array | float = 0.0,
    ) -> ConstraintFactor:
        parts = zip(self.sets, self._split_q(q), strict=True)
        factors = [s.factor(x, t, metric, rows, shift, self.redundant) for s, x in parts]
        return factors[0] if len(factors) == 1 else _SumFactor(self, factors)

    def matrix_sizes(
        self, q: Array, v: Array, t: Array, size: Literal["mean", "norm"]
    ) -> tuple[Array, Array, Array]:
        if size == "norm" or not self.has_structure:
            return super().matrix_sizes(q, v, t, size)
        parts = zip(self.sets, self._split_q(q), self._split_v(v), strict=True)
        diagonals = [force_diagonals(s, x, y, t) for s, x, y in parts]
        mean = lambda k: jnp.mean(jnp.abs(jnp.concatenate([d[k].ravel() for d in diagonals])))  # noqa: E731
        return mean(0), mean(1), mean(2)

    @property
    def has_structure(self) -> bool:
        return all(s.tangent is not None for s in self.sets)

    def sturdier(self) -> Mechanism | None:
        quick = [s.tangent is not None and (s.tangent.quick or s.tangent.alone) for s in self.sets]
        if not any(quick):
            return None
        safe = lambda s: replace(  # noqa: E731
            s, tangent=replace(s.tangent, alone=False, quick=False)
        )
        sets = [safe(s) if q else s for s, q in zip(self.sets, quick, strict=True)]
        return replace(self, sets=tuple(sets))

    def newton_factor(
        self,
        q: Array,
        v: Array,
        t: Array,
        a: Array,
        lam: Array,
        step: StepWeights,
        augment: Any = None,
    ) -> Any:
        factors = [
            s.newton_factor(x, y, t, z, step._replace(turn=turn), augment, self.redundant)
            for s, x, y, z, turn in zip(
                self.sets,
                self._split_q(q),
                self._split_v(v),
                self._unstack_rows(lam),
                self._split_v(step.turn),
                strict=True,
            )
        ]
        return factors[0] if len(factors) == 1 else _SumTangent(self, factors)

    # -- names ---------------------------------------------------------------------------

    def coordinate_names(self, n: int) -> list[str]:
        return [
            f"{name}.{label}"
            for s in self.sets
            for label in s.frame.coordinate_labels
            for name in s.names
        ]

    def velocity_names(self, n: int) -> list[str]:
        return [
            f"{name}.{label}"
            for s in self.sets
            for label in s.frame.velocity_labels
            for name in s.names
        ]

    def held_coordinates(self, item: int | str, nq: int) -> list[int]:
        names = self.velocity_names(self.velocity_size(nq))
        if isinstance(item, str):
            exact = [i for i, name in enumerate(names) if name == item]
            whole = [i for i, name in enumerate(names) if name.rsplit(".", 1)[0] == item]
            if exact or whole:
                return exact or whole
            bodies = [name for s in self.sets for name in s.names]
            raise ValueError(
                f"There is nothing called {shown(item)} to hold. Give a body "
                f"({listed(bodies)}) or a coordinate such as {names[0]!r}."
            )
        if not 0 <= item < len(names):
            raise ValueError(
                f"There is no velocity coordinate {item} to hold; there are {len(names)}, counted "
                "from 0."
            )
        return [item]

    def constraint_names(self, rows: int) -> list[str]:
        names = [s.row_names("holonomic") for s in self.sets]
        out = [x for part in names for x in part]
        if rows > len(out):
            out += [
                x
                for s, part in zip(self.sets, names, strict=True)
                for x in s.row_names("all")[len(part) :]
            ]
        return out

    def non_finite_forces(self, q: Any, v: Any, t: Any) -> list[str]:
        bad = []
        for s, x, y in zip(self.sets, self._split_q(q), self._split_v(v), strict=True):
            for group in s.forces:
                parts = group.wrenches(group.frames(s.frames(x, y)), t)
                finite = np.all([np.isfinite(x) for wrench in parts for x in wrench], axis=0)
                pairs = zip(group.names, finite, strict=True)
                bad += [f"force {name!r}" for name, good in pairs if not good]
        return bad

    def frame_of(self, name: str, q: Array, v: Array) -> Any:
        """The frame of one body at a state: position, axes and velocities."""
        k, i = self._locate(name)
        frames = self.sets[k].frames(self._split_q(q)[k], self._split_v(v)[k])
        return jax.tree.map(lambda x: x[i + 1], frames)

    # -- results by name -----------------------------------------------------------------

    def check_body(self, name: Any) -> None:
        """Refuse what is not the name of a body."""
        self._locate(name)

    def check_joint(self, name: Any, axes: Any) -> None:
        """Refuse what is not the name of a joint, or not axes of its reaction."""
        known = dict(self.markers)
        if not isinstance(name, str) or name not in known:
            raise KeyError(f"There is no joint {shown(name)}; the joints are {listed(known)}.")
        choice("reaction", "axes", axes, ("world", "joint"))

    def place(self, joint: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A joint's point in its first body, its point in its second, and its axes in the first."""
        i = list(dict(self.markers)).index(joint)
        d = self.sets[self.markers[i][1].set_index].translations
        point_a, point, axes = (np.asarray(x)[i] for x in jax.tree.leaves(self.places))
        return point_a[:d], point[:d], axes[:d, :d]

    def _locate(self, body: str) -> tuple[int, int]:
        for k, s in enumerate(self.sets):
            if isinstance(body, str) and body in s.names:
                return k, s.names.index(body)
        known = [name for s in self.sets for name in s.names]
        raise KeyError(f"There is no body {shown(body)}; the bodies are {listed(known)}.")

    def _rows_of(self, x: np.ndarray, k: int, i: int, *, velocity: bool) -> np.ndarray:
        """Components over time, (components, times), of body i of set k."""
        width = [s.dof if velocity else s.frame.nq for s in self.sets]
        at = sum(s.n * w for s, w in zip(self.sets[:k], width, strict=False))
        n = self.sets[k].n
        part = x[:, at : at + n * width[k]].reshape(x.shape[0], width[k], n)
        return part[:, :, i].T

    def body_motion(self, name: str, q: np.ndarray, v: np.ndarray, a: Any) -> BodyMotion:
        """The motion of the body `name` from trajectories of q, v and v'; the last may be a
        function, which is called when accelerations are asked for."""
        k, i = self._locate(name)
        x = self._rows_of(q, k, i, velocity=False)
        y = self._rows_of(v, k, i, velocity=True)
        given: Any = a if callable(a) else lambda: a
        rates = lambda: self._rows_of(given(), k, i, velocity=True)  # noqa: E731
        if self.sets[k].frame is PlanarFrame:
            return BodyMotion(x[:2].T, y[:2].T, y[2], rates, angle=x[2])
        rotation = _rotations(x[3:])
        turning = _turned(rotation, y[3:])
        return BodyMotion(x[:3].T, y[:3].T, turning, rates, quaternion=x[3:].T, rotation=rotation)

    def total_momentum(self, q: np.ndarray, v: np.ndarray, about: Any) -> Any:
        """Linear (n, 3) and angular (n, 3) momentum; planar bodies contribute in the x-y plane."""
        about = array("momentum", "about", about)
        if about.shape not in ((2,), (3,)):
            raise ValueError(
                f"momentum: about={shown(about.tolist())} must be a point of two or three finite "
                "numbers [m]."
            )
        about = np.pad(about, (0, 3 - about.size))
        linear = np.zeros((q.shape[0], 3))
        angular = np.zeros((q.shape[0], 3))
        for s in self.sets:
            mass, inertia = np.asarray(s.mass), np.asarray(s.inertia)
            for i, name in enumerate(s.names):
                motion = self.body_motion(name, q, v, np.zeros_like(v))
                if s.frame is PlanarFrame:
                    flat = lambda x: np.pad(x, ((0, 0), (0, 1)))  # noqa: E731
                    r, u = flat(motion.position), flat(motion.velocity)
                    angular[:, 2] += inertia[i] * motion.angular_velocity
                else:
                    r, u = motion.position, motion.velocity
                    xx, yy, zz, xy, xz, yz = inertia[:, i]
                    J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
                    A = np.asarray(motion.rotation)
                    spin = np.einsum("nji,nj->ni", A, motion.angular_velocity) @ J
                    angular += np.einsum("nij,nj->ni", A, spin)
                p = mass[i] * u
                linear += p
                angular += np.cross(r - about, p)
        return linear, angular

    def reaction(
        self,
        joint: str,
        t: np.ndarray,
        q: np.ndarray,
        lam: np.ndarray,
        axes: Literal["world", "joint"],
    ) -> Reaction:
        """Force and torque that `joint` applies to its second body at its point."""
        self.check_joint(joint, axes)
        marker = dict(self.markers)[joint]
        k = marker.set_index
        s = self.sets[k]
        wrench = self._wrench(joint, t, q, lam)
        _, point, own_axes = self.place(joint)
        body = marker.bodies[1]
        planar = s.frame is PlanarFrame
        first = self._pose(marker.bodies[0], k, q)
        _, A = self._pose(body, k, q)
        d = s.translations
        force, torque = wrench[:, :d], wrench[:, d:]
        arm = np.einsum("nij,j->ni", A, point)
        if planar:
            torque = torque[:, 0] - (arm[:, 0] * force[:, 1] - arm[:, 1] * force[:, 0])
        else:
            torque = np.einsum("nij,nj->ni", A, torque) - np.cross(arm, force)
        if axes == "joint":
            frame = np.einsum("nij,jk->nik", first[1], own_axes)
            force = np.einsum("nji,nj->ni", frame, force)
            torque = torque if planar else np.einsum("nji,nj->ni", frame, torque)
        return Reaction(force, torque)

    def _wrench(self, joint: str, t: np.ndarray, q: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """-J^T lam of one joint on its second body, (times, dof): world force, body torque."""
        marker = dict(self.markers)[joint]
        s, body = self.sets[marker.set_index], marker.bodies[1]
        nv = sum(x.n * x.dof for x in self.sets)
        if nv > DENSE:
            return np.asarray(_joint_wrench(self, joint, t, q, lam))
        if body == 0:
            return np.zeros((t.size, s.dof))
        names = self.constraint_names(lam.shape[1])
        rows = np.array([i for i, name in enumerate(names) if name in marker.elements], int)
        at = sum(x.n * x.dof for x in self.sets[: marker.set_index])
        columns = at + np.arange(s.dof) * s.n + body - 1
        out = np.zeros((t.size, s.dof))
        for part in np.split(np.arange(t.size), range(256, t.size, 256)):
            here = evaluated(self, t[part], q[part], np.zeros((part.size, nv)))
            G = here.jacobian[:, rows][:, :, columns]
            out[part] = -np.einsum("nrc,nr->nc", G, lam[part][:, rows])
        return out

    def _pose(self, body: int, k: int, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position and rotation matrix over time of frame `body` of set k (0 is the ground)."""
        n, d = q.shape[0], self.sets[k].translations
        if body == 0:
            return np.zeros((n, d)), np.tile(np.eye(d), (n, 1, 1))
        x = self._rows_of(q, k, body - 1, velocity=False)
        if d == 2:
            c, s = np.cos(x[2]), np.sin(x[2])
            return x[:2].T, np.moveaxis(np.array([[c, -s], [s, c]]), -1, 0)
        return x[:3].T, _rotations(x[3:])


class _SumFactor(ConstraintFactor):
    """Independent factors of planar and spatial bodies."""

    def __init__(self, system: Mechanism, factors: list[ConstraintFactor]):
        self._system, self._factors = system, factors

    def solve(self, force: Array, gamma: Array) -> tuple[Array, Array]:
        s = self._system
        parts = zip(self._factors, s._split_v(force), s._unstack_rows(gamma), strict=True)
        a, lam = zip(*(factor.solve(x, y) for factor, x, y in parts), strict=True)
        return s._join(list(a)), s._stack_rows(list(lam))

    def weigh(self, force: Array) -> Array:
        s = self._system
        parts = zip(self._factors, s._split_v(force), strict=True)
        return s._join([factor.weigh(x) for factor, x in parts])

    def apply(self, v: Array) -> Array:
        s = self._system
        parts = zip(self._factors, s._split_v(v), strict=True)
        return s._stack_rows([factor.apply(x) for factor, x in parts])

    def multipliers(self, residual: Array) -> Array:
        s = self._system
        parts = zip(self._factors, s._unstack_rows(residual), strict=True)
        return s._stack_rows([factor.multipliers(x) for factor, x in parts])

    def spread(self, lam: Array) -> Array:
        s = self._system
        parts = zip(self._factors, s._unstack_rows(lam), strict=True)
        return s._join([factor.spread(x) for factor, x in parts])


class _SumTangent:
    """Newton's matrices of planar and spatial bodies, side by side."""

    def __init__(self, system: Mechanism, factors: list[Any]):
        self._system, self._factors = system, factors

    def solve(self, motion: Array, constraints: Array) -> tuple[Array, Array]:
        s = self._system
        parts = zip(self._factors, s._split_v(motion), s._unstack_rows(constraints), strict=True)
        solved = [factor.solve(x, y) for factor, x, y in parts]
        return s._join([x for x, _ in solved]), s._stack_rows([y for _, y in solved])


def _turned(rotation: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Vectors (3, n) of the body's axes in those of the world, (n, 3)."""
    return np.einsum("nij,jn->ni", rotation, x)


def _rotations(e: np.ndarray) -> np.ndarray:
    """Rotation matrices (n, 3, 3) of quaternions given as rows (4, n)."""
    e0, e1, e2, e3 = e
    return np.moveaxis(
        np.array(
            [
                [1 - 2 * (e2**2 + e3**2), 2 * (e1 * e2 - e0 * e3), 2 * (e1 * e3 + e0 * e2)],
                [2 * (e1 * e2 + e0 * e3), 1 - 2 * (e1**2 + e3**2), 2 * (e2 * e3 - e0 * e1)],
                [2 * (e1 * e3 - e0 * e2), 2 * (e2 * e3 + e0 * e1), 1 - 2 * (e1**2 + e2**2)],
            ]
        ),
        -1,
        0,
    )


@eqx.filter_jit
def _joint_wrench(system: Mechanism, joint: str, t: Any, q: Any, lam: Any) -> Array:
    """-J^T lam of one joint on its second body, (times, dof): world force, body torque."""
    marker = dict(system.markers)[joint]
    s = system.sets[marker.set_index]

    def at(x: tuple[Array, Array, Array]) -> Array:
        t, q, lam = x
        blocks = s.blocks(system._split_q(q)[marker.set_index], t, "all")
        parts = s.split(system._unstack_rows(lam)[marker.set_index], "all")
        total = jnp.zeros((s.dof,))
        for group, block, part in zip(s.groups("all"), blocks, parts, strict=True):
            total = total + _element_wrench(group, block, part, marker, s.dof)
        return total

    return jax.lax.map(at, (t, q, lam))


def _element_wrench(group: Group, block: Any, part: Array, marker: JointMarker, dof: int) -> Array:
    total = jnp.zeros((dof,))
    for i, name in enumerate(group.names):
        if name not in marker.elements:
            continue
        for node, table in zip(block, group.nodes, strict=True):
            if table[i] == marker.bodies[1]:
                total = total - jnp.stack(
                    [sum(node[r][c][i] * part[r][i] for r in range(group.rows)) for c in range(dof)]
                )
    return total
