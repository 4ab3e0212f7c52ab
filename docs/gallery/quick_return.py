"""Quick return: the drive of a shaping machine. A pin on a wheel swings a slotted lever, slowly one
way and quickly back, by the angles that the pin goes on either side of the tangents."""

import numpy as np

import holonax as hx

radius, distance = 0.1, 0.25
model = hx.Model()
model.planar_body("wheel", hx.disc(0.13, mass=2.0))
model.planar_body("lever", hx.rod(0.5, axis="y", mass=1.0), position=(0.0, 0.25 - distance))
model.revolute("axle", "ground", "wheel", at=(0.0, 0.0))
model.revolute("pivot", "ground", "lever", at=(0.0, -distance))
model.pin_in_slot("slot", "lever", "wheel", at=(0.0, radius), direction=(0.0, 1.0))
model.drive_angle("motor", joint="axle", angle=lambda t: 2 * np.pi * t)
result = model.simulate(1.0, dt=0.0025)

back = np.mean(result.joint("pivot").rate < 0)  # the share of the time that it goes back
assert abs(back - np.arccos(radius / distance) / np.pi) < 0.005
swing = np.ptp(result.joint("pivot").angle)
assert abs(swing - 2 * np.arcsin(radius / distance)) < 1e-4
speed, traces = 0.4, {"tip": ("lever", (0.0, 0.25))}
