"""Bodies with modes: a floating frame, and amplitudes of deformation modes relative to it.

A point of such a body, s at rest in the coordinates of its frame, is at

    r + A (s + sum_j phi_j eta_j)

and everything follows from the kinetic energy of its points, nothing left out. With the inertia
shape integrals (see `model/body_modes.py`) c = first moment, J = inertia, L = rotation, all of them
polynomials of the amplitudes, P = translation and m_e = modal mass, the mass matrix of the
velocities (v of the frame in world axes, w in the frame's, eta') is

        [ m 1       A C   A P ]
    M = [ C^T A^T   J     L   ],   C w = w x c,
        [ P^T A^T   L^T   m_e ]

and the inertia forces that are left are

    -A (w x (w x c) + 2 w x P eta'),   -(J' w + w x (J w + L eta')),
    1/2 w . J_,j w - 2 w . sum_i eta_i' L_ij,   L_ij = sum of m phi_i x phi_j.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._modules import Module
from ..rotation import Vec3
from ..rotation.quaternion import quaternion_axes, quaternion_multiply
from .base import Array
from .elements import Indices
from .frames import Frame, PlanarFrame

if TYPE_CHECKING:
    import numpy as np

Place = tuple[Array, Array]  # q of a frame and the amplitudes


class ModalBody(Module):
    """One body with k modes, in d = 2 or 3 dimensions with r = 1 or 3 rotations.

    `frame` is its number among those that have coordinates of their own, `markers` are those of
    its markers among all frames.
    """

    mass: Array
    first_moment: Array  # (d,)
    inertia: Array  # (r, r), about the origin
    translation: Array  # (d, k)
    rotation: Array  # (r, k)
    inertia_by_mode: Array  # (k, r, r)
    inertia_by_modes: Array  # (k, k, r, r)
    rotation_by_mode: Array  # (k, r, k)
    modal_mass: Array  # (k, k)
    stiffness: Array  # (k, k)
    damping: Array | None  # (k, k)
    at: Array  # (markers, d)
    shapes: Array  # (markers, d, k)
    turns: Array | None  # (markers, r, k)
    name: str = eqx.field(static=True)
    frame: int = eqx.field(static=True)
    markers: Indices = eqx.field(static=True)

    @property
    def modes(self) -> int:
        """How many there are."""
        return self.translation.shape[1]

    # -- markers ---------------------------------------------------------------------------

    def placed(self, q: Array, v: Array, eta: Array, rate: Array) -> tuple[Array, Array]:
        """Rows of q and v of the markers (components, markers), from those of the frame."""
        s, u = self.at, jnp.zeros_like(self.at)
        turn = spin = None
        if self.modes:
            s, u = s + self.shapes @ eta, self.shapes @ rate
            if self.turns is not None:
                turn, spin = self.turns @ eta, self.turns @ rate
        if len(v) == 3:
            return self._placed_in_plane(q, v, s, u, turn, spin)
        e, w = (q[3], q[4], q[5], q[6]), Vec3(v[3], v[4], v[5])
        A, s = quaternion_axes(e), Vec3.of(s)
        r = Vec3(q[0], q[1], q[2]) + A @ s
        velocity = Vec3(v[0], v[1], v[2]) + A @ (w.cross(s) + Vec3.of(u))
        if turn is not None:
            # the rotation of the Rodrigues vector turn / 2: that of the rotation vector but for
            # terms of third order, without trigonometric functions
            half, turning = 0.5 * Vec3.of(turn), Vec3.of(spin)
            square = 1 / (1 + half.dot(half))
            scale = jnp.sqrt(square)
            bent = (scale, half.x * scale, half.y * scale, half.z * scale)
            w = quaternion_axes(bent).T @ w + (turning - half.cross(turning)) * square
            e = quaternion_multiply(e, bent)
        full = lambda *x: jnp.stack(jnp.broadcast_arrays(*x))  # noqa: E731
        return full(*r, *e), full(*velocity, *w)

    def _placed_in_plane(
        self,
        q: Array,
        v: Array,
        s: np.ndarray | Array,
        u: np.ndarray | Array,
        turn: np.ndarray | Array | None,
        spin: Any,
    ) -> tuple[Array, Array]:
        c, n = jnp.cos(q[2]), jnp.sin(q[2])
        x, y = c * s[:, 0] - n * s[:, 1], n * s[:, 0] + c * s[:, 1]
        ux, uy = c * u[:, 0] - n * u[:, 1], n * u[:, 0] + c * u[:, 1]
        angle, w = q[2] + 0.0 * x, v[2] + 0.0 * x
        if turn is not None:
            angle, w = angle + turn[:, 0], w + spin[:, 0]
        return (
            jnp.stack([q[0] + x, q[1] + y, angle]),
            jnp.stack([v[0] - v[2] * y + ux, v[1] + v[2] * x + uy, w]),
        )

    # -- its frame and the markers by the body's coordinates (d + r + k,), at a place (q, eta) ----

    def moved(self, place: Place, y: Array) -> Place:
        """The place moved by an increment."""
        q, eta = place
        frame = _frame(q)
        return frame.retract(q[:, None], y[: frame.dof, None])[:, 0], eta + y[frame.dof :]

    def velocities(self, place: Place, u: Array) -> Array:
        """Of the frame and of the markers, (components, frames) flattened."""
        q, eta = place
        own, rate = u[: _frame(q).dof], u[_frame(q).dof :]
        if not self.markers:
            return own
        return jnp.concatenate([own[:, None], self.placed(q, own, eta, rate)[1]], axis=1).ravel()

    def accelerations(self, place: Place, u: Array, a: Array) -> Array:
        """The rates of `velocities` where those of the coordinates are `a`."""
        q, _ = place
        frame = _frame(q)
        rates = frame.qdot(q[:, None], u[: frame.dof, None])[:, 0], u[frame.dof :]
        along = lambda place: self.velocities(place, u)  # noqa: E731
        return self.velocities(place, a) + jax.jvp(along, (place,), (rates,))[1]

    # -- inertia ---------------------------------------------------------------------------

    def axes_at(self, q: Array) -> Array:
        """The rotation matrix A of the frame, (d, d)."""
        if len(q) == 3:
            c, s = jnp.cos(q[2]), jnp.sin(q[2])
            return jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])
        A = quaternion_axes((q[3], q[4], q[5], q[6]))
        return jnp.stack([A.x.array(), A.y.array(), A.z.array()], axis=1)

    def centre(self, eta: Array) -> Array:
        """c, the first moment of mass [kg m]."""
        return self.first_moment + self.translation @ eta if self.modes else self.first_moment

    def turning(self, eta: Array) -> Array:
        """J, the inertia about the frame's origin (r, r)."""
        if not self.modes:
            return self.inertia
        bent = jnp.einsum("i,ijab->jab", eta, self.inertia_by_modes)
        return self.inertia + jnp.einsum("j,jab->ab", eta, self.inertia_by_mode + bent)

    def by_modes(self, eta: Array) -> Array:
        """L, the angular momentum that a rate of each mode has (r, k)."""
        return self.rotation + jnp.einsum("i,iaj->aj", eta, self.rotation_by_mode)

    def block(self, q: Array, eta: Array) -> Array:
        """The mass matrix (d + r + k, d + r + k)."""
        A, c, J = self.axes_at(q), self.centre(eta), self.turning(eta)
        d = len(c)
        heavy = self.mass * jnp.eye(d)
        AC = A @ _crossed(c)
        if not self.modes:
            return jnp.block([[heavy, AC], [AC.T, J]])
        AP, L = A @ self.translation, self.by_modes(eta)
        return jnp.block([[heavy, AC, AP], [AC.T, J, L], [AP.T, L.T, jnp.asarray(self.modal_mass)]])

    def force(self, gravity: Any, q: Array, v: Array, eta: Array, rate: Array) -> Array:
        """Gravity, inertia forces and elastic ones, (d + r + k,)."""
        A, c, J = self.axes_at(q), self.centre(eta), self.turning(eta)
        d, g = len(c), jnp.stack(jnp.broadcast_arrays(*gravity))
        w, fall = v[d:], A.T @ g
        flow = self.translation @ rate if self.modes else jnp.zeros((d,))
        pull = self.mass * g - A @ _across(w, _across(w, c) + 2 * flow)
        torque = _crossed(c).T @ fall
        if d == 3:
            spin = J @ w + (self.by_modes(eta) @ rate if self.modes else 0.0)
            torque = torque - jnp.cross(w, spin)
        if not self.modes:
            return jnp.concatenate([pull, torque])
        both = self.inertia_by_modes + jnp.swapaxes(self.inertia_by_modes, 0, 1)
        slopes = self.inertia_by_mode + jnp.einsum("i,ijab->jab", eta, both)
        slopes = jnp.einsum("jab,b->ja", slopes, w)  # of J w to each amplitude
        turned = jnp.einsum("i,iaj,a->j", rate, self.rotation_by_mode, w)
        elastic = self.stiffness @ eta
        if self.damping is not None:
            elastic = elastic + self.damping @ rate
        modal = self.translation.T @ fall + 0.5 * slopes @ w - 2 * turned - elastic
        return jnp.concatenate([pull, torque - rate @ slopes, modal])

    def potential(self, gravity: Any, q: Array, eta: Array) -> Array:
        """Energy of gravity and of the deformation [J]."""
        g, d = jnp.stack(jnp.broadcast_arrays(*gravity)), len(self.first_moment)
        weight = g @ (self.mass * q[:d] + self.axes_at(q) @ self.centre(eta))
        return (0.5 * eta @ self.stiffness @ eta if self.modes else 0.0) - weight


def _frame(q: Array) -> type[PlanarFrame] | type[Frame]:
    return PlanarFrame if len(q) == PlanarFrame.nq else Frame


def _crossed(c: Array) -> Array:
    """C with C w = w x c, (d, r)."""
    if len(c) == 2:
        return jnp.stack([-c[1], c[0]])[:, None]
    o = jnp.zeros(())
    rows = [[o, c[2], -c[1]], [-c[2], o, c[0]], [c[1], -c[0], o]]
    return jnp.stack([jnp.stack(row) for row in rows])


def _across(w: Array, x: Array) -> Array:
    """w x x."""
    return w[0] * jnp.stack([-x[1], x[0]]) if len(x) == 2 else jnp.cross(w, x)
