"""Numbers side by side in vectors: what programs for many runs and loops over arrays share."""

from __future__ import annotations

from typing import Any

from . import functions
from .llvm import Emitter, literal, type_of
from .operations import FUNCTIONS, Buffer, Node, bits, is_float

_PAIR = ("sin", "cos")  # found together


class VectorEmitter(Emitter):
    """Writes operations down for one number, or for `lanes` of them at once: those of the nodes in
    `_spread`."""

    lanes: int
    _angles = "sincos"  # what finds sines and cosines
    _spread: Any  # which nodes these are

    def __init__(self, buffers: list[Buffer], inputs: int, outputs: int):
        self._now_wide = False  # whether a vector is being computed
        self._functions: set[str] = set()
        self._found: dict[Any, str] = {}  # vectors made in the present block
        super().__init__(buffers, inputs, outputs)

    def _label(self, name: str) -> None:
        super()._label(name)
        self._found = {}

    def _vector(self, kind: str) -> str:
        return f"<{self.lanes} x {type_of(kind)}>"

    def _type(self, kind: str) -> str:
        return self._vector(kind) if self._now_wide else type_of(kind)

    def _suffix(self, kind: str) -> str:
        many = f"v{self.lanes}" if self._now_wide else ""
        return f"{many}{'f' if is_float(kind) else 'i'}{bits(kind)}"

    def _number(self, kind: str, value: Any) -> str:
        plain = literal(kind, value)
        return f"splat ({type_of(kind)} {plain})" if self._now_wide else plain

    def _operand(self, node: Node) -> str:
        if node.op == "const":
            return self._number(node.kind, node.data)
        if self._now_wide and node not in self._spread:
            return self._everywhere(node.kind, node.name)
        return node.name

    def _everywhere(self, kind: str, name: str) -> str:
        """A vector with one number in all lanes."""
        found = self._found.get(("everywhere", name))
        if found is None:
            vector = self._vector(kind)
            first = self._value(f"insertelement {vector} poison, {type_of(kind)} {name}, i64 0")
            found = self._value(
                f"shufflevector {vector} {first}, {vector} poison, "
                f"<{self.lanes} x i32> zeroinitializer"
            )
            self._found["everywhere", name] = found
        return found

    def _function(self, op: str, kind: str, args: Any) -> str:
        if not self._now_wide:
            return super()._function(op, kind, args)
        if kind != "f64" or (op not in functions.MAKERS and op not in _PAIR):
            return self._one_by_one(op, kind, args)
        real = self._type(kind)
        x = ", ".join(self._typed(a) for a in args)
        if op not in _PAIR:
            self._functions.add(op)
            return self._value(f"call {real} @hx.{op}({x})")
        self._functions.add("sincos")
        pair = f"{{ {real}, {real} }}"
        found = self._found.get(("sincos", x))
        if found is None:
            found = self._found["sincos", x] = self._value(f"call {pair} @hx.{self._angles}({x})")
        return self._value(f"extractvalue {pair} {found}, {_PAIR.index(op)}")

    def _one_by_one(self, op: str, kind: str, args: Any) -> str:
        """A function that there are no vectors of."""
        if op == "rem":
            x = [self._operand(a) for a in args]
            return self._value(f"frem {self._type(kind)} {x[0]}, {x[1]}")
        assert op in FUNCTIONS, op
        real, vector = type_of(kind), self._vector(kind)
        name = op if kind == "f64" else f"{op}f"
        types = ", ".join([real] * len(args))
        self.declared.add(f"declare {real} @{name}({types}) nounwind willreturn memory(none)")
        wide = [self._operand(a) for a in args]
        out = "poison"
        for lane in range(self.lanes):
            x = [self._value(f"extractelement {vector} {w}, i64 {lane}") for w in wide]
            given = ", ".join(f"{real} {y}" for y in x)
            value = self._value(f"call {real} @{name}({given})")
            out = self._value(f"insertelement {vector} {out}, {real} {value}, i64 {lane}")
        return out
