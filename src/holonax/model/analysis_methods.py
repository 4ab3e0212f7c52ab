"""What one may ask of a `Model`: each builds the system and its start, then asks.

A model knows no way to run or to analyse: these methods go through the package's public names, when
they are called.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from .._arguments import check_options, names
from ..system.mechanism import Mechanism

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .. import Buckling, Diagnosis, Equilibrium, EquilibriumPath, Linearization, Result, Start

Solver = Literal["auto", "dense", "block"]


class _Described(Protocol):
    def system(self, *, solver: Solver = ...) -> Mechanism: ...

    def start_vectors(self) -> tuple[Any, Any]: ...


class _Buildable(Protocol):
    def build(
        self,
        *,
        t: float = ...,
        hold: Sequence[str] = ...,
        hold_velocity: Sequence[str] = ...,
        released: Sequence[str] = ...,
        solver: Solver = ...,
    ) -> tuple[Mechanism, Start]: ...


class AnalysisMethods:
    """Mixin with one method for each question that begins at the described configuration."""

    def build(
        self: _Described,
        *,
        t: float = 0.0,
        hold: Sequence[str] = (),
        hold_velocity: Sequence[str] = (),
        released: Sequence[str] = (),
        solver: Solver = "auto",
    ) -> tuple[Mechanism, Start]:
        """The `System` and a consistent start near the described one.

        `hold` and `hold_velocity` name bodies, or coordinates such as ``"crank.angle"``, that keep
        their described position or velocity while the others are made consistent. `released` names
        joints that do not act until an event engages them.
        """
        from .. import consistent

        began = time.perf_counter()
        system = self.system(solver=solver)
        inactive = names("build", "released", released)
        if inactive:
            system = system.with_joints(release=inactive)
        q, v = self.start_vectors()
        start = consistent(system, q, v, t=t, hold=hold, hold_velocity=hold_velocity)
        return system, replace(start, seconds=time.perf_counter() - began)

    def simulate(
        self: _Buildable,
        t_end: float,
        *,
        dt: float | None = None,
        t: float = 0.0,
        hold: Sequence[str] = (),
        hold_velocity: Sequence[str] = (),
        released: Sequence[str] = (),
        solver: Solver = "auto",
        controllers: Any = (),
        **options: Any,
    ) -> Result:
        """Build and simulate to `t_end` [s]; `dt` and `options` are those of `holonax.simulate`,
        `solver` that of `system`.

        Without `dt`, a formulation or an integrator the method is chosen by the motion,
        ``method="auto"``. `controllers` are `hx.Controller(...)`, called at their rates; see
        `holonax.simulate_controlled`.
        """
        from .. import simulate, simulate_controlled

        check_options(_SIMULATE, options, simulate)
        if dt is None and not {"formulation", "integrator", "method"} & set(options):
            options["method"] = "auto"
        system, start = self.build(
            t=t, hold=hold, hold_velocity=hold_velocity, released=released, solver=solver
        )
        if isinstance(controllers, tuple | list) and not controllers:
            return simulate(system, start, t_end, dt=dt, **options)
        return simulate_controlled(system, start, t_end, controllers, dt=dt, **options)

    def diagnose(self: _Buildable, *, t: float = 0.0, hold: Sequence[str] = ()) -> Diagnosis:
        """Mobility, redundant rows and singularity where it is assembled; see `holonax.diagnose`.

        `hold` names what keeps its described place while the start is assembled.
        """
        from .. import diagnose

        return diagnose(*self.build(t=t, hold=hold))

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
        from .. import equilibrium

        system, start = self.build(t=t, hold=hold)
        return equilibrium(system, start, method=method, load_steps=load_steps, tol=tol)

    def equilibrium_path(
        self: _Buildable,
        loads: str | Sequence[str],
        *,
        until: float = 1.0,
        limits: int | None = None,
        points: int = 200,
        largest: float = 0.1,
        t: float = 0.0,
        hold: Sequence[str] = (),
    ) -> EquilibriumPath:
        """The equilibria under `loads` multiplied by a factor from 0 `until` this one, through
        limit points; see `holonax.equilibrium_path`."""
        from .. import equilibrium_path

        system, start = self.build(t=t, hold=hold)
        options = {"until": until, "limits": limits, "points": points, "largest": largest}
        return equilibrium_path(system, start, loads, **options)

    def buckling(
        self: _Buildable,
        loads: str | Sequence[str],
        *,
        about: float = 0.0,
        modes: int = 4,
        t: float = 0.0,
        hold: Sequence[str] = (),
    ) -> Buckling:
        """The factors of `loads` at which it buckles, by its stiffness linearised about a state
        with `about` times these loads; see `holonax.buckling`."""
        from .. import buckling

        system, start = self.build(t=t, hold=hold)
        return buckling(system, start, loads, about=about, modes=modes)

    def kinematics(
        self: _Buildable,
        t_end: float | None = None,
        *,
        dt: float | None = None,
        times: ArrayLike | None = None,
        t: float = 0.0,
    ) -> Result:
        """The motion of a fully driven mechanism from the time `t` on; see `holonax.kinematics`."""
        from .. import kinematics

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
        from .. import equilibrium, linearize

        system, start = self.build(t=t, hold=hold)
        found = equilibrium(system, start, method=method, load_steps=load_steps)
        if not bool(found.success):
            raise ValueError(f"linearize: {found.message}")
        return linearize(system, found, coordinates=coordinates)


_SIMULATE: Any = vars(AnalysisMethods)["simulate"]
