"""Linear buckling loads: Euler's columns, lateral buckling, springs and prestress."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import holonax as hx

EI, GJ, LENGTH = 2.4, 3.1, 0.5


def beam(section, ends="free", n=8, order=1, force=(-1.0, 0, 0), axes="world"):
    """Along x, clamped or pinned at its start."""
    model = hx.Model(gravity=(0, 0, 0))
    model.beam(
        "beam", (0, 0, 0), (LENGTH, 0, 0), section=section, up=(0, 0, 1), elements=n, order=order
    )
    end = {"at": (LENGTH, 0, 0), "axis": (1, 0, 0)}
    if ends == "pinned":
        model.spherical("foot", "ground", "beam.start", at=(0, 0, 0))
    else:
        model.fixed("foot", "ground", "beam.start")
    if ends in ("pinned", "propped"):
        model.point_on_line("head", "ground", "beam.end", **end)
    elif ends == "guided":
        model.prismatic("head", "ground", "beam.end", **end)
    model.force("load", "beam.end", force=force, axes=axes)
    return model


def slender(slenderness):
    """Of a square, but four times as stiff against bending to y as to z."""
    stiff = 12 * EI * (slenderness / LENGTH) ** 2
    return hx.Section(
        EA=stiff, GA=(stiff / 3, stiff / 3), GJ=EI, EI=(EI, 4 * EI), mass=0.2, inertia=[1e-6] * 3
    )


def deep(EI_deep):
    return hx.Section(
        EA=2.8e6, GA=(6e5, 6e5), GJ=GJ, EI=(EI_deep, EI), mass=0.2, inertia=[1e-6] * 3
    )


EULER = {"free": 0.25, "pinned": 1.0, "propped": 2.045750, "guided": 4.0}


@pytest.mark.parametrize(
    ("ends", "half_waves"),
    [
        ("free", 0.5),
        pytest.param("pinned", 1.0, marks=pytest.mark.slow),
        pytest.param("propped", 1.43, marks=pytest.mark.slow),
        pytest.param("guided", 2.0, marks=pytest.mark.slow),
    ],
)
def test_the_columns_of_euler(ends, half_waves):
    """With elements of constant strain a wave of the phase a in each is stiffer by a^2/12 (in one
    with a hinge, where waves are not of one kind, by a little more). A column between two balls
    may spin, which nothing resists."""
    found = beam(slender(1e3), ends).buckling("load", modes=2)
    error = found.factor[0] / (EULER[ends] * np.pi**2 * EI / LENGTH**2) - 1
    assert_allclose(error, (np.pi * half_waves / 8) ** 2 / 12, rtol=0.13)
    moved = {x: np.array([found.shape(f"beam[{k}].{x}")[0] for k in range(9)]) for x in "yz"}
    assert np.max(np.abs(moved["z"])) > 1e6 * np.max(np.abs(moved["y"]))  # it is weak there


def test_thin_columns_do_not_lock():
    exact = np.pi**2 * EI / (4 * LENGTH**2)
    for slenderness in (1e2, 1e4):
        found = beam(slender(slenderness)).buckling("load")
        # that of the strong side is four times as large, the second one nine times
        assert_allclose(found.factor[:3] / exact, [1, 4, 9], rtol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "n", "error"), [(1, 16, 1.4e-2), (2, 4, 3e-3)])
def test_elements_of_every_order(order, n, error):
    found = beam(slender(1e4), "guided", n, order).buckling("load", modes=1)
    assert 0 < found.critical / (4 * np.pi**2 * EI / LENGTH**2) - 1 < error


@pytest.mark.slow
def test_a_narrow_cantilever_buckles_sideways():
    """Timoshenko: 4.0126 sqrt(EI GJ) / L^2, where it hardly bends before. If it does, the load is
    larger, and found by linearising nearer to it."""
    exact = 4.0126 * np.sqrt(EI * GJ) / LENGTH**2
    across = {"force": (0, 0, -1.0)}
    errors = [beam(deep(2.4e4), n=n, **across).buckling("load").critical for n in (8, 16)]
    errors = np.array(errors) / exact - 1
    assert errors[1] < 4e-3 and 3.7 < errors[0] / errors[1] < 4.3
    bent = beam(deep(36.0), **across).buckling("load")
    assert_allclose(bent.critical, exact, rtol=0.02)
    assert "the way there is long" in bent.message


@pytest.mark.slow
def test_linearised_nearer_to_it_a_load_is_that_of_the_path():
    model = beam(deep(36.0), force=(0, 0, -1.0))
    (branch,) = model.equilibrium_path("load", until=60.0).branches
    found = [model.buckling("load", about=x).critical for x in (0.0, 24.0, 48.0, 49.0)]
    errors = np.abs(np.array(found) / branch.factor - 1)
    # in proportion to the way that is left, as displacements on it are left out
    assert np.all(errors[1:] < 0.4 * errors[:-1]) and errors[-1] < 2e-4


def test_loads_that_follow_and_loads_that_pull_do_not_buckle_a_column():
    follower = beam(slender(1e3), axes="body").buckling("load")  # Beck 1952: it flutters instead
    assert follower.critical == np.inf and "no load factor" in str(follower)
    pulled = beam(slender(1e3), force=(1.0, 0, 0)).buckling("load")
    assert pulled.critical > 1e3 * EI / LENGTH**2  # shear alone, at loads that nothing bears


def inverted(weight=0.0, stiffness=6.0):
    """A rod of 0.8 m that stands on a hinge with a torsion spring, in the plane."""
    model = hx.Model(gravity=(0, -9.81))
    model.planar_body(
        "rod", hx.rod(0.8, mass=weight / 9.81 + 1e-9), position=(0, 0.4), angle=np.pi / 2
    )
    model.revolute("hinge", "ground", "rod", at=(0, 0))
    model.torsion_spring("spring", joint="hinge", stiffness=stiffness)
    model.force("load", "rod", at=(0, 0.8), force=(0, -1.0))
    return model


def test_others_act_in_full():
    for weight in (0.0, 3.0):
        found = inverted(weight).buckling("load")
        assert_allclose(found.factor, [(6.0 - 0.4 * weight) / 0.8], rtol=1e-6)
    assert_allclose(
        inverted(3.0).buckling("gravity").critical, (6.0 - 0.8) / (0.4 * 3.0), rtol=1e-6
    )


def test_a_truss_has_the_loads_of_its_bars():
    """Bars whose forces grow with the load, and are left where they are: sideways 2 k cos^2 is
    taken up at N/l = k cot^2, downwards 2 k sin^2 at N/l = k tan^2."""
    truss = hx.Model(gravity=(0, 0))
    truss.planar_body("apex", hx.point_mass(1.0), position=(0, 0.5))
    for name, x in (("left", -1.0), ("right", 1.0)):
        truss.spring_damper(name, "ground", "apex", at_a=(x, 0), at_b=(0, 0), stiffness=1000.0)
    truss.force("push", "apex", force=(0, -1.0))
    assert_allclose(truss.buckling("push").factor, [1000 * 0.25, 1000 * 4.0], rtol=1e-9)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: inverted().buckling("lod"), ["buckling", "lod", "load"]),
        (lambda: inverted().buckling([]), ["loads is empty", "load, gravity"]),
        (lambda: inverted().buckling("load", modes=0), ["modes=0"]),
        (lambda: inverted(weight=20.0).buckling("load"), ["unstable already", "rod", "about"]),
    ],
)
def test_what_is_wrong_with_a_request_is_said(ask, words):
    with pytest.raises((ValueError, TypeError)) as error:
        ask()
    for word in words:
        assert word in str(error.value)


def test_what_nothing_holds_is_named():
    model = hx.Model(gravity=(0, 0))
    model.planar_body("cart", 1.0, 0.1)
    model.prismatic("rail", "ground", "cart", at=(0, 0), axis=(1, 0))
    model.force("push", "cart", force=(1.0, 0))
    with pytest.raises(ValueError, match=r"nothing holds cart against push.*resists"):
        model.buckling("push")


@pytest.mark.slow
def test_loads_of_a_body_with_modes_have_a_path():
    """A bar with one mode, of stiffness 50 N/m at its tip; its frame is held."""
    modes = hx.BodyModes(
        [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]],
        [1.0, 1.0, 1.0],
        [[[0.0], [0.0]], [[0.0], [0.0]], [[0.0], [1.0]]],
        stiffness=[[50.0]],
        markers={"root": 0, "tip": 2},
    )
    model = hx.Model(gravity=(0, 0))
    model.planar_modal_body("bar", modes)
    model.fixed("clamp", "ground", "bar.root")
    model.force("load", "bar.tip", force=(0, 1.0))
    path = model.equilibrium_path("load", until=5.0)
    assert path.success
    assert_allclose(path["bar.tip"].position[-1, 1], 5.0 / 50.0, rtol=1e-9)
    assert model.buckling("load").critical == np.inf
