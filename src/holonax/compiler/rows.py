"""Rows: numbers side by side that are computed together, in the vectors of the processor.

The state of a chain of ten bodies is made of rows of ten numbers, one for each body, and most of
what is done to one is done to all. Such a row is one `Node` of a kind like "f64*10", made by the
operations on numbers; its single numbers, of the op "part", are made only where they are needed by
themselves. So an array of a program remains an array of single numbers, whatever moves them about
knows nothing of rows, and an operation on whole arrays finds out whether the numbers it is given
lie in rows. Which rows there are follows from the last axes of the arrays of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .operations import Builder, Node, NotInRows, scalar_kind, width_of

SHORTEST, LONGEST = 8, 32  # numbers of a row
SHARE = 0.15  # of the operations of a program that have to be on rows of some length
LONG, LONGER = 100_000, 250_000  # operations between which LLVM works on programs least
MOST_OF_IT = 0.65  # of the operations of such a program that have to be on rows
_MOVED = ("f64", "b1")  # kinds that there are rows of


class RowMaker:
    """The rows of a program; without any if there are no `widths`."""

    def __init__(self, builder: Builder, widths: Sequence[int] = ()):
        self.b, self.widths = builder, tuple(widths)

    def width(self, shape: Sequence[int]) -> int:
        """How long the rows of an array are; 0 if it has none."""
        if not self.widths or not shape or not shape[-1]:
            return 0
        if shape[-1] in self.widths:
            return shape[-1]
        return next((n for n in self.widths if shape[-1] % n == 0), 0)

    def entrywise(
        self, function: Callable[..., Node], columns: Sequence[list[Node]], width: int
    ) -> list[Node]:
        """`function` of the entries of arrays, given one after the other."""
        out: list[Node] = []
        for at in range(0, len(columns[0]), width):
            given = [x[at : at + width] for x in columns]
            done = self._together(function, given, width)
            if done is None:
                out.extend(function(*entries) for entries in zip(*given, strict=True))
            else:
                out.extend(done)
        return out

    def folded(
        self, function: Callable[..., Node], entries: list[Node], shape: Sequence[int]
    ) -> np.ndarray:
        """The entries of an array, its rows combined by `function` into one."""
        width = self.width(shape)
        if not width:
            return np.array(entries, object)
        total = entries[:width]
        for at in range(width, len(entries), width):
            total = self.entrywise(function, [total, entries[at : at + width]], width)
        return np.array(total, object)

    def _together(
        self, function: Callable[..., Node], given: list[list[Node]], width: int
    ) -> list[Node] | None:
        """The same for one row; None where it is better done number by number."""
        b = self.b
        operands: list[Node | None] = []
        work, found = 0, False
        for row in given:
            first = row[0]
            if first.op == "part" and first.args[0].parts == row:
                operands.append(first.args[0])
                found = True
            elif row.count(first) == width:
                operands.append(first)
            else:
                if first.kind not in _MOVED:
                    return None
                packed = b.recall(("pack", *row))
                operands.append(packed)
                # LLVM reads what lies side by side in memory at once
                sources = {
                    x.args[0] if x.op == "part" else x.data for x in row if x.op in ("part", "load")
                }
                found |= bool(sources) or packed is not None
                if packed is None:
                    loose = sum(x.op not in ("part", "const", "load") for x in row)
                    work += len(sources) + loose
        if not found or work > width + 2:
            return None
        ready = [self.packed(row) if x is None else x for x, row in zip(operands, given)]
        try:
            result = b.in_rows(width, function, ready)
        except NotInRows:
            return None
        return parts(result) if "*" in result.kind else [result] * width

    def packed(self, entries: list[Node]) -> Node:
        """Numbers as one row."""
        first = entries[0]
        if first.op == "part" and first.args[0].parts == entries:
            return first.args[0]
        return self.b.pack(entries)

    def split(self, entries: list[Node], shape: Sequence[int]) -> list[Node] | None:
        """The rows of an array, given its entries; None if it is not to be kept in rows."""
        width = self.width(shape)
        if not width or any(x.kind != "f64" for x in entries):
            return None
        return [self.packed(entries[i : i + width]) for i in range(0, len(entries), width)]


def parts(row: Node) -> list[Node]:
    """The single numbers of a row."""
    if row.parts is None:
        kind, width = scalar_kind(row.kind), width_of(row.kind)
        row.parts = [Node("part", kind, (row,), k) for k in range(width)]
    return list(row.parts)


def widths(measured: dict[int, int], weight: int) -> list[int]:
    """The lengths of rows that are worth it, given how many operations are on each.

    A vector over all coordinates is made of several such rows, and not a length of its own. Rows
    that are longer or shorter by one come with them: those of all bodies and the ground, and those
    of all pairs of neighbours.
    """
    found: list[int] = []
    for n in sorted(measured):
        if SHORTEST <= n <= LONGEST and measured[n] >= SHARE * max(weight, 1):
            found += [] if any(n % m == 0 for m in found) else [n]
    others = [m for n in found for m in (n + 1, n - 1) if m in measured and m not in found]
    return found + list(dict.fromkeys(others))


def pay(found: Sequence[int], measured: dict[int, int], weight: int, once: bool) -> bool:
    """Whether rows of the lengths `found` save more than they cost.

    LLVM takes twice as long over rows as over single numbers where it works on them least, so what
    runs `once`, or is long, is in rows only if most of it is, or if it would be too long without.
    """
    if weight > LONGER or not (once or weight > LONG):
        return True
    return sum(measured[n] for n in found) >= MOST_OF_IT * weight
