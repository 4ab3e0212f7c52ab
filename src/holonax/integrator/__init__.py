"""Integrators: one step of one method each.

`run.loop_parts.StabilizedSolver` makes a diffrax solver of one.
"""

from .adams import AdamsBashforth, AdamsMoulton, ModifiedAdamsMoulton
from .algebraic import PredictorCorrector
from .base import Integrator
from .bdf import BDF
from .energy import EnergyDecaying, EnergyPreserving
from .explicit import RK4, Dop853, Dopri5, Euler, Heun, Midpoint, Ralston
from .implicit import ImplicitMidpoint, Trapezoidal
from .newmark import HHT, GeneralizedAlpha, Newmark
from .radau import RadauIIA
from .rattle import Rattle
from .variable_adams import VariableAdams
from .variable_bdf import VariableBDF

__all__ = [
    "AdamsBashforth",
    "AdamsMoulton",
    "BDF",
    "Dop853",
    "Dopri5",
    "EnergyDecaying",
    "EnergyPreserving",
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
