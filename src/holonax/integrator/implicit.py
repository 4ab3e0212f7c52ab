"""Implicit integrators on the residual of any formulation: what they share, and one-stage methods.

The equations of a stage and its unknowns are those of `stage.py`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._arguments import flag
from .._numbers import count, finite_number
from ..problem import FullState, StepContext
from ..system.base import Array
from .base import Integrator
from .newton import Linear, NewtonCounts, Scaling, newton
from .stage import Stage


class ImplicitStep(Integrator):
    """Base of implicit integrators: the full state, Newton options and counts.

    **Arguments:** `tolerance` and `max_iterations` of Newton's method; `modified=True` keeps a
    Newton matrix within a step as long as changes shrink well.
    """

    accepts: ClassVar[tuple[str, ...]] = ("ode", "dae", "index3")

    tolerance: float = eqx.field(static=True, default=1e-10, kw_only=True)
    max_iterations: int = eqx.field(static=True, default=12, kw_only=True)
    modified: bool = eqx.field(static=True, default=False, kw_only=True)

    def __check_init__(self) -> None:
        owner = type(self).__name__
        finite_number(owner, "tolerance", self.tolerance, positive=True)
        count(owner, "max_iterations", self.max_iterations)
        flag(owner, "modified", self.modified)

    def first_state(self, context: StepContext, t: Array, q: Array, v: Array) -> FullState:
        carry = context.formulation.carry(context, t, (q, v), None)
        context = context._replace(carry=carry)
        a, lam = context.formulation.accelerations(context, t, (q, v))
        z = context.formulation.algebraic_start(context, t, q, lam)
        return FullState(q, v, a, z, jnp.zeros(()))

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        return NewtonCounts.zero()

    def statistics(self, solver_state: Any) -> dict[str, int]:
        return solver_state.statistics()

<<<<<<< HEAD
=======
    @staticmethod
    def _scaling(context: StepContext, start: Any, displacement: Array) -> Scaling | None:
        """How the formulation scales Newton's matrix, for the unknowns (k, a, z) or (a, z)."""
        scaling = context.formulation.newton_scaling(context, displacement)
        if scaling is None:
            return None
        rows, columns, augment, condition = scaling
        n = len(start)
        return Scaling(rows[-n:], columns[-n:], augment, condition)

    @staticmethod
    def _dependent(context: StepContext) -> bool:
        """Whether the multipliers of the step's equations are not determined."""
        return context.formulation.kind != "ode" and context.system.has_redundant_constraints

>>>>>>> main
    def _solve(
        self,
        residual: Any,
        start: Any,
        context: StepContext,
        scaling: Scaling | None = None,
        linear: Linear | None = None,
    ) -> tuple[Any, Array, NewtonCounts, Array]:
        """Newton on the unknowns of a step, the algebraic variables being the last of them.

        Returns them, whether they solve the equations, the counts and the condition number.
        """
        tolerance: Any = self.tolerance
        if context.tolerance is not None:  # what is left of the equations is no part of the error
            tolerance = jnp.minimum(tolerance, 1e-2 * context.tolerance.rtol)
        return newton(
            residual,
            start,
            tolerance=tolerance,
            max_iterations=self.max_iterations,
            modified=self.modified,
            scaling=scaling,
            linear=linear,
            dependent=self._dependent(context),
            plain=not context.system.has_reaction_forces,
            differentiable=context.differentiable,
        )

    def _solve_stage(self, stage: Stage, start: Any) -> tuple[Any, Array, NewtonCounts, Array]:
        """Newton on the unknowns of a stage."""
        return self._solve(stage.residual, start, stage.context, stage.scaling, stage.linear)


def error_by_index(
    context: StepContext, t1: Array, y0: FullState, y1: FullState, error: tuple[Array, Array, Array]
) -> Array:
    """The size, in units of the tolerance, of an error of position, velocity and z.

    Errors of variables of index 2 count times h, of index 3 times h^2 (Hairer, Wanner 1996, Section
    VII.7): with constraints of position level velocities and multipliers, else the multipliers.
    Multipliers that only keep the position in place are zero in the exact solution, and none is an
    unknown of its own where it follows from the state; neither is measured.
    """
    formulation, h = context.formulation, context.dt
    rows = context.system.constraint_rate(y1.q, y1.v, t1).shape[0]
    position, velocity, z = error
    if formulation.index == 3:
        velocity = h * velocity
    lam = formulation.multipliers(z, rows)
    if lam is None or not rows:
        return context.tolerance.size(context.system, y0, y1, (position, velocity))
    y0, y1 = (y._replace(z=formulation.multipliers(y.z, rows)) for y in (y0, y1))
    lam = h ** (formulation.index - 1) * lam
    return context.tolerance.size(context.system, y0, y1, (position, velocity, lam))


<<<<<<< HEAD
=======
class _RungeKutta(ImplicitStep):
    """Fully implicit Runge-Kutta step with a stiffly accurate tableau (A, c)."""

    @abc.abstractmethod
    def _tableau(self) -> tuple[np.ndarray, np.ndarray]:
        """(A, c), the last row of A being the weights."""

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: FullState,
        args: StepContext,
        solver_state: NewtonCounts,
        made_jump: Any,
    ) -> Any:
        A, c = self._tableau()
        s, h = len(c), t1 - t0

        def residual(x: tuple[Array, Array, Array]) -> Any:
            k, a, z = x

            def stage(row: Array, ci: Array, ki: Array, ai: Array, zi: Array) -> Any:
                combine = lambda r: sum(row[j] * r[j] for j in range(s))  # noqa: E731
                d, v = h * combine(k), y0.v + h * combine(a)
                return end_equations(args, t0 + ci * h, y0, d, v, ki, ai, zi)

            if s == 1:
                return stage(jnp.asarray(A[0]), jnp.asarray(c[0]), k[0], a[0], z[0])
            return jax.vmap(stage)(jnp.asarray(A), jnp.asarray(c), k, a, z)

        repeat = lambda x: jnp.tile(x, (s, 1))  # noqa: E731
        start = (repeat(y0.v), repeat(y0.a), repeat(y0.z))
        (k, a, z), solved, counts, condition = self._solve(residual, start, args, h * h)
        combine = lambda r: sum(A[-1, j] * r[j] for j in range(s))  # noqa: E731
        q = args.system.normalize(args.system.retract(y0.q, h * combine(k)))
        y1 = FullState(q, y0.v + h * combine(a), a[-1], z[-1], condition)
        error = None if args.tolerance is None else self._error(args, t0, y0, y1, k, a)
        return y1, error, {"y0": y0, "y1": y1}, solver_state + counts, solved

    @abc.abstractmethod
    def _error(
        self, context: StepContext, t0: Array, y0: FullState, y1: FullState, k: Array, a: Array
    ) -> Array | None:
        """The error of a step with the rates k and a of its stages, in units of the tolerance."""


class RadauIIA(_RungeKutta):
    """Radau IIA with 1, 2 or 3 stages: order 1, 3, 5 for ordinary differential equations.

    For steps chosen by their error, the method is compared with one of the order of its number of
    stages s, by one Newton step on implicit Euler's equations, so that stiff components do not
    swell the estimate (Hairer, Wanner 1996, Section IV.8). The estimate is O(h^(s+1)) and the
    error of a run O(h^(2s-1)): it is held below a power of the tolerance that makes the second
    proportional to the tolerance asked for.
    """

    reference: ClassVar[str] = "Hairer, Wanner 1996, Section IV.5"
    estimates_error: ClassVar[bool] = True

    stages: int = eqx.field(static=True, default=3)

    def __check_init__(self) -> None:
        count("RadauIIA", "stages", self.stages, most=3)

    def order(self, terms: Any) -> int:
        return 2 * self.stages - 1

    @property
    def stage_order(self) -> int:
        """The order of the stages, which is that of multipliers of higher index."""
        return self.stages

    def error_order(self, terms: Any) -> int:
        return self.stages + 1

    def _tableau(self) -> tuple[np.ndarray, np.ndarray]:
        return collocation(radau_nodes(self.stages))

    def _error(
        self, context: StepContext, t0: Array, y0: FullState, y1: FullState, k: Array, a: Array
    ) -> Array:
        A, c = self._tableau()
        gamma, weights = embedded(A, c)
        h = context.dt
        step = lambda r: h * sum(w * r[j] for j, w in enumerate(weights))  # noqa: E731
        d0, v0, reach = step(k), y0.v + step(a), gamma * h

        def equations(x: tuple[Array, Array, Array]) -> Any:
            k, a, z = x
            return end_equations(context, t0, y0, d0 + reach * k, v0 + reach * a, k, a, z)

        # from the state at the beginning of the step
        start = (-d0 / reach, (y0.v - v0) / reach, y0.z)
        scaling = self._scaling(context, start, reach**2)
        dk, da, dz = newton_step(equations, start, scaling, dependent=self._dependent(context))
        error = (reach * dk, reach * da, dz)
        s = self.stages
        loose = _LOOSE * (context.tolerance.rtol / _LOOSE) ** ((s + 1) / (2 * s - 1))
        tolerance = context.tolerance.loosened(loose)
        return error_by_index(context._replace(tolerance=tolerance), t0 + context.dt, y0, y1, error)


# The tolerance at which the one that Radau's error estimate is held below is the one asked for.
_LOOSE = 1e-3


def embedded(A: np.ndarray, c: np.ndarray) -> tuple[float, np.ndarray]:
    """(gamma_0, weights of the stages' rates) of the comparison of a collocation method.

    It is y^ = y_0 + h (gamma_0 f_0 + sum b^_i f_i), with b^ such that f_0 and the stages integrate
    polynomials of degree s - 1; the weights are b^ - b. gamma_0 is the inverse of the size of an
    eigenvalue of A^-1, of the real one where there is one.
    """
    s = len(c)
    values = np.linalg.eigvals(np.linalg.inv(A))
    gamma = 1 / np.abs(values[np.argmin(np.abs(values.imag))])
    powers = np.vander(c, s, increasing=True).T
    moments = 1 / np.arange(1.0, s + 1)
    moments[0] -= gamma
    return float(gamma), np.linalg.solve(powers, moments) - A[-1]


def radau_nodes(stages: int) -> np.ndarray:
    """Right Radau points on (0, 1]: zeros of d^(s-1)/dx^(s-1) [x^(s-1) (x-1)^s]."""
    p = np.polynomial.Polynomial([0, 1]) ** (stages - 1)
    p = p * np.polynomial.Polynomial([-1, 1]) ** stages
    roots = np.sort(p.deriv(stages - 1).roots().real) if stages > 1 else np.array([1.0])
    roots[-1] = 1.0
    return roots


def collocation(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Runge-Kutta matrix of the collocation method with nodes `c`."""
    s = len(c)
    A = np.empty((s, s))
    for j in range(s):
        basis = np.polynomial.Polynomial([1.0])
        for other in np.delete(c, j):
            basis = basis * np.polynomial.Polynomial([-other, 1.0])
        primitive = (basis / basis(c[j])).integ()
        A[:, j] = primitive(c) - primitive(0.0)
    return A, c


>>>>>>> main
class ImplicitMidpoint(ImplicitStep):
    """The implicit midpoint rule, order 2: dynamics at the middle, constraints at the end.

    Multipliers belong to the middle of the step.
    """

    reference: ClassVar[str] = "Bauchau, Epple, Bottasso 2009, Section 2"
    multiplier_lag: ClassVar[float] = 0.5

    def order(self, terms: Any) -> int:
        return 2

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: FullState,
        args: StepContext,
        solver_state: NewtonCounts,
        made_jump: Any,
    ) -> Any:
        h = t1 - t0
        system, still = args.system, jnp.zeros_like(y0.v)
        end = (t1, 2.0) if args.formulation.index > 1 else None
        stage = Stage(args, t0 + 0.5 * h, y0, still, y0.v, 0.5 * h, end)
        start = stage.start(y0.v, y0.a, y0.z)
        x, solved, counts, condition = self._solve_stage(stage, start)
        _, d, _, a, z = stage.state(x)
        q = system.normalize(system.retract(y0.q, 2 * d))
        y1 = FullState(q, y0.v + h * a, a, z, condition)
        return y1, None, {"y0": y0, "y1": y1}, solver_state + counts, solved


class Trapezoidal(ImplicitStep):
    """The trapezoidal rule, order 2.

    It does not damp the multipliers, so it is not offered for constraints of position level.
    """

    accepts: ClassVar[tuple[str, ...]] = ("ode", "dae")
    reference: ClassVar[str] = "Hairer, Wanner 1996, Section IV.3"

    def order(self, terms: Any) -> int:
        return 2

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: FullState,
        args: StepContext,
        solver_state: NewtonCounts,
        made_jump: Any,
    ) -> Any:
        p = 0.5 * (t1 - t0)
        stage = Stage(args, t1, y0, p * y0.v, y0.v + p * y0.a, p)
        start = stage.start(y0.v, y0.a, y0.z)
        x, solved, counts, condition = self._solve_stage(stage, start)
        q, _, v, a, z = stage.state(x)
        y1 = FullState(args.system.normalize(q), v, a, z, condition)
        return y1, None, {"y0": y0, "y1": y1}, solver_state + counts, solved
