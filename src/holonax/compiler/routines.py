"""Routines on whole matrices, in LLVM's language: LU, Cholesky, triangular systems.

Used where a matrix is too large to be written out entry by entry. Matrices are in the order of C.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from . import block_sums, block_updates, lapack


class _Text:
    """Lines of a function, with loops."""

    real = "double"  # the type of an entry

    def __init__(self, head: str):
        self.lines = [f"define internal void {head} nounwind {{", "entry:"]
        self.block, self._n = "entry", 0

    def value(self, text: str) -> str:
        self._n += 1
        name = f"%t{self._n}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    @contextmanager
    def loop(self, start: str, stop: str) -> Iterator[str]:
        """Over i64 indices from `start` up to, not including, `stop`."""
        self._n += 1
        n, before = self._n, self.block
        index = f"%i{n}"
        self.do(f"br label %head{n}")
        self.label(f"head{n}")
        at = len(self.lines)
        self.do("")
        more = self.value(f"icmp slt i64 {index}, {stop}")
        self.do(f"br i1 {more}, label %body{n}, label %done{n}")
        self.label(f"body{n}")
        yield index
        following = self.value(f"add i64 {index}, 1")
        self.lines[at] = f"  {index} = phi i64 [{start}, %{before}], [{following}, %{self.block}]"
        self.do(f"br label %head{n}")
        self.label(f"done{n}")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        self._n += 1
        n = self._n
        self.do(f"br i1 {condition}, label %yes{n}, label %after{n}")
        self.label(f"yes{n}")
        yield
        self.do(f"br label %after{n}")
        self.label(f"after{n}")

    def at(self, base: str, index: str, kind: str = "double") -> str:
        return self.value(f"getelementptr inbounds {kind}, ptr {base}, i64 {index}")

    def load(self, base: str, index: str, kind: str = "double") -> str:
        return self.value(f"load {kind}, ptr {self.at(base, index, kind)}")

    def store(self, value: str, base: str, index: str, kind: str = "double") -> None:
        self.do(f"store {kind} {value}, ptr {self.at(base, index, kind)}")

    def row(self, matrix: str, i: str, width: str) -> str:
        return self.at(matrix, self.value(f"mul i64 {i}, {width}"))

    def subtract(self, n: str, m: str, x: str, y: str) -> None:
        """y -= m x, of n entries."""
        self.do(f"call void @subtract(i64 {n}, double {m}, ptr {x}, ptr {y})")

    def end(self) -> str:
        self.do("ret void")
        self.lines.append("}")
        return "\n".join(self.lines)


def _subtract() -> str:
    """y -= m x."""
    f = _Text("@subtract(i64 %n, double %m, ptr noalias readonly %x, ptr noalias %y)")
    with f.loop("0", "%n") as i:
        product = f.value(f"fmul contract double %m, {f.load('%x', i)}")
        f.store(f.value(f"fsub contract double {f.load('%y', i)}, {product}"), "%y", i)
    return f.end()


def _lu() -> str:
    f = _Text("@lu(i64 %n, ptr %a, ptr %exchanges, ptr %order)")
    best, where = f.value("alloca double"), f.value("alloca i64")
    with f.loop("0", "%n") as k:
        f.store(f.value(f"trunc i64 {k} to i32"), "%order", k, "i32")
    with f.loop("0", "%n") as k:
        top = f.row("%a", k, "%n")
        f.do(f"store i64 {k}, ptr {where}")
        size = f.value(f"call double @llvm.fabs.f64(double {f.load(top, k)})")
        f.do(f"store double {size}, ptr {best}")
        after = f.value(f"add i64 {k}, 1")
        with f.loop(after, "%n") as i:
            entry = f.load(f.row("%a", i, "%n"), k)
            size = f.value(f"call double @llvm.fabs.f64(double {entry})")
            larger = f.value(f"fcmp ogt double {size}, {f.value(f'load double, ptr {best}')}")
            with f.when(larger):
                f.do(f"store double {size}, ptr {best}")
                f.do(f"store i64 {i}, ptr {where}")
        p = f.value(f"load i64, ptr {where}")
        f.store(f.value(f"trunc i64 {p} to i32"), "%exchanges", k, "i32")
        with f.when(f.value(f"icmp ne i64 {p}, {k}")):
            other = f.row("%a", p, "%n")
            with f.loop("0", "%n") as j:
                one, two = f.load(top, j), f.load(other, j)
                f.store(two, top, j)
                f.store(one, other, j)
            one, two = f.load("%order", k, "i32"), f.load("%order", p, "i32")
            f.store(two, "%order", k, "i32")
            f.store(one, "%order", p, "i32")
        pivot = f.load(top, k)
        left = f.value(f"sub i64 %n, {after}")
        right = f.at(top, after)
        # a pivot of zero has zeros below it, and nothing to be done
        end = f.value(f"select i1 {f.value(f'fcmp une double {pivot}, 0.0')}, i64 %n, i64 {after}")
        with f.loop(after, end) as i:
            row = f.row("%a", i, "%n")
            m = f.value(f"fdiv double {f.load(row, k)}, {pivot}")
            f.store(m, row, k)
            with f.when(f.value(f"fcmp une double {m}, 0.0")):
                f.subtract(left, m, right, f.at(row, after))
    return f.end()


def _cholesky() -> str:
    """The lower factor; not a number if there is none."""
    f = _Text("@cholesky(i64 %n, ptr %a)")
    total, failed = f.value("alloca double"), f.value("alloca i1")
    f.do(f"store i1 false, ptr {failed}")
    with f.loop("0", "%n") as i:
        row = f.row("%a", i, "%n")
        with f.loop("0", f.value(f"add i64 {i}, 1")) as j:
            other = f.row("%a", j, "%n")
            f.do(f"store double {f.load(row, j)}, ptr {total}")
            with f.loop("0", j) as k:
                product = f.value(f"fmul contract double {f.load(row, k)}, {f.load(other, k)}")
                old = f.value(f"load double, ptr {total}")
                new = f.value(f"fsub contract double {old}, {product}")
                f.do(f"store double {new}, ptr {total}")
            value = f.value(f"load double, ptr {total}")
            root = f.value(f"call double @llvm.sqrt.f64(double {value})")
            quotient = f.value(f"fdiv double {value}, {f.load(other, j)}")
            diagonal = f.value(f"icmp eq i64 {i}, {j}")
            refused = f.value(f"fcmp ule double {value}, 0.0")
            with f.when(f.value(f"and i1 {diagonal}, {refused}")):
                f.do(f"store i1 true, ptr {failed}")
            f.store(f.value(f"select i1 {diagonal}, double {root}, double {quotient}"), row, j)
        with f.loop(f.value(f"add i64 {i}, 1"), "%n") as j:
            f.store("0.0", row, j)
    with f.when(f.value(f"load i1, ptr {failed}")), f.loop("0", "%n") as i:
        end = f.value(f"add i64 {i}, 1")
        with f.loop("0", end) as j:
            f.store("0x7FF8000000000000", f.row("%a", i, "%n"), j)
    return f.end()


TRIANGULAR_SOLVE = (
    "triangular_solve(i64 %n, i64 %k, i64 %lower, i64 %turned, i64 %unit, ptr %a, ptr %x)"
)


def triangular_solve(f: _Text) -> str:
    """Rows of x are found one after the other, and taken out of those that follow."""
    forward = f.value(f"icmp ne i64 {f.value('xor i64 %lower, %turned')}, 0")
    last = f.value("sub i64 %n, 1")
    plain = f.value("icmp eq i64 %turned, 0")
    scaled = f.value("icmp eq i64 %unit, 0")
    with f.loop("0", "%n") as step:
        back = f.value(f"sub i64 {last}, {step}")
        i = f.value(f"select i1 {forward}, i64 {step}, i64 {back}")
        found = f.row("%x", i, "%k")
        with f.when(scaled):
            pivot = f.load(f.row("%a", i, "%n"), i)
            with f.loop("0", "%k") as c:
                f.store(f.value(f"fdiv {f.real} {f.load(found, c)}, {pivot}"), found, c)
        begin = f.value(f"select i1 {forward}, i64 {f.value(f'add i64 {i}, 1')}, i64 0")
        end = f.value(f"select i1 {forward}, i64 %n, i64 {i}")
        with f.loop(begin, end) as j:
            upper = f.value(f"select i1 {plain}, i64 {j}, i64 {i}")
            column = f.value(f"select i1 {plain}, i64 {i}, i64 {j}")
            m = f.load(f.row("%a", upper, "%n"), column)
            f.subtract("%k", m, found, f.row("%x", j, "%k"))
    return f.end()


def text(names: set[str]) -> str:
    """The routines of these names, and what they need."""
    makers = {
        "lu": _lu,
        "cholesky": _cholesky,
        "triangular_solve": lambda: triangular_solve(_Text(f"@{TRIANGULAR_SOLVE}")),
        "product": lapack.product,
        "svd": lapack.svd,
        "eigh": lapack.eigh,
    }

    def one(name: str) -> str:
        if name in makers:
            return makers[name]()
        return (block_updates if name.startswith("block_updates") else block_sums).text(name)

    made = [one(name) for name in sorted(names)]
    return "\n".join([_subtract(), *made]) if names else ""
