"""Penalty formulations: each constraint is a mass, a dashpot and a spring instead of a condition.

    M v' + G^T alpha (g'' + 2 mu omega g' + omega^2 g) = f

after Bayo, García de Jalón & Serna (1988). Written for lam = alpha (...) this is

    M v' + G^T lam = f,    G v' = gamma - 2 mu omega g' - omega^2 g + lam / alpha,

Baumgarte's equations with constraints that give way by lam / alpha: the Schur complement is shifted
by 1 / alpha, which keeps it sparse and makes it regular where constraints are dependent, and a
large alpha spoils no digits as it does in M + alpha G^T G. Non-holonomic rows are of velocity
level, alpha (d/dt(A v + b) + omega (A v + b)).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..problem import State, StepContext
from ..system.base import Array, System
from .base import OdeFormulation
from .options import Gain, check_count, positive


def _feedback(system: System, q: Array, v: Array, t: Array, omega: Array, mu: Array) -> Array:
    """2 mu omega g' + omega^2 g; omega (A v + b) for non-holonomic rows."""
    position, rate = system.constraint(q, t), system.constraint_rate(q, v, t)
    m = position.shape[0]
    return jnp.concatenate([2 * mu * omega * rate[:m] + omega**2 * position, omega * rate[m:]])


class Penalty(OdeFormulation):
    """Bayo's penalty formulation.

    **Arguments:**

    - `alpha`: penalty number; the mass that resists the constraint's acceleration [kg, for
      angles kg m^2]. The larger, the closer to the constrained motion.
    - `omega`: natural frequency [1/s] with which violations swing, or a string such as ``"1/dt"``.
    - `mu`: damping ratio; 1 is critical.

    The motion is that of a mechanism with springs of stiffness alpha omega^2 in its joints, so
    constraints are violated by about lam / (alpha omega^2), whatever the step size, and the
    integrator has its order on that motion. `Penalty.from_spring` takes stiffness, damping, mass.
    """

    reference: ClassVar[str] = "Bayo, García de Jalón, Serna 1988"

    alpha: Array
    omega: Gain
    mu: Array

    def __init__(self, alpha: float = 1e7, *, omega: float | str = 10.0, mu: float = 1.0):
        self.alpha = positive("Penalty", "alpha", alpha)
        self.omega = Gain.of("Penalty", "omega", omega)
        self.mu = positive("Penalty", "mu", mu)

    @staticmethod
    def from_spring(*, stiffness: float, damping: float, mass: float) -> Penalty:
        """From the force mass g'' + damping g' + stiffness g in each constraint."""
        for name, value in (("stiffness", stiffness), ("damping", damping), ("mass", mass)):
            positive("Penalty", name, value)
        omega = (stiffness / mass) ** 0.5
        return Penalty(mass, omega=omega, mu=damping / (2 * mass * omega))

    def drift_orders(self, integrator: Any) -> tuple[float, float]:
        return 0, 0

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        system = context.system
        q, v = state
        feedback = _feedback(system, q, v, t, self.omega.at(context.dt), self.mu)
        here = system.at(q, t)
        factor = here.factor(shift=1 / self.alpha)
        return here.accelerations(v, system.gamma(q, v, t) - feedback, factor)

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        q, v = state
        return context.system.normalize(q), v


class AugmentedLagrangian(OdeFormulation):
    """Penalty and multipliers: lam <- lam + alpha (g'' + 2 mu omega g' + omega^2 g).

    The multipliers are iterated until they no longer change, so nothing gives way: under holonomic
    constraints the accelerations are those of `Baumgarte(mu * omega, omega)` for any alpha. A large
    one needs fewer iterations, each reducing what is missing by 1 / (1 + alpha s), with s the
    smallest eigenvalue of G M^-1 G^T; dependent constraints do no harm.

    **Arguments:**

    - `alpha`, `omega`, `mu`: as for `Penalty`.
    - `tol`: largest change of a multiplier in the last iteration, relative to the largest one.
    - `max_iterations`: in each evaluation of the accelerations; those reached by then are taken.
    """

    takes_reaction_forces: ClassVar[bool] = False
    reference: ClassVar[str] = "Bayo, García de Jalón, Serna 1988; Bayo, Ledesma 1996"

    alpha: Array
    omega: Gain
    mu: Array
    tol: Array
    max_iterations: int = eqx.field(static=True)

    def __init__(
        self,
        alpha: float = 1e7,
        *,
        omega: float | str = 10.0,
        mu: float = 1.0,
        tol: float = 1e-12,
        max_iterations: int = 50,
    ):
        owner = "AugmentedLagrangian"
        check_count(owner, "max_iterations", max_iterations)
        self.alpha = positive(owner, "alpha", alpha)
        self.omega = Gain.of(owner, "omega", omega)
        self.mu = positive(owner, "mu", mu)
        self.tol, self.max_iterations = positive(owner, "tol", tol), max_iterations

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        system = context.system
        q, v = state
        feedback = _feedback(system, q, v, t, self.omega.at(context.dt), self.mu)
        factor = system.factor(q, t, shift=1 / self.alpha)
        free = factor.weigh(system.force(q, v, t))
        missing = factor.apply(free) - system.gamma(q, v, t) + feedback
        if not missing.shape[0]:
            return free, missing

        def iterate(_: object, missing: Array) -> Array:
            """(S + 1/alpha) lam = missing + lam / alpha, again and again."""

            def going(x: tuple[Array, Array, Array]) -> Array:
                lam, change, count = x
                return (change > self.tol * jnp.max(jnp.abs(lam))) & (count < self.max_iterations)

            def once(x: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
                lam, _, count = x
                new = factor.multipliers(missing + lam / self.alpha)
                return new, jnp.max(jnp.abs(new - lam)), count + 1

            begin = jnp.zeros_like(missing), jnp.asarray(jnp.inf), jnp.asarray(0)
            return jax.lax.while_loop(going, once, begin)[0]

        # As the solution of S lam = missing it has derivatives, which the loop has not.
        product = lambda lam: factor.apply(factor.spread(lam))  # noqa: E731
        lam = jax.lax.custom_linear_solve(product, missing, iterate, symmetric=True)
        return free - factor.spread(lam), lam

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        q, v = state
        return context.system.normalize(q), v


class StaggeredStep(NamedTuple):
    """The multipliers of a step that begins at `t`: at its start and in its middle."""

    t: Array
    start: Array
    middle: Array


class StaggeredPenalty(OdeFormulation):
    """Park and Chiou's staggered procedure: the multipliers have a differential equation.

    The penalty lam = g / epsilon is differentiated, epsilon lam' = G v + g_t, and integrated beside
    the motion, one after the other: at the start of a step the multipliers in its middle come from
    the implicit midpoint rule, with d = dt/2 and everything else predicted there,

        epsilon (lam_m - lam_n) = d (G v_m + g_t),    v_m = v_n + d M^-1 (f - G^T lam_m),

    so from the Schur complement shifted by epsilon / d^2, regular for dependent constraints too.
    The step is then taken under f - G^T lam_m by an explicit Runge-Kutta method, and the next one
    begins with 2 lam_m - lam_n. Non-holonomic rows get epsilon lam' = A v + b.

    **Arguments:**

    - `epsilon`: compliance of the constraints [m/N]; they give way by about epsilon lam. It may be
      as small as one likes.

    The multipliers are of order 2, so q and v are at most. Position constraints are held through
    their rate, so they drift with O(dt^2). The multipliers of a result are those of g'' = 0 at its
    states.
    """

    kind: ClassVar[str] = "staggered"
    default_integrator: ClassVar[tuple[Any, ...]] = ("Midpoint",)
    takes_reaction_forces: ClassVar[bool] = False
    reference: ClassVar[str] = "Park, Chiou 1988"

    epsilon: Array

    def __init__(self, epsilon: float = 1e-12):
        self.epsilon = positive("StaggeredPenalty", "epsilon", epsilon, "m/N")

    def orders(self, integrator: Any) -> tuple[int, int, int]:
        p = min(integrator.order(None), 2)
        return p, p, p

    def carry(
        self, context: StepContext, t: Array, state: State, old: StaggeredStep | None
    ) -> StaggeredStep:
        system, d = context.system, context.dt / 2
        q, v = state
        t = jnp.asarray(t)
        if old is None:
            lam = system.accelerations(q, v, t)[1]
        else:  # a step may be begun twice
            lam = jnp.where(t == old.t, old.start, 2 * old.middle - old.start)
        q_m, t_m = system.retract(q, d * v), t + d
        factor = system.factor(q_m, t_m, shift=self.epsilon / d**2)
        # where the velocity will be, for forces that depend on it
        v_m = v + d * (factor.weigh(system.force(q_m, v, t_m)) - factor.spread(lam))
        free = factor.weigh(system.force(q_m, v_m, t_m))
        rate = system.constraint_rate(q_m, v, t_m)
        middle = factor.multipliers(factor.apply(free) + rate / d + self.epsilon / d**2 * lam)
        return StaggeredStep(t, lam, middle)

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        system, step = context.system, context.carry
        q, v = state
        if step is None:
            return system.accelerations(q, v, t)
        factor = system.factor(q, t)
        return factor.weigh(system.force(q, v, t)) - factor.spread(step.middle), step.middle

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        q, v = state
        return context.system.normalize(q), v
