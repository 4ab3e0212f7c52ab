"""Planar joints: their derivatives, their reactions, and motions known in closed form.

Central differences with the step h = 1e-5 err by h^2/6 times a third derivative, about 1e-10 here,
and by round-off / h, about 1e-11 times the value; 1e-8 leaves room for large draws.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import holonax as hx
from holonax.compiler import native

H = 1e-5
TOLERANCE = 1e-8


def ellipse(x, y):
    return x * x / 4 + y * y - 1.0


def every_joint():
    """Three free bodies with one planar joint of each type between two of them."""
    m = hx.Model(gravity=(0.0, 0.0))
    m.planar_body("a", 1.0, 0.3, position=(0.1, 0.2), angle=0.3)
    m.planar_body("b", 2.0, 0.5, position=(1.1, -0.3), angle=-0.8)
    m.planar_body("c", 1.5, 0.4, position=(0.4, 1.2), angle=2.0)
    m.revolute("revolute", "a", "b", at=(0.7, 0.4))
    m.prismatic("prismatic", "b", "c", at=(0.2, 0.1), axis=(1.0, 2.0))
    m.fixed("fixed", "a", "c", at=(0.5, -0.5))
    m.distance("distance", "b", "c", at_a=(0.3, 0.1), at_b=(-0.2, 0.4))
    m.gear("gear", "a", "b", ratio=0.37, carrier="c")
    m.pin_in_slot("pin in slot", "a", "b", at_a=(0.3, 0.1), at_b=(-0.2, 0.6), direction=(1, -1))
    m.point_on_curve("point on curve", "c", "b", curve=ellipse, at_b=(0.3, -0.2))
    return m.system()


JOINTS = {
    "revolute": 2,
    "prismatic": 2,
    "fixed": 3,
    "distance": 1,
    "gear": 1,
    "pin in slot": 1,
    "point on curve": 1,
}


@native
def values(system, q, v, t, lam):
    """g, g' and G^T lam, for one state or one after another."""

    def one(q, v, t):
        force = system.constraint_force(q, t, lam)
        return system.constraint(q, t), system.constraint_rate(q, v, t), force

    return jax.vmap(one)(q, v, t)


@native
def derivatives(system, q, v, t, lam):
    """G, gamma and the columns of (G^T lam)_q along the coordinates' increments."""

    def force(step):
        return system.constraint_force(system.retract(q, step), t, lam)

    zero = jnp.zeros_like(v)
    columns = jax.vmap(lambda e: jax.jvp(force, (zero,), (e,))[1])(jnp.eye(v.size))
    return system.jacobian(q, t), system.gamma(q, v, t), columns.T


class Draw:
    """One random configuration: what the system says, and what central differences say."""

    def __init__(self, system, seed):
        rng = np.random.default_rng(seed)
        self.q, self.v = rng.normal(size=(2, 9))
        self.rows = np.array(system.constraint_names(11))
        self.lam = rng.normal(size=11)
        t = 0.4
        self.G, self.gamma, self.stiffness = map(
            np.asarray, derivatives(system, self.q, self.v, t, self.lam)
        )
        # rows of increments: each coordinate, then the motion itself
        steps = H * np.vstack([np.eye(9), self.v])
        plus, minus = (
            values(
                system,
                np.stack([system.retract(self.q, s * step) for step in steps]),
                np.tile(self.v, (10, 1)),
                t + s * H * (np.arange(10) == 9),
                self.lam,
            )
            for s in (1, -1)
        )
        g, rate, force = (np.asarray(x - y) / (2 * H) for x, y in zip(plus, minus, strict=True))
        self.G_differences = g[:9].T
        self.gamma_differences = -rate[9]
        self.stiffness_differences = force[:9].T
        self.g = np.asarray(system.constraint(self.q, t))
        self.rate = np.asarray(system.constraint_rate(self.q, self.v, t))


@pytest.fixture(scope="module")
def draws():
    system = every_joint()
    return [Draw(system, seed) for seed in range(5)]


@pytest.mark.parametrize("joint", JOINTS)
def test_jacobian_and_gamma_match_central_differences(draws, joint):
    for draw in draws:
        rows = draw.rows == joint
        assert rows.sum() == JOINTS[joint]
        scale = 1 + np.abs(draw.gamma[rows]).max()
        np.testing.assert_allclose(draw.G[rows], draw.G_differences[rows], atol=TOLERANCE)
        np.testing.assert_allclose(
            draw.gamma[rows], draw.gamma_differences[rows], atol=TOLERANCE * scale
        )


def test_derivative_of_the_constraint_forces_matches_central_differences(draws):
    for draw in draws:
        np.testing.assert_allclose(draw.stiffness, draw.stiffness_differences, atol=TOLERANCE)


def test_rates_are_the_jacobian_times_velocity(draws):
    for draw in draws:
        np.testing.assert_allclose(draw.rate, draw.G @ draw.v, atol=1e-12)


@pytest.mark.parametrize("joint", JOINTS)
def test_joint_forces_are_reciprocal_and_do_no_work(draws, joint):
    """Between free bodies the forces G^T lam have no resultant and no moment, so a joint neither
    pushes nor turns the whole; along velocities that keep the joint they have no power. Where two
    points have still a gap to close, the forces on them are a couple: gap x lam."""
    for draw in draws:
        rows = draw.rows == joint
        force = draw.lam[rows] @ draw.G[rows]
        scale = 1 + np.abs(force).max() * (1 + np.abs(draw.q).max())
        x, y = draw.q[:3], draw.q[3:6]
        fx, fy, torque = force.reshape(3, 3)
        resultant = [fx.sum(), fy.sum(), (torque + x * fy - y * fx).sum()]
        couple = 0.0
        if joint in ("revolute", "fixed"):
            gap, lam = draw.g[rows], draw.lam[rows]
            couple = gap[0] * lam[1] - gap[1] * lam[0]
        np.testing.assert_allclose(resultant, [0.0, 0.0, couple], atol=1e-13 * scale)
        G = draw.G[rows]
        kept = draw.v - np.linalg.pinv(G) @ (G @ draw.v)
        assert abs(force @ kept) < 1e-12 * scale


# -- motions in closed form ------------------------------------------------------------------


def accelerations(model):
    system = model.system()
    q, v = model.start_vectors()
    a, _ = eqx.filter_jit(lambda s, q, v: s.accelerations(q, v, 0.0))(system, q, v)
    return np.asarray(a)


def test_a_block_slides_down_an_incline_at_g_sin_alpha():
    alpha, g = 0.5, 9.81
    m = hx.Model(gravity=(0.0, -g))
    m.planar_body("block", 2.0, 0.3, position=(1.0, 1.0), angle=0.2)
    down = np.array([np.cos(alpha), -np.sin(alpha)])
    m.prismatic("incline", m.ground, "block", at=(1.0, 1.0), axis=down)
    a = accelerations(m)
    np.testing.assert_allclose(a, [*(g * np.sin(alpha) * down), 0.0], atol=1e-12)


def test_a_gear_reflects_inertia_by_the_square_of_its_ratio():
    J, ratio, torque = (0.2, 0.7), 2.5, 3.0
    m = hx.Model(gravity=(0.0, 0.0))
    m.planar_body("wheel", 1.0, J[0])
    m.planar_body("pinion", 1.0, J[1], position=(1.0, 0.0))
    m.revolute("w", m.ground, "wheel", at=(0, 0))
    m.revolute("p", m.ground, "pinion", at=(1, 0))
    m.gear("mesh", "wheel", "pinion", ratio=ratio)
    m.torque("motor", "wheel", torque=torque)
    expected = torque / (J[0] + ratio**2 * J[1])
    np.testing.assert_allclose(accelerations(m)[4:], [expected, -ratio * expected], rtol=1e-12)


def test_a_pin_in_a_slot_pushes_across_the_slot_only():
    """At 45 degrees to gravity: half of it is left, along the slot."""
    m = hx.Model(gravity=(0.0, -10.0))
    m.planar_body("bead", 2.0, 0.1, position=(1.0, 1.0))
    m.pin_in_slot("slot", m.ground, "bead", at=(1.0, 1.0), direction=(1.0, 1.0))
    np.testing.assert_allclose(accelerations(m), [-5.0, -5.0, 0.0], atol=1e-12)


def test_a_bead_on_a_circle_swings_like_a_pendulum():
    """RK4 at dt = 2 ms errs by some (omega dt)^4 = 2e-9 of the swing."""
    g, L, angle = 9.81, 0.8, 1.0
    m = hx.Model(gravity=(0.0, -g))
    m.planar_body("bead", 1.0, 0.1, position=(L * np.sin(angle), -L * np.cos(angle)))
    m.point_on_curve(
        "wire", m.ground, "bead", curve=lambda x, y: 3 * (x * x + y * y - L * L), at_b=(0, 0)
    )
    result = m.simulate(1.0, dt=2e-3, formulation=hx.PostStabilized("both"), integrator=hx.RK4())
    reference = solve_ivp(
        lambda t, y: [y[1], -g / L * np.sin(y[0])], (0, 1), [angle, 0.0], rtol=1e-12, atol=1e-12
    )
    theta = reference.y[0, -1]
    np.testing.assert_allclose(
        result["bead"].position[-1], [L * np.sin(theta), -L * np.cos(theta)], atol=5e-9
    )
    assert max(x.max() for x in result.drift()) < 1e-12


# -- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("pin_in_slot", {"at": (0, 0)}, "direction of its slot is missing"),
        (
            "pin_in_slot",
            {"at": (0, 0), "direction": (1, 0), "direction_a": (1, 0)},
            "given twice",
        ),
        ("pin_in_slot", {"at": (0, 0), "direction": (0, 0)}, "no length"),
        ("pin_in_slot", {"direction": (1, 0)}, "its place is missing"),
        ("point_on_curve", {"curve": 3.0, "at_b": (0, 0)}, "not a function"),
        ("point_on_curve", {"curve": ellipse, "at_b": (0, 0, 0)}, "2 numbers"),
        ("point_on_curve", {"curve": ellipse, "at_b": (-1, -1)}, "must not vanish"),
        ("point_on_curve", {"curve": lambda x: x, "at_b": (0, 0)}, "two numbers"),
        ("point_on_curve", {"curve": lambda x, y: jnp.stack([x, y]), "at_b": (0, 0)}, "one number"),
    ],
)
def test_bad_planar_joints_are_refused_by_name(method, options, words):
    m = hx.Model()
    m.planar_body("b", 1.0, 1.0, position=(1.0, 1.0))
    with pytest.raises(hx.ModelError, match=words) as caught:
        getattr(m, method)("J7", m.ground, "b", **options)
    assert "'J7'" in str(caught.value)


def test_planar_joints_refuse_spatial_bodies():
    m = hx.Model()
    m.body("b", 1.0, (1, 1, 1))
    with pytest.raises(hx.ModelError, match="is spatial, but this needs planar"):
        m.pin_in_slot("slot", m.ground, "b", at=(0, 0), direction=(1, 0))
