"""Planetary gear: the ring stands still, the sun drives the planets and their carrier. By Willis
the sun turns 1 + ring / sun times for one turn of the carrier."""

import holonax as hx

sun, planet, ring = 24, 18, 60  # teeth
module = 0.005  # [m] of diameter for each tooth
reach = module * (sun + planet) / 2
model = hx.Model(gravity=(0.0, 0.0))
model.planar_body("carrier", hx.rod(2 * reach, mass=1.0))
model.planar_body("sun", hx.disc(module * sun / 2, mass=1.0))
model.revolute("main", "ground", "carrier", at=(0.0, 0.0))
model.revolute("axle", "ground", "sun", at=(0.0, 0.0))
for name, x in (("planet 1", reach), ("planet 2", -reach)):
    model.planar_body(name, hx.disc(module * planet / 2, mass=0.5), position=(x, 0.0))
    model.revolute(f"{name} pin", "carrier", name, at=(x, 0.0))
    model.gear(f"sun and {name}", "sun", name, carrier="carrier", teeth=(sun, planet))
model.gear("ring", "ground", "planet 1", carrier="carrier", teeth=(ring, planet), internal=True)
model.torque("motor", "sun", torque=0.05)
result = model.simulate(2.0, rtol=1e-9)

ratio = result["sun"].angle[-1] / result["carrier"].angle[-1]
assert abs(ratio - (1 + ring / sun)) < 1e-9 and result["carrier"].angle[-1] > 1.0
