"""What is observed of each run on the way, so that its states need not be kept.

An observer is a function of (t, q, v), or the name of a quantity or coordinate. A reduction makes
one value of what it sees at the start and after each step.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import checked_class
from .._messages import shown
from .._numbers import finite_number

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree

Observer = Callable[[Any, Any, Any], Any] | str


class Moving(NamedTuple):
    """What moves: the system of a run, and the rates (of position, of velocity) at (t, q, v)."""

    system: Any
    rates: Callable[[Any, Any, Any], Any]


class StepTimes(NamedTuple):
    """When a step has begun and ended [s]."""

    begin: Any
    end: Any


class Reduction(abc.ABC):
    """One value, or a few, of a whole run."""

    @abc.abstractmethod
    def first(self, moving: Moving, t: float | Array, q: Array, v: Array) -> PyTree:
        """What is remembered at the start."""

    @abc.abstractmethod
    def after(
        self, moving: Moving, seen: PyTree, keep: bool | Array, step: StepTimes, q: Array, v: Array
    ) -> PyTree:
        """What is remembered after a step to the state (q, v), where it is kept."""

    @abc.abstractmethod
    def result(self, seen: PyTree, t: float | Array) -> PyTree:
        """What is returned for a run that has come to the time t."""

    def named(self, resolved: Callable[[str], Any]) -> Reduction:
        """The same, with an observer for the name of one."""
        return self


@checked_class
class _Observing(Reduction):
    """A reduction of one observer."""

    def __init__(self, observer: Observer):
        if not callable(observer) and not isinstance(observer, str):
            raise TypeError(
                f"{type(self).__name__}: {shown(observer)} is no observer. Give a function of "
                "(t, q, v), or the name of a quantity such as 'crank.angle'."
            )
        self.observer: Any = observer

    def _key(self) -> tuple[object, ...]:
        return type(self), self.observer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Observing) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def named(self, resolved: Callable[[str], Any]) -> Reduction:
        if not isinstance(self.observer, str):
            return self
        made = copy.copy(self)
        made.observer = resolved(self.observer)
        return made

    def see(self, moving: Moving, t: float | Array, q: Array, v: Array) -> Array:
        """The observed value."""
        return observed(self.observer, moving.system, t, q, v)


@dataclass(frozen=True)
class Coordinate:
    """A coordinate by its number, as an observer."""

    number: int

    def __call__(self, t: float | Array, q: Array, v: Array) -> Array:
        return q[self.number]


@dataclass(frozen=True)
class Named:
    """A quantity of a mechanism by its name; that of a run follows from the run's own numbers."""

    name: str


def observed(observer: Any, system: Any, t: float | Array, q: Array, v: Array) -> Array:
    """What an observer sees of a state."""
    function = system.quantity(observer.name) if isinstance(observer, Named) else observer
    return jnp.asarray(function(t, q, v), dtype=float)


def _where(keep: bool | Array, new: PyTree, old: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, old)


@checked_class
class Largest(_Observing):
    """The largest value at the start and after each step, entry by entry."""

    def first(self, moving: Moving, t: float | Array, q: Array, v: Array) -> PyTree:
        return self.see(moving, t, q, v)

    def after(
        self, moving: Moving, seen: PyTree, keep: bool | Array, step: StepTimes, q: Array, v: Array
    ) -> PyTree:
        return _where(keep, jnp.maximum(seen, self.see(moving, step.end, q, v)), seen)

    def result(self, seen: PyTree, t: float | Array) -> PyTree:
        return seen


@checked_class
class Smallest(_Observing):
    """The smallest value at the start and after each step, entry by entry."""

    def first(self, moving: Moving, t: float | Array, q: Array, v: Array) -> PyTree:
        return self.see(moving, t, q, v)

    def after(
        self, moving: Moving, seen: PyTree, keep: bool | Array, step: StepTimes, q: Array, v: Array
    ) -> PyTree:
        return _where(keep, jnp.minimum(seen, self.see(moving, step.end, q, v)), seen)

    def result(self, seen: PyTree, t: float | Array) -> PyTree:
        return seen


@checked_class
class Last(_Observing):
    """The value at the end of a run, or at the last good state of one that fails."""

    def first(self, moving: Moving, t: float | Array, q: Array, v: Array) -> PyTree:
        return self.see(moving, t, q, v)

    def after(
        self, moving: Moving, seen: PyTree, keep: bool | Array, step: StepTimes, q: Array, v: Array
    ) -> PyTree:
        return _where(keep, self.see(moving, step.end, q, v), seen)

    def result(self, seen: PyTree, t: float | Array) -> PyTree:
        return seen


@checked_class
class Mean(_Observing):
    """The mean over the time, by the trapezoidal rule over the steps."""

    def first(self, moving: Moving, t: float | Array, q: Array, v: Array) -> PyTree:
        x = self.see(moving, t, q, v)
        return jnp.asarray(t, dtype=float), x, jnp.zeros_like(x)

    def after(
        self, moving: Moving, seen: PyTree, keep: bool | Array, step: StepTimes, q: Array, v: Array
    ) -> PyTree:
        begin, last, total = seen
        x = self.see(moving, step.end, q, v)
        return _where(keep, (begin, x, total + 0.5 * (step.end - step.begin) * (last + x)), seen)

    def result(self, seen: PyTree, t: float | Array) -> PyTree:
        begin, last, total = seen
        span = t - begin
        return jnp.where(span > 0, total / jnp.where(span > 0, span, 1.0), last)


@checked_class
class FirstPassage(_Observing):
    """The time [s] at which a value first comes to `level`, from below or above; NaN if it never
    does.

    In the step in which it does, the value is the cubic that has its values and rates at both ends.
    """

    def __init__(self, observer: Observer, level: float = 0.0):
        super().__init__(observer)
        self.level = finite_number("FirstPassage", "level", level)

    def _key(self) -> tuple[object, ...]:
        return type(self), self.observer, self.level

    def _off(self, moving: Moving, t: float | Array, q: Array, v: Array) -> Array:
        return self.see(moving, t, q, v) - self.level

    def first(self, moving: Moving, t: float | Array, q: Array, v: Array) -> PyTree:
        x = self._off(moving, t, q, v)
        return x, jnp.where(x == 0, t, jnp.nan), q, v

    def after(
        self, moving: Moving, seen: PyTree, keep: bool | Array, step: StepTimes, q: Array, v: Array
    ) -> PyTree:
        last, found, q0, v0 = seen
        x = self._off(moving, step.end, q, v)
        new = jnp.isnan(found) & (last * x <= 0) & (last != x)
        span = step.end - step.begin

        def within() -> Array:
            """The share of the step."""
            begin = span * self._rate(moving, step.begin, q0, v0)
            end = span * self._rate(moving, step.end, q, v)

            def halved(_: object, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
                low, high = bounds
                s = (low + high) / 2
                there = _cubic(s, last, x, begin, end)
                before = (there * last > 0) & (there != 0)
                return jnp.where(before, s, low), jnp.where(before, high, s)

            bounds = jnp.zeros_like(x), jnp.ones_like(x)
            return jax.lax.fori_loop(0, 50, halved, bounds)[1]

        share = jax.lax.cond(jnp.any(new & keep), within, lambda: jnp.ones_like(x))
        found = jnp.where(new, step.begin + share * span, found)
        return _where(keep, (x, found, q, v), seen)

    def _rate(self, moving: Moving, t: float | Array, q: Array, v: Array) -> Array:
        """How fast the value changes."""
        velocity, acceleration = moving.rates(t, q, v)

        def ahead(h: Array) -> Array:
            return self._off(
                moving, t + h, moving.system.retract(q, h * velocity), v + h * acceleration
            )

        return jax.jvp(ahead, (jnp.zeros(()),), (jnp.ones(()),))[1]

    def result(self, seen: PyTree, t: float | Array) -> PyTree:
        return seen[1]


def _cubic(s: Array, x0: Array, x1: Array, rate0: Array, rate1: Array) -> Array:
    """Hermite's, on [0, 1]."""
    mean = x0 + s * (x1 - x0)
    off = (1 - s) * (rate0 - (x1 - x0)) - s * (rate1 - (x1 - x0))
    return mean + s * (1 - s) * off


@checked_class
class Bands(_Observing):
    """What a value was over all runs at each of the times: their mean, standard deviation, smallest
    and largest value. Runs are added up as they come, and those that have failed left out."""

    def first(self, moving: Moving, t: float | Array, q: Array, v: Array) -> PyTree:
        return self.see(moving, t, q, v)

    def after(
        self, moving: Moving, seen: PyTree, keep: bool | Array, step: StepTimes, q: Array, v: Array
    ) -> PyTree:
        return seen

    def result(self, seen: PyTree, t: float | Array) -> PyTree:
        return seen


@checked_class
class Fold(Reduction):
    """A reduction of your own, in `jax.numpy`: ``begin(t, q, v)`` is what is remembered at the
    start, ``update(seen, t0, t1, q, v)`` after a step to (t1, q, v), ``finish(seen, t)`` what is
    returned, by default what is remembered. All are arrays, or tuples of them."""

    def __init__(
        self,
        begin: Callable[..., PyTree],
        update: Callable[..., PyTree],
        finish: Callable[..., PyTree] | None = None,
    ):
        for name, x in (("begin", begin), ("update", update), ("finish", finish)):
            if not callable(x) and not (x is None and name == "finish"):
                raise TypeError(f"Fold: {name}={shown(x)} is not a function. Give one.")
        self.functions = begin, update, finish

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fold) and self.functions == other.functions

    def __hash__(self) -> int:
        return hash(self.functions)

    def first(self, moving: Moving, t: float | Array, q: Array, v: Array) -> PyTree:
        return jax.tree.map(_number, self.functions[0](t, q, v))

    def after(
        self, moving: Moving, seen: PyTree, keep: bool | Array, step: StepTimes, q: Array, v: Array
    ) -> PyTree:
        return _where(keep, jax.tree.map(_number, self.functions[1](seen, *step, q, v)), seen)

    def result(self, seen: PyTree, t: float | Array) -> PyTree:
        finish = self.functions[2]
        return seen if finish is None else finish(seen, t)


def _number(x: Any) -> Any:
    x = jnp.asarray(x)
    return x.astype(float) if x.dtype == np.float32 else x
