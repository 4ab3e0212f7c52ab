"""Vibrations of what spins, over its speed: against closed forms and published tables."""

import numpy as np
import pytest

import holonax as hx


@pytest.mark.slow
def test_a_rigid_rotor_splits_into_forward_and_backward_whirl():
    """Springs at both ends of a shaft along x, 0.25 m from its centre, hold a round rotor."""
    model = hx.Model(gravity=(0, 0, 0))
    about, across = 0.08, 0.05
    model.body("rotor", 2.0, (about, across, across))
    for name, end in (("left", -0.25), ("right", 0.25)):
        stiffness = (1000.0, 400.0, 400.0, 0.0, 0.0, 0.0)
        model.bushing(name, "ground", "rotor", at=(end, 0, 0), stiffness=stiffness)
    speeds = np.array([0.0, 20.0, 60.0])
    found = hx.campbell(*model.build(), speeds, axis=(1, 0, 0))
    k, gyro = 2 * 400.0 * 0.25**2, about * speeds
    root = np.sqrt(gyro**2 + 4 * across * k)
    still = np.ones_like(speeds)
    modes = [20.0 * still, 20.0 * still, np.sqrt(1000.0) * still]
    exact = np.stack([*modes, (root - gyro) / (2 * across), (root + gyro) / (2 * across)], axis=1)
    np.testing.assert_allclose(np.sort(found.frequency), np.sort(exact), rtol=1e-6)
    assert not found.turning.any() and not found.unstable.any()
    assert len(found.plot().axes) == 1 and "60" in str(found)


def blade(elements, order=1):
    """EI = mass = length = 1, in both directions, clamped to a heavy hub that is free to turn."""
    section = hx.Section(
        EA=1e6, GA=(5e5, 5e5), GJ=1.0, EI=(1.0, 1.0), mass=1.0, inertia=(2e-6, 1e-6, 1e-6)
    )
    model = hx.Model(gravity=(0, 0, 0))
    model.body("hub", 1e6, (1e6, 1e6, 1e6))
    model.revolute("shaft", "ground", "hub", at=(0, 0, 0), axis=(0, 0, 1))
    model.beam("blade", (0, 0, 0), (1, 0, 0), section=section, elements=elements, order=order)
    model.fixed("root", "hub", "blade.start")
    return model


@pytest.mark.slow
def test_a_spinning_blade_stiffens_as_published():
    """Wright, Smith, Thresher, Wang 1982, hub radius zero: flapping at the speeds 0 and 12. In the
    plane of rotation frequencies are those of sqrt(flap^2 - speed^2)."""
    found = []
    for elements in (8, 16):
        modes = hx.campbell(*blade(elements).build(), (0.0, 6.0, 12.0), modes=4)
        assert list(modes.turning) == [False, True, True]
        found.append(np.sort(modes.frequency))
    # the elements' error falls with the square of their length
    extrapolated = (4 * found[1] - found[0]) / 3
    np.testing.assert_allclose(extrapolated[0, ::2], [3.5160, 22.0345], rtol=2e-3)
    chord, flap = extrapolated[2, [0, 2]], extrapolated[2, [1, 3]]
    np.testing.assert_allclose(flap, [13.1702, 37.6031], rtol=2e-3)
    np.testing.assert_allclose(chord, np.sqrt(flap**2 - 12.0**2), rtol=1e-3)
    for x in found:  # whatever the elements
        np.testing.assert_allclose(x[2, [1, 3]] ** 2 - x[2, [0, 2]] ** 2, 144.0, rtol=1e-2)


@pytest.mark.slow
def test_a_round_shaft_whirls_forward_and_backward_as_rayleigh_has_it():
    """Between hinges, with the rotary inertia J of its sections about their diameters and 2 J
    about the axis: (m + J k^2) w^2 - 2 J k^2 speed w - EI k^4 = 0, k = pi, 2 pi; the roots of
    either sign are the two senses of whirling."""
    J, k, speeds = 0.01, np.pi * np.arange(1, 3), np.array([0.0, 10.0, 20.0])
    section = hx.Section(
        EA=1e5, GA=(1e5, 1e5), GJ=50.0, EI=(1.0, 1.0), mass=1.0, inertia=(2 * J, J, J)
    )
    found = []
    for elements in (8, 16):
        model = hx.Model(gravity=(0, 0, 0))
        model.beam("shaft", (0, 0, 0), (1, 0, 0), section=section, elements=elements)
        model.spherical("near", "ground", "shaft.start", at=(0, 0, 0))
        model.point_on_line("far", "ground", "shaft.end", at=(1, 0, 0), axis=(1, 0, 0))
        seen = hx.campbell(*model.build(), speeds, axis=(1, 0, 0), modes=4)
        assert not seen.turning.any() and not seen.unstable.any()
        found.append(np.sort(seen.frequency))
    mass, gyro = 1 + J * k**2, J * k**2 * speeds[:, None]
    root = np.sqrt(gyro**2 + mass * k**4)
    exact = np.sort(np.concatenate([(root - gyro) / mass, (root + gyro) / mass], axis=1))
    np.testing.assert_allclose(found[1], exact, rtol=6e-3)
    np.testing.assert_allclose((4 * found[1] - found[0]) / 3, exact, rtol=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "elements", "error"), [(1, 24, 6e-3), (2, 8, 6e-3), (3, 6, 6e-3)]
)
def test_frequencies_of_a_free_beam(order, elements, error):
    """Euler and Bernoulli: (4.7300, 7.8532)^2 sqrt(EI/m)/L^2, for a slender beam."""
    section = hx.Section(EA=1e6, GA=(5e5, 5e5), GJ=1e3, EI=(1.0, 1.0), mass=1.0, inertia=[1e-6] * 3)
    model = hx.Model(gravity=(0, 0, 0))
    model.beam("rod", (0, 0, 0), (1, 0, 0), section=section, elements=elements, order=order)
    modes = hx.linearize(*model.build()).modes()
    found = np.sort(np.asarray(modes.angular_frequency))
    found = found[found > 1.0][:4]  # six motions are free
    exact = np.repeat([4.730041, 7.853205], 2) ** 2
    np.testing.assert_allclose(found, exact, rtol=error)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"axis": (0, 0, 0)}, "axis"),
        ({"speeds": ()}, "speeds"),
        ({"bodies": "wheel"}, "wheel"),
        ({"modes": 0}, "modes"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(options, words):
    model = hx.Model(gravity=(0, 0, 0))
    model.body("rotor", 2.0, (1.0, 1.0, 1.0))
    speeds = options.pop("speeds", (0.0, 1.0))
    with pytest.raises((ValueError, TypeError, KeyError), match=words):
        hx.campbell(*model.build(), speeds, **options)
