"""Bricard's linkage: six bars along edges of a cube, with hinges whose count says that it cannot
move; yet it does, with one freedom. Alternate hinges turn alike."""

import numpy as np

import holonax as hx

edges = [(1, 0, 0), (0, -1, 0), (0, 0, 1), (-1, 0, 0), (0, 1, 0), (0, 0, -1)]
corners = np.cumsum([(0, 0, 0), *edges], axis=0).astype(float)
model = hx.Model(gravity=(0.0, -9.81, 0.0))
for i in range(5):
    bar = hx.cylinder(0.04, 1.0, axis="xyz"[int(np.argmax(np.abs(edges[i])))], mass=1.0)
    model.body(f"bar {i}", bar, position=(corners[i] + corners[i + 1]) / 2)
names = ["ground", *(f"bar {i}" for i in range(5)), "ground"]
for i in range(6):
    axis = np.cross(edges[i - 1], edges[i])
    model.revolute(f"hinge {i}", names[i], names[i + 1], at=corners[i], axis=axis)
result = model.simulate(1.0, dt=0.005)

turns = [result.joint(f"hinge {i}").angle for i in range(6)]
assert np.ptp(turns[0]) > 1.0 and np.abs(np.subtract(turns[:2], turns[2:4])).max() < 1e-9
speed = 0.4
