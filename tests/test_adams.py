"""Adams methods: exact coefficients, measured orders, the tables of Wu, Chiou and Lin (2000)."""

from fractions import Fraction as F
from functools import cache

import numpy as np
import pytest
from scipy.integrate import DOP853

import holonax as hx
from holonax.integrator import adams
from holonax.integrator.tables import dop853, dop853_stages
from mechanisms import slider_crank

STEPS = range(1, 7)


def test_integrals_of_table_1():
    bashforth = [F(1), F(1, 2), F(5, 12), F(3, 8), F(251, 720), F(95, 288)]
    moulton = [F(1), F(-1, 2), F(-1, 12), F(-1, 24), F(-19, 720), F(-3, 160)]
    assert [adams.gamma(k) for k in range(6)] == bashforth
    assert [adams.gamma_star(k) for k in range(6)] == moulton


@pytest.mark.parametrize(
    ("denominator", "bashforth", "moulton"),
    [
        (1, [1], [1]),
        (2, [3, -1], [1, 1]),
        (12, [23, -16, 5], [5, 8, -1]),
        (24, [55, -59, 37, -9], [9, 19, -5, 1]),
        (720, [1901, -2774, 2616, -1274, 251], [251, 646, -264, 106, -19]),
        (1440, [4277, -7923, 9982, -7298, 2877, -475], [475, 1427, -798, 482, -173, 27]),
    ],
)
def test_coefficients_are_those_of_the_textbooks(denominator, bashforth, moulton):
    m = len(bashforth)
    assert adams.bashforth_weights(m) == tuple(F(x, denominator) for x in bashforth)
    assert adams.moulton_weights(m - 1) == tuple(F(x, denominator) for x in moulton)


def defects(weights, first, powers):
    """For y' = t^(k-1): y(1) - y(0) less the formula with the nodes first, first - 1, ..."""
    return [
        F(1, k) - sum(w * F(first - j) ** (k - 1) for j, w in enumerate(weights))
        for k in range(1, powers + 1)
    ]


@pytest.mark.parametrize("m", STEPS)
def test_order_conditions_hold_exactly_up_to_the_order_and_not_beyond(m):
    for weights, first, order in [
        (adams.bashforth_weights(m), 0, m),
        (adams.moulton_weights(m - 1), 1, m),
        (adams.modified_weights(m), 1, m + 1),
    ]:
        *met, beyond = defects(weights, first, order + 1)
        assert met == [0] * order
        assert beyond != 0


@pytest.mark.parametrize("m", STEPS)
def test_theorem_1_is_exact(m):
    # W1/(W1+W2) AB_m + W2/(W1+W2) AM_{m-1} = AM_m, with W1 + W2 = gamma_{m-1}.
    w1, w2 = -adams.gamma_star(m), adams.gamma(m)
    assert w1 + w2 == adams.gamma(m - 1)
    assert adams.predictor_share(m) == w1 / (w1 + w2)
    assert adams.modified_weights(m) == adams.moulton_weights(m)
    # Proposition 3: the sum of gamma*_r up to k is gamma_k.
    assert sum(adams.gamma_star(r) for r in range(m + 1)) == adams.gamma(m)


def test_weights_of_the_predictor():
    shares = [F(1, 2), F(1, 6), F(1, 10), F(19, 270), F(27, 502), F(863, 19950)]
    assert [adams.predictor_share(m) for m in STEPS] == shares


def test_wrong_numbers_of_steps_and_modes_are_refused():
    for method in (hx.AdamsBashforth, hx.AdamsMoulton, hx.ModifiedAdamsMoulton):
        for m in (0, 7, 2.5, True):
            with pytest.raises(ValueError, match="from 1 to 6"):
                method(m)
    with pytest.raises(ValueError, match="PECE"):
        hx.AdamsMoulton(3, "PECECE")


# The programs of these runs are shared: same system, formulation, and saving of all steps.
DAMPED = hx.Baumgarte(5.0)


def run(integrator, n, t_end=1.0, formulation=DAMPED, **parameters):
    system, start = slider_crank()
    system = system.with_parameters(**parameters)
    return hx.simulate(
        system, start, t_end, dt=t_end / n, formulation=formulation, integrator=integrator
    )


def trajectory(integrator, n, points, formulation=DAMPED):
    """q and v of the slider-crank at equally spaced `points` of one second, by `n` steps."""
    result = run(integrator, n, formulation=formulation)
    assert result.success, result.message
    return np.concatenate([result.q, result.v], axis=1)[:: n // points]


@cache
def reference(points):
    return trajectory(hx.Dop853(), 400, points)


def measured_order(integrator, formulation=DAMPED, points=50):
    """The order between the two finest runs whose errors are well above rounding."""
    order, before = np.nan, None
    for k in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        states = trajectory(integrator, points * k, points, formulation)
        error = np.sqrt(np.mean((states - reference(points)) ** 2))
        if error < 5e-13:
            break
        if before is not None:
            order = np.log(before[1] / error) / np.log(k / before[0])
        before = k, error
    return order


METHODS = (
    [hx.AdamsBashforth(m) for m in STEPS]
    + [hx.AdamsMoulton(m, mode) for mode in ("PECE", "PEC", "iterated") for m in STEPS]
    + [hx.ModifiedAdamsMoulton(m) for m in STEPS]
)
QUICK = [hx.AdamsMoulton(3), hx.ModifiedAdamsMoulton(3)]


@pytest.mark.parametrize(
    "integrator",
    [pytest.param(i, marks=() if i in QUICK else pytest.mark.slow, id=str(i)) for i in METHODS],
)
def test_declared_order_on_the_slider_crank(integrator):
    assert abs(measured_order(integrator) - integrator.order(None)) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("integrator", [hx.AdamsMoulton(4), hx.ModifiedAdamsMoulton(4)], ids=str)
def test_declared_order_with_states_stabilised_after_each_step(integrator):
    order = measured_order(integrator, hx.PostStabilized("both", passes=2))
    assert abs(order - integrator.order(None)) < 0.15


def test_dop853_has_order_8():
    assert abs(measured_order(hx.Dop853(), points=10) - 8) < 0.3


def test_numbers_of_dop853_are_those_of_the_authors():
    """SciPy's are a translation of the authors' program; both hold the conditions of order 8."""
    a, c = dop853_stages()
    table = dop853()
    np.testing.assert_array_equal(a[:12, :12], DOP853.A[:12, :12])
    np.testing.assert_array_equal(a[12, :12], DOP853.B)
    np.testing.assert_array_equal(table.b_sol, DOP853.B)
    np.testing.assert_array_equal(c[:12], DOP853.C)
    np.testing.assert_array_equal(table.b_error, DOP853.E5[:12])
    np.testing.assert_array_equal(table.b_third, DOP853.E3[:12])
    np.testing.assert_allclose(a.sum(axis=1), c, atol=1e-14)
    powers = np.arange(8)
    np.testing.assert_allclose(table.b_sol @ c[:12, None] ** powers, 1 / (powers + 1), atol=1e-14)


def test_steps_that_change_start_the_history_again():
    system, start = slider_crank()
    times = np.array([0.123456, 0.5, 0.777, 1.0])
    method = {"formulation": DAMPED, "save": times}
    exact = hx.simulate(system, start, 1.0, dt=2e-3, integrator=hx.Dop853(), **method)
    errors = []
    for dt in (4e-3, 2e-3):
        result = hx.simulate(system, start, 1.0, dt=dt, integrator=QUICK[1], **method)
        assert result.stats["starting_steps"] == 2 * times.size  # m-1 for each step size
        errors.append(np.max(np.abs(result.q - exact.q)))
    assert errors[1] < 1e-7
    assert np.log2(errors[0] / errors[1]) > 3.7  # order 4 through the changes


def test_equal_steps_start_once_even_late_and_small():
    # At t = 1e4 s a step of 1e-3 s is known to 1e-9 of itself only.
    system, _ = slider_crank()
    late = hx.consistent(system, slider_crank()[1].q, t=1e4)
    result = hx.simulate(system, late, 1e4 + 0.5, dt=1e-3, formulation=DAMPED, integrator=QUICK[0])
    assert result.stats["starting_steps"] == 2


@pytest.mark.parametrize(("integrator", "limit"), [(QUICK[0], 168), (QUICK[1], 190)], ids=str)
def test_gain_at_which_critical_damping_becomes_unstable(integrator, limit):
    # Figure 7: alpha h = 1.68 for AMPC_3 and 1.89 for MAMPC_3, near the limits of Table 2.
    below = run(integrator, 1000, 10.0, hx.Baumgarte.critical(limit - 2.0), g=9.8)
    above = run(integrator, 1000, 10.0, hx.Baumgarte.critical(float(limit)), g=9.8)
    assert below.success and np.max(below.drift()[0]) < 1e-2
    assert not above.success


def slow_unless(quick, *values, id=None):
    return pytest.param(*values, marks=() if quick else pytest.mark.slow, id=id)


@pytest.mark.parametrize(
    ("integrator", "limit"),
    [
        slow_unless(m == 3, method(m), limit, id=f"{method.__name__}({m})")
        for method, limits in {
            hx.AdamsBashforth: (0.54545, 0.30000, 0.16334),
            hx.AdamsMoulton: (1.72878, 1.28482, 0.94692),
            hx.ModifiedAdamsMoulton: (1.93461, 1.41146, 1.03935),
        }.items()
        for m, limit in zip((3, 4, 5), limits)
    ],
)
def test_stability_limits_of_table_2(integrator, limit):
    assert hx.study.real_axis_limit(integrator) == pytest.approx(limit, abs=6e-6)


@pytest.mark.parametrize(
    ("integrator", "limit"),
    [
        slow_unless(True, hx.Euler(), 2.0),
        slow_unless(False, hx.RK4(), 2.785293563405282),
        slow_unless(False, hx.Dopri5(), 3.306567892634947),
        # zeta = -1 in zeta^2 - (1 + 3z/2) zeta + z/2 = 0.
        slow_unless(False, hx.AdamsBashforth(2), 1.0),
        slow_unless(False, hx.AdamsMoulton(1), 1.0),
    ],
    ids=str,
)
def test_stability_limits_known_in_closed_form(integrator, limit):
    assert hx.study.real_axis_limit(integrator) == pytest.approx(limit, abs=1e-6)


def test_stability_region_of_euler_is_the_disc_about_minus_one():
    region = hx.study.stability_region(hx.Euler(), n=(31, 41))
    z = region.re[None, :] + 1j * region.im[:, None]
    np.testing.assert_allclose(region.radius, np.abs(1 + z), atol=1e-12)
    np.testing.assert_array_equal(region.stable, np.abs(1 + z) <= 1 + 1e-9)


def test_amplification_of_a_two_step_method_has_the_roots_of_its_formula():
    # AB_2: zeta^2 - (1 + 3z/2) zeta + z/2 = 0.
    z = -0.3 + 0.4j
    matrix = hx.study.amplification(hx.AdamsBashforth(2), z)
    roots = np.roots([1, -(1 + 1.5 * z), 0.5 * z])
    found = np.linalg.eigvals(matrix)
    for root in np.concatenate([roots, roots.conj()]):
        assert np.min(np.abs(found - root)) < 1e-12


@pytest.mark.slow
def test_amplification_of_radau_is_its_stability_function():
    for z in (-2.0, 3j, -50.0 + 10j):
        found = np.max(np.abs(np.linalg.eigvals(hx.study.amplification(hx.RadauIIA(3), z))))
        r = (1 + 2 * z / 5 + z**2 / 20) / (1 - 3 * z / 5 + 3 * z**2 / 20 - z**3 / 60)
        assert found == pytest.approx(abs(r), abs=1e-9)
    assert hx.study.real_axis_limit(hx.RadauIIA(3)) == np.inf


def test_critical_damping_ties_both_gains():
    assert repr(hx.Baumgarte.critical(5.0)) == repr(hx.Baumgarte(5.0, 5.0))
    assert repr(hx.Baumgarte.critical("1/dt")) == repr(hx.Baumgarte("1/dt", "1/dt"))
