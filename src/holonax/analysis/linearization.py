"""Small motions about a state that stays, or about a motion that is steady.

A small deviation from the state (q, v) that the constraints allow is

    dq = Z x,   dv = Z_v y + C x

(see `variation.py`; Z = Z_v unless there are non-holonomic constraints, and C = 0 at rest). Where
the state moves, the bases are carried along by a frame that turns at W and sees the motion standing
still (see `steady.py`). What is left of the equations of motion is

    M_r y' = -D y - K x + Z_v^T u
    D = -Z_v^T (df/dv - M W) Z_v
    K = -Z_v^T (d/dq [f - J^T lam - M v'] Z + (df/dv - M W) C)

with lam and v' fixed: K holds the geometric stiffness of the loaded joints. x' = y but for the
non-holonomic, and for frames that turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from .._arguments import checked_call, several
from .._messages import listed, shown
from .._modules import Module
from ..start.diagnosis import rank_of
from ..system.base import Array, System
from ..system.reaction_forces import refuse_reaction_forces
from .checks import as_start, check_system, coordinate_index, is_traced, known, known_rank, unit
from .equilibrium import Equilibrium
from .modes import Modes, sorted_modes
from .sensitivity import ModeSensitivity, mode_sensitivity
from .steady import SteadyFrame, Unsteady, steady_frame
from .tangent_space import library
from .variation import Bases, Variation, allowed, variation

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..start.consistent import Start

_SLOW = 1e-9  # [1/s] a rate that counts as none


class Linearization(Module):
    """M_r y' + D y + K x = Z^T u about a state, and x' = y (see the module for the exact form).

    `M`, `D`, `K` (n, n) are mass, damping with gyroscopic terms, and stiffness with the geometric
    one, all on the `basis` Z (nv, n): dq = Z x, and dv = Z_v y + C x with `velocity_basis` Z_v and
    `dragged` C (Z and zero for most). `A` (2n, 2n) and `B` (2n, nv) are those of
    d/dt (x, y) = A (x, y) + B u, where u are forces on the coordinates of v. `unbalanced` (nv,) is
    the force that accelerates the state along motions that are free; zero in an equilibrium.
    `turning` (nv, nv) is the rate, in world axes, of the frame that sees a steady motion standing
    still, in which x and y are counted; zero for most [rad/s].
    """

    M: Array
    D: Array
    K: Array
    A: Array
    B: Array
    basis: Array
    velocity_basis: Array
    dragged: Array
    system: System
    t: Any
    q: Array
    v: Array
    lam: Array
    unbalanced: Array
    scale: Array
    turning: Any
    changing: bool = eqx.field(static=True)
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
        if self.changing:
            return (
                "the system changes with time: the matrices belong to this instant only. See "
                "hx.floquet for changes that repeat."
            )
        moving = np.delete(v, self.system.states(v.size))
        if np.max(np.abs(moving), initial=0.0) > _SLOW:
            return ""  # it is steady, or would have been refused
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

    @checked_call
    def sensitivity(self, parameters: Sequence[str] | str) -> ModeSensitivity:
        """How eigenvalues, frequencies and damping ratios change with the named parameters, of
        ``system.parameters()``; about an equilibrium, which moves with them.

        ```python
        small = hx.linearize(system, hx.equilibrium(system, start))
        small.sensitivity(["spring.stiffness"]).frequency["spring.stiffness"]  # Hz/(N m/rad), modes
        ```
        """
        return mode_sensitivity(self, parameters)

    def __str__(self) -> str:
        n, nv = self.basis.shape[1], self.basis.shape[0]
        states = self.system.states(nv).size
        nv -= states + self.system.idle(nv).size
        about = "" if self.coordinates is None else f", {listed(self.coordinates)}"
        about += f", {states} of first order" if states else ""
        lines = [f"holonax linearization: {n} free of {nv} coordinates{about}"]
        fastest = float(np.max(np.abs(self.turning), initial=0.0))
        if fastest > 0:
            lines.append(f"  seen from a frame that turns with the motion, at {fastest:.6g} rad/s")
        if self.warning:
            lines.append(f"  warning: {self.warning}")
        if known(self.A) is not None:
            lines.append(str(self.modes()))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Linearization: {self.basis.shape[1]} coordinates>"


@checked_call
def linearize(
    system: System, start: Equilibrium | Start, *, coordinates: Sequence[str] | None = None
) -> Linearization:
    """Mass, damping and stiffness of small motions about a state, or about a steady motion.

    **Arguments:**

    - `start`: the state: an `Equilibrium` (then v = 0, drivers stand still), what `consistent` or
      `model.build()` returns, a vector q or a pair (q, v). At rest it need not be in equilibrium;
      `warning` of the result says if it is not. If it moves, the motion has to be steady: a wheel
      that rolls straight or in a circle, a top that sleeps or precesses, a rotor, a driven frame
      that turns evenly. Other motions are refused; for those that repeat there is `floquet`.
    - `coordinates`: names of as many coordinates of v as there are free motions, such as
      ``["crank.angle"]``. The matrices are then those seen at these coordinates [kg, kg m^2, N/m,
      ...]. By default they are those of a basis in which M is the identity.

    Derivatives with respect to the parameters in `system` keep the q and v of a `Start` as they
    are, and the frame of a steady motion, while multipliers and accelerations follow; the q of an
    `Equilibrium` brings its own.
    """
    return linearized(system, start, coordinates)


def linearized(
    system: System,
    start: Equilibrium | Start,
    coordinates: Sequence[str] | None = None,
    spin: Any = None,
) -> Linearization:
    """As `linearize`; `spin` (nv, nv) is the rate of the frame that turns with a steady motion, in
    world axes, where it is known."""
    check_system("linearize", system)
    refuse_reaction_forces("linearize", system)
    at_rest = isinstance(start, Equilibrium)
    if at_rest:
        start.check_owner("linearize", system)
        if start.rank is None:
            raise ValueError(_TOO_LARGE)
        q, t, rank = start.q, start.t, start.rank
        redundant = start.system.has_redundant_constraints
        v, q = system.resting_velocity(q), system.started(q)
    else:
        start = as_start("linearize", system, start)
        rank = known_rank("linearize", start, "Linearize a smaller mechanism.")
        q, v, t = start.q, start.v, start.t
        redundant = start.redundant
    if redundant:
        system = system.with_redundant_constraints()
    t = t if is_traced(t) else np.float64(t)
    here = variation(system, t, q, v, rank, at_rest=at_rest)
    rows = holonomic_rows(system, here, rank, q, t)
    chosen = _chosen(system, coordinates, int(v.shape[0]), rank, here.jacobian.shape[0] - rows[0])
    bases = allowed(system, here, rank, rows, at_rest=at_rest)
    frame, changing = None, False
    if not at_rest:
        frame, changing = _steady(system, t, q, v, rank, rows, here, bases, spin)
    found = eqx.filter_jit(_linearized) if is_traced((here, bases)) else _linearized
    return found(system, t, q, v, here, bases, frame, chosen, changing)


def holonomic_rows(
    system: System,
    here: Variation,
    rank: int,
    q: np.ndarray | Array,
    t: Any,
    owner: str = "linearize",
) -> tuple[int, int]:
    """The number of constraint rows of position level, and their rank."""
    rows = here.jacobian.shape[0]
    first = int(jax.eval_shape(system.constraint, q, t).shape[0])
    if first == rows:
        return rows, rank
    jacobian = known(here.jacobian)
    if jacobian is not None:
        return first, rank_of(jacobian[:first])
    if rank != rows:
        raise ValueError(
            f"{owner}: some constraints are redundant and some non-holonomic, and which of them "
            "are dependent is not known inside a compiled program. Compile what comes after."
        )
    return first, first


def _known_tree(tree: PyTree) -> Any:
    """The numbers of a tree, derivatives aside; None where only a compiled program knows them."""
    leaves, structure = jax.tree.flatten(tree)
    found = [known(x) if eqx.is_array(x) or is_traced(x) else x for x in leaves]
    return None if any(x is None for x in found) else structure.unflatten(found)


def _steady(
    system: System,
    t: Any,
    q: Any,
    v: Any,
    rank: int,
    rows: tuple[int, int],
    here: Variation,
    bases: Bases,
    spin: Any,
) -> tuple[SteadyFrame | None, bool]:
    """The frame in which a motion is steady, None at rest; and whether the system changes."""
    moving = np.delete(np.arange(v.shape[0]), system.states(int(v.shape[0])))
    speed = known(v)
    speed = None if speed is None else speed[moving]
    if speed is not None and np.max(np.abs(speed), initial=0.0) == 0 and is_traced((system, q, t)):
        return None, False
    found = _known_tree((system, t, q, v, here, bases))
    if found is None:
        raise TypeError(
            "linearize: whether a motion is steady depends on numbers that a compiled program does "
            "not know beforehand. Call it outside of jax.jit, or give an Equilibrium."
        )
    system, t, q, v, here, bases = found
    if bases.positions.shape[1] + bases.velocities.shape[1] == 0:
        return None, False
    if np.max(np.abs(v[moving]), initial=0.0) <= _SLOW:
        return None, _changing(system, float(t), q, v, rank, here)
    frame = steady_frame(system, float(t), q, v, rank, rows[0], here, bases, spin)
    if isinstance(frame, Unsteady):
        raise ValueError(
            f"linearize: the motion is not steady: seen from no frame does it stand still, for "
            f"{frame.reason}. Give a steady motion or an equilibrium; for a motion that repeats "
            "use hx.floquet."
        )
    return frame, False


def _changing(
    system: System, t: float, q: np.ndarray, v: np.ndarray, rank: int, here: Variation
) -> bool:
    """Whether the matrices of a state at rest change with time alone."""
    size = [np.max(np.abs(x), initial=0.0) for x in (here.by_position, here.by_velocity)]
    rate = np.sqrt(size[0] / np.min(np.diag(here.mass))) + size[1] / np.min(np.diag(here.mass))
    for s in (0.37, 2.3):
        later = variation(system, t + s / max(rate, 1e-3), q, v, rank)
        pairs = ((later.by_position, here.by_position), (later.by_velocity, here.by_velocity))
        for (x, y), scale in zip(pairs, size, strict=True):
            if np.max(np.abs(x - y), initial=0.0) > 1e-9 * scale:
                return True
    return False


_TOO_LARGE = (
    "linearize: the system is too large for dense algebra, which small motions need. Linearize a "
    "smaller mechanism."
)


def _chosen(
    system: System, coordinates: Sequence[str] | None, nv: int, rank: int, others: int
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


def _linearized(
    system: System,
    t: Any,
    q: Array,
    v: Array,
    here: Variation,
    bases: Bases,
    frame: SteadyFrame | None,
    chosen: tuple[int, ...] | None,
    changing: bool,
) -> Linearization:
    """The matrices on the bases."""
    xp = library(here.mass, here.by_position, *bases)
    Z, Zv, C = bases
    if chosen is not None:
        Zv = Z = xp.linalg.solve(Z[np.array(chosen, dtype=int)].T, Z.T).T
        C = _dragged_again(xp, C, bases.positions, Z)
    nv = int(v.shape[0])
    none = np.zeros((nv, nv))
    frame = SteadyFrame(none, none, none) if frame is None else frame
    by_velocity = here.by_velocity - here.mass @ frame.velocities
    M = Zv.T @ here.mass @ Zv
    D = -Zv.T @ by_velocity @ Zv
    K = -Zv.T @ (here.by_position @ Z + by_velocity @ C)
    onto = xp.linalg.solve(Z.T @ here.mass @ Z, Z.T @ here.mass)
    upper = xp.concatenate([onto @ (C - frame.positions @ Z), onto @ Zv], axis=1)
    lower = xp.linalg.solve(M, xp.concatenate([-K, -D, Zv.T], axis=1))
    n = Z.shape[1] + Zv.shape[1]
    names = system.velocity_names(nv)
    return Linearization(
        M=M,
        D=D,
        K=K,
        A=xp.concatenate([upper, lower[:, :n]]),
        B=xp.concatenate([xp.zeros((Z.shape[1], nv)), lower[:, n:]]),
        basis=Z,
        velocity_basis=Zv,
        dragged=C,
        system=system,
        t=t,
        q=q,
        v=v,
        lam=here.lam,
        unbalanced=here.unbalanced,
        # what a force is small against: all forces, and those of a displacement by a micrometre
        scale=xp.max(xp.abs(here.force)) + 1e-6 * xp.max(xp.abs(here.by_position)),
        turning=frame.rate,
        changing=changing,
        coordinates=None if chosen is None else tuple(names[i] for i in chosen),
    )


def _dragged_again(xp: ModuleType, C: Array, old: Array, new: Array) -> Array:
    """C on the basis `new` of the same deviations."""
    return C @ xp.linalg.solve(old.T @ old, old.T @ new)
