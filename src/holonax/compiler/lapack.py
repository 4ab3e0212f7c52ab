"""Products of large matrices, singular values and symmetric eigenvalues by BLAS and LAPACK, in
SciPy's copy of these.

Programs call it by names of our own, which mean nothing to a linker. They are given their addresses
in this process when a program is loaded.
"""

from __future__ import annotations

import ctypes
import importlib
from functools import cache
from typing import Any

NAMES = {"hx_dgemm": "dgemm", "hx_dgesdd": "dgesdd", "hx_dsyevd": "dsyevd"}


@cache
def _address(name: str) -> int:
    """Where a routine is in this process."""
    cython_blas, cython_lapack = (  # slow to import
        importlib.import_module(f"scipy.linalg.cython_{x}") for x in ("blas", "lapack")
    )

    python: Any = ctypes.pythonapi
    python.PyCapsule_GetName.restype = ctypes.c_char_p
    python.PyCapsule_GetName.argtypes = [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = {**cython_blas.__pyx_capi__, **cython_lapack.__pyx_capi__}[name]
    return python.PyCapsule_GetPointer(capsule, python.PyCapsule_GetName(capsule))


def provide(llvm: Any, code: bytes) -> None:
    """Let a program find what it calls of LAPACK."""
    for own, name in NAMES.items():
        if own.encode() in code:
            llvm.add_symbol(own, _address(name))


def _numbers(**values: str) -> list[str]:
    """Whole numbers of 32 bits, by their addresses: Fortran's way."""
    lines = []
    for name, value in values.items():
        lines += [
            f"  %{name}.32 = trunc i64 {value} to i32",
            f"  %{name} = alloca i32",
            f"  store i32 %{name}.32, ptr %{name}",
        ]
    return lines


def product() -> str:
    """C = A B of matrices (m, k) and (k, n) in the order of C; `turned` of those that are given by
    their transposes. For Fortran it is C^T = B^T A^T."""
    return "\n".join(
        [
            f"declare void @hx_dgemm({', '.join(['ptr'] * 13)})",
            "define internal void @product(i64 %m, i64 %n, i64 %k, i64 %turned.a, i64 %turned.b, "
            "ptr %a, ptr %b, ptr %c) nounwind {",
            "entry:",
            "  %one = alloca double",
            "  store double 1.0, ptr %one",
            "  %zero = alloca double",
            "  store double 0.0, ptr %zero",
            *(line for x in "ab" for line in _turned(x)),
            "  %lda = select i1 %is.a, i64 %m, i64 %k",
            "  %ldb = select i1 %is.b, i64 %k, i64 %n",
            *_numbers(rows="%n", columns="%m", inner="%k", step_a="%lda", step_b="%ldb"),
            "  call void @hx_dgemm(ptr %way.b, ptr %way.a, ptr %rows, ptr %columns, ptr %inner, "
            "ptr %one, ptr %b, ptr %step_b, ptr %a, ptr %step_a, ptr %zero, ptr %c, ptr %rows)",
            "  ret void",
            "}",
        ]
    )


def _turned(x: str) -> list[str]:
    """The letter that says whether a matrix is given by its transpose."""
    return [
        f"  %is.{x} = icmp ne i64 %turned.{x}, 0",
        f"  %letter.{x} = select i1 %is.{x}, i8 84, i8 78",  # T, N
        f"  %way.{x} = alloca i8",
        f"  store i8 %letter.{x}, ptr %way.{x}",
    ]


def _refused(*results: tuple[str, str]) -> list[str]:
    """Numbers that are none where LAPACK has not converged."""
    lines = ["  %why = load i32, ptr %info", "  %bad = icmp ne i32 %why, 0"]
    lines.append("  br i1 %bad, label %spoil0, label %end")
    for k, (array, size) in enumerate(results):
        after = f"spoil{k + 1}" if k + 1 < len(results) else "end"
        lines += [
            f"spoil{k}:",
            f"  br label %each{k}",
            f"each{k}:",
            f"  %i{k} = phi i64 [0, %spoil{k}], [%next{k}, %each{k}]",
            f"  %p{k} = getelementptr double, ptr {array}, i64 %i{k}",
            f"  store double 0x7FF8000000000000, ptr %p{k}",
            f"  %next{k} = add i64 %i{k}, 1",
            f"  %more{k} = icmp slt i64 %next{k}, {size}",
            f"  br i1 %more{k}, label %each{k}, label %{after}",
        ]
    return [*lines, "end:", "  ret void", "}"]


def svd() -> str:
    """A (m, n) in the order of C is its transpose for Fortran, whose U is the V^T sought for, and
    the other way round; `whole` if these are to be square, else they have k rows and columns."""
    return "\n".join(
        [
            f"declare void @hx_dgesdd({', '.join(['ptr'] * 14)})",
            "define internal void @svd(i64 %m, i64 %n, i64 %k, i64 %whole, i64 %lwork, ptr %a, "
            "ptr %s, ptr %u, ptr %vt, ptr %work, ptr %iwork) nounwind {",
            "entry:",
            "  %all = icmp ne i64 %whole, 0",
            "  %letter = select i1 %all, i8 65, i8 83",  # A, S
            "  %job = alloca i8",
            "  store i8 %letter, ptr %job",
            "  %info = alloca i32",
            "  %of.u = select i1 %all, i64 %m, i64 %k",
            "  %of.v = select i1 %all, i64 %n, i64 %k",
            *_numbers(rows="%n", columns="%m", ldvt="%of.u", room="%lwork"),
            "  call void @hx_dgesdd(ptr %job, ptr %rows, ptr %columns, ptr %a, ptr %rows, ptr %s, "
            "ptr %vt, ptr %rows, ptr %u, ptr %ldvt, ptr %work, ptr %room, ptr %iwork, ptr %info)",
            "  %size.u = mul i64 %m, %of.u",
            "  %size.v = mul i64 %n, %of.v",
            *_refused(("%s", "%k"), ("%u", "%size.u"), ("%vt", "%size.v")),
        ]
    )


def eigh() -> str:
    """The eigenvectors of a symmetric matrix replace it, one in each row."""
    return "\n".join(
        [
            f"declare void @hx_dsyevd({', '.join(['ptr'] * 11)})",
            "define internal void @eigh(i64 %n, i64 %lower, i64 %lwork, i64 %liwork, ptr %a, "
            "ptr %w, ptr %work, ptr %iwork) nounwind {",
            "entry:",
            "  %is.lower = icmp ne i64 %lower, 0",
            "  %letter = select i1 %is.lower, i8 85, i8 76",  # U, L of the transpose
            "  %half = alloca i8",
            "  store i8 %letter, ptr %half",
            "  %job = alloca i8",
            "  store i8 86, ptr %job",  # V
            "  %info = alloca i32",
            *_numbers(rows="%n", room="%lwork", more="%liwork"),
            "  call void @hx_dsyevd(ptr %job, ptr %half, ptr %rows, ptr %a, ptr %rows, ptr %w, "
            "ptr %work, ptr %room, ptr %iwork, ptr %more, ptr %info)",
            "  %size = mul i64 %n, %n",
            *_refused(("%w", "%n"), ("%a", "%size")),
        ]
    )
