"""A process of its own that builds, runs and looks at mechanisms, and prints what that cost."""

import json
import sys

import holonax as hx
from holonax.compiler import counts


def four_bar(scale=1.0):
    """The README's, with all lengths and masses times `scale`."""
    s = scale
    model = hx.Model()
    model.planar_body(
        "crank", hx.rod(0.2 * s, mass=1.0 * s), position=(0.1 * s, 0.0), angular_velocity=10.0
    )
    model.planar_body(
        "coupler", hx.rod(0.5 * s, mass=2.0 * s), position=(0.4 * s, 0.2 * s), angle=0.9
    )
    model.planar_body(
        "rocker", hx.rod(0.4 * s, mass=1.5 * s), position=(0.55 * s, 0.2 * s), angle=1.8
    )
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-0.1 * s, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(0.1 * s, 0.0), at_b=(-0.25 * s, 0.0))
    model.revolute("C", "coupler", "rocker", at_a=(0.25 * s, 0.0), at_b=(0.2 * s, 0.0))
    model.revolute("D", "ground", "rocker", at_a=(0.6 * s, 0.0), at_b=(-0.2 * s, 0.0))
    return model.build(hold=["crank"], hold_velocity=["crank.angle"])


def heavier_slider_crank(system):
    """With other parameters, of the same functions."""
    start = hx.consistent(system, [0.9851, -0.5236, 0.4256, 0.1], hold=["crank"])
    heavier = system.with_parameters(**{k: 1.1 * v for k, v in system.parameters().items()})
    return heavier, hx.consistent(heavier, start.q, start.v)


# How it is made; how one is made with other numbers, for which a model is built anew; a body and a
# joint of it.
MECHANISMS = {
    "slider_crank": (hx.examples.slider_crank, heavier_slider_crank, None, None),
    "four_bar": (four_bar, lambda _: four_bar(1.2), "coupler", "C"),
    "spatial_slider_crank": (
        hx.examples.spatial_slider_crank,
        lambda _: hx.examples.spatial_slider_crank(),
        "rod",
        "crank pin",
    ),
    "flyball_governor": (
        hx.examples.flyball_governor,
        lambda _: hx.examples.flyball_governor(stiffness=7e5, damping=5e4),
        "left",
        "left hinge",
    ),
}


def look(result, body, joint):
    """At everything that a result knows without a further program."""
    print(result, file=sys.stderr)
    seen = [result.energy.balance, *result.drift(), result.a, result.lam]
    if body is not None:
        of = result[body]
        seen += [of.position, of.velocity, of.acceleration, result.reaction(joint).force]
    return seen


def stages(name):
    """What is done with a mechanism, one thing after the other."""
    make, make_other, body, joint = MECHANISMS[name]
    system, start = make()
    yield "build"
    result = hx.simulate(system, start, 0.05, rtol=1e-6)
    yield "run"
    look(result, body, joint)
    yield "look"
    result.at(0.02)
    yield "at"
    other, start = make_other(system)
    result = hx.simulate(other, start, 0.06, rtol=1e-7, atol=1e-9)
    look(result, body, joint)
    result.at(0.03)
    yield "other numbers"
    hx.simulate(system, start, 0.01, dt=1e-3)
    yield "equal steps"
    hx.simulate(other, start, 0.02, dt=5e-4)
    yield "other equal steps"


def measured(name):
    """For each stage: programs by name with their operations, and what else was counted."""
    out, before = {}, totals()
    for stage in stages(name):
        now = totals()
        new = {key: now[key] - before[key] for key in now}
        of_stage = counts.programs[before["programs"] :]
        out[stage] = {
            **new,
            "programs": [(x.name, x.operations) for x in of_stage],
            "diffrax": "diffrax" in sys.modules,
        }
        before = now
    return out


def totals():
    return {
        "programs": len(counts.programs),
        "left to XLA": len(counts.left_to_xla),
        "traced": counts.traced,
        "compiled": counts.compiled,
        "read": counts.read,
    }


if __name__ == "__main__":
    print(json.dumps({name: measured(name) for name in MECHANISMS}))
