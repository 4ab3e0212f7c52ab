"""Solutions much more accurate than any measured one, computed once and kept in `build/`.

The slider-crank in its one degree of freedom by extrapolation (Gragg, Bulirsch, Stoer) in extended
precision; the chain as a planar chain in its angles by DOP853; the row of four-bars and the spatial
slider-crank in their one degree of freedom, the gyroscope in its angles. Nets, trees, beams and
stiff chains, for which no reduced form is at hand, by holonax with a method other than the measured
one and half the step or less: that peers agree with it is seen in their errors.
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
    if kind == "spatial":
        return spatial_slider_place()
    if kind == "gyroscope":
        return gyroscope_axis()
    if kind == "beam":
        return beam_tip()
    if kind == "cable":
        return cable_places()
    number = int(size.partition("=")[2] or size.partition("x")[0])
    if kind == "chain":
        return chain_end(number, 1.0 if number < 1000 else 0.1)
    if kind == "stiff-chain":
        return stiff_chain_centres(number)
    if kind == "n-four-bar":
        return four_bar_angle(number)
    if kind == "beam-net":
        return beam_net_crossings(number)
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


def spatial_slider_place() -> float:
    """x of the slider at 5 s. Its energy is more than the crank needs anywhere to turn on, so its
    rate follows from its angle."""
    from scipy.integrate import solve_ivp

    def place(angle: Any) -> tuple[Any, Any, Any]:
        """Directions of the rod's axes, its centre, and the slider."""
        pin = np.array([0 * angle, 0.1 - 0.08 * np.sin(angle), 0.12 + 0.08 * np.cos(angle)])
        x = np.sqrt(0.3**2 - pin[1] ** 2 - pin[2] ** 2)
        end = np.array([x, 0 * x, 0 * x])
        along = (end - pin) / 0.3
        arm = np.array([0 * x, -along[2], along[1]]) / np.sqrt(along[1] ** 2 + along[2] ** 2)
        return np.stack([along, arm, np.cross(along, arm)], axis=1), (pin + end) / 2, x

    def seen_from_the_crank(angle: float) -> tuple[float, float]:
        """Moment of inertia, with derivatives by a step into the complex plane; potential."""
        rotation, centre, slider = place(angle + 1e-30j)
        turn, velocity, speed = (1e30 * np.imag(x) for x in (rotation, centre, slider))
        spin = np.real(rotation).T @ turn
        rod = 4e-4 * spin[2, 1] ** 2 + 4e-3 * (spin[0, 2] ** 2 + spin[1, 0] ** 2)
        inertia = 1e-4 + 0.5 * velocity @ velocity + 2.0 * speed**2 + rod
        return inertia, 0.5 * 9.81 * np.real(centre[2])

    inertia, potential = seen_from_the_crank(0.0)
    energy = 0.5 * inertia * 6.0**2 + potential

    def motion(t: float, y: np.ndarray) -> list[float]:
        inertia, potential = seen_from_the_crank(y[0])
        return [np.sqrt(2 * (energy - potential) / inertia)]

    solution = solve_ivp(motion, (0, 5.0), [0.0], "DOP853", rtol=1e-13, atol=1e-13)
    return float(place(solution.y[0, -1])[2])


def gyroscope_axis() -> np.ndarray:
    """The rotor's axis after 1 s: turned by `a` about z and by `b` out of the horizontal."""
    from scipy.integrate import solve_ivp

    from .problems import Gyroscope as g

    lever = g.rotor_mass * g.offset
    tilting = g.inner_inertia[0] + g.rotor_inertia[0] + lever * g.offset
    upright = g.inner_inertia[2] + g.rotor_inertia[2] + lever * g.offset
    momentum = g.rotor_inertia[1] * g.spin  # of the spin; that about z is zero, and both stay

    def motion(t: float, y: np.ndarray) -> list[float]:
        s, c = np.sin(y[1]), np.cos(y[1])
        about_z = g.outer_inertia[2] + g.inner_inertia[1] * s**2 + upright * c**2
        turn = -momentum * s / about_z
        coupling = turn * s * (g.inner_inertia[1] - upright)
        return [turn, y[2], c * (turn * (coupling + momentum) - lever * g.gravity) / tilting]

    solution = solve_ivp(motion, (0, g.t_end), np.zeros(3), "DOP853", rtol=1e-13, atol=1e-13)
    a, b = solution.y[:2, -1]
    return np.array([-np.sin(a) * np.cos(b), np.cos(a) * np.cos(b), np.sin(b)])


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


def stiff_chain_centres(n: int) -> np.ndarray:
    """Of the first rods, by Radau IIA on index 3 at a quarter of a millisecond."""
    import holonax as hx

    from .ours import build_stiff_chain, stiff_chain_places
    from .problems import StiffChain

    system, start = build_stiff_chain(n)
    pair = {"formulation": hx.Index3(), "integrator": hx.RadauIIA()}
    result = hx.simulate(system, start, StiffChain.t_end, dt=2.5e-4, save="end", **pair)
    return stiff_chain_places(result)


def beam_tip() -> np.ndarray:
    """(x, y, z) of the beam's tip."""
    from .ours import build_beam
    from .problems import Beam

    tip = lambda n, result: np.asarray(result["beam.end"].position)[-1]  # noqa: E731
    return _of_more_elements(build_beam, 64, Beam.t_end, tip)


def cable_places() -> np.ndarray:
    """(x, y, z) of places along the line."""
    from .ours import build_cable, line_places
    from .problems import Cable

    return _of_more_elements(build_cable, 500, Cable.t_end, line_places)


def beam_net_crossings(n: int) -> np.ndarray:
    """(x, y, z) of the crossings of a net, with two and four elements between them."""
    from .ours import build_beam_net, crossings
    from .problems import BeamNet

    build = lambda between: build_beam_net(n, between)  # noqa: E731
    found = lambda between, result: crossings(n, result, between)  # noqa: E731
    return _of_more_elements(build, 2, BeamNet.t_end, found)


def _of_more_elements(
    build: Callable[[int], Any], n: int, t_end: float, found: Callable[[int, Any], np.ndarray]
) -> np.ndarray:
    """By Radau IIA at half a millisecond, extrapolated from n and 2 n elements, whose error falls
    with the square of their length."""
    import holonax as hx

    from .problems import STEP

    method: Any = {"formulation": hx.Index3(), "integrator": hx.RadauIIA(2), "dt": 0.5 * STEP}
    places = []
    for elements in (n, 2 * n):
        result = hx.simulate(*build(elements), t_end, save="end", **method)
        if not result.success:
            raise RuntimeError(result.message)
        places.append(found(elements, result))
    return (4 * places[1] - places[0]) / 3
