"""Consistent starts: positions on g = 0, velocities on g' = 0, then accelerations and multipliers.

A rough configuration is assembled by damped Newton, moving as little as possible; velocities are
projected in the mass metric. Chosen coordinates can be held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._memory import Memory
from ._messages import explained, listed, shown
from .diagnosis import (
    DENSE_LIMIT,
    Diagnosis,
    _evaluate,
    _retract,
    as_vector,
    check_entries,
    diagnose,
    picked,
    unique,
)
from .system.base import Array, System
from .system.dense import smallest_multipliers

_ITERATIONS = 100
_ELSEWHERE = (
    "Start elsewhere, or avoid square roots, logarithms and divisions that are not defined there."
)


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
def _gamma(system: System, q: Array, v: Array, t: Array) -> Array:
    return system.gamma(q, v, t)


@jax.jit
def _mass_matrix(system: System, q: Array) -> Array:
    return system.mass_matrix(q)


@jax.jit
def _accelerations(system: System, q: Array, v: Array, t: Array) -> tuple[Array, Array]:
    return system.accelerations(q, v, t)


def finite_number(owner: str, name: str, value: Any, *, positive: bool = False) -> float:
    """`value` as a finite number, or one message that names it."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{owner}: {name}={shown(value)} must be a number.") from None
    if not np.isfinite(number) or (positive and number <= 0):
        raise ValueError(
            f"{owner}: {name}={number} must be finite{' and positive' if positive else ''}."
        )
    return number


def _held(system: System, option: str, hold: Any, q: Array, nv: int) -> np.ndarray:
    """Mask over the velocity coordinates that may move."""
    free = np.ones(nv, dtype=bool)
    if isinstance(hold, (str, int)):
        raise TypeError(f"consistent: {option}={hold!r} must be a list: {option}=[{hold!r}].")
    for item in hold:
        item = int(item) if isinstance(item, np.integer) else item
        if isinstance(item, bool) or not isinstance(item, (str, int)):
            raise TypeError(
                f"consistent: {option} has the entry {shown(item)}; give coordinates by index or "
                "name."
            )
        free[system.held_coordinates(item, int(q.shape[0]))] = False
    return free


def _worst(system: System, residual: np.ndarray, total_rows: int) -> str:
    names = system.constraint_names(total_rows)
    size = np.nan_to_num(np.abs(residual), nan=np.inf)
    order = np.argsort(-size)
    worst = unique([names[i] for i in order if size[i] >= 0.1 * size[order[0]]])
    return listed(worst, 4)


def _check_finite(system: System, what: str, total_rows: int, *values: np.ndarray) -> None:
    """Refuse constraint rows with values or derivatives that are not finite, by name."""
    m = values[0].shape[0]
    good = np.ones(m, dtype=bool)
    for x in values:
        good &= np.all(np.isfinite(x[:m]), axis=tuple(range(1, x.ndim)))
    if not np.all(good):
        names = system.constraint_names(total_rows)
        raise ConstraintError(
            f"{listed(picked(names[:m], ~good), 4)}: the {what} is not finite at the start. "
            f"{_ELSEWHERE}"
        )


def _assemble(system: System, q: Array, t: Array, free: np.ndarray, tol: float) -> Array:
    """Damped Newton on g(q, t) = 0, moving only the free coordinates."""
    g, G = (np.asarray(x) for x in _evaluate(system, q, t))
    m = g.shape[0]
    _check_finite(system, "residual or its derivative", G.shape[0], g, G)
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
                    "these joints close and their drivers, release a held coordinate, or give a "
                    "closer start."
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


def _project_velocity(
    system: System, q: Array, v: Array, t: Array, free: np.ndarray, tol: float
) -> Array:
    """The velocity nearest to `v` in the mass metric with g' = 0, held coordinates kept."""
    rate, G = (np.asarray(x) for x in _rates(system, q, v, t))
    _check_finite(system, "rate or its derivative", rate.shape[0], rate, G)
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

    def check(name: str, wanted: str, good: Any, fun: Any, *args: Any) -> tuple[int, ...]:
        try:
            got = jax.eval_shape(fun, *args).shape
        except Exception as error:
            raise ValueError(
                f"{name} cannot be evaluated for {q.shape[0]} coordinates: {explained(error)} "
                f"It must return {wanted}, written with jax.numpy."
            ) from None
        if not good(got):
            raise ValueError(
                f"{name} returns an array of shape {got} for {q.shape[0]} coordinates. It must "
                f"return {wanted}."
            )
        return got

    square = f"the diagonal, shape ({n},), or the matrix, shape ({n}, {n})"
    check("mass", square, lambda got: got == (n, n), system.mass_matrix, q)
    check("force", f"a vector of shape ({n},)", lambda got: got == (n,), system.force, q, v, t)
    check("potential", "one number", lambda got: got == (), system.potential_energy, q)
    rows = check("constraint", "a vector", lambda got: len(got) == 1, system.constraint, q, t)
    name = "nonholonomic" if system.has_nonholonomic_constraints else "the rate of constraint"
    all_rows = check(
        name,
        "a vector",
        lambda got: len(got) == 1 and got[0] >= rows[0],
        system.constraint_rate,
        q,
        v,
        t,
    )
    system.constraint_names(all_rows[0])  # refuses too few names or too many


def _check_linear(system: System, q: Array, t: Array, nv: int, holonomic: int) -> None:
    """Refuse non-holonomic rows that are not linear in the velocities."""
    probe = np.cos(np.arange(nv) + 1.0)
    none, once, twice = (
        np.asarray(_rates(system, q, jnp.asarray(k * probe), t)[0])[holonomic:] for k in range(3)
    )
    size = max(np.max(np.abs([none, once, twice]), initial=0.0), 1e-300)
    if np.max(np.abs(twice - 2 * once + none), initial=0.0) > 1e-9 * size:
        raise ValueError(
            "nonholonomic is not linear in v. It must return A(q, t) v + b(q, t); a condition on "
            "positions belongs into constraint."
        )


def _check_mass(system: System, q: Array, nv: int) -> None:
    """Refuse a mass matrix that has no inverse, by the names of its coordinates."""
    mass = np.asarray(_mass_matrix(system, q))
    names = system.velocity_names(nv)
    bad = ~np.all(np.isfinite(mass), axis=1)
    if np.any(bad):
        at = listed(picked(names, bad))
        raise ValueError(f"mass is not finite at the start in {at}. Check what it returns there.")
    diagonal = np.diag(mass)
    if np.any(diagonal <= 0):
        at = listed(f"{name} ({m:g})" for name, m in zip(names, diagonal, strict=True) if m <= 0)
        raise ValueError(
            f"mass is zero or negative for {at}. Give every coordinate a positive mass or inertia: "
            "the equations of motion need its inverse."
        )
    root = np.sqrt(diagonal)
    scaled = mass / np.outer(root, root)
    if np.max(np.abs(scaled - scaled.T)) > 1e-9:
        i, j = divmod(int(np.argmax(np.abs(scaled - scaled.T))), nv)
        raise ValueError(
            f"mass is not symmetric: its entries for {names[i]} and {names[j]} are "
            f"{mass[i, j]:g} and {mass[j, i]:g}. Return a symmetric matrix."
        )
    eigenvalues, vectors = np.linalg.eigh(scaled)
    if eigenvalues[0] <= 1e-13:
        at = listed(picked(names, np.abs(vectors[:, 0]) > 0.1))
        raise ValueError(
            f"mass is not positive definite: a motion of {at} has no inertia, or a negative one. "
            "The equations of motion need the inverse; check the matrix, or start elsewhere."
        )


def _check_accelerations(
    system: System, q: Array, v: Array, t: Array, a: Array, lam: Array, redundant: bool
) -> None:
    """Refuse a start whose accelerations are not determined, naming what is behind it."""
    rows = int(lam.shape[0])
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(lam))):
        forces = system.non_finite_forces(q, v, t)
        if forces:
            raise ValueError(f"{listed(forces, 4)} is not finite at the start. {_ELSEWHERE}")
        gamma = np.asarray(_gamma(system, q, v, t))
        _check_finite(system, "second derivative", rows, gamma)
        raise ConstraintError(
            "The accelerations at the start are not finite, though masses, forces and constraints "
            "are. Look for a singular configuration with hx.diagnose."
        )
    if redundant:
        # Dependent rows may agree in position and velocity and still ask for two accelerations.
        gamma = np.asarray(_gamma(system, q, v, t))
        off = np.asarray(_rates(system, q, v, t)[1]) @ np.asarray(a) - gamma
        scale = max(1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in (gamma, a)))
        if np.max(np.abs(off)) > 1e-6 * scale:
            raise ConstraintError(
                f"The accelerations that {_worst(system, off, rows)} ask for contradict each "
                "other. Check the drivers among these joints, or remove one."
            )


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
    if not isinstance(system, System):
        raise TypeError(
            f"consistent: system is {type(system).__name__}; give a System, from model.build() or "
            "FunctionSystem(...)."
        )
    t = finite_number("consistent", "t", t)
    tol = finite_number("consistent", "tol", tol, positive=True)
    q = as_vector("q", q)
    nv = system.velocity_size(int(q.shape[0]))
    check_entries("q", q, system.coordinate_names(int(q.shape[0])))
    v = jnp.zeros(nv) if v is None else as_vector("v", v)
    if v.shape[0] != nv:
        raise ValueError(
            f"v has {v.shape[0]} entries, but q with its {q.shape[0]} needs {nv}. Give one "
            "velocity for each, or leave v out for a start from rest."
        )
    check_entries("v", v, system.velocity_names(nv))
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
    free, free_velocity = (
        _held(system, option, items, q, nv)
        for option, items in (("hold", hold), ("hold_velocity", hold_velocity))
    )
    q = _assemble(system, q, time, free, tol)
    _check_mass(system, q, nv)
    diagnosis = diagnose(system, q, t)
    if diagnosis.singular:
        raise ConstraintError(
            f"The start is a singular configuration: the constraints of "
            f"{', '.join(diagnosis.singular_joints)} have rank {diagnosis.rank} here and more "
            "nearby, so accelerations and reactions are not determined. Start a little off it."
        )
    if system.has_nonholonomic_constraints:
        _check_linear(system, q, time, nv, int(system.constraint(q, time).shape[0]))
    v = _project_velocity(system, q, v, time, free_velocity, tol)
    redundant = diagnosis.redundant > 0
    if redundant:
        system = system.with_redundant_constraints()
    a, lam = _accelerations(system, q, v, time)
    if redundant:
        lam = smallest_multipliers(_rates(system, q, v, time)[1], lam)
    _check_accelerations(system, q, v, time, a, lam, redundant)
    return Start(t, q, v, a, lam, redundant, diagnosis)


class _LargeStart(NamedTuple):
    """What `_large_start` finds: the start, the first and the last residual of position, and the
    relative error of a velocity that should satisfy the constraints."""

    q: Array
    v: Array
    a: Array
    lam: Array
    first: Array
    last: Array
    probe: Array


# compiled quickly rather than well, for it runs once
@partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
def _large_start(system: System, q: Array, v: Array, t: Array, tol: Array) -> _LargeStart:
    """Newton in the mass metric with the block factor, then velocities and accelerations."""
    largest = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731

    def improve(now: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        q, g, _, k = now
        step = system.factor(q, t, rows="holonomic").correct(g)
        moved = system.retract(q, -step)
        # the iteration that starts from a good configuration takes the rounding away
        return moved, system.constraint(moved, t), largest(g) <= tol, k + 1

    def unfinished(now: tuple[Array, Array, Array, Array]) -> Array:
        _, g, done, k = now
        return ~done & (k < _ITERATIONS) & (largest(g) < jnp.inf)

    first = system.constraint(q, t)
    start = (q, first, jnp.asarray(False), jnp.asarray(0))
    q, last, _, _ = jax.lax.while_loop(unfinished, improve, start)
    factor = system.factor(q, t)
    guess = jax.random.normal(jax.random.key(0), v.shape)
    rate = factor.apply(guess)
    left = factor.apply(guess - factor.correct(rate))
    v = jax.lax.fori_loop(0, 2, lambda _, v: v - factor.correct(system.constraint_rate(q, v, t)), v)
    a, lam = factor.solve(system.force(q, v, t), system.gamma(q, v, t))
    probe = largest(left) / jnp.maximum(1.0, largest(rate))
    return _LargeStart(q, v, a, lam, first, last, probe)


def _start_large(system: System, q: Array, v: Array, t: Array, tol: float) -> Start:
    """Assembly, projection and accelerations through the block factor, with its accuracy as check.

    A Schur complement that cannot be solved accurately betrays dependent constraints.
    """
    found = _large_start(system, q, v, t, tol)
    rows = constraint_rows(system, q, v)
    _check_finite(system, "residual", rows, np.asarray(found.first))
    redundant = not float(found.probe) <= 1e-6
    if redundant:
        system = system.with_redundant_constraints()
        found = _large_start(system, q, v, t, tol)
    size = float(jnp.max(jnp.abs(found.last), initial=0.0))
    if not size <= tol:
        raise ConstraintError(
            f"The mechanism cannot be assembled: a residual of {size:.3g} remains in "
            f"{_worst(system, np.asarray(found.last), rows)}. Check the dimensions of the loops "
            "these joints close, or give a closer start."
        )
    _check_accelerations(system, found.q, found.v, t, found.a, found.lam, False)
    q, v, a, lam = found[:4]
    return Start(float(t), q, v, a, lam, redundant, None)


@jax.jit
def _rates_only(system: System, q: Array, v: Array, t: Array) -> Array:
    return system.constraint_rate(q, v, t)


_rows: Memory[int] = Memory(64)


def constraint_rows(system: System, q: Array, v: Array) -> int:
    """Number of constraint rows, all of them."""

    def counted() -> int:
        if system.velocity_size(int(q.shape[0])) != v.shape[0]:
            raise ValueError(f"v has {v.shape[0]} entries, which do not fit q with {q.shape[0]}.")
        return int(_rates_only.eval_shape(system, q, v, jnp.zeros(())).shape[0])

    return _rows.of(system, (q.shape, v.shape), counted)


def check_start(owner: str, system: System, start: Start) -> None:
    """Refuse a start that belongs to another system."""
    try:
        rows = constraint_rows(system, start.q, start.v)
    except (TypeError, ValueError, IndexError):
        rows = -1
    if rows != start.lam.shape[0]:
        raise ValueError(
            f"{owner}: the start, with {start.q.shape[0]} coordinates and {start.lam.shape[0]} "
            "constraint rows, belongs to another system. Make one with hx.consistent(system, q, v)."
        )
