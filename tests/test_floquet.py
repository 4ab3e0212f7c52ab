"""Motions that repeat: Floquet multipliers against SciPy, closed forms and differences of runs."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from scipy.integrate import solve_ivp

import holonax as hx
from test_steady import rolling_disc, rotor

G = 9.81
# P settles to 1e-8 of its size, and the motion is followed at a tolerance of 1e-10.
CLOSE = 1e-7


def of_scipy(A, period, n):
    """Multipliers of x' = A(t) x."""
    columns = [
        solve_ivp(lambda t, x: A(t) @ x, (0, period), e, method="DOP853", rtol=1e-12, atol=1e-13).y[
            :, -1
        ]
        for e in np.eye(n)
    ]
    return np.linalg.eigvals(np.stack(columns, axis=1))


def assert_same(found, expected):
    for x in expected:
        assert np.min(np.abs(found - x)) < CLOSE * max(1.0, np.max(np.abs(expected)))


def shaken_pendulum(amplitude, rate, *, upright, damping=0.0, length=0.4):
    """A pendulum, a point for its bob, whose hinge is driven up and down."""
    model = hx.Model()
    side = 1.0 if upright else -1.0
    lift = lambda t: amplitude * jnp.sin(rate * t)  # noqa: E731
    up = amplitude * rate
    model.planar_body("shaker", 1.0, 1.0, velocity=(0.0, up))
    model.planar_body("bob", 0.5, 1e-9, position=(0.0, side * length), velocity=(0.0, up))
    model.prismatic("guide", "ground", "shaker", at=(0.0, 0.0), axis=(0.0, 1.0))
    model.drive_coordinate("motor", "shaker", "y", value=lift)
    model.revolute("hinge", "shaker", "bob", at=(0.0, 0.0))
    if damping:
        model.joint_damping("oil", "hinge", damping)
    return model.build()


@pytest.mark.parametrize(
    ("amplitude", "rate", "upright", "stable"),
    [
        pytest.param(0.02, 9.0, False, True, marks=pytest.mark.slow),
        # twice its own frequency: it is shaken up
        pytest.param(0.1, 9.9, False, False, marks=pytest.mark.slow),
        (0.05, 90.0, True, True),  # Kapitza's pendulum stands
        pytest.param(0.05, 30.0, True, False, marks=pytest.mark.slow),
    ],
)
def test_a_shaken_pendulum_has_the_multipliers_of_mathieu(amplitude, rate, upright, stable):
    length, damping, period = 0.4, 0.004, 2 * np.pi / rate
    built = shaken_pendulum(amplitude, rate, upright=upright, damping=damping)
    found = hx.floquet(*built, period)
    side = -1.0 if upright else 1.0

    def A(t):
        weight = G - amplitude * rate**2 * np.sin(rate * t)
        return np.array([[0, 1], [-side * weight / length, -damping / (0.5 * length**2)]])

    assert_same(found.multipliers, of_scipy(A, period, 2))
    assert bool(np.any(found.unstable)) != stable
    assert ("unstable" in str(found)) != stable
    np.testing.assert_allclose(
        np.prod(found.multipliers).real, np.exp(-damping * period / (0.5 * length**2)), rtol=1e-6
    )


def test_an_equation_of_hill_given_by_a_function():
    stiffness = lambda t: 4.0 + 3.0 * jnp.cos(2.0 * t)  # noqa: E731
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: -stiffness(t) * q
    )
    found = hx.floquet(system, hx.consistent(system, [0.0]), np.pi)
    A = lambda t: np.array([[0.0, 1.0], [-float(stiffness(t)), 0.0]])  # noqa: E731
    assert_same(found.multipliers, of_scipy(A, np.pi, 2))


@cache
def driven_linkage():
    """A slider-crank, turned at an even rate, with a damped pendulum on its slider."""
    pin, end = (0.0, 0.2), (0.2 * 21**0.5 / 2, 0.0)
    model = hx.Model()
    model.planar_body(
        "crank", hx.rod(0.2, mass=1.0), position=(0.0, 0.1), angle=np.pi / 2, angular_velocity=4.0
    )
    model.planar_body(
        "rod", hx.rod(0.5, mass=2.0), position=(end[0] / 2, 0.1), angle=-np.arcsin(0.4)
    )
    model.planar_body("slider", 3.0, 0.1, position=end)
    model.planar_body("bob", 1.0, 0.02, position=(end[0], -0.3))
    model.revolute("shaft", "ground", "crank", at=(0.0, 0.0))
    model.revolute("pin", "crank", "rod", at=pin)
    model.revolute("wrist", "rod", "slider", at=end)
    model.prismatic("guide", "ground", "slider", at=end, axis=(1.0, 0.0))
    model.revolute("hinge", "slider", "bob", at=end)
    model.joint_damping("oil", "hinge", 0.05)
    model.drive_angle("motor", joint="shaft", angle=lambda t: 4.0 * t)
    return model.build()


@pytest.mark.slow
def test_a_driven_linkage_is_brought_to_its_periodic_motion():
    system, start = driven_linkage()
    period = 2 * np.pi / 4.0
    with pytest.raises(ValueError, match=r"floquet: the motion does not repeat.*find=True"):
        hx.floquet(system, start, period)
    found = hx.floquet(system, start, period, find=True)
    assert found.error < 1e-6
    # Liouville: damping over the inertia about the hinge, whose product is the determinant
    np.testing.assert_allclose(
        np.prod(found.multipliers).real, np.exp(-0.05 * period / (0.02 + 0.09)), rtol=1e-6
    )
    # central differences of the period itself, in the same coordinates
    size, columns = 1e-5, []
    B, nv = found.basis, start.v.size
    for column in B.T:
        ends = []
        for sign in (size, -size):
            step = sign * column
            near = hx.consistent(
                system,
                system.retract(found.start.q, step[:nv]),
                found.start.v + step[nv:],
                hold=["crank"],
                hold_velocity=["crank"],
            )
            run = hx.simulate(system, near, period, rtol=1e-11, integrator=hx.Dop853(), save="end")
            ends.append(np.concatenate([run.q[-1], run.v[-1]]))
        columns.append((ends[0] - ends[1]) / (2 * size))
    P = np.linalg.lstsq(B, np.stack(columns, axis=1))[0]
    np.testing.assert_allclose(P, found.monodromy, atol=1e-5 * np.abs(P).max())


@pytest.mark.slow
def test_steady_motions_have_the_multipliers_of_their_eigenvalues():
    # of a disc that rolls straight, non-holonomic; after one turn of its own
    system, start = rolling_disc(2.0)
    period = 2 * np.pi * 0.5 / 2.0
    found = hx.floquet(system, start, period)
    values = np.linalg.eigvals(
        scipy.linalg.expm(np.asarray(hx.linearize(system, start).A) * period)
    )
    wobble = values[np.abs(values.imag) > 0.01]
    assert wobble.size == 2
    assert_same(found.multipliers, wobble)
    # the others are one, six of them on one chain or two: rounding to a root
    assert np.sum(np.abs(found.multipliers - 1) < 0.02) == 6


@pytest.mark.slow
def test_a_rotor_without_symmetry_in_unequal_bearings():
    # not steady in any frame, but it repeats after half a turn, and after a whole one
    spin, a, b, c, stiff = 60.0, 0.04, 0.06, 0.08, (300.0, 500.0)
    system, start = rotor(spin, inertia=(a, b, c), stiff=stiff)
    period = 2 * np.pi / spin
    found = hx.floquet(system, start, period)

    def A(t):
        """Tilts (x, y) in axes that turn with it, by Euler's equations; the bearings turn back."""
        cos, sin = np.cos(spin * t), np.sin(spin * t)
        R = np.array([[cos, -sin], [sin, cos]])
        K = R.T @ np.diag([2 * stiff[1] * 0.25**2, 2 * stiff[0] * 0.25**2]) @ R
        K += spin**2 * np.diag([c - b, c - a])
        gyro = spin * np.array([[0.0, c - a - b], [a + b - c, 0.0]])
        lower = np.linalg.solve(np.diag([a, b]), np.hstack([-K, -gyro]))
        return np.vstack([np.hstack([np.zeros((2, 2)), np.eye(2)]), lower])

    assert_same(found.multipliers, of_scipy(A, period, 4))


def test_bad_arguments_of_floquet_are_refused():
    system, start = driven_linkage()
    with pytest.raises(ValueError, match=r"floquet: period=-1\.0 is out of range"):
        hx.floquet(system, start, -1.0)
    with pytest.raises(TypeError, match="floquet: system is NoneType"):
        hx.floquet(None, start, 1.0)
