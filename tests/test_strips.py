"""Programs of wide arrays: loops that are done strip by strip, and totals in vectors."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import holonax as hx
from groups_of_loops import groups_of
from holonax.compiler import machine, native, strip_writer, strips
from holonax.compiler.executable import Layout, Program
from holonax.compiler.operations import Block, blocks_in, touched
from holonax.compiler.program import Lowered, Lowering, lowered
from holonax.compiler.strip_writer import StripEmitter
from holonax.rotation import Vec3
from holonax.rotation.quaternion import quaternion_exp


def _compiled(f: Any, *args: Any) -> tuple[list[np.ndarray], Lowered, Layout]:
    """The results of a function whose program is written in loops."""
    made = lowered(jax.make_jaxpr(f)(*args), Lowering(in_loops=True))
    emitter = StripEmitter(made.main, made.buffers, len(made.inputs), len(made.outputs))
    emitter.block(made.main)
    layout = Layout(made.inputs, made.outputs, emitter.scratch, made.operations, True)
    code = machine.object_code(emitter.text(), machine.Effort(0, 1))
    return Program(code, layout)(list(args)), made, layout


def _shifted(x: Any, before: int, after: int) -> Any:
    return jnp.pad(x, ((0, 0), (before, after)))


def _neighbours(x: Any, y: Any) -> Any:
    """Numbers of bodies and of the joints between them, each from those next to it."""
    turned = jnp.sin(x) * y
    between = turned[:, 1:] - turned[:, :-1]
    size = jnp.sqrt(1 + jnp.sum(between**2, axis=0))
    pulled = between / size
    total = _shifted(pulled, 1, 0) - _shifted(pulled, 0, 1)
    flat = (total + x).reshape(-1) * 2.0
    again = flat.reshape(x.shape) - turned
    back = again[:, :-2] + 3 * again[:, 1:-1] - again[:, 2:]
    return back, jnp.max(jnp.abs(flat)), jnp.sum(total * y), jnp.all(size < 3), size


def _in_place(x: Any, y: Any) -> Any:
    """Arrays that are changed round by round, with totals that the next round needs."""

    def round_of(k: Any, carry: Any) -> Any:
        a, b, least = carry
        moved = 0.9 * a + 0.1 * b
        b = b + _shifted(0.1 * moved[:, :-1], 1, 0)
        b = 0.9 * b + _shifted(0.1 * jnp.cos(moved[:, 2:]) * least, 0, 2)
        least = jnp.minimum(least, jnp.min(moved))
        return moved - jnp.mean(b), b, least

    return jax.lax.fori_loop(0, 33, round_of, (x, y, 1.0))


def _along_a_chain(x: Any, y: Any) -> Any:
    """Bodies and the ground before them; one body after the other; and what does not need that."""
    n = x.shape[1]
    ground = jnp.stack([jnp.full((1,), k + 1.0) for k in range(len(x))])
    wide = jnp.concatenate([ground, x * y], axis=1)
    apart = wide[:, 1:] - jnp.cos(wide[:, :-1])

    def following(k: Any, sums: Any) -> Any:
        before = jax.lax.dynamic_slice(sums, (0, k - 1), (len(x), 1))
        own = jax.lax.dynamic_slice(apart, (0, k), (len(x), 1))
        return jax.lax.dynamic_update_slice(sums, own - 0.5 * before, (0, k))

    sums = jax.lax.fori_loop(1, n, following, apart)
    turned = jnp.concatenate([2 * ground, apart * y], axis=1)
    free = turned[:, 1:] * wide[:, :-1] + turned[:, :-1]
    return free, sums * jnp.max(free)


@pytest.mark.parametrize("n", [800, 1003, 2311])
@pytest.mark.parametrize("f", [_neighbours, _in_place, _along_a_chain])
def test_loops_in_strips_give_the_same_numbers(f: Any, n: int) -> None:
    random = np.random.default_rng(n)
    x, y = random.normal(size=(2, 3, n))
    found, made, _ = _compiled(f, x, y)
    assert any(len(group.parts) > 2 and group.local for group in groups_of(made.main))
    for one, other in zip(found, jax.jit(f)(x, y), strict=True):
        scale = np.max(np.abs(other)) * n  # of the terms of the sums
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-13, atol=1e-16 * scale)


def _twice(x: Any, y: Any) -> Any:
    """Arrays that are written, and read again when a total of all entries is known."""
    turned = jnp.sin(x) * y
    between = turned[:, 1:] - turned[:, :-1]
    kept = jnp.exp(-(turned**2)), _shifted(between, 0, 1) + x
    return sum(kept) * jnp.max(jnp.abs(between)) - kept[0] * jnp.sum(kept[1])


def _rows(x: Any, y: Any) -> Any:
    """Three numbers of each body side by side, for what is done one body after the other."""
    turned = jnp.sin(x) * y
    between = _shifted(turned[:, 1:] - turned[:, :-1], 0, 1)
    each = jnp.stack([between[0] * x[1], between[1] - turned[0], turned[2]], axis=1)

    def following(k: Any, total: Any) -> Any:
        return 0.5 * total + 0.1 * each[k]

    last = jax.lax.fori_loop(0, x.shape[1], following, jnp.ones(3))
    return x * last[0] + y, last


def _kept(x: Any, y: Any) -> Any:
    """Arrays that are read by other loops of a group, ahead and behind, and by those after it."""
    turned = jnp.sin(x) * y
    ahead = turned[:, 1:] - 2 * turned[:, :-1]
    around = _shifted(ahead, 0, 1) * x + _shifted(ahead, 1, 0)
    largest = jnp.max(jnp.abs(around))
    return turned * largest + around, ahead / largest


@pytest.mark.parametrize("n", [1000, 1003, 2304])
@pytest.mark.parametrize("f", [_twice, _neighbours, _in_place, _along_a_chain, _rows, _kept])
def test_what_goes_past_the_cache_is_written_all_the_same(
    f: Any, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whole lines, which rows of any length do not consist of; and so is what strips ask for
    ahead, side by side for each number or for each body."""
    x, y = np.random.default_rng(n).normal(size=(2, 3, n))
    wanted, _, _ = _compiled(f, x, y)
    np.testing.assert_allclose(wanted[0], jax.tree.leaves(jax.jit(f)(x, y))[0], rtol=1e-11)
    past = []
    decide = StripEmitter._goes_past_cache

    def recorded(self: Any, *given: Any) -> bool:
        past.append(decide(self, *given))
        return past[-1]

    asked: list[Any] = []
    copies: list[Any] = []
    rows = StripEmitter._fetch_rows

    def asked_for(self: Any, *given: Any) -> None:
        asked.append(given)
        rows(self, *given)

    def copied(group: strips.Strips) -> list[Any]:
        made = strips.with_copies(group)
        copies.extend(made)
        return made

    for limit in ("_BEYOND_CACHE", "_PAST_CACHE", "_MUCH"):
        monkeypatch.setattr(strip_writer, limit, 0)
    monkeypatch.setattr(StripEmitter, "_fetch_rows", asked_for)
    monkeypatch.setattr(strip_writer, "with_copies", copied)
    monkeypatch.setattr(StripEmitter, "_goes_past_cache", recorded)
    found, _, _ = _compiled(f, x, y)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    if f is _twice and machine.host_lanes() == 8:
        assert any(past) == (n % 8 == 0)
    assert bool(asked) == (f is _rows)
    assert copies or f is not _kept


def test_room_is_kept_for_the_next_call_and_not_shared_between_threads() -> None:
    """Of two programs with large arrays, each in two threads at once."""
    x = np.random.default_rng(3).normal(size=(3, 120_000))
    f = lambda x: jnp.cumsum(jnp.sin(x[:, ::-1]) * x, axis=1)[:, ::-1] + x  # noqa: E731
    programs = [native(lambda x, k=k: f(x) * k) for k in (1.0, 2.0)]
    wanted = np.asarray(programs[0](x))
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(programs[k % 2], (1 + k) * x) for k in range(12)]
        again = [np.asarray(programs[k % 2]((1 + k) * x)) for k in range(12)]
        for run, other in zip(runs, again, strict=True):
            np.testing.assert_array_equal(run.result(), other)
    np.testing.assert_array_equal(programs[0](x), wanted)


def test_what_loops_pass_on_needs_no_room_for_all_entries() -> None:
    n = 20_000
    x, y = np.random.default_rng(1).normal(size=(2, 3, n))
    _, made, layout = _compiled(lambda x, y: _neighbours(x, y)[1:3], x, y)
    assert sum(len(group.local) for group in groups_of(made.main)) > 2
    assert layout.room < 32 * n  # bytes: less than five numbers of the twenty for each body


def test_the_ground_and_what_an_elimination_does_not_need_are_done_in_one_group() -> None:
    x = np.random.default_rng(1).normal(size=(3, 2000))
    _, made, _ = _compiled(_along_a_chain, x, np.cos(x))
    first, *rest = groups_of(made.main)
    assert sum(part.node.op == "store" for part in first.parts) == 6
    assert {part.node.op for group in rest for part in group.parts} <= {"for"}
    assert len(first.local) >= 2  # with the ground, these are passed on as well


@pytest.mark.parametrize("shape", [(40,), (3, 41), (47, 3), (2, 40, 3), (9, 333), (333, 9)])
def test_totals_in_vectors(shape: tuple[int, ...]) -> None:
    """Each entry counts once, also where the last vector overlaps the one before."""

    def f(x: Any) -> Any:
        whole, truth = (100 * x).astype(int), x > 0
        sums = jnp.sum(x), jnp.sum(-x), jnp.sum(x, axis=0), jnp.sum(x, axis=-1), jnp.sum(whole)
        largest = jnp.max(x), jnp.min(x, axis=0), jnp.max(whole)
        return *sums, *largest, jnp.prod(1 + 0.01 * x), jnp.any(x > 2.5), jnp.all(truth), x.T

    x = np.random.default_rng(2).normal(size=shape)
    found, _, _ = _compiled(f, x)
    for one, other in zip(found, f(jnp.asarray(x)), strict=True):
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("place", [0, 20, 39])
def test_a_total_of_what_is_not_a_number_is_none(place: int) -> None:
    x = np.random.default_rng(3).normal(size=40)
    x[place] = np.nan
    found, _, _ = _compiled(lambda x: (jnp.max(x), jnp.min(x), jnp.sum(x)), x)
    assert np.isnan(found).all()


def test_sines_of_angles_of_any_size() -> None:
    """In vectors, but for those with an angle that these are not made for."""
    x = np.random.default_rng(5).normal(size=2000) * 100
    x[[3, 700, 1203]] = 1e15, -1e300, np.nan
    found, _, _ = _compiled(lambda x: (jnp.sin(x), jnp.cos(x)), x)
    for value, of in zip(found, (np.sin, np.cos), strict=True):
        np.testing.assert_allclose(value, of(x), rtol=1e-15, atol=1e-15)


def test_rotations_of_many_bodies_are_those_of_few() -> None:
    """Small turns by series, others in closed form: with derivatives, and one that is no number
    does not spoil the rest."""
    random = np.random.default_rng(6)
    turn = random.normal(size=(3, 1000)) * 10.0 ** random.uniform(-9, 0.7, 1000)
    turn[:, 0], turn[0, 1] = 0.0, np.nan

    def exp(turn: Any) -> Any:
        return jnp.stack(quaternion_exp(Vec3(*turn)))

    def both(turn: Any) -> Any:
        return jax.jvp(exp, (turn,), (jnp.cos(turn),))

    apart = [jax.jit(both)(turn[:, k : k + 100]) for k in range(0, 1000, 100)]
    wanted = [np.concatenate(x, axis=1) for x in zip(*apart, strict=True)]
    for found in (jax.jit(both)(turn), _compiled(both, turn)[0]):
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-15)


def test_newton_does_not_look_for_digits_that_a_far_place_has_not() -> None:
    """A chain that begins at 1e6 m is known to 1e-10 m: one iteration a step finds it, as near."""
    iterations = []
    for x in (0.0, 1e6):
        model, before = hx.Model(), "ground"
        for k in range(2):
            model.body(f"b{k}", 1.0, (0.01, 0.1, 0.1), position=(x + k + 0.5, 0, 0))
            model.spherical(f"j{k}", before, f"b{k}", at=(x + k, 0, 0))
            before = f"b{k}"
        methods = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha()}
        result = hx.simulate(*model.build(), 0.02, dt=1e-3, save="end", **methods)
        assert result.success
        iterations.append(result.stats["newton_iterations"])
    assert iterations[1] <= iterations[0]


def _pulled(x: Any, force: Any) -> Any:
    """What forces on the links of a chain do to it, by Jacobians with known zeros and ones."""
    one, none = jnp.ones_like(x[0]), jnp.zeros_like(x[0])
    jacobian = jnp.stack([one, none, jnp.sin(x[0]), none, -one, jnp.cos(x[1])])
    jacobian = lax.optimization_barrier(jacobian).reshape(2, 3, -1)
    bodies = jnp.zeros((3, x.shape[1] + 1)).at[:, 1:].add(jnp.sum(jacobian * force, axis=0))
    return bodies[:, 1:] - bodies[:, :-1] + jnp.cumsum(force[0])[-1]


def test_what_is_one_known_number_for_all_bodies_is_not_computed_with() -> None:
    rng = np.random.default_rng(1)
    x, force = rng.standard_normal((2, 5000)), rng.standard_normal((2, 1, 5000))
    (found,), made, _ = _compiled(_pulled, x, force)
    np.testing.assert_allclose(found, jax.jit(_pulled)(x, force), rtol=1e-12, atol=1e-11)
    stored = [
        node
        for strips_ in groups_of(made.main)
        for loop in strips_.block.code
        for block in blocks_in(loop)
        for node in block.code
        if node.op == "store" and node.args[1].op == "const"
    ]
    assert not stored


def test_a_row_is_written_from_wherever_in_strips() -> None:
    def rows(x: Any, place: Any) -> Any:
        table = jnp.zeros((3, x.size)).at[1].set(0.5 * x)
        y = jnp.sin(x) + jnp.pad(x[1:], (0, 1))
        return lax.dynamic_update_slice(table, (y * y)[None], (place, 0))

    x = np.random.default_rng(2).standard_normal(4000)
    for place in range(3):
        (found,), _, _ = _compiled(rows, x, np.array(place))
        np.testing.assert_allclose(found, rows(x, place), rtol=1e-14, atol=1e-15)


def _carried(x: Any, y: Any) -> Any:
    """A state that is the new one or the old one, and what is carried as it was written."""

    def round_of(k: Any, carry: Any) -> Any:
        state, before, slope, _ = carry
        new = 0.9 * state + jnp.sin(before) * y + 0.1 * slope
        better = jnp.max(jnp.abs(new)) < 1.05 * jnp.max(jnp.abs(state))
        kept = jnp.where(better, new, state)
        return kept, jnp.where(better, state, before), new - before, k

    return jax.lax.fori_loop(0, 9, round_of, (x, y, x - y, 0))


def _swapped(x: Any, y: Any) -> Any:
    """Two arrays that hand each other on, with what is read after it has been carried."""

    def round_of(_: Any, carry: Any) -> Any:
        a, b, c = carry
        new = jnp.cos(a) + 0.5 * b
        return b, new, c + jnp.sum(new * a)

    return jax.lax.fori_loop(0, 7, round_of, (x, y, 0.0))


def _stays(x: Any, y: Any) -> Any:
    """No round at all, and one of which nothing is kept."""
    never = jax.lax.while_loop(lambda z: jnp.max(z) < -1e9, lambda z: 2 * z, x)

    def round_of(_: Any, z: Any) -> Any:
        new = jnp.exp(-jnp.abs(z)) + y
        return jnp.where(jnp.max(new) > 1e9, new, z)

    return jax.lax.fori_loop(0, 9, round_of, never), never


def _one_after_the_other(x: Any, y: Any) -> Any:
    """A second loop goes on with what the first has carried, and its end is asked for."""

    def first(_: Any, a: Any) -> Any:
        new = 0.5 * jnp.sin(a) * y + 0.4 * a
        return jnp.where(jnp.max(new) < 1e9, new, a)

    def second(_: Any, carry: Any) -> Any:
        a, b = carry
        new, other = jnp.cos(a) + 0.25 * b, jnp.tanh(b + a)
        better = jnp.max(new) < 1e9
        return jnp.where(better, new, a), jnp.where(jnp.max(other) < 1e9, other, b)

    a = jax.lax.fori_loop(0, 60, first, x)
    middle = jnp.cos(a) + y
    end, b = jax.lax.fori_loop(0, 50, second, (a, middle))
    return end, b, end * b + jnp.sum(end), jnp.max(a)


def _overwritten(x: Any, y: Any) -> Any:
    """An entry of the new array is overwritten after the choice was made."""

    def round_of(k: Any, carry: Any) -> Any:
        a, total, entry = carry
        new = 0.9 * jnp.sin(a) + y
        chosen = jnp.where(jnp.max(new) < 6 + 1e-3 * total - 2.0 * (k % 3), new, a)
        last = jax.lax.dynamic_update_slice(new, jnp.full((3, 1), total + k), (0, k))
        return chosen, total + 1e-4 * jnp.sum(last * last), entry + last[0, 3]

    return jax.lax.fori_loop(0, min(60, x.shape[1]), round_of, (x, 0.0, 0.0))


@pytest.mark.parametrize("n", [7, 800, 1003])
@pytest.mark.parametrize("f", [_carried, _swapped, _stays, _one_after_the_other, _overwritten])
def test_carried_arrays_change_places(f: Any, n: int) -> None:
    """Whichever is chosen, and however often."""
    x, y = np.random.default_rng(n).normal(size=(2, 3, n))
    found, made, _ = _compiled(f, x, y)
    for one, other in zip(found, jax.tree.leaves(jax.jit(f)(x, y)), strict=True):
        np.testing.assert_allclose(one.reshape(other.shape), other, rtol=1e-12, atol=1e-13)
    loops = [node.data for node in made.main.code if node.op == "while"]
    exchanged = [pair for loop in loops for pair in loop.exchanged]
    if n > 100 and f in (_carried, _one_after_the_other):
        assert any(pair.when is not None for pair in exchanged)
    assert n > 100 or not exchanged


def _inverted(x: Any, y: Any) -> Any:
    """A matrix that follows from what goes in, inverted before a total is known and used after."""
    size = 2 + x[0] ** 2
    inverse = jnp.stack([1 / size, x[1] / size, jnp.sqrt(size)])
    turned = jnp.sin(y) * inverse
    between = _shifted(turned[:, 1:] - turned[:, :-1], 0, 1)
    return between * jnp.max(jnp.abs(turned)) + inverse, jnp.sum(inverse * turned)


def _shared(x: Any, y: Any) -> Any:
    """What is read at other places than its own has to be written all the same."""
    size = 1 / (2 + x**2)
    apart = size[:, 1:] - size[:, :-1] + y[:, 1:]
    return apart * jnp.max(jnp.abs(apart)) * size[:, :-1]


@pytest.mark.parametrize("n", [800, 1003])
@pytest.mark.parametrize("f", [_inverted, _shared, _twice, _kept, _rows, _carried])
def test_what_follows_from_inputs_is_found_again(
    f: Any, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then not written at all; the numbers are the same to the last digit."""
    x, y = np.random.default_rng(n).normal(size=(2, 3, n))
    wanted, before, _ = _compiled(f, x, y)
    monkeypatch.setattr(strip_writer, "_PAST_CACHE", 0)
    found, made, _ = _compiled(f, x, y)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    numbers = [
        sum(b.size for b in m.buffers if b.place == "scratch" and b in _written(m.main))
        for m in (before, made)
    ]
    assert (numbers[1] < numbers[0]) == (f is _inverted)


def _written(block: Block) -> set[Any]:
    """The arrays that anything in a block writes."""
    out = set()
    for node in block.code:
        out |= touched(node)[1]
        for inner in blocks_in(node):
            out |= _written(inner)
    return out
