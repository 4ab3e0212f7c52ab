"""Newton's method inside a step: exact matrices from AD, scaled and augmented after Bauchau,
differentiable by the implicit function theorem, with counts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..linalg import first_order, held, jacobian, lu, lu_solve, moved_back
from ..linalg.limits import FIRST_APART
from ..system.base import Array
from .dependent import DependentFactor
from .kept import KeptFactor
from .known import Solution

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..linalg.small import LUFactor

# A factor is kept while each change is smaller than the one before by this.
_SLOW = 0.3
# Part of the tolerance below which a change by an old factor is none, however slow.
_NOTHING = 1e-3
# A bound for the change after a change of one of scaled unknowns, relative to its square.
_CURVATURE = 10.0
# How many units in the last place of the configuration its increments can be found to, at best:
# along a chain the rounding of its joints adds up, as the root of their number.
_ROUNDING = 16


class NewtonCounts(NamedTuple):
    """How much work the equations of the steps so far have taken."""

    iterations: Array
    factorizations: Array

    @staticmethod
    def zero() -> NewtonCounts:
        """No work yet."""
        return NewtonCounts(jnp.zeros((), int), jnp.zeros((), int))

    def __add__(self, other: Any) -> NewtonCounts:
        return NewtonCounts(
            self.iterations + other.iterations, self.factorizations + other.factorizations
        )

    def statistics(self) -> dict[str, int]:
        """For `Result.stats`."""
        return {
            "newton_iterations": int(self.iterations),
            "factorizations": int(self.factorizations),
        }


class Scaling(NamedTuple):
    """Factors for the equations and unknowns of Newton's matrix, one for each block (leaf).

    The matrix that is factored is diag(rows) J diag(columns). With `augment`, that many times
    B^T times the last block of equations (the constraints) is added to the one before it (the
    equations of motion), a row operation; B^T is that block's derivative to the multipliers.
    `condition` asks for the condition number of the result.
    """

    rows: tuple[Any, ...]
    columns: tuple[Any, ...]
    augment: Any = None
    condition: bool = False


def _all_of_it(factor: Any) -> Any:
    return factor


class Linear(NamedTuple):
    """How Newton's linear equations are solved where their matrix has a structure.

    `prepare(x)` factors the matrix at the unknowns x (pytrees as `start`), `solve(factor, value)`
    gives the change of the unknowns that takes `value` away, and whether it does. `exact` says that
    the matrix is the derivative of the equations, so that the next factor is worth its price; else,
    and where a factor is `dear` beside an iteration, it is kept as long as changes shrink well.
    `tangent` is that change without any check, a linear function of the value that can be
    transposed; None where the matrix is not the derivative to the last digit. `light` is what it
    takes of a factor that is kept.
    """

    prepare: Callable[[Any], Any]
    solve: Callable[[Any, Any], tuple[Any, Any]]
    exact: bool = True
    tangent: Callable[[Any, Any], Any] | None = None
    dear: bool = False
    light: Callable[[Any], Any] = _all_of_it


class _Iterate(NamedTuple):
    x: Array
    change: Array
    rate: Array  # of this change to the one before; below zero before the first with a factor
    iterations: Array
    factorizations: Array
    done: Array


class Solved(NamedTuple):
    """What Newton's method found: the unknowns, whether they solve the equations, the work, the
    condition number of the last matrix (zero unless asked for), and the factor that was used last
    where one was kept from before."""

    x: Any
    converged: Array
    counts: NewtonCounts
    condition: Array
    factor: Any = None


def newton(
    residual: Callable[[Any], Any],
    start: PyTree,
    *,
    tolerance: float | Array = 1e-10,
    max_iterations: int = 12,
    modified: bool = False,
    scaling: Scaling | None = None,
    linear: Linear | None = None,
    dependent: bool = False,
    plain: bool = False,
    auxiliary: bool = False,
    differentiable: bool = True,
    known: Solution | None = None,
    size: Array | None = None,
    kept: KeptFactor | None = None,
) -> Solved:
    """Solve residual(x) = 0 from `start`, pytrees of equal total size.

    Stops when the change of every block (leaf) is below `tolerance` relative to one plus its size,
    or the next one would be: by the rate at which the changes shrink (Hairer, Wanner 1996, Section
    IV.8), or by its square where unknowns are scaled; `plain` says that the last block, the
    multipliers, is linear in the equations. Stops as well when the change has fallen to
    rounding and grows again. In the last block, the multipliers, rounding may be large: it is also
    reached when all others change no more. With `modified` a matrix is kept while changes shrink
    well. What will not be differentiated is traced in half the time. `linear` solves the linear
    equations, a dense matrix where it is None. With `dependent` constraints the last block, the
    multipliers, are the smallest that solve them. `auxiliary` says that nobody asks for the last
    block, whose changes then do not count. Scaled unknowns are increments of a configuration: of
    one that is given to be of a `size` they are found to its rounding at most. Of a solution that
    is `known` only the derivative is found. Iterations begin with the factor that was `kept` from
    a step before, if it is usable, and have a new one as soon as changes do not shrink well.
    """
    flat, unravel = ravel_pytree(start)
    sizes = [leaf.size for leaf in jax.tree.leaves(start)]

    def equations(x: Array) -> Array:
        return ravel_pytree(residual(unravel(x)))[0]

    several = len(sizes) > 1
    exact = linear is None or linear.exact
    several_times = modified or not exact or (linear is not None and linear.dear)
    most = 4 * max_iterations if several_times else max_iterations
    rows, columns = _expanded(scaling, sizes)
    enough, small = (tolerance, 1e-6) if scaling is None else (1e-2 * tolerance, 1e-8)
    next_enough = 0.1 * enough
    if scaling is not None and size is not None:  # a change within rounding is not worth its work
        digits = max(_ROUNDING, flat.size**0.5) * jnp.finfo(flat.dtype).eps * size
        enough, next_enough = jnp.maximum(enough, digits), jnp.maximum(next_enough, digits)

    def dense(x: Array) -> PyTree:
        """The factor of the scaled matrix, the matrix itself, and the value of the equations."""
        matrix, value = jacobian(lambda y: (equations(y),) * 2, x, has_aux=True)
        if scaling is not None:
            matrix = _augmented(rows[:, None] * matrix * columns, scaling, sizes)
        factor = DependentFactor.of(matrix, sizes[-1]) if dependent else lu(matrix)
        return factor, matrix, value

    def prepared(x: Array) -> PyTree:
        return dense(x) if linear is None else (linear.prepare(unravel(x)), None, None)

    def change_of(factor: Any, matrix: Array, value: Array) -> Array:
        """What takes a value away, by the dense matrix, in scaled unknowns."""
        if scaling is not None:
            value = _augmented_value(rows * value, matrix, scaling, sizes)
        return factor.solve(value) if dependent else lu_solve(factor, value)

    def correction(factor: Any, matrix: Any, x: Array, value: Array | None) -> tuple[Array, Any]:
        """What takes the value of the equations away, and whether it does."""
        if linear is not None:
            left, fine = residual(unravel(x)), True
            if kept is None:
                change, fine = linear.solve(factor, left)
            else:  # it is measured how changes shrink, and nothing else is believed
                assert linear.tangent is not None
                change = linear.tangent(factor, left)
            return ravel_pytree(change)[0], fine
        change = change_of(factor, matrix, equations(x) if value is None else value)
        if dependent:
            change = change + factor.idle(x / columns)
        return (change if scaling is None else columns * change), True

    def relative(step: Array, x: Array) -> tuple[Array, Array]:
        """The largest change of a block of scaled unknowns, relative to one plus the block: of all
        but the last block, and of all."""
        changes, at = [jnp.zeros(())], 0
        units = [1.0] * len(sizes) if scaling is None else scaling.columns
        for size, unit in zip(sizes, units, strict=True):
            block = slice(at, at + size)
            bound = lambda y, unit=unit: jnp.max(jnp.abs(y), initial=0.0) / jnp.abs(unit)  # noqa: E731
            changes.append(bound(step[block]) / (1 + bound(x[block])))
            at += size
        inner = functools.reduce(jnp.maximum, changes[:-1])
        if auxiliary:
            return inner, inner
        return inner, jnp.maximum(inner, changes[-1])

    def solve(x: Array) -> tuple[Array, Any, Any]:
        large = jnp.asarray(jnp.finfo(x.dtype).max)  # the change before the first with a factor

        def iterate(
            factor: Any,
            matrix: Array | None,
            now: _Iterate,
            value: Array | None = None,
            old: Any = False,
        ) -> _Iterate:
            step, fine = correction(factor, matrix, now.x, value)
            new = now.x - step
            # scaled unknowns are displacements, whose rounding is that of the configuration
            inner, change = relative(step, new)
            inner, change = (jnp.where(fine, x, jnp.nan) for x in (inner, change))
            settled = jnp.logical_or(change < small, inner <= enough) if several else change < small
            rounding = jnp.logical_and(settled, change > 0.3 * now.change)
            # what the next change would be: the square, times a generous curvature, of this one
            # where unknowns are scaled (this one times that of all but the multipliers where these
            # are linear), else as much smaller as this one is than the one before
            rate = change / now.change
            following = jnp.where(rate < 0.5, change * rate / (1 - rate), change)
            measured = now.iterations > 0 if kept is None else now.change < large
            following = jnp.where(measured, following, change)
            if scaling is not None and exact and kept is None:
                left = inner if plain else change
                square = jnp.minimum(following, _CURVATURE * change * left)
                following = jnp.where(now.rate < 0, square, following) if several_times else square
            done = (change <= enough) | (following <= next_enough) | rounding
            if kept is not None:  # changes by a factor that is far too stiff are small, and slow
                sure = measured & (rate < _SLOW)
                done = (done & (sure | jnp.logical_not(old))) | (change <= _NOTHING * enough)
            return _Iterate(new, change, rate, now.iterations + 1, now.factorizations, done)

        def unfinished(now: _Iterate, old: Any = False) -> Array:
            # a change that is not finite will not recover, unless by a new factor
            going = jnp.logical_and(~now.done, now.iterations < most)
            return jnp.logical_and(going, (now.change < jnp.inf) | old)

        def good(now: _Iterate) -> Array:
            return jnp.logical_and(unfinished(now), now.rate < _SLOW)

        def body(now: _Iterate) -> _Iterate:
            """What is done with one factor: one iteration, or all while they converge well."""
            factor, matrix, value = prepared(now.x)
            now = now._replace(factorizations=now.factorizations + 1)
            if not several_times:
                return iterate(factor, matrix, now, value)
            now = now._replace(rate=jnp.full_like(now.rate, -1.0))
            return jax.lax.while_loop(good, lambda x: iterate(factor, matrix, x), now)

        none = jnp.asarray(0)
        start = _Iterate(x, large, jnp.zeros(()), none, none, jnp.asarray(False))

        def renewed(state: Any) -> Any:
            """With a new factor; from the start again where the old one has led away from it."""
            now, old, _ = state
            at = jnp.where(old & ~(now.rate < 1), x, now.x)
            now = now._replace(x=at, change=large, rate=jnp.zeros_like(now.rate))
            now = now._replace(factorizations=now.factorizations + 1)
            return now, jnp.asarray(False), tuple(jax.tree.leaves(light(at)))

        def with_kept(state: Any) -> Any:
            """What is done with one factor, a new one unless that which is there does well."""
            # a loop that is done once or not at all: nothing is moved where the factor stays
            state = jax.lax.while_loop(lambda s: ~(s[0].rate < _SLOW), renewed, state)
            now, old, arrays = state
            factor = structure.unflatten(arrays)
            now = jax.lax.while_loop(good, lambda y: iterate(factor, None, y, old=old), now)
            return now, old, arrays

        factor = None
        if kept is None:
            if flat.size >= FIRST_APART and not several_times:
                start = body(start)
            end = jax.lax.while_loop(unfinished, body, start)
        else:
            assert linear is not None
            way = linear
            light = lambda x: way.light(way.prepare(unravel(x)))  # noqa: E731
            structure = jax.tree.structure(jax.eval_shape(light, x))
            start = start._replace(rate=jnp.where(kept.usable, 0.0, 1.0))
            end, _, factor = jax.lax.while_loop(
                lambda s: unfinished(s[0], old=s[1]),
                with_kept,
                (start, kept.usable, kept.factor),
            )
        # as numbers, which have tangents
        counts = (end.iterations, end.factorizations)
        counts = tuple(n.astype(x.dtype) for n in counts)
        x = jnp.where(jnp.isnan(end.change), jnp.nan, end.x)  # a change that was no solution
        return x, (end.done.astype(x.dtype), *counts), factor

    def tangent(x: Array) -> Array:
        """A vector that moves as the solution x does, with the opposite sign."""
        value = residual(unravel(x))
        if linear is not None and linear.tangent is not None:
            factor = held(linear.prepare, unravel(x))
            return ravel_pytree(linear.tangent(factor, value))[0]
        factor, matrix, _ = held(dense, x)
        change = change_of(factor, matrix, ravel_pytree(value)[0])
        return change if scaling is None else columns * change

    if known is not None:
        none = jnp.zeros((), flat.dtype)
        found = ravel_pytree(known.x)[0], (known.solved.astype(flat.dtype), none, none), None
    elif differentiable:
        found = held(solve, flat)
    else:
        found = solve(flat)
    x, (done, *counts), factor = found
    if differentiable:
        x = jax.lax.stop_gradient(x)
        x = moved_back(x, first_order(tangent(x)))
    done, *counts = jax.lax.stop_gradient((done > 0.5, *(n.astype(int) for n in counts)))
    condition = jnp.zeros(())
    if scaling is not None and scaling.condition:
        of_last, matrix, _ = prepared(x)
        condition = _condition(of_last, matrix, sizes)
    return Solved(unravel(x), done, NewtonCounts(*counts), condition, factor)


def newton_step(
    residual: Callable[[Any], Any],
    start: PyTree,
    scaling: Scaling | None = None,
    *,
    dependent: bool = False,
) -> PyTree:
    """The first change that Newton's method makes to `start`.

    Of `scaling` the factors are used; the row operation would not change the solution.
    """
    flat, unravel = ravel_pytree(start)
    sizes = [leaf.size for leaf in jax.tree.leaves(start)]
    rows, columns = _expanded(scaling, sizes)

    def twice(x: Array) -> tuple[Array, Array]:
        value = ravel_pytree(residual(unravel(x)))[0]
        return value, value

    matrix, value = jacobian(twice, flat, has_aux=True)
    matrix, value = rows[:, None] * matrix * columns, rows * value
    if dependent:
        return unravel(-columns * DependentFactor.of(matrix, sizes[-1]).solve(value))
    return unravel(-columns * lu_solve(lu(matrix), value))


def _expanded(scaling: Scaling | None, sizes: list[int]) -> tuple[Array, Array]:
    """Block factors repeated over the entries of each block."""
    if scaling is None:
        one = jnp.ones((sum(sizes),))
        return one, one
    repeat = lambda xs: jnp.concatenate(  # noqa: E731
        [jnp.full((n,), x) for n, x in zip(sizes, xs, strict=True)]
    )
    return repeat(scaling.rows), repeat(scaling.columns)


def _blocks(sizes: list[int]) -> tuple[slice, slice]:
    """Where the equations of motion and the constraints are: the last two blocks."""
    end = sum(sizes)
    return slice(end - sizes[-1] - sizes[-2], end - sizes[-1]), slice(end - sizes[-1], end)


def _augmented(matrix: Array, scaling: Scaling, sizes: list[int]) -> Array:
    if scaling.augment is None or not sizes[-1]:
        return matrix
    motion, constraints = _blocks(sizes)
    transpose = matrix[motion, constraints]
    return matrix.at[motion].add(scaling.augment * (transpose @ matrix[constraints]))


def _augmented_value(value: Array, matrix: Array, scaling: Scaling, sizes: list[int]) -> Array:
    if scaling.augment is None or not sizes[-1]:
        return value
    motion, constraints = _blocks(sizes)
    transpose = matrix[motion, constraints]  # not changed by the augmentation
    return value.at[motion].add(scaling.augment * (transpose @ value[constraints]))


def _condition(factor: LUFactor, matrix: Array, sizes: list[int]) -> Array:
    """Condition number (infinity norm) after eliminating all but the last two blocks."""
    first = sum(sizes[:-2])
    inverse = lu_solve(factor, jnp.eye(matrix.shape[0]))
    # the inverse of the Schur complement is a block of the inverse
    inner = inverse[first:, first:]
    reduced = matrix[first:, first:]
    if first:
        upper = lu_solve(lu(matrix[:first, :first]), matrix[:first, first:])
        reduced = reduced - matrix[first:, :first] @ upper
    norm = lambda x: jnp.max(jnp.sum(jnp.abs(x), axis=1))  # noqa: E731
    return norm(reduced) * norm(inner)
