"""How the constraints are enforced: a formulation turns a `System` into the problem that an
integrator can take. (see `problem`).
"""

from __future__ import annotations

import abc
import dataclasses
import inspect
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .._modules import Module
from ..problem import State, StepContext, stabilized
from ..system.base import Array, System
from ..system.step import Level

if TYPE_CHECKING:
    from jaxtyping import PyTree


def shown_option(value: object) -> str:
    """A formulation's option as one would type it."""
    if isinstance(value, jax.Array | np.ndarray):
        known = value.ndim == 0 and not isinstance(value, Tracer)
        return f"{float(value):g}" if known else f"<{value.dtype} of shape {value.shape}>"
    return f"{value:g}" if isinstance(value, float) else repr(value)


@jax.jit  # so that it is traced once, for the step and for its derivative
def dynamics(system: System, q: Array, v: Array, t: Array, a: Array, lam: Array) -> Array:
    """M a - f - r(lam) + G^T lam."""
    force = system.force(q, v, t)
    if system.has_reaction_forces:
        force = force + system.reaction_force(q, v, t, lam)
    return system.momentum(q, a) - force + system.constraint_force(q, t, lam)


class Formulation(Module):
    """Base of all formulations."""

    kind: ClassVar[str]
    reference: ClassVar[str]
    # The integrator used when none is given: the name of its class, and options.
    default_integrator: ClassVar[tuple[Any, ...]]
    # Names of integrators that have a step of their own for this formulation.
    own_steps: ClassVar[tuple[str, ...]] = ()
    index: ClassVar[int] = 1
    # whether the kinematic equation is more than u = v
    projects_position: ClassVar[bool] = False
    # whether forces that depend on reactions are solved for
    takes_reaction_forces: ClassVar[bool] = True
    # options that are kept under another name than their own
    kept_as: ClassVar[Mapping[str, str]] = {}

    def __repr__(self) -> str:
        """As one would make it: the first option, and others that differ from their default."""
        options = inspect.signature(type(self).__init__).parameters.values()
        stored = {field.name: field.name for field in dataclasses.fields(self)} | dict(self.kept_as)
        parts = []
        for option in options:
            if option.name not in stored:
                continue
            text = shown_option(getattr(self, stored[option.name]))
            if not parts:
                parts.append(text)
            elif text != shown_option(option.default):
                parts.append(f"{option.name}={text}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        """(v', lam) at (t, q, v): those of M v' = f - G^T lam with g'' = 0, unless something is
        added to these equations."""
        return context.system.accelerations(*state, t)

    @property
    def plain_accelerations(self) -> bool:
        """Whether nothing is added."""
        return type(self).accelerations is Formulation.accelerations

    @abc.abstractmethod
    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        """The state after the integrator's step, with the constraints stabilised."""

    def projected(self, context: StepContext, t: Array, state: State) -> State:
        """The state moved onto the constraints of position and velocity, for a step that another
        method has taken."""
        from .post_stabilized import PostStabilized

        return stabilized(PostStabilized("both", passes=3), t, state, context)

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        """What implicit integrators drive to zero: (kinematic, dynamic, algebraic) equations.

        `u` is the velocity that moves q (q' = N(q) u) and `a` = v'; both have the size of v. The
        algebraic equations are as many as the entries of `z`.
        """
        raise TypeError(
            f"{type(self).__name__} brings a step of its own and has no equations at one instant. "
            f"Integrate it with {self.default_integrator[0]}."
        )

    def algebraic_scale(self, context: StepContext) -> Array:
        """What the algebraic equations are divided by so that Newton's matrix stays balanced."""
        return context.dt ** (self.index - 1)

    def orders(self, integrator: Any) -> tuple[int, int, int]:
        """Orders of convergence of q, v and the multipliers with `integrator`."""
        p = integrator.order(None)
        return p, p, p

    @property
    def holds(self) -> tuple[bool, bool]:
        """Whether g = 0 and g' = 0 up to rounding after each step."""
        return False, False

    def drift_orders(self, integrator: Any) -> tuple[float, float]:
        """Orders of |g| and |g'| in the step size; `math.inf` where only rounding is left."""
        position, velocity = self.holds
        p, q, _ = self.orders(integrator)
        return math.inf if position else p, math.inf if velocity else q

    @property
    def step_level(self) -> Level | None:
        """Where the equations of an implicit step are those of motion with constraints of a level
        (see `system/step.py`), that level, so that the system can solve them by its structure."""
        return None

    @property
    def velocity_follows(self) -> bool:
        """Whether `velocity` says what solves the kinematic equation."""
        return type(self).rates is Formulation.rates

    def velocity(self, context: StepContext, t: Array, q: Array, u: Array, z: Array) -> Array:
        """v with which the kinematic equation holds if the position moves at u."""
        return u

    @property
    def augmentation(self) -> Array | None:
        """rho of the augmented Lagrangian term of an implicit step; None where the solver may
        choose."""
        return None

    def newton_scaling(self, context: StepContext, displacement: Array) -> PyTree:
        """How Newton's matrix is scaled: ((rows), (columns), augment, condition), or None.

        Rows are the kinematic, dynamic and algebraic equations, columns the unknowns k, a, z of
        `integrator/implicit.py`; `displacement` is how far a unit of `a` moves the position.
        """
        return None

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        """z at the start, from consistent multipliers."""
        return jnp.zeros((0,), lam.dtype)

    def multipliers(self, z: Array, rows: int) -> Array | None:
        """The multipliers among the algebraic variables; None if they are not among them."""
        return None

    def carry(self, context: StepContext, t: Array, state: State, old: Any) -> Any:
        """What is carried into the step that begins at (t, state); `old` is None at the start."""
        return None

    def statistics(self, carry: Any) -> dict[str, int]:
        """Counts kept in what is carried, by name."""
        return {}

    def rates(self, context: StepContext, t: Array, state: State) -> State:
        """(u, v') at (t, q, v): the velocity that moves q, q' = N(q) u, and the acceleration."""
        return state[1], self.accelerations(context, t, state)[0]

    def vector_field(self, t: Array, y: State, context: StepContext) -> State:
        """(q', v') for diffrax."""
        return _vector_field(self, t, y, context)


class OdeFormulation(Formulation):
    """A formulation whose problem is an ODE in (q, v) with a map after each step."""

    kind: ClassVar[str] = "ode"
    default_integrator: ClassVar[tuple[Any, ...]] = ("RK4",)

    @property
    def step_level(self) -> Level | None:
        # what is added to the accelerations, or moves the position, has no place in the equations
        plain = self.plain_accelerations and self.velocity_follows
        return "acceleration" if plain else None

    def _has_multipliers(self, context: StepContext) -> bool:
        """Whether implicit steps solve for the multipliers, rather than for accelerations in which
        they have been solved for: those of dependent constraints are, and those that forces
        depend on."""
        system = context.system
        known = system.has_redundant_constraints or system.has_reaction_forces
        return self.step_level is not None and not known

    def algebraic_start(self, context: StepContext, t: Array, q: Array, lam: Array) -> Array:
        return lam if self._has_multipliers(context) else jnp.zeros((0,), lam.dtype)

    def residual(
        self, context: StepContext, t: Array, q: Array, v: Array, u: Array, a: Array, z: Array
    ) -> tuple[Array, Array, Array]:
        if self._has_multipliers(context):
            system = context.system
            return (
                u - v,
                dynamics(system, q, v, t, a, z),
                system.constraint_acceleration(q, v, t, a),
            )
        velocity, acceleration = self.rates(context, t, (q, v))
        return u - velocity, a - acceleration, z


# The time loop traces its step several times; inside a jit the work of tracing is done once.


@jax.jit
def _vector_field(formulation: Formulation, t: Array, y: State, context: StepContext) -> State:
    q, v = y
    plain = context.system.qdot(q, v)  # with what else is found of q and v: before accelerations
    u, a = formulation.rates(context, t, y)
    return plain if u is v else context.system.qdot(q, u), a
