"""The derivative of a function as a linear function, traced in a fraction of JAX's time.

JAX differentiates each equation of a program anew. A mechanism's program has thousands of
equations of some hundred forms, so the derivative of each form is found once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jax_core

from .known_tables import are_known, known

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree

    from .._jaxprs import Equation

# Calls that are looked into, and what they call what is inside.
CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}
# Of these the derivative has the same structure as the equation, which JAX takes apart.
_STRUCTURED = {"scan", "while", "cond"}

Tangent = Callable[..., Sequence[Any]]


def linearized(fun: Callable[..., PyTree], *at: Any) -> tuple[PyTree, Callable[..., PyTree]]:
    """fun(*at), and the function that takes changes of `at` to that of fun(*at), as
    `jax.linearize`.

    What the derivative needs of `at` is computed here, once for all changes.
    """
    closed, shape = jax.make_jaxpr(fun, return_shape=True)(*at)
    leaves, tree = jax.tree.flatten(shape)
    given = jax.tree.leaves(at)
    walk = Walk(len(given))
    outs = walk.follow(closed.jaxpr, closed.consts, [Value(x, k) for k, x in enumerate(given)])

    def along(*changes: Any) -> PyTree:
        tangents = walk.along(jax.tree.leaves(changes))
        found = [
            jnp.zeros(x.shape, _tangent_type(x)) if y.tangent is None else tangents[y.tangent]
            for x, y in zip(leaves, outs, strict=True)
        ]
        return jax.tree.unflatten(tree, found)

    return jax.tree.unflatten(tree, [y.primal for y in outs]), along


def derivative(fun: Callable[..., PyTree], at: tuple[Any, ...], along: tuple[Any, ...]) -> PyTree:
    """The derivative of fun at `at` in the direction `along`."""
    return linearized(fun, *at)[1](*along)


class Value(NamedTuple):
    """A number or array of the program, and which of the tangents is its own, if it has one."""

    primal: Any
    tangent: int | None = None


class TangentEquation(NamedTuple):
    """An equation between tangents: those it takes, the function, and its first result."""

    takes: list[int]
    function: Tangent
    first: int


class Walk:
    """A program that is followed once; the equations between tangents are kept in a list."""

    def __init__(self, arguments: int) -> None:
        self.equations: list[TangentEquation] = []
        self.arguments = self.count = arguments

    def follow(
        self, jaxpr: jax_core.Jaxpr, consts: Sequence[np.ndarray | Array], args: Sequence[Value]
    ) -> list[Value]:
        """The results of a program."""
        env: dict[Any, Value] = {}
        env.update((v, Value(x)) for v, x in zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(var: Any) -> Value:
            return Value(var.val) if isinstance(var, jax_core.Literal) else env[var]

        for eqn in jaxpr.eqns:
            env.update(zip(eqn.outvars, self._equation(eqn, [read(v) for v in eqn.invars])))
        return [read(v) for v in jaxpr.outvars]

    def _equation(self, eqn: Any, values: list[Value]) -> list[Value]:
        name = eqn.primitive.name
        primals = [x.primal for x in values]
        active = [x.tangent is not None for x in values]
        if not any(active) and not (name in CALLS and are_known(eqn, primals)):
            found = known(eqn, primals)
            return [Value(y) for y in (bound(eqn, primals) if found is None else found)]
        if name in CALLS:
            inner = eqn.params[CALLS[name]]
            closed = hasattr(inner, "consts")
            return self.follow(
                inner.jaxpr if closed else inner, inner.consts if closed else (), values
            )
        if name == "custom_linear_solve":
            return self.linear_solve(eqn, values)
        return self.added(*self.derived(eqn, primals, active), taken(values))

    def linear_solve(self, eqn: Any, values: list[Value]) -> list[Value]:
        """x = A^-1 b moves by A^-1 (db - dA x), the factor of A being at hand."""
        lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
        matrix = [y.primal for y in values[: sum(lengths)]]
        x = bound(eqn, [y.primal for y in values])
        given = [*values[: lengths.matvec], *map(Value, x)]
        products = self.follow(jaxprs.matvec.jaxpr, jaxprs.matvec.consts, given)
        places = [[y.tangent for y in ys] for ys in (values[sum(lengths) :], products)]

        def tangent(*changes: Array) -> Sequence[Any]:
            each = iter(changes)
            sides, other = ([None if k is None else next(each) for k in ks] for ks in places)
            rest = [_less(*y) for y in zip(sides, other, x, strict=True)]
            return bound(eqn, [*matrix, *rest])  # so that this can be differentiated, too

        takes = [k for ks in places for k in ks if k is not None]
        return self.added(x, tangent, [bool(takes)] * len(x), takes)

    def derived(
        self, eqn: Equation, primals: list[np.ndarray | Array], active: list[bool]
    ) -> tuple[Sequence[Any], Tangent, Sequence[bool]]:
        """The results of an equation, the function between tangents, and which results have one."""
        if eqn.primitive.name in _STRUCTURED or has_programs(eqn):
            return _by_jax(eqn, primals, active)
        return form(eqn, active).applied(primals)

    def added(
        self, outs: Sequence[Array], function: Tangent, moving: Sequence[bool], takes: list[int]
    ) -> list[Value]:
        if any(moving):
            self.equations.append(TangentEquation(takes, function, self.count))
        found = []
        for y, moves in zip(outs, moving, strict=True):
            found.append(Value(y, self.count if moves else None))
            self.count += moves
        return found

    def along(self, changes: Sequence[Array]) -> PyTree:
        """All tangents for changes of the arguments."""
        tangents: list[Any] = [*changes, *[None] * (self.count - self.arguments)]
        for takes, function, first in self.equations:
            for k, y in enumerate(function(*(tangents[i] for i in takes))):
                tangents[first + k] = y
        return tangents


def taken(values: Sequence[Value]) -> list[int]:
    """The tangents of those that have one."""
    return [x.tangent for x in values if x.tangent is not None]


def _less(x: Array | None, y: Array | None, like: Array) -> Array:
    """x - y, None standing for zero."""
    if y is None:
        return jnp.zeros_like(like) if x is None else x
    return lax.neg(y) if x is None else lax.sub(x, y)


def bound(eqn: Equation, primals: Sequence[Array]) -> Sequence[Array]:
    """The results of an equation, traced or computed."""
    params = eqn.primitive.get_bind_params(eqn.params)
    functions = ()
    if isinstance(params, tuple):  # as older versions of JAX give them
        functions, params = params
    out = eqn.primitive.bind(*functions, *primals, **params)
    return out if eqn.primitive.multiple_results else [out]


def _tangent_type(x: Array) -> Any:
    return x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jax.dtypes.float0


def has_programs(eqn: Equation) -> bool:
    """Whether an equation has programs among its parameters."""
    return any(
        hasattr(x, "eqns") or hasattr(x, "jaxpr") or (callable(x) and not isinstance(x, type))
        for value in eqn.params.values()
        for x in (value if isinstance(value, (tuple, list)) else (value,))
    )


def _by_jax(
    eqn: Equation, primals: list[Any], active: list[bool]
) -> tuple[Any, Tangent, list[bool]]:
    """A loop, a branch, or a function with a derivative of its own."""

    def function(*moving: Any) -> Sequence[Any]:
        given = iter(moving)
        return list(bound(eqn, [next(given) if a else x for x, a in zip(primals, active)]))

    at = [x for x, a in zip(primals, active, strict=True) if a]
    outs, along = jax.linearize(function, *at)
    real = [jnp.issubdtype(jnp.result_type(y), jnp.inexact) for y in outs]

    def tangent(*changes: Array) -> Sequence[Any]:
        return [y for y, moves in zip(along(*changes), real, strict=True) if moves]

    return outs, tangent, real


class Form:
    """The derivative of equations of one form, as a program of primals and tangents.

    Its equations are sorted into those that need no tangent, done once, and the others.
    """

    def __init__(self, eqn: Equation, active: Sequence[bool]) -> None:
        def derivative(primals: list[Array], changes: list[Array]) -> PyTree:
            def function(*moving: Any) -> Sequence[Any]:
                given = iter(moving)
                return list(bound(eqn, [next(given) if a else x for x, a in zip(primals, active)]))

            at = [x for x, a in zip(primals, active, strict=True) if a]
            return jax.jvp(function, at, changes)

        avals = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
        changes = [x for x, a in zip(avals, active, strict=True) if a]
        closed = jax.make_jaxpr(derivative)(avals, changes)
        jaxpr = closed.jaxpr
        self.constants = list(zip(jaxpr.constvars, closed.consts, strict=True))
        self.primals, self.tangents = jaxpr.invars[: len(avals)], jaxpr.invars[len(avals) :]
        depends = set(self.tangents)

        def moves(var: Any) -> bool:
            return not isinstance(var, jax_core.Literal) and var in depends

        self.once, self.linear = [], []
        for inner in jaxpr.eqns:
            moving = any(map(moves, inner.invars))
            (self.linear if moving else self.once).append(inner)
            if moving:
                depends.update(inner.outvars)
        n = len(jaxpr.outvars) // 2
        self.outs = jaxpr.outvars[:n]
        # a tangent that depends on none is zero
        self.moving = [moves(v) for v in jaxpr.outvars[n:]]
        self.changes = [v for v in jaxpr.outvars[n:] if moves(v)]
        self.back: Any = None  # transposed, once that was asked for

    def applied(
        self, primals: Sequence[np.ndarray | Array]
    ) -> tuple[list[Any], Tangent, list[bool]]:
        """The results, the function between tangents, and which results have one."""
        env: dict[Any, Any] = {**dict(self.constants), **dict(zip(self.primals, primals))}
        evaluate(self.once, env)

        def tangent(*changes: Array) -> list[Any]:
            inner = {**env, **dict(zip(self.tangents, changes, strict=True))}
            evaluate(self.linear, inner)
            return [read(inner, v) for v in self.changes]

        return [read(env, v) for v in self.outs], tangent, self.moving


def read(env: dict[Any, Any], var: Any) -> Array:
    """What a variable or a literal is."""
    return var.val if isinstance(var, jax_core.Literal) else env[var]


def evaluate(equations: Sequence[Any], env: dict[Any, Any]) -> None:
    """Add the results of equations to what variables are."""
    for eqn in equations:
        env.update(zip(eqn.outvars, bound(eqn, [read(env, v) for v in eqn.invars])))


_forms: dict[Any, Form] = {}
_MOST = 10_000  # forms that are kept


def form(eqn: Any, active: Sequence[bool]) -> Form:
    """The form of an equation, with the arguments that are `active`."""
    avals = tuple((v.aval.shape, v.aval.dtype, v.aval.weak_type) for v in eqn.invars)
    key = (eqn.primitive, tuple(sorted(eqn.params.items(), key=_name)), avals, tuple(active))
    try:
        found = _forms.get(key)
    except TypeError:  # a parameter that cannot be compared
        return Form(eqn, active)
    if found is None:
        if len(_forms) >= _MOST:
            _forms.clear()
        found = _forms[key] = Form(eqn, active)
    return found


def _name(item: tuple[str, Any]) -> str:
    return item[0]
