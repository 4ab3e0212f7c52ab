"""Double pendulum: two rods, let go above the horizontal. The motion is chaotic; what can be
checked is its energy."""

import numpy as np

import holonax as hx

model = hx.Model()
model.planar_body("upper", hx.rod(0.5, mass=1.0), position=(0.25, 0.0))
model.planar_body("lower", hx.rod(0.5, mass=1.0), position=(0.5, 0.25), angle=np.pi / 2)
model.revolute("A", "ground", "upper", at=(0.0, 0.0))
model.revolute("B", "upper", "lower", at=(0.5, 0.0))
result = model.simulate(3.0, rtol=1e-9)

assert np.abs(result.energy.balance).max() < 1e-7
traces = {"tip": ("lower", (0.25, 0.0))}
