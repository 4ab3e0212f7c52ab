"""Mechanisms with more constraints than they need move as they should, and say so.

The multipliers of dependent constraints are not unique; holonax gives those of least norm, which
numpy's least-squares solution of the dense G M^-1 G^T lam = G M^-1 f - gamma confirms.
"""

import equinox as eqx
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import holonax as hx
from references import LINKS, SAMPLES, FourBar, Samples, observed_order, rms, turned

# -- a door ----------------------------------------------------------------------------------

AXIS = np.array([0.3, 0.1, 1.0]) / np.linalg.norm([0.3, 0.1, 1.0])  # slanted, so the door swings


def door(hinges):
    """A door with hinges at the given heights along one slanted axis."""
    model = hx.Model()
    across = np.cross(AXIS, [1.0, 1.0, 0.0])
    across /= np.linalg.norm(across)
    rotation = np.column_stack([across, np.cross(AXIS, across), AXIS])
    model.body(
        "door",
        hx.box((0.8, 0.04, 2.0), mass=20.0),
        position=0.4 * across,
        rotation=rotation,
        angular_velocity=0.5 * AXIS,
    )
    for i, height in enumerate(hinges):
        model.revolute(f"hinge {i}", "ground", "door", at=height * AXIS, axis=AXIS)
    return model.build()


@pytest.fixture(scope="module")
def two_hinged_door():
    return door([-0.7, 0.8])


def test_a_door_on_two_hinges_has_five_constraints_too_many(two_hinged_door):
    _, start = two_hinged_door
    assert start.redundant
    diagnosis = start.diagnosis
    assert (diagnosis.coordinates, diagnosis.rows, diagnosis.rank) == (6, 10, 5)
    assert (diagnosis.mobility, diagnosis.redundant) == (1, 5)
    assert diagnosis.shared_by == ("hinge 0", "hinge 1")
    assert not diagnosis.singular
    assert "5 redundant rows, shared by hinge 0, hinge 1" in str(diagnosis)


def test_two_hinges_together_carry_the_door_and_halve_the_load_along_the_axis(two_hinged_door):
    run = hx.simulate(*two_hinged_door, 0.5, dt=2.5e-3)
    assert "redundant" in run.message and "minimum-norm" in run.message
    first, second = (run.reaction(f"hinge {i}").force for i in range(2))
    # Newton's law for the whole door; the bound is rounding in forces of 200 N.
    carried = 20.0 * (run["door"].acceleration - np.array([0.0, 0.0, -9.81]))
    np.testing.assert_allclose(first + second, carried, rtol=0, atol=1e-9)
    # A pair of opposite forces along the axis does nothing; the smallest multipliers have none.
    np.testing.assert_allclose(first @ AXIS, second @ AXIS, rtol=1e-10)


@pytest.mark.slow
def test_a_door_on_two_hinges_swings_like_one_on_a_single_hinge(two_hinged_door):
    # Inside a step the two leave their constraints differently, so they agree to the method's
    # order only. The reference has a quarter of the finest step, hence 1/256 of its error.
    single = door([0.0])
    assert not single[1].redundant

    def pose(built, steps):
        body = Samples(built, 2.0, steps)["door"]
        return np.concatenate([body.position, body.rotation.reshape(-1, 9)], axis=1)

    exact = pose(single, 1600)

    def error(steps):
        return rms(pose(two_hinged_door, steps) - exact)

    assert observed_order(error, 200) == pytest.approx(4, abs=0.15)


# -- a four-bar of spatial revolutes ---------------------------------------------------------


def spatial_four_bar_model():
    """The planar linkage of `FourBar` in a slanted plane of space, gravity slanted with it."""
    bar = FourBar()
    normal = np.array([2.0, -1.0, 2.0]) / 3
    x = np.array([1.0, 2.0, 0.0]) / np.sqrt(5)
    plane = np.column_stack([x, np.cross(normal, x), normal])
    model = hx.Model(gravity=-bar.gravity * plane[:, 1])
    angles = bar.angles(0.0)
    rates = bar.speed * bar.ratios(angles)
    e = np.column_stack([np.cos(angles), np.sin(angles)]) * bar.lengths[:, None]
    normals = np.column_stack([-e[:, 1], e[:, 0]]) * rates[:, None]
    velocities = [normals[0] / 2, normals[0] + normals[1] / 2, normals[2] / 2]
    for i, (name, centre) in enumerate(zip(LINKS, bar.centres(angles))):
        c, s = np.cos(angles[i]), np.sin(angles[i])
        J = bar.masses[i] * bar.lengths[i] ** 2 / 12
        model.body(
            name,
            bar.masses[i],
            (0.01 * J, J, J),
            position=plane[:, :2] @ centre,
            rotation=plane @ [[c, -s, 0], [s, c, 0], [0, 0, 1]],
            velocity=plane[:, :2] @ velocities[i],
            angular_velocity=rates[i] * normal,
        )
    pins = np.array([[0.0, 0.0], e[0], e[0] + e[1], [bar.ground, 0.0]]) @ plane[:, :2].T
    pairs = [("ground", "crank"), ("crank", "coupler"), ("coupler", "rocker"), ("ground", "rocker")]
    for name, pair, at in zip("ABCD", pairs, pins, strict=True):
        model.revolute(name, *pair, at=at, axis=normal)
    return bar, plane, model


@pytest.fixture(scope="module")
def spatial_four_bar():
    bar, plane, model = spatial_four_bar_model()
    return bar, plane, model.build()


def test_a_four_bar_of_spatial_revolutes_has_three_constraints_too_many():
    diagnosis = diagnosis_of(spatial_four_bar_model()[2])
    assert (diagnosis.rows, diagnosis.rank) == (20, 17)
    assert (diagnosis.mobility, diagnosis.redundant) == (1, 3)
    assert diagnosis.shared_by == ("A", "B", "C", "D")


@pytest.mark.slow
def test_a_four_bar_of_spatial_revolutes_moves_like_the_planar_one(spatial_four_bar):
    bar, plane, built = spatial_four_bar
    t = np.linspace(0, 1.0, SAMPLES + 1)
    exact = turned(bar.angles(bar.crank_at(t)).T)

    def error(steps):
        run = Samples(built, t[-1], steps)
        along = [run[name].rotation[:, :, 0] @ plane for name in LINKS]
        found = np.column_stack([np.arctan2(x[:, 1], x[:, 0]) for x in along])
        return rms(turned(found) - exact)

    assert observed_order(error, 800) == pytest.approx(4, abs=0.15)
    # Dependent constraints cost no accuracy: the planar linkage errs by 1.5e-8 at this step.
    assert error(800) < 3e-8


# -- Bricard's six-bar -----------------------------------------------------------------------

# along the bars of hx.examples.bricard; the last is the ground
EDGES = np.array([[1, 0, 0], [0, -1, 0], [0, 0, 1], [-1, 0, 0], [0, 1, 0], [0, 0, -1]], float)


@pytest.fixture(scope="module")
def bricard():
    return hx.examples.bricard()


def bars_of(run):
    """Rotation of the bars over time, the ground's included: (6, times, 3, 3)."""
    ground = np.broadcast_to(np.eye(3), (run.t.size, 3, 3))
    return np.stack([run[f"bar {i}"].rotation for i in range(5)] + [ground])


def test_bricards_mechanism_moves_although_counting_says_it_does_not(bricard):
    diagnosis = bricard[1].diagnosis
    assert diagnosis.coordinates == diagnosis.rows == 30
    assert (diagnosis.mobility, diagnosis.redundant) == (1, 1)
    assert diagnosis.shared_by == tuple(f"hinge {i}" for i in range(6))
    assert not diagnosis.singular


@pytest.mark.slow
def test_bricards_mechanism_keeps_its_energy_its_constraints_and_its_symmetry(bricard):
    def change(steps):
        energy = Samples(bricard, 1.0, steps).energy()
        return rms((energy - energy[0])[:, None])

    assert observed_order(change, 200) == pytest.approx(4, abs=0.15)
    assert change(200) < 1e-6  # of some 10 J that are exchanged
    run = hx.simulate(*bricard, 1.0, dt=5e-3)
    assert run.start.redundant and "minimum-norm" in run.message
    position, rate = run.drift()
    assert position.max() < 1e-13
    assert rate.max() < 1e-12
    # The angles at alternate hinges are equal, a and b, with cos a + cos b + cos a cos b = 0, as
    # long as the constraints hold (a threefold-symmetric Bricard linkage with right twists).
    along = np.einsum("bnij,bj->bni", bars_of(run), EDGES)
    cosine = np.einsum("bni,bni->bn", np.roll(along, 1, axis=0), along)
    a, b = cosine[:2]
    assert np.ptp(a) > 0.8  # it moves
    np.testing.assert_allclose(cosine, [a, b] * 3, rtol=0, atol=1e-12)
    np.testing.assert_allclose(a + b + a * b, 0.0, rtol=0, atol=1e-12)


# -- Bennett's four-bar ----------------------------------------------------------------------

LENGTHS = np.array([1.0, 0.7])
TWISTS = np.arcsin(LENGTHS * np.sin(np.radians(40.0)))


def bennett(angle):
    """Four links with skew hinges, opposite ones alike, the last of them the ground; and what the
    tangents of its half angles at neighbouring hinges multiply to (Bennett 1903)."""
    product = np.sin(TWISTS.sum() / 2) / np.sin((TWISTS[1] - TWISTS[0]) / 2)
    other = 2 * np.arctan(product / np.tan(angle / 2))
    model = hx.Model(gravity=(0.0, 0.0, -9.81))
    place, rotation, before = np.zeros(3), np.eye(3), "ground"
    for i, turn in enumerate([angle, other, -angle, -other]):
        after, length, twist = f"link {i}", LENGTHS[i % 2], TWISTS[i % 2]
        axis, origin = rotation[:, 2], place
        rotation = rotation @ Rotation.from_euler("ZX", [turn, twist]).as_matrix()
        place = origin + length * rotation[:, 0]
        if i < 3:
            solid = hx.cylinder(0.03, length, mass=1.0 + 0.3 * i, axis="x")
            model.body(after, solid, position=(origin + place) / 2, rotation=rotation)
        else:
            after = "ground"
        model.revolute(f"hinge {i}", before, after, at=origin, axis=axis)
        before = after
    np.testing.assert_allclose(place, 0.0, atol=1e-14)  # the loop closes
    return model, np.array([angle, other]), product


def test_bennetts_linkage_turns_by_its_closed_form():
    model, angles, product = bennett(1.2)
    diagnosis = model.diagnose()
    assert (diagnosis.mobility, diagnosis.redundant, diagnosis.singular) == (1, 3, False)
    assert "3 redundant rows, shared by hinge 0, hinge 1, hinge 2, hinge 3" in str(diagnosis)
    run = model.simulate(1.5, rtol=1e-9)
    half = [(run.joint(f"hinge {i}").angle + angles[i]) / 2 for i in range(2)]
    assert run.success and np.ptp(half[0]) > 0.8
    sines, cosines = (np.prod(f(half), axis=0) for f in (np.sin, np.cos))
    np.testing.assert_allclose(sines, product * cosines, rtol=0, atol=1e-12)


# -- multipliers of least norm ---------------------------------------------------------------


@eqx.filter_jit
def _equations(system, q, v, t):
    G, M = system.jacobian(q, t), system.mass_matrix(q)
    return G, M, system.force(q, v, t), system.gamma(q, v, t)


@pytest.mark.parametrize(
    "name",
    [
        "two_hinged_door",
        pytest.param("spatial_four_bar", marks=pytest.mark.slow),
        pytest.param("bricard", marks=pytest.mark.slow),
    ],
)
def test_multipliers_of_dependent_constraints_are_the_smallest_ones(request, name):
    fixture = request.getfixturevalue(name)
    system, start = fixture[-1] if name == "spatial_four_bar" else fixture
    run = hx.simulate(system, start, 0.5, dt=2.5e-3)
    for k in (0, 77, 200):
        G, M, f, gamma = map(np.asarray, _equations(system, run.q[k], run.v[k], run.t[k]))
        schur = G @ np.linalg.solve(M, G.T)
        wanted = G @ np.linalg.solve(M, f) - gamma
        smallest = np.linalg.lstsq(schur, wanted, rcond=1e-10)[0]
        # The Schur complement of these is conditioned like 1e5, of which rounding takes its part.
        bound = 1e-10 * np.abs(smallest).max()
        np.testing.assert_allclose(run.lam[k], smallest, rtol=0, atol=bound)
        if k == 0:
            np.testing.assert_allclose(start.lam, smallest, rtol=0, atol=bound)


# -- diagnosis -------------------------------------------------------------------------------


def parallelogram(angle, bars=2, coupler=0.5):
    """Equal bars on the ground carry one coupler; with three bars one of them is too many."""
    model = hx.Model()
    up = 0.3 * np.array([np.cos(angle), np.sin(angle)])
    span = 0.5 * (bars - 1)
    model.planar_body("coupler", hx.rod(1.0, mass=1.0), position=(up[0] + span / 2, up[1]))
    for i in range(bars):
        foot = np.array([0.5 * i, 0.0])
        model.planar_body(f"bar {i}", hx.rod(0.3, mass=1.0), position=foot + up / 2, angle=angle)
        model.revolute(f"foot {i}", "ground", f"bar {i}", at=foot)
        model.revolute(
            f"top {i}", f"bar {i}", "coupler", at_a=(0.15, 0.0), at_b=(coupler * i - span / 2, 0.0)
        )
    return model


def slider_crank(angle, rod_angle, crank=0.3, rod=0.5):
    model = hx.Model()
    first = crank * np.array([np.cos(angle), np.sin(angle)])
    second = rod * np.array([np.cos(rod_angle), np.sin(rod_angle)])
    model.planar_body("crank", hx.rod(crank, mass=1.0), position=first / 2, angle=angle)
    model.planar_body("rod", hx.rod(rod, mass=1.0), position=first + second / 2, angle=rod_angle)
    model.planar_body("slider", 1.0, 0.1, position=first + second)
    model.revolute("shaft", "ground", "crank", at=(0.0, 0.0))
    model.revolute("crank pin", "crank", "rod", at=first)
    model.revolute("wrist pin", "rod", "slider", at=first + second)
    model.prismatic("guide", "ground", "slider", at=first + second, axis=(1.0, 0.0))
    return model


def diagnosis_of(model):
    return hx.diagnose(model.system(), model.start_vectors()[0])


def test_mobility_is_counted_by_the_rank_not_by_the_rows():
    assert diagnosis_of(FourBar().model()).mobility == 1
    driven = FourBar().model()
    driven.drive_angle("motor", joint="A", angle=0.0)
    assert diagnosis_of(driven).mobility == 0
    assert diagnosis_of(slider_crank(1.0, -0.3 * np.sin(1.0) / 0.5)).mobility == 1
    stone, puck = hx.Model(), hx.Model()
    stone.body("stone", hx.sphere(0.1, mass=1.0))
    puck.planar_body("puck", hx.disc(0.1, mass=1.0))
    assert diagnosis_of(stone).mobility == 6
    assert diagnosis_of(puck).mobility == 3


def test_a_bar_too_many_is_named_with_those_it_shares_its_load_with():
    extra = parallelogram(1.0, bars=3)
    extra.planar_body("pendulum", hx.rod(0.4, mass=1.0), position=(5.0, 0.0))
    extra.revolute("elsewhere", "ground", "pendulum", at_b=(-0.2, 0.0))
    diagnosis = diagnosis_of(extra)
    assert (diagnosis.mobility, diagnosis.redundant) == (2, 1)
    assert set(diagnosis.shared_by) == {f"{at} {i}" for at in ("foot", "top") for i in range(3)}
    assert not diagnosis.singular
    assert diagnosis_of(parallelogram(1.0)).redundant == 0


# -- formulations that solve for the multipliers -----------------------------------------------

# steps, and what is left of the method's errors: of the motion, and of multipliers by their size
SOLVED_FOR = {
    "Index3": ((hx.Index3(), hx.GeneralizedAlpha(0.8)), 200, 1e-6, 2e-3),
    "GGL": ((hx.GGL(), hx.RadauIIA(3)), 20, 1e-8, 1e-5),
    "Index2": ((hx.Index2(), hx.BDF(2)), 200, 1e-5, 1e-4),
    "Overdetermined": ((hx.Overdetermined(), hx.RadauIIA(2)), 20, 1e-5, 1e-8),
    "ProjectedInvariants": ((hx.ProjectedInvariants(), hx.VariableBDF()), None, 1e-5, 1e-8),
}
_QUICK = ("Index3",)


def followed(built, name, end=0.5):
    """A run by one of these, and the smallest multipliers of its last state."""
    (formulation, integrator), steps, *_ = SOLVED_FOR[name]
    size = {"rtol": 1e-6} if steps is None else {"dt": end / steps}
    method = {"formulation": formulation, "integrator": integrator}
    run = hx.simulate(*built, end, save="end", **size, **method)
    assert run.success and "minimum-norm" in run.message
    G, M, f, gamma = map(np.asarray, _equations(built[0], run.q[-1], run.v[-1], end))
    wanted = G @ np.linalg.solve(M, f) - gamma
    smallest = np.linalg.lstsq(G @ np.linalg.solve(M, G.T), wanted, rcond=1e-10)[0]
    return run, smallest


@pytest.mark.parametrize(
    "name", [x if x in _QUICK else pytest.param(x, marks=pytest.mark.slow) for x in SOLVED_FOR]
)
def test_a_door_on_two_hinges_takes_formulations_that_solve_for_multipliers(two_hinged_door, name):
    """It swings like one on a single hinge; that run's error is far below these."""
    run, smallest = followed(two_hinged_door, name)
    single = hx.simulate(*door([0.0]), 0.5, dt=5e-4, save="end")
    _, _, motion, load = SOLVED_FOR[name]
    np.testing.assert_allclose(run.q[-1], single.q[-1], rtol=0, atol=motion)
    np.testing.assert_allclose(run.lam[-1], smallest, rtol=0, atol=load * np.abs(smallest).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Index3", "GGL"])
def test_bricards_mechanism_takes_formulations_that_solve_for_multipliers(bricard, name):
    run, smallest = followed(bricard, name)
    reference = hx.simulate(*bricard, 0.5, dt=5e-4, save="end")
    _, _, motion, load = SOLVED_FOR[name]
    np.testing.assert_allclose(run.q[-1], reference.q[-1], rtol=0, atol=motion)
    np.testing.assert_allclose(run.lam[-1], smallest, rtol=0, atol=load * np.abs(smallest).max())
    # as above, whatever the method
    along = np.einsum("bnij,bj->bni", bars_of(run), EDGES)
    a, b = np.einsum("bni,bni->bn", np.roll(along, 1, axis=0), along)[:2]
    np.testing.assert_allclose(a + b + a * b, 0.0, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_friction_by_reactions_that_are_not_determined_is_refused():
    model = hx.Model()
    model.body("door", hx.box((0.8, 0.04, 2.0), mass=20.0), position=(0.4, 0.0, 0.0))
    for i, z in enumerate((-0.7, 0.8)):
        model.revolute(f"hinge {i}", "ground", "door", at=(0, 0, z), axis=(0, 0, 1))
    law = {"coefficient": 0.1, "radius": 0.01, "transition_speed": 1e-3}
    model.joint_friction("rust", "hinge 0", **law)
    with pytest.raises(ValueError, match=r"'rust'.*hinge 0.*leave undetermined"):
        model.simulate(0.1, dt=1e-2)


def test_a_loop_that_cannot_close_is_refused_by_the_names_of_its_joints():
    model = hx.Model()
    model.planar_body("left", hx.rod(0.3, mass=1.0), position=(0.1, 0.1), angle=0.8)
    model.planar_body("right", hx.rod(0.3, mass=1.0), position=(0.9, 0.1), angle=2.3)
    model.revolute("left foot", "ground", "left", at_a=(0.0, 0.0), at_b=(-0.15, 0.0))
    model.revolute("right foot", "ground", "right", at_a=(1.0, 0.0), at_b=(-0.15, 0.0))
    model.revolute("middle", "left", "right", at_a=(0.15, 0.0), at_b=(0.15, 0.0))
    with pytest.raises(hx.ConstraintError, match="cannot be assembled") as error:
        model.build()
    assert all(name in str(error.value) for name in ("left foot", "right foot", "middle"))


def test_a_third_bar_of_another_length_is_refused():
    with pytest.raises(hx.ConstraintError, match=r"cannot be assembled.*(top|foot)"):
        parallelogram(1.0, bars=3, coupler=0.45).build(hold=["bar 0"])


def test_hinges_that_are_not_in_line_are_refused_by_name():
    model = hx.Model()
    model.body("door", hx.box((0.8, 0.04, 2.0), mass=20.0))
    model.spherical("ball", "ground", "door", at=(-0.4, 0.0, -0.7))
    model.revolute("upper", "ground", "door", at=(-0.4, 0.0, 0.7), axis=(0.0, 0.0, 1.0))
    model.revolute(
        "lower", "ground", "door", at_a=(-0.4, 0.0, -0.7), at_b=(-0.4, 0.05, -0.7), axis=(0, 0, 1)
    )
    with pytest.raises(hx.ConstraintError, match="cannot be assembled") as error:
        model.build()
    assert "lower" in str(error.value)


def test_a_flat_parallelogram_is_refused_as_singular():
    # All bars on one line: it may go on as a parallelogram or as its mirror image.
    with pytest.raises(hx.ConstraintError, match="singular configuration") as error:
        parallelogram(0.0).build()
    assert all(name in str(error.value) for name in ("foot 0", "foot 1", "top 0", "top 1"))
    diagnosis = diagnosis_of(parallelogram(0.0))
    assert diagnosis.singular
    assert diagnosis.mobility == 2
    assert diagnosis.redundant == 0
    assert "singular configuration at" in str(diagnosis)


def test_a_slider_crank_of_equal_arms_is_singular_where_its_pins_meet():
    # With the slider over the shaft the arms may turn together, or the slider may move on.
    with pytest.raises(hx.ConstraintError, match="singular configuration") as error:
        slider_crank(np.pi / 2, -np.pi / 2, crank=0.4, rod=0.4).build()
    assert all(name in str(error.value) for name in ("shaft", "crank pin", "wrist pin", "guide"))


def test_an_ordinary_dead_point_is_no_singular_start():
    # Stretched out, the slider is at rest but the crank's motion is determined.
    _, start = slider_crank(0.0, 0.0).build()
    assert start.diagnosis.mobility == 1
    assert not start.redundant


# -- rough starts ----------------------------------------------------------------------------


def rough_four_bar():
    bar = FourBar()
    angles = bar.angles(0.7)
    model = hx.Model()
    for i, name in enumerate(LINKS):
        model.planar_body(
            name,
            hx.rod(bar.lengths[i], mass=bar.masses[i]),
            position=bar.centres(angles)[i] + [0.05, -0.04],
            angle=angles[i] + [0.0, 0.2, -0.15][i],
            angular_velocity=[5.0, 1.0, -2.0][i],
        )
    a, b, c = bar.lengths / 2
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-a, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(a, 0.0), at_b=(-b, 0.0))
    model.revolute("C", "coupler", "rocker", at_a=(b, 0.0), at_b=(c, 0.0))
    model.revolute("D", "ground", "rocker", at_a=(bar.ground, 0.0), at_b=(-c, 0.0))
    return bar, model


def test_a_rough_start_closes_its_loop_around_a_held_angle():
    bar, model = rough_four_bar()
    system, start = model.build(hold=["crank.angle"], hold_velocity=["crank.angle"])
    q, v = np.asarray(start.q).reshape(3, 3), np.asarray(start.v).reshape(3, 3)
    assert q[2, 0] == 0.7
    # Newton ends at rounding, and the angles follow from the loop alone.
    np.testing.assert_allclose(q[2], bar.angles(0.7), atol=1e-13)
    np.testing.assert_allclose(q[:2].T, bar.centres(q[2]), atol=1e-13)
    np.testing.assert_allclose(v[2], 5.0 * bar.ratios(q[2]), atol=1e-11)
    assert np.abs(system.constraint(start.q, 0.0)).max() < 1e-14


def test_velocities_are_projected_in_the_mass_metric():
    # The nearest admissible velocity v minimises (v - w)^T M (v - w): the change it makes is
    # orthogonal, in that metric, to every admissible motion.
    _, model = rough_four_bar()
    system, start = model.build(hold=["crank.angle"])
    given = model.start_vectors()[1]
    G = np.asarray(system.jacobian(start.q, 0.0))
    assert np.abs(G @ np.asarray(start.v)).max() < 1e-13
    motion = np.linalg.svd(G)[2][-1]
    M = np.asarray(system.mass_matrix(start.q))
    assert abs(motion @ M @ (np.asarray(start.v) - given)) < 1e-12


def test_held_velocities_that_contradict_each_other_are_refused_by_joint():
    _, model = rough_four_bar()
    with pytest.raises(hx.ConstraintError, match=r"velocit.*\b[ABCD]\b.*Release a held velocity"):
        model.build(hold=["crank.angle"], hold_velocity=["crank.angle", "rocker.angle"])


def test_holding_too_much_is_refused_by_joint():
    _, model = rough_four_bar()
    with pytest.raises(hx.ConstraintError, match=r"cannot be assembled.*\b[ABCD]\b.*release"):
        model.build(hold=["crank.angle", "rocker.angle"])
