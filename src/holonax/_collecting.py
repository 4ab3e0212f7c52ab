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
        collect_again(collecting)


def collect_again(collecting: bool) -> None:
    """Search for garbage again, if it was searched for. What was made meanwhile counts as old, or
    all of it would be looked through at once."""
    if not collecting:
        return
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
    gc.enable()


def leave_the_rest() -> None:
    """At the end of the process: collect what is young, and look at nothing else any more. Python
    would take all of JAX apart, with what was traced: up to a second that nobody gains from."""
    gc.collect(1)
    gc.freeze()
