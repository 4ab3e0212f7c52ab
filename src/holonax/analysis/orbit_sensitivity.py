"""Derivatives of motions that repeat with respect to named parameters.

A change dp of parameters moves the deviations z = (dq, dv) from the motion by

    z' = F(t) z + b(t) dp,    M b = force dp - J^T dlam,   J b = acceleration dp

(symbols of `parameters.py`). With z = B x + c0 dp at the start, where c0 dp is the least that the
constraints ask for, a period takes it to B P x + c1 dp. The motion repeats after T + dT if

    (P - 1) x + (c1 - c0) dp + z_t dT = 0,    z_t = (v, v'),

all in coordinates of the allowed deviations: the derivative of the residual of shooting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._messages import listed, shown
from .parameters import Directions
from .sensitivity import onto_coordinates, table
from .tangent_space import Tangent

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .floquet import Along, Point

_OWNER = "sensitivity"
_AUTONOMOUS = 1e-5  # what the velocity may change by in P z_t = z_t, relative
_SINGULAR = 1e-6  # singular values of P - 1 that are none, relative
_LEFT = 1e-5  # of the miss of a period, where no other start takes it up


@dataclass(frozen=True)
class OrbitSensitivity:
    """Derivatives of a motion that repeats, by the names of parameters.

    `q`, `v` and `period` are dictionaries: ``change.q["spring.stiffness"]`` (nq, *shape of the
    parameter) is that of the first state, ``change.period["spring.stiffness"]`` (*shape) [s/...].
    `free` says whether the motion has a period of its own, which no driver or load gives it.
    """

    q: dict[str, np.ndarray]
    v: dict[str, np.ndarray]
    period: dict[str, np.ndarray]
    free: bool
    _names: tuple[str, ...]

    def __str__(self) -> str:
        both = {name: np.concatenate([self.v[name], x[None]]) for name, x in self.period.items()}
        return table("change of the periodic motion with", [*self._names, "period"], both)


def orbit_sensitivity(
    along: Along, parameters: str | Sequence[str], periods: Mapping[str, ArrayLike] | None
) -> OrbitSensitivity:
    """See `Floquet.sensitivity`."""
    system, start = along.system, along.start
    given = Directions(_OWNER, system, parameters)
    known = _known_periods(given, periods)
    nv = start.v.size

    def source(t: float, q: ArrayLike, v: ArrayLike, point: Point) -> np.ndarray:
        by = given.first(t, q, v, point.here.a, point.here.lam)
        b = point.accelerated(by.force, by.acceleration)
        return np.concatenate([np.zeros_like(b), b])

    c0 = _begun(along, given)
    n = along.B.shape[1]
    ends = along.onto @ along.settled(np.concatenate([along.B, c0], axis=1), _with_zeros(source, n))
    P, missed = ends[:, :n], ends[:, n:] - along.onto @ c0
    rate = along.onto @ np.concatenate([start.v, along.first.here.a])
    speed = np.linalg.norm(rate)
    free = speed > 0 and np.linalg.norm(P @ rate - rate) <= _AUTONOMOUS * speed
    if known is not None:
        missed = missed + rate[:, None] * known
    x, period = _repeating(P, missed, rate if free and known is None else None, given)
    z = along.B @ x + c0
    return OrbitSensitivity(
        given.by_name(onto_coordinates(system, np.asarray(start.q), z[:nv])),
        given.by_name(z[nv:]),
        given.by_name(period if known is None else known),
        bool(free),
        tuple(f"{name}'" for name in system.velocity_names(nv)),
    )


def _with_zeros(source: Any, n: int) -> Any:
    """For n deviations that nothing but F moves, followed by those of parameters."""

    def both(*at: Any) -> np.ndarray:
        b = source(*at)
        return np.concatenate([np.zeros((b.shape[0], n)), b], axis=1)

    return both


def _known_periods(given: Directions, periods: Mapping[str, ArrayLike] | None) -> np.ndarray | None:
    """dT for each entry, where it is known."""
    if periods is None:
        return None
    if not isinstance(periods, Mapping) or set(periods) - set(given.names):
        raise ValueError(
            f"{_OWNER}: periods={shown(periods)} must be a dictionary of derivatives of the period "
            f"for some of {listed(given.names)}."
        )
    found = []
    for name, x in given.known.items():
        try:
            found.append(np.broadcast_to(np.asarray(periods.get(name, 0.0), dtype=float), x.shape))
            good = bool(np.all(np.isfinite(found[-1])))
        except (TypeError, ValueError):
            good = False
        if not good:
            raise ValueError(
                f"{_OWNER}: periods[{name!r}]={shown(periods[name])} must be a number for each "
                f"entry of {name}, of the shape {x.shape}."
            )
    return np.concatenate([np.ravel(x) for x in found])


def _begun(along: Along, given: Directions) -> np.ndarray:
    """c0: what the constraints ask for at the start, by the shortest way in the mass metric."""
    start, here = along.start, along.first.here
    by = given.first(start.t, start.q, start.v, here.a, here.lam)
    rows = by.place.shape[0]
    own = along.holonomic
    places = Tangent.split(here.mass, here.jacobian[:rows], own[1])
    both = along.first.tangent
    columns = []
    for place, rate in zip(by.place.T, by.rate.T, strict=True):
        dq = places.correction(-place)
        dv = both.correction(-(rate + here.drag @ dq))
        columns.append(np.concatenate([dq, dv]))
    return np.stack(columns, axis=1)


def _repeating(
    P: np.ndarray, missed: np.ndarray, rate: np.ndarray | None, given: Directions
) -> tuple[np.ndarray, np.ndarray]:
    """The least x, and dT, with (P - 1) x + missed + rate dT = 0."""
    matrix, right = P - np.eye(P.shape[0]), -missed
    if rate is not None:
        unit = rate / np.linalg.norm(rate)
        matrix = matrix - np.outer(unit, unit @ matrix)
        right = right - np.outer(unit, unit @ right)
    u, s, vt = np.linalg.svd(matrix)
    kept = s > _SINGULAR * max(np.linalg.norm(P, 2), 1.0)
    x = vt[kept].T @ ((u.T @ right)[kept] / s[kept, None])
    off = np.max(np.abs(matrix @ x - right), axis=0, initial=0.0)
    scale = np.max(np.abs(missed), axis=0, initial=0.0)
    for k in map(int, np.flatnonzero(off > _LEFT * scale + 1e-12)):
        raise ValueError(
            f"{_OWNER}: with another {given.entry(k)} no motion near this one repeats: what a "
            "period adds (energy, say) is not taken up by another start. Take a motion that is "
            "isolated: with damping, or at the pace of a driver; if the parameter changes the "
            "period of that, give periods."
        )
    period = np.zeros(x.shape[1])
    if rate is not None:
        left = (P - np.eye(P.shape[0])) @ x + missed
        period = -(rate @ left) / (rate @ rate)
    return x, period
