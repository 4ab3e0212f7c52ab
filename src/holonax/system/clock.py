"""How a run counts time: from an origin where its start is far from zero, in pieces between breaks.

At 1.7e9 s (the present, in Unix time) neighbouring numbers are 2.4e-7 s apart, and steps of a
microsecond would be wrong by a quarter. A run that starts so late counts ticks, the seconds from
its start, and only the functions of time that it calls are given origin + ticks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

# A start is late if its time is this many steps, or runs where steps are chosen, away from zero.
_MANY_STEPS, _MANY_RUNS = 1e7, 1e3


@dataclass(frozen=True, eq=False)
class Clock:
    """Where ticks are counted from [s], and the breaks within the run, sorted [s]."""

    origin: float = 0.0
    breaks: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @staticmethod
    def of(t0: float, t_end: float, step: float | None, breaks: np.ndarray) -> Clock:
        """For a run with equal steps, or (None) with steps chosen by their error."""
        long = _MANY_RUNS * (t_end - t0) if step is None else _MANY_STEPS * step
        inside = breaks[(breaks >= t0) & (breaks <= t_end)]
        return Clock(t0 if abs(t0) > long else 0.0, inside)

    def ticks(self, t):
        """What the run counts at the time t."""
        return t - self.origin

    def time(self, ticks):
        """The time [s] at which the run counts so many ticks."""
        return self.origin + ticks

    def next_break(self, ticks: float) -> float:
        """The ticks at the first break after some; infinity if there is none."""
        later = self.ticks(self.breaks)
        later = later[later > ticks]
        return float(later[0]) if later.size else float("inf")

    def at_break(self, ticks: float) -> bool:
        """Whether there is a break right here."""
        return bool(np.any(self.ticks(self.breaks) == ticks))

    def window(self, ticks: float) -> np.ndarray | None:
        """(origin, first, last time) of the smooth piece that begins at, or contains, some ticks;
        None where ticks are the time and there are no breaks."""
        if not self.breaks.size and self.origin == 0.0:
            return None
        at = self.ticks(self.breaks)
        before, after = self.breaks[at <= ticks], self.breaks[at > ticks]
        first = np.nextafter(before[-1], np.inf) if before.size else -np.inf
        last = np.nextafter(after[0], -np.inf) if after.size else np.inf
        return np.array([self.origin, first, last])

    def times_in_piece(self, begin: float, ticks: np.ndarray) -> np.ndarray:
        """The times that functions are given at `ticks` of the smooth piece that `begin` is in."""
        times, window = self.time(ticks), self.window(begin)
        return times if window is None else np.clip(times, window[1], window[2])

    def times_of_states(self, ticks: np.ndarray) -> np.ndarray:
        """The times that functions are given at saved states: just before a break for a state that
        a step has ended with there, just after it for one that a step begins with."""
        times = self.time(ticks)
        if not (self.breaks.size and ticks.size):
            return times
        here = np.isin(ticks, self.ticks(self.breaks))
        same = np.diff(ticks) == 0
        left = np.concatenate([same, [False]]) | (np.arange(ticks.size) > 0)
        left &= ~(np.concatenate([[False], same]) & ~np.concatenate([same, [False]]))
        beside = np.where(left, np.nextafter(times, -np.inf), np.nextafter(times, np.inf))
        return np.where(here, beside, times)


PLAIN = Clock()  # ticks are the time, and there are no breaks
