"""Consistent starts: positions on g = 0, velocities on g' = 0, then accelerations and multipliers.

A rough configuration is assembled by damped Newton, moving as little as possible; velocities are
projected in the mass metric. Chosen coordinates can be held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .diagnosis import DENSE_LIMIT, Diagnosis, _evaluate, _retract, diagnose, unique
from .system.base import Array, System

_ITERATIONS = 100


@dataclass(frozen=True)
class Start:
    """A consistent initial state: t, q, v with the accelerations and multipliers that belong to it.

    `diagnosis` tells mobility and redundancy (None for systems too large for a dense analysis).
    """

    t: float
    q: Array
    v: Array
    a: Array
    lam: Array
    redundant: bool
    diagnosis: Diagnosis | None


class ConstraintError(ValueError):
    """The constraints cannot be met, or do not determine the motion."""


@jax.jit
def _rates(system: System, q: Array, v: Array, t: Array) -> tuple[Array, Array]:
    return system.constraint_rate(q, v, t), system.jacobian(q, t)


@jax.jit
def _mass_matrix(system: System, q: Array) -> Array:
    return system.mass_matrix(q)


@jax.jit
def _accelerations(system: System, q: Array, v: Array, t: Array) -> tuple[Array, Array]:
    return system.accelerations(q, v, t)


@jax.jit
def _newton_step(system: System, q: Array, t: Array) -> tuple[Array, Array]:
    g = system.constraint(q, t)
    return g, system.factor(q, t, rows="holonomic").correct(g)


@jax.jit
def _velocity_step(system: System, q: Array, v: Array, t: Array) -> tuple[Array, Array]:
    rate = system.constraint_rate(q, v, t)
    return rate, system.factor(q, t).correct(rate)


def _as_state(system: System, name: str, values: Any) -> Array:
    try:
        array = jnp.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a vector of numbers, got {values!r}.") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must be a vector, got an array of shape {array.shape}.")
    if not bool(jnp.all(jnp.isfinite(array))):
        bad = [i for i, x in enumerate(np.asarray(array)) if not np.isfinite(x)]
        names = system.coordinate_names(array.shape[0])
        raise ValueError(
            f"{name} has a value that is not finite at {', '.join(names[i] for i in bad)}. "
            "Give finite numbers."
        )
    return array


def _held(system: System, hold: Sequence[int | str], q: Array, nv: int) -> np.ndarray:
    """Mask over the velocity coordinates that may move."""
    free = np.ones(nv, dtype=bool)
    for item in hold:
        free[system.held_coordinates(item, int(q.shape[0]))] = False
    return free


def _worst(system: System, residual: np.ndarray, total_rows: int) -> str:
    names = system.constraint_names(total_rows)
    order = np.argsort(-np.abs(residual))
    worst = unique([names[i] for i in order if abs(residual[i]) > 0.1 * abs(residual[order[0]])])
    return ", ".join(worst[:4])


def _assemble(system: System, q: Array, t: Array, free: np.ndarray, tol: float) -> Array:
    """Damped Newton on g(q, t) = 0, moving only the free coordinates."""
    g, G = (np.asarray(x) for x in _evaluate(system, q, t))
    m = g.shape[0]
    size = np.linalg.norm(g)
    for _ in range(_ITERATIONS):
        if m == 0 or np.max(np.abs(g)) <= tol:
            # one more full step brings the residual to rounding
            polished = _full_step(system, q, g, G[:m], free)
            new = np.asarray(_evaluate(system, polished, t)[0])
            return polished if np.linalg.norm(new) < size else q
        step = np.zeros(free.shape)
        step[free] = np.linalg.lstsq(G[:m][:, free], -g, rcond=1e-10)[0]
        damping = 1.0
        while True:
            trial = _retract(system, q, jnp.asarray(damping * step))
            new, new_G = (np.asarray(x) for x in _evaluate(system, trial, t))
            if np.all(np.isfinite(new)) and np.linalg.norm(new) < (1 - 0.1 * damping) * size:
                break
            damping *= 0.5
            if damping < 1e-4:
                raise ConstraintError(
                    f"The mechanism cannot be assembled: a residual of {np.max(np.abs(g)):.3g} "
                    f"remains in {_worst(system, g, G.shape[0])}. Check the dimensions of the loop "
                    "these joints close, release a held coordinate, or give a closer start."
                )
        q, g, G, size = trial, new, new_G, np.linalg.norm(new)
    raise ConstraintError(
        f"Assembly did not converge in {_ITERATIONS} Newton steps: a residual of "
        f"{np.max(np.abs(g)):.3g} remains in {_worst(system, g, G.shape[0])}. Give a closer start."
    )


def _full_step(system: System, q: Array, g: np.ndarray, G: np.ndarray, free: np.ndarray) -> Array:
    if g.shape[0] == 0:
        return q
    step = np.zeros(free.shape)
    step[free] = np.linalg.lstsq(G[:, free], -g, rcond=1e-10)[0]
    return _retract(system, q, jnp.asarray(step))


def _assemble_large(system: System, q: Array, t: Array, tol: float) -> Array:
    """Newton in the mass metric with the block factor, for systems too large for dense algebra."""
    g, step = _newton_step(system, q, t)
    size = float(jnp.max(jnp.abs(g), initial=0.0))
    for _ in range(_ITERATIONS):
        q = _retract(system, q, -step)
        if size <= tol or not np.isfinite(size):
            break
        g, step = _newton_step(system, q, t)
        size = float(jnp.max(jnp.abs(g), initial=0.0))
    if size <= tol:
        return q
    rows = int(_velocity_step(system, q, jnp.zeros(step.shape), t)[0].shape[0])
    raise ConstraintError(
        f"The mechanism cannot be assembled: a residual of {size:.3g} remains in "
        f"{_worst(system, np.asarray(g), rows)}. Check the dimensions of the loops these joints "
        "close, or give a closer start."
    )


def _project_velocity(
    system: System, q: Array, v: Array, t: Array, free: np.ndarray, tol: float
) -> Array:
    """The velocity nearest to `v` in the mass metric with g' = 0, held coordinates kept."""
    rate, G = (np.asarray(x) for x in _rates(system, q, v, t))
    if rate.shape[0] == 0:
        return v
    mass = np.asarray(_mass_matrix(system, q))[np.ix_(free, free)]
    eigenvalues, vectors = np.linalg.eigh(mass)
    root = np.sqrt(np.maximum(eigenvalues, 1e-12 * max(eigenvalues.max(initial=0.0), 1e-300)))
    half = vectors / root  # M^-1/2
    for _ in range(2):  # the second pass removes the rounding of the first
        step = np.zeros(free.shape)
        scaled = G[:, free] @ half
        step[free] = half @ np.linalg.lstsq(scaled, -rate, rcond=1e-10)[0]
        v = v + jnp.asarray(step)
        rate = np.asarray(_rates(system, q, v, t)[0])
    scale = max(1.0, float(np.max(np.abs(np.asarray(v)), initial=0.0)))
    if np.max(np.abs(rate)) > max(tol, 1e-8) * scale:
        raise ConstraintError(
            f"The velocities cannot be made consistent: {np.max(np.abs(rate)):.3g} remains in the "
            f"velocity constraint of {_worst(system, rate, rate.shape[0])}. Release a held "
            "velocity, or check the drivers of these joints."
        )
    return v


def check_shapes(system: System, q: Array, v: Array, t: Array) -> None:
    """Refuse functions that return arrays of the wrong shape, by name."""
    n = v.shape[0]

    def shape(name: str, fun: Any, *args: Any) -> tuple[int, ...]:
        try:
            return jax.eval_shape(fun, *args).shape
        except (TypeError, ValueError, IndexError) as error:
            raise ValueError(
                f"{name} cannot be evaluated for {q.shape[0]} coordinates: {error}"
            ) from error

    expected = {
        "mass": (shape("mass", system.mass_matrix, q), (n, n)),
        "force": (shape("force", system.force, q, v, t), (n,)),
    }
    for name, (got, wanted) in expected.items():
        if got != wanted:
            wanted_text = f"{wanted} (or the diagonal, ({n},))" if name == "mass" else str(wanted)
            raise ValueError(
                f"{name} returns an array of shape {got}, expected {wanted_text} for {n} "
                "velocity coordinates."
            )
    rows = shape("constraint", system.constraint, q, t)
    if len(rows) != 1:
        raise ValueError(f"constraint must return a vector, got an array of shape {rows}.")
    rate = shape("constraint rate", system.constraint_rate, q, v, t)
    if len(rate) != 1:
        raise ValueError(f"nonholonomic must return a vector, got an array of shape {rate}.")
    if rate[0] > n:
        # more rows than coordinates is fine when they are dependent; diagnosis will tell
        return


def consistent(
    system: System,
    q: Any,
    v: Any = None,
    *,
    t: float = 0.0,
    hold: Sequence[int | str] = (),
    hold_velocity: Sequence[int | str] = (),
    tol: float = 1e-10,
) -> Start:
    """A consistent start near the given one.

    **Arguments:**

    - `q`, `v`: rough positions and velocities (`v` defaults to rest).
    - `t`: start time [s].
    - `hold`: coordinates, by index or name, whose position is kept while the others move onto
      g(q, t) = 0. A whole body is held by its name.
    - `hold_velocity`: coordinates whose velocity is kept; the others are projected in the mass
      metric onto g' = 0.
    - `tol`: largest position residual accepted [m or rad].

    **Raises** `ConstraintError`, naming the joints, when the constraints cannot be met, or when
    the start is a singular configuration.
    """
    q = _as_state(system, "q", q)
    nv = system.velocity_size(int(q.shape[0]))
    v = jnp.zeros(nv) if v is None else _as_state(system, "v", v)
    if v.shape[0] != nv:
        raise ValueError(f"v has {v.shape[0]} entries but q of {q.shape[0]} needs {nv}.")
    time = jnp.asarray(t, dtype=float)
    q = system.normalize(q)
    check_shapes(system, q, v, time)
    if nv > DENSE_LIMIT:
        if hold or hold_velocity:
            raise ValueError(
                f"Holding coordinates needs dense algebra, which stops at {DENSE_LIMIT} velocity "
                f"coordinates; this system has {nv}. Give a start without holding, or drive the "
                "coordinate with a driver."
            )
        return _start_large(system, q, v, time, tol)
    q = _assemble(system, q, time, _held(system, hold, q, nv), tol)
    diagnosis = diagnose(system, q, t)
    if diagnosis.singular:
        raise ConstraintError(
            f"The start is a singular configuration: the constraints of "
            f"{', '.join(diagnosis.singular_joints)} have rank {diagnosis.rank} here and more "
            "nearby, so accelerations and reactions are not determined. Start a little off it."
        )
    v = _project_velocity(system, q, v, time, _held(system, hold_velocity, q, nv), tol)
    redundant = diagnosis.redundant > 0
    if redundant:
        system = system.with_redundant_constraints()
    a, lam = _accelerations(system, q, v, time)
    return Start(t, q, v, a, lam, redundant, diagnosis)


def _start_large(system: System, q: Array, v: Array, t: Array, tol: float) -> Start:
    """Assembly, projection and accelerations through the block factor, with its accuracy as check.

    A Schur complement that cannot be solved accurately betrays dependent constraints.
    """
    rate, step = _velocity_step(system, q, jax.random.normal(jax.random.key(0), v.shape), t)
    probe = jnp.asarray(jax.random.normal(jax.random.key(0), v.shape)) - step
    left = float(jnp.max(jnp.abs(_rates_only(system, q, probe, t))))
    redundant = not left <= 1e-6 * max(1.0, float(jnp.max(jnp.abs(rate))))
    if redundant:
        system = system.with_redundant_constraints()
    q = _assemble_large(system, q, t, tol)
    for _ in range(2):
        rate, step = _velocity_step(system, q, v, t)
        v = v - step
    a, lam = _accelerations(system, q, v, t)
    return Start(float(t), q, v, a, lam, redundant, None)


@jax.jit
def _rates_only(system: System, q: Array, v: Array, t: Array) -> Array:
    return system.constraint_rate(q, v, t)
