"""Equilibria of mechanisms with beams: Newton's method under a load that is let in by increments.

    f(q, 0, t) - G^T lam = 0,   g(q, t) = 0

Slender beams are far stiffer against extension than against bending, so that a bending step of
Newton's method strains them, and the next matrix has the forces of that strain in it: the method
needs tiny steps. The cure is to iterate with section forces s of their own (Magisano, Leonetti,
Garcea 2017): eliminated, they leave the equations as they are, and the matrix with the
geometric stiffness of s, which follows the *linearised* strain,

    (B^T C B + d(B^T s)/dq) dq + G^T lam = f,   s <- C (strain + B dq).

A cantilever is rolled up to a full circle in three such steps. An increment of the load that does
not converge is halved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import while_loop

from .._modules import Module
from ..linalg import lu, lu_solve
from ..system.base import Array, System
from .statics import Found, largest, span

_STEPS = 30  # of Newton's method in one increment
_EASY = 8  # steps after which the next increment may be larger
_SMALLEST = 1e-3  # increment, part of the first one
_FAR = 1e3  # a step of so many times the size of the mechanism leads nowhere
_SMALL = 1e-9  # a step, relative, that may be rounding


class State(NamedTuple):
    """Coordinates, multipliers, and section forces of their own."""

    q: Array
    lam: Array
    loads: tuple[Array, ...]


class _Solved(NamedTuple):
    """A step of Newton's method: where it leads, and what it was found with."""

    state: State
    stiffness: Array
    step: Array  # its largest component
    left: Array  # the largest force that is out of balance before it
    steps: Array
    done: Array


class _Path(NamedTuple):
    last: _Solved
    level: Array  # the part of the load that is in
    increment: Array
    iterations: Array


def mixed_stiffness(
    system: System, t: Array, now: State
) -> tuple[Array, Callable[[Array], tuple[Array, ...]]]:
    """(K with the geometric stiffness of multipliers and section forces, the section forces that
    follow the strain linearised along a step)."""
    q = now.q
    nothing = jnp.zeros((system.velocity_size(q.shape[0]),))
    strained = lambda step: system.section_loads(system.retract(q, step))  # noqa: E731
    elastic, change = jax.linearize(strained, nothing)
    extra = tuple(x - y for x, y in zip(now.loads, elastic, strict=True))

    def following(step: Array) -> tuple[Array, ...]:
        return tuple(x + y for x, y in zip(elastic, change(step), strict=True))

    stiff = system.with_preloads(extra)
    return stiff.static_stiffness(q, t, now.lam), following


def settled(step: Array, before: Array, size: Array) -> Array:
    """Whether a step of Newton's method is nothing against `size`, or rounding: small, and not
    much smaller than the one before."""
    return (step <= 1e-14 * size) | ((step <= _SMALL * size) & (step > 0.25 * before))


class LoadedProblem(Module):
    """A system at time t that lacks (1 - level) `loads` of its force."""

    system: System
    t: Array
    loads: Array
    redundant: bool = eqx.field(static=True)

    def newton_step(self, now: _Solved, level: Array) -> _Solved:
        """The next state."""
        system, t, q, lam = self.system, self.t, now.state.q, now.state.lam
        nothing = jnp.zeros_like(self.loads)
        K, following = mixed_stiffness(system, t, now.state)
        force = system.force(q, nothing, t) - (1 - level) * self.loads
        g, G = system.constraint(q, t), system.jacobian(q, t)
        rates = jnp.zeros((G.shape[0] - g.shape[0],))  # non-holonomic rows allow no motion
        step, new = _bordered(K, G, force, jnp.concatenate([-g, rates]), self.redundant)
        loads = following(step)
        size = largest(step)
        return _Solved(
            State(system.normalize(system.retract(q, step)), new, loads),
            K,
            size,
            largest(force - G.T @ lam),
            now.steps + 1,
            settled(size, now.step, span(q)),
        )

    def solved(self, start: _Solved, level: Array) -> _Solved:
        """Newton's method with a part of the load."""

        def unfinished(now: _Solved) -> Array:
            near = now.step <= _FAR * span(now.state.q)  # false also where it is not a number
            return ~now.done & ((now.steps == 0) | near) & (now.steps < _STEPS)

        first = start._replace(
            step=jnp.asarray(jnp.inf), steps=jnp.asarray(0), done=jnp.asarray(False)
        )
        return while_loop(unfinished, lambda now: self.newton_step(now, level), first)


def _bordered(K: Array, G: Array, f: Array, g: Array, redundant: bool) -> tuple[Array, Array]:
    """(dx, lam) with K dx + G^T lam = f and G dx = g, rows and columns scaled."""
    n, m = K.shape[0], G.shape[0]
    size = jnp.max(jnp.abs(K), axis=1)
    scale = 1 / jnp.sqrt(jnp.where(size > 0, size, 1.0))
    rows = G * scale
    length = jnp.linalg.norm(rows, axis=1)
    weight = 1 / jnp.where(length > 0, length, 1.0)
    rows = rows * weight[:, None]
    corner = -1e-13 * jnp.eye(m) if redundant else jnp.zeros((m, m))
    matrix = jnp.block([[K * scale[:, None] * scale, rows.T], [rows, corner]])
    right = jnp.concatenate([f * scale, g * weight])
    factor = lu(matrix)
    solution = lu_solve(factor, right)
    solution += lu_solve(factor, right - matrix @ solution)
    return solution[:n] * scale, solution[n:] * weight


def loaded(system: System, q: Array, t: Array, load_steps: Array, *, redundant: bool) -> Found:
    """The equilibrium near q, its loads let in by at least `load_steps` increments."""
    n = system.velocity_size(q.shape[0])
    rest = jnp.zeros((n,))
    loads = system.force(q, rest, t)
    problem = LoadedProblem(system, t, loads, redundant)
    most = 1 / load_steps

    def body(now: _Path) -> _Path:
        level = now.level + now.increment
        level = jnp.where(level > 1 - 1e-9, 1.0, level)
        tried = problem.solved(now.last, level)
        easy = jnp.where(tried.steps <= _EASY, 2.0, 1.0)
        increment = now.increment * jnp.where(tried.done, easy, 0.5)
        return _Path(
            jax.tree.map(lambda x, y: jnp.where(tried.done, x, y), tried, now.last),
            jnp.where(tried.done, level, now.level),
            jnp.minimum(increment, most),
            now.iterations + tried.steps,
        )

    def unfinished(now: _Path) -> Array:
        return (now.level < 1) & (now.increment >= _SMALLEST * most)

    rows = jax.eval_shape(system.constraint_rate, q, rest, t).shape[0]
    state = State(q, jnp.zeros((rows,)), tuple(jnp.zeros(x) for x in system.section_shapes()))
    never, zero = jnp.asarray(jnp.inf), jnp.asarray(0)
    first = _Solved(state, jnp.zeros((n, n)), never, never, zero, jnp.asarray(False))
    path = while_loop(unfinished, body, _Path(first, jnp.zeros(()), most, zero))
    last = path.last
    return Found(
        last.state.q, last.left, largest(loads), path.iterations, path.level == 1, last.stiffness
    )
