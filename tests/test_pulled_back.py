"""Reverse mode by a walk over programs, against that of JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import native
from holonax.linalg import cholesky, cholesky_solve, held, lu, lu_solve, moved_back
from holonax.linalg.pulled_back import depends, pulled_back

A = jnp.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]])


def moves(x, y):
    parts = jnp.concatenate([x[1:], y[::2][:1], x[:1] * y[:1]])
    wide = jnp.broadcast_to(parts[:, None], (4, 2)) * jnp.arange(2.0)
    return jnp.sum(wide.T.reshape(-1)[1::2]) * y, jnp.pad(x, 1)[:3]


def powers(x, y):
    z = x**2 / (1.0 + y**3) - jnp.sqrt(jnp.abs(x) + 2.0) * jnp.cos(y) + jnp.sin(x) ** -2
    return jnp.where(x > 0, z, -z), jnp.exp(x) * jnp.arctan2(x, y), jnp.maximum(x, y)


def products(x, y):
    return jnp.outer(x, y) @ A @ x, x.at[jnp.array([2, 0])].add(y[:2]), y[jnp.array([1, 1, 2])]


def solves(x, y):
    S, B = A + jnp.outer(x, x), A + jnp.outer(x, y)
    return cholesky_solve(cholesky(S), y), lu_solve(lu(B), x), lu_solve(lu(B), jnp.stack([x, y]).T)


def loops(x, y):
    def body(carry, row):
        i, z = carry
        z = z * jnp.sin(z + row) + x[i]
        return (i + 1, z), z @ z

    (_, end), rows = jax.lax.scan(body, (0, x), jnp.stack([y, x, x * y]))
    back = jax.lax.scan(lambda z, r: (z * r, z), y[0], x, reverse=True)
    return end, rows, back, jax.lax.fori_loop(0, 3, lambda i, z: z * y[i] + 1.0, x)


def branches(x, y):
    one = jax.lax.cond(x[0] > 0, lambda a, b: a * b, lambda a, b: a + 2.0, x, y)
    return jax.lax.switch(1, [lambda a: a, lambda a: a**2], one), jax.jit(lambda a: a * x)(y)


@jax.custom_jvp
def safe_root(x):
    return jnp.sqrt(x)


@safe_root.defjvp
def _(primals, tangents):
    x, t = primals[0], tangents[0]
    return safe_root(x), jnp.where(x > 0, t / jnp.maximum(2 * safe_root(x), 1e-300), 0.0)


def own_rules(x, y):
    return safe_root(jnp.maximum(x, 0.0)) * jax.lax.stop_gradient(y), y * jax.lax.stop_gradient(x)


@pytest.mark.parametrize("function", [moves, powers, products, solves, loops, branches, own_rules])
def test_same_as_jax(function):
    x, y = np.array([0.3, -0.7, 1.1]), np.array([1.2, 0.4, -0.6])
    shapes = jax.eval_shape(function, x, y)
    random = np.random.default_rng(0)
    cotangent = jax.tree.map(lambda z: random.normal(size=z.shape), shapes)

    def derivative(transform):
        def both(x, y):
            value, pull = transform(function, x, y)
            return value, pull(cotangent)

        return native(both, once=True)(x, y)

    (value, got), (expected, want) = map(derivative, (pulled_back, jax.vjp))
    for one, other in zip(jax.tree.leaves(value), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_what_depends_on_what():
    def function(x, y, n):
        return x * y, jax.lax.stop_gradient(x), y + n, jax.jit(jnp.sin)(x), n + 1

    jaxpr = jax.make_jaxpr(function)(1.0, 2.0, 3).jaxpr
    assert depends(jaxpr, [True, False, False]) == [True, False, False, True, False]
    assert depends(jaxpr, [False, True, True]) == [True, False, True, False, False]


def test_a_loop_of_unknown_length_is_refused_as_by_jax():
    function = lambda x: jax.lax.while_loop(lambda y: y < 9.0, lambda y: 2 * y, x)  # noqa: E731
    with pytest.raises(ValueError, match="while_loop"):
        pulled_back(function, jnp.asarray(1.0))[1](jnp.asarray(1.0))


def test_a_solution_moves_by_its_equations():
    """x^2 = p, found by a loop that has no derivative in reverse mode."""

    def root(p):
        step = lambda x: 0.5 * (x + p / x)  # noqa: E731
        x = held(lambda x: jax.lax.while_loop(lambda x: x * x > p * (1 + 1e-14), step, x), p + 1.0)
        return moved_back(x, (x * x - p) / (2 * x))

    p = jnp.asarray(2.0)
    assert jax.grad(root)(p) == pytest.approx(0.5 / np.sqrt(2.0), rel=1e-12)
    assert jax.jvp(root, (p,), (1.0,))[1] == pytest.approx(0.5 / np.sqrt(2.0), rel=1e-12)
    assert pulled_back(root, p)[1](1.0)[0] == pytest.approx(0.5 / np.sqrt(2.0), rel=1e-12)


@pytest.mark.parametrize("formulation", [None, hx.Index3()], ids=["explicit", "implicit"])
def test_each_of_many_times_counts(formulation):
    """The derivative of a sum over states at all times, against differences."""
    system, start = hx.examples.slider_crank()
    times, weights = np.linspace(0.0, 0.1, 11), np.arange(11.0)
    weighted = lambda motion: motion.q[:, 1] @ weights  # noqa: E731

    def call(m):
        return hx.value_and_gradient(
            weighted,
            system,
            start,
            times,
            with_respect_to="m",
            at={"m": m},
            dt=5e-3,
            formulation=formulation,
        )

    h = 1e-4
    slope = (call(1.0 + h)[0] - call(1.0 - h)[0]) / (2 * h)
    assert call(1.0)[1]["m"] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(
    "gather",
    [
        lambda x: x[np.array([2, 0, 1])],  # some rows, each once
        lambda x: x[np.array([3, 3, 0, 3])],  # one of them three times, others not at all
        lambda x: x[:, np.array([1, 1])],
        lambda x: jnp.take(x, np.array([[0, 2], [2, 1]]), axis=1),
        lambda x: x[-1] * x[np.array([-1, 0])],
    ],
)
def test_what_a_known_table_gathers_is_gathered_back(gather):
    """XLA scatters one number after the other, and cuts a loop with a scatter in it into pieces."""
    x = jnp.arange(12.0).reshape(4, 3) ** 2
    shape = jax.eval_shape(gather, x)
    cotangent = jnp.cos(jnp.arange(float(shape.size))).reshape(shape.shape)
    pulled = lambda x, c: pulled_back(gather, x)[1](c)[0]  # noqa: E731
    assert "scatter" not in str(jax.make_jaxpr(pulled)(x, cotangent))
    np.testing.assert_allclose(pulled(x, cotangent), jax.vjp(gather, x)[1](cotangent)[0])


def test_tables_that_are_traced_are_left_to_jax():
    x, table = jnp.arange(4.0) ** 2, jnp.array([1, 1, 3])
    pulled = lambda x, table: pulled_back(lambda x: x[table] ** 2, x)[1](jnp.ones(3))[0]  # noqa: E731
    exact = jax.grad(lambda x: jnp.sum(x[table] ** 2))(x)
    np.testing.assert_allclose(jax.jit(pulled)(x, table), exact)
