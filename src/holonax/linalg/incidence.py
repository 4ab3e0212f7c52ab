"""Sums over the edges of a graph onto its nodes, by gathering in both directions.

XLA scatters one number after the other, and cuts a loop with a scatter in it into pieces that are
dispatched one by one. Here each node gathers what belongs to it. JAX would transpose that to a
scatter, so the sum is written as a solution of unit triangular equations, to which one may say how
they are solved transposed: by gathering what the node of each end of an edge has.

    [ 1  0 ] [w]   [w]
    [-A  1 ] [z] = [y],    z = y + A w
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._modules import Module
from .known_tables import inverse

if TYPE_CHECKING:
    from jax import Array


class Incidence(Module):
    """Which ends of edges a node has; made by `Incidence.plan`.

    The ends are counted with the first ends of all edges before the second ones. `incident` has a
    row for the first end of each node, one for the second, and so on, and is None where some node
    has so many that this would be mostly empty.
    """

    ends: Array
    incident: Array | None

    @staticmethod
    def plan(n: int, edges: np.ndarray) -> Incidence:
        """For edges (E, 2) between `n` nodes."""
        ends: Any = edges.T.ravel().astype(np.int32)
        found = inverse(ends, n) if ends.size else None
        incident: Any = None if found is None else found.T.astype(np.int32)
        return Incidence(ends, incident)

    def across(self, x: Array) -> tuple[Array, Array]:
        """What the nodes at the first and at the second ends have of x, (b, n)."""
        each = _taken(x, self.ends)
        half = each.shape[1] // 2
        return each[:, :half], each[:, half:]

    def added(self, y: Array, first: Array, second: Array) -> Array:
        """y, (b, n), and what belongs to the first and to the second ends of the edges, (b, E)."""
        values = jnp.concatenate([first, second], axis=1)
        if self.incident is None:
            return y.at[:, self.ends].add(values)
        rows = self.incident

        def product(x: tuple[Array, Array]) -> tuple[Array, Array]:
            w, z = x
            return w, z - _gathered(w, rows)

        def solve(_: Any, r: tuple[Array, Array]) -> tuple[Array, Array]:
            w, y = r
            return w, y + _gathered(w, rows)

        def transposed(_: Any, r: tuple[Array, Array]) -> tuple[Array, Array]:
            w, y = r
            return w + _taken(y, self.ends), y

        return lax.custom_linear_solve(product, (values, y), solve, transposed)[1]


def _gathered(values: Array, rows: Array) -> Array:
    """A w: what the rows name, summed over them; one past the last is nothing."""
    padded = jnp.pad(values, ((0, 0), (0, 1)))
    return sum((_taken(padded, rows[k]) for k in range(1, rows.shape[0])), _taken(padded, rows[0]))


def _taken(x: Array, columns: Array) -> Array:
    return jnp.asarray(x).at[:, columns].get(mode="promise_in_bounds")
