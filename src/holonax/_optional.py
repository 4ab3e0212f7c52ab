"""The drawing libraries are optional: they are imported when something is drawn."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str) -> Any:
    """Import `module`, or say how to install what is missing."""
    library = {"PIL": "pillow"}.get(module.partition(".")[0], module.partition(".")[0])
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'Drawing needs {library}, which cannot be imported: pip install "holonax[plot]"'
        ) from error
