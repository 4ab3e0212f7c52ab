"""Integrators: one step of one method each.

`StabilizedSolver` makes a diffrax solver of one, and is made when asked for (see `loop_parts.py`).
"""

from typing import Any

from .adams import AdamsBashforth, AdamsMoulton, ModifiedAdamsMoulton
from .algebraic import PredictorCorrector
from .base import Integrator
from .bdf import BDF
from .explicit import RK4, Dop853, Dopri5, Euler, Heun, Midpoint, Ralston
from .implicit import ImplicitMidpoint, RadauIIA, Trapezoidal
from .newmark import HHT, GeneralizedAlpha, Newmark
from .rattle import Rattle
from .variable_adams import VariableAdams
from .variable_bdf import VariableBDF

__all__ = [
    "AdamsBashforth",
    "AdamsMoulton",
    "BDF",
    "Dop853",
    "Dopri5",
    "Euler",
    "GeneralizedAlpha",
    "HHT",
    "Heun",
    "ImplicitMidpoint",
    "Integrator",
    "Midpoint",
    "ModifiedAdamsMoulton",
    "Newmark",
    "PredictorCorrector",
    "RK4",
    "RadauIIA",
    "Ralston",
    "Rattle",
    "Trapezoidal",
    "VariableAdams",
    "VariableBDF",
]


def __getattr__(name: str) -> Any:
    if name == "StabilizedSolver":
        from ..run.loop_parts import StabilizedSolver

        return StabilizedSolver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
