"""MJX, MuJoCo on JAX: many slider-cranks by `vmap`, the time loop inside the compiled program."""

from __future__ import annotations

from typing import Any

import jax
import mujoco
import numpy as np
from mujoco import mjx

from ..measure import Recorder, tool_main, version_of
from ..problems import MANY_MASSES, STEP, SliderCrank
from .mujoco import slider_crank

RUNS = 64  # at once; a step of each costs half as much with 256, which take too long


def many_slider_cranks(recorder: Recorder) -> None:
    """Slider-cranks whose rods differ by their mass, in double precision."""
    p, steps = SliderCrank, round(SliderCrank.t_end / STEP)
    model = slider_crank(STEP)
    data = mujoco.MjData(model)
    data.qpos[:] = [p.angle, p.rod_angle - p.angle, p.slider]
    on_jax, start = mjx.put_model(model), mjx.put_data(model, data)
    rod = model.body("rod").id

    def run_one(mass: Any) -> Any:
        changed = on_jax.replace(body_mass=on_jax.body_mass.at[rod].set(mass))
        return jax.lax.fori_loop(0, steps, lambda _, x: mjx.step(changed, x), start).qpos

    masses = MANY_MASSES[:: len(MANY_MASSES) // RUNS]
    program = jax.jit(jax.vmap(run_one)).lower(masses).compile()

    def drift(q: Any) -> str:
        data.qpos[:] = q[0]
        mujoco.mj_forward(model, data)
        off = float(np.max(np.abs(data.efc_pos)))
        return f"{RUNS} runs, vmap, soft constraint, slider of 1 g; drift {off:.1e} m"

    run = lambda: np.asarray(program(masses))  # noqa: E731
    error = lambda q: p.end_error(q[0, 0])  # noqa: E731
    recorder.per_step("RK4, MJX", steps * RUNS, run, error, note=drift)


WORKS = {"many slider-cranks": many_slider_cranks}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    tool_main("MJX", version_of("mujoco-mjx"), WORKS)
