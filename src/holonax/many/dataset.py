"""Arrays on disk in the format Zarr, version 2, written block by block and read while they grow.

A dataset is a folder. Each array has a folder with its description (`.zarray`, JSON) and a file for
each of its blocks, the plain numbers in the order of C. A block that is not there yet is made of
the fill value. Files appear whole or not at all (written beside and renamed), so that the dataset
is valid at every moment, and which blocks are done is told by their files. Written here without the
library, which is only needed by those who read with it: `xarray.open_zarr(path)`.
https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
"""

from __future__ import annotations

import itertools
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

_GROUP, _ATTRIBUTES, _ARRAY = ".zgroup", ".zattrs", ".zarray"
_ALL = ".zmetadata"
_DIMENSIONS = "_ARRAY_DIMENSIONS"  # as xarray calls them


class Dataset:
    """A folder of arrays."""

    def __init__(self, path: Path):
        self.path = path

    def exists(self) -> bool:
        """Whether there is one."""
        return (self.path / _ALL).exists()

    @property
    def _metadata(self) -> dict[str, Any]:
        return json.loads((self.path / _ALL).read_text())["metadata"]

    @property
    def attributes(self) -> dict[str, Any]:
        """What is said of the whole."""
        return self._metadata[_ATTRIBUTES]

    @property
    def names(self) -> list[str]:
        """The arrays."""
        ending = f"/{_ARRAY}"
        return [key.removesuffix(ending) for key in self._metadata if key.endswith(ending)]

    def create(self, attributes: dict[str, Any]) -> None:
        """An empty dataset."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._describe({_GROUP: {"zarr_format": 2}, _ATTRIBUTES: attributes})

    def add(
        self,
        name: str,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        dtype: np.dtype,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        """One more array, empty."""
        described = {
            "zarr_format": 2,
            "shape": list(shape),
            "chunks": list(chunks),
            "dtype": dtype.str,
            "compressor": None,
            "fill_value": _fill(dtype)[1],
            "order": "C",
            "filters": None,
        }
        (self.path / name).mkdir(exist_ok=True)
        said = {_DIMENSIONS: list(dims), **(attributes or {})}
        self._describe(
            {**self._metadata, f"{name}/{_ARRAY}": described, f"{name}/{_ATTRIBUTES}": said}
        )

    def put(self, name: str, dims: tuple[str, ...], values: np.ndarray) -> None:
        """One more array, as a whole."""
        self.add(name, dims, values.shape, tuple(max(n, 1) for n in values.shape), values.dtype)
        self.write(name, (0,) * values.ndim, values)

    def write(self, name: str, block: tuple[int, ...], values: np.ndarray) -> None:
        """One block of an array; at the array's end it may be smaller."""
        kind = self._described(name)
        whole = np.full(kind["chunks"], _fill(np.dtype(kind["dtype"]))[0], kind["dtype"])
        whole[tuple(map(slice, values.shape))] = values
        _replace(self._file(name, block), whole.tobytes())

    def has(self, name: str, block: tuple[int, ...]) -> bool:
        """Whether a block is there."""
        return self._file(name, block).exists()

    def read(self, name: str) -> np.ndarray:
        """An array as far as it has come."""
        kind = self._described(name)
        shape, chunks, dtype = kind["shape"], kind["chunks"], np.dtype(kind["dtype"])
        out = np.full(shape, _fill(dtype)[0], dtype)
        counts = [range(-(-n // c)) for n, c in zip(shape, chunks, strict=True)]
        for block in itertools.product(*counts):
            try:
                plain = self._file(name, block).read_bytes()
            except FileNotFoundError:
                continue
            here = tuple(slice(k * c, (k + 1) * c) for k, c in zip(block, chunks, strict=True))
            part = out[here]
            part[...] = np.frombuffer(plain, dtype).reshape(chunks)[tuple(map(slice, part.shape))]
        return out

    def dims(self, name: str) -> tuple[str, ...]:
        """The dimensions of an array."""
        return tuple(self._metadata[f"{name}/{_ATTRIBUTES}"][_DIMENSIONS])

    def shape(self, name: str) -> tuple[int, ...]:
        """The sizes of an array."""
        return tuple(self._described(name)["shape"])

    def said(self, name: str) -> dict[str, Any]:
        """What is said of an array."""
        known = self._metadata[f"{name}/{_ATTRIBUTES}"]
        return {key: x for key, x in known.items() if key != _DIMENSIONS}

    def _described(self, name: str) -> dict[str, Any]:
        return self._metadata[f"{name}/{_ARRAY}"]

    def _file(self, name: str, block: tuple[int, ...]) -> Path:
        return self.path / name / (".".join(map(str, block)) or "0")

    def _describe(self, metadata: dict[str, Any]) -> None:
        """Write what is new; the description of all of it last, by which readers go."""
        for key, said in metadata.items():
            text = json.dumps(said, indent=1).encode()
            file = self.path / key
            if not file.exists() or file.read_bytes() != text:
                _replace(file, text)
        every = {"zarr_consolidated_format": 1, "metadata": metadata}
        _replace(self.path / _ALL, json.dumps(every, indent=1).encode())

    @contextmanager
    def alone(self, complaint: str) -> Any:
        """Keep others from writing; the system lets go of it when this process ends in any way."""
        try:
            import fcntl
        except ImportError:  # not on this system
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(complaint) from None
            yield


def _fill(dtype: np.dtype) -> tuple[Any, Any]:
    """What stands for a number that is not there yet, and how JSON writes it."""
    if dtype.kind == "f":
        return np.nan, "NaN"
    return (-1, -1) if dtype.kind == "i" else ("", "")


def _replace(file: Path, content: bytes) -> None:
    """A file that is there as a whole, or as it was."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    with beside.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    beside.replace(file)
