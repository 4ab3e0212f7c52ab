"""What every integrator can do and says about itself."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx

from ..formulation.base import Formulation, StepContext
from ..system.base import Array

# A component larger than this (SI units) is a blow-up, not a mechanism.
BLOW_UP = 1e15


class FullState(NamedTuple):
    """The state of methods that solve for more than (q, v): accelerations, algebraic variables,
    and the condition number of the step's Newton matrix (zero unless asked for)."""

    q: Array
    v: Array
    a: Array
    z: Array
    condition: Array


class Integrator(eqx.Module):
    """One step of one method.

    The arguments of its methods are those of a diffrax solver, in whose time loop it runs (see
    `loop_parts.py`); `terms.vf(t, y, args)` is the derivative of y.
    """

    # The kinds of problem it takes (see `formulation/base.py`), and where it comes from.
    accepts: ClassVar[tuple[str, ...]]
    reference: ClassVar[str]
    # Multipliers in the state belong to this part of a step before its end (0: the end itself).
    multiplier_lag: ClassVar[float] = 0.0
    # Whether a step comes with an estimate of its error, for steps chosen by it: increments of
    # position, of velocity and of algebraic variables, or one number in units of the tolerance.
    estimates_error: ClassVar[bool] = False
    # Whether the method cannot go without one: it chooses its order by the error as well.
    needs_tolerance: ClassVar[bool] = False
    # How diffrax finds states inside a step: "hermite" from h times the derivatives at its ends,
    # which the step then gives as "k". The steps of `simulate` end where states are wanted.
    interpolation: ClassVar[Literal["linear", "hermite"]] = "linear"

    @abc.abstractmethod
    def order(self, terms: Any) -> int | None:
        """The order of convergence; None where the formulation decides."""

    def error_order(self, terms: Any) -> Any:
        """The order of the estimated error of a step, by which the next one is chosen."""
        return self.order(terms)

    def first_order(self, terms: Any) -> Any:
        """The order of the error of a run's first step, from which its length is chosen."""
        return self.error_order(terms)

    def first_state(self, context: StepContext, t: Array, q: Array, v: Array) -> Any:
        """y at the start; explicit methods need (q, v) only."""
        return q, v

    @abc.abstractmethod
    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        """What the method remembers from step to step, before a first step from t0 to t1."""

    @abc.abstractmethod
    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> Any:
        """One step from t0 to t1.

        Returns y1, its error (None without an estimate), what `interpolation` needs, what the
        method remembers, and whether the equations of the step were solved.
        """

    def refusal(self, formulation: Formulation) -> str:
        """Why these options do not go with a formulation whose kind is accepted; "" if they do."""
        return ""

    def statistics(self, solver_state: Any) -> dict[str, int]:
        """Counts kept in the solver state, by name."""
        return {}


class SolverStatus(NamedTuple):
    """The state of `StabilizedSolver`: the method's own, why the loop stopped, and when.

    `code` is 0 while all is well, 1 for a state that is not finite, 2 for a blow-up, 3 for a step
    whose equations could not be solved, 6 for one whose projection turned velocities around, 7 for
    one over which a constraint jumps; `t` is the time of the last good state.
    """

    method: Any
    code: Array
    t: Array
    carry: Any
