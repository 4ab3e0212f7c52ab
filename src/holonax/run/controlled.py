"""Runs with controllers that sample: Python code that is called at a rate, on the host.

At each sample a controller is given named quantities of the present state and sets named parameters
of forces, which keep their values until the next one. Between samples the run is that of any other
mechanism, by the same compiled programs; each sample is a break, where the method begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._arguments import check_options, checked_call, names, several
from .._messages import explained, listed, shown, unknown_name
from .._numbers import finite_number, real
from ..compiler import native
from ..result.result import Result
from ..start.consistent import Start
from ..system.clock import Clock
from ..system.mechanism import Mechanism
from ..system.quantities import Quantity
from ..system.situation import Recorded
from .simulate import simulate

if TYPE_CHECKING:
    from jax import Array
    from numpy.typing import ArrayLike

    from ..system.base import System
    from .auto import Choice

_NOT_HERE = ("checkpoint", "checkpoint_every", "store", "progress")


@dataclass(frozen=True, init=False)
class Controller:
    """Python code that is called at a rate, reads quantities and sets parameters of forces.

    **Arguments:**

    - `function`: ``function(t, values)`` with the time [s] and a dictionary of the `inputs`,
      numbers or arrays; it returns a number for each of the `outputs` (one alone as it is), or a
      dictionary. Any Python code will do, with memory of its own if need be.
    - `period`: the time from one sample to the next [s]; the first is at the start of the run.
    - `inputs`: names of quantities, such as ``"A.angle"``; `Model.quantities` lists them.
    - `outputs`: names of parameters of forces, such as ``"motor.command"``.
    """

    function: Callable[[float, dict[str, Any]], Any]
    period: float
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __init__(
        self,
        function: Callable[[float, dict[str, Any]], Any],
        *,
        period: float,
        inputs: Sequence[str] | str,
        outputs: Sequence[str] | str,
    ):
        if not callable(function):
            raise TypeError(
                f"Controller: {shown(function)} is not a function. Give one of (t, values)."
            )
        said = {
            "function": function,
            "period": finite_number("Controller", "period", period, positive=True),
            "inputs": names("Controller", "inputs", inputs),
            "outputs": names("Controller", "outputs", outputs),
        }
        if not said["outputs"]:
            raise ValueError("Controller: outputs is empty. Name a parameter that it sets.")
        for name, value in said.items():
            object.__setattr__(self, name, value)


class _Trouble(Exception):
    """Why a controller cannot be used, as a sentence."""


class _Loop:
    """Controllers at work on a mechanism."""

    def __init__(self, system: Mechanism, controllers: tuple[Controller, ...]):
        self.system, self.controllers = system, controllers
        self.outputs = tuple(name for c in controllers for name in c.outputs)
        self.values = np.zeros(len(self.outputs))
        self._inputs: dict[str, Quantity] = {}
        self._check()

    def _check(self) -> None:
        known = self.system.parameters()
        forces = {x for group in self.system.bodies.forces for x in group.names}
        able = [x for x, y in known.items() if x.partition(".")[0] in forces and np.ndim(y) == 0]
        for name in self.outputs:
            if name not in able:
                raise KeyError(unknown_name("Controller", "parameter of a force", name, able))
            if self.outputs.count(name) > 1:
                raise ValueError(f"Controller: {name!r} is set twice. Leave one out.")
        for name in (x for c in self.controllers for x in c.inputs):
            self._inputs[name] = self.system.named_quantity("Controller", name)
        self.values = np.array([float(known[name]) for name in self.outputs])

    def sample(self, due: list[Controller], t: float, q: np.ndarray, v: np.ndarray) -> Mechanism:
        """The mechanism with what the controllers that are due have set."""
        state = np.atleast_1d(t), np.atleast_2d(q), np.atleast_2d(v)
        now = Recorded(self._now().bodies, *state)
        for controller in due:
            given = {x: self._inputs[x].over(now)[0] for x in controller.inputs}
            given = {x: float(y) if np.ndim(y) == 0 else y for x, y in given.items()}
            try:
                returned = controller.function(t, given)
            except Exception as error:
                raise _Trouble(f"a controller fails: {explained(error)}") from error
            for name, value in zip(controller.outputs, _numbers(controller, returned), strict=True):
                self.values[self.outputs.index(name)] = value
        return self._now()

    def _now(self) -> Mechanism:
        return _with(self.system, self.outputs, self.values)


@native(once=True, static=(1,))
def _with(system: Mechanism, outputs: tuple[str, ...], values: Array) -> Mechanism:
    return system.with_parameters({name: values[k] for k, name in enumerate(outputs)})


def _numbers(controller: Controller, returned: Any) -> np.ndarray:
    """What a controller has returned, a number for each of its outputs."""
    wanted = f"a finite number for each of {listed(controller.outputs)}"
    if isinstance(returned, Mapping):
        if set(returned) != set(controller.outputs):
            raise _Trouble(f"a controller returns {shown(dict(returned))}; return {wanted}")
        returned = [returned[name] for name in controller.outputs]
    found = real(returned)
    found = np.zeros(0) if found is None else np.atleast_1d(found)
    if found.shape != (len(controller.outputs),) or not np.all(np.isfinite(found)):
        raise _Trouble(f"a controller returns {shown(returned)}; return {wanted}")
    return found


@checked_call
def simulate_controlled(
    system: Mechanism,
    start: Start,
    t_end: float,
    controllers: Controller | Sequence[Controller],
    **options: Any,
) -> Result:
    """Simulate a mechanism with controllers that are called at their rates, between the steps.

    `start` is from `model.build()`; `options` are those of `simulate`, without checkpoints and
    progress; `save` is ``"steps"`` or an array of times. ``model.simulate(..., controllers=...)``
    does the same. What a controller sets is a quantity of the result, by its name. A controller
    that fails in the middle ends the run, and all states before it are returned.
    """
    given = (controllers,) if isinstance(controllers, Controller) else controllers
    made = several("simulate_controlled", "controllers", given, "hx.Controller(...)")
    _check_given(system, start, made, options)
    t_end = finite_number("simulate_controlled", "t_end", t_end)
    save = options.pop("save", "steps")
    times = None if isinstance(save, str) and save == "steps" else _times(save)
    loop, began = _Loop(system, made), time.perf_counter()
    found, trouble = _segments(loop, start, t_end, options)
    result = _joined(loop, start, found, trouble, time.perf_counter() - began)
    if times is None:
        return result
    return result.sampled(times[(times >= start.t) & (times <= result.t[-1])])


def _check_given(
    system: System, start: Start, controllers: tuple[Controller, ...], options: Any
) -> None:
    if not isinstance(system, Mechanism) or system.origin is None:
        raise TypeError(
            "simulate_controlled: controllers set parameters by name, which a mechanism made with "
            f"hx.Model has; system={shown(system)} is none."
        )
    if not isinstance(start, Start):
        raise TypeError(
            f"simulate_controlled: start={shown(start)} is not a start. Give what model.build() or "
            "hx.consistent(...) returns."
        )
    for item in controllers:
        if not isinstance(item, Controller):
            raise TypeError(
                f"simulate_controlled: {shown(item)} among the controllers must be an "
                "hx.Controller(...)."
            )
    if not controllers:
        raise ValueError("simulate_controlled: there are no controllers. Use simulate.")
    check_options(simulate_controlled, options, simulate)
    for name in _NOT_HERE:
        if name in options:
            raise TypeError(
                f"simulate_controlled: {name} is not for runs with controllers, whose memory no "
                "file holds. Leave it out."
            )


def _times(save: ArrayLike) -> np.ndarray:
    found = None if isinstance(save, str | int) else real(save)
    times = np.zeros(0) if found is None else np.atleast_1d(found)
    if (
        times.ndim != 1
        or times.size == 0
        or np.any(~np.isfinite(times))
        or np.any(np.diff(times) < 0)
    ):
        raise ValueError(
            f'simulate_controlled: save={shown(save)} must be "steps" or an array of rising times '
            "[s]."
        )
    return times


def _segments(loop: _Loop, start: Start, t_end: float, options: Any) -> tuple[list[Result], str]:
    """The runs from sample to sample, and what ended them before the end."""
    done: list[Result] = []
    t, q, v = start.t, np.asarray(start.q), np.asarray(start.v)
    taken = [0] * len(loop.controllers)  # samples of each

    def at(i: int) -> float:
        return start.t + taken[i] * loop.controllers[i].period

    near = 1e-9 * min(c.period for c in loop.controllers)  # samples so near are at one time
    while True:
        due = [i for i in range(len(taken)) if at(i) <= t + near]
        try:
            system = loop.sample([loop.controllers[i] for i in due], t, q, v)
        except _Trouble as trouble:
            if not done:
                raise ValueError(f"simulate_controlled: {trouble}") from trouble.__cause__
            return done, str(trouble)
        for i in due:
            taken[i] += 1
        end = min([t_end, *(at(i) for i in range(len(taken)))])
        end = t_end if t_end - end < near else end
        part = simulate(system, replace(start, t=t, q=q, v=v), end, **options)
        done.append(part)
        if part.status != "end" or end >= t_end:
            return done, ""
        t, q, v = float(part.t[-1]), part.q[-1], part.v[-1]


def _joined(loop: _Loop, start: Start, parts: list[Result], trouble: str, seconds: float) -> Result:
    """All segments as one result; at each sample both states are there."""
    last, legs, solved, numbers = parts[-1], [], [], []
    for part in parts:
        numbers.append(part.leg + len(legs))
        legs += part.legs
        solved += part.solved
    t = np.concatenate([part.t for part in parts])
    inner = np.concatenate([[part.t[0] for part in parts[1:]], *(p.clock.breaks for p in parts)])
    clock = Clock(0.0, np.unique(inner))
    steps = sum(part.stats["steps"] for part in parts)
    message = last.message if trouble else _retold(last, steps, len(parts))
    if trouble:
        message = f"stopped at t = {t[-1]:g} s after {steps} steps: {trouble}. All states before it"
        message += " are returned"
    counted = ("steps", "rejected", "compile_time")
    return replace(
        last,
        system=loop.system,
        start=start,
        t=t,
        q=np.concatenate([part.q for part in parts]),
        v=np.concatenate([part.v for part in parts]),
        leg=np.concatenate(numbers),
        legs=tuple(legs),
        solved=tuple(solved),
        success=last.success and not trouble,
        status="controller" if trouble else last.status,
        message=message,
        events=[event for part in parts for event in part.events],
        choices=_changes([choice for part in parts for choice in part.choices]),
        clock=clock,
        ticks=None,
        stats={
            **last.stats,
            **{name: sum(part.stats[name] for part in parts) for name in counted},
            "compiled": any(part.stats["compiled"] for part in parts),
            "dt": (t[-1] - t[0]) / max(steps, 1),
            "wall_time": seconds,
            "build_time": start.seconds,
            "samples": len(parts),
            "controlled": loop.outputs,
        },
    )


def _changes(choices: list[Choice]) -> list[Choice]:
    """Those that chose something else than the one before."""
    out: list[Any] = []
    for choice in choices:
        if not out or str(choice).partition(" s ")[2] != str(out[-1]).partition(" s ")[2]:
            out.append(choice)
    return out


def _retold(last: Result, steps: int, samples: int) -> str:
    """What the last segment says, with the steps of all."""
    said = last.message.replace(f"{last.stats['steps']} steps", f"{steps} steps", 1)
    return f"{said}, {samples} samples of controllers"
