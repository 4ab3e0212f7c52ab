"""Ready mechanisms that are models: the function builds one, and `model_of` gives the model itself,
for changes and for files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from .._arguments import checked_call
from ..model import Model
from ..start.consistent import Start
from ..system.mechanism import Mechanism

Options = dict[str, Any]  # what `Model.build` is given: what the start keeps
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
MODELS: dict[str, Callable[..., tuple[Model, Options]]] = {}
RUNS: dict[str, Options] = {}  # how a mechanism is run, where it says so


def described(
    function: Callable[P, tuple[Model, Options]],
) -> Callable[P, tuple[Mechanism, Start]]:
    """The function that builds what a function describes; under its name the description stays."""
    function = checked_call(function)
    MODELS[function.__name__] = function

    @functools.wraps(function)
    def build(*args: P.args, **kwargs: P.kwargs) -> tuple[Mechanism, Start]:
        model, options = function(*args, **kwargs)
        return model.build(**options)

    return build


def run_as(**settings: Any) -> Callable[[F], F]:
    """What a run of this mechanism is, in the settings of a model file."""

    def keep(function: F) -> F:
        RUNS[function.__name__] = settings
        return function

    return keep
