"""What the mathematics sees of a mechanism: pure functions of (q, v, t).

    q' = N(q) v
    M(q) v' = f(q, v, t) + r(q, v, t, lam, mu) - G(q, t)^T lam - A(q, t)^T mu
    0 = g(q, t),   g' = G v + g_t,   g'' = G v' - gamma
    0 = A(q, t) v + b(q, t)                                  (non-holonomic)

The rows of G and A are stacked, holonomic rows first, and so are lam and mu. A `System` is a
pytree: its physical parameters are array leaves, so they may be traced, batched and
differentiated; its structure is static.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._modules import Module
from .array_types import (
    Array,
    Force,
    Jacobian,
    Multipliers,
    PerRow,
    Position,
    Scalar,
    SquareMatrix,
    Time,
    Velocity,
)
from .reaction_forces import accelerations

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


Metric = Literal["mass", "identity"]
Rows = Literal["all", "holonomic"]


class ConstraintFactor(abc.ABC):
    """The factorised saddle-point matrix [[W^-1, G^T], [G, -s]] at one configuration.

    W is the inverse mass matrix, or the identity; s is the `shift` of softened constraints,
    usually zero. A factor is prepared once by `System.factor` and used for several right-hand
    sides.
    """

    @abc.abstractmethod
    def solve(self, force: Force, gamma: PerRow) -> tuple[Velocity, Multipliers]:
        """(a, lam) with W^-1 a + G^T lam = force and G a = gamma + s lam."""

    @abc.abstractmethod
    def weigh(self, force: Force) -> Velocity:
        """W force: what the force does without the constraints."""

    @abc.abstractmethod
    def apply(self, v: Velocity) -> PerRow:
        """G v."""

    def correct(self, residual: PerRow) -> Velocity:
        """W G^T (G W G^T)^-1 residual: the smallest d, in the metric, with G d = residual."""
        return self.spread(self.multipliers(residual))

    @abc.abstractmethod
    def multipliers(self, residual: PerRow) -> Multipliers:
        """(G W G^T + s)^-1 residual."""

    def several_multipliers(self, residuals: Sequence[PerRow]) -> list[Multipliers]:
        """`multipliers` of each of some residuals."""
        return [self.multipliers(x) for x in residuals]

    @abc.abstractmethod
    def spread(self, lam: Multipliers) -> Velocity:
        """W G^T lam."""


class Configuration:
    """A system at one (q, t), for what is evaluated there together."""

    def __init__(self, system: System, q: Position, t: Time):
        self.system, self.q, self.t = system, q, t

    def constraint(self) -> PerRow:
        """g, holonomic rows only."""
        return self.system.constraint(self.q, self.t)

    def rate(self, v: Velocity) -> PerRow:
        """[G v + g_t; A v + b], all rows."""
        return self.system.constraint_rate(self.q, v, self.t)

    def factor(
        self, *, metric: Metric = "mass", rows: Rows = "all", shift: Array | float = 0.0
    ) -> ConstraintFactor:
        """The saddle-point solver; see `System.factor`."""
        return self.system.factor(self.q, self.t, metric=metric, rows=rows, shift=shift)

    def accelerations(
        self, v: Velocity, gamma: PerRow | None = None, factor: ConstraintFactor | None = None
    ) -> tuple[Velocity, Multipliers]:
        """(v', lam) that satisfy the equations of motion and G v' = `gamma`, that of g'' = 0 unless
        given; with a `factor` that is known already."""
        system, q, t = self.system, self.q, self.t
        gamma = system.gamma(q, v, t) if gamma is None else gamma
        factor = self.factor() if factor is None else factor
        return accelerations(system, factor, q, v, t, gamma)


class System(Module):
    """A constrained mechanical system; see the module's equations for the symbols."""

    def parameters(self) -> dict[str, Array]:
        """Every physical number by its name."""
        return {}

    def with_parameters(
        self, changes: Mapping[str, ArrayLike | Array] | None = None, **more: Any
    ) -> System:
        """This system with some of its parameters replaced, which may be traced."""
        names = sorted({**(changes or {}), **more})
        if names:
            raise KeyError(f"{type(self).__name__} has no parameters by name, so no {names[0]!r}.")
        return self

    def remade(self, changes: Mapping[str, ArrayLike | Array]) -> System:
        """As `with_parameters`, for programs of many runs: more to trace, but what follows from the
        structure alone is a constant that a compiler knows."""
        return self.with_parameters(changes)

    @abc.abstractmethod
    def with_redundant_constraints(self) -> System:
        """This system, its factors prepared for linearly dependent constraints."""

    @property
    @abc.abstractmethod
    def has_redundant_constraints(self) -> bool:
        """Whether multipliers are the minimum-norm ones of dependent constraints."""

    def complete(self) -> System:
        """This system with all of its joints, those that are released as well."""
        return self

    def rows_of_all(self) -> slice | np.ndarray:
        """Where its constraint rows are among those of `complete()`: all of them, or an array."""
        return slice(None)

    # -- time ----------------------------------------------------------------------------

    def time(self, t: Time) -> Time:
        """The time that functions of it are given, where the loop has counted `t` [s]."""
        return t

    def time_breaks(self) -> np.ndarray:
        """The times at which forces or constraints are known not to be smooth [s], sorted."""
        return np.zeros(0)

    def has_unannounced_times(self, nq: int) -> bool:
        """Whether forces or constraints depend on the time explicitly, by functions that do not
        say where they have breaks."""
        return False

    def moving_constraints(self, nq: int) -> System | None:
        """This system with those constraints only that depend on the time explicitly; None if
        there are none."""
        return None

    def typical_sizes(self, q: np.ndarray) -> np.ndarray | None:
        """A usual increment of each coordinate of position, one for each entry of v; None where
        that is not known."""
        return None

    def increment_units(self, nv: int) -> list[str]:
        """The unit of each increment of position: "m", "rad", or "" where it is not known."""
        return [""] * nv

    # -- states of first order, see `first_order.py` ----------------------------------------------

    def states(self, nv: int) -> np.ndarray:
        """Which of the `nv` velocity coordinates are states of first order."""
        return np.zeros(0, int)

    def idle(self, nv: int) -> np.ndarray:
        """Which of them are there for no motion: they stay at zero."""
        return np.zeros(0, int)

    def carriers(self, nq: int) -> np.ndarray:
        """Which of the `nq` position coordinates mean nothing, being those of carriers."""
        return np.zeros(0, int)

    def at_rest(self) -> System:
        """The system whose states are positions, as the search for equilibria wants them: they
        change until their rates vanish."""
        return self

    def resting_velocity(self, q: Position) -> Velocity:
        """The velocity at a configuration of `at_rest`: zero but for states."""
        return jnp.zeros((self.velocity_size(int(q.shape[0])),))

    def started(self, q: Position) -> Position:
        """A configuration of `at_rest` as one of this system."""
        return q

    # -- configuration space -------------------------------------------------------------

    @abc.abstractmethod
    def qdot(self, q: Position, v: Velocity) -> Position:
        """q' = N(q) v."""

    @abc.abstractmethod
    def retract(self, q: Position, step: Velocity) -> Position:
        """The configuration reached from `q` by the increment `step` (size of v)."""

    @abc.abstractmethod
    def difference(self, start: Position, end: Position) -> Velocity:
        """The increment (size of v) that takes `start` to `end`."""

    @abc.abstractmethod
    def normalize(self, q: Position) -> Position:
        """`q` brought back onto the configuration manifold (unit quaternions)."""

    @abc.abstractmethod
    def increment_rate(self, step: Velocity, rate: Velocity) -> Velocity:
        """The velocity of the configuration q ⊞ step when `step` changes at `rate`."""

    @abc.abstractmethod
    def extent(self, q: Position) -> Velocity:
        """What relative errors of position are measured by, one entry for each entry of v: the
        size of a coordinate, one radian for a rotation."""

    @abc.abstractmethod
    def velocity_size(self, nq: int) -> int:
        """The number of velocity coordinates that belong to `nq` position coordinates."""

    @abc.abstractmethod
    def held_coordinates(self, item: int | str, nq: int) -> list[int]:
        """Velocity coordinates meant by an index or a name, for holding them."""

    # -- dynamics ------------------------------------------------------------------------

    @abc.abstractmethod
    def mass_matrix(self, q: Position) -> SquareMatrix:
        """M(q), dense, shape (nv, nv)."""

    @abc.abstractmethod
    def momentum(self, q: Position, v: Velocity) -> Force:
        """M(q) v."""

    @abc.abstractmethod
    def force(self, q: Position, v: Velocity, t: Time) -> Force:
        """f(q, v, t): applied and velocity-dependent inertia forces."""

    @property
    def has_reaction_forces(self) -> bool:
        """Whether some forces depend on multipliers; see `reaction_forces.py`."""
        return False

    def reaction_force(self, q: Position, v: Velocity, t: Time, lam: Multipliers) -> Force:
        """r(q, v, t, lam): forces that depend on multipliers, to be added to f."""
        return jnp.zeros_like(v)

    def seen_rows(self, rows: int) -> Any:
        """Which of the multipliers they depend on, as `Indices`."""
        return ()

    def reaction_force_names(self) -> list[str]:
        """What messages call them."""
        return []

    @abc.abstractmethod
    def potential_energy(self, q: Position) -> Scalar:
        """Energy of gravity, springs and whatever else declares one [J]."""

    def kinetic_energy(self, q: Position, v: Velocity) -> Scalar:
        """1/2 v^T M v [J]."""
        return 0.5 * jnp.vdot(v, self.momentum(q, v))

    # -- constraints ---------------------------------------------------------------------

    @abc.abstractmethod
    def constraint(self, q: Position, t: Time) -> PerRow:
        """g(q, t), holonomic rows only."""

    @abc.abstractmethod
    def constraint_rate(self, q: Position, v: Velocity, t: Time) -> PerRow:
        """[G v + g_t; A v + b], all rows."""

    @abc.abstractmethod
    def gamma(self, q: Position, v: Velocity, t: Time) -> PerRow:
        """The right-hand side of [G; A] v' = gamma, all rows."""

    def constraint_acceleration(self, q: Array, v: Array, t: Array, a: Array) -> Array:
        """[G; A] a - gamma, all rows."""
        rate = lambda x: self.constraint_rate(q, x, t)  # noqa: E731
        return jax.jvp(rate, (v,), (a,))[1] - self.gamma(q, v, t)

    @abc.abstractmethod
    def jacobian(self, q: Position, t: Time) -> Jacobian:
        """[G; A], dense, shape (rows, nv)."""

    @abc.abstractmethod
    def constraint_force(self, q: Position, t: Time, lam: Multipliers) -> Force:
        """[G; A]^T lam."""

    @abc.abstractmethod
    def factor(
        self,
        q: Position,
        t: Time,
        *,
        metric: Metric = "mass",
        rows: Rows = "all",
        shift: Array | float = 0.0,
    ) -> ConstraintFactor:
        """Prepare the saddle-point solver at (q, t); `shift` is added to G W G^T."""

    def matrix_sizes(
        self, q: Position, v: Velocity, t: Time, size: Literal["mean", "norm"]
    ) -> tuple[Array, Array, Array]:
        """The sizes of M, df/dv and df/dq: the mean size of the diagonal or the infinity norm."""

        def measured(matrix: Array) -> Array:
            if size == "norm":
                return jnp.max(jnp.sum(jnp.abs(matrix), axis=1))
            return jnp.mean(jnp.abs(jnp.diagonal(matrix)))

        moved = lambda d: self.force(self.retract(q, d), v, t)  # noqa: E731
        damping = jax.jacfwd(lambda x: self.force(q, x, t))(v)
        stiffness = jax.jacfwd(moved)(jnp.zeros_like(v))
        return measured(self.mass_matrix(q)), measured(damping), measured(stiffness)

    def step_solver(self, level: Any, augment: float | None = None) -> Any:
        """The solver of the linear equations of implicit steps with constraints of a level (see
        `step.py`), augmented by rho = `augment` or as it likes; None where nothing is known of
        their structure, and they are solved as one dense matrix."""
        return None

    @property
    def has_varying_mass(self) -> bool:
        """Whether the mass matrix is known to depend on the configuration."""
        return False

    def static_stiffness(self, q: Position, t: Time, lam: Multipliers) -> SquareMatrix:
        """-d/dq [f - J^T lam] at rest, with fixed multipliers: the geometric stiffness of loaded
        joints included."""
        rest = jnp.zeros((self.velocity_size(q.shape[0]),))

        def unbalanced(step: Array) -> Array:
            moved = self.retract(q, step)
            return self.force(moved, rest, t) - self.constraint_force(moved, t, lam)

        return -jax.jacfwd(unbalanced)(rest)

    # -- section forces of beams, which the search for equilibria carries along -----------------

    def section_shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of `section_loads`; nothing where there are no beams."""
        return ()

    def section_loads(self, q: Position) -> tuple[Array, ...]:
        """The elastic section forces of all beam elements."""
        return ()

    def with_preloads(self, loads: tuple[Array, ...]) -> System:
        """The system with these constants added to the section forces."""
        return self

    def sturdier(self) -> System | None:
        """This system with a slower and safer `step_solver`; None if there is none."""
        return None

    # -- names ---------------------------------------------------------------------------

    @abc.abstractmethod
    def coordinate_names(self, n: int) -> list[str]:
        """One name for each of the `n` entries of q."""

    @abc.abstractmethod
    def velocity_names(self, n: int) -> list[str]:
        """One name for each of the `n` entries of v."""

    @abc.abstractmethod
    def constraint_names(self, rows: int) -> list[str]:
        """One name for each of the `rows` constraint rows: the joint it belongs to."""

    @abc.abstractmethod
    def non_finite_forces(self, q: Any, v: Any, t: Any) -> list[str]:
        """Names of the forces that are not finite at (q, v, t)."""

    @property
    @abc.abstractmethod
    def has_nonholonomic_constraints(self) -> bool:
        """Whether some rows are of velocity level only."""

    @property
    def position_size(self) -> int | None:
        """The number of position coordinates; None where only a start tells."""
        return None

    # -- for other solvers ---------------------------------------------------------------

    def as_ode(self, *, alpha: float = 0.0, beta: float = 0.0, start: object = None) -> Any:
        """The equations as y' = f(t, y) with y = (q, v), for SciPy, diffrax and other solvers; see
        `holonax.system.equations.OdeEquations`.

        `alpha` and `beta` [1/s] are Baumgarte's gains against drift. A `start` is needed where the
        system does not say how many coordinates it has (functions).
        """
        from .equations import ode_of

        return ode_of(self, alpha, beta, start)

    def as_dae(self, index: Literal[1, 2, 3, "GGL"] = 3, *, start: object = None) -> Any:
        """The equations as 0 = F(t, y, y') with y = (q, v, lam), for SUNDIALS' IDA, scipy-dae and
        other solvers; see `holonax.system.equations.DaeEquations`.

        `index` says which form of the constraints is solved: 3 for g = 0, 2 for g' = 0, 1 for
        g'' = 0, or ``"GGL"`` for g = 0 and g' = 0 together. `start` as for `as_ode`.
        """
        from .equations import dae_of

        return dae_of(self, index, start)

    # -- derived -------------------------------------------------------------------------

    def at(self, q: Position, t: Time) -> Configuration:
        """This system at (q, t), for what is evaluated there together."""
        return Configuration(self, q, t)

    def accelerations(self, q: Position, v: Velocity, t: Time) -> tuple[Velocity, Multipliers]:
        """(v', lam) that satisfy the equations of motion and g'' = 0."""
        return _accelerations(self, q, v, t)

    def constraint_rate_jacobian(self, q: Position, v: Velocity, t: Time) -> Jacobian:
        """The derivative of `constraint_rate` with respect to an increment of q, (rows, nv)."""
        at = lambda step: self.constraint_rate(self.retract(q, step), v, t)  # noqa: E731
        return jax.jacfwd(at)(jnp.zeros_like(v))

    def energy(self, q: Position, v: Velocity) -> Scalar:
        """Kinetic plus potential energy [J]."""
        return self.kinetic_energy(q, v) + self.potential_energy(q)

    def external_power(self, q: Position, v: Velocity, t: Time) -> Scalar:
        """Rate of change of the energy along the motion [W].

        This is the power of everything that has no potential: dampers, friction, actuators,
        loads, and constraints that move with time.
        """
        a, _ = self.accelerations(q, v, t)
        return jax.jvp(self.energy, (q, v), (self.qdot(q, v), a))[1]


# A step evaluates these many times; inside a jit the work of tracing and differentiating is shared.


@jax.jit
def _accelerations(system: System, q: Array, v: Array, t: Array) -> tuple[Array, Array]:
    return system.at(q, t).accelerations(v)


def check_system(owner: str, system: System) -> None:
    """Refuse what is no System."""
    if not isinstance(system, System):
        raise TypeError(
            f"{owner}: system is {type(system).__name__}; give a System, from model.build() or "
            "FunctionSystem(...)."
        )
