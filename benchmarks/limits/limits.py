"""The programs written by hand in C and C++: compiled here, called through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..measure import BUILD, Recorder, tool_main
from ..problems import NEWTON_TOLERANCE, RHO, STEP, Rods, SliderCrank, chain

# The last two were found fastest: GCC packs pairs of numbers where that costs more than it saves.
OPTIONS = ("-O3", "-march=native", "-fno-math-errno", "-fno-tree-slp-vectorize")
LIBRARY = ("-fPIC", "-shared")
GENERALIZED_ALPHA = f"generalized-alpha index 3, rho={RHO}"
PROJECTED_RK4 = "RK4 + projection (both, 2 passes)"

_real, _count = ctypes.c_double, ctypes.c_long
_vector = np.ctypeslib.ndpointer(dtype=float, flags="C_CONTIGUOUS")


def compiled(source: str, compiler: str, *more: str) -> ctypes.CDLL:
    """The program as a library, compiled for this machine."""
    if shutil.which(compiler) is None:
        raise RuntimeError(f"no compiler {compiler}")
    BUILD.mkdir(exist_ok=True)
    library = BUILD / f"{Path(source).stem}.so"
    path = Path(__file__).parent / source
    subprocess.run([compiler, *OPTIONS, *LIBRARY, *more, "-o", library, path, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def _newton(steps: int) -> Callable[[tuple[np.ndarray, int]], str]:
    return lambda result: f"{result[1] / steps:.2f} Newton iterations a step"


def slider_crank(recorder: Recorder) -> None:
    """Both methods; the error is that of the crank's angle at the end."""
    try:
        library = compiled("slider_crank.c", "cc")
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        recorder.missing("-O3 -march=native", "us_per_step", problem)
        return
    library.slider_crank_start.argtypes = [_vector] * 4
    library.slider_crank_rk4.argtypes = [_vector, _vector, _real, _count]
    alpha = library.slider_crank_generalized_alpha
    alpha.argtypes, alpha.restype = [_vector] * 4 + [_real, _count, _real, _real], _count
    steps = round(SliderCrank.t_end / STEP)

    def rk4() -> tuple[np.ndarray, int]:
        q, v = SliderCrank.q0.copy(), np.zeros(4)
        library.slider_crank_rk4(q, v, STEP, steps)
        return q, 0

    def generalized_alpha() -> tuple[np.ndarray, int]:
        q, v, a, multipliers = SliderCrank.q0.copy(), np.zeros(4), np.zeros(4), np.zeros(3)
        library.slider_crank_start(q, v, a, multipliers)
        return q, alpha(q, v, a, multipliers, STEP, steps, RHO, NEWTON_TOLERANCE)

    error = lambda result: SliderCrank.end_error(result[0][0])  # noqa: E731
    recorder.per_step(PROJECTED_RK4, steps, rk4, error)
    recorder.per_step(GENERALIZED_ALPHA, steps, generalized_alpha, error, note=_newton(steps))


def chain_of(recorder: Recorder, n: int) -> None:
    """Both methods; the error is that of the free end."""
    try:
        library = compiled("chain.cpp", "c++", "-std=c++17")
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        recorder.missing("-O3 -march=native", "us_per_step", problem)
        return
    rods, handle = chain(n), ctypes.c_void_p
    library.chain_new.argtypes, library.chain_new.restype = [ctypes.c_int] + [_real] * 4, handle
    library.chain_delete.argtypes = [handle]
    library.chain_rk4.argtypes = [handle, _vector, _vector, _real, _count]
    alpha = library.chain_generalized_alpha
    alpha.argtypes, alpha.restype = [handle, _vector, _vector, _real, _count, _real, _real], _count
    row = library.chain_new(n, Rods.mass, Rods.axial_inertia, Rods.transverse_inertia, Rods.gravity)

    def start() -> tuple[np.ndarray, np.ndarray]:
        q = np.zeros((n, 7))
        q[:, :3], q[:, 3] = rods.centres, 1.0
        return q, np.zeros((n, 6))

    def rk4() -> tuple[np.ndarray, int]:
        q, v = start()
        library.chain_rk4(row, q, v, STEP, rods.steps)
        return q, 0

    def generalized_alpha() -> tuple[np.ndarray, int]:
        q, v = start()
        return q, alpha(row, q, v, STEP, rods.steps, RHO, NEWTON_TOLERANCE)

    def error(result: tuple[np.ndarray, int]) -> float:
        x, y, z, e0, e1, e2, e3 = result[0][-1]
        along = (1 - 2 * (e2 * e2 + e3 * e3), 2 * (e1 * e2 + e0 * e3), 2 * (e1 * e3 - e0 * e2))
        return rods.error(np.array([x, y, z]) + 0.5 * rods.length * np.array(along))

    recorder.per_step(PROJECTED_RK4, rods.steps, rk4, error)
    recorder.per_step(
        GENERALIZED_ALPHA, rods.steps, generalized_alpha, error, note=_newton(rods.steps)
    )
    library.chain_delete(row)


WORKS: dict[str, Callable[[Recorder], None]] = {"slider-crank": slider_crank}
for _n in (10, 100, 1000):
    WORKS[f"chain N={_n}"] = lambda r, n=_n: chain_of(r, n)


if __name__ == "__main__":
    tool_main("by hand", " ".join(OPTIONS), WORKS)
