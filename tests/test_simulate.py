"""The time loop: what is saved, what is not recompiled, and what a failed run leaves behind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import holonax as hx
from holonax.result.quadrature import simpson_parts
from mechanisms import slider_crank, spherical_chain

METHOD = {"formulation": hx.PostStabilized("both", passes=2), "integrator": hx.RK4()}


def test_import_switches_to_double_precision():
    assert jnp.zeros(1).dtype == np.float64


def test_steps_end_time_and_parameters_do_not_recompile():
    system, start = slider_crank()
    hx.simulate(system, start, 0.5, dt=1e-2, **METHOD)
    for t_end, dt in [(0.7, 1e-2), (0.5, 3e-3), (1.3, 1.7e-2)]:
        again = hx.simulate(system.with_parameters(m=1.0 + dt), start, t_end, dt=dt, **METHOD)
        assert not again.stats["compiled"]
        assert again.t[-1] == t_end


def test_gains_do_not_recompile():
    system, start = slider_crank()
    hx.simulate(system, start, 0.1, dt=1e-2, formulation=hx.Baumgarte(5.0), integrator=hx.RK4())
    again = hx.simulate(
        system, start, 0.1, dt=1e-2, formulation=hx.Baumgarte(7.0, 3.0), integrator=hx.RK4()
    )
    assert not again.stats["compiled"]


def test_saving_every_step_every_nth_at_times_and_end_agree():
    system, start = slider_crank()
    every = hx.simulate(system, start, 1.0, dt=1e-2, **METHOD)
    assert every.t.size == 101
    np.testing.assert_allclose(every.t, np.linspace(0, 1, 101), atol=1e-15)
    third = hx.simulate(system, start, 1.0, dt=1e-2, save=3, **METHOD)
    np.testing.assert_array_equal(third.q[:-1], every.q[::3])
    np.testing.assert_array_equal(third.q[-1], every.q[-1])
    end = hx.simulate(system, start, 1.0, dt=1e-2, save="end", **METHOD)
    np.testing.assert_array_equal(end.t, [0.0, 1.0])
    np.testing.assert_array_equal(end.q[-1], every.q[-1])
    # Times that fall on the grid give the grid's states, up to the rounding of the step size.
    times = np.array([0.1, 0.5, 0.99])
    some = hx.simulate(system, start, 1.0, dt=1e-2, save=times, **METHOD)
    np.testing.assert_array_equal(some.t, times)
    np.testing.assert_allclose(some.q, every.q[[10, 50, 99]], atol=1e-13)


def test_given_times_are_hit_by_steps_so_constraints_hold_there():
    system, start = slider_crank()
    times = np.array([0.123456, 0.5, 0.777])
    result = hx.simulate(system, start, 0.9, dt=1e-2, save=times, **METHOD)
    np.testing.assert_array_equal(result.t, times)
    position, velocity = result.drift()
    assert position.max() < 1e-13 and velocity.max() < 1e-13


def test_many_steps_need_several_segments_and_count_them_all():
    system, start = slider_crank()
    result = hx.simulate(system, start, 1.0, dt=1e-4, **METHOD)
    assert result.stats["steps"] == 10_000
    assert result.t.size == 10_001
    np.testing.assert_allclose(np.diff(result.t), 1e-4, rtol=1e-9)


def test_a_step_that_does_not_divide_the_run_is_reduced_evenly():
    system, start = slider_crank()
    result = hx.simulate(system, start, 1.0, dt=0.03, **METHOD)
    assert result.stats["steps"] == 34
    np.testing.assert_allclose(np.diff(result.t), 1 / 34, rtol=1e-12)


def test_the_run_may_start_later():
    system, start = slider_crank()
    late = hx.consistent(system, start.q, start.v, t=2.0)
    result = hx.simulate(system, late, 2.5, dt=1e-2, **METHOD)
    early = hx.simulate(system, start, 0.5, dt=1e-2, **METHOD)
    assert result.t[0] == 2.0 and result.t[-1] == 2.5
    np.testing.assert_allclose(result.q, early.q, atol=1e-13)


@pytest.mark.parametrize("save", ["steps", 2, "end", np.linspace(0.1, 9.9, 99)])
def test_blow_up_stops_and_keeps_what_came_before(save):
    system, start = slider_crank()
    result = hx.simulate(
        system,
        start,
        10.0,
        dt=0.2,
        formulation=hx.Baumgarte(50.0),
        integrator=hx.Euler(),
        save=save,
    )
    assert not result.success
    assert "blew up" in result.message and "dt" in result.message
    assert result.t[-1] < 10.0
    assert np.all(np.isfinite(result.q)) and np.all(np.isfinite(result.v))
    assert np.all(np.diff(result.t) > 0)


def test_nan_in_a_user_function_stops_at_that_step():
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1),
        force=lambda q, v, t, p: jnp.where(t > 0.55, jnp.nan, 0.0) * jnp.ones(1),
    )
    start = hx.consistent(system, [0.0], [1.0])
    result = hx.simulate(system, start, 1.0, dt=0.1, integrator=hx.Euler())
    assert not result.success
    assert result.status == "non-finite" and "force" in result.message
    np.testing.assert_allclose(result.t, np.arange(7) * 0.1)
    np.testing.assert_allclose(result.q[:, 0], result.t, atol=1e-14)


def test_a_start_may_be_a_pair():
    system, start = slider_crank()
    result = hx.simulate(system, (start.q, start.v), 0.1, dt=1e-2, **METHOD)
    assert result.success


def test_energy_balance_and_print():
    system, start = slider_crank()
    result = hx.simulate(system, start, 1.0, dt=1e-3, **METHOD)
    # RK4 at dt = 1e-3 on a motion of about 1 rad/s: far below 1e-8.
    assert np.max(np.abs(result.energy.balance)) < 1e-8
    text = str(result)
    assert len(text.splitlines()) < 20
    for word in (
        "success",
        "drift",
        "energy",
        "PostStabilized('both', passes=2) with RK4",
        "steps",
    ):
        assert word in text


def test_work_of_a_moving_constraint_is_the_change_of_energy():
    # A mass driven as sin(t) on a line: the constraint does all the work.
    system = hx.FunctionSystem(
        mass=lambda q, p: 2.0 * jnp.ones(1),
        force=lambda q, v, t, p: jnp.zeros(1),
        constraint=lambda q, t, p: q - jnp.sin(t),
    )
    start = hx.consistent(system, [0.0])
    np.testing.assert_allclose(start.v, [1.0])
    result = hx.simulate(system, start, 2.0, dt=1e-2)
    np.testing.assert_allclose(result.energy.kinetic, np.cos(result.t) ** 2, atol=1e-12)
    np.testing.assert_allclose(result.energy.balance, 0.0, atol=1e-12)


def test_reaction_of_a_hanging_chain_carries_its_weight():
    model = hx.Model(gravity=(0, 0, -9.81))
    upper = model.body("upper", hx.box((0.1, 0.1, 1.0), mass=2.0), position=(0, 0, -0.5))
    lower = model.body("lower", hx.box((0.1, 0.1, 1.0), mass=3.0), position=(0, 0, -1.5))
    model.spherical("top", model.ground, upper, at=(0, 0, 0))
    model.revolute("middle", upper, lower, at=(0, 0, -1), axis=(0, 1, 0))
    result = model.simulate(0.02, dt=0.01)
    np.testing.assert_allclose(result.reaction("top").force, [[0, 0, 5 * 9.81]] * 3, atol=1e-12)
    middle = result.reaction("middle", axes="joint")
    np.testing.assert_allclose(np.linalg.norm(middle.force, axis=1), 3 * 9.81, atol=1e-12)
    np.testing.assert_allclose(middle.torque, 0.0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5])
def test_dense_and_block_algebra_agree(n):
    dense = hx.simulate(*spherical_chain(n, "dense"), 0.2, dt=1e-2)
    block = hx.simulate(*spherical_chain(n, "block"), 0.2, dt=1e-2)
    np.testing.assert_allclose(block.q, dense.q, atol=1e-12)
    np.testing.assert_allclose(block.lam, dense.lam, rtol=1e-9, atol=1e-9)


@pytest.mark.slow  # the same is counted for one pair in test_cost.py
def test_program_does_not_grow_with_the_chain():
    def size(n):
        system, start = spherical_chain(n, "block")
        return len(str(jax.make_jaxpr(system.accelerations)(start.q, start.v, 0.0)).splitlines())

    # beyond the few elements that are differentiated with compact programs
    assert size(80) == size(40)


@pytest.mark.parametrize("points", [1, 2, 3, 4, 7, 20])
def test_work_is_integrated_as_by_scipy(points):
    rng = np.random.default_rng(points)
    x, y = np.cumsum(rng.uniform(0.1, 1.0, points)), rng.standard_normal(points)
    expected = integrate.cumulative_simpson(y, x=x, initial=0.0) if points > 1 else [0.0]
    found = np.concatenate([[0.0], np.cumsum(simpson_parts(y, x)[0])])
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("spatial", [False, True])
@pytest.mark.parametrize("integrator", [None, hx.Dop853()])
def test_the_energy_balance_of_long_steps_shows_the_solution(spatial, integrator):
    # Damped, 0.04 s a step: Simpson's rule over the steps is off by 1e-4 J, the solution by 1e-10.
    model = hx.Model(gravity=(0, -9.81, 0))
    if spatial:
        model.body("rod", 1.0, (0.1, 0.2, 0.25), position=(0.5, 0.0, 0.1), rotation=(0.3, 0.1, 0.2))
        model.spherical("pivot", "ground", "rod", at=(0, 0, 0))
        model.bushing("oil", "ground", "rod", at=(0, 0, 0), stiffness=[0.0] * 6, damping=[0.3] * 6)
    else:
        model.planar_body("rod", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
        model.revolute("pivot", "ground", "rod", at=(0, 0))
        model.joint_damping("oil", "pivot", 0.3)
    options = {} if integrator is None else {"integrator": integrator}
    run = model.simulate(4.0, rtol=1e-10, **options)
    assert run.success and np.ptp(run.energy.work) > 0.5
    assert np.max(np.abs(run.energy.balance)) < 1e-8
