"""What is left to XLA, with its default optimisation: the other tests switch it off, to compile
sooner."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import holonax as hx
from holonax.compiler import machine
from mechanisms import spherical_chain
from sections import in_part

METHODS = {
    "explicit": (hx.PostStabilized("both", passes=2), hx.RK4()),
    "implicit": (hx.Index3(), hx.GeneralizedAlpha()),
}
MECHANISMS = {"crank": hx.examples.slider_crank, "chain": lambda: spherical_chain(45)}


def swing(mechanism, method):
    """Where a mechanism is after a while, and its energies at the beginning and then."""
    formulation, integrator = METHODS[method]
    result = hx.simulate(
        *MECHANISMS[mechanism](), 0.2, dt=1e-3, formulation=formulation, integrator=integrator
    )
    assert result.success
    energy = result.energy.total
    return [*map(float, result.q[-1]), float(energy[0]), float(energy[-1])]


@pytest.mark.parametrize("method", in_part(METHODS, {"implicit"}))
@pytest.mark.parametrize("mechanism", ["crank", pytest.param("chain", marks=pytest.mark.slow)])
def test_the_same_motion_by_programs_that_xla_optimises(mechanism, method, tmp_path):
    """In a process of its own, where small programs go to XLA too."""
    level = "--xla_backend_optimization_level"
    words = [x for x in os.environ["XLA_FLAGS"].split() if not x.startswith(level)]
    environment = {
        **os.environ,
        "XLA_FLAGS": " ".join(words),
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "HOLONAX_CACHE": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, mechanism, method],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    optimised, plain = json.loads(done.stdout), swing(mechanism, method)
    # 200 steps of a motion that is not chaotic yet: rounding only
    np.testing.assert_allclose(optimised, plain, rtol=1e-9, atol=1e-10)


if __name__ == "__main__":
    machine.binding = lambda: None  # as where llvmlite is not installed
    print(json.dumps(swing(*sys.argv[1:])))
