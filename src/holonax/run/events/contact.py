"""Contacts at one instant: which impulses act, and which contacts stay closed.

With u the rates of the gaps that are closed, A = N M^-1 N^T (joints included) and p the impulses,
Newton's law of restitution for those that close at the same time is the complementarity problem

    u+ = u- + A p,    0 <= p  _|_  u+ + e min(u-, 0) >= 0,    u+ >= 0.

Contacts that touch at rest are not among them: they close when the blow has come to them, and are
struck then, as the balls of Newton's cradle are one after the other, which is what gaps between
them that go to zero lead to. The same problem for all closed contacts, with accelerations for rates
and forces for impulses, says which of them press and stay closed. See Pfeiffer & Glocker, Multibody
Dynamics with Unilateral Contacts (1996).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...compiler import native
from ...system.base import Array, System
from ...system.evaluation import evaluated
from ...system.held import PULL
from .event import Event

_EPS = float(np.finfo(float).eps)
_DEPENDENT = 1e-10  # what is left of a contact's mobility where others imply it
_TOGETHER = 1e-6  # of the fastest that closes: slower ones are struck after it
_FAINT = 1e-6  # of the accelerations of free bodies: what closes a contact faster presses on it
_ROUNDS = 100  # of a blow that goes from contact to contact


class View(NamedTuple):
    """Events at a state: values, rates along the motion, and sizes of what values are made of.

    For contacts alone, in the order of the events: the change of velocity by a unit impulse along
    the gap's gradient, its effect on all gaps, the free acceleration of the gap and the size of
    what that is made of, the sizes of the gradient and of the products in the rate; and the largest
    acceleration that forces would give to free bodies.
    """

    values: Any
    rates: Any
    sizes: Any
    push: Any
    mobility: Any
    acceleration: Any
    strength: Any
    reach: Any
    speed: Any
    load: Any


@native(once=True)
def view(events: tuple[Event, ...], system: System, t: Array, q: Array, v: Array) -> View:
    """All event functions at a state, and what contacts need there."""
    values_of = lambda t, q, v: jnp.stack([e.value(system, t, q, v) for e in events])  # noqa: E731
    contacts = [e for e in events if e.is_contact]
    still, one = jnp.zeros_like(v), jnp.ones_like(t)
    factor = system.factor(q, t)
    force = system.force(q, v, t)
    a = system.at(q, t).accelerations(v, factor=factor)[0]
    values, rates = jax.jvp(values_of, (t, q, v), (one, system.qdot(q, v), a))
    sizes = jnp.abs(jax.jacrev(values_of, argnums=1)(t, q, v)) @ jnp.abs(q)
    if not contacts:
        none = jnp.zeros((0,))
        return View(values, rates, sizes, none, none, none, none, none, none, none)

    def gaps(t: Array, q: Array) -> Array:
        return jnp.stack([e.value(system, t, q, still) for e in contacts])

    def gap_rates(t: Array, q: Array, v: Array) -> Array:
        return jax.jvp(gaps, (t, q), (one, system.qdot(q, v)))[1]

    normals = jax.jacrev(lambda step: gaps(t, system.retract(q, step)))(still)
    rows = jnp.zeros((system.constraint_rate(q, v, t).shape[0],))
    push = jax.lax.map(lambda normal: factor.solve(normal, rows)[0], normals)
    along = (one, system.qdot(q, v), a)
    acceleration = jax.jvp(gap_rates, (t, q, v), along)[1]
    freely = jnp.abs(factor.weigh(force))
    strength = jnp.abs(normals) @ freely
    return View(
        values,
        rates,
        sizes,
        push,
        normals @ push.T,
        acceleration,
        strength + jnp.abs(acceleration - normals @ a),
        jnp.sum(jnp.abs(normals), axis=1),
        jnp.abs(normals) @ jnp.abs(v),
        jnp.max(freely),
    )


def pushes(A: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """p >= 0 with w = A p + b >= 0 and p w = 0; None if there is none.

    An active set method for min p A p / 2 + b p, A symmetric and positive semidefinite, after
    Lawson & Hanson (1974), 23: those that push are independent of each other at any time.
    """
    n = b.size
    scale = np.sqrt(np.maximum(np.diagonal(A), 0.0))
    fixed = scale <= 1e-12 * np.max(scale, initial=0.0)
    scale = np.where(fixed, 1.0, scale)
    A, b = A / np.outer(scale, scale), b / scale
    tol = 1e-12 * np.max(np.abs(b), initial=0.0)
    p, on = np.zeros(n), np.zeros(n, bool)
    for _ in range(10 * n + 10):
        w = np.where(on, 0.0, A @ p + b)
        j = int(np.argmin(w)) if n else 0
        if not n or w[j] >= -tol:
            return p / scale
        if fixed[j] or not _enter(j, A, b, p, on):
            return None
    return None


def _enter(j: int, A: np.ndarray, b: np.ndarray, p: np.ndarray, on: np.ndarray) -> bool:
    """Let j push, in place, until its rate is zero; others may cease to meanwhile. False if no push
    would do."""
    for _ in range(on.size + 1):
        others = np.flatnonzero(on)
        share = np.linalg.solve(A[np.ix_(others, others)], A[others, j])
        left = A[j, j] - A[j, others] @ share
        direction = np.zeros(on.size)
        direction[others], direction[j] = -share, 1.0
        enough = -(A[j] @ p + b[j]) / left if left > _DEPENDENT * A[j, j] else np.inf
        ceasing = np.flatnonzero(on & (direction < 0))
        limits = -p[ceasing] / direction[ceasing]
        first = np.min(limits, initial=np.inf)
        if not np.isfinite(min(enough, first)):
            return False
        p[:] = np.maximum(p + min(enough, first) * direction, 0.0)
        if enough <= first:
            on[j] = True
            return True
        block = ceasing[int(np.argmin(limits))]
        on[block], p[block] = False, 0.0
    return False


class Contacts:
    """The contacts among the events at (t, q, v), each seen from its open side.

    `sides` are the signs of their functions there; `reach` is the tolerance of the run for a length
    of one, from which each contact has its `slack`: how near to zero a gap is closed.
    """

    def __init__(self, seen: View, at: np.ndarray, sides: np.ndarray, t: float, tolerance: float):
        pick = lambda x: sides * np.asarray(x)[at]  # noqa: E731
        self.gap, self.rate = pick(seen.values), pick(seen.rates)
        self.push = sides[:, None] * np.asarray(seen.push)
        self.mobility = np.outer(sides, sides) * np.asarray(seen.mobility)
        self.acceleration = sides * np.asarray(seen.acceleration)
        self.strength, self.speed = np.asarray(seen.strength), np.asarray(seen.speed)
        rounding = 1e3 * _EPS * np.asarray(seen.sizes)[at] + 8 * _EPS * abs(t) * np.abs(self.rate)
        self.slack = np.asarray(seen.reach) * tolerance + rounding
        self.closed = self.gap <= self.slack
        # what forces change by where positions are off by the slack: less does not press
        off = self.slack / np.maximum(np.asarray(seen.sizes)[at], self.slack)
        load = np.asarray(seen.reach) * float(seen.load) * np.minimum(off, _FAINT)
        self.nothing = np.maximum(0.1 * PULL * self.strength, load)

    def _among(self, which: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        """The pushes of some contacts, zero for the others; None if there are none that do."""
        at = np.flatnonzero(which)
        found = pushes(self.mobility[np.ix_(at, at)], b[at])
        if found is None:
            return None
        p = np.zeros(b.size)
        p[at] = found
        return p

    @property
    def falling(self) -> np.ndarray:
        """The acceleration with which each gap would close: freely, or as others press on it."""
        force = self._among(self.closed, self.acceleration)
        pressing = 0.0 if force is None else force * np.diagonal(self.mobility)
        return np.maximum(np.maximum(-self.acceleration, 0.0), pressing)

    @property
    def slow(self) -> np.ndarray:
        """Rates at which a gap opens by no more than its slack before it closes again."""
        return np.sqrt(2 * self.slack * self.falling) + 64 * _EPS * self.speed

    def way_out(self) -> np.ndarray | None:
        """The increment of position that takes gaps back to zero; None if that is not needed."""
        if not np.any(self.gap < -self.slack / 2):
            return None
        p = self._among(self.closed, self.gap)
        return None if p is None else p @ self.push

    def impact(
        self, restitution: np.ndarray, depth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """(change of velocity, impulses) after which no closed gap closes further; None if that is
        impossible.

        A blow goes from contact to contact: those that close are struck together, then those that
        close in consequence, until none does. A blow that dies away over endless rounds is ended
        by all contacts together. `depth` is how far gaps were below zero before they were taken
        back: what they gained on the way down they do not have again.
        """
        rate, total, slow = self.rate, np.zeros(self.gap.size), self.slow
        size = np.sqrt(np.maximum(np.diagonal(self.mobility), 0.0))  # rates over it compare
        size = np.where(size > 0, size, 1.0)
        blow = np.max(np.abs(rate / size)[self.closed], initial=0.0)
        rounding = 64 * _EPS * np.maximum(self.speed, blow * size)
        for left in reversed(range(_ROUNDS)):
            closing = self.closed & (rate < -rounding)
            if not np.any(closing):
                break
            closing &= -rate / size >= _TOGETHER * np.max((-rate / size)[closing])
            speed = np.where(closing, np.abs(rate), 1.0)
            at_zero = np.sqrt(np.maximum(speed**2 - 2 * self.falling * depth, 0.0))
            e = np.where(closing, restitution * at_zero / speed, 0.0)
            e = np.where(e * speed <= slow, 0.0, e)  # a rebound that the slack would hide is none
            p = self._struck(closing if left else self.closed, rate, e)
            if p is None:
                return None
            rate, total = rate + self.mobility @ p, total + p
            depth = np.zeros_like(depth)
        return total @ self.push, total

    def _struck(self, which: np.ndarray, rate: np.ndarray, e: np.ndarray) -> np.ndarray | None:
        """The impulses of some contacts, struck together; without restitution if that would make
        energy."""
        for factor in (1.0, 0.0):
            p = self._among(which, rate + factor * e * np.minimum(rate, 0.0))
            if p is None:
                continue
            after = rate + self.mobility @ p
            gained, moved = p @ (after + rate), p @ (np.abs(after) + np.abs(rate))
            if gained <= 1e-9 * moved or factor == 0:
                return p
        return None

    def resting(self, never: np.ndarray) -> np.ndarray | None:
        """Which contacts stay closed, but for those marked in `never`; None if no forces keep all
        of them from closing.

        These are the ones that press, and as many as are independent of those that neither press
        nor open because others press: four legs of a table of which two opposite ones would carry
        it. What touches and would neither close nor open by itself, as balls that hang side by
        side, needs no one to hold it.
        """
        still = self.closed & (self.rate <= self.slow) & ~never
        force = self._among(still, self.acceleration)
        if force is None:
            return None
        opening = self.acceleration + self.mobility @ force
        stays = still & (force * np.diagonal(self.mobility) > self.nothing)
        idle = still & ~stays & (opening <= 0.1 * PULL * self.strength)
        idle &= self.acceleration < -self.nothing
        for i in np.flatnonzero(idle):
            others = np.flatnonzero(stays)
            A = self.mobility
            share = np.linalg.solve(A[np.ix_(others, others)], A[others, i])
            stays[i] = A[i, i] - A[i, others] @ share > _DEPENDENT * A[i, i]
        return stays


def moved(system: System, t: float, q: np.ndarray, v: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The configuration after an increment."""
    return np.asarray(evaluated(system, t, q, v, step=step).q)
