"""Screw press: a flywheel on a steep thread comes down by its weight, and turns as it does. It
falls as if it had the mass m + J (2 π / pitch)²."""

import numpy as np

import holonax as hx

mass, radius, pitch = 20.0, 0.3, 0.4
model = hx.Model()
model.body("flywheel", hx.cylinder(radius, 0.06, axis="z", mass=mass), position=(0.0, 0.0, 0.8))
model.screw("thread", "ground", "flywheel", at=(0.0, 0.0, 0.8), axis=(0.0, 0.0, 1.0), pitch=pitch)
result = model.simulate(2.0, rtol=1e-9)

inertia = mass * radius**2 / 2
fall = 9.81 * mass / (mass + inertia * (2 * np.pi / pitch) ** 2)
assert np.abs(result["flywheel"].position[:, 2] - (0.8 - fall * result.t**2 / 2)).max() < 1e-7
traces = {"rim": ("flywheel", (radius, 0.0, 0.0))}
