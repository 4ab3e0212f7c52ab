"""Calls with bad arguments, at random, over all that is public; see fuzz.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def faults(seed, calls, timeout):
    """What a process that makes `calls` calls finds, and what it says of itself."""
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), seed, str(calls)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent / "src"), str(HERE)])},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, f"a call did not end, or ended the process: {done.stderr[-3000:]}"
    *found, counts = map(json.loads, done.stdout.splitlines())
    return found, counts


def check(seed, calls, timeout):
    found, counts = faults(seed, calls, timeout)
    said = [f"{x['call']}({x['given']}): {x['fault']}: {x['said']}" for x in found]
    assert not said, "\n".join(said)
    assert counts["calls"] == calls and counts["targets"] > 150


def test_400_bad_calls_are_answered_in_our_own_words():
    check("some", 400, timeout=500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["more", "and", "more still", "others"])
def test_20000_bad_calls_are_answered_in_our_own_words(seed):
    check(seed, 5000, timeout=3000)


def test_the_fuzzer_finds_what_is_there_to_be_found(monkeypatch):
    import fuzz

    def raw(x):
        return [][x]

    def short():
        raise ValueError("no.")

    def ours():
        import holonax as hx

        hx.sphere(-1.0, mass=1.0)

    verdicts = {}
    for function in (lambda: raw(0), lambda: float("x"), short, ours):
        try:
            function()
        except Exception as error:
            verdicts[len(verdicts)] = fuzz.fault(error)
    assert all("raw exception" in verdicts[k] for k in (0, 1, 2)) and verdicts[3] is None
