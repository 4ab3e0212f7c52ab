"""A model remembers what it was told: records, dictionaries, edits, traced numbers, frames."""

import dataclasses
import inspect
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ellipk

import holonax as hx
from holonax.model.items import REGISTRY
from holonax.model.joints import Kept
from holonax.system.evaluation import evaluated
from sections import in_part

# No two components alike, so that the triad of an axis depends on it smoothly.
AXIS, NORMAL, OTHER = (0.2, 0.5, 1.0), (0.1, 0.3, 0.9), (1.0, 0.2, -0.3)


def spatial():
    """Everything that spatial bodies have and a dictionary can hold; not a mechanism that moves."""
    m = hx.Model(gravity=(0.1, 0.2, -9.0))
    turned = {"position": (0.1, 0.2, 0.3), "rotation": (0.3, -0.2, 0.5)}
    crank = hx.cylinder(0.05, 0.4, axis="x", mass=1.0).moved((0.2, 0.1, 0.0))
    m.body("crank", crank, **turned, velocity=(1, 2, 3), angular_velocity=(0.1, 0.2, 0.3))
    m.body("rod", hx.box((1.0, 0.1, 0.1), mass=2.0), position=(0.9, 0, 0), rotation=(1, 0.1, 0, 0))
    m.body("ball", hx.point_mass(0.5), position=(1.4, 0, 0))
    m.body("block", 3.0, (1.0, 1.1, 1.2), com=(0.01, 0.02, 0.03), position=(0, 0, 1.0))
    section = hx.Section(EA=3.0, GA=(2.0, 2.1), GJ=0.5, EI=(0.3, 0.4), mass=0.2)
    table = [(0.0, section), (1.0, hx.Section(2.0, (1.0, 1.1), 0.4, (0.2, 0.3), 0.1))]
    m.beam("beam", (0, 0, 0), (1, 0.2, 0.3), section=section, up=NORMAL, elements=3)
    m.beam("arc", (0, 0, 0), (1, 0, 0), section=table, elements=2, curvature=(0.1, 0.2, 0.3))
    m.cable("rope", (0, 0, 0), (1, 0, 0), EA=1e3, mass=0.1, length=1.1, elements=2, damping=0.1)
    m.line_load("wind", "beam", force=(0.1, 0.2, 0.3), axes="body")
    m.revolute("revolute", "ground", "crank", at=(0, 0, 0.1), axis=AXIS)
    m.universal("universal", "crank", "rod", at=(0.4, 0, 0), axis_a=AXIS, axis_b=OTHER)
    m.spherical("spherical", "rod", "ball", at_a=(0.5, 0, 0), at_b=(0, 0, 0))
    m.screw("screw", "ground", "rod", pitch=0.1, at=(1, 0, 0), axis=OTHER)
    m.cylindrical("cylindrical", "block", "rod", at=(0, 0, 0), axis_a=AXIS, axis_b=NORMAL)
    m.prismatic("prismatic", "ground", "rod", at=(0, 0, 0), axis=AXIS)
    m.planar_joint("plane", "ground", "rod", at=(0, 0, 0), axis=AXIS)
    m.fixed("weld", "beam.end", "block")
    m.distance("distance", "ground", "ball")
    m.point_on_line("line", "ground", "rod", at=(0, 0, 0), axis=AXIS)
    m.point_on_plane("on plane", "ground", "rod", at=(0, 0, 0), axis=AXIS)
    m.gear("gear", "crank", "rod", teeth=(20, 40), axis=AXIS, carrier="block")
    m.rack_and_pinion("rack", "crank", "rod", radius=0.2, direction=OTHER, axis=AXIS)
    m.rolling_disc("wheel", "rod", radius=0.3, axis=OTHER, normal=NORMAL, on="block")
    m.knife_edge("blade", "rod", at=(0, 0, 0), direction=OTHER, normal=NORMAL)
    m.drive_angle("motor", joint="revolute", angle=0.2)
    m.drive_angle("motor of two", "crank", "rod", axis=AXIS, angle=0.2)
    m.drive_coordinate("lift", "crank", "z", value=0.1)
    m.drive_distance("winch", "ground", "ball", distance=1.0)
    m.drive_translation("piston", joint="screw", displacement=0.3)
    m.spring_damper("spring", "crank", "rod", at_b=(0.5, 0, 0), stiffness=3.0, damping=0.1)
    m.torsion_spring("coil", joint="cylindrical", stiffness=2.0, damping=0.2, actuator=0.1)
    m.bushing("bushing", "crank", "rod", at=(1, 0, 0), axes=(0.1, 0.2, 0.3), stiffness=[1.0] * 6)
    m.joint_damping("oil", "revolute", 0.3)
    m.joint_friction("rust", "screw", (0.3, 0.2), (0.1, 0.05))
    m.motor("servo", "revolute", target=0.2, proportional=3.0, derivative=0.1, limit=5.0)
    m.force("push", "rod", force=(1, 2, 3), at=(1, 1, 1), axes="body")
    m.torque("twist", "rod", torque=(1, 2, 3))
    m.state("charge", "(1 - charge) / tau + rod.vx", 0.5, "rod", {"tau": 0.2}, unit="A s")
    return m


def planar():
    """The same for planar bodies."""
    m = hx.Model()
    m.planar_body("crank", hx.rod(0.4, mass=1.0).moved((0.2, 0, 0)), angle=0.3, velocity=(1, 2))
    m.planar_body("rod", 2.0, 0.3, position=(0.9, 0), angular_velocity=0.5)
    m.planar_body("ball", hx.point_mass(0.5), position=(1.4, 0))
    m.revolute("pin", "ground", "crank", at=(0, 0))
    m.prismatic("guide", "crank", "rod", at=(0.4, 0), axis_a=(1, 0.2), axis_b=(1, 0.1))
    m.fixed("weld", "crank", "rod")
    m.distance("distance", "rod", "ball", at_a=(0.1, 0), length=0.5)
    m.gear("gear", "crank", "rod", ratio=1.7, internal=True)
    m.pin_in_slot("slot", "crank", "rod", at=(0.3, 0), direction=(1, 1))
    m.knife_edge("blade", "rod", at_b=(0.1, 0), direction_b=(1, 0.3))
    m.drive_angle("motor", joint="pin", angle=0.2)
    m.drive_coordinate("lift", "crank", "y", value=0.1)
    m.drive_translation("piston", joint="slot", displacement=0.3)
    m.spring_damper("spring", "crank", "rod", stiffness=3.0, length=0.2)
    m.torsion_spring("coil", "crank", "rod", stiffness=2.0)
    m.bushing("bushing", "crank", "rod", at=(1, 0), axes=(0.1, 0.2), stiffness=np.diag([1, 2, 3]))
    m.joint_damping("oil", "guide", 0.3)
    m.force("push", "rod", force=(1, 2), at_b=(1, 1))
    m.torque("twist", "rod", torque=3.0)
    return m


MODELS = {"spatial": spatial, "planar": planar}


def same_system(one, other):
    a, b = (jax.tree.flatten(x.system()) for x in (one, other))
    assert a[1] == b[1]
    assert all(np.array_equal(x, y) for x, y in zip(a[0], b[0], strict=True))
    assert all(map(np.array_equal, one.start_vectors(), other.start_vectors()))


# -- records -------------------------------------------------------------------------------------


def test_every_class_of_records_is_a_method_with_its_signature_and_text():
    for name, record in REGISTRY.items():
        method = getattr(hx.Model, name)
        own = inspect.signature(record)
        assert list(inspect.signature(method).parameters)[1:] == list(own.parameters)
        assert method.__doc__ == record.__doc__ and method.__name__ == name


def test_the_models_of_these_tests_have_every_type_but_those_of_functions():
    seen = {item.type for make in MODELS.values() for item in make().items.values()}
    of_functions = {"custom_joint", "custom_rate_joint", "custom_force", "point_on_curve", "output"}
    with_modes = {"modal_body", "planar_modal_body"}  # in test_modal.py
    assert set(REGISTRY) - seen == of_functions | with_modes


@pytest.mark.parametrize("kind", MODELS)
def test_a_dictionary_through_json_gives_the_same_model_to_the_bit(kind):
    model = MODELS[kind]()
    said = json.loads(json.dumps(model.to_dict()))
    again = hx.Model.from_dict(said)
    assert list(again.items.values()) == list(model.items.values())
    assert again.to_dict() == model.to_dict()
    same_system(again, model)


def test_a_model_reads_as_it_was_written():
    model = hx.Model(gravity=(0, -1))
    crank = model.planar_body("crank", 2.0, 0.5, position=np.array([0.3, 0.0]))
    model.revolute("A", model.ground, crank, at=hx.Vec2(0.0, 0.0))
    model.drive_angle("motor", joint="A", angle=jnp.sin)
    assert str(model).splitlines() == [
        "Model(gravity=(0.0, -1.0))",
        "  planar_body('crank', mass=2.0, inertia=0.5, position=(0.3, 0.0))",
        "  revolute('A', 'ground', 'crank', at=(0.0, 0.0))",
        "  drive_angle('motor', angle=sin, joint='A')",
    ]
    assert list(model) == ["crank", "A", "motor"] and len(model) == 3 and "A" in model
    with pytest.raises(KeyError, match="no object 'B'; there are crank, A, motor"):
        model["B"]


def test_a_record_is_not_changed_by_what_happens_to_the_users_array():
    at = np.array([0.1, 0.2])
    model = hx.Model()
    model.planar_body("crank", 2.0, 0.5)
    model.revolute("A", "ground", "crank", at=at)
    at[:] = 7.0
    assert model["A"].at == (0.1, 0.2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model["A"].at = (1.0, 1.0)


def functions():
    model = hx.Model()
    model.planar_body("crank", 2.0, 0.5)
    model.drive_angle("motor", "ground", "crank", angle=jnp.sin)
    return model


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: functions().to_dict(), ["angle driver 'motor'", "angle", "Python function"]),
        (lambda: hx.Model.from_dict({"bodies": []}), ["'items'"]),
        (lambda: hx.Model.from_dict(3), ["3", "'items'"]),
        (lambda: hx.Model.from_dict({"items": 3}), ["items=3", "list"]),
        (lambda: hx.Model.from_dict({"items": [3]}), ["3", "dictionary"]),
        (lambda: hx.Model.from_dict({"items": [{"name": "A"}]}), ["'A'", "None", "revolute"]),
        (
            lambda: hx.Model.from_dict({"items": [{"type": "body", "name": "A", "weight": 1}]}),
            ["body 'A'", "'weight'", "mass"],
        ),
        (
            lambda: hx.Model.from_dict({"items": [{"type": "revolute", "name": "A", "a": "x"}]}),
            ["revolute joint 'A'", "b is missing"],
        ),
        (lambda: planar().replaced("pin", place=(1, 2)), ["'pin'", "no 'place'", "at_a"]),
        (lambda: planar().replaced("pin", at=(1, 2), at_a=(1, 2)), ["'pin'", "given twice"]),
        (lambda: planar().replaced("crank", mass=-1.0), ["'crank'", "negative"]),
        (lambda: planar().with_parameters({"wheel.mass": 1.0}), ["'wheel.mass'", "crank.mass"]),
        (lambda: planar().with_parameters({"crank.weight": 1.0}), ["'crank'", "'weight'"]),
    ],
)
def test_what_cannot_be_is_refused_by_name(bad, words):
    with pytest.raises(hx.ModelError) as caught:
        bad()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.endswith(".") and "\n" not in message


# -- edits ---------------------------------------------------------------------------------------


def test_a_copy_with_a_change_is_what_would_have_been_described():
    def two_bars(length):
        m = hx.Model()
        m.planar_body("a", hx.rod(1.0, mass=1.0), position=(0.5, 0))
        m.planar_body("b", hx.rod(length, mass=2.0), position=(1 + length / 2, 0))
        m.revolute("A", "ground", "a", at=(0, 0))
        m.revolute("B", "a", "b", at_a=(0.5, 0), at_b=(-length / 2, 0))
        m.spring_damper("s", "a", "b", stiffness=4.0)
        return m

    short = two_bars(0.6)
    solid = hx.rod(0.8, mass=2.0)
    longer = short.replaced("b", mass=solid.mass, inertia=solid.planar()[1], position=(1.4, 0))
    longer = longer.replaced("B", at_b=(-0.4, 0))
    same_system(longer, two_bars(0.8))
    same_system(short, two_bars(0.6))  # which the copies have not touched
    assert longer["s"] is short["s"]


def test_a_place_given_in_the_world_can_be_changed_in_a_body_and_back():
    model = spatial()
    moved = model.replaced("revolute", at_b=(0.1, 0.2, 0.3))
    record, before = moved["revolute"], model._joints["revolute"]
    assert record.at is None and record.at_b == (0.1, 0.2, 0.3)
    assert_allclose(record.at_a, before.point_a, atol=1e-15)
    assert_allclose(moved._joints["revolute"].axes, before.axes, atol=1e-15)
    turned = moved.replaced("revolute", axis_a=(1.0, 2.0, 3.0))["revolute"]
    assert turned.axis is None and turned.axis_a == (1.0, 2.0, 3.0)
    assert_allclose(turned.axis_b, before.axes_b[:, 2], atol=1e-15)
    back = moved.replaced("revolute", at=(0, 0, 0.1))["revolute"]
    assert back == model["revolute"]


# -- traced numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_every_number_may_be_traced_and_gives_the_same_equations(kind):
    model = MODELS[kind]()
    numbers = model.parameters()
    assert {"crank.mass", "crank.com", "distance.length"} - set(numbers) <= {"distance.length"}

    def build(numbers):
        changed = model.with_parameters(numbers)
        return jax.tree.leaves(changed.system()), changed.start_vectors()

    same_system(model.with_parameters(numbers), model)
    traced = jax.tree.leaves(jax.jit(build)(numbers))
    for x, y in zip(traced, jax.tree.leaves(build(numbers)), strict=True):
        assert_allclose(np.asarray(x, float), np.asarray(y, float), rtol=1e-13, atol=1e-14)


def skipped(name, value):
    """Numbers that may not be moved alone, or at all."""
    bound = ("ball.angular_velocity", "spherical.at_b", "universal.axes", "motor.axes")
    symmetric = np.ndim(value) == 2
    if isinstance(value, dict):  # of a function of the user's own
        return True
    return name in bound or symmetric or (np.ndim(value) == 0 and value == 0)


@pytest.mark.parametrize("kind", in_part(MODELS, {"spatial"}))
def test_derivatives_by_every_number_are_those_of_central_differences(kind):
    model = MODELS[kind]()
    numbers = {x: np.asarray(y, float) for x, y in model.parameters().items() if not skipped(x, y)}
    rng = np.random.default_rng(0)
    along = {name: rng.standard_normal(x.shape) for name, x in numbers.items()}

    def at(s):
        changed = model.with_parameters({x: y + s * along[x] for x, y in numbers.items()})
        leaves = jax.tree.leaves((changed.system(), changed.start_vectors()))
        return [x for x in leaves if jnp.asarray(x).dtype == float]

    # all numbers change at once, each at a rate of its own
    slope = jax.jit(lambda s: jax.jvp(at, (s,), (1.0,))[1])(0.0)
    h = 1e-5
    for exact, up, down in zip(slope, at(h), at(-h), strict=True):
        # rounding eps/h times the numbers' size, and h^2 times third derivatives
        assert_allclose(exact, (np.asarray(up) - down) / (2 * h), rtol=1e-7, atol=1e-7)


def test_the_parameters_of_a_custom_joint_may_be_traced():
    def row(a, t, p):
        return a.r.x - p["offset"]

    def offset_of_start(offset):
        model = hx.Model()
        model.planar_body("a", 1.0, 1.0)
        model.custom_joint("J", ["a"], row, {"offset": offset})
        return model.system().constraint(jnp.zeros(3), 0.0)[0]

    assert jax.jit(offset_of_start)(0.3) == -0.3
    assert jax.grad(offset_of_start)(0.3) == -1.0


# -- a frame that is not at the centre of mass ---------------------------------------------------

C = np.array([0.3, -0.1, 0.05])  # where the centre of mass lies


def offset_body(kind, offset):
    """One body with everything that can touch it, by coordinates that begin at the centre of mass
    or at another point."""
    flat = kind == "planar"
    d = 2 if flat else 3
    c = C[:d]
    shift = c if offset else np.zeros(d)  # what is added to coordinates from the centre of mass
    m = hx.Model()
    solid = hx.box((0.4, 0.3, 0.2), mass=2.0).moved(np.pad(shift, (0, 3 - d)))
    if flat:
        A, w = np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]]), 0.7
        across = w * np.array([[0, -1], [1, 0]])
    else:
        A, w = hx.model.bodies.rotation_matrix("", (0.2, 0.1, 0.4)), np.array([0.3, 0.2, 0.7])
        across = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    centre, speed = np.ones(d), 0.1 * np.arange(1, d + 1)
    place = {"position": centre - A @ shift, "velocity": speed - across @ (A @ shift)}
    if flat:
        m.planar_body("b", solid, angle=0.4, angular_velocity=w, **place)
    else:
        m.body("b", solid, rotation=A, angular_velocity=w, **place)
    # the point whose coordinates from the centre of mass are -c, whatever they begin at
    vec = hx.Vec2 if flat else hx.Vec3
    origin = vec.of(shift - c)
    zero = jnp.zeros(()) if flat else jnp.zeros(3)

    def pull(frame, t):
        at, back = frame.point(origin).array(), (frame.point(origin) - frame.r).array()
        force = -3.0 * at - frame.velocity(origin).array()
        return [(force, jnp.cross(back, force) + zero)]

    def wind(t, frame):
        return -frame.point(origin) * 0.5 + frame.velocity(origin) * -0.2

    m.spring_damper("spring", "ground", "b", at_b=shift + 0.2, stiffness=3.0, length=1.0)
    m.force("wind", "b", force=wind, at_b=shift - c)
    m.custom_force("pull", "b", pull)
    m.custom_joint("held", ["b"], lambda b, t: b.point(origin).x - 0.7 - 0.1 * t)
    return m, shift


@pytest.mark.parametrize("kind", in_part(MODELS, {"planar"}))
def test_coordinates_that_begin_off_the_centre_of_mass_change_nothing(kind):
    (at_centre, _), (elsewhere, shift) = offset_body(kind, False), offset_body(kind, True)
    q, v = at_centre.start_vectors()
    step = np.random.default_rng(0).standard_normal(v.size)
    moved = [
        evaluated(m.system(), 0.3, q, v, step=step, dense=True) for m in (at_centre, elsewhere)
    ]
    for x, y in zip(*map(jax.tree.leaves, moved), strict=True):
        assert_allclose(x, y, rtol=1e-13, atol=1e-13)
    one, two = (m.simulate(0.5, dt=0.005) for m in (at_centre, elsewhere))
    # the constraint is kept to a tolerance, which shows in the motion
    assert_allclose(two.q, one.q, atol=1e-7)
    assert_allclose(two.v, one.v, atol=1e-7)
    a, b = one["b"], two["b"]
    assert_allclose(b.position, a.point(-shift), atol=1e-7)
    assert_allclose(b.point(shift), a.position, atol=1e-7)
    assert_allclose(b.com, shift)
    assert_allclose(one.reaction("held").force, two.reaction("held").force, atol=1e-5)
    assert_allclose(one.momentum()[1], two.momentum()[1], atol=1e-6)
    # velocity and acceleration of the origin, by differences of fourth order
    h = 0.005
    for rate, values in ((b.velocity, b.position), (b.acceleration, b.velocity)):
        numeric = (8 * (values[3:-1] - values[1:-3]) - (values[4:] - values[:-4])) / (12 * h)
        assert_allclose(rate[2:-2], numeric, atol=3e-4)


def test_reactions_drivers_and_events_are_in_the_users_coordinates():
    def pendulum(offset):
        m = hx.Model()
        s = 0.5 if offset else 0.0
        m.planar_body("p", hx.rod(1.0, mass=2.0).moved((s, 0, 0)), position=(0.5 - s, 0))
        m.revolute("A", "p", "ground", at=(0, 0))
        return m

    one, two = (pendulum(x).simulate(0.4, dt=0.01) for x in (False, True))
    for axes in ("world", "joint"):
        assert_allclose(one.reaction("A", axes=axes).force, two.reaction("A", axes=axes).force)
    ball = hx.Model(gravity=(0, -10.0))
    ball.planar_body("b", 1.0, 0.1, com=(0.0, 0.3), position=(0.2, 1.0))
    ball.drive_coordinate("rail", "b", "x", value=0.2)
    low = hx.Event("low", lambda b, t: b.r.y, bodies=["b"], terminal=True)
    result = ball.simulate(1.0, dt=0.01, events=[low])
    assert_allclose(result["b"].position[:, 0], 0.2, atol=1e-12)
    assert_allclose(result.t[-1], np.sqrt(0.2), rtol=1e-9)


# -- point masses --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["planar", "spatial"])
def test_a_point_mass_on_a_rod_is_the_mathematical_pendulum(kind):
    """A quarter of the period from amplitude a is K(sin^2(a/2)) sqrt(l/g)."""
    flat, amplitude, length, g = kind == "planar", 2.0, 0.7, 9.81
    model = hx.Model()
    across, down = length * np.sin(amplitude), -length * np.cos(amplitude)
    if flat:
        model.planar_body("bob", hx.point_mass(3.0), position=(across, down))
    else:
        model.body("bob", hx.point_mass(3.0), position=(across, 0, down))
    model.distance("rod", "ground", "bob")
    system, start = model.build()
    assert hx.diagnose(system, start.q).mobility == (1 if flat else 2)
    quarter = ellipk(np.sin(amplitude / 2) ** 2) * np.sqrt(length / g)
    result = model.simulate(quarter, rtol=1e-10, atol=1e-10, formulation=hx.PostStabilized(),
                            integrator=hx.Dopri5())  # fmt: skip
    assert_allclose(
        result["bob"].position[-1], [0, -length] if flat else [0, 0, -length], atol=1e-8
    )
    assert np.all(result.reaction("rod").force[:, 1 if flat else 2] != 0)
    lowest = model.replaced("bob", position=(0, -length) if flat else (0, 0, -length)).linearize()
    swings = np.abs(np.imag(lowest.eigenvalues()))
    assert_allclose(swings[swings > 1e-3], np.sqrt(g / length), rtol=1e-9)


def test_a_point_mass_is_held_at_its_centre_and_not_turned():
    model = hx.Model()
    model.body("bob", hx.point_mass(1.0, at=(1.0, 0, 0)))
    model.spherical("there", "ground", "bob", at=(1, 0, 0))
    with pytest.raises(hx.ModelError, match=r"'off': it holds 'bob' at \[0\.0, 0\.0, 0\.0\]"):
        model.spherical("off", "ground", "bob", at=(0, 0, 0))
    with pytest.raises(hx.ModelError, match="'M': it turns 'bob', a point mass"):
        model.torque("M", "bob", torque=(1, 0, 0))
    assert Kept.type not in REGISTRY


# -- joints that say what they leave free --------------------------------------------------------


def test_a_screw_is_damped_in_both_its_motions():
    """Along and about the axis: (m + J/l^2) s'' = F - (c + d/l^2) s' with the lead l."""
    pitch, c, d, F, m, J = 0.5, 0.3, 0.02, 2.0, 1.5, 0.04
    lead = pitch / (2 * np.pi)
    model = hx.Model(gravity=(0, 0, 0))
    model.body("nut", m, (J, J, J))
    model.screw("thread", "ground", "nut", pitch=pitch, at=(0, 0, 0), axis=(0, 0, 1))
    model.joint_damping("oil", "thread", (c, d))
    model.force("push", "nut", force=(0, 0, F))
    result = model.simulate(1.0, dt=0.005)
    mass, drag = m + J / lead**2, c + d / lead**2
    t = result.t
    z = F / drag * (t - mass / drag * (1 - np.exp(-drag / mass * t)))
    assert_allclose(result["nut"].position[:, 2], z, atol=1e-9)


def test_a_pin_is_driven_along_its_slot():
    model = hx.Model()
    model.planar_body("pin", 1.0, 1.0, position=(0.3, 0.4))
    model.pin_in_slot("slot", "ground", "pin", at=(0.3, 0.4), direction=(3, 4))
    model.drive_translation("motor", joint="slot", displacement=lambda t: 0.5 * t)
    result = model.simulate(1.0, dt=0.1)
    assert_allclose(result["pin"].position[-1], (0.6, 0.8), atol=1e-10)


def test_the_ends_of_a_rod_are_origins_unless_given():
    model = hx.Model()
    model.planar_body("a", 1.0, 1.0, position=(3, 4))
    model.distance("rod", "ground", "a")
    model.drive_distance("winch", "ground", "a", distance=5.0)
    assert_allclose(model.system().constraint(model.start_vectors()[0], 0.0), 0.0, atol=1e-15)
