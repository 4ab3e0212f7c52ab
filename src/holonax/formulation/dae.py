"""Formulations solved as differential-algebraic equations by implicit integrators.

    u = v - G^T mu          (mu only where the position is projected)
    M a = f + r(lam) - G^T lam   (r: forces that depend on reactions)
    0 = g  (index 3),   0 = G v + g_t  (index 2),   both with mu  (GGL)

`u` moves the configuration, q' = N(q) u, and `a` = v'. Non-holonomic rows are of velocity level in
all of them. Multipliers of all rows, holonomic first, are the leading entries of z.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from .._arguments import flag
from .._numbers import parameter
from ..problem import State, StepContext
from ..system.base import Array, System
from ..system.step import Level
from .base import Formulation, dynamics
from .options import check_choice, positive

if TYPE_CHECKING:
    from jaxtyping import PyTree


class DaeFormulation(Formulation):
    """Base: consistent accelerations come from the index-1 equations, nothing after a step."""

    kind: ClassVar[str] = "dae"
    default_integrator: ClassVar[tuple[Any, ...]] = ("RadauIIA", 3)

    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        return state

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        return lam

    def multipliers(self, z: Array, rows: int) -> Array | None:
        return z[:rows]

    def orders(self, integrator: Any) -> tuple[int, int, int]:
        p = integrator.order(None)
        return p, p, getattr(integrator, "stage_order", p)


def position_rows(system: System, q: Array, t: Array, mu: Array, rows: int) -> Array:
    """G^T mu for multipliers of the holonomic rows only."""
    return system.constraint_force(q, t, jnp.pad(mu, (0, rows - mu.shape[0])))


@partial(jax.jit, static_argnums=0)  # for the first state and its method, traced once
def _matrix_sizes(
    size: Literal["mean", "norm"], system: System, q: Array, v: Array, t: Array
) -> tuple[Array, Array, Array]:
    return system.matrix_sizes(q, v, t, size)


class Index3(DaeFormulation):
    """The equations of motion with the position constraint g = 0, scaled after Bauchau.

    Newton's unknowns are displacements and scaled multipliers, h^2 lam = s lam^, and the equations
    of motion are multiplied by h^2, the constraints by s, so that the matrix does not depend on
    the step size.

    **Arguments:**

    - `scaling`: ``"physical"``, s = m_r + d_r h + k_r h^2 (Eq. 6); ``"unit"``, s = 1; or
      ``"none"``, plain displacements and multipliers, with a condition number of O(h^-4).
    - `mass`, `damping`, `stiffness`: m_r [kg], d_r [kg/s], k_r [kg/s^2]; those not given are taken
      at the start from M, -df/dv and -df/dq by `reference`: ``"mean"`` of the diagonal, or the
      infinity ``"norm"``.
    - `augment`: rho of the augmented Lagrangian term, a row operation on the linear equations.
    - `length`: characteristic length of the coordinates [m].
    - `condition`: whether `result.condition` gives the condition number of each step's matrix.
    """

    kind: ClassVar[str] = "index3"
    default_integrator: ClassVar[tuple[Any, ...]] = ("GeneralizedAlpha", 0.9)
    index: ClassVar[int] = 3
    reference: ClassVar[str] = "Bauchau, Epple, Bottasso 2009"
    kept_as: ClassVar[Mapping[str, str]] = {"reference": "reference_size"}

    scaling: Literal["physical", "unit", "none"] = eqx.field(static=True)
    mass: Array | None
    damping: Array | None
    stiffness: Array | None
    reference_size: Literal["mean", "norm"] = eqx.field(static=True)
    augment: Array
    augmented: bool = eqx.field(static=True)
    length: Array
    condition: bool = eqx.field(static=True)

    def __init__(
        self,
        scaling: Literal["physical", "unit", "none"] = "physical",
        *,
        mass: float | None = None,
        damping: float | None = None,
        stiffness: float | None = None,
        reference: Literal["mean", "norm"] = "mean",
        augment: float = 0.0,
        length: float = 1.0,
        condition: bool = False,
    ):
        check_choice("Index3", "scaling", scaling, ("physical", "unit", "none"))
        check_choice("Index3", "reference", reference, ("mean", "norm"))
        given = {"mass": mass, "damping": damping, "stiffness": stiffness}

        def checked(name: str, value: Any) -> Array:
            wanted = "a finite number, zero or more"
            return parameter("Index3", name, value, good=lambda x: x >= 0, wanted=wanted)

        if scaling != "physical" and any(x is not None for x in given.values()):
            raise ValueError(
                f"Index3: mass, damping and stiffness mean nothing with scaling={scaling!r}. "
                'Leave them out, or use scaling="physical".'
            )
        self.scaling, self.reference_size = scaling, reference
        self.condition = flag("Index3", "condition", condition)
        self.mass, self.damping, self.stiffness = (
            None if x is None else checked(name, x) for name, x in given.items()
        )
        self.augment = checked("augment", augment)
        self.augmented = isinstance(self.augment, Tracer) or float(self.augment) > 0
        self.length = positive("Index3", "length", length, "m")

    @property
    def holds(self) -> tuple[bool, bool]:
        return True, False

    def orders(self, integrator: Any) -> tuple[int, int, int]:
        p = integrator.order(None)
        s = getattr(integrator, "stage_order", None)
        # Runge-Kutta methods lose orders on index 3 (Hairer, Wanner 1996, Section VI.7)
        return (p, p, p) if s in (None, 1) else (p, s, s - 1)

    def drift_orders(self, integrator: Any) -> tuple[float, float]:
        position, velocity = super().drift_orders(integrator)
        return position, math.inf if integrator.holds_velocity else velocity

    def carry(
        self, context: StepContext, t: Array, state: State, old: tuple[Array, Array, Array] | None
    ) -> PyTree:
        """(m_r, d_r, k_r), found at the start and kept."""
        if self.scaling != "physical":
            return None
        return self._references(context.system, t, *state) if old is None else old

    def _references(self, system: System, t: Array, q: Array, v: Array) -> tuple[Array, ...]:
        given = (self.mass, self.damping, self.stiffness)
        if all(x is not None for x in given):
            return given  # pyright: ignore[reportReturnType]
        # the scaling of Newton's matrix does not move what it solves
        found = _matrix_sizes(self.reference_size, *jax.lax.stop_gradient((system, q, v, t)))
        return tuple(b if a is None else a for a, b in zip(given, found, strict=True))

    def algebraic_scale(self, context: StepContext) -> Array:
        return jnp.ones(())

    @property
    def step_level(self) -> Level | None:
        # the condition number and the unscaled matrix are those of a dense one
        return None if self.scaling == "none" or self.condition else "position"

    @property
    def augmentation(self) -> Array | None:
        return self.augment if self.augmented else None

    def newton_scaling(self, context: StepContext, displacement: Array) -> PyTree:
        h, length = context.dt, self.length
        if self.scaling == "none":
            return (1.0, 1.0, 1.0), (1 / h, 1 / displacement, 1.0), self.augment, self.condition
        s = jnp.ones(())
        if self.scaling == "physical":
            m, d, k = context.carry
            s = (m + d * h + k * h * h) * length
        rows = (h, h * h, s)
        columns = (length / h, length / displacement, s / (h * h))
        # the constraint rows and the transpose carry s each; rho s B^T B is wanted
        return rows, columns, self.augment / s, self.condition

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        g = system.constraint(q, t)
        # velocity rows are given the size of positions
        velocity = context.dt * system.constraint_rate(q, v, t)[g.shape[0] :]
        return u - v, dynamics(system, q, v, t, a, z), jnp.concatenate([g, velocity])


class Index2(DaeFormulation):
    """The equations of motion with the velocity constraint G v + g_t = 0; positions drift."""

    index: ClassVar[int] = 2
    reference: ClassVar[str] = "Hairer, Wanner 1996, Section VII.1"

    @property
    def step_level(self) -> Level | None:
        return "velocity"

    @property
    def holds(self) -> tuple[bool, bool]:
        return False, True

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        return u - v, dynamics(system, q, v, t, a, z), system.constraint_rate(q, v, t)


class _Projecting(DaeFormulation):
    """Base of formulations that move the position along the constraint normals."""

    projects_position: ClassVar[bool] = True

    @property
    def holds(self) -> tuple[bool, bool]:
        return True, True


class GGL(_Projecting):
    """Stabilised index 2 of Gear, Gupta and Leimkuhler: position and velocity constraints."""

    index: ClassVar[int] = 2
    reference: ClassVar[str] = "Gear, Gupta, Leimkuhler 1985"

    @property
    def step_level(self) -> Level | None:
        return "both"

    def velocity(self, context: StepContext, t: Array, q: Array, u: Array, z: Array) -> Array:
        rows = z.shape[0] - context.system.constraint(q, t).shape[0]
        return u + position_rows(context.system, q, t, z[rows:], rows)

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        return jnp.concatenate([lam, jnp.zeros((context.system.constraint(q, t).shape[0],))])

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        g, rate = system.constraint(q, t), system.constraint_rate(q, v, t)
        rows = rate.shape[0]
        lam, mu = z[:rows], z[rows:]
        kinematic = u - v + position_rows(system, q, t, mu, rows)
        return kinematic, dynamics(system, q, v, t, a, lam), jnp.concatenate([rate, g])


class Overdetermined(_Projecting):
    """All of g = 0, G v + g_t = 0 and g'' = 0 at once, after Führer and Leimkuhler.

    The multipliers lam are those of the index-1 equations; the discretised rates are moved
    along the constraint normals, by mu for positions and tau for velocities (in the mass metric),
    which selects the solution of the overdetermined equations that keeps the motion.
    """

    index: ClassVar[int] = 2
    reference: ClassVar[str] = "Führer, Leimkuhler 1991"

    def orders(self, integrator: Any) -> tuple[int, int, int]:
        p = integrator.order(None)
        return p, p, p

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        m = context.system.constraint(q, t).shape[0]
        return jnp.concatenate([lam, jnp.zeros((lam.shape[0] + m,))])

    def multipliers(self, z: Array, rows: int) -> Array | None:
        return None  # by definition those of the index-1 equations at the state

    def velocity(self, context: StepContext, t: Array, q: Array, u: Array, z: Array) -> Array:
        rows = (z.shape[0] - context.system.constraint(q, t).shape[0]) // 2
        mu = z[2 * rows :]
        return u + context.system.factor(q, t).spread(jnp.pad(mu, (0, rows - mu.shape[0])))

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        g, rate = system.constraint(q, t), system.constraint_rate(q, v, t)
        rows = rate.shape[0]
        lam, tau, mu = z[:rows], z[rows : 2 * rows], z[2 * rows :]
        factor = system.factor(q, t)
        kinematic = u - v + factor.spread(jnp.pad(mu, (0, rows - mu.shape[0])))
        # lam from g'' = 0: the difference to the index-1 multipliers
        exact = system.at(q, t).accelerations(v, factor=factor)[1]
        algebraic = jnp.concatenate([context.dt * (lam - exact), rate, g])
        return kinematic, dynamics(system, q, v, t, a, lam + tau), algebraic


class ProjectedInvariants(_Projecting):
    """The index-1 equations with their invariants projected: z' = f(z) - D mu, 0 = h(z).

    **Arguments:**

    - `level`: ``"both"`` (Eq. 4.8) projects position and velocity, ``"position"`` (Eq. 3.3)
      the position only.
    """

    index: ClassVar[int] = 2
    reference: ClassVar[str] = "Ascher, Chin, Petzold, Reich 1995, Eqs. (3.3), (4.8)"

    level: Literal["both", "position"] = eqx.field(static=True, default="both")

    def __check_init__(self) -> None:
        check_choice("ProjectedInvariants", "level", self.level, ("both", "position"))

    def orders(self, integrator: Any) -> tuple[int, int, int]:
        p = integrator.order(None)
        return p, p, p

    @property
    def holds(self) -> tuple[bool, bool]:
        return True, self.level == "both"

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        m = context.system.constraint(q, t).shape[0]
        return jnp.zeros((m + (lam.shape[0] if self.level == "both" else 0),))

    def multipliers(self, z: Array, rows: int) -> Array | None:
        return None

    def velocity(self, context: StepContext, t: Array, q: Array, u: Array, z: Array) -> Array:
        system = context.system
        m = system.constraint(q, t).shape[0]
        rows = jax.eval_shape(system.constraint_rate, q, u, t).shape[0]
        return u + position_rows(system, q, t, z[:m], rows)

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        system = context.system
        g, rate = system.constraint(q, t), system.constraint_rate(q, v, t)
        m, rows = g.shape[0], rate.shape[0]
        dynamic = a - system.accelerations(q, v, t)[0]
        kinematic = u - v + position_rows(system, q, t, z[:m], rows)
        if self.level == "position":
            return kinematic, dynamic, g
        dynamic = dynamic + system.constraint_force(q, t, z[m:])
        return kinematic, dynamic, jnp.concatenate([g, rate])
