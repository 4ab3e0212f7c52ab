"""Forces that do exactly the work of a finite step.

A step takes q_0 to q_1 = q_0 ⊞ d. What an element measures, e(q) (the residuals of a joint, the
screw of a beam element, the energy of a spring), changes by D d with the discrete derivative

    D = E + (e_1 - e_0 - E d) (M d)^T / (d^T M d),     E = de/dq at q_0 ⊞ d/2

of Gonzalez (1996), taken for each element by itself, M being the mass of its nodes. Loads s on e
then act as D^T s, and do the work s . (e_1 - e_0) to the last digit: none where e is a constraint
that holds at both ends, the change of energy where s is C times the mean strain (Simo, Tarnow 1992;
Bauchau 1998). Since E is taken at the middle, the rest is of third order in d.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..rotation import Vec3
from .assembly import BodySet
from .base import Array, System
from .beam import BeamElement
from .elements import Group, components, take
from .frames import PlanarFrame
from .mechanism import Mechanism

if TYPE_CHECKING:
    from ..rotation.vectors import Scalar
    from .frames import AnyFrame, Frame

# Displacements shorter than this part of the mechanism's size have no third order worth a
# correction; the rounding of one would be divided by them.
_SHORT = 1e-6


class Path(NamedTuple):
    """A finite step: where it begins and ends, its middle, the increment, and the time of forces
    and constraints."""

    start: Array
    end: Array
    middle: Array
    d: Array
    t: Array

    @staticmethod
    def of(system: System, q: Array, d: Array, t: Array) -> Path:
        """The step from q by the increment d."""
        return Path(q, system.retract(q, d), system.retract(q, 0.5 * d), d, t)


Strains = list[Array]


def strains(system: System, q: Array) -> Strains:
    """The strains of all beam elements, (6, elements) for each group."""
    if not isinstance(system, Mechanism):
        return []
    frames = system.bodies.frames(q, jnp.zeros((system.bodies.n * system.bodies.dof,)))
    return [jnp.stack(group.element.strain(*group.frames(frames))) for group in _beams(system)]


def beam_loads(system: System, strain: Strains, rate: Strains | None = None) -> Strains:
    """The section forces of strains, and of their rates where the beams are damped."""
    out = []
    if not isinstance(system, Mechanism):
        return out
    for k, group in enumerate(_beams(system)):
        element, x = group.element, list(strain[k])
        if element.damping is not None and rate is not None:
            x = [a + element.damping * b for a, b in zip(x, rate[k], strict=True)]
        out.append(jnp.stack(element.loads(x)))
    return out


def strain_rates(system: System, q: Array, v: Array) -> Strains:
    """The time derivatives of `strains` at a state."""
    if not isinstance(system, Mechanism):
        return []
    frames = system.bodies.frames(q, v)
    out = []
    for group in _beams(system):
        out.append(jnp.stack(group.element.strain_rate(*group.frames(frames))))
    return out


def beam_force(system: System, q: Array, loads: Strains) -> Array:
    """E^T s of all beams at q: what does work as the section forces s do on the strains."""
    assert isinstance(system, Mechanism)
    bodies = _rigid(system)
    frames = bodies.frames(q, jnp.zeros((bodies.n * bodies.dof,)))
    total = jnp.zeros((bodies.dof, bodies.n))
    for group, load in zip(_beams(system), loads, strict=True):
        nodes = _pulled(group, group.frames(frames), load)
        total = total + bodies.scatter(group.nodes, [jnp.stack(x) for x in nodes])
    return total.ravel()


def _pulled(group: Group, frames: Sequence[AnyFrame], load: Array) -> list[list[Scalar]]:
    """E^T s of beam elements for each of their nodes."""
    return [[*force, *torque] for force, torque in group.element.pulled(frames, list(load))]


def held_force(system: System, path: Path, lam: Array, loads: Strains) -> Array:
    """D^T s of all constraints, with multipliers lam, and of all beams, with section forces."""
    if not isinstance(system, Mechanism):
        return _held_by_all(system, path, lam)
    bodies = _rigid(system)
    along = bodies.frames(path.middle, path.d)
    ends = [bodies.frames(q, path.d) for q in (path.start, path.end)]
    momentum, size = _local_momentum(system, path)
    total = jnp.zeros((bodies.dof, bodies.n))
    for group, part in zip(bodies.groups("all"), bodies.split(lam, "all"), strict=True):
        frames = group.frames(along)
        nodes = group.forces(frames, path.t, list(part))
        if group.is_holonomic:
            value = lambda x, group=group: group.residual(x, path.t)  # noqa: E731
            off = _missed(value, frames, [group.frames(x) for x in ends], list(part))
            nodes = _corrected(group, nodes, off, momentum, path, size)
        total = total + bodies.scatter(group.nodes, [jnp.stack(x) for x in nodes])
    for group, load in zip(_beams(system), loads, strict=True):
        frames = group.frames(along)
        nodes = _pulled(group, frames, load)
        value = lambda x, group=group: _strained(group, x)  # noqa: E731
        off = _missed(value, frames, [group.frames(x) for x in ends], list(load))
        nodes = _corrected(group, nodes, off, momentum, path, size)
        total = total + bodies.scatter(group.nodes, [jnp.stack(x) for x in nodes])
    return total.ravel()


def other_force(system: System, path: Path, v: Array) -> Array:
    """All forces but those of beams, at the middle with the velocity v: those with a potential
    do the work of its change. Gyroscopic torques are among them."""
    if not isinstance(system, Mechanism):
        return _corrected_by_all(system, path, v)
    bodies = _rigid(system)
    moving = bodies.frames(path.middle, v)
    along = bodies.frames(path.middle, path.d)
    ends = [bodies.frames(q, path.d) for q in (path.start, path.end)]
    momentum, size = _local_momentum(system, path)
    rows = v.reshape(-1, bodies.n)
    own = [bodies.heavy * g for g in bodies.gravity]
    if bodies.frame is PlanarFrame:
        own = [*own, jnp.zeros_like(bodies.mass)]
    else:
        w = Vec3(rows[3], rows[4], rows[5])
        own = [*own, *(-w.cross(Vec3(*bodies.apply_inertia(bodies.inertia, list(w)))))]
    total = jnp.stack(own)
    for group in bodies.forces:
        if isinstance(group.element, BeamElement):
            continue
        local = group.wrenches(group.frames(moving), path.t)
        value = lambda x, group=group: [_energy(group, x)]  # noqa: E731
        frames, both = group.frames(along), [group.frames(x) for x in ends]
        off = -_missed(value, frames, both, [jnp.ones((group.n,))])
        local = _corrected(group, local, off, momentum, path, size)
        total = total + bodies.scatter(group.nodes, [jnp.stack(x) for x in local])
    return total.ravel()


def _rigid(system: Mechanism) -> BodySet:
    """The bodies; those with modes are refused before a run (`run/pairs.py`)."""
    assert isinstance(system.bodies, BodySet)
    return system.bodies


def _beams(system: Mechanism) -> list[Group]:
    return [x for x in system.bodies.forces if isinstance(x.element, BeamElement)]


def _energy(group: Group, frames: Sequence[Frame | PlanarFrame]) -> Scalar:
    return components(group.element.potential(*frames), group.n)[0]


def _strained(group: Group, frames: Sequence[Frame | PlanarFrame]) -> list[Scalar]:
    """The strains times the lengths that they stand for."""
    weights = group.element.weights()
    return [weights[k // 6] * x for k, x in enumerate(group.element.strain(*frames))]


def _missed(
    value: Any, frames: Sequence[AnyFrame], ends: Sequence[Any], load: Sequence[Any]
) -> Array:
    """load . (e_1 - e_0 - E d) of each element; `frames` are those of the middle, moving by d."""
    poses, rates = [x.pose for x in frames], [x.pose_rate for x in frames]

    def at(poses: Any) -> Any:
        return value([x.with_pose(pose) for x, pose in zip(frames, poses, strict=True)])

    change = jax.jvp(at, (poses,), (rates,))[1]
    first, second = (value(x) for x in ends)
    parts = zip(load, second, first, change, strict=True)
    return sum((s * (b - a - c) for s, b, a, c in parts), jnp.zeros(()))


def _local_momentum(system: Mechanism, path: Path) -> tuple[Array, Array]:
    """(M d of all bodies, with the ground in front; the square of what counts as short)."""
    bodies = _rigid(system)
    momentum = bodies.with_ground(bodies.momentum(path.middle, path.d).reshape(-1, bodies.n))
    places = path.middle.reshape(-1, bodies.n)[: bodies.translations]
    return momentum, (_SHORT * jnp.max(jnp.abs(places))) ** 2 * jnp.mean(bodies.mass)


def _corrected(
    group: Group, nodes: Any, off: Any, momentum: Array, path: Path, size: Array
) -> list[list[Scalar]]:
    """Local loads plus off M d / (d . M d), of each element's nodes."""
    dof = momentum.shape[0]
    d = path.d.reshape(dof, -1)
    d = jnp.concatenate([jnp.zeros((dof, 1)), d], axis=1)
    local = [(take(momentum, table), take(d, table)) for table in group.nodes]
    square = sum(jnp.sum(p * x, axis=0) for p, x in local)
    factor = off * square / (square * square + size * size + 1e-300)
    pairs = zip(nodes, local, strict=True)
    return [[x + factor * y for x, y in zip(node, p, strict=True)] for node, (p, _) in pairs]


# -- systems of functions: all elements at once ---------------------------------------------------


def _held_by_all(system: System, path: Path, lam: Array) -> Array:
    value = lambda q: system.constraint(q, path.t)  # noqa: E731
    along = system.qdot(path.middle, path.d)
    change = jax.jvp(value, (path.middle,), (along,))[1]
    off = value(path.end) - value(path.start) - change
    force = system.constraint_force(path.middle, path.t, lam)
    return force + _spread(system, path, jnp.vdot(lam[: off.shape[0]], off))


def _corrected_by_all(system: System, path: Path, v: Array) -> Array:
    along = system.qdot(path.middle, path.d)
    change = jax.jvp(system.potential_energy, (path.middle,), (along,))[1]
    off = system.potential_energy(path.end) - system.potential_energy(path.start) - change
    return system.force(path.middle, v, path.t) - _spread(system, path, off)


def _spread(system: System, path: Path, off: Array) -> Array:
    momentum = system.momentum(path.middle, path.d)
    square = jnp.vdot(path.d, momentum)
    size = _SHORT**2 * jnp.vdot(path.middle, path.middle)
    return off * momentum * square / (square * square + size * size + 1e-300)
