"""Symbolic elimination on a graph: in which order, with what fill, and which updates.

Done once on the host with NumPy. What comes out are index tables for a numeric factorisation,
symmetric or not, of a matrix whose blocks lie on the diagonal and on the edges of the graph.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .limits import AHEAD, IN_PARTS

# Another order is taken where it makes at most this part of the products: what is nearly as good
# stays in the order that walks through memory.
_WORTH = 0.8


@dataclass(frozen=True)
class Elimination:
    """The pattern of a triangular factor L, by columns in the order of elimination.

    Entry e of the factor is the block in row `row[e]` and column `column[e]`, both positions in
    the order of elimination, row > column; the entries of column p are pointer[p] ... pointer[p+1].
    A block of L is reached by its updates, as in  L_ij = A_ij - Σ_k L_ik D_k L_jkᵀ  (k < j < i):

    - diagonal block p: for the entries `diagonal_update[k]`, k from diagonal_pointer[p] to
      diagonal_pointer[p+1] (these are the entries of row p);
    - entry e: for the pairs of entries (`row_update[k]`, `column_update[k]`) in rows i and j of the
      same column, k from update_pointer[e] to update_pointer[e+1].

    `order[p]` is the node eliminated at position p, `position` its inverse. `source[e]` is the edge
    that entry e starts from, or -1 where the entry is fill; `flipped[e]` says that the edge (i, j)
    had j eliminated after i, so that its block must be transposed.
    """

    order: np.ndarray
    position: np.ndarray
    pointer: np.ndarray
    row: np.ndarray
    column: np.ndarray
    source: np.ndarray
    flipped: np.ndarray
    diagonal_pointer: np.ndarray
    diagonal_update: np.ndarray
    update_pointer: np.ndarray
    row_update: np.ndarray
    column_update: np.ndarray

    @property
    def ready(self) -> np.ndarray | None:
        """For each column the highest number of what it, and those before it, need: of a block of
        the diagonal, an edge, or a part of a right-hand side. None where that is not worth knowing:
        there are few columns, or early ones need late blocks."""
        if len(self.order) < IN_PARTS or np.any(self.source < 0):
            return None
        needed = self.order.copy()
        np.maximum.at(needed, self.column, np.maximum(self.source, self.order[self.row]))
        needed = np.maximum.accumulate(needed)
        return needed if np.all(needed - np.arange(len(needed)) <= AHEAD) else None

    @property
    def kept(self) -> int:
        """Entries of L D that are needed at a time, a power of two: an update is by those before
        the entry that is made next. All where there are few columns."""
        entries = max(len(self.row), 1)
        if len(self.order) < IN_PARTS:
            return entries
        made = np.repeat(self.pointer[:-1], np.diff(self.diagonal_pointer))
        of_entries = np.repeat(np.arange(len(self.row)), np.diff(self.update_pointer))
        back = [made - self.diagonal_update, of_entries - self.column_update]
        furthest = int(np.max(np.concatenate(back), initial=0))
        return min(1 << furthest.bit_length(), entries)


def eliminate(
    n: int,
    edges: np.ndarray,
    after: dict[int, set[int]] | None = None,
    clusters: Sequence[Sequence[int]] = (),
) -> Elimination:
    """Plan the elimination of the graph with `n` nodes and `edges` (E, 2), by minimum degree.

    `after` gives for some nodes those that have to be eliminated before them. `clusters` are nodes
    that may go one after the other, in this order: where that makes fewer products, clusters are
    eliminated as wholes, by minimum degree among them.
    """
    order, neighbours = minimum_degree(n, edges, after)
    if clusters:
        other = _by_clusters(n, edges, after or {}, clusters)
        found = eliminated_in(other, n, edges)
        if _work(found) < _WORTH * _work(neighbours):
            order, neighbours = other, found
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    columns = [np.sort(position[list(neighbours[node])]) for node in order]
    count = np.array([len(rows) for rows in columns], dtype=np.int64)
    row = np.concatenate([np.zeros(0, dtype=np.int64), *columns]).astype(np.int64)
    column = np.repeat(np.arange(n), count)
    keys = column * n + row  # ascending, so that an entry is found by bisection

    ends = position[edges]
    low, high = ends.min(axis=1), ends.max(axis=1)
    found = np.searchsorted(keys, low * n + high)
    source = np.full(len(row), -1, dtype=np.int64)
    source[found] = np.arange(len(edges))
    flipped = np.zeros(len(row), dtype=bool)
    flipped[found] = ends[:, 0] < ends[:, 1]

    pointer = np.concatenate([[0], np.cumsum(count)])
    first, second = _pairs(pointer, count)
    target = np.searchsorted(keys, row[second] * n + row[first])
    by_target = np.argsort(target, kind="stable")
    by_row = np.argsort(row, kind="stable")
    return Elimination(
        order=order,
        position=position,
        pointer=pointer,
        row=row,
        column=column,
        source=source,
        flipped=flipped,
        diagonal_pointer=np.searchsorted(row[by_row], np.arange(n + 1)),
        diagonal_update=by_row,
        update_pointer=np.searchsorted(target[by_target], np.arange(len(row) + 1)),
        row_update=first[by_target],
        column_update=second[by_target],
    )


def minimum_degree(
    n: int,
    edges: np.ndarray,
    after: dict[int, set[int]] | None = None,
    *,
    side_by_side: bool = False,
) -> tuple[np.ndarray, list[set[int]]]:
    """Order of elimination by least degree, and each node's neighbours when it is eliminated.

    Among equals the node whose degree fell last goes first, so that a chain is eliminated from end
    to end and a tree branch by branch, and the numeric phase walks through memory in order; or
    `side_by_side` the one whose degree fell first: a chain from both ends, so that a processor has
    two things to do that do not wait for each other.
    """
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for i, j in edges.tolist():
        neighbours[i].add(j)
        neighbours[j].add(i)
    waiting = {node: set(others) for node, others in (after or {}).items() if others}
    awaited: dict[int, list[int]] = {}
    for node, others in waiting.items():
        for other in others:
            awaited.setdefault(other, []).append(node)
    heap = [(len(x), 0, node) for node, x in enumerate(neighbours) if node not in waiting]
    heapq.heapify(heap)
    latest = [0] * n
    order: list[int] = []
    eliminated = [False] * n
    while heap:
        _, stamp, node = heapq.heappop(heap)
        if eliminated[node] or stamp != latest[node]:
            continue
        eliminated[node] = True
        order.append(node)
        clique = neighbours[node]
        for other in awaited.pop(node, ()):
            waiting[other].discard(node)
            if not waiting[other]:
                del waiting[other]
                heapq.heappush(heap, (len(neighbours[other]), latest[other], other))
        for other in clique:
            neighbours[other] |= clique
            neighbours[other] -= {node, other}
            latest[other] = len(order) if side_by_side else -len(order)
            if other not in waiting:
                heapq.heappush(heap, (len(neighbours[other]), latest[other], other))
    return np.array(order, dtype=np.int64), neighbours


def _by_clusters(
    n: int, edges: np.ndarray, after: dict[int, set[int]], clusters: Sequence[Sequence[int]]
) -> np.ndarray:
    """The order in which whole clusters, and what is in none by itself, have least degrees."""
    inside = {node for cluster in clusters for node in cluster}
    parts = [*map(list, clusters), *([node] for node in range(n) if node not in inside)]
    part = np.empty(n, dtype=np.int64)
    for k, nodes in enumerate(parts):
        part[nodes] = k
    ends = part[edges]
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    waits: dict[int, set[int]] = {}
    for node, others in after.items():
        waits.setdefault(int(part[node]), set()).update(int(part[x]) for x in others)
    waits = {k: others - {k} for k, others in waits.items()}
    order, _ = minimum_degree(len(parts), ends, waits)
    return np.array([node for k in order for node in parts[k]], dtype=np.int64)


def eliminated_in(order: np.ndarray, n: int, edges: np.ndarray) -> list[set[int]]:
    """Each node's neighbours when it is eliminated, in a given order."""
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for i, j in edges.tolist():
        first, last = (i, j) if position[i] < position[j] else (j, i)
        neighbours[first].add(last)
    for node in order:
        # what is left of it is passed on to the first of its neighbours
        if neighbours[node]:
            parent = min(neighbours[node], key=position.__getitem__)
            neighbours[parent] |= neighbours[node] - {parent}
    return neighbours


def _work(neighbours: list[set[int]]) -> int:
    """Products of blocks in an elimination."""
    return sum(len(x) ** 2 for x in neighbours)


def _pairs(pointer: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of entries (e, f) of one column, e below f."""
    first, second = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for p in np.flatnonzero(count > 1):
        f, e = np.triu_indices(count[p], 1)
        first.append(pointer[p] + e)
        second.append(pointer[p] + f)
    return np.concatenate(first), np.concatenate(second)
