"""Adams methods: multistep predictors and correctors with equal steps.

    AB_m:      y_{n+1} = y_n + h sum_{k<m} gamma_k  nabla^k f_n
    AM_{m-1}:  y_{n+1} = y_n + h sum_{k<m} gamma*_k nabla^k f_{n+1}

with gamma_k = (-1)^k int_0^1 C(-s, k) ds and gamma*_k = (-1)^k int_0^1 C(1-s, k) ds (Wu, Chiou, Lin
2000, Eqs. (8) and (9)). Every coefficient is computed from these integrals in rational arithmetic.

Steps that lack a history, at the start and after a change of the step size, are taken by the
method of order 8 of Dormand and Prince.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import comb, factorial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import choice
from .._numbers import count
from .base import Array, Integrator
from .tables import dop853_stages

if TYPE_CHECKING:
    from diffrax import ODETerm
    from jaxtyping import PyTree

    from ..problem import StepContext

HIGHEST = 6

Mode = Literal["PE", "PECE", "PEC", "iterated"]

# Steps that differ by less than this part are equal, and share a history.
_SAME_STEP = 1e-9
# An iterated corrector stops when it moves the state by less than this, relative to 1 + |y|.
_CORRECTED = 1e-12
_MOST_CORRECTIONS = 50


def _integral(first: int, k: int) -> Fraction:
    """The integral from 0 to 1 of (s+first)(s+first+1)...(s+first+k-1)/k!."""
    polynomial = [Fraction(1)]  # coefficients of 1, s, s^2, ...
    for root in range(first, first + k):
        scaled = [root * c for c in polynomial] + [Fraction(0)]
        shifted = [Fraction(0), *polynomial]
        polynomial = [a + b for a, b in zip(scaled, shifted)]
    area = sum((c / (i + 1) for i, c in enumerate(polynomial)), Fraction(0))
    return area / factorial(k)


@cache
def gamma(k: int) -> Fraction:
    """gamma_k of Adams and Bashforth: 1, 1/2, 5/12, 3/8, ... (Wu's Table 1, first row)."""
    return _integral(0, k)


@cache
def gamma_star(k: int) -> Fraction:
    """gamma*_k of Adams and Moulton: 1, -1/2, -1/12, -1/24, ... (Wu's Table 1, second row)."""
    return _integral(-1, k)


def _ordinates(differences: list[Fraction]) -> tuple[Fraction, ...]:
    """Weights of f_n, f_{n-1}, ... from those of the backward differences of f_n."""
    count = len(differences)
    return tuple(
        sum(((-1) ** j * comb(k, j) * differences[k] for k in range(j, count)), Fraction(0))
        for j in range(count)
    )


@cache
def bashforth_weights(m: int) -> tuple[Fraction, ...]:
    """AB_m: weights of f_n, f_{n-1}, ..., f_{n-m+1}; order m."""
    return _ordinates([gamma(k) for k in range(m)])


@cache
def moulton_weights(steps: int) -> tuple[Fraction, ...]:
    """AM of `steps` steps: weights of f_{n+1}, f_n, ..., f_{n+1-steps}; order steps + 1."""
    return _ordinates([gamma_star(k) for k in range(steps + 1)])


@cache
def predictor_share(m: int) -> Fraction:
    """W1/(W1+W2) of Theorem 1: the part of AB_m that cancels the error of AM_{m-1}.

    W1 = -gamma*_m and W2 = gamma_m (Wu, Eq. (21)).
    """
    return -gamma_star(m) / (gamma(m) - gamma_star(m))


@cache
def modified_weights(m: int) -> tuple[Fraction, ...]:
    """MAMPC_m, Eq. (27c): weights of f_{n+1} (at the predicted state), f_n, ..., f_{n-m+1}."""
    share = predictor_share(m)
    predictor = (Fraction(0), *bashforth_weights(m))
    corrector = (*moulton_weights(m - 1), Fraction(0))
    return tuple(share * p + (1 - share) * c for p, c in zip(predictor, corrector))


class History(NamedTuple):
    """Derivatives of earlier steps of size `dt` along a leading axis, newest first.

    `known` of them before the newest are valid; `started` counts the steps taken to get them, and
    `corrections` the sweeps of an iterated corrector.
    """

    f: Any
    dt: Array
    known: Array
    started: Array
    corrections: Array


def _combined(y: Array, h: Array, weights: tuple[Fraction, ...], f: list[PyTree]) -> PyTree:
    """y + h sum_j weights[j] f[j]."""

    def combine(y: Array, *rates: Array) -> Array:
        return y + h * sum(float(w) * rate for w, rate in zip(weights, rates))

    return jax.tree.map(combine, y, *f[: len(weights)])


def _largest(tree: PyTree) -> Array:
    return jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=0) for x in jax.tree.leaves(tree)]))


def _only_if(wanted: Array, make: Callable[[], Any], otherwise: PyTree) -> PyTree:
    """`make()` where `wanted`, else `otherwise`; in a batch, made only if some member wants it."""

    def made() -> Any:
        return jax.tree.map(lambda new, old: jnp.where(wanted, new, old), make(), otherwise)

    return jax.lax.cond(eqxi.unvmap_any(wanted), made, lambda: otherwise)


def _starting_step(
    terms: ODETerm, t0: Array, h: Array, y0: PyTree, f0: Any, args: StepContext
) -> PyTree:
    """(y1, f1) by one step of order 8 from y0 with the derivative f0.

    The last row of the table is the solution itself, so the last stage is f1. A scan over the
    stages keeps one copy of the vector field in the program.
    """
    a, c = dop853_stages()
    k = jax.tree.map(lambda f: jnp.zeros((a.shape[0], *f.shape), f.dtype).at[0].set(f), f0)

    def stage(carry: PyTree, row: PyTree) -> tuple[Any, None]:
        i, weights, node = row
        k = carry[0]
        z = jax.tree.map(
            lambda y, k: y + h * jnp.sum(weights.reshape((-1,) + (1,) * y.ndim) * k, axis=0), y0, k
        )
        f = terms.vf(t0 + node * h, z, args)
        return (jax.tree.map(lambda k, f: k.at[i].set(f), k, f), z, f), None

    rows = (np.arange(1, a.shape[0]), a[1:], c[1:])
    (_, y1, f1), _ = jax.lax.scan(stage, (k, y0, f0), rows)
    return y1, f1


class _Adams(Integrator):
    """One step of a predictor and, where there is one, its corrector."""

    accepts: ClassVar[tuple[str, ...]] = ("ode",)

    m: int = eqx.field(static=True)

    @abc.abstractmethod
    def _mode(self) -> Mode:
        """How often the vector field is evaluated, and where."""

    @abc.abstractmethod
    def _corrector(self) -> tuple[Fraction, ...]:
        """Weights of f_{n+1}, f_n, ...; empty without a corrector."""

    def statistics(self, solver_state: History) -> dict[str, int]:
        counts = {"starting_steps": int(solver_state.started)}
        if self._mode() == "iterated":
            counts["corrections"] = int(solver_state.corrections)
        return counts

    def init(self, terms: ODETerm, t0: Array, t1: Array, y0: PyTree, args: StepContext) -> History:
        kept = self.m if self._mode() == "PEC" else self.m - 1
        f = jax.tree.map(lambda y: jnp.zeros((kept, *y.shape), y.dtype), (y0[0], y0[1]))
        if self._mode() == "PEC":
            f = jax.tree.map(lambda f, new: f.at[0].set(new), f, terms.vf(t0, y0, args))
        zero = jnp.asarray(0)
        return History(f, jnp.asarray(t1 - t0), zero, zero, zero)

    def step(
        self,
        terms: ODETerm,
        t0: Array,
        t1: Array,
        y0: PyTree,
        args: StepContext,
        solver_state: History,
        made_jump: bool,
    ) -> Any:
        m, h = self.m, t1 - t0
        rounding = 8 * jnp.finfo(h.dtype).eps * jnp.maximum(jnp.abs(t0), jnp.abs(t1))
        changed = jnp.abs(h - solver_state.dt) > _SAME_STEP * jnp.abs(h) + rounding
        known = jnp.where(changed, 0, solver_state.known)
        starting = known < m - 1

        kept = m if self._mode() == "PEC" else m - 1
        f = [jax.tree.map(lambda x, j=j: x[j], solver_state.f) for j in range(kept)]
        if self._mode() != "PEC":  # the last E, at the stabilised state
            f = [terms.vf(t0, y0, args), *f]
        y1, f1, corrections, solved = self._predict_correct(terms, t1, h, y0, f, args)
        if m > 1:
            y1, f1 = _only_if(
                starting, lambda: _starting_step(terms, t0, h, y0, f[0], args), (y1, f1)
            )

        newest = [f1, *f][:kept] if self._mode() == "PEC" else f[:kept]
        history = History(
            jax.tree.map(lambda *x: jnp.stack(x), *newest) if newest else solver_state.f,
            jnp.where(changed, h, solver_state.dt),
            jnp.minimum(known + 1, m - 1),
            solver_state.started + starting,
            solver_state.corrections + jnp.where(starting, 0, corrections),
        )
        return y1, None, {"y0": y0, "y1": y1}, history, jnp.logical_or(solved, starting)

    def _predict_correct(
        self, terms: ODETerm, t1: Array, h: Array, y0: PyTree, f: list[PyTree], args: StepContext
    ) -> PyTree:
        """(y1, its newest derivative, number of corrections, whether they converged)."""
        weights = self._corrector()
        predicted = _combined(y0, h, bashforth_weights(self.m), f)
        none, true = jnp.asarray(0), jnp.asarray(True)
        if not weights:
            return predicted, f[0], none, true

        known = _combined(y0, h, weights[1:], f)

        def correct(y: PyTree) -> PyTree:
            f1 = terms.vf(t1, y, args)
            return _combined(known, h, weights[:1], [f1]), f1

        if self._mode() != "iterated":
            y1, f1 = correct(predicted)
            return y1, f1, none, true

        def sweep(carry: PyTree, _: None) -> tuple[Any, None]:
            y, _, count, converged = carry

            def again() -> Any:
                new, f1 = correct(y)
                moved = _largest(
                    jax.tree.map(lambda a, b: jnp.abs(a - b) / (1 + jnp.abs(a)), new, y)
                )
                return new, f1, count + 1, moved <= _CORRECTED

            return _only_if(jnp.logical_not(converged), again, carry), None

        begin = (predicted, f[0], none, jnp.asarray(False))
        (y1, f1, count, converged), _ = jax.lax.scan(sweep, begin, None, length=_MOST_CORRECTIONS)
        return y1, f1, count, converged


def _check_m(name: str, m: Any) -> int:
    return count(name, "m", m, most=HIGHEST)


class AdamsBashforth(_Adams):
    """The explicit Adams method AB_m of order m: one evaluation of the forces per step.

    **Arguments:**

    - `m`: number of steps, 1 to 6.
    """

    reference: ClassVar[str] = "Bashforth, Adams 1883"

    def __init__(self, m: int):
        self.m = _check_m("AdamsBashforth", m)

    def _mode(self) -> Mode:
        return "PE"

    def order(self, terms: ODETerm | None) -> int:
        return self.m

    def _corrector(self) -> tuple[Fraction, ...]:
        return ()


class AdamsMoulton(_Adams):
    """Predictor AB_m, corrector AM_{m-1}: order m.

    **Arguments:**

    - `m`: number of steps of the predictor, 1 to 6.
    - `mode`: ``"PECE"`` predicts, evaluates, corrects and evaluates again (at the state after
      stabilisation); ``"PEC"`` saves the second evaluation and keeps the predicted derivative, at
      the price of a smaller stability region; ``"iterated"`` corrects until the state no longer
      moves, so that the corrector alone decides accuracy and stability.
    """

    reference: ClassVar[str] = "Moulton 1926; Wu, Chiou, Lin 2000, Eqs. (17)-(19)"

    mode: Literal["PECE", "PEC", "iterated"] = eqx.field(static=True)

    def __init__(self, m: int, mode: Literal["PECE", "PEC", "iterated"] = "PECE"):
        self.m = _check_m("AdamsMoulton", m)
        self.mode = choice("AdamsMoulton", "mode", mode, ("PECE", "PEC", "iterated"))

    def _mode(self) -> Mode:
        return self.mode

    def order(self, terms: ODETerm | None) -> int:
        return self.m

    def _corrector(self) -> tuple[Fraction, ...]:
        return moulton_weights(self.m - 1)


class ModifiedAdamsMoulton(_Adams):
    """MAMPC_m: predictor AB_m and corrector AM_{m-1} weighted so that their errors cancel.

    Order m+1 for the two evaluations per step of `AdamsMoulton(m)` in PECE mode, and a larger
    stability region. The weights come from Theorem 1 of the paper.

    **Arguments:**

    - `m`: number of steps, 1 to 6.
    """

    reference: ClassVar[str] = "Wu, Chiou, Lin 2000, Eq. (27)"

    def __init__(self, m: int):
        self.m = _check_m("ModifiedAdamsMoulton", m)

    def _mode(self) -> Mode:
        return "PECE"

    def order(self, terms: ODETerm | None) -> int:
        return self.m + 1

    def _corrector(self) -> tuple[Fraction, ...]:
        return modified_weights(self.m)
