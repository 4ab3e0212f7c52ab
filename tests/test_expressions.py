"""Small systems are written out in scalars: the same numbers as with arrays, zeros known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import examples
from holonax.system.base import Configuration
from holonax.system.expressions import Expression, Graph, NotScalar
from holonax.system.small import SmallConfiguration

TABLE = np.linspace(0.0, 1.0, 3)


def through_a_graph(function, *args):
    def at(*args):
        graph = Graph()
        return graph.arrays(graph.call(function, *map(graph.inputs, args)))[0]

    return jax.jit(at)(*args)


FUNCTIONS = {
    "arithmetic": lambda x, y: (x - 2 * y) / (1 + x**2) + x**3 - x**-1,
    "trigonometry": lambda x, y: jnp.sin(x) * jnp.cos(y) + jnp.arctan2(x, y) + jnp.tan(x),
    "norms": lambda x, y: x / jnp.linalg.norm(x) + jnp.sqrt(jnp.sum(y * y)),
    "products": lambda x, y: jnp.outer(x, y) @ x + jnp.cross(x, y) + jnp.dot(x, y),
    "choices": lambda x, y: jnp.where(x > y, x, 0.0) + (y > 0.5) * 2.0 + jnp.maximum(x, y),
    "entries": lambda x, y: jnp.zeros(3).at[1].set(x[2]) + x[::-1] + y[np.array([2, 0, 0])],
    "shapes": lambda x, y: jnp.stack([x, y, x]).T[1] + jnp.tile(x[:1], 3) + jnp.array([*y]),
    "constants": lambda x, y: jnp.asarray(TABLE) * x + jnp.eye(3) @ y + jnp.arange(3),
    "functions": lambda x, y: jax.nn.softplus(x) + jax.nn.relu(y - 0.5) + jnp.exp(-x) + abs(-y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_keep_their_values_and_derivatives(name):
    function = FUNCTIONS[name]
    x, y = jnp.array([0.3, 0.9, 0.7]), jnp.array([0.2, 0.4, 1.1])
    new = lambda x, y: through_a_graph(function, x, y)  # noqa: E731
    np.testing.assert_allclose(new(x, y), function(x, y), rtol=1e-14, atol=1e-15)
    for derivative in (jax.jacfwd, jax.jacrev):
        expected = derivative(function, argnums=(0, 1))(x, y)
        got = derivative(new, argnums=(0, 1))(x, y)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)
    batch = jnp.stack([x, y, x + y])
    each = jax.vmap(new, in_axes=(0, None))(batch, y)
    np.testing.assert_allclose(
        each, jax.vmap(function, in_axes=(0, None))(batch, y), rtol=1e-14, atol=1e-15
    )


def test_what_is_known_is_not_computed():
    graph = Graph()
    x = graph.inputs(jnp.array([0.3, 0.4]))
    seed = np.array([1.0, 0.0], dtype=object)

    def slope(x, seed):
        return jax.jvp(lambda x: jnp.array([jnp.sin(x[0]), x[0] + x[1], x[1]]), (x,), (seed,))[1]

    column = graph.call(slope, x, seed)
    assert isinstance(column[0], Expression) and column[0].name == "cos"
    assert list(column[1:]) == [1.0, 0.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jax.lax.fori_loop(0, 3, lambda _, x: x * x, x),
        lambda x: jnp.interp(x, jnp.asarray(TABLE), jnp.asarray(TABLE)),
        lambda x: jnp.ones((40, 40)) * x,
        lambda x: jnp.round(x).astype(int) * 1.0,
    ],
    ids=["loop", "table", "large", "whole numbers"],
)
def test_what_is_not_scalar_says_so(function):
    graph = Graph()
    with pytest.raises(NotScalar):
        graph.call(function, graph.inputs(jnp.asarray(0.3)))


SYSTEMS = {
    "slider-crank": examples.slider_crank,
    "Andrews": examples.andrews,
    "Andrews in the plane": lambda: examples.andrews("cartesian"),
    "top": examples.heavy_top,
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_small_systems_have_the_numbers_of_large_ones(name):
    system, start = SYSTEMS[name]()
    q, t = start.q, jnp.asarray(0.1)
    v = start.v + 0.1 * jnp.cos(jnp.arange(start.v.shape[0]))
    residual = jnp.cos(jnp.arange(float(start.lam.shape[0])))

    @jax.jit
    def numbers(system, q, v):
        out = []
        for here in (system.at(q, t), Configuration(system, q, t)):
            factor, plain = here.factor(), here.factor(metric="identity", shift=0.1)
            out.append(
                {
                    "accelerations": here.accelerations(v),
                    "constraint": here.constraint(),
                    "rate": here.rate(v),
                    "solve": factor.solve(v, residual),
                    "weigh": factor.weigh(v),
                    "apply": factor.apply(v),
                    "correct": factor.correct(residual),
                    "multipliers": plain.multipliers(residual),
                    "spread": plain.spread(residual),
                }
            )
        return out

    assert isinstance(system.at(q, t), SmallConfiguration)
    small, large = numbers(system, q, v)
    for what in small:
        for a, b in zip(jax.tree.leaves(small[what]), jax.tree.leaves(large[what]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.max(np.abs(b)), err_msg=what)


def test_a_force_from_a_table_is_left_in_one_piece():
    table = jnp.linspace(0.0, 1.0, 5)

    def pendulum(force):
        system = hx.FunctionSystem(
            mass=lambda q, p: jnp.ones(2),
            force=force,
            constraint=lambda q, t, p: jnp.array([q @ q - 1]),
        )
        start = hx.consistent(system, [1.0, 0.0])
        return hx.simulate(system, start, 0.1, dt=1e-2)

    smooth = pendulum(lambda q, v, t, p: jnp.array([0.0, -9.81 - q[0]]))
    read = pendulum(lambda q, v, t, p: jnp.array([0.0, -9.81 - jnp.interp(q[0], table, table)]))
    np.testing.assert_allclose(read.q, smooth.q, atol=1e-12)
