"""What of a program differs from lane to lane, and where lanes go different ways.

Of the arrays that go in, some have numbers for each lane. What is computed from these differs as
well; all else is computed once for all lanes. A loop or a branch whose condition differs is a
*region*: inside, some lanes are at work and others wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .operations import Block, Buffer, Node, touched

Path = tuple[Any, ...]  # the regions around something, from the outside


class Spread:
    """Which scalars and arrays of a program have a number for each lane."""

    def __init__(self, main: Block, buffers: Iterable[Buffer], batched: Iterable[int]):
        self._wide: set[Any] = set()
        given = set(batched)
        for buffer in buffers:
            if buffer.place == "output" or (buffer.place == "input" and buffer.data in given):
                self._wide.add(buffer)
        before = -1
        while len(self._wide) != before:
            before = len(self._wide)
            self._visit(main, False)
        self.home: dict[Buffer, Path] = {x: () for x in buffers if x.place == "output"}
        self._find_homes(main, ())

    def __contains__(self, x: Node | Buffer) -> bool:
        return x in self._wide

    def _any(self, nodes: Iterable[Node]) -> bool:
        return any(x in self._wide for x in nodes)

    def _visit(self, block: Block, waiting: bool) -> None:
        wide = self._wide
        for node in block.code:
            op, data = node.op, node.data
            if op == "while":
                apart = data.going in wide
                for phi in data.phis:
                    if phi.live and (apart or self._any(phi.args)):
                        wide.add(phi)
                for inner in (data.condition, data.body):
                    self._visit(inner, waiting or apart)
            elif op == "switch":
                apart = data.which in wide
                for inner in data.blocks:
                    self._visit(inner, waiting or apart)
                for phi in data.phis:
                    if phi.live and (apart or self._any(phi.args)):
                        wide.add(phi)
            elif op == "for":
                self._visit(data.body, waiting)
            elif op == "store":
                if data.live and (waiting or self._any(node.args)):
                    wide.add(data)
            elif op == "copy":
                if data[0].live and (waiting or data[1] in wide):
                    wide.add(data[0])
            elif op == "zero":
                if data.live and waiting:
                    wide.add(data)
            elif op == "call":
                places = [buffer for buffer, _ in data[2]]
                if waiting or self._any(places):
                    wide.update(x for x in places if x.place not in ("input", "constant"))
            elif node.live and (self._any(node.args) or (op == "load" and data in wide)):
                wide.add(node)

    def _find_homes(self, block: Block, path: Path) -> None:
        """The innermost region around all that is done to an array: lanes that wait there need not
        be spared, since what they would find is never looked at."""
        for node in block.code:
            for buffer in set.union(*touched(node)):
                old = self.home.get(buffer, path)
                same = [a for a, b in zip(old, path, strict=False) if a is b]
                self.home[buffer] = tuple(same)
            for inner, region in _inside(node):
                apart = region is not None and region in self._wide
                self._find_homes(inner, (*path, inner_key(node, inner)) if apart else path)


def inner_key(node: Node, inner: Block) -> Any:
    """What a region is told by: a loop's condition and body are one, branches are apart."""
    return node if node.op == "while" else inner


def _inside(node: Node) -> Iterator[tuple[Block, Node | None]]:
    """The blocks inside of a statement, with what decides on which lanes enter them."""
    if node.op == "while":
        yield node.data.condition, node.data.going
        yield node.data.body, node.data.going
    elif node.op == "switch":
        for block in node.data.blocks:
            yield block, node.data.which
    elif node.op == "for":
        yield node.data.body, None
