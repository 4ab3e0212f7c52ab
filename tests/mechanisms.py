"""Small systems shared by the tests, built once so that their compiled programs are shared too."""

from functools import cache

import jax.numpy as jnp

import holonax as hx

CRANK, ROD, OFFSET = 0.3, 0.5, 0.3


def _slider_crank_constraint(q, t, p):
    return jnp.array(
        [
            CRANK * jnp.cos(q[0]) + OFFSET * jnp.cos(q[1]) - q[2],
            CRANK * jnp.sin(q[0]) + OFFSET * jnp.sin(q[1]) - q[3],
            (ROD - OFFSET) * jnp.sin(q[1]) + q[3],
        ]
    )


@cache
def slider_crank():
    """The slider-crank of four coordinates as functions, with a consistent start."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([p["J1"], p["J2"], p["m"], p["m"]]),
        force=lambda q, v, t, p: jnp.array([0.0, 0.0, 0.0, -p["m"] * p["g"]]),
        constraint=_slider_crank_constraint,
        potential=lambda q, p: p["m"] * p["g"] * q[3],
        parameters={"J1": 0.045, "J2": 33 / 4800, "m": 1.0, "g": 10.0},
        coordinate_names=["crank", "rod", "x", "y"],
    )
    start = hx.consistent(system, q=[0.9851, -0.5236, 0.4256, 0.1], v=[0, 0, 0, 0], hold=[0])
    return system, start


@cache
def spherical_chain(n, solver="auto"):
    """A chain of `n` boxes of 1 m and 1 kg on spherical joints, starting along x."""
    model = hx.Model(gravity=(0, 0, -9.81))
    previous = model.ground
    for i in range(n):
        link = model.body(f"link{i}", hx.box((1.0, 0.1, 0.1), mass=1.0), position=(i + 0.5, 0, 0))
        model.spherical(f"ball{i}", previous, link, at=(i, 0, 0))
        previous = link
    return model.build(solver=solver)
