"""Elements of p + 1 nodes: how the section moves between them, and what strains that makes.

The nodes are seen from one of them, by the screws h_i = (u, phi) of the motions that lead there,
and these are interpolated by Lagrange's polynomials N_i of the length s (Crisfield and Jelenic
1999; Sonneville, Cardona, Bruls 2014 for two nodes). Then

    h(s) = sum N_i(s) h_i,     strain + strain at rest = J_r(h) h',

with the right tangent map of SE(3), J_r = [T  Q; 0  T]: T = 1 - b phi~ + e phi~ phi~ is that of
rotations, and Q its derivative along u (a screw is a rotation vector in dual numbers). What goes
in are motions of the nodes relative to one another, so the strains are those of every observer and
do not depend on the path. They are taken at p Gauss points: one less than full integration, which
neither locks nor adds motions without energy, and gives order 2 p at the ends of elements.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..rotation import Vec3
from ..rotation.quaternion import polynomial
from .beam_places import LOBATTO

if TYPE_CHECKING:
    from jax import Array

REFERENCE = {1: 0, 2: 1, 3: 1}  # the node that the others are seen from, by order

# (1 - cos x)/x^2 and (x - sin x)/x^3 in powers of x^2, and their slopes: to rounding for all
# angles up to pi
_TERMS = 13
_B, _E = (
    [(-1) ** k / math.factorial(2 * k + first) for k in range(_TERMS + 1)] for first in (2, 3)
)
_COEFFICIENTS = np.array(
    [row[:-1] for row in (_B, _E)] + [[k * x for k, x in enumerate(row)][1:] for row in (_B, _E)]
)


class Points(NamedTuple):
    """The Gauss points of an element of length 1: where they are (points,), their weights, and
    N_i and its slope there, (points, nodes but the one of reference)."""

    at: np.ndarray
    weights: np.ndarray
    shapes: np.ndarray
    slopes: np.ndarray


@cache
def points(order: int) -> Points:
    """Those of elements of an order."""
    x, w = np.polynomial.legendre.leggauss(order)
    at = (1 + x) / 2
    return Points(at, w / 2, *shapes(order, at))


def shapes(order: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """N_i and its slope at places from 0 to 1, of all nodes but the one of reference."""
    nodes = np.array(LOBATTO[order][0])
    values, slopes = [], []
    for i in range(order + 1):
        if i == REFERENCE[order]:
            continue
        others = np.delete(nodes, i)
        N = np.polynomial.Polynomial.fromroots(others) / np.prod(nodes[i] - others)
        values.append(N(at))
        slopes.append(N.deriv()(at))
    return np.stack(values, axis=-1), np.stack(slopes, axis=-1)


def mixed(weights: np.ndarray, x: Array) -> Any:
    """sum over i of weights[., i] x[i]: from nodes, the first axis, to points."""
    column = (weights.shape[0], *[1] * (x.ndim - 1))
    return sum(weights[:, i].reshape(column) * x[i] for i in range(weights.shape[1]))


def path_strain(u: Vec3, phi: Vec3, du: Vec3, dphi: Vec3) -> tuple[Vec3, Vec3]:
    """J_r(u, phi) (du, dphi): what the section measures of a screw that changes."""
    x2, along = phi.dot(phi), u.dot(phi)
    rows = [x.reshape(4, *[1] * x2.ndim) for x in _COEFFICIENTS.T]
    b, e, db, de = polynomial(x2, rows)  # pyright: ignore
    db, de = 2 * along * db, 2 * along * de
    turned = phi.cross(dphi)
    twice = phi.cross(turned)
    kappa = dphi - turned * b + twice * e
    moved = phi.cross(du) + u.cross(dphi)  # the derivative of `turned`
    gamma = du - moved * b + (u.cross(turned) + phi.cross(moved)) * e - turned * db + twice * de
    return gamma, kappa


def stacked_strain(x: Array) -> Array:
    """`path_strain` of an array (12, ...): u, phi and their slopes; to (6, ...)."""
    gamma, kappa = path_strain(Vec3(*x[:3]), Vec3(*x[3:6]), Vec3(*x[6:9]), Vec3(*x[9:]))
    return jnp.stack([*gamma, *kappa])


def strain_slope(x: Array, load: Array) -> Array:
    """The derivative of load . strain to the screw and its slope, (12, ...)."""
    return jax.vjp(stacked_strain, x)[1](load)[0]


def strain_curvature(x: Array, load: Array) -> tuple[Any, Any]:
    """(E, second derivatives of load . strain) at a point: (6, 12, ...) and (12, 12, ...)."""
    unit = jnp.eye(12)

    def along(seed: Array) -> Any:
        seed = jnp.broadcast_to(seed.reshape(12, *[1] * (x.ndim - 1)), x.shape)
        change = jax.jvp(stacked_strain, (x,), (seed,))[1]
        return change, jax.jvp(lambda y: strain_slope(y, load), (x,), (seed,))[1]

    return jax.vmap(along, out_axes=1)(unit)
