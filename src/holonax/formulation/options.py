"""Options that formulations share: a choice among words, positive numbers, feedback gains."""

from __future__ import annotations

import re
from typing import Any

import equinox as eqx
from jax.core import Tracer

from .._messages import shown
from .._numbers import as_array
from ..system.base import Array
from .base import shown_option


def check_choice(owner: str, name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not among those allowed."""
    if value not in allowed:
        raise ValueError(
            f"{owner}: {name}={shown(value)} is not known. Choose one of "
            + ", ".join(map(repr, allowed))
            + "."
        )


def check_count(owner: str, name: str, value: Any) -> None:
    """Refuse what is not a whole number, 1 or more."""
    if isinstance(value, bool) or not (isinstance(value, int) and value >= 1):
        raise ValueError(f"{owner}: {name}={shown(value)} must be a whole number, 1 or more.")


def positive(owner: str, name: str, value: Any, unit: str = "") -> Array:
    """`value` as an array; refused unless it is a positive finite number, as far as is known."""
    remedy = f"Give a positive number{f' [{unit}]' if unit else ''}."
    try:
        number = as_array(value)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name}={shown(value)} is not a number. {remedy}") from None
    if number.ndim != 0:
        raise ValueError(f"{owner}: {name} has the shape {number.shape}. {remedy}")
    if not isinstance(number, Tracer) and not 0 < float(number) < float("inf"):
        raise ValueError(f"{owner}: {name}={shown(value)} is not positive and finite. {remedy}")
    return number


class Gain(eqx.Module):
    """A feedback gain [1/s], or `per_step` the factor c of a gain c/dt tied to the step."""

    value: Array
    per_step: bool = eqx.field(static=True)

    @staticmethod
    def of(owner: str, name: str, given: float | str) -> Gain:
        """From a number, or a string such as "1/dt"; refused under the name of its option."""
        remedy = (
            'Give a number [1/s], zero or positive, or a string such as "1/dt" or "0.5/dt" for a '
            "gain tied to the step size."
        )
        per_step = re.fullmatch(r"(.*)/\s*dt\s*", given) if isinstance(given, str) else None
        number = given if per_step is None else per_step.group(1).strip() or 1.0
        try:
            gain = as_array(number)
        except (TypeError, ValueError):
            raise ValueError(
                f"{owner}: {name}={shown(given)} is not understood. {remedy}"
            ) from None
        if gain.ndim != 0:
            raise ValueError(f"{owner}: {name} has the shape {gain.shape}. {remedy}")
        if not isinstance(gain, Tracer) and not 0 <= float(gain) < float("inf"):
            raise ValueError(f"{owner}: {name}={shown(given)} does not damp. {remedy}")
        return Gain(gain, per_step is not None)

    def at(self, dt: Array) -> Array:
        """The gain [1/s] for steps of `dt`."""
        return self.value / dt if self.per_step else self.value

    def __repr__(self) -> str:
        text = shown_option(self.value)
        return f"'{text}/dt'" if self.per_step else text
