"""Other analyses of a `Model`: each builds the system and its start, then asks.

`analysis` is imported by those who ask: a simulation does without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..consistent import Start
from ..result import Result
from ..system.mechanism import Mechanism

if TYPE_CHECKING:
    from ..analysis import Equilibrium, Linearization


class _Buildable(Protocol):
    def build(self, *, t: float = ..., hold: Sequence[str] = ...) -> tuple[Mechanism, Start]: ...


class AnalysisMethods:
    """Mixin with one method for each analysis that begins at the described configuration."""

    def equilibrium(
        self: _Buildable,
        *,
        t: float = 0.0,
        hold: Sequence[str] = (),
        method: Literal["newton", "relaxation"] = "newton",
        load_steps: int = 1,
        tol: float = 1e-10,
    ) -> Equilibrium:
        """The static equilibrium near the described configuration; see `holonax.equilibrium`.

        `hold` names what keeps its described place while the start is assembled.
        """
        from ..analysis import equilibrium

        system, start = self.build(t=t, hold=hold)
        return equilibrium(system, start, method=method, load_steps=load_steps, tol=tol)

    def kinematics(
        self: _Buildable,
        t_end: float | None = None,
        *,
        dt: float | None = None,
        times: Any = None,
        t: float = 0.0,
    ) -> Result:
        """The motion of a fully driven mechanism from the time `t` on; see `holonax.kinematics`."""
        from ..analysis import kinematics

        system, start = self.build(t=t)
        return kinematics(system, start, t_end, dt=dt, times=times)

    def linearize(
        self: _Buildable,
        *,
        t: float = 0.0,
        hold: Sequence[str] = (),
        method: Literal["newton", "relaxation"] = "newton",
        load_steps: int = 1,
        coordinates: Sequence[str] | None = None,
    ) -> Linearization:
        """Small motions about the equilibrium near the described configuration.

        See `holonax.linearize`, which takes any other state. `method` and `load_steps` are those of
        `holonax.equilibrium`. Raises a `ValueError` if no equilibrium is found.
        """
        from ..analysis import equilibrium, linearize

        system, start = self.build(t=t, hold=hold)
        found = equilibrium(system, start, method=method, load_steps=load_steps)
        if not bool(found.success):
            raise ValueError(f"linearize: {found.message}")
        return linearize(system, found, coordinates=coordinates)
