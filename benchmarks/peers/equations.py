"""The slider-crank and Andrews' mechanism compiled by Numba, for solvers that take functions.

y = (q, v) for the ordinary equations of index 1; y = (q, v, lambda, mu) for Gear, Gupta and
Leimkuhler's form of index 2,

    q' = v - G' mu,   M v' = f - G' lambda,   G v = 0,   g = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from math import cos, sin, sqrt
from typing import Any, NamedTuple

import numba
import numpy as np

from ..problems import Andrews, SliderCrank


class Equations(NamedTuple):
    """One mechanism: `residual(t, y, yp, out)` of the GGL form, `motion(t, y, out)` of index 1."""

    n: int
    m: int
    t_end: float
    residual: Callable[..., None]
    motion: Callable[..., None]
    y0: np.ndarray
    yp0: np.ndarray
    error: Callable[[np.ndarray], float]  # of the states (times, 2 n and more)
    times: np.ndarray | None  # at which the error needs them; None: the end


# The slider-crank's parameters, as globals: constants to the compiler.
_r, _l, _a = SliderCrank.crank, SliderCrank.rod, SliderCrank.offset
_j1, _j2 = SliderCrank.crank_inertia, SliderCrank.rod_inertia
_m, _weight = SliderCrank.mass, SliderCrank.mass * SliderCrank.gravity


@numba.njit
def _slider_crank(q, v, mass, force, jacobian, position, curvature):
    s0, c0, s1, c1 = sin(q[0]), cos(q[0]), sin(q[1]), cos(q[1])
    mass[:] = 0.0
    mass[0, 0], mass[1, 1], mass[2, 2], mass[3, 3] = _j1, _j2, _m, _m
    force[:] = 0.0
    force[3] = -_weight
    jacobian[:] = 0.0
    jacobian[0, 0], jacobian[0, 1], jacobian[0, 2] = -_r * s0, -_a * s1, -1.0
    jacobian[1, 0], jacobian[1, 1], jacobian[1, 3] = _r * c0, _a * c1, -1.0
    jacobian[2, 1], jacobian[2, 3] = (_l - _a) * c1, 1.0
    position[0] = _r * c0 + _a * c1 - q[2]
    position[1] = _r * s0 + _a * s1 - q[3]
    position[2] = (_l - _a) * s1 + q[3]
    x, y = v[0] * v[0], v[1] * v[1]
    curvature[0] = -_r * c0 * x - _a * c1 * y
    curvature[1] = -_r * s0 * x - _a * s1 * y
    curvature[2] = -(_l - _a) * s1 * y


_m1, _m2, _m3, _m4, _m5, _m6, _m7 = (float(x) for x in Andrews.masses)
_i1, _i2, _i3, _i4, _i5, _i6, _i7 = (float(x) for x in Andrews.inertias)
_xa, _ya, _xb, _yb, _xc, _yc = (getattr(Andrews, k) for k in ("xa", "ya", "xb", "yb", "xc", "yc"))
_d, _da, _e, _ea, _rr, _ra = (getattr(Andrews, k) for k in ("d", "da", "e", "ea", "rr", "ra"))
_ss, _sa, _sb, _sc, _sd = (getattr(Andrews, k) for k in ("ss", "sa", "sb", "sc", "sd"))
_ta, _tb, _u, _ua, _ub = (getattr(Andrews, k) for k in ("ta", "tb", "u", "ua", "ub"))
_zf, _zt, _fa = Andrews.zf, Andrews.zt, Andrews.fa
_stiffness, _free, _torque = Andrews.stiffness, Andrews.free_length, Andrews.torque


@numba.njit
def _andrews(q, v, mass, force, jacobian, position, curvature):
    st, ct = sin(q[1]), cos(q[1])
    sp, cp = sin(q[3]), cos(q[3])
    so, co = sin(q[5]), cos(q[5])
    sg, cg = sin(q[2]), cos(q[2])
    sd, cd = sin(q[4]), cos(q[4])
    se, ce = sin(q[6]), cos(q[6])
    sb, cb = sin(q[0]), cos(q[0])
    sbt, cbt = sin(q[0] + q[1]), cos(q[0] + q[1])
    spd, cpd = sin(q[3] + q[4]), cos(q[3] + q[4])
    soe, coe = sin(q[5] + q[6]), cos(q[5] + q[6])
    arm4, arm6 = _e - _ea, _zf - _fa

    mass[:] = 0.0
    mass[0, 0] = _m1 * _ra**2 + _m2 * (_rr**2 - 2 * _da * _rr * ct + _da**2) + _i1 + _i2
    mass[0, 1] = mass[1, 0] = _m2 * (_da**2 - _da * _rr * ct) + _i2
    mass[1, 1] = _m2 * _da**2 + _i2
    mass[2, 2] = _m3 * (_sa**2 + _sb**2) + _i3
    mass[3, 3] = _m4 * arm4**2 + _i4
    mass[3, 4] = mass[4, 3] = _m4 * (arm4**2 + _zt * arm4 * sp) + _i4
    own5 = _m5 * (_ta**2 + _tb**2) + _i5
    mass[4, 4] = _m4 * (_zt**2 + 2 * _zt * arm4 * sp + arm4**2) + _i4 + own5
    mass[5, 5] = _m6 * arm6**2 + _i6
    mass[5, 6] = mass[6, 5] = _m6 * (arm6**2 - _u * arm6 * so) + _i6
    own7 = _m7 * (_ua**2 + _ub**2) + _i7
    mass[6, 6] = _m6 * (arm6**2 - 2 * _u * arm6 * so + _u**2) + _i6 + own7

    x, y = _sd * cg + _sc * sg + _xb - _xc, _sd * sg - _sc * cg + _yb - _yc
    length = sqrt(x * x + y * y)
    pull = -_stiffness * (length - _free) / length
    force[0] = _torque - _m2 * _da * _rr * v[1] * (v[1] + 2 * v[0]) * st
    force[1] = _m2 * _da * _rr * v[0] ** 2 * st
    force[2] = pull * (x * (_sc * cg - _sd * sg) + y * (_sd * cg + _sc * sg))
    force[3] = _m4 * _zt * arm4 * v[4] ** 2 * cp
    force[4] = -_m4 * _zt * arm4 * v[3] * (v[3] + 2 * v[4]) * cp
    force[5] = -_m6 * _u * arm6 * v[6] ** 2 * co
    force[6] = _m6 * _u * arm6 * v[5] * (v[5] + 2 * v[6]) * co

    x, y = _rr * cb - _d * cbt, _rr * sb - _d * sbt
    position[0] = x - _ss * sg - _xb
    position[1] = y + _ss * cg - _yb
    position[2] = x - _e * spd - _zt * cd - _xa
    position[3] = y + _e * cpd - _zt * sd - _ya
    position[4] = x - _zf * coe - _u * se - _xa
    position[5] = y - _zf * soe + _u * ce - _ya

    jacobian[:] = 0.0
    for k in range(0, 6, 2):
        jacobian[k, 0], jacobian[k, 1] = -_rr * sb + _d * sbt, _d * sbt
        jacobian[k + 1, 0], jacobian[k + 1, 1] = _rr * cb - _d * cbt, -_d * cbt
    jacobian[0, 2], jacobian[1, 2] = -_ss * cg, -_ss * sg
    jacobian[2, 3], jacobian[2, 4] = -_e * cpd, -_e * cpd + _zt * sd
    jacobian[3, 3], jacobian[3, 4] = -_e * spd, -_e * spd - _zt * cd
    jacobian[4, 5], jacobian[4, 6] = _zf * soe, _zf * soe - _u * ce
    jacobian[5, 5], jacobian[5, 6] = -_zf * coe, -_zf * coe - _u * se

    bt2, pd2, oe2 = (v[0] + v[1]) ** 2, (v[3] + v[4]) ** 2, (v[5] + v[6]) ** 2
    x, y = -_rr * cb * v[0] ** 2 + _d * cbt * bt2, -_rr * sb * v[0] ** 2 + _d * sbt * bt2
    curvature[0] = x + _ss * sg * v[2] ** 2
    curvature[1] = y - _ss * cg * v[2] ** 2
    curvature[2] = x + _e * spd * pd2 + _zt * cd * v[4] ** 2
    curvature[3] = y - _e * cpd * pd2 + _zt * sd * v[4] ** 2
    curvature[4] = x + _zf * coe * oe2 + _u * se * v[6] ** 2
    curvature[5] = y + _zf * soe * oe2 - _u * ce * v[6] ** 2


@numba.njit
def _cholesky(a):
    for j in range(a.shape[0]):
        for i in range(j, a.shape[0]):
            x = a[i, j]
            for k in range(j):
                x -= a[i, k] * a[j, k]
            a[i, j] = sqrt(x) if i == j else x / a[j, j]


def _make(terms: Any, n: int, m: int) -> tuple[Any, Any]:
    """The compiled residual of the GGL form and the right-hand side of index 1.

    The accelerations come from Cholesky factors of M and of G M^-1 G', without a call of LAPACK:
    for matrices as small as these that is several times faster.
    """

    @numba.njit
    def residual(t, y, yp, out):
        mass, force, jacobian = np.empty((n, n)), np.empty(n), np.empty((m, n))
        position, curvature = np.empty(m), np.empty(m)
        terms(y[:n], y[n : 2 * n], mass, force, jacobian, position, curvature)
        for i in range(n):
            out[i] = yp[i] - y[n + i]
            out[n + i] = -force[i]
            for j in range(m):
                out[i] += jacobian[j, i] * y[2 * n + m + j]
                out[n + i] += jacobian[j, i] * y[2 * n + j]
            for j in range(n):
                out[n + i] += mass[i, j] * yp[n + j]
        for j in range(m):
            out[2 * n + j] = 0.0
            for i in range(n):
                out[2 * n + j] += jacobian[j, i] * y[n + i]
            out[2 * n + m + j] = position[j]

    @numba.njit
    def motion(t, y, out):
        mass, force, jacobian = np.empty((n, n)), np.empty(n), np.empty((m, n))
        position, curvature = np.empty(m), np.empty(m)
        terms(y[:n], y[n : 2 * n], mass, force, jacobian, position, curvature)
        _cholesky(mass)
        half = np.empty((n, m))  # L^-1 G'
        for i in range(n):
            for k in range(i):
                force[i] -= mass[i, k] * force[k]
            force[i] /= mass[i, i]
            for j in range(m):
                x = jacobian[j, i]
                for k in range(i):
                    x -= mass[i, k] * half[k, j]
                half[i, j] = x / mass[i, i]
        schur = np.zeros((m, m))
        for i in range(m):
            for j in range(i + 1):
                for k in range(n):
                    schur[i, j] += half[k, i] * half[k, j]
            for k in range(n):
                curvature[i] += half[k, i] * force[k]
        _cholesky(schur)
        for i in range(m):
            for k in range(i):
                curvature[i] -= schur[i, k] * curvature[k]
            curvature[i] /= schur[i, i]
        for i in range(m - 1, -1, -1):
            for k in range(i + 1, m):
                curvature[i] -= schur[k, i] * curvature[k]
            curvature[i] /= schur[i, i]
        for i in range(n - 1, -1, -1):
            out[i] = y[n + i]
            x = force[i]
            for j in range(m):
                x -= half[i, j] * curvature[j]
            for k in range(i + 1, n):
                x -= mass[k, i] * out[n + k]
            out[n + i] = x / mass[i, i]

    return residual, motion


def _equations(
    terms: Any, q0: np.ndarray, m: int, t_end: float, error: Any, times: np.ndarray | None
) -> Equations:
    n = len(q0)
    residual, motion = _make(terms, n, m)
    y0, yp0 = np.zeros(2 * (n + m)), np.zeros(2 * (n + m))
    y0[:n] = q0
    motion(0.0, y0[: 2 * n], yp0[: 2 * n])
    mass, force, jacobian = np.empty((n, n)), np.empty(n), np.empty((m, n))
    terms(q0, np.zeros(n), mass, force, jacobian, np.empty(m), np.empty(m))
    rest = force - mass @ yp0[n : 2 * n]
    y0[2 * n : 2 * n + m] = np.linalg.lstsq(jacobian.T, rest, rcond=None)[0]
    residual(0.0, y0, yp0, np.empty_like(y0))  # compiles it
    return Equations(n, m, t_end, residual, motion, y0, yp0, error, times)


def slider_crank() -> Equations:
    """Four coordinates and three constraints; the error is that of 1001 samples."""
    return _equations(
        _slider_crank,
        SliderCrank.q0,
        3,
        SliderCrank.t_end,
        lambda y: SliderCrank.error(y[:, 0]),
        SliderCrank.times,
    )


def andrews() -> Equations:
    """Seven angles and six constraints; the error is that of the end."""
    return _equations(
        _andrews, Andrews.q0, 6, Andrews.t_end, lambda y: Andrews.error(y[-1, :7]), None
    )


def absolute_tolerances(equations: Equations, tolerance: float) -> np.ndarray:
    """Of the GGL form: multipliers are left out of the error, as their solvers advise.

    Velocities of Andrews' mechanism are a thousand times its angles, and so is their tolerance.
    """
    n = equations.n
    out = np.full(equations.y0.size, tolerance)
    out[2 * n :] = 1e6
    if equations.times is None:
        out[n : 2 * n] *= 1e3
    return out


MECHANISMS = {"slider-crank accuracy": slider_crank, "andrews accuracy": andrews}
