"""Primitives that compute entry by entry, reduce, or choose."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Array, is_large
from .lowering import Lowering, _scalar, rule
from .operations import Node, Unsupported, bits, is_float, kind_of
from .totals import neutral

if TYPE_CHECKING:
    from .._jaxprs import Equation

# Primitives that are one operation, by their names.
_PLAIN = {
    **{
        name: name
        for name in (
            *("add", "sub", "mul", "div", "neg", "abs", "sqrt", "floor", "ceil", "sign"),
            *("max", "min", "rem", "and", "or", "xor", "not", "nextafter"),
            *("lt", "le", "gt", "ge", "eq", "ne"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
            *("asinh", "acosh", "atanh", "exp", "exp2", "expm1", "log", "log1p", "pow", "cbrt"),
            *("erf", "erfc"),
        )
    },
    "add_any": "add",
}
_TRUTH = {"and", "or", "xor", "not", "eq", "ne", "lt", "le", "gt", "ge", "max", "min"}


def entrywise(
    low: Lowering, eqn: Equation, args: list[Array], function: Callable[..., Node]
) -> Array:
    """`function` of the entries of equal (or single-entry) arrays."""
    shape = eqn.outvars[0].aval.shape
    if math.prod(shape) > low.a.most:
        kind = kind_of(eqn.outvars[0].aval.dtype)
        args = [
            low.a.scalar(x) if x.size == 1 else x if is_large(x) else low.a.stored(x) for x in args
        ]
        zero = low.b.index(0)

        def taken(x: Any, index: Sequence[Node]) -> Node:
            if isinstance(x, Node):
                return x
            return low.a.entry(x, [zero if n == 1 else i for i, n in zip(index, x.shape)])

        def entry(index: Sequence[Node]) -> Node:
            return function(*(taken(x, index) for x in args))

        large = [x for x in args if not isinstance(x, Node)]

        sources = [y for x in large for y in low.a.sources(x)]
        return low.a.delayed(kind, shape, entry, sources, of=large)
    small = [low.a.small(x) for x in args]
    if not shape:
        return _scalar(function(*(x[()] for x in small)))
    flat = [
        x.ravel().tolist() if x.shape == shape else np.broadcast_to(x, shape).ravel().tolist()
        for x in small
    ]
    return low.entrywise(function, flat, shape)


def _plain(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind = kind_of(eqn.invars[0].aval.dtype)
    op = _PLAIN[eqn.primitive.name]
    if kind == "b1" and op not in _TRUTH:
        raise Unsupported(f"{eqn.primitive.name} of truth values")
    if kind == "f32" and op in ("nextafter", "erf", "erfc"):
        raise Unsupported(f"{op} of single precision")
    if op == "pow":  # the exponent may be a whole number
        power_of = lambda x, y: low.b.apply(op, kind, x, low.b.convert(y, kind))  # noqa: E731
        return entrywise(low, eqn, args, power_of)
    return entrywise(low, eqn, args, partial(low.b.apply, op, kind))


rule(*_PLAIN)(_plain)


@rule("integer_pow")
def _integer_pow(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind, y = kind_of(eqn.invars[0].aval.dtype), eqn.params["y"]
    return entrywise(low, eqn, args, lambda x: power(low, kind, x, y))


def power(low: Lowering, kind: str, x: Node, y: int) -> Node:
    """x^y by squaring."""
    one = low.b.const(kind, 1)
    if y < 0:
        return low.b.apply("div", kind, one, power(low, kind, x, -y))
    out, square = one, x
    while y:
        if y & 1:
            out = low.b.apply("mul", kind, out, square)
        y >>= 1
        if y:
            square = low.b.apply("mul", kind, square, square)
    return out


@rule("square")
def _square(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind = kind_of(eqn.invars[0].aval.dtype)
    return entrywise(low, eqn, args, lambda x: low.b.apply("mul", kind, x, x))


@rule("rsqrt")
def _rsqrt(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind = kind_of(eqn.invars[0].aval.dtype)
    one, b = low.b.const(kind, 1), low.b
    return entrywise(low, eqn, args, lambda x: b.apply("div", kind, one, b.apply("sqrt", kind, x)))


@rule("logistic")
def _logistic(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind, b = kind_of(eqn.invars[0].aval.dtype), low.b
    one = b.const(kind, 1)

    def function(x: Node) -> Node:
        small = b.apply("exp", kind, b.apply("neg", kind, x))
        return b.apply("div", kind, one, b.apply("add", kind, one, small))

    return entrywise(low, eqn, args, function)


@rule("is_finite")
def _is_finite(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind = kind_of(eqn.invars[0].aval.dtype)
    if not is_float(kind):
        return entrywise(low, eqn, args, lambda x: low.b.const("b1", True))
    bound = low.b.const(kind, math.inf)
    size = partial(low.b.apply, "abs", kind)
    return entrywise(low, eqn, args, lambda x: low.b.compare("lt", kind, size(x), bound))


@rule("round")
def _round(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind, b = kind_of(eqn.invars[0].aval.dtype), low.b
    if int(eqn.params["rounding_method"]) == 1:
        return entrywise(low, eqn, args, partial(b.apply, "round_even", kind))
    return entrywise(low, eqn, args, partial(b.apply, "round_away", kind))


@rule("clamp")
def _clamp(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind, b = kind_of(eqn.invars[1].aval.dtype), low.b

    def function(least: Node, x: Node, most: Node) -> Node:
        return b.apply("min", kind, b.apply("max", kind, x, least), most)

    return entrywise(low, eqn, args, function)


@rule("select_n")
def _select_n(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    if not eqn.invars[0].aval.shape:
        which = low.a.scalar(args[0])
        if which.op == "const":  # the other one may be gone: see `Survey`
            return args[1 + int(which.data)]
    return entrywise(low, eqn, args, lambda which, *cases: low.chosen(which, cases))


@rule("convert_element_type")
def _convert(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind = kind_of(eqn.params["new_dtype"])
    return entrywise(low, eqn, args, lambda x: low.b.convert(x, kind))


@rule("shift_left", "shift_right_logical", "shift_right_arithmetic")
def _shift(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind, b, name = kind_of(eqn.invars[0].aval.dtype), low.b, eqn.primitive.name
    op = {"shift_left": "shl", "shift_right_logical": "lshr"}.get(name, "ashr")
    n = bits(kind)

    def function(x: Node, by: Node) -> Node:
        most = b.const(kind, n - 1)
        if op == "ashr":  # all bits are the sign beyond the width
            outside = b.compare("ge", f"u{n}", b.convert(by, f"u{n}"), b.const(f"u{n}", n))
            return b.apply(op, kind, x, b.select(outside, most, by))
        outside = b.compare("ge", f"u{n}", b.convert(by, f"u{n}"), b.const(f"u{n}", n))
        return b.select(
            outside, b.const(kind, 0), b.apply(op, kind, x, b.select(outside, most, by))
        )

    return entrywise(low, eqn, args, function)


# -- what passes unchanged --------------------------------------------------------------------


@rule(
    *("copy", "copy_p", "stop_gradient", "optimization_barrier", "nonbatchable", "nontraceable"),
    *("nondifferentiable", "nondifferentiable_backward", "pvary", "sharding_constraint"),
    *("unvmap_any", "unvmap_all", "unvmap_max"),
)
def _same(low: Lowering, eqn: Equation, args: list[Array]) -> list[Array]:
    if eqn.primitive.name.startswith("unvmap") and eqn.invars[0].aval.shape:
        op = {"unvmap_any": "or", "unvmap_all": "and", "unvmap_max": "max"}[eqn.primitive.name]
        return [_scalar(_total(low, op, kind_of(eqn.invars[0].aval.dtype), low.a.small(args[0])))]
    return list(args)


def _total(low: Lowering, op: str, kind: str, x: np.ndarray) -> Node:
    nodes = x.ravel().tolist()
    out = nodes[0]
    for node in nodes[1:]:
        out = low.b.apply(op, kind, out, node)
    return out


@rule("select_if_vmap")
def _select_if_vmap(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    return args[1]


@rule("platform_index")
def _platform_index(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    for k, names in enumerate(eqn.params["platforms"]):
        if names is None or "cpu" in names:
            return low.a.constant(np.asarray(k, dtype=eqn.outvars[0].aval.dtype))
    raise Unsupported("a program for other platforms")


# -- reductions -------------------------------------------------------------------------------

_REDUCE = {
    "reduce_sum": "add",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "mul",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}


_ANY_ORDER = {"max", "min", "and", "or"}


@rule(*_REDUCE)
def _reduce(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    op, kind = _REDUCE[eqn.primitive.name], kind_of(eqn.invars[0].aval.dtype)
    axes, shape = eqn.params["axes"], eqn.outvars[0].aval.shape
    if kind == "b1":
        op = {"max": "or", "min": "and"}.get(op, op)
    (x,) = args
    first = low.b.const(kind, neutral(op, kind))
    if not is_large(x) or x.size <= low.a.most:
        x = low.a.small(x)
        count = math.prod(x.shape[d] for d in axes)
        columns = np.moveaxis(x, axes, range(len(axes))).reshape(count, *shape)
        if low.rows.width(shape) and count:
            total = columns[0]
            for column in columns[1:]:
                pair = [total.ravel().tolist(), column.ravel().tolist()]
                total = low.entrywise(partial(low.b.apply, op, kind), pair, shape)
            return total
        if not shape and op in _ANY_ORDER:
            columns = low.rows.folded(partial(low.b.apply, op, kind), columns.tolist(), x.shape)
        out = np.empty(shape, object)
        for index in np.ndindex(*shape):
            nodes = list(columns[(slice(None), *index)]) or [first]
            if op in _ANY_ORDER:  # in pairs, so that one need not wait for the other
                out[index] = _in_pairs(partial(low.b.apply, op, kind), nodes)
                continue
            total = nodes[0]
            for node in nodes[1:]:
                total = low.b.apply(op, kind, total, node)
            out[index] = total
        return out
    return reduced(low, x, axes, shape, lambda a, b: low.b.apply(op, kind, a, b), first)


def _in_pairs(combine: Callable[[Node, Node], Node], nodes: list[Node]) -> Node:
    while len(nodes) > 1:
        last = nodes[-1:] if len(nodes) % 2 else []
        nodes = [combine(a, b) for a, b in zip(nodes[::2], nodes[1::2], strict=False)] + last
    return nodes[0]


def reduced(
    low: Lowering,
    x: Array,
    axes: Sequence[int],
    shape: Sequence[int],
    combine: Callable[[Node, Node], Node],
    first: Node,
) -> Array:
    """A reduction of a large array, by loops over its long axes."""
    from .arrays import Stored, flat_index

    b = low.b
    short = [d for d in axes if low.a.is_written_out(x.shape, d)]
    long = [d for d in axes if d not in short]
    out = Stored(low.a.new_buffer(first.kind, max(math.prod(shape), 1)), tuple(shape))
    kept = [d for d in range(len(x.shape)) if d not in axes]

    def entries(index: list[Node], inner: list[Node]) -> Node:
        """Those along the short axes, put together."""
        full: list[Node] = [b.index(0)] * len(x.shape)
        for d, i in (*zip(kept, index, strict=True), *zip(long, inner, strict=True)):
            full[d] = i
        found = []
        for place in np.ndindex(*(x.shape[d] for d in short)):
            for d, k in zip(short, place, strict=True):
                full[d] = b.index(k)
            found.append(low.a.entry(x, list(full)))
        return reduce(combine, found)

    def one(index: list[Node]) -> None:
        at = flat_index(b, index, shape)
        if not long and 0 not in x.shape:
            b.store(out.buffer, at, entries(index, []))
            return
        b.store(out.buffer, at, first)

        def term(inner: list[Node]) -> None:
            value = entries(index, inner)
            b.store(out.buffer, at, combine(b.load(out.buffer, at), value))

        if 0 not in x.shape:
            low.a.for_each([x.shape[d] for d in long], term)

    low.a.for_each(shape, one)
    return out


@rule("argmax", "argmin")
def _argmax(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    """The first of the largest; NaN counts as larger than all."""
    b, (axis,) = low.b, eqn.params["axes"]
    kind, whole = kind_of(eqn.invars[0].aval.dtype), kind_of(eqn.params["index_dtype"])
    op = "gt" if eqn.primitive.name == "argmax" else "lt"
    x = low.a.small(args[0])
    columns = np.moveaxis(x, axis, 0)
    shape = columns.shape[1:]
    out = np.empty(shape, object)
    for index in np.ndindex(*shape):
        best, at = columns[(0, *index)], b.const(whole, 0)
        for k in range(1, len(columns)):
            node = columns[(k, *index)]
            better = b.compare(op, kind, node, best)
            if is_float(kind):  # a number is never better than NaN, which is better than a number
                undefined = b.compare("ne", kind, node, node)
                fine = b.compare("eq", kind, best, best)
                better = b.apply("and", "b1", b.apply("or", "b1", better, undefined), fine)
            best = b.select(better, node, best)
            at = b.select(better, b.const(whole, k), at)
        out[index] = at
    return out


@rule("cumsum", "cumprod", "cummax", "cummin")
def _cumulative(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    kind = kind_of(eqn.invars[0].aval.dtype)
    names = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}
    op = names[eqn.primitive.name]
    x = np.moveaxis(low.a.small(args[0]), eqn.params["axis"], 0)
    out = np.empty(x.shape, object)
    order = range(len(x))[::-1] if eqn.params["reverse"] else range(len(x))
    for index in np.ndindex(*x.shape[1:]):
        total = None
        for k in order:
            node = x[(k, *index)]
            total = node if total is None else low.b.apply(op, kind, total, node)
            out[(k, *index)] = total
    return np.moveaxis(out, 0, eqn.params["axis"])


@rule("sort")
def _sort(low: Lowering, eqn: Equation, args: list[Array]) -> list[Array]:
    """By a network of exchanges, NaN last; other arrays in the order of the first one."""
    if eqn.params["num_keys"] != 1 or args[0].size > 64:
        raise Unsupported("sorting of many numbers")
    kind, b, axis = kind_of(eqn.invars[0].aval.dtype), low.b, eqn.params["dimension"]
    columns = [np.moveaxis(np.array(low.a.small(x)), axis, 0) for x in args]
    x = columns[0]
    for index in np.ndindex(*x.shape[1:]):
        for end in range(len(x) - 1, 0, -1):
            for k in range(end):
                one, two = x[(k, *index)], x[(k + 1, *index)]
                exchange = b.compare("gt", kind, one, two)
                if is_float(kind):
                    first, second = (b.compare("ne", kind, y, y) for y in (one, two))
                    late = b.apply("and", "b1", first, b.apply("not", "b1", second))
                    exchange = b.apply("or", "b1", exchange, late)
                for y in columns:
                    one, two = y[(k, *index)], y[(k + 1, *index)]
                    y[(k, *index)] = b.select(exchange, two, one)
                    y[(k + 1, *index)] = b.select(exchange, one, two)
    return [np.moveaxis(y, 0, axis) for y in columns]
