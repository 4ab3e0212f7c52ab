"""`sweep`: a mechanism or a function over many values, block by block into one dataset on disk."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import check_options, checked_call, folder
from .._messages import explained, listed, shown, unknown_name
from .._numbers import count, real
from .._version import __version__
from ..compiler.fingerprint import Unknown, fingerprint
from ..model.model import Model
from ..run.status import Failure
from ..start.consistent import Start
from ..system.base import System
from .asked import reporter
from .dataset import Dataset
from .launch import ensemble
from .points import SweepPoints, grid
from .reductions import Bands
from .roads import RunsDone
from .swept import DONE, Sweep
from .workers import Crashed, workers_of

if TYPE_CHECKING:
    from .outcomes import Ensemble
    from .workers import Elsewhere, Here

_OWNER = "sweep"
_BATCH = 4096  # runs of a block at most,
_BLOCKS = 100  # and blocks of a sweep at least, where there are runs enough
_ENTRY = re.compile(r"(.+)\[([\d, ]+)\]")
_TAKEN = ("parameters", "runs", "starts", "progress")

Named = dict[str, tuple[tuple[str, ...], np.ndarray]]


@checked_call
def sweep(
    what: object,
    over: SweepPoints | Mapping[str, Any],
    *,
    path: str | Path,
    batch: int | None = None,
    executor: object = None,
    progress: bool | Callable[[RunsDone], None] = False,
    **options: Any,
) -> Sweep:
    """Run a mechanism, or call a function, at many points, and keep the results in a dataset.

    Results are written as they come, so the dataset can be read while it grows, by
    ``hx.many.open_sweep(path)`` or `xarray.open_zarr(path)`. The same call again computes what is
    missing, and nothing twice: after a crash, a kill or Ctrl-C.

    **Arguments:**

    - `what`: (system, start) as `model.build()` returns them, or a `Model`: each point is a run of
      `ensemble`. Or a function that is given a dictionary of arrays, with one entry for each point
      of a block, and returns a dictionary of arrays with such a first axis.
    - `over`: values of parameters by name, of which all combinations are taken; or what
      `hx.many.latin_hypercube`, `sobol`, `samples` or `grid` of `hx.many` return. ``"D.at_a[0]"``
      is an entry of a parameter.
    - `path`: the dataset, a folder. Its coordinates are named after the parameters.
    - `batch`: points of a block, which is computed and written at once.
    - `executor`: by default this process, all cores. A number: so many processes of this machine.
      A `distributed.Client` of Dask or its address: a cluster. Or an executor of
      `concurrent.futures`. Blocks of workers that die are computed by others.
    - `progress`: True prints a line twice a second at most; a function is given a `RunsDone`.
    - `options`: those of `ensemble`: `t_end` or `times`, `dt` or `rtol`, `reduce`, `save`, ...

    ```python
    points = hx.many.sobol({"crank.mass": (1, 3), "coupler.mass": (1, 2)}, 2**16)
    found = hx.sweep(
        model, points, path="masses.zarr", t_end=1.0, dt=1e-3, save="none",
        reduce={"swing": hx.many.Largest("rocker.angle")},
    )
    found["swing"]
    ```
    """
    points = over if isinstance(over, SweepPoints) else grid(over)
    work = _work_of(what, points, options)
    _check_names(points)
    dataset = Dataset(folder(_OWNER, "path", path))
    report = reporter(progress)
    busy = f"{_OWNER}: another process writes to {dataset.path}. Wait for it, or give another path."
    with closing(workers_of(executor)) as workers, dataset.alone(busy):
        writer = _Writer(dataset, points, work, batch)
        return _followed(writer, workers, work, report)


def _followed(writer: _Writer, workers: Elsewhere | Here, work: Any, report: Any) -> Sweep:
    """Compute what is missing."""
    points, chunks, missing = writer.points, writer.chunks, writer.missing()
    began = last = time.perf_counter()
    done = before = len(points) - sum(writer.size(block) for block in missing)
    failed: dict[tuple[int, ...], str] = {}
    interrupted = False
    blocks = ((block, points.block(points.where(block, chunks))) for block in missing)
    try:
        for block, found in workers.outcomes(work, blocks):
            if isinstance(found, BaseException):
                if not isinstance(found, Exception):  # an interrupt
                    raise found
                if not writer.written:  # all will fail
                    _refuse(found)
                failed[block] = explained(found)
                continue
            writer.write(block, found)
            done += writer.size(block)
            now = time.perf_counter()
            if report is not None and now - last > 0.5:
                last, spent = now, now - began
                left = spent * (len(points) - done) / max(done - before, 1)
                report(RunsDone(done, len(points), 0, spent, left))
    except KeyboardInterrupt:
        interrupted = True
    return Sweep(writer.dataset, failed=failed, interrupted=interrupted)


def _refuse(error: Exception) -> None:
    """The error of the first block, which is that of all."""
    if isinstance(error, Crashed):
        raise RuntimeError(f"{_OWNER}: the first block cannot be computed: {error}.") from None
    raise error


class _Writer:
    """The dataset of a sweep: what is missing of it, and blocks to be added."""

    def __init__(self, dataset: Dataset, points: SweepPoints, work: Any, batch: Any):
        self.dataset, self.points = dataset, points
        self.written = False
        if batch is not None:
            batch = count(_OWNER, "batch", batch)
        if dataset.exists():
            self.chunks = self._resumed(work, batch)
            return
        if dataset.path.exists() and any(x.name[0] != "." for x in dataset.path.iterdir()):
            raise ValueError(
                f"{_OWNER}: path={str(dataset.path)!r} is a folder with other things in it. Give "
                "another, such as 'runs.zarr'."
            )
        usual = max(min(len(points) // _BLOCKS, _BATCH), 1)
        self.chunks = points.chunks(usual if batch is None else batch)
        self._begin(work)

    def _begin(self, work: Any) -> None:
        said = {
            "made_by": f"holonax {__version__}",
            "points": _digest(self.points),
            "what": work.digest,
            "blocks": list(self.chunks),
            "dims": list(self.points.dims),
            "shape": list(self.points.shape),
            "parameters": list(self.points.values),
        }
        self.dataset.create(said)
        for name, x in self.points.values.items():
            self.dataset.put(name, self.points.dims_of(name), x)

    def _resumed(self, work: Any, batch: int | None) -> tuple[int, ...]:
        said = self.dataset.attributes
        chunks = tuple(said["blocks"])
        others = {
            "of other points": said["points"] == _digest(self.points),
            "of another system, function or options": said["what"] == work.digest,
            "with another batch": batch is None or chunks == self.points.chunks(batch),
        }
        for what, same in others.items():
            if not same:
                raise ValueError(
                    f"{_OWNER}: {self.dataset.path} holds a sweep {what}. To go on with it give "
                    "what it was begun with; else give another path."
                )
        for name, x in self.points.values.items():  # those that a kill has left out
            if name not in self.dataset.names or not self.dataset.has(name, (0,) * x.ndim):
                self.dataset.put(name, self.points.dims_of(name), x)
        return chunks

    def missing(self) -> list[tuple[int, ...]]:
        """The numbers of the blocks that are not there."""
        blocks = self.points.blocks(self.chunks)
        return [block for block in blocks if not self.dataset.has(DONE, block)]

    def size(self, block: tuple[int, ...]) -> int:
        """The points of a block."""
        return math.prod(x.stop - x.start for x in self.points.where(block, self.chunks))

    def write(self, block: tuple[int, ...], found: tuple[Named, Named]) -> None:
        """Add what was computed; that it is done is said last."""
        arrays, coordinates = found
        known = self.dataset.names
        for name, (dims, x) in coordinates.items():
            if name not in known:
                self.dataset.put(name, dims, x)
        where = self.points.where(block, self.chunks)
        shape = tuple(x.stop - x.start for x in where)
        for name, (dims, x) in sorted(arrays.items(), key=lambda item: item[0] == DONE):
            rest = x.shape[1:]
            if name not in known:
                said = _FLAGS if name == DONE else None
                self.dataset.add(
                    *(name, (*self.points.dims, *dims), self.points.shape + rest),
                    *(self.chunks + tuple(max(n, 1) for n in rest), x.dtype, said),
                )
            if self.dataset.shape(name) != self.points.shape + rest:
                raise ValueError(
                    f"{_OWNER}: {name} has the shape {rest} for some points and "
                    f"{self.dataset.shape(name)[len(shape) :]} for others. It must be the same."
                )
            self.dataset.write(name, block + (0,) * len(rest), x.reshape(shape + rest))
        self.written = True


_FLAGS = {
    "flag_values": [int(x) for x in Failure],
    "flag_meanings": " ".join(x.name.lower() for x in Failure),
}


@dataclass(frozen=True)
class _Runs:
    """Runs of a system, as the work of a sweep."""

    system: System
    start: Start
    names: tuple[str, ...]
    options: dict[str, Any]

    @cached_property
    def digest(self) -> str:
        """What is computed, as a number."""
        given = {k: x for k, x in self.options.items() if k not in ("threads", "device")}
        try:
            return fingerprint(self.system, self.start, sorted(given.items()))
        except Unknown:
            return f"{type(self.system).__name__} {sorted(given)}"

    def __call__(self, values: dict[str, np.ndarray]) -> tuple[Named, Named]:
        runs = len(next(iter(values.values())))
        given = _parameters(self.system, values)
        found = ensemble(self.system, self.start, parameters=given, runs=runs, **self.options)
        if found.stats["interrupted"]:
            raise KeyboardInterrupt
        out: Named = {
            DONE: ((), found.code.astype(np.int16)),
            "ended": ((), found.ended),
            "steps": ((), found.steps.astype(np.int64)),
        }
        timed = ("time",) if found.q is not None and found.q.ndim == 3 else ()
        if found.q is not None:
            out["q"] = (*timed, "coordinate"), found.q
            out["v"] = (*timed, "velocity"), found.v
        for name, x in found.reduced.items():
            out |= _columns(name, x)
        return out, self._coordinates(found, bool(timed))

    def _coordinates(self, found: Ensemble, timed: bool) -> Named:
        out: Named = {"time": (("time",), np.asarray(found.t))} if timed else {}
        if found.q is not None:
            names = self.system.coordinate_names(found.q.shape[-1])
            rates = self.system.velocity_names(found.v.shape[-1])
            out["coordinate"] = ("coordinate",), np.asarray(names, dtype=np.str_)
            out["velocity"] = ("velocity",), np.asarray(rates, dtype=np.str_)
        return out


@dataclass(frozen=True)
class _Calls:
    """Calls of a function, as the work of a sweep."""

    function: Callable[[dict[str, np.ndarray]], Any]

    @cached_property
    def digest(self) -> str:
        """What is computed, as a number."""
        try:
            return fingerprint(self.function)
        except Unknown:
            kind = self.function
            return str(getattr(kind, "__qualname__", type(kind).__qualname__))

    def __call__(self, values: dict[str, np.ndarray]) -> tuple[Named, Named]:
        n = len(next(iter(values.values())))
        found = self.function(values)
        if not isinstance(found, Mapping) or not found:
            raise TypeError(
                f"{_OWNER}: the function returns {shown(found)}. It must return a dictionary of "
                "arrays by name, with one row for each point of those it was given."
            )
        out: Named = {DONE: ((), np.zeros(n, np.int16))}
        for name, given in found.items():
            x = real(given)
            if not isinstance(name, str) or name == DONE or x is None or x.shape[:1] != (n,):
                got = shown(given) if x is None else f"an array of shape {x.shape}"
                raise ValueError(
                    f"{_OWNER}: for {n} points the function returns {shown(name)}: {got}. It must "
                    f"return numbers with one row for each point, under names other than {DONE!r}."
                )
            out |= _columns(name, x)
        return out, {}


def _columns(name: str, x: np.ndarray) -> Named:
    """Numbers of each run with names for their axes; several for a tuple."""
    if isinstance(x, tuple | list):
        parts = [_columns(f"{name}.{k}", y) for k, y in enumerate(x)]
        return {key: y for part in parts for key, y in part.items()}
    x = np.asarray(x)
    x = x.astype(np.int64) if x.dtype.kind in "bu" else x
    return {name: (tuple(f"{name}.axis{k}" for k in range(x.ndim - 1)), x)}


def _work_of(what: object, points: SweepPoints, options: dict[str, Any]) -> Any:
    """What is computed at each point, checked."""
    if isinstance(what, Model):
        what = what.build()
    if isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], System):
        system, start = what
        for name in _TAKEN:
            if name in options:
                raise TypeError(f"{_OWNER}: {name} is not for a sweep; the points say what varies.")
        check_options(sweep, options, ensemble)
        for name, reduction in (options.get("reduce") or {}).items():
            if isinstance(reduction, Bands) or name in points.values or name in _OURS:
                raise ValueError(
                    f"{_OWNER}: reduce[{name!r}] cannot be kept for each point: it has the name "
                    "of something else, or is a Bands, which goes over all runs. Rename it, or use "
                    "hx.ensemble."
                )
        _parameters(system, points.block((slice(0, 1),) * len(points.shape)))
        return _Runs(system, start, tuple(points.values), options)
    if callable(what):
        if options:
            raise TypeError(
                f"{_OWNER}: {listed(options)} mean nothing for a function. Leave them out."
            )
        return _Calls(what)
    raise TypeError(
        f"{_OWNER}: {shown(what)} cannot be swept. Give (system, start) as model.build() returns "
        "them, a Model, or a function of a dictionary of arrays."
    )


_OURS = (DONE, "ended", "steps", "q", "v", "time", "coordinate", "velocity")


def _parameters(system: System, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters of the system for some runs; entries of vectors are put into these."""
    known = system.parameters()
    out: dict[str, np.ndarray] = {}
    for name, x in values.items():
        entry = None if name in known else _ENTRY.fullmatch(name)
        if entry is None or entry[1] not in known:
            if name not in known:
                raise KeyError(unknown_name(_OWNER, "parameter", name, known))
            out[name] = x
            continue
        whole = np.asarray(known[entry[1]], dtype=float)
        index = tuple(int(k) for k in entry[2].split(","))
        if len(index) != whole.ndim or any(k >= n for k, n in zip(index, whole.shape)):
            raise KeyError(
                f"{_OWNER}: {entry[1]} has the shape {whole.shape} and no entry [{entry[2]}]."
            )
        if entry[1] not in out:
            out[entry[1]] = np.tile(whole, (len(x), *[1] * whole.ndim))
        out[entry[1]][(slice(None), *index)] = x
    return out


def _check_names(points: SweepPoints) -> None:
    for name in points.values:
        if "/" in name or name.startswith(".") or name in _OURS or not name:
            raise ValueError(
                f"{_OWNER}: {name!r} cannot name an array of the dataset. Take another name."
            )


def _digest(points: SweepPoints) -> str:
    digest = hashlib.sha256(repr(points.dims).encode())
    for name, x in points.values.items():
        digest.update(name.encode() + np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()
