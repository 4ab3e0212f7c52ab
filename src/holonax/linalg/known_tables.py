"""Index tables that are known while a program is followed, and gathering by them transposed.

XLA scatters one number after the other, and a loop with a scatter in it is cut into pieces that are
dispatched one by one: on the way back through a step of a four-bar that took ten times as long as
all the rest. What a known table gathers is brought back by gathering as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

if TYPE_CHECKING:
    from jax import Array

    from .._jaxprs import Equation

_ROOM = 8  # times as many entries as there are numbers, that a table of sums may have


def _broadcast(params: dict[str, Any], x: np.ndarray) -> np.ndarray:
    shape, axes = params["shape"], params["broadcast_dimensions"]
    own = [1] * len(shape)
    for d, size in zip(axes, x.shape, strict=True):
        own[d] = size
    return np.broadcast_to(x.reshape(own), shape)


# What index arithmetic is made of, by NumPy: JAX would trace it, or compile each operation.
_KNOWN: dict[str, Callable[..., Any]] = {
    "lt": lambda p, x, y: np.less(x, y),
    "add": lambda p, x, y: np.add(x, y),
    "select_n": lambda p, which, x, y: np.where(which, y, x),
    "broadcast_in_dim": _broadcast,
    "reshape": lambda p, x: x.reshape(p["new_sizes"]),
    "convert_element_type": lambda p, x: x.astype(p["new_dtype"]),
}


def are_known(eqn: Equation, primals: Sequence[Any]) -> bool:
    """Whether an equation makes whole numbers or truth values of known ones."""
    return not any(isinstance(x, Tracer) for x in primals) and all(
        np.dtype(v.aval.dtype).kind in "biu" for v in (*eqn.invars, *eqn.outvars)
    )


def known(eqn: Equation, primals: Sequence[Any]) -> list[np.ndarray] | None:
    """What an equation makes of known whole numbers or truth values; None where it is not done
    here."""
    rule = _KNOWN.get(eqn.primitive.name)
    if rule is None or not are_known(eqn, primals) or eqn.params.get("dimensions") is not None:
        return None
    if eqn.primitive.name == "select_n" and len(primals) != 3:
        return None
    made = rule(eqn.params, *map(np.asarray, primals))
    return [np.asarray(made, eqn.outvars[0].aval.dtype)]


def gathered_back(
    eqn: Equation, x: list[Any], active: list[bool], outs: Sequence[Array]
) -> Callable[[Sequence[Any]], list[Any]] | None:
    """The transpose of x[table] along one axis, where the table is known."""
    if active[1] or isinstance(x[1], Tracer):
        return None
    size = int(np.prod(eqn.outvars[0].aval.shape))
    from_where = _places(eqn, np.asarray(x[1]))
    if from_where is None or not size:
        return None
    own = eqn.invars[0].aval.shape
    table = _inverse(from_where.ravel(), int(np.prod(own)))
    if table is None:
        return None

    def back(c: Sequence[Array]) -> list[Any]:
        flat = lax.reshape(c[0], (size,))
        if np.any(table == size):  # numbers that were not gathered, or less often than others
            flat = lax.concatenate([flat, np.zeros(1, flat.dtype)], 0)
        parts = flat.at[table].get(mode="promise_in_bounds")
        return [lax.reshape(parts[:, 0] if table.shape[1] == 1 else jnp.sum(parts, axis=1), own)]

    return back


def _places(eqn: Equation, indices: np.ndarray) -> np.ndarray | None:
    """For each result, the place of the number that it is, for a table along one axis."""
    p, own = eqn.params, eqn.invars[0].aval.shape
    numbers = p["dimension_numbers"]
    if len(numbers.start_index_map) != 1 or indices.shape[-1:] != (1,):
        return None
    axis = numbers.start_index_map[0]
    whole = tuple(1 if d == axis else n for d, n in enumerate(own))
    batched = getattr(numbers, "operand_batching_dims", ())
    if numbers.collapsed_slice_dims != (axis,) or p["slice_sizes"] != whole or batched:
        return None
    at = indices[..., 0]
    if at.size == 0 or at.min() < 0 or at.max() >= own[axis]:
        return None
    taken = np.moveaxis(np.arange(int(np.prod(own))).reshape(own), axis, 0)[at]
    rest = iter(range(at.ndim))
    offsets = numbers.offset_dims
    order = [at.ndim + offsets.index(d) if d in offsets else next(rest) for d in range(taken.ndim)]
    return taken.transpose(order)


def _inverse(from_where: np.ndarray, size: int) -> np.ndarray | None:
    """For each of `size` numbers, where it has gone: rows of equal length, filled up with the
    number of results."""
    counts = np.bincount(from_where, minlength=size)
    most = int(counts.max())
    if size * most > _ROOM * (size + from_where.size):
        return None
    order = np.argsort(from_where, kind="stable")
    rank = np.arange(from_where.size) - np.repeat(np.cumsum(counts) - counts, counts)
    table = np.full((size, most), from_where.size)
    table[from_where[order], rank] = order
    return table
