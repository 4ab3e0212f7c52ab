"""States of first order that the user describes: z' = f(z, frames, t)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .._messages import explained, shown
from .._numbers import array, is_traced, stacked
from ..system.first_order import StateRates
from ..system.frames import as_plain
from .attachment import Attached, Attachment
from .bodies import Body
from .expressions import checked_parameters, frame_function
from .force_checks import frame_shape
from .items import Connector, Kind, ModelError, record

if TYPE_CHECKING:
    from jax import Array


@record("state", "state")
class StateItem(Connector):
    """A state of first order, z' = rate: the integral of a controller, a current, a filter.

    **Arguments:**

    - `rate`: of (z, frame, ..., t), or (z, frame, ..., t, parameters) where those are given, with
      one frame for each of `bodies`, and the value in place of a frame for other states among
      them; it returns z'. Write it with `jax.numpy`. Or an expression of t, of the state by its
      name, of other states and of the bodies' quantities: ``"(U - R * i - k * rotor.w) / L"``.
    - `start`: z at the beginning. A sequence of numbers makes a state with as many components: z
      is an array then, and so is what `rate` returns; expressions are a list, and call the
      components x1, x2 ... of a state ``"x"``.
    - `bodies`: one body or state or a sequence of them, which the rate depends on.
    - `parameters`: numbers or arrays in any nesting of dictionaries, lists and tuples.
    - `unit`: of the state, for axes of plots and tables.

    Forces and outputs that depend on it name it among their `bodies` (`custom_force`, `output`);
    results, events and plots know it by its name.
    """

    touches: ClassVar[tuple[str, ...]] = ("bodies",)
    words: ClassVar[tuple[str, ...]] = ("unit",)
    functions: ClassVar[tuple[str, ...]] = ("rate",)
    sees_states = True

    rate: Callable[..., Any] | str | tuple[str, ...]
    start: Any = 0.0
    bodies: Any = ()
    parameters: Any = None
    _: KW_ONLY
    unit: str = ""

    def own_states(self) -> dict[str, np.ndarray | Array]:
        several = isinstance(self.start, tuple) or (
            is_traced(self.start) and np.ndim(self.start) == 1
        )
        shape = (len(self.start),) if several else ()
        if shape == (0,):
            raise ModelError(f"{self.owner}: start has no components. Give one number at least.")
        return {self.name: array(self.owner, "start", self.start, shape, error=ModelError)}

    def state_unit(self, state: str) -> str:
        return self.unit

    def attach(self, there: Attachment) -> Attached:
        if not isinstance(self.unit, str):
            raise ModelError(f"{self.owner}: unit={shown(self.unit)} must be a string, as 'A'.")
        names = [name for name, _ in there.layout]
        function = frame_function(
            self.owner,
            "rate",
            self.rate,
            there.kind,
            names,
            self.parameters,
            time_first=False,
            states=there.states,
        )
        if not callable(function):
            raise ModelError(
                f"{self.owner}: rate={shown(self.rate)} is not a function. Give one of the state, "
                "the bodies' frames and the time, or an expression."
            )
        parameters = checked_parameters(self.owner, self.parameters)
        size = there.states[self.name]
        element = StateRates(
            parameters, there.origins(), there.seen(function), len(there.bodies), max(size, 1)
        )
        self._check(there, element, size)
        return there.attached([element])

    def _check(self, there: Attachment, element: StateRates, size: int) -> None:
        """Refuse a function that does not return one number for each component."""
        frames = [frame_shape(there.kind) for _ in (*there.bodies, *there.carriers)]
        own = () if element.parameters is None else (element.parameters,)
        time = jax.ShapeDtypeStruct((), jnp.float64)
        function = lambda frames, t, own: as_plain(element.function(*frames, t, *own))  # noqa: E731
        try:
            hash(element.function)
            got = jax.eval_shape(function, frames, time, own).shape
        except Exception as error:
            more = ", frame, ..." if len(there.layout) > 1 else ""
            last = ", parameters" if own else ""
            raise ModelError(
                f"{self.owner}: its rate could not be evaluated as a function of (z{more}, t{last})"
                f": {explained(error)} Write it with jax.numpy."
            ) from None
        wanted = (size,) if size else ()
        if got != wanted:
            many = f"{size} numbers, one for each component of start" if size else "one number"
            raise ModelError(f"{self.owner}: its rate must return {many}; it returns shape {got}.")


def components(start: Any) -> list[Any]:
    """The numbers that the carriers of a state start with."""
    return list(start) if np.ndim(start) else [start]


def carrier(kind: Kind, name: str, value: object) -> Body:
    """What carries a state that starts at `value` (see `system/first_order.py`)."""
    d, nv = (2, 3) if kind == "planar" else (3, 6)
    place = np.zeros(3) if kind == "planar" else np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    inertia = np.ones(1 if kind == "planar" else 3)
    rate = stacked([value, *np.zeros(nv - 1)])
    return Body(name, kind, 1.0, inertia, np.zeros(d), np.eye(d), place, rate)
