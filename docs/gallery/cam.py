"""Cam and follower: the tip of a follower on an eccentric circle, held to it by a spring."""

import jax.numpy as jnp
import numpy as np

import holonax as hx

radius, offset, rate = 0.15, 0.06, 2 * np.pi
model = hx.Model()
model.planar_body("cam", hx.disc(radius, mass=2.0), position=(offset, 0.0))
model.planar_body(
    "follower",
    hx.box((0.04, 0.3, 0.04), mass=0.5),
    position=(0.0, 0.15 + np.sqrt(radius**2 - offset**2)),
)
model.revolute("axle", "ground", "cam", at=(0.0, 0.0))
model.prismatic("guide", "ground", "follower", at=(0.0, 0.3), axis=(0.0, 1.0))
model.point_on_curve(
    "tip", "cam", "follower", curve=lambda x, y: jnp.hypot(x, y) - radius, at_b=(0.0, -0.15)
)
model.spring_damper(
    "spring", "ground", "follower", at_a=(0.0, 0.6), at_b=(0.0, 0.15), stiffness=300.0, length=0.25
)
model.drive_angle("motor", joint="axle", angle=lambda t: rate * t)
result = model.simulate(1.0, dt=0.005)

centre = result["cam"].position
lift = centre[:, 1] + np.sqrt(radius**2 - centre[:, 0] ** 2)
assert np.abs(result["follower"].point((0.0, -0.15))[:, 1] - lift).max() < 1e-9
speed = 0.5
