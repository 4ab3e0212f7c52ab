"""What tests against reference solutions share: sampled runs, observed orders, Lagrange's
equations in minimal coordinates, a four-bar."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import holonax as hx
from holonax.result.motion import body_motion, total_momentum

ORDER = {hx.Euler: 1, hx.Heun: 2, hx.Midpoint: 2, hx.Ralston: 2, hx.RK4: 4, hx.Dopri5: 5}
SAMPLES = 20
LINKS = ("crank", "coupler", "rocker")


class Samples:
    """A run of `steps` equal steps, seen at its start and at `SAMPLES` equally spaced times."""

    def __init__(self, built, t_end, steps, integrator=hx.RK4):
        assert steps % SAMPLES == 0
        run = hx.simulate(*built, t_end, dt=t_end / steps, integrator=integrator())
        assert run.success and run.stats["steps"] == steps
        every = slice(None, None, steps // SAMPLES)
        self.t, self.q, self.v = run.t[every], run.q[every], run.v[every]
        self.system = run.system

    def __getitem__(self, name):
        return body_motion(self.system, name, self.q, self.v, np.zeros_like(self.v))

    def energy(self):
        both = zip(self.q, self.v, strict=True)
        return np.array([float(_energy(self.system, q, v)) for q, v in both])

    def momentum(self, about):
        return total_momentum(self.system, self.q, self.v, about)[1]


@eqx.filter_jit
def _energy(system, q, v):
    return system.energy(q, v)


def rms(error):
    """Root mean square over the sampled times of the errors (times, components)."""
    return np.sqrt(np.mean(np.sum(np.square(error), axis=-1)))


def observed_order(error, steps):
    """log2 of the ratio of `error(steps)` and `error(2 * steps)`."""
    coarse, fine = error(steps), error(2 * steps)
    assert fine > 1e-12, "the error is rounding, not the method's"
    return np.log2(coarse / fine)


def integrate(rhs, state, t):
    """A reference solution in minimal coordinates, (times, components), good to about 1e-12."""
    span = (t[0], t[-1])
    return solve_ivp(rhs, span, state, "DOP853", t_eval=t, rtol=1e-13, atol=1e-14).y.T


def minimal(lagrangian, dissipation=None):
    """Right-hand side of Lagrange's equations for L(q, v, t), in coordinates without constraints.

    `dissipation` is Rayleigh's function D(q, v, t): the forces are -dD/dv.
    """

    def power(q, v, t):
        return jnp.zeros(()) if dissipation is None else dissipation(q, v, t)

    @jax.jit
    def rates(t, y):
        q, v = jnp.split(y, 2)
        momentum = jax.grad(lagrangian, 1)
        drift = jax.jvp(lambda q, t: momentum(q, v, t), (q, t), (v, jnp.ones(())))[1]
        f = jax.grad(lagrangian)(q, v, t) - drift - jax.grad(power, 1)(q, v, t)
        return jnp.concatenate([v, jnp.linalg.solve(jax.hessian(lagrangian, 1)(q, v, t), f)])

    return lambda t, y: np.asarray(rates(jnp.asarray(t, float), y))


def rods(ends, masses, gravity):
    """L(q, v, t) of uniform rods in the plane from their two `ends`(q, t), (rods, 2, 2).

    Between ends that move with u and w a rod has the energy m (u u + u w + w w) / 6.
    """

    def lagrangian(q, v, t):
        x, u = jax.jvp(ends, (q, t), (v, jnp.ones(())))
        squares = jnp.sum(u[:, 0] ** 2 + u[:, 0] * u[:, 1] + u[:, 1] ** 2, axis=-1)
        return jnp.sum(jnp.asarray(masses) * (squares / 6 - gravity * x[:, :, 1].mean(axis=1)))

    return lagrangian


def turned(angles):
    """Angles as points on the unit circle, so that whole turns do not matter."""
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)


class FourBar:
    """Crank, coupler and rocker; the crank turns all round. Everything follows from its angle."""

    ground, lengths, masses = 0.6, np.array([0.2, 0.5, 0.4]), np.array([1.0, 2.0, 1.5])
    speed = 8.0
    gravity = 9.81

    def angles(self, crank):
        """Loop closure: crank + coupler = ground + rocker, solved by the triangle behind it."""
        a, b, c = self.lengths
        x, y = a * np.cos(crank) - self.ground, a * np.sin(crank)  # the crank's pin from D
        d = np.hypot(x, y)
        rocker = np.arctan2(y, x) - np.arccos((d**2 + c**2 - b**2) / (2 * c * d))
        coupler = np.arctan2(c * np.sin(rocker) - y, c * np.cos(rocker) - x)
        return np.array([crank, coupler, rocker])

    def ratios(self, angles):
        """Angular velocities for a crank that turns at 1 rad/s."""
        a, b, c = self.lengths
        p1, p2, p3 = angles
        return np.array(
            [
                np.ones_like(p1),
                -a * np.sin(p1 - p3) / (b * np.sin(p2 - p3)),
                a * np.sin(p1 - p2) / (c * np.sin(p3 - p2)),
            ]
        )

    def centres(self, angles):
        e = np.column_stack([np.cos(angles), np.sin(angles)])
        a, b, c = self.lengths[:, None] * e
        return np.array([a / 2, a + b / 2, [self.ground, 0.0] + c / 2])

    def inertia(self, angles):
        """Of the whole linkage, seen from the crank."""
        a, b, c = self.lengths
        w1, w2, w3 = self.ratios(angles)
        u1, u2 = a * w1, b * w2
        speed2 = u1**2 + u2**2 / 4 + u1 * u2 * np.cos(angles[0] - angles[1])  # coupler's centre
        J = self.masses * self.lengths**2 / 12
        m1, m2, m3 = self.masses
        return (
            (J[0] + m1 * a**2 / 4) * w1**2
            + J[1] * w2**2
            + m2 * speed2
            + (J[2] + m3 * c**2 / 4) * w3**2
        )

    def potential(self, angles):
        return self.gravity * self.masses @ self.centres(angles)[:, 1]

    def crank_at(self, t):
        """From the energy: inertia(crank) crank'^2 / 2 + potential(crank) is a constant."""
        first = self.angles(0.0)
        energy = self.inertia(first) * self.speed**2 / 2 + self.potential(first)

        def rate(t, crank):
            angles = self.angles(crank[0])
            return [np.sqrt(2 * (energy - self.potential(angles)) / self.inertia(angles))]

        return integrate(rate, [0.0], t)[:, 0]

    def model(self):
        """In the plane, every body in its place."""
        model = hx.Model()
        angles = self.angles(0.0)
        rates = self.speed * self.ratios(angles)
        for i, (name, centre) in enumerate(zip(LINKS, self.centres(angles))):
            rod = hx.rod(self.lengths[i], mass=self.masses[i])
            model.planar_body(
                name, rod, position=centre, angle=angles[i], angular_velocity=rates[i]
            )
        a, b, c = self.lengths / 2
        model.revolute("A", "ground", "crank", at_a=(0.0, 0.0), at_b=(-a, 0.0))
        model.revolute("B", "crank", "coupler", at_a=(a, 0.0), at_b=(-b, 0.0))
        model.revolute("C", "coupler", "rocker", at_a=(b, 0.0), at_b=(c, 0.0))
        model.revolute("D", "ground", "rocker", at_a=(self.ground, 0.0), at_b=(-c, 0.0))
        return model
