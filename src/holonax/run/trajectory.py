"""A run as a pure function, for `jax.jit`, `vmap`, `grad` and `jvp`.

The steps are those of `simulate`. The derivative is that of the computed solution (a discrete
adjoint): the states of all steps are kept, and on the way back each step is done again and its
linear equations are solved transposed. Steps chosen by their error are held as they were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from .._arguments import checked_call
from .._messages import shown
from .._numbers import LARGEST_COUNT, array, count, is_traced, parameter, real
from .._parts import Parts
from ..compiler import native
from ..formulation import Formulation, PostStabilized
from ..integrator import Dopri5
from ..problem import StepContext
from ..start.consistent import Start
from ..system.base import System, check_system
from .control import StepControl
from .loop import Loop, LoopState, Settings, Setup, begun
from .pairs import check_pair, check_reaction_forces, default_integrator, is_legal

Adjoint = Literal["reverse", "forward"]

# Steps that there is room for where they are chosen by their error.
_ROOM = 4096


class Trajectory(NamedTuple):
    """What a traced run returns: `q` (n, nq), `v` (n, nv) and the multipliers `lam` (n, rows) at
    the times `t` (n,), whether it came to its end, and the number of steps tried.

    States after a failure are NaN.
    """

    t: Array
    q: Array
    v: Array
    lam: Array
    ok: Array
    steps: Array


@checked_call
def trajectory(
    system: System,
    start: Start | tuple[Any, Any],
    times: Any,
    *,
    dt: Any = None,
    rtol: Any = None,
    atol: Any = None,
    formulation: Formulation | None = None,
    integrator: Any = None,
    max_steps: int | None = None,
    adjoint: Adjoint = "reverse",
) -> Trajectory:
    """The motion of `system` from `start` at `times` [s], the first of which is that of the start.

    Pure: parameters of the system, the start, the times, the step and options of the methods that
    are numbers may be traced. The methods and their steps are those of `simulate`.

    **Arguments:**

    - `start`: from `consistent` or `model.build()`, or a pair (q, v). It is moved onto the
      constraints by the shortest way, so that a derivative with respect to a length is that of a
      mechanism that fits together.
    - `times`: increasing, hit exactly.
    - `dt`: the longest of equal steps [s]; or `rtol`, `atol` for steps chosen by their error;
      `atol` is `rtol` / 100 unless given. Give the breaks of forces among `times`.
    - `max_steps`: the most steps there is room for; needed where `times` or `dt` are traced, 4096
      where steps are chosen by their error. A run that needs more has `ok=False`.
    - `adjoint`: ``"reverse"`` for `grad` and `vjp`, ``"forward"`` for `jvp` and `jacfwd`.

    ```python
    def height(mass):
        return hx.trajectory(system.with_parameters(m=mass), start, [0.0, 1.0], dt=1e-3).q[-1, 1]

    jax.grad(height)(1.5)
    ```
    """
    check_system("trajectory", system)
    start = checked_start("trajectory", system, start)
    if not isinstance(adjoint, str) or adjoint not in ("reverse", "forward"):
        raise ValueError(
            f'trajectory: adjoint={shown(adjoint)} is not known. Use "reverse" for grad and vjp, '
            '"forward" for jvp and jacfwd.'
        )
    dt, rtol, atol = _checked(dt, rtol, atol)
    formulation, integrator = _pair(formulation, integrator, dt, rtol)
    check_reaction_forces("trajectory", system, formulation, integrator)
    if isinstance(start, Start) and start.redundant:
        system = system.with_redundant_constraints()
    control = None if rtol is None else StepControl(dt_max=np.inf)
    setup = Setup(system, formulation, integrator, control, ())
    knots = _knots(times)
    room = _room(max_steps, knots, dt, rtol)
    q, v = (start.q, start.v) if isinstance(start, Start) else start
    numbers = {k: x for k, x in (("dt", dt), ("rtol", rtol), ("atol", atol)) if x is not None}
    given = q, v, knots, numbers
    if is_traced(*jax.tree.leaves((setup, given))):
        return _motion(setup, *given, room=room, adjoint=adjoint)
    if max_steps is None:  # so that other times seldom need another program
        room = 1 << max(room - 1, 1).bit_length()
    parts = Parts.of(setup)
    arrays = jax.tree.map(np.asarray, (parts.arrays, *given))
    return _on_host(parts.rest, room, adjoint)(*arrays)


@lru_cache(maxsize=64)
def _on_host(rest: Hashable, room: int, adjoint: Adjoint) -> Any:
    """The run compiled for the host, where nothing is traced."""

    def motion(arrays: Any, *given: Any) -> Trajectory:
        return _motion(Parts.joined(arrays, rest), *given, room=room, adjoint=adjoint)

    return native(motion)


def _motion(
    setup: Setup, q: Any, v: Any, knots: Any, numbers: Any, *, room: int, adjoint: Adjoint
) -> Trajectory:
    """The run itself."""
    system, formulation, integrator = setup[:3]
    knots = jnp.asarray(knots)
    q, v = _fitted(system, knots[0], jnp.asarray(q), jnp.asarray(v))
    dt, rtol, atol = (numbers.get(name) for name in ("dt", "rtol", "atol"))
    settings = Settings(knots, *_numbers(dt, rtol, atol, v.shape[0]), None, None)
    loop = Loop(setup, settings, differentiable=True)
    first = begun(loop, setup, knots[0], q, v)
    rows = jax.tree.map(lambda x: jnp.full((len(knots), *x.shape), jnp.nan).at[0].set(x), first.y)
    given = (setup, settings), _Progress(first, rows, jnp.asarray(1), jnp.asarray(0), True)
    end = _carried(*given, room, adjoint)
    return _trajectory(system, formulation, integrator, knots, end)


def _checked(dt: Any, rtol: Any, atol: Any) -> tuple[Any, Any, Any]:
    """The step and the tolerances as positive numbers, as far as they are known."""
    given = {"dt": dt, "rtol": rtol, "atol": atol}
    wanted = "a finite and positive number"
    return tuple(
        None if x is None else parameter("trajectory", name, x, good=lambda x: x > 0, wanted=wanted)
        for name, x in given.items()
    )  # pyright: ignore[reportReturnType]


def checked_start(owner: str, system: System, start: Any) -> Any:
    """A start, or a pair (q, v) of vectors that fit the system."""
    if isinstance(start, Start):
        pair = start.q, start.v
    elif isinstance(start, tuple | list) and len(start) == 2:
        pair = tuple(array(owner, f"start[{i}]", x, (None,)) for i, x in enumerate(start))
    else:
        raise TypeError(
            f"{owner}: start={shown(start)} is not a start. Give what hx.consistent(...) or "
            "model.build() returns, or a pair (q, v)."
        )
    q, v = (int(np.shape(x)[0]) for x in pair)
    if system.velocity_size(q) != v:
        raise ValueError(
            f"{owner}: the start has {q} coordinates and {v} velocities, which do not fit. Make "
            "one with hx.consistent(system, q, v)."
        )
    return start if isinstance(start, Start) else pair


class _Progress(NamedTuple):
    """How far a run has come: the loop's state, the states at the times asked for, how many of
    these there are, the steps tried, and whether all is well."""

    loop: LoopState
    rows: Any
    filled: Array
    tried: Array
    good: Any


def _pair(
    formulation: Formulation | None, given: Any, dt: Any, rtol: Any
) -> tuple[Formulation, Any]:
    """The methods, chosen as `simulate` does where they are not given."""
    if (dt is None) == (rtol is None):
        raise ValueError(
            "trajectory: give dt [s] for equal steps, or rtol for steps chosen by their error."
        )
    formulation = PostStabilized("both", passes=2) if formulation is None else formulation
    integrator = given
    if given is None and isinstance(formulation, Formulation):
        explicit = rtol is not None and is_legal(formulation, Dopri5())
        integrator = Dopri5() if explicit else default_integrator(formulation)
    check_pair(formulation, integrator)
    method: Any = type(integrator)
    name = method.__name__
    if rtol is None and method.needs_tolerance:
        raise ValueError(f"trajectory: {name} chooses its steps by their error. Give rtol.")
    if rtol is not None and not method.estimates_error:
        raise ValueError(
            f"trajectory: {name} has no error estimate for rtol. Give dt, or use hx.Dopri5()."
        )
    return formulation, integrator


def _knots(times: Any) -> Any:
    """The times as an array; refused if they do not increase."""
    try:
        traced = any(isinstance(t, Tracer) for t in jax.tree.leaves(times))
        found = jnp.asarray(times, dtype=float) if traced else real(times)
        knots: Any = np.zeros(()) if found is None else found
    except (TypeError, ValueError):
        knots = np.zeros(())
    if knots.ndim != 1 or knots.shape[0] < 2:
        raise ValueError(
            f"trajectory: times={shown(times)} must be a vector of two or more times [s], the "
            "first of which is that of the start."
        )
    if not isinstance(knots, Tracer) and not np.all(np.diff(knots) > 0):
        raise ValueError("trajectory: the times must be finite and increase. Sort them.")
    return knots


def _numbers(dt: Any, rtol: Any, atol: Any, nv: int) -> tuple[Array, Array | None]:
    """The numbers of `Settings`, and the absolute tolerance."""
    stacked = lambda *x: jnp.stack([jnp.asarray(y, dtype=float) for y in x])  # noqa: E731
    if rtol is None:
        return stacked(dt, dt, 0.0), None
    atol = jnp.asarray(rtol / 100 if atol is None else atol, dtype=float)
    return stacked(1.0, 0.0, rtol), jnp.broadcast_to(atol, (2 * nv + 1,))


def _room(max_steps: Any, knots: Array, dt: Any, rtol: Any) -> int:
    """The most steps."""
    if max_steps is not None:
        return count("trajectory", "max_steps", max_steps)
    if rtol is not None:
        return _ROOM
    if isinstance(dt, Tracer) or isinstance(knots, Tracer):
        raise ValueError(
            "trajectory: how many steps there are cannot be told where times or dt are traced. "
            "Give max_steps, the most there is room for."
        )
    steps = np.sum(np.maximum(np.ceil(np.diff(np.asarray(knots)) / float(dt) * (1 - 1e-9)), 1.0))
    if not steps <= LARGEST_COUNT:
        raise ValueError(
            f"trajectory: dt={float(dt):g} s makes {steps:g} steps, more than can be kept. Give a "
            "longer step."
        )
    return int(steps)


def _fitted(system: System, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
    """The start on the constraints, by the shortest way.

    The derivative of one correction is exact where the constraints hold already.
    """
    map = PostStabilized("both", passes=4, freeze="none")
    return map.after_step(StepContext(system, jnp.ones(())), t, (q, v))


def _one_step(given: Any, now: _Progress) -> _Progress:
    """One step, kept or not."""
    method, settings = given
    loop = Loop(method, settings, differentiable=True)
    t, y, solver, steps = now.loop
    y1, error, _, status, _ = loop.solver.step(
        loop.terms, t, steps.end, y, loop.context, solver, False
    )
    good = status.code == 0
    order = loop.solver.error_order(loop.terms)
    error: Any = None if error is None else lax.stop_gradient(error)
    keep, end, rule, stuck = loop.rule.judge(t, steps.end, error, order, steps.rule)
    if method.control is None:
        y, solver, keep = y1, status, good
    else:
        # the length of the next step is not differentiated, the time that it may hit is
        choose = lambda a, b: jnp.where(keep, a, b)  # noqa: E731
        y, solver = jax.tree.map(choose, (y1, status), (y, solver))
        rule, good = lax.stop_gradient(rule), ~jnp.asarray(stuck)
    hit = keep & (steps.end >= settings.knots[now.filled])
    put = lambda rows, x: jnp.where(  # noqa: E731
        hit, lax.dynamic_update_index_in_dim(rows, x, now.filled, 0), rows
    )
    state = LoopState(jnp.where(keep, steps.end, t), y, solver, steps._replace(end=end, rule=rule))
    return _Progress(state, jax.tree.map(put, now.rows, y), now.filled + hit, now.tried + 1, good)


def _goes_on(now: _Progress, times: int, room: int) -> Array:
    return (now.filled < times) & (now.tried < room) & now.good


def _carried(given: Any, first: _Progress, room: int, adjoint: Adjoint) -> _Progress:
    """The progress at the end."""
    first = first._replace(good=jnp.asarray(True))
    times = given[1].knots.shape[0]
    if adjoint == "forward":
        return lax.while_loop(
            lambda now: _goes_on(now, times, room), lambda now: _one_step(given, now), first
        )
    real, fixed = eqx.partition((given, first), eqx.is_inexact_array)
    arrays, rest = eqx.partition(fixed, eqx.is_array)
    return _Reversible(rest, times, room)(real, arrays)


class _Reversible:
    """The loop with a derivative of its own: all states are kept, and the steps followed back.

    What has no derivative, numbers of steps and the like, is kept as it is.
    """

    def __init__(self, rest: Any, times: int, room: int):
        self.rest, self.times, self.room = rest, times, room

    def __call__(self, real: Any, arrays: Any) -> _Progress:
        real_end, other = self._call()(real, arrays)
        return eqx.combine(real_end, other)

    def _joined(self, real: Any, arrays: Any) -> Any:
        return eqx.combine(real, arrays, self.rest)

    def _call(self) -> Callable[..., Any]:
        @jax.custom_vjp
        def run(real: Any, arrays: Any) -> Any:
            given, first = self._joined(real, arrays)
            end = lax.while_loop(
                lambda now: _goes_on(now, self.times, self.room),
                lambda now: _one_step(given, now),
                first,
            )
            return eqx.partition(end, eqx.is_inexact_array)

        def forward(real: Any, arrays: Any) -> Any:
            given, first = self._joined(real, arrays)
            small = lambda now: now._replace(rows=None)  # noqa: E731
            kept = jax.tree.map(
                lambda x: jnp.zeros((self.room, *jnp.shape(x)), jnp.result_type(x)), small(first)
            )

            def body(state: Any) -> Any:
                now, kept = state
                put = lambda all, x: lax.dynamic_update_index_in_dim(all, x, now.tried, 0)  # noqa: E731
                return _one_step(given, now), jax.tree.map(put, kept, small(now))

            going = lambda state: _goes_on(state[0], self.times, self.room)  # noqa: E731
            end, kept = lax.while_loop(going, body, (first, kept))
            return eqx.partition(end, eqx.is_inexact_array), (real, arrays, kept, end.tried)

        def backward(residuals: Any, cotangent: Any) -> Any:
            real, arrays, kept, tried = residuals
            (given, first), (back, _) = self._joined(real, arrays), cotangent
            given_real, given_rest = eqx.partition(given, eqx.is_inexact_array)
            empty = jax.tree.map(jnp.zeros_like, first.rows)

            def body(state: Any) -> Any:
                k, back, total = state
                at = k - 1
                now = jax.tree.map(lambda x: x[at], kept)._replace(rows=empty)
                now_real, now_rest = eqx.partition(now, eqx.is_inexact_array)

                def step(given_real: Any, now_real: Any) -> Any:
                    given, now = (
                        eqx.combine(given_real, given_rest),
                        eqx.combine(now_real, now_rest),
                    )
                    return eqx.filter(_one_step(given, now), eqx.is_inexact_array)

                pull = jax.vjp(step, given_real, now_real)[1]
                of_given, of_now = pull(back)
                # rows that this step did not write are handed on as they are
                return at, of_now, jax.tree.map(jnp.add, total, of_given)

            total = jax.tree.map(jnp.zeros_like, given_real)
            _, back, total = lax.while_loop(lambda s: s[0] > 0, body, (tried, back, total))
            none = jax.tree.map(_no_tangent, arrays)
            return (total, back), none

        run.defvjp(forward, backward)
        return run


def _no_tangent(x: Any) -> Any:
    return np.zeros(jnp.shape(x), jax.dtypes.float0)


def _trajectory(
    system: System, formulation: Formulation, integrator: Any, knots: Array, end: _Progress
) -> Trajectory:
    """The states at the times, with their multipliers."""
    rows = end.rows
    q, v = rows[0], rows[1]
    context = StepContext(system, jnp.ones(()), formulation)
    lam = None
    if len(rows) > 2 and not integrator.multiplier_lag:
        count = jax.eval_shape(lambda: system.jacobian(q[0], knots[0])).shape[0]
        lam = formulation.multipliers(rows[3].T, count)
        lam = None if lam is None else lam.T
    if lam is None:
        multipliers = lambda t, q, v: formulation.accelerations(context, t, (q, v))[1]  # noqa: E731
        lam = jax.vmap(multipliers)(knots, q, v)
    reached = end.filled >= knots.shape[0]
    return Trajectory(knots, q, v, lam, reached & end.good, end.tried)
