"""Bodies with modes: what the user said of them, and the frames they become."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from .._messages import shown
from .._numbers import as_array, is_traced, namespace
from ..rotation import quaternion_from_axes
from ..system.elements import Indices
from ..system.modal_body import ModalBody
from .bodies import Body, number, rotation_matrix, vector
from .body_modes import BodyModes
from .items import Item, Kind, ModelError, record
from .shapes import as_shapes
from .units import check_angle

# What can be asked of a body by name, so that no marker can be called so.
_TAKEN = (
    "x",
    "y",
    "z",
    "angle",
    "position",
    "rotation",
    "velocity",
    "acceleration",
    "angular_velocity",
    "angular_acceleration",
    "quaternion",
    "modes",
)


@dataclass(frozen=True, repr=False)
class ModalBodyItem(Item):
    """What flexible bodies of the plane and of space share."""

    dimension: ClassVar[int]
    kind: ClassVar[Kind]
    displayed: ClassVar[tuple[str, ...]] = ("shape",)

    modes: Any
    _: KW_ONLY
    amplitudes: Any = None
    rates: Any = None
    shape: Any = None

    def __post_init__(self) -> None:
        given = self.modes
        if isinstance(given, Mapping):
            given = self._owned(lambda: BodyModes.from_dict(self.owner, self.modes))
        if not isinstance(given, BodyModes):
            raise ModelError(
                f"{self.owner}: modes={shown(given)} are none. Give hx.BodyModes(...) or "
                "hx.BodyModes.from_matrices(...)."
            )
        object.__setattr__(self, "modes", given)
        if self.shape is not None:
            object.__setattr__(
                self, "shape", self._owned(lambda: as_shapes(self.owner, self.shape) or None)
            )
        super().__post_init__()
        if given.dimension != self.dimension:
            other = "modal_body" if given.dimension == 3 else "planar_modal_body"
            raise ModelError(
                f"{self.owner}: its modes have vectors of {given.dimension} components. Describe "
                f"it with {other}(...)."
            )
        taken = [x for x in given.markers if x in _TAKEN or "." in x or "[" in x]
        if taken:
            raise ModelError(
                f"{self.owner}: a marker cannot be called {taken[0]!r}, which "
                f"{'has a dot or bracket in it' if taken[0] not in _TAKEN else 'means something'}. "
                "Choose another name."
            )
        given.check(self.owner)

    def _owned(self, make: Any) -> BodyModes:
        try:
            return make()
        except (ValueError, TypeError) as error:
            text = str(error)
            owned = text if text.startswith(self.owner) else f"{self.owner}: {text}"
            raise ModelError(owned) from None

    # -- numbers and dictionaries ----------------------------------------------------------------

    def numbers(self) -> dict[str, Any]:
        parts = {f"modes.{name}": x for name, x in self.modes.numbers().items()}
        return {**super().numbers(), **parts}

    def structure(self) -> tuple[Any, ...]:
        own = tuple(pair for pair in super().structure() if pair[0] != "modes")
        return (*own, ("modes", tuple(self.modes.markers)))

    def changed(self, **changes: Any) -> PlanarModalBody:
        own, modes = {}, changes.get("modes", self.modes)
        for name, value in changes.items():
            first, dot, field = name.partition(".")
            if dot and first == "modes":
                modes = modes.changed(self.owner, field, value)
            else:
                own[name] = value
        return super().changed(**{**own, "modes": modes})

    def _listed(self, name: str, value: object) -> Any:
        return value.to_dict() if isinstance(value, BodyModes) else super()._listed(name, value)

    # -- what it becomes -------------------------------------------------------------------------

    def start(self) -> tuple[Any, Any]:
        """The amplitudes of the modes and their rates, at the start."""
        k = self.modes.count
        given = [("amplitudes", self.amplitudes), ("rates", self.rates)]
        eta, rate = (
            np.zeros(k) if x is None else vector(self.owner, name, x, k) for name, x in given
        )
        return eta, rate

    def marker_name(self, marker: str) -> str:
        """A marker as joints and results call it."""
        return f"{self.name}.{marker}"

    def modal(self, frame: int, markers: Indices) -> ModalBody:
        """Its numbers, with the places of its frame and of its markers."""
        modes, d = self.modes, self.dimension
        k, r = modes.count, 3 if d == 3 else 1
        marks = list(modes.markers.values())
        xp = namespace(*(x for m in marks for x in (m.at, m.shape, m.turn) if x is not None))

        def full(parts: list[Any], shape: tuple[int, ...]) -> Any:
            if not marks:
                return np.zeros((0, *shape))
            return xp.stack([as_array(x).reshape(shape) for x in parts])

        turns = None
        if k and any(m.turn is not None for m in marks):
            turns = full([np.zeros((r, k)) if m.turn is None else m.turn for m in marks], (r, k))
        damping = modes.damping_matrix()
        return ModalBody(
            **modes.inertia,
            stiffness=modes.stiffness_matrix(),
            damping=damping,
            at=full([m.at for m in marks], (d,)),
            shapes=full([m.shape for m in marks], (d, k)),
            turns=turns,
            name=self.name,
            frame=frame,
            markers=markers,
        )

    def frames(self) -> list[Body]:
        """The floating frame and the markers, in the initial configuration."""
        own = self._frame()
        marks = self.modes.markers
        if self.amplitudes is None and self.rates is None:
            local = [as_array(marker.at) for marker in marks.values()]
            found = [self._at_rest(own, x) for x in local]
        else:
            body: Any = self.modal(0, Indices.of(range(len(marks))))
            q, v = body.placed(own.start, own.rate, *self.start())
            if not is_traced(q, v):
                q, v = np.asarray(q), np.asarray(v)
            found = [(q[:, i], v[:, i]) for i in range(len(marks))]
        pairs = zip(marks, found, strict=True)
        return [own, *(self._marker(self.marker_name(name), *state) for name, state in pairs)]

    def _at_rest(self, own: Body, local: Any) -> tuple[np.ndarray, np.ndarray]:
        """Rows of q and v of a point of the undeformed body."""
        d, A = self.dimension, own.rotation
        xp, w = namespace(own.start, own.rate, local), own.rate[d:]
        spun = xp.cross(w, local) if d == 3 else w[0] * xp.array([-local[1], local[0]])
        q = xp.concatenate([own.start[:d] + A @ local, own.start[d:]])
        return q, xp.concatenate([own.rate[:d] + A @ spun, w])

    @abstractmethod
    def _frame(self) -> Body:
        """The floating frame."""

    @abstractmethod
    def _marker(self, name: str, q: np.ndarray, v: np.ndarray) -> Body:
        """A marker, by its rows of q and v."""


@record("modal_body", "body")
class SpatialModalBody(ModalBodyItem):
    """Add a flexible body by its modes: a floating frame with deformations relative to it.

    **Arguments:**

    - `modes`: `hx.BodyModes(...)`, or ``hx.BodyModes.from_matrices(...)`` from the mass and
      stiffness matrices of a finite-element program. Its markers go by ``"rod.tip"``, and joints,
      forces, drivers and results take them as they take bodies; ``"rod"`` is the floating frame.
    - `position`, `rotation`, `velocity`, `angular_velocity`: of the floating frame, as for `body`.
    - `amplitudes`, `rates`: of the modes at the start; zero by default.
    - `shape`: what it looks like, as for `body`; it moves with the floating frame.
    """

    dimension = 3
    kind: ClassVar[Kind] = "spatial"

    _: KW_ONLY
    position: Any = (0.0, 0.0, 0.0)
    rotation: Any = None
    velocity: Any = (0.0, 0.0, 0.0)
    angular_velocity: Any = (0.0, 0.0, 0.0)

    def _frame(self) -> Body:
        A = rotation_matrix(self.owner, self.rotation)
        given = (self.position, self.velocity, self.angular_velocity)
        names = ("position", "velocity", "angular_velocity")
        r, v, w = (vector(self.owner, x, y, 3) for x, y in zip(names, given, strict=True))
        xp = namespace(A, r, v, w)
        q = xp.concatenate([r, quaternion_from_axes(A)])
        rate = xp.concatenate([v, A.T @ w])
        return Body(self.name, "spatial", 0.0, np.zeros(3), r, A, q, rate)

    def _marker(self, name: str, q: np.ndarray, v: np.ndarray) -> Body:
        A = rotation_matrix(self.owner, q[3:])
        return Body(name, "spatial", 0.0, np.zeros(3), q[:3], A, q, v)


@record("planar_modal_body", "body")
class PlanarModalBody(ModalBodyItem):
    """Add a flexible body of the plane by its modes; arguments as for `modal_body` and
    `planar_body`."""

    dimension = 2
    kind: ClassVar[Kind] = "planar"

    _: KW_ONLY
    position: Any = (0.0, 0.0)
    angle: float = 0.0
    velocity: Any = (0.0, 0.0)
    angular_velocity: float = 0.0

    def _frame(self) -> Body:
        r = vector(self.owner, "position", self.position, 2)
        v = vector(self.owner, "velocity", self.velocity, 2)
        theta = number(self.owner, "angle", self.angle)
        check_angle(self.owner, "angle", theta)
        w = number(self.owner, "angular_velocity", self.angular_velocity)
        xp = namespace(r, v, theta, w)
        return self._placed(self.name, xp.array([*r, theta]), xp.array([*v, w]))

    def _marker(self, name: str, q: np.ndarray, v: np.ndarray) -> Body:
        return self._placed(name, q, v)

    def _placed(self, name: str, q: np.ndarray, v: np.ndarray) -> Body:
        xp = namespace(q)
        c, s = xp.cos(q[2]), xp.sin(q[2])
        A = xp.array([[c, -s], [s, c]])
        return Body(name, "planar", 0.0, np.zeros(1), q[:2], A, q, v)
