"""Linear buckling: the load factors at which a loaded mechanism would give way sideways.

With loads multiplied by a factor, an equilibrium moves along a path q(factor), lam(factor), whose
tangent q', lam' at one point of it follows from

    K q' + G^T lam' = p,   G q' = 0,     p = df/dfactor.

Along this tangent forces s in springs, cables and sections of beams, multipliers and loads change
at the rates s', lam' and 1, and with them the stiffness, at the rate K': displacements are left out
of it, as is usual (Euler, Timoshenko). On the motions Z that the constraints allow, G Z = 0,
nothing resists some of them any more where

    Z^T (K + (factor - about) K') Z x = 0.

To let K follow the displacements to first order would be worse: where the mechanism turns, the
turned terms of what is stiff, such as a beam along its axis, cancel in the square only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import checked_call
from .._messages import listed
from .._numbers import count, finite_number
from ..compiler import native
from ..system.base import Array, System
from ..system.inner_loads import inner_rates, no_inner_loads, with_inner_loads
from ..system.mechanism import Mechanism
from ..system.scaled_loads import scaled
from .checks import bodies_of, usual_length
from .equilibrium import equilibrium, neutral_stiffness
from .load_case import LoadCase, load_case
from .modes import named_shape

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..start.consistent import Start

_LEAST = 1e-9  # of a rate of stiffness, relative to the largest: less is rounding
_REAL = 1e-6  # an imaginary part, relative, that may be rounding
_BALANCED = 1e-12  # a force that is left, relative, which is rounding
_HELD = 1e-7  # part of a load on motions that nothing holds, which may be rounding
_FAR = 0.1  # displacement up to the lowest factor [sizes, rad] from which on it is said


@dataclass(frozen=True)
class Buckling:
    """Load factors and the shapes in which a mechanism gives way.

    `factor` (modes,), rising, multiplies the `loads`; `shapes` (nv, modes) are small motions on
    the coordinates `names` of v, each with the largest entry one. `q` are the coordinates of
    the equilibrium about which stiffness was linearised, at the load factor `about`, and
    `displacement` (nv,) is by how much it moves for a unit of the load factor. ``str(found)`` is a
    table with what moves most.
    """

    loads: tuple[str, ...]
    about: float
    factor: np.ndarray
    shapes: np.ndarray
    names: tuple[str, ...]
    q: np.ndarray
    displacement: np.ndarray
    message: str

    @property
    def critical(self) -> float:
        """The lowest load factor; infinite where these loads do not buckle anything."""
        return float(self.factor[0]) if self.factor.size else float("inf")

    def shape(self, name: str) -> np.ndarray:
        """The entries of all shapes for one coordinate, such as ``"beam[3].y"``."""
        return named_shape(self.names, self.shapes, name)

    def __len__(self) -> int:
        return int(self.factor.size)

    def __str__(self) -> str:
        lines = [f"holonax buckling: {self.message}"]
        if len(self):
            lines.append("  mode   load factor      moves most")
        for k, factor in enumerate(self.factor):
            size = np.abs(self.shapes[:, k])
            order = [i for i in np.argsort(-size, kind="stable")[:3] if size[i] > 0.05]
            lines.append(
                f"  {k + 1:<4}   {factor:<14.8g}   {listed([self.names[i] for i in order])}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Buckling: {self.message}>"


@checked_call
def buckling(
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    loads: Any,
    *,
    about: float = 0.0,
    modes: int = 4,
    t: float | None = None,
) -> Buckling:
    """The factors of loads at which a mechanism buckles, by its stiffness linearised once.

    **Arguments:**

    - `system`, `start`: a mechanism, and where it is near rest: from `model.build()`, or an
      `Equilibrium`.
    - `loads`: the name of a force, torque, line load or other force element, ``"gravity"``, or a
      list of names. All others act in full and prestress it.
    - `about`: the load factor of the equilibrium about which the stiffness is linearised. Nearer to
      the answer it is more exact, where displacements before buckling are large.
    - `modes`: how many of the lowest factors above `about` are wanted; there may be fewer.
    - `t`: the time [s] at which drivers and loads are taken; the start's by default.

    Forces in beams, cables, springs and joints grow with the loads; those in bushings, bodies with
    modes and functions of the user's stay what they are at `about`. What it does not see is a limit
    that displacements bring about, as of a shallow arch: `equilibrium_path` does. Factors of loads
    in the other sense are those of a model with these forces reversed. Raises a `ValueError` where
    there is no equilibrium to begin at, where it is unstable already, or where nothing holds the
    mechanism against the loads.
    """
    about = finite_number("buckling", "about", about)
    modes = count("buckling", "modes", modes)
    asked = load_case(
        "buckling",
        system,
        start,
        loads,
        t,
        traced="which modes there are depends on numbers that a compiled program does not know "
        "beforehand. Call it outside of jax.jit and jax.grad.",
        smaller="Take a smaller mechanism, or fewer elements.",
    )
    rest = _at_rest(asked, about)
    return _Pencil(asked.system, asked.loads, about, rest).buckling(modes)


class _Rest(NamedTuple):
    """An equilibrium, with the rank of its constraints."""

    t: float
    q: np.ndarray
    lam: np.ndarray
    rank: int


def _at_rest(asked: LoadCase, about: float) -> _Rest:
    """The equilibrium near `start`; the start itself where nothing is out of balance, as without
    its loads a structure is: to search for it takes longer than all the rest."""
    system, loads, start, t, rank = asked
    if not system.states(int(start.v.shape[0])).size and t == float(start.t):
        q, nothing = np.asarray(start.q), 0.0 * np.asarray(start.lam)
        inner = no_inner_loads(system, q)
        at = _State(q, nothing, inner, np.float64(about))
        _, G, _, force = (np.asarray(x) for x in _matrices(system, loads, np.float64(t), at))
        lam = _split(G, rank)[0].T @ force
        left = np.max(np.abs(force - G.T @ lam), initial=0.0)
        if left <= _BALANCED * np.max(np.abs(force), initial=0.0):
            return _Rest(t, q, lam, rank)
    rest = equilibrium(scaled(system, loads, about), start, t=t)
    if not bool(rest.success):
        raise ValueError(f"buckling: about a load factor of {about:g} {rest.message}")
    return _Rest(t, np.asarray(rest.q), np.asarray(rest.lam), rank)


class _State(NamedTuple):
    """What the stiffness depends on: where the mechanism is, and all that it is loaded with. In the
    last three it is linear; `inner` is what is added to the forces of springs and beams."""

    q: Any
    lam: Any
    inner: Any
    factor: Any


@native(once=True, static=(1,))
def _matrices(
    system: Mechanism, loads: tuple[str, ...], t: Array, at: _State
) -> tuple[Array, Array, Array, Array]:
    """K, G, p and the force itself."""
    nothing = jnp.zeros((system.velocity_size(at.q.shape[0]),))
    prestressed = with_inner_loads(scaled(system, loads, at.factor), at.inner)
    stiffness = prestressed.static_stiffness(at.q, t, at.lam)
    force = lambda x: scaled(system, loads, x).force(at.q, nothing, t)  # noqa: E731
    whole, rate = jax.jvp(force, (at.factor,), (jnp.ones(()),))
    return stiffness, system.jacobian(at.q, t), rate, whole


@native(once=True)
def _inner_rates(system: Mechanism, t: Array, q: Array, step: Array) -> Any:
    return inner_rates(system, q, t, step)


class _Pencil:
    """The stiffness on the motions that are allowed, k + (factor - about) k'.

    Coordinates are scaled by their own stiffness, as rotations of beams have next to no inertia to
    be compared by, and then so that the symmetric part of k is the identity. Motions that nothing
    resists, such as the spin of a rod between two balls, are left out.
    """

    def __init__(self, system: Mechanism, loads: tuple[str, ...], about: float, rest: _Rest):
        self.system, self.loads, self.about, self.rest = system, loads, about, rest
        resting = system.at_rest()  # states of first order are positions
        time = np.float64(rest.t)
        at = _State(rest.q, rest.lam, no_inner_loads(system, rest.q), np.float64(about))
        first, G, p, _ = (np.asarray(x) for x in _matrices(resting, loads, time, at))
        K = first
        size = np.max(np.abs(K), axis=1, initial=0.0)
        self.scale = 1 / np.sqrt(np.where(size > 0, size, np.max(size, initial=0.0) or 1.0))
        K, G, p = K * self.scale[:, None] * self.scale, G * self.scale, p * self.scale
        inverse, Z = _split(G, rest.rank)
        self.values, self.Z = self._resisting(Z.T @ K @ Z, Z, p)
        self.k = self.Z.T @ K @ self.Z
        moved = self.Z @ np.linalg.solve(self.k, self.Z.T @ p)
        lam = inverse.T @ (p - K @ moved)
        self.displacement = self.scale * moved
        inner = _inner_rates(resting, time, rest.q, self.displacement)
        # large enough that no digits are lost of the difference, in which the stiffness is linear
        more = float(np.max(np.abs(first), initial=0.0) / (np.max(np.abs(p), initial=0.0) or 1.0))
        added = jax.tree.map(lambda x: more * np.asarray(x), inner)
        then = _State(rest.q, rest.lam + more * lam, added, np.float64(about + more))
        rate = (np.asarray(_matrices(resting, loads, time, then)[0]) - first) / more
        self.rate = self.Z.T @ (rate * self.scale[:, None] * self.scale) @ self.Z

    def _resisting(self, k: np.ndarray, Z: np.ndarray, p: np.ndarray) -> tuple[Any, Any]:
        """The eigenvalues of k that are not zero, and Z on their vectors, each divided by the root
        of its value; `p` must not push what nothing resists."""
        values, vectors = np.linalg.eigh((k + k.T) / 2)
        neutral = neutral_stiffness(self.system) * np.max(np.abs(values), initial=0.0)
        if values.size and values[0] < -neutral:
            raise ValueError(
                f"buckling: about a load factor of {self.about:g} the mechanism is unstable "
                f"already; {self._moving(Z @ vectors[:, 0])} moves away most. Begin at a stable "
                "equilibrium, such as one under a smaller load: see about."
            )
        free = values <= neutral
        pushed = vectors[:, free].T @ (Z.T @ p)
        if np.linalg.norm(pushed) > _HELD * np.linalg.norm(Z.T @ p):
            raise ValueError(
                f"buckling: nothing holds {self._moving(Z @ (vectors[:, free] @ pushed))} against "
                f"{listed(self.loads)}. Add what resists this motion."
            )
        return values[~free], Z @ (vectors[:, ~free] / np.sqrt(values[~free]))

    def _moving(self, scaled_motion: np.ndarray) -> str:
        names = self.system.velocity_names(self.scale.size)
        size = np.abs(self.scale * scaled_motion)
        return bodies_of(self.system, [names[int(np.argmax(size))]])[0]

    def _solved(self) -> tuple[np.ndarray, np.ndarray]:
        """(factor - about, motions) that are positive, from the lowest on."""
        if not self.values.size:
            return np.zeros(0), self.Z
        skew = [np.linalg.norm(x - x.T) / (np.linalg.norm(x) or 1.0) for x in (self.k, self.rate)]
        if max(skew) < _REAL:
            theta, x = np.linalg.eigh(-(self.rate + self.rate.T) / 2)
        else:  # loads that follow the mechanism
            theta, x = np.linalg.eig(-np.linalg.solve(self.k, self.rate))
            real = np.abs(np.imag(theta)) <= _REAL * np.abs(theta)
            theta, x = np.real(theta[real]), np.real(x[:, real])
        rounding = 1e-13 * np.max(np.abs(self.rate), initial=0.0)
        kept = np.flatnonzero(theta > max(rounding, _LEAST * np.max(np.abs(theta), initial=0.0)))
        kept = kept[np.argsort(-theta[kept], kind="stable")]
        return 1 / theta[kept], self.Z @ x[:, kept]

    def buckling(self, modes: int) -> Buckling:
        """The answer, with so many modes."""
        more, motions = self._solved()
        shapes = self.scale[:, None] * motions[:, :modes]
        if shapes.shape[1]:
            shapes = shapes / shapes[np.argmax(np.abs(shapes), axis=0), np.arange(shapes.shape[1])]
        factor = self.about + more[:modes]
        return Buckling(
            loads=self.loads,
            about=self.about,
            factor=factor,
            shapes=shapes,
            names=tuple(self.system.velocity_names(self.scale.size)),
            q=self.rest.q,
            displacement=self.displacement,
            message=self._message(factor),
        )

    def _message(self, factor: np.ndarray) -> str:
        loads = listed(self.loads)
        if not factor.size:
            return f"{loads} in this sense does not take away from any stiffness: no load factor"
        words = f"{loads} is critical at a load factor of {factor[0]:.6g}"
        moved = np.abs((factor[0] - self.about) * self.displacement)
        lengths, size = usual_length(self.system, self.rest.q)
        far = np.max(moved / np.where(lengths, size, 1.0), initial=0.0)
        if far <= _FAR:
            return words
        return (
            f"{words}; the way there is long ({far:.2g} of the mechanism's size, or rad), so that "
            "this is an estimate: give an about nearer to it, or ask equilibrium_path"
        )


def _split(G: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """(G^+, Z) with G Z = 0 and Z^T Z = 1, for rows of this rank."""
    length = np.linalg.norm(G, axis=1)
    weight = 1 / np.where(length > 0, length, 1.0)
    u, s, vt = np.linalg.svd(G * weight[:, None])
    inverse = (vt[:rank].T / s[:rank]) @ u[:, :rank].T * weight
    return inverse, vt[rank:].T
