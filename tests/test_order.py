"""The order of operations of long programs, and loops that are written out by their tables."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from holonax.compiler import order, program
from holonax.compiler.order import arrange
from holonax.compiler.program import lowered
from test_threads import compared, in_threads

LOOP = "br label %h"  # to the head of one


def most_alive(block):
    """The largest number of results that wait for their use, in one block without statements."""
    last = {x: k for k, node in enumerate(block.code) for x in node.args}
    alive, most = set(), 0
    for k, node in enumerate(block.code):
        alive.add(node)
        most = max(most, len(alive))
        alive -= {x for x in (*node.args, node) if last.get(x, -1) <= k}
    return most


def bodies(x):
    """Something of 40 bodies, array by array, that neighbours pass on along a chain."""
    a, b = jnp.sin(x), jnp.cos(x)
    c, d = a * b, a + 3.0 * b
    e = c / (2.0 + d**2) + a * d
    f = e * a + c * b + d
    total = jnp.zeros(())
    for k in range(40):
        total = 0.3 * total * e[k] + f[k]
    return total, jnp.max(jnp.abs(f))


def needed(closed):
    """A program without what is not needed, in its own order."""
    made = lowered(closed, program._apart(10**6, counted=True))
    (code,) = order._pieces(made.main)
    made.main.code = code
    return made.main


def test_few_numbers_wait_for_their_use():
    closed = jax.make_jaxpr(bodies)(np.ones(40))
    before, after = needed(closed), needed(closed)
    nodes = list(after.code)
    arrange(after)
    assert most_alive(before) > 150 and most_alive(after) < 20
    assert sorted(map(id, after.code)) == sorted(map(id, nodes))
    x = np.random.default_rng(0).normal(size=(3, 40))
    compared(lambda _, own: bodies(own), (), x)


def test_what_needs_no_room_is_done_at_once():
    def f(x, y):
        products = [x[k] * y[k] + x[k] for k in range(30)]  # the last use of each x
        return sum(products[::-1]), y * jnp.flip(y)

    closed = jax.make_jaxpr(f)(np.ones(30), np.ones(30))
    main = needed(closed)
    arrange(main)
    assert most_alive(main) < 70  # numbers that were read, of which y are used twice


def test_memory_is_read_and_written_in_its_order():
    def f(_, own):
        x, i = own

        def body(k, s):
            z, y = s
            j = jnp.asarray(z[0] * 7 + k, int) % 12
            old, other = z[j], z[(j + i) % 12]  # may be the same place
            z = z.at[j].set(y * other)
            first = z[(2 * j + i) % 12]
            z = z.at[(j + k) % 12].add(old)
            z = z.at[3].set(first + z[j] + z[4])
            return z, y * 0.7 + z[3] - z[(j + 1) % 12]

        return lax.fori_loop(0, i + 3, body, (x, x[1]))

    random = np.random.default_rng(3)
    compared(f, (), (random.uniform(0.1, 1, (40, 12)), random.integers(0, 12, 40)))


POINTER, COLUMN = np.array([0, 2, 2, 5, 6]), np.array([3, 1, 0, 0, 2, 1])


def rows(own, pointer):
    """y[p] = x[p] - sum of weights[k] y[column[k]], k from pointer[p] to pointer[p + 1]."""
    x, weights = own

    def one(p, y):
        def term(k, s):
            return s - weights[k] * y[jnp.asarray(COLUMN)[k]]

        return y.at[p].set(lax.fori_loop(pointer[p], pointer[p + 1], term, x[p]))

    return lax.fori_loop(0, 4, one, x)


def test_loops_from_one_place_of_a_table_to_another_are_written_out():
    random = np.random.default_rng(4)
    own = random.normal(size=(5, 4)), random.normal(size=(5, 6))
    known = compared(lambda _, own: rows(own, jnp.asarray(POINTER)), (), own)
    assert LOOP not in known
    kept = compared(lambda pointer, own: rows(own, jnp.asarray(pointer)), POINTER, own)
    assert LOOP in kept  # where the table is not known


def test_a_loop_that_is_done_too_often_is_kept():
    def f(_, x):
        table = jnp.asarray([0, 1000])
        return lax.fori_loop(table[0], table[1], lambda k, y: 0.9 * y + jnp.sin(k * x), x)

    assert LOOP in compared(f, (), np.array([0.1, 0.7]))


def test_a_loop_that_ends_by_its_result_is_kept():
    def f(_, x):
        def going(s):
            return (s[0] < 9) & (jnp.abs(s[1] ** 2 - x) > 1e-12)

        return lax.while_loop(going, lambda s: (s[0] + 1, 0.5 * (s[1] + x / s[1])), (0, x))

    assert LOOP in compared(f, (), np.array([0.5, 2.0, 1.0]))


def test_what_is_written_before_it_is_read_is_not_filled_before():
    def f(begin):
        def body(k, z):
            before = z[jnp.maximum(k - 1, 0)]
            return lax.dynamic_update_index_in_dim(z, jnp.sin(before) + 0.1 * k, k, 0)

        return lambda _, x: lax.fori_loop(0, 33, body, begin(x))[32] @ jnp.arange(30.0)

    x = np.array([0.3, 0.4])
    text, found = in_threads(f(lambda x: lax.empty((33, 30), float).at[0].set(x)), (), x)
    filled, same = in_threads(f(lambda x: jnp.zeros((33, 30)).at[0].set(x)), (), x)
    np.testing.assert_array_equal(found, same)
    assert filled.count("store double") - text.count("store double") == 32 * 30
