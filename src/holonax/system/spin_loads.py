"""What bodies feel that turn together about a fixed axis: seen from a frame that turns with them
they are at rest, under centrifugal forces and gyroscopic torques."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..rotation import Axes3, Vec3
from .elements import Force, Group, Indices
from .mechanism import Mechanism

if TYPE_CHECKING:
    from jax import Array

    from .frames import Frame, Wrench


class SpinLoad(Force):
    """m speed^2 times the distance from the axis, and -w x J w with w the spin in body axes.

    `grip` [N m/rad] resists a turn about the axis away from the axes `rest`. As the loads have no
    moment about the axis it does nothing in the end but hold what is free to turn.
    """

    mass: Any
    inertia: tuple[Any, ...]  # xx, yy, zz, xy, xz, yz
    axis: Vec3
    at: Vec3
    speed: Any
    grip: Any
    rest: Axes3

    def wrenches(self, a: Frame, *, t: Array) -> Sequence[Wrench]:
        """Of each body."""
        arm = a.r - self.at
        force = (arm - self.axis * arm.dot(self.axis)) * (self.mass * self.speed * self.speed)
        w = (a.A.T @ self.axis) * self.speed
        xx, yy, zz, xy, xz, yz = self.inertia
        spin = Vec3(
            xx * w.x + xy * w.y + xz * w.z,
            xy * w.x + yy * w.y + yz * w.z,
            xz * w.x + yz * w.y + zz * w.z,
        )
        pairs = ((self.rest.x, a.A.x), (self.rest.y, a.A.y), (self.rest.z, a.A.z))
        turn = 0.5 * sum(x.cross(y).dot(self.axis) for x, y in pairs)
        back = (a.A.T @ self.axis) * (self.grip * turn)
        return [(force, -w.cross(spin) - back)]


def spinning(
    system: Mechanism,
    spun: Sequence[int],
    axis: np.ndarray,
    at: np.ndarray,
    speed: float | Array,
    q: Array,
) -> Mechanism:
    """The mechanism with the loads of bodies `spun` (counted from 0) that turn about an axis."""
    bodies, chosen = system.bodies, np.array(spun)
    inertia = np.asarray(bodies.inertia)
    six = np.zeros((6, bodies.n))
    six[: inertia.shape[0]] = inertia
    frames = bodies.frames(q, jnp.zeros((bodies.dof * bodies.n,)))
    mass = np.asarray(bodies.mass)[chosen]
    one = np.ones(chosen.size)
    arms = np.stack([np.asarray(x)[1:][chosen] for x in frames.r], axis=-1) - at
    size = float(np.max(np.sum(arms * arms, axis=1))) + float(np.max(six[:3] / bodies.mass))
    grip = np.zeros(chosen.size)
    grip[0] = float(mass.sum()) * size * (1.0 + float(speed) ** 2)
    turned = (Vec3(*(x[1:][chosen] for x in y)) for y in (frames.A.x, frames.A.y, frames.A.z))
    element = SpinLoad(
        mass,
        tuple(six[:, chosen]),
        Vec3(*(x * one for x in axis)),
        Vec3(*(x * one for x in at)),
        speed * one,
        grip,
        Axes3(*turned),
    )
    names = tuple(f"spin of {bodies.names[i]}" for i in chosen)
    group = Group(element, (Indices.of(chosen + 1),), names, 0)
    return replace(system, bodies=replace(bodies, forces=(*bodies.forces, group)))
