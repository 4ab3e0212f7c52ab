"""Many runs at once are the single runs, each with its own end, and reductions of them.

The truth is `hx.simulate` of one run at a time, and closed forms. States agree to rounding, which
grows with the motion: a hundred steps of a slider-crank turn 1e-16 into some 1e-14.
"""

import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.many import roads
from holonax.run.status import Failure
from sections import in_part
from test_random_mechanisms import STRUCTURES, Draw

ROUNDING = 1e-11
many = hx.many


def slider_crank():
    return hx.examples.slider_crank()


def four_bar():
    model = hx.Model()
    model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.1, 0.0), angular_velocity=10.0)
    model.planar_body("coupler", hx.rod(0.5, mass=2.0), position=(0.4, 0.2), angle=0.9)
    model.planar_body("rocker", hx.rod(0.4, mass=1.5), position=(0.55, 0.2), angle=1.8)
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-0.1, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(0.1, 0.0), at_b=(-0.25, 0.0))
    model.revolute("C", "coupler", "rocker", at_a=(0.25, 0.0), at_b=(0.2, 0.0))
    model.revolute("D", "ground", "rocker", at_a=(0.6, 0.0), at_b=(-0.2, 0.0))
    return model.build(hold=["crank"], hold_velocity=["crank.angle"])


def pendulum(force=None, constraint=None):
    """A point on a rod of length l: q = (x, y)."""
    return hx.FunctionSystem(
        mass=lambda q, p: p["m"] * jnp.ones(2),
        force=force or (lambda q, v, t, p: p["m"] * jnp.array([0.0, -9.81])),
        constraint=constraint or (lambda q, t, p: jnp.array([(q @ q - p["l"] ** 2) / 2])),
        parameters={"m": 1.0, "l": 1.0},
    )


def assert_same(result, k, single, tol=ROUNDING):
    """Run k is the single one at its end."""
    assert single.success == result.success[k], (single.message, result.reason[k])
    scale = 1 + np.max(np.abs(single.q[-1])), 1 + np.max(np.abs(single.v[-1]))
    assert np.max(np.abs(result.q[k] - single.q[-1])) < tol * scale[0]
    assert np.max(np.abs(result.v[k] - single.v[-1])) < tol * scale[1]


# -- each run is the single one ------------------------------------------------------------------

EQUAL = {
    "RK4": (hx.PostStabilized("both", passes=2), hx.RK4()),
    "generalized-alpha": (hx.Index3(), hx.GeneralizedAlpha()),
    "GGL, Radau": (hx.GGL(), hx.RadauIIA()),
    "partitioning": (hx.CoordinatePartitioning(), hx.RK4()),
    "Adams": (hx.Baumgarte(10.0), hx.AdamsBashforth(4)),
}


@pytest.mark.parametrize("name", in_part(EQUAL, {"partitioning", "GGL, Radau"}))
def test_equal_steps_are_those_of_simulate(name):
    system, start = slider_crank()
    formulation, integrator = EQUAL[name]
    masses = np.linspace(0.8, 1.3, 11)
    given = {"dt": 1e-3, "formulation": formulation, "integrator": integrator}
    result = hx.ensemble(system, start, parameters={"m": masses}, t_end=0.05, **given)
    assert "lanes" in result.road and result.success.all()
    for k in (0, 6, 10):
        one = system.with_parameters(m=masses[k])
        assert_same(result, k, hx.simulate(one, start, 0.05, save="end", **given))


@pytest.mark.parametrize(
    "integrator, formulation",
    [(hx.Dopri5(), None), (hx.VariableBDF(), hx.GGL())],
    ids=["Dopri5", "VariableBDF"],
)
def test_steps_by_their_error_are_those_of_simulate(integrator, formulation):
    system, start = slider_crank()
    masses = np.linspace(0.5, 2.0, 9)
    given = {"rtol": 1e-7, "atol": 1e-9, "integrator": integrator, "formulation": formulation}
    result = hx.ensemble(system, start, parameters={"m": masses}, t_end=0.3, **given)
    assert "lanes" in result.road
    assert len(set(result.steps.tolist())) > 1  # each chooses its own
    for k in (0, 5, 8):
        single = hx.simulate(system.with_parameters(m=masses[k]), start, 0.3, save="end", **given)
        assert_same(result, k, single)
        assert abs(single.stats["steps"] - result.steps[k]) <= 1


def test_a_mechanism_of_a_model():
    system, start = four_bar()
    random = np.random.default_rng(1)
    values = {"coupler.mass": random.uniform(1, 3, 9), "gravity": random.normal(size=(9, 2))}
    result = hx.ensemble(system, start, parameters=values, t_end=0.1, dt=1e-3)
    for k in (0, 8):
        one = system.with_parameters({name: x[k] for name, x in values.items()})
        assert_same(result, k, hx.simulate(one, start, 0.1, dt=1e-3, save="end"))
    assert result.drift.max() < 1e-12


def chain(n):
    """Rods of 1 m in a row, hanging from the first by pins."""
    model = hx.Model()
    for k in range(n):
        model.planar_body(f"rod{k}", hx.rod(1.0, mass=1.0), position=(k + 0.5, 0.0))
        before = f"rod{k - 1}" if k else "ground"
        model.revolute(f"pin{k}", before, f"rod{k}", at=(float(k), 0.0))
    return model.build()


@pytest.mark.slow
def test_a_chain_of_ten_goes_in_lanes():
    """By elimination from block to block, lane by lane; a lane that fails stops alone."""
    system, start = chain(10)
    masses = np.linspace(0.5, 1.5, 9)
    masses[4] = 1e308  # too heavy for numbers
    result = hx.ensemble(system, start, parameters={"rod4.mass": masses}, t_end=0.02, dt=2e-3)
    assert "lanes" in result.road
    assert result.success.tolist() == [k != 4 for k in range(9)]
    for k in (0, 8):
        one = system.with_parameters({"rod4.mass": masses[k]})
        assert_same(result, k, hx.simulate(one, start, 0.02, dt=2e-3, save="end"))


def test_states_at_times_are_those_of_trajectory():
    system, start = slider_crank()
    times, masses = np.array([0.0, 0.03, 0.1, 0.11]), np.linspace(0.9, 1.1, 5)
    for steps in ({"dt": 2e-3}, {"rtol": 1e-7, "atol": 1e-9}):
        result = hx.ensemble(system, start, parameters={"m": masses}, times=times, **steps)
        assert result.q.shape == (5, 4, 4) and np.array_equal(result.t, times)
        for k in (0, 4):
            one = hx.trajectory(system.with_parameters(m=masses[k]), start, times, **steps)
            np.testing.assert_allclose(result.q[k], one.q, atol=ROUNDING)
            np.testing.assert_allclose(result.v[k], one.v, atol=100 * ROUNDING)


METHODS = {
    "RK4": {"dt": 2e-3},
    "Dopri5": {"rtol": 1e-6, "atol": 1e-8},
    "GGL, Radau": {"dt": 2e-3, "formulation": hx.GGL(), "integrator": hx.RadauIIA()},
}


def assert_random_mechanism(name, seed, method):
    """A random mechanism with masses and starts of its own in each run; all that the single runs
    do, good or bad, they do here."""
    draw = Draw(name, seed)
    make, _ = STRUCTURES[name]
    start = make(draw)
    try:
        system, built = draw.model.build()
    except (hx.ConstraintError, hx.ModelError):
        return
    start = built if start is None else start
    if start.redundant and method == "GGL, Radau":
        return
    options = METHODS[method]
    masses = [k for k in system.parameters() if k.endswith(".mass")]
    runs = 5
    factor = np.random.default_rng(seed).uniform(0.7, 1.4, (runs, len(masses)))
    values = {k: np.asarray(system.parameters()[k]) * factor[:, i] for i, k in enumerate(masses)}
    v = start.v * np.linspace(0.5, 1.5, runs)[:, None]
    result = hx.ensemble(
        system, (np.tile(start.q, (runs, 1)), v), parameters=values, t_end=0.1, **options
    )
    for k in range(0, runs, 2):
        one = system.with_parameters({name: x[k] for name, x in values.items()})
        begin = hx.consistent(one, start.q, v[k])
        single = hx.simulate(one, begin, 0.1, save="end", **options)
        # rounding grows by what the motion of stiff springs is sensitive to
        if single.status in ("end", "failure"):
            assert_same(result, k, single, tol=1e-7)


@pytest.mark.parametrize(
    "name, seed, method",
    [
        pytest.param("four_bar", 2, "RK4", marks=pytest.mark.slow),
        pytest.param("quick_return", 4, "Dopri5", marks=pytest.mark.slow),
        pytest.param("planar_tree", 1, "GGL, Radau", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_random_mechanisms(name, seed, method):
    assert_random_mechanism(name, seed, method)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.filterwarnings("ignore")
def test_more_random_mechanisms(name, method):
    for seed in (2, 3):
        assert_random_mechanism(name, seed, method)


# -- runs that fail ------------------------------------------------------------------------------


def test_a_run_that_fails_stops_alone():
    """A force that has no value left of x = a."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1),
        force=lambda q, v, t, p: -jnp.ones(1) + 1e-30 * jnp.sqrt(q - p["a"]),
        parameters={"a": -10.0},
    )
    a = np.array([-10.0, -0.125, -20.0, -0.5, -10.0])
    start = hx.consistent(system, [0.0])
    result = hx.ensemble(system, start, parameters={"a": a}, t_end=2.0, dt=0.01)
    assert result.success.tolist() == [True, False, True, False, True]
    np.testing.assert_allclose(result.q[result.success, 0], -2.0, atol=1e-12)
    # x = -t^2 / 2 comes to a at sqrt(-2 a); the last good state is before it
    for k in (1, 3):
        assert 0.95 * np.sqrt(-2 * a[k]) - 0.02 < result.ended[k] <= np.sqrt(-2 * a[k])
        assert result.q[k, 0] >= a[k]
        assert "non-finite" in result.reason[k]
    assert result.reason[0] == ""
    assert "2 (run 1, 3)" in repr(result)
    assert result.failed.tolist() == [1, 3]


def test_states_after_a_failure_are_not_numbers():
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1),
        force=lambda q, v, t, p: p["c"] * q**3,
        parameters={"c": 0.0},
    )
    start = hx.consistent(system, [1.0], [1.0])
    times = np.linspace(0, 4, 9)
    c = np.array([0.0, 50.0, -1.0])
    result = hx.ensemble(system, start, parameters={"c": c}, times=times, dt=0.01)
    assert result.success.tolist() == [True, False, True]
    np.testing.assert_allclose(result.q[0, :, 0], 1 + times, rtol=1e-13)
    good = times <= result.ended[1]
    assert np.array_equal(np.isfinite(result.q[1, :, 0]), good)
    assert np.all(np.isfinite(result.q[2]))


@pytest.mark.parametrize("by_function", [False, True])
def test_a_run_that_is_given_no_numbers_stops_alone(by_function):
    system, start = slider_crank()
    q, v = np.tile(start.q, (5, 1)), np.tile(start.v, (5, 1))
    m = np.array([1.0, np.nan, 1.1, np.inf, 0.9])
    q[0, 1] = v[4, 0] = np.nan
    starts, parameters = (q, v), {"m": m}
    if by_function:
        starts, parameters = (lambda n: (q[n], v[n])), (lambda n: {"m": m[n]})
        m[0], q[0] = 1.0, start.q  # what the functions are tried with
    result = hx.ensemble(system, starts, parameters=parameters, runs=5, t_end=0.1, dt=1e-2)
    good = [by_function, False, True, False, False]
    assert result.success.tolist() == good
    assert all("not finite" in x for x in result.reason[~result.success])
    alone = hx.simulate(system.with_parameters(m=1.1), start, 0.1, dt=1e-2, save="end")
    np.testing.assert_allclose(result.q[2], alone.q[-1], rtol=1e-12, atol=1e-14)


def test_a_run_with_too_many_steps_says_so():
    system, start = slider_crank()
    result = hx.ensemble(
        system, start, parameters={"m": np.ones(3)}, t_end=0.1, dt=1e-3, max_steps=20
    )
    assert not result.success.any() and "max_steps" in result.reason[0]
    np.testing.assert_allclose(result.ended, 0.02)


# -- starts ----------------------------------------------------------------------------------------


def test_starts_are_assembled_where_lengths_differ():
    system = pendulum()
    start = hx.consistent(system, [1.0, 0.0])
    lengths = np.linspace(0.5, 2.0, 7)
    times = np.linspace(0, 0.5, 3)
    result = hx.ensemble(system, start, parameters={"l": lengths}, times=times, dt=1e-3)
    assert result.success.all()
    # by the shortest way: along the rod
    np.testing.assert_allclose(result.q[:, 0], np.stack([lengths, 0 * lengths], 1), atol=1e-12)
    radius = np.linalg.norm(result.q, axis=2)
    np.testing.assert_allclose(radius, lengths[:, None] * np.ones(3), rtol=1e-12)


def test_a_mechanism_that_does_not_fit_together_is_named():
    system, start = four_bar()
    foot = np.tile(np.asarray(system.parameters()["D.at_a"]), (3, 1))
    foot[1, 0] = 3.0  # farther than the bars reach
    result = hx.ensemble(system, start, parameters={"D.at_a": foot}, t_end=0.01, dt=1e-3)
    assert result.success.tolist() == [True, False, True]
    assert "cannot be assembled" in result.reason[1]
    assert any(f"of {joint}" in result.reason[1] for joint in "ABCD")
    assert result.steps[1] == 0


def test_starts_by_rows_and_velocities_that_slide():
    system = pendulum()
    angles = np.linspace(-1, 1, 6)
    q = np.stack([np.sin(angles), -np.cos(angles)], axis=1)
    v = np.ones((6, 2))
    times = np.array([0.0, 0.2])
    result = hx.ensemble(system, (q, v), times=times, dt=1e-3)
    np.testing.assert_allclose(result.q[:, 0], q, atol=1e-12)
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    np.testing.assert_allclose(
        result.v[:, 0], along * np.sum(along * v, axis=1, keepdims=True), atol=1e-12
    )


def test_slow_velocities_that_slide_are_moved_as_well():
    """Along the rod 1e-10 m/s, below any absolute bound: the single run does not have it."""
    system = pendulum()
    v = np.array([[1e-10, 1e-7], [1e-3, 1.0], [1e-200, 1e-190]])
    result = hx.ensemble(system, (np.tile([1.0, 0.0], (3, 1)), v), t_end=0.1, rtol=1e-8)
    for k in range(3):
        start = hx.consistent(system, [1.0, 0.0], v[k], hold_velocity=[1])
        assert_same(result, k, hx.simulate(system, start, 0.1, rtol=1e-8, save="end"))
    assert result.rejected.max() < 5


def test_starts_and_parameters_by_functions_of_the_run():
    system, start = slider_crank()
    masses = np.linspace(0.8, 1.2, 40)
    seen = []

    def parameters(numbers):
        seen.append(numbers)
        return {"m": masses[numbers]}

    given = {"t_end": 0.02, "dt": 1e-3}
    one = hx.ensemble(system, start, parameters={"m": masses}, **given)
    two = hx.ensemble(system, start, parameters=parameters, runs=40, **given)
    starts = lambda n: (np.tile(start.q, (len(n), 1)), np.tile(start.v, (len(n), 1)))  # noqa: E731
    three = hx.ensemble(system, starts, parameters={"m": masses}, **given)
    assert np.array_equal(one.q, two.q)
    np.testing.assert_allclose(one.q, three.q, atol=1e-13)
    assert sorted(np.concatenate(seen[2:]).tolist()) == list(range(40))


def test_breaks_of_forces_are_hit_in_each_run():
    """A push of one newton that ends at 0.1 s."""
    push = hx.Pulse(0.0, 0.1)
    system = hx.FunctionSystem(
        mass=lambda q, p: p["m"] * jnp.ones(1),
        force=lambda q, v, t, p: push(t) * jnp.ones(1),
        parameters={"m": 1.0},
    )
    start = hx.consistent(system, [0.0])
    masses = np.array([1.0, 2.0, 4.0])
    for steps in ({"dt": 0.03}, {"rtol": 1e-8}):
        result = hx.ensemble(system, start, parameters={"m": masses}, t_end=1.0, **steps)
        np.testing.assert_allclose(result.v[:, 0], 0.1 / masses, rtol=1e-10)


# -- reductions ------------------------------------------------------------------------------------


def test_reductions_over_each_run():
    """A ball thrown up: its top, its mean height and when it comes down are known."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1),
        force=lambda q, v, t, p: -p["g"] * jnp.ones(1),
        parameters={"g": 10.0},
        coordinate_names=["height"],
    )
    g = np.array([5.0, 10.0, 20.0])
    start = hx.consistent(system, [0.0], [4.0])
    reduce = {
        "top": many.Largest("height"),
        "slowest": many.Smallest(lambda t, q, v: v[0]),
        "mean": many.Mean("height"),
        "falls": many.FirstPassage(lambda t, q, v: v[0]),
        "down": many.FirstPassage("height", level=-1.0),
        "never": many.FirstPassage("height", level=100.0),
        "way": many.Fold(
            lambda t, q, v: (jnp.zeros(()), q[0]),
            lambda seen, t0, t1, q, v: (seen[0] + jnp.abs(q[0] - seen[1]), q[0]),
            lambda seen, t: seen[0],
        ),
    }
    result = hx.ensemble(
        system, start, parameters={"g": g}, t_end=1.0, dt=1e-3, reduce=reduce, save="none"
    )
    assert result.q is None and "reduced" in repr(result)
    found = result.reduced
    np.testing.assert_allclose(found["top"], 8 / g, rtol=1e-5)
    np.testing.assert_allclose(found["slowest"], 4 - g, rtol=1e-12)
    np.testing.assert_allclose(found["mean"], 2 - g / 6, atol=1e-5)
    np.testing.assert_allclose(found["falls"], 4 / g, rtol=1e-12)
    down = (4 + np.sqrt(16 + 2 * g)) / g
    np.testing.assert_allclose(found["down"], np.where(down < 1, down, np.nan), rtol=1e-12)
    assert np.isnan(found["never"]).all()
    np.testing.assert_allclose(found["way"], np.abs(4 - g / 2 - 8 / g) + 8 / g, rtol=1e-4)


def test_bands_over_all_runs():
    system, start = slider_crank()
    masses = np.random.default_rng(0).uniform(0.5, 1.5, 37)
    times = np.linspace(0, 0.2, 5)
    observe = lambda t, q, v: jnp.stack([q[0], v[1], t])  # noqa: E731
    result = hx.ensemble(
        *(system, start),
        parameters={"m": masses},
        times=times,
        dt=1e-3,
        reduce={"band": many.Bands(observe)},
    )
    band = result.reduced["band"]
    seen = np.stack([result.q[..., 0], result.v[..., 1], np.tile(times, (37, 1))], axis=2)
    np.testing.assert_allclose(band.mean, seen.mean(axis=0), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(band.std, seen.std(axis=0, ddof=1), rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(band.largest, seen.max(axis=0))
    np.testing.assert_array_equal(band.smallest, seen.min(axis=0))
    assert band.count.tolist() == [37] * 5


# -- on the way ------------------------------------------------------------------------------------


def test_an_interrupt_returns_what_is_finished():
    system, start = slider_crank()

    def stop(now):
        assert 0 < now.done <= now.runs and "runs" in str(now)
        raise KeyboardInterrupt

    masses = lambda n: {"m": 1 + 1e-3 * (n % 7)}  # noqa: E731
    began = time.perf_counter()
    result = hx.ensemble(
        *(system, start), parameters=masses, runs=1_000_000, t_end=10.0, dt=1e-3, progress=stop
    )
    assert time.perf_counter() - began < 60
    assert 0 < np.count_nonzero(result.success) < 1_000_000
    assert result.stats["interrupted"]
    assert "interrupted" in result.reason[result.failed[-1]]
    assert np.isnan(result.q[result.failed]).all()
    assert threading.active_count() < 20


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(threads):
    system, start = slider_crank()
    masses = np.linspace(0.5, 1.5, 100)
    given = {"parameters": {"m": masses}, "t_end": 0.02, "dt": 1e-3}
    result = hx.ensemble(system, start, threads=threads, **given)
    np.testing.assert_array_equal(result.q, hx.ensemble(system, start, threads=2, **given).q)


def test_what_the_compiler_does_not_take_goes_by_xla():
    system = pendulum(
        force=lambda q, v, t, p: (
            p["m"]
            * jnp.array([0.0, -9.81])
            * jnp.linalg.svd(jnp.eye(2) * 1.0 + 0 * q, compute_uv=False)[0]
        )
    )
    start = hx.consistent(system, [1.0, 0.0])
    masses = np.linspace(1, 2, 3)
    result = hx.ensemble(system, start, parameters={"m": masses}, t_end=0.05, dt=1e-3)
    assert "XLA" in result.road and "svd" in result.road
    known = roads._by_xla.cache_info().misses
    again = hx.ensemble(system, start, parameters={"m": masses + 1}, t_end=0.05, dt=1e-3)
    assert roads._by_xla.cache_info().misses == known and again.success.all()
    single = hx.simulate(pendulum(), start, 0.05, dt=1e-3, save="end")
    for k in range(3):
        assert_same(result, k, single)


def test_a_run_can_be_done_once_more():
    system, start = slider_crank()
    masses = np.linspace(0.8, 1.2, 4)
    result = hx.ensemble(system, start, parameters={"m": masses}, t_end=0.1, dt=1e-3)
    single = result.rerun(2)
    assert isinstance(single, hx.Result) and len(single.t) == 101
    assert_same(result, 2, single)
    with pytest.raises(ValueError, match="no run 4"):
        result.rerun(4)


@pytest.mark.slow
def test_redundant_constraints():
    model = hx.Model()
    model.planar_body("coupler", 1.0, 0.1, position=(0.5, 1.0))
    for k in range(3):
        model.planar_body(f"bar {k}", 0.2, 0.01, position=(0.5 * k, 0.5), angle=np.pi / 2)
        model.revolute(f"foot {k}", "ground", f"bar {k}", at=(0.5 * k, 0.0))
        model.revolute(f"top {k}", f"bar {k}", "coupler", at=(0.5 * k, 1.0))
    system, start = model.build()
    assert start.redundant
    values = {"coupler.mass": np.array([1.0, 2.0]), "gravity": np.array([[1.0, -9.81]] * 2)}
    result = hx.ensemble(system, start, parameters=values, t_end=0.05, dt=1e-3)
    for k in range(2):
        one = system.with_parameters({name: x[k] for name, x in values.items()})
        assert_same(result, k, hx.simulate(one, start, 0.05, dt=1e-3, save="end"))
    with pytest.raises(ValueError, match="redundant"):
        hx.ensemble(system, start, parameters=values, t_end=0.05, dt=1e-3, formulation=hx.Index3())


# -- bad input -------------------------------------------------------------------------------------

GOOD = {"parameters": {"m": np.ones(3)}, "t_end": 0.1, "dt": 1e-2}
BAD = {
    "no runs": ({"parameters": {"m": np.ones(0)}}, ValueError, "empty"),
    "runs that do not agree": ({"runs": 4}, ValueError, "runs=4"),
    "rows that do not agree": (
        {"parameters": {"m": np.ones(3), "g": np.ones(4)}},
        ValueError,
        "'g'.*4",
    ),
    "a number for all": ({"parameters": {"m": 1.0}}, ValueError, "with_parameters"),
    "another shape": ({"parameters": {"m": np.ones((3, 2))}}, ValueError, r"\(runs,\)"),
    "an unknown name": ({"parameters": {"mm": np.ones(3)}}, KeyError, "mean 'm'"),
    "no dictionary": ({"parameters": 3}, TypeError, "dictionary"),
    "nothing differs": ({"parameters": None}, ValueError, "nothing differs"),
    "a number of equal runs": ({"parameters": None, "runs": 3}, ValueError, "nothing differs"),
    "functions without runs": ({"parameters": lambda n: {"m": n + 1.0}}, ValueError, "runs"),
    "a function that fails": (
        {"parameters": lambda n: 1 / 0, "runs": 3},
        ValueError,
        "ZeroDivisionError",
    ),
    "no end": ({"t_end": None}, ValueError, "t_end"),
    "both ends": ({"times": [0.0, 1.0]}, ValueError, "t_end"),
    "an early end": ({"t_end": -1.0}, ValueError, "later end"),
    "times from elsewhere": ({"t_end": None, "times": [0.5, 1.0]}, ValueError, "the start"),
    "no steps": ({"dt": None}, ValueError, "rtol"),
    "both steps": ({"rtol": 1e-6}, ValueError, "rtol"),
    "no error estimate": (
        {"dt": None, "rtol": 1e-6, "integrator": hx.RK4()},
        ValueError,
        "error estimate",
    ),
    "another device": ({"device": "tpu"}, ValueError, "'gpu'"),
    "no reduction": ({"reduce": {"top": max}}, TypeError, "hx.many.Largest"),
    "an unknown coordinate": ({"reduce": {"top": many.Largest("zz")}}, KeyError, "crank"),
    "a reduction that fails": (
        {"reduce": {"top": many.Largest(lambda t, q, v: q[0] + jnp.ones(3) @ q)}},
        ValueError,
        "'top'",
    ),
    "an unknown argument": ({"parametres": {}}, TypeError, "parameters"),
    "no threads": ({"threads": 0}, ValueError, "threads"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(name):
    changes, error, words = BAD[name]
    system, start = slider_crank()
    with pytest.raises(error, match=words) as caught:
        hx.ensemble(system, start, **{**GOOD, **changes})
    text = str(caught.value)
    assert len(text) < 400 and "Traceback" not in text


@pytest.mark.parametrize(
    "starts, words",
    [
        (3, "not a start"),
        ((np.zeros((3, 4)), np.zeros((2, 4))), "do not agree"),
        ((np.zeros((3, 4)), np.zeros((3, 5))), "do not fit"),
        ((np.zeros((2, 3, 4)), np.zeros((3, 4))), "shape"),
        (lambda n: (np.zeros((1, 4)), np.zeros((2, 4))), "rows"),
        ((np.full((3, 4), np.nan), np.zeros(4)), "no start is made of finite numbers"),
        ((np.full(4, np.nan), np.zeros((3, 4))), "finite"),
    ],
)
def test_bad_starts_are_one_sentence(starts, words):
    system, _ = slider_crank()
    with pytest.raises((ValueError, TypeError), match=words):
        hx.ensemble(system, starts, **GOOD)


def test_a_gpu_that_is_not_there_is_one_sentence():
    system, start = slider_crank()
    from holonax.many.gpu import driver_trouble

    if driver_trouble() is None:
        pytest.skip("there is one")
    with pytest.raises(RuntimeError, match="GPU"):
        hx.ensemble(system, start, **GOOD, device="gpu")


def test_codes_have_sentences():
    for name in ("NOT_ASSEMBLED", "TOO_MANY", "INTERRUPTED"):
        assert Failure[name].sentence


def test_quantities_of_a_mechanism_are_observed_by_name():
    """Of each run's own numbers: the force of a spring follows from its stiffness there."""
    model = hx.Model(gravity=(0.0, 0.0))
    model.planar_body("block", hx.point_mass(1.0), position=(1.0, 0.0))
    model.spring_damper("spring", "ground", "block", at=((0, 0), (1, 0)), stiffness=1.0, length=0.5)
    system, start = model.build()
    stiffness = np.array([1.0, 4.0, 9.0])
    result = hx.ensemble(
        *(system, start),
        parameters={"spring.stiffness": stiffness},
        t_end=2.0,
        dt=1e-3,
        reduce={
            "least force": many.Smallest("spring.force"),
            "speed": many.Largest(lambda t, q, v: jnp.abs(v[0])),
            "turns": many.FirstPassage("block.position.x", level=0.5),
        },
        save="none",
    )
    found, rate = result.reduced, np.sqrt(stiffness)
    np.testing.assert_allclose(found["least force"], -0.5 * stiffness, rtol=1e-6)
    np.testing.assert_allclose(found["speed"], 0.5 * rate, rtol=1e-6)
    np.testing.assert_allclose(found["turns"], np.pi / 2 / rate, rtol=1e-11)
    with pytest.raises(KeyError, match=r"spring\.force"):
        reduce = {"x": many.Largest("spring.forces")}
        hx.ensemble(
            *(system, start), parameters={"block.mass": [1.0]}, t_end=1.0, dt=0.1, reduce=reduce
        )
