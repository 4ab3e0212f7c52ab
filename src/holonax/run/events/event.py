"""What a user says about an event: when it is, and what happens then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..._arguments import choice, flag, names
from ..._messages import shown
from ..._modules import Module
from ..._numbers import parameter, tree
from ...system.base import Array, System
from ...system.expressed import Expressed, is_expression
from ...system.expression_parser import ExpressionError
from ...system.mechanism import Mechanism
from ...system.situation import Recorded

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Direction = Literal["falling", "rising", "both"]
Rest = Literal["hold", "stop"]
SIGNS = {"falling": -1, "rising": 1, "both": 0}


class Impact(Module):
    """A frictionless contact on the surface where the event's function vanishes.

    The function is the gap, of positions and time only. Where it closes, the velocity changes by an
    impulse along its gradient that all joints share (in the mass metric), so that afterwards the
    gap opens `restitution` times as fast as it closed. Contacts that close at the same time are
    solved together; those that touch are struck when the blow has come to them, as the balls of
    Newton's cradle. Impulses push and do not pull, and no gap closes afterwards.

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


class Event(Module):
    """A time at which a function of the state changes sign, and what happens then.

    **Arguments:**

    - `name`: by which the result records it.
    - `function`: the name of a quantity, such as ``"A.angle"`` or ``"spring.force"``
      (`Model.quantities` lists them), or an expression of such, ``"A.angle - 2 * B.angle"``; or
      ``function(t, q, v)``, a number that passes `level` at the event; with `bodies`,
      ``function(*frames, t)`` of one frame for each named body, as for `Model.custom_joint`.
      Written with `jax.numpy`. Define it once: a new function object is compiled anew.
    - `bodies`: names of the bodies whose frames the function is given.
    - `level`: the value that it passes; zero unless given.
    - `direction`: ``"falling"`` through it, ``"rising"``, or ``"both"``.
    - `terminal`: whether the run ends there.
    - `change`: what happens to the state: `Impact(restitution)`, a contact that is never passed, or
      a function ``change(t, q, v) -> (q, v)``. The new state is projected onto the constraints.
    - `engage`, `release`: names of joints that begin, or cease, to act. Velocities are projected by
      an impulse onto those that are engaged.
    - `parameters`: numbers or arrays in any nesting, which a function (and `change`, if that is
      one) is given as its last argument: other values compile nothing again, as those of `level`.

    An angle between spatial bodies is known up to whole turns: the event is at `level` and every
    turn from there. In the plane angles are counted over turns, and it is at `level` alone.
    """

    name: str = eqx.field(static=True)
    function: Callable | str = eqx.field(static=True)
    bodies: tuple[str, ...] | None = eqx.field(static=True)
    direction: Direction = eqx.field(static=True)
    terminal: bool = eqx.field(static=True)
    change: Any
    engage: tuple[str, ...] = eqx.field(static=True)
    release: tuple[str, ...] = eqx.field(static=True)
    level: Any
    parameters: Any
    quantity: Any  # the one that is named, once the mechanism is known

    def __init__(
        self,
        name: str,
        function: Callable | str,
        *,
        bodies: Sequence[str] | str | None = None,
        direction: Direction = "both",
        terminal: bool = False,
        change: Impact | None = None,
        engage: Sequence[str] | str = (),
        release: Sequence[str] | str = (),
        level: float | None = None,
        parameters: Mapping[str, float] | None = None,
    ):
        if not isinstance(name, str) or not name:
            raise ValueError(f"Event: name={shown(name)} must be a non-empty string.")
        owner = f"Event {name!r}"
        if not callable(function) and not isinstance(function, str):
            raise TypeError(
                f"{owner}: {shown(function)} is not a function. Give one of (t, q, v), or the name "
                "of a quantity such as 'A.angle'."
            )
        if isinstance(function, str) and bodies is not None:
            raise TypeError(
                f"{owner}: bodies are for a function; the quantity {function!r} needs none. Leave "
                "them out."
            )
        if isinstance(function, str) and parameters is not None and not callable(change):
            raise TypeError(
                f"{owner}: parameters are for functions; the quantity {function!r} takes none. "
                "Leave them out."
            )
        if isinstance(function, str):
            try:
                is_expression(function)
            except ExpressionError as error:
                raise ValueError(f"{owner}: {error}") from None
        choice(owner, "direction", direction, tuple(SIGNS))
        if change is not None and not callable(change) and not isinstance(change, Impact):
            raise TypeError(
                f"{owner}: change={shown(change)} must be hx.Impact(...) or a function "
                "(t, q, v) -> (q, v)."
            )
        self.name, self.function, self.direction = name, function, direction
        self.bodies = None if bodies is None else names(owner, "bodies", bodies)
        self.terminal, self.change = flag(owner, "terminal", terminal), change
        self.level = None if level is None else jnp.asarray(parameter(owner, "level", level))
        self.parameters = None if parameters is None else tree(owner, "parameters", parameters)
        self.quantity = None
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
        """What passes zero, at a state."""
        if self.quantity is not None:
            found = self.quantity.at(system.bodies, t, q, v)  # pyright: ignore
        elif self.bodies is None:
            found = self.function(t, q, v, *self._own)  # pyright: ignore
        else:
            frames = [system.frame_of(name, q, v) for name in self.bodies]  # pyright: ignore
            found = self.function(*frames, t, *self._own)  # pyright: ignore
        found = jnp.asarray(found, dtype=float)
        found = found if self.level is None else found - self.level
        return jnp.sin(found) if self._is_circular else found

    @property
    def _own(self) -> tuple[Any, ...]:
        return () if self.parameters is None else (self.parameters,)

    @property
    def _is_circular(self) -> bool:
        """Whether the quantity is an angle less whole turns. That jumps, half a turn from `level`;
        its sine does not, but passes zero there as well."""
        return self.quantity is not None and self.quantity.circular

    def is_meant(self, system: Any, t: float, q: ArrayLike, v: ArrayLike) -> bool:
        """Whether a change of sign at this state is one of the event's: not half a turn from it."""
        if not self._is_circular:
            return True
        state = (np.atleast_1d(t), np.atleast_2d(q), np.atleast_2d(v))
        angle = self.quantity.over(Recorded(system.bodies, *state))[0]
        return bool(np.cos(angle - (0.0 if self.level is None else self.level)) > 0)

    def on(self, system: System) -> Event:
        """The event with the quantity that it names."""
        if callable(self.function):
            return self
        owner = f"Event {self.name!r}"
        if not isinstance(system, Mechanism):
            raise ValueError(
                f"{owner}: quantities such as {self.function!r} are known to a mechanism made with "
                "hx.Model only. Give a function of (t, q, v)."
            )
        whole = system.complete()
        find = lambda name: whole.named_quantity(owner, name)  # noqa: E731
        try:
            expressed = is_expression(self.function)
            found = Expressed.of(self.function, find) if expressed else find(self.function)
        except ExpressionError as error:
            raise ValueError(f"{owner}: {error}") from None
        return eqx.tree_at(lambda e: e.quantity, self, found, is_leaf=lambda x: x is None)

    def changed(self, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
        """The state after the event, not yet projected; impacts are solved elsewhere, together."""
        if self.change is None or self.is_contact:
            return q, v
        q, v = self.change(t, q, v, *self._own)
        return jnp.asarray(q, dtype=float), jnp.asarray(v, dtype=float)
