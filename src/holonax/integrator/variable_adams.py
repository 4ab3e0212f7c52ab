"""Adams' method with variable steps and orders, in the form of Krogh and of Shampine and Gordon.

    p_{n+1} = y_n + h sum_{j<k} g_j Phi*_j(n)                                  predictor of order k
    y_{n+1} = p_{n+1} + h g_k Phi_k(n+1)                                  corrector of order k + 1
    Phi_0(n) = f_n,   Phi_{j+1}(n) = Phi_j(n) - Phi*_j(n-1),   Phi*_j(n) = beta_j(n) Phi_j(n)

after Hairer, Nørsett and Wanner (1993), Section III.5. Phi are divided differences of the earlier
derivatives f, scaled so that they are backward differences where steps are equal; Phi_k(n+1) takes
f at the predicted state. Earlier states do not enter, so that a projection after a step is free to
move them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..problem import StepContext
from .base import Array, Integrator
from .order_control import ERROR_ORDER, check_order, order_error

if TYPE_CHECKING:
    from diffrax import ODETerm
    from jaxtyping import PyTree

HIGHEST = 12


class _History(NamedTuple):
    """Phi*_j of the step before for j = 0, 1, ..., and the times of the steps before, newest first.

    `order` is that of the next predictor, `steps` how many have been taken since the start,
    `waited` since the order changed; `starting` while the order is raised in each step.
    """

    differences: Array
    times: Array
    order: Array
    steps: Array
    waited: Array
    starting: Array


def _ratios(t1: Array, times: Array) -> Array:
    """beta_j, j = 0, 1, ...; `times` are t_n, t_{n-1}, ..."""
    beta = [jnp.ones_like(t1)]
    for i in range(times.shape[0] - 1):
        beta.append(beta[-1] * (t1 - times[i]) / (times[0] - times[i + 1]))
    return jnp.stack(beta)


def _integrals(t1: Array, times: Array) -> Array:
    """g_j, j = 0, 1, ...: one more than there are `times`, which are t_n, t_{n-1}, ..."""
    count, h = times.shape[0], t1 - times[0]
    q = np.arange(1.0, count + 2)
    c = jnp.asarray(1 / (q * (q + 1)))[:-1]
    g = [jnp.ones_like(h), c[0]]
    for j in range(2, count + 1):
        c = c[:-1] - c[1:] * (h / (t1 - times[j - 1]))
        g.append(c[0])
    return jnp.stack(g)


def _differences(f: Array, stars: Array) -> Array:
    """Phi_0, Phi_1, ...: one more than there are `stars`."""
    phi = [f]
    for star in stars:
        phi.append(phi[-1] - star)
    return jnp.stack(phi)


class VariableAdams(Integrator):
    """Adams' method of orders 1 to 12 that chooses order and step by the error.

    Predicts, evaluates, corrects with one order more, and evaluates again after stabilisation: two
    evaluations of the forces per step at any order, so it is the cheaper the more an evaluation
    costs and the smaller the tolerance. Starts with order 1, which is raised in each step for as
    long as the differences of higher order fall. Needs `rtol`.

    **Arguments:**

    - `max_order`: the highest order of the predictor, 1 to 12.
    """

    accepts: ClassVar[tuple[str, ...]] = ("ode",)
    estimates_error: ClassVar[bool] = True
    needs_tolerance: ClassVar[bool] = True
    reference: ClassVar[str] = "Shampine, Gordon 1975; Hairer, Norsett, Wanner 1993, III.5"

    max_order: int = eqx.field(static=True, default=HIGHEST)

    def __check_init__(self) -> None:
        check_order("VariableAdams", self.max_order, HIGHEST)

    def order(self, terms: ODETerm | None) -> int:
        return self.max_order + 1

    def error_order(self, terms: ODETerm | None) -> int | None:
        return ERROR_ORDER

    def first_order(self, terms: ODETerm | None) -> int:
        return 2

    def init(self, terms: ODETerm, t0: Array, t1: Array, y0: Any, args: StepContext) -> _History:
        count = self.max_order
        size = y0[0].shape[0] + y0[1].shape[0]
        before = jnp.arange(1.0, count)
        return _History(
            differences=jnp.zeros((count, size)),
            times=t0 - before * (t1 - t0),  # all different; nothing else is asked of them
            order=jnp.asarray(1),
            steps=jnp.asarray(0),
            waited=jnp.asarray(0),
            starting=jnp.asarray(True),
        )

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: PyTree,
        args: StepContext,
        solver_state: _History,
        made_jump: bool,
    ) -> Any:
        past, h, k = solver_state, t1 - t0, solver_state.order
        nq = y0[0].shape[0]
        times = jnp.concatenate([jnp.asarray(t0)[None], past.times])
        g = _integrals(t1, times)

        def rate(t: Array, y: Array) -> Array:
            return jnp.concatenate(terms.vf(t, (y[:nq], y[nq:]), args))

        start = jnp.concatenate([y0[0], y0[1]])
        now = _differences(rate(t0, start), past.differences[:-1])
        stars = _ratios(t1, times)[:, None] * now
        used = jnp.where(jnp.arange(self.max_order) < k, g[:-1], 0.0)
        predicted = start + h * jnp.sum(used[:, None] * stars, axis=0)
        phi = _differences(rate(t1, predicted), stars)
        end = predicted + h * g[k] * phi[k]
        y1 = (end[:nq], end[nq:])

        def local_error(m: Array) -> Array:
            """The error of the corrector of order m, in units of the tolerance."""
            m = jnp.clip(m, 1, self.max_order)
            error = h * (g[m] - g[m - 1]) * phi[m]
            position = error[:nq]
            if nq != y0[1].shape[0]:
                position = args.system.difference(y1[0], y1[0] + position)
            return args.tolerance.size(args.system, y0, y1, (position, error[nq:]))

        errors = jax.vmap(local_error)(k + jnp.arange(-2, 2))
        new, error = self._chosen(past, errors)
        history = _History(
            differences=stars,
            times=times[:-1],
            order=new,
            steps=past.steps + 1,
            waited=jnp.where(new == k, past.waited + 1, 0),
            starting=jnp.logical_and(past.starting, new > k),
        )
        return y1, error, {"y0": y0, "y1": y1}, history, True

    def _chosen(self, past: _History, errors: Array) -> tuple[Array, Array]:
        """(order of the next step, error by which its length is chosen) after Shampine and Gordon.

        `errors` are those of the orders k - 2 to k + 1. The order is lowered where the errors of
        lower ones are no larger, and raised after k + 1 steps if the error falls with it.
        """
        k = past.order
        far, below, here, above = errors
        below_all = jnp.where(k > 2, jnp.maximum(below, far), 2 * below)
        lower = jnp.logical_and(k > 1, below_all <= here)
        known = jnp.logical_and(k < self.max_order, past.steps > k)
        ready = jnp.logical_and(known, past.waited > k)
        # errors that fall with the order, and would no longer do so with the next one
        lower = lower | (ready & (k > 1) & (below <= jnp.minimum(here, above)))
        gain = jnp.where(k > 1, 1.0, 0.5)
        higher = ~lower & ready & (above < gain * here)
        faster = past.starting & ~lower & (k < self.max_order)
        new = jnp.where(lower, k - 1, jnp.where(higher | faster, k + 1, k))
        chosen = jnp.where(lower, below, jnp.where(higher, above, here))
        exponent = jnp.where(faster & ~higher, k + 1, new + 1)
        return new, order_error(here, k + 1, chosen, exponent)
