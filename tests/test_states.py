"""States of first order: integrals of controllers, currents, filters, in every formulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import holonax as hx

M, KP, KD, KI, G = 2.0, 30.0, 8.0, 20.0, 9.81
# x'' = (KP (1 - x) - KD x' + z) / M - G, z' = KI (1 - x), and 1 for what is constant
CLOSED = np.array(
    [
        [0.0, 1.0, 0.0, 0.0],
        [-KP / M, -KD / M, 1 / M, KP / M - G],
        [-KI, 0.0, 0.0, KI],
        [0.0, 0.0, 0.0, 0.0],
    ]
)


def lift(*, planar=True, **options):
    """A mass on a vertical rail, lifted to 1 m by a PID controller."""
    model = hx.Model()
    if planar:
        model.planar_body("cart", mass=M, inertia=1.0)
        model.prismatic("rail", "ground", "cart", at=(0.0, 0.0), axis=(0.0, 1.0))
    else:
        model.body("cart", mass=M, inertia=(1.0, 1.0, 1.0))
        model.prismatic("rail", "ground", "cart", at=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0))
    given = {"target": 1.0, "proportional": KP, "derivative": KD, "integral": KI, **options}
    model.motor("servo", "rail", **given)
    return model


def closed_form(t):
    return expm(CLOSED * t) @ np.array([0.0, 0.0, 0.0, 1.0])


# the error of each at this step, from its order and the third derivative of the solution
PAIRS = [
    (hx.PostStabilized(), hx.RK4(), 0.01, 2e-6),
    (hx.NullSpace(), hx.RK4(), 0.01, 2e-6),
    (hx.Index3(), hx.GeneralizedAlpha(), 0.002, 2e-4),
    pytest.param(hx.GGL(), hx.BDF(), 0.002, 2e-4, marks=pytest.mark.slow),
    pytest.param(hx.Index2(), hx.RadauIIA(), 0.02, 1e-6, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("formulation", "integrator", "dt", "error"), PAIRS, ids=lambda x: str(x))
def test_pid_controller_follows_the_closed_form(formulation, integrator, dt, error):
    run = lift().simulate(2.0, dt=dt, formulation=formulation, integrator=integrator)
    x, _, z, _ = closed_form(2.0)
    assert run.success
    assert abs(run.joint("rail").slide[-1] - x) < error
    assert abs(run.state("servo.integrated")[-1] - z) < 10 * error


def test_pid_controller_in_space_by_error():
    run = lift(planar=False).simulate(2.0, rtol=1e-9)
    x, rate, z, _ = closed_form(2.0)
    assert abs(run.joint("rail").slide[-1] - x) < 1e-7
    assert abs(run.joint("rail").slide_rate[-1] - rate) < 1e-7
    assert abs(run.state("servo.integrated")[-1] - z) < 1e-6


@pytest.mark.slow
def test_controlled_loop_at_rest_and_its_poles():
    system, start = lift().build()
    rest = hx.equilibrium(system, start)
    assert rest.success and rest.stable is None
    assert abs(rest["cart"].position[1] - 1.0) < 1e-9
    assert abs(rest.state("servo.integrated") - M * G) < 1e-8
    found = np.sort_complex(np.asarray(hx.linearize(system, rest).eigenvalues()))
    assert np.allclose(found, np.sort_complex(np.linalg.eigvals(CLOSED[:3, :3])), atol=1e-9)
    stays = hx.simulate(system, rest.start, 1.0, rtol=1e-8)
    assert np.ptp(stays.joint("rail").slide) < 1e-9


@pytest.mark.slow
def test_gradient_to_the_gains_of_a_controller():
    system, start = lift().build()
    place = system.quantity("rail.slide")

    def simulated(gains):
        names = {f"servo.{name}": x for name, x in gains.items()}
        run = hx.trajectory(
            system.with_parameters(names), start, [0.0, 1.0], dt=0.01, integrator=hx.RK4()
        )
        return place(1.0, run.q[-1], run.v[-1])

    def exact(gains):
        p, d, i = gains["proportional"], gains["derivative"], gains["integral"]
        rows = [[0, 1, 0, 0], [-p / M, -d / M, 1 / M, p / M - G], [-i, 0, 0, i], [0] * 4]
        matrix = jnp.stack([jnp.stack([jnp.asarray(x, float) for x in row]) for row in rows])
        return (jax.scipy.linalg.expm(matrix) @ jnp.array([0.0, 0.0, 0.0, 1.0]))[0]

    gains = {"proportional": KP, "derivative": KD, "integral": KI}
    found, wanted = jax.grad(simulated)(gains), jax.grad(exact)(gains)
    for name, x in wanted.items():
        assert abs(found[name] - x) < 1e-5 * abs(x) + 1e-8, name


def test_anti_windup_lets_go_of_the_integral_at_the_limit():
    limit, track, goal = 25.0, 0.3, 3.0
    given = {"limit": limit, "target": goal}
    run = lift(tracking_time=track, **given).simulate(4.0, rtol=1e-9)

    def rates(t, y):
        x, v, z = y
        wanted = KP * (goal - x) - KD * v + z
        given = np.clip(wanted, -limit, limit)
        return [v, given / M - G, KI * (goal - x) - (wanted - given) / track]

    exact = solve_ivp(rates, (0.0, 4.0), [0.0, 0.0, 0.0], rtol=1e-11, atol=1e-12)
    assert abs(run.joint("rail").slide[-1] - exact.y[0, -1]) < 1e-7
    assert abs(run.state("servo.integrated")[-1] - exact.y[2, -1]) < 1e-6
    assert np.max(np.abs(run.force("servo").force)) <= limit
    assert run.joint("rail").slide.max() < goal
    wound = lift(tracking_time=1e6, **given).simulate(4.0, rtol=1e-6)
    assert wound.joint("rail").slide.max() > goal + 1.0


def test_default_tracking_time_and_smooth_limits_reach_the_target():
    run = lift(limit=30.0, saturation="smooth").simulate(20.0, rtol=1e-6)
    assert abs(run.joint("rail").slide[-1] - 1.0) < 1e-4  # no leak of the integral below the limit


# -- motors --------------------------------------------------------------------------------------


def rotor(**options):
    model = hx.Model(gravity=(0.0, 0.0))
    model.planar_body("rotor", mass=1.0, inertia=0.02)
    model.revolute("axle", "ground", "rotor", at=(0.0, 0.0))
    model.motor("drive", "axle", constant=0.5, resistance=2.0, **options)
    return model


def test_current_of_a_dc_motor():
    J, k, R, L, U = 0.02, 0.5, 2.0, 0.05, 12.0
    run = rotor(command=U, inductance=L).simulate(0.3, rtol=1e-9)
    matrix = np.array([[0.0, k / J, 0.0], [-k / L, -R / L, U / L], [0.0, 0.0, 0.0]])
    w, i, _ = expm(matrix * 0.3) @ np.array([0.0, 0.0, 1.0])
    assert abs(run.joint("axle").rate[-1] - w) < 1e-6
    assert abs(run.state("drive.current")[-1] - i) < 1e-6
    assert run.quantities()["drive.current"] == "A"
    assert abs(run.force("drive").torque[-1] - k * i) < 1e-6


def test_dc_motor_without_inductance_has_no_state():
    J, k, R, U = 0.02, 0.5, 2.0, 12.0
    run = rotor(command=U).simulate(0.3, rtol=1e-9)
    w = U / k * (1 - np.exp(-k * k / (R * J) * 0.3))
    assert abs(run.joint("axle").rate[-1] - w) < 1e-6
    with pytest.raises(KeyError, match="no state"):
        run.state("drive.current")


# -- states of the user's ------------------------------------------------------------------------


def mass_with_filter():
    """A mass that falls freely, its speed filtered, and a force that the filtered speed gives."""
    model = hx.Model()
    model.planar_body("ball", mass=2.0, inertia=1.0)
    model.state(
        "slow",
        lambda z, ball, t, p: (ball.v.y - z) / p["lag"],
        start=0.5,
        bodies="ball",
        parameters={"lag": 0.2},
        unit="m/s",
    )
    model.custom_force("drag", ["slow", "ball"], lambda slow, ball, t: [((0.0, -3.0 * slow), 0.0)])
    return model


def filtered(t):
    matrix = np.array([[0.0, -1.5, -9.81], [5.0, -5.0, 0.0], [0.0, 0.0, 0.0]])
    return expm(matrix * t) @ np.array([0.0, 0.5, 1.0])


@pytest.mark.parametrize("options", [{"rtol": 1e-9}, {"dt": 0.01, "integrator": hx.RadauIIA()}])
def test_state_that_a_force_depends_on(options):
    run = mass_with_filter().simulate(1.0, **options)
    v, z, _ = filtered(1.0)
    assert abs(run["ball"].velocity[-1, 1] - v) < 1e-6
    assert abs(run.state("slow")[-1] - z) < 1e-6
    assert run.quantities()["slow"] == "m/s"


def oscillator(**options):
    model = hx.Model()
    model.planar_body("ball", mass=2.0, inertia=1.0)
    given = {"rate": ["x2", "-w * w * x1"], "start": [1.0, 0.0], "parameters": {"w": 3.0}}
    model.state("x", **{**given, **options})
    model.state("late", "(x1 - late) / 0.5 + ball.vx", bodies=["x", "ball"])
    model.output("sum", ["ball", "x", "late"], "x1 + late + ball.y")
    return model


def test_state_with_components_and_one_that_follows_it():
    run = oscillator().simulate(2.0, rtol=1e-9)
    x = run.state("x")
    assert x.shape == (run.t.size, 2)
    assert np.allclose(x[:, 0], np.cos(3.0 * run.t), atol=1e-6)
    assert np.allclose(run.quantity("x.2"), -3.0 * np.sin(3.0 * run.t), atol=1e-6)
    # z' = 2 (cos 3 t - z): its forced response less the transient
    wave = (4.0 * np.cos(3.0 * run.t) + 6.0 * np.sin(3.0 * run.t)) / 13.0
    late = wave - 4.0 / 13.0 * np.exp(-2.0 * run.t)
    assert np.allclose(run.state("late"), late, atol=1e-6)
    height = run.quantity("ball.y")
    assert np.allclose(run.quantity("sum"), x[:, 0] + late + height, atol=1e-6)


def test_functions_do_as_expressions():
    plain = oscillator().simulate(1.0, dt=0.01)
    by_function = oscillator(rate=lambda z, t, p: jnp.array([z[1], -(p["w"] ** 2) * z[0]]))
    assert np.allclose(by_function.simulate(1.0, dt=0.01).state("x"), plain.state("x"), atol=1e-14)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_states_in_files(tmp_path, suffix):
    for name, model in {"lift": lift(limit=40.0), "oscillator": oscillator()}.items():
        model.save(tmp_path / f"{name}{suffix}")
        again = hx.load(tmp_path / f"{name}{suffix}")
        assert again.to_dict() == model.to_dict()
        first, second = (x.simulate(0.2, dt=0.01) for x in (model, again))
        assert np.array_equal(first.v, second.v) and np.array_equal(first.q, second.q)


@pytest.mark.slow
def test_events_and_tables_know_states_by_name(tmp_path):
    model = oscillator()
    event = hx.Event("low", "x.1", direction="falling", level=0.5, terminal=True)
    run = model.simulate(2.0, rtol=1e-9, events=[event])
    assert abs(run.t[-1] - np.arccos(0.5) / 3.0) < 1e-7
    event = hx.Event("high", "late - 0.1", direction="rising", terminal=True)
    run = model.simulate(2.0, rtol=1e-9, events=[event])
    assert abs(run.state("late")[-1] - 0.1) < 1e-8
    assert list(run.to_dataframe("x", "late").columns)[-3:] == ["x.1", "x.2", "late"]
    with open(hx.io.write_table(run, tmp_path / "all.csv")) as file:
        heads = file.readline().strip().split(",")
    assert heads[-3:] == ["d ball.angle", "x.1", "x.2"] or {"x.1", "x.2", "late"} <= set(heads)
    assert not any(name.startswith(("late.", "d late", "x.1.", "d x")) for name in heads)


def test_state_is_no_body():
    """What has mass, energy, momentum, freedom or a place does not change with states."""
    model = hx.Model()
    model.planar_body("rod", hx.rod(1.0, mass=2.0), position=(0.5, 0.0))
    model.revolute("A", "ground", "rod", at=(0.0, 0.0))
    bare = hx.Model.from_dict(model.to_dict())
    model.state("turns", "rod.w", start=7.0, bodies="rod")
    run, alone = model.simulate(1.0, dt=0.01), bare.simulate(1.0, dt=0.01)
    assert np.array_equal(run["rod"].position, alone["rod"].position)
    assert np.allclose(run.energy.total, alone.energy.total, atol=1e-14)
    assert np.allclose(run.energy.balance, alone.energy.balance, atol=1e-14)
    for x, y in zip(run.momentum(), alone.momentum(), strict=True):
        assert np.allclose(x, y, atol=1e-14)
    assert np.allclose(run.state("turns"), 7.0 + run.joint("A").angle, atol=1e-6)
    (_, start), (_, other) = model.build(), bare.build()
    assert start.diagnosis == other.diagnosis
    assert not any(name.startswith("turns.") for name in run.quantities())
    with pytest.raises(KeyError, match="no body 'turns'"):
        run["turns"]
    poles = hx.linearize(*model.build()).eigenvalues()
    assert poles.shape == (3,)  # two of the pendulum, and one integrator


@pytest.mark.slow
def test_states_under_every_energy_method_and_with_contacts():
    """A passive state is the same whichever way the mechanism is solved."""
    model = hx.Model()
    model.planar_body("ball", mass=1.0, inertia=1.0, position=(0.0, 1.0))
    model.state("way", "ball.vy", start=1.0, bodies="ball")
    floor = hx.Event("floor", "ball.y", direction="falling", change=hx.Impact(0.5))
    run = model.simulate(2.0, rtol=1e-8, events=[floor])
    assert run.success
    assert np.allclose(run.state("way"), run["ball"].position[:, 1], atol=1e-6)


def test_many_runs_with_states():
    system, start = lift().build()
    gains = {"servo.integral": np.array([10.0, 20.0, 40.0])}
    runs = hx.ensemble(system, start, t_end=1.0, dt=0.01, parameters=gains)
    one = hx.simulate(system, start, 1.0, dt=0.01, formulation=hx.PostStabilized())
    assert np.allclose(runs.v[1], one.v[-1], atol=1e-6)
    assert np.ptp(runs.v[:, 1]) > 1.0


MISTAKES = {
    "one number": lambda m: m.state("z", lambda z, t: jnp.zeros(2)),
    "2 numbers": lambda m: m.state("z", lambda z, t: 0.0, start=[0.0, 0.0]),
    "could not be evaluated": lambda m: m.state("z", lambda t: 0.0),
    "is not a function": lambda m: m.state("z", 3.0),
    "no components": lambda m: m.state("z", "1.0", start=[]),
    "start": lambda m: m.state("z", "1.0", start=np.nan),
    "there is no body 'other'": lambda m: m.state("z", "1.0", bodies="other"),
    "'y'": lambda m: m.state("z", "y + z"),
    "is a state and no body": lambda m: (
        m.state("z", "1.0"),
        m.force("f", "z", force=(1.0, 0.0)),
    ),
    "already taken": lambda m: (m.state("z", "1.0"), m.planar_body("z", mass=1.0, inertia=1.0)),
    "no potential": lambda m: (
        m.state("z", "1.0"),
        m.custom_force("f", ["ball", "z"], lambda b, z, t: [((z, 0.0), 0.0)], potential=abs),
    ),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    model = hx.Model()
    model.planar_body("ball", mass=1.0, inertia=1.0)
    with pytest.raises(hx.ModelError, match=message):
        MISTAKES[message](model)


def test_mistakes_with_motors_are_named():
    with pytest.raises(hx.ModelError, match="need a target"):
        lift(target=None, proportional=0.0, derivative=0.0)
    with pytest.raises(hx.ModelError, match="tracking_time"):
        lift(proportional=0.0, limit=20.0)
    with pytest.raises(hx.ModelError, match="integral= and limit="):
        lift(tracking_time=0.1)
    with pytest.raises(hx.ModelError, match="resistance is missing"):
        lift(constant=0.1)
    with pytest.raises(hx.ModelError, match="no_load_speed"):
        rotor(command=1.0, limit=3.0, no_load_speed=3.0)
