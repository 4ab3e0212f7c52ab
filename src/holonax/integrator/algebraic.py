"""The step that belongs to algebraic enforcement: a predictor, and for order 2 a corrector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp

from ..problem import FullState, StepContext
from ..system.base import Array
from .base import Integrator

if TYPE_CHECKING:
    from diffrax import ODETerm
    from jaxtyping import PyTree


class PredictorCorrector(Integrator):
    """The one-step method of `AlgebraicEnforcement`, which says its order and its scheme."""

    accepts: ClassVar[tuple[str, ...]] = ("algebraic",)
    reference: ClassVar[str] = "Welch, Hong, Trapp, Choi 2007, Eqs. (43), (44)"
    # lam acts over the whole step: to second order it is that of the middle.
    multiplier_lag: ClassVar[float] = 0.5

    def order(self, terms: ODETerm | None) -> int | None:
        return None  # the formulation's

    def first_state(self, context: StepContext, t: Array, q: Array, v: Array) -> FullState:
        a, lam = context.formulation.accelerations(context, t, (q, v))
        return FullState(q, v, a, lam, jnp.zeros(()))

    def init(self, terms: ODETerm, t0: Array, t1: Array, y0: PyTree, args: StepContext) -> None:
        return None

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: FullState,
        args: StepContext,
        solver_state: None,
        made_jump: bool,
    ) -> Any:
        y1 = _step(args, t0, y0)
        return y1, None, {"y0": y0, "y1": y1}, None, True


@jax.jit
def _step(context: StepContext, t: Array, y: FullState) -> FullState:
    end = context.formulation.step(context, t, y.q, y.v)
    return FullState(end.q, end.v, end.a, end.lam, y.condition)
