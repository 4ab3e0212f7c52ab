"""Saddle-point solver on small dense matrices, unrolled: no library call inside the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.lax import fori_loop, optimization_barrier

from ..linalg import cholesky, cholesky_solve, lu, lu_solve
from .array_types import Force, Multipliers, PerRow, Velocity
from .base import Array, ConstraintFactor
from .step import StepPoint, StepSolver, StepWeights

if TYPE_CHECKING:
    from jaxtyping import PyTree

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

    def solve(self, force: Force, gamma: PerRow) -> tuple[Velocity, Multipliers]:
        free = self._weigh(force)
        if self._rows == 0:
            return free, jnp.zeros((0,), free.dtype)
        lam = self.multipliers(self._jacobian @ free - gamma)
        return free - self._spreader @ lam, lam

    def weigh(self, force: Force) -> Velocity:
        return self._weigh(force)

    def apply(self, v: Velocity) -> PerRow:
        return self._jacobian @ v

    def multipliers(self, residual: PerRow) -> Multipliers:
        if self._rows == 0:
            return residual
        solve = lambda x: cholesky_solve(self._factor, x)  # noqa: E731
        if self._redundant:
            product = lambda x: self._schur @ x  # noqa: E731
            return dependent_multipliers(residual, product, solve, self._scale)
        return solve(residual)

    def spread(self, lam: Multipliers) -> Velocity:
        if self._rows == 0:
            return jnp.zeros((self._jacobian.shape[1],), lam.dtype)
        return self._spreader @ lam


class DenseBlocks(NamedTuple):
    """The linear equations of a step (see `step.py`) with dense matrices, y, l and m being the
    unknowns: `rows` are the constraints that go with lam by y, `by_velocity` by s alone, and
    `positions` those that go with mu, None where there are none."""

    inertia: Array
    stiffness: Array
    spin: Array | None
    pulls: Array
    gradients: Array
    rows: Array
    positions: Array | None = None
    by_velocity: Array | None = None

    def parts(self) -> tuple[Array, Array, Array, Array]:
        """(K, B, C, D) of the matrix [[K, B], [C, D]], C being the constraints."""
        own = self.inertia if self.spin is None else self.inertia @ self.spin
        own, n = own + self.stiffness, self.rows.shape[0]
        if self.positions is None:
            return own, self.pulls.T, self.rows, jnp.zeros((n, n))
        m = self.positions.shape[0]
        across = self.gradients[:m].T
        assert self.by_velocity is not None
        speed = self.by_velocity @ across
        return (
            own,
            jnp.concatenate([self.pulls.T, self.inertia @ across], axis=1),
            jnp.concatenate([self.rows, self.positions]),
            jnp.pad(speed, ((0, m), (n, 0))),
        )

    def matrix(self) -> Array:
        """The whole matrix."""
        K, B, C, D = self.parts()
        return jnp.concatenate([jnp.concatenate([K, B], axis=1), jnp.concatenate([C, D], axis=1)])


class DenseSlopes(NamedTuple):
    """What dense blocks are made of before they are weighted by the step: M, F_v and F_x (None
    where forces stay), G, and the rows of constraints. Those of velocity level are `speed` by s and
    `drift` by y; those of acceleration level have a part `pull` by s that grows with the step.
    `place` are rows of position level, by y, in place of the first ones, and `positions` those that
    have multipliers of their own."""

    inertia: Array
    damping: Array
    stiffness: Array | None
    gradients: Array
    speed: Array
    drift: Array | None = None
    pull: Array | None = None
    place: Array | None = None
    positions: Array | None = None

    def blocks(self, weights: StepWeights) -> DenseBlocks:
        """The blocks of a step of this reach and ratio."""
        reach, ratio, G = weights.reach, weights.ratio, self.gradients
        inertia = self.inertia + reach * ratio * self.damping
        stiffness = jnp.zeros_like(self.damping)
        if self.stiffness is not None:
            stiffness = reach * self.stiffness
        rows = self.speed
        if self.pull is not None:
            rows = rows + reach * ratio * self.pull + reach * self.drift
        elif self.drift is not None:
            rows = rows + self.drift / ratio
        if self.place is not None:
            rows = jnp.concatenate([self.place, rows[len(self.place) :]])
        return DenseBlocks(inertia, stiffness, None, G, G, rows, self.positions, self.speed)


class FunctionSolver(StepSolver):
    """Steps on generalized coordinates, all matrices dense: `slopes(at, weights)` are those before
    they are weighted by the step. Coordinates are eliminated first, then multipliers, without row
    exchanges; with `augment`, that many times B C, scaled by the size of K, is added to K, and as
    much to the right-hand side."""

    def __init__(self, slopes: Callable[[StepPoint, StepWeights], DenseSlopes], augment: Any):
        self._slopes, self._augment = slopes, augment

    def slopes(self, at: StepPoint, weights: StepWeights) -> DenseSlopes:
        return self._slopes(at, weights)

    def factor(self, slopes: DenseSlopes, weights: StepWeights) -> PyTree:
        K, B, C, D = optimization_barrier(slopes.blocks(weights).parts())
        pull, own = 0.0, K
        if self._augment is not None:
            pull = self._augment * jnp.mean(jnp.abs(jnp.diagonal(K)))
            K = K + pull * (B @ C)
        motion, spread, schur = lu(K, pivot=False), None, None
        if C.shape[0]:
            spread = lu_solve(motion, B)
            schur = lu(C @ spread - D, pivot=False)
        return (own, B, C), pull, motion, spread, schur

    def solve(
        self,
        factor: PyTree,
        motion: Array,
        constraints: Array,
        positions: Array | None,
        *,
        checked: bool = True,
    ) -> tuple[Array, Array, Array | None, Array]:
        (K, B, C), pull, own, spread, schur = factor
        if not C.shape[0]:
            return lu_solve(own, motion), constraints, positions, jnp.asarray(True)
        both = constraints
        if positions is not None:
            both = jnp.concatenate([constraints, positions])
        free = lu_solve(own, motion if self._augment is None else motion + pull * (B @ both))
        both = lu_solve(schur, C @ free - both)
        dx, fine = free - spread @ both, jnp.asarray(True)
        if checked and not jnp.iscomplexobj(dx):
            across = B @ both
            rest = motion - K @ dx - across
            big = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731
            fine = big(rest) <= REJECTED * jnp.maximum(big(across), big(motion))
        if positions is None:
            return dx, both, None, fine
        n = constraints.shape[0]
        return dx, both[:n], both[n:], fine


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


def smallest_multipliers(jacobian: np.ndarray, lam: np.ndarray) -> np.ndarray:
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
