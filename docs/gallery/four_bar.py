"""Four-bar linkage: the crank turns at a constant rate, the rocker goes to and fro between the two
positions in which crank and coupler are in line."""

import numpy as np

import holonax as hx

model = hx.Model()
model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.1, 0.0))
model.planar_body("coupler", hx.rod(0.5, mass=2.0), position=(0.4, 0.2), angle=0.9)
model.planar_body("rocker", hx.rod(0.4, mass=1.5), position=(0.55, 0.2), angle=1.8)
model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-0.1, 0.0))
model.revolute("B", "crank", "coupler", at_a=(0.1, 0.0), at_b=(-0.25, 0.0))
model.revolute("C", "coupler", "rocker", at_a=(0.25, 0.0), at_b=(0.2, 0.0))
model.revolute("D", "ground", "rocker", at_a=(0.6, 0.0), at_b=(-0.2, 0.0))
model.drive_angle("motor", joint="A", angle=lambda t: np.pi * t)
result = model.simulate(2.0, dt=0.01, hold=["crank"])


def rocker(reach):
    """Its angle where crank and coupler together reach this far, by the law of cosines."""
    return np.pi - np.arccos((0.6**2 + 0.4**2 - reach**2) / (2 * 0.6 * 0.4))


angle = result["rocker"].angle
assert abs(angle.min() - rocker(0.5 + 0.2)) < 1e-3 and abs(angle.max() - rocker(0.5 - 0.2)) < 1e-3
traces = {"coupler": ("coupler", (0.0, 0.15))}
