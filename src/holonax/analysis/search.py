"""What searches over named parameters share: their values as one vector, and bounds of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .._messages import listed, shown

if TYPE_CHECKING:
    from collections.abc import Sequence


def named(known: Mapping[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
    """The entries of a vector by name, in the shapes of those known."""
    ends = np.cumsum([0, *(value.size for value in known.values())])
    return {
        name: x[a:b].reshape(known[name].shape)
        for name, a, b in zip(known, ends[:-1], ends[1:], strict=True)
    }


def limits_of(
    owner: str,
    bounds: Mapping[str, tuple[float, float | Sequence[float]]] | None,
    names: tuple[str, ...],
    known: Mapping[str, np.ndarray],
    scale: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of all entries, in units of `scale`."""
    bounds = {} if bounds is None else bounds
    if not isinstance(bounds, Mapping) or set(bounds) - set(names):
        raise ValueError(
            f"{owner}: bounds={shown(bounds)} must be a dictionary of (least, most) for some of "
            f"{listed(names)}."
        )
    sides: list[list[np.ndarray]] = [[], []]
    for name in names:
        given = bounds.get(name, (-np.inf, np.inf))
        try:
            pair = [np.broadcast_to(np.asarray(x, dtype=float), known[name].shape) for x in given]
            good = len(pair) == 2 and bool(np.all(pair[0] < pair[1]))
        except (TypeError, ValueError):
            good, pair = False, []
        if not good:
            raise ValueError(
                f"{owner}: bounds[{name!r}]={shown(given)} must be (least, most), the first below "
                "the second."
            )
        for side, x in zip(sides, pair, strict=True):
            side.append(np.ravel(x))
    low, high = (np.concatenate(side) / scale for side in sides)
    return low, high


def entries(names: tuple[str, ...], known: Mapping[str, np.ndarray]) -> list[str]:
    """A name for each entry."""
    out = []
    for name in names:
        x = known[name]
        if x.ndim == 0:
            out.append(name)
        else:
            out += [f"{name}[{', '.join(map(str, i))}]" for i in np.ndindex(*x.shape)]
    return out
