"""Consistent starts: positions on g = 0, velocities on g' = 0, then accelerations and multipliers.

A rough configuration is assembled by damped Newton, moving as little as possible; velocities are
projected in the mass metric. Chosen coordinates can be held.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import checked_call, several
from .._config import check_precision, refuse_after_fork
from .._memory import Memory
from .._messages import explained, listed, shown
from .._numbers import finite_number
from ..compiler import native
from ..system.base import Array, System, check_system
from ..system.dense import smallest_multipliers
from ..system.evaluation import Evaluation, evaluated
from ..system.reaction_forces import unsolved
from .described import changed_velocities, given_velocities, moved_positions, warn
from .diagnosis import (
    DENSE_LIMIT,
    Diagnosis,
    as_vector,
    at_rest,
    check_entries,
    diagnose,
    picked,
    rank_of,
    unique,
)

if TYPE_CHECKING:
    from jaxtyping import PyTree

_ITERATIONS = 100
# What the others may have of kinetic energy, by that of the given velocities, so that these are
# kept; next to a dead centre there is no bound.
_MOST_ENERGY = 1e6
_ELSEWHERE = (
    "Start elsewhere, or avoid square roots, logarithms and divisions that are not defined there."
)


@dataclass(frozen=True)
class Start:
    """A consistent initial state: t, q, v with the accelerations and multipliers that belong to it.

    `diagnosis` tells mobility and redundancy (None for systems too large for a dense analysis),
    `seconds` how long it took to find, `moved` in sentences what is far from what was described.
    """

    t: float
    q: Any
    v: Any
    a: Any
    lam: Any
    redundant: bool
    diagnosis: Diagnosis | None
    seconds: float = 0.0
    moved: tuple[str, ...] = ()

    def __repr__(self) -> str:
        free = "" if self.diagnosis is None else f", {self.diagnosis.mobility} free motions"
        return f"<Start: t = {self.t:g} s, {np.size(self.q)} coordinates{free}>"


class ConstraintError(ValueError):
    """The constraints cannot be met, or do not determine the motion."""


def _held(system: System, option: str, hold: Any, q: np.ndarray, nv: int) -> np.ndarray:
    """Mask over the velocity coordinates that may move."""
    free = np.ones(nv, dtype=bool)
    for item in several("consistent", option, hold, "coordinates, by index or name"):
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


def _assemble(
    system: System, q: np.ndarray, t: float, free: np.ndarray, tol: float
) -> tuple[Evaluation, np.ndarray]:
    """Damped Newton on g(q, t) = 0, moving only the free coordinates; and by how much it moved."""
    here, moved = at_rest(system, q, t), np.zeros(free.shape)
    m, rows = here.g.shape[0], here.jacobian.shape[0]
    _check_finite(system, "residual or its derivative", rows, here.g, here.jacobian)
    for _ in range(_ITERATIONS):
        size = np.linalg.norm(here.g)
        if m == 0 or np.max(np.abs(here.g)) <= tol:
            # one more full step brings the residual to rounding
            polished = at_rest(system, here.q, t, _full_step(here, free)) if m else here
            return polished if np.linalg.norm(polished.g) < size else here, moved
        step, damping = _full_step(here, free), 1.0
        while True:
            trial = at_rest(system, here.q, t, damping * step)
            left = np.linalg.norm(trial.g)
            if np.all(np.isfinite(trial.g)) and left < (1 - 0.1 * damping) * size:
                break
            damping *= 0.5
            if damping < 1e-4:
                raise ConstraintError(
                    f"The mechanism cannot be assembled: a residual of "
                    f"{np.max(np.abs(here.g)):.3g} remains in {_worst(system, here.g, rows)}. "
                    f"{_remedy(system, q, t, free)}"
                )
        here, moved = trial, moved + damping * step
    raise ConstraintError(
        f"Assembly did not converge in {_ITERATIONS} Newton steps: a residual of "
        f"{np.max(np.abs(here.g)):.3g} remains in {_worst(system, here.g, rows)}. Give a closer "
        "start."
    )


def _remedy(system: System, q: Any, t: float, free: np.ndarray) -> str:
    """What to do about a mechanism that does not fit together, by the freedom its rows leave.

    That is looked at a little off the start, where bars may happen to lie on one line.
    """
    nearby = 0.05 * np.random.default_rng(0).standard_normal((3, free.size))
    jacobians = [at_rest(system, q, t, step).jacobian for step in nearby]
    nv = free.size
    free = free.copy()
    free[np.concatenate([system.states(nv), system.idle(nv)])] = False  # which are no motions
    rows, moving = jacobians[0].shape[0], int(np.sum(free))
    mobility = moving - max(rank_of(x[:, free]) for x in jacobians)
    if mobility == 0:
        return (
            f"Its mobility is 0: {rows} constraint rows leave the {moving} coordinates that may "
            "move no motion, so it fits in single places at most. Correct its dimensions, give a "
            "closer start, remove a joint or a driver, or release a held coordinate."
        )
    return (
        f"Its mobility is {mobility}, so it can move, but not there: check the dimensions of the "
        "loop these joints close and their drivers, release a held coordinate, or give a closer "
        "start."
    )


def _full_step(here: Evaluation, free: np.ndarray) -> np.ndarray:
    """Newton's increment, the smallest one."""
    m = here.g.shape[0]
    step = np.zeros(free.shape)
    step[free] = np.linalg.lstsq(here.jacobian[:m][:, free], -here.g, rcond=1e-10)[0]
    return step


def _project_velocity(
    system: System, q: Any, v: np.ndarray, t: float, free: np.ndarray, tol: float
) -> np.ndarray:
    """A velocity with g' = 0 near `v`, held coordinates kept.

    Where nothing is held, it has the given velocities if the constraints allow them together;
    otherwise it is the nearest one in the mass metric.
    """
    here = evaluated(system, t, q, v, dense=True)
    _check_finite(system, "rate or its derivative", here.rate.shape[0], here.rate, here.jacobian)
    if here.rate.shape[0] == 0:
        return v
    given = given_velocities(v, system)
    if np.all(free) and np.any(given) and not np.all(given):
        kept, rate = _nearest_velocity(system, q, v, t, ~given, here)
        size = lambda x: float(x @ here.mass @ x)  # noqa: E731
        if _is_small(system, rate, kept, tol) and size(kept) <= _MOST_ENERGY * size(v):
            if np.max(np.abs(rate)) <= 1e-12 * np.max(np.abs(here.jacobian) @ np.abs(kept)):
                return kept
            # they fit to a few digits only: what is left is shared by all
            return _nearest_velocity(system, q, kept, t, free, here._replace(rate=rate))[0]
    v, rate = _nearest_velocity(system, q, v, t, free, here)
    if not _is_small(system, rate, v, tol):
        raise ConstraintError(
            f"The velocities cannot be made consistent: {np.max(np.abs(rate)):.3g} remains in the "
            f"velocity constraint of {_worst(system, rate, rate.shape[0])}. Release a held "
            "velocity, or check the drivers of these joints."
        )
    return v


def _is_small(system: System, rate: np.ndarray, v: np.ndarray, tol: float) -> bool:
    moving = np.delete(v, system.states(v.size))
    scale = max(1.0, float(np.max(np.abs(moving), initial=0.0)))
    return bool(np.max(np.abs(rate)) <= max(tol, 1e-8) * scale)


def _nearest_velocity(
    system: System, q: np.ndarray, v: np.ndarray, t: float, free: np.ndarray, here: Evaluation
) -> tuple[Any, np.ndarray]:
    """The velocity nearest to `v` in the mass metric that is closest to g' = 0, moving only the
    free coordinates; and what is left of g'."""
    rate, G = here.rate, here.jacobian
    mass = here.mass[np.ix_(free, free)]
    eigenvalues, vectors = np.linalg.eigh(mass)
    root = np.sqrt(np.maximum(eigenvalues, 1e-12 * max(eigenvalues.max(initial=0.0), 1e-300)))
    half = vectors / root  # M^-1/2
    for _ in range(2):  # the second pass removes the rounding of the first
        step = np.zeros(free.shape)
        scaled = G[:, free] @ half
        step[free] = half @ np.linalg.lstsq(scaled, -rate, rcond=1e-10)[0]
        v = v + step
        rate = evaluated(system, t, q, v, dense=True).rate
    return v, rate


def check_shapes(system: System, q: Any, v: Any, t: float) -> None:
    """Refuse functions that return arrays of the wrong shape, by name."""
    n = v.shape[0]
    q, v, t = (jax.ShapeDtypeStruct(np.shape(x), float) for x in (q, v, t))  # pyright: ignore

    def check(
        name: str, wanted: str, good: Any, fun: Callable[..., PyTree], *args: Any
    ) -> tuple[int, ...]:
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


def _check_linear(system: System, q: Array, t: float, nv: int) -> None:
    """Refuse non-holonomic rows that are not linear in the velocities."""
    probe = np.outer(np.arange(3.0), np.cos(np.arange(nv) + 1.0))
    here = evaluated(system, t, np.tile(q, (3, 1)), probe, dense=True)
    none, once, twice = here.rate[:, here.g.shape[1] :]
    size = max(np.max(np.abs([none, once, twice]), initial=0.0), 1e-300)
    if np.max(np.abs(twice - 2 * once + none), initial=0.0) > 1e-9 * size:
        raise ValueError(
            "nonholonomic is not linear in v. It must return A(q, t) v + b(q, t); a condition on "
            "positions belongs into constraint."
        )


def _check_mass(system: System, mass: np.ndarray, nv: int) -> None:
    """Refuse a mass matrix that has no inverse, by the names of its coordinates."""
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
    system: System, q: Array, v: Array, t: float, a: np.ndarray, lam: np.ndarray, redundant: bool
) -> None:
    """Refuse a start whose accelerations are not determined, naming what is behind it."""
    rows = int(lam.shape[0])
    if np.all(np.isfinite(a)) and np.all(np.isfinite(lam)) and not redundant:
        return
    here = evaluated(system, t, q, v, dense=v.shape[0] <= DENSE_LIMIT)
    if not (np.all(np.isfinite(a)) and np.all(np.isfinite(lam))):
        forces = system.non_finite_forces(q, v, t)
        if forces:
            raise ValueError(f"{listed(forces, 4)} is not finite at the start. {_ELSEWHERE}")
        _check_finite(system, "second derivative", rows, here.gamma)
        if system.has_reaction_forces:
            what, advice = unsolved(system)
            raise ConstraintError(f"At the start {what}. {advice}.")
        raise ConstraintError(
            "The accelerations at the start are not finite, though masses, forces and constraints "
            "are. Look for a singular configuration with hx.diagnose."
        )
    # Dependent rows may agree in position and velocity and still ask for two accelerations.
    off = here.jacobian @ a - here.gamma
    scale = max(1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in (here.gamma, a)))
    if np.max(np.abs(off)) > 1e-6 * scale:
        raise ConstraintError(
            f"The accelerations that {_worst(system, off, rows)} ask for contradict each "
            "other. Check the drivers among these joints, or remove one."
        )


@checked_call
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
      metric onto g' = 0. By default those that are given, which are not zero, where the
      constraints allow them together; else all are projected.
    - `tol`: largest position residual accepted [m or rad].

    **Raises** `ConstraintError`, naming the joints, when the constraints cannot be met, or when
    the start is a singular configuration. **Warns** (`StartWarning`), naming coordinates, when the
    start is far from what was given and nothing was held.
    """
    check_system("consistent", system)
    check_precision("consistent")
    began = time.perf_counter()
    t = finite_number("consistent", "t", t)
    tol = finite_number("consistent", "tol", tol, positive=True)
    q = as_vector("q", q)
    nv = system.velocity_size(int(q.shape[0]))
    check_entries("q", q, system.coordinate_names(int(q.shape[0])))
    v = np.zeros(nv) if v is None else as_vector("v", v)
    if v.shape[0] != nv:
        raise ValueError(
            f"v has {v.shape[0]} entries, but q with its {q.shape[0]} needs {nv}. Give one "
            "velocity for each, or leave v out for a start from rest."
        )
    check_entries("v", v, system.velocity_names(nv))
    if nv > DENSE_LIMIT:
        check_shapes(system, q, v, t)
        if hold or hold_velocity:
            raise ValueError(
                f"Holding coordinates needs dense algebra, which stops at {DENSE_LIMIT} velocity "
                f"coordinates; this system has {nv}. Give a start without holding, or drive the "
                "coordinate with a driver."
            )
        large = _start_large(system, system.normalize(jnp.asarray(q)), jnp.asarray(v), t, tol)
        moved = (changed_velocities(system, v, large.v),)
        warn(moved)
        return replace(large, seconds=time.perf_counter() - began, moved=tuple(filter(None, moved)))
    _look(system, q, v, t)
    free, free_velocity = (
        _held(system, option, items, q, nv)
        for option, items in (("hold", hold), ("hold_velocity", hold_velocity))
    )
    here, way = _assemble(system, q, t, free, tol)
    q, asked = here.q, v
    # what drivers have moved since the description, which is of the time 0, is no surprise
    driven = t != 0 and bool(np.any(here.rate != 0))
    _check_mass(system, here.mass, nv)
    diagnosis = diagnose(system, q, t)
    if diagnosis.singular:
        raise ConstraintError(
            f"The start is a singular configuration: the constraints of "
            f"{', '.join(diagnosis.singular_joints)} have rank {diagnosis.rank} here and more "
            "nearby, so accelerations and reactions are not determined. Start a little off it."
        )
    if system.has_nonholonomic_constraints:
        _check_linear(system, q, t, nv)
    v = _project_velocity(system, q, v, t, free_velocity, tol)
    redundant = diagnosis.redundant > 0
    if redundant:
        system = system.with_redundant_constraints()
    here = evaluated(system, t, q, v, dense=True)
    a, lam = here.a, here.lam
    if redundant:
        lam = smallest_multipliers(here.jacobian, lam)
    _check_accelerations(system, q, v, t, a, lam, redundant)
    moved = (
        moved_positions(system, q, way) if np.all(free) and not driven else "",
        changed_velocities(system, asked, v) if np.all(free_velocity) else "",
    )
    warn(moved)
    seconds, moved = time.perf_counter() - began, tuple(filter(None, moved))
    return Start(t, q, v, a, lam, redundant, diagnosis, seconds, moved)


def _look(system: System, q: np.ndarray, v: np.ndarray, t: float) -> None:
    """Refuse functions that cannot be evaluated, or return arrays of the wrong shape."""
    n = v.shape[0]
    failed: Exception | None = None
    here: Any = None
    try:
        here = evaluated(system, t, q, v, dense=True)
    except Exception as error:
        failed = error
    if failed is not None:
        check_shapes(system, q, v, t)  # says which function it is
        raise failed
    rows, holonomic = here.rate.shape, here.g.shape
    good = len(rows) == len(holonomic) == 1 and rows[0] >= holonomic[0]
    good = good and here.force.shape == (n,) and here.mass.shape == (n, n)
    if not good or here.potential.shape != ():
        check_shapes(system, q, v, t)
    system.constraint_names(rows[0])  # refuses too few names or too many


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


@native(once=True)
def _large_start(
    system: System, q: Array, v: Array, t: Array, tol: Array, guess: Array
) -> _LargeStart:
    """Newton in the mass metric with the block factor, then velocities and accelerations. With any
    velocity as a `guess` the factor is put to the test."""
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
    rate = factor.apply(guess)
    left = factor.apply(guess - factor.correct(rate))
    v = jax.lax.fori_loop(0, 2, lambda _, v: v - factor.correct(system.constraint_rate(q, v, t)), v)
    a, lam = system.at(q, t).accelerations(v, factor=factor)
    probe = largest(left) / jnp.maximum(1.0, largest(rate))
    return _LargeStart(q, v, a, lam, first, last, probe)


def _start_large(system: System, q: Array, v: Array, t: float, tol: float) -> Start:
    """Assembly, projection and accelerations through the block factor, with its accuracy as check.

    A Schur complement that cannot be solved accurately betrays dependent constraints.
    """
    refuse_after_fork()
    given = (np.float64(t), np.float64(tol), np.random.default_rng(0).standard_normal(v.shape))
    found = _large_start(system, q, v, *given)
    rows = constraint_rows(system, q, v)
    _check_finite(system, "residual", rows, np.asarray(found.first))
    redundant = not float(found.probe) <= 1e-6
    if redundant:
        system = system.with_redundant_constraints()
        found = _large_start(system, q, v, *given)
    size = float(jnp.max(jnp.abs(found.last), initial=0.0))
    if not size <= tol:
        raise ConstraintError(
            f"The mechanism cannot be assembled: a residual of {size:.3g} remains in "
            f"{_worst(system, np.asarray(found.last), rows)}. Check the dimensions of the loops "
            "these joints close, or give a closer start."
        )
    numbers: Any = [np.asarray(x) for x in found[:4]]
    q, v, a, lam = numbers
    _check_accelerations(system, q, v, t, a, lam, False)
    return Start(t, q, v, a, lam, redundant, None)


def _rates_only(system: System, q: Array, v: Array, t: Array) -> Array:
    return system.constraint_rate(q, v, t)


_rows: Memory[int] = Memory(64)


def constraint_rows(system: System, q: np.ndarray | Array, v: np.ndarray | Array) -> int:
    """Number of constraint rows, all of them."""

    def counted() -> int:
        if system.velocity_size(int(q.shape[0])) != v.shape[0]:
            raise ValueError(f"v has {v.shape[0]} entries, which do not fit q with {q.shape[0]}.")
        if v.shape[0] <= DENSE_LIMIT:
            return evaluated(system, 0.0, q, v, dense=True).lam.shape[0]
        return int(jax.eval_shape(_rates_only, system, q, v, jnp.zeros(())).shape[0])

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
