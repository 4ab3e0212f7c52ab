"""Steady rotation of flexible mechanisms, and how their vibrations change with the speed.

Bodies that turn together about an axis are at rest in a frame that turns with them, under
centrifugal forces and gyroscopic torques (`system/spin_loads.py`): that equilibrium, turning, is
the steady motion. `linearize` finds the vibrations about it, in the frame that sees the motion
standing still: the one that turns, or that of the ground where the rotor is round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from .._arguments import checked_call, names
from .._messages import shown
from .._numbers import array, count, finite_number
from .._optional import require
from ..start.consistent import Start, consistent
from ..system.base import System
from ..system.mechanism import Mechanism
from ..system.places import rotations, translations
from ..system.reaction_forces import refuse_reaction_forces
from ..system.spin_loads import spinning
from .checks import as_start, check_system, known_rank
from .equilibrium import equilibrium
from .linearization import linearized
from .modes import Modes
from .steady import skew

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Campbell:
    """Vibrations over the speed of rotation.

    `speed` (speeds,) [rad/s]; `eigenvalues` (speeds, modes) [1/s], each column a mode that is
    followed by its shape from speed to speed; `frequency` their angular frequencies [rad/s].
    `turning` (speeds,) says whether they are seen from the frame that turns (blades), or from the
    ground (round rotors). `states` are the steady motions themselves.
    """

    speed: np.ndarray
    eigenvalues: np.ndarray
    turning: np.ndarray
    states: tuple[Start, ...]

    @property
    def frequency(self) -> np.ndarray:
        """Angular frequencies [rad/s], (speeds, modes)."""
        return np.abs(np.imag(self.eigenvalues))

    @property
    def unstable(self) -> np.ndarray:
        """Whether each mode grows at each speed."""
        size = np.max(np.abs(self.eigenvalues), initial=1e-300)
        return np.real(self.eigenvalues) > 1e-7 * size

    def plot(self, *, orders: Any = (1, 2, 3), title: str = "") -> Any:
        """A matplotlib figure: frequencies over the speed, and rays of whole multiples of it,
        where something that happens as often in a turn meets a vibration."""
        figure = require("matplotlib.figure").Figure(figsize=(6.4, 4.4), layout="constrained")
        axes = figure.subplots()
        axes.plot(self.speed, self.frequency, "-o", ms=3)
        grows = np.where(self.unstable, self.frequency, np.nan)
        if np.any(self.unstable):
            axes.plot(self.speed, grows, "x", color="crimson", ms=7)
        top = 1.08 * float(np.max(self.frequency, initial=1e-300))
        end = float(np.max(self.speed))
        for k in array("plot", "orders", orders).ravel():
            axes.plot([0, end], [0, k * end], ":", color="gray", lw=1)
            x = min(end, top / max(abs(k), 1e-300))
            axes.annotate(f"{k:g}x", (x, k * x), color="gray", fontsize=8, ha="right", va="top")
        axes.set(xlim=(min(0.0, float(self.speed.min())), end), ylim=(0, top), title=title)
        seen = "seen from the rotor" if np.any(self.turning) else "seen from the ground"
        axes.set(xlabel="speed [rad/s]", ylabel=f"frequency [rad/s], {seen}")
        return figure

    def __str__(self) -> str:
        lines = ["  speed [rad/s]   frequencies [rad/s]"]
        for speed, row, grows in zip(self.speed, self.frequency, self.unstable, strict=True):
            found = "  ".join(f"{x:.6g}{'!' if bad else ''}" for x, bad in zip(row, grows))
            lines.append(f"  {speed:<14.6g}  {found}")
        return "\n".join(lines)


@checked_call
def steady_rotation(
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    speed: float,
    *,
    axis: Any = (0.0, 0.0, 1.0),
    at: ArrayLike = (0.0, 0.0, 0.0),
    bodies: Any = None,
) -> Start:
    """The motion in which bodies turn together about a fixed axis, stretched and bent by it.

    **Arguments:**

    - `system`, `start`: a mechanism of space, and where to begin, from `model.build()`; its
      velocities mean nothing.
    - `speed`: of the rotation [rad/s].
    - `axis`, `at`: the axis and a point of it [world].
    - `bodies`: names of those that turn (a beam stands for all its nodes); all by default. The
      others are at rest.

    What turns has to be free to do so, or be driven at that speed. A state to be linearized, or to
    start a run from. Raises a `ValueError` if there is no equilibrium at that speed.
    """
    system, begun, spun, e, point = _asked("steady_rotation", system, start, axis, at, bodies)
    speed = finite_number("steady_rotation", "speed", speed)
    return _steady(system, begun, spun, e, point, speed)


@checked_call
def campbell(
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    speeds: Any,
    *,
    axis: Any = (0.0, 0.0, 1.0),
    at: ArrayLike = (0.0, 0.0, 0.0),
    bodies: Any = None,
    modes: int = 8,
) -> Campbell:
    """Frequencies of a rotor over its speed: spin stiffening, gyroscopic splitting, instability.

    `speeds` [rad/s] are taken one after the other, each from the deformed state of the one before;
    `modes` is how many of the slowest vibrations are followed. The other arguments are those of
    `steady_rotation`.
    """
    system, begun, spun, e, point = _asked("campbell", system, start, axis, at, bodies)
    given = array("campbell", "speeds", speeds)
    if given.ndim != 1 or not given.size:
        raise ValueError("campbell: speeds must be a list of speeds [rad/s], such as (0, 10, 20).")
    modes = count("campbell", "modes", modes)
    states, found, turning = [], [], []
    for speed in given:
        state = _steady(system, begun, spun, e, point, float(speed))
        small = linearized(system, state, spin=_frame(system, spun, float(speed) * e))
        states.append(state)
        found.append(small.modes())
        turning.append(bool(np.max(np.abs(np.asarray(small.turning)), initial=0.0) > 0))
    return Campbell(given, _followed(found, modes), np.array(turning), tuple(states))


def _asked(
    owner: str,
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    axis: Any,
    at: ArrayLike,
    bodies: Any,
) -> tuple[Mechanism, Start, list[int], np.ndarray, np.ndarray]:
    check_system(owner, system)
    if not isinstance(system, Mechanism) or system.is_planar:
        raise TypeError(f"{owner}: rotors are mechanisms of space. Make one with hx.Model.")
    refuse_reaction_forces(owner, system)
    begun = as_start(owner, system, start)
    known_rank(owner, begun, "Take a smaller mechanism, or fewer elements.")
    e, point = array(owner, "axis", axis, (3,)), array(owner, "at", at, (3,))
    size = float(np.linalg.norm(e))
    if not size > 0:
        raise ValueError(f"{owner}: axis={shown(axis)} has no length. Give a direction.")
    e = e / size
    everything = list(range(system.bodies.n))
    return system, begun, _numbers_of(owner, system, bodies) or everything, e, point


def _numbers_of(owner: str, system: Mechanism, bodies: Any) -> list[int]:
    if bodies is None:
        return []
    nodes = {x.name: range(x.first, x.first + x.nodes) for x in system.beams}
    out: list[int] = []
    for name in names(owner, "bodies", bodies):
        out += nodes[name] if name in nodes else [system.number_of(name)]
    if not out:
        raise ValueError(f"{owner}: bodies is empty. Give the names of those that turn.")
    return sorted(set(out))


def _steady(
    system: Mechanism, start: Start, spun: list[int], e: np.ndarray, at: np.ndarray, speed: float
) -> Start:
    q = jnp.asarray(start.q)
    loaded = spinning(system, spun, e, at, speed, q)
    rest = equilibrium(loaded, Start(**{**vars(start), "v": 0.0 * start.v}))
    if not bool(rest.success):
        raise ValueError(f"steady_rotation: at {speed:g} rad/s {rest.message}")
    n = system.bodies.n
    frames = system.bodies.frames(rest.q, jnp.zeros((6 * n,)))
    v = np.zeros((6, n))
    for i in spun:
        place = np.array([float(x[i + 1]) for x in frames.r])
        columns = (frames.A.x, frames.A.y, frames.A.z)
        A = np.stack([[float(x[i + 1]) for x in column] for column in columns], axis=-1)
        v[:3, i], v[3:, i] = speed * np.cross(e, place - at), speed * (A.T @ e)
    return consistent(system, np.asarray(rest.q), v.ravel(), t=start.t)


def _frame(system: Mechanism, spun: list[int], spin: np.ndarray) -> np.ndarray:
    """The rate of the frame that turns with these bodies, on the coordinates of v."""
    W = np.zeros((6 * system.bodies.n, 6 * system.bodies.n))
    for places in (translations(system), rotations(system)):
        for i in spun:
            W[np.ix_(places[i], places[i])] = skew(spin)
    return W


def _followed(found: list[Modes], count: int) -> np.ndarray:
    """The eigenvalues of the slowest vibrations at first, and of those whose shapes are most alike
    at each speed after."""
    from scipy.optimize import linear_sum_assignment

    out, last = [], None
    for modes in found:
        values, shapes = np.asarray(modes.eigenvalues), np.asarray(modes.shapes)
        swing = np.flatnonzero(np.imag(values) > 1e-9 * np.max(np.abs(values), initial=0.0))
        values, shapes = values[swing], shapes[:, swing]
        shapes = shapes / np.linalg.norm(shapes, axis=0)
        if last is None:
            chosen = np.arange(min(count, values.size))
        else:
            alike = np.abs(last.conj().T @ shapes) ** 2
            near = np.abs(np.abs(out[-1])[:, None] - np.abs(values)) / np.abs(out[-1])[:, None]
            chosen = linear_sum_assignment(near - alike)[1]
        kept, last = values[chosen], shapes[:, chosen]
        out.append(kept)
    few = min(x.size for x in out)
    return np.stack([x[:few] for x in out])
