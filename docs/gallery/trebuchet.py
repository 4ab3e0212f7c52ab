"""Trebuchet: a falling weight swings the arm, the arm a sling. The stone leaves it at 45 degrees,
and flies a parabola from there."""

import numpy as np

import holonax as hx

tilt = 0.7
arm = np.array([np.cos(tilt), np.sin(tilt)])
tip = np.array([0.0, 2.2]) - 2.4 * arm
model = hx.Model()
model.planar_body("arm", hx.rod(3.0, mass=15.0), position=(0.0, 2.2) - 0.9 * arm, angle=tilt)
model.planar_body("weight", hx.box((0.6, 0.6, 0.6), mass=500.0), position=(0.0, 1.8) + 0.6 * arm)
model.planar_body("stone", hx.disc(0.1, mass=4.0), position=(tip[0] + 1.6, tip[1] - 0.3))
model.revolute("pivot", "ground", "arm", at=(0.0, 2.2))
model.revolute("hook", "arm", "weight", at=(0.0, 2.2) + 0.6 * arm)
model.distance("sling", "arm", "stone", at_a=(-1.5, 0.0), at_b=(0.0, 0.0))
release = hx.Event(
    "release", "stone.velocity.y - stone.velocity.x", direction="falling", release="sling"
)
result = model.simulate(0.75, rtol=1e-8, events=release)

(left,) = (x.t for x in result.events)
t, stone = result.t - left, result["stone"]
k = np.argmax(t > 0)  # in flight from here on
flight = stone.position[k] + np.outer(t - t[k], stone.velocity[k])
flight[:, 1] -= 9.81 * (t - t[k]) ** 2 / 2
assert np.abs(stone.position - flight)[k:].max() < 1e-6 and stone.position[-1, 0] > 0.0
speed, traces = 0.5, {"stone": ("stone", (0.0, 0.0))}
