"""Bodies as the user describes them, and where on them things attach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .. import _numbers
from .._messages import shown
from ..rotation import perpendicular_axes, quaternion_from_axes
from .inertia import MassProperties, check_inertia
from .units import check_angle

Kind = Literal["planar", "spatial"]


class ModelError(ValueError):
    """Something in the description of a mechanism is wrong; the message names it."""


@dataclass(frozen=True)
class Body:
    """A rigid body: its frame has its origin at the centre of mass.

    Made by `Model.body` and `Model.planar_body`; hand it, or its name, to joints and forces.
    `rotation` is the matrix (2x2 or 3x3) of the initial orientation; `start` and `rate` are its
    rows of q and v.
    """

    name: str
    kind: Kind
    mass: float
    inertia: np.ndarray
    position: np.ndarray
    rotation: np.ndarray
    start: np.ndarray
    rate: np.ndarray

    @property
    def is_ground(self) -> bool:
        """Whether this is the ground of a plane or of space."""
        return self.name == "ground"

    def to_local_point(self, world: np.ndarray) -> np.ndarray:
        """Body coordinates of a world point in the initial configuration."""
        return self.rotation.T @ (world - self.position)

    def to_local_direction(self, world: np.ndarray) -> np.ndarray:
        """Body components of a world direction in the initial configuration."""
        return self.rotation.T @ world


@dataclass(frozen=True)
class Ground:
    """The frame that never moves; belongs to planar and spatial bodies alike."""

    name: str = "ground"


def ground_body(kind: Kind) -> Body:
    """The ground seen as a body of the given kind."""
    d = 2 if kind == "planar" else 3
    return Body("ground", kind, 0.0, np.zeros(0), np.zeros(d), np.eye(d), np.zeros(0), np.zeros(0))


def vector(owner: str, what: str, value: Any, size: int) -> np.ndarray:
    """`value` as a finite vector of `size` numbers, or one message that names the owner."""
    return _numbers.array(owner, what, value, (size,), error=ModelError)


def number(owner: str, what: str, value: Any) -> float:
    """`value` as a finite number, or one message that names the owner."""
    return _numbers.number(owner, what, value, error=ModelError)


def direction(owner: str, what: str, value: Any, size: int = 3) -> np.ndarray:
    """`value` as a unit vector, or one message that names the owner."""
    array = vector(owner, what, value, size)
    length = np.linalg.norm(array)
    if length < 1e-12:
        raise ModelError(f"{owner}: {what} has no length. Give a direction different from zero.")
    return array / length


def rotation_matrix(owner: str, value: Any) -> np.ndarray:
    """A rotation given as None, a quaternion (scalar first), a matrix, or a rotation vector."""
    if value is None:
        return np.eye(3)
    array = _numbers.real(value)
    if array is None:
        array = np.zeros(0)
    if array.shape == (4,) and np.all(np.isfinite(array)) and np.linalg.norm(array) > 1e-12:
        w, x, y, z = array / np.linalg.norm(array)
        return np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
    if array.shape == (3,) and np.all(np.isfinite(array)):
        angle = np.linalg.norm(array)
        if angle == 0:
            return np.eye(3)
        check_angle(owner, "the angle of rotation", float(angle))
        e1, e2, n = perpendicular_axes(array)
        T = np.column_stack([e1, e2, n])
        c, s = np.cos(angle), np.sin(angle)
        return T @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ T.T
    if (
        array.shape == (3, 3)
        and np.allclose(array @ array.T, np.eye(3), atol=1e-9)
        and np.linalg.det(array) > 0
    ):
        return array
    raise ModelError(
        f"{owner}: rotation={shown(value)} is not understood. Give a quaternion (e0, e1, e2, "
        "e3), a rotation vector, or a 3x3 rotation matrix (orthogonal, determinant +1)."
    )


def _mass_and_inertia(owner: str, mass: Any, inertia: Any, kind: Kind) -> tuple[float, Any]:
    if isinstance(mass, MassProperties):
        if inertia is not None:
            raise ModelError(
                f"{owner}: inertia is given twice. Leave it out beside MassProperties."
            )
        if np.linalg.norm(mass.com) > 1e-9 * max(1.0, float(np.max(np.abs(mass.inertia)))):
            raise ModelError(
                f"{owner}: the mass properties have their centre of mass at "
                f"{np.asarray(mass.com).tolist()}, but a body's frame has its origin there. Use "
                "properties.moved(-properties.com) and place the body at its centre of mass."
            )
        return mass.planar() if kind == "planar" else (mass.mass, mass.inertia)
    if inertia is None:
        raise ModelError(
            f"{owner}: inertia is missing. Give the moment(s) of inertia about the centre of mass, "
            "or MassProperties such as hx.box(...)."
        )
    return mass, inertia


def _read(owner: str, what: str, value: Any) -> np.ndarray:
    """`value` as an array of numbers; its shape and signs are for `check_inertia`."""
    array = _numbers.real(value)
    if array is None:
        raise ModelError(
            f"{owner}: {what}={shown(value)} is not made of real numbers. Give numbers, or "
            "MassProperties such as hx.box(...) as the mass."
        )
    return array


def spatial_body(
    name: str,
    mass: Any,
    inertia: Any,
    position: Any,
    rotation: Any,
    velocity: Any,
    angular_velocity: Any,
) -> Body:
    """A validated spatial body; angular velocity in world axes."""
    owner = f"body {name!r}"
    mass, inertia = _mass_and_inertia(owner, mass, inertia, "spatial")
    mass, inertia = _read(owner, "mass", mass), _read(owner, "inertia", inertia)
    if inertia.shape == (3,):
        inertia = np.diag(inertia)
    try:
        check_inertia(name, mass, inertia)
    except ValueError as error:
        raise ModelError(str(error)) from None
    A = rotation_matrix(owner, rotation)
    r = vector(owner, "position", position, 3)
    v = vector(owner, "velocity", velocity, 3)
    w = A.T @ vector(owner, "angular_velocity", angular_velocity, 3)
    J = np.array(
        [inertia[0, 0], inertia[1, 1], inertia[2, 2], inertia[0, 1], inertia[0, 2], inertia[1, 2]]
    )
    start = np.concatenate([r, quaternion_from_axes(A)])
    return Body(name, "spatial", float(mass), J, r, A, start, np.concatenate([v, w]))


def planar_body(
    name: str,
    mass: Any,
    inertia: Any,
    position: Any,
    angle: Any,
    velocity: Any,
    angular_velocity: Any,
) -> Body:
    """A validated planar body."""
    owner = f"body {name!r}"
    mass, inertia = _mass_and_inertia(owner, mass, inertia, "planar")
    mass, inertia = _read(owner, "mass", mass), _read(owner, "inertia", inertia)
    try:
        check_inertia(name, mass, inertia, planar=True)
    except ValueError as error:
        raise ModelError(str(error)) from None
    theta = number(owner, "angle", angle)
    check_angle(owner, "angle", theta)
    r = vector(owner, "position", position, 2)
    v = vector(owner, "velocity", velocity, 2)
    w = number(owner, "angular_velocity", angular_velocity)
    c, s = np.cos(theta), np.sin(theta)
    return Body(
        name,
        "planar",
        float(mass),
        np.array([float(inertia)]),
        r,
        np.array([[c, -s], [s, c]]),
        np.array([*r, theta]),
        np.array([*v, w]),
    )


def attachment_points(
    owner: str, bodies: Sequence[Body], at: Any, given: Sequence[Any], labels: Sequence[str]
) -> list[np.ndarray]:
    """Body-fixed points: from one world point `at`, or given in each body's own coordinates.

    A point given for one body only is carried over to the others in the initial configuration;
    with nothing given the bodies' origins are taken.
    """
    d = 2 if bodies[0].kind == "planar" else 3
    if at is not None:
        if any(x is not None for x in given):
            raise ModelError(
                f"{owner}: its place is given twice. Use either at= (world, initial configuration) "
                f"or {' and '.join(labels)} (body coordinates)."
            )
        world = vector(owner, "at", at, d)
        return [body.to_local_point(world) for body in bodies]
    local = [
        None if x is None else vector(owner, label.rstrip("="), x, d)
        for x, label in zip(given, labels, strict=True)
    ]
    if all(x is None for x in local):
        raise ModelError(
            f"{owner}: its place is missing. Give at= (a world point of the initial configuration) "
            f"or {' and '.join(labels)} (body coordinates)."
        )
    known = next(i for i, x in enumerate(local) if x is not None)
    world = bodies[known].position + bodies[known].rotation @ local[known]
    return [
        body.to_local_point(world) if x is None else x
        for body, x in zip(bodies, local, strict=True)
    ]


def attachment_axes(
    owner: str, bodies: Sequence[Body], axis: Any, given: Sequence[Any], labels: Sequence[str]
) -> list[np.ndarray]:
    """Body-fixed triads (columns e1, e2, axis), the same in space in the initial configuration.

    From a world direction `axis`, or from directions in body coordinates; with the latter given
    for several bodies their axes need not agree yet (assembly will turn the bodies), and each triad
    is turned about its own axis to lie as close to the first as it can.
    """
    d = 2 if bodies[0].kind == "planar" else 3
    if axis is not None:
        if any(x is not None for x in given):
            raise ModelError(
                f"{owner}: its axis is given twice. Use either axis= (world, initial "
                f"configuration) or {' and '.join(labels)} (body axes)."
            )
        world = _triad(direction(owner, "axis", axis, d))
        return [body.rotation.T @ world for body in bodies]
    local = [
        None if x is None else direction(owner, label.rstrip("="), x, d)
        for x, label in zip(given, labels, strict=True)
    ]
    if all(x is None for x in local):
        raise ModelError(
            f"{owner}: its axis is missing. Give axis= (a world direction of the initial "
            f"configuration) or {' and '.join(labels)} (body axes)."
        )
    known, first = next((i, x) for i, x in enumerate(local) if x is not None)
    base = _triad(first)
    world = bodies[known].rotation @ base
    out = []
    for i, (body, x) in enumerate(zip(bodies, local, strict=True)):
        if i == known:
            out.append(base)
        elif x is None:
            out.append(body.rotation.T @ world)
        else:
            out.append(triad_near(x, body.rotation.T @ world))
    return out


def _triad(axis: np.ndarray) -> np.ndarray:
    """Columns (e1, e2, axis) in space; (axis, normal) in the plane."""
    if axis.shape == (2,):
        return np.array([[axis[0], -axis[1]], [axis[1], axis[0]]])
    return np.column_stack(perpendicular_axes(axis))


def triad_near(axis: np.ndarray, near: np.ndarray) -> np.ndarray:
    """A triad along `axis`, turned about it so that it is close to the triad `near`."""
    if axis.shape == (2,):
        return _triad(axis)
    e1, e2 = (e - axis * (axis @ e) for e in near.T[:2])
    if np.linalg.norm(e1) < 0.5:  # then e2 is nearly normal to the axis
        e1 = np.cross(e2, axis)
    e1 = e1 / np.linalg.norm(e1)
    return np.column_stack([e1, np.cross(axis, e1), axis])
