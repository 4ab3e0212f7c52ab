"""A matrix that is easily solved but for a few rows and columns at its border.

    [ A  B ] [x]   [r]          X = A⁻¹ B,    (D - C X) w = s - C A⁻¹ r,    x = A⁻¹ r - X w
    [ C  D ] [w] = [s]

A is solved by its structure, whatever that is; what is left is a small dense matrix. The matrix
itself is known by its products only: C X is never formed.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .small import LUFactor, lu, lu_solve

# (x, w) to the rows of x and those of w
Product = Callable[[Array, Array], tuple[Array, Array]]


class BorderFactor(NamedTuple):
    """`columns` (some of w, x) are those of X that are not zero, `schur` the factor of D - C X."""

    columns: Array
    schur: LUFactor


def factor_border(
    product: Product, solve: Callable[[Array], Array], size: tuple[int, int], reaching: np.ndarray
) -> BorderFactor:
    """Factor the matrix of that product, `solve` being A⁻¹ and `size` the lengths of x and w;
    `reaching` are the entries of w whose columns of B are not zero."""
    n, m = size
    none, others = jnp.zeros((n,)), np.setdiff1d(np.arange(m), reaching)

    def column(w: Array) -> tuple[Array, Array]:
        x = solve(product(none, w)[0])
        return x, product(-x, w)[1]

    # one column after the other, so that the program does not grow with the border
    found, alone = jnp.zeros((0, n)), []
    if len(reaching):
        found, rows = jax.lax.map(column, jnp.eye(m)[reaching])
        alone.append(rows)
    if len(others):
        alone.append(jax.lax.map(lambda w: product(none, w)[1], jnp.eye(m)[others]))
    order = np.argsort(np.concatenate([reaching, others]))
    schur = jnp.concatenate(alone)[order] if alone else jnp.zeros((0, 0))
    return BorderFactor(found, lu(schur.T))


def solve_border(
    factor: BorderFactor,
    product: Product,
    solve: Callable[[Array], Array],
    reaching: np.ndarray,
    sides: tuple[Array, Array],
) -> tuple[Array, Array]:
    """(x, w) for right-hand sides (r, s)."""
    r, s = sides
    x = solve(r)
    w = lu_solve(factor.schur, s - product(x, jnp.zeros_like(s))[1])
    return x - w[reaching] @ factor.columns, w
