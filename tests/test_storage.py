"""Runs on disk: nothing in a file is executed, a spoilt file is never believed, files of others are
left alone, and a disk that takes no more costs the files, not the run."""

import contextlib
import errno
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
import stored_run
from holonax import examples
from holonax.run import driver as running
from holonax.run.storage import checkpoint, container, folder, identity, loading, record

SCRIPT = Path(stored_run.__file__)
TEMPORARY = pytest.mark.filterwarnings("ignore:resume. a file in")


def crank(g=10.0, r=0.3, mass=lambda q, p: jnp.array([p["J1"], p["J2"], p["m"], p["m"]])):
    """A slider-crank from functions, with a number in a parameter and one in a function."""
    system = hx.FunctionSystem(
        mass=mass,
        force=lambda q, v, t, p: jnp.array([0.0, 0.0, 0.0, -p["m"] * p["g"]]),
        constraint=lambda q, t, p: jnp.array(
            [
                r * jnp.cos(q[0]) + 0.3 * jnp.cos(q[1]) - q[2],
                r * jnp.sin(q[0]) + 0.3 * jnp.sin(q[1]) - q[3],
                0.2 * jnp.sin(q[1]) + q[3],
            ]
        ),
        parameters={"J1": 0.045, "J2": 33 / 4800, "m": 1.0, "g": g},
    )
    return system


_kept = tempfile.TemporaryDirectory(prefix="holonax-")


def begun(path, *, store=False):
    """A run that died in the middle, and what it would have become."""
    found = _died_once(store)
    shutil.copytree(Path(_kept.name) / str(store), path)
    return found


@cache
def _died_once(store):
    return died(Path(_kept.name) / str(store), store=store)


def died(path, *, store=False):
    """The same, computed here and now."""
    system, start = examples.slider_crank()
    given = {"rtol": 1e-9, "events": stored_run.FLAT, "save": np.linspace(0.0, 4.0, 161)}
    whole = hx.simulate(system, start, 4.0, **given)

    class Died(Exception):
        pass

    def die(progress):
        if progress.t > 2.0:
            raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_REPORT", 0.0)
        patch.setattr(running, "_SECONDS", 1e-9)  # short segments: many files
        kept = {"checkpoint": path, "checkpoint_every": 1e-9} | ({"store": path} if store else {})
        with pytest.raises(Died):
            hx.simulate(system, start, 4.0, progress=die, **kept, **given)
    return system, whole


def same(result, whole):
    """Whether two runs are one, to the last bit."""
    for name in ("t", "q", "v"):
        np.testing.assert_array_equal(getattr(result, name), getattr(whole, name))
    assert [(e.name, e.t) for e in result.events] == [(e.name, e.t) for e in whole.events]
    assert (result.status, result.stats["steps"]) == (whole.status, whole.stats["steps"])


# Nothing is executed


class Evil:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_a_file_that_would_run_code_runs_none(tmp_path, monkeypatch):
    """What a checkpoint once was, under every name of a file of a run."""
    import pickle

    monkeypatch.chdir(tmp_path)
    begun("run")
    for name in os.listdir("run"):
        (Path("run") / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(hx.StorageError, match="no checkpoint in 'run' is whole"):
        hx.resume("run", system=crank())
    assert not Path("executed").exists()


def test_the_package_has_no_way_to_run_what_is_in_a_file():
    source = Path(hx.__file__).parent
    for path in source.rglob("*.py"):
        text = path.read_text("utf-8")
        if path == source / "many" / "workers.py":  # to processes of its own, and from no file
            assert not re.search(r"open\(|read_|\bPath\b", text)
        else:
            assert not re.search(r"\b(pickle|marshal|shelve|dill)\b|allow_pickle=True", text), path
        assert not re.search(r"(?<![\w.\"'])(eval|exec)\(", text), path


def forged(path, change):
    """A checkpoint with another content, and the checksum that belongs to it."""
    for file in path.glob("checkpoint-*.hxc"):
        content = container.unpacked(checkpoint.KIND, file.read_bytes())
        said = change(json.loads(json.dumps(content.said)))
        file.write_bytes(container.packed(checkpoint.KIND, said, content.arrays)[0])


@pytest.mark.parametrize(
    "node",
    [
        {"class": "os:system"},
        {"class": "subprocess:Popen"},
        {"class": "holonax.cli:main"},
        {"class": "holonax.__main__:x"},
        {"class": "holonax.run.storage.folder:os"},
        {"sequence": "builtins:str", "items": []},
        {"sequence": "holonax.run.control:Tolerance", "items": [1]},
        {"sequence": "holonax.run.driver:Run", "items": [1]},
        {"object": ["run", 10**6]},
        {"object": ["run", -1]},
        {"object": ["elsewhere", 0]},
        {"given": ["run", 0]},
        {"given": ["system", -1]},
        {"jax": 10**6},
        {"jax": -1},
        {"jax": 0, "more": 1},
        {"float": "1.0"},
        {"unheard": 1},
        [],
        {"dict": [[{"list": []}, 1]]},
    ],
)
def test_a_forged_checkpoint_is_refused(tmp_path, node):
    system, _ = begun(tmp_path / "run")
    forged(tmp_path / "run", lambda said: {**said, "content": node})
    with pytest.raises(hx.StorageError):
        hx.resume(tmp_path / "run", system=system, events=stored_run.FLAT)


def test_objects_of_the_wrong_class_or_fields_are_refused(tmp_path):
    system, _ = begun(tmp_path / "run")

    def with_object(entry):
        def change(said):
            said["objects"]["run"][0] = {**said["objects"]["run"][0], **entry}
            return said

        return change

    for entry in (
        {"of": "holonax.run.driver:Outcome"},
        {"of": "holonax.run.driver:follow"},
        {"fields": {}},
    ):
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        forged(tmp_path / "copy", with_object(entry))
        with pytest.raises(hx.StorageError):
            hx.resume(tmp_path / "copy", system=system, events=stored_run.FLAT)
        shutil.rmtree(tmp_path / "copy")


def test_objects_come_back_as_they_were():
    system, start = examples.flyball_governor()
    things = (
        system,
        start,
        {"a": (1, 2.0, None), (1, 2): [True, "b"]},
        (float("inf"), -0.0, np.float32(3.0), np.arange(3), jnp.ones((2, 0))),
        hx.PostStabilized("both", passes=2),
        hx.VariableBDF(),
    )
    writer = record.Writer()
    node = json.loads(json.dumps(writer.write("x", (things, things[0]))))
    again, system_again = record.Reader(writer.record, {}, {}).read(node)
    assert again[0] is system_again
    assert not writer.left_out["x"]
    other = record.Writer()
    node_again = other.write("x", (again, again[0]))
    assert not list(record.differences(writer.record, other.record, node, node_again, "x"))
    assert repr(again[2:]) == repr(things[2:])


# Another system


def test_another_number_is_refused_and_named(tmp_path):
    system = crank()
    start = hx.consistent(system, q=[0.9851, -0.5236, 0.4256, 0.1], hold=[0])
    whole = hx.simulate(system, start, 0.5, dt=1e-2, checkpoint=tmp_path / "run")
    with pytest.raises(hx.StorageError, match=r"system.p\['g'\] is 1.62, it was 10.0"):
        hx.resume(tmp_path / "run", system=crank(g=1.62))
    with pytest.raises(hx.StorageError, match=r"something else.*constraint"):
        hx.resume(tmp_path / "run", system=crank(r=0.31))
    with pytest.raises(hx.StorageError, match=r"something else \(mass"):
        hx.resume(tmp_path / "run", system=crank(mass=lambda q, p: p["m"] * jnp.ones(4)))
    with pytest.raises(hx.StorageError, match="not the run that was begun: system is"):
        hx.resume(tmp_path / "run", system=examples.double_pendulum()[0])
    same(hx.resume(tmp_path / "run", system=crank()), whole)


def test_a_function_of_another_name_that_does_the_same_is_the_same(tmp_path):
    system, start = examples.double_pendulum()
    event = hx.Event("low", lambda t, q, v: q[1] + 0.5)
    whole = hx.simulate(system, start, 0.5, dt=1e-2, events=event, checkpoint=tmp_path / "run")

    def height(time, position, velocity):
        above = position[1]
        return above + 0.5

    same(hx.resume(tmp_path / "run", events=hx.Event("low", height)), whole)
    half = 0.5000001
    for other in (
        hx.Event("low", lambda t, q, v: q[1] + half),
        hx.Event("low", lambda t, q, v: q[0] + 0.5),
        hx.Event("other", height),
        hx.Event("low", height, direction="rising"),
        hx.Event("low", height, change=hx.Impact(0.5)),
    ):
        with pytest.raises(hx.StorageError, match="not the run that was begun"):
            hx.resume(tmp_path / "run", events=other)
    with pytest.raises(hx.StorageError, match="events has 2 entries, it had 1"):
        hx.resume(tmp_path / "run", events=(event, event))


def pendulum(g=9.81, mass=1.0, angle=None):
    model = hx.Model(gravity=(0.0, -g))
    model.planar_body("rod", mass=mass, inertia=0.1, position=(0.5, 0.0))
    model.revolute("hinge", "ground", "rod", at=(0.0, 0.0))
    if angle is not None:
        model.drive_angle("motor", joint="hinge", angle=angle)
    return model.build()


def test_a_mechanism_without_functions_needs_nothing_and_is_compared(tmp_path):
    system, start = pendulum()
    whole = hx.simulate(system, start, 1.0, dt=1e-2, checkpoint=tmp_path / "run")
    same(hx.resume(tmp_path / "run"), whole)
    same(hx.resume(tmp_path / "run", system=pendulum()[0]), whole)
    with pytest.raises(hx.StorageError, match=r"gravity\[1\] is -1.62, it was -9.81"):
        hx.resume(tmp_path / "run", system=pendulum(g=1.62)[0])
    with pytest.raises(hx.StorageError, match=r"mass is \[2.0\], it was \[1.0\]"):
        hx.resume(tmp_path / "run", system=pendulum(mass=2.0)[0])


def test_the_driver_of_a_mechanism_is_compared(tmp_path):
    system, start = pendulum(angle=lambda t: 2.0 * t)
    whole = hx.simulate(system, start, 1.0, dt=1e-2, checkpoint=tmp_path / "run")
    with pytest.raises(hx.StorageError, match=r"cannot hold.*lambda.*Give system="):
        hx.resume(tmp_path / "run")
    with pytest.raises(hx.StorageError, match=r"something else.*constraint"):
        hx.resume(tmp_path / "run", system=pendulum(angle=lambda t: 2.0 * t + 1e-9 * t**2)[0])
    same(hx.resume(tmp_path / "run", system=pendulum(angle=lambda t: 2.0 * t)[0]), whole)


class Own(hx.PostStabilized):
    """A formulation of the user's own."""


def test_what_is_of_the_users_own_class_is_given_again(tmp_path):
    system, start = pendulum()
    own = Own("both", passes=1)
    whole = hx.simulate(
        system, start, 1.0, dt=1e-2, formulation=own, checkpoint=tmp_path / "run", save="end"
    )
    with pytest.raises(hx.StorageError, match=r"cannot hold: Own\. Give formulation="):
        hx.resume(tmp_path / "run")
    with pytest.raises(hx.StorageError, match=r"formulation\.passes is 2, it was 1"):
        hx.resume(tmp_path / "run", formulation=Own("both", passes=2))
    same(hx.resume(tmp_path / "run", formulation=own), whole)


@pytest.mark.slow
def test_redundant_systems_are_given_as_they_were(tmp_path):
    system, start = examples.bricard()
    assert start.redundant
    whole = hx.simulate(system, start, 0.1, dt=1e-2, checkpoint=tmp_path / "run")
    same(hx.resume(tmp_path / "run", system=system), whole)


def test_programs_are_compared_by_what_they_do():
    number = lambda f: identity.program(f, np.ones(3))  # noqa: E731
    assert number(lambda x: 2.0 * jnp.sin(x)) == number(lambda y: 2.0 * jnp.sin(y))
    table = np.arange(3.0)
    different = [
        lambda x: 2.0 * x,
        lambda x: 2.0000000000000004 * x,
        lambda x: 2.0 + x,
        lambda x: x + table,
        lambda x: x + (table + 1),
        lambda x: x[::-1],
        lambda x: x[jnp.array([0, 2, 1])],
        lambda x: jnp.where(x > 0, x, 0.0),
        lambda x: jnp.where(x >= 0, x, 0.0),
        lambda x: jnp.sum(x),
    ]
    assert len({number(f) for f in different}) == len(different)


# Spoilt files


def flipped(path, chosen):
    """Flip one bit of one file; says which."""
    file = chosen.choice(sorted(x for x in path.iterdir() if x.name != "holonax-lock"))
    data = bytearray(file.read_bytes())
    at, bit = chosen.randrange(len(data)), chosen.randrange(8)
    data[at] ^= 1 << bit
    file.write_bytes(data)
    return f"{file.name} byte {at} bit {bit}"


def flip(path, count, seed, *, store):
    """Every flipped bit of a run that died: the same result, or a StorageError; counts of both."""
    system, whole = begun(path / "run", store=store)
    chosen, outcomes = random.Random(seed), {"same": 0, "refused": 0}
    for _ in range(count):
        copy = path / "copy"
        shutil.copytree(path / "run", copy)
        where = flipped(copy, chosen)
        try:
            result = hx.resume(copy, system=system, events=stored_run.FLAT)
        except hx.StorageError:
            outcomes["refused"] += 1
        else:
            outcomes["same"] += 1
            assert result.success, where
            same(result, whole)
        shutil.rmtree(copy)
    return outcomes


@TEMPORARY
@pytest.mark.parametrize("store", [False, True])
def test_a_flipped_bit_changes_no_number(tmp_path, store):
    outcomes = flip(tmp_path, 30, 1, store=store)
    assert min(outcomes.values()) > 0, outcomes


@TEMPORARY
@pytest.mark.slow
@pytest.mark.parametrize("store", [False, True])
def test_five_hundred_flipped_bits_change_no_number(tmp_path, store):
    outcomes = flip(tmp_path, 500, 2, store=store)
    assert min(outcomes.values()) > 20, outcomes


@pytest.mark.parametrize("left", [0, 1, 100, -1])
def test_a_truncated_checkpoint_is_told_and_the_one_before_used(tmp_path, left):
    system, whole = begun(tmp_path / "run")
    files = sorted((tmp_path / "run").glob("checkpoint-*"), key=lambda x: x.stat().st_mtime_ns)
    files[-1].write_bytes(files[-1].read_bytes()[:left])
    with pytest.warns(UserWarning, match=f"{files[-1].name}.*goes on from {files[0].name}"):
        result = hx.resume(tmp_path / "run", system=system, events=stored_run.FLAT)
    same(result, whole)


def test_states_of_another_run_are_not_mixed_in(tmp_path):
    system, _ = begun(tmp_path / "run")
    died(tmp_path / "other")
    first = "states-000001.hxs"
    shutil.copy(tmp_path / "other" / first, tmp_path / "run" / first)
    with pytest.raises(hx.StorageError, match=f"{first} is spoilt: it belongs to another run"):
        hx.resume(tmp_path / "run", system=system, events=stored_run.FLAT)
    (tmp_path / "run" / first).unlink()
    with pytest.raises(hx.StorageError, match=f"{first} is missing"):
        hx.resume(tmp_path / "run", system=system, events=stored_run.FLAT)


def test_there_has_to_be_a_checkpoint(tmp_path):
    with pytest.raises(hx.StorageError, match="no checkpoint in"):
        hx.resume(tmp_path)
    with pytest.raises(hx.StorageError, match="no checkpoint in"):
        hx.resume(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_another_version_is_left_to_it(tmp_path):
    system, _ = begun(tmp_path / "run")
    forged(tmp_path / "run", lambda said: {**said, "version": "0.0.1"})
    with pytest.raises(hx.StorageError, match=r"written by holonax 0\.0\.1"):
        hx.resume(tmp_path / "run", system=system, events=stored_run.FLAT)


# Files of others


def short(path, **more):
    system, start = pendulum()
    return hx.simulate(system, start, 0.1, dt=1e-2, **more, **path)


@pytest.mark.parametrize("option", ["checkpoint", "store"])
@pytest.mark.parametrize("name", ["states-2024.npz", "q.npy", "states-000001.hxs", ".hidden"])
def test_a_directory_of_somebody_else_is_left_alone(tmp_path, option, name):
    (tmp_path / name).write_bytes(b"mine")
    with pytest.raises(hx.StorageError, match="holds files that are not of a run"):
        short({option: tmp_path})
    assert [(x.name, x.read_bytes()) for x in tmp_path.iterdir()] == [(name, b"mine")]


@pytest.mark.parametrize("name", ["states-2024.npz", "q.npy", "notes.txt", "checkpoint.pickle"])
def test_a_file_put_into_our_directory_is_left_alone(tmp_path, name):
    both = {"checkpoint": tmp_path / "run", "store": tmp_path / "run"}
    short(both)
    (tmp_path / "run" / name).write_bytes(b"mine")
    (tmp_path / "run" / "checkpoint-3.hxc").mkdir()
    result = short(both)
    assert result.success
    hx.resume(tmp_path / "run")
    assert (tmp_path / "run" / name).read_bytes() == b"mine"


@pytest.mark.parametrize("option", ["checkpoint", "store"])
@pytest.mark.parametrize("path", ["", " ", "a\0b", 3, True, b"run", ["run"], 1.5])
def test_what_names_no_directory_is_refused(tmp_path, monkeypatch, option, path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError), match=f"simulate: {option}="):
        short({option: path})
    with pytest.raises((TypeError, ValueError), match="resume: path="):
        hx.resume(path)
    assert list(tmp_path.iterdir()) == []


def test_a_new_run_takes_the_place_of_an_older_one(tmp_path):
    begun(tmp_path / "run", store=True)
    result = short({"checkpoint": tmp_path / "run"})
    names = {x.name for x in (tmp_path / "run").iterdir()}
    assert names == {
        "holonax-run.json",
        "checkpoint-1.hxc",
        "checkpoint-2.hxc",
        "states-000001.hxs",
    }
    same(hx.resume(tmp_path / "run"), result)


def test_a_file_where_the_directory_should_be(tmp_path):
    (tmp_path / "run").write_bytes(b"mine")
    for path in (tmp_path / "run", tmp_path / "run" / "below"):
        with pytest.raises(hx.StorageError, match=r"cannot be written to.*directory"):
            short({"checkpoint": path})
    assert (tmp_path / "run").read_bytes() == b"mine"


# One process at a time


def test_a_second_run_in_the_same_directory_is_refused(tmp_path):
    system, start = pendulum()
    path = tmp_path / "run"
    said = []

    def second(progress):
        if not said:
            for attempt in (lambda: short({"checkpoint": path}), lambda: hx.resume(path)):
                with pytest.raises(hx.StorageError) as error:
                    attempt()
                said.append(str(error.value))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_REPORT", 0.0)
        whole = hx.simulate(system, start, 5.0, dt=1e-3, checkpoint=path, progress=second)
    assert whole.success and len(said) == 2
    for text in said:
        assert f"in use by process {os.getpid()} on" in text and "delete holonax-lock" in text
    assert not (path / "holonax-lock").exists()
    same(hx.resume(path), whole)


HOLDER = """
import sys, time
from pathlib import Path
from holonax.run.storage import Folder
folder = Folder(Path(sys.argv[1]))
folder.claim()
print("ready", flush=True)
time.sleep(100)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills")
def test_another_process_keeps_a_directory_until_it_dies(tmp_path):
    path = tmp_path / "run"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "ready\n"
        with pytest.raises(hx.StorageError, match=f"in use by process {holder.pid} on"):
            short({"checkpoint": path})
    finally:
        holder.kill()
        holder.wait()
    assert (path / "holonax-lock").exists()
    assert short({"checkpoint": path}).success
    assert not (path / "holonax-lock").exists()


def test_a_process_on_another_machine_keeps_it_while_it_shows_that_it_lives(tmp_path):
    path = tmp_path / "run"
    short({"checkpoint": path})
    lock = path / "holonax-lock"
    lock.write_text(json.dumps({"pid": 1, "host": "elsewhere"}))
    with pytest.raises(hx.StorageError, match="in use by process 1 on elsewhere"):
        hx.resume(path)
    long_ago = time.time() - 2 * folder._SILENT
    os.utime(lock, (long_ago, long_ago))
    assert hx.resume(path).success
    assert not lock.exists()
    lock.write_bytes(b"no json")
    assert hx.resume(path).success


def test_without_locks_the_process_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_locked", lambda handle: None)
    path = tmp_path / "run"
    short({"checkpoint": path})
    lock = path / "holonax-lock"
    here = folder.platform.node()
    lock.write_text(json.dumps({"pid": os.getpid(), "host": here}))
    with pytest.raises(hx.StorageError, match="in use"):
        hx.resume(path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lock.write_text(json.dumps({"pid": gone.pid, "host": here}))
    assert hx.resume(path).success


# No space


class NoSpace:
    """A disk that is full after some files."""

    def __init__(self, files, code=errno.ENOSPC):
        self.left, self.code = files, code

    def __call__(self, handle):
        self.left -= 1
        if self.left < 0:
            raise OSError(self.code, os.strerror(self.code))


def crowded(path, files, patch, *, store, code=errno.ENOSPC):
    """A run on a disk that becomes full on the way, and what it would have become."""
    system, start = pendulum()
    t_end = 10.0 if store else 2.0
    whole = hx.simulate(system, start, t_end, dt=1e-3)
    patch.setattr(running, "_SECONDS", 1e-9)
    patch.setattr(folder.os, "fsync", NoSpace(files, code))
    kept = {"checkpoint": path, "checkpoint_every": 1e-9} | ({"store": path} if store else {})
    return hx.simulate(system, start, t_end, dt=1e-3, **kept), whole


def leftovers(path):
    return [x.name for x in path.iterdir() if x.name.startswith("holonax-new-")]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EIO])
def test_a_run_that_loses_its_checkpoints_goes_on_and_says_so(tmp_path, monkeypatch, code):
    path = tmp_path / "run"
    with pytest.warns(UserWarning, match="The run goes on without") as told:
        result, whole = crowded(path, 8, monkeypatch, store=False, code=code)
    same(result, whole)
    assert len(told) == 1
    assert result.success and str(path) in result.message and os.strerror(code) in result.message
    assert not leftovers(path) and not (path / "holonax-lock").exists()
    monkeypatch.undo()
    same(hx.resume(path), whole)


def test_a_disk_that_has_space_again_is_used_again(tmp_path, monkeypatch):
    path, disk = tmp_path / "run", NoSpace(8)
    system, start = pendulum()
    monkeypatch.setattr(running, "_SECONDS", 1e-9)
    monkeypatch.setattr(running, "_REPORT", 0.0)
    monkeypatch.setattr(folder.os, "fsync", disk)

    def freed(progress):
        if progress.t > 0.5:
            disk.left = 10**9

    with pytest.warns(UserWarning, match="The run goes on without"):
        result = hx.simulate(
            system, start, 1.0, dt=1e-3, checkpoint=path, checkpoint_every=1e-9, progress=freed
        )
    assert result.success and str(path) not in result.message
    same(hx.resume(path), result)


@pytest.mark.parametrize("files", [6, 7, 10, 21])
def test_a_run_whose_states_have_no_place_stops_and_returns_them(tmp_path, monkeypatch, files):
    path = tmp_path / "run"
    result, whole = crowded(path, files, monkeypatch, store=True)
    assert not result.success and result.status == "storage"
    for words in (str(path), "No space left", "Free some space", "All states before it"):
        assert words in result.message
    n = result.t.size
    assert 0 < n < whole.t.size
    np.testing.assert_array_equal(result.q, whole.q[:n])
    assert not leftovers(path)
    monkeypatch.undo()
    again = hx.resume(path)
    np.testing.assert_array_equal(again.q, whole.q)
    assert again.success and isinstance(again.q, np.memmap)


@pytest.mark.parametrize("files", [0, 1, 2, 4])
def test_a_disk_that_is_full_at_once_is_told_at_once(tmp_path, monkeypatch, files):
    with pytest.raises(hx.StorageError, match=r"cannot be written to.*No space.*Free some space"):
        crowded(tmp_path / "run", files, monkeypatch, store=True)
    if (tmp_path / "run").exists():
        assert not leftovers(tmp_path / "run")
        assert not (tmp_path / "run" / "holonax-lock").exists()


def test_a_finished_run_in_a_directory_that_cannot_be_written_to_is_returned(tmp_path, monkeypatch):
    path = tmp_path / "run"
    for kept in ({"checkpoint": path}, {"checkpoint": path, "store": path}):
        whole = short(kept)
        with monkeypatch.context() as patch:

            def refused(name, flags, *mode, usual=os.open):
                if flags & os.O_CREAT:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                return usual(name, flags, *mode)

            patch.setattr(folder.os, "open", refused)
            same(hx.resume(path), whole)
    monkeypatch.setattr(folder.os, "open", refused)
    with pytest.raises(hx.StorageError, match=r"Permission denied\. Give a directory that you may"):
        short({"checkpoint": tmp_path / "new"})
    assert not (tmp_path / "new").exists()


LIMITED = """
import resource, sys, warnings
import numpy as np
import holonax as hx
from holonax import examples
kind, path = sys.argv[1:]
system, start = examples.double_pendulum()
whole = hx.simulate(system, start, 200.0, dt=1e-3)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
kept = {"checkpoint": path, "checkpoint_every": 0.01} | ({"store": path} if kind == "store" else {})
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    result = hx.simulate(system, start, 200.0, dt=1e-3, **kept)
n = result.t.size
assert np.array_equal(result.q, whole.q[:n])
print(result.status, n == whole.t.size, len(told))
print(result.message)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of processes")
@pytest.mark.parametrize(
    ("kind", "said"), [("checkpoint", "end True 1"), ("store", "storage False 0")]
)
def test_a_limit_on_the_size_of_files(tmp_path, kind, said):
    """No file of this process may be longer than 400 kB: states of 0.1 s are more."""
    path = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-", kind, str(path)], input=LIMITED, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    status, message = done.stdout.splitlines()
    assert status == said
    assert str(path) in message and "File too large" in message and "Free some space" in message
    assert not leftovers(path)
    hx.resume(path)


@pytest.mark.parametrize("store", [False, True])
def test_a_run_that_ends_before_the_first_time_to_save_has_its_end(tmp_path, store):
    system, start = stored_run.ball()
    event = hx.Event("floor", stored_run.floor, terminal=True)
    kept = {"store": tmp_path / "run"} if store else {}
    result = hx.simulate(system, start, 10.0, rtol=1e-6, events=event, save=[5.0], **kept)
    assert result.success and result.t.tolist() == [result.events[0].t]


# Killed


def seconds_of(process):
    """What a process has computed so far, in seconds of a processor."""
    words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _checkpoints(path):
    """The checkpoints that there are, by name and time: two files are written in turn."""
    found = set()
    for x in path.glob("checkpoint-*.hxc"):
        with contextlib.suppress(FileNotFoundError):
            found.add((x.name, x.stat().st_mtime_ns))
    return found


def killed(what, kind, path, every, after):
    """Start a process and kill it `after` so many seconds of running; seconds of work lost, or None
    if it had ended.

    Work is what it computed since the last checkpoint appeared: time in which others had the
    processor is not lost.
    """
    known = _checkpoints(path)
    process = subprocess.Popen([sys.executable, str(SCRIPT), what, kind, str(path), str(every)])
    began, first, last = time.monotonic(), None, 0.0
    while process.poll() is None and time.monotonic() - began < 100:
        new = _checkpoints(path) - known
        if new or (what == "resume" and first is None and (path / "holonax-lock").exists()):
            known |= new
            last = seconds_of(process)
            first = time.monotonic() if first is None else first
        if first is not None and time.monotonic() - first > after:
            break
        time.sleep(0.002)
    ended = process.poll() is not None
    lost = 0.0 if ended else seconds_of(process) - last
    process.kill()
    process.wait()
    contents = [what for _, what in loading._candidates(folder.Folder(path))]
    assert not any(isinstance(x, str) for x in contents)
    return None if ended else lost


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks what a process has computed")
@pytest.mark.parametrize("kind", list(stored_run.RUNS))
def test_kills_lose_an_interval_at_most_and_change_no_bit(tmp_path, kind):
    """Nine kills for each kind of run, 54 in all, at moments that chance decides."""
    every, chosen, lost = 0.2, random.Random(kind), []
    whole = stored_run.run(kind)
    for k in range(8):
        path = tmp_path / f"run{k}"
        lost.append(killed("run", kind, path, every, chosen.uniform(0.0, 1.0)))
        if k == 0:  # and once more
            lost.append(killed("resume", kind, path, every, chosen.uniform(0.0, 0.5)))
        result = stored_run.resume(kind, path)
        same(result, whole)
        assert result.success and not leftovers(path)
        shutil.rmtree(path)
    seconds = np.array([x for x in lost if x is not None])
    print(f"{kind}: {seconds.size} of {len(lost)} killed in time, seconds lost: {seconds.round(3)}")
    assert seconds.size >= 5
    # an interval, a segment of a tenth of a second, and as long again to write it; a process that
    # goes on from a checkpoint has to read its programs first
    assert np.median(seconds) < every + 0.2
    assert seconds.max() < every + 1.0
