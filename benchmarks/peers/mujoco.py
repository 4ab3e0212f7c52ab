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
from ..problems import Gyroscope, Rods, SliderCrank, chain


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


def ensembles(recorder: Recorder) -> None:
    """Rollouts of slider-cranks in one thread, by CPU time."""
    import time

    from mujoco import rollout

    step, steps, runs = 1e-3, 1000, 256
    model = slider_crank(step)
    data = mujoco.MjData(model)
    p = SliderCrank
    data.qpos[:] = [p.angle, p.rod_angle - p.angle, p.slider]
    size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    first = np.zeros(size)
    mujoco.mj_getState(model, data, first, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    spent = []
    for _ in range(recorder.repeats):
        begin = time.process_time()
        states, _ = rollout.rollout(model, data, np.tile(first, (runs, 1)), nstep=steps)
        spent.append(time.process_time() - begin)
    mujoco.mj_setState(model, data, states[-1, -1], mujoco.mjtState.mjSTATE_FULLPHYSICS)
    mujoco.mj_forward(model, data)
    drift = float(np.max(np.abs(data.efc_pos)))
    note = f"{runs} runs, rollout, RK4, soft constraint, slider of 1 g; drift {drift:.1e} m"
    recorder.row("slider-crank, RK4", "steps_per_s", runs * steps / min(spent), drift, note=note)


WORKS = {f"chain N={n} accuracy": lambda r, n=n: accuracy(r, n) for n in (10, 100, 1000)}
WORKS["first-answer/gyroscope"] = first_answer
WORKS["ensemble/slider-crank-RK4"] = ensembles


if __name__ == "__main__":
    tool_main("MuJoCo", version_of("mujoco"), WORKS)
