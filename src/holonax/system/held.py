"""A system with contacts that are closed: its equations, and one row more for each gap.

    M v' = f - G^T lam - N^T mu,   gap(q, t) = 0,   N = the gaps' derivative along v

A row is that of a holonomic constraint; what makes it one-sided, that -mu may push and not pull, is
watched from outside, by `margins`. Rows are ordered as those of any system: holonomic ones of the
system, gaps, non-holonomic ones of the system.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.small import cholesky, cholesky_solve
from .array_types import Force, Jacobian, Multipliers, PerRow, Position, Time, Velocity
from .base import Array, ConstraintFactor, Metric, Rows, System
from .wrapped import WrappedSystem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from .dense import DenseFactor

# A contact opens when it would have to pull by this share of the forces that act there.
PULL = 1e-10


class HeldSystem(WrappedSystem):
    """`base` with closed contacts.

    `gaps` are events, whose ``value(system, t, q, v)`` vanishes while the contact is closed, and
    `sides` the sign that each has while it is open. `holonomic` and `rows` count those of `base`.
    """

    gaps: tuple[Any, ...]
    sides: tuple[int, ...] = eqx.field(static=True)
    holonomic: int = eqx.field(static=True)
    rows: int = eqx.field(static=True)

    @staticmethod
    def of(
        base: System, gaps: Any, sides: Sequence[int], q: np.ndarray, v: np.ndarray, t: np.ndarray
    ) -> HeldSystem:
        """With the rows counted at a state."""
        rate = jax.eval_shape(base.constraint_rate, q, v, t)
        g = jax.eval_shape(base.constraint, q, t)
        return HeldSystem(base, tuple(gaps), tuple(sides), g.shape[0], rate.shape[0])

    # -- the gaps ------------------------------------------------------------------------

    def gap(self, q: Position, t: Time) -> Array:
        """All gaps, zero while the contacts are closed."""
        rest = jnp.zeros((self.velocity_size(int(q.shape[0])),))
        return jnp.stack([gap.value(self.base, t, q, rest) for gap in self.gaps])

    def gap_rate(self, q: Position, v: Velocity, t: Time) -> Array:
        """How fast they open."""
        t = jnp.asarray(t, q.dtype)
        return jax.jvp(self.gap, (q, t), (self.base.qdot(q, v), jnp.ones_like(t)))[1]

    def gap_gamma(self, q: Position, v: Velocity, t: Time) -> Array:
        """The right-hand side of N v' = gamma."""
        t = jnp.asarray(t, q.dtype)
        along = lambda q, t: self.gap_rate(q, v, t)  # noqa: E731
        return -jax.jvp(along, (q, t), (self.base.qdot(q, v), jnp.ones_like(t)))[1]

    def normals(self, q: Position, t: Time) -> Array:
        """N, shape (gaps, nv)."""
        still = jnp.zeros((self.velocity_size(int(q.shape[0])),))
        return jax.jacrev(lambda step: self.gap(self.base.retract(q, step), t))(still)

    def margins(self, q: Position, v: Velocity, t: Time) -> Array:
        """What each contact's push adds to the acceleration of its gap; it opens at zero.

        A share of what other forces do there is added: to be pulled by rounding opens nothing.
        """
        factor = self.factor(q, t)
        force, gamma = self.base.force(q, v, t), self.gap_gamma(q, v, t)
        _, lam = factor.solve(force, self.joined(self.base.gamma(q, v, t), gamma))
        push = -jnp.asarray(self.sides) * self.split(lam)[1]
        size = jnp.abs(factor.normals) @ jnp.abs(factor.base.weigh(force)) + jnp.abs(gamma)
        return push * factor.mobility + PULL * size + 1e-30

    def joined(self, base: Array, gaps: Array) -> Array:
        """Rows of the base and of the gaps as rows of this system."""
        m = min(self.holonomic, base.shape[0])
        return jnp.concatenate([base[:m], gaps, base[m:]])

    def split(self, rows: Array) -> tuple[Array, Array]:
        """The inverse of `joined`."""
        m, n = self.holonomic, self.holonomic + len(self.gaps)
        return jnp.concatenate([rows[:m], rows[n:]]), rows[m:n]

    # -- System: parameters, and joints that come and go -----------------------------------

    def with_parameters(
        self, changes: Mapping[str, ArrayLike | Array] | None = None, **more: Any
    ) -> HeldSystem:
        base = self.base.with_parameters(changes, **more)
        return HeldSystem(base, self.gaps, self.sides, self.holonomic, self.rows)

    def with_redundant_constraints(self) -> HeldSystem:
        base = self.base.with_redundant_constraints()
        return HeldSystem(base, self.gaps, self.sides, self.holonomic, self.rows)

    def rows_of_all(self) -> slice | np.ndarray:
        """-1 for the gaps, which are no rows of the complete system."""
        rows = self.base.rows_of_all()
        rows = np.arange(self.rows) if isinstance(rows, slice) else rows
        m = self.holonomic
        return np.concatenate([rows[:m], np.full(len(self.gaps), -1), rows[m:]]).astype(int)

    # -- System: time, of the base -----------------------------------------------------------

    def moving_constraints(self, nq: int) -> System | None:
        return self.base.moving_constraints(nq)

    # -- System: configuration and dynamics, those of the base ------------------------------

    def force(self, q: Position, v: Velocity, t: Time) -> Force:
        return self.base.force(q, v, t)

    # -- System: constraints ---------------------------------------------------------------

    def constraint(self, q: Position, t: Time) -> PerRow:
        return jnp.concatenate([self.base.constraint(q, t), self.gap(q, t)])

    def constraint_rate(self, q: Position, v: Velocity, t: Time) -> PerRow:
        return self.joined(self.base.constraint_rate(q, v, t), self.gap_rate(q, v, t))

    def gamma(self, q: Position, v: Velocity, t: Time) -> PerRow:
        return self.joined(self.base.gamma(q, v, t), self.gap_gamma(q, v, t))

    def jacobian(self, q: Position, t: Time) -> Jacobian:
        return self.joined(self.base.jacobian(q, t), self.normals(q, t))

    def constraint_force(self, q: Position, t: Time, lam: Multipliers) -> Force:
        lam, mu = self.split(lam)
        return self.base.constraint_force(q, t, lam) + self.normals(q, t).T @ mu

    def factor(
        self,
        q: Position,
        t: Time,
        *,
        metric: Metric = "mass",
        rows: Rows = "all",
        shift: Array | float = 0.0,
    ) -> HeldFactor:
        factor = self.base.factor(q, t, metric=metric, rows=rows, shift=shift)
        count = self.rows if rows == "all" else self.holonomic
        return HeldFactor(self, factor, self.normals(q, t), count, shift)

    # -- names -----------------------------------------------------------------------------

    def constraint_names(self, rows: int) -> list[str]:
        names, m = self.base.constraint_names(self.rows), self.holonomic
        return [*names[:m], *(gap.name for gap in self.gaps), *names[m:]][:rows]

    def non_finite_forces(self, q: Any, v: Any, t: Any) -> list[str]:
        return self.base.non_finite_forces(q, v, t)


class HeldFactor(ConstraintFactor):
    """The factor of the base, and the Schur complement of the gaps in it.

    With d_i = the base's answer to a force along the i-th normal, what is left for the multipliers
    of the gaps is S mu = N a - gamma, S_ij = N_i d_j.
    """

    def __init__(
        self, system: HeldSystem, base: DenseFactor, normals: Array, rows: int, shift: Any
    ):
        self._system, self.base, self.normals, self._rows = system, base, normals, rows
        none = jnp.zeros((rows,))
        answers = [base.solve(normal, none) for normal in normals]
        self._moved = jnp.stack([a for a, _ in answers])
        self._shared = jnp.stack([lam for _, lam in answers])
        S = normals @ self._moved.T
        self.mobility = jnp.diagonal(S)
        self._factor = cholesky((S + S.T) / 2 + shift * jnp.eye(len(answers)))

    def solve(self, force: Force, gamma: PerRow) -> tuple[Velocity, Multipliers]:
        rows, gaps = self._split(gamma)
        a, lam = self.base.solve(force, rows)
        mu = cholesky_solve(self._factor, self.normals @ a - gaps)
        return a - mu @ self._moved, self._system.joined(lam - mu @ self._shared, mu)

    def _split(self, rows: Array) -> tuple[Array, Array]:
        return self._system.split(rows)

    def weigh(self, force: Force) -> Velocity:
        return self.base.weigh(force)

    def apply(self, v: Velocity) -> PerRow:
        return self._system.joined(self.base.apply(v), self.normals @ v)

    def multipliers(self, residual: PerRow) -> Multipliers:
        nothing = jnp.zeros((self.normals.shape[1],))
        return self.solve(nothing, -residual)[1]

    def spread(self, lam: Multipliers) -> Velocity:
        lam, mu = self._split(lam)
        return self.base.spread(lam) + self.base.weigh(mu @ self.normals)
