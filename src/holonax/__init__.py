"""holonax: constrained multibody dynamics on JAX.

Importing holonax switches JAX to 64 bit and asks its CPU backend for compiled small loops.
"""

from ._config import configure as _configure

_configure()

from ._version import __version__
from .consistent import ConstraintError, Start, consistent
from .diagnosis import Diagnosis, diagnose
from .formulation import Baumgarte, Index1, PostStabilized
from .integrator import RK4, Dopri5, Euler, Heun, Midpoint, Ralston
from .result import Energy, Result
from .simulate import simulate
from .system import FunctionSystem, System

__all__ = [
    "RK4",
    "Baumgarte",
    "ConstraintError",
    "Diagnosis",
    "Dopri5",
    "Energy",
    "Euler",
    "FunctionSystem",
    "Heun",
    "Index1",
    "Midpoint",
    "PostStabilized",
    "Ralston",
    "Result",
    "Start",
    "System",
    "__version__",
    "consistent",
    "diagnose",
    "simulate",
]
