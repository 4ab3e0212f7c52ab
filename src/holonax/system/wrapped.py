"""A system that changes something about another one, and leaves all else as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from .array_types import Force, Position, Scalar, SquareMatrix, Velocity
from .base import Array, System


class WrappedSystem(System):
    """`base`, as far as it is not changed: configurations, masses, names and sizes."""

    base: Any

    def qdot(self, q: Position, v: Velocity) -> Position:
        return self.base.qdot(q, v)

    def retract(self, q: Position, step: Velocity) -> Position:
        return self.base.retract(q, step)

    def difference(self, start: Position, end: Position) -> Velocity:
        return self.base.difference(start, end)

    def normalize(self, q: Position) -> Position:
        return self.base.normalize(q)

    def increment_rate(self, step: Velocity, rate: Velocity) -> Velocity:
        return self.base.increment_rate(step, rate)

    def extent(self, q: Position) -> Velocity:
        return self.base.extent(q)

    def velocity_size(self, nq: int) -> int:
        return self.base.velocity_size(nq)

    def held_coordinates(self, item: int | str, nq: int) -> list[int]:
        return self.base.held_coordinates(item, nq)

    @property
    def position_size(self) -> int | None:
        return self.base.position_size

    def states(self, nv: int) -> np.ndarray:
        return self.base.states(nv)

    def idle(self, nv: int) -> np.ndarray:
        return self.base.idle(nv)

    def carriers(self, nq: int) -> np.ndarray:
        return self.base.carriers(nq)

    def mass_matrix(self, q: Position) -> SquareMatrix:
        return self.base.mass_matrix(q)

    def momentum(self, q: Position, v: Velocity) -> Force:
        return self.base.momentum(q, v)

    def kinetic_energy(self, q: Position, v: Velocity) -> Scalar:
        return self.base.kinetic_energy(q, v)

    def potential_energy(self, q: Position) -> Scalar:
        return self.base.potential_energy(q)

    @property
    def has_reaction_forces(self) -> bool:
        return self.base.has_reaction_forces

    def reaction_force_names(self) -> list[str]:
        return self.base.reaction_force_names()

    def coordinate_names(self, n: int) -> list[str]:
        return self.base.coordinate_names(n)

    def velocity_names(self, n: int) -> list[str]:
        return self.base.velocity_names(n)

    @property
    def has_redundant_constraints(self) -> bool:
        return self.base.has_redundant_constraints

    @property
    def has_nonholonomic_constraints(self) -> bool:
        return self.base.has_nonholonomic_constraints

    def parameters(self) -> dict[str, Array]:
        return self.base.parameters()

    def complete(self) -> System:
        return self.base.complete()

    def time_breaks(self) -> np.ndarray:
        return self.base.time_breaks()

    def has_unannounced_times(self, nq: int) -> bool:
        return self.base.has_unannounced_times(nq)

    def typical_sizes(self, q: np.ndarray) -> np.ndarray | None:
        return self.base.typical_sizes(q)

    def increment_units(self, nv: int) -> list[str]:
        return self.base.increment_units(nv)
