"""Post-stabilization: after each step of the index-1 ODE, move the state towards the constraints.

    z <- z - alpha F(z) h(z),    z = (q, v),  h = (g, G v + g_t),  F = D (H D)^-1

after Ascher, Chin, Petzold & Reich (1995), Sections 4 and 5. With D = H^T this is S-full; with
the two diagonal blocks W G^T (G W G^T)^-1 (Eqs. 5.5 with W = M^-1, 5.6 with W = 1) it is S-both;
applied to one level only, S-vel and S-pos. A second pass gives S-both^2, whose drift is O(h^2p).
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from .._messages import shown
from ..linalg import cholesky, cholesky_solve
from ..system.base import Array, ConstraintFactor, Metric, System
from .base import OdeFormulation, State, StepContext

Level = Literal["both", "velocity", "position", "full"]
Freeze = Literal["all", "factor", "none"]
_LEVELS = ("both", "velocity", "position", "full")
_FREEZE = ("all", "factor", "none")


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(
            f"PostStabilized: {name}={shown(value)} is not known. Choose one of "
            + ", ".join(map(repr, allowed))
            + "."
        )


def _contracts(alpha: Any) -> bool:
    """Whether `alpha` is a relaxation in (0, 2), as far as that is known yet."""
    try:
        return isinstance(alpha, Tracer) or 0 < float(alpha) < 2
    except (TypeError, ValueError):
        return False


class PostStabilized(OdeFormulation):
    """Index 1 with the invariants stabilised after each step.

    **Arguments:**

    - `level`: ``"both"`` (S-both), ``"velocity"`` (S-vel), ``"position"`` (S-pos), or ``"full"``
      (S-full, D = H^T).
    - `passes`: how often the correction is applied; ``passes=2`` with ``"both"`` is S-both^2.
    - `metric`: ``"mass"`` (Eq. 5.5) or ``"identity"`` (Eq. 5.6).
    - `alpha`: relaxation in (0, 2); 1 is a full correction.
    - `freeze`: what later passes keep from the first one: ``"all"`` of F (the double step as
      printed), the ``"factor"`` of G W G^T only (W G^T re-evaluated; this made the published
      tables), or ``"none"``.
    """

    reference: ClassVar[str] = "Ascher, Chin, Petzold, Reich 1995, Sections 4-5"

    level: Level = eqx.field(static=True)
    passes: int = eqx.field(static=True)
    metric: Metric = eqx.field(static=True)
    freeze: Freeze = eqx.field(static=True)
    alpha: Array

    def __init__(
        self,
        level: Level = "both",
        *,
        passes: int = 1,
        metric: Metric = "mass",
        alpha: float = 1.0,
        freeze: Freeze = "factor",
    ):
        _choice("level", level, _LEVELS)
        _choice("metric", metric, ("mass", "identity"))
        _choice("freeze", freeze, _FREEZE)
        if not (isinstance(passes, int) and passes >= 1):
            raise ValueError(
                f"PostStabilized: passes={shown(passes)} must be a whole number, 1 or more."
            )
        if not _contracts(alpha):
            raise ValueError(
                f"PostStabilized: alpha={shown(alpha)} is not a number in (0, 2), where the "
                "correction contracts. Use alpha=1 for a full correction."
            )
        self.level, self.passes, self.metric, self.freeze = level, passes, metric, freeze
        self.alpha = jnp.asarray(alpha, dtype=float)

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        return context.system.accelerations(*state, t)

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        system = context.system
        q, v = state
        q = system.normalize(q)
        if self.level == "full":
            first = _FullCorrection(system, q, v, t)
        else:
            first = _LevelCorrection(system, q, t, self.level, self.metric)

        def once(n: Any, state: State) -> State:
            # One body for all passes (the first evaluates F where `first` did) compiles faster.
            q, v = state
            correction = first if self.passes == 1 else first.moved(q, v, t, self.freeze)
            dq, dv = correction(system.constraint(q, t), system.constraint_rate(q, v, t))
            q = q if dq is None else system.retract(q, -self.alpha * dq)
            v = v if dv is None else v - self.alpha * dv
            return q, v

        if self.passes == 1:
            return once(0, (q, v))
        return jax.lax.fori_loop(0, self.passes, once, (q, v))


class _LevelCorrection:
    """The corrections W G^T (G W G^T)^-1 of position and velocity (Eqs. 5.5, 5.6)."""

    def __init__(self, system: System, q: Array, t: Array, level: Level, metric: Metric):
        self.system = system
        self.level: Level = level
        self.metric: Metric = metric
        self.factors = self.spreaders = self._factors(q, t)

    def _factors(self, q: Array, t: Array) -> tuple[ConstraintFactor, ConstraintFactor]:
        """Factors for the position rows and for all rows; the same unless non-holonomic."""
        velocity = self.system.factor(q, t, metric=self.metric)
        if self.level == "velocity" or not self.system.has_nonholonomic_constraints:
            return velocity, velocity
        return self.system.factor(q, t, metric=self.metric, rows="holonomic"), velocity

    def moved(self, q: Array, v: Array, t: Array, freeze: Freeze) -> _LevelCorrection:
        if freeze == "none":
            return _LevelCorrection(self.system, q, t, self.level, self.metric)
        if freeze == "all":
            return self
        copied = copy.copy(self)
        copied.spreaders = self._factors(q, t)
        return copied

    def __call__(self, position: Array, rate: Array) -> tuple[Array | None, Array | None]:
        (fq, fv), (sq, sv) = self.factors, self.spreaders
        dq = None if self.level == "velocity" else sq.spread(fq.multipliers(position))
        dv = None if self.level == "position" else sv.spread(fv.multipliers(rate))
        return dq, dv


class _FullCorrection:
    """H^T (H H^T)^-1 for the stacked position and velocity constraints (S-full)."""

    def __init__(self, system: System, q: Array, v: Array, t: Array):
        self.system = system
        self.H = self._invariant_jacobian(q, v, t)
        self.spreader = self.H.T
        self.factor = cholesky(self.H @ self.H.T)

    def _invariant_jacobian(self, q: Array, v: Array, t: Array) -> Array:
        """H = [[G, 0], [d(G v + g_t)/dq, G]], with non-holonomic rows in the second line."""
        system = self.system
        jacobian = system.jacobian(q, t)
        m = system.constraint(q, t).shape[0]
        upper = jnp.concatenate([jacobian[:m], jnp.zeros_like(jacobian[:m])], axis=1)
        lower = jnp.concatenate([system.constraint_rate_jacobian(q, v, t), jacobian], axis=1)
        return jnp.concatenate([upper, lower])

    def moved(self, q: Array, v: Array, t: Array, freeze: Freeze) -> _FullCorrection:
        if freeze == "none":
            return _FullCorrection(self.system, q, v, t)
        if freeze == "all":
            return self
        copied = copy.copy(self)
        copied.spreader = self._invariant_jacobian(q, v, t).T
        return copied

    def __call__(self, position: Array, rate: Array) -> tuple[Array, Array]:
        step = self.spreader @ cholesky_solve(self.factor, jnp.concatenate([position, rate]))
        n = step.shape[0] // 2
        return step[:n], step[n:]
