"""Saddle-point solver on small dense matrices, unrolled: no library call inside the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.lax import fori_loop, optimization_barrier

from ..linalg import cholesky, cholesky_solve, lu, lu_solve
from .base import Array, ConstraintFactor

# A solution whose residual is larger than this, relative to its terms, is refused.
REJECTED = 1e-7
# Relative size of the proximal term for dependent constraints, and its refinement passes; see
# `dependent_multipliers`.
PROXIMAL = 3e-7
PASSES = 5


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
            self._scale = proximal_scale(jnp.diagonal(self._schur))
            shifted = shifted + PROXIMAL * jnp.diag(self._scale)
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
        solve = lambda x: cholesky_solve(self._factor, x)  # noqa: E731
        if self._redundant:
            product = lambda x: self._schur @ x  # noqa: E731
            return dependent_multipliers(residual, product, solve, self._scale)
        return solve(residual)

    def spread(self, lam: Array) -> Array:
        if self._rows == 0:
            return jnp.zeros((self._jacobian.shape[1],), lam.dtype)
        return self._spreader @ lam


class DenseTangent:
    """Newton's matrix of an implicit step on generalized coordinates, without row exchanges:

        [ K  C^T ] [dx]
        [ C   0  ] [dl]

    Coordinates are eliminated first, then multipliers; with `augment`, that many times C^T C,
    scaled by the size of K, is added to K, and as much to the right-hand side.
    """

    def __init__(self, K: Array, C: Array, augment: Array | float | None = None):
        self._K, self._C = K, C
        self._pull = 0.0
        if augment is not None:
            self._pull = augment * jnp.mean(jnp.abs(jnp.diagonal(K)))
            K = K + self._pull * (C.T @ C)
        self._motion = lu(K, pivot=False)
        self._rows = C.shape[0]
        if self._rows:
            self._spread = lu_solve(self._motion, C.T)
            self._schur = lu(C @ self._spread, pivot=False)

    def solve(self, motion: Array, constraints: Array) -> tuple[Array, Array]:
        """(dx, dl) for right-hand sides of the equations of motion and the constraints; not a
        number where the solution fails its check."""
        if not self._rows:
            return lu_solve(self._motion, motion), constraints
        free = lu_solve(self._motion, motion + self._pull * (self._C.T @ constraints))
        dl = lu_solve(self._schur, self._C @ free - constraints)
        dx = free - self._spread @ dl
        pull = self._C.T @ dl
        rest = motion - self._K @ dx - pull
        big = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731
        fine = big(rest) <= REJECTED * jnp.maximum(big(pull), big(motion))
        return jnp.where(fine, dx, jnp.nan), dl


def proximal_scale(diagonal: Array) -> Array:
    """D, the diagonal of S, kept away from zero for rows that constrain nothing here."""
    return jnp.maximum(diagonal, 1e-12 * jnp.max(diagonal))


def dependent_multipliers(
    residual: Array,
    product: Callable[[Array], Array],
    solve: Callable[[Array], Array],
    scale: Array,
) -> Array:
    """lam with S lam = residual for dependent constraints, from F = (S + eps D)^-1.

    Each pass adds D^-1 S F D F (residual - S lam). In the eigenvectors of S scaled by D, with
    eigenvalues s, it multiplies by s / (s + eps)^2 where the pseudo-inverse has 1 / s. Where s is
    large the error shrinks by 2 eps / s a pass: to 1e-13 after five for s > 3e-4. Where constraints
    are dependent s is zero, and so is the multiplier. It must stay small nearby as well: within a
    step of an explicit method the state is off the constraints by d = O(h^2), dependent rows
    contradict each other by as much and have s = O(d^2). A factor 1 / eps there, as F alone has, is
    an error of d^2 / eps in the accelerations; this one has d^4 / eps^2.
    """

    def once(_: Array, lam: Array) -> Array:
        return lam + product(solve(scale * solve(residual - product(lam)))) / scale

    return fori_loop(0, PASSES, once, jnp.zeros_like(residual))


def smallest_multipliers(jacobian: Any, lam: Any) -> np.ndarray:
    """The multipliers of least norm that exert the same forces G^T lam, on the host; for one state
    or, with a leading axis, for many."""
    if jacobian.ndim == 2:
        return np.linalg.lstsq(jacobian.T, jacobian.T @ lam, rcond=1e-9)[0]
    pairs = zip(jacobian, lam, strict=True)
    return np.stack([smallest_multipliers(G, x) for G, x in pairs]) if len(lam) else lam


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
