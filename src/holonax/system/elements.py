"""Elements: every joint and force is a pure local function of the few bodies it touches.

All elements of a type are stacked into one `Group` and evaluated at once on component vectors;
local derivatives come from forward-mode AD of the local function along the known tangents of the
frames. So a joint is one residual function, and G, gamma and every other derivative follow.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._modules import Module
from .._numbers import as_array
from ..linalg import derivative, linearized

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree

    from .frames import AnyFrame, Frame, PlanarFrame, Wrench

FEW = 32  # groups of at most this many elements are differentiated with compact programs


class Indices(tuple):
    """A static index table: hashable, compared by content."""

    __slots__ = ()

    @staticmethod
    def of(values: Any) -> Indices:
        """From a sequence of integers."""
        return Indices(int(x) for x in values)

    def array(self) -> np.ndarray:
        """As a numpy array."""
        return np.array(self, dtype=np.int32)

    def run(self) -> int | None:
        """The first entry if the table counts up by ones, else None."""
        first = self[0] if self else 0
        return first if all(x == first + i for i, x in enumerate(self)) else None


def take(x: PyTree, table: Indices) -> PyTree:
    """Entries `table` of each leaf's last axis: a slice where consecutive, else a gather."""
    first = table.run()
    n = len(table)
    if first is not None:
        return jax.tree.map(lambda leaf: leaf[..., first : first + n], x)
    index = table.array()
    return jax.tree.map(lambda leaf: jnp.take(leaf, index, axis=-1), x)


class Scatter(Module):
    """Sums values onto targets without XLA's scatter, which cannot be in a compiled small loop.

    Entry i of the values goes to target `targets[i]`. Where the targets are consecutive the
    values are padded; elsewhere each target gathers what belongs to it: the first few entries in
    layers over all targets, what the few busy ones have beyond that in rows of their own.
    """

    count: int = eqx.field(static=True)
    first: int | None = eqx.field(static=True)
    layers: tuple[Indices, ...] = eqx.field(static=True)
    busy: tuple[Indices, ...] = eqx.field(static=True)
    place: Indices = eqx.field(static=True)

    @staticmethod
    def plan(targets: Indices, count: int, *, ground: bool = False) -> Scatter:
        """For values with these targets out of `count`; with `ground`, what goes to target 0 is
        not wanted."""
        first = targets.run() if targets else 0
        if first is not None:
            return Scatter(count, first, (), (), Indices())
        found: list[list[int]] = [[] for _ in range(count)]
        for i, target in enumerate(targets):
            if target or not ground:
                found[target].append(i)
        depth = min(max(len(x) for x in found), _LAYERS)
        missing = len(targets)  # points at an appended zero
        layers = [Indices.of(x[k] if k < len(x) else missing for x in found) for k in range(depth)]
        rest = {target: x[depth:] for target, x in enumerate(found) if len(x) > depth}
        longest = max((len(x) for x in rest.values()), default=0)
        busy = [Indices.of([*x, *[missing] * (longest - len(x))]) for x in rest.values()]
        row = {target: k for k, target in enumerate(rest)}
        place = (
            Indices.of(row.get(target, len(rest)) for target in range(count)) if rest else Indices()
        )
        return Scatter(count, None, tuple(layers), tuple(busy), place)

    def __call__(self, values: Any) -> PyTree:
        """Sums over the last axis."""
        size = values.shape[-1]
        batch = [(0, 0)] * (values.ndim - 1)
        if self.first is not None:
            return jnp.pad(values, [*batch, (self.first, self.count - self.first - size)])
        if not self.layers:  # everything goes to the ground
            return jnp.zeros((*values.shape[:-1], self.count), values.dtype)
        padded = jnp.pad(values, [*batch, (0, 1)])
        total = sum(jnp.take(padded, layer.array(), axis=-1) for layer in self.layers)
        if self.busy:
            rows = np.stack([row.array() for row in self.busy])
            sums = jnp.sum(jnp.take(padded, rows, axis=-1), axis=-1)
            total = total + jnp.take(jnp.pad(sums, [*batch, (0, 1)]), self.place.array(), axis=-1)
        return total


_LAYERS = 8  # entries of a target that are gathered over all targets at once


class Element(Module):
    """Base of everything that acts between bodies.

    The functions below take any arguments as far as the type checker knows, so that an element
    may name the bodies it connects.
    """


class Constraint(Element):
    """A holonomic constraint between bodies, from one residual function of their frames."""

    @abc.abstractmethod
    def residual(self, *frames: AnyFrame, **time: Any) -> PyTree:
        """residual(*frames, t=): what vanishes, as a tuple of scalars or vectors (SI units)."""

    @property
    def drive_unit(self) -> str:
        """The unit of what a driver gives, "N" or "N m"; empty for what drives nothing."""
        return ""


class RateConstraint(Element):
    """A non-holonomic constraint, from one function linear in the bodies' velocities."""

    @abc.abstractmethod
    def rate(self, *frames: AnyFrame, **time: Any) -> PyTree:
        """rate(*frames, t=): what vanishes, as a tuple of scalars or vectors (SI units)."""


class Force(Element):
    """A force element: the wrenches it applies to the bodies it touches."""

    @abc.abstractmethod
    def wrenches(self, *frames: AnyFrame, **time: Any) -> Sequence[Wrench]:
        """wrenches(*frames, t=): for each body (force in world axes, torque in body axes)."""

    def potential(self, *frames: AnyFrame, **_: Any) -> float:
        """potential(*frames): the energy stored in the element [J]; zero unless it declares one."""
        return 0.0

    def stiffness_blocks(self, nodes: Sequence[AnyFrame], n: int) -> list[list[Any]] | None:
        """The derivatives of minus the wrench on node i to the increments of node j, (dof, dof, n),
        of elements that know them and that do not depend on velocities; else None."""
        return None

    def inner_loads(self, *frames: AnyFrame, **_: Any) -> list[Any] | None:
        """inner_loads(*frames, t=): the forces within a deformed element, at rest: of a spring, a
        cable, a beam's sections; None for others."""
        return None

    def preloaded(self, loads: list[Array]) -> Force:
        """The element with these constants added to its `inner_loads`; without such, itself."""
        return self


def components(value: PyTree, n: int) -> list[Array]:
    """The scalar components of a residual, each broadcast over the `n` elements of its group."""
    return [jnp.broadcast_to(leaf, (n,)) for leaf in jax.tree.leaves(value)]


class Group(Module):
    """All elements of one type, stacked: `element` has fields of shape (n,), `nodes` the bodies.

    `nodes[k][i]` is the frame that node k of element i attaches to; frame 0 is the ground.
    """

    element: Any
    nodes: tuple[Indices, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    rows: int = eqx.field(static=True)

    @property
    def n(self) -> int:
        """Number of elements."""
        return len(self.names)

    def without(self, names: Sequence[str]) -> Group | None:
        """The group without the elements of these names; None if nothing is left."""
        kept = [i for i, name in enumerate(self.names) if name not in names]
        if len(kept) == self.n:
            return self
        if not kept:
            return None
        index = np.array(kept)
        element = jax.tree.map(lambda x: x[index], self.element)
        nodes = tuple(Indices.of(table[i] for i in kept) for table in self.nodes)
        return Group(element, nodes, tuple(self.names[i] for i in kept), self.rows)

    def frames(self, frames: Frame | PlanarFrame) -> list[AnyFrame]:
        """The frames of each node, gathered from those of all bodies."""
        return [take(frames, table) for table in self.nodes]

    def _value(self, frames: Sequence[Frame | PlanarFrame], t: Array) -> list[Array]:
        return _residuals(self.n, self.element, list(frames), t)

    @property
    def is_holonomic(self) -> bool:
        """Whether the group constrains positions."""
        return isinstance(self.element, Constraint)

    def residual(self, frames: Sequence[Frame | PlanarFrame], t: Array) -> list[Array]:
        """g of each element, a list over rows."""
        return self._value(frames, t)

    def rate(self, frames: Sequence[Frame | PlanarFrame], t: Array) -> list[Array]:
        """G v + g_t, or A v + b, of each element."""
        if not self.is_holonomic:
            return self._value(frames, t)
        return self._derivative(self._value, frames, t)

    def gamma(self, frames: Sequence[Frame | PlanarFrame], t: Array) -> list[Array]:
        """The part of -d/dt(rate) that has no acceleration in it."""
        return [-x for x in self._derivative(self.rate, frames, t)]

    def _derivative(
        self, fun: Callable[..., PyTree], frames: Sequence[Frame | PlanarFrame], t: Array
    ) -> list[Array]:
        """d/dt of `fun` along the motion at constant velocity coordinates."""

        def at(poses: PyTree, time: Array) -> list[Array]:
            moved = [frame.with_pose(pose) for frame, pose in zip(frames, poses, strict=True)]
            return fun(moved, time)

        poses = [frame.pose for frame in frames]
        rates = [frame.pose_rate for frame in frames]
        t = jnp.asarray(t, dtype=float)
        return derivative(at, (poses, t), (rates, jnp.ones_like(t)))

    def jacobian(self, frames: Sequence[Frame | PlanarFrame], t: Array) -> list[Array]:
        """Local Jacobian blocks, for each node an array (rows, dof, elements)."""
        value = lambda moved: jnp.stack(self._value(moved, t))  # noqa: E731
        # one node after the other: fewer numbers are needed at once
        kind = [self.is_holonomic]
        return [self._blocks(value, frames, kind, [k])[0][0] for k in range(len(frames))]

    def rate_by_pose(self, frames: Sequence[AnyFrame], t: Array) -> list[Array]:
        """The derivative of `rate` to the poses of each node, (rows, dof, elements)."""
        value = lambda moved: jnp.stack(self.rate(moved, t))  # noqa: E731
        return self._blocks(value, frames, [True])[0]

    def acceleration_by_motion(
        self, frames: Sequence[AnyFrame], accelerations: Sequence[PyTree], t: Array
    ) -> tuple[list[Any], list[Any]]:
        """The derivatives of d/dt(rate), G a - gamma, to the poses and to the velocities of each
        node, (rows, dof, elements); `accelerations` are those of the coordinates (v, w) of the
        nodes."""
        t = jnp.asarray(t, dtype=float)

        def rate(poses: Any, rates: Any, time: Any) -> list[Array]:
            moved = zip(frames, poses, rates, strict=True)
            return self.rate([frame.with_pose(x).with_velocity(v) for frame, x, v in moved], time)

        def value(moved: Sequence[PyTree]) -> PyTree:
            at = [frame.pose for frame in moved], [frame.rates for frame in moved], t
            along = [frame.pose_rate for frame in moved], list(accelerations), jnp.ones_like(t)
            return jnp.stack(derivative(rate, at, along))

        by_pose, by_velocity = self._blocks(value, frames, [True, False])
        return by_pose, by_velocity

    def _blocks(
        self,
        fun: Callable[..., PyTree],
        frames: Sequence[Frame | PlanarFrame],
        kinds: Sequence[bool],
        nodes: Sequence[int] | None = None,
        first: int = 0,
    ) -> list[list[Array]]:
        """The derivatives of fun(frames), of shape (..., elements), to the increments of `nodes`
        (all of them if None), from the increment `first` on, (..., dof - first, elements): a list
        over these nodes for each kind, of poses where it is true, else of velocities."""
        nodes = range(len(frames)) if nodes is None else nodes
        if self.n > FEW:
            return [[self._columns(fun, frames, k, x, first) for k in nodes] for x in kinds]
        own = [frames[k] for k in nodes]

        def at(parts: PyTree) -> PyTree:
            moved = list(frames)
            for pose, values in zip(kinds, parts, strict=True):
                for k, x in zip(nodes, values, strict=True):
                    moved[k] = moved[k].with_pose(x) if pose else moved[k].with_velocity(x)
            return fun(moved)

        def column(seed: Array) -> PyTree:
            changes = []
            for pose, seeds in zip(kinds, seed, strict=True):
                moving = [f.moving(x) for f, x in zip(own, seeds, strict=True)]
                changes.append([f.pose_rate if pose else f.rates for f in moving])
            return along(changes)

        along = linearized(at, [[f.pose if pose else f.rates for f in own] for pose in kinds])[1]
        # all increments at once, their zeros seen by the compiler: the quickest to trace
        shape = len(kinds), len(own), own[0].dof - first
        size = int(np.prod(shape))
        seeds = np.pad(np.eye(size).reshape(size, *shape), (*[(0, 0)] * 3, (first, 0)))
        columns = jax.vmap(column, out_axes=-2)(jnp.asarray(seeds))
        columns = columns.reshape(*columns.shape[:-2], *shape, columns.shape[-1])
        return [[columns[..., i, k, :, :] for k in range(len(own))] for i in range(len(kinds))]

    def _columns(
        self,
        fun: Callable[..., PyTree],
        frames: Sequence[Frame | PlanarFrame],
        node: int,
        pose: bool,
        first: int,
    ) -> Array:
        """The derivative of fun(frames), of shape (..., elements), to the increments of one node's
        pose or velocity, from the increment `first` on: (..., dof - first, elements).

        One derivative for each increment, along what it moves only: the fastest to run for groups
        of many elements.
        """
        frame = frames[node]
        columns = []
        seeds = frame.increments() if pose else frame.velocity_increments()
        for active, tangent, rebuild in seeds[first:]:

            def at(c: PyTree, rebuild: Any = rebuild) -> PyTree:
                return fun([*frames[:node], rebuild(c), *frames[node + 1 :]])

            columns.append(jax.jvp(at, (active,), (tangent,))[1])
        return jnp.stack(columns, axis=-2)

    def forces(
        self, frames: Sequence[Frame | PlanarFrame], t: Array, lam: Sequence[Array]
    ) -> list[list[Array]]:
        """What the elements add to the left side of M a + ... = 0, for each node its components:
        J^T lam of constraints with multipliers `lam` (a list over rows), minus the wrenches of
        forces."""
        if isinstance(self.element, Force):
            return [[-x for x in wrench] for wrench in self.wrenches(frames, t)]
        return _constraint_forces(self.n, self.element, list(frames), t, list(lam))

    def _forces(
        self, frames: Sequence[Frame | PlanarFrame], t: Array, lam: Sequence[Array]
    ) -> list[list[Array]]:
        def power(moving: Sequence[PyTree]) -> PyTree:
            moved = [
                frame.with_pose(x) if self.is_holonomic else frame.with_velocity(x)
                for frame, x in zip(frames, moving, strict=True)
            ]
            return sum(x * y for x, y in zip(lam, self._value(moved, t), strict=True))

        at = [frame.pose if self.is_holonomic else frame.rates for frame in frames]
        pulled = jax.vjp(power, at)[1](jnp.ones((self.n,)))[0]
        if self.is_holonomic:
            return [frame.pulled(x) for frame, x in zip(frames, pulled, strict=True)]
        return [components(x, self.n) for x in pulled]

    def force_derivatives(
        self,
        frames: Sequence[AnyFrame],
        t: Array,
        lam: Sequence[Array],
        coupled: Sequence[tuple[int, int]],
        first: int = 0,
    ) -> tuple[dict[tuple[int, int], Any], dict[tuple[int, int], Any] | None]:
        """The derivatives of `forces` at node i to the pose and to the velocity of node j, for
        i = j and the `coupled` pairs (i, j): (dof, dof, elements), without the components and
        increments before `first`. Those of constraints do not depend on velocities: None."""
        known = None
        if isinstance(self.element, Force):
            known = self.element.stiffness_blocks(frames, self.n)
        if known is not None:
            wanted = [*((i, i) for i in range(len(frames))), *coupled]
            return {(i, j): known[i][j][first:, first:] for i, j in wanted}, None
        kinds = [True, False] if isinstance(self.element, Force) else [True]
        found: list[dict[tuple[int, int], Any]] = [{} for _ in kinds]
        for j in range(len(frames)):
            rows = [j, *(i for i, k in coupled if k == j)]

            def stacked(moved: Sequence[PlanarFrame], rows: list[int] = rows) -> PyTree:
                local = self.forces(moved, t, lam)
                parts = [components(local[i][first:], self.n) for i in rows]
                return jnp.stack([jnp.stack(x) for x in parts])

            blocks = self._blocks(stacked, frames, kinds, [j], first)
            for out, (block,) in zip(found, blocks, strict=True):
                out.update({(i, j): block[k] for k, i in enumerate(rows)})
        return found[0], found[1] if len(found) == 2 else None

    def wrenches(
        self, frames: Sequence[Frame | PlanarFrame], t: float | Array
    ) -> list[list[Array]]:
        """Generalized forces of a force group: for each node its components over the elements."""
        return _wrenches(self.n, self.element, list(frames), t)

    def potential(self, frames: Sequence[Frame | PlanarFrame]) -> Array:
        """Energy stored in all elements of a force group [J]."""
        return jnp.sum(jnp.broadcast_to(self.element.potential(*frames), (self.n,)))


# Inside a jit these are traced and differentiated once, whatever asks for them and how often.


@partial(jax.jit, static_argnums=0)
def _residuals(n: int, element: Any, frames: list[Frame | PlanarFrame], t: Array) -> list[Array]:
    fun = element.residual if isinstance(element, Constraint) else element.rate
    return components(fun(*frames, t=t), n)


@partial(jax.jit, static_argnums=0)
def _wrenches(
    n: int, element: Force, frames: list[Frame | PlanarFrame], t: Array
) -> list[list[Array]]:
    return [components(wrench, n) for wrench in element.wrenches(*frames, t=t)]


@partial(jax.jit, static_argnums=0)
def _constraint_forces(
    n: int, element: Element, frames: list[Frame | PlanarFrame], t: Array, lam: list[Array]
) -> list[list[Array]]:
    group = Group(element, (Indices.of([0] * n),) * len(frames), ("",) * n, len(lam))
    return group._forces(frames, t, lam)


def group_rows(element: Element, frame: type, nodes: int) -> int:
    """Number of constraint rows of one element, found by evaluating its shape."""
    if isinstance(element, Force):
        return 0
    frames = [frame.ground() for _ in range(nodes)]
    group_of_one = jax.tree.map(lambda x: as_array(x)[None], element)

    def value(element: Any, frames: Sequence[Frame | PlanarFrame]) -> PyTree:
        fun = element.residual if isinstance(element, Constraint) else element.rate
        return fun(*frames, t=jnp.zeros(()))

    return len(jax.tree.leaves(jax.eval_shape(value, group_of_one, frames)))
