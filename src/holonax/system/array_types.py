"""Arrays by their shapes, for the signatures of systems: nq position coordinates, nv velocity
coordinates, and rows of constraints, holonomic ones first."""

from __future__ import annotations

import jax
from jaxtyping import Float

Array = jax.Array

Scalar = Float[Array, ""]
Time = Float[Array, ""]
# q, and its rate q'
Position = Float[Array, "nq"]
# v, v', increments of the position, and one entry for each of them
Velocity = Float[Array, "nv"]
Force = Float[Array, "nv"]
# g, g', gamma, and the multipliers that go with them
PerRow = Float[Array, "rows"]
Multipliers = Float[Array, "rows"]
Jacobian = Float[Array, "rows nv"]
SquareMatrix = Float[Array, "nv nv"]
