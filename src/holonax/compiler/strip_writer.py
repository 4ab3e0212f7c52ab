"""Groups of loops over arrays, written down strip by strip; see `strips.py`."""

from __future__ import annotations

from typing import NamedTuple

from .exchange import exchange
from .llvm import _width, stored_type
from .loops import LoopEmitter
from .operations import Block, Buffer, Node
from .recompute import recompute
from .rounds import ALL, SLACK
from .slots import placed
from .strips import Local, StripPart, Strips, in_strips, with_copies

_SECOND_CACHE = 2  # what LLVM calls it
_LINE = 64  # bytes that memory is moved by
_ENTRIES = _LINE // 8  # numbers in these
# bytes of all arrays of a program, from which on it waits for memory, or for a cache that the
# processor's cores share: where others use that too, a chain of 10 000 bodies takes 15 % less time
_BEYOND_CACHE = 1 << 23
_PAST_CACHE = 1 << 26  # bytes of all arrays of a program, from which on no cache holds them
_MUCH = 1 << 24  # bytes of a group of loops that are gone from it before the next one begins


class _Asked(NamedTuple):
    """Where it is counted how many rounds have asked for lines of memory, and tables of where these
    are: entries from one to the next body, name, and how many lines a round asks for."""

    counter: str
    tables: list[tuple[int, str, int]]


class StripEmitter(LoopEmitter):
    """Writes one program down, with its long loops in strips."""

    def __init__(self, main: Block, buffers: list[Buffer], inputs: int, outputs: int):
        self._local: dict[Buffer, Local] = {}  # buffers with room for a strip, of the present group
        self._length = 0  # entries of a strip of this group
        self._past: set[Buffer] = set()  # what it writes past the cache
        self._part: StripPart | None = None  # of this group that is written now
        self._fetched: set[tuple[Buffer, int | Node]] = (
            set()
        )  # what it has fetched for the next strip
        self._asked_by_rounds = False  # whether the rounds of a loop of this group ask for that
        self._tables: list[str] = []  # rooms for where lines of memory are
        super().__init__(main, buffers, inputs, outputs)

    def _head(self, buffers: list[Buffer], inputs: int, outputs: int) -> None:
        buffers = [*buffers, *exchange(self._main)]
        if sum(x.size * _width(x.kind) for x in buffers if x.place == "scratch") >= _PAST_CACHE:
            recompute(self._main)
        made = in_strips(
            self._main, lambda node: self._spread_of(node.data) is not None, self.lanes
        )
        sizes = {x: x.size * _width(x.kind) for x in buffers if x.place == "scratch" and x.live}
        much = bool(made) and sum(sizes.values()) >= _PAST_CACHE
        if much and placed(self._main, sizes)[1] >= _PAST_CACHE:
            buffers = [*buffers, *(x for strips in made for x in with_copies(strips))]
        super()._head(buffers, inputs, outputs)

    def _strips(self, node: Node) -> None:
        """A group of loops, strip by strip."""
        strips: Strips = node.data
        self._local, self._length = strips.local, strips.length
        self._past = self._written_past_cache(strips)
        self._n += 1
        n, before = self._n, self._block
        at = f"%s{n}"
        asked = self._to_ask_for(strips)
        self._asked_by_rounds = asked is not None
        self.lines.append(f"  br label %f{n}")
        self._label(f"f{n}")
        first = len(self.lines)
        self.lines.append("")
        heads = [(at, "i64", "0", f"%t{n}")]
        for k, part in enumerate(strips.parts):
            if part.rounds is None:
                self._strip(part, strips, at)
            else:
                there = strips.length - SLACK - max(x.lag for x in strips.parts[:k])
                heads += self._rounds_of_strip(part, strips, at, there, asked)
                asked = None
        for buffer, local in strips.local.items():
            if local.kept:
                self._move_on(buffer, local, strips.length)
        self.lines.append(f"  %t{n} = add nuw nsw i64 {at}, {strips.length}")
        more = self._value(f"icmp slt i64 %t{n}, {strips.rounds * strips.length}")
        self.lines[first] = "\n".join(
            f"  {name} = phi {kind} [{start}, %{before}], [{end}, %{self._block}]"
            for name, kind, start, end in heads
        )
        self.lines.append(f"  br i1 {more}, label %f{n}, label %e{n}")
        self._label(f"e{n}")
        self._local, self._past, self._asked_by_rounds = {}, set(), False

    def _rounds_of_strip(
        self, part: StripPart, strips: Strips, at: str, there: int, asked: _Asked | None
    ) -> list[tuple[str, str, str, str]]:
        """The rounds of a loop that can be done in a strip, so many of whose blocks are `there`.
        Returns what the next strip goes on with: name, type, at first and at the end of this."""
        assert part.rounds is not None
        phis = [phi for phi in part.node.data.phis if phi.live]
        starts = [self._operands(phi.args[0]) for phi in phis]
        names = []
        for first in starts:
            names.append([f"%v{self._n + 1 + k}" for k in range(len(first))])
            self._n += len(first)
        last = (strips.rounds - 1) * strips.length
        is_last = self._value(f"icmp sge i64 {at}, {last}")
        limit = self._value(f"add nsw i64 {at}, {there}")
        limit = self._value(f"select i1 {is_last}, i64 {ALL}, i64 {limit}")
        part.rounds.limit.name = self._value(f"trunc i64 {limit} to i32")
        if asked is None:
            self._rounds(part.node, names)
        else:
            self.lines.append(f"  store i64 0, ptr {asked.counter}")
            self._rounds(part.node, names, lambda: self._ask_in_round(asked, at))
        return [
            (name, self._phi_type(phi), start, end)
            for phi, its, first in zip(phis, names, starts, strict=True)
            for name, start, end in zip(its, first, self._operands(phi), strict=True)
        ]

    def _written_past_cache(self, strips: Strips) -> set[Buffer]:
        """What a group only writes, if no cache holds it until it is read."""
        accesses = [x for part in strips.parts for x in part.accesses]
        touched = {x.buffer for x in accesses if x.buffer not in self._local}
        size = sum(x.size * _width(x.kind) for x in touched)
        if self.scratch < _PAST_CACHE or size < _MUCH:
            return set()
        read = {x.buffer for x in accesses if not x.writes}
        read = read.union(*(x.reads | x.writes | x.alone for x in strips.parts))
        return {x for x in touched - read if x.place == "scratch" and x.kind == "f64"}

    def _goes_past_cache(self, buffer: Buffer, index: Node) -> bool:
        part = self._part
        if part is None or buffer not in self._past or index not in part.places:
            return False
        whole = _LINE // _width(buffer.kind)
        step, first = part.places[index]
        return step == 1 and self.lanes == whole and not first % whole and not part.count % whole

    def _strip(self, part: StripPart, strips: Strips, at: str) -> None:
        """What one statement of a group does in a strip that begins at an entry."""
        begin, end = at, self._value(f"add nsw i64 {at}, {strips.length - part.lag}")
        if part.lag:
            begin = self._larger("gt", self._value(f"sub nsw i64 {at}, {part.lag}"), "0")
        end = self._larger("lt", end, str(part.count))
        # a loop that lags, or is shorter than others, has nothing to do in the last strip
        self._n += 1
        n, some = self._n, self._value(f"icmp slt i64 {begin}, {end}")
        self.lines.append(f"  br i1 {some}, label %p{n}, label %q{n}")
        self._label(f"p{n}")
        if part.node.op == "for":
            self._strip_of_loop(part, at, begin, end)
        elif part.node.op == "store":
            self._single_entry(part)
        else:
            self._strip_of_bytes(part, at, begin, end)
        self.lines.append(f"  br label %q{n}")
        self._label(f"q{n}")

    def _larger(self, how: str, a: str, b: str) -> str:
        which = self._value(f"icmp s{how} i64 {a}, {b}")
        return self._value(f"select i1 {which}, i64 {a}, i64 {b}")

    def _strip_of_loop(self, part: StripPart, at: str, begin: str, end: str) -> None:
        places = self._spread_of(part.node.data)
        assert places is not None
        self._part, self._fetched = part, set()
        name, given = self._loop_function(part.node.data, places, part.count)
        self._part = None
        last = self._value(f"sub nsw i64 {end}, {self.lanes}")
        touched = {x.buffer.name: x.buffer for x in part.accesses if x.buffer in self._local}
        for k in range(part.times):
            shift = k * part.count
            operands = dict(given)
            for x in given.keys() & touched.keys():
                buffer = touched[x]
                local = self._local[buffer]
                back = self._value(f"sub nsw i64 {k * (local.room - part.count)}, {at}")
                operands[x] = self._offset(buffer, back)
            ends = [self._value(f"add nsw i64 {x}, {shift}") if k else x for x in (begin, last)]
            self._call_loop(name, operands, *ends)

    def _single_entry(self, part: StripPart) -> None:
        """One number of a long array, in the first strip."""
        (access,) = part.accesses
        local, place = self._local.get(access.buffer), access.first
        if local is not None:
            which, shift = divmod(place, local.entries)
            place = which * local.room + shift - local.low
        value = self._operand(part.node.args[1])
        self.lines.append(f"  store double {value}, ptr {self._offset(access.buffer, str(place))}")

    def _strip_of_bytes(self, part: StripPart, at: str, begin: str, end: str) -> None:
        """A part of buffers is filled with zeros, or copied."""
        entries = self._value(f"sub nsw i64 {end}, {begin}")
        width = _width(part.accesses[0].buffer.kind)
        size = self._value(f"mul nsw i64 {entries}, {width}")
        for k in range(part.times):
            pointers = []
            for access in part.accesses:
                local = self._local.get(access.buffer)
                place = self._value(f"add nsw i64 {begin}, {k * part.count}")
                if local is not None:
                    inside = self._value(f"sub nsw i64 {begin}, {at}")
                    place = self._value(f"add nsw i64 {inside}, {k * local.room - local.low}")
                pointers.append(self._offset(access.buffer, place))
            if part.node.op == "zero":
                self.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
                what = f"llvm.memset.p0.i64(ptr {pointers[0]}, i8 0"
            else:
                self.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
                what = f"llvm.memcpy.p0.p0.i64(ptr {pointers[0]}, ptr {pointers[1]}"
            self.lines.append(f"  call void @{what}, i64 {size}, i1 false)")

    def _offset(self, buffer: Buffer, entries: str) -> str:
        kind = stored_type(buffer.kind)
        return self._value(f"getelementptr {kind}, ptr {buffer.name}, i64 {entries}")

    def _move_on(self, buffer: Buffer, local: Local, length: int) -> None:
        """The last entries of a strip to the beginning, for the next one."""
        self._n += 1
        n, before = self._n, self._block
        self.lines.append(f"  br label %f{n}")
        self._label(f"f{n}")
        first = len(self.lines)
        self.lines.append("")
        from_ = self._value(f"add nsw i64 %i{n}, {length}")
        target, source = self._offset(buffer, f"%i{n}"), self._offset(buffer, from_)
        self.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        size = local.kept * _width(buffer.kind)
        self.lines.append(
            f"  call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)"
        )
        following = self._value(f"add nuw nsw i64 %i{n}, {local.room}")
        more = self._value(f"icmp slt i64 {following}, {local.parts * local.room}")
        self.lines[first] = f"  %i{n} = phi i64 [0, %{before}], [{following}, %f{n}]"
        self.lines.append(f"  br i1 {more}, label %f{n}, label %e{n}")
        self._label(f"e{n}")

    def _to_ask_for(self, strips: Strips) -> _Asked | None:
        """Where the lines of memory are that a group needs, if a loop in it has rounds that can ask
        for them: an elimination has time for it, while loops over entries wait for memory."""
        if self.scratch < _BEYOND_CACHE or all(x.rounds is None for x in strips.parts):
            return None
        self._n += 1
        asked = _Asked(f"%asked{self._n}", [])
        self._tables.append(f"  {asked.counter} = alloca i64")
        for step, lines in self._lines_of(strips).items():
            name, each = f"{asked.counter}.{step}", -(-len(lines) // _ENTRIES)
            asked.tables.append((step, name, each))
            self._tables.append(f"  {name} = alloca [{each * _ENTRIES} x ptr], align 64")
            for k in range(each * _ENTRIES):
                buffer, first = lines[k % len(lines)]
                there = self._offset(buffer, str(first + step * strips.length))
                place = self._value(f"getelementptr ptr, ptr {name}, i64 {k}")
                self.lines.append(f"  store ptr {there}, ptr {place}")
        return asked

    def _lines_of(self, strips: Strips) -> dict[int, list[tuple[Buffer, int]]]:
        """Where lines begin that a group reads, or writes to without going past the cache: buffers
        and first entries, of arrays that have one number of a body beside that of the next, and of
        those that have so many of its numbers side by side."""
        found: dict[tuple[int, Buffer, int], None] = {}
        for part in strips.parts:
            for x in part.expanded():
                kept = x.buffer in self._local or x.buffer in self._past
                if not kept and x.buffer.kind == "f64":
                    found[1, x.buffer, x.first // self.lanes * self.lanes] = None
            for node in part.node.data.body.code if part.node.op == "for" else ():
                if node.op in ("load", "store") and node.data in part.reads | part.writes:
                    if node.data.kind != "f64":
                        continue
                    step, first = part.places.get(node.args[0], (0, 0))
                    if step > 1:
                        body, which = divmod(first, step)
                        found[step, node.data, body * step + which * self.lanes] = None
        lines: dict[int, list[tuple[Buffer, int]]] = {}
        for step, buffer, first in found:
            lines.setdefault(step, []).append((buffer, first))
        return lines

    def _ask_in_round(self, asked: _Asked, at: str) -> None:
        """Ask for some lines of the next strip. In as many rounds as a line has entries, all lines
        are asked for that begin at one entry: evenly, for a core can wait for few at a time."""
        count = self._value(f"load i64, ptr {asked.counter}")
        self.lines.append(f"  store i64 {self._value(f'add i64 {count}, 1')}, ptr {asked.counter}")
        which = self._value(f"and i64 {count}, {_ENTRIES - 1}")
        entry = self._value(f"add i64 {at}, {self._value(f'and i64 {count}, {-_ENTRIES}')}")
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for step, name, each in asked.tables:
            away = self._value(f"mul i64 {entry}, {step}")
            begin = self._value(f"mul i64 {which}, {each}")
            for k in range(each):
                place = self._value(f"add i64 {begin}, {k}")
                place = self._value(f"getelementptr ptr, ptr {name}, i64 {place}")
                line = self._value(f"load ptr, ptr {place}")
                there = self._value(f"getelementptr double, ptr {line}, i64 {away}")
                how = f"i32 0, i32 {_SECOND_CACHE}, i32 1"
                self.lines.append(f"  call void @llvm.prefetch.p0(ptr {there}, {how})")

    def _around(self) -> tuple[list[str], list[str]]:
        before, after = super()._around()
        return [*self._tables, *before], after

    def _fetch(self, buffer: Buffer, index: Node, pointer: str) -> None:
        """Ask for what the next strip reads or writes at the same place: each strip is too short
        for the processor to guess it."""
        assert self._part is not None
        place = self._part.places.get(index)
        line = buffer, index if place is None else place[1] // self.lanes
        if line in self._fetched:
            return
        self._fetched.add(line)
        kind = stored_type(buffer.kind)
        there = self._value(f"getelementptr {kind}, ptr {pointer}, i64 {self._length}")
        self._ask_for(buffer, there)

    def _fetch_rows(self, buffer: Buffer, step: int, first: int) -> None:
        """The same for an array that has `step` numbers of each body side by side: those of the
        bodies of a vector are as many vectors, and each of the numbers asks for one of these."""
        line = buffer, first
        if step < 0 or line in self._fetched:
            return
        self._fetched.add(line)
        body, which = divmod(first, step)
        at = self._value(f"mul nsw i64 %i, {step}")
        ahead = (body + self._length) * step + which * self.lanes
        at = self._value(f"add nsw i64 {at}, {ahead}")
        name, kind = self._in_memory(buffer), stored_type(buffer.kind)
        self._ask_for(buffer, self._value(f"getelementptr {kind}, ptr {name}, i64 {at}"))

    def _ask_for(self, buffer: Buffer, there: str) -> None:
        assert self._part is not None
        writes = any(x.buffer is buffer and x.writes for x in self._part.accesses)
        writes = writes or buffer in self._part.writes
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        how = f"i32 {int(writes)}, i32 {_SECOND_CACHE}, i32 1"
        self.lines.append(f"  call void @llvm.prefetch.p0(ptr {there}, {how})")

    def _pointers(self, buffer: Buffer, index: Node, *, fetched: bool = False) -> str:
        if buffer not in self._local:
            pointer = super()._pointers(buffer, index)
            asks = self.scratch >= _BEYOND_CACHE and not self._asked_by_rounds
            if self._part is not None and asks and not fetched:
                if self._is_even(index):
                    self._fetch(buffer, index, pointer)
                elif index in self._part.places:
                    self._fetch_rows(buffer, *self._part.places[index])
            return pointer
        assert self._part is not None
        local, first = self._local[buffer], self._part.places[index][1]
        part, shift = divmod(first, local.entries)
        name = self._in_memory(buffer)
        at = self._value(f"add nsw i64 %i, {part * local.room + shift - local.low}")
        return self._value(f"getelementptr {stored_type(buffer.kind)}, ptr {name}, i64 {at}")
