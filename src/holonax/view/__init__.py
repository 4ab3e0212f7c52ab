"""Pictures of a result: figures of its signals, animations of its mechanism, pages of a browser."""

from .animate import animate, snapshot
from .browser import page, show
from .inline import inline, inline_described
from .panels import curves
from .plot import plot

__all__ = ["animate", "curves", "inline", "inline_described", "page", "plot", "show", "snapshot"]
