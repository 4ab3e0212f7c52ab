"""What decides the speed and can be counted: programs, their operations, their calls, and fill."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import counts
from holonax.run import loop
from mechanisms import slider_crank, spherical_chain
from sections import in_part

METHODS = {
    "RK4": (hx.PostStabilized("both", passes=2), hx.RK4()),
    "generalized-alpha": (hx.Index3(), hx.GeneralizedAlpha(0.9)),
}

# The most operations that the programs of a stage may have: a few more than they had when this was
# written. That many instructions are compiled, and executed in one step or for one state.
MOST = {
    "slider_crank": {
        "build": {"_several": 6400},
        "run": {"begin": 600, "advance": 1750},
        "at": {"_between": 8200},
        "equal steps": {"begin": 60, "advance": 1700},
    },
    "four_bar": {
        "build": {"_several": 10600},
        "run": {"begin": 1200, "advance": 3900},
        "at": {"_between": 1600},
        "equal steps": {"begin": 200, "advance": 3200},
    },
    "spatial_slider_crank": {
        "build": {"_several": 10300},
        "run": {"begin": 6600, "advance": 18400},
        "at": {"_between": 5600},
        "equal steps": {"begin": 330, "advance": 16700},
    },
    "flyball_governor": {
        "build": {"_several": 21700},
        "run": {"begin": 15600, "advance": 39000},
        "at": {"_between": 7100},
        "equal steps": {"begin": 650, "advance": 36800},
    },
}
NOTHING_NEW = ["look", "other numbers", "other equal steps"]


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What was counted in two processes, the second of which finds on disk what the first left."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(hx.__file__).resolve().parent.parent),
        "HOLONAX_CACHE": str(tmp_path_factory.mktemp("cache")),
    }
    program = Path(__file__).parent / "counted.py"
    return [
        json.loads(subprocess.check_output([sys.executable, program], env=environment))
        for _ in range(2)
    ]


@pytest.mark.parametrize("name", MOST)
def test_programs_and_their_operations(name, processes):
    """One program to build, two to run, none to look at results, one to look between steps."""
    for stage, counted in processes[0][name].items():
        most = MOST[name].get(stage, {})
        operations = dict(counted["programs"])
        assert list(operations) == list(most), stage
        assert len(counted["programs"]) == counted["traced"] == counted["compiled"], stage
        assert counted["left to XLA"] == 0, stage
        for program, bound in most.items():
            assert operations[program] <= bound, (stage, program)


@pytest.mark.parametrize("name", MOST)
def test_changed_numbers_and_looking_at_results_need_no_program(name, processes):
    """Nor one from disk: masses, lengths, tolerances, step sizes and end times are data."""
    for counted in processes:
        for stage in NOTHING_NEW:
            assert [counted[name][stage][x] for x in ("traced", "compiled", "read")] == [0, 0, 0]


@pytest.mark.parametrize("name", MOST)
def test_a_second_process_traces_nothing(name, processes):
    """Nor does it compile, or import what is only needed to trace."""
    for stage, counted in processes[1][name].items():
        assert counted["traced"] == counted["compiled"] == counted["left to XLA"] == 0, stage
        assert counted["read"] == len(processes[0][name][stage]["programs"]), stage
        assert not counted["diffrax"], stage


class Stopped(Exception):
    pass


def lowered(system, start, name, monkeypatch):
    """The time loop of a method as it would be handed to XLA."""
    begun = []

    def spied(self, *given):
        begun.append((self._parts, self._arrays, given))
        raise Stopped

    formulation, integrator = METHODS[name]
    with monkeypatch.context() as patched, pytest.raises(Stopped):
        patched.setattr(loop.CompiledLoop, "begin", spied)
        hx.simulate(
            system, start, 2e-3, dt=1e-3, formulation=formulation, integrator=integrator, save="end"
        )
    ((parts, arrays, (settings, *state)),) = begun
    first = jax.eval_shape(parts.begin.function, arrays, settings, *state)
    advance = jax.jit(parts.advance.function, static_argnums=(4, 5))
    text = advance.lower(arrays, settings, first, np.int64(2), 0, 0).as_text()
    assert "stablehlo.while" in text
    return text


@pytest.mark.parametrize("name", METHODS)
def test_the_loop_of_a_small_mechanism_is_compiled_here(name):
    left = len(counts.left_to_xla)
    formulation, integrator = METHODS[name]
    run = hx.simulate(
        *slider_crank(), 2e-3, dt=1e-3, formulation=formulation, integrator=integrator, save="end"
    )
    assert run.success
    assert counts.left_to_xla[left:] == []


@pytest.mark.parametrize("name", in_part(METHODS, {"generalized-alpha"}))
def test_the_loop_of_a_large_mechanism_calls_nothing(name, monkeypatch):
    """Neither the host nor a library: either would leave the loop at each step."""
    text = lowered(*spherical_chain(12), name, monkeypatch)
    called = set(re.findall(r"stablehlo\.custom_call @(\w+)", text))
    # markers for the compiler, and what sorts nothing out at run time
    assert not {x for x in called if "callback" in x or "lapack" in x}, called


@pytest.mark.parametrize("name", in_part(METHODS, {"RK4"}))
def test_the_program_does_not_grow_with_the_mechanism(name, monkeypatch):
    """That of a large one, which is left to XLA."""
    sizes = [len(lowered(*spherical_chain(n), name, monkeypatch).splitlines()) for n in (40, 80)]
    assert sizes[0] == sizes[1]


def test_changed_numbers_of_a_method_do_not_trace_again():
    system, start = slider_crank()
    run = lambda system, start, **options: hx.simulate(  # noqa: E731
        system, start, save="end", formulation=hx.Index3(), **options
    )
    run(system, start, t_end=0.01, dt=1e-3, integrator=hx.GeneralizedAlpha(0.9))
    before = counts.traced, counts.compiled, counts.read, dict(loop.traces)
    heavier = system.with_parameters(**{k: 1.1 * v for k, v in system.parameters().items()})
    for changed in (system, heavier):
        again = hx.consistent(changed, start.q, start.v)
        run(changed, again, t_end=0.02, dt=5e-4, integrator=hx.GeneralizedAlpha(0.7))
    assert (counts.traced, counts.compiled, counts.read, dict(loop.traces)) == before


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
    bodies = make().bodies
    assert bodies.tangent.schur.solver.fill <= most
    assert bodies.plans["all"].solver.fill <= most


# The most operations of the program of one run of an ensemble, from its assembly to its end.
# Of the second the first round of Newton's method is there twice, before its loop.
MOST_OF_MANY = {"RK4": 1800, "generalized-alpha": 2050}


@pytest.mark.parametrize("name", METHODS)
def test_an_ensemble_is_one_program_whatever_its_numbers(name):
    """Neither other parameters, ends, steps, numbers of runs nor threads need another one."""
    system, start = slider_crank()
    formulation, integrator = METHODS[name]
    method = {"formulation": formulation, "integrator": integrator}

    def run(runs, t_end, dt, threads):
        masses = {"m": np.linspace(0.9, 1.1, runs)}
        given = {"t_end": t_end, "dt": dt, "threads": threads, **method}
        return hx.ensemble(system, start, parameters=masses, **given)

    before = counts.traced, counts.compiled + counts.read, len(counts.left_to_xla)
    assert run(5, 0.01, 1e-3, 1).success.all()
    after = counts.traced, counts.compiled + counts.read, len(counts.left_to_xla)
    assert after[1] - before[1] <= 1 and after[0] - before[0] <= 1 and after[2] == before[2]
    if after[0] > before[0]:
        assert counts.programs[-1].operations <= MOST_OF_MANY[name]
    assert run(50, 0.02, 2e-3, 3).success.all()
    assert (counts.traced, counts.compiled + counts.read, len(counts.left_to_xla)) == after


def test_questions_about_many_bodies_are_compiled_once_and_reactions_balance():
    n, mass, gravity = 12, 0.2, np.array([0.0, 0.0, -9.81])
    model = hx.Model(gravity=gravity)
    for i in range(n):
        rod = hx.cylinder(0.02, 0.1, mass=mass, axis="x")
        model.body(f"rod {i}", rod, position=(0.1 * i + 0.05, 0, 0))
        before = f"rod {i - 1}" if i else "ground"
        axes = {"axis_a": (0, 1, 0), "axis_b": (0, 0, 1)}
        model.universal(f"joint {i}", before, f"rod {i}", at=(0.1 * i, 0, 0), **axes)
    result = model.simulate(0.05, dt=0.005)
    result.at([0.012]), result.reaction("joint 0")
    made = counts.traced, counts.compiled, counts.read
    q, _ = result.at(np.linspace(0, 0.05, 150))
    assert q.shape == (150, 7 * n)
    forces = [result.reaction(f"joint {i}").force for i in range(n)] + [0.0]
    for i in range(n):
        change = mass * (result[f"rod {i}"].acceleration - gravity)
        np.testing.assert_allclose(forces[i] - forces[i + 1], change, rtol=0, atol=1e-12)
    assert (counts.traced, counts.compiled, counts.read) == made
