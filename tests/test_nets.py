"""Nets of beams: crossings that fixed joints hold are one node of the elimination, and its work is
that of a plane graph."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import native
from holonax.compiler.program import written
from holonax.integrator.kept import KeptFactor
from holonax.integrator.newmark import _unresolved
from holonax.integrator.newton import NewtonCounts
from holonax.integrator.stage import Stage
from holonax.linalg import BlockLU, eliminate, solve_many
from holonax.linalg.complex_pairs import Pair, in_pairs
from holonax.run import driver
from test_step_solver import LEVELS, context_at

SPACING = 0.1


@cache
def net(n, joint="fixed"):
    """n beams across n others, joined at all crossings, the corners held."""
    model = hx.Model()
    section = hx.Section.circle(0.02, E=2e9, G=8e8, density=1500.0)
    far = (n - 1) * SPACING
    for k in range(n):
        at = k * SPACING
        model.beam(f"x{k}", (0, at, 0), (far, at, 0), section=section, elements=n - 1)
        model.beam(f"y{k}", (at, 0, 0), (at, far, 0), section=section, elements=n - 1)
    for i in range(n):
        for j in range(n):
            ends = f"x{j}[{i}]", f"y{i}[{j}]"
            if joint == "fixed":
                model.fixed(f"knot{i},{j}", *ends)
            else:
                model.spherical(f"knot{i},{j}", *ends, at=(i * SPACING, j * SPACING, 0))
    for i, j in ((0, 0), (0, n - 1), (n - 1, 0), (n - 1, n - 1)):
        model.fixed(f"corner{i},{j}", "ground", f"x{j}[{i}]")
    return model.build()


@pytest.mark.parametrize("columns", [1, 4])
def test_many_systems_are_solved_side_by_side_with_exchanges(columns):
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(4, 4, 5)), rng.normal(size=(4, columns, 5))
    A[:, :, 0] = np.eye(4)[[1, 0, 3, 2]]  # no pivot on the diagonal
    got = np.asarray(solve_many(jnp.asarray(A), jnp.asarray(B)))
    for k in range(5):
        np.testing.assert_allclose(got[..., k], np.linalg.solve(A[..., k], B[..., k]), atol=1e-12)


def test_many_complex_systems_are_solved_by_pairs_of_real_numbers():
    """As Radau's method has them; pivots of any phase."""
    rng = np.random.default_rng(2)
    parts = rng.normal(size=(2, 4, 4, 3)), rng.normal(size=(2, 4, 1, 3))
    parts[0][:, :, :, 0] *= np.eye(4)[[1, 0, 3, 2]]
    A, B = (x[0] + 1j * x[1] for x in parts)
    found = in_pairs(solve_many)(*(Pair(*map(jnp.asarray, x)) for x in parts))
    got = np.asarray(found.re) + 1j * np.asarray(found.im)
    for k in range(3):
        np.testing.assert_allclose(got[..., k], np.linalg.solve(A[..., k], B[..., k]), atol=1e-12)


def planar_net_model(n, **options):
    """The same of bodies in the plane, with bushings along the lines."""
    model = hx.Model(gravity=(0.0, -9.81), **options)
    for i in range(n):
        for j in range(n):
            for kind in "xy":
                model.planar_body(f"{kind}{i},{j}", 1.0, 0.1, position=(i, j), angle=0.3 * i)
            model.fixed(f"knot{i},{j}", f"x{i},{j}", f"y{i},{j}", at=(i + 0.1, j))
    spring = {"stiffness": (1e3, 1e3, 10.0), "damping": (10.0, 10.0, 0.1)}
    for i in range(n):
        for j in range(n):
            if i:
                ends = f"x{i - 1},{j}", f"x{i},{j}"
                model.bushing(f"along{i},{j}", *ends, at=(i - 0.5, j), **spring)
            if j:
                ends = f"y{i},{j - 1}", f"y{i},{j}"
                model.bushing(f"up{i},{j}", *ends, at=(i, j - 0.5), **spring)
    return model


@cache
def planar_net(n):
    """It, with its start."""
    return planar_net_model(n).build()


@pytest.mark.parametrize(
    ("make", "level"),
    [(planar_net, "position")]
    + [pytest.param(planar_net, x, marks=pytest.mark.slow) for x in LEVELS if x != "position"]
    + [pytest.param(net, x, marks=pytest.mark.slow) for x in LEVELS],
)
def test_a_change_undoes_the_derivative_of_a_step_of_a_net(make, level):
    """With the multipliers of the joints that are taken away, which follow from the motion."""
    system, start = make(3)
    plan = system.bodies.tangent
    assert plan.welded and plan.together.n == 9
    context, y0 = context_at(system, start, LEVELS[level], 0.01)
    rng = np.random.default_rng(1)
    random = lambda x: jnp.asarray(rng.normal(size=x.shape))  # noqa: E731
    y0 = y0._replace(v=y0.v + random(y0.v))
    stage = Stage(context, jnp.asarray(0.01), y0, 0 * y0.v, y0.v, jnp.asarray(0.01))
    x, along = (y0.v + random(y0.v), y0.z), (random(y0.v), random(y0.z))

    @native
    def back(x, along):
        return stage.change(stage.factor(x), jax.jvp(stage.residual, (x,), (along,))[1])

    change, fine = back(x, along)
    assert fine
    for got, wanted in zip(change, along, strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-7 * np.max(np.abs(wanted)))


@pytest.mark.slow
@pytest.mark.parametrize("integrator", [hx.GeneralizedAlpha(0.8), hx.RadauIIA(2)])
def test_a_net_moves_as_it_does_without_welds(integrator):
    system, start = net(4)
    other = system.sturdier()
    assert system.bodies.tangent.welded and not other.bodies.tangent.welded
    method = {"formulation": hx.Index3(), "integrator": integrator, "dt": 1e-3}
    runs = [hx.simulate(x, start, 0.02, save="end", **method) for x in (system, other)]
    assert all(run.success for run in runs)
    np.testing.assert_allclose(runs[0].q[-1], runs[1].q[-1], atol=1e-9)
    scale = np.abs(runs[1].lam[-1]).max()
    np.testing.assert_allclose(runs[0].lam[-1], runs[1].lam[-1], atol=1e-5 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("joint", ["fixed", "spherical"])
def test_the_work_of_a_net_grows_as_that_of_a_plane_graph(joint):
    """In products of blocks. Nested dissection takes the power 3/2 of the number of nodes in the
    limit (George 1973); small nets are below it, and grow a little faster."""
    work = {}
    for n in (10, 20):
        plan = net(n, joint)[0].bodies.tangent.together
        assert (plan.welds is not None) == (joint == "fixed")
        work[n] = plan.solver.work
    assert np.log(work[20] / work[10]) / np.log(4) < 2.0
    if joint == "fixed":  # 10 n^3 is the limit of nested dissection (George 1973)
        assert all(work[n] < 10 * n**3 for n in work)


def test_clusters_are_eliminated_as_wholes_where_that_makes_fewer_products():
    """Crossings of a grid of lines, two nodes and a joint each."""
    n = 12
    node = lambda kind, i, j: kind * n * n + i * n + j  # noqa: E731
    grid = [(i, j) for i in range(n) for j in range(n)]
    edges, after = [], {}
    for i, j in grid:
        a, b, joint = (node(kind, i, j) for kind in range(3))
        edges += [(joint, a), (joint, b), (b, a)]
        after[joint] = {a, b}
        if i + 1 < n:
            edges.append((node(0, i + 1, j), a))
        if j + 1 < n:
            edges.append((node(1, i, j + 1), b))
    clusters = [[node(kind, i, j) for kind in range(3)] for i, j in grid]
    plain = eliminate(3 * n * n, np.array(edges), after)
    whole = eliminate(3 * n * n, np.array(edges), after, clusters)
    assert len(whole.row_update) <= len(plain.row_update)
    for joint, bodies in after.items():
        assert all(whole.position[b] < whole.position[joint] for b in bodies)


@pytest.mark.parametrize(
    ("b", "sense"),
    [(2, "as they are"), (3, "any"), (5, "reversed"), (6, "any"), (8, "any"), (12, "any")],
)
def test_a_plane_grid_of_blocks_is_factored_in_vectors(b, sense):
    """By the compiler's routines for products and sums of blocks, and by XLA, which has none of
    these, whichever way edges lead."""
    n = 4
    grid = [(i, j) for i in range(n) for j in range(n)]
    edges = [(n * (i + 1) + j, n * i + j) for i, j in grid if i + 1 < n]
    edges += [(n * i + j + 1, n * i + j) for i, j in grid if j + 1 < n]
    rng = np.random.default_rng(b)
    turned = {"any": rng.random(len(edges)) < 0.5, "reversed": True, "as they are": False}[sense]
    edges = np.where(np.broadcast_to(turned, len(edges))[:, None], np.array(edges)[:, ::-1], edges)
    plan = BlockLU.plan(n * n, edges, b)
    assert plan.fill > 0
    diagonal = rng.normal(size=(b, b, n * n)) + 6 * b * np.eye(b)[:, :, None]
    forward, backward = rng.normal(size=(2, b, b, len(edges)))
    side = rng.normal(size=(b, n * n))
    whole = np.zeros((n * n, b, n * n, b))
    for k in range(n * n):
        whole[k, :, k] = diagonal[..., k]
    for k, (i, j) in enumerate(edges):
        whole[i, :, j], whole[j, :, i] = forward[..., k], backward[..., k]
    wanted = np.linalg.solve(whole.reshape(n * n * b, -1), side.T.ravel()).reshape(-1, b).T

    def solved(plan, *blocks):
        return plan.solve(plan.factor(*blocks[:3]), blocks[3])

    for way in (native(solved), jax.jit(solved))[: 2 if b == 2 else 1]:
        got = way(plan, diagonal, forward, backward, side)
        np.testing.assert_allclose(got, wanted, atol=1e-13)
    traced = jax.make_jaxpr(solved)(plan, diagonal, forward, backward, side)
    for routine in ("block_updates", "block_columns", "block_rows"):
        called = f"call void @{routine}_{b}(" in written(traced)[0]
        assert called == (routine == "block_updates" or b <= 8)


# -- factors that are kept from step to step -----------------------------------------------------


def hard(t, length, speed):
    """A rope that is slack up to a length, and then as stiff as steel."""
    return -jnp.where(length > 1.3, 1e7 * (length - 1.3), 0.0)


@cache
def hung_net(solver="auto", rope=False, breaks=()):
    """A net of bodies that swings about one of its corners, caught by a rope if it has one."""
    n = 8
    model = planar_net_model(n, breaks=breaks)
    model.revolute("corner", "ground", "x0,0", at=(0.0, 0.0))
    if rope:
        ends = (n - 1.0, 1.0), (n - 1.0, 0.0)
        model.spring_damper("rope", "ground", f"x{n - 1},0", at=ends, actuator=hard)
    return model.build(solver=solver)


STEPS = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.8), "dt": 1e-2}


@pytest.mark.parametrize(
    ("rope", "breaks", "end"),
    [
        pytest.param(False, (), 1.0, id="swinging", marks=pytest.mark.slow),
        pytest.param(True, (), 0.35, id="caught"),
        pytest.param(False, (0.1,), 0.2, id="in two pieces"),
    ],
)
def test_kept_factors_take_the_steps_of_fresh_ones(rope, breaks, end):
    """Through a quarter of a turn; through the first blows of a rope, each of which makes the
    matrix another one at once, and rounding larger; and where time is counted in each piece between
    breaks."""
    runs = [hx.simulate(*hung_net(x, rope, breaks), end, **STEPS) for x in ("auto", "dense")]
    for run in runs:
        assert run.success, run.message
    np.testing.assert_allclose(runs[0].q, runs[1].q, atol=1e-8)
    made, fresh = (run.stats["factorizations"] for run in runs)
    assert 2 * made < fresh
    assert rope or breaks or 3 * made < runs[0].stats["steps"]


def test_a_run_with_kept_factors_goes_on_from_a_checkpoint_to_the_bit(tmp_path, monkeypatch):
    system, start = hung_net()
    whole = hx.simulate(system, start, 0.5, **STEPS)

    class Died(Exception):
        pass

    def die(progress):
        if progress.t > 0.2:
            raise Died

    monkeypatch.setattr(driver, "_REPORT", 0.0)
    monkeypatch.setattr(driver, "_SECONDS", 1e-9)  # segments of few steps
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 1e-9}
    with pytest.raises(Died):
        hx.simulate(system, start, 0.5, progress=die, **kept, **STEPS)
    found = hx.resume(tmp_path / "run", system=system)
    np.testing.assert_array_equal(found.q, whole.q)
    assert found.stats["factorizations"] == whole.stats["factorizations"]


def test_a_factor_is_kept_until_steps_take_more_work_than_with_a_new_one():
    """At a price of 6 iterations: with 2, 3, 4 and 5 of them, a step takes 8, 5.5, 5 and again 5 on
    average; the next step of 6 is more than that."""
    number = jnp.asarray
    kept = KeptFactor((), number(False), number(1.0), number(0), number(0))
    usable = []
    for k, iterations in enumerate((2, 3, 4, 5, 6)):
        counts = NewtonCounts(number(iterations), number(int(k == 0)))
        kept = kept.after(number(0.1), 6.0, ((), counts), number(True))
        usable.append(bool(kept.usable))
    assert usable == [True, True, True, True, False]
    assert int(kept.steps) == 5 and int(kept.iterations) == 20
    fresh = kept.after(number(0.1), 6.0, ((), NewtonCounts(number(2), number(1))), number(True))
    assert bool(fresh.usable) and int(fresh.steps) == 1
    assert bool(fresh.at(number(0.105)).usable) and not bool(fresh.at(number(0.12)).usable)
    failed = kept.after(number(0.1), 6.0, ((), NewtonCounts(number(2), number(1))), number(False))
    assert not bool(failed.usable)


# -- long cables ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cable_of_a_thousand_elements_takes_steps_of_the_motion():
    """Taut between two points and let go: the middle falls freely until the transverse wave, at
    sqrt(T / m) = 127 m/s, arrives. The slope of the first accelerations, the rounding of strains
    times EA damping / (m l), is not followed. A factor serves while changes shrink by it, so that
    there are fewer of these than iterations."""
    model = hx.Model()
    ends = (0.0, 0.0, 0.0), (40.0, 0.0, 0.0)
    model.cable("line", *ends, EA=5e6, mass=0.39, length=39.95, elements=1000, damping=0.02)
    model.spherical("left", "ground", "line.start", at=ends[0])
    model.spherical("right", "ground", "line.end", at=ends[1])
    method = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.8)}
    result = model.simulate(0.1, dt=5e-3, save="end", **method)
    assert result.success and result.stats["newton_iterations"] <= 6 * result.stats["steps"]
    assert result.stats["factorizations"] <= 2 * result.stats["steps"]
    middle = np.asarray(result["line(0.5)"].position)[-1]
    np.testing.assert_allclose(middle, (20.0, 0.0, -0.5 * 9.81 * 0.1**2), atol=1e-6)


def test_the_first_slope_is_followed_where_the_step_resolves_it():
    still, moving = np.zeros(3), np.array([0.0, 0.0, 1.0])
    for v, a, jerk, unresolved in (
        (moving, still, 90 * moving, False),  # a spring: omega h = 0.9
        (moving, still, 1e5 * moving, True),
        (still, 10 * moving, 900 * moving, False),
        (still, 10 * moving, 1e4 * moving, True),
        (still, 1e-12 * moving, moving, False),  # a load that begins at rest
        (still, still, moving, False),
    ):
        assert bool(_unresolved(0.01, v, a, jerk)) == unresolved
