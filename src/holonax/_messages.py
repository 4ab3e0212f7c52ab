"""What messages share: values and lists cut short, and what went wrong in a user's function."""

from __future__ import annotations

import difflib
import re
import sys
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax

_LONGEST = 80
_LIBRARIES = ("holonax", "jax", "jaxlib", "numpy", "equinox", "diffrax")

# What these errors of JAX mean to someone who only wrote a function of numbers.
_UNTRACEABLE = {
    jax.errors.TracerArrayConversionError: "it calls a function of numpy on what it is given",
    jax.errors.TracerBoolConversionError: (
        "it decides on values it is given, with if, while, and, or; use jnp.where instead"
    ),
    jax.errors.TracerIntegerConversionError: "it uses what it is given as an index",
    jax.errors.ConcretizationTypeError: (
        "it makes a Python number of what it is given, with float(), int() or a function of math"
    ),
}


def shown(value: object) -> str:
    """`value` as Python writes it, on one line and not too long."""
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:
        return "a whole number of more than 80 digits"  # very long ones Python refuses to write
    try:
        written = repr(value)
    except Exception:  # an object's own
        written = f"<{type(value).__name__}>"
    text = " ".join(re.sub(r" at 0x\w+", "", written).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def listed(names: Iterable[str], most: int = 8) -> str:
    """The names with commas between them, the first few of many."""
    names = list(names)
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def unknown_name(owner: str, what: str, name: object, known: Iterable[str]) -> str:
    """The message for a name that does not exist among those known."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6) if isinstance(name, str) else []
    if isinstance(name, str) and not near:  # all that the object has
        near = [x for x in known if x.partition(".")[0] == name.partition(".")[0]]
    remedy = f"Did you mean {listed(near, 12)}?" if near else f"There are {listed(known, 12)}."
    return f"{owner}: there is no {what} {shown(name)}. {remedy if known else 'There are none.'}"


def explained(error: Exception) -> str:
    """What went wrong inside a user's function, and in which line of it, as one sentence."""
    for kind, meaning in _UNTRACEABLE.items():
        if isinstance(error, kind):
            return f"{meaning}{_place(error)}."
    text = re.sub(r"\w*Tracer\b(<.*?>)?", "array", str(error).strip()).splitlines()
    cause = f"{type(error).__name__}: {text[0].rstrip('.')}" if text else type(error).__name__
    return f"{cause if len(cause) <= 160 else cause[:156] + ' ...'}{_place(error)}."


def warn(text: str) -> None:
    """Warn of something in the first line outside this package that has led here."""
    frame, level = sys._getframe(1), 1
    while frame is not None and _is_ours(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level + 1)


def _is_ours(frame: Any) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "holonax"


def _place(error: Exception) -> str:
    """The last line on the way to `error` that belongs to no library."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _LIBRARIES:
            return f" (line {line} of {Path(frame.f_code.co_filename).name})"
    return ""
