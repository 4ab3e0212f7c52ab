"""Runs on a GPU: one thread for each, the whole run in one call of a kernel."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..compiler.batched import Lanes
from ..compiler.cuda import THREADS, Kernel, NoGPU, driver
from ..compiler.executable import Layout
from ..compiler.operations import DTYPES, Unsupported
from .batch import OWNER, Batch
from .one_run import Ended, Own, Shared

_MOST = 1 << 20  # runs of one call
_SHARE = 0.5  # of the free memory that one call may take


def driver_trouble() -> str | None:
    """Why there is no GPU; None if there is one."""
    try:
        driver()
    except NoGPU as reason:
        return str(reason)
    return None


def kernel_of(known: Lanes, shared: Shared, one: Own) -> tuple[str, Layout, Any]:
    """(PTX, layout, structure of the results) of runs like this one."""
    settled = len(jax.tree.leaves(shared.arrays))  # the first of what is shared
    return known.kernel(shared, one, THREADS, settled)


class OnGPU:
    """Runs on the first GPU of this machine."""

    def __init__(self, known: Lanes, shared: Shared, batch: Batch):
        trouble = driver_trouble()
        if trouble is not None:
            raise RuntimeError(
                f'{OWNER}: no GPU can be used: {trouble}. Use device="cpu", or a machine with an '
                "NVIDIA GPU and its driver."
            )
        one = jax.tree.map(lambda x: np.asarray(x, dtype=float)[0], batch.own(0, 1))
        try:
            ptx, self._layout, self._tree = kernel_of(known, shared, one)
        except Unsupported as reason:
            raise RuntimeError(
                f"{OWNER}: this mechanism or method cannot be computed on a GPU ({reason}). Use "
                'device="cpu".'
            ) from None
        self._kernel = Kernel(ptx)
        leaves = jax.tree.leaves(shared)
        kinds = [DTYPES[kind] for kind, _ in self._layout.inputs]
        self._shared = [np.asarray(x, dtype=kind) for x, kind in zip(leaves, kinds, strict=False)]
        self._own_kinds = kinds[len(leaves) :]
        free = driver().free()
        self.least = self.most = max(1024, min(_MOST, int(_SHARE * free / self._bytes())))

    def _bytes(self) -> int:
        """What one run needs."""
        arrays = [(kind, shape) for kind, shape, _ in self._layout.outputs]
        arrays += self._layout.inputs[len(self._shared) :]
        return sum(DTYPES[kind].itemsize * int(np.prod(shape, dtype=int)) for kind, shape in arrays)

    @property
    def description(self) -> str:
        return f"threads of the GPU {driver().name}"

    def ended(self, own: Own, stop: np.ndarray) -> Ended:
        leaves = jax.tree.leaves(own)
        runs = len(leaves[0])
        given = [
            np.ascontiguousarray(np.asarray(x, dtype=kind).reshape(runs, -1).T)
            for x, kind in zip(leaves, self._own_kinds, strict=True)
        ]
        outputs = [
            (int(np.prod(shape, dtype=int)), DTYPES[kind], zeroed)
            for kind, shape, zeroed in self._layout.outputs
        ]
        found = self._kernel(self._shared, given, outputs, runs)
        shapes = [shape for _, shape, _ in self._layout.outputs]
        out: list[Any] = [
            np.ascontiguousarray(x.T).reshape(runs, *shape)
            for x, shape in zip(found, shapes, strict=True)
        ]
        return jax.tree.unflatten(self._tree, out)
