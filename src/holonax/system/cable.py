"""Cables: elements that pull along the line between two nodes, and neither bend nor push.

    N = max(0, EA (d / l - 1) + EA damping d' / l),   d the distance of the nodes, l that at rest

The nodes are frames like those of beams; nothing turns them, unless a joint does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax

from .._numbers import namespace
from ..rotation import Vec3
from ..rotation.vectors import Scalar
from .beam import Components
from .elements import Force

if TYPE_CHECKING:
    from jax import Array

    from .frames import Frame, PlanarFrame


class CableElement(Force):
    """A piece of a cable between two nodes, of length `length` and stiffness `EA` [N]; `damping`
    [s] adds EA damping (strain)' to the tension of what is taut."""

    length: Scalar
    EA: Scalar
    damping: Scalar | None
    preload: Scalar | None = None  # added to the tension of what is taut
    order: ClassVar[int] = 1

    def _stretched(self, a: Frame | PlanarFrame, b: Frame | PlanarFrame) -> tuple[Array, Vec3]:
        """(strain, direction from a to b)."""
        d = b.r - a.r
        xp = namespace(d.x)
        square = d.dot(d)
        # nodes that coincide have no direction, and no tension either
        apart = square > (1e-9 * self.length) ** 2
        size = xp.sqrt(xp.where(apart, square, 1.0))
        strain = xp.where(apart, size / self.length - 1, -1.0)
        return strain, d * xp.where(apart, 1 / size, 0.0)

    def tension(self, a: Frame | PlanarFrame, b: Frame | PlanarFrame) -> tuple[Array, Vec3]:
        """(N, direction from a to b); zero where it is slack."""
        strain, along = self._stretched(a, b)
        load = self.EA * strain
        if self.preload is not None:
            load = load + self.preload
        if self.damping is not None:
            load = load + self.EA * self.damping * (b.v - a.v).dot(along) / self.length
        taut = strain > 0
        if self.preload is None:
            taut = taut & (load > 0)
        return namespace(load).where(taut, load, 0.0), along

    def inner_loads(self, a: Any, b: Any, **_: Any) -> list[Any]:
        return [self.tension(a, b)[0]]

    def preloaded(self, loads: list[Scalar]) -> CableElement:
        return replace(self, preload=loads[0])

    def wrenches(
        self, a: Frame | PlanarFrame, b: Frame | PlanarFrame, *, t: Array
    ) -> list[tuple[Vec3, Vec3]]:
        load, along = self.tension(a, b)
        force, nothing = along * load, along * 0.0
        return [(force, nothing), (-force, nothing)]

    def potential(self, a: Any, b: Any) -> Any:
        strain, _ = self._stretched(a, b)
        taut = namespace(strain).where(strain > 0, strain, 0.0)
        return 0.5 * self.EA * self.length * taut * taut

    # -- as results know beams -----------------------------------------------------------------

    def reference(self, nodes: Any) -> tuple[Any, Any]:
        """(the first node, the second one: components of shape (1, ...))."""
        return nodes[0], jax.tree.map(lambda x: namespace(x).stack([x]), nodes[1])

    def strain(self, a: Frame, b: Frame) -> Components:
        """The extension, and zeros."""
        strain, _ = self._stretched(a, b)
        return [strain, *[0.0 * strain] * 5]

    def section_force(self, a: Frame, b: Frame) -> Components:
        """The tension, and zeros."""
        load, _ = self.tension(a, b)
        return [load, *[0.0 * load] * 5]
