"""Pictures of a result: figures of its signals, animations of its mechanism, pages of a browser."""

from .animate import animate, snapshot
from .browser import page, show
from .ensemble_page import ensemble_page
from .inline import inline
from .panels import curves
from .plot import plot

__all__ = ["animate", "curves", "ensemble_page", "inline", "page", "plot", "show", "snapshot"]
