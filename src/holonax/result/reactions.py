"""What the joints of a mechanism applied over a trajectory, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from ..compiler import native
from ..system.base import Array
from ..system.evaluation import DENSE, evaluated
from ..system.mechanism import Mechanism
from .interpolation import chunks
from .motion import rotation


@dataclass(frozen=True)
class Reaction:
    """What a joint applies to its second body: `force` [N] and `torque` [N m] over time."""

    force: np.ndarray
    torque: np.ndarray


def reaction(
    system: Mechanism,
    joint: str,
    t: np.ndarray,
    q: np.ndarray,
    lam: np.ndarray,
    axes: Literal["world", "joint"],
) -> Reaction:
    """Force and torque that `joint` applies to its second body at its point."""
    system.check_joint(joint, axes)
    a, b = dict(system.markers)[joint]
    wrench = _wrench(system, joint, t, q, lam)
    _, point, own_axes = system.place(joint)
    first, A = rotation(system, a, q), rotation(system, b, q)
    d = system.bodies.translations
    force, torque = wrench[:, :d], wrench[:, d:]
    if b and system.bodies.com is not None:
        point = point - np.asarray(system.bodies.com[b - 1])
    arm = np.einsum("nij,j->ni", A, point)
    if system.is_planar:
        torque = torque[:, 0] - (arm[:, 0] * force[:, 1] - arm[:, 1] * force[:, 0])
    else:
        torque = np.einsum("nij,nj->ni", A, torque) - np.cross(arm, force)
    if axes == "joint":
        frame = np.einsum("nij,jk->nik", first, own_axes)
        force = np.einsum("nji,nj->ni", frame, force)
        torque = torque if system.is_planar else np.einsum("nji,nj->ni", frame, torque)
    return Reaction(force, torque)


def _wrench(
    system: Mechanism, joint: str, t: np.ndarray, q: np.ndarray, lam: np.ndarray
) -> np.ndarray:
    """-J^T lam of one joint on its second body, (times, dof): world force, body torque."""
    s, body = system.bodies, dict(system.markers)[joint][1]
    nv = s.velocity_size
    if body == 0:
        return np.zeros((t.size, s.dof))
    own = np.array([name == joint for name in system.constraint_names(lam.shape[1])])
    if nv > DENSE or s.count < s.n:
        parts = chunks(t, q, np.where(own, lam, 0.0))
        return np.concatenate([_wrenches(system, np.int64(body), *x) for x in parts])[: t.size]
    columns = np.arange(s.dof) * s.n + body - 1
    out = np.zeros((t.size, s.dof))
    for part in np.split(np.arange(t.size), range(256, t.size, 256)):
        here = evaluated(system, t[part], q[part], np.zeros((part.size, nv)))
        G = here.jacobian[:, own][:, :, columns]
        out[part] = -np.einsum("nrc,nr->nc", G, lam[part][:, own])
    return out


@native(once=True)
def _wrenches(system: Mechanism, body: Array, t: Array, q: Array, lam: Array) -> Array:
    """-J^T lam on the body of this number, (times, dof): world force, body torque. One program for
    all joints: of the multipliers all but the rows of one are zero."""
    s = system.bodies

    def at(x: tuple[Array, Array, Array]) -> Array:
        t, q, lam = x
        blocks, parts = s.blocks(q, t, "all"), s.split(lam, "all")
        total = jnp.zeros((s.dof,))
        for group, block, part in zip(s.groups("all"), blocks, parts, strict=True):
            for node, table in zip(block, group.nodes, strict=True):
                load = jnp.sum(part[:, None] * node, axis=0)  # (dof, joints of the group)
                total = total - jnp.sum(jnp.where(np.array(table) == body, load, 0.0), axis=1)
        return total

    return jax.lax.map(at, (t, q, lam))
