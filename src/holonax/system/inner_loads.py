"""Mechanisms whose springs, cables and beams carry other forces than their deformation makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .base import Array
from .mechanism import Mechanism

Inner = list[list[Any] | None]  # of each group of forces; None where there are none


def _inner_loads(system: Mechanism, q: Array, t: Array) -> Inner:
    frames = system.bodies.frames(q, jnp.zeros((system.bodies.velocity_size,)))
    found = []
    for group in system.bodies.forces:
        inner = group.element.inner_loads(*group.frames(frames), t=t)
        found.append(inner and [jnp.broadcast_to(x, (group.n,)) for x in inner])
    return found


def inner_rates(system: Mechanism, q: Array, t: Array, step: Array) -> Inner:
    """By how much the forces within springs, cables and beams change along a small motion `step`,
    (elements,) each."""
    moved = lambda x: _inner_loads(system, system.normalize(system.retract(q, x)), t)  # noqa: E731
    return jax.jvp(moved, (jnp.zeros_like(step),), (step,))[1]


def no_inner_loads(system: Mechanism, q: Any) -> Inner:
    """Zeros in the place of these forces."""
    found = jax.eval_shape(lambda x: _inner_loads(system, x, jnp.zeros(())), q)
    return jax.tree.map(lambda x: np.zeros(x.shape), found)


def with_inner_loads(system: Mechanism, loads: Inner) -> Mechanism:
    """The mechanism with these forces added to those of its springs, cables and beams."""
    forces = tuple(
        group if more is None else replace(group, element=group.element.preloaded(more))
        for group, more in zip(system.bodies.forces, loads, strict=True)
    )
    return replace(system, bodies=system.bodies.having(forces=forces))
