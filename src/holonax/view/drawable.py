"""What can be drawn."""

from __future__ import annotations

from typing import Any

from .._messages import shown
from ..result.result import Result
from ..result.saved import SavedResult


def check_drawn(owner: str, result: Result, title: Any) -> None:
    """Refuse what is not the result of a run, and a title that is not a text."""
    if not isinstance(result, Result | SavedResult):
        raise TypeError(
            f"{owner}: result={shown(result)} is not the result of a run. Give what simulate "
            "returns."
        )
    check_title(owner, title)


def check_title(owner: str, title: Any) -> None:
    """Refuse a title that is not a text."""
    if not isinstance(title, str):
        raise TypeError(f"{owner}: title={shown(title)} must be a string.")
