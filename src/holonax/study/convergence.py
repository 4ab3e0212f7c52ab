"""Orders of convergence, and the conditioning of Newton's matrix, measured on any system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import checked_call
from .._messages import shown
from .._numbers import array, count
from ..analysis.checks import as_start
from ..formulation import Formulation, Index3, PostStabilized
from ..integrator import Dop853
from ..result.result import Result
from ..run.simulate import simulate
from ..start.consistent import Start
from ..system import System

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..integrator.base import Integrator

QUANTITIES = ("q", "v", "lam", "position_drift", "velocity_drift", "energy")


@dataclass(frozen=True)
class Convergence:
    """Errors of each quantity at each step size, and the observed orders between them.

    `errors[name]` has one entry for each of `dt`; `orders[name]` one fewer, the logarithm of the
    ratio of neighbouring errors by that of the steps. `q`, `v` and `lam` are errors at the end
    of the run, drifts the largest on the way, `energy` the largest imbalance.
    """

    dt: np.ndarray
    errors: dict[str, np.ndarray]
    orders: dict[str, np.ndarray]

    def __str__(self) -> str:
        lines = ["dt [s]        " + "".join(f"{name:>18}" for name in self.errors)]
        for k, dt in enumerate(self.dt):
            row = f"{dt:<14.4g}"
            for name, errors in self.errors.items():
                order = f" ({self.orders[name][k - 1]:.2f})" if k else ""
                row += f"{errors[k]:.2e}{order}".rjust(18)
            lines.append(row)
        return "\n".join(lines)


@checked_call
def reference_solution(
    system: System, start: Start, t_end: float, dt: float, save: object = "end"
) -> Result:
    """A run of order 8 with projection, for others to be compared with."""
    method = PostStabilized("both", passes=2)
    return simulate(system, start, t_end, dt=dt, formulation=method, integrator=Dop853(), save=save)


@checked_call
def convergence(
    system: System,
    start: Start,
    t_end: float,
    dt: Sequence[float] | np.ndarray,
    *,
    formulation: Formulation,
    integrator: Integrator | None = None,
    reference: Result | None = None,
) -> Convergence:
    """Observed orders of q, v, multipliers, drift and energy of a pair on `system`.

    **Arguments:**

    - `dt`: step sizes [s], largest first; each should divide the run.
    - `reference`: a result whose last state is taken as exact; by default one of order 8 with a
      quarter of the smallest step. Multipliers are compared at the time they belong to.
    """
    steps = np.sort(_step_sizes("convergence", dt))[::-1]
    if steps.size < 2:
        raise ValueError("convergence: give at least two step sizes in dt.")
    if reference is None:
        reference = reference_solution(system, start, t_end, float(steps[-1]) / 4)
    collected: dict[str, list[float]] = {name: [] for name in QUANTITIES}
    for h in steps:
        run = simulate(
            system, start, t_end, dt=float(h), formulation=formulation, integrator=integrator
        )
        if not run.success:
            raise ValueError(f"convergence: the run with dt={h:g} s failed: {run.message}")
        lam = _reference_multipliers(system, start, run, reference, float(steps[-1]) / 4)
        position, velocity = run.drift()
        collected["q"].append(_largest(run.q[-1] - reference.q[-1]))
        collected["v"].append(_largest(run.v[-1] - reference.v[-1]))
        collected["lam"].append(_largest(run.lam[-1] - lam))
        collected["position_drift"].append(_largest(position))
        collected["velocity_drift"].append(_largest(velocity))
        collected["energy"].append(_largest(run.energy.balance))
    errors = {name: np.array(values) for name, values in collected.items()}
    ratios = np.log(steps[:-1] / steps[1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        orders = {name: np.log(e[:-1] / e[1:]) / ratios for name, e in errors.items()}
    return Convergence(steps, errors, orders)


def _step_sizes(owner: str, dt: ArrayLike) -> np.ndarray:
    steps = array(owner, "dt", dt, (None,))
    if np.any(steps <= 0):
        raise ValueError(f"{owner}: dt={shown(dt)} must be positive. Give step sizes [s].")
    return steps


def _largest(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), initial=0.0))


def _reference_multipliers(
    system: System, start: Start, run: Result, reference: Result, dt: float
) -> np.ndarray:
    """Exact multipliers at the time those of the run belong to."""
    at = float(run.t_lam[-1])
    if at == reference.t[-1]:
        return reference.lam[-1]
    return reference_solution(system, start, at, dt).lam[-1]


@checked_call
def condition_numbers(
    system: System,
    start: Start,
    dt: Sequence[float] | np.ndarray,
    *,
    formulation: Formulation,
    integrator: Any = None,
    steps: int = 3,
) -> np.ndarray:
    """Condition number of Newton's matrix after a few steps of each size in `dt`.

    `formulation` must be asked for it: ``Index3(..., condition=True)``.
    """
    if not isinstance(formulation, Index3) or not formulation.condition:
        raise ValueError(
            f"condition_numbers: {shown(formulation)} does not compute them. Use "
            "hx.Index3(condition=True)."
        )
    out = []
    start = as_start("condition_numbers", system, start)
    steps = count("condition_numbers", "steps", steps)
    for h in _step_sizes("condition_numbers", dt):
        run = simulate(
            system,
            start,
            start.t + steps * float(h),
            dt=float(h),
            formulation=formulation,
            integrator=integrator,
            save="end",
        )
        out.append(run.condition[-1] if run.success else np.nan)
    return np.array(out)
