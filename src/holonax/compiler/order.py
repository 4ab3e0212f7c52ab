"""The order of operations, so that few numbers are needed at a time.

Groups of bodies are evaluated together, so operations come array by array: what is computed of the
first body waits for all others before it is used. A thread of a GPU has room for some hundred
numbers, and keeps the others in memory, which is what a long program then waits for.

Here the operations between two statements (loops, branches) are put into another order, in which
nothing is computed before it is needed:

1. Results are asked for one after the other, next the one for which least is missing.
2. An operation is preceded by what it needs, the longest chain first. So an elimination goes along
   its chain, and the blocks of a body are computed when it comes to it.
3. An operation that needs no more room, since it is the last to use a number, is done as soon as it
   can be; a product goes together with the sum that it is a term of.

Values are the same: no operation is changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from .llvm import STATEMENTS
from .operations import Block, Buffer, Node, blocks_in

_TERMS = {"mul", "neg", "abs"}  # what goes together with the operation that alone uses it,
_WITH = 6  # up to so many operations
_KEPT = 1 << 30  # uses of a number that is needed later on

_Places = dict[Node | None, dict[int, list[Node]]]  # nodes by base and offset of their index


def arrange(main: Block) -> None:
    """Put the operations of a program, and of all blocks in it, into an order of few numbers."""
    homes: dict[Node, int] = {}
    pieces = {id(block): _pieces(block) for block in _blocks(main)}
    for number, piece in enumerate(x for xs in pieces.values() for x in xs):
        homes.update((node, number) for node in piece)
    later = _used_elsewhere(main, homes)
    for block in _blocks(main):
        block.code = [
            node
            for piece in pieces[id(block)]
            for node in (piece if _is_statement(piece[0]) else _Piece(piece, later).order())
        ]


def _blocks(block: Block) -> Iterator[Block]:
    """A block, and those inside of it."""
    yield block
    for node in block.code:
        for inner in blocks_in(node):
            yield from _blocks(inner)


def _is_statement(node: Node) -> bool:
    return node.op in STATEMENTS and node.op != "store"


def _pieces(block: Block) -> list[list[Node]]:
    """The operations of a block that are needed, cut at its statements, each of which is alone."""
    out: list[list[Node]] = []
    for node in block.code:
        if _is_statement(node):
            out.append([node])
        elif node.data.live if node.op == "store" else node.live:
            if not out or _is_statement(out[-1][0]):
                out.append([])
            out[-1].append(node)
    return out


def _used_elsewhere(main: Block, homes: dict[Node, int]) -> set[Node]:
    """The nodes that are used outside of their piece."""
    found: set[Node] = set()
    for block in _blocks(main):
        for node in block.code:
            used: Iterable[Node] = node.args
            if node.op == "while":
                used = [node.data.going, *(x for phi in node.data.phis for x in phi.args)]
            elif node.op == "switch":
                used = [node.data.which, *(x for phi in node.data.phis for x in phi.args)]
            home = homes.get(node)
            found.update(x for x in used if x in homes and homes[x] != home)
    return found


class _Piece:
    """Operations without a statement between them."""

    def __init__(self, nodes: list[Node], later: set[Node]):
        self.nodes, self.place = nodes, {node: k for k, node in enumerate(nodes)}
        self.needs = _needs(nodes, self.place)
        self.users: dict[Node, list[Node]] = defaultdict(list)
        self.depth: dict[Node, int] = {}
        self.uses = Counter(x for node in nodes for x in set(node.args) if x in self.place)
        for node in nodes:
            self.depth[node] = 1 + max((self.depth[x] for x in self.needs[node]), default=0)
            for x in self.needs[node]:
                self.users[x].append(node)
        self.roots = [node for node in nodes if node.op == "store" or node in later]
        for node in self.roots:
            self.uses[node] += _KEPT
        self.terms = {
            x for x in nodes if x.op in _TERMS and self.uses[x] == 1 and len(self.users[x]) == 1
        }
        self.done: set[Node] = set()
        self.out: list[Node] = []

    def order(self) -> list[Node]:
        masks = self._masks()
        leading = {mask: self._roots_of(mask) for mask in set(masks.values())}
        missing = dict.fromkeys(self.roots, 0)  # operations, for each root
        left = dict.fromkeys(self.roots)

        def count(nodes: list[Node], sign: int) -> None:
            for mask, n in Counter(masks[node] for node in nodes).items():
                for root in leading[mask]:
                    missing[root] += sign * n

        count(self.nodes, 1)
        while left:
            before = len(self.out)
            self._compute(min(left, key=missing.__getitem__))
            count(self.out[before:], -1)
            for node in self.out[before:]:
                left.pop(node, None)
        return self.out

    def _masks(self) -> dict[Node, int]:
        """To which roots each node leads, a bit for each."""
        bits = {root: 1 << k for k, root in enumerate(self.roots)}
        masks: dict[Node, int] = {}
        for node in reversed(self.nodes):
            mask = bits.get(node, 0)
            for user in self.users[node]:
                mask |= masks[user]
            masks[node] = mask
        return masks

    def _roots_of(self, mask: int) -> list[Node]:
        return [root for root, bit in zip(self.roots, f"{mask:b}"[::-1]) if bit == "1"]

    def _compute(self, root: Node) -> None:
        """An operation, after what it needs."""
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in self.done:
                continue
            if ready:
                self._do(node)
                if node not in self.terms:
                    self._follow(node)
                continue
            stack.append((node, True))
            needs = [x for x in self.needs[node] if x not in self.done]
            needs.sort(key=lambda x: (self.depth[x], -self.place[x]))  # the last goes first
            stack += [(x, False) for x in needs]

    def _do(self, node: Node) -> None:
        self.done.add(node)
        self.out.append(node)
        self.uses.subtract(x for x in set(node.args) if x in self.place)

    def _follow(self, node: Node) -> None:
        """Do what has become possible and needs no more room."""
        waiting = sorted(self._touched([node]), key=self.place.__getitem__, reverse=True)
        while waiting:
            node = waiting.pop()
            if node in self.terms:
                node = self.users[node][0]
            together = None if node in self.done else self._together(node)
            if together is None or not self._is_free(node, together):
                continue
            for x in together:
                self._do(x)
            waiting += self._touched(together)

    def _touched(self, nodes: list[Node]) -> list[Node]:
        """What uses the same numbers as some nodes, or these."""
        of = [x for node in nodes for x in (node, *node.args) if x in self.users]
        return [user for x in of for user in self.users[x] if user not in self.done]

    def _together(self, node: Node) -> list[Node] | None:
        """An operation and its terms, if all else that it needs is there."""
        out, waiting = [], [node]
        while waiting:
            x = waiting.pop()
            out.append(x)
            missing = [y for y in self.needs[x] if y not in self.done]
            if len(out) > _WITH or any(y not in self.terms for y in missing):
                return None
            waiting += missing
        return out[::-1]

    def _is_free(self, node: Node, together: list[Node]) -> bool:
        """Whether operations use as many numbers for the last time as they make."""
        if node.op == "store" or node.kind != "f64":
            return True
        used = Counter(y for x in together for y in set(x.args) if y.kind == "f64")
        inside = set(together)
        return any(y not in inside and self.uses[y] == n for y, n in used.items())


def _needs(nodes: list[Node], place: dict[Node, int]) -> dict[Node, list[Node]]:
    """What has to be done before each node: what it uses, and what reads or writes the same
    memory before it."""
    loads: dict[Buffer, _Places] = defaultdict(lambda: defaultdict(dict))
    stores: dict[Buffer, _Places] = defaultdict(lambda: defaultdict(dict))
    out = {}
    for node in nodes:
        found = [x for x in node.args if x in place]
        if node.op in ("load", "store") and node.data.place not in ("input", "constant"):
            base, offset = _offset(node.args[0])
            found += _meeting(stores[node.data], base, offset)
            if node.op == "store":
                found += _meeting(loads[node.data], base, offset)
            kept = (stores if node.op == "store" else loads)[node.data]
            kept[base].setdefault(offset, []).append(node)
        out[node] = list(dict.fromkeys(found))
    return out


def _meeting(places: _Places, base: Node | None, offset: int) -> list[Node]:
    """The nodes whose places in a buffer may be this one."""
    same = places[base].get(offset, [])
    others = [x for key, at in places.items() if key is not base for xs in at.values() for x in xs]
    return same + others


def _offset(index: Node) -> tuple[Node | None, int]:
    """An index as a base and a known offset."""
    if index.op == "const":
        return None, index.data
    if index.op == "add":
        for base, more in (index.args, index.args[::-1]):
            if more.op == "const":
                return base, more.data
    return index, 0
