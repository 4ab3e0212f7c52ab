"""Newton's method inside a step: exact matrices from AD, differentiable by the implicit function
theorem, with counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..linalg import lu, lu_solve
from ..system.base import Array


class NewtonCounts(NamedTuple):
    """How much work the equations of the steps so far have taken."""

    iterations: Array
    factorizations: Array

    @staticmethod
    def zero() -> NewtonCounts:
        """No work yet."""
        return NewtonCounts(jnp.asarray(0), jnp.asarray(0))

    def __add__(self, other: Any) -> NewtonCounts:
        return NewtonCounts(
            self.iterations + other.iterations, self.factorizations + other.factorizations
        )

    def statistics(self) -> dict[str, int]:
        """For `Result.stats`."""
        return {
            "newton_iterations": int(self.iterations),
            "factorizations": int(self.factorizations),
        }


class _Iterate(NamedTuple):
    x: Array
    factor: Any
    change: Array
    iterations: Array
    done: Array


def newton(
    residual: Callable[[Any], Any],
    start: Any,
    *,
    tolerance: float = 1e-10,
    max_iterations: int = 12,
    modified: bool = False,
) -> tuple[Any, Array, NewtonCounts]:
    """Solve residual(x) = 0 from `start`, pytrees of equal total size.

    Stops when the change of every block (leaf) is below `tolerance` relative to one plus its
    size, or when the change has fallen to rounding and grows again. With `modified` the matrix of
    the first iterate is kept. Returns (x, converged, counts).
    """
    flat, unravel = ravel_pytree(start)
    sizes = [leaf.size for leaf in jax.tree.leaves(start)]

    def equations(x: Array) -> Array:
        return ravel_pytree(residual(unravel(x)))[0]

    def relative(step: Array, x: Array) -> Array:
        """The largest change of a block, relative to one plus the block."""
        out, at = jnp.zeros(()), 0
        for size in sizes:
            if size:
                change = jnp.max(jnp.abs(step[at : at + size]))
                out = jnp.maximum(out, change / (1 + jnp.max(jnp.abs(x[at : at + size]))))
            at += size
        return out

    def solve(equations: Any, x: Array) -> tuple[Array, Any]:
        def body(now: _Iterate) -> _Iterate:
            factor = now.factor if modified else lu(jax.jacfwd(equations)(now.x))
            step = lu_solve(factor, equations(now.x))
            new = now.x - step
            change = relative(step, new)
            rounding = jnp.logical_and(change < 1e-6, change > 0.3 * now.change)
            done = jnp.logical_or(change <= tolerance, rounding)
            return _Iterate(new, factor if modified else None, change, now.iterations + 1, done)

        def unfinished(now: _Iterate) -> Array:
            # a change that is not finite will not recover
            going = jnp.logical_and(~now.done, now.iterations < max_iterations)
            return jnp.logical_and(going, now.change < jnp.inf)

        first = lu(jax.jacfwd(equations)(x)) if modified else None
        large = jnp.asarray(jnp.finfo(x.dtype).max)
        start = _Iterate(x, first, large, jnp.asarray(0), jnp.asarray(False))
        end = jax.lax.while_loop(unfinished, body, start)
        return end.x, (end.done, end.iterations.astype(x.dtype))

    def tangent_solve(linear: Any, y: Array) -> Array:
        return lu_solve(lu(jax.jacfwd(linear)(jnp.zeros_like(y))), y)

    x, (done, iterations) = jax.lax.custom_root(equations, flat, solve, tangent_solve, has_aux=True)
    iterations = jax.lax.stop_gradient(iterations).astype(int)
    factorizations = jnp.ones_like(iterations) if modified else iterations
    return unravel(x), done, NewtonCounts(iterations, factorizations)
