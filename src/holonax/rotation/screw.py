"""Rigid motions by their screw: the logarithm and exponential of SE(3), on components.

A motion (d, R), a translation d and a rotation R = exp(phi~), is the end of a helicoidal path with
the constant screw (u, phi), u the translation and phi the rotation vector per length of the path:

    d = V(phi) u,   V(phi)^-1 = P(phi) = 1 - phi~/2 + c phi~ phi~,   c = (1 - x/2 cot(x/2)) / x^2

with x = |phi|. If the end moves with the twist (velocity, angular velocity) e_b in its own axes and
the beginning with e_a in its own, the screw changes at the rate

    (u, phi)' = J_r^-1 e_b - J_l^-1 e_a,   J_l^-1 = [P  B],   J_r^-1 = [P^T  B^T],
                                                    [0  P]             [0    P^T]
    B = -u~/2 + c (phi~ u~ + u~ phi~) + 2 c' (u . phi) phi~ phi~,   c' = dc / d(x^2).

All of it is smooth where phi vanishes, and free of singularities for rotations below pi. Arrays of
NumPy are computed with NumPy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .._numbers import namespace
from .quaternion import polynomial
from .vectors import Axes3, Scalar, Vec3

# c = sum over k of 2 / ((2 k pi)^2 - x^2): the first terms as they are, the series of the others,
# which is accurate to rounding for all angles up to pi and beyond.
_POLES = (4 * math.pi**2, 16 * math.pi**2)
_TERMS = 12


def _beyond(power: int) -> float:
    """The sum of 2 / (2 k pi)^power over k = 3, 4, ..., for a power of 4 or more."""
    last = 200
    total = math.fsum((2 * k * math.pi) ** -power for k in range(3, last))
    tail = last / (power - 1) + 0.5 + power / (12 * last)  # Euler and Maclaurin
    return 2 * (total + tail * (2 * last * math.pi) ** -power)


_C = [1 / 12 - sum(2 / pole for pole in _POLES), *(_beyond(2 * k) for k in range(2, _TERMS + 1))]
_C_SLOPE = [k * c for k, c in enumerate(_C)][1:]


def half_turn_coefficients(x2: Scalar) -> tuple[Scalar, Scalar]:
    """(c, c') of x^2, for turns below pi."""
    a, b = (1 / (pole - x2) for pole in _POLES)
    return 2 * (a + b) + polynomial(x2, _C), 2 * (a * a + b * b) + polynomial(x2, _C_SLOPE)


def rotation_vector(R: Axes3) -> Vec3:
    """The rotation vector of a matrix, for turns below pi; smooth at zero."""
    xp = namespace(R.x.x)
    s = Vec3(R.y.z - R.z.y, R.z.x - R.x.z, R.x.y - R.y.x) * 0.5  # sin(angle) times the axis
    c = 0.5 * (R.x.x + R.y.y + R.z.z - 1)
    s2 = s.dot(s)
    small = (s2 < 1e-4) & (c > 0)
    root = xp.sqrt(xp.where(small, 1.0, s2))
    # angle / sin(angle): the series of asin(s)/s, to 1e-21 where it is used
    series = 1 + s2 * (1 / 6 + s2 * (3 / 40 + s2 * (15 / 336 + s2 * (105 / 3456))))
    return s * xp.where(small, series, xp.arctan2(root, xp.where(small, 0.0, c)) / root)


class Helicoid(NamedTuple):
    """The screw (u, phi) of a motion, with c and c' of its angle."""

    u: Vec3
    phi: Vec3
    c: Scalar
    slope: Scalar

    @staticmethod
    def of(d: Vec3, R: Axes3) -> Helicoid:
        """That of the translation `d`, in the axes one begins with, and the rotation `R`."""
        phi = rotation_vector(R)
        c, slope = half_turn_coefficients(phi.dot(phi))
        return Helicoid(_half_turned(phi, d, c, -0.5), phi, c, slope)

    def P(self, x: Vec3, half: float = -0.5) -> Vec3:
        """P x; P^T x with half = 1/2."""
        return _half_turned(self.phi, x, self.c, half)

    def B(self, x: Vec3, half: float = -0.5) -> Vec3:
        """B x; B^T x with half = 1/2."""
        u, phi = self.u, self.phi
        turned = phi.cross(x)
        across = phi.cross(u.cross(x)) + u.cross(turned)
        along = phi.cross(turned) * (2 * self.slope * u.dot(phi))
        return u.cross(x) * half + across * self.c + along

    def pulled(self, n: Vec3, m: Vec3, half: float) -> tuple[Vec3, Vec3]:
        """The wrench on the beginning (half = 1/2) or, with the opposite sign, on the end (-1/2)
        that does work as the load (n, m) does on the screw: force and torque in its own axes."""
        return self.P(n, half), self.B(n, half) + self.P(m, half)

    def rate(self, a: tuple[Vec3, Vec3], b: tuple[Vec3, Vec3]) -> tuple[Vec3, Vec3]:
        """(u', phi') for the twists of the beginning and of the end, each in its own axes."""
        (va, wa), (vb, wb) = a, b
        u = self.P(vb, 0.5) + self.B(wb, 0.5) - self.P(va) - self.B(wa)
        return u, self.P(wb, 0.5) - self.P(wa)


def _half_turned(phi: Vec3, x: Vec3, c: Scalar, half: float) -> Vec3:
    """x + half phi x x + c phi x (phi x x)."""
    turned = phi.cross(x)
    return x + turned * half + phi.cross(turned) * c


def screw_motion(u: Vec3, phi: Vec3) -> tuple[Vec3, Axes3]:
    """The translation and rotation (d, R) of a screw: the exponential."""
    x2 = phi.dot(phi)
    xp = namespace(x2)
    small = x2 < 1e-2
    safe = xp.where(small, 1.0, x2)
    x = xp.sqrt(safe)
    closed = (xp.sin(x) / x, (1 - xp.cos(x)) / safe, (x - xp.sin(x)) / (safe * x))
    rows = [[(-1) ** k / math.factorial(2 * k + first) for k in range(8)] for first in (1, 2, 3)]
    near = (polynomial(x2, row) for row in rows)
    a, b, e = (xp.where(small, p, q) for p, q in zip(near, closed, strict=True))

    def turned(v: Vec3) -> Vec3:
        first = phi.cross(v)
        return v + first * a + phi.cross(first) * b

    o, i = 0.0 * x2, 0.0 * x2 + 1.0
    R = Axes3(*(turned(v) for v in (Vec3(i, o, o), Vec3(o, i, o), Vec3(o, o, i))))
    first = phi.cross(u)
    return u + first * b + phi.cross(first) * e, R
