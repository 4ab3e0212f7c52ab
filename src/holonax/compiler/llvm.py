"""Scalar operations written down in LLVM's language, as one function.

The function takes two tables of pointers, to the arrays that go in and those that come out, and
room for large arrays in between. The only liberty taken with floating point is `contract`: a
product and a sum may be rounded once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from . import routines
from .machine import host_lanes
from .operations import (
    FUNCTIONS,
    Block,
    Buffer,
    Node,
    bits,
    is_float,
    is_signed,
)
from .row_writer import RowWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from .exchange import Exchange
    from .operations import Switch

_STACK = 4096  # entries up to which an array is on the stack,
_ALL_STACK = 1 << 18  # and bytes up to which all of these together are
_INTRINSIC = {"sin", "cos", "exp", "log", "exp2", "pow"}
_COMPARE = {
    "lt": ("olt", "lt"),
    "le": ("ole", "le"),
    "gt": ("ogt", "gt"),
    "ge": ("oge", "ge"),
    "eq": ("oeq", "eq"),
    "ne": ("une", "ne"),
}
_ROUNDING = {
    "abs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round_even": "roundeven",
    "round_away": "round",
}


def type_of(kind: str) -> str:
    """LLVM's type of a scalar."""
    if is_float(kind):
        return "double" if kind == "f64" else "float"
    return f"i{bits(kind)}"


def stored_type(kind: str) -> str:
    """The type in memory: truth values are bytes."""
    return "i8" if kind == "b1" else type_of(kind)


def literal(kind: str, value: Any) -> str:
    """A number as LLVM writes it."""
    if is_float(kind):
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if kind == "b1":
        return "true" if value else "false"
    return str(value)


class Emitter:
    """Writes one program down."""

    def __init__(self, buffers: list[Buffer], inputs: int, outputs: int):
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.routines: set[str] = set()
        length = host_lanes()
        self._rows = RowWriter(self._value, self._operand, self.lines, self.declared, length)
        self.scratch = 0
        self._n = 0
        self._block = "entry"
        self._invariant = ", !invariant.load !0"
        self._head(buffers, inputs, outputs)

    # -- what is in memory -----------------------------------------------------------------

    def _head(self, buffers: list[Buffer], inputs: int, outputs: int) -> None:
        self.constants: list[str] = []
        stack, others = 0, []
        for k, buffer in enumerate(buffers):
            kind = stored_type(buffer.kind)
            if buffer.place == "constant":
                self._constant(k, buffer)
                continue
            if not buffer.live:
                continue
            buffer.name = f"%b{k}"
            if buffer.place in ("input", "output"):
                table = "%in" if buffer.place == "input" else "%out"
                place = self._value(f"getelementptr ptr, ptr {table}, i64 {buffer.data}")
                self.lines.append(f"  {buffer.name} = load ptr, ptr {place}{self._invariant}")
            elif buffer.size <= _STACK and stack + 8 * buffer.size <= _ALL_STACK:
                stack += 8 * buffer.size
                self.lines.append(
                    f"  {buffer.name} = alloca [{max(buffer.size, 1)} x {kind}], align 64"
                )
            else:
                others.append(buffer)
        self._in_room(others)

    def _in_room(self, buffers: list[Buffer]) -> None:
        """Places for large arrays."""
        for buffer in buffers:
            self.lines.append(f"  {buffer.name} = getelementptr i8, ptr %room, i64 {self.scratch}")
            self.scratch += -(-buffer.size * 8 // 64) * 64

    def _constant(self, k: int, buffer: Buffer) -> None:
        """An array of known numbers."""
        kind = stored_type(buffer.kind)
        buffer.name = f"@c{k}"
        values = ", ".join(
            f"{kind} {int(x) if buffer.kind == 'b1' else literal(buffer.kind, x)}"
            for x in buffer.data
        )
        self.constants.append(
            f"{buffer.name} = private unnamed_addr constant [{buffer.size} x {kind}] "
            f"[{values}], align 64"
        )

    def _address(self, buffer: Buffer, index: Node) -> str:
        if index.op == "const" and index.data == 0:
            return buffer.name
        return self._value(
            f"getelementptr inbounds {stored_type(buffer.kind)}, ptr {buffer.name}, "
            f"i64 {self._operand(index)}"
        )

    # -- lines -----------------------------------------------------------------------------

    def _value(self, text: str) -> str:
        self._n += 1
        name = f"%v{self._n}"
        self.lines.append(f"  {name} = {text}")
        return name

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self._block = name

    def _type(self, kind: str) -> str:
        """The type of what is computed now."""
        return type_of(kind)

    def _suffix(self, kind: str) -> str:
        """By which functions for numbers of a kind end in LLVM's library."""
        return f"f{bits(kind)}" if is_float(kind) else type_of(kind)

    def _number(self, kind: str, value: Any) -> str:
        """A known number, as an operand of what is computed now."""
        return literal(kind, value)

    def _operand(self, node: Node) -> str:
        if node.op == "part":
            return self._rows.part(node, self._block)
        return literal(node.kind, node.data) if node.op == "const" else node.name

    def _typed(self, node: Node) -> str:
        return f"{self._type(node.kind)} {self._operand(node)}"

    def block(self, block: Block) -> None:
        """The operations of a block that are needed."""
        for node in block.code:
            if node.op in STATEMENTS:
                getattr(self, f"_{node.op}")(node)
            elif node.live:
                if "*" in node.kind:
                    self._row(node)
                else:
                    node.name = self._computed(node)

    def _row(self, node: Node) -> None:
        """A row of numbers; see `rows.py`."""
        if node.op == "load":
            fixed = self._invariant if node.data.place in ("input", "constant") else ""
            self._rows.load(node, self._address(node.data, node.args[0]), fixed)
        else:
            self._rows.written(node)

    def _computed(self, node: Node) -> str:
        op, kind, args = node.op, node.kind, node.args
        if op == "load":
            return self._load(node)
        if op == "select":
            which, yes, no = args
            return self._value(
                f"select {self._typed(which)}, {self._typed(yes)}, {self._typed(no)}"
            )
        if op in _COMPARE:
            return self._compared(op, *args)
        if op == "convert":
            return self._converted(args[0], kind)
        if is_float(kind):
            return self._float(op, kind, args)
        return self._whole(op, kind, args)

    def _load(self, node: Node) -> str:
        buffer = node.data
        fixed = self._invariant if buffer.place in ("input", "constant") else ""
        address = self._address(buffer, node.args[0])
        value = self._value(f"load {stored_type(node.kind)}, ptr {address}{fixed}")
        return self._value(f"trunc i8 {value} to i1") if node.kind == "b1" else value

    def _compared(self, op: str, a: Node, b: Node) -> str:
        ordered, plain = _COMPARE[op]
        kind = self._type(a.kind)
        if is_float(a.kind):
            return self._value(f"fcmp {ordered} {kind} {self._operand(a)}, {self._operand(b)}")
        sign = "" if op in ("eq", "ne") else "s" if is_signed(a.kind) else "u"
        return self._value(f"icmp {sign}{plain} {kind} {self._operand(a)}, {self._operand(b)}")

    def _converted(self, x: Node, kind: str) -> str:
        new, old, value = self._type(kind), self._type(x.kind), self._operand(x)
        if is_float(kind):
            if is_float(x.kind):
                how = "fpext" if bits(kind) > bits(x.kind) else "fptrunc"
            else:
                how = "sitofp" if is_signed(x.kind) else "uitofp"
            return self._value(f"{how} {old} {value} to {new}")
        if is_float(x.kind):
            how = "fptosi" if is_signed(kind) else "fptoui"
            return self._called(
                f"llvm.{how}.sat.{self._suffix(kind)}.{self._suffix(x.kind)}", new, [x]
            )
        if bits(kind) == bits(x.kind):
            return value  # the same bits
        if bits(kind) < bits(x.kind):
            return self._value(f"trunc {old} {value} to {new}")
        return self._value(f"{'sext' if is_signed(x.kind) else 'zext'} {old} {value} to {new}")

    def _called(self, name: str, kind: str, args: Any) -> str:
        types = ", ".join(self._type(x.kind) for x in args)
        self.declared.add(f"declare {kind} @{name}({types}) nounwind willreturn memory(none)")
        return self._value(f"call {kind} @{name}({', '.join(self._typed(x) for x in args)})")

    def _float(self, op: str, kind: str, args: Any) -> str:
        real, x = self._type(kind), [self._operand(a) for a in args]
        truth = self._type("b1")
        if op in ("add", "sub", "mul", "div"):
            return self._value(f"f{op} {self._liberties(op)} {real} {x[0]}, {x[1]}")
        if op == "neg":
            return self._value(f"fneg {real} {x[0]}")
        if op in _ROUNDING:
            return self._called(f"llvm.{_ROUNDING[op]}.{self._suffix(kind)}", real, args)
        if op in ("max", "min"):  # NaN wherever one of them is
            better = self._value(f"fcmp {'ogt' if op == 'max' else 'olt'} {real} {x[0]}, {x[1]}")
            undefined = self._value(f"fcmp uno {real} {x[0]}, {x[0]}")
            first = self._value(f"or {truth} {better}, {undefined}")
            return self._value(f"select {truth} {first}, {real} {x[0]}, {real} {x[1]}")
        if op == "sign":
            none, one, less = (self._number(kind, value) for value in (0.0, 1.0, -1.0))
            above = self._value(f"fcmp ogt {real} {x[0]}, {none}")
            below = self._value(f"fcmp olt {real} {x[0]}, {none}")
            other = self._value(f"select {truth} {below}, {real} {less}, {real} {x[0]}")
            return self._value(f"select {truth} {above}, {real} {one}, {real} {other}")
        if op == "rem":
            return self._value(f"frem {real} {x[0]}, {x[1]}")
        return self._function(op, kind, args)

    def _liberties(self, op: str) -> str:
        """What LLVM may do with an operation beside computing it."""
        return "contract"

    def _function(self, op: str, kind: str, args: Any) -> str:
        """One of the library of mathematics."""
        if op in _INTRINSIC:
            return self._called(f"llvm.{op}.f{bits(kind)}", type_of(kind), args)
        if op in FUNCTIONS:
            return self._called(op if kind == "f64" else f"{op}f", type_of(kind), args)
        raise AssertionError(op)

    def _whole(self, op: str, kind: str, args: Any) -> str:
        whole, x = self._type(kind), [self._operand(a) for a in args]
        truth, none, less = self._type("b1"), self._number(kind, 0), self._number(kind, -1)
        if op in ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr"):
            return self._value(f"{op} {whole} {x[0]}, {x[1]}")
        if op == "not":
            return self._value(f"xor {whole} {x[0]}, {less}")
        if op == "neg":
            return self._value(f"sub {whole} {none}, {x[0]}")
        if op in ("max", "min"):
            sign = "s" if is_signed(kind) else "u"
            return self._called(f"llvm.{sign}{op}.{self._suffix(kind)}", whole, args)
        if op in ("abs", "sign"):
            if not is_signed(kind):
                return x[0] if op == "abs" else self._bool(f"icmp ne {whole} {x[0]}, {none}", whole)
            below = self._value(f"icmp slt {whole} {x[0]}, {none}")
            if op == "abs":
                turned = self._value(f"sub {whole} {none}, {x[0]}")
                return self._value(f"select {truth} {below}, {whole} {turned}, {whole} {x[0]}")
            above = self._bool(f"icmp sgt {whole} {x[0]}, {none}", whole)
            return self._value(f"select {truth} {below}, {whole} {less}, {whole} {above}")
        if op in ("div", "rem"):
            return self._divided(op, kind, *x)
        raise AssertionError(op)

    def _bool(self, text: str, whole: str) -> str:
        return self._value(f"zext {self._type('b1')} {self._value(text)} to {whole}")

    def _divided(self, op: str, kind: str, a: str, b: str) -> str:
        """Whole numbers by XLA's rules where there is no quotient."""
        whole, truth = self._type(kind), self._type("b1")
        one, less = self._number(kind, 1), self._number(kind, -1)
        none = self._value(f"icmp eq {whole} {b}, {self._number(kind, 0)}")
        unsafe = none
        if is_signed(kind):
            lowest = self._number(kind, -(1 << (bits(kind) - 1)))
            least = self._value(f"icmp eq {whole} {a}, {lowest}")
            minus = self._value(f"icmp eq {whole} {b}, {less}")
            both = self._value(f"and {truth} {least}, {minus}")
            unsafe = self._value(f"or {truth} {none}, {both}")
        safe = self._value(f"select {truth} {unsafe}, {whole} {one}, {whole} {b}")
        sign = "s" if is_signed(kind) else "u"
        value = self._value(f"{sign}{op} {whole} {a}, {safe}")
        # by one: the quotient of the least number and -1 is itself, the remainder zero
        instead = less if op == "div" else a
        return self._value(f"select {truth} {none}, {whole} {instead}, {whole} {value}")

    # -- statements --------------------------------------------------------------------------

    def _store(self, node: Node) -> None:
        buffer, (index, value) = node.data, node.args
        if not buffer.live:
            return
        if "*" in value.kind:
            self._rows.store(value, self._address(buffer, index))
            return
        what = self._operand(value)
        if buffer.kind == "b1":
            what = self._value(f"zext i1 {what} to i8")
        address = self._address(buffer, index)
        self.lines.append(f"  store {stored_type(buffer.kind)} {what}, ptr {address}")

    def _copy(self, node: Node) -> None:
        target, source = node.data
        if not target.live or target is source:
            return
        self.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        self.lines.append(
            f"  call void @llvm.memcpy.p0.p0.i64(ptr {target.name}, ptr {source.name}, "
            f"i64 {target.size * _width(target.kind)}, i1 false)"
        )

    def _zero(self, node: Node) -> None:
        target = node.data
        if not target.live:
            return
        self.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        self.lines.append(
            f"  call void @llvm.memset.p0.i64(ptr {target.name}, i8 0, "
            f"i64 {target.size * _width(target.kind)}, i1 false)"
        )

    def _call(self, node: Node) -> None:
        routine, numbers, places = node.data
        self.routines.add(routine)
        self.declared.add("declare double @llvm.fabs.f64(double) nounwind willreturn memory(none)")
        self.declared.add("declare double @llvm.sqrt.f64(double) nounwind willreturn memory(none)")
        given = [f"i64 {n}" for n in numbers]
        for buffer, first in places:
            given.append(f"ptr {self._address(buffer, Node('const', 'i64', (), first))}")
        self.lines.append(f"  call void @{routine}({', '.join(given)})")

    def _while(self, node: Node) -> None:
        live = [phi for phi in node.data.phis if phi.live]
        self._rounds(node, [self._operands(phi.args[0]) for phi in live])

    def _rounds(
        self, node: Node, starts: list[list[str]], in_each: Callable[[], None] = lambda: None
    ) -> None:
        """A loop that begins with some numbers; `in_each` writes what else a round does."""
        loop = node.data
        self._n += 1
        n, before = self._n, self._block
        phis = [phi for phi in loop.phis if phi.live]
        self.lines.append(f"  br label %h{n}")
        self._label(f"h{n}")
        at, names = len(self.lines), []
        for phi, start in zip(phis, starts, strict=True):
            names.append([f"%v{self._n + 1 + k}" for k in range(len(start))])
            self._n += len(start)
            self._name_pieces(phi, names[-1])
            self.lines += [""] * len(start)
        places = self._places_of(loop.exchanged)
        self.lines += [""] * len(places)
        self.block(loop.condition)
        self.lines.append(f"  br i1 {self._operand(loop.going)}, label %w{n}, label %x{n}")
        self._label(f"w{n}")
        in_each()
        self.block(loop.body)
        for phi, start, its in zip(phis, starts, names, strict=True):
            for name, a, b in zip(its, start, self._operands(phi.args[1]), strict=True):
                kind = self._phi_type(phi)
                self.lines[at] = f"  {name} = phi {kind} [{a}, %{before}], [{b}, %{self._block}]"
                at += 1
        for name, given, following in self._exchanged(loop.exchanged, places):
            self.lines[at] = (
                f"  {name} = phi ptr [{given}, %{before}], [{following}, %{self._block}]"
            )
            at += 1
        self.lines.append(f"  br label %h{n}")
        self._label(f"x{n}")

    def _places_of(self, exchanged: list[Exchange]) -> list[tuple[str, str]]:
        """Names for where arrays are in this round, which other ones have been in before; with
        where they were at first."""
        out = []
        for buffer in (y for x in exchanged for y in (x.carried, x.new)):
            self._n += 1
            out.append((f"%v{self._n}", buffer.name))
            buffer.name = f"%v{self._n}"
        return out

    def _exchanged(
        self, exchanged: list[Exchange], places: list[tuple[str, str]]
    ) -> list[tuple[str, str, str]]:
        """Where arrays are in a round, were at first, and are in the next round."""
        out = []
        for k, x in enumerate(exchanged):
            (a, of_a), (b, of_b) = places[2 * k : 2 * k + 2]
            next_a, next_b = b, a
            if x.when is not None:
                which = self._operand(x.when)
                next_a = self._value(f"select i1 {which}, ptr {b}, ptr {a}")
                next_b = self._value(f"select i1 {which}, ptr {a}, ptr {b}")
            out += [(a, of_a, next_a), (b, of_b, next_b)]
        return out

    def _operands(self, node: Node) -> list[str]:
        """A number, or the pieces of a row."""
        return self._rows.pieces(node) if "*" in node.kind else [self._operand(node)]

    def _name_pieces(self, node: Node, names: list[str]) -> None:
        if "*" in node.kind:
            self._rows.name(node, names)
        else:
            (node.name,) = names

    def _phi_type(self, node: Node) -> str:
        return self._rows.type(node.kind) if "*" in node.kind else type_of(node.kind)

    def _switch(self, node: Node) -> None:
        switch = node.data
        self._n += 1
        n = self._n
        labels = [f"s{n}_{k}" for k in range(len(switch.blocks))]
        self._choose(switch, labels)
        ends, phis = [], [phi for phi in switch.phis if phi.live]
        given: list[list[list[str]]] = [[] for _ in phis]  # of each phi, for each block
        for k, (label, block) in enumerate(zip(labels, switch.blocks, strict=True)):
            self._label(label)
            self.block(block)
            for phi, cases in zip(phis, given, strict=True):
                cases.append(self._operands(phi.args[k]))
            ends.append(self._block)
            self.lines.append(f"  br label %m{n}")
        self._label(f"m{n}")
        for phi, cases in zip(phis, given, strict=True):
            names = []
            for pieces in zip(*cases, strict=True):
                text = ", ".join(f"[{x}, %{end}]" for x, end in zip(pieces, ends, strict=True))
                names.append(self._value(f"phi {self._phi_type(phi)} {text}"))
            self._name_pieces(phi, names)

    def _choose(self, switch: Switch, labels: list[str]) -> None:
        """Go to one of several blocks."""
        which = self._operand(switch.which)
        if switch.which.kind == "b1":
            self.lines.append(f"  br i1 {which}, label %{labels[1]}, label %{labels[0]}")
        else:
            kind = type_of(switch.which.kind)
            cases = " ".join(f"{kind} {k}, label %{x}" for k, x in enumerate(labels[:-1]))
            self.lines.append(f"  switch {kind} {which}, label %{labels[-1]} [{cases}]")

    def _for(self, node: Node) -> None:
        loop = node.data
        self._n += 1
        n, before = self._n, self._block
        loop.index.name = f"%i{n}"
        self.lines.append(f"  br label %f{n}")
        self._label(f"f{n}")
        at = len(self.lines)
        self.lines.append("")
        self.block(loop.body)
        following = self._value(f"add nuw nsw i64 %i{n}, 1")
        more = self._value(f"icmp slt i64 {following}, {loop.count}")
        self.lines[at] = f"  %i{n} = phi i64 [0, %{before}], [{following}, %{self._block}]"
        self.lines.append(f"  br i1 {more}, label %f{n}, label %e{n}")
        self._label(f"e{n}")

    def text(self) -> str:
        """The whole module."""
        before, after = self._around()
        head = (
            "define void @program(ptr noalias %in, ptr noalias %out, ptr noalias %room) nounwind {"
        )
        return "\n".join(
            [
                *self.constants,
                *sorted(self.declared),
                routines.text(self.routines),
                head,
                "entry:",
                *before,
                *self.lines,
                *after,
                "  ret void",
                "}",
                "!0 = !{}",
                "!1 = !{i32 1}",
            ]
        )

    def _around(self) -> tuple[list[str], list[str]]:
        """What is done before and after everything else."""
        return [], []


STATEMENTS = {"store", "copy", "zero", "call", "while", "switch", "for", "strips"}


def _width(kind: str) -> int:
    return 1 if kind == "b1" else bits(kind) // 8
