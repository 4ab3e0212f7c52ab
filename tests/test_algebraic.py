"""Algebraic enforcement: the orders of the printed and corrected scheme.

Orders are log2 of the ratio of errors for a step and half of it, so they approach the true ones
with the step; the steps are chosen such that what is missing is below 0.1.
"""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import holonax as hx
from holonax.papers.welch2007 import LENGTH
from holonax.papers.welch2007 import double_pendulum as published_pendulum
from holonax.problem import StepContext
from mechanisms import slider_crank, two_link_arm

SECOND, PRINTED = hx.AlgebraicEnforcement(2), hx.AlgebraicEnforcement(2, scheme="printed")
FIRST = hx.AlgebraicEnforcement(1)

# -- the errors of a run ------------------------------------------------------------------------


@eqx.filter_jit
def _rates(system, q, v, t):
    a, lam = system.accelerations(q, v, t)
    return jnp.concatenate([system.qdot(q, v), a]), lam


@eqx.filter_jit
def _at(system, q, v, t):
    return system.energy(q, v), system.constraint(q, t), system.constraint_rate(q, v, t)


def exact(system, start, times):
    """(q, v, lam) at the times, from the index-1 equations to about 1e-11."""
    n = start.q.size

    def rhs(t, y):
        return np.asarray(_rates(system, y[:n], y[n:], t)[0])

    y0, span = np.concatenate([start.q, start.v]), (start.t, max(times))
    y = solve_ivp(rhs, span, y0, "DOP853", t_eval=times, rtol=1e-12, atol=1e-13).y.T
    lam = [np.asarray(_rates(system, x[:n], x[n:], t)[1]) for t, x in zip(times, y, strict=True)]
    return y[:, :n], y[:, n:], np.array(lam)


class Errors:
    """Errors at `t_end` of runs of `steps` and twice as many steps, and the orders they show."""

    def __init__(self, system, start, t_end, steps, formulation, solution=exact):
        self.runs = [
            hx.simulate(system, start, t_end, dt=t_end / n, formulation=formulation)
            for n in (steps, 2 * steps)
        ]
        assert all(run.success for run in self.runs)
        times = np.unique([t for run in self.runs for t in (run.t[-2], run.t_lam[-1], t_end)])
        q, v, lam = solution(system, start, times)
        self.q, self.v = q[-1], v[-1]
        self.lam = dict(zip(times, lam, strict=True))

    def order(self, error):
        coarse, fine = (np.linalg.norm(error(run)) for run in self.runs)
        assert fine > 1e-12, "this is rounding"
        return np.log2(coarse / fine)

    def position(self, part=slice(None)):
        return self.order(lambda run: (run.q[-1] - self.q)[part])

    def velocity(self, part=slice(None)):
        return self.order(lambda run: (run.v[-1] - self.v)[part])

    def multipliers(self):
        return self.order(lambda run: run.lam[-1] - self.lam[run.t_lam[-1]])

    def mean_multipliers(self):
        return self.order(lambda run: (run.lam[-1] + run.lam[-2]) / 2 - self.lam[run.t[-2]])

    @staticmethod
    def _end(run):
        return _at(run.system, run.q[-1], run.v[-1], run.t[-1])

    def energy(self):
        level = _at(self.runs[0].system, self.q, self.v, self.runs[0].t[-1])[0]
        return self.order(lambda run: self._end(run)[0] - level)

    def constraint(self):
        return self.order(lambda run: self._end(run)[1])

    def rate(self):
        return self.order(lambda run: self._end(run)[2])


# -- the planar double pendulum (its published numbers: test_papers.py) -------------------------


@cache
def double_pendulum():
    """Two links along y, at rest, gravity along x (Eqs. 66, 67)."""
    system = published_pendulum()
    return system, hx.consistent(system, q=[0.0, LENGTH / 2, 0.0, 0.0, 1.5 * LENGTH, 0.0])


def swinging():
    """The double pendulum with a push: from rest the predictor's v is of second order."""
    system, start = double_pendulum()
    push = hx.consistent(system, q=start.q, v=[2.5, 0, 1, 3, 0, -1], hold_velocity=[2, 5])
    return system, push


def test_a_mechanism_of_planar_bodies_takes_the_same_steps():
    given = hx.simulate(*double_pendulum(), 10.0, dt=0.005, formulation=SECOND)
    run = hx.simulate(*hx.examples.double_pendulum(), 10.0, dt=0.005, formulation=SECOND)
    # gravity along -y instead of x, links along x instead of y
    got = [[-y, x, -a] for name in ("upper", "lower") for x, y, a in [_pose(run[name])]]
    np.testing.assert_allclose(np.ravel(got), given.q[-1], rtol=0, atol=1e-9)


def _pose(motion):
    return *motion.position[-1], motion.angle[-1]


def test_second_order_on_the_double_pendulum_with_multipliers_at_mid_step():
    errors = Errors(*double_pendulum(), 2.0, 400, SECOND)
    assert errors.position() == pytest.approx(2, abs=0.1)
    assert errors.velocity() == pytest.approx(2, abs=0.1)
    assert errors.multipliers() == pytest.approx(2, abs=0.1)
    assert errors.constraint() == pytest.approx(3, abs=0.1)


def test_multipliers_alternate_about_the_true_ones_after_a_start_in_motion():
    errors = Errors(*swinging(), 2.0, 400, SECOND)
    assert errors.position() == pytest.approx(2, abs=0.1)
    assert errors.velocity() == pytest.approx(2, abs=0.1)
    assert errors.multipliers() == pytest.approx(1, abs=0.1)
    assert errors.mean_multipliers() == pytest.approx(2, abs=0.1)


def test_first_order_of_the_predictor_alone():
    errors = Errors(*swinging(), 2.0, 4000, FIRST)
    assert errors.position() == pytest.approx(1, abs=0.1)
    assert errors.velocity() == pytest.approx(1, abs=0.1)
    assert errors.multipliers() == pytest.approx(1, abs=0.1)
    assert errors.constraint() == pytest.approx(2, abs=0.1)


def test_accelerations_and_multipliers_belong_to_the_times_they_are_reported_for():
    system, start = double_pendulum()
    times = np.array([0.3003, 0.5, 0.9])  # the steps before each have a size of their own
    run = hx.simulate(system, start, 0.9, dt=0.005, formulation=SECOND, save=times)
    np.testing.assert_allclose(
        run.t_lam, times - 0.5 * np.array([0.3003 / 61, 0.1997 / 40, 0.005]), rtol=0, atol=1e-14
    )
    q, v, later = exact(system, start, times)
    _, _, lam = exact(system, start, run.t_lam)
    assert np.abs(run.lam - lam).max() < 5e-3
    assert np.abs(run.lam - later).max() > 5e-2  # half a step later they are others
    a = [_rates(system, *state)[0][6:] for state in zip(q, v, times, strict=True)]
    assert np.abs(run.a - a).max() < 5e-3


# -- spatial bodies -----------------------------------------------------------------------------


@cache
def spatial_pendulum():
    """Three flat links on balls, hanging while gravity pulls askew, so that they tumble."""
    model = hx.Model(gravity=(-5.0, -5.0 * 2**0.5, -5.0))
    previous, z = model.ground, 0.0
    for i, length in enumerate((1.0, 2.0, 2.5)):
        bar = hx.box((0.5 * length, 0.1 * length, length), mass=length**3)
        link = model.body(f"link{i}", bar, position=(0, 0, z - length / 2))
        model.spherical(f"ball{i}", previous, link, at=(0, 0, z))
        previous, z = link, z - length
    return model.build()


R, E, OMEGA = slice(0, 9), slice(9, 21), slice(9, 18)


@pytest.mark.parametrize(("formulation", "order", "steps"), [(SECOND, 2, 1000), (PRINTED, 1, 4000)])
def test_on_the_spatial_pendulum_the_corrected_scheme_has_order_two_the_printed_one(
    formulation, order, steps
):
    errors = Errors(*spatial_pendulum(), 1.0, steps, formulation)
    assert errors.position(R) == pytest.approx(order, abs=0.15)
    assert errors.position(E) == pytest.approx(order, abs=0.15)
    assert errors.velocity(R) == pytest.approx(order, abs=0.15)
    assert errors.velocity(OMEGA) == pytest.approx(order, abs=0.15)
    assert errors.energy() == pytest.approx(order, abs=0.15)
    assert errors.constraint() == pytest.approx(3, abs=0.15)
    if order == 2:  # rounding, magnified by dt^-2, hides the order for the printed scheme's steps
        assert errors.multipliers() == pytest.approx(2, abs=0.15)
    for run in errors.runs:
        length = np.linalg.norm(run.q[-1][E].reshape(4, 3), axis=0)
        np.testing.assert_allclose(length, 1.0, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_the_constraints_of_the_spatial_pendulum_stay_four_decades_below_baumgarte():
    """Table 3; its digits depend on what is not printed, orders and gap do not."""
    system, start = hx.examples.three_link_pendulum()
    feedback = hx.Baumgarte("0.5/dt", "1/dt")

    def mean(dt, **method):
        run = hx.simulate(system, start, 10.0, dt=dt, **method)
        return np.mean(run.drift(norm=2)[0])

    ours = [mean(dt, formulation=SECOND) for dt in (1e-4, 5e-5)]
    theirs = [mean(dt, formulation=feedback, integrator=hx.Heun()) for dt in (1e-4, 5e-5)]
    assert np.log2(ours[0] / ours[1]) == pytest.approx(3, abs=0.2)
    assert np.log2(theirs[0] / theirs[1]) == pytest.approx(2, abs=0.1)
    assert theirs[1] > 1e3 * ours[1]


@pytest.mark.parametrize("formulation", [FIRST, SECOND])
def test_euler_parameters_satisfy_the_published_update(formulation):
    model = hx.Model()
    model.body("book", 1.5, [1.0, 2.0, 3.0], rotation=(0.3, -0.5, 0.9), angular_velocity=(4, 5, 6))
    system, start = model.build()
    dt = jnp.asarray(0.1)
    context = StepContext(system, dt, formulation)
    end = jax.jit(lambda q, v: formulation.step(context, jnp.zeros(()), q, v))(start.q, start.v)

    def rate(e, w):  # Eqs. 10, 11
        return np.array([-w @ e[1:], *(w * e[0] - np.cross(w, e[1:]))]) / 2

    e0, e1, w0, w1 = (np.asarray(x)[3:] for x in (start.q, end.q, start.v, end.v))
    assert np.linalg.norm(e1) == pytest.approx(1, abs=1e-15)
    if formulation is SECOND:  # Eq. 32 keeps the length by itself
        middle = rate(e0 + e1, (w0 + w1) / 2)
        np.testing.assert_allclose(e1, e0 + dt / 2 * middle, rtol=0, atol=1e-15)
    else:  # Eq. 17 before its normalization, whose length is what makes e0 a unit vector
        before = e1 - dt * rate(e1, w1)
        np.testing.assert_allclose(before / np.linalg.norm(before), e0, rtol=0, atol=1e-15)


# -- what the paper leaves to the reader --------------------------------------------------------


def test_second_order_with_a_moving_constraint_variable_mass_and_forces_of_velocity():
    errors = Errors(*two_link_arm(2), 0.8, 200, SECOND)
    assert errors.position() == pytest.approx(2, abs=0.1)
    assert errors.velocity() == pytest.approx(2, abs=0.1)
    assert errors.multipliers() == pytest.approx(2, abs=0.1)
    assert errors.constraint() == pytest.approx(3, abs=0.1)


SLOPE, TURN, TORQUE = 3.0, 2.0, 0.7


@cache
def turning_skate():
    """A skate on a slope along x that must not slip sideways and is turned at a given rate."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([2.0, 2.0, 0.5]),
        force=lambda q, v, t, p: jnp.array([2.0 * SLOPE, 0.0, TORQUE]),
        constraint=lambda q, t, p: q[2:] - TURN * t,
        nonholonomic=lambda q, v, t, p: jnp.array([v[1] * jnp.cos(q[2]) - v[0] * jnp.sin(q[2])]),
    )
    return system, hx.consistent(system, q=[0.0, 0.0, 0.0], v=[0.0, 0.0, TURN])


def skate_in_closed_form(system, start, times):
    """The speed is SLOPE / TURN sin(TURN t), so the skate goes down and comes back."""
    angle = TURN * times
    s, c = np.sin(angle), np.cos(angle)
    v = SLOPE / TURN * np.array([s * c, s * s])
    lam = np.array([np.full_like(times, TORQUE), -2 * 2.0 * SLOPE * s])
    q = np.array([SLOPE / TURN**2 * s**2 / 2, SLOPE / TURN**2 * (angle - s * c) / 2, angle])
    return q.T, np.array([*v, np.full_like(times, TURN)]).T, lam.T


@pytest.mark.parametrize(("formulation", "order", "steps"), [(FIRST, 1, 2000), (SECOND, 2, 200)])
def test_a_skate_that_is_turned_follows_its_cycloid_without_slipping(formulation, order, steps):
    errors = Errors(*turning_skate(), 1.0, steps, formulation, skate_in_closed_form)
    assert errors.position() == pytest.approx(order, abs=0.1)
    assert errors.velocity() == pytest.approx(order, abs=0.1)
    assert errors.multipliers() > order - 0.1  # 3 for order 2, since it turns evenly
    assert errors.rate() > order - 0.1


@pytest.mark.slow
def test_a_rolling_disc_keeps_to_the_plane_and_does_not_slip():
    model, tilt = hx.Model(), 0.3
    disc = model.body(
        "disc",
        hx.disc(0.5, mass=2.0),
        position=(0, 0, 0.5 * np.cos(tilt)),
        rotation=(np.pi / 2 - tilt, 0, 0),
        angular_velocity=(0.3, 4.0, 0.5),
    )
    model.rolling_disc("rim", disc, radius=0.5, axis_b=(0, 0, 1))
    errors = Errors(*model.build(), 0.5, 200, SECOND)
    assert errors.position() == pytest.approx(2, abs=0.1)
    assert errors.velocity() == pytest.approx(2, abs=0.1)
    assert errors.mean_multipliers() == pytest.approx(2, abs=0.1)
    assert errors.constraint() == pytest.approx(3, abs=0.1)
    assert errors.rate() == pytest.approx(2, abs=0.1)


def test_redundant_constraints_leave_the_motion_as_it_is():
    system, start = slider_crank()
    repeated = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([0.045, 33 / 4800, 1.0, 1.0]),
        force=lambda q, v, t, p: jnp.array([0.0, 0.0, 0.0, -10.0]),
        constraint=lambda q, t, p: system.constraint(q, t)[jnp.array([0, 1, 2, 2])],
    )
    again = hx.consistent(repeated, q=start.q)
    assert again.redundant
    one = hx.simulate(system, start, 1.0, dt=0.01, formulation=SECOND)
    two = hx.simulate(repeated, again, 1.0, dt=0.01, formulation=SECOND)
    np.testing.assert_allclose(two.q, one.q, rtol=0, atol=1e-10)
    shared = one.lam[:, [0, 1, 2, 2]] * [1, 1, 0.5, 0.5]
    np.testing.assert_allclose(two.lam, shared, rtol=0, atol=1e-6)


def test_the_step_is_the_published_matrix_on_a_linear_system():
    """X of Eq. 61, with eigenvalues 1, 0 and -1 only: stable for every step."""
    B, M = np.array([[1.0, 0.0, -2.5], [-1.0, 1.0, -2.5]]), np.array([1.0, 2.0, 3.0])
    system = hx.FunctionSystem(
        mass=lambda q, p: M,
        force=lambda q, v, t, p: jnp.zeros(3),
        constraint=lambda q, t, p: B @ q,
    )
    dt = 0.7
    context = StepContext(system, jnp.asarray(dt), SECOND)

    def step(y):
        end = SECOND.step(context, jnp.zeros(()), y[:3], y[3:])
        return jnp.concatenate([end.q, end.v])

    projector = (B / M).T @ np.linalg.solve((B / M) @ B.T, B)
    free = np.eye(3) - projector
    X = np.block([[free, dt * free], [-2 / dt * projector, free - projector]])
    np.testing.assert_allclose(jax.jit(jax.jacfwd(step))(jnp.ones(6)), X, rtol=0, atol=1e-13)
    assert np.abs(np.linalg.eigvals(X)).max() == pytest.approx(1, abs=1e-7)


def test_other_integrators_and_options_are_refused():
    with pytest.raises(ValueError, match=r"RK4 cannot integrate .*PredictorCorrector"):
        hx.simulate(*double_pendulum(), 1.0, dt=0.1, formulation=SECOND, integrator=hx.RK4())
    with pytest.raises(ValueError, match=r"PredictorCorrector cannot integrate Index1"):
        hx.simulate(
            *double_pendulum(),
            1.0,
            dt=0.1,
            formulation=hx.Index1(),
            integrator=hx.PredictorCorrector(),
        )
    with pytest.raises(ValueError, match=r"order=3 does not exist\. Use 1"):
        hx.AlgebraicEnforcement(3)
    with pytest.raises(ValueError, match="scheme='best' is not known"):
        hx.AlgebraicEnforcement(2, scheme="best")
    assert repr(PRINTED) == "AlgebraicEnforcement(2, scheme='printed')"


def test_its_runs_are_asked_between_steps_and_for_their_energy():
    """The order of these steps is the formulation's to say."""
    system, start = hx.examples.slider_crank()
    method = {"formulation": SECOND, "integrator": hx.PredictorCorrector()}
    run = hx.simulate(system, start, 0.2, dt=1e-3, **method)
    half = hx.simulate(system, start, 0.2, dt=5e-4, **method)
    # both errors are of second order, and that of the polynomial between states of fourth
    np.testing.assert_allclose(run.at(half.t)[0], half.q, atol=1e-4)
    assert np.max(np.abs(run.energy.balance)) < 1e-3 * np.max(np.abs(run.energy.total))
