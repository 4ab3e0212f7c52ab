"""Coordinate projection: after each step of the index-1 ODE the state is put onto the constraints.

    q = q~ - W G(q)^T mu,   0 = g(q, t)         then    v = v~ - W G(q)^T tau,   0 = G(q) v + g_t

which is Eq. (5.3) of Ascher, Chin, Petzold & Reich (1995) level by level, with W = M^-1 or 1. The
first is solved by simplified Newton, with d for the movement of q,

    mu <- mu + (G W G^T)^-1 (g - G (d + W G^T mu)),    d <- -W G^T mu,

and the factor of the first iterate; where that does not converge, it is started again with a new
factor in each iteration. The second is linear.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..problem import State, StepContext
from ..system.base import Array, ConstraintFactor, Metric, System
from .base import OdeFormulation
from .options import check_choice, check_count, positive

if TYPE_CHECKING:
    from jaxtyping import PyTree

Level = Literal["both", "position", "velocity"]

# Passes that carry derivatives to the solution of the projection; each multiplies what is missing
# by the distance the state was moved, O(h^(p+1)).
_DERIVATIVE_PASSES = 3


class CoordinateProjection(OdeFormulation):
    """Index 1 with the state projected onto the constraints, to a tolerance, after each step.

    **Arguments:**

    - `metric`: of the distance that is kept smallest, ``"mass"`` or ``"identity"``.
    - `tol`: largest component of g accepted [m or rad]; iterations also end where rounding
      keeps them from moving the state any further.
    - `max_iterations`: of Newton's method. A step whose projection does not converge within them
      ends the run: its state is made NaN.
    - `level`: ``"both"`` levels, or ``"position"`` or ``"velocity"`` alone.
    """

    reference: ClassVar[str] = "Ascher, Chin, Petzold, Reich 1995, Eq. (5.3); Eich 1993"

    metric: Metric = eqx.field(static=True)
    tol: Array
    max_iterations: int = eqx.field(static=True)
    level: Level = eqx.field(static=True)

    def __init__(
        self,
        metric: Metric = "mass",
        *,
        tol: float = 1e-12,
        max_iterations: int = 10,
        level: Level = "both",
    ):
        owner = "CoordinateProjection"
        check_choice(owner, "metric", metric, ("mass", "identity"))
        check_choice(owner, "level", level, ("both", "position", "velocity"))
        check_count(owner, "max_iterations", max_iterations)
        self.tol = positive(owner, "tol", tol, "m or rad")
        self.metric, self.max_iterations, self.level = metric, max_iterations, level

    @property
    def holds(self) -> tuple[bool, bool]:
        return self.level != "velocity", self.level != "position"

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        system = context.system
        q, v = state
        q = system.normalize(q)
        if self.level != "velocity" and system.constraint(q, t).shape[0]:
            step, _ = _increment(self.metric, self.max_iterations, self.tol, system, q, t)
            q = system.retract(q, step)
        if self.level != "position":
            here = system.at(q, t)
            factor = here.factor(metric=self.metric)
            for _ in range(2):  # the second pass removes the rounding of the first
                v = v - factor.correct(here.rate(v))
        return q, v


class _Iterate(NamedTuple):
    """The increment of q so far, its multipliers, the last residual and the last movement."""

    step: Array
    mu: Array
    residual: Array
    moved: Array
    passes: Array


class _Projection:
    """The iteration for one position `start`."""

    def __init__(self, metric: Metric, system: System, start: Array, t: Array):
        self.metric: Metric = metric
        self.system, self.start, self.t = system, start, t

    def at(self, q: Array) -> tuple[Array, ConstraintFactor]:
        """g and its factor."""
        here = self.system.at(q, self.t)
        return here.constraint(), here.factor(metric=self.metric, rows="holonomic")

    def once(self, factor: ConstraintFactor | None, x: _Iterate) -> _Iterate:
        """One pass, with a given factor of G W G^T or a new one."""
        q = self.system.retract(self.start, x.step)
        g, here = self.at(q)  # of which only W G^T is used, and computed, if a factor is given
        missing = g - here.apply(x.step + here.spread(x.mu))
        mu = x.mu + (here if factor is None else factor).multipliers(missing)
        step = -here.spread(mu)
        size = jnp.max(jnp.abs(step - x.step))
        return _Iterate(step, mu, jnp.max(jnp.abs(g)), size, x.passes + 1)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _increment(
    metric: Metric, most: int, tol: Array, system: System, start: Array, t: Array
) -> tuple[Array, Array]:
    """The smallest increment from `start` to g = 0 and its multipliers; NaN if not found."""
    problem = _Projection(metric, system, start, t)
    g, first = problem.at(start)
    mu = jnp.zeros_like(g)
    infinite = jnp.asarray(jnp.inf)
    begin = _Iterate(jnp.zeros_like(first.spread(mu)), mu, infinite, infinite, jnp.asarray(0))
    rounding = 8 * np.finfo(float).eps * (1 + jnp.max(jnp.abs(start)))

    def converged(x: _Iterate) -> Array:
        # The residual is that before the last pass, so a good one has been improved once more.
        return (x.residual <= tol) | (x.moved <= rounding)

    def going(x: _Iterate) -> Array:
        return ~converged(x) & (x.passes < most)

    found = jax.lax.while_loop(going, partial(problem.once, first), begin)
    again = jax.tree.map(lambda a, b: jnp.where(converged(found), a, b), found, begin)
    found = jax.lax.while_loop(going, partial(problem.once, None), again)
    return jnp.where(converged(found), found.step, jnp.nan), found.mu


@_increment.defjvp
def _increment_jvp(metric: Metric, most: int, primals: PyTree, tangents: PyTree) -> PyTree:
    """Derivatives by a few passes at the solution, so that no loop of unknown length has any."""
    step, mu = _increment(metric, most, *primals)
    zero = jnp.zeros(())

    def passes(system: System, start: Array, t: Array) -> tuple[Array, Array]:
        once = partial(_Projection(metric, system, start, t).once, None)
        x = _Iterate(step, mu, zero, zero, jnp.asarray(0))
        x = jax.lax.fori_loop(0, _DERIVATIVE_PASSES, lambda _, x: once(x), x)
        return x.step, x.mu

    return (step, mu), jax.jvp(passes, primals[1:], tangents[1:])[1]
