"""Motors: the torque or force that turns or moves a joint, by command and by feedback, in limits.

With x the joint's angle or displacement and r the target, the motor gives

    u = command + proportional (r - x) + derivative (r' - x') + z

within its limits. r' follows from r by differentiation. z is what the integral of the error gives,
a state of first order (see `system/first_order.py`), with what is beyond a limit fed back against
windup (Åström, Hägglund, Advanced PID Control, 2006, Section 3.5):

    z' = integral (r - x) - (u - u within the limits) / tracking_time

With a resistance, u is the voltage of a DC motor with the torque k i:

    inductance i' = u - resistance i - k x'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from .._arguments import choice
from .._modules import Module
from .._numbers import as_array, is_traced
from ..system.elements import Force
from ..system.first_order import carried, rate_wrench
from ..system.quantities import planar_turn, slid, slide_rate, turn_rate, turned
from . import force_checks as checks
from .attachment import Attached, Attachment
from .drivers import Target
from .expressions import checked_parameters, function_of
from .force_items import ForceItem
from .items import ModelError, OnJoint, record
from .joint import wrapped

if TYPE_CHECKING:
    from jax import Array

    from ..rotation.vectors import Scalar
    from ..system.frames import PlanarFrame


class Winding(Module):
    """The electrical side of a DC motor; without inductance its current follows at once."""

    constant: Any
    resistance: Any
    inductance: Any
    has_state: bool = eqx.field(static=True)

    def current(self, voltage: Scalar, rate: Scalar) -> Array:
        """Where there is no inductance."""
        return (voltage - self.constant * rate) / self.resistance

    def change(self, voltage: Any, rate: Any, current: Any) -> Any:
        """i'."""
        return (voltage - self.resistance * current - self.constant * rate) / self.inductance


class MotorLaw(Module):
    """What a motor gives at (t, x, x'); `limit` and `speed` are None where there are none, and so
    are `integral` and the rate `untied` at which windup is undone."""

    proportional: Any
    derivative: Any
    integral: Any
    untied: Any
    command: Any
    limit: Any
    speed: Any
    parameters: Any
    target: Target | None
    winding: Winding | None
    function: Callable[..., Any] | None = eqx.field(static=True)
    smooth: bool = eqx.field(static=True)
    limited: bool = eqx.field(static=True)
    slowed: bool = eqx.field(static=True)
    circular: bool = eqx.field(static=True)

    def answer(
        self, t: Array, x: Scalar, rate: Scalar, states: Sequence[Any]
    ) -> tuple[Any, list[Any]]:
        """The torque or force, and the rates of its states: that of the integral, that of the
        current, as far as there are such."""
        given, changes, left = self.wanted(t, x, rate), [], list(states)
        if self.integral is not None:
            given = given + left.pop(0)
            changes.append(self.integral * self.error(t, x) - self.excess(given, rate))
        given = self.within(given, rate)
        if self.winding is None:
            return given, changes
        if not self.winding.has_state:
            return self.winding.constant * self.winding.current(given, rate), changes
        current = left.pop(0)
        changes.append(self.winding.change(given, rate, current))
        return self.winding.constant * current, changes

    def error(self, t: Array, x: Array) -> Any:
        """What is missing to the target."""
        assert self.target is not None
        error = self.target(jnp.asarray(t, dtype=float)) - x
        return wrapped(error) if self.circular else error

    def excess(self, wanted: Array, rate: Array) -> float | Array:
        """What takes the integral back beyond a limit; that has corners, smooth as it may be."""
        if not self.limited:
            return 0.0
        return (wanted - self._clipped(wanted, rate)) * self.untied

    def wanted(self, t: Array, x: Array, rate: Array) -> Any:
        """What it would give without limits and without states."""
        total = self.command
        if self.function is not None:
            own = () if self.parameters is None else (self.parameters,)
            total = total + jax.vmap(partial(self.function, t))(x, rate, *own)
        if self.target is None:
            return total
        t = jnp.asarray(t, dtype=float)
        goal, pace = jax.jvp(self.target, (t,), (jnp.ones_like(t),))
        error = goal - x
        error = wrapped(error) if self.circular else error
        return total + self.proportional * error + self.derivative * (pace - rate)

    def within(self, wanted: Scalar, rate: Scalar) -> Array:
        """What is wanted within its limits."""
        if not self.limited:
            return wanted
        if self.smooth:
            wanted = self.limit * jnp.tanh(wanted / self.limit)
        return wanted if self.smooth and not self.slowed else self._clipped(wanted, rate)

    def _clipped(self, wanted: Array, rate: Array) -> Array:
        if not self.slowed:
            return jnp.clip(wanted, -self.limit, self.limit)
        share = rate / self.speed
        most, least = self.limit * (1 - share), -self.limit * (1 + share)
        return jnp.clip(wanted, jnp.minimum(least, 0.0), jnp.maximum(most, 0.0))


class TurningMotor(Force):
    """About the axis n of the first body; in the plane without one."""

    place: dict[str, Any]
    n: Any
    law: MotorLaw

    def wrenches(
        self, a: PlanarFrame, b: PlanarFrame, *carriers: Any, t: Array
    ) -> list[tuple[Any, Any]]:
        angle = (planar_turn if self.n is None else turned)(a, b, **self.place)
        states = [carried(x) for x in carriers]
        torque, rates = self.law.answer(t, angle, turn_rate(a, b, n=self.n), states)
        torque = torque if self.n is None else (a.A @ self.n) * torque
        return [a.couple(-torque), b.couple(torque), *map(rate_wrench, carriers, rates)]


class SlidingMotor(Force):
    """Along the direction u of the first body, on the point q of the second."""

    place: dict[str, Any]
    law: MotorLaw

    def wrenches(
        self, a: PlanarFrame, b: PlanarFrame, *carriers: Any, t: Array
    ) -> list[tuple[Any, Any]]:
        q, u = self.place["q"], self.place["u"]
        x, states = slid(a, b, **self.place), [carried(x) for x in carriers]
        size, rates = self.law.answer(t, x, slide_rate(a, b, q=q, u=u), states)
        force = (a.A @ u) * size
        under = a.A.T @ (b.point(q) - a.r)  # the point of a where q is now
        return [a.load(-force, under), b.load(force, q), *map(rate_wrench, carriers, rates)]


@record("motor", "motor")
class Motor(OnJoint, ForceItem):
    """A motor on a joint that turns (a torque) or slides (a force), with feedback and limits.

    **Arguments:**

    - `joint`: the name of a revolute or prismatic joint, or of one that does one of both.
    - `command`: what it is told to give [N m] or [N], a number, a function of (t, angle or
      displacement, its rate), or an expression of t, angle or slide, and rate; zero unless given.
    - `target`: the angle [rad] or displacement [m] to go to, from where the model was described: a
      number, a function of time such as `hx.Table(..., kind="cubic")`, or an expression of t.
    - `proportional` [N m/rad] or [N/m], `derivative` [N m s/rad] or [N s/m]: the gains of a PD
      controller for that target, and for its rate.
    - `integral` [N m/(rad s)] or [N/(m s)]: the gain of a PID controller, for the integral of the
      error over time. What it gives is the state ``"name.integrated"`` of results.
    - `tracking_time` [s]: how fast the integral lets go while the motor is at its limit, so that it
      does not wind up; proportional / integral unless given.
    - `limit`: the largest torque or force, of either sign. `no_load_speed` [rad/s] or [m/s]: in the
      sense of motion the limit falls to zero at that speed, as that of a DC motor.
    - `constant` [N m/A] or [N/A], `resistance` [ohm] and `inductance` [H]: of a DC motor. All of
      the above is then its voltage [V]: command, what the gains give, and `limit`. Its current is
      the state ``"name.current"``; without inductance it follows the voltage at once.
    - `saturation`: ``"exact"``, or ``"smooth"`` for limit * tanh(u / limit).
    - `parameters`: numbers or arrays in any nesting, which the functions `command` and `target` are
      given as their last argument: other values compile nothing again, as those of the gains.

    Between spatial bodies the angle is known up to whole turns, and the controller takes the
    shorter way to its target.
    """

    touches: ClassVar[tuple[str, ...]] = ()
    functions: ClassVar[tuple[str, ...]] = ("command", "target")
    needs = ("turn", "slide")
    verb = "drive"

    joint: str
    _: KW_ONLY
    command: Any = 0.0
    target: Any = None
    proportional: float = 0.0
    derivative: float = 0.0
    integral: float | None = None
    tracking_time: float | None = None
    limit: float | None = None
    no_load_speed: float | None = None
    constant: float | None = None
    resistance: float | None = None
    inductance: float | None = None
    saturation: Literal["exact", "smooth"] = "exact"
    parameters: Any = None

    def own_states(self) -> dict[str, float]:
        names = (("integral", "integrated"), ("inductance", "current"))
        return {f"{self.name}.{x}": 0.0 for gain, x in names if getattr(self, gain) is not None}

    def state_unit(self, state: str) -> str:
        if state.endswith(".current"):
            return "A"
        return "V" if self.resistance is not None else ""

    def attach(self, there: Attachment) -> Attached:
        joint = self.on(there.joints)
        assert joint is not None
        free = joint.item.free
        if len([x for x in free if x in self.needs]) != 1:
            raise ModelError(
                f"{self.owner}: {self.joint!r} is a {joint.item.noun}, which slides and turns. "
                "Name a joint that does one of both."
            )
        turns = "turn" in free
        law = self._law(there, turns, circular=turns and not there.is_planar)
        places = {"point_a": joint.point_a, "point": joint.point}
        axes = {"axes": joint.axes, "axes_b": joint.axes_b}
        first, second = there.bodies
        if not turns:
            u = joint.axes[:, 0 if there.is_planar else 2]
            start = u @ (there.seen_from_first(joint.point) - joint.point_a)
            p, q = there.arm(0, joint.point_a), there.arm(1, joint.point)
            place = {"p": p, "q": q, "u": there.components(u), "start": as_array(start)}
            made: Force = SlidingMotor(place, law)
        elif there.is_planar:
            made = TurningMotor({"start": as_array(second.angle - first.angle)}, None, law)
        else:
            e1, e2, n = (there.components(x) for x in joint.axes.T)
            f1 = there.components(joint.axes_b[:, 0])
            made = TurningMotor({"e1": e1, "e2": e2, "f1": f1}, n, law)
        return there.attached([made], **places, **axes, measures=("turn" if turns else "slide",))

    def _law(self, there: Attachment, turns: bool, *, circular: bool) -> MotorLaw:
        owner = self.owner
        choice(owner, "saturation", self.saturation, ("exact", "smooth"), error=ModelError)
        if self.no_load_speed is not None and self.limit is None:
            raise ModelError(f"{owner}: no_load_speed needs a limit, which falls to zero there.")
        own = checked_parameters(owner, self.parameters) if self.parameters is not None else None
        seen = ("t", "angle", "rate") if turns else ("t", "slide", "rate")
        told = function_of(owner, "command", self.command, seen, self.parameters)
        functions = [x for x in (told, self.target) if callable(x) or isinstance(x, str)]
        if own is not None and not functions:
            raise ModelError(
                f"{owner}: parameters are for functions, and neither command nor target is one. "
                "Leave them out."
            )
        function, command = None, told
        if callable(command):
            function, command = command, 0.0
            scalar = jax.ShapeDtypeStruct((), jnp.float64)
            given = (scalar,) * 3 if own is None else (*(scalar,) * 3, own)
            checks.check_shape(owner, "command", function, given, ())
        target = None
        if self.target is not None:
            number = not callable(self.target) and not isinstance(self.target, str)
            shared = None if number else self.parameters
            target = Target.of(there, "target", self.target, 0.0, parameters=shared)
            target = Target(as_array(target.offset), target.parameters, target.function)
        elif _some(self.proportional) or _some(self.derivative) or self.integral is not None:
            raise ModelError(
                f"{owner}: its gains need a target. Give target= (a number or a function of time), "
                "or a spring and damper instead."
            )
        return MotorLaw(
            proportional=as_array(checks.not_negative(owner, "proportional", self.proportional)),
            derivative=as_array(checks.not_negative(owner, "derivative", self.derivative)),
            integral=self._gain("integral"),
            untied=self._untied(),
            command=as_array(there.number("command", command)),
            limit=self._positive("limit"),
            speed=self._positive("no_load_speed"),
            parameters=own if function is not None else None,
            target=target,
            winding=self._winding(),
            function=function,
            smooth=self.saturation == "smooth",
            limited=self.limit is not None,
            slowed=self.no_load_speed is not None,
            circular=circular,
        )

    def _gain(self, what: str) -> Any:
        value = getattr(self, what)
        return None if value is None else as_array(checks.not_negative(self.owner, what, value))

    def _untied(self) -> Any:
        """The rate at which windup is undone; None where there is none."""
        if self.integral is None or self.limit is None:
            if self.tracking_time is not None:
                raise ModelError(
                    f"{self.owner}: tracking_time is for an integral that a limit winds up. Give "
                    "integral= and limit=, or leave it out."
                )
            return None
        if self.tracking_time is not None:
            return 1.0 / self._positive("tracking_time")
        gain, own = self._gain("proportional"), self._gain("integral")
        if not is_traced(gain) and gain == 0:
            raise ModelError(
                f"{self.owner}: its integral would wind up at the limit, and without a "
                "proportional gain nothing says how fast to undo that. Give tracking_time= [s]."
            )
        return own / gain

    def _winding(self) -> Winding | None:
        owner, given = self.owner, (self.constant, self.resistance, self.inductance)
        if all(x is None for x in given):
            return None
        for what in ("constant", "resistance"):
            if getattr(self, what) is None:
                raise ModelError(
                    f"{owner}: {what} is missing. A DC motor needs constant= and resistance=, and "
                    "inductance= where its current takes time."
                )
        if self.no_load_speed is not None:
            raise ModelError(
                f"{owner}: the speed of a DC motor is limited by its voltage. Leave no_load_speed "
                "out; limit= is the largest voltage."
            )
        constant, resistance, inductance = map(
            self._positive, ("constant", "resistance", "inductance")
        )
        return Winding(constant, resistance, inductance, self.inductance is not None)

    def _positive(self, what: str) -> Any:
        """A limit; None where there is none."""
        value = getattr(self, what)
        if value is None:
            return None
        x = checks.not_negative(self.owner, what, value)
        if not is_traced(x) and x == 0:
            raise ModelError(f"{self.owner}: {what} is zero. Give a positive number, or none.")
        return as_array(x)


def _some(x: object) -> bool:
    return not is_traced(x) and x != 0.0
