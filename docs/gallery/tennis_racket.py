"""Tennis racket: a box that spins about its middle axis turns over, again and again (Dzhanibekov).
Energy and angular momentum stay."""

import numpy as np

import holonax as hx

model = hx.Model(gravity=(0.0, 0.0, 0.0))
model.body("box", hx.box((0.4, 0.2, 0.06), mass=1.0), angular_velocity=(0.01, 6.0, 0.0))
result = model.simulate(6.0, rtol=1e-9)

inertia = np.array([0.2**2 + 0.06**2, 0.4**2 + 0.06**2, 0.4**2 + 0.2**2]) / 12
box = result["box"]
own = np.einsum("tji,tj->ti", box.rotation, box.angular_velocity)  # in its own axes
assert own[:, 1].min() < -5.9  # it has turned over
momentum = np.einsum("tij,tj->ti", box.rotation, inertia * own)
assert np.abs(momentum - momentum[0]).max() < 1e-8
traces = {"corner": ("box", (0.2, 0.0, 0.0))}
