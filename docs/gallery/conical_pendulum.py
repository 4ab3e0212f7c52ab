"""Conical pendulum: a ball on a string circles at a constant height, where the string's pull
carries both the weight and the turn: rate² = g / (length cos(angle))."""

import numpy as np

import holonax as hx

length, angle = 1.0, 0.6
radius, depth = length * np.sin(angle), length * np.cos(angle)
rate = np.sqrt(9.81 / depth)
model = hx.Model()
model.body(
    "ball",
    hx.sphere(0.06, mass=1.0),
    position=(radius, 0.0, -depth),
    velocity=(0.0, radius * rate, 0.0),
)
model.distance("string", "ground", "ball", at_a=(0.0, 0.0, 0.0), at_b=(0.0, 0.0, 0.0))
result = model.simulate(2 * np.pi / rate, rtol=1e-9)

ball = result["ball"].position
assert np.abs(ball[:, 2] + depth).max() < 1e-7  # neither rises nor sinks
assert np.abs(ball[-1] - ball[0]).max() < 1e-6  # and is back after a turn
traces = {"ball": ("ball", (0.0, 0.0, 0.0))}
