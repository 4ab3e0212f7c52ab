"""Input that is easily got wrong: numbers that are none, names mistyped, units mistaken."""

import inspect
import pickle
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax._numbers import number, real
from test_errors import check

HUGE = 10**400
UNIT = (1.0, 1.0, 1.0)


def pendulum(**options):
    model = hx.Model()
    model.planar_body("bar", 1.0, 0.1, position=(0.5, 0.0), **options)
    model.revolute("pin", "ground", "bar", at=(0.0, 0.0))
    return model


def simulated(**options):
    return lambda: pendulum().simulate(0.1, **{"dt": 0.05, **options})


def body(**options):
    return lambda: hx.Model().body("bar", **{"mass": 1.0, "inertia": UNIT, **options})


REFUSED = {
    "checkpoint of a number": (TypeError, simulated(checkpoint=3), "checkpoint=3", "path"),
    "checkpoint of nothing": (ValueError, simulated(checkpoint=""), "checkpoint=''", "directory"),
    "store of a list": (TypeError, simulated(store=[1]), "store=[1]", "path"),
    "events of truth": (TypeError, simulated(events=True), "events=True", "hx.Event"),
    "hold of a number": (TypeError, simulated(hold=1.0), "hold=1.0", "list"),
    "hold of a word": (TypeError, simulated(hold="bar"), "hold=['bar']"),
    "released by number": (TypeError, simulated(released=[0]), "released", "names"),
    "save beyond counting": (ValueError, simulated(save=2**63), "save=", "at most"),
    "save of a huge number": (ValueError, simulated(save=HUGE), "save=", "whole number"),
    "tolerance without meaning": (
        ValueError,
        simulated(dt=None, rtol=1e300, integrator=hx.Dopri5()),
        "rtol=1e+300",
        "below 1",
    ),
    "dt of truth": (TypeError, simulated(dt=True), "dt=True", "number"),
    "dt beyond all numbers": (TypeError, simulated(dt=HUGE), "dt=", "64-bit"),
    "mass of truth": (hx.ModelError, body(mass=True), "body 'bar'", "mass=True"),
    "mass as text": (hx.ModelError, body(mass="1.0"), "body 'bar'", "mass='1.0'"),
    "mass beyond all numbers": (hx.ModelError, body(mass=HUGE), "body 'bar'", "mass="),
    "complex point": (hx.ModelError, body(position=(1j, 0, 0)), "position=(1j", "real"),
    "complex rotation": (hx.ModelError, body(rotation=(1j, 0, 0)), "rotation=(1j", "quaternion"),
    "complex start": (
        TypeError,
        lambda: hx.consistent(pendulum().system(), np.array([0.5 + 1j, 0, 0])),
        "q=",
        "numbers",
    ),
    "point beyond all numbers": (hx.ModelError, body(position=(HUGE, 0, 0)), "64-bit"),
    "radius of truth": (ValueError, lambda: hx.sphere(True, mass=1), "sphere: radius=True"),
    "iterations of a word": (ValueError, lambda: hx.RadauIIA(max_iterations="x"), "RadauIIA"),
    "tolerance of Newton": (ValueError, lambda: hx.BDF(2, tolerance=-1), "BDF: tolerance=-1"),
    "terminal by number": (
        TypeError,
        lambda: hx.Event("e", lambda t, q, v: t, terminal=1),
        "Event 'e': terminal=1",
        "True or False",
    ),
    "engage a number": (
        TypeError,
        lambda: hx.Event("e", lambda t, q, v: t, engage=3),
        "Event 'e': engage=3",
        "names",
    ),
    "a load without its list": (
        hx.ModelError,
        lambda: pendulum().custom_force("fan", "bar", lambda bar, t: ((0.0, 1.0), 2.0)),
        "custom force 'fan'",
        "[(force, torque)]",
        "brackets",
    ),
    "parameters that have no order": (
        hx.ModelError,
        lambda: pendulum().custom_force("fan", "bar", lambda bar, t: 0, {1: 1.0, "x": 2.0}),
        "custom force 'fan'",
        "strings for keys",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_number_or_no_name_is_refused(case):
    error, bad, *words = REFUSED[case]
    check(error, bad, words)


MISTYPED = {
    "a function": (lambda: hx.simulate(None, None, 1.0, intgrator=1), "simulate", "integrator?"),
    "a function that is imported late": (
        lambda: hx.linearize(None, None, cordinates=()),
        "linearize",
        "coordinates?",
    ),
    "a method of Model": (lambda: hx.Model().body("a", mas=1), "body", "mass?"),
    "an option handed on": (lambda: pendulum().simulate(1, sav="end"), "simulate", "save?"),
    "an option of Model.simulate": (lambda: pendulum().simulate(1, hodl=()), "simulate", "hold?"),
    "a formulation": (lambda: hx.PostStabilized(pases=2), "PostStabilized", "passes?"),
    "an integrator": (lambda: hx.RadauIIA(stage=2), "RadauIIA", "stages?"),
    "an option of the Newmark family": (lambda: hx.HHT(tolerence=1), "HHT", "tolerance?"),
    "a solid": (lambda: hx.sphere(1, dnsity=1), "sphere", "density?"),
    "an example": (lambda: hx.examples.andrews(stifness=1), "andrews", "stiffness?"),
    "a method of a result": (lambda: _result().drift(nrm=2), "drift", "norm?"),
    "nothing like it": (lambda: hx.diagnose(colour="red"), "diagnose", "There are system, q, t"),
    "missing": (lambda: hx.Model().spherical("j", "a"), "spherical", "b is missing"),
    "too many": (lambda: hx.Model().body("a", 1, 2, 3), "body", "name, mass, inertia", "by name"),
    "twice": (lambda: hx.Model().body("a", name="b"), "body", "name is given twice"),
    "none taken": (lambda: hx.Index1(3), "Index1", "takes no arguments"),
}


def _result():
    return pendulum().simulate(0.1, dt=0.05)


@pytest.mark.parametrize("case", MISTYPED)
def test_a_mistyped_argument_is_answered_with_the_one_that_was_meant(case):
    bad, *words = MISTYPED[case]
    check(TypeError, bad, words)


def test_checked_functions_keep_their_signatures_and_can_be_pickled():
    assert list(inspect.signature(hx.simulate).parameters)[:3] == ["system", "start", "t_end"]
    assert list(inspect.signature(hx.Model.body).parameters)[:2] == ["self", "name"]
    assert "level" in inspect.signature(hx.PostStabilized).parameters
    assert "consistent" in hx.simulate.__doc__ and hx.Model.body.__doc__
    assert pickle.loads(pickle.dumps(hx.simulate)) is hx.simulate
    assert "passes=2" in repr(hx.PostStabilized(passes=2))


def test_a_type_error_from_within_is_left_alone():
    def odd(t):
        raise TypeError("odd() got an unexpected keyword argument 'x'")

    with pytest.raises(hx.ModelError, match="unexpected keyword"):
        pendulum().force("f", "bar", force=odd)


@pytest.mark.parametrize(
    "given", [1, 1.5, np.float32(1.5), np.int8(3), np.array(2.0), jnp.asarray(2.0), 2**80]
)
def test_numbers_of_every_library_are_numbers(given):
    assert number("it", "x", given) == float(given)


@pytest.mark.parametrize(
    "given", [True, np.bool_(True), "1", b"1", None, 1j, [1, [2]], 10**400, object(), {}, {1.0}]
)
def test_what_is_no_number_is_none(given):
    assert real(given) is None


# -- units ---------------------------------------------------------------------------------------


def warned(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [x for x in caught if issubclass(x.category, UserWarning)]


def test_an_angle_in_degrees_is_asked_about():
    (told,) = warned(lambda: pendulum(angle=90))
    assert "body 'bar'" in str(told.message) and "radians" in str(told.message)
    assert told.filename == __file__  # where it was given
    model = pendulum()
    (told,) = warned(lambda: model.drive_angle("motor", joint="pin", angle=45))
    assert "angle driver 'motor'" in str(told.message) and "deg2rad(45)" in str(told.message)


@pytest.mark.parametrize("angle", [0, 3, -6, 6.5, 40 * np.pi])
def test_an_angle_in_radians_is_not(angle):
    assert not warned(lambda: pendulum(angle=angle))


def long_bar(length, mass):
    model = hx.Model()
    model.planar_body("bar", mass, mass * length**2 / 12, position=(length / 2, 0.0))
    model.revolute("pin", "ground", "bar", at=(0.0, 0.0))
    return model


def test_a_bar_of_a_kilometre_that_weighs_a_kilogram_is_asked_about():
    (told,) = warned(lambda: long_bar(1000.0, 1.0).build())
    assert "'bar'" in str(told.message) and "metres" in str(told.message)


@pytest.mark.parametrize("bar", [(1.0, 1.0), (1000.0, 1e5), (1e-3, 1e-9), (50.0, 1.0)])
def test_bars_that_exist_are_not(bar):
    assert not warned(lambda: long_bar(*bar).build())


# -- what is wrong with a mechanism or a method ----------------------------------------------------


def triangle(base):
    """Two bars of 1 m on pins `base` metres apart: a structure."""
    model = hx.Model()
    for name, x, angle in (("left", 0.25, 0.8), ("right", 0.75, np.pi - 0.8)):
        model.planar_body(name, 1.0, 0.1, position=(x * base, 0.4), angle=angle)
    model.revolute("A", "ground", "left", at_a=(0.0, 0.0), at_b=(-0.5, 0.0))
    model.revolute("B", "left", "right", at_a=(0.5, 0.0), at_b=(0.5, 0.0))
    model.revolute("C", "ground", "right", at_a=(base, 0.0), at_b=(-0.5, 0.0))
    return model


def test_a_structure_that_does_not_fit_is_told_its_mobility():
    assert triangle(1.5).build()[1].diagnosis.mobility == 0  # this one fits
    with pytest.raises(hx.ConstraintError, match="mobility is 0: 6 constraint rows"):
        triangle(2.5).build()


def test_a_linkage_that_does_not_fit_is_told_that_it_could_move():
    model = hx.Model()
    for name, x in (("crank", 0.0), ("coupler", 2.0), ("rocker", 4.0)):
        model.planar_body(name, 1.0, 0.1, position=(x, 0.4))
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-0.5, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(0.5, 0.0), at_b=(-0.5, 0.0))
    model.revolute("C", "coupler", "rocker", at_a=(0.5, 0.0), at_b=(0.5, 0.0))
    model.revolute("D", "ground", "rocker", at_a=(4.0, 0.0), at_b=(-0.5, 0.0))
    with pytest.raises(hx.ConstraintError, match="mobility is 1, so it can move"):
        model.build()


def sprung(stiffness, damping=0.0):
    model = pendulum()
    model.torsion_spring("s", joint="pin", stiffness=stiffness, damping=damping, angle=0.3)
    return model


@pytest.mark.parametrize("spring", [(1e8, 0.0), (1e5, 1e5)])
def test_a_stiff_spring_under_an_explicit_method_is_called_stiff(spring):
    result = sprung(*spring).simulate(1.0, dt=1e-2, integrator=hx.RK4())
    assert not result.success and result.status == "stiff"
    assert "stiff" in result.message and "implicit" in result.message
    assert "bar.angle" in result.message and "velocities around" not in result.message


def test_a_stiff_spring_under_an_implicit_method_is_not():
    result = sprung(1e5, 1e5).simulate(0.1, dt=1e-2, integrator=hx.RadauIIA())
    assert result.success


def test_the_step_that_is_advised_is_stable():
    """J = m l^2 + J_s = 0.35 kg m^2 on k = 1e6 N m/rad turns at sqrt(k / J) = 1690 1/s."""
    result = sprung(1e6).simulate(1.0, dt=1e-2, integrator=hx.RK4())
    rate = np.sqrt(1e6 / 0.35)
    assert f"{rate:.2g} 1/s" in result.message
    assert sprung(1e6).simulate(0.05, dt=2.0 / rate, integrator=hx.RK4()).success
