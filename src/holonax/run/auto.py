"""`method="auto"`: explicit with projection while that is the cheaper way, implicit where stiff.

The run is looked at after numbers of steps that only the motion decides, so that it can be
repeated to the bit; wall clocks have no say. Work is counted in explicit steps.

- From the explicit method to the implicit one. States of the motion as far apart as implicit steps
  would have to be tell how long those could be: the errors of the formulas of orders 1 to 5 are
  differences of states, whoever has computed them. If steps so long save more than they cost, with
  a start from order 1 and the compilation of a second program, and if the explicit steps lie at
  the limit of stability for the rates of the linearised motion, the implicit method is tried. It
  stays if its steps prove long enough. Else the trial is taken back: the explicit method goes on
  from the state before it, to the bit as if there had been none.
- From the implicit method to the explicit one, where its steps are within what an explicit one
  could take, for less.

A limit of stability belongs to an instant, and steps vary: the median of the limits at the
beginning, in the middle and at the end of some steps is compared with the mean of these steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..formulation import GGL, PostStabilized
from ..integrator import Dop853, Dopri5, VariableBDF
from ..integrator.variable_bdf import HIGHEST
from ..system.base import System
from ..system.evaluation import evaluated
from .driver import Outcome, Run, follow, leave, mark, stop_at, take_back
from .status import Failure
from .storage import Storage

if TYPE_CHECKING:
    from ..integrator.base import Integrator
    from ..start.consistent import Start

RTOL = 1e-6  # of `method="auto"` if none is given
_TIGHT = 1e-8  # tolerances below this are for the method of order 8
_FIRST, _RARER = 50, 3  # steps until the first look, and how much rarer looks become in vain
_LONGEST = 25600, 1600  # explicit and implicit steps from one look to the next, at most
_GLANCE = 4  # samples after which a look may be given up
_APART = 10  # implicit steps between states that are looked at
_TRIAL, _JUDGED = 40, 10  # steps of a trial, and how many of them, the last, say how long they are
_HELD = (0.6, 1.5)  # steps held by stability, in units of its limit
_MARGIN = 1.2  # by which the other method has to be cheaper
_DENSE = 100  # velocity coordinates up to which all rates are found, by dense algebra
_FASTEST, _KRYLOV = 8, 40  # of more, the fastest are, in a space of so many directions
# What a change to the implicit method costs beside its steps. It starts with order 1 and tiny
# steps: it was seen to lose about this many of them.
_STARTING = 20
# And its program is compiled. That takes as long as some hundred thousand explicit steps of small
# mechanisms; but it is done once, for all runs of mechanisms with the same joints, and kept on
# disk. A run is charged with the share of one in fifty or so: less than that is done in a tenth of
# a second anyway.
_COMPILING = 5000
_INCREMENT = 1e-7  # of positions and velocities in difference quotients, relative

# Failures that another method may not meet.
_UNSUITED = (
    Failure.TOO_SMALL,
    Failure.NOT_FINITE,
    Failure.BLOWN_UP,
    Failure.NOT_CONVERGED,
)


@dataclass(frozen=True)
class Choice:
    """A method that was chosen: from when on [s], which, and why."""

    t: float
    method: str
    reason: str

    def __str__(self) -> str:
        return f"from t = {self.t:g} s {self.method}: {self.reason}"


class Sample(NamedTuple):
    """A state that the motion has passed, when (in ticks), and after how many steps."""

    t: float
    steps: int
    q: np.ndarray
    v: np.ndarray


@dataclass
class Auto:
    """Where the choice of the method stands.

    `samples` are states of the present look, for the explicit method all of the smooth stretch
    that began at `since`. With `due` the other method is to have its turn, for this `reason`;
    `step` is the explicit one that a trial is compared with.
    """

    explicit: tuple[Any, Any]
    implicit: tuple[Any, Any]
    stiff: bool = False
    wait: int = _FIRST
    left: int = _FIRST  # steps until the next look
    t_looked: float = 0.0
    steps_looked: int = 0
    samples: list[Sample] = field(default_factory=list)
    since: float = 0.0
    step: float = 0.0
    reason: str = ""
    due: bool = False
    failed_at: float = float("nan")
    trial_steps: int = 0  # of trials that were taken back
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

    def change(self, run: Run, stiff: bool) -> None:
        """Go on with a method from where the run is."""
        self.stiff = stiff
        self.wait = self.left = _FIRST
        self.t_looked, self.steps_looked = run.ticks, run.steps - run.rejected
        self.samples.clear()
        self.due = False

    def later(self, times: int = _RARER) -> None:
        """Nothing to be done now; the next look comes so many times later."""
        self.wait = self.left = min(times * self.wait, _LONGEST[self.stiff])
        self.samples.clear()
        self.due = False


def new_auto(run: Run, rtol: float) -> Auto:
    """The two methods of a run, by its tolerance and by whether constraints are redundant."""
    projected = PostStabilized("both", passes=2)
    tight = rtol < _TIGHT
    formulation = projected if run.start.redundant else GGL()
    auto = Auto((projected, Dop853() if tight else Dopri5()), (formulation, VariableBDF()))
    auto.t_looked = run.ticks
    auto.note(run.t, "explicit with projection until the motion proves stiff")
    return auto


def linearised(system: System, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The matrix of the linearised motion, of increments of position and velocity.

    Difference quotients of the accelerations, by the program that has found those of the start:
    exact to about a millionth, and rates to be compared with steps need no more.
    """
    n = v.size
    size = np.abs(q) if q.size == n else np.zeros(n)  # increments of bodies are metres and radians
    length, speed = (_INCREMENT * np.maximum(1.0, x) for x in (size, np.abs(v)))
    still = np.zeros((n + 1, n))
    steps = np.concatenate([still[:1], np.diag(length), still[1:]])
    velocities = v + np.concatenate([still, np.diag(speed)])
    a = evaluated(system, t, np.tile(q, (2 * n + 1, 1)), velocities, step=steps).a
    stiffness = (a[1 : n + 1] - a[0]) / length[:, None]
    damping = (a[n + 1 :] - a[0]) / speed[:, None]
    one = np.eye(n)
    return np.block([[np.zeros_like(one), one], [stiffness.T, damping.T]])


def fastest_rates(system: System, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The rates of the linearised motion [1/s], of large systems the fastest of them; not a number
    where the motion has none.

    Those come from Arnoldi's method: each direction costs two evaluations of the accelerations, so
    that the work is proportional to the size of the system.
    """
    if v.size <= _DENSE:
        matrix = linearised(system, t, q, v)
        return np.linalg.eigvals(matrix) if np.all(np.isfinite(matrix)) else np.array([np.nan])
    n, here = v.size, evaluated(system, t, q, v).a
    basis, H = np.zeros((_KRYLOV + 1, 2 * n)), np.zeros((_KRYLOV + 1, _KRYLOV))
    first = np.random.default_rng(0).normal(size=2 * n)
    basis[0] = first / np.linalg.norm(first)
    for k in range(_KRYLOV):
        moved, sped = basis[k][:n], basis[k][n:]
        size = _INCREMENT / max(np.max(np.abs(basis[k])), 1e-300)
        a = evaluated(system, t, q, v + size * sped, step=size * moved).a
        image = np.concatenate([sped, (a - here) / size])
        if not np.all(np.isfinite(image)):
            return np.array([np.nan])
        for _ in range(2):  # once is not enough where directions are nearly parallel
            along = basis[: k + 1] @ image
            H[: k + 1, k] += along
            image = image - along @ basis[: k + 1]
        H[k + 1, k] = np.linalg.norm(image)
        if H[k + 1, k] <= 1e-9 * np.linalg.norm(H[: k + 1, k]):
            return np.linalg.eigvals(H[: k + 1, : k + 1])
        basis[k + 1] = image / H[k + 1, k]
    rates = np.linalg.eigvals(H[:_KRYLOV])
    return rates[np.argsort(-np.abs(rates))][:_FASTEST]


def stable_step(rates: np.ndarray, integrator: Integrator) -> float:
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


def cost_ratio(system: System, start: Start) -> float:
    """What an implicit step costs, in explicit ones, by how its equations are solved.

    Measured per step at rtol = 1e-6: 2.0 for the slider-crank (14 unknowns), 3.0 and 3.8 for chains
    of 3 and 10 bodies on bushings (36 and 120); 10.5 for a clamped beam of 8 elements (120), whose
    bodies are blocks of twice the size; 16 and 33 for nets of 10 x 10 and 20 x 20 masses on
    springs, whose elimination makes 39 and 108 products of blocks for each mass. Both methods are
    linear in the size of large systems, but for nets and for a dense matrix.
    """
    unknowns = 2 * start.v.size + 2 * start.lam.size
    solver = system.step_solver("both")
    if solver is None:
        return 8 + unknowns / 2
    own = min(2 + unknowns / 32, 4.0) * (2.5 if solver.doubled else 1.0)
    return own * (1 + 0.07 * (solver.products - 1))


def step_errors(samples: list[Sample], tolerance: Any) -> list[float]:
    """The errors of an implicit step to the last sample from those before it, in units of the
    tolerance, by velocities: of the formulas of orders 1, 2, ... as far as there are samples.

    For the order m - 1 it is the divided difference of the new state and m before it, times the
    step and the distances to all but the last of these, as in `VariableBDF`.
    """
    newest = samples[::-1]
    times = np.array([sample.t for sample in newest])
    scale = tolerance.absolute.velocity + tolerance.rtol * np.abs(newest[0].v)
    column = [sample.v / scale for sample in newest]
    reach, errors = (times[0] - times[1]) ** 2, []
    for m in range(1, len(newest)):
        # divided differences of m + 1 states each, the newest ones first
        column = [(a - b) / (times[i] - times[i + m]) for i, (a, b) in enumerate(pairwise(column))]
        if m > 1:
            errors.append(float(np.sqrt(np.mean((reach * column[0]) ** 2))))
            reach *= times[0] - times[m]
    return errors


def implicit_step(samples: list[Sample], tolerance: Any) -> float:
    """How long steps of the implicit method could be, judged by samples of the motion.

    Errors of the order m are taken to grow as h^(m + 1), up to ten times the step between samples.
    """
    errors = enumerate(step_errors(samples, tolerance), start=1)
    longer = [0.9 * max(error, 1e-10) ** (-1 / (m + 1)) for m, error in errors]
    return (samples[-1].t - samples[-2].t) * min(max(longer), 10.0)


def drive(run: Run, storage: Storage | None, state: Any = None) -> Outcome:
    """Follow a run to its end with whichever method is the cheaper one."""
    auto: Auto = run.auto
    while True:
        # a run that is resumed may have been written just before a look
        if not auto.due and (state is None or auto.left > 0):
            outcome = follow(run, *auto.pair, resumed=state, storage=storage, pause=auto)
            state = outcome.state
            if outcome.kind == "failure" and outcome.code in _UNSUITED and _other(run, auto):
                continue
            if outcome.kind != "pause":
                return outcome
        if not auto.due:
            _look(run, auto)
        if auto.due and auto.stiff:
            leave(run, *auto.implicit, state)
            auto.change(run, stiff=False)
            auto.note(run.t, auto.reason)
            state = None
        elif auto.due:
            outcome = _trial(run, auto, state, storage)
            if outcome.kind != "pause":
                return outcome
            state = outcome.state


def _other(run: Run, auto: Auto) -> bool:
    """Whether the other method should try where one has failed; once at each place."""
    if run.t == auto.failed_at:
        return False
    auto.failed_at = run.t
    auto.change(run, not auto.stiff)
    auto.note(run.t, "the other method could not go on")
    return True


def _look(run: Run, auto: Auto) -> None:
    """Find out whether the other method should have its turn, now or after more samples."""
    steps, t = run.steps - run.rejected, run.ticks
    pace = (t - auto.t_looked) / max(steps - auto.steps_looked, 1)
    auto.t_looked, auto.steps_looked = t, steps
    ratio = cost_ratio(run.system, run.start)
    least = _MARGIN * (_COMPILING + _STARTING * ratio)  # whatever the implicit steps are
    worth = auto.stiff or (run.request.t_end - run.t) / pace > least
    if not auto.samples:
        auto.since = run.since
    apart = not auto.stiff and run.since != auto.since  # an event has come between
    if not worth or apart:
        auto.later()
        return
    auto.samples.append(Sample(t, steps, np.asarray(run.q), np.asarray(run.v)))
    count = len(auto.samples)
    if count == (3 if auto.stiff else HIGHEST + 2):
        decide = _past_stiffness if auto.stiff else _held_by_stability
        auto.due = decide(run, auto, ratio)
        if not auto.due:
            auto.later()
    elif count == _GLANCE and not _smooth(run, auto):
        auto.later()
    else:
        auto.left = _APART if auto.stiff else math.ceil(ratio)


def _smooth(run: Run, auto: Auto) -> bool:
    """Whether a higher order would help at all over the distances between samples."""
    first, second = step_errors(auto.samples, run.request.tolerance)
    return first < 1 or second < 0.5 * first


def _mean_step(auto: Auto) -> float:
    """The mean step of the present look."""
    first, last = auto.samples[0], auto.samples[-1]
    return (last.t - first.t) / (last.steps - first.steps)


def _stability(run: Run, auto: Auto) -> float:
    """What stability allowed the explicit method for a step in the present look."""
    samples = auto.samples
    limits = []
    for t, _, q, v in (samples[0], samples[len(samples) // 2], samples[-1]):
        rates = fastest_rates(run.system, run.request.clock.time(t), q, v)
        if not np.all(np.isfinite(rates)):
            return float("nan")
        limits.append(stable_step(rates, auto.explicit[1]))
    return float(np.median(limits))


def _held_by_stability(run: Run, auto: Auto, ratio: float) -> bool:
    """Whether the explicit method is held by stability, and the implicit one promises to be cheaper
    from here to the end of the run."""
    to_go = run.request.t_end - run.t
    step, promised = _mean_step(auto), implicit_step(auto.samples, run.request.tolerance)
    work = _COMPILING + ratio * (_STARTING + to_go / promised)
    if to_go / step < _MARGIN * work:
        return False
    limit = _stability(run, auto)
    if not _HELD[0] * limit <= step <= _HELD[1] * limit:
        return False
    auto.step = step
    auto.reason = (
        f"tried, since explicit steps of {step:.2g} s lie at the limit of stability, {limit:.2g} "
        f"s, where the motion promises implicit ones of {promised:.2g} s"
    )
    return True


def _past_stiffness(run: Run, auto: Auto, ratio: float) -> bool:
    """Whether an explicit method could get on as well, for less."""
    step, limit = _mean_step(auto), _stability(run, auto)
    if not limit * ratio / step > _MARGIN**2:
        return False
    auto.reason = (
        f"implicit steps of {step:.2g} s are no longer than the {limit:.2g} s that an explicit "
        f"method can take, which costs {ratio:.2g} times less"
    )
    return True


class _Count:
    """Steps left until a pause."""

    def __init__(self, left: int):
        self.left = left


def _trial(run: Run, auto: Auto, state: Any, storage: Storage | None) -> Outcome:
    """Go on from `state` with the implicit method, and take that back where it does not pay.

    Nothing is written to files meanwhile. A run that is interrupted in a trial stops before it.
    """
    before, count = mark(run), _Count(_TRIAL - _JUDGED)
    run.reported = math.inf  # progress is told of what stays
    leave(run, *auto.explicit, state)
    outcome = follow(run, *auto.implicit, pause=count)
    t, steps = run.ticks, run.steps - run.rejected
    if outcome.kind == "pause":
        count.left = _JUDGED
        outcome = follow(run, *auto.implicit, resumed=outcome.state, pause=count)
    if outcome.kind == "interrupt":
        take_back(run, before)
        return stop_at(run, *auto.explicit, state, storage)
    auto.stiff = True
    auto.note(before.t, auto.reason)
    if outcome.kind in ("end", "event", "rest"):
        return outcome
    found = "fails"
    if outcome.kind == "pause":
        mean = (run.ticks - t) / (run.steps - run.rejected - steps)
        ratio = cost_ratio(run.system, run.start)
        if mean > _MARGIN * ratio * auto.step:
            run.reported = before.reported
            auto.change(run, stiff=True)
            reason = f"steps of {mean:.2g} s against {auto.step:.2g} s, at {ratio:.2g} times"
            auto.note(run.t, f"stays: {reason} the cost")
            return outcome
        found = f"has steps of {mean:.2g} s, which do not make up for {ratio:.2g} times the cost"
    auto.trial_steps += run.steps - before.steps
    take_back(run, before)
    auto.stiff = False
    auto.later(times=_RARER**2)
    auto.note(run.t, f"the implicit method {found}; its steps are taken back")
    return Outcome("pause", run.t, state=state)
