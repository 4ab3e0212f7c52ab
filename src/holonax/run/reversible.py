"""The time loop of a run that can be differentiated.

The states of all steps are kept, with the solutions of their equations. On the way back each step
is taken again from what was kept, without the iterations that solved it, and its linear equations
are solved transposed (a discrete adjoint). Only what depends on what is differentiated is followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from ..linalg.pulled_back import depends, followed_back
from ..system.base import System
from .loop import Loop, LoopState, begun
from .traced_request import smooth_piece

if TYPE_CHECKING:
    from jax.extend import core as jax_core

Adjoint = Literal["reverse", "forward"]


class TracedProgress(NamedTuple):
    """How far a run has come: the loop's state, the states at the times asked for, how many of
    these there are, the steps tried, and whether all is well."""

    loop: LoopState
    rows: Any
    filled: Array
    tried: Array
    good: Any


class _Step(NamedTuple):
    """A step, kept or not: the state of the loop, the state at its end, whether that is a time
    asked for, whether all is well, and the solution of its equations."""

    loop: LoopState
    y: Any
    hit: Array
    good: Array
    solution: Any


def carried(given: Any, first: TracedProgress, room: int, adjoint: Adjoint) -> TracedProgress:
    """The progress at the end, of at most `room` steps; `given` are the method, the settings and
    the breaks."""
    if adjoint == "forward":
        return _run(given, first, room, differentiable=True)
    loop, real, arrays = Reversible.of(given, first, room)
    return loop(real, arrays)


def _anew(given: Any, before: System, t: Array, y: Any, old: LoopState, **kind: bool) -> LoopState:
    """The method begun again behind a break at t. Velocities that constraints ask for from there
    on, and the system `before` did not, are taken up by an impulse."""
    method, settings, breaks = given
    loop = Loop(method, settings._replace(window=smooth_piece(breaks, t)), **kind)
    q, v = y[0], y[1]
    if method.system.moving_constraints(q.shape[0]) is not None:
        after = loop.context.system
        jump = after.constraint_rate(q, v, t) - before.constraint_rate(q, v, t)
        v = v - after.factor(q, t).correct(jump)
    new = begun(loop, method, t, q, v)
    return jax.tree.map(lambda x, y: jnp.asarray(x, jnp.result_type(y)), new, old)


def _step(given: Any, state: LoopState, filled: Array, known: Any = None, **kind: bool) -> _Step:
    """One step; `known` is the solution of its equations, where it is taken again."""
    method, settings, breaks = given
    t, y, solver, steps = state
    loop = Loop(method, settings._replace(window=smooth_piece(breaks, t)), **kind)
    context = loop.context._replace(known=known)
    y1, error, status, solution = loop.solver.solved_step(
        loop.terms, t, steps.end, y, context, solver
    )
    good = status.code == 0
    order = loop.solver.error_order(loop.terms)
    error: Any = None if error is None else lax.stop_gradient(error)
    keep, end, rule, stuck = loop.rule.judge(t, steps.end, error, order, steps.rule)
    if method.control is None:
        y, solver, keep = y1, status, good
    else:
        # the length of the next step is not differentiated, the time that it may hit is
        choose = lambda a, b: jnp.where(keep, a, b)  # noqa: E731
        y, solver = jax.tree.map(choose, (y1, status), (y, solver))
        rule, good = lax.stop_gradient(rule), ~jnp.asarray(stuck)
    hit = keep & (steps.end >= settings.knots[filled])
    state = LoopState(jnp.where(keep, steps.end, t), y, solver, steps._replace(end=end, rule=rule))
    if breaks is not None:
        there = keep & jnp.any(steps.end == breaks) & (steps.end < settings.knots[-1])
        before = loop.context.system
        state = lax.cond(
            there, lambda: _anew(given, before, steps.end, y, state, **kind), lambda: state
        )
    return _Step(state, y, hit, good, solution)


def _after(now: TracedProgress, step: _Step) -> TracedProgress:
    """The progress with one more step."""

    def put(rows: Array, x: Array) -> Array:
        row = jnp.where(step.hit, x, lax.dynamic_index_in_dim(rows, now.filled, 0, keepdims=False))
        return lax.dynamic_update_index_in_dim(rows, row, now.filled, 0)

    rows = jax.tree.map(put, now.rows, step.y)
    return TracedProgress(step.loop, rows, now.filled + step.hit, now.tried + 1, step.good)


def _goes_on(given: Any, now: TracedProgress, room: int) -> Array:
    return (now.filled < given[1].knots.shape[0]) & (now.tried < room) & now.good


def _run(given: Any, first: TracedProgress, room: int, **kind: bool) -> TracedProgress:
    def body(now: TracedProgress) -> TracedProgress:
        step = _step(given, now.loop, now.filled, **kind)
        return _after(now, step)

    return lax.while_loop(lambda now: _goes_on(given, now, room), body, first)


@jax.tree_util.register_static
class _Flags(tuple[bool, ...]):
    """Which numbers are differentiated; known when tracing."""


class _Kept(NamedTuple):
    """What is kept of each step: the state it began with, the times hit before it, and the solution
    of its equations."""

    loop: LoopState
    filled: Array
    solution: Any


@jax.tree_util.register_static
class _Lines:
    """How the numbers of a tree lie one after the other in two lines: real numbers, and whole ones
    with truth values. So all that is kept is two arrays, however many parts a state has."""

    def __init__(self, shapes: _Kept):
        leaves, self.tree = jax.tree.flatten(shapes)
        self.shapes = tuple((x.shape, np.dtype(x.dtype)) for x in leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Lines) and self._all == other._all

    def __hash__(self) -> int:
        return hash(self._all)

    @property
    def _all(self) -> tuple[Any, Any]:
        return self.tree, self.shapes

    def _split(self, leaves: Sequence[int | Array]) -> tuple[list[Any], list[Any]]:
        pairs = [(x, kind.kind == "f") for x, (_, kind) in zip(leaves, self.shapes, strict=True)]
        return [x for x, real in pairs if real], [x for x, real in pairs if not real]

    def room(self, count: int) -> tuple[Array, Array]:
        """For so many of them."""
        sizes = self._split([int(np.prod(shape)) for shape, _ in self.shapes])
        return jnp.zeros((count, sum(sizes[0]))), jnp.zeros((count, sum(sizes[1])), int)

    def line(self, tree: _Kept) -> tuple[Array, Array]:
        """The numbers of one tree."""
        parts = self._split(jax.tree.leaves(tree))
        flat = lambda xs, kind: jnp.concatenate(  # noqa: E731
            [jnp.zeros((0,), kind), *(jnp.ravel(jnp.asarray(x, kind)) for x in xs)]
        )
        return flat(parts[0], float), flat(parts[1], int)

    def apart(self, real: Array, whole: Array, number: Array) -> _Kept:
        """The tree of a line again."""
        at, found = [0, 0], []
        for shape, kind in self.shapes:
            k, size = int(kind.kind != "f"), int(np.prod(shape))
            x = lax.dynamic_slice((real, whole)[k], (number, at[k]), (1, size))
            found.append(x.reshape(shape).astype(kind))
            at[k] += size
        return self.tree.unflatten(found)


class _AllKept(NamedTuple):
    """What is kept of all steps, in lines."""

    lines: _Lines
    real: Array
    whole: Array

    def __call__(self, k: Any) -> _Kept:
        """What is kept of step k."""
        return self.lines.apart(self.real, self.whole, k)


class Reversible:
    """The loop with a derivative of its own.

    What has no derivative, numbers of steps and the like, is kept as it is. It may be called, for
    JAX to differentiate it, or followed there and back by whoever knows what moves.
    """

    def __init__(self, rest: Any, room: int):
        self.rest, self.room = rest, room

    @staticmethod
    def of(given: Any, first: TracedProgress, room: int) -> tuple[Reversible, Any, Any]:
        """The loop, its real numbers, and its other arrays."""
        real, fixed = eqx.partition((given, first), eqx.is_inexact_array)
        arrays, rest = eqx.partition(fixed, eqx.is_array)
        return Reversible(rest, room), real, arrays

    def __call__(self, real: Any, arrays: Any) -> TracedProgress:
        @jax.custom_vjp
        def run(real: Any, arrays: Any) -> Any:
            # traced as in `there`, so that this is done once
            given, first = self._joined(real, arrays)
            end = _run(given, first, self.room, keeps=True)
            return eqx.partition(end, eqx.is_inexact_array)

        run.defvjp(self._forward, self._backward, symbolic_zeros=True)
        return eqx.combine(*run(real, arrays))

    def _joined(self, real: Any, arrays: Any) -> Any:
        return eqx.combine(real, arrays, self.rest)

    def _forward(self, real: Any, arrays: Any) -> Any:
        moving = _Flags(x.perturbed for x in jax.tree.leaves(real))
        real, arrays = jax.tree.map(lambda x: x.value, (real, arrays))
        end, kept = self.there(real, arrays)
        return eqx.partition(end, eqx.is_inexact_array), (real, arrays, kept, moving)

    def _backward(self, residuals: Any, cotangent: Any) -> Any:
        real, arrays, kept, moving = residuals
        end: TracedProgress = jax.tree.map(_instantiated, cotangent[0], is_leaf=_is_zero)
        # XLA takes half the time for corrections that are followed by their equations; our own
        # compiler takes no less, and longer to compile them
        found = self.back(real, arrays, kept, moving, end, by_equations=True)
        return found, jax.tree.map(_no_tangent, arrays)

    def there(self, real: Any, arrays: Any) -> tuple[TracedProgress, Any]:
        """The progress at the end, and what is kept of the steps."""
        given, first = self._joined(real, arrays)
        plain = lambda now: _step(given, now.loop, now.filled, keeps=True)  # noqa: E731
        shapes = jax.eval_shape(lambda now: _Kept(now.loop, now.filled, plain(now).solution), first)
        lines = _Lines(shapes)

        def body(state: Any) -> Any:
            now, kept = state
            step = plain(now)
            put = lambda all, x: lax.dynamic_update_index_in_dim(all, x, now.tried, 0)  # noqa: E731
            here = lines.line(_Kept(now.loop, now.filled, step.solution))
            return _after(now, step), jax.tree.map(put, kept, here)

        going = lambda state: _goes_on(given, state[0], self.room)  # noqa: E731
        end, kept = lax.while_loop(going, body, (first, lines.room(self.room)))
        return end, (_AllKept(lines, *kept), end.tried)

    def back(
        self,
        real: Any,
        arrays: Any,
        kept: Any,
        moving: Sequence[bool],
        end: Any,
        by_equations: bool = False,
    ) -> Any:
        """The cotangents of the real numbers, those that are `moving`, from those of the end's."""
        given = self._joined(real, arrays)[0]
        tree = jax.tree.structure(real[0])
        steps, tried = kept
        given_back, loop_back = _followed_back(given, moving, steps, tried, end, by_equations)
        # the rows at first have the start among them, and nothing else that moves
        none: Any = None
        return tree.unflatten(given_back), TracedProgress(loop_back, end.rows, none, none, none)


def _followed_back(
    given: Any,
    moving: Sequence[bool],
    kept: _AllKept,
    tried: Array,
    end: TracedProgress,
    by_equations: bool,
) -> tuple[list[Any], Any]:
    """The cotangents of what is given and of the first state of the loop, from those at the end."""
    some = kept(0)
    of_given, of_loop, others = _Taken(given), _Taken(some.loop), [some.filled, some.solution]
    sizes = len(of_given.arrays), len(of_loop.arrays)

    def step(*leaves: Any) -> Any:
        given, loop = of_given.put(leaves[: sizes[0]]), of_loop.put(leaves[sizes[0] : sum(sizes)])
        filled, solution = jax.tree.unflatten(jax.tree.structure(others), leaves[sum(sizes) :])
        kind = {"differentiable": True, "by_equations": by_equations}
        done = _step(given, loop, filled, known=solution, **kind)
        return [*_Taken(done.loop).arrays, *_Taken(done.y).arrays, done.hit]

    leaves = [*of_given.arrays, *of_loop.arrays, *jax.tree.leaves(others)]
    closed = jax.make_jaxpr(step)(*leaves)
    flags = iter(moving)
    active = [next(flags) if r else False for r in [*of_given.real, *of_loop.real]]
    active += [False] * (len(leaves) - sum(sizes))
    loop = slice(sizes[0], sum(sizes))
    active[loop] = _moving_parts(closed.jaxpr, active, loop)
    wanted = active[loop]

    def body(state: tuple[Array, Sequence[Array], Sequence[Array]]) -> Any:
        k, back, total = state
        k = k - 1
        loop, filled, solution = kept(k)
        here = [*of_given.arrays, *_Taken(loop).arrays, *jax.tree.leaves([filled, solution])]
        outs, pull = followed_back(closed, here, active)
        hit = outs[-1]
        rows = [jnp.where(hit, x[filled], 0.0) for x in jax.tree.leaves(end.rows)]
        each = iter(back)
        got = pull([*(next(each) if a else None for a in wanted), *rows, None])
        got = [jnp.zeros_like(x) if y is None else y for x, y in zip([*total, *back], got)]
        count = len(total)
        return k, got[count:], [x + y for x, y in zip(total, got[:count], strict=True)]

    ends = iter(jax.tree.leaves(end.loop))
    back = [next(ends) if r else None for r in of_loop.real]
    back = [x for x, a in zip(back, wanted, strict=True) if a]
    total = [jnp.zeros_like(x) for x, a in zip(of_given.arrays, active) if a]
    _, back, total = lax.while_loop(lambda s: s[0] > 0, body, (tried, back, total))
    each = iter([*total, *back])
    found = [next(each) if a else jnp.zeros_like(x) for a, x in zip(active, leaves[: sum(sizes)])]
    real = [x for x, r in zip(found, [*of_given.real, *of_loop.real], strict=True) if r]
    count = sum(of_given.real)
    structure = jax.tree.structure(end.loop)
    return real[:count], structure.unflatten(real[count:])


def _moving_parts(jaxpr: jax_core.Jaxpr, active: Sequence[bool], loop: slice) -> list[bool]:
    """Which numbers of the loop's state move at first, or do so after some step."""
    moves = list(active)
    while True:
        found = depends(jaxpr, moves)
        more = [a or b for a, b in zip(moves[loop], found)]
        if more == moves[loop]:
            return more
        moves[loop] = more


class _Taken:
    """The arrays of a tree, one after the other, and which of them are real numbers."""

    def __init__(self, tree: Any):
        leaves, self.structure = jax.tree.flatten(tree)
        self._leaves = leaves
        self._is_array = [eqx.is_array(x) for x in leaves]
        self.arrays = [x for x, a in zip(leaves, self._is_array, strict=True) if a]
        self.real = [eqx.is_inexact_array(x) for x in self.arrays]

    def put(self, arrays: Sequence[Array]) -> Any:
        """The tree with other arrays."""
        each = iter(arrays)
        pairs = zip(self._leaves, self._is_array, strict=True)
        return self.structure.unflatten([next(each) if a else x for x, a in pairs])


def _is_zero(x: Any) -> bool:
    return isinstance(x, SymbolicZero)


def _instantiated(x: Any) -> Array:
    aval: Any = getattr(x, "aval", None)
    return jnp.zeros(aval.shape, aval.dtype) if isinstance(x, SymbolicZero) else x


def _no_tangent(x: Array) -> np.ndarray:
    return np.zeros(jnp.shape(x), jax.dtypes.float0)
