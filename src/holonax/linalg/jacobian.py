"""The matrix of derivatives of a function of a vector, by forward mode."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

# Columns that are computed together, their zeros seen by the compiler: of a long program, and of a
# function of few operations.
_AT_ONCE, _AT_ONCE_IF_SHORT = 8, 24


def jacobian(
    fun: Callable[[Array], Any], x: Array, *, has_aux: bool = False, short: bool = False
) -> Any:
    """d fun / dx, shape (outputs, inputs); with `has_aux` fun(x) is (value, more), and so is what
    is returned. `short` says that the function has few operations.

    Few columns are computed side by side. More of them, one after the other in a loop along the
    linearised function, so that the program does not grow with their number.
    """
    n = x.shape[0]
    if n <= (_AT_ONCE_IF_SHORT if short else _AT_ONCE):
        return jax.jacfwd(fun, has_aux=has_aux)(x)
    _, along, *aux = jax.linearize(fun, x, has_aux=has_aux)
    columns = lax.map(along, jnp.eye(n, dtype=x.dtype)).T
    return (columns, *aux) if has_aux else columns
