"""Saved states on disk: one file after the other, each written once, as links of a chain.

A file knows its run, its number, and the checksum of the one before it; so the last checksum, which
a checkpoint knows, stands for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

import numpy as np

from ...problem import FullState
from .container import Spoilt, StorageError, packed, unpacked
from .folder import Folder

_KIND = "states"
Part = tuple[int, np.ndarray, Any]  # the leg, times, and states of a `States`


def _name(number: int) -> str:
    return f"states-{number:06d}.hxs"


class StateFiles:
    """The files of one run: how many there are, with how many states, and the checksum of the last
    one."""

    def __init__(self, folder: Folder, run: str, count: int = 0, rows: int = 0, digest: str = ""):
        self._folder, self.run = folder, run
        self.count, self.rows, self.digest = count, rows, digest

    def add(self, parts: list[Part]) -> None:
        """Write one more file."""
        legs, arrays = [], []
        for leg, ts, ys in parts:
            legs.append([int(leg), isinstance(ys, FullState)])
            arrays += [ts, *ys]
        number = self.count + 1
        said = {"run": self.run, "number": number, "before": self.digest, "parts": legs}
        data, digest = packed(_KIND, said, arrays)
        self._folder.write(_name(number), data)
        self.count, self.digest = number, digest
        self.rows += sum(ts.size for _, ts, _ in parts)

    def read(self) -> Iterator[list[Part]]:
        """The states of each file; raises `StorageError` if one is missing or spoilt."""
        digest = ""
        for number in range(1, self.count + 1):
            try:
                content = unpacked(_KIND, self._folder.read(_name(number)))
                said = content.said
                if [said["run"], said["number"], said["before"]] != [self.run, number, digest]:
                    raise Spoilt("it belongs to another run, or to another place")
                parts = list(_parts(said["parts"], content.arrays))
            except FileNotFoundError:
                raise StorageError(f"{_name(number)} is missing") from None
            except OSError as error:
                raise StorageError(f"{_name(number)} cannot be read: {error.strerror}") from None
            except (Spoilt, KeyError, TypeError, ValueError) as error:
                raise StorageError(f"{_name(number)} is spoilt: {error}") from None
            digest = content.digest
            yield parts
        if digest != self.digest:
            raise StorageError(f"{_name(self.count)} is not the one that was written last")

    def gathered(self, more: list[Part]) -> dict[str, Any]:
        """t, q, v and the leg of each state as arrays on disk: those of all files, and `more`.

        Written as other files are: a map of an empty file would end the process where the disk is
        full.
        """
        total = self.rows + sum(ts.size for _, ts, _ in more)
        with ExitStack() as stack:
            files: dict[str, Any] = {}
            for some in chain(self.read(), [more]):
                for leg, ts, ys in some:
                    rows = {"t": ts, "q": ys[0], "v": ys[1], "leg": np.full(ts.size, leg, np.int32)}
                    for name, x in rows.items():
                        if name not in files:
                            files[name] = stack.enter_context(self._folder.replacing(_array(name)))
                            _begin(files[name], x, total)
                        files[name].write(np.ascontiguousarray(x).tobytes())
        return {name: np.load(self._folder.path / _array(name), mmap_mode="c") for name in files}


def _array(name: str) -> str:
    return f"holonax-{name}.npy"


def _begin(file: Any, rows: np.ndarray, total: int) -> None:
    """The head of an array of numpy's with `total` rows like these."""
    about = {"descr": rows.dtype.str, "fortran_order": False, "shape": (total, *rows.shape[1:])}
    np.lib.format.write_array_header_1_0(file, about)


def _parts(legs: Any, arrays: list[np.ndarray]) -> Iterator[Part]:
    rest: Iterator[Any] = iter(arrays)
    for leg, full in legs:
        ts = next(rest)
        if full:
            yield int(leg), ts, FullState(*(next(rest) for _ in FullState._fields))
        else:
            yield int(leg), ts, (next(rest), next(rest))
