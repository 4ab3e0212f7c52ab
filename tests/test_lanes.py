"""Programs in the lanes of vectors are those of one run, run by run.

Functions of mathematics are compared with those of extended precision, random programs with
`jax.vmap`, routines on matrices with NumPy's.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax

import random_programs
from holonax.compiler.batched import Lanes, packed, unpacked
from holonax.compiler.machine import host_lanes
from holonax.compiler.operations import Unsupported
from test_compiler import WAYS, limits

FREE = np.zeros(1, np.uint8)


def in_lanes(function: Any, shared: Any, own: Any, lanes: int | None = None) -> Any:
    """`function(shared, own)` for each row of `own`."""
    one = jax.tree.map(lambda x: np.asarray(x)[0], own)
    program = Lanes(function).program(shared, one, lanes)
    given = [np.asarray(x) for x in jax.tree.leaves(shared)]
    leaves = program(given, [np.asarray(x) for x in jax.tree.leaves(own)], FREE)
    return jax.tree.unflatten(program.tree, leaves)


# -- functions of mathematics ------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
SMALL = RANDOM.normal(size=2000)
FAR = RANDOM.uniform(-1e6, 1e6, 2000)
POSITIVE = np.exp(RANDOM.uniform(-700, 700, 2000))
FUNCTIONS = {
    "sin": [np.concatenate([SMALL, 10 * SMALL, FAR])],
    "cos": [np.concatenate([SMALL, 10 * SMALL, FAR])],
    "tan": [np.concatenate([SMALL, 10 * SMALL])],
    "exp": [np.concatenate([SMALL, RANDOM.uniform(-700, 700, 2000)])],
    "log": [np.concatenate([np.abs(SMALL), POSITIVE, 1 + 1e-3 * SMALL])],
    "power": [np.abs(3 * SMALL), RANDOM.uniform(-20, 20, 2000)],
    "tanh": [np.concatenate([SMALL, 10 * SMALL])],
    "arctan": [np.concatenate([SMALL, 10 * SMALL])],
    "arctan2": [SMALL, RANDOM.normal(size=2000)],
    "arcsin": [RANDOM.uniform(-1, 1, 2000)],
    "arccos": [RANDOM.uniform(-1, 1, 2000)],
    "sinh": [SMALL],
    "log1p": [np.abs(SMALL)],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_right_to_two_units_in_the_last_place(name):
    args = FUNCTIONS[name]
    found = in_lanes(lambda _, own: getattr(jnp, name)(*own), (), args)
    want = getattr(np, name)(*(x.astype(np.longdouble) for x in args))
    off = np.abs(found - want) / np.spacing(np.abs(want.astype(float)))
    assert np.max(off) < 2


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 3.0, -3.0, 1e-320, 1e308]
)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "arctan", "arcsin", "arccos", "sin", "cos"])
@pytest.mark.filterwarnings("ignore")
def test_functions_at_special_numbers(name):
    numbers = SPECIAL[:-1] if name in ("sin", "cos") else SPECIAL
    found = in_lanes(lambda _, own: getattr(jnp, name)(own), (), numbers)
    want = getattr(np, name)(numbers)
    np.testing.assert_allclose(found, want, rtol=1e-15)
    known = ~np.isnan(want)
    assert np.array_equal(np.signbit(found[known]), np.signbit(want[known]))


@pytest.mark.parametrize("name", ["power", "arctan2"])
@pytest.mark.filterwarnings("ignore")
def test_functions_of_two_numbers_at_special_ones(name):
    x, y = (a.ravel() for a in np.meshgrid(SPECIAL, SPECIAL))
    function = lambda _, own: lax.pow(*own) if name == "power" else lax.atan2(*own)  # noqa: E731
    found, want = in_lanes(function, (), (x, y)), getattr(np, name)(x, y)
    np.testing.assert_allclose(found, want, rtol=1e-14)
    known = ~np.isnan(want)
    assert np.array_equal(np.signbit(found[known]), np.signbit(want[known]))


# -- programs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [1, 2, 7, 8, 9, 33])
def test_packs_are_filled_and_emptied(runs):
    x = np.arange(runs * 6.0).reshape(runs, 2, 3)
    for lanes in (2, 4, 8):
        packs = -(-runs // lanes)
        assert np.array_equal(unpacked(packed(x, packs, lanes), runs, (2, 3)), x)


def test_lanes_of_a_loop_end_by_themselves():
    def collatz(_, n):
        odd = lambda n: 3 * n + 1  # noqa: E731
        step = lambda x: (lax.cond(x[0] % 2 == 1, odd, lambda n: n // 2, x[0]), x[1] + 1)  # noqa: E731
        return lax.while_loop(lambda x: x[0] > 1, step, (n, 0))[1]

    def counted(n):
        steps = 0
        while n > 1:
            n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
        return steps

    found = in_lanes(collatz, (), np.arange(1, 40))
    assert found.tolist() == [counted(n) for n in range(1, 40)]


def test_what_is_not_a_number_stays_in_its_lane():
    def f(_, x):
        return lax.while_loop(
            lambda s: (s[0] < 10) & (s[1] < 50), lambda s: (s[0] * x, s[1] + 1), (1.0, 0)
        )

    x = np.array([1.5, np.nan, 2.0, 0.5, np.inf])
    found, want = in_lanes(f, (), x), jax.vmap(lambda x: f((), x))(x)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("wanted", [0.0, 1e-3, 1e-12])
def test_a_loop_that_is_entered_has_its_first_round_before_it(wanted):
    def root(_, a):
        """By Newton's method: lanes need one round or several, and one comes to no end."""

        def better(now):
            x, _, n = now
            change = (x * x - a) / (2 * x)
            return x - change, jnp.abs(change), n + 1

        going = lambda now: (now[1] > wanted) & (now[2] < 20) & (now[1] < jnp.inf)  # noqa: E731
        return lax.while_loop(going, better, (1.5, 1e300, 0))

    a = np.array([2.25, 2.2500001, 2.0, 9.0, np.nan, np.inf, 1e-3, -1.0, 2.25, 4.0])
    found, want = in_lanes(root, (), a), jax.vmap(lambda x: root((), x))(a)
    assert found[2].tolist() == np.asarray(want[2]).tolist() and found[2].min() == 1
    np.testing.assert_allclose(found[0], want[0], rtol=1e-15)


def test_the_largest_of_many_sizes():
    def f(_, x):
        size = jnp.abs(x)
        return jnp.max(size, initial=0.0), jnp.maximum(size[0], 1.0), jnp.max(x), jnp.min(size)

    x = np.random.default_rng(0).normal(size=(11, 1000))
    x[1, 7], x[2, 900], x[3, 0], x[4, :], x[5, :] = np.nan, -np.nan, -np.inf, -0.0, 1e-310
    found, size = in_lanes(f, (), x), np.abs(x)
    want = size.max(axis=1), np.maximum(size[:, 0], 1.0), x.max(axis=1), size.min(axis=1)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.signbit(found[0][4])


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_matrices_are_factorised_lane_by_lane(lanes):
    matrices, right = RANDOM.normal(size=(19, 5, 5)), RANDOM.normal(size=(19, 5))
    matrices[3, 0] = 0.0  # another order of rows than elsewhere
    matrices[3, 0, 4] = 1.0
    shared = RANDOM.normal(size=(5, 5)) + 5 * np.eye(5)

    def f(shared, own):
        A, b = own
        spd = A @ A.T + jnp.eye(5)
        factor = jnp.linalg.cholesky(spd)
        return jnp.linalg.solve(A, b), factor, jnp.linalg.solve(shared, b)

    x, factor, y = in_lanes(f, shared, (matrices, right), lanes)
    np.testing.assert_allclose(x, np.linalg.solve(matrices, right[..., None])[..., 0], rtol=1e-9)
    want = np.linalg.cholesky(matrices @ matrices.transpose(0, 2, 1) + np.eye(5))
    np.testing.assert_allclose(factor, want, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(y, np.linalg.solve(shared, right.T).T, rtol=1e-12)


def test_a_matrix_without_a_factor_spoils_its_own_lane_only():
    matrices = np.stack([np.eye(3), -np.eye(3), 4 * np.eye(3), np.zeros((3, 3))])
    found = in_lanes(lambda _, A: jnp.linalg.cholesky(A), (), matrices)
    assert np.array_equal(np.isnan(found).any(axis=(1, 2)), [False, True, False, True])
    assert np.array_equal(found[2], 2 * np.eye(3))


def test_a_program_that_is_not_known_is_refused():
    with pytest.raises(Unsupported, match="svd"):
        in_lanes(lambda _, A: jnp.linalg.svd(A, compute_uv=False), (), np.ones((3, 2, 2)))


def test_the_width_is_that_of_the_processor():
    assert host_lanes() in (2, 4, 8)


# -- random programs -----------------------------------------------------------------------------


def assert_lanes_are_runs(program: Any, seed: int, is_shared: list[bool], lanes: int) -> None:
    """Whole numbers, so results have to agree in every bit."""
    runs = [program.arguments(seed + k) for k in range(lanes + 3)]
    own = [np.stack(x) for x, common in zip(zip(*runs), is_shared) if not common]
    shared = [x for x, common in zip(runs[0], is_shared) if common]
    if not own:
        return

    def f(shared, own):
        shared, own = iter(shared), iter(own)
        return program(*(next(shared if common else own) for common in is_shared))

    want = jax.jit(jax.vmap(f, (None, 0)))(shared, own)
    found = in_lanes(f, shared, own, lanes)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(a, np.asarray(b))


many = partial(settings, suppress_health_check=list(HealthCheck), print_blob=False, deadline=None)


inputs = st.lists(st.booleans(), min_size=12, max_size=12)
ways = st.sampled_from([way for way in WAYS if way != "constants"])


@many(max_examples=10)
@given(random_programs.programs(random_programs.VARIED), st.integers(0, 1000), inputs, ways)
def test_random_programs_in_lanes(program, seed, shared, way):
    with limits(**WAYS[way]):
        assert_lanes_are_runs(program, seed, shared[: len(program.inputs)], 4)


@many(max_examples=8)
@given(random_programs.programs(random_programs.UPDATES), st.integers(0, 1000), inputs)
def test_random_programs_that_update_arrays_in_lanes(program, seed, shared):
    with limits(**WAYS["loops in memory"]):
        assert_lanes_are_runs(program, seed, shared[: len(program.inputs)], 2)


@pytest.mark.slow
@many(max_examples=600)
@given(data=st.data(), seed=st.integers(0, 1000), shared=inputs, way=ways)
@pytest.mark.parametrize("lanes", [2, 8])
def test_many_random_programs_in_lanes(lanes, data, seed, shared, way):
    style = data.draw(st.sampled_from([random_programs.VARIED, random_programs.UPDATES]))
    program = data.draw(random_programs.programs(style))
    with limits(**WAYS[way]):
        assert_lanes_are_runs(program, seed, shared[: len(program.inputs)], lanes)
