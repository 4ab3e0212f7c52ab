"""Explicit Runge-Kutta methods.

    z_i = y_0 + h sum_{j<i} a_ij k_j,    k_i = f(t_0 + c_i h, z_i),    y_1 = y_0 + h sum_i b_i k_i

One loop over the stages, so that the program has one copy of the vector field. It costs less than
diffrax's, which keeps its buffers apart and copies them. Of many bodies each stage is written out:
what a stage ends with and what the next one begins with are then done together, body by body.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..linalg import moved_back
from ..linalg.indexing import unset
from ..linalg.limits import STAGES_APART
from . import tables
from .base import Integrator
from .known import Rate, follows_from_equations
from .tables import Tableau

if TYPE_CHECKING:
    from diffrax import ODETerm
    from jax import Array
    from jaxtyping import PyTree

    from ..problem import State, StepContext
    from ..problem.__init__ import FullState


_FEW = 7  # stages that are written out at most: each of them is compiled


class Euler(Integrator):
    """Explicit Euler, order 1."""

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    reference: ClassVar[str] = "Euler 1768"

    def order(self, terms: ODETerm | None) -> int:
        return 1

    def init(self, terms: ODETerm, t0: Array, t1: Array, y0: PyTree, args: StepContext) -> None:
        return None

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: State | FullState,
        args: StepContext,
        solver_state: None,
        made_jump: bool,
    ) -> Any:
        h = t1 - t0
        y1 = jax.tree.map(lambda y, k: y + h * k, y0, terms.vf(t0, y0, args))
        return y1, None, {"y0": y0, "y1": y1}, None, True


class RungeKutta(Integrator):
    """A method given by its table."""

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    estimates_error: ClassVar[bool] = True
    interpolation: ClassVar[Literal["linear", "hermite"]] = "hermite"

    @property
    @abc.abstractmethod
    def tableau(self) -> Tableau:
        """The coefficients of stages, solution and errors."""

    def init(
        self, terms: ODETerm, t0: Array, t1: Array, y0: tuple[Array, Array], args: StepContext
    ) -> None:
        return None

    def _weights(self) -> np.ndarray:
        """What each k counts in the stages, the solution and the errors: (sums, stages)."""
        table = self.tableau
        stages = len(table.b_sol)
        rows = [np.zeros(stages)]
        rows += [np.pad(row, (0, stages - len(row))) for row in table.a_lower]
        rows += [table.b_sol] + ([table.b_error] if self.estimates_error else [])
        rows += [] if table.b_third is None else [table.b_third]
        return np.array(rows)

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: tuple[Array, Array],
        args: StepContext,
        solver_state: None,
        made_jump: bool,
    ) -> Any:
        h, nq, known = t1 - t0, y0[0].shape[0], args.known
        context = args._replace(known=None)
        table, nodes = self._weights(), jnp.asarray([0.0, *self.tableau.c])
        start, weights, (count, stages) = jnp.concatenate(y0), jnp.asarray(table), table.shape
        chained = not np.any(np.tril(table[:stages], -2))  # a stage needs the one before alone
        before = jnp.asarray([0.0, *np.diagonal(table[:stages], -1)])

        only_ahead = not (args.keeps or args.differentiable or known is not None)
        if only_ahead and start.shape[0] >= STAGES_APART and stages <= _FEW:
            return self._written_out(terms, t0, h, y0, context)

        def total(ks: Any, i: int | Array) -> Any:
            weight = weights[i]
            return sum((weight[j] * ks[j] for j in range(1, stages)), weight[0] * ks[0])

        def rate(node: Array, change: Array, known: Rate | None) -> Rate:
            z, t = start + h * change, t0 + node * h
            q, v = z[:nq], z[nq:]
            if follows_from_equations(context):
                if known is not None:
                    return known.followed(context, t, q, v)
                if args.keeps:
                    return Rate.found(context, t, q, v)
            k = jnp.concatenate(terms.vf(t, (q, v), context))
            # where the values are known they are only followed back
            return Rate(k if known is None else moved_back(known.k, -k))

        def following(k: Array, given: Any) -> tuple[Array, Rate]:
            node, weight, known = given
            found = rate(node, weight * k, known)
            return found.k, found

        def stage(ks: Array, i: Array) -> tuple[Array, Rate]:
            change = before[i] * ks[jnp.maximum(i - 1, 0)] if chained else total(ks, i)
            found = rate(nodes[i], change, jax.tree.map(lambda x: x[i], known))
            return ks.at[i].set(found.k, mode="clip"), found  # never outside

        if chained and (args.keeps or args.differentiable):  # less to follow, ahead and back
            rates = lax.scan(following, jnp.zeros_like(start), (nodes, before, known))[1]
            ks = rates.k
        else:
            begin = jnp.zeros((stages, *start.shape), start.dtype)
            if chained:
                # the first row is read before it is written, with a weight of zero
                begin = unset(begin.shape, begin.dtype).at[0].set(0.0)
            ks, rates = self._loop(stage, begin, stages, args.keeps)
        sums = [h * total(ks, i) for i in range(stages, count)]
        split = lambda x: (x[..., :nq], x[..., nq:])  # noqa: E731
        y1 = split(start + sums[0])
        error = split(self._error(*sums[1:])) if self.estimates_error else None
        dense = {"y0": y0, "y1": y1, "k": split(h * ks[jnp.array([0, -1])])}
        if args.keeps:
            dense["solution"] = rates
        return y1, error, dense, None, True

    def _written_out(
        self, terms: ODETerm, t0: Array, h: Array, y0: tuple[Array, Array], context: StepContext
    ) -> Any:
        """The step with one copy of the vector field for each stage, and weights that are known."""
        table, nodes = self._weights(), [0.0, *np.asarray(self.tableau.c).tolist()]
        count, stages = table.shape
        ks: list[tuple[Array, Array]] = []

        def total(i: int) -> Any:
            used = [(float(w), k) for w, k in zip(table[i], ks, strict=False) if w]
            terms = [tuple(w * x for x in k) for w, k in used]
            return tuple(h * sum(xs[1:], xs[0]) for xs in zip(*terms, strict=True))

        def moved(i: int) -> Any:
            return tuple(x + change for x, change in zip(y0, total(i), strict=True))

        for i in range(stages):
            ks.append(terms.vf(t0 + nodes[i] * h, y0 if not i else moved(i), context))
        y1, error = moved(stages), None
        if self.estimates_error:
            sums = [total(i) for i in range(stages + 1, count)]
            error = tuple(self._error(*parts) for parts in zip(*sums, strict=True))
        ends = tuple(h * jnp.stack(parts) for parts in zip(ks[0], ks[-1], strict=True))
        return y1, error, {"y0": y0, "y1": y1, "k": ends}, None, True

    @staticmethod
    def _loop(stage: Any, begin: Array, stages: int, keeps: bool) -> tuple[Array, Rate | None]:
        """What is carried through all stages, and the rates of all, if these are kept."""
        if keeps:
            return lax.scan(stage, begin, jnp.arange(stages))
        carried = lambda i, carry: stage(carry, i)[0]  # noqa: E731
        return lax.fori_loop(0, stages, carried, begin), None

    def _error(self, error: Array, *_: object) -> Array:
        """The error from the sums for it."""
        return error


class Heun(RungeKutta):
    """Heun's method (explicit trapezoidal rule), order 2; the RK2 of Welch and of Ascher."""

    reference: ClassVar[str] = "Heun 1900"

    @property
    def tableau(self) -> Tableau:
        return tables.second_order(1.0)

    def order(self, terms: ODETerm | None) -> int:
        return 2


class Midpoint(RungeKutta):
    """Explicit midpoint rule, order 2."""

    reference: ClassVar[str] = "Runge 1895"

    @property
    def tableau(self) -> Tableau:
        return tables.second_order(1 / 2)

    def order(self, terms: ODETerm | None) -> int:
        return 2


class Ralston(RungeKutta):
    """Ralston's method of least error bound, order 2."""

    reference: ClassVar[str] = "Ralston 1962"

    @property
    def tableau(self) -> Tableau:
        return tables.second_order(2 / 3)

    def order(self, terms: ODETerm | None) -> int:
        return 2


class Dopri5(RungeKutta):
    """Dormand and Prince's method of order 5 with an embedded one of order 4."""

    reference: ClassVar[str] = "Dormand, Prince 1980"

    @property
    def tableau(self) -> Tableau:
        return tables.dopri5()

    def order(self, terms: ODETerm | None) -> int:
        return 5


class RK4(RungeKutta):
    """The classical Runge-Kutta method, order 4."""

    estimates_error: ClassVar[bool] = False
    reference: ClassVar[str] = "Kutta 1901"

    @property
    def tableau(self) -> Tableau:
        return tables.kutta()

    def order(self, terms: ODETerm | None) -> int:
        return 4


_TINY = 1e-300


class Dop853(RungeKutta):
    """Dormand and Prince's method of order 8 in 12 stages, errors by embedded orders 5 and 3."""

    reference: ClassVar[str] = "Hairer, Norsett, Wanner 1993, II.10"

    @property
    def tableau(self) -> Tableau:
        return tables.dop853()

    def order(self, terms: ODETerm | None) -> int:
        return 8

    def error_order(self, terms: ODETerm | None) -> int | None:
        return 8

    def _error(self, error: Array, *others: Any) -> Array:
        # e5 |e5| / |(e5, e3 / 10)| is of order 8, and safe where e5 is small by chance.
        # Not by `hypot`, which is not a number where compiled code has flushed to zero.
        return error * jnp.abs(error) / jnp.sqrt(error**2 + 0.01 * others[0] ** 2 + _TINY)
