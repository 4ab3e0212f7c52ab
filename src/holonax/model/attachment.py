"""Where joints and forces attach: points and axes of the bodies they connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._messages import shown
from .._numbers import is_traced, namespace
from ..rotation import Vec2, Vec3, perpendicular_axes
from ..system import elements
from ..system.first_order import WithStates
from .bodies import Body, direction, number, vector
from .items import Connector, Kind, ModelError

if TYPE_CHECKING:
    from jax import Array


@dataclass(frozen=True)
class Attached:
    """A joint or force in place: the elements it becomes, its bodies, and where it sits.

    `point_a` and `axes` are its point and its triad in the first body, `point` and `axes_b` those
    in the second, in the body's own coordinates.
    """

    item: Any  # the record
    bodies: tuple[str, ...]
    elements: tuple[elements.Element, ...]
    point_a: np.ndarray
    point: np.ndarray
    axes: np.ndarray
    axes_b: np.ndarray
    arm: Any  # `point` as elements have it: from the centre of mass
    carriers: tuple[str, ...] = ()  # of the states it has or depends on, nodes after the bodies
    sees: tuple[str, ...] = ()  # joints whose reactions it depends on
    measures: tuple[str, ...] = ()  # what a force measures, where its kind does not say
    part: str = ""  # which of several alike that one record becomes

    @property
    def name(self) -> str:
        """What its elements are called."""
        return self.part or self.item.name

    def localised(self, changes: Mapping[str, Any]) -> dict[str, np.ndarray | None]:
        """What else changes when a record that was placed in the world is changed in a body, or
        the other way round: the place is said in one way only."""
        own = {
            "at": {"at_a": self.point_a, "at_b": self.point},
            "axis": {"axis_a": self.axes[:, -1], "axis_b": self.axes_b[:, -1]},
        }
        if len(self.point) == 2:
            own["axis"] = {"axis_a": self.axes[:, 0], "axis_b": self.axes_b[:, 0]}
        out: dict[str, Any] = {}
        for world, local in own.items():
            names = [x for x in local if hasattr(self.item, x)]
            if changes.get(world) is not None:
                out |= dict.fromkeys(names)
            elif getattr(self.item, world, None) is not None and set(names) & set(changes):
                out |= {world: None, **{x: local[x] for x in names}}
        return {name: value for name, value in out.items() if name not in changes}


@dataclass(frozen=True)
class Attachment:
    """What a record attaches to: bodies of one kind, and the joint it names, if any."""

    item: Connector
    kind: Kind
    bodies: tuple[Body, ...]
    joints: Mapping[str, Attached] = field(repr=False)
    # what it names, in order: None with a body, else the number of a state's components, or 0
    layout: tuple[tuple[str, int | None], ...] = ()
    own: tuple[str, ...] = ()  # carriers of the states that it has itself

    @property
    def owner(self) -> str:
        """What messages begin with."""
        return self.item.owner

    @property
    def is_planar(self) -> bool:
        """Whether the bodies are planar."""
        return self.kind == "planar"

    @property
    def size(self) -> int:
        """Dimension of vectors: 2 or 3."""
        return 2 if self.is_planar else 3

    def number(self, what: str, value: object) -> Any:
        """`value` as a finite number."""
        return number(self.owner, what, value)

    def vector(self, what: str, value: object) -> np.ndarray:
        """`value` as a finite vector of the plane or of space."""
        return vector(self.owner, what, value, self.size)

    def direction(self, what: str, value: object) -> np.ndarray:
        """`value` as a unit vector."""
        return direction(self.owner, what, value, self.size)

    # -- points ------------------------------------------------------------------------------

    def points(self, at: object, *given: Any) -> list[np.ndarray]:
        """Body-fixed points: from one world point `at`, or given in each body's coordinates.

        A point given for one body only is carried over to the others in the initial configuration.
        """
        labels = [f"at_{'abc'[i]}=" for i in range(len(given))]
        if len(given) == 1:
            labels = ["at_b="]
        bodies = self.bodies[: len(given)]
        if at is not None:
            if any(x is not None for x in given):
                raise ModelError(
                    f"{self.owner}: its place is given twice. Use either at= (world, initial "
                    f"configuration) or {' and '.join(labels)} (body coordinates)."
                )
            world = self.vector("at", at)
            return self._held([body.to_local_point(world) for body in bodies])
        local = [
            None if x is None else self.vector(label.rstrip("="), x)
            for x, label in zip(given, labels, strict=True)
        ]
        if all(x is None for x in local):
            raise ModelError(
                f"{self.owner}: its place is missing. Give at= (a world point of the initial "
                f"configuration) or {' and '.join(labels)} (body coordinates)."
            )
        known, first = next((i, x) for i, x in enumerate(local) if x is not None)
        world = bodies[known].to_world(first)
        pairs = zip(bodies, local, strict=True)
        return self._held([body.to_local_point(world) if x is None else x for body, x in pairs])

    def ends(
        self,
        at: tuple[tuple[float, float], tuple[float, float]] | None,
        at_a: Array | tuple[float, ...] | None,
        at_b: Array | tuple[float, ...] | None,
    ) -> list[np.ndarray]:
        """Body-fixed points that need not coincide, one for each of two bodies.

        From `at`, two world points of the initial configuration, or from body coordinates; what is
        left out is the body's origin.
        """
        if at is None:
            given = (("at_a", at_a), ("at_b", at_b))
            origin = np.zeros(self.size)
            return self._held([origin if x is None else self.vector(y, x) for y, x in given])
        if at_a is not None or at_b is not None:
            return self.points(at, at_a, at_b)  # refuses, and says what to give
        try:
            first, second = at
        except Exception:  # of whatever was given
            raise ModelError(
                f"{self.owner}: at={shown(at)} must be two world points, one on each body."
            ) from None
        worlds = self.vector("at[0]", first), self.vector("at[1]", second)
        pairs = zip(self.bodies, worlds, strict=True)
        return self._held([body.to_local_point(x) for body, x in pairs])

    def _held(self, points: list[np.ndarray]) -> list[np.ndarray]:
        """The points, unless a point mass is held elsewhere than where it is."""
        for body, point in zip(self.bodies[-len(points) :], points, strict=True):
            centre = point if body.com is None else point - body.com
            if body.is_point and not is_traced(centre) and np.max(np.abs(centre)) > 1e-9:
                raise ModelError(
                    f"{self.owner}: it holds {body.name!r} at {np.asarray(point).tolist()}, but a "
                    "point mass has no extent. Put it at the mass, or give the body inertia."
                )
        return points

    def seen_from_first(self, point: np.ndarray) -> np.ndarray:
        """A point of the second body in coordinates of the first, initial configuration."""
        return self.bodies[0].to_local_point(self.bodies[1].to_world(point))

    def arm(self, k: int, point: np.ndarray | Array) -> Any:
        """A point of body `k` as elements have it: from the centre of mass."""
        com = self.bodies[k].com
        return self.components(point if com is None else point - com)

    def origins(self) -> tuple[Any, ...] | None:
        """For each body its origin from the centre of mass; None where these are the same."""
        if all(body.com is None for body in self.bodies):
            return None
        none = self.components(np.zeros(self.size))
        bodies = [self.arm(k, np.zeros(self.size)) for k in range(len(self.bodies))]
        return *bodies, *(none for _ in self.carriers)

    # -- states ------------------------------------------------------------------------------

    @property
    def states(self) -> dict[str, int]:
        """The states it names, with the number of components; 0 for a number."""
        return {name: size for name, size in self.layout if size is not None}

    @property
    def carriers(self) -> tuple[str, ...]:
        """Of its own states, and of those it names."""
        return *self.own, *(x for name, n in self.states.items() for x in carriers(name, n))

    def seen(self, function: Any) -> Any:
        """A function of what it names as one of the frames of bodies and of carriers."""
        sizes = tuple(size for _, size in self.layout)
        return function if not self.carriers else WithStates(function, sizes)

    def components(self, values: np.ndarray | Array) -> Any:
        """A vector of the plane or of space by its components."""
        return (Vec2 if self.is_planar else Vec3).of(values)

    # -- axes --------------------------------------------------------------------------------

    def axes(self, axis: Array | tuple[float, ...] | None, *given: Any) -> list[np.ndarray]:
        """Body-fixed triads (columns e1, e2, axis), the same in space in the initial configuration.

        From a world direction `axis`, or from directions in body coordinates; with the latter given
        for several bodies their axes need not agree yet (assembly will turn the bodies), and each
        triad is turned about its own axis to lie as close to the first as it can.
        """
        labels = [f"axis_{'abc'[i]}=" for i in range(len(given))]
        bodies = self.bodies[: len(given)]
        if axis is not None:
            if any(x is not None for x in given):
                raise ModelError(
                    f"{self.owner}: its axis is given twice. Use either axis= (world, initial "
                    f"configuration) or {' and '.join(labels)} (body axes)."
                )
            world = triad(self.direction("axis", axis))
            return [body.rotation.T @ world for body in bodies]
        local = [
            None if x is None else self.direction(label.rstrip("="), x)
            for x, label in zip(given, labels, strict=True)
        ]
        if all(x is None for x in local):
            raise ModelError(
                f"{self.owner}: its axis is missing. Give axis= (a world direction of the initial "
                f"configuration) or {' and '.join(labels)} (body axes)."
            )
        known, first = next((i, x) for i, x in enumerate(local) if x is not None)
        base = triad(first)
        world = bodies[known].rotation @ base
        out = []
        for i, (body, x) in enumerate(zip(bodies, local, strict=True)):
            near = body.rotation.T @ world
            out.append(base if i == known else near if x is None else _triad_near(x, near))
        return out

    def one_direction(
        self,
        k: int,
        what: str,
        world: Array | tuple[float, ...] | None,
        local: Array | tuple[float, float] | None,
        *,
        of: str = "",
    ) -> np.ndarray:
        """A direction of body `k` from a world one or its own, whichever is given."""
        label = f"{what}_{'ab'[k]}"
        self.one_of(of or f"its {what}", what, world, label, local)
        if local is not None:
            return self.direction(label, local)
        return self.bodies[k].to_local_direction(self.direction(what, world))

    def one_of(
        self,
        it: str,
        what: str,
        world: Array | tuple[float, ...] | None,
        label: str,
        local: Array | tuple[float, float] | None,
    ) -> None:
        """Refuse what is given both in the world and in a body, or not at all."""
        if (world is None) == (local is None):
            state = "missing" if world is None else "given twice"
            raise ModelError(
                f"{self.owner}: {it} is {state}. Give either {what}= (world, initial "
                f"configuration) or {label}= (in the body)."
            )

    def refuse(self, **options: Any) -> None:
        """Refuse options that mean nothing for this kind of body."""
        extra = [name for name, value in options.items() if value is not None]
        if extra:
            raise ModelError(
                f"{self.owner}: {', '.join(extra)} means nothing between {self.kind} bodies. "
                "Leave it out."
            )

    # -- the result --------------------------------------------------------------------------

    def attached(
        self,
        made: Sequence[elements.Element],
        *,
        point_a: Any = None,
        point: Any = None,
        axes: Any = None,
        axes_b: Any = None,
        measures: Any = (),
    ) -> Attached:
        """With these elements; `point` and `axes` are where reactions are reported.

        Without `point_a`, it is the point that coincides with `point` in the initial configuration.
        """
        d = self.size
        if point is not None and point_a is None:
            second = self.bodies[min(1, len(self.bodies) - 1)]
            point_a = self.bodies[0].to_local_point(second.to_world(point))
        point = np.zeros(d) if point is None else point
        return Attached(
            self.item,
            tuple(body.name for body in self.bodies),
            tuple(made),
            np.zeros(d) if point_a is None else point_a,
            point,
            np.eye(d) if axes is None else axes,
            np.eye(d) if axes_b is None else axes_b,
            self.arm(min(1, len(self.bodies) - 1), point) if self.bodies else None,
            carriers=self.carriers,
            measures=measures,
        )


def carriers(state: str, size: int) -> list[str]:
    """What the carriers of a state are called; `size` 0 is a number."""
    return [f"{state}.{k + 1}" for k in range(size)] if size else [state]


def triad(axis: np.ndarray) -> np.ndarray:
    """Columns (e1, e2, axis) in space; (axis, normal) in the plane."""
    xp = namespace(axis)
    if axis.shape == (2,):
        return xp.array([[axis[0], -axis[1]], [axis[1], axis[0]]])
    return xp.column_stack(perpendicular_axes(axis))


def _triad_near(axis: np.ndarray, near: np.ndarray) -> np.ndarray:
    """A triad along `axis`, turned about it so that it is close to the triad `near`."""
    if axis.shape == (2,):
        return triad(axis)
    xp = namespace(axis, near)
    e1, e2 = (e - axis * (axis @ e) for e in near.T[:2])
    # where e1 is along the axis, e2 is nearly normal to it
    e1 = xp.where(xp.linalg.norm(e1) < 0.5, xp.cross(e2, axis), e1)
    e1 = e1 / xp.linalg.norm(e1)
    return xp.column_stack([e1, xp.cross(axis, e1), axis])
