"""Steps that are taken again, from what was found when they were taken first.

The derivative of a step needs the solution of its equations, not the way to it. So does that of the
first accelerations a and their slope j, which with multipliers l and their slope k solve

    R = (M a - f + G^T l, G a - gamma) = 0,    dR/dt + (M j + G^T k, G j) = 0

and move by the same factored matrix as they were found with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..linalg import derivative, moved_back
from ..problem import FullState, StepContext
from ..system.base import Array, ConstraintFactor, System


class Solution(NamedTuple):
    """Unknowns that were found before, and whether they solve the equations."""

    x: Any
    solved: Array


class KnownStart:
    """The first state of a method as it was found before."""

    def __init__(self, y: FullState):
        self.y = y
        self._factor: ConstraintFactor | None = None

    @staticmethod
    def of(context: StepContext, t: Array, q: Array, v: Array) -> KnownStart | None:
        """That of a context; None where there is none, or its accelerations and multipliers are
        more than the solution of linear equations."""
        if context.start is None or not _linear(context):
            return None
        rows = jax.eval_shape(context.system.constraint_rate, q, v, t).shape[0]
        known = context.formulation.multipliers(context.start.y.z, rows) is not None
        return context.start if known else None

    def accelerations(self, context: StepContext, t: Array, q: Array, v: Array) -> Any:
        """(a, l), which move as the state does."""
        a, lam = self.y.a, self.multipliers(context, self.y.z, t, q, v)
        value = _equations(context.system, q, v, t, a, lam)
        change = self._held(context.system, q, t).solve(*value)
        return moved_back(a, change[0]), moved_back(lam, change[1])

    @staticmethod
    def multipliers(context: StepContext, z: Array, t: Array, q: Array, v: Array) -> Array:
        """Those among the algebraic variables."""
        rows = jax.eval_shape(context.system.constraint_rate, q, v, t).shape[0]
        return context.formulation.multipliers(z, rows)

    def slope(
        self, context: StepContext, t: Array, q: Array, v: Array, a: Array, lam: Array
    ) -> Array:
        """j, which moves as the state and its accelerations do."""
        system, hold = context.system, jax.lax.stop_gradient
        factor = self._held(system, q, t)
        equations = lambda q, v, t: _equations(system, q, v, t, a, lam)  # noqa: E731
        along = system.qdot(q, v), a, jnp.ones_like(t)
        motion, rows = derivative(equations, (q, v, t), along)
        j, k = factor.solve(-hold(motion), -hold(rows))
        motion = motion + system.momentum(q, j) + system.constraint_force(q, t, k)
        rows = rows + derivative(lambda v: system.constraint_rate(q, v, t), (v,), (j,))
        return moved_back(j, factor.solve(motion, rows)[0])

    def _held(self, system: System, q: Array, t: Array) -> ConstraintFactor:
        """The factor, which does not move."""
        if self._factor is None:
            system, q, t = jax.lax.stop_gradient((system, q, t))
            self._factor = system.factor(q, t)
        return self._factor


def _linear(context: StepContext) -> bool:
    """Whether accelerations and multipliers are the one solution of R = 0."""
    system = context.system
    several = system.has_reaction_forces or system.has_redundant_constraints
    return context.formulation.plain_accelerations and not several


def follows_from_equations(context: StepContext) -> bool:
    """Whether rates are the velocity and what solves R = 0."""
    return _linear(context) and context.formulation.velocity_follows


class Rate(NamedTuple):
    """k = (q', a) of a state, and where they are kept the multipliers that go with a."""

    k: Array
    lam: Array | None = None

    @staticmethod
    def found(context: StepContext, t: Array, q: Array, v: Array) -> Rate:
        """The rate and its multipliers, where these solve R = 0."""
        a, lam = context.formulation.accelerations(context, t, (q, v))
        return Rate(jnp.concatenate([context.system.qdot(q, v), a]), lam)

    def followed(self, context: StepContext, t: Array, q: Array, v: Array) -> Rate:
        """As it was found before; it moves as the state does."""
        system, a = context.system, self.k[q.shape[0] :]
        still, where = jax.lax.stop_gradient((system, q))
        assert self.lam is not None
        value = _equations(system, q, v, t, a, self.lam)
        a = moved_back(a, still.factor(where, jax.lax.stop_gradient(t)).solve(*value)[0])
        return Rate(jnp.concatenate([system.qdot(q, v), a]), self.lam)


def _equations(system: System, q: Array, v: Array, t: Array, a: Array, lam: Array) -> Any:
    motion = system.momentum(q, a) - system.force(q, v, t) + system.constraint_force(q, t, lam)
    return motion, system.constraint_acceleration(q, v, t, a)
