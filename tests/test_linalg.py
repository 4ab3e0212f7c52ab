import jax
import jax.numpy as jnp
import numpy as np
import pytest

from holonax.compiler import native
from holonax.linalg import (
    BlockCholesky,
    cholesky,
    cholesky_solve,
    derivative,
    eliminate,
    linearized,
    lu,
    lu_solve,
    solve,
)
from sections import in_part

# One size from each of the forms in small.py, and the sizes at their limits.
SIZES = [1, 3, 6, 7, *(pytest.param(n, marks=pytest.mark.slow) for n in (13, 33)), 14]


def random_matrix(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n)) + 0.1 * np.eye(n)


def random_spd(n, seed=0):
    A = random_matrix(n, seed)
    return A @ A.T + n * np.eye(n)


@native
def spd_solve(S, b):
    return cholesky_solve(cholesky(S), b)


@native
def unpivoted_solve(A, b):
    return lu_solve(lu(A, pivot=False), b)


general_solve = native(solve)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("columns", [(), (2,)])
def test_solutions_agree_with_numpy(n, columns):
    S, A = random_spd(n), random_matrix(n)
    b = np.random.default_rng(1).normal(size=(n, *columns))
    expected = np.linalg.solve(S, b)
    np.testing.assert_allclose(spd_solve(jnp.asarray(S), b), expected, rtol=1e-11)
    np.testing.assert_allclose(unpivoted_solve(S, b), expected, rtol=1e-11)
    np.testing.assert_allclose(general_solve(A, b), np.linalg.solve(A, b), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", SIZES)
def test_cholesky_reads_the_lower_triangle_only(n):
    S, b = random_spd(n), np.ones(n)
    x = spd_solve(jnp.asarray(np.tril(S)), b)
    np.testing.assert_allclose(x, np.linalg.solve(S, b), rtol=1e-11)


@pytest.mark.parametrize("n", [2, 3, 7, 13, 14, 33])
def test_lu_takes_zero_pivots_by_exchanging_rows(n):
    A = np.roll(np.eye(n), 1, axis=0) + 1e-3 * np.tril(np.ones((n, n)), -1)
    b = np.arange(1.0, n + 1)
    np.testing.assert_allclose(general_solve(A, b), np.linalg.solve(A, b), rtol=1e-11)


@pytest.mark.parametrize("n", [3, 7, 14, 33])
def test_an_indefinite_matrix_gives_nan(n):
    S = np.eye(n)
    S[1, 1] = -1.0
    assert np.isnan(spd_solve(jnp.asarray(S), np.ones(n))).any()


def derivatives(f, inputs, tangents, cotangent):
    """Forward and reverse derivatives of f: (df, *gradients)."""

    @native
    def both(inputs):
        forward = jax.jvp(f, inputs, tangents)[1]
        return forward, *jax.vjp(f, *inputs)[1](cotangent)

    return both(inputs)


@pytest.mark.parametrize("n", in_part([1, 3, 6, 7, 13, 33, 14], {"1", "6", "7", "13", "33"}))
def test_derivatives_agree_with_those_of_lapack(n):
    S, A, b = (jnp.asarray(x) for x in (random_spd(n), random_matrix(n), np.ones(n)))
    dA, db = jnp.asarray(random_matrix(n, 5)), jnp.asarray(random_matrix(n, 6)[0])

    # Perturb both triangles alike, through an unsymmetric parameter.
    def ours(A, b):
        return spd_solve(S + A @ A.T, b) + 0.1 * general_solve(A, b)

    def theirs(A, b):
        return jnp.linalg.solve(S + A @ A.T, b) + 0.1 * jnp.linalg.solve(A, b)

    tolerance = {"rtol": 1e-6, "atol": 1e-8}
    for x, y in zip(*(derivatives(f, (A, b), (dA, db), db) for f in (ours, theirs)), strict=True):
        np.testing.assert_allclose(x, y, **tolerance)


@pytest.mark.parametrize("n", in_part([3, 7, 14, 33], {"14", "33"}))
def test_second_derivatives_exist(n):
    S, b = jnp.asarray(random_spd(n)), jnp.ones(n)

    def energy(s):
        return b @ spd_solve(S + s * jnp.eye(n), b)

    inverse = np.linalg.inv(S)
    expected = 2 * b @ inverse @ inverse @ inverse @ b
    assert jax.jit(jax.hessian(energy))(0.0) == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("n", in_part([1, 3, 6, 7, 13, 33, 14], {"1", "6", "7", "13", "33"}))
def test_a_batch_is_solved_as_its_members(n):
    S = jnp.stack([jnp.asarray(random_spd(n, k)) for k in range(3)])
    A = jnp.stack([jnp.asarray(random_matrix(n, k)) for k in range(3)])
    b = jnp.arange(3.0 * n).reshape(3, n)
    for method, matrices in ((spd_solve, S), (general_solve, A)):
        together = jax.vmap(method)(matrices, b)
        alone = jnp.stack([method(matrices[k], b[k]) for k in range(3)])
        np.testing.assert_allclose(together, alone, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", in_part([3, 6, 13], {"13"}))
def test_no_custom_call_is_made_below_the_limit(n):
    def both(S, b):
        return spd_solve(S, b) + solve(S, b)

    text = jax.jit(both).lower(jnp.eye(n), jnp.ones(n)).compile().as_text()
    assert "custom-call" not in text


def test_a_matrix_that_is_not_square_is_refused():
    with pytest.raises(ValueError, match="square"):
        cholesky(jnp.ones((3, 2)))


# Block-sparse matrices.


def net(rows, columns):
    node = np.arange(rows * columns).reshape(rows, columns)
    along = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], axis=1)
    across = np.stack([node[1:].ravel(), node[:-1].ravel()], axis=1)
    return rows * columns, np.concatenate([along, across])


def chain(n):
    return n, np.stack([np.arange(1, n), np.arange(n - 1)], axis=1)


GRAPHS = {
    "single block": (1, np.zeros((0, 2), int)),
    "no edges": (4, np.zeros((0, 2), int)),
    "chain": chain(9),
    "tree": (10, np.array([[i, (i - 1) // 2] for i in range(1, 10)])),
    "star": (7, np.array([[0, i] for i in range(1, 7)])),
    "ring": (8, np.array([[i, (i + 1) % 8] for i in range(8)])),
    "net": net(4, 5),
    "complete": (6, np.array([[i, j] for i in range(6) for j in range(i)])),
}


def random_blocks(n, edges, b, seed=0):
    rng = np.random.default_rng(seed)
    diagonal = rng.normal(size=(b, b, n))
    diagonal = np.einsum("ikn,jkn->ijn", diagonal, diagonal)
    off_diagonal = rng.normal(size=(b, b, len(edges)))
    degree = np.bincount(edges.ravel(), minlength=n)
    diagonal += np.eye(b)[:, :, None] * (1 + 2 * b * degree)
    return jnp.asarray(diagonal), jnp.asarray(off_diagonal)


def dense(n, edges, diagonal, off_diagonal):
    """The whole matrix, its unknowns ordered block by block; differentiable."""
    b = diagonal.shape[0]
    S = jnp.zeros((n, b, n, b))
    k = np.arange(n)
    S = S.at[k, :, k, :].set(jnp.moveaxis(diagonal, 2, 0))
    i, j = edges.T
    S = S.at[i, :, j, :].set(jnp.moveaxis(off_diagonal, 2, 0))
    S = S.at[j, :, i, :].set(jnp.moveaxis(off_diagonal, 2, 0).swapaxes(1, 2))
    return S.reshape(n * b, n * b)


def dense_solve(n, edges, diagonal, off_diagonal, rhs):
    S = dense(n, edges, diagonal, off_diagonal)
    return jnp.linalg.solve(S, rhs.T.ravel()).reshape(rhs.T.shape).T


@native
def block_solve(plan, diagonal, off_diagonal, rhs):
    return plan.solve(plan.factor(diagonal, off_diagonal), rhs)


@pytest.mark.parametrize("graph", in_part(GRAPHS, {"tree", "star"}))
@pytest.mark.parametrize("b", in_part([1, 2, 3, 6], {"1", "3", "6"}))
def test_block_solutions_agree_with_dense_ones(graph, b):
    n, edges = GRAPHS[graph]
    blocks = random_blocks(n, edges, b)
    rhs = jnp.asarray(np.random.default_rng(1).normal(size=(b, n)))
    plan = BlockCholesky.plan(n, edges, b)
    x = block_solve(plan, *blocks, rhs)
    np.testing.assert_allclose(x, dense_solve(n, edges, *blocks, rhs), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plan.product(*blocks, x), rhs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("graph", ["chain", "ring", "net"])
def test_the_numbering_of_blocks_and_the_sense_of_edges_do_not_matter(graph):
    n, edges = GRAPHS[graph]
    b = 3
    diagonal, off_diagonal = random_blocks(n, edges, b)
    rhs = jnp.asarray(np.random.default_rng(1).normal(size=(b, n)))
    x = block_solve(BlockCholesky.plan(n, edges, b), diagonal, off_diagonal, rhs)

    rng = np.random.default_rng(2)
    new = rng.permutation(n)
    old = np.argsort(new)
    turned = rng.random(len(edges)) < 0.5
    renamed = np.where(turned[:, None], new[edges][:, ::-1], new[edges])
    shuffled = rng.permutation(len(edges))
    blocks = jnp.where(turned, off_diagonal.swapaxes(0, 1), off_diagonal)[:, :, shuffled]
    plan = BlockCholesky.plan(n, renamed[shuffled], b)
    y = block_solve(plan, diagonal[:, :, old], blocks, rhs[:, old])
    np.testing.assert_allclose(y[:, new], x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("graph", in_part(["single block", "chain", "ring", "net"], {"chain"}))
def test_block_derivatives_agree_with_dense_ones(graph):
    n, edges = GRAPHS[graph]
    b = 2
    plan = BlockCholesky.plan(n, edges, b)
    inputs = (*random_blocks(n, edges, b), jnp.ones((b, n)))
    tangents = (*random_blocks(n, edges, b, seed=3), jnp.arange(b * n, dtype=float).reshape(b, n))

    def symmetric(D):
        return (D + D.swapaxes(0, 1)) / 2

    def ours(D, C, r):
        return block_solve(plan, symmetric(D), C, r)

    def theirs(D, C, r):
        return dense_solve(n, edges, symmetric(D), C, r)

    both = (derivatives(f, inputs, tangents, tangents[2]) for f in (ours, theirs))
    for x, y in zip(*both, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_one_factor_serves_a_batch_of_right_hand_sides_and_a_batch_of_matrices():
    n, edges = GRAPHS["net"]
    b = 3
    plan = BlockCholesky.plan(n, edges, b)
    blocks = random_blocks(n, edges, b)
    rhs = jnp.asarray(np.random.default_rng(1).normal(size=(4, b, n)))
    factor = jax.jit(lambda plan, blocks: plan.factor(*blocks))(plan, blocks)
    together = jax.jit(jax.vmap(BlockCholesky.solve, in_axes=(None, None, 0)))(plan, factor, rhs)
    for r, x in zip(rhs, together, strict=True):
        np.testing.assert_allclose(x, dense_solve(n, edges, *blocks, r), rtol=1e-9, atol=1e-12)
    scale = jnp.array([1.0, 2.0, 4.0, 8.0])
    scaled = jax.vmap(lambda s, r: block_solve(plan, s * blocks[0], s * blocks[1], r))(scale, rhs)
    np.testing.assert_allclose(scale[:, None, None] * scaled, together, rtol=1e-9, atol=1e-12)


def test_an_indefinite_block_matrix_gives_nan():
    n, edges = GRAPHS["chain"]
    diagonal, off_diagonal = random_blocks(n, edges, 3)
    diagonal = diagonal.at[1, 1, 4].set(-1.0)
    plan = BlockCholesky.plan(n, edges, 3)
    assert np.isnan(block_solve(plan, diagonal, off_diagonal, jnp.ones((3, n)))).any()


def test_chains_and_trees_have_no_fill_and_a_chain_goes_end_to_end():
    for graph in ("chain", "tree", "star"):
        assert BlockCholesky.plan(*GRAPHS[graph], 3).fill == 0
    np.testing.assert_array_equal(eliminate(*chain(50)).order, np.arange(50))


def test_fill_of_a_ring_is_one_block_per_elimination():
    n, edges = GRAPHS["ring"]
    assert BlockCholesky.plan(n, edges, 3).fill == n - 3


def equations(jaxpr):
    inner = [x for e in jaxpr.eqns for x in jax.tree.leaves(tuple(e.params.values()))]
    inner = [getattr(x, "jaxpr", x) for x in inner]
    return len(jaxpr.eqns) + sum(equations(x) for x in inner if hasattr(x, "eqns"))


def test_the_program_is_as_long_for_few_blocks_as_for_many():
    def length(n, edges):
        plan = BlockCholesky.plan(n, edges, 3)
        blocks = random_blocks(n, edges, 3)
        return equations(jax.make_jaxpr(block_solve)(plan, *blocks, jnp.ones((3, n))).jaxpr)

    assert length(*chain(10)) == length(*net(5, 6))
    assert length(*chain(3000)) == length(*chain(6000))


def test_graphs_of_equal_sizes_share_a_program():
    compiled = jax.jit(lambda *inputs: block_solve(*inputs))
    for start in (0, 1):
        n, edges = chain(6)
        plan = BlockCholesky.plan(n, (edges + start) % n, 2)
        compiled(plan, *random_blocks(n, (edges + start) % n, 2), jnp.ones((2, n)))
    assert compiled._cache_size() == 1


@pytest.mark.parametrize(
    ("edges", "message"),
    [([[0, 3]], "outside"), ([[1, 1]], "itself"), ([[0, 1], [1, 0]], "twice")],
)
def test_impossible_edges_are_refused(edges, message):
    with pytest.raises(ValueError, match=message):
        BlockCholesky.plan(3, np.array(edges), 2)


@jax.custom_jvp
def safe_root(x):
    return jnp.sqrt(x)


@safe_root.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return safe_root(x), jnp.where(x > 0, t / (2 * safe_root(x)), 0.0)


FUNCTIONS = {
    "elementwise": lambda x: jnp.sin(x) * jnp.exp(-(x**2)) / (1 + x[::-1] ** 2),
    "arrays": lambda x: (jnp.outer(x, x) @ x)[jnp.array([2, 0, 0])] + jnp.cross(x[:3], x[1:]).sum(),
    "called": jax.jit(lambda x: jax.jit(jnp.tanh)(x) + jax.nn.softplus(x)),
    "loop": lambda x: jax.lax.fori_loop(0, 5, lambda k, y: y + jnp.sin(y) / (k + 1), x),
    "while": lambda x: jax.lax.while_loop(lambda y: y.sum() < 9, lambda y: 1.5 * y * y + 1, x),
    "scan": lambda x: jax.lax.scan(lambda c, y: (c * y + x[0], c), x[1], x)[1],
    "branch": lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    "chosen": lambda x: jnp.where(x > 0.1, x**2, -x) + jnp.maximum(x, 0.2),
    "own rule": lambda x: safe_root(jnp.maximum(x, 0.0)),
    "stopped": lambda x: jax.lax.stop_gradient(x) * x,
    "solved": lambda x: jnp.linalg.solve(jnp.eye(4) + jnp.outer(x, x), x),
    "mapped": lambda x: jax.vmap(lambda y: jnp.dot(x, jnp.sin(y * x)))(x),
    "derivative": lambda x: (
        jax.jvp(jnp.sin, (x,), (x**2,))[1] + jax.grad(lambda y: (y**3).sum())(x)
    ),
    "constant": lambda x: jnp.floor(x) + 1.0,
    "pytree": lambda x: {"a": x[0] ** 2, "b": (x[1:], jnp.argmax(x))},
}


@pytest.mark.parametrize("name", in_part(FUNCTIONS, {"arrays", "mapped", "elementwise", "called"}))
def test_linearized_as_by_jax(name):
    """Value, derivative and second derivative, plain, compiled and mapped."""
    fun, x = FUNCTIONS[name], jnp.array([0.3, -0.2, 0.7, 0.4])
    if name == "own rule":
        x = x.at[1].set(0.0)  # where the derivative of the square root itself is infinite
    change = jnp.array([1.0, 0.5, -0.3, 0.2])
    value, tangent = jax.jvp(fun, (x,), (change,))
    ours, along = linearized(fun, x)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)  # noqa: E731
    real = lambda tree: [t for t in jax.tree.leaves(tree) if t.dtype == float]  # noqa: E731
    jax.tree.map(close, ours, value)
    assert jax.tree.structure(along(change)) == jax.tree.structure(tangent)
    for a, b in zip(real(along(change)), real(tangent), strict=True):
        close(a, b)
    along_x = lambda y: real(linearized(fun, y)[1](change))  # noqa: E731
    by_jax = lambda y: real(jax.jvp(fun, (y,), (change,))[1])  # noqa: E731
    batch = jnp.stack([x, x + 0.1])
    for a, b in zip(jax.vmap(jax.jit(along_x))(batch), jax.vmap(by_jax)(batch), strict=True):
        close(a, b)
    if name != "while":
        for a, b in zip(jax.jacfwd(along_x)(x), jax.jacfwd(by_jax)(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_derivative_of_several_arguments():
    """Also of what the function closes over a traced value of."""

    @jax.jit
    def ours(p, x, y):
        return derivative(lambda u, w: p * jnp.sin(u["x"]) @ w, ({"x": x}, y), ({"x": y}, x))

    x, y = jnp.arange(3.0), jnp.array([0.3, 0.1, -2.0])
    exact = jax.jvp(lambda u, w: 0.7 * jnp.sin(u) @ w, (x, y), (y, x))[1]
    np.testing.assert_allclose(ours(0.7, x, y), exact, rtol=1e-14)
