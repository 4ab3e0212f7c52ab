"""What decides the speed and can be counted: programs, their size, their calls, and fill."""

import re

import pytest

import holonax as hx
from holonax import loop
from mechanisms import slider_crank, spherical_chain

METHODS = {
    "RK4": (hx.PostStabilized("both", passes=2), hx.RK4()),
    "generalized-alpha": (hx.Index3(), hx.GeneralizedAlpha(0.9)),
}


def program(system, start, name, monkeypatch):
    """The time loop of a method as it is handed to the compiler."""
    calls = []
    original = loop.Program.advance

    def spied(self, *given):
        calls.append((self._parts.advance, self._arrays, given))
        return original(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Program, "advance", spied)
        formulation, integrator = METHODS[name]
        hx.simulate(
            system, start, 2e-3, dt=1e-3, formulation=formulation, integrator=integrator, save="end"
        )
    advance, arrays, given = calls[0]
    return advance.lower(arrays, *given).as_text()


@pytest.mark.parametrize("name", METHODS)
def test_the_loop_calls_nothing(name, monkeypatch):
    """Neither the host nor a library: either would leave the compiled loop at each step."""
    for system, start in (slider_crank(), spherical_chain(12)):
        text = program(system, start, name, monkeypatch)
        called = set(re.findall(r"stablehlo\.custom_call @(\w+)", text))
        # markers for the compiler, and what sorts nothing out at run time
        assert not {x for x in called if "callback" in x or "lapack" in x}, called


@pytest.mark.parametrize("name", METHODS)
def test_the_program_does_not_grow_with_the_mechanism(name, monkeypatch):
    sizes = []
    for n in (40, 80):
        text = program(*spherical_chain(n), name, monkeypatch)
        sizes.append(len(text.splitlines()))
    assert sizes[0] == sizes[1]


def test_changed_numbers_do_not_trace_again():
    system, start = slider_crank()
    run = lambda system, start, **options: hx.simulate(  # noqa: E731
        system, start, save="end", formulation=hx.Index3(), **options
    )
    run(system, start, t_end=0.01, dt=1e-3, integrator=hx.GeneralizedAlpha(0.9))
    before = dict(loop.traces)
    heavier = system.with_parameters(**{k: 1.1 * v for k, v in system.parameters.items()})
    for changed in (system, heavier):
        again = hx.consistent(changed, start.q, start.v)
        run(changed, again, t_end=0.02, dt=5e-4, integrator=hx.GeneralizedAlpha(0.7))
    assert loop.traces == before


def net(n):
    """n x n squares of rods on spherical joints, hung by one corner."""
    model = hx.Model(gravity=(0, 0, -9.81))
    rod = hx.box((1.0, 0.1, 0.1), mass=1.0)
    turned = ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    first = {(0, 0): model.ground}
    for i in range(n + 1):
        for j in range(n + 1):
            for across in (True, False):
                if (i if across else j) == n:
                    continue
                centre = (i + 0.5, j, 0) if across else (i, j + 0.5, 0)
                name = f"{'x' if across else 'y'}{i}-{j}"
                rotation = None if across else turned
                body = model.body(name, rod, position=centre, rotation=rotation)
                for end in ((i, j), (i + across, j + (not across))):
                    if end in first:
                        model.spherical(
                            f"{name} at {end[0]}-{end[1]}", first[end], body, at=(*end, 0)
                        )
                    else:
                        first[end] = body
    return model.system()


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda: spherical_chain(40)[0], 0),
        (lambda: hx.examples.n_four_bar(30)[0], 0),
        (lambda: net(5), 400),
    ],
    ids=["chain", "four-bars", "net"],
)
def test_fill_of_the_factor(make, most):
    """Chains and rows of loops have none; that of a net is what minimum degree leaves."""
    (bodies,) = make().sets
    assert bodies.tangent.schur.solver.fill <= most
    assert bodies.plans["all"].solver.fill <= most
