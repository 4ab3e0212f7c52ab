"""Beam elements of order two and three, and cables: exact where they must be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import holonax as hx
from holonax.rotation import Axes3, Vec3
from holonax.rotation.screw import screw_motion
from holonax.system.beam import BeamElement
from holonax.system.beam_places import LOBATTO
from holonax.system.beam_tangent import beam_stiffness
from holonax.system.cable import CableElement
from holonax.system.frames import Frame
from rods import clamped_rod

SECTION = hx.Section(
    EA=2.8e6, GA=(6.4e5, 9.0e5), GJ=3.1, EI=(36.0, 2.4), mass=0.2, inertia=(2e-6, 1e-6, 1e-6)
)
LENGTH = 0.5


def moved(frame, d, R):
    """The frame after a rigid motion."""
    turn = lambda x: R @ x  # noqa: E731
    return Frame(
        d + R @ frame.r, Axes3(*map(turn, (frame.A.x, frame.A.y, frame.A.z))), frame.v, frame.w
    )


def motion(rng, size, n=1):
    return screw_motion(
        Vec3(*rng.standard_normal((3, n))), Vec3(*(size * rng.standard_normal((3, n))))
    )


def element_of(order, rng, n=1):
    """An element that is curved at rest, in a configuration that strains it."""
    K = rng.standard_normal((n, 6, 6))
    C = K @ np.swapaxes(K, 1, 2) + np.eye(6)
    length = np.full(n, 0.3)
    rest = (
        Vec3(length, 0 * length, 0 * length),
        Vec3(0.1 + 0 * length, -0.2 + 0 * length, 0.3 + 0 * length),
    )
    return BeamElement(length, rest, (C,) * order, None, order=order)


def nodes_at_rest(element):
    u, phi = element.rest
    nodes = []
    for s in LOBATTO[element.order][0]:
        d, R = screw_motion(u * s, phi * s)
        nodes.append(Frame(d, R, u * 0.0, u * 0.0))
    return nodes


@pytest.mark.parametrize("order", [1, 2, 3])
def test_rigid_motions_do_not_strain_and_strains_are_those_of_every_observer(order):
    rng = np.random.default_rng(order)
    element = element_of(order, rng)
    at_rest = nodes_at_rest(element)
    bent = [moved(x, *motion(rng, 0.1)) for x in at_rest]
    strain = np.array(element.strain(*bent))
    assert np.abs(strain).max() > 0.1
    for size in (0.0, 1.0, 2.0):
        d, R = motion(rng, size)
        assert_allclose(element.strain(*(moved(x, d, R) for x in at_rest)), 0, atol=1e-13)
        assert_allclose(element.strain(*(moved(x, d, R) for x in bent)), strain, atol=2e-12)


@pytest.mark.parametrize("order", [2, 3])
def test_a_uniform_strain_is_uniform_at_every_order(order):
    element = element_of(order, np.random.default_rng(0))
    whole = np.array([0.35, 0.02, -0.03, 0.4, -0.5, 0.6])
    nodes = []
    for s in LOBATTO[order][0]:
        d, R = screw_motion(*(Vec3(*(s * x[:, None])) for x in (whole[:3], whole[3:])))
        nodes.append(Frame(d, R, d * 0.0, d * 0.0))
    rest = np.array([0.3, 0, 0, 0.1, -0.2, 0.3])
    expected = np.tile((whole - rest) / 0.3, order)
    assert_allclose(np.array(element.strain(*nodes))[:, 0], expected, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 3])
def test_forces_are_the_slope_of_the_energy_and_the_stiffness_that_of_the_forces(order):
    rng = np.random.default_rng(order)
    element = element_of(order, rng, 2)
    nodes = [moved(x, *motion(rng, 0.1, 2)) for x in nodes_at_rest(element)]

    def shifted(d):  # by increments (nodes, 6, elements), to first order
        out = []
        for x, y in zip(nodes, d, strict=True):
            spun = x.A.spun(Vec3(*y[3:]))
            axes = (
                a + b for a, b in zip((x.A.x, x.A.y, x.A.z), (spun.x, spun.y, spun.z), strict=True)
            )
            out.append(Frame(x.r + Vec3(*y[:3]), Axes3(*axes), x.v, x.w))
        return out

    def pulled(d):
        found = element.wrenches(*shifted(d), t=0.0)
        return -jnp.stack([jnp.stack([*force, *torque]) for force, torque in found])

    nothing = jnp.zeros((order + 1, 6, 2))
    energy = lambda d: jnp.sum(element.potential(*shifted(d)))  # noqa: E731
    forces, slope = jax.jit(lambda d: (pulled(d), jax.grad(energy)(d)))(nothing)
    assert_allclose(forces, slope, atol=1e-12 * np.abs(slope).max())
    exact = np.asarray(jax.jit(jax.jacfwd(pulled))(nothing))
    K = beam_stiffness(2, element, nodes)
    for i in range(order + 1):
        for j in range(order + 1):
            for k in range(2):
                off = exact[i, :, k, j, :, k] - np.asarray(K[i][j])[:, :, k]
                assert np.abs(off).max() < 1e-12 * np.abs(exact).max()


def tip(order, elements, force, torque):
    model = hx.Model(gravity=(0, 0, 0))
    model.beam("beam", (0, 0, 0), (LENGTH, 0, 0), section=SECTION, elements=elements, order=order)
    model.fixed("root", "ground", "beam.start")
    model.force("load", "beam.end", force=force)
    model.torque("moment", "beam.end", torque=torque)
    rest = model.equilibrium()
    assert rest.success, rest.message
    return rest


@pytest.mark.slow
@pytest.mark.parametrize(("order", "elements"), [(2, (4, 8)), (3, (3, 6))])
def test_the_error_at_the_tip_falls_with_the_power_two_p(order, elements):
    force, torque = np.array([-8.0, 15.0, -50.0]), np.array([3.0, -4.0, 2.0])
    exact, _ = clamped_rod(SECTION, LENGTH, force, torque)
    errors = [
        np.abs(np.asarray(tip(order, n, force, torque)["beam.end"].position) - exact).max()
        for n in elements
    ]
    rate = np.log2(errors[0] / errors[1])
    assert errors[1] < {2: 1e-5, 3: 1e-6}[order] and rate > 2 * order - 0.7, (errors, rate)


@pytest.mark.slow
def test_a_circle_is_exact_at_every_order():
    moment = 2 * np.pi * 2.4 / LENGTH
    rest = tip(3, 2, (0, 0, 0), (0, 0, moment))
    assert_allclose(rest["beam.end"].position, 0, atol=1e-11)
    found = rest.beam("beam")
    assert found.section_force.shape == (6, 6)
    assert_allclose(found.section_force[:, 5], moment, rtol=1e-9)
    position, _ = found.at(0.3)
    radius, angle = 2.4 / moment, 0.6 * np.pi
    assert_allclose(position, [radius * np.sin(angle), radius * (1 - np.cos(angle)), 0], atol=1e-11)


# -- cables ----------------------------------------------------------------------------------------


def test_a_cable_pulls_along_its_line_and_does_not_push():
    element = CableElement(np.array([2.0]), np.array([100.0]), np.array([0.1]))

    def node(x, v=0.0):
        zero = np.zeros(1)
        axes = Axes3(*(Vec3(*row) for row in np.eye(3)[:, :, None]))
        return Frame(
            Vec3(x * 0.6 + zero, x * 0.8 + zero, zero),
            axes,
            Vec3(0.6 * v + zero, 0.8 * v + zero, zero),
            Vec3(zero, zero, zero),
        )

    (force, torque), (back, _) = element.wrenches(node(0.0), node(2.5, 1.0), t=0.0)
    pull = 100 * (0.25 + 0.1 * 1.0 / 2)
    assert_allclose(np.ravel([*force]), [0.6 * pull, 0.8 * pull, 0], rtol=1e-14)
    assert_allclose(np.ravel([*back]), -np.ravel([*force]))
    assert_allclose(np.ravel([*torque]), 0)
    assert_allclose(element.potential(node(0.0), node(2.5)), 100 * 2 * 0.25**2 / 2)
    for slack in (1.9, 1e-12, 0.0):
        for load, _ in element.wrenches(node(0.0), node(slack), t=0.0):
            assert_allclose(np.ravel([*load]), 0)
        assert element.potential(node(0.0), node(slack)) == 0
    # approaching so fast that the damper would push
    assert_allclose(element.section_force(node(0.0), node(2.1, -9.0))[0], 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"EA": 0.0}, ["element 0", "EA=0.0"]),
        ({"mass": -1.0}, ["element 0", "mass=-1.0"]),
        ({"to": (0, 0, 0)}, ["same point", "element 0"]),
        ({"length": 0.0}, ["length=0.0"]),
        ({"elements": 0}, ["elements=0"]),
        ({"damping": -1.0}, ["damping=-1.0"]),
    ],
)
def test_what_is_wrong_with_a_cable_is_said_by_its_name(options, words):
    given = {"to": (1, 0, 0), "EA": 1.0, "mass": 1.0, **options}
    with pytest.raises(hx.ModelError) as error:
        hx.Model().cable("line", (0, 0, 0), given.pop("to"), **given)
    for word in ("cable 'line'", *words):
        assert word in str(error.value)
