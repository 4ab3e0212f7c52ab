"""The growing description behind a `Model`: named bodies, joints, forces, each checked at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._messages import listed, shown
from ..system.elements import Element
from .bodies import (
    Body,
    Ground,
    Kind,
    ModelError,
    attachment_axes,
    attachment_points,
    ground_body,
    vector,
)


@dataclass(frozen=True)
class Attachment:
    """What a joint or force connects: an owner for messages, a name, and bodies of one kind."""

    owner: str
    name: str
    kind: Kind
    bodies: tuple[Body, ...]

    @property
    def size(self) -> int:
        """Dimension of vectors: 2 or 3."""
        return 2 if self.kind == "planar" else 3

    def points(self, at: Any, *given: Any) -> list[np.ndarray]:
        """Body-fixed points from `at` (world) or one given for each body."""
        labels = [f"at_{'abc'[i]}=" for i in range(len(given))]
        return attachment_points(self.owner, self.bodies[: len(given)], at, given, labels)

    def ends(self, at: Any, at_a: Any, at_b: Any) -> list[np.ndarray]:
        """Body-fixed points that need not coincide, one for each of two bodies.

        From `at`, two world points of the initial configuration, or from body coordinates; one of
        these may be left out and is the body's origin then.
        """
        if at is None or at_a is not None or at_b is not None:
            if at is not None or (at_a is None and at_b is None):
                return self.points(at, at_a, at_b)  # refuses, and says what to give
            given = (("at_a", at_a), ("at_b", at_b))
            origin = np.zeros(self.size)
            return [origin if x is None else self.vector(what, x) for what, x in given]
        try:
            first, second = at
        except (TypeError, ValueError):
            raise ModelError(
                f"{self.owner}: at={shown(at)} must be two world points, one on each body."
            ) from None
        worlds = self.vector("at[0]", first), self.vector("at[1]", second)
        return [body.to_local_point(x) for body, x in zip(self.bodies, worlds, strict=True)]

    def seen_from_first(self, point: np.ndarray) -> np.ndarray:
        """A point of the second body in coordinates of the first, initial configuration."""
        first, second = self.bodies[:2]
        return first.to_local_point(second.position + second.rotation @ point)

    def vector(self, what: str, value: Any) -> np.ndarray:
        """`value` as a finite vector of the plane or of space."""
        return vector(self.owner, what, value, self.size)

    def axes(self, axis: Any, *given: Any) -> list[np.ndarray]:
        """Body-fixed triads from `axis` (world) or one given for each body."""
        labels = [f"axis_{'abc'[i]}=" for i in range(len(given))]
        return attachment_axes(self.owner, self.bodies[: len(given)], axis, given, labels)

    def refuse(self, **options: Any) -> None:
        """Refuse options that mean nothing for this kind of body."""
        extra = [name for name, value in options.items() if value is not None]
        if extra:
            raise ModelError(
                f"{self.owner}: {', '.join(extra)} means nothing between {self.kind} bodies. "
                "Leave it out."
            )


@dataclass(frozen=True)
class Item:
    """A joint or force of the description and the elements it becomes."""

    name: str
    type: str  # what messages call it, such as "revolute joint"
    kind: Kind
    parts: tuple[tuple[str, Element, tuple[str, ...]], ...]  # (element name, element, bodies)
    bodies: tuple[str, ...]
    point_a: np.ndarray
    point: np.ndarray
    axes: np.ndarray


@dataclass
class Description:
    """Bodies, joints and forces by name."""

    _bodies: dict[str, Body] = field(default_factory=dict, init=False, repr=False)
    _joints: dict[str, Item] = field(default_factory=dict, init=False, repr=False)
    _forces: dict[str, Item] = field(default_factory=dict, init=False, repr=False)

    @property
    def ground(self) -> Ground:
        """The frame that never moves."""
        return Ground()

    def _new_name(self, what: str, name: Any) -> str:
        if not isinstance(name, str) or not name:
            raise ModelError(f"A {what} needs a name, a non-empty string; got {shown(name)}.")
        if name == "ground":
            raise ModelError(f"{what} 'ground': that name belongs to the ground. Choose another.")
        if "." in name:
            raise ModelError(
                f"{what} {name!r}: a name may not contain a dot (it separates a coordinate, as in "
                f"'crank.angle'). Choose another."
            )
        if any(name in taken for taken in (self._bodies, self._joints, self._forces)):
            raise ModelError(
                f"{what} {name!r}: the name is already taken by another object. Names must differ."
            )
        return name

    def _find(self, owner: str, body: Any, kind: Kind | None) -> Body | Ground:
        """A body by handle or name."""
        if isinstance(body, Ground) or (isinstance(body, str) and body == "ground"):
            return Ground()
        name = body.name if isinstance(body, Body) else body
        found = self._bodies.get(name) if isinstance(name, str) else None
        if found is None:
            known = listed(["ground", *self._bodies])
            raise ModelError(f"{owner}: there is no body {shown(name)}. The bodies are {known}.")
        if isinstance(body, Body) and found is not body:
            raise ModelError(
                f"{owner}: the body {name!r} it is given belongs to another model. Give the one "
                "this model made, or its name."
            )
        if kind is not None and found.kind != kind:
            raise ModelError(
                f"{owner}: body {found.name!r} is {found.kind}, but this needs {kind} bodies. "
                f"Describe it with {'planar_body' if kind == 'planar' else 'body'}(...)."
            )
        return found

    def _attach(
        self, what: str, name: str, bodies: Sequence[Any], kind: Kind | None = None
    ) -> Attachment:
        """Resolve the bodies of a joint or force and check that they go together."""
        name = self._new_name(what, name)
        owner = f"{what} {name!r}"
        found = [self._find(owner, body, kind) for body in bodies]
        moving = [body for body in found if isinstance(body, Body)]
        if not moving:
            raise ModelError(f"{owner}: it connects the ground to itself. Give at least one body.")
        kinds = {body.kind for body in moving}
        if len(kinds) > 1:
            names = " and ".join(repr(body.name) for body in moving)
            raise ModelError(
                f"{owner}: it connects planar and spatial bodies ({names}), which do not mix. "
                "Describe them all with body(...), or all with planar_body(...)."
            )
        if len({body.name for body in moving}) < len(moving):
            names = [body.name for body in moving]
            twice = next(name for name in names if names.count(name) > 1)
            raise ModelError(f"{owner}: it connects body {twice!r} to itself. Give another body.")
        only = moving[0].kind
        full = tuple(body if isinstance(body, Body) else ground_body(only) for body in found)
        return Attachment(owner, name, only, full)

    def _pair(self, what: str, name: str, a: Any, b: Any, kind: Kind | None = None) -> Attachment:
        return self._attach(what, name, (a, b), kind)

    def _joint(
        self,
        attachment: Attachment,
        elements: Sequence[Element],
        *,
        point: Any = None,
        point_a: Any = None,
        axes: Any = None,
    ) -> str:
        """Record a joint; `point` in the second body and `axes` in the first, for reactions.

        `point_a` is its point in the first body, for pictures; without it, the one that coincides
        with `point` in the initial configuration.
        """
        self._joints[attachment.name] = self._item(attachment, elements, point, axes, point_a)
        return attachment.name

    def _force(
        self,
        attachment: Attachment,
        elements: Sequence[Element],
        *,
        point: Any = None,
        point_a: Any = None,
    ) -> str:
        """Record a force; `point_a` and `point` in its first and second body are for pictures."""
        self._forces[attachment.name] = self._item(attachment, elements, point, None, point_a)
        return attachment.name

    @staticmethod
    def _item(
        attachment: Attachment,
        elements: Sequence[Element],
        point: Any,
        axes: Any,
        point_a: Any = None,
    ) -> Item:
        d = attachment.size
        if point is not None and point_a is None:
            second = attachment.bodies[min(1, len(attachment.bodies) - 1)]
            world = second.position + second.rotation @ np.asarray(point)
            point_a = attachment.bodies[0].to_local_point(world)
        bodies = tuple(body.name for body in attachment.bodies)
        parts = tuple((attachment.name, element, bodies) for element in elements)
        return Item(
            attachment.name,
            attachment.owner.removesuffix(f" {attachment.name!r}"),
            attachment.kind,
            parts,
            bodies,
            np.zeros(d) if point_a is None else np.asarray(point_a),
            np.zeros(d) if point is None else np.asarray(point),
            np.eye(d) if axes is None else np.asarray(axes),
        )
