"""A factored Newton matrix that is kept from step to step, and how long it is worth that.

Where elimination makes many products of blocks, as in a net of beams, a factor costs as much as
many iterations. One that has become old costs iterations instead: with N of them in the k steps
since it was made, the work of a step is (price + N) / k, and a new one is due as soon as the last
step took more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..system.base import Array

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..problem import StepContext

# A factor is kept from step to step where it costs at least so many iterations: a plane mesh of a
# hundred nodes. That of a chain is made as fast as its derivatives.
_DEAR = 5.0
# It is that of steps whose length differs by less than this part: by more, changes shrink badly.
_LENGTH = 0.1


class KeptFactor(NamedTuple):
    """The arrays of a factor, whether it can be used, the length of the steps it was made for, the
    steps that it was used in, and the iterations in these."""

    factor: tuple[Array, ...]
    usable: Array
    dt: Array
    steps: Array
    iterations: Array

    @staticmethod
    def none(context: StepContext, solver: Any, prepare: Callable[[], Any]) -> KeptFactor | None:
        """Room for what `prepare` makes; None where it is not worth keeping.

        A step that is differentiated has its own matrix, to the last digit; and what is kept of
        many steps to take them again has no factors.
        """
        if solver is None or context.differentiable or context.keeps:
            return None
        if solver.price < _DEAR:
            return None
        shapes = jax.tree.leaves(jax.eval_shape(prepare))
        factor = tuple(jnp.zeros(x.shape, x.dtype) for x in shapes)
        zero = jnp.zeros((), int)
        return KeptFactor(factor, jnp.asarray(False), jnp.ones(()), zero, zero)

    def at(self, h: Array) -> KeptFactor:
        """The same for a step of length h, which it may not be usable for."""
        return self._replace(usable=self.usable & (jnp.abs(h - self.dt) <= _LENGTH * self.dt))

    def after(self, h: Array, price: float, used: Any, solved: Array) -> KeptFactor:
        """What is kept after a step with `used`, a factor and the counts of the step."""
        factor, counts = used
        fresh, steps = counts.factorizations > 0, self.steps + 1
        steps = jnp.where(fresh, 1, steps)
        iterations = counts.iterations + jnp.where(fresh, 0, self.iterations)
        usable = solved & (counts.iterations * steps <= price + iterations)
        return KeptFactor(factor, usable, jnp.where(fresh, h, self.dt), steps, iterations)
