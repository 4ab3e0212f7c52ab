"""What a gradient costs in runs, and what it takes to compile: `make bench WORKS=gradients`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import holonax as hx

from .first_answer import readme_blocks
from .measure import Recorder

STEPS = 1000
FEW = 10  # steps of a run whose time is that of the call
DT = 1e-3  # [s]


def four_bar() -> tuple[Any, Any]:
    """The README's, without its run."""
    text = readme_blocks("A mechanism in ten lines")[0].partition("result =")[0]
    names: dict[str, Any] = {}
    exec(compile(text, "README.md", "exec"), names)
    return names["model"].build(hold=["crank"], hold_velocity=["crank.angle"])


def _spent(call: Callable[[], Any]) -> float:
    """CPU time [s]; jobs of JAX are waited for."""
    begin = time.process_time()
    jax.block_until_ready(call())
    return time.process_time() - begin


class Spent(NamedTuple):
    """The least CPU time [s] of whole calls, and of their steps alone: without that of a call of
    few steps."""

    whole: float
    steps: float

    @staticmethod
    def of(calls: Sequence[Callable[[float], Any]], repeats: int) -> list[Spent]:
        """Of some calls in turn, so that what else the machine does is the same for all."""
        ends = STEPS * DT, FEW * DT
        found = [
            [[_spent(lambda: call(end)) for end in ends] for call in calls]  # noqa: B023
            for _ in range(repeats)
        ]
        least = np.min(found, axis=0)
        return [Spent(whole, whole - few) for whole, few in least.tolist()]


def objective(motion: Any) -> Any:
    """What is differentiated."""
    return motion.q[-1, 0] + motion.v[-1, 1] ** 2


def gradients(
    recorder: Recorder,
    build: Callable[[], tuple[Any, Any]],
    parameter: str,
    options: dict[str, Any],
    label: str,
) -> None:
    """`value_and_gradient` against the run it differentiates, and what JAX makes of `trajectory` in
    reverse mode and, for one parameter, in forward mode.

    `runs` are those of `simulate`, which is compiled by our own compiler; what JAX differentiates
    is compiled by XLA, and `runs_of_trajectory` are those of `jax.jit(trajectory)`.
    """
    system, start = build()
    given = np.asarray(start.q), np.asarray(start.v)
    options = {"dt": DT, **options}
    room = {"max_steps": 1 << STEPS.bit_length()}  # one program for both lengths

    run = lambda end: hx.simulate(system, start, end, save="end", **options)  # noqa: E731
    run(STEPS * DT), run(FEW * DT)
    base = Spent.of([run], recorder.repeats)[0]
    recorder.row(f"run, {label}", "run_s", base.whole, note=f"simulate, {STEPS} equal steps")
    recorder.row(f"run, {label}", "steps_s", base.steps, note=f"without a call of {FEW} steps")

    def ratios(
        variant: str, call: Callable[[float], Any], like: Callable[[float], Any] | None = None
    ) -> None:
        name = f"{variant}, {label}"
        calls = [call, run] if like is None else [call, run, like]
        try:
            first = _spent(lambda: call(STEPS * DT))
            found, base, *alike = Spent.of(calls, recorder.repeats)
        except Exception as problem:
            recorder.missing(name, "runs", problem)
            return
        recorder.row(name, "compile_s", max(first - found.whole, 0.0))
        recorder.row(name, "runs", found.steps / base.steps, note="steps against steps")
        recorder.row(name, "runs_with_calls", found.whole / base.whole, note="whole calls")
        for own in alike:
            runs = found.steps / own.steps
            recorder.row(name, "runs_of_trajectory", runs, note="steps against steps, under XLA")

    def host(end: float) -> Any:
        return hx.value_and_gradient(
            objective, system, given, [0.0, end], with_respect_to=[parameter], **options, **room
        )

    ratios("value_and_gradient", host)

    def value(x: Any, end: Any, adjoint: Any) -> Any:
        changed = system.with_parameters({parameter: x})
        times = jnp.stack([jnp.zeros(()), end])
        return objective(hx.trajectory(changed, given, times, adjoint=adjoint, **options, **room))

    x = jnp.asarray(system.parameters()[parameter], float)
    jitted = jax.jit(lambda x, end: value(x, end, "reverse"))
    back = jax.jit(jax.value_and_grad(lambda x, end: value(x, end, "reverse")))
    along = lambda x, end: jax.jvp(lambda x: value(x, end, "forward"), (x,), (jnp.ones_like(x),))  # noqa: E731
    ahead = jax.jit(along)
    plain = lambda end: jitted(x, end)  # noqa: E731
    ratios("trajectory", plain)
    ratios("jvp(trajectory)", lambda end: ahead(x, end), plain)
    ratios("grad(trajectory)", lambda end: back(x, end), plain)
