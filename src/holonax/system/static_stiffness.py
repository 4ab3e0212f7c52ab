"""The stiffness of a mechanism at rest, summed up from its elements."""

from __future__ import annotations

from itertools import product

import jax.numpy as jnp
import numpy as np

from .assembly import BodySet
from .base import Array


def static_stiffness(bodies: BodySet, q: Array, t: Array, lam: Array) -> Array:
    """-d/dq [f - J^T lam] (nv, nv) at rest, multipliers fixed.

    Each element gives the derivatives of what it does to its few bodies, so that the cost grows
    with the number of elements and not with its square.
    """
    n, dof = bodies.n, bodies.dof
    frames = bodies.frames(q, jnp.zeros((dof * n,)))
    total = jnp.zeros((dof, n, dof, n))
    parts = [*bodies.split(lam, "all"), *([()] * len(bodies.forces))]
    for group, part in zip([*bodies.joints, *bodies.forces], parts, strict=True):
        nodes = range(len(group.nodes))
        pairs = [(i, j) for i, j in product(nodes, nodes) if i != j]
        by_pose, _ = group.force_derivatives(group.frames(frames), t, list(part), pairs)
        at = [np.eye(n + 1)[table.array(), 1:] for table in group.nodes]
        for (i, j), block in by_pose.items():
            total = total + jnp.einsum("abe,en,em->anbm", block, at[i], at[j])
    return total.reshape(dof * n, dof * n)
