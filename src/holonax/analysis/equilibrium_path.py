"""The path of equilibria under a load that grows, through limit points: snap-through, snap-back.

`arc_length.py` makes one increment. This module asks the question, chooses the increments so that
the path turns by little in each, looks for limit points and branches between them, and answers by
name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._arguments import checked_call
from .._messages import listed
from .._numbers import count, finite_number
from ..start.consistent import constraint_rows
from ..system.base import System
from ..system.scaled_loads import scaled
from .arc_length import PathMetric, PathPoint, Wanted, increment
from .checks import usual_length
from .equilibrium import equilibrium, neutral_stiffness
from .load_case import LoadCase, load_case
from .load_path import CriticalPoint, EquilibriumPath
from .load_steps import State

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..start.consistent import Start

_TURN = 0.4  # [rad] by which a path may turn in one increment
_EASY_TURN = 0.15  # at which increments stay as they are
_LONGEST_CHORD = 1.2  # distance between points, over the length along the tangent
_MANY = 10  # steps of Newton's method after which the next increment is shorter
_KINK = 1e-3  # part of the longest increment in which a path may turn as it likes
_SHORTEST = 1e-7  # part of the longest increment
_SEARCHES = 40


@checked_call
def equilibrium_path(
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    loads: Any,
    *,
    until: float = 1.0,
    limits: int | None = None,
    points: int = 200,
    largest: float = 0.1,
    t: float | None = None,
) -> EquilibriumPath:
    """The equilibria under loads multiplied by a factor, from 0 `until` this factor.

    The path is followed by its arc length, so it goes on where the load has a maximum or a minimum,
    and where a mechanism snaps through or back under a real load.

    **Arguments:**

    - `system`, `start`: a mechanism, and where it is near rest without the loads: from
      `model.build()`, or an `Equilibrium`.
    - `loads`: the name of a force, torque, line load or other force element, ``"gravity"``, or a
      list of names. All others act in full.
    - `until`: the load factor to end at; below zero the path begins with falling factors.
    - `limits`: end also after as many limit points.
    - `points`: end also after as many points.
    - `largest`: the longest increment, as a part: of `until`, or of the mechanism's size and of one
      rad in the mean of all bodies. Shorter ones are taken where the path turns.
    - `t`: the time [s] at which drivers and loads are taken; the start's by default.

    Limit points, and branches where stability changes otherwise, are found to many digits and are
    points of the path. Of a branch the path that was come along is followed; to follow another,
    give a small disturbing load. A path that cannot be followed any further is returned as far as
    it was, with the reason in `message`.
    """
    until = finite_number("equilibrium_path", "until", until)
    if until == 0:
        raise ValueError(
            "equilibrium_path: until=0.0 must not be zero, where the path begins. Give the load "
            "factor at which it shall end."
        )
    asked = _Asked(
        until,
        None if limits is None else count("equilibrium_path", "limits", limits),
        count("equilibrium_path", "points", points, least=2),
        finite_number("equilibrium_path", "largest", largest, positive=True),
    )
    what = load_case(
        "equilibrium_path",
        system,
        start,
        loads,
        t,
        traced="how many points a path has depends on numbers that a compiled program does not "
        "know beforehand. Differentiate equilibria of path.equilibrium(k).",
        smaller="Follow the path of a smaller mechanism.",
    )
    return _Follower(what, asked).followed()


class _Asked(NamedTuple):
    until: float
    limits: int | None
    points: int
    largest: float


class _Seen(NamedTuple):
    """A point of the path, and how it resists small motions."""

    point: PathPoint
    values: np.ndarray  # of the stiffness, rising, over the largest
    negative: int

    @property
    def softest(self) -> float:
        """The lowest of the eigenvalues."""
        return float(self.values[0]) if self.values.size else 1.0


class _Stop(Exception):
    """The path ends, with this status and message."""


class _Follower:
    """A path that grows."""

    def __init__(self, what: LoadCase, asked: _Asked):
        self.system, self.loads, start, self.t, self.rank = what
        self.asked = asked
        system, q = self.system, np.asarray(start.q)
        lengths, usual = usual_length(system, q)
        size = np.where(lengths, usual, 1.0)
        bodies = system.bodies.n
        self.metric = PathMetric(jnp.asarray(1 / (bodies * size**2)), jnp.asarray(asked.until**-2))
        self.path: list[_Seen] = []
        self.critical: list[CriticalPoint] = []
        self.iterations = 0
        self.q = q

    # -- increments --------------------------------------------------------------------------

    def _next(self, last: PathPoint, length: float, factor: float | None = None) -> PathPoint:
        wanted = Wanted(
            jnp.asarray(length, dtype=float),
            jnp.asarray(factor is not None),
            jnp.asarray(0.0 if factor is None else factor),
        )
        time = jnp.asarray(self.t)
        found = increment(self.system, self.loads, time, self.metric, last, wanted)
        self.iterations += int(found.steps)
        return found

    def _seen(self, point: PathPoint) -> _Seen:
        """With the eigenvalues of the stiffness on what the constraints allow; motions are
        compared by their own stiffness, as beams' rotations have next to no inertia."""
        K, G = np.asarray(point.stiffness), np.asarray(point.jacobian)
        size = np.max(np.abs(K), axis=1)
        scale = 1 / np.sqrt(np.where(size > 0, size, 1.0))
        basis = np.linalg.svd(G * scale)[2][self.rank :].T if G.size else np.eye(K.shape[0])
        K = basis.T @ (K * scale[:, None] * scale) @ basis
        values = np.linalg.eigvalsh((K + K.T) / 2)
        values = values / max(np.max(np.abs(values), initial=0.0), 1e-300)
        return _Seen(point, values, int(np.sum(values < -neutral_stiffness(self.system))))

    def _begin(self) -> PathPoint:
        """The equilibrium without the loads, with the tangent towards the end asked for."""
        system, nv = self.system, self.system.velocity_size(self.q.size)
        rows = constraint_rows(system, jnp.asarray(self.q), jnp.zeros((nv,)))
        nothing, sense = jnp.zeros((nv,)), float(np.sign(self.asked.until))
        first = PathPoint(
            state=State(
                jnp.asarray(self.q),
                jnp.zeros((rows,)),
                tuple(jnp.zeros(x) for x in system.section_shapes()),
            ),
            factor=jnp.zeros(()),
            direction=nothing,
            slope=jnp.asarray(sense * abs(self.asked.until)),
            stiffness=jnp.zeros((nv, nv)),
            jacobian=jnp.zeros((rows, nv)),
            size=jnp.asarray(jnp.inf),
            steps=jnp.asarray(0),
            done=jnp.asarray(False),
            turned=jnp.zeros(()),
            chord=jnp.zeros(()),
        )
        found = self._next(first, 0.0, factor=0.0)
        if bool(found.done):
            return found
        rest = equilibrium(scaled(system, self.loads, 0.0), self.q, t=self.t)
        if bool(rest.success):
            found = self._next(
                first._replace(state=first.state._replace(q=rest.q)), 0.0, factor=0.0
            )
            if bool(found.done):
                return found
        raise ValueError(
            f"equilibrium_path: without {listed(self.loads)} the mechanism is not at rest near the "
            f"start, where the path would begin ({rest.message}). See that something holds every "
            "motion without these loads, or begin at an equilibrium of the others."
        )

    def followed(self) -> EquilibriumPath:
        """The whole path."""
        self.path.append(self._seen(self._begin()))
        length = self.asked.largest
        try:
            while True:
                length = self._grow(length)
        except _Stop as stop:
            status, message = stop.args
        except KeyboardInterrupt:
            status, message = "interrupted", f"interrupted after {self._so_many()}"
        return self._answer(status, message)

    def _grow(self, length: float) -> float:
        """One more increment of at most this length; the length of the next one."""
        longest = self.asked.largest
        last = self.path[-1]
        while True:
            new = self._next(last.point, length)
            if self._is_good(new, length):
                break
            length *= 0.5 if bool(new.done) else 0.25
            if length < _SHORTEST * longest:
                raise _Stop("not converged", self._why())
        self._add(last, self._seen(new), length)
        easier = np.clip(_EASY_TURN / max(float(new.turned), 1e-3), 0.5, 2.0)
        if int(new.steps) > _MANY:
            easier = min(easier, 0.5)
        return min(length * float(easier), longest)

    def _is_good(self, new: PathPoint, length: float) -> bool:
        if not bool(new.done) or not np.isfinite(float(new.chord)):
            return False
        if length < _KINK * self.asked.largest:
            return True
        return float(new.turned) <= _TURN and float(new.chord) <= _LONGEST_CHORD * length

    # -- what lies between two points ----------------------------------------------------------

    def _add(self, last: _Seen, new: _Seen, length: float) -> None:
        """The new point, with the critical points before it and the end of the path."""
        between: list[tuple[float, _Seen, str]] = []
        turns = float(last.point.slope) * float(new.point.slope) < 0
        if turns:
            sense = float(np.sign(last.point.slope))
            kind = "maximum" if sense > 0 else "minimum"
            at, found = self._between(last, new, length, lambda x: sense * float(x.point.slope))
            between.append((at, found, kind))
        if abs(new.negative - last.negative) != int(turns) and last.negative != new.negative:
            at, found = self._between(last, new, length, self._resistance(last, new))
            between.append((at, found, "branch"))
        before, begun = last, 0.0
        for at, found, kind in [*sorted(between, key=lambda x: x[0]), (length, new, "")]:
            self._end_within(last, before, found, begun, at)
            self.path.append(found)
            if kind:
                factor = float(found.point.factor)
                self.critical.append(CriticalPoint(kind, len(self.path) - 1, factor))
            self._end_after(kind)
            before, begun = found, at

    def _resistance(self, last: _Seen, new: _Seen) -> Callable[[_Seen], float]:
        """What changes its sign where stability changes between two points."""
        sense = 1.0 if new.negative > last.negative else -1.0
        k = max(last.negative, new.negative) - 1  # of the eigenvalues that which passes zero
        neutral = neutral_stiffness(self.system)
        if min(abs(x.values[k]) for x in (last, new)) > neutral:
            return lambda x: sense * float(x.values[k])
        # something meets no resistance anywhere: count
        return lambda x: 1.0 if x.negative == last.negative else -1.0

    def _between(
        self, last: _Seen, new: _Seen, length: float, value: Callable[[_Seen], float]
    ) -> tuple[float, _Seen]:
        """(length, point) after `last` where `value`, positive there, passes zero on the way to
        `new`: regula falsi, its better end weighted down as in the method of Illinois."""
        low, high, best, at = 0.0, length, new, length
        a, b, side = value(last), value(new), 0.0
        smallest = 1e-13 * max(abs(a), abs(b))
        for _ in range(_SEARCHES):
            part = float(np.clip(a / (a - b), 1e-3, 1 - 1e-3))
            middle = low + part * (high - low)
            point = self._next(last.point, middle)
            if not bool(point.done):
                break
            best, at = self._seen(point), middle
            now = value(best)
            if now > 0:
                low, a, b = middle, now, 0.5 * b if side > 0 else b
            else:
                high, b, a = middle, now, 0.5 * a if side < 0 else a
            side = now
            if abs(now) <= smallest or high - low < 1e-9 * length:
                break
        return at, best

    def _end_within(
        self, last: _Seen, before: _Seen, after: _Seen, begun: float, at: float
    ) -> None:
        """End the path at the load factor asked for, if it lies between two points."""
        until = self.asked.until
        a, b = float(before.point.factor) - until, float(after.point.factor) - until
        if a * b > 0 or a == b:
            return
        guess = begun + (at - begun) * a / (a - b)
        found = self._next(last.point, guess, factor=until)
        if bool(found.done):
            self.path.append(self._seen(found))
        else:
            self.path.append(after)
        raise _Stop("reached", f"the load factor {until:g} was reached in {self._so_many()}")

    def _end_after(self, kind: str) -> None:
        limits = self.asked.limits
        if kind in ("maximum", "minimum") and limits is not None:
            found = sum(x.kind != "branch" for x in self.critical)
            if found >= limits:
                noun = "limit point" if limits == 1 else "limit points"
                raise _Stop("limits", f"{limits} {noun} found in {self._so_many()}")
        if len(self.path) >= self.asked.points:
            factor = float(self.path[-1].point.factor)
            raise _Stop(
                "points",
                f"{len(self.path)} points lead to a load factor of {factor:.6g}, not to "
                f"{self.asked.until:g}. Give more points, or a longer largest increment",
            )

    def _so_many(self) -> str:
        return f"{len(self.path)} points, {self.iterations} iterations"

    def _why(self) -> str:
        """What is said of the last point that was found."""
        factor = float(self.path[-1].point.factor)
        words = f"beyond a load factor of {factor:.6g} the path could not be followed"
        if not self.system.beams:
            return f"{words}: a force or constraint has no value there, jumps, or is singular"
        rest = self._answer("", "").equilibrium(-1)
        return f"{words}; {rest.most_turned()} Give the beam more elements"

    def _answer(self, status: str, message: str) -> EquilibriumPath:
        stacked = lambda get: np.stack([np.asarray(get(x.point)) for x in self.path])  # noqa: E731
        return EquilibriumPath(
            system=self.system,
            loads=self.loads,
            t=self.t,
            rank=self.rank,
            factor=stacked(lambda x: x.factor),
            q=stacked(lambda x: x.state.q),
            lam=stacked(lambda x: x.state.lam),
            softest=np.array([x.softest for x in self.path]),
            critical=tuple(self.critical),
            iterations=self.iterations,
            status=status,
            message=message,
        )
