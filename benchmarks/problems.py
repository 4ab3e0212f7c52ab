"""The mechanisms, their parameters in SI units, and how the error of a solution is defined.

Nothing here depends on a tool: every tool builds its model from these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .references import reference

STEP = 1e-3  # s, of all comparisons per step but that of Andrews' mechanism
RHO = 0.9  # spectral radius of every generalized-alpha
NEWTON_TOLERANCE = 1e-10


class SliderCrank:
    """Crank 0.3 m, rod 0.5 m with its centre 0.3 m from the crank pin, from rest, 10 s.

    Coordinates: angle of the crank, angle of the rod, x and y of the rod's centre. The error is
    the largest of the crank's angle [rad] over 1001 times.
    """

    crank, rod, offset = 0.3, 0.5, 0.3
    crank_inertia, rod_inertia, mass, gravity = 0.045, 33 / 4800, 1.0, 10.0
    angle = 0.9851
    t_end = 10.0
    times = np.linspace(0.0, t_end, 1001)

    rod_angle = -np.arcsin(crank * np.sin(angle) / rod)
    q0 = np.array(
        [
            angle,
            rod_angle,
            crank * np.cos(angle) + offset * np.cos(rod_angle),
            -(rod - offset) * np.sin(rod_angle),
        ]
    )
    slider = crank * np.cos(angle) + rod * np.cos(rod_angle)  # x of the sliding end at the start

    @staticmethod
    def error(angles: np.ndarray) -> float:
        """Of the crank's angle at `times`."""
        return float(np.max(np.abs(np.asarray(angles) - reference("slider-crank"))))

    @staticmethod
    def end_error(angle: float) -> float:
        """Of the crank's angle at the end, for runs that keep nothing else."""
        return float(abs(angle - reference("slider-crank")[-1]))


MANY_MASSES = SliderCrank.mass * np.linspace(1.0, 1.1, 1024)  # of the rods of many slider-cranks
PEER_RUNS = 16  # of these that a peer computes


class SpatialSliderCrank:
    """Haug's spatial slider-crank with the numbers of `holonax.examples`, 5 s.

    The error is that of the slider's place [m] at the end.
    """

    t_end = 5.0
    steps = round(t_end / STEP)

    @staticmethod
    def error(place: float) -> float:
        """Of the slider's x at the end."""
        return float(abs(place - reference("spatial slider-crank")))


class Gyroscope:
    """A heavy rotor, its centre off the gimbals' axes, in two gimbals: three bodies, three hinges.

    The outer gimbal turns about z, the inner one about x, the rotor about y, where it spins at the
    start, all else at rest; gravity is along -z. Moments of inertia are about each body's centre,
    which is the origin for the gimbals. The error is the distance of the rotor's axis, a unit
    vector, from where it should be after `t_end`.
    """

    outer_mass, outer_inertia = 0.5, (2e-3, 2e-3, 4e-3)
    inner_mass, inner_inertia = 0.3, (5e-4, 1e-3, 5e-4)
    rotor_mass, rotor_inertia = 1.0, (7e-4, 1.25e-3, 7e-4)
    offset, spin, gravity = 0.02, 200.0, 9.81  # m along y, rad/s, m/s^2
    t_end = 1.0

    @staticmethod
    def error(axis: Sequence[float]) -> float:
        """Of the rotor's axis at the end."""
        return float(np.linalg.norm(np.asarray(axis) - reference("gyroscope")))


class Andrews:
    """Andrews' squeezing mechanism, 0.03 s from rest; names of Hairer and Wanner, Section VII.7.

    Coordinates: beta, theta, gamma, phi, delta, omega, epsilon. The error is the largest relative
    one of the seven at the end.
    """

    masses = np.array([0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498])
    inertias = np.array([2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5])
    xa, ya, xb, yb, xc, yc = -0.06934, -0.00227, -0.03635, 0.03273, 0.014, 0.072
    stiffness, free_length, torque = 4530.0, 0.07785, 0.033
    d, da, e, ea, rr, ra = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
    ss, sa, sb, sc, sd = 0.035, 0.01874, 0.01043, 0.018, 0.02
    ta, tb, u, ua, ub = 0.02308, 0.00916, 0.04, 0.01228, 0.00449
    zf, zt, fa = 0.02, 0.04, 0.01421
    t_end = 0.03
    step = 1e-5  # s, of the comparison per step

    q0 = np.array(
        [
            -0.0617138900142764496,
            0.0,
            0.455279819163070380,
            0.222668390165885885,
            0.487364979543842550,
            -0.222668390165885885,
            1.23054744454982119,
        ]
    )
    # Extrapolation in extended precision; the published reference differs from it by 2.7e-10.
    q_end = np.array(
        [
            15.8107711951537127,
            -15.7563710584118457,
            0.040822240119645338,
            -0.534730116342080342,
            0.524409965879953921,
            0.534730116342080231,
            1.04808074104193749,
        ]
    )

    @classmethod
    def error(cls, q: np.ndarray) -> float:
        """Of the seven angles at the end."""
        return float(np.max(np.abs((np.asarray(q) - cls.q_end) / cls.q_end)))

    @classmethod
    def error_of_bodies(cls, angles: np.ndarray) -> float:
        """The same, from the absolute angles of the seven bodies."""
        k1, k2, k3, k4, k5, k6, k7 = np.asarray(angles)
        return cls.error(np.array([k1, k2 - k1, k3, k4 - k5, k5, k6 - k7, k7]))

    @classmethod
    def bodies(cls) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Angles (7,), centres of mass (7, 2) and named points of the bodies at the start."""
        beta, theta, gamma, phi, delta, omega, epsilon = cls.q0
        angles = np.array([beta, beta + theta, gamma, phi + delta, delta, omega + epsilon, epsilon])

        def turned(body: int, x: float, y: float) -> np.ndarray:
            c, s = np.cos(angles[body]), np.sin(angles[body])
            return np.array([c * x - s * y, s * x + c * y])

        points = {
            "O": np.zeros(2),
            "A": np.array([cls.xa, cls.ya]),
            "B": np.array([cls.xb, cls.yb]),
            "C": np.array([cls.xc, cls.yc]),
        }
        points["F"] = turned(0, cls.rr, 0.0)
        points["E"] = points["F"] + turned(1, -cls.d, 0.0)
        points["D"] = points["B"] + turned(2, cls.sd, -cls.sc)
        points["H"] = points["A"] + turned(4, cls.zt, 0.0)
        points["G"] = points["A"] + turned(6, 0.0, -cls.u)
        centres = np.array(
            [
                turned(0, cls.ra, 0.0),
                points["F"] + turned(1, -cls.da, 0.0),
                points["B"] + turned(2, cls.sb, -cls.sa),
                points["H"] + turned(3, 0.0, cls.ea - cls.e),
                points["A"] + turned(4, cls.ta, -cls.tb),
                points["G"] + turned(5, cls.zf - cls.fa, 0.0),
                points["A"] + turned(6, cls.ub, -cls.ua),
            ]
        )
        return angles, centres, points

    # (body, body, point) of the ten pins; -1 is the ground.
    pins = (
        (-1, 0, "O"),
        (-1, 2, "B"),
        (-1, 4, "A"),
        (-1, 6, "A"),
        (0, 1, "F"),
        (4, 3, "H"),
        (6, 5, "G"),
        (1, 2, "E"),
        (1, 3, "E"),
        (1, 5, "E"),
    )


class Joint(NamedTuple):
    """A spherical joint between two rods at a point of the world; -1 is the ground."""

    a: int
    b: int
    point: tuple[float, float, float]


@dataclass(frozen=True)
class Rods:
    """Equal rods (boxes of 1 m x 0.1 m x 0.1 m, 1 kg) on spherical joints, level and at rest.

    `headings` [rad] are the rods' directions in the x-y plane; gravity is along -z. The error is
    the distance [m] of the last rod's far end from where it should be at `t_end`.
    """

    length, width, mass, gravity = 1.0, 0.1, 1.0, 9.81
    axial_inertia = mass * width**2 / 6
    transverse_inertia = mass * (length**2 + width**2) / 12

    name: str
    centres: np.ndarray
    headings: np.ndarray
    joints: tuple[Joint, ...]
    t_end: float

    @property
    def steps(self) -> int:
        """Of the comparison per step."""
        return round(self.t_end / STEP)

    def error(self, end: np.ndarray) -> float:
        """Of the last rod's far end (x, y, z)."""
        return float(np.linalg.norm(np.asarray(end) - reference(self.name)))


def chain(n: int) -> Rods:
    """`n` rods in a row along x, hanging from the first."""
    joints = tuple(Joint(i - 1, i, (float(i), 0.0, 0.0)) for i in range(n))
    centres = np.array([[i + 0.5, 0.0, 0.0] for i in range(n)])
    return Rods(f"chain N={n}", centres, np.zeros(n), joints, t_end=1.0 if n < 1000 else 0.1)


class StiffChain:
    """`n` planar rods of 1 m and 1 kg in a row, hanging level from the first, on hinges with stiff
    damped torsion springs: a beam, as rigid bodies have it.

    The error is the largest distance [m] of one of the first rods' centres, which are those that
    bend, from where it should be after `t_end`.
    """

    length, mass, gravity = 1.0, 1.0, 9.81
    inertia = mass * length**2 / 12
    watched = 10  # rods
    stiffness, damping = 1e5, 1e3  # N m/rad, N m s/rad
    t_end = 0.5

    @staticmethod
    def error(n: int, centres: np.ndarray) -> float:
        """Of (watched, 2) centres at the end."""
        wrong = np.asarray(centres) - reference(f"stiff-chain N={n}")
        return float(np.max(np.linalg.norm(wrong, axis=1)))


def net(n: int) -> Rods:
    """Rods between the nodes of an n x n grid that hangs from the nodes of one side.

    The rods along that side would join fixed points and are left out, so that no constraint is
    redundant. The rods that meet in a node are joined to the first of them.
    """
    centres, headings = [], []
    meeting: dict[tuple[int, int], list[int]] = {}
    for i in range(n):
        for j in range(n):
            for di, dj in ((1, 0), (0, 1)):
                if i + di >= n or j + dj >= n or (j == 0 and dj == 0):
                    continue
                for node in ((i, j), (i + di, j + dj)):
                    meeting.setdefault(node, []).append(len(centres))
                centres.append([i + di / 2, j + dj / 2, 0.0])
                headings.append(np.pi / 2 * dj)
    joints = []
    for (i, j), rods in meeting.items():
        first = -1 if j == 0 else rods[0]
        others = rods if j == 0 else rods[1:]
        joints += [Joint(first, rod, (float(i), float(j), 0.0)) for rod in others]
    return Rods(f"net {n}x{n}", np.array(centres), np.array(headings), tuple(joints), t_end=0.1)


def tree(n: int) -> Rods:
    """A binary tree of `n` rods: two more rods at the end of each, 0.3 rad to either side."""
    headings, starts, joints = np.zeros(n), np.zeros((n, 3)), []
    along = lambda i: np.array([np.cos(headings[i]), np.sin(headings[i]), 0.0])  # noqa: E731
    for i in range(n):
        parent = (i - 1) // 2 if i else -1
        if i:
            headings[i] = headings[parent] + (0.3 if i % 2 else -0.3)
            starts[i] = starts[parent] + along(parent)
        joints.append(Joint(parent, i, tuple(float(x) for x in starts[i])))
    centres = starts + 0.5 * np.array([along(i) for i in range(n)])
    return Rods(f"tree {n}", centres, headings, tuple(joints), t_end=0.1)


class FourBars:
    """A row of n square four-bars of rods of 1 m and 1 kg, one degree of freedom.

    IFToMM library of multibody benchmarks, problem A02: cranks upright, their upper ends at 1 m/s.
    The error is that of the first crank's angle [rad] after `t_end`.
    """

    length, mass, gravity, speed = 1.0, 1.0, 9.81, 1.0
    inertia = mass * length**2 / 12
    t_end = 0.2
    steps = round(t_end / STEP)

    @classmethod
    def error(cls, n: int, angle: float) -> float:
        """Of the first crank's angle at the end."""
        return float(abs(angle - reference(f"n-four-bar N={n}")))


class Beam:
    """A cantilever of 1 m, a flat of 20 x 10 mm, soft and level, that is let go under its weight.

    The section's constants are given as numbers, so that all tools have the same. The error is the
    distance [m] of its tip after `t_end` from where that of ever more elements is.
    """

    length, gravity, t_end = 1.0, 9.81, 0.2
    steps = round(t_end / STEP)
    EA, GA, GJ, EI = 2000.0, (653.6, 653.6), 0.0176, (1 / 60, 1 / 15)  # N, N, N m^2, N m^2 (y, z)
    mass, inertia = 0.2, (8.333e-6, 1.667e-6, 6.667e-6)  # kg/m, kg m

    @staticmethod
    def error(tip: np.ndarray) -> float:
        """Of the tip (x, y, z) at the end."""
        return float(np.linalg.norm(np.asarray(tip) - reference("beam")))


class Cable:
    """A soft line of 10 m, level between two points, that is let go under its weight: `n` beams
    with the section of `Beam`.

    The error is the largest distance [m] of any of `places` after `t_end` from where those of ever
    more elements are.
    """

    length, t_end = 10.0, 0.2
    steps = round(t_end / STEP)
    places = 10  # parts of the line, at whose ends errors are looked at

    @staticmethod
    def error(places: np.ndarray) -> float:
        """Of positions (places + 1, 3) at the end."""
        apart = np.asarray(places) - reference("cable")
        return float(np.linalg.norm(apart, axis=-1).max())


class BeamNet:
    """n beams across n others, 0.1 m apart and with the section of `Beam`, fixed to one another at
    all crossings and to the ground at the corners, level, that are let go under their weight.

    There is one element between crossings. The error is the largest distance [m] of a crossing
    after `t_end` from where that of ever more elements is.
    """

    spacing, t_end = 0.1, 0.1
    steps = round(t_end / STEP)
    sizes = (10, 30)

    @staticmethod
    def crossings(n: int) -> list[tuple[int, int]]:
        """All of them, (along x, along y)."""
        return [(i, j) for i in range(n) for j in range(n)]

    @staticmethod
    def corners(n: int) -> list[tuple[int, int]]:
        """Those that are held."""
        return [(i, j) for i in (0, n - 1) for j in (0, n - 1)]

    @staticmethod
    def error(n: int, places: np.ndarray) -> float:
        """Of positions (crossings, 3) at the end."""
        apart = np.asarray(places) - reference(f"beam-net {n}x{n}")
        return float(np.linalg.norm(apart, axis=-1).max())
