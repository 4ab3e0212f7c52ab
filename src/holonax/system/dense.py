"""Saddle-point solver on small dense matrices, unrolled: no library call inside the loop."""

from __future__ import annotations

from collections.abc import Callable

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
    """Range-space solution with the Schur complement S = G W G^T + shift, all dense.

    `weigh` applies W to a vector (nv,) or to the columns of a matrix (nv, k).
    """

    def __init__(
        self,
        jacobian: Array,
        weigh: Callable[[Array], Array],
        shift: Array | float = 0.0,
        *,
        redundant: bool,
    ):
        self._jacobian, self._weigh, self._redundant = jacobian, weigh, redundant
        self._rows = rows = jacobian.shape[0]
        if rows == 0:
            return
        self._spreader = weigh(jacobian.T)
        schur = jacobian @ self._spreader
        if not is_zero(shift):
            schur = schur + shift * jnp.eye(rows)
        self._schur = optimization_barrier(schur)
        shifted = self._schur
        if redundant:
            shifted = shifted + PROXIMAL * jnp.trace(self._schur) / rows * jnp.eye(rows)
        self._factor = cholesky(shifted)

    def solve(self, force: Array, gamma: Array) -> tuple[Array, Array]:
        free = self._weigh(force)
        if self._rows == 0:
            return free, jnp.zeros((0,), free.dtype)
        lam = self.multipliers(self._jacobian @ free - gamma)
        return free - self._spreader @ lam, lam

    def weigh(self, force: Array) -> Array:
        return self._weigh(force)

    def apply(self, v: Array) -> Array:
        return self._jacobian @ v

    def multipliers(self, residual: Array) -> Array:
        if self._rows == 0:
            return residual
        lam = cholesky_solve(self._factor, residual)
        if self._redundant:
            for _ in range(PASSES):
                lam = lam + cholesky_solve(self._factor, residual - self._schur @ lam)
        return lam

    def spread(self, lam: Array) -> Array:
        if self._rows == 0:
            return jnp.zeros((self._jacobian.shape[1],), lam.dtype)
        return self._spreader @ lam


def is_zero(shift: Array | float) -> bool:
    """Whether a shift is known to be none, so that nothing need be added."""
    return isinstance(shift, float) and shift == 0


def inverse_mass(mass: Array | None) -> Callable[[Array], Array]:
    """The operator W = M^-1 for a diagonal or full `mass`; W = 1 for None."""
    if mass is None:
        return lambda b: b
    if mass.ndim == 1:
        return lambda b: b / (mass if b.ndim == 1 else mass[:, None])
    factor = cholesky(mass)
    return lambda b: cholesky_solve(factor, b)
