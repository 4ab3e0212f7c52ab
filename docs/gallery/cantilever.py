"""Cantilever: a bar of foam rubber, let go straight, sags and comes back with the period of its
first mode."""

import numpy as np

import holonax as hx

length, side, E, density = 1.0, 0.1, 4e6, 300.0
section = hx.Section.rectangle(side, side, E=E, G=E / 3, density=density)
model = hx.Model()
model.beam("bar", (0, 0, 0), (length, 0, 0), section=section, up=(0, 0, 1), elements=4)
model.fixed("root", "ground", "bar.start")
bending, line = E * side**4 / 12, density * side**2
period = 2 * np.pi / (1.8751**2 * np.sqrt(bending / line / length**4))
result = model.simulate(period, rtol=1e-5)

tip = result["bar.end"].position[:, 2]
sag = line * 9.81 * length**4 / (8 * bending)  # at rest; let go, it falls about twice as far
assert abs(-tip.min() / (2 * sag) - 1) < 0.1
assert abs(2 * result.t[np.argmin(tip)] / period - 1) < 0.1
speed, traces = 0.3, {"tip": ("bar.end", (0.0, 0.0, 0.0))}
