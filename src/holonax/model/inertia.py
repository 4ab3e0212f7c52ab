"""Mass properties of standard solids, their composites, and the check of what a user gives.

With d = c − p the vector from a point p to the centre of mass c, the parallel-axis theorem reads

    J_p = J_c + m (dᵀd 1 − d dᵀ)

All lengths in m, masses in kg, moments of inertia in kg m². Everything here is computed once on
the host, in float64, while a model is described.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _numbers
from .._arguments import checked_call, choice
from .._messages import shown
from .shapes import Shape, as_shapes

__all__ = [
    "MassProperties",
    "box",
    "check_inertia",
    "composite",
    "cylinder",
    "disc",
    "point_mass",
    "rod",
    "sphere",
    "tube",
]

Axis = Literal["x", "y", "z"]

# Relative tolerance for symmetry, orthogonality and the triangle inequality. The last holds with
# equality for thin plates, where rounding would otherwise decide.
TOLERANCE = 1e-9
# Below this ratio to the largest principal moment a moment is zero up to rounding.
SINGULAR = 1e-14


@dataclass(frozen=True, eq=False)
class MassProperties:
    """Mass, centre of mass and inertia of a rigid solid, in the solid's own axes.

    Args:
        mass: mass in kg.
        com: the centre of mass, shape (3,), in m.
        inertia: the inertia matrix about the *centre of mass*, shape (3, 3), in kg m².
        shapes: what the solid looks like, for pictures only.
    """

    mass: float
    com: NDArray[np.float64]
    inertia: NDArray[np.float64]
    shapes: tuple[Shape, ...] = ()

    def __post_init__(self) -> None:
        owner = "MassProperties"
        object.__setattr__(self, "mass", _non_negative(owner, "mass", self.mass))
        object.__setattr__(self, "com", _array(owner, "com", self.com, (3,)))
        object.__setattr__(self, "inertia", _array(owner, "inertia", self.inertia, (3, 3)))
        object.__setattr__(self, "shapes", as_shapes(owner, self.shapes))

    def about(self, point: ArrayLike) -> NDArray[np.float64]:
        """The inertia matrix about another point, shape (3, 3), by the parallel-axis theorem."""
        p = _array("MassProperties.about", "point", point, (3,))
        return self.inertia + self.mass * _offset_inertia(self.com - p)

    def rotated(self, R: ArrayLike) -> MassProperties:
        """The same solid turned about the origin by the rotation matrix R, shape (3, 3)."""
        R = _array("MassProperties.rotated", "R", R, (3, 3))
        if np.abs(R @ R.T - np.eye(3)).max() > TOLERANCE or np.linalg.det(R) < 0:
            raise ValueError(
                "MassProperties.rotated: R is not a rotation matrix (R Rᵀ = 1 and det R = +1 must "
                "hold); normalise it, for example by making it from a unit quaternion."
            )
        J = R @ self.inertia @ R.T
        shapes = tuple(shape.rotated(R) for shape in self.shapes)
        return MassProperties(self.mass, R @ self.com, 0.5 * (J + J.T), shapes)

    def moved(self, offset: ArrayLike) -> MassProperties:
        """The same solid shifted by a vector, shape (3,)."""
        d = _array("MassProperties.moved", "offset", offset, (3,))
        shapes = tuple(shape.moved(d) for shape in self.shapes)
        return MassProperties(self.mass, self.com + d, self.inertia, shapes)

    def __add__(self, other: MassProperties) -> MassProperties:
        """The two solids as one rigid body."""
        if not isinstance(other, MassProperties):
            return NotImplemented
        return composite(self, other)

    def planar(self) -> tuple[float, float]:
        """(mass, polar moment Jzz about the centre of mass): what a planar body needs."""
        return self.mass, float(self.inertia[2, 2])


@checked_call
def composite(*parts: MassProperties) -> MassProperties:
    """Several solids, placed in the same axes, as one rigid body."""
    for i, part in enumerate(parts):
        if not isinstance(part, MassProperties):
            raise TypeError(
                f"composite: part {i} is {shown(part)}; give MassProperties such as hx.box(...)."
            )
    mass = sum(part.mass for part in parts)
    if mass == 0:
        raise ValueError(
            "composite: the parts have no mass in all, so there is no centre of mass; "
            "give at least one part with mass > 0."
        )
    com = sum((part.mass * part.com for part in parts), np.zeros(3)) / mass
    inertia = sum((part.about(com) for part in parts), np.zeros((3, 3)))
    return MassProperties(mass, com, inertia, tuple(x for part in parts for x in part.shapes))


# --- solids, each with its centre of mass at the origin ---------------------------------------


@checked_call
def box(
    size: ArrayLike, *, mass: float | None = None, density: float | None = None
) -> MassProperties:
    """A cuboid with edge lengths `size` along x, y, z; a length of zero makes it a plate.

    Give either `mass` in kg or `density` in kg/m³.
    """
    edges = _array("box", "size", size, (3,))
    a, b, c = (_non_negative("box", "size", edge) for edge in edges)
    m = _mass_of("box", a * b * c, mass, density)
    moments = m / 12 * np.array([b * b + c * c, a * a + c * c, a * a + b * b])
    return _centred(m, moments, Shape("box", size=edges))


@checked_call
def sphere(
    radius: float, *, mass: float | None = None, density: float | None = None
) -> MassProperties:
    """A solid ball. Give either `mass` in kg or `density` in kg/m³."""
    r = _non_negative("sphere", "radius", radius)
    m = _mass_of("sphere", 4 / 3 * np.pi * r * r * r, mass, density)
    return _centred(m, np.full(3, 0.4 * m * r * r), Shape("sphere", radius=r))


@checked_call
def cylinder(
    radius: float,
    length: float,
    *,
    axis: Axis = "z",
    mass: float | None = None,
    density: float | None = None,
) -> MassProperties:
    """A solid circular cylinder. Give either `mass` in kg or `density` in kg/m³."""
    return _annular("cylinder", radius, 0.0, length, axis, mass, density)


@checked_call
def disc(
    radius: float,
    thickness: float = 0.0,
    *,
    axis: Axis = "z",
    mass: float | None = None,
    density: float | None = None,
) -> MassProperties:
    """A circular disc, thin unless a thickness is given.

    Give either `mass` in kg or, with a thickness, `density` in kg/m³.
    """
    return _annular("disc", radius, 0.0, thickness, axis, mass, density)


@checked_call
def tube(
    outer_radius: float,
    inner_radius: float,
    length: float,
    *,
    axis: Axis = "z",
    mass: float | None = None,
    density: float | None = None,
) -> MassProperties:
    """A hollow circular cylinder; equal radii make it a thin shell.

    Give either `mass` in kg or `density` in kg/m³.
    """
    return _annular("tube", outer_radius, inner_radius, length, axis, mass, density)


@checked_call
def rod(
    length: float,
    *,
    axis: Axis = "x",
    mass: float | None = None,
    line_density: float | None = None,
) -> MassProperties:
    """A slender rod, without inertia about its own axis.

    Give either `mass` in kg or `line_density` in kg/m. A free spatial body needs inertia about
    all axes: describe it as a `cylinder`.
    """
    l = _non_negative("rod", "length", length)
    m = _mass_of("rod", l, mass, line_density, density_name="line_density", content="length")
    moments = _along("rod", axis, axial=0.0, transverse=m * l * l / 12)
    return _centred(m, moments, Shape("rod", length=l, axis=axis))


@checked_call
def point_mass(mass: float, *, at: ArrayLike = (0.0, 0.0, 0.0)) -> MassProperties:
    """A mass in kg concentrated at one point."""
    m = _non_negative("point_mass", "mass", mass)
    where = _array("point_mass", "at", at, (3,))
    return MassProperties(m, where, np.zeros((3, 3)), (Shape("point", position=where),))


# --- the check of what a user gives -----------------------------------------------------------


def check_inertia(
    name: str,
    mass: float,
    inertia: ArrayLike,
    *,
    planar: bool = False,
    allow_massless: bool = False,
) -> None:
    """Raise a ValueError unless (mass, inertia) can belong to a rigid body.

    Args:
        name: the body's name, for the message.
        mass: mass in kg.
        inertia: the inertia matrix about the centre of mass, shape (3, 3), in kg m²; for a planar
            body its polar moment, a scalar.
        planar: whether the body is planar.
        allow_massless: accept zero mass and zero principal moments, as for a body which others
            carry.
    """
    m, J = np.asarray(mass, dtype=np.float64), np.asarray(inertia, dtype=np.float64)
    shape = () if planar else (3, 3)
    if m.shape != ():
        _refuse(name, f"mass has shape {m.shape}", "give one number, in kg")
    if J.shape != shape:
        remedy = (
            "a planar body takes one number, its polar moment Jzz about the centre of mass"
            if planar
            else "give the matrix about the centre of mass; np.diag([Jx, Jy, Jz]) in principal axes"
        )
        _refuse(name, f"inertia has shape {J.shape} instead of {shape}", remedy)
    if not np.isfinite(m):
        _refuse(name, f"mass is {m}", "give a finite number, in kg")
    if not np.isfinite(J).all():
        _refuse(name, "inertia has non-finite entries", "give finite numbers, in kg m²")

    if m < 0:
        _refuse(name, f"mass is negative ({m:g} kg)", "give a mass > 0")
    if m == 0 and not allow_massless:
        _refuse(name, "mass is zero", "give a mass > 0: the equations of motion need its inverse")

    J = np.diag([J]) if planar else J
    scale = np.abs(J).max()
    if np.abs(J - J.T).max() > TOLERANCE * scale:
        _refuse(name, "inertia is not symmetric", "give 0.5*(J + J.T), or look for a swapped entry")
    moments = np.linalg.eigvalsh(0.5 * (J + J.T))
    principal = ", ".join(f"{moment:g}" for moment in moments)
    if moments[0] < -SINGULAR * scale:
        _refuse(
            name,
            f"inertia is not positive definite (principal moments {principal} kg m²)",
            "check the signs: products of inertia enter the matrix as −∫xy dm",
        )
    if moments[0] <= SINGULAR * scale and not allow_massless:
        _refuse(
            name,
            f"inertia is not positive definite: a principal moment is zero ({principal} kg m²)",
            "give the solid its real thickness (a cylinder instead of a rod): the equations of "
            "motion need its inverse",
        )
    if not planar and moments[2] > (1 + TOLERANCE) * (moments[0] + moments[1]):
        _refuse(
            name,
            f"principal moments {principal} kg m² violate the triangle inequality: "
            "no solid has one larger than the sum of the other two",
            "check the units and that the inertia is taken about the centre of mass",
        )


def _refuse(name: str, cause: str, remedy: str) -> NoReturn:
    raise ValueError(f"body {name!r}: {cause}; {remedy}.")


# --- helpers ----------------------------------------------------------------------------------


def _annular(
    solid: str,
    outer_radius: float,
    inner_radius: float,
    length: float,
    axis: Axis,
    mass: float | None,
    density: float | None,
) -> MassProperties:
    """Cylinder, disc and tube: J_axial = m (R² + r²)/2, J_transverse = m (3 (R² + r²) + l²)/12."""
    hollow = solid == "tube"
    R = _non_negative(solid, "outer_radius" if hollow else "radius", outer_radius)
    r = _non_negative(solid, "inner_radius", inner_radius)
    l = _non_negative(solid, "thickness" if solid == "disc" else "length", length)
    if r > R:
        raise ValueError(
            f"{solid}: inner_radius {r:g} m exceeds outer_radius {R:g} m; exchange the two."
        )
    m = _mass_of(solid, np.pi * (R - r) * (R + r) * l, mass, density)
    radii = R * R + r * r
    moments = _along(solid, axis, axial=m * radii / 2, transverse=m * (3 * radii + l * l) / 12)
    if hollow:
        return _centred(m, moments, Shape("tube", radius=R, inner_radius=r, length=l, axis=axis))
    return _centred(m, moments, Shape("cylinder", radius=R, length=l, axis=axis))


def _centred(mass: float, moments: NDArray[np.float64], shape: Shape) -> MassProperties:
    return MassProperties(mass, np.zeros(3), np.diag(moments), (shape,))


def _along(solid: str, axis: Axis, *, axial: float, transverse: float) -> NDArray[np.float64]:
    """The principal moments, shape (3,), of a solid of revolution about one of the axes."""
    choice(solid, "axis", axis, ("x", "y", "z"))
    moments = np.full(3, transverse)
    moments["xyz".index(axis)] = axial
    return moments


def _offset_inertia(d: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inertia of a unit mass at d about the origin: dᵀd 1 − d dᵀ."""
    return d @ d * np.eye(3) - np.outer(d, d)


def _mass_of(
    solid: str,
    volume: float,
    mass: float | None,
    density: float | None,
    *,
    density_name: str = "density",
    content: str = "volume",
) -> float:
    if not np.isfinite(volume):
        raise ValueError(f"{solid}: its {content} overflows. Give dimensions in metres.")
    if mass is not None and density is None:
        return _non_negative(solid, "mass", mass)
    if mass is None and density is not None:
        if volume == 0:
            raise ValueError(
                f"{solid}: {density_name} was given but the {content} is zero, which would make it "
                f"massless; give mass= instead, or dimensions > 0."
            )
        return _non_negative(solid, density_name, density) * volume
    got = "neither" if mass is None else "both"
    raise ValueError(f"{solid}: got {got} of mass= and {density_name}=; give exactly one of them.")


def _non_negative(owner: str, quantity: str, value: float) -> float:
    wanted = "a finite number ≥ 0, in SI"
    return _numbers.number(owner, quantity, value, good=lambda x: x >= 0, wanted=wanted)


def _array(
    owner: str, quantity: str, value: ArrayLike, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """A read-only float64 copy of the given shape, with finite entries."""
    array = _numbers.array(owner, quantity, value, shape)
    array.flags.writeable = False
    return array
