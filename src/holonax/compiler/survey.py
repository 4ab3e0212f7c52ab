"""What is known of a jaxpr before it is taken apart: what of it is needed, how long it is, which of
its arrays are read or written at indices that are not known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jax.extend import core as jax_core

from .._jaxprs import scan_sizes

if TYPE_CHECKING:
    from .._jaxprs import Equation

UNROLLED = 3000  # operations up to which a loop of known length is written out
LONGEST = 32  # and how often it may be done
_COUNTING = 4  # operations by which counters of a loop are advanced
# Entries of arrays on average, and operations, from which on a program is written in loops.
WIDTH, WIDE_FROM = 19, 30_000

# Primitives that call functions, and what they call these.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}
# Primitives that compute nothing.
MOVING = {
    *("reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose", "slice", "rev", "copy"),
    *("gather", "dynamic_slice", "split", "unstack", "stack", "concatenate", "pad", "tile", "iota"),
    *("copy_p", "stop_gradient", "optimization_barrier", "select_if_vmap", "nonbatchable"),
    *("convert_element_type", "dynamic_update_slice", "empty"),
}
_AT_INDICES = {"dynamic_slice", "dynamic_update_slice", "scatter", "scatter-add", "gather"}


def opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """A jaxpr and its constants, of a closed or an open one."""
    return (jaxpr.jaxpr, jaxpr.consts) if hasattr(jaxpr, "consts") else (jaxpr, ())


def inner_jaxprs(eqn: Equation) -> list[jax_core.Jaxpr]:
    """The jaxprs that an equation has among its parameters."""
    found: list[Any] = []
    if not eqn.params:
        return found
    for value in eqn.params.values():
        for x in value if isinstance(value, (tuple, list)) else (value,):
            if hasattr(x, "eqns") or hasattr(x, "jaxpr"):
                found.append(opened(x)[0])
    return found


def length_of(eqn: Equation) -> int:
    """How often the body of a scan is done."""
    return eqn.params["length"]


class Plan(NamedTuple):
    """What is needed of a jaxpr: its equations, which inputs, where each variable is last used, and
    how often it is used."""

    equations: list[Any]
    inputs: list[bool]
    last: dict[Any, int]
    uses: dict[Any, int]


def _chosen(which: Any, count: int) -> list[bool]:
    """What is needed of a choice that is known: itself, and one of so many cases."""
    return [True, *(k == int(which) for k in range(count))]


def _chosen_inside(eqn: Equation, inner: Any) -> list[bool] | None:
    """The same for a call that is nothing but such a choice, as jnp.where is; None for others.

    What is not chosen may then be changed in place: the memory of a method, of which diffrax keeps
    the old one where a step is not kept.
    """
    if len(inner.eqns) != 1 or inner.eqns[0].primitive.name != "select_n":
        return None
    places = {v: k for k, v in enumerate(inner.invars)}
    given = inner.eqns[0].invars
    cases = [places[v] for v in given if not isinstance(v, jax_core.Literal) and v in places]
    if len(cases) != len(given):
        return None
    which = eqn.invars[cases[0]]
    if not isinstance(which, jax_core.Literal):
        return None
    return [k in (cases[0], cases[1 + int(which.val)]) for k in range(len(inner.invars))]


class Survey:
    """Looks at the jaxprs of one program, each once. `most` is the number of entries up to which an
    array is taken apart, `unrolled` that of operations up to which a loop is written out; `counted`
    if also loops are whose rounds are known only from tables."""

    def __init__(self, most: int, unrolled: int | None = None, counted: bool = False) -> None:
        self._most, self._counted = most, counted
        self._unrolled = UNROLLED if unrolled is None else unrolled
        self._plans: dict[Any, Plan] = {}
        self._weights: dict[int, tuple[int, int]] = {}
        self._at_indices: dict[int, set[Any]] = {}
        self._kept: list[Any] = []  # jaxprs whose identity is used as a key

    def plan(self, jaxpr: jax_core.Jaxpr, wanted: tuple[bool, ...]) -> Plan:
        """What is needed of a jaxpr for some of its results."""
        key = (id(jaxpr), wanted)
        if key not in self._plans:
            self._kept.append(jaxpr)
            self._plans[key] = self._planned(jaxpr, wanted)
        return self._plans[key]

    def _planned(self, jaxpr: Any, wanted: tuple[bool, ...]) -> Plan:
        needed: set[Any] = set()
        last: dict[Any, int] = {}
        uses: dict[Any, int] = {}

        literal = jax_core.Literal

        def use(var: Any, at: int) -> None:
            if isinstance(var, literal):
                return
            needed.add(var)
            last.setdefault(var, at)
            uses[var] = uses.get(var, 0) + 1

        for var, want in zip(jaxpr.outvars, wanted, strict=True):
            if want:
                use(var, len(jaxpr.eqns))
        equations = []
        for at in reversed(range(len(jaxpr.eqns))):
            eqn = jaxpr.eqns[at]
            outs = tuple(v in needed for v in eqn.outvars)
            if not any(outs) and not eqn.effects:
                continue
            for var, want in zip(eqn.invars, self._inputs_needed(eqn, outs), strict=True):
                if want:
                    use(var, at)
            equations.append((at, eqn, outs))
        return Plan(equations[::-1], [v in needed for v in jaxpr.invars], last, uses)

    def _inputs_needed(self, eqn: Equation, outs: tuple[bool, ...]) -> list[bool]:
        name = eqn.primitive.name
        if name in CALLS and CALLS[name] in eqn.params:
            inner = opened(eqn.params[CALLS[name]])[0]
            return _chosen_inside(eqn, inner) or self.plan(inner, outs).inputs
        if name == "select_n" and isinstance(eqn.invars[0], jax_core.Literal):
            return _chosen(eqn.invars[0].val, len(eqn.invars) - 1)
        if name == "select_if_vmap":  # nothing is batched here
            return [False, True, False]
        if name == "custom_linear_solve":
            lengths = eqn.params["const_lengths"]
            inner = opened(eqn.params["jaxprs"].solve)[0]
            inputs = self.plan(inner, outs).inputs
            before = lengths.matvec + lengths.vecmat
            after = sum(lengths) - before - lengths.solve
            solve, right = inputs[: lengths.solve], inputs[lengths.solve :]
            return [False] * before + solve + [False] * after + right
        return [True] * len(eqn.invars)

    def weight(self, jaxpr: jax_core.Jaxpr) -> int:
        """About how many scalar operations a jaxpr is; loops of unknown length count once."""
        return self._measured(jaxpr)[0]

    def is_wide(self, jaxpr: jax_core.Jaxpr) -> bool:
        """Whether a program is long, and its arrays have many entries on average."""
        weight, equations = self._measured(jaxpr)
        return weight > WIDE_FROM and weight > WIDTH * equations

    def _measured(self, jaxpr: Any) -> tuple[int, int]:
        """(scalar operations, operations on arrays), roughly."""
        key = id(jaxpr)
        if key not in self._weights:
            self._kept.append(jaxpr)
            weight = equations = 0
            for eqn in jaxpr.eqns:
                name = eqn.primitive.name
                if name in MOVING:
                    continue
                inner = inner_jaxprs(eqn)
                if name == "custom_linear_solve":
                    inner = [opened(eqn.params["jaxprs"].solve)[0]]
                if not inner:
                    weight += max((min(v.aval.size, self._most) for v in eqn.outvars), default=0)
                    equations += 1
                    continue
                w, e = (sum(x) for x in zip(*map(self._measured, inner), strict=True))
                if name == "scan" and w * eqn.params["length"] <= self._unrolled:
                    w, e = w * eqn.params["length"], e * eqn.params["length"]
                weight += w + (1000 if name == "while" and not self._counted else 0)
                equations += e
            self._weights[key] = weight, equations
        return self._weights[key]

    def rows(self, jaxpr: jax_core.Jaxpr) -> dict[int, int]:
        """How many operations there are on rows of each length."""
        return self._counted_rows(jaxpr, {})

    def _counted_rows(self, jaxpr: Any, known: dict[int, dict[int, int]]) -> dict[int, int]:
        """The same; `known` are those of the jaxprs that were looked at already."""
        if id(jaxpr) in known:
            return known[id(jaxpr)]
        measured: dict[int, int] = {}
        for eqn in jaxpr.eqns:
            moving = eqn.primitive.name in MOVING
            for inner in () if moving else inner_jaxprs(eqn):
                for n, count in self._counted_rows(inner, known).items():
                    measured[n] = measured.get(n, 0) + count
            shape = eqn.outvars[0].aval.shape if eqn.outvars else ()
            if shape and not moving:
                n = shape[-1]
                measured[n] = measured.get(n, 0) + min(math.prod(shape), self._most)
        known[id(jaxpr)] = measured
        return measured

    def is_short(self, length: int, body: jax_core.Jaxpr) -> bool:
        """Whether a loop of known length is written out."""
        return length == 1 or (length <= LONGEST and length * self.weight(body) <= self._unrolled)

    def counters(
        self, condition: Any, of_cond: int, body: Any, of_body: int
    ) -> tuple[bool, ...] | None:
        """What decides how often a loop is done, among what it carries; None unless these are a few
        counters."""
        if not self._counted:
            return None
        needed = self.plan(condition, (True,)).inputs[of_cond:]
        while True:
            plan = self.plan(body, tuple(needed))
            both = [a or b for a, b in zip(needed, plan.inputs[of_body:], strict=True)]
            if len(plan.equations) > _COUNTING:
                return None
            if both == needed:
                return tuple(needed)
            needed = both

    def is_indexed(self, jaxpr: Any, var: Any) -> bool:
        """Whether an array is read or written at indices that are not known."""
        key = id(jaxpr)
        if key not in self._at_indices:
            self._kept.append(jaxpr)
            self._at_indices[key] = {v for eqn in jaxpr.eqns for v in self._indexed_by(eqn)}
        return var in self._at_indices[key]

    def _indexed_by(self, eqn: Equation) -> list[Any]:
        """The variables that an equation reads or writes at indices that are not known."""
        name, p, given = eqn.primitive.name, eqn.params, eqn.invars
        pairs: Any = ()
        if name in _AT_INDICES:
            size = given[1].aval.size if name == "dynamic_update_slice" else -1
            found = [given[0]] if eqn.outvars[0].aval.size != size else []
            return [v for v in found if not isinstance(v, jax_core.Literal)]
        if name in CALLS and CALLS[name] in p:
            inner = opened(p[CALLS[name]])[0]
            pairs = zip(given, inner.invars, strict=True)
        elif name == "scan":
            inner, last = opened(p["jaxpr"])[0], sum(scan_sizes(p))
            if self.is_short(length_of(eqn), inner):
                return []
            rows = [v for v in given[last:] if not isinstance(v, jax_core.Literal)]
            pairs = zip(given[:last], inner.invars[:last], strict=True)
            return [*rows, *self._indexed_inside(inner, pairs)]
        elif name == "while":
            inner = opened(p["body_jaxpr"])[0]
            pairs = zip(given[p["cond_nconsts"] :], inner.invars, strict=True)
        else:
            return []
        return self._indexed_inside(inner, pairs)

    def _indexed_inside(self, inner: jax_core.Jaxpr, pairs: Any) -> list[Any]:
        return [
            v for v, u in pairs if not isinstance(v, jax_core.Literal) and self.is_indexed(inner, u)
        ]
