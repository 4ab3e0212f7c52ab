"""SciPy's solvers of ordinary equations on the compiled equations of index 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from ..measure import Recorder, tool_main, version_of
from .equations import MECHANISMS, Equations


def measure(recorder: Recorder, equations: Equations) -> None:
    """Work-precision curves of its two fastest methods."""
    p, size = equations, 2 * equations.n

    def motion(t: float, y: np.ndarray) -> np.ndarray:
        out = np.empty(size)
        p.motion(t, y, out)
        return out

    def run(tolerance: float, method: str, times: Any = (p.t_end,)) -> np.ndarray:
        solution = solve_ivp(
            motion,
            (0.0, p.t_end),
            p.y0[:size],
            method,
            np.asarray(times),
            rtol=tolerance,
            atol=tolerance,
        )
        if not solution.success:
            raise RuntimeError(solution.message)
        return solution.y.T

    for method in ("LSODA", "DOP853"):
        once = lambda x, method=method: run(x, method)  # noqa: E731
        sampled = lambda x, method=method: run(x, method, p.times)  # noqa: E731
        recorder.curve(
            f"{method}, index 1",
            "rtol",
            (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12),
            once,
            p.error,
            sampled=None if p.times is None else sampled,
        )


WORKS = {name: lambda r, make=make: measure(r, make()) for name, make in MECHANISMS.items()}


if __name__ == "__main__":
    tool_main("SciPy", version_of("scipy"), WORKS)
