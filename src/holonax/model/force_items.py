"""The forces a `Model` offers: each a record of what was said, and the element it becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._arguments import choice
from .._messages import listed, shown
from .._numbers import as_array, is_traced, namespace
from ..rotation import Axes3
from . import force_checks as checks
from . import forces, friction
from .attachment import Attached, Attachment
from .bodies import rotation_matrix
from .expressions import checked_parameters, extra, frame_function
from .items import Connector, ModelError, OnJoint, PointPair, record

if TYPE_CHECKING:
    from ..rotation.vectors import Vec2, Vec3


@dataclass(frozen=True, repr=False)
class ForceItem(Connector):
    """A record of a force."""


@record("spring_damper", "spring-damper")
class SpringDamper(PointPair, ForceItem):
    """Spring, damper and actuator along the line between a point of `a` and one of `b` (TSDA).

    **Arguments:**

    - `at`: its ends, (world point on `a`, world point on `b`) in the initial configuration [m], or
      `at_a`, `at_b` in body coordinates; by default the bodies' origins.
    - `stiffness` [N/m], `damping` [N s/m].
    - `length`: free length [m]; by default the distance in the initial configuration.
    - `actuator`: a force [N] that pushes the ends apart, a number, a function of
      (t, length, speed) or an expression of these; its power is that force times the speed of
      lengthening.
    - `parameters`: numbers that the actuator's function is given last.
    """

    functions: ClassVar[tuple[str, ...]] = ("actuator",)
    measures = ("length",)

    _: KW_ONLY
    stiffness: float = 0.0
    damping: float = 0.0
    length: float | None = None
    actuator: Any = None
    parameters: Any = None

    def attach(self, there: Attachment) -> Attached:
        p, q = there.ends(self.at, self.at_a, self.at_b)
        if self.length is None:
            d = there.seen_from_first(q) - p
            rest = namespace(d).linalg.norm(d)
        else:
            rest = there.number("length", self.length)
        if not is_traced(rest) and rest < 0:
            raise ModelError(f"{self.owner}: length={rest} is negative. Give a length in metres.")
        law = checks.spring_law(
            self.owner,
            self.stiffness,
            self.damping,
            rest,
            self.actuator,
            x="length",
            parameters=self.parameters,
        )
        element = forces.SpringDamperForce(law, there.arm(0, p), there.arm(1, q))
        return there.attached([element], point=q, point_a=p)


@record("torsion_spring", "torsion spring")
class TorsionSpring(OnJoint, ForceItem):
    """Spring, damper and actuator that turn `b` against `a` about an axis (RSDA).

    **Arguments:**

    - `joint`: the joint (revolute, cylindrical or screw) it works about; or `a` and `b` and, in
      space, the `axis` (world, initial configuration) or `axis_a`, `axis_b` (body axes).
    - `stiffness` [N m/rad], `damping` [N m s/rad].
    - `angle`: free angle [rad]; by default the angle in the initial configuration.
    - `actuator`: a torque [N m] that turns `b` forward, a number, a function of
      (t, angle, speed) or an expression of these; its power is that torque times the speed.
    - `parameters`: numbers that the actuator's function is given last.

    The angle is that of `b` seen from `a`. In the plane it is the difference of the bodies' angles.
    In space it is zero in the initial configuration and lies between -pi and pi: the spring suits a
    hinge that stays within half a turn of it.
    """

    touches: ClassVar[tuple[str, ...]] = ("a", "b")
    needs = ("turn",)
    functions = ("actuator",)
    measures = ("turn",)
    verb = "turn"

    a: Any = None
    b: Any = None
    _: KW_ONLY
    joint: str | None = None
    axis: Any = None
    axis_a: Any = None
    axis_b: Any = None
    stiffness: float = 0.0
    damping: float = 0.0
    angle: float | None = None
    actuator: Any = None
    parameters: Any = None

    def attach(self, there: Attachment) -> Attached:
        joint = self.on(there.joints)
        first, second = there.bodies
        ta = tb = None
        if there.is_planar:
            there.refuse(axis=self.axis, axis_a=self.axis_a, axis_b=self.axis_b)
            start = second.angle - first.angle
        else:
            ta, tb = (
                there.axes(self.axis, self.axis_a, self.axis_b)
                if joint is None
                else (joint.axes, joint.axes_b)
            )
            f = first.rotation.T @ second.rotation @ tb[:, 0]
            start = namespace(f, ta).arctan2(ta[:, 1] @ f, ta[:, 0] @ f)
        rest = start if self.angle is None else there.number("angle", self.angle)
        law = checks.spring_law(
            self.owner,
            self.stiffness,
            self.damping,
            rest,
            self.actuator,
            x="angle",
            parameters=self.parameters,
        )
        if ta is None or tb is None:
            return there.attached([forces.PlanarTorsionSpring(law)])
        e1, e2, n, f1 = (there.components(x) for x in (*ta.T, tb[:, 0]))
        element = forces.TorsionSpringForce(law, e1, e2, n, f1)
        return there.attached([element], axes=ta, axes_b=tb)


@record("bushing", "bushing")
class Bushing(PointPair, ForceItem):
    """Elastic and viscous mounting between `a` and `b`: load = -K x - C x'.

    **Arguments:**

    - `at`: its place in the initial configuration [m, world], or `at_a`, `at_b` in body
      coordinates.
    - `axes`: its axes in the initial configuration, as a rotation matrix, quaternion or rotation
      vector; in the plane the direction of its first axis. By default the world's.
    - `stiffness`: K, 6x6 symmetric or its diagonal, [N/m] then [N m/rad]; in the plane 3x3.
    - `damping`: C likewise, [N s/m] then [N m s/rad]; by default none.

    x is the displacement of the mounting point of `b` from that of `a`, in the bushing's axes
    (which move with `a`), and the rotation vector of `b` against `a` from the initial
    configuration, below half a turn. The stored energy is x'K x / 2 whatever the rotation.
    """

    _: KW_ONLY
    axes: Any = None
    stiffness: Any
    damping: Any = None

    def attach(self, there: Attachment) -> Attached:
        points = there.points(self.at, self.at_a, self.at_b)
        size = 3 if there.is_planar else 6
        K = checks.semidefinite(self.owner, "stiffness", self.stiffness, size)
        damping = np.zeros(size) if self.damping is None else self.damping
        C = checks.semidefinite(self.owner, "damping", damping, size)
        first, second = there.bodies
        p, q = (there.arm(k, x) for k, x in enumerate(points))
        if there.is_planar:
            u = (1.0, 0.0) if self.axes is None else self.axes
            u = there.components(first.to_local_direction(there.direction("axes", u)))
            turn = second.angle - first.angle
            element = forces.PlanarBushing(p, q, u, turn, K, C)
        else:
            T = rotation_matrix(self.owner, self.axes)
            Ta, Tb = Axes3.of(first.rotation.T @ T), Axes3.of(second.rotation.T @ T)
            element = forces.BushingForce(p, q, Ta, Tb, K, C)
        return there.attached([element], point_a=points[0], point=points[1])


@dataclass(frozen=True, repr=False)
class AppliedItem(ForceItem):
    """A force or torque on one body."""

    touches: ClassVar[tuple[str, ...]] = ("body",)
    words: ClassVar[tuple[str, ...]] = ("axes",)

    body: Any
    _: KW_ONLY
    axes: forces.Axes = "world"
    parameters: Any = None

    def _applied(
        self, there: Attachment, what: str, p: Vec2 | Vec3 | None, value: object
    ) -> Attached:
        choice(self.owner, "axes", self.axes, ("world", "body"), error=ModelError)
        if there.bodies[0].is_point and what == "torque":
            raise ModelError(
                f"{self.owner}: it turns {self.body!r}, a point mass, which does not turn. Give "
                "the body inertia."
            )
        scalar = what == "torque" and there.is_planar
        origin, of_state, function = None, False, None
        value = frame_function(self.owner, what, value, there.kind, ("",), self.parameters)
        numbers = checked_parameters(self.owner, self.parameters)
        checks.refuse_parameters(self.owner, what, value, numbers)
        if callable(value):
            function = value
            more = len(extra(numbers))
            of_state = checks.argument_count(self.owner, what, function, more) == 2
            shape = () if scalar else (there.size,)
            checks.check_value(there, what, function, of_state, shape, numbers)
            origins = there.origins()
            origin = origins[0] if origins is not None and of_state else None
            value = None
        elif scalar:
            value = as_array(there.number(what, value))
        else:
            value = there.components(there.vector(what, value))
        applied = forces.Applied(p, value, numbers, origin, function, of_state, self.axes)
        return there.attached([applied])


@record("force", "force")
class AppliedForce(AppliedItem):
    """A force on a point of `body`.

    **Arguments:**

    - `force`: [N], a vector, a function of t, or a function of (t, frame) where `frame` has the
      body's position r, axes A, velocity v and angular velocity w (in body axes); use `frame.r.x`,
      or `frame.r.array()` for the vector. Components may be expressions of t and of the body's x,
      y, z, vx, vy, vz, wx, wy, wz (in the plane x, y, angle, vx, vy, w).
    - `at`: the point in the initial configuration [m, world], or `at_b` in body coordinates; by
      default the body's origin.
    - `axes`: "world", or "body" for components along the body's own axes.
    - `parameters`: numbers that the function is given last, and that expressions name.
    """

    functions = ("force",)

    _: KW_ONLY
    force: Any
    at: Any = None
    at_b: Any = None

    def attach(self, there: Attachment) -> Attached:
        origin = np.zeros(there.size) if self.at is None and self.at_b is None else self.at_b
        (p,) = there.points(self.at, origin)
        return self._applied(there, "force", there.arm(0, p), self.force)


@record("torque", "torque")
class AppliedTorque(AppliedItem):
    """A torque on `body`.

    **Arguments:**

    - `torque`: [N m], a vector (a number in the plane), a function of t, or of (t, frame) as for
      `force`.
    - `axes`: "world", or "body" for components along the body's own axes.
    - `parameters`: numbers that the function is given last, and that expressions name.
    """

    functions = ("torque",)

    _: KW_ONLY
    torque: Any

    def attach(self, there: Attachment) -> Attached:
        return self._applied(there, "torque", None, self.torque)


@dataclass(frozen=True, repr=False)
class JointForce(OnJoint, ForceItem):
    """Resistance against the motion that a joint leaves free."""

    needs = ("turn", "slide", "ball", "glide")
    verb = "slow"

    joint: str

    def _attached(
        self, there: Attachment, given: float | tuple[float, float], slide: Any, turn: Any
    ) -> Attached:
        joint = self.on(there.joints)
        assert joint is not None
        free = joint.item.free
        if (isinstance(given, tuple) or np.ndim(given)) and len(free) == 1:
            raise ModelError(
                f"{self.owner}: a pair of numbers is for joints that slide and turn, but "
                f"{self.joint!r} is a {joint.item.noun}. Give one number."
            )
        axis = there.components(joint.axes[:, 0 if there.is_planar else 2])
        made = []
        if "slide" in free:
            made.append(forces.SlideResistance(there.arm(1, joint.point), axis, slide))
        if "turn" in free:
            made.append(forces.HingeResistance(None if there.is_planar else axis, turn))
        if "ball" in free:
            made.append(forces.BallResistance(turn))
        if "glide" in free:
            made.append(friction.GlideResistance(there.arm(1, joint.point), axis, slide))
        return there.attached(made, point=joint.point, point_a=joint.point_a)


@record("joint_damping", "joint damping")
class JointDamping(JointForce):
    """Viscous resistance against the motion that `joint` leaves free.

    **Arguments:**

    - `joint`: a revolute, prismatic, cylindrical, screw, spherical, pin-in-slot, point-on-line,
      point-on-plane or planar joint.
    - `damping`: [N m s/rad] against turning, [N s/m] against sliding; a pair (sliding, turning)
      for a joint that does both.
    """

    damping: Any

    def attach(self, there: Attachment) -> Attached:
        pair = checks.slide_and_turn(self.owner, "damping", self.damping)
        laws = [forces.Resistance(*map(as_array, (c, 0.0, 1.0))) for c in pair]
        return self._attached(there, self.damping, *laws)


@record("joint_friction", "joint friction")
class JointFriction(JointForce):
    """Dry friction against the motion that `joint` leaves free, regularised near rest.

    **Arguments:**

    - `joint`: a revolute, prismatic, cylindrical, screw, spherical, pin-in-slot, point-on-line,
      point-on-plane or planar joint.
    - `friction`: its greatest torque [N m] against turning, or force [N] against sliding; a pair
      (sliding, turning) for a joint that does both. The joint's reaction does not change it. Or:
    - `coefficient`: Coulomb's mu; friction is mu times the load that the joint itself carries at
      that instant (not for screws).
    - `transition_speed`: [rad/s] or [m/s], likewise; friction tanh(speed / transition_speed)
      opposes the motion, so below this speed it creeps. With `coefficient` it is the speed [m/s] at
      which the surfaces slip.
    - `radius`: with `coefficient`, where the surfaces of a joint that turns rub [m].
    - `length`: with `coefficient`, the length [m] of a guide, sleeve or hinge, the joint's point of
      its second body in the middle. Each of its two ends carries half of the force across the axis,
      and both the bending moment as a couple; a short guide may jam. Without it the moment loads
      nothing.

    The load of a hinge is the force across its axis and, at a collar of the same radius, the thrust
    along it; of a ball, the whole force; on a plane, the force normal to it. A sleeve that slides
    and turns has one friction, against the slip of both together.
    """

    friction: Any = None
    transition_speed: Any = None
    _: KW_ONLY
    coefficient: Any = None
    radius: Any = None
    length: Any = None

    def attach(self, there: Attachment) -> Attached:
        if (self.friction is None) == (self.coefficient is None):
            state = "missing" if self.friction is None else "given twice"
            raise ModelError(
                f"{self.owner}: its size is {state}. Give friction= (a force or torque) or "
                "coefficient= (of the joint's own load)."
            )
        if self.transition_speed is None:
            raise ModelError(
                f"{self.owner}: transition_speed is missing. Give a speed that counts as slow."
            )
        if self.coefficient is not None:
            joint = self.on(there.joints)
            assert joint is not None
            sizes = (self.coefficient, self.radius, self.length, self.transition_speed)
            made = friction.friction_of(there, joint, *sizes)
            places = {"point": joint.point, "point_a": joint.point_a}
            return replace(there.attached([made], **places), sees=(joint.item.name,))
        for what in ("radius", "length"):
            if getattr(self, what) is not None:
                raise ModelError(
                    f"{self.owner}: {what} means nothing with friction=, which the joint's load "
                    "does not change. Leave it out, or give coefficient=."
                )
        f = checks.slide_and_turn(self.owner, "friction", self.friction)
        s = checks.slide_and_turn(self.owner, "transition_speed", self.transition_speed)
        if not is_traced(s) and min(s) == 0:
            raise ModelError(
                f"{self.owner}: transition_speed must be positive. Give a speed that counts as "
                "slow."
            )
        laws = [forces.Resistance(*map(as_array, (0.0, *x))) for x in zip(f, s, strict=True)]
        return self._attached(there, self.friction, *laws)


@record("custom_force", "custom force")
class CustomForce(ForceItem):
    """A force of the user's own between any bodies.

    **Arguments:**

    - `bodies`: one body or a sequence of them; the ground may be among them, and states (see
      `state`), for which the function is given their values in place of frames.
    - `function`: of (frame, ..., t), or (frame, ..., t, parameters) where those are given; it
      returns for each body a pair: force at the frame's origin [N] and torque [N m], both in world
      axes (a number in the plane). A frame has position r, axes A, velocity v and angular velocity
      w in body axes, and `frame.point(s)`, `frame.velocity(s)`; `.array()` turns their vectors into
      arrays. Write it with `jax.numpy`.
    - `parameters`: numbers or arrays in any nesting of dictionaries, lists and tuples.
    - `potential`: the stored energy [J], a function of (frame, ...) or (frame, ..., parameters).
    - `reactions`: names of joints. The function is then called as (frame, ..., t, reactions) or
      (frame, ..., t, reactions, parameters), with what each of these joints applies to its second
      body at its point at that instant: ``reactions[0].force`` [N] and ``.torque`` [N m], in world
      axes. What it returns may change these reactions; the equations are solved for both together.
    """

    touches: ClassVar[tuple[str, ...]] = ("bodies",)
    functions: ClassVar[tuple[str, ...]] = ("function", "potential")
    sees_states = True

    bodies: Any
    function: Callable[..., Any]
    parameters: Any = None
    potential: Callable[..., Any] | None = None
    _: KW_ONLY
    reactions: Any = ()

    def attach(self, there: Attachment) -> Attached:
        for what in ("function", "potential"):
            value = getattr(self, what)
            if not callable(value) and not (what == "potential" and value is None):
                raise ModelError(
                    f"{self.owner}: {what}={shown(value)} is not a function. Give one of the "
                    "bodies' frames."
                )
        parameters = checked_parameters(self.owner, self.parameters)
        if there.carriers and (self.reactions or self.potential is not None):
            what = "reactions" if self.reactions else "potential"
            raise ModelError(
                f"{self.owner}: it depends on states, and then may have no {what}. Leave them out, "
                "or make two forces of it."
            )
        if self.reactions:
            return self._attached_to_joints(there, parameters)
        function = there.seen(self.function)
        element = forces.Custom(parameters, there.origins(), function, self.potential)
        checks.check_custom(there, element)
        return there.attached([element])

    def _attached_to_joints(self, there: Attachment, parameters: object) -> Attached:
        if self.potential is not None:
            raise ModelError(
                f"{self.owner}: a force that depends on reactions has no potential. Leave it out."
            )
        given = (self.reactions,) if isinstance(self.reactions, str) else self.reactions
        if not isinstance(given, list | tuple):
            raise ModelError(
                f"{self.owner}: reactions={shown(given)} must be names of joints, such as ['A']."
            )
        names = tuple(given)
        unknown = [x for x in names if not isinstance(x, str) or x not in there.joints]
        if unknown:
            known = listed(there.joints) or "none yet"
            raise ModelError(
                f"{self.owner}: reactions names {shown(unknown[0])}, which is no joint. The joints "
                f"are {known}."
            )
        points = tuple(there.joints[name].arm for name in names)
        element = friction.CustomReactionForce(points, parameters, there.origins(), self.function)
        checks.check_custom(there, element, len(names))
        return replace(there.attached([element]), sees=tuple(names))
