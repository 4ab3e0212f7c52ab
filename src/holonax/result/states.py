"""The states a run has saved, what they were computed with, and what happened on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from ..problem import FullState
from ..system.base import System


@dataclass(frozen=True, eq=False)
class Leg:
    """What a part of a run was computed with; `dt` is the step for equal ones [s]."""

    system: System
    formulation: Any
    integrator: Any
    dt: float


@dataclass(eq=False)
class States:
    """The states a run has saved, and the leg each belongs to."""

    legs: list[Leg] = field(default_factory=list)
    parts: list[tuple[int, np.ndarray, Any]] = field(default_factory=list)
    latest: float = -np.inf  # the time of the latest saved state
    jump: bool = False  # whether the state has changed since
    pending: Any = ()  # steps that dense output has not done with
    _leg: int = 0  # the present one

    def leg(self, leg: Leg) -> int:
        """The number of a leg, a new one unless it goes on with what was used before."""
        for k, old in enumerate(self.legs):
            same = old.system is leg.system and old.formulation is leg.formulation
            if same and old.integrator is leg.integrator and old.dt == leg.dt:
                self._leg = k
                return k
        self.legs.append(leg)
        self._leg = len(self.legs) - 1
        return self._leg

    def start(
        self, leg: Leg, t: float, y: tuple[np.ndarray, np.ndarray], *, wanted: bool = True
    ) -> None:
        """Begin a stretch of the motion, with its first state if that is wanted."""
        self.leg(leg)
        if wanted and (t > self.latest or self.jump):
            self._keep(np.array([t]), jax.tree.map(lambda x: np.asarray(x)[None], y))
        self.jump = False

    def add(self, ts: np.ndarray, ys: tuple[np.ndarray, np.ndarray]) -> None:
        """More states of the present leg."""
        if ts.size:
            self._keep(ts, jax.tree.map(np.asarray, ys))

    def last(self, t: float, y: tuple[np.ndarray, np.ndarray], *, changed: bool = False) -> None:
        """The state a run ends with, unless it is there; also if it has `changed` since."""
        if t > self.latest or (changed and self.jump):
            self._keep(np.array([t]), jax.tree.map(lambda x: np.asarray(x)[None], y))

    def _keep(self, ts: np.ndarray, ys: tuple[np.ndarray, np.ndarray]) -> None:
        self.parts.append((self._leg, ts, ys))
        self.latest = float(ts[-1])

    def arrays(self) -> dict[str, Any]:
        """t, q, v, the leg of each state, and what each leg has solved for beside (q, v)."""
        solved = []
        for k in range(len(self.legs)):
            own = [ys for leg, _, ys in self.parts if leg == k]
            full = bool(own) and all(isinstance(ys, FullState) for ys in own)
            solved.append(jax.tree.map(lambda *x: np.concatenate(x), *own) if full else None)
        return {
            "t": np.concatenate([ts for _, ts, _ in self.parts]),
            "q": np.concatenate([ys[0] for _, _, ys in self.parts]),
            "v": np.concatenate([ys[1] for _, _, ys in self.parts]),
            "leg": np.concatenate([np.full(ts.size, leg) for leg, ts, _ in self.parts]),
            "solved": tuple(solved),
            "legs": tuple(self.legs),
        }


@dataclass(frozen=True)
class Occurrence:
    """An event that happened: its name, when, and the state before and after it.

    `what` is ``"event"``, and for contacts ``"impact"``, ``"rest"`` (closed from then on) or
    ``"release"`` (open again).
    """

    name: str
    t: float
    q_before: np.ndarray
    v_before: np.ndarray
    q: np.ndarray
    v: np.ndarray
    what: str = "event"
