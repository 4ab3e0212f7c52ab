"""Sweeps: points, the dataset on disk, and that nothing is lost or done twice."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import holonax as hx
from holonax.many import workers

many = hx.many


def pendulum_of(length, mass):
    """A point on a rod, as a system of functions."""
    system = hx.FunctionSystem(
        mass=lambda q, p: p["m"] * jnp.ones(2),
        force=lambda q, v, t, p: jnp.array([0.0, -9.81 * p["m"]]),
        constraint=lambda q, t, p: jnp.array([(q @ q - p["l"] ** 2) / 2]),
        parameters={"m": mass, "l": length},
    )
    return system, hx.consistent(system, [length, 0.0], [0.0, 0.0])


@pytest.fixture(scope="module")
def pendulum():
    return pendulum_of(1.0, 1.0)


def squares(values):
    return {"square": values["x"] ** 2, "both": np.stack([values["x"], -values["x"]], axis=1)}


def calls(folder):
    """A function that writes down each point that it is asked for."""

    def function(values):
        with (folder / "calls.txt").open("a") as file:
            file.writelines(f"{x!r}\n" for x in values["x"].tolist())
        return squares(values)

    return function


def test_a_grid_has_all_combinations():
    points = many.grid({"a": [1.0, 2.0, 3.0], "b": [10.0, 20.0]})
    assert len(points) == 6 and points.shape == (3, 2)
    for most in range(1, 8):  # each point is in one block, whatever their size
        chunks = points.chunks(most)
        blocks = [points.block(points.where(x, chunks)) for x in points.blocks(chunks)]
        assert all(len(x["a"]) <= most for x in blocks)
        pairs = [pair for x in blocks for pair in zip(x["a"], x["b"], strict=True)]
        assert sorted(pairs) == [(a, b) for a in (1.0, 2.0, 3.0) for b in (10.0, 20.0)]


def test_samples_fill_their_ranges():
    ranges = {"a": (1.0, 3.0), "b": stats.norm(5.0, 0.1)}
    latin = many.latin_hypercube(ranges, 50, seed=3)
    slices = np.floor((latin.values["a"] - 1) / 2 * 50)
    assert sorted(slices) == list(range(50))  # one in each slice
    slices = np.floor(stats.norm(5.0, 0.1).cdf(latin.values["b"]) * 50)
    assert sorted(slices) == list(range(50))
    sobol = many.sobol(ranges, 64)
    halves = np.histogram2d(sobol.values["a"], sobol.values["b"], [[1, 2, 3], [0, 5, 9]])[0]
    np.testing.assert_array_equal(halves, 16)  # balanced in each quarter
    again = many.sobol(ranges, 64)
    np.testing.assert_array_equal(sobol.values["a"], again.values["a"])


@pytest.mark.parametrize("batch", [1, 3, 7, 100])
def test_a_dataset_is_what_the_function_returns(tmp_path, batch):
    over = {"x": np.linspace(-1, 1, 5), "y": [1.0, 2.0]}
    found = hx.sweep(squares, over, path=tmp_path / "a", batch=batch)
    assert found.complete and found.done == found.runs == 10
    expected = np.tile(np.linspace(-1, 1, 5)[:, None] ** 2, (1, 2))
    np.testing.assert_array_equal(found["square"], expected)
    np.testing.assert_array_equal(found["both"][3, 1], [0.5, -0.5])
    np.testing.assert_array_equal(many.open_sweep(tmp_path / "a")["y"], [1.0, 2.0])
    assert "10 points, 10 done: x (5) x y (2)" in repr(found)


def test_others_read_the_dataset(tmp_path):
    xarray, _ = pytest.importorskip("xarray"), pytest.importorskip("zarr")
    over = {"x": np.linspace(-1, 1, 5), "y": [1.0, 2.0]}
    found = hx.sweep(squares, over, path=tmp_path / "a", batch=3)
    ours, theirs = found.to_xarray(), xarray.open_zarr(tmp_path / "a")
    for name in ("square", "both", "x", "y"):
        xarray.testing.assert_equal(ours[name], theirs[name])
    assert float(theirs["square"].sel(x=0.5, y=2.0)) == 0.25


def test_a_dataset_is_valid_while_it_grows(tmp_path):
    zarr = pytest.importorskip("xarray"), pytest.importorskip("zarr")
    seen = []

    def function(values):
        if (tmp_path / "a" / "square").exists():
            grown = many.open_sweep(tmp_path / "a")
            done = grown["code"] == 0
            np.testing.assert_array_equal(grown["square"][done], grown["x"][done] ** 2)
            theirs = zarr[0].open_zarr(tmp_path / "a")["square"].values
            np.testing.assert_array_equal(theirs, grown["square"])
            seen.append(grown.done)
        return squares(values)

    hx.sweep(function, {"x": np.arange(20.0)}, path=tmp_path / "a", batch=4)
    assert seen == [4, 8, 12, 16]


def test_nothing_is_done_twice(tmp_path):
    """A function that fails for some points; the same call again computes those only."""
    plain = calls(tmp_path)

    def function(values):
        if 7.0 in values["x"] and not (tmp_path / "mended").exists():
            raise ValueError("seven")
        return plain(values)

    over = {"x": np.arange(10.0)}
    first = hx.sweep(function, over, path=tmp_path / "a", batch=2)
    assert not first.complete and first.done == 8
    assert "seven" in first.failed[3,]
    (tmp_path / "mended").touch()
    second = hx.sweep(function, over, path=tmp_path / "a")
    assert second.complete and not second.failed
    asked = [float(x) for x in (tmp_path / "calls.txt").read_text().split()]
    assert sorted(asked) == over["x"].tolist()


KILLED = """
import sys, time
from pathlib import Path
import numpy as np
import holonax as hx

def function(values):
    with open("calls.txt", "a") as file:
        file.writelines(f"{x!r}\\n" for x in values["x"].tolist())
    time.sleep(0.02)
    return {"square": values["x"] ** 2}

found = hx.sweep(function, {"x": np.arange(200.0)}, path="grown", batch=4)
print(found.complete)
"""


def test_a_killed_sweep_goes_on(tmp_path):
    """kill -9 in the middle: what was written is there, only the block under way is repeated."""
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, cwd=tmp_path) as process:
        wanted = tmp_path / "grown" / "code" / "5"
        while not wanted.exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    before = many.open_sweep(tmp_path / "grown")
    assert 24 <= before.done < 200
    done = before["code"] == 0
    np.testing.assert_array_equal(before["square"][done], before["x"][done] ** 2)
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    after = many.open_sweep(tmp_path / "grown")
    np.testing.assert_array_equal(after["square"], np.arange(200.0) ** 2)
    asked = [float(x) for x in (tmp_path / "calls.txt").read_text().split()]
    again = sorted(x for x in set(asked) if asked.count(x) > 1)
    assert len(again) <= 4 and not set(again) & set(before["x"][done])
    assert sorted(set(asked)) == list(range(200))


def test_each_point_is_a_run(tmp_path, pendulum):
    """What is kept is what `ensemble` says of the same masses and lengths."""
    system, start = pendulum
    lengths, masses = np.linspace(0.9, 1.1, 3), np.array([1.0, 2.0])
    options = {"t_end": 0.1, "dt": 1e-2, "reduce": {"low": many.Smallest(lambda t, q, v: q[1])}}
    found = hx.sweep((system, start), {"l": lengths, "m": masses}, path=tmp_path / "a", **options)
    pairs = np.array([(a, b) for a in lengths for b in masses])
    runs = hx.ensemble(system, start, parameters={"l": pairs[:, 0], "m": pairs[:, 1]}, **options)
    np.testing.assert_array_equal(found["q"].reshape(6, 2), runs.q)
    np.testing.assert_array_equal(found["low"].ravel(), runs.reduced["low"])
    np.testing.assert_array_equal(found["ended"], 0.1)
    assert found.success.all()


def test_a_run_that_fails_is_counted(tmp_path, pendulum):
    """A pendulum of no mass has no motion; its neighbours have."""
    masses = np.array([1.0, 0.0, 2.0])
    found = hx.sweep(pendulum, {"m": masses}, path=tmp_path / "a", t_end=0.1, dt=1e-2)
    assert found.complete and found.success.tolist() == [True, False, True]
    assert "1 not successful: the state became non-finite" in repr(found)


def test_an_executor_computes_blocks(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        found = hx.sweep(
            squares, {"x": np.arange(40.0)}, path=tmp_path / "a", batch=3, executor=pool
        )
    np.testing.assert_array_equal(found["square"], np.arange(40.0) ** 2)


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"over": {}}, TypeError, "not a dictionary by name"),
        ({"over": {"x": []}}, ValueError, "no values, or equal ones"),
        ({"over": {"code": [1.0]}}, ValueError, "cannot name an array"),
        ({"over": {"a/b": [1.0]}}, ValueError, "cannot name an array"),
        ({"what": 3}, TypeError, "cannot be swept"),
        ({"what": lambda x: 3}, TypeError, "must return a dictionary"),
        ({"what": lambda x: {"y": [1.0] * 3}}, ValueError, "one row for each point"),
        ({"batch": 0}, ValueError, "batch=0"),
        ({"executor": "nowhere"}, ValueError, "no scheduler of Dask"),
        ({"executor": 2.5}, TypeError, "executor=2.5 is not known"),
        ({"t_end": 1.0}, TypeError, "mean nothing for a function"),
        ({"path": 3}, TypeError, "is not a path"),
    ],
)
def test_mistakes_are_said(tmp_path, changes, kind, words):
    if changes.get("executor") == "nowhere":
        pytest.importorskip("distributed")
    given = {"what": squares, "over": {"x": [1.0, 2.0]}, "path": tmp_path / "a", **changes}
    with pytest.raises(kind, match=words):
        hx.sweep(given.pop("what"), given.pop("over"), **given)


def test_mistakes_of_a_mechanism_are_said(tmp_path, pendulum):
    options = {"path": tmp_path / "a", "t_end": 0.1, "dt": 1e-2}
    with pytest.raises(KeyError, match=r"no parameter 'mm'"):
        hx.sweep(pendulum, {"mm": [1.0]}, **options)
    with pytest.raises(KeyError, match=r"has no entry|no entry \[3\]"):
        hx.sweep(pendulum, {"l[3]": [1.0]}, **options)
    with pytest.raises(TypeError, match="no argument 'tend'"):
        hx.sweep(pendulum, {"m": [1.0]}, path=tmp_path / "a", tend=1.0)
    with pytest.raises(ValueError, match="is a Bands"):
        hx.sweep(pendulum, {"m": [1.0]}, reduce={"b": many.Bands(lambda t, q, v: q)}, **options)


def test_a_path_belongs_to_one_sweep(tmp_path):
    hx.sweep(squares, {"x": [1.0, 2.0]}, path=tmp_path / "a")
    with pytest.raises(ValueError, match="a sweep of other points"):
        hx.sweep(squares, {"x": [1.0, 3.0]}, path=tmp_path / "a")
    with pytest.raises(ValueError, match="of another system, function"):
        hx.sweep(lambda x: {"y": x["x"]}, {"x": [1.0, 2.0]}, path=tmp_path / "a")
    with pytest.raises(ValueError, match="another batch"):
        hx.sweep(squares, {"x": [1.0, 2.0]}, path=tmp_path / "a", batch=2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with pytest.raises(ValueError, match="other things in it"):
        hx.sweep(squares, {"x": [1.0, 2.0]}, path=tmp_path / "full")
    with pytest.raises(FileNotFoundError, match="no sweep in"):
        many.open_sweep(tmp_path / "full")

    def other(values):
        with pytest.raises(ValueError, match="another process writes"):
            hx.sweep(squares, {"x": [1.0]}, path=tmp_path / "b")
        return squares(values)

    hx.sweep(other, {"x": [1.0]}, path=tmp_path / "b")


def test_an_interrupt_returns_what_is_there(tmp_path):
    def function(values):
        if values["x"][0] == 3.0:
            raise KeyboardInterrupt
        return squares(values)

    found = hx.sweep(function, {"x": np.arange(5.0)}, path=tmp_path / "a", batch=1)
    assert found.interrupted and found.done == 3


def killer(values):
    """Ends the process that computes the point 5, the first time."""
    folder = os.environ["HOLONAX_TEST_FOLDER"]
    if 5.0 in values["x"]:
        try:
            with open(f"{folder}/killed", "x"):
                os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
    if 9.0 in values["x"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return squares(values)


class BreakingPool(ThreadPoolExecutor):
    """A pool that is found broken when its second block is handed in, and whenever asked then."""

    def __init__(self):
        super().__init__(1)
        self.left = 1

    def submit(self, *args):
        if not self.left:
            raise BrokenProcessPool
        self.left -= 1
        return super().submit(*args)


def test_a_block_that_a_broken_pool_does_not_take_is_not_lost(monkeypatch):
    pools = itertools.chain([BreakingPool()], (ThreadPoolExecutor(1) for _ in itertools.count()))
    monkeypatch.setattr(workers.Processes, "_begun", lambda self: next(pools))
    blocks = [(k, {"x": np.array([float(k)])}) for k in range(6)]
    got = dict(workers.Processes(2).outcomes(squares, blocks))
    assert sorted(got) == list(range(6))
    assert not any(isinstance(x, Exception) for x in got.values())


@pytest.mark.slow
def test_processes_that_die_are_replaced(tmp_path, monkeypatch):
    """One that dies once, and a point that kills each process: all other points are computed."""
    monkeypatch.setenv("HOLONAX_TEST_FOLDER", str(tmp_path))
    found = hx.sweep(killer, {"x": np.arange(12.0)}, path=tmp_path / "a", batch=1, executor=2)
    assert found.done == 11 and [*found.failed] == [(9,)]
    assert "died each time" in found.failed[9,]
    expected = np.where(np.arange(12) == 9, np.nan, np.arange(12.0) ** 2)
    np.testing.assert_array_equal(found["square"], expected)


@pytest.mark.slow
def test_a_million_runs_on_a_cluster_that_loses_a_worker(tmp_path):
    """Two workers of Dask, one killed in the middle; the sweep itself killed and resumed."""
    pytest.importorskip("distributed")
    script = tmp_path / "million.py"
    script.write_text(MILLION)
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, cwd=tmp_path) as process:
        _await(process, tmp_path / "grown", 60)
        killed = json.loads((tmp_path / "workers.json").read_text())[0]
        os.kill(killed, signal.SIGKILL)
        _await(process, tmp_path / "grown", 120)
        os.kill(process.pid, signal.SIGKILL)
    before = many.open_sweep(tmp_path / "grown")
    done = before["code"] >= 0
    assert 0 < done.sum() < 1_000_000
    stamps = {x.name: x.stat().st_mtime_ns for x in (tmp_path / "grown" / "code").glob("[0-9]*")}
    subprocess.run(command, cwd=tmp_path, check=True)
    after = many.open_sweep(tmp_path / "grown")
    assert after.complete and after.success.all()
    for name, when in stamps.items():  # nothing was written twice
        assert (tmp_path / "grown" / "code" / name).stat().st_mtime_ns == when
    np.testing.assert_array_equal(after["low"][done], before["low"][done])
    # a pendulum of the length l that is let go at rest has a pull that does not know its mass
    some = np.random.default_rng(0).choice(1_000_000, 20)
    one = [_lowest(after["l"][k], after["m"][k]) for k in some]
    np.testing.assert_allclose(after["low"][some], one, rtol=1e-12)


def _await(process, path, blocks):
    while len(list((path / "code").glob("[0-9]*"))) < blocks:
        assert process.poll() is None
        time.sleep(0.02)


def _lowest(length, mass):
    system, start = pendulum_of(length, mass)
    result = hx.simulate(system, start, 0.4, dt=1e-2)
    return result.q[:, 1].min()


MILLION = """
import json
import distributed, jax.numpy as jnp, holonax as hx

if __name__ == "__main__":
    system = hx.FunctionSystem(
        mass=lambda q, p: p["m"] * jnp.ones(2),
        force=lambda q, v, t, p: jnp.array([0.0, -9.81 * p["m"]]),
        constraint=lambda q, t, p: jnp.array([(q @ q - p["l"] ** 2) / 2]),
        parameters={"m": 1.0, "l": 1.0},
    )
    start = hx.consistent(system, [1.0, 0.0], [0.0, 0.0])
    points = hx.many.sobol({"l": (0.8, 1.2), "m": (1.0, 3.0)}, 1_000_000)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1) as cluster:
        with distributed.Client(cluster) as client:
            json.dump([*client.run(__import__("os").getpid).values()], open("workers.json", "w"))
            found = hx.sweep(
                (system, start), points, path="grown", executor=client, threads=1, t_end=0.4,
                dt=1e-2, save="none", reduce={"low": hx.many.Smallest(lambda t, q, v: q[1])},
            )
            assert found.complete, found
"""
