"""Formulations solved as differential-algebraic equations by implicit integrators.

    u = v - G^T mu          (mu only where the position is projected)
    M a = f - G^T lam
    0 = g  (index 3),   0 = G v + g_t  (index 2),   both with mu  (GGL)

`u` moves the configuration, q' = N(q) u, and `a` = v'. Non-holonomic rows are of velocity level in
all of them. Multipliers of all rows, holonomic first, are the leading entries of z.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp

from ..system.base import Array, System
from .base import Formulation, State, StepContext


class DaeFormulation(Formulation):
    """Base: consistent accelerations come from the index-1 equations, nothing after a step."""

    kind: ClassVar[str] = "dae"

    def default_integrator(self) -> Any:
        from ..integrator import RadauIIA

        return RadauIIA(3)

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        return context.system.accelerations(*state, t)

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        return state

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        return lam

    def multipliers(self, z: Array, rows: int) -> Array | None:
        return z[:rows]


def dynamics(system: System, q: Array, v: Array, t: Array, a: Array, lam: Array) -> Array:
    """M a - f + G^T lam."""
    return system.momentum(q, a) - system.force(q, v, t) + system.constraint_force(q, t, lam)


def position_rows(system: System, q: Array, t: Array, mu: Array, rows: int) -> Array:
    """G^T mu for multipliers of the holonomic rows only."""
    return system.constraint_force(q, t, jnp.pad(mu, (0, rows - mu.shape[0])))


class Index3(DaeFormulation):
    """The equations of motion with the position constraint g = 0."""

    index: ClassVar[int] = 3
    reference: ClassVar[str] = "Bauchau, Epple, Bottasso 2009"

    def default_integrator(self) -> Any:
        from ..integrator import RadauIIA

        return RadauIIA(2)

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        g = system.constraint(q, t)
        m = g.shape[0]
        # velocity rows are scaled like positions: both are divided by h^2 in the step
        velocity = context.dt * system.constraint_rate(q, v, t)[m:]
        return u - v, dynamics(system, q, v, t, a, z), jnp.concatenate([g, velocity])


class Index2(DaeFormulation):
    """The equations of motion with the velocity constraint G v + g_t = 0; positions drift."""

    index: ClassVar[int] = 2
    reference: ClassVar[str] = "Hairer, Wanner 1996, Section VII.1"

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        return u - v, dynamics(system, q, v, t, a, z), system.constraint_rate(q, v, t)


class GGL(DaeFormulation):
    """Stabilised index 2 of Gear, Gupta and Leimkuhler: position and velocity constraints."""

    index: ClassVar[int] = 2
    reference: ClassVar[str] = "Gear, Gupta, Leimkuhler 1985"

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        return jnp.concatenate([lam, jnp.zeros((context.system.constraint(q, t).shape[0],))])

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        g, rate = system.constraint(q, t), system.constraint_rate(q, v, t)
        rows = rate.shape[0]
        lam, mu = z[:rows], z[rows:]
        kinematic = u - v + position_rows(system, q, t, mu, rows)
        return kinematic, dynamics(system, q, v, t, a, lam), jnp.concatenate([rate, g])


class Overdetermined(DaeFormulation):
    """All of g = 0, G v + g_t = 0 and g'' = 0 at once, after Führer and Leimkuhler.

    The multipliers lam are those of the index-1 equations; the discretised rates are moved
    along the constraint normals, by mu for positions and tau for velocities (in the mass metric),
    which selects the solution of the overdetermined equations that keeps the motion.
    """

    index: ClassVar[int] = 2
    reference: ClassVar[str] = "Führer, Leimkuhler 1991"

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        m = context.system.constraint(q, t).shape[0]
        return jnp.concatenate([lam, jnp.zeros((lam.shape[0] + m,))])

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        g, rate = system.constraint(q, t), system.constraint_rate(q, v, t)
        rows = rate.shape[0]
        lam, tau, mu = z[:rows], z[rows : 2 * rows], z[2 * rows :]
        factor = system.factor(q, t)
        kinematic = u - v + factor.spread(jnp.pad(mu, (0, rows - mu.shape[0])))
        # lam from g'' = 0: the difference to the index-1 multipliers
        exact = factor.solve(system.force(q, v, t), system.gamma(q, v, t))[1]
        algebraic = jnp.concatenate([context.dt * (lam - exact), rate, g])
        return kinematic, dynamics(system, q, v, t, a, lam + tau), algebraic


class ProjectedInvariants(DaeFormulation):
    """The index-1 equations with their invariants projected: z' = f(z) - D mu, 0 = h(z).

    **Arguments:**

    - `level`: ``"both"`` (Eq. 4.8) projects position and velocity, ``"position"`` (Eq. 3.3)
      the position only.
    """

    index: ClassVar[int] = 2
    reference: ClassVar[str] = "Ascher, Chin, Petzold, Reich 1995, Eqs. (3.3), (4.8)"

    level: Literal["both", "position"] = eqx.field(static=True, default="both")

    def __check_init__(self) -> None:
        if self.level not in ("both", "position"):
            raise ValueError(
                f'ProjectedInvariants: level={self.level!r} is not known. Use "both" or "position".'
            )

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        m = context.system.constraint(q, t).shape[0]
        return jnp.zeros((m + (lam.shape[0] if self.level == "both" else 0),))

    def multipliers(self, z: Array, rows: int) -> Array | None:
        return None

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        g, rate = system.constraint(q, t), system.constraint_rate(q, v, t)
        m, rows = g.shape[0], rate.shape[0]
        dynamic = a - system.accelerations(q, v, t)[0]
        kinematic = u - v + position_rows(system, q, t, z[:m], rows)
        if self.level == "position":
            return kinematic, dynamic, g
        dynamic = dynamic + system.constraint_force(q, t, z[m:])
        return kinematic, dynamic, jnp.concatenate([g, rate])
