"""Every legal pair of formulation and integrator has its declared order and drift.

One parametrised test over pairs and mechanisms. By default a cross section runs: each formulation
with its own integrator, and each integrator with one formulation, on the slider-crank; the whole
product is marked slow.
"""

from functools import cache

import numpy as np
import pytest

import holonax as hx
from holonax import examples

# End time, coarse step for a method of order 2, and a scale of q for each mechanism. Steps of other
# orders follow from the error a method of that order makes.
MECHANISMS = {
    "slider_crank": (examples.slider_crank, 0.5, 0.5e-2),
    "double_pendulum": (examples.double_pendulum, 1.0, 1e-2),
    "two_link_arm": (lambda: examples.two_link_arm("II"), 0.5, 2e-3),
    "three_link_pendulum": (examples.three_link_pendulum, 0.4, 4e-3),
    "andrews": (examples.andrews, 0.005, 2e-5),
}
METHODS = hx.methods()
# Motions of these differ from the constrained one by their own parameters, not by the step.
SOFT = ("Penalty", "AugmentedLagrangian", "StaggeredPenalty")
# What the formulation leaves of |g| and |g'|: "zero" is rounding, a number the order of the drift.
DRIFT = {
    "CoordinateProjection": ("zero", "zero"),
    "CoordinatePartitioning": ("zero", "zero"),
    "NullSpace": ("zero", "zero"),
    "GGL": ("zero", "zero"),
    "Overdetermined": ("zero", "zero"),
    "Index2": (None, "zero"),
    "Index3": ("zero", None),
}


SAMPLES = 10  # errors are taken at this many times of a run


@cache
def mechanism(name):
    make, t_end, dt = MECHANISMS[name]
    system, start = make()
    reference = run(
        (system, start, t_end),
        hx.PostStabilized("both", passes=2),
        hx.Dop853(),
        int(np.ceil(8 * t_end / dt / SAMPLES)),
    )
    return (system, start, t_end), dt, reference


def run(problem, formulation, integrator, steps):
    """A run with `steps` steps between samples; saving all of them shares one program."""
    system, start, t_end = problem
    dt = t_end / SAMPLES / steps
    result = hx.simulate(
        system, start, t_end, dt=dt, formulation=formulation, integrator=integrator
    )
    assert result.success, result.message
    return result, slice(steps, None, steps)


def label(method):
    return f"{type(method.formulation).__name__}-{type(method.integrator).__name__}"


def coarse_step(dt, order):
    """A step at which a method of this order is in its asymptotic range and above rounding."""
    return dt * {1: 0.25, 2: 1.0, 3: 1.0, 4: 1.0, 5: 1.5}.get(order, 3.0)


def error_norms(run, reference):
    """Root mean squares over the samples, which no crossing of zero makes small by chance."""
    (result, at), (exact, exactly) = run, reference
    rms = lambda x: np.sqrt(np.mean(np.max(np.abs(x), axis=1) ** 2))  # noqa: E731
    return rms(result.q[at] - exact.q[exactly]), rms(result.v[at] - exact.v[exactly])


def check(method, name):
    problem, dt, reference = mechanism(name)
    orders = method.formulation.orders(method.integrator)
    h = coarse_step(dt, orders[0])
    steps = max(round(problem[2] / SAMPLES / h), 2)
    exact = reference[0]
    rounding = 1e-11 * np.array([np.max(np.abs(exact.q)), np.max(np.abs(exact.v))])
    errors = []
    # Steps are halved until the error is asymptotic: the leading terms of some methods (Adams with
    # its small constants) are ruled by higher ones at large steps.
    for k in range(6):
        each = run(problem, method.formulation, method.integrator, steps * 2**k)
        errors.append(error_norms(each, reference))
        if k >= 2:
            observed = np.log2(np.array(errors[-2]) / np.array(errors[-1]))
            # Declared order within 0.15, or better, or nothing left to see but rounding.
            enough = observed > np.array(orders[:2]) - 0.15
            if np.all(enough | (np.array(errors[-1]) < rounding)):
                break
    else:
        raise AssertionError((orders, errors))
    result = each[0]
    expected = DRIFT.get(type(method.formulation).__name__)
    if expected is not None:
        scale = np.max(np.abs(np.concatenate([result.q, result.v], axis=1)))
        for values, kind in zip(result.drift(), expected, strict=True):
            if kind == "zero":
                assert values.max() < 1e-12 * max(1.0, scale) * 10, values.max()


def cross_section():
    """Each formulation with its own integrator, each integrator with one formulation."""
    seen, out = set(), []
    for method in METHODS:
        own = type(method.formulation.default_integrator()) is type(method.integrator)
        new = type(method.integrator) not in seen
        if (own or new) and type(method.formulation).__name__ not in SOFT:
            seen.add(type(method.integrator))
            out.append(method)
    return out


@pytest.mark.parametrize("method", cross_section(), ids=label)
def test_declared_order_on_the_slider_crank(method):
    check(method, "slider_crank")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MECHANISMS))
@pytest.mark.parametrize(
    "method", [m for m in METHODS if type(m.formulation).__name__ not in SOFT], ids=label
)
def test_declared_order_of_every_pair(method, name):
    check(method, name)


def test_methods_lists_every_formulation_and_integrator():
    from holonax import formulation, integrator

    used = {type(m.formulation).__name__ for m in METHODS}
    assert used >= {n for n in formulation.__all__ if not n.endswith(("Formulation", "Context"))}
    used = {type(m.integrator).__name__ for m in METHODS}
    assert used >= {n for n in integrator.__all__ if n not in ("Integrator", "StabilizedSolver")}
    assert all(m.reference for m in METHODS)


def test_an_illegal_pair_names_legal_ones():
    system, start = examples.slider_crank()
    with pytest.raises(ValueError, match=r"RK4 cannot integrate GGL.*RadauIIA"):
        hx.simulate(system, start, 0.1, dt=1e-2, formulation=hx.GGL(), integrator=hx.RK4())
