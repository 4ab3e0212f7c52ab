"""What happens at the time of an event, on the host: joints and states change, contacts settle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...compiler import native
from ...formulation import CoordinateProjection
from ...problem import StepContext
from ...result.states import Occurrence
from ...start.diagnosis import DENSE_LIMIT, diagnose
from ...system.base import Array, System
from ...system.held import HeldSystem
from ..status import Failure
from .contact import Contacts, View, moved, view
from .event import Event

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPS = float(np.finfo(float).eps)
_DEEP = 10.0  # how far beyond its slack a gap is on the wrong side


class Wrong(NamedTuple):
    """Why a run cannot go on: the failure, the event's name, and a number."""

    failure: Failure
    name: str
    number: float = 0.0


class Happened(NamedTuple):
    """What the events at one time have done.

    `sides` are, for each event, the side of zero on which its function is and the allowance beyond
    it, for the loop to watch; `due` are events that happen in consequence, at once. `terminal` and
    `rest` name the event that ended the run, or are empty.
    """

    system: System
    q: Any
    v: Any
    occurrences: list[Occurrence]
    sides: np.ndarray
    due: np.ndarray
    terminal: str = ""
    rest: str = ""
    wrong: Wrong | None = None


@native(once=True)
def _changed(event: Event, system: System, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
    """The state after the event, on the constraints of `system`."""
    return _onto(system, t, *event.changed(t, q, v))


def _onto(system: System, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
    context = StepContext(system, jnp.ones(()))
    return CoordinateProjection().after_step(context, t, (q, v))


_projected = native(_onto, once=True)


def _base(system: System) -> System:
    """The system without the contacts that are closed."""
    return system.base if isinstance(system, HeldSystem) else system


def held_by(system: System) -> tuple[str, ...]:
    """The names of the contacts that are closed."""
    return tuple(gap.name for gap in system.gaps) if isinstance(system, HeldSystem) else ()


def _switched(
    systems: dict[Any, Any], system: Any, event: Event, t: float, q: np.ndarray
) -> System:
    """The mechanism after an event has engaged and released joints."""
    systems.setdefault(system.released, system)
    new = system.with_joints(engage=event.engage, release=event.release)
    if new.released not in systems:
        few = new.velocity_size(int(q.shape[0])) <= DENSE_LIMIT
        if few and diagnose(new, q, t).redundant:
            new = new.with_redundant_constraints()
        systems[new.released] = new
    return systems[new.released]


def _held(
    systems: dict[Any, Any],
    base: System,
    gaps: Sequence[Event],
    sides: Sequence[int],
    t: np.ndarray,
    q: np.ndarray,
    v: np.ndarray,
) -> HeldSystem:
    """The system with these contacts closed; the same object each time."""
    key = ("contacts", getattr(base, "released", ()), tuple(g.name for g in gaps), tuple(sides))
    known = systems.get(key)
    if known is None or known.base is not base:
        known = systems[key] = HeldSystem.of(base, gaps, sides, q, v, t)
    return known


class _Instant:
    """The state at the time of events, and what becomes of it."""

    def __init__(self, events: tuple[Event, ...], system: Any, t: float, q: Any, v: np.ndarray):
        self.events, self.system, self.t, self.q, self.v = events, system, t, q, v
        self.base, self.before = _base(system), held_by(system)
        self.occurrences: list[Occurrence] = []
        self.terminal = ""

    @property
    def time(self) -> Any:
        return np.asarray(self.t, dtype=float)

    def look(self) -> View:
        return View(*map(np.asarray, view(self.events, self.base, self.time, self.q, self.v)))

    def project(self, system: System) -> None:
        """Bring the state onto the constraints of a system, if it is near to them."""
        q, v = _projected(system, self.time, self.q, self.v)
        if np.all(np.isfinite(q)) and np.all(np.isfinite(v)):
            self.q, self.v = q, v

    def record(self, event: Event, q: np.ndarray, v: np.ndarray, what: str) -> None:
        old, new = (np.array(q), np.array(v)), (np.array(self.q), np.array(self.v))
        self.occurrences.append(Occurrence(event.name, self.t, *old, *new, what))
        if event.terminal and what != "release" and not self.terminal:
            self.terminal = event.name

    def change(self, event: Event, systems: dict[Any, Any]) -> Wrong | None:
        """Joints and the state as the event changes them; contacts come after."""
        q, v = self.q, self.v
        if event.engage or event.release:
            self.base = _switched(systems, self.base, event, self.t, q)
        if event.engage or event.release or not (event.change is None or event.is_contact):
            self.q, self.v = _changed(event, self.base, self.time, q, v)
            if not (np.all(np.isfinite(self.q)) and np.all(np.isfinite(self.v))):
                self.q, self.v = q, v
                return Wrong(Failure.EVENT_SPOILT, event.name)
        if not event.is_contact:
            self.record(event, q, v, "event")
        return None


def happen(
    events: tuple[Event, ...],
    which: np.ndarray,
    system: System,
    t: float,
    q: np.ndarray,
    v: np.ndarray,
    sides: np.ndarray | None,
    systems: dict[Any, Any],
    tolerance: float,
) -> Happened:
    """Let the events marked in `which` happen at (t, q, v), and contacts settle.

    `sides` are those before; None at the start of a run. `systems` keeps the mechanism of each set
    of released joints and closed contacts that has occurred. `tolerance` is what the run may be off
    by, for a length of one.
    """
    now = _Instant(events, system, t, q, v)
    if now.before:  # some formulations let constraints drift
        now.project(system)
    none = np.zeros(len(events), bool)
    no_sides = np.zeros((2, len(events)))
    wrong: Wrong | None = None
    for event, happens in zip(events, which, strict=True):
        meant = happens and event.is_meant(now.base, t, q, v)
        if meant and event.name not in now.before and wrong is None:
            wrong = now.change(event, systems)
    seen = now.look()
    wrong = wrong or _undefined(events, seen)
    if wrong is not None:
        return Happened(
            system, now.q, now.v, now.occurrences, no_sides, none, now.terminal, "", wrong
        )
    before = None if sides is None else np.where(which, 0, sides[0])
    settled = _settle(now, seen, which, _open_before(events, system, sides), systems, tolerance)
    signs, bands, due = _headings(events, settled.seen, t, before)
    at = np.array([e.is_contact for e in events], bool)
    signs[at], due[at] = settled.sides, False
    bands[at] = settled.bands
    return Happened(
        now.system,
        now.q,
        now.v,
        now.occurrences,
        np.stack([signs, bands]),
        due,
        now.terminal,
        settled.rest,
        settled.wrong,
    )


def _undefined(events: tuple[Event, ...], seen: View) -> Wrong | None:
    """The first event whose function has no value here."""
    bad = ~np.isfinite(seen.values)
    if not np.any(bad):
        return None
    return Wrong(Failure.EVENT_NOT_FINITE, events[int(np.argmax(bad))].name)


class _Settled(NamedTuple):
    """The last look at the events; for contacts the sides and allowances to watch."""

    seen: View
    sides: np.ndarray
    bands: np.ndarray
    rest: str = ""
    wrong: Wrong | None = None


def _settle(
    now: _Instant,
    seen: View,
    which: np.ndarray,
    before: np.ndarray | None,
    systems: dict[Any, Any],
    tolerance: float,
) -> _Settled:
    """Impacts of all contacts that are closed, and which of them stay so from here on."""
    at = np.array([i for i, e in enumerate(now.events) if e.is_contact], int)
    gaps = [now.events[i] for i in at]
    if not at.size:
        now.system = now.base
        return _Settled(seen, np.zeros(0), np.zeros(0))
    sides = _open_sides(gaps, seen, at, before)
    see = lambda: Contacts(seen, at, sides, now.t, tolerance)  # noqa: E731
    contacts = see()
    deep = contacts.gap < -_DEEP * contacts.slack
    if np.any(deep):
        worst = int(np.argmin(np.where(deep, contacts.gap, 0.0)))
        wrong = Wrong(Failure.EVENT_WRONG_SIDE, gaps[worst].name, float(-contacts.gap[worst]))
        return _Settled(seen, sides, np.zeros(at.size), wrong=wrong)
    q, v = now.q, now.v
    step, depth = contacts.way_out(), np.zeros(at.size)
    if step is not None:
        depth = np.where(contacts.closed, np.maximum(-contacts.gap, 0.0), 0.0)
        now.q = moved(now.base, now.t, q, v, step)
        seen = now.look()
        contacts = see()
    result = contacts.impact(np.array([float(e.change.restitution) for e in gaps]), depth)
    first = gaps[int(np.argmax(contacts.closed))].name
    if result is None:
        return _Settled(seen, sides, np.zeros(at.size), wrong=Wrong(Failure.EVENT_JAMMED, first))
    change, impulses = result
    if np.any(impulses > 0):
        now.v = np.asarray(v) + change
        seen = now.look()
        contacts = see()
    opened = np.array([e.name in now.before for e in gaps]) & which[at]
    stays = contacts.resting(opened)
    if stays is None:
        return _Settled(seen, sides, np.zeros(at.size), wrong=Wrong(Failure.EVENT_JAMMED, first))
    _hold(now, gaps, sides, stays, systems)
    struck = (impulses > 0) | (which[at] & ~opened)
    _record(now, gaps, q, v, struck, stays)
    stop = [e.name for e, here in zip(gaps, stays, strict=True) if here and e.change.rest == "stop"]
    if np.any(stays):
        seen = now.look()
    bands = np.where(contacts.closed & ~stays, contacts.slack, 0.0)
    return _Settled(seen, np.where(stays, 1.0, sides), bands, stop[0] if stop else "")


def _open_before(
    events: tuple[Event, ...], system: System, sides: np.ndarray | None
) -> np.ndarray | None:
    """The signs that gaps had while they were open; `sides` of closed ones are of other things."""
    if sides is None or not isinstance(system, HeldSystem):
        return None if sides is None else sides[0]
    closed = dict(zip(held_by(system), system.sides, strict=True))
    return np.array([closed.get(e.name, s) for e, s in zip(events, sides[0], strict=True)])


def _open_sides(
    gaps: list[Event], seen: View, at: np.ndarray, before: np.ndarray | None
) -> np.ndarray:
    """The sign that each gap has while it is open; of those that count both ways, the one it has,
    or had."""
    now = np.sign(seen.values[at])
    now = np.where(now == 0, np.where(seen.rates[at] < 0, -1.0, 1.0), now)
    if before is not None:
        now = np.where(before[at] != 0, before[at], now)
    return np.array([-e.sign if e.sign else s for e, s in zip(gaps, now, strict=True)], float)


def _hold(
    now: _Instant, gaps: list[Event], sides: np.ndarray, stays: np.ndarray, systems: dict[Any, Any]
) -> None:
    """The system with the contacts closed that stay so, and the state on its constraints."""
    now.system = now.base
    if not np.any(stays):
        return
    closed = [gap for gap, here in zip(gaps, stays, strict=True) if here]
    signs = [int(s) for s, here in zip(sides, stays, strict=True) if here]
    now.system = _held(systems, now.base, closed, signs, now.time, now.q, now.v)
    now.project(now.system)


def _record(
    now: _Instant,
    gaps: list[Event],
    q: np.ndarray,
    v: np.ndarray,
    struck: np.ndarray,
    stays: np.ndarray,
) -> None:
    """What contacts have done, as occurrences."""
    for event, hit, here in zip(gaps, struck, stays, strict=True):
        held = event.name in now.before
        if here and not held:
            now.record(event, q, v, "rest")
        elif hit and not held:
            now.record(event, q, v, "impact")
        elif held and not here:
            now.record(event, q, v, "release")


def _headings(
    events: tuple[Event, ...], seen: View, t: float, before: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(signs, bands, due): on which side of zero each function is, by how much rounding may take it
    beyond, and which events happen right here.

    A function that vanishes here, up to rounding, is on the side it is heading for. `before` are
    the signs it had before the events that were just handled (zero for those themselves); an event
    that is at zero and heads through it happens now. None: at the start of a run, where any does.
    """
    values, rates = seen.values, seen.rates
    rounding = 16 * _EPS * (1 + abs(t)) * (1 + np.abs(rates)) + 4 * _EPS * seen.sizes
    here = np.abs(values) <= rounding
    heading = np.sign(np.where(here, rates, values))
    wanted = np.array([event.sign for event in events])
    due = here & (heading != 0) & ((wanted == 0) | (heading == wanted))
    bands = np.where(here, 2 * rounding, 0.0)
    return heading, bands, due if before is None else due & (before == -heading)


_ROWS = 64  # states looked at in one call


@native(once=True)
def _gaps(
    events: tuple[Event, ...], system: System, t: Array, q: Array, v: Array
) -> tuple[Array, Array]:
    """The gaps at many states, and the sizes of their gradients."""

    def one(state: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        t, q, v = state
        gaps = lambda step: jnp.stack(  # noqa: E731
            [e.value(system, t, system.retract(q, step), v) for e in events]
        )
        still = jnp.zeros_like(v)
        return gaps(still), jnp.sum(jnp.abs(jax.jacrev(gaps)(still)), axis=1)

    return jax.lax.map(one, (t, q, v))


def wrong_side(
    events: tuple[Event, ...],
    system: System,
    t: np.ndarray,
    q: np.ndarray,
    v: np.ndarray,
    tolerance: tuple[float, float],
) -> Wrong | None:
    """The first contact that is open and on its wrong side at some saved state, if any.

    `tolerance` are the relative and absolute one of the run, which states between steps have.
    """
    closed = held_by(system)
    watched = tuple(e for e in events if e.is_contact and e.sign and e.name not in closed)
    if not watched or not len(t):
        return None
    sides = np.array([-e.sign for e in watched])
    rows = np.minimum(np.arange(len(t) + -len(t) % _ROWS), len(t) - 1).reshape(-1, _ROWS)
    for k in rows:
        gap, reach = _gaps(watched, _base(system), t[k], q[k], v[k])
        places = np.delete(q[k], system.carriers(q.shape[1]), axis=1)
        allowed = tolerance[1] + tolerance[0] * np.max(np.abs(places), axis=1, keepdims=True)
        beyond = -sides * gap - 20 * reach * allowed
        if np.any(beyond > 0):
            i = int(np.argmax(np.max(beyond, axis=0)))
            depth = float(np.max(-sides[i] * gap[:, i]))
            return Wrong(Failure.EVENT_WRONG_SIDE, watched[i].name, depth)
    return None
