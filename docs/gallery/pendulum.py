"""Pendulum: a rod swings far out, where its period is longer than that of small swings by the
arithmetic-geometric mean."""

import numpy as np
from scipy.special import ellipk

import holonax as hx

length, out = 1.0, 2.0  # [m], [rad] from below
model = hx.Model()
model.planar_body(
    "rod",
    hx.rod(length, mass=1.0),
    position=(length / 2 * np.sin(out), -length / 2 * np.cos(out)),
    angle=out - np.pi / 2,
)
model.revolute("pivot", "ground", "rod", at=(0.0, 0.0))
period = 4 * np.sqrt(2 * length / (3 * 9.81)) * ellipk(np.sin(out / 2) ** 2)
result = model.simulate(period, rtol=1e-9)

assert abs(result.joint("pivot").angle[-1]) < 1e-5  # back where it was let go
traces = {"tip": ("rod", (length / 2, 0.0))}
