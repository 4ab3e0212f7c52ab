"""Geometrically exact beams at rest: against closed forms and an independent solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import ellipeinc, ellipk, ellipkinc

import holonax as hx
from holonax.rotation import Axes3, Vec3
from holonax.rotation.screw import Helicoid, screw_motion
from holonax.system.beam import BeamElement
from holonax.system.frames import Frame
from rods import clamped_rod

EI, LENGTH = 2.4, 0.5
SECTION = hx.Section(
    EA=2.8e6, GA=(6.4e5, 9.0e5), GJ=3.1, EI=(36.0, EI), mass=0.2, inertia=(2e-6, 1e-6, 1e-6)
)
ISOTROPIC = hx.Section(EA=2.8e6, GA=(6.4e5, 9.0e5), GJ=3.1, EI=(EI, EI), mass=0.2)


def cantilever(
    n=8, force=(0, 0, 0), torque=(0, 0, 0), section=SECTION, to=(LENGTH, 0, 0), curvature=(0, 0, 0)
):
    """Clamped at the origin; models that differ in numbers alone share their programs."""
    model = hx.Model(gravity=(0, 0, 0))
    model.beam(
        "beam", (0, 0, 0), to, section=section, up=(0, 0, 1), elements=n, curvature=curvature
    )
    model.fixed("root", "ground", "beam.start")
    model.force("load", "beam.end", force=force)
    model.torque("moment", "beam.end", torque=torque)
    return model


def turn(rng, size):
    d, R = screw_motion(Vec3(*rng.standard_normal(3)), Vec3(*(size * rng.standard_normal(3))))
    return np.array([*d]), np.stack([np.array([*x]) for x in (R.x, R.y, R.z)], axis=-1)


def frame(r, A, v=(0, 0, 0), w=(0, 0, 0)):
    return Frame(
        Vec3.of(np.asarray(r)),
        Axes3.of(np.asarray(A)),
        Vec3.of(np.array(v, float)),
        Vec3.of(np.array(w, float)),
    )


def some_element(rng):
    K = rng.standard_normal((6, 6))
    rest = Vec3(0.3, 0.01, -0.02), Vec3(0.1, -0.2, 0.3)
    return BeamElement(0.3, rest, (K @ K.T + np.eye(6),), 0.7)


# -- the element ---------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.03, 0.5, 1.5, 3.0, 3.14])
def test_the_screw_of_a_motion_is_what_the_motion_was_made_of(angle):
    axis = np.array([0.36, 0.48, -0.8])
    u = np.array([0.4, -0.3, 0.2])
    screw = Helicoid.of(*screw_motion(Vec3(*u), Vec3(*(angle * axis))))
    # near half a turn the axis is known to rounding over the sine
    atol = 1e-15 / max(np.sin(max(angle, 1.0)), 1e-4) + 1e-15
    assert_allclose([*screw.phi], angle * axis, atol=4 * atol)
    assert_allclose([*screw.u], u, atol=4 * atol)


def test_rigid_motions_do_not_strain_and_strains_do_not_depend_on_the_observer():
    rng = np.random.default_rng(0)
    element = some_element(rng)
    d0, A0 = (np.array(x) for x in ((0.28, 0.02, -0.01), np.eye(3)))
    (ra, A), (_, B) = turn(rng, 0.5), turn(rng, 0.1)
    first = np.array(element.strain(frame(ra, A), frame(ra + A @ d0, A @ B)))
    for size in (0.1, 1.0, 2.0):
        move, R = turn(rng, size)
        moved = element.strain(
            frame(move + R @ ra, R @ A), frame(move + R @ (ra + A @ d0), R @ A @ B)
        )
        assert_allclose(moved, first, atol=1e-13)
    rest_d, rest_R = screw_motion(*element.rest)
    rest_d, rest_R = (
        np.array([*rest_d]),
        np.stack([np.array([*x]) for x in (rest_R.x, rest_R.y, rest_R.z)], axis=-1),
    )
    for size in (0.0, 0.1, 1.0, 2.0):
        r, R = turn(rng, size)
        assert_allclose(
            element.strain(frame(r, R @ A0), frame(r + R @ rest_d, R @ rest_R)), 0, atol=1e-13
        )


def test_the_wrenches_are_the_slope_of_the_energy_and_the_strain_rate_that_of_the_strain():
    rng = np.random.default_rng(1)
    element = some_element(rng)
    (ra, A), (d, B) = turn(rng, 0.7), turn(rng, 0.4)
    a = frame(ra, A, rng.standard_normal(3), rng.standard_normal(3))
    b = frame(ra + 0.2 * d, A @ B, rng.standard_normal(3), rng.standard_normal(3))
    poses, rates = (a.pose, b.pose), (a.pose_rate, b.pose_rate)
    at = lambda fun: lambda poses: fun(a.with_pose(poses[0]), b.with_pose(poses[1]))  # noqa: E731
    _, power = jax.jvp(at(element.potential), (poses,), (rates,))
    _, rate = jax.jvp(at(lambda *x: jnp.stack(element.strain(*x))), (poses,), (rates,))
    assert_allclose(element.strain_rate(a, b), rate, rtol=1e-12)
    done = 0.0
    elastic = BeamElement(element.length, element.rest, element.stiffness, None)
    for node, (force, torque) in zip((a, b), elastic.wrenches(a, b, t=0.0), strict=True):
        done += force.dot(node.v) + torque.dot(node.w)
    assert_allclose(done, -power, rtol=1e-12)
    damped = sum(
        force.dot(node.v) + torque.dot(node.w)
        for node, (force, torque) in zip((a, b), element.wrenches(a, b, t=0.0), strict=True)
    )
    lost = element.length * element.damping * rate @ element.stiffness[0] @ rate
    assert_allclose(damped, -power - lost, rtol=1e-12)


# -- statics -------------------------------------------------------------------------------------


def test_a_cantilever_is_rolled_up_to_a_circle_exactly_and_at_once():
    for turns in (0.25, 1.0):
        moment = 2 * np.pi * turns * EI / LENGTH
        rest = cantilever(torque=(0, 0, moment)).equilibrium()
        radius, angle = EI / moment, 2 * np.pi * turns
        exact = [radius * np.sin(angle), radius * (1 - np.cos(angle)), 0]
        assert rest.success and rest.iterations <= 6
        assert_allclose(rest["beam.end"].position, exact, atol=1e-12)
        c, s = np.cos(angle), np.sin(angle)
        assert_allclose(rest["beam.end"].rotation, [[c, -s, 0], [s, c, 0], [0, 0, 1]], atol=1e-12)
        found = rest.beam("beam")
        assert_allclose(found.section_force, np.tile([0, 0, 0, 0, 0, moment], (8, 1)), atol=1e-7)
        position, _ = found.at(0.3)  # between nodes as well
        arc = [radius * np.sin(0.3 * angle), radius * (1 - np.cos(0.3 * angle)), 0]
        assert_allclose(position, arc, atol=1e-12)


def elastica(load):
    """Tip (x, y) of an inextensible cantilever of length 1 and EI 1 with a dead load across."""
    k_of = lambda slope: np.sqrt((1 + np.sin(slope)) / 2)  # noqa: E731

    def reach(slope):
        k = k_of(slope)
        low = np.arcsin(1 / (k * np.sqrt(2)))
        return ellipk(k * k) - ellipkinc(low, k * k) - np.sqrt(load)

    slope = brentq(reach, 1e-9, np.pi / 2 - 1e-9)
    k = k_of(slope)
    low = np.arcsin(1 / (k * np.sqrt(2)))
    whole = ellipeinc(np.pi / 2, k * k) - ellipeinc(low, k * k)
    y = 1 - 2 * whole / np.sqrt(load)
    x = np.sqrt(2 / load) * np.sqrt(np.sin(slope))
    return x, y


@pytest.mark.parametrize("slenderness", [1e2, 1e3, 1e4])
@pytest.mark.slow
def test_the_elastica_by_elliptic_integrals_at_order_two_without_locking(slenderness):
    load = 4.0
    exact = np.array(elastica(load))
    stiff = 12 * EI * (slenderness / LENGTH) ** 2  # EA of a square, thickness = length/slenderness
    section = hx.Section(EA=stiff, GA=(stiff / 3, stiff / 3), GJ=EI, EI=(EI, EI), mass=0.2)
    errors = []
    for n in (8, 16):
        rest = cantilever(n, force=(0, load * EI / LENGTH**2, 0), section=section).equilibrium()
        assert rest.success and rest.stable, rest.message
        tip = np.asarray(rest["beam.end"].position)[:2] / LENGTH
        errors.append(np.abs(tip - exact).max())
    assert errors[0] < 4e-3  # as large for the thinnest as for the thickest: no locking
    if slenderness > 1e2:  # which shears and extends by 1e-4 of its length
        assert 3.7 < errors[0] / errors[1] < 4.3


@pytest.mark.slow
def test_bending_and_torsion_together_against_a_boundary_value_solver():
    force, torque = np.array([-8.0, 15.0, -50.0]), np.array([3.0, -4.0, 2.0])
    tip, axes = clamped_rod(SECTION, LENGTH, force, torque)
    errors = []
    for n in (8, 16):
        rest = cantilever(n, force=force, torque=torque).equilibrium(load_steps=2)
        assert rest.success, rest.message
        off = np.asarray(rest["beam.end"].position) - tip
        errors.append(
            max(np.abs(off).max() / LENGTH, np.abs(rest["beam.end"].rotation - axes).max())
        )
    assert errors[1] < 4e-3 and 3.4 < errors[0] / errors[1] < 4.6


@pytest.mark.slow
@pytest.mark.parametrize("load", [300, 450, 600])
def test_the_bend_of_45_degrees(load):
    # Bathe and Bolourchi 1979: radius 100, a square of 1, E = 1e7, no lateral contraction; the
    # torsion constant of Simo and Vu-Quoc is the polar moment
    section = hx.Section(EA=1e7, GA=(5e6, 5e6), GJ=5e6 / 6, EI=(1e7 / 12, 1e7 / 12), mass=1.0)
    radius, angle = 100.0, np.pi / 4
    end = radius * np.array([np.sin(angle), 1 - np.cos(angle), 0])
    exact, _ = clamped_rod(section, radius * angle, (0, 0, load), curvature=(0, 0, 1 / radius))
    printed = {300: (58.84, 22.33, 40.08), 450: (52.32, 18.62, 48.39), 600: (47.23, 15.79, 53.37)}
    assert_allclose(exact, printed[load], rtol=0.01)  # Simo and Vu-Quoc 1986, eight elements
    rest = cantilever(
        16, force=(0, 0, load), section=section, to=end, curvature=(0, 0, 1 / radius)
    ).equilibrium()
    assert rest.success
    assert_allclose(rest["beam.end"].position, exact, atol=0.1)


def test_a_narrow_cantilever_buckles_sideways_at_its_critical_load():
    section = hx.Section(EA=2.8e6, GA=(6e5, 6e5), GJ=3.1, EI=(2.4e4, EI), mass=0.2)
    critical = 4.0126 * np.sqrt(EI * 3.1) / LENGTH**2  # Timoshenko; deep, so that it hardly bends
    for part, stable in ((0.97, True), (1.03, False)):
        rest = cantilever(16, force=(0, 0, -part * critical), section=section).equilibrium()
        assert rest.success and bool(rest.stable) is stable
        assert abs(rest["beam.end"].position[1]) < 1e-9  # straight as before


def test_frequencies_of_a_clamped_beam():
    section = hx.Section(EA=2.8e6, GA=(6e5, 6e5), GJ=3.1, EI=(36.0, EI), mass=0.2)
    found = cantilever(16, section=section).linearize()
    bending = [np.array([1.87510, 4.69409]) ** 2 * np.sqrt(x / 0.2) / LENGTH**2 for x in (EI, 36.0)]
    exact = np.sort([*bending[0], bending[1][0]])  # that of the stiff side is shifted by shear
    assert_allclose(np.sort(found.modes().angular_frequency)[:3], exact, rtol=0.01)


# -- loads along the beam, and what is refused -----------------------------------------------------


@pytest.mark.slow
def test_loads_along_the_beam_and_weight_against_a_boundary_value_solver():
    line = np.array([0.0, 40.0, -90.0])
    exact, _ = clamped_rod(
        SECTION, LENGTH, (0, 0, 0), per_length=line - [0, 0, 9.81 * SECTION.mass]
    )
    model = hx.Model()
    model.beam("beam", (0, 0, 0), (LENGTH, 0, 0), section=SECTION, elements=16)
    model.fixed("root", "ground", "beam.start")
    model.line_load("wind", "beam", force=lambda t: line * (1 + t))
    rest = model.equilibrium()
    assert_allclose(rest["beam.end"].position, exact, atol=2e-3 * LENGTH)
    # forces that follow the sections leave no torsion in a beam that is straight and bends one way
    follower = cantilever(8)
    follower.line_load("pressure", "beam", force=(0, 20.0, 0), axes="body")
    assert follower.equilibrium().success


def table(EA):
    return [(0.0, SECTION), (1.0, hx.Section(EA, (1.0, 1.0), 1.0, (1.0, 1.0), 1.0))]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"section": hx.Section(0.0, (1, 1), 1, (1, 1), 1)}, ["element 0", "EA=0.0", "no area"]),
        (
            {"section": hx.Section(1, (1, -1), 1, (1, 1), 1)},
            ["element 0", "GA=(1, -1)", "positive"],
        ),
        ({"section": table(-1.0)}, ["element 7", "EA=-1.0"]),
        ({"to": (0, 0, 0)}, ["same point", "element 0"]),
        ({"up": (1, 0, 0)}, ["up=(1, 0, 0)", "along"]),
        ({"elements": 0}, ["elements=0"]),
        ({"curvature": (100.0, 0, 0), "elements": 1}, ["element 0", "more elements"]),
        ({"curvature": (0, 0, 10.0)}, ["half a circle"]),
        ({"damping": -1.0}, ["damping=-1.0"]),
        ({"section": 3}, ["section=3", "hx.Section"]),
    ],
)
def test_what_is_wrong_with_a_beam_is_said_by_its_name_and_element(options, words):
    given = {"to": (LENGTH, 0, 0), "section": SECTION, **options}
    with pytest.raises(hx.ModelError) as error:
        hx.Model().beam("link", (0, 0, 0), given.pop("to"), **given)
    for word in ("beam 'link'", *words):
        assert word in str(error.value)


@pytest.mark.slow
def test_too_few_elements_for_a_load_are_named():
    rest = cantilever(8, torque=(0, 0, 40 * EI / LENGTH)).equilibrium()  # 5 rad for each element
    assert not rest.success
    for word in ("beam 'beam', element", "more elements"):
        assert word in rest.message


@pytest.mark.slow
def test_a_flexible_pendulum_converges_with_the_square_of_its_elements():
    """Set in motion by a force that grows smoothly: one that comes at once makes waves with fronts,
    which no element resolves."""
    ends = []
    section = hx.Section.rectangle(0.02, 0.01, E=1e7, G=1e7 / 2.6, density=1000.0)
    for n in (8, 16, 32):
        model = hx.Model(gravity=(0, 0, 0))
        model.beam("rod", (0, 0, 0), (1, 0, 0), section=section, elements=n)
        model.spherical("pin", "ground", "rod.start", at=(0, 0, 0))
        growing = [f"{x} * (1 - cos(2 * pi * t / 0.4))" for x in (0.0, 0.1, 0.2)]
        model.force("push", "rod.end", force=growing)
        ends.append(hx.simulate(*model.build(), 0.4, rtol=1e-8)["rod.end"].position[-1])
    first, second = np.linalg.norm(np.diff(ends, axis=0), axis=1)
    assert 3.5 < first / second < 5.5 and second < 2e-3


@pytest.mark.slow
def test_a_run_that_turns_an_element_too_far_names_it():
    model = cantilever(1, torque=(0, 0, 8 * EI / LENGTH))
    result = model.simulate(1.0, rtol=1e-5)
    assert not result.success and result.t[-1] > 0
    for word in ("beam 'beam, element 0'", "more elements"):
        assert word in result.message


def test_places_of_a_beam_by_name():
    model = cantilever(8)
    with pytest.raises(hx.ModelError, match=r"body 'beam\[1\]': the name is already taken"):
        model.body("beam[1]", 1.0, (1, 1, 1))
    system = model.system()
    assert system.number_of("beam.start") == system.number_of("beam[0]") == 0
    assert system.number_of("beam.end") == system.number_of("beam(1)") == 8
    assert system.number_of("beam(0.25)") == 2
    with pytest.warns(UserWarning, match=r"'beam\(0.3\)' is between two nodes.*beam\[2\]"):
        model.force("push", "beam(0.3)", force=(0, 0, 1))
    with pytest.raises(hx.ModelError, match=r"no body 'beam\(1.3\)'"):
        model.force("pull", "beam(1.3)", force=(0, 0, 1))
    with pytest.raises(KeyError, match="no beam 'rod'; the beams are beam"):
        cantilever(8).equilibrium().beam("rod")


def test_quantities_of_a_beam_by_place():
    """In results, events and plots; a place between two nodes is no node."""
    model = cantilever(4, force=(0.0, 0.0, -1.0))
    system, start = model.build()
    assert system.own_name("beam(0.5).position.x") == "beam[2].position.x"
    falls = hx.Event("falls", "beam.end.z + 1e-6", direction="falling", terminal=True)
    methods = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.8)}
    result = hx.simulate(system, start, 0.01, dt=1e-4, events=[falls], **methods)
    assert result.status == "event"
    places = {"beam.end.z": "beam[4].z", "beam(0.5).velocity": "beam[2].velocity"}
    for place, own in places.items():
        np.testing.assert_array_equal(result.quantity(place), result.quantity(own))
    assert_allclose(result.quantity("beam.end.z")[-1], -1e-6, rtol=1e-6)
    figure = hx.plot(result, ["beam.end.z", "beam(0.5)"])
    assert len(figure.axes) >= 2
    for ask in (lambda: result["beam(0.3)"], lambda: result.quantity("beam(0.3).z")):
        with pytest.raises(KeyError, match=r"'beam\(0.3\)' is between two nodes; 'beam\[1\]'"):
            ask()


# -- sections --------------------------------------------------------------------------------------


def test_sections_have_the_constants_of_their_shapes():
    steel = {"E": 210e9, "G": 81e9, "density": 7800.0}
    square = hx.Section.rectangle(0.1, 0.1, **steel)
    assert_allclose(square.GJ / steel["G"], 0.140577 * 0.1**4, rtol=1e-5)  # Timoshenko, Goodier
    narrow = hx.Section.rectangle(0.001, 0.1, **steel)
    assert_allclose(narrow.GJ / steel["G"], 0.1 * 0.001**3 / 3 * (1 - 0.63 * 0.01), rtol=1e-4)
    assert narrow.EI[0] > narrow.EI[1]  # y is the short side: bending about y is stiff
    circle, tube = hx.Section.circle(0.1, **steel), hx.Section.tube(0.1, 0.02, **steel)
    hole = hx.Section.circle(0.08, **steel)
    for name in ("EA", "GJ", "EI", "mass", "inertia"):
        assert_allclose(
            getattr(tube, name), np.subtract(getattr(circle, name), getattr(hole, name))
        )
    beam = hx.Section.i_beam(
        0.1, 0.2, flange=0.0085, web=0.0056, **steel
    )  # IPE 200 without fillets
    assert_allclose(np.array(beam.EI) / 210e9, [1846e-8, 142e-8], rtol=1e-2)
    channel = hx.Section.channel(0.075, 0.2, flange=0.0115, web=0.0085, **steel)  # UPN 200
    K = np.array(channel.stiffness)
    assert_allclose(K[4, 4] / 210e9, 1910e-8, rtol=0.03)
    shear_centre = K[2, 3] / K[2, 2]
    assert_allclose(shear_centre, -0.0394, rtol=0.15)  # of the rolled section with sloping flanges


@pytest.mark.slow
def test_what_nothing_holds_is_not_blamed_on_a_beam():
    """A boom on a mast, with a stay in line with it: nothing resists its fall at first."""
    model = hx.Model()
    model.beam("mast", (0, 0, 0), (0, 0, 3), section=SECTION, up=(1, 0, 0), elements=2)
    model.fixed("foot", "ground", "mast.start")
    model.body("boom", 20.0, (0.1, 15.0, 15.0), position=(1.5, 0, 3.0))
    model.revolute("hinge", "mast.end", "boom", at=(0, 0, 3), axis=(0, 1, 0))
    rest = model.equilibrium()
    assert not bool(rest.success)
    assert "out of balance" in rest.message and "holds every motion" in rest.message


# printed in the manufacturers' tables: A [cm^2], Iy and Iz [cm^4]
PROFILES = {
    "IPE 80": ("7.64", "80.1", "8.49"),
    "IPE 200": ("28.5", "1943", "142"),
    "IPE 300": ("53.8", "8356", "604"),
    "IPE 400": ("84.5", "23130", "1318"),
    "HEA 160": ("38.8", "1673", "616"),
    "HEA 200": ("53.8", "3692", "1336"),
    "HEB 200": ("78.1", "5696", "2003"),
}


@pytest.mark.parametrize("name", PROFILES)
def test_rolled_sections_have_the_numbers_of_their_tables(name):
    section = hx.Section.profile(name, E=1.0, G=1.0, density=1.0)
    found = section.EA * 1e4, section.EI[0] * 1e8, section.EI[1] * 1e8
    for value, printed in zip(found, PROFILES[name], strict=True):
        places = printed if "." in printed else printed.rstrip("0")
        digits = len(places.replace(".", ""))
        assert float(f"{value:.{digits}g}") == float(printed)


# the same of others, as printed, with three or four digits
ROUNDED = {
    "IPE 80": (7.64, 80.14, 8.49),
    "IPE 100": (10.32, 171, 15.92),
    "IPE 120": (13.21, 317.8, 27.67),
    "IPE 160": (20.09, 869.3, 68.31),
    "IPE 200": (28.48, 1943, 142.4),
    "IPE 240": (39.12, 3892, 283.6),
    "IPE 300": (53.81, 8356, 603.8),
    "IPE 360": (72.73, 16270, 1043),
    "IPE 400": (84.46, 23130, 1318),
    "IPE 450": (98.82, 33740, 1676),
    "IPE 500": (115.5, 48200, 2142),
    "IPE 600": (156, 92080, 3387),
    "HEA 100": (21.24, 349.2, 133.8),
    "HEA 140": (31.42, 1033, 389.3),
    "HEA 200": (53.83, 3692, 1336),
    "HEA 240": (76.84, 7763, 2769),
    "HEA 300": (112.5, 18260, 6310),
    "HEA 400": (159, 45070, 8564),
    "IPE 550": (134.4, 67120, 2668),
    "HEA 220": (64.34, 5410, 1955),
    "HEA 260": (86.82, 10450, 3668),
    "HEA 280": (97.26, 13670, 4763),
    "HEA 320": (124.4, 22930, 6985),
    "HEA 340": (133.5, 27690, 7436),
    "HEA 360": (142.8, 33090, 7887),
    "HEB 120": (34.01, 864.4, 317.5),
    "HEB 140": (42.96, 1509, 549.7),
    "HEB 180": (65.25, 3831, 1363),
    "HEB 220": (91.04, 8091, 2843),
    "HEB 260": (118.4, 14920, 5135),
    "HEB 280": (131.4, 19270, 6595),
    "HEB 320": (161.3, 30820, 9239),
    "HEB 340": (170.9, 36660, 9690),
    "HEB 360": (180.6, 43190, 10140),
    "HEB 100": (26.04, 449.5, 167.3),
    "HEB 160": (54.25, 2492, 889.2),
    "HEB 200": (78.08, 5696, 2003),
    "HEB 240": (106, 11260, 3923),
    "HEB 300": (149.1, 25170, 8563),
    "HEB 400": (197.8, 57680, 10820),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_rolled_sections_have_the_rounded_numbers_of_their_tables(name):
    section = hx.Section.profile(name, E=1.0, G=1.0, density=1.0)
    found = section.EA * 1e4, section.EI[0] * 1e8, section.EI[1] * 1e8
    assert_allclose(found, ROUNDED[name], rtol=6e-4)


def test_the_torsion_constant_of_rolled_sections_is_that_of_their_tables():
    assert round(hx.Section.profile("ipe200", E=1.0, G=1.0, density=1.0).GJ * 1e8, 2) == 6.98
    assert round(hx.Section.profile("IPE 300", E=1.0, G=1.0, density=1.0).GJ * 1e8, 1) == 20.1


def test_an_unknown_profile_is_refused_by_its_name():
    with pytest.raises(hx.ModelError, match="IPE 201"):
        hx.Section.profile("IPE 201", E=1.0, G=1.0, density=1.0)


@pytest.mark.slow
def test_a_beam_that_tapers_by_a_table_bends_as_its_stations_say():
    """Numbers between stations are linear, EI among them: w = P int (L - s)^2 / EI + P int 1 / GA.
    The load is small: what is left out is of the order of (w / L)^2, 1e-8."""
    at, EI, GA = [0.0, 0.3, 1.0], [8.0, 5.0, 1.0], [9e5, 6e5, 2e5]
    table = [
        (x, hx.Section(1e6, (g, g), 1.0, (e, e), 0.3)) for x, e, g in zip(at, EI, GA, strict=True)
    ]
    model = hx.Model(gravity=(0, 0, 0))
    model.beam("blade", (0, 0, 0), (1, 0, 0), section=table, up=(0, 0, 1), elements=40)
    model.fixed("root", "ground", "blade.start")
    model.force("load", "blade.end", force=(0.0, 0.0, 1e-3))
    s = np.linspace(0, 1, 20001)
    slope = (1 - s) ** 2 / np.interp(s, at, EI) + 1 / np.interp(s, at, GA)
    wanted = 1e-3 * np.trapezoid(slope, s)
    again = hx.Model.from_dict(model.to_dict())
    for each in (model, again):
        found = each.equilibrium()["blade.end"].position[2]
        assert abs(found / wanted - 1) < 2e-3  # 40 elements of second order
