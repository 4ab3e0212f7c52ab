"""Sums, maxima and the like that a loop over arrays gathers in one place of memory.

    place = combine(place, entry)

for each entry. That is done in vectors: each lane has a total of its own, and these are put
together at the end. So the terms of a sum are added in another order than one after the other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .operations import Buffer, For, Node, bits, is_float, is_signed

_COMBINING = {"add", "sub", "mul", "max", "min", "and", "or", "xor"}
ANY_TIMES = {"max", "min", "and", "or"}  # an entry may count more than once


def neutral(op: str, kind: str) -> Any:
    """What a reduction begins with."""
    if op in ("add", "sub", "or", "xor"):
        return 0
    if op == "mul":
        return 1
    if op == "and":
        return True if kind == "b1" else -1
    if is_float(kind):
        return -math.inf if op == "max" else math.inf
    if kind == "b1":
        return op == "min"
    n = bits(kind)
    low, high = (-(1 << (n - 1)), (1 << (n - 1)) - 1) if is_signed(kind) else (0, (1 << n) - 1)
    return low if op == "max" else high


class Total(NamedTuple):
    """What a loop gathers in a place: `value` combined by `op` with what is there, which is read
    by `load` and written by `store`."""

    op: str
    load: Node
    value: Node
    store: Node

    @property
    def buffer(self) -> Buffer:
        return self.store.data


def totals(loop: For) -> list[Total]:
    """What a loop gathers. No other operation of it reads or writes these places."""
    code = loop.body.code
    inside = {loop.index, *code}
    touching: dict[Buffer, list[Node]] = {}
    uses: dict[Node, int] = {}
    for node in code:
        for x in node.args:
            uses[x] = uses.get(x, 0) + 1
        if node.op in ("load", "store"):
            touching.setdefault(node.data, []).append(node)
    out = []
    for found in touching.values():
        pairs = [_total(store, uses) for store in found if store.op == "store"]
        made = [x for x in pairs if x is not None]
        places = [x.store.args[0] for x in made]
        if not made or 2 * len(made) != len(found) or any(x in inside for x in places):
            continue
        if len(made) == 1 or (
            len(set(places)) == len(places) and all(x.op == "const" for x in places)
        ):
            out += made
    return out


def _total(store: Node, uses: dict[Node, int]) -> Total | None:
    """A place of memory that is written to, if that is a total."""
    at, result = store.args
    if result.op not in _COMBINING or uses[result] > 1 or "*" in result.kind:
        return None
    for load, value in (result.args, result.args[::-1]):
        own = load.op == "load" and load.data is store.data and load.args[0] is at
        if own and uses[load] == 1:
            return Total(result.op, load, value, store)
        if result.op == "sub":
            return None
    return None
