"""Newton's cradle: a blow that goes through balls that touch, from one to the next."""

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx

LENGTH, RADIUS, SWING = 1.0, 0.1, 0.5


def touching(a, b, t):
    apart = b.r - a.r
    return jnp.sqrt(apart.dot(apart)) - 2 * RADIUS


def cradle(balls, gap=0.0, restitution=1.0):
    """Balls on pendulums side by side, the first of them drawn aside."""
    model = hx.Model()
    for k in range(balls):
        angle, x = -SWING if k == 0 else 0.0, k * (2 * RADIUS + gap)
        at = (x + LENGTH * np.sin(angle), -LENGTH * np.cos(angle))
        model.planar_body(f"b{k}", hx.point_mass(1.0), position=at)
        model.distance(f"string {k}", "ground", f"b{k}", at_a=(x, 0.0), length=LENGTH)
    impact = hx.Impact(restitution)
    events = [
        hx.Event(
            f"c{k}", touching, bodies=[f"b{k}", f"b{k + 1}"], direction="falling", change=impact
        )
        for k in range(balls - 1)
    ]
    return model, events


def speeds_after(run, name="c0"):
    """The horizontal velocities of all balls after the first blow of that contact."""
    first = next(x for x in run.events if x.name == name)
    names = run.system.velocity_names(first.v.size)
    return np.array([x for x, name in zip(first.v, names, strict=True) if name.endswith(".x")])


ARRIVAL = np.sqrt(2 * 9.81 * LENGTH * (1 - np.cos(SWING)))  # where the ball hangs straight
FEW_AND_MANY = [
    3,
    pytest.param(2, marks=pytest.mark.slow),
    pytest.param(4, marks=pytest.mark.slow),
    pytest.param(5, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("balls", FEW_AND_MANY)
def test_the_last_ball_leaves_as_the_first_has_come(balls):
    model, events = cradle(balls)
    run = model.simulate(2.0, rtol=1e-7, events=events)
    assert run.success
    wanted = np.zeros(balls)
    wanted[-1] = ARRIVAL
    assert np.allclose(speeds_after(run), wanted, atol=1e-6)
    # and back: half a period later the last one strikes, and the first leaves
    assert len(run.events) == 2 * (balls - 1)
    assert np.allclose([x.v[0] for x in run.events[balls - 1 :]], -ARRIVAL, atol=2e-6)
    assert np.max(np.abs(run.energy.total - run.energy.total[0])) < 1e-6


@pytest.mark.parametrize("gap", [1e-6, 1e-3])
def test_balls_that_do_not_quite_touch_are_struck_one_after_the_other(gap):
    model, events = cradle(3, gap)
    run = model.simulate(0.6, rtol=1e-8, events=events)
    assert [x.name for x in run.events] == ["c0", "c1"]
    assert run.events[0].t < run.events[1].t
    assert np.allclose(speeds_after(run, "c1"), [0.0, 0.0, ARRIVAL], atol=10 * gap)


@pytest.mark.parametrize("restitution", [0.8, 0.0])
def test_a_blow_that_loses_energy(restitution):
    model, events = cradle(3, restitution=restitution)
    run = model.simulate(0.55, rtol=1e-7, events=events)
    after = speeds_after(run)
    assert abs(np.sum(after) - ARRIVAL) < 1e-6
    assert np.all(np.diff(after) >= -1e-9)
    if restitution:  # the last is struck once, by the one before it
        assert abs(after[-1] - ARRIVAL * ((1 + restitution) / 2) ** 2) < 1e-6
    else:
        assert np.allclose(after, ARRIVAL / 3, atol=1e-6)


def test_two_balls_that_come_from_both_sides():
    model, events = cradle(3)
    last = model["b2"].position[0]
    at = (last + LENGTH * np.sin(SWING), -LENGTH * np.cos(SWING))
    run = model.replaced("b2", position=at).simulate(0.6, rtol=1e-7, events=events)
    assert np.allclose(speeds_after(run), [-ARRIVAL, 0.0, ARRIVAL], atol=1e-6)
