"""RATTLE: a symmetric second-order step for the constraints of position and velocity.

    M (v_half - v_n) = h/2 (f(q_n, v_half) - G_n^T lam),   q_{n+1} = q_n ⊞ h v_half,  g(q_{n+1}) = 0
    M (v_{n+1} - v_half) = h/2 (f(q_{n+1}, v_half) - G_{n+1}^T mu),              g'_{n+1} = 0

The second half is the adjoint of the first, so the step is of order 2; it conserves momentum and
keeps the energy of conservative mechanisms bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import jax.numpy as jnp

from ..problem import FullState, StepContext
from ..system.base import Array
from ..system.step import StepEnd
from .implicit import ImplicitStep
from .known import Solution
from .newton import Linear, NewtonCounts
from .stage import StepEquations, scaled

if TYPE_CHECKING:
    from diffrax import ODETerm


class Rattle(ImplicitStep):
    """RATTLE (Andersen 1983) on the index-3 equations, order 2.

    Multipliers are those that belong to position and velocity at the end of the step.
    """

    accepts: ClassVar[tuple[str, ...]] = ("index3",)
    holds_velocity: ClassVar[bool] = True
    takes_reaction_forces: ClassVar[bool] = False  # its multipliers are means over half steps
    reference: ClassVar[str] = "Andersen 1983; Leimkuhler, Skeel 1994"

    def order(self, terms: ODETerm | None) -> int:
        return 2

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: FullState,
        args: StepContext,
        solver_state: NewtonCounts,
        made_jump: bool,
    ) -> Any:
        h = t1 - t0
        system, formulation = args.system, args.formulation

        def first_half(x: tuple[Array, Array]) -> tuple[Array, Array]:
            """Unknowns: the acceleration over the first half and its multipliers."""
            a, lam = x
            half = y0.v + 0.5 * h * a
            balance = system.momentum(y0.q, a) - system.force(y0.q, half, t0)
            balance = balance + system.constraint_force(y0.q, t0, lam)
            q1 = system.retract(y0.q, h * half)
            g = system.constraint(q1, t1)
            rate = h * system.constraint_rate(q1, half, t1)[g.shape[0] :]
            return balance, jnp.concatenate([g, rate]) / formulation.algebraic_scale(args)

        reach = 0.5 * h * h
        equations = StepEquations(args, reach, 1 / h, h)

        def prepare(x: tuple[Array, Array]) -> Any:
            a, lam = x
            half = y0.v + 0.5 * h * a
            d = h * half
            end = StepEnd(system.retract(y0.q, d), half, t1, d)
            return equations.prepare((y0.q, half, t0, a, lam), d, end=end, still=True)

        def solve(
            factor: Any, value: tuple[Array, Array], *, checked: bool = True
        ) -> tuple[tuple[Array, Array], Array]:
            d, lam, fine = equations.solve(factor, value, y0, checked=checked)
            return (d / reach, lam), fine

        linear = None
        if equations.solver is not None:
            tangent, dear = equations.tangent(solve), equations.solver.dear
            linear = Linear(prepare, solve, tangent=tangent, dear=dear)
        scaling = scaled(args, reach, reach)
        start = y0.a, y0.z
        x, solved, counts, condition = self._solve(first_half, start, args, scaling, linear, y0.q)
        a0, solution = x[0], Solution(x, solved)
        half = y0.v + 0.5 * h * a0
        q1 = system.normalize(system.retract(y0.q, h * half))
        factor = system.factor(q1, t1)
        # the mean acceleration of the second half, with G (half + h/2 mean) + g_t = 0
        rate = system.constraint_rate(q1, half, t1)
        mean, _ = factor.solve(system.force(q1, half, t1), -2 / h * rate)
        v1 = half + 0.5 * h * mean
        # the step's multipliers are means over its halves; those of its end come from q and v
        a1, lam = factor.solve(system.force(q1, v1, t1), system.gamma(q1, v1, t1))
        y1 = FullState(q1, v1, a1, lam, condition)
        dense = {"y0": y0, "y1": y1, "solution": solution}
        return y1, None, dense, solver_state + counts, solved
