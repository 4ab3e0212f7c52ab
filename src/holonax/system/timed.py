"""A system whose time is counted from an origin, within one smooth piece of it.

The time loop counts seconds from the start of a run, so that a step is not lost in the rounding of
a large time; forces and drivers are functions of the time itself. Where these have breaks, a step
that ends at one sees the time just before it, and the step that begins there the time just after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp

from .array_types import Force, Jacobian, Multipliers, PerRow, Position, Time, Velocity
from .base import Array, ConstraintFactor, Metric, Rows, System
from .step import Level, StepPoint, StepSolver, StepWeights
from .wrapped import WrappedSystem

if TYPE_CHECKING:
    from jaxtyping import PyTree


class TimedSystem(WrappedSystem):
    """`base` at the time origin + t, kept between `first` and `last` [s]."""

    origin: Array
    first: Array
    last: Array

    def time(self, t: Time) -> Time:
        t = self.origin + t
        # a constant that is added: derivatives with respect to the time are those of `base`
        return t + jax.lax.stop_gradient(jnp.clip(t, self.first, self.last) - t)

    def with_redundant_constraints(self) -> System:
        return TimedSystem(
            self.base.with_redundant_constraints(), self.origin, self.first, self.last
        )

    def moving_constraints(self, nq: int) -> System | None:
        inner = self.base.moving_constraints(nq)
        return None if inner is None else TimedSystem(inner, self.origin, self.first, self.last)

    # -- dynamics ------------------------------------------------------------------------

    def force(self, q: Position, v: Velocity, t: Time) -> Force:
        return self.base.force(q, v, self.time(t))

    def reaction_force(self, q: Position, v: Velocity, t: Time, lam: Multipliers) -> Force:
        return self.base.reaction_force(q, v, self.time(t), lam)

    def seen_rows(self, rows: int) -> Any:
        return self.base.seen_rows(rows)

    # -- constraints ---------------------------------------------------------------------

    def constraint(self, q: Position, t: Time) -> PerRow:
        return self.base.constraint(q, self.time(t))

    def constraint_rate(self, q: Position, v: Velocity, t: Time) -> PerRow:
        return self.base.constraint_rate(q, v, self.time(t))

    def gamma(self, q: Position, v: Velocity, t: Time) -> PerRow:
        return self.base.gamma(q, v, self.time(t))

    def jacobian(self, q: Position, t: Time) -> Jacobian:
        return self.base.jacobian(q, self.time(t))

    def constraint_force(self, q: Position, t: Time, lam: Multipliers) -> Force:
        return self.base.constraint_force(q, self.time(t), lam)

    def factor(
        self,
        q: Position,
        t: Time,
        *,
        metric: Metric = "mass",
        rows: Rows = "all",
        shift: Array | float = 0.0,
    ) -> ConstraintFactor:
        return self.base.factor(q, self.time(t), metric=metric, rows=rows, shift=shift)

    def matrix_sizes(
        self, q: Position, v: Velocity, t: Time, size: Literal["mean", "norm"]
    ) -> tuple[Array, Array, Array]:
        return self.base.matrix_sizes(q, v, self.time(t), size)

    def step_solver(self, level: Level, augment: float | None = None) -> StepSolver | None:
        solver = self.base.step_solver(level, augment)
        return None if solver is None else _TimedSolver(self, solver)

    def accelerations(self, q: Position, v: Velocity, t: Time) -> tuple[Velocity, Multipliers]:
        return self.base.accelerations(q, v, self.time(t))

    # -- names ---------------------------------------------------------------------------

    def constraint_names(self, rows: int) -> list[str]:
        return self.base.constraint_names(rows)

    def non_finite_forces(self, q: Any, v: Any, t: Any) -> list[str]:
        return self.base.non_finite_forces(q, v, self.time(t))

    def frame_of(self, name: str, q: Position, v: Velocity) -> Any:
        """The frame of one body of a mechanism at a state."""
        return self.base.frame_of(name, q, v)  # pyright: ignore[reportAttributeAccessIssue]


class _TimedSolver(StepSolver):
    """A solver that is given times as they are counted in a run."""

    def __init__(self, system: TimedSystem, base: StepSolver):
        self._system, self._base = system, base

    @property
    def doubled(self) -> bool:
        return self._base.doubled

    @property
    def products(self) -> float:
        return self._base.products

    @property
    def dear(self) -> bool:
        return self._base.dear

    @property
    def price(self) -> float:
        return self._base.price

    def light(self, factor: PyTree) -> PyTree:
        return self._base.light(factor)

    def slopes(self, at: StepPoint, weights: StepWeights) -> PyTree:
        time, end = self._system.time, weights.end
        if end is not None:
            weights = weights._replace(end=end._replace(t=time(end.t)))
        return self._base.slopes(at._replace(t=time(at.t)), weights)

    def factor(self, slopes: PyTree, weights: StepWeights) -> PyTree:
        return self._base.factor(slopes, weights)

    def solve(
        self,
        factor: PyTree,
        motion: Array,
        constraints: Array,
        positions: Array | None,
        *,
        checked: bool = True,
    ) -> tuple[Array, Array, Array | None, Array]:
        return self._base.solve(factor, motion, constraints, positions, checked=checked)


def untimed(system: System, t: Array) -> tuple[Array, System]:
    """The time itself, and the system that is given it."""
    return (system.time(t), system.base) if isinstance(system, TimedSystem) else (t, system)
