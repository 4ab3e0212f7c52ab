"""Flyball governor: two balls on arms circle with the shaft, and nod about the angle at which
cos(angle) = g / (rate² length). What stays is the energy in the frame that turns."""

import numpy as np

import holonax as hx

length, angle, nod = 0.4, 0.9, 1.2  # [m], [rad], [rad/s]
rate = np.sqrt(9.81 / (length * np.cos(angle)))
model = hx.Model()
model.body("shaft", hx.cylinder(0.02, 0.6, axis="z", mass=2.0), position=(0.0, 0.0, -0.2))
model.revolute("bearing", "ground", "shaft", at=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0))
for name, side in (("left", -1.0), ("right", 1.0)):
    out = np.array([side * np.sin(angle), 0.0, -np.cos(angle)])
    spin = np.array([0.0, -side * nod, rate])
    ball = hx.sphere(0.06, mass=1.0)
    speed = length * np.cross(spin, out)
    model.body(name, ball, position=length * out, velocity=speed, angular_velocity=spin)
    model.revolute(f"{name} hinge", "shaft", name, at=(0.0, 0.0, 0.0), axis=(0.0, side, 0.0))
model.drive_angle("motor", joint="bearing", angle=lambda t: rate * t)
result = model.simulate(3.0, dt=0.005)

turned = angle - result.joint("right hinge").angle
inertia = length**2 + 0.4 * 0.06**2
seen = inertia * result.joint("right hinge").rate ** 2 / 2
seen -= (length * rate * np.sin(turned)) ** 2 / 2 + 9.81 * length * np.cos(turned)
assert np.abs(seen - seen[0]).max() < 1e-5 and np.ptp(turned) > 0.3
speed = 0.5
