"""Functions of mathematics in LLVM's language, for vectors and for machines without a library.

Each is written without branches, so that it is the same for one number and for many side by side.
The methods are those of fdlibm (Sun Microsystems 1993) and Cephes (Moshier 1992), with products and
sums fused where that keeps an error from being made. Results are within 2 units in the last place;
those of sin and cos that are next to zero, within 1e-32 |x|.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

# pi/2, ln 2 in parts, each the rounding error of those before
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_LN2 = (0.693147180369123816490, 1.90821492927058770002e-10)
_SIN = (
    *(-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04),
    *(2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10),
)
_COS = (
    *(4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05),
    *(-2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11),
)
_LOG = (
    *(6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01),
    *(2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01),
    1.479819860511658591e-01,
)
_TANH = (
    (-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1),
    (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0),
)
_ATAN = (
    (
        *(-6.485021904942025371773e1, -1.228866684490136173410e2, -7.500855792314704667340e1),
        *(-1.615753718733365076637e1, -8.750608600031904122785e-1),
    ),
    (
        *(1.945506571482613964425e2, 4.853903996359136964868e2, 4.328810604912902668951e2),
        *(1.650270098316988542046e2, 2.485846490142306297962e1, 1.0),
    ),
)
_ROUND = 1.5 * 2**52
_LONGEST_EXP, _SHORTEST_EXP = 709.782712893384, -745.2


def _hex(x: float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"


class FunctionText:
    """A function that is being written, for `lanes` numbers side by side, or for one (0)."""

    def __init__(self, name: str, arguments: int, lanes: int):
        self.lanes = lanes
        wide = lambda kind: f"<{lanes} x {kind}>" if lanes else kind  # noqa: E731
        self.real, self.whole, self.truth = wide("double"), wide("i64"), wide("i1")
        self._end = f"v{lanes}" if lanes else ""
        self.name, self.args = f"@hx.{name}", [f"%x{k}" for k in range(arguments)]
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self._n = 0

    def value(self, text: str) -> str:
        self._n += 1
        self.lines.append(f"  %t{self._n} = {text}")
        return f"%t{self._n}"

    def number(self, x: float) -> str:
        return f"splat (double {_hex(x)})" if self.lanes else _hex(x)

    def count(self, n: int) -> str:
        return f"splat (i64 {n})" if self.lanes else str(n)

    def _of(self, x: str | float) -> str:
        return x if isinstance(x, str) else self.number(x)

    def _binary(self, op: str, a: str | float, b: str | float) -> str:
        return self.value(f"{op} {self.real} {self._of(a)}, {self._of(b)}")

    def add(self, a: str | float, b: str | float) -> str:
        return self._binary("fadd", a, b)

    def sub(self, a: str | float, b: str | float) -> str:
        return self._binary("fsub", a, b)

    def mul(self, a: str | float, b: str | float) -> str:
        return self._binary("fmul", a, b)

    def div(self, a: str | float, b: str | float) -> str:
        return self._binary("fdiv", a, b)

    def neg(self, a: str) -> str:
        return self.value(f"fneg {self.real} {a}")

    def library(self, name: str, *args: str | float) -> str:
        """A function that is an instruction: fma, fabs, rint, floor, sqrt, copysign."""
        full = f"@llvm.{name}.{self._end}f64"
        types = ", ".join([self.real] * len(args))
        self.declared.add(f"declare {self.real} {full}({types}) nounwind willreturn memory(none)")
        given = ", ".join(f"{self.real} {self._of(x)}" for x in args)
        return self.value(f"call {self.real} {full}({given})")

    def fma(self, a: str | float, b: str | float, c: str | float) -> str:
        return self.library("fma", a, b, c)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """The sum of c[k] x^k."""
        out: str | float = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            out = self.fma(x, out, c)
        return self._of(out)

    def compare(self, how: str, a: str | float, b: str | float) -> str:
        return self.value(f"fcmp {how} {self.real} {self._of(a)}, {self._of(b)}")

    def select(self, which: str, yes: str | float, no: str | float) -> str:
        return self.value(
            f"select {self.truth} {which}, {self.real} {self._of(yes)}, {self.real} {self._of(no)}"
        )

    def both(self, a: str, b: str, how: str = "and") -> str:
        return self.value(f"{how} {self.truth} {a}, {b}")

    def power_of_two(self, k: str) -> str:
        """2^k, for a whole number k between -1022 and 1023."""
        n = self.value(f"fptosi {self.real} {k} to {self.whole}")
        n = self.value(f"add {self.whole} {n}, {self.count(1023)}")
        n = self.value(f"shl {self.whole} {n}, {self.count(52)}")
        return self.value(f"bitcast {self.whole} {n} to {self.real}")

    def odd(self, n: str) -> str:
        """Whether a whole number is odd."""
        last = self.value(f"and {self.whole} {n}, {self.count(1)}")
        return self.value(f"icmp ne {self.whole} {last}, {self.count(0)}")

    def turned(self, x: str, n: str) -> str:
        """x, with its sign changed where the second bit of the whole number n is set."""
        sign = self.value(f"shl {self.whole} {n}, {self.count(62)}")
        sign = self.value(f"and {self.whole} {sign}, {self.count(-(2**63))}")
        bits = self.value(f"bitcast {self.real} {x} to {self.whole}")
        bits = self.value(f"xor {self.whole} {bits}, {sign}")
        return self.value(f"bitcast {self.whole} {bits} to {self.real}")

    def function(self, *results: str) -> str:
        """The whole function, which returns these."""
        kind = self.real if len(results) == 1 else f"{{ {', '.join([self.real] * len(results))} }}"
        out = results[0]
        if len(results) > 1:
            out = "poison"
            for k, x in enumerate(results):
                out = self.value(f"insertvalue {kind} {out}, {self.real} {x}, {k}")
        head = ", ".join(f"{self.real} {x}" for x in self.args)
        start = f"define internal {kind} {self.name}({head}) nounwind memory(none) willreturn"
        return "\n".join([f"{start} {{", *self.lines, f"  ret {kind} {out}", "}"])


def _sincos(f: FunctionText, closely: bool = False) -> tuple[str, ...]:
    """(sin, cos) for |x| below 2^45; `closely`, to less than one unit in the last place."""
    (x,) = f.args
    # a number so large that its last bit is worth one
    shifted = f.fma(x, 2 / math.pi, _ROUND)
    quarter = f.value(f"bitcast {f.real} {shifted} to {f.whole}")
    back = f.neg(f.sub(shifted, _ROUND))
    # x - k pi/2: the first difference is exact
    d = f.fma(back, _HALF_PI[0], x)
    r = f.fma(back, _HALF_PI[1], d)
    z = f.mul(r, r)
    w = f.fma(z, -0.5, 1.0)
    square = f.mul(z, z)
    of_sine, of_cosine = f.polynomial(z, _SIN), f.polynomial(z, _COS)
    if closely:
        tail = f.fma(back, _HALF_PI[1], f.sub(d, r))
        lost = f.fma(f.neg(r), tail, f.fma(z, -0.5, f.sub(1.0, w)))
        sine = f.add(r, f.fma(f.mul(r, z), of_sine, f.mul(tail, w)))
        cosine = f.add(w, f.fma(square, of_cosine, lost))
    else:
        sine, cosine = f.mul(r, f.fma(z, of_sine, 1.0)), f.fma(square, of_cosine, w)
    odd = f.odd(quarter)
    sin, cos = f.select(odd, cosine, sine), f.select(odd, sine, cosine)
    following = f.value(f"add {f.whole} {quarter}, {f.count(1)}")
    return f.turned(sin, quarter), f.turned(cos, following)


def _exp_of(f: FunctionText, x: str, more: str | None = None) -> str:
    """exp(x + more), `more` being far smaller than x."""
    k = f.library("rint", f.mul(x, 1 / math.log(2)))
    above, below = f.compare("ogt", k, 1100.0), f.compare("olt", k, -1100.0)
    k = f.select(above, 1100.0, f.select(below, -1100.0, k))
    r = f.fma(f.neg(k), _LN2[1], f.fma(f.neg(k), _LN2[0], x))
    if more is not None:
        r = f.add(r, more)
    terms = [1 / math.factorial(n) for n in range(2, 14)]
    value = f.add(1.0, f.fma(f.mul(r, r), f.polynomial(r, terms), r))
    first = f.library("floor", f.mul(k, 0.5))
    value = f.mul(f.mul(value, f.power_of_two(first)), f.power_of_two(f.sub(k, first)))
    value = f.select(f.compare("ogt", x, _LONGEST_EXP), math.inf, value)
    return f.select(f.compare("olt", x, _SHORTEST_EXP), 0.0, value)


def _exp(f: FunctionText) -> tuple[str, ...]:
    return (_exp_of(f, f.args[0]),)


def _split(f: FunctionText, x: str) -> tuple[str, str]:
    """m between sqrt(1/2) and sqrt(2), and k, of a positive x = m 2^k."""
    tiny = f.compare("olt", x, 2.2250738585072014e-308)
    x = f.select(tiny, f.mul(x, 2.0**54), x)
    bits = f.value(f"bitcast {f.real} {x} to {f.whole}")
    offset = f.count(0x3FE6A09E667F3BCD)  # sqrt(1/2)
    over = f.value(f"sub {f.whole} {bits}, {offset}")
    k = f.value(f"ashr {f.whole} {over}, {f.count(52)}")
    m = f.value(f"sub {f.whole} {bits}, {f.value(f'shl {f.whole} {k}, {f.count(52)}')}")
    exponent = f.value(f"sitofp {f.whole} {k} to {f.real}")
    exponent = f.select(tiny, f.sub(exponent, 54.0), exponent)
    return f.value(f"bitcast {f.whole} {m} to {f.real}"), exponent


def _log_parts(f: FunctionText, x: str) -> tuple[str, str]:
    """log x of a positive number as high + low."""
    m, k = _split(f, x)
    g = f.sub(m, 1.0)
    d = f.add(m, 1.0)
    d_low = f.sub(m, f.sub(d, 1.0))
    s = f.div(g, d)
    left = f.sub(f.fma(f.neg(s), d, g), f.mul(s, d_low))
    s_low = f.div(left, d)
    z = f.mul(s, s)
    rest = f.mul(f.mul(s, z), f.polynomial(z, _LOG))  # log m = 2 s + s z (2/3 + 2/5 z + ...)
    twice = f.mul(2.0, s)
    base = f.mul(k, _LN2[0])  # exact
    high = f.add(base, twice)
    # the larger of the two comes first in the error of their sum
    swapped = f.compare("oeq", k, 0.0)
    one, two = f.select(swapped, twice, base), f.select(swapped, base, twice)
    error = f.sub(two, f.sub(high, one))
    low = f.add(error, f.fma(2.0, s_low, f.fma(k, _LN2[1], rest)))
    total = f.add(high, low)
    return total, f.sub(low, f.sub(total, high))


def _log(f: FunctionText) -> tuple[str, ...]:
    (x,) = f.args
    value = _log_parts(f, x)[0]
    value = f.select(f.compare("oeq", x, math.inf), x, value)
    value = f.select(f.compare("oeq", x, 0.0), -math.inf, value)
    return (f.select(f.compare("ult", x, 0.0), math.nan, value),)


def _pow(f: FunctionText) -> tuple[str, ...]:
    x, y = f.args
    size = f.library("fabs", x)
    high, low = _log_parts(f, size)
    zero, endless = f.compare("oeq", size, 0.0), f.compare("oeq", size, math.inf)
    high = f.select(zero, -math.inf, f.select(endless, math.inf, high))
    low = f.select(f.both(zero, endless, "or"), 0.0, low)
    p = f.mul(y, high)
    more = f.fma(y, low, f.fma(y, high, f.neg(p)))
    fine = f.compare("olt", f.library("fabs", p), 800.0)
    value = _exp_of(f, p, f.select(fine, more, 0.0))
    whole = f.compare("oeq", f.library("floor", y), y)
    half = f.mul(y, 0.5)
    odd = f.both(whole, f.compare("une", f.library("floor", half), half))
    below = f.compare("olt", x, 0.0)
    minus = f.compare("olt", f.library("copysign", 1.0, x), 0.0)
    value = f.select(f.both(minus, odd), f.neg(value), value)
    broken = f.both(below, f.compare("une", f.library("floor", y), y))
    finite = f.compare("olt", size, math.inf)
    value = f.select(f.both(broken, finite), math.nan, value)
    value = f.select(f.compare("uno", x, y), math.nan, value)
    flat = f.both(f.compare("oeq", size, 1.0), f.compare("oeq", f.library("fabs", y), math.inf))
    value = f.select(flat, 1.0, value)
    one = f.both(f.compare("oeq", y, 0.0), f.compare("oeq", x, 1.0), "or")
    return (f.select(one, 1.0, value),)


def _tanh(f: FunctionText) -> tuple[str, ...]:
    (x,) = f.args
    size = f.library("fabs", x)
    z = f.mul(x, x)
    ratio = f.div(f.polynomial(z, _TANH[0]), f.polynomial(z, _TANH[1]))
    near = f.fma(f.mul(x, z), ratio, x)
    e = _exp_of(f, f.mul(2.0, size))
    far = f.sub(1.0, f.div(2.0, f.add(e, 1.0)))
    value = f.select(f.compare("olt", size, 0.625), near, far)
    return (f.library("copysign", value, x),)


def _arc(f: FunctionText, x: str) -> str:
    """atan of a number that is not negative."""
    steep, middle = f.compare("ogt", x, 1 + math.sqrt(2)), f.compare("ogt", x, 0.66)
    top = f.select(steep, -1.0, f.select(middle, f.sub(x, 1.0), x))
    bottom = f.select(steep, x, f.select(middle, f.add(x, 1.0), 1.0))
    t = f.div(top, bottom)
    z = f.mul(t, t)
    ratio = f.div(f.polynomial(z, _ATAN[0]), f.polynomial(z, _ATAN[1]))
    low = f.select(steep, _HALF_PI[1], f.select(middle, _HALF_PI[1] / 2, 0.0))
    value = f.add(f.fma(f.mul(t, z), ratio, low), t)
    return f.add(f.select(steep, _HALF_PI[0], f.select(middle, _HALF_PI[0] / 2, 0.0)), value)


def _atan(f: FunctionText) -> tuple[str, ...]:
    (x,) = f.args
    return (f.library("copysign", _arc(f, f.library("fabs", x)), x),)


def _atan2_of(f: FunctionText, y: str, x: str) -> str:
    up, across = f.library("fabs", y), f.library("fabs", x)
    endless = f.both(f.compare("oeq", up, math.inf), f.compare("oeq", across, math.inf))
    nothing = f.both(f.compare("oeq", up, 0.0), f.compare("oeq", across, 0.0))
    ratio = f.select(endless, 1.0, f.select(nothing, 0.0, f.div(up, across)))
    angle = _arc(f, ratio)
    # by its sign bit, so that -0 is on the left
    left = f.compare("olt", f.library("copysign", 1.0, x), 0.0)
    other = f.add(f.sub(math.pi, angle), 2 * _HALF_PI[1])
    return f.library("copysign", f.select(left, other, angle), y)


def _atan2(f: FunctionText) -> tuple[str, ...]:
    y, x = f.args
    value = _atan2_of(f, y, x)
    return (f.select(f.compare("uno", x, y), math.nan, value),)


def _beside(f: FunctionText, x: str) -> str:
    """sqrt(1 - x^2)."""
    return f.library("sqrt", f.mul(f.sub(1.0, x), f.add(1.0, x)))


def _asin(f: FunctionText) -> tuple[str, ...]:
    (x,) = f.args
    other = _beside(f, x)
    return (f.select(f.compare("uno", other, x), math.nan, _atan2_of(f, x, other)),)


def _acos(f: FunctionText) -> tuple[str, ...]:
    (x,) = f.args
    other = _beside(f, x)
    return (f.select(f.compare("uno", other, x), math.nan, _atan2_of(f, other, x)),)


def _tan(f: FunctionText) -> tuple[str, ...]:
    (x,) = f.args
    sine, cosine = _sincos(f, closely=True)
    return (f.select(f.compare("oeq", x, 0.0), x, f.div(sine, cosine)),)  # -0 stays what it is


MAKERS: dict[str, tuple[int, Callable[[FunctionText], tuple[str, ...]]]] = {
    "sincos": (1, _sincos),
    "exp": (1, _exp),
    "log": (1, _log),
    "pow": (2, _pow),
    "tanh": (1, _tanh),
    "atan": (1, _atan),
    "atan2": (2, _atan2),
    "asin": (1, _asin),
    "acos": (1, _acos),
    "tan": (1, _tan),
}


_LARGE = 2.0**45  # from which angle on sincos is not good enough


def sincos_of_any(lanes: int) -> tuple[str, set[str]]:
    """(sin, cos) in vectors for angles of any size, and what is declared for it: where one of a
    vector is large, by the system's library."""
    real = f"<{lanes} x double>"
    pair, reduce = f"{{ {real}, {real} }}", f"llvm.vector.reduce.or.v{lanes}i1"
    lines = [
        f"define internal {pair} @hx.sincos_of_any({real} %x) nounwind memory(none) willreturn {{",
        f"  %size = call {real} @llvm.fabs.v{lanes}f64({real} %x)",
        f"  %large = fcmp oge {real} %size, splat (double {_hex(_LARGE)})",
        f"  %some = call i1 @{reduce}(<{lanes} x i1> %large)",
        "  br i1 %some, label %by_library, label %here",
        "here:",
        f"  %found = call {pair} @hx.sincos({real} %x)",
        f"  ret {pair} %found",
        "by_library:",
    ]
    made = []
    for name in ("sin", "cos"):
        out = "poison"
        for k in range(lanes):
            lines += [
                f"  %x.{name}{k} = extractelement {real} %x, i64 {k}",
                f"  %{name}{k} = call double @{name}(double %x.{name}{k})",
                f"  %to.{name}{k} = insertelement {real} {out}, double %{name}{k}, i64 {k}",
            ]
            out = f"%to.{name}{k}"
        made.append(out)
    lines += [
        f"  %one = insertvalue {pair} poison, {real} {made[0]}, 0",
        f"  %both = insertvalue {pair} %one, {real} {made[1]}, 1",
        f"  ret {pair} %both",
        "}",
    ]
    known = "nounwind willreturn memory(none)"
    declared = {f"declare double @{name}(double) {known}" for name in ("sin", "cos")}
    declared |= {
        f"declare {real} @llvm.fabs.v{lanes}f64({real}) {known}",
        f"declare i1 @{reduce}(<{lanes} x i1>) {known}",
    }
    return "\n".join(lines), declared


def text(names: set[str], lanes: int) -> tuple[list[str], set[str]]:
    """The functions of these names, and what has to be declared for them."""
    found, declared = [], set()
    for name in sorted(names):
        count, make = MAKERS[name]
        f = FunctionText(name, count, lanes)
        found.append(f.function(*make(f)))
        declared |= f.declared
    return found, declared
