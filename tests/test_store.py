"""Programs on disk: what they are kept under, that only whole ones of the user's own are used, and
that a program read is the program that was compiled."""

import enum
import functools
import gc
import io
import itertools
import json
import operator
import os
import random
import subprocess
import sys
import tempfile
import threading
import types
from collections import deque
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import holonax as hx
from holonax.compiler import native, store, trees
from holonax.compiler.fingerprint import Unknown, fingerprint, of_installation
from holonax.compiler.fingerprint import _records as seen_records
from holonax.run import loop

SOURCE = Path(hx.__file__).resolve().parent.parent


def python(program, *, cache="off", **environment):
    """What a process of its own prints as JSON."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "HOLONAX_CACHE": str(cache)} | {
        key: value for key, value in environment.items() if value is not None
    }
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-"], input=program, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def defined(text, name="f", **given):
    """A function from its text, in a module of its own."""
    space = {"__name__": "somebody", "jnp": jnp, "jax": jax, "np": np, **given}
    exec(text, space)
    return space[name]


# What a program is kept under

FUNCTIONS = """
import functools, json
import jax, jax.numpy as jnp
from jax.numpy import sin
import holonax as hx
from holonax.compiler.fingerprint import fingerprint, of_installation
from typing import NamedTuple
g = 9.81
table = {"a": 1.0, "b": (2.0, None)}
class Sizes(NamedTuple):
    long: float = 1.0
    @property
    def half(self): return self.long / 2
def helper(x, *, by=2.0):
    return by * sin(x) if x is not None else {"p", "q", "r"}
def outer(r):
    def f(q, t, p=(1, 2.0)):
        return jnp.array([r * helper(q) - g, table["a"], Sizes(2.0).half])
    return f
system, start = hx.examples.slider_crank()
things = [outer(0.3), functools.partial(outer(0.3), t=1), jax.jit(outer(1.0)), jax.vmap(helper),
          Sizes(3.0), jax.tree.structure((system, start)), Sizes, of_installation()]
print(json.dumps([fingerprint(x) for x in things]))
"""


def test_records_of_plain_values_are_told_apart_by_their_content():
    """They are looked at once, and forgotten with their model."""

    def records(mass, name="b"):
        model = hx.Model()
        model.body(name, mass, (0.01, 0.1, 0.1))
        model.spherical("j", "ground", name, at=(0.5, 0, 0))
        return tuple(model.items.values())

    first = records(1.0)
    key = fingerprint(first)
    assert key == fingerprint(first) == fingerprint(records(1.0))
    assert key != fingerprint(records(2.0)) and key != fingerprint(records(1.0, "c"))
    assert fingerprint((1, 2)) != fingerprint((1, 2.0)) != fingerprint(((1, 2.0),))
    kept = {id(x) for x in first}
    assert kept <= set(seen_records)
    del first
    gc.collect()
    assert not kept & set(seen_records)


def test_equal_functions_have_one_key_in_every_process():
    first = python(FUNCTIONS, PYTHONHASHSEED="1")
    assert first == python(FUNCTIONS, PYTHONHASHSEED="2")
    assert len(set(first)) == len(first)


def test_where_a_function_is_written_does_not_matter():
    text = "f = lambda x: 2.0 * x"
    assert fingerprint(defined(text)) == fingerprint(defined("\n\n" + text))


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("f = lambda x: 2.0 * x", "f = lambda x: 2.5 * x"),
        ("f = lambda x: 0.0 * x", "f = lambda x: -0.0 * x"),
        ("f = lambda x: 1 * x", "f = lambda x: 1.0 * x"),
        ("f = lambda x: x + 2.0", "f = lambda x: x - 2.0"),
        ("f = lambda x: jnp.sin(x)", "f = lambda x: jnp.cos(x)"),
        ("f = (lambda r: lambda x: r * x)(0.3)", "f = (lambda r: lambda x: r * x)(0.31)"),
        ("def f(x, r=0.3): return r * x", "def f(x, r=0.31): return r * x"),
        ("def f(x, *, r=0.3): return r * x", "def f(x, *, r=0.31): return r * x"),
        ("g = 9.81\nf = lambda x: g * x", "g = 9.8\nf = lambda x: g * x"),
        ("g = [1, {'a': 2}]\nf = lambda x: g", "g = [1, {'a': 3}]\nf = lambda x: g"),
        ("h = lambda x: 2 * x\nf = lambda x: h(x)", "h = lambda x: 3 * x\nf = lambda x: h(x)"),
        ("f = lambda x: (lambda y: 2 * y)(x)", "f = lambda x: (lambda y: 3 * y)(x)"),
        ("def f(x): return f.k * x\nf.k = 1.0", "def f(x): return f.k * x\nf.k = 2.0"),
        ("f = np.array([1.0, 2.0])", "f = np.array([1.0, 2.5])"),
        ("f = np.zeros(2)", "f = np.zeros((2, 1))"),
        ("f = slice(0, 2)", "f = slice(0, 3)"),
        ("f = {'a': 1.0}.get", "f = {'a': 2.0}.get"),
        ("f = [1.0].count", "f = [1.0, 2.0].count"),
    ],
)
def test_what_changes_a_function_changes_its_key(text, changed):
    assert fingerprint(defined(text)) == fingerprint(defined(text))
    assert fingerprint(defined(text)) != fingerprint(defined(changed))


class Sized(eqx.Module):
    size: int = eqx.field(static=True)


def test_static_fields_are_in_the_key():
    key = lambda **fields: fingerprint(  # noqa: E731
        jax.tree.structure(hx.GeneralizedAlpha(0.9)), hx.PostStabilized("both", **fields)
    )
    assert key(passes=1) == key(passes=1)
    assert key(passes=1) != key(passes=2)


def test_lambdas_of_one_name_in_this_package_are_told_apart():
    several = {"__name__": "holonax.somewhere"}
    exec("def f(k):\n return (lambda x: x) if k else (lambda x: 2 * x)", several)
    assert fingerprint(several["f"](0)) != fingerprint(several["f"](1))


def test_a_function_is_not_what_it_is_dressed_up_as():
    """`functools.wraps` says that a function is jax's, though its text is the user's."""

    def dressed(k):
        return functools.wraps(jnp.sin)(lambda x: k * jnp.sin(x))

    assert fingerprint(dressed(1.0)) != fingerprint(dressed(2.0))
    once, twice = (
        functools.wraps(jnp.sin)(defined(f"f = lambda x: {k} * jnp.sin(x)")) for k in (1.0, 2.0)
    )
    assert fingerprint(once) != fingerprint(twice)


def test_rules_of_derivatives_are_in_the_key():
    def with_rule(slope):
        f = jax.custom_jvp(defined("f = lambda x: jnp.abs(x)"))
        f.defjvp(defined(f"f = lambda x, dx: (f(*x), {slope} * dx[0])", f=f))
        return f

    try:
        first = fingerprint(with_rule(1.0))
    except Unknown:
        return  # traced in each process: right as well
    assert first != fingerprint(with_rule(2.0))


class Sizes(NamedTuple):
    length: float


class Scaled(Sizes):
    @property
    def half(self):
        return self.length / 2


class Number(float):
    def __mul__(self, other):
        return 3 * other


class Colour(enum.Enum):
    RED = 1


class Anything:
    k = 2.0

    def method(self, x):
        return self.k * x


class Decorated:
    def __init__(self, f, k):
        self.__wrapped__, self.k = f, k

    def __call__(self, x):
        return self.k * self.__wrapped__(x)


def closing(x):
    return lambda q: (x, q)


@pytest.mark.parametrize(
    "thing",
    [
        closing(types.ModuleType("mymodule")),
        closing(Anything()),
        Anything().method,
        Decorated(jnp.sin, 2.0),
        closing(Number(1.0)),
        closing(Colour.RED),
        closing(deque([1.0])),
        closing(itertools.count(3)),
        closing(operator.itemgetter(1)),
        closing(np.random.default_rng(0)),
        closing(bytearray(b"1")),
        closing(float.__add__),
        closing(np.frompyfunc(lambda x: x, 1, 1)),
        closing({Anything}),
        defined("def f(x):\n import mymodule\n return mymodule.k * x"),
        defined("def f(x):\n from .math import sin\n return sin(x)"),
        defined("def f(x): return float(open('k').read()) * x"),
        defined("def f(x): return np.loadtxt('k') * x"),
        defined("def f(x): return eval('k') * x"),
        defined("f = [1.0]\nf.append(f)"),
    ],
)
def test_what_cannot_be_told_has_no_key(thing):
    with pytest.raises(Unknown):
        fingerprint(thing)


def test_methods_of_named_tuples_are_in_the_key():
    def sizes(by):
        text = "class f(NamedTuple):\n x: float\n @property\n def y(self): return self.x / {by}"
        return defined(text.format(by=by), NamedTuple=NamedTuple)

    assert fingerprint(sizes(2)(1.0)) == fingerprint(sizes(2)(1.0))
    assert fingerprint(sizes(2)(1.0)) != fingerprint(sizes(3)(1.0))
    assert fingerprint(jax.tree.structure(sizes(2)(1.0))) != fingerprint(
        jax.tree.structure(sizes(3)(1.0))
    )
    assert fingerprint(Sizes(1.0)) != fingerprint(Scaled(1.0)) != fingerprint((1.0,))


def test_a_formulation_of_the_users_is_known_by_its_methods_or_not_at_all():
    def own(k):
        text = f"class f(hx.Index1):\n def accelerations(self, *x): return {k} * x[0]"
        return jax.tree.structure(defined(text, hx=hx)())

    def key(tree):
        try:
            return fingerprint(tree)
        except Unknown:
            return object()

    assert key(own(1.0)) != key(own(2.0))
    assert key(own(1.0)) != key(jax.tree.structure(hx.Index1()))


def test_settings_of_jax_are_in_the_key():
    usual = of_installation()
    with jax.numpy_dtype_promotion("strict"):
        assert of_installation() != usual
    assert of_installation() == usual


OWN = """
import hashlib, json, sys
import jax.numpy as jnp, holonax as hx
from holonax.compiler import counts
r, L, L1 = {r}, 0.5, 0.3
def squared(x):
    return {power}
system = hx.FunctionSystem(
    mass=lambda q, p: jnp.array([p["J1"], p["J2"], p["m"], p["m"]]),
    force=lambda q, v, t, p: jnp.array([-0.01 * squared(v[0]), 0.0, 0.0, -p["m"] * p["g"]]),
    constraint=lambda q, t, p: jnp.array([r*jnp.cos(q[0]) + L1*jnp.cos(q[1]) - q[2],
                                          r*jnp.sin(q[0]) + L1*jnp.sin(q[1]) - q[3],
                                          (L - L1)*jnp.sin(q[1]) + q[3]]),
    parameters={{"J1": 0.045, "J2": 33/4800, "m": 1.0, "g": 10.0}},
)
start = hx.consistent(system, q=[0.9851, -0.5236, 0.4256, 0.1], hold=[0])
result = hx.simulate(system, start, t_end=0.2, rtol=1e-6)
everything = [result.t, result.q, result.v, result.lam, result.a, *result.drift(),
              *result.at([0.05, 0.111])]
digest = hashlib.sha256(b"".join(jnp.asarray(x).tobytes() for x in everything)).hexdigest()
print(json.dumps([digest, counts.traced, counts.compiled, counts.read]))
"""


@pytest.mark.slow
def test_a_program_read_is_the_program_compiled_and_no_other(tmp_path):
    """Bit by bit, over a run; with other numbers in its functions it is another program."""
    said = {"r": 0.3, "power": "x * abs(x)"}
    fresh, traced, compiled, read = python(OWN.format(**said), cache=tmp_path)
    assert traced == compiled == 4 and read == 0
    assert python(OWN.format(**said), cache=tmp_path) == [fresh, 0, 0, 4]
    for change in ({"r": 0.31}, {"power": "x"}):
        other = OWN.format(**(said | change))
        kept, *_, read = python(other, cache=tmp_path)
        assert read == 0
        assert kept == python(other)[0] != fresh


# Files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty store."""
    monkeypatch.setenv("HOLONAX_CACHE", str(tmp_path))
    store.folder.cache_clear()
    yield tmp_path / "programs"
    store.folder.cache_clear()


KEY = "0" * 64
SAID, CODE = {"layout": [[], [], 0, 1], "tree": "*"}, bytes(range(256))


def files(folder):
    return sorted(x.name for x in folder.iterdir())


def test_what_was_written_is_read(folder):
    assert store.read(KEY) is None
    store.write(KEY, SAID, CODE)
    assert store.read(KEY) == (SAID, CODE)
    assert files(folder) == [f"{KEY}.hxp"]
    assert (folder / f"{KEY}.hxp").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_flipped_bit_is_noticed_wherever_it_is(folder):
    store.write(KEY, SAID, CODE)
    path = folder / f"{KEY}.hxp"
    whole = path.read_bytes()
    chosen = random.Random(0)
    for i in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[i] ^= 1 << chosen.randrange(8)
        path.write_bytes(spoilt)
        assert store.read(KEY) is None, i
        assert not path.exists(), i
    store.write(KEY, SAID, CODE)
    assert store.read(KEY) == (SAID, CODE)


@pytest.mark.parametrize("left", [0, 1, 40, -1])
def test_a_truncated_file_is_deleted(folder, left):
    store.write(KEY, SAID, CODE)
    path = folder / f"{KEY}.hxp"
    path.write_bytes(path.read_bytes()[:left])
    assert store.read(KEY) is None
    assert not path.exists()


def test_something_added_is_noticed(folder):
    store.write(KEY, SAID, CODE)
    path = folder / f"{KEY}.hxp"
    path.write_bytes(path.read_bytes() + b"\0")
    assert store.read(KEY) is None


def test_a_file_under_the_name_of_another_is_deleted(folder):
    store.write(KEY, SAID, CODE)
    other = "1" * 64
    (folder / f"{KEY}.hxp").rename(folder / f"{other}.hxp")
    assert store.read(other) is None
    assert files(folder) == []


def doubled():
    return native(defined("f = lambda x: 2.0 * x + 1.0"), once=True)


def test_a_spoilt_program_is_made_again(folder):
    x = np.arange(3.0)
    for spoil in (lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[:50], lambda b: b""):
        np.testing.assert_array_equal(doubled()(x), 2 * x + 1)
        (path,) = folder.iterdir()
        whole = path.read_bytes()
        path.write_bytes(spoil(whole))
        np.testing.assert_array_equal(doubled()(x), 2 * x + 1)
        assert path.read_bytes() == whole


only_unix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owners")


@only_unix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(folder, mode):
    store.write(KEY, SAID, CODE)
    folder.chmod(mode)
    store.folder.cache_clear()
    assert store.folder() is None
    assert store.read(KEY) is None
    store.write("1" * 64, SAID, CODE)
    assert files(folder) == [f"{KEY}.hxp"]
    np.testing.assert_array_equal(doubled()(np.ones(2)), [3.0, 3.0])


@only_unix
def test_a_folder_of_somebody_else_is_not_used(folder, monkeypatch):
    store.write(KEY, SAID, CODE)
    store.folder.cache_clear()
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert store.folder() is None


@only_unix
def test_a_link_to_a_folder_is_not_used(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert store.folder() is None


@only_unix
def test_a_file_of_somebody_else_is_not_used(folder, tmp_path, monkeypatch):
    """Should the folder be exchanged after it was looked at."""
    store.write(KEY, SAID, CODE)
    path = folder / f"{KEY}.hxp"
    path.chmod(0o666)
    assert store.read(KEY) is None
    path.chmod(0o600)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
        assert store.read(KEY) is None
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert store.read(KEY) is None


def test_the_folder_stays_where_it_is(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLONAX_CACHE", "here")
    store.folder.cache_clear()
    store.write(KEY, SAID, CODE)
    monkeypatch.chdir(tmp_path / "other")
    assert store.read(KEY) == (SAID, CODE)
    store.folder.cache_clear()


def test_a_cache_that_is_off_keeps_nothing(monkeypatch):
    monkeypatch.setenv("HOLONAX_CACHE", "OFF")
    store.folder.cache_clear()
    assert store.folder() is None
    store.write(KEY, SAID, CODE)
    assert store.read(KEY) is None
    store.folder.cache_clear()


WITHOUT = """
import json, holonax as hx
from holonax.compiler import counts, store
system, start = hx.examples.slider_crank()
result = hx.simulate(system, start, 0.05, rtol=1e-6)
print(json.dumps([store.folder() is None, result.success, counts.traced]))
"""


@pytest.mark.slow
def test_a_home_that_cannot_be_written_to_keeps_nothing(tmp_path):
    (tmp_path / "file").write_text("no folder")
    nowhere = str(tmp_path / "file" / "home")
    assert python(WITHOUT, cache="", HOME=nowhere, XDG_CACHE_HOME="") == [True, True, 3]
    assert python(WITHOUT, cache=nowhere) == [True, True, 3]


def test_no_home_keeps_nothing(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HOLONAX_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    store.folder.cache_clear()
    assert store.folder() is None
    store.folder.cache_clear()


@pytest.mark.parametrize("fails", ["replace", "write", "mkstemp"])
def test_a_full_disk_keeps_nothing(folder, monkeypatch, fails):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    class FullFile(io.FileIO):
        write = full

    if fails == "write":
        monkeypatch.setattr(store, "open", FullFile, raising=False)
    else:
        monkeypatch.setattr({"replace": os, "mkstemp": tempfile}[fails], fails, full)
    store.write(KEY, SAID, CODE)
    assert files(folder) == []
    np.testing.assert_array_equal(doubled()(np.ones(2)), [3.0, 3.0])
    assert files(folder) == []


def test_an_interrupted_write_leaves_nothing(folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.write(KEY, SAID, CODE)
    assert files(folder) == []


def test_what_a_killed_process_left_is_deleted_in_time(folder, monkeypatch):
    store.write(KEY, SAID, CODE)
    for name, age in (("new-old", 7200), ("new-young", 10)):
        (folder / name).write_bytes(b"half")
        then = (folder / name).stat().st_mtime - age
        os.utime(folder / name, (then, then))
    monkeypatch.setattr(store, "_written", 0)
    store.write(KEY, SAID, CODE)
    assert files(folder) == [f"{KEY}.hxp", "new-young"]


def test_the_oldest_go_first(folder, monkeypatch):
    for k in range(4):
        store.write(f"{k}", SAID, CODE)
        os.utime(folder / f"{k}.hxp", (1000 * k, 1000 * k))
    assert store.read("0") is not None  # used, so not the oldest any more
    size = (folder / "0.hxp").stat().st_size
    monkeypatch.setattr(store, "_MOST", 3 * size + 10)
    monkeypatch.setattr(store, "_written", 0)
    store.write("4", SAID, CODE)
    assert files(folder) == ["0.hxp", "3.hxp", "4.hxp"]


WRITER = """
import json
from holonax.compiler import store
said, code = {"tree": "*"}, bytes(range(256)) * 400
whole = 0
for _ in range(200):
    store.write("0" * 64, said, code)
    found = store.read("0" * 64)
    assert found is None or found == (said, code)
    whole += found is not None
print(json.dumps(whole))
"""


def test_two_processes_write_at_once(tmp_path):
    whole = []
    run = lambda: whole.append(python(WRITER, cache=tmp_path))  # noqa: E731
    both = [threading.Thread(target=run) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert whole == [200, 200]
    assert files(tmp_path / "programs") == [f"{KEY}.hxp"]


# What a file says of the tree it returns


def test_trees_come_back():
    shape = jax.ShapeDtypeStruct((2,), float)
    tree = {"b": (shape, None), "a": [shape, loop.SegmentCounts(*[shape] * 7), (), {}]}
    said = json.loads(json.dumps(trees.described(tree)))
    again = trees.rebuilt(said, iter(jax.tree.leaves(tree)))
    assert again == tree
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    fixed = [True, "x", 1.5, 3, None]
    assert trees.rebuilt(trees.described(fixed), iter(())) == fixed


def test_arrays_come_back_in_the_order_of_jax():
    tree = {"b": np.ones(1), "a": np.zeros(1)}
    again = trees.rebuilt(trees.described(tree), iter(jax.tree.leaves(tree)))
    assert again["b"] == 1.0 and again["a"] == 0.0


@pytest.mark.parametrize(
    "tree", [Sizes(1.0), {1: 2}, Number(1.0), np.float64(1.0), len, Colour.RED, {1.0}, Sized(1)]
)
def test_other_trees_are_not_described(tree):
    with pytest.raises(trees.Undescribed):
        trees.described(tree)


HOSTILE = [
    {"named": "os:stat_result", "parts": [1]},
    {"named": "antigravity:x", "parts": []},
    {"named": "holonax_evil:x", "parts": []},
    {"named": "holonax.run.loop:np.linalg._linalg.QRResult", "parts": [1, 2]},
    {"named": "holonax.run.loop:jax.tree_util.SequenceKey", "parts": [1]},
    {"named": "holonax.run.storage:os.system", "parts": [{"value": "true"}]},
    {"named": "holonax.run.loop:CompiledLoop", "parts": [{"value": 1}]},
    {"named": "holonax.run.loop:CompiledLoop.__init__", "parts": []},
    {"named": "holonax.system.function:FunctionSystem", "parts": []},
    {"named": "holonax.run.loop:SegmentCounts", "parts": [{"value": 1}]},
    {"named": "holonax.run.loop:SegmentCounts", "parts": {"t": 1}},
    {"named": "holonax.run.loop:", "parts": []},
    {"named": "holonax", "parts": []},
    {"named": "holonax..loop:SegmentCounts", "parts": []},
    {"named": "holonax.../os:x", "parts": []},
    {"named": "holonax.__main__:x", "parts": []},
    {"named": ["holonax.run.loop:SegmentCounts"], "parts": []},
    {"module": "holonax.run.loop:SegmentCounts", "parts": {}},
    {"module": "holonax.run.loop:CompiledLoop", "parts": {}},
    {"module": "holonax.run.loop:_Prepared", "parts": {}},
    {"module": "holonax.formulation:GGL.__class__", "parts": {}},
    {"module": "holonax.system.function:FunctionSystem", "parts": {"__class__": {"value": 1}}},
    {"module": "holonax.run.loop:jax.Array", "parts": {}},
    {"value": {"module": "os"}},
    {"value": [1]},
    {"value": 1, "tuple": []},
    {"tuple": "**"},
    {"list": {"a": 1}},
    {"dict": ["*"]},
    {"call": "os.system"},
    {},
    [],
    None,
    3,
    "**",
]


@pytest.mark.parametrize("description", HOSTILE, ids=json.dumps)
def test_a_hostile_description_is_refused(description):
    before = set(sys.modules)
    with pytest.raises(trees.Undescribed):
        trees.rebuilt(description, itertools.repeat(None))
    packages = {x.partition(".")[0] for x in set(sys.modules) - before}
    assert not packages - {"holonax", "equinox", "diffrax"}


def test_no_function_of_a_class_is_called(monkeypatch):
    """Neither its constructor nor its checks: a description is data."""

    def called(*_, **__):
        raise AssertionError

    monkeypatch.setattr(loop.SegmentCounts, "__new__", called)
    made = trees.rebuilt(
        {"named": "holonax.run.loop:SegmentCounts", "parts": ["*"] * 7}, itertools.repeat(1.0)
    )
    assert type(made) is loop.SegmentCounts and made.t == 1.0
    monkeypatch.setattr(hx.GeneralizedAlpha, "__init__", called)
    fields = hx.GeneralizedAlpha.__dataclass_fields__
    where = f"{hx.GeneralizedAlpha.__module__}:GeneralizedAlpha"
    made = trees.rebuilt(
        {"module": where, "parts": dict.fromkeys(fields, "*")}, itertools.repeat(1.0)
    )
    assert type(made) is hx.GeneralizedAlpha
