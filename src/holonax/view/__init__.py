"""Pictures of a result: figures of its signals, animations of its mechanism, pages of a browser."""

from .animate import animate
from .browser import page, show
from .plot import plot

__all__ = ["animate", "page", "plot", "show"]
