"""Eliminations along chains that are done strip by strip, while the blocks of their matrix are
computed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import holonax as hx
from groups_of_loops import groups_of
from holonax.compiler import machine, rounds, strip_writer, strips
from holonax.compiler.executable import Layout, Program
from holonax.compiler.program import Lowering, lowered
from holonax.compiler.strip_writer import StripEmitter
from holonax.linalg import BlockCholesky, elimination
from holonax.linalg.block_lu import BlockLU
from holonax.linalg.elimination import eliminate
from holonax.linalg.indexing import ALL_READY
from sections import in_part


def _chain(n: int) -> np.ndarray:
    return np.stack([np.arange(1, n), np.arange(n - 1)], axis=1)


def _with_leaves(n: int) -> np.ndarray:
    """A chain of every other block, each with the next one as a leaf."""
    stem = np.arange(0, n, 2)
    return np.concatenate(
        [np.stack([stem, stem + 1], axis=1), np.stack([stem[1:], stem[:-1]], axis=1)]
    )


def _ring(n: int) -> np.ndarray:
    return np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)


def _shuffled(n: int) -> np.ndarray:
    return np.random.default_rng(0).permutation(n)[_chain(n)]


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "IN_PARTS", 500)


@pytest.mark.parametrize("n", [500, 1003])
def test_blocks_are_promised_before_they_are_needed(n: int) -> None:
    """Each column, brute force: its own block, its edges, and the parts of the right-hand side."""
    plan = eliminate(n, _chain(n))
    ready = plan.ready
    assert ready is not None
    highest = -1
    for p in range(n):
        entries = range(plan.pointer[p], plan.pointer[p + 1])
        rows = [plan.order[plan.row[e]] for e in entries]
        sources = [plan.source[e] for e in entries]
        highest = max([highest, plan.order[p], *rows, *sources])
        assert ready[p] == highest


@pytest.mark.parametrize(
    ("n", "edges"),
    [
        (499, _chain(499)),  # few
        (600, _shuffled(600)),  # late blocks are needed early
        (600, _with_leaves(600)),  # edges are numbered otherwise
        (600, _ring(600)),  # there is fill
    ],
)
def test_nothing_is_promised_where_it_would_not_be_kept(n: int, edges: np.ndarray) -> None:
    assert eliminate(n, edges).ready is None


@pytest.mark.parametrize(
    ("n", "edges"),
    [(40, _chain(40)), *((600, f(600)) for f in (_chain, _shuffled, _with_leaves, _ring))],
)
def test_blocks_are_kept_as_long_as_they_are_needed(n: int, edges: np.ndarray) -> None:
    b, random = 2, np.random.default_rng(1)
    off = random.normal(size=(b, b, len(edges)))
    diagonal = np.tile(9.0 * np.eye(b)[:, :, None], n)
    S = np.zeros((n, b, n, b))
    S[np.arange(n), :, np.arange(n), :] = np.moveaxis(diagonal, 2, 0)
    i, j = edges.T
    S[i, :, j, :] += np.moveaxis(off, 2, 0)
    S[j, :, i, :] += np.moveaxis(off, 2, 0).swapaxes(1, 2)
    rhs = random.normal(size=(b, n))
    wanted = np.linalg.solve(S.reshape(n * b, n * b), rhs.T.ravel()).reshape(n, b).T
    plan = BlockCholesky.plan(n, edges, b)
    assert plan.kept <= 2 or plan.ready is None
    found = jax.jit(lambda p, d, o, r: p.substitute(p.factor(d, o), r))(plan, diagonal, off, rhs)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14 * n)


def _blocks(x: Any, y: Any, b: int, symmetric: bool) -> tuple[Any, Any, Any]:
    """Diagonal blocks, those beside them and a right-hand side, of joints between bodies: each from
    the bodies next to it, and some from further away."""
    turned = jnp.sin(x) * y
    between = turned[:, 1:] - turned[:, :-1]
    around = jnp.pad(between[:, 1:], ((0, 0), (0, 1))) + jnp.pad(between[:, :-1], ((0, 0), (1, 0)))
    unit = 8.0 * jnp.eye(b)[:, :, None]
    lower = jnp.stack([jnp.stack([0.1 * around[(i + j) % 3] for i in range(b)]) for j in range(b)])
    diagonal = unit + (lower + jnp.swapaxes(lower, 0, 1) if symmetric else lower)
    off = jnp.stack(
        [jnp.stack([jnp.cos(between[(i + 2 * j) % 3]) for i in range(b)]) for j in range(b)]
    )
    return diagonal, off[:, :, 1:], around[:b] + jnp.cos(between[:b])


def _symmetric(plan: Any, x: Any, y: Any) -> Any:
    """Two right-hand sides, one factor; and what is needed before and after."""
    diagonal, off, rhs = _blocks(x, y, 3, True)
    factor = plan.factor(diagonal, off)
    found = jax.vmap(lambda r: plan.substitute(factor, r))(jnp.stack([rhs, rhs[::-1] * 2]))
    return found, rhs * jnp.max(jnp.abs(rhs)), x[:, 1:] + found[0]


def _one_after_the_other(plan: Any, x: Any, y: Any) -> Any:
    """A right-hand side that is read by others, ahead and behind, before it is worked upon."""
    diagonal, off, rhs = _blocks(x, y, 3, True)
    factor = plan.factor(diagonal, off)
    ahead = jnp.pad(rhs[:, 2:], ((0, 0), (0, 2))) * x[:, 1:]
    behind = jnp.pad(rhs[:, :-2], ((0, 0), (2, 0))) + jnp.sin(ahead)
    far = jnp.pad(behind[:, 7:], ((0, 0), (0, 7))) + rhs
    first = plan.substitute(factor, far + rhs)
    return plan.substitute(factor, first + ahead), behind, first


def _unsymmetric(plan: Any, x: Any, y: Any) -> Any:
    diagonal, off, rhs = _blocks(x, y, 3, False)
    factor = plan.factor(diagonal, off, 0.5 * off[::-1])
    return plan.solve(factor, rhs), rhs + 1


def _compiled(f: Any, plan: Any, *args: Any) -> tuple[list[np.ndarray], list[strips.Strips]]:
    """Results of a program whose tables are inputs, and its groups of loops."""
    tables, structure = jax.tree.flatten(plan)

    def program(*given: Any) -> Any:
        return f(jax.tree.unflatten(structure, given[2:]), *given[:2])

    given = [*args, *tables]
    made = lowered(jax.make_jaxpr(program)(*given), Lowering(in_loops=True))
    emitter = StripEmitter(made.main, made.buffers, len(made.inputs), len(made.outputs))
    emitter.block(made.main)
    layout = Layout(made.inputs, made.outputs, emitter.scratch, made.operations, True)
    code = machine.object_code(emitter.text(), machine.Effort(0, 1))
    return Program(code, layout)([np.asarray(x) for x in given]), groups_of(made.main)


def _rounds(groups: list[strips.Strips]) -> int:
    return sum(part.rounds is not None for group in groups for part in group.parts)


@pytest.mark.parametrize("n", [600, 1003, 2312])
@pytest.mark.parametrize("everything_is_large", [False, True])
@pytest.mark.parametrize("f", [_symmetric, _one_after_the_other, _unsymmetric])
def test_an_elimination_strip_by_strip_gives_the_same_numbers(
    f: Any, n: int, everything_is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if everything_is_large:  # lines are asked for, and written past the cache
        for limit in ("_BEYOND_CACHE", "_PAST_CACHE", "_MUCH"):
            monkeypatch.setattr(strip_writer, limit, 0)
    make = BlockLU.plan if f is _unsymmetric else BlockCholesky.plan
    plan = make(n, _chain(n), 3)
    x, y = np.random.default_rng(n).normal(size=(2, 3, n + 1))
    found, groups = _compiled(f, plan, x, y)
    assert _rounds(groups) >= 2
    for one, other in zip(found, jax.jit(f)(plan, x, y), strict=True):
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-12, atol=1e-13)


def _random(seed: int) -> Any:
    """Eliminations among loops that take their numbers from further and further away."""

    def program(plan: Any, x: Any, y: Any) -> Any:
        random = np.random.default_rng(seed)
        known = [jnp.sin(x[:, 1:]), jnp.cos(y[:, 1:]), (x * y)[:, :-1]]
        diagonal, off, _ = _blocks(x, y, 3, True)
        factor = plan.factor(diagonal, off)
        for _ in range(12):
            a, b = (known[k] for k in random.integers(len(known), size=2))
            shift = int(random.choice([0, 1, 2, 3, 7, 40]))
            moved = jnp.pad(b[:, shift:], ((0, 0), (0, shift)))
            if random.random() < 0.5:
                moved = jnp.pad(b[:, : b.shape[1] - shift], ((0, 0), (shift, 0)))
            kind = random.integers(4)
            if kind == 0:
                known.append(plan.substitute(factor, a + moved))
            elif kind == 1:
                known.append(jnp.tanh(a) * jnp.max(jnp.abs(moved)))
            elif kind == 2:
                known.append(jnp.stack([a[1], moved[0], a[2]]))
            else:
                known.append(0.5 * a - jnp.cos(moved))
        return known[3:]

    return program


@pytest.mark.parametrize("seed", in_part(range(40), {str(k) for k in range(6, 40)}))
def test_random_programs_with_eliminations(seed: int) -> None:
    n = 600 + 7 * seed
    plan = BlockCholesky.plan(n, _chain(n), 3)
    x, y = np.random.default_rng(n).normal(size=(2, 3, n + 1))
    found, _ = _compiled(_random(seed), plan, x, y)
    for one, other in zip(found, jax.jit(_random(seed))(plan, x, y), strict=True):
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-11, atol=1e-11)


def test_a_late_number_that_is_none_spoils_what_it_does_elsewhere(n: int = 1100) -> None:
    plan = BlockCholesky.plan(n, _chain(n), 3)
    x, y = np.random.default_rng(2).normal(size=(2, 3, n + 1))
    x[1, 900] = np.nan
    found, groups = _compiled(_symmetric, plan, x, y)
    assert _rounds(groups) >= 2
    for one, other in zip(found, jax.jit(_symmetric)(plan, x, y), strict=True):
        np.testing.assert_array_equal(np.isnan(one.reshape(other.shape)), np.isnan(other))


def _until_a_mark(table: Any, x: Any, y: Any) -> Any:
    """A loop of somebody else, which looks like ours: until a mark in a table that is not there."""
    turned = jnp.sin(x) * y
    largest = jnp.iinfo(jnp.int32).max

    def following(carry: Any) -> Any:
        k, sums = carry
        at = lambda a, i: lax.dynamic_slice(a, (jnp.int32(0), i), (3, 1))  # noqa: E731
        ahead = table.shape[0] - 1 - k
        return k + 1, lax.dynamic_update_slice(
            sums, at(sums, k) + at(sums, ahead), (jnp.int32(0), k)
        )

    going = lambda carry: (carry[0] < table.shape[0]) & (table[carry[0]] < largest)  # noqa: E731
    sums = lax.while_loop(going, following, (jnp.int32(0), turned))[1]
    return sums, jnp.cos(turned) * y


def test_loops_of_others_are_left_alone() -> None:
    assert rounds.ALL == ALL_READY != np.iinfo(np.int32).max
    n = 900
    table, (x, y) = np.arange(n, dtype=np.int32), np.random.default_rng(3).normal(size=(2, 3, n))
    found, groups = _compiled(_until_a_mark, table, x, y)
    assert _rounds(groups) == 0
    for one, other in zip(found, jax.jit(_until_a_mark)(table, x, y), strict=True):
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-13)


def _rods(n: int) -> tuple[Any, Any]:
    """A level chain on spherical joints, of rods that are not alike."""
    model, mass = hx.Model(gravity=(0, 0, -9.81)), np.random.default_rng(n).uniform(1, 2, n)
    for i in range(n):
        model.body(f"rod{i}", hx.box((1, 0.1, 0.1), mass=mass[i]), position=(i + 0.5, 0, 0))
        model.spherical(f"ball{i}", f"rod{i - 1}" if i else "ground", f"rod{i}", at=(i, 0, 0))
    return model.build()


@pytest.mark.parametrize(
    "method",
    [
        {"formulation": hx.PostStabilized("both", passes=2), "integrator": hx.RK4()},
        {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.8)},
    ],
    ids=["RK4", "generalized-alpha"],
)
def test_a_chain_moves_as_if_its_elimination_were_done_at_once(
    method: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last digit: the same operations, in another order of the loops."""
    ends = []
    for least in (500, 10_000):
        monkeypatch.setattr(elimination, "IN_PARTS", least)
        system, start = _rods(600)
        result = hx.simulate(system, start, 0.02, dt=1e-3, save="end", **method)
        assert result.success, result.message
        ends.append((result.q[-1], result.v[-1]))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)
