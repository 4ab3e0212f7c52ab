"""Bouncing ball: each bounce takes as long as the last one times the restitution; all of them,
endlessly many, are over at a time that is known."""

import numpy as np

import holonax as hx

height, radius, restitution = 1.0, 0.1, 0.8
model = hx.Model()
model.planar_body(
    "ball", hx.disc(radius, mass=1.0), position=(0.0, height + radius), velocity=(0.4, 0.0)
)
floor = hx.Event(
    "floor", "ball.y - 0.1", direction="falling", change=hx.Impact(restitution, rest="stop")
)
first = np.sqrt(2 * height / 9.81)
rest = first * (1 + restitution) / (1 - restitution)
result = model.simulate(rest + 1.0, rtol=1e-8, events=floor)

assert result.status == "rest" and abs(result.t[-1] - rest) < 1e-3
traces = {"ball": ("ball", (0.0, 0.0))}
