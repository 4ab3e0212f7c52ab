"""Integrators: one step of one method, each a diffrax solver."""

from .base import Integrator, StabilizedSolver
from .explicit import RK4, Dopri5, Euler, Heun, Midpoint, Ralston

__all__ = [
    "RK4",
    "Dopri5",
    "Euler",
    "Heun",
    "Integrator",
    "Midpoint",
    "Ralston",
    "StabilizedSolver",
]
