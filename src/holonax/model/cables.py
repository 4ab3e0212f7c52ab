"""Cables: what the user said of one, the nodes it becomes, and the pieces between them."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import _numbers
from .._messages import shown
from .._numbers import is_traced, namespace
from ..rotation import Vec3
from ..system.beam_places import BeamPlace
from ..system.cable import CableElement
from .attachment import Attached
from .beams import beam_node
from .bodies import Body, number, vector
from .items import Item, ModelError, record

if TYPE_CHECKING:
    from jax import Array


@record("cable", "cable")
class CableItem(Item):
    """Add a cable: a row of nodes with elements between them that pull, and neither bend nor push.

    **Arguments:**

    - `from_`, `to`: its ends in the initial configuration [m, world].
    - `EA`: extensional stiffness [N].
    - `mass`: per length [kg/m].
    - `length`: at rest [m]; by default the distance of its ends. A longer cable is laid out
      straight and slack.
    - `elements`: how many there are, of equal length.
    - `damping`: [s], the tension is EA (strain + damping strain') while the element is taut.
    - `velocity`: of all nodes [m/s, world].

    Nodes have the names of a beam's: ``"name[0]"``, ``"name.end"``, ``"name(0.4)"``; what happens
    along it is `result.beam("name")`. Nothing turns its nodes: join them with `spherical` joints.
    """

    kinds: ClassVar[Any] = ("spatial",)
    discrete: ClassVar[tuple[str, ...]] = ("elements",)

    from_: Any
    to: Any
    _: KW_ONLY
    EA: float
    mass: float
    length: float | None = None
    elements: int = 16
    damping: float | None = None
    velocity: Any = (0.0, 0.0, 0.0)

    def place(self, first: int) -> BeamPlace:
        """Its nodes, if the first one is body `first`."""
        elements = _numbers.count(self.owner, "elements", self.elements, error=ModelError)
        return BeamPlace(self.name, first, elements, 1)

    def _positive(self, name: str) -> Any:
        value = number(self.owner, name, getattr(self, name))
        if not is_traced(value) and not value > 0:
            raise ModelError(
                f"{self.owner}, element 0: {name}={shown(getattr(self, name))} is not positive. "
                "Give a positive number."
            )
        return value

    def line(self) -> tuple[np.ndarray | Array, np.ndarray | Array, float | Array]:
        """(its start, the way to its end, its length at rest)."""
        start, end = (vector(self.owner, x, getattr(self, x), 3) for x in ("from_", "to"))
        way = end - start
        span = namespace(way).linalg.norm(way)
        if not is_traced(span) and span <= 1e-12 * (1 + np.max(np.abs(start))):
            raise ModelError(
                f"{self.owner}: from_ and to are the same point, so the nodes of element 0 "
                "coincide. Give two ends."
            )
        return start, way, span if self.length is None else self._positive("length")

    @property
    def rest_length(self) -> Any:
        """The length at rest."""
        return self.line()[-1]

    def nodes(self) -> list[Body]:
        """The nodes in the initial configuration, with the mass at them."""
        place = self.place(0)
        start, way, length = self.line()
        masses = self._positive("mass") * length * place.weights
        v = vector(self.owner, "velocity", self.velocity, 3)
        # any inertia will do, since nothing turns a node by itself: that of a ball of its size
        size = length / place.elements / 4
        return [
            beam_node(
                place.node_name(k),
                masses[k] * namespace(length).stack([size**0, size**2, size**2, size**2]),
                start + s * way,
                np.eye(3),
                v,
                np.zeros(3),
                start,
            )
            for k, s in enumerate(place.coordinates)
        ]

    def attached(self) -> list[Attached]:
        """The elements between the nodes."""
        place = self.place(0)
        _, _, length = self.line()
        damping = None if self.damping is None else number(self.owner, "damping", self.damping)
        if damping is not None and not is_traced(damping) and damping < 0:
            raise ModelError(
                f"{self.owner}: damping={shown(self.damping)} is negative. Give a time in seconds."
            )
        element = CableElement(length / place.elements, self._positive("EA"), damping)
        zero, axes = np.zeros(3), np.eye(3)
        return [
            Attached(
                self,
                (place.node_name(k), place.node_name(k + 1)),
                (element,),
                zero,
                zero,
                axes,
                axes,
                Vec3.of(zero),
                part=f"{self.name}, element {k}",
            )
            for k in range(place.elements)
        ]
