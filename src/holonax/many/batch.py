"""What each run of an ensemble has of its own, checked: starts and named parameters.

Either arrays with one row for each run, or a function of the runs' numbers, which is asked for some
hundreds at a time, so that all of them need not fit into memory.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._messages import explained, listed, shown
from .._numbers import array, count, real
from ..start.consistent import Start
from ..system.base import System
from .one_run import Own

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

OWNER = "ensemble"


@dataclass(frozen=True)
class Batch:
    """Runs with their own numbers; `q` and `v` are None where all have the same start."""

    runs: int
    starts: Callable[[np.ndarray], Any] | tuple[np.ndarray, np.ndarray] | None
    parameters: Callable[[np.ndarray], Any] | dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]
    sizes: tuple[int, int]

    def own(self, first: int, last: int) -> Own:
        """The numbers of some of the runs, with an axis for these."""
        numbers = np.arange(first, last)
        q = v = None
        if callable(self.starts):
            q, v = _pair(_asked("starts", self.starts, numbers), self.sizes, len(numbers))
        elif self.starts is not None:
            q, v = (x[first:last] for x in self.starts)
        if callable(self.parameters):
            given = _mapping(_asked("parameters", self.parameters, numbers))
            if set(given) != set(self.shapes):
                raise ValueError(
                    f"{OWNER}: the function for parameters returns {listed(map(shown, given))} for "
                    f"some runs and {listed(map(shown, self.shapes))} for others. It must always "
                    "return the same names."
                )
            values = _values(given, self.shapes, len(numbers))
        else:
            values = {name: x[first:last] for name, x in self.parameters.items()}
        return Own(q, v, values)


def _asked(name: str, function: Callable[[np.ndarray], Any], numbers: np.ndarray) -> Any:
    """What the user's function says for some runs."""
    try:
        return function(numbers)
    except Exception as error:
        raise ValueError(
            f"{OWNER}: the function for {name} fails for the runs {numbers[0]} to {numbers[-1]}: "
            f"{explained(error)} It is given an array of their numbers and must take one."
        ) from error


def _mapping(given: object) -> dict[str, np.ndarray]:
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(
            f"{OWNER}: parameters={shown(given)} are not parameters by name. Give a dictionary "
            "such as {'crank.mass': masses}, or a function that returns one."
        )
    return dict(given)


def _rows(name: str, value: object, axes: int) -> np.ndarray:
    """Numbers with `axes` or more axes, the first for the runs. One that is not finite stops its
    run alone; what all runs share is refused."""
    x = real(value)
    return array(OWNER, name, value) if x is None or x.ndim < axes else np.array(x)


def _values(
    given: Mapping[str, ArrayLike], shapes: Mapping[str, tuple[int, ...]], runs: int | None
) -> dict[str, np.ndarray]:
    out = {}
    for name, value in given.items():
        x = _rows(f"parameters[{name!r}]", value, 1)
        wanted = shapes[name]
        if x.ndim != 1 + len(wanted) or x.shape[1:] != wanted:
            one = f"(runs, {', '.join(map(str, wanted))})" if wanted else "(runs,)"
            its = f"has {wanted}" if wanted else "is one number"
            raise ValueError(
                f"{OWNER}: parameters[{name!r}] has the shape {x.shape}, but the parameter {its}. "
                f"Give one for each run, an array of shape {one}; a value that all runs share "
                "belongs into system.with_parameters(...)."
            )
        if runs is not None and len(x) != runs:
            raise ValueError(
                f"{OWNER}: parameters[{name!r}] has {len(x)} rows for {runs} runs. Give one for "
                "each."
            )
        out[name] = x
    return out


def _pair(
    given: object, sizes: tuple[int, int] | None, runs: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """(q, v) of several runs, with an axis for these."""
    if not (isinstance(given, tuple | list) and len(given) == 2):
        raise TypeError(
            f"{OWNER}: starts={shown(given)} is not a start. Give what hx.consistent(...) or "
            "model.build() returns, a pair (q, v) of arrays with a row for each run, or a "
            "function of the runs' numbers that returns such a pair."
        )
    q, v = (_rows(f"starts[{i}]", x, 2) for i, x in enumerate(given))
    for name, x in (("q", q), ("v", v)):
        if x.ndim not in (1, 2) or (runs is not None and (x.ndim != 2 or len(x) != runs)):
            rows = "one row for each run" if runs is None else f"{runs} rows, one for each run"
            raise ValueError(
                f"{OWNER}: {name} of starts has the shape {x.shape}. Give {rows}, or one vector "
                "for all where nothing but parameters differs."
            )
    if sizes is not None and (q.shape[-1], v.shape[-1]) != sizes:
        raise ValueError(
            f"{OWNER}: the starts have {q.shape[-1]} coordinates and {v.shape[-1]} velocities; the "
            f"system has {sizes[0]} and {sizes[1]}."
        )
    return q, v


def _typical(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first start whose numbers are finite."""
    n = max(len(x) if x.ndim == 2 else 1 for x in (q, v))
    rows = [np.broadcast_to(x, (n, x.shape[-1])) for x in (q, v)]
    good = np.isfinite(np.hstack(rows)).all(axis=1)
    if not good.any():
        raise ValueError(f"{OWNER}: no start is made of finite numbers. Give one at least.")
    k = int(np.argmax(good))
    return rows[0][k], rows[1][k]


def checked_batch(
    system: System, starts: Any, parameters: object, runs: Any
) -> tuple[Batch, tuple[np.ndarray, np.ndarray], Start | None]:
    """The batch, one start that is typical of it, and that start if it was given as one."""
    runs = None if runs is None else count(OWNER, "runs", runs)
    known = {name: np.shape(x) for name, x in system.parameters().items()}
    first = np.arange(1)
    asked = _asked("parameters", parameters, first) if callable(parameters) else parameters
    given = _mapping({} if asked is None else asked)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            remedy = (
                f"Did you mean {near[0]!r}?" if near else f"There are {listed(known) or 'none'}."
            )
            raise KeyError(f"{OWNER}: the system has no parameter {name!r}. {remedy}")
    shapes = {name: known[name] for name in given}
    values = _values(given, shapes, 1 if callable(parameters) else None)
    start = starts if isinstance(starts, Start) else None
    if isinstance(starts, list) and starts and all(isinstance(x, Start) for x in starts):
        start = starts[0]
        starts = tuple(np.stack([getattr(x, y) for x in starts]) for y in "qv")
    if start is starts and start is not None:
        q, v = np.asarray(start.q), np.asarray(start.v)
    else:
        pair = _asked("starts", starts, first) if callable(starts) else starts
        q, v = _pair(pair, None, 1 if callable(starts) else None)
    lengths = {f"parameters[{name!r}]": len(x) for name, x in values.items()}
    if callable(parameters):
        lengths = {}
    if not callable(starts):
        lengths |= {f"{n} of starts": len(x) for n, x in (("q", q), ("v", v)) if x.ndim == 2}
    if runs is not None:
        lengths["runs"] = runs
    if len(set(lengths.values())) > 1:
        said = listed(
            f"{name} has {n}" if name != "runs" else f"runs={n}" for name, n in lengths.items()
        )
        raise ValueError(f"{OWNER}: the numbers of runs do not agree: {said}. Give equal ones.")
    asked_for = callable(starts) or callable(parameters)
    if not asked_for and lengths.keys() <= {"runs"}:
        raise ValueError(
            f"{OWNER}: nothing differs from run to run. Give starts or parameters with a row for "
            "each run, or use hx.simulate for one."
        )
    runs = next(iter(lengths.values()), None)
    if runs is None:
        raise ValueError(
            f"{OWNER}: how many runs there are cannot be told from functions. Give runs=."
        )
    if runs == 0:
        raise ValueError(f"{OWNER}: there are no runs, for the batch is empty. Give one at least.")
    typical = _typical(q, v)
    sizes = typical[0].size, typical[1].size
    if system.velocity_size(sizes[0]) != sizes[1]:
        raise ValueError(
            f"{OWNER}: the start has {sizes[0]} coordinates and {sizes[1]} velocities, which do "
            "not fit. Make one with hx.consistent(system, q, v)."
        )
    own: Any = starts if callable(starts) else None
    if own is None and (q.ndim == 2 or v.ndim == 2):
        own = tuple(np.broadcast_to(x, (runs, x.shape[-1])) for x in (q, v))
    batch = Batch(runs, own, parameters if callable(parameters) else values, shapes, sizes)
    return batch, typical, start
