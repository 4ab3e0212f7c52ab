"""Primitives that move entries about: nothing is computed where their indices are known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Array, Stored, flat_index, is_large
from .lowering import Lowering, _as_array, rule
from .operations import Node, Unsupported, kind_of
from .totals import neutral

if TYPE_CHECKING:
    from .._jaxprs import Equation


def moved(
    low: Lowering,
    x: Array,
    shape: Sequence[int],
    known: Callable[[np.ndarray], np.ndarray],
    source: Callable[[Sequence[Node]], Sequence[Node]],
) -> Array:
    """Entries of `x` in other places: by NumPy if it is small, else by the index they come from."""
    shape = tuple(shape)
    if not is_large(x) and math.prod(shape) <= low.a.most:
        return _as_array(known(x), shape)
    if is_large(x) and x.size <= low.a.most and math.prod(shape) <= low.a.most:
        return _as_array(known(low.a.small(x)), shape)
    if not is_large(x):
        x = low.a.stored(x)
    entry = lambda index: low.a.entry(x, source(index))  # noqa: E731
    return low.a.delayed(x.kind, shape, entry, low.a.sources(x), of=[x])


@rule("reshape")
def _reshape(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    shape = eqn.outvars[0].aval.shape
    if eqn.params.get("dimensions") is not None:
        raise Unsupported("reshape in another order")
    if is_large(args[0]):
        return Stored(low.a.stored(args[0]).buffer, shape)
    return args[0].reshape(shape)


@rule("squeeze", "expand_dims")
def _squeeze(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    return _reshape(low, _Shaped(eqn), args)


class _Shaped:
    """An equation of which only the shape of its result is of interest."""

    def __init__(self, eqn: Equation):
        self.outvars, self.params = eqn.outvars, {}


@rule("transpose")
def _transpose(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    order = eqn.params["permutation"]

    def source(index: Sequence[Node]) -> list[Node]:
        out: list[Any] = [None] * len(order)
        for i, d in zip(index, order, strict=True):
            out[d] = i
        return out

    shape = eqn.outvars[0].aval.shape
    return moved(low, args[0], shape, lambda x: np.transpose(x, order), source)


@rule("rev")
def _rev(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    axes, b = eqn.params["dimensions"], low.b
    shape = eqn.outvars[0].aval.shape

    def source(index: Sequence[Node]) -> list[Node]:
        back = lambda i, n: b.apply("sub", "i64", b.index(n - 1), i)  # noqa: E731
        return [back(i, shape[d]) if d in axes else i for d, i in enumerate(index)]

    return moved(low, args[0], shape, lambda x: np.flip(x, axes), source)


@rule("broadcast_in_dim")
def _broadcast(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    x, shape = args[0], eqn.params["shape"]
    axes = eqn.params["broadcast_dimensions"]
    if math.prod(shape) > low.a.most and x.size == 1:
        node = low.a.scalar(x)
        return low.a.delayed(node.kind, shape, lambda index: node, (), node)
    sides = [1] * len(shape)
    for size, axis in zip(x.shape, axes, strict=True):
        sides[axis] = size
    zero = low.b.index(0)

    def source(index: Sequence[Node]) -> list[Node]:
        return [index[d] if n > 1 else zero for d, n in zip(axes, x.shape, strict=True)]

    return moved(
        low,
        low.settled(x),
        shape,
        lambda x: np.broadcast_to(x.reshape(sides), shape),
        source,
    )


@rule("slice")
def _slice(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    begin, end = eqn.params["start_indices"], eqn.params["limit_indices"]
    steps, b = eqn.params["strides"] or (1,) * len(begin), low.b

    def source(index: Sequence[Node]) -> list[Node]:
        scaled = [b.apply("mul", "i64", i, b.index(s)) for i, s in zip(index, steps)]
        return [b.apply("add", "i64", i, b.index(k)) for i, k in zip(scaled, begin, strict=True)]

    shape = eqn.outvars[0].aval.shape
    known = lambda x: x[tuple(map(slice, begin, end, steps))]  # noqa: E731
    if is_large(args[0]) and math.prod(shape) <= low.a.most:  # only what is needed is read
        if isinstance(args[0], Stored) and shape and set(steps) == {1}:
            return low.a.box(args[0], [b.index(k) for k in begin], shape)
        return low.a.small(
            low.a.delayed(args[0].kind, shape, lambda i: low.a.entry(args[0], source(i)), ())
        )
    return moved(low, args[0], shape, known, source)


@rule("concatenate")
def _concatenate(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    axis, shape, b = eqn.params["dimension"], eqn.outvars[0].aval.shape, low.b
    if math.prod(shape) <= low.a.most:
        return np.concatenate([low.a.small(x) for x in args], axis=axis)
    out = Stored(low.a.new_buffer(kind_of(eqn.outvars[0].aval.dtype), math.prod(shape)), shape)
    firsts = np.cumsum([0, *(x.shape[axis] for x in args)]).tolist()
    # single numbers come first, so that loops follow one another
    for x, at in sorted(zip(args, firsts), key=lambda pair: is_large(pair[0])):

        def place(index: Sequence[Node], at: int = at) -> list[Node]:
            moved = b.apply("add", "i64", index[axis], b.index(at))
            return [*index[:axis], moved, *index[axis + 1 :]]

        _put(low, out, x, place)
    return out


def _put(
    low: Lowering, out: Stored, x: Array, place: Callable[[Sequence[Node]], list[Node]]
) -> None:
    """Entries of `x` into an array in memory."""
    b = low.b

    def put(index: Sequence[Node]) -> None:
        b.store(out.buffer, flat_index(b, place(index), out.shape), low.a.entry(x, index))

    if not is_large(x):
        for index in np.ndindex(*x.shape):
            put([b.index(i) for i in index])
    else:
        low.a.for_each(x.shape, put)


@rule("stack")
def _stack(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    shape, axis = eqn.outvars[0].aval.shape, eqn.params.get("axis", 0)
    if math.prod(shape) <= low.a.most:
        return np.stack([low.a.small(x) for x in args], axis=axis)
    out = Stored(low.a.new_buffer(kind_of(eqn.outvars[0].aval.dtype), math.prod(shape)), shape)
    for k, x in enumerate(args):
        at = low.b.index(k)
        _put(low, out, x, lambda index, at=at: [*index[:axis], at, *index[axis:]])
    return out


def _part(
    low: Lowering, x: Array, shape: Sequence[int], place: Callable[[Sequence[Node]], list[Node]]
) -> Array:
    """A part of a large array: `place` says where an entry is in it."""
    entry = lambda index: low.a.entry(x, place(index))  # noqa: E731
    out = low.a.delayed(x.kind, shape, entry, low.a.sources(x), of=[x])
    return low.a.small(out) if math.prod(shape) <= low.a.most else out


@rule("unstack")
def _unstack(low: Lowering, eqn: Equation, args: list[Array]) -> list[Array]:
    axis, x = eqn.params.get("axis", 0), args[0]
    shapes = [v.aval.shape for v in eqn.outvars]
    if not is_large(x) or x.size <= low.a.most:
        rows = np.moveaxis(low.a.small(x), axis, 0)
        return [np.asarray(row, object).reshape(n) for row, n in zip(rows, shapes)]
    axis %= len(x.shape)
    at = [low.b.index(k) for k in range(len(shapes))]
    return [
        _part(low, x, shape, lambda i, k=k: [*i[:axis], k, *i[axis:]])
        for shape, k in zip(shapes, at, strict=True)
    ]


@rule("split")
def _split(low: Lowering, eqn: Equation, args: list[Array]) -> list[Array]:
    sizes, axis, x, b = eqn.params["sizes"], eqn.params["axis"], args[0], low.b
    if not is_large(x) or x.size <= low.a.most:
        return list(np.split(low.a.small(x), np.cumsum(sizes)[:-1], axis=axis))

    def place(index: Sequence[Node], first: int) -> list[Node]:
        moved = b.apply("add", "i64", index[axis], b.index(first))
        return [*index[:axis], moved, *index[axis + 1 :]]

    firsts = np.cumsum([0, *sizes[:-1]]).tolist()
    return [
        _part(low, x, v.aval.shape, partial(place, first=first))
        for v, first in zip(eqn.outvars, firsts, strict=True)
    ]


@rule("tile")
def _tile(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    x, reps, b = args[0], eqn.params["reps"], low.b
    shape, zero = eqn.outvars[0].aval.shape, b.index(0)

    def along(i: Node, size: int, times: int) -> Node:
        if times == 1:
            return i
        return zero if size == 1 else b.apply("rem", "i64", i, b.index(size))

    def source(index: Sequence[Node]) -> list[Node]:
        return [along(*each) for each in zip(index, x.shape, reps, strict=True)]

    return moved(low, low.settled(x), shape, lambda x: np.tile(x, reps), source)


@rule("iota")
def _iota(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    kind, b = kind_of(eqn.params["dtype"]), low.b
    if math.prod(shape) > low.a.most:
        return low.a.delayed(kind, shape, lambda index: b.convert(index[axis], kind))
    along = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    return low.a.small_of(kind, np.broadcast_to(along, shape))


@rule("empty", "empty2")
def _empty(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    """Numbers that nobody reads."""
    shape, kind = eqn.outvars[0].aval.shape, kind_of(eqn.outvars[0].aval.dtype)
    node = low.b.unset(kind)
    if math.prod(shape) > low.a.most:
        return low.a.delayed(kind, shape, lambda index: node, (), node)
    return np.full(shape, node, dtype=object)


@rule("pad")
def _pad(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    config, shape = eqn.params["padding_config"], eqn.outvars[0].aval.shape
    fill = low.a.scalar(args[1])
    if math.prod(shape) > low.a.most:
        return _padded(low, args[0], fill, config, shape)
    x = low.a.small(args[0])
    out = np.full(shape, fill, dtype=object)
    for index in np.ndindex(*x.shape):
        place = [lo + i * (step + 1) for i, (lo, _, step) in zip(index, config, strict=True)]
        if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
            out[tuple(place)] = x[index]
    return out


def _padded(low: Lowering, x: Array, fill: Node, config: Any, shape: Sequence[int]) -> Array:
    b, kind = low.b, fill.kind
    out = Stored(
        low.a.own(low.a.delayed(kind, shape, lambda index: fill, (), fill), kind), tuple(shape)
    )
    # per axis: the first entry that is not cut off, how many there are, their steps
    first = [max(0, -(lo // (step + 1))) for lo, _, step in config]
    ends = [(n - 1 - lo) // (step + 1) + 1 for n, (lo, _, step) in zip(shape, config, strict=True)]
    sizes = [min(n, end) - k for n, end, k in zip(x.shape, ends, first, strict=True)]
    if min(sizes) <= 0:
        return out

    def source(index: Sequence[Node]) -> list[Node]:
        return [b.apply("add", "i64", i, b.index(k)) for i, k in zip(index, first, strict=True)]

    def place(index: Sequence[Node]) -> list[Node]:
        scaled = [
            b.apply("mul", "i64", i, b.index(step + 1))
            for i, (_, _, step) in zip(source(index), config, strict=True)
        ]
        return [
            b.apply("add", "i64", i, b.index(lo))
            for i, (lo, _, _) in zip(scaled, config, strict=True)
        ]

    inside = tuple(slice(k, k + n) for k, n in zip(first, sizes, strict=True))
    _put(low, out, moved(low, x, sizes, lambda x: x[inside], source), place)
    return out


# -- at indices that may not be known ------------------------------------------------------------


def clamped(low: Lowering, start: Node, most: int) -> Node:
    """An index between 0 and `most`, as i64."""
    b = low.b
    if most <= 0:
        return b.index(0)
    if start.kind == "u64":
        start = b.apply("min", "u64", start, b.const("u64", most))
    start = b.convert(start, "i64")
    return b.apply("min", "i64", b.apply("max", "i64", start, b.index(0)), b.index(most))


@rule("dynamic_slice")
def _dynamic_slice(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    x, b = args[0], low.b
    sizes = eqn.params["slice_sizes"]
    begin = [
        clamped(low, low.a.scalar(i), n - w)
        for i, n, w in zip(args[1:], x.shape, sizes, strict=True)
    ]
    if not is_large(x) and all(i.op == "const" for i in begin):
        place = tuple(slice(i.data, i.data + w) for i, w in zip(begin, sizes, strict=True))
        return _as_array(x[place], tuple(sizes))
    x = low.a.stored(x)

    if math.prod(sizes) <= low.a.most and sizes[1:] == x.shape[1:]:  # one after the other
        first = flat_index(b, [begin[0], *[b.index(0)] * (len(sizes) - 1)], x.shape)
        return low.a.loaded(x.buffer, first, tuple(sizes))
    if sizes and math.prod(sizes) <= low.a.most:
        return low.a.box(x, begin, sizes)

    def entry(index: Sequence[Node]) -> Node:
        at = [b.apply("add", "i64", i, k) for i, k in zip(index, begin, strict=True)]
        return b.load(x.buffer, flat_index(b, at, x.shape))

    return low.a.delayed(x.kind, tuple(sizes), entry, [x.buffer])


@rule("dynamic_update_slice")
def _dynamic_update_slice(low: Lowering, eqn: Equation, args: list[Any]) -> Array:
    target, new, b = args[0], args[1], low.b
    shape = target.array.shape
    begin = [
        clamped(low, low.a.scalar(i), n - w)
        for i, n, w in zip(args[2:], shape, new.shape, strict=True)
    ]
    if not is_large(target.array) and all(i.op == "const" for i in begin):
        out = np.array(target.array)
        place = tuple(slice(i.data, i.data + w) for i, w in zip(begin, new.shape, strict=True))
        out[place] = low.a.small(new)
        return out
    new = low.settled(new)
    x = low.to_overwrite(target, kind_of(eqn.outvars[0].aval.dtype))

    def put(index: Sequence[Node]) -> None:
        at = [b.apply("add", "i64", i, k) for i, k in zip(index, begin, strict=True)]
        b.store(x.buffer, flat_index(b, at, shape), low.a.entry(new, list(index)))

    if is_large(new):
        low.a.for_each(new.shape, put)
    elif new.shape[1:] == shape[1:]:  # one after the other
        first = flat_index(b, [begin[0], *[b.index(0)] * (len(shape) - 1)], shape)
        low.a.write(x.buffer, new.ravel().tolist(), first)
    else:
        for index in np.ndindex(*new.shape):
            put([b.index(i) for i in index])
    return x


def _mode(eqn: Equation) -> str:
    name = str(eqn.params["mode"]).upper()
    for known in ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS", "ONE_HOT"):
        if known in name:
            return known
    raise Unsupported(f"indexing by {name}")


@rule("gather")
def _gather(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    b, dims, sizes = low.b, eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    x, indices = args[0], low.settled(args[1])
    shape, mode = eqn.outvars[0].aval.shape, _mode(eqn)
    dropped = (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    spread = [d for d in range(len(x.shape)) if d not in dropped]
    batch = [d for d in range(len(shape)) if d not in dims.offset_dims]
    fill = None
    if mode == "FILL_OR_DROP":
        kind = kind_of(eqn.outvars[0].aval.dtype)
        given = eqn.params.get("fill_value")
        fill = b.const(kind, math.nan if kind[0] == "f" else 0 if given is None else given)
        if kind[0] in "iu" and given is None:
            fill = b.const(kind, neutral("max" if kind[0] == "i" else "min", kind))
        elif given is not None:
            fill = b.const(kind, given)
        elif kind == "b1":
            fill = b.const(kind, True)
    large = is_large(x) or math.prod(shape) > low.a.most
    source = low.a.stored(x) if large else x
    if is_large(source) or any(n.op != "const" for n in _nodes(indices)):
        source = low.a.stored(x)

    def entry(index: Sequence[Node]) -> Node:
        outer = [index[d] for d in batch]
        inner = dict(zip(spread, (index[d] for d in dims.offset_dims), strict=True))
        at: list[Any] = [None] * len(x.shape)
        good = b.const("b1", True)
        for d in range(len(x.shape)):
            place = b.index(0)
            if d in dims.start_index_map:
                k = dims.start_index_map.index(d)
                given = low.a.entry(indices, [*outer, b.index(k)])
                start = b.convert(given, "i64")
                most = x.shape[d] - sizes[d]
                place = clamped(low, given, most)
                if fill is not None:
                    good = b.apply("and", "b1", good, b.compare("eq", "i64", place, start))
            elif d in dims.operand_batching_dims:
                k = dims.operand_batching_dims.index(d)
                place = outer[dims.start_indices_batching_dims[k]]
            if d in inner:
                place = b.apply("add", "i64", place, inner[d])
            at[d] = place
        found = low.a.entry(source, at)
        return found if fill is None else b.select(good, found, fill)

    if math.prod(shape) <= low.a.most:
        out = np.empty(shape, object)
        for index in np.ndindex(*shape):
            out[index] = entry([b.index(i) for i in index])
        return out
    if not is_large(indices):
        indices = low.a.stored(indices)
    reads = [*low.a.sources(source), *low.a.sources(indices)]
    return low.a.stored(low.a.delayed(kind_of(eqn.outvars[0].aval.dtype), shape, entry, reads))


def _nodes(x: Array) -> list[Node]:
    return x.ravel().tolist() if isinstance(x, np.ndarray) else [Node("load", "i64")]


@rule("scatter", "scatter-add", "scatter-mul", "scatter-sub", "scatter-min", "scatter-max")
def _scatter(low: Lowering, eqn: Equation, args: list[Any]) -> Array:
    name, b, dims = eqn.primitive.name, low.b, eqn.params["dimension_numbers"]
    target, indices, new = args[0], low.settled(args[1]), low.settled(args[2])
    whole = target.array if hasattr(target, "array") else target
    mine = target.mine if hasattr(target, "array") else False
    shape, mode = whole.shape, _mode(eqn)
    kind = kind_of(eqn.outvars[0].aval.dtype)
    op = name[8:] or None
    if op == "add" and kind == "b1":
        raise Unsupported("sums of truth values")
    dropped = (*dims.inserted_window_dims, *dims.operand_batching_dims)
    window = [d for d in range(len(shape)) if d not in dropped]
    batch = [d for d in range(len(new.shape)) if d not in dims.update_window_dims]
    sizes = [1] * len(shape)
    for d, n in zip(window, (new.shape[k] for k in dims.update_window_dims), strict=True):
        sizes[d] = n
    known = not is_large(whole) and all(n.op == "const" for n in _nodes(indices))
    if not known or is_large(whole):
        from .lowering import _Target

        place: Any = low.to_overwrite(_Target(whole, mine), kind)
    else:
        place = np.array(whole)

    def put(index: Sequence[Node]) -> None:
        outer = [index[d] for d in batch]
        inner = dict(zip(window, (index[d] for d in dims.update_window_dims), strict=True))
        at: list[Any] = [None] * len(shape)
        good = b.const("b1", True)
        for d in range(len(shape)):
            where = b.index(0)
            if d in dims.scatter_dims_to_operand_dims:
                k = dims.scatter_dims_to_operand_dims.index(d)
                given = low.a.entry(indices, [*outer, b.index(k)])
                start = b.convert(given, "i64")
                where = clamped(low, given, shape[d] - sizes[d])
                # XLA drops those out of range even if it was promised that there are none
                if mode != "CLIP":
                    good = b.apply("and", "b1", good, b.compare("eq", "i64", where, start))
            elif d in dims.operand_batching_dims:
                k = dims.operand_batching_dims.index(d)
                where = outer[dims.scatter_indices_batching_dims[k]]
            if d in inner:
                where = b.apply("add", "i64", where, inner[d])
            at[d] = where
        value = low.a.entry(new, list(index))
        if isinstance(place, np.ndarray):
            spot = tuple(i.data for i in at)
            old: Node = place.item(*spot)
            place[spot] = b.select(
                good, value if op is None else b.apply(op, kind, old, value), old
            )
            return
        spot = flat_index(b, at, shape)
        old = b.load(place.buffer, spot)
        value = value if op is None else b.apply(op, kind, old, value)
        b.store(place.buffer, spot, b.select(good, value, old))

    if math.prod(new.shape) <= low.a.most or isinstance(place, np.ndarray):
        for index in np.ndindex(*new.shape):
            put([b.index(i) for i in index])
    else:
        if not is_large(indices):
            indices = low.a.stored(indices)
        if not is_large(new):
            new = low.a.stored(new)
        low.a.for_each(new.shape, put)
    return place
