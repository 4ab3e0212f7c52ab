"""Rows of numbers (see `rows.py`) in LLVM's language: in pieces as long as a register.

A row of ten numbers is two pieces of eight, or three of four; what lies beyond its end in the last
piece is never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .operations import Node, scalar_kind, width_of

_TYPES = {"f64": "double", "b1": "i1"}
_FUNCTIONS = {"sin", "cos", "exp", "log"}  # called for one number at a time


class RowWriter:
    """Writes rows down. `value` adds a line and gives its name, `operand` is that of a number,
    `lines` are those written so far; a piece has `length` numbers."""

    def __init__(
        self,
        value: Callable[[str], str],
        operand: Callable[[Node], str],
        lines: list[str],
        declared: set[str],
        length: int,
    ):
        self._value, self._number, self._lines = value, operand, lines
        self._declared, self.length = declared, length
        self._pieces: dict[Node, list[str]] = {}
        self._parts: dict[tuple[Node, str], str] = {}

    def type(self, kind: str) -> str:
        """LLVM's type of a piece."""
        return f"<{self.length} x {_TYPES[scalar_kind(kind)]}>"

    def pieces(self, row: Node) -> list[str]:
        """The names of the pieces of a row."""
        return self._pieces[row]

    def name(self, row: Node, pieces: list[str]) -> None:
        """Say what the pieces of a row are called."""
        self._pieces[row] = pieces

    def count(self, row: Node) -> int:
        """How many pieces a row has."""
        return -(-width_of(row.kind) // self.length)

    def part(self, part: Node, block: str) -> str:
        """One number of a row, taken out of it in each block that needs it."""
        key = part, block
        if key not in self._parts:
            (row,) = part.args
            piece, at = divmod(part.data, self.length)
            self._parts[key] = self._value(
                f"extractelement {self.type(row.kind)} {self.pieces(row)[piece]}, i64 {at}"
            )
        return self._parts[key]

    def written(self, row: Node) -> None:
        """A row that is computed from others."""
        if row.op == "pack":
            self.name(row, self._packed(row))
            return
        columns = []
        for x in row.args:
            alone = "*" not in x.kind  # what chooses between rows
            columns.append([self._number(x)] * self.count(row) if alone else self.pieces(x))
        width = width_of(row.kind)
        found = []
        for k, x in enumerate(zip(*columns, strict=True)):
            valid = min(self.length, width - k * self.length)
            found.append(self._computed(row, x, valid))
        self.name(row, found)

    def _computed(self, row: Node, x: Sequence[str], valid: int) -> str:
        op, kind, value = row.op, self.type(row.kind), self._value
        if op in ("add", "sub", "mul", "div"):
            return value(f"f{op} contract {kind} {x[0]}, {x[1]}")
        if op == "neg":
            return value(f"fneg {kind} {x[0]}")
        if op in ("abs", "sqrt", "floor", "ceil"):
            name = f"llvm.{'fabs' if op == 'abs' else op}.v{self.length}f64"
            self._declared.add(f"declare {kind} @{name}({kind}) nounwind willreturn memory(none)")
            return value(f"call {kind} @{name}({kind} {x[0]})")
        if op in _FUNCTIONS:
            return self._one_by_one(op, kind, x[0], valid)
        truth = self.type("b1")
        if op in ("max", "min"):  # not a number wherever one of them is
            better = value(f"fcmp {'ogt' if op == 'max' else 'olt'} {kind} {x[0]}, {x[1]}")
            undefined = value(f"fcmp uno {kind} {x[0]}, {x[0]}")
            first = value(f"or {truth} {better}, {undefined}")
            return value(f"select {truth} {first}, {kind} {x[0]}, {kind} {x[1]}")
        if op in ("lt", "le", "gt", "ge", "eq", "ne"):
            how = ("u" if op == "ne" else "o") + op
            return value(f"fcmp {how} {self.type(row.args[0].kind)} {x[0]}, {x[1]}")
        if op in ("and", "or", "xor"):
            return value(f"{op} {kind} {x[0]}, {x[1]}")
        if op == "not":
            return value(f"xor {kind} {x[0]}, <{', '.join(['i1 true'] * self.length)}>")
        if op == "convert":
            return value(f"uitofp {truth} {x[0]} to {kind}")
        if op == "select":
            which = truth if "*" in row.args[0].kind else "i1"
            return value(f"select {which} {x[0]}, {kind} {x[1]}, {kind} {x[2]}")
        raise AssertionError(op)

    def _one_by_one(self, op: str, kind: str, x: str, valid: int) -> str:
        name, out = f"llvm.{op}.f64", "poison"
        self._declared.add(f"declare double @{name}(double) nounwind willreturn memory(none)")
        for k in range(valid):
            entry = self._value(f"extractelement {kind} {x}, i64 {k}")
            found = self._value(f"call double @{name}(double {entry})")
            out = self._value(f"insertelement {kind} {out}, double {found}, i64 {k}")
        return out

    # -- putting together ------------------------------------------------------------------------

    def _packed(self, row: Node) -> list[str]:
        """Numbers side by side: known ones, single ones, and those of other rows."""
        n, entries = self.length, list(row.args)
        if entries[0].op not in ("part", "const") and all(x is entries[0] for x in entries):
            kind, one = self.type(row.kind), _TYPES[scalar_kind(row.kind)]
            number = self._number(entries[0])
            first = self._value(f"insertelement {kind} poison, {one} {number}, i64 0")
            zeros = f"<{n} x i32> zeroinitializer"
            piece = self._value(f"shufflevector {kind} {first}, {kind} poison, {zeros}")
            return [piece] * self.count(row)
        return [self._piece(row.kind, entries[at : at + n]) for at in range(0, len(entries), n)]

    def _piece(self, kind: str, entries: list[Node]) -> str:
        whole, one, n = self.type(kind), _TYPES[scalar_kind(kind)], self.length
        known = [f"{one} {self._number(x) if x.op == 'const' else 'poison'}" for x in entries]
        out = f"<{', '.join(known + [f'{one} poison'] * (n - len(known)))}>"
        empty = all(x.op != "const" for x in entries)
        sources: dict[str, dict[int, int]] = {}
        for at, x in enumerate(entries):
            if x.op == "part":
                piece, place = divmod(x.data, n)
                sources.setdefault(self.pieces(x.args[0])[piece], {})[at] = place
        for name, places in sources.items():
            if empty:
                if all(at == place for at, place in places.items()):
                    out = name
                else:
                    out = self._shuffled(whole, name, "poison", [places.get(k) for k in range(n)])
            else:
                order = [n + places[k] if k in places else k for k in range(n)]
                out = self._shuffled(whole, out, name, order)
            empty = False
        for at, x in enumerate(entries):
            if x.op not in ("const", "part"):
                out = self._value(f"insertelement {whole} {out}, {one} {self._number(x)}, i64 {at}")
        return out

    def _shuffled(self, kind: str, a: str, b: str, order: Sequence[int | None]) -> str:
        mask = ", ".join("i32 poison" if k is None else f"i32 {k}" for k in order)
        return self._value(f"shufflevector {kind} {a}, {kind} {b}, <{len(order)} x i32> <{mask}>")

    # -- memory ----------------------------------------------------------------------------------

    def _spans(self, row: Node) -> list[tuple[int, int]]:
        """Where each piece begins, and how many numbers of it there are."""
        width, n = width_of(row.kind), self.length
        return [(at, min(n, width - at)) for at in range(0, width, n)]

    def load(self, row: Node, address: str, note: str) -> None:
        """A row from memory."""
        found = []
        for at, count in self._spans(row):
            kind = f"<{count} x double>"
            place = self._value(f"getelementptr inbounds double, ptr {address}, i64 {at}")
            piece = self._value(f"load {kind}, ptr {place}, align 8{note}")
            if count < self.length:
                order = [k if k < count else None for k in range(self.length)]
                piece = self._shuffled(kind, piece, "poison", order)
            found.append(piece)
        self.name(row, found)

    def store(self, row: Node, address: str) -> None:
        """A row into memory."""
        for (at, count), piece in zip(self._spans(row), self.pieces(row), strict=True):
            kind = f"<{count} x double>"
            place = self._value(f"getelementptr inbounds double, ptr {address}, i64 {at}")
            if count < self.length:
                piece = self._shuffled(self.type(row.kind), piece, "poison", range(count))
            self._lines.append(f"  store {kind} {piece}, ptr {place}, align 8")
