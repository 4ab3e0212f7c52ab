"""`method="auto"`: explicit with projection while that is the cheaper way, implicit where stiff.

After a number of steps that only the motion decides (so that a run can be repeated), the fastest
rates of the linearised equations are compared with the step:

- An explicit method whose steps lie at the limit of its stability is not held by accuracy. The
  implicit method is tried from there; it is kept if its steps are longer by more than they cost
  more, else the explicit one goes on and is asked less and less often.
- An implicit method whose steps are within what an explicit one could take, for less, gives way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .formulation import GGL, PostStabilized, StepContext
from .integrator import Dop853, Dopri5, VariableBDF
from .run import Outcome, Run, follow
from .storage import Storage
from .system.base import Array, System

RTOL = 1e-6  # of `method="auto"` if none is given
_TIGHT = 1e-8  # tolerances below this are for the method of order 8
_FIRST, _LONGEST = 100, 3200  # steps from one look to the next
_TRIAL = 40  # steps that an implicit method is tried for
_NEAR = 0.6  # part of the limit of stability from which on a step counts as held by it
_MARGIN = 1.2  # by which the other method has to be cheaper
_LARGEST = 400  # velocity coordinates up to which rates are found by dense algebra


@dataclass(frozen=True)
class Choice:
    """A method that was chosen: from when on [s], which, and why."""

    t: float
    method: str
    reason: str

    def __str__(self) -> str:
        return f"from t = {self.t:g} s {self.method}: {self.reason}"


@dataclass
class Auto:
    """Where the choice of the method stands."""

    explicit: tuple[Any, Any]
    implicit: tuple[Any, Any]
    stiff: bool = False
    trying: bool = False
    wait: int = _FIRST
    left: int = _FIRST  # steps until the next look
    t_looked: float = 0.0
    steps_looked: int = 0
    explicit_step: float = 0.0  # mean step of the explicit method when last seen
    failed_at: float = float("nan")
    choices: list[Choice] = field(default_factory=list)

    @property
    def pair(self) -> tuple[Any, Any]:
        """The method in use."""
        return self.implicit if self.stiff else self.explicit

    def note(self, t: float, reason: str) -> None:
        """Record the method in use from `t` on."""
        formulation, integrator = self.pair
        name = f"{formulation!r} with {type(integrator).__name__}"
        self.choices.append(Choice(t, name, reason))


def new_auto(run: Run, rtol: float) -> Auto:
    """The two methods of a run, by its tolerance and by whether constraints are redundant."""
    projected = PostStabilized("both", passes=2)
    tight = rtol < _TIGHT
    formulation = projected if run.start.redundant else GGL()
    auto = Auto((projected, Dop853() if tight else Dopri5()), (formulation, VariableBDF()))
    auto.t_looked = run.t
    auto.note(run.t, "explicit with projection until the motion proves stiff")
    return auto


@eqx.filter_jit
def _linearised(system: System, formulation: Any, t: Array, q: Array, v: Array) -> Array:
    """The matrix of the linearised motion, of increments of position and velocity."""
    context = StepContext(system, jnp.ones(()), formulation)

    def acceleration(step: Array, v: Array) -> Array:
        return formulation.accelerations(context, t, (system.retract(q, step), v))[0]

    zero = jnp.zeros_like(v)
    stiffness, damping = jax.jacfwd(acceleration, argnums=(0, 1))(zero, v)
    one = jnp.eye(v.shape[0])
    return jnp.block([[jnp.zeros_like(one), one], [stiffness, damping]])


def stable_step(rates: np.ndarray, integrator: Any) -> float:
    """The longest step with which a Runge-Kutta method damps, or keeps, all the given rates [1/s].

    Rates that grow by themselves are left out: no step makes them stable.
    """
    rates = rates[(np.abs(rates) > 0) & (np.real(rates) <= 0.1 * np.abs(rates))]
    if not rates.size:
        return float("inf")
    rates = rates[np.argsort(-np.abs(rates))][:8]  # the fastest decide
    h = np.geomspace(0.02, 20.0, 400)[:, None] / np.abs(rates)
    growing = np.abs(_growth(integrator, h * rates)) > 1.02
    first = np.where(np.any(growing, axis=0), np.argmax(growing, axis=0), len(h) - 1)
    return float(np.min(h[first, np.arange(rates.size)]))


def _growth(integrator: Any, z: np.ndarray) -> np.ndarray:
    """R(z), what a step makes of y' = z y with y = 1."""
    tableau = integrator.tableau
    stages = [np.ones_like(z)]
    for row in tableau.a_lower:
        stages.append(1 + z * sum(a * k for a, k in zip(row, stages, strict=True)))
    return 1 + z * sum(b * k for b, k in zip(tableau.b_sol, stages, strict=True))


def cost_ratio(run: Run) -> float:
    """What an implicit step costs, in explicit ones: measured for 14 to 180 unknowns."""
    rows = int(run.start.lam.shape[0])
    unknowns = 2 * int(run.v.shape[0]) + 2 * rows
    return 5 + unknowns / 9 + (unknowns / 55) ** 5


def drive(run: Run, storage: Storage | None, state: Any = None) -> Outcome:
    """Follow a run to its end with whichever method is the cheaper one."""
    auto: Auto = run.auto
    while True:
        outcome = follow(run, *auto.pair, resumed=state, storage=storage, pause=auto)
        state = outcome.state
        if outcome.kind == "failure" and outcome.code in (0, 1, 2, 3) and _other(run, auto):
            continue
        if outcome.kind != "pause":
            return outcome
        before = auto.stiff
        _look(run, auto)
        auto.t_looked, auto.steps_looked = run.t, run.steps - run.rejected
        if auto.stiff is not before:
            state = None


def _other(run: Run, auto: Auto) -> bool:
    """Whether the other method should try where one has failed; once at each place."""
    if run.t == auto.failed_at:
        return False
    auto.failed_at = run.t
    auto.stiff, auto.trying = not auto.stiff, False
    auto.left = auto.wait = _FIRST
    auto.note(run.t, "the other method could not go on")
    return True


def _look(run: Run, auto: Auto) -> None:
    """Decide with which method to go on."""
    steps = max(run.steps - run.rejected - auto.steps_looked, 1)
    mean = (run.t - auto.t_looked) / steps
    if auto.trying:
        _judge_trial(run, auto, mean)
        return
    if run.v.shape[0] > _LARGEST:
        auto.left = auto.wait = _LONGEST
        return
    formulation, integrator = auto.explicit
    t = jnp.asarray(run.t, dtype=float)
    matrix = np.asarray(_linearised(run.system, formulation, t, run.q, run.v))
    if not np.all(np.isfinite(matrix)):
        auto.left = auto.wait
        return
    limit = stable_step(np.linalg.eigvals(matrix), integrator)
    if not auto.stiff:
        if mean < _NEAR * limit:
            auto.wait = min(2 * auto.wait, _LONGEST)
            auto.left = auto.wait
            return
        auto.explicit_step = mean
        auto.stiff = auto.trying = True
        auto.left = _TRIAL
        auto.note(
            run.t,
            f"tried, since explicit steps of {mean:.2g} s lie at the limit of stability, "
            f"{limit:.2g} s",
        )
        return
    gain = limit * cost_ratio(run) / mean
    if gain < _MARGIN**2:
        auto.wait = min(2 * auto.wait, _LONGEST)
        auto.left = auto.wait
        return
    auto.stiff, auto.left = False, _FIRST
    auto.wait = _FIRST
    auto.note(
        run.t,
        f"implicit steps of {mean:.2g} s are no longer than the {limit:.2g} s that an explicit "
        f"method can take, which costs {cost_ratio(run):.2g} times less",
    )


def _judge_trial(run: Run, auto: Auto, mean: float) -> None:
    """Keep the implicit method if it gets on faster for the same cost."""
    auto.trying = False
    gain = mean / auto.explicit_step / cost_ratio(run)
    if gain > _MARGIN:
        auto.left = auto.wait = _FIRST
        auto.note(
            run.t,
            f"stays: steps of {mean:.2g} s against {auto.explicit_step:.2g} s, at "
            f"{cost_ratio(run):.2g} times the cost",
        )
        return
    auto.stiff = False
    auto.wait = min(4 * auto.wait, _LONGEST)
    auto.left = auto.wait
    auto.note(
        run.t,
        f"implicit steps of {mean:.2g} s do not make up for {cost_ratio(run):.2g} times the cost",
    )
