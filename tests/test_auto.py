"""`method="auto"`: the cheaper of two methods, recognised on the way, with its reasons."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax import examples, study
from holonax.run import auto
from holonax.run.control import Tolerance
from holonax.run.driver import Outcome
from sections import in_part


def names(run):
    return [choice.method.rsplit(" ", 1)[1] for choice in run.choices]


def steps_with(run, integrator):
    """Steps that a method has taken, from the legs of the saved states."""
    legs = [k for k, leg in enumerate(run.legs) if isinstance(leg.integrator, integrator)]
    return int(np.sum(np.isin(run.leg, legs)))


def work(run):
    """The work of a run in explicit steps, an implicit one counting as many as it costs."""
    ratio = auto.cost_ratio(run.system, run.start)
    return steps_with(run, hx.Dopri5) + ratio * steps_with(run, hx.VariableBDF)


def same(run, other):
    """The same states, to the bit."""
    for name in ("t", "q", "v"):
        np.testing.assert_array_equal(getattr(run, name), getattr(other, name))


def test_a_motion_that_is_not_stiff_stays_explicit():
    system, start = examples.slider_crank()
    run = hx.simulate(system, start, 20.0, rtol=1e-7, method="auto")
    plain = hx.simulate(system, start, 20.0, rtol=1e-7)
    assert names(run) == ["Dopri5"]
    # looking does not touch the motion
    np.testing.assert_array_equal(run.q, plain.q)
    tight = hx.simulate(system, start, 2.0, rtol=1e-10, method="auto")
    assert names(tight) == ["Dop853"]


def test_a_stiff_motion_is_recognised():
    """Springs of 1e6 times the weight: the explicit method is held by stability, 2e-4 s, where the
    motion allows steps of 1e-2 s."""
    system, start = examples.stiff_double_pendulum()
    run = hx.simulate(system, start, 2.0, rtol=1e-6, method="auto")
    assert run.success
    assert names(run) == ["Dopri5", "VariableBDF", "VariableBDF"]
    assert "limit of stability" in run.choices[1].reason
    explicit = hx.simulate(system, start, 2.0, rtol=1e-6, save="end")
    assert run.stats["steps"] < explicit.stats["steps"] / 10
    exact = study.reference_solution(system, start, 2.0, 5e-5)
    # tolerance per step 1e-6, some hundred steps of order 5
    assert np.max(np.abs(run.q[-1] - exact.q[-1])) < 1e-4
    text = str(run)
    assert "chosen" in text and "VariableBDF" in text
    # the same choices, and the same bits, each time
    again = hx.simulate(system, start, 2.0, rtol=1e-6, method="auto")
    np.testing.assert_array_equal(run.q, again.q)


def test_it_costs_at_most_one_and_a_half_of_the_better_method():
    for make, t_end in ((examples.slider_crank, 20.0), (examples.stiff_double_pendulum, 2.0)):
        system, start = make()
        options = {"rtol": 1e-6, "save": "steps"}
        run = hx.simulate(system, start, t_end, method="auto", **options)
        explicit = hx.simulate(system, start, t_end, **options)
        implicit = hx.simulate(
            system, start, t_end, formulation=hx.GGL(), integrator=hx.VariableBDF(), **options
        )
        assert work(run) < 1.5 * min(work(explicit), work(implicit))


def test_a_short_run_is_left_to_the_method_it_began_with():
    """Stiff, but over before another method could earn what its start and compilation take."""
    system, start = examples.stiff_double_pendulum()
    run = hx.simulate(system, start, 0.2, rtol=1e-6, method="auto")
    assert names(run) == ["Dopri5"]
    same(run, hx.simulate(system, start, 0.2, rtol=1e-6))


@pytest.mark.parametrize("cheap", [False, True])
def test_steps_held_by_accuracy_are_no_reason_for_a_trial(monkeypatch, cheap):
    """Near the line where all links lie the linearised motion has fast rates for an instant; steps
    on the way are far longer than their limit. Nor is there a trial if it costs next to nothing."""
    if cheap:
        monkeypatch.setattr(auto, "_COMPILING", 0)
        monkeypatch.setattr(auto, "_STARTING", 0)
        monkeypatch.setattr(auto, "cost_ratio", lambda system, start: 3.0)
    system, start = examples.n_four_bar(8)
    run = hx.simulate(system, start, 20.0, rtol=1e-6, method="auto")
    assert names(run) == ["Dopri5"]
    assert run.stats["trial_steps"] == 0
    same(run, hx.simulate(system, start, 20.0, rtol=1e-6))


def dropped(monkeypatch):
    """The stiff double pendulum is tried whatever the motion promises, and does not keep it."""
    monkeypatch.setattr(auto, "implicit_step", lambda samples, tolerance: 1.0)
    monkeypatch.setattr(auto, "cost_ratio", lambda system, start: 80.0)
    monkeypatch.setattr(auto, "_COMPILING", 0)


def passing(t, q, v):
    return (t - 0.2) * (t - 0.25)


SAVED = [
    {"save": "steps"},
    {"save": 7},
    {"save": np.linspace(0.0, 1.0, 101)},
    {"save": "steps", "events": hx.Event("soon", passing)},
    {"save": "end", "events": hx.Event("kick", passing, change=lambda t, q, v: (q, 0.9 * v))},
]


@pytest.mark.parametrize(
    "options",
    in_part(SAVED, {"some", "events"}, ["steps", "some", "times", "events", "changes"]),
)
def test_a_trial_that_is_dropped_leaves_nothing_behind(monkeypatch, options):
    system, start = examples.stiff_double_pendulum()
    dropped(monkeypatch)
    plain = hx.simulate(system, start, 1.0, rtol=1e-6, **options)
    run = hx.simulate(system, start, 1.0, rtol=1e-6, method="auto", **options)
    assert run.success
    assert names(run)[:3] == ["Dopri5", "VariableBDF", "Dopri5"]
    assert "taken back" in run.choices[2].reason and run.choices[1].t == run.choices[2].t
    same(run, plain)
    assert [(e.name, e.t) for e in run.events] == [(e.name, e.t) for e in plain.events]
    assert len(run.legs) == len(plain.legs)
    # the work of a trial is counted, but not as that of the motion returned
    assert run.stats["trial_steps"] >= 40
    for name in ("steps", "rejected"):
        assert run.stats[name] == plain.stats[name]
    assert "newton_iterations" not in run.stats


def implicit_fails(outcome):
    """`follow`, where the implicit method ends with this outcome."""
    original = auto.follow

    def follow(run, formulation, integrator, **options):
        found = original(run, formulation, integrator, **options)
        return outcome(run) if isinstance(integrator, hx.VariableBDF) else found

    return follow


def test_a_trial_that_fails_leaves_nothing_behind(monkeypatch):
    system, start = examples.stiff_double_pendulum()
    failure = implicit_fails(lambda run: Outcome("failure", run.t, run.t, 3))
    monkeypatch.setattr(auto, "follow", failure)
    run = hx.simulate(system, start, 2.0, rtol=1e-6, method="auto")
    assert run.success and "fails" in run.choices[2].reason
    same(run, hx.simulate(system, start, 2.0, rtol=1e-6))


def test_a_run_interrupted_in_a_trial_goes_on_from_before_it(monkeypatch, tmp_path):
    system, start = examples.stiff_double_pendulum()
    times = np.linspace(0.0, 2.0, 201)
    options = {"rtol": 1e-6, "method": "auto", "save": times}
    whole = hx.simulate(system, start, 2.0, **options)
    with monkeypatch.context() as patch:
        patch.setattr(auto, "follow", implicit_fails(lambda run: Outcome("interrupt", run.t)))
        part = hx.simulate(system, start, 2.0, checkpoint=tmp_path / "run", **options)
    assert part.status == "interrupt" and names(part) == ["Dopri5"]
    assert part.t[-1] == pytest.approx(whole.choices[1].t)
    rest = hx.resume(tmp_path / "run", system=system)
    same(rest, whole)
    assert rest.choices == whole.choices and rest.stats["steps"] == whole.stats["steps"]


@pytest.mark.parametrize("look", [1, 4, 7, 8, 10])
def test_a_run_killed_before_a_look_goes_on_with_it(monkeypatch, tmp_path, look):
    system, start = examples.stiff_double_pendulum()
    options = {"rtol": 1e-6, "method": "auto"}
    whole = hx.simulate(system, start, 2.0, **options)
    original, looks = auto._look, []

    def killed(run, choice):
        looks.append(run.t)
        if len(looks) == look:
            raise MemoryError
        original(run, choice)

    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(auto, "_look", killed)
        with pytest.raises(MemoryError):
            hx.simulate(system, start, 2.0, checkpoint=path, checkpoint_every=1e-9, **options)
    rest = hx.resume(path, system=system)
    same(rest, whole)
    assert rest.choices == whole.choices and rest.stats["steps"] == whole.stats["steps"]


def test_no_time_is_lost_where_methods_change():
    """Dense output holds back some steps; they are handed on before another method goes on."""
    system, start = examples.stiff_double_pendulum()
    times = np.linspace(0.0, 2.0, 20001)
    run = hx.simulate(system, start, 2.0, rtol=1e-6, method="auto", save=times)
    assert "VariableBDF" in names(run)
    np.testing.assert_array_equal(run.t, times)
    exact = study.reference_solution(system, start, 2.0, 5e-5)
    assert np.max(np.abs(run.q[-1] - exact.q[-1])) < 1e-5


def fading(q, v, t, p):
    """A spring and damper that are stiff for two seconds and then soft."""
    k = jnp.where(t < 2.0, 1e8, 10.0)
    return jnp.array([-k * (q[0] - jnp.sin(t)) - 2e-2 * k * v[0], -q[1]])


def test_it_returns_to_the_explicit_method():
    system = hx.FunctionSystem(mass=lambda q, p: jnp.ones(2), force=fading)
    start = hx.consistent(system, [0.0, 1.0])
    soft = hx.Event("soft", lambda t, q, v: t - 2.0)  # where the force jumps
    run = hx.simulate(system, start, 60.0, rtol=1e-6, method="auto", events=soft)
    assert run.success
    assert names(run)[0] == "Dopri5" and "VariableBDF" in names(run) and names(run)[-1] == "Dopri5"
    assert "explicit method can take" in run.choices[-1].reason
    assert run.q[-1, 1] == pytest.approx(np.cos(60.0), abs=1e-3)
    # the work of a method that has given way counts
    assert run.stats["newton_iterations"] > 100


@pytest.mark.slow
def test_redundant_constraints_are_taken():
    system, start = examples.bricard()
    run = hx.simulate(system, start, 0.3, rtol=1e-6, method="auto", save="end")
    assert run.success and names(run) == ["Dopri5"]


def test_it_is_the_default_of_a_model():
    model = hx.Model(gravity=(0, -9.81))
    rod = model.planar_body("rod", 1.0, 1 / 12, position=(0.5, 0.0))
    model.revolute("pivot", model.ground, rod, at=(0, 0))
    run = model.simulate(1.0)
    assert run.success and names(run) == ["Dopri5"]
    assert model.simulate(0.1, dt=1e-2).choices == []


@pytest.mark.parametrize(
    "make",
    in_part(
        [examples.stiff_double_pendulum, examples.heavy_top],
        {"stiff_double_pendulum"},
        ["stiff_double_pendulum", "heavy_top"],
    ),
)
def test_rates_are_those_of_the_linearised_motion(make):
    """Difference quotients on the host against derivatives; with a rotation in space."""
    system, start = make()
    q, v = start.q, start.v + 0.1
    t, n = jnp.zeros(()), start.v.size

    def acceleration(step, v):
        return system.accelerations(system.retract(q, step), v, t)[0]

    exact = np.hstack(jax.jit(jax.jacfwd(acceleration, argnums=(0, 1)))(jnp.zeros(n), v))
    matrix = auto.linearised(system, 0.0, np.asarray(q), np.asarray(v))
    np.testing.assert_allclose(matrix[n:], exact, atol=1e-6 * np.max(np.abs(exact)))
    np.testing.assert_array_equal(matrix[:n], np.eye(2 * n)[n:])


def test_steps_of_the_implicit_method_are_foreseen():
    """From states of the explicit one, some steps apart: those that it takes then."""
    system, start = examples.stiff_double_pendulum()
    for rtol in (1e-4, 1e-6):
        explicit = hx.simulate(system, start, 2.0, rtol=rtol)
        implicit = hx.simulate(
            system, start, 2.0, rtol=rtol, formulation=hx.GGL(), integrator=hx.VariableBDF()
        )
        for k in (1000, 3000, 6000, 9000):
            at = np.arange(k - 6 * 19, k + 1, 19)
            states = explicit.t[at], at, explicit.q[at], explicit.v[at]
            samples = [auto.Sample(*state) for state in zip(*states)]
            found = auto.implicit_step(samples, Tolerance(rtol, rtol / 100))
            near = np.searchsorted(implicit.t, explicit.t[k])
            taken = np.mean(np.diff(implicit.t[near - 5 : near + 5]))
            assert taken / 2 < found < 2 * taken


def test_limit_of_stability():
    """On the negative real axis Dopri5 is stable to 3.3, and along the imaginary one to about 1."""
    assert auto.stable_step(np.array([-100.0]), hx.Dopri5()) == pytest.approx(3.3e-2, rel=0.05)
    assert 0.9e-2 < auto.stable_step(np.array([100.0j, -100.0j]), hx.Dopri5()) < 2e-2
    assert auto.stable_step(np.array([100.0, 0.0]), hx.Dopri5()) == np.inf


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "best"}, '"auto"'),
        ({"method": "auto", "integrator": hx.RK4()}, "Leave them out"),
        ({"method": "auto", "dt": 1e-3}, "Give rtol"),
    ],
)
def test_contradictions_are_refused(options, words):
    system, start = examples.slider_crank()
    with pytest.raises(ValueError, match=words):
        hx.simulate(system, start, 1.0, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stiff double pendulum", "modified Andrews"])
def test_implicit_methods_need_fewer_steps_by_the_factor_of_stability(name):
    """The stiff mechanisms of Haug, Negrut and Iancu (1997): an explicit method takes the steps
    that stability dictates, some 3.3 / |fastest rate|; an implicit one those of the motion."""
    make, t_end, longer = {
        "stiff double pendulum": (examples.stiff_double_pendulum, 2.0, 2.0),
        # the thousand explicit steps of the first 0.05 s are less work than implicit ones
        "modified Andrews": (
            lambda: examples.andrews("cartesian", stiffness=3e4, damping=1e5),
            0.05,
            0.5,
        ),
    }[name]
    system, start = make()
    bdf = {"formulation": hx.GGL(), "integrator": hx.VariableBDF(), "rtol": 1e-4}
    explicit = hx.simulate(system, start, t_end, rtol=1e-4)
    implicit = hx.simulate(system, start, t_end, **bdf)
    assert explicit.success and implicit.success
    matrix = auto.linearised(system, t_end, explicit.q[-1], explicit.v[-1])
    limit = auto.stable_step(np.linalg.eigvals(matrix), hx.Dopri5())
    # the rates grow along the motion of Andrews' mechanism, so its mean step is longer
    assert 0.4 < explicit.stats["steps"] / (t_end / limit) < 1.5
    assert implicit.stats["steps"] < explicit.stats["steps"] / 10
    chosen = hx.simulate(system, start, longer, rtol=1e-4, method="auto")
    assert chosen.success and "VariableBDF" in names(chosen)
    explicit = hx.simulate(system, start, longer, rtol=1e-4)
    implicit = hx.simulate(system, start, longer, **bdf)
    assert work(chosen) < 1.5 * min(work(explicit), work(implicit))
    # the tolerance holds through the change: as far off as the implicit method alone
    times = np.linspace(0.0, longer, 41)
    exact = hx.simulate(system, start, longer, rtol=1e-11, integrator=hx.Dop853(), save=times)
    off = [np.max(np.abs(run.at(times)[0] - exact.q)) for run in (chosen, implicit)]
    assert off[0] < 2 * off[1]


@pytest.mark.slow
@pytest.mark.parametrize("rtol", [1e-4, 1e-6])
def test_the_governor_is_as_exact_as_without_a_choice(rtol):
    """Its stiff springs hold the explicit method at the limit of stability, but implicit steps
    would not be longer by what they cost more."""
    system, start = examples.flyball_governor()
    run = hx.simulate(system, start, 2.0, rtol=rtol, method="auto")
    plain = hx.simulate(system, start, 2.0, rtol=rtol)
    exact = hx.simulate(system, start, 2.0, rtol=1e-11, integrator=hx.Dop853(), save="end")
    assert np.max(np.abs(run.q[-1] - exact.q[-1])) < 10 * rtol
    if names(run)[-1] == "Dopri5":
        same(run, plain)
