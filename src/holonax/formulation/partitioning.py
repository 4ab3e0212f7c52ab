"""Generalized coordinate partitioning: a subset of the coordinates themselves is independent.

    q = (u, v),   Phi_u u' + Phi_v v' + Phi_t = 0,   u'' = H v'' + Phi_u^-1 gamma,
    H = -Phi_u^-1 Phi_v

after Wehage and Haug (1982) and Haug, Negrut and Iancu (1997): u is determined by v through the
constraint equations at position, velocity and acceleration level, and only v is integrated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp

from ..problem.chart import CoordinateWeights
from ..system.base import Array, System
from .charts import StateSpaceFormulation, growth, pivots
from .options import check_choice, positive

if TYPE_CHECKING:
    from ..problem.chart import Chart

NewtonMatrix = Literal["exact", "fisette-vaneghem"]
Predictor = Literal["previous", "explicit"]
_LIGHTEST = 1e-12  # a mass below this part of the largest counts as this much
_NO_ENTRY = 1e-9  # of the largest entry of a row


class CoordinatePartitioning(StateSpaceFormulation):
    """Integration of independent coordinates; the others follow from the constraints.

    The independent set is chosen by elimination of the constraint Jacobian with pivoting, kept
    while well conditioned, and re-chosen in the middle of a run when it is not; how often is told
    by `result.stats["repartitions"]`. Any integrator for ordinary differential equations can be
    used; with `Newmark` the step is Haug's, whose unknowns are the independent accelerations alone.

    Rotations of spatial bodies count as coordinates by their increments about the body's axes.
    Non-holonomic rows take part at velocity level. Dependent rows are found by their pivots.

    **Arguments:**

    - `tolerance`: Newton's method for the dependent coordinates stops when no constraint is off by
      more than this [m or rad], after one more step; so drift is at machine precision.
    - `condition_limit`: the set is re-chosen when the dependent coordinates can move this many
      times as fast, for given independent velocities, as when it was chosen. Accuracy falls steeply
      with it: a choice near its end bends the motion that it describes.
    - `matrix`: of the Newmark step's Newton method, ``"exact"`` (Haug's Eq. 29) or
      ``"fisette-vaneghem"``, which leaves out how gamma and G^T lam depend on the state (Eq. 40).
    - `predictor`: where that Newton method starts, at the ``"previous"`` accelerations or at those
      of an ``"explicit"`` step (Eq. 39; a poor start with stiff dampers).
    """

    reference: ClassVar[str] = "Wehage, Haug 1982; Haug, Negrut, Iancu 1997"
    own_steps: ClassVar[tuple[str, ...]] = ("Newmark",)

    condition_limit: Array
    tolerance: Array
    matrix: NewtonMatrix = eqx.field(static=True)
    predictor: Predictor = eqx.field(static=True)

    def __init__(
        self,
        condition_limit: float = 1.5,
        *,
        tolerance: float = 1e-9,
        matrix: NewtonMatrix = "exact",
        predictor: Predictor = "previous",
    ):
        owner = "CoordinatePartitioning"
        check_choice(owner, "matrix", matrix, ("exact", "fisette-vaneghem"))
        check_choice(owner, "predictor", predictor, ("previous", "explicit"))
        self.condition_limit = growth(owner, condition_limit)
        self.tolerance = positive(owner, "tolerance", tolerance, "m or rad")
        self.matrix, self.predictor = matrix, predictor

    def weights(self, system: System, t: Array, q: Array, jacobian: Array) -> CoordinateWeights:
        # Velocities are compared by the kinetic energy they stand for, whatever their units.
        mass = jnp.diagonal(system.mass_matrix(q))
        scale = jnp.sqrt(jnp.maximum(mass, _LIGHTEST * jnp.max(mass)))
        # Entries are counted at an arbitrary configuration: aligned bodies hide some.
        elsewhere = system.retract(q, 0.5 * jnp.sin(1.0 + jnp.arange(mass.shape[0])))
        general = jnp.abs(system.jacobian(elsewhere, t))
        largest = jnp.max(general, axis=1, keepdims=True, initial=0.0)
        crowd = jnp.sum(general > _NO_ENTRY * largest, axis=0)
        return CoordinateWeights(scale, jnp.maximum(crowd, 1).astype(float))

    def complement(
        self, jacobian: Array, holonomic: int, redundant: bool, weights: CoordinateWeights
    ) -> tuple[Array, Array | None]:
        return pivots(jacobian, holonomic, redundant, weights)

    def statistics(self, carry: Chart) -> dict[str, int]:
        return {"repartitions": int(carry.changes)}
