"""A run as a pure function, for `jax.jit`, `vmap`, `grad` and `jvp`.

The steps are those of `simulate`. The derivative is that of the computed solution (a discrete
adjoint): the states of all steps are kept, and on the way back each step is done again and its
linear equations are solved transposed. Steps chosen by their error are held as they were chosen.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._arguments import checked_call
from .._messages import shown
from .._numbers import is_traced
from .._parts import Parts
from ..compiler import native
from ..formulation import Formulation, PostStabilized
from ..integrator import Dopri5
from ..problem import StepContext
from ..start.consistent import Start
from ..system.base import System, check_system
from .control import StepControl
from .loop import Loop, LoopState, Settings, Setup, begun
from .pairs import (
    check_pair,
    check_reaction_forces,
    check_undetermined,
    check_varying_mass,
    default_integrator,
    is_legal,
)
from .reversible import Adjoint, TracedProgress, carried
from .traced_request import (
    checked_start,
    checked_steps,
    increasing_times,
    most_steps,
    smooth_piece,
    step_numbers,
    usual_tolerance,
    with_breaks,
)

if TYPE_CHECKING:
    from ..integrator.base import Integrator


class Trajectory(NamedTuple):
    """What a traced run returns: `q` (n, nq), `v` (n, nv) and the multipliers `lam` (n, rows) at
    the times `t` (n,), whether it came to its end, and the number of steps tried.

    States after a failure are NaN.
    """

    t: Array
    q: Array
    v: Array
    lam: Array
    ok: Array
    steps: Array


@checked_call
def trajectory(
    system: System,
    start: Start | tuple[Any, Any],
    times: Any,
    *,
    dt: Any = None,
    rtol: Any = None,
    atol: Any = None,
    formulation: Formulation | None = None,
    integrator: Any = None,
    breaks: Any = (),
    max_steps: int | None = None,
    adjoint: Adjoint = "reverse",
) -> Trajectory:
    """The motion of `system` from `start` at `times` [s], the first of which is that of the start.

    Pure: parameters of the system, the start, the times, the step and options of the methods that
    are numbers may be traced. The methods and their steps are those of `simulate`.

    **Arguments:**

    - `start`: from `consistent` or `model.build()`, or a pair (q, v). It is moved onto the
      constraints by the shortest way, so that a derivative with respect to a length is that of a
      mechanism that fits together.
    - `times`: increasing, hit exactly.
    - `dt`: the longest of equal steps [s]; or `rtol`, `atol` for steps chosen by their error.
      Without `atol` it is that of `simulate`, which follows from the size of the mechanism; where
      the system or the start are traced, that is not known, and it is `rtol` / 100 in SI units.
    - `breaks`: times [s] at which forces or drivers are not smooth, beside those that signals know
      of. As in `simulate` they are hit exactly, and the method begins anew there. Not where `times`
      are traced.
    - `max_steps`: the most steps there is room for; needed where `times` or `dt` are traced, 4096
      where steps are chosen by their error. A run that needs more has `ok=False`.
    - `adjoint`: ``"reverse"`` for `grad` and `vjp`, ``"forward"`` for `jvp` and `jacfwd`.

    ```python
    def height(mass):
        return hx.trajectory(system.with_parameters(m=mass), start, [0.0, 1.0], dt=1e-3).q[-1, 1]

    jax.grad(height)(1.5)
    ```
    """
    check_system("trajectory", system)
    start = checked_start("trajectory", system, start)
    dt, rtol, atol = checked_steps(dt, rtol, atol)
    if isinstance(start, Start) and start.redundant:
        check_undetermined("trajectory", system, start)
        system = system.with_redundant_constraints()
    setup = _setup(system, formulation, integrator, dt, rtol, adjoint)
    knots, passed = with_breaks(system, increasing_times(times), breaks)
    room = most_steps(max_steps, knots, dt, rtol)
    q, v = (start.q, start.v) if isinstance(start, Start) else start
    if rtol is not None and atol is None:
        atol = usual_tolerance(system, start, knots, rtol)
    numbers = {k: x for k, x in (("dt", dt), ("rtol", rtol), ("atol", atol)) if x is not None}
    given = q, v, knots, {**numbers, **passed}
    if is_traced(*jax.tree.leaves((setup, given))):
        return TracedRun(setup, room, adjoint).motion(*given)
    if max_steps is None:  # so that other times seldom need another program
        room = 1 << max(room - 1, 1).bit_length()
    parts = Parts.of(setup)
    arrays = jax.tree.map(np.asarray, (parts.arrays, *given))
    return _on_host(parts.rest, room, adjoint)(*arrays)


def run_of(
    system: System,
    knots: Any,
    numbers: dict[str, Any],
    *,
    formulation: Formulation | None = None,
    integrator: Integrator | None = None,
    max_steps: int | None = None,
    adjoint: Adjoint = "reverse",
) -> TracedRun:
    """A run inside of another traced function, where the host has found `knots` and `numbers`: dt,
    or rtol and atol, and what `with_breaks` returns."""
    dt, rtol = numbers.get("dt"), numbers.get("rtol")
    setup = _setup(system, formulation, integrator, dt, rtol, adjoint)
    return TracedRun(setup, most_steps(max_steps, knots, dt, rtol), adjoint)


def _setup(
    system: System,
    formulation: Formulation | None,
    integrator: Any,
    dt: Any,
    rtol: Any,
    adjoint: Any,
) -> Setup:
    if not isinstance(adjoint, str) or adjoint not in ("reverse", "forward"):
        raise ValueError(
            f'trajectory: adjoint={shown(adjoint)} is not known. Use "reverse" for grad and vjp, '
            '"forward" for jvp and jacfwd.'
        )
    formulation, integrator = _pair(formulation, integrator, dt, rtol)
    check_reaction_forces("trajectory", system, formulation, integrator)
    check_varying_mass("trajectory", system, integrator)
    control = None if rtol is None else StepControl(dt_max=np.inf)
    return Setup(system, formulation, integrator, control, ())


@lru_cache(maxsize=64)
def _on_host(rest: Hashable, room: int, adjoint: Adjoint) -> Any:
    """The run compiled for the host, where nothing is traced."""

    def motion(arrays: Any, *given: Any) -> Trajectory:
        return TracedRun(Parts.joined(arrays, rest), room, adjoint).motion(*given)

    return native(motion)


class TracedRun(NamedTuple):
    """A run that is traced: its method, the most steps, and how it is differentiated.

    `knots` are the times that steps hit, and `numbers` those of the steps; see `run_of`.
    """

    setup: Setup
    room: int
    adjoint: Adjoint

    def motion(self, q: Array, v: Array, knots: Array, numbers: dict[str, Array]) -> Trajectory:
        """All of it."""
        return self.from_first(self.first(q, v, knots, numbers), knots, numbers)

    def first(
        self,
        q: Array,
        v: Array,
        knots: Array,
        numbers: dict[str, Array],
        known: Any = None,
        *,
        fitted: bool = False,
    ) -> LoopState:
        """The first state of the method; see `begun` for `known`. A start that is `fitted` is taken
        as it is."""
        knots, q, v = jnp.asarray(knots), jnp.asarray(q), jnp.asarray(v)
        if not fitted:
            q, v = _fitted(self.setup.system, knots[0], q, v)
        loop = Loop(self.setup, _settings(knots, numbers, v.shape[0]), differentiable=True)
        return begun(loop, self.setup, knots[0], q, v, known)

    def from_first(
        self, first: LoopState, knots: Array, numbers: dict[str, Array], multipliers: bool = True
    ) -> Trajectory:
        """The motion from the first state on; without the `multipliers`, these are zero."""
        given, start = self.loop(first, knots, numbers)
        end = carried(given, start, self.room, self.adjoint)
        return self.reached(end, knots, numbers, multipliers)

    def loop(self, first: LoopState, knots: Array, numbers: dict[str, Array]) -> tuple[Any, Any]:
        """What the time loop is given, and how it begins; see `carried`."""
        knots = jnp.asarray(knots)
        settings = _settings(knots, numbers, first.y[1].shape[0])
        start = TracedProgress(
            *(first, _room(first.y, len(knots)), jnp.asarray(1), jnp.asarray(0)), jnp.asarray(True)
        )
        return (self.setup, settings, numbers.get("breaks")), start

    def reached(
        self, end: TracedProgress, knots: Array, numbers: dict[str, Array], multipliers: bool
    ) -> Trajectory:
        """The motion, from how far the loop has come."""
        system, formulation, integrator = self.setup[:3]
        knots, wanted = jnp.asarray(knots), numbers.get("wanted")
        good = (end.filled >= knots.shape[0]) & end.good
        if wanted is not None:
            knots, rows = knots[wanted], jax.tree.map(lambda x: x[wanted], end.rows)
            end = end._replace(rows=rows)
        q, v = end.rows[0], end.rows[1]
        if multipliers:
            lam = _multipliers(system, formulation, integrator, knots, end.rows)
        else:
            lam = jnp.zeros((len(knots), self.constraint_rows(end.loop, knots)))
        return Trajectory(knots, q, v, lam, good, end.tried)

    def constraint_rows(self, first: LoopState, knots: Any) -> int:
        """How many rows the constraints have."""
        system = self.setup.system
        return jax.eval_shape(lambda: system.jacobian(first.y[0], knots[0])).shape[0]


def _settings(knots: Array, numbers: dict[str, Array], size: int) -> Settings:
    dt, rtol, atol = (numbers.get(name) for name in ("dt", "rtol", "atol"))
    window = smooth_piece(numbers.get("breaks"), knots[0])
    return Settings(knots, *step_numbers(dt, rtol, atol, size), None, window)


def _room(y: tuple[Array, Array], count: int) -> tuple[Array, Array]:
    """For the states at all times, with the first one."""
    return jax.tree.map(lambda x: jnp.full((count, *x.shape), jnp.nan).at[0].set(x), y)


def _pair(
    formulation: Formulation | None, given: Any, dt: Array, rtol: Any
) -> tuple[Formulation, Any]:
    """The methods, chosen as `simulate` does where they are not given."""
    if (dt is None) == (rtol is None):
        raise ValueError(
            "trajectory: give dt [s] for equal steps, or rtol for steps chosen by their error."
        )
    formulation = PostStabilized("both", passes=2) if formulation is None else formulation
    integrator = given
    if given is None and isinstance(formulation, Formulation):
        explicit = rtol is not None and is_legal(formulation, Dopri5())
        integrator = Dopri5() if explicit else default_integrator(formulation)
    check_pair(formulation, integrator)
    method: Any = type(integrator)
    name = method.__name__
    if rtol is None and method.needs_tolerance:
        raise ValueError(f"trajectory: {name} chooses its steps by their error. Give rtol.")
    if rtol is not None and not method.estimates_error:
        raise ValueError(
            f"trajectory: {name} has no error estimate for rtol. Give dt, or use hx.Dopri5()."
        )
    return formulation, integrator


PASSES = 4  # corrections that a start is given


@jax.jit  # so that it is traced once, for the start and for its derivative
def _fitted(system: System, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
    """The start on the constraints, by the shortest way.

    The derivative of one correction is exact where the constraints hold already.
    """
    map = PostStabilized("both", passes=PASSES, freeze="none")
    return map.after_step(StepContext(system, jnp.ones(())), t, (q, v))


def corrected(system: System, t: Array, q: Array, v: Array) -> tuple[Array, Array]:
    """One of the corrections of `_fitted`."""
    return PostStabilized("both").after_step(StepContext(system, jnp.ones(())), t, (q, v))


def _multipliers(
    system: System,
    formulation: Formulation,
    integrator: Integrator,
    knots: Array,
    rows: tuple[Array, Array],
) -> Array:
    """Those of the states at the times."""
    q, v = rows[0], rows[1]
    if len(rows) > 2 and not integrator.multiplier_lag:
        count = jax.eval_shape(lambda: system.jacobian(q[0], knots[0])).shape[0]
        lam = formulation.multipliers(rows[3].T, count)
        if lam is not None:
            return lam.T
    context = StepContext(system, jnp.ones(()), formulation)
    multipliers = lambda t, q, v: formulation.accelerations(context, t, (q, v))[1]  # noqa: E731
    return jax.vmap(multipliers)(knots, q, v)
