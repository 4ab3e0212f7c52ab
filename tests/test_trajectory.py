"""A run as a pure function: the steps of `simulate`, and exact derivatives of what they compute."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import counts
from mechanisms import spring_chain, spring_four_bar
from sections import in_part

TIMES = np.array([0.0, 0.1, 0.3])
EQUAL = {"dt": 1e-2}
BY_ERROR = {"rtol": 1e-9}
# The list that is asked for: explicit and implicit, ODE and DAE, equal steps and chosen ones.
PAIRS = [
    (hx.PostStabilized("both", passes=2), hx.RK4(), EQUAL),
    (hx.PostStabilized("both", passes=2), hx.Dopri5(), BY_ERROR),
    (hx.PostStabilized("both", passes=2), hx.Dop853(), BY_ERROR),
    (hx.Index3(), hx.GeneralizedAlpha(0.8), EQUAL),
    (hx.Index3(), hx.HHT(), EQUAL),
    (hx.GGL(), hx.RadauIIA(), EQUAL),
    (hx.GGL(), hx.BDF(), EQUAL),
    (hx.NullSpace(), hx.RK4(), EQUAL),
    (hx.CoordinatePartitioning(), hx.RK4(), EQUAL),
    (hx.Baumgarte(10.0, 25.0), hx.RK4(), EQUAL),
]
NAMES = [f"{type(f).__name__}-{type(i).__name__}" for f, i, _ in PAIRS]
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=NAMES)


def options(pair):
    formulation, integrator, steps = pair
    return {"formulation": formulation, "integrator": integrator, **steps}


def end(motion):
    """Something that depends on positions, velocities and multipliers, not linearly."""
    return (
        motion.q[-1, 1] ** 2 + jnp.sin(motion.v[-1, 0]) + 1e-3 * motion.lam[1, 0] + motion.q[1, 0]
    )


@pytest.mark.parametrize(
    "pair",
    in_part(
        PAIRS, {*NAMES} - {"PostStabilized-Dopri5", "Index3-GeneralizedAlpha", "GGL-BDF"}, NAMES
    ),
)
def test_same_as_simulate(pair):
    system, start = hx.examples.slider_crank()
    motion = hx.trajectory(system, start, TIMES, **options(pair))
    save = TIMES if pair[2] is EQUAL else "steps"
    run = hx.simulate(system, start, TIMES[-1], save=save, **options(pair))
    # steps chosen by their error are cut at the times, and differ from there by their tolerance
    bound = 1e-13 if pair[2] is EQUAL else 1e-8
    assert motion.ok
    np.testing.assert_allclose(motion.q[-1], run.q[-1], atol=bound)
    np.testing.assert_allclose(motion.v[-1], run.v[-1], atol=10 * bound)
    if pair[2] is EQUAL:
        assert motion.steps == run.stats["steps"]
        if not pair[1].multiplier_lag:
            np.testing.assert_allclose(motion.lam, run.lam, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "pair",
    in_part(
        PAIRS,
        {
            # on a four-bar below
            *("PostStabilized-RK4", "Index3-GeneralizedAlpha"),
            *("GGL-BDF", "GGL-RadauIIA", "Index3-HHT", "PostStabilized-Dopri5", "NullSpace-RK4"),
        },
        NAMES,
    ),
)
def test_gradient_is_that_of_the_numbers(pair):
    """Central differences of the same computation: their own error is about 1e-9 here."""
    system, start = hx.examples.slider_crank()
    names = ["m", "J1", "v"]
    call = lambda at, v: hx.value_and_gradient(  # noqa: E731
        end, system, (start.q, v), TIMES, with_respect_to=names, at=at, **options(pair)
    )
    _, gradient = call({}, start.v)
    for name in ("m", "J1"):
        p = float(system.parameters()[name])
        h = 1e-4 * p
        slope = (call({name: p + h}, start.v)[0] - call({name: p - h}, start.v)[0]) / (2 * h)
        assert gradient[name] == pytest.approx(slope, rel=1e-6)
    # along a velocity that the constraints allow
    h = 1e-4
    slope = (call({}, (1 + h) * start.v)[0] - call({}, (1 - h) * start.v)[0]) / (2 * h)
    assert gradient["v"] @ start.v == pytest.approx(slope, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(PAIRS[0], id=NAMES[0]),
        pytest.param(PAIRS[3], id=NAMES[3], marks=pytest.mark.slow),
    ],
)
def test_by_jax_forward_and_back(pair):
    """grad and jvp of `trajectory` itself, against the host's way."""
    system, start = hx.examples.slider_crank()
    given = (start.q, start.v)

    def value(m, adjoint="reverse"):
        changed = system.with_parameters(m=m)
        return end(hx.trajectory(changed, given, TIMES, adjoint=adjoint, **options(pair)))

    exact = hx.value_and_gradient(
        end, system, given, TIMES, with_respect_to="m", at={"m": 1.1}, **options(pair)
    )
    value_there, slope = jax.jit(jax.value_and_grad(value))(1.1)
    assert value_there == pytest.approx(exact[0], rel=1e-10)
    assert slope == pytest.approx(exact[1]["m"], rel=1e-10)
    forward = jax.jit(lambda m: jax.jvp(lambda m: value(m, "forward"), (m,), (1.0,)))(1.1)
    assert forward[1] == pytest.approx(float(slope), rel=1e-10)


def test_derivative_by_the_times():
    """The end moves with its velocity; a length of the steps does not matter to first order."""
    system, start = hx.examples.slider_crank()

    def at(t):
        times = jnp.stack([jnp.zeros(()), t])
        return hx.trajectory(system, start, times, dt=1e-3, max_steps=400).q[-1, 1]

    motion = hx.trajectory(system, start, [0.0, 0.3], dt=1e-3)
    slope = jax.jit(jax.grad(at))(0.3)
    assert slope == pytest.approx(float(system.qdot(motion.q[-1], motion.v[-1])[1]), rel=1e-8)


def test_steps_for_a_gradient_are_traced_once():
    """JAX keeps what it has traced for equal arguments."""
    from holonax.run.loop_parts import problem_term

    terms = [problem_term(hx.PostStabilized("both")) for _ in range(2)]
    assert eqx.tree_equal(*terms)


def test_nothing_is_compiled_again():
    system, start = hx.examples.slider_crank()
    call = lambda m, t, dt: hx.value_and_gradient(  # noqa: E731
        end, system, start, [0.0, 0.1, t], dt=dt, with_respect_to="J1", at={"m": m}
    )
    call(1.0, 0.3, 1e-3)
    before = counts.so_far[0]
    call(1.3, 0.31, 1e-3)
    call(0.8, 0.4, 1.2e-3)
    assert counts.so_far[0] == before


def test_own_derivative_rules_survive():
    """A force with a square root that is made safe at zero: its derivative there is 0, not inf."""

    @jax.custom_jvp
    def root(x):
        return jnp.sqrt(x)

    @root.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        return root(x), jnp.where(x > 0, t / jnp.maximum(2 * root(x), 1e-300), 0.0)

    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.eye(1),
        force=lambda q, v, t, p: -p["k"] * jnp.array([root(v[0] ** 2)]) - jax.lax.stop_gradient(q),
        parameters={"k": 0.3},
    )
    _, gradient = hx.value_and_gradient(
        lambda x: x.q[-1, 0],
        system,
        ([0.0], [0.0]),
        [0.0, 0.1],
        dt=1e-2,
        with_respect_to=["k", "q"],
    )
    assert gradient["k"] == 0.0
    assert gradient["q"] == pytest.approx(1.0)  # what is stopped does not pull back


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "give dt"),
        ({"dt": 1e-2, "rtol": 1e-6}, "give dt"),
        ({"dt": 1e-2, "times": [0.0]}, "two or more"),
        ({"dt": 1e-2, "times": [0.0, 0.2, 0.1]}, "increase"),
        ({"dt": 1e-2, "times": "soon"}, "vector"),
        ({"dt": 1e-2, "max_steps": 0}, "max_steps"),
        ({"dt": 1e-2, "adjoint": "both"}, "adjoint"),
        ({"rtol": 1e-6, "integrator": hx.RK4()}, "error estimate"),
        ({"dt": 1e-2, "formulation": hx.GGL(), "integrator": hx.VariableBDF()}, "Give rtol"),
    ],
    ids=str,
)
def test_bad_input_in_one_sentence(change, words):
    system, start = hx.examples.slider_crank()
    given = {"times": TIMES, **change}
    with pytest.raises(ValueError, match=words):
        hx.trajectory(system, start, given.pop("times"), **given)


def test_unknown_names_and_traced_steps():
    system, start = hx.examples.slider_crank()
    with pytest.raises(KeyError, match=r"'mass'.*J1"):
        hx.value_and_gradient(end, system, start, TIMES, dt=1e-2, with_respect_to="mass")
    with pytest.raises(ValueError, match="max_steps"):
        jax.jit(lambda dt: hx.trajectory(system, start, TIMES, dt=dt).q)(1e-2)
    with pytest.raises(TypeError, match="trajectory"):
        jax.jit(lambda m: hx.simulate(system.with_parameters(m=m), start, 0.1, dt=1e-2).q)(1.0)


def test_too_little_room_is_no_success():
    system, start = hx.examples.slider_crank()
    motion = hx.trajectory(system, start, TIMES, dt=1e-2, max_steps=20)
    assert not motion.ok
    assert np.all(np.isfinite(motion.q[1]))
    assert np.all(np.isnan(motion.q[2]))


# -- mechanisms of a model ------------------------------------------------------------------------

# Newton's iterations end far below what a difference of two runs can show. Charts of NullSpace are
# held as they were chosen, so its derivatives are those of the motion, to the error of its steps.
TIGHT = [
    (hx.Index3(), hx.GeneralizedAlpha(0.8, tolerance=1e-13), EQUAL),
    (hx.Index3(), hx.HHT(tolerance=1e-13), EQUAL),
]
MODEL_PAIRS = [*PAIRS[:3], *TIGHT, *PAIRS[5:7], (hx.NullSpace(), hx.RK4(), {"dt": 5e-3})]
MODEL_PAIRS += PAIRS[8:]
QUICK = ("PostStabilized-RK4", "Index3-GeneralizedAlpha")
# The last number is the step of differences, relative to what is changed. The derivative by a
# length of the chain is small beside what it is the sum of: differences are off by rounding, 1.5e-5
# of it for a step of 1e-5, 7e-7 for 1e-4, and by 1e-8 for 1e-3, whatever the tolerance of Newton's
# method.
MECHANISMS = {
    "four-bar": (spring_four_bar, ["coupler.mass", "B.at_b", "spring.stiffness", "v"], 1e-4),
    "chain": (spring_chain, ["link4.mass", "ball3.at_b", "spring.stiffness", "v"], 1e-3),
}
SHORT = np.array([0.0, 0.05, 0.1])


def cases():
    for mechanism in MECHANISMS:
        for pair, name in zip(MODEL_PAIRS, NAMES, strict=True):
            quick = mechanism == "four-bar" and name in QUICK
            marks = () if quick else pytest.mark.slow
            yield pytest.param(mechanism, pair, id=f"{mechanism}-{name}", marks=marks)


def end_of_bodies(motion):
    """As `end`, with the last body's rotation."""
    last = motion.q.shape[1] - 1
    return end(motion) + motion.q[-1, last - 1] + motion.v[-1, motion.v.shape[1] - 1] ** 2


def central(function, h):
    """The slope at zero by differences of order 4."""
    near, far = ((function(x) - function(-x)) / (2 * x) for x in (h, 2 * h))
    return (4 * near - far) / 3


@pytest.mark.parametrize(("mechanism", "pair"), [*cases()])
def test_gradient_by_a_mass_a_length_a_stiffness_and_a_start(mechanism, pair):
    build, names, h = MECHANISMS[mechanism]
    system, start = build()

    def call(at, v):
        return hx.value_and_gradient(
            end_of_bodies,
            system,
            (start.q, v),
            SHORT,
            with_respect_to=names,
            at=at,
            **options(pair),
        )

    _, gradient = call({}, start.v)
    for name in names[:-1]:
        p = np.asarray(system.parameters()[name], dtype=float)
        along = np.zeros_like(p)
        along.flat[0] = np.max(np.abs(p))
        slope = central(lambda x: call({name: p + x * along}, start.v)[0], h)  # noqa: B023
        assert np.sum(gradient[name] * along) == pytest.approx(slope, rel=1e-6), name
    slope = central(lambda x: call({}, (1 + x) * start.v)[0], h)
    assert gradient["v"] @ start.v == pytest.approx(slope, rel=1e-6)
    # where the start does not fit, and is moved onto the constraints first
    mass, length = names[:2]
    at = {length: 1.002 * np.asarray(system.parameters()[length])}
    m = float(system.parameters()[mass])
    slope = central(lambda x: call({**at, mass: (1 + x) * m}, start.v)[0], 10 * h)
    assert call(at, start.v)[1][mass] * m == pytest.approx(slope, rel=1e-6)


def batch_cases():
    for k, (pair, name) in enumerate(zip(PAIRS, NAMES, strict=True)):
        yield pytest.param(pair, id=name, marks=() if k == 0 else pytest.mark.slow)


@pytest.mark.parametrize("pair", [*batch_cases()])
def test_a_batch_of_64_is_64_runs(pair):
    """Steps chosen by their error are chosen for each run by itself, as if it were alone."""
    system, start = hx.examples.slider_crank()

    def run(m, J):
        changed = system.with_parameters(m=m, J1=J)
        motion = hx.trajectory(changed, (start.q, start.v), SHORT, **options(pair))
        return motion.q, motion.v, motion.lam, motion.steps

    masses, inertias = np.linspace(0.5, 1.5, 64), np.linspace(0.06, 0.03, 64)
    together = jax.jit(jax.vmap(run))(masses, inertias)
    single = jax.jit(run)
    alone = [single(m, J) for m, J in zip(masses, inertias, strict=True)]
    for k, (bound, size) in enumerate(((1e-12, 1.0), (1e-11, 1.0), (1e-9, 10.0))):
        found = np.stack([x[k] for x in alone])
        np.testing.assert_allclose(together[k], found, rtol=bound, atol=bound * size)
    np.testing.assert_array_equal(together[3], [x[3] for x in alone])


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 3], ids=[NAMES[0], NAMES[3]])
def test_jax_differentiates_a_model(k):
    system, start = spring_four_bar()
    names = MECHANISMS["four-bar"][1][:-1]
    given = (start.q, start.v)

    def value(at):
        changed = system.with_parameters(at)
        return end_of_bodies(hx.trajectory(changed, given, SHORT, **options(MODEL_PAIRS[k])))

    at = {name: jnp.asarray(system.parameters()[name], float) for name in names}
    found = jax.jit(jax.grad(value))(at)
    _, exact = hx.value_and_gradient(
        end_of_bodies, system, given, SHORT, with_respect_to=names, **options(MODEL_PAIRS[k])
    )
    for name in names:
        np.testing.assert_allclose(found[name], exact[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "correction",
    [
        hx.PostStabilized("both", passes=2, freeze="none"),
        pytest.param(hx.PostStabilized("both", passes=2), marks=pytest.mark.slow),
        pytest.param(hx.PostStabilized("both", passes=2, freeze="all"), marks=pytest.mark.slow),
        pytest.param(hx.PostStabilized("both", alpha=0.8), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_corrections_are_followed_by_the_equations_they_solve(correction):
    """Long steps, so that what is corrected counts; a length, so that the constraints move, and a
    driver, so that they move by themselves."""
    system, start = geared()
    names = ["C.at_b", "mesh.ratio", "large.mass"]
    steps = {"dt": 0.1, "formulation": correction, "integrator": hx.Heun()}
    given, times = (start.q, start.v), np.array([0.0, 0.5])

    def value(at):
        return end_of_bodies(hx.trajectory(system.with_parameters(at), given, times, **steps))

    at = {name: np.asarray(system.parameters()[name], float) for name in names}
    found = jax.jit(jax.grad(value))(at)
    _, exact = hx.value_and_gradient(
        end_of_bodies, system, given, times, with_respect_to=names, **steps
    )
    for name in names:
        np.testing.assert_allclose(found[name], exact[name], rtol=1e-9, atol=1e-12)


def geared():
    """Two wheels in mesh, springs of both kinds, and a driven crank."""
    model = hx.Model()
    model.planar_body("small", hx.disc(0.1, mass=1.0), position=(0.0, 0.0), angular_velocity=1.0)
    model.planar_body("large", hx.disc(0.3, mass=2.0), position=(0.4, 0.0))
    model.planar_body("bob", hx.rod(0.4, mass=0.5), position=(0.4, -0.5), angle=-1.5)
    model.planar_body("crank", hx.rod(0.2, mass=1.0), position=(0.0, 1.0))
    model.revolute("A", "ground", "small", at_a=(0.0, 0.0), at_b=(0.0, 0.0))
    model.revolute("B", "ground", "large", at_a=(0.4, 0.0), at_b=(0.0, 0.0))
    model.gear("mesh", "small", "large", ratio=3.0)
    model.spring_damper("spring", "large", "bob", stiffness=40.0, damping=0.3, length=0.4)
    model.torsion_spring("twist", joint="B", stiffness=2.0, damping=0.1)
    model.revolute("C", "ground", "crank", at_a=(0.0, 1.0), at_b=(0.0, 0.0))
    model.drive_angle("motor", joint="C", angle=lambda t: 2.0 * t)
    return model.build()


def test_no_named_parameter_makes_another_program():
    system, start = geared()
    known = system.parameters()
    assert {x.partition(".")[0] for x in known} >= {"mesh", "spring", "twist", "C"}

    def simulate(changed):
        return hx.simulate(changed, (start.q, start.v), 0.02, dt=1e-2)

    def gradient(at):
        return hx.value_and_gradient(
            end, system, start, [0.0, 0.01, 0.02], dt=1e-2, with_respect_to="spring.damping", at=at
        )

    def differentiated():
        return counts.compiled + len(counts.left_to_xla)

    simulate(system), gradient({})
    before = differentiated()
    at = {name: np.asarray(value, dtype=float) * 1.0001 for name, value in known.items()}
    simulate(system.with_parameters(at))
    gradient(at)
    assert differentiated() == before


@pytest.mark.parametrize(
    ("make", "at", "steps"),
    [
        pytest.param(
            *(lambda x: (hx.Index3(), hx.GeneralizedAlpha(x)), 0.8, {"dt": 2e-2}),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(lambda x: (hx.Index3(augment=x), hx.GeneralizedAlpha(0.8)), 1.0, {"dt": 2e-2}),
            marks=pytest.mark.slow,
        ),
        (lambda x: (hx.Baumgarte(x, x**2), hx.RK4()), 10.0, {"dt": 2e-2}),
    ],
    ids=["rho_inf", "augment", "gains"],
)
def test_numbers_among_the_options_are_traced(make, at, steps):
    """Derivatives by them; rho of an augmented Lagrangian does not change the solution."""
    system, start = hx.examples.slider_crank()

    def value(x):
        formulation, integrator = make(x)
        method = {"formulation": formulation, "integrator": integrator, **steps}
        return end(hx.trajectory(system, (start.q, start.v), TIMES, **method))

    slope = jax.jit(jax.grad(value))(at)
    compiled = jax.jit(value)
    exact = central(lambda x: float(compiled(at + x)), 1e-3 * at)
    if make(at)[0].augmentation is not None:
        assert abs(slope) < 1e-9 and abs(exact) < 1e-8
    else:
        assert slope == pytest.approx(exact, rel=1e-6)
        assert abs(exact) > 1e-6


@pytest.mark.parametrize(
    ("formulation", "integrator", "steps", "bound"),
    [
        pytest.param(
            *(hx.CoordinatePartitioning(), hx.Newmark(), {"dt": 1e-2}, 1e-6),
            marks=pytest.mark.slow,
        ),
        pytest.param(  # steps of neighbours differ
            *(hx.GGL(), hx.VariableBDF(), {"rtol": 1e-8}, 1e-5), marks=pytest.mark.slow
        ),
    ],
    ids=["partitioned-newmark", "variable-bdf"],
)
def test_reverse_mode_of_other_pairs_is_compiled_natively(formulation, integrator, steps, bound):
    system, start = hx.examples.slider_crank()
    before = len(counts.left_to_xla)

    def call(m):
        return hx.value_and_gradient(
            lambda x: x.q[-1, 1],
            system,
            start,
            TIMES,
            with_respect_to="m",
            at={"m": m},
            formulation=formulation,
            integrator=integrator,
            **steps,
        )

    slope = central(lambda x: call(1.0 + x)[0], 1e-3)
    assert call(1.0)[1]["m"] == pytest.approx(slope, rel=bound)
    assert len(counts.left_to_xla) == before


def test_a_start_that_does_not_fit_is_moved_onto_the_constraints():
    """A longer coupler than the start was found for: positions and velocities follow."""
    system, start = spring_four_bar()
    changed = system.with_parameters({"B.at_b": (-0.2505, 0.0)})
    # steps by their error, which velocities that do not fit would keep from ever being small
    motion = hx.trajectory(changed, start, SHORT, **options(PAIRS[1]))
    assert motion.ok
    g = np.max(np.abs(changed.constraint(motion.q[0], 0.0)))
    rate = np.max(np.abs(changed.constraint_rate(motion.q[0], motion.v[0], 0.0)))
    assert g < 1e-14 and rate < 1e-12


def switched(t):
    """A force that is switched on at 0.137 s."""
    return jnp.where(t < 0.137, 0.0, 50.0)


@pytest.mark.parametrize(
    "pair", in_part([PAIRS[0], PAIRS[3]], {"PostStabilized-RK4"}, [NAMES[0], NAMES[3]])
)
def test_breaks_are_those_of_simulate(pair):
    """Hit exactly, not seen a step too early, and methods that remember begin anew."""

    def pendulum(m=1.0, l=0.5):
        return hx.FunctionSystem(
            mass=lambda q, p: p["m"] * jnp.eye(2),
            force=lambda q, v, t, p: jnp.array([switched(t), -9.81 * p["m"]]),
            constraint=lambda q, t, p: jnp.array([q @ q - p["l"] ** 2]),
            parameters={"m": m, "l": l},
        )

    system = pendulum()
    start = hx.consistent(system, [0.5, 0.0], [0.0, 0.0])
    given = {**options(pair), "breaks": [0.137]}
    motion = hx.trajectory(system, start, TIMES, **given)
    run = hx.simulate(system, start, TIMES[-1], save=TIMES, **given)
    assert motion.ok and motion.q.shape == (3, 2) and motion.steps == run.stats["steps"]
    np.testing.assert_allclose(motion.t, TIMES)
    np.testing.assert_allclose(motion.q, run.q, atol=1e-12)
    np.testing.assert_allclose(motion.v, run.v, atol=1e-11)
    end = lambda motion: motion.q[-1, 0]  # noqa: E731
    value, gradient = hx.value_and_gradient(end, system, start, TIMES, with_respect_to="m", **given)
    assert value == pytest.approx(run.q[-1, 0], abs=1e-12)
    runs = [hx.trajectory(pendulum(m), start, TIMES, **given).q[-1, 0] for m in (1.0001, 0.9999)]
    assert gradient["m"] == pytest.approx((runs[0] - runs[1]) / 2e-4, rel=1e-5)


@pytest.mark.slow
def test_the_tolerance_of_a_tiny_mechanism_is_that_of_simulate():
    """A pendulum of 1e-7 m: rtol / 100 in metres would ask for nothing."""
    model = hx.Model()
    model.planar_body("rod", hx.rod(1e-7, mass=1e-12), position=(0.5e-7, 0.0))
    model.revolute("A", "ground", "rod", at=(0.0, 0.0))
    system, start = model.build()
    end = 5e-5
    motion = hx.trajectory(system, start, [0.0, end], rtol=1e-8)
    run = hx.simulate(system, start, end, rtol=1e-8, integrator=hx.Dopri5(), save="end")
    assert motion.ok and abs(motion.steps - run.stats["steps"]) <= 2
    np.testing.assert_allclose(motion.q[-1], run.q[-1], rtol=1e-6)
    same = hx.value_and_gradient(
        lambda m: m.q[-1, 2], system, start, [0.0, end], rtol=1e-8, with_respect_to="v"
    )
    assert same[0] == pytest.approx(run.q[-1, 2], rel=1e-6)


@pytest.mark.slow
def test_a_driver_with_a_kink_is_passed_by_an_impulse():
    """As in `simulate`: a crank that is driven at another rate from some time on."""
    model = hx.Model(gravity=(0.0, -9.81))
    model.planar_body("crank", hx.rod(0.4, mass=1.0), position=(0.2, 0.0))
    model.planar_body("rod", hx.rod(0.6, mass=1.0), position=(0.7, 0.0))
    model.revolute("A", "ground", "crank", at=(0.0, 0.0))
    model.revolute("B", "crank", "rod", at=(0.4, 0.0))
    model.drive_angle("motor", joint="A", angle=lambda t: jnp.where(t < 0.05, t, 3 * t - 0.1))
    system, start = model.build()
    given = {"dt": 2e-3, "breaks": [0.05]}
    motion = hx.trajectory(system, start, [0.0, 0.1], **given)
    run = hx.simulate(system, start, 0.1, save="end", integrator=hx.RK4(), **given)
    np.testing.assert_allclose(motion.q[-1], run.q[-1], atol=1e-12)
    np.testing.assert_allclose(motion.v[-1], run.v[-1], atol=1e-10)
    assert motion.v[-1, 2 * 2] == pytest.approx(3.0, abs=1e-9)


def test_second_derivatives_are_those_of_explicit_methods_and_refused_of_implicit_ones():
    system, start = hx.examples.slider_crank()
    times, given = np.array([0.0, 0.02]), (np.asarray(start.q), np.asarray(start.v))

    def slope(mass, **pair):
        changed = lambda m: system.with_parameters(m=m)  # noqa: E731
        run = lambda m: hx.trajectory(  # noqa: E731
            changed(m), given, times, dt=0.005, adjoint="forward", **pair
        )
        return jax.jvp(lambda m: run(m).v[-1, 2], (mass,), (1.0,))[1]

    pair = {"formulation": hx.PostStabilized("both", passes=2), "integrator": hx.RK4()}
    second = jax.jvp(lambda m: slope(m, **pair), (1.0,), (1.0,))[1]
    h = 1e-3
    differences = (slope(1.0 + h, **pair) - slope(1.0 - h, **pair)) / (2 * h)
    np.testing.assert_allclose(second, differences, rtol=1e-5)  # h²
    implicit = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha()}
    with pytest.raises(TypeError, match="second derivatives of a run"):
        jax.jvp(lambda m: slope(m, **implicit), (1.0,), (1.0,))
