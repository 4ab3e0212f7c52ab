"""Loops over long arrays that are done strip by strip.

Loops that follow one another pass arrays on. Where these are longer than the processor's cache,
each loop waits for memory. So the loops of a group are all done for the first entries, then for
the next ones: an array that only the loops of one group use has room for one strip instead of all
entries, and never leaves the cache.

A loop that needs entries ahead of its own from an earlier one lags behind it, by as many entries;
one that needs entries behind its own finds them in what is kept of the strip before. Arrays of
several numbers for each body, one after the other in memory, are done part by part: those of one
loop over all numbers as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .fusion import even_places
from .llvm import STATEMENTS
from .operations import Block, Buffer, For, Node, blocks_in, everything_in, touched
from .rounds import NEAR, Rounds, follows, rounds_of
from .totals import totals

LENGTH = 136  # entries of a strip at most,
SHORTEST = 96  # and at least
LONG = 4  # strips from which on loops are done in these
MOST_PARTS = 64  # of an array
FURTHEST = 48  # entries that a loop may lag behind


class Access(NamedTuple):
    """Entries of a buffer that a loop reads or writes: its index, and `first`."""

    buffer: Buffer
    first: int
    writes: bool


class StripPart:
    """One statement of a group: a loop over `times` times `count` entries, which lags by `lag`; or
    one over one block after the other, of which a strip does those `rounds` that can be done."""

    def __init__(self, node: Node, times: int, count: int):
        self.node, self.times, self.count, self.lag = node, times, count, 0
        self.accesses: list[Access] = []  # entries side by side,
        self.reads: set[Buffer] = set()  # and elsewhere
        self.writes: set[Buffer] = set()
        self.alone: set[Buffer] = set()  # what no other loop of the group may touch
        self.places: dict[Node, tuple[int, int]] = {}  # (step, first) of indices
        self.rounds: Rounds | None = None  # of a loop over one block after the other

    def expanded(self) -> Iterator[Access]:
        """The accesses of loops over `count` entries."""
        for buffer, first, writes in self.accesses:
            for k in range(self.times):
                yield Access(buffer, first + k * self.count, writes)


class Local(NamedTuple):
    """A buffer with room for one strip: `parts` of so many `entries`, which have room for `room`
    each; the first is the one at `low` from the beginning of the strip. `kept` are moved on to the
    next strip."""

    parts: int
    entries: int
    room: int
    low: int
    kept: int


class Strips:
    """A group of loops: `rounds` strips of `length` entries."""

    def __init__(self, parts: list[StripPart], length: int):
        self.parts, self.length = parts, length
        self.block = Block()
        self.block.code = [x.node for x in parts]
        self.rounds = max(-(-(x.count + x.lag) // length) for x in parts)
        self.local: dict[Buffer, Local] = {}

    @property
    def passing(self) -> set[Buffer]:
        """Buffers that nothing is kept in from one strip to the next."""
        return {buffer for buffer, x in self.local.items() if not x.kept}


class _Group:
    """Statements that can be done strip by strip, as far as they are known."""

    def __init__(self) -> None:
        self.parts: list[StripPart] = []
        self.reads: set[Buffer] = set()
        self.writes: set[Buffer] = set()
        self._elsewhere: set[Buffer] = set()
        # those that write and those that read, apart: most loops read what others read, too
        self._writing: dict[Buffer, list[tuple[Access, StripPart]]] = {}
        self._reading: dict[Buffer, list[tuple[Access, StripPart]]] = {}

    def meets(self, reads: set[Buffer], writes: set[Buffer]) -> bool:
        """Whether something that reads and writes has to be done after this."""
        return bool(self.writes & (reads | writes) or self.reads & writes)

    def overlaps(self, part: StripPart) -> bool:
        """Whether something touches what a part does."""
        own = set(part.expanded())
        return any(x.buffer in self._elsewhere for x in own) or any(
            -part.count < new.first - old.first < other.count
            for new in own
            for old, other in self._known(new, with_reading=True)
        )

    def _known(self, new: Access, *, with_reading: bool) -> Iterator[tuple[Access, StripPart]]:
        """What touches the buffer of an access."""
        yield from self._writing.get(new.buffer, ())
        if with_reading:
            yield from self._reading.get(new.buffer, ())

    def add(self, part: StripPart, lanes: int) -> bool:
        """Take one more, if it can be."""
        own = list(part.expanded())
        reads = part.reads | part.alone | {x.buffer for x in own if not x.writes}
        writes = part.writes | part.alone | {x.buffer for x in own if x.writes}
        elsewhere = part.reads | part.writes | part.alone
        met = (self.writes & (reads | writes)) | (self.reads & writes)
        if met & (elsewhere | self._elsewhere):
            return False
        lag = 0
        for new in own:
            for old, other in self._known(new, with_reading=new.writes):
                ahead = new.first - old.first
                if not -part.count < ahead < other.count:
                    continue
                lag = max(lag, -(-(other.lag + ahead) // lanes) * lanes)
                if lag > FURTHEST:
                    return False
        part.lag = lag
        self.parts.append(part)
        self.reads |= reads
        self.writes |= writes
        self._elsewhere |= elsewhere
        for new in own:
            among = self._writing if new.writes else self._reading
            among.setdefault(new.buffer, []).append((new, part))
        return True

    def add_rounds(self, node: Node, rounds: Rounds) -> bool:
        """Take a loop over one block after the other, if it can be done in parts."""
        inside = [x for x in everything_in(node) if x.op != "load" or x.live]
        if any(x.op in ("for", "strips", "switch") for x in inside):
            return False
        part = StripPart(node, 1, 1)
        for x in inside:
            reads, writes = touched(x)
            part.reads |= reads
            part.writes |= writes
        met = (self.writes & (part.reads | part.writes)) | (self.reads & part.writes)
        for other in self.parts:
            if other.rounds is not None:
                theirs = other.reads | other.writes
                if met & theirs and other.rounds.table is not rounds.table:
                    return False
                continue
            theirs = other.reads | other.writes | other.alone | {x.buffer for x in other.accesses}
            if not all(follows(node, x, other) for x in met & theirs):
                return False
        part.rounds = rounds
        self.parts.append(part)
        self.reads |= part.reads
        self.writes |= part.writes
        self._elsewhere |= part.reads | part.writes
        return True


class _Later:
    """What is done after a group: numbers that are found from what it writes, and loops over one
    body after the other. What needs nothing of these can still be done before them."""

    def __init__(self) -> None:
        self.code: list[Node] = []
        self._known: set[Node] = set()
        self._reads: set[Buffer] = set()
        self._writes: set[Buffer] = set()

    def add(self, node: Node) -> None:
        """Put a number or a statement off."""
        self.code.append(node)
        for x in everything_in(node):
            self._known.add(x)
            if x.op in ("while", "switch"):
                self._known.update(x.data.phis)
            reads, writes = touched(x)
            self._reads |= reads
            self._writes |= writes

    def know(self, loop: Node) -> None:
        """A loop of the group has results of its own, which are not there before its end."""
        self._known.update(loop.data.phis)

    def is_needed(self, node: Node) -> bool:
        """Whether something has to be done after this."""
        if not self._known:
            return False
        for x in everything_in(node):
            reads, writes = touched(x)
            if self._writes & (reads | writes) or self._reads & writes:
                return True
            if any(y in self._known for y in x.args):
                return True
        return False


class _Maker:
    """Makes groups of the loops of a program; `in_vectors` says which loops can be."""

    def __init__(self, in_vectors: Callable[[Node], bool], lanes: int):
        self._in_vectors, self._lanes = in_vectors, lanes
        self.made: list[Strips] = []

    def block(self, block: Block) -> None:
        """Join the loops of a block, and of those inside of it.

        Single numbers between loops are computed before the group, or if they need one of its
        totals after it. A loop over one body after the other, an elimination along a chain, is of
        the group if its rounds can be done strip by strip, or else done after it, so that loops
        that follow but do not need it can be of the group.
        """
        count = _usual_count(block)
        filled_for = _put_zeros_off(block)
        out: list[Node] = []
        group, later = _Group(), _Later()

        def close() -> None:
            nonlocal group, later
            out.extend([*self._joined(group.parts), *later.code])
            group, later = _Group(), _Later()

        for node in block.code:
            if node.op == "for" and is_idle(node.data):
                continue
            part = self._part(node, count) if count >= LONG * LENGTH else None
            if part is not None and node.op == "store" and group.overlaps(part):
                part = None
            if part is not None:
                at_once = filled_for.get(node, node)
                if later.is_needed(at_once) or not group.add(part, self._lanes):
                    close()
                    assert group.add(part, self._lanes)
                continue
            inner = blocks_in(node)
            meets = group.meets(*touched(node))
            if not inner and node.op not in STATEMENTS and (meets or later.is_needed(node)):
                later.add(node)
                continue
            if node.op != "for":
                for x in inner:
                    self.block(x)
            if node.op == "while" and group.parts:
                rounds = rounds_of(node)
                if rounds is None or later.is_needed(node) or not group.add_rounds(node, rounds):
                    later.add(node)
                else:
                    later.know(node)
                continue
            if inner or meets or later.is_needed(node):
                close()
            out.append(node)
        close()
        block.code[:] = out

    def _joined(self, parts: list[StripPart]) -> list[Node]:
        """Statements that do a group."""
        long = [x for x in parts if _is_long(x)]
        with_rounds = [x.rounds for x in parts if x.rounds is not None]
        length = self._length(long) if long and len(long) + len(with_rounds) > 1 else None
        if length is None:
            return [x.node for x in parts]
        for rounds in with_rounds:
            rounds.stop_at_limit()
        self.made.append(Strips(parts, length))
        return [Node("strips", "", (), self.made[-1])]

    def _length(self, parts: list[StripPart]) -> int | None:
        """Entries of a strip: such that no loop ends with less than a vector, in as few strips as
        can be, all of them about as long."""
        totals = {x.count + x.lag for x in parts}
        fits = [
            length
            for length in range(SHORTEST, LENGTH + 1, self._lanes)
            if not any(0 < total % length < self._lanes for total in totals)
        ]
        return min(fits, key=lambda length: (-(-max(totals) // length), length), default=None)

    def _part(self, node: Node, usual: int) -> StripPart | None:
        """A statement as one of a group; None if it cannot be."""
        if node.op == "for":
            split = _split(node.data.count, usual)
            if split is None or not node.data.apart or not self._in_vectors(node):
                return None
            return _loop(StripPart(node, *split))
        if node.op == "store":
            return _single_entry(node, usual)
        if node.op not in ("zero", "copy"):
            return None
        target, *source = node.data if node.op == "copy" else (node.data,)
        split = _split(target.size, usual)
        if split is None or not target.live:
            return None
        if source and target.kind == "f64":
            return _loop(StripPart(_copying(target, *source), *split))
        part = StripPart(node, *split)
        part.accesses = [Access(target, 0, True), *(Access(x, 0, False) for x in source)]
        return part


def _is_long(part: StripPart) -> bool:
    """Whether a part has as many entries as there are bodies."""
    return part.rounds is None and part.node.op != "store"


def _copying(target: Buffer, source: Buffer) -> Node:
    """A copy as a loop over entries, which can write past the cache."""
    loop = For(target.size)
    loop.apart = True
    load = Node("load", source.kind, (loop.index,), source)
    load.live = True
    loop.body.code = [load, Node("store", target.kind, (loop.index, load), target)]
    return Node("for", "", (), loop)


def _put_zeros_off(block: Block) -> dict[Node, Node]:
    """Have arrays filled with zeros right before the statement that touches them first, so that
    both are of one group, and the array perhaps of one strip; returns these statements."""
    waiting: dict[Buffer, Node] = {}
    filled_for: dict[Node, Node] = {}
    out: list[Node] = []
    for node in block.code:
        if waiting:
            needed = {x for inner in everything_in(node) for x in set.union(*touched(inner))}
            for buffer in [x for x in waiting if x in needed]:
                out.append(waiting.pop(buffer))
                filled_for[out[-1]] = node
        if node.op == "zero":
            waiting[node.data] = node
        else:
            out.append(node)
    block.code[:] = [*out, *waiting.values()]
    return filled_for


def _single_entry(node: Node, usual: int) -> StripPart | None:
    """One number that is written to a known place of a long array, that of the ground among those
    of all bodies, say: done with the first strip."""
    buffer, (at, value) = node.data, node.args
    if at.op != "const" or buffer.kind != "f64" or value.kind != "f64" or not buffer.live:
        return None
    if buffer.place != "scratch" or _split(buffer.size, usual) is None:
        return None
    part = StripPart(node, 1, 1)
    part.accesses = [Access(buffer, at.data, True)]
    return part


def is_idle(loop: For) -> bool:
    """Whether nothing that a loop over entries writes is needed."""
    return all(
        node.op not in STATEMENTS or (node.op == "store" and not node.data.live)
        for node in loop.body.code
    )


def _loop(part: StripPart) -> StripPart:
    """What a loop over entries touches."""
    loop = part.node.data
    gathered = [x for x in totals(loop) if x.buffer.live]
    part.alone = {x.buffer for x in gathered}
    part.places = even_places(loop)
    for node in loop.body.code:
        if node.op not in ("load", "store") or node.data in part.alone or not node.data.live:
            continue
        if node.op == "load" and not node.live:
            continue
        writes, at = node.op == "store", part.places.get(node.args[0])
        if at is not None and at[0] == 1:
            part.accesses.append(Access(node.data, at[1], writes))
        elif writes:
            part.writes.add(node.data)
        else:
            part.reads.add(node.data)
    part.accesses = list(dict.fromkeys(part.accesses))
    return part


def _split(size: int, usual: int) -> tuple[int, int] | None:
    """(times, count) of a number of entries, the count near the usual one."""
    times = max(1, round(size / usual))
    if times > MOST_PARTS or size % times or abs(size // times - usual) > NEAR:
        return None
    return times, size // times


def _usual_count(block: Block) -> int:
    """Over how many entries most of the operations of a block are."""
    operations: dict[int, int] = {0: 0}
    for node in block.code:
        if node.op == "for":
            count = node.data.count
            operations[count] = operations.get(count, 0) + len(node.data.body.code)
    return max(operations, key=lambda count: operations[count])


def in_strips(main: Block, in_vectors: Callable[[Node], bool], lanes: int) -> list[Strips]:
    """Have the long loops of a program done in strips; returns the groups."""
    maker = _Maker(in_vectors, lanes)
    maker.block(main)
    if not maker.made:
        return []
    homes: dict[Buffer, set[int]] = {}
    _find_homes(main, 0, homes)
    for strips in maker.made:
        _shorten(strips, {x for x, where in homes.items() if where == {id(strips)}})
    return maker.made


def _find_homes(block: Block, inside: int, homes: dict[Buffer, set[int]]) -> None:
    """In which groups each buffer is touched; 0 stands for outside of all."""
    for node in block.code:
        if node.op != "load" or node.live:
            for buffer in set.union(*touched(node)):
                homes.setdefault(buffer, set()).add(inside)
        for inner in blocks_in(node):
            _find_homes(inner, id(node.data) if node.op == "strips" else inside, homes)


def _shorten(strips: Strips, own: set[Buffer]) -> None:
    """Leave the buffers that only a group touches room for one strip."""
    own = {x for x in own if x.place == "scratch"}
    for part in strips.parts:
        own -= part.reads | part.writes | part.alone
    counts: dict[Buffer, set[int]] = {}
    for part in strips.parts:
        for buffer in {x.buffer for x in part.accesses}:
            counts.setdefault(buffer, set())
            if part.times > 1:
                counts[buffer].add(part.count)
    for buffer in own & counts.keys():
        found = _parts_of(buffer, strips, counts[buffer])
        if found is None:
            continue
        count, shifts = found
        low, high = min(shifts), max(shifts)
        room = -(-(strips.length + high - low) // 8) * 8
        room += 8 * (room % 16 == 0)  # so that parts do not meet in the cache
        strips.local[buffer] = Local(buffer.size // count, count, room, low, high - low)
        buffer.size = buffer.size // count * room


def _parts_of(buffer: Buffer, strips: Strips, wanted: set[int]) -> tuple[int, list[int]] | None:
    """(entries of a part of a buffer, how far from the beginning of a strip they are touched)."""
    usual = next(x.count for x in strips.parts if _is_long(x))
    for count in wanted or range(usual - 2 * NEAR, usual + 2 * NEAR + 1):
        if buffer.size % count or len(wanted) > 1:
            continue
        shifts = []
        for part in strips.parts:
            for access in part.accesses:
                if access.buffer is buffer:
                    if access.first % count + part.count > count:
                        break
                    if part.node.op == "store" and access.first % count >= SHORTEST - FURTHEST:
                        break
                    shifts.append(access.first % count - part.lag)
            else:
                continue
            break
        else:
            return count, shifts
    return None


def with_copies(strips: Strips) -> list[Buffer]:
    """Have loops of a group read what others of it have written, and what is needed after it as
    well, from copies of one strip, so that the array itself is only written; returns the copies."""
    out = []
    for buffer in dict.fromkeys(x.buffer for part in strips.parts for x in part.accesses):
        if not _is_written_then_read(buffer, strips):
            continue
        copy = Buffer(buffer.kind, buffer.size, "scratch")
        copy.live = True
        touching = [x for x in strips.parts if any(y.buffer is buffer for y in x.accesses)]
        for part in touching:
            _write_twice(part, buffer, copy)
        _shorten(strips, {copy})
        if copy in strips.local:
            out.append(copy)
            continue
        for part in touching:
            _write_once(part, buffer, copy)
    return out


def _is_written_then_read(buffer: Buffer, strips: Strips) -> bool:
    """Whether all entries of an array that loops of a group read are written by earlier ones."""
    if buffer.place != "scratch" or buffer.kind != "f64" or buffer in strips.local:
        return False
    written: list[tuple[int, int]] = []
    read = False
    for part in strips.parts:
        if buffer in part.reads | part.writes | part.alone:
            return False
        own = [x for x in part.expanded() if x.buffer is buffer]
        if own and part.node.op != "for":
            return False
        for x in own:
            begin, end = x.first, x.first + part.count
            if x.writes and read:
                return False
            if not x.writes and not any(a <= begin and end <= b for a, b in written):
                return False
        read = read or any(not x.writes for x in own)
        if read and any(x.writes for x in own):
            return False
        written += [(x.first, x.first + part.count) for x in own if x.writes]
    return read


def _write_twice(part: StripPart, buffer: Buffer, copy: Buffer) -> None:
    """Have a loop write an array and its copy, and read the copy."""
    body, code = part.node.data.body, []
    for node in body.code:
        code.append(node)
        if node.op == "store" and node.data is buffer:
            code.append(Node("store", node.kind, node.args, copy))
        elif node.op == "load" and node.data is buffer:
            node.data = copy
    body.code[:] = code
    part.accesses = []
    _loop(part)


def _write_once(part: StripPart, buffer: Buffer, copy: Buffer) -> None:
    """Have a loop write and read an array without its copy."""
    body = part.node.data.body
    body.code[:] = [x for x in body.code if x.op != "store" or x.data is not copy]
    for node in body.code:
        if node.op == "load" and node.data is copy:
            node.data = buffer
    part.accesses = []
    _loop(part)
