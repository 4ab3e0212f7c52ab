"""Long runs: checkpoints that survive a kill, bounded memory, progress, interruption."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import holonax as hx
import stored_run
from holonax import examples
from holonax.run import driver
from sections import in_part

SCRIPT = Path(stored_run.__file__)


@pytest.mark.parametrize("kind", in_part(["times", "steps"], {"times"}))
def test_a_killed_run_is_resumed_to_the_same_bits(tmp_path, kind):
    """Killed as soon as it has come somewhere; resumed, it ends as if nothing had happened."""
    path = tmp_path / "run"
    process = subprocess.Popen([sys.executable, str(SCRIPT), "run", kind, str(path), "0.05"])
    checkpoint = path / "checkpoint-2.hxc"  # the first one is of the start
    deadline = time.monotonic() + 300
    while not checkpoint.exists() and time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)
    process.kill()
    process.wait()
    whole = stored_run.run(kind)
    resumed = stored_run.resume(kind, path)
    assert resumed.success
    for name in ("t", "q", "v"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
    assert [(e.name, e.t) for e in resumed.events] == [(e.name, e.t) for e in whole.events]
    assert resumed.stats["steps"] == whole.stats["steps"]
    # a run that has ended is returned as it was
    again = stored_run.resume(kind, path)
    np.testing.assert_array_equal(again.q, whole.q)
    assert again.message == whole.message


def test_functions_that_a_file_cannot_hold_are_asked_for(tmp_path):
    system, start = examples.slider_crank()
    unnamed = hx.Event("flat", lambda t, q, v: q[0])
    hx.simulate(system, start, 0.1, dt=1e-2, checkpoint=tmp_path / "run", events=unnamed)
    with pytest.raises(hx.StorageError, match=r"cannot hold.*lambda.*Give system="):
        hx.resume(tmp_path / "run", system=system)
    assert hx.resume(tmp_path / "run", system=system, events=unnamed).success


def test_states_on_disk_are_the_same(tmp_path):
    system, start = examples.slider_crank()
    options = {"dt": 1e-4, "formulation": hx.PostStabilized("both", passes=2)}
    kept = hx.simulate(system, start, 10.0, **options)
    stored = hx.simulate(system, start, 10.0, store=tmp_path / "run", **options)
    assert isinstance(stored.q, np.memmap)
    np.testing.assert_array_equal(stored.q, kept.q)
    np.testing.assert_array_equal(stored.t, kept.t)
    np.testing.assert_allclose(stored.lam[:100], kept.lam[:100], atol=1e-12)


def test_two_directories_are_refused(tmp_path):
    system, start = examples.slider_crank()
    with pytest.raises(ValueError, match="two directories"):
        hx.simulate(system, start, 1.0, dt=1e-2, store=tmp_path / "a", checkpoint=tmp_path / "b")


def test_progress_is_told(monkeypatch):

    monkeypatch.setattr(driver, "_REPORT", 0.0)
    system, start = examples.slider_crank()
    seen = []
    result = hx.simulate(system, start, 10.0, dt=1e-4, save="end", progress=seen.append)
    assert result.success and seen
    assert all(0 < p.t < 10.0 and p.steps > 0 and p.remaining >= 0 for p in seen)
    assert "of 10 s" in str(seen[0])
    assert np.all(np.diff([p.t for p in seen]) > 0)


@pytest.mark.skipif(os.name != "posix", reason="sends itself a signal")
def test_an_interrupted_run_returns_what_it_has_and_can_go_on(tmp_path):
    system, start = examples.slider_crank()
    options = {"dt": 1e-3, "save": 100}
    whole = hx.simulate(system, start, 2000.0, **options)
    ask = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    ask.start()
    part = hx.simulate(system, start, 2000.0, checkpoint=tmp_path / "run", **options)
    ask.cancel()
    assert not part.success and part.status == "interrupt" and "interrupted" in part.message
    assert 0 < part.t[-1] < 2000.0
    n = part.t.size - 1  # the last one is where it happened to be
    np.testing.assert_array_equal(part.q[:n], whole.q[:n])
    rest = hx.resume(tmp_path / "run", system=system)
    np.testing.assert_array_equal(rest.q, whole.q)


@pytest.mark.slow
def test_the_code_of_the_page_on_runs_runs(tmp_path, monkeypatch):
    page = Path(__file__).resolve().parent.parent / "docs" / "runs.md"
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL):
        exec(compile(block, "runs.md", "exec"), names)
    assert names["result"].success and names["result"].stats["steps"] == 20_000


def test_segments_grow_whatever_the_states_to_save(monkeypatch):
    """A segment ends with a state that is saved: with one in seven steps it is never of 256."""
    lengths = []
    pace = driver._Stretch._pace

    def seen(self, kept, full, seconds):
        lengths.append(kept)
        pace(self, kept, full, 1e-6)

    monkeypatch.setattr(driver._Stretch, "_pace", seen)
    hx.simulate(*examples.slider_crank(), 20.0, dt=1e-3, save=7)
    assert lengths[0] == 252
    assert len(lengths) < 10
