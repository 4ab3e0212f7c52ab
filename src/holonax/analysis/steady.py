"""Steady motions: those that a frame which turns evenly sees standing still.

In a frame that turns at W (a skew matrix on the coordinates of v, in world axes) a steady motion
has v' = W v, and the matrices that small deviations meet are constant. W is found from how these
change along the motion, X' = W X - X W, and then put to the test: the motion that it predicts is
followed for a while, and has to satisfy the equations of motion, and to leave the matrices as they
are. The frame that turns least is taken: none, then one for each body (which turn alike where
bodies are connected), then, for large mechanisms, one for all. A wheel that rolls straight needs
none, for its matrices do not change as it spins.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ..rotation.quaternion import quaternion_from_axes
from ..system.base import System
from ..system.mechanism import Mechanism
from ..system.places import others, quaternions, rotations, translations
from .variation import Bases, Variation, variation

_TOLERANCE = 1e-7  # change, relative to the motion's own rates, that counts as none
_MOST = 12  # coordinates without geometry for which a frame is sought
_MANY = 20_000_000  # numbers in the equations for W
_SAMPLES = (0.37, 1.0, 2.3)  # [rad] of the fastest and of the slowest rotation


class SteadyFrame(NamedTuple):
    """A frame that turns at `rate` (nv, nv), world axes, seen in the axes of the coordinates v:
    deviations of position turn in it at `positions`, those of velocity at `velocities`."""

    rate: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray


class Unsteady(NamedTuple):
    """Why a motion is not steady."""

    reason: str


# -- axes of the world ------------------------------------------------------------------------


def skew(w: np.ndarray) -> np.ndarray:
    """The matrix of the cross product with w."""
    return np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])


def _axes(e: np.ndarray) -> np.ndarray:
    """The rotation of a unit quaternion."""
    w, u = e[0], skew(e[1:])
    return np.eye(3) + 2 * w * u + 2 * u @ u


def world_axes(system: System, q: np.ndarray, nv: int) -> np.ndarray:
    """S (nv, nv) that takes the coordinates of v to world axes."""
    S = np.eye(nv)
    for at, e in zip(rotations(system), quaternions(system), strict=True):
        S[np.ix_(at, at)] = _axes(q[e])
    return S


def _spins(system: System, v: np.ndarray) -> np.ndarray:
    """S' S^T, from velocities in world axes."""
    out = np.zeros((v.size, v.size))
    for at in rotations(system):
        out[np.ix_(at, at)] = skew(v[at])
    return out


# -- frames -----------------------------------------------------------------------------------


def _turns(nv: int, places: list[np.ndarray]) -> list[np.ndarray]:
    """Generators of rotations that act on vectors at these places, all alike."""
    size = places[0].size
    pairs = [(1, 2), (2, 0), (0, 1)] if size == 3 else [(0, 1)]
    out = []
    for i, j in pairs:
        E = np.zeros((nv, nv))
        for at in places:
            E[at[j], at[i]], E[at[i], at[j]] = 1.0, -1.0
        out.append(E)
    return out


def _frames(system: System, nv: int, nq: int) -> list[list[np.ndarray]]:
    """Sets of generators of frames, to be tried in this order."""
    frames: list[list[np.ndarray]] = [[]]
    if isinstance(system, Mechanism):
        vectors = [*translations(system), *rotations(system)]
        kinds = [[x for x in vectors if x.size == size] for size in (2, 3)]
        frames.append([E for at in vectors for E in _turns(nv, [at])])
        frames.append([E for kind in kinds if kind for E in _turns(nv, kind)])
    elif nv == nq and nv <= _MOST:
        places = [np.array(x) for x in zip(*np.triu_indices(nv, 1), strict=True)]
        frames.append([E for at in places for E in _turns(nv, [at])])
    return [x for x in frames if len(x) * (2 * nv) ** 2 <= _MANY]


class _Turning:
    """exp(W t) of a skew W, and its integral."""

    def __init__(self, W: np.ndarray):
        self._rates, self._vectors = np.linalg.eigh(1j * W)

    def at(self, t: float) -> np.ndarray:
        """exp(W t)."""
        return np.real(self._vectors * np.exp(-1j * self._rates * t) @ self._vectors.conj().T)

    def integral(self, t: float) -> np.ndarray:
        """The integral of exp(W s) from 0 to t."""
        x = -1j * self._rates * t
        small = np.abs(x) < 1e-6
        x = np.where(small, 1.0, x)
        factor = np.where(small, 1 - 0.5j * self._rates * t, np.expm1(x) / x)
        return np.real(t * self._vectors * factor @ self._vectors.conj().T)


def _turned(w: np.ndarray) -> np.ndarray:
    """The rotation by the vector w."""
    return _Turning(skew(w)).at(1.0)


# -- one state, in world axes -----------------------------------------------------------------


class _State(NamedTuple):
    """What small deviations meet at one state, in world axes."""

    v: np.ndarray
    a: np.ndarray
    S: np.ndarray
    mass: np.ndarray
    jacobian: np.ndarray
    drag: np.ndarray
    by_position: np.ndarray
    by_velocity: np.ndarray  # with the part of axes that turn with the bodies


def _seen(system: System, q: np.ndarray, v: np.ndarray, here: Variation) -> _State:
    S = world_axes(system, q, v.size)
    mass = S @ here.mass @ S.T
    v = S @ v
    return _State(
        v=v,
        a=S @ here.a,
        S=S,
        mass=mass,
        jacobian=here.jacobian @ S.T,
        drag=here.drag @ S.T,
        by_position=S @ here.by_position @ S.T,
        by_velocity=S @ here.by_velocity @ S.T + mass @ _spins(system, v),
    )


class _Motion:
    """A state and what belongs to it, to be followed by frames that turn."""

    def __init__(
        self,
        system: System,
        t: float,
        q: np.ndarray,
        v: np.ndarray,
        rank: int,
        holonomic: int,
        here: Variation,
        bases: Bases,
    ):
        self.system, self.t, self.q, self.rank, self.holonomic = system, t, q, rank, holonomic
        self.now = _seen(system, q, v, here)
        self.Z, self.Zv, self.C = (self.now.S @ x for x in bases)
        self.rates = motion_rates(system, q, v, here.a, here.mass)
        self.fastest = float(self.rates.max())
        # forces of a deviation of one, and what they are small against
        size = self.reduced(self.now, np.zeros_like(self.now.mass))
        self.scale = max(np.linalg.norm(x) for x in size)

    def reduced(
        self, state: _State, W: np.ndarray, R: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Mass, damping and stiffness on the bases, carried along by R, seen in the frame; all
        three in the units of the stiffness."""
        Z, Zv, C = (self.Z, self.Zv, self.C) if R is None else (R @ self.Z, R @ self.Zv, R @ self.C)
        damping = state.by_velocity - state.mass @ W
        return [
            self.fastest**2 * (Zv.T @ state.mass @ Zv),
            self.fastest * (Zv.T @ damping @ Zv),
            Zv.T @ (state.by_position @ Z + damping @ C),
        ]

    def predicted(self, W: np.ndarray, s: float) -> tuple[np.ndarray, np.ndarray]:
        """(q, v in world axes) after the time s, if the frame W sees the motion standing still."""
        turning, system = _Turning(W), self.system
        way, v = turning.integral(s) @ self.now.v, turning.at(s) @ self.now.v
        q = np.array(self.q)
        q[others(quaternions(system), q.size)] += way[others(rotations(system), v.size)]
        for rows, e in zip(rotations(system), quaternions(system), strict=True):
            w = np.array([W[rows[2], rows[1]], W[rows[0], rows[2]], W[rows[1], rows[0]]])
            turn = _turned(s * w) @ _turned(s * (self.now.v[rows] - w))
            q[e] = quaternion_from_axes(turn @ _axes(self.q[e]))
        return q, v

    def after(self, W: np.ndarray, s: float, change: float | np.ndarray = 0.0) -> _State:
        """What deviations meet after the time s; `change` is added to the velocities."""
        q, v = self.predicted(W, s)
        S = world_axes(self.system, q, v.size)
        v = S.T @ (v + change)
        here = variation(self.system, self.t + s, q, v, self.rank)
        return _seen(self.system, q, v, here)

    def slopes(self) -> _State:
        """d/dt of all of it along the motion, by differences of the fourth order."""
        h, none = 1e-3 / self.fastest, np.zeros_like(self.now.mass)
        low2, low, high, high2 = (
            self.after(none, k * h, k * h * self.now.a) for k in (-2, -1, 1, 2)
        )
        parts = zip(low2, low, high, high2, strict=True)
        return _State(*((a - 8 * b + 8 * c - d) / (12 * h) for a, b, c, d in parts))


def motion_rates(
    system: System, q: np.ndarray, v: np.ndarray, a: np.ndarray, mass: np.ndarray
) -> np.ndarray:
    """How fast bodies turn, the velocity turns, and, where nothing turns, how fast things go their
    own size [1/s]."""
    speed = float(np.sqrt(v @ mass @ v))
    rates = [float(np.sqrt(a @ mass @ a)) / max(speed, 1e-300)]
    if isinstance(system, Mechanism):
        rates += [float(np.linalg.norm(v[at])) for at in rotations(system)]
        rates += np.abs(v[others([*translations(system), *rotations(system)], v.size)]).tolist()
    size = float(np.max(np.asarray(system.extent(jnp.asarray(q))), initial=0.0))
    if isinstance(system, Mechanism) and max(rates) > 1e-9 * speed:
        return np.array(rates)
    return np.array([*rates, float(np.max(np.abs(v), initial=0.0)) / (size if size > 0 else 1.0)])


# -- the search -------------------------------------------------------------------------------


def steady_frame(
    system: System,
    t: float,
    q: np.ndarray,
    v: np.ndarray,
    rank: int,
    holonomic: int,
    here: Variation,
    bases: Bases,
    spin: np.ndarray | None = None,
) -> SteadyFrame | Unsteady:
    """The frame in which the motion stands still, or why there is none.

    `holonomic` is the number of constraint rows of position level. `spin` is the rate of the frame
    (nv, nv) where it is known what turns, and only whether it has to be followed is not.
    """
    motion = _Motion(system, t, q, v, rank, holonomic, here, bases)
    if spin is not None:
        return _known_frame(motion, spin)
    slope, reason = None, ""
    for generators in _frames(system, v.size, q.size):
        W = np.zeros_like(motion.now.mass)
        if generators:
            slope = motion.slopes() if slope is None else slope
            rates = _fitted(motion, slope, generators)
            W = np.tensordot(rates, np.array(generators), 1)
        reason = _objection(motion, W)
        if not reason:
            return _as_frame(motion, W)
    return Unsteady(reason)


def _as_frame(motion: _Motion, W: np.ndarray) -> SteadyFrame:
    S = motion.now.S
    own = S.T @ W @ S
    return SteadyFrame(W, own, own - S.T @ _spins(motion.system, motion.now.v) @ S)


def _known_frame(motion: _Motion, spin: np.ndarray) -> SteadyFrame | Unsteady:
    """None that turns, or the one given."""
    motion.rates = np.array([float(np.max(np.abs(spin)))])
    for W in (np.zeros_like(spin), spin):
        reason = _objection(motion, W)
        if not reason:
            return _as_frame(motion, W)
    return Unsteady(reason)


def _fitted(motion: _Motion, slope: _State, generators: list[np.ndarray]) -> np.ndarray:
    """The rates at which the generators turn the frame: least squares, the smallest ones."""
    now, Z, Zv, C = motion.now, motion.Z, motion.Zv, motion.C
    G, Gdot = now.jacobian[: motion.holonomic], slope.jacobian[: motion.holonomic]
    size = np.max(np.linalg.norm(now.jacobian @ np.linalg.inv(np.linalg.cholesky(now.mass)).T))
    rate, scale = motion.fastest, motion.scale
    root = np.linalg.cholesky(now.mass).T
    speed = np.linalg.norm(root @ now.v)

    def column(W: np.ndarray | None) -> np.ndarray:
        """What a frame contributes to each equation; None for what it has to make up for."""

        def turned(X: np.ndarray, Xdot: np.ndarray) -> np.ndarray:
            return -Xdot if W is None else X @ W - W @ X

        def carried(X: np.ndarray, Xdot: np.ndarray) -> np.ndarray:
            return -Xdot if W is None else X @ W

        damping = turned(now.by_velocity, slope.by_velocity)
        J = carried(now.jacobian, slope.jacobian)
        parts = [
            root @ (now.a if W is None else W @ now.v) / (rate * speed),
            J @ Zv / (rate * size),
            carried(G, Gdot) @ Z / (rate * size),
            (carried(now.drag, slope.drag) @ Z + J @ C) / (rate**2 * size),
            Zv.T @ turned(now.mass, slope.mass) @ Zv / rate,
            Zv.T @ damping @ Zv / scale,
            Zv.T @ (turned(now.by_position, slope.by_position) @ Z + damping @ C) / (rate * scale),
        ]
        return np.concatenate([np.ravel(x) for x in parts])

    columns = np.stack([column(W) for W in generators], axis=1)
    return np.linalg.lstsq(columns, column(None), rcond=1e-7)[0]


def _objection(motion: _Motion, W: np.ndarray) -> str:
    """Why the frame does not see the motion standing still; empty if it does."""
    off = _acceleration_off(motion, motion.now, W)
    if off:
        return off
    first = motion.reduced(motion.now, W)
    rates = motion.rates[motion.rates > 1e-6 * motion.fastest]
    times = [x / rate for rate in (motion.fastest, float(rates.min())) for x in _SAMPLES]
    for s in dict.fromkeys(times):
        later, R = motion.after(W, s), _Turning(W).at(s)
        off = _acceleration_off(motion, later, W)
        if off:
            return f"{off} after {s:.3g} s"
        if _leaves_constraints(motion, later, R):
            return f"what its constraints allow has changed after {s:.3g} s"
        found = motion.reduced(later, W, R)
        change = max(np.linalg.norm(x - y) for x, y in zip(found, first, strict=True))
        if not change <= _TOLERANCE * motion.scale:
            part = change / motion.scale
            return f"the equations of small deviations have changed by {part:.1e} after {s:.3g} s"
    return ""


def _acceleration_off(motion: _Motion, state: _State, W: np.ndarray) -> str:
    """Which coordinate is not accelerated as the frame has it."""
    off = state.a - W @ state.v
    root = np.linalg.cholesky(state.mass).T
    speed = np.linalg.norm(root @ motion.now.v)
    if np.linalg.norm(root @ off) <= _TOLERANCE * motion.fastest * speed:
        return ""
    worst = int(np.argmax(np.abs(root @ off)))
    return f"{motion.system.velocity_names(off.size)[worst]} is accelerated by {off[worst]:.3g}"


def _leaves_constraints(motion: _Motion, later: _State, R: np.ndarray) -> bool:
    """Whether deviations that are carried along are no longer allowed."""
    Z, Zv, C = R @ motion.Z, R @ motion.Zv, R @ motion.C
    half = np.linalg.inv(np.linalg.cholesky(later.mass)).T
    size = np.linalg.norm(later.jacobian @ half)
    left = [
        later.jacobian @ Zv,
        later.jacobian[: motion.holonomic] @ Z,
        (later.drag @ Z + later.jacobian @ C) / motion.fastest,
    ]
    return any(not np.linalg.norm(x) <= 10 * _TOLERANCE * size for x in left)
