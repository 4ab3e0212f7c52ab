"""A run as a pure function: the steps of `simulate`, and exact derivatives of what they compute."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import counts

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


@each_pair
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


@each_pair
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


@pytest.mark.parametrize("pair", PAIRS[:4:3], ids=NAMES[:4:3])
def test_by_jax_forward_and_back(pair):
    """grad and jvp of `trajectory` itself, and a batch by vmap, against the host's way."""
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
    masses = np.linspace(0.9, 1.1, 3)
    batch = jax.jit(jax.vmap(value))(masses)
    np.testing.assert_allclose(batch, [value(m) for m in masses], rtol=1e-12)


def test_derivative_by_the_times():
    """The end moves with its velocity; a length of the steps does not matter to first order."""
    system, start = hx.examples.slider_crank()

    def at(t):
        times = jnp.stack([jnp.zeros(()), t])
        return hx.trajectory(system, start, times, dt=1e-3, max_steps=400).q[-1, 1]

    motion = hx.trajectory(system, start, [0.0, 0.3], dt=1e-3)
    slope = jax.jit(jax.grad(at))(0.3)
    assert slope == pytest.approx(float(system.qdot(motion.q[-1], motion.v[-1])[1]), rel=1e-8)


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
