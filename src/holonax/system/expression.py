"""Expressions as functions: evaluated by JAX where a run is traced, and on the host for numbers.

An `Expression` is a function of named quantities, the time t first, as drivers, actuators, applied
forces, curves and events take them; two of one text are the same function, so that they share one
compiled program. Parameters are given with each call, and may be traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from .expression_parser import (
    COMPARISONS,
    CONSTANTS,
    TIMED,
    Call,
    ExpressionError,
    Listed,
    Name,
    Number,
    Operation,
    Part,
    Word,
    fixed_names,
    is_time,
    names_in,
    parsed,
    unknown_name,
)
from .frames import Frame, PlanarFrame
from .signals import Signal, Table

if TYPE_CHECKING:
    import numpy as np
    from jax import Array

_VALUES = {"pi": math.pi, "deg": math.pi / 180}

# What each function is on the host and in a traced program.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sin": (math.sin, jnp.sin),
    "cos": (math.cos, jnp.cos),
    "tan": (math.tan, jnp.tan),
    "asin": (math.asin, jnp.arcsin),
    "acos": (math.acos, jnp.arccos),
    "atan": (math.atan, jnp.arctan),
    "sinh": (math.sinh, jnp.sinh),
    "cosh": (math.cosh, jnp.cosh),
    "tanh": (math.tanh, jnp.tanh),
    "exp": (math.exp, jnp.exp),
    "log": (math.log, jnp.log),
    "log10": (math.log10, jnp.log10),
    "sqrt": (math.sqrt, jnp.sqrt),
    "abs": (abs, jnp.abs),
    "sign": (lambda x: float((x > 0) - (x < 0)), jnp.sign),
    "floor": (lambda x: float(math.floor(x)), jnp.floor),
    "atan2": (math.atan2, jnp.arctan2),
    "hypot": (math.hypot, jnp.hypot),
    "min": (min, lambda *x: reduce(jnp.minimum, x)),
    "max": (max, lambda *x: reduce(jnp.maximum, x)),
    "where": (lambda c, x, y: x if c else y, jnp.where),
    "if": (lambda c, x, y: x if c else y, jnp.where),
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "%": lambda x, y: x % y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}
_LOGIC = {
    "and": (lambda x, y: x and y, jnp.logical_and),
    "or": (lambda x, y: x or y, jnp.logical_or),
    "not": (lambda x: not x, jnp.logical_not),
}


@dataclass(frozen=True)
class _Evaluation:
    """How a tree becomes a value: on the host (numbers only) or traced."""

    text: str
    known: Mapping[str, Any]
    host: bool

    def value(self, node: Part) -> Any:
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Name):
            return self._named(node)
        if isinstance(node, Operation):
            return self._operated(node)
        assert isinstance(node, Call)
        if node.function in TIMED:
            return self._timed(node)
        if node.function == "smooth":
            return self._called(_smooth, node, *map(self.value, node.arguments))
        if node.function == "interpolate":
            x, knots, values = node.arguments
            table = _table(self.text, knots, values)
            return _host(table, self.value(x)) if self.host else table.value(self.value(x))
        host, traced = _FUNCTIONS[node.function]
        return self._called(host if self.host else traced, node, *map(self.value, node.arguments))

    def _named(self, node: Name) -> Any:
        if node.path in _VALUES:
            return _VALUES[node.path]
        if node.path not in self.known:
            raise unknown_name(self.text, node, [*self.known, *CONSTANTS])
        return self.known[node.path]

    def _operated(self, node: Operation) -> float | Array:
        values = [self.value(x) for x in node.operands]
        if node.sign in _LOGIC:
            host, traced = _LOGIC[node.sign]
            return (host if self.host else traced)(*values)
        if len(values) == 1:
            return -values[0] if node.sign == "-" else values[0]
        if node.sign == "**":
            return self._called(_power, node, *values)
        return self._called(_OPERATIONS[node.sign], node, *values)

    def _called(
        self, function: Callable[..., Any], node: Part, *values: float | np.ndarray | Array
    ) -> float | Array:
        """The function's value; on the host one that is a finite number, or a message."""
        if not self.host:
            return function(*values)
        try:
            found = function(*values)
        except (ArithmeticError, ValueError):
            found = math.nan
        if isinstance(found, complex) or not math.isfinite(found):
            part = self.text[node.at : node.end]
            raise ExpressionError(self.text, node.at, f"{part} has no finite value.")
        return found

    def _timed(self, node: Call) -> Any:
        t = self._named(Name(node.at, node.end, None, "t"))
        if node.function == "table":
            table = _table(self.text, *node.arguments)
            return _host(table, t) if self.host else table.value(t)
        count = TIMED[node.function]
        times = [_constant(self.text, x) for x in node.arguments[:count]]
        heights = [self.value(x) for x in node.arguments[count:]]
        if node.function == "step":
            after, before = heights or (1.0, 0.0)
            chosen = t < times[0], before, after
        else:
            chosen = (t >= times[0]) & (t < times[1]), (heights or [1.0])[0], 0.0
        return _FUNCTIONS["where"][not self.host](*chosen)


def _power(x: Array, y: float | Array) -> Array:
    """x**y; by multiplication where y is a whole number, which has derivatives at zero."""
    whole = isinstance(y, float) and y.is_integer() and abs(y) < 100
    if isinstance(x, float) and isinstance(y, float):
        return x**y
    return x ** int(y) if whole else x**y


def _smooth(x: float | Array, first: float | Array, last: float | Array) -> float | Array:
    """0 below `first`, 1 above `last`, between them a polynomial with two derivatives."""
    s = (x - first) / (last - first)
    s = min(max(s, 0.0), 1.0) if isinstance(s, float) else jnp.clip(s, 0.0, 1.0)
    return s * s * s * (10.0 + s * (6.0 * s - 15.0))


def _constant(text: str, node: Part) -> float:
    """The value of a part that may depend on nothing."""
    for name in names_in(node):
        if name.path not in CONSTANTS:
            raise ExpressionError(
                text,
                name.at,
                f"{name.path!r} may change, but the times and tables of an expression are numbers "
                "that a run knows beforehand. Write the number.",
            )
    return float(_Evaluation(text, {}, True).value(node))


def _is_fixed(node: Part) -> bool:
    """Whether a part depends on nothing."""
    timed = any(isinstance(x, Call) and x.function in TIMED for x in node.all())
    return not timed and all(name.path in CONSTANTS for name in names_in(node))


def _table(text: str, times: Part, values: Part, kind: Part | None = None) -> Table:
    assert isinstance(times, Listed) and isinstance(values, Listed)
    x, y = ([_constant(text, item) for item in part.items] for part in (times, values))
    try:
        return Table(x, y, kind.text if isinstance(kind, Word) else "linear")  # pyright: ignore
    except ValueError as error:
        raise ExpressionError(text, times.at, str(error)) from None


def _host(table: Table, x: float) -> float:
    return float(table.value(x))


@dataclass(frozen=True)
class Expression(Signal):
    """The text of an expression as a function of `arguments`, and after them, if they are given, of
    parameters by name."""

    text: str
    arguments: tuple[str, ...] = ("t",)

    @property
    def tree(self) -> Part:
        return parsed(self.text)

    def evaluated(self, known: Mapping[str, np.ndarray | Array]) -> Any:
        """The value where quantities and parameters have these values, which may be traced."""
        return _Evaluation(self.text, known, False).value(self.tree)

    def __call__(self, *values: Any) -> Array:
        """The value of the arguments in their order, and of parameters."""
        known = dict(zip(self.arguments, values))
        for parameters in values[len(self.arguments) :]:
            known |= parameters
        return self.evaluated(known)

    def value(self, t: Any) -> Any:
        return self(t)

    @cached_property
    def names(self) -> dict[str, Name]:
        """The quantities it depends on, less constants; t where a function of time is used."""
        found = {node.path: node for node in reversed(names_in(self.tree))}
        for node in self.tree.all():
            if isinstance(node, Call) and node.function in TIMED:
                found.setdefault("t", Name(node.at, node.end, None, "t"))
        return {path: node for path, node in found.items() if path not in CONSTANTS}

    def check(self, known: Iterable[str], parameters: Iterable[str] = ()) -> None:
        """Refuse names that are neither quantities nor parameters, and tables that are none."""
        for path, node in self.names.items():
            if path not in known and path not in parameters:
                raise unknown_name(self.text, node, [*known, *parameters, *CONSTANTS])
        unused = [x for x in parameters if x not in self.names]
        if unused:
            raise ExpressionError(
                self.text, 0, f"the parameter {unused[0]!r} does not occur in it. Leave it out."
            )
        _ = self.breaks
        for node in self.tree.all():
            if isinstance(node, Operation | Call) and node.kind == "number" and _is_fixed(node):
                _constant(self.text, node)

    @cached_property
    def _times(self) -> list[tuple[Part, tuple[float, ...]]]:
        """The parts that are not smooth at known times."""
        out: list[tuple[Part, tuple[float, ...]]] = []
        for node in self.tree.all():
            if isinstance(node, Call) and node.function == "table":
                out.append((node, _table(self.text, *node.arguments).breaks))
            elif isinstance(node, Call) and node.function in TIMED:
                count = TIMED[node.function]
                times = tuple(_constant(self.text, x) for x in node.arguments[:count])
                if list(times) != sorted(set(times)):
                    raise ExpressionError(self.text, node.at, "its end is not after its start.")
                out.append((node, times))
            elif isinstance(node, Call) and node.function == "interpolate":
                _table(self.text, *node.arguments[1:])
            elif isinstance(node, Operation) and node.sign in COMPARISONS:
                first, second = node.operands
                if is_time(first) != is_time(second):
                    other = second if is_time(first) else first
                    if all(name.path in CONSTANTS for name in names_in(other)):
                        out.append((node, (_constant(self.text, other),)))
        return out

    @property
    def breaks(self) -> tuple[float, ...]:
        return tuple(sorted({time for _, times in self._times for time in times}))

    @property
    def announced(self) -> bool:
        known = {id(part) for node, _ in self._times for part in node.all()}
        return not any(is_time(node) and id(node) not in known for node in self.tree.all())


@dataclass(frozen=True)
class FrameExpression(Signal):
    """Expressions of the time and of the frames of some bodies, as one function.

    `parts` are texts or numbers, one for each component, or a single one that is returned bare.
    `bodies` name the frames, whose quantities are then ``crank.x``; the name is empty for those of
    a force's own body, ``x``. It is called with (t, *frames) and, if there are any, parameters; or
    with the frames before the time, as joints and events are.
    """

    parts: Any
    bodies: tuple[str, ...] = ()
    time_first: bool = True

    @property
    def expressions(self) -> list[Expression]:
        """The texts among its parts."""
        parts = self.parts if isinstance(self.parts, tuple) else (self.parts,)
        return [Expression(x) for x in parts if isinstance(x, str)]

    @property
    def names(self) -> set[str]:
        """The quantities it depends on."""
        return {name for part in self.expressions for name in part.names}

    def __call__(self, *values: Any) -> Any:
        count = len(self.bodies)
        frames = values[1 : count + 1] if self.time_first else values[:count]
        known = {"t": values[0] if self.time_first else values[count]}
        for body, frame in zip(self.bodies, frames, strict=True):
            if not isinstance(frame, Frame | PlanarFrame):  # a state of first order
                known |= _state_values(body, frame)
                continue
            prefix = f"{body}." if body else ""
            known |= {f"{prefix}{name}": x for name, x in frame_quantities(frame).items()}
        for parameters in values[count + 1 :]:
            known |= parameters

        def one(part: float | str) -> float | Array:
            return Expression(part).evaluated(known) if isinstance(part, str) else part

        return [one(x) for x in self.parts] if isinstance(self.parts, tuple) else one(self.parts)

    def value(self, t: Any) -> Any:
        return self(t)

    @property
    def breaks(self) -> tuple[float, ...]:
        return tuple(sorted({time for part in self.expressions for time in part.breaks}))

    @property
    def announced(self) -> bool:
        return all(part.announced for part in self.expressions)


def expression_names(state: str, size: int) -> list[str]:
    """What expressions call a state: by its name, or x1, x2 ... where it has several components."""
    return [f"{state}{k + 1}" for k in range(size)] if size else [state]


def _state_values(state: str, value: Array) -> dict[str, Array]:
    size = value.shape[0] if value.ndim else 0
    names = expression_names(state, size)
    return dict(zip(names, value if size else [value], strict=True))


def frame_quantities(frame: Any) -> dict[str, Any]:
    """What expressions may name of a body: its position and velocity [m, m/s, world axes], and in
    the plane its angle and angular velocity w, in space wx, wy, wz in body axes [rad/s]."""
    r, v, w = frame.r, frame.v, frame.w
    if isinstance(frame, PlanarFrame):
        return {"x": r.x, "y": r.y, "angle": frame.angle, "vx": v.x, "vy": v.y, "w": w}
    place = {"x": r.x, "y": r.y, "z": r.z, "vx": v.x, "vy": v.y, "vz": v.z}
    return {**place, "wx": w.x, "wy": w.y, "wz": w.z}


FRAME_QUANTITIES = {
    "planar": ("x", "y", "angle", "vx", "vy", "w"),
    "spatial": ("x", "y", "z", "vx", "vy", "vz", "wx", "wy", "wz"),
}


def number(text: str, known: Mapping[str, float]) -> float:
    """The value of an expression of known numbers, on the host; finite, or an error."""
    return float(_Evaluation(text, known, True)._called(float, parsed(text), _top(text, known)))


def _top(text: str, known: Mapping[str, float]) -> float:
    return _Evaluation(text, known, True).value(parsed(text))


def with_numbers(text: str, known: Mapping[str, float], *, all: bool = False) -> str:
    """The text with numbers for those names that decide when it is not smooth; or for `all`."""
    tree = parsed(text)
    fixed = {node.at: node for node in (names_in(tree) if all else fixed_names(tree))}
    for at in sorted(fixed, reverse=True):
        node = fixed[at]
        if node.path in known:
            value = repr(float(known[node.path]))
            value = f"({value})" if value.startswith("-") else value
            text = text[: node.at] + value + text[node.end :]
    return text
