"""Pictures of a result: figures of its signals and animations of its mechanism."""

from .animate import animate
from .plot import plot

__all__ = ["animate", "plot"]
