"""State-space methods: coordinate partitioning, tangent planes, and Haug's implicit step."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipj

import holonax as hx
from holonax.compiler import native
from holonax.integrator.partitioned import PartitionedStep, independent
from holonax.problem import FullState, StepContext
from mechanisms import slider_crank, spherical_chain, two_link_arm
from sections import in_part

METHODS = {
    "partitioning": hx.CoordinatePartitioning(),
    "qr": hx.NullSpace("qr"),
    "svd": hx.NullSpace("svd"),
    "gram-schmidt": hx.NullSpace("gram-schmidt"),
}


def changes(result):
    return result.stats.get("repartitions", result.stats.get("chart_changes"))


@native
def chosen(formulation, system, q, v):
    """What a formulation chooses at the start of a run."""
    context = StepContext(system, jnp.asarray(1e-3), formulation)
    return formulation.carry(context, jnp.asarray(0.0), (q, v), None)


def partition(system, start, formulation=METHODS["partitioning"]):
    return chosen(formulation, system, start.q, start.v)


def order(errors):
    return np.log2(errors[0] / errors[1])


# -- the first choice becomes singular, again and again


@cache
def point_pendulum():
    """A point on a massless rod of 1 m, in x and y, fast enough to go all the way round."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2),
        force=lambda q, v, t, p: jnp.array([0.0, -p["g"]]),
        constraint=lambda q, t, p: jnp.array([q[0] ** 2 + q[1] ** 2 - 1]) / 2,
        potential=lambda q, p: p["g"] * q[1],
        parameters={"g": 9.81},
    )
    return system, hx.consistent(system, [0.0, -1.0], [8.0, 0.0])


def point_pendulum_angle(t):
    """sin(angle/2) = sn(4 t), modulus^2 = 4 g / 8^2, followed through whole turns."""
    sn, cn, _, _ = ellipj(4.0 * t, 4 * 9.81 / 64)
    return 2 * np.unwrap(np.arctan2(sn, cn))


@pytest.mark.parametrize("name", ["partitioning", "qr"])
def test_a_point_goes_all_the_way_round_through_every_singular_choice(name):
    system, start = point_pendulum()
    errors = []
    for dt in (4e-3, 2e-3):
        run = hx.simulate(system, start, 4.0, dt=dt, formulation=METHODS[name])
        angle = point_pendulum_angle(run.t)
        exact = np.stack([np.sin(angle), -np.cos(angle)], axis=1)
        errors.append(np.abs(run.q - exact).max())
    turns = angle[-1] / (2 * np.pi)
    assert turns > 3
    # x and y take turns as the independent one: four changes in a whole turn, or more
    assert changes(run) >= 4 * int(turns) if name == "partitioning" else changes(run) > turns
    assert errors[1] < 2e-6
    assert order(errors) == pytest.approx(4, abs=0.15)
    position, velocity = run.drift()
    assert position.max() < 1e-15 and velocity.max() < 1e-14
    # no kink: nothing jumps where the choice changes
    assert np.abs(np.diff(run.energy.total)).max() < 1e-7
    assert np.abs(np.diff(run.q - exact, axis=0)).max() < 1e-6


def test_a_choice_kept_for_longer_costs_accuracy():
    system, start = point_pendulum()
    counts, errors = [], []
    for limit in (1.2, 2.0, 5.0):
        formulation = hx.CoordinatePartitioning(limit)
        run = hx.simulate(system, start, 4.0, dt=2e-3, formulation=formulation)
        counts.append(changes(run))
        angle = point_pendulum_angle(run.t)
        errors.append(np.abs(run.q - np.stack([np.sin(angle), -np.cos(angle)], axis=1)).max())
    assert counts[0] >= counts[1] >= counts[2] > 12
    assert 5 * errors[0] < errors[1] < errors[2] / 5


@cache
def skate():
    """A knife edge that slides along itself and turns at a constant rate: it runs in a circle."""
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([2.0, 2.0, 0.5]),
        force=lambda q, v, t, p: jnp.zeros(3),
        nonholonomic=lambda q, v, t, p: jnp.array([v[0] * jnp.sin(q[2]) - v[1] * jnp.cos(q[2])]),
    )
    return system, hx.consistent(system, [0.0, 0.0, 0.0], [1.0, 0.0, 2.0])


@pytest.mark.parametrize("name", ["partitioning", "qr"])
def test_a_knife_edge_runs_in_a_circle_whichever_velocity_is_independent(name):
    system, start = skate()
    run = hx.simulate(system, start, 5.0, dt=5e-3, formulation=METHODS[name])
    circle = np.stack([np.sin(2 * run.t) / 2, (1 - np.cos(2 * run.t)) / 2, 2 * run.t], axis=1)
    assert changes(run) > 3
    np.testing.assert_allclose(run.q, circle, atol=1e-9)
    assert run.drift()[1].max() < 1e-15


# -- mechanisms


def fast_slider_crank():
    system, start = slider_crank()
    return system, hx.consistent(system, start.q, [15.0, 0, 0, 0], hold=[0], hold_velocity=[0])


@pytest.mark.parametrize("name", ["partitioning", "qr"])
def test_a_slider_crank_turns_past_its_dead_points(name):
    system, start = fast_slider_crank()
    reference = hx.simulate(system, start, 2.0, dt=1e-4, save="end")
    errors = []
    for dt in (4e-3, 2e-3):
        run = hx.simulate(system, start, 2.0, dt=dt, formulation=METHODS[name])
        errors.append(np.abs(run.q[-1] - reference.q[-1]).max())
    assert run.q[-1, 0] - run.q[0, 0] > 4 * np.pi
    assert errors[1] < 1e-5
    assert order(errors) > 3.85
    if name == "partitioning":  # the crank can be independent all the way, and is
        assert changes(run) == 0
    position, velocity = run.drift()
    assert position.max() < 1e-14 and velocity.max() < 1e-13


def test_the_three_bases_of_the_tangent_plane_agree_to_rounding():
    system, start = fast_slider_crank()
    runs = [
        hx.simulate(system, start, 1.0, dt=2e-3, formulation=METHODS[name])
        for name in ("qr", "svd", "gram-schmidt")
    ]
    assert len({changes(run) for run in runs}) == 1
    for run in runs[1:]:
        np.testing.assert_allclose(run.q, runs[0].q, atol=1e-11)
        np.testing.assert_allclose(run.v, runs[0].v, atol=1e-10)


def test_each_basis_is_orthonormal_and_spans_the_rows():
    system, start = slider_crank()
    G = np.asarray(system.jacobian(start.q, jnp.asarray(0.0)))
    for name in ("qr", "svd", "gram-schmidt"):
        C = np.asarray(partition(system, start, METHODS[name]).complement)
        np.testing.assert_allclose(C.T @ C, np.eye(3), atol=1e-14)
        np.testing.assert_allclose((G @ C) @ C.T, G, atol=1e-14)


@pytest.mark.parametrize("name", in_part(["partitioning", "qr"], {"qr"}))
def test_a_spatial_pendulum_keeps_its_joint_to_machine_precision(name):
    system, start = spherical_chain(1)
    reference = hx.simulate(system, start, 1.0, dt=2.5e-4, save="end")
    errors = []
    for dt in (2e-2, 1e-2):
        run = hx.simulate(system, start, 1.0, dt=dt, formulation=METHODS[name])
        errors.append(np.abs(run.q[-1] - reference.q[-1]).max())
    assert errors[1] < 2e-8
    assert order(errors) > 3.5
    position, velocity = run.drift()
    assert position.max() < 1e-15 and velocity.max() < 1e-14


@pytest.mark.parametrize("name", ["partitioning", "qr"])
def test_constraints_that_move_with_time_are_met(name):
    system, start = two_link_arm(2)
    reference = hx.simulate(system, start, 0.5, dt=5e-4, save="end")
    run = hx.simulate(system, start, 0.5, dt=1e-2, formulation=METHODS[name])
    position, velocity = run.drift()
    assert position.max() < 1e-14 and velocity.max() < 1e-13
    np.testing.assert_allclose(run.q[-1], reference.q[-1], atol=1e-8)


@pytest.mark.parametrize("name", in_part(["partitioning", "qr"], {"partitioning"}))
def test_a_repeated_constraint_is_found_by_its_pivot(name):
    system, start = slider_crank()
    repeated = hx.FunctionSystem(
        mass=system._mass,
        force=system._force,
        constraint=lambda q, t, p: jnp.stack([2 * (g := system.constraint(q, t))[1], *g]),
        parameters=system.parameters(),
    )
    once = hx.simulate(system, start, 0.5, dt=5e-3, formulation=METHODS[name])
    twice = hx.simulate(repeated, (start.q, start.v), 0.5, dt=5e-3, formulation=METHODS[name])
    np.testing.assert_allclose(twice.q, once.q, atol=1e-9)
    assert twice.drift()[0].max() < 1e-14


def test_the_squeezer_at_its_dead_point_has_one_usable_coordinate_and_it_is_chosen():
    """Andrews' mechanism in its seven angles (Hairer, Wanner, Section VII.7)."""
    system, start = hx.examples.andrews()
    names = system.coordinate_names(7)
    G = np.asarray(system.jacobian(start.q, jnp.asarray(0.0)))
    others = [np.linalg.cond(np.delete(G, i, axis=1)) for i in range(7)]
    V = np.asarray(independent(partition(system, start)))[:, 0]
    assert names[int(np.argmax(V))] == "beta"
    assert others[0] < 1e2 < 1e4 < min(others[2:])


# -- Haug's implicit step


stiff_double_pendulum = cache(hx.examples.stiff_double_pendulum)


def test_angles_are_the_independent_coordinates_of_bodies_in_the_plane():
    system, start = stiff_double_pendulum()
    V = np.asarray(independent(partition(system, start)))
    names = np.array(system.coordinate_names(6))
    assert set(names[V.sum(axis=1) > 0]) == {"upper.angle", "lower.angle"}


@pytest.mark.slow
def test_newmark_on_independent_coordinates_is_of_second_order():
    system, start = stiff_double_pendulum(stiffness=300.0, damping=5.0)
    formulation = METHODS["partitioning"]
    reference = hx.simulate(system, start, 0.5, dt=5e-4, formulation=formulation)
    errors = []
    for dt in (1e-2, 5e-3):
        run = hx.simulate(
            system, start, 0.5, dt=dt, formulation=formulation, integrator=hx.Newmark()
        )
        ends = ((run.q, reference.q), (run.v, reference.v))
        errors.append([np.abs(x[-1] - exact[-1]).max() for x, exact in ends])
    np.testing.assert_allclose(order(np.array(errors)), 2, atol=0.15)
    position, velocity = run.drift()
    assert position.max() < 1e-14 and velocity.max() < 1e-13
    # the accelerations in the state are those of the equations of motion
    np.testing.assert_allclose(
        run.a[-1], system.accelerations(run.q[-1], run.v[-1], jnp.asarray(0.5))[0], rtol=1e-8
    )


def equations(matrix):
    system, start = stiff_double_pendulum()
    formulation = hx.CoordinatePartitioning(matrix=matrix)
    chart = partition(system, start, formulation)
    context = StepContext(system, jnp.asarray(2e-3), formulation, chart)
    y0 = FullState(start.q, start.v, start.a, jnp.zeros(0), jnp.zeros(()))
    return PartitionedStep(context, jnp.asarray(2e-3), y0, jnp.asarray(0.25), jnp.asarray(0.5))


@pytest.mark.parametrize("matrix", ["exact", "fisette-vaneghem"])
def test_the_exact_newton_matrix_is_that_of_finite_differences_and_the_other_is_not(matrix):
    w = jnp.array([2e3, -3e3])  # somewhere on the way of the iteration

    @native
    def both(w):
        step = equations(matrix)
        eta = step.dependent(w, step.first_guess("previous")[1])
        return step.reduced_matrix(w, eta)

    computed, _ = both(w)
    columns = [
        (both(w + d)[1] - both(w - d)[1]) / 2e-1 for d in (jnp.array([0.1, 0]), jnp.array([0, 0.1]))
    ]
    off = np.abs(np.asarray(computed) - np.stack(columns, axis=1)).max() / np.abs(columns).max()
    assert off < 1e-7 if matrix == "exact" else off > 1e-3


@pytest.mark.slow
def test_a_stiff_pendulum_takes_large_steps_and_fewer_iterations_with_the_exact_matrix():
    system, start = stiff_double_pendulum()
    exact, approximate = (
        hx.CoordinatePartitioning(matrix=matrix) for matrix in ("exact", "fisette-vaneghem")
    )
    explicit = hx.simulate(system, start, 0.1, dt=5e-4, formulation=exact)
    assert not explicit.success
    reference = hx.simulate(system, start, 0.1, dt=2e-5, formulation=exact)
    for dt, error in ((5e-3, 0.3), (1e-3, 0.02)):
        runs = [
            hx.simulate(system, start, 0.1, dt=dt, formulation=f, integrator=hx.Newmark())
            for f in (exact, approximate)
        ]
        assert all(run.success for run in runs)
        np.testing.assert_allclose(runs[0].q[-1], reference.q[-1], atol=error)
        np.testing.assert_allclose(runs[1].q, runs[0].q, atol=1e-6)
        counts = [run.stats["newton_iterations"] for run in runs]
        assert counts[0] < 0.8 * counts[1]
        assert runs[0].stats["factorizations"] == counts[0]


@pytest.mark.slow
def test_the_explicit_predictor_leads_to_the_same_step():
    system, start = stiff_double_pendulum()
    ends = [
        hx.simulate(
            system,
            start,
            0.02,
            dt=1e-3,
            formulation=hx.CoordinatePartitioning(predictor=predictor),
            integrator=hx.Newmark(),
        ).q[-1]
        for predictor in ("previous", "explicit")
    ]
    np.testing.assert_allclose(*ends, atol=1e-9)


# -- refusals


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: hx.CoordinatePartitioning(1.0), "condition_limit=1.0 would choose anew"),
        (lambda: hx.CoordinatePartitioning(tolerance=0), "tolerance=0 is out of range"),
        (lambda: hx.CoordinatePartitioning(matrix="secant"), "matrix='secant' is not known"),
        (lambda: hx.CoordinatePartitioning(predictor=2), "predictor=2 is not known"),
        (lambda: hx.NullSpace("lu"), "basis='lu' is not known"),
        (lambda: hx.NullSpace(condition_limit="x"), "condition_limit='x' is not a number"),
    ],
)
def test_bad_options_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_implicit_step_refuses_constraints_on_velocities():
    system, start = skate()
    with pytest.raises(ValueError, match="cannot take non-holonomic constraints"):
        hx.simulate(
            system,
            start,
            1.0,
            dt=1e-2,
            formulation=METHODS["partitioning"],
            integrator=hx.Newmark(),
        )


def test_gradients_are_exact_whatever_newtons_matrix():
    """The matrix of Fisette and Vaneghem changes the way to a step's solution, not its derivative;
    central differences over 2e-4 of a mass are off by some 1e-8 of themselves."""
    system, start = hx.examples.slider_crank()
    given, mass = (np.asarray(start.q), np.asarray(start.v)), float(system.parameters()["m"])
    options = {
        "dt": 1e-3,
        "formulation": hx.CoordinatePartitioning(matrix="fisette-vaneghem"),
        "integrator": hx.Newmark(),
    }

    def end(m):
        return hx.simulate(system.with_parameters({"m": m}), given, 0.05, **options).v[-1].sum()

    _, gradient = hx.value_and_gradient(
        lambda motion: motion.v[-1].sum(),
        system,
        given,
        [0.0, 0.05],
        with_respect_to=["m"],
        **options,
    )
    step = 1e-4 * mass
    expected = (end(mass + step) - end(mass - step)) / (2 * step)
    assert gradient["m"] == pytest.approx(expected, rel=1e-6)
