"""What every integrator can do and says about itself."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .._modules import Module
from ..problem import StepContext
from ..system.base import Array

if TYPE_CHECKING:
    from diffrax import ODETerm
    from jaxtyping import PyTree


class Integrator(Module):
    """One step of one method.

    The arguments of its methods are those of a diffrax solver, in whose time loop it runs (see
    `run/loop_parts.py`); `terms.vf(t, y, args)` is the derivative of y.
    """

    # The kinds of problem it takes (see `problem`), and where it comes from.
    accepts: ClassVar[tuple[str, ...]]
    reference: ClassVar[str]
    # Multipliers in the state belong to this part of a step before its end (0: the end itself).
    multiplier_lag: ClassVar[float] = 0.0
    # Whether a step comes with an estimate of its error, for steps chosen by it: increments of
    # position, of velocity and of algebraic variables, or one number in units of the tolerance.
    estimates_error: ClassVar[bool] = False
    # Whether the method cannot go without one: it chooses its order by the error as well.
    needs_tolerance: ClassVar[bool] = False
    # whether a step is the solution of equations
    solves_equations: ClassVar[bool] = False
    # Whether a step ends with g' = 0 where the formulation's constraints are of position level.
    holds_velocity: ClassVar[bool] = False
    # Whether forces that depend on reactions are solved for.
    takes_reaction_forces: ClassVar[bool] = True
    takes_varying_mass: ClassVar[bool] = True
    # How diffrax finds states inside a step: "hermite" from h times the derivatives at its ends,
    # which the step then gives as "k". The steps of `simulate` end where states are wanted.
    interpolation: ClassVar[Literal["linear", "hermite"]] = "linear"

    @abc.abstractmethod
    def order(self, terms: ODETerm | None) -> int | None:
        """The order of convergence; None where the formulation decides."""

    def error_order(self, terms: ODETerm | None) -> Any:
        """The order of the estimated error of a step, by which the next one is chosen."""
        return self.order(terms)

    def first_order(self, terms: ODETerm | None) -> int:
        """The order of the error of a run's first step, from which its length is chosen."""
        return self.error_order(terms)

    # whether the first state is followed back from what it was found to be (`known.py`)
    begins_again: ClassVar[bool] = False

    def first_state(self, context: StepContext, t: Array, q: Array, v: Array) -> PyTree:
        """y at the start; explicit methods need (q, v) only."""
        return q, v

    @abc.abstractmethod
    def init(self, terms: ODETerm, t0: Array, t1: Array, y0: Any, args: StepContext) -> Any:
        """What the method remembers from step to step, before a first step from t0 to t1."""

    @abc.abstractmethod
    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: PyTree,
        args: StepContext,
        solver_state: Any,
        made_jump: bool,
    ) -> Any:
        """One step from t0 to t1.

        Returns y1, its error (None without an estimate), what `interpolation` needs, what the
        method remembers, and whether the equations of the step were solved.
        """

    def refusal(self, formulation: Any) -> str:
        """Why these options do not go with a formulation whose kind is accepted; "" if they do."""
        return ""

    def statistics(self, solver_state: Any) -> dict[str, int]:
        """Counts kept in the solver state, by name."""
        return {}
