"""What a sweep has computed so far, read from its dataset."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from .._arguments import checked_call, checked_class, folder
from .._messages import listed, unknown_name
from .._optional import require
from ..run.status import Failure
from .dataset import Dataset

DONE = "code"  # the array that says of a point that it was computed, and how its run ended


@checked_class
class Sweep:
    """The dataset of a sweep, as far as it has come.

    - `sweep["swing"]`: an array by its name, with one axis for each dimension; NaN (or -1) where
      nothing is computed yet. Coordinates are those of the parameters.
    - `runs` and `done`: how many points there are, and how many are computed; `complete`.
    - `failed`: blocks that could not be computed by this call, with the reason; the same call again
      tries them once more. `interrupted`: whether Ctrl-C ended it.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        failed: dict[tuple[int, ...], str] | None = None,
        interrupted: bool = False,
    ):
        self._dataset = dataset
        self.failed = failed or {}
        self.interrupted = interrupted

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._dataset.path

    @property
    def names(self) -> list[str]:
        """The arrays, coordinates first."""
        return self._dataset.names

    @property
    def dims(self) -> dict[str, int]:
        """The dimensions of the points, with their sizes."""
        said = self._dataset.attributes
        return dict(zip(said["dims"], said["shape"], strict=True))

    @property
    def runs(self) -> int:
        """How many points there are."""
        return math.prod(self.dims.values())

    @property
    def done(self) -> int:
        """How many are computed."""
        return int(np.count_nonzero(self["code"] >= 0)) if DONE in self.names else 0

    @property
    def complete(self) -> bool:
        """Whether all are computed."""
        return self.done == self.runs

    @property
    def success(self) -> np.ndarray:
        """Whether the run of each point has come to its end."""
        return self["code"] == 0

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.names:
            raise KeyError(unknown_name("Sweep", "array", name, self.names))
        return self._dataset.read(name)

    def to_xarray(self) -> Any:
        """All of it as an `xarray.Dataset`."""
        xarray = require("xarray")
        said = self._dataset.attributes
        first = {*said["parameters"], "time", "coordinate", "velocity"}
        arrays = {
            name: (self._dataset.dims(name), self._dataset.read(name), self._dataset.said(name))
            for name in self.names
        }
        return xarray.Dataset(
            {name: x for name, x in arrays.items() if name not in first},
            {name: x for name, x in arrays.items() if name in first},
            {"made_by": said["made_by"]},
        )

    def __repr__(self) -> str:
        said = " x ".join(f"{name} ({n})" for name, n in self.dims.items())
        lines = [f"Sweep of {self.runs} points, {self.done} done: {said}"]
        if self.done:
            codes, counts = np.unique(self["code"], return_counts=True)
            for code, n in zip(codes, counts, strict=True):
                if code > 0:
                    lines.append(f"  {n} not successful: {Failure(int(code)).sentence}")
        lines.append(f"  {listed(self.names, 12)} in {self.path}")
        if self.failed:
            block, reason = next(iter(self.failed.items()))
            lines.append(f"  {len(self.failed)} blocks failed, {block} first: {reason}")
        return "\n".join(lines)


@checked_call
def open_sweep(path: str | Path) -> Sweep:
    """A sweep that is complete or still growing, from its dataset."""
    dataset = Dataset(folder("open_sweep", "path", path))
    if not dataset.exists() or "parameters" not in dataset.attributes:
        raise FileNotFoundError(
            f"open_sweep: there is no sweep in {str(dataset.path)!r}. Give the path that hx.sweep "
            "was given."
        )
    return Sweep(dataset)
