"""Where the vectors and rotations of bodies are among the coordinates, and what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import System
from .frames import PlanarFrame
from .mechanism import Mechanism


def _each(system: System, components: Any, of_q: bool) -> list[np.ndarray]:
    out, offset = [], 0
    for s in system.sets if isinstance(system, Mechanism) else ():
        rows = np.array(components(s), int)
        out += [offset + s.n * rows + i for i in range(s.n) if rows.size]
        offset += s.n * (s.frame.nq if of_q else s.dof)
    return out


def translations(system: System) -> list[np.ndarray]:
    """For each body the positions in v of its translations."""
    return _each(system, lambda s: range(s.translations), of_q=False)


def rotations(system: System) -> list[np.ndarray]:
    """For each spatial body the positions in v of its three rotations."""
    return _each(system, lambda s: () if s.frame is PlanarFrame else range(3, 6), of_q=False)


def quaternions(system: System) -> list[np.ndarray]:
    """For each spatial body the positions in q of its quaternion."""
    return _each(system, lambda s: () if s.frame is PlanarFrame else range(3, 7), of_q=True)


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
