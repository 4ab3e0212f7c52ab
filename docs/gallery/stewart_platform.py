"""Stewart platform: six legs of prescribed lengths hold a plate in all its freedoms, here so that
it goes round without turning."""

import jax.numpy as jnp
import numpy as np

import holonax as hx

corners = 2 * np.pi * np.arange(3) / 3
lower = [0.6 * np.array([np.cos(x), np.sin(x), 0.0]) for c in corners for x in (c - 0.3, c + 0.3)]
upper = [0.35 * np.array([np.cos(x), np.sin(x), 0.0]) for c in corners for x in (c - 0.8, c + 0.8)]


def length(t, p):
    """Of the leg from p["foot"] to p["head"] of the plate, when that is where it shall be."""
    place = jnp.array([0.15 * jnp.cos(2 * t), 0.15 * jnp.sin(2 * t), 0.7 + 0.05 * jnp.sin(4 * t)])
    return jnp.linalg.norm(place + p["head"] - p["foot"])


model = hx.Model()
model.body("plate", hx.cylinder(0.38, 0.04, axis="z", mass=10.0), position=(0.15, 0.0, 0.7))
for k, (foot, head) in enumerate(zip(lower, upper, strict=True)):
    ends = {"foot": foot, "head": head}
    model.drive_distance(
        f"leg {k}", "ground", "plate", at_a=foot, at_b=head, distance=length, parameters=ends
    )
result = model.simulate(np.pi, dt=0.02)

plate, t = result["plate"], result.t
exact = [0.15 * np.cos(2 * t), 0.15 * np.sin(2 * t), 0.7 + 0.05 * np.sin(4 * t)]
assert np.abs(plate.position.T - exact).max() < 1e-9
assert np.abs(plate.rotation - np.eye(3)).max() < 1e-9
traces = {"plate": ("plate", (0.0, 0.0, 0.0))}
