"""Block-sparse factorisation of a symmetric positive definite matrix on a graph.

    S = M D Mᵀ,   D_p  = S_pp - Σ_k M_pk C_pkᵀ
                  C_ip = S_ip - Σ_k M_ik C_pkᵀ,   M_ip = C_ip D_p⁻¹     (k < p < i)

Order and fill are planned once on the host. The numeric phase is a compiled loop over index tables,
column by column, each block gathering its own updates: a program of fixed length for any graph.
What a step reads it reads before it writes, so that XLA updates the factor in place.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._modules import Module
from .elimination import eliminate
from .indexing import at, between, check_edges, column, each, put_column, put_row, row, table, unset
from .small import ldl_entries, ldl_entries_solve


class BlockFactor(Module):
    """A factored matrix, as `BlockCholesky.factor` returns it.

    `diagonal` (b, b, n) and `off_diagonal` (b, b, E) are the matrix itself, for derivatives;
    `pivots` (n, b(b+1)/2) the packed factors of D_p, `multipliers` (entries, b²) the blocks of
    M, transposed and flattened.
    """

    diagonal: Array
    off_diagonal: Array
    pivots: Array
    multipliers: Array


class BlockCholesky(Module):
    """A planned factorisation of S x = r, S symmetric positive definite with blocks on a graph.

    Made by `BlockCholesky.plan`. The tables are arrays and not part of the compiled program:
    graphs of equal sizes share it.
    """

    order: Array
    edges: Array
    pointer: Array
    row: Array
    source: Array
    flipped: Array
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
    kept: int = eqx.field(static=True)  # blocks of C: what is further back is not needed

    @staticmethod
    def plan(n: int, edges: np.ndarray, size: int) -> "BlockCholesky":
        """Order the blocks by minimum degree and find the fill.

        **Arguments**

        - `n`: number of diagonal blocks.
        - `edges`: (E, 2) integers; `edges[k] = (i, j)` says that the k-th off-diagonal block passed
          to `factor` is the block in row i and column j. Its transpose at (j, i) is implied.
        - `size`: b, the number of rows of every block.
        """
        edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
        check_edges(n, edges)
        e = eliminate(n, edges)
        return BlockCholesky(
            order=table(e.order),
            edges=table(edges.ravel())[:-1].reshape(-1, 2),
            pointer=table(e.pointer),
            row=table(e.order[e.row]),
            source=table(e.source),
            flipped=jnp.asarray(np.append(e.flipped, False)),
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
            kept=e.kept,
        )

    @property
    def fill(self) -> int:
        """Number of off-diagonal blocks of the factor that are zero in the matrix."""
        return self.entry_count - self.edge_count

    def factor(self, diagonal: Array, off_diagonal: Array) -> BlockFactor:
        """Factor the matrix with the given blocks.

        **Arguments**

        - `diagonal`: (b, b, n), entry (r, c) of all diagonal blocks in a row; only r >= c is read.
        - `off_diagonal`: (b, b, E), likewise, for the edges of the plan in their order.

        A pivot that is not positive makes the solution NaN.
        """
        frozen = lax.stop_gradient((diagonal, off_diagonal))
        pivots, multipliers = _factored(self, *frozen)
        return BlockFactor(diagonal, off_diagonal, pivots, multipliers)

    def solve(self, factor: BlockFactor, rhs: Array) -> Array:
        """Solve S x = r for `rhs` of shape (b, n).

        Use the factor for as many right-hand sides as needed, one by one or with `jax.vmap`.
        The derivative of the solution, in forward and in reverse mode, is
        dx = S⁻¹ (dr - dS x)  with the same factor; the elimination itself is never differentiated.
        """
        return lax.custom_linear_solve(
            lambda x: self.product(factor.diagonal, factor.off_diagonal, x),
            rhs,
            lambda _, r: self.substitute(factor, r),
            symmetric=True,
        )

    def substitute(self, factor: BlockFactor, rhs: Array) -> Array:
        """The solution for `rhs` where it is not differentiated."""
        frozen = lax.stop_gradient((factor.pivots, factor.multipliers))
        return _solved(self, *frozen, rhs)

    def product(self, diagonal: Array, off_diagonal: Array, x: Array) -> Array:
        """S x for blocks as in `factor` and x of shape (b, n)."""
        lower = jnp.tril(jnp.ones((self.size, self.size), bool))[:, :, None]
        diagonal = jnp.where(lower, diagonal, jnp.swapaxes(diagonal, 0, 1))
        i, j = self.edges.T
        y = jnp.sum(diagonal * x, axis=1)
        y = y.at[:, i].add(jnp.sum(off_diagonal * x[:, j], axis=1))
        return y.at[:, j].add(jnp.sum(off_diagonal * x[:, None, i], axis=0))

    def _factor(self, diagonal: Array, off_diagonal: Array) -> tuple[Array, Array]:
        b = self.size
        lower = [(r, c) for r in range(b) for c in range(r + 1)]
        diagonal = jnp.stack([diagonal[r, c] for r, c in lower])
        whole = np.array([lower.index((max(k), min(k))) for k in np.ndindex(b, b)])
        off_diagonal = off_diagonal.reshape(b * b, self.edge_count)
        if self.edge_count == 0:
            off_diagonal = jnp.zeros((b * b, 1), diagonal.dtype)

        def eliminate_column(p: Array, carry: tuple[Array, Array, Array]):
            pivots, C, M = carry

            def update_diagonal(k: Array, D: Array) -> Array:
                e = at(self.diagonal_update, k)
                return D - _product(row(C, self._place(e)), row(M, e))

            D = column(diagonal, at(self.order, p))[whole]
            D = between(self.diagonal_pointer, p, update_diagonal, D)
            pivot = jnp.stack(ldl_entries([D[r * b : r * b + r + 1] for r in range(b)]))

            def eliminate_entry(e: Array, carry: tuple[Array, Array]):
                C, M = carry

                def update_entry(k: Array, block: Array) -> Array:
                    i, j = at(self.row_update, k), at(self.column_update, k)
                    return block - _product(row(C, self._place(j)), row(M, i))

                block = self._transposed_entry(off_diagonal, e)
                block = between(self.update_pointer, e, update_entry, block)
                quotient = ldl_entries_solve(pivot, block.reshape(b, b))
                C = put_row(C, self._place(e), block)
                return C, put_row(M, e, jnp.concatenate(quotient))

            C, M = between(self.pointer, p, eliminate_entry, (C, M))
            return put_row(pivots, p, pivot), C, M

        pivots = unset((self.n, b * (b + 1) // 2), diagonal.dtype)
        C = unset((self.kept, b * b), diagonal.dtype)
        M = unset((max(self.entry_count, 1), b * b), diagonal.dtype)
        pivots, _, M = each(self.n, eliminate_column, (pivots, C, M), self.ready)
        return pivots, M

    def _place(self, e: Array) -> Array:
        """Where the block of C of an entry is, which is overwritten when it is not needed again."""
        return e if self.kept >= self.entry_count else e & (self.kept - 1)

    def _transposed_entry(self, off_diagonal: Array, e: Array) -> Array:
        """S_ipᵀ for entry e = (i, p) of the factor; zero where that is fill."""
        b = self.size
        source = at(self.source, e)
        block = column(off_diagonal, jnp.maximum(source, 0))
        across = block.reshape(b, b).T.reshape(b * b)
        return jnp.where(source < 0, 0, jnp.where(at(self.flipped, e), block, across))

    def _solve(self, pivots: Array, multipliers: Array, rhs: Array) -> Array:
        b = self.size

        def forward(p: Array, x: Array) -> Array:
            y = column(x, at(self.order, p))

            def step(e: Array, x: Array) -> Array:
                M, i = row(multipliers, e).reshape(b, b), at(self.row, e)
                return put_column(x, i, column(x, i) - sum(M[c] * y[c] for c in range(b)))

            return between(self.pointer, p, step, x)

        def backward(k: Array, x: Array) -> Array:
            p = self.n - 1 - k
            i = at(self.order, p)

            def step(e: Array, y: Array) -> Array:
                M, z = row(multipliers, e).reshape(b, b), column(x, at(self.row, e))
                return y - sum(M[:, r] * z[r] for r in range(b))

            y = jnp.stack(ldl_entries_solve(row(pivots, p), column(x, i)))
            return put_column(x, i, between(self.pointer, p, step, y))

        return each(self.n, backward, each(self.n, forward, rhs, self.ready))


# A program asks for these several times; inside a jit they are traced once.


@jax.jit
def _factored(plan: BlockCholesky, diagonal: Array, off_diagonal: Array) -> tuple[Array, Array]:
    return plan._factor(diagonal, off_diagonal)


@jax.jit
def _solved(plan: BlockCholesky, pivots: Array, multipliers: Array, rhs: Array) -> Array:
    return plan._solve(pivots, multipliers, rhs)


def _product(C: Array, M: Array) -> Array:
    """(M Cᵀ)ᵀ = C Mᵀ of blocks stored as Cᵀ and Mᵀ, all flattened by rows.

    Transposes are stored because the rank-one terms then run along contiguous memory.
    """
    b = math.isqrt(C.size)
    left, right = C.reshape(b, b), M.reshape(b, b)
    return sum(
        (left[k][:, None] * right[k] for k in range(1, b)), left[0][:, None] * right[0]
    ).ravel()
