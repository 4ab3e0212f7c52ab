"""Ctrl-C while something is compiled.

Python hears of a signal between two of its own instructions, and a compiler is one call that may
take minutes. So it is called from another thread while the main one waits for it, and hears. The
thread is left to itself then: what it compiles is thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_LISTENING = 0.1  # seconds between two moments at which the main thread looks up


class CompilationInterrupted(KeyboardInterrupt):
    """Ctrl-C came while a program was being compiled."""


class Compiling:
    """What is being compiled now, for those who handle signals."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.names)


compiling = Compiling()


def patiently(function: Callable[..., Any], *args: Any) -> Any:
    """`function(*args)`, so that Ctrl-C need not wait for it."""
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    answer: list[Any] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(function(*args))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LISTENING)
    if failure:
        raise failure[0]
    return answer[0]
