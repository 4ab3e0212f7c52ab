"""Scissor lift: two pairs of crossed bars. The platform is as high as both together, and
stays level."""

import numpy as np

import holonax as hx

bar, angle = 0.8, 0.4
across, rise = bar * np.cos(angle), bar * np.sin(angle)
model = hx.Model()
for k in (0, 1):
    middle = (across / 2, (k + 0.5) * rise)
    model.planar_body(f"up {k}", hx.rod(bar, mass=2.0), position=middle, angle=angle)
    model.planar_body(f"down {k}", hx.rod(bar, mass=2.0), position=middle, angle=-angle)
    model.revolute(f"cross {k}", f"up {k}", f"down {k}", at=middle)
platform = hx.box((0.9, 0.05, 0.4), mass=20.0)
model.planar_body("platform", platform, position=(across / 2, 2 * rise + 0.025))
model.revolute("foot", "ground", "up 0", at=(0.0, 0.0))
model.pin_in_slot("roller", "ground", "down 0", at=(across, 0.0), direction=(1.0, 0.0))
model.revolute("left", "down 0", "up 1", at=(0.0, rise))
model.revolute("right", "up 0", "down 1", at=(across, rise))
model.revolute("head", "down 1", "platform", at=(0.0, 2 * rise))
model.pin_in_slot("top", "platform", "up 1", at=(across, 2 * rise), direction=(1.0, 0.0))
model.drive_angle("motor", joint="foot", angle="0.25 * (1 - cos(pi * t))")
result = model.simulate(2.0, dt=0.01)

raised = angle + 0.25 * (1 - np.cos(np.pi * result.t))
height = result["platform"].position[:, 1] - 0.025
assert np.abs(height - 2 * bar * np.sin(raised)).max() < 1e-9
assert np.abs(result["platform"].angle).max() < 1e-9
