"""Programs as lists of scalar operations: what a jaxpr of small arrays is taken apart into.

A `Node` is one scalar: a constant, an input, the result of an operation, a number carried by a
loop. Equal operations on equal operands are one node, what is known is computed at once, and
structural zeros and ones disappear:

    0 x = 0,   1 x = x,   0 + x = x

whatever x is, so a factor that is zero by construction also hides a value that is not finite; this
is what makes a Jacobian's zeros free. Numbers that live in memory are in a `Buffer`, read and
written by index. Loops and branches hold blocks of their own. Nothing here depends on the machine
that the program is made for.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

# Kinds of scalars, by NumPy's names of their types.
KINDS = {
    "float64": "f64",
    "float32": "f32",
    "bool": "b1",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
}
DTYPES = {kind: np.dtype(name) for name, kind in KINDS.items()}
_kinds: dict[Any, str] = {}  # of types that have been seen: their names are slow to ask for


class Unsupported(Exception):
    """The program has something that this compiler does not take; it is left to XLA."""


class NotInRows(Exception):
    """An operation that is done number by number."""


def kind_of(dtype: Any) -> str:
    """The kind of a NumPy type."""
    kind = _kinds.get(dtype)
    if kind is None:
        kind = KINDS.get(str(dtype))
        if kind is None:
            raise Unsupported(f"numbers of type {dtype}")
        _kinds[dtype] = kind
    return kind


def is_float(kind: str) -> bool:
    """Whether a kind has fractions."""
    return kind[0] == "f"


def is_signed(kind: str) -> bool:
    """Whether a kind is of whole numbers of both signs."""
    return kind[0] == "i"


def bits(kind: str) -> int:
    """How many a number of this kind has."""
    return int(kind[1:])


def row_kind(kind: str, width: int) -> str:
    """The kind of a row of numbers; see `rows.py`."""
    return f"{kind}*{width}"


def scalar_kind(kind: str) -> str:
    """The kind of the numbers of a row."""
    return kind.partition("*")[0]


def width_of(kind: str) -> int:
    """How many numbers a row of this kind has."""
    return int(kind.partition("*")[2])


class Node:
    """One scalar of a program, or a row of them (see `rows.py`), or one statement."""

    __slots__ = ("args", "data", "kind", "live", "name", "op", "parts")

    def __init__(self, op: str, kind: str, args: Sequence[Any] = (), data: Any = None):
        self.op, self.kind, self.args, self.data = op, kind, args, data
        self.name = ""
        self.live = False
        self.parts: list[Node] | None = None  # of a row

    @property
    def known(self) -> bool:
        return self.op == "const"

    def __repr__(self) -> str:
        return f"<{self.op} {self.kind} {self.data if self.known else ''}>"


class Buffer:
    """Numbers in memory. `place` is "stack", "scratch", "constant", "input" or "output"."""

    __slots__ = ("data", "kind", "live", "name", "place", "shared", "size", "waiting")

    def __init__(self, kind: str, size: int, place: str, data: Any = None):
        self.kind, self.size, self.place, self.data = kind, size, place, data
        self.name = ""
        self.waiting: list[Any] = []  # delayed arrays that still have to read it
        self.shared = False  # others rely on what is in it
        self.live = False


class Block:
    """Operations in their order."""

    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code: list[Node] = []


class While:
    """A loop whose condition is looked at first. Its results are its `phis` themselves. A `rare`
    one has had its first round already. `exchanged` are arrays that change places after each
    round; see `exchange.py`."""

    __slots__ = ("body", "condition", "exchanged", "going", "phis", "rare")

    def __init__(self, rare: bool = False) -> None:
        self.rare = rare
        self.phis: list[Node] = []  # args: (start, next)
        self.condition, self.body = Block(), Block()
        self.going: Node | None = None
        self.exchanged: list[Any] = []


class Switch:
    """One of several blocks by a number; `phis` have an argument for each block."""

    __slots__ = ("blocks", "phis", "which")

    def __init__(self, which: Node, blocks: list[Block]):
        self.which, self.blocks = which, blocks
        self.phis: list[Node] = []


class For:
    """A block for each index from 0 to `count`; `apart` if no entry that it reads is written."""

    __slots__ = ("apart", "body", "count", "index")

    def __init__(self, count: int):
        self.count, self.body = count, Block()
        self.apart = False
        self.index = Node("index", "i64")


def blocks_in(node: Node) -> list[Block]:
    """The blocks inside of a statement."""
    if node.op == "while":
        return [node.data.condition, node.data.body]
    if node.op == "switch":
        return node.data.blocks
    if node.op == "strips":
        return [node.data.block]
    return [node.data.body] if node.op == "for" else []


def everything_in(node: Node) -> Iterator[Node]:
    """A node, and all inside of it."""
    yield node
    for block in blocks_in(node):
        for inner in block.code:
            yield from everything_in(inner)


def touched(node: Node) -> tuple[set[Buffer], set[Buffer]]:
    """The buffers that an operation or a statement itself reads, and those that it writes."""
    if node.op == "load":
        return {node.data}, set()
    if node.op in ("store", "zero"):
        return set(), {node.data}
    if node.op == "copy":
        target, source = node.data
        return {source}, {target}
    if node.op == "call":
        both = {buffer for buffer, _ in node.data[2]}
        return both, both
    if node.op == "while":
        both = {buffer for x in node.data.exchanged for buffer in (x.carried, x.new)}
        return both, both
    return set(), set()


def wrapped(kind: str, value: Any) -> int:
    """A whole number as it is kept in its bits."""
    n = bits(kind)
    value = int(value) & ((1 << n) - 1)
    return value - (1 << n) if is_signed(kind) and value >> (n - 1) else value


def constant(kind: str, value: Any) -> Any:
    """A number as it is kept in its kind."""
    if is_float(kind):
        return ctypes.c_float(value).value if kind == "f32" else float(value)
    return bool(value) if kind == "b1" else wrapped(kind, value)


def _quotient(a: float, b: float) -> float:
    try:
        return a / b
    except ZeroDivisionError:
        return float(np.float64(a) / np.float64(b))


def _whole_quotient(a: int, b: int) -> int:
    """XLA's: towards zero; -1 for a division by zero."""
    return -1 if b == 0 else int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b))


def _whole_remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * _whole_quotient(a, b)


def _sign(x: float) -> float:
    return x if x == 0 or x != x else math.copysign(1.0, x)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
_FLOAT: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _quotient,
    "neg": operator.neg,
    "abs": abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "round_even": np.rint,
    "sign": _sign,
    "max": np.maximum,
    "min": np.minimum,
    "rem": np.fmod,
    "nextafter": np.nextafter,
    "atan2": np.arctan2,
    "pow": np.power,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "cbrt": np.cbrt,
}
_QUIET = {"add", "sub", "mul", "neg", "abs"}  # of numbers of Python, which do not warn
_WHOLE: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _whole_quotient,
    "rem": _whole_remainder,
    "neg": operator.neg,
    "abs": abs,
    "max": max,
    "min": min,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.invert,
    "sign": lambda x: (x > 0) - (x < 0),
}
_TRUTH: dict[str, Callable[..., Any]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.not_,
    "max": operator.or_,
    "min": operator.and_,
}
# Functions that are called: by what they are called in the library of mathematics.
FUNCTIONS = {
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh"),
    *("acosh", "atanh", "exp", "exp2", "expm1", "log", "log1p", "pow", "cbrt", "erf", "erfc"),
    *("nextafter", "rem"),
}
_COMMUTING = {"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"}
# What is done to whole rows, by the kind of its operands.
_IN_ROWS = {
    "f64": {
        *("add", "sub", "mul", "div", "neg", "abs", "sqrt", "floor", "ceil", "max", "min"),
        *("sin", "cos", "exp", "log"),
    },
    "b1": {"and", "or", "xor", "not"},
}


class Builder:
    """Makes the nodes of a program, in the block that is open."""

    def __init__(self) -> None:
        self.main = Block()
        self.block = self.main
        self.count = 0
        self._constants: dict[Any, Node] = {}
        self._indices: dict[int, Node] = {}
        self._unset: dict[str, Node] = {}
        self._made: dict[Any, Node] = {}
        self._log: list[list[Any]] = [[]]
        self.scopes = [0]  # of the blocks that are open
        self._last_scope = 0
        self._width = 0  # of the rows that are computed now; 0 for numbers

    # -- scopes: what is computed inside of a block is not known outside -------------------

    def enter(self, block: Block) -> Block:
        """Go on in another block; returns the one to come back to."""
        before, self.block = self.block, block
        self._log.append([])
        self._last_scope += 1
        self.scopes.append(self._last_scope)
        return before

    def leave(self, before: Block) -> None:
        """Come back; what was made since is forgotten."""
        for key in self._log.pop():
            del self._made[key]
        self.scopes.pop()
        self.block = before

    def remember(self, key: Any, value: Any) -> None:
        """Keep something until the present block is left."""
        self._made[key] = value
        self._log[-1].append(key)

    def recall(self, key: Any) -> Any:
        return self._made.get(key)

    # -- nodes -----------------------------------------------------------------------------

    def const(self, kind: str, value: Any) -> Node:
        value = constant(kind, value)
        key = (kind, value, math.copysign(1.0, value)) if is_float(kind) else (kind, value)
        if value != value:
            key = (kind, "nan")
        node = self._constants.get(key)
        if node is None:
            node = self._constants[key] = Node("const", kind, (), value)
        return node

    def unset(self, kind: str) -> Node:
        """A number of an array that is written before it is read: a zero that is not stored."""
        node = self._unset.get(kind)
        if node is None:
            node = self._unset[kind] = Node("const", kind, (), constant(kind, 0))
        return node

    def is_unset(self, node: Node) -> bool:
        return node.op == "const" and self._unset.get(node.kind) is node

    def index(self, value: int) -> Node:
        """A constant index."""
        node = self._indices.get(value)
        if node is None:
            node = self._indices[value] = self.const("i64", value)
        return node

    def _new(self, op: str, kind: str, args: Sequence[Node], data: Any = None) -> Node:
        node = Node(op, kind, args, data)
        self.block.code.append(node)
        self.count += 1
        return node

    def _shared(self, op: str, kind: str, *args: Node) -> Node:
        key = (op, kind, *args)
        node = self._made.get(key)
        if node is None and op in _COMMUTING:
            node = self._made.get((op, kind, args[1], args[0]))
        if node is None:
            node = self._new(op, kind, args)
            self._made[key] = node
            self._log[-1].append(key)
        return node

    def apply(self, op: str, kind: str, *args: Node) -> Node:
        """An operation on scalars of one kind; comparisons give truth values."""
        if op in _COMPARE:
            return self.compare(op, kind, *args)
        if self._width:
            for x in args:
                if "*" in x.kind:
                    return self._apply_to_rows(op, kind, args)
        for x in args:
            if x.op != "const":
                break
        else:
            table = _FLOAT if is_float(kind) else _TRUTH if kind == "b1" else _WHOLE
            fold = table.get(op)
            if fold is not None:
                if op in _QUIET:
                    return self.const(kind, fold(*(x.data for x in args)))
                with np.errstate(all="ignore"):
                    return self.const(kind, fold(*(x.data for x in args)))
        special = _FOLDED.get(op)
        if special is not None:
            found = special(self, kind, *args)
            if found is not None:
                return found
        return self._shared(op, kind, *args)

    def again(self, node: Node, args: Sequence[Node]) -> Node:
        """An operation on scalars as it was made, on others."""
        if node.op == "select":
            return self.select(*args)
        if node.op == "convert":
            return self.convert(args[0], node.kind)
        return self.apply(node.op, args[0].kind if node.op in _COMPARE else node.kind, *args)

    def compare(self, op: str, kind: str, a: Node, b: Node) -> Node:
        """A truth value; `kind` is that of the operands."""
        if self._width and ("*" in a.kind or "*" in b.kind):
            if kind != "f64":
                raise NotInRows
            return self._shared(op, row_kind("b1", self._width), self._wide(a), self._wide(b))
        if a.op == "const" and b.op == "const":
            return self.const("b1", _COMPARE[op](a.data, b.data))
        if a is b and not is_float(kind):
            return self.const("b1", op in ("le", "ge", "eq"))
        return self._shared(op, "b1", a, b)

    def select(self, which: Node, yes: Node, no: Node) -> Node:
        """`yes` where `which` holds, else `no`."""
        if which.op == "const":
            return yes if which.data else no
        if yes is no:
            return yes
        if which.op == "not":
            return self.select(which.args[0], no, yes)
        if self._width and any("*" in x.kind for x in (which, yes, no)):
            kind = scalar_kind(yes.kind)
            if kind not in _IN_ROWS:
                raise NotInRows
            kind = row_kind(kind, self._width)
            return self._shared("select", kind, which, self._wide(yes), self._wide(no))
        if yes.kind == "b1":
            if yes.op == "const":
                return self.apply("or" if yes.data else "and", "b1", *self._guard(which, yes, no))
            if no.op == "const":
                other = self.apply("not", "b1", which) if no.data else which
                return self.apply("or" if no.data else "and", "b1", other, yes)
        return self._shared("select", yes.kind, which, yes, no)

    def _guard(self, which: Node, yes: Node, no: Node) -> tuple[Node, Node]:
        return (which, no) if yes.data else (self.apply("not", "b1", which), no)

    def convert(self, x: Node, kind: str) -> Node:
        """As another kind: XLA's rules, so NaN becomes 0 and too large numbers the largest."""
        if scalar_kind(x.kind) == kind:
            return x
        if x.op == "const":
            return self.const(kind, _converted(x.data, kind))
        if "*" in x.kind:
            if (scalar_kind(x.kind), kind) != ("b1", "f64"):
                raise NotInRows
            return self._shared("convert", row_kind(kind, self._width), x)
        if kind == "b1":
            return self.compare("ne", x.kind, x, self.const(x.kind, 0))
        return self._shared("convert", kind, x)

    # -- rows ------------------------------------------------------------------------------

    def in_rows(self, width: int, function: Callable[..., Node], args: Sequence[Node]) -> Node:
        """A function of rows, and of numbers that stand for rows of equal ones; a row or number."""
        self._width = width
        try:
            return function(*args)
        finally:
            self._width = 0

    def _wide(self, x: Node) -> Node:
        return x if "*" in x.kind else self.pack([x] * self._width)

    def pack(self, entries: list[Node]) -> Node:
        """A row of numbers."""
        key = ("pack", *entries)
        row = self._made.get(key)
        if row is None:
            row = self._new("pack", row_kind(entries[0].kind, len(entries)), entries)
            row.parts = entries
            self.remember(key, row)
        return row

    def _apply_to_rows(self, op: str, kind: str, args: Sequence[Node]) -> Node:
        special = _FOLDED.get(op)
        if special is not None:
            found = special(self, kind, *args)
            if found is not None:
                return found
        if op not in _IN_ROWS.get(kind, ()):
            raise NotInRows
        return self._shared(op, row_kind(kind, self._width), *map(self._wide, args))

    def load_row(self, buffer: Buffer, index: Node, width: int) -> Node:
        """Numbers in memory, one after the other."""
        fixed = buffer.place in ("constant", "input")
        key = ("load", buffer, index, width)
        row = self._made.get(key) if fixed else None
        if row is None:
            row = self._new("load", row_kind(buffer.kind, width), (index,), buffer)
            if fixed:
                self.remember(key, row)
        return row

    # -- memory ----------------------------------------------------------------------------

    def load(self, buffer: Buffer, index: Node) -> Node:
        """A number in memory."""
        if buffer.place == "constant" and index.op == "const":
            return self.const(buffer.kind, buffer.data[index.data])
        if buffer.place in ("constant", "input"):
            key = ("load", buffer, index)
            node = self._made.get(key)
            if node is None:
                node = self._new("load", buffer.kind, (index,), buffer)
                self.remember(key, node)
            return node
        return self._new("load", buffer.kind, (index,), buffer)

    def store(self, buffer: Buffer, index: Node, value: Node) -> None:
        self._new("store", buffer.kind, (index, value), buffer)

    def copy(self, target: Buffer, source: Buffer) -> None:
        """All of a buffer into another one of equal size."""
        self._new("copy", target.kind, (), (target, source))

    def zero(self, target: Buffer) -> None:
        """Fill a buffer with zeros."""
        self._new("zero", target.kind, (), target)

    def call(
        self, routine: str, numbers: Sequence[int], places: Sequence[tuple[Buffer, int]]
    ) -> None:
        """A routine on places in buffers, the entry from which on each; see `routines.py`."""
        self._new("call", "", (), (routine, tuple(numbers), tuple(places)))

    def statement(self, op: str, data: Any) -> None:
        """A loop or a branch."""
        self._new(op, "", (), data)


def _converted(value: Any, kind: str) -> Any:
    if kind == "f32" and isinstance(value, int):  # rounded once
        return np.array(value).astype(np.float32)
    if is_float(kind) or kind == "b1":
        return value
    if isinstance(value, float):
        n = bits(kind)
        low, high = (-(1 << (n - 1)), (1 << (n - 1)) - 1) if is_signed(kind) else (0, (1 << n) - 1)
        if value != value:
            return 0
        return (
            int(min(max(value, low), high))
            if math.isinf(value)
            else min(max(int(value), low), high)
        )
    return value


# What is known of an operation when some of its operands are.


def _is(x: Node, value: float) -> bool:
    return x.op == "const" and x.data == value


def _add(b: Builder, kind: str, x: Node, y: Node) -> Node | None:
    if _is(x, 0):
        return y
    if _is(y, 0):
        return x
    if is_float(kind):
        if y.op == "neg":
            return b.apply("sub", kind, x, y.args[0])
        if x.op == "neg":
            return b.apply("sub", kind, y, x.args[0])
    return None


def _sub(b: Builder, kind: str, x: Node, y: Node) -> Node | None:
    if _is(y, 0):
        return x
    if _is(x, 0):
        return b.apply("neg", kind, y)
    if y.op == "neg" and is_float(kind):
        return b.apply("add", kind, x, y.args[0])
    return None


def _mul(b: Builder, kind: str, x: Node, y: Node) -> Node | None:
    for one, other in ((x, y), (y, x)):
        if one.op == "const":
            if one.data == 0:
                return b.const(kind, 0)
            if one.data == 1:
                return other
            if one.data == -1:
                return b.apply("neg", kind, other)
    if is_float(kind):
        if x.op == "neg" and y.op == "neg":
            return b.apply("mul", kind, x.args[0], y.args[0])
        if x.op == "neg":
            return b.apply("neg", kind, b.apply("mul", kind, x.args[0], y))
        if y.op == "neg":
            return b.apply("neg", kind, b.apply("mul", kind, x, y.args[0]))
    return None


def _div(b: Builder, kind: str, x: Node, y: Node) -> Node | None:
    if _is(y, 1):
        return x
    if is_float(kind) and _is(x, 0):
        return b.const(kind, 0)
    return None


def _neg(b: Builder, kind: str, x: Node) -> Node | None:
    if x.op == "neg":
        return x.args[0]
    if x.op == "sub" and is_float(kind):
        return b.apply("sub", kind, x.args[1], x.args[0])
    return None


def _and(b: Builder, kind: str, x: Node, y: Node) -> Node | None:
    if x is y:
        return x
    if kind == "b1":
        for one, other in ((x, y), (y, x)):
            if one.op == "const":
                return other if one.data else one
    return None


def _or(b: Builder, kind: str, x: Node, y: Node) -> Node | None:
    if x is y:
        return x
    if kind == "b1":
        for one, other in ((x, y), (y, x)):
            if one.op == "const":
                return one if one.data else other
    return None


def _not(b: Builder, kind: str, x: Node) -> Node | None:
    return x.args[0] if x.op == "not" else None


def _larger(b: Builder, kind: str, x: Node, y: Node) -> Node | None:
    if kind == "b1":
        return b.apply("or", kind, x, y)
    for nothing, other in ((x, y), (y, x)):
        if nothing.op == "const" and is_float(kind) and nothing.data <= 0 and is_size(other):
            return other
    return x if x is y else None


def _smaller(b: Builder, kind: str, x: Node, y: Node) -> Node | None:
    if kind == "b1":
        return b.apply("and", kind, x, y)
    return x if x is y else None


_FOLDED: dict[str, Callable[..., Node | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "and": _and,
    "or": _or,
    "not": _not,
    "max": _larger,
    "min": _smaller,
}


def is_size(x: Node) -> bool:
    """Whether a number is known not to be negative; NaN has no sign either."""
    if x.op == "const":
        return x.data >= 0 and str(x.data)[0] != "-"
    if x.op in ("max", "min"):
        return all(map(is_size, x.args))
    return x.op == "abs" or (x.op == "select" and all(map(is_size, x.args[1:])))
