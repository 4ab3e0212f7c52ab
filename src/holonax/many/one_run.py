"""One run as a function of numbers only, from the rough start to the end; all of a batch follow it.

The steps are those of `simulate`. The run goes from one time to the next: those asked for, and the
breaks of forces and drivers. So what is kept is kept at the same place for all runs of a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from .._parts import Parts
from ..run.loop import Loop, LoopState, Settings, Setup, begun
from ..run.status import Failure
from ..system.base import System
from .reductions import Moving, Reduction, StepTimes, observed

if TYPE_CHECKING:
    from jaxtyping import PyTree

_ITERATIONS = 50  # of Newton's method for the assembly
FITTED = 1e-10  # the largest residual of a start that fits together [m or rad]


class RunPlan(NamedTuple):
    """What is compiled in: the structure of system and methods, what is observed, over each run and
    at each time, and which states are kept: at the times, at the end or none."""

    rest: Any
    reductions: tuple[Reduction, ...]
    observers: tuple[Any, ...]
    keeps: Literal["times", "end", "none"]


class Shared(NamedTuple):
    """The numbers that all runs have in common.

    `times` (n,) are the ends of the pieces a run goes through, after the time of the start;
    `windows` (n - 1, 3) where functions of time are smooth, None without breaks; `fresh` whether a
    piece begins at a break. `numbers` and `atol` as in `Settings`; `most` the most steps.
    """

    arrays: Any
    times: Any
    windows: Any
    fresh: Any
    numbers: Any
    atol: Any
    most: Any
    q: Any
    v: Any


class Own(NamedTuple):
    """The numbers of one run: its start, None where that is shared, and parameters by name."""

    q: Any
    v: Any
    parameters: dict[str, Any]


class Ended(NamedTuple):
    """How one run went: states at the times or at the end, the time it came to, the number of the
    `Failure` that stopped it and of the event that ended it, from 1 on, steps tried and rejected,
    the largest residuals of position and velocity at the end, the residual that a start which does
    not fit together has left and its row, and what was observed over the run and at the times."""

    q: Any
    v: Any
    t: Array
    code: Array
    event: Array
    steps: Array
    rejected: Array
    drift: Array
    misfit: Array
    observed: tuple[Any, ...]
    seen: tuple[Any, ...]


class _Now(NamedTuple):
    """How far a run has come."""

    loop: LoopState
    code: Array
    event: Array
    steps: Array
    rejected: Array
    observed: tuple[Any, ...]


def one_run(plan: RunPlan, shared: Shared, own: Own) -> Ended:
    """A run to its end."""
    setup: Setup = Parts.joined(shared.arrays, plan.rest)
    if own.parameters:
        setup = setup._replace(system=setup.system.remade(own.parameters))
    t0 = shared.times[0]
    q = jnp.asarray(shared.q if own.q is None else own.q)
    v = jnp.asarray(shared.v if own.v is None else own.v)
    begin, last = (
        (knots, None if shared.windows is None else shared.windows[k])
        for k, knots in ((0, shared.times[:2]), (-1, shared.times[-2:]))
    )
    q, v, misfit = fitted(_timed(setup, shared, begin), t0, q, v)
    moving = _moving(setup, _settings(shared, *begin), shared)
    sides = _sides(setup, moving, t0 + _origin(shared), q, v) if setup.events else None
    now = _begun(setup, shared, begin, t0, q, v, sides)
    values = tuple(r.first(moving, t0 + _origin(shared), q, v) for r in plan.reductions)
    code = jnp.where(misfit[0] == 0, 0, int(Failure.NOT_ASSEMBLED))
    code = jnp.where(_is_finite(own), code, int(Failure.NOT_GIVEN))
    none = jnp.asarray(0)
    state = _Now(now, code, none, none, none, values)
    first = _row(plan, setup.system, shared, state)

    def along(now: _Now, piece: PyTree) -> tuple[_Now, Any]:
        knots, window, fresh = piece
        settings = _settings(shared, knots, window)
        if fresh is not None:
            q, v = now.loop.y[0], now.loop.y[1]
            watch = now.loop.steps.watch
            sides = None if watch is None else jnp.stack([watch.signs, watch.bands])
            piece = knots, window
            again = lambda: _begun(setup, shared, piece, now.loop.t, q, v, sides)  # noqa: E731
            loop = lax.cond(fresh & (now.event == 0), again, lambda: now.loop)
            now = now._replace(loop=loop)
        steps = now.loop.steps
        end = Loop(setup, settings).rule.onwards(now.loop.t, steps.rule)
        now = now._replace(loop=now.loop._replace(steps=steps._replace(end=end)))

        def going(now: _Now) -> Array:
            return (now.loop.t < knots[1]) & (now.code == 0) & (now.event == 0)

        def step(now: _Now) -> _Now:
            return _one_step(plan, setup, settings, shared, now)

        now = lax.while_loop(going, step, now)
        return now, _row(plan, setup.system, shared, now)

    knots = jnp.stack([shared.times[:-1], shared.times[1:]], axis=1)
    end, rows = lax.scan(along, state, (knots, shared.windows, shared.fresh))
    rows = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rows)
    values = tuple(
        r.result(x, end.loop.t + _origin(shared))
        for r, x in zip(plan.reductions, end.observed, strict=True)
    )
    q, v = end.loop.y[0], end.loop.y[1]
    kept, seen = rows
    if plan.keeps == "end":
        kept = q, v
    return Ended(
        q=kept[0],
        v=kept[1],
        t=end.loop.t,
        code=end.code,
        event=end.event,
        steps=end.steps,
        rejected=end.rejected,
        drift=_residuals(_timed(setup, shared, last), end.loop.t, q, v),
        misfit=misfit,
        observed=values,
        seen=seen,
    )


def _is_finite(own: Own) -> Array:
    """Whether all that a run was given is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(own)]))


def _row(plan: RunPlan, system: System, shared: Shared, now: _Now) -> Any:
    """What is kept of a state at one of the times; not a number after a failure or an event."""
    good = (now.code == 0) & (now.event == 0)
    t, q, v = now.loop.t + _origin(shared), now.loop.y[0], now.loop.y[1]
    states = (q, v) if plan.keeps == "times" else (None, None)
    seen = tuple(observed(x, system, t, q, v) for x in plan.observers)
    return jax.tree.map(lambda x: jnp.where(good, x, jnp.nan), (states, seen))


def _largest(x: Array) -> Array:
    return jnp.max(jnp.abs(x), initial=0.0)


def _residuals(system: System, t: Array, q: Array, v: Array) -> Array:
    """The largest of position and of velocity."""
    return jnp.stack([_largest(system.constraint(q, t)), _largest(system.constraint_rate(q, v, t))])


def _settings(shared: Shared, knots: Array, window: Any, sides: Any = None) -> Settings:
    return Settings(knots, shared.numbers, shared.atol, sides, window)


def _origin(shared: Shared) -> Any:
    """The time from which a run counts [s]."""
    return 0.0 if shared.windows is None else shared.windows[0, 0]


def _timed(setup: Setup, shared: Shared, piece: PyTree) -> System:
    """The system as it is in a piece of the run."""
    return Loop(setup, _settings(shared, *piece)).context.system


def _moving(setup: Setup, settings: Settings, shared: Shared) -> Moving:
    """The system and its rates, for those who observe it."""
    loop = Loop(setup, settings)
    solver = loop.solver

    def rates(t: Array, q: Array, v: Array) -> Any:
        ticks = t - _origin(shared)
        context = solver._context(loop.context, ticks, ticks + loop.context.dt, (q, v), None)
        return setup.formulation.rates(context, ticks, (q, v))

    return Moving(setup.system, rates)


def _sides(setup: Setup, moving: Moving, t: Array, q: Array, v: Array) -> Array:
    """The side of zero of each event function, or where it is heading; without allowances."""

    def values(h: Any) -> Array:
        moved = setup.system.retract(q, h * velocity), v + h * acceleration
        return jnp.stack([event.value(setup.system, t + h, *moved) for event in setup.events])

    velocity, acceleration = moving.rates(t, q, v)
    now, rate = jax.jvp(values, (jnp.zeros(()),), (jnp.ones(()),))
    signs = jnp.sign(jnp.where(now == 0, rate, now))
    return jnp.stack([signs, jnp.zeros_like(signs)])


def _begun(
    setup: Setup, shared: Shared, piece: PyTree, t: Array, q: Array, v: Array, sides: Any
) -> LoopState:
    knots, window = piece
    loop = Loop(setup, _settings(shared, knots, window, sides))
    state = begun(loop, setup, jnp.asarray(t), q, v)
    # the same types as after a step, as a loop needs them
    return jax.tree.map(lambda x: jnp.asarray(x), state)


def _one_step(plan: RunPlan, setup: Setup, settings: Settings, shared: Shared, now: _Now) -> _Now:
    """One step, kept or not."""
    loop = Loop(setup, settings)
    t, y, solver, steps = now.loop
    y1, error, _, status, _ = loop.solver.step(
        loop.terms, t, steps.end, y, loop.context, solver, False
    )
    order = loop.solver.error_order(loop.terms)
    judged = loop.rule.judge(t, steps.end, error, order, steps.rule)
    end, rule = judged.end, judged.state
    watched, event = steps.watch, now.event
    keep = status.code == 0 if setup.control is None else judged.keep
    if loop.watch is not None:
        seen = loop.watch.judge(loop.context, t, y, steps.end, y1, keep, steps.watch)
        rule = jax.tree.map(lambda a, b: jnp.where(seen.again, a, b), steps.rule, rule)
        end = jnp.where(seen.again, seen.end, end)
        kept = keep & ~seen.again
        found = seen.state.found & kept
        event = jnp.where(jnp.any(found), jnp.argmax(found) + 1, event)
    else:
        seen, kept = None, keep
    if setup.control is None:
        code = status.code
        if seen is None:
            y, solver = y1, status
    else:
        reason = jnp.where(status.code > 0, status.code, int(Failure.TOO_SMALL))
        code = jnp.where(judged.stuck, reason, 0)
    if setup.control is not None or seen is not None:
        choose = lambda a, b: jnp.where(kept, a, b)  # noqa: E731
        y, solver = jax.tree.map(choose, (y1, status), (y, solver))
    keep = kept
    taken = now.steps + 1
    code = jnp.where((code == 0) & (taken >= shared.most), int(Failure.TOO_MANY), code)
    done = keep & ((steps.end >= settings.knots[1]) | (event > 0))
    code = jnp.where(done, 0, code)
    if seen is not None:
        watched = seen.state
        blind = (code == 0) & keep & jnp.any(watched.bad)
        code = jnp.where(blind, int(Failure.EVENT_NOT_FINITE), code)
    t1 = jnp.where(keep, steps.end, t)
    origin = _origin(shared)
    times = StepTimes(t + origin, t1 + origin)
    moving = _moving(setup, settings, shared)
    values = tuple(
        r.after(moving, x, keep, times, y[0], y[1])
        for r, x in zip(plan.reductions, now.observed, strict=True)
    )
    state = LoopState(t1, y, solver, steps._replace(end=end, rule=rule, watch=watched))
    return _Now(state, code, event, taken, now.rejected + ~keep, values)


def fitted(system: System, t: Array, q: Array, v: Array) -> tuple[Array, Array, Array]:
    """The start on the constraints, moved as little as possible; and what is left, with its row:
    the residual of position, else of velocity, and zeros where it fits.

    Newton's method, damped: a step that does not lessen the residual is halved.
    """
    residual = lambda q: system.constraint(q, t)  # noqa: E731
    g = residual(q)
    misfit = jnp.zeros(2)
    if g.shape[0]:
        correction = lambda q, g: system.factor(  # noqa: E731
            q, t, metric="identity", rows="holonomic"
        ).correct(g)

        def improve(now: PyTree) -> tuple[Array, Array, Array, Array]:
            q, g, damping, k = now
            moved = system.retract(q, -damping * correction(q, g))
            new = residual(moved)
            better = _largest(new) < (1 - 0.1 * damping) * _largest(g)
            q, g = jnp.where(better, moved, q), jnp.where(better, new, g)
            return q, g, jnp.where(better, 1.0, 0.5 * damping), k + 1

        def unfinished(now: PyTree) -> Array:
            _, g, damping, k = now
            return (_largest(g) > FITTED) & (k < _ITERATIONS) & (damping > 1e-4)

        first = q, g, jnp.asarray(1.0), jnp.asarray(0)
        q, g, _, tried = lax.while_loop(unfinished, improve, first)
        # one more full step brings the residual to rounding
        polished = system.retract(q, -correction(q, g))
        better = (tried > 0) & (_largest(residual(polished)) < _largest(g))
        q = jnp.where(better, polished, q)
        misfit = _worst(g, FITTED)
    rate = system.constraint_rate(q, v, t)
    if rate.shape[0]:
        factor = system.factor(q, t)
        moved = v - factor.correct(rate)
        moved = moved - factor.correct(system.constraint_rate(q, moved, t))
        new = system.constraint_rate(q, moved, t)
        # however slow: steps by error find no end where their projection moves what they begin with
        better = _largest(new) < 0.5 * _largest(rate)
        scale = jnp.maximum(1.0, _largest(v))
        v, rate = jnp.where(better, moved, v), jnp.where(better, new, rate)
        left = _worst(rate, 1e-8 * scale)
        misfit = jnp.where(misfit[0] == 0, left, misfit)
    return q, v, misfit


def _worst(residual: Array, most: float | Array) -> Array:
    """The largest residual and its row; zeros where it is not above what is allowed."""
    size = jnp.where(jnp.isnan(residual), jnp.inf, jnp.abs(residual))
    at = jnp.argmax(size)
    return jnp.where(jnp.max(size) > most, jnp.stack([jnp.max(size), at.astype(float)]), 0.0)
