"""Elimination of a small matrix whose every entry is a variable of its own.

The block factorisation uses these on its pivots.
"""

from typing import Any

from jax import Array

Entries = list[list[Any]]


def lu_entries(rows: Any) -> Entries:
    """L U of a matrix given by its rows, without row exchanges.

    Returns one matrix of entries: L below the diagonal, U above it, 1/U on it.
    """
    n = len(rows)
    a = [list(row) for row in rows]
    for j in range(n):
        a[j][j] = 1 / a[j][j]
        for i in range(j + 1, n):
            a[i][j] = a[i][j] * a[j][j]
        for i in range(j + 1, n):
            for k in range(j + 1, n):
                a[i][k] = a[i][k] - a[i][j] * a[j][k]
    return a


def lu_entries_solve(a: Entries, b: Array) -> list[Any]:
    """Solve A x = b, b and x lists of n components (numbers, vectors, or rows of several b)."""
    x = list(b)
    n = len(x)
    for i in range(n):
        for j in range(i):
            x[i] = x[i] - a[i][j] * x[j]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - a[i][j] * x[j]
        x[i] = x[i] * a[i][i]
    return x


def lu_entries_solve_transposed(a: Entries, b: Array) -> list[Any]:
    """Solve Aᵀ x = b."""
    x = list(b)
    n = len(x)
    for i in range(n):
        for j in range(i):
            x[i] = x[i] - a[j][i] * x[j]
        x[i] = x[i] * a[i][i]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - a[j][i] * x[j]
    return x
