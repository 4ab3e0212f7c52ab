"""What a program is made from, as one number: functions by their code, trees by their structure.

Two processes that ask for the same thing get the same number, so that a program that was compiled
once is found on disk before anything is traced. What cannot be told with certainty (an object of a
class that is not ours, a function that reads a module of the user's, or a file) is refused: such
programs are traced in each process.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import sys
import types
import weakref
from collections import namedtuple
from collections.abc import Iterable
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
_VERSIONS = ("jax", "jaxlib", "equinox", "diffrax", "lineax", "optimistix", "numpy", "scipy")
# Settings of JAX that what is traced depends on.
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_numpy_dtype_promotion",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
)
# Names in a function by which it may read what is neither in its code nor in its variables.
_READS = {
    *("open", "eval", "exec", "compile", "globals", "locals", "vars", "input", "__import__"),
    *("load", "loadtxt", "genfromtxt", "fromfile", "memmap", "loadmat", "import_module"),
}
_FIELD = type(vars(namedtuple("_Pair", "x y"))["x"])  # how a named tuple finds a part of it
# What is said of a function or a class beside what it does.
_SAID = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__annotate__"),
    *("__wrapped__", "__signature__", "__type_params__", "_fun", "_jit_info"),
}


class Unknown(Exception):
    """Something has no number that is the same in every process."""


def of_installation() -> str:
    """This package's own text, the versions of all that it is built on, and JAX's settings."""
    return "|".join([_installed(), *(f"{getattr(jax.config, x, None)}" for x in _SETTINGS)])


@cache
def _installed() -> str:
    import importlib.metadata as metadata

    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    for name in (*_VERSIONS, "llvmlite"):
        try:
            digest.update(f"{name}={metadata.version(name)}".encode())
        except metadata.PackageNotFoundError:
            digest.update(f"{name}=none".encode())
    digest.update(sys.version.encode())
    return digest.hexdigest()


def fingerprint(*things: Any) -> str:
    """The number of some things, in hexadecimal; raises `Unknown`."""
    digest = hashlib.sha256()
    try:
        _Walk(digest).visit(things)
    except RecursionError:
        raise Unknown("something that contains itself") from None
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
            plain = word if isinstance(word, bytes) else str(word).encode()
            self._digest.update(b"%d:" % len(plain))
            self._digest.update(plain)

    def visit(self, x: Any) -> None:
        kind = type(x)
        if x is None or kind in (bool, int, float, complex, str, bytes):
            self._add(kind.__name__, repr(x))
            return
        if isinstance(x, (tuple, list)):
            self._add("sequence", len(x))
            self._kind(kind)
            values = tuple(x)
            if _is_plain(values):
                self._add(repr(values))
                return
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

    def _kind(self, kind: type) -> None:
        """The class of a container, whose methods may do anything with what it contains."""
        self._add(kind.__module__, kind.__qualname__)
        if _package(kind.__module__) not in _KNOWN:
            self.visit(kind)

    def _object(self, x: Any) -> None:
        if isinstance(x, dict):
            items = tuple(x.items())
            if type(x) is dict and _is_plain(items):
                self._add("items", repr(items))
                return
            self._add("dict", len(x))
            self._kind(type(x))
            for key, value in items:
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
        elif isinstance(x, types.BuiltinFunctionType):
            if _package(x.__module__ or "builtins") not in _KNOWN:
                raise Unknown(f"the function {x}")
            self._add("builtin", x.__module__, x.__qualname__)
            if not isinstance(x.__self__, types.ModuleType):  # a method: of what?
                self.visit(x.__self__)
        elif isinstance(x, np.ufunc):
            if getattr(np, x.__name__, None) is not x:
                raise Unknown(f"the function {x}")
            self._add("ufunc", x.__name__)
        elif isinstance(x, (slice, range)):
            self._add(type(x).__name__)
            self.visit((x.start, x.stop, x.step))
        elif isinstance(x, (np.dtype, type(Ellipsis))):
            self._add("plain", type(x).__qualname__, repr(x))
        elif isinstance(x, enum.Enum):
            if _package(type(x).__module__) not in _KNOWN:
                raise Unknown(f"{x}, of the class {type(x).__qualname__}")
            self._add("enum", type(x).__module__, type(x).__qualname__, x.name)
        elif callable(x) and hasattr(x, "__wrapped__"):  # as jax.jit and jax.custom_jvp leave it
            if _package(type(x).__module__) not in _KNOWN:
                raise Unknown(f"an object of the class {type(x).__qualname__}")
            self._add("wrapped", type(x).__qualname__)
            self._attributes(x)
            self.visit(x.__wrapped__)  # pyright: ignore
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
            if name in _SAID:
                continue
            if isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
            if isinstance(value, property):
                value = (value.fget, value.fset, value.fdel)
            if isinstance(value, _FIELD):
                value = value.__reduce__()[1][0]
            if name.startswith("__") and not isinstance(value, types.FunctionType):
                continue
            self._add(name)
            self.visit(value)

    def _attributes(self, x: Any) -> None:
        for name, value in getattr(x, "__dict__", {}).items():
            if name not in _SAID:
                self._add(name)
                self.visit(value)

    def _function(self, x: Any) -> None:
        # Where its text is, which `functools.wraps` does not change, unlike its module and name.
        module, code = x.__globals__.get("__name__"), x.__code__
        known = _package(module) in _KNOWN
        self._add("function", module, code.co_qualname)
        self.visit(x.__defaults__)
        self.visit(x.__kwdefaults__)
        for cell in x.__closure__ or ():
            try:
                self.visit(cell.cell_contents)
            except ValueError:
                self._add("empty")
        if not known or "<" in code.co_qualname:  # lambdas may be several of one name
            self._code(code)
        if known:
            return
        self._attributes(x)
        names = _names(code)
        if names & _READS:
            raise Unknown(f"the function {x.__qualname__}, which uses {min(names & _READS)}")
        if _imports(code):
            raise Unknown(f"the function {x.__qualname__}, which imports")
        for name in sorted(names):
            if name in x.__globals__:
                self._add(name)
                self.visit(x.__globals__[name])

    def _code(self, code: Any) -> None:
        self._add(code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_flags)
        self._add(code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount)
        self._add(code.co_cellvars, code.co_exceptiontable)
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
            text = _said_by(x, fields)
            if text is not None:
                self._add("record", text)
                return
            for name in fields:
                self._add(name)
                self.visit(getattr(x, name, None))
            return
        # Nothing but a mark, or something whose content cannot be seen from here?
        if kind is not object and (kind.__bases__ != (object,) or getattr(x, "__dict__", True)):
            raise Unknown(f"an object of the class {kind.__qualname__}")


_PLAIN = {type(None), bool, int, float, complex, str, bytes}
# What frozen records of plain values say, by identity: large mechanisms have many, and each of
# their programs asks for all of them.
_records: dict[int, tuple[weakref.ref[Any], bytes]] = {}


def _is_plain(x: Any) -> bool:
    return type(x) in _PLAIN or (type(x) is tuple and all(map(_is_plain, x)))


def _belongs_to(kind: type, name: str, value: Any) -> bool:
    """Whether a field holds a function of its class, which the class stands for."""
    return isinstance(value, types.FunctionType) and value is getattr(kind, name, None)


def _said_by(x: Any, fields: Iterable[str]) -> bytes | None:
    """The content of a record that can neither change nor be anything but plain values, else
    None."""
    if not type(x).__dataclass_params__.frozen:  # pyright: ignore
        return None
    known = _records.get(id(x))
    if known is not None and known[0]() is x:
        return known[1]
    kind = type(x)
    values = tuple(
        None if _belongs_to(kind, name, value) else value
        for name, value in ((name, getattr(x, name, None)) for name in fields)
    )
    if not _is_plain(values):
        return None
    text, place = repr(values).encode(), id(x)
    try:
        gone = weakref.ref(x, lambda _: _records.pop(place, None))
    except TypeError:
        return text
    _records[place] = gone, text
    return text


def _names(code: Any) -> set[str]:
    """Names that a function looks up, also in functions inside of it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _imports(code: Any) -> bool:
    """Whether a function imports something when it is called, also in functions inside of it."""
    inside = (x for x in code.co_consts if isinstance(x, types.CodeType))
    return any(x.opname == "IMPORT_NAME" for x in dis.get_instructions(code)) or any(
        map(_imports, inside)
    )
