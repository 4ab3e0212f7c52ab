"""The stiffness of beam elements, from closed forms on blocks.

The screws h_i of the nodes, seen from the node of reference r, change with the nodes' twists as
dh_i = J_r^-1(h_i) xi_i - J_l^-1(h_i) xi_r (`rotation/screw.py`); F_i are the loads that do work on
them, and H their derivatives. With S, the matrix of dh by the increments of the nodes,

    K = S^T H S + (derivative of S^T F at constant F).

J^-T F = (P n, P m + B n), with P in place of its transpose for the node of reference, has the
derivatives

    [ 0        M(n)             ]     M(x) = d(P x)/dphi,
    [ M(n)     M(m) + dM(n)[u]  ]     dM[u] its derivative along u,

since B is the derivative of P along u. That is a fraction of the operations that differentiating
the forces to each increment of each node takes, and all elements of a group are done at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from ..rotation.screw import Helicoid, half_turn_coefficients
from .beam_interpolation import REFERENCE, points, strain_curvature

if TYPE_CHECKING:
    from jax import Array

    from ..rotation.vectors import Axes3
    from .beam import BeamElement, Components
    from .frames import Frame


def product(a: Any, b: Any) -> Any:
    """The matrix product over the first two axes."""
    return sum(a[:, k, None] * b[None, k] for k in range(b.shape[0]))


def _transposed(a: Array) -> Array:
    return jnp.swapaxes(a, 0, 1)


def _skew(v: Array) -> Array:
    zero = jnp.zeros_like(v[0])
    rows = ((zero, -v[2], v[1]), (v[2], zero, -v[0]), (-v[1], v[0], zero))
    return jnp.stack([jnp.stack(row) for row in rows])


def _outer(a: Array, b: Array) -> Array:
    return a[:, None] * b[None]


def _cross(a: Array, b: Array) -> Array:
    pairs = ((1, 2), (2, 0), (0, 1))
    return jnp.stack([a[i] * b[j] - a[j] * b[i] for i, j in pairs])


def _unit(like: Array) -> Array:
    return jnp.eye(3).reshape(3, 3, *[1] * (like.ndim - 1))


def _squares(screw: Helicoid) -> tuple[Array, Array]:
    """(P, B) with half = -1/2 as matrices (3, 3, ...)."""
    u, phi = jnp.stack([*screw.u]), jnp.stack([*screw.phi])
    x2, along, one = jnp.sum(phi * phi, axis=0), jnp.sum(u * phi, axis=0), _unit(u)
    square = _outer(phi, phi) - one * x2
    both = _outer(u, phi) + _outer(phi, u) - one * (2 * along)
    P = one - 0.5 * _skew(phi) + screw.c * square
    B = -0.5 * _skew(u) + screw.c * both + (2 * screw.slope * along) * square
    return P, B


def _slope_of_P(phi: Array, x: Array, half: float) -> Array:
    """d(P x)/dphi of P x = x + half phi x x + c phi x (phi x x)."""
    c, slope = half_turn_coefficients(jnp.sum(phi * phi, axis=0))
    turned = _cross(phi, x)
    inner = _outer(x, phi) - _unit(x) * jnp.sum(phi * x, axis=0)  # phi~ x~
    twice = _cross(phi, turned)
    return -half * _skew(x) - c * (_skew(turned) + inner) + _outer(twice, 2 * slope * phi)


def _slope_of_pulled(screw: Helicoid, n: Array, m: Array, half: float) -> Array:
    """The derivative of (P n, P m + B n) to the screw, (6, 6, ...)."""
    u, phi = jnp.stack([*screw.u]), jnp.stack([*screw.phi])
    of_n, change = jax.jvp(lambda x: _slope_of_P(x, n, half), (phi,), (u,))
    of_m = _slope_of_P(phi, m, half)
    return _square([[jnp.zeros_like(of_n), of_n], [of_n, of_m + change]])


def _square(blocks: list[list[Array]]) -> Array:
    return jnp.concatenate([jnp.concatenate(row, axis=1) for row in blocks])


def _hessian(element: BeamElement, screw: Helicoid, loads: Components) -> list[list[Array]]:
    """H: for nodes i, j but that of reference the block (6, 6, n) at [i][j]."""
    if element.order == 1:
        C = element.stiffness[0]
        if isinstance(C, tuple):
            diagonal = jnp.stack([jnp.broadcast_to(x, screw.c.shape[1:]) for x in C])
            return [[_outer_diagonal(diagonal / element.length)]]
        return [[jnp.moveaxis(C, 0, -1) / element.length]]
    value, slope = element.along([*screw.u, *screw.phi])
    E, curved = strain_curvature(jnp.stack([*value, *slope]), element.weighted(loads))
    at, order = points(element.order), range(element.order)
    total: list[list[Any]] = [[0.0 for _ in order] for _ in order]
    for k, (w, C) in enumerate(zip(element.weights(), element.stiffness, strict=True)):
        own = E[:, :, k]
        if isinstance(C, tuple):
            stiff = jnp.stack([w * c * row for c, row in zip(C, own, strict=True)])
        else:
            stiff = w * product(jnp.moveaxis(C, 0, -1), own)
        W = product(_transposed(own), stiff) + curved[:, :, k]
        by_value, by_slope = at.shapes[k], [x / element.length for x in at.slopes[k]]
        parts = ((by_value, slice(0, 6)), (by_slope, slice(6, 12)))
        for i in order:
            for j in order:
                for left, rows in parts:
                    for right, columns in parts:
                        total[i][j] = total[i][j] + left[i] * right[j] * W[rows, columns]
    return total


def _outer_diagonal(x: Array) -> Array:
    return jnp.eye(6)[:, :, None] * x[None]


@partial(jax.jit, static_argnums=0)
def beam_stiffness(n: int, element: BeamElement, nodes: Sequence[Frame]) -> list[list[Array]]:
    """The derivatives of what is to be pulled at node i to the increments of node j, (6, 6, n)."""
    a, b = element.reference(nodes)
    screw = element.screws(nodes)
    loads = element.section_force(*nodes)
    force, moment = (jnp.stack([*x]) for x in element.screw_loads(screw, loads))
    H = _hessian(element, screw, loads)
    P, B = _squares(screw)
    zero = jnp.zeros_like(P)
    own_axes, axes = _matrix(b.A), jnp.broadcast_to(_matrix(a.A)[:, :, None], P.shape)
    Pt, Bt = _transposed(P), _transposed(B)
    own = _square([[product(Pt, _transposed(own_axes)), Bt], [zero, Pt]])
    seen = -_square([[product(P, _transposed(axes)), B], [zero, P]])
    ends = ((own, own_axes, -0.5, 1.0), (seen, axes, 0.5, -1.0))
    # of each node and of the reference: S, and the derivative of S^T F by screw at constant F
    geometric, turns = [], []
    for _, A, half, sign in ends:
        G = sign * _slope_of_pulled(screw, force, moment, half)
        geometric.append(jnp.concatenate([product(A, G[:3]), G[3:]]))
        pulled = sign * _pulled(P if half < 0 else Pt, force)
        turns.append(-product(A, _skew(pulled)))  # A (theta x f)
    order, r = range(element.order), REFERENCE[element.order]
    place = [i for i in range(element.order + 1) if i != r]
    S, R = ([x[:, :, i] for i in order] for x in (own, seen))
    HS = [[product(H[i][j], S[j]) for j in order] for i in order]
    HR = [sum(product(H[i][j], R[j]) for j in order) for i in order]
    K: list[list[Any]] = [[None] * (element.order + 1) for _ in range(element.order + 1)]
    for i in order:
        for j in order:
            K[place[i]][place[j]] = product(_transposed(S[i]), HS[i][j])
        K[place[i]][place[i]] += product(geometric[0][:, :, i], S[i]) + _corner(turns[0][:, :, i])
        K[place[i]][r] = product(_transposed(S[i]), HR[i]) + product(geometric[0][:, :, i], R[i])
        K[r][place[i]] = sum(product(_transposed(R[j]), HS[j][i]) for j in order)
        K[r][place[i]] += product(geometric[1][:, :, i], S[i])
    K[r][r] = sum(
        product(_transposed(R[i]), HR[i])
        + product(geometric[1][:, :, i], R[i])
        + _corner(turns[1][:, :, i])
        for i in order
    )
    return K


def _pulled(P: Array, n: Array) -> Any:
    return sum(P[:, k] * n[k] for k in range(3))


def _corner(block: Array) -> Array:
    """A block (3, 3, n) for forces by rotations."""
    return jnp.pad(block, ((0, 3), (3, 0), (0, 0)))


def _matrix(A: Axes3) -> Array:
    return jnp.stack([jnp.stack([*column]) for column in (A.x, A.y, A.z)], axis=1)
