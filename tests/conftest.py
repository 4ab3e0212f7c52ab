"""What all tests share: a compilation cache on disk, and reproducible property tests."""

import ctypes
import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# A job in the background is started with SIGINT ignored, and so would be its children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before JAX is imported, and kept between runs: compiling is most of what the tests' time goes to.
# The thresholds are lowered because most of the programs here are small.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parent.parent / ".jax_cache")
)
os.environ.setdefault("HOLONAX_CACHE", os.environ["JAX_COMPILATION_CACHE_DIR"])
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# Nor is the code generated for them run long enough to be worth much optimisation.
_FLAG = "--xla_backend_optimization_level"
if _FLAG not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}=0".strip()

gc.set_threshold(100_000, 20, 20)

# The first example of a property test may have to compile, so there is no deadline.
settings.register_profile("holonax", deadline=None, derandomize=True)
settings.load_profile("holonax")


def pytest_collection_finish():
    """What was imported lives until the end: it is not searched for garbage after each file."""
    gc.collect()
    gc.freeze()


# What is compiled serves the files after it too, up to this size of the process [bytes].
_ROOM = 1.5e9


def _size() -> float:
    """Of this process in memory [bytes]; without a limit where the system does not say it."""
    if sys.platform != "linux":
        return float("inf")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Memory does not grow from file to file without end: what was compiled is on disk."""
    yield
    if _size() < _ROOM:
        return
    import jax

    from holonax.compiler import forget

    forget()
    jax.clear_caches()
    gc.collect()
    if sys.platform == "linux":  # what was freed goes back to the system
        ctypes.CDLL(None).malloc_trim(0)
