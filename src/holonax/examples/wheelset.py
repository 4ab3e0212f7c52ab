"""A railway wheelset, whose creep forces depend on the normal forces between wheels and rails."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from .._arguments import checked_call
from ..start.consistent import Start, consistent
from ..system.base import Array
from ..system.function import FunctionSystem

Numbers = dict[str, Array]

NUMBERS = {
    "mass": 16.08,  # kg
    "spin_inertia": 0.0605,  # kg m^2, about the axle
    "turn_inertia": 0.366,  # kg m^2, about the other axes
    "gravity": 9.81,
    "speed": 30.0,  # m/s, of the vehicle
    "stiffness": 6400.0,  # N/m, of each of the suspension's springs, along x and z
    "lever": 0.19,  # m, of those along z
    "radius": 0.1,  # m, nominal, of the wheels
    "cone": 0.0262,  # rad, angle of the wheels
    "gauge": 0.1506,  # m, half the distance of the wheels
    "rail": 0.06,  # m, radius of the rails
    "friction": 0.12,
    "shear": 7.92e10,  # N/m^2
    "poisson": 0.28,
    "ellipse": 0.7115218,  # ratio of the semiaxes of the contact ellipses
    "ellipse_integral": 1.3537956,
    "along": 4.72772197,  # Kalker's coefficients
    "across": 4.27526987,
    "turning": 1.97203505,
    # m, off the rails: what the start of the test set leaves, and its index-2 equations keep
    "left_gap": 5.269749220326858e-10,
    "right_gap": -4.966841243847497e-10,
}


class _Contact(NamedTuple):
    """Where a wheel touches its rail.

    `xi` is the place along the axle, `psi` the angle on the wheel, R the radius of the wheel and
    `slope` its slope; G is the height of the rail, with its slope and curvature; `delta` the angle
    of the contact plane; `side` is 1 on the left, -1 on the right.
    """

    xi: Array
    psi: Array
    R: Array
    slope: Array
    G: Array
    rail_slope: Array
    rail_curvature: Array
    delta: Array
    side: float


def _contact(q: Array, p: Numbers, side: float) -> _Contact:
    """The wheel is a cone and the rail a circle, so it is found in closed form: the normal of the
    wheel has no component along the track, and is parallel to that of the rail."""
    x, _, _, theta, phi, _ = q
    st, ct, sp, cp = jnp.sin(theta), jnp.cos(theta), jnp.sin(phi), jnp.cos(phi)
    slope = -side * jnp.tan(p["cone"])
    # slope st cp = st sp cos(psi) + ct sin(psi)
    psi = jnp.arcsin(slope * st * cp / jnp.hypot(st * sp, ct)) - jnp.arctan2(st * sp, ct)
    s, c = jnp.sin(psi), jnp.cos(psi)
    rail_slope = (ct * sp * c - slope * ct * cp - st * s) / (slope * sp + cp * c)
    # of a circle, by its slope
    off = -side * rail_slope * p["rail"] / jnp.sqrt(1 + rail_slope**2)
    height = jnp.sqrt(p["rail"] ** 2 - off**2)
    touched = side * (p["gauge"] + p["rail"] * jnp.sin(p["cone"]) + off)
    # touched = x + xi ct cp + R (ct sp c - st s), with R = R_0 + slope xi
    across = ct * sp * c - st * s
    flat = p["radius"] + jnp.tan(p["cone"]) * p["gauge"]
    xi = (touched - x - flat * across) / (ct * cp + slope * across)
    tilt = ((slope * cp - sp * c) * ct + s * st) / (slope * sp + c * cp)
    return _Contact(
        xi=xi,
        psi=psi,
        R=flat + slope * xi,
        slope=slope,
        G=height - p["radius"] - jnp.cos(p["cone"]) * p["rail"],
        rail_slope=rail_slope,
        rail_curvature=-(p["rail"] ** 2) / height**3,
        delta=jnp.arctan(-side * tilt),
        side=side,
    )


def _gap(q: Array, p: Numbers, side: float) -> Array:
    """The height of the rail less that of the wheel, and less what it is at the start."""
    at, phi = _contact(q, p, side), q[4]
    gap = at.G - q[1] - at.xi * jnp.sin(phi) + at.R * jnp.cos(phi) * jnp.cos(at.psi)
    return gap - p["left_gap" if side > 0 else "right_gap"]


def _normals(left: _Contact, right: _Contact, push: Array) -> tuple[Array, Array]:
    """The normal forces, from the constraint forces `push` of both sides."""
    x = left.rail_slope * push[0] + right.rail_slope * push[1]
    y = -push[0] - push[1]
    a, b = left.delta, right.delta
    both = -jnp.sin(a + b)
    return (
        (jnp.cos(b) * x - jnp.sin(b) * y) / both,
        (-jnp.cos(a) * x - jnp.sin(a) * y) / both,
    )


def _creep(q: Array, v: Array, at: _Contact, normal: Array, p: Numbers) -> Array:
    """The generalized force of creep at one contact, after Kalker's linear theory with a smooth
    bound by Coulomb's."""
    phi = q[4]
    vx, vy, vz, turn, roll, spin = v
    turned = q[3] / jnp.cos(at.delta)
    st, ct = jnp.sin(turned), jnp.cos(turned)
    sp, cp, s, c = jnp.sin(phi), jnp.cos(phi), jnp.sin(at.psi), jnp.cos(at.psi)
    sd, cd = at.side * jnp.sin(at.delta), jnp.cos(at.delta)
    R, xi, V = at.R, at.xi, p["speed"]
    w = V / p["radius"] + spin
    # how fast the surfaces slip, and roll
    arm = xi * sp - R * cp * c
    slip = jnp.stack(
        [
            -w * R * (st * c + ct * sp * s)
            + vx
            - turn * (R * (st * sp * c + ct * s) + xi * st * cp)
            - roll * ct * arm,
            w * R * cp * s + vy + roll * (xi * cp + R * sp * c),
            -w * R * (ct * c - st * sp * s)
            + V
            + vz
            - turn * (xi * ct * cp + R * (ct * sp * c - st * s))
            + roll * st * arm,
        ]
    )
    rolling = 0.5 * jnp.linalg.norm(slip - 2 * jnp.stack([vx, vy, vz + V]))
    along = (st * slip[0] + ct * slip[2]) / rolling
    across = (ct * cd * slip[0] + sd * slip[1] - st * cd * slip[2]) / rolling
    turning = (cd * turn - sd * w) / rolling
    # the size of the contact ellipse
    curved = 0.5 / (R * jnp.sqrt(1 + at.slope**2))
    curved = curved - 0.5 * at.rail_curvature / (1 + at.rail_slope**2) ** 1.5
    load = 3 * jnp.abs(normal) * (1 - p["poisson"]) * p["ellipse_integral"]
    size = jnp.cbrt(load / (2 * jnp.pi * curved * p["shear"] * jnp.sqrt(p["ellipse"])))
    most, area = p["friction"] * normal, p["shear"] * size**2
    tx = -most * jnp.tanh(area * p["along"] * along / most)
    ty = -most * jnp.tanh(area * (p["across"] * across + size * p["turning"] * turning) / most)
    whole = jnp.sqrt(tx**2 + ty**2)
    share = jnp.minimum(1.0, jnp.abs(most) / jnp.where(whole > 0, whole, 1.0))
    tx, ty = share * tx, share * ty
    f = jnp.stack([st * tx + ct * cd * ty, sd * ty, ct * tx - st * cd * ty])
    return jnp.concatenate([f, _torque(q, at, f)])


def _torque(q: Array, at: _Contact, f: Array) -> Array:
    """Of a force at a contact, about the axes of theta, phi and spin."""
    theta, phi = q[3], q[4]
    st, ct, sp, cp = jnp.sin(theta), jnp.cos(theta), jnp.sin(phi), jnp.cos(phi)
    s, c, R, xi = jnp.sin(at.psi), jnp.cos(at.psi), at.R, at.xi
    arm = xi * sp - R * c * cp
    rows = [
        [-xi * st - R * s * ct * cp, -R * s * sp, -xi * ct + R * s * st * cp],
        [-ct * arm, xi * cp + R * c * sp, st * arm],
        [-R * (c * st + s * ct * sp), R * s * cp, -R * (c * ct - s * st * sp)],
    ]
    return jnp.stack([jnp.stack(row) for row in rows]) @ f


def _symmetric(torque: Array, phi: Array) -> Array:
    """Torques as the symmetric mass matrix has them: that about the turned vertical axis is cos phi
    times the first of the test set's and sin phi times the third."""
    first = jnp.cos(phi) * torque[0] + jnp.sin(phi) * torque[2]
    return jnp.stack([first, torque[1], torque[2]])


def _mass(q: Array, p: Numbers) -> Array:
    sp, cp = jnp.sin(q[4]), jnp.cos(q[4])
    spin, turn = p["spin_inertia"], p["turn_inertia"]
    own = [*[p["mass"]] * 3, turn * cp**2 + spin * sp**2, turn, spin]
    M = jnp.diag(jnp.stack([jnp.asarray(x) for x in own]))
    return M.at[3, 5].set(spin * sp).at[5, 3].set(spin * sp)


def _force(q: Array, v: Array, t: Array, p: Numbers) -> Array:
    """Weight, suspension and gyroscopic torques."""
    sp, cp = jnp.sin(q[4]), jnp.cos(q[4])
    turn, roll = v[3], v[4]
    w = p["speed"] / p["radius"] + v[5]
    spin, other = p["spin_inertia"], p["turn_inertia"]
    back = -2 * p["stiffness"] * p["lever"] ** 2 * q[3]
    torque = jnp.stack(
        [
            (2 * other - spin) * turn * roll * sp - spin * w * roll + cp * back,
            spin * w * turn * cp + (spin - other) * turn**2 * sp * cp,
            -spin * turn * roll * cp + sp * back,
        ]
    )
    pull = -2 * p["stiffness"] * jnp.stack([q[0], 0.0 * q[1], q[2]])
    weight = jnp.stack([0.0 * q[0], -p["mass"] * p["gravity"] + 0.0 * q[1], 0.0 * q[2]])
    return jnp.concatenate([pull + weight, _symmetric(torque, q[4])])


def _reaction_force(q: Array, v: Array, t: Array, lam: Array, p: Numbers) -> Array:
    """Creep, and what the test set's constraint forces have less about the vertical axis."""
    left, right = _contact(q, p, 1.0), _contact(q, p, -1.0)
    loads = _normals(left, right, -lam)
    total = _creep(q, v, left, loads[0], p) + _creep(q, v, right, loads[1], p)
    total = jnp.concatenate([total[:3], _symmetric(total[3:], q[4])])
    st, ct, sp, cp = jnp.sin(q[3]), jnp.cos(q[3]), jnp.sin(q[4]), jnp.cos(q[4])
    turned = [
        at.rail_slope
        * (at.R * (-ct * jnp.sin(at.psi) - jnp.cos(at.psi) * sp * st) - cp * st * at.xi)
        for at in (left, right)
    ]
    return total.at[3].add((cp - 1) * (jnp.stack(turned) @ -lam))


@checked_call
def wheelset() -> tuple[FunctionSystem, Start]:
    """A wheelset on a straight track at 30 m/s, held by springs, which hunts into its flanges.

    Test Set for IVP Solvers (Mazzia and Magherini 2008; Simeon, Führer, Rentrop 1991), an index-2
    problem of dimension 17: displacements x across the track, y upwards, z along it [m], the angles
    theta and phi [rad], and the spin of the axle, of which the velocity is the deviation beta from
    the nominal one. Two constraints keep conical wheels on round rails; where they touch follows in
    closed form. Creep forces depend on the normal forces, and these on the multipliers, which are
    the test set's times -1e4.
    """
    system = FunctionSystem(
        mass=_mass,
        force=_force,
        constraint=lambda q, t, p: jnp.stack([_gap(q, p, 1.0), _gap(q, p, -1.0)]),
        reaction_force=_reaction_force,
        parameters=NUMBERS,
        coordinate_names=["x", "y", "z", "theta", "phi", "spin"],
        constraint_names=["left rail", "right rail"],
    )
    start = [0.14941e-2, 0.40089e-6, 0.11241e-5, -0.28573e-3, 0.26459e-3, 0.0]
    return system, consistent(system, start)
