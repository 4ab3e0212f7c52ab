"""Arrays that follow from what goes into a program are found again where they are needed.

An inverse matrix of inertia is written for each body, and read when the multipliers are known. Of
so many bodies that no cache holds them it takes less to read the inertia once more, which is there
anyway for what comes next, and to invert it again.
"""

from __future__ import annotations

from typing import NamedTuple

from .fusion import even_places
from .llvm import STATEMENTS
from .operations import Block, Buffer, Node, blocks_in, touched

MOST = 100  # operations that are done again for a body


class _Touch(NamedTuple):
    """A statement or an operation that touches a buffer, and the loop over entries around it."""

    node: Node
    loop: Node | None


def recompute(main: Block) -> None:
    """Have the loops of a program find arrays again that other loops find from inputs alone."""
    touching: dict[Buffer, list[_Touch]] = {}
    _look(main, None, touching)
    even: dict[Node, dict[Node, tuple[int, int]]] = {}
    for buffer, touches in touching.items():
        if buffer.place == "scratch" and buffer.kind == "f64" and buffer.live:
            _inline(buffer, touches, even)


def _look(block: Block, loop: Node | None, touching: dict[Buffer, list[_Touch]]) -> None:
    for node in block.code:
        if node.op != "load" or node.live:
            for buffer in set.union(*touched(node)):
                touching.setdefault(buffer, []).append(_Touch(node, loop))
        for inner in blocks_in(node):
            _look(inner, node if node.op == "for" else None, touching)


def _inline(
    buffer: Buffer, touches: list[_Touch], even: dict[Node, dict[Node, tuple[int, int]]]
) -> None:
    """Replace what reads an array by what it is found from, if all of it can be."""
    stores = [x for x in touches if x.node.op == "store"]
    loads = [x for x in touches if x.node.op == "load"]
    makers = {x.loop for x in stores}
    (maker, *others) = makers or {None}
    if others or maker is None or not maker.data.apart or len(stores) + len(loads) != len(touches):
        return
    if not any(x.loop is not maker for x in loads):
        return

    def place(x: _Touch) -> tuple[int, int] | None:
        if x.loop is None or x.loop.data.count != maker.data.count:
            return None
        if x.loop not in even:
            even[x.loop] = even_places(x.loop.data)
        return even[x.loop].get(x.node.args[0])

    values = {place(x): x.node.args[1] for x in stores}
    if len(values) < len(stores) or any(at is None or at[0] != 1 for at in values):
        return
    if any(place(x) not in values for x in loads):
        return
    slice_ = _found_from_inputs(list(values.values()), maker, even[maker])
    if slice_ is None or len(slice_) > MOST:
        return
    read = {(x.data, even[maker][x.args[0]]) for x in slice_ if x.op == "load"}
    if not read or len(read) > len(stores):
        return
    copies: dict[Node, dict[Node, Node]] = {}
    for x in loads:
        assert x.loop is not None
        same = copies.setdefault(x.loop, {maker.data.index: x.loop.data.index})
        _put_in(x.node, values[place(x)], slice_, x.loop, same)
    written = {x.node for x in stores}
    keep_needed(maker, written)


def _found_from_inputs(
    values: list[Node], loop: Node, even: dict[Node, tuple[int, int]]
) -> set[Node] | None:
    """The operations of a loop that numbers are found by, from inputs and constants alone; None if
    it takes anything else."""
    inside, found = set(loop.data.body.code), set()
    waiting = list(values)
    while waiting:
        node = waiting.pop()
        if node in found or node.op == "const" or node is loop.data.index:
            continue
        if node not in inside or node.op in STATEMENTS or "*" in node.kind:
            return None
        own = node.op == "load" and node.data.place != "input"
        if own or (node.op == "load" and even.get(node.args[0], (0, 0))[0] != 1):
            return None
        found.add(node)
        waiting.extend(node.args)
    return found


def _put_in(load: Node, value: Node, slice_: set[Node], loop: Node, same: dict[Node, Node]) -> None:
    """Have a number that a loop reads computed instead."""
    code, made = loop.data.body.code, []

    def copied(node: Node) -> Node:
        if node in same or node not in slice_:
            return same.get(node, node)
        new = Node(node.op, node.kind, tuple(copied(x) for x in node.args), node.data)
        new.live = True
        same[node] = new
        made.append(new)
        return new

    result, at = copied(value), code.index(load)
    code[at : at + 1] = made
    for node in code:
        node.args = tuple(result if x is load else x for x in node.args)


def keep_needed(loop: Node, left_out: set[Node]) -> None:
    """Leave statements of a loop out, and what only they need."""
    code = [x for x in loop.data.body.code if x not in left_out]
    needed: set[Node] = set()
    for x in reversed(code):
        if x.op in STATEMENTS or x in needed:
            needed.add(x)
            needed.update(x.args)
    loop.data.body.code[:] = [x for x in code if x in needed]
