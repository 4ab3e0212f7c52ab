"""What a call is given: names of arguments that exist, words among those allowed, lists of names.

`checked_call` makes Python's own complaint about a call ("got an unexpected keyword argument") one
that helps: it suggests the name that was meant, or says what is missing. It looks at a call only
after it has failed, so a good one costs nothing.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import numpy as np

from ._messages import listed, shown

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)


def checked_call(function: Function) -> Function:
    """The function, with a message of ours where its arguments do not fit its signature."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:
                raise  # from within
            problem = _misfit(_owner(function, args), function, args, kwargs)
            if problem is None:
                raise
        raise TypeError(problem) from None

    return call  # pyright: ignore[reportReturnType]


def checked_class(cls: Class) -> Class:
    """The class, with `checked_call` for its constructor and for its public methods."""
    if "__init__" in vars(cls) and inspect.isfunction(cls.__init__):  # pyright: ignore
        cls.__init__ = checked_call(cls.__init__)  # pyright: ignore
    if issubclass(cls, eqx.Module):
        return cls  # its methods are for programs
    for part in (x for x in inspect.getmro(cls) if x.__module__.startswith(f"{__package__}.")):
        for name, thing in list(vars(part).items()):
            public = inspect.isfunction(thing) and not name.startswith("_")
            if public and not hasattr(thing, "__wrapped__"):
                setattr(part, name, checked_call(thing))
    return cls


def check_options(function: Callable[..., Any], given: Any, inner: Callable[..., Any]) -> None:
    """Refuse options that `function` hands on to `inner`, and that this does not know."""
    known = inspect.signature(inner).parameters
    for name in given:
        if name not in known:
            both = {**inspect.signature(function).parameters, **known}
            raise TypeError(unknown_argument(function.__name__, name, [*both]))


def choice(
    owner: str,
    name: str,
    value: object,
    allowed: tuple[Any, ...],
    *,
    error: type[Exception] = ValueError,
) -> Any:
    """`value`, which has to be one of those allowed."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value not in allowed:
        words = ", ".join(map(repr, allowed))
        raise error(f"{owner}: {name}={shown(value)} is not known. Choose one of {words}.")
    return value


def flag(owner: str, name: str, value: object, *, error: type[Exception] = TypeError) -> bool:
    """`value` as True or False, and nothing else."""
    if not isinstance(value, bool | np.bool_):
        raise error(f"{owner}: {name}={shown(value)} must be True or False.")
    return bool(value)


def several(
    owner: str, name: str, value: Any, what: str, *, error: type[Exception] = TypeError
) -> tuple[Any, ...]:
    """The items of a list, tuple, array or the like; a word or a number alone is refused."""
    try:
        if isinstance(value, str | bytes | dict) or not hasattr(value, "__len__"):
            raise TypeError
        return tuple(value)
    except Exception:
        alone = f": {name}=[{shown(value)}]" if isinstance(value, str | int) else ""
        raise error(f"{owner}: {name}={shown(value)} must be a list of {what}{alone}.") from None


def folder(owner: str, name: str, value: object) -> Path:
    """`value` as the path of a file or folder, a string or a `pathlib.Path`."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise TypeError(
            f"{owner}: {name}={shown(value)} is not a path. Give a string such as 'runs/first', or "
            "a pathlib.Path."
        )
    return Path(value)


def names(
    owner: str, name: str, value: object, *, error: type[Exception] = TypeError
) -> tuple[str, ...]:
    """One name or a list of names, as a tuple."""
    found = (value,) if isinstance(value, str) else several(owner, name, value, "names")
    for item in found:
        if not isinstance(item, str):
            raise error(f"{owner}: {name} has the entry {shown(item)}. Give names, as strings.")
    return found


def _owner(function: Any, args: tuple[Any, ...]) -> str:
    """What a message calls the function; a constructor goes by the name of its class."""
    if function.__name__ == "__init__" and args:
        made_by = getattr(args[0], "type", None)  # records are made by methods of a model
        return made_by if isinstance(made_by, str) else type(args[0]).__name__
    return function.__name__


def _misfit(owner: str, function: Any, args: Any, kwargs: Any) -> str | None:
    """Why a call does not fit the signature; None if it does."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
        return None
    except TypeError:
        pass
    parameters = signature.parameters.values()
    by_place = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    method = bool(by_place) and by_place[0] in ("self", "cls")
    hidden = int(method)
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = names[hidden:]
    free = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for name in kwargs:
        if name not in names and not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return unknown_argument(owner, name, names)
    if len(args) > len(by_place) and not free:
        takes = by_place[hidden:]
        if not names:
            return f"{owner}: it takes no arguments. Leave {shown(args[hidden])} out."
        said = f"only {', '.join(takes)}" if takes else "none"
        return (
            f"{owner}: too many arguments are given without a name, {len(args) - hidden}; it takes "
            f"{said} so. Give the others by name."
        )
    for name, _ in zip(by_place, args):
        if name in kwargs:
            return f"{owner}: {name} is given twice, by its place and by its name. Leave one out."
    given = {*by_place[: len(args)], *kwargs}
    lacking = [p.name for p in parameters if p.default is p.empty and p.name not in given]
    lacking = [x for x in lacking if signature.parameters[x].kind not in (2, 4)]
    missing = "are missing; give them" if len(lacking) > 1 else "is missing; give it"
    return f"{owner}: {listed(lacking)} {missing}. The arguments are {', '.join(names)}."


def unknown_argument(owner: str, name: str, names: list[str]) -> str:
    """The message for an argument that does not exist among `names`."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    remedy = f"Did you mean {near[0]}?" if near else f"There are {', '.join(names)}."
    remedy = remedy if names else "It takes none; leave it out."
    return f"{owner}: there is no argument {name!r}. {remedy}"
