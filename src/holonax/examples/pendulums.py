"""Pendulums and a top."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from .._arguments import checked_call
from ..model import Model, box, rod
from ..start.consistent import Start, consistent, finite_number
from ..system import FunctionSystem
from .describing import Options, described


@described
def double_pendulum() -> tuple[Model, Options]:
    """Planar double pendulum of two rods of 5 m and 1 kg, released level; Welch et al. 2007."""
    model = Model(gravity=(0.0, -10.0))
    length, mass = 5.0, 1.0
    inertia = mass * length**2 / 12
    upper = model.planar_body("upper", mass, inertia, position=(length / 2, 0.0))
    lower = model.planar_body("lower", mass, inertia, position=(1.5 * length, 0.0))
    model.revolute("shoulder", model.ground, upper, at=(0.0, 0.0))
    model.revolute("elbow", upper, lower, at=(length, 0.0))
    return model, {}


@described
def three_link_pendulum() -> tuple[Model, Options]:
    """Spatial pendulum of three boxes on two ball joints and a pin, 11 constraints.

    Welch et al. 2007, Table 3: links of 1, 2 and 2.5 m, each with a square section of a tenth
    of its length, hang straight down at rest while gravity pulls askew (Eq. 79). Not printed, and
    chosen here: masses of L^3 [kg], as for one density, and a pin axis along y.
    """
    model = Model(gravity=(-5.0, -5.0 * 2**0.5, -5.0))
    links = []
    top = 0.0
    for name, length in (("upper", 1.0), ("middle", 2.0), ("lower", 2.5)):
        bar = box((length / 10, length / 10, length), mass=length**3)
        links.append(model.body(name, bar, position=(0.0, 0.0, top - length / 2)))
        top -= length
    upper, middle, lower = links
    model.spherical("shoulder", model.ground, upper, at=(0.0, 0.0, 0.0))
    model.spherical("elbow", upper, middle, at=(0.0, 0.0, -1.0))
    model.revolute("pin", middle, lower, at=(0.0, 0.0, -3.0), axis=(0.0, 1.0, 0.0))
    return model, {}


_LIGHT = 1e-9  # inertia of phi, as a part of mass length^2


@checked_call
def pendulum_with_spring(
    mass: float = 1.0,
    stiffness: float = 10.0,
    length: float = 1.0,
    angle: float = float(np.deg2rad(10.0)),
) -> tuple[FunctionSystem, Start]:
    """Point on a rod with a torsional spring at its root, without gravity, released at `angle`.

    Bauchau, Epple and Bottasso 2009, Section 5, problem II: the point's x, y and the rotation phi
    of the root; two constraints, the rod's length and the definition of phi. phi = 0 is straight
    down, and phi'' = -stiffness / (mass length^2) phi.

    **Arguments:** `mass` [kg], `stiffness` [N m/rad], `length` [m], `angle` [rad].

    In the paper phi has no inertia. The equations of motion here need the inverse of the mass
    matrix, so phi is given 1e-9 of mass length^2. Over five periods that changes angle and
    multipliers by 2e-8 of their amplitudes; with 1e-12 the rounding of so light a coordinate's
    acceleration would begin to show (4e-9 with RK4).
    """
    owner = "pendulum_with_spring"
    mass = finite_number(owner, "mass", mass, positive=True)
    stiffness = finite_number(owner, "stiffness", stiffness, positive=True)
    length = finite_number(owner, "length", length, positive=True)
    angle = finite_number(owner, "angle", angle)

    def constraint(q: Array, t: Array, p: dict[str, Array]) -> Array:
        x, y, phi = q
        return jnp.array([x * x + y * y - p["l"] ** 2, x * jnp.cos(phi) + y * jnp.sin(phi)])

    system = FunctionSystem(
        mass=lambda q, p: p["m"] * jnp.array([1.0, 1.0, _LIGHT * p["l"] ** 2]),
        force=lambda q, v, t, p: jnp.array([0.0, 0.0, -p["k"] * q[2]]),
        constraint=constraint,
        potential=lambda q, p: 0.5 * p["k"] * q[2] ** 2,
        parameters={"m": mass, "k": stiffness, "l": length},
        coordinate_names=["x", "y", "phi"],
        constraint_names=["rod", "root"],
    )
    start = [length * np.sin(angle), -length * np.cos(angle), angle]
    return system, consistent(system, start, hold=["phi"])


@described
def stiff_double_pendulum(*, stiffness: float = 3e5, damping: float = 5e4) -> tuple[Model, Options]:
    """Planar double pendulum with torsional springs and dampers in both joints, the second stiff.

    Haug, Negrut and Iancu 1997, Section 4.1: two rods of 2 m and 3 kg, the upper one hanging at
    rest, the lower one level and turning at 10 rad/s. Stiffnesses and dampings of the print are
    lost. Those chosen make explicit methods of second order need steps of about 0.12 ms, as
    reported: 400 N m/rad and 15 N m s/rad in the shoulder, relaxed at the start like the elbow's
    `stiffness` [N m/rad] and `damping` [N m s/rad].
    """
    model = Model(gravity=(0.0, -9.81))
    bar = rod(2.0, mass=3.0)
    upper = model.planar_body("upper", bar, position=(0.0, -1.0), angle=1.5 * np.pi)
    lower = model.planar_body(
        "lower",
        bar,
        position=(1.0, -2.0),
        angle=2.0 * np.pi,
        velocity=(0.0, 10.0),
        angular_velocity=10.0,
    )
    model.revolute("shoulder", model.ground, upper, at=(0.0, 0.0))
    model.revolute("elbow", upper, lower, at=(0.0, -2.0))
    model.torsion_spring("soft", joint="shoulder", stiffness=400.0, damping=15.0)
    model.torsion_spring("stiff", joint="elbow", stiffness=stiffness, damping=damping)
    return model, {}


@described
def heavy_top() -> tuple[Model, Options]:
    """Fast symmetric top on a ball joint, its axis level at the start.

    Geradin and Cardona 2001, in the form of Brüls, Cardona and Arnold 2012: 15 kg, the centre of
    mass 1 m from the tip, moments 0.234375 and, about the axis, 0.46875 kg m^2. The axis is the
    body's y; it starts along the world's y with 150 rad/s about it and -4.61538 rad/s about z.
    """
    model = Model(gravity=(0.0, 0.0, -9.81))
    top = model.body(
        "top",
        15.0,
        (0.234375, 0.46875, 0.234375),
        position=(0.0, 1.0, 0.0),
        velocity=(4.61538, 0.0, 0.0),
        angular_velocity=(0.0, 150.0, -4.61538),
    )
    model.spherical("tip", model.ground, top, at=(0.0, 0.0, 0.0))
    return model, {}
