"""Events that cannot be evaluated are refused before a run begins, by name."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp

from ..._arguments import several
from ..._messages import explained, listed, shown
from ...system.base import Array, System
from .event import Event, Impact


def as_events(owner: str, events: object) -> tuple[Event, ...]:
    """One event, or several, as a tuple."""
    if isinstance(events, Event):
        return (events,)
    return several(owner, "events", events, "hx.Event(...)")


def check_events(system: System, t: float, q: Array, v: Array, events: object) -> tuple[Event, ...]:
    """`events` as a tuple, refused unless each can be evaluated at the start."""
    events = as_events("simulate", events)
    for event in events:
        if not isinstance(event, Event):
            raise TypeError(f"simulate: {shown(event)} among the events must be an hx.Event(...).")
    names = [event.name for event in events]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"simulate: two events are called {twice!r}. Names must differ.")
    events = tuple(event.on(system) for event in events)
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
        given = "t, q, v" if event.bodies is None else f"{', '.join(event.bodies)}, t"
        given = f"({given})" if event.parameters is None else f"({given}, parameters)"
        raise ValueError(
            f"{owner}: its function fails: {explained(error)} It is called with {given} and must "
            "be written with jax.numpy."
        ) from None
    if value.shape != () and isinstance(event.function, str):
        raise ValueError(
            f"{owner}: {event.function!r} is a vector. Name one of its components, as "
            f"'{event.function}.x'."
        )
    if value.shape != ():
        raise ValueError(
            f"{owner}: its function returns an array of shape {value.shape}. Return one number, "
            "and make an event of each."
        )
    if event.is_contact and system.has_reaction_forces:
        raise ValueError(
            f"{owner}: its impulses would act through {listed(system.reaction_force_names(), 4)}, "
            "which depends on reactions; impacts do not solve for such forces. Give the contact a "
            "stiffness, with custom_force."
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
        inspect.signature(event.change).bind(t, q, v, *event._own)
        after = jax.eval_shape(event.changed, t, q, v)
    except Exception as error:
        raise ValueError(
            f"{owner}: its change fails: {explained(error)} It is called with (t, q, v), and with "
            "the event's parameters if it has some; it must return (q, v) and be written with "
            "jax.numpy."
        ) from None
    if (after[0].shape, after[1].shape) != (q.shape, v.shape):
        raise ValueError(
            f"{owner}: its change returns arrays of shape {after[0].shape} and {after[1].shape}; "
            f"q and v have {q.shape} and {v.shape}."
        )
