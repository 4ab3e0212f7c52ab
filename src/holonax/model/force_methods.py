"""The forces a `Model` offers: validation, attachment, and the element each one becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._arguments import choice
from .._messages import listed, shown
from .._numbers import as_array, tree
from ..rotation import Axes3, Vec2, Vec3
from . import force_checks as checks
from . import forces
from .bodies import Ground, ModelError, direction, number, rotation_matrix, vector
from .description import Attachment, Description, Item
from .units import check_angle

_TURNING = ("revolute joint", "cylindrical joint")
_SLIDING = ("prismatic joint", "cylindrical joint", "pin-in-slot joint")
_BALL = "spherical joint"


class ForceMethods(Description):
    """Mixin with one method for each force."""

    def spring_damper(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        stiffness: float = 0.0,
        damping: float = 0.0,
        length: float | None = None,
        actuator: Any = None,
    ) -> str:
        """Spring, damper and actuator along the line between a point of `a` and one of `b` (TSDA).

        **Arguments:**

        - `at`: its ends, (world point on `a`, world point on `b`) in the initial configuration [m],
          or `at_a`, `at_b` in body coordinates; by default the bodies' origins.
        - `stiffness` [N/m], `damping` [N s/m].
        - `length`: free length [m]; by default the distance in the initial configuration.
        - `actuator`: a force [N] that pushes the ends apart, a number or a function of
          (t, length, speed); its power is that force times the speed of lengthening.
        """
        pair = self._pair("spring-damper", name, a, b)
        if at is None and at_a is None and at_b is None:
            at_a = np.zeros(pair.size)
        p, q = pair.ends(at, at_a, at_b)
        if length is None:
            length = float(np.linalg.norm(pair.seen_from_first(q) - p))
        rest = number(pair.owner, "length", length)
        if rest < 0:
            raise ModelError(f"{pair.owner}: length={rest} is negative. Give a length in metres.")
        law = checks.spring_law(pair, stiffness, damping, rest, actuator)
        element = forces.SpringDamper(checks.vec_of(p), checks.vec_of(q), law)
        return self._force(pair, [element], point=q, point_a=p)

    def torsion_spring(
        self,
        name: str,
        a: Any = None,
        b: Any = None,
        *,
        joint: str | None = None,
        axis: Any = None,
        axis_a: Any = None,
        axis_b: Any = None,
        stiffness: float = 0.0,
        damping: float = 0.0,
        angle: float | None = None,
        actuator: Any = None,
    ) -> str:
        """Spring, damper and actuator that turn `b` against `a` about an axis (RSDA).

        **Arguments:**

        - `joint`: the revolute (or cylindrical) joint it works about; or `a` and `b` and, in space,
          the `axis` (world, initial configuration) or `axis_a`, `axis_b` (body axes).
        - `stiffness` [N m/rad], `damping` [N m s/rad].
        - `angle`: free angle [rad]; by default the angle in the initial configuration.
        - `actuator`: a torque [N m] that turns `b` forward, a number or a function of
          (t, angle, speed); its power is that torque times the speed.

        The angle is that of `b` seen from `a`. In the plane it is the difference of the bodies'
        angles. In space it is zero in the initial configuration and lies between -pi and pi: the
        spring suits a hinge that stays within half a turn of it.
        """
        what = "torsion spring"
        if joint is None:
            pair = self._pair(what, name, a, b)
            if pair.kind == "planar":
                pair.refuse(axis=axis, axis_a=axis_a, axis_b=axis_b)
                triads = None
            else:
                triads = pair.axes(axis, axis_a, axis_b)
        else:
            item = self._find_joint(f"{what} {shown(name)}", joint, _TURNING)
            pair = self._attach(what, name, item.bodies)
            given = {"a": a, "b": b, "axis": axis, "axis_a": axis_a, "axis_b": axis_b}
            checks.only_joint(pair.owner, given)
            triads = None if pair.kind == "planar" else checks.hinge_triads(pair, item)
        first, second = pair.bodies
        if triads is None:
            start = checks.initial_angle(second) - checks.initial_angle(first)
        else:
            f = first.rotation.T @ second.rotation @ triads[1][:, 0]
            start = float(np.arctan2(triads[0][:, 1] @ f, triads[0][:, 0] @ f))
        rest = start if angle is None else number(pair.owner, "angle", angle)
        check_angle(pair.owner, "angle", rest)
        law = checks.spring_law(pair, stiffness, damping, rest, actuator)
        if triads is None:
            return self._force(pair, [forces.PlanarTorsionSpring(law)])
        e1, e2, n = (Vec3.of(column) for column in triads[0].T)
        return self._force(pair, [forces.TorsionSpring(e1, e2, n, Vec3.of(triads[1][:, 0]), law)])

    def bushing(
        self,
        name: str,
        a: Any,
        b: Any,
        *,
        at: Any = None,
        at_a: Any = None,
        at_b: Any = None,
        axes: Any = None,
        stiffness: Any,
        damping: Any = None,
    ) -> str:
        """Elastic and viscous mounting between `a` and `b`: load = -K x - C x'.

        **Arguments:**

        - `at`: its place in the initial configuration [m, world], or `at_a`, `at_b` in body
          coordinates.
        - `axes`: its axes in the initial configuration, as a rotation matrix, quaternion or
          rotation vector; in the plane the direction of its first axis. By default the world's.
        - `stiffness`: K, 6x6 symmetric or its diagonal, [N/m] then [N m/rad]; in the plane 3x3.
        - `damping`: C likewise, [N s/m] then [N m s/rad]; by default none.

        x is the displacement of the mounting point of `b` from that of `a`, in the bushing's axes
        (which move with `a`), and the rotation vector of `b` against `a` from the initial
        configuration, below half a turn. The stored energy is x'K x / 2 whatever the rotation.
        """
        pair = self._pair("bushing", name, a, b)
        p, q = pair.points(at, at_a, at_b)
        size = 3 if pair.kind == "planar" else 6
        K = checks.semidefinite(pair.owner, "stiffness", stiffness, size)
        damping = np.zeros(size) if damping is None else damping
        C = checks.semidefinite(pair.owner, "damping", damping, size)
        first, second = pair.bodies
        if pair.kind == "planar":
            u = np.array([1.0, 0.0]) if axes is None else direction(pair.owner, "axes", axes, 2)
            u = first.to_local_direction(u)
            turn = checks.initial_angle(second) - checks.initial_angle(first)
            element = forces.PlanarBushing(Vec2.of(p), Vec2.of(q), Vec2.of(u), turn, K, C)
        else:
            T = rotation_matrix(pair.owner, axes)
            Ta, Tb = Axes3.of(first.rotation.T @ T), Axes3.of(second.rotation.T @ T)
            element = forces.Bushing(Vec3.of(p), Vec3.of(q), Ta, Tb, K, C)
        return self._force(pair, [element], point=q, point_a=p)

    def force(
        self,
        name: str,
        body: Any,
        *,
        force: Any,
        at: Any = None,
        at_b: Any = None,
        axes: forces.Axes = "world",
    ) -> str:
        """A force on a point of `body`.

        **Arguments:**

        - `force`: [N], a vector, a function of t, or a function of (t, frame) where `frame` has the
          body's position r, axes A, velocity v and angular velocity w (in body axes); use
          `frame.r.x`, or `frame.r.array()` for the vector.
        - `at`: the point in the initial configuration [m, world], or `at_b` in body coordinates; by
          default the centre of mass.
        - `axes`: "world", or "body" for components along the body's own axes.
        """
        single = self._single("force", name, body)
        if at is None and at_b is None:
            at_b = np.zeros(single.size)
        p = single.points(at, at_b)[0]
        return self._applied(single, "force", checks.vec_of(p), force, axes)

    def torque(self, name: str, body: Any, *, torque: Any, axes: forces.Axes = "world") -> str:
        """A torque on `body`.

        **Arguments:**

        - `torque`: [N m], a vector (a number in the plane), a function of t, or of (t, frame) as
          for `force`.
        - `axes`: "world", or "body" for components along the body's own axes.
        """
        return self._applied(self._single("torque", name, body), "torque", None, torque, axes)

    def joint_damping(self, name: str, joint: str, damping: Any) -> str:
        """Viscous resistance against the motion that `joint` leaves free.

        **Arguments:**

        - `joint`: a revolute, prismatic, cylindrical, spherical or pin-in-slot joint.
        - `damping`: [N m s/rad] against turning, [N s/m] against sliding; a pair (sliding, turning)
          for a cylindrical joint.
        """
        owner = f"joint damping {shown(name)}"
        slide, turn = checks.slide_and_turn(owner, "damping", damping)
        laws = [forces.Resistance(*map(as_array, (c, 0.0, 1.0))) for c in (slide, turn)]
        return self._resistance("joint damping", name, joint, damping, laws)

    def joint_friction(self, name: str, joint: str, friction: Any, transition_speed: Any) -> str:
        """Dry friction against the motion that `joint` leaves free, regularised near rest.

        **Arguments:**

        - `joint`: a revolute, prismatic, cylindrical, spherical or pin-in-slot joint.
        - `friction`: its greatest torque [N m] against turning, or force [N] against sliding; a
          pair (sliding, turning) for a cylindrical joint. The joint's reaction does not change it.
        - `transition_speed`: [rad/s] or [m/s], likewise; friction tanh(speed / transition_speed)
          opposes the motion, so below this speed it creeps.
        """
        owner = f"joint friction {shown(name)}"
        f = checks.slide_and_turn(owner, "friction", friction)
        s = checks.slide_and_turn(owner, "transition_speed", transition_speed)
        if min(s) == 0:
            raise ModelError(
                f"{owner}: transition_speed must be positive. Give a speed that counts as slow."
            )
        laws = [forces.Resistance(*map(as_array, (0.0, *x))) for x in zip(f, s, strict=True)]
        return self._resistance("joint friction", name, joint, friction, laws)

    def custom_force(
        self,
        name: str,
        bodies: Any,
        function: Callable[..., Any],
        parameters: Any = None,
        potential: Callable[..., Any] | None = None,
    ) -> str:
        """A force of the user's own between any bodies.

        **Arguments:**

        - `bodies`: one body or a sequence of them; the ground may be among them.
        - `function`: of (frame, ..., t), or (frame, ..., t, parameters) where those are given; it
          returns for each body a pair: force at the centre of mass [N] and torque [N m], both in
          world axes (a number in the plane). A frame has position r, axes A, velocity v and angular
          velocity w in body axes, and `frame.point(s)`, `frame.velocity(s)`; `.array()` turns their
          vectors into arrays. Write it with `jax.numpy`.
        - `parameters`: numbers or arrays in any nesting of dictionaries, lists and tuples.
        - `potential`: the stored energy [J], a function of (frame, ...) or
          (frame, ..., parameters).
        """
        several = isinstance(bodies, Sequence) and not isinstance(bodies, str)
        group = self._attach("custom force", name, tuple(bodies) if several else (bodies,))
        for what, value in (("function", function), ("potential", potential)):
            if not callable(value) and not (what == "potential" and value is None):
                raise ModelError(
                    f"{group.owner}: {what}={shown(value)} is not a function. Give one of the "
                    "bodies' frames."
                )
        parameters = tree(group.owner, "parameters", parameters, error=ModelError)
        element = forces.Custom(parameters, function, potential)
        checks.check_custom(group, element)
        return self._force(group, [element])

    # -- what the methods share --------------------------------------------------------------

    def _single(self, what: str, name: str, body: Any) -> Attachment:
        """A body that a force acts on."""
        owner = f"{what} {self._new_name(what, name)!r}"
        if isinstance(self._find(owner, body, None), Ground):
            raise ModelError(f"{owner}: it acts on the ground, which never moves. Give a body.")
        return self._attach(what, name, (body,))

    def _applied(self, single: Attachment, what: str, p: Any, value: Any, axes: Any) -> str:
        owner = single.owner
        choice(owner, "axes", axes, ("world", "body"), error=ModelError)
        scalar = what == "torque" and single.kind == "planar"
        if callable(value):
            of_state = checks.argument_count(owner, what, value) == 2
            shape = () if scalar else (single.size,)
            checks.check_value(single, what, value, of_state, shape)
            return self._force(single, [forces.Applied(p, None, value, of_state, axes)])
        if scalar:
            constant = as_array(number(owner, what, value))
        else:
            constant = checks.vec_of(vector(owner, what, value, single.size))
        return self._force(single, [forces.Applied(p, constant, None, False, axes)])

    def _find_joint(self, owner: str, joint: Any, types: Sequence[str]) -> Item:
        item = self._joints.get(joint) if isinstance(joint, str) else None
        if item is None:
            known = listed(self._joints) or "none yet"
            raise ModelError(f"{owner}: there is no joint {shown(joint)}. The joints are {known}.")
        if item.type not in types:
            raise ModelError(
                f"{owner}: {joint!r} is a {item.type}, which has no such motion. Name a "
                f"{' or '.join(types)}."
            )
        return item

    def _resistance(
        self, what: str, name: str, joint: str, given: Any, laws: list[forces.Resistance]
    ) -> str:
        types = tuple(dict.fromkeys([*_TURNING, *_SLIDING, _BALL]))
        item = self._find_joint(f"{what} {shown(name)}", joint, types)
        pair = self._attach(what, name, item.bodies)
        if np.ndim(given) and item.type != "cylindrical joint":
            raise ModelError(
                f"{pair.owner}: a pair of numbers is for cylindrical joints, but {joint!r} is a "
                f"{item.type}. Give one number."
            )
        planar = pair.kind == "planar"
        axis: Any = checks.vec_of(item.axes[:, 0] if planar else item.axes[:, 2])
        slide, turn = laws
        elements = []
        if item.type in _SLIDING:
            elements.append(forces.SlideResistance(checks.vec_of(item.point), axis, slide))
        if item.type in _TURNING:
            elements.append(forces.HingeResistance(None if planar else axis, turn))
        if item.type == _BALL:
            elements.append(forces.BallResistance(turn))
        return self._force(pair, elements, point=item.point, point_a=item.point_a)
