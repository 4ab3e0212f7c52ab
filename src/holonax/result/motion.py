"""What the bodies of a mechanism did over a trajectory, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._messages import shown
from .._numbers import array
from ..system.evaluation import evaluated
from ..system.mechanism import Mechanism
from ..system.modal import ModalBodySet, amplitudes, spread_states

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True, repr=False)
class BodyMotion:
    """The motion of one body over time: of the origin of its coordinates, and of its axes.

    Spatial: `position` (n, 3), `rotation` (n, 3, 3) and `quaternion` (n, 4), `velocity` (n, 3),
    `angular_velocity` (n, 3) in world axes, and the accelerations of both. Planar: `position`
    (n, 2), `angle` (n,), `velocity` (n, 2), `angular_velocity` (n,). `com` is the centre of mass
    in the body's coordinates. A body with modes has their amplitudes `modes` (n, modes) and
    `mode_rates`; its position is that of its floating frame.
    """

    position: np.ndarray
    velocity: np.ndarray
    angular_velocity: np.ndarray
    rates: Callable[[], np.ndarray] = field(repr=False)  # v' of the body, (components, times)
    angle: np.ndarray | None = None
    quaternion: np.ndarray | None = None
    rotation: np.ndarray | None = None
    com: np.ndarray | None = None
    modes: np.ndarray | None = None
    mode_rates: np.ndarray | None = None

    def __repr__(self) -> str:
        turning = "angle" if self.rotation is None else "rotation"
        known = f"position, {turning}, velocity, angular_velocity, their accelerations, point(...)"
        known += "" if self.modes is None else f", modes ({self.modes.shape[1]}) and mode_rates"
        return f"<motion of a body at {len(self.position)} states: {known}>"

    @cached_property
    def acceleration(self) -> np.ndarray:
        """Of the origin, as `velocity`."""
        return self.rates()[: self.position.shape[1]].T

    @cached_property
    def angular_acceleration(self) -> np.ndarray:
        """As `angular_velocity`."""
        turning = self.rates()[self.position.shape[1] :]
        # d/dt (A w) = A w' since A w~ w = 0
        return turning[0] if self.rotation is None else _turned(self.rotation, turning)

    def point(self, local: np.ndarray) -> np.ndarray:
        """World position over time of a point given in the body's coordinates."""
        local = array("point", "local", local)
        if local.shape != self.position.shape[1:]:
            raise ValueError(
                f"point: {shown(local.tolist())} must be a point of {self.position.shape[1]} "
                "numbers in the body's coordinates [m]."
            )
        if self.rotation is not None:
            return self.position + self.rotation @ local
        assert self.angle is not None
        c, s = np.cos(self.angle), np.sin(self.angle)
        turned = np.stack([c * local[0] - s * local[1], s * local[0] + c * local[1]], axis=-1)
        return self.position + turned


def body_motion(system: Mechanism, name: str, q: np.ndarray, v: np.ndarray, a: Any) -> BodyMotion:
    """The motion of the body `name` from trajectories of q, v and v'; the last may be a
    function, which is called when accelerations are asked for."""
    i, s = system.number_of(name), system.bodies
    given: Any = a if callable(a) else lambda: a
    modes, mode_rates = amplitudes(s, name, q, s.frame.nq), amplitudes(s, name, v, s.dof)
    all_q, all_v, _ = spread_states(s, q, v)
    x, y = rows_of(system, all_q, i), rows_of(system, all_v, i)
    rates = lambda: rows_of(system, spread_states(s, q, v, given())[2], i)  # noqa: E731
    com = np.zeros(system.bodies.translations)
    if system.is_planar:
        centre = BodyMotion(x[:2].T, y[:2].T, y[2], rates, angle=x[2], com=com)
        centre = replace(centre, modes=modes, mode_rates=mode_rates)
    else:
        A, e = _rotations(x[3:]), x[3:].T
        turning = _turned(A, y[3:])
        centre = BodyMotion(x[:3].T, y[:3].T, turning, rates, None, e, A, com, modes, mode_rates)
    if system.bodies.com is None:
        return centre
    return _at_origin(centre, np.asarray(system.bodies.com[i]))


def total_momentum(
    system: Mechanism, q: np.ndarray, v: np.ndarray, about: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Linear (n, 3) and angular (n, 3) momentum; planar bodies contribute in the x-y plane."""
    about = array("momentum", "about", about)
    if about.shape not in ((2,), (3,)):
        raise ValueError(
            f"momentum: about={shown(about.tolist())} must be a point of two or three finite "
            "numbers [m]."
        )
    about = np.pad(about, (0, 3 - about.size))
    if isinstance(system.bodies, ModalBodySet):
        return _momentum_of_all(system, q, v, about)
    linear = np.zeros((q.shape[0], 3))
    angular = np.zeros((q.shape[0], 3))
    mass, inertia = np.asarray(system.bodies.mass), np.asarray(system.bodies.inertia)
    for i, name in enumerate(system.bodies.rigid):
        motion = body_motion(system, name, q, v, np.zeros_like(v))
        r, u = (rows_of(system, x, i)[: system.bodies.translations].T for x in (q, v))
        if system.is_planar:
            r, u = (np.pad(x, ((0, 0), (0, 1))) for x in (r, u))
            angular[:, 2] += inertia[i] * motion.angular_velocity
        else:
            xx, yy, zz, xy, xz, yz = np.pad(inertia[:, i], (0, 6 - inertia.shape[0]))
            J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
            A = np.asarray(motion.rotation)
            spin = np.einsum("nji,nj->ni", A, motion.angular_velocity) @ J
            angular += np.einsum("nij,nj->ni", A, spin)
        p = mass[i] * u
        linear += p
        angular += np.cross(r - about, p)
    return linear, angular


def _momentum_of_all(
    system: Mechanism, q: np.ndarray, v: np.ndarray, about: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """From M v: forces and torques on the frames, summed up."""
    s, d = system.bodies, system.bodies.translations
    mass = evaluated(system, np.zeros(len(q)), q, v, dense=True).mass
    p = np.einsum("nij,nj->ni", mass, v)[:, : s.dof * s.count].reshape(len(q), s.dof, s.count)
    r = q[:, : s.frame.nq * s.count].reshape(len(q), -1, s.count)
    linear, angular = np.zeros((len(q), 3)), np.zeros((len(q), 3))
    for i in range(s.count):
        push = np.pad(p[:, :d, i], ((0, 0), (0, 3 - d)))
        arm = np.pad(r[:, :d, i], ((0, 0), (0, 3 - d))) - about
        turn = p[:, d:, i]
        if d == 2:
            turn = np.pad(turn, ((0, 0), (2, 0)))
        else:
            turn = np.einsum("nij,nj->ni", _rotations(r[:, 3:, i].T), turn)
        linear += push
        angular += np.cross(arm, push) + turn
    return linear, angular


def rows_of(system: Mechanism, x: np.ndarray, i: int) -> np.ndarray:
    """Components over time, (components, times), of body i, from states or velocities."""
    return x.reshape(x.shape[0], -1, system.bodies.n)[:, :, i].T


def _at_origin(centre: BodyMotion, com: np.ndarray) -> BodyMotion:
    """The motion of a body's origin from that of its centre of mass, which has the coordinates
    `com`: with s from the centre to the origin, v = v_c + w x s, a = a_c + w' x s + w x (w x s)."""
    s = centre.point(-com) - centre.position
    planar = centre.angle is not None

    def across(w: np.ndarray, x: np.ndarray) -> np.ndarray:
        if planar:
            return w[:, None] * np.stack([-x[:, 1], x[:, 0]], axis=1)
        return np.cross(w, x)

    def rates() -> np.ndarray:
        spin = across(centre.angular_acceleration, s) + across(w, across(w, s))
        return np.concatenate([(centre.acceleration + spin).T, centre.rates()[s.shape[1] :]])

    w = centre.angular_velocity
    position, velocity = centre.position + s, centre.velocity + across(w, s)
    return replace(centre, position=position, velocity=velocity, rates=rates, com=com)


def _turned(rotation: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Vectors (3, n) of the body's axes in those of the world, (n, 3)."""
    return np.einsum("nij,jn->ni", rotation, x)


def _rotations(e: np.ndarray) -> np.ndarray:
    """Rotation matrices (n, 3, 3) of quaternions given as rows (4, n)."""
    e0, e1, e2, e3 = e
    return np.moveaxis(
        np.array(
            [
                [1 - 2 * (e2**2 + e3**2), 2 * (e1 * e2 - e0 * e3), 2 * (e1 * e3 + e0 * e2)],
                [2 * (e1 * e2 + e0 * e3), 1 - 2 * (e1**2 + e3**2), 2 * (e2 * e3 - e0 * e1)],
                [2 * (e1 * e3 - e0 * e2), 2 * (e2 * e3 + e0 * e1), 1 - 2 * (e1**2 + e2**2)],
            ]
        ),
        -1,
        0,
    )


def rotation(system: Mechanism, frame: int, q: np.ndarray) -> np.ndarray:
    """The rotation matrix over time of a body by its frame's number (0 is the ground)."""
    if frame == 0:
        return np.tile(np.eye(system.bodies.translations), (q.shape[0], 1, 1))
    still = np.zeros((len(q), system.bodies.velocity_size))
    x = rows_of(system, spread_states(system.bodies, q, still)[0], frame - 1)
    if not system.is_planar:
        return _rotations(x[3:])
    c, s = np.cos(x[2]), np.sin(x[2])
    return np.moveaxis(np.array([[c, -s], [s, c]]), -1, 0)
