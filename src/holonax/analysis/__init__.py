"""Other questions to the same model: rest, prescribed motion, the forces behind it, vibration."""

from .equilibrium import Equilibrium, equilibrium
from .fit import Fit, fit
from .floquet import Floquet, floquet
from .inverse import ActuatorForces, inverse_dynamics
from .kinematics import Motion, kinematic_motion, kinematics
from .linearization import Linearization, linearize
from .modes import Modes
from .optimize import Optimum, optimize
from .orbit_sensitivity import OrbitSensitivity
from .sensitivity import EquilibriumSensitivity, ModeSensitivity

__all__ = [
    "ActuatorForces",
    "Equilibrium",
    "EquilibriumSensitivity",
    "Fit",
    "Floquet",
    "Linearization",
    "ModeSensitivity",
    "Modes",
    "Motion",
    "Optimum",
    "OrbitSensitivity",
    "equilibrium",
    "fit",
    "floquet",
    "inverse_dynamics",
    "kinematic_motion",
    "kinematics",
    "linearize",
    "optimize",
]
