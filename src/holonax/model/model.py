"""`Model`: what the user describes, by name, and the `System` that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec

import numpy as np

from .._arguments import choice
from .._messages import listed, shown, warn
from .._numbers import as_array, is_traced, namespace, real
from ..system.beam_places import BeamPlace, node_named
from ..system.mechanism import Mechanism
from ..system.signals import check_breaks
from . import (
    beams,
    bodies,
    cables,
    custom,
    drivers,
    force_items,
    gears,
    joints,
    modal_bodies,
    motors,
    nonholonomic,
    outputs,
    planar_joints,
    state_items,
)
from .analysis_methods import AnalysisMethods
from .attachment import Attached, Attachment, carriers
from .bodies import Body, BodyItem, Ground, ground_body, vector
from .items import REGISTRY, Connector, Item, JointItem, Kind, ModelError
from .measured import measured
from .members import Members, components_of
from .origin import Origin, numbers_of, parameter_path, with_entry
from .units import check_lengths

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import ArrayLike

_SOLVERS = ("auto", "dense", "block")
P = ParamSpec("P")


def _adds(record: Callable[P, Item]) -> Callable[Concatenate[Model, P], str]:
    """The method of a model that makes such a record and adds it; it returns the name."""

    def method(self: Model, /, *arguments: P.args, **options: P.kwargs) -> str:
        return self.add(record(*arguments, **options)).name

    return _described(method, record, str)


def _described(method: Any, record: Any, returns: type) -> Any:
    """A method with the name, signature and text of the records it makes."""
    own = signature(record)
    first = Parameter("self", Parameter.POSITIONAL_ONLY)
    method.__signature__ = own.replace(
        parameters=[first, *own.parameters.values()], return_annotation=returns
    )
    method.__name__ = record.type
    method.__qualname__ = f"Model.{record.type}"
    method.__doc__ = record.__doc__
    return method


def _adds_body(record: Callable[P, Item]) -> Callable[Concatenate[Model, P], Body]:
    """As `_adds`; it returns the body, for joints and forces to attach to."""

    def method(self: Model, /, *arguments: P.args, **options: P.kwargs) -> Body:
        return self._bodies[self.add(record(*arguments, **options)).name]

    return _described(method, record, Body)


class Model(AnalysisMethods):
    """A mechanism: bodies, joints and forces, all named.

    **Arguments:**

    - `gravity`: acceleration of free fall [m/s^2], two or three components. Planar bodies feel
      its x and y components. Default: 9.81 along -z for spatial bodies, along -y for planar ones.
    - `breaks`: times [s] at which forces or drivers are not smooth; runs hit them exactly and begin
      anew there. Those of `Step`, `Pulse` and `Table` are known without being given.

    Add bodies with `body` or `planar_body` (a model is of space or of the plane), connect them with
    joints and forces, then `simulate`, or `build` to get the `System` and a consistent start.

    What was said stays: `items` are the records by name, ``model["crank"].mass`` one number of
    them, ``model.replaced("crank", mass=2.0)`` a copy with a change, `to_dict` the whole.
    """

    def __init__(self, gravity: ArrayLike | None = None, breaks: ArrayLike = ()):
        self._items: dict[str, Item] = {}
        self._bodies: dict[str, Body] = {}
        self._joints: dict[str, Attached] = {}
        self._forces: dict[str, Attached] = {}
        self._beams: dict[str, BeamPlace] = {}
        self._outputs: dict[str, outputs.AttachedOutput] = {}
        self._states: dict[str, Any] = {}  # where each starts
        self._rates: dict[str, Attached] = {}
        self.gravity = None if gravity is None else _gravity(gravity)
        self.breaks = check_breaks("Model", breaks)

    body = _adds_body(bodies.SpatialBody)
    planar_body = _adds_body(bodies.PlanarBody)
    modal_body = _adds_body(modal_bodies.SpatialModalBody)
    planar_modal_body = _adds_body(modal_bodies.PlanarModalBody)
    beam = _adds(beams.BeamItem)
    cable = _adds(cables.CableItem)
    line_load = _adds(beams.LineLoad)

    spherical = _adds(joints.Spherical)
    revolute = _adds(joints.Revolute)
    prismatic = _adds(joints.Prismatic)
    cylindrical = _adds(joints.Cylindrical)
    screw = _adds(joints.Screw)
    universal = _adds(joints.Universal)
    planar_joint = _adds(joints.PlaneOnPlane)
    fixed = _adds(joints.Fixed)
    distance = _adds(joints.Distance)
    point_on_line = _adds(joints.PointOnLine)
    point_on_plane = _adds(joints.PointOnPlane)
    gear = _adds(gears.Gear)
    rack_and_pinion = _adds(gears.RackAndPinion)
    pin_in_slot = _adds(planar_joints.PinInSlot)
    point_on_curve = _adds(planar_joints.PointOnCurve)
    rolling_disc = _adds(nonholonomic.RollingDisc)
    knife_edge = _adds(nonholonomic.KnifeEdge)
    custom_joint = _adds(custom.CustomJoint)
    custom_rate_joint = _adds(custom.CustomRateJoint)

    drive_angle = _adds(drivers.DriveAngle)
    drive_distance = _adds(drivers.DriveDistance)
    drive_translation = _adds(drivers.DriveTranslation)
    drive_coordinate = _adds(drivers.DriveCoordinate)

    spring_damper = _adds(force_items.SpringDamper)
    torsion_spring = _adds(force_items.TorsionSpring)
    bushing = _adds(force_items.Bushing)
    force = _adds(force_items.AppliedForce)
    torque = _adds(force_items.AppliedTorque)
    joint_damping = _adds(force_items.JointDamping)
    joint_friction = _adds(force_items.JointFriction)
    motor = _adds(motors.Motor)
    custom_force = _adds(force_items.CustomForce)

    output = _adds(outputs.OutputItem)
    state = _adds(state_items.StateItem)

    # -- what was said -----------------------------------------------------------------------

    @property
    def ground(self) -> Ground:
        """The frame that never moves."""
        return Ground()

    @property
    def items(self) -> Mapping[str, Item]:
        """The records of all that was described, by name and in order."""
        return MappingProxyType(self._items)

    def __getitem__(self, name: str) -> Any:
        """The record of that name."""
        if not isinstance(name, str) or name not in self._items:
            raise KeyError(f"There is no object {shown(name)}; there are {listed(self._items)}.")
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        own = [("gravity", self.gravity)] if self.gravity is not None else []
        own += [("breaks", self.breaks)] if self.breaks.size else []
        said = ", ".join(f"{name}={shown(tuple(x.tolist()))}" for name, x in own)
        return "\n  ".join([f"Model({said})", *map(repr, self._items.values())])

    def _repr_html_(self) -> str:
        """For notebooks: a picture of the model as it is described, and its records."""
        from html import escape

        from ..view.inline import inline_described

        drawn = bool(self._bodies)
        picture = inline_described(self.system(), *self.start_vectors()) if drawn else ""
        return f"{picture}<pre>{escape(repr(self))}</pre>"

    def add(self, item: Item) -> Item:
        """Add a record, one of another model or of a class of your own."""
        if not isinstance(item, Item):
            raise ModelError(
                f"Model: {shown(item)} is not a record. Give one of another model's items."
            )
        name = self._new_name(item.noun, item.name)
        if isinstance(item, BodyItem):
            placed = item.placed()
            self._check_kind(item, placed.kind)
            self._bodies[name] = placed
        elif isinstance(item, modal_bodies.ModalBodyItem):
            self._check_kind(item, item.kind)
            self._bodies.update({frame.name: frame for frame in item.frames()})
        elif isinstance(item, beams.BeamItem | cables.CableItem):
            self._add_beam(item)
        elif isinstance(item, beams.LineLoad):
            self._add_line_load(item)
        elif isinstance(item, Connector):
            item = self._with_names(item)
            own = item.own_states()
            there = self._attachment(item, own)
            found: Any = self._joints if isinstance(item, JointItem) else self._forces
            found = self._outputs if isinstance(item, outputs.OutputItem) else found
            found = self._rates if isinstance(item, state_items.StateItem) else found
            found[name] = item.attach(there)
            self._states.update(own)
        self._items[name] = item
        return item

    def replaced(self, name: str, **changes: Any) -> Model:
        """A copy of the model in which one record has other values.

        Whatever else refers to it is described again: a joint given by a world point stays there
        when a body is placed elsewhere. What was given in the world may be replaced in a body:
        ``replaced("A", at_b=...)`` keeps the joint's place in its first body.
        """
        return self._copy({name: self._changed(self[name], changes)})

    def parameters(self) -> dict[str, Any]:
        """Every physical number that was said, as ``"crank.mass"`` or ``"A.at_b"``."""
        own = {} if self.gravity is None else {"gravity": self.gravity}
        return {**own, **numbers_of(self._items.values())}

    def with_parameters(self, values: Mapping[str, Any]) -> Model:
        """A copy of the model with other numbers, by the names of `parameters`.

        They may be traced: everything that follows from them is a pure function. One of the
        parameters of a user's function goes by its own name, ``"push.gain"``.
        """
        changes: dict[str, dict[str, Any]] = {}
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise ModelError(
                f"Model: {shown(values)} are not parameters by name. Give a dictionary such as "
                "{'crank.mass': 2.0}."
            )
        values = dict(values)
        gravity = values.pop("gravity", self.gravity)
        for key, value in values.items():
            name, dot, field = key.partition(".")
            if not dot or name not in self._items:
                raise ModelError(
                    f"Model: there is no parameter {shown(key)}. They are named as 'crank.mass', "
                    f"for the objects {listed(self._items)}."
                )
            own, inner = changes.setdefault(name, {}), parameter_path(self._items[name], field)
            if inner is None:
                own[field] = value
            else:
                before = own.get("parameters", self._items[name].parameters)  # pyright: ignore
                own["parameters"] = with_entry(before, inner, value)
        items = {name: self._changed(self[name], given) for name, given in changes.items()}
        return self._copy(items, gravity)

    def _changed(self, item: Item, changes: dict[str, Any]) -> Item:
        attached = self._joints.get(item.name) or self._forces.get(item.name)
        return item.changed(**({} if attached is None else attached.localised(changes)), **changes)

    def _copy(
        self, changed: Mapping[str, Item], gravity: np.ndarray | Array | None = None
    ) -> Model:
        out = type(self)(self.gravity if gravity is None else gravity, self.breaks)
        for name, item in self._items.items():
            out.add(changed.get(name, item))
        return out

    def quantities(self) -> dict[str, str]:
        """What can be asked of a state by name, with units: ``{"A.angle": "rad", ...}``.

        A vector goes by its name, ``"crank.velocity"``, or by component, ``"crank.velocity.x"``.
        Results know these and more, reactions and energies among them: `Result.quantities`.
        """
        return {name: x.unit for name, x in measured(self).items()}

    def to_dict(self) -> dict[str, Any]:
        """The model as a dictionary of strings, numbers and lists, from which `from_dict` makes
        the same again; exact, and fit for JSON. Functions cannot be in it."""
        own = {} if self.gravity is None else {"gravity": self.gravity.tolist()}
        if self.breaks.size:
            own["breaks"] = self.breaks.tolist()
        return {**own, "items": [item.to_dict() for item in self._items.values()]}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Model:
        """The model of a dictionary made by `to_dict`, or written by hand."""
        known = {"gravity", "breaks", "items"}
        unknown = [] if not isinstance(said, Mapping) else set(said) - known
        if unknown or not isinstance(said, Mapping):
            raise ModelError(
                f"Model: {shown(said)} is not the dictionary of a model. Give 'items', a list of "
                "dictionaries, and if need be 'gravity' and 'breaks'."
            )
        items = said.get("items", [])
        if not isinstance(items, (list, tuple)):
            raise ModelError(f"Model: items={shown(items)} is not a list of dictionaries.")
        model = cls(said.get("gravity"), said.get("breaks", ()))
        for item in items:
            model.add(Item.from_dict(item))
        return model

    def save(self, path: str | Path, *, run: Mapping[str, Any] | None = None) -> None:
        """Write the model to a file that `holonax.load` reads, .toml or .json; see `io.save`.

        `run` are settings of a run to be kept with it, such as ``{"t_end": 2.0}``.
        """
        from .. import io

        io.save(self, path, run=run)

    # -- adding ------------------------------------------------------------------------------

    @property
    def _kind(self) -> Kind | None:
        """Whether the bodies are planar or spatial; None while there is none."""
        return next((body.kind for body in self._bodies.values()), None)

    def _new_name(self, what: str, name: object) -> str:
        if not isinstance(name, str) or not name:
            raise ModelError(f"A {what} needs a name, a non-empty string; got {shown(name)}.")
        if name == "ground":
            raise ModelError(f"{what} 'ground': that name belongs to the ground. Choose another.")
        if "." in name:
            raise ModelError(
                f"{what} {name!r}: a name may not contain a dot (it separates a coordinate, as in "
                f"'crank.angle'). Choose another."
            )
        if name in self._items or name in self._bodies:
            raise ModelError(
                f"{what} {name!r}: the name is already taken by another object. Names must differ."
            )
        return name

    def _check_kind(self, item: Item, kind: Kind) -> None:
        if self._kind not in (None, kind):
            raise ModelError(
                f"{item.owner}: it is {kind}, but the other bodies of the model are "
                f"{self._kind}. Describe all with body(...), or all with planar_body(...); "
                "planar_joint keeps a spatial body in a plane."
            )

    def _add_beam(self, item: beams.BeamItem | cables.CableItem) -> None:
        self._check_kind(item, "spatial")
        nodes, elements = item.nodes(), item.attached()
        taken = [node.name for node in nodes if node.name in self._bodies]
        if taken:
            raise ModelError(
                f"{item.owner}: the name {taken[0]!r} of its node is already taken by another "
                "object. Names must differ."
            )
        self._beams[item.name] = item.place(len(self._bodies))
        self._bodies.update({node.name: node for node in nodes})
        self._forces.update({element.name: element for element in elements})

    def _add_line_load(self, item: beams.LineLoad) -> None:
        place = self._beams.get(item.beam) if isinstance(item.beam, str) else None
        if place is None:
            known = listed(self._beams) or "none yet"
            raise ModelError(
                f"{item.owner}: there is no beam {shown(item.beam)}. The beams are {known}."
            )
        beam: Any = self._items[item.beam]
        nodes = [self._bodies[place.node_name(k)] for k in range(place.nodes)]
        self._forces.update({x.name: x for x in item.attached(beam, nodes)})

    def _with_names(self, item: Connector) -> Connector:
        """The record with bodies by name, where handles were given."""
        names: dict[str, Any] = {}
        for field in item.touches:
            given = getattr(item, field)
            if isinstance(given, tuple) and field != "bodies":
                raise ModelError(
                    f"{item.owner}: {field}={shown(given)} is not one body. Give one, or its name."
                )
            if isinstance(given, tuple):
                names[field] = tuple(self._name_of(item, x) for x in given)
            elif given is not None:
                names[field] = self._name_of(item, given)
        same = all(getattr(item, field) is name for field, name in names.items())
        return item if same else item.changed(**names)

    def _name_of(self, item: Connector, body: Ground | str) -> str:
        if isinstance(body, Ground):
            return "ground"
        if not isinstance(body, Body):
            return body
        if self._bodies.get(body.name, body) is not body:
            raise ModelError(
                f"{item.owner}: the body {body.name!r} it is given belongs to another model. Give "
                "the one this model made, or its name."
            )
        return body.name

    def _attachment(self, item: Connector, own: Mapping[str, Any] | None = None) -> Attachment:
        """The bodies of a joint or force, which must go together, and the states that it names;
        `own` are those it has itself."""
        named = tuple(self._node(item, name) for name in item.connected(self._joints))
        layout = [(name, self._components(item, name)) for name in named]
        names = [name for name, size in layout if size is None]
        for name in names:
            if name != "ground" and (not isinstance(name, str) or name not in self._bodies):
                known = listed(["ground", *self._bodies])
                raise ModelError(
                    f"{item.owner}: there is no body {shown(name)}. The bodies are {known}."
                )
        mine = {} if own is None else {name: components_of(start) for name, start in own.items()}
        carried = tuple(x for name, n in mine.items() for x in carriers(name, n))
        if isinstance(item, state_items.StateItem):  # its own state is the first of its arguments
            layout, carried = [*mine.items(), *layout], ()
            if not names:
                return Attachment(item, self._kind or "planar", (), self._joints, tuple(layout))
        moving = [name for name in names if name != "ground"]
        if not moving:
            remedy = "at least one body" if len(names) > 1 else "a body"
            raise ModelError(
                f"{item.owner}: it acts on the ground alone, which never moves. Give {remedy}."
            )
        twice = [name for name in moving if moving.count(name) > 1]
        if twice:
            raise ModelError(
                f"{item.owner}: it connects body {twice[0]!r} to itself. Give another body."
            )
        kind = self._bodies[moving[0]].kind
        if kind not in item.kinds:
            needed = item.kinds[0]
            raise ModelError(
                f"{item.owner}: body {moving[0]!r} is {kind}, but this needs {needed} bodies. "
                f"Describe it with {'planar_body' if needed == 'planar' else 'body'}(...)."
            )
        found = (ground_body(kind) if x == "ground" else self._bodies[x] for x in names)
        return Attachment(item, kind, tuple(found), self._joints, tuple(layout), carried)

    def _components(self, item: Connector, name: object) -> int | None:
        """How many components a state of that name has, 0 for a number; None if it is a body."""
        if not isinstance(name, str) or name not in self._states:
            return None
        if not item.sees_states:
            takes = [x.type for x in REGISTRY.values() if x.sees_states]
            raise ModelError(
                f"{item.owner}: {name!r} is a state and no body. What depends on states is "
                f"{listed(takes)}."
            )
        return components_of(self._states[name])

    def _node(self, item: Connector, name: Any) -> str:
        """The body that is meant: where it is a place on a beam, the node there."""
        found = node_named(name, self._beams.values()) if isinstance(name, str) else None
        if found is None:
            return name
        if found.is_between:
            at = found.beam.coordinates[found.node]
            warn(
                f"{item.owner}: {name!r} is between two nodes; it is put at {found.body!r}, at "
                f"{at:.6g}. Choose the number of elements so that there is a node."
            )
        return found.body

    # -- the system --------------------------------------------------------------------------

    def system(self, *, solver: Literal["auto", "dense", "block"] = "auto") -> Mechanism:
        """The mechanism's equations, without asking whether its start is consistent.

        `solver` chooses the algebra of the constraint equations and of Newton's method: ``"auto"``
        goes by size and structure; ``"block"`` eliminates bodies and joints by blocks, however few
        there are; ``"dense"`` gathers one matrix, with row exchanges in Newton's method.
        """
        if not self._bodies:
            raise ModelError("The model has no body. Add one with model.body(...).")
        choice("Model", "solver", solver, _SOLVERS, error=ModelError)
        check_lengths(self._bodies.values(), self._joints.values())
        breaks: Any = check_breaks("Model", self.breaks)
        members = self._members()
        items = tuple(self._items.values())
        origin = Origin(type(self), items, members.gravity, self.breaks, solver)
        return Mechanism(
            members.body_set(solver),
            members.joint_places(),
            members.markers(),
            False,
            breaks=breaks if breaks.size else None,
            numbers=origin.flat(),
            origin=origin,
            beams=tuple(self._beams.values()),
        )

    def start_vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """The described (q, v), not yet made consistent."""
        return self._members().start_vectors()

    def _numbers(self) -> dict[str, int]:
        """The frame of each body, and of each carrier of a state."""
        return self._members().index

    def _members(self) -> Members:
        """What the equations are put together from."""
        points = [name for name, body in self._bodies.items() if body.is_point]
        kept = [joints.Kept(name, "ground", name) for name in points]
        modal = [x for x in self._items.values() if isinstance(x, modal_bodies.ModalBodyItem)]
        planar = self._kind == "planar"
        return Members(
            bodies=self._bodies,
            joints=self._joints,
            # point masses keep their orientation, which nothing else determines
            kept=[item.attach(self._attachment(item)) for item in kept],
            forces=self._forces,
            rates=self._rates,
            states=self._states,
            modal=modal,
            gravity=self._gravity(planar),
            planar=planar,
        )

    def _gravity(self, planar: bool) -> np.ndarray | Array:
        if self.gravity is None:
            return np.array([0.0, -9.81]) if planar else np.array([0.0, 0.0, -9.81])
        gravity = _gravity(self.gravity)
        return gravity[:2] if planar else namespace(gravity).pad(gravity, (0, 3 - gravity.size))


def _gravity(given: object) -> np.ndarray:
    known = as_array(given) if is_traced(given) else real(given)
    size = known.size if known is not None and known.ndim == 1 else 0
    if size not in (2, 3):
        raise ModelError(
            f"Model: gravity={shown(given)} must have two or three components [m/s^2], such as "
            "(0, 0, -9.81)."
        )
    return vector("Model", "gravity", given, size)
