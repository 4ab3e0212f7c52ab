"""What differs between versions of JAX in the programs that it traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def scan_sizes(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many constants a scan has and how many values it carries, from its parameters.

    They are numbers up to JAX 0.10; since 0.11 the inputs are a tree of (constants, carry, rows).
    """
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)
