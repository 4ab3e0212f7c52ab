"""One run as a function of numbers only, from the rough start to the end; all of a batch follow it.

The steps are those of `simulate`. The run goes from one time to the next: those asked for, and the
breaks of forces and drivers. So what is kept is kept at the same place for all runs of a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from .._parts import Parts
from ..run.loop import Loop, LoopState, Settings, Setup, begun
from ..run.status import Failure
from ..system.base import System
from .reductions import Reduction

_ITERATIONS = 50  # of Newton's method for the assembly
FITTED = 1e-10  # the largest residual of a start that fits together [m or rad]
# A velocity off the constraints by more than this, in units of the fastest, is moved onto them.
_SLIDING = 1e-9


class Plan(NamedTuple):
    """What is compiled in: the structure of system and methods, what is observed, whether states
    are kept at each time or at the end only, and whether the method begins anew at breaks."""

    rest: Any
    reductions: tuple[Reduction, ...]
    keeps: bool
    breaks: bool


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
    `Failure` that stopped it, steps tried and rejected, the largest residuals of position and
    velocity at the end, and what was observed on the way."""

    q: Any
    v: Any
    t: Array
    code: Array
    steps: Array
    rejected: Array
    drift: Array
    observed: tuple[Any, ...]


class _Now(NamedTuple):
    """How far a run has come."""

    loop: LoopState
    code: Array
    steps: Array
    rejected: Array
    observed: tuple[Any, ...]


def one_run(plan: Plan, shared: Shared, own: Own) -> Ended:
    """A run to its end."""
    setup: Setup = Parts.joined(shared.arrays, plan.rest)
    if own.parameters:
        setup = setup._replace(system=setup.system.with_parameters(own.parameters))
    system, t0 = setup.system, shared.times[0]
    q = jnp.asarray(shared.q if own.q is None else own.q)
    v = jnp.asarray(shared.v if own.v is None else own.v)
    first_window = None if shared.windows is None else shared.windows[0]
    start = Loop(setup, _settings(shared, shared.times[:2], first_window)).context.system
    q, v, fits = fitted(start, t0, q, v)
    piece = shared.times[:2], first_window
    now = _begun(setup, shared, piece, t0, q, v)
    values = tuple(r.first(t0, q, v) for r in plan.reductions)
    code = jnp.where(fits, 0, int(Failure.NOT_ASSEMBLED))
    none = jnp.asarray(0)
    state = _Now(now, code, none, none, values)

    def along(now: _Now, piece: Any) -> tuple[_Now, Any]:
        knots, window, fresh = piece
        settings = _settings(shared, knots, window)
        if plan.breaks:
            q, v = now.loop.y[0], now.loop.y[1]
            again = lambda: _begun(setup, shared, (knots, window), now.loop.t, q, v)  # noqa: E731
            now = now._replace(loop=lax.cond(fresh, again, lambda: now.loop))
        rule = Loop(setup, settings).rule
        steps = now.loop.steps
        steps = steps._replace(end=rule.onwards(now.loop.t, steps.rule))
        now = now._replace(loop=now.loop._replace(steps=steps))

        def going(now: _Now) -> Array:
            return (now.loop.t < knots[1]) & (now.code == 0)

        now = lax.while_loop(
            going, lambda now: _one_step(plan, setup, settings, shared.most, now), now
        )
        q, v = now.loop.y[0], now.loop.y[1]
        if not plan.keeps:
            return now, None
        reached = now.code == 0
        return now, (jnp.where(reached, q, jnp.nan), jnp.where(reached, v, jnp.nan))

    knots = jnp.stack([shared.times[:-1], shared.times[1:]], axis=1)
    pieces = knots, shared.windows, shared.fresh
    end, rows = lax.scan(along, state, pieces)
    q, v = end.loop.y[0], end.loop.y[1]
    observed = tuple(
        r.result(x, end.loop.t) for r, x in zip(plan.reductions, end.observed, strict=True)
    )
    largest = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731
    drift = jnp.stack(
        [
            largest(system.constraint(q, end.loop.t)),
            largest(system.constraint_rate(q, v, end.loop.t)),
        ]
    )
    kept = rows if plan.keeps else (q, v)
    return Ended(*kept, end.loop.t, end.code, end.steps, end.rejected, drift, observed)


def _settings(shared: Shared, knots: Any, window: Any) -> Settings:
    return Settings(knots, shared.numbers, shared.atol, None, window)


def _begun(setup: Setup, shared: Shared, piece: Any, t: Any, q: Any, v: Any) -> LoopState:
    state = begun(Loop(setup, _settings(shared, *piece)), setup, jnp.asarray(t), q, v)
    # the same types as after a step, as a loop needs them
    return jax.tree.map(lambda x: jnp.asarray(x), state)


def _one_step(plan: Plan, setup: Setup, settings: Settings, most: Any, now: _Now) -> _Now:
    """One step, kept or not."""
    loop = Loop(setup, settings)
    t, y, solver, steps = now.loop
    y1, error, _, status, _ = loop.solver.step(
        loop.terms, t, steps.end, y, loop.context, solver, False
    )
    order = loop.solver.error_order(loop.terms)
    judged = loop.rule.judge(t, steps.end, error, order, steps.rule)
    if setup.control is None:
        keep = status.code == 0
        code = status.code
        y, solver = y1, status
    else:
        keep = judged.keep
        choose = lambda a, b: jnp.where(keep, a, b)  # noqa: E731
        y, solver = jax.tree.map(choose, (y1, status), (y, solver))
        reason = jnp.where(status.code > 0, status.code, int(Failure.TOO_SMALL))
        code = jnp.where(judged.stuck, reason, 0)
    taken = now.steps + 1
    code = jnp.where((code == 0) & (taken >= most), int(Failure.TOO_MANY), code)
    code = jnp.where(keep & (steps.end >= settings.knots[1]), 0, code)
    t1 = jnp.where(keep, steps.end, t)
    observed = tuple(
        r.after(x, keep, t, t1, y[0], y[1])
        for r, x in zip(plan.reductions, now.observed, strict=True)
    )
    state = LoopState(t1, y, solver, steps._replace(end=judged.end, rule=judged.state))
    return _Now(state, code, taken, now.rejected + ~keep, observed)


def fitted(system: System, t: Any, q: Array, v: Array) -> tuple[Array, Array, Array]:
    """The start on the constraints, moved as little as possible, and whether it could be.

    Newton's method, damped: a step that does not lessen the residual is halved.
    """
    largest = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731
    residual = lambda q: system.constraint(q, t)  # noqa: E731
    g0 = residual(q)
    if g0.shape[0]:

        def improve(now: Any) -> Any:
            q, g, damping, k = now
            step = system.factor(q, t, metric="identity", rows="holonomic").correct(g)
            moved = system.retract(q, -damping * step)
            new = residual(moved)
            better = largest(new) < (1 - 0.1 * damping) * largest(g)
            q, g = jnp.where(better, moved, q), jnp.where(better, new, g)
            return q, g, jnp.where(better, 1.0, 0.5 * damping), k + 1

        def unfinished(now: Any) -> Array:
            _, g, damping, k = now
            return (largest(g) > FITTED) & (k < _ITERATIONS) & (damping > 1e-4)

        start = q, g0, jnp.asarray(1.0), jnp.asarray(0)
        found, left, _, count = lax.while_loop(unfinished, improve, start)
        # one more full step brings the residual to rounding
        step = system.factor(found, t, metric="identity", rows="holonomic").correct(left)
        polished = system.retract(found, -step)
        use = (count > 0) & (largest(residual(polished)) < largest(left))
        q = jnp.where(use, polished, found)
        fits = largest(left) <= FITTED
    else:
        fits = jnp.asarray(True)
    rate = system.constraint_rate(q, v, t)
    if rate.shape[0]:
        factor = system.factor(q, t)
        moved = v - factor.correct(rate)
        moved = moved - factor.correct(system.constraint_rate(q, moved, t))
        sliding = largest(rate) > _SLIDING * jnp.maximum(1.0, largest(v))
        v = jnp.where(sliding, moved, v)
        rest = largest(system.constraint_rate(q, v, t))
        fits = fits & (rest <= 1e-8 * jnp.maximum(1.0, largest(v)))
    return q, v, fits
