"""What the results of a function depend on, entry by entry."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .operations import Node, Unsupported, kind_of


def dependence(function: Callable[..., Any], *args: Any) -> list[set[int] | None]:
    """For each entry of the results: the leaves of the arguments that it is computed from.

    Known zeros are followed, so 0 x does not depend on x. None where that cannot be told: what goes
    through loops and memory, or has operations that the compiler does not know.
    """
    from .program import Lowering

    closed = jax.make_jaxpr(function)(*args)
    size = sum(math.prod(v.aval.shape) for v in closed.jaxpr.outvars)
    low = Lowering()
    origin: dict[Node, int] = {}
    given = []
    try:
        for k, var in enumerate(closed.jaxpr.invars):
            shape, kind = var.aval.shape, kind_of(var.aval.dtype)
            nodes = np.empty(math.prod(shape), object)
            for i in range(nodes.size):
                nodes[i] = Node("input", kind)
                origin[nodes[i]] = k
            given.append(nodes.reshape(shape))
        results = [low.a.small(x) for x in low.run(closed.jaxpr, closed.consts, given)]
    except Unsupported:
        return [None] * size
    return [_leaves(x, origin) for part in results for x in part.ravel().tolist()]


def _leaves(node: Node, origin: dict[Node, int]) -> set[int] | None:
    found: set[int] = set()
    seen, waiting = {node}, [node]
    while waiting:
        x = waiting.pop()
        if x in origin:
            found.add(origin[x])
        elif x.op in ("phi", "load", "index"):
            return None
        else:
            new = [y for y in x.args if y not in seen]
            seen.update(new)
            waiting.extend(new)
    return found
