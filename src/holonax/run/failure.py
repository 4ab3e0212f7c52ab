"""Why a run stopped in the middle: status, the objects involved by name, and what to do.

The loop only knows that a step could not be taken. Here the last good state, and the place the
step was heading for, are looked at: forces and constraints that are not finite, constraints that
become dependent, constraints that are violated, bodies that move without bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._messages import listed
from ..start.diagnosis import DENSE_LIMIT, picked
from ..system.base import System
from ..system.evaluation import Evaluation, evaluated
from ..system.held import HeldSystem
from ..system.places import translations
from ..system.reaction_forces import unsolved
from .auto import linearised
from .jumps import jumps_between
from .status import Failure

if TYPE_CHECKING:
    from ..integrator.base import Integrator
    from ..result.states import Leg
    from ..start.consistent import Start

# A constraint whose unit row is this close to a combination of the others is about to depend on
# them: accelerations there are uncertain by rounding over its square.
_NEARLY_DEPENDENT = 1e-3
_UNSTABLE = 2.0  # steps times rate of the fastest motion up to which explicit methods are stable
_BROKEN = 0.02  # of the mechanism's size, or of a radian, by which no method leaves a constraint
_SMALLEST = 1e-10  # the size of an atom [m]: no mechanism is smaller
_VIOLATED = 1e-3  # [m or rad], far beyond what a method leaves of a constraint


# The status of a run whose step failed for no reason that can be found, and what may help.
_SHORTER = "Try a smaller dt, or rtol so that steps are chosen by their error"
_ADVICE = {
    Failure.TOO_SMALL: (
        "step too small",
        "Look for a force that jumps or has no bound near this time (make it an event), raise "
        "rtol, or use an implicit method if the system is stiff",
    ),
    Failure.NOT_CONVERGED: ("not converged", _SHORTER),
    Failure.LOST_BRANCH: ("lost branch", _SHORTER),
    Failure.JUMPED: ("constraint jump", _SHORTER),
    Failure.BLOWN_UP: (
        "blow-up",
        "Try a smaller dt, an implicit method, or a formulation that holds the constraints",
    ),
    Failure.NOT_FINITE: (
        "non-finite",
        "Try a smaller dt, or look for an overflow in a user function near this time",
    ),
}
_EVENT_ADVICE = {
    Failure.EVENT_SPOILT: "Look at what the event changes",
    Failure.EVENT_ENDLESS: (
        "Make it a contact, change=hx.Impact(...), let it end the run (terminal=True), or engage a "
        "joint that holds from then on"
    ),
    Failure.EVENT_NOT_FINITE: (
        "Look at it for a division by zero, a root or logarithm of a negative number"
    ),
    Failure.EVENT_WRONG_SIDE: (
        "Start on the open side (falling: function above zero), look at what other events change, "
        "or use a change of your own instead of hx.Impact for what may be passed"
    ),
    Failure.EVENT_JAMMED: "Let a driver not press into it, or put a spring between",
}


class Reason(NamedTuple):
    """The status, the cause with the objects involved, and advice."""

    status: str
    cause: str
    advice: str


def _looked_at(system: System, q: np.ndarray, v: np.ndarray, t: Any) -> Evaluation:
    return evaluated(system, t, q, v, dense=np.shape(v)[0] <= DENSE_LIMIT)


def explain(
    system: System,
    start: Start,
    t: float,
    q: np.ndarray,
    v: np.ndarray,
    step: float,
    code: int,
    integrator: Integrator | None = None,
) -> Reason:
    """What stopped a run at the last good state (t, q, v), in the attempt of a `step` [s].

    `code` is the number of the `Failure`.
    """
    failure = Failure(code)
    for time, ahead in ((t, None), (t + step, step * v)):
        found = _not_finite(system, q, v, time, ahead)
        if found is not None:
            return found
    if failure in (Failure.TOO_SMALL, Failure.LOST_BRANCH, Failure.JUMPED):
        found = _jumping(system, q, t, step, failure)
        if found is not None:
            return found
    if v.shape[0] <= DENSE_LIMIT:
        found = _dependent(system, start, q, v, t)
        if found is not None:
            return found
    grown = failure in (Failure.NOT_FINITE, Failure.BLOWN_UP)
    far = grown or failure is Failure.LOST_BRANCH
    if far and _is_explicit(integrator) and v.shape[0] <= DENSE_LIMIT:
        found = _stiff(system, start, step, integrator)
        if found is not None:
            return found
    found = _violated(system, q, v, t)
    if found is not None and grown:
        return found
    status, advice = _ADVICE[failure]
    return Reason(status, f"{failure.sentence}; {_fastest(system, v)}", advice)


def explain_event(code: int, number: float) -> tuple[str, str]:
    """What an event did that ended a run, and advice."""
    failure = Failure(code)
    by = f", by {number:.3g}" if failure is Failure.EVENT_WRONG_SIDE else ""
    return failure.sentence + by, _EVENT_ADVICE[failure]


def _not_finite(system: System, q: Any, v: Any, t: float, ahead: Any) -> Reason | None:
    """A force or constraint that has no value here, or an increment of position ahead."""
    here = evaluated(system, t, q, v, step=ahead, dense=np.shape(v)[0] <= DENSE_LIMIT)
    values = here.g, here.rate, here.gamma, here.force
    if system.has_reaction_forces:
        values = (*values, here.a)
    if all(np.all(np.isfinite(x)) for x in values):
        return None
    forces = system.non_finite_forces(here.q, v, t)
    turned = [x for x in forces if x.startswith("beam ")]
    if turned:
        return Reason(
            "non-finite",
            f"{listed(turned, 4)} turns by more than an element may, near half a turn",
            "Give the beam more elements",
        )
    if forces:
        return Reason(
            "non-finite",
            f"{listed(forces, 4)} is not finite (NaN or infinity) near this time",
            "Look at its function for a division by zero, a root or logarithm of a negative number",
        )
    names = system.constraint_names(here.rate.shape[0])
    for what, values in (
        ("value", here.g),
        ("rate", here.rate),
        ("second derivative", here.gamma),
    ):
        bad = ~np.isfinite(values)
        if np.any(bad):
            return Reason(
                "non-finite",
                f"the {what} of constraint {listed(picked(names[: bad.size], bad))} is not finite "
                "near this time",
                "Look at its function, or at the target of its driver",
            )
    if not np.all(np.isfinite(here.force)):
        bodies = picked(system.velocity_names(v.shape[0]), ~np.isfinite(here.force))
        return Reason(
            "non-finite",
            f"the forces on {listed(bodies, 4)} are not finite near this time",
            "Look at the functions of the forces that act there",
        )
    return Reason("singular", *unsolved(system))


def _independence(
    system: System, q: np.ndarray, v: np.ndarray, t: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Left singular vectors and all singular values, falling, of the unit constraint rows."""
    jacobian = _looked_at(system, q, v, t).jacobian
    size = np.linalg.norm(jacobian, axis=1, keepdims=True)
    left, values, _ = np.linalg.svd(jacobian / np.where(size > 0, size, 1.0))
    return left, np.pad(values, (0, jacobian.shape[0] - values.size))


def _dependent(system: System, start: Any, q: Any, v: Any, t: Any) -> Reason | None:
    """Constraints that are about to lose their independence."""
    left, full = _independence(system, q, v, t)
    rows = full.size
    if not rows:
        return None
    first = _independence(system, start.q, start.v, start.t)[1]
    few = int(np.sum(first >= 1e-9))
    usual = first[few - 1] if few else 0.0
    small = (full < _NEARLY_DEPENDENT * full[0]) | (full < 0.05 * usual)
    small[few:] = False  # dependent everywhere
    if not np.any(small):
        return None
    weight = np.max(np.abs(left[:, small]), axis=1)
    joints = picked(system.constraint_names(rows), weight > 0.3 * weight.max())
    return Reason(
        "singular",
        f"the constraints of {listed(joints, 6)} become dependent (the smallest singular value of "
        f"their unit rows is {full[small].min():.1e}, at the start it was {usual:.1e}): a singular "
        "configuration, where accelerations and reactions are not determined and branches of the "
        "motion meet",
        "Start elsewhere, drive the mechanism through it, or take equal steps that do not end in "
        "it",
    )


def _violated(system: System, q: Any, v: Any, t: Any) -> Reason | None:
    """The constraint that is violated most, if beyond what a method leaves of it."""
    g = _looked_at(system, q, v, t).g
    if not g.size or np.max(np.abs(g)) < _VIOLATED:
        return None
    worst = int(np.argmax(np.abs(g)))
    name = system.constraint_names(g.size)[worst]
    return Reason(
        "constraint blow-up",
        f"the solution blew up: the constraint of {name} was off by {abs(g[worst]):.2g} before it",
        "Use a formulation that holds the constraints, such as PostStabilized(), or a smaller dt",
    )


def _is_explicit(integrator: Any) -> bool:
    """Whether a method only follows motions that its steps resolve."""
    takes = getattr(type(integrator), "accepts", ())
    return "ode" in takes and not {"dae", "index3"} & set(takes)


def _stiff(system: System, start: Any, step: float, integrator: Any) -> Reason | None:
    """A motion that is too fast for an explicit method with this step: a stiff spring or damper.

    Looked for at the start: where a solution has grown without bound everything is fast.
    """
    matrix = linearised(system, start.t, np.asarray(start.q), np.asarray(start.v))
    if not np.all(np.isfinite(matrix)):
        return None
    rates, shapes = np.linalg.eig(matrix)
    rates = np.where(np.real(rates) <= 0.1 * np.abs(rates), np.abs(rates), 0.0)
    k = int(np.argmax(rates))
    if rates[k] * step < _UNSTABLE:
        return None
    n = start.v.shape[0]
    size = np.abs(shapes[n:, k])
    moving = picked(system.velocity_names(n), size > 0.3 * size.max())
    return Reason(
        "stiff",
        f"{type(integrator).__name__}, an explicit method, could not follow: the system is stiff, "
        f"its fastest motion ({listed(moving, 4)}) has a rate of {rates[k]:.2g} 1/s, as of a hard "
        f"spring or damper, so that explicit steps have to stay below {_UNSTABLE / rates[k]:.1g} s",
        "Use an implicit method, such as hx.RadauIIA(), or method='auto', or a dt below that",
    )


def _jumping(system: System, q: Any, t: float, step: float, failure: Failure) -> Reason | None:
    """The constraint that jumps between the last good state and the end of the step."""
    times = np.array([np.nextafter(t, -np.inf), t + step])
    jumped, kinked = jumps_between(system, times, q)
    if not jumped.any() and failure is Failure.TOO_SMALL:
        return None
    kind, found = ("position", jumped) if jumped.any() else ("velocity", kinked)
    if not found.any():
        return None
    still = np.zeros((2, system.velocity_size(int(np.size(q)))))
    here = evaluated(system, times, np.tile(q, (2, 1)), still)
    first, last = here.g if kind == "position" else here.rate
    worst = int(np.argmax(np.where(found[: first.size], np.abs(last - first), 0.0)))
    name = system.constraint_names(found.size)[worst]
    where = f"Give breaks=[{times[1]:g}] if that is the time, where the change is taken up as an "
    advice = "Give a motion without jumps, such as hx.Table(..., kind='cubic'), or take shorter "
    advice += "steps if it has none"
    if kind == "velocity":
        advice = f"{where}impulse, or a smooth motion, such as hx.Table(..., kind='cubic')"
    return Reason(
        "constraint jump",
        f"the {kind} that {name} asks for changes by {abs(last[worst] - first[worst]):.3g}, which "
        "its rate does not explain: it jumps, or is over within one step",
        advice,
    )


def _fastest(system: System, v: Any) -> str:
    """The velocity that is largest, by name."""
    speeds = np.abs(np.asarray(v))
    k = int(np.argmax(speeds))
    return f"the fastest coordinate is {system.velocity_names(speeds.size)[k]} at {speeds[k]:.3g}/s"


def broken(system: System, leg: Leg, t: float, q: np.ndarray, v: np.ndarray) -> str:
    """The joint that a run has left, if there is one where it ended; "" if all hold.

    Methods leave of a constraint what their order and step allow. What moves bodies by more than
    some part of the mechanism's size to mend is no such rest: a constraint that jumps, or a method
    that has drifted away. Penalties are as soft as they were made.
    """
    if not leg.formulation.drift_orders(leg.integrator)[0]:
        return ""
    if isinstance(system, HeldSystem):
        system = system.base
    here = evaluated(system, t, q, v)
    g = np.abs(here.g)
    if not np.max(g, initial=0.0) > _BROKEN * _SMALLEST:
        return ""
    sizes = system.typical_sizes(np.asarray(q))
    usual = 1.0 if sizes is None else float(np.min(sizes))
    if not np.max(g, initial=0.0) > _BROKEN * min(usual, 1.0):
        return ""
    worst = int(np.argmax(g))
    moved = g[worst] / usual
    if here.jacobian is not None:
        step = np.linalg.lstsq(here.jacobian[: g.size], here.g, rcond=None)[0]
        moved = float(np.max(np.abs(step) / (1.0 if sizes is None else sizes), initial=0.0))
    if not moved > _BROKEN:
        return ""
    name = system.constraint_names(here.rate.shape[0])[worst]
    return (
        f"but {name!r} does not hold there: it is off by {g[worst]:.3g}, which no step of the "
        "method explains. Take shorter steps or a method that projects (PostStabilized), and look "
        "for a jump in what the constraint is given"
    )


def torn(
    legs: tuple[Leg, ...], leg: np.ndarray, t: np.ndarray, q: np.ndarray, v: np.ndarray
) -> str:
    """Where a coordinate has moved within one step by what its velocity does not explain; "" if
    none has. `t`, `q`, `v` are the states after all steps, and `leg` says to which of `legs` each
    belongs.

    A method that projects follows a constraint that jumps with the configuration, and what it
    arrives at satisfies every equation but q' = v. Steps are allowed to be long: what a body does
    in a step may differ from its mean velocity by all that its velocities amount to.
    """
    if not all(x.formulation.drift_orders(x.integrator)[0] for x in legs):
        return ""  # penalties are as soft as they were made
    system = legs[0].system
    system = system.base if isinstance(system, HeldSystem) else system
    places = translations(system)
    if not places and q.shape[1] != v.shape[1]:
        return ""  # rates of coordinates that are no velocities
    at = np.concatenate(places) if places else np.arange(v.shape[1])
    x, rate, h = q[:, at], v[:, at], np.diff(t)[:, None]
    if t.size < 3 or not at.size:
        return ""
    sizes = system.typical_sizes(q[0])
    usual = np.ones(at.size) if sizes is None else np.asarray(sizes)[at]
    change = np.abs(np.diff(x, axis=0) - 0.5 * h * (rate[1:] + rate[:-1]))
    speed = np.maximum(np.abs(rate[1:]), np.abs(rate[:-1]))
    around = speed.copy()  # of the steps before and after as well
    np.maximum(around[1:], speed[:-1], out=around[1:])
    np.maximum(around[:-1], speed[1:], out=around[:-1])
    reach = h * np.max(around, axis=1, keepdims=True)
    found = (h > 0) & (change > reach + _BROKEN * usual)
    if np.any(found):
        k = int(np.argmax(np.any(found, axis=1)))
        i = int(np.argmax(change[k] / usual))
        why = "which its velocity does not explain"
    else:
        # one whose velocities follow from displacements has arrived there by a velocity that the
        # constraint does not allow
        shaken = np.where(h > 0, h * np.abs(np.diff(rate, axis=0)), 0.0) / usual
        k, i = np.unravel_index(int(np.argmax(shaken)), shaken.shape)
        if not shaken[k, i] > _BROKEN:
            return ""
        here = evaluated(legs[leg[k + 1]].system, t[k + 1], q[k + 1], v[k + 1])
        off = float(h[k, 0]) * np.max(np.abs(here.rate), initial=0.0)
        if not off > _BROKEN * float(np.max(usual)):
            return ""
        why = "by a velocity that the constraints do not allow"
    name = system.coordinate_names(q.shape[1])[at[i]]
    return (
        f"but between t = {t[k]:.6g} s and {t[k + 1]:.6g} s {name} has moved by "
        f"{x[k + 1, i] - x[k, i]:.3g}, {why}: a constraint jumps there. Look for a branch in what "
        "the constraint is computed from, or take shorter steps"
    )
