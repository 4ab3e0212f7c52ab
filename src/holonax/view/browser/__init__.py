"""A mechanism in a browser: a page that plays from disk, and one that runs the mechanism again."""

from .page import page
from .server import Viewer, show

__all__ = ["Viewer", "page", "show"]
