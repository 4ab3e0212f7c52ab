"""`native(f)`: called like `jax.jit(f)`, compiled by LLVM where the program is small."""

from __future__ import annotations

import bisect
import itertools
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import export
from jax.core import Tracer
from jax.extend import core as jax_core

from .._collecting import uncollected
from .._config import refuse_after_fork
from . import fingerprint, machine, store, trees
from .executable import Layout, Program, let_go
from .interrupt import CompilationInterrupted, compiling, patiently
from .machine import Effort
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
# How much programs are worked on, up to so many operations, longer ones, and what runs once. Passes
# over a long program take longer than they save: its zeros and common parts are gone already.
SIZES = (8000, 20_000, 40_000)
EFFORTS = (Effort(2, 2), Effort(1, 1), Effort(0, 1), Effort(0, 0))
IN_VECTORS = Effort(0, 1)  # at most, where vectors are written already

# LLVM's longest passes take half of XLA's time, 28 s of 42 s for a chain of 100 bodies, and make no
# step faster.
XLA_OPTIONS = {"xla_llvm_disable_expensive_passes": True}

_functions: weakref.WeakSet[Native] = weakref.WeakSet()


def forget() -> None:
    """Drop the programs in memory, and the room they worked in; those on disk stay."""
    for function in list(_functions):
        function._known.clear()
    let_go()


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
        _functions.add(self)

    def __call__(self, *args: Any) -> Any:
        dynamic = [x for i, x in enumerate(args) if i not in self._static]
        leaves, tree = jax.tree.flatten(dynamic)
        if any(isinstance(x, Tracer) for x in leaves):
            return self._jitted(*args)
        if not all(isinstance(x, _NUMBERS) for x in leaves):
            tree, leaves = _Mixed.of(tree, leaves)
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
        compiling.names.append(self.__name__)
        try:
            refuse_after_fork()
            with uncollected():
                key = self._key(args, leaves, tree)
                return self._found(key, leaves) or self._made(key, args, leaves, tree)
        except KeyboardInterrupt:
            raise CompilationInterrupted(
                f"holonax was interrupted while it compiled a program ({self.__name__}). The next "
                "run begins to compile it again."
            ) from None
        finally:
            compiling.names.pop()
            notice.cancel()
            counts.seconds += time.perf_counter() - began

    def _found(self, key: str | None, leaves: list[np.ndarray]) -> Callable[[Any], Any] | None:
        """The program as an earlier process has left it."""
        found = None if key is None else store.read(key)
        if found is None or "tree" not in found[0]:
            return None
        said, code = found
        try:
            if "xla" in said:
                exported = export.deserialize(bytearray(code))
                shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
                blank = [np.zeros(()) for _ in exported.out_avals]
                out = jax.tree.structure(trees.rebuilt(said["tree"], iter(blank)))
                run = _run_by_xla(jax.jit(exported.call), shapes, out, self._once)
                counts.left_to_xla.append((self.__name__, "kept on disk"))
                return run
            program = Program(code, Layout.of(said["layout"]))
            blank = [np.zeros(()) for _ in program.layout.outputs]
            out = jax.tree.structure(trees.rebuilt(said["tree"], iter(blank)))
        except (trees.Undescribed, AttributeError, ImportError, StopIteration):
            return None
        if out.num_leaves != len(blank):
            return None
        counts.read += 1
        return lambda leaves: out.unflatten(program(leaves))

    def _made(
        self, key: str | None, args: Any, leaves: list[np.ndarray], tree: Any
    ) -> Callable[[Any], Any]:
        def flat(*leaves: Any) -> Any:
            dynamic = iter(tree.unflatten(leaves))
            given = (x if i in self._static else next(dynamic) for i, x in enumerate(args))
            return self.function(*given)

        clock = [time.perf_counter()]
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        closed, shape = jax.make_jaxpr(flat, return_shape=True)(*shapes)
        counts.traced += 1
        clock.append(time.perf_counter())
        try:
            if machine.binding() is None:
                _warn_once()
                raise Unsupported("llvmlite is not installed")
            from .program import written  # slow to import; not needed for programs on disk

            text, layout = written(closed, self._once)
        except Unsupported as reason:
            counts.left_to_xla.append((self.__name__, str(reason)))
            return _by_xla(closed, shape, shapes, key, self._once)
        clock.append(time.perf_counter())
        effort = _effort(layout, self._once)
        by_text = fingerprint.fingerprint("text", machine.processor(), text, *effort)
        found = store.read(by_text)
        code = patiently(machine.object_code, text, effort) if found is None else found[1]
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
        if store.folder() is None or machine.binding() is None:
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


def _effort(layout: Layout, once: bool) -> Effort:
    """How much a program is worked on."""
    length = bisect.bisect_left(SIZES, layout.operations)
    if once:
        return EFFORTS[-1]
    if layout.in_loops or (layout.in_rows and length == 1):
        return IN_VECTORS
    return EFFORTS[length]


def _by_xla(
    closed: jax_core.ClosedJaxpr, shape: Any, shapes: Any, key: str | None, once: bool
) -> Callable[[Any], Any]:
    """A traced program, compiled by XLA; what XLA is given is kept as well, so that the next
    process need not trace it."""
    jitted = jax.jit(jax_core.jaxpr_as_fun(closed))
    out = jax.tree.structure(shape)
    if key is not None:
        try:
            exported = export.export(jitted)(*shapes)
            said = {"xla": True, "tree": trees.described(shape)}
            store.write(key, said, bytes(exported.serialize()))
            jitted = jax.jit(exported.call)
        except (trees.Undescribed, ImportError, ValueError, NotImplementedError):
            pass  # something in it cannot be kept
    return _run_by_xla(jitted, shapes, out, once)


def _run_by_xla(jitted: Any, shapes: Any, out: Any, once: bool) -> Callable[[Any], Any]:
    # what runs once is not worth LLVM's optimisations, a third of the time to compile
    options = {**XLA_OPTIONS, **({"xla_backend_optimization_level": 0} if once else {})}
    compiled = patiently(partial(jitted.lower(*shapes).compile, compiler_options=options))

    def run(leaves: list[np.ndarray]) -> Any:
        refuse_after_fork()
        return out.unflatten([np.asarray(x) for x in compiled(*leaves)])

    return run


_NUMBERS = (np.ndarray, np.generic, jax.Array, bool, int, float)


class _Mixed(NamedTuple):
    """The structure of a tree some of whose leaves are no numbers; these are compiled in."""

    tree: Any
    others: tuple[Any, ...]
    is_number: tuple[bool, ...]

    @staticmethod
    def of(tree: Any, leaves: list[Any]) -> tuple[_Mixed, list[Any]]:
        """Taken apart: the structure, and the numbers."""
        is_number = tuple(isinstance(x, _NUMBERS) for x in leaves)
        others = tuple(x for x, number in zip(leaves, is_number, strict=True) if not number)
        numbers = [x for x, number in zip(leaves, is_number, strict=True) if number]
        return _Mixed(tree, others, is_number), numbers

    def unflatten(self, leaves: Any) -> Any:
        """The tree again."""
        numbers, others = iter(leaves), iter(self.others)
        return self.tree.unflatten([next(numbers if n else others) for n in self.is_number])


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
