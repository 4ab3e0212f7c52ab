"""Robot arm: two motors with limits follow splines of time, by feedback of angle and rate. The hand
arrives where it shall."""

import numpy as np

import holonax as hx

upper, fore = 0.5, 0.4
model = hx.Model()
model.planar_body("upper", hx.rod(upper, mass=3.0), position=(upper / 2, 0.0))
model.planar_body("fore", hx.rod(fore, mass=2.0), position=(upper + fore / 2, 0.0))
model.revolute("shoulder", "ground", "upper", at=(0.0, 0.0))
model.revolute("elbow", "upper", "fore", at=(upper, 0.0))
paths = {"shoulder": [0.0, 1.2, 0.6], "elbow": [0.0, -0.5, -1.5]}
for joint, angles in paths.items():
    path = hx.Table([0.0, 1.0, 2.0], angles, kind="cubic")
    model.motor(
        f"{joint} motor", joint, target=path, proportional=900.0, derivative=60.0, limit=60.0
    )
result = model.simulate(2.0, rtol=1e-6)

hand = result["fore"].point((fore / 2, 0.0))[-1]
a, b = 0.6, 0.6 - 1.5
wanted = upper * np.array([np.cos(a), np.sin(a)]) + fore * np.array([np.cos(b), np.sin(b)])
assert np.linalg.norm(hand - wanted) < 0.03
assert np.abs(result.force("shoulder motor").torque).max() <= 60.0 + 1e-9
traces = {"hand": ("fore", (fore / 2, 0.0))}
