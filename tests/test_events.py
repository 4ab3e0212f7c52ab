"""Events: located to rounding, with changes of state, recorded by name."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipk

import holonax as hx

G, LENGTH = 9.81, 1.0


def wall(t, q, v):
    """Where a pendulum hangs straight down: its horizontal position."""
    return q[0]


@pytest.fixture(scope="module")
def pendulum():
    """A point mass on a rod of unit length, released at 60 degrees."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2),
        force=lambda q, v, t, p: jnp.array([0.0, -G]),
        constraint=lambda q, t, p: jnp.array([q @ q - LENGTH**2]) / 2,
        potential=lambda q, p: G * q[1],
        coordinate_names=["x", "y"],
        constraint_names=["rod"],
    )
    angle = np.radians(60.0)
    return system, hx.consistent(system, [np.sin(angle), -np.cos(angle)])


def swing(height):
    """A quarter of the period of a pendulum that rises to `height`."""
    return np.sqrt(LENGTH / G) * ellipk(height / (2 * LENGTH))


TIGHT = {"rtol": 1e-12, "atol": 1e-13, "integrator": hx.Dop853()}


@pytest.mark.parametrize("restitution", [1.0, 0.8])
def test_impact_times_of_a_bouncing_pendulum(pendulum, restitution):
    system, start = pendulum
    bounce = hx.Event("wall", wall, direction="falling", change=hx.Impact(restitution))
    run = hx.simulate(system, start, 10.0, events=bounce, save="end", **TIGHT)
    assert run.success
    height, t, expected = LENGTH * (1 - np.cos(np.radians(60.0))), 0.0, []
    t = swing(height)
    while t < 10.0:
        expected.append(t)
        height *= restitution**2  # the speed at the wall is that many times smaller
        t += 2 * swing(height)
    times = [event.t for event in run.events]
    assert len(times) == len(expected)
    np.testing.assert_allclose(times, expected, atol=1e-10)
    for event in run.events:
        assert event.name == "wall"
        np.testing.assert_allclose(event.v[0], -restitution * event.v_before[0], rtol=1e-12)
        np.testing.assert_allclose(event.q, event.q_before, atol=1e-15)
        assert abs(event.q[0]) < 1e-14


def test_both_states_of_an_impact_are_saved_and_energy_is_accounted_for(pendulum):
    system, start = pendulum
    bounce = hx.Event("wall", wall, direction="falling", change=hx.Impact(0.5))
    run = hx.simulate(system, start, 2.0, events=bounce, **TIGHT)
    (at,) = np.flatnonzero(np.diff(run.t) == 0)[:1]
    np.testing.assert_allclose(run.v[at + 1], -0.5 * run.v[at], atol=1e-12)
    lost = run.energy.total[at] - run.energy.total[at + 1]
    assert lost == pytest.approx(0.75 * run.energy.kinetic[at], rel=1e-12)
    assert np.max(np.abs(run.energy.balance)) < 1e-9
    assert max(x.max() for x in run.drift()) < 1e-13
    # between the steps, on both sides of the impact
    q, _ = run.at(run.t[at] + np.array([-1e-3, 1e-3]))
    np.testing.assert_allclose(q[1, 0] / q[0, 0], 0.5, rtol=1e-3)
    assert np.all(q[:, 0] > 0)


@pytest.mark.parametrize("method", ["RK4", "Dopri5", "AdamsMoulton", "GeneralizedAlpha"])
def test_equal_steps_are_shortened_to_an_event(pendulum, method):
    system, start = pendulum
    integrator = hx.AdamsMoulton(4) if method == "AdamsMoulton" else getattr(hx, method)()
    formulation = hx.Index3() if method == "GeneralizedAlpha" else None
    stop = hx.Event("down", wall, terminal=True)
    run = hx.simulate(
        system,
        start,
        10.0,
        dt=1e-3,
        events=stop,
        save="end",
        formulation=formulation,
        integrator=integrator,
    )
    assert run.success and run.status == "event" and "'down'" in run.message
    # an error of h^2, of the second-order method, times the acceleration of gravity; or of h^4
    tolerance = 1e-5 if method == "GeneralizedAlpha" else 1e-10
    height = LENGTH * (1 - np.cos(np.radians(60.0)))
    assert run.events[0].t == pytest.approx(swing(height), abs=tolerance)
    assert run.t[-1] == run.events[0].t
    assert abs(run.q[-1, 0]) < 1e-14


@pytest.mark.slow
def test_a_thousand_impacts():
    """A ball that loses nothing: impacts at equal times, for as long as one likes."""
    ball = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: jnp.array([-2.0])
    )
    floor = hx.Event("floor", lambda t, q, v: q[0], direction="falling", change=hx.Impact(1.0))
    start = hx.consistent(ball, [1.0])
    run = hx.simulate(ball, start, 2001.0, events=floor, rtol=1e-10, save="end")
    assert len(run.events) == 1001 - 1
    times = np.array([event.t for event in run.events])
    # the motion is a polynomial, so only rounding is left, gathered over a thousand impacts
    np.testing.assert_allclose(times, 1 + 2 * np.arange(1000), atol=1e-9)


def test_an_event_at_the_very_start_and_two_at_the_same_time():
    two = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2), force=lambda q, v, t, p: jnp.array([-2.0, -2.0])
    )
    events = [
        hx.Event("left", lambda t, q, v: q[0], direction="falling", change=hx.Impact(1.0)),
        hx.Event("right", lambda t, q, v: q[1], direction="falling", change=hx.Impact(1.0)),
    ]
    start = hx.consistent(two, [0.0, 0.0], [-1.0, -1.0])
    run = hx.simulate(two, start, 3.5, events=events, rtol=1e-10)
    assert [(e.name, round(e.t, 9)) for e in run.events] == [
        (name, t) for t in (0.0, 1.0, 2.0, 3.0) for name in ("left", "right")
    ]
    # one that starts at zero and leaves it upwards has nothing to do with the floor
    leaving = hx.consistent(two, [0.0, 0.0], [1.0, 1.0])
    run = hx.simulate(two, leaving, 0.5, events=events, rtol=1e-10)
    assert run.events == []


def test_an_event_that_changes_nothing_only_records():
    ball = hx.FunctionSystem(mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: -q)
    cross = hx.Event("zero", lambda t, q, v: q[0])
    rising = hx.Event("rising", lambda t, q, v: q[0], direction="rising")
    start = hx.consistent(ball, [1.0])
    run = hx.simulate(ball, start, 12.0, events=[cross, rising], rtol=1e-11, save="end")
    times = {n: [e.t for e in run.events if e.name == n] for n in ("zero", "rising")}
    np.testing.assert_allclose(times["zero"], np.pi * (np.arange(4) + 0.5), atol=1e-8)
    np.testing.assert_allclose(times["rising"], np.pi * np.array([1.5, 3.5]), atol=1e-8)


def test_a_state_changed_by_a_function_is_projected(pendulum):
    system, start = pendulum
    kick = hx.Event("kick", wall, change=lambda t, q, v: (1.01 * q, v + jnp.array([0.5, 7.0])))
    run = hx.simulate(system, start, 1.0, events=kick, rtol=1e-9)
    event = run.events[0]
    np.testing.assert_allclose(event.q, [0.0, -1.0], atol=1e-9)
    np.testing.assert_allclose(event.v, [event.v_before[0] + 0.5, 0.0], atol=1e-9)


def test_an_event_that_spoils_the_state_stops_the_run(pendulum):
    system, start = pendulum
    bad = hx.Event("bad", wall, change=lambda t, q, v: (q, v / 0.0))
    run = hx.simulate(system, start, 1.0, events=bad, rtol=1e-9)
    assert not run.success and "'bad'" in run.message
    assert np.all(np.isfinite(run.q)) and run.t[-1] == pytest.approx(0.536, abs=1e-2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: hx.Event("", wall), "name"),
        (lambda: hx.Event("a", 3), "'a'.*not a function"),
        (lambda: hx.Event("a", wall, direction="down"), "direction"),
        (lambda: hx.Event("a", wall, change=3), "Impact"),
        (lambda: hx.Impact(1.5), "restitution"),
        (lambda: hx.Impact(0.5, rest="wait"), "hold.*stop"),
        (lambda: hx.Event("a", lambda t, q, v: q), "one number"),
        (lambda: hx.Event("a", lambda t, q: q[0]), "its function fails"),
        (lambda: hx.Event("a", wall, bodies="rod"), "hx.Model"),
        (lambda: hx.Event("a", wall, engage="latch"), "not a joint"),
        (lambda: hx.Event("a", lambda t, q, v: v[0], change=hx.Impact()), "depends on velocities"),
        (lambda: hx.Event("a", wall, change=lambda t, q, v: q), "change"),
        (lambda: hx.Event("a", wall, change=lambda t, q, v: (v[:1], v)), "shape"),
        (lambda: [hx.Event("a", wall), hx.Event("a", wall)], "two events are called"),
        (lambda: ["a"], "must be an hx.Event"),
    ],
)
def test_bad_events_are_refused(pendulum, make, words):
    system, start = pendulum
    with pytest.raises((ValueError, TypeError), match=words):
        hx.simulate(system, start, 1.0, rtol=1e-6, events=make())


def latched(engage="latch", release="elbow"):
    """Two links that swing down; when they are in line a latch makes them one."""
    model = hx.Model(gravity=(0.0, -9.81))
    upper = model.planar_body("upper", hx.rod(1.0, mass=2.0), position=(0.5, 0.0))
    lower = model.planar_body("lower", hx.rod(1.0, mass=1.0), position=(1.5, 0.0))
    model.revolute("pivot", model.ground, upper, at=(0.0, 0.0))
    model.revolute("elbow", upper, lower, at=(1.0, 0.0))
    model.fixed("latch", upper, lower, at=(1.0, 0.0))
    return model


def bend(upper, lower, t):
    return lower.angle - upper.angle


@pytest.mark.slow
def test_a_latch_engages_by_an_impulse_and_is_released_again():
    model = latched()
    close = hx.Event(
        "close",
        bend,
        bodies=("upper", "lower"),
        direction="rising",
        engage="latch",
        release="elbow",
    )
    part = hx.Event("part", lambda t, q, v: t - 1.5, engage="elbow", release="latch")
    run = model.simulate(1.8, rtol=1e-9, released=["latch"], events=[close, part])
    assert run.success
    assert [e.name for e in run.events] == ["close", "part"]
    closed, opened = run.events
    assert opened.t == pytest.approx(1.5, abs=1e-14)
    turn = lambda v: v[4:]  # noqa: E731  angular velocities of the two links
    assert abs(np.diff(turn(closed.v_before))[0]) > 0.1
    np.testing.assert_allclose(np.diff(turn(closed.v)), 0.0, atol=1e-12)
    # the impulse acts between the links, so the moment of momentum about the pivot stays
    momentum = run.momentum()[1][:, 2]
    (at,) = np.flatnonzero(run.t == closed.t)[:1]
    assert momentum[at] == pytest.approx(momentum[at + 1], rel=1e-12)
    together = (run.t > closed.t) & (run.t < opened.t)
    assert np.max(np.abs(run["upper"].angle - run["lower"].angle)[together]) < 1e-12
    # the reaction of a joint that does not act is zero
    torque = run.reaction("latch").torque
    assert np.all(torque[run.t < closed.t] == 0) and np.max(np.abs(torque[together])) > 0.1
    assert np.all(run.reaction("elbow").force[together] == 0)
    assert max(x.max() for x in run.drift()) < 1e-12
    lost = run.energy.total[at] - run.energy.total[at + 1]
    assert lost > 0.01  # a plastic impact takes energy
    assert np.max(np.abs(run.energy.balance)) < 1e-6


def rotor(rate):
    """A shaft that turns freely, at `rate` rad/s from an angle of 0.1 rad."""
    shaft = hx.FunctionSystem(mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: jnp.zeros(1))
    return shaft, hx.consistent(shaft, [0.1], [rate])


@pytest.mark.parametrize("steps", [{"rtol": 1e-6}, {"dt": 0.1}], ids=["error", "equal"])
def test_events_that_happen_many_times_within_a_step_are_all_found(steps):
    shaft, start = rotor(100.0)
    events = [
        hx.Event(kind, lambda t, q, v: jnp.sin(q[0]), direction=kind)
        for kind in ("falling", "rising")
    ]
    run = hx.simulate(shaft, start, 5.0, events=events, save="end", **steps)
    turns = np.arange(1, 160)  # 500 rad are 159 times pi
    np.testing.assert_allclose([e.t for e in run.events], (turns * np.pi - 0.1) / 100, atol=1e-13)
    assert [e.name for e in run.events] == [("rising", "falling")[k % 2] for k in turns]


def test_a_function_that_dips_below_zero_and_back_within_a_step_is_seen():
    """A thrown ball is above 1.999 m of its 2 m for 0.06 s, in the middle of one long step."""
    ball = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: jnp.array([-2.0])
    )
    high = hx.Event("high", lambda t, q, v: 1.999 - q[0])
    run = hx.simulate(ball, hx.consistent(ball, [1.0], [2.0]), 3.0, dt=2.7, events=high)
    np.testing.assert_allclose([e.t for e in run.events], 1 + np.sqrt(0.001) * np.array([-1, 1]))


@pytest.mark.parametrize("steps", [{"rtol": 1e-6}, {"dt": 0.01}], ids=["error", "equal"])
def test_a_function_that_is_not_a_number_stops_the_run_by_name(steps):
    ball = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: jnp.array([-2.0])
    )
    root = hx.Event("root", lambda t, q, v: jnp.sqrt(q[0]) + 1.0)
    run = hx.simulate(ball, hx.consistent(ball, [1.0]), 5.0, events=root, **steps)
    assert not run.success and run.status == "event"
    assert "'root'" in run.message and "not finite" in run.message
    assert run.t[-1] == pytest.approx(1.0, abs=1e-6) and np.all(np.isfinite(run.q))
    run = hx.simulate(ball, hx.consistent(ball, [-1.0]), 5.0, events=root, **steps)
    assert not run.success and "'root'" in run.message and run.t[-1] == 0
