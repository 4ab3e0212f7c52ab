"""Routines on whole matrices for many runs side by side: those of `routines.py`, in vectors.

An entry of a matrix is a vector with the entry of each lane. Rows are exchanged lane by lane, by
selection, since each has pivots of its own.
"""

from __future__ import annotations

from .routines import TRIANGULAR_SOLVE, _Text, triangular_solve


class _Lanes(_Text):
    """Lines of a function on vectors."""

    def __init__(self, head: str, lanes: int):
        super().__init__(head)
        self.lanes = lanes
        self.real = f"<{lanes} x double>"
        self.truth = f"<{lanes} x i1>"
        self.whole = f"<{lanes} x i32>"

    def at(self, base: str, index: str, kind: str = "double") -> str:
        return self.value(
            f"getelementptr inbounds <{self.lanes} x {kind}>, ptr {base}, i64 {index}"
        )

    def load(self, base: str, index: str, kind: str = "double") -> str:
        place = self.at(base, index, kind)
        return self.value(f"load <{self.lanes} x {kind}>, ptr {place}, align 4")

    def store(self, value: str, base: str, index: str, kind: str = "double") -> None:
        place = self.at(base, index, kind)
        self.do(f"store <{self.lanes} x {kind}> {value}, ptr {place}, align 4")

    def everywhere(self, index: str) -> str:
        """A whole number in all lanes."""
        n = self.value(f"trunc i64 {index} to i32")
        first = self.value(f"insertelement {self.whole} poison, i32 {n}, i64 0")
        return self.value(
            f"shufflevector {self.whole} {first}, {self.whole} poison, {self.whole} zeroinitializer"
        )

    def size(self, x: str) -> str:
        return self.value(f"call {self.real} @llvm.fabs.v{self.lanes}f64({self.real} {x})")

    def select(self, which: str, yes: str, no: str, kind: str | None = None) -> str:
        kind = kind or self.real
        return self.value(f"select {self.truth} {which}, {kind} {yes}, {kind} {no}")

    def less(self, m: str, x: str, y: str) -> str:
        """y - m x."""
        product = self.value(f"fmul contract {self.real} {m}, {x}")
        return self.value(f"fsub contract {self.real} {y}, {product}")

    def subtract(self, n: str, m: str, x: str, y: str) -> None:
        with self.loop("0", n) as c:
            self.store(self.less(m, self.load(x, c), self.load(y, c)), y, c)


def declarations(lanes: int) -> set[str]:
    """What the routines call."""
    real = f"<{lanes} x double>"
    return {
        f"declare {real} @llvm.{name}.v{lanes}f64({real}) nounwind willreturn memory(none)"
        for name in ("fabs", "sqrt")
    }


def _exchange(f: _Lanes, here: str, base: str, i: str, j: str, kind: str = "double") -> None:
    """Entries i and j of an array, exchanged in the lanes of `here`."""
    wide = f"<{f.lanes} x {kind}>"
    one, two = f.load(base, i, kind), f.load(base, j, kind)
    f.store(f.select(here, two, one, wide), base, i, kind)
    f.store(f.select(here, one, two, wide), base, j, kind)


def _lu(lanes: int) -> str:
    """L and U packed over a matrix, by partial pivoting; exchanges and order of the rows."""
    f = _Lanes("@lanes.lu(i64 %n, ptr %a, ptr %exchanges, ptr %order)", lanes)
    best, where = f.value(f"alloca {f.real}"), f.value(f"alloca {f.whole}")
    with f.loop("0", "%n") as k:
        f.store(f.everywhere(k), "%order", k, "i32")
    with f.loop("0", "%n") as k:
        top = f.row("%a", k, "%n")
        f.do(f"store {f.whole} {f.everywhere(k)}, ptr {where}")
        f.do(f"store {f.real} {f.size(f.load(top, k))}, ptr {best}")
        after = f.value(f"add i64 {k}, 1")
        with f.loop(after, "%n") as i:
            size = f.size(f.load(f.row("%a", i, "%n"), k))
            old = f.value(f"load {f.real}, ptr {best}")
            larger = f.value(f"fcmp ogt {f.real} {size}, {old}")
            f.do(f"store {f.real} {f.select(larger, size, old)}, ptr {best}")
            was = f.value(f"load {f.whole}, ptr {where}")
            f.do(f"store {f.whole} {f.select(larger, f.everywhere(i), was, f.whole)}, ptr {where}")
        p = f.value(f"load {f.whole}, ptr {where}")
        f.store(p, "%exchanges", k, "i32")
        with f.loop(after, "%n") as i:
            here = f.value(f"icmp eq {f.whole} {p}, {f.everywhere(i)}")
            bits = f.value(f"bitcast {f.truth} {here} to i{lanes}")
            with f.when(f.value(f"icmp ne i{lanes} {bits}, 0")):
                first = f.value(f"mul i64 {k}, %n")
                second = f.value(f"mul i64 {i}, %n")
                with f.loop("0", "%n") as j:
                    place = [f.value(f"add i64 {x}, {j}") for x in (first, second)]
                    _exchange(f, here, "%a", *place)
                _exchange(f, here, "%order", k, i, "i32")
        pivot = f.load(top, k)
        # a pivot of zero has zeros below it, and nothing to be done
        good = f.value(f"fcmp une {f.real} {pivot}, zeroinitializer")
        with f.loop(after, "%n") as i:
            row = f.row("%a", i, "%n")
            entry = f.load(row, k)
            m = f.select(good, f.value(f"fdiv {f.real} {entry}, {pivot}"), entry)
            f.store(m, row, k)
            with f.loop(after, "%n") as j:
                f.store(f.less(m, f.load(top, j), f.load(row, j)), row, j)
    return f.end()


def _cholesky(lanes: int) -> str:
    """The lower factor; not a number in lanes where there is none."""
    f = _Lanes("@lanes.cholesky(i64 %n, ptr %a)", lanes)
    total, failed = f.value(f"alloca {f.real}"), f.value(f"alloca {f.truth}")
    f.do(f"store {f.truth} zeroinitializer, ptr {failed}")
    with f.loop("0", "%n") as i:
        row = f.row("%a", i, "%n")
        with f.loop("0", f.value(f"add i64 {i}, 1")) as j:
            other = f.row("%a", j, "%n")
            f.do(f"store {f.real} {f.load(row, j)}, ptr {total}")
            with f.loop("0", j) as k:
                old = f.value(f"load {f.real}, ptr {total}")
                new = f.less(f.load(row, k), f.load(other, k), old)
                f.do(f"store {f.real} {new}, ptr {total}")
            value = f.value(f"load {f.real}, ptr {total}")
            diagonal = f.value(f"icmp eq i64 {i}, {j}")
            root = f.value(f"call {f.real} @llvm.sqrt.v{lanes}f64({f.real} {value})")
            quotient = f.value(f"fdiv {f.real} {value}, {f.load(other, j)}")
            with f.when(diagonal):
                refused = f.value(f"fcmp ule {f.real} {value}, zeroinitializer")
                was = f.value(f"load {f.truth}, ptr {failed}")
                now = f.value(f"or {f.truth} {was}, {refused}")
                f.do(f"store {f.truth} {now}, ptr {failed}")
            f.store(f.value(f"select i1 {diagonal}, {f.real} {root}, {f.real} {quotient}"), row, j)
        with f.loop(f.value(f"add i64 {i}, 1"), "%n") as j:
            f.store("zeroinitializer", row, j)
    bad = f.value(f"load {f.truth}, ptr {failed}")
    bits = f.value(f"bitcast {f.truth} {bad} to i{lanes}")
    with f.when(f.value(f"icmp ne i{lanes} {bits}, 0")), f.loop("0", "%n") as i:
        row = f.row("%a", i, "%n")
        with f.loop("0", f.value(f"add i64 {i}, 1")) as j:
            nan = "splat (double 0x7FF8000000000000)"
            f.store(f.select(bad, nan, f.load(row, j)), row, j)
    return f.end()


def _triangular_solve(lanes: int) -> str:
    return triangular_solve(_Lanes(f"@lanes.{TRIANGULAR_SOLVE}", lanes))


def text(names: set[str], lanes: int) -> str:
    """The routines of these names."""
    makers = {"lu": _lu, "cholesky": _cholesky, "triangular_solve": _triangular_solve}
    return "\n".join(makers[name](lanes) for name in sorted(names))
