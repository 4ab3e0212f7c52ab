"""Slider-crank: the piston of an engine at a constant speed of the crank."""

import numpy as np

import holonax as hx

crank, rod, rate = 0.15, 0.4, 2 * np.pi
model = hx.Model()
model.planar_body("crank", hx.disc(0.2, mass=3.0))
model.planar_body("rod", hx.rod(rod, mass=0.5), position=(crank + rod / 2, 0.0))
model.planar_body("piston", hx.box((0.12, 0.14, 0.1), mass=0.8), position=(crank + rod, 0.0))
model.revolute("A", "ground", "crank", at=(0.0, 0.0))
model.revolute("B", "crank", "rod", at=(crank, 0.0))
model.revolute("C", "rod", "piston", at=(crank + rod, 0.0))
model.prismatic("cylinder", "ground", "piston", at=(crank + rod, 0.0), axis=(1.0, 0.0))
model.drive_angle("motor", joint="A", angle=lambda t: rate * t)
result = model.simulate(1.0, dt=0.005)

exact = crank * np.cos(rate * result.t) + np.sqrt(rod**2 - (crank * np.sin(rate * result.t)) ** 2)
assert np.abs(result["piston"].position[:, 0] - exact).max() < 1e-10
speed = 0.5
