"""A start is what was described, or says that it is not."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx


def slider_crank(**crank):
    """A crank of 0.2 m upright, a rod of 0.5 m, a slider of 3 kg."""
    pin, end = (0.0, 0.2), (0.2 * 21**0.5 / 2, 0.0)
    model = hx.Model()
    model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.0, 0.1), angle=np.pi / 2, **crank)
    model.planar_body(
        "rod", hx.rod(0.5, mass=2.0), position=(end[0] / 2, 0.1), angle=-np.arcsin(0.4)
    )
    model.planar_body("slider", 3.0, 0.1, position=end)
    model.revolute("shaft", "ground", "crank", at=(0.0, 0.0))
    model.revolute("pin", "crank", "rod", at=pin)
    model.revolute("wrist", "rod", "slider", at=end)
    model.prismatic("guide", "ground", "slider", at=end, axis=(1.0, 0.0))
    return model


def test_one_velocity_that_was_given_is_kept_and_the_rest_follows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        system, start = slider_crank(angular_velocity=10.0).build()
    names = system.velocity_names(9)
    speed = dict(zip(names, start.v, strict=True))
    assert speed["crank.angle"] == 10.0
    np.testing.assert_allclose(speed["slider.x"], -2.0, rtol=1e-12)  # the crank is upright
    np.testing.assert_allclose(speed["crank.x"], -1.0, rtol=1e-12)
    assert np.abs(system.constraint_rate(start.q, start.v, 0.0)).max() < 1e-13
    assert start.moved == ()


def test_as_many_velocities_as_there_are_freedoms_are_kept():
    model = hx.Model()
    model.planar_body("upper", hx.rod(1.0, mass=1.0), position=(0.5, 0.0), angular_velocity=3.0)
    model.planar_body("lower", hx.rod(1.0, mass=1.0), position=(1.5, 0.0), angular_velocity=-2.0)
    model.revolute("pivot", "ground", "upper", at=(0.0, 0.0))
    model.revolute("elbow", "upper", "lower", at=(1.0, 0.0))
    system, start = model.build()
    speed = dict(zip(system.velocity_names(6), start.v, strict=True))
    assert (speed["upper.angle"], speed["lower.angle"]) == (3.0, -2.0)
    np.testing.assert_allclose([speed["upper.y"], speed["lower.y"]], [1.5, 2.0], rtol=1e-12)


def test_a_spatial_crank_keeps_its_angular_velocity():
    model = hx.Model()
    turned = (0.3, -0.2, 0.5)
    model.body("crank", 1.0, (0.1, 0.2, 0.3), rotation=turned, angular_velocity=(6.0, 0.0, 0.0))
    model.body("weight", 50.0, (1.0, 1.0, 1.0), position=(0.0, 0.0, 1.0))
    model.revolute("shaft", "ground", "crank", at=(0, 0, 0), axis=(1, 0, 0))
    model.fixed("weld", "crank", "weight", at=(0, 0, 1))
    run = model.simulate(1e-3, dt=1e-3)
    np.testing.assert_allclose(run["crank"].angular_velocity[0], [6.0, 0.0, 0.0], atol=1e-12)


def test_a_start_that_cannot_move_as_described_warns_by_name():
    model = slider_crank(angular_velocity=10.0, velocity=(3.0, 0.0))  # it would be -1 m/s
    with pytest.warns(hx.StartWarning, match=r"crank\.angle at .* rad/s, not 10.*hold_velocity=\["):
        _, start = model.build()
    assert len(start.moved) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        system, start = model.build(hold_velocity=["crank.angle"])
    assert start.v[system.velocity_names(9).index("crank.angle")] == 10.0


def test_a_driver_that_turns_otherwise_warns():
    model = slider_crank(angular_velocity=10.0)
    model.drive_angle("motor", joint="shaft", angle=lambda t: 4.0 * t)
    with pytest.warns(hx.StartWarning, match=r"crank\.angle at 4 rad/s, not 10"):
        model.build()


def test_a_velocity_that_only_a_dead_centre_forbids_warns():
    # both in line: the slider stands still whatever the crank does
    model = hx.Model()
    model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.1, 0.0))
    model.planar_body("rod", hx.rod(0.5, mass=2.0), position=(0.45, 0.0))
    model.planar_body("slider", 3.0, 0.1, position=(0.7, 0.0), velocity=(1.0, 0.0))
    model.revolute("shaft", "ground", "crank", at=(0.0, 0.0))
    model.revolute("pin", "crank", "rod", at=(0.2, 0.0))
    model.revolute("wrist", "rod", "slider", at=(0.7, 0.0))
    model.prismatic("guide", "ground", "slider", at=(0.7, 0.0), axis=(1.0, 0.0))
    with pytest.warns(hx.StartWarning, match=r"slider\.x at .*, not 1"):
        _, start = model.build()
    assert np.abs(start.v).max() < 1e-9


def test_functions_keep_a_given_velocity_too():
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([1.0, 100.0]),
        force=lambda q, v, t, p: jnp.zeros(2),
        constraint=lambda q, t, p: jnp.array([q[0] - 2 * q[1]]),
    )
    np.testing.assert_allclose(hx.consistent(system, [0, 0], [4.0, 0]).v, [4, 2], rtol=1e-14)
    with pytest.warns(hx.StartWarning, match="does not move as described"):
        hx.consistent(system, [0, 0], [4.0, -7.0])


def test_velocities_that_fit_to_a_few_digits_are_made_consistent_to_rounding():
    system, start = slider_crank(angular_velocity=10.0).build()
    rough = np.where(np.abs(start.v) > 1e-9, start.v, 0.0) * (1 + 1e-9 * np.arange(9))
    near = hx.consistent(system, start.q, rough)
    assert np.abs(system.constraint_rate(near.q, near.v, 0.0)).max() < 1e-13
    np.testing.assert_allclose(near.v, start.v, atol=1e-6)


def test_positions_far_from_the_description_warn():
    def four_bar(coupler):
        model = hx.Model()
        model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.0, 0.1), angle=np.pi / 2)
        model.planar_body("coupler", hx.rod(0.5, mass=1.0), position=coupler, angle=0.2)
        model.planar_body("rocker", hx.rod(0.4, mass=1.0), position=(0.55, 0.15), angle=1.8)
        model.revolute("A", "ground", "crank", at_a=(0, 0), at_b=(-0.1, 0))
        model.revolute("B", "crank", "coupler", at_a=(0.1, 0), at_b=(-0.25, 0))
        model.revolute("C", "coupler", "rocker", at_a=(0.25, 0), at_b=(0.2, 0))
        model.revolute("D", "ground", "rocker", at_a=(0.6, 0), at_b=(-0.2, 0))
        return model

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        four_bar((0.25, 0.25)).build()  # roughly where it belongs
    with pytest.warns(hx.StartWarning, match=r"moved coupler\.[xy] by .* m.*hold=\["):
        _, start = four_bar((0.8, 0.8)).build()
    assert "far from where it was described" in start.moved[0]
