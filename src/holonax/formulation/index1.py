"""Index-1 formulations: the constraint is differentiated twice and solved for v' and lam.

    M v' + G^T lam = f,    G v' = gamma - 2 alpha (G v + g_t) - beta^2 g

`Index1` takes alpha = beta = 0 and lets the constraints drift; `Baumgarte` feeds the drift back.
"""

from __future__ import annotations

import re
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from ..system.base import Array
from .base import OdeFormulation, State, StepContext


class Index1(OdeFormulation):
    """The equations of motion with g'' = 0 and nothing against drift."""

    reference: ClassVar[str] = "Ascher, Chin, Petzold, Reich 1995, Eq. (1.6)"

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        return context.system.accelerations(*state, t)

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        q, v = state
        return context.system.normalize(q), v


def _gain(name: str, value: float | str) -> tuple[Array, bool]:
    """A gain [1/s], or with "c/dt" the factor c of a gain tied to the step."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9.eE+-]*)\s*/\s*dt\s*", value)
        if match is None:
            raise ValueError(
                f"Baumgarte: {name}={value!r} is not understood. Give a number [1/s], or a string "
                'such as "1/dt" or "0.5/dt" for a gain tied to the step size.'
            )
        return jnp.asarray(float(match.group(1) or 1.0)), True
    gain = jnp.asarray(value, dtype=float)
    if gain.ndim != 0:
        raise ValueError(f"Baumgarte: {name} must be one number [1/s], got shape {gain.shape}.")
    return gain, False


class Baumgarte(OdeFormulation):
    """Baumgarte's feedback g'' + 2 alpha g' + beta^2 g = 0.

    **Arguments:**

    - `alpha`, `beta`: gains [1/s], or strings such as ``"1/dt"`` tied to the step size.

    `Baumgarte.from_polynomial(a1, a0)` takes the other published form, g'' + a1 g' + a0 g = 0.
    Non-holonomic rows A v + b = 0 get the first-order feedback d/dt(A v + b) + alpha (A v + b) = 0.
    """

    reference: ClassVar[str] = "Baumgarte 1972"

    alpha: Array
    beta: Array
    alpha_per_step: bool = eqx.field(static=True)
    beta_per_step: bool = eqx.field(static=True)

    def __init__(self, alpha: float | str, beta: float | str | None = None):
        self.alpha, self.alpha_per_step = _gain("alpha", alpha)
        self.beta, self.beta_per_step = _gain("beta", alpha if beta is None else beta)

    @staticmethod
    def from_polynomial(a1: float, a0: float) -> Baumgarte:
        """From g'' + a1 g' + a0 g = 0: alpha = a1/2, beta = sqrt(a0)."""
        if not (a0 >= 0 and a1 >= 0):
            raise ValueError(
                f"Baumgarte: the feedback polynomial (a1={a1}, a0={a0}) is unstable. "
                "Give non-negative coefficients."
            )
        return Baumgarte(a1 / 2, a0**0.5)

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        system, dt = context
        q, v = state
        alpha = self.alpha / dt if self.alpha_per_step else self.alpha
        beta = self.beta / dt if self.beta_per_step else self.beta
        position = system.constraint(q, t)
        rate = system.constraint_rate(q, v, t)
        m = position.shape[0]
        feedback = 2 * alpha * rate[:m] + beta**2 * position
        if rate.shape[0] > m:
            feedback = jnp.concatenate([feedback, alpha * rate[m:]])
        return system.factor(q, t).solve(system.force(q, v, t), system.gamma(q, v, t) - feedback)

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        q, v = state
        return context.system.normalize(q), v
