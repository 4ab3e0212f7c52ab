"""The system of a mechanism: bodies of the plane or of space, with the elements between them.

The equations are those of its `BodySet`; this module answers by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import choice
from .._messages import listed, shown
from .._numbers import array, is_traced
from ..rotation import Vec2, Vec3
from ..signals import signals_in
from .assembly import BodySet
from .base import Array, ConstraintFactor, Metric, Rows, System
from .evaluation import DENSE, evaluated
from .frames import PlanarFrame
from .tangent_blocks import StepWeights, force_diagonals
from .time_dependence import functions_of, is_timed, is_unannounced


@dataclass(frozen=True)
class BodyMotion:
    """The motion of one body over time: of the origin of its coordinates, and of its axes.

    Spatial: `position` (n, 3), `rotation` (n, 3, 3) and `quaternion` (n, 4), `velocity` (n, 3),
    `angular_velocity` (n, 3) in world axes, and the accelerations of both. Planar: `position`
    (n, 2), `angle` (n,), `velocity` (n, 2), `angular_velocity` (n,). `com` is the centre of mass
    in the body's coordinates.
    """

    position: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray
    rates: Callable[[], np.ndarray] = field(repr=False)  # v' of the body, (components, times)
    angle: np.ndarray | None = None
    quaternion: np.ndarray | None = None
    rotation: np.ndarray | None = None
    com: np.ndarray | None = None

    @cached_property
    def acceleration(self) -> np.ndarray:
        """Of the origin, as `velocity`."""
        return self.rates()[: self.position.shape[1]].T

    @cached_property
    def angular_acceleration(self) -> np.ndarray:
        """As `angular_velocity`."""
        turning = self.rates()[self.position.shape[1] :]
        # d/dt (A w) = A w' since A w~ w = 0
        return turning[0] if self.rotation is None else _turned(self.rotation, turning)

    def point(self, local: Any) -> np.ndarray:
        """World position over time of a point given in the body's coordinates."""
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
            values = [place[k] for place in places]
            if is_traced(*values):
                wide = [[(0, m - n) for m, n in zip(shape, x.shape, strict=True)] for x in values]
                return jnp.stack([jnp.pad(x, pad) for x, pad in zip(values, wide, strict=True)])
            out = np.zeros((len(places), *shape))
            for row, value in zip(out, values, strict=True):
                row[tuple(slice(size) for size in np.shape(value))] = value
            return out

        return JointPlaces(stacked(0, (3,)), stacked(1, (3,)), stacked(2, (3, 3)))


class Mechanism(System):
    """Bodies and elements as a `System`; made by `Model.build`.

    `markers` are the joints by name, each with the frames of its first and second body. `released`
    are those that do not act for the time being, `whole` the mechanism with them.
    """

    bodies: BodySet
    places: JointPlaces
    markers: tuple[tuple[str, tuple[int, int]], ...] = eqx.field(static=True)
    redundant: bool = eqx.field(static=True)
    released: tuple[str, ...] = eqx.field(static=True, default=())
    whole: Mechanism | None = None
    breaks: Array | None = None  # times that the model was given as breaks
    numbers: Array | None = None  # those of the description, and what it was (`model/origin.py`)
    origin: Any = eqx.field(static=True, default=None)

    # -- the numbers of its description ----------------------------------------------------

    def parameters(self) -> dict[str, Array]:
        """Every physical number of the model by its name: ``"crank.mass"``, ``"A.at_b"``."""
        return {} if self.origin is None else self.origin.named(self.numbers)

    def with_parameters(self, changes: Mapping[str, Any] | None = None, **more: Any) -> Mechanism:
        """This mechanism with other numbers, which may be traced; nothing is compiled again."""
        known, changed = self.parameters(), {**(changes or {}), **more}
        for name, value in changed.items():
            if name not in known:
                raise KeyError(
                    f"The mechanism has no parameter {shown(name)}; it has {listed(known, 12)}."
                )
            if np.shape(value) != np.shape(known[name]):
                raise ValueError(
                    f"with_parameters: {name} has the shape {np.shape(known[name])}, not "
                    f"{np.shape(value)}."
                )
        made = self.origin.system({**known, **changed})
        if self.released:
            made = made.with_joints(release=self.released)
        leaves, structure = jax.tree.flatten(self)
        new = jax.tree.leaves(made)
        if [np.shape(x) for x in leaves] != [np.shape(x) for x in new]:
            raise ValueError(
                f"with_parameters: {listed(changed)} would change the structure of the mechanism. "
                "Build it anew from model.with_parameters(...)."
            )
        return structure.unflatten(new)

    # -- joints that come and go -----------------------------------------------------------

    def complete(self) -> Mechanism:
        return self if self.whole is None else self.whole

    def rows_of_all(self) -> Any:
        if not self.released:
            return slice(None)
        everything = self.complete()
        names = everything.bodies.row_names("all")
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
        bodies = everything.bodies.without(out)
        return replace(
            everything,
            bodies=bodies,
            places=places,
            markers=markers,
            released=out,
            whole=everything,
            breaks=self.breaks,
        )

    @property
    def has_nonholonomic_constraints(self) -> bool:
        return any(not g.is_holonomic for g in self.bodies.joints)

    # -- System: configuration -----------------------------------------------------------

    def with_redundant_constraints(self) -> Mechanism:
        return replace(self, redundant=True)

    # -- System: time --------------------------------------------------------------------

    @property
    def _groups(self) -> tuple[Any, ...]:
        return (*self.bodies.joints, *self.bodies.forces)

    def time_breaks(self) -> np.ndarray:
        found = (x for g in self._groups for f in functions_of(g.element) for x in signals_in(f))
        own = [np.asarray(signal.breaks) for signal in found]
        if self.breaks is not None:
            own.append(np.asarray(self.breaks))
        return np.unique(np.concatenate(own)) if own else np.zeros(0)

    def has_unannounced_times(self, nq: int) -> bool:
        return any(is_unannounced(g, self.bodies.frame) for g in self._groups)

    def moving_constraints(self, nq: int) -> Mechanism | None:
        moving = tuple(g for g in self.bodies.joints if is_timed(g, self.bodies.frame))
        return replace(self, bodies=replace(self.bodies, joints=moving)) if moving else None

    def increment_units(self, nv: int) -> list[str]:
        s = self.bodies
        return ["m"] * (s.translations * s.n) + ["rad"] * ((s.dof - s.translations) * s.n)

    def typical_sizes(self, q: np.ndarray) -> np.ndarray:
        length = self._length(q)
        units = self.increment_units(self.bodies.n * self.bodies.dof)
        return np.array([length if unit == "m" else 1.0 for unit in units])

    def _length(self, q: np.ndarray) -> float:
        """The size of the mechanism [m]."""
        s = self.bodies
        places = [np.linalg.norm(x, axis=1) for x in (self.places.point_a, self.places.point)]
        sizes = [np.max(x, initial=0.0) for x in places]
        sizes.append(np.max(np.ptp(np.asarray(q).reshape(-1, s.n)[: s.translations], axis=1)))
        inertia = np.atleast_2d(np.asarray(s.inertia))[: 1 if s.frame is PlanarFrame else 3]
        sizes.append(np.sqrt(np.max(inertia / np.asarray(s.mass))))
        return float(max(sizes))

    @property
    def has_redundant_constraints(self) -> bool:
        return self.redundant

    def velocity_size(self, nq: int) -> int:
        expected = self.bodies.n * self.bodies.frame.nq
        if nq != expected:
            raise ValueError(
                f"q has {nq} entries; this mechanism has {expected} coordinates. Give all of them, "
                "in the order of system.coordinate_names."
            )
        return self.bodies.n * self.bodies.dof

    def qdot(self, q: Array, v: Array) -> Array:
        return self.bodies.qdot(q, v)

    def retract(self, q: Array, step: Array) -> Array:
        return self.bodies.retract(q, step)

    def difference(self, start: Array, end: Array) -> Array:
        return self.bodies.difference(start, end)

    def increment_rate(self, step: Array, rate: Array) -> Array:
        return self.bodies.increment_rate(step, rate)

    def normalize(self, q: Array) -> Array:
        return self.bodies.normalize(q)

    def extent(self, q: Array) -> Array:
        return self.bodies.extent(q)

    # -- System: dynamics ----------------------------------------------------------------

    def mass_matrix(self, q: Array) -> Array:
        return self.bodies.mass_matrix()

    def momentum(self, q: Array, v: Array) -> Array:
        return self.bodies.momentum(v)

    def force(self, q: Array, v: Array, t: Array) -> Array:
        return self.bodies.force(q, v, t)

    def potential_energy(self, q: Array) -> Array:
        return self.bodies.potential_energy(q)

    # -- System: constraints, the holonomic rows before the others -------------------------

    def constraint(self, q: Array, t: Array) -> Array:
        rest = jnp.zeros((self.bodies.n * self.bodies.dof,))
        return self.bodies.stacked("residual", q, rest, t, "holonomic")

    def constraint_rate(self, q: Array, v: Array, t: Array) -> Array:
        return self.bodies.stacked("rate", q, v, t, "all")

    def gamma(self, q: Array, v: Array, t: Array) -> Array:
        return self.bodies.stacked("gamma", q, v, t, "all")

    def jacobian(self, q: Array, t: Array) -> Array:
        return self.bodies.jacobian(self.bodies.blocks(q, t, "all"), "all")

    def constraint_force(self, q: Array, t: Array, lam: Array) -> Array:
        return self.bodies.apply_transpose(self.bodies.blocks(q, t, "all"), lam, "all")

    def factor(
        self,
        q: Array,
        t: Array,
        *,
        metric: Metric = "mass",
        rows: Rows = "all",
        shift: Array | float = 0.0,
    ) -> ConstraintFactor:
        return self.bodies.factor(q, t, metric, rows, shift, self.redundant)

    def matrix_sizes(
        self, q: Array, v: Array, t: Array, size: Literal["mean", "norm"]
    ) -> tuple[Array, Array, Array]:
        if size == "norm" or not self.has_structure:
            return super().matrix_sizes(q, v, t, size)
        mass, damping, stiffness = force_diagonals(self.bodies, q, v, t)
        mean = lambda x: jnp.mean(jnp.abs(x))  # noqa: E731
        return mean(mass), mean(damping), mean(stiffness)

    @property
    def has_structure(self) -> bool:
        return self.bodies.tangent is not None

    def sturdier(self) -> Mechanism | None:
        tangent = self.bodies.tangent
        if tangent is None or not (tangent.quick or tangent.alone):
            return None
        safe = replace(tangent, alone=False, quick=False)
        return replace(self, bodies=replace(self.bodies, tangent=safe))

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
        return self.bodies.newton_factor(q, v, t, lam, step, augment, self.redundant)

    # -- names ---------------------------------------------------------------------------

    def coordinate_names(self, n: int) -> list[str]:
        return self._labelled(self.bodies.frame.coordinate_labels)

    def velocity_names(self, n: int) -> list[str]:
        return self._labelled(self.bodies.frame.velocity_labels)

    def _labelled(self, labels: Sequence[str]) -> list[str]:
        return [f"{name}.{label}" for label in labels for name in self.bodies.names]

    def held_coordinates(self, item: int | str, nq: int) -> list[int]:
        names = self.velocity_names(self.velocity_size(nq))
        if isinstance(item, str):
            exact = [i for i, name in enumerate(names) if name == item]
            whole = [i for i, name in enumerate(names) if name.rsplit(".", 1)[0] == item]
            if exact or whole:
                return exact or whole
            raise ValueError(
                f"There is nothing called {shown(item)} to hold. Give a body "
                f"({listed(self.bodies.names)}) or a coordinate such as {names[0]!r}."
            )
        if not 0 <= item < len(names):
            raise ValueError(
                f"There is no velocity coordinate {item} to hold; there are {len(names)}, counted "
                "from 0."
            )
        return [item]

    def constraint_names(self, rows: int) -> list[str]:
        names = self.bodies.row_names("holonomic")
        return names if rows <= len(names) else self.bodies.row_names("all")

    def non_finite_forces(self, q: Any, v: Any, t: Any) -> list[str]:
        bad = []
        frames = self.bodies.frames(q, v)
        for group in self.bodies.forces:
            parts = group.wrenches(group.frames(frames), t)
            finite = np.all([np.isfinite(x) for wrench in parts for x in wrench], axis=0)
            pairs = zip(group.names, finite, strict=True)
            bad += [f"force {name!r}" for name, good in pairs if not good]
        return bad

    def frame_of(self, name: str, q: Array, v: Array) -> Any:
        """The frame of one body at a state: position, axes and velocities."""
        i = self._locate(name)
        frame = jax.tree.map(lambda x: x[i + 1], self.bodies.frames(q, v))
        if self.bodies.com is None:
            return frame
        return frame.at((Vec2 if self.is_planar else Vec3).of(-self.bodies.com[i]))

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
        d = self.bodies.translations
        point_a, point, axes = (np.asarray(x)[i] for x in jax.tree.leaves(self.places))
        return point_a[:d], point[:d], axes[:d, :d]

    def _locate(self, body: str) -> int:
        if isinstance(body, str) and body in self.bodies.names:
            return self.bodies.names.index(body)
        known = listed(self.bodies.names)
        raise KeyError(f"There is no body {shown(body)}; the bodies are {known}.")

    def _rows_of(self, x: np.ndarray, i: int) -> np.ndarray:
        """Components over time, (components, times), of body i, from states or velocities."""
        return x.reshape(x.shape[0], -1, self.bodies.n)[:, :, i].T

    def body_motion(self, name: str, q: np.ndarray, v: np.ndarray, a: Any) -> BodyMotion:
        """The motion of the body `name` from trajectories of q, v and v'; the last may be a
        function, which is called when accelerations are asked for."""
        i = self._locate(name)
        x, y = self._rows_of(q, i), self._rows_of(v, i)
        given: Any = a if callable(a) else lambda: a
        rates = lambda: self._rows_of(given(), i)  # noqa: E731
        com = np.zeros(self.bodies.translations)
        if self.is_planar:
            centre = BodyMotion(x[:2].T, y[:2].T, y[2], rates, angle=x[2], com=com)
        else:
            A, e = _rotations(x[3:]), x[3:].T
            turning = _turned(A, y[3:])
            centre = BodyMotion(x[:3].T, y[:3].T, turning, rates, None, e, A, com)
        if self.bodies.com is None:
            return centre
        return _at_origin(centre, np.asarray(self.bodies.com[i]))

    @property
    def is_planar(self) -> bool:
        """Whether the bodies are planar."""
        return self.bodies.frame is PlanarFrame

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
        mass, inertia = np.asarray(self.bodies.mass), np.asarray(self.bodies.inertia)
        for i, name in enumerate(self.bodies.names):
            motion = self.body_motion(name, q, v, np.zeros_like(v))
            r, u = (self._rows_of(x, i)[: self.bodies.translations].T for x in (q, v))
            if self.is_planar:
                r, u = (np.pad(x, ((0, 0), (0, 1))) for x in (r, u))
                angular[:, 2] += inertia[i] * motion.angular_velocity
            else:
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
        a, b = dict(self.markers)[joint]
        wrench = self._wrench(joint, t, q, lam)
        _, point, own_axes = self.place(joint)
        first, A = self._rotation(a, q), self._rotation(b, q)
        d = self.bodies.translations
        force, torque = wrench[:, :d], wrench[:, d:]
        if b and self.bodies.com is not None:
            point = point - np.asarray(self.bodies.com[b - 1])
        arm = np.einsum("nij,j->ni", A, point)
        if self.is_planar:
            torque = torque[:, 0] - (arm[:, 0] * force[:, 1] - arm[:, 1] * force[:, 0])
        else:
            torque = np.einsum("nij,nj->ni", A, torque) - np.cross(arm, force)
        if axes == "joint":
            frame = np.einsum("nij,jk->nik", first, own_axes)
            force = np.einsum("nji,nj->ni", frame, force)
            torque = torque if self.is_planar else np.einsum("nji,nj->ni", frame, torque)
        return Reaction(force, torque)

    def _wrench(self, joint: str, t: np.ndarray, q: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """-J^T lam of one joint on its second body, (times, dof): world force, body torque."""
        s, body = self.bodies, dict(self.markers)[joint][1]
        nv = s.n * s.dof
        if nv > DENSE:
            return np.asarray(_joint_wrench(self, joint, t, q, lam))
        if body == 0:
            return np.zeros((t.size, s.dof))
        names = self.constraint_names(lam.shape[1])
        rows = np.array([i for i, name in enumerate(names) if name == joint], int)
        columns = np.arange(s.dof) * s.n + body - 1
        out = np.zeros((t.size, s.dof))
        for part in np.split(np.arange(t.size), range(256, t.size, 256)):
            here = evaluated(self, t[part], q[part], np.zeros((part.size, nv)))
            G = here.jacobian[:, rows][:, :, columns]
            out[part] = -np.einsum("nrc,nr->nc", G, lam[part][:, rows])
        return out

    def _rotation(self, frame: int, q: np.ndarray) -> np.ndarray:
        """The rotation matrix over time of a body by its frame's number (0 is the ground)."""
        if frame == 0:
            return np.tile(np.eye(self.bodies.translations), (q.shape[0], 1, 1))
        x = self._rows_of(q, frame - 1)
        if not self.is_planar:
            return _rotations(x[3:])
        c, s = np.cos(x[2]), np.sin(x[2])
        return np.moveaxis(np.array([[c, -s], [s, c]]), -1, 0)


def _at_origin(centre: BodyMotion, com: np.ndarray) -> BodyMotion:
    """The motion of a body's origin from that of its centre of mass, which has the coordinates
    `com`: with s from the centre to the origin, v = v_c + w x s, a = a_c + w' x s + w x (w x s)."""
    s = centre.point(-com) - centre.position
    planar = centre.angle is not None

    def across(w: np.ndarray, x: np.ndarray) -> np.ndarray:
        if planar:
            return w[:, None] * np.stack([-x[:, 1], x[:, 0]], axis=1)
        return np.cross(w, x)

    def rates() -> np.ndarray:
        spin = across(centre.angular_acceleration, s) + across(w, across(w, s))
        return np.concatenate([(centre.acceleration + spin).T, centre.rates()[s.shape[1] :]])

    w = centre.angular_velocity
    position, velocity = centre.position + s, centre.velocity + across(w, s)
    return replace(centre, position=position, velocity=velocity, rates=rates, com=com)


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
    s, body = system.bodies, dict(system.markers)[joint][1]

    def at(x: tuple[Array, Array, Array]) -> Array:
        t, q, lam = x
        blocks, parts = s.blocks(q, t, "all"), s.split(lam, "all")
        total = jnp.zeros((s.dof,))
        for group, block, part in zip(s.groups("all"), blocks, parts, strict=True):
            for i in (i for i, name in enumerate(group.names) if name == joint):
                for node, table in zip(block, group.nodes, strict=True):
                    if table[i] == body:
                        total = total - part[:, i] @ node[:, :, i]
        return total

    return jax.lax.map(at, (t, q, lam))
