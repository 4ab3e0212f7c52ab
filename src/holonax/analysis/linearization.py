"""Small motions about a state, on the constraint manifold.

A small deviation from the state (q, v) that the constraints allow is

    dq = Z x,   dv = Z_v y + C x,     J Z_v = 0,   G Z = 0,   J C = -d(J v + g_t)/dq Z

with Z = Z_v unless there are non-holonomic constraints, and C = 0 at rest. What is left of the
equations of motion is

    M_r y' = -D y - K x + Z_v^T u
    D = -Z_v^T df/dv Z_v
    K = -Z_v^T (d/dq [f - J^T lam - M v'] Z + df/dv C)

with lam and v' fixed: K holds the geometric stiffness of the loaded joints. x' = y but for the
non-holonomic and for spatial bodies that turn, whose increments are counted in turning axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import checked_call, several
from .._messages import listed, shown
from ..system.base import Array, System
from .checks import as_start, check_system, coordinate_index, known, known_rank, unit
from .equilibrium import Equilibrium
from .modes import Modes, sorted_modes
from .tangent import Tangent


class Linearization(eqx.Module):
    """M_r y' + D y + K x = Z^T u about a state, and x' = y (see the module for the exact form).

    `M`, `D`, `K` (n, n) are mass, damping with gyroscopic terms, and stiffness with the geometric
    one, all on the `basis` Z (nv, n): dq = Z x. `A` (2n, 2n) and `B` (2n, nv) are those of
    d/dt (x, y) = A (x, y) + B u, where u are forces on the coordinates of v. `unbalanced` (nv,) is
    the force that accelerates the state along motions that are free; zero in an equilibrium.
    """

    M: Array
    D: Array
    K: Array
    A: Array
    B: Array
    basis: Array
    system: System
    q: Array
    v: Array
    lam: Array
    unbalanced: Array
    scale: Array
    coordinates: tuple[str, ...] | None = eqx.field(static=True)

    @property
    def names(self) -> list[str]:
        """The coordinates of v, which are the rows of `basis` and of mode shapes."""
        return self.system.velocity_names(int(self.v.shape[0]))

    @property
    def warning(self) -> str:
        """What to keep in mind about the state; empty for an equilibrium."""
        v, force, scale = known(self.v), known(self.unbalanced), known(self.scale)
        if v is None or force is None or scale is None:
            return ""
        if np.max(np.abs(v), initial=0.0) > 1e-9:
            return (
                "the state moves: the matrices belong to this instant only, and modes mean "
                "something if they change slowly."
            )
        worst = int(np.argmax(np.abs(force)))
        if np.abs(force[worst]) > 1e-7 * scale:
            name = self.names[worst]
            return (
                f"the state is no equilibrium: {name} is out of balance by "
                f"{abs(force[worst]):.3g}{unit(self.system, name)}. Find one with hx.equilibrium."
            )
        return ""

    def eigenvalues(self) -> Array:
        """The 2n eigenvalues of A [1/s], differentiable (once) where they are simple.

        Those with a positive imaginary part first, from the slowest on, then real ones, then the
        conjugates.
        """
        return sorted_modes(self.A)[0]

    def modes(self) -> Modes:
        """Frequencies, damping ratios and shapes of the free vibrations."""
        eigenvalues, vectors = sorted_modes(self.A)
        values = known(eigenvalues)
        if values is None:
            raise TypeError(
                "modes: how many there are depends on numbers that a compiled program does not "
                "know beforehand. Use eigenvalues() there, or compile what comes before."
            )
        count = int(np.sum(np.imag(values) >= 0))
        shapes = self.basis @ vectors[: self.basis.shape[1], :count]
        return Modes.of(eigenvalues[:count], shapes, tuple(self.names))

    def __str__(self) -> str:
        n, nv = self.basis.shape[1], self.basis.shape[0]
        about = "" if self.coordinates is None else f", {listed(self.coordinates)}"
        lines = [f"holonax linearization: {n} free of {nv} coordinates{about}"]
        if self.warning:
            lines.append(f"  warning: {self.warning}")
        if known(self.A) is not None:
            lines.append(str(self.modes()))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Linearization: {self.basis.shape[1]} coordinates>"


@checked_call
def linearize(
    system: System, start: Any, *, coordinates: Sequence[str] | None = None
) -> Linearization:
    """Mass, damping and stiffness of small motions about a state.

    **Arguments:**

    - `start`: the state: an `Equilibrium` (then v = 0, drivers stand still), what `consistent` or
      `model.build()` returns, a vector q or a pair (q, v). It need not be at rest nor in
      equilibrium; `warning` of the result says if it is not.
    - `coordinates`: names of as many coordinates of v as there are free motions, such as
      ``["crank.angle"]``. The matrices are then those seen at these coordinates [kg, kg m^2, N/m,
      ...]. By default they are those of a basis in which M is the identity.

    Derivatives with respect to the parameters in `system` keep the q and v of a `Start` as they
    are, while multipliers and accelerations follow; the q of an `Equilibrium` brings its own.
    """
    check_system("linearize", system)
    at_rest = isinstance(start, Equilibrium)
    if at_rest:
        start.check_owner("linearize", system)
        if start.rank is None:
            raise ValueError(_TOO_LARGE)
        q, t, rank = start.q, start.t, start.rank
        redundant = start.system.has_redundant_constraints
        v = jnp.zeros((system.velocity_size(int(q.shape[0])),))
    else:
        start = as_start("linearize", system, start)
        rank = known_rank("linearize", start, "Linearize a smaller mechanism.")
        q, v, t = start.q, start.v, jnp.asarray(start.t, dtype=float)
        redundant = start.redundant
    rows = int(jax.eval_shape(system.constraint_rate, q, v, t).shape[0])
    others = rows - int(jax.eval_shape(system.constraint, q, t).shape[0])
    if others and redundant:
        raise ValueError(
            "linearize: some constraints are redundant and some non-holonomic, and which of them "
            "are dependent is not known. Remove the redundant ones."
        )
    chosen = _chosen(system, coordinates, int(v.shape[0]), rank, others)
    return _linearize(system, q, v, t, rank, rank - others, at_rest, chosen)


_TOO_LARGE = (
    "linearize: the system is too large for dense algebra, which small motions need. Linearize a "
    "smaller mechanism."
)


def _chosen(
    system: System, coordinates: Any, nv: int, rank: int, others: int
) -> tuple[int, ...] | None:
    """The positions in v of the named coordinates."""
    if coordinates is None:
        return None
    coordinates = several("linearize", "coordinates", coordinates, "names")
    if others:
        raise ValueError(
            "linearize: coordinates cannot be chosen with non-holonomic constraints, where more "
            "positions than velocities are free. Leave them out."
        )
    index = [coordinate_index("linearize", "coordinates", system, x, nv) for x in coordinates]
    free = nv - rank
    if len(index) != free or len(set(index)) != free:
        raise ValueError(
            f"linearize: coordinates={shown(list(coordinates))} must be {free} different ones, "
            "one for each free motion."
        )
    return tuple(index)


@eqx.filter_jit
def _linearize(
    system: System,
    q: Array,
    v: Array,
    t: Array,
    rank: int,
    holonomic_rank: int,
    at_rest: bool,
    chosen: tuple[int, ...] | None,
) -> Linearization:
    tangent = Tangent.of(system, q, t, rank)
    f = tangent.force(system.force(q, v, t))
    gamma = jnp.zeros_like(tangent.scale) if at_rest else system.gamma(q, v, t)
    bound = tangent.inverse @ (tangent.scale * gamma)
    a = tangent.allowed(f) + bound
    lam = tangent.smallest(tangent.multipliers(f - bound))
    a = jnp.zeros_like(v) if at_rest else tangent.displacement(a)

    def balance(step: Array, rate: Array) -> Array:
        moved = system.retract(q, step)
        inertia = system.momentum(moved, a)
        return system.force(moved, v + rate, t) - system.constraint_force(moved, t, lam) - inertia

    zero = jnp.zeros_like(v)
    by_position, by_velocity = jax.jacfwd(balance, (0, 1))(zero, zero)
    Zv = tangent.basis()
    Z = Zv
    if holonomic_rank != rank:
        Z = Tangent.of(system, q, t, holonomic_rank, holonomic=True).basis()
    if chosen is not None:
        Zv = Z = jnp.linalg.solve(Z[jnp.array(chosen, dtype=int)].T, Z.T).T
    C = jnp.zeros_like(Z) if at_rest else _dragged(system, q, v, t, tangent, Z)
    M = Zv.T @ system.mass_matrix(q) @ Zv
    D = -Zv.T @ by_velocity @ Zv
    K = -Zv.T @ (by_position @ Z + by_velocity @ C)
    A, B = _state_matrices(system, q, v, Z, Zv, C, M, D, K, at_rest)
    unbalanced = tangent.lower @ tangent.allowed(f)
    names = system.velocity_names(int(v.shape[0]))
    return Linearization(
        M=M,
        D=D,
        K=K,
        A=A,
        B=B,
        basis=Z,
        system=system,
        q=q,
        v=v,
        lam=lam,
        unbalanced=unbalanced,
        # what a force is small against: all forces, and those of a displacement by a micrometre
        scale=jnp.max(jnp.abs(system.force(q, v, t))) + 1e-6 * jnp.max(jnp.abs(by_position)),
        coordinates=None if chosen is None else tuple(names[i] for i in chosen),
    )


def _dragged(system: System, q: Array, v: Array, t: Array, tangent: Tangent, Z: Array) -> Array:
    """C: the velocity that a deviation in position brings with it where the state moves."""
    change = system.constraint_rate_jacobian(q, v, t) @ Z
    return -tangent.displacement(tangent.inverse @ (tangent.scale[:, None] * change))


def _state_matrices(
    system: System,
    q: Array,
    v: Array,
    Z: Array,
    Zv: Array,
    C: Array,
    M: Array,
    D: Array,
    K: Array,
    at_rest: bool,
) -> tuple[Array, Array]:
    """A and B of d/dt (x, y) = A (x, y) + B u."""
    metric = system.mass_matrix(q)
    onto = jnp.linalg.solve(Z.T @ metric @ Z, Z.T @ metric)
    turning = jnp.zeros((v.shape[0], v.shape[0]))
    if not at_rest:
        # the increment that leads from q to q + d changes at this rate when both move
        turning = jax.jacfwd(lambda d: _increment_velocity(system, q, v, d))(jnp.zeros_like(v))
    upper = jnp.concatenate([onto @ (turning @ Z + C), onto @ Zv], axis=1)
    lower = jnp.linalg.solve(M, jnp.concatenate([-K, -D, Zv.T], axis=1))
    n = Z.shape[1] + Zv.shape[1]
    A = jnp.concatenate([upper, lower[:, :n]])
    B = jnp.concatenate([jnp.zeros((Z.shape[1], v.shape[0])), lower[:, n:]])
    return A, B


def _increment_velocity(system: System, q: Array, v: Array, d: Array) -> Array:
    """The rate of the increment d from q, moving at v, to a neighbour that moves at v as well."""
    other = system.retract(q, d)
    rates = (system.qdot(q, v), system.qdot(other, v))
    return jax.jvp(system.difference, (q, other), rates)[1]
