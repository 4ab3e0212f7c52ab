"""The structure of a tree of arrays as plain data, for a file that cannot run code."""

from __future__ import annotations

import importlib
from typing import Any

import equinox as eqx

_PACKAGES = ("holonax", "equinox", "diffrax")


class Undescribed(Exception):
    """A tree has nodes that have no description."""


def described(tree: Any) -> Any:
    """A tree of arrays as lists, dictionaries and words; arrays are "*"."""
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return {"value": tree}
    kind = type(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return {"named": _name(kind), "parts": [described(x) for x in tree]}
    if kind in (tuple, list):
        return {kind.__name__: [described(x) for x in tree]}
    if kind is dict and all(isinstance(key, str) for key in tree):
        return {"dict": {key: described(x) for key, x in tree.items()}}
    if isinstance(tree, eqx.Module):
        parts = {f: described(getattr(tree, f)) for f in kind.__dataclass_fields__}  # pyright: ignore
        return {"module": _name(kind), "parts": parts}
    if hasattr(tree, "shape") and hasattr(tree, "dtype"):
        return "*"
    raise Undescribed(kind.__qualname__)


def _name(kind: type) -> str:
    if kind.__module__.partition(".")[0] not in _PACKAGES or "<" in kind.__qualname__:
        raise Undescribed(kind.__qualname__)
    return f"{kind.__module__}:{kind.__qualname__}"


def rebuilt(description: Any, arrays: Any) -> Any:
    """The tree of a description, with the next of `arrays` for each "*"."""
    if description == "*":
        return next(arrays)
    (word, content), *rest = description.items()
    if word == "value":
        return content
    if word in ("tuple", "list"):
        parts = [rebuilt(x, arrays) for x in content]
        return tuple(parts) if word == "tuple" else parts
    if word == "dict":
        return {key: rebuilt(x, arrays) for key, x in content.items()}
    kind, parts = _class(content), dict(rest)["parts"]
    if word == "named":
        return kind(*(rebuilt(x, arrays) for x in parts))
    made = object.__new__(kind)
    for name, x in parts.items():
        object.__setattr__(made, name, rebuilt(x, arrays))
    return made


def _class(name: str) -> type:
    """A class of ours that trees are made of; nothing else is looked up, let alone called."""
    module, _, path = name.partition(":")
    if module.partition(".")[0] not in _PACKAGES:
        raise Undescribed(name)
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    named = isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")
    if not (named or (isinstance(found, type) and issubclass(found, eqx.Module))):
        raise Undescribed(name)
    return found
