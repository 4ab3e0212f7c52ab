"""The legs of a walking machine: a closed-loop planar mechanism, simulated, plotted and animated.

Two of Theo Jansen's legs hang on one crank. Each turns the crank's circle into a step with a flat
base; a flywheel on the crank keeps it going against gravity. 13 bodies, 19 pins, one freedom.
"""

from pathlib import Path

import numpy as np

import holonax as hx

BAR = 0.5  # mass of a bar or of a plate's outline [kg/m]


def meet(p, p_length, q, q_length, side):
    """The point at given distances from p and q, to the left (side=+1) or right of p to q."""
    along = q - p
    d = np.linalg.norm(along)
    x = (d**2 + p_length**2 - q_length**2) / (2 * d)
    y = side * np.sqrt(p_length**2 - x**2)
    return p + (x * along + y * np.array([-along[1], along[0]])) / d


def link(model, name, *points):
    """A bar between two points, or a triangular plate through three."""
    sides = [np.linalg.norm(p - points[i - 1]) for i, p in enumerate(points)]
    if len(points) == 2:
        mass, gyration = BAR * sides[0], sides[0] ** 2 / 12
    else:
        mass, gyration = BAR * sum(sides), sum(s**2 for s in sides) / 36
    return model.planar_body(name, mass, mass * gyration, position=np.mean(points, axis=0))


def leg(model, name, crank_pin, side):
    """Add one leg; returns its foot on the shin, in the shin's coordinates."""
    pivot = np.array([side * 0.38, -0.078])
    knee = meet(crank_pin, 0.50, pivot, 0.415, side)
    heel = meet(crank_pin, 0.619, pivot, 0.393, -side)
    hip = meet(knee, 0.558, pivot, 0.401, side)
    ankle = meet(hip, 0.394, heel, 0.367, side)
    foot = meet(ankle, 0.657, heel, 0.49, side)

    upper_rod = link(model, f"{name} upper rod", crank_pin, knee)
    lower_rod = link(model, f"{name} lower rod", crank_pin, heel)
    thigh = link(model, f"{name} thigh", pivot, knee, hip)
    rocker = link(model, f"{name} rocker", pivot, heel)
    tie = link(model, f"{name} tie", hip, ankle)
    shin = link(model, f"{name} shin", heel, ankle, foot)
    pins = [
        ("crank", upper_rod, crank_pin),
        ("crank", lower_rod, crank_pin),
        (upper_rod, thigh, knee),
        (lower_rod, rocker, heel),
        ("ground", thigh, pivot),
        ("ground", rocker, pivot),
        (thigh, tie, hip),
        (rocker, shin, heel),
        (tie, shin, ankle),
    ]
    for i, (a, b, at) in enumerate(pins):
        model.revolute(f"{name} pin {i + 1}", a, b, at=at)
    return shin.name, foot - shin.position


def walker():
    """The model and the two feet."""
    model = hx.Model(gravity=(0.0, -9.81))
    model.planar_body("crank", 3.0, 0.5, angular_velocity=6.0)  # with its flywheel
    model.revolute("axle", "ground", "crank", at=(0.0, 0.0))
    crank_pin = np.array([0.15, 0.0])
    return model, {
        "left foot": leg(model, "left", crank_pin, -1),
        "right foot": leg(model, "right", crank_pin, +1),
    }


def main(t_end=4.0, dt=2e-3, folder="out"):
    model, feet = walker()
    result = model.simulate(t_end, dt=dt, hold_velocity=["crank.angle"])
    print(result)

    assert result.success
    assert max(np.max(drift) for drift in result.drift()) < 1e-11
    assert np.max(np.abs(result.energy.balance)) < 1e-6 * result.energy.total[0]

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shin, point = feet["left foot"]
    foot = result[shin].point(point)
    signals = {
        "left foot, horizontal [m]": foot[:, 0],
        "left foot, vertical [m]": foot[:, 1],
        "crank speed [rad/s]": result["crank"].angular_velocity,
    }
    figure = hx.plot(result, signals, traces=feet)
    figure.savefig(folder / "demo.png", dpi=150)
    hx.animate(result, folder / "demo.gif", traces=feet)
    print(f"wrote {folder / 'demo.png'} and {folder / 'demo.gif'}")
    return result


if __name__ == "__main__":
    main()
