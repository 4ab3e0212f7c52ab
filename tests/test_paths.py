"""Paths of equilibria through limit points, against closed forms and published limit loads."""

import numpy as np
import pytest

import holonax as hx

STIFFNESS, SERIES = 1000.0, 150.0


def truss(height):
    """Two springs that lean on one another over a base of 2 m; the load pulls at the free end of a
    third one that hangs from their apex."""
    model = hx.Model(gravity=(0, 0))
    model.planar_body("apex", hx.point_mass(1.0), position=(0, height))
    model.planar_body("handle", hx.point_mass(1.0), position=(0, height - 1.0))
    for name, x in (("left", -1.0), ("right", 1.0)):
        model.spring_damper(name, "ground", "apex", at_a=(x, 0), at_b=(0, 0), stiffness=STIFFNESS)
    model.spring_damper("hanger", "apex", "handle", stiffness=SERIES)
    model.force("load", "handle", force=(0, -1.0))
    return model


def load_at(height, y):
    """What holds the apex of the truss at y."""
    length = np.hypot(1.0, y)
    return 2 * STIFFNESS * (np.hypot(1.0, height) / length - 1) * y


def test_a_truss_snaps_through_and_back_on_its_exact_path():
    path = truss(0.5).equilibrium_path("load", until=150.0)
    assert path.success and path.status == "reached" and path.factor[-1] == 150.0
    y = path["apex"].position[:, 1]
    np.testing.assert_allclose(path.factor, load_at(0.5, y), atol=1e-10)
    # the end of the soft spring goes up again while the apex falls: a snap-back
    end = path["handle"].position[:, 1]
    np.testing.assert_allclose(end, y - 1.0 - path.factor / SERIES, atol=1e-12)
    assert np.any(np.diff(end) > 0) and np.all(np.diff(y) < 0)
    # the limits, from the derivative of the load
    at = np.sqrt(np.hypot(1.0, 0.5) ** (2 / 3) - 1)
    assert [x.kind for x in path.limits] == ["maximum", "minimum"]
    for limit, place in zip(path.limits, (at, -at), strict=True):
        np.testing.assert_allclose(limit.factor, load_at(0.5, place), rtol=1e-12)
        assert path.factor[limit.index] == limit.factor
    # a hanger that is pushed instead of pulled falls to the side
    np.testing.assert_allclose([x.factor for x in path.branches], [0.0, 0.0], atol=1e-6)
    others = np.setdiff1d(np.arange(1, len(path)), [x.index for x in path.critical])
    stable = (np.abs(y) > at) & (path.factor > 0)
    np.testing.assert_array_equal(path.stable[others], stable[others])
    rest = path.equilibrium(3)
    assert bool(rest.stable) and float(rest.residual) < 1e-9

    # a steep one gives way to the side before, on a branch of the path that is followed
    steep = truss(3.0).equilibrium_path("load", until=8000.0, limits=1)
    length = np.hypot(1.0, 3.0)
    roots = np.roots([1.0, -length, 0.0, length])  # where nothing resists motions to the side
    y = np.sqrt(np.max(roots.real) ** 2 - 1)
    assert steep.status == "limits" and [x.kind for x in steep.critical] == ["branch", "maximum"]
    np.testing.assert_allclose(steep.branches[0].factor, load_at(3.0, y), rtol=1e-8)
    assert "branch" in str(steep) and "1 limit point found" in steep.message


def test_a_path_that_ends_early_says_so():
    path = truss(0.5).equilibrium_path("load", until=150.0, points=4)
    assert not path.success and path.status == "points" and len(path) == 4
    assert "Give more points" in path.message


@pytest.mark.parametrize(
    ("loads", "options", "words"),
    [
        ("push", {}, "there is no load 'push'. There are left, right, hanger, load."),
        ((), {}, "loads is empty"),
        ("load", {"until": 0.0}, "must not be zero"),
        ("load", {"until": float("nan")}, "until"),
        ("load", {"points": 1}, "points"),
        ("load", {"largest": -1.0}, "largest"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(loads, options, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        truss(0.5).equilibrium_path(loads, **options)
    assert str(caught.value).startswith("equilibrium_path:") and words in str(caught.value)


def deep_arch(elements):
    """The arch of 215 degrees of DaDeppo and Schmidt (1975), clamped at the left, hinged at the
    right, with a load at its crown; R = 100, EI = 1e6, nearly inextensible."""
    section = hx.Section(EA=1e8, GA=(5e7, 5e7), GJ=1e9, EI=(1e9, 1e6), mass=1.0)
    half, model = np.radians(107.5), hx.Model(gravity=(0, 0, 0))
    at = lambda angle: (100 * np.sin(angle), 100 * np.cos(angle), 0.0)  # noqa: E731
    for name, a, b in (("left", -half, 0.0), ("right", 0.0, half)):
        model.beam(name, at(a), at(b), section=section, curvature=(0, 0, -0.01), elements=elements)
    model.fixed("clamp", "ground", "left.start")
    model.fixed("crown", "left.end", "right.start")
    model.revolute("hinge", "ground", "right.end", at=at(half), axis=(0, 0, 1))
    model.force("load", "right.start", force=(0, -1.0, 0))
    return model


@pytest.mark.slow
def test_a_deep_arch_has_its_published_limit_load():
    """P = 8.97 EI/R^2; the error of the elements falls with the square of their length."""
    found = []
    for elements in (10, 20):
        path = deep_arch(elements).equilibrium_path("load", until=1500.0, limits=1)
        assert path.status == "limits" and not path.branches and path.stable[:-1].all()
        found.append(path.limits[0].factor)
    assert abs(found[1] - 897.0) < 0.3 * abs(found[0] - 897.0)
    np.testing.assert_allclose((4 * found[1] - found[0]) / 3, 897.0, rtol=1e-3)


@pytest.mark.slow
def test_a_path_that_cannot_go_on_names_the_beam_and_the_element():
    model = hx.Model(gravity=(0, 0, 0))
    section = hx.Section(EA=1e6, GA=(1e6, 1e6), GJ=1.0, EI=(1.0, 1.0), mass=1.0)
    model.beam("strip", (0, 0, 0), (1, 0, 0), section=section, elements=2)
    model.fixed("root", "ground", "strip.start")
    model.torque("moment", "strip.end", torque=(0, 0, 1.0))
    path = model.equilibrium_path("moment", until=10.0)
    assert path.status == "not converged" and 5.5 < path.factor[-1] < 5.8  # 2.9 rad an element
    assert "beam 'strip', element" in path.message and "more elements" in path.message
    np.testing.assert_allclose(path.beam("strip").strain[:, :, 5], path.factor[:, None] * [1, 1])
