"""A run with checkpoints, for a process that a test kills."""

import sys

import numpy as np

import holonax as hx
from holonax import examples


def upright(t, q, v):
    """Passes zero whenever the crank lies flat."""
    return q[0]


OPTIONS = {
    "pieces": {"rtol": 1e-10, "save": np.linspace(0.0, 300.0, 1001)},
    "steps": {"dt": 1e-3, "save": 50},
}
EVENT = hx.Event("flat", upright, direction="rising")


def run(kind, path=None, every=0.05):
    system, start = examples.slider_crank()
    checkpoint = {} if path is None else {"checkpoint": path, "checkpoint_every": every}
    events = (EVENT,) if kind == "pieces" else ()
    return system, hx.simulate(system, start, 300.0, events=events, **OPTIONS[kind], **checkpoint)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2])
