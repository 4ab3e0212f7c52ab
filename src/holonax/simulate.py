"""The only way in: one compiled time loop, diffrax's, around any legal pair of methods.

The loop runs in segments of a fixed number of saved states, so that step size, end time and
parameters are traced values: changing them does not recompile.
"""

from __future__ import annotations

import time
from typing import Any, Literal, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import integrator as integrators
from ._messages import listed, shown
from .consistent import Start, consistent, constraint_rows, finite_number
from .formulation import Formulation, PostStabilized, StepContext
from .integrator import Dopri5, StabilizedSolver
from .integrator.base import BLOW_UP, FullState, problem_term
from .pairs import check_pair, is_legal
from .result import Result
from .steps import ErrorControl, StepControl, UniformSteps
from .system.base import Array, System

Save = Literal["steps", "end"] | int | Any

_BUFFER = 2**21  # entries of the buffer of saved states in one segment
_traces = {"segment": 0}


class _Segment(NamedTuple):
    """What one call of the compiled program returns."""

    ts: Any
    ys: Any
    t: Array
    y: Any
    solver_state: Any
    control_state: Any
    steps: Array
    rejected: Array
    finished: Array
    failed: Array


class _Tolerance(NamedTuple):
    """How accurate each step has to be, and how its length follows from that."""

    rtol: Array
    atol: Array
    first: Array
    control: StepControl

    def controller(self, knots: Array) -> ErrorControl:
        return ErrorControl(knots, *self)


@eqx.filter_jit
def _initial(
    system: System,
    formulation: Any,
    solver: Any,
    knots: Array,
    dt: Array,
    tolerance: _Tolerance | None,
    q: Array,
    v: Array,
) -> tuple[Any, Any, Any]:
    """The first state of the method, of its solver and of the control of its steps."""
    terms, t0 = problem_term(formulation), knots[0]
    context = StepContext(system, dt, formulation)
    y0 = solver.solver.first_state(context, t0, q, v)
    control = None
    if tolerance is not None:
        controller, order = tolerance.controller(knots), solver.error_order(terms)
        end, control = controller.init(terms, t0, t0, y0, None, context, solver.func, order)
        dt = end - t0
    return y0, solver.init(terms, t0, t0 + dt, y0, context), control


@eqx.filter_jit
def _segment(
    system: System,
    formulation: Any,
    solver: Any,
    t0: Array,
    knots: Array,
    dt: Array,
    tolerance: _Tolerance | None,
    y0: Any,
    solver_state: Any,
    control_state: Any,
    every: int,
    size: int,
) -> _Segment:
    """Up to `size` saved states: each `every`-th step, or with every=0 those at the knots."""
    _traces["segment"] += 1
    controller: Any = UniformSteps(knots, dt) if tolerance is None else tolerance.controller(knots)
    if every:
        subs = diffrax.SubSaveAt(steps=every)
    elif size:
        subs = diffrax.SubSaveAt(ts=knots[1:])
    else:
        subs = None
    end = diffrax.SubSaveAt(t1=True)
    solution = diffrax.diffeqsolve(
        problem_term(formulation),
        solver,
        t0,
        knots[-1],
        None if control_state is None else control_state.step,
        y0,
        StepContext(system, dt),
        saveat=diffrax.SaveAt(subs=(subs, end), solver_state=True, controller_state=True),
        stepsize_controller=controller,
        adjoint=diffrax.ForwardMode(),
        max_steps=every * size if every else None,
        throw=False,
        solver_state=solver_state,
        controller_state=control_state,
    )
    saved_t: Any = solution.ts
    saved_y: Any = solution.ys
    more = solution.result == diffrax.RESULTS.max_steps_reached
    good = solution.result == diffrax.RESULTS.successful
    return _Segment(
        ts=saved_t[0],
        ys=saved_y[0],
        t=saved_t[1][0],
        y=jax.tree.map(lambda x: x[0], saved_y[1]),
        solver_state=solution.solver_state,
        control_state=solution.controller_state,
        steps=solution.stats["num_steps"],
        rejected=solution.stats["num_rejected_steps"],
        finished=good,
        failed=jnp.logical_not(jnp.logical_or(more, good)),
    )


def _save_plan(save: Save, t0: float, t_end: float) -> tuple[int, np.ndarray | None]:
    """(every, times): each n-th step, or given times; (0, None) for the end only."""
    if isinstance(save, str):
        if save == "steps":
            return 1, None
        if save == "end":
            return 0, None
        raise ValueError(
            f'simulate: save={shown(save)} is not known. Use "steps", "end", a whole number n for '
            "every n-th step, or an array of times."
        )
    if isinstance(save, (int, np.integer)) and not isinstance(save, bool):
        if save < 1:
            raise ValueError(f"simulate: save={save} must be 1 or more to save every n-th step.")
        return int(save), None
    try:
        times = np.atleast_1d(np.asarray(None if isinstance(save, bool) else save, dtype=float))
    except (TypeError, ValueError):
        times = np.zeros(0)
    if times.ndim != 1 or times.size == 0 or not np.all(np.isfinite(times)):
        raise ValueError(
            f"simulate: save={shown(save)} must be a vector of finite times [s], a whole number n "
            'for every n-th step, "steps" or "end".'
        )
    if np.any(np.diff(times) <= 0):
        raise ValueError("simulate: the times given as save must increase. Sort them.")
    if times[0] < t0 or times[-1] > t_end * (1 + 1e-12):
        raise ValueError(
            f"simulate: times to save at lie outside the run, {t0} s to {t_end} s: "
            f"{times[0]} ... {times[-1]}. Leave those out, or change t_end."
        )
    return 0, times


def simulate(
    system: System,
    start: Start | tuple[Any, Any],
    t_end: float,
    *,
    dt: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    formulation: Formulation | None = None,
    integrator: Any = None,
    save: Save = "steps",
    control: StepControl | None = None,
) -> Result:
    """Simulate `system` from a consistent `start` to `t_end` [s].

    Either with equal steps of at most `dt` [s], or with steps whose error stays below
    atol + rtol |y| (root mean square over all components of q and v), which `rtol` asks for.

    **Arguments:**

    - `start`: from `consistent` or `model.build()`; a pair (q, v) is made consistent first.
    - `formulation`: how the constraints are enforced; default ``PostStabilized("both", passes=2)``.
    - `integrator`: the time stepping method; default: the formulation's own choice.
    - `save`: ``"steps"`` (every step), a whole number n (every n-th), ``"end"``, or an array of
      times, which the steps are made to hit exactly.
    - `rtol`, `atol`: relative and absolute tolerance of a step's error; `atol` is `rtol` / 100
      unless given. `dt` is then the first step, which is chosen if it is left out. Takes an
      integrator with an error estimate, by default `Dopri5`.
    - `control`: how the length of error-controlled steps is chosen.

    Equal steps: `dt` is reduced so that a whole number of steps reaches `t_end` (or the next
    saved time). A run that fails in the middle returns all it has computed, with
    `success=False` and the reason in `message`.
    """
    if not isinstance(system, System):
        raise TypeError(
            f"simulate: system is {type(system).__name__}; give a System, from model.build() or "
            "FunctionSystem(...)."
        )
    formulation = PostStabilized("both", passes=2) if formulation is None else formulation
    if integrator is None and isinstance(formulation, Formulation):
        explicit = rtol is not None and is_legal(formulation, Dopri5())
        integrator = Dopri5() if explicit else formulation.default_integrator()
    check_pair(formulation, integrator)
    t_end = finite_number("simulate", "t_end", t_end)
    tolerance = _tolerance(integrator, dt, rtol, atol, control)
    step = finite_number("simulate", "dt", 1.0 if dt is None else dt, positive=True)
    start = _consistent_start(system, start)
    if t_end <= start.t:
        raise ValueError(
            f"simulate: t_end={t_end} s is not after the start, t={start.t} s. Give a later end."
        )
    every, times = _save_plan(save, start.t, t_end)
    if start.redundant:
        if formulation.kind in ("dae", "index3"):
            raise ValueError(_redundancy(formulation, start))
        system = system.with_redundant_constraints()
    if times is None and tolerance is None:
        step = (t_end - start.t) / max(np.ceil((t_end - start.t) / step * (1 - 1e-9)), 1.0)
    return _run(system, start, t_end, step, tolerance, formulation, integrator, every, times)


def _redundancy(formulation: Formulation, start: Start) -> str:
    joints = start.diagnosis.shared_by if start.diagnosis is not None else ()
    among = f" (among {listed(joints)})" if joints else ""
    return (
        f"simulate: {type(formulation).__name__} solves for the multipliers of all constraints, "
        f"which redundant ones{among} leave undetermined. Remove those, or use a formulation that "
        'takes them, such as PostStabilized("both"), CoordinateProjection() or '
        "CoordinatePartitioning()."
    )


def _tolerance(
    integrator: Any, dt: Any, rtol: Any, atol: Any, control: StepControl | None
) -> _Tolerance | None:
    """What is asked of each step's error; None for equal steps."""
    if rtol is None:
        for name, value in (("atol", atol), ("control", control)):
            if value is not None:
                raise ValueError(f"simulate: {name} means nothing without rtol. Give rtol as well.")
        if dt is None:
            raise ValueError(
                "simulate: give dt [s] for equal steps, or rtol for steps chosen by their error."
            )
        return None
    if not integrator.estimates_error:
        able = [
            name
            for name in integrators.__all__
            if getattr(getattr(integrators, name), "estimates_error", False)
        ]
        raise ValueError(
            f"simulate: {type(integrator).__name__} has no error estimate for rtol={rtol}. Leave "
            f"rtol out and give dt, or use one of: {', '.join(able)}."
        )
    rtol = finite_number("simulate", "rtol", rtol, positive=True)
    atol = rtol / 100 if atol is None else finite_number("simulate", "atol", atol, positive=True)
    if control is not None and not isinstance(control, StepControl):
        raise TypeError(f"simulate: control={shown(control)} is not an hx.StepControl(...).")
    first = 0.0 if dt is None else finite_number("simulate", "dt", dt, positive=True)
    rtol, atol, first = (jnp.asarray(x, dtype=float) for x in (rtol, atol, first))
    return _Tolerance(rtol, atol, first, StepControl() if control is None else control)


def _consistent_start(system: System, start: Any) -> Start:
    """The start, made consistent if it is a pair (q, v); refused if of another system."""
    if not isinstance(start, Start):
        if not (isinstance(start, (tuple, list)) and len(start) == 2):
            raise TypeError(
                f"simulate: start={shown(start)} is not a start. Give what hx.consistent(...) or "
                "model.build() returns, or a pair (q, v)."
            )
        return consistent(system, *start)
    try:
        rows = constraint_rows(system, start.q, start.v)
    except (TypeError, ValueError, IndexError):
        rows = -1
    if rows != start.lam.shape[0]:
        raise ValueError(
            f"simulate: the start, with {start.q.shape[0]} coordinates and {start.lam.shape[0]} "
            "constraint rows, belongs to another system. Make one with hx.consistent(system, q, v)."
        )
    return start


def _run(
    system: System,
    start: Start,
    t_end: float,
    dt: float,
    tolerance: _Tolerance | None,
    formulation: Any,
    integrator: Any,
    every: int,
    times: np.ndarray | None,
) -> Result:
    began, traced = time.perf_counter(), _traces["segment"]
    solver = StabilizedSolver(integrator, formulation, retry=tolerance is not None)
    step = jnp.asarray(dt)
    t = jnp.asarray(start.t, dtype=float)
    whole = jnp.array([start.t, t_end], dtype=float)
    y, state, control = _initial(
        system, formulation, solver, whole, step, tolerance, start.q, start.v
    )
    per_state = sum(int(x.size) for x in jax.tree.leaves(y))
    size = int(np.clip(2 ** int(np.log2(max(_BUFFER // max(per_state, 1), 1))), 8, 4096))
    saved_t: list[np.ndarray] = []
    saved_y: list[Any] = []

    latest = -np.inf

    def keep(ts: Any, ys: Any) -> float:
        """Append saved states; returns the time of the latest one."""
        saved_t.append(np.asarray(ts))
        saved_y.append(jax.tree.map(np.asarray, ys))
        return float(saved_t[-1][-1]) if saved_t[-1].size else latest

    if times is None or times[0] == start.t:
        latest = keep(np.array([start.t]), jax.tree.map(lambda x: x[None], y))
    chunks = _knot_chunks(start.t, t_end, times, size)
    steps, rejected, failed = 0, 0, False
    segment = None
    for knots in chunks:
        while True:
            saving = size if (every or times is not None) else 0
            segment = _segment(
                system,
                formulation,
                solver,
                t,
                knots,
                step,
                tolerance,
                y,
                state,
                control,
                every,
                saving,
            )
            steps += int(segment.steps)
            rejected += int(segment.rejected)
            failed = bool(segment.failed)
            if saving:
                ts = np.asarray(segment.ts)
                before = np.concatenate([[latest], ts[:-1]])
                good = np.isfinite(ts) & (ts > before)  # drops unused and padded entries
                if times is not None:
                    good &= np.isin(ts, times)
                if failed:
                    good &= ts < float(segment.t)
                latest = keep(
                    ts[good], jax.tree.map(lambda x, good=good: np.asarray(x)[good], segment.ys)
                )
            t, y, state = segment.t, segment.y, segment.solver_state
            control = segment.control_state
            if bool(segment.finished) or failed:
                break
        if failed:
            break
    assert segment is not None
    if failed:
        t, steps = state.t, steps - (tolerance is None)  # the last good state and its time
    if float(t) > latest and (failed or times is None):
        keep(np.array([float(t)]), jax.tree.map(lambda x: x[None], y))
    elapsed = time.perf_counter() - began
    saved = jax.tree.map(lambda *parts: np.concatenate(parts), *saved_y)
    message = (
        _failure(system, float(t), steps, float(segment.t), int(state.code))
        if failed
        else f"reached t = {t_end:g} s in {steps} steps"
    )
    if tolerance is not None:
        message += f" ({rejected} rejected)"
        dt = (float(t) - start.t) / max(steps - rejected, 1)
    if start.redundant:
        message += "; constraints are redundant, multipliers are the minimum-norm ones"
    return Result(
        system=system,
        formulation=formulation,
        integrator=integrator,
        start=start,
        dt=dt,
        t=np.concatenate(saved_t),
        q=saved[0],
        v=saved[1],
        solved=saved if isinstance(saved, FullState) else None,
        success=not failed,
        message=message,
        stats={
            "steps": steps,
            "rejected": rejected,
            "wall_time": elapsed,
            "compiled": _traces["segment"] > traced,
            **integrator.statistics(state.method),
            **formulation.statistics(state.carry),
        },
    )


def _knot_chunks(t0: float, t_end: float, times: np.ndarray | None, size: int) -> list[Array]:
    """Knot arrays of equal length, one for each call of the compiled program."""
    if times is None:
        return [jnp.array([t0, t_end])]
    inner = times[times > t0]
    chunks = []
    begin = t0
    for k in range(0, inner.size, size):
        part = inner[k : k + size]
        padded = np.concatenate([[begin], part, np.full(size - part.size, part[-1])])
        chunks.append(jnp.asarray(padded))
        begin = part[-1]
    if not inner.size or inner[-1] < t_end * (1 - 1e-12):
        chunks.append(jnp.asarray(np.concatenate([[begin], np.full(size, t_end)])))
    return chunks


def _failure(system: System, t: float, steps: int, t_failed: float, code: int) -> str:
    cause = {
        0: "the error control asked for a step too small for the time to notice",
        1: "the state became non-finite (NaN or infinity)",
        2: f"the solution blew up (a component above {BLOW_UP:g})",
        3: "the iteration for the equations of the step did not converge",
    }[code]
    return (
        f"stopped at t = {t:g} s after {steps} steps: in the step to t = {t_failed:g} s {cause}. "
        "All states before it are returned. Try a smaller dt, a formulation that holds the "
        "constraints, or look for a singular configuration or an overflow in a user function near "
        "this time."
    )
