"""Steps with an exact balance of energy, for rigid bodies, joints, springs and beams."""

import numpy as np
import pytest

import holonax as hx

SCHEMES = [hx.EnergyPreserving, hx.EnergyDecaying]


def rigid():
    """A fast top with an arm at a hinge and a spring."""
    m = hx.Model()
    m.body("top", 1.0, (0.02, 0.03, 0.04), position=(0.3, 0.1, 0.2), angular_velocity=(3, 5, 20))
    m.spherical("pin", "ground", "top", at=(0, 0, 0))
    m.body("arm", 0.5, (0.002, 0.03, 0.03), position=(0.6, 0.2, 0.4))
    m.revolute("hinge", "top", "arm", at=(0.5, 0.2, 0.3), axis=(0.2, 1, 0.3))
    ends = (1, 0, 0), (0.6, 0.2, 0.5)
    m.spring_damper("spring", "ground", "arm", at=ends, stiffness=200.0, length=0.3)
    return m.build()


def whirling(E=5e9, spin=(0, 1.0, 8.0)):
    """A rod that whirls about a ball joint; with E = 5e9 its waves are much faster than steps."""
    m = hx.Model()
    section = hx.Section.rectangle(0.02, 0.01, E=E, G=E / 2.6, density=1000.0)
    m.beam("rod", (0, 0, 0), (1, 0, 0), section=section, elements=4, angular_velocity=spin)
    m.spherical("pin", "ground", "rod.start", at=(0, 0, 0))
    return m.build()


def run(made, t_end, dt, scheme):
    return hx.simulate(*made, t_end, dt=dt, formulation=hx.Index3(), integrator=scheme)


@pytest.mark.parametrize(
    ("make", "dt"), [(rigid, 0.005), pytest.param(whirling, 0.02, marks=pytest.mark.slow)]
)
def test_energy_is_kept_to_rounding_or_never_grows(make, dt):
    made = make()
    kept = run(made, 200 * dt, dt, hx.EnergyPreserving())
    assert kept.success
    energy = kept.energy
    size = np.max(energy.kinetic)
    assert np.max(np.abs(energy.total - energy.total[0])) < 1e-13 * size
    less = run(made, 200 * dt, dt, hx.EnergyDecaying())
    assert less.success
    assert np.max(np.diff(less.energy.total)) < 1e-14 * size
    assert less.energy.total[-1] > energy.total[0] - 0.01 * size  # resolved motion loses little
    for result in (kept, less):
        assert np.max(result.drift()[0]) < 1e-12
    assert np.max(less.drift()[1]) < 1e-12


@pytest.mark.slow
def test_the_trapezoidal_rule_blows_up_where_they_do_not():
    made = whirling()
    result = hx.simulate(*made, 4.0, dt=0.02, formulation=hx.Index2(), integrator=hx.Trapezoidal())
    energy = result.energy.total
    assert not result.success or np.max(energy) > 2 * energy[0]
    assert np.max(np.diff(energy)) > 0.1 * np.max(result.energy.kinetic[:1])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.slow
def test_order_two_on_joints_and_beams(scheme):
    for make, t, dt, body in (
        (rigid, 0.2, 2e-3, "arm"),
        (lambda: whirling(1e6), 0.2, 5e-4, "rod.end"),
    ):
        made = make()
        exact = hx.simulate(*made, t, rtol=1e-10)[body].position[-1]
        errors = [
            np.abs(run(made, t, h, scheme())[body].position[-1] - exact).max() for h in (dt, dt / 2)
        ]
        assert 3.5 < errors[0] / errors[1] < 9.0  # the decaying one is of order 3 without joints


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_hundred_thousand_steps(scheme):
    result = run(whirling(), 2000.0, 0.02, scheme())
    energy, size = result.energy.total, np.max(result.energy.kinetic)
    assert result.success and result.stats["steps"] == 100_000
    if scheme is hx.EnergyPreserving:
        # rounding of 1e5 steps adds up as its root, or at worst as their number
        assert np.max(np.abs(energy - energy[0])) < 1e-10 * size
    else:
        assert np.max(np.diff(energy)) < 1e-14 * size
