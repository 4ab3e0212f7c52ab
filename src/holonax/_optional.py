"""Libraries that are optional: they are imported when something needs them."""

from __future__ import annotations

import importlib
from types import ModuleType

# For what a library is needed, and the extra that installs it.
_EXTRAS = {
    "pandas": ("A table of this kind", "data"),
    "xarray": ("A data set of this kind", "data"),
    "sympy": ("Reading expressions of SymPy", "symbols"),
    "distributed": ("A sweep on a cluster", "cluster"),
    "pythonfmu": ("Writing an FMU", "fmu"),
    "pythonfmu3": ("Writing an FMU of version 3", "fmu"),
    "imageio_ffmpeg": ("Writing a video", "video"),
}
_DRAWING = ("Drawing", "plot")


def require(module: str) -> ModuleType:
    """Import `module`, or say how to install what is missing."""
    library = {"PIL": "pillow"}.get(module.partition(".")[0], module.partition(".")[0])
    try:
        return importlib.import_module(module)
    except ImportError as error:
        what, extra = _EXTRAS.get(library, _DRAWING)
        raise ImportError(
            f"{what} needs {library}, which cannot be imported. Install it: "
            f'pip install "holonax[{extra}]".'
        ) from error
