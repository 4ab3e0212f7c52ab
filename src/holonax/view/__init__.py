"""Pictures of a result: figures of its signals and animations of its mechanism."""

from .animate import animate
from .panels import curves
from .plot import plot

__all__ = ["animate", "curves", "plot"]
