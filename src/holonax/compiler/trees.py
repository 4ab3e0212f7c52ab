"""The structure of a tree of arrays as plain data, for a file that cannot run code."""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np

_PACKAGES = ("holonax", "equinox", "diffrax")
_PLAIN = (type(None), bool, int, float, str)
_WORD = re.compile(r"(?!__)[A-Za-z_]\w*")


class Undescribed(Exception):
    """A tree has nodes that have no description."""


def described(tree: Any) -> Any:
    """A tree of arrays, or of their shapes, as lists, dictionaries and words; arrays are "*"."""
    kind = type(tree)
    if kind in _PLAIN:
        return {"value": tree}
    if _is_named(kind):
        return {"named": name_of(kind), "parts": [described(x) for x in tree]}
    if kind in (tuple, list):
        return {kind.__name__: [described(x) for x in tree]}
    if kind is dict and all(isinstance(key, str) for key in tree):
        return {"dict": {key: described(tree[key]) for key in sorted(tree)}}  # as JAX orders them
    if isinstance(tree, eqx.Module):
        parts = {f: described(getattr(tree, f)) for f in kind.__dataclass_fields__}  # pyright: ignore
        return {"module": name_of(kind), "parts": parts}
    if isinstance(tree, (jax.ShapeDtypeStruct, jax.Array, np.ndarray)):
        return "*"
    raise Undescribed(kind.__qualname__)


def name_of(kind: type) -> str:
    """What `class_named` finds a class by; raises `Undescribed` for one of another package."""
    if kind.__module__.partition(".")[0] not in _PACKAGES or "<" in kind.__qualname__:
        raise Undescribed(kind.__qualname__)
    return f"{kind.__module__}:{kind.__qualname__}"


def rebuilt(description: Any, arrays: Any) -> Any:
    """The tree of a description, with the next of `arrays` for each "*"."""
    if description == "*":
        return next(arrays)
    match description:
        case {"value": content, **rest} if not rest and type(content) in _PLAIN:
            return content
        case {"tuple": [*content], **rest} if not rest:
            return tuple([rebuilt(x, arrays) for x in content])
        case {"list": [*content], **rest} if not rest:
            return [rebuilt(x, arrays) for x in content]
        case {"dict": dict(content), **rest} if not rest:
            return {key: rebuilt(x, arrays) for key, x in content.items()}
        case {"named": str(name), "parts": [*parts], **rest} if not rest:
            kind = class_named(name)
            if _is_named(kind) and len(parts) == len(kind._fields):  # pyright: ignore
                return tuple.__new__(kind, [rebuilt(x, arrays) for x in parts])
        case {"module": str(name), "parts": dict(parts), **rest} if not rest:
            kind = class_named(name)
            if issubclass(kind, eqx.Module) and parts.keys() == kind.__dataclass_fields__.keys():
                made = object.__new__(kind)
                for field, x in parts.items():
                    object.__setattr__(made, field, rebuilt(x, arrays))
                return made
    raise Undescribed(str(description)[:80])


def _is_named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


@cache
def class_named(name: str) -> type:
    """A class of ours that trees are made of; nothing else is looked up, let alone called."""
    module, _, path = name.partition(":")
    words = [*module.split("."), *path.split(".")]
    if words[0] not in _PACKAGES or not all(map(_WORD.fullmatch, words)):
        raise Undescribed(name)
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = vars(found)[part]
    except (ImportError, KeyError, TypeError):
        raise Undescribed(name) from None
    if not isinstance(found, type) or name_of(found) != name:
        raise Undescribed(name)
    return found


_RULES = ("residual", "planar_residual")


def rule_name(function: Any) -> str:
    """What `rule_named` finds the residual of a joint of ours by; `Undescribed` for others."""
    owner, _, name = getattr(function, "__qualname__", "").rpartition(".")
    path = f"{getattr(function, '__module__', '')}:{owner}.{name}"
    if rule_named(path) is not function:
        raise Undescribed(path)
    return path


def rule_named(path: str) -> Any:
    """The residual of a joint of ours, the only functions that are found by name."""
    owner, _, name = path.rpartition(".")
    rule = vars(class_named(owner)).get(name) if name in _RULES else None
    if not isinstance(rule, staticmethod):
        raise Undescribed(path)
    return rule.__func__
