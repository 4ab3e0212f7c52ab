"""holonax: constrained multibody dynamics on JAX.

Importing holonax switches JAX to 64 bit and asks its CPU backend for compiled small loops.
"""

from . import _config  # noqa: F401  first: it sets JAX up before anything computes
from ._version import __version__
from .consistent import ConstraintError, Start, consistent
from .diagnosis import Diagnosis, diagnose
from .formulation import Baumgarte, Index1, PostStabilized
from .integrator import RK4, Dopri5, Euler, Heun, Midpoint, Ralston
from .model import (
    Body,
    MassProperties,
    Model,
    ModelError,
    box,
    composite,
    cylinder,
    disc,
    point_mass,
    rod,
    sphere,
    tube,
)
from .result import Energy, Result
from .rotation import Vec2, Vec3
from .simulate import simulate
from .system import FunctionSystem, System
from .view import animate, plot

__all__ = [
    "RK4",
    "Baumgarte",
    "Body",
    "ConstraintError",
    "Diagnosis",
    "Dopri5",
    "Energy",
    "Euler",
    "FunctionSystem",
    "Heun",
    "Index1",
    "MassProperties",
    "Midpoint",
    "Model",
    "ModelError",
    "PostStabilized",
    "Ralston",
    "Result",
    "Start",
    "System",
    "Vec2",
    "Vec3",
    "__version__",
    "animate",
    "box",
    "composite",
    "consistent",
    "cylinder",
    "diagnose",
    "disc",
    "plot",
    "point_mass",
    "rod",
    "simulate",
    "sphere",
    "tube",
]
