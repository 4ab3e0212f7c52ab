"""Who computes the blocks of a sweep: this process, processes of this machine, or a cluster."""

from __future__ import annotations

import itertools
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing import get_context
from typing import Any

from .._messages import explained, shown
from .._numbers import count
from .._optional import require

_OWNER = "sweep"
_AHEAD = 3  # blocks under way for each worker, so that none waits for the next
_DEATHS = 2  # of a worker with one block alone, after which the block is to blame

# What becomes of blocks: their number with what was computed, or the error.
Outcomes = Iterator[tuple[Any, Any]]
Work = Callable[[Any], Any]


class Crashed(Exception):
    """A block was given up by those who compute: its worker died each time, or it was cancelled."""


class Here:
    """This process, one block after the other."""

    workers = 1

    def outcomes(self, work: Work, blocks: Iterable[tuple[Any, Any]]) -> Outcomes:
        """What becomes of (number, values) of blocks."""
        for number, values in blocks:
            try:
                yield number, work(values)
            except Exception as error:
                yield number, error

    def close(self) -> None:
        """Nothing to let go of."""


class Elsewhere:
    """An executor, such as that of a cluster, which survives the loss of workers by itself."""

    def __init__(self, executor: Executor, workers: Callable[[], int]):
        self._executor, self._workers = executor, workers

    @property
    def workers(self) -> int:
        return max(self._workers(), 1)

    def outcomes(self, work: Work, blocks: Iterable[tuple[Any, Any]]) -> Outcomes:
        """What becomes of (number, values) of blocks."""
        packed, left = packed_up(work), iter(blocks)
        running: dict[Any, Any] = {}
        try:
            while True:
                for number, values in itertools.islice(left, self._room(running)):
                    running[self._executor.submit(call, packed, values)] = number
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    error = _error(future)
                    yield running.pop(future), future.result() if error is None else error
        finally:
            for future in running:
                future.cancel()

    def _room(self, running: dict[Any, Any]) -> int:
        return max(_AHEAD * self.workers - len(running), 0)

    def close(self) -> None:
        """The executor belongs to whoever gave it."""


class Processes:
    """Processes of this machine; when one dies, all are begun anew.

    Whose fault it was cannot be told, so the blocks that were under way are tried again one by one.
    """

    def __init__(self, workers: int):
        self.workers = workers
        self._pool = self._begun()

    def _begun(self) -> ProcessPoolExecutor:
        # JAX has threads, which a forked process would miss
        return ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"))

    def outcomes(self, work: Work, blocks: Iterable[tuple[Any, Any]]) -> Outcomes:
        """What becomes of (number, values) of blocks."""
        packed, left = packed_up(work), iter(blocks)
        running: dict[Any, tuple[Any, Any]] = {}
        suspects: deque[tuple[Any, Any]] = deque()
        while True:
            more = itertools.islice(left, max(_AHEAD * self.workers - len(running), 0))
            try:
                for block in more:
                    suspects.append(block)  # until it is under way
                    future = self._pool.submit(call, packed, block[1])
                    running[future] = suspects.pop()
            except BrokenProcessPool:
                pass
            if not running and not suspects:
                return
            if running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    block, error = running.pop(future), _error(future)
                    if isinstance(error, BrokenProcessPool):
                        suspects.append(block)
                    else:
                        yield block[0], future.result() if error is None else error
            if suspects and not running:
                self._restart()
                while suspects:
                    yield self._alone(packed, *suspects.popleft())

    def _alone(self, packed: bytes, number: object, values: object) -> tuple[Any, Any]:
        """What becomes of a block that may have killed its worker."""
        for _ in range(_DEATHS):
            try:
                return number, self._pool.submit(call, packed, values).result()
            except BrokenProcessPool:
                self._restart()
            except Exception as error:
                return number, error
        return number, Crashed("the process that computed it died each time")

    def _restart(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._begun()

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _error(future: Any) -> BaseException | None:
    """Why a future has no result, if it has none."""
    return Crashed("it was cancelled") if future.cancelled() else future.exception()


def workers_of(executor: object) -> Any:
    """Who computes, from what was given as `executor`."""
    if executor is None:
        return Here()
    if isinstance(executor, str):
        distributed = require("distributed")
        try:
            return _cluster(distributed.Client(executor, timeout=10))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{_OWNER}: no scheduler of Dask answers at {executor!r} ({explained(error)}) "
                "Begin one (dask scheduler), or give another address."
            ) from None
    if isinstance(executor, int) and not isinstance(executor, bool):
        return Processes(count(_OWNER, "executor", executor, most=1024))
    if isinstance(executor, Executor):
        return Elsewhere(executor, lambda: getattr(executor, "_max_workers", 4))
    if type(executor).__module__.partition(".")[0] == "distributed" and hasattr(
        executor, "get_executor"
    ):
        return _cluster(executor)
    raise TypeError(
        f"{_OWNER}: executor={shown(executor)} is not known. Give None for this process, a number "
        "of processes, an Executor of concurrent.futures, a Client of Dask or its address "
        "'tcp://...'."
    )


def _cluster(client: Any) -> Elsewhere:
    executor = client.get_executor(pure=False)
    return Elsewhere(executor, lambda: sum(client.nthreads().values()))


def packed_up(work: Work) -> bytes:
    """The work as bytes, which workers keep for all blocks; functions written in a session need
    cloudpickle."""
    try:
        import cloudpickle as packer  # pyright: ignore[reportMissingImports]
    except ImportError:
        packer = pickle
    try:
        return packer.dumps(work)
    except Exception as error:
        raise ValueError(
            f"{_OWNER}: what is to be computed cannot be sent to another process: "
            f"{explained(error)} Functions must stand in a module of yours, or cloudpickle be "
            "installed."
        ) from None


def call(packed: bytes, values: object) -> Any:
    """What a worker does with a block."""
    return _unpacked(packed)(values)


@lru_cache(maxsize=4)
def _unpacked(packed: bytes) -> Work:
    """One work for all blocks, so that its program is compiled once in each worker."""
    return pickle.loads(packed)
