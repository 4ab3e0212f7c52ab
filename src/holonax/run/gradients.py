"""Gradients of what a run computes, on the host, compiled as runs are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from .._arguments import check_options, checked_call
from .._arguments import names as names_given
from .._messages import listed, shown
from .._numbers import array, finite_number
from .._parts import Parts
from ..compiler import native
from ..linalg.pulled_back import depends, followed_back, pulled_back
from ..start.consistent import Start
from ..system.base import System, check_system
from .reversible import Reversible
from .traced_request import checked_start, increasing_times, usual_tolerance, with_breaks
from .trajectory import PASSES, TracedRun, Trajectory, corrected, run_of, trajectory

# A start that a correction moves by less than this part of itself holds the constraints.
FITS = 1e-9

Objective = Callable[[Trajectory], Any]


@checked_call
def value_and_gradient(
    objective: Objective,
    system: System,
    start: Start | tuple[Any, Any],
    times: Any,
    *,
    with_respect_to: Sequence[str] | str,
    at: Mapping[str, Any] | None = None,
    **method: Any,
) -> tuple[float, dict[str, np.ndarray]]:
    """A number that depends on a motion, and its derivatives with respect to named parameters.

    The motion is that of `trajectory`; the time loop and its adjoint are compiled once and serve
    for all values of the parameters, of the start, of the times and of the step.

    **Arguments:**

    - `objective`: a function of the `Trajectory` that returns one number, written in `jax.numpy`.
    - `start`, `times` and `method`: as those of `trajectory`.
    - `with_respect_to`: names among `system.parameters()`; ``"q"`` and ``"v"`` are the start.
    - `at`: values of parameters other than the system's own.

    Returns the value and a dictionary of derivatives, each of the shape of its parameter.

    ```python
    value, gradient = hx.value_and_gradient(
        lambda motion: motion.q[-1, 0], system, start, [0.0, 1.0], dt=1e-3, with_respect_to=["m"]
    )
    gradient["m"]
    ```
    """
    owner = "value_and_gradient"
    check_system(owner, system)
    names = names_given(owner, "with_respect_to", with_respect_to)
    check_options(value_and_gradient, method, trajectory)
    if at is not None and not isinstance(at, Mapping):
        raise TypeError(f"{owner}: at={shown(at)} must be a dictionary of values by name.")
    if at:
        system = system.with_parameters(at)
    start = checked_start(owner, system, start)
    values = known_values(owner, "with_respect_to", system, start, names)
    if not callable(objective):
        raise TypeError(
            f"value_and_gradient: objective={shown(objective)} must be a function of a Trajectory."
        )
    if any(isinstance(x, Tracer) for x in jax.tree.leaves((values, system))):
        raise TypeError(
            "value_and_gradient runs on the host and takes no traced values. Inside of jit, grad "
            "or vmap use jax.value_and_grad of a function of hx.trajectory."
        )
    redundant = isinstance(start, Start) and start.redundant
    if redundant:
        system = system.with_redundant_constraints()
    state = (start.q, start.v) if isinstance(start, Start) else tuple(start)
    numbers = {k: method.pop(k) for k in ("dt", "rtol", "atol") if method.get(k) is not None}
    times = increasing_times(array(owner, "times", times, (None,)))
    for name, x in numbers.items():
        finite_number(owner, name, x, positive=True)
    knots, passed = with_breaks(system, times, method.pop("breaks", ()))
    if method.get("max_steps") is None and "rtol" not in numbers and "dt" in numbers:
        method["max_steps"] = room_for(knots, float(numbers["dt"]))
    if "rtol" in numbers and "atol" not in numbers:
        numbers["atol"] = usual_tolerance(system, start, knots, numbers["rtol"])
    parts = Parts.of((system, method))
    program = _program(objective, names, parts.rest)
    leaves = [np.asarray(x) for x in parts.arrays]
    arrays = {**{k: np.asarray(x, dtype=float) for k, x in numbers.items()}, **passed}
    value, gradient = program(values, leaves, state, knots, arrays)
    return float(value), {name: np.asarray(x) for name, x in gradient.items()}


def known_values(
    owner: str, argument: str, system: System, start: Any, names: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """The named parameters as they are; ``"q"`` and ``"v"`` are the start, where there is one. An
    `argument` of `owner` has named them."""
    known: dict[str, Any] = dict(system.parameters())
    if start is not None:
        q, v = (start.q, start.v) if isinstance(start, Start) else start
        known.update(q=q, v=v)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise KeyError(
            f"{owner}: {argument}={shown(list(names))} names "
            f"{listed(map(shown, unknown)) or 'nothing'}; there are {listed(known)}."
        )
    return {name: np.asarray(known[name], dtype=float) for name in names}


def room_for(times: np.ndarray, dt: float) -> int:
    """Room for all steps: a power of two, so that other times seldom need another program."""
    steps = np.sum(np.maximum(np.ceil(np.diff(times) / dt * (1 - 1e-9)), 1.0))
    return 1 << max(int(steps) - 1, 1).bit_length()


@lru_cache(maxsize=64)
def _program(objective: Objective, names: tuple[str, ...], rest: Hashable) -> Any:
    """The compiled function of the named values, the other numbers, the start and the times.

    It is four programs: the first state of the method; the steps, there and back to the cotangent
    of that state, which alone are worth being compiled well; what it pulls back to the values and
    to the start on the constraints; and what that pulls back through a correction that led there.
    """

    def prepared(values: Any, leaves: Any, knots: Any, numbers: Any) -> TracedRun:
        system, method = Parts.joined(leaves, rest)
        moved = {name: x for name, x in values.items() if name not in ("q", "v")}
        return run_of(system.with_parameters(moved) if moved else system, knots, numbers, **method)

    def first(values: Any, start: Any, leaves: Any, _: Any, *given: Any, known: Any = None) -> Any:
        (q, v), (knots, numbers) = start, given
        run = prepared(values, leaves, knots, numbers)
        begun = run.first(q, v, knots, numbers, known, fitted=True)
        return eqx.partition(begun, eqx.is_inexact_array)

    def correction(values: Any, start: Any, leaves: Any, _: Any, *given: Any) -> Any:
        system = prepared(values, leaves, *given).setup.system
        return corrected(system, jnp.asarray(given[0])[0], *start)

    def begun(values: Any, *given: Any) -> Any:
        state = given[1]
        start = jnp.asarray(values.get("q", state[0])), jnp.asarray(values.get("v", state[1]))
        once = lambda start, _: (correction(values, start, *given), start)  # noqa: E731
        start, fits = lax.scan(once, start, None, length=PASSES)
        return first(values, start, *given), start, fits

    def value_of_steps(values: Any, begun: Any, leaves: Any, _: Any, *given: Any) -> Any:
        knots, numbers = given
        real, others = begun
        first = eqx.combine(real, others)
        run = prepared(values, leaves, knots, numbers)
        wanted = _uses_multipliers(objective, run, first, knots)

        def loop(values: Any, real: Any) -> Any:
            run = prepared(values, leaves, knots, numbers)
            return Reversible.of(*run.loop(eqx.combine(real, others), knots, numbers), run.room)

        def value(values: Any, end: Any, others: Any) -> Any:
            run = prepared(values, leaves, knots, numbers)
            return objective(run.reached(eqx.combine(end, others), knots, numbers, wanted))

        return _there_and_back(loop, value, values, real)

    def derivative_of_start(
        values: Any, start: Any, known: Any, cotangent: Any, *given: Any
    ) -> Any:
        found = lambda values, start: first(values, start, *given, known=known)[0]  # noqa: E731
        return pulled_back(found, values, start)[1](cotangent)

    def derivative_of_correction(values: Any, start: Any, cotangent: Any, *given: Any) -> Any:
        found = lambda values, start: correction(values, start, *given)  # noqa: E731
        return pulled_back(found, values, start)[1](cotangent)

    begin, steps = native(begun, once=True), native(value_of_steps)
    of_start = native(derivative_of_start, once=True)
    of_correction = native(derivative_of_correction, once=True)

    def both(values: Any, *given: Any) -> Any:
        found, start, fits = begin(values, *given)
        value, (total, cotangent) = steps(values, found, *given)
        more, back = of_start(values, start, found[0].y, cotangent, *given)
        total = {name: total[name] + more[name] for name in values}
        for each in _corrections(fits):
            more, back = of_correction(values, each, back, *given)
            total = {name: total[name] + more[name] for name in values}
        for name, x in zip(("q", "v"), back, strict=True):
            if name in total:
                total[name] = total[name] + x
        return value, total

    return both


def _corrections(states: tuple[np.ndarray, np.ndarray]) -> list[Any]:
    """The states that were corrected, the last one first; without those that were not moved, whose
    correction the next one's stands for. Two there are always: a velocity is corrected for how its
    position moves only by the next one."""
    moved = [
        np.max(np.abs(np.diff(x, axis=0)), axis=1, initial=0.0)
        > FITS * np.max(np.abs(x), initial=0.0)
        for x in states
    ]
    wanted = [*np.flatnonzero((moved[0] | moved[1])[: PASSES - 2]), PASSES - 2, PASSES - 1]
    return [(states[0][k], states[1][k]) for k in reversed(wanted)]


def _there_and_back(loop: Any, value: Any, values: Any, first: Any) -> Any:
    """value(values, real numbers, other arrays), of those at the end of loop(values, first), and
    its derivatives by `values` and `first`.

    JAX would find the same, but shares nothing that was traced on the way there with the way back.
    """
    found: list[Reversible] = []

    def numbers(values: Any, first: Any) -> Any:
        reversible, *parts = loop(values, first)
        found.append(reversible)
        return parts

    closed, shape = jax.make_jaxpr(numbers, return_shape=True)(values, first)
    leaves, tree = jax.tree.flatten((values, first))
    outs, pull_first = followed_back(closed, leaves)
    real, arrays = jax.tree.structure(shape).unflatten(outs)
    moving = depends(closed.jaxpr, [True] * len(leaves))[: len(jax.tree.leaves(real))]
    end, kept = found[0].there(real, arrays)
    ends, others = eqx.partition(end, eqx.is_inexact_array)
    result, pull_end = pulled_back(lambda values, ends: value(values, ends, others), values, ends)
    by_values, of_ends = pull_end(jnp.ones_like(result))
    back = jax.tree.leaves(found[0].back(real, arrays, kept, moving, of_ends))
    by_loop = pull_first([*back, *[None] * (len(outs) - len(back))])
    by_loop = [jnp.zeros_like(x) if y is None else y for x, y in zip(leaves, by_loop, strict=True)]
    more, by_first = tree.unflatten(by_loop)
    return result, (jax.tree.map(jnp.add, by_values, more), by_first)


def _uses_multipliers(objective: Objective, run: TracedRun, first: Any, knots: Any) -> bool:
    """Whether an objective looks at the multipliers: else they need not be found."""
    count, rows = len(knots), run.constraint_rows(first, knots)
    shapes = [(count,), *((count, *x.shape) for x in first.y[:2]), (count, rows)]
    given: Any = [jax.ShapeDtypeStruct(shape, float) for shape in shapes]
    given += [jax.ShapeDtypeStruct((), kind) for kind in (bool, int)]
    jaxpr = jax.make_jaxpr(objective)(Trajectory(*given)).jaxpr
    lam = jaxpr.invars[3]
    used = [v for eqn in jaxpr.eqns for v in eqn.invars] + list(jaxpr.outvars)
    return any(v is lam for v in used)
