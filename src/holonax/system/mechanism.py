"""The system of a mechanism: bodies of the plane or of space, with the elements between them.

The equations are those of its `BodySet`; this module answers by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._arguments import choice
from .._messages import listed, shown, unknown_name
from .._modules import Module
from .._numbers import is_traced
from ..rotation import Vec2, Vec3
from .array_types import (
    Force,
    Jacobian,
    Multipliers,
    PerRow,
    Position,
    Scalar,
    SquareMatrix,
    Time,
    Velocity,
)
from .base import Array, ConstraintFactor, Metric, Rows, System
from .beam import BeamElement
from .beam_places import BeamPlace, node_named, own_name
from .changed_numbers import following_of
from .elements import Indices
from .first_order import StateValue, state_rows
from .frames import PlanarFrame
from .inventory import Inventory
from .modal import AnyBodies, ModalBodySet
from .quantities import Quantity, find, names_of
from .reaction_forces import seen_rows
from .signals import Signal, signals_in
from .static_stiffness import static_stiffness
from .step import Level, StepSolver
from .time_dependence import functions_of, is_timed, is_unannounced

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .frames import Frame


class JointPlaces(Module):
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

    bodies: AnyBodies
    places: JointPlaces
    markers: tuple[tuple[str, tuple[int, int]], ...] = eqx.field(static=True)
    redundant: bool = eqx.field(static=True)
    released: tuple[str, ...] = eqx.field(static=True, default=())
    whole: Mechanism | None = None
    breaks: Array | None = None  # times that the model was given as breaks
    numbers: Array | None = None  # those of the description, and what it was (`model/origin.py`)
    origin: Any = eqx.field(static=True, default=None)
    beams: tuple[BeamPlace, ...] = eqx.field(static=True, default=())
    resting: bool = eqx.field(static=True, default=False)  # states are positions, see `at_rest`

    # -- the numbers of its description ----------------------------------------------------

    def parameters(self) -> dict[str, Array]:
        """Every physical number of the model by its name: ``"crank.mass"``, ``"A.at_b"``."""
        return {} if self.origin is None else self.origin.named(self.numbers)

    def with_parameters(
        self, changes: Mapping[str, ArrayLike | Array] | None = None, **more: Any
    ) -> Mechanism:
        """This mechanism with other numbers, which may be traced; nothing is compiled again.

        One of the parameters of a user's function goes by its own name as well, ``"push.gain"``
        for ``"push.parameters.gain"``.
        """
        changed = self._named({**(changes or {}), **more})
        leaves, structure = jax.tree.flatten(self)
        if changed and all(isinstance(x, Tracer) for x in leaves):
            return structure.unflatten(self._followed(changed, leaves, structure))
        return structure.unflatten(jax.tree.leaves(self.made_anew(changed)))

    def remade(self, changes: Mapping[str, ArrayLike | Array]) -> Mechanism:
        made = self.made_anew(self._named(changes))
        return jax.tree.structure(self).unflatten(jax.tree.leaves(made))

    def _named(self, changed: Mapping[str, ArrayLike | Array]) -> dict[str, Any]:
        """Numbers by their full names; raises for names and shapes that are none of ours."""
        known = self._shapes()
        changed = {_full_name(known, name): value for name, value in changed.items()}
        for name, value in changed.items():
            if name not in known:
                raise KeyError(
                    f"The mechanism has no parameter {shown(name)}; it has {listed(known, 12)}."
                )
            if np.shape(value) != known[name]:
                raise ValueError(
                    f"with_parameters: {name} has the shape {known[name]}, not {np.shape(value)}."
                )
        return changed

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every number of the description, by its name."""
        return {} if self.origin is None else self.origin.shapes

    def made_anew(self, changed: Mapping[str, Any]) -> Mechanism:
        """The mechanism of the description with some of its numbers replaced."""
        made = self.origin.system({**self.parameters(), **changed})
        if self.released:
            made = made.with_joints(release=self.released)
        shapes = [[np.shape(x) for x in jax.tree.leaves(tree)] for tree in (self, made)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"with_parameters: {listed(changed)} would change the structure of the mechanism. "
                "Build it anew from model.with_parameters(...)."
            )
        return made

    def _followed(self, changed: dict[str, Any], leaves: list[Any], structure: Any) -> list[Any]:
        """All numbers, where those that follow from what has changed are computed."""
        # the numbers of the description are changed in place, here and in what `whole` is
        own = [k for k, x in enumerate(leaves) if any(x is y for y in self._descriptions)]
        values = [jnp.asarray(x, float) for x in changed.values()]
        shapes = tuple((x.shape, x.dtype) for x in (*values, *leaves))
        found = following_of(structure, shapes, tuple(changed), tuple(own))(values, leaves)
        for k in own:
            found[k] = self.origin.replaced(found[k], dict(zip(changed, values, strict=True)))
        return found

    @property
    def _descriptions(self) -> list[Any]:
        inner = [] if self.whole is None else self.whole._descriptions
        return [self.numbers, *inner]

    # -- joints that come and go -----------------------------------------------------------

    def complete(self) -> Mechanism:
        return self if self.whole is None else self.whole

    def rows_of_all(self) -> slice | np.ndarray:
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

    @property
    def position_size(self) -> int:
        return self.bodies.position_size

    # -- System: configuration -----------------------------------------------------------

    def with_redundant_constraints(self) -> Mechanism:
        return replace(self, redundant=True)

    # -- System: time --------------------------------------------------------------------

    @property
    def _groups(self) -> tuple[Any, ...]:
        return (*self.bodies.joints, *self.bodies.forces)

    @property
    def _functions(self) -> list[Any]:
        """The functions that the user has given."""
        groups = (*self._groups, *self.bodies.seeing)
        return [f for g in groups for f in functions_of(g.element)]

    def time_breaks(self) -> np.ndarray:
        found = (x for f in self._functions for x in signals_in(f))
        own = [np.asarray(signal.breaks) for signal in found]
        if self.breaks is not None:
            own.append(np.asarray(self.breaks))
        return np.unique(np.concatenate(own)) if own else np.zeros(0)

    def has_unannounced_times(self, nq: int) -> bool:
        seeing = (f for g in self.bodies.seeing for f in functions_of(g.element))
        if any(not isinstance(f, Signal) for f in seeing):
            return True  # they may; who asks shortens its longest step, no more
        return any(is_unannounced(g, self.bodies.frame) for g in self._groups)

    def moving_constraints(self, nq: int) -> Mechanism | None:
        moving = tuple(g for g in self.bodies.joints if is_timed(g, self.bodies.frame))
        return replace(self, bodies=self.bodies.having(joints=moving)) if moving else None

    def increment_units(self, nv: int) -> list[str]:
        s = self.bodies
        turns = s.dof - s.translations
        own = ["m"] * (s.translations * s.count) + ["rad"] * (turns * s.count)
        for i in np.concatenate([self.states(nv), self.idle(nv)]):
            own[i] = ""
        return own + [""] * len(s.mode_names)

    def typical_sizes(self, q: np.ndarray) -> np.ndarray:
        length, s = self._length(q), self.bodies
        sizes = np.ones(s.count * s.dof)
        sizes[: s.count * s.translations] = length
        sizes[np.concatenate([self.states(sizes.size), self.idle(sizes.size)])] = 1.0
        return np.concatenate([sizes, length / s.mode_sizes()])

    def _length(self, q: np.ndarray) -> float:
        """The size of the mechanism [m]."""
        s = self.bodies
        places = [np.linalg.norm(x, axis=1) for x in (self.places.point_a, self.places.point)]
        sizes = [np.max(x, initial=0.0) for x in places]
        rows = np.asarray(q)[: s.count * s.translations].reshape(-1, s.count)[:, : len(s.moving)]
        sizes.append(np.max(np.ptp(rows, axis=1)))
        sizes.append(np.max(s.radii()))
        return float(max(sizes))

    @property
    def has_redundant_constraints(self) -> bool:
        return self.redundant

    def velocity_size(self, nq: int) -> int:
        expected = self.bodies.position_size
        if nq != expected:
            raise ValueError(
                f"q has {nq} entries; this mechanism has {expected} coordinates. Give all of them, "
                "in the order of system.coordinate_names."
            )
        return self.bodies.velocity_size

    def qdot(self, q: Position, v: Velocity) -> Position:
        return self.bodies.qdot(q, v)

    def retract(self, q: Position, step: Velocity) -> Position:
        return self.bodies.retract(q, step)

    def difference(self, start: Position, end: Position) -> Velocity:
        return self.bodies.difference(start, end)

    def increment_rate(self, step: Velocity, rate: Velocity) -> Velocity:
        return self.bodies.increment_rate(step, rate)

    def normalize(self, q: Position) -> Position:
        return self.bodies.normalize(q)

    def extent(self, q: Position) -> Velocity:
        return self.bodies.extent(q)

    # -- System: dynamics ----------------------------------------------------------------

    def mass_matrix(self, q: Position) -> SquareMatrix:
        return self.bodies.mass_matrix(q)

    def momentum(self, q: Position, v: Velocity) -> Force:
        return self.bodies.momentum(q, v)

    def force(self, q: Position, v: Velocity, t: Time) -> Force:
        if not self.resting:
            return self.bodies.force(q, v, t)
        idle = self.idle(v.shape[0])  # held by springs, so that one place is theirs
        off = self.difference(self.started(q), q)[idle]
        return self.bodies.force(q, v + self.resting_velocity(q), t).at[idle].add(-off)

    @property
    def has_reaction_forces(self) -> bool:
        return bool(self.bodies.seeing)

    def reaction_force(self, q: Position, v: Velocity, t: Time, lam: Multipliers) -> Force:
        return self.bodies.reaction_force(q, v, t, lam)

    def seen_rows(self, rows: int) -> Indices:
        return seen_rows(self.bodies.seeing, self.bodies.joints)

    def reaction_force_names(self) -> list[str]:
        return [f"force {name!r}" for group in self.bodies.seeing for name in group.names]

    def potential_energy(self, q: Position) -> Scalar:
        return self.bodies.potential_energy(q)

    def kinetic_energy(self, q: Position, v: Velocity) -> Scalar:
        if not self.bodies.states:
            return super().kinetic_energy(q, v)
        nv = v.shape[0]
        carriers = np.concatenate([self.states(nv), self.idle(nv)])
        return super().kinetic_energy(q, v.at[carriers].set(0.0))

    # -- System: states --------------------------------------------------------------------

    def states(self, nv: int) -> np.ndarray:
        return state_rows(self.bodies.dof, self.bodies.count, len(self.bodies.states))[0]

    def idle(self, nv: int) -> np.ndarray:
        return state_rows(self.bodies.dof, self.bodies.count, len(self.bodies.states))[1]

    def carriers(self, nq: int) -> np.ndarray:
        return np.concatenate(
            state_rows(self.bodies.frame.nq, self.bodies.count, len(self.bodies.states))
        )

    def at_rest(self) -> Mechanism:
        return replace(self, resting=True) if self.bodies.states else self

    def resting_velocity(self, q: Position) -> Velocity:
        rest = super().resting_velocity(q)
        if not self.bodies.states:
            return rest
        return rest.at[self.states(rest.shape[0])].set(q[self.states(rest.shape[0])])

    def started(self, q: Position) -> Position:
        n, k = self.bodies.count, len(self.bodies.states)
        if not k:
            return q
        origin = np.zeros((self.bodies.frame.nq, k))
        if not self.is_planar:
            origin[3] = 1.0
        return jnp.asarray(q).reshape(-1, n).at[:, n - k :].set(origin).ravel()

    # -- System: constraints, the holonomic rows before the others -------------------------

    def constraint(self, q: Position, t: Time) -> PerRow:
        rest = jnp.zeros((self.bodies.velocity_size,))
        return self.bodies.stacked("residual", q, rest, t, "holonomic")

    def constraint_rate(self, q: Position, v: Velocity, t: Time) -> PerRow:
        return self.bodies.stacked("rate", q, v, t, "all")

    def gamma(self, q: Position, v: Velocity, t: Time) -> PerRow:
        return self.bodies.stacked("gamma", q, v, t, "all")

    def jacobian(self, q: Position, t: Time) -> Jacobian:
        return self.bodies.jacobian(q, t, "all")

    def constraint_force(self, q: Position, t: Time, lam: Multipliers) -> Force:
        return self.bodies.constraint_force(q, t, lam)

    def factor(
        self,
        q: Position,
        t: Time,
        *,
        metric: Metric = "mass",
        rows: Rows = "all",
        shift: Array | float = 0.0,
    ) -> ConstraintFactor:
        return self.bodies.factor(q, t, metric, rows, shift, self.redundant)

    def matrix_sizes(
        self, q: Position, v: Velocity, t: Time, size: Literal["mean", "norm"]
    ) -> tuple[Array, Array, Array]:
        if size == "norm" or self.bodies.step_solver("position", None) is None:
            return super().matrix_sizes(q, v, t, size)
        mass, damping, stiffness = self.bodies.force_diagonals(q, v, t)
        mean = lambda x: jnp.mean(jnp.abs(x))  # noqa: E731
        return mean(mass), mean(damping), mean(stiffness)

    def sturdier(self) -> Mechanism | None:
        bodies = self.bodies.sturdier()
        return None if bodies is None else replace(self, bodies=bodies)

    def step_solver(self, level: Level, augment: float | None = None) -> StepSolver | None:
        # the blocks have no place for forces that depend on multipliers of other joints, and
        # dependent constraints need the whole matrix
        if self.bodies.seeing or self.redundant:
            return None
        return self.bodies.step_solver(level, augment)

    @property
    def has_varying_mass(self) -> bool:
        return isinstance(self.bodies, ModalBodySet)

    def static_stiffness(self, q: Position, t: Time, lam: Multipliers) -> SquareMatrix:
        if isinstance(self.bodies, ModalBodySet) or self.resting:
            return super().static_stiffness(q, t, lam)
        return static_stiffness(self.bodies, q, t, lam)

    # -- System: beams ---------------------------------------------------------------------

    def section_shapes(self) -> tuple[tuple[int, ...], ...]:
        found = (x for x in self.bodies.forces if isinstance(x.element, BeamElement))
        return tuple((6 * group.element.order, group.n) for group in found)

    def section_loads(self, q: Position) -> tuple[Array, ...]:
        at_rest = self.bodies.frames(q, jnp.zeros((self.bodies.velocity_size,)))
        return tuple(
            jnp.stack(group.element.elastic_force(*group.frames(at_rest)))
            for group in self.bodies.forces
            if isinstance(group.element, BeamElement)
        )

    def with_preloads(self, loads: tuple[Array, ...]) -> Mechanism:
        given = iter(loads)
        forces = tuple(
            replace(group, element=group.element.preloaded(list(next(given))))
            if isinstance(group.element, BeamElement)
            else group
            for group in self.bodies.forces
        )
        return replace(self, bodies=self.bodies.having(forces=forces))

    # -- names ---------------------------------------------------------------------------

    def coordinate_names(self, n: int) -> list[str]:
        return self._labelled(self.bodies.frame.coordinate_labels)

    def velocity_names(self, n: int) -> list[str]:
        names = self._labelled(self.bodies.frame.velocity_labels)
        for i, name in zip(self.states(n), self.bodies.states, strict=True):
            names[i] = name
        return names

    def _labelled(self, labels: Sequence[str]) -> list[str]:
        own = [f"{name}.{label}" for label in labels for name in self.bodies.own_names]
        return [*own, *self.bodies.mode_names]

    def held_coordinates(self, item: int | str, nq: int) -> list[int]:
        names = self.velocity_names(self.velocity_size(nq))
        if isinstance(item, str):
            item = self.own_name(item)
            exact = [i for i, name in enumerate(names) if name == item]
            whole = [i for i, name in enumerate(names) if name.rsplit(".", 1)[0] == item]
            if exact or whole:
                return exact or whole
            raise ValueError(
                f"There is nothing called {shown(item)} to hold. Give a body "
                f"({listed(self.bodies.moving)}) or a coordinate such as {names[0]!r}."
            )
        if not 0 <= item < len(names):
            raise ValueError(
                f"There is no velocity coordinate {item} to hold; there are {len(names)}, counted "
                "from 0."
            )
        return [item]

    def own_name(self, name: str) -> str:
        """The name of a body, coordinate or quantity, where it is said by a place on a beam."""
        return own_name(name, self.beams)

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
            noun = "beam" if isinstance(group.element, BeamElement) else "force"
            bad += [f"{noun} {name!r}" for name, good in pairs if not good]
        rest = [np.zeros((g.rows, g.n)) for g in self.bodies.joints]
        for group in self.bodies.seeing:
            parts = group.wrenches(frames, t, self.bodies.joints, rest)
            finite = np.all([np.isfinite(x) for wrench in parts for x in wrench], axis=0)
            pairs = zip(group.names, finite, strict=True)
            bad += [f"force {name!r}" for name, good in pairs if not good]
        return bad

    def frame_of(self, name: str, q: Position, v: Velocity) -> Frame | PlanarFrame:
        """The frame of one body at a state: position, axes and velocities."""
        i = self.number_of(name)
        frame = jax.tree.map(lambda x: x[i + 1], self.bodies.frames(q, v))
        if self.bodies.com is None:
            return frame
        return frame.at((Vec2 if self.is_planar else Vec3).of(-self.bodies.com[i]))

    # -- quantities by name ----------------------------------------------------------------

    def measured(self) -> dict[str, Quantity]:
        """Every quantity that follows from a state, by name."""
        return {} if self.origin is None else self.origin.measured(self.numbers)

    def states_by_name(self) -> list[str]:
        """The names of its states of first order."""
        return [name for name, x in self.measured().items() if isinstance(x, StateValue)]

    def quantities(self) -> dict[str, str]:
        """What can be asked of a state by name, with units: ``{"A.angle": "rad", ...}``."""
        return {name: x.unit for name, x in self.measured().items()}

    def quantity(self, name: str) -> Callable[[Any, Array, Array], Any]:
        """A named quantity as a function of (t, q, v), which may be traced and differentiated.

        Angles between spatial bodies are those less whole turns, between -pi and pi.
        """
        found = self.named_quantity("quantity", name)
        return lambda t, q, v: found.at(self.bodies, t, q, v)

    def named_quantity(self, owner: str, name: object) -> Quantity:
        """The quantity of that name, or one message that begins with `owner`."""
        known = self.measured()
        found = find(known, self.own_name(name)) if isinstance(name, str) else None
        if found is None:
            raise KeyError(unknown_name(owner, "quantity", name, names_of(known)))
        return found

    def parts(self) -> Inventory:
        """The shapes of the bodies, and the joints and forces between them, to be drawn."""
        if self.origin is None:
            return Inventory(dict.fromkeys(self.bodies.rigid, ()), ())
        return self.origin.parts(self.numbers)

    def drawn_through(self) -> dict[str, tuple[int, ...]]:
        """The frames that a flexible body is drawn through, in order, counted from 0: nodes of
        beams, markers of bodies with modes."""
        out = {x.name: tuple(range(x.first, x.first + x.nodes)) for x in self.beams}
        if isinstance(self.bodies, ModalBodySet):
            out |= {x.name: tuple(x.markers) for x in self.bodies.flexible}
        return out

    # -- bodies and joints by name -------------------------------------------------------

    def check_body(self, name: Any) -> None:
        """Refuse what is not the name of a body."""
        self.number_of(name)

    def check_joint(self, name: object, axes: object) -> None:
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

    def number_of(self, body: str) -> int:
        """Which of the bodies this is, counted from 0."""
        if isinstance(body, str):
            node = node_named(body, self.beams)
            if node is not None:
                return node.beam.first + node.checked(body).node
            if body in self.bodies.rigid:
                return self.bodies.names.index(body)
        known = listed(self.bodies.rigid)
        raise KeyError(f"There is no body {shown(body)}; the bodies are {known}.")

    @property
    def is_planar(self) -> bool:
        """Whether the bodies are planar."""
        return self.bodies.frame is PlanarFrame


def _full_name(known: Mapping[str, object], name: str) -> str:
    """The name of a parameter, where that of a user's function may be given by its own."""
    item, _, own = str(name).partition(".")
    full = f"{item}.parameters.{own}"
    return full if name not in known and full in known else name
