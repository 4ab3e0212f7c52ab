"""Vectors, axes and quaternions written on components.

Every quantity is a small tuple of components, each a scalar or a vector over many bodies
(structure of arrays). The same formula then serves one body and a thousand, and compiles to
straight-line vector code.
"""

from .quaternion import (
    quaternion_from_axes,
    quaternion_multiply,
    quaternion_rate,
    quaternion_rotated,
    rotation_vector_between,
)
from .vectors import Axes2, Axes3, Vec2, Vec3, perpendicular_axes

__all__ = [
    "Axes2",
    "Axes3",
    "Vec2",
    "Vec3",
    "perpendicular_axes",
    "quaternion_from_axes",
    "quaternion_multiply",
    "quaternion_rate",
    "quaternion_rotated",
    "rotation_vector_between",
]
