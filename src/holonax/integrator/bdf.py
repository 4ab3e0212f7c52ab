"""Backward differentiation formulas with constant steps, orders 1 to 5.

    sum_j alpha_j d_{n+1-j} = h k,    sum_j alpha_j v_{n+1-j} = h a

The increments d are measured from the configuration q_n, so that the formula keeps its order on
rotations: k is the rate of the increment at its end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._numbers import count
from ..problem import FullState, StepContext
from ..system.base import Array
from .explicit import Dop853
from .implicit import ImplicitStep
from .newton import NewtonCounts
from .stage import Stage

if TYPE_CHECKING:
    from diffrax import ODETerm


def bdf_weights(order: int) -> np.ndarray:
    """(alpha_0, ..., alpha_k): the derivative at node 0 of the interpolant at 0, -1, ..., -k."""
    nodes = -np.arange(order + 1.0)
    weights = np.empty(order + 1)
    for j in range(order + 1):
        others = np.delete(nodes, j)
        basis = np.polynomial.Polynomial.fromroots(others)
        weights[j] = basis.deriv()(0.0) / basis(nodes[j])
    return weights


def ahead_weights(points: int, slopes: int) -> np.ndarray:
    """The value at node 1 of the polynomial with given values at the nodes 0, -1, ..., and as many
    derivatives at node 0 as `slopes`: the weights of the values, then those of the derivatives."""
    powers = np.arange(points + slopes)
    conditions = np.zeros((points + slopes,) * 2)
    conditions[:points] = (-np.arange(points)[:, None]) ** powers
    for j in range(1, slopes + 1):
        conditions[points + j - 1, j] = math.factorial(j)
    return np.linalg.solve(conditions.T, np.ones(points + slopes))


def _ahead(values: Sequence[Any], *slopes: Any) -> Any:
    """Extrapolation by one step from values at its beginning and before, newest first, and from
    derivatives there (to the time in steps)."""
    weights = ahead_weights(len(values), len(slopes))
    return sum(w * x for w, x in zip(weights, (*values, *slopes), strict=True))


class _History(NamedTuple):
    """The last order - 1 states before the present one, how many are known, and their step."""

    q: Array
    v: Array
    z: Array
    known: Array
    dt: Array
    counts: NewtonCounts


class BDF(ImplicitStep):
    """Backward differentiation formula of order 1 to 5.

    The first steps, and those after a change of step size, are taken by an explicit method of
    order 8 on the index-1 equations with projection, so that the method starts at full order.
    """

    reference: ClassVar[str] = "Gear 1971; Hairer, Wanner 1996, Section V.1"

    k: int = eqx.field(static=True, default=2)

    def __check_init__(self) -> None:
        count("BDF", "k", self.k, most=5)

    def order(self, terms: ODETerm | None) -> int:
        return self.k

    def init(
        self, terms: ODETerm, t0: Array, t1: Array, y0: FullState, args: StepContext
    ) -> _History:
        past = lambda x: jnp.tile(x, (self.k - 1, 1))  # noqa: E731
        step = jnp.asarray(t1 - t0, dtype=float)
        states = past(y0.q), past(y0.v), past(y0.z)
        return _History(*states, jnp.asarray(0), step, NewtonCounts.zero())

    def statistics(self, solver_state: Any) -> dict[str, int]:
        return solver_state.counts.statistics()

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: FullState,
        args: StepContext,
        solver_state: _History,
        made_jump: bool,
    ) -> Any:
        h = t1 - t0
        past = solver_state
        # equal, but for the rounding of the times between which they were taken
        same = jnp.abs(h - past.dt) <= 1e-9 * h + 8 * jnp.finfo(h.dtype).eps * jnp.abs(t1)
        known = jnp.where(same, past.known, 0)
        if self.k == 1:
            y1, solved, counts = self._implicit(t1, h, y0, args, past)
        else:
            y1, solved, counts = jax.lax.cond(
                known >= self.k - 1,
                lambda: self._implicit(t1, h, y0, args, past),
                lambda: (*_started(terms, t0, t1, y0, args), NewtonCounts.zero()),
            )
        shift = lambda new, old: jnp.concatenate([new[None], old])[: self.k - 1]  # noqa: E731
        states = shift(y0.q, past.q), shift(y0.v, past.v), shift(y0.z, past.z)
        history = _History(*states, known + 1, h, past.counts + counts)
        return y1, None, {"y0": y0, "y1": y1}, history, solved

    def _implicit(
        self, t1: Array, h: Array, y0: FullState, args: StepContext, past: _History
    ) -> tuple[FullState, Array, NewtonCounts]:
        system = args.system
        alpha = bdf_weights(self.k)
        d = [jnp.zeros_like(y0.v), *(system.difference(y0.q, q) for q in past.q)]
        v, z = [y0.v, *past.v], [y0.z, *past.z]
        over = lambda x: -sum(w * y for w, y in zip(alpha[1:], x, strict=True)) / alpha[0]  # noqa: E731
        p = h / alpha[0]
        stage = Stage(args, t1, y0, over(d), over(v), p)
        # what is known of the motion reaches one order further than the formula
        moved, faster = _ahead(d, h * y0.v, h * h * y0.a), _ahead(v, h * y0.a)
        start = stage.start((moved - stage.d0) / p, (faster - stage.v0) / p, _ahead(z))
        x, solved, counts, condition = self._solve_stage(stage, start)
        q, _, v, a, z = stage.state(x)
        return FullState(system.normalize(q), v, a, z, condition), solved, counts


def _started(
    terms: ODETerm, t0: Array, t1: Array, y0: FullState, args: StepContext
) -> tuple[FullState, Array]:
    """One step of order 8 on the underlying ordinary differential equations, projected."""
    solver, state = Dop853(), (y0.q, y0.v)
    inner = solver.init(terms, t0, t1, state, args)
    state: Any = solver.step(terms, t0, t1, state, args, inner, True)[0]
    formulation = args.formulation
    if formulation.kind != "ode":
        state = formulation.projected(args, t1, state)
    a, lam = formulation.accelerations(args, t1, state)
    z = formulation.algebraic_start(args, t1, state[0], lam)
    return FullState(state[0], state[1], a, z, y0.condition), jnp.asarray(True)
