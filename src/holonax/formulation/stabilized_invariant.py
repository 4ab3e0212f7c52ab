"""The stabilised ODE: a term that pulls the state to its invariants all the time.

    z' = f(z) - gamma F(z) h(z),    z = (q, v),  h = (g, G v + g_t),  F = D (H D)^-1

after Ascher, Chin, Petzold & Reich (1995), Eq. (4.3). Off the manifold h' = -gamma h, to first
order; on it the flow is that of the index-1 equations, whatever gamma. The part of F h that belongs
to q is taken from the velocity that moves it, q' = N(q) (v - gamma dq).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import equinox as eqx

from ..problem import State, StepContext
from ..system.base import Array
from .base import OdeFormulation
from .correction import CoupledCorrection, FullCorrection, LevelCorrection
from .options import Gain, check_choice

Variant = Literal["mass", "identity", "G", "H"]
_VARIANTS = ("mass", "identity", "G", "H")


class StabilizedInvariant(OdeFormulation):
    """Index 1 with its invariants stabilised in the equations themselves.

    **Arguments:**

    - `gamma`: how fast the state is pulled back [1/s], or a string such as ``"1/dt"`` tied to the
      step size. With explicit integrators gamma dt must lie in their stability region.
    - `variant`: F. ``"mass"`` (Eq. 5.5) and ``"identity"`` (Eq. 5.6) correct position and velocity
      each by itself in that metric; ``"G"`` (Eq. 4.6) and ``"H"`` (D = H^T) also correct the
      velocity for the movement of the position.

    A fixed gamma keeps the order of the integrator; one tied to the step size keeps the order of
    methods up to 2 only, because the stages within a step are off the manifold.
    """

    reference: ClassVar[str] = "Ascher, Chin, Petzold, Reich 1995, Eq. (4.3)"
    projects_position: ClassVar[bool] = True

    gamma: Gain
    variant: Variant = eqx.field(static=True)

    def __init__(self, gamma: float | str = 10.0, *, variant: Variant = "mass"):
        check_choice("StabilizedInvariant", "variant", variant, _VARIANTS)
        self.gamma = Gain.of("StabilizedInvariant", "gamma", gamma)
        self.variant = variant

    def orders(self, integrator: Any) -> tuple[int, int, int]:
        p = integrator.order(None)
        p = min(p, 2) if self.gamma.per_step else p
        return p, p, p

    def _stabilized(self, context: StepContext, t: Array, state: State) -> tuple[State, Array]:
        """(v - gamma dq, v' - gamma dv) and the multipliers of the index-1 equations."""
        system, gamma = context.system, self.gamma.at(context.dt)
        q, v = state
        factor = None
        if self.variant == "H":
            correction = FullCorrection(system, q, v, t)
        elif self.variant == "G":
            correction = CoupledCorrection(system, q, v, t, "identity")
        else:
            correction = LevelCorrection(system.at(q, t), "both", self.variant)
            factor = correction.factors[1] if self.variant == "mass" else None
        a, lam = correction.here.accelerations(v, factor=factor)
        dq, dv = correction(*correction.residuals(v))
        assert dq is not None and dv is not None
        return (v - gamma * dq, a - gamma * dv), lam

    def rates(self, context: StepContext, t: Array, state: State) -> State:
        return self._stabilized(context, t, state)[0]

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        (_, a), lam = self._stabilized(context, t, state)
        return a, lam

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        q, v = state
        return context.system.normalize(q), v
