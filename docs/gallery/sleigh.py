"""Chaplygin's sleigh: a blade under one end, which does not slip sideways. Its turn dies away
though nothing is lost: speed U tanh(k t), turn W / cosh(k t)."""

import numpy as np

import holonax as hx

mass, arm, turn = 2.0, 0.3, 3.0
body = hx.box((0.9, 0.3, 0.1), mass=mass)
about_blade = mass * (0.9**2 + 0.3**2) / 12 + mass * arm**2
model = hx.Model(gravity=(0.0, 0.0))
model.planar_body("sleigh", body, velocity=(0.0, turn * arm), angular_velocity=turn)
model.knife_edge("blade", "sleigh", at=(-arm, 0.0), direction=(1.0, 0.0))
result = model.simulate(3.0, rtol=1e-9)

most = turn * np.sqrt(about_blade / mass)  # all energy in the speed
k = arm * mass * most / about_blade
spin = result["sleigh"].angular_velocity
assert np.abs(spin - turn / np.cosh(k * result.t)).max() < 1e-6
traces = {"blade": ("sleigh", (-arm, 0.0))}
