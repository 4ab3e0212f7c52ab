"""What a mechanism consists of, for those who draw it: its bodies' shapes, joints and forces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Connection:
    """A joint or force in place: what kind it is, between which bodies, and where.

    `point_a` and `axes` are in the first body, `point` and `axes_b` in the second, each in the
    body's own coordinates. `said` is the record of what was described.
    """

    name: str
    type: str
    is_joint: bool
    bodies: tuple[str, ...]
    point_a: np.ndarray
    point: np.ndarray
    axes: np.ndarray
    axes_b: np.ndarray
    said: Any


@dataclass(frozen=True)
class Inventory:
    """All parts of a mechanism by name, and the shapes of its bodies."""

    shapes: Mapping[str, tuple[Any, ...]]
    connections: tuple[Connection, ...]
