"""States at the times that were asked for, from the steps of a run as they come."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..result.interpolation import interpolate
from ..system.clock import PLAIN, Clock


class DenseOutput:
    """Collects the steps of one smooth stretch and hands on the states at the wanted times.

    Only the steps that are still needed are kept, and the result does not depend on how many
    arrive at once.
    """

    def __init__(self, leg: Any, times: np.ndarray, states: Any, clock: Clock = PLAIN):
        self._leg, self._times, self._states, self._clock = leg, times, states, clock
        self._t, self._q, self._v = np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))

    @property
    def latest(self) -> float:
        """The time of the latest step."""
        return float(self._t[-1])

    def begin(self, t: float, y: tuple[np.ndarray, np.ndarray]) -> None:
        """The state that the stretch begins with."""
        self._t, self._q, self._v = np.array([t]), np.asarray(y[0])[None], np.asarray(y[1])[None]

    def add(self, ts: np.ndarray, ys: Any) -> None:
        """Steps that follow."""
        self._t = np.concatenate([self._t, ts])
        self._q, self._v = np.concatenate([self._q, ys[0]]), np.concatenate([self._v, ys[1]])
        self._emit(self._t.size - 4)

    def finish(self) -> None:
        """No more steps of this stretch will come."""
        self._emit(self._t.size - 2)

    def _emit(self, last: int) -> None:
        """States up to the end of step `last`, and forget what is no longer needed."""
        if last < 0:
            return
        after = max(self._states.latest, self._t[0])
        wanted = self._times[(self._times > after) & (self._times <= self._t[last + 1])]
        if wanted.size:
            step = np.clip(np.searchsorted(self._t, wanted, side="left") - 1, 0, last)
            steps = self._t, self._q, self._v
            q, v = interpolate(self._leg, *steps, wanted, step, self._clock)
            self._states.add(wanted, (q, v))
        keep = max(last - 3, 0)
        self._t, self._q, self._v = self._t[keep:], self._q[keep:], self._v[keep:]

    def pending(self) -> tuple[np.ndarray, ...]:
        """Steps not yet done with."""
        return self._t, self._q, self._v

    def load(self, pending: tuple[np.ndarray, ...]) -> None:
        """Go on from `pending`."""
        self._t, self._q, self._v = pending
