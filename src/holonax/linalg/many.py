"""Many small systems A x = b side by side, the last axis counting them."""

import jax.numpy as jnp
from jax import Array
from jax.lax import optimization_barrier


def solve_many(A: Array, B: Array) -> Array:
    """Solve A X = B for matrices (b, b, n) and (b, columns, n), by Gauss and Jordan with the
    largest pivot of each column."""
    b = len(A)
    rows = jnp.arange(b)[:, None]
    used = jnp.zeros((b, A.shape[-1]), bool)
    chosen = []
    for j in range(b):
        size = jnp.where(used, -1.0, _size(A[:, j]))
        best, at = size[0], jnp.zeros(size.shape[1:], int)
        for r in range(1, b):
            larger = size[r] > best
            best, at = jnp.where(larger, size[r], best), jnp.where(larger, r, at)
        here = rows == at
        picked = lambda x, here=here: jnp.sum(jnp.where(here[:, None], x, 0), axis=0)  # noqa: E731
        pivot, column = 1 / picked(A)[j], A[:, j]
        left, right = picked(A) * pivot, picked(B) * pivot
        A = jnp.where(here[:, None], left, A - column[:, None] * left)
        B = jnp.where(here[:, None], right, B - column[:, None] * right)
        A, B, used = optimization_barrier((A, B, used | here))
        chosen.append(here)
    return jnp.stack([jnp.sum(jnp.where(x[:, None], B, 0), axis=0) for x in chosen])


def _size(x: Array) -> Array:
    """How large numbers are; complex ones as LAPACK takes them, without a root."""
    if jnp.iscomplexobj(x):
        return jnp.abs(x.real) + jnp.abs(x.imag)
    return jnp.abs(x)
