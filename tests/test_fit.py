"""Parameters are found again from motions computed with them, with the uncertainty of the noise.

Data come from `hx.simulate` with other steps; noise is drawn. With noise of deviation sigma the
estimates scatter as the covariance says: their distance from the truth in its units is chi-squared.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx


def oscillator(k=30.0, c=0.4):
    """A mass on a spring with a damper."""
    return hx.FunctionSystem(
        mass=lambda q, p: p["m"] * jnp.ones(1),
        force=lambda q, v, t, p: -p["k"] * q - p["c"] * v,
        parameters={"m": 1.0, "k": k, "c": c},
    )


TIMES = np.linspace(0.0, 2.0, 81)
START = (np.array([0.1]), np.array([0.0]))


def exact(k, c, m=1.0):
    decay, rate = c / (2 * m), np.sqrt(k / m - (c / (2 * m)) ** 2)
    wave = np.cos(rate * TIMES) + decay / rate * np.sin(rate * TIMES)
    return 0.1 * np.exp(-decay * TIMES) * wave


def position(motion):
    return motion.q[:, 0]


def test_stiffness_and_damping_of_an_oscillator():
    found = hx.fit(
        *(oscillator(30.0, 0.4), START, TIMES, exact(37.0, 0.9)),
        parameters=["k", "c"],
        observe=position,
        dt=2e-3,
    )
    assert found.success
    assert abs(found.values["k"] - 37.0) < 1e-6 and abs(found.values["c"] - 0.9) < 1e-6
    assert float(found.system.parameters()["k"]) == found.values["k"]
    assert "k = 37" in str(found)


@pytest.mark.slow
def test_the_covariance_is_that_of_the_scatter():
    """Twenty draws of noise: the mean of chi-squared with two degrees of freedom is 2."""
    random, sigma, truth = np.random.default_rng(0), 1e-3, np.array([37.0, 0.9])
    distances = []
    for _ in range(20):
        data = exact(*truth) + sigma * random.standard_normal(TIMES.size)
        given = {"parameters": ["k", "c"], "observe": position, "dt": 2e-3}
        found = hx.fit(oscillator(), START, TIMES, data, sigma=sigma, **given)
        off = np.array([found.values["k"], found.values["c"]]) - truth
        distances.append(off @ np.linalg.solve(found.covariance, off))
    assert 1.0 < np.mean(distances) < 3.3  # 2 +- 3 * 2 / sqrt(20)
    alone = hx.fit(oscillator(), START, TIMES, data, **given)  # sigma from what is left
    np.testing.assert_allclose(alone.std["k"], found.std["k"], rtol=0.3)


def test_what_data_do_not_tell_is_said():
    """Free vibration depends on k/m and c/m only."""
    found = hx.fit(
        *(oscillator(), START, TIMES, exact(37.0, 0.9)),
        parameters=["m", "k", "c"],
        observe=position,
        dt=2e-3,
    )
    assert "do not tell" in found.message
    assert np.isinf(found.std["m"]) and np.isinf(found.std["k"])
    assert abs(found.values["k"] / found.values["m"] - 37.0) < 1e-5


def test_bounds_are_kept():
    found = hx.fit(
        *(oscillator(), START, TIMES, exact(37.0, 0.9)),
        parameters=["k", "c"],
        observe=position,
        dt=2e-3,
        bounds={"k": (20.0, 35.0)},
    )
    assert 34.9 < found.values["k"] <= 35.0


@pytest.mark.slow
def test_a_mechanism_with_a_closed_loop():
    """The masses of a slider-crank from its crank's angle, by the name of the quantity."""
    model = hx.Model()
    model.planar_body("crank", hx.rod(0.3, mass=1.0), position=(0.15, 0.0), angular_velocity=8.0)
    model.planar_body("rod", hx.rod(0.5, mass=1.0), position=(0.5, 0.1), angle=-0.3)
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-0.15, 0.0))
    model.revolute("B", "crank", "rod", at_a=(0.15, 0.0), at_b=(-0.25, 0.0))
    model.pin_in_slot("C", "ground", "rod", at_a=(0.0, 0.0), at_b=(0.25, 0.0), direction=(1.0, 0.0))
    system, start = model.build(hold=["crank"], hold_velocity=["crank.angle"])
    times = np.linspace(0.0, 0.5, 26)
    truth = system.with_parameters({"rod.mass": 1.7})
    data = hx.simulate(truth, start, 0.5, rtol=1e-9, save=times).quantity("crank.angle")
    found = hx.fit(
        *(system, start, times, data),
        parameters="rod.mass",
        observe="crank.angle",
        dt=2e-3,
        bounds={"rod.mass": (0.1, 10.0)},
    )
    assert abs(found.values["rod.mass"] - 1.7) < 1e-5


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"parameters": ["stiffness"]}, KeyError, "there are"),
        ({"parameters": []}, KeyError, "nothing"),
        ({"data": np.zeros(5)}, ValueError, "shape"),
        ({"sigma": -1.0}, ValueError, "positive"),
        ({"bounds": {"k": (3.0, 1.0)}}, ValueError, "least, most"),
        ({"bounds": {"x": (1.0, 3.0)}}, ValueError, "bounds"),
        ({"observe": 3}, TypeError, "observe"),
        ({"observe": "crank.angle"}, TypeError, "Trajectory"),
        ({"dt": None}, ValueError, "dt"),
        ({"max_runs": 0}, ValueError, "max_runs"),
        ({"paramters": 1}, TypeError, "parameters"),
    ],
)
def test_bad_input_is_one_sentence(changes, error, words):
    given = {"data": exact(37.0, 0.9), "parameters": ["k"], "observe": position, "dt": 2e-3}
    with pytest.raises(error, match=words):
        hx.fit(oscillator(), START, TIMES, **{**given, **changes})
