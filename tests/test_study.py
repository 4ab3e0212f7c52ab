"""Studies of methods: condition numbers, spectral radii and convergence tables."""

import numpy as np
import pytest

import holonax as hx
from holonax import examples, study

INDEX3 = [
    hx.ImplicitMidpoint(),
    hx.GeneralizedAlpha(),
    pytest.param(hx.HHT(), marks=pytest.mark.slow),
    pytest.param(hx.BDF(2), marks=pytest.mark.slow),
    hx.RadauIIA(2),
    pytest.param(hx.RadauIIA(3), marks=pytest.mark.slow),
]


def label(integrator):
    return type(integrator).__name__


@pytest.fixture(scope="module")
def slider_crank():
    return examples.slider_crank()


@pytest.mark.parametrize("integrator", INDEX3, ids=label)
def test_scaled_index_3_has_the_same_condition_at_every_step_size(slider_crank, integrator):
    found = study.condition_numbers(
        *slider_crank,
        [1e-2, 1e-3, 1e-4, 1e-5, 1e-6],
        formulation=hx.Index3(condition=True),
        integrator=integrator,
    )
    np.testing.assert_allclose(found, found[0], rtol=0.1)
    assert found[0] < 1e4


@pytest.mark.parametrize(
    "integrator",
    [hx.GeneralizedAlpha()]
    + [
        pytest.param(x, marks=pytest.mark.slow)
        for x in (hx.ImplicitMidpoint(), hx.HHT(), hx.BDF(2), hx.RadauIIA(2), hx.RadauIIA(3))
    ],
    ids=label,
)
def test_without_scaling_the_condition_grows_with_the_fourth_power(slider_crank, integrator):
    steps = np.array([1e-2, 5e-3, 2e-3, 1e-3])
    found = study.condition_numbers(
        *slider_crank,
        steps,
        formulation=hx.Index3("none", condition=True),
        integrator=integrator,
    )
    slope = np.polyfit(np.log(steps), np.log(found), 1)[0]
    assert slope == pytest.approx(-4, abs=0.05)


def test_condition_numbers_have_to_be_asked_for(slider_crank):
    with pytest.raises(ValueError, match=r"hx\.Index3\(condition=True\)"):
        study.condition_numbers(*slider_crank, [1e-2], formulation=hx.Index3())


def hanging_pendulum(length=5.0, mass=1.0):
    """Welch's double pendulum at rest below its support, and its natural frequencies [rad/s]."""
    model = hx.Model(gravity=(0.0, -10.0))
    inertia = mass * length**2 / 12
    upper = model.planar_body("upper", mass, inertia, position=(0.0, -length / 2))
    lower = model.planar_body("lower", mass, inertia, position=(0.0, -1.5 * length))
    model.revolute("shoulder", model.ground, upper, at=(0.0, 0.0))
    model.revolute("elbow", upper, lower, at=(0.0, -length))
    M = length**2 * np.array([[4 / 3, 1 / 2], [1 / 2, 1 / 3]])
    K = 10.0 * length * np.diag([3 / 2, 1 / 2])
    return *model.build(), np.sqrt(np.linalg.eigvals(np.linalg.solve(M, K)).real)


@pytest.mark.parametrize("dt", [1e-2, 1.0, 10.0])
def test_welch_keeps_free_motion_at_every_step_size(dt):
    """X has no eigenvalue beyond the unit circle, and -1 on the velocity of the constraint."""
    eigenvalues = np.linalg.eigvals(study.step_matrix(hx.AlgebraicEnforcement(2), dt=dt))
    assert np.max(np.abs(eigenvalues)) == pytest.approx(1, abs=1e-6)  # a double one splits
    assert np.min(np.abs(eigenvalues + 1)) < 1e-12


@pytest.mark.slow
def test_welch_under_gravity_is_stable_up_to_the_root_of_two_by_the_frequency():
    system, start, frequencies = hanging_pendulum()
    limit = np.sqrt(2) / frequencies.max()  # 0.436 s
    radius = lambda dt: study.spectral_radius(  # noqa: E731
        hx.AlgebraicEnforcement(2), dt=dt, system=system, q=start.q
    )
    assert radius(0.99 * limit) < 1 + 1e-9
    assert radius(1.01 * limit) > 1 + 1e-3


@pytest.mark.parametrize("dt", [0.1, 10.0])
def test_growth_is_found_at_any_step_size(dt):
    """Heun's method on an undamped oscillation: |R(iωh)|^2 = 1 + (ωh)^4 / 4, however large."""
    system, start, frequencies = hanging_pendulum()
    z = dt * frequencies.max()
    radius = study.spectral_radius(hx.Index1(), hx.Heun(), dt, system=system, q=start.q)
    assert radius == pytest.approx(np.sqrt(1 + z**4 / 4), rel=1e-6)


@pytest.mark.parametrize("gain", [0.5, 1.0, 1.9, 2.1])
@pytest.mark.parametrize("dt", [1e-3, 0.1])
def test_baumgarte_tied_to_the_step_has_the_same_radius_at_every_step_size(gain, dt):
    """Violations obey e'' + 2 c/h e' + (c/h)^2 e = 0: a double R(-c) = 1 - c + c^2/2 of Heun."""
    matrix = study.step_matrix(hx.Baumgarte(f"{gain}/dt"), hx.Heun(), dt)
    eigenvalues = np.linalg.eigvals(matrix)
    expected = 1 - gain + gain**2 / 2
    assert np.sum(np.abs(eigenvalues - expected) < 1e-5) == 2  # defective: splits by sqrt(eps)
    radius = study.spectral_radius(hx.Baumgarte(f"{gain}/dt"), hx.Heun(), dt)
    assert radius == pytest.approx(max(1.0, expected), abs=1e-5)


@pytest.mark.parametrize(
    ("formulation", "integrator"),
    [
        (hx.PostStabilized("both"), hx.RK4()),
        (hx.CoordinateProjection(), hx.AdamsMoulton(4)),
        pytest.param(hx.GGL(), hx.RadauIIA(3), marks=pytest.mark.slow),
        (hx.Index3(), hx.GeneralizedAlpha(0.8)),
    ],
    ids=["projected RK4", "projected Adams", "GGL Radau", "index-3 generalized-alpha"],
)
def test_the_step_of_a_stable_pair_has_the_eigenvalues_of_the_motion(formulation, integrator):
    """q'' + 0.1 q' + q = 0 beside modes of the method; errors of one step are below h^3."""
    problem = study.linear_problem(stiffness=1.0, damping=0.1)
    dt = 0.1
    exact = np.exp(dt * np.roots([1.0, 0.1, 1.0]))
    eigenvalues = np.linalg.eigvals(study.step_matrix(formulation, integrator, dt, system=problem))
    for value in exact:
        assert np.min(np.abs(eigenvalues - value)) < dt**3
    radius = study.spectral_radius(formulation, integrator, dt, system=problem)
    assert radius < 1 + 1e-12


def test_convergence_study_of_a_pair(slider_crank):
    found = study.convergence(
        *slider_crank,
        0.4,
        [4e-3, 2e-3, 1e-3],
        formulation=hx.PostStabilized("both", passes=2),
        integrator=hx.Heun(),
    )
    assert set(found.errors) == {"q", "v", "lam", "position_drift", "velocity_drift", "energy"}
    for quantity in ("q", "v", "lam", "energy"):
        assert found.orders[quantity][-1] == pytest.approx(2, abs=0.15), quantity
    assert found.orders["velocity_drift"][-1] == pytest.approx(6, abs=0.3)
    assert "(2.0" in str(found) or "(1.9" in str(found)


def test_convergence_study_needs_two_steps_and_a_run_that_succeeds(slider_crank):
    with pytest.raises(ValueError, match="at least two step sizes"):
        study.convergence(*slider_crank, 0.4, [1e-3], formulation=hx.Index1())
    with pytest.raises(ValueError, match=r"dt=0\.1 s failed"):
        study.convergence(
            *slider_crank, 2.0, [0.1, 0.05], formulation=hx.Baumgarte(1e3), integrator=hx.Heun()
        )
