"""Loops over arrays that are done together.

Each operation on large arrays is a loop of its own at first. Loops of one length become one loop
where the later ones need no other entries of the earlier ones' results than that with their own
index: what one has computed is then at hand for the next, and is not written to memory at all if
nobody else reads it.
"""

from __future__ import annotations

from typing import NamedTuple

from .operations import Block, Buffer, For, Node, blocks_in, touched
from .totals import totals

LONGEST = 1500  # operations of a loop that others are joined to

_WITH_MEMORY = {"store", "copy", "zero", "call", "load"}
_WITH_BLOCKS = {"while", "switch", "for"}


class _Place(NamedTuple):
    """An entry of a buffer: `step` times the index of the loop, and `first`."""

    buffer: Buffer
    step: int
    first: int


class _Entries:
    """A loop that computes entries of arrays, and nothing else."""

    def __init__(self, loop: For):
        self.loop = loop
        self.loads: dict[Node, _Place | None] = {}  # None: entries elsewhere
        self.stores: dict[_Place, Node] = {}  # what is written
        self.reads: set[Buffer] = set()
        self.writes: set[Buffer] = set()
        self.gathers: set[Buffer] = set()  # in these it has totals
        self._elsewhere: set[Buffer] = set()  # written from a place on that is not known
        loop.apart = self._look()
        self.is_simple = loop.apart and not self._elsewhere

    def _look(self) -> bool:
        even, used = even_places(self.loop), {x for y in self.loop.body.code for x in y.args}
        gathered = totals(self.loop)
        own = {x for total in gathered for x in (total.load, total.store)}
        self.gathers = {x.buffer for x in gathered}
        for node in self.loop.body.code:
            if node in own or (node.op == "load" and node not in used):
                continue
            if node.op == "load":
                at = even.get(node.args[0])
                self.loads[node] = None if at is None else _Place(node.data, *at)
                self.reads.add(node.data)
            elif node.op == "store":
                at = even.get(node.args[0])
                if at is None and node.data not in self.writes and _moves_on(self.loop, node):
                    self._elsewhere.add(node.data)
                elif at is None or not at[0] or _Place(node.data, *at) in self.stores:
                    return False
                else:
                    self.stores[_Place(node.data, *at)] = node.args[1]
                self.writes.add(node.data)
            elif node.op in _WITH_MEMORY or node.op in _WITH_BLOCKS or "*" in node.kind:
                return False
        apart = not self.reads & self.writes
        apart = apart and not self._elsewhere & {x.buffer for x in self.stores}
        self.reads |= self.gathers
        self.writes |= self.gathers
        return apart

    def meets(self, reads: set[Buffer], writes: set[Buffer]) -> bool:
        """Whether it matters which is done first, this or something that reads and writes."""
        return bool(self.writes & (reads | writes) or self.reads & writes)

    def _may_join(self, other: _Entries) -> bool:
        """Whether each entry of another loop needs no other entries of this one."""
        if self.gathers & (other.reads | other.writes) or other.gathers & self.reads:
            return False
        count = self.loop.count
        mine = [(place.buffer, place) for place in self.stores]
        mine += [(node.data, place) for node, place in self.loads.items()]
        for new in other.stores:
            if not all(_apart(old, new, count) for buffer, old in mine if buffer is new.buffer):
                return False
        for node, place in other.loads.items():
            written = [x for x in self.stores if x.buffer is node.data]
            if place not in written and not all(_apart(place, x, count) for x in written):
                return False
        return True

    def join(self, other: _Entries) -> bool:
        """Do what another loop does after this one in the same loop, if it can be."""
        code, more = self.loop.body.code, other.loop.body.code
        if len(code) + len(more) > LONGEST or not self._may_join(other):
            return False
        same: dict[Node, Node] = {other.loop.index: self.loop.index}
        known = {place: node for node, place in self.loads.items() if place is not None}
        for node in more:
            node.args = tuple(same.get(x, x) for x in node.args)
            if node in other.loads:
                place = other.loads[node]
                found = None if place is None else self.stores.get(place, known.get(place))
                if found is not None:
                    same[node] = found
                    continue
                self.loads[node] = place
                self.reads.add(node.data)
            code.append(node)
        self.stores |= {place: same.get(x, x) for place, x in other.stores.items()}
        self.writes |= other.writes
        self.reads |= other.gathers
        self.gathers |= other.gathers
        return True


def _apart(a: _Place | None, b: _Place | None, count: int) -> bool:
    """Whether two places of a buffer are never the same, whatever the index of each."""
    if a is None or b is None:
        return False
    between = a.first - b.first
    return a.step == b.step and (bool(between % a.step) or abs(between) >= abs(a.step) * count)


def even_places(loop: For) -> dict[Node, tuple[int, int]]:
    """(step, first) of the whole numbers in a loop that move on evenly with its index."""
    out: dict[Node, tuple[int, int]] = {loop.index: (1, 0)}
    for node in loop.body.code:
        if node.op in ("add", "mul", "sub") and node.kind == "i64":
            pair = _even(node, out)
            if pair is not None:
                out[node] = pair
    return out


def _even(node: Node, even: dict[Node, tuple[int, int]]) -> tuple[int, int] | None:
    """(step, first) of a whole number that moves on evenly with the index."""
    pairs = []
    for x in node.args:
        pair = even.get(x, (0, x.data) if x.op == "const" else None)
        if pair is None:
            return None
        pairs.append(pair)
    (a, b), (c, d) = pairs
    if node.op == "add":
        return a + c, b + d
    if node.op == "sub":
        return a - c, b - d
    return (a * d, b * d) if not c else (c * b, d * b) if not a else None


def _moves_on(loop: For, store: Node) -> bool:
    """Whether a loop writes entries one after the other, from wherever: a row of a matrix."""
    at, code = store.args[0], loop.body.code
    if at.op != "add" or loop.index not in at.args:
        return False
    (from_,) = [x for x in at.args if x is not loop.index] or [loop.index]
    written = {x.data for x in code if x.op == "store"}
    return not _differs(from_, loop.index, set(code), written)


def _differs(node: Node, index: Node, inside: set[Node], written: set[Buffer]) -> bool:
    """Whether a number may differ from round to round of a loop."""
    if node is index or (node.op == "load" and node.data in written):
        return True
    return node in inside and any(_differs(x, index, inside, written) for x in node.args)


def fuse(block: Block) -> None:
    """Join the loops of a block, and of those inside of it."""
    out: list[Node] = []
    waiting: dict[int, tuple[Node, _Entries]] = {}  # by length

    def let_go(reads: set[Buffer], writes: set[Buffer], but: int = -1) -> None:
        for count, (node, loop) in list(waiting.items()):
            if count != but and loop.meets(reads, writes):
                out.append(node)
                del waiting[count]

    for node in block.code:
        if node.op in _WITH_MEMORY:
            let_go(*touched(node))
            out.append(node)
            continue
        if node.op not in _WITH_BLOCKS:
            out.append(node)
            continue
        entries = _Entries(node.data) if node.op == "for" else None
        if entries is None or not entries.is_simple:
            out += [loop for loop, _ in waiting.values()]
            waiting.clear()
            for inner in blocks_in(node):
                fuse(inner)
            out.append(node)
            continue
        count = node.data.count
        let_go(entries.reads, entries.writes, count)
        if count in waiting and not waiting[count][1].join(entries):
            out.append(waiting.pop(count)[0])
        waiting.setdefault(count, (node, entries))
    block.code[:] = [*out, *(loop for loop, _ in waiting.values())]
