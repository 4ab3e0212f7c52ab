"""Texts that stand for functions: where a driver, a force or a joint takes one, it takes either.

``model.drive_angle("motor", joint="A", angle="omega * t", parameters={"omega": 10.0})`` is the same
as a function of t, and can be kept in a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._messages import shown
from .._numbers import tree
from ..system.expression import FRAME_QUANTITIES, Expression, FrameExpression, expression_names
from ..system.expression_parser import CONSTANTS, ExpressionError
from .items import ModelError

if TYPE_CHECKING:
    from jax import Array

_NAME = re.compile(r"[^\W\d]\w*")


def checked_parameters(owner: str, parameters: object) -> dict[str, np.ndarray | Array]:
    """The parameters of a user's function as arrays; traced ones pass."""
    return tree(owner, "parameters", parameters, error=ModelError)


def extra(parameters: Any) -> tuple[dict[str, np.ndarray], ...]:
    """What a function is given beside its other arguments."""
    return () if parameters is None else (parameters,)


def function_of(
    owner: str,
    what: str,
    given: object,
    arguments: tuple[str, ...],
    parameters: Mapping[str, float] | None,
) -> Any:
    """A function of these arguments, from itself or from a text."""
    if not isinstance(given, str):
        return given
    made = Expression(given, arguments)
    _check(owner, what, made, arguments, parameters)
    return made


def frame_function(
    owner: str,
    what: str,
    given: object,
    kind: str,
    bodies: Iterable[str],
    parameters: Mapping[str, float | Array] | None,
    *,
    time_first: bool = True,
    states: Mapping[str, int] | None = None,
) -> Any:
    """A function of the time and of frames, from itself, a text, or a list with texts in it."""
    if not has_text(given):
        return given
    bodies, own = tuple(bodies), FRAME_QUANTITIES[kind]
    prefixes = [f"{x}." if x else "" for x in bodies if x not in (states or ())]
    values = [x for name, n in (states or {}).items() for x in expression_names(name, n)]
    known = ("t", *values, *(f"{prefix}{name}" for prefix in prefixes for name in own))
    made = FrameExpression(given, bodies, time_first)
    used = made.names
    for part in made.expressions:
        said = parameters  # each component may use some of them only
        if isinstance(said, Mapping):
            said = {k: x for k, x in said.items() if k in part.names or k not in used}
        _check(owner, what, part, known, said)
    if time_first and not made.names - {"t", *(parameters or ())}:
        return FrameExpression(given, (), time_first)
    return made


def has_text(given: object) -> bool:
    """Whether what was given is a text, or a vector with a text among its components."""
    return isinstance(given, str) or (
        isinstance(given, tuple) and any(isinstance(x, str) for x in given)
    )


def _check(
    owner: str, what: str, made: Expression, known: tuple[str, ...], parameters: object
) -> None:
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ModelError(
            f"{owner}: the parameters of an expression have names. Give a dictionary such as "
            "{'omega': 10.0}."
        )
    for name, value in (parameters or {}).items():
        check_name(owner, name, known)
        if value is not None and np.shape(value) != ():
            raise ModelError(f"{owner}: the parameter {name!r} must be one number.")
    try:
        made.check(known, parameters or ())
    except ExpressionError as error:
        raise ModelError(f"{owner}: {what}={error}") from None


def check_name(owner: str, name: object, known: Iterable[str] = ()) -> None:
    """Refuse the name of a parameter that an expression could not use."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ModelError(
            f"{owner}: the parameter {shown(name)} is not a word of letters, digits and '_' that "
            "an expression can use. Choose another name."
        )
    if name in (*CONSTANTS, "t", "and", "or", "not", *known):
        raise ModelError(
            f"{owner}: {name!r} means something else in expressions. Choose another name for the "
            "parameter."
        )
