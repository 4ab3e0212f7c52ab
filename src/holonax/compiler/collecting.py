"""Python's collector of garbage, which takes half of the time in which programs are traced and
taken apart: these make many objects, nearly all of which stay until the program is compiled."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = 0
_was_enabled = False


@contextmanager
def uncollected() -> Iterator[None]:
    """Without collections of garbage, in all threads, until the last one has left."""
    global _inside, _was_enabled
    with _lock:
        if not _inside:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _was_enabled:
                gc.enable()
