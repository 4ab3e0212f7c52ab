"""Formulations: how the constraints are enforced."""

from .algebraic import AlgebraicEnforcement
from .base import Formulation, OdeFormulation
from .coordinate_projection import CoordinateProjection
from .dae import GGL, Index2, Index3, Overdetermined, ProjectedInvariants
from .index1 import Baumgarte, Index1
from .null_space import NullSpace
from .partitioning import CoordinatePartitioning
from .penalty import AugmentedLagrangian, Penalty, StaggeredPenalty
from .post_stabilized import PostStabilized
from .stabilized_invariant import StabilizedInvariant

__all__ = [
    "GGL",
    "AlgebraicEnforcement",
    "AugmentedLagrangian",
    "Baumgarte",
    "CoordinatePartitioning",
    "CoordinateProjection",
    "Formulation",
    "Index1",
    "Index2",
    "Index3",
    "NullSpace",
    "OdeFormulation",
    "Overdetermined",
    "Penalty",
    "PostStabilized",
    "ProjectedInvariants",
    "StabilizedInvariant",
    "StaggeredPenalty",
]
