"""The search for a configuration at rest, in pure JAX.

    f(q, 0, t) - J(q, t)^T lam = 0,   g(q, t) = 0

The unknown is q on g = 0; lam takes up what the constraints can (see `Tangent`). What is left is
the scaled out-of-balance force r = P L^-1 f, whose length is that of the acceleration the mechanism
would have if it were let go, in the mass metric. Its derivative P L^-1 K L^-T P has the stiffness

    K = -d/dq [f - J^T lam]    with lam fixed: the geometric stiffness of loaded joints included.

Newton's steps are shortened after Deuflhard 1974: until the correction that the same K finds at
the new place is smaller, which compares displacements, so that a stiff spring does not hide a soft
one. Where K is singular the smallest step is taken. Dynamic relaxation lets the mechanism move,
with the static forces only, and stops it whenever it moves against them (kinetic damping, Cundall
1976), with the step sizes of FIRE (Bitzek et al. 2006).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.lax import while_loop

from .._modules import Module
from ..system.base import Array, System
from ..system.evaluation import DENSE
from .tangent_space import Tangent

_NEWTON_STEPS = 100
_PROJECTION_STEPS = 20
_SHORTEST = 1e-5  # part of Newton's step
_SOFTEST = 1e-12  # stiffness that counts as none, relative to the largest
_HELD = 1e-9  # largest |g| of a configuration that counts as being on g = 0, relative
_RELAXED = 1e-4  # out-of-balance force, relative, at which Newton's method takes over


class Problem(Module):
    """What is in equilibrium: the system at time t, less a part of the force `missing` (nv,).

    Loads are let in step by step by taking ever less away. With a known `rank` of the constraints
    the algebra is dense; without, it is that of the system's own factor.
    """

    system: System
    t: Array
    missing: Array
    rank: int | None = eqx.field(static=True)

    def force(self, q: Array) -> Array:
        """The static force at q."""
        return self.system.force(q, jnp.zeros_like(self.missing), self.t) - self.missing

    def by_factor(self) -> Problem:
        """The same for what is asked for often, by the system's own factor where singular values
        would be dear."""
        if self.missing.size <= DENSE:
            return self
        return Problem(self.system, self.t, self.missing, None)

    def at(self, q: Array) -> tuple[Tangent, Array]:
        """The split of directions at q and the scaled force."""
        tangent = self._tangent(q)
        return tangent, tangent.force(self.force(q))

    def _tangent(self, q: Array) -> Tangent:
        assert self.rank is not None
        return Tangent.of(self.system, q, self.t, self.rank)

    def stiffness(self, q: Array, lam: Array) -> Array:
        """K (nv, nv) at q, multipliers fixed."""
        return self.system.static_stiffness(q, self.t, lam)

    def released(self, q: Array) -> tuple[Array, Array, Array]:
        """(a, |r|, |L^-1 f|): the acceleration when let go, and the sizes of forces."""
        if self.rank is not None:
            tangent, force = self.at(q)
            r = tangent.allowed(force)
            return tangent.displacement(r), jnp.linalg.norm(r), jnp.linalg.norm(force)
        factor, f = self.system.factor(q, self.t), self.force(q)
        a, _ = factor.solve(f, self.constraint_rows(q))
        return a, self.norm(q, a), jnp.sqrt(jnp.vdot(f, factor.weigh(f)))

    def norm(self, q: Array, v: Array) -> Array:
        """sqrt(v^T M v)."""
        return jnp.sqrt(jnp.maximum(jnp.vdot(v, self.system.momentum(q, v)), 0.0))

    def constraint_rows(self, q: Array, g: Array | None = None) -> Array:
        """A zero for each constraint row, or g for the holonomic ones and zeros for others."""
        rate = jax.eval_shape(self.system.constraint_rate, q, self.missing, self.t)
        given = jnp.zeros((0,)) if g is None else g
        return jnp.pad(given, (0, rate.shape[0] - given.shape[0]))

    def allowed_velocity(self, q: Array, v: Array) -> Array:
        """v less what the constraints do not allow at q."""
        if self.rank is not None:
            tangent = self._tangent(q)
            return v - tangent.correction(tangent.jacobian @ v)
        factor = self.system.factor(q, self.t)
        return v - factor.correct(factor.apply(v))

    def onto(self, q: Array) -> tuple[Array, Array]:
        """(q, whether it was reached) on g(q, t) = 0 by the shortest way in the mass metric.

        Non-holonomic rows allow no motion along them.
        """
        system, t = self.system, self.t

        def body(now: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            q, _, count = now
            residual = self.constraint_rows(q, system.constraint(q, t))
            solver = (
                system.factor(q, t).correct if self.rank is None else (self._tangent(q).correction)
            )
            step = solver(residual)
            return system.normalize(system.retract(q, -step)), largest(step), count + 1

        def unfinished(now: tuple[Array, Array, Array]) -> Array:
            return jnp.logical_and(now[1] > 1e-13 * span(now[0]), now[2] < _PROJECTION_STEPS)

        if system.constraint(q, t).shape[0] == 0:
            return q, jnp.asarray(True)
        # a step that is not finite ends the loop as well: no comparison holds
        q, _, _ = while_loop(unfinished, body, (q, jnp.asarray(jnp.inf), jnp.asarray(0)))
        return q, largest(system.constraint(q, t)) <= _HELD * span(q)


class Found(NamedTuple):
    """Where a search ended: `size` is |r|, `scale` that of the force it is compared with;
    `stiffness` is K there, where the search had it."""

    q: Array
    size: Array
    scale: Array
    iterations: Array
    done: Array
    stiffness: Array | None = None


def largest(x: Array) -> Array:
    """The largest magnitude among the entries; zero if there are none."""
    return jnp.max(jnp.abs(x), initial=0.0)


def span(q: Array) -> Array:
    """One plus the largest coordinate: what a displacement is small against."""
    return 1 + largest(q)


# -- Newton's method -------------------------------------------------------------------------


def newton(problem: Problem, start: Found, tol: Array) -> Found:
    """Damped Newton from a configuration on g = 0.

    It ends with the step after the one that met the tolerance, which brings rounding.
    """

    quick = problem.by_factor()

    def body(now: tuple[Found, Array, Array]) -> tuple[Found, Array, Array]:
        found, fraction, count = now
        q = found.q
        y, corrected, settled = _newton_step(problem, q)
        step = fraction * y
        # far from the solution a step may mean nothing: half the mechanism's size, half a radian
        limit = jnp.minimum(1.0, 0.5 * span(q) / jnp.maximum(largest(step), 1e-300))
        moved = problem.system.normalize(problem.system.retract(q, limit * step))
        trial, held = quick.onto(moved)
        a, size, scale = quick.released(trial)
        smaller = problem.norm(q, corrected(a)) < (1 - fraction * limit / 4) * problem.norm(q, y)
        better = jnp.logical_and(held, smaller)
        met = found.size <= tol * found.scale
        new = Found(
            jnp.where(better, trial, q),
            jnp.where(better, size, found.size),
            jnp.where(better, jnp.maximum(found.scale, scale), found.scale),
            found.iterations + 1,
            jnp.logical_or(met, settled),
        )
        return new, jnp.where(better, jnp.minimum(2 * fraction, 1.0), fraction / 3), count + 1

    def unfinished(now: tuple[Found, Array, Array]) -> Array:
        found, fraction, count = now
        going = jnp.logical_and(count < _NEWTON_STEPS, fraction > _SHORTEST)
        return jnp.logical_and(~found.done, going)

    _, size, scale = quick.released(start.q)
    first = start._replace(
        size=size, scale=jnp.maximum(start.scale, scale), done=jnp.asarray(False)
    )
    return while_loop(unfinished, body, (first, jnp.ones(()), jnp.asarray(0)))[0]


def _newton_step(problem: Problem, q: Array) -> tuple[Array, Any, Array]:
    """(step, the step that K finds for another acceleration, whether it is only rounding)."""
    tangent, force = problem.at(q)
    r = tangent.allowed(force)
    K = tangent.force(tangent.force(problem.stiffness(q, tangent.multipliers(force))).T).T
    K = tangent.allowed(tangent.allowed(K).T).T
    u, s, vt = jnp.linalg.svd(K)
    inverse = 1 / jnp.where(s > _SOFTEST * jnp.max(s, initial=0.0), s, jnp.inf)

    def solved(r: Array) -> Array:
        return tangent.allowed(vt.T @ (inverse * (u.T @ r)))

    def corrected(a: Array) -> Array:
        return tangent.displacement(solved(tangent.allowed(tangent.lower.T @ a)))

    y = solved(r)
    step = tangent.displacement(y)
    # where K is singular a step may be short and leave the force as it is
    solves = jnp.linalg.norm(r - K @ y) <= 0.5 * jnp.linalg.norm(r)
    return step, corrected, jnp.logical_and(solves, largest(step) <= 1e-13 * span(q))


# -- dynamic relaxation ----------------------------------------------------------------------


class _Moving(NamedTuple):
    found: Found
    v: Array
    a: Array
    dt: Array
    mixing: Array
    downhill: Array


def relax(problem: Problem, start: Found, enough: Array, most: int) -> Found:
    """Dynamic relaxation until |r| <= enough * scale, at most `most` steps."""
    system = problem.system

    def body(now: _Moving) -> _Moving:
        found, q = now.found, now.found.q
        forward = jnp.vdot(now.v, system.momentum(q, now.a)) >= 0
        downhill = jnp.where(forward, now.downhill + 1, 0)
        faster = downhill > 5
        dt = now.dt * jnp.where(forward, jnp.where(faster, 1.1, 1.0), 0.5)
        mixing = jnp.where(forward, now.mixing * jnp.where(faster, 0.99, 1.0), 0.1)
        turned = now.a * (problem.norm(q, now.v) / jnp.maximum(found.size, 1e-300))
        v = jnp.where(forward, (1 - mixing) * now.v + mixing * turned, 0.0) + dt * now.a
        reach = 0.1 * span(q) / jnp.maximum(largest(v), 1e-300)
        moved = system.normalize(system.retract(q, jnp.minimum(dt, reach) * v))
        new, held = problem.onto(moved)
        a, size, scale = problem.released(new)
        v = problem.allowed_velocity(new, v)
        good = jnp.logical_and(held, size < jnp.inf)
        scale = jnp.maximum(found.scale, scale)
        found = Found(
            jnp.where(good, new, q),
            jnp.where(good, size, found.size),
            jnp.where(good, scale, found.scale),
            found.iterations + 1,
            jnp.logical_and(good, size <= enough * scale),
        )
        return _Moving(
            found,
            jnp.where(good, v, 0.0),
            jnp.where(good, a, now.a),
            jnp.where(good, dt, 0.1 * dt),
            mixing,
            jnp.where(good, downhill, 0),
        )

    def unfinished(now: _Moving) -> Array:
        going = now.found.iterations < start.iterations + most
        return jnp.logical_and(~now.found.done, jnp.logical_and(going, now.dt > 0))

    a, size, scale = problem.released(start.q)
    scale = jnp.maximum(start.scale, scale)
    found = Found(start.q, size, scale, start.iterations, size <= enough * scale)
    dt = _first_step(problem, start.q, a)
    rest = jnp.zeros_like(problem.missing)
    first = _Moving(found, rest, a, dt, jnp.asarray(0.1), jnp.asarray(0))
    return while_loop(unfinished, body, first).found


def _first_step(problem: Problem, q: Array, a: Array) -> Array:
    """A tenth of the reciprocal frequency along `a`, or what moves by a hundredth if shorter."""
    change = jax.jvp(
        lambda step: problem.force(problem.system.retract(q, step)), (jnp.zeros_like(a),), (a,)
    )[1]
    stiffness, inertia = jnp.abs(jnp.vdot(a, change)), jnp.vdot(a, problem.system.momentum(q, a))
    by_frequency = 0.1 * jnp.sqrt(inertia / jnp.maximum(stiffness, 1e-300))
    by_distance = jnp.sqrt(0.02 * span(q) / jnp.maximum(largest(a), 1e-300))
    return jnp.minimum(by_frequency, by_distance)


# -- both, with loads let in step by step ----------------------------------------------------


def search(
    system: System,
    q: Array,
    t: Array,
    load_steps: Array,
    tol: Array,
    *,
    rank: int | None,
    relaxation: bool,
    relaxation_steps: int,
) -> Found:
    """Equilibrium near q, by Newton's method or with relaxation before it.

    With rank=None by relaxation alone, to the full tolerance.
    """
    v = jnp.zeros((system.velocity_size(q.shape[0]),))
    q, held = Problem(system, t, v, rank).by_factor().onto(q)
    loads = system.force(q, v, t)

    def step(now: tuple[Found, Array]) -> tuple[Found, Array]:
        found, k = now
        problem = Problem(system, t, (1 - (k + 1) / load_steps) * loads, rank)
        if rank is None:
            return relax(problem, found, tol, relaxation_steps), k + 1
        if relaxation:
            found = relax(problem.by_factor(), found, jnp.asarray(_RELAXED), relaxation_steps)
        return newton(problem, found, tol), k + 1

    def unfinished(now: tuple[Found, Array]) -> Array:
        found, k = now
        return jnp.logical_and(found.done, k < load_steps)

    first = Found(q, jnp.asarray(jnp.inf), jnp.zeros(()), jnp.asarray(0), held)
    found, _ = while_loop(unfinished, step, (first, jnp.asarray(0)))
    return found
