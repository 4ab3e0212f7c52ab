"""Expressions of named quantities, ``"A.angle - 2 * spring.length"``, as quantities themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx

from .expression import Expression
from .expression_parser import CONSTANTS, ExpressionError, Name, parsed
from .quantities import Quantity
from .situation import Situation

_SIGNS = "+*/%<>=(),^["  # what a name would hardly have in it
# How expressions of a body call what has a longer name among the quantities.
_SHORT = {"vx": "velocity.x", "vy": "velocity.y", "vz": "velocity.z", "w": "angular_velocity"}


class Expressed(Quantity):
    """An expression of other quantities and of the time."""

    text: str = eqx.field(static=True)
    parts: dict[str, Quantity]

    def value(self, at: Situation) -> Any:
        known = {name: part.value(at) for name, part in self.parts.items()}
        return Expression(self.text).evaluated({"t": at.t, **known})

    @staticmethod
    def of(text: str, find: Callable[[str], Quantity]) -> Quantity:
        """The quantity of a text, with those it names; `find` gives one of them, or raises."""
        parts = {}
        for name, node in Expression(text).names.items():
            if name != "t":
                parts[name] = found = find(name if node.owner is None else full_name(node))
                if found.labels:
                    labels = ", ".join(f"{name}.{x}" for x in found.labels)
                    raise ExpressionError(text, node.at, f"{name} is a vector. Name {labels}.")
        Expression(text).check(["t", *parts])
        return Expressed("", (), text, parts)


def full_name(node: Name) -> str:
    """The name of a quantity among those of a result."""
    return f"{node.owner}.{_SHORT.get(node.name, node.name)}"


def is_expression(text: str) -> bool:
    """Whether a text is arithmetic and not the name of one quantity; raises if it is neither."""
    try:
        tree = parsed(text)
    except ExpressionError:
        if any(sign in text for sign in _SIGNS):
            raise
        return False
    return not isinstance(tree, Name) or tree.path in ("t", *CONSTANTS)
