"""Room for arrays in memory: those that are never needed at the same time share it.

An array is needed from the first statement that touches it to the last one, in the innermost block
that has all of these. What is inside of a loop is made anew in each round, so such a block may be
the body of a loop.
"""

from __future__ import annotations

from typing import NamedTuple

from .operations import Block, Buffer, Node, blocks_in, touched

_LINE = 64  # bytes to which arrays are aligned


class _Span(NamedTuple):
    """From where to where something is needed, and where the statement begins that has all of it,
    in the block that is looked at."""

    first: int
    last: int
    begin: int


class _Spans:
    """When each buffer is needed, counted in statements of the whole program."""

    def __init__(self, main: Block):
        self._at = 0
        self.of = self._block(main)
        self._join(main)

    def _block(self, block: Block) -> dict[Buffer, _Span]:
        out: dict[Buffer, _Span] = {}
        for node in block.code:
            begin = self._at
            self._at += 1
            inside = self._inside(node, begin)
            if node.op != "load" or node.live:
                inside |= dict.fromkeys(set.union(*touched(node)), _Span(begin, self._at, begin))
            for buffer, span in inside.items():
                old = out.get(buffer)
                if old is None:
                    out[buffer] = span._replace(begin=begin)
                else:
                    out[buffer] = _Span(old.begin, self._at, old.begin)
        return out

    def _join(self, block: Block) -> None:
        """Arrays that change places are needed as long as any of them is: what one of them has may
        be where another was."""
        together: dict[Buffer, set[Buffer]] = {}
        for node in block.code:
            for x in node.data.exchanged if node.op == "while" else ():
                group = together.get(x.carried, {x.carried}) | together.get(x.new, {x.new})
                together |= dict.fromkeys(group, group)
        for group in together.values():
            spans = [self.of[x] for x in group]
            first, last = min(x.first for x in spans), max(x.last for x in spans)
            self.of |= dict.fromkeys(group, _Span(first, last, spans[0].begin))

    def _inside(self, node: Node, begin: int) -> dict[Buffer, _Span]:
        """What the blocks of a statement need: what one branch, or the body of a loop, has to
        itself is needed inside of that only. A loop over entries is one statement; loops in strips
        are as well, but for what is passed on inside of a strip."""
        found = [self._block(block) for block in blocks_in(node)]
        out: dict[Buffer, _Span] = {}
        passing = node.data.passing if node.op == "strips" else set()
        for spans in found:
            for buffer, span in spans.items():
                shared = node.op in ("for", "strips") and buffer not in passing
                shared = shared or buffer in out
                out[buffer] = _Span(begin, self._at, begin) if shared else span
        return out


def placed(main: Block, sizes: dict[Buffer, int]) -> tuple[dict[Buffer, int], int]:
    """Where in the room each of the buffers of these `sizes` in bytes begins, and how much room
    that is."""
    spans = _Spans(main).of
    order = sorted((x for x in sizes if x in spans), key=lambda x: spans[x].first)
    places: dict[Buffer, int] = {}
    taken: list[tuple[int, int, int]] = []  # (until when, from, to), from low to high places
    total = 0
    for buffer in order:
        size, span = -(-sizes[buffer] // _LINE) * _LINE, spans[buffer]
        taken = [x for x in taken if x[0] > span.first]
        at = 0
        for k, (_, begin, end) in enumerate(taken):
            if begin - at >= size:
                taken.insert(k, (span.last, at, at + size))
                break
            at = max(at, end)
        else:
            taken.append((span.last, at, at + size))
        places[buffer] = at
        total = max(total, at + size)
    return places, total
