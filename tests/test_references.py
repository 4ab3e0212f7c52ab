"""Holonomic mechanisms against solutions known in closed form or in minimal coordinates.

A method of order p has an error C dt^p (1 + O(dt)) at a fixed time, so halving the step must show
the order log2(error / error at half the step) = p + O(dt). The steps are chosen such that the
O(dt) part is below 0.2 while the errors stay far above rounding (about 1e-14 for states of
order one); the reference solutions are good to 1e-12 or better.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ellipj, ellipk

import holonax as hx
from references import (
    LINKS,
    ORDER,
    SAMPLES,
    FourBar,
    Samples,
    integrate,
    observed_order,
    rms,
    turned,
)

# -- the slider-crank given by functions -----------------------------------------------------

r, L, L1 = 0.3, 0.5, 0.3
J1, J2, m, g = 0.045, 33 / 4800, 1.0, 10.0


def slider_crank_of_one_coordinate(t, state):
    """J(a) a'' + J'(a) a'^2 / 2 + V'(a) = 0 for the crank angle a; L sin(b) = -r sin(a)."""
    a, rate = state
    b = np.arcsin(-r / L * np.sin(a))
    p = -r * np.cos(a) / (L * np.cos(b))  # db/da, from the derivative of the loop equation
    dp = (r * np.sin(a) + L * np.sin(b) * p**2) / (L * np.cos(b))
    x1 = -r * np.sin(a) - L1 * np.sin(b) * p
    x2 = -r * np.cos(a) - L1 * (np.cos(b) * p**2 + np.sin(b) * dp)
    y1 = r * np.cos(a) + L1 * np.cos(b) * p
    y2 = -r * np.sin(a) + L1 * (np.cos(b) * dp - np.sin(b) * p**2)
    inertia = J1 + J2 * p**2 + m * (x1**2 + y1**2)
    half_slope = J2 * p * dp + m * (x1 * x2 + y1 * y2)
    return [rate, -(half_slope * rate**2 + m * g * y1) / inertia]


def test_slider_crank_of_functions_follows_its_one_coordinate_and_keeps_its_constraints():
    system, start = hx.examples.slider_crank()
    assert start.q[0] == 0.9851
    result = hx.simulate(
        system,
        start,
        t_end=10.0,
        dt=1e-3,
        formulation=hx.PostStabilized("both", passes=2),
        integrator=hx.RK4(),
    )
    assert result.success
    assert result.t.size == 10_001
    a, rate = integrate(slider_crank_of_one_coordinate, [0.9851, 0.0], [0.0, 1.0])[-1]
    b = np.arcsin(-r / L * np.sin(a))
    x, y = r * np.cos(a) + L1 * np.cos(b), r * np.sin(a) + L1 * np.sin(b)
    assert result.t[1000] == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(result.q[1000], [a, b, x, y], rtol=0, atol=1e-9)
    assert abs(result.v[1000, 0] - rate) < 1e-8
    position, velocity = result.drift()
    assert position.max() < 1e-13
    assert velocity.max() < 1e-13


# -- a free rigid body -----------------------------------------------------------------------

MOMENTS = np.array([1.0, 2.0, 3.0])
SPIN = np.array([0.0, 2.0, 0.05])  # close to the unstable, intermediate axis


def angular_velocity_of_free_body(t):
    """Euler's equations in Jacobi's elliptic functions (Landau & Lifshitz, Mechanics, 37)."""
    a, b, c = MOMENTS
    energy2, momentum2 = np.sum(MOMENTS * SPIN**2), np.sum(MOMENTS**2 * SPIN**2)
    assert momentum2 > b * energy2  # the case that keeps turning about the largest moment's axis
    m = (b - a) * (energy2 * c - momentum2) / ((c - b) * (momentum2 - energy2 * a))
    rate = np.sqrt((c - b) * (momentum2 - energy2 * a) / (a * b * c))
    sn, cn, dn, _ = ellipj(ellipk(m) + rate * t, m)  # at the start sn = 1
    return np.array(
        [
            np.sqrt((energy2 * c - momentum2) / (a * (c - a))) * cn,
            np.sqrt((energy2 * c - momentum2) / (b * (c - b))) * sn,
            np.sqrt((momentum2 - energy2 * a) / (c * (c - a))) * dn,
        ]
    )


def azimuth_of_third_axis(t):
    """The angle, about the fixed angular momentum, through which the third body axis has turned."""
    a, b, _ = MOMENTS

    def rate(t):
        x, y, _ = angular_velocity_of_free_body(t)
        return (a * x**2 + b * y**2) / ((a * x) ** 2 + (b * y) ** 2)

    return np.linalg.norm(MOMENTS * SPIN) * quad(rate, 0, t, epsabs=1e-13, limit=500)[0]


@pytest.fixture(scope="module")
def free_body():
    """Started with its angular momentum along the world's z."""
    third = MOMENTS * SPIN / np.linalg.norm(MOMENTS * SPIN)  # z in body axes; x stays x
    rotation = np.array([[1.0, 0.0, 0.0], np.cross(third, [1.0, 0.0, 0.0]), third])
    model = hx.Model(gravity=(0.0, 0.0, 0.0))
    model.body("book", 1.5, MOMENTS, rotation=rotation, angular_velocity=rotation @ SPIN)
    return model.build()


@pytest.mark.parametrize(
    ("integrator", "steps"), [(hx.Euler, 4000), (hx.Heun, 500), (hx.RK4, 100), (hx.Dopri5, 100)]
)
def test_a_free_body_tumbles_as_the_elliptic_functions_say(free_body, integrator, steps):
    t = np.linspace(0, 5.0, SAMPLES + 1)
    spin = angular_velocity_of_free_body(t).T
    assert spin[-1, 1] < -1.6  # it has flipped over
    momentum = MOMENTS * spin
    vertical = momentum / np.linalg.norm(momentum, axis=1, keepdims=True)  # in body axes
    azimuth = np.array([azimuth_of_third_axis(x) for x in t])

    def error(steps):
        book = Samples(free_body, t[-1], steps, integrator)["book"]
        third = np.arctan2(book.rotation[:, 1, 2], book.rotation[:, 0, 2])
        seen = np.einsum("nji,nj->ni", book.rotation, book.angular_velocity)
        return rms(
            np.column_stack(
                [
                    seen - spin,
                    book.rotation[:, 2] - vertical,
                    np.sin((third - third[0] - azimuth) / 2),
                ]
            )
        )

    assert observed_order(error, steps) == pytest.approx(ORDER[integrator], abs=0.15)


# -- pendulums -------------------------------------------------------------------------------


class Pendulum:
    """A rigid pendulum from rest at 1.2 rad, and its motion in elliptic functions.

    sin(angle / 2) = k sn(K + w t), angle' = 2 k w cn(K + w t), with k = sin(amplitude / 2).
    """

    amplitude = 1.2

    def __init__(self, built, w, angle):
        self.built, self.w, self.angle = built, w, angle
        self.m = np.sin(self.amplitude / 2) ** 2
        self.period = 4 * ellipk(self.m) / w

    def exact(self, t):
        sn, cn, _, _ = ellipj(ellipk(self.m) + self.w * t, self.m)
        k = np.sqrt(self.m)
        return np.column_stack([2 * np.arcsin(k * sn), 2 * k * self.w * cn])

    def run(self, t_end, steps, integrator):
        """(angle, rate) at the sampled times."""
        return self.angle(Samples(self.built, t_end, steps, integrator)["pendulum"])


@pytest.fixture(scope="module")
def planar_pendulum():
    length, mass = 0.5, 1.3
    inertia = mass * (2 * length) ** 2 / 12
    turned = Pendulum.amplitude - np.pi / 2
    model = hx.Model()
    model.planar_body(
        "pendulum",
        hx.rod(2 * length, mass=mass),
        position=(length * np.cos(turned), length * np.sin(turned)),
        angle=turned,
    )
    model.revolute("pin", "ground", "pendulum", at=(0.0, 0.0))
    w = np.sqrt(mass * 9.81 * length / (inertia + mass * length**2))
    return Pendulum(
        model.build(),
        w,
        lambda body: np.column_stack([body.angle + np.pi / 2, body.angular_velocity]),
    )


@pytest.fixture(scope="module")
def spatial_pendulum():
    """A box on a slanted hinge: only gravity's component across the hinge drives it."""
    hinge, length, mass = np.array([1.0, 2.0, 2.0]) / 3, 0.3, 1.3
    moments = np.array([0.2, 0.3, 0.4])
    across = np.array([0.0, 0.0, -9.81]) + 9.81 * hinge[2] * hinge
    gravity = np.linalg.norm(across)
    down = across / gravity
    side = np.cross(hinge, down)
    direction = down * np.cos(Pendulum.amplitude) + side * np.sin(Pendulum.amplitude)
    model = hx.Model()
    body = model.body(
        "pendulum", mass, moments, position=length * direction, rotation=(0.3, -0.5, 0.9)
    )
    model.revolute("hinge", "ground", "pendulum", at=(0.0, 0.0, 0.0), axis=hinge)
    local = body.rotation.T @ hinge
    inertia = local @ (moments * local) + mass * length**2

    def angle(body):
        d = body.position
        return np.column_stack([np.arctan2(d @ side, d @ down), body.angular_velocity @ hinge])

    return Pendulum(model.build(), np.sqrt(mass * gravity * length / inertia), angle)


@pytest.mark.parametrize(
    ("kind", "integrator", "steps"),
    [
        ("planar", hx.Euler, 8000),
        ("planar", hx.Heun, 500),
        pytest.param("planar", hx.Midpoint, 500, marks=pytest.mark.slow),
        pytest.param("planar", hx.Ralston, 500, marks=pytest.mark.slow),
        ("planar", hx.RK4, 100),
        ("planar", hx.Dopri5, 100),
        ("spatial", hx.RK4, 100),
        pytest.param("spatial", hx.Dopri5, 100, marks=pytest.mark.slow),
    ],
)
def test_a_pendulum_swings_as_the_elliptic_functions_say(request, kind, integrator, steps):
    pendulum = request.getfixturevalue(f"{kind}_pendulum")
    t = np.linspace(0, 0.85 * pendulum.period, SAMPLES + 1)
    exact = pendulum.exact(t)

    def error(steps):
        return rms(pendulum.run(t[-1], steps, integrator) - exact)

    assert observed_order(error, steps) == pytest.approx(ORDER[integrator], abs=0.15)


@pytest.mark.parametrize("kind", ["planar", "spatial"])
def test_the_period_of_a_pendulum_is_the_complete_elliptic_integral(request, kind):
    pendulum = request.getfixturevalue(f"{kind}_pendulum")
    acceleration = -(pendulum.w**2) * np.sin(pendulum.amplitude)

    def error(steps):
        # After the exact period the pendulum is at rest; a rate left over is the period's error.
        angle, rate = pendulum.run(pendulum.period, steps, hx.RK4)[-1]
        assert abs(angle - pendulum.amplitude) < 1e-5
        return abs(rate / acceleration) / pendulum.period

    assert observed_order(error, 200) == pytest.approx(4, abs=0.15)
    assert error(400) < 1e-7


# -- the heavy top ---------------------------------------------------------------------------


class HeavyTop:
    """A symmetric top on a ball joint, spun about its axis and let go at a slant."""

    mass, length, across, along = 1.2, 0.4, 0.03, 0.02
    tilt, spin = 0.6, 40.0

    def __init__(self):
        axis = np.array([np.sin(self.tilt), 0.0, np.cos(self.tilt)])
        model = hx.Model()
        model.body(
            "top",
            self.mass,
            (self.across, self.across, self.along),
            position=self.length * axis,
            rotation=(0.0, self.tilt, 0.0),
            angular_velocity=self.spin * axis,
        )
        model.spherical("tip", "ground", "top", at=(0.0, 0.0, 0.0))
        self.built = model.build()

    def axis_at(self, t):
        """Direction of the axis from the equations of nutation and precession.

        The momenta about the vertical and about the axis are constants.
        """
        about_tip = self.across + self.mass * self.length**2
        p_axis = self.along * self.spin
        p_vertical = p_axis * np.cos(self.tilt)

        def rhs(t, y):
            tilt, rate, _ = y
            s, c = np.sin(tilt), np.cos(tilt)
            precession = (p_vertical - p_axis * c) / (about_tip * s**2)
            torque = self.mass * 9.81 * self.length * s
            return [
                rate,
                (torque + about_tip * precession**2 * s * c - p_axis * precession * s) / about_tip,
                precession,
            ]

        tilt, _, turn = integrate(rhs, [self.tilt, 0.0, 0.0], t).T
        s = np.sin(tilt)
        return np.column_stack([s * np.cos(turn), s * np.sin(turn), np.cos(tilt)])


@pytest.fixture(scope="module")
def heavy_top():
    return HeavyTop()


def test_a_heavy_top_nutates_and_precesses_at_the_order_of_the_method(heavy_top):
    t = np.linspace(0, 1.0, SAMPLES + 1)
    exact = heavy_top.axis_at(t)

    def error(steps):
        return rms(Samples(heavy_top.built, t[-1], steps)["top"].rotation[:, :, 2] - exact)

    assert observed_order(error, 400) == pytest.approx(4, abs=0.15)


def test_a_heavy_top_keeps_its_energy_and_both_momenta(heavy_top):
    def change(quantity, steps):
        run = Samples(heavy_top.built, 1.0, steps)
        value = quantity(run)
        return np.sqrt(np.mean((value - value[0]) ** 2))

    def vertical(run):
        return run.momentum((0.0, 0.0, 0.0))[:, 2]  # about the tip

    def about_axis(run):
        return np.einsum("ni,ni->n", run["top"].rotation[:, :, 2], run.momentum(np.zeros(3)))

    energy_order = observed_order(lambda steps: change(Samples.energy, steps), 800)
    vertical_order = observed_order(lambda steps: change(vertical, steps), 800)
    assert energy_order == pytest.approx(4, abs=0.15)
    assert vertical_order == pytest.approx(4, abs=0.15)
    # By symmetry w3' = 0 in every stage of every step, so this one is kept to rounding.
    assert change(about_axis, 400) < 1e-13


# -- a closed four-bar -----------------------------------------------------------------------


def test_a_four_bar_turns_as_its_loop_closure_and_energy_say():
    bar = FourBar()
    t = np.linspace(0, 1.0, SAMPLES + 1)
    built = bar.model().build(hold_velocity=["crank.angle"])
    crank = bar.crank_at(t)
    assert crank[-1] > 2 * np.pi
    exact = turned(bar.angles(crank).T)

    def error(steps):
        run = Samples(built, t[-1], steps)
        return rms(turned(np.column_stack([run[name].angle for name in LINKS])) - exact)

    assert observed_order(error, 800) == pytest.approx(4, abs=0.15)


@pytest.mark.slow
def test_a_driven_four_bar_follows_its_loop_closure_whatever_the_step():
    # Nothing is free, so positions and rates come from the constraints, not from the integrator.
    bar = FourBar()

    def crank(t):
        return 3.0 * t + jnp.sin(2.0 * t)

    model = bar.model()
    model.drive_angle("motor", joint="A", angle=crank)
    built = model.build()
    run = Samples(built, 2.0, 200)
    t = np.linspace(0, 2.0, SAMPLES + 1)
    exact = bar.angles(3.0 * t + np.sin(2.0 * t)).T
    rates = bar.ratios(exact.T) * (3.0 + 2.0 * np.cos(2.0 * t))
    found = np.column_stack([run[name].angle for name in LINKS])
    np.testing.assert_allclose(turned(found), turned(exact), rtol=0, atol=1e-12)
    found = np.stack([run[name].angular_velocity for name in LINKS])
    np.testing.assert_allclose(found, rates, rtol=0, atol=1e-11)


# -- hanging chains --------------------------------------------------------------------------


class Chain:
    """Four unequal links, the first on the ground; `arm[k, i]` is how far link i moves centre k."""

    lengths, masses = np.array([0.5, 0.4, 0.6, 0.3]), np.array([1.0, 0.7, 1.3, 0.4])
    arm = np.tril(np.broadcast_to(lengths, (4, 4)), -1) + np.diag(lengths / 2)
    coupling = arm.T @ (masses[:, None] * arm)
    inertia = masses * lengths**2 / 12
    weight = 9.81 * masses @ arm

    def joints(self, e):
        """Where the links begin, for links along the rows of e."""
        return self.arm @ e - self.lengths[:, None] / 2 * e


def test_a_planar_chain_falls_as_its_absolute_angles_do():
    # M_ij = c_ij cos(a_i - a_j) + J_i, with the angles a_i from the horizontal
    chain = Chain()
    first, rates = np.array([-0.6, -1.2, -0.9, -1.6]), np.array([0.0, 1.0, 0.0, -2.0])

    def rhs(t, y):
        a, w = y[:4], y[4:]
        between = a[:, None] - a
        M = chain.coupling * np.cos(between) + np.diag(chain.inertia)
        force = -(chain.coupling * np.sin(between)) @ w**2 - chain.weight * np.cos(a)
        return np.concatenate([w, np.linalg.solve(M, force)])

    t = np.linspace(0, 1.0, SAMPLES + 1)
    exact = integrate(rhs, np.concatenate([first, rates]), t)

    model = hx.Model()
    e = np.column_stack([np.cos(first), np.sin(first)])
    normal = np.column_stack([-np.sin(first), np.cos(first)])
    previous = "ground"
    for i, at in enumerate(chain.joints(e)):
        model.planar_body(
            f"link {i}",
            hx.rod(chain.lengths[i], mass=chain.masses[i]),
            position=chain.arm[i] @ e,
            angle=first[i],
            velocity=(chain.arm[i] * rates) @ normal,
            angular_velocity=rates[i],
        )
        model.revolute(f"pin {i}", previous, f"link {i}", at=at)
        previous = f"link {i}"
    built = model.build()

    def error(steps):
        run = Samples(built, t[-1], steps)
        links = [run[f"link {i}"] for i in range(4)]
        found = [link.angle for link in links] + [link.angular_velocity for link in links]
        return rms(np.column_stack(found) - exact)

    assert observed_order(error, 800) == pytest.approx(4, abs=0.15)


@pytest.mark.slow
def test_a_spatial_chain_falls_as_the_directions_of_its_links_do():
    """Ball joints and slender links: sum_j C_ij d_j'' + tension_i d_i = weight_i, |d_i| = 1.

    C is the coupling of the planar chain with the links' own inertia added to its diagonal; the
    component along d_i only determines the tension, so each link is projected across itself.
    """
    chain = Chain()
    C = chain.coupling + np.diag(chain.inertia)
    tilt, around = np.array([0.6, 0.2, 0.9, 0.4]), np.array([0.0, 0.8, 2.0, -1.0])

    def across(tilt, around):
        """Unit vectors d(tilt, around), tilt from the downward vertical, and their derivatives."""
        s, c, x, y = np.sin(tilt), np.cos(tilt), np.cos(around), np.sin(around)
        d = np.column_stack([s * x, s * y, -c])
        along = np.column_stack([c * x, c * y, s])
        side = np.column_stack([-s * y, s * x, 0 * s])
        return d, along, side

    def rhs(t, y):
        tilt, around, u, w = y.reshape(4, 4)
        d, along, side = across(tilt, around)
        # d'' = along u' + side w' + rest
        level = np.column_stack([np.cos(around), np.sin(around), 0 * w])
        turn = np.column_stack([-np.sin(around), np.cos(around), 0 * w])
        rest = (
            -d * u[:, None] ** 2
            + 2 * np.cos(tilt)[:, None] * turn * (u * w)[:, None]
            - np.sin(tilt)[:, None] * level * w[:, None] ** 2
        )
        load = -np.outer(chain.weight, [0.0, 0.0, 1.0]) - C @ rest
        basis = np.concatenate([along, side])
        M = np.tile(C, (2, 2)) * (basis @ basis.T)
        force = np.sum(basis * np.concatenate([load, load]), axis=1)
        return np.concatenate([u, w, np.linalg.solve(M, force)])

    spin = np.array([0.5, -1.0, 0.3, 1.0])
    first = np.concatenate([tilt, around, np.zeros(4), spin])
    t = np.linspace(0, 1.0, SAMPLES + 1)
    exact = integrate(rhs, first, t).reshape(-1, 4, 4)
    directions = [across(a, b)[0] for a, b in exact[:, :2]]

    d, _, side = across(tilt, around)
    rate = side * spin[:, None]
    model = hx.Model()
    previous = "ground"
    for i, at in enumerate(chain.joints(d)):
        rotation = np.column_stack([np.cross(side[i], d[i]), side[i], d[i]])
        rotation /= np.linalg.norm(rotation, axis=0)
        J = chain.inertia[i]
        model.body(
            f"link {i}",
            chain.masses[i],
            (J, J, 1e-2 * J),
            position=chain.arm[i] @ d,
            rotation=rotation,
            velocity=chain.arm[i] @ rate,
            angular_velocity=np.cross(d[i], rate[i]),
        )
        model.spherical(f"ball {i}", previous, f"link {i}", at=at)
        previous = f"link {i}"
    built = model.build()

    def error(steps):
        run = Samples(built, t[-1], steps)
        axes = [run[f"link {i}"].rotation[:, :, 2] for i in range(4)]
        return rms(np.concatenate(axes, axis=1) - np.reshape(directions, (t.size, 12)))

    assert observed_order(error, 400) == pytest.approx(4, abs=0.15)
