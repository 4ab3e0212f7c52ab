"""Post-stabilization: after each step of the index-1 ODE, move the state towards the constraints.

    z <- z - alpha F(z) h(z),    z = (q, v),  h = (g, G v + g_t),  F = D (H D)^-1

after Ascher, Chin, Petzold & Reich (1995), Sections 4 and 5. With D = H^T this is S-full, and with
D = diag(G^T, G^T) its cheaper variant (Eq. 4.6); with the two diagonal blocks W G^T (G W G^T)^-1
(Eqs. 5.5 with W = M^-1, 5.6 with W = 1) it is S-both; applied to one level only, S-vel and
S-pos. A second pass gives S-both^2, whose velocity drift is O(h^2p) for a local error of
O(h^p).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
from jax.core import Tracer

from .._messages import shown
from .._numbers import as_array, real
from ..problem import State, StepContext
from ..system.base import Array, Metric, System
from .base import OdeFormulation
from .correction import Correction, Direction, FollowedCorrection, Freeze, Level, correction
from .options import check_choice, check_count

_LEVELS = ("both", "velocity", "position", "full")
_FREEZE = ("all", "factor", "none")


def _contracts(alpha: Any) -> bool:
    """Whether `alpha` is a relaxation in (0, 2), as far as that is known yet."""
    found = None if isinstance(alpha, Tracer) else real(alpha)
    return isinstance(alpha, Tracer) or (
        found is not None and found.ndim == 0 and 0 < float(found) < 2
    )


class PostStabilized(OdeFormulation):
    """Index 1 with the invariants stabilised after each step.

    **Arguments:**

    - `level`: ``"both"`` (S-both), ``"velocity"`` (S-vel), ``"position"`` (S-pos), or ``"full"``
      (S-full).
    - `passes`: how often the correction is applied; ``passes=2`` with ``"both"`` is S-both^2.
    - `metric`: ``"mass"`` (Eq. 5.5) or ``"identity"`` (Eq. 5.6).
    - `direction`: D of the full correction. ``"H"`` takes D = H^T, whatever the metric; ``"G"``
      takes D = diag(W G^T, W G^T) (Eq. 4.6 in the identity metric), for which no more than
      G W G^T is factored, so that large mechanisms can have it too.
    - `alpha`: relaxation in (0, 2); 1 is a full correction.
    - `freeze`: what later passes keep from the first one: ``"all"`` of F (the double step as
      printed), the ``"factor"`` of G W G^T only (W G^T re-evaluated; this made the published
      tables), or ``"none"``.
    """

    reference: ClassVar[str] = "Ascher, Chin, Petzold, Reich 1995, Sections 4-5"

    level: Level = eqx.field(static=True)
    passes: int = eqx.field(static=True)
    metric: Metric = eqx.field(static=True)
    direction: Direction = eqx.field(static=True)
    freeze: Freeze = eqx.field(static=True)
    alpha: Array

    def __init__(
        self,
        level: Level = "both",
        *,
        passes: int = 1,
        metric: Metric = "mass",
        direction: Direction = "H",
        alpha: float = 1.0,
        freeze: Freeze = "factor",
    ):
        check_choice("PostStabilized", "level", level, _LEVELS)
        check_choice("PostStabilized", "metric", metric, ("mass", "identity"))
        check_choice("PostStabilized", "direction", direction, ("H", "G"))
        check_choice("PostStabilized", "freeze", freeze, _FREEZE)
        if direction != "H" and level != "full":
            raise ValueError(
                f"PostStabilized: direction={shown(direction)} belongs to level='full'; level="
                f"{shown(level)} has one direction only. Leave one of the two out."
            )
        check_count("PostStabilized", "passes", passes)
        if not _contracts(alpha):
            raise ValueError(
                f"PostStabilized: alpha={shown(alpha)} is not a number in (0, 2), where the "
                "correction contracts. Use alpha=1 for a full correction."
            )
        self.level, self.passes, self.freeze = level, passes, freeze
        self.metric, self.direction = metric, direction
        self.alpha = as_array(alpha)

    def drift_orders(self, integrator: Any) -> tuple[float, float]:
        p = self.orders(integrator)[0]
        if self.level == "velocity":  # linear in v, which alone is moved
            return p, math.inf
        position = (p + 1) * self._power(self.passes)
        if self.level == "position":
            return position, p
        # G v is as wrong as the last movement of q; S-full moves both together.
        together = self.level == "full"
        return position, (p + 1) * self._power(self.passes if together else self.passes - 1)

    def _power(self, passes: int) -> int:
        """To which power of itself a number of passes takes a violation."""
        if isinstance(self.alpha, Tracer) or float(self.alpha) != 1:
            return 1
        return 2**passes if self.freeze == "none" else passes + 1

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        system = context.system
        q, v = state
        q = system.normalize(q)
        if context.known is not None and self._is_followed(system):  # only to be followed back
            return self._followed(system, t, q, v)
        first = correction(system, q, v, t, self.level, self.metric, self.direction)

        def once(state: State, here: Correction) -> State:
            q, v = state
            dq, dv = here(*here.residuals(v))
            q = q if dq is None else system.retract(q, -self.alpha * dq)
            v = v if dv is None else v - self.alpha * dv
            return q, v

        def again(_: int | Array, state: State) -> State:
            return once(state, first.moved(*state, t, self.freeze))

        if self.passes <= 2:
            state = once((q, v), first)
            return state if self.passes == 1 else again(1, state)
        # One body for many passes (the first evaluates F where `first` did) compiles faster.
        return jax.lax.fori_loop(0, self.passes, again, (q, v))

    def _is_followed(self, system: System) -> bool:
        usual = self.level == "both" and self.metric == "mass" and self.passes <= 2
        several = system.has_redundant_constraints or system.has_nonholonomic_constraints
        return usual and not several

    def _followed(self, system: System, t: Array, q: Array, v: Array) -> State:
        """`after_step`, done again to be followed back."""
        solver = spreader = FollowedCorrection(system, q, t)
        for k in range(self.passes):
            if k > 0 and self.freeze != "all":
                spreader = FollowedCorrection(system, q, t)
                solver = spreader if self.freeze == "none" else solver
            levels = system.constraint(q, t), system.constraint_rate(q, v, t)
            found = [solver.multipliers(h) for h in levels]
            if spreader is solver:
                dq, dv = (d for d, _ in found)
            else:
                dq, dv = (spreader.spread(lam) for _, lam in found)
            q, v = system.retract(q, -self.alpha * dq), v - self.alpha * dv
        return q, v
