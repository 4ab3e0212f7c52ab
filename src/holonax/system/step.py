"""The linear equations of an implicit step: what is asked of whoever solves them.

A step, or one of its stages, moves the configuration by y and the velocity by ratio s,

    s = R y + G^T m,        reach a = s,

with multipliers m = project mu of the position where that is projected (zero elsewhere), and R the
way in which rotations turn (one for translations). With l = reach lam its linear equations are

    [M + reach ratio F_v] s + reach F_x y + B l = reach times the equations of motion
    G s + rate_x y / ratio                      = constraints of velocity level / ratio
    G y                                         = constraints of position level

or, with c = G a - gamma for the constraints of acceleration level, in place of the last two

    [G + reach ratio c_v] s + reach c_x y       = reach times the constraints

F = G^T lam - f; F_x and F_v its derivatives to position and velocity, B that to the multipliers
(G^T, unless forces depend on them). A *level* says which constraints there are. The second
derivative of the constraints times mu is left out of s: mu is no larger than the error of a step.

Everything is of the same size whatever the step is. `reach` and `ratio` may be complex, for stages
that were taken apart into eigenvectors.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .base import Array

if TYPE_CHECKING:
    from jaxtyping import PyTree

# Holonomic constraints of position level, of velocity level, or both (with multipliers for each);
# non-holonomic ones are of velocity level always. Or all of them of acceleration level.
Level = Literal["position", "velocity", "both", "acceleration"]


class StepEnd(NamedTuple):
    """Where constraints are taken, if not where the forces are: at (q, v, t), the increment `turn`
    from the configuration that the step began at. Increments there change `share` times as much,
    and velocities `speed` times."""

    q: Array
    v: Array
    t: Array
    turn: Array
    share: float = 1.0
    speed: float = 1.0


class StepPoint(NamedTuple):
    """Where the equations are linearised: a state, its accelerations and multipliers lam."""

    q: Array
    v: Array
    t: Array
    a: Array
    lam: Array


class StepWeights(NamedTuple):
    """How an implicit step moves: reach and ratio (see above), and the increment `turn` of its
    position (size of v), which the change of the solution is one of.

    Where the velocity follows from the increment and its `rate`, R has the derivative of the
    tangent map of rotations; else the increment follows from accelerations. `still` says that
    forces are taken where the step began.
    """

    reach: Any
    ratio: Any
    turn: Array
    rate: Array | None = None
    end: StepEnd | None = None
    still: bool = False


class StepSolver(abc.ABC):
    """One way to solve the linear equations of implicit steps; factor once, solve often."""

    @property
    def doubled(self) -> bool:
        """Whether y and s are solved for side by side, which costs several times as much."""
        return False

    @property
    def products(self) -> float:
        """How many products of blocks a factorisation makes for each block: one of a chain, many
        of a net, whose elimination couples what was not."""
        return 1.0

    @property
    def dear(self) -> bool:
        """Whether a factor, with the derivatives it is made of, takes much longer than to evaluate
        the equations and to solve with it."""
        return False

    @property
    def price(self) -> float:
        """How many iterations, of the equations evaluated and solved with a factor, take as long as
        to make a factor; zero where that is not known."""
        return 0.0

    def light(self, factor: PyTree) -> PyTree:
        """What `solve` takes of a factor if it is not `checked`, nor differentiated."""
        return factor

    @abc.abstractmethod
    def slopes(self, at: StepPoint, weights: StepWeights) -> PyTree:
        """The derivatives that the matrix is made of, a pytree: the same for every `reach` and
        `ratio`, which are not looked at."""

    @abc.abstractmethod
    def factor(self, slopes: PyTree, weights: StepWeights) -> PyTree:
        """The factored matrix, a pytree."""

    def prepare(self, at: StepPoint, weights: StepWeights) -> PyTree:
        """The factored matrix at a point."""
        return self.factor(self.slopes(at, weights), weights)

    @abc.abstractmethod
    def solve(
        self,
        factor: PyTree,
        motion: Array,
        constraints: Array,
        positions: Array | None,
        *,
        checked: bool = True,
    ) -> tuple[Array, Array, Array | None, Array]:
        """(increment, l, m) for right-hand sides: the equations of motion, the constraints that
        go with lam, and those of position level that go with mu (None where there are none); and
        whether that is a solution. Not `checked`, it is a linear function of the right-hand sides,
        which can be transposed, and nothing is known of it.
        """
