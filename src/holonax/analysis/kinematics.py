"""The motion of a fully driven mechanism: no integration, every instant from its own equations.

    g(q, t) = 0                          positions, by Newton's method from a predicted q
    G v = -g_t,   G v' = gamma           velocities and accelerations, linear

Drivers leave no motion free, so the forces do not matter for the motion; they give the multipliers
(M v' = f - G^T lam), and with them reactions and driver torques.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import checked_call
from .._messages import listed, shown
from .._numbers import real
from ..compiler import native
from ..formulation.base import Formulation
from ..problem import State, StepContext
from ..result.result import Result
from ..result.states import Leg
from ..start.consistent import Start, finite_number
from ..start.diagnosis import unique
from ..system.base import Array, System
from .checks import as_start, bodies_of, constraint_and_jacobian, free_motions, is_traced

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_CHUNK = 256
_NEWTON_STEPS = 15
_CONVERGED = 1e-9  # the largest last step, relative to the coordinates: its square is rounding
_SINGULAR = 1e-7  # smallest singular value of the constraint rows, relative to the largest
_MOST_INSTANTS = 10_000_000
_traces = {"chunk": 0}  # counts compilations, for `Result.stats`


class Motion(NamedTuple):
    """Arrays over the instants: t (n,), q (n, nq), v and a (n, nv), lam (n, rows)."""

    t: Array
    q: Array
    v: Array
    a: Array
    lam: Array


class Kinematic(Formulation):
    """Stands in a `Result` for the equations of a fully driven mechanism."""

    kind: ClassVar[str] = "kinematic"
    default_integrator: ClassVar[tuple[Any, ...]] = ("NewtonRaphson",)
    reference: ClassVar[str] = "Haug 1989, Section 3.6"

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        return context.system.accelerations(*state, t)

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        return state

    @property
    def holds(self) -> tuple[bool, bool]:
        return True, True


class NewtonRaphson:
    """Stands in a `Result` for the solution of each instant by itself."""

    multiplier_lag: ClassVar[float] = 0.0

    def order(self, terms: Any) -> int:
        """Of interpolation between instants; a projection makes it exact."""
        return 5


# -- the compiled part -----------------------------------------------------------------------


class _Instant(NamedTuple):
    t: Array
    q: Array
    v: Array
    a: Array


def _position(system: System, q: Array, t: Array) -> tuple[Array, Array, Array]:
    """(q, whether converged, iterations) with g(q, t) = 0."""

    def body(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        q, _, count = now
        step = system.factor(q, t, rows="holonomic").correct(system.constraint(q, t))
        moved = system.normalize(system.retract(q, -step))
        return moved, jnp.max(jnp.abs(step)) / (1 + jnp.max(jnp.abs(q))), count + 1

    def unfinished(now: tuple[Array, Array, Array]) -> Array:
        return jnp.logical_and(now[1] > _CONVERGED, now[2] < _NEWTON_STEPS)

    first = (q, jnp.asarray(jnp.inf), jnp.asarray(0))
    q, change, count = jax.lax.while_loop(unfinished, body, first)
    return q, change <= _CONVERGED, count


def _instant(system: System, now: _Instant, t: Array) -> tuple[_Instant, tuple[Any, ...]]:
    """The state at the instant t from that of the one before."""
    frozen, before, time = jax.lax.stop_gradient((system, now, t))
    h = time - before.t
    predicted = frozen.retract(before.q, h * before.v + 0.5 * h * h * before.a)
    q, converged, count = _position(frozen, frozen.normalize(predicted), time)
    # One more step: rounding for the value, and all of the derivative with respect to parameters,
    # because the root does not depend on where Newton's method began.
    factor = system.factor(q, t, rows="holonomic")
    q = system.normalize(system.retract(q, -factor.correct(system.constraint(q, t))))
    factor = system.factor(q, t)
    v = -factor.correct(system.constraint_rate(q, jnp.zeros_like(now.v), t))
    a = factor.correct(system.gamma(q, v, t))
    new = _Instant(t, q, v, a)
    good = jnp.logical_and(converged, jnp.all(jnp.isfinite(a)))
    # an instant that failed is no place to predict from
    kept = jax.tree.map(lambda x, y: jnp.where(good, x, y), new, now._replace(t=t))
    return kept, (new, good, count)


@native
def _chunk(system: System, now: _Instant, times: Array) -> tuple[_Instant, tuple[Any, ...]]:
    """The states at `times`, one after the other."""
    _traces["chunk"] += 1
    return jax.lax.scan(lambda state, t: _instant(system, state, t), now, times)


@native
def _regularity(system: System, times: Array, q: Array) -> tuple[Array, Array]:
    """For each instant: the smallest singular value of the rows, relative to the largest, and the
    sign of their determinant (zero where they are not as many as coordinates)."""

    def at(x: tuple[Array, Array]) -> tuple[Array, Array]:
        rows = system.jacobian(x[1], x[0])
        size = jnp.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / jnp.where(size > 0, size, 1.0)
        rows = jnp.where(jnp.all(jnp.isfinite(rows)), rows, 0.0)
        values = jnp.linalg.svd(rows, compute_uv=False)
        square = rows.shape[0] == rows.shape[1]
        sign = jnp.linalg.slogdet(rows)[0] if square else jnp.zeros(())
        return values[-1] / jnp.maximum(values[0], 1e-300), sign

    return jax.lax.map(at, (times, q))


@native
def _multipliers(system: System, x: _Instant) -> Array:
    return jax.lax.map(lambda y: system.accelerations(y.q, y.v, y.t)[1], x)


# -- the ways in -----------------------------------------------------------------------------


@checked_call
def kinematic_motion(system: System, start: Start, times: ArrayLike | None) -> Motion:
    """`kinematics` as arrays, in pure JAX: for derivatives with respect to the system's parameters.

    Positions, velocities, accelerations and multipliers at `times` (increasing, from the start's
    on). Values are not looked at: where no solution exists they are NaN or wrong.
    """
    start = _driven(system, start)
    if start.redundant:
        system = system.with_redundant_constraints()
    times = jnp.asarray(times, dtype=float)
    _, (states, _, _) = _chunk(system, _first(start), times)
    found = (states.t, states.q, states.v, states.a, _multipliers(system, states))
    return Motion(*map(jnp.asarray, found))


@checked_call
def kinematics(
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    t_end: float | None = None,
    *,
    dt: float | None = None,
    times: ArrayLike | None = None,
) -> Result:
    """The motion of a mechanism whose drivers leave nothing free, as a `Result`.

    **Arguments:**

    - `start`: from `consistent` or `model.build()`; a vector q or a pair (q, v) is made
      consistent first.
    - `t_end` [s] with `dt` [s]: instants in equal steps of at most `dt`, from the start on; or
      `times`, the instants themselves, increasing.

    There is no error of integration: every instant is exact to rounding. Nearby instants only
    keep Newton's method on one branch of the solution, so take steps in which no body turns by
    more than about half a radian. If a singular configuration is met (a dead centre, say), the
    instants before it are returned, with `success=False` and the joints involved in `message`.
    """
    start = _driven(system, start)
    if is_traced(system):
        raise TypeError(
            "kinematics: a Result cannot be differentiated or compiled. Use "
            "hx.analysis.kinematic_motion(system, start, times), which gives arrays."
        )
    instants = _instants(start.t, t_end, dt, times)
    if start.redundant:
        system = system.with_redundant_constraints()
    began, traced = time.perf_counter(), _traces["chunk"]
    state = _first(start)
    parts: list[Any] = []
    for k in range(0, instants.size, _CHUNK):
        part = instants[k : k + _CHUNK]
        padded = np.concatenate([part, np.full(_CHUNK - part.size, part[-1])])
        state, out = _chunk(system, state, jnp.asarray(padded))
        regular = _regularity(system, out[0].t, out[0].q)
        kept = jax.tree.map(lambda x, n=part.size: np.asarray(x)[:n], (*out, *regular))
        parts.append(kept)
        if not np.all(kept[1]):
            break
    states, good, counts, smallest, sign = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    n, message = _verdict(system, start, instants, states, good, smallest, sign)
    if start.redundant:
        message += "; constraints are redundant, multipliers are the minimum-norm ones"
    step = float(np.median(np.diff(instants, prepend=start.t)[-max(instants.size - 1, 1) :]))
    saved = [states.t, states.q, states.v] if n else [start.t, start.q, start.v]
    t, q, v = (np.asarray(x)[:n] if n else np.asarray(x)[None] for x in saved)
    return Result.single(
        Leg(system, Kinematic(), NewtonRaphson(), step),
        start,
        t,
        (q, v),
        success=n == instants.size,
        message=message,
        stats={
            "steps": n,
            "wall_time": time.perf_counter() - began,
            "compiled": _traces["chunk"] > traced,
            "newton_iterations": int(np.sum(counts[:n])),
        },
    )


def _first(start: Start) -> _Instant:
    return _Instant(jnp.asarray(start.t, dtype=float), start.q, start.v, start.a)


def _driven(system: System, start: Start | tuple[ArrayLike, ArrayLike]) -> Start:
    """The start, if nothing is left free there."""
    start = as_start("kinematics", system, start)
    if system.has_nonholonomic_constraints:
        raise ValueError(
            "kinematics: the non-holonomic constraints (rolling, knife edges) make positions "
            "depend on the way there. Use hx.simulate."
        )
    diagnosis = start.diagnosis
    if diagnosis is not None and diagnosis.mobility > 0:
        n = diagnosis.mobility
        many = "motion is" if n == 1 else "motions are"
        of = ""
        if not is_traced(system):
            of = f", of {listed(bodies_of(system, free_motions(system, start.q, start.t)))}"
        raise ValueError(
            f"kinematics: {n} {many} not driven (mobility {n}){of}. Add a driver for each, such as "
            "model.drive_angle(...), or use hx.simulate, which asks the forces."
        )
    return start


def _instants(t0: float, t_end: object, dt: Any, times: ArrayLike | None) -> np.ndarray:
    """The instants asked for, at least one."""
    if times is not None:
        if t_end is not None or dt is not None:
            raise ValueError("kinematics: give either times, or t_end and dt, not both.")
        given = real(times)
        instants = np.zeros(0) if given is None else given
        if instants.ndim != 1 or instants.size == 0 or not np.all(np.isfinite(instants)):
            raise ValueError(
                f"kinematics: times={shown(times)} must be a vector of finite times [s]."
            )
        if np.any(np.diff(instants) <= 0) or instants[0] < t0:
            raise ValueError(
                f"kinematics: times must increase, from the start's t = {t0:g} s on. Sort them, "
                "or give an earlier start."
            )
        return instants
    if t_end is None or dt is None:
        raise ValueError("kinematics: give t_end and dt [s], or the times themselves.")
    t_end = finite_number("kinematics", "t_end", t_end)
    dt = finite_number("kinematics", "dt", dt, positive=True)
    if t_end <= t0:
        raise ValueError(
            f"kinematics: t_end={t_end} s is not after the start, t={t0} s. Give a later end."
        )
    steps = int(np.ceil((t_end - t0) / dt * (1 - 1e-9)))
    if steps > _MOST_INSTANTS:
        raise ValueError(
            f"kinematics: dt={dt} s makes {steps} instants until {t_end} s. Give a larger one."
        )
    return np.linspace(t0, t_end, max(steps, 1) + 1)


def _verdict(
    system: System,
    start: Start,
    instants: np.ndarray,
    states: _Instant,
    good: np.ndarray,
    smallest: np.ndarray,
    sign: np.ndarray,
) -> tuple[int, str]:
    """How many instants are good, and what to say."""
    crossed = np.concatenate([[False], sign[1:] * sign[:-1] < 0])
    bad = ~good | ~(smallest > _SINGULAR) | crossed
    if not np.any(bad):
        return instants.size, f"solved {instants.size} instants to t = {instants[-1]:g} s"
    n = int(np.argmax(bad))
    at, before = float(instants[n]), float(instants[n - 1]) if n else start.t
    q = jnp.asarray(states.q[n if good[n] else max(n - 1, 0)])
    joints = listed(_weakest(system, q, at if good[n] else before), 6)
    hint = "All instants before it are returned."
    if crossed[n] or (good[n] and not smallest[n] > _SINGULAR):
        where = f"between t = {before:g} s and t = {at:g} s" if crossed[n] else f"at t = {at:g} s"
        return n, (
            f"stopped {where}: a singular configuration, where {joints} do not determine the "
            f"motion. {hint} End before it, drive another coordinate, or simulate through it."
        )
    return n, (
        f"stopped at t = {at:g} s: no configuration was found there near the one before. {joints} "
        f"are nearest to a lock (a dead centre, or a driver out of reach). {hint} End before it, "
        "take smaller steps, or drive another coordinate."
    )


def _weakest(system: System, q: Array, t: float) -> tuple[str, ...]:
    """The joints of the combination of constraints that is nearest to being dependent."""
    jacobian = np.asarray(constraint_and_jacobian(system, q, jnp.asarray(t, dtype=float))[1])
    size = np.linalg.norm(jacobian, axis=1, keepdims=True)
    u, _, _ = np.linalg.svd(jacobian / np.where(size > 0, size, 1.0), full_matrices=False)
    weight = np.abs(u[:, min(jacobian.shape) - 1])
    names = system.constraint_names(jacobian.shape[0])
    order = np.argsort(-weight)
    return unique([names[i] for i in order if weight[i] > 0.2 * weight[order[0]]])
