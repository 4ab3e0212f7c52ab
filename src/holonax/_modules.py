"""Classes whose instances are trees of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx


class Module(eqx.Module):
    """An `equinox.Module` whose bound methods are Python's own.

    Those of equinox are trees themselves, so that they can be arguments of traced functions; none
    of ours is. Making one takes 20 to 40 µs, each time that a method is looked up, and a call of
    `simulate` looks up some dozens.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__


M = TypeVar("M", bound=eqx.Module)


def changed(module: M, **fields: Any) -> M:
    """A copy with other fields, which are taken as they are: nothing is checked again."""
    copy = object.__new__(type(module))
    for name in module.__dataclass_fields__:
        object.__setattr__(copy, name, fields.get(name, getattr(module, name)))
    return copy
