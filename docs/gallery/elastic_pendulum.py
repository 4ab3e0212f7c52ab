"""Elastic pendulum: a weight on a spring whose frequency is twice that of the swing. Bounce turns
into swing and back."""

import numpy as np

import holonax as hx

stiffness, length = 4 * 9.81, 0.75  # k / m = 4 g / (length + m g / k)
rest = length + 9.81 / stiffness
model = hx.Model()
model.planar_body("weight", hx.disc(0.08, mass=1.0), position=(0.02, -rest - 0.15))
model.spring_damper(
    "spring",
    "ground",
    "weight",
    at_a=(0.0, 0.0),
    at_b=(0.0, 0.0),
    stiffness=stiffness,
    length=length,
)
result = model.simulate(16.0, rtol=1e-8)

swing = result["weight"].position[:, 0]
assert np.abs(swing).max() > 0.2 > 0.05 > np.abs(swing[result.t < 2.0]).max()  # it has grown
assert np.abs(result.energy.balance).max() < 1e-6
speed = 2.0
