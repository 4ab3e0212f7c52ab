"""Drake: the chain as a continuous tree; it closes loops in discrete mode only."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydrake.math import RigidTransform
from pydrake.multibody.plant import MultibodyPlant
from pydrake.multibody.tree import (
    BallRpyJoint,
    FixedOffsetFrame,
    RotationalInertia,
    SpatialInertia,
)
from pydrake.systems.analysis import ResetIntegratorFromFlags, Simulator

from ..measure import Recorder, tool_main, version_of
from ..problems import Rods, chain


def build(rods: Rods) -> tuple[Any, Any]:
    """The plant and its last body.

    The rods lie along y, where the angles of the joint are not singular as the chain falls.
    """
    plant = MultibodyPlant(time_step=0.0)
    plant.mutable_gravity_field().set_gravity_vector([0.0, 0.0, -rods.gravity])
    inertia = SpatialInertia.MakeFromCentralInertia(
        mass=rods.mass,
        p_PScm_E=[0.0, 0.5 * rods.length, 0.0],
        I_SScm_E=RotationalInertia(
            rods.transverse_inertia, rods.axial_inertia, rods.transverse_inertia
        ),
    )
    parent = plant.world_frame()
    for i in range(len(rods.centres)):
        body = plant.AddRigidBody(f"rod{i}", inertia)
        frame = parent
        if i:
            offset = RigidTransform([0.0, rods.length, 0.0])
            frame = plant.AddFrame(FixedOffsetFrame(f"end{i}", parent, offset))
        plant.AddJoint(BallRpyJoint(f"ball{i}", frame, body.body_frame()))
        parent = body.body_frame()
    plant.Finalize()
    return plant, body


def accuracy(recorder: Recorder, n: int) -> None:
    """Runge-Kutta methods of order 3 and 5 with error control, and of order 3 without."""
    rods = chain(n)
    plant, last = build(rods)

    def simulator(scheme: str, accuracy: float | None, step: float) -> Any:
        out = Simulator(plant)
        integrator = ResetIntegratorFromFlags(out, scheme, step)
        integrator.set_fixed_step_mode(accuracy is None)
        if accuracy is not None:
            integrator.set_target_accuracy(accuracy)
            integrator.set_maximum_step_size(0.1)
        out.Initialize()
        return out

    def error(done: Any) -> float:
        x, y, z = plant.EvalBodyPoseInWorld(done.get_context(), last) @ np.array(
            [0.0, rods.length, 0.0]
        )
        return rods.error(np.array([y, x, z]))

    def run(setting: float, simulator: Any) -> Any:
        simulator.AdvanceTo(rods.t_end)
        return simulator

    for scheme, order in (("runge_kutta3", 3), ("runge_kutta5", 5)):
        recorder.curve(
            f"tree, Runge-Kutta {order}, steps by error",
            "accuracy",
            (1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
            run,
            error,
            prepare=lambda target, scheme=scheme: simulator(scheme, target, 1e-3),
        )
    recorder.curve(
        "tree, Runge-Kutta 3, equal steps",
        "dt",
        (2e-2, 1e-2, 5e-3, 2.5e-3, 1e-3),
        run,
        error,
        prepare=lambda step: simulator("runge_kutta3", None, step),
    )


WORKS = {f"chain N={n} accuracy": lambda r, n=n: accuracy(r, n) for n in (10, 100, 1000)}


if __name__ == "__main__":
    tool_main("Drake", version_of("drake"), WORKS)
