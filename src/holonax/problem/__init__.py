"""What formulations offer and integrators take: kinds of problem, and what is known in a step.

A formulation says in the class variable `kind` what it makes; an integrator says in `accepts`
which kinds it takes:

- ``"ode"``: y = (q, v), y' = vector_field(t, y), with a map applied after each step. Explicit
  integrators take it as it is; implicit ones solve its `residual`.
- ``"dae"``: equations for the rates u of position and a of velocity and for algebraic variables z
  (multipliers), given by `residual`; taken by implicit integrators.
- ``"index3"``: a DAE whose constraints are of position level only.
- ``"staggered"``: an ODE whose multipliers are found for the whole step before it is taken, so that
  only methods that use nothing but rates of that step, with weights of sum one, do what they were
  found for; taken by explicit Runge-Kutta methods.
- other kinds belong to methods that bring a step of their own.

What is special about one pair is a class variable of one of its halves, such as
`Formulation.own_steps` and `Integrator.holds_velocity`: neither side knows the other's classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from ..system.base import Array, System

State = tuple[Array, Array]


class StepContext(NamedTuple):
    """What a method knows while a step is taken: the system, the step size, the formulation, what
    the formulation carries from step to step (a choice of coordinates, say), the tolerance of its
    error where steps are chosen by it, whether the step may be differentiated, the solution of its
    equations where that is known from before, whether it is kept for those who take the step again,
    and the first state where that is known from before (see `integrator/known.py`)."""

    system: System
    dt: Array
    formulation: Any = None
    carry: Any = None
    tolerance: Any = None
    differentiable: bool = True
    known: Any = None
    keeps: bool = False
    start: Any = None


class FullState(NamedTuple):
    """The state of methods that solve for more than (q, v): accelerations, algebraic variables,
    and the condition number of the step's Newton matrix (zero unless asked for)."""

    q: Array
    v: Array
    a: Array
    z: Array
    condition: Array


# The time loop traces its step several times; inside a jit the work of tracing is done once.


@jax.jit
def stabilized(formulation: Any, t: Array, y: State, context: StepContext) -> State:
    """`formulation.after_step`, traced once."""
    return formulation.after_step(context, t, y)
