"""What the analyses ask of their arguments, and how they name what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._config import refuse_after_fork
from .._messages import listed, shown
from ..start.consistent import Start, check_start, consistent
from ..start.diagnosis import DENSE_LIMIT
from ..system.base import Array, System, check_system
from ..system.mechanism import Mechanism

if TYPE_CHECKING:
    from jaxtyping import PyTree


def is_traced(tree: PyTree) -> bool:
    """Whether some number is being traced, so that no decision can be taken on it."""
    try:
        return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))
    except ValueError:  # something that cannot be taken apart, to be refused by who asks
        return False


def known(x: float | Array | np.ndarray) -> np.ndarray | None:
    """The value of `x`, derivatives aside; None where only a compiled program will know it."""
    x = jax.lax.stop_gradient(x)
    return None if isinstance(x, Tracer) else np.asarray(x)


def as_start(owner: str, system: System, start: Any) -> Start:
    """`start` as a consistent one of `system`; a vector q or a pair (q, v) is made consistent."""
    check_system(owner, system)
    refuse_after_fork()
    if not isinstance(start, Start):
        if is_traced((system, start)):
            raise TypeError(
                f"{owner}: a start cannot be made consistent while it is differentiated or "
                "compiled. Give one that hx.consistent(...) made beforehand."
            )
        pair = isinstance(start, tuple) and len(start) == 2 and np.ndim(start[0]) == 1
        try:
            return consistent(system, *(start if pair else (start,)))
        except TypeError:
            raise TypeError(
                f"{owner}: start={shown(start)} is not a start. Give what hx.consistent(...) or "
                "model.build() returns, a vector q, or a pair (q, v)."
            ) from None
    check_start(owner, system, start)
    return start


def known_rank(owner: str, start: Start, remedy: str) -> int:
    """The rank of the constraints at the start; refuses systems too large for dense algebra."""
    if start.diagnosis is None:
        raise ValueError(
            f"{owner}: the system has {start.v.shape[0]} velocity coordinates, more than the "
            f"{DENSE_LIMIT} that dense algebra takes. {remedy}"
        )
    return start.diagnosis.rank


def usual_length(system: Mechanism, q: np.ndarray) -> tuple[np.ndarray, float]:
    """(which coordinates of v are lengths, the size of the mechanism [m])."""
    sizes = system.typical_sizes(q)
    lengths = np.array([unit == "m" for unit in system.increment_units(sizes.size)])
    usual = float(np.max(sizes[lengths], initial=0.0))
    extent = lambda: np.asarray(system.extent(jnp.asarray(q)))[lengths]  # noqa: E731
    return lengths, usual or float(np.max(extent(), initial=0.0)) or 1.0


def unit(system: System, name: str) -> str:
    """The unit of a force on the velocity coordinate `name`, with a space; empty if not known."""
    if not isinstance(system, Mechanism):
        return ""
    if name in system.bodies.states:
        return " /s"
    return " N" if name.rsplit(".", 1)[-1] in ("x", "y", "z") else " N m"


def coordinate_index(owner: str, option: str, system: System, name: object, nv: int) -> int:
    """The position in v of the coordinate `name`."""
    names = system.velocity_names(nv)
    if not isinstance(name, str) or name not in names:
        raise ValueError(
            f"{owner}: {option} has {shown(name)}, which is no coordinate. There are "
            f"{listed(names)}."
        )
    return names.index(name)


def bodies_of(system: System, names: list[str]) -> list[str]:
    """The bodies that coordinates belong to, each once; the coordinates where there are none."""
    if not isinstance(system, Mechanism):
        return names
    return list(dict.fromkeys(name.rsplit(".", 1)[0] for name in names))


@jax.jit
def constraint_and_jacobian(system: System, q: Array, t: Array) -> tuple[Array, Array]:
    """(g, [G; A])."""
    return system.constraint(q, t), system.jacobian(q, t)


def free_motions(system: System, q: Array, t: float) -> list[str]:
    """Names of the coordinates that the constraints leave free to move."""
    jacobian = np.asarray(constraint_and_jacobian(system, q, jnp.asarray(t, dtype=float))[1])
    nv = jacobian.shape[1]
    size = np.linalg.norm(jacobian, axis=1, keepdims=True)
    _, s, vt = np.linalg.svd(jacobian / np.where(size > 0, size, 1.0), full_matrices=True)
    rank = int(np.sum(s > 1e-9 * max(s.max(initial=0.0), 1e-300)))
    moves = np.linalg.norm(vt[rank:], axis=0) > 1e-6
    moves[np.concatenate([system.states(nv), system.idle(nv)])] = False
    return [name for name, free in zip(system.velocity_names(nv), moves, strict=True) if free]
