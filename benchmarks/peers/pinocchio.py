"""Pinocchio: the chain as a tree by the articulated body algorithm, RK4 in a Python loop.

Pinocchio has no integrator; the loop is the least a user would write. Its stages are added as
vectors of velocities, which is exact here because the chain moves in a plane.
"""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from ..measure import Recorder, tool_main, version_of
from ..problems import Rods, chain


def build(rods: Rods) -> pin.Model:
    """A tree of spherical joints."""
    model = pin.Model()
    model.gravity.linear = np.array([0.0, 0.0, -rods.gravity])
    moments = [rods.axial_inertia, rods.transverse_inertia, rods.transverse_inertia]
    inertia = pin.Inertia(rods.mass, np.array([0.5 * rods.length, 0.0, 0.0]), np.diag(moments))
    joint = 0
    for i in range(len(rods.centres)):
        place = pin.SE3(np.eye(3), np.array([rods.length if i else 0.0, 0.0, 0.0]))
        joint = model.addJoint(joint, pin.JointModelSpherical(), place, f"ball{i}")
        model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
    return model


def accuracy(recorder: Recorder, n: int) -> None:
    """RK4 with steps near the ones that reach 1e-6."""
    variant = "articulated body algorithm, RK4, Python loop"
    rods = chain(n)
    model = build(rods)
    # Its data hold an array of 6 nv^3 numbers, whether used or not.
    if 8 * 6 * model.nv**3 > 8e9:
        gigabytes = 8 * 6 * model.nv**3 / 1e9
        recorder.missing(variant, "s", f"its data for {n} bodies would take {gigabytes:.0f} GB")
        return
    data = model.createData()
    torque = np.zeros(model.nv)
    integrate = pin.integrate

    def acceleration(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return pin.aba(model, data, q, v, torque).copy()

    def run(h: float) -> np.ndarray:
        q, v = pin.neutral(model), np.zeros(model.nv)
        for _ in range(round(rods.t_end / h)):
            a1 = acceleration(q, v)
            v2 = v + 0.5 * h * a1
            a2 = acceleration(integrate(model, q, 0.5 * h * v), v2)
            v3 = v + 0.5 * h * a2
            a3 = acceleration(integrate(model, q, 0.5 * h * v2), v3)
            v4 = v + h * a3
            a4 = acceleration(integrate(model, q, h * v3), v4)
            q = integrate(model, q, h / 6 * (v + 2 * v2 + 2 * v3 + v4))
            v = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        return q

    def error(q: np.ndarray) -> float:
        pin.forwardKinematics(model, data, q)
        return rods.error(data.oMi[n].act(np.array([rods.length, 0.0, 0.0])))

    recorder.curve(variant, "dt", (2e-2, 1e-2, 5e-3, 2.5e-3), run, error)


WORKS = {f"chain N={n} accuracy": lambda r, n=n: accuracy(r, n) for n in (10, 100, 1000)}


if __name__ == "__main__":
    tool_main("Pinocchio", version_of("pin"), WORKS)
