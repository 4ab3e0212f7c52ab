"""A mechanism at a state, or at many: what named quantities are computed from.

The same rules serve a compiled program at one state and NumPy at many.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..compiler import native
from ..rotation import Vec2, Vec3
from .base import Array
from .frames import PlanarFrame
from .modal import AnyBodies, ModalBodySet, spread_states

if TYPE_CHECKING:
    from ..compiler.native import Native
    from .elements import Group
    from .frames import AnyFrame, Frame, Wrench
    from .quantities import Output
    from .reaction_forces import SeeingGroup

_MANY = 64  # states in one call of a program

Loads = list[tuple[Any, Any]]  # for each body: force in world axes, torque in body axes


class Situation(abc.ABC):
    """The bodies of a mechanism at a time, and what the forces between them apply."""

    bodies: AnyBodies
    t: Any

    @abc.abstractmethod
    def frame(self, number: int) -> AnyFrame:
        """The frame of a body at its centre of mass; 0 is the ground."""

    @abc.abstractmethod
    def loads(self, force: str) -> Loads:
        """What the force of that name applies to each of its bodies."""

    @abc.abstractmethod
    def called(self, output: Output) -> np.ndarray | Array:
        """What a user's function returns, as an array (..., components)."""


class Present(Situation):
    """At one state, inside of a program."""

    def __init__(self, bodies: AnyBodies, t: float | Array, q: Array, v: Array):
        self.bodies, self.t = bodies, t
        self._frames = bodies.frames(q, v)

    def frame(self, number: int) -> AnyFrame:
        return jax.tree.map(lambda x: x[number], self._frames)

    def loads(self, force: str) -> Loads:
        if any(force in group.names for group in self.bodies.seeing):
            raise KeyError(_seeing(force))
        return _loads(self.bodies, force, self._frames, self.t)

    def called(self, output: Output) -> Array:
        frames = [self.frame(i) for i in output.nodes]
        return output.called(frames, self.t)


@dataclass
class Recorded(Situation):
    """At many states, on the host: components over times."""

    bodies: AnyBodies
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    lam: Any = None  # a function that finds the multipliers, (times, rows)

    def __post_init__(self) -> None:
        if isinstance(self.bodies, ModalBodySet):  # markers and bodies alike, as they moved
            self.q, self.v, _ = spread_states(self.bodies, self.q, self.v)
            self.bodies = self.bodies.every

    def frame(self, number: int) -> AnyFrame:
        kind = self.bodies.frame
        if number == 0:
            return jax.tree.map(lambda x: np.broadcast_to(x, self.t.shape), kind.ground())
        rows = lambda x: x.reshape(len(x), -1, self.bodies.n)[:, :, number - 1].T  # noqa: E731
        return kind.from_state(rows(self.q), rows(self.v))

    @cached_property
    def _every_load(self) -> dict[str, Loads]:
        """What each force applies, by one program for all of them."""
        names = tuple(dict.fromkeys(x for group in self.bodies.forces for x in group.names))
        found = self._over_times(_all_loads, self.bodies, names)
        return dict(zip(names, found, strict=True))

    @cached_property
    def _every_seeing(self) -> dict[str, Loads]:
        """What those apply that depend on reactions."""
        names = tuple(dict.fromkeys(x for group in self.bodies.seeing for x in group.names))
        found = self._over_times(_seeing_loads, self.bodies, names, more=[self.lam()])
        return dict(zip(names, found, strict=True))

    def loads(self, force: str) -> Loads:
        if any(force in group.names for group in self.bodies.seeing):
            if self.lam is None:
                raise KeyError(_seeing(force))
            return self._every_seeing[force]
        return self._every_load[force]

    def called(self, output: Output) -> np.ndarray | Array:
        return self._over_times(_output, self.bodies, output)

    def _over_times(self, program: Native, *given: Any, more: Sequence[np.ndarray] = ()) -> Any:
        parts = []
        for k in range(0, self.t.size, _MANY):
            states = [x[k : k + _MANY] for x in (self.t, self.q, self.v, *more)]
            n = len(states[0])
            padded = [np.concatenate([x, np.repeat(x[-1:], _MANY - n, axis=0)]) for x in states]
            part = program(*given, *padded)
            parts.append(jax.tree.map(lambda x, n=n: np.asarray(x)[:n], part))
        return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def _loads(bodies: AnyBodies, force: str, frames: Frame | PlanarFrame, t: float | Array) -> Loads:
    """The loads of one force, summed over the elements it is made of."""
    out: Loads = []
    vec = Vec2 if bodies.frame is PlanarFrame else Vec3
    for group in bodies.forces:
        if force not in group.names:
            continue
        wrenches = group.wrenches(group.frames(frames), t)
        own = [_sum_of(group, force, wrench, vec) for wrench in wrenches]
        out = own if not out else [(a + c, b + d) for (a, b), (c, d) in zip(out, own, strict=True)]
    return out


def _sum_of(group: Group | SeeingGroup, name: str, wrench: Sequence[Array], vec: type) -> Wrench:
    at = [i for i, x in enumerate(group.names) if x == name]
    parts = [sum(component[i] for i in at) for component in wrench]
    d = 2 if vec is Vec2 else 3
    return vec(*parts[:d]), parts[d] if vec is Vec2 else vec(*parts[d:])


@native(once=True, static=(1,))
def _all_loads(
    bodies: AnyBodies, names: tuple[str, ...], t: Array, q: Array, v: Array
) -> list[Loads]:
    def at(x: tuple[Array, Array, Array]) -> list[Loads]:
        t, q, v = x
        frames = bodies.frames(q, v)
        return [_loads(bodies, name, frames, t) for name in names]

    return jax.lax.map(at, (t, q, v))


def _seeing(force: str) -> str:
    return (
        f"force {force!r} depends on reactions, which are known to results only. Name another "
        "quantity."
    )


@native(once=True, static=(1,))
def _seeing_loads(
    bodies: AnyBodies, names: tuple[str, ...], t: Array, q: Array, v: Array, lam: Array
) -> list[Loads]:
    vec = Vec2 if bodies.frame is PlanarFrame else Vec3

    def at(x: tuple[Array, Array, Array, Array]) -> list[Loads]:
        t, q, v, lam = x
        frames, joints, parts = bodies.frames(q, v), bodies.groups("all"), bodies.split(lam, "all")
        found: dict[str, Loads] = {}
        for group in bodies.seeing:
            wrenches = group.wrenches(frames, t, joints, parts)
            for name in dict.fromkeys(group.names):
                own = [_sum_of(group, name, wrench, vec) for wrench in wrenches]
                known = found.get(name)
                pairs = zip(known or (), own, strict=False)
                found[name] = own if known is None else [(a + c, b + d) for (a, b), (c, d) in pairs]
        return [found[name] for name in names]

    return jax.lax.map(at, (t, q, v, lam))


@native(once=True)
def _output(bodies: AnyBodies, output: Output, t: Array, q: Array, v: Array) -> Array:
    return jax.lax.map(lambda x: Present(bodies, *x).called(output), (t, q, v))
