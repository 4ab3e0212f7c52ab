"""The solver of the linear equations of implicit steps of mechanisms, and what it plans ahead.

The equations are those of `step.py`. What y and s do to the equations of motion is made of one
block for each body and one for each pair of bodies that an element couples: a spring does, a
revolute joint by its geometric stiffness; a spherical joint and the hinges of the plane do not.
Where these are all, a body's block has its mass for the translations and a block of its own for
the rotations.

There are three ways to solve. Where nothing couples bodies, each body is eliminated by itself, all
at once, and what remains is a Schur complement over the joints. Few coupled bodies are gathered
into one dense matrix. Else, and once another way has failed its check, bodies and joints are
eliminated together on their graph, a joint only after all of its bodies, with rho s G^T C added to
the bodies and s times the constraints, after Bauchau, Epple and Bottasso (2009), so that light
bodies do no harm. Where fixed joints make the crossings of a net, their bodies are taken as one
(`tangent_welds.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._modules import Module
from ..linalg import BlockCholesky
from ..linalg.limits import COUPLED_ROWS
from .blocks import BlockPlan
from .dense import REJECTED
from .dependence import force_dependence
from .elements import Group
from .frames import PlanarFrame
from .step import Level, StepPoint, StepSolver, StepWeights
from .tangent_blocks import Coupling, Slopes, moving_nodes, spun, step_blocks, step_slopes
from .tangent_solvers import EachBody, constraints_times, joint_elimination, matrix_times
from .tangent_whole import Gathered, Together, WholePlan

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree

# Masses that differ more than this are not trusted to the elimination of each body by itself.
_LIGHT = 1e-8
# What a factor costs, in iterations that evaluate the elements and solve with it: the derivatives,
# and what comes to that for each product of blocks that an entry of the factor takes. Measured on
# nets of beams.
_DERIVATIVES, _PRODUCT = 4.0, 0.2
_ROUNDINGS = 16  # units in the last place that a sum of forces may be off by


class TangentPlan(Module):
    """Which bodies are coupled, and the planned eliminations; made by `TangentPlan.of`."""

    schur: Any
    together: Any
    couplings: tuple[Coupling, ...] = eqx.field(static=True)
    alone: bool = eqx.field(static=True)  # whether bodies may be eliminated each by itself
    split: bool = eqx.field(static=True)  # whether translations have nothing but their mass
    few: bool = eqx.field(static=True)  # whether all blocks may be gathered into one matrix
    quick: bool = eqx.field(static=True, default=True)  # whether the way was chosen by size

    @staticmethod
    def of(
        joints: Sequence[Group],
        forces: Sequence[Group],
        plan: BlockPlan,
        frame: type,
        mass: Any,
        *,
        weld: bool = True,
    ) -> TangentPlan:
        """Plan for the bodies of one kind with all of their joints and forces; `weld` allows bodies
        that joints hold entirely to be taken as one."""
        couplings = couplings_of(joints, forces, frame)
        known = not isinstance(mass, Tracer)
        light = known and bool(np.min(mass) <= _LIGHT * np.max(mass))
        n = mass.shape[0]
        few = (n + plan.joints) * max(frame.dof, plan.size) <= COUPLED_ROWS
        few = few and not isinstance(plan.solver, BlockCholesky)
        together = None
        if not few:
            together = WholePlan.of(joints, forces, couplings, plan, frame.dof, n, weld=weld)
        alone = not couplings and not light
        groups = [*joints, *forces]
        return TangentPlan(
            joint_elimination(plan),
            together,
            couplings,
            alone,
            split=alone and all(_is_split(group, frame) for group in groups),
            few=few,
        )

    @property
    def welded(self) -> bool:
        """Whether bodies that joints hold entirely are taken as one."""
        return self.together is not None and self.together.welds is not None

    def sturdier(self, bodies: Any) -> TangentPlan:
        """All bodies and joints on one graph, each by itself."""
        plan = self
        if self.welded:
            groups = bodies.joints, bodies.forces, bodies.plans["all"]
            plan = TangentPlan.of(*groups, bodies.frame, bodies.mass, weld=False)
        return replace(plan, alone=False, quick=self.quick)


def couplings_of(
    joints: Sequence[Group], forces: Sequence[Group], frame: type
) -> tuple[Coupling, ...]:
    """What elements couple."""
    return tuple(
        Coupling(k, i, j)
        for k, group in enumerate([*joints, *forces])
        for i, j in _coupled_nodes(group, frame)
    )


def _coupled_nodes(group: Group, frame: type) -> list[tuple[int, int]]:
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


def _is_split(group: Group, frame: type) -> bool:
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


class MechanismSolver(StepSolver):
    """Solves the linear equations of steps of a mechanism by its structure."""

    def __init__(self, bodies: Any, level: Level, augment: float | None):
        self._bodies, self._augment = bodies, augment
        if level == "both" and not bodies.joints:
            level = "velocity"  # nothing moves positions, so that s follows from y
        self._level: Level = level
        plan = bodies.tangent
        if plan.alone and augment is None:
            self._way: Any = EachBody(bodies, level)
        elif plan.few:  # row exchanges do what rho is for
            self._way = Gathered(bodies, level)
        else:
            self._way = Together(bodies, level, 1.0 if augment is None else augment)

    @property
    def way(self) -> Any:
        """What solves the equations of bodies and joints that is given their blocks."""
        return self._way

    @property
    def doubled(self) -> bool:
        return self._level == "both" and isinstance(self._way, Together)

    @property
    def products(self) -> float:
        solver = self._way.elimination
        return 1.0 if solver is None else max(solver.products, 1.0)

    def prepare(self, at: StepPoint, weights: StepWeights) -> PyTree:
        if weights.end is not None:
            return super().prepare(at, weights)
        parts = weights[:4]
        return _prepared(self._level, weights.still, self._bodies, self._augment, at, parts)

    @property
    def dear(self) -> bool:
        return isinstance(self._way, Together)

    @property
    def price(self) -> float:
        solver = self._way.elimination
        if solver is None or not solver.entry_count:
            return 0.0
        return _DERIVATIVES + _PRODUCT * solver.work / solver.entry_count

    def light(self, factor: PyTree) -> PyTree:
        return self._way.light(factor) if isinstance(self._way, Together) else factor

    def slopes(self, at: StepPoint, weights: StepWeights) -> Slopes:
        return step_slopes(self._bodies, self._level, at, weights)

    def factor(self, slopes: Slopes, weights: StepWeights) -> PyTree:
        return self._way.prepare(step_blocks(slopes, weights))

    def solve(
        self,
        factor: PyTree,
        motion: Array,
        constraints: Array,
        positions: Array | None,
        *,
        checked: bool = True,
    ) -> tuple[Array, Array, Array | None, Array]:
        """See `StepSolver.solve`.

        A smaller error than that of the check needs no refinement here: the next iteration of
        Newton's method, whose right-hand side is exact, is one.
        """
        sides = motion, constraints, positions
        return _solved(self._level, checked, self._bodies, self._augment, factor, sides)

    def _solve(self, factor: PyTree, sides: PyTree, checked: bool) -> PyTree:
        y, l, m = self._way.solve(factor, *sides)
        blocks, fine = factor[0], jnp.asarray(True)
        if checked and not isinstance(self._way, Gathered) and not jnp.iscomplexobj(y):
            fine = self._solves(factor, sides, (y, l, m))
        return spun(self._bodies, blocks.back, y), l, m, fine

    def _solves(self, factor: PyTree, sides: PyTree, found: PyTree) -> PyTree:
        """Whether little is left of the right-hand sides, relative to the largest terms.

        Where the translations of a body have nothing but their mass, all that can be wrong with its
        own equations is the inverse for its rotations.
        """
        motion, constraints, positions = sides
        y, l, _ = found
        bodies, blocks, big = self._bodies, factor[0], _largest
        if isinstance(self._way, EachBody) and bodies.tangent.split:
            got = constraints_times(bodies, blocks, *found)
            fine = factor[-1] <= REJECTED**2
        else:
            got = matrix_times(bodies, blocks, *found)
            pull = big(bodies.apply_transpose(blocks.pulls, l, "all"))
            allowed = REJECTED * jnp.maximum(big(motion), pull)
            if positions is not None or bodies.tangent.couplings:
                allowed = jnp.maximum(allowed, self._rounding(blocks, found))
            fine = big(motion - got[0]) <= allowed
        fine &= big(constraints - got[1]) <= REJECTED * jnp.maximum(big(constraints), big(y))
        if positions is not None:
            size = jnp.maximum(big(positions), big(y))
            fine &= big(positions - got[2]) <= REJECTED * size
        return fine

    def _rounding(self, blocks: PyTree, found: PyTree) -> Array:
        """What rounding may leave of the equations of motion. Near a solution all that is left is
        the rounding of positions, by which y and m move bodies to and fro: their forces cancel."""
        y, _, m = found
        moved = _largest(y) if m is None else jnp.maximum(_largest(y), _largest(m))
        couplings = (x for pair in blocks.couplings for x in pair)
        weights = [self._bodies.mass, blocks.inertia, blocks.stiffness, *couplings]
        heaviest = reduce(jnp.maximum, [_largest(x) for x in weights if x is not None])
        return _ROUNDINGS * jnp.finfo(y.dtype).eps * heaviest * moved


def _largest(x: Array) -> Array:
    return jnp.max(jnp.abs(x), initial=0.0)


# A step that is taken again for its derivative asks for these as well; inside a jit they are traced
# once.


@partial(jax.jit, static_argnums=(0, 1))
def _prepared(
    level: Level, still: bool, bodies: Any, augment: Any, at: StepPoint, parts: Any
) -> PyTree:
    solver, weights = MechanismSolver(bodies, level, augment), StepWeights(*parts, still=still)
    return solver.factor(solver.slopes(at, weights), weights)


@partial(jax.jit, static_argnums=(0, 1))
def _solved(
    level: Level, checked: bool, bodies: Any, augment: Any, factor: PyTree, sides: PyTree
) -> PyTree:
    return MechanismSolver(bodies, level, augment)._solve(factor, sides, checked)
