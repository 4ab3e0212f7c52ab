"""Planar joints: each is its fields and one residual of the frames it connects.

`p`, `q` are the joint's point in its first and second body, `u` its direction in the first body.
"""

from __future__ import annotations

from typing import Any

from ..rotation import Vec2
from ..system.elements import Constraint
from ..system.frames import PlanarFrame


class PlanarRevolute(Constraint):
    """Pin: the two points coincide (2 rows)."""

    p: Vec2
    q: Vec2

    def residual(self, a: PlanarFrame, b: PlanarFrame, *, t: Any) -> Any:
        return b.point(self.q) - a.point(self.p)
