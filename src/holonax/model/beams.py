"""Beams: what the user said of one, the nodes it becomes, and the elements between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jax import lax

from .. import _numbers
from .._arguments import choice
from .._messages import shown
from .._numbers import is_traced, namespace
from ..rotation import Vec3, quaternion_from_axes
from ..rotation.screw import screw_motion
from ..rotation.vectors import Scalar
from ..system.beam import MOST_TURN, BeamElement
from ..system.beam_places import BeamPlace
from ..system.elements import Force
from ..system.frames import as_plain
from .attachment import Attached, Attachment
from .bodies import Body, direction, number, vector
from .expressions import frame_function
from .force_checks import argument_count, check_value
from .items import Item, ModelError, record
from .sections import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array

_PARALLEL = 1e-6  # sine of the angle at which two directions count as one
_STEEP = 0.99  # cosine of the angle to the vertical at which another direction is `up`


@record("beam", "beam")
class BeamItem(Item):
    """Add a geometrically exact beam: a row of nodes, each a frame like a body's.

    **Arguments:**

    - `from_`, `to`: its ends in the initial configuration [m, world]. It is not strained there.
    - `section`: an `hx.Section`; or pairs (material coordinate from 0 to 1, section) between which
      the numbers of sections change linearly.
    - `up`: section axes are x along the beam and z nearest to this direction; by default that of
      world z, or of world y where the beam is upright.
    - `elements`: how many there are, of equal length.
    - `order`: p of elements with p + 1 nodes: 1, with constant strain, which converge as the
      square of their length; or 2 or 3, with the power 2 p of it.
    - `curvature`: twist about x and curvature about y and z [rad/m], in section axes, of a beam
      that is curved at rest; `from_` and `to` are the ends of the arc, at most half a circle.
    - `damping`: [s], the section force is C (strain + damping strain'), with C the stiffness.
    - `velocity` [m/s] of its start and `angular_velocity` [rad/s], both in world axes: the beam
      moves as if it were rigid at first.

    Nodes are ``"name[0]"`` ... ``"name[n]"``; joints, forces and results know them by these names,
    as ``"name.start"`` and ``"name.end"``, and as ``"name(0.4)"`` by the material coordinate.
    """

    kinds: ClassVar[Any] = ("spatial",)
    discrete: ClassVar[tuple[str, ...]] = ("elements", "order", "section")

    from_: Any
    to: Any
    _: KW_ONLY
    section: Any
    up: Any = None
    elements: int = 8
    order: int = 1
    curvature: Any = None
    damping: float | None = None
    velocity: Any = (0.0, 0.0, 0.0)
    angular_velocity: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        given = self.section
        if isinstance(given, (Section, Mapping)):
            object.__setattr__(self, "section", self._section(given))
        else:
            object.__setattr__(self, "section", self._table(given))
        super().__post_init__()

    def _section(self, given: Section | Mapping[str, float | Sequence[float]]) -> Section:
        return given if isinstance(given, Section) else Section.from_dict(self.owner, given)

    def _table(self, given: Any) -> tuple[tuple[Any, Section], ...]:
        try:
            rows = [(at, section) for at, section in given]
        except (TypeError, ValueError):
            raise ModelError(
                f"{self.owner}: section={shown(given)} is not a section. Give hx.Section(...), or "
                "pairs (material coordinate, section)."
            ) from None
        at = np.array([number(self.owner, "section's coordinate", x) for x, _ in rows])
        if len(rows) < 2 or at[0] != 0 or at[-1] != 1 or np.any(np.diff(at) <= 0):
            raise ModelError(
                f"{self.owner}: sections at {shown(at.tolist())} do not cover the beam. Give pairs "
                "(material coordinate, section) from 0 to 1, in order."
            )
        return tuple((float(x), self._section(section)) for x, (_, section) in zip(at, rows))

    # -- numbers and dictionaries ------------------------------------------------------------

    def _sections(self) -> list[tuple[str, float, Section]]:
        """(name of its numbers, coordinate, section) of each."""
        if isinstance(self.section, Section):
            return [("section", 0.0, self.section)]
        return [(f"section{k}", at, section) for k, (at, section) in enumerate(self.section)]

    def numbers(self) -> dict[str, Any]:
        parts = {
            f"{prefix}.{name}": value
            for prefix, _, section in self._sections()
            for name, value in section.numbers().items()
        }
        return {**super().numbers(), **parts}

    def structure(self) -> tuple[Any, ...]:
        own = tuple(pair for pair in super().structure() if pair[0] != "section")
        return (*own, ("section", tuple(at for _, at, _ in self._sections())))

    def changed(self, **changes: Any) -> Any:
        own, sections = {}, {x: (at, section) for x, at, section in self._sections()}
        for name, value in changes.items():
            prefix, dot, field = name.partition(".")
            if dot and prefix in sections:
                at, section = sections[prefix]
                sections[prefix] = at, section.changed(self.owner, field, value)
            else:
                own[name] = value
        if len(own) < len(changes):
            given = list(sections.values())
            own["section"] = given[0][1] if isinstance(self.section, Section) else tuple(given)
        return super().changed(**own)

    def _listed(self, name: str, value: object) -> Any:
        return value.to_dict() if isinstance(value, Section) else super()._listed(name, value)

    # -- what it becomes -----------------------------------------------------------------------

    def place(self, first: int) -> BeamPlace:
        """Its nodes, if the first one is body `first`."""
        elements = _numbers.count(self.owner, "elements", self.elements, error=ModelError)
        order = _numbers.count(self.owner, "order", self.order, most=3, error=ModelError)
        return BeamPlace(self.name, first, elements, order)

    @property
    def rest_length(self) -> float | Array:
        """The length of its axis at rest."""
        return self._line()[0]

    def _line(self) -> tuple[float | Array, np.ndarray | Array, np.ndarray | Array]:
        """(length, axes of the first section, curvature) at rest."""
        start, end = (vector(self.owner, x, getattr(self, x), 3) for x in ("from_", "to"))
        chord = end - start
        xp = namespace(chord)
        span = xp.linalg.norm(chord)
        if not is_traced(span) and span <= 1e-12 * (1 + np.max(np.abs(start))):
            raise ModelError(
                f"{self.owner}: from_ and to are the same point, so the nodes of element 0 "
                "coincide. Give two ends."
            )
        along = chord / span
        if self.curvature is None:
            return span, self._axes(along, np.array([1.0, 0.0, 0.0])), np.zeros(3)
        bend = vector(self.owner, "curvature", self.curvature, 3)
        length = self._arc(span, bend)
        local, _ = screw_motion(*_screw(length, bend))
        local = namespace(local.x).stack(list(local))
        return length, self._axes(along, local / namespace(local).linalg.norm(local)), bend

    def _arc(self, span: float | Array, bend: np.ndarray | Array) -> Any:
        """The length of an arc of constant curvature between two points `span` apart."""
        xp = namespace(span, bend)
        k2 = bend @ bend
        across = bend[1] * bend[1] + bend[2] * bend[2]

        def chord2(length: Any) -> float | Array:
            x2 = k2 * length * length
            small = x2 < 1e-6
            x = xp.sqrt(xp.where(small, 1.0, x2))
            turn = xp.where(small, 1 - x2 / 12, 2 * (1 - xp.cos(x)) / (x * x))
            share = across / xp.where(k2 > 0, k2, 1.0)
            return length * length * (1 - share + share * turn)

        # between the chord itself and half a circle; bisection, so that it cannot fail
        low, high = span, 0.5 * xp.pi * span
        if not is_traced(span, bend) and chord2(high) < span * span * (1 - 1e-12):
            raise ModelError(
                f"{self.owner}: with curvature={shown(self.curvature)} an arc does not reach from "
                f"from_ to to, {float(span):g} m apart, within half a circle. Give less curvature, "
                "or describe it as several beams."
            )

        def halved(_: object, ends: Any) -> tuple[np.ndarray, np.ndarray]:
            low, high = ends
            middle = 0.5 * (low + high)
            short = chord2(middle) < span * span
            return xp.where(short, middle, low), xp.where(short, high, middle)

        if not is_traced(span, bend):
            for k in range(60):
                low, high = halved(k, (low, high))
            return 0.5 * (low + high)
        found = lax.stop_gradient(sum(lax.fori_loop(0, 60, halved, (low, high)))) / 2
        # a step of Newton's method that moves nothing, for the derivatives
        slope = lax.stop_gradient(jax.grad(chord2)(found))
        return found - (chord2(found) - span * span) / slope

    def _axes(self, along: np.ndarray | Array, local: np.ndarray | Array) -> np.ndarray | Array:
        """Section axes at the start, from the direction of the chord and the same as the first
        section sees it."""
        xp = namespace(along, local)
        if self.up is None:
            upright = abs(along[2]) > _STEEP
            up = xp.where(upright, np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]))
        else:
            up = direction(self.owner, "up", self.up)
        normals = []
        for e, z in ((along, up), (local, np.array([0.0, 0.0, 1.0]))):
            z = z - e * (e @ z)
            size = xp.linalg.norm(z)
            if not is_traced(size) and size < _PARALLEL:
                raise ModelError(
                    f"{self.owner}: up={shown(self.up)} is along the beam. Give a direction across "
                    "it, toward which the section's z axis points."
                )
            normals.append(z / size)
        world, own = (
            xp.column_stack([e, z, xp.cross(e, z)])
            for e, z in zip((along, local), normals, strict=True)
        )
        return world @ own.T

    def _between(self, at: np.ndarray, values: list[np.ndarray | Array]) -> np.ndarray | Array:
        """Numbers of sections at material coordinates, (coordinates, numbers)."""
        if len(values) == 1:
            return namespace(*values).broadcast_to(values[0], (at.size, *values[0].shape))
        knots = np.array([x for _, x, _ in self._sections()])
        k = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
        share = ((at - knots[k]) / (knots[k + 1] - knots[k])).reshape(-1, *[1] * values[0].ndim)
        table = _numbers.stacked(values)
        return (1 - share) * table[k] + share * table[k + 1]

    def _stiffness(self, at: np.ndarray) -> np.ndarray | Array:
        found = [section.matrix() for _, _, section in self._sections()]
        if any(x.ndim == 2 for x in found):
            found = [x if x.ndim == 2 else namespace(x).diag(x) for x in found]
        return self._between(at, found)

    def _check_sections(self) -> None:
        for prefix, at, section in self._sections():
            fault = section.fault()
            if fault is not None:
                element = min(int(at * self.elements), self.elements - 1)
                where = f"element {element} ({prefix})" if prefix != "section" else "element 0"
                raise ModelError(f"{self.owner}, {where}: {fault}.")

    def nodes(self) -> list[Body]:
        """The nodes in the initial configuration, with the mass at them (Lobatto quadrature)."""
        place = self.place(0)
        self._check_sections()
        length, axes, bend = self._line()
        at = place.coordinates
        start = vector(self.owner, "from_", self.from_, 3)
        xp = namespace(length, axes, bend)
        if self.curvature is None:
            r = start + at[:, None] * length * axes[:, 0]
            A = xp.broadcast_to(axes, (at.size, 3, 3))
        else:
            d, turn = screw_motion(*_screw(at * length, bend))
            r = start + xp.stack(list(d), axis=-1) @ axes.T
            columns = [xp.stack(list(x), axis=-1) for x in (turn.x, turn.y, turn.z)]
            A = axes @ xp.stack(columns, axis=-1)
        inertias = self._between(at, [section.inertias() for _, _, section in self._sections()])
        inertias = inertias * (place.weights[:, None] * length)
        spin = vector(self.owner, "angular_velocity", self.angular_velocity, 3)
        v = vector(self.owner, "velocity", self.velocity, 3)
        return [
            beam_node(place.node_name(k), inertias[k], r[k], A[k], v, spin, start)
            for k in range(at.size)
        ]

    def attached(self) -> list[Attached]:
        """The elements between the nodes."""
        place = self.place(0)
        length, _, bend = self._line()
        size = length / place.elements
        turn = namespace(bend, size).linalg.norm(bend) * size
        if not is_traced(turn) and turn >= MOST_TURN:
            raise ModelError(
                f"{self.owner}, element 0: its curvature turns it by {float(turn):.3g} rad at "
                f"rest, and an element may turn by {MOST_TURN} rad at most. Give more elements."
            )
        rest = _screw(size, bend)
        damping = None
        if self.damping is not None:
            damping = number(self.owner, "damping", self.damping)
            if not is_traced(damping) and damping < 0:
                raise ModelError(
                    f"{self.owner}: damping={shown(self.damping)} is negative. Give a time in "
                    "seconds."
                )
        stiffness = self._stiffness(place.points)
        out, order = [], place.order
        for k in range(place.elements):
            C = [tuple(x) if x.ndim == 1 else x for x in stiffness[k * order : (k + 1) * order]]
            element = BeamElement(size, rest, tuple(C), damping, order=order)
            names = tuple(place.node_name(k * order + i) for i in range(order + 1))
            zero, axes = np.zeros(3), np.eye(3)
            out.append(
                Attached(
                    self,
                    names,
                    (element,),
                    zero,
                    zero,
                    axes,
                    axes,
                    Vec3.of(zero),
                    part=f"{self.name}, element {k}",
                )
            )
        return out


def _screw(length: float | np.ndarray | Array, bend: np.ndarray | Array) -> tuple[Vec3, Vec3]:
    """The screw of an unstrained piece of the axis."""
    zero = 0.0 * length
    return Vec3(length, zero, zero), Vec3(*(length * bend[k] for k in range(3)))


def beam_node(
    name: str,
    inertias: Any,
    r: np.ndarray,
    A: np.ndarray,
    v: np.ndarray,
    spin: np.ndarray,
    start: object,
) -> Body:
    """A node with mass and inertias (4,) at r, moving as if all were rigid about `start`."""
    xp = namespace(inertias, r, A, v, spin)
    q = xp.concatenate([r, quaternion_from_axes(A)])
    rate = xp.concatenate([v + xp.cross(spin, r - start), A.T @ spin])
    return Body(name, "spatial", inertias[0], inertias[1:], r, A, q, rate)


@record("line_load", "line load")
class LineLoad(Item):
    """A load along a beam, per length.

    **Arguments:**

    - `beam`: its name.
    - `force`: [N/m], a vector, a function of t, or of (t, frame) as for `force`, called for each
      node with its frame. Components may be expressions, as there.
    - `axes`: "world", or "body" for components along the sections' own axes, which follow them.
    """

    kinds: ClassVar[Any] = ("spatial",)
    words: ClassVar[tuple[str, ...]] = ("beam", "axes")
    functions: ClassVar[tuple[str, ...]] = ("force",)

    beam: str
    _: KW_ONLY
    force: Any
    axes: Any = "world"

    def attached(self, beam: BeamItem, nodes: list[Body]) -> list[Attached]:
        """The loads on the nodes (Lobatto quadrature)."""
        choice(self.owner, "axes", self.axes, ("world", "body"), error=ModelError)
        place = beam.place(0)
        length = beam.rest_length
        given = frame_function(self.owner, "force", self.force, "spatial", ("",), None)
        value, function, of_state = None, None, False
        if callable(given):
            function = given
            there = Attachment(self, "spatial", (nodes[0],), {})  # pyright: ignore
            of_state = argument_count(self.owner, "force", function) == 2
            check_value(there, "force", function, of_state, (3,), None)
        else:
            value = Vec3.of(vector(self.owner, "force", given, 3))
        out, zero, axes = [], np.zeros(3), np.eye(3)
        for node, weight in zip(nodes, place.weights * length, strict=True):
            element = NodeLoad(weight, value, function, of_state, self.axes)
            part = f"{self.name} on {node.name}"
            place = (zero, zero, axes, axes, Vec3.of(zero))
            out.append(Attached(self, (node.name,), (element,), *place, part=part))
        return out


class NodeLoad(Force):
    """A load per length on a node that stands for the length `weight`."""

    weight: Scalar
    value: Vec3 | None
    function: Any = eqx.field(static=True)
    of_state: bool = eqx.field(static=True)
    axes: str = eqx.field(static=True)

    def wrenches(self, a: Any, *, t: Any) -> list[tuple[Vec3, Vec3]]:
        if self.value is not None:
            force = self.value
        elif self.of_state:
            force = Vec3.of(jax.vmap(lambda frame: as_plain(self.function(t, frame)))(a))
        else:
            force = Vec3.of(as_plain(self.function(t)))
        force = force * self.weight
        return [a.load(a.A @ force if self.axes == "body" else force, a.r * 0.0)]
