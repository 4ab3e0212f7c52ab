"""What a mechanism was described by, so that it can be made again with other numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._numbers import as_array, is_traced
from ..system.inventory import Connection, Inventory
from ..system.quantities import Quantity
from .items import Item
from .measured import measured

if TYPE_CHECKING:
    from jax import Array

    from .attachment import Attached
    from .model import Model


@dataclass(frozen=True, eq=False)
class Origin:
    """The records of a model, and how its equations are solved.

    Two are equal if they differ in numbers only: these are kept beside, as one vector, so that they
    can be traced and do not make another program.
    """

    model: type
    items: tuple[Item, ...]
    gravity: Any
    breaks: Any
    solver: str

    @cached_property
    def _numbers(self) -> Any:
        """Every physical number by its name."""
        return {"gravity": self.gravity, **numbers_of(self.items)}

    @cached_property
    def _structure(self) -> Any:
        """All but the numbers."""
        shape = jax.tree.map(np.shape, self._numbers, is_leaf=is_traced)
        said = tuple((type(item), item.name, item.structure()) for item in self.items)
        return self.model, self.solver, str(shape), said

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Origin) and self._structure == other._structure)

    def __hash__(self) -> int:
        return hash(self._structure[:3])

    def _described(self) -> Any:
        model = self.model(self.gravity, self.breaks)
        for item in self.items:
            model.add(item)
        return model

    @cached_property
    def _own(self) -> Model:
        """The model as it was described."""
        return self._described()

    def measured(self, numbers: np.ndarray) -> dict[str, Quantity]:
        """Every named quantity of a state, with these numbers of the mechanism."""
        return measured(self._with(numbers))

    def parts(self, numbers: np.ndarray) -> Inventory:
        """What there is to be drawn, with these numbers of the mechanism."""
        model = self._with(numbers)
        # nodes of beams are bodies without a record, elements of beams forces without a shape
        shapes = {x: getattr(model.items.get(x), "shape", None) or () for x in model._bodies}
        joints, forces = ([*x.values()] for x in (model._joints, model._forces))
        forces = [x for x in forces if not x.part]
        both = [*((x, True) for x in joints), *((x, False) for x in forces)]
        return Inventory(shapes, tuple(_part(x, is_joint) for x, is_joint in both))

    def to_dict(self, numbers: np.ndarray) -> dict[str, Any]:
        """The dictionary of the model with these numbers of the mechanism."""
        return self._with(numbers).to_dict()

    def _with(self, numbers: np.ndarray) -> Model:
        """The model with these numbers."""
        model = self._own
        if is_traced(numbers) or not np.array_equal(numbers, self.flat()):
            model = model.with_parameters(self._whole(self.named(numbers)))
        return model

    def flat(self) -> Any:
        """All numbers as one vector."""
        plain = lambda x: np.ravel(np.asarray(x, dtype=float))  # noqa: E731
        parts = [jnp.ravel(x) if is_traced(x) else plain(x) for x in self._leaves.values()]
        return (jnp if is_traced(*parts) else np).concatenate([np.zeros(0), *parts])

    @cached_property
    def _leaves(self) -> dict[str, Any]:
        found = jax.tree_util.tree_leaves_with_path(self._numbers)
        return {jax.tree_util.keystr(path, simple=True, separator="."): x for path, x in found}

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each number by its name."""
        return {name: np.shape(x) for name, x in self._leaves.items()}

    @cached_property
    def _places(self) -> dict[str, slice]:
        """Where each number is in the vector of all."""
        ends = np.cumsum([0, *(math.prod(shape) for shape in self.shapes.values())]).tolist()
        return {name: slice(*pair) for name, pair in zip(self.shapes, itertools.pairwise(ends))}

    def named(self, numbers: np.ndarray | Array) -> dict[str, np.ndarray | Array]:
        """The numbers of a vector by name."""
        shapes = self.shapes
        return {name: numbers[at].reshape(shapes[name]) for name, at in self._places.items()}

    def replaced(self, numbers: Array, changed: Mapping[str, Array]) -> Array:
        """A vector of all numbers with some of them replaced."""
        for name, x in changed.items():
            numbers = numbers.at[self._places[name]].set(jnp.ravel(x))
        return numbers

    def system(self, values: Mapping[str, Array]) -> Any:
        """The mechanism with these numbers, all of them given."""
        return self._described().with_parameters(self._whole(values)).system(solver=self.solver)

    def _whole(self, values: Mapping[str, Any]) -> Any:
        """Numbers by name as those of the records."""
        tree = jax.tree.structure(self._numbers)
        return jax.tree.unflatten(tree, [values[name] for name in self._leaves])


def _part(attached: Attached, is_joint: bool) -> Connection:
    item, places = attached.item, ("point_a", "point", "axes", "axes_b")
    p, q, axes, axes_b = (np.asarray(getattr(attached, x)) for x in places)
    return Connection(item.name, item.type, is_joint, attached.bodies, p, q, axes, axes_b, item)


def numbers_of(items: Iterable[Item]) -> dict[str, Any]:
    """Every physical number of some records, as ``"crank.mass"`` or ``"A.at_b"``."""
    out: dict[str, Any] = {}
    for item in items:
        for field, value in item.numbers().items():
            vector = isinstance(value, tuple) and field != "parameters"
            out[f"{item.name}.{field}"] = as_array(value) if vector else value
    return out


def parameter_path(item: Item, name: str) -> list[str] | None:
    """Where among the parameters of a record's function a name is; None if it is a field."""
    known = {f.name for f in fields(item)}
    if name in known:
        return None
    path = name.split(".")
    path = path[1:] if path[0] == "parameters" else path
    return path if path and "parameters" in known and _entry(item, path) else None


def _entry(item: Any, path: list[str]) -> bool:
    inner = item.parameters
    for key in path:
        if not isinstance(inner, Mapping) or key not in inner:
            return False
        inner = inner[key]
    return True


def with_entry(tree: Any, path: list[str], value: object) -> Any:
    """Nested dictionaries with another value at a path."""
    inner = value if len(path) == 1 else with_entry(tree[path[0]], path[1:], value)
    return {**tree, path[0]: inner}
