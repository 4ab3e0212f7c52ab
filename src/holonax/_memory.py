"""Remembering what was computed for an object, by which object it is.

A system is slow to hash and to compare, for it is a large tree of arrays and tables; but the same
one is simulated again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Memory(Generic[T]):
    """What belongs to the last few objects.

    **Arguments:**

    - `size`: how many are remembered. Each is kept alive as long, so that no other object can
      have its `id`.
    """

    def __init__(self, size: int):
        self._size = size
        self._known: OrderedDict[Hashable, tuple[Any, T]] = OrderedDict()

    def of(self, thing: Any, more: Hashable, make: Callable[[], T]) -> T:
        """What `make()` returned for this `thing` and an equal `more`."""
        key = id(thing), more
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = thing, make()
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return found[1]
