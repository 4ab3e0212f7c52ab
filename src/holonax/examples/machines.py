"""Machines of another kind: an arm that follows a path."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..consistent import Start, consistent
from ..system import FunctionSystem, System


def two_link_arm(case: Literal["I", "II"] = "I", omega: float = 0.5) -> tuple[System, Start]:
    """Two-link arm whose end follows a path; Ascher et al. 1995, Example 2.

    Case I: on a parabola, y = x^2 - beta. Case II: at the height sin^2(omega t), which moves.
    """
    angles = np.deg2rad([70.0, -140.0])
    x0 = np.cos(angles[0]) + np.cos(angles.sum())
    y0 = np.sin(angles[0]) + np.sin(angles.sum())

    def end(q: Array, p: dict[str, Array]) -> tuple[Array, Array]:
        both = q[0] + q[1]
        return (
            p["l1"] * jnp.cos(q[0]) + p["l2"] * jnp.cos(both),
            p["l1"] * jnp.sin(q[0]) + p["l2"] * jnp.sin(both),
        )

    def mass(q: Array, p: dict[str, Array]) -> Array:
        m1, m2, l1, l2, c2 = p["m1"], p["m2"], p["l1"], p["l2"], jnp.cos(q[1])
        cross = m2 * (l2**2 / 3 + l1 * l2 * c2 / 2)
        first = m1 * l1**2 / 3 + m2 * (l1**2 + l2**2 / 3 + l1 * l2 * c2)
        return jnp.array([[first, cross], [cross, m2 * l2**2 / 3]])

    def force(q: Array, v: Array, t: Array, p: dict[str, Array]) -> Array:
        m1, m2, l1, l2, g = p["m1"], p["m2"], p["l1"], p["l2"], p["g"]
        c1, c12, s2 = jnp.cos(q[0]), jnp.cos(q[0] + q[1]), jnp.sin(q[1])
        weight = -m2 * g * l2 * c12 / 2
        spin = m2 * l1 * l2 * s2 / 2
        return jnp.array(
            [
                -m1 * g * l1 * c1 / 2 - m2 * g * l1 * c1 + weight + spin * (2 * v[0] + v[1]) * v[1],
                weight - spin * v[0] ** 2,
            ]
        )

    def potential(q: Array, p: dict[str, Array]) -> Array:
        s1, s12 = jnp.sin(q[0]), jnp.sin(q[0] + q[1])
        first = p["m1"] * p["l1"] * s1 / 2
        return p["g"] * (first + p["m2"] * (p["l1"] * s1 + p["l2"] * s12 / 2))

    def parabola(q: Array, t: Array, p: dict[str, Array]) -> Array:
        x, y = end(q, p)
        return jnp.array([y - x**2 + p["beta"]])

    def moving(q: Array, t: Array, p: dict[str, Array]) -> Array:
        return jnp.array([end(q, p)[1] - jnp.sin(p["omega"] * t) ** 2])

    if case not in ("I", "II"):
        raise ValueError(f'two_link_arm: case={case!r} is not known. Use "I" or "II".')
    system = FunctionSystem(
        mass=mass,
        force=force,
        constraint=parabola if case == "I" else moving,
        potential=potential,
        parameters={
            "m1": 36.0,
            "m2": 36.0,
            "l1": 1.0,
            "l2": 1.0,
            "g": 9.81,
            "beta": x0**2 - y0,
            "omega": omega,
        },
        coordinate_names=["shoulder", "elbow"],
        constraint_names=["path"],
    )
    return system, consistent(system, angles)
