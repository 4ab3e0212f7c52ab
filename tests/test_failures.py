"""Every way a run can fail: its status, the objects it names, its advice, and what it returns."""

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import examples
from sections import in_part


def particle(force):
    return hx.FunctionSystem(mass=lambda q, p: jnp.ones(1), force=force, coordinate_names=["x"])


def foldable():
    """A crank and a rod of equal length with a slider: where they fold up, it is singular."""
    model = hx.Model(gravity=(0.0, -9.81))
    c, s = np.cos(0.3), np.sin(0.3)
    crank = model.planar_body("crank", 1.0, 1 / 12, position=(c / 2, s / 2), angle=0.3)
    rod = model.planar_body("rod", 1.0, 1 / 12, position=(1.5 * c, s / 2), angle=-0.3)
    slider = model.planar_body("slider", 1.0, 0.1, position=(2 * c, 0.0))
    crank_speed = 4.0
    model.revolute("pivot", model.ground, crank, at=(0, 0))
    model.revolute("pin", crank, rod, at=(c, s))
    model.revolute("wrist", rod, slider, at=(2 * c, 0))
    model.prismatic("guide", model.ground, slider, at=(2 * c, 0), axis=(1, 0))
    system, start = model.build()
    v = np.zeros(9)
    v[6:] = crank_speed, -crank_speed, 0.0  # angular velocities; the rest is made consistent
    return system, hx.consistent(system, start.q, v, hold_velocity=["crank.angle"])


def pendulum_with_force(force):
    model = hx.Model(gravity=(0.0, -9.81))
    rod = model.planar_body("rod", 1.0, 1 / 12, position=(0.5, 0.0))
    model.revolute("pivot", model.ground, rod, at=(0, 0))
    model.torque("motor", rod, torque=force)
    return model.build()


CASES = {
    "step too small": (
        lambda: (s := particle(lambda q, v, t, p: 1 / (1.0 - q) ** 2), hx.consistent(s, [0.5])),
        {"rtol": 1e-6},
        "step too small",
        ["x", "rtol"],
    ),
    "nan of a user function": (
        lambda: pendulum_with_force(lambda t: jnp.sqrt(0.5 - t)),
        {"rtol": 1e-6},
        "non-finite",
        ["'motor'", "near this time"],
    ),
    "nan of a user function, equal steps": (
        lambda: pendulum_with_force(lambda t: jnp.sqrt(0.5 - t)),
        {"dt": 1e-2},
        "non-finite",
        ["'motor'"],
    ),
    "no convergence": (
        lambda: (
            s := particle(
                lambda q, v, t, p: jnp.where(t < 1, -q, -1e4 * jnp.sign(q) * jnp.abs(q) ** 0.2)
            ),
            hx.consistent(s, [1.0]),
        ),
        {"dt": 0.5, "integrator": hx.ImplicitMidpoint(), "formulation": hx.Index1()},
        "not converged",
        ["dt"],
    ),
    "singular configuration": (
        lambda: examples.n_four_bar(1),
        {"rtol": 1e-9},
        "singular",
        ["A0", "A1", "B0 left", "dependent"],
    ),
    "singular, implicit": (
        foldable,
        {"dt": 1e-3, "formulation": hx.GGL(), "integrator": hx.RadauIIA(2)},
        "singular",
        ["pin", "dependent"],
    ),
    "partition lost": (
        lambda: examples.n_four_bar(1),
        {"rtol": 1e-9, "formulation": hx.CoordinatePartitioning()},
        "singular",
        ["A0", "dependent"],
    ),
    "constraint blow-up": (
        examples.slider_crank,
        {"dt": 0.2, "formulation": hx.Baumgarte(50.0), "integrator": hx.Euler()},
        "constraint blow-up",
        ["constraint", "off by", "PostStabilized"],
    ),
    "blow-up": (
        lambda: (s := particle(lambda q, v, t, p: 1e3 * q * jnp.abs(q)), hx.consistent(s, [1.0])),
        {"dt": 1e-2, "integrator": hx.RK4()},
        "blow-up",
        ["x", "blew up"],
    ),
}


@pytest.mark.parametrize("case", in_part(CASES, {"singular, implicit"}))
def test_every_failure_has_a_status_names_and_all_results_so_far(case):
    make, options, status, words = CASES[case]
    system, start = make()
    run = hx.simulate(system, start, 10.0, **options)
    assert not run.success
    assert run.status == status, run.message
    for word in (*words, "stopped at t", "All states before it are returned"):
        assert word in run.message, run.message
    assert run.t.size > 1 and run.t[-1] < 10.0
    for array in (run.t, run.q, run.v):
        assert np.all(np.isfinite(array))
    assert np.all(np.diff(run.t) > 0)


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_a_row_of_four_bars_is_crossed_on_its_branch_or_stops(rtol):
    """All cranks stay parallel: on the other branch they would turn against each other."""
    system, start = examples.n_four_bar(1)
    run = hx.simulate(system, start, 5.0, rtol=rtol)
    assert run.success or run.status == "singular"
    first, second = run["crank 0"].angle, run["crank 1"].angle
    assert np.max(np.abs(first - second)) < 1e-6
    energy = run.energy.total
    assert np.max(np.abs(energy - energy[0])) < 30 * rtol * abs(energy[0]) + 1e-3 * (rtol > 1e-5)


def test_equal_steps_cross_it_on_their_branch():
    system, start = examples.n_four_bar(1)
    run = hx.simulate(system, start, 5.0, dt=5e-3)
    assert run.success
    assert np.max(np.abs(run["crank 0"].angle - run["crank 1"].angle)) < 1e-9


def test_a_joint_that_is_left_is_no_success():
    """A constraint that jumps with the motion: Index1 goes on as if nothing had happened."""
    model = hx.Model(gravity=(0.0, -9.81))
    model.planar_body("rod", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))

    def odd(rod, t):
        pin = rod.point(hx.Vec2(-0.5, 0.0))
        return jnp.stack([pin.x + jnp.where(rod.angle < -0.5, 0.2, 0.0), pin.y])

    model.custom_joint("odd", ["rod"], odd)
    run = model.simulate(1.0, dt=1e-3, formulation=hx.Index1(), integrator=hx.RK4())
    assert (run.success, run.status) == (False, "drift")
    assert "'odd' does not hold" in run.message
    assert run.t[-1] == 1.0


@pytest.mark.parametrize("dt", [0.02, 0.05])
def test_drift_that_a_method_is_known_for_is_no_failure(dt):
    """Index1 drifts by its order: visible here, and far below what is called broken."""
    system, start = hx.examples.slider_crank()
    run = hx.simulate(system, start, 1.0, dt=dt, formulation=hx.Index1(), integrator=hx.RK4())
    assert run.success
    assert run.drift()[0].max() > 1e-8


@pytest.mark.parametrize(
    "options",
    [
        {"rtol": 1e-6},
        {"dt": 0.01, "formulation": hx.PostStabilized(), "integrator": hx.RK4()},
        {"dt": 0.01, "formulation": hx.CoordinateProjection(), "integrator": hx.Dopri5()},
        {"dt": 0.01, "formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.9)},
        pytest.param(
            {"dt": 0.01, "formulation": hx.GGL(), "integrator": hx.RadauIIA(2)},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_step_in_the_ground_is_not_climbed_in_no_time(options):
    """A slide whose height depends on the place with a branch: 0.3 m up at x = 0.5 m."""

    def slide(height):
        return hx.FunctionSystem(
            mass=lambda q, p: jnp.ones(2),
            force=lambda q, v, t, p: jnp.zeros(2),
            constraint=lambda q, t, p: jnp.array([q[1] - height(q[0])]),
        )

    start = np.zeros(2), np.array([1.0, 0.0])
    stepped = slide(lambda x: jnp.where(x > 0.5, 0.3, 0.0))
    run = hx.simulate(stepped, hx.consistent(stepped, *start), 1.0, **options)
    assert not run.success, run.message
    # a ramp 5 cm long is climbed
    ramp = slide(lambda x: 0.15 * (1 + jnp.tanh((x - 0.5) / 0.05)))
    run = hx.simulate(ramp, hx.consistent(ramp, *start), 1.0, **options)
    assert run.success, run.message
