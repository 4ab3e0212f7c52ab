"""Stabilization of invariants and projection onto them: orders, drift."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import native
from holonax.problem import StepContext
from mechanisms import slider_crank, spherical_chain, two_link_arm

IDENTITY = {"metric": "identity"}
METHODS = {
    "Baum(0,0)": hx.Index1(),
    "Baum(12,70)": hx.Baumgarte.from_polynomial(12, 70),
    "S-full": hx.PostStabilized("full"),
    "S-both": hx.PostStabilized("both", **IDENTITY),
    "S-both^2": hx.PostStabilized("both", passes=2, freeze="factor", **IDENTITY),
    "S-vel": hx.PostStabilized("velocity", **IDENTITY),
    "S-pos": hx.PostStabilized("position", **IDENTITY),
}


def run(case, formulation, t_end, dt, integrator=None):
    system, start = two_link_arm(case)
    integrator = hx.Heun() if integrator is None else integrator
    return hx.simulate(system, start, t_end, dt=dt, formulation=formulation, integrator=integrator)


def orders(errors):
    errors = np.asarray(errors)
    return np.log2(errors[:-1] / errors[1:])


def test_drift_of_the_double_step_is_of_order_six_and_of_the_single_one_of_order_three():
    # With a method of order p = 2 a step leaves O(h^3); the frozen factor of the second pass is
    # off by O(h^3) too, so O(h^6) remains. In position, whose last residual is quadratic as well,
    # it vanishes in rounding.
    rates = {
        name: [np.max(run(2, METHODS[name], 1.0, 1 / n).drift()[1]) for n in (25, 50, 100)]
        for name in ("S-both", "S-both^2")
    }
    assert orders(rates["S-both"]) == pytest.approx([3.0, 3.0], abs=0.25)
    assert orders(rates["S-both^2"]) == pytest.approx([6.0, 6.0], abs=0.4)


@pytest.fixture(scope="module")
def reference():
    """The arm with the moving constraint, every 1/16 s to 0.5 s, to about 1e-12."""
    result = run(2, hx.CoordinateProjection(), 0.5, 1 / 4096, hx.RK4())
    return result.q[::256], result.v[::256]


def measured(formulation, reference, integrator=None, steps=(64, 128, 256)):
    """Orders of the largest errors of q and v on the arm with the moving constraint."""
    integrator = hx.RK4() if integrator is None else integrator
    runs = {n: run(2, formulation, 0.5, 1 / n, integrator) for n in steps}
    q = [np.max(np.abs(r.q[:: n // 16] - reference[0])) for n, r in runs.items()]
    v = [np.max(np.abs(r.v[:: n // 16] - reference[1])) for n, r in runs.items()]
    return orders(q)[-1], orders(v)[-1]


def test_projection_keeps_the_order_and_the_constraints(reference):
    order = measured(hx.CoordinateProjection(), reference)
    assert order == pytest.approx((4.0, 4.0), abs=0.15)
    position, rate = run(2, hx.CoordinateProjection(), 1.0, 1 / 64, hx.RK4()).drift()
    assert np.max(position) < 1e-14
    assert np.max(rate) < 1e-14


@pytest.mark.parametrize(
    "variant",
    ["mass", *(pytest.param(x, marks=pytest.mark.slow) for x in ("identity", "G", "H"))],
)
def test_the_stabilized_ode_keeps_the_order_with_a_fixed_gain(variant, reference):
    formulation = hx.StabilizedInvariant(10.0, variant=variant)
    assert formulation.orders(hx.RK4()) == (4, 4, 4)
    assert measured(formulation, reference) == pytest.approx((4.0, 4.0), abs=0.15)


@pytest.mark.slow
def test_a_gain_tied_to_the_step_leaves_second_order(reference):
    formulation = hx.StabilizedInvariant("1/dt")
    assert formulation.orders(hx.RK4()) == (2, 2, 2)
    assert measured(formulation, reference) == pytest.approx((2.0, 2.0), abs=0.15)


@pytest.mark.slow
def test_implicit_integrators_take_the_stabilized_ode(reference):
    formulation = hx.StabilizedInvariant(10.0)
    order = measured(formulation, reference, hx.ImplicitMidpoint(), (64, 128))
    assert order == pytest.approx((2.0, 2.0), abs=0.15)


@native
def along_the_flow(formulation, system, q, v, t):
    """h = (g, rate) and its derivative along the vector field."""
    h = lambda q, v, t: (system.constraint(q, t), system.constraint_rate(q, v, t))  # noqa: E731
    rates = formulation.vector_field(t, (q, v), StepContext(system, jnp.asarray(0.1)))
    return jax.jvp(h, (q, v, t), (*rates, jnp.ones_like(t)))


@pytest.mark.parametrize("variant", ["mass", "identity", "G", "H"])
def test_off_the_manifold_the_invariants_decay(variant):
    # also for rotations: a spatial pendulum, moved off its joint
    system, start = spherical_chain(1)
    rng = np.random.default_rng(1)
    v = jnp.asarray(rng.normal(size=start.v.size))
    q = system.retract(start.q, 0.1 * jnp.asarray(rng.normal(size=v.size)))
    formulation = hx.StabilizedInvariant("0.3/dt", variant=variant)
    (g, rate), (dg, drate) = along_the_flow(formulation, system, q, v, jnp.asarray(0.2))
    assert np.max(np.abs(g)) > 0.01
    np.testing.assert_allclose(dg, rate - 3.0 * g, atol=1e-12)
    if variant in ("G", "H"):
        np.testing.assert_allclose(drate, -3.0 * rate, atol=1e-12)


@native
def full_correction(system, q, v, t):
    """Positions and velocities after one full correction with D = diag(G^T, G^T)."""
    formulation = hx.PostStabilized("full", direction="G", metric="identity")
    return formulation.after_step(StepContext(system, jnp.asarray(0.1)), t, (q, v))


def test_the_block_direction_is_equation_4_6():
    system, start = slider_crank()
    rng = np.random.default_rng(0)
    q, v = start.q + 0.01 * rng.normal(size=4), jnp.asarray(rng.normal(size=4))
    t = jnp.asarray(0.0)
    G = np.asarray(system.jacobian(q, t))
    R = np.asarray(system.constraint_rate_jacobian(q, v, t))
    zero = np.zeros_like(G)
    H, D = np.block([[G, zero], [R, G]]), np.block([[G.T, zero.T], [zero.T, G.T]])
    h = np.concatenate([system.constraint(q, t), system.constraint_rate(q, v, t)])
    expected = np.concatenate([q, v]) - D @ np.linalg.solve(H @ D, h)
    np.testing.assert_allclose(np.concatenate(full_correction(system, q, v, t)), expected)


@native
def projected(formulation, system, q, v, t):
    return formulation.after_step(StepContext(system, jnp.asarray(0.1)), t, (q, v))


@pytest.mark.parametrize("metric", ["mass", "identity"])
def test_projection_finds_the_nearest_position_even_from_afar(metric):
    system, start = slider_crank()
    t = jnp.asarray(0.0)
    # so far that the factor of the first iterate does not serve in the mass metric
    q = start.q + jnp.array([0.2, -0.2, 0.2, 0.2])
    formulation = hx.CoordinateProjection(metric, max_iterations=30)
    there, v = projected(formulation, system, q, start.v + 1.0, t)
    G = np.asarray(system.jacobian(there, t))
    assert np.max(np.abs(system.constraint(there, t))) < 1e-12
    assert np.max(np.abs(system.constraint_rate(there, v, t))) < 1e-14
    weight = np.asarray(system.mass_matrix(q)) if metric == "mass" else np.eye(4)
    for moved in (there - q, v - (start.v + 1.0)):
        normal = weight @ moved  # in the span of the constraint normals
        rest = normal - G.T @ np.linalg.lstsq(G.T, normal, rcond=None)[0]
        assert np.max(np.abs(rest)) < 1e-6 * np.max(np.abs(normal))


def test_projection_that_does_not_converge_is_not_taken_for_a_result():
    system, start = slider_crank()
    q = start.q + jnp.array([0.3, -0.4, 0.3, 0.3])
    formulation = hx.CoordinateProjection(max_iterations=2)
    there, _ = projected(formulation, system, q, start.v, jnp.asarray(0.0))
    assert np.all(np.isnan(there))


def test_projection_has_exact_derivatives_in_both_modes():
    system, start = slider_crank()
    rng = np.random.default_rng(2)
    formulation = hx.CoordinateProjection("identity")
    direction, weights = (jnp.asarray(rng.normal(size=4)) for _ in range(2))

    @jax.jit
    def value(q):
        moved = formulation.after_step(StepContext(system, jnp.asarray(0.1)), 0.0, (q, start.v))
        return weights @ moved[0]

    q = start.q + 1e-3 * rng.normal(size=4)
    step = 1e-5
    difference = (value(q + step * direction) - value(q - step * direction)) / (2 * step)
    forward = jax.jvp(value, (q,), (direction,))[1]
    assert float(forward) == pytest.approx(float(difference), rel=1e-8)
    backward = jax.grad(value)(q) @ direction
    assert float(backward) == pytest.approx(float(forward), rel=1e-12)


def test_one_level_alone_is_projected():
    system, start = slider_crank()
    q, v, t = start.q + 0.01, start.v + 0.1, jnp.asarray(0.0)
    there, same = projected(hx.CoordinateProjection(level="position"), system, q, v, t)
    assert np.max(np.abs(system.constraint(there, t))) < 1e-12
    np.testing.assert_array_equal(same, v)
    same, moved = projected(hx.CoordinateProjection(level="velocity"), system, q, v, t)
    assert np.max(np.abs(system.constraint_rate(q, moved, t))) < 1e-14
    np.testing.assert_array_equal(same, q)


@pytest.mark.slow
def test_projection_of_rotations():
    system, start = spherical_chain(2)
    result = hx.simulate(
        system, start, 1.0, dt=0.01, formulation=hx.CoordinateProjection(), save=10
    )
    position, rate = result.drift()
    assert np.max(position) < 1e-13
    assert np.max(rate) < 1e-13


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hx.StabilizedInvariant("fast"), "StabilizedInvariant: gamma='fast'"),
        (lambda: hx.StabilizedInvariant(-1.0), "gamma=-1.0 is out of range"),
        (lambda: hx.StabilizedInvariant(variant="M"), "variant='M' is not known. Choose one of"),
        (lambda: hx.CoordinateProjection("both"), "metric='both' is not known"),
        (lambda: hx.CoordinateProjection(tol=0.0), "tol=0.0 is out of range"),
        (lambda: hx.CoordinateProjection(max_iterations=0), "max_iterations=0 must be a whole"),
        (lambda: hx.PostStabilized("both", direction="G"), "belongs to level='full'"),
        (lambda: hx.PostStabilized("full", direction="M"), "direction='M' is not known"),
    ],
)
def test_bad_options_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_formulations_write_themselves_as_one_would_make_them():
    assert repr(hx.StabilizedInvariant("1/dt", variant="G")) == (
        "StabilizedInvariant('1/dt', variant='G')"
    )
    assert repr(hx.CoordinateProjection("identity", level="position")) == (
        "CoordinateProjection('identity', level='position')"
    )
