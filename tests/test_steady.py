"""Small motions about steady motions: closed forms, published eigenvalues, the time response."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import holonax as hx
from holonax.analysis.steady import _Turning, world_axes
from sections import in_part

G = 9.81


def response_error(built, small, span, *, seed=0, size=3e-5):
    """The largest difference between what A foretells of a small deviation after a time and what
    central differences of two runs find, relative to the deviation; `size` squared and the runs'
    tolerance over `size` are the errors of these."""
    system, start = built
    rng = np.random.default_rng(seed)
    Z, Zv, C = (np.asarray(x) for x in (small.basis, small.velocity_basis, small.dragged))
    x, y = rng.standard_normal(Z.shape[1]), rng.standard_normal(Zv.shape[1])
    ends = []
    for sign in (0.0, size, -size):
        q = system.retract(start.q, sign * Z @ x)
        near = hx.consistent(system, q, start.v + sign * (Zv @ y + C @ x), t=start.t)
        run = hx.simulate(
            system, near, start.t + span, rtol=1e-11, atol=1e-13, integrator=hx.Dop853()
        )
        assert run.success
        ends.append((run.q[-1], run.v[-1]))
    (q, _), high, low = ends
    difference = lambda end: np.asarray(system.difference(q, end[0]))  # noqa: E731
    found = np.stack([difference(high) - difference(low), high[1] - low[1]]) / (2 * size)
    state = scipy.linalg.expm(np.asarray(small.A) * span) @ np.concatenate([x, y])
    x, y = state[: x.size], state[x.size :]
    nv = start.v.size
    carried = world_axes(system, q, nv).T @ _Turning(np.asarray(small.turning)).at(span)
    carried = carried @ world_axes(system, start.q, nv)
    told = np.stack([carried @ Z @ x, carried @ (Zv @ y + C @ x)])
    return np.max(np.abs(found - told)) / np.max(np.abs(told))


def swinging(small):
    """Imaginary parts above zero, sorted."""
    values = np.asarray(small.eigenvalues())
    return np.sort(values.imag[values.imag > 1e-6])


# -- wheels -----------------------------------------------------------------------------------


@cache
def rolling_disc(speed, radius=0.5, mass=3.0):
    """Upright, along x."""
    model = hx.Model()
    model.body(
        "disc",
        hx.disc(radius, mass=mass),
        position=(0.0, 0.0, radius),
        rotation=(np.pi / 2, 0.0, 0.0),
        velocity=(speed, 0.0, 0.0),
        angular_velocity=(0.0, speed / radius, 0.0),
    )
    model.rolling_disc("rim", "disc", radius=radius, axis=(0, 1, 0))
    return model.build()


def upright(speed, radius=0.5):
    """The square of the frequency of an upright disc's wobble: with inertias m r^2/4 across and
    m r^2/2 along, 5/4 r^2 lambda^2 = g r - 3 speed^2."""
    return (3 * speed**2 - G * radius) / (1.25 * radius**2)


@pytest.mark.slow
def test_an_upright_disc_wobbles_as_it_rolls():
    built = rolling_disc(2.0)
    small = hx.linearize(*built)
    assert small.warning == ""
    np.testing.assert_allclose(swinging(small), [np.sqrt(upright(2.0))], rtol=1e-9)
    # it may be anywhere, head anywhere, and roll at any speed: six eigenvalues are zero
    assert np.sum(np.asarray(small.eigenvalues()) == 0) == 6
    assert not np.any(small.modes().unstable)
    assert response_error(built, small, 1.0) < 1e-6
    # the frame does not turn: the disc's own spin changes nothing in the world's axes
    assert np.linalg.norm(small.turning) == 0


def test_a_slow_disc_falls_and_is_called_unstable():
    small = hx.linearize(*rolling_disc(0.5))
    values = np.asarray(small.eigenvalues()).real
    np.testing.assert_allclose(values.max(), np.sqrt(-upright(0.5)), rtol=1e-9)
    text = str(small)
    assert "unstable: 1 of 8 modes grow" in text and f"{values.max():.6g}" in text


def test_an_inverted_pendulum_prints_its_eigenvalue_and_the_word():
    model = hx.Model()
    model.planar_body("bob", 2.0, 0.05, position=(0.0, 0.3))
    model.revolute("hinge", "ground", "bob", at=(0.0, 0.0))
    small = hx.linearize(*model.build())
    rate = np.sqrt(2.0 * G * 0.3 / (0.05 + 2.0 * 0.09))
    row = next(x for x in str(small).splitlines() if "bob.angle" in x)
    assert f"{rate:.6g}" in row and "unstable" in row
    np.testing.assert_array_equal(small.modes().unstable, [True, False])


def test_a_double_eigenvalue_is_not_taken_for_a_zero():
    model = hx.Model(gravity=(0, 0))
    model.planar_body("cart", 1.0, 1.0)
    model.prismatic("rail", "ground", "cart", at=(0, 0), axis=(1, 0))
    ends = ((-1.0, 0.0), (0.0, 0.0))
    model.spring_damper("spring", "ground", "cart", at=ends, stiffness=25.0, damping=10.0)
    # of a double eigenvalue rounding shows as its square root
    np.testing.assert_allclose(hx.linearize(*model.build()).eigenvalues(), [-5, -5], atol=1e-6)


@cache
def circling_disc(slant=1.2, turn=1.7, radius=0.4, mass=1.5):
    """Rolls in a circle; see `RollingDisc` among the references."""
    s, c = np.sin(slant), np.cos(slant)
    across, along = mass * radius**2 / 4, mass * radius**2 / 2
    w3 = across * turn**2 * s * c - mass * G * radius * c
    w3 /= (along + mass * radius**2) * turn * s
    axes = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    centre = (0.0, radius * w3 / turn, radius * s)
    model = hx.Model()
    model.body(
        "disc",
        hx.disc(radius, mass=mass),
        position=centre,
        rotation=axes,
        velocity=-radius * w3 * axes[:, 0],
        angular_velocity=turn * s * axes[:, 1] + w3 * axes[:, 2],
    )
    model.rolling_disc("rim", "disc", radius=radius, axis=axes[:, 2])
    return model.build(), w3


def circling_frequency(slant, turn, w3, radius=0.4, mass=1.5):
    """Of the classical equations of a rolling disc in the rates of the slant, w2 and w3, linearised
    by central differences."""
    m, r = mass, radius
    A, C = m * r**2 / 4, m * r**2 / 2

    def rates(state):
        # slant' = p; with W the turn about the vertical, w2 = W sin(slant) and spin w3 about the
        # axle: momentum about the contact point, resolved in the frame of the disc's plane.
        slant, p, w2, w3 = state
        s, c = np.sin(slant), np.cos(slant)
        W = w2 / s
        p1 = ((A * W * c - (C + m * r**2) * w3) * w2 - m * G * r * c) / (A + m * r**2)
        p2 = (C * w3 - A * W * c) * p / A
        p3 = m * r**2 * p * w2 / (C + m * r**2)
        return np.array([p, p1, p2, p3])

    state = np.array([slant, 0.0, turn * np.sin(slant), w3])
    assert np.max(np.abs(rates(state))) < 1e-12
    h = 1e-5
    columns = [(rates(state + h * e) - rates(state - h * e)) / (2 * h) for e in np.eye(4)]
    values = np.linalg.eigvals(np.stack(columns, axis=1))
    return np.max(values.imag)


@pytest.mark.slow
def test_a_disc_that_rolls_in_a_circle_nods():
    built, w3 = circling_disc()
    small = hx.linearize(*built)
    exact = circling_frequency(1.2, 1.7, w3)
    found = swinging(small)
    assert np.min(np.abs(found - exact)) < 1e-7 * exact  # central differences: h^2
    # seen from the frame of its circle, where it is in the plane turns at the circle's rate
    assert np.min(np.abs(found - 1.7)) < 1e-6
    assert response_error(built, small, 0.8) < 1e-6


# -- the bicycle ------------------------------------------------------------------------------


@cache
def bicycle(speed):
    """The benchmark of Meijaard, Papadopoulos, Ruina and Schwab 2007, with z upward."""
    tilt, base, trail = np.pi / 10, 1.02, 0.08
    steer = np.array([-np.sin(tilt), 0.0, np.cos(tilt)])  # up the head tube, backward

    def turned(xx, yy, zz, xz):  # the paper's z points down
        return np.array([[xx, 0.0, -xz], [0.0, yy, 0.0], [-xz, 0.0, zz]])

    going = (speed, 0.0, 0.0)
    model = hx.Model()
    frame = turned(9.2, 11.0, 2.8, 2.4)
    fork = turned(0.05892, 0.06, 0.00708, -0.00756)
    model.body("frame", 85.0, frame, position=(0.3, 0.0, 0.9), velocity=going)
    model.body("fork", 4.0, fork, position=(0.9, 0.0, 0.7), velocity=going)
    wheels = {"rear": (2.0, (0.0603, 0.12), 0.3, 0.0), "front": (3.0, (0.1405, 0.28), 0.35, base)}
    for name, (mass, (across, along), radius, x) in wheels.items():
        model.body(
            name,
            mass,
            (across, along, across),
            position=(x, 0.0, radius),
            velocity=going,
            angular_velocity=(0.0, speed / radius, 0.0),
        )
        carrier = "frame" if name == "rear" else "fork"
        hub = (x, 0.0, radius)
        model.revolute(f"{name} hub", carrier, name, at=hub, axis=(0, 1, 0))
        model.rolling_disc(f"{name} tyre", name, radius=radius, axis=(0, 1, 0))
    # the steering axis meets the ground the trail ahead of the front wheel's contact
    foot = np.array([base + trail, 0.0, 0.0])
    model.revolute("head", "frame", "fork", at=foot + 0.8 * steer, axis=steer)
    return model.build()


def whipple(speed):
    """Eigenvalues of lean and steering from the paper's matrices (its Equation 5.3 and after)."""
    M = np.array([[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]])
    K0 = np.array([[-80.95, -2.59951685249872], [-2.59951685249872, -0.80329488458618]])
    K2 = np.array([[0.0, 76.59734589573222], [0.0, 2.65431523794604]])
    C1 = np.array([[0.0, 33.86641391492494], [-0.85035641456978, 1.68540397397560]])
    lower = np.linalg.solve(M, np.hstack([-(G * K0 + speed**2 * K2), -speed * C1]))
    A = np.block([[np.zeros((2, 2)), np.eye(2)], [lower]])
    return np.linalg.eigvals(A)


@pytest.mark.parametrize("speed", in_part([0.0, 2.0, 5.0, 8.0], {"2.0", "8.0"}))
def test_the_benchmark_bicycle_has_its_published_eigenvalues(speed):
    small = hx.linearize(*bicycle(speed))
    found = np.asarray(small.eigenvalues())
    # the rest: place and heading, angles of wheels, and the speed
    for value in whipple(speed):
        assert np.min(np.abs(found - value)) < 1e-9 * abs(value) + 1e-9
    assert np.sum(np.abs(found) > 1e-9) == 4
    unstable = bool(np.any(small.modes().unstable))
    assert unstable == (speed != 5.0)  # it stands by itself between 4.3 and 6.0 m/s


@pytest.mark.slow
def test_the_bicycle_answers_as_its_matrix_says():
    assert response_error(bicycle(5.0), hx.linearize(*bicycle(5.0)), 0.5) < 1e-6


# -- tops and rotors --------------------------------------------------------------------------


@cache
def top(slant, turn, spin, mass=1.2, arm=0.3, A=0.02, C=0.03):
    """Its point is a ball joint at the origin; A is the inertia across, at the centre of mass."""
    s, c = np.sin(slant), np.cos(slant)
    axes = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    angular = turn * np.array([0.0, 0.0, 1.0]) + spin * axes[:, 2]
    position = arm * axes[:, 2]
    model = hx.Model()
    model.body(
        "top",
        mass,
        (A, A, C),
        position=position,
        rotation=axes,
        velocity=np.cross(angular, position),
        angular_velocity=angular,
    )
    model.spherical("point", "ground", "top", at=(0, 0, 0))
    return model.build()


def test_a_sleeping_top_has_the_frequencies_of_the_closed_form():
    spin, mass, arm = 90.0, 1.2, 0.3
    built = top(0.0, 0.0, spin)
    small = hx.linearize(*built)
    about = 0.02 + mass * arm**2
    # A' z'' - i C spin z' - m g l z = 0 in z = x + i y
    root = np.sqrt((0.03 * spin) ** 2 - 4 * about * mass * G * arm)
    exact = np.sort(np.abs([(0.03 * spin + root) / 2 / about, (0.03 * spin - root) / 2 / about]))
    np.testing.assert_allclose(swinging(small), exact, rtol=1e-9)
    assert response_error(built, small, 0.5) < 1e-6
    # below the critical spin it falls, growing as it precesses
    slow = np.asarray(hx.linearize(*top(0.0, 0.0, 20.0)).eigenvalues())
    growth = np.sqrt(4 * about * mass * G * arm - 0.6**2) / 2 / about
    np.testing.assert_allclose(slow.real.max(), growth, rtol=1e-9)


def test_a_precessing_top_nutates_as_the_closed_form_says():
    slant, turn, mass, arm, C = 0.7, 2.5, 1.2, 0.3, 0.03
    about = 0.02 + mass * arm**2
    s, c = np.sin(slant), np.cos(slant)
    # steady: m g l = C w3 turn - A' turn^2 cos; w3 = spin + turn cos
    w3 = (mass * G * arm + about * turn**2 * c) / (C * turn)
    built = top(slant, turn, w3 - turn * c)
    small = hx.linearize(*built)
    # Routh: A' x'' = -dV'/dslant with the momenta p = C w3 and P = A' turn s^2 + p c
    p = C * w3
    P = about * turn * s**2 + p * c

    def potential(x):
        around = (P - p * jnp.cos(x)) ** 2 / (2 * about * jnp.sin(x) ** 2)
        return around + mass * G * arm * jnp.cos(x)

    assert abs(jax.grad(potential)(slant)) < 1e-12 * potential(slant)
    exact = np.sqrt(jax.grad(jax.grad(potential))(slant) / about)
    found = swinging(small)
    assert np.min(np.abs(found - exact)) < 1e-8 * exact
    np.testing.assert_allclose(np.abs(small.turning).max(), turn, rtol=1e-8)
    assert response_error(built, small, 0.5) < 1e-6


def rotor(spin, *, stiff=(400.0, 400.0), inertia=(0.05, 0.05, 0.08), mass=2.0):
    """A rotor whose shaft, along z, is held by springs at both ends, 0.25 m from its centre."""
    model = hx.Model(gravity=(0, 0, 0))
    model.body("rotor", mass, inertia, angular_velocity=(0, 0, spin))
    for name, end in (("lower", -0.25), ("upper", 0.25)):
        model.bushing(
            name,
            "ground",
            "rotor",
            at=(0, 0, end),
            stiffness=(*stiff, 1000.0, 0.0, 0.0, 0.0),
        )
    return model.build()


def test_a_rotor_whirls_forward_and_backward():
    spin = 60.0
    built = rotor(spin)
    small = hx.linearize(*built)
    k = 2 * 400.0 * 0.25**2
    gyro = 0.08 * spin
    root = np.sqrt(gyro**2 + 4 * 0.05 * k)
    tilting = [(root - gyro) / 0.1, (root + gyro) / 0.1]
    exact = np.sort([*tilting, 20.0, 20.0, np.sqrt(2000.0 / 2.0)])
    np.testing.assert_allclose(swinging(small), exact, rtol=1e-8)
    assert response_error(built, small, 0.3) < 1e-6


def test_a_rotor_without_symmetry_is_seen_from_its_own_frame():
    spin, a, b, c = 60.0, 0.04, 0.06, 0.08
    built = rotor(spin, inertia=(a, b, c))
    small = hx.linearize(*built)
    np.testing.assert_allclose(np.abs(small.turning).max(), spin, rtol=1e-8)
    # in axes that turn with it: Euler's equations for tilts (x, y) of the shaft
    k = 2 * 400.0 * 0.25**2
    M = np.diag([a, b])
    gyro = spin * np.array([[0.0, c - a - b], [a + b - c, 0.0]])
    K = np.diag([k + (c - b) * spin**2, k + (c - a) * spin**2])
    lower = np.linalg.solve(M, np.hstack([-K, -gyro]))
    exact = np.linalg.eigvals(np.block([[np.zeros((2, 2)), np.eye(2)], [lower]])).imag
    for value in exact[exact > 0]:
        assert np.min(np.abs(swinging(small) - value)) < 1e-7 * value
    assert response_error(built, small, 0.3) < 1e-6


def test_a_rotor_without_symmetry_in_unequal_bearings_is_refused():
    with pytest.raises(ValueError, match=r"linearize: the motion is not steady.*hx\.floquet"):
        hx.linearize(*rotor(60.0, inertia=(0.04, 0.06, 0.08), stiff=(300.0, 500.0)))


def test_a_free_body_that_spins_about_its_axis_nutates():
    spin, A, C = 7.0, 0.2, 0.3
    model = hx.Model(gravity=(0, 0, 0))
    model.body("top", 1.0, (A, A, C), angular_velocity=(0, 0, spin))
    small = hx.linearize(*model.build())
    np.testing.assert_allclose(swinging(small), [C / A * spin], rtol=1e-9)


# -- frames that turn -------------------------------------------------------------------------


@cache
def turning_pendulum(rate, *, length=0.5, mass=1.0, redundant=False):
    """A pendulum in a vertical frame that a driver turns at an even rate: (m l^2) with a bob."""
    model = hx.Model()
    model.body("frame", 2.0, (0.1, 0.1, 0.1), angular_velocity=(0, 0, rate))
    slant = np.arccos(min(1.0, G / (rate**2 * length))) if rate else 0.0
    bob = length * np.array([np.sin(slant), 0.0, -np.cos(slant)])
    model.body(
        "bob",
        mass,
        (1e-6, 1e-6, 1e-6),
        position=bob,
        rotation=(0.0, -slant, 0.0),
        velocity=np.cross((0, 0, rate), bob),
        angular_velocity=(0, 0, rate),
    )
    model.revolute("shaft", "ground", "frame", at=(0, 0, 0), axis=(0, 0, 1))
    if redundant:
        model.revolute("upper bearing", "ground", "frame", at=(0, 0, 0.4), axis=(0, 0, 1))
    model.revolute("pin", "frame", "bob", at=(0, 0, 0), axis=(0, 1, 0))
    model.drive_angle("motor", joint="shaft", angle=lambda t: rate * t)
    return model.build()


@pytest.mark.parametrize("redundant", in_part([False, True], {"False"}))
def test_a_pendulum_in_a_frame_that_turns(redundant):
    # about the slant with cos = g / (l w^2) it swings at w sin(slant), for a point as bob
    rate, length, mass, own = 7.0, 0.5, 1.0, 1e-6
    built = turning_pendulum(rate, redundant=redundant)
    assert built[1].redundant == redundant
    small = hx.linearize(*built)
    slant = np.arccos(G / (rate**2 * length))
    exact = rate * np.sin(slant) * np.sqrt(mass * length**2 / (mass * length**2 + own))
    np.testing.assert_allclose(swinging(small), [exact], rtol=1e-8)
    if not redundant:  # redundant reactions are solved for to 1e-12 or so: not fine enough here
        assert response_error(built, small, 0.5) < 1e-6


def test_a_hanging_pendulum_in_a_fast_frame_is_unstable():
    rate, length = 7.0, 0.5
    model = hx.Model()
    model.body("frame", 2.0, (0.1, 0.1, 0.1), angular_velocity=(0, 0, rate))
    model.body("bob", 1.0, (1e-6, 1e-6, 1e-6), position=(0, 0, -length), angular_velocity=(0, 0, 7))
    model.revolute("shaft", "ground", "frame", at=(0, 0, 0), axis=(0, 0, 1))
    model.revolute("pin", "frame", "bob", at=(0, 0, 0), axis=(0, 1, 0))
    model.drive_angle("motor", joint="shaft", angle=lambda t: rate * t)
    values = np.asarray(hx.linearize(*model.build()).eigenvalues())
    np.testing.assert_allclose(values.real.max(), np.sqrt(rate**2 - G / length), rtol=1e-5)


def test_a_spherical_pendulum_given_by_functions_is_followed():
    # conical: w^2 = g / (l cos); small motions at w sqrt(1 + 3 cos^2) beside the turn itself
    length, slant = 1.0, 0.6
    rate = np.sqrt(G / (length * np.cos(slant)))
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(3),
        force=lambda q, v, t, p: jnp.array([0.0, 0.0, -G]),
        constraint=lambda q, t, p: jnp.array([q @ q - 1.0]) / 2,
    )
    q = np.array([np.sin(slant), 0.0, -np.cos(slant)])
    start = hx.consistent(system, q, [0.0, rate * np.sin(slant), 0.0])
    small = hx.linearize(system, start)
    exact = rate * np.sqrt(1 + 3 * np.cos(slant) ** 2)
    assert np.min(np.abs(swinging(small) - exact)) < 1e-8 * exact


def test_a_swinging_pendulum_is_refused_also_at_its_lowest_point():
    # there its acceleration is that of a circle, and its equations do not change at first
    for angle in (0.0, 0.4):
        model = hx.Model()
        at = 0.3 * np.array([np.sin(angle), -np.cos(angle)])
        model.planar_body("bob", 2.0, 0.05, position=at, angle=angle, angular_velocity=2.0)
        model.revolute("hinge", "ground", "bob", at=(0.0, 0.0))
        with pytest.raises(ValueError, match=r"not steady.*bob\..*Give a steady motion"):
            hx.linearize(*model.build(hold_velocity=["bob.angle"]))


def test_a_system_that_changes_with_time_is_told():
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1),
        force=lambda q, v, t, p: -(4.0 + jnp.cos(3.0 * t)) * q,
    )
    small = hx.linearize(system, hx.consistent(system, [0.0]))
    assert "changes with time" in small.warning and "hx.floquet" in small.warning


@pytest.mark.slow
def test_the_gradient_of_a_steady_motion_s_frequency():
    # of the disc's wobble with its weight: g enters as -g / (1.25 r)
    system, start = rolling_disc(2.0)

    def square(scale):
        gravity = lambda s: s.bodies.gravity  # noqa: E731
        changed = eqx.tree_at(gravity, system, tuple(scale * x for x in system.bodies.gravity))
        values = hx.linearize(changed, start).eigenvalues()
        return values[0].imag ** 2

    value, slope = jax.value_and_grad(square)(1.0)
    np.testing.assert_allclose(value, upright(2.0), rtol=1e-9)
    np.testing.assert_allclose(slope, -G / (1.25 * 0.5), rtol=1e-8)
