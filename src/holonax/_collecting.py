"""Python's search for garbage, put off while much is made and little dropped."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage meanwhile: while programs are traced it finds hardly any, and takes up
    to a fifth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
