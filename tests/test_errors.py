"""Bad input, one row each: what is refused, by which exception, and what the message says.

Every message names the object and the cause or remedy, is one short sentence or two, and speaks
neither of tracing nor of an exception behind it.
"""

import re
from functools import cache
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.formulation import OdeFormulation
from holonax.result.states import Leg

NAN, INF = float("nan"), float("inf")
I3 = (1.0, 1.0, 1.0)


def refused(name, error, bad, *words):
    return pytest.param(error, bad, words, id=name)


JARGON = re.compile(r"[Tt]racer|[Tt]raced|f(loat)?64|ShapedArray|eval_shape|vmap|pytree|dtype|0x")


def check(error, bad, words):
    with pytest.raises(error) as caught:
        bad()
    raised = caught.value
    message = str(raised.args[0])
    assert type(raised) is error
    assert raised.__cause__ is None and (raised.__context__ is None or raised.__suppress_context__)
    for word in words:
        assert word in message
    assert len(message) <= 400 and "\n" not in message
    assert not JARGON.search(message), message
    assert message.endswith((".", "?"))


# -- bodies ----------------------------------------------------------------------------------


def body(*mass, **options):
    return lambda: hx.Model().body("crank", *mass, **options)


def planar(*mass, **options):
    return lambda: hx.Model().planar_body("crank", *mass, **options)


def named(*names):
    """A body for each name but the last, which is that of a joint."""

    def make():
        model = hx.Model()
        for name in names[:-1]:
            model.body(name, 1.0, I3)
        model.spherical(names[-1], "ground", names[0], at=(0, 0, 0))

    return make


BODIES = [
    refused("negative mass", hx.ModelError, body(-1, I3), "body 'crank'", "negative", "> 0"),
    refused("negative planar mass", hx.ModelError, planar(-1, 1), "body 'crank'", "negative"),
    refused("zero mass", hx.ModelError, body(0, I3), "body 'crank'", "zero", "inverse"),
    refused("NaN mass", hx.ModelError, body(NAN, I3), "body 'crank'", "mass is nan", "finite"),
    refused("infinite mass", hx.ModelError, planar(INF, 1), "body 'crank'", "mass is inf"),
    refused("mass missing", hx.ModelError, body(), "body 'crank'", "mass is missing", "kg"),
    refused("mass of two", hx.ModelError, body((1, 2), I3), "body 'crank'", "mass", "one number"),
    refused("mass in words", hx.ModelError, body("heavy", I3), "body 'crank'", "mass='heavy'"),
    refused("inertia missing", hx.ModelError, body(1), "body 'crank'", "inertia is missing"),
    refused("planar inertia missing", hx.ModelError, planar(1), "body 'crank'", "hx.box(...)"),
    refused("inertia given twice", hx.ModelError, body(hx.sphere(1, mass=1), I3), "given twice"),
    refused("inertia negative", hx.ModelError, body(1, (1, 1, -1)), "'crank'", "definite", "signs"),
    refused("inertia zero", hx.ModelError, planar(1, 0), "body 'crank'", "moment is zero"),
    refused("inertia not finite", hx.ModelError, body(1, (1, 1, INF)), "'crank'", "non-finite"),
    refused("inertia in words", hx.ModelError, planar(1, "big"), "'crank'", "inertia='big'"),
    refused("inertia ragged", hx.ModelError, body(1, ((1, 2), (3,))), "'crank'", "of real numbers"),
    refused("inertia of two", hx.ModelError, body(1, (1, 1)), "'crank'", "inertia", "np.diag"),
    refused("planar inertia of three", hx.ModelError, planar(1, I3), "'crank'", "one number"),
    refused(
        "inertia not symmetric",
        hx.ModelError,
        body(1, ((2, 1, 0), (0, 2, 0), (0, 0, 2))),
        "body 'crank'",
        "not symmetric",
        "swapped",
    ),
    refused(
        "inertia against the triangle inequality",
        hx.ModelError,
        body(1, (1, 1, 3)),
        "body 'crank'",
        "triangle inequality",
        "centre of mass",
    ),
    refused(
        "a slender rod in space",
        hx.ModelError,
        body(hx.rod(1, mass=1)),
        "body 'crank'",
        "zero",
        "cylinder",
    ),
    refused("spin of a point", hx.ModelError, body(1, "point", angular_velocity=I3), "not turn"),
    refused("centre of mass of two", hx.ModelError, body(1, I3, com=(1, 2)), "com has the shape"),
    refused(
        "centre of mass given twice",
        hx.ModelError,
        body(hx.sphere(1, mass=1), com=(1, 0, 0)),
        "com is given twice",
        "MassProperties",
    ),
    refused("position of two", hx.ModelError, body(1, I3, position=(1, 2)), "'crank'", "position"),
    refused("position NaN", hx.ModelError, body(1, I3, position=(NAN, 0, 0)), "finite"),
    refused("velocity NaN", hx.ModelError, planar(1, 1, velocity=(0, NAN)), "'crank'", "velocity"),
    refused("spin infinite", hx.ModelError, planar(1, 1, angular_velocity=INF), "angular_velocity"),
    refused("spin of one", hx.ModelError, body(1, I3, angular_velocity=3), "angular_velocity"),
    refused("angle NaN", hx.ModelError, planar(1, 1, angle=NAN), "body 'crank'", "angle=nan"),
    refused("angle in words", hx.ModelError, planar(1, 1, angle="up"), "angle='up'", "number"),
    refused("rotation of length zero", hx.ModelError, body(1, I3, rotation=[0] * 4), "quaternion"),
    refused("rotation NaN", hx.ModelError, body(1, I3, rotation=(NAN, 0, 0)), "'crank'"),
    refused("rotation stretched", hx.ModelError, body(1, I3, rotation=2 * np.eye(3)), "orthogonal"),
    refused("rotation mirrored", hx.ModelError, body(1, I3, rotation=-np.eye(3)), "determinant"),
    refused("two bodies of one name", hx.ModelError, named("a", "a", "j"), "'a'", "taken"),
    refused("a joint named as a body", hx.ModelError, named("a", "a"), "joint 'a'", "taken"),
    refused("empty name", hx.ModelError, named("", "j"), "body", "non-empty"),
    refused("name is a number", hx.ModelError, named(7, "j"), "body", "got 7"),
    refused("name with a dot", hx.ModelError, named("a.x", "j"), "'a.x'", "dot", "Choose another"),
    refused("name ground", hx.ModelError, named("ground", "j"), "'ground'", "Choose another"),
    refused("no body", hx.ModelError, lambda: hx.Model().build(), "model.body(...)"),
    refused("gravity NaN", hx.ModelError, lambda: hx.Model((0, NAN)), "gravity", "finite"),
    refused("gravity of one", hx.ModelError, lambda: hx.Model(9.81), "gravity", "components"),
    refused("gravity of four", hx.ModelError, lambda: hx.Model([0] * 4), "gravity", "components"),
    refused("mass and density", ValueError, lambda: hx.sphere(1, mass=1, density=1), "sphere"),
    refused("size in words", ValueError, lambda: hx.box("abc", mass=1), "box: size", "numbers"),
    refused("radius in words", ValueError, lambda: hx.sphere("r", mass=1), "sphere: radius"),
    refused("negative length", ValueError, lambda: hx.rod(-1, mass=1), "rod: length", "≥ 0"),
    refused("composite of numbers", TypeError, lambda: hx.composite(3.0), "part 0", "hx.box"),
    refused("composite of nothing", ValueError, lambda: hx.composite(), "composite", "mass > 0"),
]


# -- joints and drivers ------------------------------------------------------------------------

AT, AXIS = (0.5, 0.0, 0.0), (0.0, 0.0, 1.0)


def pair():
    """Two spatial bodies, a hinge and a weld."""
    model = hx.Model()
    model.body("a", 1.0, I3)
    model.body("b", 1.0, I3, position=(1, 0, 0))
    model.revolute("hinge", "a", "b", at=AT, axis=AXIS)
    model.fixed("weld", "a", "b")
    return model


def flat_pair():
    """Two planar bodies."""
    model = hx.Model()
    model.planar_body("flat", 1.0, 1.0)
    model.planar_body("level", 1.0, 1.0, position=(1, 0))
    return model


def add(method, *arguments, **options):
    return lambda: getattr(pair(), method)("J7", *arguments, **options)


def add_flat(method, *arguments, **options):
    return lambda: getattr(flat_pair(), method)("J7", *arguments, **options)


def joint(name, bad, *words):
    """A joint, driver or force called J7 that is refused."""
    return refused(name, hx.ModelError, bad, "'J7'", *words)


def of_another_model():
    other = hx.Model().body("a", 2.0, I3)
    pair().spherical("J7", "ground", other, at=AT)


JOINTS = [
    joint("unknown body", add("spherical", "a", "c", at=AT), "no body 'c'", "ground, a, b"),
    joint("body of another model", of_another_model, "'a'", "another model", "name"),
    joint("body is a number", add("spherical", "a", 3, at=AT), "no body 3", "The bodies are"),
    joint("body to itself", add("spherical", "a", "a", at=AT), "'a' to itself", "Give another"),
    joint("ground to ground", add("fixed", "ground", "ground"), "ground", "at least one body"),
    joint("planar with spatial", add("planar_body", 1, 1), "is planar", "planar_body(...)"),
    joint("spatial with planar", add_flat("body", 1, I3), "is spatial", "planar_body(...)"),
    joint("planar in space", add_flat("spherical", "ground", "flat", at=AT), "'flat' is planar"),
    joint("spatial in the plane", add("pin_in_slot", "ground", "a"), "'a' is spatial"),
    joint("place missing", add("spherical", "a", "b"), "place is missing", "at="),
    joint("place twice", add("spherical", "a", "b", at=AT, at_a=AT), "given twice", "either"),
    joint("place of two", add("spherical", "a", "b", at=(0, 0)), "at has the shape (2,)"),
    joint("place NaN", add("spherical", "a", "b", at_b=(NAN, 0, 0)), "at_b=[nan", "finite"),
    joint("place in words", add("spherical", "a", "b", at="here"), "at='here'", "3 numbers"),
    joint("axis missing", add("revolute", "a", "b", at=AT), "axis is missing", "axis="),
    joint("axis zero", add("revolute", "a", "b", at=AT, axis=(0, 0, 0)), "no length", "zero"),
    joint("axis twice", add("screw", "a", "b", pitch=1, at=AT, axis=AXIS, axis_a=AXIS), "twice"),
    joint("axis NaN", add("prismatic", "a", "b", at=AT, axis=(0, 0, NAN)), "axis", "finite"),
    joint("axis of two", add("cylindrical", "a", "b", at=AT, axis=(0, 1)), "axis", "3 numbers"),
    joint(
        "axis in the plane", add_flat("revolute", "flat", "level", at=(0, 0), axis=AXIS), "Leave it"
    ),
    joint("axes of a cross missing", add("universal", "a", "b", at=AT), "axes are missing"),
    joint("axes of a cross ragged", add("universal", "a", "b", at=AT, axes=(AXIS, (1, 0))), "axes"),
    joint("axes of a cross alike", add("universal", "a", "b", at=AT, axes=(AXIS, AXIS)), "normal"),
    joint("axes of a cross one", add("universal", "a", "b", at=AT, axes=3.0), "two world"),
    joint("pitch zero", add("screw", "a", "b", pitch=0, at=AT, axis=AXIS), "pitch", "metres"),
    joint("length negative", add("distance", "a", "b", at=(AT, AT), length=-1), "positive"),
    joint("length zero", add("distance", "a", "b", at=(AT, AT)), "positive", "spherical"),
    joint("length NaN", add("distance", "a", "b", at_a=AT, length=NAN), "length=nan", "finite"),
    joint("one point of two", add("distance", "a", "b", at=AT), "two world points"),
    joint("teeth missing", add("gear", "a", "b", axis=AXIS), "teeth=", "ratio="),
    joint("teeth NaN", add("gear", "a", "b", axis=AXIS, teeth=(NAN, 3)), "whole numbers"),
    joint("teeth in words", add("gear", "a", "b", axis=AXIS, teeth=("x", "y")), "whole numbers"),
    joint("teeth negative", add("gear", "a", "b", axis=AXIS, teeth=(-9, 3)), "whole numbers"),
    joint("ratio irrational", add("gear", "a", "b", axis=AXIS, ratio=np.pi), "teeth="),
    joint(
        "pinion of no radius", add("rack_and_pinion", "a", "b", radius=0, direction=AXIS), "zero"
    ),
    joint(
        "slot without direction", add_flat("pin_in_slot", "flat", "level", at=(0, 0)), "direction="
    ),
    joint(
        "curve with a corner",
        add_flat("point_on_curve", "ground", "flat", at_b=(0, 0), curve=lambda x, y: x * y),
        "gradient",
        "Start elsewhere",
    ),
    joint(
        "curve of numpy",
        add_flat("point_on_curve", "ground", "flat", at_b=(0, 0), curve=lambda x, y: np.sin(x)),
        "curve(x, y)",
        "jax.numpy",
        "line",
    ),
    joint("disc of radius zero", add("rolling_disc", "a", radius=0, axis=(1, 0, 0)), "positive"),
    joint("disc that lies flat", add("rolling_disc", "a", radius=1, axis=AXIS), "Tilt"),
    joint("edge missing", add("knife_edge", "a", at=AT), "direction is missing", "direction_b="),
    # drivers
    joint("driver of nothing", add("drive_angle", angle=0.0), "missing", "joint="),
    joint("driver of no joint", add("drive_angle", joint="x", angle=0.0), "'x'", "hinge, weld"),
    joint("driver of a weld", add("drive_angle", joint="weld", angle=0.0), "fixed", "revolute"),
    joint("driven twice", add("drive_angle", "a", "b", joint="hinge", angle=0.0), "Leave them out"),
    joint("drive by a word", add("drive_angle", joint="hinge", angle="fast"), "angle='fast'"),
    joint("drive NaN", add("drive_angle", joint="hinge", angle=NAN), "angle", "finite"),
    joint("drive without t", add("drive_angle", joint="hinge", angle=lambda: 0.0), "time alone"),
    joint(
        "drive by two numbers",
        add("drive_angle", joint="hinge", angle=lambda t: jnp.stack([t, t])),
        "angle",
        "shape (2,)",
        "function of time",
    ),
    joint(
        "drive by if",
        add("drive_angle", joint="hinge", angle=lambda t: t if t > 0 else -t),
        "jnp.where",
        "line",
    ),
    joint("drive by nothing", add("drive_angle", joint="hinge", angle=lambda t: None), "nothing"),
    joint("drive by NaN", add("drive_angle", joint="hinge", angle=jnp.log), "at t=0", "function"),
    joint("distance negative", add("drive_distance", "a", "b", at_a=AT, distance=-1), "positive"),
    joint("coordinate unknown", add("drive_coordinate", "a", "w", value=0.0), "'x', 'y', 'z'"),
    # joints of one's own
    joint("residual missing", add("custom_joint", ["a"], None), "None", "Give one of frames"),
    joint("residual of nothing", add("custom_joint", ["a"], lambda a, t: None), "returns nothing"),
    joint("residual that raises", add("custom_joint", ["a"], lambda a, t: 1 / 0), "line", "Zero"),
    joint("residual of one frame", add("custom_joint", ["a"], lambda a: a.r.x), "(frame 'a', t)"),
    joint("residual NaN", add("custom_joint", ["a"], lambda a, t: jnp.log(a.r.x - 1)), "Move"),
    joint("residual of numpy", add("custom_joint", ["a"], lambda a, t: np.sin(a.r.x)), "jax.numpy"),
    joint("residual constant", add("custom_joint", ["a"], lambda a, t: t), "constrains nothing"),
    joint("residual of speed", add("custom_joint", ["a"], lambda a, t: a.v.x), "custom_rate_joint"),
    joint("rate not linear", add("custom_rate_joint", ["a"], lambda a, t: a.v.x**2), "linear"),
    joint("parameter NaN", add("custom_joint", ["a"], lambda a, t, p: a.r.x, NAN), "finite"),
    joint("parameter in words", add("custom_joint", ["a"], lambda a, t, p: a.r.x, "k"), "numbers"),
]


# -- forces ------------------------------------------------------------------------------------

FORCES = [
    joint("spring of no strength", add("spring_damper", "a", "b"), "Give one of them"),
    joint("stiffness negative", add("spring_damper", "a", "b", stiffness=-1), "negative", "zero"),
    joint("stiffness NaN", add("spring_damper", "a", "b", stiffness=NAN), "stiffness", "finite"),
    joint("damping in words", add("spring_damper", "a", "b", damping="much"), "damping='much'"),
    joint("free length negative", add("spring_damper", "a", "b", stiffness=1, length=-1), "metres"),
    joint("spring on the ground", add("spring_damper", "ground", "ground", stiffness=1), "ground"),
    joint(
        "actuator of one argument",
        add("spring_damper", "a", "b", actuator=lambda t: t),
        "actuator",
        "jax.numpy",
    ),
    joint(
        "actuator of two numbers",
        add("spring_damper", "a", "b", actuator=lambda t, x, v: (x, v)),
        "actuator",
        "one number",
    ),
    joint("torsion of no joint", add("torsion_spring", joint="x", stiffness=1), "hinge, weld"),
    joint("torsion of a weld", add("torsion_spring", joint="weld", stiffness=1), "revolute"),
    joint("torsion without axis", add("torsion_spring", "a", "b", stiffness=1), "axis="),
    joint("bushing of three", add("bushing", "a", "b", at=AT, stiffness=I3), "6x6"),
    joint("bushing negative", add("bushing", "a", "b", at=AT, stiffness=-np.eye(6)), "positive"),
    joint("bushing NaN", add("bushing", "a", "b", at=AT, stiffness=[NAN] * 6), "finite"),
    joint("bushing in words", add("bushing", "a", "b", at=AT, stiffness="k"), "stiffness='k'"),
    joint("bushing turned", add("bushing", "a", "b", at=AT, stiffness=[1] * 6, axes=3), "rotation"),
    joint("force on the ground", add("force", "ground", force=I3), "never moves", "Give a body"),
    joint("force of two", add("force", "a", force=(1, 0)), "force has the shape (2,)", "3 numbers"),
    joint("force infinite", add("force", "a", force=(INF, 0, 0)), "force", "finite"),
    joint("force without t", add("force", "a", force=lambda: I3), "must take t"),
    joint("force of one number", add("force", "a", force=lambda t: 1.0), "3 components"),
    joint("force by if", add("force", "a", force=lambda t: I3 if t > 1 else AT), "jnp.where"),
    joint("force by math", add("force", "a", force=lambda t: (float(t), 0, 0)), "float()"),
    joint("force in odd axes", add("force", "a", force=I3, axes="local"), "'local'", "'body'"),
    joint(
        "torque of three in the plane", add_flat("torque", "flat", torque=I3), "torque", "number"
    ),
    joint("damping of a weld", add("joint_damping", "weld", 1.0), "'weld'", "revolute"),
    joint("damping negative", add("joint_damping", "hinge", -1.0), "damping", "positive"),
    joint("damping of a hinge twice", add("joint_damping", "hinge", (1, 2)), "one number"),
    joint("friction at no speed", add("joint_friction", "hinge", 1.0, 0.0), "transition_speed"),
    joint("custom force missing", add("custom_force", "a", None), "function=None"),
    joint("custom force of none", add("custom_force", "a", lambda a, t: None), "(force, torque)"),
    joint("custom force short", add("custom_force", ("a", "b"), lambda a, b, t: []), "2 pairs"),
    joint(
        "custom force that raises",
        add("custom_force", "a", lambda a, t: {}["k"]),
        "KeyError",
        "line",
    ),
]


# -- systems from functions ----------------------------------------------------------------------


def function_system(**changes):
    """A mass at the end of a rod: two coordinates, one constraint."""
    given = {
        "mass": lambda q, p: jnp.array([p["m"], p["m"]]),
        "force": lambda q, v, t, p: jnp.array([0.0, -9.81 * p["m"]]),
        "constraint": lambda q, t, p: jnp.array([q @ q - 1.0]),
        "parameters": {"m": 1.0},
    }
    return hx.FunctionSystem(**{**given, **changes})


def functions(**changes):
    """A consistent start of the system with some functions replaced."""
    return lambda: hx.consistent(function_system(**changes), [1.0, 0.0], [0.0, 0.0])


def ones(*shape):
    return lambda *_: jnp.ones(shape)


def value(name, bad, *words):
    return refused(name, ValueError, bad, *words)


def mass(*entries):
    return functions(mass=lambda q, p: jnp.array(entries))


FUNCTIONS = [
    refused("mass is a number", TypeError, functions(mass=1.0), "mass is float", "(q, p)"),
    refused("mass of one argument", TypeError, functions(mass=lambda q: q), "mass", "(q, p)"),
    refused("force of (q, v, t)", TypeError, functions(force=lambda q, v, t: q), "(q, v, t, p)"),
    refused("constraint of q", TypeError, functions(constraint=lambda q: q), "(q, t, p)"),
    refused("nonholonomic of q", TypeError, functions(nonholonomic=lambda q: q), "nonholonomic"),
    refused("potential of q", TypeError, functions(potential=lambda q: q), "potential", "(q, p)"),
    refused("parameter in words", TypeError, functions(parameters={"m": "one"}), "'m'", "'one'"),
    value("parameter NaN", functions(parameters={"m": NAN}), "'m'", "nan", "finite"),
    refused(
        "parameter unknown",
        KeyError,
        lambda: function_system().with_parameters(mass=1.0),
        "'mass'",
        "it has 'm'",
    ),
    value("parameter changed to NaN", lambda: function_system().with_parameters(m=NAN), "'m'"),
    refused(
        "parameters without names",
        KeyError,
        lambda: function_system(parameters=(1.0,)).with_parameters(m=1.0),
        "no parameter 'm'",
        "it has '0'",
    ),
    refused("names as one string", TypeError, functions(coordinate_names="xy"), "list of strings"),
    value("names for three", functions(coordinate_names=["x", "y", "z"]), "3 names", "for 2"),
    value("names for two rows", functions(constraint_names=["a", "b"]), "2 names", "1 constraints"),
    value("mass for three", functions(mass=ones(3)), "mass", "(3, 3)", "the diagonal, shape (2,)"),
    value("mass of one number", functions(mass=ones()), "mass", "shape ()", "(2, 2)"),
    value("mass not square", functions(mass=ones(2, 3)), "mass", "(2, 3)"),
    value("force of three", functions(force=ones(3)), "force", "(3,)", "a vector of shape (2,)"),
    value("force of nothing", functions(force=lambda q, v, t, p: None), "force", "jax.numpy"),
    value("force by if", functions(force=lambda q, v, t, p: v if t > 0 else -v), "jnp.where"),
    value("force that raises", functions(force=lambda q, v, t, p: p["g"]), "force", "'g'", "line"),
    value("constraint of one number", functions(constraint=ones()), "constraint", "a vector"),
    value("constraint of numpy", functions(constraint=lambda q, t, p: np.cos(q)), "jax.numpy"),
    value("nonholonomic of one number", functions(nonholonomic=ones()), "nonholonomic", "vector"),
    value("potential of two", functions(potential=ones(2)), "potential", "one number"),
    value("zero mass", mass(1.0, 0.0), "mass is zero", "q[1] (0)", "positive", "inverse"),
    value("negative mass", mass(-2.0, 1.0), "mass", "q[0] (-2)", "positive"),
    value("NaN mass", mass(NAN, 1.0), "mass is not finite", "q[0]"),
    value("indefinite mass", mass((1.0, 2.0), (2.0, 1.0)), "not positive definite", "q[0], q[1]"),
    value("singular mass", mass((1.0, 1.0), (1.0, 1.0)), "not positive definite", "inverse"),
    value("mass not symmetric", mass((2.0, 1.0), (0.0, 2.0)), "not symmetric", "q[0] and q[1]"),
    value("force NaN", functions(force=lambda q, v, t, p: jnp.log(-q)), "force", "not finite"),
    value(
        "rate not linear",
        functions(nonholonomic=lambda q, v, t, p: v[:1] ** 2),
        "nonholonomic",
        "linear in v",
        "A(q, t) v + b(q, t)",
    ),
    refused(
        "constraint NaN",
        hx.ConstraintError,
        functions(constraint=lambda q, t, p: jnp.stack([q @ q - 1.0, jnp.log(q[1] - 1.0)])),
        "constraint[1]",
        "not finite",
        "Start elsewhere",
    ),
    refused(
        "constraint with a kink",
        hx.ConstraintError,
        functions(constraint=lambda q, t, p: jnp.sqrt(q[1:])),
        "constraint[0]",
        "derivative",
        "square roots",
    ),
    value("q of three", lambda: hx.consistent(function_system(), [1.0, 0.0, 0.0]), "3 coordinates"),
    value("q NaN", lambda: hx.consistent(function_system(), [1.0, NAN]), "q", "q[1]", "finite"),
    value("q a matrix", lambda: hx.consistent(function_system(), np.eye(2)), "q", "vector"),
    refused("q in words", TypeError, lambda: hx.consistent(function_system(), "ab"), "q='ab'"),
    value("v of three", lambda: hx.consistent(function_system(), [1.0, 0.0], [0] * 3), "v has 3"),
    value(
        "v infinite", lambda: hx.consistent(function_system(), [1.0, 0.0], [0, INF]), "v", "q[1]"
    ),
]


# -- starts --------------------------------------------------------------------------------------


def start(*arguments, **options):
    return lambda: hx.consistent(function_system(), [1.0, 0.0], *arguments, **options)


def four_bar(length=0.5):
    """A four-bar linkage whose coupler has the given length."""
    model = hx.Model()
    model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.1, 0.0), angular_velocity=10.0)
    model.planar_body("coupler", hx.rod(length, mass=2.0), position=(0.4, 0.2), angle=0.9)
    model.planar_body("rocker", hx.rod(0.4, mass=1.5), position=(0.55, 0.2), angle=1.8)
    model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-0.1, 0.0))
    model.revolute("B", "crank", "coupler", at_a=(0.1, 0.0), at_b=(-length / 2, 0.0))
    model.revolute("C", "coupler", "rocker", at_a=(length / 2, 0.0), at_b=(0.2, 0.0))
    model.revolute("D", "ground", "rocker", at_a=(0.6, 0.0), at_b=(-0.2, 0.0))
    return model


def driven(first, second):
    """A crank driven by two motions at once."""

    def build():
        model = hx.Model()
        model.planar_body("crank", 1.0, 1.0, position=(0.5, 0))
        model.revolute("pin", "ground", "crank", at=(0, 0))
        model.drive_angle("left", joint="pin", angle=first)
        model.drive_angle("right", joint="pin", angle=second)
        return model.build()

    return build


def pushed(force):
    def build():
        model = hx.Model()
        model.planar_body("crank", 1.0, 1.0, position=(0.5, 0))
        model.force("calm", "crank", force=(1.0, 0.0))
        model.force("wild", "crank", force=force)
        return model.build()

    return build


def constraint(name, bad, *words):
    return refused(name, hx.ConstraintError, bad, *words)


STARTS = [
    refused("hold by one name", TypeError, start(hold="q[0]"), "hold='q[0]'", "hold=['q[0]']"),
    refused("hold by one number", TypeError, start(hold=0), "hold=0", "hold=[0]"),
    refused("hold by a fraction", TypeError, start(hold=[0.5]), "hold", "0.5", "index or name"),
    value("hold unknown", start(hold=["x"]), "'x'", "q[0], q[1]"),
    value("hold beyond the last", start(hold=[2]), "2", "there are 2"),
    value("hold unknown body", lambda: four_bar().build(hold=["crunk"]), "'crunk'", "crank"),
    value(
        "hold velocity unknown",
        lambda: four_bar().build(hold_velocity=["crank.turn"]),
        "'crank.turn'",
        "coordinate such as 'crank.x'",
    ),
    value("start at NaN", start(t=NAN), "t=nan", "finite"),
    refused("start at noon", TypeError, start(t="noon"), "t='noon'", "number"),
    value("tolerance negative", start(tol=-1.0), "tol=-1.0", "positive"),
    refused("start of a model", TypeError, lambda: hx.consistent(hx.Model(), [0.0]), "Model"),
    value("q of a mechanism", lambda: hx.consistent(four_bar().system(), [0.0]), "has 9"),
    value(
        "v of a mechanism NaN",
        lambda: hx.consistent(four_bar().system(), np.zeros(9), [0] * 8 + [NAN]),
        "rocker.angle",
    ),
    value("diagnosis of a wrong q", lambda: hx.diagnose(four_bar().system(), [0.0]), "has 9"),
    refused("solver unknown", hx.ModelError, lambda: four_bar().build(solver="qr"), "'qr'", "auto"),
    constraint(
        "a loop that cannot close",
        lambda: four_bar(1.5).build(),
        "cannot be assembled",
        "C",
        "dimensions of the loop",
    ),
    constraint(
        "all positions held",
        lambda: four_bar().build(hold=["crank", "coupler", "rocker"]),
        "cannot be assembled",
        "release a held coordinate",
    ),
    constraint(
        "all velocities held",
        lambda: four_bar().build(hold_velocity=["crank", "coupler", "rocker"]),
        "velocities cannot be made consistent",
        "Release a held velocity",
    ),
    constraint(
        "rods of two lengths",
        functions(constraint=lambda q, t, p: jnp.array([q @ q - 1.0, q @ q - 2.0])),
        "cannot be assembled",
        "constraint[0]",
        "constraint[1]",
    ),
    constraint("drivers apart", driven(0.0, 0.3), "cannot be assembled", "left", "right"),
    constraint("drivers of two speeds", driven(jnp.sin, lambda t: 2 * t), "velocity", "right"),
    constraint(
        "drivers of two accelerations",
        driven(lambda t: t**2, lambda t: 2 * t**2),
        "accelerations",
        "left",
        "right",
        "contradict",
    ),
    constraint(
        "a singular start",
        functions(constraint=lambda q, t, p: jnp.array([(q[0] - 1.0) * q[1]])),
        "singular configuration",
        "constraint[0]",
        "Start a little off it",
    ),
    value("a force that is NaN", pushed(lambda t: (jnp.log(t - 1), 0)), "wild", "not finite"),
]


# -- methods and runs ----------------------------------------------------------------------------


class Other(OdeFormulation):
    """A formulation of a kind that no integrator takes."""

    kind: ClassVar[str] = "other"

    def accelerations(self, context, t, state):
        return context.system.accelerations(*state, t)

    def after_step(self, context, t, state):
        return state


@cache
def free_start():
    """A system without constraints and its start, made without compiling."""
    system = hx.FunctionSystem(mass=ones(1), force=ones(1))
    zero = jnp.zeros(1)
    return system, hx.Start(0.0, zero, zero, zero, jnp.zeros(0), False, None)


def run(t_end=1.0, dt=0.1, **options):
    return lambda: hx.simulate(*free_start(), t_end, dt=dt, **options)


def kind(name, bad, *words):
    return refused(name, TypeError, bad, *words)


METHODS = [
    value(
        "a pair that does not fit",
        run(formulation=Other(), integrator=hx.RK4()),
        "RK4",
        "Other",
        "kind 'other'",
        "Legal integrators: none",
    ),
    kind("formulation by name", run(formulation="Index1"), "formulation='Index1'", "hx."),
    kind("formulation by class", run(formulation=hx.Index1), "Index1", "not its name or class"),
    kind("integrator by name", run(integrator="RK4"), "integrator='RK4'", "hx.RK4()"),
    kind("integrator by class", run(integrator=hx.RK4), "RK4", "not its name or class"),
    value("gain in words", lambda: hx.Baumgarte("fast"), "alpha='fast'", "1/dt"),
    value("gain half a number", lambda: hx.Baumgarte("1e/dt"), "alpha='1e/dt'", "0.5/dt"),
    value("gain over dt squared", lambda: hx.Baumgarte(1.0, "1/dt/dt"), "beta='1/dt/dt'", "1/dt"),
    value("gain negative", lambda: hx.Baumgarte(1.0, -1.0), "beta=-1.0", "positive"),
    value("gain negative over dt", lambda: hx.Baumgarte("-1/dt"), "alpha='-1/dt'", "positive"),
    value("gain NaN", lambda: hx.Baumgarte(NAN), "alpha=nan", "Give a number"),
    value("gain of two", lambda: hx.Baumgarte([1.0, 2.0]), "alpha", "(2,)", "Give a number"),
    value("gain missing", lambda: hx.Baumgarte(None), "alpha=None", "Give a number"),
    value("polynomial unstable", lambda: hx.Baumgarte.from_polynomial(1.0, -1.0), "a0=-1.0"),
    value("polynomial NaN", lambda: hx.Baumgarte.from_polynomial(NAN, 1.0), "a1=nan"),
    value("polynomial in words", lambda: hx.Baumgarte.from_polynomial("1/dt", 1.0), "a1='1/dt'"),
    value("level unknown", lambda: hx.PostStabilized("bath"), "level='bath'", "'both'"),
    value("metric unknown", lambda: hx.PostStabilized(metric="unit"), "'unit'", "'identity'"),
    value("freeze unknown", lambda: hx.PostStabilized(freeze="some"), "'some'", "'factor'"),
    value("no passes", lambda: hx.PostStabilized(passes=0), "passes=0", "1 or more"),
    value("half a pass", lambda: hx.PostStabilized(passes=1.5), "passes=1.5", "whole"),
    value("relaxation of two", lambda: hx.PostStabilized(alpha=2.0), "alpha=2.0", "alpha=1"),
    value("relaxation NaN", lambda: hx.PostStabilized(alpha=NAN), "alpha=nan", "alpha=1"),
    value("relaxation in words", lambda: hx.PostStabilized(alpha="full"), "'full'", "alpha=1"),
]

RUNS = [
    kind("simulate a model", lambda: hx.simulate(four_bar(), None, 1.0, dt=0.1), "model.build()"),
    kind("start missing", lambda: hx.simulate(free_start()[0], None, 1, dt=0.1), "hx.consistent"),
    kind("start of three", lambda: hx.simulate(free_start()[0], (0, 0, 0), 1, dt=0.1), "(q, v)"),
    value(
        "start of another system",
        lambda: hx.simulate(function_system(), free_start()[1], 1.0, dt=0.1),
        "another system",
        "hx.consistent",
    ),
    value(
        "start of another mechanism",
        lambda: hx.simulate(four_bar().system(), free_start()[1], 1.0, dt=0.1),
        "another system",
    ),
    value("dt zero", run(dt=0), "dt=0", "positive"),
    value("dt negative", run(dt=-0.1), "dt=-0.1", "positive"),
    value("dt NaN", run(dt=NAN), "dt=nan", "finite"),
    kind("dt in words", run(dt="small"), "dt='small'", "number"),
    value("t_end infinite", run(INF), "t_end=inf", "finite"),
    kind("t_end missing", run(None), "t_end=None", "number"),
    value("t_end before the start", run(-1.0), "t_end=-1.0", "after the start"),
    value("t_end at the start", run(0.0), "t_end=0.0", "later"),
    value("save by a word", run(save="all"), "save='all'", '"steps"'),
    value("save every zeroth", run(save=0), "save=0", "1 or more"),
    value("save by truth", run(save=True), "save=True", "every n-th"),
    value("save at nothing", run(save=[]), "save=[]", "times"),
    value("save at NaN", run(save=[0.1, NAN]), "finite times"),
    value("save at words", run(save=["a", "b"]), "save=['a', 'b']", "times"),
    value("save at a matrix", run(save=np.ones((2, 2))), "save", "vector"),
    value("save backwards", run(save=[0.5, 0.1]), "increase", "Sort"),
    value("save after the end", run(save=[0.5, 2.0]), "2.0", "t_end"),
    value("save before the start", run(save=[-1.0, 0.5]), "-1.0", "outside"),
]


# -- results -------------------------------------------------------------------------------------


def result_of(system, q, v, rows):
    """A result of one state, made without a run."""
    q, v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
    start = hx.Start(0.0, jnp.asarray(q), jnp.asarray(v), jnp.asarray(v), rows, False, None)
    leg = Leg(system, hx.PostStabilized("both", passes=2), hx.RK4(), 0.1)
    states = (q[None], v[None])
    return hx.Result.single(
        leg, start, np.zeros(1), states, success=True, message="made up", stats={}
    )


@cache
def linkage():
    model = four_bar()
    return result_of(model.system(), *model.start_vectors(), jnp.zeros(8))


@cache
def plain():
    return result_of(function_system(), [1.0, 0.0], [0.0, 0.0], jnp.zeros(1))


def momentum(about):
    return lambda: linkage().momentum(about)


RESULTS = [
    refused("body unknown", KeyError, lambda: linkage()["crunk"], "'crunk'", "crank, coupler"),
    refused("body by number", KeyError, lambda: linkage()[0], "no body 0", "crank, coupler"),
    refused("joint unknown", KeyError, lambda: linkage().reaction("E"), "'E'", "A, B, C, D"),
    value("axes unknown", lambda: linkage().reaction("A", axes="body"), "'body'", "'joint'"),
    value("momentum about a number", momentum(1.0), "about=1.0", "two or three"),
    value("momentum about NaN", momentum((NAN, 0)), "about", "finite"),
    kind("body of functions", lambda: plain()["x"], "hx.Model", "result.q"),
    kind("reaction of functions", lambda: plain().reaction("x"), "hx.Model", "FunctionSystem"),
    kind("momentum of functions", lambda: plain().momentum(), "hx.Model"),
]


@pytest.mark.parametrize(("error", "bad", "words"), BODIES)
def test_bad_bodies(error, bad, words):
    check(error, bad, words)


@pytest.mark.parametrize(("error", "bad", "words"), JOINTS)
def test_bad_joints_and_drivers(error, bad, words):
    check(error, bad, words)


@pytest.mark.parametrize(("error", "bad", "words"), FORCES)
def test_bad_forces(error, bad, words):
    check(error, bad, words)


@pytest.mark.parametrize(("error", "bad", "words"), FUNCTIONS)
def test_bad_functions(error, bad, words):
    check(error, bad, words)


@pytest.mark.parametrize(("error", "bad", "words"), STARTS)
def test_bad_starts(error, bad, words):
    check(error, bad, words)


@pytest.mark.parametrize(("error", "bad", "words"), METHODS)
def test_bad_methods(error, bad, words):
    check(error, bad, words)


@pytest.mark.parametrize(("error", "bad", "words"), RUNS)
def test_bad_runs(error, bad, words):
    check(error, bad, words)


@pytest.mark.parametrize(("error", "bad", "words"), RESULTS)
def test_bad_questions_to_a_result(error, bad, words):
    check(error, bad, words)


# -- what is not refused -------------------------------------------------------------------------


def test_consistent_redundancy_is_no_error():
    _, start = driven(jnp.sin, jnp.sin)()
    assert start.redundant
    assert start.diagnosis.shared_by == ("left", "right")


def test_a_refused_joint_leaves_the_model_as_it_was():
    model = pair()
    with pytest.raises(hx.ModelError):
        model.spherical("J7", "a", "b")
    assert model.spherical("J7", "a", "b", at=AT) == "J7"


def test_methods_print_as_they_are_made():
    assert repr(hx.Index1()) == "Index1()"
    assert repr(hx.Baumgarte(5.0, "1/dt")) == "Baumgarte(5, beta='1/dt')"
    assert repr(hx.PostStabilized("both", passes=2)) == "PostStabilized('both', passes=2)"
