"""Functions of few numbers as expressions of scalars, which compile to the fastest code.

A small function written with arrays (a constraint, a mass matrix) is traced and taken apart into
the scalar operations it is made of. What is known beforehand is not computed: a Jacobian's zeros
and ones, and all that follows from them. Common parts are computed once.

`Graph.values` turns expressions into numbers again, in stages: what is expensive, or used several
times, is computed into one vector, and the next stage starts from there. XLA otherwise repeats such
work at each use, sines and cosines included, since it believes them to be cheap. A barrier keeps it
from looking through the vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend import core as jax_core
from jax.lax import optimization_barrier

Scalar = Any  # an Expression, or a number that is known

# Values that cost at least this many operations are not computed twice.
_WORTH_KEEPING = 3
# Functions of more operations, or of larger arrays, are better left in one piece.
_MOST_OPERATIONS = 3000
_LARGEST_ARRAY = 1024

_EXPENSIVE = {
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh"),
    *("acosh", "atanh", "exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "pow"),
    *("logistic", "erf", "erfc", "div", "rem"),
}
_CHEAP = {
    *("add", "sub", "mul", "neg", "abs", "sign", "max", "min", "integer_pow", "square", "floor"),
    *("ceil", "round", "select_n", "clamp", "nextafter"),
}
_LOGICAL = {"is_finite", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "xor"}
# Those that are done by a method of `Graph`, with what is known taken into account.
_FOLDED = {"add", "sub", "mul", "div", "neg", "select_n", "integer_pow"}
# How some are done with numbers that are known.
_NUMPY: dict[Hashable, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "lt": np.less,
    "gt": np.greater,
    "eq": np.equal,
    "ne": np.not_equal,
}
# Primitives that only move entries about; where to is found by moving their numbers.
_MOVING = {
    *("reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose", "slice", "rev"),
    *("gather", "dynamic_slice", "split", "unstack", "tile"),
}


def _broadcast(x: np.ndarray, shape: Any, broadcast_dimensions: Any, **_: Any) -> np.ndarray:
    sides = [1] * len(shape)
    for size, axis in zip(x.shape, broadcast_dimensions, strict=True):
        sides[axis] = size
    return np.broadcast_to(x.reshape(sides), shape)


def _slice(x: np.ndarray, start_indices: Any, limit_indices: Any, strides: Any) -> np.ndarray:
    steps = strides or (1,) * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


# How the usual ones are done with numpy, which costs less.
_NUMPY_MOVES: dict[str, Callable[..., np.ndarray]] = {
    "reshape": lambda x, new_sizes, **_: x.reshape(new_sizes),
    "squeeze": lambda x, dimensions: np.squeeze(x, axis=dimensions),
    "expand_dims": lambda x, dimensions: np.expand_dims(x, dimensions),
    "transpose": lambda x, permutation: np.transpose(x, permutation),
    "rev": lambda x, dimensions: np.flip(x, dimensions),
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
}
# Primitives that call functions, and what they call these.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "checkpoint": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}


class NotScalar(Exception):
    """A function has operations that are not taken apart into scalar ones."""


class Expression:
    """A scalar that depends on the inputs of its graph."""

    __slots__ = ("args", "cost", "graph", "level", "op", "uses", "value")

    def __init__(self, graph: Graph, op: Any, args: tuple[Scalar, ...], value: Any = None):
        self.graph, self.op, self.args, self.value = graph, op, args, value
        self.level = self.cost = self.uses = 0

    @property
    def name(self) -> str:
        """Of its operation; "" for an input."""
        if self.op is None:
            return ""
        return self.op[0] if isinstance(self.op[0], str) else self.op[0][0]

    def __add__(self, other: Scalar) -> Scalar:
        return self.graph.add(self, other)

    def __radd__(self, other: Scalar) -> Scalar:
        return self.graph.add(other, self)

    def __sub__(self, other: Scalar) -> Scalar:
        return self.graph.sub(self, other)

    def __rsub__(self, other: Scalar) -> Scalar:
        return self.graph.sub(other, self)

    def __mul__(self, other: Scalar) -> Scalar:
        return self.graph.mul(self, other)

    def __rmul__(self, other: Scalar) -> Scalar:
        return self.graph.mul(other, self)

    def __truediv__(self, other: Scalar) -> Scalar:
        return self.graph.div(self, other)

    def __rtruediv__(self, other: Scalar) -> Scalar:
        return self.graph.div(other, self)

    def __neg__(self) -> Scalar:
        return self.graph.neg(self)


def known(x: Scalar, value: float) -> bool:
    """Whether a scalar is known to be this number."""
    return not isinstance(x, Expression) and x == value


class Graph:
    """Expressions of common inputs; equal ones are the same object."""

    def __init__(self) -> None:
        self._made: dict[Any, Scalar] = {}
        self._order: list[Expression] = []
        self._most: int | None = None  # what may be made of a function

    def inputs(self, x: Any) -> np.ndarray:
        """An array as an array of expressions; what is known of it is left as it is."""
        if isinstance(x, np.ndarray) and x.dtype == object:
            entries = [x[index] for index in np.ndindex(x.shape)]
        elif isinstance(x, jax.Array):
            entries = [_Entry(x, index) for index in np.ndindex(x.shape)]
        else:
            return _known(np.asarray(x))
        out = np.empty(len(entries), object)
        for i, entry in enumerate(entries):
            is_known = isinstance(entry, int | float | np.generic)
            out[i] = entry if is_known else self._new(None, (), entry)
        return out.reshape(x.shape)

    def _new(self, op: Any, args: tuple[Scalar, ...], value: Any = None) -> Expression:
        made = Expression(self, op, args, value)
        self._order.append(made)
        return made

    # -- arithmetic with what is known ------------------------------------------------------

    def add(self, a: Scalar, b: Scalar) -> Scalar:
        if known(a, 0):
            return b
        if known(b, 0):
            return a
        return self.apply("add", jax.lax.add, a, b)

    def sub(self, a: Scalar, b: Scalar) -> Scalar:
        if known(b, 0):
            return a
        if known(a, 0):
            return self.neg(b)
        return self.apply("sub", jax.lax.sub, a, b)

    def mul(self, a: Scalar, b: Scalar) -> Scalar:
        if known(a, 0) or known(b, 0):
            return 0.0
        if known(a, 1):
            return b
        if known(b, 1):
            return a
        if known(a, -1):
            return self.neg(b)
        if known(b, -1):
            return self.neg(a)
        return self.apply("mul", jax.lax.mul, a, b)

    def div(self, a: Scalar, b: Scalar) -> Scalar:
        if known(a, 0):
            return 0.0
        if known(b, 1):
            return a
        return self.apply("div", jax.lax.div, a, b)

    def neg(self, a: Scalar) -> Scalar:
        if isinstance(a, Expression) and a.name == "neg":
            return a.args[0]
        return self.apply("neg", jax.lax.neg, a)

    def integer_pow(self, a: Scalar, y: int) -> Scalar:
        if y == 2:
            return self.mul(a, a)
        return self.apply(("integer_pow", y), partial(jax.lax.integer_pow, y=y), a)

    def select_n(self, which: Scalar, *cases: Scalar) -> Scalar:
        if not isinstance(which, Expression):
            return cases[int(which)]
        return self.apply("select_n", _select, which, *cases)

    def apply(self, name: Hashable, function: Callable[..., Any], *args: Scalar) -> Scalar:
        """A function of scalars, known by its name."""
        if not any(isinstance(x, Expression) for x in args):
            if name in _NUMPY:
                return _NUMPY[name](*args)
            with jax.ensure_compile_time_eval():
                return np.asarray(function(*map(jnp.asarray, args)))[()]
        key = name, tuple(map(_identity, args))
        if key not in self._made:
            if self._most is not None and len(self._order) >= self._most:
                raise NotScalar("too many operations")
            self._made[key] = self._new((name, function), args)
        return self._made[key]

    # -- functions ------------------------------------------------------------------------------

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """A function of arrays, called with trees of arrays of expressions; returns such a tree.

        Raises `NotScalar` if it has operations that are not taken apart.
        """
        return self.traced(function, *args)(*args)

    def traced(self, function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
        """`call` of a function with arguments like these, traced once for several calls."""
        leaves, structure = jax.tree.flatten(args)
        shapes = [jax.ShapeDtypeStruct(np.shape(x), _dtype(x)) for x in leaves]
        closed, out = jax.make_jaxpr(
            lambda *x: function(*structure.unflatten(x)), return_shape=True
        )(*shapes)

        def call(*args: Any) -> Any:
            given = [np.asarray(x, object) for x in jax.tree.leaves(args)]
            self._most = len(self._order) + _MOST_OPERATIONS
            values = self._run(closed.jaxpr, closed.consts, given)
            self._most = None
            return jax.tree.structure(out).unflatten(values)

        return call

    def _run(self, jaxpr: Any, consts: Any, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        env: dict[Any, np.ndarray] = {}

        def read(x: Any) -> np.ndarray:
            return _known(np.asarray(x.val)) if isinstance(x, jax_core.Literal) else env[x]

        fixed = [x if isinstance(x, Tracer) else np.asarray(x) for x in consts]
        env.update(zip(jaxpr.constvars, map(self.inputs, fixed), strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            if any(x.aval.size > _LARGEST_ARRAY for x in eqn.outvars):
                raise NotScalar(eqn.primitive.name)
            out = self._equation(eqn, [read(x) for x in eqn.invars])
            env.update(zip(eqn.outvars, out, strict=True))
        return [read(x) for x in jaxpr.outvars]

    def _equation(self, eqn: Any, args: list[np.ndarray]) -> list[np.ndarray]:
        name, primitive, params = eqn.primitive.name, eqn.primitive, eqn.params
        if name == "add_any":  # by which derivatives are summed
            name, primitive = "add", jax.lax.add_p
        if name in _CALLS:
            inner = params[_CALLS[name]]
            closed = isinstance(inner, jax_core.ClosedJaxpr)
            return self._run(*((inner.jaxpr, inner.consts) if closed else (inner, ())), args)
        if name in _MOVING:
            return self._moved(primitive, params, args)
        if name in _EXPENSIVE or name in _CHEAP or name in _LOGICAL:
            return [self._elementwise(name, primitive, params, args, eqn.outvars[0].aval.shape)]
        if name in ("optimization_barrier", "copy", "copy_p"):
            return args
        special = getattr(self, f"_{name}", None)
        if special is None:
            raise NotScalar(name)
        return [special(params, *args)]

    def _elementwise(
        self, name: str, primitive: Any, params: Any, args: list[np.ndarray], shape: Any
    ) -> np.ndarray:
        if name in _FOLDED:
            function = getattr(self, name)
        else:
            full = (name, *sorted(params.items())) if params else name
            function = partial(self.apply, full, partial(primitive.bind, **params))
        if name == "integer_pow":
            function = partial(function, y=params["y"])
        out = np.empty(shape, object)
        spread = [np.broadcast_to(x, shape) for x in args]
        for index in np.ndindex(shape):
            out[index] = function(*(x[index] for x in spread))
        return out

    def _moved(self, primitive: Any, params: Any, args: list[np.ndarray]) -> list[np.ndarray]:
        first, *others = args
        if primitive.name in _NUMPY_MOVES:
            return [_NUMPY_MOVES[primitive.name](first, **params)]
        if any(map(_depends, others)):
            raise NotScalar(primitive.name)
        numbers = np.arange(first.size, dtype=float).reshape(first.shape)
        with jax.ensure_compile_time_eval():
            places = primitive.bind(*map(jnp.asarray, (numbers, *map(_plain, others))), **params)
        flat = first.ravel()
        many = primitive.multiple_results
        out = [np.asarray(x) for x in (places if many else [places])]
        if any(np.any(~np.isfinite(x)) for x in out):
            raise NotScalar(primitive.name)
        return [flat[x.astype(int)] if x.ndim else _zero_d(flat[int(x)]) for x in out]

    def _concatenate(self, params: Any, *args: np.ndarray) -> np.ndarray:
        return np.concatenate(args, axis=params["dimension"])

    def _stack(self, params: Any, *args: np.ndarray) -> np.ndarray:
        return np.stack(args, axis=params["axis"])

    def _pad(self, params: Any, x: np.ndarray, fill: np.ndarray) -> np.ndarray:
        config = params["padding_config"]
        if any(low < 0 or high < 0 or inner for low, high, inner in config):
            raise NotScalar("pad")
        sides = [(low, high) for low, high, _ in config]
        return np.pad(x, sides, constant_values=fill[()])

    def _convert_element_type(self, params: Any, x: np.ndarray) -> np.ndarray:
        new = params["new_dtype"]
        out = np.empty(x.shape, object)
        for index in np.ndindex(x.shape):
            entry = x[index]
            if isinstance(entry, Expression):
                if new != np.dtype(float):
                    raise NotScalar("convert_element_type")
                logical = entry.name in _LOGICAL
                out[index] = self.select_n(entry, 0.0, 1.0) if logical else entry
            else:
                out[index] = np.asarray(entry).astype(new)[()]
        return out

    def _iota(self, params: Any, *_: Any) -> np.ndarray:
        shape, axis = params["shape"], params["dimension"]
        along = np.arange(shape[axis], dtype=params["dtype"])
        sides = [-1 if i == axis else 1 for i in range(len(shape))]
        return _known(np.broadcast_to(along.reshape(sides), shape))

    def _scatter(
        self, params: Any, x: np.ndarray, index: np.ndarray, new: np.ndarray
    ) -> np.ndarray:
        if params["update_jaxpr"] is not None or _depends(index):
            raise NotScalar("scatter")
        both = np.concatenate([x.ravel(), new.ravel()])
        old, late = np.split(np.arange(both.size, dtype=float), [x.size])
        with jax.ensure_compile_time_eval():
            places = jax.lax.scatter_p.bind(
                *map(jnp.asarray, (old.reshape(x.shape), _plain(index), late.reshape(new.shape))),
                **params,
            )
        return both[np.asarray(places).astype(int)]

    def _reduce_sum(self, params: Any, x: np.ndarray) -> np.ndarray:
        for axis in sorted(params["axes"], reverse=True):
            x = np.asarray(sum(np.moveaxis(x, axis, 0), np.zeros(()).astype(object)), object)
        return x

    def _dot_general(self, params: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        (left, right), batch = params["dimension_numbers"]
        if any(batch):
            raise NotScalar("dot_general")
        return np.asarray(np.tensordot(a, b, axes=(left, right)), object)

    def _stop_gradient(self, params: Any, x: np.ndarray) -> np.ndarray:
        return x

    # -- numbers again --------------------------------------------------------------------------

    def values(self, outputs: np.ndarray) -> np.ndarray:
        """The expressions as numbers, computed in stages; what is known stays as it is."""
        entries: list[Scalar] = list(np.asarray(outputs, object).flat)
        self._compute([x for x in entries if isinstance(x, Expression)])
        out = np.empty(len(entries), object)
        for i, x in enumerate(entries):
            out[i] = x.value if isinstance(x, Expression) else x
        return out.reshape(np.shape(outputs))

    def arrays(self, *outputs: np.ndarray) -> list[Any]:
        """The expressions as arrays."""
        flat = np.concatenate([np.ravel(x) for x in outputs])
        if not flat.size:
            return [jnp.zeros(x.shape) for x in outputs]
        numbers = self.values(flat)
        together = optimization_barrier(jnp.stack([jnp.asarray(x, dtype=float) for x in numbers]))
        ends = np.cumsum([0, *(x.size for x in outputs)])
        return [together[a:b].reshape(x.shape) for a, b, x in zip(ends[:-1], ends[1:], outputs)]

    def _compute(self, outputs: list[Expression]) -> None:
        """Give the outputs their values, and those of the stages on the way."""
        wanted = self._needed(outputs)
        last = _levels(wanted)
        kept = [x for x in wanted if _is_kept(x)]
        numbers: dict[Expression, Any] = {}

        def number(x: Scalar) -> Any:
            if not isinstance(x, Expression):
                return x
            if isinstance(x.value, _Entry):
                x.value = x.value.array[x.value.at]
            return numbers[x] if x.value is None else x.value

        for level in range(last + 1):
            for x in wanted:
                if x.level == level and x.value is None:
                    numbers[x] = x.op[1](*_matching(map(number, x.args)))
            stage = [x for x in kept if x.level == level]
            for x, value in zip(stage, staged([numbers[x] for x in stage]), strict=True):
                x.value = value
        for x in outputs:
            x.value = number(x)

    def _needed(self, outputs: list[Expression]) -> list[Expression]:
        """What outputs depend on, in the order of computation, with the number of uses of each."""
        for x in self._order:
            x.uses = 0
        for x in outputs:
            x.uses += 1
        for x in reversed(self._order):
            if x.uses and x.value is None:
                for y in x.args:
                    if isinstance(y, Expression):
                        y.uses += 1
        return [x for x in self._order if x.uses]


class _Entry(NamedTuple):
    """An entry of an array, not yet taken from it."""

    array: Any
    at: tuple[int, ...]


def _is_kept(x: Expression) -> bool:
    if x.value is not None:
        return False
    return x.name in _EXPENSIVE or (x.uses > 1 and x.cost >= _WORTH_KEEPING)


def _levels(wanted: list[Expression]) -> int:
    """Find the stage of each expression and what it costs from the one before; the last stage."""
    last = 0
    for x in wanted:
        x.cost, x.level = 0, 0
        if x.value is None:
            x.cost = 1
            for y in x.args:
                if isinstance(y, Expression) and y.value is None:
                    kept = _is_kept(y)
                    x.level = max(x.level, y.level + kept)
                    x.cost += 0 if kept else y.cost
        last = max(last, x.level)
    return last


def staged(values: Sequence[Any]) -> list[Any]:
    """The values, through one vector that XLA computes before all that depends on them."""
    if not values:
        return []
    # of a vector of one entry nothing would remain
    padded = list(values) if len(values) > 1 else [values[0], values[0]]
    together = optimization_barrier(jnp.stack(padded))
    return [together[i] for i in range(len(values))]


def _matching(args: Iterable[Any]) -> list[Any]:
    """Operands of one type: numbers that are known take that of the others."""
    values = list(args)
    dtype = next((x.dtype for x in values if isinstance(x, jax.Array) and x.dtype != bool), None)
    return [
        x if isinstance(x, jax.Array) else jnp.asarray(x, dtype=None if _is_bool(x) else dtype)
        for x in values
    ]


def _is_bool(x: Any) -> bool:
    return isinstance(x, bool | np.bool_)


def _known(x: np.ndarray) -> np.ndarray:
    """An array of numbers that are known."""
    out = np.empty(x.shape, object)
    for index in np.ndindex(x.shape):
        out[index] = x[index]
    return out


def _depends(x: np.ndarray) -> bool:
    """Whether an entry is not known."""
    return any(isinstance(entry, Expression) for entry in x.flat)


def _zero_d(x: Scalar) -> np.ndarray:
    out = np.empty((), object)
    out[()] = x
    return out


def _plain(x: np.ndarray) -> Any:
    """Numbers that are known as an array of their own type."""
    return np.array(x.tolist())


def _dtype(x: Any) -> Any:
    """float for arrays with expressions in them."""
    entries = np.asarray(x, object)
    return float if _depends(entries) or not entries.size else _plain(entries).dtype


def _select(which: Any, *cases: Any) -> Any:
    """One of two; truth may have been kept as a number."""
    return jax.lax.select_n(which if which.dtype == bool else which != 0, *cases)


def _identity(x: Scalar) -> Any:
    return id(x) if isinstance(x, Expression) else (float(x), math.copysign(1.0, float(x)))
