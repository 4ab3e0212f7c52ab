"""Rolling and skating against closed forms, at the order of the method (see references.py)."""

import numpy as np
import pytest
from scipy.integrate import quad_vec

import holonax as hx
from references import SAMPLES, Samples, observed_order, rms

# -- the Chaplygin sleigh --------------------------------------------------------------------


class Sleigh:
    """A body on a knife edge a distance a behind its centre of mass, on a horizontal plane.

    With u the speed along the edge and w the angular velocity, u' = a w^2 and
    (J + m a^2) w' = -m a u w; hence u = U tanh(s), w = W / cosh(s), s = k (t - t0),
    with k = m a U / (J + m a^2) and W = U sqrt(m / (J + m a^2)): it turns round to go edge last.
    """

    mass, inertia, a = 2.0, 0.3, 0.4
    U, t0 = 1.5, 1.0

    def __init__(self):
        about_edge = self.inertia + self.mass * self.a**2
        self.k = self.mass * self.a * self.U / about_edge
        self.W = self.U * np.sqrt(self.mass / about_edge)
        model = hx.Model(gravity=(0.0, 0.0))
        u, w = self.rates(0.0)
        model.planar_body(
            "sleigh",
            self.mass,
            self.inertia,
            position=(self.a, 0.0),
            velocity=(u, self.a * w),
            angular_velocity=w,
        )
        model.knife_edge("blade", "sleigh", at=(0.0, 0.0), direction=(1.0, 0.0))
        self.built = model.build()

    def rates(self, t):
        s = self.k * (t - self.t0)
        return self.U * np.tanh(s), self.W / np.cosh(s)

    def heading(self, t):
        """The integral of w: Gudermann's function of s."""
        half = self.k * (np.array([t, 0.0]) - self.t0) / 2
        now, first = 2 * np.arctan(np.tanh(half))
        return self.W / self.k * (now - first)

    def edge(self, t):
        """Where the edge is, by quadrature."""

        def velocity(t):
            angle = self.heading(t)
            return self.rates(t)[0] * np.array([np.cos(angle), np.sin(angle)])

        return quad_vec(velocity, 0, t, epsabs=1e-13, epsrel=1e-13)[0]


@pytest.fixture(scope="module")
def sleigh():
    return Sleigh()


def test_a_sleigh_turns_round_as_the_closed_form_says(sleigh):
    t = np.linspace(0, 3.0, SAMPLES + 1)
    u, w = sleigh.rates(t)
    assert u[0] < -0.9 * sleigh.U and u[-1] > 0.9 * sleigh.U
    exact = np.column_stack(
        [[sleigh.heading(x) for x in t], w, u, np.array([sleigh.edge(x) for x in t])]
    )

    def error(steps):
        body = Samples(sleigh.built, t[-1], steps)["sleigh"]
        c, s = np.cos(body.angle), np.sin(body.angle)
        along = body.velocity[:, 0] * c + body.velocity[:, 1] * s
        edge = body.point((-sleigh.a, 0.0))
        return rms(np.column_stack([body.angle, body.angular_velocity, along, edge]) - exact)

    assert observed_order(error, 100) == pytest.approx(4, abs=0.15)


def test_a_sleigh_keeps_its_energy_and_ends_up_going_straight(sleigh):
    def change(steps):
        energy = Samples(sleigh.built, 3.0, steps).energy()
        return rms((energy - energy[0])[:, None])

    assert observed_order(change, 200) == pytest.approx(4, abs=0.15)
    # The angular velocity decays like 2 W exp(-k (t - t0)), to 1e-15 here. At this step the
    # method's error in the angle and the speed is below 1e-7 by the order just seen.
    body = Samples(sleigh.built, 20.0, 2000)["sleigh"]
    assert abs(body.angular_velocity[-1]) < 1e-12
    assert body.angle[-1] == pytest.approx(sleigh.heading(20.0), abs=1e-6)
    assert np.linalg.norm(body.velocity[-1]) == pytest.approx(sleigh.U, abs=1e-7)


def test_a_knife_edge_never_slips_sideways(sleigh):
    run = hx.simulate(*sleigh.built, 3.0, dt=0.03)
    assert run.drift()[1].max() < 1e-13


# -- the rolling disc ------------------------------------------------------------------------


class RollingDisc:
    """A disc that rolls in a circle at a constant slant.

    With the axle e3 at the angle `slant` from the vertical, e1 level and e2 up the disc's plane,
    the frame (e1, e2, e3) precesses at `turn` about the vertical and the disc has the spin w3
    about e3 in all. Rolling moves the centre at -r w3 e1, and the momentum balance about the
    centre along e1, with A the inertia across and C along the axle, demands

        (C + m r^2) w3 turn sin(slant) - A turn^2 sin(slant) cos(slant) + m g r cos(slant) = 0.
    """

    mass, radius, slant, turn = 1.5, 0.4, 1.2, 1.7

    def __init__(self):
        m, r, s, c = self.mass, self.radius, np.sin(self.slant), np.cos(self.slant)
        across, along = m * r**2 / 4, m * r**2 / 2
        load = m * 9.81 * r * c
        self.w3 = (across * self.turn**2 * s * c - load) / ((along + m * r**2) * self.turn * s)
        position, axes = (x[0] for x in self.exact(np.zeros(1)))
        model = hx.Model()
        model.body(
            "disc",
            hx.disc(r, mass=m),
            position=position,
            rotation=axes,
            velocity=-r * self.w3 * axes[:, 0],
            angular_velocity=self.turn * s * axes[:, 1] + self.w3 * axes[:, 2],
        )
        model.rolling_disc("rim", "disc", radius=r, axis=axes[:, 2])
        self.built = model.build()

    def exact(self, t):
        """Position of the centre (times, 3) and rotation of the disc (times, 3, 3)."""
        s, c = np.sin(self.slant), np.cos(self.slant)
        x, y, zero, one = np.cos(self.turn * t), np.sin(self.turn * t), 0 * t, 1 + 0 * t
        e1 = np.stack([x, y, zero], axis=-1)
        e2 = np.stack([-c * y, c * x, s * one], axis=-1)
        e3 = np.stack([s * y, -s * x, c * one], axis=-1)
        own = (self.w3 - self.turn * c) * t  # the disc's turn in the frame
        b1 = np.cos(own)[:, None] * e1 + np.sin(own)[:, None] * e2
        b2 = -np.sin(own)[:, None] * e1 + np.cos(own)[:, None] * e2
        circle = -self.radius * self.w3 / self.turn
        centre = np.stack([circle * y, -circle * x, self.radius * s * one], axis=-1)
        return centre, np.stack([b1, b2, e3], axis=-1)


@pytest.fixture(scope="module")
def disc():
    return RollingDisc()


def test_a_disc_rolls_in_its_circle_of_steady_slant(disc):
    t = np.linspace(0, 2.0, SAMPLES + 1)
    centre, axes = disc.exact(t)

    def error(steps):
        body = Samples(disc.built, t[-1], steps)["disc"]
        parts = [body.position - centre, (body.rotation - axes).reshape(t.size, 9)]
        return rms(np.concatenate(parts, axis=1))

    assert error(200) < 1e-6
    assert observed_order(error, 100) == pytest.approx(4, abs=0.15)


def test_a_wobbling_disc_keeps_its_energy_and_does_not_slip(disc):
    system, start = disc.built
    pushed = np.array(start.v)
    pushed[3:] += [0.8, -0.5, 0.3]
    wobbling = system, hx.consistent(system, start.q, pushed)

    def change(steps):
        energy = Samples(wobbling, 2.0, steps).energy()
        return rms((energy - energy[0])[:, None])

    assert observed_order(change, 200) == pytest.approx(4, abs=0.15)
    position, rate = hx.simulate(*wobbling, 2.0, dt=0.01).drift()
    assert position.max() < 1e-13
    assert rate.max() < 1e-13
