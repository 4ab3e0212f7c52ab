"""Gyroscope: a fast wheel on the end of its axle, horizontal, which does not fall but goes round:
at the rate m g l / (J spin)."""

import numpy as np

import holonax as hx

mass, arm, spin = 2.0, 0.3, 200.0
wheel = hx.cylinder(0.15, 0.03, axis="x", mass=mass)
rate = mass * 9.81 * arm / (mass * 0.15**2 / 2 * spin)  # exact where the axle is horizontal
model = hx.Model()
model.body(
    "wheel",
    wheel,
    position=(arm, 0.0, 0.0),
    velocity=(0.0, rate * arm, 0.0),
    angular_velocity=(spin, 0.0, rate),
)
model.spherical("tip", "ground", "wheel", at=(0.0, 0.0, 0.0))
result = model.simulate(np.pi / rate, rtol=1e-8)

centre = result["wheel"].position
assert np.abs(centre[:, 2]).max() < 1e-5  # no nutation
assert np.abs(centre[-1] - (-arm, 0.0, 0.0)).max() < 1e-4  # half a round
traces = {"wheel": ("wheel", (0.0, 0.0, 0.0))}
