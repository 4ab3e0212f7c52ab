"""A compiled program, called with arrays."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .machine import Loaded, load
from .operations import DTYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

_ALIGNED = 64  # bytes that arrays begin at multiples of
_LARGE, _HUGE = 1 << 20, 1 << 30  # bytes between which room is kept for the next call


class _Kept(threading.local):
    """The room of the last call in this thread: new room would be mapped page by page, which takes
    as long as some steps of a large mechanism."""

    room = np.empty(0, np.uint8)


_kept = _Kept()


def _room(size: int) -> np.ndarray:
    """Room for so many bytes, as it was left."""
    if not _LARGE <= size <= _HUGE:
        return np.empty(size, np.uint8)
    if _kept.room.size < size:
        _kept.room = np.empty(0, np.uint8)  # not both at once
        _kept.room = np.empty(size, np.uint8)
    return _kept.room


def let_go() -> None:
    """Give the room of this thread back."""
    _kept.room = np.empty(0, np.uint8)


def _address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


@dataclass(frozen=True)
class Layout:
    """The arrays of a program: (kind, shape) of those that go in; (kind, shape, whether it has to
    be zero at first) of those that come out; the room for others in bytes; how many operations;
    whether these are in loops over arrays or in rows, which does not matter once it is compiled."""

    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...], bool], ...]
    room: int
    operations: int
    in_loops: bool = False
    in_rows: bool = False

    def said(self) -> list[Any]:
        """As plain data."""
        return [self.inputs, self.outputs, self.room, self.operations]

    @staticmethod
    def of(said: list[Any]) -> Layout:
        """From plain data."""
        inputs, outputs, room, operations = said
        return Layout(
            tuple((kind, tuple(shape)) for kind, shape in inputs),
            tuple((kind, tuple(shape), zeroed) for kind, shape, zeroed in outputs),
            room,
            operations,
        )


class Program:
    """A compiled program: called with arrays, returns arrays."""

    def __init__(self, code: bytes, layout: Layout):
        self.code, self.layout = code, layout
        self._loaded: Loaded = load(code)
        self._call = self._loaded.call
        self._kinds = [DTYPES[kind] for kind, _ in layout.inputs]
        self._outputs = [
            (shape, DTYPES[kind], np.zeros if zeroed else np.empty)
            for kind, shape, zeroed in layout.outputs
        ]

    def __call__(self, leaves: Sequence[np.ndarray]) -> list[np.ndarray]:
        given = [
            x
            if type(x) is np.ndarray and x.dtype == kind and x.flags.c_contiguous
            else np.ascontiguousarray(x, dtype=kind)
            for x, kind in zip(leaves, self._kinds, strict=True)
        ]
        out = [make(shape, kind) for shape, kind, make in self._outputs]
        table = np.array([_address(x) for x in given], dtype=np.uint64)
        results = np.array([_address(x) for x in out], dtype=np.uint64)
        room = _room(self.layout.room + _ALIGNED)
        at = _address(room)
        self._call(_address(table), _address(results), at + (-at) % _ALIGNED)
        return out
