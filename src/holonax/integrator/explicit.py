"""Explicit Runge-Kutta methods: diffrax's own where it has them, and the classical RK4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import numpy as np

from .base import Integrator


class Euler(Integrator, diffrax.Euler):
    """Explicit Euler, order 1."""

    accepts: ClassVar[tuple[str, ...]] = ("ode",)
    reference: ClassVar[str] = "Euler 1768"


class Heun(Integrator, diffrax.Heun):
    """Heun's method (explicit trapezoidal rule), order 2; the RK2 of Welch and of Ascher."""

    accepts: ClassVar[tuple[str, ...]] = ("ode",)
    reference: ClassVar[str] = "Heun 1900"


class Midpoint(Integrator, diffrax.Midpoint):
    """Explicit midpoint rule, order 2."""

    accepts: ClassVar[tuple[str, ...]] = ("ode",)
    reference: ClassVar[str] = "Runge 1895"


class Ralston(Integrator, diffrax.Ralston):
    """Ralston's method of least error bound, order 2."""

    accepts: ClassVar[tuple[str, ...]] = ("ode",)
    reference: ClassVar[str] = "Ralston 1962"


class Dopri5(Integrator, diffrax.Dopri5):
    """Dormand and Prince's method of order 5 with an embedded one of order 4."""

    accepts: ClassVar[tuple[str, ...]] = ("ode",)
    reference: ClassVar[str] = "Dormand, Prince 1980"


_rk4_tableau = diffrax.ButcherTableau(
    a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
    b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
    b_error=np.array([0.0, 0.0, 0.0, 0.0]),
    c=np.array([0.5, 0.5, 1.0]),
)


class RK4(Integrator, diffrax.AbstractERK):
    """The classical Runge-Kutta method, order 4."""

    accepts: ClassVar[tuple[str, ...]] = ("ode",)
    reference: ClassVar[str] = "Kutta 1901"

    tableau: ClassVar[diffrax.ButcherTableau] = _rk4_tableau  # pyright: ignore
    interpolation_cls: ClassVar[Callable[..., Any]] = (
        diffrax.ThirdOrderHermitePolynomialInterpolation.from_k
    )

    def order(self, terms: Any) -> int:
        return 4
