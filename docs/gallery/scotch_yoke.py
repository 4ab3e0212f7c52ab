"""Scotch yoke: a pin on a wheel in the slot of a yoke, which moves as a pure sine; the wheel runs
free, and turns fast where the yoke stands still."""

import numpy as np

import holonax as hx

radius, rate = 0.2, 8.0
model = hx.Model(gravity=(0.0, 0.0))
wheel = hx.disc(0.25, mass=2.0)
model.planar_body("wheel", wheel, angular_velocity=rate)
model.planar_body("yoke", hx.box((0.08, 0.6, 0.1), mass=1.0), position=(radius, 0.0))
model.revolute("axle", "ground", "wheel", at=(0.0, 0.0))
model.prismatic("guide", "ground", "yoke", at=(radius, 0.0), axis=(1.0, 0.0))
model.pin_in_slot("slot", "yoke", "wheel", at=(radius, 0.0), direction=(0.0, 1.0))
result = model.simulate(2.0, rtol=1e-9, hold_velocity=["wheel.angle"])

angle, spin = result["wheel"].angle, result["wheel"].angular_velocity
inertia = 2.0 * 0.25**2 / 2 + (radius * np.sin(angle)) ** 2  # of the wheel, and of the yoke's 1 kg
assert np.abs(result["yoke"].position[:, 0] - radius * np.cos(angle)).max() < 1e-10
assert np.abs(inertia * spin**2 / (inertia[0] * rate**2) - 1).max() < 1e-6
speed = 0.5
