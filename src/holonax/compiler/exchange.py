"""Large arrays that a loop carries are handed on by their places in memory, not number by number.

A step ends with its state being the new one if the step is accepted, else the old one:

    state = where(accepted, new, state)

Where both are long arrays, that reads both and writes one of them. But `new` is written anew in
each round before it is read, so the two arrays can change roles instead: what is written next time
is the room of the one that is not needed any more. The same holds for what is carried as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from .fusion import even_places
from .operations import Block, Buffer, Node, blocks_in, everything_in, touched
from .recompute import keep_needed

LONG = 512  # numbers from which on an array is handed on by its place


class Exchange(NamedTuple):
    """Two arrays that change places at the end of a round; `when` is None for always."""

    carried: Buffer
    new: Buffer
    when: Node | None


def exchange(main: Block) -> list[Buffer]:
    """Have the outermost loops of a program hand long arrays on by their places. Results that they
    carry become arrays of the program's own, to be copied in the end; returns where to."""
    return [x for node in main.code if node.op == "while" for x in _in_loop(node, main)]


def _in_loop(loop: Node, main: Block) -> list[Buffer]:
    """Find what a loop carries, and how."""
    body, outputs = loop.data.body, []
    own = _only_inside(loop, main)
    in_condition = _touched_in(loop.data.condition)
    taken: set[Buffer] = set()
    for copy in [x for x in body.code if x.op == "copy"]:
        carried, source = copy.data
        if carried.size < LONG or carried in in_condition or not _is_last(copy, body):
            continue
        if not _becomes_own(carried, main):
            continue
        found = _chosen(copy, body) or _written(copy, body)
        if found is None or found.new not in own or not _is_new(found.new, body):
            continue
        if taken & {carried, found.new}:
            continue
        taken |= {carried, found.new}
        if found.new is not source:
            _take_out(source, body)
        body.code.remove(copy)
        loop.data.exchanged.append(found)
        if carried.place == "output":
            out = Buffer(carried.kind, carried.size, "output", carried.data)
            out.live = True
            carried.place, carried.data = "scratch", None
            main.code.append(Node("copy", "", (), (out, carried)))
            outputs.append(out)
    return outputs


def _touched_in(block: Block) -> set[Buffer]:
    """All buffers that anything in a block reads or writes."""
    nodes = (x for node in block.code for x in everything_in(node))
    return {buffer for x in nodes for buffer in set.union(*touched(x))}


def _only_inside(loop: Node, main: Block) -> set[Buffer]:
    """The program's own arrays that are touched in the body of a loop and nowhere else."""
    elsewhere: set[Buffer] = set()

    def look(block: Block) -> None:
        for node in block.code:
            if node is loop:
                elsewhere.update(_touched_in(loop.data.condition))
                continue
            elsewhere.update(*touched(node))
            for inner in blocks_in(node):
                look(inner)

    look(main)
    return {x for x in _touched_in(loop.data.body) - elsewhere if x.place == "scratch"}


def _is_last(copy: Node, body: Block) -> bool:
    """Whether nothing after a copy touches its target or changes its source, and nothing else
    writes its target."""
    target, source = copy.data
    after = body.code.index(copy) + 1
    if target in _touched_in(_block(body.code[after:])):
        return False
    for at, node in enumerate(body.code):
        for x in everything_in(node) if node is not copy else ():
            written = touched(x)[1]
            if target in written or (at >= after and source in written):
                return False
    return True


def _block(code: list[Node]) -> Block:
    out = Block()
    out.code = code
    return out


def _becomes_own(carried: Buffer, main: Block) -> bool:
    """Whether an array is one of the program's own, or can become one: a result that is copied to
    before the loop, and not zero from the beginning."""
    if carried.place == "scratch":
        return True
    if carried.place != "output":
        return False
    first = next(x for x in main.code if carried in _touched_in(_block([x])))
    return first.op == "copy" and first.data[0] is carried


def _stores(buffer: Buffer, body: Block) -> list[tuple[Node, Node]]:
    """What writes to a buffer in the loops over entries of a block: (loop, statement)."""
    return [
        (node, x)
        for node in body.code
        if node.op == "for"
        for x in node.data.body.code
        if x.op == "store" and x.data is buffer
    ]


def _chosen(copy: Node, body: Block) -> Exchange | None:
    """The choice between a new array and the carried one, entry by entry, that is copied."""
    target, source = copy.data
    stores = _stores(source, body)
    others = [x for node in body.code if node is not copy for x in everything_in(node)]
    own = {store for _, store in stores}
    if any(source in set.union(*touched(x)) for x in others if x not in own):
        return None
    if len({loop for loop, _ in stores}) != 1 or not _is_new(source, body):
        return None
    inside = stores[0][0].data.body.code
    found: set[tuple[Node, Buffer]] = set()
    for _, store in stores:
        at, value = store.args
        if value.op != "select" or value.args[0] in inside or value.args[0].op == "const":
            return None
        which, new, old = value.args
        if any(x.op != "load" or x.args[0] is not at for x in (new, old)) or old.data is not target:
            return None
        found.add((which, new.data))
    ((which, new), *more) = found
    same = new.size == target.size and new.kind == target.kind and new is not target
    after = _block(body.code[body.code.index(stores[0][0]) :])
    later = {y for node in after.code for x in everything_in(node) for y in touched(x)[1]}
    # what has been chosen from may be overwritten by something else
    return None if more or not same or new in later else Exchange(target, new, which)


def _written(copy: Node, body: Block) -> Exchange | None:
    """An array that is written in the body and carried as it is; not where what writes it reads
    the one that is carried, and finds it in the cache to be overwritten."""
    target, source = copy.data
    if source.size != target.size or source.kind != target.kind:
        return None
    for loop, _ in _stores(source, body):
        if any(x.op == "load" and x.live and x.data is target for x in loop.data.body.code):
            return None
    return Exchange(target, source, None)


def _is_new(buffer: Buffer, body: Block) -> bool:
    """Whether all of an array is written in each round before any of it is read."""
    written: list[tuple[int, int]] = []
    for node in body.code:
        if buffer not in _touched_in(_block([node])):
            continue
        if node.op in ("zero", "copy") and touched(node)[1] == {buffer}:
            return node.op == "zero" or buffer not in touched(node)[0]
        if node.op != "for":
            return False
        even = even_places(node.data)
        for x in node.data.body.code:
            if x.op == "load" and x.data is buffer:
                return False
            if x.op == "store" and x.data is buffer:
                step, first = even.get(x.args[0], (0, 0))
                if step != 1:
                    return False
                written.append((first, first + node.data.count))
        reached = 0
        for begin, end in sorted(written):
            reached = max(reached, end) if begin <= reached else reached
        if reached >= buffer.size:
            return True
    return False


def _take_out(buffer: Buffer, body: Block) -> None:
    """Leave out what writes an array that is not needed any more."""
    loop = _stores(buffer, body)[0][0]
    keep_needed(loop, {store for _, store in _stores(buffer, body)})
