"""Trees taken apart into what is traced and what is compiled in."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

if TYPE_CHECKING:
    from jaxtyping import PyTree


class Parts(NamedTuple):
    """A tree taken apart: its arrays, which are traced, and all else, which is compiled in."""

    arrays: tuple[Any, ...]
    rest: Hashable

    @staticmethod
    def of(tree: Any) -> Parts:
        leaves, structure = jax.tree.flatten(tree)
        is_array = tuple(isinstance(x, jax.Array | np.ndarray | np.generic) for x in leaves)
        arrays = tuple(x for x, traced in zip(leaves, is_array, strict=True) if traced)
        others = tuple(x for x, traced in zip(leaves, is_array, strict=True) if not traced)
        return Parts(arrays, (structure, is_array, others))

    @staticmethod
    def joined(arrays: PyTree, rest: PyTree) -> Any:
        """The tree again."""
        structure, is_array, others = rest
        arrays, others = iter(arrays), iter(others)
        return structure.unflatten(next(arrays if traced else others) for traced in is_array)
