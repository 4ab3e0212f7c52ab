"""The compiler of small programs against JAX, NumPy and the definition of its arithmetic.

Each primitive on random shapes and on numbers at the limits of their types; random programs with
loops, branches and updates in place (`random_programs.py`); what is left to XLA.

Three differences from XLA are meant to be there. Numbers below the smallest normal one are
numbers: XLA takes them for zero. A factor that is known to be zero makes a product zero, whatever
the other one is. And where x + 0 is known to be x, the sign of a zero may be another one, as in the
larger one of 0 and -0.
"""

import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax

import holonax  # noqa: F401  switches to double precision
import random_programs
from holonax._jaxprs import scan_sizes
from holonax.compiler import (
    arrays,
    counts,
    llvm,
    lowering,
    machine,
    native,
    rows,
    survey,
)
from holonax.compiler import loops as vector_loops
from holonax.compiler import program as programs
from holonax.compiler.executable import Program
from sections import in_part

FLOATS = ("float64", "float32")
WHOLE = tuple(f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64))
KINDS = (*FLOATS, *WHOLE, "bool")

# -- running and comparing ------------------------------------------------------------------------


def compiled(closed):
    """A traced program, in the form in which it runs."""
    text, layout = programs.written(closed)
    return Program(machine.object_code(text, machine.Effort(1, 1)), layout)


@contextmanager
def limits(
    small: int | None = None, rolled: bool = False, in_rows: bool = False, wide: bool = False
):
    """Arrays of more than `small` entries are kept in memory; loops and branches are not written
    out if they are to be `rolled`; numbers are computed side by side if they are to be `in_rows`,
    however few they are; the program counts as one of `wide` arrays."""
    with pytest.MonkeyPatch.context() as patch:
        if small is not None:
            for name in ("SMALL", "IN_LOOPS"):
                patch.setattr(arrays, name, small)
        if wide:
            patch.setattr(survey, "WIDE_FROM", -1)
            patch.setattr(survey, "WIDTH", -1)
            patch.setattr(vector_loops, "host_lanes", lambda: 2)
            patch.setattr(llvm, "_STACK", 0)  # arrays share room
        if rolled:
            patch.setattr(survey, "UNROLLED", 0)
            patch.setattr(lowering, "SELECTED", 0)
        if in_rows:
            patch.setattr(rows, "SHORTEST", 2)
            patch.setattr(rows, "SHARE", 0.0)
        yield


# The ways that a program can take through the compiler.
WAYS = {
    "scalars": {},
    "memory": {"small": 4},
    "loops": {"rolled": True},
    "loops in memory": {"small": 4, "rolled": True},
    "vectors": {"small": 4, "wide": True},
    "loops of vectors": {"small": 4, "rolled": True, "wide": True},
    "rows": {"in_rows": True},
    "loops over rows": {"rolled": True, "in_rows": True},
    "constants": {},  # all arguments are known
}


def run(function: Callable[..., Any], *args: Any, way: str = "scalars") -> Any:
    """What the compiled function returns; fails if the compiler does not take it."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(args)]
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*args)
    if way == "constants":
        function = jax.extend.core.jaxpr_as_fun(closed)
        closed, leaves = jax.make_jaxpr(lambda given=leaves: function(*given))(), []
    with limits(**WAYS[way]):
        out = compiled(closed)(leaves)
    return jax.tree.unflatten(jax.tree.structure(shape), out)


def called(function: Callable[..., Any], *args: Any) -> Any:
    """The same by `native`."""
    before = list(counts.left_to_xla)
    out = native(function)(*args)
    assert counts.left_to_xla == before
    return out


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many numbers of their type lie between two, NaN being equal to NaN."""
    whole, size = (np.dtype(f"{x}{8 * a.dtype.itemsize}") for x in ("int", "uint"))
    low = np.iinfo(whole).min

    def ordered(x: np.ndarray) -> np.ndarray:
        n = np.ascontiguousarray(x).view(whole).reshape(x.shape)
        return np.where(n < 0, low - n, n)

    one, two = ordered(a), ordered(b)
    apart = np.maximum(one, two).view(size) - np.minimum(one, two).view(size)
    return np.where(np.isnan(a) & np.isnan(b), 0, apart)


def identical(got: Any, want: Any) -> bool:
    """Every bit is the same, but for those of NaN."""
    got, want = np.asarray(got), np.asarray(want)
    same = (got.dtype, got.shape) == (want.dtype, want.shape) and np.array_equal(
        got, want, equal_nan=got.dtype.kind == "f"
    )
    if not same or got.dtype.kind != "f":
        return same
    numbers = ~np.isnan(got)
    return np.array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def assert_identical(got: Any, want: Any) -> None:
    for (path, x), y in zip(jax.tree.leaves_with_path(got), jax.tree.leaves(want), strict=True):
        assert identical(x, y), f"{jax.tree_util.keystr(path)}\n{x}\n{np.asarray(y)}"


def assert_equal(got: Any, want: Any) -> None:
    """As numbers: 0 and -0 are equal."""
    for (path, x), y in zip(jax.tree.leaves_with_path(got), jax.tree.leaves(want), strict=True):
        y = np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        same = np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        assert same, f"{jax.tree_util.keystr(path)}\n{x}\n{y}"


def assert_close(got: Any, want: Any, rtol: float = 1e-12, atol: float = 1e-12) -> None:
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        y = np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)


# -- numbers --------------------------------------------------------------------------------------


def limits_of(dtype: str) -> np.ndarray:
    """Numbers at which something may go wrong."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in WHOLE:
        info = np.iinfo(dtype)
        near = [info.min, info.min + 1, info.max - 1, info.max, info.max // 2, 0, 1, 2, 3, 7]
        return np.array([*near, *([] if info.min == 0 else [-1, -2, -7])], dtype)
    info = np.finfo(dtype)
    positive = [
        *(0.0, info.smallest_normal, info.eps, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 127.5, 128.0, 255.9),
        *(2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e10, info.max, np.inf),
    ]
    return np.array([*positive, *(-x for x in positive), np.nan], dtype)


def denormals(dtype: str) -> np.ndarray:
    tiny = np.finfo(dtype).smallest_subnormal
    return np.array([tiny, -tiny, 3 * tiny, np.finfo(dtype).smallest_normal - tiny], dtype)


def numbers_for(way: str, dtype: str, *more: float) -> np.ndarray:
    """Those of `limits_of`; with denormals where these are kept."""
    small = [] if way == "vectors" else [denormals(dtype)]
    return np.concatenate([limits_of(dtype), *small, np.array(more, dtype)])


def flushed(want: Any) -> Any:
    """What is below the normal numbers as zero."""

    def one(x: np.ndarray) -> np.ndarray:
        if x.dtype.kind != "f":
            return x
        return np.where(np.abs(x) < np.finfo(x.dtype).smallest_normal, np.copysign(0, x), x)

    return jax.tree.map(one, want)


def pairs(dtype: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(numbers, numbers)
    return np.ascontiguousarray(x.ravel(), dtype), np.ascontiguousarray(y.ravel(), dtype)


class Draw:
    """Random shapes and arrays."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def one_of(self, options: Any) -> Any:
        return options[self.rng.integers(len(options))]

    def upto(self, n: int) -> int:
        return int(self.rng.integers(n + 1))

    def shape(self, least: int = 0, most: int = 3, empty: bool = True) -> tuple[int, ...]:
        """Of `least` to `most` axes, some of them empty or single."""
        sides = [1, 2, 3, 4, 5] + [0] * (empty and self.rng.random() < 0.2)
        return tuple(self.one_of(sides) for _ in range(self.rng.integers(least, most + 1)))

    def array(self, shape: Any, dtype: str | None = None, wild: bool = True) -> np.ndarray:
        """Ordinary numbers, and some that are not unless `wild` is False; of any type if none is
        asked for."""
        dtype = dtype or self.one_of(KINDS)
        n = int(np.prod(shape))
        plain = self.rng.normal(size=n) * 4
        out = np.clip(plain, 0, None) if dtype[0] == "u" else plain
        out = out.round().astype(dtype) if dtype in WHOLE else out.astype(dtype)
        if dtype == "bool":
            out = plain > 0
        if wild:
            strange = self.rng.random(n) < 0.4
            out[strange] = self.rng.choice(limits_of(dtype), strange.sum())
        return out.reshape(shape)

    def whole(self, shape: Any, low: int = -6, high: int = 7, dtype: str = "float64") -> np.ndarray:
        """Small whole numbers, on which all arithmetic is exact."""
        return self.rng.integers(low, high, shape).astype(dtype)

    def index(self, shape: Any, n: int) -> np.ndarray:
        """Indices in and out of range."""
        low = self.one_of([-2 * n - 2, -3, 0])
        dtype = self.one_of(["int64", "int32", "int8"] + ["uint32", "uint64"] * (low == 0))
        return np.asarray(self.rng.integers(low, n + 4, shape), dtype)


# -- one operation on single numbers -----------------------------------------------------------


def away_from_zero(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)


COMPARISONS = {
    "lt": (lax.lt, np.less),
    "le": (lax.le, np.less_equal),
    "gt": (lax.gt, np.greater),
    "ge": (lax.ge, np.greater_equal),
    "eq": (lax.eq, np.equal),
    "ne": (lax.ne, np.not_equal),
}
# What arithmetic defines in every bit: by JAX, and by NumPy.
EXACT = {
    **COMPARISONS,
    "add": (lax.add, np.add),
    "sub": (lax.sub, np.subtract),
    "mul": (lax.mul, np.multiply),
    "div": (lax.div, np.divide),
    "rem": (lax.rem, np.fmod),
    "neg": (lambda x, y: lax.neg(x), lambda x, y: -x),
    "abs": (lambda x, y: lax.abs(x), lambda x, y: np.abs(x)),
    "square": (lambda x, y: lax.square(x), lambda x, y: x * x),
    "integer_pow": (lambda x, y: lax.integer_pow(x, -2), lambda x, y: 1 / (x * x)),
    "sqrt": (lambda x, y: lax.sqrt(x), lambda x, y: np.sqrt(x)),
    "floor": (lambda x, y: lax.floor(x), lambda x, y: np.floor(x)),
    "ceil": (lambda x, y: lax.ceil(x), lambda x, y: np.ceil(x)),
    "round to even": (
        lambda x, y: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        lambda x, y: np.rint(x),
    ),
    "round": (lambda x, y: lax.round(x), lambda x, y: away_from_zero(x)),
    "is_finite": (lambda x, y: lax.is_finite(x), lambda x, y: np.isfinite(x)),
    "select_n": (
        lambda x, y: lax.select_n(x < y, x, y),
        lambda x, y: np.where(x < y, y, x),
    ),
}
# And these but for the sign of zero.
NEARLY_EXACT = {
    "max": (lax.max, np.maximum),
    "min": (lax.min, np.minimum),
    "sign": (lambda x, y: lax.sign(x), lambda x, y: np.sign(x)),
    "clamp": (
        lambda x, y: lax.clamp(jnp.asarray(-1, x.dtype), x, jnp.abs(y)),
        lambda x, y: np.minimum(np.maximum(x, -1), np.abs(y)),
    ),
}
BITS = {"and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor}
WHOLE_NUMBERS = {
    **{name: function for name, (function, _) in COMPARISONS.items()},
    **{x: getattr(lax, x) for x in ("add", "sub", "mul", "div", "rem", "max", "min")},
    **BITS,
    **{f"shift_{x}": getattr(lax, f"shift_{x}") for x in ("left", "right_logical")},
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "neg": lambda x, y: lax.neg(x),
    "abs": lambda x, y: lax.abs(x) if x.dtype.kind == "i" else x,
    "sign": lambda x, y: lax.sign(x),
    "not": lambda x, y: lax.bitwise_not(x),
    "square": lambda x, y: lax.square(x),
    "integer_pow": lambda x, y: (lax.integer_pow(x, 3), lax.integer_pow(y, 6)),
    "clamp": lambda x, y: lax.clamp(jnp.asarray(1, x.dtype), x, y),
    "select_n": lambda x, y: lax.select_n(x < y, x, y),
}
TRUTH = {
    **{name: function for name, (function, _) in COMPARISONS.items()},
    **BITS,
    **{x: getattr(lax, x) for x in ("max", "min")},
    "not": lambda x, y: lax.bitwise_not(x),
    "select_n": lambda x, y: lax.select_n(x, x, y),
}


def wider(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy in more than double precision, or in double instead of single."""

    def truth(*args: np.ndarray) -> np.ndarray:
        more = np.longdouble if args[0].dtype == np.float64 else np.float64
        return function(*(x.astype(more) for x in args))

    return truth


# Functions of one number: by JAX and by NumPy.
FUNCTIONS = {
    **{x: (getattr(lax, x), getattr(np, x)) for x in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"a{x}": (getattr(lax, f"a{x}"), getattr(np, f"arc{x}")) for x in ("sin", "cos", "tan")},
    **{f"a{x}": (getattr(lax, f"a{x}"), getattr(np, f"arc{x}")) for x in ("sinh", "cosh", "tanh")},
    **{x: (getattr(lax, x), getattr(np, x)) for x in ("exp", "exp2", "expm1", "log", "log1p")},
    "cbrt": (lax.cbrt, np.cbrt),
    "rsqrt": (lax.rsqrt, lambda x: 1 / np.sqrt(x)),
    "logistic": (lax.logistic, lambda x: 1 / (1 + np.exp(-x))),
    "integer_pow": (lambda x: lax.integer_pow(x, 5), lambda x: x**5),
}
TWO = {"atan2": (lax.atan2, np.arctan2), "pow": (lax.pow, np.power)}


def of_all(table: dict[str, Any], *which: int) -> Callable[..., Any]:
    """All functions of a table as one; that of JAX or that of NumPy."""
    return lambda *x: {name: (f[which[0]] if which else f)(*x) for name, f in table.items()}


quiet = partial(np.errstate, all="ignore")


@pytest.mark.parametrize("way", ["scalars", "memory", "vectors", "constants"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_arithmetic_is_that_of_the_standard(dtype, way):
    """Denormals, infinities and NaN included; what is known is computed by the same rules."""
    x, y = pairs(dtype, numbers_for(way, dtype))
    for table, compare in ((EXACT, assert_identical), (NEARLY_EXACT, assert_equal)):
        with quiet():
            want = of_all(table, 1)(x, y)
            want = flushed(want) if way == "vectors" else want
        f = of_all(table, 0)
        compare(run(f, x, y, way=way), want)


@pytest.mark.parametrize("dtype", FLOATS)
def test_arithmetic_is_that_of_jax(dtype):
    """Where no number is so small that XLA takes it for zero."""
    x, y = pairs(dtype, limits_of(dtype))
    least = np.finfo(dtype).smallest_normal
    for table in (EXACT, NEARLY_EXACT):
        f = of_all(table, 0)
        got, want = run(f, x, y, way="memory"), jax.jit(f)(x, y)
        for name in table:
            large = (got[name] == 0) | ~(np.abs(got[name].astype(dtype)) < least)
            assert_equal(got[name][large], np.asarray(want[name])[large])


def test_numbers_below_the_normal_ones_are_not_zero_as_xla_has_them():
    tiny = np.array([5e-324, 1e-310])
    assert (run(lambda x: (x + x) / 2, tiny) == tiny).all()
    assert (run(lambda x: x > 0, tiny)).all()
    assert not (jax.jit(lambda x: x > 0)(tiny)).any()


def test_in_loops_over_arrays_they_are_and_nowhere_else():
    """What a chain passes on dies out from body to body; a processor takes long for the last of
    it. Its way of rounding is what it was when the program ends."""
    tiny = np.tile([5e-324, 1e-310, 1e-308, -1e-310], 500)
    got = run(lambda x: (x + x) / 2, tiny, way="vectors")
    assert (got == (0 if machine.is_x86() else tiny)).all()
    assert (run(lambda x: 2e-200 * (x * 1e-150), 1e-150 + 0 * tiny, way="vectors") == 0).all()
    assert ((tiny + tiny) / 2 == tiny).all()
    assert (run(lambda x: (x + x) / 2, tiny) == tiny).all()


def each_whole(*slow):
    """All kinds of whole numbers; those that others stand for among the slow tests."""
    marks = lambda x: pytest.mark.slow if x in slow else ()  # noqa: E731
    return [pytest.param(x, marks=marks(x)) for x in (*WHOLE, "bool")]


@pytest.mark.parametrize("way", ["scalars", "memory", "vectors", "constants"])
@pytest.mark.parametrize("dtype", each_whole(*(set(WHOLE) - {"int64"})))
def test_whole_numbers_are_those_of_jax(dtype, way):
    x, y = pairs(dtype, limits_of(dtype))
    f = of_all(TRUTH if dtype == "bool" else WHOLE_NUMBERS)
    got = run(f, x, y, way=way)
    assert_identical(got, jax.jit(f)(x, y))


@pytest.mark.parametrize("way", ["scalars", "memory", "vectors", "constants"])
@pytest.mark.parametrize("dtype", KINDS)
def test_conversions_are_those_of_jax(dtype, way):
    """Too large numbers become the largest, NaN becomes 0."""
    x = limits_of(dtype)
    if dtype in ("int64", "uint64"):  # halfway between numbers of single precision
        x = np.concatenate([x, np.array([2**60 + 2**36 + 1, 2**53 + 1, 2**25 + 1], dtype)])
    if dtype == "float64":
        x = np.concatenate([x, [1e300, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 16777217.0]])
        x = x[x != np.finfo(dtype).smallest_normal]

    def f(x: Any) -> Any:
        return {new: lax.convert_element_type(x, new) for new in KINDS}

    got = run(f, x, way=way)
    assert_identical(got, jax.jit(f)(x))


def function_values(dtype: str, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    sizes = [rng.normal(size=n), rng.normal(size=n) * 10, rng.normal(size=n) * 1e-5]
    return np.concatenate([*sizes, rng.uniform(-1, 1, n), limits_of(dtype)]).astype(dtype)


def assert_within(
    got: np.ndarray, want: np.ndarray, ulps: float, name: str, flush: bool = False
) -> None:
    with quiet():
        want = want.astype(got.dtype)
    if flush:
        got, want = flushed(got), flushed(want)
    apart = distance(got, want)
    worst = int(np.argmax(apart))
    assert apart[worst] <= ulps, f"{name}: {got[worst]!r} is not {want[worst]!r}"


@pytest.mark.parametrize("way", ["scalars", "memory", "vectors", "constants"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_are_right_to_the_last_bits(dtype, way):
    """By functions of more precision; XLA's approximations are not always as near."""
    x = function_values(dtype, 12, 1)
    f = of_all(FUNCTIONS, 0)
    got = run(f, x, way=way)
    with quiet():
        want = {name: wider(function)(x) for name, (_, function) in FUNCTIONS.items()}
    for name in FUNCTIONS:
        assert_within(got[name], want[name], 4, name, flush=way == "vectors")


@pytest.mark.parametrize("way", ["scalars", "memory", "vectors", "constants"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_two_numbers_are_right_to_the_last_bits(dtype, way):
    x, y = pairs(dtype, np.concatenate([limits_of(dtype), [0.3, -0.7, 11.0, -3.0]]).astype(dtype))
    f = of_all(TWO, 0)
    got = run(f, x, y, way=way)
    with quiet():
        for name, (_, function) in TWO.items():
            want = np.where(np.isinf(x), function(x, y), wider(function)(x, y))
            assert_within(got[name], want, 2, name, flush=way == "vectors")


@pytest.mark.parametrize("way", ["scalars", "memory"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_are_those_of_jax(dtype, way):
    """NaN, infinities and zeros in the same places, numbers to a few digits less than all."""
    x = function_values(dtype, 12, 2)
    x = x[np.abs(x) < np.finfo(dtype).max]  # XLA's tan and expm1 there are not the functions
    f = of_all(FUNCTIONS, 0)
    rtol = 1e-13 if dtype == "float64" else 2e-5
    least = np.finfo(dtype).smallest_normal
    assert_close(run(f, x, way=way), jax.jit(f)(x), rtol=rtol, atol=least)


@pytest.mark.parametrize("way", ["scalars", "memory", "vectors", "constants"])
def test_functions_of_double_precision_only(way):
    x, y = pairs("float64", numbers_for(way, "float64", 0.3))

    def f(x: Any, y: Any) -> Any:
        return lax.nextafter(x, y), lax.erf(x), lax.erfc(x)

    got = run(f, x, y, way=way)
    with quiet():
        assert_identical(got[0], np.nextafter(x, y))
    assert_within(got[1], scipy.special.erf(x), 2, "erf")
    assert_within(got[2], scipy.special.erfc(x), 4, "erfc")


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint16", "int64"])
def test_exponents_may_be_whole_numbers(dtype):
    x = np.array([1.5, -2.0, 0.0, -0.0, 3.0, np.inf])
    y = np.array([3, 2, 0, 5, 7, 1], dtype)
    assert_close(run(lax.pow, x, y), jax.jit(lax.pow)(x, y))
    assert_close(run(lax.pow, x, y, way="constants"), jax.jit(lax.pow)(x, y))


def test_known_zeros_and_ones_disappear():
    """So a known zero also hides what is not finite: what the compiler is allowed to do."""
    x = np.array([np.nan, np.inf, -0.0, 2.0])
    product, total, quotient = run(lambda x: (x * 0.0, x + 0.0, 0.0 / x), x)
    assert_identical(product, np.zeros(4))
    assert_equal(total, x)
    assert_identical(quotient, np.zeros(4))
    assert_identical(run(lambda x: (x * 1.0, x / 1.0, x - 0.0), x), (x, x, x))
    assert_equal(run(lambda x: (x * -1.0, 0.0 - x, 1.0 - (-x)), x), (-x, -x, 1 + x))


# -- every primitive ----------------------------------------------------------------------------


class Case(NamedTuple):
    """A function, its arguments, and how its results are compared with those of JAX."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    compare: Callable[[Any, Any], None] = assert_identical


CASES: dict[str, Callable[[Draw], Case]] = {}


def case(make: Callable[[Draw], Case]) -> Callable[[Draw], Case]:
    CASES[make.__name__] = make
    return make


def entrywise(table: dict[str, Any], dtypes: Any, which: tuple[int, ...] = ()) -> Any:
    def make(draw: Draw) -> Case:
        shape, dtype = draw.shape(), draw.one_of(dtypes)
        wild = dtype not in FLOATS
        x, y = draw.array(shape, dtype, wild), draw.array(shape, dtype, wild)
        return Case(of_all(table, *which), (x, y), assert_equal)

    return make


CASES["arithmetic"] = entrywise({**EXACT, **NEARLY_EXACT}, FLOATS, (0,))
CASES["whole numbers"] = entrywise(WHOLE_NUMBERS, WHOLE)
CASES["truth"] = entrywise(TRUTH, ["bool"])


@case
def functions(draw: Draw) -> Case:
    x = draw.array(draw.shape(), "float64", wild=False)
    y = draw.array(x.shape, "float64", wild=False)

    def f(x: Any, y: Any) -> Any:
        others = lax.erf(x), lax.erfc(x), lax.nextafter(x, y)
        return of_all(FUNCTIONS, 0)(x), of_all(TWO, 0)(x, y), others

    return Case(f, (x, y), assert_close)


@case
def single_numbers_with_arrays(draw: Draw) -> Case:
    x = draw.array(draw.shape(), "float64")
    most, which = draw.array((), "float64", wild=False), draw.array((), "bool")

    def f(x: Any, most: Any, which: Any) -> Any:
        chosen = lax.select_n(which, x, jnp.full_like(x, 2))
        return lax.clamp(-1.0, x, most), chosen, x < most

    return Case(f, (x, most, which), assert_equal)


@case
def several_choices(draw: Draw) -> Case:
    x = draw.array(draw.shape())
    which = draw.rng.integers(0, 3, x.shape).astype(np.int32)
    return Case(lambda which, x: lax.select_n(which, x, x[::-1] if x.ndim else x, x), (which, x))


@case
def reshape(draw: Draw) -> Case:
    x = draw.array(draw.shape())
    new = draw.one_of([(x.size,), (1, x.size, 1), x.shape[::-1]])

    def f(x: Any) -> Any:
        return lax.reshape(x, new), lax.squeeze(x[None], (0,)), lax.expand_dims(x, (0,))

    return Case(f, (x,))


@case
def transpose(draw: Draw) -> Case:
    x = draw.array(draw.shape(1))
    order = tuple(draw.rng.permutation(x.ndim).tolist())
    return Case(lambda x: lax.transpose(x, order), (x,))


@case
def rev(draw: Draw) -> Case:
    x = draw.array(draw.shape())
    axes = tuple(d for d in range(x.ndim) if draw.upto(1))
    return Case(lambda x: lax.rev(x, axes), (x,))


@case
def broadcast_in_dim(draw: Draw) -> Case:
    shape = draw.shape(1, 4)
    axes = tuple(d for d in range(len(shape)) if draw.upto(1))
    x = draw.array([draw.one_of([1, shape[d]]) for d in axes])
    return Case(lambda x: lax.broadcast_in_dim(x, shape, axes), (x,))


@case
def slices(draw: Draw) -> Case:
    x = draw.array(draw.shape())
    begin = [draw.upto(n) for n in x.shape]
    end = [b + draw.upto(n - b) for b, n in zip(begin, x.shape, strict=True)]
    steps = [draw.one_of([1, 1, 2, 3]) for _ in x.shape]
    return Case(lambda x: (lax.slice(x, begin, end, steps), lax.slice(x, begin, end)), (x,))


@case
def concatenate(draw: Draw) -> Case:
    shape, dtype = draw.shape(1), draw.one_of(KINDS)
    axis = draw.upto(len(shape) - 1)
    shapes = [(*shape[:axis], draw.upto(3), *shape[axis + 1 :]) for _ in range(3)]
    parts = tuple(draw.array(s, dtype) for s in shapes)
    return Case(lambda *parts: lax.concatenate(parts, axis), parts)


@case
def stack_and_unstack(draw: Draw) -> Case:
    x = draw.array(draw.shape(1))
    axis = draw.upto(x.ndim - 1)
    return Case(lambda x: (jnp.stack([x, x[::-1]], axis), jnp.unstack(x, axis=axis)), (x,))


@case
def split(draw: Draw) -> Case:
    x = draw.array(draw.shape(1))
    axis = draw.upto(x.ndim - 1)
    first = draw.upto(x.shape[axis])
    return Case(lambda x: lax.split(x, (first, x.shape[axis] - first), axis), (x,))


@case
def tile(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, 2))
    reps = tuple(draw.upto(3) for _ in x.shape)
    return Case(lambda x: jnp.tile(x, reps), (x,))


@case
def iota(draw: Draw) -> Case:
    shape, dtype = draw.shape(1), draw.one_of([*FLOATS, *WHOLE])
    axis = draw.upto(len(shape) - 1)
    return Case(lambda: lax.broadcasted_iota(np.dtype(dtype), shape, axis), ())


@case
def pad(draw: Draw) -> Case:
    x = draw.array(draw.shape(empty=False))
    config = [(draw.upto(4) - 2, draw.upto(4) - 2, draw.upto(2)) for _ in x.shape]
    config = [
        c if n + c[0] + c[1] + (n - 1) * c[2] >= 0 else (0, 0, 0) for c, n in zip(config, x.shape)
    ]
    return Case(lambda x, fill: lax.pad(x, fill, config), (x, draw.array((), str(x.dtype))))


@case
def unchanged(draw: Draw) -> Case:
    def f(x: Any) -> Any:
        y = lax.with_sharding_constraint(x, jax.sharding.SingleDeviceSharding(jax.devices()[0]))
        marked = eqxi.nondifferentiable_backward(eqxi.nonbatchable(y))
        return jnp.copy(x), lax.stop_gradient(y), lax.optimization_barrier(x), marked

    return Case(f, (draw.array(draw.shape()),))


@case
def unvmapped(draw: Draw) -> Case:
    x = draw.array(draw.shape(empty=False), "float64", wild=False)
    return Case(
        lambda x: (eqxi.unvmap_any(x > 3), eqxi.unvmap_all(x > -9), eqxi.unvmap_max(x)), (x,)
    )


@case
def platform(draw: Draw) -> Case:
    x = draw.array(draw.shape())
    return Case(
        lambda x: lax.platform_dependent(x, cpu=lambda x: ~(x < x), default=lambda x: x < x), (x,)
    )


@case
def dynamic_slice(draw: Draw) -> Case:
    x = draw.array(draw.shape(1))
    sizes = [draw.upto(n) for n in x.shape]
    dtype = draw.one_of(["int64", "int32", "uint64"])
    begin = [np.asarray(draw.index((), n), dtype) for n in x.shape]
    if dtype == "uint64":
        begin = [draw.one_of([b, np.uint64(2**64 - 3)]) for b in begin]
    return Case(lambda x, *begin: lax.dynamic_slice(x, begin, sizes), (x, *begin))


@case
def dynamic_update_slice(draw: Draw) -> Case:
    x = draw.array(draw.shape(1))
    new = draw.array([draw.upto(n) for n in x.shape], str(x.dtype))
    begin = [np.asarray(draw.index((), n), "int64") for n in x.shape]

    def f(x: Any, new: Any, *begin: Any) -> Any:
        known = [1] * x.ndim
        return lax.dynamic_update_slice(x, new, begin), lax.dynamic_update_slice(x, new, known)

    return Case(f, (x, new, *begin))


@case
def gather(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, empty=False))
    i = draw.index(draw.shape(0, 2), x.shape[0])
    known = np.arange(-1, x.shape[0] + 1)
    fill = {"b": True, "f": 7.5}.get(x.dtype.kind, 7)

    def f(x: Any, i: Any) -> Any:
        at, last = x.at[i], x[..., i % x.shape[-1]]
        plain = [at.get(mode="fill"), at.get(mode="clip"), x[i], x[known]]
        return [*plain, at.get(mode="fill", fill_value=fill), last, x[i % 2][..., None]]

    return Case(f, (x, i))


@case
def gather_of_several(draw: Draw) -> Case:
    """Windows, and indices for each member of a batch."""
    x = draw.array((3, 4, draw.upto(3) + 2))
    i, j = draw.index((3,), 4), draw.index((3,), 3)
    i, j = i.astype("int64"), j.astype("int64")

    def f(x: Any, i: Any, j: Any) -> Any:
        windows = jax.vmap(lambda i, j: lax.dynamic_slice(x, (i, j, 0), (2, 3, 1)))(i, j)
        own = jax.vmap(lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 1)))(x, i)
        return windows, own, jnp.take_along_axis(x, j[:, None, None] % 4, axis=1), x[i, j]

    return Case(f, (x, i, j))


def _updates(draw: Draw, kinds: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = draw.whole(draw.shape(1, empty=False), 0, 9, draw.one_of(kinds))
    i = draw.index((draw.upto(4),), x.shape[0])
    return x, i, draw.whole((*i.shape, *x.shape[1:]), 0, 5, str(x.dtype))


@case
def scatter(draw: Draw) -> Case:
    x, i, new = _updates(draw, KINDS)
    order = draw.rng.permutation(x.shape[0])[: len(i)]

    def f(x: Any, i: Any, new: Any) -> Any:
        one = {mode: x.at[i[0]].set(new[0], mode=mode) for mode in ("drop", "clip") if len(i)}
        return one, x.at[jnp.asarray(order)].set(new[: len(order)]), x.at[1:].set(x[0])

    return Case(f, (x, i, new))


@case
def scatter_with(draw: Draw) -> Case:
    x, i, new = _updates(draw, ["float64", "int32", "uint8", "float32"])

    def f(x: Any, i: Any, new: Any) -> Any:
        at, known = x.at[i], x.at[np.arange(len(new)) % 2]
        out = [at.add(new), at.subtract(new), at.multiply(new), at.min(new), at.max(new)]
        return out, at.add(new, mode="clip"), known.add(new), known.max(new)

    return Case(f, (x, i, new))


@case
def scatter_of_several(draw: Draw) -> Case:
    x = draw.whole((3, 4, draw.upto(2) + 2))
    i, new = draw.index((3,), 4).astype("int64"), draw.whole((3, 2, 2))

    def f(x: Any, i: Any, new: Any) -> Any:
        update = jax.vmap(lambda x, i, new: lax.dynamic_update_slice(x, new, (i, 0)))
        return update(x, i, new), jax.vmap(lambda x, i: x.at[i].add(x[0]))(x, i)

    return Case(f, (x, i, new))


@case
def reductions(draw: Draw) -> Case:
    x = draw.whole(draw.shape(), -3, 4, draw.one_of(["float64", "float32", "int64", "int8"]))
    axes = tuple(d for d in range(x.ndim) if draw.upto(1))
    return Case(lambda x: (jnp.sum(x, axes), jnp.prod(x, axes, dtype=x.dtype)), (x,), assert_equal)


@case
def largest_and_smallest(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, empty=False))
    axes = tuple(d for d in range(x.ndim) if draw.upto(1))
    axis = draw.upto(x.ndim - 1)
    index = np.dtype(draw.one_of(["int32", "int64"]))

    def f(x: Any) -> Any:
        places = lax.argmax(x, axis, index), lax.argmin(x, axis, index)
        return jnp.max(x, axes), jnp.min(x, axes), places

    return Case(f, (x,), assert_equal)


@case
def reductions_of_bits(draw: Draw) -> Case:
    x = draw.array(draw.shape(), draw.one_of([*WHOLE, "bool"]))
    axes = tuple(d for d in range(x.ndim) if draw.upto(1))
    both = lambda x: (lax.reduce_and(x, axes), lax.reduce_or(x, axes))  # noqa: E731
    return Case(lambda x: (*both(x), lax.reduce_xor(x, axes)), (x,))


@case
def cumulative(draw: Draw) -> Case:
    x = draw.whole(draw.shape(1), -3, 4, draw.one_of(["float64", "int32"]))
    y = draw.array(x.shape, "float64")
    axis, back = draw.upto(x.ndim - 1), bool(draw.upto(1))

    def f(x: Any, y: Any) -> Any:
        totals = lax.cumsum(x, axis, back), lax.cumprod(x, axis, back)
        return totals, lax.cummax(y, axis, back), lax.cummin(y, axis, back)

    return Case(f, (x, y), assert_equal)


@case
def sort(draw: Draw) -> Case:
    x = draw.array(draw.shape(1, 2))
    axis = draw.upto(x.ndim - 1)
    return Case(lambda x: (lax.sort(x, axis), jnp.argsort(x, axis, stable=True)), (x,))


@case
def dot_general(draw: Draw) -> Case:
    batch, inner = (3,) * draw.upto(1), (2, 4)[: draw.upto(2)]
    left, right = draw.shape(0, 1), draw.shape(0, 1)
    dtype = draw.one_of(["float64", "float32", "int64", "int16"])
    x = draw.whole((*batch, *left, *inner), dtype=dtype)
    y = draw.whole((*inner, *right, *batch), dtype=dtype)
    n, m = len(batch) + len(left), len(inner) + len(right)
    contracted = tuple(range(n, n + len(inner))), tuple(range(len(inner)))
    dims = (contracted, (tuple(range(len(batch))), tuple(range(m, m + len(batch)))))
    return Case(lambda x, y: lax.dot_general(x, y, dims), (x, y), assert_equal)


@case
def factorisations(draw: Draw) -> Case:
    n = draw.upto(6)
    A = draw.array((n, n), "float64", wild=False) + 4 * np.eye(n)[draw.rng.permutation(n)]
    b = draw.array((n, draw.upto(3)), "float64", wild=False)
    lower, turned, unit = (bool(draw.upto(1)) for _ in range(3))

    def f(A: Any, b: Any) -> Any:
        packed, exchanges, order = lax.linalg.lu(A)
        triangle = A + 9 * jnp.eye(n)
        options = {"left_side": True, "lower": lower, "transpose_a": turned}
        x = lax.linalg.triangular_solve(triangle, b, unit_diagonal=unit, **options)
        return packed, exchanges, order, x, lax.linalg.cholesky(A @ A.T + jnp.eye(n))

    return Case(f, (A, b), partial(assert_close, rtol=1e-9, atol=1e-9))


@case
def spectra(draw: Draw) -> Case:
    m, n, whole = 1 + draw.upto(6), 1 + draw.upto(6), bool(draw.upto(1))
    A = draw.array((2, m, n), "float64", wild=False)
    S = draw.array((n, n), "float64", wild=False)
    k = min(m, n)

    def f(A: Any, S: Any) -> Any:
        u, s, vt = jnp.linalg.svd(A, full_matrices=whole)
        w, v = jnp.linalg.eigh(S)
        again = (u[..., :k] * s[:, None, :]) @ vt[:, :k]
        return s, again, u.mT @ u, vt @ vt.mT, w, (v * w) @ v.T, v.T @ v

    return Case(f, (A, S), partial(assert_close, rtol=1e-9, atol=1e-9))


@jax.custom_jvp
def halved(x):
    return x / 2


halved.defjvp(lambda x, dx: (halved(*x), dx[0] / 2))


@jax.custom_vjp
def doubled(x):
    return x * 2


doubled.defvjp(lambda x: (doubled(x), None), lambda _, g: (2 * g,))


@case
def calls(draw: Draw) -> Case:
    x = draw.whole(draw.shape())

    def f(x: Any) -> Any:
        again = jax.checkpoint(lambda x: x * x + 1)
        kept = eqxi.select_if_vmap_p.bind(x.sum() > 0, x, x + 1)
        slope = jax.grad(lambda x: jnp.vdot(halved(x), doubled(x) + x))(x)
        return jax.jit(lambda x, y: (y, x - 1, y))(x, 3 * x), again(x), kept, slope

    return Case(f, (x,), assert_equal)


@case
def linear_equations(draw: Draw) -> Case:
    n = draw.upto(5) + 1
    A, b = draw.array((n, n), "float64", wild=False), draw.array((n, 2), "float64", wild=False)
    close = partial(assert_close, rtol=1e-8, atol=1e-8)
    return Case(lambda A, b: jnp.linalg.solve(A + 20 * jnp.eye(n), b), (A, b), close)


@case
def loops(draw: Draw) -> Case:
    x, n, back = draw.whole(draw.shape()), draw.upto(5), bool(draw.upto(1))

    def f(x: Any, rows: Any, n: Any) -> Any:
        grown = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2 - 1), (0, x))
        return grown, lax.scan(lambda c, r: (c + r, c * r), x, rows, reverse=back)

    return Case(f, (x, draw.whole((draw.upto(4),)), n), assert_equal)


@case
def branches(draw: Draw) -> Case:
    x, which = draw.whole(draw.shape()), draw.upto(4) - 1

    def f(x: Any, which: Any) -> Any:
        ways = [lambda x: x + 1, lambda x: -x, lambda x: x * x * x - x]
        return lax.switch(which, ways, x), lax.cond(which > 1, *ways[:2], x)

    return Case(f, (x, which), assert_equal)


@settings(max_examples=2)
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", CASES)
def test_primitives_are_those_of_jax_on_random_shapes(name, seed):
    function, args, compare = CASES[name](Draw(seed))
    want = jax.jit(function)(*args)
    for way in ("scalars", "loops in memory", "vectors", "loops over rows", "constants"):
        compare(run(function, *args, way=way), want)


@pytest.mark.slow
@settings(max_examples=100)
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", CASES)
def test_primitives_are_those_of_jax_on_many_random_shapes(name, seed):
    function, args, compare = CASES[name](Draw(seed))
    want = jax.jit(function)(*args)
    for way in WAYS:
        compare(run(function, *args, way=way), want)


def primitives_in(jaxpr: Any) -> set[str]:
    found = set()
    for eqn in jaxpr.eqns:
        found |= {eqn.primitive.name}.union(*map(primitives_in, survey.inner_jaxprs(eqn)))
    return found


# Names that primitives have in other versions of JAX and Equinox.
PASSING = {"copy_p", "nondifferentiable", "nontraceable", "pvary"}
CALLED = {"pjit", "checkpoint", "core_call", "closed_call", "custom_vjp_call_jaxpr"}
LIKE_RESHAPE = {"expand_dims"}


def test_every_primitive_is_tested():
    seen = set()
    for make in CASES.values():
        for seed in range(20):
            function, args, _ = make(Draw(seed))
            seen |= primitives_in(jax.make_jaxpr(function)(*args).jaxpr)
    known = {*lowering.RULES, *survey.CALLS, "while", "scan", "cond", "custom_linear_solve"}
    assert known - seen - {"empty", "empty2"} == PASSING | CALLED | LIKE_RESHAPE


@pytest.mark.parametrize("name", sorted(PASSING))
def test_primitives_of_other_versions_pass_an_array_on(name):
    primitive = jax.extend.core.Primitive(name)
    primitive.def_abstract_eval(lambda x: x)
    x = np.arange(5.0)
    for way in WAYS:
        assert_identical(run(primitive.bind, x, way=way), x)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1024,), (1025,), (33, 32), (2, 3, 200)], ids=str)
def test_sizes_around_the_limit_up_to_which_arrays_are_taken_apart(shape):
    draw = Draw(3)
    x, y = draw.whole(shape), draw.whole(shape)

    def f(x: Any, y: Any, i: Any) -> Any:
        total = lax.fori_loop(0, i, lambda k, z: z.at[k + i].add(1.0) * 2 - y, x)
        return total, jnp.flip(x, 0).T, jnp.where(x < y, x, 7.0), x.sum(0), (x * y)[..., 1:]

    assert_equal(run(f, x, y, 1), jax.jit(f)(x, y, 1))


# -- random programs ----------------------------------------------------------------------------


def assert_program_is_that_of_jax(program: Any, seed: int, ways: Any, batch: bool = False) -> None:
    args, function = program.arguments(seed), lambda *args: program(*args)
    if batch:
        args = [np.stack(x) for x in zip(args, program.arguments(seed + 1), strict=True)]
        function = jax.vmap(function)
    want = jax.jit(function)(*args)
    for way in ways:
        assert_equal(run(function, *args, way=way), want)


# To write a program takes longer than hypothesis thinks it should.
many = partial(settings, suppress_health_check=list(HealthCheck), print_blob=False)
seeds = st.integers(0, 1000)


@many(max_examples=12)
@given(random_programs.programs(random_programs.VARIED), seeds)
def test_random_programs(program, seed):
    assert_program_is_that_of_jax(program, seed, WAYS)


@many(max_examples=18)
@given(random_programs.programs(random_programs.UPDATES), seeds)
def test_random_programs_that_update_arrays_in_place(program, seed):
    assert_program_is_that_of_jax(
        program, seed, ["memory", "loops in memory", "vectors", "loops of vectors"]
    )


@many(max_examples=5)
@given(random_programs.programs(random_programs.LARGE), seeds)
def test_random_programs_of_large_arrays(program, seed):
    assert_program_is_that_of_jax(program, seed, ["scalars", "loops"])


@many(max_examples=8)
@given(random_programs.programs(random_programs.VARIED), seeds)
def test_random_programs_on_a_batch(program, seed):
    assert_program_is_that_of_jax(program, seed, ["loops", "loops in memory"], batch=True)


STYLES = {
    "varied": (random_programs.VARIED, WAYS, False),
    "updates": (
        random_programs.UPDATES,
        ["memory", "loops in memory", "vectors", "loops of vectors"],
        False,
    ),
    "large": (random_programs.LARGE, ["scalars", "loops"], False),
    "batch": (random_programs.VARIED, WAYS, True),
}


@pytest.mark.slow
@many(max_examples=1000)
@given(data=st.data(), seed=seeds)
@pytest.mark.parametrize("style", STYLES)
def test_many_random_programs(style, data, seed):
    style, ways, batch = STYLES[style]
    assert_program_is_that_of_jax(data.draw(random_programs.programs(style)), seed, ways, batch)


# What random programs do not find by themselves.


def test_pairs_of_neighbours_are_rows_too():
    assert rows.widths({9: 50, 10: 400, 11: 60, 60: 100}, 1000) == [10, 11, 9]


def test_pieces_of_arrays_in_memory_are_read_in_rows():
    def f(kept: Any, k: Any) -> Any:
        moving = lax.dynamic_slice(kept, (k, 3), (2, 30)).reshape(6, 10)
        fixed = kept[5:8, 12:22]
        for _ in range(3):
            moving, fixed = moving * moving[0] + 1, fixed * fixed[1] + 2
        return moving, fixed

    kept = np.random.default_rng(0).random((200, 40))
    for k in (7, 198, 500):  # the last is beyond the end
        found = native(f)(kept, k)
        for x, y in zip(found, f(jnp.asarray(kept), k), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-14)
    _, layout = programs.written(jax.make_jaxpr(f)(kept, 7))
    assert layout.in_rows
    assert layout.operations < 200  # and not one for each number


def test_numbers_side_by_side_are_computed_as_rows():
    """As those of the bodies of a chain: with a ground in front, shifted, mirrored, in a loop."""
    n = 10

    def f(x, y, m):
        def once(state):
            k, x, y = state
            wide = jnp.concatenate([jnp.ones((3, 1)), x], axis=1)  # the ground and all bodies
            near, far = wide[:, :-1], wide[:, 1:]
            pull = jnp.where(
                far > near, jnp.sin(far - near) / m, jnp.sqrt(jnp.abs(far)) - y[:, ::-1]
            )
            total = jnp.zeros((3, n + 1)).at[:, 1:].add(pull)
            total = total.at[:, :-1].add(-0.5 * pull)
            y = y + 0.1 * total[:, 1:]
            return k + 1, x + 0.1 * y, y

        _, x, y = jax.lax.while_loop(lambda s: s[0] < 5, once, (0, x, y))
        return x, y, jnp.max(jnp.abs(x)), jnp.sum(x * y, axis=0), x.T @ y

    random = np.random.default_rng(1)
    args = random.normal(size=(3, n)), random.normal(size=(3, n)), 1 + random.random(n)
    text, _ = programs.written(jax.make_jaxpr(f)(*args))
    length = machine.host_lanes()
    assert f"fmul contract <{length} x double>" in text
    got, want = run(f, *args), jax.jit(f)(*args)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-13)


def test_a_number_that_is_none_stays_in_its_place():
    """In a row, too, NaN and infinity do no harm beside them."""
    x = np.array([1.0, np.nan, -np.inf, 0.0, -4.0, np.inf, 2.0, 3.0, -0.0])

    def f(x):
        return x * 2.0, jnp.maximum(x, 1.0), jnp.sqrt(x), 1.0 / x, jnp.where(x > 0, x, -1.0), x < 1

    assert_identical(run(f, x, way="rows"), jax.jit(f)(x))


def test_an_array_that_is_read_later_survives_a_branch_that_updates_it():
    def f(x, i):
        x = x.at[i].set(3.0)
        later = x * 2 + 1
        new = lax.cond(i > 2, lambda x: x.at[i + 1].set(9.0), lambda x: x.at[0].add(1.0), x)
        return later + new

    for i in (1, 3):
        args = np.arange(6.0), i
        for way in WAYS:
            assert_equal(run(f, *args, way=way), jax.jit(f)(*args))


def test_a_result_that_is_returned_twice_is_not_updated_in_both():
    def f(x, i):
        one, two = jax.jit(lambda x: (x * 2 + 1,) * 2)(x)
        first = jnp.sum(one) + one.at[i].set(9.0)
        return first, two

    for way in WAYS:
        args = np.arange(6.0), 2
        assert_equal(run(f, *args, way=way), jax.jit(f)(*args))


def test_outputs_may_be_inputs_constants_and_the_same_array():
    table = np.arange(2000.0)

    def f(x, y):
        z = y.at[3].set(7.0)
        return x, x, y, z, z, jnp.asarray(table), jnp.asarray(table[:3]), z.reshape(2, -1), 3, True

    args = np.arange(3.0), np.arange(1500.0)
    for way in WAYS:
        assert_identical(run(f, *args, way=way), jax.jit(f)(*args))


def test_carries_that_exchange_places():
    def f(a, b, n):
        def body(k, carry):
            a, b, total = carry
            return b, a.at[k].add(1.0), total + a[k] * 10

        return lax.fori_loop(0, n, body, (a, b, 0.0))

    for n in range(4):
        for size in (3, 9, 1100):
            args = np.arange(1.0 * size), -np.arange(1.0 * size), n
            for way in WAYS:
                assert_equal(run(f, *args, way=way), jax.jit(f)(*args))


def test_members_of_a_batch_leave_a_loop_at_different_times():
    def f(x, limit):
        return lax.while_loop(lambda s: s[0].sum() < limit, lambda s: (s[0] * 2, s[1] + 1), (x, 0))

    args = np.arange(1.0, 13.0).reshape(3, 4), np.array([100.0, 10.0, 1000.0])
    for way in WAYS:
        assert_equal(run(jax.vmap(f), *args, way=way), jax.jit(jax.vmap(f))(*args))


def test_long_rows_of_operations_on_large_arrays(monkeypatch):
    def f(x):
        for k in range(300):
            x = jnp.flip(x) * 1.001 + 0.1 * k
        return x

    x = np.arange(1500.0)
    assert_close(run(f, x), jax.jit(f)(x))  # as one of wide arrays
    monkeypatch.setattr(survey, "WIDE_FROM", 10**9)
    assert_close(run(f, x), jax.jit(f)(x))


@pytest.mark.slow
def test_many_arrays_fit():
    """On the stack there is not room for all."""

    def f(x, i):
        updated = [lax.dynamic_update_slice(x, jnp.full(2, 1.0 * k), (i + k,)) for k in range(400)]
        return jnp.stack([y[k] + y[9 * k] for k, y in enumerate(updated)])

    assert_equal(run(f, np.arange(4000.0), 0), 10 * np.arange(400.0))


def test_long_loops_are_not_written_out():
    rows = np.arange(30_000.0)
    args = lambda x: lax.scan(lambda c, r: (r, c), 0.0, x), rows
    assert_equal(run(*args), jax.jit(args[0])(rows))


@pytest.mark.parametrize("reps", [(3, 1), (1, 2), (2, 3)])
def test_large_arrays_that_are_repeated_are_not_written_out(reps):
    f = lambda x: jnp.tile(x, reps)  # noqa: E731
    x = np.arange(12_000.0).reshape(2, -1)
    assert_equal(run(f, x), np.tile(x, reps))
    lengths = [programs.written(jax.make_jaxpr(f)(x[:, :n]))[1].operations for n in (600, 6000)]
    assert lengths[0] == lengths[1]


def test_a_program_is_written_down_in_the_same_way_each_time():
    def f(A, b):
        return jnp.linalg.solve(A @ A.T, b), jnp.sin(A) * b + A * A

    args = np.eye(5), np.ones(5)
    assert len({programs.written(jax.make_jaxpr(f)(*args))[0] for _ in range(3)}) == 1


# -- derivatives, linear equations ----------------------------------------------------------------


def smooth(x, n):
    """A loop with a branch in it, and an update at an index."""

    def body(k, carry):
        x, out = carry
        y = lax.cond(x.sum() > 1, lambda x: jnp.sin(x) * k, lambda x: x**2 / (k + 1), x)
        return jnp.tanh(y + 0.1), out.at[k % 3].add(jnp.cos(y).sum())

    return lax.fori_loop(0, n, body, (x, jnp.zeros(3)))


@pytest.mark.parametrize("way", in_part(WAYS, {"scalars", "memory", "vectors", "rows"}))
def test_derivatives_of_loops(way):
    x, n, dx = np.array([0.3, 1.2, -0.4, 2.0]), 5, np.array([1.0, -2.0, 0.5, 3.0])

    def scalar(x):
        return smooth(x, n)[1] @ jnp.arange(1.0, 4.0)

    def all_of_them(x, dx):
        forward = jax.jvp(lambda x: smooth(x, 5), (x,), (dx,))
        batch = jax.vmap(jax.grad(scalar))(jnp.outer(dx, x))
        return forward, jax.grad(scalar)(x), jax.hessian(scalar)(x), batch

    assert_close(run(all_of_them, x, dx, way=way), jax.jit(all_of_them)(x, dx), rtol=1e-10)


@jax.custom_jvp
def safe_sqrt(x):
    return jnp.sqrt(x)


@safe_sqrt.defjvp
def _(x, dx):
    root = safe_sqrt(x[0])
    return root, jnp.where(x[0] > 0, dx[0] / (2 * jnp.where(x[0] > 0, root, 1.0)), 0.0)


@jax.custom_vjp
def clipped_gradient(x):
    return x**2


clipped_gradient.defvjp(lambda x: (x**2, x), lambda x, g: (jnp.clip(2 * x * g, -1, 1),))


def test_derivatives_that_were_given_by_hand():
    x = np.array([0.0, 4.0, 9.0])
    assert_close(called(jax.grad(lambda x: safe_sqrt(x).sum()), x), np.array([0, 1 / 4, 1 / 6]))
    assert_close(called(jax.vmap(safe_sqrt), x), np.sqrt(x))
    slope = jax.grad(lambda x: clipped_gradient(x).sum())
    assert_close(called(slope, np.array([0.1, 3.0, -7.0])), np.array([0.2, 1.0, -1.0]))
    held = jax.grad(lambda x: (x * lax.stop_gradient(x)).sum())
    assert_close(called(held, x), x)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 21, 33, 40])
def test_linear_equations(n):
    rng = np.random.default_rng(n)
    A, b = rng.normal(size=(n, n)) + 3 * np.eye(n), rng.normal(size=n)

    def f(A, b):
        S = A @ A.T + jnp.eye(n)
        return jnp.linalg.solve(A, b), jnp.linalg.inv(A), jnp.linalg.cholesky(S), jnp.linalg.det(A)

    x, inverse, L, det = called(f, A, b)
    np.testing.assert_allclose(A @ x, b, atol=1e-10)
    np.testing.assert_allclose(A @ inverse, np.eye(n), atol=1e-10)
    np.testing.assert_allclose(L @ L.T, A @ A.T + np.eye(n), atol=1e-10)
    np.testing.assert_allclose(det, np.linalg.det(A), rtol=1e-10)
    assert_identical(np.triu(L, 1), np.zeros((n, n)))


@pytest.mark.parametrize("n", [1, 4, 12])
def test_derivatives_of_linear_equations(n):
    rng = np.random.default_rng(n)
    A, b = rng.normal(size=(n, n)) + 3 * np.eye(n), rng.normal(size=n)
    slope = jax.grad(lambda A, b: jnp.sum(jnp.linalg.solve(A, b) ** 2), argnums=(0, 1))
    assert_close(called(slope, A, b), jax.jit(slope)(A, b), rtol=1e-9)


def test_matrices_without_a_factor():
    """LU of a singular matrix is finite; there is no Cholesky factor of an indefinite one."""
    A = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    assert_close(called(lambda A: lax.linalg.lu(A), A), jax.jit(lax.linalg.lu)(A))
    zero = np.zeros((3, 3))
    assert_close(called(lambda A: lax.linalg.lu(A), zero), jax.jit(lax.linalg.lu)(zero))
    for S in (np.diag([1.0, -1.0, 1.0]), np.zeros((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]])):
        assert_equal(called(jnp.linalg.cholesky, S), jax.jit(jnp.linalg.cholesky)(S))


# -- what is left to XLA ------------------------------------------------------------------------


def left_to_xla(function, *args):
    """The result, and why XLA computed it."""
    before = len(counts.left_to_xla)
    out = native(function)(*args)
    reasons = counts.left_to_xla[before:]
    assert len(reasons) == 1
    return out, reasons[0][1]


def test_primitives_without_a_rule_are_left_to_xla():
    x = np.arange(4.0)
    functions = {
        "complex": lambda x: jnp.fft.fft(x).real,
        "random": lambda x: x + jax.random.normal(jax.random.key(0), x.shape),
        "callback": lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((4,), float), x),
    }
    for name, function in functions.items():
        out, reason = left_to_xla(function, x)
        assert_close(out, jax.jit(function)(x))
        assert type(out) is np.ndarray
        assert name in reason


def test_numbers_of_other_types_are_left_to_xla():
    out, reason = left_to_xla(lambda x: x * 1j, np.arange(3.0))
    assert_equal(out, 1j * np.arange(3.0))
    assert "complex" in reason


def test_programs_that_are_too_long_are_left_to_xla(monkeypatch):
    monkeypatch.setattr(lowering, "MOST", 50)
    out, reason = left_to_xla(lambda x: jnp.outer(x, x) + 1, np.arange(7.0))
    assert_equal(out, np.outer(np.arange(7.0), np.arange(7.0)) + 1)
    assert "operations" in reason


def test_programs_with_effects_are_left_to_xla():
    """Also if nothing of what is returned depends on them."""
    seen = []

    def f(x):
        jax.debug.callback(seen.append, x)
        return x + 1

    out, _ = left_to_xla(f, 2.0)
    jax.effects_barrier()
    assert out == 3 and seen == [2.0]


def test_without_llvm_all_is_left_to_xla_with_one_warning(monkeypatch):
    monkeypatch.setattr(machine, "binding", lambda: None)
    monkeypatch.setattr(sys.modules["holonax.compiler.native"], "_warned", [])
    with pytest.warns(UserWarning, match="llvmlite") as caught:
        for function in (jnp.sin, jnp.cos):
            out, reason = left_to_xla(function, np.arange(3.0))
            assert_close(out, function(np.arange(3.0)))
            assert "llvmlite" in reason
    assert len(caught) == 1


# -- how it is called ------------------------------------------------------------------------------


def test_results_are_arrays_of_numpy_in_double_precision():
    @native
    def f(x, options):
        return {"sum": x.sum() + options["a"], "pair": (x * 2, None), "known": 1.5}

    out = f(np.arange(3.0), {"a": 2})
    assert type(out["sum"]) is np.ndarray and out["sum"].dtype == np.float64
    assert out["sum"] == 5 and out["pair"][1] is None and out["known"] == 1.5
    assert_identical(out["pair"][0], np.array([0.0, 2.0, 4.0]))


def test_arguments_may_be_numbers_lists_arrays_of_jax_and_not_contiguous():
    f = native(lambda x: x * 2)
    A = np.arange(12.0).reshape(3, 4)
    for x in (A.T, A[:, ::2], jnp.asarray(A), np.asfortranarray(A)):
        assert_identical(f(x), 2 * np.asarray(x))
    assert f(3) == 6
    assert called(lambda pair: pair[0] - pair[1], [5.0, np.arange(2)])[1] == 4


def test_traced_it_is_the_function():
    def f(x, k):
        return jnp.sin(x) * x + k

    g = native(f, static=(1,))
    x = np.array([0.3, 0.7])
    before = counts.compiled
    assert_close(np.asarray(jax.jit(lambda x: g(x, 2))(x)), np.asarray(f(x, 2)))
    assert_close(
        np.asarray(jax.grad(lambda x: g(x, 2).sum())(x)),
        np.asarray(jax.grad(lambda x: f(x, 2).sum())(x)),
    )
    assert_close(np.asarray(jax.vmap(lambda x: g(x, 2))(x)), np.asarray(f(x, 2)))
    assert counts.compiled == before
    assert_close(g(x, 2), np.asarray(f(x, 2)))
    assert_close(g(x, 3), np.asarray(f(x, 3)))


def test_threads_do_not_disturb_one_another():
    @native
    def f(x, n):
        return lax.fori_loop(0, n, lambda k, y: jnp.flip(y) * 1.5 - y.at[k % 7].get(), x)

    args = [(np.arange(2000.0) + k, 20) for k in range(4)]
    alone = [f(*x) for x in args]
    wrong = []

    def work(k):
        for _ in range(50):
            if not identical(f(*args[k]), alone[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_sizes_of_a_scan_are_those_of_any_version_of_jax():
    def scanned(a, b, rows):
        return lax.scan(lambda c, x: ((c[0] + a * x, c[1] * b), c[0]), (a, b), rows)

    closed = jax.make_jaxpr(scanned)(1.0, 2.0, jnp.ones(3))
    (scan,) = (eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name == "scan")
    assert scan_sizes(scan.params) == (2, 2)

    class Inputs:
        """Those of JAX 0.11: a tree that is taken apart."""

        def unpack(self):
            return (None, None), (None,), ()

    assert scan_sizes({"ft_in": Inputs()}) == (2, 1)
