"""Every quantity of a result by name: what plots, tables, files and people ask for.

``"crank.position"``, ``"A.angle"``, ``"spring.force"``, ``"A.reaction.force"``, ``"energy.total"``,
and outputs by the names they were given; ``"crank.velocity.x"`` is one component. What follows from
a state alone is a `Quantity` of the mechanism and may be used in events as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._messages import shown, unknown_name
from ..system.held import HeldSystem
from ..system.mechanism import Mechanism
from ..system.modal import mode_count
from ..system.situation import Recorded
from .reactions import Reaction

if TYPE_CHECKING:
    from ..system.base import System
    from ..system.quantities import Quantity
    from .result import Result

TURN = 2 * np.pi
# What an object's name alone stands for: of what it has, the first that is there.
_USUAL = (("position",), ("angle", "slide", "length", "force", "torque"))
_OF_RUN = {
    "energy": [f"energy.{x}" for x in ("kinetic", "potential", "total", "work")],
    "drift": ["drift.position", "drift.velocity"],
}
_AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Entry:
    """A quantity of a result: its unit, the names of its components, and how it is computed."""

    unit: str
    labels: tuple[str, ...]
    values: Callable[[], np.ndarray]


class Registry:
    """All quantities of a result; each is computed when it is first asked for."""

    own_name: Callable[[str], str] = str  # of a quantity that may be said by a place on a beam

    def __init__(self, result: Result):
        self._known: dict[str, np.ndarray] = {}
        system = result.system
        if isinstance(system, Mechanism):
            self.own_name = system.own_name
        of = _of_mechanism if isinstance(system, Mechanism) else _of_functions
        found = {**dict(_of_run(result)), **dict(of(result))}
        self.entries = {name: found[name] for name in sorted(found, key=_is_of_run)}

    def units(self) -> dict[str, str]:
        """Every name with its unit; vectors are one."""
        return {name: entry.unit for name, entry in self.entries.items()}

    def numbers(self) -> dict[str, str]:
        """Every single number with its unit: components in place of vectors."""
        return {
            full: entry.unit
            for name, entry in self.entries.items()
            for full in ([f"{name}.{x}" for x in entry.labels] or [name])
        }

    def entry(self, owner: str, name: object) -> tuple[str, Entry, int | None]:
        """The quantity that a name means: its own name, itself, and which component."""
        name = self.own_name(name) if isinstance(name, str) else name
        if isinstance(name, str) and name in self.entries:
            return name, self.entries[name], None
        whole, _, label = name.rpartition(".") if isinstance(name, str) else ("", "", "")
        if whole in self.entries and label in self.entries[whole].labels:
            return whole, self.entries[whole], self.entries[whole].labels.index(label)
        known = dict.fromkeys([*self.entries, *self.numbers()])
        raise KeyError(unknown_name(owner, "quantity", name, known))

    def values(self, owner: str, name: object) -> np.ndarray:
        """The quantity over time, (n,) or (n, components)."""
        own, entry, k = self.entry(owner, name)
        if own not in self._known:
            found = np.asarray(entry.values(), dtype=float)
            found.flags.writeable = False
            self._known[own] = found
        return self._known[own] if k is None else self._known[own][:, k]


def _is_of_run(name: str) -> bool:
    return name.partition(".")[0] in ("energy", "drift")


def _of_run(result: Result) -> Iterator[tuple[str, Entry]]:
    for what in ("kinetic", "potential", "total", "work", "balance"):
        yield f"energy.{what}", Entry("J", (), lambda x=what: getattr(result.energy, x))
    for k, what in enumerate(("position", "velocity")):
        yield f"drift.{what}", Entry("", (), lambda k=k: result.drift()[k])


def _of_functions(result: Result) -> Iterator[tuple[str, Entry]]:
    """Coordinates, velocities and accelerations of a system that knows nothing else."""
    for i, name in enumerate(result.system.coordinate_names(result.q.shape[1])):
        yield name, Entry("", (), lambda i=i: result.q[:, i])
    for i in range(result.v.shape[1]):
        yield f"v[{i}]", Entry("", (), lambda i=i: result.v[:, i])
        yield f"a[{i}]", Entry("", (), lambda i=i: result.a[:, i])


def _of_mechanism(result: Any) -> Iterator[tuple[str, Entry]]:
    system: Mechanism = result.system.complete()
    measured = system.measured()
    histories = _histories(result, system)

    def over(quantity: Quantity) -> np.ndarray:
        found = [(at, quantity.over(history)) for at, history in histories]
        out = np.zeros((result.t.size, *found[0][1].shape[1:]))
        for at, values in found:
            out[at] = values
        return out

    def values(name: str) -> np.ndarray:
        found = over(measured[name])
        if not measured[name].circular:
            return found
        rate = over(measured[f"{name.rpartition('.')[0]}.rate"])
        return continuous(found, rate, result._ticks)

    for name, quantity in measured.items():
        yield name, Entry(quantity.unit, quantity.labels, lambda x=name: values(x))
    for name in result.stats.get("controlled", ()):
        yield name, Entry("", (), lambda x=name: _set_by_controllers(result, x))
    axes = _AXES[: system.bodies.translations]
    axial = () if system.is_planar else _AXES
    for body in system.bodies.rigid:
        yield f"{body}.acceleration", Entry("m/s^2", axes, lambda x=body: result[x].acceleration)
        turning = lambda x=body: result[x].angular_acceleration  # noqa: E731
        yield f"{body}.angular_acceleration", Entry("rad/s^2", axial, turning)
        count = mode_count(system.bodies, body)
        if count:
            labels = tuple(str(k) for k in range(count))
            yield f"{body}.modes", Entry("", labels, lambda x=body: result[x].modes)
            yield f"{body}.mode_rates", Entry("1/s", labels, lambda x=body: result[x].mode_rates)
        if not system.is_planar:
            parts = ("e0", "e1", "e2", "e3")
            yield f"{body}.quaternion", Entry("", parts, lambda x=body: result[x].quaternion)
    drives = _drives(system)
    for joint, _ in result.system.markers:
        force = lambda x=joint: result.reaction(x).force  # noqa: E731
        torque = lambda x=joint: result.reaction(x).torque  # noqa: E731
        yield f"{joint}.reaction.force", Entry("N", axes, force)
        yield f"{joint}.reaction.torque", Entry("N m", axial, torque)
        if joint in drives:
            yield f"{joint}.effort", Entry(drives[joint], (), lambda x=joint: _effort(result, x))


def _histories(result: Result, system: Mechanism) -> list[tuple[Any, Recorded]]:
    """The states with the bodies and forces they belong to: one set of them, unless controllers
    have changed the numbers of forces on the way."""
    states = result._times, result.q, result.v
    lam = lambda: _multipliers(result)  # noqa: E731
    if "controlled" not in result.stats:
        return [(slice(None), Recorded(system.bodies, *states, lam))]
    out = []
    for k, leg in enumerate(result.legs):
        at = np.flatnonzero(result.leg == k)
        if at.size:
            t, q, v = (x[at] for x in states)
            here = lambda at=at: _multipliers(result)[at]  # noqa: E731
            out.append((at, Recorded(_mechanism(leg.system).bodies, t, q, v, here)))
    return out


def _mechanism(system: System) -> Any:
    """The mechanism of a leg, without contacts that are closed."""
    return system.base if isinstance(system, HeldSystem) else system


def _set_by_controllers(result: Result, name: str) -> np.ndarray:
    """A parameter that controllers have set, at every state."""
    each = [float(_mechanism(leg.system).parameters()[name]) for leg in result.legs]
    return np.array(each)[result.leg]


def _drives(system: Mechanism) -> dict[str, str]:
    """The drivers with the unit of what each gives."""
    groups = ((g.names, g.element.drive_unit) for g in system.bodies.groups("holonomic"))
    return {name: unit for names, unit in groups if unit for name in names}


def _multipliers(result: Result) -> np.ndarray:
    """Those that belong to the saved states."""
    return result._accelerations[1] if result.t_lam is not result.t else result.lam


def _effort(result: Result, driver: str) -> np.ndarray:
    """The force or torque that a driver gives, in the sense in which what it drives grows."""
    lam = _multipliers(result)
    row = result.system.constraint_names(lam.shape[1]).index(driver)
    return -lam[:, row]


def continuous(angle: np.ndarray, rate: np.ndarray, t: np.ndarray) -> np.ndarray:
    """An angle known up to whole turns as one that goes on over turns.

    From one state to the next it changes by what the rates say, to the nearest whole turn: so also
    where states are saved more than half a turn apart, if the rate changes little between them.
    """
    expected = np.diff(t) * (rate[1:] + rate[:-1]) / 2
    seen = np.diff(angle)
    turns = np.round((expected - seen) / TURN)
    return angle + TURN * np.concatenate([[0.0], np.cumsum(turns)])


def expanded(owner: str, result: Result, names: Any) -> list[str]:
    """The single numbers that names mean: a vector its components, a body its position, a joint
    what it leaves free, a force what it gives, ``"energy"`` and ``"drift"`` all of theirs."""
    registry = result._named
    out: list[str] = []
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{owner}: {shown(name)} is no name of a quantity. Give strings.")
        name = registry.own_name(name)
        wanted = [name]
        if name not in registry.entries:
            own = [x for x in registry.entries if x.rpartition(".")[0] == name]
            has = {x.rpartition(".")[2]: x for x in own}
            wanted = _OF_RUN[name] if name in _OF_RUN else _usual(has)
            if not own and not _is_component(registry, name):
                objects = dict.fromkeys(x.partition(".")[0] for x in registry.entries)
                known = [*registry.entries, *registry.numbers(), *objects]
                raise ValueError(unknown_name(owner, "quantity", name, dict.fromkeys(known)))
            wanted = wanted or [name]
        for full in wanted:
            labels = registry.entries[full].labels if full in registry.entries else ()
            out += [f"{full}.{x}" for x in labels] or [full]
    return list(dict.fromkeys(out))


def _usual(has: Mapping[str, str]) -> list[str]:
    for group in _USUAL:
        found = [has[x] for x in group if x in has]
        if found:
            return found if len(group) > 1 and "force" not in has else found[:1]
    return list(has.values())


def _is_component(registry: Registry, name: str) -> bool:
    whole, _, label = name.rpartition(".")
    return whole in registry.entries and label in registry.entries[whole].labels


# -- joints and forces -----------------------------------------------------------------------


class _Part:
    """What a joint or a force of a mechanism did over time, by name."""

    _noun: str

    def __init__(self, registry: Registry, name: str, has: list[str]):
        self._registry, self.name, self._has = registry, name, has

    def _get(self, what: str) -> np.ndarray:
        if what not in self._has:
            raise AttributeError(
                f"{self._noun} {self.name!r} has no {what}; it has {', '.join(self._has)}."
            )
        return self._registry.values(self._noun, f"{self.name}.{what}")

    def __repr__(self) -> str:
        return f"<{self._noun} {self.name!r}: {', '.join(self._has)}>"


class JointHistory(_Part):
    """What a joint or driver did over time; what it does not leave free it does not have.

    Angles and displacements are counted from the configuration in which the model was described,
    angles over any number of turns, as those of `drive_angle` and `drive_translation`.
    """

    _noun = "joint"

    @property
    def angle(self) -> np.ndarray:
        """By which the second body has turned in the first [rad], (n,)."""
        return self._get("angle")

    @property
    def rate(self) -> np.ndarray:
        """How fast it turns [rad/s], (n,)."""
        return self._get("rate")

    @property
    def slide(self) -> np.ndarray:
        """By which the second body has slid along the axis [m], (n,)."""
        return self._get("slide")

    @property
    def slide_rate(self) -> np.ndarray:
        """How fast it slides [m/s], (n,)."""
        return self._get("slide_rate")

    @property
    def length(self) -> np.ndarray:
        """The distance of its two points [m], (n,)."""
        return self._get("length")

    @property
    def length_rate(self) -> np.ndarray:
        """How fast that grows [m/s], (n,)."""
        return self._get("length_rate")

    @property
    def effort(self) -> np.ndarray:
        """The torque [N m] or force [N] that a driver gives, (n,)."""
        return self._get("effort")

    @property
    def reaction(self) -> Reaction:
        """Force and torque on the second body in world axes; see `Result.reaction`."""
        return Reaction(self._get("reaction.force"), self._get("reaction.torque"))


class ForceHistory(_Part):
    """What a force did over time.

    A spring-damper has its `length`, the `rate` at which that grows, and a `force` that is positive
    where it pushes its ends apart; a torsion spring its `angle`, `rate` and `torque`. Any other has
    `force` and `torque` on its last body, in world axes. The `power` is what the bodies are given.
    """

    _noun = "force"

    @property
    def length(self) -> np.ndarray:
        """The distance of its ends [m], (n,)."""
        return self._get("length")

    @property
    def angle(self) -> np.ndarray:
        """Of a torsion spring [rad], (n,)."""
        return self._get("angle")

    @property
    def rate(self) -> np.ndarray:
        """How fast the length [m/s] or the angle [rad/s] grows, (n,)."""
        return self._get("rate")

    @property
    def force(self) -> np.ndarray:
        """Along the line of a spring-damper, (n,), else a vector over time [N]."""
        return self._get("force")

    @property
    def torque(self) -> np.ndarray:
        """About the axis of a torsion spring, (n,), else as that of the bodies [N m]."""
        return self._get("torque")

    @property
    def power(self) -> np.ndarray:
        """What it gives to its bodies [W], (n,)."""
        return self._get("power")


def joint_history(registry: Registry, system: Mechanism, name: Any) -> JointHistory:
    """What the joint of that name did."""
    system.check_joint(name, "world")
    return JointHistory(registry, name, _parts(registry, name))


def force_history(registry: Registry, system: Mechanism, name: object) -> ForceHistory:
    """What the force of that name did."""
    groups = (*system.bodies.forces, *system.bodies.seeing)
    known = list(dict.fromkeys(x for group in groups for x in group.names))
    if not isinstance(name, str) or name not in known:
        raise KeyError(
            f"There is no force {shown(name)}; the forces are {', '.join(known) or 'none'}."
        )
    return ForceHistory(registry, name, _parts(registry, name))


def _parts(registry: Registry, name: str) -> list[str]:
    return [x[len(name) + 1 :] for x in registry.entries if x.startswith(f"{name}.")]
