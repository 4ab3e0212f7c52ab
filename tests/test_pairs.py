"""Every legal pair of formulation and integrator has its declared orders and drift.

One parametrised test over pairs and mechanisms. By default a cross section runs: each formulation
with its own integrator, and each integrator with one formulation, on the slider-crank; the whole
product is marked slow.
"""

import math
from functools import cache, partial
from typing import ClassVar

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import holonax as hx
from holonax import examples
from holonax.formulation.dae import DaeFormulation
from sections import in_part


def two_links(road):
    """A planar double pendulum with a stiff spring, whose equations are solved by this road."""
    model = hx.Model(gravity=(0.0, -9.81))
    previous = model.ground
    for i in range(2):
        body = model.planar_body(f"link{i}", hx.rod(0.5, mass=1.0), position=(0.5 * i + 0.25, 0.0))
        model.revolute(f"hinge{i}", previous, body, at=(0.5 * i, 0.0))
        previous = body
    model.torsion_spring("spring", "link0", "link1", stiffness=20.0, damping=0.2)
    return model.build(solver=road)


ROADS = ("auto", "block", "dense")

# How each mechanism is made, its end time [s], and a step [s] at which methods of order 2 are in
# their asymptotic range.
MECHANISMS = {
    "slider_crank": (examples.slider_crank, 0.5, 0.5e-2),
    "double_pendulum": (examples.double_pendulum, 1.0, 1e-2),
    "two_link_arm": (lambda: examples.two_link_arm("II"), 0.5, 2e-3),
    "three_link_pendulum": (examples.three_link_pendulum, 0.4, 4e-3),
    "andrews": (examples.andrews, 0.005, 2e-5),
}
ROAD_MECHANISMS = {f"{road} links": (partial(two_links, road), 0.4, 4e-3) for road in ROADS}
METHODS = hx.methods()
QUANTITIES = ("q", "v", "lam", "g", "g'")
SAMPLES = 10  # errors are taken at this many times of a run
REFINEMENTS = 6


@cache
def problem(name):
    make, t_end, _ = (MECHANISMS | ROAD_MECHANISMS)[name]
    return *make(), t_end


@cache
def reference(name, soft=False):
    """An exact run; joints of `Penalty` give way, so it has a motion of its own."""
    _, t_end, dt = (MECHANISMS | ROAD_MECHANISMS)[name]
    formulation = hx.Penalty() if soft else hx.PostStabilized("both", passes=2)
    return run(problem(name), formulation, hx.Dop853(), math.ceil(8 * t_end / dt / SAMPLES))


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


def rms(x):
    """Root mean square over samples of the largest component, never small by a chance zero."""
    return np.sqrt(np.mean(np.max(np.abs(x), axis=1, initial=0.0) ** 2))


def errors(each, exact):
    """Errors of q, v and the multipliers at the samples, and the largest |g| and |g'|."""
    (result, at), (exact, exactly) = each, exact
    # Welch's multipliers belong to the middle of a step; the reference has many more steps.
    lam = CubicSpline(exact.t, exact.lam)(result.t_lam[at])
    return np.array(
        [
            rms(result.q[at] - exact.q[exactly]),
            rms(result.v[at] - exact.v[exactly]),
            rms(result.lam[at] - lam),
            *(x.max() for x in result.drift()),
        ]
    )


def rounding(exact):
    """What errors cannot be seen below: rounding of the reference and of Newton's iterations.

    Multipliers of index 3 are known to the tolerance of Newton's displacements by h^2, and |g'|
    after 10^4 steps has gathered that many roundings of v.
    """
    q, v, lam = (max(np.max(np.abs(x)), 1e-3) for x in (exact.q, exact.v, exact.lam))
    return np.array([1e-11 * q, 1e-11 * v, 1e-8 * lam, 1e-12 * max(q, 1.0), 1e-12 * max(v, 1.0)])


def check(method, name):
    exact = reference(name, soft=isinstance(method.formulation, hx.Penalty))
    declared = np.array([*method.orders, *method.drift])
    floor = rounding(exact[0])
    t_end, dt = (MECHANISMS | ROAD_MECHANISMS)[name][1:]
    h = dt * {1: 0.25, 2: 1.0, 3: 1.0, 4: 1.0, 5: 1.5}.get(method.orders[0], 3.0)
    if method.formulation.kind == "index3":  # rounding of its multipliers grows with h^-2
        h = 2 * h
    steps = max(round(t_end / SAMPLES / h), 2)
    history = []
    # Steps are halved until the error is asymptotic: the leading terms of some methods (Adams with
    # its small constants) are ruled by higher ones at large steps.
    for k in range(REFINEMENTS):
        each = run(problem(name), method.formulation, method.integrator, steps * 2**k)
        history.append(errors(each, exact))
        if k >= 2:
            observed = np.log2(history[-2] / np.maximum(history[-1], 1e-300))
            # Declared order within 0.15, or better, or nothing left to see but rounding.
            right = (observed > declared - 0.15) | (history[-1] < floor)
            if np.all(right):
                return
    wrong = [
        f"{quantity}: declared {order:g}, errors {np.array2string(np.array(e), precision=2)}"
        for quantity, order, e, ok in zip(
            QUANTITIES, declared, zip(*history, strict=True), right, strict=True
        )
        if not ok
    ]
    raise AssertionError(f"{label(method)} on {name}: " + "; ".join(wrong))


def cross_section():
    """Each formulation with its own integrator, each integrator with one formulation."""
    seen, out = set(), []
    for method in METHODS:
        own = method.formulation.default_integrator[0] == type(method.integrator).__name__
        new = type(method.integrator) not in seen
        if own or new:
            seen.add(type(method.integrator))
            out.append(method)
    return out


@pytest.mark.parametrize(
    "method",
    in_part(
        cross_section(),
        {"Overdetermined-RadauIIA", "ProjectedInvariants-RadauIIA"},
        map(label, cross_section()),
    ),
)
def test_declared_order_on_the_slider_crank(method):
    check(method, "slider_crank")


def solved_by_structure():
    """A method of each implicit integrator and level of constraints that the system's solver takes;
    all but one are slow."""
    quick = ("Index3-GeneralizedAlpha",)
    found = {}
    for method in METHODS:
        if method.integrator.solves_equations and method.formulation.step_level:
            found.setdefault((type(method.integrator), method.formulation.step_level), method)
    return [
        pytest.param(x, id=label(x), marks=() if label(x) in quick else pytest.mark.slow)
        for x in found.values()
    ]


@pytest.mark.parametrize("road", in_part(ROADS, {"auto", "dense"}))
@pytest.mark.parametrize("method", solved_by_structure())
def test_declared_order_on_every_road(method, road):
    check(method, f"{road} links")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MECHANISMS))
@pytest.mark.parametrize("method", METHODS, ids=label)
def test_declared_order_of_every_pair(method, name):
    check(method, name)


def by_formulation():
    """Each formulation with its own integrator; all but one of each kind are slow, and those with
    full derivatives of the residual, that take long to compile."""
    seen, out = {"dae"}, []
    for method in METHODS:
        formulation = method.formulation
        own = formulation.default_integrator[0] == type(method.integrator).__name__
        if own and not isinstance(formulation, hx.Penalty):
            marks = [pytest.mark.slow] if formulation.kind in seen else []
            seen.add(formulation.kind)
            out.append(pytest.param(method, marks=marks, id=label(method)))
    return out


@pytest.mark.parametrize("method", by_formulation())
def test_formulations_agree_on_andrews_to_the_tolerance_of_the_step(method):
    """Each is as far from the exact motion as its own two step sizes say, so all agree."""
    exact, exactly = reference("andrews")
    t_end, dt = MECHANISMS["andrews"][1:]
    steps = round(t_end / SAMPLES / dt)
    (coarse, at), (fine, twice) = (
        run(problem("andrews"), method.formulation, method.integrator, n)
        for n in (2 * steps, 4 * steps)
    )
    for name, p in zip(("q", "v"), method.orders, strict=False):
        value, half, right = getattr(coarse, name), getattr(fine, name), getattr(exact, name)
        estimate = rms(value[at] - half[twice]) * 2**p / (2**p - 1)
        floor = 1e-11 * np.max(np.abs(right))
        assert rms(value[at] - right[exactly]) < 1.5 * estimate + floor, name


def test_methods_lists_every_formulation_and_integrator():
    from holonax import formulation, integrator

    used = {type(m.formulation).__name__ for m in METHODS}
    assert used >= {n for n in formulation.__all__ if not n.endswith(("Formulation", "Context"))}
    used = {type(m.integrator).__name__ for m in METHODS}
    own_order = {"VariableAdams", "VariableBDF"}
    assert used >= {*integrator.__all__} - {"Integrator", "StabilizedSolver"} - own_order
    assert all(m.reference for m in METHODS)


def test_an_illegal_pair_names_legal_ones():
    system, start = examples.slider_crank()
    with pytest.raises(ValueError, match=r"RK4 cannot integrate GGL.*RadauIIA"):
        hx.simulate(system, start, 0.1, dt=1e-2, formulation=hx.GGL(), integrator=hx.RK4())


@pytest.mark.parametrize(
    ("integrator", "option"),
    [(hx.Newmark(), "gamma"), (hx.HHT(0.0), "alpha"), (hx.GeneralizedAlpha(1.0), "rho_inf")],
    ids=["Newmark", "HHT", "GeneralizedAlpha"],
)
def test_undamped_multipliers_are_refused(integrator, option):
    """On the two-link arm with its moving constraint they grow as the step shrinks."""
    system, start = examples.two_link_arm("II")
    with pytest.raises(ValueError, match=f"{option}.*does not damp.*Legal.*GeneralizedAlpha"):
        hx.simulate(system, start, 0.1, dt=1e-2, formulation=hx.Index3(), integrator=integrator)


def test_a_formulation_is_shown_as_one_would_make_it():
    assert repr(hx.Index3()) == "Index3('physical')"
    assert repr(hx.Index3(reference="norm")) == "Index3('physical', reference='norm')"
    assert repr(hx.Index3("none", condition=True)) == "Index3('none', condition=True)"


def test_a_formulation_of_the_user_may_have_structure_without_augmentation():
    """It says so with one property; rho of an augmented Lagrangian is for those that have one."""

    class Plain(DaeFormulation):
        kind: ClassVar[str] = "index3"
        reference: ClassVar[str] = "this test"
        step_level: ClassVar[str] = "position"  # pyright: ignore
        newton_scaling = hx.Index3.newton_scaling
        scaling: ClassVar[str] = "unit"
        length: ClassVar[float] = 1.0
        augment: ClassVar[float] = 0.0
        condition: ClassVar[bool] = False
        algebraic_scale = hx.Index3.algebraic_scale
        residual = hx.Index3.residual

    system, start = examples.slider_crank()
    options = {"dt": 1e-2, "integrator": hx.GeneralizedAlpha(0.8)}
    own = hx.simulate(system, start, 0.2, formulation=Plain(), **options)
    ours = hx.simulate(system, start, 0.2, formulation=hx.Index3("unit"), **options)
    assert own.success, own.message
    np.testing.assert_allclose(own.q, ours.q, atol=1e-13)
