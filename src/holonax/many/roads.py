"""How the runs of an ensemble are computed: in the lanes of vectors on all cores, or under XLA.

Runs are taken in blocks of about a tenth of a second. A block is one call that does not hold
Python's lock, so as many are under way as there are threads.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import jax
import numpy as np

from ..compiler.batched import Lanes, Packs
from .batch import Batch
from .one_run import Ended, Own, RunPlan, Shared, one_run

_SECONDS = 0.1  # that a block takes
_MOST = 4096  # runs of one, so that few are lost by an interrupt,
_BYTES = 1 << 26  # and what they may keep
_LISTENING = 0.05  # seconds between two looks at progress and interrupts
_BY_XLA = 256  # runs of a block under XLA


@dataclass(frozen=True)
class RunsDone:
    """How far an ensemble has come: runs `done` of `runs`, those that `failed`, seconds spent and
    to come."""

    done: int
    runs: int
    failed: int
    elapsed: float
    remaining: float

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return (
            f"{self.done} of {self.runs} runs{failed}, {self.elapsed:.0f} s elapsed, about "
            f"{self.remaining:.0f} s to go"
        )


class Road(Protocol):
    """A way to compute some runs."""

    @property
    def description(self) -> str:
        """What it is, in words."""
        ...

    @property
    def least(self) -> int:
        """The runs that are computed at once anyway."""
        ...

    @property
    def most(self) -> int:
        """The most runs that are computed at once."""
        ...

    def ended(self, own: Own, stop: np.ndarray) -> Ended:
        """How runs ended, each array with an axis for these; rubbish if `stop` became true."""
        ...


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InLanes:
    """Runs in the lanes of vectors."""

    def __init__(self, program: Packs, shared: Shared):
        self._program, self._shared = program, jax.tree.leaves(shared)
        self.least = program.lanes
        kept = sum(8 * int(np.prod(shape, dtype=int)) for _, shape, _ in program.layout.outputs)
        self.most = max(min(_MOST, _BYTES // max(kept, 1)), program.lanes)

    @property
    def description(self) -> str:
        return f"{self._program.lanes} lanes of this processor's vectors"

    def ended(self, own: Own, stop: np.ndarray) -> Ended:
        leaves = self._program(self._shared, jax.tree.leaves(own), stop)
        return jax.tree.unflatten(self._program.tree, leaves)


@lru_cache(maxsize=16)
def _by_xla(plan: Hashable) -> Any:
    """Many runs of one structure."""

    def run(shared: Shared, own: Own) -> Ended:
        return one_run(plan, shared, own)  # pyright: ignore[reportArgumentType]

    return jax.jit(jax.vmap(run, (None, 0)))


class UnderXLA:
    """Runs by `vmap`, compiled by XLA: for what the compiler for lanes does not take."""

    least = most = _BY_XLA

    def __init__(self, plan: RunPlan, shared: Shared, reason: str):
        self._reason, self._shared = reason, shared
        self._many = _by_xla(plan)

    @property
    def description(self) -> str:
        return f"vmap under XLA ({self._reason})"

    def ended(self, own: Own, stop: np.ndarray) -> Ended:
        runs = len(jax.tree.leaves(own)[0])
        short = _BY_XLA - runs
        if short > 0:  # another size would be another program
            fill = lambda x: np.concatenate([x, np.repeat(x[-1:], short, axis=0)])  # noqa: E731
            own = jax.tree.map(fill, own)
        found = self._many(self._shared, own)
        return jax.tree.map(lambda x: np.asarray(x)[:runs], found)


def compiled(known: Lanes, shared: Shared, batch: Batch) -> InLanes:
    """The road in lanes; raises `Unsupported`."""
    one = jax.tree.map(lambda x: np.asarray(x, dtype=float)[0], batch.own(0, 1))
    return InLanes(known.program(shared, one), shared)


class _Work:
    """Blocks of runs, handed out to threads."""

    def __init__(self, batch: Batch, road: Road, threads: int, sink: Callable[[int, Ended], None]):
        self.batch, self.road, self.sink, self.threads = batch, road, sink, threads
        self.stop = np.zeros(1, np.uint8)
        self.lock = threading.Lock()
        self.next, self.done, self.failed = 0, 0, 0
        self.error: BaseException | None = None
        self._speed = 0.0  # runs a second in one thread

    def take(self) -> tuple[int, int, Own | None]:
        """The next block, with its numbers; functions of the user are called one at a time, for
        one block after the other."""
        with self.lock:
            size = max(self.road.least, min(int(self._speed * _SECONDS), self.road.most))
            left = self.batch.runs - self.next
            size = min(size, max(-(-left // self.threads), self.road.least))
            size = -(-size // self.road.least) * self.road.least
            first = self.next
            self.next = last = min(first + size, self.batch.runs)
            return first, last, self.batch.own(first, last) if first < last else None

    def work(self) -> None:
        """What a thread does."""
        try:
            while not self.stop[0]:
                first, last, own = self.take()
                if own is None:
                    return
                began = time.perf_counter()
                ended = self.road.ended(own, self.stop)
                spent = time.perf_counter() - began
                if self.stop[0]:
                    return
                with self.lock:
                    self._speed = (last - first) / max(spent, 1e-6)
                    self.sink(first, ended)
                    self.done += last - first
                    self.failed += int(np.count_nonzero(ended.code))
        except BaseException as error:
            self.error = self.error or error
            self.stop[0] = 1


def follow(
    batch: Batch,
    road: Road,
    threads: int,
    sink: Callable[[int, Ended], None],
    report: Callable[[RunsDone], None] | None,
) -> bool:
    """Compute all runs, each block handed to `sink` with the number of its first run; returns
    whether they were interrupted."""
    work = _Work(batch, road, threads, sink)
    began = last = time.perf_counter()
    workers = [threading.Thread(target=work.work, daemon=True) for _ in range(threads)]
    interrupted = False
    try:
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            for worker in workers:
                worker.join(_LISTENING / len(workers))
            now = time.perf_counter()
            if report is not None and work.done and now - last > 0.5:
                last, spent = now, now - began
                left = spent * (batch.runs / work.done - 1)
                report(RunsDone(work.done, batch.runs, work.failed, spent, left))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        work.stop[0] = 1
        for worker in workers:
            if worker.ident is not None:
                worker.join()
    if work.error is not None:
        raise work.error
    return interrupted
