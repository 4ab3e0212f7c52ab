"""Andrews' squeezing mechanism: seven planar bodies, one degree of freedom.

Data of Hairer and Wanner, Solving Ordinary Differential Equations II, Section VII.7 (Schiehlen
1990), in SI units and with their names. The bodies meet in the points O, F, E, A, B, G, H:

    O -1- F -2- E -3- B,    E -4- G -5- A,    E -6- H -7- A,    a spring from 3 to C,

where O, A, B and C are fixed.
"""

from __future__ import annotations

from typing import Literal, overload

import jax.numpy as jnp
import numpy as np
from jax import Array

from .._arguments import checked_call, choice
from ..model import Model
from ..start.consistent import Start, consistent, finite_number
from ..system import FunctionSystem
from ..system.mechanism import Mechanism
from .describing import MODELS, Options, run_as

_MASS = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
_INERTIA = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
_TORQUE, _FREE = 0.033, 0.07785
_XA, _YA, _XB, _YB, _XC, _YC = -0.06934, -0.00227, -0.03635, 0.03273, 0.014, 0.072
_D, _DA, _E, _EA, _RR, _RA = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
_SS, _SA, _SB, _SC, _SD = 0.035, 0.01874, 0.01043, 0.018, 0.02
_TA, _TB, _U, _UA, _UB = 0.02308, 0.00916, 0.04, 0.01228, 0.00449
_ZF, _ZT, _FA = 0.02, 0.04, 0.01421

# beta, theta, gamma, phi, delta, omega, epsilon
_START = (
    -0.0617138900142764496,
    0.0,
    0.455279819163070380,
    0.222668390165885885,
    0.487364979543842550,
    -0.222668390165885885,
    1.23054744454982119,
)


@overload
def andrews(
    coordinates: Literal["angles"] = "angles", *, stiffness: float = 4530.0, damping: float = 0.0
) -> tuple[FunctionSystem, Start]: ...


@overload
def andrews(
    coordinates: Literal["cartesian"], *, stiffness: float = 4530.0, damping: float = 0.0
) -> tuple[Mechanism, Start]: ...


@run_as(t_end=0.05)  # under its torque it turns ever faster: the test set ends at 0.03 s
@checked_call
def andrews(
    coordinates: Literal["angles", "cartesian"] = "angles",
    *,
    stiffness: float = 4530.0,
    damping: float = 0.0,
) -> tuple[FunctionSystem | Mechanism, Start]:
    """Andrews' seven-body squeezing mechanism, driven from rest by a torque of 0.033 N m.

    **Arguments:**

    - `coordinates`: ``"angles"`` for the seven angles beta, theta, gamma, phi, delta, omega,
      epsilon of Hairer and Wanner with six constraints; ``"cartesian"`` for the 21 coordinates of
      the bodies ``"K1"`` to ``"K7"`` with 20 constraints. The bodies' angles are then beta,
      beta + theta, gamma, phi + delta, delta, omega + epsilon, epsilon.
    - `stiffness` [N/m], `damping` [N s/m] of the spring between the third body and the ground.
      Haug, Negrut and Iancu 1997 make the mechanism stiff with 3e4 and 1e5.

    It starts at a dead point, where only beta can serve as the independent coordinate.
    """
    choice("andrews", "coordinates", coordinates, ("angles", "cartesian"))
    stiffness = finite_number("andrews", "stiffness", stiffness)
    damping = finite_number("andrews", "damping", damping)
    if coordinates == "angles":
        return _in_angles(stiffness, damping)
    model, options = _in_bodies(stiffness, damping)
    return model.build(**options)


def _in_angles(stiffness: float, damping: float) -> tuple[FunctionSystem, Start]:
    m1, m2, m3, m4, m5, m6, m7 = _MASS
    i1, i2, i3, i4, i5, i6, i7 = _INERTIA
    arm4, arm6 = _E - _EA, _ZF - _FA

    def mass(q: Array, p: dict[str, Array]) -> Array:
        ct, sp, so = jnp.cos(q[1]), jnp.sin(q[3]), jnp.sin(q[5])
        m01 = m2 * (_DA**2 - _DA * _RR * ct) + i2
        m34 = m4 * (arm4**2 + _ZT * arm4 * sp) + i4
        m56 = m6 * (arm6**2 - _U * arm6 * so) + i6
        o = 0.0
        m00 = m1 * _RA**2 + m2 * (_RR**2 - 2 * _DA * _RR * ct + _DA**2) + i1 + i2
        m44 = m4 * (_ZT**2 + 2 * _ZT * arm4 * sp + arm4**2) + m5 * (_TA**2 + _TB**2) + i4 + i5
        m66 = m6 * (arm6**2 - 2 * _U * arm6 * so + _U**2) + m7 * (_UA**2 + _UB**2) + i6 + i7
        return jnp.array(
            [
                [m00, m01, o, o, o, o, o],
                [m01, m2 * _DA**2 + i2, o, o, o, o, o],
                [o, o, m3 * (_SA**2 + _SB**2) + i3, o, o, o, o],
                [o, o, o, m4 * arm4**2 + i4, m34, o, o],
                [o, o, o, m34, m44, o, o],
                [o, o, o, o, o, m6 * arm6**2 + i6, m56],
                [o, o, o, o, o, m56, m66],
            ]
        )

    def spring(gamma: Array) -> tuple[Array, Array]:
        """Its length and the derivative of that by gamma."""
        s, c = jnp.sin(gamma), jnp.cos(gamma)
        x, y = _SD * c + _SC * s + _XB - _XC, _SD * s - _SC * c + _YB - _YC
        length = jnp.sqrt(x * x + y * y)
        return length, (x * (_SC * c - _SD * s) + y * (_SD * c + _SC * s)) / length

    def force(q: Array, v: Array, t: Array, p: dict[str, Array]) -> Array:
        st, cp, co = jnp.sin(q[1]), jnp.cos(q[3]), jnp.cos(q[5])
        length, slope = spring(q[2])
        pull = p["stiffness"] * (length - _FREE) + p["damping"] * slope * v[2]
        return jnp.array(
            [
                p["torque"] - m2 * _DA * _RR * v[1] * (v[1] + 2 * v[0]) * st,
                m2 * _DA * _RR * v[0] ** 2 * st,
                -pull * slope,
                m4 * _ZT * arm4 * v[4] ** 2 * cp,
                -m4 * _ZT * arm4 * v[3] * (v[3] + 2 * v[4]) * cp,
                -m6 * _U * arm6 * v[6] ** 2 * co,
                m6 * _U * arm6 * v[5] * (v[5] + 2 * v[6]) * co,
            ]
        )

    def constraint(q: Array, t: Array, p: dict[str, Array]) -> Array:
        beta, theta, gamma, phi, delta, om, eps = q
        x = _RR * jnp.cos(beta) - _D * jnp.cos(beta + theta)
        y = _RR * jnp.sin(beta) - _D * jnp.sin(beta + theta)
        return jnp.array(
            [
                x - _SS * jnp.sin(gamma) - _XB,
                y + _SS * jnp.cos(gamma) - _YB,
                x - _E * jnp.sin(phi + delta) - _ZT * jnp.cos(delta) - _XA,
                y + _E * jnp.cos(phi + delta) - _ZT * jnp.sin(delta) - _YA,
                x - _ZF * jnp.cos(om + eps) - _U * jnp.sin(eps) - _XA,
                y - _ZF * jnp.sin(om + eps) + _U * jnp.cos(eps) - _YA,
            ]
        )

    system = FunctionSystem(
        mass=mass,
        force=force,
        constraint=constraint,
        potential=lambda q, p: 0.5 * p["stiffness"] * (spring(q[2])[0] - _FREE) ** 2,
        parameters={"torque": _TORQUE, "stiffness": stiffness, "damping": damping},
        coordinate_names=["beta", "theta", "gamma", "phi", "delta", "omega", "epsilon"],
    )
    return system, consistent(system, _START, hold=["beta"])


def _in_bodies(stiffness: float = 4530.0, damping: float = 0.0) -> tuple[Model, Options]:
    beta, theta, gamma, phi, delta, omega, epsilon = _START
    angles = (beta, beta + theta, gamma, phi + delta, delta, omega + epsilon, epsilon)
    # Of each body: a point it turns about and where its centre of mass lies from there, in axes
    # that turn with the body's angle.
    centres = (
        (_RA, 0.0),  # K1 from O
        (-_DA, 0.0),  # K2 from F
        (_SB, -_SA),  # K3 from B
        (0.0, _EA - _E),  # K4 from G
        (_TA, _TB),  # K5 from A
        (_ZF - _FA, 0.0),  # K6 from H
        (_UB, -_UA),  # K7 from A
    )
    origins = {"O": (0.0, 0.0), "A": (_XA, _YA), "B": (_XB, _YB), "C": (_XC, _YC)}

    def turned(body: int, local: tuple[float, float]) -> np.ndarray:
        c, s = np.cos(angles[body - 1]), np.sin(angles[body - 1])
        return np.array([c * local[0] - s * local[1], s * local[0] + c * local[1]])

    points = {name: np.array(at) for name, at in origins.items()}
    points["F"] = points["O"] + turned(1, (_RR, 0.0))
    points["E"] = points["B"] + turned(3, (0.0, -_SS))
    points["G"] = points["A"] + turned(5, (_ZT, 0.0))
    points["H"] = points["A"] + turned(7, (0.0, -_U))
    points["D"] = points["B"] + turned(3, (_SD, -_SC))

    model = Model(gravity=(0.0, 0.0))
    for i, pivot in enumerate("OFBGAHA"):
        at = points[pivot] + turned(i + 1, centres[i])
        model.planar_body(f"K{i + 1}", _MASS[i], _INERTIA[i], position=at, angle=angles[i])
    pins = ["O:ground:K1", "F:K1:K2", "E:K2:K3", "B:ground:K3", "E:K2:K4", "G:K4:K5"]
    pins += ["A:ground:K5", "E:K2:K6", "H:K6:K7", "A:ground:K7"]
    for pin in pins:
        point, a, b = pin.split(":")
        model.revolute(f"{point} {a}-{b}", a, b, at=points[point])
    model.torque("drive", "K1", torque=_TORQUE)
    model.spring_damper(
        "spring",
        "ground",
        "K3",
        at=(points["C"], points["D"]),
        stiffness=stiffness,
        damping=damping,
        length=_FREE,
    )
    return model, {"hold": ["K1.angle"]}


MODELS["andrews"] = _in_bodies
