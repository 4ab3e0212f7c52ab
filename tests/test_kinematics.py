"""Driven mechanisms: their motion against closed forms, and the torques behind it."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx

CRANK, ROD, START = 0.2, 0.5, 1.0  # m, m, rad


def turn(t):
    """How far the crank has turned: from rest, ever faster."""
    return 5 * t * t / (1 + t)


def slider_crank():
    """Crank of 1 kg, rod of 2 kg and slider of 3 kg, the crank at 1 rad."""
    lean = np.arcsin(CRANK * np.sin(START) / ROD)
    pin = CRANK * np.array([np.cos(START), np.sin(START)])
    end = np.array([pin[0] + ROD * np.cos(lean), 0.0])
    model = hx.Model()
    model.planar_body("crank", hx.rod(CRANK, mass=1.0), position=pin / 2, angle=START)
    model.planar_body("rod", hx.rod(ROD, mass=2.0), position=(pin + end) / 2, angle=-lean)
    model.planar_body("slider", 3.0, 0.1, position=end)
    model.revolute("shaft", "ground", "crank", at=(0.0, 0.0))
    model.revolute("pin", "crank", "rod", at=pin)
    model.revolute("wrist", "rod", "slider", at=end)
    model.prismatic("guide", "ground", "slider", at=end, axis=(1.0, 0.0))
    return model


@cache
def driven():
    """A second of the motion, an instant each millisecond."""
    model = slider_crank()
    model.drive_angle("motor", joint="shaft", angle=turn)
    return model.kinematics(1.0, dt=1e-3)


@cache
def driven_functions():
    """The same kind of mechanism as functions of crank angle and slider position."""

    def constraint(q, t, p):
        angle, x = q
        pin = p["r"] * jnp.array([jnp.cos(angle), jnp.sin(angle)])
        rod = ((x - pin[0]) ** 2 + pin[1] ** 2 - p["l"] ** 2) / (2 * p["l"])
        return jnp.array([rod, angle - 0.5 - 3 * t])

    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([p["J"], p["m"]]),
        force=lambda q, v, t, p: jnp.zeros(2),
        constraint=constraint,
        parameters={"r": CRANK, "l": ROD, "J": 0.01, "m": 3.0},
        coordinate_names=["angle", "x"],
        constraint_names=["rod", "motor"],
    )
    return system, hx.consistent(system, [0.5, 0.6])


def slider(angle, rod=ROD):
    """Position of the slider and its first two derivatives with respect to the crank's angle."""
    s, c = CRANK * np.sin(angle), CRANK * np.cos(angle)
    root = np.sqrt(rod**2 - s**2)
    slope = -s - s * c / root
    bend = -c - (c**2 - s**2) / root - (s * c) ** 2 / root**3
    return c + root, slope, bend


def test_the_slider_follows_the_crank():
    result = driven()
    assert result.success and result.t.size == 1001 and result.message.startswith("solved 1001")
    t = result.t
    rate, again = 5 * t * (2 + t) / (1 + t) ** 2, 10 / (1 + t) ** 3
    x, slope, bend = slider(START + turn(t))
    motion = result["slider"]
    # no integration: every instant is exact to rounding
    np.testing.assert_allclose(motion.position[:, 0], x, atol=1e-14)
    np.testing.assert_allclose(motion.velocity[:, 0], slope * rate, atol=1e-12)
    np.testing.assert_allclose(
        motion.acceleration[:, 0], bend * rate**2 + slope * again, atol=1e-10
    )
    position, velocity = result.drift()
    assert np.max(position) < 1e-14 and np.max(velocity) < 1e-12
    assert "Kinematic() with NewtonRaphson" in str(result)


@pytest.mark.slow
def test_the_states_between_instants_are_exact_as_well():
    times = np.array([0.0123456, 0.70005])
    q, _ = driven().at(times)
    np.testing.assert_allclose(q[:, 2], slider(START + turn(times))[0], atol=1e-12)


def test_the_motor_gives_what_the_energy_needs():
    result = driven()
    forces = hx.inverse_dynamics(result.system, result)
    assert forces.names == ("motor",) and "motor" in str(forces) and "N m" in str(forces)
    np.testing.assert_allclose(forces["motor"], result.reaction("motor").torque, atol=1e-11)
    power = np.asarray(forces["motor"]) * result["crank"].angular_velocity
    energy = np.gradient(result.energy.total, result.t, edge_order=2)
    # second-order differences of the energy at 1 ms
    np.testing.assert_allclose(power, energy, atol=1e-4 * np.max(np.abs(power)))
    assert float(jnp.max(jnp.abs(forces.unbalanced))) < 1e-11


@pytest.mark.slow
def test_the_torque_of_the_motor_moves_the_free_crank_in_the_same_way():
    result = driven()
    model = slider_crank()
    free, _ = model.build()
    forces = hx.inverse_dynamics(free, result, ["crank.angle"])
    model.torque("motor", "crank", torque=forces.function("crank.angle"))
    forward = model.simulate(1.0, dt=1e-3)
    # RK4 and a cubic spline, both of fourth order at 1 ms
    np.testing.assert_allclose(forward.q, result.q, atol=1e-9)
    np.testing.assert_allclose(forward.v, result.v, atol=1e-8)


def test_the_motion_can_be_differentiated():
    system, start = driven_functions()
    times = np.linspace(0.0, 1.0, 5)

    def position(rod):
        changed = system.with_parameters(l=rod)
        return hx.analysis.kinematic_motion(changed, start, times).q[-1, 1]

    angle, h = 3.5, 1e-6
    slope = (slider(angle, ROD + h)[0] - slider(angle, ROD - h)[0]) / (2 * h)
    np.testing.assert_allclose(jax.grad(position)(ROD), slope, rtol=1e-9)


def test_a_torque_can_be_differentiated():
    system, start = driven_functions()
    motion = hx.analysis.kinematic_motion(system, start, np.linspace(0.0, 1.0, 5))

    def torque(m):
        return hx.inverse_dynamics(system.with_parameters(m=m), motion, ["motor"])["motor"][-1]

    _, slope, bend = slider(3.5)
    # m x'' dx/dangle with x'' = bend 3^2; linear in m
    value, gradient = jax.value_and_grad(torque)(3.0)
    np.testing.assert_allclose([value, gradient], 9 * slope * bend * np.array([3, 1]), rtol=1e-10)


def test_a_dead_centre_is_reported_with_its_joints():
    system, _ = driven_functions()
    pushed = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([p["J"], p["m"]]),
        force=lambda q, v, t, p: jnp.zeros(2),
        constraint=lambda q, t, p: jnp.array(
            [
                (q[1] - p["r"] * jnp.cos(q[0])) ** 2 + (p["r"] * jnp.sin(q[0])) ** 2 - p["l"] ** 2,
                q[1] - 0.6 - t,
            ]
        ),
        parameters=system.parameters(),
        constraint_names=["rod", "push"],
    )
    result = hx.kinematics(pushed, [0.9, 0.6], 0.3, dt=0.01)  # 0.7 m is as far as it reaches
    assert not result.success and 0.08 < result.t[-1] < 0.1001
    assert "stopped" in result.message and "rod, push" in result.message
    np.testing.assert_allclose(result.q[:, 1], 0.6 + result.t, atol=1e-12)


def test_what_is_not_driven_is_refused():
    with pytest.raises(
        ValueError,
        match=r"1 motion is not driven \(mobility 1\), of crank, rod, slider\. Add a driver",
    ):
        slider_crank().kinematics(1.0, dt=0.01)
    model = hx.Model()
    model.planar_body("sled", 1.0, 1.0)
    model.knife_edge("blade", "sled", at=(0, 0), direction=(1, 0))
    with pytest.raises(ValueError, match=r"non-holonomic constraints .* Use hx\.simulate"):
        model.kinematics(1.0, dt=0.01)


def test_bad_arguments_of_kinematics_are_refused():
    system, start = driven_functions()
    with pytest.raises(TypeError, match="kinematics: system is int"):
        hx.kinematics(3, start, 1.0, dt=0.1)
    with pytest.raises(ValueError, match=r"give t_end and dt \[s\], or the times themselves"):
        hx.kinematics(system, start, 1.0)
    with pytest.raises(ValueError, match="either times, or t_end and dt, not both"):
        hx.kinematics(system, start, 1.0, times=[1.0])
    with pytest.raises(ValueError, match=r"t_end=0.0 s is not after the start"):
        hx.kinematics(system, start, 0.0, dt=0.1)
    with pytest.raises(ValueError, match="must be a vector of finite times"):
        hx.kinematics(system, start, times=[])
    with pytest.raises(ValueError, match="times must increase, from the start's t = 0 s on"):
        hx.kinematics(system, start, times=[0.2, 0.1])
    with pytest.raises(ValueError, match=r"dt=-1 is out of range. Give a finite and positive"):
        hx.kinematics(system, start, 1.0, dt=-1)


def test_bad_arguments_of_inverse_dynamics_are_refused():
    system, start = driven_functions()
    motion = hx.analysis.kinematic_motion(system, start, np.linspace(0.0, 1.0, 5))
    ask = lambda *x: hx.inverse_dynamics(system, *x)  # noqa: E731
    with pytest.raises(TypeError, match=r"motion=3 is not a motion. Give a Result"):
        ask(3, ["motor"])
    with pytest.raises(ValueError, match=r"shapes \(\) and \(2,\)"):
        ask((0.0, [0.5, 0.6], [0.0, 0.0], [0.0, 0.0]), ["motor"])
    with pytest.raises(ValueError, match=r"the system has no driver. Say what gives the forces"):
        ask(motion)
    with pytest.raises(TypeError, match=r"actuators='motor' must be a list: \['motor'\]"):
        ask(motion, "motor")
    with pytest.raises(ValueError, match=r"no driver or coordinate 'engine'. There are angle, x"):
        ask(motion, ["engine"])
    with pytest.raises(ValueError, match="actuators has 'motor' twice"):
        ask(motion, ["motor", "motor"])
    with pytest.raises(ValueError, match="angle cannot move anything, because the constraints"):
        ask(motion, ["angle"])
    with pytest.raises(ValueError, match=r"motor, x can replace each other.* Leave 1 out"):
        ask(motion, ["motor", "x"])
    with pytest.raises(ValueError, match=r"breaks the position constraint of rod by .* at t = 1 s"):
        ask(motion._replace(q=motion.q.at[-1, 1].add(0.1)), ["motor"])
    with pytest.raises(KeyError, match="There is no actuator 'x'; the actuators are motor"):
        ask(motion, ["motor"])["x"]
