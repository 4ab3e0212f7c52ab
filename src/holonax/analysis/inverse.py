"""Inverse dynamics: the forces and torques behind a given motion.

    M v' = f(q, v, t) - J^T lam + B u

for a known q, v, v'. The columns of B are the actuators': a unit force on a coordinate, or the
row of a driver (its multiplier is then no reaction but what the drive gives, u = -lam). Projected
on the motions that the remaining constraints allow, these are equations for u alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from .._arguments import checked_call
from .._messages import listed, shown
from .._modules import Module
from ..compiler import native
from ..result.result import Result
from ..system.base import Array, System
from ..system.mechanism import Mechanism
from ..system.reaction_forces import refuse_reaction_forces
from .checks import check_system, is_traced, unit
from .kinematics import Motion

_RANK = 1e-9
_CONSISTENT = 1e-5  # what a motion may leave of the constraints, relative


class ActuatorForces(Module):
    """What the actuators give over time, by name: ``forces["motor"]`` is an array (n,).

    A force on a coordinate acts along it [N, N m]; a driver pushes what it drives forward: the
    torque on its second body, the force that lengthens a distance. `t` (n,) are the times,
    `values` (n, actuators) all of them, `lam` (n, rows) the multipliers of the constraints (zero
    for those that act as actuators), `unbalanced` (n, nv) what no actuator can give: zero for a
    motion that these actuators can bring about.
    """

    t: Array
    values: Array
    lam: Array
    unbalanced: Array
    names: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    coordinates: tuple[str, ...] = eqx.field(static=True)

    def __getitem__(self, name: str) -> Array:
        if name not in self.names:
            raise KeyError(
                f"There is no actuator {shown(name)}; the actuators are {listed(self.names)}."
            )
        return self.values[:, self.names.index(name)]

    def function(self, name: str) -> Callable[[Any], Any]:
        """The force `name` as a smooth function of time, for `model.torque(...)` and the like.

        A cubic spline through the instants; constant before the first and after the last.
        """
        t, values = np.asarray(self.t), np.asarray(self[name])
        if t.size < 4:
            raise ValueError(
                f"function: {t.size} instants are too few for a spline. Give at least four."
            )
        from scipy.interpolate import CubicSpline  # slow to import

        coefficients, knots = jnp.asarray(CubicSpline(t, values).c), jnp.asarray(t)

        def at(time: Any) -> Any:
            time = jnp.clip(jnp.asarray(time, dtype=float), knots[0], knots[-1])
            k = jnp.clip(jnp.searchsorted(knots, time, side="right") - 1, 0, t.size - 2)
            a, b, c, d = coefficients[:, k]
            x = time - knots[k]
            return ((a * x + b) * x + c) * x + d

        return at

    def __str__(self) -> str:
        if is_traced(self.values):
            return f"holonax actuator forces: {listed(self.names)}, being differentiated"
        lines = [f"holonax actuator forces at {self.t.shape[0]} instants"]
        width = max(len(name) for name in self.names)
        for name, unit_, x in zip(self.names, self.units, np.asarray(self.values).T, strict=True):
            lines.append(f"  {name:{width}}  {x.min():.6g} ... {x.max():.6g}{unit_}")
        off = np.abs(np.asarray(self.unbalanced)).max(axis=0)
        worst = self.coordinates[int(np.argmax(off))]
        lines.append(f"  unbalanced: {off.max():.1e} at most, on {worst}")
        return "\n".join(lines)


@checked_call
def inverse_dynamics(
    system: System, motion: Any, actuators: Sequence[str] | None = None
) -> ActuatorForces:
    """The forces that bring a motion about.

    **Arguments:**

    - `motion`: a `Result` (of `kinematics` or `simulate`), a `Motion`, or arrays (t, q, v, a) with
      one row for each instant. It must satisfy the constraints.
    - `actuators`: what gives the forces, by name: coordinates of v such as ``"crank.angle"``, for a
      force or torque on that coordinate, or drivers of the system. By default all drivers.

    Actuators that can replace each other are refused, because their forces are not determined.
    Too few are not, but leave forces `unbalanced`, unless the motion needs no others.
    """
    check_system("inverse_dynamics", system)
    refuse_reaction_forces("inverse_dynamics", system)
    t, q, v, a = _arrays(system, motion)
    rows = int(jax.eval_shape(system.constraint_rate, q[0], v[0], t[0]).shape[0])
    names, chosen = _actuators(system, actuators, rows, int(v.shape[1]))
    if not is_traced((system, t, q, v, a)):
        _check_motion(system, t, q, v, a)
        _check_independent(system, chosen, names, t[0], q[0])
    values, lam, unbalanced = _efforts(system, chosen, t, q, v, a)
    drivers = _drivers(system)
    units = tuple(drivers.get(name) or unit(system, name) for name in names)
    coordinates = tuple(system.velocity_names(int(v.shape[1])))
    return ActuatorForces(t, values, lam, unbalanced, names, units, coordinates)


# -- the equations ---------------------------------------------------------------------------


class _Chosen(NamedTuple):
    """Which constraint rows and which coordinates of v are actuators, in this order."""

    rows: tuple[int, ...]
    coordinates: tuple[int, ...]


def _split(system: System, chosen: _Chosen, t: Array, q: Array) -> tuple[Array, ...]:
    """(L, scaled B, inverse of the scaled remaining rows, these rows, their scale)."""
    jacobian = system.jacobian(q, t)
    nv = jacobian.shape[1]
    at, along = (np.array(x, dtype=int) for x in chosen)
    B = jnp.concatenate([jacobian[at], jnp.eye(nv)[along]]).T
    remaining = jacobian.at[at].set(0.0)
    lower = jnp.linalg.cholesky(system.mass_matrix(q))
    rows = solve_triangular(lower, remaining.T, lower=True).T
    size = jax.lax.stop_gradient(jnp.linalg.norm(rows, axis=1))
    scale = 1 / jnp.where(size > 0, size, 1.0)
    rows = scale[:, None] * rows
    inverse = jnp.linalg.pinv(rows, rtol=_RANK) if rows.shape[0] else jnp.zeros((nv, 0))
    return lower, solve_triangular(lower, B, lower=True), inverse, rows, scale


@native(static=(1,))
def _efforts(
    system: System, chosen: _Chosen, t: Array, q: Array, v: Array, a: Array
) -> tuple[Array, Array, Array]:
    """(u, lam, unbalanced force) at every instant."""

    def at(x: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array]:
        t, q, v, a = x
        lower, B, inverse, rows, scale = _split(system, chosen, t, q)
        allowed = lambda y: y - inverse @ (rows @ y)  # noqa: E731
        wanted = system.momentum(q, a) - system.force(q, v, t)
        wanted = solve_triangular(lower, wanted, lower=True)
        free = allowed(B)
        size = jax.lax.stop_gradient(jnp.linalg.norm(free, axis=0))
        size = jnp.where(size > 0, size, 1.0)
        u = (jnp.linalg.pinv(free / size, rtol=_RANK) @ allowed(wanted)) / size
        left = wanted - B @ u
        return u, -scale * (inverse.T @ left), lower @ allowed(left)

    return jax.lax.map(at, (t, q, v, a))


@native
def _misfits(system: System, t: Array, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """What positions, velocities and accelerations leave of the constraints."""

    def at(x: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array]:
        t, q, v, a = x
        acceleration = system.jacobian(q, t) @ a - system.gamma(q, v, t)
        return system.constraint(q, t), system.constraint_rate(q, v, t), acceleration

    return jax.lax.map(at, (t, q, v, a))


# -- what is asked for -----------------------------------------------------------------------


def _arrays(system: System, motion: Result) -> tuple[Array, Array, Array, Array]:
    """(t, q, v, a) of a motion in whatever form."""
    if isinstance(motion, Result | Motion):
        given = (motion.t, motion.q, motion.v, motion.a)
    elif isinstance(motion, tuple | list) and len(motion) == 4:
        given = tuple(motion)
    else:
        raise TypeError(
            f"inverse_dynamics: motion={shown(motion)} is not a motion. Give a Result, from "
            "hx.kinematics or hx.simulate, or arrays (t, q, v, a)."
        )
    try:
        t, q, v, a = (jnp.asarray(x, dtype=float) for x in given)
    except (TypeError, ValueError):
        raise TypeError(
            "inverse_dynamics: t, q, v and a must be arrays of numbers, a row for each instant."
        ) from None
    n = t.shape[0] if t.ndim == 1 else -1
    if q.ndim != 2 or q.shape[0] != n or n < 1:
        raise ValueError(
            f"inverse_dynamics: t and q have the shapes {t.shape} and {q.shape}. Give t as (n,) "
            "and q, v, a as (n, coordinates), a row for each instant."
        )
    nv = system.velocity_size(int(q.shape[1]))
    if v.shape != (n, nv) or a.shape != (n, nv):
        raise ValueError(
            f"inverse_dynamics: v and a have the shapes {v.shape} and {a.shape}; this system and "
            f"{n} instants need {(n, nv)}."
        )
    return t, q, v, a


def _drivers(system: System) -> dict[str, str]:
    """The drivers of a mechanism by name, each with the unit of what it gives."""
    if not isinstance(system, Mechanism):
        return {}
    groups = system.bodies.groups("holonomic")
    units = [(group.names, group.element.drive_unit) for group in groups]
    return {name: f" {unit}" for names, unit in units if unit for name in names}


def _actuators(
    system: System, actuators: Any, rows: int, nv: int
) -> tuple[tuple[str, ...], _Chosen]:
    """The actuators' names, constraint rows first, and where they are."""
    if actuators is None:
        actuators = list(_drivers(system))
        if not actuators:
            raise ValueError(
                "inverse_dynamics: the system has no driver. Say what gives the forces: "
                f"actuators=[...] with coordinates such as {system.velocity_names(nv)[-1]!r}."
            )
    if isinstance(actuators, str):
        raise TypeError(
            f"inverse_dynamics: actuators={shown(actuators)} must be a list: [{shown(actuators)}]."
        )
    names = list(actuators)
    constraints, coordinates = system.constraint_names(rows), system.velocity_names(nv)
    by_row: dict[str, int] = {}
    by_coordinate: dict[str, int] = {}
    for name in names:
        found = [i for i, x in enumerate(constraints) if x == name]
        if name in by_row or name in by_coordinate:
            raise ValueError(f"inverse_dynamics: actuators has {name!r} twice. Give it once.")
        if name in coordinates:
            by_coordinate[name] = coordinates.index(name)
        elif len(found) == 1:
            by_row[name] = found[0]
        elif found:
            raise ValueError(
                f"inverse_dynamics: {name!r} has {len(found)} constraint rows, so it is a joint, "
                "no actuator. Name a driver, or a coordinate of v."
            )
        else:
            known = [*_drivers(system), *coordinates]
            raise ValueError(
                f"inverse_dynamics: there is no driver or coordinate {shown(name)}. There are "
                f"{listed(known)}."
            )
    chosen = _Chosen(tuple(by_row.values()), tuple(by_coordinate.values()))
    return (*by_row, *by_coordinate), chosen


def _check_motion(system: System, t: Array, q: Array, v: Array, a: Array) -> None:
    """Refuse a motion that breaks the constraints, by joint and instant."""
    levels = ("position", "velocity", "acceleration")
    for level, misfit, x in zip(levels, _misfits(system, t, q, v, a), (q, v, a), strict=True):
        size = np.nan_to_num(np.abs(np.asarray(misfit)), nan=np.inf)
        bound = _CONSISTENT * (1 + float(np.max(np.abs(np.asarray(x)))))
        if size.size and not size.max() <= bound:
            instant, row = np.unravel_index(int(np.argmax(size)), size.shape)
            joint = system.constraint_names(size.shape[1])[row]
            raise ValueError(
                f"inverse_dynamics: the motion breaks the {level} constraint of {joint} by "
                f"{size.max():.3g} at t = {float(t[instant]):g} s. Give one that satisfies the "
                "constraints, such as that of hx.kinematics."
            )


def _check_independent(
    system: System, chosen: _Chosen, names: tuple[str, ...], t: Array, q: Array
) -> None:
    """Refuse actuators that can do nothing, or nothing that others cannot."""
    _, B, inverse, rows, _ = (np.asarray(x) for x in _split(system, chosen, t, q))
    free = B - inverse @ (rows @ B)
    size, whole = np.linalg.norm(free, axis=0), np.linalg.norm(B, axis=0)
    blocked = [name for name, x, y in zip(names, size, whole, strict=True) if x <= _RANK * y]
    if blocked:
        raise ValueError(
            f"inverse_dynamics: {listed(blocked)} cannot move anything, because the constraints "
            "and drivers of the system leave no such motion. Name the driver instead, or take the "
            "system without it."
        )
    _, s, vt = np.linalg.svd(free / size, full_matrices=True)
    rank = int(np.sum(s > 1e-7 * s[0]))
    if rank < len(names):
        among = [name for name, x in zip(names, np.abs(vt[rank:]).max(axis=0)) if x > 1e-6]
        raise ValueError(
            f"inverse_dynamics: {listed(among)} can replace each other, so their forces are not "
            f"determined: there are {rank} independent among {len(names)}. Leave "
            f"{len(names) - rank} out."
        )
