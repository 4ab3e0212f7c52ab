"""Formulations: how the constraints are enforced."""

from .base import Formulation, OdeFormulation, StepContext
from .index1 import Baumgarte, Index1
from .post_stabilized import PostStabilized

__all__ = [
    "Baumgarte",
    "Formulation",
    "Index1",
    "OdeFormulation",
    "PostStabilized",
    "StepContext",
]
