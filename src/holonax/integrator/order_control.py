"""What methods that choose their own order share: how they tell the step control.

The control lengthens a step by err^(-1/E), err being of one order E for all steps of a run. A
method that goes on with an error of order m gives err^(E/m) instead, which is 1 where err is.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from .._numbers import count
from ..system.base import Array

ERROR_ORDER = 2

# The longest step by the one before it: formulas on uneven steps lose stability beyond.
LONGEST = 2.0


def order_error(here: Array, power: Array, chosen: Array, next_power: Array) -> Array:
    """The error for the step control: `here` of a step whose error is of order `power`, and of the
    step that follows, if it is kept, `chosen` of order `next_power`."""
    kept = jnp.clip(chosen, 0.0, 1.0) ** (ERROR_ORDER / next_power)
    kept = jnp.maximum(kept, LONGEST**-ERROR_ORDER)
    return jnp.where(here <= 1, kept, here ** (ERROR_ORDER / power))


def check_order(name: str, order: Any, highest: int) -> None:
    """Refuse an order that is not a whole number from 1 to `highest`."""
    count(name, "max_order", order, most=highest)
