"""Numbers in memory that are the same for all bodies, and known.

The Jacobian of a ball joint has ones and zeros at the same places for every joint. In programs of
wide arrays it lies in memory, a *part* for each of its entries, and loops would write these
numbers, read them, and multiply by them. Where all that is ever written to a part of an array is
one known number, loops that read it are given the number, and what they compute with it is folded
as in `operations.py`; a part that nobody reads any more is not written. Nor are zeros that are
written over before they are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .fusion import even_places
from .operations import Block, Buffer, Builder, For, Node, blocks_in, everything_in, touched

_ROUNDS = 3  # what is known may make more known
_MOST_PARTS = 64  # of an array


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Entries side by side that a loop reads or writes by `node`: from `first` on."""

    first: int
    count: int
    node: Node
    loop: For


class _Uses:
    """All that a program does to one array."""

    def __init__(self) -> None:
        self.writes: list[_Stretch] = []
        self.reads: list[_Stretch] = []
        self.written_elsewhere = False
        self.read_elsewhere = False

    def part(self, size: int) -> int:
        """The entries of a part, if the array is written part by part; else none."""
        counts = {x.count for x in self.writes}
        if self.written_elsewhere or len(counts) != 1:
            return 0
        (count,) = counts
        whole = size % count == 0 and size // count <= _MOST_PARTS
        return count if whole and not any(x.first % count for x in self.writes) else 0


def use_known(main: Block) -> None:
    """Use what is known of the numbers in memory, in the loops of a program."""
    _leave_zeros_out(main)
    for _ in range(_ROUNDS):
        uses: dict[Buffer, _Uses] = {}
        _look(main, uses)
        given: dict[Node, Node] = {}
        loops: set[For] = set()
        for buffer, found in uses.items():
            loops |= _find_known(buffer, found, given)
        for loop in loops:
            _fold(loop.body, given)
        if not given:
            return


def _look(block: Block, uses: dict[Buffer, _Uses]) -> None:
    """What the statements of a block do to arrays."""
    for node in block.code:
        if node.op == "for" and node.data.apart:
            _look_at_loop(node.data, uses)
            continue
        reads, writes = touched(node)
        for buffer in reads:
            uses.setdefault(buffer, _Uses()).read_elsewhere = True
        for buffer in writes:
            uses.setdefault(buffer, _Uses()).written_elsewhere = True
        for inner in blocks_in(node):
            _look(inner, uses)


def _look_at_loop(loop: For, uses: dict[Buffer, _Uses]) -> None:
    places = even_places(loop)
    for node in loop.body.code:
        if node.op not in ("load", "store"):
            continue
        found, at = uses.setdefault(node.data, _Uses()), places.get(node.args[0])
        if at is not None and at[0] == 1:
            stretch = _Stretch(at[1], loop.count, node, loop)
            (found.reads if node.op == "load" else found.writes).append(stretch)
        elif node.op == "load":
            found.read_elsewhere = True
        else:
            found.written_elsewhere = True


def _find_known(buffer: Buffer, uses: _Uses, given: dict[Node, Node]) -> set[For]:
    """Find the numbers for what loops read from known parts of an array, and leave out what is
    written to parts that nobody reads; returns the loops that are given numbers."""
    count = uses.part(buffer.size) if buffer.place == "scratch" else 0
    if not count:
        return set()
    values: dict[int, list[Node]] = {}
    for x in uses.writes:
        values.setdefault(x.first // count, []).append(x.node.args[1])
    known = {part: found[0] for part, found in values.items() if _is_one_number(found)}
    changed, needed = set(), set()
    for x in uses.reads:
        part, last = x.first // count, (x.first + x.count - 1) // count
        if part == last and part in known:
            given[x.node] = known[part]
            changed.add(x.loop)
        else:
            needed.update(range(part, last + 1))
    if not uses.read_elsewhere:
        for x in uses.writes:
            if x.first // count not in needed:
                x.loop.body.code.remove(x.node)
    return changed


def _is_one_number(values: list[Node]) -> bool:
    """Whether all are the same number, and known; zeros of either sign are not the same."""
    if any(x.op != "const" for x in values):
        return False
    return len({(x.data, math.copysign(1.0, x.data)) for x in values}) == 1


def _fold(body: Block, given: dict[Node, Node]) -> None:
    """Do again, with the numbers that are given, what is done as operations are made."""
    b = Builder()
    new: dict[Node, Node] = dict(given)
    for node in body.code:
        if node in given:
            continue
        args: list[Any] = [new.get(x, x) for x in node.args]
        if node.op in ("load", "store"):
            node.args = tuple(args)
            b.main.code.append(node)
        else:
            new[node] = b.again(node, args)
    body.code[:] = b.main.code


def _leave_zeros_out(block: Block) -> None:
    """Do not fill arrays with zeros that loops write over before anything is read."""
    all_touched = [
        {x for inner in everything_in(node) for x in set.union(*touched(inner))}
        for node in block.code
    ]
    needless = set()
    for k, node in enumerate(block.code):
        if node.op == "zero":
            following = zip(block.code[k + 1 :], all_touched[k + 1 :])
            if _is_overwritten(node.data, [x for x, buffers in following if node.data in buffers]):
                needless.add(node)
        if node.op != "for":
            for inner in blocks_in(node):
                _leave_zeros_out(inner)
    block.code[:] = [x for x in block.code if x not in needless]


def _is_overwritten(buffer: Buffer, following: list[Node]) -> bool:
    """Whether the first of the statements that touch a buffer write all of it."""
    written: list[tuple[int, int]] = []
    for node in following:
        if node.op != "for" or not node.data.apart:
            return False
        uses: dict[Buffer, _Uses] = {}
        _look_at_loop(node.data, uses)
        found = uses[buffer]
        if found.reads or found.read_elsewhere or found.written_elsewhere:
            return False
        written += [(x.first, x.first + x.count) for x in found.writes]
        if _covers(sorted(written), buffer.size):
            return True
    return False


def _covers(stretches: list[tuple[int, int]], size: int) -> bool:
    """Whether stretches (from, to), the first ones first, leave nothing of `size` entries out."""
    end = 0
    for first, last in stretches:
        if first > end:
            return False
        end = max(end, last)
    return end >= size
