"""Mechanisms with bodies that have modes."""

from __future__ import annotations

import numpy as np

from ..model import BodyModes, Marker, Model, ShapeIntegrals
from .describing import Options, described, run_as


@run_as(t_end=0.1, rtol=1e-6)
@described
def modal_slider_crank() -> tuple[Model, Options]:
    """The slider-crank with a flexible connecting rod of the test set for IVP solvers.

    The rod of 0.3 m, a steel bar of 8 x 8 mm, has two sine functions across it (the first two
    modes) and a quadratic element along it (the middle and the end). The crank of 0.15 m turns at
    150 rad/s; the start is close to a motion without vibrations. Linear stiffness, no damping.

    B. Simeon, Modelling a flexible slider crank mechanism by a mixed system of DAEs and PDEs,
    Math. Modelling of Systems 2 (1996) 1-18; Test Set for IVP Solvers, release 2.4, "Slider crank".
    Data as there, its value of pi and its modal masses along the rod (8, 1, 2 times the mass, where
    the quadratic element has 8/15, 1/15, 2/15) among them. Gravity is left out, and of the crank,
    given by its moment about the bearing, the centre of mass was chosen in the middle.
    """
    pin, tip = 0.15, 0.450016933
    model = Model(gravity=(0.0, 0.0))
    model.planar_body(
        "crank", 0.36, 0.002727 - 0.36 * (pin / 2) ** 2, com=(pin / 2, 0.0), angular_velocity=150.0
    )
    model.planar_modal_body(
        "rod",
        _rod(),
        position=(pin, 0.0),
        velocity=(0.0, 22.5),
        angular_velocity=-74.9957670,
        amplitudes=(0.0, 0.0, 0.103339863e-4, 0.169327969e-4),
        rates=(0.444896105, 0.463434311e-2, -0.178591076e-5, -0.268938672e-5),
    )
    model.planar_body(
        "slider", 0.075552, 1e-5, position=(tip, 0.0), velocity=(-0.268938672e-5, 0.0)
    )
    model.revolute("main", "ground", "crank", at=(0.0, 0.0))
    model.revolute("big_end", "crank", "rod", at=(pin, 0.0))
    model.revolute("small_end", "rod.end", "slider", at=(tip, 0.0))
    model.prismatic("guide", "ground", "slider", at=(tip, 0.0), axis=(1.0, 0.0))
    model.drive_angle("motor", joint="main", angle="150 * t")
    return model, {}


def _rod() -> BodyModes:
    length, width, density, modulus = 0.30, 0.0080, 7870.0, 0.20e12
    pi = 3.1415927
    mass = density * width**2 * length
    stiff = modulus * width**2 / length
    slender = (width / length) ** 2
    own = np.zeros((4, 4))
    own[0, 0] = own[1, 1] = 0.5
    own[2:, 2:] = [[8.0, 1.0], [1.0, 2.0]]
    K = np.zeros((4, 4))
    K[0, 0], K[1, 1] = pi**4 / 24 * slender, pi**4 * 2 / 3 * slender
    K[2:, 2:] = [[16 / 3, -8 / 3], [-8 / 3, 7 / 3]]
    turned = np.zeros((4, 4))  # of phi_i x phi_j
    turned[0, 2], turned[0, 3], turned[1, 3] = -16 / pi**3, 8 / pi**3 - 1 / pi, 0.5 / pi
    integrals = ShapeIntegrals(
        0.151104,
        (0.151104 * length / 2, 0.0),
        0.0045339259,
        translation=mass * np.array([[0.0, 0.0, 2 / 3, 1 / 6], [2 / pi, 0.0, 0.0, 0.0]]),
        rotation=mass * length * np.array([1 / pi, -0.5 / pi, 0.0, 0.0]),
        modal_mass=mass * own,
        inertia_by_mode=2 * mass * length * np.array([0.0, 0.0, 1 / 3, 1 / 6]),
        inertia_by_modes=mass * own,
        rotation_by_mode=mass * (turned - turned.T),
    )
    # lateral displacement and slope at the middle, for pictures; the end moves along only
    middle = Marker(
        (length / 2, 0.0), [[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]],
        (0.0, -2 * pi / length, 0.0, 0.0),
    )  # fmt: skip
    root = Marker((0.0, 0.0), np.zeros((2, 4)), (pi / length, 2 * pi / length, 0.0, 0.0))
    end = Marker(
        (length, 0.0), [[0.0, 0.0, 0.0, 1.0], [0.0] * 4], (-pi / length, 2 * pi / length, 0.0, 0.0)
    )
    markers = {"root": root, "middle": middle, "end": end}
    return BodyModes(integrals=integrals, stiffness=stiff * K, markers=markers)
