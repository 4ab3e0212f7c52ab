"""Integrals over time of values at given times."""

from __future__ import annotations

import numpy as np


def cumulative_simpson(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The integral of y up to each of the increasing times `x`, from the first on.

    Simpson's rule for uneven steps: two intervals at a time share the parabola through their three
    points, a last odd one takes that of the last three; of two points alone it is the trapezoid.
    The numbers are those of SciPy's function, whose package takes longer to import than most runs.
    """
    h = np.diff(x)
    if h.size < 2:
        parts = h * (y[:-1] + y[1:]) / 2
    else:
        after = np.arange(h.size) % 2 == 0  # whether the third point lies after the interval
        after[-1] = False
        i = np.arange(h.size)
        near, far = np.where(after, i + 1, i), np.where(after, i, i + 1)
        third = np.where(after, i + 2, i - 1)
        other = h[np.where(after, i + 1, i - 1)]
        r = h / (h + other)
        s = r * h / other
        parts = h / 6 * ((3 - r) * y[far] + (3 + r + s) * y[near] - s * y[third])
    return np.concatenate([[0.0], np.cumsum(parts)])
