"""What a user says about an event: when it is, and what happens then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp

from ..._arguments import choice, flag, names
from ..._messages import shown
from ..._numbers import parameter
from ...system.base import Array, System
from ...system.expression import FRAME_QUANTITIES, Expression, FrameExpression
from ...system.expression_parser import ExpressionError

Direction = Literal["falling", "rising", "both"]
Rest = Literal["hold", "stop"]
SIGNS = {"falling": -1, "rising": 1, "both": 0}


class Impact(eqx.Module):
    """A frictionless contact on the surface where the event's function vanishes.

    The function is the gap, of positions and time only. Where it closes, the velocity changes by an
    impulse along its gradient that all joints share (in the mass metric), so that afterwards the
    gap opens `restitution` times as fast as it closed. All contacts that are closed at that time
    are solved together: impulses push and do not pull, and no gap closes afterwards.

    A contact that would open again by less than the tolerance of the run has come to rest.

    **Arguments:**

    - `restitution`: from 0 (it stays) to 1 (no energy is lost).
    - `rest`: what happens then. ``"hold"``: the gap is a constraint of the system as long as its
      reaction pushes; the contact opens when that changes sign. ``"stop"``: the run ends there,
      with the status ``"rest"``.
    """

    restitution: Array
    rest: Rest = eqx.field(static=True)

    def __init__(self, restitution: float = 1.0, *, rest: Rest = "hold"):
        wanted = "a number between 0 and 1"
        given = parameter(
            "Impact", "restitution", restitution, good=lambda x: 0 <= x <= 1, wanted=wanted
        )
        self.restitution = jnp.asarray(given)
        self.rest = choice("Impact", "rest", rest, ("hold", "stop"))


class Event(eqx.Module):
    """A time at which a function of the state changes sign, and what happens then.

    **Arguments:**

    - `name`: by which the result records it.
    - `function`: ``function(t, q, v)``, a number that passes zero at the event; with `bodies`,
      ``function(*frames, t)`` of one frame for each named body, as for `Model.custom_joint`.
      Written with `jax.numpy`. Define it once: a new function object is compiled anew. Or an
      expression of t and of quantities of bodies, ``"crank.angle - pi/2"``.
    - `bodies`: names of the bodies whose frames the function is given.
    - `direction`: ``"falling"`` through zero, ``"rising"``, or ``"both"``.
    - `terminal`: whether the run ends there.
    - `change`: what happens to the state: `Impact(restitution)`, a contact that is never passed, or
      a function ``change(t, q, v) -> (q, v)``. The new state is projected onto the constraints.
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
        function: Callable | str,
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
        if isinstance(function, str):
            function, bodies = _expressed(owner, function, bodies)
        if not callable(function):
            raise TypeError(f"{owner}: {shown(function)} is not a function. Give one of (t, q, v).")
        choice(owner, "direction", direction, tuple(SIGNS))
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
        return SIGNS[self.direction]

    @property
    def is_contact(self) -> bool:
        """Whether its function is a gap that must not be passed."""
        return isinstance(self.change, Impact)

    def value(self, system: System, t: Array, q: Array, v: Array) -> Array:
        """The event function at a state."""
        if self.bodies is None:
            return jnp.asarray(self.function(t, q, v), dtype=float)
        frames = [system.frame_of(name, q, v) for name in self.bodies]  # pyright: ignore
        return jnp.asarray(self.function(*frames, t), dtype=float)

    def changed(self, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
        """The state after the event, not yet projected; impacts are solved elsewhere, together."""
        if self.change is None or self.is_contact:
            return q, v
        q, v = self.change(t, q, v)
        return jnp.asarray(q, dtype=float), jnp.asarray(v, dtype=float)


def _expressed(owner: str, text: str, bodies: Any) -> tuple[Callable, tuple[str, ...]]:
    """The function of an expression, and the bodies whose frames it is given."""
    if bodies is not None:
        raise ValueError(f"{owner}: an expression names its bodies itself. Leave bodies= out.")
    try:
        made = Expression(text)
        found = tuple(dict.fromkeys(x.owner for x in made.names.values() if x.owner is not None))
        known = (f"{body}.{x}" for body in found for xs in FRAME_QUANTITIES.values() for x in xs)
        made.check(["t", *dict.fromkeys(known)])
    except ExpressionError as error:
        raise ValueError(f"{owner}: {error}") from None
    return FrameExpression(text, found, time_first=False), found
