"""Algebraic enforcement: multipliers that make the constraint vanish at the end of the step.

The constraint at the new time is expanded to the order of the step, after Welch, Hong, Trapp &
Choi (2007), and set to zero; no gains, no iteration. A predictor of first order (Eq. 43a)

    M v_p + dt G^T lam_p = M v_n + dt f_n,    0 = g_n + dt (G v_p + g_t),

and a corrector of second order (Eq. 43b), with h for the middle of the step,

    M v_1 + dt G_h^T lam = M v_n + dt f_h,    0 = g(q_p, t_1) + G_h (dt/2 (v_n + v_1) - dt v_p).

The predictor leaves out g'' but for G v', so v_p carries O(dt) across the constraints. That is
harmless to q_p, but the printed corrector takes its velocity in the middle from v_p, and wherever
f depends on v (the gyroscopic torque of every spatial body) it is of first order only. The
corrected scheme solves the corrector once more, with (v_n + v_1) / 2 of the first solution: the
same factor, one more right-hand side.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from .._messages import shown
from ..problem import State, StepContext
from ..system.base import Array
from .base import Formulation

Scheme = Literal["corrected", "printed"]


class EnforcedStep(NamedTuple):
    """The end of a step, with the acceleration and multipliers that led there."""

    q: Array
    v: Array
    a: Array
    lam: Array


class AlgebraicEnforcement(Formulation):
    """Welch's parameter-free enforcement, with its own predictor-corrector step.

    **Arguments:**

    - `order`: 1 takes the predictor alone, 2 the corrector as well.
    - `scheme`: of the corrector. ``"corrected"`` is of second order for every system;
      ``"printed"`` only where the force does not depend on v, which excludes spatial bodies. The
      two agree there, and for order 1.

    Constraints that move with time are expanded about the new time. Non-holonomic rows
    A v + b = 0 are enforced at velocity level in the same solution.

    The multipliers of a step belong to its middle: `result.t_lam`, half a step before `result.t`.
    G v is of second order but not damped: it turns its sign from step to step (Eq. 61 has the
    eigenvalue -1). From rest that is not excited, and the multipliers are of second order; from
    a start in motion they alternate by O(dt) about values of second order, which the mean of two
    successive ones gives at the time between. `result.a` and `result.reaction`, evaluated at
    the saved states, do not alternate. With order 1 the multipliers of the first step are off.
    """

    kind: ClassVar[str] = "algebraic"
    default_integrator: ClassVar[tuple[Any, ...]] = ("PredictorCorrector",)
    takes_reaction_forces: ClassVar[bool] = False
    reference: ClassVar[str] = "Welch, Hong, Trapp, Choi 2007, Eqs. (43), (44)"

    order: Literal[1, 2] = eqx.field(static=True)
    scheme: Scheme = eqx.field(static=True)

    def __init__(self, order: Literal[1, 2] = 2, *, scheme: Scheme = "corrected"):
        if type(order) is not int or order not in (1, 2):
            raise ValueError(
                f"AlgebraicEnforcement: order={shown(order)} does not exist. Use 1 (the predictor "
                "alone) or 2 (predictor and corrector)."
            )
        if not isinstance(scheme, str) or scheme not in ("corrected", "printed"):
            raise ValueError(
                f"AlgebraicEnforcement: scheme={shown(scheme)} is not known. Choose one of "
                "'corrected', 'printed'."
            )
        self.order, self.scheme = order, scheme

    def orders(self, integrator: Any) -> tuple[int, int, int]:
        p = 1 if self.scheme == "printed" else self.order
        return p, p, 1

    def drift_orders(self, integrator: Any) -> tuple[float, float]:
        return self.order + 1, self.order

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        return state  # the step has kept the Euler parameters at unit length

    def multipliers(self, z: Array, rows: int) -> Array | None:
        return z

    def step(self, context: StepContext, t: Array, q: Array, v: Array) -> EnforcedStep:
        """The step from (q, v) at t."""
        predicted = self._predict(context, t, q, v)
        return predicted if self.order == 1 else self._correct(context, t, q, v, predicted)

    def _predict(self, context: StepContext, t: Array, q: Array, v: Array) -> EnforcedStep:
        system, dt = context.system, context.dt
        here = system.at(q, t)
        g, rate = here.constraint(), here.rate(v)
        m = g.shape[0]
        gamma = -jnp.concatenate([g / dt**2 + rate[:m] / dt, rate[m:] / dt])
        a, lam = here.factor().solve(system.force(q, v, t), gamma)
        v_p = v + dt * a
        # Eq. 17 is implicit, e_p = e + dt N(e_p) w, but N is linear in e: e_p has the direction
        # of e + dt N(e) w, and Eq. 22 makes it a unit one.
        return EnforcedStep(system.normalize(q + dt * system.qdot(q, v_p)), v_p, a, lam)

    def _correct(
        self, context: StepContext, t: Array, q: Array, v: Array, predicted: EnforcedStep
    ) -> EnforcedStep:
        system, dt = context.system, context.dt
        q_p, v_1 = predicted.q, predicted.v
        q_h, t_h = system.normalize(0.5 * (q + q_p)), t + 0.5 * dt
        g, rate = system.constraint(q_p, t + dt), system.constraint_rate(q_p, v_1, t + dt)
        m = g.shape[0]
        turn = jax.jvp(lambda x: system.constraint_rate(q_h, x, t_h), (v,), (v_1 - v,))[1]
        gamma = jnp.concatenate([2 * (turn[:m] / dt - g / dt**2), (turn[m:] - rate[m:]) / dt])
        factor = system.at(q_h, t_h).factor()
        a, lam = predicted.a, predicted.lam
        for _ in range(2 if self.scheme == "corrected" else 1):
            a, lam = factor.solve(system.force(q_h, 0.5 * (v + v_1), t_h), gamma)
            v_1 = v + dt * a
        # Eq. 32, e_1 = e + dt/2 N(e + e_1) w with w the mean: twice half the predictor's update.
        w = 0.5 * (v + v_1)
        q_1 = q + 0.5 * dt * system.qdot(q, w)
        q_1 = system.normalize(q_1 + 0.5 * dt * system.qdot(q_1, w))
        return EnforcedStep(q_1, v_1, a, lam)
