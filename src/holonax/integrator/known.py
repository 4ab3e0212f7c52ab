"""Steps that are taken again, from what was found when they were taken first.

The derivative of a step needs the solution of its equations, not the way to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from ..system.base import Array

if TYPE_CHECKING:
    from jaxtyping import PyTree


class Solution(NamedTuple):
    """Unknowns that were found before, and whether they solve the equations."""

    x: Any
    solved: Array


@jax.custom_jvp
def moved_back(x: Array, change: Array) -> Array:
    """x, which moves as -change does, whatever the value of that is."""
    return x


@moved_back.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return primals[0], tangents[0] - tangents[1]


def held(function: Callable[..., Any], *at: tuple[Array, Array] | Array) -> PyTree:
    """function(*at) as numbers that do not move, whatever the function takes from around it."""
    stop = jax.lax.stop_gradient
    converted, consts = jax.closure_convert(function, *at)
    return converted(*stop(at), *stop(tuple(consts)))
