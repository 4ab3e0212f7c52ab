"""Saddle-point solver on small dense matrices, unrolled: no library call inside the loop."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jax.lax import optimization_barrier

from ..linalg import cholesky, cholesky_solve
from .base import Array, ConstraintFactor

# Relative size of the proximal term for dependent constraints, and its refinement passes. Each
# pass shrinks the error by eps/(eps + s), with s the smallest nonzero eigenvalue of the scaled
# Schur complement: 1e-16 after three passes for s > 1e-4, while round-off in the null space
# stays below 1e-16/eps of the multipliers (and has no effect on the accelerations).
PROXIMAL = 1e-9
PASSES = 3


class DenseFactor(ConstraintFactor):
    """Range-space solution with the Schur complement S = G W G^T.

    `mass` is the diagonal of M, its Cholesky factor, or None for the identity metric.
    """

    jacobian: Array
    spreader: Array  # W G^T
    schur: Array
    schur_factor: object
    mass: object
    kind: str = eqx.field(static=True)
    redundant: bool = eqx.field(static=True)

    def _mass_solve(self, b: Array) -> Array:
        return _inverse_mass(self.kind, self.mass, b)

    def solve(self, force: Array, gamma: Array) -> tuple[Array, Array]:
        free = self._mass_solve(force)
        if self.jacobian.shape[0] == 0:
            return free, jnp.zeros((0,), free.dtype)
        lam = self.multipliers(self.jacobian @ free - gamma)
        return free - self.spreader @ lam, lam

    def correct(self, residual: Array) -> Array:
        return self.spreader @ self.multipliers(residual)

    def multipliers(self, residual: Array) -> Array:
        if residual.shape[0] == 0:
            return residual
        lam = cholesky_solve(self.schur_factor, residual)
        if self.redundant:
            for _ in range(PASSES):
                lam = lam + cholesky_solve(self.schur_factor, residual - self.schur @ lam)
        return lam

    def spread(self, lam: Array) -> Array:
        return self.spreader @ lam


def _inverse_mass(kind: str, mass: object, b: Array) -> Array:
    if kind == "identity":
        return b
    if kind == "diagonal":
        return b / (mass if b.ndim == 1 else mass[:, None])  # pyright: ignore
    return cholesky_solve(mass, b)


def dense_factor(jacobian: Array, mass: Array | None, *, redundant: bool) -> DenseFactor:
    """Factor for `jacobian` (rows, nv) and `mass` (diagonal or full; None for W = 1)."""
    if mass is None:
        kind, prepared = "identity", None
    elif mass.ndim == 1:
        kind, prepared = "diagonal", mass
    else:
        kind, prepared = "full", cholesky(mass)
    rows = jacobian.shape[0]
    spreader = _inverse_mass(kind, prepared, jacobian.T) if rows else jacobian.T
    if rows:
        schur = optimization_barrier(jacobian @ spreader)
        shifted = schur
        if redundant:
            shift = PROXIMAL * jnp.trace(schur) / rows
            shifted = schur + shift * jnp.eye(rows)
        schur_factor = cholesky(shifted)
    else:
        schur, schur_factor = jnp.zeros((0, 0)), None
    return DenseFactor(jacobian, spreader, schur, schur_factor, prepared, kind, redundant)
