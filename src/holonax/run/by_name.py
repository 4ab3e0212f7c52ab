"""Methods by the names of their classes, with the options that were left out."""

from __future__ import annotations

from typing import Any, Literal

from .._arguments import checked_call
from .._messages import shown
from ..formulation import PostStabilized
from ..integrator import Dopri5
from .pairs import default_integrator, is_legal, usual_formulations, usual_integrators

# The steps of a method that is named without them.
RTOL = 1e-6
DT = 1e-3  # [s]


def _method(kind: Literal["formulation", "integrator"], name: str | None) -> Any:
    """A formulation or integrator by the name of its class, with its usual options."""
    if name is None:
        return None
    usual = usual_formulations() if kind == "formulation" else usual_integrators()
    known = {type(method).__name__: method for method in usual}
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"simulate: there is no {kind} {shown(name)}; there are {', '.join(sorted(known))}. "
            "Give one of these names."
        )
    return known[name]


@checked_call
def options_by_name(
    formulation: str | None = None,
    integrator: str | None = None,
    *,
    dt: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """The options of `simulate` for methods given by the names of their classes.

    What is left out is chosen: a formulation that the integrator takes, and steps by their error
    where it is estimated, else equal ones. With nothing given the method is chosen by the motion.
    """
    method: Any = _method("formulation", formulation)
    solver: Any = _method("integrator", integrator)
    if method is None and solver is None and dt is None and rtol is None:
        return {"method": "auto"}
    if method is None and solver is not None:
        # the usual one where it will do, else the one that the integrator is the default of, or the
        # first that holds positions and velocities
        method = PostStabilized("both", passes=2)
        if not is_legal(method, solver):
            legal = [x for x in usual_formulations() if is_legal(x, solver)]
            own = lambda x: type(default_integrator(x)) is type(solver)  # noqa: E731
            method = min(legal, key=lambda x: (not own(x), x.holds.count(False)))
    if dt is None and rtol is None:
        if solver is None:
            assert method is not None
            explicit = is_legal(method, Dopri5())
            solver = Dopri5() if explicit else default_integrator(method)
        kind: Any = type(solver)
        dt, rtol = (None, RTOL) if kind.estimates_error else (DT, None)
    return {"dt": dt, "rtol": rtol, "formulation": method, "integrator": solver}
