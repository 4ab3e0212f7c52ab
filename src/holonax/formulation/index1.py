"""Index-1 formulations: the constraint is differentiated twice and solved for v' and lam.

    M v' + G^T lam = f,    G v' = gamma - 2 alpha (G v + g_t) - beta^2 g

`Index1` takes alpha = beta = 0 and lets the constraints drift; `Baumgarte` feeds the drift back.
"""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from .._messages import shown
from ..problem import State, StepContext
from ..system.base import Array
from .base import OdeFormulation
from .options import Gain


class Index1(OdeFormulation):
    """The equations of motion with g'' = 0 and nothing against drift."""

    reference: ClassVar[str] = "Ascher, Chin, Petzold, Reich 1995, Eq. (1.6)"

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        q, v = state
        return context.system.normalize(q), v


class Baumgarte(OdeFormulation):
    """Baumgarte's feedback g'' + 2 alpha g' + beta^2 g = 0.

    **Arguments:**

    - `alpha`, `beta`: gains [1/s], or strings such as ``"1/dt"`` tied to the step size.

    `Baumgarte.from_polynomial(a1, a0)` takes the other published form, g'' + a1 g' + a0 g = 0.
    Non-holonomic rows A v + b = 0 get the first-order feedback d/dt(A v + b) + alpha (A v + b) = 0.
    """

    reference: ClassVar[str] = "Baumgarte 1972"

    alpha: Gain
    beta: Gain

    def __init__(self, alpha: float | str, beta: float | str | None = None):
        self.alpha = Gain.of("Baumgarte", "alpha", alpha)
        self.beta = Gain.of("Baumgarte", "beta", alpha if beta is None else beta)

    @staticmethod
    def critical(alpha: float | str) -> Baumgarte:
        """Critical damping, beta = alpha: the feedback has a double root at -alpha.

        Wu, Chiou and Lin 2000 choose it, with alpha h below the stability limit of the integrator
        (their Eq. (34) and Table 2; `hx.study.real_axis_limit`). The same as `Baumgarte(alpha)`.
        """
        return Baumgarte(alpha, alpha)

    @staticmethod
    def from_polynomial(a1: float, a0: float) -> Baumgarte:
        """From g'' + a1 g' + a0 g = 0: alpha = a1/2, beta = sqrt(a0)."""
        for name, value in (("a1", a1), ("a0", a0)):
            if isinstance(value, str) or not 0 <= value < float("inf"):
                raise ValueError(
                    f"Baumgarte: {name}={shown(value)} makes no stable feedback polynomial. Give "
                    "finite numbers, zero or positive."
                )
        return Baumgarte(a1 / 2, a0**0.5)

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        system, dt = context.system, context.dt
        q, v = state
        alpha, beta = self.alpha.at(dt), self.beta.at(dt)
        here = system.at(q, t)
        position, rate = here.constraint(), here.rate(v)
        m = position.shape[0]
        feedback = 2 * alpha * rate[:m] + beta**2 * position
        if rate.shape[0] > m:
            feedback = jnp.concatenate([feedback, alpha * rate[m:]])
        return here.accelerations(v, system.gamma(q, v, t) - feedback)

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        q, v = state
        return context.system.normalize(q), v
