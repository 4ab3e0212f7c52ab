"""The picture of the page on flexible bodies, docs/images/flexible.png: python docs/flexible.py"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import holonax as hx


def rolled_up(axes):
    """A cantilever under end moments up to that of a full circle."""
    bending, length = 2.4, 0.5
    section = hx.Section(EA=2.8e6, GA=(6e5, 6e5), GJ=3.1, EI=(36.0, bending), mass=0.2)
    for turns in (0.0, 0.125, 0.25, 0.5, 0.75, 1.0):
        model = hx.Model(gravity=(0, 0, 0))
        model.beam("beam", (0, 0, 0), (length, 0, 0), section=section, elements=8)
        model.fixed("root", "ground", "beam.start")
        model.torque("moment", "beam.end", torque=(0, 0, 2 * np.pi * turns * bending / length))
        beam = model.equilibrium().beam("beam")
        shape, _ = beam.at(np.linspace(0, 1, 101))
        (line,) = axes.plot(*shape.T[:2], lw=1.5)
        axes.plot(*beam.position.T[:2], "o", ms=3, color=line.get_color(), label=f"{turns:g} turns")
    axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal", title="End moment, 8 elements")
    axes.set_ylim(-0.02, 0.5)
    axes.legend(fontsize=7, ncols=3, loc="upper center")


def buckled(axes):
    """The displacement at midspan of the beam of Bauchau, Epple and Bottasso (2009)."""
    system, start = hx.examples.lateral_buckling()
    options = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.6)}
    result = hx.simulate(system, start, 0.12, dt=2.5e-4, **options)
    middle = result.beam("beam").at(0.5)[0]
    for k, name in enumerate(("along", "sideways", "up")):
        axes.plot(result.t, 1e3 * (middle - middle[0])[:, k], label=name)
    axes.set(xlabel="t [s]", ylabel="displacement at midspan [mm]", title="Lateral buckling")
    axes.legend(fontsize=7)


if __name__ == "__main__":
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
    rolled_up(left)
    buckled(right)
    figure.savefig(Path(__file__).parent / "images" / "flexible.png", dpi=110)
