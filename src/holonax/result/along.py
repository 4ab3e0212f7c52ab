"""What happens along a beam: its shape, strains and section forces, over time or at rest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from .._messages import listed, shown
from .._numbers import array
from ..rotation import Axes3, Vec3
from ..rotation.quaternion import quaternion_axes
from ..rotation.screw import screw_motion
from ..system.beam import BeamElement, relative_screw
from ..system.beam_interpolation import shapes
from ..system.beam_places import BeamPlace
from ..system.cable import CableElement
from ..system.frames import Frame
from ..system.mechanism import Mechanism
from ..system.modal import spread_states


@dataclass(frozen=True)
class BeamMotion:
    """A beam at some states; all arrays begin with the axis of these, where there are several.

    `coordinates` (nodes,) are the material coordinates of the nodes, `position` (..., nodes, 3)
    and `rotation` (..., nodes, 3, 3) say where their sections are. `strain` and `section_force`
    (..., points, 6) are those at the material coordinates `middles`, one in each element or as many
    as its order: extension, shear along y and z, twist [rad/m] and bending about y and z [rad/m];
    normal force, shear forces [N], torsional and bending moments [N m]; in section axes.
    """

    name: str
    coordinates: np.ndarray
    middles: np.ndarray
    frames: Frame  # of the nodes, components of shape (..., nodes)
    element: BeamElement | CableElement  # of all elements

    @property
    def position(self) -> np.ndarray:
        """Where the nodes are [m], (..., nodes, 3)."""
        return _array(self.frames.r)

    @property
    def rotation(self) -> np.ndarray:
        """The axes of the nodes' sections, (..., nodes, 3, 3)."""
        return _matrix(self.frames.A)

    @property
    def _nodes(self) -> list[Frame]:
        """Of all elements, the first node, the second, ..."""
        order = self.element.order
        last = self.coordinates.size - order
        cuts = [slice(k, last + k, order) for k in range(order + 1)]
        return [jax.tree.map(lambda x, cut=cut: x[..., cut], self.frames) for cut in cuts]

    def _by_point(self, found: list[np.ndarray]) -> np.ndarray:
        """Lists of six for each point of an element as (..., points, 6)."""
        x = np.stack([np.asarray(x) for x in found], axis=-1)
        return x.reshape(*x.shape[:-2], -1, 6)

    @cached_property
    def strain(self) -> np.ndarray:
        """The strains, (..., points, 6)."""
        return self._by_point(self.element.strain(*self._nodes))

    @cached_property
    def turns(self) -> np.ndarray:
        """By how much the elements turn between their nodes [rad], (..., elements)."""
        nodes = self._nodes
        phi = relative_screw(nodes[0], nodes[-1]).phi
        return np.sqrt(phi.dot(phi))

    @cached_property
    def section_force(self) -> np.ndarray:
        """The section forces and moments, with damping, (..., points, 6)."""
        return self._by_point(self.element.section_force(*self._nodes))

    @cached_property
    def energy(self) -> np.ndarray:
        """The elastic energy of the elements [J], (..., elements)."""
        return np.asarray(self.element.potential(*self._nodes))

    def at(self, coordinate: Any) -> tuple[np.ndarray, np.ndarray]:
        """(position, rotation) of the sections at material coordinates, one or several, from 0 to
        1: on the element's own path between its nodes."""
        s = array("at", "coordinate", coordinate)
        if s.ndim > 1 or not np.all((s >= 0) & (s <= 1)):
            raise ValueError(
                f"at: coordinate={shown(coordinate)} must be one or several numbers from 0 (the "
                "start of the beam) to 1 (its end)."
            )
        order = self.element.order
        elements = (self.coordinates.size - 1) // order
        k = np.minimum(np.floor(s * elements).astype(int), elements - 1)
        weights, _ = shapes(order, s * elements - k)  # (..., nodes but the one of reference)
        at = [order * k + j for j in range(order + 1)]
        nodes = [jax.tree.map(lambda x, j=j: x[..., j], self.frames) for j in at]
        a, b = self.element.reference(nodes)
        screw = relative_screw(a, b)
        parts = np.moveaxis(weights, -1, 0).reshape(order, *[1] * (a.r.x.ndim - s.ndim), *s.shape)
        u, phi = (Vec3(*(sum(parts * x) for x in six)) for six in (screw.u, screw.phi))
        d, turn = screw_motion(u, phi)
        axes = Axes3(*(a.A @ x for x in (turn.x, turn.y, turn.z)))
        return _array(a.r + a.A @ d), _matrix(axes)


def beam_motion(system: Mechanism, name: object, q: Any, v: Any) -> BeamMotion:
    """The beam `name` at configurations q (..., nq) with velocities v."""
    known = {beam.name: beam for beam in system.beams}
    if not isinstance(name, str) or name not in known:
        raise KeyError(f"There is no beam {shown(name)}; the beams are {listed(known) or 'none'}.")
    beam = known[name]
    q, v = (np.asarray(x, float) for x in (q, v))
    rows_q, rows_v, _ = spread_states(system.bodies, np.atleast_2d(q), np.atleast_2d(v))
    q, v = (x.reshape(*y.shape[:-1], -1) for x, y in ((rows_q, q), (rows_v, v)))
    nodes = slice(beam.first, beam.first + beam.nodes)

    def rows(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x)
        rows = x.reshape(*x.shape[:-1], -1, system.bodies.n)[..., nodes]
        return np.moveaxis(rows, -2, 0)

    x, y = rows(q), rows(v)
    axes = quaternion_axes((x[3], x[4], x[5], x[6]))
    frames = Frame(Vec3(*x[:3]), axes, Vec3(*y[:3]), Vec3(*y[3:]))
    return BeamMotion(name, beam.coordinates, beam.points, frames, _elements(system, beam))


def _elements(system: Mechanism, beam: BeamPlace) -> BeamElement | CableElement:
    """All elements of a beam, in order."""
    groups = [x for x in system.bodies.forces if isinstance(x.element, BeamElement | CableElement)]
    for group in groups:
        at = np.array(group.nodes[0]) - 1 - beam.first
        own = [int(i) for i in np.argsort(at) if 0 <= at[i] < beam.nodes]
        if own:
            return jax.tree.map(lambda x, own=own: np.asarray(x)[own], group.element)
    raise AssertionError(f"beam {beam.name} has no elements")


def _array(x: Vec3) -> np.ndarray:
    return np.stack(list(x), axis=-1)


def _matrix(axes: Axes3) -> np.ndarray:
    return np.stack([_array(x) for x in (axes.x, axes.y, axes.z)], axis=-1)
