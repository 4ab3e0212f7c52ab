"""A system's equations as other solvers want them: as an ODE, or as a DAE of index 1, 2 or 3.

ODE:  y = (q, v),       q' = N(q) v,  v' from the equations of motion and g'' = 0
DAE:  y = (q, v, lam),  0 = F(t, y, y'):  q' - N(q) v,  M v' - f + G^T lam, and
      g = 0 (index 3),  G v + g_t = 0 (index 2)  or  G v' = gamma (index 1);
      with index "GGL" both g = 0 and g' = 0, and y = (q, v, lam, mu), q' = N(q) (v - G^T mu)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import choice
from .._modules import Module
from .._numbers import parameter
from ..compiler import native
from .base import Array, System

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Index = Literal[1, 2, 3, "GGL"]


class OdeEquations(Module):
    """y' = f(t, y) with y = (q, v), for solvers of ordinary differential equations.

    An object is called as SciPy wants it, ``solve_ivp(ode, (0, 1), ode.y(start))``, and answers at
    the speed of compiled code; `vector_field` is the same for diffrax, for use in an ``ODETerm``
    with ``args=None``, and can be traced. Constraints are met as far as the solver's error allows:
    `alpha` and `beta` [1/s] are Baumgarte's gains against drift.
    """

    system: System
    alpha: Array
    beta: Array
    nq: int = eqx.field(static=True)
    nv: int = eqx.field(static=True)

    def y(self, start: Any) -> np.ndarray:
        """The state at a start."""
        return np.concatenate([np.asarray(start.q), np.asarray(start.v)])

    def states(self, y: Array) -> tuple[Array, Array]:
        """(q, v) from states along the last axis; SciPy's ``solution.y`` has them along the first,
        so give its transpose."""
        return y[..., : self.nq], y[..., self.nq :]

    def vector_field(self, t: Array, y: Array, args: Any = None) -> Array:
        """y' at (t, y); may be traced."""
        system = self.system
        q, v = y[: self.nq], y[self.nq :]
        here = system.at(system.normalize(q), t)
        position, rate = here.constraint(), here.rate(v)
        m = position.shape[0]
        feedback = self.alpha * rate
        feedback = feedback.at[:m].set(2 * self.alpha * rate[:m] + self.beta**2 * position)
        a, _ = here.accelerations(v, system.gamma(here.q, v, t) - feedback)
        return jnp.concatenate([system.qdot(q, v), a])

    def __call__(self, t: Array, y: ArrayLike) -> np.ndarray:
        """y' at (t, y), as an array of NumPy."""
        return _rates(self, np.float64(t), np.asarray(y, dtype=float))

    def jacobian(self, t: Array, y: ArrayLike) -> np.ndarray:
        """The derivative of y' with respect to y, for ``solve_ivp(..., jac=ode.jacobian)``."""
        return _slopes(self, np.float64(t), np.asarray(y, dtype=float))


class DaeEquations(Module):
    """0 = F(t, y, y'), for solvers of differential-algebraic equations.

    An object is called with (t, y, y'). `start` gives consistent values of y and y', `algebraic`
    says which entries of y have no derivative in the equations.
    """

    system: System
    index: Index = eqx.field(static=True)
    nq: int = eqx.field(static=True)
    nv: int = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    holonomic: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """The number of equations, and of unknowns."""
        return self.nq + self.nv + self.rows + (self.holonomic if self.index == "GGL" else 0)

    @property
    def algebraic(self) -> np.ndarray:
        """The positions of the multipliers in y."""
        return np.arange(self.nq + self.nv, self.size)

    def absolute(self, atol: float) -> np.ndarray:
        """Absolute tolerances for solvers that control errors: `atol` for (q, v), and none to speak
        of for multipliers, whose estimated errors are too large to mean anything beyond index 1."""
        out = np.full(self.size, float(atol))
        if self.index != 1:
            out[self.algebraic] = 1e6
        return out

    def states(self, y: Array) -> tuple[Array, Array, Array]:
        """(q, v, lam) from states along the last axis."""
        ends = (self.nq, self.nq + self.nv, self.nq + self.nv + self.rows)
        return y[..., : ends[0]], y[..., ends[0] : ends[1]], y[..., ends[1] : ends[2]]

    def start(self, start: Any) -> tuple[np.ndarray, np.ndarray]:
        """y and y' that satisfy the equations, from a consistent start."""
        q, v = np.asarray(start.q, dtype=float), np.asarray(start.v, dtype=float)
        rate, a, lam = _consistent(self.system, np.float64(start.t), q, v)
        rest = np.zeros(self.size - self.nq - self.nv - self.rows)
        y = np.concatenate([q, v, lam, rest])
        return y, np.concatenate([rate, a, np.zeros(lam.size + rest.size)])

    def residual(self, t: Array, y: Array, yp: Array) -> Array:
        """F(t, y, y'); may be traced."""
        system = self.system
        q, v, lam = self.states(y)
        rate, a, _ = self.states(yp)
        mu = y[self.nq + self.nv + self.rows :]
        m, u = self.holonomic, v
        if self.index == "GGL":
            u = v - system.constraint_force(q, t, jnp.pad(mu, (0, self.rows - m)))
        motion = system.momentum(q, a) - system.force(q, v, t)
        if system.has_reaction_forces:
            motion = motion - system.reaction_force(q, v, t, lam)
        parts = [rate - system.qdot(q, u), motion + system.constraint_force(q, t, lam)]
        if self.index == 1:
            change = jax.jvp(lambda x: system.constraint_rate(q, x, t), (v,), (a,))[1]
            parts.append(change - system.gamma(q, v, t))
        elif self.index == 2:
            parts.append(system.constraint_rate(q, v, t))
        elif self.index == 3:
            parts += [system.constraint(q, t), system.constraint_rate(q, v, t)[m:]]
        else:
            parts += [system.constraint_rate(q, v, t), system.constraint(q, t)]
        return jnp.concatenate(parts)

    def __call__(self, t: Array, y: ArrayLike, yp: ArrayLike) -> np.ndarray:
        """F(t, y, y'), as an array of NumPy."""
        given = np.float64(t), np.asarray(y, dtype=float), np.asarray(yp, dtype=float)
        return _residual(self, *given)

    def jacobian(self, t: Array, y: ArrayLike, yp: ArrayLike, c: float = 0.0) -> np.ndarray:
        """dF/dy + c dF/dy', the matrix of an implicit step."""
        given = np.float64(t), np.asarray(y, dtype=float), np.asarray(yp, dtype=float)
        return _matrix(self, *given, np.float64(c))


def ode_of(system: System, alpha: Any, beta: Any, start: object) -> OdeEquations:
    """See `System.as_ode`."""
    gain = lambda name, x: parameter(  # noqa: E731
        "as_ode", name, x, good=lambda x: x >= 0, wanted="a finite number, zero or more"
    )
    nq, nv = _sizes("as_ode", system, start)
    return OdeEquations(system, gain("alpha", alpha), gain("beta", beta), nq, nv)


def dae_of(system: System, index: Any, start: object) -> DaeEquations:
    """See `System.as_dae`."""
    index = choice("as_dae", "index", index, (1, 2, 3, "GGL"))
    nq, nv = _sizes("as_dae", system, start)
    if system.has_redundant_constraints:
        raise ValueError(
            "as_dae: the constraints are redundant, so that the multipliers are not determined and "
            "the equations have no unique solution. Release a joint that repeats others, or use "
            "as_ode."
        )
    q, v, t = jnp.zeros((nq,)), jnp.zeros((nv,)), jnp.zeros(())
    rows = jax.eval_shape(system.constraint_rate, q, v, t).shape[0]
    holonomic = jax.eval_shape(system.constraint, q, t).shape[0]
    return DaeEquations(system, index, nq, nv, rows, holonomic)


def _sizes(owner: str, system: System, start: Any) -> tuple[int, int]:
    """The numbers of coordinates of position and of velocity."""
    if start is not None:
        return int(np.size(start.q)), int(np.size(start.v))
    nq = system.position_size
    if nq is None:
        raise ValueError(
            f"{owner}: a {type(system).__name__} does not say how many coordinates it has. Give a "
            "start: start=hx.consistent(system, q, v)."
        )
    return nq, system.velocity_size(nq)


@native
def _rates(ode: OdeEquations, t: Array, y: Array) -> Any:
    return ode.vector_field(t, y)


@native
def _slopes(ode: OdeEquations, t: Array, y: Array) -> np.ndarray:
    return jax.jacfwd(lambda x: ode.vector_field(t, x))(y)


@native
def _consistent(system: System, t: Array, q: Array, v: Array) -> Any:
    a, lam = system.accelerations(q, v, t)
    return system.qdot(q, v), a, lam


@native
def _residual(dae: DaeEquations, t: Array, y: Array, yp: Array) -> Any:
    return dae.residual(t, y, yp)


@native
def _matrix(dae: DaeEquations, t: Array, y: Array, yp: Array, c: Array) -> np.ndarray:
    return jax.jacfwd(lambda d: dae.residual(t, y + d, yp + c * d))(jnp.zeros_like(y))
