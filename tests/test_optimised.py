"""What is left to XLA, with its default optimisation: the other tests switch it off, to compile
sooner."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import holonax as hx
from mechanisms import spherical_chain

BODIES, T_END = 45, 0.2
METHODS = {
    "explicit": (hx.PostStabilized("both", passes=2), hx.RK4()),
    "implicit": (hx.Index3(), hx.GeneralizedAlpha()),
}


def swing(method):
    """Where a chain's last body is after a while, and the energies at the beginning and then."""
    system, start = spherical_chain(BODIES)
    formulation, integrator = METHODS[method]
    result = hx.simulate(
        system, start, T_END, dt=1e-3, formulation=formulation, integrator=integrator
    )
    assert result.success
    energy = result.energy.total
    return [*map(float, result.q[-1]), float(energy[0]), float(energy[-1])]


@pytest.mark.parametrize("method", ["explicit", pytest.param("implicit", marks=pytest.mark.slow)])
def test_a_chain_swings_the_same_with_and_without_optimisation(method, tmp_path):
    level = "--xla_backend_optimization_level"
    words = [x for x in os.environ["XLA_FLAGS"].split() if not x.startswith(level)]
    environment = {
        **os.environ,
        "XLA_FLAGS": " ".join(words),
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "HOLONAX_CACHE": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, __file__, method],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    optimised, plain = json.loads(done.stdout), swing(method)
    # 200 steps of a motion that is not chaotic yet: rounding only
    np.testing.assert_allclose(optimised, plain, rtol=1e-9, atol=1e-10)


if __name__ == "__main__":
    print(json.dumps(swing(sys.argv[1])))
