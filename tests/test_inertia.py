"""Mass properties: closed forms, the same integrals by Gauss quadrature, and the theorems."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

from holonax.model.inertia import (
    MassProperties,
    box,
    check_inertia,
    composite,
    cylinder,
    disc,
    point_mass,
    rod,
    sphere,
    tube,
)

# --- references -------------------------------------------------------------------------------


def gauss(a, b, n=8):
    """Nodes and weights of Gauss-Legendre quadrature on [a, b]."""
    x, w = np.polynomial.legendre.leggauss(n)
    return 0.5 * (b - a) * x + 0.5 * (a + b), 0.5 * (b - a) * w


def circle(n=16):
    """The trapezoidal rule on a circle, exact for trigonometric polynomials of degree < n."""
    return 2 * np.pi * np.arange(n) / n, np.full(n, 2 * np.pi / n)


def grid(*rules):
    """Coordinates and product weights of a tensor-product rule, flattened."""
    nodes = np.meshgrid(*(x for x, _ in rules), indexing="ij")
    weights = np.meshgrid(*(w for _, w in rules), indexing="ij")
    return [x.ravel() for x in nodes], np.prod([w.ravel() for w in weights], axis=0)


def integrate(points, dm):
    """Mass properties of a cloud of mass elements: points (3, n) with masses dm (n,)."""
    m = dm.sum()
    c = points @ dm / m
    d = points - c[:, None]
    J = np.einsum("ki,ki,i->", d, d, dm) * np.eye(3) - np.einsum("ai,bi,i->ab", d, d, dm)
    return m, c, J


def annular_cloud(R, r, l):
    (s, phi, z), w = grid(gauss(r, R), circle(), gauss(-l / 2, l / 2))
    return np.array([s * np.cos(phi), s * np.sin(phi), z]), s * w


def box_cloud(a, b, c):
    (x, y, z), w = grid(*(gauss(-e / 2, e / 2) for e in (a, b, c)))
    return np.array([x, y, z]), w


def ball_cloud(R):
    (s, u, phi), w = grid(gauss(0, R), gauss(-1, 1), circle())
    rho = s * np.sqrt(1 - u * u)
    return np.array([rho * np.cos(phi), rho * np.sin(phi), s * u]), s * s * w


def cycled(points, axis):
    """Turn a cloud about z into one about the named axis, by a cyclic permutation."""
    return np.roll(points, "xyz".index(axis) + 1, axis=0)


def assert_same(p, m, c, J, rtol=1e-12):
    scale = np.abs(J).max() + m * np.abs(c).max() ** 2
    assert_allclose(p.mass, m, rtol=rtol)
    assert_allclose(p.com, c, rtol=rtol, atol=1e-13 * (1 + np.abs(c).max()))
    assert_allclose(p.inertia, J, rtol=rtol, atol=1e-13 * scale)


# --- strategies -------------------------------------------------------------------------------

lengths = st.floats(0.05, 20.0)
masses = st.floats(0.01, 100.0)
vectors = hnp.arrays(np.float64, 3, elements=st.floats(-10, 10))
axes = st.sampled_from("xyz")


@st.composite
def rotations(draw):
    e = draw(hnp.arrays(np.float64, 4, elements=st.floats(-1, 1)))
    e = e + np.array([2.0, 0, 0, 0]) * (np.linalg.norm(e) < 0.1)
    w, x, y, z = e / np.linalg.norm(e)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


@st.composite
def solids(draw):
    """A box of any shape, turned and put anywhere."""
    p = box([draw(lengths) for _ in range(3)], mass=draw(masses))
    return p.moved(draw(vectors)).rotated(draw(rotations()))


# --- closed forms -----------------------------------------------------------------------------


def test_closed_forms():
    cases = [
        (box([1, 2, 3], mass=12), [13, 10, 5]),
        (sphere(2, mass=5), [8, 8, 8]),
        (cylinder(2, 3, mass=4), [7, 7, 8]),
        (cylinder(2, 3, mass=4, axis="x"), [8, 7, 7]),
        (disc(2, mass=4), [4, 4, 8]),
        (disc(2, mass=4, axis="y"), [4, 8, 4]),
        (rod(6, mass=2), [0, 6, 6]),
        (rod(6, mass=2, axis="z"), [6, 6, 0]),
        (tube(2, 1, 3, mass=12), [24, 24, 30]),
        (point_mass(3), [0, 0, 0]),
    ]
    for p, moments in cases:
        assert_allclose(p.inertia, np.diag(moments), rtol=1e-15)
        assert_allclose(p.com, 0)


def test_masses_from_densities():
    assert_allclose(box([1, 2, 3], density=2).mass, 12)
    assert_allclose(sphere(2, density=3).mass, 32 * np.pi)
    assert_allclose(cylinder(2, 3, density=2).mass, 24 * np.pi)
    assert_allclose(disc(2, 0.5, density=2).mass, 4 * np.pi)
    assert_allclose(tube(2, 1, 3, density=2).mass, 18 * np.pi)
    assert_allclose(rod(3, line_density=2).mass, 6)


def test_limits_agree():
    assert_same(tube(2, 0, 3, density=1), *properties(cylinder(2, 3, density=1)))
    assert_same(disc(2, 3, mass=1), *properties(cylinder(2, 3, mass=1)))
    assert_same(box([3, 0, 0], mass=1), *properties(rod(3, mass=1)))
    assert_same(cylinder(0, 3, mass=1, axis="x"), *properties(rod(3, mass=1)))
    assert_same(sphere(0, mass=1), *properties(point_mass(1)))


def properties(p):
    return p.mass, p.com, p.inertia


# --- quadrature over the solid ----------------------------------------------------------------


@given(lengths, lengths, lengths, masses)
def test_box_is_its_integral(a, b, c, density):
    points, w = box_cloud(a, b, c)
    assert_same(box([a, b, c], density=density), *integrate(points, density * w))


@given(lengths, masses)
def test_sphere_is_its_integral(R, density):
    points, w = ball_cloud(R)
    assert_same(sphere(R, density=density), *integrate(points, density * w))


@given(lengths, lengths, masses, axes)
def test_cylinder_and_disc_are_their_integral(R, l, density, axis):
    points, w = annular_cloud(R, 0, l)
    reference = integrate(cycled(points, axis), density * w)
    assert_same(cylinder(R, l, density=density, axis=axis), *reference)
    assert_same(disc(R, l, density=density, axis=axis), *reference)


@given(lengths, st.floats(0, 0.95), lengths, masses, axes)
def test_tube_is_its_integral(R, ratio, l, density, axis):
    points, w = annular_cloud(R, ratio * R, l)
    reference = integrate(cycled(points, axis), density * w)
    assert_same(tube(R, ratio * R, l, density=density, axis=axis), *reference)


@given(lengths, masses, axes)
def test_rod_is_its_integral(l, line_density, axis):
    z, w = gauss(-l / 2, l / 2)
    points = cycled(np.array([0 * z, 0 * z, z]), axis)
    reference = integrate(points, line_density * w)
    assert_same(rod(l, line_density=line_density, axis=axis), *reference)


@given(lengths, lengths, lengths, vectors, rotations())
def test_a_solid_moved_and_turned_is_the_integral_over_the_moved_cloud(a, b, c, d, R):
    points, w = box_cloud(a, b, c)
    p = box([a, b, c], density=1.0).moved(d).rotated(R)
    m, com, J = integrate(R @ (points + d[:, None]), w)
    assert_same(p, m, com, J, rtol=1e-10)


# --- theorems ---------------------------------------------------------------------------------


@given(solids(), vectors)
def test_parallel_axis_is_what_a_point_mass_at_the_centre_adds(p, point):
    mass_point = point_mass(p.mass, at=p.com)
    assert_allclose(p.about(point), p.inertia + mass_point.about(point), rtol=1e-13, atol=1e-12)
    assert_allclose(p.about(p.com), p.inertia)
    # The centre of mass is where the moments are least.
    assert np.linalg.eigvalsh(p.about(point) - p.inertia)[0] > -1e-11 * np.abs(p.about(point)).max()


@given(solids(), solids(), vectors)
def test_inertia_about_any_point_adds_up(p, r, point):
    total = p + r
    expected = p.about(point) + r.about(point)
    assert_allclose(total.mass, p.mass + r.mass)
    assert_allclose(total.mass * total.com, p.mass * p.com + r.mass * r.com, atol=1e-11)
    assert_allclose(total.about(point), expected, atol=1e-12 * np.abs(expected).max())


@given(solids(), solids(), solids())
def test_grouping_and_order_do_not_matter(p, r, s):
    reference = composite(p, r, s)
    for other in ((p + r) + s, p + (r + s), composite(s, p, r)):
        assert_same(other, *properties(reference), rtol=1e-9)


@given(solids(), solids(), vectors, rotations())
def test_moving_a_composite_moves_its_parts(p, r, d, R):
    whole = (p + r).moved(d).rotated(R)
    parts = p.moved(d).rotated(R) + r.moved(d).rotated(R)
    assert_same(whole, *properties(parts), rtol=1e-9)


@given(lengths, lengths, lengths, st.floats(0.1, 0.9))
def test_a_box_cut_in_two_is_still_the_box(a, b, c, cut):
    left = box([cut * a, b, c], density=3.0).moved([(cut - 1) * a / 2, 0, 0])
    right = box([(1 - cut) * a, b, c], density=3.0).moved([cut * a / 2, 0, 0])
    assert_same(left + right, *properties(box([a, b, c], density=3.0)), rtol=1e-11)


@given(solids(), solids())
def test_every_solid_and_composite_passes_the_check(p, r):
    check_inertia("solid", p.mass, p.inertia)
    check_inertia("composite", (p + r).mass, (p + r).inertia)


@given(lengths, masses, rotations())
def test_a_turned_plate_passes_although_the_triangle_inequality_is_an_equality(R, m, Q):
    check_inertia("plate", m, disc(R, mass=m).rotated(Q).inertia)


@given(lengths, masses, rotations())
def test_a_turned_rod_is_seen_as_singular(l, m, Q):
    J = rod(l, mass=m).rotated(Q).inertia
    with pytest.raises(ValueError, match=r"body 'rod': .*a principal moment is zero"):
        check_inertia("rod", m, J)
    check_inertia("rod", m, J, allow_massless=True)


def test_planar_part():
    assert disc(2, mass=4).planar() == (4, 8)
    check_inertia("disc", *disc(2, mass=4).planar(), planar=True)


def test_mass_properties_cannot_be_changed_by_accident():
    J = np.eye(3)
    p = MassProperties(1, np.zeros(3), J)
    J[0, 0] = 7
    assert p.inertia[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        p.com[0] = 1.0


# --- refusals: each names the object, the cause and the remedy --------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: box([1, 2, 3]), "box: got neither of mass= and density=; give exactly one"),
        (lambda: box([1, 2, 3], mass=1, density=1), "box: got both of mass= and density="),
        (
            lambda: box([1, 2], mass=1),
            r"box: size has the shape \(2,\). Give a vector",
        ),
        (lambda: box([1, -2, 3], mass=1), "box: size=-2.0 is out of range. Give a finite number"),
        (lambda: box([1, 2, 0], density=1), "box: density was given but the volume is zero"),
        (lambda: disc(1, density=1), "disc: density was given but the volume is zero.*give mass="),
        (lambda: rod(0, line_density=1), "rod: line_density was given but the length is zero"),
        (lambda: rod(1), "rod: got neither of mass= and line_density="),
        (lambda: sphere(float("nan"), mass=1), "sphere: radius=nan"),
        (lambda: sphere(1, density=-2), "sphere: density=-2"),
        (
            lambda: cylinder(1, 1, mass=1, axis="w"),
            "cylinder: axis='w' is not known. Choose",
        ),
        (lambda: disc(1, -1, mass=1), "disc: thickness=-1"),
        (lambda: tube(1, 2, 1, mass=1), "tube: inner_radius 2 m exceeds outer_radius 1 m"),
        (lambda: tube(-1, 2, 1, mass=1), "tube: outer_radius=-1"),
        (lambda: point_mass(-1), "point_mass: mass=-1"),
        (
            lambda: point_mass(1, at=[0, 0, np.inf]),
            r"point_mass: at=.* is not finite",
        ),
        (lambda: sphere(1, mass=1).rotated(2 * np.eye(3)), "R is not a rotation matrix"),
        (lambda: sphere(1, mass=1).rotated(-np.eye(3)), "R is not a rotation matrix"),
        (lambda: composite(), "composite: the parts have no mass in all"),
    ],
)
def test_wrong_solids_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_adding_something_else_is_refused():
    with pytest.raises(TypeError):
        sphere(1, mass=1) + 3.0  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize(
    ("mass", "inertia", "options", "message"),
    [
        (np.nan, np.eye(3), {}, "mass is nan; give a finite number"),
        ([1, 2], np.eye(3), {}, r"mass has shape \(2,\); give one number"),
        (1, np.diag([1, 1, np.inf]), {}, "inertia has non-finite entries"),
        (1, [1, 1, 1], {}, r"shape \(3,\) instead of \(3, 3\); .*np.diag"),
        (1, 1.0, {}, r"shape \(\) instead of \(3, 3\)"),
        (1, np.eye(3), {"planar": True}, r"shape \(3, 3\) instead of \(\); a planar body"),
        (-1, np.eye(3), {"allow_massless": True}, "mass is negative"),
        (0, np.eye(3), {}, "mass is zero; give a mass > 0"),
        (1, np.zeros((3, 3)), {}, "a principal moment is zero .*real thickness"),
        (1, 0.0, {"planar": True}, "a principal moment is zero"),
        (1, -1.0, {"planar": True}, "not positive definite"),
        (1, [[2, 1, 0], [0, 2, 0], [0, 0, 2]], {}, "inertia is not symmetric; "),
        (1, np.diag([-1, 2, 2]), {"allow_massless": True}, "inertia is not positive definite"),
        (1, np.diag([1, 1, 2.1]), {}, "violate the triangle inequality"),
        (1, np.diag([1, 1, 2 + 1e-8]), {}, "violate the triangle inequality"),
    ],
)
def test_impossible_inertias_are_refused(mass, inertia, options, message):
    with pytest.raises(ValueError, match="^body 'crank': .*" + message):
        check_inertia("crank", mass, inertia, **options)


def test_limiting_inertias_are_accepted():
    check_inertia("plate", 1, np.diag([1, 1, 2 + 1e-10]))
    check_inertia("light", 1e-12, 1e-15 * np.eye(3))
    check_inertia("frame", 0, np.zeros((3, 3)), allow_massless=True)
    check_inertia("frame", 0, 0.0, planar=True, allow_massless=True)
    check_inertia("rotor", 0, np.eye(3), allow_massless=True)
