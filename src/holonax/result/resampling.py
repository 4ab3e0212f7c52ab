"""A result at other times than those it was saved at, by its dense output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .result import Result


def refined(result: Result, count: int, also: Any = ()) -> Result:
    """The result with states between its steps, so that some `count` lie evenly over the run, and
    at the times `also`; the saved ones stay, both of them where an event changed the state.

    A run that did not save its steps is returned as it is.
    """
    if result.stats["saved"] != "steps" or result.t.size < 2:
        return result
    t = result.t
    width = np.diff(t)
    span = t[-1] - t[0]
    parts = np.where(width > 0, np.ceil(width * count / span - 1e-9), 1).astype(int)
    new = [t[i] + width[i] * np.arange(1, n) / n for i, n in enumerate(parts) if n > 1]
    wanted = np.concatenate([np.zeros(0), *new, np.atleast_1d(np.asarray(also, dtype=float))])
    wanted = np.setdiff1d(wanted[(wanted > t[0]) & (wanted < t[-1])], t)
    return result if not wanted.size else _merged(result, wanted)


def _merged(result: Result, times: np.ndarray) -> Result:
    """With states at these times, none of which is a saved one."""
    q, v = result.at(times)
    after = np.searchsorted(result.t, times)  # the saved state that comes next
    places = np.concatenate([2 * np.arange(result.t.size), 2 * after - 1])
    order = np.argsort(places, kind="stable")

    def both(saved: np.ndarray, found: np.ndarray) -> np.ndarray:
        return np.concatenate([saved, found])[order]

    ticks = None
    if result.ticks is not None:
        ticks = both(result.ticks, result.clock.ticks(times))
    return replace(
        result,
        t=both(result.t, times),
        q=both(result.q, q),
        v=both(result.v, v),
        leg=both(result.leg, result.leg[after]),
        solved=(None,) * len(result.legs),
        ticks=ticks,
        stats={**result.stats, "saved": "times"},
    )


def sampled(result: Result, times: np.ndarray) -> Result:
    """The result at these times alone."""
    q, v = result.at(times)
    after = np.clip(np.searchsorted(result.t, times), 0, result.t.size - 1)
    return replace(
        result,
        t=times,
        q=q,
        v=v,
        leg=result.leg[after],
        solved=(None,) * len(result.legs),
        ticks=None if result.ticks is None else result.clock.ticks(times),
        stats={**result.stats, "saved": "times"},
    )
