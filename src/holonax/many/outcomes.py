"""What an ensemble returns: states with an axis for the runs, how each ended, what was observed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._arguments import checked_class
from .._messages import listed, shown
from .._numbers import count
from ..run.status import Failure
from .one_run import Ended

_FEW = 6  # runs that are named where a kind of failure is


@dataclass
class Band:
    """What a value was over all runs, at each of the times: `mean`, `std`, `smallest`, `largest`
    and the number of runs that had come so far, `count`."""

    mean: Any = None
    spread: Any = None
    smallest: Any = None
    largest: Any = None
    count: Any = None

    @property
    def std(self) -> np.ndarray:
        """The standard deviation over the runs, of the sample."""
        counted = self.count.reshape(-1, *[1] * (self.mean.ndim - 1))
        return np.sqrt(self.spread / np.maximum(counted - 1, 1))

    def add(self, x: np.ndarray) -> None:
        """Some more runs (run, time, ...); those that had failed by then are not numbers.

        Means are joined after Chan, Golub and LeVeque (1983), so that rounding does not build up.
        """
        good = ~np.isnan(x)
        n = np.count_nonzero(good.reshape(*x.shape[:2], -1).all(axis=2), axis=0)
        wide = n.reshape(-1, *[1] * (x.ndim - 2))
        mean = np.where(good, x, 0).sum(axis=0) / np.maximum(wide, 1)
        spread = (np.where(good, x - mean, 0) ** 2).sum(axis=0)
        smallest = np.where(good, x, np.inf).min(axis=0)
        largest = np.where(good, x, -np.inf).max(axis=0)
        if self.mean is None:
            self.mean, self.spread, self.count = mean, spread, n
            self.smallest, self.largest = smallest, largest
            return
        before = self.count.reshape(wide.shape)
        total = np.maximum(before + wide, 1)
        off = mean - self.mean
        self.spread = self.spread + spread + off**2 * before * wide / total
        self.mean = self.mean + off * wide / total
        self.smallest = np.minimum(self.smallest, smallest)
        self.largest = np.maximum(self.largest, largest)
        self.count = self.count + n

    def finish(self) -> Band:
        """Not a number where no run had come."""
        for name in ("mean", "smallest", "largest"):
            x = getattr(self, name)
            empty = self.count.reshape(-1, *[1] * (x.ndim - 1)) == 0
            setattr(self, name, np.where(empty, np.nan, x))
        return self


@checked_class
@dataclass(repr=False)
class Ensemble:
    """The runs of an ensemble, with a first axis for these.

    - `t`: the times (n,) that were asked for; without such, when each run ended (runs,).
    - `q`, `v`: states (runs, n, ...) at these, NaN after a failure or an event; or at the end of
      each run (runs, ...), the last good state of one that failed. None with ``save="none"``.
    - `success` (runs,); `reason` (runs,), a sentence for each, empty for a success.
    - `event` (runs,): the name of the event that ended each; empty where none did.
    - `ended` (runs,): the time that each has come to; `steps` and `rejected` (runs,) its steps.
    - `drift` (runs, 2): the largest residuals of position and velocity constraints at its end.
    - `reduced`: by the names given as `reduce`, an array (runs, ...) or a `Band` over the runs.
    - `names`: of the coordinates; `grid`: the times that were asked for.
    - `road`: how they were computed; `stats`: steps, seconds and the like.
    """

    t: np.ndarray
    q: Any
    v: Any
    code: np.ndarray
    ended: np.ndarray
    steps: np.ndarray
    rejected: np.ndarray
    drift: np.ndarray
    reduced: dict[str, Any]
    road: str
    stats: dict[str, Any]
    t_end: float
    rows: tuple[str, ...] = ()
    misfit: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    again: Any = None
    events: tuple[str, ...] = ()
    stopped: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    names: tuple[str, ...] = ()
    grid: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.code)

    @property
    def success(self) -> np.ndarray:
        """Whether each run has come to its end."""
        return self.code == 0

    @property
    def event(self) -> np.ndarray:
        """The name of the event that ended each run; empty for one that went to its end."""
        return np.asarray(("", *self.events), dtype=object)[self.stopped]

    @property
    def failed(self) -> np.ndarray:
        """The numbers of the runs that have not."""
        return np.flatnonzero(self.code)

    @property
    def reason(self) -> np.ndarray:
        """Why each run ended early, in a sentence; empty for one that did not."""
        out = np.full(len(self), "", dtype=object)
        for k in self.failed:
            out[k] = self._sentence(int(k))
        return out

    def _sentence(self, k: int) -> str:
        failure = Failure(int(self.code[k]))
        if failure is Failure.NOT_ASSEMBLED and len(self.misfit):
            size, row = self.misfit[k]
            name = self.rows[int(row)] if int(row) < len(self.rows) else f"row {int(row)}"
            return f"{failure.sentence}: {size:.3g} remains in the constraint of {name}"
        if failure in (Failure.INTERRUPTED, Failure.NOT_GIVEN):
            return failure.sentence
        return f"{failure.sentence}, after t = {self.ended[k]:.6g} s"

    def rerun(self, number: int, **options: Any) -> Any:
        """One of the runs once more, as a `Result` of `hx.simulate` with all that it can tell.

        `options` are those of `simulate`, such as ``save="steps"``; equal ones are kept.
        """
        number = count("rerun", "number", number, least=0)
        if number >= len(self):
            raise ValueError(f"rerun: there is no run {number}; they are 0 to {len(self) - 1}.")
        return self.again(number, options)

    def __repr__(self) -> str:
        good, n = int(np.count_nonzero(self.success)), len(self)
        runs = "1 run" if n == 1 else f"{n} runs"
        lines = [f"Ensemble of {runs} to t = {self.t_end:g} s: {good} successful, {n - good} not"]
        for code in np.unique(self.code[self.code > 0]):
            these = np.flatnonzero(self.code == code)
            names = ", ".join(map(str, these[:_FEW])) + (", ..." if len(these) > _FEW else "")
            lines.append(f"  {len(these)} (run {names}): {Failure(int(code)).sentence}")
        for k, name in enumerate(self.events, start=1):
            lines.append(f"  {np.count_nonzero(self.stopped == k)} ended by the event {name}")
        stats = self.stats
        lines.append(
            f"  {stats['steps']:.3g} steps in {stats['run_time']:.3g} s, "
            f"{stats['steps'] / max(stats['run_time'], 1e-9):.2g} a second; compiled in "
            f"{stats['compile_time']:.2g} s"
        )
        lines.append(f"  {stats['method']}; {self.road}")
        if self.reduced:
            lines.append(f"  reduced: {listed(map(shown, self.reduced))}")
        return "\n".join(lines)


class Collected:
    """Takes blocks of runs as they come."""

    def __init__(self, runs: int, picked: np.ndarray, bands: int):
        self.runs, self._picked = runs, picked
        self.arrays: dict[Any, Any] = {}
        self.observed: tuple[Any, ...] | None = None
        self.bands = [Band() for _ in range(bands)]

    def add(self, first: int, block: Ended) -> None:
        """Runs from the number `first` on."""
        here = slice(first, first + len(block.code))
        for name in ("q", "v", "t", "code", "event", "steps", "rejected", "drift", "misfit"):
            x = getattr(block, name)
            if x is None:
                continue
            if name in "qv" and x.ndim == 3:
                x = x[:, self._picked]
            self._put(name, here, x)
        for k, x in enumerate(block.observed):
            self._put(("observed", k), here, x)
        for band, x in zip(self.bands, block.seen, strict=True):
            band.add(x[:, self._picked])

    def _put(self, name: object, here: slice, x: np.ndarray) -> None:
        if isinstance(x, tuple | list):
            for k, y in enumerate(x):
                self._put((name, k), here, y)
            return
        if name not in self.arrays:
            fill = np.nan if np.issubdtype(x.dtype, np.floating) else 0
            fill = int(Failure.INTERRUPTED) if name == "code" else fill
            self.arrays[name] = np.full((self.runs, *x.shape[1:]), fill, x.dtype)
        self.arrays[name][here] = x

    def value(self, name: object) -> Any:
        """What was collected under a name; a tuple where that was one."""
        if name in self.arrays:
            return self.arrays[name]
        parts = []
        while (name, len(parts)) in self.arrays:
            parts.append(self.arrays[name, len(parts)])
        return tuple(parts) if parts else None
