"""Integrators: one step of one method, each a diffrax solver."""

from .adams import AdamsBashforth, AdamsMoulton, ModifiedAdamsMoulton
from .algebraic import PredictorCorrector
from .base import Integrator, StabilizedSolver
from .bdf import BDF
from .explicit import RK4, Dop853, Dopri5, Euler, Heun, Midpoint, Ralston
from .implicit import ImplicitMidpoint, RadauIIA, Trapezoidal

__all__ = [
    "BDF",
    "RK4",
    "AdamsBashforth",
    "AdamsMoulton",
    "Dop853",
    "Dopri5",
    "Euler",
    "Heun",
    "ImplicitMidpoint",
    "Integrator",
    "Midpoint",
    "ModifiedAdamsMoulton",
    "PredictorCorrector",
    "RadauIIA",
    "Ralston",
    "StabilizedSolver",
    "Trapezoidal",
]
