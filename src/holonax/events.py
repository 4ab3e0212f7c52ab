"""Events: times at which a function of the state changes sign, and what happens then.

While the loop runs, `Watch` looks at the sign of each event function at the end of each step. A
step within which one changes is shortened until it ends at the change, located to rounding by the
Illinois method (regula falsi) on the length of the step itself: the method's own solution is what
is followed, no interpolant. The loop then ends, the state is changed if it is to be, and a new one
begins.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._arguments import choice, flag, names, several
from ._messages import explained, listed, shown
from ._numbers import parameter
from .compiler import native
from .diagnosis import DENSE_LIMIT, diagnose
from .formulation import CoordinateProjection, StepContext
from .system.base import Array, System

Direction = Literal["falling", "rising", "both"]
_SIGNS = {"falling": -1, "rising": 1, "both": 0}
_EPS = float(np.finfo(float).eps)


class Impact(eqx.Module):
    """An impact with restitution on the surface where the event's function vanishes.

    The function is the gap, of positions and time only. The velocity changes by an impulse along
    its gradient that all joints share (in the mass metric), so that afterwards the gap opens
    `restitution` times as fast as it closed.

    **Arguments:**

    - `restitution`: from 0 (it stays) to 1 (no energy is lost).
    """

    restitution: Array

    def __init__(self, restitution: float = 1.0):
        wanted = "a number between 0 and 1"
        given = parameter(
            "Impact", "restitution", restitution, good=lambda x: 0 <= x <= 1, wanted=wanted
        )
        self.restitution = jnp.asarray(given)

    def velocity(self, event: Event, system: System, t: Array, q: Array, v: Array) -> Array:
        """The velocity after the impact."""
        gap = lambda step, t: event.value(system, t, system.retract(q, step), v)  # noqa: E731
        zero = jnp.zeros_like(v)
        normal = jax.grad(gap)(zero, t)
        closing = jnp.vdot(normal, v) + jax.grad(gap, argnums=1)(zero, t)
        rows = system.constraint_rate(q, v, t).shape[0]
        impulse = system.factor(q, t).solve(normal, jnp.zeros((rows,)))[0]
        # a gap that opens already, by rounding of a body at rest, is left to itself
        if event.sign:
            closing = jnp.where(closing * event.sign > 0, closing, 0.0)
        share = (1 + self.restitution) * closing / jnp.vdot(normal, impulse)
        return v - share * impulse


class Event(eqx.Module):
    """A time at which a function of the state changes sign, and what happens then.

    **Arguments:**

    - `name`: by which the result records it.
    - `function`: ``function(t, q, v)``, a number that passes zero at the event; with `bodies`,
      ``function(*frames, t)`` of one frame for each named body, as for `Model.custom_joint`.
      Written with `jax.numpy`. Define it once: a new function object is compiled anew.
    - `bodies`: names of the bodies whose frames the function is given.
    - `direction`: ``"falling"`` through zero, ``"rising"``, or ``"both"``.
    - `terminal`: whether the run ends there.
    - `change`: what happens to the state: `Impact(restitution)`, or a function
      ``change(t, q, v) -> (q, v)``. The new state is projected onto the constraints.
    - `engage`, `release`: names of joints that begin, or cease, to act. Velocities are projected by
      an impulse onto those that are engaged.
    """

    name: str = eqx.field(static=True)
    function: Callable = eqx.field(static=True)
    bodies: tuple[str, ...] | None = eqx.field(static=True)
    direction: Direction = eqx.field(static=True)
    terminal: bool = eqx.field(static=True)
    change: Any
    engage: tuple[str, ...] = eqx.field(static=True)
    release: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        function: Callable,
        *,
        bodies: Sequence[str] | str | None = None,
        direction: Direction = "both",
        terminal: bool = False,
        change: Any = None,
        engage: Sequence[str] | str = (),
        release: Sequence[str] | str = (),
    ):
        if not isinstance(name, str) or not name:
            raise ValueError(f"Event: name={shown(name)} must be a non-empty string.")
        owner = f"Event {name!r}"
        if not callable(function):
            raise TypeError(f"{owner}: {shown(function)} is not a function. Give one of (t, q, v).")
        choice(owner, "direction", direction, tuple(_SIGNS))
        if change is not None and not callable(change) and not isinstance(change, Impact):
            raise TypeError(
                f"{owner}: change={shown(change)} must be hx.Impact(...) or a function "
                "(t, q, v) -> (q, v)."
            )
        self.name, self.function, self.direction = name, function, direction
        self.bodies = None if bodies is None else names(owner, "bodies", bodies)
        self.terminal, self.change = flag(owner, "terminal", terminal), change
        self.engage = names(owner, "engage", engage)
        self.release = names(owner, "release", release)

    @property
    def sign(self) -> int:
        """The sign of the change that counts; 0 for both."""
        return _SIGNS[self.direction]

    def value(self, system: System, t: Array, q: Array, v: Array) -> Array:
        """The event function at a state."""
        if self.bodies is None:
            return jnp.asarray(self.function(t, q, v), dtype=float)
        frames = [system.frame_of(name, q, v) for name in self.bodies]  # pyright: ignore
        return jnp.asarray(self.function(*frames, t), dtype=float)

    def changed(self, system: System, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
        """The state after the event, not yet projected."""
        if self.change is None:
            return q, v
        if isinstance(self.change, Impact):
            return q, self.change.velocity(self, system, t, q, v)
        q, v = self.change(t, q, v)
        return jnp.asarray(q, dtype=float), jnp.asarray(v, dtype=float)


@dataclass(frozen=True)
class Occurrence:
    """An event that happened: its name, when, and the state before and after it."""

    name: str
    t: float
    q_before: np.ndarray
    v_before: np.ndarray
    q: np.ndarray
    v: np.ndarray


class WatchState(NamedTuple):
    """The sign each function had last, its values at both ends of the bracket, the bracket's ends,
    whether an event is being located, which end moved last, the trials, and what was found."""

    signs: Array
    low: Array
    high: Array
    t_low: Array
    t_high: Array
    locating: Array
    side: Array
    trials: Array
    found: Array


class Seen(NamedTuple):
    """Whether the step must be taken again, to which end, and whether it ends at an event."""

    again: Array
    end: Array
    found: Array
    state: WatchState


class Watch(eqx.Module):
    """Looks for events at the end of each step, and shortens the steps that pass one."""

    events: tuple[Event, ...]
    signs: Array  # at the start: on which side of zero each function is taken to be

    def values(self, context: StepContext, t: Array, y: Any) -> Array:
        """All event functions at a state."""
        return jnp.stack([e.value(context.system, t, y[0], y[1]) for e in self.events])

    def first(self, context: StepContext, t: Array, y: Any) -> WatchState:
        """At the beginning of a loop."""
        values, no = self.values(context, t, y), jnp.asarray(False)
        none, zero = jnp.zeros((len(self.events),), bool), jnp.asarray(0)
        return WatchState(self.signs, values, values, t, t, no, zero, zero, none)

    def judge(
        self, context: StepContext, t0: Array, t1: Array, y1: Any, keep: Array, state: WatchState
    ) -> Seen:
        """What becomes of a step to (t1, y1) that is otherwise to be kept, or not."""
        values = self.values(context, t1, y1)
        wanted = jnp.asarray([e.sign for e in self.events])
        passed = (state.signs * values <= 0) & (state.signs != 0) & (state.signs != wanted)
        crossed = keep & jnp.any(passed)
        # The bracket: where nothing has happened yet, and where something has.
        t_low, low = jnp.where(state.locating, state.t_low, t0), state.low
        missed = keep & state.locating & ~crossed
        t_high = jnp.where(crossed, t1, state.t_high)
        high = jnp.where(crossed, values, state.high)
        t_low, low = jnp.where(missed, t1, t_low), jnp.where(missed, values, low)
        # Illinois: an end that stays twice counts half.
        side = jnp.where(crossed, 1, jnp.where(missed, -1, 0))
        twice = (side == state.side) & state.locating
        low = jnp.where(twice & crossed, low / 2, low)
        high = jnp.where(twice & missed, high / 2, high)
        narrow = t_high - t_low <= 2 * _EPS * jnp.maximum(jnp.abs(t_high), t_high - t0)
        found = crossed & narrow
        locating = (crossed | (state.locating & keep)) & ~found
        passing = jnp.where(crossed, passed, (state.signs * high <= 0) & (state.signs != 0))
        passing = passing & (state.signs != wanted)
        share = low / jnp.where(low == high, 1.0, low - high)
        share = jnp.min(jnp.where(passing, jnp.clip(share, 0.0, 1.0), 1.0))
        share = jnp.where((state.trials > 40) | (low == high).all(), 0.5, share)
        width = t_high - t_low
        least = jnp.maximum(_EPS * jnp.abs(t_high), _EPS * width)
        trial = jnp.clip(t_low + share * width, t_low + least, t_high - least)
        # A bracket of two neighbouring numbers has none between them: its end is the event.
        trial = jnp.where((trial <= t_low) | (trial >= t_high), t_high, trial)
        settled = keep & ~locating  # the step is kept, at an event or without one
        following = WatchState(
            signs=jnp.where(settled & (values != 0), jnp.sign(values), state.signs),
            low=jnp.where(settled, values, low),
            high=high,
            t_low=t_low,
            t_high=t_high,
            locating=jnp.where(keep, locating, state.locating),
            side=side,
            trials=jnp.where(locating, state.trials + 1, 0),
            found=found & passed,
        )
        return Seen(keep & locating, trial, found, following)


@native(once=True)
def _values_and_rates(
    events: tuple[Event, ...], system: System, t: Array, q: Array, v: Array
) -> tuple[Array, Array]:
    """All event functions at a state, and how fast they change along the motion."""

    def values(t: Array, q: Array, v: Array) -> Array:
        return jnp.stack([e.value(system, t, q, v) for e in events])

    a = system.accelerations(q, v, t)[0]
    return jax.jvp(values, (t, q, v), (jnp.ones_like(t), system.qdot(q, v), a))


@native(once=True)
def _changed(event: Event, system: System, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
    """The state after the event, on the constraints of `system`."""
    q, v = event.changed(system, t, q, v)
    context = StepContext(system, jnp.ones(()))
    return CoordinateProjection().after_step(context, t, (q, v))


def as_events(owner: str, events: Any) -> tuple[Any, ...]:
    """One event, or several, as a tuple."""
    if isinstance(events, Event):
        return (events,)
    return several(owner, "events", events, "hx.Event(...)")


def check_events(system: System, t: float, q: Array, v: Array, events: Any) -> tuple[Event, ...]:
    """`events` as a tuple, refused unless each can be evaluated at the start."""
    events = as_events("simulate", events)
    for event in events:
        if not isinstance(event, Event):
            raise TypeError(f"simulate: {shown(event)} among the events is not an hx.Event(...).")
    names = [event.name for event in events]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"simulate: two events are called {twice!r}. Names must differ.")
    for event in events:
        _check_event(system, jnp.asarray(t, dtype=float), q, v, event)
    return events


def _check_event(system: System, t: Array, q: Array, v: Array, event: Event) -> None:
    owner = f"Event {event.name!r}"
    known = tuple(dict(getattr(system.complete(), "markers", ())))
    for what, joints in (("engage", event.engage), ("release", event.release)):
        missing = [name for name in joints if name not in known]
        if missing:
            raise ValueError(
                f"{owner}: {what}={shown(missing[0])} is not a joint of this system; its joints "
                f"are {listed(known) or 'none'}."
            )
    if event.bodies is not None:
        if not hasattr(system, "frame_of"):
            raise ValueError(
                f"{owner}: bodies are known to a mechanism made with hx.Model only. Give a "
                "function of (t, q, v)."
            )
        for name in event.bodies:
            system.check_body(name)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        value = jax.eval_shape(event.value, system, t, q, v)
    except Exception as error:
        given = "(t, q, v)" if event.bodies is None else f"({', '.join(event.bodies)}, t)"
        raise ValueError(
            f"{owner}: its function fails: {explained(error)} It is called with {given} and must "
            "be written with jax.numpy."
        ) from None
    if value.shape != ():
        raise ValueError(
            f"{owner}: its function returns an array of shape {value.shape}. Return one number, "
            "and make an event of each."
        )
    if isinstance(event.change, Impact) and _uses_velocity(event, system, t, q, v):
        raise ValueError(
            f"{owner}: an Impact needs a gap that depends on positions and time only, but its "
            "function depends on velocities."
        )
    if event.change is not None and not isinstance(event.change, Impact):
        _check_change(owner, system, t, q, v, event)


def _uses_velocity(event: Event, system: System, t: Array, q: Array, v: Array) -> bool:
    slope = jax.grad(lambda v: event.value(system, t, q, v))(v + 0.1)
    return bool(jnp.any(slope != 0))


def _check_change(owner: str, system: System, t: Array, q: Array, v: Array, event: Event) -> None:
    try:
        inspect.signature(event.change).bind(t, q, v)
        after = jax.eval_shape(event.changed, system, t, q, v)
    except Exception as error:
        raise ValueError(
            f"{owner}: its change fails: {explained(error)} It is called with (t, q, v), must "
            "return (q, v) and be written with jax.numpy."
        ) from None
    if (after[0].shape, after[1].shape) != (q.shape, v.shape):
        raise ValueError(
            f"{owner}: its change returns arrays of shape {after[0].shape} and {after[1].shape}; "
            f"q and v have {q.shape} and {v.shape}."
        )


class Happened(NamedTuple):
    """What the events at one time have done."""

    system: System
    q: Array
    v: Array
    occurrences: list[Occurrence]
    terminal: str  # the name of the event that ended the run, or ""


def armed(
    events: tuple[Event, ...],
    system: System,
    t: Array,
    q: Array,
    v: Array,
    before: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """(signs, firing): on which side of zero each function is, and which events happen right here.

    A function that vanishes here, up to rounding, is on the side it is heading for. `before` are
    the signs it had before the events that were just handled (zero for those themselves); an event
    that is at zero and heads through it happens now. None: at the start of a run, where any does.
    """
    values, rates = (np.asarray(x) for x in _values_and_rates(events, system, t, q, v))
    here = np.abs(values) <= 16 * _EPS * (1 + abs(float(t))) * (1 + np.abs(rates))
    heading = np.sign(np.where(here, rates, values))
    wanted = np.array([event.sign for event in events])
    due = here & (heading != 0) & ((wanted == 0) | (heading == wanted))
    firing = due if before is None else due & (before == -heading)
    return heading, firing


def _switched(systems: dict[Any, Any], system: Any, event: Event, t: Array, q: Array) -> Any:
    """The mechanism after an event has engaged and released joints."""
    systems.setdefault(system.released, system)
    new = system.with_joints(engage=event.engage, release=event.release)
    if new.released not in systems:
        few = new.velocity_size(int(q.shape[0])) <= DENSE_LIMIT
        if few and diagnose(new, q, float(t)).redundant:
            new = new.with_redundant_constraints()
        systems[new.released] = new
    return systems[new.released]


def happen(
    events: tuple[Event, ...],
    which: np.ndarray,
    system: Any,
    t: Array,
    q: Array,
    v: Array,
    systems: dict[Any, Any],
) -> Happened:
    """Apply the events marked in `which`, one after the other, at (t, q, v).

    `systems` keeps the mechanism of each set of released joints that has occurred.
    """
    occurrences, terminal = [], ""
    for event, happens in zip(events, which, strict=True):
        if not happens:
            continue
        q_before, v_before = q, v
        if event.engage or event.release:
            system = _switched(systems, system, event, t, q)
            q, v = _changed(event, system, t, q, v)
        elif event.change is not None:
            q, v = _changed(event, system, t, q, v)
        states = (np.asarray(x) for x in (q_before, v_before, q, v))
        occurrences.append(Occurrence(event.name, float(t), *states))
        if event.terminal and not terminal:
            terminal = event.name
    return Happened(system, q, v, occurrences, terminal)
