"""Whether what is given to resume a run is what the run was begun with.

Numbers, names and structure are compared as they were recorded. Functions are not in a file: they
are compared by the programs that JAX traces them to, with all numbers in them; where a function is
written, and under which name, does not matter.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.extend import core

from ...compiler.fingerprint import Unknown, fingerprint
from ...system.base import System
from ..events import Event, Impact

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# What a primitive is told beside what it computes.
_ASIDE = {"name", "jvp_jaxpr_fun", "jvp_jaxpr_thunk", "fwd_jaxpr_thunk", "bwd", "ctx_mesh"}


def traced(
    system: System, events: tuple[Event, ...], t: Any, q: ArrayLike, v: ArrayLike
) -> dict[str, str]:
    """The programs of a system's and of events' functions, each as one number."""
    t, q, v = (np.asarray(x, dtype=float) for x in (t, q, v))

    def force(t: Any, q: Any, v: Any) -> Any:
        along = (system.qdot(q, v), v)
        return jax.jvp(lambda q, v: system.force(q, v, t), (q, v), along)

    parts: dict[str, Callable[..., Any]] = {
        "mass": lambda t, q, v: system.mass_matrix(q),
        "force": force,
        "constraint": lambda t, q, v: system.constraint(q, t),
        "rate of the constraints": lambda t, q, v: system.constraint_rate(q, v, t),
        "second rate of the constraints": lambda t, q, v: system.gamma(q, v, t),
        "potential energy": lambda t, q, v: system.potential_energy(q),
    }
    for event in (event.on(system) for event in events):
        parts[f"event {event.name!r}"] = lambda t, q, v, e=event: e.value(system, t, q, v)
        if event.change is not None and not isinstance(event.change, Impact):
            parts[f"change of event {event.name!r}"] = event.changed
    return {name: program(part, t, q, v) for name, part in parts.items()}


def program(function: Callable[..., Any], *arguments: ArrayLike) -> str:
    """A function's program, as one number: what it does with arguments like these."""
    digest = hashlib.sha256()
    for word in _closed(jax.make_jaxpr(function)(*arguments)):
        data = word if isinstance(word, bytes) else str(word).encode()
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def _closed(closed: Any) -> Iterator[Any]:
    for constant in closed.consts:
        yield from _value(constant)
    yield from _jaxpr(closed.jaxpr)


def _jaxpr(jaxpr: Any) -> Iterator[Any]:
    """Operations in their order, variables by when they first appear."""
    numbers: dict[Any, int] = {}

    def variable(x: Any) -> Iterator[Any]:
        if isinstance(x, core.Literal):
            yield from _value(x.val)
        else:
            yield numbers.setdefault(x, len(numbers))
        yield getattr(x.aval, "str_short", lambda: str(x.aval))()

    for x in (*jaxpr.constvars, *jaxpr.invars):
        yield from variable(x)
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for x in equation.invars:
            yield from variable(x)
        for key in sorted(equation.params):
            if key not in _ASIDE:
                yield key
                yield from _value(equation.params[key])
        for x in equation.outvars:
            yield from variable(x)
    for x in jaxpr.outvars:
        yield from variable(x)


def _value(x: object) -> Iterator[Any]:
    """A constant, or what a primitive is told."""
    if isinstance(x, core.ClosedJaxpr):
        yield from _closed(x)
    elif isinstance(x, core.Jaxpr):
        yield from _jaxpr(x)
    elif isinstance(x, (np.ndarray, np.generic, jax.Array)):
        x = np.asarray(x)
        yield from (x.dtype.str, x.shape, np.ascontiguousarray(x).tobytes())
    elif isinstance(x, (tuple, list)):
        yield f"sequence of {len(x)}"
        for y in x:
            yield from _value(y)
    elif isinstance(x, dict):
        for key in sorted(x, key=str):
            yield key
            yield from _value(x[key])
    elif x is None or isinstance(x, (bool, int, float, complex, str, bytes, np.dtype)):
        yield type(x).__name__
        yield x if isinstance(x, bytes) else repr(x)
    elif callable(x) or hasattr(x, "callback_func"):  # a function that is called back
        inner = getattr(x, "callback_func", x)
        try:
            yield fingerprint(inner)
        except Unknown:
            yield getattr(inner, "__qualname__", type(inner).__qualname__)
    else:  # a setting of JAX
        yield type(x).__qualname__
        yield re.sub(r" at 0x\w+", "", repr(x))
