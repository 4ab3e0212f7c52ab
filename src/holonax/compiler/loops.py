"""Loops over arrays in memory, several entries at once in the vectors of the processor.

LLVM could find these vectors itself, but takes minutes over programs of thousands of loops; and
all of them have the same form: entries are read, computed with, and written at places that move on
evenly. The last vector of a loop ends where the loop does, so that it may do some entries of the
one before once more; a loop that changes what it reads is done entry by entry instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import functions
from .llvm import STATEMENTS, _width, stored_type, type_of
from .machine import host_lanes, is_x86
from .operations import Block, Buffer, For, Node
from .slots import placed
from .totals import ANY_TIMES, Total, neutral, totals
from .vector_emitter import VectorEmitter

_FLUSH = 0x8040  # of x86's control word: numbers too small for full precision are zero


class _Places:
    """What a loop does to its index: `steps` of a node that moves on evenly, by so much for each
    entry; `wide` are the nodes that differ from entry to entry in any other way."""

    def __init__(self, index: Node):
        self.steps: dict[Node, int] = {index: 1}
        self.wide: set[Node] = set()
        self.inside: set[Node] = {index}
        self.totals: list[Total] = []

    def add(self, node: Node) -> None:
        """Say how a node differs, whose operands are known."""
        self.inside.add(node)
        if any(x in self.wide for x in node.args):
            self.wide.add(node)
            return
        steps = [self.steps.get(x, 0) for x in node.args]
        if not any(steps):
            return
        step = None
        if node.kind == "i64" and node.op in ("add", "sub"):
            step = steps[0] + steps[1] if node.op == "add" else steps[0] - steps[1]
        elif node.kind == "i64" and node.op == "mul":
            known = [x.data for x in node.args if x.op == "const"]
            step = known[0] * max(steps, key=abs) if known else None
        if step is None or node.op == "load":
            self.wide.add(node)
        elif step:
            self.steps[node] = step


def _places(loop: For) -> _Places | None:
    """How the entries of a loop are spread in memory; None if they depend on one another, or if
    there is more in the loop than entries."""
    out = _Places(loop.index)
    out.totals = [x for x in totals(loop) if x.buffer.live]
    own = {node for x in out.totals for node in (x.load, x.store, x.store.args[1])}
    read: set[Buffer] = set()
    written: dict[Buffer, list[Node]] = {}
    for node in loop.body.code:
        if node in own:
            continue
        if node.op == "store":
            if node.data.live:
                written.setdefault(node.data, []).append(node)
        elif node.op in STATEMENTS or "*" in node.kind:
            return None
        elif node.live:
            out.add(node)
            if node.op == "load":
                read.add(node.data)
    for buffer, stores in written.items():
        if buffer in read and not loop.apart:
            return None
        for store in stores:
            at = store.args[0]
            if at not in out.wide and not out.steps.get(at):
                return None  # all in one place
            if at in out.wide and len(stores) > 1:
                return None
    return out


class _Gathered(NamedTuple):
    """A total of each lane: the name of it with the present entries, and what hands it on."""

    total: Total
    name: str
    phi: str


class LoopEmitter(VectorEmitter):
    """Writes one program down, with its loops in vectors."""

    _angles = "sincos_of_any"
    _spread = frozenset()  # outside of loops there are no vectors

    def __init__(self, main: Block, buffers: list[Buffer], inputs: int, outputs: int):
        self.lanes = host_lanes()
        self._main = main
        self._places: _Places | None = None  # of the loop that is written now
        self._given: dict[str, str] = {}  # what it takes from outside, with its type
        self._apart: list[str] = []  # the functions of loops
        self._kinds: dict[str, dict[str, str]] = {}  # the parameters of these
        super().__init__(buffers, inputs, outputs)

    def _in_room(self, buffers: list[Buffer]) -> None:
        sizes = {x: x.size * _width(x.kind) for x in buffers}
        places, self.scratch = placed(self._main, sizes)
        for buffer in buffers:
            at = places.get(buffer, 0)
            self.lines.append(f"  {buffer.name} = getelementptr i8, ptr %room, i64 {at}")

    def _spread_of(self, loop: For) -> _Places | None:
        """How the entries of a loop are spread in memory, if it is done in vectors."""
        return _places(loop) if loop.count >= self.lanes else None

    def _for(self, node: Node) -> None:
        places = self._spread_of(node.data)
        if places is None:
            super()._for(node)
            return
        name, given = self._loop_function(node.data, places, node.data.count)
        self._call_loop(name, given, "0", str(node.data.count - self.lanes))

    def _call_loop(self, name: str, given: dict[str, str], begin: str, last: str) -> None:
        """Have a loop done from an entry to the one where the last vector begins; `given` are the
        operands by the names of the parameters."""
        kinds = self._kinds[name]
        more = "".join(f", {kinds[x]} {operand}" for x, operand in given.items())
        self.lines.append(f"  call void @{name}(i64 {begin}, i64 {last}{more})")

    def _loop_function(self, loop: For, places: _Places, count: int) -> tuple[str, dict[str, str]]:
        """Write the function of a loop, done for `count` entries; returns its name, and what it
        takes from outside."""
        self._n += 1
        name, first, around = f"loop{self._n}", len(self.lines), self._block
        self._given, self._places = {}, places
        self._label("loop")
        loop.index.name = "%i"
        self.lines.append("")
        gathered = self._entries(loop, places, count % self.lanes == 0)
        following = self._value(f"add nuw nsw i64 %i, {self.lanes}")
        beyond = self._value(f"icmp sgt i64 {following}, %last")
        clipped = self._value(f"select i1 {beyond}, i64 %last, i64 {following}")
        more = self._value("icmp slt i64 %i, %last")
        self.lines.append(f"  br i1 {more}, label %loop, label %done")
        self.lines[first + 1] = "\n".join(
            [
                f"  %i = phi i64 [%begin, %entry], [{clipped}, %loop]",
                f"  %new = phi i64 [%begin, %entry], [{following}, %loop]",
                *(x.phi for x in gathered),
            ]
        )
        self._label("done")
        for one in gathered:
            self._put_together(one)
        self._places = None
        body, self.lines[first:] = self.lines[first:], []
        self._label(around)
        self.lines.pop()
        self._kinds[name] = self._given
        given = "".join(f", {kind} {x}" for x, kind in self._given.items())
        self._apart += [
            f"define private void @{name}(i64 %begin, i64 %last{given}) nounwind {{",
            "entry:",
            "  br label %loop",
            *body,
            "  ret void",
            "}",
        ]
        return name, {x: x for x in self._given}

    # -- entries -------------------------------------------------------------------------------

    def _entries(self, loop: For, places: _Places, even: bool) -> list[_Gathered]:
        """What is done with the entries of a vector; returns the totals. `even` says that all
        entries are whole vectors."""
        by_store = {x.store: x for x in places.totals}
        own = {node for x in places.totals for node in (x.load, x.store.args[1])}
        gathered = []
        for inner in loop.body.code:
            if inner in own:
                continue
            self._now_wide = inner in places.wide
            if inner in by_store:
                gathered.append(self._gathered(by_store[inner], loop, even))
            elif inner.op == "store":
                self._store(inner)
            elif inner.live:
                inner.name = self._computed(inner)
        self._now_wide = False
        return gathered

    def _gathered(self, total: Total, loop: For, even: bool) -> _Gathered:
        """The total of each lane, with one more entry. Entries that are done once more because the
        loop ends do not count again."""
        self._n += 1
        kind, so_far = total.value.kind, Node("lanes", total.value.kind)
        so_far.name = f"%t{self._n}"
        self._now_wide = True
        value, none = self._operand(total.value), self._number(kind, neutral(total.op, kind))
        if total.op not in ANY_TIMES and not even:
            whole, truth = self._vector("i64"), self._vector("b1")
            at, begun = self._moving(loop.index, 1), self._everywhere("i64", "%new")
            fresh = self._value(f"icmp sge {whole} {at}, {begun}")
            vector = self._vector(kind)
            value = self._value(f"select {truth} {fresh}, {vector} {value}, {vector} {none}")
        counted, result = Node("lanes", kind), Node("lanes", kind)
        counted.name = value
        assert self._places is not None
        self._places.wide |= {so_far, counted, result}
        result.name = self._computed(Node(total.op, kind, (so_far, counted)))
        self._now_wide = False
        phi = f"  {so_far.name} = phi {self._vector(kind)} [{none}, %entry], [{result.name}, %loop]"
        return _Gathered(total, result.name, phi)

    def _put_together(self, one: _Gathered) -> None:
        """The totals of all lanes into memory."""
        total, kind = one.total, one.total.value.kind
        op = "add" if total.op == "sub" else total.op
        vector, parts = self._vector(kind), []
        for lane in range(self.lanes):
            part = Node("lane", kind)
            part.name = self._value(f"extractelement {vector} {one.name}, i64 {lane}")
            parts.append(part)
        assert self._places is not None
        self._places.inside.update(parts)
        total.load.name = self._load(total.load)
        self._places.inside.add(total.load)
        while len(parts) > 1:
            parts = [self._combined(op, *parts[k : k + 2]) for k in range(0, len(parts), 2)]
        whole = self._combined(op, total.load, parts[0])
        super()._store(Node("store", kind, (total.store.args[0], whole), total.buffer))

    def _combined(self, op: str, x: Node, y: Node) -> Node:
        assert self._places is not None
        out = Node(op, x.kind, (x, y))
        out.name = self._computed(out)
        self._places.inside.add(out)
        return out

    def _operand(self, node: Node) -> str:
        places = self._places
        if places is None or node.op == "const":
            return super()._operand(node)
        if node in places.wide:
            return node.name
        if node not in places.inside:
            self._given[node.name] = type_of(node.kind)
        if not self._now_wide:
            return node.name
        if node in places.steps:
            return self._moving(node, places.steps[node])
        return self._everywhere(node.kind, node.name)

    def _in_memory(self, buffer: Buffer) -> str:
        """The name of a buffer, in the function of a loop or outside."""
        if self._places is not None and buffer.place != "constant":
            self._given[buffer.name] = "ptr"
        return buffer.name

    def _moving(self, node: Node, step: int) -> str:
        """A whole number that moves on evenly, for each entry."""
        found = self._found.get(("moving", node.name))
        if found is None:
            whole = self._vector("i64")
            places = ", ".join(f"i64 {step * k}" for k in range(self.lanes))
            first = self._everywhere("i64", node.name)
            found = self._value(f"add {whole} {first}, <{places}>")
            self._found["moving", node.name] = found
        return found

    def _function(self, op: str, kind: str, args: Any) -> str:
        if self._now_wide and op == "tan":  # that of vectors is for angles below 2^45
            return self._one_by_one(op, kind, args)
        return super()._function(op, kind, args)

    # -- reading and writing -------------------------------------------------------------------

    def _goes_past_cache(self, buffer: Buffer, index: Node) -> bool:
        """Whether entries are written to memory at once, in whole lines: where they would be gone
        from the cache before they are needed, and need not be fetched to be written then."""
        return False

    def _pointers(self, buffer: Buffer, index: Node, *, fetched: bool = False) -> str:
        """Where the entries of a vector are, or begin if they lie side by side; `fetched` says that
        they need not be asked for ahead."""
        kind, name = stored_type(buffer.kind), self._in_memory(buffer)
        wide = self._now_wide
        self._now_wide = not self._is_even(index)
        whole, at = self._type("i64"), self._operand(index)
        self._now_wide = wide
        return self._value(f"getelementptr inbounds {kind}, ptr {name}, {whole} {at}")

    def _is_even(self, index: Node) -> bool:
        """Whether entries at an index lie side by side."""
        return self._places is not None and self._places.steps.get(index) == 1

    def _address(self, buffer: Buffer, index: Node) -> str:
        self._in_memory(buffer)
        return super()._address(buffer, index)

    def _load(self, node: Node) -> str:
        if not self._now_wide:
            return super()._load(node)
        buffer, index = node.data, node.args[0]
        kind, align = stored_type(buffer.kind), _width(buffer.kind)
        vector, pointers = f"<{self.lanes} x {kind}>", self._pointers(buffer, index)
        if self._is_even(index):
            fixed = self._invariant if buffer.place in ("input", "constant") else ""
            out = self._value(f"load {vector}, ptr {pointers}, align {align}{fixed}")
        else:
            name = f"llvm.masked.gather.{self._in_vectors(kind)}"
            types = f"<{self.lanes} x ptr>, i32, <{self.lanes} x i1>, {vector}"
            self.declared.add(f"declare {vector} @{name}({types})")
            out = self._value(
                f"call {vector} @{name}(<{self.lanes} x ptr> {pointers}, i32 {align}, "
                f"<{self.lanes} x i1> splat (i1 true), {vector} poison)"
            )
        if buffer.kind == "b1":
            return self._value(f"trunc {vector} {out} to {self._vector('b1')}")
        return out

    def _in_vectors(self, kind: str) -> str:
        letter = {"double": "f64", "float": "f32"}.get(kind, kind)
        return f"v{self.lanes}{letter}.v{self.lanes}p0"

    def _store(self, node: Node) -> None:
        buffer, (index, value) = node.data, node.args
        if not buffer.live:
            return
        if self._places is None:
            super()._store(node)
            return
        self._now_wide = True
        past = self._goes_past_cache(buffer, index)
        what, kind, align = self._operand(value), stored_type(buffer.kind), _width(buffer.kind)
        vector, pointers = f"<{self.lanes} x {kind}>", self._pointers(buffer, index, fetched=past)
        if buffer.kind == "b1":
            what = self._value(f"zext {self._vector('b1')} {what} to {vector}")
        if self._is_even(index):
            how = f"align {align}"
            if past:
                how = f"align {align * self.lanes}, !nontemporal !1"
            self.lines.append(f"  store {vector} {what}, ptr {pointers}, {how}")
        else:
            name = f"llvm.masked.scatter.{self._in_vectors(kind)}"
            types = f"{vector}, <{self.lanes} x ptr>, i32, <{self.lanes} x i1>"
            self.declared.add(f"declare void @{name}({types})")
            self.lines.append(
                f"  call void @{name}({vector} {what}, <{self.lanes} x ptr> {pointers}, "
                f"i32 {align}, <{self.lanes} x i1> splat (i1 true))"
            )
        self._now_wide = False

    def _around(self) -> tuple[list[str], list[str]]:
        """Numbers below 2.2e-308 become zero meanwhile, as they do under XLA: what is passed on
        along a chain dies out from body to body, and a processor takes a hundred times as long for
        the last of it that is not zero."""
        if not is_x86():
            return [], []
        name = "llvm.x86.sse.{}mxcsr"
        for how in ("st", "ld"):
            self.declared.add(f"declare void @{name.format(how)}(ptr)")
        before = [
            *(f"  %mxcsr.{x} = alloca i32" for x in ("old", "new")),
            f"  call void @{name.format('st')}(ptr %mxcsr.old)",
            "  %mxcsr.was = load i32, ptr %mxcsr.old",
            f"  %mxcsr.is = or i32 %mxcsr.was, {_FLUSH}",
            "  store i32 %mxcsr.is, ptr %mxcsr.new",
            f"  call void @{name.format('ld')}(ptr %mxcsr.new)",
        ]
        return before, [f"  call void @{name.format('ld')}(ptr %mxcsr.old)"]

    def text(self) -> str:
        """The whole module."""
        texts, declared = functions.text(self._functions, self.lanes)
        self.declared |= declared
        if "sincos" in self._functions:
            of_any, declared = functions.sincos_of_any(self.lanes)
            texts.append(of_any)
            self.declared |= declared
        return "\n".join([*texts, super().text(), *self._apart])
