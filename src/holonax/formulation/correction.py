"""The correction F h of a state that is off its invariants, F = D (H D)^-1.

    z = (q, v),  h = (g, G v + g_t),  H = [[G, 0], [R, G]],  R = d(G v + g_t)/dq

after Ascher, Chin, Petzold & Reich (1995). The part for q is an increment of the size of v, so that
it holds on rotations as well. Non-holonomic rows belong to the second line of H.
"""

from __future__ import annotations

import abc
import copy
from typing import Literal

import jax
import jax.numpy as jnp

from ..linalg import cholesky, cholesky_solve, moved_back
from ..system.base import Array, Configuration, ConstraintFactor, Metric, System

Level = Literal["both", "velocity", "position", "full"]
Direction = Literal["H", "G"]
Freeze = Literal["all", "factor", "none"]


class Correction(abc.ABC):
    """F prepared at one state; called with h, it gives the corrections of q and v.

    A level that is not corrected has None. `here` is where the state is.
    """

    here: Configuration

    def residuals(self, v: Array) -> tuple[Array, Array]:
        """h at the velocities `v`."""
        return self.here.constraint(), self.here.rate(v)

    @abc.abstractmethod
    def moved(self, q: Array, v: Array, t: Array, freeze: Freeze) -> Correction:
        """F at a later state, with all of it or its factor kept."""

    @abc.abstractmethod
    def __call__(self, position: Array, rate: Array) -> tuple[Array | None, Array | None]:
        """(dq, dv) = F h."""


def correction(
    system: System, q: Array, v: Array, t: Array, level: Level, metric: Metric, direction: Direction
) -> Correction:
    """The correction of a level; `direction` chooses D of the full one."""
    if level != "full":
        return LevelCorrection(system.at(q, t), level, metric)
    if direction == "G":
        return CoupledCorrection(system, q, v, t, metric)
    return FullCorrection(system, q, v, t)


class LevelCorrection(Correction):
    """The corrections W G^T (G W G^T)^-1 of position and velocity (Eqs. 5.5, 5.6)."""

    def __init__(self, here: Configuration, level: Level, metric: Metric):
        self.here = here
        self.level: Level = level
        self.metric: Metric = metric
        self.factors = self.spreaders = self._factors()

    def _factors(self) -> tuple[ConstraintFactor, ConstraintFactor]:
        """Factors for the position rows and for all rows; the same unless non-holonomic."""
        velocity = self.here.factor(metric=self.metric)
        if self.level == "velocity" or not self.here.system.has_nonholonomic_constraints:
            return velocity, velocity
        return self.here.factor(metric=self.metric, rows="holonomic"), velocity

    def moved(self, q: Array, v: Array, t: Array, freeze: Freeze) -> LevelCorrection:
        here = self.here.system.at(q, t)
        if freeze == "none":
            return LevelCorrection(here, self.level, self.metric)
        copied = copy.copy(self)
        copied.here = here
        if freeze == "factor":
            copied.spreaders = copied._factors()
        return copied

    def _corrected(self, level: int, residual: Array) -> Array:
        spreader, factor = self.spreaders[level], self.factors[level]
        if spreader is factor:
            return factor.correct(residual)
        return spreader.spread(factor.multipliers(residual))

    def position(self, residual: Array) -> Array:
        """The increment of q that takes `residual` away, to first order."""
        return self._corrected(0, residual)

    def velocity(self, residual: Array) -> Array:
        """The change of v that takes `residual` away."""
        return self._corrected(1, residual)

    def __call__(self, position: Array, rate: Array) -> tuple[Array | None, Array | None]:
        factor, of_rates = self.factors
        if self.level == "both" and factor is of_rates:
            lam = factor.several_multipliers([position, rate])
            dq, dv = (x.spread(y) for x, y in zip(self.spreaders, lam, strict=True))
            return dq, dv
        dq = None if self.level == "velocity" else self.position(position)
        dv = None if self.level == "position" else self.velocity(rate)
        return dq, dv


class CoupledCorrection(Correction):
    """D = diag(W G^T, W G^T) (Eq. 4.6): the velocity is corrected for where the position moves.

    H D is block triangular, so two solves with factors of G W G^T and one derivative of the rate
    along the position's increment are all there is to it.
    """

    def __init__(self, system: System, q: Array, v: Array, t: Array, metric: Metric):
        self.here = system.at(q, t)
        self.levels = LevelCorrection(self.here, "both", metric)
        self.state = q, v, t

    def moved(self, q: Array, v: Array, t: Array, freeze: Freeze) -> CoupledCorrection:
        copied = copy.copy(self)
        if freeze == "all":
            copied.here = self.here.system.at(q, t)
            return copied
        copied.levels = self.levels.moved(q, v, t, freeze)
        copied.here = copied.levels.here
        copied.state = q, v, t
        return copied

    def __call__(self, position: Array, rate: Array) -> tuple[Array, Array]:
        system = self.here.system
        q, v, t = self.state
        dq = self.levels.position(position)
        at = lambda step: system.constraint_rate(system.retract(q, step), v, t)  # noqa: E731
        change = jax.jvp(at, (jnp.zeros_like(v),), (dq,))[1]
        return dq, self.levels.velocity(rate - change)


class FullCorrection(Correction):
    """H^T (H H^T)^-1 for the stacked position and velocity constraints (S-full)."""

    def __init__(self, system: System, q: Array, v: Array, t: Array):
        self.here = system.at(q, t)
        self.H = self._invariant_jacobian(q, v, t)
        self.spreader = self.H.T
        self.factor = cholesky(self.H @ self.H.T)

    def _invariant_jacobian(self, q: Array, v: Array, t: Array) -> Array:
        """H = [[G, 0], [d(G v + g_t)/dq, G]], with non-holonomic rows in the second line."""
        system = self.here.system
        jacobian = system.jacobian(q, t)
        m = system.constraint(q, t).shape[0]
        upper = jnp.concatenate([jacobian[:m], jnp.zeros_like(jacobian[:m])], axis=1)
        lower = jnp.concatenate([system.constraint_rate_jacobian(q, v, t), jacobian], axis=1)
        return jnp.concatenate([upper, lower])

    def moved(self, q: Array, v: Array, t: Array, freeze: Freeze) -> FullCorrection:
        if freeze == "none":
            return FullCorrection(self.here.system, q, v, t)
        copied = copy.copy(self)
        copied.here = self.here.system.at(q, t)
        if freeze == "factor":
            copied.spreader = self._invariant_jacobian(q, v, t).T
        return copied

    def __call__(self, position: Array, rate: Array) -> tuple[Array, Array]:
        step = self.spreader @ cholesky_solve(self.factor, jnp.concatenate([position, rate]))
        n = step.shape[0] // 2
        return step[:n], step[n:]


class FollowedCorrection:
    """`LevelCorrection` of both levels in the metric of mass, for those who follow it back: the
    same numbers, which move as the equations do that they solve,

        M d - G^T lam = 0,    G d = h

    by a factor that does not move. That holds for first derivatives. The constraints are holonomic
    and independent.
    """

    def __init__(self, system: System, q: Array, t: Array):
        self._system, self._q, self._t = system, q, t
        still, q, t = jax.lax.stop_gradient((system, q, t))
        self._factor = still.factor(q, t)

    def multipliers(self, residual: Array) -> tuple[Array, Array]:
        """(d, lam) for one level of h."""
        system, q, t, factor = self._system, self._q, self._t, self._factor
        lam = factor.multipliers(jax.lax.stop_gradient(residual))
        d = factor.spread(lam)
        motion = system.momentum(q, d) - system.constraint_force(q, t, lam)
        rate = lambda v: system.constraint_rate(q, v, t)  # noqa: E731
        change = factor.solve(motion, rate(d) - rate(jnp.zeros_like(d)) - residual)
        return moved_back(d, change[0]), moved_back(lam, -change[1])

    def spread(self, lam: Array) -> Array:
        """d for multipliers that were found elsewhere."""
        system, q, t, factor = self._system, self._q, self._t, self._factor
        force = system.constraint_force(q, t, lam)
        d = factor.weigh(jax.lax.stop_gradient(force))
        return moved_back(d, factor.weigh(system.momentum(q, d) - force))
