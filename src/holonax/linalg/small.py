"""Dense algebra for small matrices inside compiled time loops: S x = b and A x = b without LAPACK.

Small matrices are factored by traced arithmetic, so that a compiler that takes arrays apart into
scalars sees their zeros and leaves out what follows from them: a matrix whose rows come in a good
order of elimination costs no more than its structure asks for.

    smallest   every entry its own variable (Cholesky only)
    small      unrolled over columns, each step a rank-one update of what is left
    larger     LAPACK

with the sizes in `limits.py`.

Factoring and solving are separate, so that a factor serves several right-hand sides. Neither is
differentiated as such: a factor carries its matrix, and the derivative of the solution is

    dx = A⁻¹ (db - dA x)

with the factor at hand, in forward and in reverse mode. So a derivative costs one more solve.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from .._modules import Module
from .limits import COLUMNS, ENTRIES, EXCHANGED, PLAIN, PRODUCT


class CholeskyFactor(Module):
    """S = L D Lᵀ with unit lower triangular L, as `cholesky` returns it."""

    matrix: Array
    parts: tuple[Array, ...]


class LUFactor(Module):
    """P A = L U with unit lower triangular L, as `lu` returns it."""

    matrix: Array
    lower: tuple[Array, ...]
    upper: tuple[Array, ...]
    reciprocals: Array
    exchange: tuple[Array, ...]


def cholesky(S: Array) -> CholeskyFactor:
    """Factor a symmetric positive definite matrix of shape (n, n); its lower triangle is read.

    A pivot that is not positive makes the solution NaN.
    """
    n = _order(S)
    frozen = lax.stop_gradient(S)
    if n <= ENTRIES:
        parts = tuple(ldl_entries([[frozen[i, j] for j in range(i + 1)] for i in range(n)]))
    elif n <= COLUMNS:
        parts = _ldl_columns(frozen)
    else:
        parts = (jnp.linalg.cholesky(frozen, symmetrize_input=False),)
    return CholeskyFactor(S, parts)


def cholesky_solve(factor: CholeskyFactor, b: Array) -> Array:
    """Solve S x = b with the factor of S, for one right-hand side (n,) or several (n, k)."""
    S = factor.matrix

    # The derivative, too, reads the lower triangle only.
    def product(x: Array) -> Array:
        lower = jnp.tril(S)
        return _product(lower + jnp.tril(lower, -1).T, x)

    return lax.custom_linear_solve(
        product, b, lambda _, b: cholesky_substitute(factor, b), symmetric=True
    )


def cholesky_substitute(factor: CholeskyFactor, b: Array) -> Array:
    """The solution of `cholesky_solve` where it is not differentiated."""
    n, parts = _order(factor.matrix), lax.stop_gradient(factor.parts)
    if n <= ENTRIES:
        return jnp.stack(ldl_entries_solve(parts, [b[i] for i in range(n)]))
    if n <= COLUMNS:
        return _ldl_columns_solve(parts, b)
    return _lapack_cholesky_solve(parts[0], b)


def lu(A: Array, *, pivot: bool = True) -> LUFactor:
    """Factor a general square matrix of shape (n, n).

    **Arguments**

    - `A`: the matrix.
    - `pivot`: exchange rows for the largest pivot of each column. Without it the elimination is
      a little faster, and breaks on a zero pivot: only for matrices scaled and ordered for it.
    """
    n = _order(A)
    unrolled = n <= (EXCHANGED if pivot else PLAIN)
    if jnp.iscomplexobj(A) and (pivot or not unrolled):  # as a real matrix of twice the size
        re, im = jnp.real(A), jnp.imag(A)
        A = jnp.concatenate([jnp.concatenate(x, axis=1) for x in ((re, -im), (im, re))])
        unrolled = 2 * n <= EXCHANGED
    frozen = lax.stop_gradient(A)
    if unrolled:
        return LUFactor(A, *_lu_columns(frozen, pivot))
    packed, _, order = lax.linalg.lu(frozen)
    return LUFactor(A, (packed,), (packed,), 1 / jnp.diagonal(packed), (order,))


@partial(jax.jit, static_argnames="transposed")  # the same sizes in many places: traced once
def lu_solve(factor: LUFactor, b: Array, *, transposed: bool = False) -> Array:
    """Solve A x = b with the factor of A, for one right-hand side (n,) or several (n, k); Aᵀ x = b
    if `transposed`."""
    A = factor.matrix
    n = _order(A)
    if n > b.shape[0]:  # of a complex matrix
        if transposed:  # the real matrix, transposed, is that of the conjugate
            x = lu_solve(factor, jnp.concatenate([jnp.real(b), -jnp.imag(b)]), transposed=True)
            return lax.complex(x[: n // 2], -x[n // 2 :])
        x = lu_solve(factor, jnp.concatenate([jnp.real(b), jnp.imag(b)]))
        return lax.complex(x[: n // 2], x[n // 2 :])
    b = b.astype(jnp.result_type(A, b))
    frozen = lax.stop_gradient(factor)

    def substitute(b: Array, transposed: bool) -> Array:
        if len(frozen.lower) == n:
            method = _lu_columns_solve_transposed if transposed else _lu_columns_solve
        else:
            method = _lapack_lu_solve_transposed if transposed else _lapack_lu_solve
        return method(frozen, b)

    return lax.custom_linear_solve(
        lambda x: _product(A.T if transposed else A, x),
        b,
        lambda _, b: substitute(b, transposed),
        lambda _, b: substitute(b, not transposed),
    )


def solve(A: Array, b: Array) -> Array:
    """Solve A x = b once, by LU with row exchanges; `b` is (n,) or (n, k)."""
    return lu_solve(lu(A), b)


# Every entry its own variable. The block factorisation uses these on its blocks.


def ldl_entries(rows: Sequence[Sequence[Array] | Array]) -> list[Array]:
    """L D Lᵀ of a symmetric matrix given by the rows of its lower triangle.

    Returns the packed lower triangle, row by row: L below the diagonal, 1/D on it.
    """
    n = len(rows)
    a = [list(row) for row in rows]
    for j in range(n):
        below = [a[i][j] for i in range(j + 1, n)]
        a[j][j] = _reciprocal_if_positive(a[j][j])
        for i in range(j + 1, n):
            a[i][j] = below[i - j - 1] * a[j][j]
            for k in range(j + 1, i + 1):
                a[i][k] = a[i][k] - a[i][j] * below[k - j - 1]
    return [entry for row in a for entry in row]


def ldl_entries_solve(packed: Sequence[Array] | Array, b: Sequence[Array] | Array) -> list[Array]:
    """Solve with the factor that `ldl_entries` returned, b and x as lists of n components."""
    n = len(b)
    a = [[packed[i * (i + 1) // 2 + j] for j in range(i + 1)] for i in range(n)]
    x = list(b)
    for j in range(n):
        for i in range(j + 1, n):
            x[i] = x[i] - a[i][j] * x[j]
    x = [x[i] * a[i][i] for i in range(n)]
    for j in reversed(range(n)):
        for i in range(j):
            x[i] = x[i] - a[j][i] * x[j]
    return x


# Unrolled over columns: what is left shrinks by a row and a column at each step.


def _ldl_columns(S: Array) -> tuple[Array, ...]:
    columns, reciprocals = [], []
    for _ in range(S.shape[0]):
        below = S[1:, 0]
        reciprocal = _reciprocal_if_positive(S[0, 0])
        column, reciprocal = lax.optimization_barrier((below * reciprocal, reciprocal))
        columns.append(column)
        reciprocals.append(reciprocal)
        S = lax.optimization_barrier(S[1:, 1:] - _outer(column, below))
    return *columns, jnp.stack(reciprocals)


def _ldl_columns_solve(parts: tuple[Array, ...], b: Array) -> Array:
    *columns, reciprocals = parts
    y = []
    for column in columns:
        y.append(b[0])
        b = lax.optimization_barrier(b[1:] - _outer(column, b[0]))
    scaled = lax.optimization_barrier(_scale_rows(reciprocals, jnp.stack(y)))
    x = scaled[-1:]
    for k in reversed(range(len(columns) - 1)):
        x = _prepend(scaled[k] - _inner(columns[k], x), x)
    return x


def _lu_columns(A: Array, pivot: bool):
    lower, upper, reciprocals, exchange = [], [], [], []
    for size in range(A.shape[0], 0, -1):
        row, rest = A[0], A[1:]
        if pivot and size > 1:
            chosen = _largest(A[:, 0])
            row, rest = _bring_up(A, chosen)
            exchange.append(chosen)
        reciprocal = 1 / row[0]
        column, reciprocal = lax.optimization_barrier((rest[:, 0] * reciprocal, reciprocal))
        lower.append(column)
        upper.append(row[1:])
        reciprocals.append(reciprocal)
        A = lax.optimization_barrier(rest[:, 1:] - _outer(column, row[1:]))
    return tuple(lower), tuple(upper), jnp.stack(reciprocals), tuple(exchange)


def _lu_columns_solve(factor: LUFactor, b: Array) -> Array:
    n = len(factor.lower)
    y = []
    for k, column in enumerate(factor.lower):
        if k < len(factor.exchange):
            first, rest = _bring_up(b, factor.exchange[k])
        else:
            first, rest = b[0], b[1:]
        y.append(first)
        b = lax.optimization_barrier(rest - _outer(column, first))
    x = (y[-1] * factor.reciprocals[-1])[None]
    for k in reversed(range(n - 1)):
        x = _prepend((y[k] - _inner(factor.upper[k], x)) * factor.reciprocals[k], x)
    return x


def _lu_columns_solve_transposed(factor: LUFactor, b: Array) -> Array:
    n = len(factor.lower)
    y = []
    for k, row in enumerate(factor.upper):
        y.append(b[0] * factor.reciprocals[k])
        b = lax.optimization_barrier(b[1:] - _outer(row, y[k]))
    x = y[-1][None]
    for k in reversed(range(n - 1)):
        x = _prepend(y[k] - _inner(factor.lower[k], x), x)
        if factor.exchange:
            x = _prepend(*_bring_up(x, factor.exchange[k]))
    return x


# LAPACK.


def _lapack_cholesky_solve(L: Array, b: Array) -> Array:
    columns = b.reshape(L.shape[0], -1)
    y = lax.linalg.triangular_solve(L, columns, left_side=True, lower=True)
    x = lax.linalg.triangular_solve(L, y, left_side=True, lower=True, transpose_a=True)
    return x.reshape(b.shape)


def _lapack_lu_solve(factor: LUFactor, b: Array) -> Array:
    A = factor.lower[0]
    y = b[factor.exchange[0]].reshape(A.shape[0], -1)
    y = lax.linalg.triangular_solve(A, y, left_side=True, lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(A, y, left_side=True).reshape(b.shape)


def _lapack_lu_solve_transposed(factor: LUFactor, b: Array) -> Array:
    A = factor.lower[0]
    y = b.reshape(A.shape[0], -1)
    y = lax.linalg.triangular_solve(A, y, left_side=True, transpose_a=True)
    y = lax.linalg.triangular_solve(
        A, y, left_side=True, lower=True, unit_diagonal=True, transpose_a=True
    )
    # back to where the rows were taken from: a scatter, for which nothing has to be sorted
    return jnp.zeros_like(y).at[factor.exchange[0]].set(y, unique_indices=True).reshape(b.shape)


# Pieces. A vector's entries may be numbers, or rows when there are several right-hand sides.


def _order(A: Array) -> int:
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"expected a square matrix (n, n), got shape {A.shape}")
    return A.shape[0]


def _reciprocal_if_positive(pivot: Array) -> Array:
    return jnp.where(pivot > 0, 1 / pivot, jnp.nan)


def _scale_rows(factors: Array, x: Array) -> Array:
    return factors.reshape((-1,) + (1,) * (x.ndim - 1)) * x


def _outer(column: Array, row: Array) -> Array:
    """column_i row_j, where the row may also be a number."""
    return column.reshape((-1,) + (1,) * row.ndim) * row


def _inner(row: Array, x: Array) -> Array:
    return jnp.sum(_scale_rows(row, x), axis=0)


def _product(A: Array, x: Array) -> Array:
    """A x. As a sum for small n: XLA calls a library for a product, which leaves the loop."""
    if A.shape[0] > PRODUCT:
        return A @ x
    return jnp.sum(A.reshape(A.shape + (1,) * (x.ndim - 1)) * x, axis=1)


def _prepend(first: Array, rest: Array) -> Array:
    return lax.optimization_barrier(jnp.concatenate([first[None], rest]))


def _largest(column: Array) -> Array:
    """Index of the entry of largest magnitude."""
    return jnp.argmax(jnp.abs(column)).astype(jnp.int32)


def _bring_up(A: Array, chosen: Array) -> tuple[Array, Array]:
    """Exchange the first row of A with a chosen one; returns the new first row and the rest.

    By selection, because moving rows by computed indices is a loop of its own in XLA.
    """
    index = jnp.arange(1, A.shape[0], dtype=jnp.int32).reshape((-1,) + (1,) * (A.ndim - 1))
    row = lax.dynamic_index_in_dim(A, chosen, keepdims=False)
    return row, jnp.where(index == chosen, A[0], A[1:])
