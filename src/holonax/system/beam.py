"""The geometrically exact beam (Simo, Reissner) as an element between two frames.

Between its nodes the section moves on a helicoidal path, so that the strain, the screw of the
second node seen from the first less that at rest, is constant along the element (Sonneville,
Cardona, Bruls 2014):

    strain = ((u, phi) - (u0, phi0)) / l,    energy = l/2 strain^T C strain

Strains are (extension, shear y, shear z, twist, bending about y, about z), in section axes with x
along the beam. They depend on how the nodes stand to one another only, so they are the same
for every observer, vanish in rigid motions, and do not depend on the path to a configuration.
"""

from __future__ import annotations

import math
from typing import Any

from .._numbers import namespace
from ..rotation import Axes3, Vec3
from ..rotation.screw import Helicoid
from ..rotation.vectors import Scalar
from .elements import Force
from .frames import Frame

Components = list[Scalar]


# [rad]; beyond pi the screw is that of the shorter way round, so before it there is no value
MOST_TURN = 2.9
_LEAST_TRACE = 1 + 2 * math.cos(MOST_TURN)


def relative_screw(a: Any, b: Any) -> Helicoid:
    """The screw that takes the frame `a` to the frame `b`, in the axes of `a`; not a number where
    it turns by more than `MOST_TURN`."""
    back = a.A.T
    R = Axes3(*(back @ axis for axis in (b.A.x, b.A.y, b.A.z)))
    screw = Helicoid.of(back @ (b.r - a.r), R)
    trace = R.x.x + R.y.y + R.z.z
    valid = namespace(trace).where(trace > _LEAST_TRACE, 1.0, math.nan)
    return screw._replace(u=screw.u * valid)


class BeamElement(Force):
    """A beam element of two nodes.

    `rest` is the screw (u0, phi0) at rest, `length` that of the axis, `stiffness` that of the
    section, C [N, N m, N m^2]; `damping` [s] adds C damping (strain)' to the section force.
    `preload` is added to it: zero but where a tangent at other section forces is wanted.
    """

    length: Scalar
    rest: tuple[Vec3, Vec3]
    stiffness: Any  # (..., 6, 6), or a tuple of the six on its diagonal
    damping: Scalar | None
    preload: Components | None = None

    def _strain(self, screw: Helicoid) -> Components:
        u0, phi0 = self.rest
        return [x / self.length for x in (*(screw.u - u0), *(screw.phi - phi0))]

    def strain(self, a: Any, b: Any) -> Components:
        """The six strains."""
        return self._strain(relative_screw(a, b))

    def strain_rate(self, a: Frame, b: Frame, screw: Helicoid) -> Components:
        """Their time derivatives."""
        moving = [(frame.A.T @ frame.v, frame.w) for frame in (a, b)]
        u, phi = screw.rate(*moving)
        return [x / self.length for x in (*u, *phi)]

    def elastic_force(self, a: Any, b: Any) -> Components:
        """The section force of the strain alone."""
        return applied(self.stiffness, self.strain(a, b))

    def section_force(self, a: Any, b: Any) -> Components:
        """Normal and shear forces, torsional and bending moments of the section [N, N m]."""
        return self._section_force(a, b, relative_screw(a, b))

    def _section_force(self, a: Any, b: Any, screw: Helicoid) -> Components:
        strain = self._strain(screw)
        if self.damping is not None:
            rate = self.strain_rate(a, b, screw)
            strain = [x + self.damping * y for x, y in zip(strain, rate, strict=True)]
        load = applied(self.stiffness, strain)
        if self.preload is not None:
            load = [x + y for x, y in zip(load, self.preload, strict=True)]
        return load

    def wrenches(self, a: Frame, b: Frame, *, t: Any) -> list[tuple[Vec3, Vec3]]:
        screw = relative_screw(a, b)
        load = self._section_force(a, b, screw)
        n, m = Vec3(*load[:3]), Vec3(*load[3:])
        force, first = screw.pulled(n, m, 0.5)
        _, second = screw.pulled(n, m, -0.5)
        force = a.A @ force
        return [(force, first), (-force, -second)]

    def potential(self, a: Any, b: Any) -> Any:
        strain = self.strain(a, b)
        load = applied(self.stiffness, strain)
        return 0.5 * self.length * sum(x * y for x, y in zip(strain, load, strict=True))


def applied(matrix: Any, x: Components) -> Components:
    """matrix x on components; the matrix may be one for each element, or a diagonal (a tuple)."""
    if isinstance(matrix, tuple):
        return [c * y for c, y in zip(matrix, x, strict=True)]
    n = range(len(x))
    return [sum(matrix[..., i, j] * x[j] for j in n) for i in n]  # pyright: ignore
