"""Whatever numbers runs have, and whichever of them fail beside others: each is the single run."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import holonax as hx
from test_ensemble import four_bar

T_END = 0.2
LIMIT = hx.Event("limit", "rocker.angle", level=2.1, terminal=True)
# Beside the method: what single runs may differ by, relative to their size. Steps by error are
# other ones where rounding decides on keeping one. With partitioning a few runs differ by what
# falls with the fourth power of the step: the error of the method, as of other coordinates chosen
# where two choices are nearly as good.
METHODS = {
    "RK4": ({"dt": 2e-3}, 1e-10),
    "Dopri5": ({"rtol": 1e-8}, 1e-6),
    "generalized-alpha": (
        {"dt": 2e-3, "formulation": hx.Index3(), "integrator": hx.GeneralizedAlpha(0.9)},
        1e-8,
    ),
    "GGL, Radau": ({"dt": 2e-3, "formulation": hx.GGL(), "integrator": hx.RadauIIA()}, 1e-8),
    "partitioning": ({"dt": 2e-3, "formulation": hx.CoordinatePartitioning()}, 2e-6),
    "variable BDF": (
        {"rtol": 1e-6, "formulation": hx.GGL(), "integrator": hx.VariableBDF()},
        1e-4,
    ),
}

number = st.floats(-1.0, 1.0, allow_subnormal=False)
# One run: the foot of the rocker off by 1 cm at most, the mass of the coupler over four decades,
# the speed of the crank; or a foot out of reach, or a speed whose square is no number any more.
run = st.tuples(number, number, number, st.sampled_from(["", "", "", "too far", "too fast"]))
runs = st.lists(run, min_size=1, max_size=19)


@pytest.fixture(scope="module")
def mechanism():
    return four_bar()


def assert_runs_are_single_ones(mechanism, method, drawn, event):
    system, start = mechanism
    options, tolerance = METHODS[method]
    foot, mass, speed, kind = (np.array(x) for x in zip(*drawn, strict=True))
    foot = np.stack([0.6 + 0.01 * foot, np.zeros(len(drawn))], axis=1)
    foot[kind == "too far", 0] = 3.0
    v = np.outer(2 * speed, start.v)
    v[kind == "too fast"] = 1e200 * start.v
    given = {"D.at_a": foot, "coupler.mass": 2.0 * 10.0 ** (2 * mass)}
    events = (LIMIT,) if event else ()
    result = hx.ensemble(
        *(system, (np.tile(start.q, (len(drawn), 1)), v)),
        **{"parameters": given, "t_end": T_END, "events": events, **options},
    )
    for k, what in enumerate(kind):
        if what == "too far":
            assert "cannot be assembled" in result.reason[k]
            continue
        if what == "too fast":
            assert not result.success[k], result.reason[k]
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the start has to be moved
            single = result.rerun(k, save="end")
        assert result.success[k] == single.success, (result.reason[k], single.message)
        assert (result.event[k] == "limit") == (single.status == "event")
        assert abs(result.ended[k] - single.t[-1]) < tolerance
        for a, b in ((result.q[k], single.q[-1]), (result.v[k], single.v[-1])):
            assert np.max(np.abs(a - b)) < tolerance * (1 + np.max(np.abs(b)))


def examples(count):
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        print_blob=False,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.slow
@pytest.mark.parametrize("event", [False, True], ids=["to the end", "to an event"])
@pytest.mark.parametrize("method", METHODS)
@examples(40)
@given(drawn=runs)
def test_runs_of_many_methods_are_single_ones(mechanism, method, event, drawn):
    assert_runs_are_single_ones(mechanism, method, drawn, event)
