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

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jax import lax

from ..formulation.base import StepContext
from ..formulation.charts import Chart
from ..formulation.partitioning import CoordinatePartitioning
from ..linalg import lu, lu_solve
from ..system.base import Array, System
from .base import FullState
from .newton import NewtonCounts

_MOST_INNER = 20


class _Newton(NamedTuple):
    w: Array  # independent accelerations
    eta: Array  # increments of the dependent coordinates that belong to them
    change: Array
    iterations: Array
    done: Array


class PartitionedStep:
    """The equations of one step to `t1`, as functions of the independent accelerations w."""

    def __init__(
        self, context: StepContext, t1: Array, y0: FullState, beta: Any, gamma: Any
    ) -> None:
        system, chart = context.system, context.carry
        _refuse(system)
        assert isinstance(context.formulation, CoordinatePartitioning)
        assert isinstance(chart, Chart)
        self.system, self.t1, self.y0 = system, t1, y0
        self.tolerance = context.formulation.tolerance
        self.frozen = context.formulation.matrix == "fisette-vaneghem"
        self.C = chart.complement
        self.V = independent(chart)
        h = context.dt
        self.position_gain, self.velocity_gain = beta * h**2, gamma * h
        self.increment = self.V.T @ (h * y0.v + (0.5 - beta) * h**2 * y0.a)
        self.velocity = self.V.T @ (y0.v + (1 - gamma) * h * y0.a)
        self.explicit = h * y0.v + 0.5 * h**2 * y0.a, y0.v + h * y0.a

    def _position(self, w: Array, eta: Array) -> tuple[Array, Array]:
        """(increment from q_0, position) for dependent increments `eta`."""
        d = self.V @ (self.increment + self.position_gain * w) + self.C @ eta
        return d, self.system.retract(self.y0.q, d)

    def dependent(self, w: Array, eta: Array) -> Array:
        """The dependent increments for given w, from a guess; NaN if Newton does not converge."""
        if eta.shape[0] == 0:
            return eta

        def step(eta: Array) -> tuple[Array, Array]:
            d, q = self._position(w, eta)
            g = self.system.constraint(q, self.t1)
            along = jax.vmap(lambda c: self.system.increment_rate(d, c), 1, 1)(self.C)
            factor = lu(lax.stop_gradient(self.system.jacobian(q, self.t1) @ along))
            return lu_solve(factor, g), jnp.max(jnp.abs(g))

        def iterate(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            change, far = step(now[0])
            return now[0] - change, far, now[2] + 1

        def unfinished(now: tuple[Array, Array, Array]) -> Array:
            return jnp.logical_and(now[1] > self.tolerance, now[2] < _MOST_INNER)

        start = (eta, jnp.asarray(jnp.inf), jnp.asarray(0))
        end, far, _ = lax.while_loop(unfinished, iterate, start)
        return jnp.where(far <= self.tolerance, end, jnp.nan)

    def _implicit(self, w: Array, eta: Array) -> Array:
        """`eta`, which solves the constraints, with its derivative with respect to w.

        One Newton step with a constant matrix: exact to first order.
        """
        if eta.shape[0] == 0:
            return eta
        eta = lax.stop_gradient(eta)
        d, q = self._position(w, eta)
        along = jax.vmap(lambda c: self.system.increment_rate(d, c), 1, 1)(self.C)
        factor = lu(lax.stop_gradient(self.system.jacobian(q, self.t1) @ along))
        return eta - lu_solve(factor, self.system.constraint(q, self.t1))

    def state(self, w: Array, eta: Array) -> tuple[Array, Array, Array, Array]:
        """(q, v, a, T) for given w and the dependent increments `eta` that solve g = 0."""
        system, C, V, t = self.system, self.C, self.V, self.t1
        _, q = self._position(w, self._implicit(w, eta))
        velocity = self.velocity + self.velocity_gain * w
        if C.shape[1] == 0:
            return q, V @ velocity, V @ w, V
        G = system.jacobian(q, t)
        factor = lu(G @ C)
        T = V - C @ lu_solve(factor, G @ V)
        moving = system.constraint_rate(q, jnp.zeros_like(self.y0.v), t)
        v = T @ velocity - C @ lu_solve(factor, moving)
        own = C @ lu_solve(factor, system.gamma(q, v, t))
        if self.frozen:  # Fisette and Vaneghem: no derivative of gamma, nor of G^T lam
            T, own = lax.stop_gradient((T, own))
        return q, v, T @ w + own, T

    def reduced(self, w: Array, eta: Array) -> Array:
        """Psi, the equations of motion of the independent coordinates."""
        q, v, a, T = self.state(w, eta)
        return T.T @ (self.system.momentum(q, a) - self.system.force(q, v, self.t1))

    def first_guess(self, predictor: str) -> tuple[Array, Array]:
        """(w, eta) that Newton starts from: Eq. (39) for an "explicit" predictor."""
        d, v = self.explicit
        eta = self.C.T @ d
        if predictor == "previous":
            return self.V.T @ self.y0.a, eta
        w = lax.stop_gradient(self.V.T @ (d - self.V @ self.increment)) / self.position_gain
        eta = self.dependent(w, eta)
        q = self._position(w, eta)[1]
        factor = lu(self.system.jacobian(q, self.t1) @ self.C)
        v = v - self.C @ lu_solve(factor, self.system.constraint_rate(q, v, self.t1))
        return self.V.T @ self.system.accelerations(q, v, self.t1)[0], eta


def independent(chart: Chart) -> Array:
    """V: unit vectors (nv, nv - rows) of the coordinates that are not in the complement."""
    n, rows = chart.complement.shape
    free = jnp.sum(chart.complement, axis=1) == 0
    place = jnp.cumsum(free) - 1
    return jnp.where(free[:, None] & (place[:, None] == jnp.arange(n - rows)), 1.0, 0.0)


def partitioned_newmark_step(
    integrator: Any, context: StepContext, t1: Array, y0: FullState
) -> tuple[FullState, Any, NewtonCounts]:
    """One step of the size context.dt from `y0` to `t1`; returns (y1, result, counts).

    `integrator` gives beta, gamma and the options of Newton's method. `context.formulation` is a
    `CoordinatePartitioning`, which says how Newton's matrix is made and where Newton starts, and
    `context.carry` its partition.
    """
    formulation: Any = context.formulation
    equations = PartitionedStep(context, t1, y0, integrator.beta, integrator.gamma)
    w, eta = equations.first_guess(formulation.predictor)
    modified = integrator.modified
    linear_convergence = modified or equations.frozen
    most = integrator.max_iterations * (4 if linear_convergence else 1)

    def residual(w: Array) -> Array:
        return equations.reduced(w, equations.dependent(lax.stop_gradient(w), eta))

    def solve(_: Any, w: Array) -> tuple[Array, Any]:
        end = _solve(equations, w, eta, integrator.tolerance, most, modified)
        return end.w, (end.eta, end.done, end.iterations.astype(w.dtype))

    def tangent_solve(linear: Any, y: Array) -> Array:
        return lu_solve(lu(jax.jacfwd(linear)(jnp.zeros_like(y))), y)

    if w.shape[0] == 0:
        eta, done, iterations = equations.dependent(w, eta), jnp.asarray(True), jnp.asarray(0)
    else:
        w, (eta, done, iterations) = lax.custom_root(
            residual, w, solve, tangent_solve, has_aux=True
        )
    q, v, a, _ = equations.state(w, lax.stop_gradient(eta))
    y1 = y0._replace(q=context.system.normalize(q), v=v, a=a)
    iterations = lax.stop_gradient(iterations).astype(int)
    factorizations = jnp.minimum(iterations, 1) if modified else iterations
    result = diffrax.RESULTS.where(done, diffrax.RESULTS.successful, diffrax.RESULTS.internal_error)
    return y1, result, NewtonCounts(iterations, factorizations)


def _solve(
    equations: PartitionedStep, w: Array, eta: Array, tolerance: float, most: int, modified: bool
) -> _Newton:
    """Newton's method on Psi; every iterate meets the constraints (steps 1-9 of the paper)."""

    def matrix(w: Array, eta: Array) -> Any:
        return lu(jax.jacfwd(equations.reduced)(w, eta))

    eta = equations.dependent(w, eta)
    first = matrix(w, eta) if modified else None

    def iterate(now: _Newton) -> _Newton:
        factor = matrix(now.w, now.eta) if first is None else first
        step = lu_solve(factor, equations.reduced(now.w, now.eta))
        w = now.w - step
        change = jnp.max(jnp.abs(step)) / (1 + jnp.max(jnp.abs(w)))
        rounding = jnp.logical_and(change < 1e-6, change > 0.3 * now.change)
        rounding = jnp.logical_and(rounding, not (equations.frozen or modified))
        done = jnp.logical_or(change <= tolerance, rounding)
        return _Newton(w, equations.dependent(w, now.eta), change, now.iterations + 1, done)

    def unfinished(now: _Newton) -> Array:
        # a change that is not finite will not recover
        going = jnp.logical_and(~now.done, now.iterations < most)
        return jnp.logical_and(going, now.change < jnp.inf)

    large = jnp.asarray(jnp.finfo(w.dtype).max)
    start = _Newton(w, eta, large, jnp.asarray(0), jnp.asarray(False))
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
