"""The solver of the linear equations of implicit steps: its levels, its roads, and its cost."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import native
from holonax.integrator.radau import RadauIIA, _Stages
from holonax.integrator.stage import Stage
from holonax.linalg import Pair, in_pairs, lu, lu_solve
from holonax.problem import FullState, StepContext
from holonax.run.auto import fastest_rates, linearised
from mechanisms import modal_chain, planar_modes, spherical_chain
from sections import in_part


@cache
def links(count, *, stiffness=0.0, solver="auto"):
    """A chain of planar links, with damped springs in its hinges if they have a stiffness."""
    model = hx.Model(gravity=(0.0, -9.81))
    previous = model.ground
    for i in range(count):
        body = model.planar_body(f"link{i}", hx.rod(0.5, mass=1.0), position=(0.5 * i + 0.25, 0))
        model.revolute(f"hinge{i}", previous, body, at=(0.5 * i, 0.0))
        if stiffness:
            model.torsion_spring(
                f"spring{i}", previous, body, stiffness=stiffness, damping=0.02 * stiffness
            )
        previous = body
    return model.build(solver=solver)


def context_at(system, start, formulation, h):
    """A step of length h from a state: its context, and the state."""
    t, q, v = jnp.zeros(()), jnp.asarray(start.q), jnp.asarray(start.v)
    context = StepContext(system, jnp.asarray(h), formulation)
    context = context._replace(carry=formulation.carry(context, t, (q, v), None))
    a, lam = formulation.accelerations(context, t, (q, v))
    z = formulation.algebraic_start(context, t, q, lam)
    return context, FullState(q, v, a, z, jnp.zeros(()))


SYSTEMS = {
    "links": lambda: links(3),
    "coupled links": lambda: links(3, stiffness=100.0),
    "balls": lambda: spherical_chain(2),
    "functions": hx.examples.slider_crank,
    "modes": lambda: modal_chain(2, "block"),
    "coupled modes": lambda: modal_chain(2, "block", coupled=True),
    "modes in the plane": lambda: planar_modes("block"),
}
LEVELS = {
    "position": hx.Index3(),
    "velocity": hx.Index2(),
    "both": hx.GGL(),
    "acceleration": hx.Index1(),
}


@pytest.mark.parametrize("ending", [False, True], ids=["at the stage", "at the end"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "name", in_part(SYSTEMS, {"links", "balls", "modes", "coupled modes", "modes in the plane"})
)
def test_a_change_undoes_the_derivative_of_a_stage(name, level, ending):
    """At all levels, constraints at the stage or at twice its way, as in the midpoint rule; the
    multipliers mu are zero, as they are but for errors."""
    if ending and level == "acceleration":
        pytest.skip("constraints of acceleration level are those of the stage")
    system, start = SYSTEMS[name]()
    context, y0 = context_at(system, start, LEVELS[level], 0.01)
    rng = np.random.default_rng(1)
    random = lambda x: jnp.asarray(rng.normal(size=x.shape))  # noqa: E731
    y0 = y0._replace(v=y0.v + random(y0.v))
    end = (jnp.asarray(0.02), 2.0) if ending else None
    stage = Stage(context, jnp.asarray(0.01), y0, 0 * y0.v, y0.v, jnp.asarray(0.01), end)
    x = (y0.v + random(y0.v), y0.z)
    along = (random(y0.v), random(y0.z))

    @native
    def back(x, along):
        return stage.change(stage.factor(x), jax.jvp(stage.residual, (x,), (along,))[1])

    change, fine = back(x, along)
    assert fine
    for got, wanted in zip(change, along, strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-7 * np.max(np.abs(wanted)))


@pytest.mark.parametrize("stages", in_part([2, 3], {"2"}))
@pytest.mark.parametrize("level", LEVELS)
def test_stages_come_apart_into_real_and_complex_equations(level, stages):
    """With one matrix for all stages: what the transformation finds solves the linear equations of
    all of them at once."""
    system, start = SYSTEMS["coupled links"]()
    context, y0 = context_at(system, start, LEVELS[level], 0.01)
    equations = _Stages(context, jnp.zeros(()), jnp.asarray(0.01), y0, *RadauIIA(stages)._tableau())
    same = lambda x: jnp.tile(x, (stages, 1))  # noqa: E731
    x = (same(y0.v), same(y0.z))  # from rest: the stages are one state, and the matrix exact
    rng = np.random.default_rng(2)
    along = tuple(jnp.asarray(rng.normal(size=y.shape)) for y in x)

    @native
    def back(x, along):
        value = jax.jvp(equations.residual, (x,), (along,))[1]
        return equations.change(equations.factor(x), value)

    for got, wanted in zip(back(x, along), along, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-8 * np.max(np.abs(wanted)))


@pytest.mark.slow
def test_complex_arithmetic_in_pairs_is_that_of_complex_numbers():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(5, 5)) + 1j * rng.normal(size=(5, 5)) + 4 * np.eye(5)
    b = rng.normal(size=5) + 1j * rng.normal(size=5)

    def solved(A, b, pivot):
        x = lu_solve(lu(A, pivot=pivot), b)
        return jax.lax.fori_loop(0, 3, lambda i, y: y * y / (1 + x) - 2.0 * y, x), jnp.sum(x.real)

    for pivot in (False, True):
        pairs = in_pairs(lambda A, b, pivot=pivot: solved(A, b, pivot))
        got, total = pairs(Pair(A.real, A.imag), Pair(b.real, b.imag))
        x = y = np.linalg.solve(A, b)
        for _ in range(3):
            y = y * y / (1 + x) - 2.0 * y
        np.testing.assert_allclose(got.re + 1j * got.im, y, rtol=1e-11)
        np.testing.assert_allclose(total, x.real.sum(), rtol=1e-12)


def sizes(jaxpr):
    """Entries of all arrays that a program makes, those of its loops once."""
    total = 0
    for eqn in jaxpr.eqns:
        total += sum(int(np.prod(v.aval.shape)) for v in eqn.outvars)
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                total += sizes(inner) if hasattr(inner, "eqns") else 0
    return total


@pytest.mark.parametrize("coupled", [False, True], ids=["uncoupled", "coupled"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.slow
def test_a_newton_iteration_is_linear_in_the_size(level, coupled):
    """Arrays of the program that finds a change grow with the number of bodies, and the elimination
    makes no fill that grows faster."""
    made = []
    for count in (100, 200):
        system, start = links(count, stiffness=100.0 * coupled)
        context, y0 = context_at(system, start, LEVELS[level], 0.01)
        stage = Stage(context, jnp.zeros(()), y0, 0 * y0.v, y0.v, jnp.asarray(0.01))
        change = lambda x, stage=stage: stage.change(stage.factor(x), stage.residual(x))  # noqa: E731
        made.append(sizes(jax.make_jaxpr(change)((y0.v, y0.z)).jaxpr))
        assert system.bodies.tangent.together.solver.fill <= 2 * count  # bodies and joints
        assert system.bodies.tangent.schur.solver.fill == 0
    assert made[1] < 2.05 * made[0]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_with_a_body_that_has_modes_it_is_linear_in_the_others(level):
    """The border is that of the body with modes, whatever hangs on it; ordinary bodies are
    eliminated as they are without it."""
    made = []
    for count in (40, 80):
        system, start = modal_chain(count)
        solver = system.step_solver(LEVELS[level].step_level)
        context, y0 = context_at(system, start, LEVELS[level], 0.01)
        stage = Stage(context, jnp.zeros(()), y0, 0 * y0.v, y0.v, jnp.asarray(0.01))
        change = lambda x, stage=stage: stage.change(stage.factor(x), stage.residual(x))  # noqa: E731
        made.append(sizes(jax.make_jaxpr(change)((y0.v, y0.z)).jaxpr))
        graph = system.bodies.graph
        assert len(graph.near) == 5 + 3  # a revolute and a spherical joint
        assert graph.rigid.tangent.schur.solver.fill == 0 and solver.products <= 1.0
    assert made[1] < 2.05 * made[0]


@pytest.mark.slow
@pytest.mark.parametrize("coupled", [False, True], ids=["chain", "loop with springs"])
@pytest.mark.parametrize("metric", ["mass", "unit"])
def test_with_modes_accelerations_by_blocks_are_those_of_dense_matrices(metric, coupled):
    """To rounding: 1e-16 times the condition of the Schur complement, some 1e3."""
    (dense, start), (blocks, _) = (modal_chain(3, x, coupled=coupled) for x in ("dense", "block"))
    assert blocks.bodies.graph is not None and dense.bodies.graph is None
    rng = np.random.default_rng(4)
    q = np.asarray(start.q)
    force = rng.normal(size=np.shape(start.v))
    gamma = rng.normal(size=dense.constraint_rate(q, force, 0.0).shape)
    for shift in (0.0, 0.3):
        found = [x.factor(q, 0.0, metric=metric, shift=shift) for x in (dense, blocks)]
        pairs = zip(*(x.solve(force, gamma) for x in found), strict=True)
        for wanted, got in pairs:
            np.testing.assert_allclose(got, wanted, atol=1e-11 * np.max(np.abs(wanted)))


PAIRS = [
    (hx.Index3(), hx.BDF(2)),
    (hx.Index3(), hx.Rattle()),
    (hx.Index2(), hx.ImplicitMidpoint()),
    (hx.GGL(), hx.GeneralizedAlpha(0.8)),
    (hx.GGL(), hx.RadauIIA(3)),
    (hx.PostStabilized("both"), hx.BDF(2)),
    (hx.Index1(), hx.RadauIIA(2)),
]


@pytest.mark.parametrize(
    "stiffness",
    [pytest.param(0.0, id="uncoupled"), pytest.param(50.0, id="coupled", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "pair",
    in_part(
        PAIRS,
        {"GGL-RadauIIA", "Index1-RadauIIA", "Index3-BDF", "Index3-Rattle", "PostStabilized-BDF"}
        | {"GGL-GeneralizedAlpha"},
        [f"{type(f).__name__}-{type(i).__name__}" for f, i in PAIRS],
    ),
)
def test_three_roads_take_the_same_steps(pair, stiffness):
    formulation, integrator = pair
    options = {"formulation": formulation, "integrator": integrator, "dt": 1e-2, "save": "end"}
    ends = [
        hx.simulate(*links(2, stiffness=stiffness, solver=road), 0.1, **options)
        for road in ("auto", "block", "dense")
    ]
    for run in ends:
        assert run.success, run.message
        # Newton's method ends at a change of 1e-10
        np.testing.assert_allclose(run.q[-1], ends[0].q[-1], atol=1e-9)
        np.testing.assert_allclose(run.v[-1], ends[0].v[-1], atol=1e-8)


@pytest.mark.slow
def test_the_fastest_rates_of_a_large_system_are_those_of_its_matrix():
    system, start = links(40, stiffness=50.0)
    q, v = np.asarray(start.q), np.asarray(start.v)
    assert v.size > 100
    found = fastest_rates(system, 0.0, q, v)
    every = np.linalg.eigvals(linearised(system, 0.0, q, v))
    assert np.max(np.abs(found)) == pytest.approx(np.max(np.abs(every)), rel=1e-2)


@pytest.mark.parametrize("rtol", [1e-5, 1e-6])
def test_the_rounding_of_positions_is_no_failure_of_a_stiff_chain(rtol):
    """Bodies far from the origin on stiff hinges begin with steps of a microsecond: all that an
    iteration leaves is the rounding of positions, whose forces cancel."""
    model, previous = hx.Model(gravity=(0.0, -9.81)), "ground"
    for i in range(10):
        rod = model.planar_body(f"rod{i}", 1.0, 1 / 12, position=(i + 0.5, 0.0))
        model.revolute(f"hinge{i}", previous, rod, at=(float(i), 0.0))
        model.torsion_spring(f"spring{i}", previous, rod, stiffness=1e5, damping=1e3)
        previous = rod
    options = {"formulation": hx.GGL(), "integrator": hx.VariableBDF()}
    result = model.simulate(0.05, rtol=rtol, save="end", **options)
    assert result.success and result.stats["rejected"] < result.stats["steps"] / 4
