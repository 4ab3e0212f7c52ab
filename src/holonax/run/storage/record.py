"""Objects as plain data: lists, words, numbers and arrays, for a file that cannot run code.

Named tuples, dataclasses and equinox modules of this package are written as the name of their class
and their fields, residuals of our joints as their names, and made again without calling anything.
An object that occurs twice is written once, so that it is one object again. What else there is
(functions, and classes and objects of the user's own) is left out: it belongs to a `part` of what
the caller has given, and is taken from there by its number when the run is resumed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...compiler.trees import Undescribed, class_named, name_of, rule_name, rule_named
from .container import Spoilt

if TYPE_CHECKING:
    from jaxtyping import PyTree

_NUMBERS = "biufc"


class Record:
    """What was written: the objects of each part by their numbers, and all arrays."""

    def __init__(self, objects: dict[str, list[Any]], arrays: list[np.ndarray]):
        self.objects, self.arrays = objects, arrays

    def copy(self) -> Record:
        """To go on with without changing this one."""
        return Record({name: list(x) for name, x in self.objects.items()}, list(self.arrays))


class Writer:
    """Makes plain data of objects.

    `left_out` are the things of each part that are not in the record, `made` the objects that are,
    in the order of their numbers.
    """

    def __init__(self) -> None:
        self.record = Record({}, [])
        self.left_out: dict[str, list[Any]] = {}
        self.made: dict[str, list[Any]] = {}
        self._part = ""
        self._known: dict[int, Any] = {}  # the node of each object, by its identity

    def copy(self) -> Writer:
        """To go on with without changing this one."""
        new = Writer()
        new.record, new._known = self.record.copy(), dict(self._known)
        new.left_out = {name: list(x) for name, x in self.left_out.items()}
        new.made = {name: list(x) for name, x in self.made.items()}
        return new

    def write(self, part: str, thing: object) -> Any:
        """A thing as plain data, that belongs to `part`."""
        self._part = part
        for names in (self.record.objects, self.left_out, self.made):
            names.setdefault(part, [])
        return self._node(thing)

    def _node(self, x: Any) -> Any:
        kind: Any = type(x)
        if x is None or kind in (bool, int, str):
            return x
        if kind is float:
            return x if math.isfinite(x) else {"float": str(x)}
        label = _array_kind(x)
        if label is not None:
            return {label: self._array(x)}
        if kind in (tuple, list):
            return {kind.__name__: [self._node(y) for y in x]}
        if kind is dict:
            return {"dict": [[self._node(key), self._node(y)] for key, y in x.items()]}
        if isinstance(x, tuple):  # a named one, or a table
            return {"sequence": self._class(kind), "items": [self._node(y) for y in x]}
        if id(x) not in self._known:
            self._known[id(x)] = self._object(x)
        return self._known[id(x)]

    def _array(self, x: object) -> int:
        self.record.arrays.append(np.asarray(x))
        return len(self.record.arrays) - 1

    def _class(self, kind: type) -> Any:
        """A class of ours by its name, one of the user's by its number."""
        try:
            return name_of(kind)
        except Undescribed:
            if id(kind) not in self._known:
                self._known[id(kind)] = self._leave_out(kind)
            return self._known[id(kind)]

    def _object(self, x: object) -> Any:
        kind = type(x)
        if isinstance(x, type):
            named = self._class(x)
            return {"class": named} if isinstance(named, str) else named
        if not dataclasses.is_dataclass(kind):
            try:
                return {"rule": rule_name(x)}
            except Undescribed:
                return self._leave_out(x)
        made, objects = self.made[self._part], self.record.objects[self._part]
        node = self._known[id(x)] = {"object": [self._part, len(made)]}
        made.append(x)
        objects.append(None)
        fields = {f.name: self._node(getattr(x, f.name)) for f in dataclasses.fields(kind)}
        objects[node["object"][1]] = {"of": self._class(kind), "fields": fields}
        return node

    def _leave_out(self, x: object) -> Any:
        left_out = self.left_out[self._part]
        left_out.append(x)
        node = {"given": [self._part, len(left_out) - 1]}
        leaves = [] if isinstance(x, type) else jax.tree.leaves(x)
        if len(leaves) != 1 or leaves[0] is not x:  # a tree of the user's: its numbers count
            numbers = [y for y in leaves if isinstance(y, (np.ndarray, jax.Array, float, int))]
            return {**node, "numbers": [self._node(y) for y in numbers]}
        return node


def _array_kind(x: object) -> str | None:
    """What to call an array of numbers: which come back as they were."""
    for kind, label in ((jax.Array, "jax"), (np.ndarray, "numpy"), (np.generic, "scalar")):
        if isinstance(x, kind) and x.dtype.kind in _NUMBERS:
            return label
    return None


class Missing(Exception):
    """Something that was left out has not been given again."""


class Reader:
    """Makes objects of plain data.

    `made` and `left_out` are those of a `Writer` that has seen what the caller gave, for the parts
    that were given: these are taken as they are.
    """

    def __init__(
        self,
        record: Record,
        made: Mapping[str, list[Any]],
        left_out: Mapping[str, list[Any]],
    ):
        self._record, self._left_out = record, left_out
        self._made = {(part, k): x for part, xs in made.items() for k, x in enumerate(xs)}

    def read(self, node: Any) -> Any:
        """The thing that a node was made from."""
        try:
            return self._thing(node)
        except Missing:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise Spoilt(f"it was not written by holonax ({error})") from None
        except Undescribed as error:
            raise Spoilt(f"it names {error}, which is no class of this version") from None

    def _thing(self, node: Any) -> Any:
        if node is None or type(node) in (bool, int, float, str):
            return node
        match node:
            case {"float": ("nan" | "inf" | "-inf") as word, **rest} if not rest:
                return float(word)
            case {"tuple": [*items], **rest} if not rest:
                return tuple(map(self._thing, items))
            case {"list": [*items], **rest} if not rest:
                return list(map(self._thing, items))
            case {"dict": [*items], **rest} if not rest:
                return {self._thing(key): self._thing(x) for key, x in items}
            case {"numpy": int(k), **rest} if not rest:
                return self._array(k).copy()
            case {"scalar": int(k), **rest} if not rest:
                return self._array(k)[()]
            case {"jax": int(k), **rest} if not rest:
                return jnp.asarray(self._array(k))
            case {"sequence": kind, "items": [*items], **rest} if not rest:
                return self._sequence(kind, items)
            case {"class": str(name), **rest} if not rest:
                return class_named(name)
            case {"rule": str(name), **rest} if not rest:
                return rule_named(name)
            case {"given": [str(part), int(k)], **rest} if rest.keys() <= {"numbers"}:
                return self._given(part, k)
            case {"object": [str(part), int(k)], **rest} if not rest:
                if (part, k) not in self._made:
                    self._made[part, k] = self._object(part, k)
                return self._made[part, k]
        raise ValueError(str(node)[:80])

    def _array(self, k: int) -> np.ndarray:
        if k < 0:
            raise ValueError("an array")
        return self._record.arrays[k]

    def _given(self, part: str, k: int) -> Any:
        if part not in self._left_out:
            raise Missing(part)
        if k < 0:
            raise ValueError("a thing that was left out")
        return self._left_out[part][k]

    def _class(self, kind: object) -> type:
        return class_named(kind) if isinstance(kind, str) else self._thing(kind)

    def _sequence(self, kind: object, items: list[Any]) -> Any:
        found = self._class(kind)
        size = len(getattr(found, "_fields", items))
        if not issubclass(found, tuple) or size != len(items):
            raise ValueError(str(kind))
        return tuple.__new__(found, list(map(self._thing, items)))

    def _object(self, part: str, k: int) -> Any:
        if k < 0:
            raise ValueError("an object")
        match self._record.objects[part][k]:
            case {"of": kind, "fields": dict(fields), **rest} if not rest:
                found = self._class(kind)
                if not dataclasses.is_dataclass(found):
                    raise ValueError(str(kind))
                if fields.keys() != {f.name for f in dataclasses.fields(found)}:
                    raise ValueError(f"the fields of {kind}")
                made = object.__new__(found)
                self._made[part, k] = made
                for name, node in fields.items():
                    object.__setattr__(made, name, self._thing(node))
                return made
        raise ValueError("an object")


def differences(old: Record, new: Record, before: Any, now: PyTree, path: str) -> Iterator[str]:
    """Where two things are not the same, in words; nodes of two records are compared by content."""
    yield from _Comparison(old, new).of(before, now, path)


class _Comparison:
    def __init__(self, old: Record, new: Record):
        self._old, self._new, self._seen = old, new, set()

    def of(self, a: Any, b: Any, path: str) -> Iterator[str]:
        if not isinstance(a, dict) or not isinstance(b, dict) or a.keys() != b.keys():
            x, y = self._array(self._old, a), self._array(self._new, b)
            if x is not None and y is not None:
                yield from _numbers(x, y, path)
            elif type(a) is not type(b) or a != b:
                yield f"{path} is {_said(b)}, it was {_said(a)}"
            return
        for key in a:
            yield from self._entry(key, a[key], b[key], path)

    def _entry(self, key: str, a: Any, b: Any, path: str) -> Iterator[str]:
        if key in ("numpy", "jax", "scalar"):
            yield from _numbers(self._old.arrays[a], self._new.arrays[b], path)
        elif key == "object":
            if a != b:
                yield f"{path} is shared otherwise"
            elif tuple(a) not in self._seen:
                self._seen.add(tuple(a))
                x, y = self._old.objects[a[0]][a[1]], self._new.objects[b[0]][b[1]]
                if x["of"] != y["of"]:
                    yield f"{path} is {_said(y)}, it was {_said(x)}"
                else:
                    for name in x["fields"]:
                        yield from self.of(x["fields"][name], y["fields"][name], f"{path}.{name}")
        elif key == "dict":
            keys = [[str(item[0]) for item in x] for x in (a, b)]
            if sorted(keys[0]) != sorted(keys[1]):
                yield f"{path} has other entries"
                return
            found = dict(zip(keys[1], (item[1] for item in b), strict=True))
            for name, item in zip(keys[0], a, strict=True):
                yield from self.of(item[1], found[name], f"{path}[{item[0]!r}]")
        elif key in ("tuple", "list", "items", "numbers"):
            if len(a) != len(b):
                yield f"{path} has {len(b)} entries, it had {len(a)}"
            else:
                for k, pair in enumerate(zip(a, b, strict=True)):
                    yield from self.of(*pair, f"{path}[{k}]")
        elif a != b:
            yield f"{path} is {_said(b)}, it was {_said(a)}"

    @staticmethod
    def _array(record: Record, node: Any) -> np.ndarray | None:
        """A node as an array, if it is one: numpy's and JAX's are the same numbers."""
        match node:
            case {"numpy": int(k)} | {"jax": int(k)} | {"scalar": int(k)}:
                return record.arrays[k]
        return None


def _numbers(a: np.ndarray, b: np.ndarray, path: str) -> Iterator[str]:
    if a.shape != b.shape:
        yield f"{path} has the shape {b.shape}, it had {a.shape}"
    elif a.dtype != b.dtype or a.tobytes() != b.tobytes():
        yield f"{path} is {_said(b.tolist())}, it was {_said(a.tolist())}"


def _said(x: object) -> str:
    text = " ".join(str(x["of"] if isinstance(x, dict) and "of" in x else x).split())
    return text if len(text) <= 50 else f"{text[:46]} ..."
