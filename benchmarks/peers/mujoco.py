"""MuJoCo: the chain as a tree of ball joints, and as free bodies held by stiff constraints; the
first answer for a gyroscope.

A tree costs the cube of N. Its default constraints are too soft to converge; with a time constant
of two steps and RK4 they do.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from .. import fresh
from ..measure import Recorder, tool_main, version_of
from ..problems import MANY_MASSES, PEER_RUNS, STEP, Gyroscope, Rods, SliderCrank, chain


def options(spec: Any, rods: Rods, step: float) -> None:
    """RK4, exact constraint solver, no contacts."""
    spec.option.timestep = step
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.tolerance = 1e-14
    spec.option.iterations = 200
    spec.option.gravity = [0.0, 0.0, -rods.gravity]
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT


def add_rod(parent: Any, rods: Rods, name: str, position: Any, centre: Any) -> Any:
    """A body with a rod's mass and inertia."""
    body = parent.add_body(name=name, pos=list(position))
    body.explicitinertial = True
    body.mass = rods.mass
    body.ipos = list(centre)
    body.inertia = [rods.axial_inertia, rods.transverse_inertia, rods.transverse_inertia]
    return body


def tree(rods: Rods, step: float) -> Any:
    """Ball joints: no constraints."""
    spec = mujoco.MjSpec()
    options(spec, rods, step)
    body = spec.worldbody
    for i in range(len(rods.centres)):
        start = (rods.length if i else 0.0, 0.0, 0.0)
        body = add_rod(body, rods, f"rod{i}", start, (0.5 * rods.length, 0.0, 0.0))
        body.add_joint(type=mujoco.mjtJoint.mjJNT_BALL)
    return spec.compile()


def free_bodies(rods: Rods, step: float) -> Any:
    """Free bodies and one `connect` for each joint, as stiff as the step allows."""
    spec = mujoco.MjSpec()
    options(spec, rods, step)
    half = 0.5 * rods.length
    for i, centre in enumerate(rods.centres):
        add_rod(spec.worldbody, rods, f"rod{i}", centre, (0.0, 0.0, 0.0)).add_freejoint()
        spec.add_equality(
            type=mujoco.mjtEq.mjEQ_CONNECT,
            objtype=mujoco.mjtObj.mjOBJ_BODY,
            name1=f"rod{i}",
            name2=f"rod{i - 1}" if i else "world",
            data=[-half, 0.0, 0.0, *[0.0] * 9],
            solref=[2 * step, 1.0],
            solimp=[0.9999, 0.9999, 0.001, 0.5, 2.0],
        )
    return spec.compile()


def accuracy(recorder: Recorder, n: int) -> None:
    """Both models with RK4."""
    rods = chain(n)

    def run(step: float, model: Any) -> tuple[Any, Any]:
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data, nstep=round(rods.t_end / step))
        return model, data

    def error(done: tuple[Any, Any]) -> float:
        model, data = done
        mujoco.mj_forward(model, data)
        along = data.xmat[-1].reshape(3, 3)[:, 0]
        return rods.error(data.xipos[-1] + 0.5 * rods.length * along)

    curves = (
        ("tree of ball joints, RK4", tree, (2e-2, 1e-2, 5e-3)),
        ("free bodies, stiff constraints, RK4", free_bodies, (2e-3, 1e-3, 5e-4)),
    )
    for variant, build, steps in curves:
        if n > 100 and build is tree:
            recorder.missing(variant, "s", "8.5 s for each step of this size when last tried")
            continue
        prepare = lambda step, build=build: build(rods, step)  # noqa: E731
        recorder.curve(variant, "dt", steps, run, error, prepare=prepare)


def first_answer(recorder: Recorder) -> None:
    """The gyroscope as a tree of hinges."""
    setting = "tree of hinges, RK4, dt=0.001"
    fresh.answer(recorder, "gyroscope", "gyroscope_mujoco", Gyroscope.error, setting)


def slider_crank(step: float) -> Any:
    """That of `problems.SliderCrank` with a slider of one gram, held by one soft `connect`."""
    p = SliderCrank
    spec = mujoco.MjSpec()
    spec.option.timestep = step
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.tolerance = 1e-14
    spec.option.gravity = [0.0, -p.gravity, 0.0]
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT

    def body(parent: Any, name: str, place: list[float], mass: float, inertia: float) -> Any:
        made = parent.add_body(name=name, pos=place)
        made.explicitinertial = True
        made.mass, made.inertia = mass, [inertia] * 3
        return made

    hinge, slide = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE
    crank = body(spec.worldbody, "crank", [0.0, 0.0, 0.0], 1.0, p.crank_inertia)
    crank.add_joint(type=hinge, axis=[0.0, 0.0, 1.0])
    rod = body(crank, "rod", [p.crank, 0.0, 0.0], p.mass, p.rod_inertia)
    rod.ipos = [p.offset, 0.0, 0.0]
    rod.add_joint(type=hinge, axis=[0.0, 0.0, 1.0])
    slider = body(spec.worldbody, "slider", [0.0, 0.0, 0.0], 1e-3, 1e-6)
    slider.add_joint(type=slide, axis=[1.0, 0.0, 0.0])
    spec.add_equality(
        type=mujoco.mjtEq.mjEQ_CONNECT,
        objtype=mujoco.mjtObj.mjOBJ_BODY,
        name1="rod",
        name2="slider",
        data=[p.rod, 0.0, 0.0, *[0.0] * 9],
        solref=[2 * step, 1.0],
        solimp=[0.9999, 0.9999, 0.001, 0.5, 2.0],
    )
    return spec.compile()


def many_slider_cranks(recorder: Recorder) -> None:
    """Rollouts of slider-cranks whose rods differ by their mass."""
    from mujoco import rollout

    p, steps = SliderCrank, round(SliderCrank.t_end / STEP)
    models = []
    for mass in MANY_MASSES[:: len(MANY_MASSES) // PEER_RUNS]:
        model = slider_crank(STEP)
        model.body("rod").mass[:] = mass
        models.append(model)
    data = mujoco.MjData(models[0])
    data.qpos[:] = [p.angle, p.rod_angle - p.angle, p.slider]
    state = mujoco.mjtState.mjSTATE_FULLPHYSICS
    first = np.zeros(mujoco.mj_stateSize(models[0], state))
    mujoco.mj_getState(models[0], data, first, state)
    starts = np.tile(first, (len(models), 1))

    def run() -> Any:
        return rollout.rollout(models, data, starts, nstep=steps)[0]

    def drift(states: Any) -> str:
        mujoco.mj_setState(models[0], data, states[0, -1], state)
        mujoco.mj_forward(models[0], data)
        off = float(np.max(np.abs(data.efc_pos)))
        return f"{len(models)} runs, rollout, soft constraint, slider of 1 g; drift {off:.1e} m"

    def error(states: Any) -> float:
        mujoco.mj_setState(models[0], data, states[0, -1], state)
        return p.end_error(data.qpos[0])

    recorder.per_step("RK4, rollout", steps * len(models), run, error, note=drift)


WORKS = {f"chain N={n} accuracy": lambda r, n=n: accuracy(r, n) for n in (10, 100, 1000)}
WORKS["first-answer/gyroscope"] = first_answer
WORKS["many slider-cranks"] = many_slider_cranks


if __name__ == "__main__":
    tool_main("MuJoCo", version_of("mujoco"), WORKS)
