"""Unit quaternions e = (e0, e1, e2, e3), scalar part first, on components.

The rotation matrix takes body vectors to the world; the body-frame angular velocity w
drives the quaternion by e' = 1/2 e o (0, w).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .vectors import Axes3, Scalar, Vec3

Quaternion = tuple[Scalar, Scalar, Scalar, Scalar]


def quaternion_multiply(a: Quaternion, b: Quaternion) -> Quaternion:
    """Hamilton product a o b."""
    a0, a1, a2, a3 = a
    b0, b1, b2, b3 = b
    return (
        a0 * b0 - a1 * b1 - a2 * b2 - a3 * b3,
        a0 * b1 + a1 * b0 + a2 * b3 - a3 * b2,
        a0 * b2 - a1 * b3 + a2 * b0 + a3 * b1,
        a0 * b3 + a1 * b2 - a2 * b1 + a3 * b0,
    )


def quaternion_axes(e: Quaternion) -> Axes3:
    """The rotation matrix of a quaternion of unit length."""
    e0, e1, e2, e3 = e
    return Axes3(
        Vec3(1 - 2 * (e2 * e2 + e3 * e3), 2 * (e1 * e2 + e0 * e3), 2 * (e1 * e3 - e0 * e2)),
        Vec3(2 * (e1 * e2 - e0 * e3), 1 - 2 * (e1 * e1 + e3 * e3), 2 * (e2 * e3 + e0 * e1)),
        Vec3(2 * (e1 * e3 + e0 * e2), 2 * (e2 * e3 - e0 * e1), 1 - 2 * (e1 * e1 + e2 * e2)),
    )


def quaternion_rate(e: Quaternion, w: Vec3) -> Quaternion:
    """e' for the angular velocity `w` in body axes."""
    e0, e1, e2, e3 = e
    return (
        -0.5 * (e1 * w.x + e2 * w.y + e3 * w.z),
        0.5 * (e0 * w.x + e2 * w.z - e3 * w.y),
        0.5 * (e0 * w.y - e1 * w.z + e3 * w.x),
        0.5 * (e0 * w.z + e1 * w.y - e2 * w.x),
    )


def quaternion_exp(turn: Vec3) -> Quaternion:
    """The quaternion of the rotation vector `turn`; smooth and differentiable at zero."""
    n2 = turn.dot(turn)
    small = n2 < 1e-4
    safe = jnp.where(small, 1.0, n2)
    half = 0.5 * jnp.sqrt(safe)
    # Taylor series to 1e-17 for |turn| < 1e-2, where sin(x)/x loses its derivative.
    c = jnp.where(small, 1 - n2 / 8 + n2 * n2 / 384 - n2 * n2 * n2 / 46080, jnp.cos(half))
    s = jnp.where(
        small,
        0.5 - n2 / 48 + n2 * n2 / 3840 - n2 * n2 * n2 / 645120,
        0.5 * jnp.sin(half) / half,
    )
    return (c, s * turn.x, s * turn.y, s * turn.z)


def quaternion_rotated(e: Quaternion, turn: Vec3) -> Quaternion:
    """`e` followed by the rotation vector `turn` in body axes: e o exp(turn/2)."""
    return quaternion_multiply(e, quaternion_exp(turn))


def quaternion_normalized(e: Quaternion) -> Quaternion:
    """`e` scaled to unit length."""
    e0, e1, e2, e3 = e
    r = 1.0 / jnp.sqrt(e0 * e0 + e1 * e1 + e2 * e2 + e3 * e3)
    return (e0 * r, e1 * r, e2 * r, e3 * r)


def quaternion_log(e: Quaternion) -> Vec3:
    """The rotation vector (angle at most pi) of a unit quaternion."""
    e0, e1, e2, e3 = e
    sign = jnp.where(e0 < 0, -1.0, 1.0)
    c, v = sign * e0, Vec3(sign * e1, sign * e2, sign * e3)
    s2 = v.dot(v)
    small = s2 < 1e-6
    s = jnp.sqrt(jnp.where(small, 1.0, s2))
    # angle / sin(angle/2): series of 2 asin(s)/s near zero
    factor = jnp.where(small, 2 + s2 / 3 + 3 * s2 * s2 / 20, 2 * jnp.arctan2(s, c) / s)
    return v * factor


def rotation_vector_between(start: Quaternion, end: Quaternion) -> Vec3:
    """The rotation vector, in the axes of `start`, that takes `start` to `end`."""
    s0, s1, s2, s3 = start
    return quaternion_log(quaternion_multiply((s0, -s1, -s2, -s3), end))


def rotation_vector_rate(turn: Vec3, rate: Vec3) -> Vec3:
    """Body angular velocity of exp(turn) when the rotation vector changes at `rate`.

    w = rate - (1 - cos x)/x^2 turn x rate + (x - sin x)/x^3 turn x (turn x rate), x = |turn|.
    """
    n2 = turn.dot(turn)
    small = n2 < 1e-2
    x2 = jnp.where(small, 1.0, n2)
    x = jnp.sqrt(x2)
    b = jnp.where(
        small,
        1 / 2 - n2 / 24 + n2**2 / 720 - n2**3 / 40320 + n2**4 / 3628800,
        (1 - jnp.cos(x)) / x2,
    )
    c = jnp.where(
        small,
        1 / 6 - n2 / 120 + n2**2 / 5040 - n2**3 / 362880 + n2**4 / 39916800,
        (x - jnp.sin(x)) / (x2 * x),
    )
    first = turn.cross(rate)
    return rate - first * b + turn.cross(first) * c


def quaternion_from_axes(matrix: Any) -> np.ndarray:
    """Host side: unit quaternion of a 3x3 rotation matrix (Shepperd's stable branch)."""
    a = np.asarray(matrix, dtype=float)
    trace = np.trace(a)
    squares = np.array([trace, a[0, 0], a[1, 1], a[2, 2]])
    k = int(np.argmax(squares))
    e = np.empty(4)
    e[k] = 0.5 * np.sqrt(max(1 + 2 * squares[k] - trace, 0.0))
    f = 1 / (4 * e[k])
    skew = np.array([a[2, 1] - a[1, 2], a[0, 2] - a[2, 0], a[1, 0] - a[0, 1]])
    if k == 0:
        e[1:] = skew * f
    else:
        i, j, l = k - 1, k % 3, (k + 1) % 3
        e[0] = skew[i] * f
        e[j + 1] = (a[i, j] + a[j, i]) * f
        e[l + 1] = (a[i, l] + a[l, i]) * f
    return e / np.linalg.norm(e)
