"""The transposed derivative of a function (reverse mode), traced in a fraction of JAX's time.

As in `linearized.py`, the program of a function is followed once, and the derivative of each form
of equation is found once and kept; here it is transposed. Most equations of mechanisms are of a few
kinds, whose transposes are written down in `transposes.py`. Loops are done again on the way back,
from the numbers that they carried, so that nothing else of them has to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jax_core

from .._jaxprs import scan_sizes
from .linearized import CALLS, Form, Value, Walk, bound, evaluate, form, has_programs, read, taken
from .transposes import TRANSPOSES, Back

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import PyTree

    from .._jaxprs import Equation

# What an equation gives: its results, the function from their cotangents (None for zero) to those
# of what it takes, and which results have one.
Derived = tuple[Sequence[Any], Back, Sequence[bool]]


def pulled_back(
    fun: Callable[..., PyTree], *at: Any
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """fun(*at), and the function that takes a cotangent of it to those of `at`, as `jax.vjp`.

    All that is in `at` has to be real numbers.
    """
    closed, shape = jax.make_jaxpr(fun, return_shape=True)(*at)
    leaves, tree = jax.tree.flatten(at)
    outs, back = followed_back(closed, leaves)

    def pull(cotangent: PyTree) -> tuple[Any, ...]:
        found = back(jax.tree.leaves(cotangent))
        zeros = (jnp.zeros_like(x) if y is None else y for x, y in zip(leaves, found, strict=True))
        return tree.unflatten(zeros)

    return jax.tree.structure(shape).unflatten(outs), pull


def depends(jaxpr: jax_core.Jaxpr, active: Sequence[bool]) -> list[bool]:
    """Which real results of a program depend on those of its arguments that are `active`."""
    known = {v for v, a in zip(jaxpr.invars, active, strict=True) if a}
    moves = lambda v: not isinstance(v, jax_core.Literal) and v in known  # noqa: E731
    for eqn in jaxpr.eqns:
        given = [moves(v) for v in eqn.invars]
        if not any(given) or eqn.primitive.name == "stop_gradient":
            continue
        if eqn.primitive.name in CALLS:
            inner = eqn.params[CALLS[eqn.primitive.name]]
            found = depends(getattr(inner, "jaxpr", inner), given)
        else:
            found = [True] * len(eqn.outvars)
        known.update(v for v, a in zip(eqn.outvars, found, strict=True) if a and _is_real(v.aval))
    return [moves(v) for v in jaxpr.outvars]


def _is_real(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.inexact)


def followed_back(
    closed: jax_core.ClosedJaxpr,
    primals: Sequence[np.ndarray | Array],
    active: Sequence[bool] | None = None,
) -> tuple[list[Any], Callable[[Sequence[Any]], list[Any]]]:
    """The results of a program, and the function from their cotangents to those of its `active`
    arguments; None stands for zero."""
    active = [True] * len(primals) if active is None else active
    walk = _BackWalk(sum(active))
    places = iter(range(sum(active)))
    given = [Value(x, next(places) if a else None) for x, a in zip(primals, active, strict=True)]
    outs = walk.follow(closed.jaxpr, closed.consts, given)

    def back(cotangents: Sequence[Array | None]) -> list[Any]:
        return walk.back([x.tangent for x in outs], cotangents)

    return [x.primal for x in outs], back


class _BackWalk(Walk):
    """A program that is followed once, and the equations between cotangents from its end on."""

    def derived(self, eqn: Equation, primals: list[Any], active: list[bool]) -> Derived:
        name = eqn.primitive.name
        if name == "stop_gradient":
            return bound(eqn, primals), lambda cotangents: [], [False] * len(eqn.outvars)
        if name in _STRUCTURED:
            return _STRUCTURED[name](eqn, primals, active)
        if has_programs(eqn):
            return _by_jax(eqn, primals, active)
        rule = TRANSPOSES.get(name)
        found = None
        if rule is not None and _is_real(eqn.outvars[0].aval):
            outs = bound(eqn, primals)
            found = rule(eqn, primals, active, outs)
            if found is not None:
                return outs, found, [True] * len(outs)
        return _by_form(form(eqn, active), primals)

    def linear_solve(self, eqn: Any, values: list[Value]) -> list[Value]:
        active = [x.tangent is not None for x in values]
        derived = _linear_solve(eqn, [x.primal for x in values], active)
        return self.added(*derived, taken(values))

    def back(self, places: Sequence[int | None], given: Sequence[Array | None]) -> list[Any]:
        """The cotangents of the arguments for those of the numbers in `places`."""
        found: list[Any] = [None] * self.count

        def add(place: int | None, x: Array | None) -> None:
            if place is not None and x is not None:
                found[place] = x if found[place] is None else lax.add(found[place], x)

        for place, x in zip(places, given, strict=True):
            add(place, x)
        end = self.count
        for takes, function, first in reversed(self.equations):
            cotangents = found[first:end]
            end = first
            if any(x is not None for x in cotangents):
                for place, x in zip(takes, function(cotangents), strict=True):
                    add(place, x)
        return found[: self.arguments]


def _filled(cotangents: Sequence[Array | None], avals: Sequence[Any]) -> list[Array]:
    """Zeros where there is no cotangent."""
    return [
        jnp.zeros(v.shape, v.dtype) if x is None else x
        for x, v in zip(cotangents, avals, strict=True)
    ]


def _by_form(kept: Form, primals: Sequence[np.ndarray | Array]) -> Derived:
    """An equation by JAX's derivative of its form, transposed by JAX."""
    if kept.back is None:
        kept.back = _Transposed(kept)
    env: dict[Any, Any] = {**dict(kept.constants), **dict(zip(kept.primals, primals))}
    evaluate(kept.once, env)
    transposed: _Transposed = kept.back
    needed = [env[v] for v in transposed.needed]

    def back(cotangents: Sequence[Array]) -> list[Any]:
        return transposed(needed, _filled(cotangents, transposed.avals))

    return [read(env, v) for v in kept.outs], back, kept.moving


class _Transposed:
    """The linear equations of a form, transposed: a program of what they need and cotangents."""

    def __init__(self, kept: Form):
        own = {v for eqn in kept.linear for v in eqn.outvars} | set(kept.tangents)
        used = [v for eqn in kept.linear for v in eqn.invars if not isinstance(v, jax_core.Literal)]
        self.needed = list(dict.fromkeys(v for v in used if v not in own))
        self.avals = [v.aval for v in kept.changes]

        def transposed(needed: list[Array], cotangents: list[Array]) -> tuple[Array, ...]:
            def linear(*changes: Array) -> list[Any]:
                env = dict(zip(self.needed, needed)) | dict(zip(kept.tangents, changes))
                evaluate(kept.linear, env)
                return [read(env, v) for v in kept.changes]

            return jax.linear_transpose(linear, *(_shape(v) for v in kept.tangents))(cotangents)

        shapes = [_shape(v) for v in self.needed], [_shape(v) for v in kept.changes]
        closed = jax.make_jaxpr(transposed)(*shapes)
        self.jaxpr, self.consts = closed.jaxpr, closed.consts

    def __call__(self, needed: Sequence[Array], cotangents: Sequence[Array]) -> list[Any]:
        env = dict(zip(self.jaxpr.constvars, self.consts))
        env.update(zip(self.jaxpr.invars, [*needed, *cotangents], strict=True))
        evaluate(self.jaxpr.eqns, env)
        return [read(env, v) for v in self.jaxpr.outvars]


def _shape(var: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype)


# -- equations with programs inside ------------------------------------------------------------


def _by_jax(eqn: Equation, primals: list[Array], active: list[bool]) -> Derived:
    """A function with a derivative of its own, or what there is no rule for here."""

    def function(*moving: Any) -> list[Any]:
        given = iter(moving)
        return list(bound(eqn, [next(given) if a else x for x, a in zip(primals, active)]))

    outs, pull = jax.vjp(function, *(x for x, a in zip(primals, active, strict=True) if a))
    real = [_is_real(v.aval) for v in eqn.outvars]

    def back(cotangents: Sequence[Array]) -> list[Any]:
        given = iter(_filled(cotangents, [v.aval for v, r in zip(eqn.outvars, real) if r]))
        none = lambda v: np.zeros(v.aval.shape, jax.dtypes.float0)  # noqa: E731
        return list(pull([next(given) if r else none(v) for v, r in zip(eqn.outvars, real)]))

    return outs, back, real


def _linear_solve(eqn: Equation, primals: list[Any], active: list[bool]) -> Derived:
    """x = A^-1 b: the cotangent of b is y = A^-T x', that of A what -y pulls back from A x."""
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    if jaxprs.transpose_solve is None:
        return _by_jax(eqn, primals, active)
    cuts = np.cumsum([lengths.matvec, lengths.vecmat, lengths.solve, lengths.transpose_solve])
    of_product, of_transpose = primals[: cuts[0]], primals[cuts[2] : cuts[3]]
    moving, sides = active[: cuts[0]], active[cuts[3] :]
    outs = list(bound(eqn, primals))

    def back(cotangents: Sequence[Any]) -> list[Any]:
        filled = _filled(cotangents, [v.aval for v in eqn.outvars])
        y = jax_core.jaxpr_as_fun(jaxprs.transpose_solve)(*of_transpose, *filled)
        found: list[Any] = []
        if any(moving):
            given = [*of_product, *outs]
            _, pull = followed_back(jaxprs.matvec, given, [*moving, *[False] * len(outs)])
            found = pull([lax.neg(x) for x in y])
        # nothing of the other functions' constants: they are the same matrix
        found += [None] * sum(active[cuts[0] : cuts[3]])
        return [*found, *(x for x, a in zip(y, sides, strict=True) if a)]

    return outs, back, [True] * len(outs)


def _scan(eqn: Equation, primals: list[Array], active: list[bool]) -> Derived:
    """What is carried is kept, and the loop done again from its end, each round by itself."""
    p = eqn.params
    closed, (n_const, n_carry) = p["jaxpr"], scan_sizes(p)
    consts, start, rows = _cut(primals, n_const, n_carry)
    moves = list(active)
    while True:  # what is carried moves if anything it comes from does
        found = depends(closed.jaxpr, moves)
        more = [a or b for a, b in zip(moves[n_const:], found[:n_carry])]
        if moves[n_const : n_const + n_carry] == more:
            break
        moves[n_const : n_const + n_carry] = more
    run = jax_core.jaxpr_as_fun(closed)
    options = {"length": p["length"]}

    def forward(carry: Sequence[Array], row: Any) -> Any:
        done = run(*consts, *carry, *row)
        return done[:n_carry], (carry, done[n_carry:])

    end, (kept, stacked) = lax.scan(forward, start, rows, reverse=p["reverse"], **options)
    of_consts, of_carry = moves[:n_const], moves[n_const : n_const + n_carry]
    moving = [*of_carry, *found[n_carry:]]

    def back(cotangents: Sequence[Array | None]) -> list[Any]:
        given = iter(_filled(cotangents, [v.aval for v, m in zip(eqn.outvars, moving) if m]))
        last = [next(given) for m in of_carry if m]
        ends = [next(given) for m in found[n_carry:] if m]
        total = [jnp.zeros_like(x) for x, m in zip(consts, of_consts, strict=True) if m]

        def backward(state: tuple[Sequence[Array], Sequence[Array]], row: Any) -> Any:
            (later, total), (carry, given, cotangents) = state, row
            _, pull = followed_back(closed, [*consts, *carry, *given], moves)
            each = [iter(later), iter(cotangents)]
            out = [
                next(each[k >= n_carry]) if m else None
                for k, m in enumerate([*of_carry, *found[n_carry:]])
            ]
            got = pull(out)
            first, second = len(total), len(total) + len(later)
            total = [x if y is None else lax.add(x, y) for x, y in zip(total, got[:first])]
            got = _filled(got[first:], [v.aval for v, m in _moving(closed.jaxpr, n_const, moves)])
            return (got[: second - first], total), got[second - first :]

        (first, total), of_given = lax.scan(
            backward, (last, total), (kept, rows, ends), reverse=not p["reverse"], **options
        )
        wanted = iter([*total, *first, *of_given])
        found_all = [next(wanted) if m else None for m in moves]
        return [x for x, a in zip(found_all, active, strict=True) if a]

    return [*end, *stacked], back, moving


def _moving(jaxpr: jax_core.Jaxpr, n_const: int, moves: Sequence[bool]) -> list[tuple[Any, bool]]:
    pairs = zip(jaxpr.invars[n_const:], moves[n_const:], strict=True)
    return [(v, m) for v, m in pairs if m]


def _cut(x: Sequence[Array], *sizes: int) -> list[list[Any]]:
    """The first ones, the next ones, and the others."""
    first, second = sizes[0], sizes[0] + sizes[1]
    return [list(x[:first]), list(x[first:second]), list(x[second:])]


def _cond(eqn: Equation, primals: list[Any], active: list[bool]) -> Derived:
    branches, (which, *given) = eqn.params["branches"], primals
    moves = active[1:]
    outs = list(bound(eqn, primals))
    moving = [any(x) for x in zip(*(depends(b.jaxpr, moves) for b in branches), strict=True)]
    avals = [v.aval for v, m in zip(eqn.outvars, moving, strict=True) if m]
    wanted = [x for x, m in zip(given, moves, strict=True) if m]

    def one(branch: Any) -> Callable[..., Any]:
        def back(given: Any, cotangents: Any) -> Any:
            _, pull = followed_back(branch, given, moves)
            each = iter(cotangents)
            return _filled(pull([next(each) if m else None for m in moving]), wanted)

        return back

    def back(cotangents: Sequence[Any]) -> list[Any]:
        return list(
            lax.switch(which, [one(b) for b in branches], given, _filled(cotangents, avals))
        )

    return outs, back, moving


_STRUCTURED = {"scan": _scan, "cond": _cond}
