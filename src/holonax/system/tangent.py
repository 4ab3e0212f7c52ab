"""Newton's matrix of an implicit step on the equations of motion, by blocks of bodies and joints.

With a displacement dx of the bodies (translation; rotation in body axes) and multipliers dl of the
joints, both scaled by the step as the integrator says (`StepWeights`), it is

    [ K  G^T ] [dx]        K = M T^-1 + reach (dF/dx + ratio dF/dv T^-1)
    [ C   0  ] [dl]        F = G^T lam - f,  C = derivative of the constraints

with T the tangent map of the step's rotation vectors. K is made of one block for each body and one
for each pair of bodies that an element couples: a spring does, a revolute joint by its geometric
stiffness; a spherical joint and the hinges of the plane do not. Where these are all, a body's block
has its mass for the translations and a block of its own for the rotations.

There are two ways to solve with it. Where nothing couples bodies, each body is eliminated by
itself, all at once, and what remains is a Schur complement over the joints. Else, and once the
first way has failed its check, bodies and joints are eliminated together, a joint only after all of
its bodies, with rho s G^T C added to K and s times the constraints, after Bauchau, Epple and
Bottasso (2009), so that light bodies do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ..linalg import DenseBlockLU
from .base import Array
from .blocks import BlockPlan
from .dense import REJECTED
from .dependence import force_dependence
from .elements import Group
from .frames import PlanarFrame
from .tangent_blocks import Blocks, Coupling, moving_nodes, product, times
from .tangent_solvers import EachBody, Together, joint_elimination, whole_elimination

# Masses that differ more than this are not trusted to the elimination of each body by itself.
_LIGHT = 1e-8


class TangentPlan(eqx.Module):
    """Which bodies are coupled, and the planned eliminations; made by `TangentPlan.of`."""

    schur: Any
    together: Any
    couplings: tuple[Coupling, ...] = eqx.field(static=True)
    ends: Any = eqx.field(static=True)  # edges of the ends of joints, and which way they point
    crossings: Any = eqx.field(static=True)  # those of couplings
    alone: bool = eqx.field(static=True)  # whether bodies may be eliminated each by itself
    split: bool = eqx.field(static=True)  # whether translations have nothing but their mass
    quick: bool = eqx.field(static=True, default=True)  # whether faster ways may be tried

    @staticmethod
    def of(
        joints: Sequence[Group], forces: Sequence[Group], plan: BlockPlan, frame: Any, mass: Any
    ) -> TangentPlan:
        """Plan for the bodies of one kind with all of their joints and forces."""
        couplings = tuple(
            Coupling(k, i, j)
            for k, group in enumerate([*joints, *forces])
            for i, j in _coupled_nodes(group, frame)
        )
        known = not isinstance(mass, Tracer)
        light = known and bool(np.min(mass) <= _LIGHT * np.max(mass))
        n = mass.shape[0]
        together, ends, crossings = whole_elimination(joints, forces, couplings, plan, frame, n)
        alone = not couplings and not light
        groups = [*joints, *forces]
        return TangentPlan(
            joint_elimination(plan, joints),
            together,
            couplings,
            ends,
            crossings,
            alone,
            split=alone and all(_is_split(group, frame) for group in groups),
        )


def _coupled_nodes(group: Group, frame: Any) -> list[tuple[int, int]]:
    """Pairs of different nodes of a group where one's force depends on the other's motion."""
    nodes = moving_nodes(group)
    if len(nodes) < 2:
        return []
    depends = force_dependence(group, frame)
    return [
        (i, j)
        for j in nodes
        for i in nodes
        if i != j and any(k == j for x in depends[i] for k, _ in x)
    ]


def _is_split(group: Group, frame: Any) -> bool:
    """Whether forces do not depend on where a body is and how fast, and torques alone on how it is
    turned."""
    d = 2 if frame is PlanarFrame else 3
    depends = force_dependence(group, frame)
    for k in moving_nodes(group):
        moved = any((k, "moved") in x for x in depends[k])
        turned = any((k, "turned") in x for x in depends[k][:d])
        if moved or turned:
            return False
    return True


class TangentFactor:
    """Newton's matrix of one set of bodies, factored."""

    def __init__(self, bodies: Any, blocks: Blocks, inverse: Any, augment: Any, shift: bool):
        self._bodies, self._blocks, self._inverse = bodies, blocks, inverse
        plan = bodies.tangent
        maker = EachBody if plan.alone and augment is None else Together
        # few blocks are eliminated without what would couple them further, until that fails
        usual = 0.0 if plan.quick and isinstance(plan.together, DenseBlockLU) else 1.0
        self._factor = maker(bodies, blocks, usual if augment is None else augment, shift)

    def solve(self, motion: Array, constraints: Array) -> tuple[Array, Array]:
        """(T^-1 dx, dl) for right-hand sides of the equations of motion and the constraints.

        Not a number where the solution fails its check. A smaller error needs no refinement here:
        the next iteration of Newton's method, whose right-hand side is exact, is one.
        """
        dx, dl = self._factor.solve(motion, constraints)
        dx = jnp.where(self._solves(motion, constraints, dx, dl), dx, jnp.nan)
        return self._unturned(dx), dl

    def _solves(self, motion: Array, constraints: Array, dx: Array, dl: Array) -> Array:
        """Whether little is left of the right-hand sides, relative to the largest terms."""
        y, z = product(self._bodies, self._blocks, dx, dl)
        pull = self._bodies.apply_transpose(self._blocks.gradients, dl, "all")
        big = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731
        first = big(motion - y) <= REJECTED * jnp.maximum(big(motion), big(pull))
        second = big(constraints - z) <= REJECTED * jnp.maximum(big(constraints), big(dx))
        return first & second

    def _unturned(self, dx: Array) -> Array:
        if not self._inverse.size:
            return dx
        x = dx.reshape(self._bodies.dof, self._bodies.n)
        return jnp.concatenate([x[:3], times(self._inverse[..., 1:], x[3:])]).ravel()
