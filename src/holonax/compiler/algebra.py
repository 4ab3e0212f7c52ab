"""Products and factorisations of matrices: written out where they are small, else by loops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import Array, Stored, flat_index
from .lowering import Lowering, rule
from .operations import Node, Unsupported, kind_of

if TYPE_CHECKING:
    from .._jaxprs import Equation

_WRITTEN_OUT = 8000  # products of two entries up to which a matrix product is


_BY_BLAS = 20_000  # products of numbers from which on two matrices are multiplied by BLAS


@rule("dot_general")
def _dot_general(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    (left, right), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    x, y = (low.settled(z) for z in args)
    kind = kind_of(eqn.outvars[0].aval.dtype)
    if any(kind_of(v.aval.dtype) != kind for v in eqn.invars) or kind == "b1":
        raise Unsupported("a product of different types")
    free_x = [d for d in range(len(x.shape)) if d not in (*left, *left_batch)]
    free_y = [d for d in range(len(y.shape)) if d not in (*right, *right_batch)]
    batch = [x.shape[d] for d in left_batch]
    rows, columns = [x.shape[d] for d in free_x], [y.shape[d] for d in free_y]
    inner, shape = [x.shape[d] for d in left], eqn.outvars[0].aval.shape
    if x.size <= low.a.most and y.size <= low.a.most and math.prod(shape) <= low.a.most:
        a = low.a.small(x).transpose([*left_batch, *free_x, *left])
        c = low.a.small(y).transpose([*right_batch, *free_y, *right])
        a = a.reshape(math.prod(batch), math.prod(rows), math.prod(inner))
        c = c.reshape(math.prod(batch), math.prod(columns), math.prod(inner))
        if _products(a, c) <= _WRITTEN_OUT:
            return _written_out(low, kind, a, c).reshape(shape)
    x, y, b = low.a.stored(x), low.a.stored(y), low.b
    out = Stored(low.a.new_buffer(kind, math.prod(shape)), shape)
    plain = len(rows) == len(columns) == len(inner) == 1 and not batch and kind == "f64"
    if plain and low.libraries and x.size * columns[0] > _BY_BLAS and x.size * y.size > 0:
        sizes = [rows[0], columns[0], inner[0], int(left == (0,)), int(right == (1,))]
        b.call("product", sizes, [(x.buffer, 0), (y.buffer, 0), (out.buffer, 0)])
        return out
    b.zero(out.buffer)
    n_batch, n_rows, n_inner = len(batch), len(rows), len(inner)

    def term(index: list[Node]) -> None:
        outer = index[:n_batch]
        i = index[n_batch : n_batch + n_rows]
        k = index[n_batch + n_rows : n_batch + n_rows + n_inner]
        j = index[n_batch + n_rows + n_inner :]

        def place(batch_dims: Any, free: Any, contracted: Any, own: list[Node]) -> list[Node]:
            at: list[Any] = [None] * (len(batch_dims) + len(free) + len(contracted))
            for dims, nodes in ((batch_dims, outer), (free, own), (contracted, k)):
                for d, node in zip(dims, nodes, strict=True):
                    at[d] = node
            return at

        at = flat_index(b, [*outer, *i, *j], shape)
        product = b.apply(
            "mul",
            kind,
            low.a.entry(x, place(left_batch, free_x, left, i)),
            low.a.entry(y, place(right_batch, free_y, right, j)),
        )
        b.store(out.buffer, at, b.apply("add", kind, b.load(out.buffer, at), product))

    low.a.for_each([*batch, *rows, *inner, *columns], term)
    return out


def _products(a: np.ndarray, c: np.ndarray) -> int:
    """How many products of entries that are not known to be zero there are."""
    nonzero: Any = np.frompyfunc(lambda x: not (x.op == "const" and x.data == 0), 1, 1)
    left, right = (nonzero(x).astype(int).sum(axis=1) for x in (a, c))
    return int((left * right).sum())


def _written_out(low: Lowering, kind: str, a: np.ndarray, c: np.ndarray) -> np.ndarray:
    b = low.b
    zero = b.const(kind, 0)
    out = np.empty((a.shape[0], a.shape[1], c.shape[1]), object)
    for m in range(a.shape[0]):
        columns = [[(k, y) for k, y in enumerate(row) if y is not zero] for row in c[m].tolist()]
        for i, row in enumerate(a[m].tolist()):
            for j, column in enumerate(columns):
                total = zero
                for k, y in column:
                    if row[k] is not zero:
                        total = b.apply("add", kind, total, b.apply("mul", kind, row[k], y))
                out[m, i, j] = total
    return out


# -- factorisations, by the routines of `routines.py` ------------------------------------------


_SEVERAL = 64  # matrices that a routine is called for one by one


def _square(eqn: Equation, x: Array) -> tuple[int, int]:
    """(how many matrices, their size)."""
    *batch, rows, columns = x.shape
    count = math.prod(batch)
    if rows != columns or eqn.invars[0].aval.dtype != np.float64 or count > _SEVERAL:
        raise Unsupported(f"{eqn.primitive.name} of {count} matrices {rows} x {columns}")
    return count, rows


@rule("lu")
def _lu(low: Lowering, eqn: Equation, args: list[Array]) -> list[Array]:
    """(L and U packed, exchanges, permutation) by partial pivoting."""
    count, n = _square(eqn, args[0])
    shape = args[0].shape
    packed = Stored(low.a.own(args[0], "f64"), shape)
    exchanges = Stored(low.a.new_buffer("i32", count * n), shape[:-1])
    order = Stored(low.a.new_buffer("i32", count * n), shape[:-1])
    for k in range(count):
        places = [(packed.buffer, k * n * n), (exchanges.buffer, k * n), (order.buffer, k * n)]
        low.b.call("lu", [n], places)
    return [packed, exchanges, order]


@rule("cholesky")
def _cholesky(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    count, n = _square(eqn, args[0])
    packed = Stored(low.a.own(args[0], "f64"), args[0].shape)
    for k in range(count):
        low.b.call("cholesky", [n], [(packed.buffer, k * n * n)])
    return packed


@rule("triangular_solve")
def _triangular_solve(low: Lowering, eqn: Equation, args: list[Array]) -> Array:
    p = eqn.params
    count, n = _square(eqn, args[0])
    if not p["left_side"] or p["conjugate_a"] or args[1].shape[:-2] != args[0].shape[:-2]:
        raise Unsupported("triangular_solve from the right")
    columns = args[1].shape[-1]
    x = Stored(low.a.own(args[1], "f64"), args[1].shape)
    matrix = low.a.stored(args[0]).buffer
    options = [n, columns, int(p["lower"]), int(p["transpose_a"]), int(p["unit_diagonal"])]
    for k in range(count):
        low.b.call("triangular_solve", options, [(matrix, k * n * n), (x.buffer, k * n * columns)])
    return x


# -- by LAPACK: see `lapack.py` -----------------------------------------------------------------


def _matrices(low: Lowering, eqn: Equation, x: Array) -> tuple[int, int, int]:
    """(how many matrices, rows, columns); refuses what LAPACK is not asked for."""
    *batch, rows, columns = x.shape
    count, name = math.prod(batch), eqn.primitive.name
    if not low.libraries:
        raise Unsupported(f"the primitive {name}")
    plain = eqn.params.get("subset_by_index") is None and 0 not in x.shape
    if not plain or eqn.invars[0].aval.dtype != np.float64 or count > _SEVERAL:
        raise Unsupported(f"{name} of {count} matrices {rows} x {columns}")
    return count, rows, columns


@rule("svd")
def _svd(low: Lowering, eqn: Equation, args: list[Array]) -> list[Array]:
    """Singular values, and where they are wanted U and V^T."""
    count, m, n = _matrices(low, eqn, args[0])
    k, most = min(m, n), max(m, n)
    whole = eqn.params["full_matrices"] and eqn.params["compute_uv"]
    size_u, size_v = m * (m if whole else k), n * (n if whole else k)
    room = 4 * k * k + 7 * k + most + 64 * (m + n)
    matrix = low.a.own(args[0], "f64")
    s, u, vt, work = (
        low.a.new_buffer("f64", size) for size in (count * k, count * size_u, count * size_v, room)
    )
    iwork = low.a.new_buffer("i32", 8 * k)
    for i in range(count):
        places = [(matrix, i * m * n), (s, i * k), (u, i * size_u), (vt, i * size_v)]
        places += [(work, 0), (iwork, 0)]
        low.b.call("svd", [m, n, k, int(whole), room], places)
    shapes = [v.aval.shape for v in eqn.outvars]
    return [Stored(x, shape) for x, shape in zip((s, u, vt), shapes)]


@rule("eigh")
def _eigh(low: Lowering, eqn: Equation, args: list[Array]) -> list[Array]:
    """Eigenvectors in columns, and eigenvalues, the lowest first."""
    count, n, _ = _matrices(low, eqn, args[0])
    room, whole_room = 1 + 6 * n + 2 * n * n + 64 * n, 3 + 5 * n
    vectors = Stored(low.a.own(args[0], "f64"), args[0].shape)
    values = Stored(low.a.new_buffer("f64", count * n), args[0].shape[:-1])
    work, iwork = low.a.new_buffer("f64", room), low.a.new_buffer("i32", whole_room)
    for i in range(count):
        places = [(vectors.buffer, i * n * n), (values.buffer, i * n), (work, 0), (iwork, 0)]
        low.b.call("eigh", [n, int(eqn.params["lower"]), room, whole_room], places)
    turned = low.a.delayed(
        "f64",
        vectors.shape,
        lambda index: low.a.entry(vectors, [*index[:-2], index[-1], index[-2]]),
        [vectors.buffer],
    )
    return [low.a.small(turned) if vectors.size <= low.a.most else turned, values]
