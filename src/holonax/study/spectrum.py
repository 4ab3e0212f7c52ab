"""Spectral radius of any pair on a linear constrained problem, from the derivative of its step.

The step map of formulation and integrator, stabilization included, is differentiated at rest, over
the whole state that the method carries. So it holds for every pair: Welch's X and Baumgarte's
amplification matrix are two of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .._arguments import checked_call
from .._numbers import array, finite_number
from ..formulation import Formulation
from ..problem import StepContext
from ..run.loop_parts import StabilizedSolver, problem_term
from ..run.pairs import check_pair, default_integrator
from ..start.consistent import check_shapes
from ..system import FunctionSystem, System
from ..system.base import Array, check_system

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_HISTORY = 16  # steps after which every multistep method has its history


def _mass(q: Array, p: Mapping[str, Array]) -> Array:
    return jnp.ones(2)


def _force(q: Array, v: Array, t: Array, p: Mapping[str, Array]) -> Array:
    return -p["stiffness"] * q - p["damping"] * v


def _constraint(q: Array, t: Array, p: Mapping[str, Array]) -> Array:
    return q[:1] - q[1:]


@checked_call
def linear_problem(stiffness: float = 0.0, damping: float = 0.0) -> System:
    """Two unit masses held together, q1 = q2, each on a spring and a damper to the ground."""
    return FunctionSystem(
        mass=_mass,
        force=_force,
        constraint=_constraint,
        parameters={"stiffness": stiffness, "damping": damping},
    )


@eqx.filter_jit
def _step_matrix(
    system: System, formulation: Formulation, solver: StabilizedSolver, q: Array, dt: Array
) -> Array:
    """Derivative of one step at rest, once the method has its history."""
    terms = problem_term(formulation)
    context = StepContext(system, dt, formulation)
    t, v = jnp.zeros(()), jnp.zeros((system.velocity_size(q.shape[0]),))
    y = solver.solver.first_state(context, t, q, v)
    state = solver.init(terms, t, dt, y, context)

    def step(n: Any, now: tuple[Any, Any]) -> tuple[Any, Any]:
        t = n * dt
        y, _, _, state, _ = solver.step(terms, t, t + dt, now[0], context, now[1], True)
        return jax.tree.map(jnp.asarray, (y, state))

    y, state = jax.tree.map(jnp.asarray, (y, state))
    # The history is one of rest: an unstable method would make a motion of its rounding.
    state = jax.lax.fori_loop(0, _HISTORY, lambda n, x: step(n * jnp.ones(()), (y, x))[1], state)
    rest = (y, state)
    moving, fixed = eqx.partition(rest, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(moving)

    def mapped(x: Array) -> Array:
        after = step(_HISTORY * jnp.ones(()), eqx.combine(unravel(x), fixed))
        return ravel_pytree(eqx.filter(after, eqx.is_inexact_array))[0]

    return jax.jacfwd(mapped)(flat)


@checked_call
def step_matrix(
    formulation: Formulation,
    integrator: Any = None,
    dt: float = 1.0,
    *,
    system: System | None = None,
    q: ArrayLike | None = None,
) -> np.ndarray:
    """The derivative of one step of the pair at rest in the configuration `q`.

    **Arguments:**

    - `system`: a system for which `q` is an equilibrium; by default `linear_problem()` at zero.
    - `dt`: step size [s].

    Rows and columns are the whole state: q, v, and all the method carries from step to step.
    """
    if integrator is None and isinstance(formulation, Formulation):
        integrator = default_integrator(formulation)
    check_pair(formulation, integrator)
    system = linear_problem() if system is None else system
    check_system("step_matrix", system)
    q = array("step_matrix", "q", np.zeros(2) if q is None else q, (None,))
    dt = finite_number("step_matrix", "dt", dt, positive=True)
    check_shapes(system, q, np.zeros(system.velocity_size(q.shape[0])), 0.0)
    solver = StabilizedSolver(integrator, formulation)
    q = jnp.asarray(q, dtype=float)
    matrix = _step_matrix(system, formulation, solver, q, jnp.asarray(dt, dtype=float))
    return np.asarray(matrix)


@checked_call
def spectral_radius(
    formulation: Formulation,
    integrator: Any = None,
    dt: float = 1.0,
    *,
    system: System | None = None,
    q: ArrayLike | None = None,
) -> float:
    """The largest modulus of an eigenvalue of `step_matrix`: above 1, perturbations grow.

    A simple eigenvalue 1 belongs to the free motion along the constraint.
    """
    matrix = step_matrix(formulation, integrator, dt, system=system, q=q)
    return float(np.max(np.abs(np.linalg.eigvals(matrix))))
