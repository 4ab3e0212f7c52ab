"""`Model`: what the user describes, and how it becomes a `System` with a consistent start."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .._arguments import check_options, choice, names
from .._messages import shown
from .._numbers import as_array
from ..consistent import Start, consistent
from ..result import Result
from ..simulate import simulate
from ..system.assembly import BodySet
from ..system.elements import Element, Group, Table, group_rows
from ..system.frames import Frame, PlanarFrame
from ..system.mechanism import JointMarker, JointPlaces, Mechanism
from .analysis_methods import AnalysisMethods
from .bodies import Body, Kind, ModelError, planar_body, spatial_body, vector
from .custom import CustomMethods
from .description import Item
from .drivers import DriverMethods
from .force_methods import ForceMethods
from .joint_methods import JointMethods
from .nonholonomic import NonholonomicMethods
from .planar_joint_methods import PlanarJointMethods
from .units import check_lengths

_SOLVERS = ("auto", "dense", "block")


@dataclass
class Model(
    JointMethods,
    PlanarJointMethods,
    DriverMethods,
    NonholonomicMethods,
    CustomMethods,
    ForceMethods,
    AnalysisMethods,
):
    """A mechanism: bodies, joints and forces, all named.

    **Arguments:**

    - `gravity`: acceleration of free fall [m/s^2], two or three components. Planar bodies feel
      its x and y components. Default: 9.81 along -z for spatial bodies, along -y for planar ones.

    Add bodies with `body` and `planar_body`, connect them with joints and forces, then `simulate`,
    or `build` to get the `System` and a consistent start.
    """

    gravity: Any = None

    def __post_init__(self) -> None:
        if self.gravity is not None:
            try:
                size = len(self.gravity)
            except TypeError:
                size = 0
            if size not in (2, 3):
                raise ModelError(
                    f"Model: gravity={shown(self.gravity)} must have two or three components "
                    "[m/s^2], such as (0, 0, -9.81)."
                )
            self.gravity = vector("Model", "gravity", self.gravity, size)

    def body(
        self,
        name: str,
        mass: Any = None,
        inertia: Any = None,
        *,
        position: Any = (0.0, 0.0, 0.0),
        rotation: Any = None,
        velocity: Any = (0.0, 0.0, 0.0),
        angular_velocity: Any = (0.0, 0.0, 0.0),
    ) -> Body:
        """Add a spatial rigid body whose frame has its origin at the centre of mass.

        **Arguments:**

        - `mass`: [kg], or `MassProperties` such as ``hx.box(...)``, which bring the inertia.
        - `inertia`: [kg m^2] about the centre of mass in body axes, (3,) or (3, 3).
        - `position`, `rotation`: initial pose; the rotation as quaternion (scalar first), matrix or
          rotation vector.
        - `velocity` [m/s] and `angular_velocity` [rad/s], both in world axes.
        """
        name = self._new_name("body", name)
        if mass is None:
            raise ModelError(f"body {name!r}: mass is missing. Give it in kg, or MassProperties.")
        self._bodies[name] = spatial_body(
            name, mass, inertia, position, rotation, velocity, angular_velocity
        )
        return self._bodies[name]

    def planar_body(
        self,
        name: str,
        mass: Any = None,
        inertia: Any = None,
        *,
        position: Any = (0.0, 0.0),
        angle: float = 0.0,
        velocity: Any = (0.0, 0.0),
        angular_velocity: float = 0.0,
    ) -> Body:
        """Add a planar rigid body (x, y, angle) with its origin at the centre of mass.

        `inertia` is the moment about the centre of mass [kg m^2]; other units are SI, angles in
        rad.
        """
        name = self._new_name("body", name)
        if mass is None:
            raise ModelError(f"body {name!r}: mass is missing. Give it in kg, or MassProperties.")
        self._bodies[name] = planar_body(
            name, mass, inertia, position, angle, velocity, angular_velocity
        )
        return self._bodies[name]

    def system(self, *, solver: Literal["auto", "dense", "block"] = "auto") -> Mechanism:
        """The mechanism's equations, without asking whether its start is consistent.

        `solver` chooses the algebra of the constraint equations and of Newton's method: ``"auto"``
        goes by size and structure; ``"block"`` eliminates bodies and joints by blocks, however few
        there are; ``"dense"`` gathers one matrix, with row exchanges in Newton's method.
        """
        if not self._bodies:
            raise ModelError("The model has no body. Add one with model.body(...).")
        choice("Model", "solver", solver, _SOLVERS, error=ModelError)
        kinds: list[Kind] = [
            k for k in ("planar", "spatial") if any(b.kind == k for b in self._bodies.values())
        ]
        sets = tuple(self._body_set(kind, solver) for kind in kinds)
        index = {kind: self._index(kind) for kind in kinds}
        markers = tuple(
            (item.name, _marker(item, kinds.index(item.kind), index[item.kind]))
            for item in self._joints.values()
        )
        places = [(item.point_a, item.point, item.axes) for item in self._joints.values()]
        return Mechanism(sets, JointPlaces.of(places), markers, False)

    def start_vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """The described (q, v), not yet made consistent."""
        q, v = [], []
        for kind in ("planar", "spatial"):
            bodies = [b for b in self._bodies.values() if b.kind == kind]
            if bodies:
                q.append(np.stack([b.start for b in bodies], axis=1).ravel())
                v.append(np.stack([b.rate for b in bodies], axis=1).ravel())
        return np.concatenate(q), np.concatenate(v)

    def build(
        self,
        *,
        t: float = 0.0,
        hold: Sequence[str] = (),
        hold_velocity: Sequence[str] = (),
        released: Sequence[str] = (),
        solver: Literal["auto", "dense", "block"] = "auto",
    ) -> tuple[Mechanism, Start]:
        """The `System` and a consistent start near the described one.

        `hold` and `hold_velocity` name bodies, or coordinates such as ``"crank.angle"``, that keep
        their described position or velocity while the others are made consistent. `released` names
        joints that do not act until an event engages them.
        """
        began = time.perf_counter()
        system = self.system(solver=solver)
        inactive = names("build", "released", released)
        if inactive:
            system = system.with_joints(release=inactive)
        q, v = self.start_vectors()
        check_lengths(self._bodies.values(), self._joints.values())
        start = consistent(system, q, v, t=t, hold=hold, hold_velocity=hold_velocity)
        return system, replace(start, seconds=time.perf_counter() - began)

    def simulate(
        self,
        t_end: float,
        *,
        dt: float | None = None,
        t: float = 0.0,
        hold: Sequence[str] = (),
        hold_velocity: Sequence[str] = (),
        released: Sequence[str] = (),
        solver: Literal["auto", "dense", "block"] = "auto",
        **options: Any,
    ) -> Result:
        """Build and simulate to `t_end` [s]; `dt` and `options` are those of `holonax.simulate`,
        `solver` that of `system`.

        Without `dt`, a formulation or an integrator the method is chosen by the motion,
        ``method="auto"``.
        """
        check_options(Model.simulate, options, simulate)
        if dt is None and not {"formulation", "integrator", "method"} & set(options):
            options["method"] = "auto"
        system, start = self.build(
            t=t, hold=hold, hold_velocity=hold_velocity, released=released, solver=solver
        )
        return simulate(system, start, t_end, dt=dt, **options)

    # -- building ----------------------------------------------------------------------------

    def _index(self, kind: Kind) -> dict[str, int]:
        """Frame number of each body of a kind; the ground is 0."""
        names = [b.name for b in self._bodies.values() if b.kind == kind]
        return {"ground": 0, **{name: i + 1 for i, name in enumerate(names)}}

    def _body_set(self, kind: Kind, solver: str) -> BodySet:
        bodies = [b for b in self._bodies.values() if b.kind == kind]
        index = self._index(kind)
        frame = PlanarFrame if kind == "planar" else Frame
        joints = _grouped(self._joints.values(), kind, index, frame)
        joints.sort(key=lambda g: not g.is_holonomic)
        inertia = np.stack([b.inertia for b in bodies], axis=1)
        return BodySet.of(
            mass=as_array([b.mass for b in bodies]),
            inertia=as_array(inertia[0] if kind == "planar" else inertia),
            gravity=tuple(as_array(x) for x in self._gravity(kind)),
            joints=joints,
            forces=_grouped(self._forces.values(), kind, index, frame),
            names=[b.name for b in bodies],
            frame=frame,
            solver=solver,
        )

    def _gravity(self, kind: Kind) -> np.ndarray:
        if self.gravity is None:
            return np.array([0.0, -9.81]) if kind == "planar" else np.array([0.0, 0.0, -9.81])
        if kind == "planar":
            return self.gravity[:2]
        return np.pad(self.gravity, (0, 3 - self.gravity.size))


def _marker(item: Item, set_index: int, index: dict[str, int]) -> JointMarker:
    return JointMarker(
        set_index,
        (index[item.bodies[0]], index[item.bodies[min(1, len(item.bodies) - 1)]]),
        tuple(name for name, _, _ in item.parts),
    )


def _stacked(*values: Any) -> Any:
    """Numbers of many elements as one array; on the host unless some are traced."""
    if any(isinstance(x, jax.Array) for x in values):
        return jnp.stack([jnp.asarray(x, float) for x in values])
    return np.stack([np.asarray(x, float) for x in values])


def _grouped(items: Any, kind: Kind, index: dict[str, int], frame: type) -> list[Group]:
    """Stack the elements of each type, in order of first appearance."""
    found: dict[Any, list[tuple[str, Element, tuple[str, ...]]]] = {}
    for item in items:
        if item.kind != kind:
            continue
        for part in item.parts:
            leaves, structure = jax.tree.flatten(part[1])
            shapes = tuple(np.shape(leaf) for leaf in leaves)
            found.setdefault((structure, shapes, len(part[2])), []).append(part)
    groups = []
    for parts in found.values():
        names, elements, bodies = zip(*parts, strict=True)
        element = jax.tree.map(_stacked, *elements)
        nodes = tuple(
            Table.of(index[touched[k]] for touched in bodies) for k in range(len(bodies[0]))
        )
        rows = group_rows(elements[0], frame, len(nodes))
        groups.append(Group(element, nodes, names, rows))
    return groups
