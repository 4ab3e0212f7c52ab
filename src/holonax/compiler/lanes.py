"""Scalar operations written down for many runs side by side, in the lanes of vectors.

The function has a loop over *packs*: as many runs as a vector has lanes. A scalar that differs from
run to run is a vector; one that does not stays a scalar. A loop goes on until all lanes of the pack
have ended, those that have keep what they have; of a branch that lanes take differently, both sides
are done, each for its lanes.

Arrays of runs lie as (pack, entry, lane) in memory.
"""

from __future__ import annotations

from typing import Any

from . import functions, lane_routines, routines
from .llvm import (
    _ALL_STACK,
    _STACK,
    STATEMENTS,
    _width,
    literal,
    stored_type,
    type_of,
)
from .operations import Block, Buffer, Node, is_size
from .spread import Path, Spread, inner_key
from .vector_emitter import VectorEmitter


class LaneEmitter(VectorEmitter):
    """Writes one program down for `lanes` runs at a time; `batched` are the numbers of the inputs
    that each run has its own of."""

    def __init__(
        self,
        main: Block,
        buffers: list[Buffer],
        inputs: int,
        outputs: int,
        batched: list[int],
        lanes: int,
    ):
        self.lanes = lanes
        self._spread = Spread(main, buffers, batched)
        self._mask: str | None = None  # lanes at work; None for all
        self._path: Path = ()
        self._lane_routines: set[str] = set()
        super().__init__(buffers, inputs, outputs)
        self.block(main)

    # -- what is in memory -----------------------------------------------------------------

    def _head(self, buffers: list[Buffer], inputs: int, outputs: int) -> None:
        self.constants = []
        stack, of_packs = 0, []
        for k, buffer in enumerate(buffers):
            kind = stored_type(buffer.kind)
            if buffer.place == "constant":
                self._constant(k, buffer)
                continue
            if not buffer.live:
                continue
            buffer.name = f"%b{k}"
            wide = buffer in self._spread
            entries = max(buffer.size, 1) * (self.lanes if wide else 1)
            if buffer.place in ("input", "output"):
                table = "%in" if buffer.place == "input" else "%out"
                place = self._value(f"getelementptr ptr, ptr {table}, i64 {buffer.data}")
                name = f"{buffer.name}.all" if wide else buffer.name
                self.lines.append(f"  {name} = load ptr, ptr {place}{self._invariant}")
                if wide:
                    of_packs.append((buffer, entries * _width(buffer.kind)))
            elif entries <= _STACK * self.lanes and stack + 8 * entries <= _ALL_STACK:
                stack += 8 * entries
                self.lines.append(f"  {buffer.name} = alloca [{entries} x {kind}], align 64")
            else:
                self.lines.append(
                    f"  {buffer.name} = getelementptr i8, ptr %room, i64 {self.scratch}"
                )
                self.scratch += -(-entries * 8 // 64) * 64
        self.lines.append("  br label %pack")
        self._label("pack")
        self.lines += [
            "  %p = phi i64 [%first, %entry], [%p.next, %packed]",
            "  %p.more = icmp slt i64 %p, %last",
            f"  %p.halt = load volatile i8, ptr {self._stop}",
            "  %p.free = icmp eq i8 %p.halt, 0",
            "  %p.go = and i1 %p.more, %p.free",
            "  br i1 %p.go, label %work, label %over",
        ]
        self._label("work")
        for buffer, size in of_packs:
            at = self._value(f"mul i64 %p, {size}")
            self.lines.append(
                f"  {buffer.name} = getelementptr inbounds i8, ptr {buffer.name}.all, i64 {at}"
            )

    _stop = "%stop"

    def text(self) -> str:
        """The whole module."""
        texts, declared = functions.text(self._functions, self.lanes)
        return "\n".join(
            [
                *self.constants,
                *sorted(self.declared | declared),
                *texts,
                routines.text(self.routines),
                lane_routines.text(self._lane_routines, self.lanes),
                "define void @program(ptr noalias %in, ptr noalias %out, ptr noalias %room, "
                "i64 %first, i64 %last, ptr %stop) nounwind {",
                "entry:",
                *self.lines,
                "  br label %packed",
                "packed:",
                "  %p.next = add i64 %p, 1",
                "  br label %pack",
                "over:",
                "  ret void",
                "}",
                "!0 = !{}",
                '!1 = !{!"branch_weights", i32 1, i32 64}',
            ]
        )

    # -- scalars and vectors -----------------------------------------------------------------

    def block(self, block: Block) -> None:
        """The operations of a block that are needed."""
        for node in block.code:
            self._now_wide = node in self._spread
            if node.op in STATEMENTS:
                getattr(self, f"_{node.op}")(node)
            elif node.live:
                node.name = self._computed(node)
        self._now_wide = False

    def _liberties(self, op: str) -> str:
        # several numbers divided by one are multiplied by its inverse: vectors divide slowly
        return "contract arcp" if op == "div" and self._now_wide else "contract"

    def _float(self, op: str, kind: str, args: Any) -> str:
        if not (self._now_wide and op == "max" and kind == "f64" and all(map(is_size, args))):
            return super()._float(op, kind, args)
        # bits of numbers that are not negative are in their order, with NaN above all
        whole = f"<{self.lanes} x i64>"
        x, y = (
            self._value(f"bitcast {self._type(kind)} {self._operand(a)} to {whole}") for a in args
        )
        name = f"@llvm.umax.v{self.lanes}i64"
        self.declared.add(f"declare {whole} {name}({whole}, {whole})")
        larger = self._value(f"call {whole} {name}({whole} {x}, {whole} {y})")
        return self._value(f"bitcast {whole} {larger} to {self._type(kind)}")

    # -- reading and writing -------------------------------------------------------------------

    def _scalar_index(self, index: Node) -> str:
        return literal("i64", index.data) if index.op == "const" else index.name

    def _place(self, buffer: Buffer, index: str) -> str:
        """Where the entry of all lanes is, or that of one number for all of them."""
        kind = stored_type(buffer.kind)
        if buffer in self._spread:
            kind = f"[{self.lanes} x {kind}]"
        return self._value(f"getelementptr inbounds {kind}, ptr {buffer.name}, i64 {index}")

    def _read(self, buffer: Buffer, place: str, wide: bool) -> str:
        kind, fixed = stored_type(buffer.kind), ""
        if buffer.place in ("input", "constant"):
            fixed = self._invariant
        truth = "i1"
        if wide:
            kind, truth = f"<{self.lanes} x {kind}>", f"<{self.lanes} x i1>"
        value = self._value(f"load {kind}, ptr {place}, align {_width(buffer.kind)}{fixed}")
        return self._value(f"trunc {kind} {value} to {truth}") if buffer.kind == "b1" else value

    def _load(self, node: Node) -> str:
        buffer, index = node.data, node.args[0]
        if index not in self._spread:
            place = self._place(buffer, self._scalar_index(index))
            return self._read(buffer, place, buffer in self._spread)
        places = self._own_places(buffer, index)
        out, vector = "poison", self._vector(buffer.kind)
        for lane, place in enumerate(places):
            value = self._read(buffer, place, False)
            out = self._value(
                f"insertelement {vector} {out}, {type_of(buffer.kind)} {value}, i64 {lane}"
            )
        return out

    def _own_places(self, buffer: Buffer, index: Node) -> list[str]:
        """Where the entry of each lane is, each at an index of its own."""
        kind, out = stored_type(buffer.kind), []
        for lane in range(self.lanes):
            i = self._value(f"extractelement {self._vector('i64')} {index.name}, i64 {lane}")
            if buffer in self._spread:
                i = self._value(f"mul i64 {i}, {self.lanes}")
                i = self._value(f"add i64 {i}, {lane}")
            out.append(self._value(f"getelementptr inbounds {kind}, ptr {buffer.name}, i64 {i}"))
        return out

    def _spared(self, buffer: Buffer) -> bool:
        """Whether lanes that wait have something in an array that they will need."""
        return self._mask is not None and self._path != self._spread.home[buffer]

    def _write(self, buffer: Buffer, place: str, value: str) -> None:
        """A vector, or where the array has one number for all lanes, a scalar."""
        kind, wide = stored_type(buffer.kind), buffer in self._spread
        if wide and self._spared(buffer):
            vector = self._vector(buffer.kind)
            old = self._read(buffer, place, True)
            value = self._value(
                f"select <{self.lanes} x i1> {self._mask}, {vector} {value}, {vector} {old}"
            )
        whole = f"<{self.lanes} x {kind}>" if wide else kind
        if buffer.kind == "b1":
            truth = f"<{self.lanes} x i1>" if wide else "i1"
            value = self._value(f"zext {truth} {value} to {whole}")
        self.lines.append(f"  store {whole} {value}, ptr {place}, align {_width(buffer.kind)}")

    def _store(self, node: Node) -> None:
        buffer, (index, value) = node.data, node.args
        if not buffer.live:
            return
        self._now_wide = buffer in self._spread
        what = self._operand(value)
        if index not in self._spread:
            self._write(buffer, self._place(buffer, self._scalar_index(index)), what)
            return
        kind, real = stored_type(buffer.kind), type_of(buffer.kind)
        for lane, place in enumerate(self._own_places(buffer, index)):
            x = self._value(f"extractelement {self._vector(buffer.kind)} {what}, i64 {lane}")
            if self._spared(buffer):
                old = self._read(buffer, place, False)
                here = self._value(f"extractelement <{self.lanes} x i1> {self._mask}, i64 {lane}")
                x = self._value(f"select i1 {here}, {real} {x}, {real} {old}")
            if buffer.kind == "b1":
                x = self._value(f"zext i1 {x} to i8")
            self.lines.append(f"  store {kind} {x}, ptr {place}")

    def _copy(self, node: Node) -> None:
        target, source = node.data
        if not target.live or target is source:
            return
        same = (target in self._spread) == (source in self._spread)
        if same and not self._spared(target):
            self._moved("memcpy.p0.p0", target, f"ptr {source.name}")
            return

        def one(i: str) -> None:
            value = self._read(source, self._place(source, i), source in self._spread)
            if target in self._spread and source not in self._spread:
                value = self._everywhere(source.kind, value)
            self._write(target, self._place(target, i), value)

        self._each(target.size, one)

    def _zero(self, node: Node) -> None:
        target = node.data
        if not target.live:
            return
        if not self._spared(target):
            self._moved("memset.p0", target, "i8 0")
            return
        nothing = "zeroinitializer"
        self._each(target.size, lambda i: self._write(target, self._place(target, i), nothing))

    def _moved(self, name: str, target: Buffer, what: str) -> None:
        size = target.size * _width(target.kind)
        size *= self.lanes if target in self._spread else 1
        self.declared.add(f"declare void @llvm.{name}.i64(ptr, {what.split()[0]}, i64, i1)")
        self.lines.append(
            f"  call void @llvm.{name}.i64(ptr {target.name}, {what}, i64 {size}, i1 false)"
        )

    def _each(self, count: int, body: Any) -> None:
        """A loop over the entries of an array."""
        self._n += 1
        n, before = self._n, self._block
        self.lines.append(f"  br label %f{n}")
        self._label(f"f{n}")
        at = len(self.lines)
        self.lines.append("")
        body(f"%i{n}")
        following = self._value(f"add nuw nsw i64 %i{n}, 1")
        more = self._value(f"icmp slt i64 {following}, {count}")
        self.lines[at] = f"  %i{n} = phi i64 [0, %{before}], [{following}, %{self._block}]"
        self.lines.append(f"  br i1 {more}, label %f{n}, label %e{n}")
        self._label(f"e{n}")

    def _call(self, node: Node) -> None:
        routine, numbers, places = node.data
        if not any(buffer in self._spread for buffer, _ in places):
            super()._call(node)
            return
        self._lane_routines.add(routine)
        given = [f"i64 {n}" for n in numbers]
        for buffer, first in places:
            if buffer in self._spread:
                given.append(f"ptr {self._place(buffer, str(first))}")
            else:
                given.append(f"ptr {self._spread_out(buffer, first, numbers[0])}")
        self.declared |= lane_routines.declarations(self.lanes)
        self.lines.append(f"  call void @lanes.{routine}({', '.join(given)})")

    def _spread_out(self, buffer: Buffer, first: int, n: int) -> str:
        """A matrix that all lanes have in common, once more for each of them."""
        size = n * n * self.lanes * 8
        copy = self._value(f"getelementptr i8, ptr %room, i64 {self.scratch}")
        self.scratch += -(-size // 64) * 64

        def one(i: str) -> None:
            at = self._value(f"add i64 {i}, {first}")
            value = self._everywhere(
                buffer.kind, self._read(buffer, self._place(buffer, at), False)
            )
            vector = self._vector(buffer.kind)
            place = self._value(f"getelementptr inbounds {vector}, ptr {copy}, i64 {i}")
            self.lines.append(f"  store {vector} {value}, ptr {place}, align 8")

        self._each(n * n, one)
        return copy

    # -- loops and branches ------------------------------------------------------------------

    def _any(self, mask: str) -> str:
        whole = f"i{self.lanes}"
        bits = self._value(f"bitcast <{self.lanes} x i1> {mask} to {whole}")
        return self._value(f"icmp ne {whole} {bits}, 0")

    def _both(self, mask: str) -> str:
        """Lanes that are at work, and of these the ones in `mask`."""
        if self._mask is None:
            return mask
        return self._value(f"and <{self.lanes} x i1> {self._mask}, {mask}")

    def _in_region(self, key: Any, mask: str, block: Block) -> None:
        before = self._mask, self._path
        self._mask, self._path = mask, (*self._path, key)
        self.block(block)
        self._mask, self._path = before

    def _named(self, x: Node, wide: bool) -> str:
        self._now_wide = wide
        name = self._operand(x)
        self._now_wide = False
        return name

    def _while(self, node: Node) -> None:
        loop = node.data
        apart = loop.going in self._spread
        self._n += 1
        n = self._n
        live = [phi for phi in loop.phis if phi.live]
        starts = [self._named(phi.args[0], phi in self._spread) for phi in live]
        before = self._block
        self.lines.append(f"  br label %h{n}")
        self._label(f"h{n}")
        at = len(self.lines)
        for phi in live:
            self._n += 1
            phi.name = f"%v{self._n}"
            self.lines.append("")
        truth = f"<{self.lanes} x i1>"
        active, entered = f"%a{n}", self._mask
        if apart:
            self.lines.append("")
            self._in_region(inner_key(node, loop.condition), active, loop.condition)
            self._now_wide = False
            going = self._value(f"and {truth} {active}, {loop.going.name}")
            goes = self._any(going)
            if entered is None:  # the outermost loop hears of an interrupt
                halt = self._value(f"load volatile i8, ptr {self._stop}")
                free = self._value(f"icmp eq i8 {halt}, 0")
                goes = self._value(f"and i1 {goes}, {free}")
        else:
            self.block(loop.condition)
            going, goes = "", self._operand(loop.going)
        seldom = ", !prof !1" if loop.rare else ""
        self.lines.append(f"  br i1 {goes}, label %w{n}, label %x{n}{seldom}")
        self._label(f"w{n}")
        if apart:
            self._in_region(inner_key(node, loop.body), going, loop.body)
        else:
            self.block(loop.body)
        following = [self._named(phi.args[1], phi in self._spread) for phi in live]
        if apart:
            following = [
                self._value(
                    f"select {truth} {going}, {self._vector(phi.kind)} {new}, "
                    f"{self._vector(phi.kind)} {phi.name}"
                )
                for phi, new in zip(live, following, strict=True)
            ]
        for k, (phi, start, new) in enumerate(zip(live, starts, following, strict=True)):
            kind = self._vector(phi.kind) if phi in self._spread else type_of(phi.kind)
            self.lines[at + k] = (
                f"  {phi.name} = phi {kind} [{start}, %{before}], [{new}, %{self._block}]"
            )
        if apart:
            first = "splat (i1 true)" if entered is None else entered
            self.lines[at + len(live)] = (
                f"  {active} = phi {truth} [{first}, %{before}], [{going}, %{self._block}]"
            )
        self.lines.append(f"  br label %h{n}")
        self._label(f"x{n}")

    def _switch(self, node: Node) -> None:
        switch = node.data
        if switch.which not in self._spread:
            self._one_branch(node)
            return
        self._n += 1
        n = self._n
        masks = self._masks(switch)
        cases: dict[Node, list[str]] = {phi: [] for phi in switch.phis if phi.live}
        for k, (block, mask) in enumerate(zip(switch.blocks, masks, strict=True)):
            before = self._block
            some = self._any(mask)
            self.lines.append(f"  br i1 {some}, label %s{n}_{k}, label %m{n}_{k}")
            self._label(f"s{n}_{k}")
            self._in_region(inner_key(node, block), mask, block)
            found = {phi: self._named(phi.args[k], True) for phi in cases}
            end = self._block
            self.lines.append(f"  br label %m{n}_{k}")
            self._label(f"m{n}_{k}")
            for phi, name in found.items():
                cases[phi].append(
                    self._value(
                        f"phi {self._vector(phi.kind)} [{name}, %{end}], "
                        f"[zeroinitializer, %{before}]"
                    )
                )
        for phi, values in cases.items():
            vector, out = self._vector(phi.kind), values[-1]
            for mask, value in zip(masks[:-1], values[:-1], strict=True):
                out = self._value(
                    f"select <{self.lanes} x i1> {mask}, {vector} {value}, {vector} {out}"
                )
            phi.name = out

    def _masks(self, switch: Any) -> list[str]:
        """The lanes of each branch, of those that are at work."""
        which, truth = switch.which, f"<{self.lanes} x i1>"
        if which.kind == "b1":
            turned = self._value(f"xor {truth} {which.name}, splat (i1 true)")
            return [self._both(turned), self._both(which.name)]
        kind, out, left = self._vector(which.kind), [], self._mask or "splat (i1 true)"
        for k in range(len(switch.blocks) - 1):
            number = f"splat ({type_of(which.kind)} {k})"
            here = self._both(self._value(f"icmp eq {kind} {which.name}, {number}"))
            out.append(here)
            other = self._value(f"xor {truth} {here}, splat (i1 true)")
            left = self._value(f"and {truth} {left}, {other}")
        return [*out, left]

    def _one_branch(self, node: Node) -> None:
        """A branch that all lanes take alike."""
        switch = node.data
        self._n += 1
        n = self._n
        labels = [f"s{n}_{k}" for k in range(len(switch.blocks))]
        self._now_wide = False
        self._choose(switch, labels)
        ends, names = [], []
        live = [phi for phi in switch.phis if phi.live]
        for k, (label, block) in enumerate(zip(labels, switch.blocks, strict=True)):
            self._label(label)
            self.block(block)
            names.append([self._named(phi.args[k], phi in self._spread) for phi in live])
            ends.append(self._block)
            self.lines.append(f"  br label %m{n}")
        self._label(f"m{n}")
        for i, phi in enumerate(live):
            kind = self._vector(phi.kind) if phi in self._spread else type_of(phi.kind)
            cases = ", ".join(f"[{x[i]}, %{end}]" for x, end in zip(names, ends, strict=True))
            phi.name = self._value(f"phi {kind} {cases}")
