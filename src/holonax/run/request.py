"""What was asked of a run, checked, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..system.clock import Clock
from .control import ANYWHERE, StepControl, Tolerance
from .events import Event


@dataclass(frozen=True)
class Request:
    """What was asked of a run, checked.

    `times` are those to save at, None for `every`-th steps (0: the end only). `clock` says how the
    run counts time.
    """

    t_end: float
    dt: float
    tolerance: Tolerance | None
    control: StepControl
    first: float
    every: int
    times: np.ndarray | None
    events: tuple[Event, ...]
    clock: Clock
    progress: Callable[[Progress], None] | None = None

    @property
    def allowed(self) -> float:
        """The largest absolute tolerance of a position that means something."""
        assert self.tolerance is not None
        found = np.ravel(self.tolerance.absolute.position)
        return float(np.max(found[found < ANYWHERE]))

    @property
    def slack(self) -> float:
        """How far a gap of a contact may be from zero that is closed, for a gradient of one: the
        absolute tolerance of steps, or where these are equal a number far below their error."""
        return 1e-10 if self.tolerance is None else self.allowed


@dataclass(frozen=True)
class Progress:
    """How far a run has come: `t` of `t_end` [s], steps taken, and seconds spent and to come."""

    t: float
    t_end: float
    steps: int
    elapsed: float
    remaining: float

    def __str__(self) -> str:
        share = f"t = {self.t:.6g} of {self.t_end:g} s, {self.steps} steps"
        return f"{share}, {self.elapsed:.0f} s elapsed, about {self.remaining:.0f} s to go"
