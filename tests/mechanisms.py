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


def _arm_tip(q):
    return jnp.array([jnp.cos(q[0]) + jnp.cos(q[0] + q[1]), jnp.sin(q[0]) + jnp.sin(q[0] + q[1])])


def _arm_mass(q, p):
    c = jnp.cos(q[1])
    off = p["m"] * (1 / 3 + c / 2)
    return jnp.array([[p["m"] * (5 / 3 + c), off], [off, p["m"] / 3]])


def _arm_force(q, v, t, p):
    m, g = p["m"], p["g"]
    c1, c12, s2 = jnp.cos(q[0]), jnp.cos(q[0] + q[1]), jnp.sin(q[1])
    return jnp.array(
        [
            -m * g * (1.5 * c1 + 0.5 * c12) + 0.5 * m * s2 * (2 * v[0] * v[1] + v[1] ** 2),
            -0.5 * m * g * c12 - 0.5 * m * s2 * v[0] ** 2,
        ]
    )


_ARM_START = (jnp.deg2rad(70.0), jnp.deg2rad(-140.0))


def _arm_on_parabola(q, t, p):
    x, y = _arm_tip(q)
    x0, y0 = _arm_tip(_ARM_START)
    return jnp.array([y - y0 - (x**2 - x0**2)])


def _arm_on_moving_line(q, t, p):
    return jnp.array([_arm_tip(q)[1] - jnp.sin(p["omega"] * t) ** 2])


@cache
def two_link_arm(case):
    """The two-link arm of Ascher et al. 1995, in angles, with its start.

    The end of the arm is bound to a parabola (case 1) or to a height that moves (case 2).
    """
    system = hx.FunctionSystem(
        mass=_arm_mass,
        force=_arm_force,
        constraint={1: _arm_on_parabola, 2: _arm_on_moving_line}[case],
        potential=lambda q, p: p["m"] * p["g"] * (1.5 * jnp.sin(q[0]) + 0.5 * jnp.sin(q[0] + q[1])),
        parameters={"m": 36.0, "g": 9.81, "omega": 0.5},
    )
    return system, hx.consistent(system, q=list(_ARM_START), v=[0.0, 0.0])
