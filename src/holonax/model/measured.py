"""What can be asked of a mechanism by name: of its bodies, joints, forces and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._numbers import as_array
from ..rotation import Vec2, Vec3
from ..system.first_order import StateValue
from ..system.quantities import Component, Measured, OfForce, Quantity
from .attachment import Attached, carriers
from .bodies import Body, ground_body

AXES = ("x", "y", "z")


@dataclass(frozen=True)
class _Named:
    """The bodies by name, and how the quantities of things attached to them are made."""

    bodies: Mapping[str, Body]
    planar: bool
    numbers: Mapping[str, int]

    @property
    def vec(self) -> type:
        return Vec2 if self.planar else Vec3

    @property
    def axes(self) -> tuple[str, ...]:
        """The components of a vector."""
        return AXES[:2] if self.planar else AXES

    @property
    def axial(self) -> tuple[str, ...]:
        """Those of an angular velocity or torque: a number in the plane."""
        return () if self.planar else AXES

    def number(self, name: str) -> int:
        return self.numbers[name]

    def com(self, name: str) -> Any:
        return None if name == "ground" else self.bodies[name].com

    def arm(self, name: str, point: np.ndarray) -> Any:
        """A point in the body's coordinates as frames have it: from the centre of mass."""
        com = self.com(name)
        return self.vec.of(point if com is None else point - com)

    # -- bodies ------------------------------------------------------------------------------

    def of_body(self, name: str) -> Iterator[tuple[str, Quantity]]:
        nodes = (self.number(name),)
        com, vector = self.com(name), self.axes
        origin = {"origin": None if com is None else self.vec.of(-com)}
        yield "position", Measured("m", vector, "place", nodes, origin)
        yield "velocity", Measured("m/s", vector, "speed", nodes, origin)
        if self.planar:
            yield "angle", Measured("rad", (), "heading", nodes, {})
        yield "angular_velocity", Measured("rad/s", self.axial, "spin", nodes, {})
        for k, axis in enumerate(vector):
            yield axis, Component("m", (), Measured("m", vector, "place", nodes, origin), k)

    # -- joints ------------------------------------------------------------------------------

    def of_joint(self, joint: Attached) -> Iterator[tuple[str, Quantity]]:
        measures = joint.item.measures or joint.item.free
        if len(joint.bodies) != 2 or not measures:
            return
        a, b = joint.bodies
        nodes = self.number(a), self.number(b)
        p, q = self.arm(a, joint.point_a), self.arm(b, joint.point)
        if "turn" in measures:
            yield from self._turning(joint, nodes)
        if "slide" in measures:
            yield from self._sliding(joint, nodes)
        if "length" in measures:
            yield "length", Measured("m", (), "length", nodes, {"p": p, "q": q})
            yield "length_rate", Measured("m/s", (), "length_rate", nodes, {"p": p, "q": q})

    def _sliding(self, joint: Attached, nodes: Any) -> Iterator[tuple[str, Quantity]]:
        a, b = joint.bodies
        u = joint.axes[:, 0 if self.planar else 2]
        first, second = self._placed(a), self._placed(b)
        start = u @ (first.to_local_point(second.to_world(joint.point)) - joint.point_a)
        along = {"q": self.arm(b, joint.point), "u": self.vec.of(u)}
        from_start = {"p": self.arm(a, joint.point_a), **along, "start": as_array(start)}
        yield "slide", Measured("m", (), "slid", nodes, from_start)
        yield "slide_rate", Measured("m/s", (), "slide_rate", nodes, along)

    def _placed(self, name: str) -> Body:
        kind = "planar" if self.planar else "spatial"
        return ground_body(kind) if name == "ground" else self.bodies[name]

    def _turning(
        self, joint: Attached, nodes: Any, *, own: bool = False
    ) -> Iterator[tuple[str, Quantity]]:
        """The angle of a joint, from the initial configuration on, or as a spring's `own`."""
        if self.planar:
            first, second = (self._placed(x) for x in joint.bodies)
            start = as_array(0.0 if own else second.angle - first.angle)
            yield "angle", Measured("rad", (), "planar_turn", nodes, {"start": start})
            yield "rate", Measured("rad/s", (), "turn_rate", nodes, {"n": None})
            return
        e1, e2, n = (Vec3.of(x) for x in joint.axes.T)
        triad = {"e1": e1, "e2": e2, "f1": Vec3.of(joint.axes_b[:, 0])}
        yield "angle", Measured("rad", (), "turned", nodes, triad)
        yield "rate", Measured("rad/s", (), "turn_rate", nodes, {"n": n})

    # -- forces ------------------------------------------------------------------------------

    def of_force(self, force: Attached) -> Iterator[tuple[str, Quantity]]:
        name, measures = force.item.name, force.measures or force.item.measures
        nodes = tuple(self.number(x) for x in force.bodies)
        yield "power", OfForce("W", (), "power", nodes, name, {})
        last = self.arm(force.bodies[-1], force.point)
        if "length" in measures:
            ends = {"p": self.arm(force.bodies[0], force.point_a), "q": last}
            yield "length", Measured("m", (), "length", nodes, ends)
            yield "rate", Measured("m/s", (), "length_rate", nodes, ends)
            yield "force", OfForce("N", (), "push", nodes, name, ends)
        elif "slide" in measures:
            yield from self._sliding(force, nodes)
            u = self.vec.of(force.axes[:, 0 if self.planar else 2])
            yield "force", OfForce("N", (), "pull", nodes, name, {"u": u})
        elif "turn" in measures:
            yield from self._turning(force, nodes, own=not force.measures)
            n = None if self.planar else Vec3.of(force.axes[:, 2])
            yield "torque", OfForce("N m", (), "twist", nodes, name, {"n": n})
        else:
            yield "force", OfForce("N", self.axes, "force_on", nodes, name, {})
            yield "torque", OfForce("N m", self.axial, "torque_on", nodes, name, {"q": last})


def measured(model: Any) -> dict[str, Quantity]:
    """Every quantity of a model that follows from a state, by name: ``"A.angle"``."""
    there = _Named(model._bodies, model._kind == "planar", model._numbers())
    found: dict[str, Quantity] = {}
    for name in model._bodies:
        found |= {f"{name}.{what}": x for what, x in there.of_body(name)}
    for name, joint in model._joints.items():
        found |= {f"{name}.{what}": x for what, x in there.of_joint(joint)}
    whole = {x: f for x, f in model._forces.items() if not f.part}  # beams: `result.beam`
    for name, force in whole.items():
        found |= {f"{name}.{what}": x for what, x in there.of_force(force)}
    for name, start in model._states.items():
        parts = carriers(name, len(start) if np.ndim(start) else 0)
        labels = tuple(str(k + 1) for k in range(len(parts))) if np.ndim(start) else ()
        unit = model._items[name.partition(".")[0]].state_unit(name)
        found[name] = StateValue(unit, labels, tuple(there.number(x) for x in parts))
    for name, output in model._outputs.items():
        found[name] = output.quantity(tuple(there.number(x) for x in output.bodies))
    return found
