"""What a simulation returns: arrays with names, and what follows from them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._messages import listed, shown, unknown_name
from .._numbers import array
from ..start.consistent import Start, constraint_rows
from ..system.base import System
from ..system.clock import Clock
from ..system.evaluation import evaluated
from ..system.held import HeldSystem
from ..system.mechanism import Mechanism
from .along import BeamMotion, beam_motion
from .interpolation import accelerations, interpolate, smallest
from .motion import BodyMotion, body_motion, total_momentum
from .named import ForceHistory, JointHistory, Registry, force_history, joint_history
from .reactions import Reaction, reaction
from .resampling import sampled
from .saved import dataframe, dataset, save
from .states import Leg, Occurrence, States
from .work import work

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_CHUNK = 256


def _largest(x: np.ndarray) -> np.ndarray:
    """The largest entry of each row."""
    return np.max(np.abs(x), axis=1, initial=0.0)


@dataclass(frozen=True)
class Energy:
    """Energies over time [J]; `work` is that done by everything without a potential."""

    kinetic: np.ndarray
    potential: np.ndarray
    work: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """Kinetic plus potential energy."""
        return self.kinetic + self.potential

    @property
    def balance(self) -> np.ndarray:
        """Total energy minus its start and the work done: zero for an exact solution."""
        return self.total - self.total[0] - self.work


@dataclass(eq=False)
class Result:
    """A trajectory and how it came about.

    `t` (n,), `q` (n, nq), `v` (n, nv) are the saved states; `lam` (n, rows) the multipliers and `a`
    (n, nv) the accelerations that belong to them. `success`, `status`, `message` and `stats` say
    how the run went, `events` what happened on the way, `choices` the methods of
    ``method="auto"``. `result["name"]` gives the motion of a
    body. Where an event changes the state, both states are there, at the same time; at a break as
    well, with the accelerations before and after it.
    """

    system: System
    start: Start
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    leg: np.ndarray
    legs: tuple[Leg, ...]
    solved: tuple[Any, ...]
    success: bool
    status: str
    message: str
    stats: dict[str, Any]
    events: list[Occurrence]
    choices: list[Any] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    ticks: Any = None  # of the clock at the saved states; None where they are the times

    @staticmethod
    def single(
        leg: Leg,
        start: Start,
        t: np.ndarray,
        states: Any,
        *,
        success: bool,
        message: str,
        stats: dict[str, Any],
    ) -> Result:
        """A result computed with one leg from beginning to end; `states` are (q, v), or a
        `FullState`, over the times `t`. `stats` are at least "steps", "wall_time", "compiled"."""
        saved = States()
        saved.start(leg, start.t, (start.q, start.v), wanted=False)
        saved.add(np.asarray(t), states)
        return Result(
            system=leg.system,
            start=start,
            success=success,
            status="end" if success else "failure",
            message=message,
            stats={"dt": leg.dt, "saved": "steps", **stats},
            events=[],
            **saved.arrays(),
        )

    @property
    def formulation(self) -> Any:
        """How the constraints were enforced, at the end."""
        return self.legs[-1].formulation

    @property
    def integrator(self) -> Any:
        """How time was integrated, at the end."""
        return self.legs[-1].integrator

    @property
    def dt(self) -> float:
        """The step [s]; the mean one where steps were chosen by their error."""
        return self.stats["dt"]

    @cached_property
    def _numbers(self) -> np.ndarray:
        """Kinetic energy, potential energy, power, |g| and |g'| (their largest entries), at every
        saved state."""
        return self._each(
            lambda here: [
                here.kinetic,
                here.potential,
                here.power,
                _largest(here.g),
                _largest(here.rate),
            ]
        )

    def _each(self, numbers: Any) -> np.ndarray:
        """Some numbers of every saved state, shape (how many, states)."""
        out = None
        for k, leg in enumerate(self.legs):
            at = np.flatnonzero(self.leg == k)
            for part in np.split(at, range(_CHUNK, at.size, _CHUNK)) if at.size else ():
                here = evaluated(leg.system, self._times[part], self.q[part], self.v[part])
                found = np.stack(numbers(here))
                out = np.zeros((len(found), self.t.size)) if out is None else out
                out[:, part] = found
        assert out is not None
        return out

    @property
    def elapsed(self) -> np.ndarray:
        """Time since the start [s]; exact also where `t` is so large that it is rounded."""
        return self._ticks - self.clock.ticks(self.start.t)

    @property
    def _ticks(self) -> np.ndarray:
        return self.t if self.ticks is None else self.ticks

    @cached_property
    def _times(self) -> np.ndarray:
        """The times that functions of the time are given at the saved states: `t`, but just before
        or after a break."""
        return self.clock.times_of_states(np.asarray(self._ticks))

    def _rows(self, leg: Leg) -> Any:
        """Where the constraint rows of a leg are among all of the mechanism's."""
        return leg.system.rows_of_all()

    def _spread(self, parts: Any) -> np.ndarray:
        """Multipliers of each leg as rows of the whole mechanism; zero for released joints."""
        if len(self.legs) == 1 and isinstance(self._rows(self.legs[0]), slice):
            return parts(0, self.legs[0], slice(None))
        width = self._all_rows
        out = np.zeros((self.t.size, width))
        for k, leg in enumerate(self.legs):
            at = np.flatnonzero(self.leg == k)
            if at.size:
                rows = self._rows(leg)
                columns = np.arange(width) if isinstance(rows, slice) else rows
                known = columns >= 0  # those of contacts that are closed are no joints
                out[np.ix_(at, columns[known])] = parts(k, leg, at)[:, known]
        return out

    @cached_property
    def _all_rows(self) -> int:
        return constraint_rows(self.system, self.start.q, self.start.v)

    def _solved_multipliers(self, k: int) -> np.ndarray | None:
        """The multipliers among what leg k solved for; None if they are not."""
        if self.solved[k] is None:
            return None
        leg = self.legs[k]
        rows = constraint_rows(leg.system, self.start.q, self.start.v)
        found = leg.formulation.multipliers(self.solved[k].z.T, rows)
        return None if found is None else np.asarray(found).T

    @cached_property
    def _accelerations(self) -> tuple[np.ndarray, np.ndarray]:
        """(a, lam) of the states, by their own leg's formulation."""
        a = np.zeros_like(self.v)
        lam: dict[int, np.ndarray] = {}
        for k, leg in enumerate(self.legs):
            at = np.flatnonzero(self.leg == k)
            if at.size:
                a[at], lam[k] = accelerations(leg, self._times[at], self.q[at], self.v[at])
        return a, self._spread(lambda k, leg, at: lam[k])

    @property
    def a(self) -> np.ndarray:
        """Accelerations v' at the saved states, shape (n, nv)."""
        # A method whose multipliers belong to the middle of a step has accelerations of there too.
        known = [
            solved is not None and not leg.integrator.multiplier_lag
            for solved, leg in zip(self.solved, self.legs, strict=True)
        ]
        if not any(known):
            return self._accelerations[0]
        if len(self.legs) == 1:
            return self.solved[0].a
        out = np.array(self._accelerations[0])
        for k, solved in enumerate(self.solved):
            if known[k]:
                out[self.leg == k] = solved.a
        return out

    @cached_property
    def lam(self) -> np.ndarray:
        """Multipliers at the times `t_lam`, shape (n, rows); M v' = f - G^T lam.

        For redundant constraints they are the minimum-norm ones (of methods with multipliers of the
        middle of a step, in a norm that weighs constraints by their mobility); for joints that were
        released they are zero.
        """
        solved = [self._solved_multipliers(k) for k in range(len(self.legs))]
        if all(x is None for x in solved):
            return self._accelerations[1]

        def part(k: int, leg: Leg, at: slice) -> np.ndarray:
            found = solved[k]
            if found is not None:
                return smallest(leg, self._times[at], self.q[at], self.v[at], found)
            rows = self._rows(leg)
            return self._accelerations[1][at][:, rows]

        return self._spread(part)

    def contact(self, name: str) -> np.ndarray:
        """The force with which a contact pushes over time, along the gradient of its gap [N for a
        gap in m], shape (n,); zero while it is open."""
        out, known = np.zeros_like(self.t), {event.name for event in self.events}
        for k, leg in enumerate(self.legs):
            if not isinstance(leg.system, HeldSystem):
                continue
            gaps = [gap.name for gap in leg.system.gaps]
            at = np.flatnonzero(self.leg == k)
            known |= set(gaps)
            if isinstance(name, str) and name in gaps and at.size:
                lam = self._solved_multipliers(k)
                if lam is None:
                    lam = accelerations(leg, self.t[at], self.q[at], self.v[at])[1]
                i = gaps.index(name)
                out[at] = -leg.system.sides[i] * lam[:, leg.system.holonomic + i]
        if not isinstance(name, str) or name not in known:
            raise KeyError(
                f"contact: no event {shown(name)} has happened; there are "
                f"{listed(sorted(known)) or 'none'}."
            )
        return out

    @property
    def t_lam(self) -> np.ndarray:
        """The times the multipliers belong to [s]; the saved times for most methods."""
        lagging = [
            leg.integrator.multiplier_lag if self._solved_multipliers(k) is not None else 0.0
            for k, leg in enumerate(self.legs)
        ]
        if not any(lagging):
            return self.t
        # The steps that end at a saved time are equal since the one saved before it.
        span = np.diff(self.elapsed, prepend=0.0)
        step = span / np.maximum(np.ceil(span / self.dt * (1 - 1e-9)), 1.0)
        return self.t - np.array(lagging)[self.leg] * step

    def at(self, times: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) at any times of the run [s], to the order of the method, constraints holding.

        Needs a run that saved every step, ``save="steps"``. At the time of an event that changes
        the state it is the one before.
        """
        times = np.atleast_1d(array("at", "times", times))
        if self.stats["saved"] != "steps":
            raise ValueError(
                "at: this run did not save every step, so there is nothing to interpolate between. "
                'Run it with save="steps", or give the times as save.'
            )
        if times.ndim != 1 or not np.all((times >= self.t[0]) & (times <= self.t[-1])):
            raise ValueError(
                f"at: times must be a vector within the run, {self.t[0]:g} s to {self.t[-1]:g} s."
            )
        q, v = np.empty((times.size, self.q.shape[1])), np.empty((times.size, self.v.shape[1]))
        times = self.clock.ticks(times)
        for begin, end in self._stretches:
            ts = self._ticks[begin:end]
            inside = np.flatnonzero((times > ts[0]) & (times <= ts[-1]))
            if begin == 0:
                inside = np.flatnonzero((times >= ts[0]) & (times <= ts[-1]))
            if not inside.size:
                continue
            if ts.size == 1:
                q[inside], v[inside] = self.q[begin], self.v[begin]
                continue
            first = np.clip(np.searchsorted(ts, times[inside], side="left") - 1, 0, ts.size - 2)
            leg = self.legs[int(self.leg[begin])]
            states = self.q[begin:end], self.v[begin:end]
            q[inside], v[inside] = interpolate(leg, ts, *states, times[inside], first, self.clock)
        return q, v

    def sampled(self, times: ArrayLike) -> Result:
        """The same run at other times [s], by `at`: a result with quantities, plots and tables.

        Its accelerations and multipliers are computed anew from the states.
        """
        times = np.atleast_1d(array("sampled", "times", times))
        if times.size < 1 or np.any(np.diff(times) < 0):
            raise ValueError("sampled: times must be one or more, in rising order. Sort them.")
        return sampled(self, times)

    @cached_property
    def _stretches(self) -> list[tuple[int, int]]:
        """Where the motion is smooth: (first, last + 1) of the states between jumps and legs."""
        ticks = self._ticks
        new = (np.diff(ticks) <= 0) | (np.diff(self.leg) != 0)
        cuts = [0, *(np.flatnonzero(new) + 1).tolist(), self.t.size]
        out = []
        for begin, end in itertools.pairwise(cuts):
            # a change of method goes on from the last state of the one before
            joined = begin > 0 and ticks[begin] > ticks[begin - 1]
            out.append((begin - 1 if joined else begin, end))
        return out

    @property
    def condition(self) -> np.ndarray:
        """Condition number of the Newton matrix of each saved step; zero where not asked for."""
        out = np.zeros_like(self.t)
        for k, solved in enumerate(self.solved):
            if solved is not None:
                out[self.leg == k] = solved.condition
        return out

    def drift(self, norm: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        """(|g|, |g'|) at every saved state, by default the largest component."""
        if not isinstance(norm, float | int) or norm not in (1, 2, np.inf):
            raise ValueError(f"drift: norm={shown(norm)} is not known. Use 1, 2 or numpy.inf.")
        if norm == np.inf:
            return self._numbers[3], self._numbers[4]
        size = lambda x: np.linalg.norm(x, ord=norm, axis=1) if x.shape[1] else _largest(x)  # noqa: E731
        position, rate = self._each(lambda here: [size(here.g), size(here.rate)])
        return position, rate

    @cached_property
    def energy(self) -> Energy:
        """Kinetic and potential energy, and the work of forces without a potential [J].

        What an event changes at once, such as an impact, counts as work.

        The work is integrated between the saved states as well, where Simpson's rule over them
        is not fine enough: what the balance is off is the error of the solution, unless states
        are saved so far apart that a polynomial through them misses the motion.
        """
        kinetic, potential, power = self._numbers[:3]
        spent, done = np.zeros_like(power), 0.0
        total = kinetic + potential
        for begin, end in self._stretches:
            if begin and self._ticks[begin] == self._ticks[begin - 1]:
                done += total[begin] - total[begin - 1]  # what an event took, or gave
            if end - begin > 1:
                leg, at = self.legs[int(self.leg[end - 1])], slice(begin, end)
                states = self._ticks[at], self.q[at], self.v[at]
                part = work(leg, self.clock, *states, power[at], total[at])
                spent[begin:end], done = done + part, done + part[-1]
            else:
                spent[begin:end] = done
        return Energy(kinetic, potential, spent)

    def momentum(self, about: ArrayLike = (0.0, 0.0, 0.0)) -> tuple[np.ndarray, np.ndarray]:
        """(linear, angular) momentum of all bodies, the angular one about the point `about`."""
        return total_momentum(self._mechanism("momentum"), self.q, self.v, about)

    def __getitem__(self, name: str) -> Any:
        """The motion of the body `name`."""
        mechanism = self._mechanism("the motion of a body")
        return body_motion(mechanism, name, self.q, self.v, lambda: self.a)

    def beam(self, name: str) -> BeamMotion:
        """The shape, strains and section forces of a beam over time."""
        return beam_motion(self._mechanism("a beam"), name, self.q, self.v)

    def body(self, name: str) -> BodyMotion:
        """The motion of the body `name`, as ``result["crank"]``."""
        return self[name]

    def joint(self, name: str) -> JointHistory:
        """What a joint or driver did: its `angle`, `rate`, `slide`, `reaction`, ..., over time."""
        return joint_history(self._named, self._mechanism("a joint"), name)

    def force(self, name: str) -> ForceHistory:
        """What a force did: its `length`, `rate`, `force`, `torque`, `power`, over time."""
        return force_history(self._named, self._mechanism("a force"), name)

    def state(self, name: str) -> np.ndarray:
        """A state of first order over time, (n,) or (n, components): one of `Model.state`, or
        ``"servo.integrated"`` and ``"servo.current"`` of a motor that has such."""
        known = self._mechanism("a state").states_by_name()
        if name not in known:
            raise KeyError(unknown_name("state", "state", name, known))
        return self.quantity(name)

    def quantity(self, name: str) -> np.ndarray:
        """Any quantity by its name, over time: (n,), or (n, components) for a vector.

        ``"crank.position"``, ``"crank.velocity.x"``, ``"A.angle"``, ``"spring.force"``,
        ``"A.reaction.force"``, ``"energy.total"``, or the name of an output; `quantities` lists
        them. Angles go on over turns.
        """
        return self._named.values("quantity", name)

    def quantities(self) -> dict[str, str]:
        """The names that `quantity` knows, each with its unit."""
        return self._named.units()

    def plot(
        self,
        *names: str,
        x: str | None = None,
        y: str | Sequence[str] | None = None,
        title: str = "",
    ) -> Any:
        """A matplotlib figure of named quantities; save it with `figure.savefig(path)`.

        ``plot("A.angle", "spring.force")`` draws them over time, a panel for each unit; a body
        stands for its position, a joint for what it leaves free, a force for what it gives,
        ``"energy"`` and ``"drift"`` for all of theirs. ``plot(x="A.angle", y="A.rate")`` draws one
        over the other, and ``plot()`` the mechanism, its motion, energy and drift, as `hx.plot`.
        Curves of a run that saved its steps are drawn from its dense output.
        """
        from .. import view

        if not names and x is None and y is None:
            return view.plot(self, title=title)
        return view.curves(self, names, x=x, y=y, title=title)

    def to_dataframe(self, *names: str) -> Any:
        """Quantities as a `pandas.DataFrame` over the time: those named, as for `plot`, or all."""
        return dataframe(self, names)

    def to_xarray(self, *names: str) -> Any:
        """Quantities as an `xarray.Dataset` over the time, with units: those named, or all."""
        return dataset(self, names)

    def save(self, path: str | Path, *names: str) -> Path:
        """Write quantities, those named or all, to a file: netCDF (.nc), .csv or .parquet.

        A netCDF file has their units, how the run went and, where it has no functions, the model;
        `hx.load_result` reads it, and so do xarray and other programs.
        """
        return save(self, path, names)

    @cached_property
    def _named(self) -> Registry:
        return Registry(self)

    def reaction(self, joint: str, axes: Literal["world", "joint"] = "world") -> Reaction:
        """Force [N] and torque [N m] that the joint applies to its second body, over time.

        The torque is about the joint's point on that body. `axes` are the world's, or the
        joint's own, fixed in its first body.
        """
        mechanism = self._mechanism("a reaction")
        mechanism.check_joint(joint, axes)  # before multipliers are computed
        lam = self._accelerations[1] if self.t_lam is not self.t else self.lam
        return reaction(mechanism, joint, self._times, self.q, lam, axes)

    def _mechanism(self, what: str) -> Mechanism:
        if not isinstance(self.system, Mechanism):
            raise TypeError(
                f"{what} needs a mechanism made with hx.Model; this result belongs to a "
                f"{type(self.system).__name__}, which knows coordinates only (use result.q)."
            )
        return self.system

    def __str__(self) -> str:
        energy = self.energy
        position, rate = self.drift()
        status = "success" if self.success else "FAILED"
        scale = max(abs(energy.total[0]), float(np.max(np.abs(energy.kinetic))), 1e-300)
        lines = [
            f"holonax result: {status}, {self.message}",
            f"  method      {'; '.join(self._methods())}, dt = {self.dt:g} s",
            *self._tolerance(),
            f"  saved       {self.t.size} states, t = {self.t[0]:g} ... {self.t[-1]:g} s",
            f"  size        {self._size()}",
            f"  drift       |g| <= {np.max(position, initial=0):.2e}, "
            f"|g'| <= {np.max(rate, initial=0):.2e}",
            f"  energy      {energy.total[0]:.6g} -> {energy.total[-1]:.6g} J, balance off by "
            f"{np.max(np.abs(energy.balance)) / scale:.1e} of the largest",
            f"  cost        {self._cost()}",
            *(f"  chosen      {choice}" for choice in self.choices),
        ]
        return "\n".join(lines)

    def _size(self) -> str:
        """How much was solved for."""
        nq, states = self.q.shape[1], self.system.states(self.v.shape[1]).size
        more = f", {states} states" if states > 1 else ", 1 state" if states else ""
        own = nq - self.system.carriers(nq).size
        return f"{own} coordinates{more}, {self.lam.shape[1]} constraint rows"

    def _tolerance(self) -> list[str]:
        """What was asked of the error of a step."""
        if "rtol" not in self.stats:
            return []
        longest = self.stats["dt_max"]
        limit = f", steps of {longest:g} s at most" if np.isfinite(longest) else ""
        return [f"  tolerance   rtol = {self.stats['rtol']:g}, atol = {self.stats['atol']}{limit}"]

    def _cost(self) -> str:
        """What was waited for: building, compiling and running apart."""
        spent, compiling = self.stats["wall_time"], self.stats.get("compile_time", 0.0)
        parts = [f"{self.stats['steps']} steps in {max(spent - compiling, 0.0):.3g} s"]
        if self.stats["compiled"]:
            parts.append(f"compiled in {compiling:.2g} s")
        elif compiling > 0:
            parts.append(f"programs read in {compiling:.2g} s")
        if self.stats.get("build_time", 0.0) > 0:
            parts.append(f"start found in {self.stats['build_time']:.2g} s")
        return ", ".join(parts)

    def _methods(self) -> list[str]:
        """The methods used, each once."""
        names = [f"{x.formulation!r} with {type(x.integrator).__name__}" for x in self.legs]
        return list(dict.fromkeys(names))

    def __repr__(self) -> str:
        return f"<Result: {self.message}>"

    def _repr_html_(self) -> str:
        """For notebooks: a picture of the mechanism and its motion, if it can be drawn, and how the
        run went."""
        from html import escape

        from .. import view

        return f"{view.inline(self)}<pre>{escape(str(self))}</pre>"
