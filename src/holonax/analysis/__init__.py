"""Other questions to the same model: rest, prescribed motion, the forces behind it, vibration."""

from .buckling import Buckling, buckling
from .campbell import Campbell, campbell, steady_rotation
from .equilibrium import Equilibrium, equilibrium
from .equilibrium_path import equilibrium_path
from .fit import Fit, fit
from .floquet import Floquet, floquet
from .inverse import ActuatorForces, inverse_dynamics
from .kinematics import Motion, kinematic_motion, kinematics
from .linearization import Linearization, linearize
from .load_path import CriticalPoint, EquilibriumPath
from .modes import Modes
from .optimize import Optimum, optimize
from .orbit_sensitivity import OrbitSensitivity
from .sensitivity import EquilibriumSensitivity, ModeSensitivity

__all__ = [
    "ActuatorForces",
    "Buckling",
    "Campbell",
    "CriticalPoint",
    "Equilibrium",
    "EquilibriumSensitivity",
    "EquilibriumPath",
    "Fit",
    "Floquet",
    "Linearization",
    "ModeSensitivity",
    "Modes",
    "Motion",
    "Optimum",
    "OrbitSensitivity",
    "buckling",
    "campbell",
    "equilibrium",
    "equilibrium_path",
    "fit",
    "floquet",
    "inverse_dynamics",
    "kinematic_motion",
    "kinematics",
    "linearize",
    "optimize",
    "steady_rotation",
]
