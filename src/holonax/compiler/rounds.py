"""Loops over one block after the other that can stop at any round, and go on later.

An elimination along a chain waits for its own last round, and leaves memory idle; the loops that
compute the blocks of its matrix wait for memory. Done strip by strip in turn, each for the blocks
that are there by then, one works while the other waits. Which round needs which blocks is in a
table that the condition of the loop looks at (`each` in linalg/indexing.py): it goes on while the
number in the table is below one that no block has. Here that becomes the limit of a strip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .operations import Buffer, Node, everything_in, touched

if TYPE_CHECKING:
    from .strips import StripPart

NEAR = 2  # entries by which the arrays of bodies and of joints may differ
SLACK = 8  # entries that a loop stays behind what is there, for these
ALL = 2_135_792_468  # the limit that lets all rounds be done, as in linalg/indexing.py


class Rounds:
    """A loop that stops where the `table` of it says so: `compared` is the node that looks."""

    def __init__(self, compared: Node):
        self.compared = compared
        self.table: Buffer = compared.args[0].data
        self.limit = Node("limit", compared.args[1].kind)
        self.limit.live = True

    def stop_at_limit(self) -> None:
        """Have the loop look at the limit of the strip."""
        self.compared.args = (self.compared.args[0], self.limit)


def rounds_of(node: Node) -> Rounds | None:
    """A statement as a loop that can stop at any round; None if it is not one."""
    if node.op != "while" or node.data.exchanged or node.data.going is None:
        return None
    going = node.data.going
    for x in going.args if going.op == "and" else ():
        if x.op == "lt" and x.args[1].op == "const" and x.args[1].data == ALL:
            table = x.args[0]
            if table.op == "load" and table.data.place == "input":
                return Rounds(x)
    return None


def follows(node: Node, buffer: Buffer, part: StripPart) -> bool:
    """Whether block k of an array, where a loop touches that, is entry k of a part of a group.

    The numbers of a block are far from each other in memory, each beside the same number of the
    other blocks, or side by side.
    """
    if buffer in part.alone | part.reads:
        return False
    in_rows = buffer in part.writes
    for x in everything_in(node):
        if buffer not in set.union(*touched(x)) or (x.op == "load" and not x.live):
            continue
        if x.op not in ("load", "store"):
            return False
        step, first = _step_and_first(x.args[0])
        if step == 1 and (in_rows or not _is_near(first, part.count)):
            return False
        if step != 1 and not (in_rows and 0 <= first < step and _writes_rows(part, buffer, step)):
            return False
    own = [x for x in part.accesses if x.buffer is buffer]
    return not (in_rows and own) and all(_is_near(x.first, part.count) for x in own)


def _is_near(first: int, count: int) -> bool:
    """Whether entries from `first` on are about those of one part of `count`."""
    away = first % count
    return min(away, count - away) <= NEAR


def _writes_rows(part: StripPart, buffer: Buffer, step: int) -> bool:
    """Whether a loop writes nothing but rows of so many numbers in an array."""
    if part.times > 1:
        return False
    stores = [x for x in part.node.data.body.code if x.op == "store" and x.data is buffer]
    places = [part.places.get(x.args[0], (0, 0)) for x in stores]
    return all(own == step and 0 <= first < step for own, first in places)


def _step_and_first(index: Node) -> tuple[int, int]:
    """An index as `step` times a number that is not known, and `first`."""
    step, first = 1, 0
    while index.op in ("add", "mul", "convert"):
        known = [x for x in index.args if x.op == "const"]
        if index.op == "convert":
            (index,) = index.args
            continue
        if len(known) != 1:
            break
        if index.op == "add":
            first += step * known[0].data
        else:
            step *= known[0].data
        (index,) = [x for x in index.args if x is not known[0]]
    return step, first
