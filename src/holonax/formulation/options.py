"""Options that formulations share: a choice among words, positive numbers, feedback gains."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any

import equinox as eqx

from .._arguments import choice
from .._modules import Module
from .._numbers import count, parameter
from ..system.base import Array
from .base import shown_option


def check_choice(owner: str, name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a word that is not among those allowed."""
    choice(owner, name, value, allowed)


def check_count(owner: str, name: str, value: object) -> None:
    """Refuse what is not a whole number, 1 or more."""
    count(owner, name, value)


def positive(owner: str, name: str, value: Any, unit: str = "") -> Array:
    """`value` as an array; refused unless it is a positive finite number, as far as is known."""
    wanted = f"a positive number{f' [{unit}]' if unit else ''}"
    return parameter(owner, name, value, good=lambda x: x > 0, wanted=wanted)


class Gain(Module):
    """A feedback gain [1/s], or `per_step` the factor c of a gain c/dt tied to the step."""

    value: Array
    per_step: bool = eqx.field(static=True)

    @staticmethod
    def of(owner: str, name: str, given: float | str) -> Gain:
        """From a number, or a string such as "1/dt"; refused under the name of its option."""
        wanted = (
            'a number [1/s], zero or positive, or a string such as "1/dt" or "0.5/dt" for a gain '
            "tied to the step size"
        )
        gain, per_step = given, False
        if isinstance(given, str):
            found = re.fullmatch(r"\s*([\d.eE+-]*)\s*/\s*dt\s*", given)
            with contextlib.suppress(ValueError):  # refused below
                factor = float(found.group(1) or 1.0) if found else -1.0
                gain, per_step = (factor, True) if 0 <= factor < math.inf else (given, False)
        return Gain(parameter(owner, name, gain, good=lambda x: x >= 0, wanted=wanted), per_step)

    def at(self, dt: Array) -> Array:
        """The gain [1/s] for steps of `dt`."""
        return self.value / dt if self.per_step else self.value

    def __repr__(self) -> str:
        text = shown_option(self.value)
        return f"'{text}/dt'" if self.per_step else text
