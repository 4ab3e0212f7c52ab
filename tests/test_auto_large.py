"""`method="auto"` on stiff systems of many bodies: the end is reached, for the price of the better
of its methods.

Small ones of each kind run by default; 300 bodies are slow.
"""

import numpy as np
import pytest

import holonax as hx
from holonax.run import auto


def hanging_chain(n):
    """Rods on stiff bushings that only hold points together, let go at a slant."""
    model = hx.Model(gravity=(0.0, -9.81))
    along = np.array([np.sin(0.3), -np.cos(0.3)]) / n
    previous = "ground"
    for i in range(n):
        body = model.planar_body(
            f"rod{i}", hx.rod(1.0 / n, mass=1.0), position=tuple((i + 0.5) * along), angle=0.3
        )
        model.bushing(
            f"mount{i}",
            previous,
            body,
            at=tuple(i * along),
            stiffness=(1e7 * n, 1e7 * n, 0.0),
            damping=(1e4, 1e4, 0.1),
        )
        previous = body
    return model


def net(n):
    """Point masses on an n x n grid, stiff damped springs between neighbours, held at two corners
    by springs and stirred by gravity."""
    model = hx.Model(gravity=(0.0, 0.0, -9.81))
    at = lambda i, j: (0.1 * i, 0.1 * j, 0.0)  # noqa: E731
    for i in range(n):
        for j in range(n):
            model.body(f"knot{i},{j}", 0.1, 1e-4 * np.eye(3), position=at(i, j))
    spring = {"stiffness": 1e5, "damping": 1e3}
    for i in range(n):
        for j in range(n):
            for k, m in ((i + 1, j), (i, j + 1)):
                if k < n and m < n:
                    a, b = f"knot{i},{j}", f"knot{k},{m}"
                    model.spring_damper(f"{a}-{b}", a, b, at=(at(i, j), at(k, m)), **spring)
    for i in (0, n - 1):
        up = (0.1 * i, 0.0, 0.5)
        model.spring_damper(
            f"rope{i}", "ground", f"knot{i},0", at=(up, at(i, 0)), stiffness=1e3, damping=10.0
        )
    return model


def train(cars):
    """Cars of a frame and four wheels on bushings, the frames coupled by stiff bushings."""
    model = hx.Model(gravity=(0.0, -9.81))
    for c in range(cars):
        x = 3.0 * c
        frame = model.planar_body(f"car{c}", 500.0, 400.0, position=(x, 1.0))
        for w in range(4):
            place = (x - 1.0 + 2.0 * w / 3, 0.4)
            wheel = model.planar_body(f"wheel{c},{w}", 20.0, 0.5, position=place)
            model.bushing(
                f"mount{c},{w}",
                frame,
                wheel,
                at=place,
                stiffness=(1e7, 2e5, 1e5),
                damping=(1e5, 1e4, 1e4),
            )
            model.bushing(
                f"tyre{c},{w}", "ground", wheel, at=place,
                stiffness=(0.0, 1e6, 0.0), damping=(50.0, 1e5, 0.0),
            )  # fmt: skip
        if c:
            model.bushing(
                f"coupler{c}", f"car{c - 1}", frame, at=(x - 1.5, 1.0),
                stiffness=(1e7, 1e4, 1e4), damping=(1e6, 1e3, 1e3),
            )  # fmt: skip
    return model


MAKERS = {"chain": hanging_chain, "net": net, "train": train}


def steps_with(run, integrator):
    legs = [k for k, leg in enumerate(run.legs) if isinstance(leg.integrator, integrator)]
    return int(np.sum(np.isin(run.leg, legs)))


def work(run):
    """In explicit steps, an implicit one counting as many as it costs."""
    ratio = auto.cost_ratio(run.system, run.start)
    return steps_with(run, hx.Dopri5) + ratio * steps_with(run, hx.VariableBDF)


def runs(name, size, t_end, *, explicit=True):
    system, start = MAKERS[name](size).build()
    options = {"rtol": 1e-6, "save": "steps"}
    out = [hx.simulate(system, start, t_end, method="auto", **options)]
    implicit = {"formulation": hx.GGL(), "integrator": hx.VariableBDF()}
    out.append(hx.simulate(system, start, t_end, **implicit, **options))
    if explicit:
        out.append(hx.simulate(system, start, t_end, **options))
    assert all(run.success for run in out), [run.message for run in out]
    return out


@pytest.mark.parametrize(
    ("name", "size", "t_end"),
    [
        ("chain", 4, 0.5),
        pytest.param("net", 3, 1.0, marks=pytest.mark.slow),
        pytest.param("train", 2, 2.0, marks=pytest.mark.slow),
        pytest.param("train", 60, 2.0, marks=pytest.mark.slow),
    ],
)
def test_stiff_bodies_are_handed_to_the_implicit_method(name, size, t_end):
    run, implicit, explicit = runs(name, size, t_end)
    assert isinstance(run.legs[-1].integrator, hx.VariableBDF)
    assert work(run) < 1.5 * min(work(implicit), work(explicit)) + auto._COMPILING
    # a tolerance of 1e-6 a step, over some hundred steps
    np.testing.assert_allclose(run.q[-1], explicit.q[-1], atol=1e-3)


@pytest.mark.slow
def test_the_price_of_an_implicit_step_is_that_of_its_elimination():
    """For each body that of a chain does not grow, and that of a net does."""
    price = {
        (name, size): auto.cost_ratio(*MAKERS[name](size).build())
        for name, size in (("chain", 40), ("chain", 80), ("net", 4), ("net", 8))
    }
    assert price["chain", 80] == price["chain", 40]
    assert price["net", 8] > 1.5 * price["net", 4] > 1.5 * price["chain", 40]


@pytest.mark.slow
def test_a_net_whose_elimination_is_dear_is_left_to_the_explicit_method():
    run, implicit, explicit = runs("net", 14, 0.6)
    assert all(isinstance(leg.integrator, hx.Dopri5) for leg in run.legs)
    assert work(run) == work(explicit) < work(implicit)


@pytest.mark.slow
def test_a_thousand_bodies_are_handed_to_the_implicit_method():
    run, implicit = runs("chain", 1000, 0.012, explicit=False)
    assert isinstance(run.legs[-1].integrator, hx.VariableBDF)
    assert work(run) < 1.5 * work(implicit)
    np.testing.assert_allclose(run.q[-1], implicit.q[-1], atol=1e-6)
