"""Ready mechanisms of the literature, each a `System` with a consistent start.

Data are those of the papers named; parameters of function systems can be changed with
`system.with_parameters(...)`.
"""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from .consistent import Start, consistent
from .model import Model, box
from .system import FunctionSystem, System

__all__ = ["andrews", "double_pendulum", "slider_crank", "three_link_pendulum", "two_link_arm"]


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


def double_pendulum() -> tuple[System, Start]:
    """Planar double pendulum of two rods of 5 m and 1 kg, released level; Welch et al. 2007."""
    model = Model(gravity=(0.0, -10.0))
    length, mass = 5.0, 1.0
    inertia = mass * length**2 / 12
    upper = model.planar_body("upper", mass, inertia, position=(length / 2, 0.0))
    lower = model.planar_body("lower", mass, inertia, position=(1.5 * length, 0.0))
    model.revolute("shoulder", model.ground, upper, at=(0.0, 0.0))
    model.revolute("elbow", upper, lower, at=(length, 0.0))
    return model.build()


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


def three_link_pendulum() -> tuple[System, Start]:
    """Spatial pendulum of three boxes on a hinge, a universal joint and a ball joint."""
    model = Model(gravity=(0.0, 0.0, -9.81))
    a = model.body("upper", box((1.0, 0.1, 0.1), mass=1.0), position=(0.5, 0.0, 0.0))
    b = model.body("middle", box((0.1, 0.8, 0.1), mass=0.8), position=(1.0, 0.4, 0.0))
    c = model.body("lower", box((0.6, 0.1, 0.1), mass=0.6), position=(1.3, 0.8, 0.0))
    model.revolute("hinge", model.ground, a, at=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0))
    model.universal("cross", a, b, at=(1.0, 0.0, 0.0), axis_a=(1.0, 0.0, 0.0), axis_b=(0, 0, 1))
    model.spherical("ball", b, c, at=(1.0, 0.8, 0.0))
    return model.build()


# Andrews' squeezing mechanism, Hairer and Wanner II, Section VII.7 (SI units).
_ANDREWS_MASS = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
_ANDREWS_INERTIA = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
_ANDREWS_START = (
    -0.0617138900142764496,
    0.0,
    0.455279819163070380,
    0.222668390165885885,
    0.487364979543842550,
    -0.222668390165885885,
    1.23054744454982119,
)


def andrews() -> tuple[System, Start]:
    """Andrews' seven-body squeezing mechanism in its seven angles, six constraints."""
    xa, ya, xb, yb, xc, yc = -0.06934, -0.00227, -0.03635, 0.03273, 0.014, 0.072
    d, da, e, ea, rr, ra = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
    ss, sa, sb, sc, sd = 0.035, 0.01874, 0.01043, 0.018, 0.02
    ta, tb, u, ua, ub = 0.02308, 0.00916, 0.04, 0.01228, 0.00449
    zf, zt, fa, spring, free = 0.02, 0.04, 0.01421, 4530.0, 0.07785
    m1, m2, m3, m4, m5, m6, m7 = _ANDREWS_MASS
    i1, i2, i3, i4, i5, i6, i7 = _ANDREWS_INERTIA
    arm4, arm6 = e - ea, zf - fa

    def mass(q: Array, p: dict[str, Array]) -> Array:
        ct, sp, so = jnp.cos(q[1]), jnp.sin(q[3]), jnp.sin(q[5])
        m01 = m2 * (da**2 - da * rr * ct) + i2
        m34 = m4 * (arm4**2 + zt * arm4 * sp) + i4
        m56 = m6 * (arm6**2 - u * arm6 * so) + i6
        o = 0.0
        m00 = m1 * ra**2 + m2 * (rr**2 - 2 * da * rr * ct + da**2) + i1 + i2
        m44 = m4 * (zt**2 + 2 * zt * arm4 * sp + arm4**2) + m5 * (ta**2 + tb**2) + i4 + i5
        m66 = m6 * (arm6**2 - 2 * u * arm6 * so + u**2) + m7 * (ua**2 + ub**2) + i6 + i7
        return jnp.array(
            [
                [m00, m01, o, o, o, o, o],
                [m01, m2 * da**2 + i2, o, o, o, o, o],
                [o, o, m3 * (sa**2 + sb**2) + i3, o, o, o, o],
                [o, o, o, m4 * arm4**2 + i4, m34, o, o],
                [o, o, o, m34, m44, o, o],
                [o, o, o, o, o, m6 * arm6**2 + i6, m56],
                [o, o, o, o, o, m56, m66],
            ]
        )

    def spring_end(gamma: Array) -> tuple[Array, Array]:
        s, c = jnp.sin(gamma), jnp.cos(gamma)
        return sd * c + sc * s + xb - xc, sd * s - sc * c + yb - yc

    def force(q: Array, v: Array, t: Array, p: dict[str, Array]) -> Array:
        st, cp, co = jnp.sin(q[1]), jnp.cos(q[3]), jnp.cos(q[5])
        sg, cg = jnp.sin(q[2]), jnp.cos(q[2])
        x, y = spring_end(q[2])
        length = jnp.sqrt(x * x + y * y)
        pull = -spring * (length - free) / length
        return jnp.array(
            [
                p["torque"] - m2 * da * rr * v[1] * (v[1] + 2 * v[0]) * st,
                m2 * da * rr * v[0] ** 2 * st,
                pull * (x * (sc * cg - sd * sg) + y * (sd * cg + sc * sg)),
                m4 * zt * arm4 * v[4] ** 2 * cp,
                -m4 * zt * arm4 * v[3] * (v[3] + 2 * v[4]) * cp,
                -m6 * u * arm6 * v[6] ** 2 * co,
                m6 * u * arm6 * v[5] * (v[5] + 2 * v[6]) * co,
            ]
        )

    def constraint(q: Array, t: Array, p: dict[str, Array]) -> Array:
        beta, theta, gamma, phi, delta, om, eps = q
        x = rr * jnp.cos(beta) - d * jnp.cos(beta + theta)
        y = rr * jnp.sin(beta) - d * jnp.sin(beta + theta)
        return jnp.array(
            [
                x - ss * jnp.sin(gamma) - xb,
                y + ss * jnp.cos(gamma) - yb,
                x - e * jnp.sin(phi + delta) - zt * jnp.cos(delta) - xa,
                y + e * jnp.cos(phi + delta) - zt * jnp.sin(delta) - ya,
                x - zf * jnp.cos(om + eps) - u * jnp.sin(eps) - xa,
                y - zf * jnp.sin(om + eps) + u * jnp.cos(eps) - ya,
            ]
        )

    def potential(q: Array, p: dict[str, Array]) -> Array:
        x, y = spring_end(q[2])
        return 0.5 * spring * (jnp.sqrt(x * x + y * y) - free) ** 2

    system = FunctionSystem(
        mass=mass,
        force=force,
        constraint=constraint,
        potential=potential,
        parameters={"torque": 0.033},
        coordinate_names=["beta", "theta", "gamma", "phi", "delta", "omega", "epsilon"],
    )
    return system, consistent(system, _ANDREWS_START, hold=["beta"])
