"""Single numbers among parameters, by name: entries of a function's parameters are named after the
function (``"motor.gain"``), components of vectors are numbered (``"A.at_b.0"``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class NumberPlace(NamedTuple):
    """A number: which parameter it is in, the entry of its dictionary, if that is one, and the
    component, if it is a vector's."""

    value: float
    whole: str
    entry: str | None
    component: int | None

    @property
    def name(self) -> str:
        """The name without the component."""
        return self.whole if self.entry is None else f"{self.whole.rpartition('.')[0]}.{self.entry}"


def places(parameters: Mapping[str, Any]) -> dict[str, NumberPlace]:
    """Every number of the parameters by name; not those that are nested further."""
    out: dict[str, NumberPlace] = {}
    for whole, given in parameters.items():
        entries = given.items() if isinstance(given, Mapping) else [(None, given)]
        for entry, value in entries:
            if isinstance(value, Mapping):
                continue
            single = np.ndim(value) == 0
            for k, x in enumerate(np.ravel(np.asarray(value, dtype=float))):
                place = NumberPlace(float(x), whole, entry, None if single else k)
                out[place.name if single else f"{place.name}.{k}"] = place
    return out


def changes(parameters: Mapping[str, Any], values: Mapping[str, float]) -> dict[str, Any]:
    """The parameters that change, whole, from new values of single numbers."""
    known = places(parameters)
    out: dict[str, Any] = {}
    for name, value in values.items():
        _, whole, entry, k = known[name]
        old = out.get(whole, parameters[whole])
        inner = old if entry is None else old[entry]
        new: Any = value
        if k is not None:
            new = np.array(inner, dtype=float)
            new.reshape(-1)[k] = value
        out[whole] = new if entry is None else {**old, entry: new}
    return out
