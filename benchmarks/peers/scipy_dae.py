"""scipy-dae: Radau IIA on the GGL form; index 3 fails there at tight tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy_dae.integrate import solve_dae

from ..measure import Recorder, tool_main, version_of
from .equations import MECHANISMS, Equations, absolute_tolerances


def measure(recorder: Recorder, equations: Equations) -> None:
    """Work-precision curve, of compiled equations."""
    p = equations

    def residual(t: float, y: np.ndarray, yp: np.ndarray) -> np.ndarray:
        out = np.empty_like(y)
        p.residual(t, y, yp, out)
        return out

    def run(tolerance: float, times: Any = (0.0, p.t_end)) -> np.ndarray:
        solution = solve_dae(
            residual,
            (0.0, p.t_end),
            p.y0,
            p.yp0,
            method="Radau",
            t_eval=np.asarray(times),
            rtol=tolerance,
            atol=absolute_tolerances(p, tolerance),
        )
        if not solution.success:
            raise RuntimeError(solution.message)
        return solution.y.T

    sampled = None if p.times is None else lambda x: run(x, times=p.times)
    tolerances = (1e-3, 1e-5, 1e-7, 1e-9, 1e-11)
    recorder.curve("Radau, GGL", "rtol", tolerances, run, p.error, sampled=sampled)


WORKS = {name: lambda r, make=make: measure(r, make()) for name, make in MECHANISMS.items()}


if __name__ == "__main__":
    tool_main("scipy-dae", version_of("scipy-dae"), WORKS)
