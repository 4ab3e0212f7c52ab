"""Numbers that a user gives, as arrays of the host, or of JAX where some of them are traced.

Those of the host become arrays of JAX where a program is traced; made such at once, each would cost
a trip through JAX's machinery, and the first of them the start of its backend.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def as_array(x: Any) -> Any:
    """`x` as an array of float64; arrays of JAX, traced ones among them, stay what they are."""
    if isinstance(x, jax.Array):
        return x.astype(float)
    return jnp.asarray(x, float) if is_traced(x) else np.asarray(x, dtype=float)


def is_traced(*values: Any) -> bool:
    """Whether some number among the values is traced, so that nothing can be asked of it."""
    kinds = (bool, int, float, str, np.ndarray)
    return any(
        isinstance(x, Tracer)
        for value in values
        if not isinstance(value, kinds)
        for x in jax.tree.leaves(value)
    )


def namespace(*values: Any) -> Any:
    """The library that computes with these arrays: JAX's where some are traced, else numpy."""
    return jnp if is_traced(*values) else np


def stacked(values: Any, axis: int = 0) -> Any:
    """Numbers or arrays of many things as one array; on the host unless some are of JAX."""
    if any(isinstance(x, jax.Array) for x in values):
        return jnp.stack([jnp.asarray(x, float) for x in values], axis)
    return np.stack([np.asarray(x, float) for x in values], axis)
