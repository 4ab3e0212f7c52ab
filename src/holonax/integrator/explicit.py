"""Explicit Runge-Kutta methods: diffrax's own where it has them, the classical RK4 and DOP853."""

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

from .base import Integrator


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


class Heun(Integrator, diffrax.Heun):
    """Heun's method (explicit trapezoidal rule), order 2; the RK2 of Welch and of Ascher."""

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    estimates_error: ClassVar[bool] = True
    reference: ClassVar[str] = "Heun 1900"


class Midpoint(Integrator, diffrax.Midpoint):
    """Explicit midpoint rule, order 2."""

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    estimates_error: ClassVar[bool] = True
    reference: ClassVar[str] = "Runge 1895"


class Ralston(Integrator, diffrax.Ralston):
    """Ralston's method of least error bound, order 2."""

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    estimates_error: ClassVar[bool] = True
    reference: ClassVar[str] = "Ralston 1962"


# diffrax compares with another method of order 4; this is the error estimate as published.
_dopri5_tableau = dataclasses.replace(
    diffrax.Dopri5.tableau,
    b_error=np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]),
)


class Dopri5(Integrator, diffrax.Dopri5):
    """Dormand and Prince's method of order 5 with an embedded one of order 4."""

    tableau: ClassVar[diffrax.ButcherTableau] = _dopri5_tableau  # pyright: ignore

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    estimates_error: ClassVar[bool] = True
    reference: ClassVar[str] = "Dormand, Prince 1980"


_rk4_tableau = diffrax.ButcherTableau(
    a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
    b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
    b_error=np.array([0.0, 0.0, 0.0, 0.0]),
    c=np.array([0.5, 0.5, 1.0]),
)


class RK4(Integrator, diffrax.AbstractERK):
    """The classical Runge-Kutta method, order 4."""

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    reference: ClassVar[str] = "Kutta 1901"

    tableau: ClassVar[diffrax.ButcherTableau] = _rk4_tableau  # pyright: ignore
    interpolation_cls: ClassVar[Callable[..., Any]] = (
        diffrax.ThirdOrderHermitePolynomialInterpolation.from_k
    )

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


_dop853_third = dop853.E3[: dop853.N_STAGES]
_TINY = 1e-300


class Dop853(Integrator, diffrax.AbstractERK):
    """Dormand and Prince's method of order 8 in 12 stages, errors by embedded orders 5 and 3."""

    accepts: ClassVar[tuple[str, ...]] = ("ode", "staggered")
    estimates_error: ClassVar[bool] = True
    reference: ClassVar[str] = "Hairer, Norsett, Wanner 1993, II.10"

    tableau: ClassVar[diffrax.ButcherTableau] = _dop853_tableau  # pyright: ignore
    interpolation_cls: ClassVar[Callable[..., Any]] = (
        diffrax.ThirdOrderHermitePolynomialInterpolation.from_k
    )

    def order(self, terms: Any) -> int:
        return 8

    def error_order(self, terms: Any) -> int:
        return 8

    def step(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        args: Any,
        solver_state: Any,
        made_jump: Any,
    ) -> Any:
        y1, fifth, dense, state, result = super().step(
            terms, t0, t1, y0, args, solver_state, made_jump
        )
        # e5 |e5| / |(e5, e3 / 10)| is of order 8, and safe where e5 is small by chance.
        third = jax.tree.map(lambda k: jnp.tensordot(_dop853_third, k, 1), dense["k"])
        error = jax.tree.map(
            # not by `hypot`, which is not a number where compiled code has flushed to zero
            lambda e5, e3: e5 * jnp.abs(e5) / jnp.sqrt(e5**2 + 0.01 * e3**2 + _TINY),
            fifth,
            third,
        )
        return y1, error, dense, state, result
