"""State-space methods: the motion in local coordinates of the constraint manifold.

A chart splits the directions of motion in two. A complement C of the manifold's tangent space,
one column for each constraint row, is fixed for many steps; the constraints are met by moving
along C only,

    g(q ⊞ C eta, t) = 0,        v <- v - C (G C)^-1 (G v + g_t),

so what lies beside C keeps the value that the integrator gave it: it is the independent part, and
its equations are the state-space ODE. The dependent part follows from it at every stage. A chart
is kept while (G C)^-1 G, the rates of the dependent part for given independent ones, stays small.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from .._messages import shown
from ..linalg import lu, lu_solve
from ..system.base import Array, System
from .base import OdeFormulation, State, StepContext
from .options import positive

_MOST_ITERATIONS = 20
# A pivot below this, in rows of unit size, belongs to a row that depends on the others.
_RANK = 1e-9


class Chart(NamedTuple):
    """The choice carried from step to step.

    `complement` is C (nv, rows), column i for constraint row i; `kept` (rows,) is zero for rows
    that depend on others, whose columns are zero (None if all are independent); `size` is the
    measure of (G C)^-1 G when the chart was chosen; `changes` counts the choices after the first.
    """

    complement: Array
    kept: Array | None
    size: Array
    changes: Array

    def matrix(self, jacobian: Array) -> Array:
        """G C for the first rows of G, made regular where a row depends on others."""
        rows = jacobian.shape[0]
        product = jacobian @ self.complement[:, :rows]
        if self.kept is None:
            return product
        kept = self.kept[:rows]
        return kept[:, None] * product + jnp.diag(1 - kept)

    def solve(self, factor: Any, residual: Array) -> Array:
        """C (G C)^-1 residual, with the factor of `matrix`."""
        if self.kept is not None:
            residual = self.kept[: residual.shape[0]] * residual
        return self.complement[:, : residual.shape[0]] @ lu_solve(factor, residual)

    def measure(self, jacobian: Array) -> Array:
        """The largest rate of a dependent coordinate: the longest row of (G C)^-1 G, 1 or more."""
        rates = lu_solve(lu(self.matrix(jacobian)), jacobian)
        length = jnp.sqrt(jnp.sum(rates**2, axis=1))
        return jnp.max(length if self.kept is None else length * self.kept, initial=1.0)


class StateSpaceFormulation(OdeFormulation):
    """Base of formulations that integrate in a chart of the constraint manifold."""

    tolerance: eqx.AbstractVar[Array]
    condition_limit: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def complement(
        self, jacobian: Array, holonomic: int, redundant: bool
    ) -> tuple[Array, Array | None]:
        """(C, kept) for [G; A], the first columns of C belonging to the `holonomic` rows alone."""

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        return context.system.accelerations(*state, t)

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        return self.on_manifold(context, t, state)

    def rates(self, context: StepContext, t: Array, state: State) -> State:
        q, v = self.on_manifold(context, t, state)
        return v, self.accelerations(context, t, (q, v))[0]

    def carry(self, context: StepContext, t: Array, state: State, old: Any) -> Chart:
        # Derivatives of a run are taken in the charts it went through.
        system, q, t, old = lax.stop_gradient((context.system, state[0], t, old))
        holonomic = system.constraint(q, t).shape[0]
        jacobian = system.jacobian(q, t)

        def choose() -> Chart:
            C, kept = self.complement(jacobian, holonomic, system.has_redundant_constraints)
            chart = Chart(C, kept, jnp.ones(()), jnp.asarray(0))
            return chart._replace(size=chart.measure(jacobian))

        if jacobian.shape[0] == 0:
            return Chart(jnp.zeros((jacobian.shape[1], 0)), None, jnp.ones(()), jnp.asarray(0))
        if old is None:
            return choose()
        return lax.cond(
            old.measure(jacobian) <= self.condition_limit * old.size,
            lambda: old,
            lambda: choose()._replace(changes=old.changes + 1),
        )

    def on_manifold(self, context: StepContext, t: Array, state: State) -> State:
        """The state with the dependent part of positions and velocities recomputed."""
        system = context.system
        q, v = state
        chart = context.carry
        if chart is None:  # asked for outside of a run
            chart = self.carry(context, t, state, None)
        q = self._positions(system, chart, system.normalize(q), t)
        if chart.complement.shape[1] == 0:
            return q, v
        factor = lu(chart.matrix(system.jacobian(q, t)))
        return q, v - chart.solve(factor, system.constraint_rate(q, v, t))

    def _positions(self, system: System, chart: Chart, q: Array, t: Array) -> Array:
        """Newton's method on g = 0 along C; NaN if it does not converge.

        The last step is taken on its own. Being exact to first order, it carries the derivatives,
        so that nothing has to be differentiated through the loop.
        """
        rows = system.constraint(q, t).shape[0]
        if rows == 0:
            return q

        def step(system: System, q: Array, t: Array) -> Array:
            factor = lu(lax.stop_gradient(chart.matrix(system.jacobian(q, t)[:rows])))
            return chart.solve(factor, system.constraint(q, t))

        def far(system: System, q: Array, t: Array) -> Array:
            return jnp.max(jnp.abs(system.constraint(q, t)))

        frozen, base, time, tolerance = lax.stop_gradient((system, q, t, self.tolerance))

        def iterate(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            q, _, count = now
            q = frozen.retract(q, -step(frozen, q, time))
            return q, far(frozen, q, time), count + 1

        def unfinished(now: tuple[Array, Array, Array]) -> Array:
            return jnp.logical_and(now[1] > tolerance, now[2] < _MOST_ITERATIONS)

        start = (base, far(frozen, base, time), jnp.asarray(0))
        end, distance, _ = lax.while_loop(unfinished, iterate, start)
        near = system.retract(q, lax.stop_gradient(system.difference(base, end)))
        solved = system.retract(near, -step(system, near, t))
        return jnp.where(distance <= tolerance, solved, jnp.nan)


def pivots(jacobian: Array, holonomic: int, redundant: bool) -> tuple[Array, Array | None]:
    """Dependent coordinates as unit vectors C (nv, rows), with `kept` as in `Chart`.

    Gauss-Jordan elimination with full pivoting on rows scaled to unit size, the holonomic rows
    before the others: column i of C is the coordinate in which row i was solved.
    """
    rows, n = jacobian.shape
    size = jnp.max(jnp.abs(jacobian), axis=1, keepdims=True)
    row, column = jnp.arange(rows), jnp.arange(n)

    def eliminate(k: Array, now: tuple[Array, Array, Array, Array]) -> Any:
        A, C, open_rows, open_columns = now
        allowed = open_rows & ((row < holonomic) | (k >= holonomic))
        candidates = jnp.where(allowed[:, None] & open_columns[None, :], jnp.abs(A), -1.0)
        chosen = jnp.argmax(candidates)
        r, c = chosen // n, chosen % n
        pivot = A[r, c]
        good = jnp.abs(pivot) > _RANK if redundant else jnp.asarray(True)
        others = jnp.where((row == r) | ~good, 0.0, A[:, c])
        A = A - others[:, None] * (A[r] / jnp.where(good, pivot, 1.0))
        unit = (column == c)[:, None] & (row == r)[None, :] & good
        return A, C + unit, open_rows & (row != r), open_columns & ((column != c) | ~good)

    start = (
        jacobian / jnp.where(size > 0, size, 1.0),
        jnp.zeros((n, rows)),
        jnp.ones(rows, bool),
        jnp.ones(n, bool),
    )
    C = lax.fori_loop(0, rows, eliminate, start)[1]
    return C, jnp.sum(C, axis=0) if redundant else None


def growth(owner: str, value: Any) -> Array:
    """The option `condition_limit` as an array; refused unless it is a number above 1."""
    number = positive(owner, "condition_limit", value)
    if not isinstance(number, Tracer) and not float(number) > 1:
        raise ValueError(
            f"{owner}: condition_limit={shown(value)} would choose anew at every step. Give a "
            "number above 1: the growth of dependent velocities that ends a choice."
        )
    return number
