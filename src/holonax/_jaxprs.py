"""What differs between versions of JAX in the programs that it traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Shaped(Protocol):
    """What is known of an array before it is computed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its axes."""
        ...

    @property
    def dtype(self) -> Any:
        """The type of its entries."""
        ...

    @property
    def size(self) -> int:
        """How many entries it has."""
        ...

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        ...


class Variable(Protocol):
    """An array in a program."""

    @property
    def aval(self) -> Shaped:
        """Its shape and type."""
        ...


class Equation(Protocol):
    """One operation of a program, on arrays."""

    @property
    def primitive(self) -> Any:
        """What is done."""
        ...

    @property
    def params(self) -> dict[str, Any]:
        """What it is told beside arrays."""
        ...

    @property
    def invars(self) -> Sequence[Variable]:
        """What goes in."""
        ...

    @property
    def outvars(self) -> Sequence[Variable]:
        """What comes out."""
        ...

    @property
    def effects(self) -> Any:
        """What it does beside."""
        ...


def scan_sizes(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many constants a scan has and how many values it carries, from its parameters.

    They are numbers up to JAX 0.10; since 0.11 the inputs are a tree of (constants, carry, rows).
    """
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)
