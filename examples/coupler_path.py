"""A four-bar whose coupler draws a straight line: a design found by gradients.

The crank turns once a second. During half of a turn a pen on the coupler is to follow a straight
line with even speed; lengths, the bearing of the rocker and the place of the pen are free.
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np

import holonax as hx

CRANK = 0.1  # [m]
LINE = np.stack([np.linspace(0.4, 0.0, 13), np.full(13, 0.4)], axis=1)  # of the pen [m]
HALF = np.linspace(0.0, 0.5, 13)  # the times of the half turn [s]


def four_bar():
    """A crank that a motor turns from its top on, and a pen fixed to the coupler."""
    model = hx.Model()
    model.planar_body("crank", hx.rod(CRANK, mass=1.0), position=(0.0, 0.05), angle=np.pi / 2)
    model.planar_body("coupler", hx.rod(0.25, mass=1.0), position=(0.1, 0.17), angle=0.6)
    model.planar_body("rocker", hx.rod(0.25, mass=1.0), position=(0.2, 0.12), angle=np.pi / 2)
    model.planar_body("pen", 0.1, 1e-4, position=(0.36, 0.37), angle=0.6)
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-CRANK / 2, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(CRANK / 2, 0.0), at_b=(-0.125, 0.0))
    model.revolute("C", "coupler", "rocker", at_a=(0.135, 0.0), at_b=(0.115, 0.0))
    model.revolute("D", "ground", "rocker", at_a=(0.22, 0.02), at_b=(-0.125, 0.0))
    model.fixed("P", "coupler", "pen", at_a=(0.33, 0.03), at_b=(0.0, 0.0))
    model.drive_angle("motor", joint="A", angle=lambda t: 2 * jnp.pi * t)
    return model.build()


def pen(motion, system):
    """Its way (times, 2)."""
    number = system.coordinate_names(motion.q.shape[1]).index
    return jnp.stack([motion.q[:, number("pen.x")], motion.q[:, number("pen.y")]], axis=1)


def off_line(motion, system):
    """The mean square of the distance from where the pen should be; across the line it is worse."""
    off = (pen(motion, system) - LINE) * jnp.array([1.0, 4.0]) / 0.4
    return jnp.mean(jnp.sum(off**2, axis=1))


def main():
    system, start = four_bar()
    best = hx.optimize(
        *(system, start, HALF, off_line),
        parameters=["B.at_b", "C.at_a", "C.at_b", "D.at_a", "P.at_a"],
        dt=0.5 / 48,
        tol=1e-10,
    )
    print(best)
    run = hx.simulate(best.system, hx.consistent(best.system, start.q), 1.0, dt=1 / 192)
    way = np.stack([run.quantity("pen.position.x"), run.quantity("pen.position.y")], axis=1)
    half = way[: 96 + 1]
    straight = np.ptp(half[:, 1]) / np.ptp(half[:, 0])
    even = np.abs(half[:, 0] - np.linspace(0.4, 0.0, 97)).max() / 0.4
    print(f"straight to {100 * straight:.2g} %, even to {100 * even:.2g} % of the line")
    assert best.success and straight < 0.01 and even < 0.03
    draw(system, start, best, way)


def draw(system, start, best, way):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    before = hx.simulate(system, start, 1.0, dt=1 / 192)
    axes.plot(
        before.quantity("pen.position.x"),
        before.quantity("pen.position.y"),
        *("--",),
        color="tab:orange",
        label="begun with",
    )
    axes.plot(*way.T, color="tab:blue", label="found")
    axes.plot(*LINE.T, ".k", label="wanted")
    result = hx.simulate(best.system, hx.consistent(best.system, start.q), 0.2, dt=1 / 192)
    points = bars(result, best.values)
    for bar in points:
        axes.plot(*np.array(bar).T, "o-", color="0.4", lw=2.5, ms=5, zorder=0)
    axes.set(aspect="equal", xlabel="x [m]", ylabel="y [m]")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/coupler_path.png", dpi=110)


def bars(result, values):
    """The ends of crank, coupler with pen, and rocker at the end of a run."""

    def at(body, point):
        x, y = (result.quantity(f"{body}.position.{c}")[-1] for c in "xy")
        angle = result.quantity(f"{body}.angle")[-1]
        c, s = np.cos(angle), np.sin(angle)
        return x + c * point[0] - s * point[1], y + s * point[0] + c * point[1]

    crank = [(0.0, 0.0), at("crank", (CRANK / 2, 0.0))]
    joint, tip = at("coupler", values["C.at_a"]), at("coupler", values["P.at_a"])
    return [crank, [crank[1], joint, tip], [joint, tuple(values["D.at_a"])]]


if __name__ == "__main__":
    main()
