"""The pictures of paths and of rotors on the page on flexible bodies, docs/images/paths.png,
campbell.png and whirl.png: python docs/flexible_paths.py"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import holonax as hx

IMAGES = Path(__file__).parent / "images"


def truss(axes):
    """Two springs that lean on one another, pulled down at the end of a third, softer one."""
    model = hx.Model(gravity=(0, 0))
    model.planar_body("apex", hx.point_mass(1.0), position=(0, 0.5))
    model.planar_body("handle", hx.point_mass(1.0), position=(0, -0.5))
    for name, x in (("left", -1.0), ("right", 1.0)):
        model.spring_damper(name, "ground", "apex", at_a=(x, 0), at_b=(0, 0), stiffness=1000.0)
    model.spring_damper("hanger", "apex", "handle", stiffness=150.0)
    model.force("load", "handle", force=(0, -1.0))
    path = model.equilibrium_path("load", until=80.0, largest=0.05)
    for name in ("apex", "handle"):
        y = path[name].position[:, 1]
        (line,) = axes.plot(y[0] - y, path.factor, "o-", ms=2.5, lw=1, label=name)
        at = [x.index for x in path.limits]
        axes.plot((y[0] - y)[at], path.factor[at], "D", color=line.get_color(), ms=6, mfc="none")
    axes.set(xlabel="way down [m]", ylabel="load [N]", title="A truss snaps through and back")
    axes.legend(fontsize=7)


def arch(left, right):
    """The clamped and hinged arch of DaDeppo and Schmidt (1975)."""
    section = hx.Section(EA=1e8, GA=(5e7, 5e7), GJ=1e9, EI=(1e9, 1e6), mass=1.0)
    half, model = np.radians(107.5), hx.Model(gravity=(0, 0, 0))
    at = lambda angle: (100 * np.sin(angle), 100 * np.cos(angle), 0.0)  # noqa: E731
    for name, a, b in (("left", -half, 0.0), ("right", 0.0, half)):
        model.beam(name, at(a), at(b), section=section, curvature=(0, 0, -0.01), elements=16)
    model.fixed("clamp", "ground", "left.start")
    model.fixed("crown", "left.end", "right.start")
    model.revolute("hinge", "ground", "right.end", at=at(half), axis=(0, 0, 1))
    model.force("load", "right.start", force=(0, -1.0, 0))
    path = model.equilibrium_path("load", until=1500.0, points=60)
    down = at(0.0)[1] - path["right.start"].position[:, 1]
    stable = np.where(path.stable, path.factor, np.nan)
    left.plot(down, path.factor, ":", color="gray")
    left.plot(down, stable, "-", lw=2)
    limits = [x.index for x in path.limits]
    left.plot(down[limits], path.factor[limits], "D", ms=6, mfc="none", color="crimson")
    left.set(xlabel="way of the crown [m]", ylabel="load [N]", title="A deep arch, P R²/EI = 8.97")
    for k in (0, *limits[:1], len(path) - 1):
        shape = [path.beam(name).position[k] for name in ("left", "right")]
        x, y, _ = np.concatenate(shape).T
        right.plot(x, y, label=f"{path.factor[k]:.0f} N")
    right.set(aspect="equal", title="its shapes")
    right.legend(fontsize=7)


def blade():
    """A blade of unit EI, mass and length, clamped to a heavy hub."""
    section = hx.Section(
        EA=1e6, GA=(5e5, 5e5), GJ=1.0, EI=(1.0, 1.0), mass=1.0, inertia=(2e-6, 1e-6, 1e-6)
    )
    model = hx.Model(gravity=(0, 0, 0))
    model.body("hub", 1e6, (1e6, 1e6, 1e6))
    model.revolute("shaft", "ground", "hub", at=(0, 0, 0), axis=(0, 0, 1))
    model.beam("blade", (0, 0, 0), (1, 0, 0), section=section, elements=8)
    model.fixed("root", "hub", "blade.start")
    found = hx.campbell(*model.build(), np.linspace(0.0, 12.0, 9), modes=4)
    figure = found.plot(orders=(1, 2, 3), title="A blade stiffens as it spins")
    figure.savefig(IMAGES / "campbell.png", dpi=100)


def shaft():
    """A round shaft between hinges, with much rotary inertia for its mass."""
    section = hx.Section(
        EA=1e5, GA=(1e5, 1e5), GJ=50.0, EI=(1.0, 1.0), mass=1.0, inertia=(0.02, 0.01, 0.01)
    )
    model = hx.Model(gravity=(0, 0, 0))
    model.beam("shaft", (0, 0, 0), (1, 0, 0), section=section, elements=8)
    model.spherical("near", "ground", "shaft.start", at=(0, 0, 0))
    model.point_on_line("far", "ground", "shaft.end", at=(1, 0, 0), axis=(1, 0, 0))
    found = hx.campbell(*model.build(), np.linspace(0.0, 40.0, 9), axis=(1, 0, 0), modes=4)
    figure = found.plot(orders=(1,), title="A round shaft whirls forward and backward")
    figure.savefig(IMAGES / "whirl.png", dpi=100)


if __name__ == "__main__":
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.4), layout="constrained")
    truss(panels[0])
    arch(*panels[1:])
    figure.savefig(IMAGES / "paths.png", dpi=100)
    blade()
    shaft()
