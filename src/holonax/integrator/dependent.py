"""Newton's linear equations where some constraints depend on others.

    [ A  B ] [du]   [f]
    [ C  Z ] [dz] = [g]

with the derivatives C of dependent constraints and the columns B of their multipliers has no unique
solution dz. With S = C A^-1 B - Z it is the smallest one of S dz = C A^-1 f - g, found as that of
consistent accelerations is (`dependent_multipliers`). Multipliers that exert nothing, which the
equations do not determine, are taken away from z in the same pass: a solution has none of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from ..linalg import LUFactor, lu, lu_solve
from ..system.base import Array
from ..system.dense import PROXIMAL, dependent_multipliers, proximal_scale


class DependentFactor(NamedTuple):
    """A factored, A^-1 B, C, S, its proximal factor and the scale of its rows."""

    own: LUFactor
    spread: Array
    rows: Array
    schur: Array
    proximal: LUFactor
    scale: Array

    @staticmethod
    def of(matrix: Array, multipliers: int) -> DependentFactor:
        """Of a matrix whose last rows and columns are those of so many multipliers."""
        n = matrix.shape[0] - multipliers
        A, B, C, Z = matrix[:n, :n], matrix[:n, n:], matrix[n:, :n], matrix[n:, n:]
        own = lu(A)
        spread = lu_solve(own, B)
        S = C @ spread - Z
        scale = proximal_scale(jnp.abs(jnp.diagonal(S)))
        return DependentFactor(own, spread, C, S, lu(S + PROXIMAL * jnp.diag(scale)), scale)

    def _smallest(self, residual: Array) -> Array:
        """The smallest x with S x = residual."""
        product = lambda x: self.schur @ x  # noqa: E731
        solve = lambda x: lu_solve(self.proximal, x)  # noqa: E731
        return dependent_multipliers(residual, product, solve, self.scale)

    def solve(self, value: Array) -> Array:
        """The smallest (du, dz) for (f, g)."""
        n = self.rows.shape[1]
        free = lu_solve(self.own, value[:n])
        dz = self._smallest(self.rows @ free - value[n:])
        return jnp.concatenate([free - self.spread @ dz, dz])

    def idle(self, x: Array) -> Array:
        """Of all unknowns the part of the multipliers that exerts nothing."""
        n = self.rows.shape[1]
        z = x[n:]
        none: Any = jnp.zeros((n,), x.dtype)
        return jnp.concatenate([none, z - self._smallest(self.schur @ z)])
