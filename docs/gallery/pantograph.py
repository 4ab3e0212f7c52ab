"""Pantograph: a parallelogram that draws what is traced twice as large."""

import numpy as np

import holonax as hx

bar = 0.4
tilt = np.array([np.cos(0.9), np.sin(0.9)])
fall = np.array([np.cos(0.9), -np.sin(0.9)])
left, top = np.zeros(2), 2 * bar * tilt
inner, outer = bar * tilt + bar * fall, 2 * bar * tilt + 2 * bar * fall
bars = {
    "a": (left, top),
    "b": (top, outer),
    "c": (bar * tilt, inner),
    "d": (top + bar * fall, inner),
}
model = hx.Model(gravity=(0.0, 0.0))
for name, (p, q) in bars.items():
    length = np.linalg.norm(q - p)
    angle = np.arctan2(*(q - p)[::-1])
    model.planar_body(name, hx.rod(length, mass=length), position=(p + q) / 2, angle=angle)
model.revolute("foot", "ground", "a", at=left)
model.revolute("top", "a", "b", at=top)
model.revolute("1", "a", "c", at=bar * tilt)
model.revolute("2", "b", "d", at=top + bar * fall)
model.revolute("pen", "c", "d", at=inner)
model.drive_angle("shoulder", joint="foot", angle="0.3 * sin(2 * pi * t)")
model.drive_angle("elbow", joint="top", angle="0.3 * (cos(2 * pi * t) - 1)")
result = model.simulate(1.0, dt=0.01)

traced, drawn = result["c"].point((bar / 2, 0.0)), result["b"].point((bar, 0.0))
assert np.abs(drawn - 2 * traced).max() < 1e-10
speed, traces = 0.4, {"traced": ("c", (bar / 2, 0.0)), "drawn": ("b", (bar, 0.0))}
