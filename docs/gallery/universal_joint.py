"""Universal joint: two shafts at an angle. A constant speed of one is not constant at the other:
tan(driven) = tan(driving) cos(bend), for this place of the cross."""

import numpy as np

import holonax as hx

bend, rate = 0.7, np.pi
along = np.array([np.cos(bend), 0.0, np.sin(bend)])
model = hx.Model()
model.body("input", hx.cylinder(0.05, 0.5, axis="x", mass=2.0), position=(-0.25, 0.0, 0.0))
model.body(
    "output",
    hx.cylinder(0.05, 0.5, axis="x", mass=2.0),
    position=0.25 * along,
    rotation=(0.0, -bend, 0.0),
)
model.revolute("A", "ground", "input", at=(-0.5, 0.0, 0.0), axis=(1.0, 0.0, 0.0))
model.cylindrical("B", "ground", "output", at=0.5 * along, axis=along)
across = (0.0, 1.0, 0.0)
model.universal("cross", "input", "output", at=(0, 0, 0), axes=(across, np.cross(along, across)))
model.drive_angle("motor", joint="A", angle=lambda t: rate * t)
result = model.simulate(2.0, dt=0.01)

driving, driven = rate * result.t, result.joint("B").angle
error = np.sin(driving) * np.cos(driven) * np.cos(bend) - np.cos(driving) * np.sin(driven)
assert np.abs(error).max() < 1e-9
