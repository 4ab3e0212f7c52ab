"""Explicit Runge-Kutta methods.

    z_i = y_0 + h sum_{j<i} a_ij k_j,    k_i = f(t_0 + c_i h, z_i),    y_1 = y_0 + h sum_i b_i k_i

One loop over the stages, so that the program has one copy of the vector field. It costs less than
diffrax's, which keeps its buffers apart and copies them.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import scipy

from .base import Integrator, OwnStep


def _dop853_coefficients() -> Any:
    """SciPy's coefficients, a module of numbers; its package takes a quarter of a second more."""
    path = Path(scipy.__file__).parent / "integrate" / "_ivp" / "dop853_coefficients.py"
    spec = importlib.util.spec_from_file_location("dop853_coefficients", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


dop853 = _dop853_coefficients()


class Euler(Integrator, diffrax.Euler):
    """Explicit Euler, order 1."""

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    reference: ClassVar[str] = "Euler 1768"


class RungeKutta(OwnStep):
    """A method given by its table.

    `tableau` has the coefficients of stages, solution and error, `third` those of a second error.
    """

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    estimates_error: ClassVar[bool] = True
    interpolation_cls: ClassVar[Callable[..., Any]] = (
        diffrax.ThirdOrderHermitePolynomialInterpolation.from_k
    )

    tableau: ClassVar[diffrax.ButcherTableau]
    third: ClassVar[np.ndarray | None] = None

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> None:
        return None

    def _weights(self) -> np.ndarray:
        """What each k counts in the stages, the solution and the errors: (stages, sums)."""
        table = self.tableau
        stages = len(table.b_sol)
        rows = [np.zeros(stages)]
        rows += [np.pad(row, (0, stages - len(row))) for row in table.a_lower]
        rows += [table.b_sol] + ([table.b_error] if self.estimates_error else [])
        rows += [] if self.third is None else [self.third]
        return np.array(rows).T

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        args: Any,
        solver_state: None,
        made_jump: Any,
    ) -> Any:
        h, nq = t1 - t0, y0[0].shape[0]
        weights, nodes = jnp.asarray(self._weights()), jnp.asarray([0.0, *self.tableau.c])
        start = jnp.concatenate(y0)

        # A k is carried to the next stage before it is added to the sums, so that it is there in
        # memory: XLA would compute it anew for each of them.
        def stage(i: Any, carry: Any) -> Any:
            sums, first, last = carry
            sums = sums + jnp.where(i > 0, weights[i - 1], 0.0)[:, None] * last
            z = start + h * sums[i]
            k = jnp.concatenate(terms.vf(t0 + nodes[i] * h, (z[:nq], z[nq:]), args))
            return sums, jnp.where(i > 0, first, k), k

        stages, count = weights.shape
        zero = jnp.zeros_like(start)
        begin = jnp.zeros((count, *start.shape), start.dtype), zero, zero
        sums, first, last = jax.lax.fori_loop(0, stages, stage, begin)
        sums = sums[stages:] + weights[-1, stages:, None] * last
        split = lambda x: (x[..., :nq], x[..., nq:])  # noqa: E731
        y1 = split(start + h * sums[0])
        error = split(self._error(*(h * sums[1:]))) if self.estimates_error else None
        dense = {"y0": y0, "y1": y1, "k": split(h * jnp.stack([first, last]))}
        return y1, error, dense, None, diffrax.RESULTS.successful

    def _error(self, error: Any, *_: Any) -> Any:
        """The error from the sums for it."""
        return error


class Heun(RungeKutta):
    """Heun's method (explicit trapezoidal rule), order 2; the RK2 of Welch and of Ascher."""

    reference: ClassVar[str] = "Heun 1900"
    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.Heun.tableau

    def order(self, terms: Any) -> int:
        return 2


class Midpoint(RungeKutta):
    """Explicit midpoint rule, order 2."""

    reference: ClassVar[str] = "Runge 1895"
    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.Midpoint.tableau

    def order(self, terms: Any) -> int:
        return 2


class Ralston(RungeKutta):
    """Ralston's method of least error bound, order 2."""

    reference: ClassVar[str] = "Ralston 1962"
    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.Ralston.tableau

    def order(self, terms: Any) -> int:
        return 2


# diffrax compares with another method of order 4; this is the error estimate as published.
_dopri5_tableau = dataclasses.replace(
    diffrax.Dopri5.tableau,
    b_error=np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]),
)


class Dopri5(RungeKutta):
    """Dormand and Prince's method of order 5 with an embedded one of order 4."""

    reference: ClassVar[str] = "Dormand, Prince 1980"
    tableau: ClassVar[diffrax.ButcherTableau] = _dopri5_tableau

    def order(self, terms: Any) -> int:
        return 5


_rk4_tableau = diffrax.ButcherTableau(
    a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
    b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
    b_error=np.array([0.0, 0.0, 0.0, 0.0]),
    c=np.array([0.5, 0.5, 1.0]),
)


class RK4(RungeKutta):
    """The classical Runge-Kutta method, order 4."""

    estimates_error: ClassVar[bool] = False
    reference: ClassVar[str] = "Kutta 1901"
    tableau: ClassVar[diffrax.ButcherTableau] = _rk4_tableau

    def order(self, terms: Any) -> int:
        return 4


def dop853_stages() -> tuple[np.ndarray, np.ndarray]:
    """(a, c) of DOP853's 12 stages and, as a last row, of the solution at the end of the step."""
    n = dop853.N_STAGES + 1
    return dop853.A[:n, :n], dop853.C[:n]


_dop853_tableau = diffrax.ButcherTableau(
    a_lower=tuple(dop853.A[i, :i] for i in range(1, dop853.N_STAGES)),
    b_sol=dop853.B,
    b_error=dop853.E5[: dop853.N_STAGES],
    c=dop853.C[1 : dop853.N_STAGES],
)
_TINY = 1e-300


class Dop853(RungeKutta):
    """Dormand and Prince's method of order 8 in 12 stages, errors by embedded orders 5 and 3."""

    reference: ClassVar[str] = "Hairer, Norsett, Wanner 1993, II.10"
    tableau: ClassVar[diffrax.ButcherTableau] = _dop853_tableau
    third: ClassVar[np.ndarray | None] = dop853.E3[: dop853.N_STAGES]

    def order(self, terms: Any) -> int:
        return 8

    def error_order(self, terms: Any) -> int:
        return 8

    def _error(self, error: Any, *others: Any) -> Any:
        # e5 |e5| / |(e5, e3 / 10)| is of order 8, and safe where e5 is small by chance.
        # Not by `hypot`, which is not a number where compiled code has flushed to zero.
        return error * jnp.abs(error) / jnp.sqrt(error**2 + 0.01 * others[0] ** 2 + _TINY)
