"""Vectors and rotation matrices as component tuples.

Wherever one vector is expected, a tuple, list or array of its components will do.

`Vec3(x, y, z)` holds three scalars, or three arrays over many bodies; `Axes3(x, y, z)` is a
rotation matrix stored as its three columns, the body's axes seen from the world, so that
`A @ s` takes a body-fixed vector to the world and `A.T @ w` goes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._messages import shown
from .._numbers import as_array, namespace

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import ArrayLike, DTypeLike

Scalar = Any  # a float, or an array over many bodies
Vector = Any  # a Vec2 between planar bodies, a Vec3 between spatial ones


def _array(values: np.ndarray | Array | tuple[float, float]) -> np.ndarray | Array:
    """An array: of JAX if some of the values are, else of numpy, which costs less."""
    if any(isinstance(x, jax.Array) for x in jax.tree.leaves(values)):
        return jnp.asarray(values)
    return np.asarray(values)


def _components(values: np.ndarray | Array | tuple[float, float], size: int) -> Any:
    """The entries along the last axis, which has to have so many."""
    if not isinstance(values, Vec2 | Vec3):
        values = _array(values)
        if values.ndim and values.shape[-1] == size:
            return (values[..., k] for k in range(size))
    raise ValueError(
        f"Vec{size}: {shown(values)} is not a vector of {size} components. Give a Vec{size}, or a "
        f"tuple, list or array of {size} numbers."
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Vec2:
    """A vector of the plane."""

    x: Scalar
    y: Scalar

    __array_ufunc__ = None  # so that an array on the left leaves the operation to us

    def __add__(self, other: Vec2) -> Vec2:
        other = Vec2.of(other)
        return Vec2(self.x + other.x, self.y + other.y)

    __radd__ = __add__

    def __sub__(self, other: Vec2) -> Vec2:
        other = Vec2.of(other)
        return Vec2(self.x - other.x, self.y - other.y)

    def __rsub__(self, other: ArrayLike) -> Vec2:
        return Vec2.of(other) - self

    def __neg__(self) -> Vec2:
        return Vec2(-self.x, -self.y)

    def __mul__(self, factor: Scalar) -> Vec2:
        return Vec2(self.x * factor, self.y * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Scalar) -> Vec2:
        return Vec2(self.x / divisor, self.y / divisor)

    def __iter__(self) -> Iterator[Scalar]:
        return iter((self.x, self.y))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.stack(np.broadcast_arrays(*self), axis=-1).astype(dtype or float)

    def dot(self, other: Vector | ArrayLike) -> Scalar:
        """Scalar product."""
        other = Vec2.of(other)
        return self.x * other.x + self.y * other.y

    def cross(self, other: Vec2) -> Scalar:
        """The component normal to the plane of the vector product."""
        other = Vec2.of(other)
        return self.x * other.y - self.y * other.x

    def turned(self) -> Vec2:
        """This vector turned by +90 degrees."""
        return Vec2(-self.y, self.x)

    def norm(self) -> Scalar:
        """Length."""
        return jnp.sqrt(self.dot(self))

    def array(self) -> jax.Array:
        """The components stacked in a new last axis."""
        return jnp.stack(jnp.broadcast_arrays(self.x, self.y), axis=-1)

    @staticmethod
    def of(values: Any) -> Vec2:
        """From anything with two entries along its last axis; a `Vec2` stays what it is."""
        if isinstance(values, Vec2):
            return values
        return Vec2(*_components(values, 2))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Vec3:
    """A vector of space."""

    x: Scalar
    y: Scalar
    z: Scalar

    __array_ufunc__ = None  # so that an array on the left leaves the operation to us

    def __add__(self, other: Vec3) -> Vec3:
        other = Vec3.of(other)
        return Vec3(self.x + other.x, self.y + other.y, self.z + other.z)

    __radd__ = __add__

    def __sub__(self, other: Vec3) -> Vec3:
        other = Vec3.of(other)
        return Vec3(self.x - other.x, self.y - other.y, self.z - other.z)

    def __rsub__(self, other: ArrayLike) -> Vec3:
        return Vec3.of(other) - self

    def __neg__(self) -> Vec3:
        return Vec3(-self.x, -self.y, -self.z)

    def __mul__(self, factor: Scalar) -> Vec3:
        return Vec3(self.x * factor, self.y * factor, self.z * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Scalar) -> Vec3:
        return Vec3(self.x / divisor, self.y / divisor, self.z / divisor)

    def __iter__(self) -> Iterator[Scalar]:
        return iter((self.x, self.y, self.z))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.stack(np.broadcast_arrays(*self), axis=-1).astype(dtype or float)

    def dot(self, other: Vector | ArrayLike) -> Scalar:
        """Scalar product."""
        other = Vec3.of(other)
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vec3) -> Vec3:
        """Vector product."""
        other = Vec3.of(other)
        return Vec3(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )

    def norm(self) -> Scalar:
        """Length."""
        return jnp.sqrt(self.dot(self))

    def array(self) -> jax.Array:
        """The components stacked in a new last axis."""
        return jnp.stack(jnp.broadcast_arrays(self.x, self.y, self.z), axis=-1)

    @staticmethod
    def of(values: Any) -> Vec3:
        """From anything with three entries along its last axis; a `Vec3` stays what it is."""
        if isinstance(values, Vec3):
            return values
        return Vec3(*_components(values, 3))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Axes2:
    """A rotation of the plane, by its cosine and sine."""

    c: Scalar
    s: Scalar

    def __matmul__(self, body: Vec2 | tuple[float, float]) -> Vec2:
        body = Vec2.of(body)
        return Vec2(self.c * body.x - self.s * body.y, self.s * body.x + self.c * body.y)

    @property
    def T(self) -> Axes2:
        """The inverse rotation."""
        return Axes2(self.c, -self.s)

    def spun(self, rate: Scalar) -> Axes2:
        """Time derivative when turning at `rate` [rad/s]."""
        return Axes2(-self.s * rate, self.c * rate)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Axes3:
    """A rotation matrix by its columns: the body's axes in world components."""

    x: Vec3
    y: Vec3
    z: Vec3

    def __matmul__(self, body: Vec3) -> Vec3:
        body = Vec3.of(body)
        return self.x * body.x + self.y * body.y + self.z * body.z

    @property
    def T(self) -> Axes3:
        """The transpose: takes world vectors to body components."""
        a, b, c = self.x, self.y, self.z
        return Axes3(Vec3(a.x, b.x, c.x), Vec3(a.y, b.y, c.y), Vec3(a.z, b.z, c.z))

    def spun(self, rate: Vec3) -> Axes3:
        """Time derivative A w~ for the angular velocity `rate` in body axes."""
        return Axes3(
            self.y * rate.z - self.z * rate.y,
            self.z * rate.x - self.x * rate.z,
            self.x * rate.y - self.y * rate.x,
        )

    def array(self) -> jax.Array:
        """The matrix, shape (..., 3, 3)."""
        return jnp.stack([self.x.array(), self.y.array(), self.z.array()], axis=-1)

    @staticmethod
    def of(matrix: Any) -> Axes3:
        """From arrays of shape (..., 3, 3)."""
        matrix = _array(matrix)
        return Axes3(*(Vec3.of(matrix[..., :, k]) for k in range(3)))


def perpendicular_axes(axis: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A right-handed triad (e1, e2, unit axis) for a joint axis; on the host unless traced.

    e1 is chosen from the coordinate direction least parallel to the axis, so the choice is
    well conditioned and depends on the axis only.
    """
    xp = namespace(axis)
    n = as_array(axis)
    n = n / xp.linalg.norm(n)
    seed = xp.eye(3)[xp.argmin(xp.abs(n))]
    e1 = seed - n * (n @ seed)
    e1 = e1 / xp.linalg.norm(e1)
    return e1, xp.cross(n, e1), n
