"""Pictures of a result: figures of its signals, animations of its mechanism, pages of a browser."""

from .animate import animate
from .browser import page, show
from .panels import curves
from .plot import plot

__all__ = ["animate", "curves", "page", "plot", "show"]
