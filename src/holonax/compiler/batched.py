"""`Lanes(f)`: a function of one run, compiled for many of them side by side.

`f(shared, own)` takes numbers that all runs have in common, and those of one run. It is traced
once, for one run, and compiled for packs of runs in the lanes of vectors; see `lanes.py`.
"""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from .._config import refuse_after_fork
from . import fingerprint, machine, store, trees
from .executable import Layout
from .interrupt import compiling, patiently
from .machine import Effort
from .native import PATIENCE, Cost, _notice, counts
from .operations import DTYPES, Unsupported

# How much programs are worked on, up to so many operations, and longer ones: what many runs go
# through is worth more work than what one does.
_SIZES = (30_000, 60_000)
_EFFORTS = (Effort(2, 2), Effort(1, 1), Effort(0, 1))


class Packs(NamedTuple):
    """A compiled program for packs of `lanes` runs."""

    call: Any
    engine: Any
    layout: Layout
    lanes: int
    tree: Any

    def __call__(self, shared: list[Any], own: list[np.ndarray], stop: np.ndarray) -> list[Any]:
        """Results for runs, whose numbers have one axis more, the first: leaves likewise."""
        runs = len(own[0])
        packs = -(-runs // self.lanes)
        kinds = [DTYPES[kind] for kind, _ in self.layout.inputs]
        given = [
            np.ascontiguousarray(x, dtype=kind)
            for x, kind in zip(shared, kinds[: len(shared)], strict=True)
        ]
        given += [
            packed(np.asarray(x, dtype=kind), packs, self.lanes)
            for x, kind in zip(own, kinds[len(shared) :], strict=True)
        ]
        out = [
            (np.zeros if zeroed else np.empty)(
                (packs, int(np.prod(shape, dtype=int)), self.lanes), DTYPES[kind]
            )
            for kind, shape, zeroed in self.layout.outputs
        ]
        tables = [
            np.array([x.__array_interface__["data"][0] for x in xs], dtype=np.uint64)
            for xs in (given, out)
        ]
        room = np.empty(self.layout.room + 64, np.uint8)
        at = room.__array_interface__["data"][0]
        self.call(
            *(x.__array_interface__["data"][0] for x in tables),
            at + (-at) % 64,
            0,
            packs,
            stop.__array_interface__["data"][0],
        )
        return [
            unpacked(x, runs, shape)
            for x, (_, shape, _) in zip(out, self.layout.outputs, strict=True)
        ]


def packed(x: np.ndarray, packs: int, lanes: int) -> np.ndarray:
    """(run, ...) as (pack, entry, lane), the last run repeated to fill the last pack."""
    missing = packs * lanes - len(x)
    if missing:
        x = np.concatenate([x, np.broadcast_to(x[-1:], (missing, *x.shape[1:]))])
    return np.ascontiguousarray(x.reshape(packs, lanes, -1).transpose(0, 2, 1))


def unpacked(x: np.ndarray, runs: int, shape: tuple[int, ...]) -> np.ndarray:
    """The contrary of `packed`."""
    return np.ascontiguousarray(x.transpose(0, 2, 1)).reshape(-1, *shape)[:runs]


class Lanes:
    """A function (shared, own) of one run, to be compiled for many.

    Raises `Unsupported` for programs that the compiler does not take.
    """

    def __init__(self, function: Callable[[Any, Any], Any]):
        self.function = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self._known: dict[Any, Packs] = {}

    def program(self, shared: Any, own: Any, lanes: int | None = None) -> Packs:
        """The program for arguments like these; `own` those of one run."""
        if machine.binding() is None:
            raise Unsupported("llvmlite is not installed")
        leaves, tree = jax.tree.flatten((shared, own))
        number = len(jax.tree.leaves(shared))
        shapes = tuple((np.shape(x), np.result_type(x).str) for x in leaves)
        key = tree, shapes, lanes
        found = self._known.get(key)
        if found is None:
            began = time.perf_counter()
            notice = threading.Timer(PATIENCE, _notice, [self.__name__])
            notice.daemon = True
            notice.start()
            compiling.names.append(self.__name__)
            try:
                refuse_after_fork()
                found = self._known[key] = self._prepared(leaves, tree, number, lanes, shapes)
            finally:
                compiling.names.pop()
                notice.cancel()
                counts.seconds += time.perf_counter() - began
        return found

    def kernel(
        self, shared: Any, own: Any, threads: int, settled: int = 0
    ) -> tuple[str, Layout, Any]:
        """(PTX, layout, structure of the results) for a GPU, in blocks of so many threads. Zeros
        and ones of the first `settled` arrays of `shared` are built in."""
        if machine.binding() is None:
            raise Unsupported("llvmlite is not installed")
        leaves, tree = jax.tree.flatten((shared, own))
        number = len(jax.tree.leaves(shared))
        shapes = tuple((np.shape(x), np.result_type(x).str) for x in leaves)
        from .program import plain, written_in_threads

        built_in = [plain(x) for x in leaves[:settled]]
        key = self._key(tree, number, -threads, shapes, built_in)
        found = None if key is None else store.read(key)
        if found is not None and "tree" in found[0]:
            said, code = found
            layout = Layout.of(said["layout"])
            blank = iter([np.zeros(()) for _ in layout.outputs])
            counts.read += 1
            out = jax.tree.structure(trees.rebuilt(said["tree"], blank))
            return code.decode(), layout, out
        closed, shape = self._traced(leaves, tree)
        text, layout = written_in_threads(closed, list(range(number, len(leaves))), built_in)
        ptx = patiently(machine.ptx, text, threads)
        self._keep(key, layout, shape, ptx.encode())
        return ptx, layout, jax.tree.structure(shape)

    def _traced(self, leaves: Any, tree: Any) -> tuple[Any, Any]:
        shapes = [jax.ShapeDtypeStruct(np.shape(x), np.result_type(x)) for x in leaves]
        flat = lambda *leaves: self.function(*tree.unflatten(leaves))  # noqa: E731
        counts.traced += 1
        return jax.make_jaxpr(flat, return_shape=True)(*shapes)

    @staticmethod
    def _keep(key: str | None, layout: Layout, shape: Any, code: bytes, lanes: int = 0) -> None:
        if key is None:
            return
        try:
            said = {"layout": layout.said(), "tree": trees.described(shape), "lanes": lanes}
        except trees.Undescribed:
            return
        store.write(key, said, code)

    def _prepared(
        self, leaves: Any, tree: Any, number: int, lanes: int | None, shapes: Any
    ) -> Packs:
        key = self._key(tree, number, lanes or 0, shapes)
        found = None if key is None else store.read(key)
        if found is not None and "tree" in found[0]:
            said, code = found
            layout = Layout.of(said["layout"])
            try:
                blank = iter([np.zeros(()) for _ in layout.outputs])
                out = jax.tree.structure(trees.rebuilt(said["tree"], blank))
                counts.read += 1
                return Packs(*_loaded(code), layout, said["lanes"], out)
            except (trees.Undescribed, AttributeError, ImportError, StopIteration):
                pass
        return self._made(key, leaves, tree, number, lanes)

    def _made(
        self, key: str | None, leaves: Any, tree: Any, number: int, lanes: int | None
    ) -> Packs:
        from .program import written_in_lanes  # slow to import; not needed for programs on disk

        clock = [time.perf_counter()]
        closed, shape = self._traced(leaves, tree)
        clock.append(time.perf_counter())
        batched = list(range(number, len(leaves)))
        text, layout, lanes = written_in_lanes(closed, batched, lanes)
        clock.append(time.perf_counter())
        effort = _EFFORTS[bisect.bisect_left(_SIZES, layout.operations)]
        code = patiently(machine.object_code, text, effort)
        loaded = _loaded(code)
        clock.append(time.perf_counter())
        counts.compiled += 1
        counts.operations += layout.operations
        spent = (b - a for a, b in itertools.pairwise(clock))
        counts.programs.append(Cost(self.__name__, layout.operations, *spent))
        self._keep(key, layout, shape, code, lanes)
        return Packs(*loaded, layout, lanes, jax.tree.structure(shape))

    def _key(
        self, tree: Any, number: int, lanes: int, shapes: Any, built_in: Any = ()
    ) -> str | None:
        if store.folder() is None:
            return None
        try:
            return fingerprint.fingerprint(
                *("lanes", fingerprint.of_installation(), machine.processor(), lanes, number),
                *(self.function, tree, [list(x) for x in shapes], repr(built_in)),
            )
        except fingerprint.Unknown:
            return None


def _loaded(code: bytes) -> tuple[Any, Any]:
    loaded = machine.load(code, "pppiip")
    return loaded.call, loaded.engine
