"""Scalar operations written down for a GPU: one thread for each run, the time loop inside.

The function is that of one run. Arrays of runs lie as (entry, run) in memory, so that threads next
to each other read numbers next to each other. All functions of mathematics are those of
`functions.py`: a driver brings no library.
"""

from __future__ import annotations

import math
from typing import Any

from . import functions, routines, thread_arithmetic
from .cuda import in_bank
from .llvm import Emitter, _width, literal, stored_type
from .operations import Block, Buffer, Node, Unsupported, is_float, is_size

TRIPLE = "nvptx64-nvidia-cuda"
_LOCAL = 1 << 17  # bytes of arrays that one thread may have
_REGISTERS = ("tid", "ctaid", "ntid")


class ThreadEmitter(Emitter):
    """Writes one program down for a GPU; `batched` are the numbers of the inputs that each run has
    its own of."""

    def __init__(
        self, main: Block, buffers: list[Buffer], inputs: int, outputs: int, batched: list[int]
    ):
        self._batched = set(batched)
        self._functions: set[str] = set()
        self._arithmetic: set[str] = set()
        self._pairs: dict[str, str] = {}
        self._banked = _in_bank(buffers, self._batched)
        # routines take matrices whose entries lie next to each other: a copy of one's own
        self._staged: dict[Buffer, str] = dict.fromkeys(_in_routines(main), "")
        super().__init__(buffers, inputs, outputs)
        self.block(main)
        for buffer, place in self._staged.items():
            if buffer.place == "output" and place:
                self._moved_between(buffer, place, out=True)

    def _is_of_runs(self, buffer: Buffer) -> bool:
        """Whether the host sees an array that each run has its own of."""
        own = buffer.place == "input" and buffer.data in self._batched
        return buffer.place == "output" or own

    def _is_own(self, buffer: Buffer) -> bool:
        """Whether such an array is used where it is."""
        return self._is_of_runs(buffer) and buffer not in self._staged

    def _head(self, buffers: list[Buffer], inputs: int, outputs: int) -> None:
        self.constants = []
        local = 0
        for name in _REGISTERS:
            full = f"@llvm.nvvm.read.ptx.sreg.{name}.x"
            self.declared.add(f"declare i32 {full}() nounwind memory(none)")
            self.lines.append(f"  %{name} = call i32 {full}()")
        self.lines += [
            "  %block = mul i32 %ctaid, %ntid",
            "  %place = add i32 %block, %tid",
            "  %run = zext i32 %place to i64",
            "  %inside = icmp slt i64 %run, %runs",
            "  br i1 %inside, label %work, label %over",
        ]
        self._label("work")
        for k, buffer in enumerate(buffers):
            if buffer.place == "constant":
                self._constant(k, buffer)
                continue
            if not buffer.live:
                continue
            buffer.name = f"%b{k}"
            kind = stored_type(buffer.kind)
            if buffer.place in ("input", "output"):
                table = "%in" if buffer.place == "input" else "%out"
                place = self._value(f"getelementptr ptr, ptr {table}, i64 {buffer.data}")
                staged = self._is_of_runs(buffer) and buffer in self._staged
                name = f"{buffer.name}.all" if staged else buffer.name
                self.lines.append(f"  {name} = load ptr, ptr {place}{self._invariant}")
                if not staged:
                    continue
                self._staged[buffer] = name
            local += max(buffer.size, 1) * _width(buffer.kind)
            if local > _LOCAL:
                raise Unsupported("arrays too large for one thread of a GPU")
            self.lines.append(
                f"  {buffer.name} = alloca [{max(buffer.size, 1)} x {kind}], align 16"
            )

        for buffer, place in self._staged.items():
            if buffer.place == "input" and place:
                self._moved_between(buffer, place, out=False)

    def _moved_between(self, buffer: Buffer, place: str, out: bool) -> None:
        """An array from where the host sees it to where this thread has it, or back."""
        kind = stored_type(buffer.kind)

        def one(index: Node) -> None:
            at = self._value(f"mul i64 {index.name}, %runs")
            at = self._value(f"add i64 {at}, %run")
            far = self._value(f"getelementptr inbounds {kind}, ptr {place}, i64 {at}")
            near = super(ThreadEmitter, self)._address(buffer, index)
            source, target = (near, far) if out else (far, near)
            value = self._value(f"load {kind}, ptr {source}")
            self.lines.append(f"  store {kind} {value}, ptr {target}")

        self._loop(buffer.size, one)

    def _label(self, name: str) -> None:
        super()._label(name)
        self._pairs = {}

    def _load(self, node: Node) -> str:
        first, index = self._banked.get(node.data), node.args[0]
        if first is None or index.op != "const":
            return super()._load(node)
        place = f"getelementptr (double, ptr addrspace(4) @shared, i64 {first + index.data})"
        return self._value(f"load double, ptr addrspace(4) {place}{self._invariant}")

    def _address(self, buffer: Buffer, index: Node) -> str:
        if not self._is_own(buffer):
            return super()._address(buffer, index)
        at = self._value(f"mul i64 {self._operand(index)}, %runs")
        at = self._value(f"add i64 {at}, %run")
        kind = stored_type(buffer.kind)
        return self._value(f"getelementptr inbounds {kind}, ptr {buffer.name}, i64 {at}")

    def _copy(self, node: Node) -> None:
        target, source = node.data
        if not target.live or target is source:
            return
        if self._is_own(target) or self._is_own(source):
            self._each(target, lambda i: self._one(source, i))
        else:
            super()._copy(node)

    def _zero(self, node: Node) -> None:
        if node.data.live and self._is_own(node.data):
            self._each(node.data, lambda _: _nothing(node.data))
        else:
            super()._zero(node)

    def _one(self, buffer: Buffer, index: Node) -> str:
        address = self._address(buffer, index)
        return self._value(f"load {stored_type(buffer.kind)}, ptr {address}")

    def _each(self, target: Buffer, value: Any) -> None:
        """Fill an array entry by entry."""

        def one(index: Node) -> None:
            what, address = value(index), self._address(target, index)
            self.lines.append(f"  store {stored_type(target.kind)} {what}, ptr {address}")

        self._loop(target.size, one)

    def _loop(self, count: int, body: Any) -> None:
        """Over the entries of an array."""
        self._n += 1
        n, before = self._n, self._block
        index = Node("index", "i64")
        index.name = f"%i{n}"
        self.lines.append(f"  br label %f{n}")
        self._label(f"f{n}")
        at = len(self.lines)
        self.lines.append("")
        body(index)
        following = self._value(f"add nuw nsw i64 %i{n}, 1")
        more = self._value(f"icmp slt i64 {following}, {count}")
        self.lines[at] = f"  %i{n} = phi i64 [0, %{before}], [{following}, %{self._block}]"
        self.lines.append(f"  br i1 {more}, label %f{n}, label %e{n}")
        self._label(f"e{n}")

    def _float(self, op: str, kind: str, args: Any) -> str:
        if kind == "f64":
            if op == "div":
                return self._quotient(*args)
            if op == "sqrt":
                return self._by("root", self._operand(args[0]))
            if op == "max" and all(map(is_size, args)):
                return self._larger(*map(self._operand, args))
        return super()._float(op, kind, args)

    def _by(self, name: str, x: str) -> str:
        """A function of arithmetic."""
        self._arithmetic.add(name)
        return self._value(f"call double @hx.{name}(double {x})")

    def _quotient(self, a: Node, b: Node) -> str:
        known = b.op == "const" and b.data != 0 and math.isfinite(1 / b.data)
        by = literal("f64", 1 / b.data) if known else self._by("inverse", self._operand(b))
        if a.op == "const" and a.data == 1:
            return by
        return self._value(f"fmul contract double {self._operand(a)}, {by}")

    def _larger(self, a: str, b: str) -> str:
        """Of two that are not negative; NaN wherever one of them is."""
        x, y = (self._value(f"bitcast double {value} to i64") for value in (a, b))
        larger = self._value(f"icmp ugt i64 {x}, {y}")
        return self._value(f"select i1 {larger}, double {a}, double {b}")

    def _function(self, op: str, kind: str, args: Any) -> str:
        x = ", ".join(self._typed(a) for a in args)
        if kind == "f64" and op in ("sin", "cos"):
            self._functions.add("sincos")
            if x not in self._pairs:
                self._pairs[x] = self._value(f"call {{ double, double }} @hx.sincos({x})")
            which = ("sin", "cos").index(op)
            return self._value(f"extractvalue {{ double, double }} {self._pairs[x]}, {which}")
        if kind != "f64" or op not in functions.MAKERS:
            raise Unsupported(f"{op} on a GPU")
        self._functions.add(op)
        return self._value(f"call double @hx.{op}({x})")

    def text(self) -> str:
        """The whole module."""
        size = sum(buffer.size for buffer in self._banked)
        texts, declared = functions.text(self._functions, 0)
        more, others = thread_arithmetic.text(self._arithmetic)
        return "\n".join(
            [
                f'target triple = "{TRIPLE}"',
                *self.constants,
                *([f"@shared = addrspace(4) global [{size} x double] undef"] if size else []),
                *sorted(self.declared | declared | others),
                *more,
                *texts,
                routines.text(self.routines),
                "define ptx_kernel void @program(ptr noalias %in, ptr noalias %out, i64 %runs) "
                "nounwind #0 {",
                "entry:",
                *self.lines,
                "  br label %over",
                "over:",
                "  ret void",
                "}",
                "!0 = !{}",
            ]
        )


def _in_bank(buffers: list[Buffer], batched: set[int]) -> dict[Buffer, int]:
    """Arrays in the memory for constants, and where they begin there."""
    inputs = sorted((x for x in buffers if x.place == "input"), key=lambda x: x.data)
    shared = [x for x in inputs if x.data not in batched and x.kind == "f64"]
    places = in_bank(x.size for x in shared)
    return {x: place for x, place in zip(shared, places, strict=True) if place is not None}


def _nothing(buffer: Buffer) -> str:
    return "0.0" if is_float(buffer.kind) else "0"


def _in_routines(block: Block) -> set[Buffer]:
    """Arrays that routines are called with."""
    found: set[Buffer] = set()
    for node in block.code:
        if node.op == "call":
            found.update(buffer for buffer, _ in node.data[2])
        elif node.op == "while":
            found |= _in_routines(node.data.condition) | _in_routines(node.data.body)
        elif node.op == "switch":
            found = found.union(*map(_in_routines, node.data.blocks))
        elif node.op == "for":
            found |= _in_routines(node.data.body)
    return found
