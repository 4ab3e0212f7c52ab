"""Runs on disk: saved states in files of their own, and checkpoints to go on from.

A directory holds `states-000001.npz`, ... (each written once) and `checkpoint.pickle`, which is
replaced as a whole, so that it is valid at any moment and names the state files that belong to it.
Functions of the user's own, which a file cannot hold, are left out and put back when the run is
resumed.
"""

from __future__ import annotations

import io
import os
import pickle
import time
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ._messages import listed, shown
from ._version import __version__
from .compiler import counts
from .integrator.base import FullState

_CHECKPOINT = "checkpoint.pickle"


class StorageError(RuntimeError):
    """A checkpoint that cannot be written, read or resumed."""


def _is_importable(function: Any) -> bool:
    """Whether another process can find a function by its name: not those of a script."""
    if function.__module__ == "__main__":
        return False
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


class _Pickler(pickle.Pickler):
    """Leaves out functions that have no name to be found by, or all; `left_out` says which."""

    def __init__(self, file: Any, everything: bool):
        super().__init__(file, protocol=5)
        self.left_out: list[Any] = []
        self._everything = everything

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, types.FunctionType) and (self._everything or not _is_importable(obj)):
            for k, known in enumerate(self.left_out):
                if known is obj:
                    return k
            self.left_out.append(obj)
            return len(self.left_out) - 1
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, jax.Array):
            return _array, (np.asarray(obj),)
        return NotImplemented


def _array(values: np.ndarray) -> Any:
    return jax.numpy.asarray(values)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, functions: list[Any]):
        super().__init__(file)
        self._functions = functions

    def persistent_load(self, pid: Any) -> Any:
        return self._functions[pid]


def _pickled(thing: Any, everything: bool = False) -> tuple[bytes, list[Any]]:
    """A thing as bytes, and the functions that are not among them."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, everything)
    pickler.dump(thing)
    return buffer.getvalue(), pickler.left_out


def _write(path: Path, data: bytes) -> None:
    """Replace a file as a whole."""
    scratch = path.with_suffix(".new")
    with open(scratch, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)


class Storage:
    """The directory of a run.

    **Arguments:**

    - `path`: the directory, made if need be.
    - `every`: seconds between checkpoints; None for states only.
    - `forget`: whether states that have been written are dropped from memory.
    """

    def __init__(self, path: Any, *, every: float | None, forget: bool):
        self.path, self.every, self.forget = Path(path), every, forget
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"simulate: {shown(str(path))} cannot be made a directory for a run: "
                f"{error.strerror}. Give another path."
            ) from None
        self.files = 0  # state files written
        self.kept = 0  # parts in memory that have been written
        self._last = time.monotonic()
        self._given: Any = None

    def clear(self) -> None:
        """Remove what an earlier run has left."""
        for file in [*self.path.glob("states-*.npz"), self.path / _CHECKPOINT]:
            file.unlink(missing_ok=True)

    def given(self, *things: Any) -> None:
        """What the caller of simulate gave, in whose order functions are left out."""
        self._given = things

    def flush(self, states: Any) -> None:
        """Write the states that are not yet in a file."""
        new = states.parts[self.kept :]
        if new:
            arrays = {}
            for k, (leg, ts, ys) in enumerate(new):
                names = FullState._fields if isinstance(ys, FullState) else ("q", "v")
                arrays[f"{k}.t"], arrays[f"{k}.leg"] = ts, np.asarray(leg)
                arrays |= {f"{k}.{n}": y for n, y in zip(names, ys, strict=True)}
            buffer = io.BytesIO()
            np.savez(buffer, **arrays)
            self.files += 1
            _write(self.path / f"states-{self.files:06d}.npz", buffer.getvalue())
        if self.forget:
            states.parts.clear()
        self.kept = len(states.parts)

    def maybe(self, run: Any, method: Any, state: Any) -> None:
        """A checkpoint if it is time for one; states as soon as there are many."""
        now = time.monotonic()
        if self.every is not None and now - self._last >= self.every:
            self.checkpoint(run, method, state)
        elif self.forget and sum(ts.size for _, ts, _ in run.states.parts) > 2**16:
            self.flush(run.states)

    def checkpoint(self, run: Any, method: Any, state: Any, outcome: Any = None) -> None:
        """Write everything a run goes on from."""
        self.flush(run.states)
        self._last = time.monotonic()
        if self.every is None:
            return
        # without the states, which have files of their own, and without whom to report to
        parts, request, spent = run.states.parts, run.request, run.spent
        run.states.parts, run.request = [], replace(request, progress=None)
        run.spent = spent + time.perf_counter() - run.began
        try:
            body, functions = _pickled((self._given, run, method, state, outcome))
        finally:
            run.states.parts, run.request, run.spent = parts, request, spent
        about = {
            "version": __version__,
            "files": self.files,
            "every": self.every,
            "forget": self.forget,
            "functions": [f.__qualname__ for f in functions],
            "body": body,
        }
        _write(self.path / _CHECKPOINT, pickle.dumps(about))

    def read(self) -> list[tuple[int, np.ndarray, Any]]:
        """All states written so far."""
        parts = []
        for k in range(1, self.files + 1):
            with np.load(self.path / f"states-{k:06d}.npz") as arrays:
                count = sum(name.endswith(".t") for name in arrays.files)
                for i in range(count):
                    full = f"{i}.z" in arrays.files
                    names = FullState._fields if full else ("q", "v")
                    ys = [arrays[f"{i}.{n}"] for n in names]
                    state = FullState(*ys) if full else tuple(ys)
                    parts.append((int(arrays[f"{i}.leg"]), arrays[f"{i}.t"], state))
        return parts

    def gathered(self, legs: Any) -> dict[str, Any]:
        """The states of all files as arrays on disk, for a run that keeps none in memory."""
        sizes, width = [], {"q": 0, "v": 0}
        for k in range(1, self.files + 1):
            with np.load(self.path / f"states-{k:06d}.npz") as arrays:
                names = sorted((n for n in arrays.files if n.endswith(".t")), key=_number)
                sizes += [arrays[n].size for n in names]
                width = {n: arrays[f"0.{n}"].shape[1] for n in ("q", "v")}
        total, at = sum(sizes), 0
        out = {
            name: np.lib.format.open_memmap(
                self.path / f"{name}.npy", mode="w+", dtype=dtype, shape=shape
            )
            for name, dtype, shape in (
                ("t", float, (total,)),
                ("q", float, (total, width["q"])),
                ("v", float, (total, width["v"])),
                ("leg", np.int32, (total,)),
            )
        }
        for k in range(1, self.files + 1):
            with np.load(self.path / f"states-{k:06d}.npz") as arrays:
                for name in sorted((n for n in arrays.files if n.endswith(".t")), key=_number):
                    i = _number(name)
                    end = at + arrays[name].size
                    for what in out:
                        out[what][at:end] = arrays[f"{i}.{what}"]
                    at = end
        for array in out.values():
            array.flush()
        return {**out, "solved": (None,) * len(legs), "legs": tuple(legs)}


def _number(name: str) -> int:
    return int(name.split(".")[0])


def _matching(names: list[str], functions: list[Any]) -> list[Any] | None:
    """Functions of these names, in this order, among those given; None if one is missing."""
    found, rest = [], iter(functions)
    for name in names:
        match = next((f for f in rest if f.__qualname__ == name), None)
        if match is None:
            return None
        found.append(match)
    return found


def load(path: Any, given: tuple[Any, ...]) -> tuple[Storage, Any, Any, Any, Any]:
    """(storage, run, method, state, outcome) of a checkpoint.

    `given` are the things whose functions were left out, None for those that are not given.
    """
    file = Path(path) / _CHECKPOINT
    try:
        about = pickle.loads(file.read_bytes())
    except FileNotFoundError:
        raise StorageError(
            f"resume: there is no checkpoint in {shown(str(path))}. Give the path that simulate "
            "was given as checkpoint; one is written some seconds after a run has begun."
        ) from None
    except (pickle.UnpicklingError, EOFError, KeyError, IndexError) as error:
        raise StorageError(
            f"resume: {shown(str(file))} is not a checkpoint of holonax ({error})."
        ) from None
    if about["version"] != __version__:
        raise StorageError(
            f"resume: the checkpoint was written by holonax {about['version']}, this is "
            f"{__version__}. Resume it with that version."
        )
    found = _matching(about["functions"], _pickled(given, everything=True)[1])
    if found is None:
        raise StorageError(
            "resume: the run uses functions that a file cannot hold: "
            f"{listed(about['functions'])}. Give system= (and events=) as they were given to "
            "simulate, or define these functions at the top of a module."
        )
    given, run, method, state, outcome = _Unpickler(io.BytesIO(about["body"]), found).load()
    storage = Storage(path, every=about["every"], forget=about["forget"])
    storage.files = about["files"]
    storage.given(*given)
    if not storage.forget:
        run.states.parts = storage.read()
        storage.kept = len(run.states.parts)
    run.began = time.perf_counter()
    run.compiled_before = counts.so_far
    return storage, run, method, state, outcome
