"""Functions of time that know where they are not smooth: `Step`, `Pulse`, `Table`.

They may be given wherever a force, a torque, an actuator or a driver takes a function of time, and
say in `breaks` at which times a run has to stop and begin anew, so that no step passes over what
they do. Sums, differences and multiples of them know it as well; and a function of your own that
uses one is looked into.
"""

from __future__ import annotations

import abc
import functools
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax.numpy as jnp
import numpy as np

from .._arguments import choice
from .._messages import shown
from .._numbers import number, real
from ..linalg.indexing import last_not_after

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import ArrayLike


class Signal(abc.ABC):
    """A function of time [s] with known `breaks`; its value is a number or a vector."""

    @property
    @abc.abstractmethod
    def breaks(self) -> tuple[float, ...]:
        """The times at which it is not smooth [s]."""

    @abc.abstractmethod
    def value(self, t: Any) -> Any:
        """The value at the time t [s]."""

    @property
    def announced(self) -> bool:
        """Whether its breaks are all that it does without warning; else it may be silent for long
        and then act between two of them."""
        return True

    def __call__(self, t: Array, *_: object) -> Array:
        """The value at `t`; whatever else the function of an actuator is given is not used."""
        return self.value(t)

    def __add__(self, other: Signal | ArrayLike) -> Signal:
        return _Combined(self, other, 1.0)

    __radd__ = __add__

    def __sub__(self, other: Signal | ArrayLike) -> Signal:
        return _Combined(self, other, -1.0)

    def __rsub__(self, other: Signal | ArrayLike) -> Signal:
        return _Combined(-self, other, 1.0)

    def __mul__(self, factor: ArrayLike) -> Signal:
        return _Combined(self, None, _numbers("a signal", "factor", factor))

    __rmul__ = __mul__

    def __neg__(self) -> Signal:
        return self * -1.0


def _numbers(owner: str, what: str, value: object) -> float | tuple[float, ...]:
    """A number, or a tuple of numbers; refused if not finite."""
    found = real(value)
    array = np.full((), np.nan) if found is None else found
    if array.ndim > 1 or not np.all(np.isfinite(array)):
        raise ValueError(
            f"{owner}: {what}={shown(value)} must be a finite number, or a vector of them."
        )
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def _time(owner: str, what: str, value: object) -> float:
    return number(owner, what, value, wanted="a finite time [s]")


@dataclass(frozen=True, init=False, repr=False)
class _Combined(Signal):
    """One signal times a number, or plus a multiple of another signal or number."""

    first: Signal
    second: Any
    factor: Any

    def __init__(
        self, first: Signal, second: Signal | ArrayLike | None, factor: float | tuple[float, ...]
    ):
        if second is not None and not isinstance(second, Signal):
            second = _numbers("a signal", "what is added", second)
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "second", second)
        object.__setattr__(self, "factor", factor)

    @property
    def breaks(self) -> tuple[float, ...]:
        own = self.second.breaks if isinstance(self.second, Signal) else ()
        return tuple(sorted({*self.first.breaks, *own}))

    def value(self, t: Any) -> Any:
        first, factor = self.first.value(t), jnp.asarray(self.factor)
        if self.second is None:
            return first * factor
        second = self.second.value(t) if isinstance(self.second, Signal) else self.second
        return first + factor * jnp.asarray(second)


@dataclass(frozen=True, init=False)
class Step(Signal):
    """`before` until the time `at` [s], `after` from then on.

    **Arguments:**

    - `at`: the time of the step [s].
    - `after`, `before`: the values, numbers or vectors of one size.
    """

    at: float
    after: Any
    before: Any

    def __init__(self, at: float, after: ArrayLike = 1.0, before: ArrayLike = 0.0):
        object.__setattr__(self, "at", _time("Step", "at", at))
        object.__setattr__(self, "after", _numbers("Step", "after", after))
        object.__setattr__(self, "before", _numbers("Step", "before", before))

    @property
    def breaks(self) -> tuple[float, ...]:
        return (self.at,)

    def value(self, t: Any) -> Any:
        return jnp.where(t < self.at, jnp.asarray(self.before), jnp.asarray(self.after))


@dataclass(frozen=True, init=False)
class Pulse(Signal):
    """`height` from the time `start` to the time `end` [s], zero before and after.

    **Arguments:**

    - `start`, `end`: when it begins and ends [s].
    - `height`: the value between, a number or a vector.
    """

    start: float
    end: float
    height: Any

    def __init__(self, start: float, end: float, height: ArrayLike = 1.0):
        object.__setattr__(self, "start", _time("Pulse", "start", start))
        object.__setattr__(self, "end", _time("Pulse", "end", end))
        object.__setattr__(self, "height", _numbers("Pulse", "height", height))
        if not self.start < self.end:
            raise ValueError(
                f"Pulse: end={self.end} s is not after start={self.start} s. Exchange them."
            )

    @property
    def breaks(self) -> tuple[float, ...]:
        return self.start, self.end

    def value(self, t: Any) -> Any:
        inside = (t >= self.start) & (t < self.end)
        return jnp.where(inside, jnp.asarray(self.height), 0.0)


@dataclass(frozen=True, init=False, repr=False)
class Table(Signal):
    """Values at given times, and between them; before the first and after the last it is constant.

    **Arguments:**

    - `times`: increasing [s], two or more.
    - `values`: one for each time, numbers or vectors of one size.
    - `kind`: ``"linear"`` between the times; ``"cubic"``, a natural cubic spline, for drivers,
      which must have a second derivative; ``"previous"``, which keeps each value until the next
      time.
    """

    times: tuple[float, ...]
    pieces: tuple[Any, ...]  # for each interval the coefficients of rising powers
    kind: str

    def __init__(
        self,
        times: ArrayLike,
        values: ArrayLike,
        kind: Literal["linear", "cubic", "previous"] = "linear",
    ):
        x, y = real(times), real(values)
        if x is None or y is None:
            raise ValueError("Table: times and values must be arrays of numbers.")
        if x.ndim != 1 or x.size < 2 or y.ndim not in (1, 2) or len(y) != x.size:
            raise ValueError(
                f"Table: times of shape {x.shape} and values of shape {y.shape} do not go "
                "together. Give two times or more, and a value for each."
            )
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y)) and np.all(np.diff(x) > 0)):
            raise ValueError("Table: times must increase, and all numbers be finite. Sort them.")
        choice("Table", "kind", kind, ("linear", "cubic", "previous"))
        object.__setattr__(self, "times", tuple(x.tolist()))
        object.__setattr__(self, "pieces", _nested(_polynomials(x, y, kind)))
        object.__setattr__(self, "kind", kind)

    @property
    def breaks(self) -> tuple[float, ...]:
        return (self.times[0], self.times[-1]) if self.kind == "cubic" else self.times

    def value(self, t: Any) -> Any:
        x = np.array(self.times)
        k = last_not_after(x, t)
        within = jnp.where(t < x[0], x[0], jnp.where(t < x[-1], t, x[-1]))
        s = within - jnp.asarray(x)[k]
        out = 0.0
        for part in reversed(np.array(self.pieces)):
            out = out * s + jnp.asarray(part)[k]
        return out

    def __repr__(self) -> str:
        return f"Table({len(self.times)} times, kind={self.kind!r})"


def _polynomials(x: np.ndarray, y: np.ndarray, kind: str) -> np.ndarray:
    """Coefficients of rising powers of t - x[k], (powers, intervals + 1, ...); the last is for the
    times after the last one."""
    if kind == "previous":
        return y[None]
    if kind == "linear":
        slope = np.diff(y, axis=0) / np.diff(x).reshape(-1, *[1] * (y.ndim - 1))
        rows = np.stack([y[:-1], slope])
    else:
        from scipy.interpolate import CubicSpline

        rows = CubicSpline(x, y, bc_type="natural").c[::-1]
    last = np.concatenate([y[-1:], np.zeros((len(rows) - 1, *y.shape[1:]))])[:, None]
    return np.concatenate([rows, last], axis=1)


def _nested(x: np.ndarray) -> Any:
    """An array as tuples, which can be compared and hashed."""
    return tuple(_nested(part) for part in x) if x.ndim else float(x)


def signals_in(thing: object) -> list[Signal]:
    """The signals that a function is, or refers to: in its closure, defaults, and globals."""
    found: list[Signal] = []
    seen: set[int] = set()

    def look(x: Any, depth: int) -> None:
        if id(x) in seen or depth > 8:
            return
        seen.add(id(x))
        if isinstance(x, Signal):
            found.append(x)
        elif isinstance(x, types.FunctionType):
            inside = [y for cell in x.__closure__ or () for y in _content(cell)]
            named = [x.__globals__[n] for n in _names(x.__code__) if n in x.__globals__]
            defaults = [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
            for y in (*inside, *defaults, *named):
                look(y, depth + 1)
        elif isinstance(x, types.MethodType):
            look(x.__func__, depth + 1)
            look(x.__self__, depth + 1)
        elif isinstance(x, functools.partial):
            for y in (x.func, *x.args, *x.keywords.values()):
                look(y, depth + 1)
        elif type(x) in (list, tuple) and len(x) <= 64:
            for y in x:
                look(y, depth + 1)
        elif type(x) is dict and len(x) <= 64:
            for y in x.values():
                look(y, depth + 1)

    look(thing, 0)
    return found


def _content(cell: Any) -> list[Any]:
    """What is in a cell of a closure; nothing, if it was not yet filled."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _names(code: types.CodeType) -> set[str]:
    """The global names that a function, or one inside it, refers to."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*(_names(c) for c in inner))


def check_breaks(owner: str, breaks: object) -> np.ndarray:
    """Times given as breaks, sorted; refused unless each is a finite number."""
    found = real(breaks)
    times = np.full(1, np.nan) if found is None else np.atleast_1d(found)
    if times.ndim != 1 or not np.all(np.isfinite(times)):
        raise ValueError(
            f"{owner}: breaks={shown(breaks)} must be a list of finite times [s], such as "
            "[5.0, 6.0]."
        )
    return np.unique(times)
