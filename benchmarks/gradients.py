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
DT = 1e-3


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


def _first(call: Callable[[], Any]) -> float:
    return _best(call, 1)


def end(motion: Any) -> Any:
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
    given, times = (np.asarray(start.q), np.asarray(start.v)), np.array([0.0, STEPS * DT])
    options = {"dt": DT, **options}
    run = lambda: hx.simulate(system, start, STEPS * DT, save="end", **options)  # noqa: E731
    run()
    base = _best(run, recorder.repeats)
    recorder.row(label, "run_s", base, note=f"simulate, {STEPS} equal steps")

    def ratio(variant: str, call: Callable[[], Any]) -> None:
        name = f"{label}, {variant}"
        try:
            first = _first(call)
            best = _best(call, recorder.repeats)
        except Exception as problem:
            recorder.missing(name, "runs", problem)
            return
        recorder.row(name, "compile_s", max(first - best, 0.0))
        recorder.row(name, "runs", best / base, note="cost of value and derivative in runs")

    ratio(
        "value_and_gradient",
        lambda: hx.value_and_gradient(
            end, system, given, times, with_respect_to=[parameter], **options
        ),
    )
    if not traced:
        return

    def value(x: Any, adjoint: Any) -> Any:
        changed = system.with_parameters({parameter: x})
        return end(hx.trajectory(changed, given, times, adjoint=adjoint, **options))

    x = jnp.asarray(system.parameters()[parameter], float)
    plain = jax.jit(lambda x: value(x, "reverse"))
    back = jax.jit(jax.value_and_grad(lambda x: value(x, "reverse")))
    ahead = jax.jit(lambda x: jax.jvp(lambda x: value(x, "forward"), (x,), (jnp.ones_like(x),)))
    ratio("trajectory itself", lambda: plain(x))
    ratio("grad(trajectory)", lambda: back(x))
    ratio("jvp(trajectory)", lambda: ahead(x))
