"""Where the vectors and rotations of bodies are among the coordinates, and what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import System
from .mechanism import Mechanism


def _each(system: System, components: Any) -> list[np.ndarray]:
    """For each body of a mechanism the positions of these of its components."""
    if not isinstance(system, Mechanism):
        return []
    rows = np.array(components, int)
    n = system.bodies.count
    return [n * rows + i for i in range(len(system.bodies.moving)) if rows.size]


def translations(system: System) -> list[np.ndarray]:
    """For each body the positions in v of its translations."""
    return _each(system, range(2 if _is_planar(system) else 3))


def rotations(system: System) -> list[np.ndarray]:
    """For each spatial body the positions in v of its three rotations."""
    return _each(system, () if _is_planar(system) else range(3, 6))


def quaternions(system: System) -> list[np.ndarray]:
    """For each spatial body the positions in q of its quaternion."""
    return _each(system, () if _is_planar(system) else range(3, 7))


def _is_planar(system: System) -> bool:
    return isinstance(system, Mechanism) and system.is_planar


def others(places: list[np.ndarray], size: int) -> np.ndarray:
    """The positions that are in none of the places."""
    taken = np.concatenate([np.zeros(0, int), *places])
    return np.delete(np.arange(size), taken)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of quaternions (..., 4), scalar first."""
    s, u, r, w = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    scalar = s * r - np.sum(u * w, axis=-1, keepdims=True)
    return np.concatenate([scalar, s * w + r * u + np.cross(u, w)], axis=-1)


def pure(w: np.ndarray) -> np.ndarray:
    """Vectors (..., 3) as quaternions."""
    return np.concatenate([np.zeros((*w.shape[:-1], 1)), w], axis=-1)


def conjugate(e: np.ndarray) -> np.ndarray:
    """The inverse of unit quaternions (..., 4)."""
    return e * np.array([1.0, -1.0, -1.0, -1.0])
