"""A mechanism of which some loads are multiplied by a factor, as buckling and paths ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .._arguments import names
from .._messages import listed, unknown_name
from .._numbers import finite_number
from ..start.consistent import Start
from ..system.base import System
from ..system.mechanism import Mechanism
from ..system.reaction_forces import refuse_reaction_forces
from ..system.scaled_loads import load_names
from .checks import as_start, check_system, is_traced, known_rank
from .equilibrium import Equilibrium

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class LoadCase(NamedTuple):
    """The mechanism, the loads that a factor multiplies, where and when it begins, and the rank of
    its constraints there."""

    system: Mechanism
    loads: tuple[str, ...]
    start: Start
    t: float
    rank: int


def load_case(
    owner: str,
    system: System,
    start: Start | tuple[ArrayLike, ArrayLike],
    loads: str | tuple[str, ...] | list[str],
    t: float | None,
    *,
    traced: str,
    smaller: str,
) -> LoadCase:
    """What the user asks for, checked. `traced` says why it cannot be differentiated and what to do
    instead, `smaller` what to do where it is too large."""
    check_system(owner, system)
    if not isinstance(system, Mechanism):
        raise TypeError(
            f"{owner}: loads are known by name, which needs a mechanism made with hx.Model; this "
            f"is a {type(system).__name__}."
        )
    refuse_reaction_forces(owner, system)
    chosen = _chosen(owner, system, loads)
    if t is not None:
        t = finite_number(owner, "t", t)
    if is_traced((system, start)):
        raise TypeError(f"{owner}: {traced}")
    if isinstance(start, Equilibrium):
        start.check_owner(owner, system)
        start = start.start
    begun = as_start(owner, system, start)
    rank = known_rank(owner, begun, smaller)
    if begun.redundant:
        system = system.with_redundant_constraints()
    return LoadCase(system, chosen, begun, float(begun.t if t is None else t), rank)


def _chosen(owner: str, system: Mechanism, loads: Any) -> tuple[str, ...]:
    """The names of loads that a factor multiplies, each once."""
    chosen = names(owner, "loads", loads)
    known = load_names(system)
    if not chosen:
        raise ValueError(
            f"{owner}: loads is empty. Give the names of the forces that the load factor "
            f"multiplies; there are {listed(known) or 'none'}."
        )
    for name in chosen:
        if name not in known:
            raise ValueError(unknown_name(owner, "load", name, known))
    return tuple(dict.fromkeys(chosen))
