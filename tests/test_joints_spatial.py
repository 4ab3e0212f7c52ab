"""Every joint, driver and rolling condition: derivatives, reactions, freedoms, driven motion."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import native
from sections import in_part

ROTATIONS = {"a": (0.3, 0.2, 0.1), "b": (1.0, 0.2, -0.4), "c": (-0.5, 0.7, 0.2)}
POSITIONS = {"a": (0.1, 0.2, 0.3), "b": (1.0, -0.3, 0.4), "c": (0.6, 0.1, -0.8)}
AT = (0.5, 0.4, 0.1)
AXIS = (1.0, 2.0, -0.5)


def waving(t):
    return 0.7 * jnp.sin(1.3 * t) + 0.2 * t


def stretching(t):
    return 1.0 + 0.2 * jnp.sin(2.0 * t)


def rod_of_my_own(a, b, t, p):
    """A rod whose length grows with time, and a sphere joint's first component, on plain arrays."""
    d = b.point(hx.Vec3.of(p["end"])).array() - a.r.array()
    return {"rod": jnp.sqrt(d @ d) - p["length"] - 0.1 * t, "plane": jnp.dot(a.A.array()[:, 0], d)}


def no_slip_of_my_own(a, b, t, p):
    """b's point may not move, seen from a, along an axis of a."""
    at = b.point(hx.Vec3.of(p))
    slip = b.velocity(hx.Vec3.of(p)) - a.velocity(a.A.T @ (at - a.r))
    return (a.A.x.dot(slip),)


def planar_of_my_own(a, b, t):
    return (b.r - a.point(hx.Vec2(0.1, 0.2)), (b.angle - a.angle) - 0.3 * t**2)


def spatial(bodies="ab"):
    model = hx.Model(gravity=(0, 0, 0))
    for name in bodies:
        model.body(name, 1.0, (0.2, 0.3, 0.25), position=POSITIONS[name], rotation=ROTATIONS[name])
    return model


def planar(bodies="ab"):
    model = hx.Model(gravity=(0, 0))
    for name in bodies:
        model.planar_body(name, 1.0, 0.2, position=POSITIONS[name][:2], angle=ROTATIONS[name][0])
    return model


def joint(method, kind=spatial, **options):
    """A model of two free bodies with one joint between them."""

    def make():
        model = kind()
        getattr(model, method)("joint", "a", "b", **options)
        return model

    return make


def three(method, **options):
    """A model of three free bodies, the third carrying the pair of wheels."""

    def make():
        model = spatial("abc")
        getattr(model, method)("joint", "a", "b", carrier="c", **options)
        return model

    return make


def on(method, kind=spatial, **options):
    """Body b rolls or slides on a plane of the free body a."""

    def make():
        model = kind()
        getattr(model, method)("joint", "b", on="a", **options)
        return model

    return make


def coordinate(kind, which):
    def make():
        model = kind()
        model.drive_coordinate("joint", "b", which, value=waving)
        return model

    return make


def driven(method, kind=spatial, at=AT, axis=AXIS, driver="drive_angle", **options):
    """A driver that takes its bodies and axis from a joint; the joint's own rows come first."""

    def make():
        model = kind()
        where = {"at": at} if axis is None else {"at": at, "axis": axis}
        getattr(model, method)("guide", "a", "b", **where)
        getattr(model, driver)("joint", joint="guide", **options)
        return model

    return make


def custom(method, kind, function, parameters=None):
    def make():
        model = kind()
        getattr(model, method)("joint", ["a", "b"], function, parameters)
        return model

    return make


PLACED = {"at": AT, "axis": AXIS}
DISC = {"radius": 0.4, "axis": (1.0, 0.2, 0.3), "normal": (0.1, 0.2, 1.0), "point": (0, 0, -0.3)}
ROD = {"end": (0.1, 0.2, 0.3), "length": 1.1}

# name: (model, rows)
CASES = {
    "spherical": (joint("spherical", at=AT), 3),
    "revolute": (joint("revolute", **PLACED), 5),
    "prismatic": (joint("prismatic", **PLACED), 5),
    "cylindrical": (joint("cylindrical", **PLACED), 4),
    "screw": (joint("screw", pitch=0.3, **PLACED), 5),
    "universal": (joint("universal", at=AT, axes=((1, 0, 0), (0, 1, 1))), 4),
    "planar joint": (joint("planar_joint", **PLACED), 3),
    "fixed": (joint("fixed"), 6),
    "distance": (joint("distance", at_a=(0.1, 0, 0.2), at_b=(0, 0.3, 0)), 1),
    "point on line": (joint("point_on_line", **PLACED), 2),
    "point on plane": (joint("point_on_plane", **PLACED), 1),
    "gear": (three("gear", teeth=(20, 30), axis=AXIS), 1),
    "rack": (three("rack_and_pinion", radius=0.3, axis=AXIS, direction=(1, 0, 2)), 1),
    "angle driver": (joint("drive_angle", axis=AXIS, angle=waving), 1),
    "distance driver": (joint("drive_distance", at_a=(0.1, 0, 0), distance=stretching), 1),
    "translation driver": (joint("drive_translation", displacement=waving, **PLACED), 1),
    "coordinate driver": (coordinate(spatial, "z"), 1),
    "rolling disc": (on("rolling_disc", **DISC), 3),
    "knife edge": (on("knife_edge", at=AT, direction=AXIS, normal=(0.1, 0, 1)), 1),
    "custom joint": (custom("custom_joint", spatial, rod_of_my_own, ROD), 2),
    "custom rate joint": (
        custom("custom_rate_joint", spatial, no_slip_of_my_own, np.array([0.1, 0.2, 0.3])),
        1,
    ),
    "planar driven angle": (driven("revolute", planar, AT[:2], None, angle=waving), 3),
    "planar driven slide": (
        driven("prismatic", planar, AT[:2], (1, 2), "drive_translation", displacement=waving),
        3,
    ),
    "planar distance driver": (
        joint("drive_distance", planar, at_a=(0.1, 0.1), distance=stretching),
        1,
    ),
    "planar coordinate driver": (coordinate(planar, "angle"), 1),
    "planar knife edge": (on("knife_edge", planar, at=AT[:2], direction=(1, 3)), 1),
    "planar custom joint": (custom("custom_joint", planar, planar_of_my_own), 3),
}
AGAINST_THE_WORLD = ("coordinate driver", "planar coordinate driver")
NOT_AT_START = (
    *AGAINST_THE_WORLD,
    "distance driver",
    "planar distance driver",
    "rolling disc",
    "custom joint",
    "planar custom joint",
)


@native
def probe(system, q, step, v, t, d):
    """What the system says at q moved by `step`, and the derivative of G along d."""

    def jacobian(s):
        return system.jacobian(system.retract(q, step + s * d), t)

    G, slope = jax.jvp(jacobian, (0.0,), (1.0,))
    q = system.retract(q, step)
    return {
        "q": system.normalize(q),
        "g": system.constraint(q, t),
        "rate": system.constraint_rate(q, v, t),
        "gamma": system.gamma(q, v, t),
        "G": G,
        "G along d": slope,
    }


@native
def constraint_force(system, q, t, lam, d):
    """G^T lam and its derivative along d."""

    def force(s):
        return system.constraint_force(system.retract(q, s * d), t, lam)

    return jax.jvp(force, (0.0,), (1.0,))


class Case:
    """A system with its probe at random places."""

    def __init__(self, name):
        make, self.rows = CASES[name]
        self.name = name
        self.model = make()
        self.system = self.model.system()
        self.planar = self.system.bodies.translations == 2
        self.n = len(self.system.bodies.names)
        self.dof = 3 if self.planar else 6
        self.nv = self.n * self.dof

    def random(self, seed):
        """A random state (q, v, t) and a direction."""
        rng = np.random.default_rng(seed)
        q = rng.standard_normal((3 if self.planar else 7, self.n))
        if not self.planar:
            q[3:] /= np.linalg.norm(q[3:], axis=0)
        v, d = rng.standard_normal((2, self.nv))
        return q.ravel(), v, rng.uniform(0, 3), d

    def assembled(self, seed):
        """A random state near the described one that satisfies the constraint, by Newton."""
        _, v, t, d = self.random(seed)
        q, _ = self.model.start_vectors()
        step = 0.3 * d
        for _ in range(12):
            here = self.at(q, v, t, d, step)
            q = here["q"]
            step = -np.linalg.lstsq(here["G"][: here["g"].size], here["g"])[0]
        close(here["g"], np.zeros_like(here["g"]))
        return q, v, t, d

    def at(self, q, v, t, d, step=None):
        step = np.zeros(self.nv) if step is None else step
        out = probe(self.system, q, step, v, jnp.asarray(t, float), d)
        return {key: np.asarray(x) for key, x in out.items()}

    def difference(self, key, q, v, t, d, along, rate=0.0):
        """d/ds of `key` at (q moved by s * along, t + s * rate), by a fourth-order stencil.

        With s = 2e-4 its truncation (1e-16 times the fifth derivative, which may reach 1e5 where a
        random direction nearly meets an axis) and its rounding (1e-12) stay below 1e-10.
        """
        s = 2e-4
        f = {k: self.at(q, v, t + k * s * rate, d, k * s * along)[key] for k in (-2, -1, 1, 2)}
        return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * s)


def close(got, expected):
    scale = 1.0 + np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-8 * scale)


def null_space_part(G, v):
    _, s, vt = np.linalg.svd(G)
    null = vt[np.sum(s > 1e-9) :]
    return null.T @ (null @ v)


def rotation(e):
    w, x, y, z = e
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


@pytest.fixture(scope="module")
def case(request):
    return Case(request.param)


# One case after the other, so that the compiled program of each is made once and shared.
@pytest.mark.parametrize("case", list(CASES), indirect=True, scope="module")
class TestEveryJoint:
    @pytest.mark.parametrize("seed", in_part([1, 2, 3], {"2", "3"}))
    def test_derivatives_agree_with_differences(self, case, seed):
        q, v, t, d = state = case.random(seed)
        here = case.at(*state)
        held = here["g"].shape[0]

        close(here["rate"][:held], case.difference("g", *state, along=v, rate=1.0))
        columns = [case.difference("g", *state, along=e) for e in np.eye(case.nv)]
        close(here["G"][:held], np.stack(columns, axis=1))
        close(-here["gamma"], case.difference("rate", *state, along=v, rate=1.0))
        # lam does not depend on q, so this is (G^T lam)_q for every lam
        close(here["G along d"], case.difference("G", *state, along=d))
        # the rows that hold no position are linear in v, with A as their derivative
        at_rest = case.at(q, 0 * v, t, d)["rate"]
        close(here["rate"], at_rest + here["G"] @ v)

    def test_reactions_balance_and_do_no_work(self, case):
        q, v, _, _ = state = case.assembled(4)
        G = case.at(*state)["G"]
        assert G.shape == (case.rows, case.nv)
        lam = np.arange(1.0, case.rows + 1)
        load = G.T @ lam
        assert abs(load @ null_space_part(G, v)) < 1e-12 * (1 + np.linalg.norm(load))
        if case.name in AGAINST_THE_WORLD:
            return
        wrench, d = load.reshape(case.dof, case.n), 2 if case.planar else 3
        force, torque = wrench[:d].T, wrench[d:].T
        pose = q.reshape(-1, case.n)
        close(force.sum(0), np.zeros(d))
        if case.planar:
            moment = pose[0] * force[:, 1] - pose[1] * force[:, 0] + torque[:, 0]
        else:
            turned = [rotation(e) @ x for e, x in zip(pose[3:].T, torque)]
            moment = np.cross(pose[:3].T, force) + np.stack(turned)
        close(moment.sum(0), 0.0 if case.planar else np.zeros(3))

    def test_start_satisfies_it_and_it_takes_its_freedoms(self, case):
        q, v = case.model.start_vectors()
        here = case.at(q, v, 0.0, v)
        assert np.linalg.matrix_rank(here["G"], tol=1e-9) == case.rows
        if case.name not in NOT_AT_START:
            close(here["g"], np.zeros_like(here["g"]))


@pytest.mark.parametrize("name", ["universal", "gear", "rolling disc", "planar custom joint"])
def test_constraint_force_is_the_transposed_jacobian(name):
    case = Case(name)
    q, v, t, d = case.random(5)
    here = case.at(q, v, t, d)
    lam = np.arange(1.0, case.rows + 1)
    force, slope = constraint_force(case.system, q, jnp.asarray(t), lam, d)
    close(force, here["G"].T @ lam)
    close(slope, here["G along d"].T @ lam)


@pytest.mark.parametrize("name, mobility", [("revolute", 7), ("screw", 7), ("universal", 8)])
def test_diagnosis_tells_the_mobility(name, mobility):
    model = CASES[name][0]()
    system, start = model.system(), model.start_vectors()[0]
    assert hx.diagnose(system, start).mobility == mobility


# -- prescribed motion, over more than one turn ------------------------------------------------


def turning(t):
    return 3.0 * t + t**2


def turned(case, body, axis, angle, *, about=None, shift=(0, 0, 0)):
    """The step that turns a body from its start by `angle` about a world axis, then shifts it."""
    step = np.zeros((6, case.n))
    start = case.model._bodies[body]
    n = np.asarray(axis) / np.linalg.norm(axis)
    k = case.system.bodies.names.index(body)
    step[3:, k] = start.rotation.T @ n * angle
    step[:3, k] = shift
    if about is not None:
        arm = start.position - about
        along, side = n * (n @ arm), np.cross(n, arm)
        round_axis = along + np.cos(angle) * (arm - along) + np.sin(angle) * side
        step[:3, k] += round_axis - arm
    return step.ravel()


def gear_turned(case, angle):
    return turned(case, "a", AXIS, angle) + turned(case, "b", AXIS, -20 / 30 * angle)


def rack_moved(case, angle):
    u = np.array([1, 0, 2]) / np.sqrt(5)
    return turned(case, "a", AXIS, angle) + turned(case, "b", AXIS, 0.0, shift=0.3 * angle * u)


def screw_turned(case, angle):
    n = np.array(AXIS) / np.linalg.norm(AXIS)
    return turned(case, "b", AXIS, angle, about=AT, shift=0.3 * angle / (2 * np.pi) * n)


def motor_turned(case, angle):
    return turned(case, "b", AXIS, waving(angle))


@pytest.mark.parametrize(
    "name, moved",
    [
        ("gear", gear_turned),
        ("rack", rack_moved),
        ("screw", screw_turned),
        ("angle driver", motor_turned),
    ],
)
def test_angles_hold_over_many_turns(name, moved):
    case = Case(name)
    q, v = case.model.start_vectors()
    for angle in np.linspace(-25, 25, 41):
        right = case.at(q, v, angle, v, np.asarray(moved(case, angle)))["g"]
        assert np.max(np.abs(right)) < 1e-13


# At 5 ms RK4 integrates g'' = 0 of these motions to some 1e-7, and the drift is not corrected:
# the constraint's own second derivative has to be right for every number below.
INDEX1 = {"dt": 0.005, "formulation": hx.Index1(), "integrator": hx.RK4()}


def test_motor_turns_its_wheel_and_carries_its_inertia():
    model = hx.Model(gravity=(0, 0, 0))
    model.body("wheel", 2.0, (0.2, 0.2, 0.3))
    model.revolute("pin", "ground", "wheel", at=(0, 0, 0), axis=(0, 0, 1))
    model.drive_angle("motor", joint="pin", angle=turning)
    result = model.simulate(2.0, **INDEX1)
    assert result.success, result.message
    angle = np.asarray(turning(np.asarray(result.t)))
    assert angle[-1] > 2 * np.pi
    A = result["wheel"].rotation
    np.testing.assert_allclose(A[:, 0, 0], np.cos(angle), atol=1e-6)
    np.testing.assert_allclose(A[:, 1, 0], np.sin(angle), atol=1e-6)
    np.testing.assert_allclose(result.reaction("motor").torque[:, 2], 2 * 0.3, rtol=1e-8)


@pytest.mark.slow  # six types of elements: a minute of compiling
def test_gear_train_turns_as_its_teeth_say_and_loads_its_motor():
    """A motor turns three wheels, a rack and a screw by more than a turn."""
    model = hx.Model(gravity=(0, 0, 0))
    J, m, z = 0.3, 2.0, (0, 0, 1)
    places = {"sun": (0, 0, 0), "planet": (0.3, 0, 0), "ring": (0, 0, 0.5)}
    for name, at in places.items():
        model.body(name, m, (0.2, 0.2, J), position=at)
        model.revolute(f"pin of {name}", "ground", name, at=at, axis=z)
    model.body("rack", m, (0.2, 0.2, J), position=(0, 0.1, 0))
    model.prismatic("guide", "ground", "rack", at_b=(0, 0, 0), axis=(1, 0, 0))
    model.body("nut", m, (0.2, 0.2, J), position=(0, 2, 0))
    model.screw("thread", "ground", "nut", at=(0, 2, 0), axis=z, pitch=0.02)
    model.drive_angle("motor", joint="pin of sun", angle=turning)
    model.drive_angle("spindle", joint="thread", angle=turning)
    model.gear("mesh", "sun", "planet", teeth=(40, 20), axis=z)
    model.gear("ring mesh", "sun", "ring", ratio=0.5, internal=True, axis=z)
    model.rack_and_pinion("teeth", "sun", "rack", radius=0.1, axis=z, direction=(1, 0, 0))

    result = model.simulate(2.0, **INDEX1)
    assert result.success, result.message
    angle = np.asarray(turning(np.asarray(result.t)))
    assert angle[-1] > 2 * np.pi
    for name, turn in {"sun": 1.0, "planet": -2.0, "ring": 0.5, "nut": 1.0}.items():
        A = result[name].rotation
        np.testing.assert_allclose(A[:, 0, 0], np.cos(turn * angle), atol=1e-6)
        np.testing.assert_allclose(A[:, 1, 0], np.sin(turn * angle), atol=1e-6)
    np.testing.assert_allclose(result["nut"].position[:, 2], 0.02 * angle / (2 * np.pi), atol=1e-7)
    np.testing.assert_allclose(result["rack"].position[:, 0], 0.1 * angle, atol=1e-7)
    # what the motor accelerates, at 2 rad/s^2, as its own axis feels it
    inertia = J * (1 + 2.0**2 + 0.5**2) + m * 0.1**2
    np.testing.assert_allclose(result.reaction("motor").torque[:, 2], 2 * inertia, rtol=1e-8)


def test_drivers_of_the_plane_and_of_space_follow_their_functions():
    """Displacements and distances are the same elements in the plane, which compiles faster."""
    model = hx.Model(gravity=(0, 0))
    for i, name in enumerate(["wheel", "pinion", "slider", "jack", "lift"]):
        model.planar_body(name, 2.0, 0.3, position=(i, 0), angle=0.1 * i)
    model.revolute("pin", "ground", "wheel", at=(0, 0))
    model.revolute("pinion pin", "ground", "pinion", at=(1, 0))
    model.drive_angle("motor", joint="pin", angle=turning)
    model.gear("mesh", "wheel", "pinion", ratio=np.pi)
    for name, at in {"slider": (2, 0), "jack": (3, 0), "lift": (4, 0)}.items():
        model.prismatic(f"guide of {name}", "ground", name, at=at, axis=(0, 1))
    model.drive_translation("feed", joint="guide of slider", displacement=waving)
    model.drive_distance("ram", "ground", "jack", at=((3, -1), (3, 0)), distance=stretching)
    model.drive_coordinate("hoist", "lift", "y", value=waving)

    result = model.simulate(2.0, **INDEX1)
    assert result.success, result.message
    t = np.asarray(result.t)
    wave = np.asarray(waving(t))
    expected = {
        "wheel": turning(t),
        "pinion": 0.1 - np.pi * turning(t),
        "slider": wave,
        "jack": np.asarray(stretching(t)) - 1.0,
        "lift": wave,
    }
    for name, value in expected.items():
        body = result[name]
        got = body.angle if name in ("wheel", "pinion") else body.position[:, 1]
        np.testing.assert_allclose(got, value, atol=1e-8)


def test_a_disc_that_rolls_does_not_slip():
    model = hx.Model(gravity=(0, 0, 0))
    R, w = 0.4, 1.7
    model.body(
        "disc", 1.0, (0.1, 0.2, 0.1), position=(0, 0, R), velocity=(R * w, 0, 0),
        angular_velocity=(0, w, 0),
    )  # fmt: skip
    model.rolling_disc("rim", "disc", radius=R, axis=(0, 1, 0))
    system = model.system()
    q, v = (jnp.asarray(x) for x in model.start_vectors())
    assert np.max(np.abs(system.constraint(q, 0.0))) < 1e-15
    assert np.max(np.abs(system.constraint_rate(q, v, 0.0))) < 1e-15
    slipping = system.constraint_rate(q, v.at[0].add(0.1), 0.0)
    assert np.isclose(np.linalg.norm(slipping), 0.1)


def test_elements_that_share_a_function_share_a_group():
    model = spatial("abc")
    model.custom_joint("one", ["a", "b"], rod_of_my_own, ROD)
    model.custom_joint("two", ["b", "c"], rod_of_my_own, {**ROD, "length": 2.0})
    model.drive_coordinate("x", "a", "x", value=waving)
    model.drive_coordinate("fixed x", "c", "x", value=0.3)
    groups = model.system().bodies.joints
    assert [g.names for g in groups] == [("one", "two"), ("x",), ("fixed x",)]


# -- what is refused -----------------------------------------------------------------------------


def pinned(model):
    model.revolute("pin", "a", "b", **PLACED)
    return model


REFUSED = {
    "its place is missing": lambda m: m.spherical("j", "a", "b"),
    "axis has no length": lambda m: m.prismatic("j", "a", "b", at=AT, axis=(0, 0, 0)),
    "pitch is zero": lambda m: m.screw("j", "a", "b", pitch=0, **PLACED),
    "not normal to each other": lambda m: m.universal("j", "a", "b", at=AT, axes=(AXIS, AXIS)),
    "axes are missing": lambda m: m.universal("j", "a", "b", at=AT, axis_a=AXIS),
    "must be positive. For points that": lambda m: m.distance("j", "a", "b", at=(AT, AT)),
    "two world points": lambda m: m.distance("j", "a", "b", at=3.0),
    "two positive whole numbers": lambda m: m.gear("j", "a", "b", axis=AXIS, teeth=(20, 2.5)),
    "Give teeth": lambda m: m.gear("j", "a", "b", axis=AXIS, ratio=np.pi),
    "internal=True": lambda m: m.gear("j", "a", "b", axis=AXIS, ratio=-2),
    "give either teeth": lambda m: m.gear("j", "a", "b", axis=AXIS),
    "connects body 'a' to itself": lambda m: m.gear("j", "a", "b", axis=AXIS, carrier="a"),
    "there is no body 'x'": lambda m: m.fixed("j", "a", "x"),
    "there is no joint 'x'": lambda m: m.drive_angle("j", joint="x", angle=0.0),
    "which it cannot drive": lambda m: m.drive_translation("j", joint="pin", displacement=0.0),
    "what it drives is missing": lambda m: m.drive_angle("j", angle=0.0),
    "brings its bodies": lambda m: m.drive_angle("j", "a", "b", joint="pin", angle=0.0),
    "Give a function of time": lambda m: m.drive_coordinate("j", "a", "x", value=np.sin),
    "returns an array": lambda m: m.drive_coordinate(
        "j", "a", "x", value=lambda t: t * jnp.ones(2)
    ),
    "is not one of a spatial": lambda m: m.drive_coordinate("j", "a", "angle", value=0.0),
    "it must be positive": lambda m: m.drive_distance("j", "a", "b", at_a=AT, distance=-1.0),
    "lies flat": lambda m: m.rolling_disc("j", "a", radius=1.0, axis=(0, 0, 1)),
    "radius=-1": lambda m: m.rolling_disc("j", "a", radius=-1.0, axis=(0, 1, 0)),
    "its edge is along": lambda m: m.knife_edge("j", "a", at=AT, direction=(0, 0, 1)),
    "its point is missing": lambda m: m.knife_edge("j", "a", direction=(1, 0, 0)),
    "returns nothing": lambda m: m.custom_joint("j", ["a"], lambda a, t: None),
    "fails: ZeroDivisionError": lambda m: m.custom_joint("j", ["a"], lambda a, t: 1 / 0),
    "constrains nothing": lambda m: m.custom_joint("j", ["a"], lambda a, t: (a.r.x, t)),
    "is not finite in": lambda m: m.custom_joint("j", ["a"], lambda a, t: jnp.log(a.r.x - 2)),
    "Use custom_rate_joint": lambda m: m.custom_joint("j", ["a"], lambda a, t: a.r.x + a.v.x),
    "must be linear": lambda m: m.custom_rate_joint("j", ["a"], lambda a, t: a.v.x**2),
    "parameters is not": lambda m: m.custom_joint("j", ["a"], lambda a, t, p: a.r.x, np.nan),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals_name_the_joint_and_the_remedy(message):
    with pytest.raises(hx.ModelError) as refusal:
        REFUSED[message](pinned(spatial()))
    assert message in str(refusal.value)
    assert "'j'" in str(refusal.value)
