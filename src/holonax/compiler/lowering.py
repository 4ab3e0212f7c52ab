"""From a jaxpr to scalar operations: the walk over its equations, calls, loops and branches.

What each primitive becomes is in `primitives.py`, `moving.py` and `algebra.py`; here is what holds
them together. Arrays in memory are changed in place where nobody needs their old value: an array is
`mine` in the jaxpr that made it, and may be overwritten by the equation that uses it last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax.extend import core as jax_core

from .._jaxprs import scan_sizes
from . import block_sums, block_updates
from .arrays import Array, Arrays, Delayed, Stored, flat_index, is_large
from .operations import (
    Block,
    Buffer,
    Builder,
    Node,
    Switch,
    Unsupported,
    While,
    kind_of,
    scalar_kind,
)
from .rows import RowMaker, parts, pay, widths
from .survey import CALLS, Survey, opened

if TYPE_CHECKING:
    from .._jaxprs import Equation

SELECTED = 24  # operations up to which both sides of a branch are computed
MOST = 250_000  # operations beyond which a program is left to XLA

Rule = Callable[["Lowering", Any, list[Array]], Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register what primitives become: a function (lowering, equation, arrays) -> arrays."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


class Lowering:
    """One program that is being taken apart."""

    def __init__(
        self, unrolled: int | None = None, in_loops: bool = False, counted: bool = False
    ) -> None:
        self.b = Builder()
        self.rows = RowMaker(self.b)
        self.a = Arrays(self.b, self.rows, in_loops)
        self.survey = Survey(self.a.most, unrolled, counted)
        self.libraries = True  # whether routines of other libraries can be called
        self.ahead = 0  # operations up to which the first round of a loop is written before it

    def use_rows(self, jaxpr: jax_core.Jaxpr, once: bool = False) -> bool:
        """Compute in rows what has many operations on rows of one length, if that pays; see
        `rows.py`. Returns whether there are such rows."""
        measured, weight = self.survey.rows(jaxpr), self.survey.weight(jaxpr)
        found = widths(measured, weight)
        if pay(found, measured, weight, once):
            self.rows.widths = tuple(found)
        return bool(found)

    # -- the walk ----------------------------------------------------------------------------

    def run(
        self,
        jaxpr: jax_core.Jaxpr,
        consts: Sequence[Any],
        args: Sequence[Array],
        mine: Sequence[bool] | None = None,
        wanted: tuple[bool, ...] | None = None,
    ) -> list[Array]:
        """The results of a jaxpr; None for those that are not wanted.

        `mine` says which arguments may be overwritten.
        """
        wanted = (True,) * len(jaxpr.outvars) if wanted is None else wanted
        plan = self.survey.plan(jaxpr, wanted)
        env: dict[Any, Array] = {}
        holders: dict[Buffer, list[Any]] = {}  # variables that lie in a buffer
        free: set[Buffer] = set()  # buffers that are this jaxpr's to overwrite

        def hold(var: Any, value: Array) -> None:
            env[var] = value
            if isinstance(value, Stored):
                holders.setdefault(value.buffer, []).append(var)

        for var, value in zip(jaxpr.constvars, consts, strict=True):
            hold(var, self.a.constant(value))
        for i, (var, value) in enumerate(zip(jaxpr.invars, args, strict=True)):
            if mine is not None and mine[i]:
                free.add(value.buffer)
            repeated = isinstance(value, Delayed) and plan.uses.get(var, 0) > 1
            hold(var, self.a.stored(value) if repeated else value)

        def read(var: Any) -> Array:
            if isinstance(var, jax_core.Literal):
                kind: Any = var.aval
                return self.a.constant(np.asarray(var.val, dtype=kind.dtype))
            return env.get(var)

        def dies(x: Array, at: int, values: list[Array]) -> bool:
            """Whether nobody needs what is in the array's buffer after an equation."""
            return (
                isinstance(x, Stored)
                and x.buffer in free
                and all(plan.last.get(v, -1) <= at for v in holders[x.buffer])
                and sum(isinstance(y, Stored) and y.buffer is x.buffer for y in values) == 1
            )

        for at, eqn, outs in plan.equations:
            values = [read(v) for v in eqn.invars]
            dying = [dies(x, at, values) for x in values]
            results = self._equation(eqn, values, dying, outs)
            for var, result, want in zip(eqn.outvars, results, outs, strict=True):
                if not want:
                    continue
                if isinstance(result, Delayed) and (
                    plan.uses.get(var, 0) > 1 or sum(x is result for x in results) > 1
                ):
                    result = self.a.stored(result)
                hold(var, result)
                if isinstance(result, Stored) and self._is_new(result.buffer, values):
                    free.add(result.buffer)
            if self.b.count > MOST:
                raise Unsupported(f"more than {MOST} operations")
        return [read(v) if want else None for v, want in zip(jaxpr.outvars, wanted, strict=True)]

    def _is_new(self, buffer: Buffer, values: list[Array]) -> bool:
        """Whether an equation has made a buffer, of which nobody else knows."""
        if buffer.place not in ("stack", "scratch") or buffer.shared:
            return False
        return not any(x is not None and buffer in self.a.sources(x) for x in values)

    def _equation(
        self, eqn: Equation, values: list[Array], dying: list[bool], outs: tuple[bool, ...]
    ) -> list[Array]:
        name = eqn.primitive.name
        if self.libraries and all(outs):
            for blocks in (block_updates, block_sums):
                if blocks.routine(eqn) is not None:
                    return blocks.call(self, eqn, values)
        if name in CALLS and CALLS[name] in eqn.params:
            inner, consts = opened(eqn.params[CALLS[name]])
            return self.run(inner, consts, values, dying, outs)
        if name == "maybe_set":  # of equinox's loops, by its own definition
            shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
            closed = jax.make_jaxpr(partial(eqn.primitive.impl, **eqn.params))(*shapes)
            return self.run(closed.jaxpr, closed.consts, values, dying, outs)
        if name == "custom_linear_solve":
            lengths = eqn.params["const_lengths"]
            first = lengths.matvec + lengths.vecmat
            given = values[first : first + lengths.solve] + values[sum(lengths) :]
            inner, consts = opened(eqn.params["jaxprs"].solve)
            return self.run(inner, consts, given, None, outs)
        if name == "while":
            return self._while(eqn, values, dying)
        if name == "scan":
            return self._scan(eqn, values, dying)
        if name == "cond":
            return self._cond(eqn, values, dying, outs)
        if name in ("dynamic_update_slice", "scatter", "scatter-add"):
            values = [_Target(values[0], dying[0]), *values[1:]]
        found = RULES.get(name)
        if found is None:
            raise Unsupported(f"the primitive {name}")
        results = found(self, eqn, values)
        return results if isinstance(results, list) else [results]

    def to_overwrite(self, target: _Target, kind: str) -> Stored:
        """An array in memory that may be written to, with the entries of `target`."""
        x = target.array
        if target.mine and isinstance(x, Stored):
            self.a.about_to_change(x.buffer)
            return x
        return Stored(self.a.own(x, kind), x.shape)

    def settled(self, x: Array) -> Array:
        """The array, computed if that was delayed."""
        return self.a.stored(x) if isinstance(x, Delayed) else x

    # -- loops -------------------------------------------------------------------------------

    def _while(self, eqn: Equation, values: list[Array], dying: list[bool]) -> list[Array]:
        p = eqn.params
        split = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
        fixed, start = [self.settled(x) for x in values[: split[1]]], values[split[1] :]
        of_cond, of_body = fixed[: split[0]], fixed[split[0] :]
        condition, consts = opened(p["cond_jaxpr"])
        body, body_consts = opened(p["body_jaxpr"])
        self._lay_down(body, of_body)

        batched = bool(condition.outvars[0].aval.shape)
        active: list[Array] = []  # which members of a batch go on

        def going(now: list[Array]) -> Node:
            (each,) = self.run(condition, consts, [*of_cond, *now])
            active.append(self.settled(each))
            out = self.b.const("b1", False)
            for node in self.a.small(active[0]).ravel().tolist():
                out = self.b.apply("or", "b1", out, node)
            return out

        def following(now: list[Array], mine: list[bool]) -> list[Array]:
            given = [False] * len(of_body) + [x and not batched for x in mine]
            new = self.run(body, body_consts, [*of_body, *now], given)
            return [self._where(active[0], *x) for x in zip(new, now)] if batched else new

        rounds = None if batched else self._rounds(p, of_cond, of_body, start)
        if rounds is not None:
            for _ in range(rounds):
                start = self.run(body, body_consts, [*of_body, *start])
            return start
        entered = not batched and self._is_entered(condition, consts, [*of_cond, *start], body)
        if entered:
            start = self.run(body, body_consts, [*of_body, *start])
        mine = dying[split[1] :]
        return self._loop(body, len(of_body), start, mine, body.outvars, going, following, entered)

    def _rounds(
        self, p: Any, of_cond: list[Array], of_body: list[Array], start: list[Array]
    ) -> int | None:
        """How often a loop is done, if that is known and it is to be written out: as where rows of
        a table are added up, from one place to another."""
        (condition, consts), (body, body_consts) = opened(p["cond_jaxpr"]), opened(p["body_jaxpr"])
        counters = self.survey.counters(condition, len(of_cond), body, len(of_body))
        if counters is None or any(map(is_large, start)):
            return None
        now, rounds = list(start), 0
        while True:
            (going,) = self.run(condition, consts, [*of_cond, *now])
            node = self.a.small(going).flat[0]
            if node.op != "const":
                return None
            if not node.data:
                return rounds
            rounds += 1
            if not self.survey.is_short(rounds, body):
                return None
            now = self.run(body, body_consts, [*of_body, *now], None, counters)

    def _is_entered(self, condition: Any, consts: Any, values: list[Array], body: Any) -> bool:
        """Whether a loop is known to be entered, and its first round is to be written before it.

        That of Newton's method needs no rate of convergence yet, and is often the last.
        """
        if self.survey.weight(body) > self.ahead or any(map(is_large, values)):
            return False
        (going,) = self.run(condition, consts, values)
        node = self.a.small(going).flat[0]
        return node.op == "const" and bool(node.data)

    def _where(self, which: Array, yes: Array, no: Array) -> Array:
        """`yes` where `which` holds, else `no`; `which` has only the first axes of these."""
        if yes is no:
            return yes
        shape, n = no.shape, len(which.shape)

        def entry(index: Sequence[Node]) -> Node:
            here = self.a.entry(which, index[:n])
            return self.b.select(here, self.a.entry(yes, index), self.a.entry(no, index))

        if math.prod(shape) <= self.a.most:
            out = np.empty(shape, object)
            for index in np.ndindex(*shape):
                out[index] = entry([self.b.index(i) for i in index])
            return out
        which, yes, no = (x if is_large(x) else self.a.stored(x) for x in (which, yes, no))
        sources = [y for x in (which, yes, no) for y in self.a.sources(x)]
        return self.a.delayed(no.kind, shape, entry, sources, of=[yes])

    def _scan(self, eqn: Equation, values: list[Array], dying: list[bool]) -> list[Array]:
        p = eqn.params
        (n_const, n_carry), length = scan_sizes(p), p["length"]
        body, consts = opened(p["jaxpr"])
        fixed, start = values[:n_const], values[n_const : n_const + n_carry]
        fixed, rows = ([self.settled(x) for x in xs] for xs in (fixed, values[n_const + n_carry :]))
        order = range(length)[::-1] if p["reverse"] else range(length)
        n_rows = len(eqn.outvars) - n_carry
        if self.survey.is_short(length, body):
            out: list[list[Array]] = [[None] * length for _ in range(n_rows)]
            for k in order:
                at = self.b.index(k)
                row = [self._row(x, at) for x in rows]
                done = self.run(body, consts, [*fixed, *start, *row])
                start = done[:n_carry]
                for place, x in zip(out, done[n_carry:], strict=True):
                    place[k] = self.a.small(x)
            shapes = [v.aval for v in eqn.outvars[n_carry:]]
            stacks = [
                np.stack(x) if x else np.empty(v.shape, object)
                for x, v in zip(out, shapes, strict=True)
            ]
            return [*start, *stacks]
        rows = [self.a.stored(x) for x in rows]
        self._lay_down(body, fixed)
        stacks = [
            Stored(self.a.new_buffer(kind_of(v.aval.dtype), v.aval.size), v.aval.shape)
            for v in eqn.outvars[n_carry:]
        ]

        def going(now: list[Array]) -> Node:
            return self.b.compare("lt", "i64", now[-1].flat[0], self.b.index(length))

        def following(now: list[Array], mine: list[bool]) -> list[Array]:
            step = at = now[-1].flat[0]
            if p["reverse"]:
                at = self.b.apply("sub", "i64", self.b.index(length - 1), at)
            row = [self._row(x, at) for x in rows]
            given = [*([False] * n_const), *mine[:-1], *([False] * len(row))]
            done = self.run(body, consts, [*fixed, *now[:-1], *row], given)
            for place, x in zip(stacks, done[n_carry:], strict=True):
                self._put_row(place, at, x)
            return [*done[:n_carry], _scalar(self.b.apply("add", "i64", step, self.b.index(1)))]

        count = _scalar(self.b.index(0))
        carried = self._loop(
            body,
            n_const,
            [*start, count],
            [*dying[n_const : n_const + n_carry], False],
            [*body.outvars[:n_carry], None],
            going,
            following,
        )
        return [*carried[:-1], *stacks]

    def _row(self, x: Array, at: Node) -> Array:
        """x[at], `at` being a node."""
        shape = x.shape[1:]
        if isinstance(x, np.ndarray) and at.op == "const":
            return _as_array(x[at.data], shape)
        size = int(np.prod(shape))
        stored = self.a.stored(x)
        first = self.b.apply("mul", "i64", at, self.b.index(size))
        if size <= self.a.most:
            return self.a.loaded(stored.buffer, first, shape)
        entry = lambda index: self.a.entry(stored, [at, *index])  # noqa: E731
        return self.a.stored(self.a.delayed(stored.kind, shape, entry, [stored.buffer]))

    def _put_row(self, target: Stored, at: Node, x: Array) -> None:
        """target[at] = x."""
        first = self.b.apply("mul", "i64", at, self.b.index(x.size))
        if isinstance(x, np.ndarray):
            self.a.write(target.buffer, x.ravel().tolist(), first)
            return

        def put(index: list[Node]) -> None:
            place = self.b.apply("add", "i64", first, flat_index(self.b, index, x.shape))
            self.b.store(target.buffer, place, self.a.entry(x, index))

        self.a.for_each(x.shape, put)

    def _loop(
        self,
        body: Any,
        n_const: int,
        start: list[Array],
        mine: Sequence[bool],
        ends: Sequence[Any],
        going: Callable[[list[Array]], Node],
        following: Callable[[list[Array], list[bool]], list[Array]],
        rare: bool = False,
    ) -> list[Array]:
        """A loop that carries arrays: scalars by phis, others in memory.

        `ends` are the variables of the body's results, or None; one that is the variable it
        entered with does not change.
        """
        loop = While(rare)
        now: list[Array] = []
        in_memory, same = [], []
        for i, x in enumerate(start):
            var = body.invars[n_const + i] if n_const + i < len(body.invars) else None
            if ends[i] is not None and ends[i] is var:
                now.append(self.settled(x))
                in_memory.append(False)
                same.append(True)
                continue
            same.append(False)
            kept = is_large(x) and x.size > self.a.most
            kept = kept or (
                ends[i] is not None and x.size >= 8 and self.survey.is_indexed(body, var)
            )
            in_memory.append(kept)
            if kept:
                target = _Target(x, mine[i])
                now.append(self.to_overwrite(target, kind_of(body.invars[n_const + i].aval.dtype)))
                continue
            x = self.a.small(x)
            phis = [Node("phi", node.kind, [node, None]) for node in self._in_rows(x)]
            loop.phis.extend(phis)
            now.append(_single(phis, x.shape))
        outside = self.b.enter(loop.condition)
        loop.going = going(list(now))
        inside = self.b.enter(loop.body)
        new = following(list(now), list(in_memory))
        at = 0
        for y, memory, unchanged in zip(new, in_memory, same, strict=True):
            if memory or unchanged:
                continue
            for node in self._in_rows(self.a.small(y)):
                loop.phis[at].args = [loop.phis[at].args[0], node]
                at += 1
        self._carry_memory(now, new, in_memory)
        self.b.leave(inside)
        self.b.leave(outside)
        self.b.statement("while", loop)
        return now

    def _lay_down(self, body: jax_core.Jaxpr, fixed: Sequence[Array]) -> None:
        """Put arrays that a loop reads at indices that are not known into memory before it."""
        for var, x in zip(body.invars, fixed, strict=False):
            if isinstance(x, np.ndarray) and x.size > 1 and self.survey.is_indexed(body, var):
                self.a.stored(x)

    def _in_rows(self, x: np.ndarray) -> list[Node]:
        """The entries of an array: as rows, if it has such, else as numbers."""
        entries = x.ravel().tolist()
        return self.rows.split(entries, x.shape) or entries

    def _carry_memory(self, now: list[Array], new: list[Array], in_memory: list[bool]) -> None:
        """Bring the arrays in memory to where the next round of a loop expects them."""
        moves = [
            (x.buffer, y)
            for x, y, memory in zip(now, new, in_memory, strict=True)
            if memory and not (isinstance(y, Stored) and y.buffer is x.buffer)
        ]
        targets = {buffer for buffer, _ in moves}
        if len(moves) > 1:
            moves = [
                (buffer, Stored(self.a.own(y, buffer.kind), y.shape))
                if targets & set(self.a.sources(y))
                else (buffer, y)
                for buffer, y in moves
            ]
        for buffer, y in moves:
            self.a.about_to_change(buffer)
            if isinstance(y, np.ndarray):
                self.a.write(buffer, y.ravel().tolist())
            else:
                self.b.copy(buffer, self.a.stored(y).buffer)

    # -- branches ----------------------------------------------------------------------------

    def _cond(
        self, eqn: Equation, values: list[Array], dying: list[bool], outs: tuple[bool, ...]
    ) -> list[Array]:
        branches = [opened(x) for x in eqn.params["branches"]]
        which = self.a.scalar(values[0])
        if which.op == "const":
            chosen = min(max(int(which.data), 0), len(branches) - 1)
            return self.run(*branches[chosen], values[1:], dying[1:], outs)
        given = [self.settled(x) for x in values[1:]]
        for x, own in zip(given, dying[1:], strict=True):
            if own and isinstance(x, Stored):  # a branch may change it
                self.a.about_to_change(x.buffer)
        light = all(self.survey.weight(x) <= SELECTED for x, _ in branches)
        large = any(v.aval.size > self.a.most for v in eqn.outvars)
        if light and not large:
            results = [self.run(*x, given, None, outs) for x in branches]
            return self._selected(which, results, eqn.outvars, outs)
        blocks, results, rows = [], [], []
        stores: list[Buffer | None] = [
            self.a.new_buffer(kind_of(v.aval.dtype), v.aval.size)
            if v.aval.size > self.a.most
            else None
            for v in eqn.outvars
        ]
        for branch in branches:
            block = Block()
            before = self.b.enter(block)
            done = self.run(*branch, given, dying[1:], outs)
            for k, (x, store) in enumerate(zip(done, stores, strict=True)):
                if not outs[k]:
                    continue
                done[k] = self.a.small(x) if store is None else self.a.stored(x)
            rows.append([self._in_rows(x) if isinstance(x, np.ndarray) else [] for x in done])
            blocks.append(block)
            results.append(done)
            self.b.leave(before)
        # large results that are not the same buffer everywhere are copied into one
        for k, store in enumerate(stores):
            if store is None or not outs[k]:
                continue
            if len({r[k].buffer for r in results}) > 1:
                for block, r in zip(blocks, results, strict=True):
                    before = self.b.enter(block)
                    self.b.copy(store, r[k].buffer)
                    self.b.leave(before)
                    r[k] = Stored(store, r[k].shape)
        switch = Switch(which, blocks)
        self.b.statement("switch", switch)
        merged: list[Array] = []
        for k, want in enumerate(outs):
            if not want or stores[k] is not None:
                merged.append(results[0][k])
                continue
            found = []
            for nodes in zip(*(r[k] for r in rows), strict=True):
                if all(x is nodes[0] for x in nodes) and nodes[0].op == "const":
                    found.append(nodes[0])
                    continue
                found.append(Node("phi", nodes[0].kind, list(nodes)))
                switch.phis.append(found[-1])
            merged.append(_single(found, results[0][k].shape))
        return merged

    def _selected(
        self, which: Node, results: list[list[Array]], outvars: Any, outs: tuple[bool, ...]
    ) -> list[Array]:
        merged: list[Array] = []
        for k, want in enumerate(outs):
            if not want:
                merged.append(None)
                continue
            columns = [self.a.small(r[k]).ravel().tolist() for r in results]
            choose = lambda *cases: self.chosen(which, cases)  # noqa: E731
            merged.append(self.entrywise(choose, columns, outvars[k].aval.shape))
        return merged

    def entrywise(
        self, function: Callable[..., Node], columns: Sequence[list[Node]], shape: Sequence[int]
    ) -> np.ndarray:
        """`function` of the entries of small arrays of one shape, given one after the other."""
        width = self.rows.width(shape)
        out = np.empty(math.prod(shape), object)
        if width:
            out[:] = self.rows.entrywise(function, columns, width)
        else:
            for i, entries in enumerate(zip(*columns, strict=True)):
                out[i] = function(*entries)
        return out.reshape(shape)

    def chosen(self, which: Node, cases: Sequence[Node]) -> Node:
        """The case of number `which`, a truth value or a whole number."""
        if scalar_kind(which.kind) == "b1":
            return self.b.select(which, cases[1], cases[0])
        out = cases[-1]
        for k in reversed(range(len(cases) - 1)):
            here = self.b.compare("le", which.kind, which, self.b.const(which.kind, k))
            out = self.b.select(here, cases[k], out)
        return out


class _Target(NamedTuple):
    """An array that is to be changed, and whether it may be overwritten."""

    array: Array
    mine: bool


def _single(nodes: list[Node], shape: Sequence[int]) -> np.ndarray:
    """An array of the numbers in rows, or of these numbers."""
    out = np.empty(math.prod(shape), object)
    out[:] = [x for node in nodes for x in (parts(node) if "*" in node.kind else (node,))]
    return out.reshape(shape)


def _scalar(node: Node) -> np.ndarray:
    out = np.empty((), object)
    out[()] = node
    return out


def _as_array(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if isinstance(x, np.ndarray):
        return x
    out = np.empty((), object)
    out[()] = x
    return out.reshape(shape)
