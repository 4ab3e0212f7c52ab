"""Slider-cranks and other closed linkages."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from ..consistent import Start, consistent
from ..system import FunctionSystem, System


def slider_crank() -> tuple[System, Start]:
    """Slider-crank in four coordinates (crank, rod, x, y of the rod's centre), three constraints.

    Welch et al. 2007, Section 6.2; Wu et al. 2000: crank 0.3 m, rod 0.5 m, its centre of mass 0.3 m
    from the crank pin, released from rest with the crank at 0.9851 rad.
    """
    crank, rod, offset = 0.3, 0.5, 0.3

    def constraint(q: Array, t: Array, p: dict[str, Array]) -> Array:
        return jnp.array(
            [
                crank * jnp.cos(q[0]) + offset * jnp.cos(q[1]) - q[2],
                crank * jnp.sin(q[0]) + offset * jnp.sin(q[1]) - q[3],
                (rod - offset) * jnp.sin(q[1]) + q[3],
            ]
        )

    system = FunctionSystem(
        mass=lambda q, p: jnp.array([p["J1"], p["J2"], p["m"], p["m"]]),
        force=lambda q, v, t, p: jnp.array([0.0, 0.0, 0.0, -p["m"] * p["g"]]),
        constraint=constraint,
        potential=lambda q, p: p["m"] * p["g"] * q[3],
        parameters={"J1": 0.045, "J2": 33 / 4800, "m": 1.0, "g": 10.0},
        coordinate_names=["crank", "rod", "x", "y"],
        constraint_names=["crank pin", "crank pin", "slider"],
    )
    return system, consistent(system, [0.9851, -0.5236, 0.4256, 0.1], hold=["crank"])
