"""Numbers that a user gives: checked in one place, as floats and arrays of the host.

What is taken for a number is the same everywhere: whole and real numbers of Python, NumPy and JAX.
Truth values, words, complex numbers and numbers too large for 64 bits are refused, by one message
that names whose number it is and what to give instead.

Those of the host become arrays of JAX where a program is traced; made such at once, each would cost
a trip through JAX's machinery, and the first of them the start of its backend.
"""

from __future__ import annotations

from numbers import Real
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from ._messages import shown

if TYPE_CHECKING:
    from jax import Array

LARGEST_COUNT = 2**31 - 1  # of steps, iterations, bodies
_KINDS = "iuf"  # of arrays that hold real numbers


class Condition(Protocol):
    """Whether a finite number will do."""

    def __call__(self, x: float, /) -> bool: ...


def as_array(x: object) -> Any:
    """`x` as an array of float64; arrays of JAX, traced ones among them, stay what they are.

    Raises a TypeError for what are not real numbers; `number` and `array` below name the culprit.
    """
    if isinstance(x, jax.Array):
        if x.dtype.kind not in _KINDS:
            raise TypeError("not real numbers")
        return x.astype(float)
    if is_traced(x):
        return jnp.asarray(x, float)
    found = real(x)
    if found is None:
        raise TypeError("not real numbers")
    return found


def real(value: object) -> np.ndarray | None:
    """`value` as an array of float64 on the host; None for what are not real numbers."""
    if type(value) is float or type(value) is int:
        try:
            return np.asarray(float(value))
        except OverflowError:
            return None
    try:
        given = np.asarray(value)
        if given.dtype.kind in _KINDS:
            return given.astype(float)
        if given.dtype.kind != "O" or not given.size:
            return None
        if all(isinstance(x, Real) and not isinstance(x, bool) for x in given.flat):
            return given.astype(float)  # fractions, and whole numbers of any length
    except Exception:  # ragged, too large, traced, or an object with an __array__ of its own
        return None
    return None


def number(
    owner: str,
    name: str,
    value: Any,
    *,
    good: Condition = lambda x: True,
    wanted: str = "a finite number",
    error: type[Exception] = ValueError,
    wrong_type: type[Exception] | None = None,
) -> float:
    """`value` as a finite number for which `good` holds; `wanted` says in words what is."""
    x = real(value)
    if x is None or x.ndim != 0:
        reason = _too_large(value) or "is not a number"
        if x is not None:
            reason = f"has the shape {x.shape}"
        raise (wrong_type or error)(f"{owner}: {name}={shown(value)} {reason}. Give {wanted}.")
    found = float(x)
    if not np.isfinite(found):
        raise error(f"{owner}: {name}={found} is not finite. Give {wanted}.")
    if not good(found):
        given = value if isinstance(value, int) else found
        raise error(f"{owner}: {name}={shown(given)} is out of range. Give {wanted}.")
    return found


def finite_number(owner: str, name: str, value: object, *, positive: bool = False) -> float:
    """`value` as a finite number, which may have to be positive; a TypeError if it is none."""
    if positive:
        wanted = "a finite and positive number"
        return number(owner, name, value, good=lambda x: x > 0, wanted=wanted, wrong_type=TypeError)
    return number(owner, name, value, wrong_type=TypeError)


def parameter(
    owner: str,
    name: str,
    value: Any,
    *,
    good: Condition = lambda x: True,
    wanted: str = "a finite number",
) -> Any:
    """As `number`, as an array of one number that may be traced; its value is judged if known."""
    if not isinstance(value, Tracer):
        return np.asarray(number(owner, name, value, good=good, wanted=wanted))
    if value.ndim != 0:
        raise ValueError(f"{owner}: {name} has the shape {value.shape}. Give {wanted}.")
    return value.astype(float)


def count(
    owner: str,
    name: str,
    value: Any,
    *,
    least: int = 1,
    most: int = LARGEST_COUNT,
    error: type[Exception] = ValueError,
) -> int:
    """`value` as a whole number between `least` and `most`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        wanted = f"{least} or more" if most == LARGEST_COUNT else f"from {least} to {most}"
        if whole and value > most == LARGEST_COUNT:
            wanted += f", and {most} at most"
        raise error(f"{owner}: {name}={shown(value)} must be a whole number, {wanted}.")
    return int(value)


def array(
    owner: str,
    name: str,
    value: Any,
    shape: tuple[int | None, ...] | None = None,
    *,
    error: type[Exception] = ValueError,
    wrong_type: type[Exception] | None = None,
) -> np.ndarray:
    """`value` as a new array of finite numbers; None in `shape` stands for any size.

    Traced numbers pass if their shape does.
    """
    wanted = _words(shape)
    if is_traced(value):
        x = as_array(value)
        if shape is not None and not _fits(x.shape, shape):
            raise error(f"{owner}: {name} has the shape {x.shape}. Give {wanted}.")
        return x
    x = real(value)
    if x is None:
        reason = _too_large(value) or "is not made of real numbers"
        raise (wrong_type or error)(f"{owner}: {name}={shown(value)} {reason}. Give {wanted}.")
    if shape is not None and not _fits(x.shape, shape):
        raise error(f"{owner}: {name} has the shape {x.shape}. Give {wanted}.")
    if not np.all(np.isfinite(x)):
        raise error(f"{owner}: {name}={shown(x.tolist())} is not finite. Give finite numbers.")
    return np.array(x)


def tree(
    owner: str, name: str, value: object, *, error: type[Exception] = ValueError
) -> dict[str, np.ndarray | Array]:
    """Numbers and arrays in any nesting, each as an array; those of JAX may be traced."""

    def one(x: object) -> np.ndarray | Array:
        try:
            found = as_array(x)
        except TypeError:
            raise error(
                f"{owner}: {name} has the entry {shown(x)}, which is not a real number. Give "
                "numbers or arrays, in any nesting of dictionaries, lists and tuples."
            ) from None
        if not isinstance(found, Tracer) and not np.all(np.isfinite(found)):
            raise error(f"{owner}: an entry of {name} is not finite. Give finite numbers.")
        return found

    try:
        leaves, structure = jax.tree.flatten(value)
    except Exception:  # keys of a dictionary that have no order
        raise error(
            f"{owner}: {name}={shown(value)} cannot be taken apart. Give numbers or arrays, in any "
            "nesting of dictionaries with strings for keys, lists and tuples."
        ) from None
    return structure.unflatten([one(x) for x in leaves])


def _too_large(value: object) -> str:
    """What is wrong with whole numbers that no float can hold; empty if that is not it."""
    try:
        entries = np.ravel(np.asarray(value, dtype=object))
        too_large = any(isinstance(x, int) and abs(x) > 10**308 for x in entries)
    except Exception:
        return ""
    return "is too large for a 64-bit number" if too_large else ""


def _fits(got: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(got) == len(wanted) and all(w in (None, g) for g, w in zip(got, wanted))


def _words(shape: tuple[int | None, ...] | None) -> str:
    if shape is None:
        return "finite numbers"
    if len(shape) == 1:
        return "a vector of numbers" if shape[0] is None else f"a vector of {shape[0]} numbers"
    return f"an array of numbers of shape {shape}".replace("None", "n")


def is_traced(*values: Any) -> bool:
    """Whether some number among the values is traced, so that nothing can be asked of it."""
    kinds = (bool, int, float, str, np.ndarray)
    try:
        return any(
            isinstance(x, Tracer)
            for value in values
            if not isinstance(value, kinds)
            for x in jax.tree.leaves(value)
        )
    except ValueError:  # a dictionary whose keys have no order: no numbers
        return False


def namespace(*values: Any) -> ModuleType:
    """The library that computes with these arrays: JAX's where some are traced, else numpy."""
    return jnp if is_traced(*values) else np


def stacked(values: Any, axis: int = 0) -> Any:
    """Numbers or arrays of many things as one array; on the host unless some are of JAX."""
    if any(isinstance(x, jax.Array) for x in values):
        return jnp.stack([jnp.asarray(x, float) for x in values], axis)
    return np.stack([np.asarray(x, float) for x in values], axis)
