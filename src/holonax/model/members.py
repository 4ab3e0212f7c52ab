"""From what a model says to what its equations are put together from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._numbers import namespace, stacked
from ..system.assembly import BodySet
from ..system.elements import Group, Indices, group_rows
from ..system.frames import Frame, PlanarFrame
from ..system.mechanism import JointPlaces
from ..system.modal import ModalBodySet
from ..system.reaction_forces import SeeingGroup
from . import state_items
from .attachment import Attached, carriers

if TYPE_CHECKING:
    from jax import Array

    from .bodies import Body
    from .items import Kind
    from .modal_bodies import ModalBodyItem


@dataclass(frozen=True)
class Members:
    """The members of a model by name: bodies, joints with those that `kept` orientations need,
    forces, states of first order with where they start and their rates, bodies with modes."""

    bodies: Mapping[str, Body]
    joints: Mapping[str, Attached]
    kept: Sequence[Attached]
    forces: Mapping[str, Attached]
    rates: Mapping[str, Attached]
    states: Mapping[str, Any]
    modal: Sequence[ModalBodyItem]
    gravity: Any
    planar: bool

    @cached_property
    def index(self) -> dict[str, int]:
        """The frame of each body, and of each carrier of a state."""
        names = [*self.bodies, *(body.name for body in self.carriers)]
        return {"ground": 0, **{name: i + 1 for i, name in enumerate(names)}}

    def joint_places(self) -> JointPlaces:
        """Where joints are drawn."""
        return JointPlaces.of([(x.point_a, x.point, x.axes) for x in self.joints.values()])

    def markers(self) -> tuple[tuple[str, tuple[int, int]], ...]:
        """The two frames of each joint."""
        return tuple((x.item.name, _ends(x, self.index)) for x in self.joints.values())

    def start_vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """The described (q, v), not yet made consistent."""
        markers = {item.marker_name(x) for item in self.modal for x in item.modes.markers}
        bodies = [x for x in self.bodies.values() if x.name not in markers] + self.carriers
        q, v = stacked([b.start for b in bodies], 1), stacked([b.rate for b in bodies], 1)
        q, v = q.ravel(), v.ravel()
        if not self.modal:
            return q, v
        eta, rate = zip(*(item.start() for item in self.modal), strict=True)
        xp = namespace(q, v, *eta, *rate)
        return xp.concatenate([q, *eta]), xp.concatenate([v, *rate])

    @cached_property
    def carriers(self) -> list[Body]:
        """What carries the states of first order; see `system/first_order.py`."""
        kind: Kind = "planar" if self.planar else "spatial"
        out = []
        for name, start in self.states.items():
            names = carriers(name, components_of(start))
            out += map(partial(state_items.carrier, kind), names, state_items.components(start))
        return out

    def body_set(self, solver: str) -> BodySet | ModalBodySet:
        """The bodies, and the markers of those with modes."""
        modal, index = self.modal, self.index
        if not modal:
            return self._frame_set(solver)
        marks = {x.name: [index[x.marker_name(m)] - 1 for m in x.modes.markers] for x in modal}
        followed = {i for own in marks.values() for i in own}
        places = [i for i in range(len(self.bodies)) if i not in followed]
        made = [x.modal(places.index(index[x.name] - 1), Indices.of(marks[x.name])) for x in modal]
        return ModalBodySet.of(self._frame_set("none"), made, solver)

    def _frame_set(self, solver: str) -> BodySet:
        planar, index = self.planar, self.index
        bodies = [*self.bodies.values(), *self.carriers]
        frame = PlanarFrame if planar else Frame
        joints = _grouped([*self.joints.values(), *self.kept], index, frame)
        joints.sort(key=lambda g: not g.is_holonomic)
        inertia = _inertias([b.inertia for b in bodies])
        return BodySet.of(
            mass=stacked([b.mass for b in bodies]),
            inertia=inertia[0] if planar else inertia,
            gravity=tuple(self.gravity),
            joints=joints,
            forces=_grouped(
                [x for x in (*self.forces.values(), *self.rates.values()) if not x.sees],
                index,
                frame,
            ),
            names=[body.name for body in bodies],
            frame=frame,
            solver=solver,
            com=self._centres(),
            seeing=self._seeing(),
            states=[body.name for body in self.carriers],
        )

    def _seeing(self) -> list[SeeingGroup]:
        """The forces that depend on reactions, those of one type stacked."""
        groups = []
        for parts in _alike(x for x in self.forces.values() if x.sees):
            names, made, touched, sees = zip(*parts, strict=True)
            places = range(len(sees[0]))
            ends = [[_ends(self.joints[x[k]], self.index)[1] for x in sees] for k in places]
            groups.append(
                SeeingGroup(
                    jax.tree.map(lambda *values: stacked(values), *made),
                    _nodes(touched, self.index),
                    names,
                    tuple(tuple(x[k] for x in sees) for k in places),
                    tuple(map(Indices.of, ends)),
                )
            )
        return groups

    def _centres(self) -> Any:
        """The centres of mass in the bodies' coordinates; None where all are the origins."""
        com = [body.com for body in (*self.bodies.values(), *self.carriers)]
        if all(x is None for x in com):
            return None
        size = 2 if self.planar else 3
        return stacked([np.zeros(size) if x is None else x for x in com])


def _ends(attached: Attached, index: dict[str, int]) -> tuple[int, int]:
    """The frames of a joint's first and second body."""
    names = attached.bodies
    return index[names[0]], index[names[min(1, len(names) - 1)]]


def _alike(attached: Any) -> Iterator[list[tuple[str, Any, tuple[str, ...], tuple[str, ...]]]]:
    """The elements of each type, in order of first appearance: name, element, bodies, and joints
    whose reactions it depends on."""
    found: dict[Any, list[Any]] = {}
    for one in attached:
        for element in one.elements:
            leaves, structure = jax.tree.flatten(element)
            shapes = tuple(np.shape(leaf) for leaf in leaves)
            nodes = (*one.bodies, *one.carriers)
            part = (one.name, element, nodes, one.sees)
            found.setdefault((structure, shapes, len(nodes)), []).append(part)
    yield from found.values()


def components_of(start: float | np.ndarray | Array) -> int:
    """The number of components of a state that starts there; 0 for a number."""
    return int(np.shape(start)[0]) if np.ndim(start) else 0


def _nodes(touched: tuple[tuple[str, ...], ...], index: dict[str, int]) -> tuple[Indices, ...]:
    return tuple(Indices.of(index[x[k]] for x in touched) for k in range(len(touched[0])))


def _inertias(all: list[np.ndarray | Array]) -> Any:
    """The inertias of bodies side by side, with products of inertia where one of them has some."""
    rows = max(len(x) for x in all)
    return stacked([namespace(x).pad(x, (0, rows - len(x))) for x in all], 1)


def _grouped(attached: Sequence[Attached], index: dict[str, int], frame: type) -> list[Group]:
    """Stack the elements of each type."""
    groups = []
    for parts in _alike(attached):
        names, made, touched, _ = zip(*parts, strict=True)
        element = jax.tree.map(lambda *values: stacked(values), *made)
        nodes = _nodes(touched, index)
        rows = group_rows(made[0], frame, len(nodes))
        groups.append(Group(element, nodes, names, rows))
    return groups
