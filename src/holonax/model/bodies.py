"""Bodies: what the user said of them, and the placed `Body` that joints and forces attach to."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import _numbers
from .._messages import shown
from .._numbers import as_array, is_traced, namespace
from ..rotation import perpendicular_axes, quaternion_from_axes
from .inertia import MassProperties, check_inertia
from .items import Item, Kind, ModelError, record
from .shapes import as_shapes
from .units import check_angle

if TYPE_CHECKING:
    from jax import Array


@dataclass(frozen=True)
class Body:
    """A rigid body in the initial configuration.

    Made by `Model.body` and `Model.planar_body`; hand it, or its name, to joints and forces.
    `position` is that of its frame's origin and `rotation` the matrix (2x2 or 3x3) of its axes;
    `inertia` is a number in the plane; in space the moments about the body's axes, and behind them
    the products of inertia where there may be some (see `BodySet`).
    `com` is the centre of mass in the body's coordinates, None where it is the origin. `start` and
    `rate` are its rows of q and v, which are those of the centre of mass.
    """

    name: str
    kind: Kind
    mass: Any
    inertia: np.ndarray
    position: np.ndarray
    rotation: np.ndarray
    start: np.ndarray
    rate: np.ndarray
    com: np.ndarray | None = None
    is_point: bool = False

    @property
    def is_ground(self) -> bool:
        """Whether this is the ground of a plane or of space."""
        return self.name == "ground"

    @property
    def angle(self) -> Any:
        """The initial angle of a planar body."""
        return 0.0 if self.is_ground else self.start[2]

    def to_local_point(self, world: np.ndarray) -> np.ndarray:
        """Body coordinates of a world point in the initial configuration."""
        return self.rotation.T @ (world - self.position)

    def to_local_direction(self, world: np.ndarray) -> np.ndarray:
        """Body components of a world direction in the initial configuration."""
        return self.rotation.T @ world

    def to_world(self, local: np.ndarray) -> np.ndarray:
        """A body-fixed point in the world in the initial configuration."""
        return self.position + self.rotation @ local


@dataclass(frozen=True)
class Ground:
    """The frame that never moves; belongs to planar and spatial bodies alike."""

    name: str = "ground"


def ground_body(kind: Kind) -> Body:
    """The ground seen as a body of the given kind."""
    d = 2 if kind == "planar" else 3
    return Body("ground", kind, 0.0, np.zeros(0), np.zeros(d), np.eye(d), np.zeros(0), np.zeros(0))


def vector(owner: str, what: str, value: object, size: int) -> np.ndarray:
    """`value` as a finite vector of `size` numbers, or one message that names the owner."""
    return _numbers.array(owner, what, value, (size,), error=ModelError)


def number(owner: str, what: str, value: Any) -> Any:
    """`value` as a finite number, or one message that names the owner."""
    if is_traced(value) and np.shape(value) == ():
        return as_array(value)
    return _numbers.number(owner, what, value, error=ModelError)


def direction(owner: str, what: str, value: object, size: int = 3) -> np.ndarray:
    """`value` as a unit vector, or one message that names the owner."""
    array = vector(owner, what, value, size)
    length = namespace(array).linalg.norm(array)
    if not is_traced(length) and length < 1e-12:
        raise ModelError(f"{owner}: {what} has no length. Give a direction different from zero.")
    return array / length


def rotation_matrix(owner: str, value: Any) -> np.ndarray:
    """A rotation given as None, a quaternion (scalar first), a matrix, or a rotation vector."""
    if value is None:
        return np.eye(3)
    try:
        array = as_array(value)
    except (TypeError, ValueError):
        array = np.zeros(0)
    xp, traced = namespace(array), is_traced(array)
    finite = traced or bool(np.all(np.isfinite(array)))
    if array.shape == (4,) and finite and (traced or np.linalg.norm(array) > 1e-12):
        w, x, y, z = array / xp.linalg.norm(array)
        return xp.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
    if array.shape == (3,) and finite:
        angle = xp.linalg.norm(array)
        if not traced and angle == 0:
            return np.eye(3)
        check_angle(owner, "the angle of rotation", angle)
        T = xp.column_stack(perpendicular_axes(array))
        c, s, o = xp.cos(angle), xp.sin(angle), 0.0 * angle
        return T @ xp.array([[c, -s, o], [s, c, o], [o, o, o + 1]]) @ T.T
    if array.shape == (3, 3) and (
        traced or (np.allclose(array @ array.T, np.eye(3), atol=1e-9) and np.linalg.det(array) > 0)
    ):
        return array
    raise ModelError(
        f"{owner}: rotation={shown(value)} is not understood. Give a quaternion (e0, e1, e2, "
        "e3), a rotation vector, or a 3x3 rotation matrix (orthogonal, determinant +1)."
    )


# -- records -----------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class BodyItem(Item):
    """What spatial and planar bodies share: a mass, which may bring all mass properties."""

    dimension: ClassVar[int]
    displayed: ClassVar[tuple[str, ...]] = ("shape",)

    mass: Any = None
    inertia: Any = None
    _: KW_ONLY
    com: Any = None
    shape: Any = None

    def __post_init__(self) -> None:
        solid = self.mass
        if solid is None:
            raise ModelError(f"{self.owner}: mass is missing. Give it in kg, or MassProperties.")
        if isinstance(solid, MassProperties):
            for what in ("inertia", "com"):
                if getattr(self, what) is not None:
                    raise ModelError(
                        f"{self.owner}: {what} is given twice. Leave it out beside MassProperties."
                    )
            for what, value in self._of(solid).items():
                object.__setattr__(self, what, value)
        if self.shape is not None:
            try:
                object.__setattr__(self, "shape", as_shapes(self.owner, self.shape) or None)
            except (ValueError, TypeError) as error:
                text = str(error)
                owned = text if text.startswith(self.owner) else f"{self.owner}: {text}"
                raise ModelError(owned) from None
        super().__post_init__()
        if self.inertia is None:
            raise ModelError(
                f"{self.owner}: inertia is missing. Give the moment(s) of inertia about the centre "
                "of mass, or MassProperties such as hx.box(...)."
            )

    def _of(self, solid: MassProperties) -> dict[str, Any]:
        """The fields that mass properties bring."""
        size = np.sqrt(np.max(solid.inertia) / solid.mass) if solid.mass > 0 else 0.0
        com = solid.com[: self.dimension]
        if solid.mass > 0 and not np.any(solid.inertia):
            inertia = "point"
        else:
            inertia = solid.inertia if self.dimension == 3 else solid.planar()[1]
        offset = np.linalg.norm(com) > 1e-12 * size  # else it is at the origin up to rounding
        own = {"mass": solid.mass, "inertia": inertia, "com": com if offset else None}
        return own if self.shape is not None else {**own, "shape": solid.shapes or None}

    @abstractmethod
    def placed(self) -> Body:
        """The body in the initial configuration."""

    def _checked(self) -> tuple[Any, Any, bool]:
        """Mass, inertia (a number or a matrix) and whether it is a point mass."""
        planar = self.dimension == 2
        is_point = isinstance(self.inertia, str) and self.inertia == "point"
        mass = self._numbers("mass", self.mass)
        if is_point:  # it keeps its orientation, so that any inertia will do
            J = mass * (np.ones(()) if planar else np.eye(3)) if mass.shape == () else mass
        else:
            J = self._numbers("inertia", self.inertia)
        if not planar and J.shape == (3,):
            J = namespace(J).diag(J)
        if is_traced(mass, J):
            return mass, J, is_point
        try:
            check_inertia(self.name, mass, J, planar=planar)
        except ValueError as error:
            raise ModelError(str(error)) from None
        return float(mass), J, is_point

    def _is_principal(self) -> bool:
        """Whether moments about the body's own axes were given, and no products of inertia."""
        return isinstance(self.inertia, str) or np.shape(self.inertia) == (3,)

    def _numbers(self, what: str, value: object) -> Any:
        """`value` as an array of numbers; its shape and signs are for `check_inertia`."""
        try:
            return as_array(value)
        except (TypeError, ValueError):
            raise ModelError(
                f"{self.owner}: {what}={shown(value)} is not made of real numbers. Give numbers, "
                "or MassProperties such as hx.box(...) as the mass."
            ) from None

    def _com(self) -> np.ndarray | None:
        return None if self.com is None else vector(self.owner, "com", self.com, self.dimension)


@record("body", "body")
class SpatialBody(BodyItem):
    """Add a spatial rigid body.

    **Arguments:**

    - `mass`: [kg], or `MassProperties` such as ``hx.box(...)``, which bring the inertia and the
      centre of mass.
    - `inertia`: [kg m^2] about the centre of mass in body axes, (3,) or (3, 3); or ``"point"``, as
      ``hx.point_mass(...)`` brings it: it keeps its orientation and is held at its centre.
    - `com`: the centre of mass in the body's coordinates [m]; by default their origin.
    - `shape`: what it looks like, for pictures only: `hx.Shape(...)`, a solid such as
      ``hx.box(...)``, the path of an STL, OBJ or glTF file, or a list of these. Mass properties
      bring their own.
    - `position`, `rotation`: initial pose of the body's frame; the rotation as quaternion (scalar
      first), matrix or rotation vector.
    - `velocity` [m/s] of the origin and `angular_velocity` [rad/s], both in world axes.
    """

    dimension = 3

    _: KW_ONLY
    position: Any = (0.0, 0.0, 0.0)
    rotation: Any = None
    velocity: Any = (0.0, 0.0, 0.0)
    angular_velocity: Any = (0.0, 0.0, 0.0)

    def placed(self) -> Body:
        """The body in the initial configuration; its angular velocity is kept in body axes."""
        owner = self.owner
        mass, J, is_point = self._checked()
        A = rotation_matrix(owner, self.rotation)
        r = vector(owner, "position", self.position, 3)
        v = vector(owner, "velocity", self.velocity, 3)
        spin = vector(owner, "angular_velocity", self.angular_velocity, 3)
        xp, com = namespace(J, A, r, v, spin, self.com), self._com()
        _check_point(owner, is_point, spin)
        if self._is_principal():
            J = xp.array([J[0, 0], J[1, 1], J[2, 2]])
        else:
            J = xp.array([J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]])
        centre, speed = r, v
        if com is not None:
            centre, speed = r + A @ com, v + xp.cross(spin, A @ com)
        start = xp.concatenate([centre, quaternion_from_axes(A)])
        rate = xp.concatenate([speed, A.T @ spin])
        return Body(self.name, "spatial", mass, J, r, A, start, rate, com, is_point)


@record("planar_body", "body")
class PlanarBody(BodyItem):
    """Add a planar rigid body (x, y, angle).

    `inertia` is the moment about the centre of mass [kg m^2], or ``"point"``; `com` the centre of
    mass in the body's coordinates [m], by default their origin. `position` and `velocity` are those
    of the origin; units are SI, angles in rad. `shape` is what it looks like, as for `body`.
    """

    dimension = 2

    _: KW_ONLY
    position: Any = (0.0, 0.0)
    angle: float = 0.0
    velocity: Any = (0.0, 0.0)
    angular_velocity: float = 0.0

    def placed(self) -> Body:
        """The body in the initial configuration."""
        owner = self.owner
        mass, J, is_point = self._checked()
        theta = number(owner, "angle", self.angle)
        check_angle(owner, "angle", theta)
        r = vector(owner, "position", self.position, 2)
        v = vector(owner, "velocity", self.velocity, 2)
        w = number(owner, "angular_velocity", self.angular_velocity)
        _check_point(owner, is_point, w)
        xp, com = namespace(J, r, theta, v, w, self.com), self._com()
        c, s = xp.cos(theta), xp.sin(theta)
        A = xp.array([[c, -s], [s, c]])
        centre, speed = r, v
        if com is not None:
            arm = A @ com
            centre, speed = r + arm, v + w * xp.array([-arm[1], arm[0]])
        start, rate = xp.array([*centre, theta]), xp.array([*speed, w])
        return Body(self.name, "planar", mass, J[None], r, A, start, rate, com, is_point)


def _check_point(owner: str, is_point: bool, spin: float | np.ndarray | Array) -> None:
    if is_point and not is_traced(spin) and np.any(spin):
        raise ModelError(
            f"{owner}: angular_velocity={shown(np.asarray(spin).tolist())} means nothing for a "
            "point mass, which does not turn. Leave it out, or give inertia."
        )
