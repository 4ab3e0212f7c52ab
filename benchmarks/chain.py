"""Spatial chain of N boxes on spherical joints, RK4 with projection: cost per step and growth.

Run with `make bench`. Exudyn solves the same chain in the same run when it is installed, so that
the ratio says where the machine stands; times are CPU times of one core, best of several.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import holonax as hx

LENGTH, MASS, WIDTH, GRAVITY, STEP = 1.0, 1.0, 0.1, 9.81, 1e-3


def chain(n: int) -> tuple[Any, Any]:
    """N boxes of 1 m and 1 kg in a row, hanging from the first, released level."""
    model = hx.Model(gravity=(0, 0, -GRAVITY))
    previous = model.ground
    for i in range(n):
        link = model.body(
            f"link{i}", hx.box((LENGTH, WIDTH, WIDTH), mass=MASS), position=(i + 0.5, 0, 0)
        )
        model.spherical(f"ball{i}", previous, link, at=(i, 0, 0))
        previous = link
    return model.build()


def measure_holonax(n: int) -> dict[str, float]:
    """Microseconds per step of RK4 with two projection passes, and seconds to compile."""
    steps = max(10, min(1000, 100_000 // n))
    options: dict[str, Any] = {
        "formulation": hx.PostStabilized("both", passes=2),
        "integrator": hx.RK4(),
        "save": "end",
    }
    system, start = chain(n)
    begin = time.perf_counter()
    hx.simulate(system, start, STEP, dt=STEP, **options)
    compiled = time.perf_counter() - begin
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        result = hx.simulate(system, start, steps * STEP, dt=STEP, **options)
        best = min(best, time.process_time() - begin)
    assert result.success and max(result.drift()[0]) < 1e-10
    return {"us_per_step": best / steps * 1e6, "compile_s": compiled}


def measure_exudyn(n: int) -> float | None:
    """Microseconds per step of Exudyn's generalized-alpha at its best settings; None without it."""
    try:
        import exudyn as exu
        from exudyn.utilities import RigidBodyInertia
    except ImportError:
        return None
    import numpy as np

    container = exu.SystemContainer()
    system = container.AddSystem()
    inertia = RigidBodyInertia(
        mass=MASS,
        inertiaTensor=np.diag(
            [MASS * WIDTH**2 / 6, *[MASS * (LENGTH**2 + WIDTH**2) / 12] * 2],
        ),
    )
    previous = system.CreateGround()
    for i in range(n):
        body = system.CreateRigidBody(
            inertia=inertia,
            nodeType=exu.NodeType.RotationRotationVector,
            referencePosition=[i + 0.5, 0, 0],
            gravity=[0, 0, -GRAVITY],
        )
        system.CreateSphericalJoint(
            bodyNumbers=[previous, body], position=[i, 0, 0], useGlobalFrame=True
        )
        previous = body
    system.Assemble()
    steps = max(10, min(200, 20_000 // n))
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps = steps
    settings.timeIntegration.endTime = steps * STEP
    settings.timeIntegration.newton.useModifiedNewton = True
    settings.timeIntegration.generalizedAlpha.spectralRadius = 0.9
    settings.solutionSettings.writeSolutionToFile = False
    settings.displayStatistics = False
    settings.parallel.numberOfThreads = 1
    settings.linearSolverType = exu.LinearSolverType.EigenSparse
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        system.SolveDynamic(settings, showHints=False)
        best = min(best, time.process_time() - begin)
    return best / steps * 1e6


def main() -> None:
    """Print a table of costs and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[10, 100, 1000])
    sizes = parser.parse_args().sizes
    print(
        f"{'N':>6} {'holonax us/step':>16} {'growth':>7} {'compile s':>10} {'Exudyn us/step':>15}"
    )
    before: float | None = None
    for n in sizes:
        ours = measure_holonax(n)
        peer = measure_exudyn(n)
        growth = "" if before is None else f"{ours['us_per_step'] / before:.1f}x"
        against = "-" if peer is None else f"{peer:.0f} ({peer / ours['us_per_step']:.1f}x ours)"
        cost, compiling = ours["us_per_step"], ours["compile_s"]
        print(f"{n:>6} {cost:>16.1f} {growth:>7} {compiling:>10.1f} {against:>15}")
        before = ours["us_per_step"]


if __name__ == "__main__":
    main()
