"""Many runs of one mechanism at once, and what to observe of them; sweeps that go to disk."""

from .launch import ensemble
from .outcomes import Band, Ensemble
from .points import SweepPoints, grid, latin_hypercube, samples, sobol
from .reductions import Bands, FirstPassage, Fold, Largest, Last, Mean, Reduction, Smallest
from .sweeping import sweep
from .swept import Sweep, open_sweep

__all__ = [
    "Band",
    "Bands",
    "Ensemble",
    "FirstPassage",
    "Fold",
    "Largest",
    "Last",
    "Mean",
    "SweepPoints",
    "Reduction",
    "Smallest",
    "Sweep",
    "ensemble",
    "grid",
    "latin_hypercube",
    "open_sweep",
    "samples",
    "sobol",
    "sweep",
]
