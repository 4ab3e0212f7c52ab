"""The points of a sweep: all combinations of values, or samples that fill a space evenly."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import checked_call
from .._messages import listed, shown
from .._numbers import array, count

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

RUN = "run"  # the dimension of samples


@dataclass(frozen=True)
class SweepPoints:
    """Where a sweep runs: `dims` are its dimensions by name with their sizes.

    `values` are the coordinates by name: a grid has one along each of its dimensions, samples have
    all of them along ``"run"``.
    """

    dims: dict[str, int]
    values: dict[str, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(self.dims.values())

    def __len__(self) -> int:
        return math.prod(self.shape)

    def dims_of(self, name: str) -> tuple[str, ...]:
        """The dimensions along which a coordinate goes."""
        first = name if name in self.dims else RUN
        return first, *(f"{name}.{k}" for k in range(self.values[name].ndim - 1))

    def block(self, where: tuple[slice, ...]) -> dict[str, np.ndarray]:
        """The values of some points by name, one row for each in the order of C."""
        along = dict(zip(self.dims, where, strict=True))
        if [*self.dims] == [RUN]:
            return {name: x[along[RUN]] for name, x in self.values.items()}
        axes = [self.values[name][part] for name, part in along.items()]
        mesh = np.meshgrid(*axes, indexing="ij")
        return {name: x.ravel() for name, x in zip(self.dims, mesh, strict=True)}

    def chunks(self, most: int) -> tuple[int, ...]:
        """The shape of blocks with so many points at most, whole along the last dimensions."""
        out: list[int] = []
        for size in reversed(self.shape):
            taken = min(size, max(most // math.prod(out), 1))
            out.append(taken if all(a == b for a, b in zip(out, reversed(self.shape))) else 1)
        return tuple(reversed(out))

    def blocks(self, chunks: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The numbers of all blocks."""
        counts = [range(-(-n // c)) for n, c in zip(self.shape, chunks, strict=True)]
        return list(itertools.product(*counts))

    def where(self, block: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[slice, ...]:
        """The points of one block."""
        return tuple(
            slice(k * c, min((k + 1) * c, n))
            for k, c, n in zip(block, chunks, self.shape, strict=True)
        )


def _named(owner: str, name: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not given or not all(isinstance(k, str) for k in given):
        raise TypeError(
            f"{owner}: {name}={shown(given)} is not a dictionary by name, such as "
            "{'crank.mass': ...}."
        )
    return dict(given)


@checked_call
def grid(values: Mapping[str, Any]) -> SweepPoints:
    """All combinations of the values of some parameters.

    ```python
    hx.many.grid({"crank.mass": np.linspace(1, 3, 50), "coupler.mass": [1.0, 2.0]})
    ```
    """
    found = {}
    for name, x in _named("grid", "values", values).items():
        found[name] = array("grid", f"values[{name!r}]", x, (None,))
        if not found[name].size or np.unique(found[name]).size < found[name].size:
            raise ValueError(
                f"grid: values[{name!r}]={shown(x)} has no values, or equal ones. Give different "
                "values, one or more."
            )
    return SweepPoints({name: x.size for name, x in found.items()}, found)


@checked_call
def samples(values: Mapping[str, ArrayLike]) -> SweepPoints:
    """SweepPoints of your own: arrays with one row for each run, by the names of parameters."""
    found = {
        name: np.atleast_1d(array("samples", f"values[{name!r}]", x))
        for name, x in _named("samples", "values", values).items()
    }
    sizes = {name: len(x) for name, x in found.items()}
    if len(set(sizes.values())) > 1 or not all(sizes.values()):
        said = listed(f"{name} has {n}" for name, n in sizes.items())
        raise ValueError(f"samples: the numbers of rows do not agree, or are 0: {said}.")
    return SweepPoints({RUN: next(iter(sizes.values()))}, found)


@checked_call
def latin_hypercube(ranges: Mapping[str, Any], n: int, *, seed: int = 0) -> SweepPoints:
    """`n` samples, of which each of n equal slices of every parameter has one (McKay, Beckman and
    Conover, 1979).

    `ranges` are (least, most) by the names of parameters, or distributions of `scipy.stats` such as
    ``scipy.stats.norm(2.0, 0.1)``. Equal seeds give equal points.
    """
    from scipy.stats import qmc  # takes a second to import

    owner = "latin_hypercube"
    ranges, n = _named(owner, "ranges", ranges), count(owner, "n", n)
    seed = count(owner, "seed", seed, least=0)
    random = np.random.default_rng(seed)
    design = qmc.LatinHypercube(len(ranges), seed=random)  # pyright: ignore[reportCallIssue]
    unit = design.random(n)
    return _scaled(owner, ranges, unit)


@checked_call
def sobol(ranges: Mapping[str, Any], n: int, *, seed: int = 0) -> SweepPoints:
    """The first `n` points of Sobol's sequence, scrambled after Owen; powers of two fill the space
    most evenly.

    `ranges` are (least, most) by the names of parameters, or distributions of `scipy.stats` such as
    ``scipy.stats.norm(2.0, 0.1)``. Equal seeds give equal points.
    """
    from scipy.stats import qmc

    owner = "sobol"
    ranges, n = _named(owner, "ranges", ranges), count(owner, "n", n)
    seed = count(owner, "seed", seed, least=0)
    random = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of numbers that are no power of two
        design = qmc.Sobol(len(ranges), seed=random)  # pyright: ignore[reportCallIssue]
        unit = design.random(n)
    return _scaled(owner, ranges, unit)


def _scaled(owner: str, ranges: dict[str, Any], unit: np.ndarray) -> SweepPoints:
    """SweepPoints of the unit cube as values of parameters."""
    out = {}
    for (name, given), x in zip(ranges.items(), unit.T, strict=True):
        if callable(getattr(given, "ppf", None)):
            # the ends of the unit interval may be infinite values
            out[name] = np.asarray(given.ppf(np.clip(x, 1e-16, 1 - 1e-16)), dtype=float)
            continue
        low, high = array(owner, f"ranges[{name!r}]", given, (2,))
        if not low < high:
            raise ValueError(
                f"{owner}: ranges[{name!r}]={shown(given)} must be (least, most), the first below "
                "the second."
            )
        out[name] = low + (high - low) * x
    return samples(out)
