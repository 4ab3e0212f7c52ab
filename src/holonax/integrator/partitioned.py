"""Newmark's method on independent coordinates: the state-space implicit step of Haug, Negrut and
Iancu (1997).

    v_1  = v_0 + h v_0' + h^2 (1/2 - beta) v_0'' + beta h^2 v_1''          independent positions
    v_1' = v_0' + h (1 - gamma) v_0'' + gamma h v_1''                      independent velocities
    Psi(v_1'') = T^T (M a - f) = 0,     a = T v_1'' + C (G C)^-1 gamma,    T = V - C (G C)^-1 G V

C and V are the unit vectors of dependent and independent coordinates. The dependent positions and
velocities in M, G, f and gamma solve the constraint equations for given v_1''; T^T eliminates the
multipliers. This is Eq. (20) with (10) and (37) put in, and its derivative is Eq. (29).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from ..linalg import LUFactor, held, jacobian, lu, lu_solve, moved_back
from ..problem import FullState, StepContext
from ..problem.chart import Chart
from ..system.base import Array, System
from .newton import NewtonCounts


class _PartitionedState(NamedTuple):
    """q, v and a, the directions T in which they move, and the factor of G C."""

    q: Array
    v: Array
    a: Array
    T: Array
    factor: LUFactor | None


class PartitionedStep:
    """The equations of one step to `t1`, as functions of the independent accelerations w."""

    def __init__(
        self, context: StepContext, t1: Array, y0: FullState, beta: Array, gamma: Array
    ) -> None:
        system, chart = context.system, context.carry
        _refuse(system)
        assert isinstance(chart, Chart)
        self.system, self.chart, self.t1, self.y0 = system, chart, t1, y0
        self.tolerance = context.formulation.tolerance
        self.frozen = context.formulation.matrix == "fisette-vaneghem"
        self.V = independent(chart)
        h = context.dt
        self.position_gain, self.velocity_gain = beta * h**2, gamma * h
        self.increment = self.V.T @ (h * y0.v + (0.5 - beta) * h**2 * y0.a)
        self.velocity = self.V.T @ (y0.v + (1 - gamma) * h * y0.a)
        self.explicit = h * y0.v + 0.5 * h**2 * y0.a, y0.v + h * y0.a

    def _given(self, w: Array) -> Array:
        """The increment from q_0 of the independent coordinates."""
        return self.V @ (self.increment + self.position_gain * w)

    def dependent(self, w: Array, eta: Array) -> Array:
        """The dependent increments for given w, from a guess; NaN if Newton does not converge."""
        if eta.shape[0] == 0:
            return eta
        eta, distance = self.chart.dependent(
            self.system, self.t1, self.y0.q, self._given(w), eta, self.tolerance
        )
        return jnp.where(distance <= self.tolerance, eta, jnp.nan)

    def _position(self, w: Array, eta: Array) -> Array:
        """q for given w and the dependent increments `eta` that belong to it.

        One Newton step, its matrix a constant, gives `eta` the derivative with respect to w: exact
        to first order (Eq. 21).
        """
        d = self._given(w) + self.chart.complement @ lax.stop_gradient(eta)
        if eta.shape[0]:
            step, _ = self.chart.newton_step(self.system, self.t1, self.y0.q, d)
            d = d - self.chart.complement @ step
        return self.system.retract(self.y0.q, d)

    def state(self, w: Array, eta: Array, frozen: bool = False) -> _PartitionedState:
        """The state for given w and the dependent increments `eta` that belong to it. `frozen`
        leaves out how the dependent accelerations depend on it, but for T w."""
        system, chart, t = self.system, self.chart, self.t1
        q = self._position(w, eta)
        v, a = self.V @ (self.velocity + self.velocity_gain * w), self.V @ w
        if chart.complement.shape[1] == 0:
            return _PartitionedState(q, v, a, self.V, None)
        # What T and the factor are at this state; derivatives follow from what v and a solve.
        still = lax.stop_gradient((system, q, t))
        at, now, then = still
        G = at.jacobian(now, then)
        factor = chart.factor(G)
        T = self.V - chart.complement @ lu_solve(factor, G @ self.V)
        rate = lambda v: system.constraint_rate(q, v, t)  # noqa: E731
        v = chart.meeting(factor, v, rate, at.constraint_rate(now, lax.stop_gradient(v), then))
        second = partial(system.constraint_acceleration, q, v, t)
        missing = at.constraint_acceleration(now, *lax.stop_gradient((v, t, a)))
        if frozen:
            own = lax.stop_gradient(a - T @ w - chart.solve(factor, missing))
            a = T @ w + own
        else:
            a = chart.meeting(factor, a, second, missing)
        return _PartitionedState(q, v, a, T, factor)

    def reduced(self, w: Array, eta: Array, frozen: bool = False) -> Array:
        """Psi, the equations of motion of the independent coordinates.

        T^T is at this state. Its change is along C, across which the forces vanish once those of
        the constraints are taken away: so that is what is differentiated (Eq. 29), unless `frozen`.
        """
        system, t = self.system, self.t1
        q, v, a, T, factor = self.state(w, eta, frozen)
        missing = system.momentum(q, a) - system.force(q, v, t)
        if factor is not None and not frozen:
            along = lax.stop_gradient(self.chart.complement.T @ missing)
            lam = lu_solve(factor, along, transposed=True)
            missing = missing - system.constraint_force(q, t, lam)
        return T.T @ missing

    def reduced_matrix(self, w: Array, eta: Array) -> tuple[Array, Array]:
        """(the derivative of Psi, Psi); after Fisette and Vaneghem without those of gamma and of
        G^T lam."""

        def twice(w: Array) -> tuple[Array, Array]:
            residual = self.reduced(w, eta, self.frozen)
            return residual, residual

        return jacobian(twice, w, has_aux=True)

    def first_guess(self, predictor: str) -> tuple[Array, Array]:
        """(w, eta) that Newton starts from: Eq. (39) for an "explicit" predictor."""
        d, v = self.explicit
        eta = self.chart.complement.T @ d
        if predictor == "previous":
            return self.V.T @ self.y0.a, eta
        w = (self.V.T @ d - self.increment) / self.position_gain
        eta = self.dependent(w, eta)
        q = self._position(w, eta)
        v = self.chart.velocity(self.system, self.t1, q, v)
        return self.V.T @ self.system.accelerations(q, v, self.t1)[0], eta


def independent(chart: Chart) -> Array:
    """V: unit vectors (nv, nv - rows) of the coordinates that are not in the complement."""
    n, rows = chart.complement.shape
    free = jnp.sum(chart.complement, axis=1) == 0
    place = jnp.cumsum(free) - 1
    return jnp.where(free[:, None] & (place[:, None] == jnp.arange(n - rows)), 1.0, 0.0)


@eqx.filter_jit
def partitioned_newmark_step(
    integrator: Any, context: StepContext, t1: Array, y0: FullState
) -> tuple[FullState, Array, NewtonCounts]:
    """One step of the size context.dt from `y0` to `t1`; returns (y1, converged, counts).

    `integrator` gives beta, gamma and the options of Newton's method. `context.formulation` is a
    `CoordinatePartitioning`, which says how Newton's matrix is made and where Newton starts, and
    `context.carry` its partition.
    """
    formulation: Any = context.formulation
    equations = PartitionedStep(context, t1, y0, integrator.beta, integrator.gamma)
    w, eta = lax.stop_gradient(equations.first_guess(formulation.predictor))

    def solve(w: Array) -> tuple[Array, Any]:
        end = _solve(equations, w, eta, integrator)
        # as numbers, which have tangents
        flags = end.done.astype(w.dtype), end.iterations.astype(w.dtype)
        return end.w, (end.eta, *flags)

    if w.shape[0]:
        found = held(solve, w) if context.differentiable else solve(w)
        w, (eta, done, iterations) = found
        done = lax.stop_gradient(done) > 0.5
        if context.differentiable:
            eta = held(equations.dependent, w, eta)
            matrix = held(lambda w: jacobian(partial(equations.reduced, eta=eta), w), w)
            w = moved_back(w, lu_solve(lu(matrix), equations.reduced(w, eta)))
    else:
        eta = equations.dependent(w, eta)
        done, iterations = jnp.all(jnp.isfinite(eta)), jnp.zeros(())
    q, v, a, *_ = equations.state(w, eta)  # brings `eta` up to the last change of w
    y1 = y0._replace(q=context.system.normalize(q), v=v, a=a)
    iterations = lax.stop_gradient(iterations).astype(int)
    factorizations = jnp.minimum(iterations, 1) if integrator.modified else iterations
    return y1, done, NewtonCounts(iterations, factorizations)


class _Newton(NamedTuple):
    w: Array  # independent accelerations
    eta: Array  # increments of the dependent coordinates, those of the iterate before
    factor: Any
    change: Array
    iterations: Array
    done: Array


def _solve(equations: PartitionedStep, w: Array, eta: Array, integrator: Any) -> _Newton:
    """Newton's method on Psi; every iterate meets the constraints (steps 1-9 of the paper)."""
    keep = integrator.modified
    linear_convergence = keep or equations.frozen
    most = integrator.max_iterations * (4 if linear_convergence else 1)

    def iterate(now: _Newton) -> _Newton:
        eta = equations.dependent(now.w, now.eta)
        if keep:
            factor, residual = now.factor, equations.reduced(now.w, eta)
        else:
            matrix, residual = equations.reduced_matrix(now.w, eta)
            factor = lu(matrix)
        step = lu_solve(factor, residual)
        w = now.w - step
        change = jnp.max(jnp.abs(step)) / (1 + jnp.max(jnp.abs(w)))
        done = change <= integrator.tolerance
        if not linear_convergence:  # a change that no longer falls is rounding
            done = done | ((change < 1e-6) & (change > 0.3 * now.change))
        return _Newton(w, eta, factor if keep else None, change, now.iterations + 1, done)

    def unfinished(now: _Newton) -> Array:
        # a change that is not finite will not recover
        return ~now.done & (now.iterations < most) & (now.change < jnp.inf)

    factor = lu(equations.reduced_matrix(w, equations.dependent(w, eta))[0]) if keep else None
    large = jnp.asarray(jnp.finfo(w.dtype).max)
    start = _Newton(w, eta, factor, large, jnp.asarray(0), jnp.asarray(False))
    return lax.while_loop(unfinished, iterate, start)


def _refuse(system: System) -> None:
    for given, what in (
        (system.has_nonholonomic_constraints, "non-holonomic"),
        (system.has_redundant_constraints, "redundant"),
    ):
        if given:
            raise ValueError(
                f"Newmark on independent coordinates cannot take {what} constraints. Use "
                "CoordinatePartitioning with an explicit integrator such as hx.RK4(), or Newmark "
                "with hx.Index3()."
            )
