"""Contacts: bodies that fall, bounce, rest, slide, rock and leave are never on the wrong side."""

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.run.events.contact import pushes

STEPS = pytest.mark.parametrize("steps", [{"rtol": 1e-8}, {"dt": 0.02}], ids=["error", "equal"])


@pytest.fixture(scope="module")
def ball():
    """A unit mass in the plane, pulled to the right a little and down."""
    return hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2),
        force=lambda q, v, t, p: jnp.stack([p["pull"], p["weight"]]),
        parameters={"pull": 0.0, "weight": -2.0},
    )


def height(t, q, v):
    return q[1]


def floor(restitution, **options):
    return hx.Event("floor", height, direction="falling", change=hx.Impact(restitution, **options))


def what(run):
    return [(event.name, event.what) for event in run.events]


@STEPS
def test_a_body_that_falls_without_restitution_stays_on_the_floor(ball, steps):
    start = hx.consistent(ball, [0.0, 1.0], [3.0, 0.0])
    run = hx.simulate(ball, start, 5.0, events=floor(0.0), **steps)
    assert run.success and what(run) == [("floor", "rest")]
    assert run.events[0].t == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(run.q[-1], [15.0, 0.0], atol=1e-12)
    assert np.min(run.q[:, 1]) > -1e-14
    np.testing.assert_allclose(run.contact("floor")[run.t > 1.001], 2.0, rtol=1e-12)
    assert np.all(run.contact("floor")[run.t < 0.999] == 0)


@STEPS
def test_a_body_at_rest_on_the_floor_at_the_start_stays(ball, steps):
    run = hx.simulate(
        ball, hx.consistent(ball, [0.0, 0.0], [1.0, 0.0]), 5.0, events=floor(0.5), **steps
    )
    assert run.success and what(run) == [("floor", "rest")]
    np.testing.assert_allclose(run.q[-1], [5.0, 0.0], atol=1e-12)


@STEPS
@pytest.mark.parametrize("restitution", [0.3, 0.8])
def test_bounces_that_become_ever_smaller_end_at_rest(ball, steps, restitution):
    """Dropped from 1 m at 2 m/s², the times add up to 1 + 2 e / (1 - e)."""
    run = hx.simulate(
        ball, hx.consistent(ball, [0.0, 1.0]), 12.0, events=floor(restitution), **steps
    )
    assert run.success
    assert [w for _, w in what(run)] == ["impact"] * (len(run.events) - 1) + ["rest"]
    slack = 1e-10
    # what is cut off are flights lower than the slack: shorter than 2 sqrt(slack) / (1 - e)
    end = 1 + 2 * restitution / (1 - restitution)
    assert run.events[-1].t == pytest.approx(end, abs=3 * np.sqrt(slack) / (1 - restitution))
    times = 1 + 2 * np.cumsum(restitution ** np.arange(1, 6))
    np.testing.assert_allclose([e.t for e in run.events[1:6]], times, atol=1e-9)
    assert np.min(run.q[:, 1]) > -2 * slack and run.q[-1, 1] == pytest.approx(0.0, abs=1e-14)


def test_a_run_ends_at_rest_if_that_is_asked_for(ball):
    run = hx.simulate(
        ball, hx.consistent(ball, [0.0, 1.0]), 9.0, events=floor(0.5, rest="stop"), rtol=1e-8
    )
    assert run.success and run.status == "rest" and "'floor' has come to rest" in run.message
    assert run.t[-1] == pytest.approx(3.0, abs=1e-4)
    np.testing.assert_allclose(run.v[-1], 0.0, atol=1e-12)
    run = hx.simulate(
        ball, hx.consistent(ball, [0.0, 0.0]), 9.0, events=floor(0.5, rest="stop"), rtol=1e-8
    )
    assert run.status == "rest" and run.t.tolist() == [0.0]


@STEPS
def test_a_body_on_a_shaken_table_leaves_it_and_lands_again(ball, steps):
    """It leaves when the table falls faster than 2 m/s²: 3.6 sin 6t = 2."""
    table = hx.Event(
        "table",
        lambda t, q, v: q[1] - 0.1 * jnp.sin(6 * t),
        direction="falling",
        change=hx.Impact(0.0),
    )
    run = hx.simulate(ball, hx.consistent(ball, [0.0, 0.0], [0.0, 0.6]), 3.0, events=table, **steps)
    assert run.success
    assert [w for _, w in what(run)] == ["rest", "release"] * 3 + ["rest"]
    leaving = np.array([e.t for e in run.events if e.what == "release"])
    expected = np.arcsin(2 / 3.6) / 6 + np.arange(3) * np.pi / 3
    np.testing.assert_allclose(leaving, expected, atol=1e-8)
    landing = next(e.t for e in run.events if e.what == "rest" and e.t > 0.2)
    t, t0 = landing, leaving[0]
    flight = 0.1 * np.sin(6 * t0) + 0.6 * np.cos(6 * t0) * (t - t0) - (t - t0) ** 2
    assert flight == pytest.approx(0.1 * np.sin(6 * t), abs=1e-8)
    assert np.min(run.q[:, 1] - 0.1 * np.sin(6 * run.t)) > -1e-9


@pytest.mark.slow
def test_a_body_that_slides_over_an_edge_falls_on():
    """Down a hill that becomes steeper than a thrown body falls."""
    body = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2), force=lambda q, v, t, p: jnp.array([0.0, -10.0])
    )
    hill = hx.Event(
        "hill",
        lambda t, q, v: q[1] + q[0] ** 2 / 2 + q[0] ** 4 / 4,
        direction="falling",
        change=hx.Impact(0.0),
    )
    run = hx.simulate(
        body, hx.consistent(body, [0.0, 0.0], [1.0, 0.0]), 1.0, events=hill, rtol=1e-9
    )
    gap = run.q[:, 1] + run.q[:, 0] ** 2 / 2 + run.q[:, 0] ** 4 / 4
    assert run.success and what(run) == [("hill", "rest"), ("hill", "release")]
    # it leaves where the curvature needs all of the weight: v_x² (1 + 3 x²) = 10, with the energy
    x, y = run.events[1].q
    vx, vy = run.events[1].v
    assert vx**2 * (1 + 3 * x**2) == pytest.approx(10.0, rel=1e-7)
    assert vx**2 + vy**2 == pytest.approx(1 - 20 * y, rel=1e-7)
    assert np.min(gap) > -1e-10 and gap[-1] > 1e-3


class Bar:
    """A uniform bar of 1 m and 1 kg over a floor, with a contact at each end."""

    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([1.0, 1.0, 1 / 12]),
        force=lambda q, v, t, p: jnp.array([0.0, -9.81, 0.0]),
        potential=lambda q, p: 9.81 * q[1],
    )

    @staticmethod
    def left(t, q, v):
        return q[1] - jnp.sin(q[2]) / 2

    @staticmethod
    def right(t, q, v):
        return q[1] + jnp.sin(q[2]) / 2

    @classmethod
    def run(cls, restitution, q, v=(0.0, 0.0, 0.0), **options):
        ends = [
            hx.Event(name, gap, direction="falling", change=hx.Impact(restitution))
            for name, gap in (("left", cls.left), ("right", cls.right))
        ]
        run = hx.simulate(cls.system, hx.consistent(cls.system, q, v), 5.0, events=ends, **options)
        assert run.success, run.message
        for sign in (-1, 1):
            assert np.min(run.q[:, 1] + sign * np.sin(run.q[:, 2]) / 2) > -4e-8
        assert np.max(np.diff(run.energy.total)) < 1e-7  # contacts take energy
        return run


def test_a_flat_bar_lands_on_both_ends_at_once():
    run = Bar.run(0.5, [0.0, 1.0, 0.0], rtol=1e-6)
    first = run.events[:2]
    assert [(e.name, e.what) for e in first] == [("left", "impact"), ("right", "impact")]
    fall = np.sqrt(2 / 9.81)
    np.testing.assert_allclose(first[0].v, [0.0, 0.5 * 9.81 * fall, 0.0], atol=1e-9)
    assert run.events[-1].what == run.events[-2].what == "rest"
    np.testing.assert_allclose(run.q[-1], 0.0, atol=1e-12)
    for end in ("left", "right"):
        assert run.contact(end)[-1] == pytest.approx(9.81 / 2, rel=1e-12)


def test_a_tilted_bar_falls_on_one_end_and_then_on_the_other():
    """At the first impact the end that hits stops; momentum about it stays."""
    run = Bar.run(0.0, [0.0, 1.0, 0.3], rtol=1e-9)
    assert what(run) == [("left", "rest"), ("right", "rest")]
    first = run.events[0]
    u, w = first.v_before[1], first.v[2]
    arm = np.cos(0.3) / 2
    impulse = -u / (1 + 12 * arm**2)
    assert first.v[1] == pytest.approx(u + impulse, rel=1e-9)
    assert w == pytest.approx(-12 * arm * impulse, rel=1e-9)
    np.testing.assert_allclose(run.q[-1], 0.0, atol=1e-12)


@pytest.mark.parametrize("restitution", [0.0, 0.3, 0.9, 1.0])
def test_a_rocking_bar_stays_above_the_floor(restitution):
    run = Bar.run(restitution, [0.0, np.sin(0.2) / 2, 0.2], rtol=1e-6)
    if restitution < 0.5:
        np.testing.assert_allclose(run.q[-1], 0.0, atol=1e-12)
    if restitution == 1.0:
        assert run.energy.total[-1] == pytest.approx(run.energy.total[0], rel=1e-5)


def test_a_ball_between_walls_that_close_jams_and_says_so():
    ball = hx.FunctionSystem(mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: jnp.zeros(1))
    walls = [
        hx.Event(
            "moving", lambda t, q, v: q[0] - 0.2 * t, direction="falling", change=hx.Impact(0.3)
        ),
        hx.Event("fixed", lambda t, q, v: q[0] - 1.0, direction="rising", change=hx.Impact(0.3)),
    ]
    run = hx.simulate(ball, hx.consistent(ball, [0.5], [1.0]), 8.0, events=walls, rtol=1e-6)
    assert not run.success and "'moving'" in run.message and "contradicts" in run.message
    assert run.t[-1] == pytest.approx(5.0, abs=1e-6)


def test_a_wall_that_counts_both_ways_is_passed_from_neither_side(ball):
    for side in (-1.0, 1.0):
        wall = hx.Event("wall", lambda t, q, v: q[0], change=hx.Impact(0.5))
        start = hx.consistent(ball, [side, 0.0], [-4.0 * side, 0.0])
        run = hx.simulate(ball, start, 2.0, events=wall, rtol=1e-8)
        assert run.success and len(run.events) == 1
        assert run.q[-1, 0] == pytest.approx(side * 2.0 * 1.75, rel=1e-9)


def test_a_body_on_the_wrong_side_is_refused_by_name(ball):
    run = hx.simulate(ball, hx.consistent(ball, [0.0, -0.1]), 1.0, events=floor(0.5), rtol=1e-6)
    assert not run.success and "'floor'" in run.message and "wrong side" in run.message
    assert "0.1" in run.message
    fall = hx.Event("fall", lambda t, q, v: t - 0.5, change=lambda t, q, v: (q - 5.0, v))
    start = hx.consistent(ball, [0.0, 1.0])
    run = hx.simulate(ball, start, 1.0, events=[floor(0.5), fall], rtol=1e-6)
    assert not run.success and "'floor'" in run.message and "wrong side" in run.message


def flap(restitution, **options):
    """A flap that falls on a stop below it."""
    model = hx.Model()
    model.planar_body("flap", hx.rod(0.8, mass=3.0), position=(0.4, 0.0))
    model.revolute("hinge", "ground", "flap", at=(0.0, 0.0))
    stop = hx.Event(
        "stop",
        lambda flap, t: flap.point(hx.Vec2(0.4, 0.0)).y + 0.4,
        bodies="flap",
        direction="falling",
        change=hx.Impact(restitution),
    )
    return model.simulate(2.0, events=stop, **options)


PAIRS = [
    (hx.PostStabilized("both", passes=2), hx.Dopri5()),
    (hx.Index3(), hx.GeneralizedAlpha(0.9)),
    (hx.GGL(), hx.RadauIIA(3)),
    (hx.NullSpace(), hx.RK4()),
]


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=[type(f).__name__ for f, _ in PAIRS])
def test_a_flap_rests_on_its_stop_with_any_formulation(pair):
    """Half of its weight is carried by the tip, half by the hinge."""
    formulation, integrator = pair
    run = flap(0.0, dt=0.01, formulation=formulation, integrator=integrator)
    assert run.success and what(run) == [("stop", "rest")]
    tip = run["flap"].point([0.4, 0.0])[:, 1]
    assert tip[-1] == pytest.approx(-0.4, abs=1e-10) and np.min(tip) > -0.4 - 1e-9
    assert run.contact("stop")[-1] == pytest.approx(3 * 9.81 / 2, rel=1e-6)
    np.testing.assert_allclose(run.reaction("hinge").force[-1], [0.0, 3 * 9.81 / 2], atol=1e-5)


def test_a_run_with_closed_contacts_resumes_to_the_bit(ball, tmp_path):
    event, start = floor(0.3), hx.consistent(ball, [0.0, 1.0], [0.1, 0.0])
    options = {"rtol": 1e-6, "save": np.linspace(0, 5, 101)}
    whole = hx.simulate(ball, start, 5.0, events=event, **options)
    hx.simulate(
        ball,
        start,
        5.0,
        events=event,
        **options,
        checkpoint=tmp_path / "run",
        checkpoint_every=1e-4,
    )
    again = hx.resume(tmp_path / "run", system=ball, events=event)
    np.testing.assert_array_equal(again.q, whole.q)
    assert np.min(whole.q[:, 1]) > -1e-7


def test_pushes_solve_the_complementarity_problem():
    """Against their definition, for random contacts, dependent ones among them."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = rng.integers(1, 8)
        N = rng.standard_normal((n, rng.integers(1, 7)))
        A = N @ N.T
        b = N @ rng.standard_normal(N.shape[1])  # in the range of A: there is a solution
        p = pushes(A, b)
        assert p is not None
        w = A @ p + b
        size = np.max(np.abs(b)) + np.max(np.abs(A))
        assert np.all(p >= 0) and np.all(w > -1e-9 * size) and abs(p @ w) < 1e-8 * size
    assert pushes(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([-1.0, 0.5])) is None
