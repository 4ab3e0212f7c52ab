"""How the equations of motion answer changes of named parameters at one state.

With q, v, v' and lam fixed, a change dp of parameters leaves

    force dp in f - J^T lam - M v',   acceleration dp in gamma - J v',
    place dp in g,                    rate dp in J v + g_t

(`Directions.first`). `Directions.second` is the change of the matrices of small motions along
(dq, dlam, dp), which derivatives of their eigenvalues are made of.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import names as names_given
from .._parts import Parts
from ..compiler import native
from ..run.gradients import known_values
from ..system.base import System
from .checks import is_traced
from .search import entries, named

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree
    from numpy.typing import ArrayLike

    from ..compiler.native import Native


class First(NamedTuple):
    """The module's four derivatives, a column for each entry of the parameters."""

    force: np.ndarray
    acceleration: np.ndarray
    place: np.ndarray
    rate: np.ndarray


class Second(NamedTuple):
    """The changes of by_position u, by_velocity u, M u, J^T mu and J u, columns likewise."""

    by_position: np.ndarray
    by_velocity: np.ndarray
    momentum: np.ndarray
    reaction: np.ndarray
    rate: np.ndarray


class Directions:
    """Named parameters of a system, all their entries one vector."""

    def __init__(self, owner: str, system: System, parameters: object):
        if is_traced(system):
            raise TypeError(
                f"{owner} takes no traced values: inside of jit, grad or vmap differentiate the "
                "analysis itself."
            )
        self.names = names_given(owner, "parameters", parameters)
        known = known_values(owner, "parameters", system, None, self.names)
        self.known = dict(sorted(known.items()))  # in the order that programs see
        self.size = sum(x.size for x in self.known.values())
        parts = Parts.of(system)
        self._leaves = [np.asarray(x) for x in parts.arrays]
        self._rest = parts.rest
        self._programs = _programs(parts.rest)

    def by_name(self, columns: ArrayLike) -> dict[str, np.ndarray]:
        """(..., entries) by name, each with the shape of its parameter last."""
        columns = np.asarray(columns)
        ends = np.cumsum([0, *(x.size for x in self.known.values())])
        found = {
            name: columns[..., a:b].reshape((*columns.shape[:-1], *x.shape))
            for (name, x), a, b in zip(self.known.items(), ends[:-1], ends[1:], strict=True)
        }
        return {name: found[name] for name in self.names}

    def entry(self, k: int) -> str:
        """What messages call an entry."""
        return entries(tuple(self.known), self.known)[k]

    def first(self, t: Any, q: ArrayLike, v: ArrayLike, a: Any, lam: ArrayLike) -> First:
        """At one state."""
        given = (np.asarray(x, dtype=float) for x in (t, q, v, a, lam))
        found = self._programs[0](self.known, self._leaves, *given)
        return First(*(np.asarray(x).T for x in found))

    def second(
        self,
        t: Any,
        q: ArrayLike,
        lam: Any,
        u: ArrayLike,
        mu: ArrayLike,
        dq: np.ndarray,
        dlam: np.ndarray,
    ) -> Second:
        """At rest, for vectors u and mu, along the columns of dq and dlam."""
        given = (np.asarray(x, dtype=float) for x in (t, q, lam, u, mu, dq.T, dlam.T))
        found = self._programs[1](self.known, self._leaves, *given)
        return Second(*(np.asarray(x).T for x in found))

    def quantity(self, name: str, t: Array, q: Array, dq: np.ndarray) -> np.ndarray:
        """The change of a quantity by name, at rest, along the columns of dq: (..., entries)."""
        program = _quantity_program(self._rest, name)
        given = (np.asarray(x, dtype=float) for x in (t, q, dq.T))
        return np.moveaxis(np.asarray(program(self.known, self._leaves, *given)), 0, -1)


@lru_cache(maxsize=256)
def _quantity_program(rest: Hashable, name: str) -> Native:
    """`quantity` as a compiled function of the numbers."""

    def change(known: Any, leaves: list[Array], t: Any, q: Any, dq: Any) -> Any:
        plain, still = Parts.joined(leaves, rest), jnp.zeros(dq.shape[1])

        def value(values: Mapping[str, Array], step: Array) -> Any:
            moved = plain.with_parameters(values)
            return moved.quantity(name)(t, plain.retract(q, step), still)

        def along(given: Any) -> Any:
            e, step = given
            return jax.jvp(value, (known, still), (named(known, e), step))[1]

        return jax.lax.map(along, (jnp.eye(dq.shape[0]), dq))

    return native(change, once=True)


@lru_cache(maxsize=64)
def _programs(rest: Hashable) -> tuple[Native, Native]:
    """`first` and `second` as compiled functions of the numbers."""

    def directions(known: Any) -> Array:
        return jnp.eye(sum(x.size for x in known.values()))

    def first(known: Any, leaves: PyTree, t: Array, q: Array, v: Array, a: Any, lam: Array) -> Any:
        def along(e: Any) -> Any:
            plain = Parts.joined(leaves, rest)

            def equations(values: Mapping[str, Array]) -> Any:
                system = plain.with_parameters(values)
                force = system.force(q, v, t) - system.constraint_force(q, t, lam)
                rate = lambda w: system.constraint_rate(q, w, t)  # noqa: E731
                missing = system.gamma(q, v, t) - (rate(a) - rate(0.0 * v))
                return force - system.momentum(q, a), missing, system.constraint(q, t), rate(v)

            return jax.jvp(equations, (known,), (named(known, e),))[1]

        return jax.lax.map(along, directions(known))

    def second(
        known: Any,
        leaves: list[Array],
        t: Array,
        q: Array,
        lam: Any,
        u: Array,
        mu: Array,
        dq: Array,
        dlam: Array,
    ) -> Any:
        still = jnp.zeros_like(u)

        def along(given: Any) -> Any:
            e, step, turn = given
            plain = Parts.joined(leaves, rest)

            def terms(values: Mapping[str, Array], step: Array, lam: Array) -> Any:
                system, here = plain.with_parameters(values), plain.retract(q, step)

                def force(w: Any) -> Any:
                    moved = system.retract(here, w)
                    return system.force(moved, still, t) - system.constraint_force(moved, t, lam)

                rate = lambda w: system.constraint_rate(here, w, t)  # noqa: E731
                return (
                    jax.jvp(force, (still,), (u,))[1],
                    jax.jvp(lambda w: system.force(here, w, t), (still,), (u,))[1],
                    system.momentum(here, u),
                    system.constraint_force(here, t, mu),
                    rate(u) - rate(still),
                )

            return jax.jvp(terms, (known, still, lam), (named(known, e), step, turn))[1]

        return jax.lax.map(along, (directions(known), dq, dlam))

    return native(first, once=True), native(second, once=True)
