"""Numbers that a user gives, as arrays of the host.

They become arrays of JAX where a program is traced; made such at once, each would cost a trip
through JAX's machinery, and the first of them the start of its backend.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np


def as_array(x: Any) -> Any:
    """`x` as an array of float64; arrays of JAX, traced ones among them, stay what they are."""
    if isinstance(x, jax.Array):
        return x.astype(float)
    return np.asarray(x, dtype=float)
