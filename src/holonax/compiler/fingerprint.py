"""What a program is made from, as one number: functions by their code, trees by their structure.

Two processes that ask for the same thing get the same number, so that a program that was compiled
once is found on disk before anything is traced. What cannot be told with certainty (an object of a
class that is not ours, a function that reads a module of the user's) is refused: such programs are
traced in each process.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

# Packages whose code is known by their versions, or, for this one, by its text.
_KNOWN = {
    *("holonax", "jax", "jaxlib", "numpy", "equinox", "diffrax", "lineax", "optimistix", "math"),
    *("cmath", "operator", "functools", "itertools", "builtins", "typing", "collections", "scipy"),
    *("_operator", "jaxtyping", "dataclasses", "abc"),
}


class Unknown(Exception):
    """Something has no number that is the same in every process."""


@cache
def of_installation() -> str:
    """This package's own text and the versions of all that it is built on."""
    import importlib.metadata as metadata

    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    for name in ("jax", "jaxlib", "equinox", "diffrax", "numpy", "llvmlite"):
        try:
            digest.update(f"{name}={metadata.version(name)}".encode())
        except metadata.PackageNotFoundError:
            digest.update(f"{name}=none".encode())
    digest.update(sys.version.encode())
    return digest.hexdigest()


def fingerprint(*things: Any) -> str:
    """The number of some things, in hexadecimal; raises `Unknown`."""
    digest = hashlib.sha256()
    _Walk(digest).visit(things)
    return digest.hexdigest()


def _package(name: str | None) -> str:
    return (name or "").partition(".")[0]


class _Walk:
    def __init__(self, digest: Any):
        self._digest = digest
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []

    def _add(self, *words: Any) -> None:
        for word in words:
            self._digest.update(word if isinstance(word, bytes) else str(word).encode())
            self._digest.update(b"\0")

    def visit(self, x: Any) -> None:
        if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
            if isinstance(x, enum.Enum):
                self._add("enum", type(x).__qualname__)
            self._add(type(x).__name__, repr(x))
            return
        if isinstance(x, (tuple, list)):
            self._add("sequence", type(x).__qualname__, len(x))
            for y in x:
                self.visit(y)
            return
        if isinstance(x, (np.ndarray, np.generic, jax.Array)):
            x = np.asarray(x)
            self._add("array", x.dtype.str, x.shape, np.ascontiguousarray(x).tobytes())
            return
        if id(x) in self._seen:
            self._add("again", self._seen[id(x)])
            return
        self._seen[id(x)] = len(self._seen)
        self._kept.append(x)  # so that no other object gets its identity
        self._object(x)

    def _object(self, x: Any) -> None:
        if isinstance(x, dict):
            self._add("dict", len(x))
            for key, value in x.items():
                self.visit(key)
                self.visit(value)
        elif isinstance(x, (set, frozenset)):
            self._add("set", *sorted(map(repr, x)))
            if not all(isinstance(y, (str, int, float, bool)) for y in x):
                raise Unknown("a set of objects")
        elif isinstance(x, jax.tree_util.PyTreeDef):
            self._tree(x)
        elif isinstance(x, type):
            self._class(x)
        elif isinstance(x, types.FunctionType):
            self._function(x)
        elif isinstance(x, types.MethodType):
            self.visit(x.__func__)
            self.visit(x.__self__)
        elif isinstance(x, functools.partial):
            self._add("partial")
            for y in (x.func, x.args, x.keywords):
                self.visit(y)
        elif isinstance(x, types.CodeType):
            self._code(x)
        elif isinstance(x, types.ModuleType):
            if _package(x.__name__) not in _KNOWN:
                raise Unknown(f"the module {x.__name__}")
            self._add("module", x.__name__)
        elif isinstance(x, (types.BuiltinFunctionType, np.ufunc)):
            if _package(getattr(x, "__module__", None) or "builtins") not in _KNOWN:
                raise Unknown(f"the function {x}")
            self._add("builtin", getattr(x, "__module__", ""), x.__name__)
        elif isinstance(x, (np.dtype, enum.Enum, slice, range, type(Ellipsis))):
            self._add("plain", type(x).__qualname__, repr(x))
        elif hasattr(x, "__wrapped__") and callable(x):  # as jax.jit leaves it
            self._add("wrapped", type(x).__qualname__)
            self.visit(x.__wrapped__)
        else:
            self._instance(x)

    def _tree(self, tree: Any) -> None:
        node = tree.node_data()
        if node is None:
            self._add("leaf")
            return
        kind, data = node
        self.visit(kind)
        self.visit(data)
        children = tree.children()
        self._add(len(children))
        for child in children:
            self._tree(child)

    def _class(self, x: type) -> None:
        self._add("class", x.__module__, x.__qualname__)
        if _package(x.__module__) in _KNOWN:
            return
        for base in x.__bases__:
            self.visit(base)
        for name, value in sorted(vars(x).items()):
            if name in ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__"):
                continue
            if isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
            if isinstance(value, property):
                value = (value.fget, value.fset)
            if name.startswith("__") and not isinstance(value, types.FunctionType):
                continue
            self._add(name)
            self.visit(value)

    def _function(self, x: Any) -> None:
        self._add("function", x.__module__, x.__qualname__)
        self.visit(x.__defaults__)
        self.visit(x.__kwdefaults__)
        for cell in x.__closure__ or ():
            try:
                self.visit(cell.cell_contents)
            except ValueError:
                self._add("empty")
        if _package(x.__module__) in _KNOWN:
            return
        self._code(x.__code__)
        for name in sorted(_names(x.__code__)):
            if name in x.__globals__:
                self._add(name)
                self.visit(x.__globals__[name])

    def _code(self, code: Any) -> None:
        self._add(code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_flags)
        self._add(code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant)
            else:
                self.visit(constant)

    def _instance(self, x: Any) -> None:
        kind = type(x)
        self.visit(kind)
        if _package(kind.__module__) not in _KNOWN:
            raise Unknown(f"an object of the class {kind.__qualname__}")
        fields = getattr(kind, "__dataclass_fields__", None)
        if fields is not None:
            for name in fields:
                self._add(name)
                self.visit(getattr(x, name, None))
            return
        if getattr(x, "__dict__", None) or getattr(kind, "__slots__", None):
            raise Unknown(f"an object of the class {kind.__qualname__}")


def _names(code: Any) -> set[str]:
    """Names that a function looks up, also in functions inside of it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
