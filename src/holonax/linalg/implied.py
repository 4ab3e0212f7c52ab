"""Derivatives of what solves equations: from the equations themselves, not from the way to it.

Of x with F(x, p) = 0 they follow from F_x dx = -F_p dp. So x is found as numbers that do not move,
and is said to move back as F_x^-1 F does, the matrix being one that does not move. That holds for
first derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
from jax import Array

if TYPE_CHECKING:
    from jaxtyping import PyTree


@jax.custom_jvp
def moved_back(x: Array, change: Array) -> Array:
    """x, which moves as -change does, whatever the value of that is."""
    return x


@moved_back.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return primals[0], tangents[0] - tangents[1]


@jax.custom_jvp
def first_order(x: Array) -> Array:
    """x, of which the first derivative is right and the next would not be: asking for that is an
    error."""
    return x


@first_order.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return primals[0], _without_derivative(tangents[0])


@jax.custom_jvp
def _without_derivative(x: Array) -> Array:
    return x


@_without_derivative.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    raise TypeError(
        "Steps of implicit methods are differentiated once, by the matrix of their last iteration; "
        "second derivatives of a run (jax.hessian, jacfwd of jacfwd) need an explicit method, such "
        "as PostStabilized with Dopri5, or differences of first ones."
    )


def held(function: Callable[..., Any], *at: tuple[Array, Array] | Array) -> PyTree:
    """function(*at) as numbers that do not move, whatever the function takes from around it."""
    stop = jax.lax.stop_gradient
    converted, consts = jax.closure_convert(function, *at)
    return converted(*stop(at), *stop(tuple(consts)))
