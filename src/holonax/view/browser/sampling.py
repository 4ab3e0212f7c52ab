"""The motion at the frames of a page: equal times of the dense output, or the saved states."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...result.motion import BodyMotion, body_motion
from ...result.result import Result
from ...system.mechanism import Mechanism

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MOST = 600  # frames of a page


@dataclass(frozen=True)
class Frames:
    """Times and configurations of the frames, and the motion they belong to."""

    result: Result
    system: Mechanism
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray

    @staticmethod
    def of(result: Result, system: Mechanism) -> Frames:
        if result.stats["saved"] == "steps" and result.t.size > 1 and result.t[-1] > result.t[0]:
            n = int(np.clip(2 * result.t.size, 240, MOST))
            t = np.linspace(result.t[0], result.t[-1], n)
            return Frames(result, system, t, *result.at(t))
        at = np.unique(np.linspace(0, result.t.size - 1, MOST).round().astype(int))
        return Frames(result, system, result.t[at], result.q[at], result.v[at])

    def body(self, name: str) -> BodyMotion:
        return body_motion(self.system, name, self.q, self.v, np.zeros_like(self.v))

    def poses(self, name: str, height: float) -> np.ndarray:
        """Position and quaternion (frames, 7) of a body; planar ones at a `height` [m]."""
        motion = self.body(name)
        if motion.angle is None:
            return np.concatenate([motion.position, np.asarray(motion.quaternion)], axis=1)
        half, zero = 0.5 * motion.angle, np.zeros_like(motion.angle)
        turn = np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1)
        return np.concatenate([motion.position, (zero + height)[:, None], turn], axis=1)

    def at_frames(self, values: ArrayLike) -> np.ndarray:
        """What is known at the saved states, between which it is taken as straight."""
        values = np.asarray(values, dtype=float)
        flat = values.reshape(values.shape[0], -1)
        columns = [np.interp(self.t, self.result.t, x) for x in flat.T]
        return np.stack(columns, axis=1).reshape(self.t.size, *values.shape[1:])


def encoded(values: ArrayLike, kind: str = "<f4") -> str:
    """Numbers as text: little-endian, in base 64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")
