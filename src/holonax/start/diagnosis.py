"""What the constraints of a system do at one configuration: mobility, redundancy, singularity.

All of it is host-side linear algebra on the dense constraint Jacobian, with names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import checked_call
from .._messages import listed, shown
from .._numbers import finite_number, real
from ..system.base import System, check_system
from ..system.evaluation import Evaluation, evaluated

if TYPE_CHECKING:
    from jax import Array

# Dense diagnosis costs rows x nv^2; beyond this the block factor is asked instead.
DENSE_LIMIT = 600
_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Diagnosis:
    """Mobility and redundancy of the constraints at one configuration.

    `mobility` is the number of independent motions; `redundant` the number of constraint rows that
    the others imply; `shared_by` the joints those rows belong to; `singular` whether the rank
    is lower here than at neighbouring configurations.
    """

    coordinates: int
    rows: int
    rank: int
    mobility: int
    redundant: int
    shared_by: tuple[str, ...] = ()
    singular: bool = False
    singular_joints: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        lines = [
            f"{self.coordinates} velocity coordinates, {self.rows} constraint rows of rank "
            f"{self.rank}: mobility {self.mobility}"
        ]
        if self.redundant:
            lines.append(f"{self.redundant} redundant rows, shared by {', '.join(self.shared_by)}")
        if self.singular:
            lines.append(f"singular configuration at {', '.join(self.singular_joints)}")
        return "\n".join(lines)


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """The names in order of first appearance, each once."""
    return tuple(dict.fromkeys(names))


def picked(names: Sequence[str], mask: np.ndarray) -> tuple[str, ...]:
    """The names where the mask is true, each once."""
    return unique([name for name, chosen in zip(names, mask, strict=True) if chosen])


def _scaled(jacobian: np.ndarray) -> np.ndarray:
    """Rows scaled to unit length; rows that are zero stay zero."""
    size = np.linalg.norm(jacobian, axis=1, keepdims=True)
    return jacobian / np.where(size > 0, size, 1.0)


def _rank_and_left_null(jacobian: np.ndarray) -> tuple[int, np.ndarray]:
    """Numerical rank of the row-scaled Jacobian and an orthonormal basis of its left null space."""
    if jacobian.shape[0] == 0:
        return 0, np.zeros((0, 0))
    u, s, _ = np.linalg.svd(_scaled(jacobian), full_matrices=True)
    rank = int(np.sum(s > _RANK_TOLERANCE * max(s[0], 1e-300)))
    return rank, u[:, rank:]


def rank_of(jacobian: np.ndarray) -> int:
    """Numerical rank, whatever the scale of each row."""
    return _rank_and_left_null(jacobian)[0] if jacobian.size else 0


def as_vector(name: str, values: Array | np.ndarray | Sequence[float]) -> np.ndarray:
    """`values` as a vector of numbers."""
    array = real(values)
    if array is None:
        raise TypeError(f"{name}={shown(values)} must be a vector of numbers.")
    if array.ndim != 1:
        raise ValueError(f"{name} must be a vector, got an array of shape {array.shape}.")
    return array


def check_entries(name: str, array: Any, names: Sequence[str]) -> None:
    """Refuse entries that are not finite, by their names."""
    bad = ~np.isfinite(np.asarray(array))
    if np.any(bad):
        at = listed(picked(names, bad))
        raise ValueError(f"{name} has a value that is not finite at {at}. Give finite numbers.")


def at_rest(system: System, q: np.ndarray, t: Any, step: np.ndarray | None = None) -> Evaluation:
    """The system at a configuration, moved by an increment if one is given; at zero velocity."""
    nv = system.velocity_size(len(q))
    return evaluated(system, t, q, np.zeros(nv), step=step, dense=True)


def _joints_of(rows: np.ndarray, names: Sequence[str], threshold: float = 1e-6) -> tuple[str, ...]:
    """Names of the rows that take part in the given left null vectors."""
    weight = np.max(np.abs(rows), axis=1)
    return unique([names[int(i)] for i in np.flatnonzero(weight > threshold)])


def _nearby_rank(system: System, q: Any, t: float, jacobian: np.ndarray) -> int:
    """Rank at a configuration a short way along an allowed motion from `q`."""
    rng = np.random.default_rng(0)
    best = 0
    for _ in range(2):
        _, s, vh = np.linalg.svd(jacobian)
        null = vh[np.sum(s > _RANK_TOLERANCE * np.max(s)) :].T
        if null.shape[1] == 0:
            return best
        direction = null @ rng.standard_normal(null.shape[1])
        step = 0.05 * direction / max(np.max(np.abs(direction)), 1e-300)
        here = at_rest(system, q, t, step)
        for _ in range(8):
            m = here.g.shape[0]
            if not (np.all(np.isfinite(here.g)) and np.all(np.isfinite(here.jacobian))):
                break
            here = at_rest(system, here.q, t, -np.linalg.lstsq(here.jacobian[:m], here.g)[0])
        if np.all(np.isfinite(here.g)) and np.max(np.abs(here.g), initial=0.0) < 1e-8:
            best = max(best, _rank_and_left_null(here.jacobian)[0])
    return best


@checked_call
def diagnose(system: System, q: Any, t: float | None = None) -> Diagnosis:
    """Mobility, redundant rows and singularity of `system` at a start, or the configuration `q` at
    the time `t` [s].

    `q` should satisfy the constraints (see `consistent`), as that of a start does. Costs a singular
    value decomposition of the dense Jacobian; meant for systems of up to some hundreds of
    coordinates.
    """
    check_system("diagnose", system)
    start, q = q, getattr(q, "q", q)
    if t is None:
        t = getattr(start, "t", 0.0)
    t = finite_number("diagnose", "t", t)
    q = as_vector("q", q)
    system.velocity_size(int(q.shape[0]))  # refuses a wrong length
    check_entries("q", q, system.coordinate_names(int(q.shape[0])))
    here = at_rest(system, q, t)
    g, jacobian = here.g, here.jacobian
    rows, nv = jacobian.shape
    names = system.constraint_names(rows)
    rank, left_null = _rank_and_left_null(jacobian)
    redundant = rows - rank
    shared = _joints_of(left_null, names) if redundant else ()
    singular, where = False, ()
    if redundant and np.max(np.abs(g), initial=0.0) < 1e-6:
        nearby = _nearby_rank(system, q, t, jacobian)
        if nearby > rank:
            singular, where = True, shared
            redundant = rows - nearby
            shared = shared if redundant else ()
    nv -= system.states(nv).size + system.idle(nv).size  # which are no motions
    return Diagnosis(nv, rows, rank, nv - rank, redundant, shared, singular, where)
