"""Tangent-plane parametrisations: independent coordinates are those of a tangent space.

    G_n = G(q_n, t_n),   C = basis of range(G_n^T),   z = V^T (q - q_n),   V^T C = 0

The constraint manifold near q_n is a graph over its tangent plane there, range(V) = ker(G_n), and
is reached from it along C, at right angles to it. The three published ways to the plane differ in
the algebra, not in the plane: singular values (Mani, Haug, Atkinson 1985), Gram-Schmidt's
orthogonalisation (Liang, Lance 1987), and a QR factorisation (Potra, Rheinboldt 1991).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..problem.chart import CoordinateWeights
from ..system.base import Array
from .charts import StateSpaceFormulation, growth, pivots
from .options import check_choice, positive

if TYPE_CHECKING:
    from ..problem.chart import Chart

Basis = Literal["qr", "svd", "gram-schmidt"]
_SWEEPS = 30


class NullSpace(StateSpaceFormulation):
    """Integration in the tangent plane of the constraint manifold at a point of the trajectory.

    The plane is kept while the manifold has not turned too far from it, then taken anew where the
    trajectory is; how often is told by `result.stats["chart_changes"]`. Rotations of spatial bodies
    and non-holonomic rows are treated as by `CoordinatePartitioning`.

    **Arguments:**

    - `basis`: how the plane is computed: ``"qr"`` (Householder), ``"svd"`` (Jacobi's one-sided
      rotations), or ``"gram-schmidt"``. All three are plain arithmetic: a call into LAPACK would
      keep the time loop from being compiled as one function. Results agree to rounding.
    - `tolerance`: as of `CoordinatePartitioning`.
    - `condition_limit`: the plane is taken anew when velocities have grown to this many times their
      part in it. Accuracy falls steeply with it, as the manifold bends away from the plane.
    """

    reference: ClassVar[str] = (
        "Mani, Haug, Atkinson 1985; Liang, Lance 1987; Potra, Rheinboldt 1991"
    )

    basis: Basis = eqx.field(static=True)
    tolerance: Array
    condition_limit: Array

    def __init__(
        self, basis: Basis = "qr", *, tolerance: float = 1e-9, condition_limit: float = 1.2
    ):
        check_choice("NullSpace", "basis", basis, tuple(_BASES))
        self.basis = basis
        self.tolerance = positive("NullSpace", "tolerance", tolerance, "m or rad")
        self.condition_limit = growth("NullSpace", condition_limit)

    def complement(
        self, jacobian: Array, holonomic: int, redundant: bool, weights: CoordinateWeights
    ) -> tuple[Array, Array | None]:
        rows = jacobian.shape[0]
        kept = pivots(jacobian, holonomic, True, weights)[1] if redundant else None
        mask = jnp.ones(rows) if kept is None else kept
        jacobian = mask[:, None] * jacobian
        orthonormal = _BASES[self.basis]
        C = jnp.zeros((jacobian.shape[1], 0))
        if holonomic:
            C = orthonormal(jacobian[:holonomic], mask[:holonomic])
        if rows > holonomic:
            rest = jacobian[holonomic:]
            rest = rest - (rest @ C) @ C.T
            C = jnp.concatenate([C, orthonormal(rest, mask[holonomic:])], axis=1)
        return C, kept

    def statistics(self, carry: Chart) -> dict[str, int]:
        return {"chart_changes": int(carry.changes)}


# Orthonormal bases of the space of the rows of G, one column (of C) for each row; rows with a zero
# in the mask are zero, and so are their columns.


def _gram_schmidt(G: Array, mask: Array) -> Array:
    rows, n = G.shape

    def add(i: Array, C: Array) -> Array:
        x = G[i]
        for _ in range(2):  # the second time removes the rounding of the first
            x = x - C @ (x @ C)
        return C + jnp.outer(_unit(x), jnp.arange(rows) == i)

    return lax.fori_loop(0, rows, add, jnp.zeros((n, rows)))


def _householder(G: Array, mask: Array) -> Array:
    rows, n = G.shape
    index = jnp.arange(n)
    place = jnp.cumsum(mask).astype(int) - 1  # of the diagonal entry that a kept row gets

    def reflect(i: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        X, U = now
        x = jnp.where(index >= place[i], X[:, i], 0.0) * mask[i]
        at = index == place[i]
        length = jnp.sqrt(jnp.sum(x**2))
        u = _unit(x + at * mask[i] * jnp.where(jnp.sum(x * at) < 0, -length, length))
        return X - 2 * jnp.outer(u, u @ X), U + jnp.outer(u, jnp.arange(rows) == i)

    _, U = lax.fori_loop(0, rows, reflect, (G.T, jnp.zeros((n, rows))))

    def unfold(k: Array, Q: Array) -> Array:
        u = U[:, rows - 1 - k]
        return Q - 2 * jnp.outer(u, u @ Q)

    diagonal = jnp.where(index[:, None] == place[None, :], mask, 0.0)
    return lax.fori_loop(0, rows, unfold, diagonal)


def _singular_vectors(G: Array, mask: Array) -> Array:
    """Right singular vectors: rows are turned in pairs until all are orthogonal (Hestenes)."""
    rows = G.shape[0]
    first, second = (jnp.asarray(x) for x in np.triu_indices(rows, 1))
    index = jnp.arange(rows)[:, None]

    def turn(k: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        R, cosine = now
        i, j = first[k], second[k]
        x, y = R[i], R[j]
        xx, yy, xy = jnp.sum(x * x), jnp.sum(y * y), jnp.sum(x * y)
        oblique = jnp.abs(xy) > 0
        zeta = (yy - xx) / jnp.where(oblique, 2 * xy, 1.0)
        tangent = jnp.where(zeta < 0, -1.0, 1.0) / (jnp.abs(zeta) + jnp.sqrt(1 + zeta**2))
        tangent = jnp.where(oblique, tangent, 0.0)
        c = 1 / jnp.sqrt(1 + tangent**2)
        s = c * tangent
        R = jnp.where(index == i, c * x - s * y, jnp.where(index == j, s * x + c * y, R))
        here = jnp.abs(xy) / jnp.where(oblique, jnp.sqrt(xx * yy), 1.0)
        return R, jnp.maximum(cosine, here)

    def sweep(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        R, cosine = lax.fori_loop(0, first.shape[0], turn, (now[0], jnp.zeros(())))
        return R, cosine, now[2] + 1

    def unfinished(now: tuple[Array, Array, Array]) -> Array:
        return jnp.logical_and(now[1] > 1e-15, now[2] < _SWEEPS)

    R = G
    if first.shape[0]:
        R = lax.while_loop(unfinished, sweep, (G, jnp.ones(()), jnp.asarray(0)))[0]
    length = jnp.sqrt(jnp.sum(R**2, axis=1, keepdims=True))
    return (R / jnp.where(length > 0, length, 1.0)).T


def _unit(x: Array) -> Array:
    length = jnp.sqrt(jnp.sum(x**2))
    return x / jnp.where(length > 0, length, 1.0)


_BASES = {"qr": _householder, "svd": _singular_vectors, "gram-schmidt": _gram_schmidt}
