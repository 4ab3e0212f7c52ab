"""How the constraints are enforced: a formulation turns a `System` into the problem that an
integrator can take.

A formulation says in the class variable `kind` what it makes; an integrator says in `accepts`
which kinds it takes. Kinds so far:

- ``"ode"``: y = (q, v), y' = vector_field(t, y), with a map applied after each step.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax

from ..system.base import Array, System

State = tuple[Array, Array]


class StepContext(NamedTuple):
    """What a formulation knows while a step is taken: the system and the step size."""

    system: System
    dt: Array


class Formulation(eqx.Module):
    """Base of all formulations."""

    kind: ClassVar[str]
    reference: ClassVar[str]

    @abc.abstractmethod
    def default_integrator(self) -> Any:
        """The integrator used when none is given."""


class OdeFormulation(Formulation):
    """A formulation whose problem is an ODE in (q, v) with a map after each step."""

    kind: ClassVar[str] = "ode"

    @abc.abstractmethod
    def accelerations(self, context: StepContext, t: Array, state: State) -> tuple[Array, Array]:
        """(v', lam) at (t, q, v)."""

    @abc.abstractmethod
    def after_step(self, context: StepContext, t: Array, state: State) -> State:
        """The state after the integrator's step, with the constraints stabilised."""

    def vector_field(self, t: Array, y: State, context: StepContext) -> State:
        """(q', v') for diffrax."""
        return _vector_field(self, t, y, context)

    def default_integrator(self) -> Any:
        from ..integrator import RK4

        return RK4()


# The time loop traces its step several times; inside a jit the work of tracing is done once.


@jax.jit
def _vector_field(formulation: OdeFormulation, t: Array, y: State, context: StepContext) -> State:
    q, v = y
    return context.system.qdot(q, v), formulation.accelerations(context, t, y)[0]


@jax.jit
def stabilized(formulation: OdeFormulation, t: Array, y: State, context: StepContext) -> State:
    """`formulation.after_step`, traced once."""
    return formulation.after_step(context, t, y)
