"""Derivatives of equilibria, vibrations and periodic motions by the names of parameters, against
closed forms, central differences and SciPy."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipk

import holonax as hx
from holonax.compiler import counts
from mechanisms import spring_four_bar
from test_redundant import door

G = 9.81
STEP = 1e-5  # of central differences, relative: they are off by some 1e-10 and rounding / STEP


def differences(system, rest, name, of):
    """d of(system, equilibrium) / d name by central differences, the parameter's axes last."""
    base = np.array(system.parameters()[name], dtype=float)
    columns = []
    for k in range(base.size):
        step = np.zeros(base.size)
        step[k] = STEP * max(1.0, abs(base.ravel()[k]))
        ends = []
        for sign in (1, -1):
            moved = system.with_parameters({name: base + sign * step.reshape(base.shape)})
            found = hx.equilibrium(moved, rest)
            assert found.success
            ends.append(np.asarray(of(moved, found)))
        columns.append((ends[0] - ends[1]) / (2 * step[k]))
    return np.stack(columns, axis=-1).reshape((*columns[0].shape, *base.shape))


def assert_close(found, expected):
    scale = max(np.max(np.abs(expected)), 1e-3)
    np.testing.assert_allclose(found, expected, atol=1e-6 * scale)


@cache
def sprung_rod():
    model = hx.Model()
    model.planar_body("rod", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
    model.revolute("hinge", "ground", "rod", at=(0.0, 0.0))
    model.torsion_spring("spring", joint="hinge", stiffness=6.0, damping=0.2)
    system, start = model.build()
    return system, hx.equilibrium(system, start)


def test_a_quantity_is_compiled_once():
    _, rest = sprung_rod()
    change = rest.sensitivity(["spring.stiffness", "rod.mass"])
    first = change.quantity("rod.position.x")
    before = counts.traced, counts.so_far[0]
    again = rest.sensitivity(["spring.stiffness", "rod.mass"]).quantity("rod.position.x")
    assert (counts.traced, counts.so_far[0]) == before
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value)
    # x = l/2 cos a
    a = float(rest["rod"].angle)
    for name, value in change.quantity("rod.angle").items():
        np.testing.assert_allclose(first[name], -0.5 * np.sin(a) * value, rtol=1e-12)


def test_a_rod_on_a_spring_sinks_as_its_balance_says():
    """k a + m g l/2 cos a = 0, and the frequency of (k - m g l/2 sin a) / (m l^2/3)."""
    system, rest = sprung_rod()
    a, k, inertia, c = float(rest["rod"].angle), 6.0, 1.0 / 3, 0.2
    stiff = k - G / 2 * np.sin(a)
    change = rest.sensitivity(["spring.stiffness", "rod.mass"])
    by_k, by_m = -a / stiff, -G / 2 * np.cos(a) / stiff
    angle = change.quantity("rod.angle")
    np.testing.assert_allclose(angle["spring.stiffness"], by_k, rtol=1e-10)
    np.testing.assert_allclose(angle["rod.mass"], by_m, rtol=1e-10)
    np.testing.assert_allclose(change.q["rod.mass"][2], by_m, rtol=1e-10)
    assert "spring.stiffness" in str(change) and "rod.angle" in str(change)
    small = hx.linearize(system, rest).sensitivity(["spring.stiffness", "spring.damping"])
    # s^2 inertia + s c + stiff = 0
    s = complex(hx.linearize(system, rest).modes().eigenvalues[0])
    by = -1 / (2 * s * inertia + c)
    stiffening = 1 - G / 2 * np.cos(a) * by_k
    np.testing.assert_allclose(small.eigenvalues["spring.stiffness"], [by * stiffening], rtol=1e-9)
    np.testing.assert_allclose(small.eigenvalues["spring.damping"], [by * s], rtol=1e-9)
    ratio = 1 / (2 * np.sqrt(stiff * inertia))
    np.testing.assert_allclose(small.damping_ratio["spring.damping"], [ratio], rtol=1e-9)
    frequency = small.frequency["spring.stiffness"]
    np.testing.assert_allclose(frequency, [(by * stiffening).imag / (2 * np.pi)], rtol=1e-9)
    assert "mode 1" in str(small)


@pytest.mark.slow
def test_a_closed_loop_is_as_differences_say():
    """Lengths, masses and springs of a four-bar move its equilibrium, its forces and frequency."""
    system, start = spring_four_bar()
    rest = hx.equilibrium(system, start)
    names = ["spring.stiffness", "coupler.mass", "A.at_a", "spring.length"]
    change = rest.sensitivity(names)
    vibration = hx.linearize(system, rest).sensitivity(names)
    modes = lambda s, r: hx.linearize(s, r).modes().eigenvalues  # noqa: E731
    for name in names:
        assert_close(change.q[name], differences(system, rest, name, lambda s, r: r.q))
        assert_close(change.lam[name], differences(system, rest, name, lambda s, r: r.lam))
        assert_close(vibration.eigenvalues[name], differences(system, rest, name, modes))
    assert change.q["A.at_a"].shape == (9, 2)


@pytest.mark.slow
def test_redundant_constraints_in_space():
    """A door on two hinges: multipliers of least norm, and a rotation by quaternions."""
    system, start = door([-0.7, 0.8])
    rest = hx.equilibrium(system, start, method="relaxation")
    names = ["door.mass", "gravity"]
    change = rest.sensitivity(names)
    vibration = hx.linearize(system, rest).sensitivity(names)
    modes = lambda s, r: hx.linearize(s, r).modes().eigenvalues  # noqa: E731
    for name in names:
        assert_close(change.q[name], differences(system, rest, name, lambda s, r: r.q))
        assert_close(change.lam[name], differences(system, rest, name, lambda s, r: r.lam))
        assert_close(vibration.eigenvalues[name], differences(system, rest, name, modes))


@pytest.mark.slow
def test_multipliers_of_least_norm_stay_so():
    """A slider on two sloping rails that are one; a turned body between them loads both."""
    model = hx.Model()
    model.planar_body("slider", 2.0, 0.1, position=(0.3, 0.1), angle=0.2)
    for k, at in enumerate(((0.1, 0.0), (0.5, 0.2))):
        model.prismatic(f"rail {k}", "ground", "slider", at=at, axis=(2.0, 1.0))
    model.spring_damper("spring", "ground", "slider", stiffness=90.0, length=0.1)
    system, start = model.build()
    assert start.redundant
    rest = hx.equilibrium(system, start)
    change = rest.sensitivity(["gravity", "spring.stiffness"])
    for name in change.q:
        assert_close(change.q[name], differences(system, rest, name, lambda s, r: r.q))
        assert_close(change.lam[name], differences(system, rest, name, lambda s, r: r.lam))
    twice = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2),
        force=lambda q, v, t, p: -q,
        constraint=lambda q, t, p: jnp.stack([q[0] - p["a"], 2 * (q[0] - p["b"])]),
        parameters={"a": 1.0, "b": 1.0},
    )
    with pytest.raises(ValueError, match=r"with another a the mechanism does not fit together"):
        hx.equilibrium(twice, hx.consistent(twice, [1.0, 0.3])).sensitivity("a")


@pytest.mark.slow
def test_what_meets_no_resistance_moves_least_or_is_refused():
    """A cart that may be anywhere, with a pendulum: mass leaves it there, a slope would not."""
    model = hx.Model()
    model.planar_body("cart", 2.0, 1.0)
    model.planar_body("bob", 0.5, 0.02, position=(0.0, -0.4))
    model.prismatic("rail", "ground", "cart", at=(0.0, 0.0), axis=(1.0, 0.0))
    model.revolute("hinge", "cart", "bob", at=(0.0, 0.0))
    system, start = model.build()
    rest = hx.equilibrium(system, start)
    change = rest.sensitivity("bob.mass")
    np.testing.assert_allclose(change.q["bob.mass"], 0.0, atol=1e-12)
    small = hx.linearize(system, rest)
    found = small.sensitivity(["cart.mass"]).frequency["cart.mass"]
    both, about = 2.0 + 0.5, 0.02 + 0.5 * 0.4**2
    top, bottom = 0.5 * G * 0.4 * both, about * both - (0.5 * 0.4) ** 2  # of omega^2
    squared = 0.5 * G * 0.4 / bottom - top * about / bottom**2
    np.testing.assert_allclose(found[0], squared / (4 * np.pi * np.sqrt(top / bottom)), rtol=1e-9)
    assert np.all(np.isnan(found[1:]))  # of the cart's place and speed: zero twice
    with pytest.raises(ValueError, match=r"another gravity\[0\] there is no equil.*cart\.x"):
        rest.sensitivity("gravity")


def test_a_skate_on_a_spring():
    """Non-holonomic: what a spring along its edge does, and a load that the edge takes up."""
    model = hx.Model(gravity=(0.0, 0.0))
    model.planar_body("skate", 2.0, 0.3, position=(1.0, 0.0))
    model.knife_edge("edge", "skate", at=(0.0, 0.0), direction=(1.0, 0.0))
    model.spring_damper("rope", "ground", "skate", stiffness=30.0, length=0.5)
    model.torsion_spring("coil", "ground", "skate", stiffness=4.0)
    model.force("wind", "skate", force=(5.0, 2.0))
    system, start = model.build()
    rest = hx.equilibrium(system, start)
    change = rest.sensitivity(["rope.stiffness", "wind.force"])
    for name in change.q:
        assert_close(change.q[name], differences(system, rest, name, lambda s, r: r.q))
        assert_close(change.lam[name], differences(system, rest, name, lambda s, r: r.lam))


# -- motions that repeat ---------------------------------------------------------------------


def of_van_der_pol(mu):
    """Period and amplitude of its limit cycle, by SciPy."""
    turn = lambda t, y: y[1]  # noqa: E731
    turn.direction = -1
    run = solve_ivp(
        lambda t, y: [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]],
        (0, 60),
        [2.0, 0.0],
        method="DOP853",
        rtol=1e-12,
        atol=1e-12,
        events=turn,
    )
    return run.t_events[0][-1] - run.t_events[0][-2], run.y_events[0][-1][0]


@pytest.mark.slow
def test_a_limit_cycle_has_a_period_of_its_own():
    period, amplitude = of_van_der_pol(1.0)
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1),
        force=lambda q, v, t, p: p["mu"] * (1 - q**2) * v - q,
        parameters={"mu": 1.0},
    )
    orbit = hx.floquet(system, hx.consistent(system, [amplitude]), period)
    change = orbit.sensitivity("mu")
    near = [np.array(of_van_der_pol(1.0 + h)) for h in (1e-3, -1e-3)]
    slopes = (near[0] - near[1]) / 2e-3  # off by some 1e-6 / 6 of the third derivative
    assert change.free and "period" in str(change)
    np.testing.assert_allclose(change.period["mu"], slopes[0], rtol=1e-5)
    np.testing.assert_allclose(change.q["mu"], [slopes[1]], rtol=1e-4)


def test_a_driven_oscillator_answers_as_its_transfer_function():
    """m q'' + c q' + k q = F cos w t: q = Re F / (k - m w^2 + i c w) exp(i w t)."""
    values = {"m": 1.3, "c": 0.4, "k": 7.0, "F": 2.0, "w": 3.1}
    system = hx.FunctionSystem(
        mass=lambda q, p: p["m"] * jnp.ones(1),
        force=lambda q, v, t, p: -p["c"] * v - p["k"] * q + p["F"] * jnp.cos(p["w"] * t),
        parameters=values,
    )
    state = lambda m, c, k, F, w: F / (k - m * w**2 + 1j * c * w) * np.array([1.0, 1j * w])  # noqa: E731
    period = 2 * np.pi / values["w"]
    first = state(**values).real
    orbit = hx.floquet(system, hx.consistent(system, first[:1], first[1:]), period)
    change = orbit.sensitivity(list(values), periods={"w": -period / values["w"]})
    assert not change.free
    for name, x in values.items():
        near = [state(**{**values, name: x + h}).real for h in (1e-6, -1e-6)]
        slope = (near[0] - near[1]) / 2e-6
        found = np.concatenate([change.q[name], change.v[name]])
        np.testing.assert_allclose(found, slope, atol=1e-6)
    assert change.period["w"] == -period / values["w"] and change.period["k"] == 0


@pytest.mark.slow
def test_a_pendulum_keeps_its_swing_and_changes_its_period():
    """T = 4 sqrt(l / g) K(sin(a/2)): conservative motions come in families, and the one that begins
    in the same place is the nearest."""
    angle, length = 1.0, 0.7
    model = hx.Model()
    at = (length * np.sin(angle), -length * np.cos(angle))
    model.planar_body("bob", hx.point_mass(0.5), position=at)
    model.distance("rope", "ground", "bob", at_a=(0.0, 0.0), at_b=(0.0, 0.0), length=length)
    system, start = model.build()
    period = 4 * np.sqrt(length / G) * ellipk(np.sin(angle / 2) ** 2)
    orbit = hx.floquet(system, start, period)
    change = orbit.sensitivity(["gravity", "rope.length", "bob.mass"])
    # along y, downwards; a slope turns the swing, so that the angle changes as well
    np.testing.assert_allclose(change.period["gravity"][1], period / (2 * G), rtol=1e-5)
    np.testing.assert_allclose(change.q["gravity"][:2, 1], 0.0, atol=1e-6)
    # the shortest way onto a longer rope is along it
    np.testing.assert_allclose(change.period["rope.length"], period / (2 * length), rtol=1e-5)
    np.testing.assert_allclose(change.q["rope.length"][:2], np.array(at) / length, atol=1e-6)
    np.testing.assert_allclose(change.period["bob.mass"], 0.0, atol=1e-7)


# -- what is refused -------------------------------------------------------------------------


def test_bad_questions_are_refused():
    system, rest = sprung_rod()
    with pytest.raises(KeyError, match=r"sensitivity: parameters=.* names 'rod\.color'"):
        rest.sensitivity("rod.color")
    with pytest.raises(KeyError, match="names nothing"):
        rest.sensitivity([])
    with pytest.raises(TypeError, match="sensitivity: parameters has the entry 3"):
        rest.sensitivity([3])
    with pytest.raises(KeyError, match=r"rod\.angel"):
        rest.sensitivity("rod.mass").quantity("rod.angel")
    small = hx.linearize(system, hx.consistent(system, np.asarray([0.5, 0.0, 0.0])))
    with pytest.raises(ValueError, match="sensitivity: the state is no equilibrium"):
        small.sensitivity("rod.mass")
    spring = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1),
        force=lambda q, v, t, p: -q - p["c"] * v,
        parameters={"c": 0.0},
    )
    orbit = hx.floquet(spring, hx.consistent(spring, [1.0]), 2 * np.pi)
    with pytest.raises(ValueError, match="with another c no motion near this one repeats"):
        orbit.sensitivity("c")
    with pytest.raises(ValueError, match=r"sensitivity: periods=3"):
        orbit.sensitivity("c", periods=3)
