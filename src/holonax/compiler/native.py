"""`native(f)`: called like `jax.jit(f)`, compiled by LLVM where the program is small."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from . import fingerprint, machine, store, trees
from .executable import Layout, Program
from .operations import Unsupported


class Cost(NamedTuple):
    """What a program cost: its operations, and seconds to trace, to take apart, to compile."""

    name: str
    operations: int
    traced: float
    written: float
    compiled: float


@dataclass
class Counts:
    """What has been compiled in this process, and what was left to XLA, with the reasons."""

    traced: int = 0
    compiled: int = 0
    read: int = 0
    operations: int = 0
    seconds: float = 0.0
    programs: list[Cost] = field(default_factory=list)
    left_to_xla: list[tuple[str, str]] = field(default_factory=list)

    @property
    def so_far(self) -> tuple[int, float]:
        """Programs compiled, by whichever compiler, and the seconds that all of them took."""
        return self.compiled + len(self.left_to_xla), self.seconds


counts = Counts()
MANY = 64  # programs of one function that are kept in memory
PATIENCE = 2.0  # seconds of compiling after which somebody at a terminal is told
QUICK = 8000  # operations up to which code is optimised as well as it can be


class Native:
    """A function that is compiled for each structure and shape of its arguments.

    On the host it returns NumPy arrays. Where it is traced (inside of `jit`, `grad`, `vmap`) it is
    the function itself.
    """

    def __init__(
        self, function: Callable[..., Any], *, static: Sequence[int] = (), once: bool = False
    ):
        self.function, self._static, self._once = function, tuple(static), once
        self._jitted = jax.jit(function, static_argnums=self._static)
        self._known: dict[Any, Callable[[Any], Any]] = {}
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *args: Any) -> Any:
        dynamic = [x for i, x in enumerate(args) if i not in self._static]
        leaves, tree = jax.tree.flatten(dynamic)
        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return self._jitted(*args)
        leaves = [x if type(x) is np.ndarray else np.asarray(x) for x in leaves]
        fixed = tuple(args[i] for i in self._static)
        key = (tree, fixed, tuple([(x.shape, x.dtype) for x in leaves]))
        run = self._known.get(key)
        if run is None:
            run = self._known[key] = self._prepared(args, leaves, tree)
            if len(self._known) > MANY:
                del self._known[next(iter(self._known))]
        return run(leaves)

    def _prepared(self, args: Any, leaves: list[np.ndarray], tree: Any) -> Callable[[Any], Any]:
        began = time.perf_counter()
        notice = threading.Timer(PATIENCE, _notice, [self.__name__])
        notice.daemon = True
        notice.start()
        try:
            return self._compiled(args, leaves, tree)
        except Unsupported as reason:
            counts.left_to_xla.append((self.__name__, str(reason)))
            return self._by_xla(args, tree, leaves)
        finally:
            notice.cancel()
            counts.seconds += time.perf_counter() - began

    def _by_xla(self, args: Any, tree: Any, leaves: list[np.ndarray]) -> Callable[[Any], Any]:
        given = self._arguments(args, tree.unflatten(leaves))
        compiled = self._jitted.lower(*given).compile()

        def run(leaves: Any) -> Any:
            return jax.tree.map(np.asarray, compiled(*tree.unflatten(leaves)))

        return run

    def _arguments(self, args: Any, dynamic: Any) -> list[Any]:
        """All arguments in their order, the dynamic ones replaced."""
        rest = iter(dynamic)
        return [x if i in self._static else next(rest) for i, x in enumerate(args)]

    def _compiled(self, args: Any, leaves: list[np.ndarray], tree: Any) -> Callable[[Any], Any]:
        if machine.binding() is None:
            _warn_once()
            raise Unsupported("llvmlite is not installed")

        key = self._key(args, leaves, tree)
        found = None if key is None else store.read(key)
        if found is not None:
            said, code = found
            if "left_to_xla" in said:
                raise Unsupported(said["left_to_xla"])
            with contextlib.suppress(trees.Undescribed, AttributeError, ImportError):
                program, shape = Program(code, Layout.of(said["layout"])), said["tree"]
                trees.rebuilt(shape, itertools.repeat(None))
                counts.read += 1
                return lambda leaves: trees.rebuilt(shape, iter(program(leaves)))

        from .program import written  # slow to import, and not needed where programs are on disk

        def flat(*leaves: Any) -> Any:
            return self.function(*self._arguments(args, tree.unflatten(leaves)))

        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        clock = [time.perf_counter()]
        closed, shape = jax.make_jaxpr(flat, return_shape=True)(*shapes)
        clock.append(time.perf_counter())
        counts.traced += 1
        try:
            text, layout = written(closed)
        except Unsupported as reason:
            if key is not None:
                store.write(key, {"left_to_xla": str(reason)}, b"")
            raise
        clock.append(time.perf_counter())
        level = 0 if self._once else 1 if layout.operations > QUICK else 2
        by_text = fingerprint.fingerprint("text", machine.processor(), text, level)
        found = store.read(by_text)
        code = machine.object_code(text, level) if found is None else found[1]
        program = Program(code, layout)
        clock.append(time.perf_counter())
        counts.compiled += found is None
        counts.operations += layout.operations
        spent = (b - a for a, b in itertools.pairwise(clock))
        counts.programs.append(Cost(self.__name__, layout.operations, *spent))
        try:
            if key is None:
                raise trees.Undescribed
            store.write(key, {"layout": layout.said(), "tree": trees.described(shape)}, code)
        except trees.Undescribed:
            if found is None:
                store.write(by_text, {}, code)
        out = jax.tree.structure(shape)
        return lambda leaves: out.unflatten(program(leaves))

    def _key(self, args: Any, leaves: list[np.ndarray], tree: Any) -> str | None:
        """What the program is kept under, known before it is traced; None where it is not."""
        if store.folder() is None:
            return None
        try:
            return fingerprint.fingerprint(
                fingerprint.of_installation(),
                machine.processor(),
                self._once,
                self.function,
                [args[i] for i in self._static],
                tree,
                [(x.shape, x.dtype.str) for x in leaves],
            )
        except fingerprint.Unknown:
            return None


def native(function: Any = None, *, static: Sequence[int] = (), once: bool = False) -> Any:
    """Compile a function for this machine; to be called with arrays on the host.

    **Arguments:**

    - `static`: positions of arguments that are compiled in; they have to be hashable.
    - `once`: it will be called a few times only, so compile quickly rather than well.
    """
    if function is None:
        return partial(native, static=static, once=once)
    return Native(function, static=static, once=once)


def _notice(name: str) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"holonax: compiling ({name}) ...", file=sys.stderr, flush=True)


_warned: list[bool] = []


def _warn_once() -> None:
    if not _warned:
        _warned.append(True)
        warnings.warn(
            "holonax: llvmlite is not installed, so everything is compiled by XLA, which takes up "
            "to minutes for spatial mechanisms. Install it with `pip install llvmlite`.",
            stacklevel=2,
        )
