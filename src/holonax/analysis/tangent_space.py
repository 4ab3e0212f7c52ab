"""The directions a mechanism can move in at one configuration, in the mass metric.

With M = L L^T and J = [G; A], scaled displacements y = L^T d see the scaled rows J^ = D J L^-T of
unit length. Their pseudo-inverse J^+ splits everything in two: P = 1 - J^+ J^ keeps what the
constraints allow, and lam = D J^+^T L^-1 f are the multipliers that take up the rest of a force.

The rank is known beforehand and fixed (from `diagnose`), so that dependent constraints are told
from independent ones also a little off g = 0, and shapes do not depend on values.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from .._modules import Module
from ..system.base import Array, System

if TYPE_CHECKING:
    from jaxtyping import PyTree


def library(*arrays: PyTree) -> ModuleType:
    """NumPy for numbers of the host, where nothing has to be compiled; jax.numpy for others."""
    return np if all(isinstance(x, np.ndarray) for x in arrays) else jnp


def _triangular(
    lower: np.ndarray | Array, x: np.ndarray | Array, *, transposed: bool = False
) -> Any:
    """L^-1 x or L^-T x."""
    if library(lower, x) is np:
        return np.linalg.solve(lower.T if transposed else lower, x)
    return solve_triangular(lower, x, lower=True, trans=int(transposed))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def pseudo_inverse(A: Array, rank: int) -> Array:
    """A^+ of a matrix of known rank: what lies beyond its `rank` largest singular values is left
    out, and stays out when it is differentiated."""
    if rank == 0:
        return jnp.zeros(A.shape[::-1], A.dtype)
    u, s, vt = jnp.linalg.svd(A, full_matrices=False)
    return (vt[:rank].T / s[:rank]) @ u[:, :rank].T


def _inverse(A: np.ndarray | Array, rank: int) -> Any:
    if library(A) is jnp:
        return pseudo_inverse(A, rank)
    if rank == 0:
        return np.zeros(A.shape[::-1])
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    return (vt[:rank].T / s[:rank]) @ u[:, :rank].T


@pseudo_inverse.defjvp
def _pseudo_inverse_jvp(rank: int, primals: PyTree, tangents: PyTree) -> tuple[Array, Array]:
    """Golub and Pereyra 1973, Eq. (4.12), for constant rank."""
    (A,), (dA,) = primals, tangents
    p = pseudo_inverse(A, rank)
    change = -p @ dA @ p
    change += (p @ p.T) @ (dA.T - dA.T @ A @ p)
    change += (dA.T - p @ A @ dA.T) @ (p.T @ p)
    return p, change


class Tangent(Module):
    """The split at one configuration; see the module."""

    jacobian: Array
    lower: Array
    scale: Array
    rows: Array
    inverse: Array
    rank: int = eqx.field(static=True)

    @staticmethod
    def of(system: System, q: Array, t: Array, rank: int) -> Tangent:
        """At (q, t), with rows of the given rank."""
        return Tangent.split(system.mass_matrix(q), system.jacobian(q, t), rank)

    @staticmethod
    def split(mass: Array, jacobian: Array, rank: int) -> Tangent:
        """With the matrices M and J."""
        xp = library(mass, jacobian)
        lower = xp.linalg.cholesky(mass)
        rows = _triangular(lower, jacobian.T).T
        size = xp.linalg.norm(rows, axis=1)
        size = size if xp is np else jax.lax.stop_gradient(size)
        scale = 1 / xp.where(size > 0, size, 1.0)
        rows = scale[:, None] * rows
        return Tangent(jacobian, lower, scale, rows, _inverse(rows, rank), rank)

    def force(self, f: Array) -> Array:
        """L^-1 f, a force in scaled coordinates: vectors (nv,) or columns (nv, k)."""
        return _triangular(self.lower, f)

    def displacement(self, y: Array) -> Array:
        """L^-T y, the displacement or velocity with scaled coordinates y."""
        return _triangular(self.lower, y, transposed=True)

    def allowed(self, y: Array) -> Array:
        """P y: what the constraints allow of a scaled vector."""
        return y - self.inverse @ (self.rows @ y)

    def multipliers(self, y: Array) -> Array:
        """lam with J^T lam = L (y - P y): what takes up a scaled force y."""
        return self.scale * (self.inverse.T @ y)

    def smallest(self, lam: Array) -> Array:
        """Of all multipliers that exert the same forces J^T lam, those of least norm."""
        if self.rank == self.jacobian.shape[0]:
            return lam
        return _inverse(self.jacobian.T, self.rank) @ (self.jacobian.T @ lam)

    def correction(self, residual: Array) -> Array:
        """The smallest displacement d, in the mass metric, with J d = residual."""
        return self.displacement(self.inverse @ (self.scale * residual))

    def basis(self) -> Array:
        """Z (nv, nv - rank) with J Z = 0 and Z^T M Z = 1.

        Which of all such bases is a constant of differentiation; that it stays one is not.
        """
        return self.displacement(self.allowed(self._frozen_basis()))

    def _frozen_basis(self) -> Array:
        xp = library(self.rows)
        if self.rank == 0:
            return xp.eye(self.rows.shape[1])
        rows = self.rows if xp is np else jax.lax.stop_gradient(self.rows)
        return xp.linalg.svd(rows, full_matrices=True)[2][self.rank :].T

    def frozen_split(self) -> tuple[Array, Array]:
        """(Z^T, U^T D): what takes a force to its allowed part, (nv - rank, nv), and constraint
        residuals to independent ones, (rank, rows); constants of differentiation."""
        rows, scale, lower = jax.lax.stop_gradient((self.rows, self.scale, self.lower))
        allowed = solve_triangular(lower, self._frozen_basis(), lower=True, trans=1).T
        if self.rank == 0:
            return allowed, jnp.zeros((0, rows.shape[0]))
        left = jnp.linalg.svd(rows, full_matrices=False)[0][:, : self.rank].T
        return allowed, left * scale
