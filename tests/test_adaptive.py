"""Steps chosen by their error: for every method with an estimate, the error at the end of a run is
proportional to the tolerance.

By default each new method runs on the slider-crank with a few tolerances; all pairs on all
mechanisms, from 1e-3 to 1e-10, are marked slow.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import examples, study
from holonax.problem import StepContext
from holonax.run.control import Tolerance
from holonax.run.loop_parts import StabilizedSolver, problem_term

# How each mechanism is made, its end time [s], and the step [s] of the reference of order 8. Runs
# are long enough for a dozen steps of the largest tolerance.
MECHANISMS = {
    "slider_crank": (examples.slider_crank, 2.0, 2e-4),
    "two_link_arm": (lambda: examples.two_link_arm("II"), 3.0, 2e-4),
    "andrews": (examples.andrews, 0.03, 5e-6),
    "three_link_pendulum": (examples.three_link_pendulum, 1.0, 5e-4),
    # the elbow's spring a million times as stiff as the shoulder's; motions there decay in 0.1 ms
    "stiff_double_pendulum": (
        lambda: examples.stiff_double_pendulum(stiffness=4e8, damping=5e4),
        0.2,
        None,
    ),
}
TOLERANCES = 10.0 ** -np.arange(3, 11)

POST = hx.PostStabilized("both", passes=2)
PAIRS = {
    "PostStabilized-Dopri5": (POST, hx.Dopri5()),
    "PostStabilized-Dop853": (POST, hx.Dop853()),
    "CoordinatePartitioning-Dopri5": (hx.CoordinatePartitioning(), hx.Dopri5()),
    "CoordinatePartitioning-Dop853": (hx.CoordinatePartitioning(), hx.Dop853()),
    "PostStabilized-VariableAdams": (POST, hx.VariableAdams()),
    "CoordinatePartitioning-VariableAdams": (hx.CoordinatePartitioning(), hx.VariableAdams()),
    "Index1-VariableBDF": (hx.Index1(), hx.VariableBDF()),
    "PostStabilized-VariableBDF": (POST, hx.VariableBDF()),
    "Index2-VariableBDF": (hx.Index2(), hx.VariableBDF()),
    "GGL-VariableBDF": (hx.GGL(), hx.VariableBDF()),
    "Index2-RadauIIA": (hx.Index2(), hx.RadauIIA(3)),
    "GGL-RadauIIA": (hx.GGL(), hx.RadauIIA(3)),
    "Index3-RadauIIA": (hx.Index3(), hx.RadauIIA(3)),
    "Index3-GeneralizedAlpha": (hx.Index3(), hx.GeneralizedAlpha()),
    "GGL-GeneralizedAlpha": (hx.GGL(), hx.GeneralizedAlpha()),
    "Index3-HHT": (hx.Index3(), hx.HHT()),
    "GGL-HHT": (hx.GGL(), hx.HHT()),
}
# Slopes beyond 1.3, with their cause.
STEEPER = {
    # The term h^5 of Dopri5 is small for the crank's own equation of motion: at tolerances above
    # 1e-8 that of h^6 and more rules, which h = tol^(1/5) makes tol^(6/5) and more.
    ("CoordinatePartitioning-Dopri5", "slider_crank"): 1.45,
    # 13 to 76 steps of order 8: so long that terms beyond h^8 rule.
    ("CoordinatePartitioning-Dop853", "three_link_pendulum"): 1.4,
}


@cache
def problem(name):
    make, t_end, dt = MECHANISMS[name]
    system, start = make()
    if dt is None:
        options = {"formulation": hx.GGL(), "integrator": hx.RadauIIA(3)}
        exact = hx.simulate(system, start, t_end, rtol=1e-12, save="end", **options)
    else:
        exact = study.reference_solution(system, start, t_end, dt)
    assert exact.success
    return system, start, t_end, exact


def slope(name, pair, tolerances):
    """The slope of the error of q at the end over the tolerance, and what it was found from."""
    system, start, t_end, exact = problem(name)
    formulation, integrator = pair
    errors, steps = [], []
    for i, rtol in enumerate(tolerances):
        run = hx.simulate(
            system,
            start,
            t_end,
            rtol=rtol,
            formulation=formulation,
            integrator=integrator,
            save="end",
        )
        assert run.success, run.message
        assert i == 0 or not run.stats["compiled"]
        errors.append(np.max(np.abs(run.q[-1] - exact.q[-1])))
        steps.append(run.stats["steps"])
    found = np.polyfit(np.log(tolerances), np.log(errors), 1)[0]
    return found, f"slope {found:.2f}, errors {np.array(errors)}, steps {steps}"


@pytest.mark.parametrize(
    "label",
    [
        "PostStabilized-VariableAdams",
        "Index2-VariableBDF",
        "GGL-RadauIIA",
        "Index3-GeneralizedAlpha",
    ],
)
def test_error_is_proportional_to_the_tolerance_on_the_slider_crank(label):
    found, shown = slope("slider_crank", PAIRS[label], TOLERANCES[1:-1:2])
    assert 0.7 < found < 1.3, shown


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MECHANISMS))
@pytest.mark.parametrize("label", list(PAIRS))
def test_error_is_proportional_to_the_tolerance(label, name):
    # Methods of order 2 take three times the steps for each decade; 10^5 are enough to see it.
    second = PAIRS[label][1].order(None) == 2 and name != "slider_crank"
    found, shown = slope(name, PAIRS[label], TOLERANCES[:6] if second else TOLERANCES)
    print(label, name, shown)
    assert 0.7 < found < STEEPER.get((label, name), 1.3), shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "last"),
    [
        ((hx.GGL(), hx.RadauIIA(2)), 9),
        ((hx.GGL(), hx.RadauIIA(1)), 5),
        ((hx.GGL(), hx.Newmark()), 8),
        ((hx.GGL(), hx.Newmark(0.3, 0.6)), 5),
        ((hx.CoordinatePartitioning(), hx.Newmark()), 8),
        ((hx.Index3(), hx.HHT(-0.3)), 8),
        ((hx.Index1(), hx.GeneralizedAlpha(1.0)), 8),
        ((hx.Overdetermined(), hx.VariableBDF()), 9),
        ((hx.ProjectedInvariants(), hx.VariableBDF()), 9),
        ((hx.NullSpace(), hx.VariableAdams()), 9),
    ],
    ids=lambda x: "-".join(type(i).__name__ for i in x) if isinstance(x, tuple) else str(x),
)
def test_other_members_are_proportional_to_the_tolerance(pair, last):
    """Down to a tolerance that methods of order 1 and 2 can reach in some 10^4 steps."""
    found, shown = slope("slider_crank", pair, 10.0 ** -np.arange(3, last + 1))
    assert 0.7 < found < 1.3, shown


@pytest.mark.parametrize(
    ("pair", "order"),
    [
        pytest.param((hx.GGL(), hx.RadauIIA(3)), 4, marks=pytest.mark.slow),
        pytest.param((hx.GGL(), hx.RadauIIA(2)), 3, marks=pytest.mark.slow),
        ((hx.Index3(), hx.GeneralizedAlpha()), 2),
        ((hx.GGL(), hx.VariableBDF()), 2),  # of its first step, as the next one
        ((POST, hx.VariableAdams()), 2),
    ],
    ids=lambda x: "-".join(type(i).__name__ for i in x) if isinstance(x, tuple) else str(x),
)
def test_error_estimate_has_the_declared_order(pair, order):
    system, _, _, moving = problem("slider_crank")
    formulation, integrator = pair
    assert integrator.error_order(None) == order
    solver = StabilizedSolver(integrator, formulation, retry=True)
    terms, t = problem_term(formulation), jnp.asarray(0.0)
    tolerance = Tolerance(jnp.asarray(1e-12), jnp.asarray(1e-12))  # errors far above 1

    @jax.jit
    def estimate(h):
        context = StepContext(system, h, formulation, tolerance=tolerance)
        y = integrator.first_state(context, t, *map(jnp.asarray, (moving.q[-1], moving.v[-1])))
        memory = solver.init(terms, t, t + h, y, context)
        return solver.step(terms, t, t + h, y, context, memory, False)[1]

    coarse, fine = (float(estimate(jnp.asarray(h))) for h in (4e-3, 2e-3))
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.2)


def test_generalized_alpha_keeps_its_order_on_uneven_steps():
    """Steps that triple and shrink to a sixth: order 2, with which w is moved; 1 without."""
    system, start, t_end, exact = problem("slider_crank")
    errors = []
    for n in (200, 400, 800):
        lengths = np.tile([1.0, 3.0, 0.5, 2.0], n // 4)
        times = np.cumsum(lengths) / np.sum(lengths) * t_end
        times[-1] = t_end
        run = hx.simulate(
            system,
            start,
            t_end,
            dt=t_end,
            save=times,
            formulation=hx.GGL(),
            integrator=hx.GeneralizedAlpha(0.6),
        )
        assert run.stats["steps"] == n
        errors.append(np.max(np.abs(run.q[-1] - exact.q[-1])))
    assert np.all(np.log2(np.array(errors[:-1]) / errors[1:]) > 1.8)


@pytest.mark.parametrize(
    "integrator",
    [hx.VariableAdams(), pytest.param(hx.VariableBDF(), marks=pytest.mark.slow)],
    ids=repr,
)
def test_fast_rotations_are_followed(integrator):
    """The top turns four times; errors of rotations count in radians."""
    system, start = examples.heavy_top()
    exact = hx.simulate(system, start, 0.17, rtol=1e-11, save="end")  # Dopri5
    run = hx.simulate(system, start, 0.17, rtol=1e-6, integrator=integrator, save="end")
    assert run.success
    # some hundred steps, each in error by 1e-6 rad at most
    assert np.max(np.abs(run.q[-1] - exact.q[-1])) < 1e-4


@pytest.mark.slow
def test_variable_adams_between_its_steps():
    system, start, t_end, exact = problem("slider_crank")
    times = np.linspace(0.0, t_end, 41)
    right = study.reference_solution(system, start, t_end, 2e-4, save=times)
    run = hx.simulate(system, start, t_end, rtol=1e-7, integrator=hx.VariableAdams(), save=times)
    steps = hx.simulate(system, start, t_end, rtol=1e-7, integrator=hx.VariableAdams(), save="end")
    at_end = np.max(np.abs(steps.q[-1] - exact.q[-1]))
    assert np.max(np.abs(run.q - right.q)) < 10 * at_end


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dt": 1e-2, "integrator": hx.VariableAdams()}, "VariableAdams chooses.*Give rtol"),
        ({"dt": 1e-2, "integrator": hx.VariableBDF()}, "VariableBDF chooses.*Give rtol"),
        ({"rtol": 1e-4, "integrator": hx.BDF(2), "formulation": hx.GGL()}, "VariableBDF"),
        (
            {"rtol": 1e-4, "integrator": hx.VariableBDF(), "formulation": hx.Index3()},
            "VariableBDF cannot integrate Index3.*'index3'",
        ),
        (
            {"rtol": 1e-4, "integrator": hx.VariableAdams(), "formulation": hx.GGL()},
            "VariableAdams cannot integrate GGL",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    system, start = examples.slider_crank()
    with pytest.raises(ValueError, match=message):
        hx.simulate(system, start, 1.0, **options)


@pytest.mark.parametrize("order", [0, 13, 2.5, True])
def test_orders_that_do_not_exist_are_refused(order):
    for method in (hx.VariableAdams, hx.VariableBDF):
        with pytest.raises(ValueError, match="max_order"):
            method(max_order=order)


def test_parameters_and_tolerances_do_not_recompile():
    system, start = examples.slider_crank()
    options = {"integrator": hx.VariableAdams(), "save": "end"}
    hx.simulate(system, start, 1.0, rtol=1e-4, **options)
    again = hx.simulate(
        system.with_parameters(m=2.0), start, 1.5, rtol=1e-7, atol=1e-8, dt=1e-3, **options
    )
    assert again.success and not again.stats["compiled"]
