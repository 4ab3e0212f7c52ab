"""Local coordinates of the constraint manifold, carried from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ..linalg import LUFactor, lu, lu_solve, moved_back
from ..system.base import Array, System

_MOST_ITERATIONS = 20


class CoordinateWeights(NamedTuple):
    """How coordinates compare, from the start of a run on: `scale` (nv,) is what a unit of each
    velocity counts, `crowd` (nv,) the number of constraints that each takes part in."""

    scale: Array
    crowd: Array


class Chart(NamedTuple):
    """The choice carried from step to step.

    `complement` is C (nv, rows), column i for constraint row i; `kept` (rows,) is zero for rows
    that depend on others, whose columns are zero (None if all are independent); `weights` compare
    the coordinates; `size` is the measure of (G C)^-1 G when the chart was chosen; `changes` counts
    the choices after the first.
    """

    complement: Array
    kept: Array | None
    weights: CoordinateWeights
    size: Array
    changes: Array

    def matrix(self, product: Array) -> Array:
        """G C, given as it is, made regular where a row depends on others."""
        if self.kept is None:
            return product
        kept = self.kept[: product.shape[0]]
        return kept[:, None] * product + jnp.diag(1 - kept)

    def factor(self, jacobian: Array) -> LUFactor:
        """The factor of G C for all rows of G."""
        return lu(self.matrix(jacobian @ self.complement))

    def solve(self, factor: LUFactor, residual: Array) -> Array:
        """C (G C)^-1 residual."""
        return self.complement @ lu_solve(factor, self.mask(residual))

    def meeting(
        self, factor: LUFactor, x: Array, residual: Callable[[Array], Array], still: Array
    ) -> Array:
        """x with a part along C such that residual(x) = 0, which is linear in x and whose factor
        is that of G C; `still` is residual(x) as numbers that do not move.

        The derivative follows from that of residual(x), so nobody needs those of G.
        """
        x = x - self.solve(factor, still)
        return moved_back(x, self.solve(factor, residual(x)))

    def mask(self, residual: Array) -> Array:
        """The residual, without those of dependent rows."""
        return residual if self.kept is None else self.kept[: residual.shape[0]] * residual

    def velocity(self, system: System, t: Array, q: Array, v: Array) -> Array:
        """v with its dependent part recomputed."""
        still = lax.stop_gradient((system, q, v, t))
        factor = self.factor(still[0].jacobian(still[1], still[3]))
        rate = lambda v: system.constraint_rate(q, v, t)  # noqa: E731
        return self.meeting(factor, v, rate, still[0].constraint_rate(*still[1:]))

    def measure(self, jacobian: Array) -> Array:
        """sqrt(1 + |H|^2) of the rates H of dependent coordinates for unit independent ones.

        The same for every basis of the range of C: [1, H] is (G C)^-1 G in coordinates along C
        and beside it.
        """
        scale = self.weights.scale
        rates = lu_solve(self.factor(jacobian), jacobian) / scale
        square = jnp.sum(rates**2, axis=1) * (scale @ self.complement**2) ** 2
        return jnp.sqrt(1 + jnp.maximum(jnp.sum(self.mask(square - 1)), 0.0))

    def dependent(
        self, system: System, t: Array, q: Array, given: Array, start: Array, tolerance: Array
    ) -> tuple[Array, Array]:
        """eta with g(q ⊞ (given + C eta), t) = 0 by Newton's method, and |g| before its last step.

        Not to be differentiated.
        """
        C = self.complement[:, : start.shape[0]]

        def iterate(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            eta, _, count = now
            step, distance = self.newton_step(system, t, q, given + C @ eta)
            return eta - step, distance, count + 1

        def unfinished(now: tuple[Array, Array, Array]) -> Array:
            return jnp.logical_and(now[1] > tolerance, now[2] < _MOST_ITERATIONS)

        far = jnp.asarray(jnp.finfo(start.dtype).max)
        eta, distance, _ = lax.while_loop(unfinished, iterate, (start, far, jnp.asarray(0)))
        return eta, distance

    def newton_step(
        self, system: System, t: Array, q: Array, increment: Array
    ) -> tuple[Array, Array]:
        """(step of eta, |g|) at q ⊞ increment, the matrix taken as a constant."""
        return _newton_step(self, system, t, q, increment)


@jax.jit  # asked for in several places: traced once
def _newton_step(
    chart: Chart, system: System, t: Array, q: Array, increment: Array
) -> tuple[Array, Array]:
    at = system.retract(q, increment)
    g = system.constraint(at, t)
    C = chart.complement[:, : g.shape[0]]
    # before anything is computed of them, so that nobody looks for derivatives of the matrix
    system, at, t, increment = lax.stop_gradient((system, at, t, increment))
    along = jax.vmap(system.increment_rate, (None, 1), 1)(increment, C)
    product = system.jacobian(at, t)[: g.shape[0]] @ along
    return lu_solve(lu(chart.matrix(product)), chart.mask(g)), jnp.max(jnp.abs(g))
