"""Small deviations from a motion that repeats, over one period.

Deviations z = (dq, dv) that the constraints allow obey z' = F(t) z along the motion, and one period
takes those at its start, z = B x (see `variation.py`), to B P x. The eigenvalues of the monodromy
matrix P are the Floquet multipliers: deviations die out if all are smaller than one.

F is that of the accelerations: M dv' = by_position dq + by_velocity dv - J^T dlam, and
J dv' = d(gamma - J v'). It is taken at the points of Gauss's method with three stages, order 6, as
many steps as it takes for P to settle.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import check_options, checked_call, flag
from .._messages import listed
from .._modules import Module
from ..compiler import native
from ..result.result import Result
from ..run.simulate import simulate
from ..start.consistent import Start, consistent, finite_number
from ..start.described import StartWarning
from ..system.base import System
from ..system.mechanism import Mechanism
from ..system.places import rotations
from ..system.reaction_forces import refuse_reaction_forces
from .checks import as_start, check_system, is_traced, known_rank
from .linearization import holonomic_rows
from .orbit_sensitivity import OrbitSensitivity, orbit_sensitivity
from .steady import skew
from .tangent_space import Tangent
from .variation import Bases, Variation, allowed, variation

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import ArrayLike

_FEWEST, _MOST = 32, 8192  # steps in a period
_SETTLED = 1e-8  # change of P by twice the steps, relative to its size
_REPEATS = 1e-6  # what a motion that repeats may be off, relative to its speed
_SEARCHES = 12
# Gauss's method of order 6 (Hairer, Norsett and Wanner, Table II.7.4)
_R = np.sqrt(15.0)
_C = np.array([0.5 - _R / 10, 0.5, 0.5 + _R / 10])
_A = np.array(
    [
        [5 / 36, 2 / 9 - _R / 15, 5 / 36 - _R / 30],
        [5 / 36 + _R / 24, 2 / 9, 5 / 36 - _R / 24],
        [5 / 36 + _R / 30, 2 / 9 + _R / 15, 5 / 36],
    ]
)
_B = np.array([5.0, 8.0, 5.0]) / 18


class Floquet(Module):
    """What one period of a motion makes of small deviations from it.

    `multipliers` (n,) are the eigenvalues of `monodromy` (n, n), largest first; it acts on
    coordinates x of the deviations (dq, dv) = `basis` x, basis (2 nv, n). `motion` is the period
    itself, a `Result`, and `error` by how much it fails to repeat, relative to its speed.
    """

    multipliers: np.ndarray
    monodromy: np.ndarray
    basis: np.ndarray
    period: float
    error: float
    motion: Result = eqx.field(static=True)
    _along: Along = eqx.field(static=True, repr=False)

    @property
    def exponents(self) -> np.ndarray:
        """log(multipliers) / period [1/s]: growth, and frequency up to whole turns in a period."""
        with np.errstate(divide="ignore"):
            return np.log(self.multipliers.astype(complex)) / self.period

    @property
    def unstable(self) -> np.ndarray:
        """Whether each multiplier is larger than one, by more than its accuracy."""
        return np.abs(self.multipliers) > 1 + 1e-6

    @property
    def start(self) -> Start:
        """The state that the period begins with."""
        return self.motion.start

    @checked_call
    def sensitivity(
        self,
        parameters: Sequence[str] | str,
        *,
        periods: Mapping[str, ArrayLike] | None = None,
    ) -> OrbitSensitivity:
        """How the motion that repeats changes with the named parameters, of
        ``system.parameters()``: derivatives of its first state and of its period.

        **Arguments:**

        - `periods`: what is known of the derivatives of the period, by the names of parameters: of
          a motion at the pace of a driver that turns at ``"motor.rate"``,
          ``{"motor.rate": -period / rate}``.

        The period of a motion that nothing drives changes as it must; one that a driver or a load
        paces stays, but for `periods`. Where motions that repeat come in families (another phase,
        another energy) it is the one whose first state changes least, in the mass metric. Raises a
        `ValueError` where there is none.
        """
        return orbit_sensitivity(self._along, parameters, periods)

    def __str__(self) -> str:
        lines = [
            f"holonax floquet: {self.multipliers.size} multipliers of a period of "
            f"{self.period:.6g} s, which repeats to {self.error:.1e}",
            "         multiplier                |multiplier|   exponent [1/s]",
        ]
        for k, (x, y) in enumerate(zip(self.multipliers, self.exponents, strict=True)):
            word = "   unstable" if self.unstable[k] else ""
            lines.append(
                f"  {k + 1:<4}   {_complex(x):<24}   {abs(x):<12.6g}   {_complex(y)}{word}"
            )
        if np.any(self.unstable):
            lines.append(f"  unstable: {int(self.unstable.sum())} of {self.multipliers.size} grow")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Floquet: {self.multipliers.size} multipliers>"


def _complex(x: complex) -> str:
    return f"{x.real:.6g}{x.imag:+.6g}i" if x.imag else f"{x.real:.6g}"


@checked_call
def floquet(
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    period: float,
    *,
    find: bool = False,
    rtol: float = 1e-10,
    **options: Any,
) -> Floquet:
    """Floquet multipliers of the motion that begins at `start` and repeats after `period` [s].

    **Arguments:**

    - `start`: from `consistent` or `model.build()`, or a pair (q, v).
    - `find`: improve the start first, by Newton's method, until the motion repeats. Motions of a
      period of their own, which no driver or load gives them, can be met at any point of it.
    - `rtol`: the tolerance of the motion's own steps.
    - `options`: others of `simulate`, such as an implicit `integrator` for stiff motions.

    Drivers, non-holonomic and redundant constraints are welcome. What repeats are velocities and
    the equations of small deviations: a wheel that has rolled on, or a crank that has turned
    round, is in the same state. A motion that does not repeat is refused, with what differs most.
    """
    check_system("floquet", system)
    refuse_reaction_forces("floquet", system)
    if is_traced((system, start, period)):
        raise TypeError(
            "floquet: a period cannot be followed while it is differentiated or compiled. Call it "
            "with numbers."
        )
    check_options(floquet, options, simulate)
    flag("floquet", "find", find)
    period = finite_number("floquet", "period", period, positive=True)
    start = as_start("floquet", system, start)
    rank = known_rank("floquet", start, "Take a smaller mechanism.")
    if start.redundant:
        system = system.with_redundant_constraints()
    along = Along(system, start, period, rank, rtol, options)
    for _ in range(_SEARCHES if find else 0):
        if along.error <= _REPEATS:
            break
        along = Along(system, along.improved(), period, rank, rtol, options)
    if along.error > _REPEATS:
        raise ValueError(
            f"floquet: the motion does not repeat after {period:g} s: {along.worst}. Give the "
            f"period and a start on the motion{'' if find else ', or find=True'}."
        )
    P = along.monodromy
    values = np.linalg.eigvals(P)
    order = np.lexsort((-values.imag, -np.round(np.abs(values), 12)))
    return Floquet(values[order], P, along.B, period, along.error, along.run, along)


class Point(NamedTuple):
    """The equations of small deviations at one instant."""

    F: np.ndarray
    here: Variation
    tangent: Tangent

    def accelerated(self, force: Any, gamma: Any) -> Any:
        """The accelerations that are left of columns of forces and of gamma."""
        tangent = self.tangent
        y = tangent.allowed(tangent.force(force))
        return tangent.displacement(y + tangent.inverse @ (tangent.scale[:, None] * gamma))


class Along:
    """One period of a motion, and what deviations meet along it."""

    def __init__(
        self, system: System, start: Start, period: float, rank: int, rtol: float, options: Any
    ):
        self.system, self.start, self.period, self.rank = system, start, period, rank
        method = {"integrator": _accurate()} if "integrator" not in options else {}
        steps = {"rtol": rtol, **method, **options, "save": "steps"}
        self.run = simulate(system, start, start.t + period, **steps)
        if not self.run.success:
            raise ValueError(f"floquet: the motion cannot be followed: {self.run.message}")
        self.first = self._point(start.t, start.q, start.v)
        self.last = self._point(self.run.t[-1], self.run.q[-1], self.run.v[-1])
        here = self.first.here
        rows = holonomic_rows(system, here, rank, start.q, np.float64(start.t), "floquet")
        self.holonomic = rows
        bases = allowed(system, here, rank, rows)
        self.B, self.onto = _both(here, bases)
        self.error, self.worst = self._compared()

    def _point(self, t: float, q: np.ndarray, v: np.ndarray) -> Point:
        here = variation(self.system, t, q, v, self.rank)
        by_position, by_velocity = _gamma_changes(
            self.system, np.float64(t), np.asarray(q), np.asarray(v), here.a
        )
        nv = v.size
        F = np.zeros((2 * nv, 2 * nv))
        point = Point(F, here, Tangent.split(here.mass, here.jacobian, self.rank))
        F[:nv, nv:] = np.eye(nv)
        for at in rotations(self.system):  # increments are counted in axes that turn
            F[np.ix_(at, at)] = -skew(v[at])
        F[nv:, :nv] = point.accelerated(here.by_position, by_position)
        F[nv:, nv:] = point.accelerated(here.by_velocity, by_velocity)
        return point

    def _compared(self) -> tuple[float, str]:
        """By how much the state after a period differs, relative, and what differs most."""
        v, end = self.start.v, self.run.v[-1]
        names = self.system.velocity_names(v.size)
        root = np.linalg.cholesky(self.first.here.mass).T
        # what is small: against the speed, or that of going a size in a period
        largest = np.max(np.linalg.norm(self.run.v @ root.T, axis=1), initial=0.0)
        moves = largest if largest > 0 else 1.0
        off = np.abs(root @ (end - v)) / moves
        worst = int(np.argmax(off))
        found = (float(off[worst]), f"{names[worst]} moves at {end[worst]:.6g}, not {v[worst]:.6g}")
        # equal states of a motion have equal equations for what is near them
        change = self.onto @ (self.last.F - self.first.F) @ self.B
        size = max(np.linalg.norm(self.onto @ self.first.F @ self.B), 1e-300)
        part = float(np.linalg.norm(change) / size)
        if part > found[0]:
            found = (part, f"the equations of small deviations have changed by {part:.1e}")
        return found

    def improved(self) -> Start:
        """The start of Newton's next try for a motion that repeats."""
        q, v = jnp.asarray(self.start.q), np.asarray(self.start.v)
        way = np.asarray(self.system.difference(q, jnp.asarray(self.run.q[-1])))
        names = self.system.velocity_names(v.size)
        if isinstance(self.system, Mechanism):
            whole = np.array([name.endswith(".angle") for name in names])
            way = np.where(whole, np.mod(way + np.pi, 2 * np.pi) - np.pi, way)
        missed = self.onto @ np.concatenate([way, self.run.v[-1] - v])
        P = self.monodromy
        x = np.linalg.lstsq(np.eye(P.shape[0]) - P, missed, rcond=1e-9)[0]
        step = self.B @ x
        moved = np.asarray(self.system.retract(q, jnp.asarray(step[: v.size])))
        with warnings.catch_warnings():  # that a try is not consistent is what it is for
            warnings.simplefilter("ignore", StartWarning)
            return consistent(self.system, moved, v + step[v.size :], t=self.start.t)

    @property
    def monodromy(self) -> np.ndarray:
        """P, with as many steps as it takes."""
        return self.onto @ self.settled(self.B)

    def settled(self, first: np.ndarray, source: Any = None) -> np.ndarray:
        """What a period makes of the deviations `first`, with as many steps as it takes; see
        `_carried`."""
        steps, before = _FEWEST, self._carried(_FEWEST, first, source)
        while steps < _MOST:
            steps *= 2
            now = self._carried(steps, first, source)
            if np.linalg.norm(self.onto @ (now - before)) <= _SETTLED * np.linalg.norm(
                self.onto @ now
            ):
                return now
            before = now
        raise ValueError(
            f"floquet: deviations from the motion change too fast to be followed in {_MOST} steps "
            f"a period. Take a shorter period, or a less stiff mechanism than that of "
            f"{listed(self.system.velocity_names(self.start.v.size), 3)}."
        )

    def _carried(self, steps: int, z: np.ndarray, source: Any) -> np.ndarray:
        """z' = F z + source(t, q, v, here), by so many steps of Gauss's method."""
        h, n = self.period / steps, z.shape[0]
        begin = self.start.t + h * np.arange(steps)
        times = (begin[:, None] + h * _C).ravel()
        q, v = self.run.at(np.minimum(times, self.run.t[-1]))
        for k in range(steps):
            at = list(zip(*(y[3 * k : 3 * k + 3] for y in (times, q, v)), strict=True))
            points = [self._point(*x) for x in at]
            # stages: K_i = F_i (z + h sum_j a_ij K_j) + b_i
            system = np.eye(3 * n)
            for i in range(3):
                for j in range(3):
                    rows, columns = slice(i * n, i * n + n), slice(j * n, j * n + n)
                    system[rows, columns] -= h * _A[i, j] * points[i].F
            forced = [point.F @ z for point in points]
            if source is not None:
                more = [source(*x, point) for x, point in zip(at, points, strict=True)]
                forced = [x + y for x, y in zip(forced, more, strict=True)]
            K = np.linalg.solve(system, np.concatenate(forced))
            z = z + h * np.tensordot(_B, K.reshape(3, n, -1), 1)
        return z


def _both(here: Variation, bases: Bases) -> tuple[np.ndarray, np.ndarray]:
    """B (2 nv, n) and what takes allowed deviations to their coordinates."""
    Z, Zv, C = bases
    B = np.block([[Z, np.zeros((Z.shape[0], Zv.shape[1]))], [C, Zv]])
    rows = [np.linalg.solve(X.T @ here.mass @ X, X.T @ here.mass) for X in (Z, Zv)]
    onto = np.zeros(B.shape[::-1])
    onto[: Z.shape[1], : Z.shape[0]], onto[Z.shape[1] :, Z.shape[0] :] = rows
    return B, onto


def _accurate() -> Any:
    from ..integrator import Dop853

    return Dop853()


@native(once=True)
def _gamma_changes(system: System, t: Array, q: Array, v: Array, a: Array) -> tuple[Array, Array]:
    """The derivatives of gamma - J a by position and velocity, a fixed."""
    still = jnp.zeros_like(v)

    def missing(step: Array, velocity: Array) -> Any:
        moved = system.retract(q, step)
        along = system.constraint_rate(moved, a, t) - system.constraint_rate(moved, still, t)
        return system.gamma(moved, velocity, t) - along

    def each(e: Array) -> tuple[Any, Any]:
        by_position = jax.jvp(lambda x: missing(x, v), (still,), (e,))[1]
        return by_position, jax.jvp(lambda x: missing(still, x), (v,), (e,))[1]

    by_position, by_velocity = jax.lax.map(each, jnp.eye(v.shape[0]))
    return by_position.T, by_velocity.T
