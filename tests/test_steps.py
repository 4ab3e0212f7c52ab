"""Steps chosen by their error: the error follows the tolerance, and nothing is lost on failure."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import holonax as hx
from holonax import examples, study
from holonax.compiler import native
from holonax.integrator import explicit
from holonax.problem import StepContext
from holonax.run.control import ErrorControl
from holonax.run.loop_parts import StabilizedSolver, problem_term


@pytest.fixture(scope="module")
def slider_crank():
    system, start = examples.slider_crank()
    return system, start, study.reference_solution(system, start, 2.0, 2e-4)


@pytest.mark.parametrize("integrator", [hx.Dopri5(), hx.Dop853()], ids=lambda i: type(i).__name__)
def test_error_is_proportional_to_the_tolerance(slider_crank, integrator):
    system, start, exact = slider_crank
    tolerances = 10.0 ** -np.arange(4, 11)
    errors = []
    for rtol in tolerances:
        run = hx.simulate(system, start, 2.0, rtol=rtol, integrator=integrator)
        assert run.success
        errors.append(np.max(np.abs(run.q[-1] - exact.q[-1])))
    slope = np.polyfit(np.log(tolerances), np.log(errors), 1)[0]
    assert 0.7 < slope < 1.3


def test_dopri5_takes_the_steps_of_hairers_code():
    """Andrews' mechanism to t = 0.3 s, rtol 1e-5, atol 1e-6, beta 0.04, safety 0.85: 2849 steps
    with 362 rejected, as a plain transcription of the algorithm counts them. Rounding grows on the
    way, so the count may differ by some."""
    system, start = examples.andrews()
    control = hx.StepControl(safety=0.85)
    run = hx.simulate(
        system, start, 0.3, rtol=1e-5, atol=1e-6, formulation=hx.Index1(), control=control
    )
    assert run.stats["steps"] == pytest.approx(2849, rel=0.01)
    assert run.stats["rejected"] == pytest.approx(362, rel=0.05)
    assert (
        np.sum(np.diff(run.t) > 0) == run.t.size - 1 == run.stats["steps"] - run.stats["rejected"]
    )


def test_saved_times_are_met_and_parameters_do_not_recompile(slider_crank):
    system, start, exact = slider_crank
    times = np.linspace(0.0, 2.0, 21)
    run = hx.simulate(system, start, 2.0, rtol=1e-7, save=times)
    np.testing.assert_array_equal(run.t, times)
    assert np.max(np.abs(run.q[-1] - exact.q[-1])) < 1e-5
    heavier = system.with_parameters(m=2.0)
    again = hx.simulate(
        heavier,
        start,
        1.5,
        rtol=1e-6,
        atol=1e-9,
        dt=1e-3,
        save=times[:10],
        control=hx.StepControl(safety=0.8, dt_max=0.05),
    )
    assert again.success and not again.stats["compiled"]


def test_largest_step_is_kept(slider_crank):
    system, start, _ = slider_crank
    control = hx.StepControl(dt_max=0.01)
    run = hx.simulate(system, start, 1.0, rtol=1e-3, control=control)
    assert np.max(np.diff(run.t)) < 0.01 * (1 + 1e-9)


def test_a_force_that_becomes_nan_is_approached_and_reported():
    """The run comes as close as rounding allows to the end of the force's domain, t = 1 s."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1),
        force=lambda q, v, t, p: jnp.where(t < 1.0, -q, jnp.nan),
        constraint=lambda q, t, p: jnp.zeros(0),
    )
    run = hx.simulate(system, hx.consistent(system, [1.0]), 2.0, rtol=1e-6)
    assert not run.success
    assert run.status == "non-finite" and "force" in run.message
    assert run.t[-1] == pytest.approx(1.0, abs=1e-9)
    assert run.q[-1, 0] == pytest.approx(np.cos(1.0), abs=1e-5)


def test_an_error_that_does_not_shrink_with_the_step_ends_the_run_at_time_zero():
    """Of four times the tolerance, from the start on: shorter by a third each time, down to where
    two thirds of the smallest number are that number again."""
    rule = ErrorControl(jnp.array([0.0, 1.0]), hx.StepControl(dt_max=np.inf))
    zero = jnp.zeros(())

    @native
    def run(error):
        def one(now):
            end, state, _, n = now
            judged = rule.judge(zero, end, error, 5, state)
            return judged.end, judged.state, judged.stuck, n + 1

        begin = (*rule.first(zero, jnp.asarray(1e-3)), jnp.asarray(False), 0)
        return lax.while_loop(lambda now: ~now[2] & (now[3] < 10_000), one, begin)[2:]

    stuck, tried = run(np.asarray(4.0))
    assert stuck and tried < 5000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give dt"),
        ({"dt": 1e-2, "atol": 1e-6}, "atol means nothing without rtol"),
        ({"rtol": 1e-6, "integrator": hx.RK4()}, "RK4 has no error estimate.*Dopri5"),
        ({"rtol": -1.0}, "rtol"),
        ({"rtol": 1e-6, "atol": 0.0}, "atol"),
    ],
)
def test_bad_tolerances_are_refused(slider_crank, options, message):
    system, start, _ = slider_crank
    with pytest.raises(ValueError, match=message):
        hx.simulate(system, start, 1.0, **options)


@pytest.mark.parametrize(
    ("option", "value"),
    [("safety", 1.5), ("beta", 0.3), ("shrink", 0), ("grow", 1), ("dt_min", -1), ("dt_max", "a")],
)
def test_bad_control_is_refused(option, value):
    with pytest.raises(ValueError, match=f"StepControl: {option}="):
        hx.StepControl(**{option: value})


def test_control_is_not_a_number(slider_crank):
    system, start, _ = slider_crank
    with pytest.raises(TypeError, match="StepControl"):
        hx.simulate(system, start, 1.0, rtol=1e-6, control=0.9)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (hx.Heun(), diffrax.Heun),
        (hx.Midpoint(), diffrax.Midpoint),
        (hx.Ralston(), diffrax.Ralston),
        (hx.Dopri5(), diffrax.Dopri5),
    ],
    ids=lambda x: type(x).__name__,
)
def test_tables_are_those_of_diffrax(ours, theirs):
    table, other = ours.tableau, theirs.tableau
    for row, expected in zip(table.a_lower, other.a_lower, strict=True):
        np.testing.assert_array_equal(row, expected)
    np.testing.assert_array_equal(table.b_sol, other.b_sol)
    np.testing.assert_array_equal(table.c, other.c)


@pytest.mark.parametrize("integrator", [hx.Dopri5(), hx.Dop853()], ids=lambda i: type(i).__name__)
def test_error_weights_belong_to_a_method_of_lower_order(integrator):
    table = integrator.tableau
    c = np.array([0.0, *table.c])
    for power in range(4):
        assert table.b_error @ c**power == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(
    "pair",
    [
        (hx.PostStabilized("both", passes=2), hx.Dopri5()),
        pytest.param((hx.PostStabilized("both", passes=2), hx.Euler()), marks=pytest.mark.slow),
    ],
    ids=lambda pair: type(pair[1]).__name__,
)
def test_a_method_runs_in_a_loop_of_diffrax_own(pair):
    formulation, integrator = pair
    system, start = examples.slider_crank()
    solution = diffrax.diffeqsolve(
        problem_term(formulation),
        StabilizedSolver(integrator, formulation),
        0.0,
        0.5,
        0.01,
        (start.q, start.v),
        StepContext(system, jnp.asarray(0.01)),
        saveat=diffrax.SaveAt(ts=jnp.asarray([0.25, 0.255, 0.5])),
    )
    ours = hx.simulate(
        system, start, 0.5, dt=0.01, save=25, formulation=formulation, integrator=integrator
    )
    q, v = (np.asarray(x) for x in solution.ys)
    np.testing.assert_allclose(q[[0, 2]], ours.q[1:], rtol=0, atol=1e-9)
    np.testing.assert_allclose(v[[0, 2]], ours.v[1:], rtol=0, atol=1e-8)
    # inside a step: by derivatives at its ends, or along the straight line of Euler's method
    np.testing.assert_allclose(q[1], q[0] + 0.005 * v[0], rtol=0, atol=2e-4)


@pytest.mark.parametrize("integrator", [hx.RK4(), hx.Ralston(), hx.Dopri5(), hx.Dop853()])
def test_stages_that_are_written_out_are_those_of_the_loop(integrator, monkeypatch):
    """As they are for many bodies, on a slider-crank: the state, its error, and the slopes
    for what lies between."""
    system, start = examples.slider_crank()
    formulation, h = hx.PostStabilized("both"), jnp.asarray(0.02)
    context = StepContext(system, h, formulation, differentiable=False)
    y = jnp.asarray(start.q), jnp.asarray(start.v)
    terms, t = problem_term(formulation), jnp.asarray(0.3)

    def step():
        return jax.jit(lambda y: integrator.step(terms, t, t + h, y, context, None, False)[:3])(y)

    looped = step()
    monkeypatch.setattr(explicit, "STAGES_APART", 0)
    few = []
    monkeypatch.setattr(explicit.RungeKutta, "_written_out", recorded(few, integrator))
    for one, other in zip(jax.tree.leaves(step()), jax.tree.leaves(looped), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)
    assert bool(few) == (not isinstance(integrator, hx.Dop853))


def recorded(calls, integrator):
    """The step of an integrator, which says when it is called."""
    step = type(integrator)._written_out

    def said(*args):
        calls.append(args)
        return step(*args)

    return said
