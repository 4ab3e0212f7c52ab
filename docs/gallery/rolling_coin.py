"""Rolling coin: it leans into its circle, by as much as its speed asks for, and comes back to where
it began."""

import numpy as np

import holonax as hx

radius, circle, lean = 0.15, 0.5, 0.35  # of the coin, of its centre's path [m]; [rad]
# the moment of the weight about the contact turns the spin round
rate = np.sqrt(9.81 * np.tan(lean) / (1.5 * circle + radius * np.sin(lean) / 4))
axle = np.array([np.cos(lean), 0.0, np.sin(lean)])
up = np.array([-np.sin(lean), 0.0, np.cos(lean)])
model = hx.Model()
model.body(
    "coin",
    hx.cylinder(radius, 0.001, axis="x", mass=1.0),
    position=(circle, 0.0, radius * np.cos(lean)),
    rotation=(0.0, -lean, 0.0),
    velocity=(0.0, rate * circle, 0.0),
    angular_velocity=rate * (np.cos(lean) * up - circle / radius * axle),
)
model.rolling_disc("floor", "coin", radius=radius, axis=axle)
result = model.simulate(2 * np.pi / rate, rtol=1e-8)

coin = result["coin"].position
assert np.abs(np.hypot(*coin.T[:2]) - circle).max() < 1e-4  # a circle
assert np.abs(coin[-1] - coin[0]).max() < 1e-3
traces = {"centre": ("coin", (0.0, 0.0, 0.0)), "rim": ("coin", (0.0, radius, 0.0))}
