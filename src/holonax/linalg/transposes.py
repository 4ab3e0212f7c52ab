"""Transposed derivatives of the equations that programs of mechanisms are mostly made of.

A rule takes an equation, its arguments, which of them move, and its results; it returns the
function from the cotangents of the results to those of the arguments that move, or None where the
case is left to JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .known_tables import gathered_back

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree

    from .._jaxprs import Equation

Back = Callable[[Sequence[Any]], list[Any]]
Rule = Callable[[Any, list[Any], list[bool], Sequence[Any]], Back | None]


def _entrywise(*slopes: Callable[..., PyTree]) -> Rule:
    """Of a function whose argument k has the cotangent slopes[k](c, y, *x), y = f(*x)."""

    def rule(
        eqn: Equation, x: list[np.ndarray | Array], active: list[bool], outs: Sequence[Array]
    ) -> Back | None:
        shape = eqn.outvars[0].aval.shape
        if any(v.aval.shape != shape for v, a in zip(eqn.invars, active, strict=True) if a):
            return None
        wanted = [f for f, a in zip(slopes, active, strict=True) if a]
        return lambda c: [f(c[0], outs[0], *x) for f in wanted]

    return rule


def _scaled(factor: float, x: Array) -> Array:
    return lax.mul(np.asarray(factor, x.dtype), x)


def _power(eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]) -> Back | None:
    n = eqn.params["y"]
    if n == 0:
        return None
    slope = lambda: x[0] if n == 2 else lax.integer_pow(x[0], n - 1)  # noqa: E731
    return lambda c: [lax.mul(c[0], lax.mul(lax.full_like(x[0], n), slope()))]


def _reshaped(
    eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]
) -> Back | None:
    if eqn.params.get("dimensions") is not None and eqn.primitive.name == "reshape":
        return None
    shape = eqn.invars[0].aval.shape
    return lambda c: [lax.reshape(c[0], shape)]


def _broadcast(
    eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]
) -> Back | None:
    shape, axes = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    own = eqn.invars[0].aval.shape
    spread = [
        d
        for d in range(len(shape))
        if d not in axes or own[axes.index(d)] != shape[d]
    ]  # fmt: skip

    def back(c: Sequence[Array]) -> list[Any]:
        total = jnp.sum(c[0], axis=tuple(spread)) if spread else c[0]
        return [total if total.shape == own else lax.reshape(total, own)]

    return back


def _sum(eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]) -> Back | None:
    shape, axes = eqn.invars[0].aval.shape, eqn.params["axes"]
    kept = tuple(d for d in range(len(shape)) if d not in axes)
    return lambda c: [lax.broadcast_in_dim(c[0], shape, kept)]


def _transpose(
    eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]
) -> Back | None:
    order = tuple(int(d) for d in np.argsort(eqn.params["permutation"]))
    return lambda c: [lax.transpose(c[0], order)]


def _slice(eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]) -> Back | None:
    p, shape = eqn.params, eqn.invars[0].aval.shape
    steps = p["strides"] or (1,) * len(shape)
    config = [
        (lo, n - (lo + max(m - 1, 0) * step + min(m, 1)), step - 1)
        for lo, n, m, step in zip(
            p["start_indices"], shape, eqn.outvars[0].aval.shape, steps, strict=True
        )
    ]
    return lambda c: [lax.pad(c[0], np.zeros((), c[0].dtype), config)]


def _concatenate(
    eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]
) -> Back | None:
    axis, sizes = eqn.params["dimension"], [v.aval.shape for v in eqn.invars]
    ends = np.cumsum([s[axis] for s in sizes])
    cuts = [
        (int(end) - s[axis], int(end)) for s, end, a in zip(sizes, ends, active, strict=True) if a
    ]
    return lambda c: [lax.slice_in_dim(c[0], *cut, axis=axis) for cut in cuts]


def _select(
    eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]
) -> Back | None:
    which, *cases = x
    if len(cases) != 2 or active[0] or eqn.invars[0].aval.dtype != bool:
        return None

    def back(c: Sequence[Array]) -> list[Any]:
        zero = lax.full_like(c[0], 0)
        found = lax.select_n(which, c[0], zero), lax.select_n(which, zero, c[0])
        return [y for y, a in zip(found, active[1:], strict=True) if a]

    return back


def _same(eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]) -> Back | None:
    return lambda c: [c[0]]


def _converted(
    eqn: Equation, x: list[Array], active: list[bool], outs: Sequence[Array]
) -> Back | None:
    kind = eqn.invars[0].aval.dtype
    return lambda c: [lax.convert_element_type(c[0], kind)]


TRANSPOSES: dict[str, Rule] = {
    "add": _entrywise(lambda c, *_: c, lambda c, *_: c),
    "add_any": _entrywise(lambda c, *_: c, lambda c, *_: c),
    "sub": _entrywise(lambda c, *_: c, lambda c, *_: lax.neg(c)),
    "neg": _entrywise(lambda c, *_: lax.neg(c)),
    "mul": _entrywise(lambda c, _, x, y: lax.mul(c, y), lambda c, _, x, y: lax.mul(c, x)),
    "div": _entrywise(
        lambda c, _, x, y: lax.div(c, y), lambda c, z, x, y: lax.neg(lax.mul(c, lax.div(z, y)))
    ),
    "sin": _entrywise(lambda c, _, x: lax.mul(c, lax.cos(x))),
    "cos": _entrywise(lambda c, _, x: lax.neg(lax.mul(c, lax.sin(x)))),
    "sqrt": _entrywise(lambda c, y, _: lax.div(_scaled(0.5, c), y)),
    "square": _entrywise(lambda c, _, x: lax.mul(c, _scaled(2.0, x))),
    "integer_pow": _power,
    "reshape": _reshaped,
    "squeeze": _reshaped,
    "expand_dims": _reshaped,
    "broadcast_in_dim": _broadcast,
    "reduce_sum": _sum,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "select_n": _select,
    "gather": gathered_back,
    "copy": _same,
    "copy_p": _same,
    "convert_element_type": _converted,
}
