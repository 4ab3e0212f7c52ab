"""Runs with checkpoints, for processes that a test kills or gives no space."""

import sys

import jax.numpy as jnp
import numpy as np

import holonax as hx
from holonax import examples


def flat(t, q, v):
    """Passes zero whenever the crank lies flat."""
    return q[0]


def floor(t, q, v):
    return q[1]


def ball():
    """A ball that bounces on a floor for ever."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2),
        force=lambda q, v, t, p: jnp.array([0.0, -9.81]),
    )
    return system, hx.consistent(system, q=[0.0, 1.0], v=[1.0, 0.0])


FLAT = hx.Event("flat", flat, direction="rising")
BOUNCE = hx.Event("floor", floor, direction="falling", change=hx.Impact(1.0))

RUNS = {  # the mechanism, how long, and how
    "times": (examples.slider_crank, 600.0, {"rtol": 1e-10, "events": (FLAT,)}, 1001),
    "steps": (examples.slider_crank, 4000.0, {"dt": 1e-3, "save": 50}, None),
    "rare": (examples.slider_crank, 2000.0, {"dt": 1e-3, "save": 300_000}, None),
    "bounces": (ball, 250.0, {"rtol": 1e-8, "events": (BOUNCE,)}, 2001),
    "auto": (examples.stiff_double_pendulum, 30000.0, {"rtol": 1e-6, "method": "auto"}, 2001),
    "spatial": (examples.heavy_top, 3200.0, {"dt": 1e-3, "save": 7, "store": True}, None),
}


def options(kind):
    """(system, start, t_end, options) of a run."""
    make, t_end, given, times = RUNS[kind]
    system, start = make()
    given = dict(given)
    if times:
        given["save"] = np.linspace(0.0, t_end, times)
    return system, start, t_end, given


def run(kind, path=None, every=0.2, **more):
    """A run from beginning to end, written to `path` if there is one."""
    system, start, t_end, given = options(kind)
    stored = given.pop("store", False)
    if path is not None:
        given |= {"checkpoint": path, "checkpoint_every": every}
        given |= {"store": path} if stored else {}
    return hx.simulate(system, start, t_end, **given, **more)


def resume(kind, path, **more):
    """The same run, from where it was."""
    system, _, _, given = options(kind)
    return hx.resume(path, system=system, events=given.get("events", ()), **more)


if __name__ == "__main__":
    what, kind, path, every = sys.argv[1:]
    if what == "resume":
        resume(kind, path)
    else:
        run(kind, path, float(every))
