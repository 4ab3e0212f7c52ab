"""Quarter car: a wheel and the body above it come down from a kerb. A linear system, whose
motion is the exponential of a matrix."""

import numpy as np
from scipy.linalg import expm

import holonax as hx

car, wheel, spring, damper, tyre, kerb = 300.0, 40.0, 2e4, 1.2e3, 1.8e5, 0.08
model = hx.Model(gravity=(0.0, 0.0))  # from the position at rest
model.planar_body("wheel", hx.disc(0.3, mass=wheel), position=(0.0, 0.3 + kerb))
model.planar_body("car", hx.box((0.9, 0.25, 0.5), mass=car), position=(0.0, 1.0 + kerb))
model.prismatic("wheel guide", "ground", "wheel", at=(0.0, 0.3 + kerb), axis=(0.0, 1.0))
model.prismatic("car guide", "ground", "car", at=(0.0, 1.0 + kerb), axis=(0.0, 1.0))
model.spring_damper(
    "strut", "wheel", "car", at_a=(0, 0), at_b=(0, 0), stiffness=spring, damping=damper, length=0.7
)
model.spring_damper(
    "tyre", "ground", "wheel", at_a=(0.0, -0.2), at_b=(0.0, 0.0), stiffness=tyre, length=0.5
)
result = model.simulate(2.0, rtol=1e-8)

matrix = np.zeros((4, 4))
matrix[0, 2] = matrix[1, 3] = 1.0
matrix[2] = np.array([-spring - tyre, spring, -damper, damper]) / wheel
matrix[3] = np.array([spring, -spring, damper, -damper]) / car
for t, y in zip(result.t[::40], result["car"].position[::40, 1], strict=True):
    assert abs(y - 1.0 - (expm(matrix * t) @ [kerb, kerb, 0.0, 0.0])[1]) < 1e-6
speed = 0.5
