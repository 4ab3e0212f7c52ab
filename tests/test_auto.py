"""`method="auto"`: the cheaper of two methods, recognised on the way, with its reasons."""

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import auto, examples, study


def names(run):
    return [choice.method.rsplit(" ", 1)[1] for choice in run.choices]


def steps_with(run, integrator):
    """Steps that a method has taken, from the legs of the saved states."""
    legs = [k for k, leg in enumerate(run.legs) if isinstance(leg.integrator, integrator)]
    return int(np.sum(np.isin(run.leg, legs)))


def test_a_motion_that_is_not_stiff_stays_explicit():
    system, start = examples.slider_crank()
    run = hx.simulate(system, start, 20.0, rtol=1e-7, method="auto")
    plain = hx.simulate(system, start, 20.0, rtol=1e-7)
    assert names(run) == ["Dopri5"]
    # looking does not touch the motion
    np.testing.assert_array_equal(run.q, plain.q)
    tight = hx.simulate(system, start, 2.0, rtol=1e-10, method="auto")
    assert names(tight) == ["Dop853"]


def test_a_stiff_motion_is_recognised():
    """Springs of 1e6 times the weight: the explicit method is held by stability, 2e-4 s, where the
    motion allows steps of 1e-2 s."""
    system, start = examples.stiff_double_pendulum()
    run = hx.simulate(system, start, 2.0, rtol=1e-6, method="auto")
    assert run.success
    assert names(run) == ["Dopri5", "VariableBDF", "VariableBDF"]
    assert "limit of stability" in run.choices[1].reason
    explicit = hx.simulate(system, start, 2.0, rtol=1e-6, save="end")
    assert run.stats["steps"] < explicit.stats["steps"] / 10
    exact = study.reference_solution(system, start, 2.0, 5e-5)
    # tolerance per step 1e-6, some hundred steps of order 5
    assert np.max(np.abs(run.q[-1] - exact.q[-1])) < 1e-4
    text = str(run)
    assert "chosen" in text and "VariableBDF" in text
    # the same choices, and the same bits, each time
    again = hx.simulate(system, start, 2.0, rtol=1e-6, method="auto")
    np.testing.assert_array_equal(run.q, again.q)


def test_it_costs_at_most_one_and_a_half_of_the_better_method():
    """In units of explicit steps, an implicit one counting as many as it costs."""
    for make, t_end in ((examples.slider_crank, 20.0), (examples.stiff_double_pendulum, 2.0)):
        system, start = make()
        options = {"rtol": 1e-6, "save": "steps"}
        run = hx.simulate(system, start, t_end, method="auto", **options)
        explicit = hx.simulate(system, start, t_end, **options)
        implicit = hx.simulate(
            system, start, t_end, formulation=hx.GGL(), integrator=hx.VariableBDF(), **options
        )
        unknowns = 2 * start.v.size + 2 * start.lam.size
        ratio = 5 + unknowns / 9 + (unknowns / 55) ** 5
        cost = steps_with(run, hx.Dopri5) + ratio * steps_with(run, hx.VariableBDF)
        assert cost < 1.5 * min(explicit.t.size, ratio * implicit.t.size)


def fading(q, v, t, p):
    """A spring and damper that are stiff for two seconds and then soft."""
    k = jnp.where(t < 2.0, 1e8, 10.0)
    return jnp.array([-k * (q[0] - jnp.sin(t)) - 2e-2 * k * v[0], -q[1]])


def test_it_returns_to_the_explicit_method():
    system = hx.FunctionSystem(mass=lambda q, p: jnp.ones(2), force=fading)
    start = hx.consistent(system, [0.0, 1.0])
    soft = hx.Event("soft", lambda t, q, v: t - 2.0)  # where the force jumps
    run = hx.simulate(system, start, 60.0, rtol=1e-6, method="auto", events=soft)
    assert run.success
    assert names(run)[0] == "Dopri5" and "VariableBDF" in names(run) and names(run)[-1] == "Dopri5"
    assert "explicit method can take" in run.choices[-1].reason
    assert run.q[-1, 1] == pytest.approx(np.cos(60.0), abs=1e-3)


def test_redundant_constraints_are_taken():
    system, start = examples.bricard()
    run = hx.simulate(system, start, 0.3, rtol=1e-6, method="auto", save="end")
    assert run.success and names(run) == ["Dopri5"]


def test_it_is_the_default_of_a_model():
    model = hx.Model(gravity=(0, -9.81))
    rod = model.planar_body("rod", 1.0, 1 / 12, position=(0.5, 0.0))
    model.revolute("pivot", model.ground, rod, at=(0, 0))
    run = model.simulate(1.0)
    assert run.success and names(run) == ["Dopri5"]
    assert model.simulate(0.1, dt=1e-2).choices == []


def test_limit_of_stability():
    """On the negative real axis Dopri5 is stable to 3.3, and along the imaginary one to about 1."""
    assert auto.stable_step(np.array([-100.0]), hx.Dopri5()) == pytest.approx(3.3e-2, rel=0.05)
    assert 0.9e-2 < auto.stable_step(np.array([100.0j, -100.0j]), hx.Dopri5()) < 2e-2
    assert auto.stable_step(np.array([100.0, 0.0]), hx.Dopri5()) == np.inf


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "best"}, '"auto"'),
        ({"method": "auto", "integrator": hx.RK4()}, "Leave them out"),
        ({"method": "auto", "dt": 1e-3}, "Give rtol"),
    ],
)
def test_contradictions_are_refused(options, words):
    system, start = examples.slider_crank()
    with pytest.raises(ValueError, match=words):
        hx.simulate(system, start, 1.0, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stiff double pendulum", "modified Andrews"])
def test_implicit_methods_need_fewer_steps_by_the_factor_of_stability(name):
    """The stiff mechanisms of Haug, Negrut and Iancu (1997): an explicit method takes the steps
    that stability dictates, some 3.3 / |fastest rate|; an implicit one those of the motion."""
    make, t_end = {
        "stiff double pendulum": (examples.stiff_double_pendulum, 2.0),
        "modified Andrews": (
            lambda: examples.andrews("cartesian", stiffness=3e4, damping=1e5),
            0.05,
        ),
    }[name]
    system, start = make()
    options = {"rtol": 1e-4, "save": "end"}
    explicit = hx.simulate(system, start, t_end, **options)
    implicit = hx.simulate(
        system, start, t_end, formulation=hx.GGL(), integrator=hx.VariableBDF(), **options
    )
    chosen = hx.simulate(system, start, t_end, method="auto", **options)
    assert explicit.success and implicit.success and chosen.success
    matrix = auto._linearised(system, hx.Index1(), t_end, explicit.q[-1], explicit.v[-1])
    limit = auto.stable_step(np.linalg.eigvals(np.asarray(matrix)), hx.Dopri5())
    # the rates grow along the motion of Andrews' mechanism, so its mean step is longer
    assert 0.4 < explicit.stats["steps"] / (t_end / limit) < 1.5
    assert implicit.stats["steps"] < explicit.stats["steps"] / 10
    assert "VariableBDF" in names(chosen)
    # a first look after a hundred explicit steps, then the implicit ones
    assert chosen.stats["steps"] < 1.5 * implicit.stats["steps"] + 150
