"""Studies of methods: orders of convergence, stability, conditioning."""

from ..run.by_name import options_by_name
from .convergence import Convergence, condition_numbers, convergence, reference_solution
from .spectrum import linear_problem, spectral_radius, step_matrix
from .stability import StabilityRegion, amplification, real_axis_limit, stability_region

__all__ = [
    "Convergence",
    "StabilityRegion",
    "amplification",
    "condition_numbers",
    "convergence",
    "linear_problem",
    "options_by_name",
    "real_axis_limit",
    "reference_solution",
    "spectral_radius",
    "stability_region",
    "step_matrix",
]
