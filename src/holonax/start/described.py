"""What was described, and how far from it a start is.

Velocities that were given are those that are not zero. A start that has to move far from what was
described says so, with the remedy.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from .._messages import listed
from ..system.base import System
from ..system.mechanism import Mechanism

_NOTHING = 1e-12  # of the largest velocity: one that was not given
_FAR = 1e-2  # of the largest velocity: a change that is told
_FAR_TURN = 0.5  # [rad] a turn that is told
_FAR_WAY = 0.25  # of the mechanism's size: a displacement that is told


class StartWarning(UserWarning):
    """The start is far from what was described."""


def given_velocities(v: np.ndarray, system: System) -> np.ndarray:
    """Mask of the velocities that were given; states of first order are none."""
    v = v.copy()
    v[system.states(v.size)] = 0.0
    return np.abs(v) > _NOTHING * max(float(np.max(np.abs(v), initial=0.0)), 1e-300)


def _rate_unit(system: System, name: str) -> str:
    if not isinstance(system, Mechanism):
        return ""
    if name.endswith("]"):  # the amplitude of a mode
        return " 1/s"
    return " m/s" if name.rsplit(".", 1)[-1] in ("x", "y", "z") else " rad/s"


def _way_unit(system: System, name: str) -> str:
    return _rate_unit(system, name).removesuffix("/s")


def changed_velocities(system: System, asked: np.ndarray, got: np.ndarray) -> str:
    """One sentence on the given velocities that the start does not have; empty if it has them."""
    size = np.abs(got - asked)
    # translations and rotations apart: their units do not compare
    names = system.velocity_names(asked.size)
    units = np.array([_rate_unit(system, name) for name in names])
    far = np.zeros(asked.size, bool)
    for unit in np.unique(units):
        same = units == unit
        largest = float(np.max(np.abs(asked[same]), initial=0.0))
        far |= same & given_velocities(asked, system) & (size > _FAR * largest)
    if not np.any(far):
        return ""
    order = [i for i in np.argsort(-size, kind="stable") if far[i]]
    told = [f"{names[i]} at {got[i]:.3g}{units[i]}, not {asked[i]:.3g}" for i in order]
    return (
        f"The start does not move as described: {listed(told, 3)}. The constraints do not allow "
        "all of the given velocities together, so the nearest in the mass metric were taken. Give "
        f"one for each free motion and leave the others out, or name those to be kept: "
        f"hold_velocity=[{names[order[0]]!r}]."
    )


def moved_positions(system: System, q: np.ndarray, moved: np.ndarray) -> str:
    """One sentence on coordinates that assembly has moved far; empty if there are none."""
    names = system.velocity_names(moved.size)
    units = [_way_unit(system, name) for name in names]
    way = np.array([unit != " rad" for unit in units])
    size = _size(system, q)
    limit = np.where(way, _FAR_WAY * size, _FAR_TURN)
    if not isinstance(system, Mechanism):
        # nothing tells lengths from angles: each against the largest coordinate, or half a radian
        limit = np.full(moved.size, max(_FAR_TURN, _FAR_WAY * size))
    far = np.abs(moved) > limit
    if not np.any(far):
        return ""
    order = [i for i in np.argsort(-np.abs(moved) / limit, kind="stable") if far[i]]
    told = [f"{names[i]} by {moved[i]:.3g}{units[i]}" for i in order]
    return (
        f"The start is far from where it was described: assembly has moved {listed(told, 3)}. "
        "Describe positions that satisfy the joints, or name what has to stay: "
        f"hold=[{names[order[0]]!r}]."
    )


def _size(system: System, q: np.ndarray) -> float:
    """The mechanism's size: how far its bodies are from each other and from the origin."""
    names = system.coordinate_names(q.size)
    if isinstance(system, Mechanism):
        q = q[[name.rsplit(".", 1)[-1] in ("x", "y", "z") for name in names]]
    return float(np.max(np.abs(q), initial=0.0))


def warn(sentences: Sequence[str]) -> None:
    """A warning for each sentence that is not empty, at the line of whoever called holonax."""
    for sentence in filter(None, sentences):
        warnings.warn(sentence, StartWarning, stacklevel=_outside())


def _outside() -> int:
    """How many calls up the first function is that does not belong to this package."""
    import sys

    package, level, frame = __name__.partition(".")[0], 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame, level = frame.f_back, level + 1
    return level
