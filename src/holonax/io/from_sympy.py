"""A system from the symbols of SymPy: energies and constraints as one writes them by hand.

Lagrange's equations d/dt (dT/dv) - dT/dq + dV/dq = Q - G^T lam are formed by differentiating the
numerical functions, so that expressions need not be differentiated, and do not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._arguments import checked_call, several
from .._messages import listed, shown
from .._optional import require
from ..system.function import FunctionSystem

_OWNER = "from_sympy"


@checked_call
def from_sympy(
    q: Sequence[Any],
    kinetic: Any,
    potential: Any = 0,
    constraints: Sequence[Any] = (),
    *,
    forces: Sequence[Any] | None = None,
    velocities: Sequence[Any] | None = None,
    parameters: Mapping[Any, Any] | None = None,
    time: Any = None,
) -> FunctionSystem:
    """A `FunctionSystem` from SymPy's expressions.

    **Arguments:**

    - `q`: the coordinates: functions of time, as ``dynamicsymbols("x y")`` makes them, whose
      derivatives are the velocities; or plain symbols, with `velocities` beside them.
    - `kinetic`, `potential`: energies [J] of coordinates, velocities, time and parameters.
    - `constraints`: expressions that vanish, of coordinates and time.
    - `forces`: generalized forces that have no potential, one for each coordinate, of coordinates,
      velocities and time.
    - `parameters`: a number for every other symbol; they are the system's parameters by name, so
      they can be changed without compiling again.
    - `time`: the symbol of time; by default SymPy's ``dynamicsymbols._t``, or a plain ``t``.
    """
    sympy = require("sympy")
    coordinates = several(_OWNER, "q", q, "coordinates")
    if not coordinates:
        raise ValueError(f"{_OWNER}: q is empty. Give at least one coordinate.")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(
            f"{_OWNER}: parameters={shown(parameters)} must be a dictionary from symbols to "
            "numbers."
        )
    words = _Words(sympy, coordinates, velocities, time, dict(parameters or {}))
    T = words.function("kinetic", kinetic)
    V = words.function("potential", potential, without=words.v)
    given = several(_OWNER, "constraints", constraints, "expressions")
    g = [words.function(f"constraints[{i}]", x, without=words.v) for i, x in enumerate(given)]
    loads = None
    if forces is not None:
        loads = several(_OWNER, "forces", forces, "expressions")
        if len(loads) != len(coordinates):
            raise ValueError(
                f"{_OWNER}: there are {len(loads)} forces for {len(coordinates)} coordinates. Give "
                "one for each, 0 where none acts."
            )
    Q = None if loads is None else [words.function(f"forces[{i}]", x) for i, x in enumerate(loads)]
    if words.mentions(sympy.sympify(kinetic), words.t) and words.mass_depends_on_time(kinetic):
        raise ValueError(
            f"{_OWNER}: the mass matrix depends on the time {words.t}, which a system does not "
            "know. Make what changes a coordinate, and drive it by a constraint."
        )
    still = words.mentions(sympy.sympify(potential), words.t)

    def mass(q: Any, p: Any) -> Any:
        return jax.hessian(lambda v: T(q, v, 0.0, p))(jnp.zeros_like(q))

    def force(q: Any, v: Any, t: Any, p: Any) -> Any:
        impulse = jax.grad(T, argnums=1)
        # what d/dt (dT/dv) has beside M v'
        turning = jax.jvp(lambda q, t: impulse(q, v, t, p), (q, t), (v, jnp.ones_like(t)))[1]
        out = jax.grad(T)(q, v, t, p) - turning - jax.grad(V)(q, v, t, p)
        return out if Q is None else out + jnp.stack([x(q, v, t, p) for x in Q])

    def constraint(q: Any, t: Any, p: Any) -> Any:
        return jnp.stack([x(q, jnp.zeros_like(q), t, p) for x in g])

    return FunctionSystem(
        mass=mass,
        force=force,
        constraint=constraint if g else None,
        potential=None if still else (lambda q, p: V(q, jnp.zeros_like(q), 0.0, p)),
        parameters={str(name): value for name, value in words.parameters.items()},
        coordinate_names=words.names,
    )


class _Words:
    """Which symbols are coordinates, velocities, time and parameters."""

    def __init__(self, sympy: Any, q: Any, velocities: Any, time: Any, parameters: dict[Any, Any]):
        self.sympy, self.given = sympy, q
        moving = [getattr(x, "is_Function", False) for x in q]
        if any(moving) and not all(moving):
            raise TypeError(
                f"{_OWNER}: q mixes functions of time and plain symbols. Use one kind for all."
            )
        self.names = [x.func.__name__ if m else str(x) for x, m in zip(q, moving, strict=True)]
        if len(set(self.names)) < len(self.names):
            raise ValueError(
                f"{_OWNER}: q names a coordinate twice: {listed(self.names)}. Give each once."
            )
        if all(moving):
            times = {x.args for x in q}
            if len(times) > 1 or len(q[0].args) != 1:
                raise ValueError(
                    f"{_OWNER}: the coordinates must be functions of one and the same time."
                )
            self.t = q[0].args[0] if time is None else time
            rates = [x.diff(self.t) for x in q]
            if velocities is not None:
                raise ValueError(
                    f"{_OWNER}: velocities are the derivatives of q(t); leave them out."
                )
        else:
            self.t = sympy.Symbol("t") if time is None else time
            if velocities is None:
                raise ValueError(
                    f"{_OWNER}: q are plain symbols, so give velocities=, one symbol for each; or "
                    "use functions of time, sympy.physics.mechanics.dynamicsymbols('x y')."
                )
            rates = several(_OWNER, "velocities", velocities, "symbols")
            if len(rates) != len(q):
                raise ValueError(
                    f"{_OWNER}: there are {len(rates)} velocities for {len(q)} coordinates."
                )
        self.q = [sympy.Dummy(f"q_{name}") for name in self.names]
        self.v = [sympy.Dummy(f"v_{name}") for name in self.names]
        # rates first: they contain the coordinates
        self.plain = [*zip(rates, self.v, strict=True), *zip(q, self.q, strict=True)]
        self.parameters = {sympy.sympify(name): x for name, x in parameters.items()}

    def mentions(self, expression: Any, symbol: Any) -> bool:
        return symbol in expression.subs(self.plain).free_symbols

    def mass_depends_on_time(self, kinetic: Any) -> bool:
        T = self.sympy.sympify(kinetic).subs(self.plain)
        return any(self.t in self.sympy.diff(T, a, b).free_symbols for a in self.v for b in self.v)

    def function(self, what: str, said: Any, without: Sequence[Any] = ()) -> Callable[..., Any]:
        """An expression as a function (q, v, t, p) of JAX."""
        try:
            expression = self.sympy.sympify(said)
            plain = expression.subs(self.plain)
        except Exception:
            raise TypeError(f"{_OWNER}: {what}={shown(said)} is no expression of SymPy.") from None
        left = plain.atoms(self.sympy.Derivative)
        if left:
            raise ValueError(
                f"{_OWNER}: {what} has {listed(sorted(map(str, left)))}; only first "
                "derivatives of the coordinates q can be there."
            )
        numbers = list(self.parameters)
        allowed = {*self.q, *self.v, self.t, *numbers} - set(without)
        unknown = sorted(map(str, plain.free_symbols - allowed))
        if unknown:
            if any(str(x) in unknown for x in without):
                raise ValueError(f"{_OWNER}: {what} must not depend on velocities.")
            raise ValueError(
                f"{_OWNER}: {what} has {listed(unknown)} without a value. Give "
                f"parameters={{{unknown[0]}: ...}}."
            )
        order = [*self.q, *self.v, self.t, *numbers]
        compute = self.sympy.lambdify(order, plain, modules="jax", cse=True)
        keys = [str(x) for x in numbers]

        def value(q: Any, v: Any, t: Any, p: Any) -> Any:
            return jnp.asarray(compute(*q, *v, t, *(p[key] for key in keys)), dtype=float)

        return value
