"""Complex arithmetic in pairs of real numbers.

A function of complex arrays is traced, and its program followed with the real and the imaginary
parts side by side. So what is written for numbers of any kind, such as an elimination, serves
complex ones where a compiler knows none, and without the care for infinities that complex products
have elsewhere. There are rules for what elimination is made of; functions are not differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jax_core

from .._jaxprs import scan_sizes
from .indexing import unset

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr
    from jaxtyping import PyTree

    from .._jaxprs import Equation


class Pair(NamedTuple):
    """A complex array by its parts."""

    re: Any
    im: Any


def in_pairs(fun: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """`fun` with a `Pair` wherever it takes or returns a complex array."""

    def wrapped(*args: PyTree) -> PyTree:
        given, tree = jax.tree.flatten(args, is_leaf=_is_pair)
        closed, shape = jax.make_jaxpr(lambda *x: fun(*tree.unflatten(x)), return_shape=True)(
            *[_complex_like(x) if _is_pair(x) else x for x in given]
        )
        found = _followed(closed.jaxpr, closed.consts, given)
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return wrapped


def _is_pair(x: object) -> bool:
    return isinstance(x, Pair)


def _complex_like(x: Pair) -> Any:
    return jax.ShapeDtypeStruct(jnp.shape(x.re), jnp.complex128)


def _is_complex(aval: Any) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.complexfloating)


def _pair(x: PyTree) -> Any:
    """A complex constant as a pair; what is real stays."""
    if _is_pair(x) or not jnp.issubdtype(jnp.result_type(x), jnp.complexfloating):
        return x
    known = np.asarray(x)
    return Pair(np.real(known).copy(), np.imag(known).copy())


def _followed(jaxpr: Jaxpr, consts: Sequence[PyTree], args: Sequence[PyTree]) -> list[PyTree]:
    env: dict[Any, Any] = {}
    env.update(zip(jaxpr.constvars, map(_pair, consts), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [_pair(v.val) if isinstance(v, jax_core.Literal) else env[v] for v in eqn.invars]
        env.update(zip(eqn.outvars, _equation(eqn, values), strict=True))
    return [_pair(v.val) if isinstance(v, jax_core.Literal) else env[v] for v in jaxpr.outvars]


def _equation(eqn: Any, values: list[PyTree]) -> PyTree:
    name = eqn.primitive.name
    if name in _PROGRAMS:
        return _PROGRAMS[name](eqn.params, values)
    numbers = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    if not any(map(_is_complex, numbers)):
        return _bound(eqn, values)
    if name in _RULES:
        return [_RULES[name](eqn, *values)]
    if name not in _PARTWISE:
        raise TypeError(f"in_pairs: no rule for complex numbers in {name}; add one to _RULES.")
    parts = [
        _bound(eqn, [getattr(x, part) if _is_pair(x) else x for x in values])
        for part in ("re", "im")
    ]
    triples = zip(eqn.outvars, *parts, strict=True)
    return [Pair(re, im) if _is_complex(var.aval) else re for var, re, im in triples]


def _bound(eqn: Equation, values: list[PyTree]) -> Sequence[PyTree]:
    params = eqn.primitive.get_bind_params(eqn.params)
    functions = ()
    if isinstance(params, tuple):  # as older versions of JAX give them
        functions, params = params
    out = eqn.primitive.bind(*functions, *values, **params)
    return out if eqn.primitive.multiple_results else [out]


# What is done to both parts alike.
_PARTWISE = {
    "add", "add_any", "sub", "neg", "reduce_sum", "slice", "dynamic_slice", "reshape", "squeeze",
    "broadcast_in_dim", "transpose", "concatenate", "pad", "gather", "dynamic_update_slice",
    "select_n", "rev", "copy", "copy_p", "optimization_barrier", "scatter-add", "scatter_add",
    "expand_dims", "split", "stop_gradient", "stack", "unstack", "tile", "device_put",
}  # fmt: skip


def _multiplied(product: Callable[[Any, Any], Any], x: Any, y: Any) -> Pair:
    if not _is_pair(x):
        return Pair(product(x, y.re), product(x, y.im))
    if not _is_pair(y):
        return Pair(product(x.re, y), product(x.im, y))
    real = product(x.re, y.re) - product(x.im, y.im)
    return Pair(real, product(x.re, y.im) + product(x.im, y.re))


def _times(eqn: Equation, x: Pair, y: Pair) -> Pair:
    return _multiplied(lax.mul, x, y)


def _over(eqn: Equation, x: Pair, y: Pair) -> Pair:
    size = 1 / (y.re * y.re + y.im * y.im)
    return _multiplied(lax.mul, x, Pair(y.re * size, -y.im * size))


def _power(eqn: Equation, x: Pair) -> Pair:
    n = eqn.params["y"]
    out = x
    for _ in range(abs(n) - 1):
        out = _times(eqn, out, x)
    one = jnp.ones_like(x.re)
    return out if n > 0 else _over(eqn, Pair(one, 0 * one), out)


def _dot(eqn: Equation, x: PyTree, y: PyTree) -> Pair:
    numbers = eqn.params["dimension_numbers"]
    return _multiplied(lambda a, b: lax.dot_general(a, b, numbers), x, y)


def _converted(eqn: Equation, x: PyTree) -> Any:
    return x if _is_pair(x) else Pair(*(y * jnp.asarray(x, float) for y in (1.0, 0.0)))


def _unset(eqn: Equation) -> Pair:
    shape = eqn.outvars[0].aval.shape
    return Pair(unset(shape, float), unset(shape, float))


_RULES: dict[str, Callable[..., Any]] = {
    "empty": _unset,
    "empty2": _unset,
    "mul": _times,
    "div": _over,
    "integer_pow": _power,
    "square": lambda eqn, x: _times(eqn, x, x),
    "dot_general": _dot,
    "convert_element_type": _converted,
    "complex": lambda eqn, x, y: Pair(x, y),
    "real": lambda eqn, x: x.re,
    "imag": lambda eqn, x: x.im,
    "conj": lambda eqn, x: Pair(x.re, -x.im),
}


def _closed(program: Any) -> Callable[..., list[Any]]:
    if hasattr(program, "consts"):
        return lambda *args: _followed(program.jaxpr, program.consts, args)
    return lambda *args: _followed(program, (), args)


def _call(params: Any, values: list[PyTree]) -> list[PyTree]:
    return _closed(params.get("jaxpr", params.get("call_jaxpr")))(*values)


def _while(params: Any, values: list[PyTree]) -> list[PyTree]:
    first, second = params["cond_nconsts"], params["body_nconsts"]
    asked, done = values[:first], values[first : first + second]
    going, body = _closed(params["cond_jaxpr"]), _closed(params["body_jaxpr"])
    return lax.while_loop(
        lambda x: going(*asked, *x)[0], lambda x: body(*done, *x), values[first + second :]
    )


def _scan(params: Any, values: list[PyTree]) -> list[PyTree]:
    first, second = scan_sizes(params)
    consts, carried = values[:first], values[first : first + second]
    body = _closed(params["jaxpr"])

    def once(carried: Any, row: Any) -> Any:
        out = body(*consts, *carried, *row)
        return out[:second], out[second:]

    end, rows = lax.scan(
        once,
        carried,
        values[first + second :],
        length=params["length"],
        reverse=params["reverse"],
    )
    return [*end, *rows]


def _linear_solve(params: Any, values: list[PyTree]) -> list[PyTree]:
    lengths = params["const_lengths"]
    start = lengths.matvec + lengths.vecmat
    consts = values[start : start + lengths.solve]
    rhs = values[start + lengths.solve + lengths.transpose_solve :]
    return _closed(params["jaxprs"].solve)(*consts, *rhs)


_PROGRAMS: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    "jit": _call,
    "pjit": _call,
    "closed_call": _call,
    "core_call": _call,
    "custom_jvp_call": _call,
    "while": _while,
    "scan": _scan,
    "custom_linear_solve": _linear_solve,
}
