"""Which forces and constraints depend on the time itself, read off their traced programs.

What does not depend on it explicitly cannot change unless the state does, and error control sees
that. What does may be silent for many steps and then act: a run needs to know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from .elements import Force, Group, Indices
from .signals import Signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jax.extend import core as jax_core

    from .frames import Frame, PlanarFrame

_known: dict[Any, bool] = {}
_PACKAGE = __name__.partition(".")[0]


def depends(function: Callable[..., Any], arguments: tuple[Any, ...], leaf: int) -> bool:
    """Whether what a function returns is computed from one leaf of its arguments.

    Loops and branches count as computed from all they are given.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    return any(_reached(closed.jaxpr, [k == leaf for k in range(len(closed.jaxpr.invars))]))


def _reached(jaxpr: jax_core.Jaxpr, given: list[bool]) -> list[bool]:
    """Which results of a program are computed from the marked ones of its arguments."""
    marked = {v for v, mark in zip(jaxpr.invars, given, strict=True) if mark}

    def has(v: Any) -> bool:
        return not hasattr(v, "val") and v in marked  # a literal has a value

    for equation in jaxpr.eqns:
        marks = [has(v) for v in equation.invars]
        if not any(marks):
            continue
        inner = equation.params.get("jaxpr") if equation.primitive.name in ("jit", "pjit") else None
        inner = getattr(inner, "jaxpr", inner)
        out = [True] * len(equation.outvars) if inner is None else _reached(inner, marks)
        marked.update(v for v, mark in zip(equation.outvars, out, strict=True) if mark)
    return [has(v) for v in jaxpr.outvars]


def functions_of(element: Any) -> Iterator[Any]:
    """The functions that a user has given for an element."""
    if isinstance(element, dict):
        element = tuple(element.values())
    if isinstance(element, (tuple, list)):
        for item in element:
            yield from functions_of(item)
    elif callable(element) and not isinstance(element, (eqx.Module, type)):
        if isinstance(element, Signal) or not _is_ours(element):
            yield element
    elif dataclasses.is_dataclass(element) and not isinstance(element, type):
        for field in dataclasses.fields(element):
            yield from functions_of(getattr(element, field.name))


def _is_ours(function: object) -> bool:
    """Whether a function is one of this package, which says itself what it depends on."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] == _PACKAGE


def is_timed(group: Group, frame: type) -> bool:
    """Whether the elements of a group depend on the time explicitly."""
    functions = list(functions_of(group.element))
    if not functions:
        return False  # what we have written ourselves does not
    # shapes only: numbers may be traced
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape[1:]), float), group.element)
    shapes = tuple(x.shape for x in jax.tree.leaves(one))
    key = (jax.tree.structure(one), shapes, frame, len(group.nodes))
    if key not in _known:

        def value(element: Any, frames: Sequence[Frame | PlanarFrame], t: Any) -> Any:
            single = Group(element, (Indices.of([0]),) * len(group.nodes), ("",), group.rows)
            force = isinstance(element, Force)
            return single.wrenches(frames, t) if force else single.residual(frames, t)

        frames = [frame.ground() for _ in group.nodes]
        leaf = len(jax.tree.leaves((one, frames)))
        _known[key] = depends(value, (one, frames, np.zeros(())), leaf)
    return _known[key]


def is_unannounced(group: Group, frame: type) -> bool:
    """Whether a group depends on the time by functions that do not say where they have breaks."""
    functions = functions_of(group.element)
    plain = [f for f in functions if not (isinstance(f, Signal) and f.announced)]
    return bool(plain) and is_timed(group, frame)
