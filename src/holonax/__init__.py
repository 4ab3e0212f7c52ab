"""holonax: constrained multibody dynamics on JAX.

Importing holonax switches JAX to 64 bit and asks its CPU backend for compiled small loops.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import _config  # first: it sets JAX up before it computes
from ._arguments import checked_class
from ._version import __version__
from .formulation import (
    GGL,
    AlgebraicEnforcement,
    AugmentedLagrangian,
    Baumgarte,
    CoordinatePartitioning,
    CoordinateProjection,
    Index1,
    Index2,
    Index3,
    NullSpace,
    Overdetermined,
    Penalty,
    PostStabilized,
    ProjectedInvariants,
    StabilizedInvariant,
    StaggeredPenalty,
)
from .integrator import (
    BDF,
    HHT,
    RK4,
    AdamsBashforth,
    AdamsMoulton,
    Dop853,
    Dopri5,
    EnergyDecaying,
    EnergyPreserving,
    Euler,
    GeneralizedAlpha,
    Heun,
    ImplicitMidpoint,
    Midpoint,
    ModifiedAdamsMoulton,
    Newmark,
    PredictorCorrector,
    RadauIIA,
    Ralston,
    Rattle,
    Trapezoidal,
    VariableAdams,
    VariableBDF,
)
from .model import (
    Body,
    BodyModes,
    Marker,
    MassProperties,
    Model,
    ModelError,
    Section,
    Shape,
    ShapeIntegrals,
    box,
    composite,
    cylinder,
    disc,
    point_mass,
    rod,
    sphere,
    tube,
)
from .result.result import Energy, Result
from .result.saved import SavedResult, load_result
from .result.states import Occurrence
from .rotation import Vec2, Vec3
from .run.control import StepControl
from .run.controlled import Controller, simulate_controlled
from .run.events import Event, Impact
from .run.pairs import Method, methods
from .run.request import Progress
from .run.simulate import resume, simulate
from .run.storage import StorageError
from .start.consistent import ConstraintError, Start, consistent
from .start.described import StartWarning
from .start.diagnosis import Diagnosis, diagnose
from .system import FunctionSystem, System
from .system.signals import Pulse, Step, Table

if TYPE_CHECKING:
    from . import analysis, examples, io, many, papers, study, view
    from .analysis import (
        Buckling,
        Campbell,
        Equilibrium,
        EquilibriumPath,
        Fit,
        Floquet,
        Linearization,
        Optimum,
        buckling,
        campbell,
        equilibrium,
        equilibrium_path,
        fit,
        floquet,
        inverse_dynamics,
        kinematics,
        linearize,
        optimize,
        steady_rotation,
    )
    from .io import FileError, ModelFile, from_sympy, load
    from .many import Ensemble, Sweep, ensemble, sweep
    from .run.gradients import value_and_gradient
    from .run.trajectory import Trajectory, trajectory
    from .system.knots import Knots
    from .view import animate, page, plot, show

# Imported when first asked for: a simulation needs none of them, and pays for none.
_MODULES = ("analysis", "examples", "io", "many", "papers", "study", "view")
_FROM = {
    "Buckling": "analysis",
    "buckling": "analysis",
    "Campbell": "analysis",
    "campbell": "analysis",
    "steady_rotation": "analysis",
    "Equilibrium": "analysis",
    "EquilibriumPath": "analysis",
    "Fit": "analysis",
    "Floquet": "analysis",
    "Linearization": "analysis",
    "equilibrium": "analysis",
    "equilibrium_path": "analysis",
    "fit": "analysis",
    "floquet": "analysis",
    "inverse_dynamics": "analysis",
    "kinematics": "analysis",
    "linearize": "analysis",
    "Knots": "system.knots",
    "Optimum": "analysis",
    "optimize": "analysis",
    "FileError": "io",
    "ModelFile": "io",
    "load": "io",
    "Ensemble": "many",
    "ensemble": "many",
    "Sweep": "many",
    "sweep": "many",
    "Trajectory": "run.trajectory",
    "trajectory": "run.trajectory",
    "value_and_gradient": "run.gradients",
    "animate": "view",
    "from_sympy": "io",
    "page": "view",
    "plot": "view",
    "show": "view",
}

__all__ = [
    "AdamsBashforth",
    "AdamsMoulton",
    "AlgebraicEnforcement",
    "AugmentedLagrangian",
    "BDF",
    "Baumgarte",
    "Body",
    "Buckling",
    "ConstraintError",
    "Controller",
    "Campbell",
    "CoordinatePartitioning",
    "CoordinateProjection",
    "Diagnosis",
    "Dop853",
    "Dopri5",
    "Energy",
    "EnergyDecaying",
    "EnergyPreserving",
    "Ensemble",
    "Equilibrium",
    "EquilibriumPath",
    "Euler",
    "Event",
    "FileError",
    "Fit",
    "Floquet",
    "FunctionSystem",
    "GGL",
    "GeneralizedAlpha",
    "HHT",
    "Heun",
    "Impact",
    "ImplicitMidpoint",
    "Index1",
    "Index2",
    "Index3",
    "Knots",
    "Linearization",
    "Marker",
    "MassProperties",
    "Method",
    "Midpoint",
    "Model",
    "ModelError",
    "ModelFile",
    "BodyModes",
    "ModifiedAdamsMoulton",
    "Newmark",
    "NullSpace",
    "Occurrence",
    "Optimum",
    "Overdetermined",
    "Penalty",
    "PostStabilized",
    "PredictorCorrector",
    "Progress",
    "ProjectedInvariants",
    "Pulse",
    "RK4",
    "RadauIIA",
    "Ralston",
    "Rattle",
    "Result",
    "SavedResult",
    "Section",
    "Shape",
    "ShapeIntegrals",
    "StabilizedInvariant",
    "StaggeredPenalty",
    "Start",
    "StartWarning",
    "Step",
    "StepControl",
    "StorageError",
    "Sweep",
    "System",
    "Table",
    "Trajectory",
    "Trapezoidal",
    "VariableAdams",
    "VariableBDF",
    "Vec2",
    "Vec3",
    "__version__",
    "analysis",
    "animate",
    "box",
    "buckling",
    "campbell",
    "composite",
    "consistent",
    "cylinder",
    "diagnose",
    "disc",
    "ensemble",
    "equilibrium",
    "equilibrium_path",
    "examples",
    "fit",
    "floquet",
    "from_sympy",
    "inverse_dynamics",
    "io",
    "kinematics",
    "linearize",
    "load",
    "many",
    "load_result",
    "methods",
    "optimize",
    "page",
    "papers",
    "plot",
    "point_mass",
    "resume",
    "rod",
    "show",
    "simulate",
    "simulate_controlled",
    "sphere",
    "steady_rotation",
    "study",
    "sweep",
    "trajectory",
    "tube",
    "value_and_gradient",
    "view",
]

for _thing in [globals().get(_name) for _name in __all__]:
    if isinstance(_thing, type):
        checked_class(_thing)
_config.imported()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _FROM:
        thing = getattr(importlib.import_module(f".{_FROM[name]}", __name__), name)
        globals()[name] = thing
        return thing
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_FROM})
