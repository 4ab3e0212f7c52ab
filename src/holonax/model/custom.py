"""Joints of the user's own: one function of the frames they connect.

The function sees one joint at a time (plain scalars and small arrays); `vmap` makes it serve all
joints that share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._messages import explained, shown
from .._modules import Module
from .._numbers import is_traced
from ..system.elements import Constraint, Element, Group, Indices, RateConstraint, group_rows
from ..system.frames import Frame, PlanarFrame, at_origins
from .attachment import Attached, Attachment
from .bodies import Body
from .expressions import checked_parameters, frame_function
from .items import JointItem, ModelError, record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jax import Array

    from ..rotation.vectors import Scalar

Function = Callable[..., Any]


class _UserRows(Module):
    """A user's function, its parameters, and where the bodies' coordinates begin."""

    parameters: Any
    origins: Any
    function: Function = eqx.field(static=True)

    def rows(self, frames: Sequence[Frame | PlanarFrame], t: Array) -> tuple[Any, ...]:
        """Every number the function returns, each over all elements of the group."""

        def one(
            parameters: Mapping[str, Array] | None, frames: Sequence[Frame | PlanarFrame]
        ) -> Any:
            own = () if parameters is None else (parameters,)
            leaves = jax.tree.leaves(self.function(*frames, t, *own))
            return jnp.concatenate([jnp.ravel(jnp.asarray(x, dtype=float)) for x in leaves])

        return tuple(jax.vmap(one, out_axes=1)(self.parameters, at_origins(frames, self.origins)))


class UserConstraint(Constraint):
    """A holonomic constraint from a user's residual."""

    user: _UserRows

    def residual(self, *frames: Any, t: Array) -> Any:
        return self.user.rows(frames, t)


class UserRateConstraint(RateConstraint):
    """A non-holonomic constraint from a user's function, linear in velocities."""

    user: _UserRows

    def rate(self, *frames: Any, t: Any) -> Any:
        return self.user.rows(frames, t)


@dataclass(frozen=True, repr=False)
class UserJoint(JointItem):
    """What the joints a user writes share."""

    touches: ClassVar[tuple[str, ...]] = ("bodies",)
    makes: ClassVar[Any]

    def _attached(
        self, there: Attachment, function: object, parameters: Mapping[str, Array] | None
    ) -> Attached:
        what, names = self.functions[0], [body.name for body in there.bodies]
        function = frame_function(
            self.owner, what, function, there.kind, names, parameters, time_first=False
        )
        if not callable(function):
            raise ModelError(
                f"{self.owner}: {shown(function)} is not a function. Give one of frames and time."
            )
        numbers = checked_parameters(self.owner, parameters)
        element = self.makes(_UserRows(numbers, there.origins(), function))
        if not is_traced(numbers, *((b.start, b.rate, b.com) for b in there.bodies)):
            _check(there, element)
        return there.attached([element], point=np.zeros(there.size))


@record("custom_joint", "custom joint")
class CustomJoint(UserJoint):
    """A joint of your own between any number of bodies: as many rows as numbers returned.

    **Arguments:**

    - `bodies`: the bodies it connects, the ground among them if need be.
    - `residual`: ``residual(*frames, t)``, or ``residual(*frames, t, parameters)``, of one frame
      for each body: what must vanish, as scalars, vectors or any nesting of them [SI]. A frame has
      the position `r`, the axes `A`, and ``point(s)``, the world position of the body-fixed point
      `s`, written with `Vec2` and `Vec3`; ``.array()`` of a vector gives a JAX array. It may not
      use velocities, and must be written with `jax.numpy`. Or an expression, or a list of them, of
      t and of the bodies' quantities by name, ``"crank.x - 2 * rod.y"``.
    - `parameters`: numbers or arrays, nested as you like, that may be traced and differentiated.
      Joints that share one function object are compiled as one group.

    Everything else (G, gamma, reactions) follows by differentiation.
    """

    makes = UserConstraint
    functions = ("residual",)

    bodies: Any
    residual: Function | str | tuple[str, ...]
    parameters: Any = None

    def attach(self, there: Attachment) -> Attached:
        return self._attached(there, self.residual, self.parameters)


@record("custom_rate_joint", "custom rate joint")
class CustomRateJoint(UserJoint):
    """A non-holonomic joint of your own: as many rows as numbers returned.

    As `custom_joint`, with ``rate(*frames, t)`` or ``rate(*frames, t, parameters)`` linear in the
    frames' velocities: `v` [m/s, world axes], `w` [rad/s, body axes] and ``velocity(s)`` of the
    body-fixed point `s`; or expressions of ``crank.vx`` and the like.
    """

    makes = UserRateConstraint
    functions = ("rate",)

    bodies: Any
    rate: Function | str | tuple[str, ...]
    parameters: Any = None

    def attach(self, there: Attachment) -> Attached:
        return self._attached(there, self.rate, self.parameters)


def _check(attachment: Attachment, element: UserConstraint) -> None:
    """Refuse a function that cannot be a constraint, judged in the initial configuration."""
    owner = attachment.owner
    what = "residual" if isinstance(element, UserConstraint) else "rate"
    user, frames = element.user, [_start_frame(body) for body in attachment.bodies]
    time = jnp.zeros(())
    try:
        hash(user.function)
        single = jax.tree.map(lambda x: jnp.asarray(x)[0], at_origins(frames, user.origins))
        own = () if user.parameters is None else (user.parameters,)
        returned = jax.tree.leaves(user.function(*single, time, *own))
        if not returned:
            raise ModelError(f"{owner}: its {what} returns nothing. Return what must vanish.")
        group = _group_of_one(element, attachment, frames)
        value = np.array(group.residual(frames, time))
        rows = np.array(group.jacobian(frames, time))
    except ModelError:
        raise
    except Exception as error:
        reason = explained(error)
        arguments = ", ".join([*(f"frame {b.name!r}" for b in attachment.bodies), "t"])
        raise ModelError(
            f"{owner}: its {what} fails: {reason} It is called with "
            f"({arguments}{', parameters' if user.parameters is not None else ''}) and must be "
            "written with jax.numpy."
        ) from None
    if not (np.all(np.isfinite(value)) and np.all(np.isfinite(rows))):
        raise ModelError(
            f"{owner}: its {what} or its derivative is not finite in the initial configuration. "
            "Move the bodies, or avoid square roots and divisions that vanish there."
        )
    _check_velocities(owner, element, group, frames, time)
    bodies = [i for i, body in enumerate(attachment.bodies) if not body.is_ground]
    idle = np.all(rows[bodies] == 0.0, axis=(0, 2, 3))
    if np.any(idle):
        moved = [_nudged(frame, i) for i, frame in enumerate(frames)]
        again = np.array(group.jacobian(moved, time))
        idle &= np.all(again[bodies] == 0.0, axis=(0, 2, 3))
    if np.any(idle):
        on = "positions" if isinstance(element, UserConstraint) else "velocities"
        raise ModelError(
            f"{owner}: component {np.argmax(idle)} of its {what} does not depend on the {on} of "
            "its bodies, so it constrains nothing. Remove it, or use the frames it is given."
        )


def _check_velocities(
    owner: str,
    element: UserConstraint,
    group: Group,
    frames: Sequence[Frame | PlanarFrame],
    time: Scalar,
) -> None:
    """Refuse a residual of velocities, or a rate that is not linear in them."""

    def at(scale: float) -> np.ndarray:
        moving = [_moving(frame, scale, i) for i, frame in enumerate(frames)]
        return np.array(group.residual(moving, time))

    free, once, twice = at(0.0), at(1.0), at(2.0)
    size = max(np.max(np.abs([free, once, twice])), 1e-300)
    if isinstance(element, UserConstraint):
        if not np.max(np.abs(once - free)) <= 1e-9 * size:
            raise ModelError(
                f"{owner}: its residual depends on velocities. Use custom_rate_joint for a "
                "condition on velocities."
            )
    elif not np.max(np.abs(twice - 2 * once + free)) <= 1e-9 * size:
        raise ModelError(f"{owner}: its rate must be linear in the velocities of its bodies.")


def _start_frame(body: Body) -> Frame | PlanarFrame:
    """The frame of one body in the initial configuration, as arrays of one."""
    frame = PlanarFrame if body.kind == "planar" else Frame
    if body.is_ground:
        return jax.tree.map(jnp.asarray, frame.ground())
    return frame.from_state(jnp.asarray(body.start)[:, None], jnp.asarray(body.rate)[:, None])


def _group_of_one(
    element: Element, attachment: Attachment, frames: Sequence[Frame | PlanarFrame]
) -> Group:
    stacked = jax.tree.map(lambda x: jnp.asarray(x, dtype=float)[None], element)
    rows = group_rows(element, type(frames[0]), len(frames))
    nodes = tuple(Indices.of((i,)) for i in range(len(frames)))
    return Group(stacked, nodes, (attachment.item.name,), rows)


def _nudged(frame: Frame | PlanarFrame, i: int) -> Any:
    """A frame a little away, the ground too: a constraint may be stationary where it starts."""
    rates = [jnp.full((1,), 0.03 * (k + 1) / (i + 1)) for k in range(frame.dof)]
    return _with_velocity(frame, rates).with_pose(
        jax.tree.map(lambda x, dx: x + dx, frame.pose, _with_velocity(frame, rates).pose_rate)
    )


def _moving(frame: Frame | PlanarFrame, scale: float, i: int) -> Frame | PlanarFrame:
    return _with_velocity(
        frame, [jnp.full((1,), scale * (0.7 + 0.3 * k - 0.2 * i)) for k in range(frame.dof)]
    )


def _with_velocity(frame: Frame | PlanarFrame, rates: Sequence[Array]) -> Frame | PlanarFrame:
    for k, rate in enumerate(rates):
        _, _, rebuild = frame.velocity_increments()[k]
        frame = rebuild(rate)
    return frame
