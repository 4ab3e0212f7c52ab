"""Scalar operations written down for a GPU: one thread for each run, the time loop inside.

The function is that of one run. Arrays of runs lie as (entry, run) in memory, so that threads next
to each other read numbers next to each other. All functions of mathematics are those of
`functions.py`: a driver brings no library.
"""

from __future__ import annotations

from typing import Any

from . import functions, routines
from .llvm import Emitter, _width, stored_type
from .operations import Buffer, Node, Unsupported

TRIPLE = "nvptx64-nvidia-cuda"
_LOCAL = 1 << 17  # bytes of arrays that one thread may have
_REGISTERS = ("tid", "ctaid", "ntid")


class ThreadEmitter(Emitter):
    """Writes one program down for a GPU; `batched` are the numbers of the inputs that each run has
    its own of."""

    def __init__(self, buffers: list[Buffer], inputs: int, outputs: int, batched: list[int]):
        self._own = set(batched)
        self._functions: set[str] = set()
        self._pairs: dict[str, str] = {}
        super().__init__(buffers, inputs, outputs)

    def _is_own(self, buffer: Buffer) -> bool:
        """Whether each run has its own numbers in memory that the host sees."""
        return buffer.place == "output" or (buffer.place == "input" and buffer.data in self._own)

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
                self.lines.append(f"  {buffer.name} = load ptr, ptr {place}{self._invariant}")
                continue
            local += max(buffer.size, 1) * _width(buffer.kind)
            if local > _LOCAL:
                raise Unsupported("arrays too large for one thread of a GPU")
            self.lines.append(f"  {buffer.name} = alloca [{max(buffer.size, 1)} x {kind}], align 16")

    def _label(self, name: str) -> None:
        super()._label(name)
        self._pairs = {}

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
            self._each(node.data, lambda i: "zeroinitializer")
        else:
            super()._zero(node)

    def _one(self, buffer: Buffer, index: Node) -> str:
        address = self._address(buffer, index)
        return self._value(f"load {stored_type(buffer.kind)}, ptr {address}")

    def _each(self, target: Buffer, value: Any) -> None:
        """A loop over the entries of an array."""
        self._n += 1
        n, before = self._n, self._block
        index = Node("index", "i64")
        index.name = f"%i{n}"
        self.lines.append(f"  br label %f{n}")
        self._label(f"f{n}")
        at = len(self.lines)
        self.lines.append("")
        what = value(index)
        address = self._address(target, index)
        self.lines.append(f"  store {stored_type(target.kind)} {what}, ptr {address}")
        following = self._value(f"add nuw nsw i64 %i{n}, 1")
        more = self._value(f"icmp slt i64 {following}, {target.size}")
        self.lines[at] = f"  %i{n} = phi i64 [0, %{before}], [{following}, %{self._block}]"
        self.lines.append(f"  br i1 {more}, label %f{n}, label %e{n}")
        self._label(f"e{n}")

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
        texts, declared = functions.text(self._functions, 0)
        return "\n".join(
            [
                f'target triple = "{TRIPLE}"',
                *self.constants,
                *sorted(self.declared | declared),
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
