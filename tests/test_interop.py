"""Our equations in the solvers of others, and systems from the symbols of others."""

import re
from pathlib import Path

import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import holonax as hx
from holonax import examples
from sections import in_part

END = 0.5


def pendulum():
    """A heavy rod that turns about a pin, a mechanism of one body in space."""
    model = hx.Model(gravity=(0.0, 0.0, -9.81))
    model.body("rod", hx.box((1.0, 0.1, 0.05), mass=2.0), position=(0.5, 0.0, 0.0))
    model.revolute("A", "ground", "rod", at=(0.0, 0.0, 0.0), axis=(0.0, 1.0, 0.0))
    return model.build()


@pytest.fixture(scope="module", params=[examples.slider_crank, pendulum])
def case(request):
    """A system, its start, and where it is after half a second."""
    system, start = request.param()
    run = hx.simulate(system, start, END, rtol=1e-11)
    return system, start, run.q[-1], run.v[-1]


def test_as_an_ode_in_scipy(case):
    system, start, q1, v1 = case
    ode = system.as_ode(start=start)
    for options in ({"method": "DOP853"}, {"method": "Radau", "jac": ode.jacobian}):
        found = solve_ivp(ode, (0.0, END), ode.y(start), rtol=1e-9, atol=1e-10, **options)
        q, v = ode.states(found.y.T)
        assert found.success
        assert np.max(np.abs(q[-1] - q1)) < 1e-6 and np.max(np.abs(v[-1] - v1)) < 1e-5


def test_as_an_ode_in_diffrax(case):
    system, start, q1, _ = case
    ode = system.as_ode(start=start)
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(ode.vector_field),
        diffrax.Dopri5(),
        0.0,
        END,
        1e-3,
        jnp.asarray(ode.y(start)),
        stepsize_controller=diffrax.PIDController(rtol=1e-9, atol=1e-10),
        max_steps=10_000,
    )
    assert np.max(np.abs(ode.states(found.ys[-1])[0] - q1)) < 1e-6


def test_baumgarte_keeps_what_drifts(case):
    """From a start off its joints by 1e-3, the feedback brings g to zero and Index 1 does not."""
    system, start, *_ = case
    drift = {}
    for alpha in (0.0, 30.0):
        ode = system.as_ode(start=start, alpha=alpha, beta=alpha)
        y = ode.y(start)
        y[1] += 1e-3
        end = solve_ivp(ode, (0.0, END), y, rtol=1e-9, atol=1e-12).y[:, -1]
        drift[alpha] = np.max(np.abs(system.constraint(ode.states(end)[0], END)))
    # (1 + a t) e^(-a t) of it is left of a double root
    assert drift[30.0] < 1e-4 * drift[0.0] / 0.5


@pytest.mark.parametrize("index", in_part([1, 2, 3, "GGL"], {"1", "2", "3"}))
def test_the_derivatives_of_a_dae(case, index):
    system, start, *_ = case
    dae = system.as_dae(index, start=start)
    y, yp = dae.start(start)
    assert y.size == yp.size == dae.size == dae(0.0, y, yp).size
    assert np.max(np.abs(dae(0.0, y, yp))) < 1e-9
    rng = np.random.default_rng(1)
    d, c, h = rng.normal(size=y.size), 7.0, 1e-6
    move = lambda s: dae(0.3, y + s * d, yp + s * c * d)  # noqa: E731
    expected = (move(h) - move(-h)) / (2 * h)
    found = dae.jacobian(0.3, y, yp, c) @ d
    assert np.max(np.abs(found - expected)) < 1e-7 * np.max(np.abs(expected))


@pytest.mark.parametrize("index", [1, "GGL"])
def test_as_a_dae_in_sundials(case, index):
    """IDA takes index 1; GGL's equations of index 2 without errors of the multipliers."""
    sundae = pytest.importorskip("sksundae")
    system, start, q1, _ = case
    dae = system.as_dae(index, start=start)

    def residual(t, y, yp, res):
        res[:] = dae(t, y, yp)

    solver = sundae.ida.IDA(
        residual, rtol=1e-8, atol=dae.absolute(1e-9), algebraic_idx=dae.algebraic
    )
    found = solver.solve(np.linspace(0.0, END, 5), *dae.start(start))
    assert found.success, found.message
    assert np.max(np.abs(dae.states(found.y)[0][-1] - q1)) < 1e-4


def test_as_a_dae_in_scipy_dae(case):
    package = pytest.importorskip("scipy_dae.integrate")
    system, start, q1, _ = case
    dae = system.as_dae("GGL", start=start)
    y, yp = dae.start(start)
    found = package.solve_dae(
        dae, (0.0, END), y, yp, method="Radau", rtol=1e-7, atol=dae.absolute(1e-8)
    )
    assert found.success
    assert np.max(np.abs(dae.states(found.y.T)[0][-1] - q1)) < 1e-5


def test_what_cannot_be_given_to_others():
    system, start = examples.slider_crank()
    with pytest.raises(ValueError, match=r"as_ode: .*FunctionSystem does not say.*start="):
        hx.FunctionSystem(mass=lambda q, p: jnp.ones(2), force=lambda q, v, t, p: q).as_ode()
    with pytest.raises(ValueError, match="as_dae: index=4"):
        system.as_dae(4, start=start)
    with pytest.raises(ValueError, match="as_ode: alpha"):
        system.as_ode(alpha=-1.0, start=start)


# -- symbols --------------------------------------------------------------------------------------

sympy = pytest.importorskip("sympy")
mechanics = pytest.importorskip("sympy.physics.mechanics")


def cart():
    """A pendulum on a cart on a spring, in SymPy's words: (coordinates, T, V, numbers)."""
    x, angle = mechanics.dynamicsymbols("x angle")
    M, m, length, g, k = sympy.symbols("M m l g k")
    t = mechanics.dynamicsymbols._t
    px, py = x + length * sympy.sin(angle), -length * sympy.cos(angle)
    kinetic = M * x.diff(t) ** 2 / 2 + m * (px.diff(t) ** 2 + py.diff(t) ** 2) / 2
    numbers = {M: 2.0, m: 1.0, length: 0.5, g: 9.81, k: 3.0}
    return [x, angle], kinetic, m * g * py + k * x**2 / 2, numbers


def test_lagranges_equations_are_those_of_sympy():
    q, kinetic, potential, numbers = cart()
    system = hx.from_sympy(q, kinetic, potential, parameters=numbers)
    first = np.array([0.1, 1.0, 0.3, -2.0])
    run = hx.simulate(system, hx.consistent(system, first[:2], first[2:]), 2.0, rtol=1e-10)
    method = mechanics.LagrangesMethod(kinetic - potential, q)
    method.form_lagranges_equations()
    rates = [x.diff(mechanics.dynamicsymbols._t) for x in q]
    f = sympy.lambdify([*q, *rates], method.rhs().subs(numbers))
    expected = solve_ivp(
        lambda t, y: f(*y).ravel(), (0.0, 2.0), first, method="DOP853", rtol=1e-11, atol=1e-12
    )
    assert np.max(np.abs(run.q[-1] - expected.y[:2, -1])) < 1e-8
    assert run.system.coordinate_names(2) == ["x", "angle"]
    energy = run.energy.total
    assert np.max(np.abs(energy - energy[0])) < 1e-8
    assert set(system.parameters()) == {"M", "m", "l", "g", "k"}


def test_constraints_loads_and_time_of_symbols():
    """A bead on a parabola that a force drives, against the one coordinate that is left."""
    x, y, u, w = sympy.symbols("x y u w")
    t, m = sympy.Symbol("t"), sympy.Symbol("m")
    system = hx.from_sympy(
        [x, y],
        m * (u**2 + w**2) / 2,
        9.81 * m * y,
        [y - x**2],
        velocities=[u, w],
        forces=[sympy.sin(3 * t) - 0.1 * u, 0],
        parameters={"m": 0.7},
    )
    run = hx.simulate(system, hx.consistent(system, [0.5, 0.25], [0.0, 0.0]), 1.0, rtol=1e-9)

    def reduced(t, s):
        x, u = s
        push = np.sin(3 * t) - 0.1 * u
        return [u, (push - 0.7 * (4 * x * u**2 + 9.81 * 2 * x)) / (0.7 * (1 + 4 * x**2))]

    expected = solve_ivp(reduced, (0.0, 1.0), [0.5, 0.0], rtol=1e-10, atol=1e-12).y[0, -1]
    assert abs(run.q[-1, 0] - expected) < 1e-7


def test_symbols_that_cannot_be_read():
    q, kinetic, potential, numbers = cart()
    x, t = q[0], mechanics.dynamicsymbols._t
    for words, change in (
        ("kinetic has M, l, m without a value", {"parameters": {}}),
        ("angle.*only first derivatives of the coordinates", {"q": [x]}),
        ("potential must not depend on velocities", {"potential": x.diff(t)}),
        ("no expression of SymPy", {"kinetic": "M*"}),
        ("1 forces for 2 coordinates", {"forces": [0]}),
        ("mass matrix depends on the time", {"kinetic": t * x.diff(t) ** 2}),
        ("give velocities=", {"q": list(sympy.symbols("x y"))}),
        ("q is empty", {"q": []}),
    ):
        given = {"q": q, "kinetic": kinetic, "potential": potential, "parameters": numbers} | change
        with pytest.raises((ValueError, TypeError), match=f"^from_sympy: .*{words}"):
            hx.from_sympy(**given)


def test_the_code_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parent.parent / "docs" / "interoperability.md"
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    assert names["found"].success and names["result"].success
    assert np.max(np.abs(names["F"])) < 1e-9
