"""Where the nodes of beams are among the bodies, and what names mean them.

The nodes of a beam are bodies ``"beam[0]"`` ... ``"beam[n]"``; ``"beam.start"``, ``"beam.end"`` and
``"beam(0.4)"``, by the material coordinate from 0 to 1, are other names of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# Gauss-Lobatto points of an element from 0 to 1, and their weights, by the order of the element.
_INNER = (1 - 1 / math.sqrt(5)) / 2
LOBATTO = {
    1: ((0.0, 1.0), (1 / 2, 1 / 2)),
    2: ((0.0, 0.5, 1.0), (1 / 6, 2 / 3, 1 / 6)),
    3: ((0.0, _INNER, 1 - _INNER, 1.0), (1 / 12, 5 / 12, 5 / 12, 1 / 12)),
}


class BeamPlace(NamedTuple):
    """A beam's nodes: bodies `first` and following, `order` of them to an element and one more."""

    name: str
    first: int
    elements: int
    order: int

    @property
    def nodes(self) -> int:
        """How many there are."""
        return self.elements * self.order + 1

    @property
    def coordinates(self) -> np.ndarray:
        """The material coordinates of the nodes, 0 to 1."""
        points = np.array(LOBATTO[self.order][0][:-1])
        inner = (np.arange(self.elements)[:, None] + points).ravel() / self.elements
        return np.append(inner, 1.0)

    @property
    def weights(self) -> np.ndarray:
        """The part of the beam's length that each node stands for (Lobatto quadrature)."""
        out = np.zeros(self.nodes)
        for k in range(self.elements):
            first = k * self.order
            out[first : first + self.order + 1] += LOBATTO[self.order][1]
        return out / self.elements

    @property
    def points(self) -> np.ndarray:
        """The material coordinates of the Gauss points, `order` in each element, where strains
        and section forces are known."""
        x = (1 + np.polynomial.legendre.leggauss(self.order)[0]) / 2
        return ((np.arange(self.elements)[:, None] + x) / self.elements).ravel()

    def node_name(self, k: int) -> str:
        """The name of node `k` as a body."""
        return f"{self.name}[{k}]"


class NodeNamed(NamedTuple):
    """What a name means: the beam, the node, and how far (0 to 1) that is from what was said."""

    beam: BeamPlace
    node: int
    off: float

    @property
    def body(self) -> str:
        """The node's own name."""
        return self.beam.node_name(self.node)

    @property
    def is_between(self) -> bool:
        """Whether the place is between two nodes."""
        return self.off > 1e-9

    def checked(self, name: str) -> NodeNamed:
        """Itself; a `name` that means no node of a computed motion is refused."""
        if self.is_between:
            at = self.beam.coordinates[self.node]
            raise KeyError(
                f"{name!r} is between two nodes; {self.body!r}, at {at:.6g}, is the nearest. "
                f"result.beam({self.beam.name!r}).at(...) gives the axis between them."
            )
        return self


_COORDINATE = re.compile(r"(?P<beam>.+)\((?P<at>[^()]+)\)")


def node_named(name: str, beams: Iterable[BeamPlace]) -> NodeNamed | None:
    """The node that `name` is another name of; None if it is none."""
    for beam in beams:
        if not name.startswith(beam.name):
            continue
        if name == f"{beam.name}.start":
            return NodeNamed(beam, 0, 0.0)
        if name == f"{beam.name}.end":
            return NodeNamed(beam, beam.nodes - 1, 0.0)
        found = _COORDINATE.fullmatch(name)
        at = _number(found["at"]) if found and found["beam"] == beam.name else None
        if at is not None and 0 <= at <= 1:
            distance = np.abs(beam.coordinates - at)
            node = int(np.argmin(distance))
            return NodeNamed(beam, node, float(distance[node]))
    return None


def own_name(name: str, beams: Iterable[BeamPlace]) -> str:
    """The name of a node, of a coordinate or a quantity of it, where the node is said by a place on
    its beam: ``"beam[8].z"`` for ``"beam.end.z"``."""
    beams = tuple(beams)
    for end in (*(k for k, letter in enumerate(name) if letter == "."), len(name)):
        node = node_named(name[:end], beams)
        if node is not None:
            return node.checked(name[:end]).body + name[end:]
    return name


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
