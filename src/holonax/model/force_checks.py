"""Checks of what the user gives for a force; each failure is one message that names the force."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._messages import explained, shown
from .._numbers import as_array, is_traced, namespace
from ..system.expression import FrameExpression
from ..system.frames import Frame, PlanarFrame, as_plain
from ..system.reaction_forces import JointLoad
from . import forces
from .attachment import Attachment
from .bodies import number, vector
from .expressions import checked_parameters, extra, function_of
from .items import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jax import Array
    from numpy.typing import ArrayLike


def not_negative(owner: str, what: str, value: object) -> float | Array:
    """`value` as a finite number, zero or positive."""
    x = number(owner, what, value)
    if not is_traced(x) and x < 0:
        raise ModelError(f"{owner}: {what}={x} is negative. Give zero or a positive number.")
    return x


def slide_and_turn(
    owner: str, what: str, value: float | Array | tuple[float, float]
) -> tuple[float | Array, float | Array]:
    """A number for both, or a pair (sliding, turning)."""
    several = isinstance(value, tuple) or (is_traced(value) and np.ndim(value))
    values = vector(owner, what, value, 2) if several else (value, value)
    first, second = (not_negative(owner, what, x) for x in values)
    return first, second


def spring_law(
    owner: str,
    stiffness: float | Array,
    damping: float | Array,
    rest: Any,
    actuator: Any,
    *,
    x: str,
    parameters: Mapping[str, float] | None,
) -> forces.SpringLaw:
    """The law of a spring-damper-actuator from what the user gave for it; `x` is what it is of."""
    k = not_negative(owner, "stiffness", stiffness)
    c = not_negative(owner, "damping", damping)
    load, function = 0.0, None
    actuator = function_of(owner, "actuator", actuator, ("t", x, "speed"), parameters)
    numbers = checked_parameters(owner, parameters)
    refuse_parameters(owner, "actuator", actuator, numbers)
    if callable(actuator):
        function = actuator
        scalar = jax.ShapeDtypeStruct((), jnp.float64)
        check_shape(owner, "actuator", actuator, (scalar, scalar, scalar, *extra(numbers)), ())
    elif actuator is not None:
        load = number(owner, "actuator", actuator)
    if not is_traced(k, c) and k == 0 and c == 0 and actuator is None:
        raise ModelError(
            f"{owner}: it has no stiffness, no damping and no actuator. Give one of them."
        )
    k, c, rest, load = (as_array(x) for x in (k, c, rest, load))
    return forces.SpringLaw(k, c, rest, load, function, numbers)


def refuse_parameters(
    owner: str, what: str, function: object, parameters: Mapping[str, ArrayLike] | None
) -> None:
    """Refuse parameters of what is no function."""
    if parameters is not None and not callable(function):
        raise ModelError(
            f"{owner}: its {what} is no function, and has no parameters. Leave them out."
        )


def semidefinite(owner: str, what: str, value: Any, size: int) -> jax.Array:
    """A symmetric positive semidefinite matrix, from itself or from its diagonal."""
    try:
        matrix = as_array(value)
    except (TypeError, ValueError):
        raise ModelError(
            f"{owner}: {what}={shown(value)} is not a matrix of numbers. Give one number for each "
            "axis, or a square matrix."
        ) from None
    if matrix.shape == (size,):
        matrix = namespace(matrix).diag(matrix)
    if matrix.shape != (size, size):
        raise ModelError(
            f"{owner}: {what} must be {size}x{size}, or its {size} diagonal entries; got an array "
            f"of shape {np.shape(value)}."
        )
    if is_traced(matrix):
        return matrix
    if not np.all(np.isfinite(matrix)):
        raise ModelError(f"{owner}: {what} is not finite. Give finite numbers.")
    scale = float(np.max(np.abs(matrix)))
    if np.max(np.abs(matrix - matrix.T)) > 1e-12 * scale:
        raise ModelError(
            f"{owner}: {what} is not symmetric. A {what} matrix must be, or it makes energy."
        )
    least = float(np.min(np.linalg.eigvalsh(matrix)))
    if least < -1e-12 * scale:
        raise ModelError(
            f"{owner}: {what} has the negative eigenvalue {least:.6g}. Give a matrix whose "
            "eigenvalues are zero or positive."
        )
    return as_array(0.5 * (matrix + matrix.T))


def argument_count(owner: str, what: str, function: Any, more: int = 0) -> int:
    """Whether a function takes t, or t and a frame, and so many arguments `more` than these."""
    if isinstance(function, FrameExpression):
        return 1 + len(function.bodies)
    try:
        inspect.signature(function).bind(*[None] * (1 + more))
        return 1
    except TypeError:
        pass
    except ValueError:  # a builtin without a signature
        return 1
    try:
        inspect.signature(function).bind(*[None] * (2 + more))
        return 2
    except TypeError:
        last = ", and its parameters last" if more else ""
        raise ModelError(
            f"{owner}: the function given as {what} must take t, or t and the body's frame{last}."
        ) from None


def frame_shape(kind: str) -> Frame | PlanarFrame:
    """A frame of scalars, as far as shapes go."""
    ground = (PlanarFrame if kind == "planar" else Frame).ground()
    return jax.tree.map(lambda _: jax.ShapeDtypeStruct((), jnp.float64), ground)


def check_shape(owner: str, what: str, function: Any, arguments: Any, shape: Any) -> None:
    """Evaluate a user's function in shapes only and compare."""
    try:
        hash(function)  # it becomes part of the compiled program's key
        got = jax.eval_shape(lambda args: as_plain(function(*args)), arguments).shape
    except Exception as error:
        raise ModelError(
            f"{owner}: {what} could not be evaluated: {explained(error)} Write it with jax.numpy."
        ) from None
    if got != shape:
        wanted = "one number" if shape == () else f"{shape[0]} components"
        raise ModelError(f"{owner}: {what} must return {wanted}, got an array of shape {got}.")


def check_value(
    single: Attachment,
    what: str,
    function: object,
    of_state: bool,
    shape: object,
    parameters: Mapping[str, ArrayLike] | None,
) -> None:
    """Check the function of an applied force or torque."""
    arguments: tuple[Any, ...] = (jax.ShapeDtypeStruct((), jnp.float64),)
    if of_state:
        arguments = (*arguments, frame_shape(single.kind))
    check_shape(single.owner, what, function, (*arguments, *extra(parameters)), shape)


def check_custom(group: Attachment, element: Any, sees: int = 0) -> None:
    """Evaluate the function in shapes only: one pair of force and torque for each body. It is given
    the reactions of `sees` joints."""
    count, d = len(group.bodies), group.size
    frames = tuple(frame_shape(group.kind) for _ in range(count + len(group.carriers)))
    extra = () if element.parameters is None else (element.parameters,)
    time = jax.ShapeDtypeStruct((), jnp.float64)
    turn = () if group.kind == "planar" else (d,)
    if sees:
        shapes = (jax.ShapeDtypeStruct(shape, jnp.float64) for shape in ((d,), turn))
        extra = ([JointLoad(*shapes)] * sees, *extra)

    returned: list[Any] = []

    def pairs(frames: Sequence[Frame | PlanarFrame], t: Array, extra: Any) -> Any:
        returned.append(element.function(*frames, t, *extra))
        if not _are_pairs(returned[0], count):
            return []
        return [tuple(as_plain(x) for x in pair) for pair in returned[0]]

    try:
        hash(element.function)
        got = jax.eval_shape(pairs, frames, time, extra)
    except Exception as error:
        given = ("reactions", sees), ("parameters", element.parameters is not None)
        takes = ", ".join(["(frame, ..., t", *(name for name, there in given if there)]) + ")"
        raise ModelError(
            f"{group.owner}: its function could not be evaluated as a function of {takes}: "
            f"{explained(error)} It must return a pair (force, torque) for each body; write it "
            "with jax.numpy."
        ) from None
    if not got:
        example = "[(force, torque)]" if count == 1 else "[(force, torque), ...]"
        alone = "; put brackets around the pair" if _are_pairs(returned, count) else ""
        raise ModelError(
            f"{group.owner}: its function must return a list of {count} pairs, one for each body, "
            f"{example}. It returns something else{alone}."
        )
    shapes = [tuple(x.shape for x in pair) for pair in got]
    wanted = [((d,), turn)] * count
    if shapes != wanted:
        raise ModelError(
            f"{group.owner}: its function must return a pair (force, torque) for each of its "
            f"{count} bodies, of shapes {wanted[0]}, got {shapes}."
        )
    if not sees and element.energy is not None:
        check_shape(group.owner, "potential", element.energy, (*frames, *extra), ())


def _are_pairs(
    out: Sequence[tuple[Array | tuple[Array, float], float | Array]], count: int
) -> bool:
    """Whether there are two things for each of so many bodies."""
    listed = isinstance(out, list | tuple) and len(out) == count
    return listed and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in out)
