"""Events on two mechanisms: a flap that falls onto a one-sided stop, and a boom that latches.

The flap bounces off its stop, each time a little less high. The boom's two links swing down freely;
when they are in line a latch makes them one, by an impulse, until it is pulled at 2.5 s.
"""

from pathlib import Path

import numpy as np

import holonax as hx


def flap():
    """A flap on a hinge, level at first, with a stop 60 degrees below."""
    model = hx.Model()
    model.planar_body("flap", hx.rod(0.8, mass=3.0), position=(0.4, 0.0))
    model.revolute("hinge", "ground", "flap", at=(0.0, 0.0))
    return model


def gap(flap, t):
    """How far the flap is above its stop [rad]."""
    return flap.angle + np.pi / 3


def boom():
    """Two links on a pivot, level at first, with a latch between them that is open."""
    model = hx.Model()
    upper = model.planar_body("upper", hx.rod(1.0, mass=2.0), position=(0.5, 0.0))
    lower = model.planar_body("lower", hx.rod(1.0, mass=1.0), position=(1.5, 0.0))
    model.revolute("pivot", "ground", upper, at=(0.0, 0.0))
    model.revolute("elbow", upper, lower, at=(1.0, 0.0))
    model.fixed("latch", upper, lower, at=(1.0, 0.0))
    return model


def bend(upper, lower, t):
    """The angle between the links [rad]."""
    return lower.angle - upper.angle


def pulled(t, q, v):
    """When the latch is pulled."""
    return t - 2.5


def main(out=Path("out")):
    stop = hx.Event("stop", gap, bodies="flap", direction="falling", change=hx.Impact(0.7))
    first = flap().simulate(1.5, rtol=1e-8, events=stop)
    close = hx.Event(
        "close",
        bend,
        bodies=("upper", "lower"),
        direction="rising",
        engage="latch",
        release="elbow",
    )
    pull = hx.Event("pull", pulled, engage="elbow", release="latch")
    second = boom().simulate(4.0, rtol=1e-8, released=["latch"], events=[close, pull])
    for run in (first, second):
        print(run)
        for event in run.events:
            print(f"  {event.name:6s} at t = {event.t:.9f} s")
    assert [event.name for event in first.events] == ["stop"] * 3
    assert [event.name for event in second.events] == ["close", "pull", "close"]
    draw(out, first, second)
    return first, second


def draw(out, first, second):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 1, figsize=(7, 5), layout="constrained", dpi=150)
    axes[0].plot(first.t, np.degrees(first["flap"].angle))
    axes[0].axhline(-60, color="0.6", linewidth=0.8)
    axes[0].set_title("Flap on a one-sided stop, restitution 0.7", loc="left")
    for name in ("upper", "lower"):
        axes[1].plot(second.t, np.degrees(second[name].angle), label=name)
    for event in second.events:
        axes[1].axvline(event.t, color="0.6", linewidth=0.8)
        axes[1].annotate(event.name, (event.t, 0.02), xycoords=("data", "axes fraction"))
    axes[1].set_title("Boom that latches when its links are in line", loc="left")
    axes[1].legend(frameon=False)
    for axis in axes:
        axis.set_xlabel("t [s]")
        axis.set_ylabel("angle [deg]")
    out.mkdir(exist_ok=True)
    figure.savefig(out / "events.png")


if __name__ == "__main__":
    main()
