"""Solutions much more accurate than any measured one, computed once and kept in `build/`.

The slider-crank in its one degree of freedom by extrapolation (Gragg, Bulirsch, Stoer) in extended
precision; the chain as a planar chain in its angles by DOP853; the row of four-bars in its one
degree of freedom. Net and tree, for which no reduced form is at hand, by holonax with a method
other than the measured one and half the step: that peers agree with it is seen in their errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

BUILD = Path(__file__).parent / "build"


@functools.cache
def reference(name: str) -> Any:
    """The reference of a work: an array, or a number."""
    path = BUILD / f"reference {name}.npy"
    if not path.exists():
        BUILD.mkdir(exist_ok=True)
        np.save(path, _compute(name))
    return np.load(path)


def _compute(name: str) -> Any:
    kind, _, size = name.partition(" ")
    if kind == "slider-crank":
        return slider_crank_angles()
    number = int(size.partition("=")[2] or size.partition("x")[0])
    if kind == "chain":
        return chain_end(number, 1.0 if number < 1000 else 0.1)
    if kind == "n-four-bar":
        return four_bar_angle(number)
    return rods_end(kind, number)


def _extrapolated_step(
    f: Callable[[np.ndarray], np.ndarray], y: np.ndarray, h: Any, columns: int
) -> np.ndarray:
    """One step of order 2 `columns` for y' = f(y): midpoint rules extrapolated to step zero."""
    counts = [2 * (i + 1) for i in range(columns)]
    row: list[np.ndarray] = []
    for i, count in enumerate(counts):
        small = h / count
        before, now = y, y + small * f(y)
        for _ in range(1, count):
            before, now = now, before + 2 * small * f(now)
        previous, row = row, [(before + now + small * f(now)) / 2]
        for m in range(1, i + 1):
            ratio = (np.longdouble(count) / np.longdouble(counts[i - m])) ** 2
            row.append(row[m - 1] + (row[m - 1] - previous[m - 1]) / (ratio - 1))
    return row[-1]


def slider_crank_angles() -> np.ndarray:
    """The crank's angle at 1001 times from 0 to 10 s."""
    number = np.longdouble
    crank, rod, offset = number(3) / 10, number(5) / 10, number(3) / 10
    crank_inertia, rod_inertia, gravity = number(45) / 1000, number(33) / 4800, number(10)
    k = crank / rod

    def motion(y: np.ndarray) -> np.ndarray:
        """(angle, rate)' with the rod's angle phi and centre (x, y) as functions of the crank's."""
        s, c = np.sin(y[0]), np.cos(y[0])
        sin_phi = -k * s
        cos_phi = np.sqrt(1 - sin_phi**2)
        phi1 = -k * c / cos_phi
        phi2 = (k * s + sin_phi * phi1**2) / cos_phi
        x1 = -crank * s - offset * sin_phi * phi1
        x2 = -crank * c - offset * (cos_phi * phi1**2 + sin_phi * phi2)
        y1 = -(rod - offset) * cos_phi * phi1
        y2 = -(rod - offset) * (cos_phi * phi2 - sin_phi * phi1**2)
        inertia = crank_inertia + rod_inertia * phi1**2 + x1**2 + y1**2
        change = rod_inertia * phi1 * phi2 + x1 * x2 + y1 * y2
        return np.array([y[1], -(change * y[1] ** 2 + gravity * y1) / inertia])

    state = np.array([number(0.9851), number(0)])
    angles = [state[0]]
    for _ in range(1000):
        state = _extrapolated_step(motion, state, number(10) / 1000, 9)
        angles.append(state[0])
    return np.array(angles, dtype=float)


def _chain_accelerations(angles: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Of a planar chain in absolute angles, by the block-tridiagonal equations of joint forces.

    With the normal n of each rod, a force f_i on its near and -f_(i+1) on its far end, the ends
    accelerate by  S f_i + C f_(i+1)  and  -C f_i - S f_(i+1)  beside gravity and rotation.
    """
    from scipy.linalg import solve_banded

    n, half = len(angles), 0.5
    inertia, gravity = (1.0 + 0.1**2) / 12, np.array([0.0, -9.81])
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    normal = np.stack([-np.sin(angles), np.cos(angles)], axis=1)
    lever = half**2 / inertia * normal[:, :, None] * normal[:, None, :]
    same, cross = np.eye(2) + lever, lever - np.eye(2)
    turning = half * along * (rates**2)[:, None]
    near, far = gravity + turning, gravity - turning
    diagonal, right = same.copy(), -near
    diagonal[1:] += same[:-1]
    right[1:] += far[:-1]
    bands = np.zeros((7, 2 * n))
    for a in range(2):
        for b in range(2):
            bands[3 + a - b, b::2] = diagonal[:, a, b]
            bands[1 + a - b, 2 + b :: 2] = cross[:-1, a, b]
            bands[5 + a - b, b : 2 * n - 2 : 2] = cross[:-1, a, b]
    force = solve_banded((3, 3), bands, right.ravel()).reshape(n, 2)
    force[:-1] += force[1:].copy()
    return -half / inertia * np.sum(normal * force, axis=1)


def chain_end(n: int, t_end: float) -> np.ndarray:
    """(x, y, z) of the free end of the chain of `n` rods."""
    from scipy.integrate import solve_ivp

    def motion(t: float, y: np.ndarray) -> np.ndarray:
        return np.concatenate([y[n:], _chain_accelerations(y[:n], y[n:])])

    tolerance = 1e-13 if n < 1000 else 1e-11
    solution = solve_ivp(
        motion, (0, t_end), np.zeros(2 * n), "DOP853", [t_end], rtol=tolerance, atol=tolerance
    )
    angles = solution.y[:n, -1]
    return np.array([np.cos(angles).sum(), 0.0, np.sin(angles).sum()])


def four_bar_angle(n: int) -> float:
    """The cranks' angle at 0.2 s: n + 1 rods about their ends, and n that only translate."""
    from scipy.integrate import solve_ivp

    inertia = (n + 1) / 3 + n
    weight = (n + 1) * 9.81 / 2 + n * 9.81
    solution = solve_ivp(
        lambda t, y: [y[1], -weight * np.cos(y[0]) / inertia],
        (0, 0.2),
        [np.pi / 2, -1.0],
        "DOP853",
        rtol=1e-13,
        atol=1e-13,
    )
    return float(solution.y[0, -1])


def rods_end(kind: str, size: int) -> np.ndarray:
    """(x, y, z) of the last rod's far end, by RK4 with projection at half a millisecond."""
    import holonax as hx

    from . import problems
    from .ours import build_rods, far_end

    rods = {"net": problems.net, "tree": problems.tree}[kind](size)
    system, start = build_rods(rods)
    result = hx.simulate(
        system,
        start,
        rods.t_end,
        dt=0.5 * problems.STEP,
        formulation=hx.PostStabilized("both", passes=2),
        integrator=hx.RK4(),
        save="end",
    )
    return far_end(rods, result)
