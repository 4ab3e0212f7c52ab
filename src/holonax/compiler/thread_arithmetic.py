"""Arithmetic of threads of a GPU, in LLVM's language.

A GPU divides and takes roots of doubles by subroutines that branch, and a program of many divisions
is cut into pieces between which nothing can be moved. Here both begin with the approximation that
the GPU has an instruction for, good to some 20 bits, and end after one step of third order,

    r (1 + e + e^2),  e = 1 - b r,        h (1 + e/2 + 3/8 e^2),  e = 1 - h y,  h = x y,

without a branch. What is divided by one number is multiplied by one inverse. Results are within 2
units in the last place; divisors below 2.2e-308 count as zero, above 4.4e307 as infinite.

The larger of two numbers that are not negative is found from their bits, which are in the order of
the numbers, with NaN above all: that leaves the unit of doubles, which is what such a program waits
for, to others.
"""

from __future__ import annotations

_HEAD = "nounwind memory(none) willreturn alwaysinline"

_INVERSE = f"""
define internal double @hx.inverse(double %b) {_HEAD} {{
  %r = call double @llvm.nvvm.rcp.approx.ftz.d(double %b)
  %n = fneg double %b
  %e = call double @llvm.fma.f64(double %n, double %r, double 1.0)
  %f = call double @llvm.fma.f64(double %e, double %e, double %e)
  %g = call double @llvm.fma.f64(double %r, double %f, double %r)
  %bits = bitcast double %r to i64
  %upper = lshr i64 %bits, 32
  %high = trunc i64 %upper to i32
  %next = add i32 %high, 1048576
  %exponent = and i32 %next, 2145386496
  %fine = icmp ne i32 %exponent, 0
  %out = select i1 %fine, double %g, double %r
  ret double %out
}}
"""

_ROOT = f"""
define internal double @hx.root(double %x) {_HEAD} {{
  %y = call double @llvm.nvvm.rsqrt.approx.ftz.d(double %x)
  %h = fmul double %x, %y
  %n = fneg double %h
  %e = call double @llvm.fma.f64(double %n, double %y, double 1.0)
  %f = call double @llvm.fma.f64(double %e, double 0.375, double 0.5)
  %g = fmul double %e, %f
  %s = call double @llvm.fma.f64(double %h, double %g, double %h)
  %m = fneg double %s
  %left = call double @llvm.fma.f64(double %m, double %s, double %x)
  %half = fmul double %y, 0.5
  %t = call double @llvm.fma.f64(double %left, double %half, double %s)
  %none = fcmp oeq double %x, 0.0
  %endless = fcmp oeq double %x, 0x7FF0000000000000
  %itself = or i1 %none, %endless
  %out = select i1 %itself, double %x, double %t
  ret double %out
}}
"""

_TEXTS = {"inverse": _INVERSE, "root": _ROOT}
_APPROXIMATE = {"inverse": "rcp", "root": "rsqrt"}


def text(names: set[str]) -> tuple[list[str], set[str]]:
    """The functions of these names, and what has to be declared for them."""
    pure = "nounwind willreturn memory(none)"
    declared = {
        f"declare double @llvm.nvvm.{_APPROXIMATE[name]}.approx.ftz.d(double) {pure}"
        for name in names
    }
    if names:
        declared.add(f"declare double @llvm.fma.f64(double, double, double) {pure}")
    return [_TEXTS[name] for name in sorted(names)], declared
