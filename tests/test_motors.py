"""Functions with parameters, motors with feedback and limits, and controllers that sample."""

import numpy as np
import pytest

import holonax as hx
from holonax.compiler import counts
from sections import in_part

INERTIA, MASS = 0.5, 2.0


def rotor(kind="planar"):
    """A wheel in its bearing, without gravity."""
    model = hx.Model(gravity=(0.0, 0.0, 0.0))
    if kind == "planar":
        model.planar_body("wheel", 1.0, INERTIA)
        model.revolute("A", "ground", "wheel", at=(0.0, 0.0))
    else:
        model.body("wheel", 1.0, (0.4, 0.4, INERTIA))
        model.revolute("A", "ground", "wheel", at=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0))
    return model


def slider(kind="planar"):
    """A block on a rail, without gravity."""
    model = hx.Model(gravity=(0.0, 0.0, 0.0))
    if kind == "planar":
        model.planar_body("block", MASS, 0.1, position=(1.0, 0.0))
        model.prismatic("P", "ground", "block", at=(1.0, 0.0), axis=(1.0, 0.0))
    else:
        model.body("block", MASS, (0.1, 0.1, 0.1), position=(1.0, 0.0, 0.0))
        model.prismatic("P", "ground", "block", at=(1.0, 0.0, 0.0), axis=(1.0, 0.0, 0.0))
    return model


# -- functions with parameters -----------------------------------------------------------------


def _push(t, p):
    return (p["gain"] * t, 0.0)


def _pull(t, frame, p):
    return (-p["gain"] * frame.r.x, 0.0)


def _turn(t, p):
    return p["gain"] * t


def _actuator(t, x, speed, p):
    return p["gain"] * t


def _motion(t, p):
    return p["rate"] * t**2


CASES = {
    "force": (lambda m, p: m.force("f", "block", force=_push, parameters=p), "gain", slider),
    "of state": (
        lambda m, p: m.force("f", "block", force=_pull, parameters=p),
        "gain",
        slider,
    ),
    "torque": (lambda m, p: m.torque("f", "wheel", torque=_turn, parameters=p), "gain", rotor),
    "actuator": (
        lambda m, p: m.spring_damper("f", "ground", "block", actuator=_actuator, parameters=p),
        "gain",
        slider,
    ),
    "driver": (
        lambda m, p: m.drive_angle("f", joint="A", angle=_motion, parameters=p),
        "rate",
        rotor,
    ),
    "command": (
        lambda m, p: m.motor("f", "A", command=lambda t, x, v, p: p["gain"] * t, parameters=p),
        "gain",
        rotor,
    ),
}


def expected(case, value, t):
    """x(t) from where it was described."""
    return {
        "force": value * t**3 / 6 / MASS,
        "of state": np.cos(np.sqrt(value / MASS) * t) - 1.0,
        "torque": value * t**3 / 6 / INERTIA,
        "actuator": value * t**3 / 6 / MASS,
        "driver": value * t**2,
        "command": value * t**3 / 6 / INERTIA,
    }[case]


@pytest.mark.parametrize("case", in_part(CASES, {"of state", "torque"}))
def test_another_value_of_a_parameter_compiles_nothing(case):
    add, name, make = CASES[case]
    model = make()
    add(model, {name: 3.0})
    quantity = "A.angle" if make is rotor else "P.slide"
    first = model.simulate(1.0, dt=0.01)
    np.testing.assert_allclose(first.quantity(quantity), expected(case, 3.0, first.t), atol=1e-8)
    before = counts.traced
    for changed in ({f"f.{name}": 5.0}, {f"f.parameters.{name}": 5.0}):
        second = model.with_parameters(changed).simulate(1.0, dt=0.01)
        wanted = expected(case, 5.0, second.t)
        np.testing.assert_allclose(second.quantity(quantity), wanted, atol=1e-8)
    assert counts.traced == before
    system = first.system.with_parameters({f"f.{name}": np.asarray(7.0)})
    assert system.parameters()[f"f.parameters.{name}"] == 7.0


def test_parameters_without_a_function_are_refused():
    with pytest.raises(hx.ModelError, match="force 'f': its force is no function"):
        slider().force("f", "block", force=(1.0, 0.0), parameters={"gain": 1.0})
    with pytest.raises(hx.ModelError, match="angle driver 'f': angle is a number"):
        rotor().drive_angle("f", joint="A", angle=1.0, parameters=1.0)
    with pytest.raises(hx.ModelError, match="its parameters last"):
        slider().force("f", "block", force=lambda: (1.0, 0.0), parameters={"gain": 1.0})
    with pytest.raises(hx.ModelError, match=r"no 'gian'"):
        model = slider()
        model.force("f", "block", force=_push, parameters={"gain": 1.0})
        model.with_parameters({"f.gian": 2.0})


# -- motors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (rotor, "spatial"),
        (slider, "planar"),
        pytest.param(rotor, "planar", marks=pytest.mark.slow),
        pytest.param(slider, "spatial", marks=pytest.mark.slow),
    ],
)
def test_a_motor_with_gains_is_an_oscillator(make, kind):
    """m x'' = k (r - x) - d x': its closed solution from rest."""
    model, joint = make(kind), "A" if make is rotor else "P"
    m = INERTIA if make is rotor else MASS
    k, d, r = 8.0, 1.0, 0.7
    model.motor("M", joint, target=r, proportional=k, derivative=d)
    result = model.simulate(2.0, dt=0.005)
    a = d / (2 * m)
    w = np.sqrt(k / m - a**2)
    x = r * (1 - np.exp(-a * result.t) * (np.cos(w * result.t) + a / w * np.sin(w * result.t)))
    name = "angle" if make is rotor else "slide"
    np.testing.assert_allclose(result.quantity(f"{joint}.{name}"), x, atol=1e-8)
    np.testing.assert_allclose(result.quantity(f"M.{name}"), x, atol=1e-8)
    effort = result.quantity("M.torque" if make is rotor else "M.force")
    rate = result.quantity("A.rate" if make is rotor else "P.slide_rate")
    np.testing.assert_allclose(effort, k * (r - x) - d * rate, atol=1e-7)
    np.testing.assert_allclose(result.force("M").power, effort * rate, atol=1e-12)


def test_a_motor_follows_a_table_and_its_rate():
    """With a derivative gain the error is that of the acceleration alone."""
    times = np.linspace(0.0, 2.0, 21)
    goal = hx.Table(times, np.sin(times) - times, kind="cubic")
    model = rotor()
    model.motor("M", "A", target=goal, proportional=2000.0, derivative=80.0)
    result = model.simulate(2.0, rtol=1e-8)
    exact = np.sin(result.t) - result.t
    assert np.max(np.abs(result.joint("A").angle - exact)) < INERTIA / 2000.0 + 1e-3


def test_limits_are_kept():
    """A rotor at full torque to the middle and back: bang-bang until the error is small."""
    model = rotor()
    model.motor("M", "A", target=100.0, proportional=50.0, limit=3.0)
    result = model.simulate(1.0, rtol=1e-8)
    np.testing.assert_allclose(result.force("M").torque, 3.0)
    np.testing.assert_allclose(result.joint("A").angle, 3.0 / INERTIA * result.t**2 / 2, atol=1e-8)
    smooth = rotor()
    smooth.motor("M", "A", command=3.0, limit=3.0, saturation="smooth")
    torque = smooth.simulate(0.1, dt=0.01).force("M").torque
    np.testing.assert_allclose(torque, 3.0 * np.tanh(1.0))


def test_a_motor_runs_up_to_its_no_load_speed():
    """T (1 - w / w0): w = w0 (1 - exp(-T t / (J w0)))."""
    model = rotor()
    model.motor("M", "A", command=100.0, limit=3.0, no_load_speed=5.0)
    result = model.simulate(4.0, rtol=1e-9)
    w = 5.0 * (1 - np.exp(-3.0 / (INERTIA * 5.0) * result.t))
    np.testing.assert_allclose(result.joint("A").rate, w, atol=1e-6)


def test_commands_and_targets_may_be_expressions():
    model = rotor()
    own = {"gain": 2.0}
    model.motor("M", "A", command="gain * t - 0 * angle", parameters=own)
    again = hx.Model.from_dict(model.to_dict())
    result = again.simulate(1.0, dt=0.01)
    np.testing.assert_allclose(result.force("M").torque, 2.0 * result.t, atol=1e-12)


def test_gains_and_limits_are_parameters():
    model = rotor()
    model.motor("M", "A", target=1.0, proportional=5.0, derivative=1.0, limit=2.0)
    model.simulate(0.1, dt=0.01)
    before = counts.traced
    changed = {"M.proportional": 7.0, "M.limit": 1.0, "M.target": 0.5}
    model.with_parameters(changed).simulate(0.1, dt=0.01)
    assert counts.traced == before
    assert hx.Model.from_dict(model.to_dict())["M"] == model["M"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"proportional": 3.0}, "its gains need a target"),
        ({"no_load_speed": 3.0}, "needs a limit"),
        ({"limit": 0.0}, "limit is zero"),
        ({"limit": -1.0}, "limit=-1.0 is negative"),
        ({"command": lambda t: t}, "command could not be evaluated"),
        ({"command": 1.0, "parameters": {"a": 1.0}}, "neither command nor target"),
        ({"saturation": "soft"}, "saturation='soft' is not known"),
    ],
)
def test_motors_that_make_no_sense_are_refused(options, message):
    with pytest.raises(hx.ModelError, match=f"motor 'M': .*{message}"):
        rotor().motor("M", "A", **options)


def test_a_motor_needs_a_joint_with_one_freedom():
    model = hx.Model()
    model.body("b", 1.0, (1.0, 1.0, 1.0))
    model.cylindrical("C", "ground", "b", at=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0))
    with pytest.raises(hx.ModelError, match="which slides and turns"):
        model.motor("M", "C", command=1.0)
    model.spherical("S", "ground", "b", at=(0.0, 0.0, 0.0))
    with pytest.raises(hx.ModelError, match="which it cannot drive"):
        model.motor("N", "S", command=1.0)


# -- controllers that sample -------------------------------------------------------------------


class Integral:
    """A PID controller in plain Python, with memory."""

    def __init__(self, kp, ki, kd, period, goal):
        self.gains, self.period, self.goal, self.sum = (kp, ki, kd), period, goal, 0.0

    def __call__(self, t, values):
        error = self.goal - values["A.angle"]
        self.sum += error * self.period
        kp, ki, kd = self.gains
        return kp * error + ki * self.sum - kd * values["A.rate"]


def loaded_rotor():
    """A rotor on which a constant torque acts that the controller does not know."""
    model = rotor()
    model.torque("load", "wheel", torque=-1.5)
    model.motor("M", "A")
    return model


def test_a_sampled_controller_is_the_discrete_system():
    """Between samples the torque is constant: x and v follow in closed form, so the whole run is a
    recursion that can be computed by hand."""
    period, gains = 0.02, (8.0, 12.0, 2.0)
    pid = Integral(*gains, period, 0.5)
    controller = hx.Controller(
        pid, period=period, inputs=["A.angle", "A.rate"], outputs="M.command"
    )
    result = loaded_rotor().simulate(2.0, dt=0.005, controllers=controller)
    assert result.success and result.stats["samples"] == 100
    again, x, v = Integral(*gains, period, 0.5), 0.0, 0.0
    for k in range(100):
        u = again(k * period, {"A.angle": x, "A.rate": v})
        at = np.flatnonzero(np.isclose(result.t, (k + 1) * period, atol=1e-12))[0]
        a = (u - 1.5) / INERTIA
        x, v = x + v * period + a * period**2 / 2, v + a * period
        assert result.joint("A").angle[at] == pytest.approx(x, abs=1e-10)
        inside = np.flatnonzero(np.isclose(result.t, (k + 0.5) * period, atol=1e-9))
        assert result.quantity("M.command")[inside] == pytest.approx(u)
        assert result.force("M").torque[inside] == pytest.approx(u)
    assert abs(x - 0.5) < 0.5 * 1.5 / 8.0  # of what the load would be without the integral
    assert np.max(np.abs(result.energy.balance)) < 1e-9


def test_controllers_of_different_rates_compile_nothing_for_each_sample():
    model = loaded_rotor()
    slow = hx.Controller(lambda t, x: 0.1 * t, period=0.3, inputs=[], outputs=["load.torque"])
    fast = hx.Controller(
        lambda t, x: {"M.command": -x["A.rate"]}, period=0.1, inputs=["A.rate"], outputs="M.command"
    )
    first = model.simulate(0.3, rtol=1e-6, controllers=[slow, fast], save=[0.0, 0.3])
    assert first.stats["samples"] == 3
    before = counts.traced
    result = model.simulate(1.0, rtol=1e-6, controllers=[slow, fast], save=np.linspace(0, 1, 11))
    assert counts.traced == before and result.stats["samples"] == 10
    np.testing.assert_allclose(result.t, np.linspace(0, 1, 11))
    assert result.quantity("load.torque")[-1] == pytest.approx(0.09)


def test_a_controller_that_fails_in_the_middle_leaves_what_there_is():
    def fails(t, values):
        if t > 0.25:
            raise RuntimeError("the sensor is gone")
        return 1.0

    controller = hx.Controller(fails, period=0.1, inputs=[], outputs="M.command")
    result = loaded_rotor().simulate(1.0, dt=0.01, controllers=controller)
    assert not result.success and result.status == "controller"
    assert "the sensor is gone" in result.message and result.t[-1] == pytest.approx(0.3)
    nan = hx.Controller(lambda t, x: np.nan, period=0.1, inputs=[], outputs="M.command")
    with pytest.raises(ValueError, match=r"return a finite number for each of M\.command"):
        loaded_rotor().simulate(1.0, dt=0.01, controllers=nan)


def test_an_event_ends_a_controlled_run():
    controller = hx.Controller(lambda t, x: 5.0, period=0.1, inputs=[], outputs="M.command")
    event = hx.Event("there", "A.angle", level=1.0, terminal=True)
    result = loaded_rotor().simulate(5.0, dt=0.01, controllers=controller, events=event)
    assert result.status == "event"
    assert result.joint("A").angle[-1] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inputs": ["A.angel"]}, "no quantity 'A.angel'. Did you mean A.angle"),
        ({"outputs": ["M.comand"]}, "no parameter of a force 'M.comand'. Did you mean M.command"),
        ({"outputs": ["wheel.mass"]}, "no parameter of a force 'wheel.mass'"),
        ({"period": 0.0}, "period=0.0 is out of range"),
        ({"outputs": []}, "outputs is empty"),
    ],
)
def test_controllers_that_make_no_sense_are_refused(options, message):
    given = {"period": 0.1, "inputs": [], "outputs": "M.command", **options}
    with pytest.raises((KeyError, ValueError), match=message):
        controller = hx.Controller(lambda t, x: 0.0, **given)
        loaded_rotor().simulate(1.0, dt=0.01, controllers=controller)
