"""Quantities by name: closed forms, the same numbers by other ways, and events on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import counts
from sections import in_part

SPEED = 7.0  # [rad/s]


def crank(kind):
    """A crank that is driven at constant speed, in the plane or in space."""
    model = hx.Model()
    if kind == "planar":
        model.planar_body("crank", hx.rod(1.0, mass=2.0), position=(0.5, 0.0))
        model.revolute("A", "ground", "crank", at=(0.0, 0.0))
    else:
        solid = hx.cylinder(0.05, 1.0, axis="x", mass=2.0)
        model.body("crank", solid, position=(0.5, 0.0, 0.0))
        model.revolute("A", "ground", "crank", at=(0.0, 0.0, 0.0), axis=(0.0, 0.6, 0.8))
    model.drive_angle("motor", joint="A", angle=_steady)
    return model


def _steady(t):
    return SPEED * t


@pytest.fixture(scope="module", params=in_part(["planar", "spatial"], {"planar"}))
def driven(request):
    return crank(request.param).simulate(2.0, dt=0.01, save=101)


def test_angles_go_on_over_turns(driven):
    for name in ("A", "motor"):
        np.testing.assert_allclose(driven.joint(name).angle, SPEED * driven.t, atol=1e-9)
        np.testing.assert_allclose(driven.joint(name).rate, SPEED, atol=1e-9)


def test_angles_go_on_over_turns_between_sparse_states():
    """Here more than a turn apart: the rates say how many."""
    result = crank("spatial").simulate(6.0, dt=0.01, save=[0.0, 1.7, 3.1, 6.0])
    np.testing.assert_allclose(result.joint("A").angle, SPEED * result.t, atol=1e-8)


@pytest.mark.slow
def test_the_effort_of_a_driver_is_that_of_inverse_dynamics(driven):
    effort = np.asarray(hx.inverse_dynamics(driven.system, driven)["motor"])
    np.testing.assert_allclose(driven.joint("motor").effort, effort, atol=1e-8)
    np.testing.assert_array_equal(driven.quantity("motor.effort"), driven.joint("motor").effort)


def test_bodies_and_reactions_are_those_known_before(driven):
    motion, reaction = driven["crank"], driven.reaction("A")
    np.testing.assert_allclose(driven.quantity("crank.position"), motion.position, atol=1e-14)
    np.testing.assert_allclose(driven.quantity("crank.velocity.x"), motion.velocity[:, 0])
    np.testing.assert_allclose(driven.quantity("crank.y"), motion.position[:, 1], atol=1e-14)
    spin = driven.quantity("crank.angular_velocity")
    np.testing.assert_allclose(spin, motion.angular_velocity, atol=1e-12)
    np.testing.assert_array_equal(driven.joint("A").reaction.force, reaction.force)
    np.testing.assert_array_equal(driven.quantity("A.reaction.torque"), reaction.torque)
    np.testing.assert_array_equal(driven.body("crank").position, motion.position)
    np.testing.assert_array_equal(driven.quantity("energy.total"), driven.energy.total)


def test_every_name_has_a_value_and_a_unit(driven):
    for name, unit in driven.quantities().items():
        values = driven.quantity(name)
        assert len(values) == driven.t.size and np.all(np.isfinite(values)), name
        assert unit or name.startswith(("drift", "crank.quaternion"))


@pytest.fixture(scope="module", params=in_part(["planar", "spatial"], {"spatial"}))
def sprung(request):
    """A slider on a spring and a damper along its rail, its centre of mass off the origin."""
    model = hx.Model(gravity=(0.0, 0.0, 0.0))
    if request.param == "planar":
        model.planar_body("block", 2.0, 0.1, com=(0.1, 0.2), position=(1.0, 0.0), angle=0.3)
        at, end, axis = (1.0, 0.0), (0.0, 0.0), (1.0, 0.0)
    else:
        model.body("block", 2.0, (0.1, 0.2, 0.2), com=(0.1, 0.2, 0.0), position=(1.0, 0.0, 0.0))
        at, end, axis = (1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (1.0, 0.0, 0.0)
    model.prismatic("rail", "ground", "block", at=at, axis=axis)
    model.spring_damper("spring", "ground", "block", at=(end, at), stiffness=50.0, length=0.7)
    model.joint_damping("grease", "rail", 0.5)
    model.output("stretch", "block", _stretch, {"rest": 0.7}, unit="m")
    model.output("place", "block", lambda block, t: block.r, unit="m")
    return model.simulate(1.0, dt=1e-3)


def _stretch(block, t, parameters):
    return block.r.x - parameters["rest"]


def test_a_spring_has_length_force_and_power(sprung):
    x = sprung["block"].position[:, 0]
    spring = sprung.force("spring")
    np.testing.assert_allclose(spring.length, x, atol=1e-12)
    np.testing.assert_allclose(spring.rate, sprung["block"].velocity[:, 0], atol=1e-12)
    np.testing.assert_allclose(spring.force, -50.0 * (x - 0.7), atol=1e-11)
    np.testing.assert_allclose(spring.power, spring.force * spring.rate, atol=1e-12)
    np.testing.assert_allclose(sprung.joint("rail").slide, x - 1.0, atol=1e-12)


def test_the_power_of_a_damper_is_the_energy_lost(sprung):
    """By Simpson's rule over a thousand steps, which is exact to 1e-12 here."""
    from scipy.integrate import simpson

    grease = sprung.force("grease")
    speed = sprung.joint("rail").slide_rate
    np.testing.assert_allclose(grease.power, -0.5 * speed**2, atol=1e-13)
    np.testing.assert_allclose(grease.force[:, 0], -0.5 * speed, atol=1e-13)
    lost = sprung.energy.total[-1] - sprung.energy.total[0]
    assert simpson(grease.power, x=sprung.t) == pytest.approx(lost, abs=1e-9)


def test_outputs_are_functions_of_frames_with_parameters(sprung):
    position = sprung["block"].position
    np.testing.assert_allclose(sprung.quantity("stretch"), position[:, 0] - 0.7, atol=1e-14)
    np.testing.assert_allclose(sprung.quantity("place"), position, atol=1e-14)
    np.testing.assert_allclose(sprung.quantity("place.y"), position[:, 1], atol=1e-14)
    changed = sprung.system.with_parameters({"stretch.parameters.rest": np.asarray(0.5)})
    value = changed.quantity("stretch")(0.0, sprung.q[0], sprung.v[0])
    assert value == pytest.approx(0.5, abs=1e-14)


def test_looking_compiles_little(sprung):
    """One program for all forces, one for each output, none for bodies and joints."""
    before = len(counts.left_to_xla)
    for name in sprung.quantities():
        sprung.quantity(name)
    assert counts.left_to_xla[before:] == []


def test_other_numbers_are_seen(sprung):
    system = sprung.system.with_parameters({"spring.stiffness": np.asarray(10.0)})
    force = system.quantity("spring.force")(0.0, sprung.q[0], sprung.v[0])
    assert force == pytest.approx(-10.0 * 0.3, abs=1e-12)


def test_a_quantity_can_be_differentiated(sprung):
    force = sprung.system.quantity("spring.force")
    slope = jax.jit(jax.grad(lambda q: force(0.0, q, sprung.v[0])))(sprung.q[0])
    assert slope[0] == pytest.approx(-50.0, abs=1e-9)


def test_wrong_names_are_answered_with_right_ones(sprung):
    with pytest.raises(KeyError, match=r"Did you mean spring\.force"):
        sprung.quantity("spring.forse")
    with pytest.raises(AttributeError, match="joint 'rail' has no angle; it has slide, slide_rate"):
        _ = sprung.joint("rail").angle
    with pytest.raises(KeyError, match="no joint 'spring'"):
        sprung.joint("spring")
    with pytest.raises(KeyError, match="no force 'rail'; the forces are spring, grease"):
        sprung.force("rail")
    assert "slide" in repr(sprung.joint("rail")) and len(repr(sprung["block"])) < 140


def test_a_force_that_sees_reactions_has_quantities_too():
    """A block that is dragged over its rail: friction is mu times the weight."""
    model = hx.Model(gravity=(0.0, -10.0))
    model.planar_body("block", 2.0, 0.1, velocity=(3.0, 0.0))
    model.prismatic("rail", "ground", "block", at=(0.0, 0.0), axis=(1.0, 0.0))
    model.joint_friction("dry", "rail", coefficient=0.2, transition_speed=1e-3)
    result = model.simulate(0.5, dt=0.01)
    np.testing.assert_allclose(result.force("dry").force[:, 0], -0.2 * 20.0, rtol=1e-6)
    speed = result.joint("rail").slide_rate
    np.testing.assert_allclose(result.force("dry").power, -4.0 * speed, rtol=1e-6)
    with pytest.raises((KeyError, ValueError), match="depends on reactions"):
        model.simulate(0.1, dt=0.01, events=hx.Event("e", "dry.power"))


# -- events ------------------------------------------------------------------------------------


def pendulum(kind):
    model = hx.Model()
    if kind == "planar":
        model.planar_body("rod", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
        model.revolute("A", "ground", "rod", at=(0.0, 0.0))
        spin = ("rod", (0.0, 0.0))
    else:
        solid = hx.cylinder(0.01, 1.0, axis="x", mass=1.0)
        model.body("rod", solid, position=(0.5, 0.0, 0.0))
        model.revolute("A", "ground", "rod", at=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0))
        spin = ("rod", (0.0, 0.0, 0.0))
    model.output("tip", spin[0], lambda rod, t: rod.r.x)
    return model


@pytest.mark.parametrize("kind", in_part(["planar", "spatial"], {"spatial"}))
def test_an_event_on_an_angle_is_at_that_angle(kind):
    sense = -1.0 if kind == "planar" else 1.0  # gravity turns it
    for level in (0.4, 1.1):
        stop = hx.Event("there", "A.angle", level=sense * level, terminal=True)
        result = pendulum(kind).simulate(2.0, rtol=1e-8, events=stop)
        assert result.status == "event"
        assert result.joint("A").angle[-1] == pytest.approx(sense * level, abs=1e-13)


def test_another_level_compiles_nothing():
    system, start = pendulum("planar").build()
    events = [hx.Event("there", "A.angle", level=x, terminal=True) for x in (-0.4, -1.1)]
    hx.simulate(system, start, 1.0, dt=0.01, events=events[0])
    before = counts.traced
    result = hx.simulate(system, start, 1.0, dt=0.01, events=events[1])
    assert counts.traced == before
    assert result.joint("A").angle[-1] == pytest.approx(-1.1, abs=1e-13)


@pytest.mark.parametrize("kind", in_part(["planar", "spatial"], {"spatial"}))
def test_an_event_on_a_spatial_angle_happens_once_a_turn(kind):
    """In the plane angles are counted, and it happens once."""
    model = crank(kind)
    event = hx.Event("top", "A.angle", level=1.0)
    result = model.simulate(2.0, dt=0.01, events=event)
    times = [x.t for x in result.events]
    wanted = (1.0 + 2 * np.pi * np.arange(3)) / SPEED
    np.testing.assert_allclose(times, wanted[wanted < 2.0] if kind == "spatial" else wanted[:1])


def test_events_on_outputs_forces_and_velocities():
    model = pendulum("planar")
    model.spring_damper("spring", "ground", "rod", at=((0.0, 0.5), (1.0, 0.0)), stiffness=3.0)
    names = ["tip", "A.rate", "rod.velocity.x", "spring.rate"]
    events = [hx.Event(name, name) for name in names]
    result = model.simulate(2.0, rtol=1e-8, events=events)
    assert {x.name for x in result.events} >= {"tip", "A.rate", "spring.rate"}
    for happened in result.events:
        value = result.system.quantity(happened.name)(happened.t, happened.q, happened.v)
        assert abs(value) < 1e-12


def test_functions_of_events_take_parameters():
    system, start = pendulum("planar").build()

    def passed(rod, t, parameters):
        return rod.angle + parameters["at"]

    for k, level in enumerate((0.3, 0.9)):
        event = hx.Event("there", passed, bodies="rod", terminal=True, parameters={"at": level})
        before = counts.traced
        result = hx.simulate(system, start, 1.0, dt=0.01, events=event)
        assert result["rod"].angle[-1] == pytest.approx(-level, abs=1e-13)
        assert k == 0 or counts.traced == before


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (("e", "A.angel"), "no quantity 'A.angel'. Did you mean A.angle"),
        (("e", "rod.velocity"), "is a vector. Name one of its components"),
    ],
)
def test_wrong_events_are_refused(event, message):
    with pytest.raises((KeyError, ValueError), match=message):
        pendulum("planar").simulate(0.1, dt=0.01, events=hx.Event(*event))


def test_a_run_with_an_event_on_a_quantity_is_resumed(tmp_path):
    model = pendulum("planar")
    event = hx.Event("there", "A.angle", level=-1.2)
    whole = model.simulate(2.0, dt=0.01, events=event)
    stored = {"checkpoint": tmp_path / "run", "checkpoint_every": 1e-3}
    system, start = model.build()
    hx.simulate(system, start, 2.0, dt=0.01, events=event, **stored)
    again = hx.resume(tmp_path / "run", system=system, events=event)
    np.testing.assert_array_equal(again.q, whole.q)
    assert [x.t for x in again.events] == [x.t for x in whole.events]


# -- points ------------------------------------------------------------------------------------


def test_points_are_tuples_lists_arrays_or_vectors(sprung):
    d = sprung["block"].position.shape[1]
    vec = hx.Vec2 if d == 2 else hx.Vec3
    numbers = (0.3, -0.2, 0.1)[:d]
    points = [numbers, list(numbers), np.array(numbers), vec(*numbers)]
    paths = [sprung["block"].point(x) for x in points]
    for path in paths[1:]:
        np.testing.assert_array_equal(path, paths[0])
    frame = sprung.system.frame_of("block", jnp.asarray(sprung.q[-1]), jnp.asarray(sprung.v[-1]))
    for x in points:
        np.testing.assert_allclose(frame.point(x).array(), paths[0][-1], atol=1e-14)
        np.testing.assert_allclose((frame.r - x).array(), -(x - frame.r).array())
    with pytest.raises(ValueError, match=f"not a vector of {d} components"):
        frame.point((1.0,) * (5 - d))
