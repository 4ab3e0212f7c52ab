"""Backward differentiation formulas with variable steps and orders 1 to 5.

    h P'(t_{n+1}) = sum_{j=1..k} h / (t_{n+1} - t_{n+1-j}) (y_{n+1} - p_{j-1})

is the derivative of the polynomial through y_{n+1} and k states before it, on whatever times they
belong to; p_m is the value at t_{n+1} of the polynomial of degree m through y_n, ..., y_{n-m}. It
is Newton's form: y_{n+1} - p_m is a divided difference times the distances to its nodes. The same
numbers give Newton's first guess, p_k, and the errors of the formulas of all orders m,

    h / (t_{n+1} - t_{n-m}) (y_{n+1} - p_m).

Positions are increments from q_n, so that the formula keeps its order on rotations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..problem import FullState, StepContext
from ..system.base import Array
from .implicit import ImplicitStep, error_by_index
from .newton import NewtonCounts
from .order_control import ERROR_ORDER, check_order, order_error
from .stage import Stage

if TYPE_CHECKING:
    from diffrax import ODETerm

HIGHEST = 5

# Where the state before the start is put, along the derivative there, by the first step.
_BEFORE = 1e-3
# How much larger the errors of the orders k - 1, k and k + 1 are taken to be when orders are
# compared; as in CVODE, a higher one has to be worth the change.
_BIAS = (6.0, 6.0, 10.0)


class _History(NamedTuple):
    """States and times before the present one, newest first; those beyond `known` mean nothing.

    `waited` counts the steps since the order changed; `starting` is true while the order is raised
    as soon as that pays.
    """

    q: Array
    v: Array
    z: Array
    times: Array
    known: Array
    order: Array
    waited: Array
    starting: Array
    counts: NewtonCounts


def _extrapolated(t1: Array, times: Array, values: Array) -> Array:
    """p_0, p_1, ...: extrapolation to t1 from the first, the first two, ... of `values`."""
    column = list(values)
    value, reach, out = column[0], jnp.ones_like(t1), [column[0]]
    for m in range(1, len(column)):
        column = [
            (column[i] - column[i + 1]) / (times[i] - times[i + m]) for i in range(len(column) - 1)
        ]
        reach = reach * (t1 - times[m - 1])
        value = value + reach * column[0]
        out.append(value)
    return jnp.stack(out)


class VariableBDF(ImplicitStep):
    """Backward differentiation formulas of orders 1 to 5 that choose order and step by the error.

    For stiff mechanisms and differential-algebraic equations; each step is one implicit solve,
    begun from an extrapolation that is nearly there. Starts with order 1. Errors of multipliers
    count times h where they are of index 2. Needs `rtol`.

    **Arguments:**

    - `max_order`: the highest order, 1 to 5.
    - `tolerance`, `max_iterations`, `modified`: of Newton's method.
    """

    accepts: ClassVar[tuple[str, ...]] = ("ode", "dae")
    estimates_error: ClassVar[bool] = True
    needs_tolerance: ClassVar[bool] = True
    reference: ClassVar[str] = "Gear 1971; Brenan, Campbell, Petzold 1996, Section 5.2"

    max_order: int = eqx.field(static=True, default=HIGHEST)

    def __check_init__(self) -> None:
        check_order("VariableBDF", self.max_order, HIGHEST)

    def order(self, terms: ODETerm | None) -> int:
        return self.max_order

    def error_order(self, terms: ODETerm | None) -> int | None:
        return ERROR_ORDER

    def init(
        self, terms: ODETerm, t0: Array, t1: Array, y0: FullState, args: StepContext
    ) -> _History:
        # One state before the start, along the derivative, lets the first step know its error.
        before = _BEFORE * (t1 - t0)
        count = self.max_order
        past = lambda x: jnp.tile(x, (count, 1))  # noqa: E731
        return _History(
            q=past(args.system.retract(y0.q, -before * y0.v)),
            v=past(y0.v - before * y0.a),
            z=past(y0.z),
            times=t0 - before * jnp.arange(1.0, count + 1),
            known=jnp.asarray(1),
            order=jnp.asarray(1),
            waited=jnp.asarray(0),
            starting=jnp.asarray(True),
            counts=NewtonCounts.zero(),
        )

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
        past, h, system = solver_state, t1 - t0, args.system
        nv, k = y0.v.shape[0], solver_state.order
        times = jnp.concatenate([jnp.asarray(t0)[None], past.times])
        moved = jax.vmap(lambda q: system.difference(y0.q, q))(past.q)
        here = jnp.concatenate([jnp.zeros_like(y0.v), y0.v, y0.z])
        values = jnp.concatenate([here[None], jnp.concatenate([moved, past.v, past.z], axis=1)])
        p = _extrapolated(t1, times, values)

        shares = h / (t1 - times)
        used = jnp.where(jnp.arange(self.max_order + 1) < k, shares, 0.0)
        alpha, known = jnp.sum(used), jnp.sum(used[:, None] * p, axis=0)
        d0, v0 = known[:nv], known[nv : 2 * nv]

        stage = Stage(args, t1, y0, d0 / alpha, v0 / alpha, h / alpha)
        guess = p[k]
        rates = (alpha * guess - known) / h
        start = stage.start(rates[:nv], rates[nv : 2 * nv], guess[2 * nv :])
        x, solved, counts, condition = self._solve_stage(stage, start)
        q, d, v, a, z = stage.state(x)
        y1 = FullState(system.normalize(q), v, a, z, condition)
        end = jnp.concatenate([d, v, z])

        def local_error(m: Array) -> Array:
            """The error of the formula of order m, in units of the tolerance."""
            m = jnp.clip(m, 1, self.max_order)
            e = shares[m] * (end - p[m])
            parts = (e[:nv], e[nv : 2 * nv], e[2 * nv :])
            return error_by_index(args, t1, y0, y1, parts)

        new, error = self._chosen(past, jax.vmap(local_error)(k + jnp.arange(-1, 2)))
        shift = lambda x, xs: jnp.concatenate([x[None], xs[:-1]])  # noqa: E731
        history = _History(
            q=shift(y0.q, past.q),
            v=shift(y0.v, past.v),
            z=shift(y0.z, past.z),
            times=times[:-1],
            known=past.known + 1,
            order=new,
            waited=jnp.where(new == k, past.waited + 1, 0),
            starting=past.starting & ((new > k) | (past.known <= k)),
            counts=past.counts + counts,
        )
        return y1, error, {"y0": y0, "y1": y1}, history, solved

    def _chosen(self, past: _History, errors: Array) -> tuple[Array, Array]:
        """(order of the next step, error by which its length is chosen).

        `errors` are those of the orders k - 1, k and k + 1; the order that allows the longest step
        is taken, once k + 1 steps have been made with the present one.
        """
        k = past.order
        below, here, above = errors
        inverse = lambda error, m, bias: (bias * error) ** (1 / (m + 1))  # noqa: E731
        steps = [inverse(e, k + i - 1, b) for i, (e, b) in enumerate(zip(errors, _BIAS))]
        ready = (past.waited >= k) | past.starting
        may_rise = ready & (k < self.max_order) & (past.known > k)
        lower = ready & (k > 1) & (steps[0] < jnp.minimum(steps[1], steps[2]))
        higher = may_rise & ~lower & (steps[2] < steps[1])
        new = k + jnp.where(lower, -1, jnp.where(higher, 1, 0))
        chosen = jnp.where(lower, below, jnp.where(higher, above, here))
        return new, order_error(here, k + 1, chosen, new + 1)
