"""First-order states z' = f(t, q, v, z): integrals of controllers, currents, filters.

A state is the velocity of a *carrier*, a coordinate of unit mass that no constraint knows and
gravity does not pull, and its rate is the force on it: v_z' = f. So every formulation and every
integrator carries states as it carries velocities. The carrier's position, the integral of z over
time, means nothing and nothing depends on it.

A carrier has the coordinates of a body, of which z is the first component of the velocity; the
others stay at zero. Carriers follow the bodies in a `BodySet`, and are none of them for whoever
asks for bodies, energies, momenta or freedoms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._numbers import namespace
from ..rotation import Vec2, Vec3
from .elements import Force
from .frames import PlanarFrame, at_origins
from .quantities import Quantity
from .situation import Situation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax import Array

    from .frames import Frame


def carried(frame: Frame | PlanarFrame) -> np.ndarray | Array:
    """The state that a carrier's frame holds."""
    return frame.v.x


def rate_wrench(frame: Frame | PlanarFrame, rate: float | Array) -> tuple[Any, Any]:
    """The wrench on a carrier of unit mass that gives its state this rate."""
    rate = jnp.broadcast_to(rate, frame.v.x.shape)
    zero = jnp.zeros_like(rate)
    if isinstance(frame, PlanarFrame):
        return Vec2(rate, zero), zero
    return Vec3(rate, zero, zero), Vec3(zero, zero, zero)


@dataclass(frozen=True)
class WithStates:
    """A user's function of frames and states in the order in which they were named, as a function
    of the frames of bodies first and of carriers after them, which elements are given.

    `layout` says for each argument what it is: None for the next body's frame, 0 for the next
    state as a number, n for the next n states as an array.
    """

    function: Callable[..., Any]
    layout: tuple[int | None, ...]

    def __call__(self, *arguments: Any) -> Array | list[tuple[tuple[Array, float], float]]:
        count = sum(x is None for x in self.layout)
        total = count + sum(max(x, 1) for x in self.layout if x is not None)
        bodies, carriers = iter(arguments[:count]), iter(arguments[count:total])
        given = []
        for n in self.layout:
            if n is None:
                given.append(next(bodies))
            elif n == 0:
                given.append(carried(next(carriers)))
            else:
                given.append(jnp.stack([carried(next(carriers)) for _ in range(n)]))
        return self.function(*given, *arguments[total:])


class StateRates(Force):
    """The rates of the states of one record: a user's function of these states, of frames and
    other states, and of time.

    The nodes are `bodies` of others, then the carriers of the record's own `size` states, then
    those of others.
    """

    parameters: Any
    origins: Any
    function: Callable[..., Any] = eqx.field(static=True)
    bodies: int = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def wrenches(self, *frames: Any, t: Array) -> list[tuple[Any, Any]]:
        own = () if self.parameters is None else (self.parameters,)
        given = at_origins(frames, self.origins)

        def one(frames: Sequence[Frame | PlanarFrame], own: Any) -> Any:
            found = self.function(*frames, t, *own)
            parts = found if isinstance(found, list | tuple) else [found]
            return jnp.concatenate([jnp.ravel(jnp.asarray(x, dtype=float)) for x in parts])

        rates = jax.vmap(one)(given, own)
        first, last = self.bodies, self.bodies + self.size
        values = [rates[:, i - first] if first <= i < last else 0.0 for i in range(len(frames))]
        return [rate_wrench(frame, x) for frame, x in zip(frames, values, strict=True)]


class StateValue(Quantity):
    """One state, or several as a vector, by the numbers of their carriers."""

    nodes: tuple[int, ...] = eqx.field(static=True)

    def value(self, at: Situation) -> Any:
        parts = [carried(at.frame(i)) for i in self.nodes]
        return parts[0] if not self.labels else namespace(*parts).stack(parts, axis=-1)


def state_rows(dof: int, n: int, carriers: int) -> tuple[np.ndarray, np.ndarray]:
    """Of v, whose rows are components over `n` bodies, the last of which are `carriers`: where the
    states are, and the other coordinates of carriers, which stay at zero."""
    last = np.arange(n - carriers, n)
    idle = [k * n + last for k in range(1, dof)]
    return last, np.concatenate([np.zeros(0, int), *idle])
