"""Static equilibrium: where a mechanism stays when it is let go at rest.

    f(q, 0, t) - J(q, t)^T lam = 0,   g(q, t) = 0

`statics.py` searches; this module asks the question, differentiates the answer by the implicit
function theorem, and puts it into words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import checked_call, choice
from .._messages import listed
from .._modules import Module
from .._numbers import count, finite_number
from ..compiler import native
from ..result.along import BeamMotion, beam_motion
from ..start.consistent import Start, consistent, constraint_rows
from ..start.diagnosis import unique
from ..system.base import Array, System
from ..system.beam import MOST_TURN
from ..system.frames import PlanarFrame
from ..system.mechanism import Mechanism
from ..system.reaction_forces import refuse_reaction_forces
from .checks import as_start, check_system, is_traced, known, unit
from .load_steps import loaded
from .sensitivity import EquilibriumSensitivity, equilibrium_sensitivity
from .statics import Found, Problem, search
from .tangent_space import Tangent

if TYPE_CHECKING:
    pass

_NEUTRAL = 1e-9  # stiffness that counts as none, relative to the largest
_NEUTRAL_BEAM = 1e-13  # of slender beams, which are soft against their own stiffest motions
_TURNED = 0.3  # rad that an element has turned by where its coarseness may be what is wrong
_METHODS = ("newton", "relaxation")
_RELAXATION_STEPS = 5_000
_RELAXATION_STEPS_ALONE = 100_000  # for systems too large for Newton's dense matrices


def neutral_stiffness(system: System) -> float:
    """The stiffness that counts as none, relative to the largest."""
    return _NEUTRAL_BEAM if system.section_shapes() else _NEUTRAL


class Pose(Module):
    """Where a body is: `position` [m] of the origin of its coordinates, and `rotation`, the matrix
    of its axes, or `angle` [rad] in the plane."""

    position: Array
    rotation: Array | None = None
    angle: Array | None = None


class Equilibrium(Module):
    """A configuration at rest, or the best that was found.

    `q` and `lam` are the coordinates and multipliers (of least norm where constraints are
    redundant), `t` the time at which drivers and loads are taken. `unbalanced` (nv,) is the force
    that is left on each coordinate of v [N, N m], `misfit` (rows) what is left of the constraints.
    `stable` says whether every small motion from here is resisted: the stiffness, with the
    geometric one of the loaded joints, is positive on all motions that are free; `softest` is its
    lowest eigenvalue (in the mass metric) over the largest. Both are None for systems too large
    for dense algebra, and for those with states of first order, of which `linearize` tells.
    `q` has the values of these states at the first coordinates of their carriers. `success`,
    `iterations` and `message` say how the search went.
    ``rest["name"]`` is the place of a body, ``rest.beam("name")`` what happens along a beam.
    """

    system: System
    t: Array
    q: Array
    lam: Array
    unbalanced: Array
    misfit: Array
    relative: Array
    iterations: Array
    success: Array
    softest: Array | None
    rank: int | None = eqx.field(static=True)

    def __getitem__(self, name: str) -> Pose:
        """Where the body `name` is, or a node of a beam such as ``"beam.end"``."""
        frame = self._mechanism("the place of a body").frame_of(name, self.q, 0.0 * self.unbalanced)
        if isinstance(frame, PlanarFrame):
            return Pose(frame.r.array(), angle=frame.angle)
        return Pose(frame.r.array(), rotation=frame.A.array())

    def state(self, name: str) -> Array:
        """The value of a state of first order."""
        system = self._mechanism("a state")
        value = system.quantity(name)
        return value(self.t, system.started(self.q), system.resting_velocity(self.q))

    def beam(self, name: str) -> BeamMotion:
        """The shape, strains and section forces of a beam."""
        system = self._mechanism("a beam")
        return beam_motion(system, name, self.q, 0.0 * self.unbalanced)

    def _mechanism(self, what: str) -> Mechanism:
        if not isinstance(self.system, Mechanism):
            raise TypeError(
                f"{what} needs a mechanism made with hx.Model; this equilibrium belongs to a "
                f"{type(self.system).__name__}, which knows coordinates only (use .q)."
            )
        return self.system

    @checked_call
    def sensitivity(self, parameters: Sequence[str] | str) -> EquilibriumSensitivity:
        """How it changes with the named parameters, of ``system.parameters()``: derivatives of q,
        lam and of quantities by name.

        By the implicit function theorem, of the equilibrium that moves continuously with the
        parameters; where some motion meets no resistance, of that which moves least (in the mass
        metric). Raises a `ValueError` where there is none.

        ```python
        change = rest.sensitivity(["spring.stiffness", "rod.mass"])
        change.quantity("rod.angle")["spring.stiffness"]  # rad / (N m/rad)
        ```
        """
        return equilibrium_sensitivity(self, parameters)

    @property
    def start(self) -> Start:
        """This configuration at rest as a start for `hx.simulate`."""
        v = np.asarray(self.system.resting_velocity(self.q))
        return consistent(self.system, self.system.started(self.q), v, t=float(self.t))

    @property
    def stable(self) -> Array | None:
        """Whether every small motion is resisted, by more than rounding."""
        return None if self.softest is None else self.softest > neutral_stiffness(self.system)

    @property
    def residual(self) -> Array:
        """The largest unbalanced force [N, N m]."""
        return jnp.max(jnp.abs(self.unbalanced))

    @property
    def message(self) -> str:
        """How the search went; names the object behind a failure."""
        if is_traced((self.q, self.unbalanced, self.success)):
            return "an equilibrium that is being differentiated or compiled"
        steps = f"{int(self.iterations)} iterations"
        if bool(self.success):
            return f"equilibrium found in {steps}{self._kind()}"
        misfit = np.nan_to_num(np.abs(np.asarray(self.misfit)), nan=np.inf)
        if np.max(misfit, initial=0.0) > 1e-6:
            names = self.system.constraint_names(self.lam.shape[0])
            worst = [names[i] for i in np.argsort(-misfit) if misfit[i] >= 0.1 * misfit.max()]
            return (
                f"no equilibrium found in {steps}: the constraints of {listed(unique(worst), 4)} "
                f"cannot be met at t = {float(self.t):g} s, {misfit.max():.3g} is left. Give a "
                "closer start, or another t."
            )
        has_beams = isinstance(self.system, Mechanism) and self.system.beams
        if has_beams and self._turn()[0] > _TURNED:
            return (
                f"no equilibrium found in {steps}: beyond a part of the load nothing converges; "
                f"{self.most_turned()} Give the beam more elements, or more load_steps."
            )
        name, force = self._worst()
        return (
            f"no equilibrium found in {steps}: {name} is out of balance by {force}. Give a closer "
            'start, more load_steps, or method="relaxation"; see that something holds every motion '
            "against the loads."
        )

    def _turn(self) -> tuple[float, str, int]:
        """By how much the beam element that turns most does [rad], its beam and its number."""
        found = []
        for place in self._mechanism("a beam").beams:
            turns = self.beam(place.name).turns
            found.append((float(np.max(turns)), place.name, int(np.argmax(turns))))
        return max(found)

    def most_turned(self) -> str:
        """What is said of the beam element that turns most, where no more load is taken."""
        turn, name, element = self._turn()
        return (
            f"beam {name!r}, element {element}, turns most, by {turn:.3g} rad of the {MOST_TURN} "
            "that an element may."
        )

    def _kind(self) -> str:
        """How it answers small motions, in words."""
        if self.softest is None:
            return ""
        if bool(self.stable):
            return ", stable"
        if float(self.softest) >= -neutral_stiffness(self.system):
            return ", neutral: some motion meets no resistance"
        return ', unstable (method="relaxation" goes to a stable one)'

    def check_owner(self, asked: str, system: System) -> None:
        """Refuse a system with other coordinates or constraints than this equilibrium has."""
        names = system.coordinate_names(self.q.shape[0])
        rest = jnp.zeros_like(self.unbalanced)
        try:
            rows = constraint_rows(system, self.q, rest)
        except (TypeError, ValueError, IndexError):
            rows = -1
        if rows != self.lam.shape[0] or names != self.system.coordinate_names(self.q.shape[0]):
            raise ValueError(
                f"{asked}: the equilibrium, with {self.q.shape[0]} coordinates and "
                f"{self.lam.shape[0]} constraint rows, belongs to another system. Find one of this "
                "system with hx.equilibrium."
            )

    def _worst(self) -> tuple[str, str]:
        """The coordinate that would be accelerated most, and the force on it."""
        force = np.nan_to_num(np.asarray(self.unbalanced), nan=np.inf)
        mass = np.asarray(self.system.mass_matrix(self.q))
        worst = int(np.argmax(np.abs(force) / np.sqrt(np.diag(mass))))
        name = self.system.velocity_names(force.size)[worst]
        return name, f"{abs(force[worst]):.3g}{unit(self.system, name)}"

    def __str__(self) -> str:
        if is_traced((self.q, self.unbalanced, self.success)):
            return f"holonax equilibrium: {self.message}"
        status = "success" if bool(self.success) else "FAILED"
        name, force = self._worst()
        nq, nv = self.q.shape[0], self.unbalanced.shape[0]
        states, hidden = self.system.states(nv), self.system.carriers(nq)
        names = self.system.coordinate_names(nq)
        for k in states:
            names[k] = self.system.velocity_names(nv)[k]
        seen = [k for k in range(nq) if k not in hidden or k in states]
        pairs = [f"{names[k]} = {float(self.q[k]):.6g}" for k in seen]
        return "\n".join(
            [
                f"holonax equilibrium: {status}, {self.message}",
                f"  at          {listed(pairs, 9)}",
                f"  residual    {force} on {name}, |g| <= "
                f"{float(jnp.max(jnp.abs(self.misfit), initial=0.0)):.1e}",
            ]
        )

    def __repr__(self) -> str:
        return f"<Equilibrium: {self.message}>"


@checked_call
def equilibrium(
    system: System,
    start: Any,
    *,
    t: float | None = None,
    method: Literal["newton", "relaxation"] = "newton",
    load_steps: int = 1,
    tol: float = 1e-10,
) -> Equilibrium:
    """The static equilibrium near `start`.

    **Arguments:**

    - `start`: where to begin: from `consistent` or `model.build()`, an earlier `Equilibrium`, a
      vector q, or a pair (q, v). Velocities mean nothing here.
    - `t`: the time [s] at which drivers and loads are taken and held; the start's by default.
    - `method`: ``"newton"`` goes to the nearest equilibrium, stable or not, and relaxes where it
      gets stuck; ``"relaxation"`` lets the mechanism move and stops it whenever it moves against
      its forces, so it goes downhill, to a stable one.
    - `load_steps`: in how many equal steps the force that is out of balance at the start (weight
      and loads, where the springs start relaxed) is let in. Each begins at the equilibrium of the
      one before: for loads that move the mechanism far.
    - `tol`: the largest acceleration left, relative to the one the forces would give without
      constraints, both in the mass metric.

    Non-holonomic rows carry loads as well; the equilibrium is one of those that allowed steps
    lead to. No convergence is no error: `success` is false and `message` names the body that is
    out of balance.

    The result can be differentiated with respect to the parameters in `system` (forward and
    reverse, to any order); give a `Start` made beforehand then.
    """
    options = _checked(t, method, load_steps, tol)
    check_system("equilibrium", system)
    refuse_reaction_forces("equilibrium", system)
    if isinstance(start, Equilibrium):
        start.check_owner("equilibrium", system)
        rank, q, t0 = start.rank, start.q, start.t
        redundant = start.system.has_redundant_constraints
    else:
        start = as_start("equilibrium", system, start)
        rank = None if start.diagnosis is None else start.diagnosis.rank
        q, redundant, t0 = start.q, start.redundant, start.t
        states = system.states(int(start.v.shape[0]))
        if states.size:
            q = jnp.asarray(q).at[states].set(jnp.asarray(start.v)[states])
    if redundant:
        system = system.with_redundant_constraints()
    time = jnp.asarray(t0 if t is None else t, dtype=float)
    # The search is kept out of what is differentiated, so that it is not compiled again for it.
    resting = system.at_rest()  # its states are positions
    arguments = (*jax.lax.stop_gradient((resting, q, time)), *options)
    found = _found(arguments, rank, method == "relaxation" or rank is None)
    answer = _answer(resting, time, rank, found)
    if resting is system:
        return answer
    # whether small motions are resisted is no question of stiffness alone: see `linearize`
    return replace(answer, system=system, softest=None)


def _checked(t: Any, method: object, load_steps: Any, tol: Any) -> tuple[Array, Array]:
    """The options as numbers for the compiled search."""
    if t is not None and not is_traced(t):
        finite_number("equilibrium", "t", t)
    choice("equilibrium", "method", method, _METHODS)
    load_steps = count("equilibrium", "load_steps", load_steps)
    tol = finite_number("equilibrium", "tol", tol, positive=True)
    return jnp.asarray(load_steps), jnp.asarray(tol)


def _found(arguments: tuple[Any, ...], rank: int | None, relaxation: bool) -> Found:
    """Where the search ends; Newton's method alone is followed by relaxation where it fails."""
    one = _search if is_traced(arguments) else _search_once
    found = one(*arguments, rank, relaxation)
    if relaxation:
        return found
    done = known(found.done)
    if done is None:  # inside a compiled program, which must hold both
        again = lambda *given: _search(*given, rank, True)  # noqa: E731
        return jax.lax.cond(found.done, lambda *_: found, again, *arguments)
    if done or not np.isfinite(found.size):  # found, or nowhere to relax from
        return found
    return _search_once(*arguments, rank, True)


def _searched(
    system: System,
    q: Array,
    t: Array,
    load_steps: Array,
    tol: Array,
    rank: int | None,
    relaxation: bool,
) -> Found:
    steps = _RELAXATION_STEPS_ALONE if rank is None else _RELAXATION_STEPS
    if rank is not None and not relaxation and system.section_shapes():
        redundant = system.has_redundant_constraints
        return loaded(system, q, t, load_steps, redundant=redundant)
    options = {"rank": rank, "relaxation": relaxation, "relaxation_steps": steps}
    return search(system, q, t, load_steps, tol, **options)


# As a part of another program a search is compiled as that is.
_search = jax.jit(_searched, static_argnums=(5, 6))
_search_once = native(_searched, static=(5, 6))


def _answer(system: System, t: Array, rank: int | None, found: Found) -> Equilibrium:
    if is_traced((system, t, found)):
        numbers = _traced_numbers(system, t, found, rank, True)
    else:
        numbers = _numbers_once(system, t, found, rank, False)
    return Equilibrium(system=system, t=t, **jax.tree.map(jnp.asarray, numbers), rank=rank)


def _numbers(
    system: System, t: Array, found: Found, rank: int | None, differentiated: bool
) -> dict[str, Any]:
    """What is told of an equilibrium."""
    nothing = jnp.zeros((system.velocity_size(found.q.shape[0]),))
    whole = Problem(system, t, nothing, rank)
    if rank is None:
        factor = system.factor(found.q, t)
        a, lam = factor.solve(whole.force(found.q), whole.constraint_rows(found.q))
        q, softest = found.q, None
        unbalanced = system.momentum(q, a)
    else:
        q = _differentiable(whole, found.q) if differentiated else system.normalize(found.q)
        tangent, force = whole.at(q)
        lam = tangent.smallest(tangent.multipliers(force))
        unbalanced = tangent.lower @ tangent.allowed(force)
        softest = _softest(whole, q, tangent, lam, found.stiffness)
    return {
        "q": q,
        "lam": lam,
        "unbalanced": unbalanced,
        "misfit": system.constraint(q, t),
        "relative": found.size / jnp.maximum(found.scale, 1e-300),
        "iterations": found.iterations,
        "success": found.done,
        "softest": softest,
    }


_traced_numbers = jax.jit(_numbers, static_argnums=(3, 4))
_numbers_once = native(_numbers, once=True, static=(3, 4))


def _differentiable(problem: Problem, found: Array) -> Array:
    """`found` as a function of the parameters: the root of as many equations as coordinates.

    Z^T (f - J^T lam) = 0 and the independent constraint rows; Z and the choice of rows are those
    of the solution, lam takes up what it can. Non-holonomic rows allow no motion along them.
    """
    system, t = problem.system, problem.t
    tangent, _ = jax.lax.stop_gradient(problem).at(found)
    allowed, independent = tangent.frozen_split()
    rows = jax.lax.stop_gradient(tangent.jacobian)
    holonomic = system.constraint(found, t).shape[0]

    def equations(step: Array) -> Array:
        q = system.retract(found, step)
        at, force = problem.at(q)
        balance = at.lower @ at.allowed(force)
        misfit = jnp.concatenate([system.constraint(q, t), rows[holonomic:] @ step])
        return jnp.concatenate([allowed @ balance, independent @ misfit])

    def tangent_solve(linear: Any, y: Array) -> Array:
        matrix = jax.jacfwd(linear)(jnp.zeros_like(y))
        size = jnp.max(jnp.abs(matrix), axis=1)
        size = jnp.where(size > 0, size, 1.0)
        return jnp.linalg.solve(matrix / size[:, None], y / size)

    nothing = jnp.zeros_like(problem.missing)
    step = jax.lax.custom_root(equations, nothing, lambda _, x: x, tangent_solve)
    return system.normalize(system.retract(found, step))


def _softest(
    problem: Problem, q: Array, tangent: Tangent, lam: Array, known: Array | None
) -> Array:
    """The lowest eigenvalue of the stiffness on the allowed motions, over the largest.

    Where the search knew the stiffness there are beams, whose rotations have next to no inertia:
    motions are compared by their own stiffness then instead of their mass.
    """
    problem, q, tangent, lam, known = jax.lax.stop_gradient((problem, q, tangent, lam, known))
    if known is None:
        basis = tangent.basis()
        K = problem.stiffness(q, lam)
    else:
        size = jnp.max(jnp.abs(known), axis=1)
        scale = 1 / jnp.sqrt(jnp.where(size > 0, size, 1.0))
        K = known * scale[:, None] * scale
        basis = jnp.linalg.svd(tangent.jacobian * scale)[2][tangent.rank :].T
    if basis.shape[1] == 0:
        return jnp.ones(())
    K = basis.T @ K @ basis
    eigenvalues = jnp.linalg.eigvalsh((K + K.T) / 2)
    return eigenvalues[0] / jnp.maximum(jnp.max(jnp.abs(eigenvalues)), 1e-300)
