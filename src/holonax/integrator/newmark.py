"""The Newmark family on the equations at the end of the step, on vector spaces and rotations.

    (1 - am) w_{n+1} + am w_n = (1 - af) a_{n+1} + af a_n
    d = h v_n + h^2 ((1/2 - beta) w_n + beta w_{n+1}),   q_{n+1} = q_n ⊞ d
    v_{n+1} = v_n + h ((1 - gamma) w_n + gamma w_{n+1})

after Arnold and Brüls (2007): `a` = v' satisfies the equations of motion at every step, w is the
acceleration-like variable of the method. am = af = 0 is Newmark's method, am = 0 HHT.

w_n is the acceleration at t_n + (am - af) h to second order, so it is moved along its slope when
the step changes, and the position is in error by

    e = h^2 (beta + (am - af)/2 - 1/6) (w_{n+1} - w_n) + O(h^4)

in a step (Negrut, Rampalli, Ottarsson, Sajdak 2007, who keep beta - 1/6 and the part of HHT).
"""

from __future__ import annotations

import abc
import inspect
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax.core import Tracer

from .._arguments import unknown_argument
from .._numbers import parameter
from ..linalg import derivative
from ..problem import FullState, StepContext
from ..system.base import Array
from .implicit import ImplicitStep
from .kept import KeptFactor
from .known import KnownStart, Solution
from .newton import Linear, NewtonCounts
from .partitioned import partitioned_newmark_step
from .stage import StepEquations, scaled

if TYPE_CHECKING:
    from diffrax import ODETerm
    from jaxtyping import PyTree

    from .base import Integrator

# What is remembered of steady errors is not enlarged more than for a step of this growth.
_GROWTH = 2.0
# What accelerates less than this part of what it will after the first step stands still.
_STANDING = 1e6


def _unresolved(h: Any, v: Array, a: Array, jerk: Array) -> Array:
    """Whether the slope of the first accelerations is that of motions too fast for the step.

    What the step resolves changes its acceleration in a step by no more than that itself, or by
    what would undo the velocity. Strong damping makes a slope far larger of the rounding of
    accelerations already: EA damping / (m l) of it in a cable, and a first step along it would let
    taut elements go slack. Of what stands still the slope is all there is, and it is kept.
    """
    size = lambda x: jnp.max(jnp.abs(x), initial=0.0)  # noqa: E731
    change, most = h * size(jerk), size(a) + size(v) / h
    return (change > most) & (change < _STANDING * most)


class _Memory(NamedTuple):
    """The method's own acceleration w, slopes of it and of the algebraic variables, the step they
    belong to, the counts, and the factor that is kept from step to step, if any."""

    w: Array
    slope: Array
    z_slope: Array
    dt: Array
    counts: NewtonCounts
    kept: KeptFactor | None


class _Coefficients(NamedTuple):
    am: Any
    af: Any
    beta: Any
    gamma: Any


class _NewmarkFamily(ImplicitStep):
    """One step of the family; subclasses give the coefficients."""

    estimates_error: ClassVar[bool] = True
    begins_again: ClassVar[bool] = True
    _undamped: ClassVar[str]

    @abc.abstractmethod
    def _coefficients(self) -> _Coefficients:
        """The four numbers that make the method."""

    def order(self, terms: ODETerm | None) -> int:
        return 2

    def error_order(self, terms: ODETerm | None) -> int | None:
        return 2

    @abc.abstractmethod
    def _damps(self) -> bool | Array:
        """Whether oscillations much faster than the step die out."""

    def refusal(self, formulation: Any) -> str:
        damps = self._damps()
        if formulation.kind != "index3" or isinstance(damps, Tracer) or bool(damps):
            return ""
        return (
            f"{self._undamped} does not damp the multipliers of constraints of position level, "
            "which then gather rounding without bound"
        )

    def init(
        self, terms: ODETerm, t0: Array, t1: Array, y0: FullState, args: StepContext
    ) -> _Memory:
        # w_n is the acceleration at t_n + (am - af) h; a first order start would cost an order of
        # the multipliers.
        c, h = self._coefficients(), t1 - t0
        t = jnp.asarray(t0, dtype=float)
        known = KnownStart.of(args, t, y0.q, y0.v)
        if known is None:
            jerk = self._slope(args._replace(start=None), t, y0)
        else:
            lam = known.multipliers(args, y0.z, t, y0.q, y0.v)
            jerk = known.slope(args, t, y0.q, y0.v, y0.a, lam)
        jerk = jnp.where(_unresolved(h, y0.v, y0.a, jerk), 0.0, jerk)
        step = jnp.asarray(h, dtype=float)
        w = y0.a + (c.am - c.af) * h * jerk
        kept = self._nothing_kept(args, y0, t, step)
        return _Memory(w, jerk, jnp.zeros_like(y0.z), step, NewtonCounts.zero(), kept)

    def _equations(self, context: StepContext, h: Array) -> tuple[Array, StepEquations]:
        """How far one of a moves the position, and the linear equations of a step of length h."""
        c = self._coefficients()
        reach = c.beta * h * h * (1 - c.af) / (1 - c.am)
        return reach, StepEquations(context, reach, c.gamma / (c.beta * h), h)

    def _nothing_kept(
        self, context: StepContext, y: FullState, t: Array, h: Array
    ) -> KeptFactor | None:
        """Room for a factor, where one is kept from step to step."""
        formulation = context.formulation
        if formulation.projects_position or "Newmark" in formulation.own_steps:
            return None
        equations = self._equations(context, h)[1]
        solver, at = equations.solver, (y.q, y.v, t, y.a, y.z)
        return KeptFactor.none(
            context, solver, lambda: solver.light(equations.prepare(at, jnp.zeros_like(y.v)))
        )

    @staticmethod
    def _slope(context: StepContext, t: Array, y: FullState) -> Array:
        """That of the accelerations along the motion."""
        acceleration = lambda q, v, t: context.formulation.accelerations(context, t, (q, v))[0]  # noqa: E731
        along = (context.system.qdot(y.q, y.v), y.a, jnp.ones_like(t))
        return derivative(acceleration, (y.q, y.v, t), along)

    @staticmethod
    def _normal(context: StepContext, t: Array, y: FullState) -> PyTree:
        """What prepares increments normal to constraints of position level, for unequal steps.

        With constraints of that level alone the velocity has an error of O(h^2) normal to them,
        steady as long as h is. A step of another size meets it as an error O(h^2) / h of its
        multipliers and accelerations.
        """
        if context.tolerance is None or context.formulation.kind != "index3":
            return None
        return context.system.factor(y.q, t)

    def _error(
        self,
        context: StepContext,
        y0: FullState,
        y1: FullState,
        w0: Array,
        w1: Array,
        normal: Any = None,
    ) -> Array | None:
        """The error of a step in units of the tolerance; None for equal steps.

        The error e of the position is O(h^3), that of a run O(h^2): what is held below the
        tolerance is e and the false velocity e / h, an error per distance travelled. Where gamma
        makes the method one of first order, the false acceleration is held as well; it is O(h),
        and its square has the order of the rest. It is measured by the largest acceleration: the
        rounding of one that passes zero grows as the step shrinks.
        """
        if context.tolerance is None:
            return None
        c, h = self._coefficients(), context.dt
        change = w1 - w0
        if normal is not None:  # positions are held there: what w does in these directions is noise
            change = change - normal.correct(normal.apply(change))
        e = h * h * (c.beta + (c.am - c.af) / 2 - 1 / 6) * change
        size = context.tolerance.size(context.system, y0, y1, (e, e / h))
        rtol, atol = context.tolerance.rtol, context.tolerance.absolute.velocity
        first = (c.gamma + c.am - c.af - 0.5) * change
        first = first / (atol + rtol * jnp.max(jnp.maximum(jnp.abs(w0), jnp.abs(w1))))
        return jnp.maximum(size, jnp.mean(first**2))

    def statistics(self, solver_state: Any) -> dict[str, int]:
        return solver_state.counts.statistics()

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: FullState,
        args: StepContext,
        solver_state: _Memory,
        made_jump: bool,
    ) -> Any:
        h = t1 - t0
        system, formulation = args.system, args.formulation
        c, past = self._coefficients(), solver_state
        w0 = past.w + (c.am - c.af) * (h - past.dt) * past.slope
        v0, normal = y0.v, self._normal(args, t0, y0)
        projected, follows = formulation.projects_position, formulation.velocity_follows
        if normal is not None:
            ratio = jnp.minimum(h / past.dt, _GROWTH)
            rate = system.constraint_rate(y0.q, v0, t0)
            v0 = v0 - normal.correct((1 - ratio**2) * rate)

        def moved(a: Array) -> tuple[Array, Array, Array]:
            w = ((1 - c.af) * a + c.af * y0.a - c.am * w0) / (1 - c.am)
            d = h * v0 + h * h * ((0.5 - c.beta) * w0 + c.beta * w)
            return w, d, v0 + h * ((1 - c.gamma) * w0 + c.gamma * w)

        reach, equations = self._equations(args, h)
        still = moved(jnp.zeros_like(y0.a))[1]

        def state(x: PyTree) -> PyTree:
            """(q, d, w, v, u, a, z) for given unknowns: the last is z; before it a, or where the
            position is projected the rate of its increment, or if that does not say a, both."""
            first, z = x[0], x[-1]
            if not projected:
                w, d, v = moved(first)
                return system.retract(y0.q, d), d, w, v, v, first, z
            d = h * first
            q = system.retract(y0.q, d)
            if not follows:
                w, whole, v = moved(x[1])
                return q, d, w, v, v - (whole - d) / h, x[1], z
            # the velocity that moves the position is shifted, and the increment by h times that
            shift = formulation.velocity(args, t1, q, jnp.zeros_like(y0.v), z)
            a = (d + h * shift - still) / reach
            w, _, v = moved(a)
            return q, d, w, v, v - shift, a, z

        def residual(x: PyTree) -> PyTree:
            q, _, _, v, u, a, z = state(x)
            values = formulation.residual(args, t1, q, v, u, a, z)
            algebraic = values[2] / formulation.algebraic_scale(args)
            return (*values[:2], algebraic) if len(x) == 3 else (values[1], algebraic)

        unit = h if projected else reach

        def prepare(x: PyTree) -> Any:
            q, d, _, v, _, a, z = state(x)
            return equations.prepare((q, v, t1, a, z), d)

        def solve(factor: Any, value: Any, *, checked: bool = True) -> Any:
            d, z, fine = equations.solve(factor, value, y0, checked=checked)
            return (d / unit, z), fine

        ahead, z = y0.a + h * past.slope, y0.z + h * past.z_slope
        solver: Any = equations.solver
        linear = scaling = None
        if projected and not follows:
            start = moved(ahead)[1] / h, ahead, z
        else:
            start = (moved(ahead)[1] / h if projected else ahead), z
            if solver is not None:
                tangent = equations.tangent(solve)
                linear = Linear(prepare, solve, True, tangent, solver.dear, solver.light)
            scaling = scaled(args, unit, reach)
        kept = None if past.kept is None else past.kept.at(h)
        x, solved, counts, condition, factor = self._newton(
            residual, start, args, scaling, linear, y0.q, kept
        )
        if kept is not None:
            assert solver is not None
            kept = kept.after(h, solver.price, (factor, counts), solved)
        q, _, w, v, _, a, z = state(x)
        q = system.normalize(q)
        y1 = FullState(q, v, a, z, condition)
        error = self._error(args, y0, y1, w0, w, normal)
        memory = _Memory(w, (w - w0) / h, (z - y0.z) / h, h, past.counts + counts, kept)
        return y1, error, {"y0": y0, "y1": y1, "solution": Solution(x, solved)}, memory, solved


def _within(name: str, what: str, value: Any, low: float, high: float) -> Array:
    wanted = f"a number between {low:g} and {high:g}"
    return parameter(name, what, value, good=lambda x: low <= x <= high, wanted=wanted)


class Newmark(_NewmarkFamily):
    """Newmark's method; beta = 1/4, gamma = 1/2 is the trapezoidal rule, order 2.

    Any gamma above 1/2 damps and is of order 1. With `CoordinatePartitioning` the unknowns are the
    independent accelerations alone (Haug, Negrut, Iancu 1997).
    """

    reference: ClassVar[str] = "Newmark 1959"
    _undamped: ClassVar[str] = "gamma of 1/2 or less"

    beta: Array
    gamma: Array

    def __init__(self, beta: float = 0.25, gamma: float = 0.5, **options: Any):
        self.beta = _within("Newmark", "beta", beta, 1e-12, 1.0)
        self.gamma = _within("Newmark", "gamma", gamma, 0.0, 2.0)
        _set_options(self, options)

    def order(self, terms: ODETerm | None) -> int:
        return 2 if isinstance(self.gamma, Tracer) or float(self.gamma) == 0.5 else 1

    def _damps(self) -> bool | Array:
        return self.gamma > 0.5

    def _coefficients(self) -> _Coefficients:
        return _Coefficients(0.0, 0.0, self.beta, self.gamma)

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: FullState,
        args: StepContext,
        solver_state: _Memory,
        made_jump: bool,
    ) -> Any:
        if "Newmark" not in args.formulation.own_steps:
            return super().step(terms, t0, t1, y0, args, solver_state, made_jump)
        y1, solved, counts = partitioned_newmark_step(self, args, t1, y0)
        error = self._error(args, y0, y1, y0.a, y1.a)
        memory = solver_state._replace(w=y1.a, counts=solver_state.counts + counts)
        return y1, error, {"y0": y0, "y1": y1}, memory, solved


class HHT(_NewmarkFamily):
    """Hilber, Hughes and Taylor's method with alpha in [-1/3, 0], order 2."""

    reference: ClassVar[str] = "Hilber, Hughes, Taylor 1977; Arnold, Brüls 2007"
    _undamped: ClassVar[str] = "alpha = 0"

    alpha: Array

    def __init__(self, alpha: float = -0.1, **options: Any):
        self.alpha = _within("HHT", "alpha", alpha, -1 / 3, 0.0)
        _set_options(self, options)

    def _damps(self) -> bool | Array:
        return self.alpha < 0

    def _coefficients(self) -> _Coefficients:
        alpha = self.alpha
        return _Coefficients(0.0, -alpha, (1 - alpha) ** 2 / 4, 0.5 - alpha)


class GeneralizedAlpha(_NewmarkFamily):
    """Chung and Hulbert's method with spectral radius rho_inf in [0, 1] at high frequencies."""

    reference: ClassVar[str] = "Chung, Hulbert 1993; Arnold, Brüls 2007"
    _undamped: ClassVar[str] = "rho_inf = 1"

    rho_inf: Array

    def __init__(self, rho_inf: float = 0.8, **options: Any):
        self.rho_inf = _within("GeneralizedAlpha", "rho_inf", rho_inf, 0.0, 1.0)
        _set_options(self, options)

    def _damps(self) -> bool | Array:
        return self.rho_inf < 1

    def _coefficients(self) -> _Coefficients:
        rho = self.rho_inf
        am, af = (2 * rho - 1) / (rho + 1), rho / (rho + 1)
        gamma = 0.5 + af - am
        return _Coefficients(am, af, 0.25 * (gamma + 0.5) ** 2, gamma)


def _set_options(integrator: Integrator, options: dict[str, Any]) -> None:
    """The keyword options of `ImplicitStep`, for classes with an `__init__` of their own."""
    defaults = {"tolerance": 1e-10, "max_iterations": 12, "modified": False}
    unknown = sorted(set(options) - set(defaults))
    if unknown:
        own = list(inspect.signature(type(integrator)).parameters)[:-1]
        raise TypeError(unknown_argument(type(integrator).__name__, unknown[0], [*own, *defaults]))
    for name, default in defaults.items():
        setattr(integrator, name, options.get(name, default))
