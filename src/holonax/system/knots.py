"""A curve through values at given times, the values of which are parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .._arguments import checked_class
from .._numbers import array
from ..linalg.indexing import last_not_after

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import ArrayLike


@checked_class
class Knots:
    """The natural cubic spline through values at `times` [s], as a function of (t, values).

    Where a `Table` has its values once and for all, these are given with each call: as parameters
    of a force or a driver, which `optimize` and `fit` then find.

    ```python
    knots = hx.Knots(np.linspace(0, 2, 9))
    model.torque("motor", "crank", torque=lambda t, body, p: knots(t, p), parameters=np.zeros(9))
    ```

    Before the first and after the last time it is constant.
    """

    def __init__(self, times: ArrayLike):
        self.times = array("Knots", "times", times, (None,))
        if self.times.size < 2 or not np.all(np.diff(self.times) > 0):
            raise ValueError("Knots: times must be two or more, and increase [s]. Sort them.")
        from scipy.interpolate import CubicSpline

        n = self.times.size
        # what each value adds to the coefficients of rising powers: (4, intervals + 1, n)
        rows = CubicSpline(self.times, np.eye(n), bc_type="natural").c[::-1]
        last = np.zeros((4, 1, n))
        last[0, 0, -1] = 1.0
        self._weights = np.concatenate([rows, last], axis=1)

    def __call__(self, t: float | Array, values: np.ndarray | Array) -> Array:
        """The curve at the time `t` [s]; `values` has a first axis for the times."""
        x = self.times
        k = last_not_after(x, t)
        within = jnp.where(t < x[0], x[0], jnp.where(t < x[-1], t, x[-1]))
        s = within - jnp.asarray(x)[k]
        share: Any = 0.0
        for part in reversed(self._weights):
            share = share * s + jnp.asarray(part)[k]
        return jnp.tensordot(share, jnp.asarray(values, dtype=float), 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Knots) and np.array_equal(self.times, other.times)

    def __hash__(self) -> int:
        return hash(self.times.tobytes())

    def __repr__(self) -> str:
        return f"Knots({self.times.size} times, {self.times[0]:g} to {self.times[-1]:g} s)"
