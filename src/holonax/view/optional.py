"""The drawing libraries are optional: they are imported when something is drawn."""

from __future__ import annotations

import importlib
from typing import Any

from .._messages import shown
from ..result.result import Result


def require(module: str) -> Any:
    """Import `module`, or say how to install what is missing."""
    library = {"PIL": "pillow"}.get(module.partition(".")[0], module.partition(".")[0])
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'Drawing needs {library}, which cannot be imported: pip install "holonax[plot]"'
        ) from error


def check_drawn(owner: str, result: Any, title: Any) -> None:
    """Refuse what is not the result of a run, and a title that is not a text."""
    if not isinstance(result, Result):
        raise TypeError(
            f"{owner}: result={shown(result)} is not the result of a run. Give what simulate "
            "returns."
        )
    if not isinstance(title, str):
        raise TypeError(f"{owner}: title={shown(title)} must be a string.")
