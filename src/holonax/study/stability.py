"""Linear stability of any integrator, from the derivative of its own step.

The test equation y' = z y (with step 1) is a unit mass whose velocity v = (Re y, Im y) obeys

    v' = Z v,    Z = [[Re z, -Im z], [Im z, Re z]],    q' = v.

One step maps the method's whole state linearly: q, v, and all that it carries (derivatives of
earlier steps, accelerations). The derivative of that map, restricted to what acts upon v, is the
companion matrix of the method; its spectral radius is at most 1 where the root condition holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .._arguments import checked_call, several
from .._messages import shown
from .._numbers import array, count
from ..formulation import Formulation, Index1
from ..problem import StepContext
from ..run.loop_parts import problem_term
from ..run.pairs import check_pair
from ..system import FunctionSystem, System
from ..system.base import Array

if TYPE_CHECKING:
    from ..integrator.adams import History
    from ..integrator.base import Integrator

_CHUNK = 512  # values of z in one call of the compiled program
_HISTORY = 16  # steps after which every multistep method has its history
_ROUNDING = 1e-9  # a radius of 1 is met up to this


@dataclass(frozen=True)
class StabilityRegion:
    """Spectral radius of one step on y' = z y over a grid of z.

    `radius[i, j]` belongs to z = re[j] + 1j * im[i].
    """

    re: np.ndarray
    im: np.ndarray
    radius: np.ndarray

    @property
    def stable(self) -> np.ndarray:
        """Where no solution of the test equation grows."""
        return self.radius <= 1 + _ROUNDING


def _test_equation() -> System:
    return FunctionSystem(
        mass=_unit_mass,
        force=_test_force,
        parameters={"re": 0.0, "im": 0.0},
    )


def _unit_mass(q: Array, p: Mapping[str, Array]) -> Array:
    return jnp.ones(2)


def _test_force(q: Array, v: Array, t: Array, p: Mapping[str, Array]) -> Array:
    return jnp.stack([p["re"] * v[0] - p["im"] * v[1], p["im"] * v[0] + p["re"] * v[1]])


def _step(
    integrator: Integrator,
    formulation: Formulation,
    system: System,
    n: int | Array,
    y: tuple[Array, Array],
    state: History | None,
) -> tuple[Any, Any]:
    """The unit step from t = n: (y, state) after it."""
    t = jnp.asarray(n, dtype=float)
    context = StepContext(system, jnp.ones(()), formulation)
    context = context._replace(carry=formulation.carry(context, t, (y[0], y[1]), None))
    terms = problem_term(formulation)
    y, _, _, state, _ = integrator.step(terms, t, t + 1, y, context, state, True)
    return y, state


@eqx.filter_jit
def _with_history(
    integrator: Integrator, formulation: Formulation, system: System
) -> tuple[Any, Any]:
    """(y, state) of the method once it has its history, on y' = 0."""
    t, ones = jnp.zeros(()), jnp.ones(2)
    context = StepContext(system, jnp.ones(()), formulation)
    context = context._replace(carry=formulation.carry(context, t, (ones, ones), None))
    y = integrator.first_state(context, t, ones, ones)
    state = integrator.init(problem_term(formulation), t, t + 1, y, context)

    def advance(n: Array, now: tuple[Any, Any]) -> Any:
        return jax.tree.map(jnp.asarray, _step(integrator, formulation, system, n, *now))

    return jax.lax.fori_loop(0, _HISTORY, advance, jax.tree.map(jnp.asarray, (y, state)))


@eqx.filter_jit
def _derivatives(
    integrator: Integrator,
    formulation: Formulation,
    system: System,
    y: tuple[Array, Array],
    state: History | None,
    re: Array,
    im: Array,
) -> tuple[Array, Array]:
    """Derivative of the step over the whole state for each z, and the mask of v in that state."""
    moving, fixed = eqx.partition((y, state), eqx.is_inexact_array)
    flat, unravel = ravel_pytree(moving)
    seed = jax.tree.map(jnp.zeros_like, moving)
    seed = eqx.tree_at(lambda s: s[0][1], seed, jnp.ones_like(y[1]))

    def derivative(re: Array, im: Array) -> Array:
        at_z = system.with_parameters(re=re, im=im)

        def step(x: Array) -> Array:
            after = _step(integrator, formulation, at_z, _HISTORY, *eqx.combine(unravel(x), fixed))
            return ravel_pytree(eqx.filter(after, eqx.is_inexact_array))[0]

        return jax.jacfwd(step)(flat)

    return jax.vmap(derivative)(re, im), ravel_pytree(seed)[0] > 0


def _acting_on(velocity: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Mask of the components that act upon those of `velocity`, at once or through others."""
    acts = np.any(matrices != 0, axis=0)
    mask = velocity
    while True:
        wider = mask | np.any(acts[mask], axis=0)
        if np.array_equal(wider, mask):
            return mask
        mask = wider


def _formulation_for(integrator: Integrator, formulation: Formulation | None) -> Formulation:
    formulation = Index1() if formulation is None else formulation
    check_pair(formulation, integrator)
    return formulation


@checked_call
def amplification(
    integrator: Integrator, z: Any, *, formulation: Formulation | None = None
) -> np.ndarray:
    """Companion matrices of one step of `integrator` on y' = z y with step 1.

    **Arguments:**

    - `z`: complex numbers, of any shape.
    - `formulation`: the problem that the integrator is given; default `Index1()`. There are no
      constraints, so it matters only to integrators that do not take an ODE.

    **Returns** real matrices of shape z.shape + (n, n) over the real and imaginary parts of the
    state that acts upon y, so that each eigenvalue comes with its conjugate.
    """
    formulation = _formulation_for(integrator, formulation)
    try:
        z = np.asarray(z, dtype=complex)
    except Exception:
        raise TypeError(
            f"amplification: z={shown(z)} is not made of numbers. Give complex numbers."
        ) from None
    if not np.all(np.isfinite(z)):
        raise ValueError(f"amplification: z={shown(z)} is not finite. Give finite numbers.")
    system = _test_equation()
    y, state = _with_history(integrator, formulation, system)
    padded = np.zeros(-(-max(z.size, 1) // _CHUNK) * _CHUNK, dtype=complex)
    padded[: z.size] = z.ravel()
    parts, velocity = [], np.zeros(0, dtype=bool)
    for chunk in padded.reshape(-1, _CHUNK):
        re, im = jnp.asarray(np.real(chunk)), jnp.asarray(np.imag(chunk))
        matrices, mask = _derivatives(integrator, formulation, system, y, state, re, im)
        parts.append(np.asarray(matrices))
        velocity = np.asarray(mask)
    matrices = np.concatenate(parts)[: z.size]
    mask = _acting_on(velocity, matrices)
    matrices = matrices[:, mask][:, :, mask]
    return matrices.reshape(*z.shape, *matrices.shape[1:])


def _radius(integrator: Integrator, z: np.ndarray, formulation: Formulation | None) -> np.ndarray:
    matrices = amplification(integrator, z, formulation=formulation)
    bounded = np.all(np.isfinite(matrices), axis=(-2, -1))
    matrices = np.where(bounded[..., None, None], matrices, 0.0)
    radius = np.max(np.abs(np.linalg.eigvals(matrices)), axis=-1)
    return np.where(bounded, radius, np.inf)


@checked_call
def stability_region(
    integrator: Integrator,
    re: tuple[float, float] = (-4.0, 1.0),
    im: tuple[float, float] = (-4.0, 4.0),
    n: int | tuple[int, int] = 101,
    *,
    formulation: Formulation | None = None,
) -> StabilityRegion:
    """Spectral radius of `integrator` on y' = z y with step 1, over a grid of z.

    **Arguments:**

    - `re`, `im`: range of the real and of the imaginary part of z = h lambda.
    - `n`: number of grid points in each direction, or (along `re`, along `im`).
    - `formulation`: as in `amplification`.
    """
    owner = "stability_region"
    pair = (n, n) if isinstance(n, int | np.integer) else several(owner, "n", n, "two counts")
    n_re, n_im = (count(owner, "n", x, most=4096) for x in (*pair, None)[:2])
    (left, right), (low, high) = (array(owner, k, v, (2,)) for k, v in (("re", re), ("im", im)))
    x, y = np.linspace(left, right, n_re), np.linspace(low, high, n_im)
    radius = _radius(integrator, x[None, :] + 1j * y[:, None], formulation)
    return StabilityRegion(x, y, radius)


@checked_call
def real_axis_limit(integrator: Integrator, *, formulation: Formulation | None = None) -> float:
    """The largest |z| to which `integrator` stays stable along the negative real axis.

    Wu, Chiou and Lin 2000, Table 2, call it the stability limit SL: with critically damped
    constraints it bounds alpha h. Infinite if no growth is found up to |z| = 1e6.

    The axis is scanned outwards in steps of 0.01 up to 10 and in geometric steps beyond, and the
    first crossing narrowed down to 1e-9 of itself (but not less than 1e-9).
    """
    dense = np.linspace(0.0, 10.0, 1001)[1:]
    grid = np.concatenate([dense, np.geomspace(10.0, 1e6, 537)[1:]])  # fills three chunks
    below = 0.0
    while True:
        grows = _radius(integrator, -grid, formulation) > 1 + _ROUNDING
        if not np.any(grows):
            return float("inf")
        first = int(np.argmax(grows))
        below, above = float(grid[first - 1]) if first else below, float(grid[first])
        if above - below <= 1e-9 * max(1.0, above):
            return 0.5 * (below + above)
        grid = np.linspace(below, above, _CHUNK + 1)[1:]
