"""Which formulation goes with which integrator, and what the pair is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import formulation as formulations
from .. import integrator as integrators
from .._arguments import checked_call
from .._messages import listed, shown
from ..formulation import Formulation
from ..integrator import Integrator

if TYPE_CHECKING:
    from ..system.base import System


def is_legal(formulation: Formulation, integrator: Integrator) -> bool:
    """Whether the integrator takes the formulation's problem."""
    # through its class: equinox makes a module of a bound method, which takes longer than the rest
    method = type(integrator)
    return formulation.kind in method.accepts and not method.refusal(integrator, formulation)


@cache
def _made(name: str, *options: Any) -> Integrator:
    """An integrator by the name of its class, made once."""
    return getattr(integrators, name)(*options)


def default_integrator(formulation: Formulation) -> Integrator:
    """The integrator of a formulation where none is given."""
    return _made(*type(formulation).default_integrator)


def check_pair(formulation: Formulation, integrator: Any) -> None:
    """Refuse a pair whose integrator does not take the formulation's kind of problem."""
    if not isinstance(formulation, Formulation):
        raise TypeError(
            f"simulate: formulation={shown(formulation)} is not a formulation. Give an object "
            'such as hx.PostStabilized("both", passes=2), not its name or class.'
        )
    accepts = getattr(type(integrator), "accepts", None)
    if accepts is None:
        raise TypeError(
            f"simulate: integrator={shown(integrator)} is not an integrator. Give an object such "
            "as hx.RK4(), not its name or class."
        )
    if is_legal(formulation, integrator):
        return
    if formulation.kind not in accepts:
        takes = ", ".join(map(repr, accepts))
        reason = (
            f"that makes a problem of kind {formulation.kind!r}, and {type(integrator).__name__} "
            f"takes {takes}"
        )
    else:
        reason = integrator.refusal(formulation)
    legal = [type(i).__name__ for i in usual_integrators() if is_legal(formulation, i)]
    raise ValueError(
        f"{type(integrator).__name__} cannot integrate {type(formulation).__name__}: {reason}. "
        f"Legal integrators: {', '.join(legal) or 'none'}; "
        f"use {'one of these' if legal else 'another formulation'}."
    )


def check_reaction_forces(
    owner: str, system: System, formulation: Formulation, integrator: Any
) -> None:
    """Refuse a pair that does not solve for forces that depend on reactions, where there are."""
    if not system.has_reaction_forces:
        return
    method = type(integrator).__name__
    if method in formulation.own_steps:  # in which multipliers are eliminated
        refused = f"{type(formulation).__name__} with {method}"
    elif not formulation.takes_reaction_forces:
        refused = type(formulation).__name__
    elif not integrator.takes_reaction_forces:
        refused = method
    else:
        return
    raise ValueError(
        f"{owner}: {listed(system.reaction_force_names(), 4)} depends on reactions, for which "
        f"{refused} does not solve. Use Index3, Index2, GGL or Overdetermined with an implicit "
        "integrator, or PostStabilized with any."
    )


def check_varying_mass(owner: str, system: System, integrator: Any) -> None:
    """Refuse a method that needs a constant mass matrix for bodies that have modes."""
    if system.has_varying_mass and not integrator.takes_varying_mass:
        raise ValueError(
            f"{owner}: the mass matrix of bodies with modes depends on where they are, and "
            f"{type(integrator).__name__} needs a constant one. Use GeneralizedAlpha, RadauIIA or "
            "another implicit method, or an explicit one."
        )


def check_undetermined(owner: str, system: System, start: Any) -> None:
    """Refuse forces by reactions that redundant constraints do not determine."""
    if not system.has_reaction_forces or start.diagnosis is None:
        return
    rows = int(start.lam.shape[0])
    names = system.constraint_names(rows)
    shared = {names[i] for i in system.seen_rows(rows)} & set(start.diagnosis.shared_by)
    if shared:
        raise ValueError(
            f"{owner}: {listed(system.reaction_force_names(), 4)} depends on the reaction of "
            f"{listed(sorted(shared))}, which redundant constraints (among "
            f"{listed(start.diagnosis.shared_by)}) leave undetermined. Remove what is redundant."
        )


@dataclass(frozen=True)
class Method:
    """A legal pair with its orders of convergence (q, v, multipliers) and where it comes from.

    `drift` are the orders with which |g| and |g'| go to zero, `math.inf` where only rounding is
    left of them.
    """

    formulation: Formulation
    integrator: Any
    orders: tuple[int, int, int]
    drift: tuple[float, float]

    @property
    def reference(self) -> str:
        """Where the two halves come from."""
        return f"{self.formulation.reference}; {self.integrator.reference}"

    def __str__(self) -> str:
        q, v, lam = self.orders
        name = type(self.integrator).__name__
        drift = " and ".join("rounding" if d == math.inf else f"O(h^{d:g})" for d in self.drift)
        return (
            f"{self.formulation!r} with {name}: order {q}, {v}, {lam}; drift {drift} "
            f"({self.reference})"
        )


def _usual(module: ModuleType, base: type) -> list[Any]:
    """One object of each class of a module, with its usual options."""
    special = {
        "Baumgarte": lambda c: c(10.0),
        "StabilizedInvariant": lambda c: c(10.0),
        "AdamsBashforth": lambda c: c(4),
        "AdamsMoulton": lambda c: c(4),
        "ModifiedAdamsMoulton": lambda c: c(3),
    }
    out = []
    for name in module.__all__:
        thing = getattr(module, name)
        concrete = isinstance(thing, type) and issubclass(thing, base)
        if concrete and not name.endswith("Formulation") and name != base.__name__:
            out.append(special.get(name, lambda c: c())(thing))
    return out


def usual_formulations() -> list[Any]:
    """One formulation of each class, with its usual options."""
    return _usual(formulations, Formulation)


def usual_integrators() -> list[Any]:
    """One integrator of each class, with its usual options."""
    return _usual(integrators, Integrator)


@checked_call
def methods() -> list[Method]:
    """Every legal pair of a formulation and an integrator, each with its usual options.

    Integrators that choose their own order have none to tell, and are left out.
    """
    pairs = [
        (f, i)
        for f in usual_formulations()
        for i in usual_integrators()
        if is_legal(f, i) and not i.needs_tolerance
    ]
    return [Method(f, i, f.orders(i), f.drift_orders(i)) for f, i in pairs]
