"""Runs of an ensemble that end at an event, each at its own; the truth is one run by `simulate`."""

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx

# Both locate an event to rounding of the time on solutions that agree to rounding.
ROUNDING = 1e-12


def falling():
    """A point that falls in a field g: y = y0 + v0 t - g t^2 / 2."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1),
        force=lambda q, v, t, p: -p["g"] * jnp.ones(1),
        parameters={"g": 9.81},
    )
    return system, hx.consistent(system, [1.0], [2.0])


def pendulum():
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2),
        force=lambda q, v, t, p: jnp.array([0.0, -9.81]),
        constraint=lambda q, t, p: jnp.array([(q @ q - p["l"] ** 2) / 2]),
        parameters={"l": 1.0},
    )
    return system, hx.consistent(system, [1.0, 0.0], [0.0, 0.0])


GROUND = hx.Event("ground", lambda t, q, v: q[0], terminal=True, direction="falling")


def test_each_run_ends_where_it_comes_to_the_ground():
    """RK4 is exact for a parabola, so the times are those of the closed form to rounding."""
    system, start = falling()
    g = np.linspace(5.0, 20.0, 21)
    result = hx.ensemble(system, start, parameters={"g": g}, t_end=1.0, dt=0.01, events=GROUND)
    exact = (2 + np.sqrt(4 + 2 * g)) / g
    hits = exact < 1.0
    assert 0 < hits.sum() < 21  # some do, some do not
    np.testing.assert_array_equal(result.event == "ground", hits)
    np.testing.assert_allclose(result.ended, np.where(hits, exact, 1.0), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(result.q[hits], 0.0, atol=ROUNDING)
    assert result.success.all()
    assert f"{hits.sum()} ended by the event ground" in repr(result)


@pytest.mark.parametrize("steps", [{"dt": 0.01}, {"rtol": 1e-8}], ids=["equal", "by error"])
def test_events_are_those_of_simulate(steps):
    system, start = pendulum()
    events = [
        hx.Event("left", lambda t, q, v: q[0], level=-0.5, terminal=True, direction="falling"),
        hx.Event("fast", lambda t, q, v: v @ v, level=19.5, terminal=True),
    ]
    lengths = np.linspace(0.8, 1.2, 9)
    result = hx.ensemble(
        system, start, parameters={"l": lengths}, t_end=2.0, events=events, **steps
    )
    assert {*result.event} == {"left", "fast"} and "lanes" in result.road
    for k in (0, 4, 8):
        single = result.rerun(k)
        assert single.events[-1].name == result.event[k]
        assert abs(single.t[-1] - result.ended[k]) < ROUNDING
        np.testing.assert_allclose(single.q[-1], result.q[k], atol=ROUNDING)


def test_states_after_an_event_are_not_numbers():
    system, start = falling()
    times = np.linspace(0.0, 1.0, 11)
    low = hx.many.Smallest(lambda t, q, v: q[0])
    result = hx.ensemble(
        system,
        start,
        parameters={"g": np.array([9.81, 2.0])},
        times=times,
        dt=0.05,
        events=GROUND,
        reduce={"low": low},
    )
    fell = times > result.ended[0]
    assert np.isnan(result.q[0, fell]).all() and np.isfinite(result.q[0, ~fell]).all()
    assert np.isfinite(result.q[1]).all() and result.event.tolist() == ["ground", ""]
    assert abs(result.reduced["low"][0]) < ROUNDING


def test_a_function_without_a_value_stops_its_run_alone():
    system, start = falling()
    event = hx.Event("root", lambda t, q, v: jnp.sqrt(q[0] - 0.5) + 1.0, terminal=True)
    g = np.array([9.81, 1.0])
    result = hx.ensemble(system, start, parameters={"g": g}, t_end=1.0, dt=0.01, events=event)
    assert result.success.tolist() == [False, True]
    assert "not finite" in result.reason[0]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (hx.Event("a", lambda t, q, v: q[0]), "does not end the run"),
        (hx.Event("a", lambda t, q, v: q[0], change=hx.Impact(0.5)), "changes the state"),
        (hx.Event("a", lambda t, q, v: q, terminal=True), "returns an array"),
        (hx.Event("a", "crank.angle", terminal=True), "made with hx.Model only"),
    ],
)
def test_other_events_are_refused(event, words):
    system, start = falling()
    with pytest.raises(ValueError, match=words):
        hx.ensemble(system, start, parameters={"g": [1.0]}, t_end=1.0, dt=0.1, events=event)
