"""Beams as they are drawn: tubes of the size of their section, coloured by how much they are bent.

A section is known by its stiffness, which says how large it is: an ellipse of half axes a along y
and b along z has EI_z / EA = a²/4 and EI_y / EA = b²/4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..result.along import BeamMotion, beam_motion
from ..system.beam import BeamElement
from ..system.mechanism import Mechanism

_SIDES = 8
_THIN = 0.004  # least radius, of the size of the mechanism: thinner ones would not be seen
BENT = "curvature [1/m]"


@dataclass(frozen=True)
class Tube:
    """A beam over time: its nodes (states, n, 3), the half axes of its section there (states, n,
    2, 3) as vectors, and how much it is `bent` [1/m] between them (states, n - 1)."""

    name: str
    points: np.ndarray
    across: np.ndarray
    bent: np.ndarray

    def rings(self, k: int) -> np.ndarray:
        """Points around the nodes (n, sides, 3) at the k-th state."""
        angle = 2 * np.pi * np.arange(_SIDES) / _SIDES
        around = np.stack([np.cos(angle), np.sin(angle)])
        return self.points[k][:, None] + np.einsum("nij,is->nsj", self.across[k], around)

    def faces(self, k: int) -> np.ndarray:
        """The sides of its parts (parts, sides, 4, 3) at the k-th state."""
        rings = self.rings(k)
        turned = np.roll(rings, -1, axis=1)
        return np.stack([rings[:-1], turned[:-1], turned[1:], rings[1:]], axis=2)

    def at(self, index: np.ndarray) -> Tube:
        """The same at some of the states."""
        return Tube(self.name, self.points[index], self.across[index], self.bent[index])


def curvature(motion: BeamMotion) -> np.ndarray:
    """How much a beam is bent (..., points) [1/m], about both axes of its section together."""
    return np.linalg.norm(motion.strain[..., 4:], axis=-1)


def half_axes(element: Any, size: float) -> np.ndarray:
    """Those of the section along y and z (points, 2) [m], so that one can be seen in a picture of
    this size."""
    least = _THIN * size
    if not isinstance(element, BeamElement):  # a cable, which nothing bends
        return np.full((1, 2), least)
    parts = []
    for C in element.stiffness:
        if isinstance(C, tuple):
            EA, _, _, _, *EI = (np.atleast_1d(np.asarray(x)) for x in C)
        else:
            EA, *EI = (np.atleast_1d(np.asarray(C)[..., i, i]) for i in (0, 4, 5))
        parts.append(np.stack(np.broadcast_arrays(*(2 * np.sqrt(x / EA) for x in EI[::-1])), -1))
    found = np.stack(parts, axis=1).reshape(-1, 2)
    return found * np.maximum(1.0, least / found.max(axis=1, keepdims=True))


def tubes(system: Mechanism, q: np.ndarray, v: np.ndarray, size: float) -> list[Tube]:
    """The beams of a mechanism of this size [m] at some states."""
    out = []
    for beam in system.beams:
        motion = beam_motion(system, beam.name, q, v)
        half = half_axes(motion.element, size)
        half = np.broadcast_to(half, (beam.nodes - 1, 2))
        ends = np.concatenate([half[:1], (half[:-1] + half[1:]) / 2, half[-1:]])
        axes = np.moveaxis(motion.rotation[..., 1:], -1, -2)  # those of the section, as rows
        out.append(Tube(beam.name, motion.position, ends[:, :, None] * axes, curvature(motion)))
    return out
