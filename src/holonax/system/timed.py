"""A system whose time is counted from an origin, within one smooth piece of it.

The time loop counts seconds from the start of a run, so that a step is not lost in the rounding of
a large time; forces and drivers are functions of the time itself. Where these have breaks, a step
that ends at one sees the time just before it, and the step that begins there the time just after.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

from .base import Array, ConstraintFactor, Metric, Rows, System
from .tangent_blocks import StepWeights


class TimedSystem(System):
    """`inner` at the time origin + t, kept between `first` and `last` [s]."""

    inner: System
    origin: Array
    first: Array
    last: Array

    def time(self, t: Array) -> Array:
        t = self.origin + t
        # a constant that is added: derivatives with respect to the time are those of `inner`
        return t + jax.lax.stop_gradient(jnp.clip(t, self.first, self.last) - t)

    def with_redundant_constraints(self) -> System:
        return TimedSystem(
            self.inner.with_redundant_constraints(), self.origin, self.first, self.last
        )

    @property
    def has_redundant_constraints(self) -> bool:
        return self.inner.has_redundant_constraints

    def moving_constraints(self, nq: int) -> System | None:
        inner = self.inner.moving_constraints(nq)
        return None if inner is None else TimedSystem(inner, self.origin, self.first, self.last)

    # -- configuration space -------------------------------------------------------------

    def qdot(self, q: Array, v: Array) -> Array:
        return self.inner.qdot(q, v)

    def retract(self, q: Array, step: Array) -> Array:
        return self.inner.retract(q, step)

    def difference(self, start: Array, end: Array) -> Array:
        return self.inner.difference(start, end)

    def normalize(self, q: Array) -> Array:
        return self.inner.normalize(q)

    def increment_rate(self, step: Array, rate: Array) -> Array:
        return self.inner.increment_rate(step, rate)

    def extent(self, q: Array) -> Array:
        return self.inner.extent(q)

    def velocity_size(self, nq: int) -> int:
        return self.inner.velocity_size(nq)

    def held_coordinates(self, item: int | str, nq: int) -> list[int]:
        return self.inner.held_coordinates(item, nq)

    # -- dynamics ------------------------------------------------------------------------

    def mass_matrix(self, q: Array) -> Array:
        return self.inner.mass_matrix(q)

    def momentum(self, q: Array, v: Array) -> Array:
        return self.inner.momentum(q, v)

    def force(self, q: Array, v: Array, t: Array) -> Array:
        return self.inner.force(q, v, self.time(t))

    def potential_energy(self, q: Array) -> Array:
        return self.inner.potential_energy(q)

    # -- constraints ---------------------------------------------------------------------

    def constraint(self, q: Array, t: Array) -> Array:
        return self.inner.constraint(q, self.time(t))

    def constraint_rate(self, q: Array, v: Array, t: Array) -> Array:
        return self.inner.constraint_rate(q, v, self.time(t))

    def gamma(self, q: Array, v: Array, t: Array) -> Array:
        return self.inner.gamma(q, v, self.time(t))

    def jacobian(self, q: Array, t: Array) -> Array:
        return self.inner.jacobian(q, self.time(t))

    def constraint_force(self, q: Array, t: Array, lam: Array) -> Array:
        return self.inner.constraint_force(q, self.time(t), lam)

    def factor(
        self,
        q: Array,
        t: Array,
        *,
        metric: Metric = "mass",
        rows: Rows = "all",
        shift: Array | float = 0.0,
    ) -> ConstraintFactor:
        return self.inner.factor(q, self.time(t), metric=metric, rows=rows, shift=shift)

    def matrix_sizes(
        self, q: Array, v: Array, t: Array, size: Literal["mean", "norm"]
    ) -> tuple[Array, Array, Array]:
        return self.inner.matrix_sizes(q, v, self.time(t), size)

    def newton_factor(
        self,
        q: Array,
        v: Array,
        t: Array,
        a: Array,
        lam: Array,
        step: StepWeights,
        augment: Any = None,
    ) -> Any:
        return self.inner.newton_factor(q, v, self.time(t), a, lam, step, augment)

    @property
    def has_structure(self) -> bool:
        return self.inner.has_structure

    def accelerations(self, q: Array, v: Array, t: Array) -> tuple[Array, Array]:
        return self.inner.accelerations(q, v, self.time(t))

    # -- names ---------------------------------------------------------------------------

    def coordinate_names(self, n: int) -> list[str]:
        return self.inner.coordinate_names(n)

    def velocity_names(self, n: int) -> list[str]:
        return self.inner.velocity_names(n)

    def constraint_names(self, rows: int) -> list[str]:
        return self.inner.constraint_names(rows)

    def non_finite_forces(self, q: Any, v: Any, t: Any) -> list[str]:
        return self.inner.non_finite_forces(q, v, self.time(t))

    @property
    def has_nonholonomic_constraints(self) -> bool:
        return self.inner.has_nonholonomic_constraints

    def frame_of(self, name: str, q: Array, v: Array) -> Any:
        """The frame of one body of a mechanism at a state."""
        return self.inner.frame_of(name, q, v)  # pyright: ignore[reportAttributeAccessIssue]


def untimed(system: System, t: Array) -> tuple[Array, System]:
    """The time itself, and the system that is given it."""
    return (system.time(t), system.inner) if isinstance(system, TimedSystem) else (t, system)
