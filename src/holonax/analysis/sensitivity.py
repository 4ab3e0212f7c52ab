"""Derivatives of equilibria and of vibrations about them with respect to named parameters.

Of an equilibrium, by the implicit function theorem: with K = -d(f - J^T lam)/dq,

    K dq + J^T dlam = force dp,   J dq = -place dp     (symbols of `parameters.py`)

Of an eigenvalue s with right and left vectors (u, mu), (w, nu) of the constrained pencil

    s^2 M u - s B_v u - B_q u + J^T mu = 0,   J u = 0,

    ds = -(w^T (s^2 dM - s dB_v - dB_q) u + w^T dJ^T mu + nu^T dJ u) / w^T (2 s M - B_v) u

where d is the change along (dq, dlam, dp). Bases of the allowed motions need no derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._messages import listed
from ..compiler import native
from .modes import zeros
from .parameters import Directions
from .tangent_space import Tangent
from .variation import Variation, variation

if TYPE_CHECKING:
    from ..system.base import System
    from .equilibrium import Equilibrium
    from .linearization import Linearization

_OWNER = "sensitivity"
_LEFT = 1e-7  # of the force that a change of parameters brings, where nothing takes it up
_SIMPLE = 1e-7  # distance of a simple eigenvalue from all others, relative to the largest


@dataclass(frozen=True)
class EquilibriumSensitivity:
    """Derivatives of an equilibrium with respect to parameters, by name.

    `q` and `lam` are dictionaries: ``change.q["spring.stiffness"]`` (nq, *shape of the parameter),
    `lam` (rows, *shape) likewise. ``change.quantity("rod.angle")`` is one of any named quantity.
    """

    q: dict[str, np.ndarray]
    lam: dict[str, np.ndarray]
    rest: Equilibrium
    _directions: Directions
    _dq: np.ndarray

    def quantity(self, name: str) -> dict[str, np.ndarray]:
        """The derivatives of a quantity by name, such as ``"rod.position.x"``."""
        system: Any = self.rest._mechanism("a quantity by name")
        system.named_quantity(_OWNER, name)
        found = self._directions.quantity(name, self.rest.t, self.rest.q, self._dq)
        return self._directions.by_name(found)

    def __str__(self) -> str:
        names = self.rest.system.coordinate_names(int(self.rest.q.shape[0]))
        return table("change of the equilibrium with", names, self.q)


@dataclass(frozen=True)
class ModeSensitivity:
    """Derivatives of vibrations about an equilibrium with respect to parameters, by name.

    `eigenvalues` [1/s], `frequency` [Hz] and `damping_ratio` are dictionaries of arrays over the
    modes, in the order of `modes()`: ``change.frequency["spring.stiffness"]`` (modes, *shape). An
    eigenvalue that is not simple has no derivative; its entries are NaN.
    """

    eigenvalues: dict[str, np.ndarray]
    frequency: dict[str, np.ndarray]
    damping_ratio: dict[str, np.ndarray]

    def __str__(self) -> str:
        count = len(next(iter(self.frequency.values())))
        names = [f"mode {k + 1}" for k in range(count)]
        return table("change of frequencies [Hz] with", names, self.frequency)


def table(title: str, names: Sequence[str], columns: dict[str, np.ndarray]) -> str:
    """A line for each parameter: the entries that it changes most."""
    lines = []
    for parameter, change in columns.items():
        size = np.max(np.abs(change.reshape(len(names), -1)), axis=1, initial=0.0)
        order = np.argsort(-np.nan_to_num(size), kind="stable")[:4]
        parts = [f"{names[k]} {np.array2string(change[k], precision=5)}" for k in order]
        lines.append(f"  {parameter}: {', '.join(parts)}")
    return "\n".join([f"holonax sensitivity: {title}", *lines])


@dataclass(frozen=True)
class _Moved:
    """The derivatives of an equilibrium: dq (nv, entries), dlam (rows, entries)."""

    here: Variation
    dq: np.ndarray
    dlam: np.ndarray


def _moved(system: System, t: float, q: np.ndarray, rank: int, given: Directions) -> _Moved:
    nothing = np.zeros(system.velocity_size(q.size))
    here = variation(system, t, q, nothing, rank, at_rest=True)
    tangent = Tangent.split(here.mass, here.jacobian, rank)
    by = given.first(t, q, nothing, nothing, here.lam)
    place: Any = np.zeros((here.jacobian.shape[0], given.size))
    place[: by.place.shape[0]] = -by.place  # non-holonomic rows allow no motion along them
    forced = np.stack([tangent.correction(x) for x in place.T], axis=1)
    Z = tangent.basis()
    _check_fits(system, tangent, place, forced, given)
    load = by.force + here.by_position @ forced
    x = _balanced(system, here, Z, load, given)
    dq = forced + Z @ x
    left = tangent.force(by.force + here.by_position @ dq)
    dlam: Any = tangent.smallest(tangent.scale[:, None] * (tangent.inverse.T @ left))
    if rank < here.jacobian.shape[0]:
        dlam = dlam + _kept_smallest(given, t, q, here, rank, dq, dlam)
    return _Moved(here, dq, dlam)


def _check_fits(
    system: System, tangent: Tangent, place: np.ndarray, forced: np.ndarray, given: Directions
) -> None:
    """Refuse changes that redundant constraints do not allow."""
    off = np.max(np.abs(tangent.jacobian @ forced - place), axis=0, initial=0.0)
    size = 1 + np.max(np.abs(place), axis=0, initial=0.0)
    for k in map(int, np.flatnonzero(off > 1e-9 * size)):
        row = int(np.argmax(np.abs((tangent.jacobian @ forced - place)[:, k])))
        joint = system.constraint_names(place.shape[0])[row]
        raise ValueError(
            f"{_OWNER}: with another {given.entry(k)} the mechanism does not fit together: the "
            f"redundant constraints, among them that of {joint}, cannot be met. Change parameters "
            "that keep it whole."
        )


def _balanced(
    system: System, here: Variation, Z: Any, load: np.ndarray, given: Directions
) -> np.ndarray:
    """x of the allowed motion Z x by which stiffness takes up the load; least where some motion
    meets no resistance."""
    if Z.shape[1] == 0:
        return np.zeros((0, load.shape[1]))
    K, wanted = -Z.T @ here.by_position @ Z, Z.T @ load
    size = np.max(np.abs(K), axis=1)
    row = 1 / np.where(size > 0, size, 1.0)
    softest = 1e-13 if system.section_shapes() else 1e-11
    x = np.linalg.lstsq(row[:, None] * K, row[:, None] * wanted, rcond=softest)[0]
    off = np.max(np.abs(K @ x - wanted), axis=0, initial=0.0)
    scale = np.max(np.abs(wanted), axis=0, initial=0.0)
    for k in map(int, np.flatnonzero(off > _LEFT * scale + 1e-300)):
        soft = Z @ np.linalg.svd(K)[2][-1]
        names = system.velocity_names(Z.shape[0])
        most = [names[i] for i in np.argsort(-np.abs(soft))[:3] if abs(soft[i]) > 1e-6]
        raise ValueError(
            f"{_OWNER}: with another {given.entry(k)} there is no equilibrium near this one: "
            f"nothing resists the motion of {listed(most)}. Hold it by a spring or a joint."
        )
    return x


def _kept_smallest(
    given: Directions,
    t: Any,
    q: np.ndarray,
    here: Variation,
    rank: int,
    dq: np.ndarray,
    dlam: np.ndarray,
) -> np.ndarray:
    """What multipliers of least norm change by along those that exert no force: (1 - J J^+) dJ
    J^+ lam, the last term of Golub and Pereyra 1973, Eq. (4.12)."""
    u, s, vt = np.linalg.svd(here.jacobian, full_matrices=False)
    u, w = u[:, :rank], vt[:rank].T @ (u[:, :rank].T @ here.lam / s[:rank])
    change = given.second(t, q, here.lam, w, 0.0 * here.lam, dq, dlam).rate
    return change - u @ (u.T @ change)


def equilibrium_sensitivity(
    rest: Equilibrium, parameters: str | Sequence[str]
) -> EquilibriumSensitivity:
    """See `Equilibrium.sensitivity`."""
    given = Directions(_OWNER, rest.system, parameters)
    if not bool(rest.success):
        raise ValueError(f"{_OWNER}: {rest.message}")
    if rest.rank is None:
        raise ValueError(
            f"{_OWNER}: the system has {rest.unbalanced.shape[0]} velocity coordinates, more than "
            "dense algebra takes. Take a smaller mechanism."
        )
    q = np.asarray(rest.q)
    moved = _moved(rest.system, float(rest.t), q, rest.rank, given)
    onto = onto_coordinates(rest.system, q, moved.dq)
    return EquilibriumSensitivity(
        given.by_name(onto), given.by_name(moved.dlam), rest, given, moved.dq
    )


@native(once=True)
def onto_coordinates(system: Any, q: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Increments (nv, entries) as changes of q (nq, entries)."""
    return jax.vmap(lambda step: system.qdot(q, step), in_axes=1, out_axes=1)(steps)


def mode_sensitivity(small: Linearization, parameters: str | Sequence[str]) -> ModeSensitivity:
    """See `Linearization.sensitivity`."""
    system: Any = small.system
    given = Directions(_OWNER, system, parameters)
    q = np.asarray(small.q)
    if np.any(np.asarray(small.v)) or small.changing or small.warning:
        raise ValueError(
            f"{_OWNER}: the state is no equilibrium, so that it does not stay what it is with "
            "other parameters. Linearize about what hx.equilibrium returns, or differentiate "
            "hx.linearize with jax.jvp, where the state is held."
        )
    modes = small.modes()
    values: Any = np.asarray(modes.eigenvalues)
    rank = int(small.velocity_basis.shape[0] - small.velocity_basis.shape[1])
    moved = _moved(system, float(small.t), q, rank, given)
    vectors = _vectors(small, moved.here, values)
    slopes = [
        np.full(given.size, complex(np.nan, np.nan))
        if vector is None
        else _slope(given, float(small.t), q, moved, s, *vector)
        for s, vector in zip(values, vectors, strict=True)
    ]
    found: Any = np.stack(slopes) if slopes else np.zeros((0, given.size), complex)
    size = np.abs(values)[:, None]
    side = np.sign(values.imag)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        part = found / size
        # of -Re s / |s|
        turned = (values[:, None].conj() * found).real / size**2
        damping = -part.real + values.real[:, None] / size * turned
    return ModeSensitivity(
        given.by_name(found),
        given.by_name(side * found.imag / (2 * np.pi)),
        given.by_name(np.where(size > 0, damping, np.nan)),
    )


def _vectors(small: Linearization, here: Variation, values: np.ndarray) -> list[Any]:
    """Right and left vectors with their multipliers and the divisor, for each simple eigenvalue;
    None for others."""
    A = np.asarray(small.A)
    n = small.basis.shape[1]
    Z, Zv = np.asarray(small.basis), np.asarray(small.velocity_basis)
    every, right = np.linalg.eig(A)
    largest = np.max(np.abs(every), initial=0.0)
    transposed, left = np.linalg.eig(A.T)
    inverse = np.linalg.pinv(here.jacobian.T, rcond=1e-9)
    none, out = zeros(A), []
    for s in values:
        k = int(np.argmin(np.abs(every - s)))
        others = np.delete(every, k)
        apart = np.min(np.abs(others - every[k]), initial=np.inf)
        if apart < _SIMPLE * largest or (none and abs(s) <= _SIMPLE * largest) or s == 0:
            out.append(None)
            continue
        s = every[k]
        w = np.linalg.solve(np.asarray(small.M).T, left[n:, np.argmin(np.abs(transposed - s))])
        u, w = Z @ right[:n, k], Zv @ w
        pencil = s**2 * here.mass - s * here.by_velocity - here.by_position
        mu, nu = -inverse @ (pencil @ u), -inverse @ (pencil.T @ w)
        out.append((u, mu, w, nu, w @ (2 * s * here.mass - here.by_velocity) @ u))
    return out


def _slope(
    given: Directions, t: float, q: np.ndarray, moved: _Moved, s: complex, *vectors: Any
) -> np.ndarray:
    """ds for each entry of the parameters."""
    u, mu, w, nu, divisor = vectors
    total = np.zeros(given.size, complex)
    lam, dq, dlam = moved.here.lam, moved.dq, moved.dlam
    for unit, x, y in ((1.0, u.real, mu.real), (1j, u.imag, mu.imag)):
        if not (np.any(x) or np.any(y)):
            continue
        d = given.second(t, q, lam, x, y, dq, dlam)
        force = s**2 * d.momentum - s * d.by_velocity - d.by_position + d.reaction
        total += unit * (w @ force + nu @ d.rate)
    return -total / divisor
