"""The numbers of a traced mechanism that follow from some of its parameters.

Where all numbers of a mechanism are traced, one that is made anew is traced as well, with thousands
of equations of which a changed mass or length needs a few. So they are traced once for each
structure, and only what follows from the change is computed; all other numbers stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
from jax.extend import core as jax_core

from ..linalg.linearized import evaluate, read

if TYPE_CHECKING:
    from jax import Array


class Following(NamedTuple):
    """The equations between changed numbers and those that follow from them; of the results, None
    where nothing follows."""

    equations: list[Any]
    constants: list[tuple[Any, Any]]
    arguments: list[Any]
    results: list[Any]

    def __call__(self, changed: Sequence[Array], numbers: Sequence[Array]) -> list[Any]:
        """All numbers, those that follow being new."""
        env: dict[Any, Any] = dict(self.constants)
        env.update(zip(self.arguments, [*changed, *numbers], strict=True))
        evaluate(self.equations, env)
        pairs = zip(self.results, numbers, strict=True)
        return [x if var is None else read(env, var) for var, x in pairs]


def following(
    made: Callable[..., Sequence[Array]], shapes: Sequence[Any], count: int, without: Sequence[int]
) -> Following:
    """What made(*changed, *numbers) makes of its first `count` arguments, the changed ones; those
    `without` are not asked for."""
    closed = jax.make_jaxpr(made)(*shapes)
    jaxpr = closed.jaxpr
    moving = set(jaxpr.invars[:count])
    for eqn in jaxpr.eqns:
        if any(v in moving for v in eqn.invars if not isinstance(v, jax_core.Literal)):
            moving.update(eqn.outvars)
    results: list[Any] = [
        None if isinstance(v, jax_core.Literal) or v not in moving or k in without else v
        for k, v in enumerate(jaxpr.outvars)
    ]
    needed = {v for v in results if v is not None}
    equations = []
    for eqn in reversed(jaxpr.eqns):
        if any(v in needed for v in eqn.outvars):
            needed.update(v for v in eqn.invars if not isinstance(v, jax_core.Literal))
            equations.append(eqn)
    constants = list(zip(jaxpr.constvars, closed.consts, strict=True))
    return Following(equations[::-1], constants, list(jaxpr.invars), results)


@lru_cache(maxsize=64)
def following_of(
    structure: Any,
    shapes: tuple[tuple[Any, Any], ...],
    names: tuple[str, ...],
    without: tuple[int, ...],
) -> Following:
    """As `following`, of mechanisms of one structure whose parameters of these names change."""
    count = len(names)

    def made(*given: Array) -> list[Array]:
        mechanism = structure.unflatten(given[count:])
        return jax.tree.leaves(mechanism.made_anew(dict(zip(names, given[:count], strict=True))))

    return following(made, [jax.ShapeDtypeStruct(*x) for x in shapes], count, without)
