"""Integrals over time of values at given times."""

from __future__ import annotations

import numpy as np


def simpson_parts(y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integral of y over each interval of the increasing times `x`, and by how much it may be
    off.

    Simpson's rule for uneven steps: two intervals at a time share the parabola through their three
    points, a last odd one takes that of the last three; of two points alone it is the trapezoid.
    The numbers are those of SciPy's function, whose package takes longer to import than most runs.
    What it may be off is the difference from the parabola on the other side, or from the trapezoid.
    """
    h = np.diff(x)
    trapezoid = h * (y[:-1] + y[1:]) / 2
    if h.size < 2:
        return trapezoid, np.abs(trapezoid)

    def parabolas(after: np.ndarray) -> np.ndarray:
        """With the third point after the interval, or before it."""
        i = np.arange(h.size)
        near, far = np.where(after, i + 1, i), np.where(after, i, i + 1)
        third = np.where(after, i + 2, i - 1)
        other = h[np.where(after, i + 1, i - 1)]
        r = h / (h + other)
        s = r * h / other
        return h / 6 * ((3 - r) * y[far] + (3 + r + s) * y[near] - s * y[third])

    after = np.arange(h.size) % 2 == 0
    after[-1] = False
    parts = parabolas(after)
    opposite = ~after
    opposite[0], opposite[-1] = True, False  # where there is no other side
    doubt = np.abs(parabolas(opposite) - parts)
    doubt[0], doubt[-1] = abs(trapezoid[0] - parts[0]), abs(trapezoid[-1] - parts[-1])
    return parts, doubt
