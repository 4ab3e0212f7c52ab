"""Arrays of a program that is being taken apart.

A small array is a NumPy array of nodes: every entry is a scalar of its own. A larger one lies in
memory (`Stored`), or is a rule that gives an entry for an index (`Delayed`) and is computed in a
loop when it is needed, so that a row of operations on large arrays becomes one loop.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .operations import Buffer, Builder, For, Node, kind_of
from .rows import RowMaker, parts

SMALL = 1024  # entries up to which an array is taken apart,
IN_LOOPS = 32  # and in programs of wide arrays
# Entries of an axis up to which there is no loop over it in these; if another one has many times as
# many; and how many these are.
WRITTEN_OUT, BESIDE, MANY_TIMES = 8, 36, 4
ZEROED = 16  # zeros from which on an array is filled with these first
DEEPEST = 32  # rules for large arrays that may call one another


class Stored:
    """An array in memory, in the order of C."""

    __slots__ = ("buffer", "kind", "shape")

    def __init__(self, buffer: Buffer, shape: tuple[int, ...]):
        self.buffer, self.shape, self.kind = buffer, shape, buffer.kind

    @property
    def size(self) -> int:
        return self.buffer.size


class Delayed:
    """An array by a rule: `entry(index)` makes the operations for one entry.

    It reads the buffers `sources`; before one of these is overwritten, the array is stored. `scope`
    is the block in which it was made, outside of which it means nothing; `value` what all entries
    are, if that is so; `depth` how many rules it takes, one calling the next.
    """

    __slots__ = (
        *("__weakref__", "depth", "entry", "kind", "scope", "shape", "sources", "stored", "value"),
    )

    def __init__(
        self,
        kind: str,
        shape: tuple[int, ...],
        entry: Callable[[Sequence[Node]], Node],
        sources: Sequence[Buffer],
        scope: int,
        value: Node | None = None,
        depth: int = 1,
    ):
        self.value, self.depth = value, depth
        self.kind, self.shape, self.entry, self.scope = kind, shape, entry, scope
        self.sources = tuple(dict.fromkeys(sources))
        self.stored: Stored | None = None
        for buffer in self.sources:
            buffer.waiting.append(weakref.ref(self))

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def is_zero(self) -> bool:
        """Whether all entries are known to be zero; not the other zero, whose sign is set."""
        value = self.value
        if value is None or value.op != "const" or value.data:
            return False
        return math.copysign(1.0, value.data) > 0


Large = Stored | Delayed
Array = Any  # np.ndarray of nodes, or Large


def is_large(x: Array) -> bool:
    """Whether an array is not taken apart."""
    return not isinstance(x, np.ndarray)


def flat_index(b: Builder, index: Sequence[Node], shape: Sequence[int]) -> Node:
    """The place of an entry in memory."""
    at, stride = b.index(0), 1
    for i, n in zip(reversed(index), reversed(shape), strict=True):
        if n > 1:
            at = b.apply("add", "i64", at, b.apply("mul", "i64", i, b.index(stride)))
        stride *= n
    return at


def _whole_input(nodes: list[Node]) -> Buffer | None:
    """The buffer that numbers were read from, if they are all of an input of the program."""
    single = [(x.args[0], x.data) if x.op == "part" else (x, 0) for x in nodes]
    source = single[0][0].data if single and single[0][0].op == "load" else None
    if not isinstance(source, Buffer) or source.place != "input" or source.size != len(nodes):
        return None
    for k, (load, at) in enumerate(single):
        if load.op != "load" or load.data is not source or load.args[0].op != "const":
            return None
        if load.args[0].data + at != k:
            return None
    return source


class Arrays:
    """Arrays in and out of memory."""

    def __init__(self, builder: Builder, rows: RowMaker, in_loops: bool = False) -> None:
        self.b, self.rows, self.in_loops = builder, rows, in_loops
        self.most = IN_LOOPS if in_loops else SMALL  # entries up to which an array is taken apart
        self.buffers: list[Buffer] = []
        self._constants: dict[Any, Buffer] = {}
        self.zeroed = ZEROED  # fewer zeros are written with the other entries

    # -- making -----------------------------------------------------------------------------

    def new_buffer(self, kind: str, size: int) -> Buffer:
        place = "stack" if size <= self.most else "scratch"
        buffer = Buffer(kind, size, place)
        self.buffers.append(buffer)
        return buffer

    def constant(self, x: Any) -> Array:
        """An array that is known."""
        x = np.asarray(x)
        kind = kind_of(x.dtype)
        if x.size > self.most:
            return Stored(self._constant_buffer(kind, x.ravel().tolist()), x.shape)
        return self.small_of(kind, x)

    def delayed(
        self,
        kind: str,
        shape: Sequence[int],
        entry: Callable[[Sequence[Node]], Node],
        sources: Sequence[Buffer] = (),
        value: Node | None = None,
        of: Sequence[Any] = (),
    ) -> Large:
        """An array by a rule, made in the present block; stored if it takes too many rules.

        `of` are the arrays that the rule takes entries of.
        """
        depth = 1 + max((x.depth for x in of if isinstance(x, Delayed)), default=0)
        out = Delayed(kind, tuple(shape), entry, sources, self.b.scopes[-1], value, depth)
        return out if depth < DEEPEST else self.stored(out)

    def small_of(self, kind: str, x: np.ndarray) -> np.ndarray:
        """A small array of numbers that are known."""
        out = np.empty(x.size, object)
        const = self.b.const
        for i, value in enumerate(x.ravel().tolist()):
            out[i] = const(kind, value)
        return out.reshape(x.shape)

    def _constant_buffer(self, kind: str, values: list[float]) -> Buffer:
        key = (kind, np.array(values).tobytes())
        if key not in self._constants:
            self._constants[key] = buffer = Buffer(kind, len(values), "constant", values)
            self.buffers.append(buffer)
        return self._constants[key]

    # -- reading ----------------------------------------------------------------------------

    def entry(self, x: Array, index: Sequence[Node]) -> Node:
        """One entry, by nodes as indices."""
        if isinstance(x, np.ndarray):
            if all(i.op == "const" for i in index):
                return x.item(*(i.data for i in index))
            if x.size == 1:
                return x.flat[0]
            x = self.stored(x)
        if isinstance(x, Delayed):
            if x.stored is None:
                return x.entry(index)
            x = x.stored
        return self.b.load(x.buffer, flat_index(self.b, index, x.shape))

    def small(self, x: Array) -> np.ndarray:
        """All entries as scalars."""
        if isinstance(x, np.ndarray):
            return x
        if isinstance(x, Delayed) and x.stored is None:
            out = np.empty(x.shape, object)
            for i in np.ndindex(*x.shape):
                out[i] = x.entry([self.b.index(k) for k in i])
            return out
        return self.loaded(self.stored(x).buffer, self.b.index(0), x.shape)

    def loaded(self, buffer: Buffer, first: Node, shape: Sequence[int]) -> np.ndarray:
        """An array in a buffer from some entry on, as scalars."""
        b, size = self.b, math.prod(shape)
        step = self.rows.width(shape) if buffer.kind == "f64" else 0
        out = np.empty(size, object)
        if step and not (buffer.place == "constant" and first.op == "const"):
            for k in range(0, size, step):
                at = b.apply("add", "i64", first, b.index(k))
                out[k : k + step] = parts(b.load_row(buffer, at, step))
        else:
            for k in range(size):
                out[k] = b.load(buffer, b.apply("add", "i64", first, b.index(k)))
        return out.reshape(shape)

    def box(self, x: Stored, begin: Sequence[Node], shape: Sequence[int]) -> np.ndarray:
        """What lies in an array in memory from some place on, as scalars."""
        b, out = self.b, np.empty(tuple(shape), object)
        for lead in np.ndindex(*shape[:-1]):
            at = [b.apply("add", "i64", i, b.index(k)) for i, k in zip(begin, (*lead, 0))]
            out[lead] = self.loaded(x.buffer, flat_index(b, at, x.shape), shape[-1:])
        return out

    def scalar(self, x: Array) -> Node:
        """The only entry."""
        return self.small(x).flat[0]

    def sources(self, x: Array) -> tuple[Buffer, ...]:
        """Buffers that are read when the array is."""
        if isinstance(x, np.ndarray):
            return ()
        if isinstance(x, Delayed) and x.stored is None:
            return x.sources
        return (self.stored(x).buffer,)

    # -- writing ----------------------------------------------------------------------------

    def stored(self, x: Array) -> Stored:
        """The array in memory."""
        if isinstance(x, Stored):
            return x
        if isinstance(x, Delayed):
            if x.stored is None:
                out = Stored(self.new_buffer(x.kind, x.size), x.shape)
                self._begin_large(out, x)
                x.stored = out
            return x.stored
        flat = x.ravel().tolist()
        kind = flat[0].kind if flat else "f64"
        if all(node.op == "const" for node in flat):
            return Stored(self._constant_buffer(kind, [node.data for node in flat]), x.shape)
        whole = _whole_input(flat)
        if whole is not None:
            return Stored(whole, x.shape)
        key = ("stored", *flat)
        buffer = self.b.recall(key)
        if buffer is None:
            buffer = self.new_buffer(kind, x.size)
            self._begin(buffer, flat)
            buffer.shared = True
            self.b.remember(key, buffer)
        return Stored(buffer, x.shape)

    def write(
        self,
        buffer: Buffer,
        nodes: list[Node],
        first: Node | None = None,
        but: Node | None = None,
    ) -> None:
        """Scalars into memory, one after the other, from the entry `first` on; all but those that
        are `but`, which is there already."""
        b, k = self.b, 0
        while k < len(nodes):
            if nodes[k] is but:
                k += 1
                continue
            at = b.index(k) if first is None else b.apply("add", "i64", first, b.index(k))
            node, step = nodes[k], 1
            if node.op == "part" and node.data == 0 and buffer.kind == "f64":
                row = node.args[0]
                if nodes[k : k + len(row.parts)] == row.parts:
                    node, step = row, len(row.parts)
            if not b.is_unset(node):
                b.store(buffer, at, node)
            k += step

    def _begin(self, buffer: Buffer, nodes: list[Node]) -> None:
        """All that is in a new buffer; many zeros are written at once."""
        zero = self.b.const(buffer.kind, 0)
        if nodes.count(zero) < self.zeroed:
            self.write(buffer, nodes)
        else:
            self.b.zero(buffer)
            self.write(buffer, nodes, but=zero)

    def _begin_large(self, target: Stored, x: Delayed) -> None:
        """All that is in a new buffer."""
        if x.value is not None and self.b.is_unset(x.value):
            return
        if x.is_zero:
            self.b.zero(target.buffer)
        else:
            self.fill(target, x)

    def fill(self, target: Stored, x: Delayed) -> None:
        """Compute a delayed array into memory."""

        def body(index: list[Node]) -> None:
            at = flat_index(self.b, index, target.shape)
            self.b.store(target.buffer, at, x.entry(index))

        self.for_each(x.shape, body)

    def is_written_out(self, shape: Sequence[int], axis: int) -> bool:
        """Whether there is no loop over an axis of arrays of a shape."""
        n = shape[axis]
        if n == 1 or not self.in_loops:
            return n == 1
        return n <= WRITTEN_OUT or (n <= BESIDE and n * MANY_TIMES <= max(shape))

    def for_each(self, shape: Sequence[int], body: Callable[[list[Node]], None]) -> None:
        """Loops over all indices of a shape."""

        def nest(done: list[Node]) -> None:
            if len(done) == len(shape):
                body(done)
                return
            n = shape[len(done)]
            if self.is_written_out(shape, len(done)):
                for k in range(n):
                    nest([*done, self.b.index(k)])
                return
            loop = For(n)
            before = self.b.enter(loop.body)
            nest([*done, loop.index])
            self.b.leave(before)
            self.b.statement("for", loop)

        if 0 not in shape:
            nest([])

    def own(self, x: Array, kind: str) -> Buffer:
        """A buffer of its own with the array's entries, which are of this kind."""
        buffer = self.new_buffer(kind, x.size)
        if isinstance(x, np.ndarray):
            self._begin(buffer, x.ravel().tolist())
        elif isinstance(x, Delayed) and (x.stored is None or x.is_zero):
            self._begin_large(Stored(buffer, x.shape), x)
        else:
            self.b.copy(buffer, self.stored(x).buffer)
        return buffer

    def about_to_change(self, buffer: Buffer) -> None:
        """Store delayed arrays that read a buffer, before it is written to."""
        waiting, buffer.waiting = buffer.waiting, []
        for reference in waiting:
            x = reference()
            if x is not None and x.stored is None and x.scope in self.b.scopes:
                self.stored(x)
