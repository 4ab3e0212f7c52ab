"""Mechanisms with links that bend converge with the step and with the elements."""

import numpy as np
import pytest

import holonax as hx

SOFT = {"E": 2e8, "G": 8e7, "density": 1000.0}
SMOOTH = (
    "40 * t**4"  # of the crank [rad]: what begins with a jump sends waves that no step resolves
)


def four_bar(elements):
    """A crank that is driven, with a coupler and a rocker that bend."""
    model = hx.Model(gravity=(0, 0, 0))
    o, a, b, c = (0, 0, 0), (0.12, 0, 0), (0.36, 0.24, 0), (0.36, 0, 0)
    flat = hx.Section.rectangle(0.01, 0.03, **SOFT)
    model.body("crank", 0.1, (1e-5, 1.3e-4, 1.3e-4), position=(0.06, 0, 0))
    model.beam("coupler", a, b, section=flat, up=(0, 0, 1), elements=elements)
    model.beam("rocker", c, b, section=flat, up=(0, 0, 1), elements=elements)
    model.revolute("O", "ground", "crank", at=o, axis=(0, 0, 1))
    model.revolute("A", "crank", "coupler.start", at=a, axis=(0, 0, 1))
    model.spherical("B", "coupler.end", "rocker.end", at=b)
    model.revolute("C", "ground", "rocker.start", at=c, axis=(0, 0, 1))
    model.drive_angle("motor", joint="O", angle=SMOOTH)
    return model.build()


def slider_crank(elements):
    """A crank that is driven, with a connecting rod that bends."""
    model = hx.Model(gravity=(0, 0, 0))
    pin, end = (0.15, 0, 0), (0.45, 0, 0)
    rod = hx.Section.circle(0.008, **SOFT)
    model.body("crank", 0.36, (1e-4, 7e-4, 7e-4), position=(0.075, 0, 0))
    model.body("slider", 0.1, (1e-4, 1e-4, 1e-4), position=end)
    model.beam("coupler", pin, end, section=rod, up=(0, 0, 1), elements=elements)
    model.revolute("main", "ground", "crank", at=(0, 0, 0), axis=(0, 0, 1))
    model.revolute("big_end", "crank", "coupler.start", at=pin, axis=(0, 0, 1))
    model.spherical("small_end", "coupler.end", "slider", at=end)
    model.prismatic("guide", "ground", "slider", at=end, axis=(1, 0, 0))
    model.drive_angle("motor", joint="main", angle=SMOOTH)
    return model.build()


def middle(made, t_end=0.4, **options):
    """Where the middle of the link that bends is."""
    result = hx.simulate(*made, t_end, save="end", **options)
    assert result.success, result.message
    return np.asarray(result["coupler(0.5)"].position[-1])


INDEX3 = {
    "generalized": (hx.GeneralizedAlpha(0.6), 2),
    "decaying": (hx.EnergyDecaying(), 2),
    "radau": (hx.RadauIIA(2), 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", [four_bar, slider_crank])
def test_errors_fall_with_the_order_of_the_method(make):
    """Against explicit steps with consistent accelerations, of the same elements."""
    made = make(4)
    exact = middle(made, rtol=1e-8)
    for method, order in INDEX3.values():
        runs = [
            middle(made, dt=dt, formulation=hx.Index3(), integrator=method) for dt in (1e-3, 5e-4)
        ]
        first, second = (np.linalg.norm(run - exact) for run in runs)
        # the decaying scheme is of order 3 without joints, and between the two with them
        assert order - 0.15 < np.log2(first / second) < order + (0.15 if order == 3 else 0.9)
        assert second < 5e-8


@pytest.mark.slow
@pytest.mark.parametrize("make", [four_bar, slider_crank])
def test_errors_fall_with_the_square_of_the_elements(make):
    options = {"dt": 5e-4, "formulation": hx.Index3(), "integrator": hx.RadauIIA(2)}
    found = [middle(make(n), **options) for n in (4, 8, 16)]
    first, second = np.linalg.norm(np.diff(found, axis=0), axis=1)
    assert 3.8 < first / second < 4.2 and second < 1e-5
