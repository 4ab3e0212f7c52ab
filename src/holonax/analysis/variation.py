"""How the equations of motion answer small deviations from one state.

With v' and lam of the state fixed, deviations (dq, dv) leave

    by_position dq + by_velocity dv,   drag dq + J dv

out of balance: forces in f - J^T lam - M v', and velocities in the constraints J v + g_t = 0. What
the constraints allow is spanned by

    dq = Z x,   dv = Z_v y + C x,     G Z = 0,   J Z_v = 0,   J C = -drag Z.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..compiler import native
from ..system.base import Array, System
from ..system.evaluation import evaluated
from .checks import is_traced
from .tangent_space import Tangent, library


class Variation(NamedTuple):
    """The state's own terms, and the derivatives of the module's equations."""

    mass: Any
    jacobian: Any
    force: Any
    unbalanced: Any
    a: Any
    lam: Any
    by_position: Any
    by_velocity: Any
    drag: Any


class Bases(NamedTuple):
    """Z (nv, n), Z_v (nv, m) and C (nv, n)."""

    positions: Any
    velocities: Any
    dragged: Any


@native(once=True)
def _derivatives(
    system: System, t: Array, q: Array, v: Array, a: Array, lam: Array
) -> tuple[Array, ...]:
    """by_position, by_velocity and drag, one direction at a time."""
    still = jnp.zeros_like(v)

    def by_position(step: Array) -> tuple[Array, Array]:
        moved = system.retract(q, step)
        force = system.force(moved, v, t) - system.constraint_force(moved, t, lam)
        return force - system.momentum(moved, a), system.constraint_rate(moved, v, t)

    def along(e: Array) -> tuple[Array, Array, Array]:
        balance, drag = jax.jvp(by_position, (still,), (e,))[1]
        return balance, jax.jvp(lambda w: system.force(q, w, t), (v,), (e,))[1], drag

    return tuple(x.T for x in jax.lax.map(along, jnp.eye(v.shape[0])))


def variation(
    system: System,
    t: Any,
    q: np.ndarray | Array,
    v: np.ndarray | Array,
    rank: int,
    *,
    at_rest: bool = False,
) -> Variation:
    """At a state whose constraints have this rank; `at_rest` for drivers that stand still."""
    if is_traced((system, t, q, v)):
        return _traced_variation(system, t, q, v, rank, at_rest)
    t, q, v = np.float64(t), np.asarray(q), np.asarray(v)
    here = evaluated(system, t, q, v, dense=True)
    terms = here.mass, here.jacobian, here.force, here.gamma
    return _variation(system, t, q, v, rank, at_rest, *terms)


@partial(jax.jit, static_argnums=(4, 5))
def _traced_variation(
    system: System, t: Array, q: Array, v: Array, rank: int, at_rest: bool
) -> Variation:
    """The same inside of what is differentiated or compiled."""
    force, gamma = system.force(q, v, t), system.gamma(q, v, t)
    terms = system.mass_matrix(q), system.jacobian(q, t), force, gamma
    return _variation(system, t, q, v, rank, at_rest, *terms)


def _variation(
    system: System, t: Any, q: Any, v: Any, rank: int, at_rest: bool, *terms: Any
) -> Variation:
    mass, jacobian, force, gamma = terms
    tangent = Tangent.split(mass, jacobian, rank)
    f = tangent.force(force)
    bound = tangent.inverse @ (tangent.scale * (0.0 * gamma if at_rest else gamma))
    lam = tangent.smallest(tangent.multipliers(f - bound))
    a = 0.0 * v if at_rest else tangent.displacement(tangent.allowed(f) + bound)
    unbalanced = tangent.lower @ tangent.allowed(f)
    derivatives = _derivatives(system, t, q, v, a, lam)
    return Variation(mass, jacobian, force, unbalanced, a, lam, *derivatives)


def allowed(
    system: System,
    here: Variation,
    rank: int,
    holonomic: tuple[int, int],
    *,
    at_rest: bool = False,
) -> Bases:
    """The deviations that the constraints allow; `holonomic` are the number of rows of position
    level, which come first, and their rank. States of first order are among the velocities alone.
    """
    found = _traced_allowed if is_traced(here) else _allowed
    nv = int(here.mass.shape[0])
    states, idle = system.states(nv), system.idle(nv)
    if not states.size:
        return found(here, rank, holonomic, at_rest)
    moving = np.delete(np.arange(nv), np.concatenate([states, idle]))
    rows, columns = np.ix_(moving, moving)
    own = here._replace(
        mass=here.mass[rows, columns],
        jacobian=here.jacobian[:, moving],
        drag=here.drag[:, moving],
    )
    bases = found(own, rank, holonomic, at_rest)
    positions, velocities, dragged = (_among(x, moving, nv) for x in bases)
    unit = np.zeros((nv, states.size))
    unit[states, np.arange(states.size)] = 1.0
    xp = library(velocities)
    return Bases(positions, xp.concatenate([velocities, unit], axis=1), dragged)


def _among(x: np.ndarray, moving: np.ndarray, nv: int) -> Any:
    """Rows of the coordinates `moving` among all of them."""
    if library(x) is np:
        out = np.zeros((nv, x.shape[1]))
        out[moving] = x
        return out
    return jnp.zeros((nv, x.shape[1])).at[moving].set(x)


def _allowed(here: Variation, rank: int, holonomic: tuple[int, int], at_rest: bool) -> Bases:
    tangent = Tangent.split(here.mass, here.jacobian, rank)
    velocities = positions = tangent.basis()
    rows = here.jacobian.shape[0]
    if holonomic[0] != rows:
        own = Tangent.split(here.mass, here.jacobian[: holonomic[0]], holonomic[1])
        positions = own.basis()
    change = 0.0 * (here.drag @ positions) if at_rest else here.drag @ positions
    dragged = -tangent.displacement(tangent.inverse @ (tangent.scale[:, None] * change))
    return Bases(positions, velocities, dragged)


_traced_allowed = jax.jit(_allowed, static_argnums=(1, 2, 3))
