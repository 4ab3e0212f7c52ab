"""One implicit stage: the formulation's equations where a step, or a part of it, ends.

    d = d_0 + p k,    q = q_n ⊞ d,    u = velocity of the moving increment,    v = v_0 + p a

The unknowns are k, the rate of the increment of position, and the algebraic variables z. The
velocity follows from them, v = u but for what moves the position along the constraints, and a from
it. Where a formulation does not say v, a is an unknown as well. What does not depend on the method
is how a change of the unknowns is found from what is left of the equations: by the system's solver
(`system/step.py`) where the formulation says what kind of equations it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..problem import FullState, StepContext
from ..system.base import Array
from ..system.step import StepEnd, StepPoint, StepWeights
from .newton import Linear, Scaling

if TYPE_CHECKING:
    from jaxtyping import PyTree


def scaled(context: StepContext, unit: Array, reach: Array) -> Scaling | None:
    """How the formulation scales Newton's matrix for the unknowns (k or a, z).

    `unit` is how far one of the first unknown moves the position, `reach` how far one of a does.
    """
    scaling = context.formulation.newton_scaling(context, reach)
    if scaling is None:
        return None
    rows, columns, augment, condition = scaling
    return Scaling(rows[1:], (columns[1] * reach / unit, columns[2]), augment, condition)


class StepEquations(NamedTuple):
    """The linear equations of a step on a formulation whose level is known.

    `reach`, `ratio` and `project` are those of `system/step.py`.
    """

    context: StepContext
    reach: Any
    ratio: Any
    project: Any

    @property
    def solver(self) -> Any:
        """The system's solver; None where the equations are solved as one dense matrix."""
        formulation = self.context.formulation
        if formulation.step_level is None:
            return None
        return self.context.system.step_solver(formulation.step_level, formulation.augmentation)

    def tangent(self, solve: Any) -> Any:
        """The change that `solve(factor, value)` finds without its checks, if the matrix is that of
        the equations to the last digit: where positions are projected it is not (see
        `system/step.py`)."""
        if self.context.formulation.step_level == "both":
            return None
        return lambda factor, value: solve(factor, value, checked=False)[0]

    def prepare(
        self,
        at: tuple[Array, Array, Array, Array, Array],
        turn: Array,
        rate: Array | None = None,
        end: StepEnd | None = None,
        still: bool = False,
    ) -> Any:
        """The factor at (q, v, t, a, z), the increment `turn` from the beginning."""
        weights = StepWeights(self.reach, self.ratio, turn, rate, end, still)
        return self.solver.prepare(self._point(at), weights)

    def slopes(self, at: tuple[Array, Array, Array, Array, Array], turn: Array, rate: Array) -> Any:
        """What the factor is made of that neither reach nor ratio change."""
        return self.solver.slopes(self._point(at), self._weights(turn, rate))

    def factor(self, slopes: Any, turn: Array, rate: Array) -> Any:
        """The factor, from the slopes at the same point."""
        return self.solver.factor(slopes, self._weights(turn, rate))

    def _weights(self, turn: Array, rate: Array) -> StepWeights:
        return StepWeights(self.reach, self.ratio, turn, rate)

    def _point(self, at: tuple[Array, Array, Array, Array, Array]) -> StepPoint:
        q, v, t, a, z = at
        return StepPoint(q, v, t, a, z[: self._rows(q, v, t)[0]])

    def _rows(self, q: Array, v: Array, t: Array) -> tuple[int, int]:
        """How many constraint rows there are, and how many of them are holonomic."""
        system = self.context.system
        rate = jax.eval_shape(system.constraint_rate, q, v, t)
        return rate.shape[0], jax.eval_shape(system.constraint, q, t).shape[0]

    def solve(
        self, factor: Any, value: tuple[Any, Any], y0: FullState, *, checked: bool = True
    ) -> tuple[Any, Any, Any]:
        """The changes of the increment and of z that take the values of the dynamic and the
        algebraic equations away, and whether they do; `y0` says how large vectors are."""
        formulation, h = self.context.formulation, self.context.dt
        dynamic, algebraic = value
        algebraic = algebraic * formulation.algebraic_scale(self.context)
        rows, held = self._rows(y0.q, y0.v, h)
        positions = None
        if formulation.step_level == "acceleration":
            constraints = self.reach * algebraic
        elif formulation.step_level == "position":
            rates = algebraic[held:] / (h * self.ratio)
            constraints = jnp.concatenate([algebraic[:held], rates])
        else:
            constraints = algebraic[:rows] / self.ratio
        if formulation.step_level == "both":
            positions = algebraic[rows:]
        motion = self.reach * dynamic
        kind = jnp.result_type(motion, constraints)
        sides = [x if x is None else x.astype(kind) for x in (motion, constraints, positions)]
        d, l, m, fine = self.solver.solve(factor, *sides, checked=checked)
        z = l / self.reach
        return d, z if m is None else jnp.concatenate([z, m / self.project]), fine


class Stage(NamedTuple):
    """A stage at the time t with d = d_0 + p k and v = v_0 + p a, from the state `y0`."""

    context: StepContext
    t: Array
    y0: FullState
    d0: Array
    v0: Array
    p: Array
    # constraints are taken at (t1, q_n ⊞ share d, v_0 + share p a) if not at the stage itself
    end: tuple[Array, float] | None = None

    @property
    def explicit(self) -> bool:
        """Whether the velocity follows from k and z."""
        return self.context.formulation.velocity_follows

    def start(self, k: Array, a: Array, z: Array) -> Any:
        """The unknowns for a guess of rates and algebraic variables."""
        return (k, z) if self.explicit else (k, a, z)

    def state(self, x: PyTree) -> tuple[Array, Array, Array, Array, Array]:
        """(q, d, v, a, z) for given unknowns."""
        system, formulation = self.context.system, self.context.formulation
        k, z = x[0], x[-1]
        d = self.d0 + self.p * k
        q = system.retract(self.y0.q, d)
        if not self.explicit:
            return q, d, self.v0 + self.p * x[1], x[1], z
        u = system.increment_rate(d, k)
        v = formulation.velocity(self.context, self.t, q, u, z)
        return q, d, v, (v - self.v0) / self.p, z

    def residual(self, x: PyTree) -> PyTree:
        """The equations for given unknowns."""
        system, formulation = self.context.system, self.context.formulation
        q, d, v, a, z = self.state(x)
        u = system.increment_rate(d, x[0])
        values = formulation.residual(self.context, self.t, q, v, u, a, z)
        if self.end is not None:
            q, v, t = self._end(d, a)
            values = *values[:2], formulation.residual(self.context, t, q, v, v, a, z)[2]
        # Constraints below acceleration level are divided by h so that the matrix stays balanced.
        kinematic, dynamic, algebraic = values
        algebraic = algebraic / formulation.algebraic_scale(self.context)
        return (dynamic, algebraic) if self.explicit else (kinematic, dynamic, algebraic)

    def _end(self, d: Array, a: Array) -> tuple[Array, Array, Array]:
        assert self.end is not None
        t, share = self.end
        q = self.context.system.retract(self.y0.q, share * d)
        return q, self.v0 + share * self.p * a, t

    @property
    def equations(self) -> StepEquations:
        """The linear equations."""
        return StepEquations(self.context, self.p * self.p, 1 / self.p, self.p)

    def factor(self, x: PyTree) -> Any:
        """The factored matrix at given unknowns."""
        q, d, v, a, z = self.state(x)
        end = None
        if self.end is not None:
            there, share = self._end(d, a), self.end[1]
            end = StepEnd(*there, turn=share * d, share=share, speed=share)
        return self.equations.prepare((q, v, self.t, a, z), d, x[0], end)

    def change(self, factor: Any, value: PyTree, *, checked: bool = True) -> Any:
        """The change of the unknowns that takes `value` away, and whether it does."""
        d, z, fine = self.equations.solve(factor, value, self.y0, checked=checked)
        return (d / self.p, z), fine

    @property
    def linear(self) -> Linear | None:
        """How Newton's equations are solved; None for one dense matrix."""
        if not self.explicit or self.equations.solver is None:
            return None
        tangent, dear = self.equations.tangent(self.change), self.equations.solver.dear
        return Linear(self.factor, self.change, tangent=tangent, dear=dear)

    @property
    def scaling(self) -> Scaling | None:
        """How Newton's matrix is scaled."""
        if self.explicit:
            return scaled(self.context, self.p, self.p * self.p)
        scaling = self.context.formulation.newton_scaling(self.context, self.p * self.p)
        return None if scaling is None else Scaling(*scaling)
