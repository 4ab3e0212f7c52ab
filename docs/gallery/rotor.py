"""Rotor: a disc out of balance on an elastic shaft (Laval, Jeffcott), seen along the shaft. Above
its critical speed it turns about its centre of mass, and whirls as far as the theory says."""

import numpy as np

import holonax as hx

mass, stiffness, damping, offset = 5.0, 2e4, 40.0, 0.02


def shaft(disc, t, p):
    pull = -p["k"] * disc.r - p["c"] * disc.v
    return [(pull, 0.0)]


critical = np.sqrt(stiffness / mass)
rate = 1.3 * critical
model = hx.Model(gravity=(0.0, 0.0))
model.planar_body(
    "disc", mass, mass * 0.15**2 / 2, com=(offset, 0.0), shape=hx.disc(0.15, mass=1.0)
)
model.custom_force("shaft", "disc", shaft, parameters={"k": stiffness, "c": damping})
model.drive_coordinate("motor", "disc", "angle", value=lambda t: rate * t)
result = model.simulate(2.0, rtol=1e-7)

ratio, loss = rate / critical, damping / np.sqrt(stiffness * mass)
whirl = offset * ratio**2 / np.hypot(1 - ratio**2, loss * ratio)
late = result.t > 1.5
assert np.abs(np.hypot(*result["disc"].position[late].T) / whirl - 1).max() < 0.01
speed, traces = 0.05, {"centre": ("disc", (0.0, 0.0))}
