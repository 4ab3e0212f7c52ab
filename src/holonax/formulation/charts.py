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
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from .._messages import shown
from ..linalg import moved_back
from ..problem import State, StepContext
from ..problem.chart import Chart, CoordinateWeights
from ..system.base import Array, System
from .base import OdeFormulation
from .options import positive

# A pivot below this, in rows of unit size, belongs to a row that depends on the others.
_RANK = 1e-9
# Pivots may be this much smaller than the largest one.
_THRESHOLD = 0.1


class StateSpaceFormulation(OdeFormulation):
    """Base of formulations that integrate in a chart of the constraint manifold."""

    tolerance: eqx.AbstractVar[Array]
    condition_limit: eqx.AbstractVar[Array]

    @property
    def holds(self) -> tuple[bool, bool]:
        return True, True

    @abc.abstractmethod
    def complement(
        self, jacobian: Array, holonomic: int, redundant: bool, weights: CoordinateWeights
    ) -> tuple[Array, Array | None]:
        """(C, kept) for [G; A], the first columns of C belonging to the `holonomic` rows."""

    def weights(self, system: System, t: Array, q: Array, jacobian: Array) -> CoordinateWeights:
        """How coordinates compare; all are alike unless a formulation says otherwise."""
        n = jacobian.shape[1]
        return CoordinateWeights(jnp.ones(n), jnp.ones(n))

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

        def choose(weights: CoordinateWeights, changes: Array) -> Chart:
            redundant = system.has_redundant_constraints
            C, kept = self.complement(jacobian, holonomic, redundant, weights)
            chart = Chart(C, kept, weights, jnp.ones(()), changes)
            return chart._replace(size=chart.measure(jacobian)) if C.shape[1] else chart

        def choose_again() -> Chart:
            chart = choose(old.weights, old.changes)
            different = jnp.any(chart.complement != old.complement)  # it may be the same again
            return chart._replace(changes=old.changes + different)

        if old is None:
            return choose(self.weights(system, t, q, jacobian), jnp.asarray(0))
        if jacobian.shape[0] == 0:
            return old
        return lax.cond(
            old.measure(jacobian) <= self.condition_limit * old.size,
            lambda: old,
            choose_again,
        )

    def on_manifold(self, context: StepContext, t: Array, state: State) -> State:
        """The state with the dependent part of positions and velocities recomputed.

        Positions are NaN where Newton's method does not find them.
        """
        system = context.system
        q, v = state
        chart = context.carry
        if chart is None:  # asked for outside of a run
            chart = self.carry(context, t, state, None)
        q = _positions(system, chart, system.normalize(q), t, self.tolerance)
        if chart.complement.shape[1] == 0:
            return q, v
        return q, chart.velocity(system, t, q, v)


@eqx.filter_jit  # a step asks for it in several places: traced once
def _positions(system: System, chart: Chart, q: Array, t: Array, tolerance: Array) -> Array:
    """The position that the chart leads to from q; NaN where it is not found."""
    rows = system.constraint(q, t).shape[0]
    if rows == 0:
        return q
    C, none = chart.complement[:, :rows], jnp.zeros(chart.complement.shape[0])
    eta, distance = chart.dependent(
        *lax.stop_gradient((system, t, q)), none, jnp.zeros(rows), tolerance
    )
    # Derivatives come from the implicit function theorem, not from the iteration.
    eta = moved_back(eta, chart.newton_step(system, t, q, C @ eta)[0])
    return jnp.where(distance <= tolerance, system.retract(q, C @ eta), jnp.nan)


def pivots(
    jacobian: Array, holonomic: int, redundant: bool, weights: CoordinateWeights
) -> tuple[Array, Array | None]:
    """Dependent coordinates as unit vectors C (nv, rows), with `kept` as in `Chart`.

    Gauss-Jordan elimination with pivoting in rows and columns, the rows scaled to unit size and
    the holonomic ones before the others: column i of C is the coordinate in which row i was solved.
    Among pivots not much smaller than the largest, those in columns with few entries are preferred
    (after Markowitz): of bodies in Cartesian coordinates that leaves the angles independent, from
    which the positions follow wherever a step leads.
    """
    jacobian = jacobian / weights.scale
    rows, n = jacobian.shape
    size = jnp.max(jnp.abs(jacobian), axis=1, keepdims=True)
    row, column = jnp.arange(rows), jnp.arange(n)

    def eliminate(
        k: Array, now: tuple[Array, Array, Array, Array]
    ) -> tuple[Array, Array, Array, Array]:
        A, C, open_rows, open_columns = now
        allowed = open_rows & ((row < holonomic) | (k >= holonomic))
        entry = jnp.where(allowed[:, None] & open_columns[None, :], jnp.abs(A), 0.0)
        largest = jnp.max(entry)
        entry = entry / jnp.where(largest > 0, largest, 1.0)
        good = largest > _RANK if redundant else largest > 0
        chosen = jnp.argmax(jnp.where(entry >= _THRESHOLD, entry / weights.crowd**2, 0.0))
        c = chosen % n
        # without a good pivot, any row that is still open is given up
        r = jnp.where(good, chosen // n, jnp.argmax(allowed))
        others = jnp.where((row == r) | ~good, 0.0, A[:, c])
        A = A - others[:, None] * (A[r] / jnp.where(good, A[r, c], 1.0))
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


def growth(owner: str, value: object) -> Array:
    """The option `condition_limit` as an array; refused unless it is a number above 1."""
    number = positive(owner, "condition_limit", value)
    if not isinstance(number, Tracer) and not float(number) > 1:
        raise ValueError(
            f"{owner}: condition_limit={shown(value)} would choose anew at every step. Give a "
            "number above 1: the growth of dependent velocities that ends a choice."
        )
    return number
