"""The sums of a sparse triangular solve over blocks, in vectors.

    y -= sum_e X_e^T x_i   (columns),     y -= sum_e X_e x_i   (rows),     i = places[e]

over the blocks e of a row of the factor. As in `block_updates.py` they are functions of JAX with
names of their own (`linalg/block_lu.py`), and calls of a routine where one run is computed on the
host. Each row of a block has a sum of its own, so that none waits for another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Array, Stored
from .block_updates import pieces_of
from .operations import kind_of

if TYPE_CHECKING:
    from .._jaxprs import Equation
    from .lowering import Lowering

# By the function's name: how the routine is called, and the ranks of its arguments.
_KINDS = {
    "hx_block_columns": ("block_columns", [1, 2, 2, 1, 1, 1, 0]),
    "hx_block_rows": ("block_rows", [1, 2, 2, 1, 1, 0]),
}
_LARGEST = 8  # rows of a block, each of which has a sum in registers


def routine(eqn: Equation) -> str | None:
    """The routine that computes an equation; None if it is another function, or of another kind of
    numbers, or of many runs."""
    name, ranks = _KINDS.get(eqn.params.get("name", ""), ("", []))
    if not name or [len(v.aval.shape) for v in eqn.invars] != ranks:
        return None
    kinds = [v.aval.dtype for v in eqn.invars]
    if kinds != [np.float64] * 3 + [np.int32] * (len(ranks) - 3):
        return None
    b = eqn.invars[0].aval.size
    return f"{name}_{b}" if 1 < b <= _LARGEST else None


def call(low: Lowering, eqn: Equation, values: list[Array]) -> list[Array]:
    """The equation as a call of its routine."""
    name = routine(eqn)
    assert name is not None
    out = Stored(low.a.own(values[0], "f64"), eqn.outvars[0].aval.shape)
    given: list[Any] = [low.a.stored(x) for x in values[1:-1]]
    kind = kind_of(eqn.invars[-1].aval.dtype)
    given.append(Stored(low.a.own(values[-1], kind), ()))
    low.b.call(name, (), [(x.buffer, 0) for x in (out, *given)])
    return [out]


def text(name: str) -> str:
    """The routine for blocks of one size."""
    how, _, size = name.rpartition("_")
    b, by_columns = int(size), how == "block_columns"
    pieces = pieces_of(b)
    kind = lambda width: f"<{width} x double>"  # noqa: E731
    places = [(m, at, width) for m in range(b) for at, width in pieces]
    entries = "ptr readonly %entries, " if by_columns else ""
    lines = [
        f"define internal void @{name}(ptr noalias %y, ptr readonly %X, ptr readonly %x, "
        f"ptr readonly %pointer, {entries}ptr readonly %places, ptr readonly %which) nounwind {{",
        "entry:",
        "  %p.32 = load i32, ptr %which",
        "  %p = sext i32 %p.32 to i64",
        "  %p.first = getelementptr i32, ptr %pointer, i64 %p",
        "  %p.last = getelementptr i32, ptr %p.first, i64 1",
        "  %first.32 = load i32, ptr %p.first",
        "  %last.32 = load i32, ptr %p.last",
        "  %first = sext i32 %first.32 to i64",
        "  %last = sext i32 %last.32 to i64",
        "  %any = icmp slt i64 %first, %last",
        "  br i1 %any, label %loop, label %end",
        "loop:",
        "  %k = phi i64 [%first, %entry], [%next, %loop]",
    ]
    for m, at, width in places:
        lines.append(
            f"  %s.{m}.{at} = phi {kind(width)} [zeroinitializer, %entry], [%n.{m}.{at}, %loop]"
        )
    lines += (
        [
            "  %e.p = getelementptr i32, ptr %entries, i64 %k",
            "  %e.32 = load i32, ptr %e.p",
            "  %e = sext i32 %e.32 to i64",
        ]
        if by_columns
        else ["  %e = add i64 %k, 0"]
    )
    lines += [
        "  %i.p = getelementptr i32, ptr %places, i64 %e",
        "  %i.32 = load i32, ptr %i.p",
        "  %i = sext i32 %i.32 to i64",
        f"  %X.at = mul i64 %e, {b * b}",
        "  %block = getelementptr double, ptr %X, i64 %X.at",
        f"  %x.at = mul i64 %i, {b}",
        "  %part = getelementptr double, ptr %x, i64 %x.at",
    ]
    for m in range(b) if by_columns else ():
        lines += [
            f"  %x.p.{m} = getelementptr double, ptr %part, i64 {m}",
            f"  %x.{m} = load double, ptr %x.p.{m}",
        ]
    for at, width in () if by_columns else pieces:
        lines += [
            f"  %x.p.{at} = getelementptr double, ptr %part, i64 {at}",
            f"  %x.{at} = load {kind(width)}, ptr %x.p.{at}, align 8",
        ]
    for m, at, width in places:
        v, tag = kind(width), f"{m}.{at}"
        lines += [
            f"  %X.p.{tag} = getelementptr double, ptr %block, i64 {m * b + at}",
            f"  %X.{tag} = load {v}, ptr %X.p.{tag}, align 8",
        ]
        times = f"%x.{at}"
        if by_columns:
            times = f"%w.{tag}"
            lines += [
                f"  %f.{tag} = insertelement {v} poison, double %x.{m}, i32 0",
                f"  {times} = shufflevector {v} %f.{tag}, {v} poison, "
                f"<{width} x i32> zeroinitializer",
            ]
        lines += [
            f"  %q.{tag} = fmul contract {v} %X.{tag}, {times}",
            f"  %n.{tag} = fadd contract {v} %s.{tag}, %q.{tag}",
        ]
    lines += [
        "  %next = add i64 %k, 1",
        "  %more = icmp slt i64 %next, %last",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    lines += _columns_less(b, pieces) if by_columns else _rows_less(b, pieces)
    return "\n".join([*lines, "  br label %end", "end:", "  ret void", "}"])


def _columns_less(b: int, pieces: list[tuple[int, int]]) -> list[str]:
    """The sums of all rows, taken from y."""
    lines = []
    for at, width in pieces:
        v, total = f"<{width} x double>", f"%n.0.{at}"
        for m in range(1, b):
            lines.append(f"  %t.{m}.{at} = fadd {v} {total}, %n.{m}.{at}")
            total = f"%t.{m}.{at}"
        lines += [
            f"  %y.p.{at} = getelementptr double, ptr %y, i64 {at}",
            f"  %y.{at} = load {v}, ptr %y.p.{at}, align 8",
            f"  %r.{at} = fsub {v} %y.{at}, {total}",
            f"  store {v} %r.{at}, ptr %y.p.{at}, align 8",
        ]
    return lines


def _rows_less(b: int, pieces: list[tuple[int, int]]) -> list[str]:
    """The sum of each row, taken from its number of y."""
    lines = []
    for m in range(b):
        lines += [
            f"  %y.p.{m} = getelementptr double, ptr %y, i64 {m}",
            f"  %r.{m}.0 = load double, ptr %y.p.{m}",
        ]
        k = 0
        for at, width in pieces:
            for lane in range(width):
                lines += [
                    f"  %l.{m}.{k} = extractelement <{width} x double> %n.{m}.{at}, i32 {lane}",
                    f"  %r.{m}.{k + 1} = fsub double %r.{m}.{k}, %l.{m}.{k}",
                ]
                k += 1
        lines.append(f"  store double %r.{m}.{k}, ptr %y.p.{m}")
    return lines
