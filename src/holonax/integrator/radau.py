"""Radau IIA: collocation at the right Radau points, on the residual of any formulation.

    d_i = h sum_j A_ij k_j,    v_i = v_n + h sum_j A_ij a_j,    i = 1 ... s

Newton's matrix is taken at one state of the step, so that the stages come apart: with the
eigenvectors of A^-1 = V diag(gamma) V^-1 the s equations are those of one stage each, as in
`stage.py`, with p = h / gamma: one real one for odd s, and one for each pair of complex gamma
(Hairer, Wanner 1996, Section IV.8). The equations themselves are those of all stages, so nothing
but the speed of the iteration depends on that matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._numbers import count
from ..linalg import Pair, in_pairs, jacobian, lu, lu_solve
from ..problem import FullState, StepContext
from ..system.base import Array
from .implicit import ImplicitStep, error_by_index
from .known import Solution
from .newton import Linear, NewtonCounts, Scaling, newton_step
from .stage import Stage, StepEquations

if TYPE_CHECKING:
    from diffrax import ODETerm
    from jaxtyping import PyTree

# The tolerance at which the one that Radau's error estimate is held below is the one asked for.
_LOOSE = 1e-3
# What is remembered of a step is not followed further than this many of its lengths.
_FURTHEST = 3.0


def radau_nodes(stages: int) -> np.ndarray:
    """Right Radau points on (0, 1]: zeros of d^(s-1)/dx^(s-1) [x^(s-1) (x-1)^s]."""
    p = np.polynomial.Polynomial([0, 1]) ** (stages - 1)
    p = p * np.polynomial.Polynomial([-1, 1]) ** stages
    roots = np.sort(p.deriv(stages - 1).roots().real) if stages > 1 else np.array([1.0])
    roots[-1] = 1.0
    return roots


def collocation(c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Runge-Kutta matrix of the collocation method with nodes `c`."""
    s = len(c)
    A = np.empty((s, s))
    for j in range(s):
        basis = np.polynomial.Polynomial([1.0])
        for other in np.delete(c, j):
            basis = basis * np.polynomial.Polynomial([-other, 1.0])
        primitive = (basis / basis(c[j])).integ()
        A[:, j] = primitive(c) - primitive(0.0)
    return A, c


def embedded(A: np.ndarray, c: np.ndarray) -> tuple[float, np.ndarray]:
    """(gamma_0, weights of the stages' rates) of the comparison of a collocation method.

    It is y^ = y_0 + h (gamma_0 f_0 + sum b^_i f_i), with b^ such that f_0 and the stages integrate
    polynomials of degree s - 1; the weights are b^ - b. gamma_0 is the inverse of the size of an
    eigenvalue of A^-1, of the real one where there is one.
    """
    s = len(c)
    values = np.linalg.eigvals(np.linalg.inv(A))
    gamma = 1 / np.abs(values[np.argmin(np.abs(values.imag))])
    powers = np.vander(c, s, increasing=True).T
    moments = 1 / np.arange(1.0, s + 1)
    moments[0] -= gamma
    return float(gamma), np.linalg.solve(powers, moments) - A[-1]


class _Memory(NamedTuple):
    """The velocities that moved the position at the stages of the last step, the algebraic
    variables there, the step's length, whether there was one, and the counts."""

    u: Array
    z: Array
    dt: Array
    known: Array
    counts: NewtonCounts


class _Component(NamedTuple):
    """One of the equations that the stages come apart into: p = h / gamma, the row of V^-1 that
    makes its right-hand side and the column of V that takes its solution back."""

    gamma: complex
    left: np.ndarray
    right: np.ndarray

    @property
    def is_real(self) -> bool:
        """Whether it stands for itself, or for itself and its conjugate."""
        return self.gamma.imag == 0


def components(A: np.ndarray) -> list[_Component]:
    """Those of the method with this matrix."""
    gammas, V = np.linalg.eig(np.linalg.inv(A))
    back = np.linalg.inv(V)
    out = []
    for i, gamma in enumerate(gammas):
        if abs(gamma.imag) < 1e-12 * abs(gamma):
            # a real eigenvector may have been given any phase
            out.append(_Component(complex(gamma.real), *_real(back[i], V[:, i])))
        elif gamma.imag > 0:
            out.append(_Component(complex(gamma), back[i], V[:, i]))
    return out


def _real(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    phase = right[np.argmax(np.abs(right))]
    return np.real(left * phase), np.real(right / phase)


class RadauIIA(ImplicitStep):
    """Radau IIA with 1, 2 or 3 stages: order 1, 3, 5 for ordinary differential equations.

    For steps chosen by their error, the method is compared with one of the order of its number of
    stages s, by one Newton step on implicit Euler's equations, so that stiff components do not
    swell the estimate (Hairer, Wanner 1996, Section IV.8). The estimate is O(h^(s+1)) and the
    error of a run O(h^(2s-1)): it is held below a power of the tolerance that makes the second
    proportional to the tolerance asked for.

    Newton's matrix is that of one state in the step, and is kept as long as changes shrink well.
    """

    reference: ClassVar[str] = "Hairer, Wanner 1996, Sections IV.5 and IV.8"
    estimates_error: ClassVar[bool] = True

    stages: int = eqx.field(static=True, default=3)

    def __check_init__(self) -> None:
        count("RadauIIA", "stages", self.stages, most=3)

    def order(self, terms: ODETerm | None) -> int:
        return 2 * self.stages - 1

    @property
    def stage_order(self) -> int:
        """The order of the stages, which is that of multipliers of higher index."""
        return self.stages

    def error_order(self, terms: ODETerm | None) -> int | None:
        return self.stages + 1

    def _tableau(self) -> tuple[np.ndarray, np.ndarray]:
        return collocation(radau_nodes(self.stages))

    def init(
        self, terms: ODETerm, t0: Array, t1: Array, y0: FullState, args: StepContext
    ) -> _Memory:
        past = lambda x: jnp.tile(x, (self.stages, 1))  # noqa: E731
        step = jnp.asarray(t1 - t0, dtype=float)
        return _Memory(past(y0.v), past(y0.z), step, jnp.asarray(False), NewtonCounts.zero())

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
        h, past = t1 - t0, solver_state
        equations = _Stages(args, t0, h, y0, *self._tableau())
        start = equations.start(*self._guess(past, y0, h))
        x, solved, counts, condition = self._solve(
            equations.residual, start, args, equations.scaling, equations.linear, y0.q
        )
        q, _, u, v, a, z = equations.states(x)
        y1 = FullState(args.system.normalize(q[-1]), v[-1], a[-1], z[-1], condition)
        error = None if args.tolerance is None else self._error(equations, x, y1)
        memory = _Memory(u, z, h, jnp.asarray(True), past.counts + counts)
        return y1, error, {"y0": y0, "y1": y1, "solution": Solution(x, solved)}, memory, solved

    def _guess(self, past: _Memory, y0: FullState, h: Array) -> tuple[Array, Array, Array]:
        """Rates and algebraic variables at the stages, from the polynomials of the last step."""
        _, c = self._tableau()
        s, ratio = len(c), jnp.minimum(h / past.dt, _FURTHEST)
        rows = []
        for i in range(s):
            x = 1 + c[i] * ratio
            others = [[c[m] for m in range(s) if m != j] for j in range(s)]
            rows.append(
                jnp.stack(
                    [
                        math.prod(((x - m) / (c[j] - m) for m in others[j]), start=jnp.ones(()))
                        for j in range(s)
                    ]
                )
            )
        reach = jnp.stack(rows)
        still = lambda x: jnp.tile(x, (s, 1))  # noqa: E731
        ahead = lambda x: sum(reach[:, j, None] * x[j] for j in range(s))  # noqa: E731
        k = jnp.where(past.known, ahead(past.u), still(y0.v))
        z = jnp.where(past.known, ahead(past.z), still(y0.z))
        return k, still(y0.a), z

    def _error(self, equations: _Stages, x: PyTree, y1: FullState) -> Array:
        context, y0, h = equations.context, equations.y0, equations.h
        gamma, weights = embedded(equations.A, equations.c)
        _, _, _, _, a, _ = equations.states(x)
        step = lambda r: h * sum(w * r[j] for j, w in enumerate(weights))  # noqa: E731
        error = equations.euler_change(x, step(x[0]), y0.v + step(a), gamma * h)
        s = self.stages
        loose = _LOOSE * (context.tolerance.rtol / _LOOSE) ** ((s + 1) / (2 * s - 1))
        tolerance = context.tolerance.loosened(loose)
        context = context._replace(tolerance=tolerance)
        return error_by_index(context, equations.t0 + h, y0, y1, error)


class _Stages(NamedTuple):
    """The equations of all stages of a step of length h from (t0, y0)."""

    context: StepContext
    t0: Array
    h: Array
    y0: FullState
    A: np.ndarray
    c: np.ndarray

    @property
    def explicit(self) -> bool:
        """Whether the velocities follow from k and z."""
        return self.context.formulation.velocity_follows

    def start(self, k: Array, a: Array, z: Array) -> Any:
        """The unknowns for a guess."""
        return (k, z) if self.explicit else (k, a, z)

    def _mixed(self, matrix: np.ndarray, rows: Array) -> Array:
        """A matrix over the stages times the rows of stages."""
        s = len(matrix)
        return jnp.stack([sum(matrix[i, j] * rows[j] for j in range(s)) for i in range(s)])

    def _each(self, function: Callable[..., PyTree], *rows: Array) -> tuple[Array, ...]:
        """A function at all stages."""
        if len(self.c) > 1:
            if self.context.formulation.kind == "ode":  # whose equations are long, for they solve
                return jax.lax.map(lambda row: function(*row), rows)
            return jax.vmap(function)(*rows)
        one = function(*(x[0] for x in rows))
        return jax.tree.map(lambda x: x[None], one)

    @property
    def times(self) -> Array:
        """Those of the stages."""
        return self.t0 + jnp.asarray(self.c) * self.h

    def states(self, x: PyTree) -> tuple[Array, Array, Array, Array, Array, Array]:
        """(q, d, u, v, a, z) of the stages for given unknowns."""
        system, formulation, h = self.context.system, self.context.formulation, self.h
        k, z = x[0], x[-1]
        d = h * self._mixed(self.A, k)
        if not self.explicit:
            v = self.y0.v + h * self._mixed(self.A, x[1])
            move = lambda d, k: (system.retract(self.y0.q, d), system.increment_rate(d, k))  # noqa: E731
            q, u = self._each(move, d, k)
            return q, d, u, v, x[1], z

        def at(t: Array, d: Array, k: Array, z: Array) -> Any:
            q = system.retract(self.y0.q, d)
            u = system.increment_rate(d, k)
            return q, u, formulation.velocity(self.context, t, q, u, z)

        q, u, v = self._each(at, self.times, d, k, z)
        a = self._mixed(np.linalg.inv(self.A), v - self.y0.v) / h
        return q, d, u, v, a, z

    def residual(self, x: PyTree) -> PyTree:
        """The equations of all stages."""
        q, _, u, v, a, z = self.states(x)
        return self._each(self._equations, self.times, q, v, u, a, z)

    def _equations(
        self, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array]:
        formulation = self.context.formulation
        values = formulation.residual(self.context, t, q, v, u, a, z)
        algebraic = values[2] / formulation.algebraic_scale(self.context)
        return (values[1], algebraic) if self.explicit else (*values[:2], algebraic)

    @property
    def scaling(self) -> Scaling | None:
        """How unknowns are measured."""
        h = self.h
        scaling = self.context.formulation.newton_scaling(self.context, h * h)
        if scaling is None:
            return None
        rows, columns, augment, condition = scaling
        if self.explicit:
            rows, columns = rows[1:], (columns[1] * h, columns[2])
        return Scaling(rows, columns, augment, condition)

    @property
    def _dependent(self) -> bool:
        """Whether the multipliers are not determined, so that the whole matrix is needed."""
        context = self.context
        return context.formulation.kind != "ode" and context.system.has_redundant_constraints

    @property
    def linear(self) -> Linear | None:
        """How Newton's equations are solved; None where one dense matrix was asked for."""
        scaling = self.scaling
        if (scaling is not None and scaling.condition) or self._dependent:
            return None
        believed = lambda factors, value: (self.change(factors, value), True)  # noqa: E731
        return Linear(self.factor, believed, exact=False)

    # -- one matrix for all stages ---------------------------------------------------------

    def _reference(self, x: PyTree) -> tuple[Array, ...]:
        """(t, q, d, v, a, k, z) where the matrix is taken: at the middle one of the stages."""
        i = len(self.c) // 2
        q, d, _, v, a, z = self.states(x)
        return self.times[i], q[i], d[i], v[i], a[i], x[0][i], z[i]

    def _one(self, p: Array) -> StepEquations:
        return StepEquations(self.context, p * p, 1 / p, p)

    @property
    def _structured(self) -> bool:
        return self.explicit and self._one(self.h).solver is not None

    def _prepared(self, at: tuple[Array, ...]) -> PyTree:
        """The factor for a given p, at a reference state; its derivatives are found once."""
        t, q, d, v, a, k, z = at
        slopes = self._one(self.h).slopes((q, v, t, a, z), d, k)
        return lambda p: self._one(p).factor(slopes, d, k)

    def _solved(self, factor: Any, p: Any, *value: Any) -> tuple[Array, Array]:
        """Changes of the increment and of z."""
        return self._one(p).solve(factor, value, self.y0, checked=False)[:2]

    def factor(self, x: PyTree) -> Any:
        """The factors of all components at the reference state, and what they are made of."""
        at = self._reference(x)
        found = []
        prepare = self._prepared(at) if self._structured else self._slopes(at).factor
        for part in components(self.A):
            p = self._p(part)
            found.append((prepare if part.is_real else in_pairs(prepare))(p))
        return found

    def _p(self, part: _Component) -> PyTree:
        p = 1 / part.gamma
        return p.real * self.h if part.is_real else Pair(p.real * self.h, p.imag * self.h)

    def change(self, factors: Any, value: Any) -> Any:
        """The change of the unknowns that takes `value` away."""
        total: Any = None
        for part, factor in zip(components(self.A), factors, strict=True):
            p = self._p(part)
            solve = self._solved if self._structured else _Slopes.solve
            sides = [self._combined(part, rows) for rows in value]
            found = (solve if part.is_real else in_pairs(solve))(factor, p, *sides)
            found = [self._apart(part, x) for x in found]
            total = found if total is None else [x + y for x, y in zip(total, found, strict=True)]
        inverse = np.linalg.inv(self.A)
        k = self._mixed(inverse, total[0]) / self.h
        if self.explicit:
            return k, total[1]
        return k, self._mixed(inverse, total[1]) / self.h, total[2]

    def _combined(self, part: _Component, rows: Array) -> PyTree:
        sums = lambda w: sum(w[i] * rows[i] for i in range(len(w)))  # noqa: E731
        if part.is_real:
            return sums(part.left)
        return Pair(sums(np.real(part.left)), sums(np.imag(part.left)))

    def _apart(self, part: _Component, x: PyTree) -> Array:
        """What a component adds to the stages."""
        if part.is_real:
            return jnp.stack([w * x for w in part.right])
        return jnp.stack([2 * (w.real * x.re - w.imag * x.im) for w in part.right])

    # -- formulations whose equations are known as functions only --------------------------

    def _slopes(self, at: Any) -> _Slopes:
        """The derivatives of the equations of one stage to d, k, v (where it does not follow), a
        and z."""
        t, _, d0, v0, a0, k0, z0 = at
        system, formulation = self.context.system, self.context.formulation
        n = d0.shape[0]
        sizes = [n, n, n, *([] if self.explicit else [n]), z0.shape[0]]
        cuts = np.cumsum(sizes)[:-1]

        def stage(x: PyTree) -> Array:
            d, k, a, *v, z = jnp.split(x, cuts)
            q = system.retract(self.y0.q, d)
            u = system.increment_rate(d, k)
            speed = v[0] if v else formulation.velocity(self.context, t, q, u, z)
            values = self._equations(t, q, speed, u, a, z)
            return jnp.concatenate([*values, *([] if v else [speed])])

        x = jnp.concatenate([d0, k0, a0, *([] if self.explicit else [v0]), z0])
        return _Slopes(jnp.split(jacobian(stage, x), cuts, axis=1))

    # -- the error estimate ------------------------------------------------------------------

    def euler_change(self, x: PyTree, d0: Array, v0: Array, p: Array) -> tuple[Array, Array, Array]:
        """What one Newton step on d = d_0 + p k, v = v_0 + p a, from d = 0, adds to the position,
        the velocity and the algebraic variables of the beginning."""
        y0, system, formulation = self.y0, self.context.system, self.context.formulation
        k, z, still = -d0 / p, y0.z, jnp.zeros_like(d0)
        if self._dependent:
            stage = Stage(self.context, self.t0, y0, d0, v0, p)
            start = stage.start(k, (y0.v - v0) / p, z)
            change = newton_step(stage.residual, start, stage.scaling, dependent=True)
            _, d, v, _, new = stage.state(jax.tree.map(jnp.add, start, change))
            return d, v - y0.v, new - z
        u = system.increment_rate(still, k)
        if not self.explicit:
            a = (y0.v - v0) / p
            value = self._equations(self.t0, y0.q, y0.v, u, a, z)
            slopes = self._slopes((self.t0, y0.q, still, y0.v, a, k, z))
            d, v, change = _Slopes.solve(slopes.factor(p), p, *value)
            return -d, -v, -change
        v = formulation.velocity(self.context, self.t0, y0.q, u, z)
        a = (v - v0) / p
        value = self._equations(self.t0, y0.q, v, u, a, z)
        at = self._reference(x)
        if self._structured:
            d, change = self._solved(self._prepared(at)(p), p, *value)
        else:
            d, change = _Slopes.solve(self._slopes(at).factor(p), p, *value)
        q, u = system.retract(y0.q, -d), system.increment_rate(-d, k - d / p)
        v = formulation.velocity(self.context, self.t0, q, u, z - change)
        return -d, v - y0.v, -change


class _Slopes(NamedTuple):
    """Derivatives of the equations of a stage to d, k, a (v) and z, below them those of v where it
    follows from d, k and z."""

    parts: list[Array]

    def factor(self, p: Any) -> Any:
        """The factored matrix for changes of the increment d (of p a) and of z, with k = d / p and
        a = v / p."""
        if len(self.parts) == 5:
            d, k, a, v, z = self.parts
            return lu(jnp.concatenate([d + k / p, v + a / p, z + 0 * p], axis=1))
        d, k, a, z = self.parts
        rows = d.shape[0] - d.shape[1]
        a = a[:rows] / p
        first = d + k / p
        own = first[:rows] + a @ first[rows:]
        return lu(jnp.concatenate([own, z[:rows] + a @ z[rows:]], axis=1))

    @staticmethod
    def solve(factor: Any, p: Any, *value: Any) -> Any:
        """Changes of d (and of v), and of z."""
        x = lu_solve(factor, jnp.concatenate(value))
        cuts = np.cumsum([y.shape[0] for y in value])[:-1]
        return tuple(jnp.split(x, cuts))
