"""The geometrically exact beam (Simo, Reissner) as an element between frames.

Between two nodes the section moves on a helicoidal path, so that the strain, the screw of the
second node seen from the first less that at rest, is constant along the element (Sonneville,
Cardona, Bruls 2014):

    strain = ((u, phi) - (u0, phi0)) / l,    energy = l/2 strain^T C strain

Elements of more nodes have strains at several points (`beam_interpolation.py`), and the energy is
the sum of theirs with the weights of quadrature.

Strains are (extension, shear y, shear z, twist, bending about y, about z), in section axes with x
along the beam. They depend on how the nodes stand to one another only, so they are the same
for every observer, vanish in rigid motions, and do not depend on the path to a configuration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._numbers import namespace
from ..rotation import Axes3, Vec3
from ..rotation.screw import Helicoid
from ..rotation.vectors import Scalar
from .beam_interpolation import (
    REFERENCE,
    mixed,
    path_strain,
    points,
    stacked_strain,
    strain_slope,
)
from .beam_tangent import beam_stiffness
from .elements import Force

if TYPE_CHECKING:
    from jax import Array

    from .frames import Frame

Components = list[Scalar]


# [rad]; beyond pi the screw is that of the shorter way round, so before it there is no value
MOST_TURN = 2.9
_LEAST_TRACE = 1 + 2 * math.cos(MOST_TURN)


def relative_screw(a: Frame, b: Frame) -> Helicoid:
    """The screw that takes the frame `a` to the frame `b`, in the axes of `a`; not a number where
    it turns by more than `MOST_TURN`."""
    back = a.A.T
    R = Axes3(*(back @ axis for axis in (b.A.x, b.A.y, b.A.z)))
    screw = Helicoid.of(back @ (b.r - a.r), R)
    trace = R.x.x + R.y.y + R.z.z
    valid = namespace(trace).where(trace > _LEAST_TRACE, 1.0, math.nan)
    return screw._replace(u=screw.u * valid)


class BeamElement(Force):
    """A beam element of `order` + 1 nodes, with strains at `order` points.

    `rest` is the screw (u0, phi0) at rest, `length` that of the axis, `stiffness` that of the
    section, C [N, N m, N m^2], at each point; `damping` [s] adds C damping (strain)' to the section
    force. `preload` is added to it: zero but where a tangent at other section forces is wanted.
    Strains and section forces are lists of six for each point, one after the other.
    """

    length: Scalar
    rest: tuple[Vec3, Vec3]
    stiffness: tuple[Any, ...]  # of each point (..., 6, 6), or a tuple of the six on its diagonal
    damping: Scalar | None
    preload: Components | None = None
    order: int = eqx.field(static=True, default=1)

    def reference(self, nodes: Sequence[Frame]) -> tuple[Any, Any]:
        """(the node that the others are seen from, the others: components (order, ...))."""
        k = REFERENCE[self.order]
        others = [x for i, x in enumerate(nodes) if i != k]
        return nodes[k], jax.tree.map(lambda *x: namespace(*x).stack(x), *others)

    def screws(self, nodes: Sequence[Frame]) -> Helicoid:
        """Those of the nodes but the one of reference, seen from it, (order, ...)."""
        return relative_screw(*self.reference(nodes))

    def along(self, screw: Sequence[Scalar]) -> tuple[list[Any], list[Any]]:
        """A screw (six components over nodes) at the points of quadrature, and its slope."""
        at = points(self.order)
        return (
            [mixed(at.shapes, x) for x in screw],
            [mixed(at.slopes, x) / self.length for x in screw],
        )

    def weights(self) -> list[Scalar]:
        """The length that each point stands for."""
        return [w * self.length for w in points(self.order).weights]

    def strain(self, *nodes: Frame) -> Components:
        """The six strains of each point."""
        screw = self.screws(nodes)
        u0, phi0 = self.rest
        rest = [x / self.length for x in (*u0, *phi0)]
        if self.order == 1:
            whole = [x / self.length for x in (*screw.u, *screw.phi)]
        else:
            x, slope = self.along([*screw.u, *screw.phi])
            gamma, kappa = path_strain(*(Vec3(*y) for y in (x[:3], x[3:], slope[:3], slope[3:])))
            whole = [*gamma, *kappa]
        return [x[k] - y for k in range(self.order) for x, y in zip(whole, rest, strict=True)]

    def strain_rate(self, *nodes: Frame) -> Components:
        """Their time derivatives."""
        a, b = self.reference(nodes)
        screw = relative_screw(a, b)
        u, phi = screw.rate(*((frame.A.T @ frame.v, frame.w) for frame in (a, b)))
        if self.order == 1:
            return [x[0] / self.length for x in (*u, *phi)]
        parts = (self.along(x) for x in ([*screw.u, *screw.phi], [*u, *phi]))
        x, rate = (jnp.stack([*value, *slope]) for value, slope in parts)
        return _by_point(jax.jvp(stacked_strain, (x,), (rate,))[1])

    def loads(self, strain: Components) -> Components:
        """The section forces of strains."""
        found = [applied(C, strain[6 * k : 6 * k + 6]) for k, C in enumerate(self.stiffness)]
        return [x for six in found for x in six]

    def elastic_force(self, *nodes: Frame) -> Components:
        """The section forces of the strains alone."""
        return self.loads(self.strain(*nodes))

    def inner_loads(self, *nodes: Frame, **_: Any) -> Components:
        return self.elastic_force(*nodes)

    def preloaded(self, loads: Components) -> BeamElement:
        return replace(self, preload=loads)

    def section_force(self, *nodes: Frame) -> Components:
        """Normal and shear forces, torsional and bending moments of the sections [N, N m]."""
        strain = self.strain(*nodes)
        if self.damping is not None:
            rate = self.strain_rate(*nodes)
            strain = [x + self.damping * y for x, y in zip(strain, rate, strict=True)]
        load = self.loads(strain)
        if self.preload is not None:
            load = [x + y for x, y in zip(load, self.preload, strict=True)]
        return load

    def screw_loads(self, screw: Helicoid, loads: Components) -> tuple[Vec3, Vec3]:
        """What does work on the screws as section forces do on the strains, (order, ...)."""
        if self.order == 1:
            six = [x[None] for x in loads]
            return Vec3(*six[:3]), Vec3(*six[3:])
        value, slope = self.along([*screw.u, *screw.phi])
        F = strain_slope(jnp.stack([*value, *slope]), self.weighted(loads))
        at = points(self.order)
        six = [
            mixed(at.shapes.T, F[i]) + mixed(at.slopes.T, F[i + 6]) / self.length for i in range(6)
        ]
        return Vec3(*six[:3]), Vec3(*six[3:])

    def weighted(self, loads: Components) -> Array:
        """Section forces times the length that they stand for, (6, order, ...)."""
        scaled = [[w * x for x in loads[6 * k :][:6]] for k, w in enumerate(self.weights())]
        return jnp.stack([jnp.stack(x) for x in scaled], axis=1)

    def pulled(self, nodes: Sequence[Frame], loads: Components) -> list[tuple[Vec3, Vec3]]:
        """What does work on the nodes as section forces do on the strains: of each node a force in
        world axes and a torque in its own."""
        a, b = self.reference(nodes)
        screw = relative_screw(a, b)
        n, m = self.screw_loads(screw, loads)
        force, first = screw.pulled(n, m, 0.5)
        _, second = screw.pulled(n, m, -0.5)
        force = a.A @ force
        out = [
            (Vec3(*(x[k] for x in force)), Vec3(*(x[k] for x in second))) for k in range(self.order)
        ]
        total = Vec3(*(-sum(x) for x in force)), Vec3(*(-sum(x) for x in first))
        at = REFERENCE[self.order]
        return [*out[:at], total, *out[at:]]

    def wrenches(self, *nodes: Frame, t: Array) -> list[tuple[Vec3, Vec3]]:
        found = self.pulled(nodes, self.section_force(*nodes))
        return [(-force, -torque) for force, torque in found]

    def stiffness_blocks(self, nodes: Sequence[Any], n: int) -> list[list[Any]] | None:
        return beam_stiffness(n, self, list(nodes)) if self.damping is None else None

    def potential(self, *nodes: Frame) -> Any:
        strain = self.strain(*nodes)
        pairs = zip(strain, self.loads(strain), strict=True)
        work = [x * y for x, y in pairs]
        return 0.5 * sum(w * sum(work[6 * k : 6 * k + 6]) for k, w in enumerate(self.weights()))


def _by_point(x: Array) -> Components:
    """From (6, points, ...) to six for each point."""
    return [x[i, k] for k in range(x.shape[1]) for i in range(6)]


def applied(matrix: tuple[Array, ...], x: Components) -> Components:
    """matrix x on components; the matrix may be one for each element, or a diagonal (a tuple)."""
    if isinstance(matrix, tuple):
        return [c * y for c, y in zip(matrix, x, strict=True)]
    n = range(len(x))
    return [sum(matrix[..., i, j] * x[j] for j in n) for i in n]  # pyright: ignore
