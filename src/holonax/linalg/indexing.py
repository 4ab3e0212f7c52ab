"""Index tables of a planned factorisation, and reading and writing one block at a traced index."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Carry = TypeVar("Carry")

# The number of no block. A compiler knows the loops of `each` by it: nobody else compares with it.
ALL_READY = 2_135_792_468

# An array that is written before it is read, which has no derivative: `unset(shape, dtype)`. Older
# versions of JAX have none.
unset = getattr(lax, "empty", jnp.zeros)


def check_edges(n: int, edges: np.ndarray) -> None:
    """Refuse edges that are no pairs of different blocks, or come twice."""
    if edges.size and (edges.min() < 0 or edges.max() >= n):
        raise ValueError(f"an edge names a block outside 0 ... {n - 1}")
    if np.any(edges[:, 0] == edges[:, 1]):
        raise ValueError("an edge joins a block with itself; pass it as a diagonal block")
    if len(np.unique(np.sort(edges, axis=1), axis=0)) < len(edges):
        raise ValueError("an edge appears twice; add the blocks of parallel edges first")


def table(indices: np.ndarray) -> Any:
    """An index table, one element longer so that none is empty."""
    return np.append(indices, 0).astype(np.int32)


# Reading and writing one block at a traced index. Indices come from the plan and are in range, so
# they are not wrapped as negative ones would be.


def at(table: Array, i: Array) -> Array:
    """Entry i of a table."""
    return lax.dynamic_slice(table, (i,), (1,), allow_negative_indices=False)[0]


def row(A: Array, i: Array) -> Array:
    """Row i."""
    start = (i, jnp.int32(0))
    return lax.dynamic_slice(A, start, (1, A.shape[1]), allow_negative_indices=False)[0]


def column(A: Array, i: Array) -> Array:
    """Column i."""
    start = (jnp.int32(0), i)
    return lax.dynamic_slice(A, start, (A.shape[0], 1), allow_negative_indices=False)[:, 0]


def put_row(A: Array, i: Array, row: Array) -> Array:
    """A with another row i."""
    start = (i, jnp.int32(0))
    return lax.dynamic_update_slice(A, row[None], start, allow_negative_indices=False)


def put_column(A: Array, i: Array, column: Array) -> Array:
    """A with another column i."""
    start = (jnp.int32(0), i)
    return lax.dynamic_update_slice(A, column[:, None], start, allow_negative_indices=False)


def between(pointer: Array, i: Array, body: Callable[[Array, Carry], Carry], start: Carry) -> Carry:
    """Run the body for all k from pointer[i] to pointer[i + 1]."""
    return lax.fori_loop(at(pointer, i), at(pointer, i + 1), body, start)


def each(
    n: int,
    body: Callable[[Array, Carry], Carry],
    start: Carry,
    ready: Array | None = None,
) -> Carry:
    """Run the body for all p from 0 to n.

    `ready[p]`, which must not fall with p, promises that round p and those before it touch no block
    of a later number than this, in arrays of blocks; and of what another such loop makes, nothing
    that its rounds after p make. A compiler may then do these rounds as soon as the blocks are
    there, before others are; see `compiler/rounds.py`.
    """
    if ready is None:
        return lax.fori_loop(0, n, lambda p, carry: body(jnp.asarray(p, jnp.int32), carry), start)

    def going(carry: tuple[Array, Carry]) -> Array:
        p, _ = carry
        return (p < n) & (at(ready, p) < ALL_READY)

    def following(carry: tuple[Array, Carry]) -> tuple[Array, Carry]:
        p, now = carry
        return p + 1, body(p, now)

    return lax.while_loop(going, following, (jnp.int32(0), start))[1]


def last_not_after(knots: np.ndarray | Array, t: float | Array) -> Array:
    """The index of the last of the rising `knots` that is not after `t`, or 0: a search by halves
    without a loop, which small programs are compiled with."""
    size = knots.shape[0]
    knots = jnp.asarray(knots)
    index, step = jnp.asarray(0), 1 << max(size - 1, 1).bit_length()
    while step > 1:
        step //= 2
        further = jnp.minimum(index + step, size - 1)
        index = jnp.where(t >= knots[further], further, index)
    return index
