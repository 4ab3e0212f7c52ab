"""Forces: their derivatives, energies and reciprocity, and motions known in closed form.

Each kind of body has one system of many independent pairs of bodies, one force on each pair, so
that a single compiled program serves all forces. Central differences with the step h = 1e-5 err by
h^2/6 times a third derivative and by round-off / h, both below 1e-9 of the values met here.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import native
from holonax.model import forces
from holonax.result.motion import body_motion
from holonax.rotation import Vec3
from holonax.system.frames import Frame
from sections import in_part

H = 1e-5
TOLERANCE = 1e-8


def attraction(a, b, t, p):
    """A user's force: a soft attraction of two points, with potential `soft`."""
    d = (b.r - a.r).array()
    f = p["k"] * d / jnp.sqrt(1 + d @ d)
    none = jnp.zeros(()) if d.shape == (2,) else jnp.zeros(3)
    return [(f, none), (-f, none)]


def soft(a, b, p):
    d = (b.r - a.r).array()
    return p["k"] * jnp.sqrt(1 + d @ d)


def pull(t, length, speed):
    return jnp.sin(2 * t) * length**2 - 0.3 * speed * length


def stiffness(size):
    root = np.random.default_rng(7).normal(size=(size, size))
    return root @ root.T


PAIRS = (
    "spring",
    "zero-length spring",
    "actuator",
    "torsion spring",
    "torsion actuator",
    "bushing",
    "custom",
    "revolute damping",
    "prismatic damping",
    "revolute friction",
    "prismatic friction",
)
SPATIAL_PAIRS = (
    *PAIRS,
    "cylindrical damping",
    "spherical damping",
    "cylindrical friction",
    "spherical friction",
)
PLANAR_PAIRS = (*PAIRS, "pin_in_slot damping", "pin_in_slot friction")
SINGLES = (
    "world force",
    "body force of time",
    "world force of state",
    "world torque",
    "body torque of time",
    "world torque of state",
)
CONSERVATIVE = ("spring", "zero-length spring", "torsion spring", "bushing", "custom")


class Bench:
    """All forces of one kind of body, each on bodies of its own."""

    def __init__(self, kind):
        self.planar = kind == "planar"
        self.pairs = PLANAR_PAIRS if self.planar else SPATIAL_PAIRS
        self.d = 2 if self.planar else 3
        self.model = hx.Model(gravity=np.zeros(self.d))
        for name in self.pairs:
            self.body(f"{name} a")
            self.body(f"{name} b")
            self.pair(name, f"{name} a", f"{name} b")
        for name in SINGLES:
            self.body(name + " a")
            self.single(name, name + " a")
        self.system = self.model.system()
        self.names = self.system.bodies.names

    def v3(self, *x):
        return x[: self.d]

    def body(self, name):
        if self.planar:
            self.model.planar_body(name, 1.0, 1.0)
        else:
            self.model.body(name, 1.0, (1.0, 1.0, 1.0))  # no gyroscopic torque

    def pair(self, name, a, b):
        m, v3 = self.model, self.v3
        ends = {"at_a": v3(0.2, 0.1, -0.3), "at_b": v3(-0.1, 0.4, 0.2)}
        axis = {} if self.planar else {"axis": (1.0, 2.0, -1.0)}
        word = name.split()
        if name == "spring":
            m.spring_damper(name, a, b, **ends, stiffness=3.0, damping=0.5, length=0.7)
        elif name == "zero-length spring":
            m.spring_damper(name, a, b, **ends, stiffness=3.0, damping=0.5, length=0.0)
        elif name == "actuator":
            m.spring_damper(name, a, b, **ends, actuator=pull)
        elif name == "torsion spring":
            m.torsion_spring(name, a, b, **axis, stiffness=2.0, damping=0.3, angle=0.4)
        elif name == "torsion actuator":
            m.revolute(name + " joint", a, b, at=v3(0, 0, 0), **axis)
            m.torsion_spring(name, joint=name + " joint", stiffness=1.0, actuator=pull)
        elif name == "bushing":
            size = 3 if self.planar else 6
            turned = (1.0, 2.0) if self.planar else (0.3, -0.2, 0.5)
            K, C = stiffness(size), 0.3 * np.ones(size)
            m.bushing(name, a, b, at=v3(0.3, 0.2, 0.1), axes=turned, stiffness=K, damping=C)
        elif name == "custom":
            m.custom_force(name, (a, b), attraction, {"k": 1.7}, potential=soft)
        else:
            self.resisted(name, word[0], word[1], a, b)

    def resisted(self, name, joint, what, a, b):
        options = {"at": self.v3(0.3, 0.2, 0.1)}
        if joint == "pin_in_slot":
            options["direction"] = (1.0, 2.0)
        elif joint == "prismatic" or (joint != "spherical" and not self.planar):
            options["axis"] = self.v3(1.0, 2.0, -1.0)
        getattr(self.model, joint)(name + " joint", a, b, **options)
        both = joint == "cylindrical"
        if what == "damping":
            self.model.joint_damping(name, name + " joint", (0.5, 0.9) if both else 0.5)
        else:
            self.model.joint_friction(name, name + " joint", (2.0, 3.0) if both else 2.0, 0.5)

    def single(self, name, body):
        m = self.model
        axes = name.split()[0]
        value = self.v3(1.0, 2.0, 3.0)
        at = {"at_b": self.v3(0.3, 0.2, 0.1)}
        if "torque" in name:
            value, at = (2.0 if self.planar else value), {}
        what = "torque" if "torque" in name else "force"

        def of_time(t):
            return jnp.sin(3 * t) * jnp.asarray(value)

        def of_state(t, frame):
            if what == "torque" and self.planar:
                return -frame.w * frame.r.x
            return frame.v * (-frame.r.x) if what == "force" else frame.w * (-frame.r.x)

        given = of_time if "time" in name else of_state if "state" in name else value
        getattr(m, what)(name, body, **at, **{what: given}, axes=axes)

    def columns(self, name):
        """The bodies of a force."""
        return [i for i, body in enumerate(self.names) if body in (f"{name} a", f"{name} b")]


@native
def derivative(system, q, v, t, dq, dv):
    """The force, and its derivative along an increment of q and v."""
    zero = jnp.zeros_like(v)
    at = lambda x, y: system.force(system.retract(q, x), y, t)  # noqa: E731
    return jax.jvp(at, (zero, v), (dq, dv))


@native
def potential_gradient(system, q):
    zero = jnp.zeros((system.velocity_size(q.size),))
    return jax.grad(lambda x: system.potential_energy(system.retract(q, x)))(zero)


class Draw:
    """One random state: rows of components over bodies."""

    def __init__(self, bench, seed):
        system, n, d = bench.system, len(bench.names), bench.d
        dof = 3 if bench.planar else 6
        rng = np.random.default_rng(seed)
        start, _ = bench.model.start_vectors()
        size = np.repeat([1.0] * d + [0.5] * (dof - d), n)  # turns well below pi
        q = np.asarray(system.retract(start, size * rng.normal(size=dof * n)))
        v, dq, dv = rng.normal(size=(3, dof * n))
        t = 0.6
        force, exact = derivative(system, q, v, t, dq, dv)
        force_at = lambda q, v: derivative(system, q, v, t, dq, dv)[0]  # noqa: E731
        ends = [force_at(system.retract(q, s * H * dq), v + s * H * dv) for s in (1, -1)]
        rows = lambda x: np.asarray(x).reshape(-1, n)  # noqa: E731
        self.q, self.v, self.force, self.exact = rows(q), rows(v), rows(force), rows(exact)
        self.differences = rows((ends[0] - ends[1]) / (2 * H))
        self.at_rest = rows(force_at(q, 0 * v))
        self.gradient = rows(potential_gradient(system, q))
        motion = partial(body_motion, system)
        zero = np.zeros((1, dof * n))
        self.rotation = None
        if not bench.planar:
            self.rotation = np.stack(
                [motion(b, q[None], zero, zero).rotation[0] for b in bench.names]
            )


_made = {}


def bench_and_draws(kind):
    if kind not in _made:
        bench = Bench(kind)
        _made[kind] = bench, [Draw(bench, seed) for seed in range(4)]
    return _made[kind]


EVERY = [
    *(("planar", name) for name in (*PLANAR_PAIRS, *SINGLES)),
    *(("spatial", name) for name in (*SPATIAL_PAIRS, *SINGLES)),
]
BETWEEN = [(kind, name) for kind, name in EVERY if name not in SINGLES]
STORING = [(kind, name) for kind, name in EVERY if name in CONSERVATIVE]
RESISTING = [
    (kind, name)
    for kind, name in BETWEEN
    if name.split()[-1] in ("spring", "bushing", "damping", "friction")
]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_force_derivatives_match_central_differences(kind, name):
    bench, draws = bench_and_draws(kind)
    at = bench.columns(name)
    for draw in draws:
        scale = 1 + np.abs(draw.exact[:, at]).max()
        np.testing.assert_allclose(
            draw.exact[:, at], draw.differences[:, at], atol=TOLERANCE * scale
        )
    constant = name in ("world torque", "body torque of time") and kind == "planar"
    moved = max(np.abs(draw.exact[:, at]).max() for draw in draws)
    assert (moved == 0) == constant


@pytest.mark.parametrize(("kind", "name"), STORING)
def test_the_force_at_rest_is_minus_the_gradient_of_the_potential(kind, name):
    bench, draws = bench_and_draws(kind)
    at = bench.columns(name)
    for draw in draws:
        scale = 1 + np.abs(draw.gradient[:, at]).max()
        np.testing.assert_allclose(draw.at_rest[:, at], -draw.gradient[:, at], atol=1e-13 * scale)
        assert np.abs(draw.gradient[:, at]).max() > 1e-3


def test_dampers_loads_and_actuators_store_nothing():
    for kind in ("planar", "spatial"):
        bench, draws = bench_and_draws(kind)
        for name in (*bench.pairs, *SINGLES):
            if name not in CONSERVATIVE and name != "torsion actuator":
                assert np.all(draws[0].gradient[:, bench.columns(name)] == 0)


@pytest.mark.parametrize(("kind", "name"), BETWEEN)
def test_action_is_reaction(kind, name):
    """No resultant and no moment about the origin on the pair of bodies."""
    bench, draws = bench_and_draws(kind)
    at = bench.columns(name)
    d = bench.d
    for draw in draws:
        r, force, torque = draw.q[:d, at].T, draw.force[:d, at].T, draw.force[d:, at].T
        scale = 1 + np.abs(draw.force[:, at]).max() * (1 + np.abs(r).max())
        if bench.planar:
            moment = torque[:, 0] + r[:, 0] * force[:, 1] - r[:, 1] * force[:, 0]
        else:
            moment = np.einsum("nij,nj->ni", draw.rotation[at], torque) + np.cross(r, force)
        np.testing.assert_allclose(force.sum(axis=0), 0, atol=1e-13 * scale)
        np.testing.assert_allclose(moment.sum(axis=0), 0, atol=1e-13 * scale)


@pytest.mark.parametrize(("kind", "name"), RESISTING)
def test_resistance_takes_energy(kind, name):
    bench, draws = bench_and_draws(kind)
    at = bench.columns(name)
    for draw in draws:
        power = np.sum((draw.force - draw.at_rest)[:, at] * draw.v[:, at])
        assert power < 0
        if name.split()[-1] in ("damping", "friction"):
            assert np.all(draw.at_rest[:, at] == 0)


def cross(a, b):
    return np.cross(a, b) if a.size == 3 else a[0] * b[1] - a[1] * b[0]


def test_applied_forces_are_what_was_given():
    t = 0.6
    for kind in ("planar", "spatial"):
        bench, (draw, *_) = bench_and_draws(kind)
        d = bench.d
        value, arm = np.array([1.0, 2.0, 3.0])[:d], np.array([0.3, 0.2, 0.1])[:d]

        def at(name, bench=bench, draw=draw, d=d):
            (i,) = bench.columns(name)
            A = None if bench.planar else draw.rotation[i]
            if bench.planar:
                c, s = np.cos(draw.q[2, i]), np.sin(draw.q[2, i])
                A = np.array([[c, -s], [s, c]])
            return A, draw.force[:d, i], draw.force[d:, i], draw.q[:, i], draw.v[:, i]

        A, force, torque, _, _ = at("world force")
        np.testing.assert_allclose(force, value)
        np.testing.assert_allclose(torque, cross(arm, A.T @ value), rtol=1e-13)
        A, force, torque, _, _ = at("body force of time")
        np.testing.assert_allclose(force, np.sin(3 * t) * (A @ value), rtol=1e-13)
        np.testing.assert_allclose(torque, np.sin(3 * t) * cross(arm, value), atol=1e-14)
        A, force, _, q, v = at("world force of state")
        np.testing.assert_allclose(force, -q[0] * v[:d], rtol=1e-13)
        A, force, torque, _, _ = at("world torque")
        np.testing.assert_allclose(torque, 2.0 if bench.planar else A.T @ value, rtol=1e-13)
        assert np.all(force == 0)


def test_joint_resistance_has_the_size_it_was_given():
    """Far above its transition speed dry friction is the full moment, whatever the speed."""
    law = forces.Resistance(jnp.asarray(0.0), jnp.asarray(2.0), jnp.asarray(0.1))
    np.testing.assert_allclose(law.against(jnp.asarray([-5.0, 0.0, 50.0])), [-2.0, 0.0, 2.0])
    pushed = law.against_vector(Vec3.of(jnp.asarray([3.0, 0.0, 4.0])))
    np.testing.assert_allclose(pushed.array(), [1.2, 0.0, 1.6])
    slope = jax.jvp(lambda x: law.against_vector(Vec3(x, 0.0, 0.0)).x, (0.0,), (1.0,))[1]
    np.testing.assert_allclose(slope, 2.0 / 0.1)


def test_a_spring_of_no_length_is_linear_where_its_ends_meet():
    zero, one = jnp.zeros(1), jnp.ones(1)
    law = forces.SpringLaw(5.0 * one, zero, zero, zero, None)
    none = Vec3(zero, zero, zero)
    spring = forces.SpringDamperForce(law, none, none)
    ground = Frame.ground()

    def pushed(x):
        moved = ground.with_pose((Vec3(x, zero, zero), ground.A))
        return spring.wrenches(ground, moved, t=0.0)[1][0].x

    assert jax.jvp(pushed, (zero,), (one,))[1] == -5.0


# -- motions ---------------------------------------------------------------------------------


def test_oscillators_dampers_friction_and_actuators_follow_their_closed_forms():
    """Five bodies that do not touch each other, one run. RK4's error is some (rate dt)^4 per unit
    of time: the fastest rate, friction / (mass transition speed) = 40/s at 1 ms, gives 2.6e-6 of
    the 5% of the speed that are left while it acts; the others, at 3/s, 1e-10."""
    k, c, m, J = 9.0, 1.2, 1.5, 0.8
    model = hx.Model(gravity=(0.0, 0.0))
    model.planar_body("free", m, 1.0, position=(1.3, 0.0))
    model.planar_body("damped", m, 1.0, position=(1.3, 0.0))
    model.planar_body("twisted", m, J, angle=0.4)
    model.planar_body("slider", m, 1.0, velocity=(1.0, 0.0))
    model.planar_body("motor", m, J)
    model.spring_damper("s1", model.ground, "free", at_a=(0, 0), stiffness=k, length=1.0)
    model.spring_damper(
        "s2", model.ground, "damped", at=((0, 0), (1.3, 0)), stiffness=k, damping=c, length=1.0
    )
    model.revolute("hinge", model.ground, "twisted", at=(0, 0))
    model.torsion_spring("s3", joint="hinge", stiffness=2.0, angle=0.1)
    model.prismatic("rail", model.ground, "slider", at=(0, 0), axis=(1, 0))
    model.joint_friction("f", "rail", friction=3.0, transition_speed=0.05)
    model.revolute("axle", model.ground, "motor", at=(0, 0))
    model.torsion_spring("drive", joint="axle", actuator=0.6)
    result = model.simulate(
        1.0, dt=1e-3, formulation=hx.PostStabilized("both"), integrator=hx.RK4()
    )
    t = result.t
    x = 1 + 0.3 * np.cos(np.sqrt(k / m) * t)
    np.testing.assert_allclose(result["free"].position[:, 0], x, atol=1e-10)
    decay, rate = c / (2 * m), np.sqrt(k / m - (c / (2 * m)) ** 2)
    x = 1 + 0.3 * np.exp(-decay * t) * (np.cos(rate * t) + decay / rate * np.sin(rate * t))
    np.testing.assert_allclose(result["damped"].position[:, 0], x, atol=1e-10)
    angle = 0.1 + 0.3 * np.cos(np.sqrt(2.0 / J) * t)
    np.testing.assert_allclose(result["twisted"].angle, angle, atol=1e-10)
    speed = 0.05 * np.arcsinh(np.sinh(1.0 / 0.05) * np.exp(-3.0 / (m * 0.05) * t))
    np.testing.assert_allclose(result["slider"].velocity[:, 0], speed, atol=1e-7)
    assert 0 < result["slider"].velocity[-1, 0] < 1e-7  # it has stopped, short of creep
    np.testing.assert_allclose(result["motor"].angular_velocity, 0.6 / J * t, atol=1e-12)
    # Simpson's rule over the saved states; the knee of the friction decides
    assert np.abs(result.energy.balance).max() < 1e-6


STIFF, DROP, RADIUS = 1e8, 0.05, 0.1  # N/m, m, m


def floor(ball, t):
    gap = ball.r.z - RADIUS
    push = jnp.where(gap < 0, -STIFF * gap, 0.0)
    return [(jnp.stack([0 * push, 0 * push, push]), jnp.zeros(3))]


@pytest.mark.parametrize("solver", in_part(["auto", "block", "dense"], {"auto", "dense"}))
def test_a_sphere_bounces_off_a_stiff_floor(solver):
    """Free fall, then z'' = -g - w^2 z while z < 0, then free flight with the speed of the fall.
    The method errs by some (w h)^2 / 12 of the phase pi of the bounce, 3e-4 here, and damps by
    little; the two steps in which the force begins and ends err by up to (w h)^2 / 8 each."""
    m, g = 2.0, 9.81
    model = hx.Model(gravity=(0, 0, -g))
    model.body("ball", hx.sphere(RADIUS, mass=m), position=(0, 0, RADIUS + DROP))
    model.custom_force("floor", "ball", floor)
    speed, w = np.sqrt(2 * g * DROP), np.sqrt(STIFF / m)
    touch, sink = speed / g, g / w**2
    leave = touch + (np.pi + 2 * np.arctan(sink * w / speed)) / w  # near pi sqrt(m/k)
    end = leave + (leave - touch)
    method = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.9)}
    result = hx.simulate(*model.build(solver=solver), end, dt=5e-6, **method)
    assert result.success
    t, x = result.t, w * (result.t - touch)
    during = sink * (np.cos(x) - 1) - speed / w * np.sin(x)
    z = np.select(
        [t < touch, t < leave],
        [DROP - g * t**2 / 2, during],
        speed * (t - leave) - g * (t - leave) ** 2 / 2,
    )
    np.testing.assert_allclose(result["ball"].position[:, 2] - RADIUS, z, atol=5e-4 * speed / w)
    assert result["ball"].velocity[-1, 2] == pytest.approx(speed - g * (end - leave), rel=1e-4)
    assert result.stats["newton_iterations"] <= 1.01 * result.stats["steps"]


@pytest.mark.parametrize("solver", in_part(["auto", "block", "dense"], {"dense"}))
def test_newtons_matrix_has_both_sides_of_a_branch(solver):
    """Two balls between walls that push only when touched: pressed together by a constant load,
    with steps a hundred times longer than their contacts, they settle where k x = F."""
    k = 1e8

    def wall(ball, t):
        gap = ball.r.x
        return [(jnp.stack([jnp.where(gap < 0, -k * gap, 0.0), 0.0]), 0.0)]

    def touch(a, b, t):
        gap = b.r.x - a.r.x - 0.2
        push = jnp.where(gap < 0, -k * gap, 0.0)
        return [(jnp.stack([-push, 0.0]), 0.0), (jnp.stack([push, 0.0]), 0.0)]

    model = hx.Model(gravity=(0.0, 0.0))
    for name, x in (("left", 0.0), ("right", 0.2)):
        model.planar_body(name, 1.0, 0.1, position=(x, 0.0))
    model.custom_force("wall", "left", wall)
    model.custom_force("contact", ("left", "right"), touch)
    model.force("load", "right", force=(-1000.0, 0.0))
    method = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.0)}
    result = hx.simulate(*model.build(solver=solver), 1.0, dt=1e-2, **method)
    assert result.success
    x = [result[name].position[-1, 0] for name in ("left", "right")]
    np.testing.assert_allclose(x, [-1e-5, 0.2 - 2e-5], atol=1e-9)


def test_a_floating_mechanism_with_springs_keeps_its_momentum():
    """Internal forces cannot change it: the linear momentum, which RK4 sums exactly, to round-off;
    the angular one, quadratic in the state, to the integrator's error, here (2 dt)^4 = 1.6e-11."""
    m = hx.Model(gravity=(0.0, 0.0, 0.0))
    m.body("a", 1.0, (0.2, 0.3, 0.4), velocity=(0.3, 0, 0.1), angular_velocity=(1.0, 0.5, 0.2))
    m.body("b", 2.0, (0.5, 0.4, 0.3), position=(1, 0.2, 0), velocity=(0.3, 0.4, -0.2))
    m.body("c", 1.5, (0.3, 0.3, 0.3), position=(1, 1.5, 0.4), angular_velocity=(0, 1.0, 0))
    m.revolute("hinge", "a", "b", at=(0.5, 0.1, 0), axis=(0, 0, 1))
    m.torsion_spring("coil", joint="hinge", stiffness=3.0, damping=0.2, angle=0.5)
    m.spring_damper(
        "rope", "b", "c", at_a=(0.1, 0.3, 0), at_b=(0, -0.3, 0.1), stiffness=8.0, length=0.5
    )
    result = m.simulate(0.5, dt=1e-3, formulation=hx.Index1(), integrator=hx.RK4())
    linear, angular = result.momentum()
    assert np.abs(linear - linear[0]).max() < 1e-13
    assert np.abs(angular - angular[0]).max() < 1e-10
    assert np.abs(result["a"].velocity[-1] - result["a"].velocity[0]).max() > 0.1


# -- bad input -------------------------------------------------------------------------------

BAD = [
    ("spring_damper", ("a", "b"), {}, "no stiffness, no damping and no actuator"),
    ("spring_damper", ("a", "b"), {"stiffness": -1.0}, "stiffness=-1.0 is negative"),
    ("spring_damper", ("a", "b"), {"damping": float("nan")}, "not finite"),
    ("spring_damper", ("a", "b"), {"stiffness": 1.0, "length": -1.0}, "length=-1.0 is negative"),
    ("spring_damper", ("a", "b"), {"stiffness": 1.0, "at_a": (0, 0)}, "3 (numbers|components)"),
    ("spring_damper", ("a", "a"), {"stiffness": 1.0}, "to itself"),
    ("spring_damper", ("a", "b"), {"actuator": lambda t: t}, "could not be evaluated"),
    ("spring_damper", ("a", "b"), {"actuator": lambda t, x, v: (x, v)}, "must return one number"),
    ("torsion_spring", ("a", "b"), {"stiffness": 1.0}, "its axis is missing"),
    ("torsion_spring", ("a", "b"), {"stiffness": 1.0, "axis": (0, 0, 0)}, "no length"),
    ("torsion_spring", (), {"stiffness": 1.0, "joint": "nowhere"}, "no joint 'nowhere'"),
    ("torsion_spring", (), {"stiffness": 1.0, "joint": "weld"}, "'weld' is a fixed joint"),
    ("torsion_spring", ("a",), {"stiffness": 1.0, "joint": "hinge"}, "Leave them out: a="),
    ("bushing", ("a", "b"), {"at": (0, 0, 0), "stiffness": (1, 2, 3)}, "must be 6x6"),
    ("bushing", ("a", "b"), {"at": (0, 0, 0), "stiffness": -np.eye(6)}, "negative eigenvalue"),
    ("bushing", ("a", "b"), {"at": (0, 0, 0), "stiffness": np.triu(np.ones((6, 6)))}, "symmetric"),
    ("bushing", ("a", "b"), {"stiffness": np.eye(6)}, "its place is missing"),
    ("force", ("ground",), {"force": (1, 0, 0)}, "never moves"),
    ("force", ("a",), {"force": (1, 0)}, "3 (numbers|components)"),
    ("force", ("a",), {"force": lambda: 1.0}, "must take t, or t and the body's frame"),
    ("force", ("a",), {"force": lambda t: 1.0}, "must return 3 components"),
    ("force", ("a",), {"force": (1, 0, 0), "axes": "local"}, "axes='local' is not known"),
    ("torque", ("a",), {"torque": 1.0}, "3 (numbers|components)"),
    ("torque", ("nobody",), {"torque": (1, 0, 0)}, "no body 'nobody'"),
    ("joint_damping", ("hinge", -1.0), {}, "negative"),
    ("joint_damping", ("hinge", (1.0, 2.0)), {}, "Give one number"),
    ("joint_damping", ("weld", 1.0), {}, "'weld' is a fixed joint"),
    ("joint_friction", ("hinge", 1.0, 0.0), {}, "transition_speed must be positive"),
    ("custom_force", (("a", "b"), 3.0), {}, "is not a function"),
    (
        "custom_force",
        (("a", "b"), lambda a, b, t: []),
        {},
        "2 pairs, one for each",
    ),
    ("custom_force", (("a", "b"), lambda a, t: []), {}, "could not be evaluated"),
    ("custom_force", ("a", lambda a, t, p: [(a.r, a.w)]), {"parameters": "x"}, "numbers or arrays"),
]


@pytest.mark.parametrize(("method", "arguments", "options", "words"), BAD)
def test_bad_forces_are_refused_by_name(method, arguments, options, words):
    m = hx.Model()
    m.body("a", 1.0, (1, 1, 1))
    m.body("b", 1.0, (1, 1, 1), position=(1, 0, 0))
    m.revolute("hinge", "a", "b", at=(0, 0, 0), axis=(0, 0, 1))
    m.fixed("weld", "a", "b")
    with pytest.raises(hx.ModelError, match=words) as caught:
        getattr(m, method)("F7", *arguments, **options)
    assert "'F7'" in str(caught.value)
    assert "F7" not in m._forces
