"""Machines: an arm on a path, a governor, and the axis of a car."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array

from .._arguments import checked_call, choice
from ..model import Model, box, composite, point_mass
from ..start.consistent import Start, consistent
from ..system import FunctionSystem
from .describing import Options, described


@checked_call
def two_link_arm(
    case: Literal["I", "II"] = "I", omega: float = 0.5
) -> tuple[FunctionSystem, Start]:
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

    choice("two_link_arm", "case", case, ("I", "II"))
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


@described
def flyball_governor(*, stiffness: float = 8e5, damping: float = 4e4) -> tuple[Model, Options]:
    """Watt's governor, its coupler rods replaced by stiff springs and dampers; four coordinates.

    IFToMM library of multibody benchmarks, problem A05: a shaft along z and two rods of 1 m with a
    section of 0.01 m, hinged 0.05 m from the axis at the shaft's top, and a slider, a cube of
    0.1 m, all of 3000 kg/m^3; balls of 5 kg at the rods' ends. The springs, `stiffness` [N/m] and
    `damping` [N s/m] with a free length of 0.5 m, hold the rods' middles to the slider. All turns
    at 2 pi rad/s at the start, the rods 30 degrees below the horizontal, the slider at 0.5 m.
    """
    model = Model(gravity=(0.0, 0.0, -9.81))
    spin = np.array([0.0, 0.0, 2 * np.pi])
    bar, cube = box((0.01, 0.01, 1.0), density=3000.0), box((0.1, 0.1, 0.1), density=3000.0)
    shaft = model.body("shaft", bar, position=(0.0, 0.0, 0.5), angular_velocity=spin)
    slider = model.body("slider", cube, position=(0.0, 0.0, 0.5), angular_velocity=spin)
    model.revolute("bearing", model.ground, shaft, at=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0))
    model.prismatic("guide", shaft, slider, at=(0.0, 0.0, 0.5), axis=(0.0, 0.0, 1.0))
    # A rod with its ball: along the body's -z, from the hinge at z = 0.
    solid = composite(bar.moved((0.0, 0.0, -0.5)), point_mass(5.0, at=(0.0, 0.0, -1.0)))
    for side, sign in (("right", 1.0), ("left", -1.0)):
        hinge = np.array([0.05 * sign, 0.0, 1.0])
        down = np.array([sign * np.cos(np.pi / 6), 0.0, -np.sin(np.pi / 6)])
        centre = hinge - solid.com[2] * down
        arm = model.body(
            side,
            solid.moved(-solid.com),
            position=centre,
            rotation=(0.0, -sign * np.pi / 3, 0.0),
            velocity=np.cross(spin, centre),
            angular_velocity=spin,
        )
        model.revolute(f"{side} hinge", shaft, arm, at=hinge, axis=(0.0, 1.0, 0.0))
        model.spring_damper(
            f"{side} spring",
            slider,
            arm,
            at=((0.05 * sign, 0.0, 0.5), hinge + 0.5 * down),
            stiffness=stiffness,
            damping=damping,
            length=0.5,
        )
    return model, {}


@checked_call
def car_axis() -> tuple[FunctionSystem, Start]:
    """Axis of a car on a bumpy road: two points on a rigid bar, over springs to the wheels.

    Test Set for IVP Solvers (Mazzia and Magherini 2008; Schneider 1997), without units: the left
    wheel stays at the origin, the right one moves as (sqrt(1 - y^2), y) with y = 0.1 sin(10 t);
    the left point keeps to the normal of the line between the wheels. The springs are stiff
    against the masses, M eps^2 / 2 each. Its multipliers are the test set's with the sign turned.
    """

    def right_wheel(t: Array, p: dict[str, Array]) -> tuple[Array, Array]:
        y = p["r"] * jnp.sin(p["w"] * t)
        return jnp.sqrt(p["L"] ** 2 - y * y), y

    def force(q: Array, v: Array, t: Array, p: dict[str, Array]) -> Array:
        xb, yb = right_wheel(t, p)
        xl, yl, xr, yr = q
        left, right = jnp.sqrt(xl**2 + yl**2), jnp.sqrt((xr - xb) ** 2 + (yr - yb) ** 2)
        pull, push = (p["L0"] - left) / left, (p["L0"] - right) / right
        weight = 0.5 * p["M"] * p["eps"] ** 2 * p["g"]
        return jnp.array(
            [pull * xl, pull * yl - weight, push * (xr - xb), push * (yr - yb) - weight]
        )

    def constraint(q: Array, t: Array, p: dict[str, Array]) -> Array:
        xb, yb = right_wheel(t, p)
        xl, yl, xr, yr = q
        return jnp.array([xl * xb + yl * yb, (xl - xr) ** 2 + (yl - yr) ** 2 - p["L"] ** 2])

    system = FunctionSystem(
        mass=lambda q, p: jnp.full(4, 0.5 * p["M"] * p["eps"] ** 2),
        force=force,
        constraint=constraint,
        parameters={"M": 10.0, "eps": 0.01, "L": 1.0, "L0": 0.5, "r": 0.1, "w": 10.0, "g": 1.0},
        coordinate_names=["xl", "yl", "xr", "yr"],
        constraint_names=["normal", "bar"],
    )
    return system, consistent(system, [0.0, 0.5, 1.0, 0.5], [-0.5, 0.0, -0.5, 0.0])
