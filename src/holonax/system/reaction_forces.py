"""Forces that depend on reactions: f(q, v, t) + r(q, v, t, lam).

Dry friction in a joint needs the load of that joint, creep between wheel and rail the normal force.
What a joint applies to its second body follows from its multipliers, -G^T lam of its rows, moved to
the joint's point; an element is given that of the joints it names. The equations of motion are then
linear in lam no more. With the factor of the saddle point, whose answer to a force is affine,

    s = (lam_0 + L r(s))_seen

is an equation for the few multipliers s that are seen, solved by Newton's method to rounding; where
it has no solution, as where friction locks a mechanism that is forced to move, there is none.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import optimization_barrier

from .._messages import listed
from .._modules import Module
from ..linalg import jacobian, lu, lu_solve
from ..rotation import Vec2, Vec3
from .elements import Element, Group, Indices, Scatter, components, take
from .frames import PlanarFrame

if TYPE_CHECKING:
    from .base import ConstraintFactor, System
    from .frames import AnyFrame

Array = jax.Array

_MOST_ITERATIONS = 40
_SMALL = 1e-13  # change of the multipliers, by their size, that ends the iteration
_ROUNDING = 1e-8  # below which a change that shrinks no more is rounding


class JointLoad(NamedTuple):
    """What a joint applies to its second body at its point, in world axes: force [N] and torque
    [N m], which in the plane is a number."""

    force: Any
    torque: Any


class ReactionForce(Element):
    """A force element that is given the reactions of joints.

    `points` are those of the joints, in their second bodies and from the centres of mass.
    """

    points: eqx.AbstractVar[tuple[Any, ...]]

    @abc.abstractmethod
    def wrenches(self, *frames: AnyFrame, **known: Any) -> Sequence[Any]:
        """wrenches(*frames, t=, loads=): for each body (force in world axes, torque in body axes),
        with a `JointLoad` for each joint it sees."""


class SeeingGroup(Module):
    """All reaction forces of one type, stacked as those of a `Group`.

    `sees[k]` are the names of the joints in the k-th place of each element, `bodies[k]` the frames
    of their second bodies.
    """

    element: Any
    nodes: tuple[Indices, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    sees: tuple[tuple[str, ...], ...] = eqx.field(static=True)
    bodies: tuple[Indices, ...] = eqx.field(static=True)

    def wrenches(
        self, frames: AnyFrame, t: Array, joints: Sequence[Group], parts: Sequence[Any]
    ) -> Sequence[Any]:
        """For each node (dof, elements), from the frames of all bodies and the multipliers of
        each group of joints."""
        n = len(self.names)
        loads = [
            self._load(k, take(frames, self.bodies[k]), frames, t, joints, parts)
            for k in range(len(self.sees))
        ]
        local = [take(frames, table) for table in self.nodes]
        out = self.element.wrenches(*local, t=t, loads=loads)
        return [jnp.stack(components(wrench, n)) for wrench in out]

    def _load(
        self,
        k: int,
        own: AnyFrame,
        frames: AnyFrame,
        t: Array,
        joints: Sequence[Group],
        parts: Sequence[Array],
    ) -> JointLoad:
        """The reaction of the joint in the k-th place of each element; zero for one that is not
        there."""
        total: Any = jnp.zeros((own.dof, len(self.names)))
        for group, part in zip(joints, parts, strict=True):
            where = {name: i for i, name in enumerate(group.names)}
            at = [where.get(name, group.n) for name in self.sees[k]]
            if all(i == group.n for i in at):
                continue
            pulls = group.forces(group.frames(frames), t, list(part))
            for pull, table in zip(pulls, group.nodes, strict=True):
                # of the joint's nodes the one at its second body
                pairs = zip(at, self.bodies[k], strict=True)
                here = [i if i < group.n and table[i] == body else group.n for i, body in pairs]
                if any(i < group.n for i in here):
                    wide = jnp.pad(jnp.stack(pull), ((0, 0), (0, 1)))
                    total = total - jnp.take(wide, np.array(here), axis=-1)
        point = self.element.points[k]
        if isinstance(own, PlanarFrame):
            force = Vec2(total[0], total[1])
            return JointLoad(force, total[2] - (own.A @ point).cross(force))
        force = Vec3(*total[:3])
        return JointLoad(force, own.A @ Vec3(*total[3:]) - (own.A @ point).cross(force))


def seen_rows(groups: Sequence[SeeingGroup], joints: Sequence[Group]) -> Indices:
    """The multipliers that the groups depend on."""
    names = {name for group in groups for place in group.sees for name in place}
    rows = [name for g in joints for _ in range(g.rows) for name in g.names]
    return Indices.of(i for i, name in enumerate(rows) if name in names)


def accelerations(
    system: Any, factor: ConstraintFactor, q: Array, v: Array, t: Array, gamma: Array
) -> tuple[Array, Array]:
    """(v', lam) of M v' + G^T lam = f + r(lam) and G v' = gamma, with a factor of its matrix."""
    force = system.force(q, v, t)
    if not system.has_reaction_forces:
        return factor.solve(force, gamma)
    a, lam = factor.solve(force, gamma)
    rows = lam.shape[0]
    seen = system.seen_rows(rows)
    if not seen:
        return a, lam
    spread, alone = Scatter.plan(seen, rows), take(lam, seen)
    # the seen multipliers' answer to a force, (seen, nv): W G^T S^-1 is symmetric to S^-1 G W
    answer = lambda e: factor.spread(factor.multipliers(spread(e)))  # noqa: E731
    answers = optimization_barrier(jax.lax.map(answer, jnp.eye(len(seen))))

    def left(s: Array) -> Array:
        return s - alone - answers @ system.reaction_force(q, v, t, spread(s))

    s = _root(left, alone)
    da, dlam = factor.solve(system.reaction_force(q, v, t, spread(s)), jnp.zeros_like(gamma))
    return a + da, lam + dlam


def _root(function: Callable[[Array], Array], start: Array) -> Array:
    """Where a function of a vector vanishes; not a number if Newton's method finds no such place.
    It has the derivatives of the solution."""

    def change(s: Array) -> Array:
        twice = lambda x: (y := function(x), y)  # noqa: E731
        matrix, value = jacobian(twice, s, has_aux=True)
        return lu_solve(lu(matrix), value)

    def solve(_: object, s: Array) -> Array:
        large = lambda x: jnp.max(jnp.abs(x))  # noqa: E731

        def going(now: tuple[Array, Array, Array, Array]) -> Array:
            _, size, done, count = now
            return ~done & (count < _MOST_ITERATIONS) & (size < jnp.inf)

        def once(now: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            s, before, _, count = now
            step = change(s)
            s = s - step
            size, whole = large(step), large(s)
            stuck = (size <= _ROUNDING * whole) & (size > 0.3 * before)
            return s, size, (size <= _SMALL * whole) | stuck, count + 1

        begin = s, jnp.asarray(jnp.finfo(s.dtype).max), jnp.asarray(False), jnp.asarray(0)
        s, _, done, _ = jax.lax.while_loop(going, once, begin)
        return jnp.where(done, s, jnp.nan)

    def tangent_solve(linear: Callable[[Array], Array], y: Array) -> Array:
        return lu_solve(lu(jacobian(linear, jnp.zeros_like(y))), y)

    return jax.lax.custom_root(function, start, solve, tangent_solve)


def unsolved(system: System) -> tuple[str, str]:
    """What is said where the equations with reaction forces have no solution, and advice."""
    return (
        f"no reactions agree with {listed(system.reaction_force_names(), 4)}, which depends on "
        "them: it locks a motion that other forces or drivers insist on, or several solutions meet",
        "Lower its coefficient, or give the bodies it acts on some compliance",
    )


def refuse_reaction_forces(owner: str, system: System) -> None:
    """Refuse a system with forces that depend on reactions, by their names."""
    if system.has_reaction_forces:
        raise ValueError(
            f"{owner}: {listed(system.reaction_force_names(), 4)} depends on reactions, which "
            f"{owner} does not solve for. Leave it out there; simulate and trajectory take it."
        )
