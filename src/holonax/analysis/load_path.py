"""What is known of a path of equilibria: its points, limit points and branches, by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from .._messages import listed
from .._numbers import count
from ..result.along import BeamMotion, beam_motion
from ..system.frames import PlanarFrame
from ..system.mechanism import Mechanism
from ..system.scaled_loads import scaled
from .equilibrium import Equilibrium, Pose, neutral_stiffness


@dataclass(frozen=True)
class CriticalPoint:
    """Where a path stops being stable, or becomes so.

    `kind` is ``"maximum"`` or ``"minimum"`` of the load factor (limit points), or ``"branch"``,
    where another path crosses: a perfect column buckles there. `index` is its point on the path.
    """

    kind: str
    index: int
    factor: float


@dataclass(frozen=True)
class EquilibriumPath:
    """Equilibria in their order along a path; all arrays begin with the axis of its points.

    `factor` (points,) multiplies the `loads`, `q` and `lam` are coordinates and multipliers,
    `stable` says whether each small motion is resisted there, and `critical` has the limit points
    and branches, each of which is a point of the path. `status` is ``"reached"``, ``"limits"``,
    ``"points"``, ``"not converged"`` or ``"interrupted"``, and `message` says it in words.
    ``path["name"]`` is the place of a body or node, ``path.beam("name")`` what happens along a
    beam, and ``path.equilibrium(k)`` one point, to be linearized or as a start.
    """

    system: Mechanism
    loads: tuple[str, ...]
    t: float
    rank: int
    factor: np.ndarray
    q: np.ndarray
    lam: np.ndarray
    softest: np.ndarray
    critical: tuple[CriticalPoint, ...]
    iterations: int
    status: str
    message: str

    @property
    def success(self) -> bool:
        """Whether the path ends where it was asked to."""
        return self.status in ("reached", "limits")

    @property
    def limits(self) -> tuple[CriticalPoint, ...]:
        """The maxima and minima of the load factor."""
        return tuple(x for x in self.critical if x.kind != "branch")

    @property
    def branches(self) -> tuple[CriticalPoint, ...]:
        """Where other paths cross this one."""
        return tuple(x for x in self.critical if x.kind == "branch")

    @cached_property
    def stable(self) -> np.ndarray:
        """Whether every small motion is resisted, by more than rounding, (points,)."""
        return self.softest > neutral_stiffness(self.system)

    def __len__(self) -> int:
        return int(self.factor.size)

    def __getitem__(self, name: str) -> Pose:
        """Where the body `name` is, or a node of a beam such as ``"beam.end"``."""
        rest = jnp.zeros((self.system.velocity_size(self.q.shape[1]),))
        frame = jax.vmap(lambda q: self.system.frame_of(name, q, rest))(jnp.asarray(self.q))
        place = np.stack([np.asarray(x) for x in frame.r], axis=-1)
        if isinstance(frame, PlanarFrame):
            return Pose(place, angle=np.asarray(frame.angle))  # pyright: ignore
        columns = (frame.A.x, frame.A.y, frame.A.z)
        axes = [np.stack([np.asarray(x) for x in column], axis=-1) for column in columns]
        return Pose(place, rotation=np.stack(axes, axis=-1))  # pyright: ignore

    def beam(self, name: str) -> BeamMotion:
        """The shapes, strains and section forces of a beam."""
        rest = np.zeros((len(self), self.system.velocity_size(self.q.shape[1])))
        return beam_motion(self.system, name, self.q, rest)

    def equilibrium(self, index: int) -> Equilibrium:
        """The point `index` of the path; its `system` has the loads multiplied by the factor."""
        index = count("equilibrium", "index", index, least=-len(self), most=len(self) - 1)
        loaded = scaled(self.system, self.loads, float(self.factor[index]))
        return equilibrium_at(
            loaded, self.t, self.q[index], self.lam[index], self.softest[index], self.rank
        )

    def __str__(self) -> str:
        lines = [f"holonax equilibrium path: {self.message}"]
        low, high = float(self.factor.min()), float(self.factor.max())
        lines.append(
            f"  {len(self)} points, load factor of {listed(self.loads)} from {low:.6g} to "
            f"{high:.6g}, {int(self.stable.sum())} of them stable"
        )
        for x in self.critical:
            lines.append(f"  {x.kind:<8} {x.factor:.8g} at point {x.index}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<EquilibriumPath: {len(self)} points, {self.message}>"


def equilibrium_at(
    system: Mechanism, t: float, q: np.ndarray, lam: np.ndarray, softest: float, rank: int
) -> Equilibrium:
    """A known equilibrium, as if it had been found."""
    rest = jnp.zeros((system.velocity_size(q.size),))
    time, at, multipliers = jnp.asarray(t, dtype=float), jnp.asarray(q), jnp.asarray(lam)
    return Equilibrium(
        system=system,
        t=time,
        q=at,
        lam=multipliers,
        unbalanced=system.force(at, rest, time) - system.constraint_force(at, time, multipliers),
        misfit=system.constraint(at, time),
        relative=jnp.zeros(()),
        iterations=jnp.asarray(0),
        success=jnp.asarray(True),
        softest=jnp.asarray(softest),
        rank=rank,
    )
