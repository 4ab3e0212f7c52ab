"""Outputs: quantities of the user's own, computed from the frames of bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp

from .._messages import explained, shown
from ..system.frames import as_plain
from ..system.quantities import Output, Quantity
from .attachment import Attachment
from .expressions import checked_parameters, frame_function
from .force_checks import frame_shape
from .items import Connector, ModelError, record

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_LABELS = {2: ("x", "y"), 3: ("x", "y", "z")}


@dataclass(frozen=True)
class AttachedOutput:
    """An output with its bodies, and what its function is given beside their frames."""

    item: OutputItem
    bodies: tuple[str, ...]
    function: Callable[..., Any]
    parameters: Any
    origins: Any
    labels: tuple[str, ...]

    def quantity(self, nodes: tuple[int, ...]) -> Quantity:
        """As a quantity of the frames with these numbers."""
        unit = self.item.unit
        return Output(unit, self.labels, self.function, nodes, self.parameters, self.origins)


@record("output", "output")
class OutputItem(Connector):
    """A quantity of your own, by name: in results, plots, files and events.

    **Arguments:**

    - `bodies`: one body or a sequence of them; the ground may be among them, and states, for which
      the function is given their values in place of frames.
    - `function`: of (frame, ..., t), or (frame, ..., t, parameters) where those are given; it
      returns a number or a vector. A frame has position r, axes A, velocity v and angular velocity
      w in body axes, and `frame.point(s)`, `frame.velocity(s)`. Write it with `jax.numpy`. Or an
      expression, or a list of them, of t and of the bodies' quantities, ``"rod.x - crank.x"``.
    - `parameters`: numbers or arrays in any nesting of dictionaries, lists and tuples.
    - `unit`: of what it returns, for axes of plots and tables.
    """

    touches: ClassVar[tuple[str, ...]] = ("bodies",)
    words: ClassVar[tuple[str, ...]] = ("unit",)
    functions: ClassVar[tuple[str, ...]] = ("function",)
    sees_states = True

    bodies: Any
    function: Callable[..., Any] | str | tuple[str, ...]
    parameters: Any = None
    _: KW_ONLY
    unit: str = ""

    def attach(self, there: Attachment) -> Any:
        names = tuple(name for name, _ in there.layout)
        function = frame_function(
            self.owner,
            "function",
            self.function,
            there.kind,
            names,
            self.parameters,
            time_first=False,
            states=there.states,
        )
        if not callable(function):
            raise ModelError(
                f"{self.owner}: function={shown(self.function)} is not a function. Give one of the "
                "bodies' frames and the time."
            )
        if not isinstance(self.unit, str):
            raise ModelError(f"{self.owner}: unit={shown(self.unit)} must be a string, as 'm/s'.")
        parameters, function = checked_parameters(self.owner, self.parameters), there.seen(function)
        shape = self._shape(there, function, parameters)
        if len(shape) > 1:
            raise ModelError(
                f"{self.owner}: its function returns an array of shape {shape}. Return a number or "
                "a vector."
            )
        labels = () if not shape else _LABELS.get(shape[0], tuple(map(str, range(shape[0]))))
        nodes = *(body.name for body in there.bodies), *there.carriers
        return AttachedOutput(self, nodes, function, parameters, there.origins(), labels)

    def _shape(
        self, there: Attachment, given: Any, parameters: Mapping[str, ArrayLike] | None
    ) -> tuple[int, ...]:
        """Of what the function returns."""
        frames = [frame_shape(there.kind) for _ in (*there.bodies, *there.carriers)]
        own = () if parameters is None else (parameters,)
        time = jax.ShapeDtypeStruct((), jnp.float64)
        function = lambda frames, t, own: as_plain(given(*frames, t, *own))  # noqa: E731
        try:
            hash(given)
            return jax.eval_shape(function, frames, time, own).shape
        except Exception as error:
            takes = "(frame, ..., t)" if not own else "(frame, ..., t, parameters)"
            raise ModelError(
                f"{self.owner}: its function could not be evaluated as a function of {takes}: "
                f"{explained(error)} It must return a number or a vector; write it with jax.numpy."
            ) from None
