"""What a gradient costs in runs, and what it takes to compile: `make bench WORKS=gradients`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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


def _best(call: Callable[[], Any], repeats: int) -> float:
    """The least CPU time [s]; jobs of JAX are waited for."""
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        jax.block_until_ready(call())
        found.append(time.process_time() - begin)
    return min(found)


def objective(motion: Any) -> Any:
    """What is differentiated."""
    return motion.q[-1, 0] + motion.v[-1, 1] ** 2


def gradients(
    recorder: Recorder,
    build: Callable[[], tuple[Any, Any]],
    parameter: str,
    options: dict[str, Any],
    label: str,
    traced: bool = True,
) -> None:
    """`value_and_gradient` against the run it differentiates; with `traced` also what JAX makes of
    `trajectory` in reverse mode and, for one parameter, in forward mode."""
    system, start = build()
    given = np.asarray(start.q), np.asarray(start.v)
    options = {"dt": DT, **options}
    room = {"max_steps": 1 << STEPS.bit_length()}  # one program for both lengths

    def spent(call: Callable[[float], Any]) -> tuple[float, float]:
        """CPU time [s] of a call, and of its steps alone: without that of a call of few steps."""
        whole = _best(lambda: call(STEPS * DT), recorder.repeats)
        return whole, whole - _best(lambda: call(FEW * DT), recorder.repeats)

    run = lambda end: hx.simulate(system, start, end, save="end", **options)  # noqa: E731
    run(STEPS * DT), run(FEW * DT)
    base = spent(run)
    recorder.row(label, "run_s", base[0], note=f"simulate, {STEPS} equal steps")
    recorder.row(label, "steps_s", base[1], note=f"without the call itself, {FEW} steps of it")

    def ratio(variant: str, call: Callable[[float], Any]) -> None:
        name = f"{label}, {variant}"
        try:
            first = _best(lambda: call(STEPS * DT), 1)
            found = spent(call)
        except Exception as problem:
            recorder.missing(name, "runs", problem)
            return
        recorder.row(name, "compile_s", max(first - found[0], 0.0))
        recorder.row(name, "runs", found[1] / base[1], note="steps against steps, without calls")
        recorder.row(name, "runs_with_calls", found[0] / base[0], note="whole calls")

    def host(end: float) -> Any:
        return hx.value_and_gradient(
            objective, system, given, [0.0, end], with_respect_to=[parameter], **options, **room
        )

    ratio("value_and_gradient", host)
    if not traced:
        return

    def value(x: Any, end: Any, adjoint: Any) -> Any:
        changed = system.with_parameters({parameter: x})
        times = jnp.stack([jnp.zeros(()), end])
        return objective(hx.trajectory(changed, given, times, adjoint=adjoint, **options, **room))

    x = jnp.asarray(system.parameters()[parameter], float)
    plain = jax.jit(lambda x, end: value(x, end, "reverse"))
    back = jax.jit(jax.value_and_grad(lambda x, end: value(x, end, "reverse")))
    along = lambda x, end: jax.jvp(lambda x: value(x, end, "forward"), (x,), (jnp.ones_like(x),))  # noqa: E731
    ahead = jax.jit(along)
    ratio("trajectory itself", lambda end: plain(x, end))
    ratio("grad(trajectory)", lambda end: back(x, end))
    ratio("jvp(trajectory)", lambda end: ahead(x, end))
