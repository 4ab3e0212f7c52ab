"""Rest, prescribed motion, the forces behind it and small vibrations, against closed forms."""

import re
from functools import cache
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import holonax as hx

G = 9.81
# A linear solve, an eigenvalue problem or a converged Newton iteration of a few coordinates
# is exact to some hundred roundings.
ROUNDING = 1e-11


@cache
def spring_and_weight():
    """Weight on a vertical guide, as functions of x and y, hung on a spring that starts relaxed."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([p["m"], p["m"]]),
        force=lambda q, v, t, p: jnp.array([0.0, -p["m"] * p["g"] - p["k"] * (q[1] + 1.0)]),
        constraint=lambda q, t, p: q[:1],
        parameters={"m": 2.0, "k": 200.0, "g": G},
    )
    return system, hx.consistent(system, [0.0, -1.0])


@cache
def cantilever():
    """A rod that starts level, held by a torsion spring in its hinge."""
    model = hx.Model()
    model.planar_body("rod", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
    model.revolute("hinge", "ground", "rod", at=(0.0, 0.0))
    model.torsion_spring("spring", joint="hinge", stiffness=6.0)
    return model.build()


@cache
def hanging_chain(n=4):
    """n rods of 1/n m and 1/n kg from one support, described level."""
    model = hx.Model()
    previous = "ground"
    for i in range(n):
        model.planar_body(f"link{i}", hx.rod(1 / n, mass=1 / n), position=((i + 0.5) / n, 0.0))
        model.revolute(f"pin{i}", previous, f"link{i}", at=(i / n, 0.0))
        previous = f"link{i}"
    return model.build()


@cache
def parallelogram(*, spatial=False):
    """Two cranks of 0.5 m and 1 kg that carry a coupler of 2 kg; in space it is redundant."""
    model = hx.Model(gravity=(0, -G, 0) if spatial else (0, -G))
    up = (0.0,) if spatial else ()
    body = model.body if spatial else model.planar_body
    turned = {"rotation": (0, 0, -np.pi / 2)} if spatial else {"angle": -np.pi / 2}
    bar = lambda x, m: (m, m * x**2 / 12 * np.array([0.01, 1, 1]) if spatial else m * x**2 / 12)  # noqa: E731
    body("left", *bar(0.5, 1.0), position=(0.0, -0.25, *up), **turned)
    body("right", *bar(0.5, 1.0), position=(1.0, -0.25, *up), **turned)
    body("coupler", *bar(1.0, 2.0), position=(0.5, -0.5, *up))
    axis = {"axis": (0, 0, 1)} if spatial else {}
    model.revolute("A", "ground", "left", at=(0.0, 0.0, *up), **axis)
    model.revolute("B", "left", "coupler", at=(0.0, -0.5, *up), **axis)
    model.revolute("C", "coupler", "right", at=(1.0, -0.5, *up), **axis)
    model.revolute("D", "ground", "right", at=(1.0, 0.0, *up), **axis)
    return model.build()


# -- static equilibrium ----------------------------------------------------------------------


@pytest.mark.slow
def test_a_weight_stretches_its_spring_by_its_weight_over_the_stiffness():
    system, start = spring_and_weight()
    found = hx.equilibrium(system, start)
    assert bool(found.success) and bool(found.stable)
    np.testing.assert_allclose(found.q, [0.0, -1.0 - 2 * G / 200], atol=ROUNDING)
    assert float(found.residual) < 1e-11
    assert str(found).startswith("holonax equilibrium: success, equilibrium found in 2 iterations")
    slope = jax.grad(lambda k: hx.equilibrium(system.with_parameters(k=k), start).q[1])(200.0)
    np.testing.assert_allclose(slope, 2 * G / 200**2, rtol=ROUNDING)


def sag(stiffness, mass, gravity):
    """The angle a of the cantilever: k a = -m g l/2 cos a, l = 1 m."""
    moment = lambda a: stiffness * a + mass * gravity / 2 * np.cos(a)  # noqa: E731
    return scipy.optimize.brentq(moment, -np.pi / 2, 0.0, xtol=1e-15)


def test_a_rod_sags_against_its_torsion_spring():
    system, start = cantilever()
    found = hx.equilibrium(system, start)
    angle = sag(6.0, 1.0, G)
    np.testing.assert_allclose(found.q[2], angle, atol=ROUNDING)
    # the hinge carries the weight: J^T lam = f, whose row for y is lam_y
    np.testing.assert_allclose(np.abs(found.lam), [0.0, G], atol=1e-10)
    again = hx.equilibrium(system, start, method="relaxation")
    np.testing.assert_allclose(again.q, found.q, atol=ROUNDING)
    assert bool(again.stable)


def angle_at(gravity):
    """The angle of the cantilever for another gravity."""
    system, start = cantilever()
    changed = eqx.tree_at(lambda s: s.bodies.gravity[1], system, -gravity)
    return hx.equilibrium(changed, start).q[2]


def test_the_derivative_of_an_equilibrium_follows_from_the_implicit_function_theorem():
    a = sag(6.0, 1.0, G)  # k a + m g l/2 cos a = 0
    slope = -np.cos(a) / 2 / (6.0 - G / 2 * np.sin(a))
    np.testing.assert_allclose(jax.grad(angle_at)(G), slope, rtol=ROUNDING)


@pytest.mark.slow
def test_the_second_derivative_of_an_equilibrium():
    step = 1e-4  # central differences of the closed form: an error of step^2
    curvature = (sag(6, 1, G + step) - 2 * sag(6, 1, G) + sag(6, 1, G - step)) / step**2
    np.testing.assert_allclose(jax.jacfwd(jax.grad(angle_at))(G), curvature, rtol=1e-5)


def catenary(n, span):
    """Angles and horizontal pull of n rods of 1/n m and 1/n kg between level supports.

    In rod i the pull H and the vertical force at its middle, W (n/2 - i - 1/2), balance about its
    end: tan a = -V/H; H closes the span.
    """
    vertical = G / n * (n / 2 - np.arange(n) - 0.5)
    angles = lambda H: -np.arctan2(vertical, H)  # noqa: E731
    H = scipy.optimize.brentq(lambda H: np.sum(np.cos(angles(H))) / n - span, 1e-3, 1e3, xtol=1e-14)
    return angles(H), H


def rope(n, span):
    """The same rods, described as two straight halves."""
    angle = np.arccos(span)
    model = hx.Model()
    previous, at = "ground", np.zeros(2)
    for i in range(n):
        turn = -angle if i < n / 2 else angle
        end = at + np.array([np.cos(turn), np.sin(turn)]) / n
        link = model.planar_body(
            f"link{i}", hx.rod(1 / n, mass=1 / n), position=(at + end) / 2, angle=turn
        )
        model.revolute(f"pin{i}", previous, link, at=at)
        previous, at = link, end
    model.revolute("support", "ground", previous, at=at)
    return model


@pytest.mark.slow
def test_a_chain_between_two_supports_hangs_in_a_catenary():
    n, span = 4, 0.8
    model = rope(n, span)
    found = model.equilibrium()
    angles, H = catenary(n, span)
    assert bool(found.success) and bool(found.stable)
    np.testing.assert_allclose(found.q[2 * n :], angles, atol=ROUNDING)
    # every pin carries the horizontal pull; the supports carry half the weight each
    horizontal, vertical = np.split(np.abs(found.lam), 2)
    np.testing.assert_allclose(horizontal, H, atol=1e-10)
    np.testing.assert_allclose(vertical[[0, -1]], G / 2, atol=1e-10)


@pytest.mark.slow
def test_a_chain_too_large_for_dense_matrices_is_relaxed():
    n, span = 210, 0.8
    found = rope(n, span).equilibrium()
    assert bool(found.success) and found.stable is None
    # relaxation stops at 1e-10 of the weight, which the softest motions multiply
    np.testing.assert_allclose(found.q[2 * n :], catenary(n, span)[0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"method": "relaxation"}, {"load_steps": 3}])
def test_a_level_chain_falls_until_it_hangs(options):
    # Level, no rod resists or drives a small turn: Newton's matrix is zero there.
    system, start = hanging_chain()
    found = hx.equilibrium(system, start, **options)
    assert bool(found.success) and bool(found.stable), found.message
    np.testing.assert_allclose(found.q[:4], 0.0, atol=ROUNDING)
    np.testing.assert_allclose(found.q[4:8], [-0.125, -0.375, -0.625, -0.875], atol=ROUNDING)


@pytest.mark.slow
def test_a_level_chain_of_universal_joints_in_space_falls_until_it_hangs():
    """Of more coordinates than singular values are found for in each step."""
    n, length = 12, 0.1
    model = hx.Model(gravity=(0, 0, -9.81))
    for i in range(n):
        rod = hx.cylinder(0.02, length, mass=0.2, axis="x")
        model.body(f"rod {i}", rod, position=(length * (i + 0.5), 0, 0))
        before = f"rod {i - 1}" if i else "ground"
        axes = {"axis_a": (0, 1, 0), "axis_b": (0, 0, 1)}
        model.universal(f"joint {i}", before, f"rod {i}", at=(length * i, 0, 0), **axes)
    rest = model.equilibrium()
    assert rest.success and rest.stable
    for i in range(n):
        down = (0, 0, -length * (i + 0.5))
        np.testing.assert_allclose(rest[f"rod {i}"].position, down, rtol=0, atol=1e-9)


def test_redundant_constraints_share_the_load():
    model = hx.Model()
    model.planar_body("rod", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
    for name in ("hinge", "twin"):
        model.revolute(name, "ground", "rod", at=(0.0, 0.0))
    model.torsion_spring("spring", joint="hinge", stiffness=6.0)
    system, start = model.build()
    rest = hx.equilibrium(system, start)
    assert bool(rest.success) and bool(rest.stable)
    angle = sag(6.0, 1.0, G)
    np.testing.assert_allclose(rest.q[2], angle, atol=ROUNDING)
    np.testing.assert_allclose(np.sort(np.abs(rest.lam)), [0, 0, G / 2, G / 2], atol=1e-10)
    square = 3 * (6.0 - G / 2 * np.sin(angle))
    modes = hx.linearize(system, rest).modes()
    np.testing.assert_allclose(modes.angular_frequency, [np.sqrt(square)], rtol=1e-10)


@pytest.mark.slow
def test_a_redundant_loop_in_space_has_least_multipliers():
    system, start = parallelogram(spatial=True)
    assert start.redundant
    found = hx.equilibrium(system, start)
    assert bool(found.success) and bool(found.stable)
    np.testing.assert_allclose(found.q, start.q, atol=ROUNDING)
    np.testing.assert_allclose(found.lam, start.lam, atol=1e-9)


@pytest.mark.slow
def test_stiff_springs_do_not_hide_soft_motions():
    # The governor's rods swing down by 60 degrees while springs of 8e5 N/m carry 29 N.
    system, start = hx.examples.flyball_governor()
    found = hx.equilibrium(system, start)
    assert bool(found.success) and int(found.iterations) < 100
    assert "neutral" in found.message  # the shaft turns freely
    assert float(found.residual) < 1e-8


def test_an_equilibrium_is_a_start_from_which_nothing_moves():
    system, start = cantilever()
    rest = hx.equilibrium(system, start).start
    result = hx.simulate(system, rest, 0.1, dt=0.01)
    assert np.max(np.abs(result.q - rest.q)) < 1e-12


def test_a_body_that_nothing_holds_is_named():
    model = hx.Model()
    model.planar_body("ball", 1.0, 1.0)
    found = model.equilibrium()
    assert not bool(found.success)
    assert "ball.y is out of balance by 9.81 N" in found.message
    assert "FAILED" in str(found)
    with pytest.raises(ValueError, match=r"linearize: no equilibrium found.*ball\.y"):
        model.linearize()


def test_a_driver_that_cannot_be_followed_is_named():
    model = hx.Model()
    model.planar_body("rod", hx.rod(1.0, mass=1.0), position=(0.0, 0.5), angle=np.pi / 2)
    model.revolute("hinge", "ground", "rod", at=(0.0, 0.0))
    model.drive_distance(
        "ram", "ground", "rod", at_a=(2, 0), at_b=(0.5, 0), distance=lambda t: 1.5 + 2 * t
    )
    system, start = model.build(t=0.5)
    found = hx.equilibrium(system, start, t=0.7)
    assert bool(found.success), found.message
    np.testing.assert_allclose(np.hypot(found.q[0] * 2 - 2, found.q[1] * 2), 2.9, rtol=1e-12)
    found = hx.equilibrium(system, start, t=1.5)  # 4 m from (2, 0): the rod reaches 3 m
    assert not bool(found.success)
    assert "ram" in found.message and "cannot be met at t = 1.5 s" in found.message


def test_bad_arguments_of_equilibrium_are_refused():
    system, start = cantilever()
    other = hanging_chain()[1]
    with pytest.raises(TypeError, match="equilibrium: system is str; give a System"):
        hx.equilibrium("rod", start)
    with pytest.raises(TypeError, match=r"start=None is not a start\. Give what hx\.consistent"):
        hx.equilibrium(system, None)
    with pytest.raises(ValueError, match="12 coordinates and 8 constraint rows, belongs to anot"):
        hx.equilibrium(system, other)
    with pytest.raises(ValueError, match=r"method='magic' is not known. Choose one of 'newton'"):
        hx.equilibrium(system, start, method="magic")
    rest = hx.equilibrium(system, start)
    for ask in (hx.equilibrium, hx.linearize):
        with pytest.raises(ValueError, match=f"{ask.__name__}: the equilibrium.*another system"):
            ask(hanging_chain()[0], rest)
    with pytest.raises(ValueError, match="load_steps=0 must be a whole number, 1 or more"):
        hx.equilibrium(system, start, load_steps=0)
    with pytest.raises(ValueError, match=r"tol=-1 is out of range"):
        hx.equilibrium(system, start, tol=-1)
    with pytest.raises(ValueError, match="t=nan is not finite"):
        hx.equilibrium(system, start, t=np.nan)
    with pytest.raises(TypeError, match="cannot be made consistent while it is differentiated"):
        jax.grad(lambda q: hx.equilibrium(system, q).q[0])(start.q)


# -- small vibrations ------------------------------------------------------------------------


@cache
def pendulum():
    """A compound pendulum of 2 kg: centre of mass 0.3 m below a damped hinge."""
    model = hx.Model()
    model.planar_body("bob", 2.0, 0.05, position=(0.0, -0.3))
    model.revolute("hinge", "ground", "bob", at=(0.0, 0.0))
    model.joint_damping("oil", "hinge", 0.1)
    return model.build()


def test_a_compound_pendulum_swings_at_its_frequency():
    system, start = pendulum()
    about = 0.05 + 2.0 * 0.3**2
    square, decay = 2.0 * G * 0.3 / about, 0.1 / about / 2
    small = hx.linearize(system, start, coordinates=["bob.angle"])
    assert small.warning == ""
    np.testing.assert_allclose(
        [small.M[0, 0], small.D[0, 0], small.K[0, 0]], [about, 0.1, 2.0 * G * 0.3], rtol=ROUNDING
    )
    modes = small.modes()
    np.testing.assert_allclose(modes.angular_frequency, [np.sqrt(square - decay**2)], rtol=ROUNDING)
    np.testing.assert_allclose(
        modes.frequency, [np.sqrt(square - decay**2) / 2 / np.pi], rtol=ROUNDING
    )
    np.testing.assert_allclose(modes.damping_ratio, [decay / np.sqrt(square)], rtol=ROUNDING)
    # it turns about the hinge, so its centre moves 0.3 m for each radian
    np.testing.assert_allclose(modes.shape("bob.angle"), [1.0], atol=ROUNDING)
    np.testing.assert_allclose(modes.shape("bob.x"), [0.3], atol=ROUNDING)
    assert "bob.angle" in str(small) and "damping ratio" in str(small)


def test_a_torque_on_the_pendulum_enters_through_B():
    system, start = pendulum()
    small = hx.linearize(system, start, coordinates=["bob.angle"])
    column = small.B[:, small.names.index("bob.angle")]
    np.testing.assert_allclose(column, [0.0, 1 / (0.05 + 2.0 * 0.3**2)], rtol=ROUNDING)


@pytest.mark.slow
def test_the_gradient_of_a_frequency_follows_the_equilibrium():
    # The cantilever vibrates about where it sags to, which moves with its stiffness:
    # J w^2 = k - m g l/2 sin a,  J = m l^2/3.
    system, start = cantilever()

    def square(k):
        changed = eqx.tree_at(lambda s: s.bodies.forces[0].element.law.stiffness, system, k)
        rest = hx.equilibrium(changed, start)
        return hx.linearize(changed, rest).modes().angular_frequency[0] ** 2

    closed = lambda k: 3 * (k - G / 2 * np.sin(sag(k, 1.0, G)))  # noqa: E731
    k, step = 6.0, 1e-4
    value, slope = jax.value_and_grad(lambda k: square(k[None]))(jnp.asarray(k))
    np.testing.assert_allclose(value, closed(k), rtol=1e-10)
    # central differences: step^2 and rounding over step
    np.testing.assert_allclose(slope, (closed(k + step) - closed(k - step)) / 2 / step, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("spatial", [False, True])
def test_a_parallelogram_four_bar_swings_like_a_pendulum(spatial):
    system, start = parallelogram(spatial=spatial)
    small = hx.linearize(system, hx.equilibrium(system, start))
    a, m, c = 0.5, 1.0, 2.0  # cranks and coupler, which moves without turning
    square = G * a * (m + c) / (2 * m * a**2 / 3 + c * a**2)
    assert small.M.shape == (1, 1)
    np.testing.assert_allclose(small.modes().angular_frequency, [np.sqrt(square)], rtol=1e-10)


@pytest.mark.slow
def test_a_four_bar_of_unequal_links_vibrates_at_its_frequency():
    ground, a, b, c = 0.6, 0.2, 0.5, 0.4
    masses = np.array([1.0, 2.0, 1.5])
    model = hx.Model()
    rods = [hx.rod(x, mass=m) for x, m in zip((a, b, c), masses, strict=True)]
    model.planar_body("crank", rods[0], position=(0.0, -0.1), angle=-np.pi / 2)
    model.planar_body("coupler", rods[1], position=(0.25, -0.3), angle=-0.4)
    model.planar_body("rocker", rods[2], position=(0.55, -0.2), angle=-1.8)
    model.revolute("A", "ground", "crank", at_a=(0, 0), at_b=(-a / 2, 0))
    model.revolute("B", "crank", "coupler", at_a=(a / 2, 0), at_b=(-b / 2, 0))
    model.revolute("C", "coupler", "rocker", at_a=(b / 2, 0), at_b=(c / 2, 0))
    model.revolute("D", "ground", "rocker", at_a=(ground, 0), at_b=(-c / 2, 0))
    system, start = model.build(hold=["crank"])
    rest = hx.equilibrium(system, start, method="relaxation")
    small = hx.linearize(system, rest, coordinates=["crank.angle"])

    def centres(angle):
        """Centres of mass and angles of the three links, below the ground link."""
        pin = a * np.array([np.cos(angle), np.sin(angle)])
        base = np.array([ground, 0.0])
        d = np.linalg.norm(base - pin)
        along = (base - pin) / d
        x = (d**2 + b**2 - c**2) / (2 * d)
        joint = pin + x * along + np.sqrt(b**2 - x**2) * np.array([along[1], -along[0]])
        turns = [angle, *(np.arctan2(y, x) for x, y in (joint - pin, joint - base))]
        return np.array([*pin / 2, *(pin + joint) / 2, *(base + joint) / 2, *turns])

    angle, h = float(rest.q[6]), 1e-4
    low, mid, high = (centres(angle + x) for x in (-h, 0.0, h))
    inertia = masses * np.array([a, b, c]) ** 2 / 12
    rate = (high - low) / (2 * h)
    mass = np.sum(np.repeat(masses, 2) * rate[:6] ** 2) + np.sum(inertia * rate[6:] ** 2)
    energy = [G * np.sum(masses * x[1:6:2]) for x in (low, mid, high)]
    stiffness = (energy[0] - 2 * energy[1] + energy[2]) / h**2
    # second differences: an error of h^2, and of rounding over h^2
    np.testing.assert_allclose(mid[[0, 2, 4, 1, 3, 5, 6, 7, 8]], rest.q, atol=1e-9)
    np.testing.assert_allclose([small.M[0, 0], small.K[0, 0]], [mass, stiffness], rtol=1e-6)
    np.testing.assert_allclose(
        small.modes().angular_frequency, [np.sqrt(stiffness / mass)], rtol=1e-6
    )


def test_a_hanging_chain_has_the_frequencies_of_its_minimal_coordinates():
    n = 4
    system, start = hanging_chain(n)
    modes = hx.linearize(system, hx.equilibrium(system, start, method="relaxation")).modes()
    # centre of rod k: arms of 1/n for the rods above it, of half that for itself
    arms = np.tril(np.ones((n, n)), -1) / n + np.eye(n) / (2 * n)
    mass = arms.T @ arms / n + np.eye(n) / (12 * n**3)
    stiffness = np.diag(G / n * arms.sum(axis=0))
    exact = np.sqrt(scipy.linalg.eigh(stiffness, mass, eigvals_only=True))
    np.testing.assert_allclose(modes.angular_frequency, exact, rtol=1e-9)
    np.testing.assert_allclose(modes.damping_ratio, 0.0, atol=1e-9)
    # the heavy rope: J0(2 w sqrt(L/g)) = 0; rods differ from it by about 1/(12 n^2)
    np.testing.assert_allclose(modes.angular_frequency[0], 2.404826 / 2 * np.sqrt(G), rtol=5e-3)


@pytest.mark.slow
def test_a_sled_on_a_spring_has_more_positions_than_velocities():
    model = hx.Model(gravity=(0, 0))
    model.planar_body("sled", 2.0, 0.5)
    model.knife_edge("blade", "sled", at=(0, 0), direction=(1, 0))
    model.spring_damper("spring", "ground", "sled", at=((-1, 0), (0, 0)), stiffness=50.0)
    small = hx.linearize(*model.build())
    assert small.A.shape == (5, 5)
    modes = small.modes()
    np.testing.assert_allclose(modes.angular_frequency[0], 5.0, rtol=ROUNDING)
    assert len(modes) == 4  # beside it turning, and what the blade holds


def test_a_state_that_is_no_equilibrium_says_so():
    system, start = cantilever()
    small = hx.linearize(system, start)
    assert "no equilibrium" in small.warning and "rod." in small.warning
    assert "Find one with hx.equilibrium" in str(small)


def test_bad_arguments_of_linearize_are_refused():
    system, start = pendulum()
    with pytest.raises(TypeError, match="linearize: system is NoneType"):
        hx.linearize(None, start)
    with pytest.raises(TypeError, match=r"coordinates='bob.angle' must be a list"):
        hx.linearize(system, start, coordinates="bob.angle")
    with pytest.raises(ValueError, match=r"coordinates has 'rod.angle', which is no coordinate"):
        hx.linearize(system, start, coordinates=["rod.angle"])
    with pytest.raises(ValueError, match="must be 1 different ones, one for each free motion"):
        hx.linearize(system, start, coordinates=["bob.x", "bob.angle"])
    modes = hx.linearize(system, start).modes()
    with pytest.raises(KeyError, match=r"There is no coordinate 'x'; there are bob\.x"):
        modes.shape("x")
    with pytest.raises(TypeError, match=r"Use eigenvalues\(\) there"):
        jax.jit(lambda q: hx.linearize(system, hx.equilibrium(system, start)).modes())(0.0)


@pytest.mark.slow
def test_the_code_of_the_page_on_analyses_runs():
    page = Path(__file__).resolve().parent.parent / "docs" / "analyses.md"
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL):
        exec(compile(block, "analyses.md", "exec"), names)
    assert np.max(np.abs(names["forward"].q - names["motion"].q)) < 1e-10
    assert str(names["rest"]).splitlines()[1] in page.read_text("utf-8")
    assert str(names["small"].modes()) in page.read_text("utf-8")
