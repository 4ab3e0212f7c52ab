"""Newton's matrix of an implicit step by blocks, against differentiation of the equations."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.system.tangent import StepWeights
from mechanisms import spherical_chain


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
    weights = StepWeights(reach, ratio, jnp.asarray(h), d)
    factor = lambda augment: system.newton_factor(  # noqa: E731
        system.retract(start.q, d), v0, t, lam, weights, augment
    )
    return jax.jit(lambda x: jax.jvp(equations, (at,), (x,))[1]), factor, (n, rows)


@pytest.mark.parametrize("augment", [None, 1.0], ids=["by itself", "augmented"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_solution_undoes_the_derivative(name, augment):
    derivative, factor, (n, rows) = matrix(name)
    rng = np.random.default_rng(4)
    x = (jnp.asarray(rng.normal(size=n)), jnp.asarray(rng.normal(size=rows)))
    back = jax.jit(lambda r: factor(augment).solve(*r))(derivative(x))
    # rounding, times the condition of the matrix: up to 1e4 for these
    for got, wanted in zip(back, x, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-9)
