"""Coupled pendulums: a weak spring between two of them passes the swing on from one to the other
and back, at half the difference of the two frequencies."""

import numpy as np

import holonax as hx

stiffness, small = 2.0, 0.1
model = hx.Model()
for name, x, out in (("left", 0.0, small), ("right", 0.6, 0.0)):
    along = np.array([np.sin(out), -np.cos(out)])
    centre = (x + along[0] / 2, along[1] / 2)
    model.planar_body(name, hx.rod(1.0, mass=1.0), position=centre, angle=out - np.pi / 2)
    model.revolute(f"{name} pivot", "ground", name, at=(x, 0.0))
model.spring_damper(
    "spring", "left", "right", at_a=(0.0, 0.0), at_b=(0.0, 0.0), stiffness=stiffness, length=0.6
)
alike = np.sqrt(1.5 * 9.81)  # both swing together, or against each other
against = np.sqrt(1.5 * 9.81 + 1.5 * stiffness)
passed = np.pi / (against - alike)  # when all of the swing has gone over
result = model.simulate(passed, rtol=1e-8)

last = result.t > passed - np.pi / alike
left = np.abs(result.joint("left pivot").angle + small)[last]
right = np.abs(result.joint("right pivot").angle)[last]
assert left.max() < 0.2 * small and abs(right.max() / small - 1) < 0.03
