"""The updates of a block in a sparse factorisation, in vectors.

    lower -= sum_k U_j^T L_i,     upper -= sum_k L_j^T U_i,     i, j = rows[k], columns[k]

are most of what is done where elimination makes fill, and blocks of b x b numbers written out entry
by entry take several times as long. The function is one of JAX with a name of its own
(`linalg/block_lu.py`). Here it becomes a call of a routine, where one run is computed on the host;
elsewhere it is taken apart like any other function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Array, Stored
from .operations import kind_of

if TYPE_CHECKING:
    from .._jaxprs import Equation
    from .lowering import Lowering

NAME = "hx_block_updates"
_SUMS = 12  # pieces of rows that are summed at once: what the registers of a processor hold
_LARGEST = 64  # rows of a block


def routine(eqn: Equation) -> str | None:
    """The routine that computes an equation; None if it is another function, or of another kind of
    numbers, or of many runs."""
    if eqn.params.get("name") != NAME or len(eqn.invars) != 8 or len(eqn.outvars) != 2:
        return None
    lower, upper, left, right, *tables = (v.aval for v in eqn.invars)
    reals = all(x.dtype == np.float64 for x in (lower, upper, left, right))
    whole = all(x.dtype == np.int32 for x in tables)
    ranks = [len(v.aval.shape) for v in eqn.invars]
    if not (reals and whole and ranks == [1, 1, 2, 2, 1, 1, 1, 0]):
        return None
    b = round(lower.size**0.5)
    return f"block_updates_{b}" if 1 < b <= _LARGEST else None


def call(low: Lowering, eqn: Equation, values: list[Array]) -> list[Array]:
    """The equation as a call of its routine."""
    name = routine(eqn)
    assert name is not None
    shapes = [v.aval.shape for v in eqn.outvars]
    out = [Stored(low.a.own(x, "f64"), shape) for x, shape in zip(values[:2], shapes)]
    given: list[Any] = [low.a.stored(x) for x in values[2:7]]
    kind = kind_of(eqn.invars[7].aval.dtype)
    given.append(Stored(low.a.own(values[7], kind), ()))
    low.b.call(name, (), [(x.buffer, 0) for x in (*out, *given)])
    return list(out)


def text(name: str) -> str:
    """The routine for blocks of one size."""
    b = int(name.rpartition("_")[2])
    pieces = pieces_of(b)
    rows = max(_SUMS // len(pieces), 1)
    lines = [
        f"define internal void @{name}(ptr noalias %lower, ptr noalias %upper, "
        "ptr readonly %L, ptr readonly %U, ptr readonly %pointer, ptr readonly %rows, "
        "ptr readonly %columns, ptr readonly %which) nounwind {",
        "entry:",
        "  %e = load i32, ptr %which",
        "  %e.first = sext i32 %e to i64",
        "  %p.first = getelementptr i32, ptr %pointer, i64 %e.first",
        "  %p.last = getelementptr i32, ptr %p.first, i64 1",
        "  %first.32 = load i32, ptr %p.first",
        "  %last.32 = load i32, ptr %p.last",
        "  %first = sext i32 %first.32 to i64",
        "  %last = sext i32 %last.32 to i64",
        "  %any = icmp slt i64 %first, %last",
        "  br i1 %any, label %begin0, label %end",
    ]
    parts = [(r, min(r + rows, b)) for r in range(0, b, rows)]
    jobs = [
        (*given, part) for given in (("lower", "U", "L"), ("upper", "L", "U")) for part in parts
    ]
    for k, (out, left, right, (start, stop)) in enumerate(jobs):
        after = f"begin{k + 1}" if k + 1 < len(jobs) else "end"
        lines += _sums(k, after, b, pieces, out, left, right, range(start, stop))
    return "\n".join([*lines, "end:", "  ret void", "}"])


def pieces_of(b: int) -> list[tuple[int, int]]:
    """A row in vectors: (where, how long)."""
    found, at = [], 0
    for width in (4, 2, 1):
        while b - at >= width:
            found.append((at, width))
            at += width
    return found


def _sums(
    k: int,
    after: str,
    b: int,
    pieces: list[tuple[int, int]],
    out: str,
    left: str,
    right: str,
    rows: range,
) -> list[str]:
    """Some rows of a block, in a loop over its updates."""
    places = [(r, at, width) for r in rows for at, width in pieces]
    kind = lambda width: f"<{width} x double>"  # noqa: E731
    tag = lambda r, at: f"{k}.{r}.{at}"  # noqa: E731
    lines = [f"begin{k}:"]
    for r, at, width in places:
        name = tag(r, at)
        lines += [
            f"  %o{name} = getelementptr double, ptr %{out}, i64 {r * b + at}",
            f"  %s{name} = load {kind(width)}, ptr %o{name}, align 8",
        ]
    lines += [f"  br label %loop{k}", f"loop{k}:"]
    lines.append(f"  %k{k} = phi i64 [%first, %begin{k}], [%next{k}, %loop{k}]")
    for r, at, width in places:
        name = tag(r, at)
        lines.append(
            f"  %a{name} = phi {kind(width)} [%s{name}, %begin{k}], [%n{name}.{b - 1}, %loop{k}]"
        )
    for table, block, x in (("columns", left, "x"), ("rows", right, "y")):
        lines += [
            f"  %{x}p{k} = getelementptr i32, ptr %{table}, i64 %k{k}",
            f"  %{x}i{k} = load i32, ptr %{x}p{k}",
            f"  %{x}j{k} = sext i32 %{x}i{k} to i64",
            f"  %{x}o{k} = mul i64 %{x}j{k}, {b * b}",
            f"  %{x}{k} = getelementptr double, ptr %{block}, i64 %{x}o{k}",
        ]
    for m in range(b):
        for at, width in pieces:
            y = f"{k}.{m}.{at}"
            lines += [
                f"  %yp{y} = getelementptr double, ptr %y{k}, i64 {m * b + at}",
                f"  %y{y} = load {kind(width)}, ptr %yp{y}, align 8",
            ]
        for r in rows:
            x = f"{k}.{m}.{r}"
            lines += [
                f"  %xp{x} = getelementptr double, ptr %x{k}, i64 {m * b + r}",
                f"  %x{x} = load double, ptr %xp{x}",
            ]
            for at, width in pieces:
                name, y = tag(r, at), f"{k}.{m}.{at}"
                before = f"%a{name}" if m == 0 else f"%n{name}.{m - 1}"
                v, product = kind(width), f"%q{name}.{m}"
                lines += [
                    f"  %i{name}.{m} = insertelement {v} poison, double %x{x}, i32 0",
                    f"  %w{name}.{m} = shufflevector {v} %i{name}.{m}, {v} poison, "
                    f"<{width} x i32> zeroinitializer",
                    f"  {product} = fmul contract {v} %w{name}.{m}, %y{y}",
                    f"  %n{name}.{m} = fsub contract {v} {before}, {product}",
                ]
    lines += [
        f"  %next{k} = add i64 %k{k}, 1",
        f"  %more{k} = icmp slt i64 %next{k}, %last",
        f"  br i1 %more{k}, label %loop{k}, label %done{k}",
        f"done{k}:",
    ]
    for r, at, width in places:
        name = tag(r, at)
        lines.append(f"  store {kind(width)} %n{name}.{b - 1}, ptr %o{name}, align 8")
    return [*lines, f"  br label %{after}"]
