"""A compiled program, called with arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .machine import Loaded, load
from .operations import DTYPES

if TYPE_CHECKING:
    from collections.abc import Sequence


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
        table = np.array([x.__array_interface__["data"][0] for x in given], dtype=np.uint64)
        results = np.array([x.__array_interface__["data"][0] for x in out], dtype=np.uint64)
        room = np.empty(self.layout.room + 64, np.uint8)
        at = room.__array_interface__["data"][0]
        self._call(
            table.__array_interface__["data"][0],
            results.__array_interface__["data"][0],
            at + (-at) % 64,
        )
        return out
