"""SUNDIALS through scikit-sundae: CVODE on the equations of index 1, IDA on the GGL form.

The equations are compiled. CVODE with Adams' methods is the fastest of today's tools at tight
tolerances; IDA does best on the GGL form among those that keep the constraints.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sksundae.cvode import CVODE
from sksundae.ida import IDA

from ..measure import Recorder, tool_main, version_of
from .equations import MECHANISMS, Equations, absolute_tolerances


def checked(solution: Any) -> np.ndarray:
    """The states, if all went well."""
    if not solution.success:
        raise RuntimeError(solution.message)
    return solution.y


def measure(recorder: Recorder, equations: Equations) -> None:
    """Work-precision curves."""
    p, size = equations, 2 * equations.n
    # With two times every internal step would be returned: three ask for little.
    ends = np.array([0.0, 0.5 * p.t_end, p.t_end])

    def cvode(tolerance: float, times: np.ndarray = ends, method: str = "Adams") -> np.ndarray:
        solver = CVODE(p.motion, method=method, rtol=tolerance, atol=tolerance, max_num_steps=10**6)
        return checked(solver.solve(times, p.y0[:size]))

    def ida(tolerance: float, times: np.ndarray = ends) -> np.ndarray:
        solver = IDA(
            p.residual,
            rtol=tolerance,
            atol=absolute_tolerances(p, tolerance),
            algebraic_idx=list(range(size, p.y0.size)),
            max_num_steps=10**6,
        )
        return checked(solver.solve(times, p.y0, p.yp0))

    sampled = lambda run: None if p.times is None else lambda x: run(x, times=p.times)  # noqa: E731
    curves = (
        ("CVODE Adams, index 1", cvode, (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13)),
        ("IDA, GGL", ida, (1e-4, 1e-6, 1e-8, 1e-10, 1e-11, 1e-12)),
    )
    for variant, run, tolerances in curves:
        recorder.curve(variant, "rtol", tolerances, run, p.error, sampled=sampled(run))


WORKS = {name: lambda r, make=make: measure(r, make()) for name, make in MECHANISMS.items()}


if __name__ == "__main__":
    tool_main("SUNDIALS", version_of("scikit-sundae"), WORKS)
