"""Penalty formulations: what they solve, how far constraints give way, and their orders."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.problem import StepContext
from mechanisms import slider_crank, spherical_chain, two_link_arm

DT = jnp.asarray(0.01)


@jax.jit
def accelerations(formulation, system, q, v, t):
    return formulation.accelerations(StepContext(system, DT), t, (q, v))


def disturbed(system, start, size=0.01):
    """A state near a start that violates position and velocity constraints."""
    rng = np.random.default_rng(3)
    q = system.retract(start.q, jnp.asarray(size * rng.normal(size=start.v.size)))
    return q, start.v + jnp.asarray(rng.normal(size=start.v.size)), jnp.asarray(0.1)


@pytest.mark.parametrize(
    "made",
    [
        slider_crank,
        pytest.param(lambda: spherical_chain(2, "dense"), marks=pytest.mark.slow, id="dense"),
        pytest.param(lambda: spherical_chain(2, "block"), marks=pytest.mark.slow, id="block"),
    ],
)
def test_penalty_solves_the_augmented_mass_matrix(made):
    system, start = made()
    q, v, t = disturbed(system, start)
    alpha, omega, mu = 200.0, 7.0, 0.8
    a, lam = accelerations(hx.Penalty(alpha, omega=omega, mu=mu), system, q, v, t)
    M, G = np.asarray(system.mass_matrix(q)), np.asarray(system.jacobian(q, t))
    g, rate = system.constraint(q, t), system.constraint_rate(q, v, t)
    missing = np.asarray(system.gamma(q, v, t) - 2 * mu * omega * rate - omega**2 * g)
    right = np.asarray(system.force(q, v, t)) + alpha * G.T @ missing
    expected = np.linalg.solve(M + alpha * G.T @ G, right)
    np.testing.assert_allclose(a, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(lam, alpha * (G @ expected - missing), rtol=1e-7, atol=1e-7)


def test_a_penalty_spring_is_given_by_stiffness_damping_and_mass():
    penalty = hx.Penalty.from_spring(mass=100.0, damping=600.0, stiffness=900.0)
    assert float(penalty.alpha) == 100.0
    assert float(penalty.omega.value) == pytest.approx(3.0)
    assert float(penalty.mu) == pytest.approx(1.0)


def arm(formulation, dt, integrator=None, t_end=0.5):
    system, start = two_link_arm(2)
    integrator = hx.RK4() if integrator is None else integrator
    return hx.simulate(system, start, t_end, dt=dt, formulation=formulation, integrator=integrator)


def test_constraints_give_way_in_proportion_to_the_compliance():
    drift = [np.max(arm(hx.Penalty(alpha), 1 / 256).drift()[0]) for alpha in (1e6, 1e7, 1e8)]
    assert drift[0] / drift[1] == pytest.approx(10, rel=0.02)
    assert drift[1] / drift[2] == pytest.approx(10, rel=0.02)
    # slowly loaded, the springs carry lam with the stiffness alpha omega^2
    result = arm(hx.Penalty(1e6, omega=100.0), 1 / 512)
    g = np.array([result.system.constraint(q, t)[0] for q, t in zip(result.q, result.t)])
    settled = result.t > 0.2
    np.testing.assert_allclose(g[settled], result.lam[settled, 0] / 1e10, rtol=0.1)


def orders(errors):
    errors = np.asarray(errors)
    return np.log2(errors[:-1] / errors[1:])


@pytest.mark.parametrize(
    ("formulation", "fine", "integrator", "steps", "order"),
    [
        (hx.Penalty(1e5), None, hx.RK4(), (64, 128, 256), 4),
        (hx.AugmentedLagrangian(), hx.Baumgarte(10.0), hx.RK4(), (64, 128, 256), 4),
        (hx.StaggeredPenalty(), hx.Baumgarte(10.0), hx.Midpoint(), (64, 128, 256), 2),
        pytest.param(
            hx.StaggeredPenalty(),
            hx.Baumgarte(10.0),
            hx.RK4(),
            (64, 128, 256),
            2,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_orders_of_convergence(formulation, fine, integrator, steps, order):
    """To the constrained motion, or for the penalty to its own."""
    fine = arm(formulation if fine is None else fine, 1 / 4096)
    runs = {n: arm(formulation, 1 / n, integrator) for n in steps}
    for x in ("q", "v", "lam"):
        exact = getattr(fine, x)[::256]
        errors = [np.max(np.abs(getattr(r, x)[:: n // 16] - exact)) for n, r in runs.items()]
        assert orders(errors)[-1] == pytest.approx(order, abs=0.2), (x, errors)
    assert formulation.orders(integrator) == (order,) * 3


def test_the_augmented_lagrangian_is_baumgartes_feedback_for_any_penalty():
    system, start = slider_crank()
    q, v, t = disturbed(system, start)
    a, lam = accelerations(hx.Baumgarte(4.0, 5.0), system, q, v, t)
    for alpha in (1.0, 1e3, 1e12):
        formulation = hx.AugmentedLagrangian(alpha, omega=5.0, mu=0.8, max_iterations=500)
        b, mu = accelerations(formulation, system, q, v, t)
        np.testing.assert_allclose(b, a, rtol=1e-9)
        np.testing.assert_allclose(mu, lam, rtol=1e-9)


def test_the_augmented_lagrangian_has_derivatives_in_both_modes():
    system, start = slider_crank()
    q, v, t = disturbed(system, start)

    def value(formulation):
        return lambda q: jnp.sum(accelerations(formulation, system, q, v, t)[1] ** 2)

    expected = jax.grad(value(hx.Baumgarte(10.0)))(q)
    formulation = hx.AugmentedLagrangian(1e3, max_iterations=500)
    np.testing.assert_allclose(jax.grad(value(formulation))(q), expected, rtol=1e-8)
    np.testing.assert_allclose(jax.jacfwd(value(formulation))(q), expected, rtol=1e-8)


def twice_constrained():
    """A pendulum whose length is prescribed twice."""

    def constraint(q, t, p):
        g = q[0] ** 2 + q[1] ** 2 - 1.0
        return jnp.array([g, 2 * g])

    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2),
        force=lambda q, v, t, p: jnp.array([0.0, -9.81]),
        constraint=constraint,
        potential=lambda q, p: 9.81 * q[1],
    )
    return system, hx.consistent(system, q=[1.0, 0.0], v=[0.0, 0.0])


@pytest.mark.parametrize(
    ("formulation", "bound"),
    [
        (hx.Penalty(1e8), 1e-6),
        pytest.param(hx.AugmentedLagrangian(), 1e-8, marks=pytest.mark.slow),
        pytest.param(hx.StaggeredPenalty(1e-10), 1e-3, marks=pytest.mark.slow),
    ],
)
def test_dependent_constraints_do_no_harm(formulation, bound):
    result = hx.simulate(*twice_constrained(), 1.0, dt=1 / 512, formulation=formulation)
    assert result.success
    position, rate = result.drift()
    assert np.max(position) < bound
    assert np.max(rate) < 10 * bound
    np.testing.assert_allclose(result.lam[1:, 1], 2 * result.lam[1:, 0], rtol=1e-5)


def skate():
    """A skate on an inclined plane: it moves along its blade only (sin a x' = cos a y')."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([2.0, 2.0, 0.5]),
        force=lambda q, v, t, p: jnp.array([4.0, 0.0, 0.0]),
        nonholonomic=lambda q, v, t, p: jnp.array([jnp.sin(q[2]) * v[0] - jnp.cos(q[2]) * v[1]]),
        coordinate_names=["x", "y", "angle"],
    )
    return system, hx.consistent(system, q=[0.0, 0.0, 0.0], v=[0.5, 0.0, 1.0])


@pytest.mark.parametrize(
    ("formulation", "bound"),
    [
        (hx.Penalty(), 1e-6),
        pytest.param(hx.AugmentedLagrangian(), 1e-7, marks=pytest.mark.slow),
        pytest.param(hx.StaggeredPenalty(), 1e-3, marks=pytest.mark.slow),
        pytest.param(hx.CoordinateProjection(), 1e-14, marks=pytest.mark.slow),
        pytest.param(hx.StabilizedInvariant(), 1e-7, marks=pytest.mark.slow),
    ],
)
def test_a_skate_keeps_to_its_blade(formulation, bound):
    system, start = skate()
    result = hx.simulate(system, start, 2.0, dt=0.01, formulation=formulation)
    assert np.max(result.drift()[1]) < bound
    # along the blade u' = (F/m) cos(angle), with the angle turning at 1 rad/s
    along = result.v[:, 0] * np.cos(result.t) + result.v[:, 1] * np.sin(result.t)
    np.testing.assert_allclose(along, 0.5 + 2.0 * np.sin(result.t), atol=max(bound, 1e-6))


def test_multistep_methods_are_refused_for_staggered_steps():
    system, start = two_link_arm(2)
    with pytest.raises(ValueError, match=r"AdamsBashforth cannot integrate StaggeredPenalty.*Heun"):
        hx.simulate(
            system,
            start,
            1.0,
            dt=0.1,
            formulation=hx.StaggeredPenalty(),
            integrator=hx.AdamsBashforth(2),
        )


def test_a_staggered_step_may_be_begun_twice():
    system, start = two_link_arm(2)
    formulation = hx.StaggeredPenalty()
    context = StepContext(system, DT, formulation)
    t, state = jnp.asarray(start.t), (start.q, start.v)
    first = formulation.carry(context, t, state, None)
    again = formulation.carry(context, t, state, first)
    following = formulation.carry(context, t + DT, state, first)
    np.testing.assert_allclose(first.start, start.lam)
    np.testing.assert_array_equal(again.start, first.start)
    np.testing.assert_array_equal(following.start, 2 * first.middle - first.start)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hx.Penalty(0.0), "Penalty: alpha=0.0 is out of range"),
        (lambda: hx.Penalty(omega="fast"), "Penalty: omega='fast' is not a number"),
        (lambda: hx.Penalty(mu="much"), "Penalty: mu='much' is not a number"),
        (
            lambda: hx.Penalty.from_spring(mass=0.0, damping=1.0, stiffness=1.0),
            "Penalty: mass=0.0 is out of range",
        ),
        (lambda: hx.AugmentedLagrangian(tol=-1.0), "AugmentedLagrangian: tol=-1.0"),
        (lambda: hx.AugmentedLagrangian(max_iterations=1.5), "must be a whole number"),
        (lambda: hx.StaggeredPenalty([1.0, 2.0]), "epsilon=.* has the shape"),
    ],
)
def test_bad_options_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
