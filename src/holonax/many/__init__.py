"""Many runs of one mechanism at once, and what to observe of them."""

from .launch import ensemble
from .outcomes import Band, Ensemble
from .reductions import Bands, FirstPassage, Fold, Largest, Mean, Reduction, Smallest

__all__ = [
    "Band",
    "Bands",
    "Ensemble",
    "FirstPassage",
    "Fold",
    "Largest",
    "Mean",
    "Reduction",
    "Smallest",
    "ensemble",
]
