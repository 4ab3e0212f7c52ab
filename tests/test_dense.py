"""Dense output: states between the steps are as accurate as those at the steps, and hold."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import holonax as hx
from holonax import examples
from holonax.result import interpolation
from holonax.result.states import Leg


@pytest.fixture(scope="module")
def slider_crank():
    system, start = examples.slider_crank()
    return system, start, hx.simulate(system, start, 2.0, dt=1e-3, integrator=hx.Dop853())


@pytest.mark.parametrize("integrator", [hx.Dopri5(), hx.Dop853()], ids=lambda i: type(i).__name__)
def test_states_between_steps_have_the_accuracy_of_the_steps(slider_crank, integrator):
    system, start, exact = slider_crank
    times = exact.t[37::41]  # anywhere between the steps
    right = np.arange(exact.t.size)[37::41]
    for rtol in (1e-5, 1e-8):
        options = {"rtol": rtol, "integrator": integrator}
        between = hx.simulate(system, start, 2.0, save=times, **options)
        np.testing.assert_array_equal(between.t, times)
        position, velocity = between.drift()
        assert position.max() < 1e-13 and velocity.max() < 1e-12
        steps = hx.simulate(system, start, 2.0, **options)
        q, v = errors_at_steps(steps, exact)
        assert np.max(np.abs(between.q - exact.q[right])) < 3 * q + 1e-12
        assert np.max(np.abs(between.v - exact.v[right])) < 3 * v + 1e-11
        # afterwards, from the steps that were saved
        again = steps.at(times)
        np.testing.assert_allclose(again[0], between.q, atol=1e-13)
        np.testing.assert_allclose(again[1], between.v, atol=1e-12)


def errors_at_steps(run, exact):
    """Largest errors of q and v at the steps; the reference, of many steps, is interpolated."""
    q, v = exact.at(run.t)
    return np.max(np.abs(run.q - q)), np.max(np.abs(run.v - v))


@pytest.mark.parametrize(("order", "expected"), [(5, 6), (8, 12)])
def test_order_of_the_polynomial_on_rotations(order, expected):
    """A body that turns about a fixed axis with an angle known in closed form."""
    model = hx.Model(gravity=(0.0, 0.0, 0.0))
    model.body("disc", 1.0, (1.0, 1.0, 1.0))
    system, _ = model.build()
    angle = lambda t: np.sin(t) + 0.5 * t  # noqa: E731
    axis = np.array([1.0, 2.0, 2.0]) / 3
    integrator = {5: hx.Dopri5(), 8: hx.Dop853()}[order]

    def state(t):
        half = angle(t)[:, None] / 2
        q = np.concatenate([np.zeros((t.size, 3)), np.cos(half), np.sin(half) * axis], axis=1)
        return q, np.concatenate([np.zeros((t.size, 3)), (np.cos(t) + 0.5)[:, None] * axis], 1)

    # accelerations at the steps are those of the motion, not of a free body
    class Turning(hx.Index1):
        def accelerations(self, context, t, state):
            return jnp.concatenate([jnp.zeros(3), -jnp.sin(t) * jnp.asarray(axis)]), jnp.zeros(0)

    leg = Leg(system, Turning(), integrator, 0.1)
    errors = []
    for h in (0.8, 0.4):
        ts = h * np.arange(6)
        times = ts[2] + h * np.array([0.3, 0.5, 0.8])
        q, _ = interpolation.interpolate(leg, ts, *state(ts), times, np.full(3, 2))
        errors.append(np.max(np.abs(q - state(times)[0])))
    assert np.log2(errors[0] / errors[1]) > expected - 0.5


def test_times_between_need_every_step(slider_crank):
    system, start, _ = slider_crank
    some = hx.simulate(system, start, 0.5, rtol=1e-5, save="end")
    with pytest.raises(ValueError, match='save="steps"'):
        some.at([0.1])
    steps = hx.simulate(system, start, 0.5, rtol=1e-5)
    with pytest.raises(ValueError, match="within the run"):
        steps.at([0.7])


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6), rank=st.integers(0, 6))
def test_what_brings_states_onto_dependent_constraints_is_the_smallest(seed, n, rank):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(3, n, min(rank, n)))
    matrices = factors @ np.swapaxes(factors, 1, 2)
    sides = (matrices @ rng.normal(size=(3, n, 1)))[..., 0]
    found = interpolation._solved(matrices, sides)
    smallest = [np.linalg.lstsq(A, b, rcond=1e-10)[0] for A, b in zip(matrices, sides, strict=True)]
    kept = np.linalg.eigvalsh(matrices) > 1e-10 * np.linalg.norm(matrices, 2, (1, 2))[:, None]
    assume(np.all(kept.sum(1) == factors.shape[2]))  # no rank that depends on the limit
    condition = np.linalg.cond(factors).max(initial=1.0) ** 2 if factors.size else 1.0
    np.testing.assert_allclose(
        found, smallest, rtol=0, atol=1e-13 * condition * (1 + abs(sides).max())
    )
