"""Unit quaternions e = (e0, e1, e2, e3), scalar part first, on components.

The rotation matrix takes body vectors to the world; the body-frame angular velocity w
drives the quaternion by e' = 1/2 e o (0, w).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jax import lax

from .._numbers import as_array, namespace
from .vectors import Axes3, Scalar, Vec3

if TYPE_CHECKING:
    from jax import Array

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


# Functions of x^2 = |turn|^2 for a rotation vector, by series below this: accurate to rounding, and
# smooth at zero, where the closed forms lose their derivatives. In a step all rotations are small,
# and trigonometric functions take longer than anything else in it, so the closed forms are
# evaluated only when some rotation is larger. Of very many bodies they are evaluated always: no
# body can go on before all have been looked at, and to wait for memory once more takes longer.
_SERIES = 0.3
_MANY = 768


def _of_square(n2: Scalar, series: Sequence[Sequence[float]], closed: Any) -> tuple[Array, ...]:
    """Functions of n2, each given by the coefficients of its series and together in closed form."""

    def by_series(n2: Array) -> tuple[Array, Array]:
        return tuple(polynomial(n2, row) for row in series)

    def by_both(n2: Array) -> tuple[Array, ...]:
        small = n2 < _SERIES
        exact = closed(jnp.where(small, 1.0, n2))
        return tuple(jnp.where(small, a, b) for a, b in zip(by_series(n2), exact, strict=True))

    if jnp.size(n2) >= _MANY:
        return by_both(n2)
    return lax.cond(jnp.all(n2 < _SERIES), by_series, by_both, n2)


def polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """c_0 + c_1 x + c_2 x^2 + ..., after Horner."""
    total = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = c + x * total
    return total


def _alternating(first: int, scale: float, count: int) -> list[float]:
    """Coefficients scale^k (-1)^k / (2 k + first)! of cos, sin and their like."""
    return [(-scale) ** k / math.factorial(2 * k + first) for k in range(count)]


def quaternion_exp(turn: Vec3) -> Quaternion:
    """The quaternion of the rotation vector `turn`; smooth and differentiable at zero."""

    def closed(n2: Array) -> tuple[Array, Array]:
        half = 0.5 * jnp.sqrt(n2)
        return jnp.cos(half), 0.5 * jnp.sin(half) / half

    cosine = _alternating(0, 0.25, 8)
    sine = [0.5 * c for c in _alternating(1, 0.25, 8)]
    c, s = _of_square(turn.dot(turn), (cosine, sine), closed)
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

    def closed(n2: Array) -> tuple[Array, Array]:
        x = jnp.sqrt(n2)
        return (1 - jnp.cos(x)) / n2, (x - jnp.sin(x)) / (n2 * x)

    series = (_alternating(2, 1.0, 9), _alternating(3, 1.0, 9))
    b, c = _of_square(turn.dot(turn), series, closed)
    first = turn.cross(rate)
    return rate - first * b + turn.cross(first) * c


def rotation_vector_rate_inverse(turn: Vec3) -> list[list[Scalar]]:
    """The matrix that takes a body angular velocity to the rate of the rotation vector `turn`.

    1 + turn~/2 + c turn~ turn~,  c = (1 - x/2 cot(x/2)) / x^2,  x = |turn|; the inverse of
    `rotation_vector_rate`.
    """

    def closed(n2: Array) -> tuple[Array]:
        half = 0.5 * jnp.sqrt(n2)
        return ((1 - half * jnp.cos(half) / jnp.sin(half)) / n2,)

    (c,) = _of_square(turn.dot(turn), (_COTANGENT,), closed)
    x, y, z = turn
    return [
        [1 - c * (y * y + z * z), -0.5 * z + c * x * y, 0.5 * y + c * x * z],
        [0.5 * z + c * x * y, 1 - c * (x * x + z * z), -0.5 * x + c * y * z],
        [-0.5 * y + c * x * z, 0.5 * x + c * y * z, 1 - c * (x * x + y * y)],
    ]


# |B_2k|, k = 1, 2, ...: Bernoulli numbers
_BERNOULLI = (1 / 6, 1 / 30, 1 / 42, 1 / 30, 5 / 66, 691 / 2730, 7 / 6, 3617 / 510, 43867 / 798)
_COTANGENT = [b / math.factorial(2 * k + 2) for k, b in enumerate(_BERNOULLI)]


def quaternion_from_axes(matrix: Any) -> Any:
    """Unit quaternion of a 3x3 rotation matrix (Shepperd's stable branch); on the host unless
    traced."""
    xp, a = namespace(matrix), as_array(matrix)
    trace = xp.trace(a)
    squares = xp.array([trace, a[0, 0], a[1, 1], a[2, 2]])
    # Four times the products of any two of e0 ... e3; the largest square is one or more.
    products = [[None] * 4 for _ in range(4)]
    for k in range(4):
        products[k][k] = 1 + 2 * squares[k] - trace
    for i, j, l in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        products[0][i + 1] = products[i + 1][0] = a[l, j] - a[j, l]
        products[i + 1][j + 1] = products[j + 1][i + 1] = a[i, j] + a[j, i]
    e = xp.array(products)[xp.argmax(squares)]
    return e / xp.linalg.norm(e)
