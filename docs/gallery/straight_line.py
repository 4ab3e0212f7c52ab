"""Peaucellier's linkage: seven bars that turn a circle into an exact straight line (1864)."""

import numpy as np

import holonax as hx

long, short, arm = 0.5, 0.2, 0.17  # bars of the two arms, of the rhombus, and the crank


def place(angle):
    """The fixed pin, the crank's pin, two corners of the rhombus, and the point on the line."""
    fixed, pin = np.array([-arm, 0.0]), arm * np.array([np.cos(angle), np.sin(angle)])
    along = (pin - fixed) / np.linalg.norm(pin - fixed)
    far = (long**2 - short**2) / np.linalg.norm(pin - fixed)
    middle = fixed + along * (np.linalg.norm(pin - fixed) + far) / 2
    up = np.sqrt(long**2 - (middle - fixed) @ (middle - fixed)) * np.array([-along[1], along[0]])
    return fixed, pin, middle + up, middle - up, fixed + along * far


fixed, pin, upper, lower, tip = place(0.0)
model = hx.Model(gravity=(0.0, 0.0))
bars = {
    "crank": ((0.0, 0.0), pin),
    "arm 1": (fixed, upper),
    "arm 2": (fixed, lower),
    "side 1": (pin, upper),
    "side 2": (pin, lower),
    "side 3": (upper, tip),
    "side 4": (lower, tip),
}
for name, (p, q) in bars.items():
    (x, y), length = np.subtract(q, p), np.linalg.norm(np.subtract(q, p))
    model.planar_body(
        name, hx.rod(length, mass=length), position=np.add(p, q) / 2, angle=np.arctan2(y, x)
    )
pins = {"crank": (0.0, 0.0), "arm 1": fixed, "arm 2": fixed}
for name, at in pins.items():
    model.revolute(f"pivot of {name}", "ground", name, at=at)
for a, b, at in [
    ("crank", "side 1", pin),
    ("crank", "side 2", pin),
    ("arm 1", "side 1", upper),
    ("arm 1", "side 3", upper),
    ("arm 2", "side 2", lower),
    ("arm 2", "side 4", lower),
    ("side 3", "side 4", tip),
]:
    model.revolute(f"{a} and {b}", a, b, at=at)
model.drive_angle("motor", joint="pivot of crank", angle="0.9 * sin(2 * pi * t)")
result = model.simulate(1.0, dt=0.01)

end = result["side 3"].point((short / 2, 0.0))
assert np.abs(end[:, 0] - tip[0]).max() < 1e-10 and np.ptp(end[:, 1]) > 0.5
speed, traces = 0.4, {"straight": ("side 3", (short / 2, 0.0))}
