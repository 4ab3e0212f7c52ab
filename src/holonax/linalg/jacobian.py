"""The matrix of derivatives of a function of a vector, by forward mode."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from .limits import AT_ONCE, AT_ONCE_IF_SHORT
from .linearized import linearized


def jacobian(
    fun: Callable[[Array], Any], x: Array, *, has_aux: bool = False, short: bool = False
) -> Any:
    """d fun / dx, shape (outputs, inputs); with `has_aux` fun(x) is (value, more), and so is what
    is returned. `short` says that the function has few operations.

    Few columns are computed side by side, their zeros seen by the compiler. More of them, one after
    the other in a loop along the linearised function, so that the program does not grow with their
    number.
    """
    n = x.shape[0]
    value, along = linearized(fun, x)
    first = (lambda e: along(e)[0]) if has_aux else along
    if n == 1:  # of a single column nothing need be batched
        columns = first(jnp.ones_like(x))[:, None]
    else:
        every = jax.vmap if n <= (AT_ONCE_IF_SHORT if short else AT_ONCE) else _one_by_one
        columns = every(first)(jnp.eye(n, dtype=x.dtype)).T
    return (columns, value[1]) if has_aux else columns


def _one_by_one(function: Callable[[Array], Any]) -> Callable[[Array], Any]:
    return lambda rows: lax.map(function, rows)
