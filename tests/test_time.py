"""Time: breaks and signals, late starts, drivers that jump, and tolerances of the right size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.run import driver
from holonax.system.signals import signals_in
from sections import in_part

# -- forces that act for a while ----------------------------------------------------------------


def pushed(force, **options):
    """A body of 1 kg at rest, without gravity."""
    model = hx.Model(gravity=(0.0, 0.0), **options)
    model.planar_body("body", 1.0, 1.0)
    model.force("push", "body", force=force)
    return model


def push(t):
    return jnp.where((t >= 5.0) & (t < 6.0), jnp.array([1.0, 0.0]), 0.0)


def push_from_the_left(t):
    """The same, with the other value at the breaks themselves."""
    return jnp.where((t > 5.0) & (t <= 6.0), jnp.array([1.0, 0.0]), 0.0)


def pushed_by(t):
    """Where 1 N from 5 s to 6 s brings it."""
    return np.where(t < 5, 0.0, np.where(t < 6, (t - 5) ** 2 / 2, t - 5.5))


def test_a_push_is_not_stepped_over():
    run = pushed(push).simulate(10.0)
    assert run.success
    assert run.q[-1, 0] == pytest.approx(4.5, rel=1e-4)
    assert run.stats["dt_max"] == 0.1
    assert "steps of 0.1 s at most" in str(run)


@pytest.mark.slow
def test_the_longest_step_is_limited_only_where_time_matters():
    slope = lambda t, frame: -frame.r.array()  # noqa: E731  a function of the state alone
    assert pushed(slope).simulate(1.0).stats["dt_max"] == np.inf
    assert pushed(hx.Pulse(0.5, 0.6, (1.0, 0.0))).simulate(1.0).stats["dt_max"] == np.inf
    mine = hx.StepControl(dt_max=float("inf"))
    assert pushed(push).simulate(1.0, rtol=1e-6, control=mine).stats["dt_max"] == np.inf
    system = hx.FunctionSystem(mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: -q)
    assert hx.simulate(system, ([1.0], [0.0]), 1.0, rtol=1e-6).stats["dt_max"] == np.inf
    timed = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: jnp.sin(t) * jnp.ones(1)
    )
    assert hx.simulate(timed, ([1.0], [0.0]), 1.0, rtol=1e-6).stats["dt_max"] == 0.01


@pytest.mark.parametrize("force", [push, push_from_the_left])
@pytest.mark.parametrize("where", ["run", "model"])
def test_with_its_breaks_a_push_is_exact(force, where):
    breaks = {"breaks": [5.0, 6.0]}
    model = pushed(force, **(breaks if where == "model" else {}))
    run = model.simulate(10.0, **(breaks if where == "run" else {}))
    assert run.q[-1, 0] == pytest.approx(4.5, abs=1e-13)
    assert run.stats["rejected"] == 0


PAIRS = [
    (None, hx.RK4()),
    (None, hx.AdamsBashforth(4)),
    (None, hx.AdamsMoulton(4)),
    (hx.GGL(), hx.BDF(3)),
    (hx.Index3(), hx.GeneralizedAlpha()),
    (hx.GGL(), hx.RadauIIA(3)),
]


@pytest.mark.parametrize(("formulation", "integrator"), PAIRS, ids=lambda x: type(x).__name__)
def test_equal_steps_hit_breaks_and_begin_anew(formulation, integrator):
    """The motion between breaks is a parabola, which all of these follow exactly. The pulse ends
    between two steps of the grid."""
    end = 6.013
    model = pushed(hx.Pulse(5.0, end, (1.0, 0.0)))
    run = model.simulate(10.0, dt=0.1, formulation=formulation, integrator=integrator)
    speed = end - 5.0
    assert run.q[-1, 0] == pytest.approx(speed**2 / 2 + speed * (10 - end), abs=1e-12)
    assert 5.0 in run.t
    assert end in run.t


def test_signals_announce_their_breaks():
    pulse = hx.Pulse(5.0, 6.0, (1.0, 0.0))
    run = pushed(pulse).simulate(10.0)
    assert run.q[-1, 0] == pytest.approx(4.5, abs=1e-12)
    # in sums, multiples, and functions of one's own
    for force in (0.5 * pulse + 0.5 * pulse, lambda t: 1.0 * pulse(t), pulse - hx.Step(9.0, 0.0)):
        system = pushed(force).system()
        assert {5.0, 6.0} <= set(system.time_breaks())
        assert pushed(force).simulate(10.0).q[-1, 0] == pytest.approx(4.5, abs=1e-12)


def test_signals_in_a_function_system():
    pulse = hx.Pulse(5.0, 6.0)
    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(1), force=lambda q, v, t, p: pulse(t) * jnp.ones(1)
    )
    run = hx.simulate(system, ([0.0], [0.0]), 10.0, rtol=1e-6)
    assert run.q[-1, 0] == pytest.approx(4.5, abs=1e-12)


def test_accelerations_and_work_on_both_sides_of_a_break():
    run = pushed(hx.Pulse(5.0, 6.0, (1.0, 0.0))).simulate(10.0)
    for at, sides in ((5.0, [0.0, 1.0]), (6.0, [1.0, 0.0])):
        assert run.a[run.t == at, 0].tolist() == sides
    assert np.max(np.abs(run.energy.balance)) < 1e-14
    times = np.linspace(0.0, 10.0, 301)
    assert run.at(times)[0][:, 0] == pytest.approx(pushed_by(times), abs=1e-13)


@pytest.mark.parametrize("options", [{"rtol": 1e-8}, {"dt": 0.07}])
def test_states_at_given_times_around_breaks(options):
    times = np.union1d(np.linspace(0.0, 10.0, 31), [4.999, 5.0, 5.001, 6.0])
    run = pushed(hx.Pulse(5.0, 6.0, (1.0, 0.0))).simulate(10.0, save=times, **options)
    assert run.t == pytest.approx(times, abs=0)
    assert run.q[:, 0] == pytest.approx(pushed_by(times), abs=1e-12)


def test_breaks_outside_the_run_are_no_matter():
    run = pushed(hx.Pulse(5.0, 6.0, (1.0, 0.0))).simulate(5.5, breaks=[-1.0, 0.0, 5.5, 7.0])
    assert run.success
    assert run.q[-1, 0] == pytest.approx(0.125, abs=1e-13)


def test_a_run_with_breaks_is_resumed_to_the_bit(tmp_path, monkeypatch):
    """Stopped between breaks, and those of the rest are still known."""
    monkeypatch.setattr(driver, "_REPORT", 0.0)
    model = pushed(hx.Pulse(5.0, 6.0, (1.0, 0.0)))
    whole = model.simulate(10.0, dt=1e-3, save="end")

    def stop(now):
        if now.t >= 5.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.simulate(
            10.0,
            dt=1e-3,
            save="end",
            checkpoint=tmp_path / "run",
            checkpoint_every=1e-6,
            progress=stop,
        )
    again = hx.resume(tmp_path / "run", system=model.build()[0])
    assert np.array_equal(again.q, whole.q)


def test_an_event_between_breaks():
    """x = (t - 5)^2 / 2 passes 1/8 at 5.5 s."""
    seen = hx.Event("there", lambda t, q, v: q[0] - 0.125, terminal=True)
    run = pushed(hx.Pulse(5.0, 6.0, (1.0, 0.0))).simulate(10.0, events=seen)
    assert run.t[-1] == pytest.approx(5.5, abs=1e-12)


# -- signals ------------------------------------------------------------------------------------


def test_tables():
    times, values = [0.0, 1.0, 3.0], np.array([[0.0, 1.0], [2.0, 1.0], [0.0, 0.0]])
    t = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0])
    linear = jax.vmap(hx.Table(times, values))(t)
    truth = np.stack([np.interp(t, times, column) for column in values.T], axis=1)
    assert linear == pytest.approx(truth)
    kept = jax.vmap(hx.Table(times, values[:, 0], "previous"))(t)
    assert kept.tolist() == [0.0, 0.0, 0.0, 2.0, 2.0, 0.0, 0.0]


def test_a_cubic_table_is_the_natural_spline():
    from scipy.interpolate import CubicSpline

    times, values = np.array([0.0, 0.7, 1.0, 2.5]), np.array([0.3, -1.0, 2.0, 0.5])
    table, spline = hx.Table(times, values, "cubic"), CubicSpline(times, values, bc_type="natural")
    t = np.linspace(0.0, 2.5, 40)[:-1]
    assert jax.vmap(table)(t) == pytest.approx(spline(t))
    assert jax.vmap(jax.grad(jax.grad(table)))(t) == pytest.approx(spline(t, 2), abs=1e-12)
    assert table.breaks == (0.0, 2.5)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hx.Pulse(2.0, 1.0), "Exchange"),
        (lambda: hx.Pulse(0.0, 1.0, float("nan")), "finite number"),
        (lambda: hx.Step("now"), "finite time"),
        (lambda: hx.Table([0.0, 0.0], [1.0, 2.0]), "must increase"),
        (lambda: hx.Table([0.0, 1.0], [1.0]), "do not go together"),
        (lambda: hx.Table([0.0, 1.0], [1.0, 2.0], "quadratic"), "is not known"),
        (lambda: hx.Pulse(0.0, 1.0) + "x", "finite number"),
        (lambda: hx.Model(breaks="soon"), "list of finite times"),
        (lambda: pushed(push).simulate(1.0, breaks=[float("inf")]), "list of finite times"),
        (lambda: pushed(push).simulate(1.0, breaks=[[1.0]]), "list of finite times"),
    ],
)
def test_bad_signals_and_breaks_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_signals_are_found_where_a_function_keeps_them():
    pulse = hx.Pulse(0.0, 1.0)

    def closed(t):
        return pulse(t)

    def default(t, p=pulse):
        return p(t)

    assert signals_in(closed) == signals_in(default) == signals_in(pulse) == [pulse]
    assert signals_in(push) == []


# -- drivers that jump --------------------------------------------------------------------------


def driven(angle, **options):
    """A hinged arm whose angle is prescribed."""
    model = hx.Model(**options)
    model.planar_body("arm", hx.rod(1.0, mass=1.0), position=(0.5, 0.0))
    model.revolute("hinge", "ground", "arm", at=(0.0, 0.0))
    model.drive_angle("motor", joint="hinge", angle=angle)
    return model


def jump(t):
    return jnp.where(t < 0.1, 0.0, 0.2)


def small_jump(t):
    return 10 * t + jnp.where(t < 0.1, 0.0, 1e-3)


def kink(t):
    return jnp.where(t < 0.1, 0.0, 3 * (t - 0.1))


# A cross section; every legal pair is among the slow tests.
FORMULATIONS = [
    (hx.Index1(), hx.RK4()),
    (hx.Baumgarte(10.0), hx.RK4()),
    (hx.PostStabilized(), hx.RK4()),
    (hx.CoordinateProjection(), hx.Euler()),
    (hx.NullSpace(), hx.RK4()),
    (hx.StaggeredPenalty(), hx.Midpoint()),
    (hx.GGL(), hx.BDF(3)),
    (hx.Index3(), hx.GeneralizedAlpha()),
    (hx.AlgebraicEnforcement(), hx.PredictorCorrector()),
]


def towed(motion):
    """A point that is led along x and hangs on a spring in y; few operations, quickly compiled."""
    return hx.FunctionSystem(
        mass=lambda q, p: jnp.ones(2),
        force=lambda q, v, t, p: jnp.array([-q[0], -50 * q[1] - 9.81]),
        constraint=lambda q, t, p: jnp.array([q[0] + 0.1 * jnp.sin(q[1]) - motion(t)]),
        constraint_names=["motor"],
    )


@pytest.mark.parametrize(
    "pair",
    in_part(
        FORMULATIONS,
        {"Index1", "Baumgarte", "CoordinateProjection", "NullSpace", "GGL"},
        [type(f).__name__ for f, _ in FORMULATIONS],
    ),
)
def test_a_driver_that_jumps_is_a_failure_by_name(pair):
    formulation, integrator = pair
    run = hx.simulate(
        towed(jump),
        ([0.0, 0.0], [0.0, 0.0]),
        0.3,
        dt=1e-3,
        formulation=formulation,
        integrator=integrator,
    )
    assert not run.success
    assert run.status == "constraint jump"
    assert "motor" in run.message
    assert run.t[-1] == pytest.approx(0.1, abs=1.1e-3)
    assert np.max(run.drift()[0]) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("method", hx.methods(), ids=str)
def test_a_driver_that_jumps_is_a_failure_for_every_pair(method):
    pair = {"formulation": method.formulation, "integrator": method.integrator}
    for motion in (jump, small_jump):
        run = hx.simulate(towed(motion), ([0.0, 0.0], [0.0, 0.0]), 0.3, dt=1e-3, **pair)
        assert (run.success, run.status) == (False, "constraint jump")
    smooth = towed(lambda t: 0.1 * jnp.sin(20 * t))
    run = hx.simulate(smooth, ([0.0, 0.0], [0.0, 0.0]), 0.3, dt=1e-3, **pair)
    assert run.success, run.message


@pytest.mark.parametrize("angle", in_part([jump, small_jump], {"jump"}, ["jump", "small_jump"]))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rtol": 1e-6, "formulation": hx.Index1()},
        {"rtol": 1e-6, "formulation": hx.GGL(), "integrator": hx.VariableBDF()},
        {"dt": 1e-3, "formulation": hx.Index1(), "integrator": hx.RK4()},
        {"dt": 1e-3, "breaks": [0.1]},
    ],
    ids=["auto", "Index1", "VariableBDF", "equal", "break"],
)
def test_neither_a_small_jump_nor_chosen_steps_hide_it(angle, options):
    method = {} if options.keys() & {"dt", "formulation"} else {"method": "auto"}
    run = hx.simulate(towed(angle), ([0.0, 0.0], [0.0, 0.0]), 0.3, **method, **options)
    assert (run.success, run.status) == (False, "constraint jump")
    assert "motor" in run.message


@pytest.mark.slow
def test_smooth_drivers_are_left_alone():
    """Also with half a radian of a sine in each step, and with accelerations that jump."""
    late = lambda t: jnp.where(t < 0.1, 0.0, 3 * (t - 0.1) ** 2)  # noqa: E731
    sine, fast = lambda t: jnp.sin(40 * t), lambda t: 1e4 * t
    for motion, dt in ((sine, 1.25e-2), (late, 1.3e-2), (fast, 1e-5)):
        for formulation in (hx.Index1(), hx.PostStabilized("both", passes=2)):
            run = hx.simulate(
                towed(motion), ([0.0, 0.0], [0.0, 0.0]), 0.3, dt=dt, formulation=formulation
            )
            assert run.success, run.message


@pytest.mark.parametrize(
    "options",
    in_part([{"dt": 1e-3, "integrator": hx.AdamsBashforth(4)}, {}], {"auto"}, ["Adams", "auto"]),
)
def test_a_motor_that_jumps_in_a_mechanism(options):
    run = driven(jump).simulate(0.3, **options)
    assert (run.success, run.status) == (False, "constraint jump")
    assert "motor" in run.message


@pytest.mark.slow
def test_a_velocity_that_jumps():
    """A method that holds nothing would never make it good; with a break it is an impulse."""
    index1 = {"dt": 1e-3, "formulation": hx.Index1(), "integrator": hx.RK4()}
    run = driven(kink).simulate(0.3, **index1)
    assert (run.status, "motor" in run.message) == ("constraint jump", True)
    assert "breaks=[0.1]" in run.message
    for options in (index1, {"dt": 1e-3}, {}):
        run = driven(kink).simulate(0.3, breaks=[0.1], **options)
        assert run.success, run.message
        assert run.q[-1, 2] == pytest.approx(0.6, abs=1e-12)


@pytest.mark.slow
def test_a_table_drives_with_kinks_and_a_spline_without():
    for kind in ("linear", "cubic"):
        table = hx.Table([0.0, 0.1, 0.2, 0.3], [0.0, 0.1, 0.3, 0.4], kind)
        run = driven(table).simulate(0.3)
        assert run.success, run.message
        assert run.at([0.2])[0][0, 2] == pytest.approx(0.3, abs=1e-9)


# -- late starts --------------------------------------------------------------------------------


def pendulum(length=1.0):
    model = hx.Model(gravity=(0.0, -9.81))
    model.planar_body("rod", hx.rod(length, mass=length**3), position=(length / 2, 0.0))
    model.revolute("hinge", "ground", "rod", at=(0.0, 0.0))
    return model


LATE = [
    pytest.param({"dt": 1e-6}, marks=pytest.mark.slow),
    {"dt": 1e-6, "integrator": hx.AdamsBashforth(4)},
    pytest.param(
        {"dt": 1e-6, "formulation": hx.Index3(), "integrator": hx.BDF(3)}, marks=pytest.mark.slow
    ),
    {"rtol": 1e-8},
    pytest.param(
        {"rtol": 1e-8, "formulation": hx.GGL(), "integrator": hx.VariableBDF()},
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize("options", LATE, ids=["RK4", "Adams", "BDF", "Dopri5", "VariableBDF"])
def test_a_run_from_the_present_in_unix_time(options):
    """Where times are 2.4e-7 s apart: to the bit the run from zero, states, energies and all."""
    t0 = 1.7e9
    late = pendulum().simulate(t0 + 1e-3, t=t0, **options)
    span = late.elapsed[-1]
    early = pendulum().simulate(span, **options)
    assert late.success
    assert span == pytest.approx(1e-3, abs=3e-7)
    assert late.t == pytest.approx(t0 + early.t, abs=0)
    assert np.array_equal(late.q, early.q)
    assert np.array_equal(late.elapsed, early.t)
    assert late.energy.work == pytest.approx(early.energy.work)


def test_steps_that_once_never_ended():
    late = pendulum().simulate(3e7 + 1.0, t=3e7, dt=1e-3)
    assert np.array_equal(late.q, pendulum().simulate(1.0, dt=1e-3).q)
    assert (late.stats["steps"], late.t[-1]) == (1000, 3e7 + 1.0)


@pytest.mark.slow
def test_events_saved_times_and_drivers_of_a_late_run():
    t0 = 1.7e9
    down = hx.Event("down", lambda t, q, v: q[0], direction="falling", terminal=True)
    late = pendulum().simulate(t0 + 3.0, t=t0, rtol=1e-10, events=down)
    early = pendulum().simulate(3.0, rtol=1e-10, events=down)
    assert late.elapsed[-1] == early.t[-1]
    times = np.linspace(0.0, 1.0, 11)
    late = pendulum().simulate(t0 + 1.0, t=t0, rtol=1e-10, save=t0 + times)
    early = pendulum().simulate(1.0, rtol=1e-10, save=(t0 + times) - t0)
    assert np.array_equal(late.q, early.q)
    assert np.array_equal(late.t, t0 + times)
    run = driven(lambda t: 3 * (t - t0)).simulate(t0 + 1.0, t=t0, dt=1e-3)
    assert run.success
    assert run.q[-1, 2] == pytest.approx(3.0, abs=1e-6)
    push = hx.Pulse(t0 + 5.0, t0 + 6.0, (1.0, 0.0))
    assert pushed(push).simulate(t0 + 10.0, t=t0).q[-1, 0] == pytest.approx(4.5, abs=1e-12)


def test_a_late_run_is_resumed_to_the_bit(tmp_path):
    t0, model = 1.7e9, pendulum()

    def stop(now):
        raise KeyboardInterrupt

    options = {"t": t0, "dt": 1e-5, "save": "end"}
    whole = model.simulate(t0 + 1.0, **options)
    with pytest.raises(KeyboardInterrupt):
        model.simulate(
            t0 + 1.0, checkpoint=tmp_path / "run", checkpoint_every=1e-6, progress=stop, **options
        )
    again = hx.resume(tmp_path / "run")
    assert np.array_equal(again.q, whole.q)
    assert np.array_equal(again.t, whole.t)


@pytest.mark.parametrize(
    ("t_end", "options", "said"),
    [(1e-320, {}, "too short"), (1.0, {"dt": 1e-300}, "more than can be counted")],
)
def test_runs_that_numbers_cannot_count_are_refused(t_end, options, said):
    with pytest.raises(ValueError, match=said):
        pendulum().simulate(t_end, **options)


def test_a_jax_of_32_bit_is_refused():
    system, start = pendulum().build()
    jax.config.update("jax_enable_x64", False)
    try:
        for ask in (lambda: pendulum().build(), lambda: hx.simulate(system, start, 1.0, dt=0.1)):
            with pytest.raises(RuntimeError, match="32 bit"):
                ask()
    finally:
        jax.config.update("jax_enable_x64", True)


# -- tolerances of the right size ---------------------------------------------------------------


def test_small_mechanisms_are_as_accurate_as_large_ones():
    """Times go with the root of the length; positions in lengths are the same."""
    truth = pendulum().simulate(3.0, rtol=1e-12).q[-1]
    for length in (1.0, 1e-3, 1e-7, 1e4):
        run = pendulum(length).simulate(3.0 * np.sqrt(length), rtol=1e-6)
        scaled = run.q[-1] / [length, length, 1.0]
        assert np.max(np.abs(scaled - truth)) < 1e-6
        assert run.stats["steps"] < 100


def test_the_tolerance_that_was_used_is_told():
    assert "atol = 1e-08 m, 1e-08 rad, 1e-08 m/s, 1e-08 rad/s" in str(pendulum().simulate(1.0))
    small = pendulum(1e-7).simulate(1e-4)
    assert "atol = 1e-15 m, 1e-08 rad, 1e-11 m/s, 0.0001 rad/s" in str(small)
    given = pendulum().simulate(1.0, rtol=1e-6, atol=1e-5)
    assert "atol = 1e-05 m, 1e-05 rad" in str(given)
    assert "tolerance" not in str(pendulum().simulate(0.1, dt=1e-2))


def test_sizes_of_coordinates_without_units():
    """A slider-crank of functions, all lengths of 1e-6 m: angles keep their tolerance."""
    scale = 1e-6

    def constraint(q, t, p):
        x, y = 0.3 * scale * jnp.cos(q[0]), 0.3 * scale * jnp.sin(q[0])
        return jnp.array([x - q[1], y - q[2]])

    system = hx.FunctionSystem(
        mass=lambda q, p: jnp.array([0.045 * scale**2, 1.0, 1.0]),
        force=lambda q, v, t, p: jnp.array([0.0, 0.0, -10.0]),
        constraint=constraint,
    )
    start = hx.consistent(system, [0.9, 0.2e-6, 0.2e-6], hold=[0])
    run = hx.simulate(system, start, 1e-4, rtol=1e-6)
    assert run.stats["atol"].startswith("1e-14 ... 1e-08")
