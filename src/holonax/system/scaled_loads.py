"""Forces of a mechanism that are multiplied by one load factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .beam import BeamElement
from .cable import CableElement
from .elements import Element, Force, Group
from .mechanism import Mechanism

if TYPE_CHECKING:
    from jax import Array

    from ..rotation.vectors import Scalar
    from .frames import AnyFrame, Wrench

GRAVITY = "gravity"
_ON = " on "  # parts of one load are named after what they act on: "wind on beam[3]"


class ScaledForce(Force):
    """A force element, each of its group multiplied by its own `factor`."""

    element: Any
    factor: Any

    def wrenches(self, *frames: AnyFrame, t: Array) -> Sequence[Wrench]:
        """What the element applies, multiplied."""
        found = self.element.wrenches(*frames, t=t)
        return [(force * self.factor, torque * self.factor) for force, torque in found]

    def potential(self, *frames: AnyFrame, **more: Any) -> Scalar:
        """The energy that belongs to it."""
        return self.element.potential(*frames, **more) * self.factor


def load_names(system: Mechanism) -> list[str]:
    """The names of what can be multiplied by a load factor."""
    groups = (group for group in system.bodies.forces if _is_load(group.element))
    names = [name.partition(_ON)[0] for group in groups for name in group.names]
    gravity = [GRAVITY] if any(_is_not_zero(g) for g in system.bodies.gravity) else []
    return list(dict.fromkeys([*names, *gravity]))


def scaled(system: Mechanism, loads: Sequence[str], factor: float | Array) -> Mechanism:
    """The mechanism with the forces of these names multiplied by `factor`, which may be traced."""
    bodies = system.bodies
    forces = tuple(_scaled_group(group, loads, factor) for group in bodies.forces)
    gravity = bodies.gravity
    if GRAVITY in loads:
        gravity = tuple(factor * g for g in gravity)
    return replace(system, bodies=bodies.having(forces=forces, gravity=gravity))


def _scaled_group(group: Group, loads: Sequence[str], factor: float | Array) -> Group:
    chosen = np.array([_is_load(group.element) and _named(x, loads) for x in group.names])
    if not chosen.any():
        return group
    factors = jnp.where(chosen, factor, 1.0)
    return replace(group, element=ScaledForce(group.element, factors))


def _named(name: str, loads: Sequence[str]) -> bool:
    return name in loads or name.partition(_ON)[0] in loads


def _is_load(element: Element) -> bool:
    return not isinstance(element, BeamElement | CableElement)


def _is_not_zero(x: object) -> bool:
    return bool(np.any(np.asarray(x) != 0))
