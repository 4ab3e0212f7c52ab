"""Newton's matrix of an implicit step by blocks, against differentiation of the equations."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import native, store
from holonax.run import loop
from holonax.system import tangent_solvers
from holonax.system.step import StepPoint, StepWeights
from mechanisms import spherical_chain
from sections import in_part


def skate():
    """A block on a knife edge, tied to a second one by a damped spring."""
    model = hx.Model(gravity=(0.0, 0.0))
    first = model.planar_body("first", 2.0, 0.3)
    second = model.planar_body("second", 1.0, 0.1, position=(1.0, 0.5))
    model.knife_edge("edge", first, at=(0.1, 0.0), direction=(1.0, 0.0))
    model.spring_damper("spring", first, second, stiffness=50.0, damping=2.0)
    return model.build()


MECHANISMS = {
    "chain": lambda: spherical_chain(4),
    "chain by blocks": lambda: spherical_chain(12),
    "double pendulum": hx.examples.double_pendulum,
    "Andrews": lambda: hx.examples.andrews("cartesian"),
    "N four-bar": lambda: hx.examples.n_four_bar(3),
    "spatial slider-crank": hx.examples.spatial_slider_crank,
    "governor": hx.examples.flyball_governor,
    "heavy top": hx.examples.heavy_top,
    "skate": skate,
}


@cache
def matrix(name):
    """(system, factor of ways, derivative of the step's equations as a function)."""
    system, start = MECHANISMS[name]()
    rng = np.random.default_rng(3)
    n, rows = start.v.size, start.lam.size
    h, c = 0.01, 0.3
    reach, ratio = jnp.asarray(c * h * h), jnp.asarray(0.6 / (c * h))
    v0 = start.v + rng.normal(size=n)
    d = jnp.asarray(0.05 * rng.normal(size=n))
    lam, a = jnp.asarray(5 * rng.normal(size=rows)), jnp.asarray(rng.normal(size=n))
    t = jnp.asarray(0.1)
    m = system.constraint(start.q, t).size

    def equations(x):
        moved, lam = x
        v = v0 + ratio * (moved - d)
        q = system.retract(start.q, moved)
        motion = system.momentum(q, a + (moved - d) / reach) - system.force(q, v, t)
        motion = motion + system.constraint_force(q, t, lam / reach)
        rate = h * system.constraint_rate(q, v, t)[m:]
        return reach * motion, jnp.concatenate([system.constraint(q, t), rate])

    at = (d, reach * lam)
    point = StepPoint(system.retract(start.q, d), v0, t, a, lam)

    def solved(augment, motion, constraints):
        solver = system.step_solver("position", augment)
        factor = solver.prepare(point, StepWeights(reach, ratio, d))
        rates = constraints[m:] / (h * ratio)
        sides = motion, jnp.concatenate([constraints[:m], rates]), None
        return solver.solve(factor, *sides)[:2]

    return native(lambda x: jax.jvp(equations, (at,), (x,))[1]), solved, (n, rows)


SLOW = {"chain", "governor", "spatial slider-crank", "N four-bar"}


@pytest.mark.parametrize("augment", [None, 1.0], ids=["by itself", "augmented"])
@pytest.mark.parametrize("name", in_part(MECHANISMS, SLOW))
def test_solution_undoes_the_derivative(name, augment):
    derivative, solved, (n, rows) = matrix(name)
    rng = np.random.default_rng(4)
    x = (jnp.asarray(rng.normal(size=n)), jnp.asarray(rng.normal(size=rows)))
    back = native(lambda r: solved(augment, *r))(derivative(x))
    # rounding, times the condition of the matrix: up to 1e4 for these
    for got, wanted in zip(back, x, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-9)


def light_chain(mass):
    """Every third rod of a chain has another mass."""
    model = hx.Model(gravity=(0, 0, -9.81))
    previous = model.ground
    for i in range(5):
        rod = hx.box((1.0, 0.1, 0.1), mass=mass if i % 3 == 1 else 1.0)
        body = model.body(f"rod{i}", rod, position=(i + 0.5, 0, 0))
        model.spherical(f"ball{i}", previous, body, at=(i, 0, 0))
        previous = body
    return model.build()


OPTIONS = {"formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.8), "save": "end"}


@pytest.mark.slow
def test_light_bodies_are_eliminated_with_their_joints():
    system, start = light_chain(1e-10)
    assert not system.bodies.tangent.alone
    result = hx.simulate(system, start, 0.2, dt=1e-2, **OPTIONS)
    assert result.success and max(result.drift()[0]) < 1e-12
    # as good as massless: the motion of a chain with a light rod of another tiny mass
    other = hx.simulate(*light_chain(1e-9), 0.2, dt=1e-2, **OPTIONS)
    np.testing.assert_allclose(result.q[-1], other.q[-1], atol=1e-6)


@pytest.mark.slow
def test_a_solution_that_fails_its_check_is_found_another_way(monkeypatch):
    system, start = light_chain(0.5)
    assert system.bodies.tangent.alone
    wanted = hx.simulate(system, start, 0.1, dt=1e-2, **OPTIONS)
    solve = tangent_solvers.EachBody.solve

    def wrong(self, *given):
        return *(1.001 * x for x in solve(self, *given)[:2]), None

    monkeypatch.setattr(tangent_solvers.EachBody, "solve", wrong)
    monkeypatch.setattr(store, "folder", lambda: None)  # files know nothing of such a change
    spoilt, start = light_chain(0.5)
    jax.clear_caches()
    loop._compiled.cache_clear()
    result = hx.simulate(spoilt, start, 0.1, dt=1e-2, **OPTIONS)
    assert result.success and result.stats["solver_changes"] == 1
    np.testing.assert_allclose(result.q[-1], wanted.q[-1], atol=1e-10)
    loop._compiled.cache_clear()


@pytest.mark.slow  # in the plane: three roads of test_step_solver.py
@pytest.mark.parametrize("solver", ["block", "dense"])
def test_a_solver_can_be_asked_for(solver):
    build = lambda **options: spherical_chain(2, **options)  # noqa: E731
    runs = [
        hx.simulate(*build(**options), 0.1, dt=1e-2, **OPTIONS)
        for options in ({}, {"solver": solver})
    ]
    np.testing.assert_allclose(runs[0].q[-1], runs[1].q[-1], atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 10, 100])
def test_one_iteration_solves_a_step_however_long_the_chain(n):
    """Multipliers change by amounts that grow with the chain, but the equations are linear in
    them: what an iteration leaves is of the size of the displacements' change, here 1e-9, times
    theirs. A second one, which is made where unknowns are not scaled, finds nothing but
    rounding."""
    method = {"integrator": hx.GeneralizedAlpha(0.8), "save": "end", "dt": 1e-3}
    once, twice = (
        hx.simulate(*spherical_chain(n), 0.04, formulation=hx.Index3(scaling), **method)
        for scaling in ("physical", "none")
    )
    assert once.stats["newton_iterations"] <= 1.05 * once.stats["steps"]
    assert twice.stats["newton_iterations"] > 1.5 * twice.stats["steps"]
    np.testing.assert_allclose(once.q[-1], twice.q[-1], rtol=0, atol=1e-15 * n)
    # the rounding of positions, over the square of the step
    bound = 1e-4 * np.abs(twice.lam[-1]).max()
    np.testing.assert_allclose(once.lam[-1], twice.lam[-1], rtol=0, atol=bound)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", [hx.GeneralizedAlpha(0.8), hx.BDF(2)], ids=str)
def test_iterations_do_not_grow_with_the_chain(integrator):
    options = {"formulation": hx.Index3(), "integrator": integrator}
    run = hx.simulate(*spherical_chain(1000), 0.04, dt=1e-3, **options)
    assert run.success
    assert run.stats["newton_iterations"] <= 1.05 * run.stats["steps"]
