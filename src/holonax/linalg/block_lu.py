"""Block-sparse factorisation of a matrix with a symmetric pattern of blocks, not symmetric itself.

    A = L U,   D_p  = A_pp - Σ_k L_pk U_kp
               L_ip = A_ip - Σ_k L_ik U_kp
               U_pi = D_p⁻¹ (A_pi - Σ_k L_pk U_ki)                        (k < p < i)

with D_p on the diagonal of L and ones on that of U. There are no row exchanges: the matrix must be
scaled, and ordered so that no pivot block is singular. Order and fill are planned once on the host;
the numeric phase is a compiled loop over index tables, a program of fixed length for any graph.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._modules import Module
from .elimination import eliminate
from .entries import lu_entries, lu_entries_solve, lu_entries_solve_transposed
from .indexing import at, between, check_edges, each, put_row, row, table, unset
from .limits import SUMMED_BLOCKS, SUMMED_ENTRIES


class BlockLUFactor(Module):
    """A factored matrix, as `BlockLU.factor` returns it.

    `blocks` are those of the matrix itself, for derivatives; `pivots` (n, b²) the factors of D_p,
    `lower` (entries, b²) the blocks of L, transposed, and `upper` those of U, all flattened.
    """

    blocks: tuple[Array, Array, Array] | None
    pivots: Array
    lower: Array
    upper: Array

    def light(self) -> "BlockLUFactor":
        """The same without the matrix itself: its solutions have no derivatives."""
        return BlockLUFactor(None, self.pivots, self.lower, self.upper)


class BlockLU(Module):
    """A planned factorisation of A x = r, the blocks of A on a graph; made by `BlockLU.plan`.

    The tables are arrays and not part of the compiled program: graphs of equal sizes share it.
    `flipped` says of each edge whether its blocks change sides, where edges differ; `turned`
    whether all do.
    """

    order: Array
    edges: Array
    pointer: Array
    row: Array
    column: Array | None  # where sums have a function of their own
    source: Array
    flipped: Array | np.ndarray | None
    diagonal_pointer: Array
    diagonal_update: Array
    update_pointer: Array
    row_update: Array
    column_update: Array
    ready: Array | None
    n: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    edge_count: int = eqx.field(static=True)
    entry_count: int = eqx.field(static=True)
    turned: bool = eqx.field(static=True)

    @staticmethod
    def plan(
        n: int,
        edges: np.ndarray,
        size: int,
        after: dict[int, set[int]] | None = None,
        clusters: Sequence[Sequence[int]] = (),
    ) -> Any:
        """Order the blocks by minimum degree and find the fill.

        **Arguments**

        - `n`: number of diagonal blocks.
        - `edges`: (E, 2) integers; `edges[k] = (i, j)` says that the k-th pair of off-diagonal
          blocks passed to `factor` are those at (i, j) and at (j, i).
        - `size`: b, the number of rows of every block.
        - `after`: for some blocks those that have to be eliminated before them.
        - `clusters`: blocks that may go one after the other, in this order (see `eliminate`).
        """
        edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        check_edges(n, edges)
        e = eliminate(n, edges, after, clusters)
        source = np.where(e.source < 0, len(edges), e.source)  # fill points at a block of zeros
        flipped = np.zeros(len(edges), dtype=bool)
        flipped[e.source[e.source >= 0]] = e.flipped[e.source >= 0]
        summed = n >= SUMMED_BLOCKS and len(e.row) > SUMMED_ENTRIES * n
        return BlockLU(
            order=table(e.order),
            edges=table(edges.ravel())[:-1].reshape(-1, 2),
            pointer=table(e.pointer),
            row=table(e.order[e.row]),
            column=table(e.order[e.column]) if summed else None,
            source=table(source),
            flipped=None if flipped.all() or not flipped.any() else flipped,
            diagonal_pointer=table(e.diagonal_pointer),
            diagonal_update=table(e.diagonal_update),
            update_pointer=table(e.update_pointer),
            row_update=table(e.row_update),
            column_update=table(e.column_update),
            ready=None if e.ready is None else table(e.ready),
            n=n,
            size=size,
            edge_count=len(edges),
            entry_count=len(e.row),
            turned=bool(flipped.any()),
        )

    @property
    def fill(self) -> int:
        """Number of off-diagonal blocks of L that are zero in the matrix."""
        return self.entry_count - self.edge_count

    @property
    def products(self) -> float:
        """Products of two blocks in a factorisation, for each diagonal block: one of a chain."""
        return self.work / max(self.n, 1)

    @property
    def work(self) -> int:
        """Products of two blocks in a factorisation."""
        return self.entry_count + 2 * (self.row_update.shape[0] - 1)

    def factor(self, diagonal: Array, forward: Array, backward: Array) -> BlockLUFactor:
        """Factor the matrix with the given blocks.

        **Arguments**

        - `diagonal`: (b, b, n), entry (r, c) of all diagonal blocks in a row.
        - `forward`, `backward`: (b, b, E), likewise, the blocks at (i, j) and at (j, i) of each
          edge (i, j) of the plan.
        """
        blocks = (diagonal, forward, backward)
        return BlockLUFactor(blocks, *self._factor(*lax.stop_gradient(blocks)))

    def solve(self, factor: BlockLUFactor, rhs: Array) -> Array:
        """Solve A x = r for `rhs` of shape (b, n).

        The derivative of the solution, in forward and in reverse mode, is dx = A⁻¹ (dr - dA x) with
        the same factor; the elimination itself is never differentiated.
        """
        parts = lax.stop_gradient((factor.pivots, factor.lower, factor.upper))
        blocks = factor.blocks
        if blocks is None:
            return self._solve(*parts, rhs)
        return lax.custom_linear_solve(
            lambda x: self.product(blocks, x),
            rhs,
            lambda _, r: self._solve(*parts, r),
            lambda _, r: self._solve_transposed(*parts, r),
        )

    def product(self, blocks: tuple[Array, Array, Array], x: Array) -> Array:
        """A x for blocks as in `factor` and x of shape (b, n)."""
        diagonal, forward, backward = blocks
        i, j = self.edges.T
        y = jnp.sum(diagonal * x, axis=1)
        y = y.at[:, i].add(jnp.sum(forward * x[:, j], axis=1))
        return y.at[:, j].add(jnp.sum(backward * x[:, i], axis=1))

    def _factor(self, diagonal: Array, forward: Array, backward: Array) -> tuple[Array, ...]:
        b = self.size
        flat = lambda x: x.reshape(b * b, x.shape[-1]).T  # noqa: E731
        across = lambda x: flat(jnp.swapaxes(x, 0, 1))  # noqa: E731
        diagonal_rows = flat(diagonal)
        # below and above the diagonal, by whether an edge leads to what is eliminated later
        below, above = (backward, forward) if self.turned else (forward, backward)
        if self.flipped is not None:
            below = jnp.where(self.flipped, backward, forward)
            above = jnp.where(self.flipped, forward, backward)
        lower_rows, upper_rows = across(below), flat(above)
        if self.fill or not self.edge_count:
            zero = jnp.zeros((1, b * b), diagonal.dtype)
            lower_rows, upper_rows = (jnp.concatenate([x, zero]) for x in (lower_rows, upper_rows))

        def eliminate_column(p: Array, carry: tuple[Array, Array, Array]):
            pivots, L, U = carry

            def update_diagonal(k: Array, D: Array) -> Array:
                e = at(self.diagonal_update, k)
                return D - _product(row(L, e), row(U, e), b)

            D = row(diagonal_rows, at(self.order, p))
            D = between(self.diagonal_pointer, p, update_diagonal, D).reshape(b, b)
            pivot = lu_entries(D)

            def eliminate_entry(e: Array, carry: tuple[Array, Array]):
                L, U = carry
                source = at(self.source, e)
                pair = row(lower_rows, source), row(upper_rows, source)
                tables = self.update_pointer, self.row_update, self.column_update
                lower, upper = hx_block_updates(*pair, L, U, *tables, e)
                upper = jnp.concatenate(lu_entries_solve(pivot, upper.reshape(b, b)))
                return put_row(L, e, lower), put_row(U, e, upper)

            L, U = between(self.pointer, p, eliminate_entry, (L, U))
            packed = jnp.stack([x for line in pivot for x in line])
            return put_row(pivots, p, packed), L, U

        pivots = unset((self.n, b * b), diagonal.dtype)
        L, U = (unset((max(self.entry_count, 1), b * b), diagonal.dtype) for _ in range(2))
        return each(self.n, eliminate_column, (pivots, L, U), self.ready)

    def _solve(self, pivots: Array, L: Array, U: Array, rhs: Array) -> Array:
        def forward(p: Array, x: Array) -> Array:
            i = at(self.order, p)
            if self.column is not None:
                tables = self.diagonal_pointer, self.diagonal_update, self.column
                y = hx_block_columns(row(x, i), L, x, *tables, p)
                return put_row(x, i, jnp.stack(lu_entries_solve(self._pivot(pivots, p), y)))
            y = jnp.stack(lu_entries_solve(self._pivot(pivots, p), row(x, i)))

            def step(e: Array, x: Array) -> Array:
                i = at(self.row, e)
                return put_row(x, i, row(x, i) - _columns(row(L, e), y))

            return between(self.pointer, p, step, put_row(x, i, y))

        def backward(k: Array, x: Array) -> Array:
            p = self.n - 1 - k
            i = at(self.order, p)
            if self.column is not None:
                return put_row(x, i, hx_block_rows(row(x, i), U, x, self.pointer, self.row, p))

            def step(e: Array, y: Array) -> Array:
                return y - _rows(row(U, e), row(x, at(self.row, e)))

            return put_row(x, i, between(self.pointer, p, step, row(x, i)))

        return each(self.n, backward, each(self.n, forward, rhs.T, self.ready)).T

    def _solve_transposed(self, pivots: Array, L: Array, U: Array, rhs: Array) -> Array:
        def forward(p: Array, x: Array) -> Array:
            y = row(x, at(self.order, p))

            def step(e: Array, x: Array) -> Array:
                i = at(self.row, e)
                return put_row(x, i, row(x, i) - _columns(row(U, e), y))

            return between(self.pointer, p, step, x)

        def backward(k: Array, x: Array) -> Array:
            p = self.n - 1 - k
            i = at(self.order, p)

            def step(e: Array, y: Array) -> Array:
                return y - _rows(row(L, e), row(x, at(self.row, e)))

            y = between(self.pointer, p, step, row(x, i))
            return put_row(x, i, jnp.stack(lu_entries_solve_transposed(self._pivot(pivots, p), y)))

        return each(self.n, backward, each(self.n, forward, rhs.T, self.ready)).T

    def _pivot(self, pivots: Array, p: Array) -> Any:
        packed, b = row(pivots, p), self.size
        return [[packed[r * b + c] for c in range(b)] for r in range(b)]


# By their names the compiler knows these: compiler/block_updates.py, block_sums.py.


@jax.jit
def hx_block_updates(
    lower: Array,
    upper: Array,
    L: Array,
    U: Array,
    pointer: Array,
    rows: Array,
    columns: Array,
    e: Array,
) -> tuple[Array, Array]:
    """Two blocks, those of entry e, less the products of those before them."""
    b = round(lower.size**0.5)

    def update(k: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        i, j = at(rows, k), at(columns, k)
        below = pair[0] - _product(row(U, j), row(L, i), b)
        return below, pair[1] - _product(row(L, j), row(U, i), b)

    return between(pointer, e, update, (lower, upper))


@jax.jit
def hx_block_columns(
    y: Array, X: Array, x: Array, pointer: Array, entries: Array, places: Array, p: Array
) -> Array:
    """y less the sum of Xᵀ x over some entries of a factor, those that are listed for p."""

    def less(k: Array, y: Array) -> Array:
        e = at(entries, k)
        return y - _columns(row(X, e), row(x, at(places, e)))

    return between(pointer, p, less, y)


@jax.jit
def hx_block_rows(y: Array, X: Array, x: Array, pointer: Array, places: Array, p: Array) -> Array:
    """y less the sum of X x over the entries of p."""

    def less(e: Array, y: Array) -> Array:
        return y - _rows(row(X, e), row(x, at(places, e)))

    return between(pointer, p, less, y)


def _product(left: Array, right: Array, b: int) -> Array:
    """XᵀY of blocks flattened by rows: rank-one terms, which run along contiguous memory."""
    x, y = left.reshape(b, b), right.reshape(b, b)
    return sum((x[k][:, None] * y[k] for k in range(1, b)), x[0][:, None] * y[0]).ravel()


def _columns(block: Array, y: Array) -> Array:
    """Xᵀ y of a block flattened by rows."""
    b = y.size
    x = block.reshape(b, b)
    return sum((x[k] * y[k] for k in range(1, b)), x[0] * y[0])


def _rows(block: Array, y: Array) -> Array:
    """X y of a block flattened by rows."""
    b = y.size
    x = block.reshape(b, b)
    return sum((x[:, k] * y[k] for k in range(1, b)), x[:, 0] * y[0])
