"""Everything that is asked of a system at a state, by one program.

Starts, diagnosis, energies, drift, reactions, accelerations and the search for the cause of a
failure all ask the same few things; so one program answers them, for one state or many, and what
is compiled for the first question serves all others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..compiler import native
from .base import Array, System

# Up to this many velocity coordinates the dense matrices G and M are part of every answer.
DENSE = 60
_MANY = 64  # states in one call,
_NUMBERS = 20_000  # and about the most velocities of these together


class Evaluation(NamedTuple):
    """A system at states (a leading axis), or at one; `jacobian` and `mass` may be left out (None).

    `q` is the configuration that was asked for, on its manifold; `gamma` and `rate` have all
    constraint rows, `g` the holonomic ones; `power` is the rate of change of the energy.
    """

    q: Any
    g: Any
    rate: Any
    gamma: Any
    force: Any
    a: Any
    lam: Any
    kinetic: Any
    potential: Any
    power: Any
    jacobian: Any = None
    mass: Any = None


@jax.jit
def _one(system: System, dense: Array, t: Array, q: Array, step: Array, v: Array) -> Evaluation:
    q = system.normalize(system.retract(q, step))
    force, gamma = system.force(q, v, t), system.gamma(q, v, t)
    a, lam = system.at(q, t).accelerations(v, gamma)
    along = system.qdot(q, v), a
    return Evaluation(
        q=q,
        g=system.constraint(q, t),
        rate=system.constraint_rate(q, v, t),
        gamma=gamma,
        force=force,
        a=a,
        lam=lam,
        kinetic=system.kinetic_energy(q, v),
        potential=system.potential_energy(q),
        power=jax.jvp(system.energy, (q, v), along)[1],
        jacobian=None if dense is None else system.jacobian(q, t),
        mass=None if dense is None else system.mass_matrix(q),
    )


@native(once=True)
def _several(
    system: System, dense: Array, count: Array, t: Array, q: Array, step: Array, v: Array
) -> Evaluation:
    """At the first `count` of the states."""
    first = jax.eval_shape(_one, system, dense, t[0], q[0], step[0], v[0])
    room = jax.tree.map(lambda x: jnp.zeros((t.shape[0], *x.shape), x.dtype), first)

    def at(i: Array, out: Evaluation) -> Evaluation:
        row = _one(system, dense, t[i], q[i], step[i], v[i])
        return jax.tree.map(lambda x, y: x.at[i].set(y), out, row)

    return jax.lax.fori_loop(0, count, at, room)


def evaluated(
    system: System,
    t: object,
    q: Any,
    v: Any,
    *,
    step: np.ndarray | None = None,
    dense: bool | None = None,
) -> Evaluation:
    """The system at a state, or at many: times (n,), configurations (n, nq), velocities (n, nv).

    **Arguments:**

    - `step`: an increment (size of v) to move the configurations by first.
    - `dense`: whether G and M are wanted; always there for small systems.
    """
    single = np.ndim(q) == 1
    t, q, v = (np.atleast_1d(np.asarray(t, float)), np.atleast_2d(q), np.atleast_2d(v))
    step = np.zeros(v.shape) if step is None else np.broadcast_to(step, v.shape)
    wanted = None
    if v.shape[1] <= DENSE or dense:
        wanted = np.zeros(())
    most = max(min(_MANY, _NUMBERS // max(v.shape[1], 1)), 1)
    given = np.broadcast_to(t, len(q)), q, step, v
    parts = [
        _part(system, wanted, most, *(x[k : k + most] for x in given))
        for k in range(0, len(q), most)
    ]
    if single:
        return jax.tree.map(lambda x: x[0], parts[0])
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *x: np.concatenate(x), *parts)


def _part(
    system: System,
    dense: Any,
    most: int,
    t: np.ndarray,
    q: np.ndarray,
    step: np.ndarray,
    v: np.ndarray,
) -> Evaluation:
    """At up to `most` states, in a program for as many."""
    n = len(t)

    def padded(x: np.ndarray) -> np.ndarray:
        if n == most:
            return np.asarray(x, dtype=float)
        out = np.zeros((most, *x.shape[1:]))
        out[:n] = x
        return out

    full = _several(system, dense, np.int64(n), *map(padded, (t, q, step, v)))
    return jax.tree.map(lambda x: x[:n], full)
